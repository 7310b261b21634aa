// The purchases of the customer on this device. New purchases appear by themselves.

import { fill, h, money } from '../dom.js';
import { moment } from '../local-time.js';

export const title = () => 'Purchases';

export function render(root, _params, app) {
  let feed = null;
  const list = h('ul', { class: 'orders', id: 'purchases', 'aria-live': 'polite' });
  const name = h('input', { class: 'input', id: 'customer', autocomplete: 'name', maxlength: 80, value: app.customer.get()?.name || '' });
  const show = (purchases) => fill(list, purchases.length === 0
    ? h('li', { class: 'muted' }, 'Nothing was bought under this name so far.')
    : [...purchases].sort((one, other) => other.cursor - one.cursor).map((purchase) => h('li', { class: 'orders__row', dataset: { order: purchase.order } },
      h('time', { class: 'muted', datetime: purchase.at }, moment(purchase.at, purchase.zone)),
      h('a', { href: `#/order/${purchase.order}` }, `Order ${purchase.order.slice(0, 8)}`),
      h('strong', { class: 'number' }, money(purchase.total.amount, purchase.total.currency)))));
  const begin = () => {
    feed?.stop();
    feed = null;
    const customer = app.customer.get();
    if (!customer) {
      fill(list, h('li', { class: 'muted' }, app.page.customers
        ? 'This box office shows purchases to customers who are signed in. Please come from the page where you sign in.'
        : 'Say your name when you pay, and what you buy is found here.'));
      return;
    }
    fill(list, h('li', { class: 'muted', role: 'status' }, 'Looking …'));
    feed = app.link.watch(`customer/${customer.id}`, {
      snapshot: (now) => show(now.purchases),
      delta: (_, now) => show(now.purchases),
      ended: () => fill(list, h('li', { class: 'muted' }, 'This node shows purchases only to whoever has logged in.')),
    });
  };
  const form = h('form', { class: 'row', onsubmit: (event) => {
    event.preventDefault();
    app.customer.set(name.value);
    begin();
  } }, h('div', { class: 'field' }, h('label', { class: 'field__label', for: 'customer' }, 'Your name on this device'), name), h('button', { class: 'button', id: 'save-customer' }, 'Keep'));
  fill(root, h('div', { class: 'stack stack--wide' },
    h('header', { class: 'desk__head' }, h('div', {}, h('p', { class: 'eyebrow' }, 'Purchases'), h('h1', {}, 'What you bought')), app.page.customers ? null : form),
    list));
  begin();
  const off = app.page.customers ? app.customer.on(begin) : null;
  return () => {
    off?.();
    feed?.stop();
  };
}

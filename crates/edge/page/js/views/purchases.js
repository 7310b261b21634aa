// The purchases of the customer on this device. New purchases appear by themselves.

import { fill, h, money } from '../dom.js';
import { moment } from '../local-time.js';
import { ordered } from '../store.js';

export const title = () => 'Purchases';

export function render(root, _params, app) {
  let feed = null;
  const list = h('ul', { class: 'orders', id: 'purchases', 'aria-live': 'polite' });
  const name = h('input', { class: 'input', id: 'customer', autocomplete: 'name', maxlength: 80, value: app.customer.get()?.name || '' });
  // Orders without a name, or of another name, that were bought on this device.
  const here = h('section', { class: 'stack', hidden: true, 'aria-labelledby': 'here-title' }, h('h2', { class: 'best__title', id: 'here-title' }, 'Bought on this device'));
  const hereList = h('ul', { class: 'orders', id: 'here' });
  here.append(hereList);
  const row = ({ order, at, total, zone }) => h('li', { class: 'orders__row', dataset: { order } },
    h('time', { class: 'muted', datetime: at }, moment(at, zone)),
    h('a', { href: `#/order/${order}` }, `Order ${order.slice(0, 8)}`),
    h('strong', { class: 'number' }, total ? money(total.amount, total.currency) : ''));
  const showHere = (purchases) => {
    const listed = new Set(purchases.map(({ order }) => order));
    const others = ordered().filter(({ id }) => !listed.has(id)).reverse();
    here.hidden = others.length === 0;
    fill(hereList, others.map(({ id, at, total, zone }) => row({ order: id, at, total, zone })));
  };
  const show = (purchases) => {
    fill(list, purchases.length === 0
      ? h('li', { class: 'muted' }, 'Nothing was bought under this name so far.')
      : [...purchases].sort((one, other) => other.cursor - one.cursor).map(row));
    showHere(purchases);
  };
  const begin = () => {
    feed?.stop();
    feed = null;
    showHere([]);
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
      ended: () => fill(list, h('li', { class: 'muted' }, 'Purchases are shown only to whoever has logged in.')),
    });
  };
  const form = h('form', { class: 'row', onsubmit: (event) => {
    event.preventDefault();
    app.customer.set(name.value);
    begin();
  } }, h('div', { class: 'field' }, h('label', { class: 'field__label', for: 'customer' }, 'Your name on this device'), name), h('button', { class: 'button', id: 'save-customer' }, 'Keep'));
  fill(root, h('div', { class: 'stack stack--wide' },
    h('header', { class: 'desk__head' }, h('div', {}, h('p', { class: 'eyebrow' }, 'Purchases'), h('h1', {}, 'What you bought')), app.page.customers ? null : form),
    list, here));
  begin();
  const off = app.page.customers ? app.customer.on(begin) : null;
  return () => {
    off?.();
    feed?.stop();
  };
}

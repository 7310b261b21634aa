// How a cart is paid: recorded as paid elsewhere, or by card, through the script of the payment provider.

import { fill, h, money } from '../dom.js';
import { hex } from '../connection.js';
import { button } from '../parts.js';

/** The payment form of the trial gateway, which has no real cards. */
const TRIAL = '/page/js/pay/trial.js';

/** `pay(body)` gets the body of the checkout, and `stop()` ends a payment under way. `show({total, currency, busy})` updates. */
export function payForm(app, pay, stop) {
  const script = app.page.payment || (app.page.demo ? TRIAL : null);
  const takesCards = app.page.gateway && script !== null;
  let chosen = takesCards ? 'gateway' : 'recorded';
  let sum = null;

  const buyer = buyerOf(app);
  const method = h('select', { class: 'input', id: 'method' }, ['card', 'cash', 'transfer', 'voucher'].map((each) => h('option', { value: each }, each)));
  const transaction = h('input', { class: 'input', id: 'transaction', maxlength: 100, value: `T-${hex(4).toUpperCase()}` });
  const onDecline = h('input', { type: 'checkbox', id: 'keep-on-decline', checked: true });
  const way = (value, text) => h('label', { class: 'choice' }, h('input', { type: 'radio', name: 'way', value, id: `way-${value}`, onchange: () => choose(value), checked: value === chosen }), text);
  const recorded = h('div', { class: 'stack' }, field('Method', method), field('Transaction', transaction, 'What the payment is called where it was made.'));
  const note = h('p', { class: 'notice notice--bad', id: 'card-note', role: 'status', hidden: true });
  const place = h('div', { id: 'card' });
  const gateway = h('div', { class: 'stack' }, place, note, h('label', { class: 'choice' }, onDecline, 'Keep my seats if it is declined'));
  const card = takesCards ? cardIn(place, script, () => sum) : null;
  const choose = (value) => {
    chosen = value;
    recorded.hidden = value !== 'recorded';
    gateway.hidden = value !== 'gateway';
  };
  const go = button('Pay', async () => {
    note.hidden = true;
    try {
      const payment = chosen === 'recorded'
        ? { recorded: { method: method.value, transaction_id: transaction.value.trim() || 'none' } }
        : { gateway: { source: await (await card).source(), on_decline: onDecline.checked ? 'keep' : 'release' } };
      await pay({ payment, customer: buyer.id() });
    } catch (error) {
      // The provider's script says in its own words what is missing.
      note.textContent = error.message || 'The card could not be taken.';
      note.hidden = false;
    }
  }, { class: 'button--main', id: 'pay' });
  const deciding = h('p', { class: 'notice notice--warn', id: 'deciding', role: 'status', hidden: true }, 'The payment is being decided …');
  const halt = button('Stop this payment', stop, { class: 'button--quiet', id: 'stop-paying' });
  halt.hidden = true;
  const noCards = app.page.gateway && !takesCards ? h('p', { class: 'muted small', id: 'no-cards' }, 'This page takes no cards.') : null;
  const element = h('section', { class: 'card pay', 'aria-labelledby': 'pay-title' },
    h('h2', { class: 'best__title', id: 'pay-title' }, 'Pay'),
    buyer.element,
    takesCards ? h('fieldset', { class: 'pay__ways' }, h('legend', { class: 'field__label' }, 'How'), way('gateway', 'Card, by the gateway'), way('recorded', 'Paid elsewhere')) : noCards,
    gateway, recorded, deciding, go, halt);
  choose(chosen);
  const show = ({ total, currency, busy }) => {
    sum = { total, currency };
    go.textContent = currency ? `Pay ${money(total, currency)}` : 'Pay';
    deciding.hidden = !busy;
    halt.hidden = !busy;
  };
  return { element, show };
}

function field(label, control, hint) {
  return h('div', { class: 'field' }, h('label', { class: 'field__label', for: control.id }, label), control, hint && h('p', { class: 'field__hint' }, hint));
}

/** The buyer: a name that stays here or, if customers have tokens, the signed-in customer. */
function buyerOf(app) {
  if (!app.page.customers) {
    // A cart that holds what is limited per customer has its customer already.
    const known = app.cart.current?.customer;
    const name = h('input', { class: 'input', id: 'customer', autocomplete: 'name', maxlength: 80, value: app.customer.get()?.name || '', readonly: Boolean(known) });
    const element = field('Your name', name, 'Stays on this device; it finds your purchases again.');
    return { element, id: () => app.cart.current?.customer ?? app.customer.set(name.value)?.id };
  }
  const known = app.customer.get();
  const text = known ? `You buy as ${known.name}.` : 'You are not signed in: you can buy, but will not find the order among your purchases.';
  return { element: h('p', { class: 'muted', id: 'buyer' }, text), id: () => app.customer.get()?.id };
}

/** The form that the provider's script puts into its place: {source()}. */
async function cardIn(place, script, sum) {
  try {
    const { default: mount } = await import(script);
    return await mount(place, { sum, language: document.documentElement.lang || 'en' });
  } catch (error) {
    fill(place, h('p', { class: 'notice notice--bad' }, 'The page of the payment provider could not be loaded. Please try again later.'));
    throw error;
  }
}

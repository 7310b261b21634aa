// How a cart is paid: written down as paid elsewhere, or through the gateway.

import { h, money } from '../dom.js';
import { hex } from '../connection.js';
import { button } from '../parts.js';

/** What the gateway for trials does, by the source it is given (docs/payments.md). */
const OUTCOMES = [
  ['ok', 'Approve'],
  ['decline', 'Decline'],
  ['late-4000', 'Decide after four seconds'],
  ['lost-2', 'Approve, but lose two answers'],
  ['capture-fails', 'Approve, then fail to take the money'],
];

/** `pay(body)` gets the body of the checkout. `show({total, currency, busy})` updates. */
export function payForm(app, pay) {
  const known = app.customer.get();
  const name = h('input', { class: 'input', id: 'customer', autocomplete: 'name', maxlength: 80, value: known?.name || '' });
  const method = h('select', { class: 'input', id: 'method' }, ['card', 'cash', 'transfer', 'voucher'].map((each) => h('option', { value: each }, each)));
  const transaction = h('input', { class: 'input', id: 'transaction', maxlength: 100, value: `T-${hex(4).toUpperCase()}` });
  const source = h('select', { class: 'input', id: 'source' }, OUTCOMES.map(([value, text]) => h('option', { value }, `${text} (${value})`)));
  const onDecline = h('input', { type: 'checkbox', id: 'keep-on-decline', checked: true });
  const way = (value, text) => h('label', { class: 'choice' }, h('input', { type: 'radio', name: 'way', value, id: `way-${value}`, onchange: () => choose(value), checked: value === chosen }), text);
  let chosen = app.page.gateway ? 'gateway' : 'recorded';
  const field = (label, control, hint) => h('div', { class: 'field' }, h('label', { class: 'field__label', for: control.id }, label), control, hint && h('p', { class: 'field__hint' }, hint));

  const recorded = h('div', { class: 'stack' }, field('Method', method), field('Transaction', transaction, 'What the payment is called where it was made.'));
  const gateway = h('div', { class: 'stack' }, field('The gateway for trials shall …', source), h('label', { class: 'choice' }, onDecline, 'Keep my seats if it is declined'));
  const choose = (value) => {
    chosen = value;
    recorded.hidden = value !== 'recorded';
    gateway.hidden = value !== 'gateway';
  };
  const go = button('Pay', () => {
    const customer = app.customer.set(name.value);
    const payment = chosen === 'recorded'
      ? { recorded: { method: method.value, transaction_id: transaction.value.trim() || 'none' } }
      : { gateway: { source: source.value, on_decline: onDecline.checked ? 'keep' : 'release' } };
    return pay({ payment, customer: customer?.id });
  }, { class: 'button--main', id: 'pay' });
  const deciding = h('p', { class: 'notice notice--warn', id: 'deciding', role: 'status', hidden: true }, 'The payment is being decided …');
  const element = h('section', { class: 'card pay', 'aria-labelledby': 'pay-title' },
    h('h2', { class: 'best__title', id: 'pay-title' }, 'Pay'),
    field('Your name', name, 'Stays on this device; it finds your purchases again.'),
    app.page.gateway ? h('fieldset', { class: 'pay__ways' }, h('legend', { class: 'field__label' }, 'How'), way('gateway', 'Card, by the gateway'), way('recorded', 'Paid elsewhere')) : null,
    gateway, recorded, deciding, go);
  choose(chosen);
  const show = ({ total, currency, busy }) => {
    go.textContent = currency ? `Pay ${money(total, currency)}` : 'Pay';
    deciding.hidden = !busy;
  };
  return { element, show };
}

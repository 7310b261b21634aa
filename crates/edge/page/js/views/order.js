// An order: what was bought, and the state of its payment.

import { fill, h, money } from '../dom.js';
import { explain } from '../explain.js';
import { lineElement } from '../lines.js';
import { moment } from '../local-time.js';

const AGAIN_MS = 700;
const AGAIN_MOST = 30;

const STATES = {
  recorded: ['Paid', 'good'], authorized: ['Authorized, the money is being taken', 'warn'],
  captured: ['Paid', 'good'], capture_failed: ['The money could not be taken', 'bad'],
};

const REFUNDS = { recorded: 'Refunded', refunded: 'Refunded', pending: 'On its way back to you since', failed: 'The refund has not reached you; begun' };

/** Refunds that are not, or not yet, the buyer's money. */
const NOT_BACK = new Set(['failed']);

/** What the head of an order says: [above, heading]. */
const HEADS = {
  paid: ['Thank you', 'Enjoy the evening'],
  refunded: ['This order is refunded', 'It is no ticket any more'],
  partly: ['A part of this order is refunded', 'The rest is yours'],
  unpaid: ['This order is not paid', 'Please ask at the box office'],
};

export const title = () => 'Order';

export function render(root, { id }, app) {
  let timer = null;
  let over = false;
  let shown = '';
  const read = async (times) => {
    try {
      const order = await app.link.request('order.get', { order: id });
      if (over) return;
      const text = JSON.stringify(order);
      if (text !== shown) show(root, order, app);
      shown = text;
      const open = order.settling || order.payment_status?.state === 'authorized';
      if (open && times < AGAIN_MOST) timer = setTimeout(() => read(times + 1), AGAIN_MS);
    } catch (error) {
      if (!over && !shown) fill(root, h('div', { class: 'notice notice--warn', id: 'missing' }, explain(error)), h('p', {}, h('a', { href: '#/purchases' }, 'To your purchases')));
    }
  };
  root.append(h('p', { class: 'loading', role: 'status' }, 'Reading the order …'));
  read(0);
  return () => {
    over = true;
    clearTimeout(timer);
  };
}

/** Whether an order is paid, refunded, partly so, or was never paid; and the lines that are refunded. */
function outcomeOf(order) {
  const back = (order.refunds || []).filter(({ status }) => !NOT_BACK.has(status?.state));
  const lines = new Set(back.flatMap((refund) => refund.lines || []));
  const sum = back.reduce((all, { amount }) => all + amount.amount, 0);
  const isAll = back.length > 0 && (order.lines.every(({ line }) => lines.has(line)) || (order.total.amount > 0 && sum >= order.total.amount));
  const isUnpaid = order.payment_status?.state === 'capture_failed';
  return { lines, is: isAll ? 'refunded' : isUnpaid ? 'unpaid' : back.length > 0 ? 'partly' : 'paid' };
}

function show(root, order, app) {
  const { amount, currency } = order.total;
  const { is, lines } = outcomeOf(order);
  const [above, heading] = HEADS[is];
  const state = STATES[order.payment_status?.state] || [order.payment_status?.state || '', ''];
  const [words, tone] = { refunded: ['Refunded', 'warn'], partly: ['Partly refunded', 'warn'] }[is] || state;
  const recorded = order.payment?.recorded;
  const facts = [
    ['Order', h('span', { class: 'number', id: 'order-id' }, order.id)],
    ['Bought', moment(order.at, zoneOf(order))],
    ['Payment', recorded ? `${recorded.method}, ${recorded.transaction_id}` : order.payment?.gateway ? 'by the gateway' : '—'],
    order.customer && ['Customer', order.customer],
  ].filter(Boolean);
  const status = h('span', { class: `badge badge--${tone}`, id: 'payment', dataset: { state: order.payment_status?.state } }, words);
  const reason = order.payment_status?.reason;
  const goneOf = (line) => (lines.has(line.line) ? h('span', { class: 'badge badge--warn' }, 'refunded') : null);
  fill(root, h('article', { class: 'ticket', id: 'order', dataset: { order: order.id, is, settling: String(Boolean(order.settling)) } },
    h('header', { class: 'ticket__head' }, h('p', { class: 'eyebrow' }, above), h('h1', {}, heading)),
    h('div', { class: 'ticket__body stack' },
      h('ul', { class: 'lines' }, order.lines.map((line) => lineElement(app, line, currency, goneOf))),
      h('p', { class: 'total' }, h('span', {}, 'Total'), h('strong', { class: 'total__sum', id: 'order-total' }, money(amount, currency))),
      h('p', { class: 'row' }, status, order.settling ? h('span', { class: 'badge badge--warn' }, 'settling …') : null, reason ? h('span', { class: 'muted small' }, reason) : null),
      refunds(order),
      h('dl', { class: 'facts' }, facts.flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, value)])),
      h('p', { class: 'row ticket__ways' }, h('button', { class: 'button', id: 'print', type: 'button', onclick: () => print() }, 'Print'), h('a', { class: 'button', href: '#/purchases' }, 'Your purchases'), h('a', { class: 'button button--quiet', href: '#/' }, 'To the programme')))));
}

/** The zone in which the order's own times are told, which is that of its first line that has one. */
function zoneOf(order) {
  return order.lines.find((line) => line.zone)?.zone;
}

function refunds(order) {
  if (!order.refunds?.length) return null;
  return h('div', { class: 'notice notice--warn', id: 'refunds' }, order.refunds.map((refund) => h('p', {},
    `${REFUNDS[refund.status?.state] || 'Refunded'} on ${moment(refund.at, zoneOf(order))}: ${money(refund.amount.amount, refund.amount.currency)}${refund.reason ? ` (${refund.reason})` : ''}`)));
}

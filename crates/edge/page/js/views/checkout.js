// The cart: what is held, for how long, and its payment.

import { countdown, fill, h, money } from '../dom.js';
import { explain } from '../explain.js';
import { amountOf, lineElement, seatName } from '../lines.js';
import { typesIn, withCodeIn } from '../offers.js';
import { button, noteBox, stepper } from '../parts.js';
import { payForm } from './checkout-pay.js';

const SOON_MS = 60_000;

export const title = () => 'Cart';

export function render(root, _params, app) {
  const view = new CartView(root, app);
  return () => view.stop();
}

class CartView {
  constructor(root, app) {
    Object.assign(this, { root, app });
    this.note = noteBox('cart-note');
    this.heading = h('h1', { id: 'cart-title' }, 'Held for you');
    this.lines = h('ul', { class: 'lines', id: 'lines' });
    this.taken = h('div', { id: 'taken' });
    this.total = h('div', { class: 'total', id: 'total' });
    this.left = h('span', { class: 'timer__left', id: 'countdown' });
    this.timer = h('p', { class: 'timer', role: 'timer', 'aria-label': 'Time left' }, this.left, h('span', { class: 'muted' }, 'left'));
    this.keep = h('div', {});
    this.pay = payForm(app, (body) => this.checkout(body), () => this.act(() => app.cart.stopPaying()));
    this.full = h('div', { class: 'desk' },
      h('section', { 'aria-label': 'What is held' }, this.lines, this.total, h('div', { class: 'row row--apart' }, this.keep,
        button('Give everything back', () => this.act(() => app.cart.cancel()), { class: 'button--quiet', id: 'give-back' }))),
      this.pay.element);
    this.empty = h('div', { class: 'empty', id: 'empty' });
    fill(root,
      h('div', { class: 'desk__head' }, h('div', {}, h('p', { class: 'eyebrow' }, 'Your cart'), this.heading), this.timer),
      this.note.element, this.taken, this.full, this.empty);
    this.off = app.cart.on('change', () => this.show());
    this.ticking = setInterval(() => this.tick(), 250);
    this.show();
  }

  stop() {
    this.off();
    clearInterval(this.ticking);
  }

  show() {
    const { cart } = this.app;
    const { lines } = cart;
    const holds = lines.length > 0;
    this.showTaken(cart.current?.total?.currency || '');
    const hadFocus = this.full.contains(document.activeElement);
    this.full.hidden = !holds;
    this.timer.hidden = !holds;
    this.empty.hidden = holds;
    // An expired cart is not held.
    this.heading.textContent = holds ? 'Held for you' : cart.expired ? 'Your time ran out' : 'Nothing is held';
    if (!holds) {
      this.showEmpty();
      if (hadFocus) this.empty.querySelector('a, button')?.focus({ preventScroll: true });
      return;
    }
    const currency = cart.current.total?.currency || '';
    const { activeElement } = document;
    const focused = this.lines.contains(activeElement) ? activeElement.dataset.focus || '' : null;
    fill(this.lines, lines.map((line) => lineElement(this.app, line, currency, (each) => this.controls(each))));
    // Where what had the focus is gone, the next control has it.
    if (focused !== null) ((focused && this.lines.querySelector(`[data-focus="${focused}"]`)) || this.lines.querySelector('button'))?.focus({ preventScroll: true });
    const sum = cart.current.total?.amount ?? lines.reduce((all, line) => all + amountOf(line), 0);
    fill(this.total, h('span', {}, 'Total'), h('strong', { class: 'total__sum' }, currency ? money(sum, currency) : ''));
    fill(this.keep, cart.canKeep()
      ? button('Keep it longer', () => this.act(() => cart.keep()), { class: 'button--small', id: 'keep' })
      : h('p', { class: 'muted small' }, 'The clock starts anew whenever you add or give back something.'));
    this.pay.show({ total: sum, currency, busy: cart.current.state === 'checking_out' });
    this.tick();
  }

  /** Lines that were taken away stay in sight, with the reason. */
  showTaken(currency) {
    const { taken } = this.app.cart;
    if (taken.length === 0) {
      fill(this.taken);
      return;
    }
    const why = ({ by, reason }) => h('p', { class: 'muted small' }, `${by === 'session' ? 'It does not take place' : 'The box office took it back'}${reason ? `: ${reason}` : '.'}`);
    fill(this.taken,
      h('p', { class: 'notice notice--warn', role: 'status' }, 'No longer in your cart:'),
      h('ul', { class: 'lines' }, taken.map((each) => lineElement(this.app, each.line, currency, () => why(each)))));
  }

  showEmpty() {
    const { cart } = this.app;
    if (!cart.expired) {
      fill(this.empty, h('p', { class: 'muted' }, 'Nothing is held at the moment.'), h('a', { class: 'button button--main', href: '#/' }, 'To the programme'));
      return;
    }
    const { expired } = cart;
    fill(this.empty,
      h('p', { class: 'muted', id: 'expired' }, 'What you held is free again. With luck nobody has taken it yet.'),
      h('ul', { class: 'lines' }, expired.map((line) => lineElement(this.app, line, ''))),
      button('Hold it again', () => this.act(() => cart.holdAll(expired.map((line) => wanted(line, cart.codes)))), { class: 'button--main', id: 'hold-again' }),
      h('a', { href: '#/' }, 'To the programme'));
  }

  controls(line) {
    const { cart } = this.app;
    const release = (seats) => this.act(() => cart.release(line.line, seats));
    const whole = button(line.seats?.length === 1 ? 'Give it back' : 'Give back', () => release(), { class: 'button--quiet button--small', 'data-act': 'release' });
    if (line.seats && line.seats.length > 1) {
      return [h('ul', { class: 'chips' }, line.seats.map((seat, number) => this.seatChip(line, seat, line.prices?.[number], release))), whole];
    }
    if (line.quantity) {
      const count = stepper({ value: line.quantity, max: line.late ? 100 : 20, label: 'Quantity', onchange: (value) => this.act(() => cart.setQuantity(line.line, value)) });
      count.element.querySelectorAll('button').forEach((each, index) => { each.dataset.focus = `${line.line}-${index}`; });
      return [count.element, whole];
    }
    return whole;
  }

  seatChip(line, seat, price, release) {
    const name = h('span', {});
    const type = h('span', { class: 'chip__as' });
    const currency = this.app.cart.current?.total?.currency;
    const cost = price !== undefined && currency ? h('span', { class: 'chip__price number' }, money(price, currency)) : null;
    const away = h('button', { class: 'chip__away', type: 'button', dataset: { focus: `away-${line.line}-${seat.join('-')}` }, onclick: () => release([seat]) }, '×');
    seatName(this.app, line.session, seat, (text, as) => {
      name.textContent = text;
      type.textContent = as(line, line.seats.indexOf(seat));
      away.setAttribute('aria-label', `Give back ${text}`);
    });
    return h('li', { class: 'chip', dataset: { seat: seat.join(',') } }, name, type, cost, away);
  }

  async act(change) {
    this.note.clear();
    try {
      await change();
    } catch (error) {
      this.note.show('bad', explain(error));
      this.app.cart.look();
      this.show();
    }
  }

  async checkout(body) {
    this.note.clear();
    try {
      const order = await this.app.cart.checkout(body);
      // The feed may have been faster. Then the order is shown already, and the buyer may have gone on from there.
      if (location.hash === '#/cart') this.app.go(`#/order/${order.id}`);
    } catch (error) {
      // Another card was tried while the first payment is undecided. The first one may still buy.
      if (error.name2 === 'cart_not_active' && this.app.cart.isPaying()) error.name2 = 'payment_pending';
      const tone = ['payment_pending', 'checkout_canceled'].includes(error.name2) || error.kind === 'fail' ? 'warn' : 'bad';
      const more = {
        payment_declined: body.payment.gateway?.on_decline === 'keep' ? ' Your seats are still held; you may try another way.' : ' What you held was given back.',
        checkout_withdrawn: ' See below what is gone. You can pay for the rest.',
        checkout_canceled: ' You can pay in another way, or give everything back.',
        payment_pending: ' We keep what you hold until it is decided, and show your order here then.',
      }[error.name2];
      this.note.show(tone, h('p', { id: 'pay-note', dataset: { refusal: error.name2 } }, explain(error), more));
      this.app.cart.look();
    }
  }

  tick() {
    const left = this.app.cart.remaining();
    if (left === null) return;
    const text = countdown(left);
    if (this.left.textContent !== text) this.left.textContent = text;
    this.timer.dataset.soon = left < SOON_MS;
  }
}

/** Of a line, what its buyer asked for. The rest was added by the cart, and a hold takes no fields that it does not know. */
const ASKED = ['session', 'seats', 'area', 'quantity', 'product', 'resource', 'begin', 'end', 'details', 'note', 'types', 'code'];

/** The body of a hold of an expired line. What was bought with a code is asked for with it, if the page still knows it. */
function wanted(line, codes) {
  const asked = { ...line, types: typesIn(line), code: withCodeIn(line).length > 0 ? codes.get(line.session) : undefined };
  return Object.fromEntries(ASKED.filter((name) => asked[name] !== undefined).map((name) => [name, asked[name]]));
}

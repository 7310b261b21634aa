// The cart of this device: its token, its contents as its feed shows them, and the commands that change it.

import { tokenFor } from './cart-token.js';
import { AT, newRid } from './connection.js';
import { read, write } from './store.js';

/** How long a command on a cart is repeated before the page says that the outcome is unknown. */
const COMMAND_WITHIN_MS = 20_000;
/** How long a buyer who has just chosen stays at the page. An overloaded node begins no purchase that would take longer. */
const BUYER_STAYS_MS = 300_000;
/** How long to wait for the feed to show a change. After that the page reads the cart. */
const SHOWN_WITHIN_MS = 1_500;
/** An answer that took longer is too imprecise to compare clocks. */
const CLOCKS_WITHIN_MS = 2_000;

export class Cart {
  constructor(link, say) {
    this.link = link;
    this.say = say;
    /** {id, state, lines, total, deadline, …} as the server has it. Null if nothing is held yet. */
    this.current = null;
    /** Lines that expired, until the next hold. */
    this.expired = null;
    /** A checkout whose outcome is not known: {token, said, body, rid}. */
    this.unsettled = null;
    this.listeners = new Map();
    this.watching = null;
    this.version = 0;
    const kept = read('cart');
    /** Made by the first hold, in the shard of what it holds. Null before. */
    this.token = kept?.token || null;
    this.id = kept?.id || null;
    /** The difference between the clock of the cart's leader and this device's. If null, the node's clock is used. */
    this.offset = kept?.offset ?? null;
  }

  keepToken() {
    write('cart', { token: this.token, id: this.id, offset: this.offset });
  }

  /** Follows the cart that this device had. */
  async start() {
    addEventListener('storage', (event) => event.key === 'boxoffice.cart' && this.otherPage());
    this.link.on('hello', () => this.look());
    if (this.id) this.watch();
  }

  /** Reads the cart after each reconnect, because the last state of its feed may be old. */
  async look() {
    if (!this.id) return;
    const { token } = this;
    try {
      const cart = await this.link.request('cart.get', { token });
      if (token === this.token) this.show(cart);
    } catch (error) {
      if (token === this.token && error.kind === 'no') this.over(error.name2);
    }
  }

  /** Another page of this browser has changed the token. */
  otherPage() {
    const kept = read('cart');
    if (!kept || kept.token === this.token) {
      if (kept?.id && !this.id) {
        this.id = kept.id;
        this.watch();
      }
      return;
    }
    this.forget(kept.token, kept.id);
    if (this.id) this.watch();
  }

  on(event, listener) {
    const all = this.listeners.get(event) || new Set();
    this.listeners.set(event, all.add(listener));
    return () => all.delete(listener);
  }

  emit(event, value) {
    for (const listener of [...(this.listeners.get(event) || [])]) listener(value);
  }

  /** The lines that are held. */
  get lines() {
    return this.current?.lines || [];
  }

  /** Lines that were taken away, with the reason. */
  get taken() {
    return this.current?.taken || [];
  }

  /** How many seats, places, units and slots are held. */
  count() {
    return this.lines.reduce((sum, line) => sum + (line.seats?.length ?? line.quantity ?? 1), 0);
  }

  /** Milliseconds until the held lines are released. Null if nothing is held. */
  remaining() {
    if (!this.current || this.lines.length === 0 || !this.current.deadline) return null;
    const now = this.offset === null ? this.link.now() : Date.now() + this.offset;
    return Math.max(0, Date.parse(this.current.deadline) - now);
  }

  /** The seats of a session that are in the cart, as [row, seat]. */
  seatsOf(session) {
    return this.lines.filter((line) => line.session === session && line.seats).flatMap((line) => line.seats);
  }

  // What is held

  holdSeats(session, seats) {
    return this.hold('cart.hold_seats', { session, seats });
  }

  /** `wanted`: {count, category, section, accessible, split}. */
  holdBest(session, wanted) {
    return this.hold('cart.hold_best', { session, ...wanted });
  }

  holdPlaces(session, area, quantity) {
    return this.hold('cart.hold_places', { session, area, quantity });
  }

  holdStock(product, quantity) {
    return this.hold('cart.hold_stock', { product, quantity });
  }

  holdSlot(resource, begin, end) {
    return this.hold('cart.hold_slot', { resource, begin, end });
  }

  /** `lines`: each with the fields of one of the above. */
  holdAll(lines) {
    return this.hold('cart.hold_all', { lines });
  }

  setQuantity(line, quantity) {
    return this.change('cart.set_quantity', { line, quantity });
  }

  /** Releases a line, or some of its seats. */
  release(line, seats) {
    return this.change('cart.release', { line, seats });
  }

  /** Releases everything and ends the cart. */
  async cancel() {
    await this.command('cart.cancel', {});
    this.forget();
  }

  /** Whether the hold time can be restarted without changing the lines. */
  canKeep() {
    return this.lines.some((line) => line.quantity);
  }

  /** Restarts the hold time. Setting a line to its own quantity counts as use. */
  keep() {
    const line = this.lines.find((each) => each.quantity);
    return this.setQuantity(line.line, line.quantity);
  }

  /**
   * Pays. Returns the order, or throws a refusal. Only what the page shows is bought. While the outcome of one checkout is not
   * known, a repeat with the same card is the same request, and another card is another request.
   */
  async checkout(body) {
    const { token } = this;
    const said = JSON.stringify(body);
    const again = this.unsettled?.token === token && this.unsettled.said === said;
    const paying = again ? this.unsettled : { token, said, body: this.expecting(body), rid: newRid() };
    this.paying = true;
    try {
      const order = await this.command('cart.checkout', paying.body, paying.rid);
      this.unsettled = null;
      if (token === this.token) this.forget();
      return order;
    } catch (error) {
      const open = error.kind === 'fail' || error.name2 === 'payment_pending';
      if (open) this.unsettled = paying;
      else if (again) this.unsettled = null;
      throw error;
    } finally {
      this.paying = false;
    }
  }

  /** The body of a checkout of the shown lines, with their version and the amount that was paid elsewhere. */
  expecting(body) {
    const { lines_version: lines, total } = this.current || {};
    const recorded = body.payment.recorded && total ? { recorded: { ...body.payment.recorded, amount: total } } : {};
    return { ...body, payment: { ...body.payment, ...recorded }, ...(lines === undefined ? {} : { expect: { lines } }) };
  }

  /** Ends a payment that is not decided yet. The cart goes on, and nothing is charged. */
  async stopPaying() {
    await this.change('cart.checkout_cancel', {});
    this.unsettled = null;
  }

  /** Whether a payment is under way. */
  isPaying() {
    return this.current?.state === 'checking_out';
  }

  /** Stores the token before it is sent, so that a page that is reloaded meanwhile continues with this cart. */
  begin(body) {
    if (this.token) return;
    // Another page of this browser may have begun a cart just now.
    const kept = read('cart');
    this.token = kept?.token || tokenFor(body);
    this.id = kept?.id || null;
    this.keepToken();
  }

  async hold(op, body) {
    this.expired = null;
    this.begin(body);
    const asked = Date.now();
    const fresh = this.current === null;
    let ok;
    try {
      ok = await this.command(op, body, undefined, BUYER_STAYS_MS);
    } catch (error) {
      // The cart of this device is over (expired, or paid in another page), so another one begins.
      if ((error.name2 !== 'cart_expired' && error.name2 !== 'cart_not_active') || this.isPaying()) throw error;
      this.forget();
      this.begin(body);
      ok = await this.command(op, body, undefined, BUYER_STAYS_MS);
    }
    const answered = Date.now();
    this.id = ok.cart;
    this.keepToken();
    this.watch();
    await this.shown(ok);
    if (fresh) this.compareClocks(asked, answered);
    return ok;
  }

  /** Compares the clocks. The cart was opened between these times, by the clock that its deadlines use. */
  compareClocks(asked, answered) {
    if (!this.current?.opened_at || answered - asked > CLOCKS_WITHIN_MS) return;
    this.offset = Date.parse(this.current.opened_at) - (asked + answered) / 2;
    this.keepToken();
    this.emit('change', this.current);
  }

  async change(op, body) {
    const cart = await this.command(op, body);
    this.show(cart, versionIn(cart));
    return cart;
  }

  command(op, body, rid = newRid(), patience = undefined) {
    return this.link.request(op, { token: this.token, ...body }, { rid, deadline: COMMAND_WITHIN_MS, patience });
  }

  /** Waits until the feed shows the version of an answer. */
  shown(ok) {
    const version = versionIn(ok);
    if (version === 0 || (this.current && this.version >= version)) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        off();
        resolve();
      };
      const timer = setTimeout(() => this.look().then(done), SHOWN_WITHIN_MS);
      const off = this.on('change', () => this.version >= version && done());
    });
  }

  // Its feed

  watch() {
    if (this.watching) return;
    const { token } = this;
    const mine = (show) => (value, current) => token === this.token && show(value, current);
    this.watching = this.link.watch(`cart/${this.id}`, {
      snapshot: mine((now) => this.show(now.cart, now.version)),
      delta: mine((_, now) => this.show(now.cart, now.version)),
      ended: mine(({ name }) => this.over(name)),
    }, { token });
  }

  show(cart, version) {
    if (version && version < this.version) return;
    if (version) this.version = version;
    this.id = cart.id;
    const before = this.current;
    if (cart.state === 'expired') {
      this.over('cart_expired', before);
      return;
    }
    if (cart.state === 'done' || cart.state === 'canceled') {
      this.forget();
      if (cart.state === 'done') this.emit('done', cart);
      // The view that waits for the checkout shows the decline itself.
      else if (cart.ended?.why === 'declined' && !this.paying) {
        this.say('The payment was declined, and what you held is free again.', 'bad');
      }
      return;
    }
    this.current = cart;
    this.emit('change', cart);
  }

  over(name, before = this.current) {
    if (name === 'cart_expired' && !this.expired) {
      const lines = before?.lines || [];
      this.forget();
      if (lines.length > 0) {
        this.expired = lines;
        this.say('Your time ran out, and what you held is free again.', 'bad');
        this.emit('change', null);
      }
      return;
    }
    // Its last state was handled before, or the cart no longer exists.
    this.forget();
  }

  /** Forgets the cart. The next hold begins another one, or another page has begun it. */
  forget(token = null, id = null) {
    this.watching?.stop();
    this.watching = null;
    this.token = token;
    this.id = id;
    this.current = null;
    this.version = 0;
    this.offset = null;
    this.keepToken();
    this.emit('change', null);
  }
}

function versionIn(ok) {
  const mine = (ok[AT] || []).find(({ entity }) => entity.startsWith('cart/'));
  return mine?.version || 0;
}

// The cart of this device: its token, its contents as its feed shows them, and the commands that change it.

import { tokenFor } from './cart-token.js';
import { AT, RequestError, newRid } from './connection.js';
import { read, remember, write } from './store.js';

/** How long a command on a cart is repeated before the page says that the outcome is unknown. */
const COMMAND_WITHIN_MS = 20_000;
/** How long a buyer who has just chosen stays at the page. An overloaded node begins no purchase that would take longer. */
const BUYER_STAYS_MS = 300_000;
/** How long to wait for the feed to show a change. After that the page reads the cart. */
const SHOWN_WITHIN_MS = 1_500;
/** How often, and after what times, a cart is looked for whose first hold may still be on its way. */
const LOOKS_AGAIN = 3;
const LOOK_AGAIN_MS = 3_000;
/** How often a hold is tried when other pages of this browser end its cart, or begin others. */
const HOLD_TRIES = 4;
/** States in which a cart can hold nothing any more. */
const ENDED = new Set(['done', 'canceled', 'expired']);
/** An answer that took longer is too imprecise to compare clocks. */
const CLOCKS_WITHIN_MS = 2_000;

/** Whether a hold needs to know its customer. A list of lines may have other refusals before. */
export const needsCustomer = ({ name2, details }) => [{ name: name2 }, ...(details?.lines || [])].some(({ name }) => name === 'customer_needed');

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
    /** The id of the customer on this device, if one is known. */
    this.buyer = () => null;
    /** The buyer's code of each session, which its holds show. Kept only here, so a reload forgets it. */
    this.codes = new Map();
  }

  /** Follows the cart that this device had. */
  async start() {
    addEventListener('storage', (event) => event.key === 'boxoffice.cart' && this.follow());
    this.link.on('hello', () => this.look());
    if (this.id) this.watch();
  }

  /**
   * Reads the cart after each reconnect, because the last state of its feed may be old. The page may have been reloaded before the
   * first hold was answered. Then the token is all that it knows.
   */
  async look(again = LOOKS_AGAIN) {
    const { token, id } = this;
    if (!token) return;
    try {
      const cart = await this.link.request('cart.get', { token });
      this.follow();
      if (token === this.token) this.show(cart, versionIn(cart), token);
    } catch (error) {
      this.follow();
      if (token !== this.token || error.kind !== 'no') return;
      // The first hold may still be on its way, so its token is kept.
      if (id || error.name2 !== 'not_found') this.over(error.name2, token);
      else if (again > 0) setTimeout(() => this.look(again - 1), LOOK_AGAIN_MS);
    }
  }

  // The cart of the device. All pages of this browser have the same one, whose token is in the storage.

  /** Another page of this browser may have begun another cart, or ended this one. */
  follow() {
    const kept = read('cart');
    if (kept && kept.token === this.token) {
      if (kept.id && !this.id) {
        this.id = kept.id;
        this.watch();
      }
      return;
    }
    // Without a token in the storage the next hold of any page begins a cart. Until then this page follows its own to the end.
    if (kept?.token) this.drop(kept);
  }

  /** Stores the token of this page's cart, unless another page has begun another cart meanwhile. */
  keepToken() {
    const kept = read('cart');
    if (kept?.token && kept.token !== this.token) this.drop(kept);
    else write('cart', { token: this.token, id: this.id, offset: this.offset });
  }

  /** The cart with this token is over. A cart that another page has begun since is not touched. */
  leave(token) {
    if (read('cart')?.token === token) write('cart', null);
    if (token !== null && token === this.token) this.drop(read('cart'));
  }

  /** Forgets this page's cart, and takes the one that the device has now, if it has one. */
  drop(kept) {
    this.watching?.stop();
    this.watching = null;
    this.token = kept?.token || null;
    this.id = kept?.id || null;
    this.current = null;
    this.version = 0;
    this.offset = kept?.offset ?? null;
    this.emit('change', null);
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

  /** `types` are the price types: one for all, or one for each seat. Without them all are of the session's first one. */
  holdSeats(session, seats, types) {
    return this.hold('cart.hold_seats', { session, seats, types, code: this.codes.get(session) });
  }

  /** `wanted`: {count, category, section, accessible, split, types}. */
  holdBest(session, wanted) {
    return this.hold('cart.hold_best', { session, ...wanted, code: this.codes.get(session) });
  }

  holdPlaces(session, area, quantity, types) {
    return this.hold('cart.hold_places', { session, area, quantity, types, code: this.codes.get(session) });
  }

  holdStock(product, quantity) {
    return this.hold('cart.hold_stock', { product, quantity });
  }

  holdSlot(resource, begin, end) {
    return this.hold('cart.hold_slot', { resource, begin, end });
  }

  /** `lines`: each with the fields of one of the above. A request shows one code, so each further code is a request of its own. */
  async holdAll(lines) {
    const codes = new Set(lines.map(({ code }) => code).filter(Boolean));
    const [first, ...others] = codes.size > 0 ? codes : [undefined];
    await this.hold('cart.hold_all', { lines: lines.filter(({ code }) => !code || code === first) });
    for (const code of others) await this.hold('cart.hold_all', { lines: lines.filter((line) => line.code === code) });
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
    const { token } = this;
    await this.command(token, 'cart.cancel', {});
    this.leave(token);
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
      const order = await this.command(token, 'cart.checkout', paying.body, paying.rid);
      this.unsettled = null;
      remember(order);
      this.leave(token);
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

  /** The token for a hold. It is stored before it is sent, so that a page that is reloaded meanwhile continues with this cart. */
  begin(body) {
    this.follow();
    if (!this.token) {
      this.token = tokenFor(body);
      this.keepToken();
    }
    return this.token;
  }

  /** What is limited per customer is asked for again with the customer, if one is known. */
  async hold(op, body) {
    try {
      return await this.holdAs(op, body);
    } catch (error) {
      const customer = this.buyer();
      if (!needsCustomer(error) || !customer) throw error;
      return this.holdAs(op, { ...body, customer });
    }
  }

  async holdAs(op, body) {
    this.expired = null;
    for (let tries = 1; ; tries += 1) {
      const token = this.begin(body);
      const fresh = this.current === null;
      const asked = Date.now();
      let ok;
      try {
        ok = await this.command(token, op, body, undefined, BUYER_STAYS_MS);
      } catch (error) {
        if (tries === HOLD_TRIES || !(await this.isOver(token, error))) throw error;
        // Expired, or paid in another page. The next cart may have been begun there already.
        this.leave(token);
        continue;
      }
      const answered = Date.now();
      this.follow();
      if (token !== this.token) {
        await this.giveUp(token);
        if (this.token === null || tries === HOLD_TRIES) throw new RequestError('no', { code: 302, name: 'cart_expired' });
        continue;
      }
      this.id = ok.cart;
      this.keepToken();
      this.watch();
      await this.shown(ok, token);
      if (fresh && token === this.token) this.compareClocks(asked, answered);
      return ok;
    }
  }

  /** Whether this error says that the cart with this token can hold nothing any more. While it is being paid it may come back. */
  async isOver(token, error) {
    if (error.name2 === 'cart_expired') return true;
    if (error.name2 !== 'cart_not_active' || (token === this.token && this.isPaying())) return false;
    try {
      return ENDED.has((await this.link.request('cart.get', { token })).state);
    } catch (failed) {
      return failed.kind === 'no';
    }
  }

  /** Gives back what a cart holds that is not the device's any more, because two pages have begun one at the same time. */
  async giveUp(token) {
    try {
      await this.command(token, 'cart.cancel', {});
    } catch (error) {
      if (error.kind !== 'no') throw error;
    }
  }

  /** Compares the clocks. The cart was opened between these times, by the clock that its deadlines use. */
  compareClocks(asked, answered) {
    if (!this.current?.opened_at || answered - asked > CLOCKS_WITHIN_MS) return;
    this.offset = Date.parse(this.current.opened_at) - (asked + answered) / 2;
    this.keepToken();
    this.emit('change', this.current);
  }

  async change(op, body) {
    const { token } = this;
    const cart = await this.command(token, op, body);
    if (token === this.token) this.show(cart, versionIn(cart), token);
    return cart;
  }

  command(token, op, body, rid = newRid(), patience = undefined) {
    return this.link.request(op, { token, ...body }, { rid, deadline: COMMAND_WITHIN_MS, patience });
  }

  /** Waits until the feed shows the version of an answer. */
  shown(ok, token) {
    const version = versionIn(ok);
    if (version === 0 || token !== this.token || (this.current && this.version >= version)) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        off();
        resolve();
      };
      const timer = setTimeout(() => this.look().then(done), SHOWN_WITHIN_MS);
      const off = this.on('change', () => (token !== this.token || this.version >= version) && done());
    });
  }

  // Its feed

  watch() {
    if (this.watching) return;
    const { token } = this;
    const mine = (show) => (value, current) => token === this.token && show(value, current);
    this.watching = this.link.watch(`cart/${this.id}`, {
      snapshot: mine((now) => this.show(now.cart, now.version, token)),
      delta: mine((_, now) => this.show(now.cart, now.version, token)),
      ended: mine(({ name }) => this.over(name, token)),
    }, { token });
  }

  show(cart, version, token) {
    if (version && version < this.version) return;
    if (version) this.version = version;
    this.id = cart.id;
    const before = this.current;
    if (cart.state === 'expired') {
      this.over('cart_expired', token, before);
      return;
    }
    if (cart.state === 'done' || cart.state === 'canceled') {
      this.leave(token);
      if (cart.state === 'done') {
        remember({ id: cart.order, at: cart.ended?.at || new Date(this.link.now()).toISOString(), total: before?.total || cart.total, lines: cart.lines });
        this.emit('done', cart);
      }
      // The view that waits for the checkout shows the decline itself.
      else if (cart.ended?.why === 'declined' && !this.paying) {
        this.say('The payment was declined, and what you held is free again.', 'bad');
      }
      return;
    }
    this.current = cart;
    if (read('cart')?.id !== cart.id) this.keepToken();
    if (token === this.token) this.watch();
    this.emit('change', this.current);
  }

  over(name, token, before = this.current) {
    const lines = before?.lines || [];
    this.leave(token);
    // Otherwise its last state was handled before, or the cart no longer exists.
    if (name !== 'cart_expired' || this.expired || lines.length === 0) return;
    this.expired = lines;
    this.say('Your time ran out, and what you held is free again.', 'bad');
    this.emit('change', this.current);
  }
}

function versionIn(ok) {
  const mine = (ok[AT] || []).find(({ entity }) => entity.startsWith('cart/'));
  return mine?.version || 0;
}

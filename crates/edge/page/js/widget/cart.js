// The cart of a seat map on another site: a guest's, or the one whose token the site gave.

import { tokenFor } from '../cart-token.js';
import { newRid } from '../connection.js';

const COMMAND_WITHIN_MS = 20_000;
/** How long a buyer who has just chosen stays. An overloaded node begins no purchase that would take longer. */
const BUYER_STAYS_MS = 300_000;
/** The most seats of one line. */
const LINE_SEATS = 20;
const OVER = new Set(['cart_expired', 'cart_not_active']);

/** Follows one cart. Calls `onchange(lines)` with its lines, and `onover(reason)` when it ends otherwise than by a sale. */
export class MapCart {
  constructor(link, { node, token, onchange, onover }) {
    Object.assign(this, { link, onchange, onover });
    this.key = `boxoffice.cart ${node}`;
    /** The site's cart. A guest's is made by the first hold, and kept as long as the tab. */
    this.given = token || null;
    this.token = this.given || read(this.key);
    this.lines = [];
    /** The lines of carts that were paid. What they have stays the buyer's. */
    this.bought = [];
    this.watching = null;
    if (this.token) this.look();
  }

  stop() {
    this.watching?.stop();
    this.watching = null;
    this.stopped = true;
  }

  async look() {
    const { token } = this;
    try {
      const cart = await this.link.request('cart.get', { token }, { deadline: COMMAND_WITHIN_MS });
      if (token === this.token) this.show(cart);
    } catch (error) {
      // The site may open its cart later. A guest's cart that is not there is over.
      if (token === this.token && error.kind === 'no' && !this.given && !this.stopped) this.forget();
    }
  }

  /** Holds lines of `{session, seats, types}` and `{session, area, quantity, types}`, all or none. Returns the answer. */
  async hold(lines) {
    const wanted = lines.flatMap(split);
    const [op, body] = wanted.length > 1 ? ['cart.hold_all', { lines: wanted }]
      : [wanted[0].seats ? 'cart.hold_seats' : 'cart.hold_places', wanted[0]];
    const ask = () => {
      this.token ||= read(this.key) || tokenFor(body);
      // Before it is sent, so that a page that is reloaded meanwhile goes on with this cart.
      if (!this.given) write(this.key, this.token);
      return this.command(op, body, BUYER_STAYS_MS);
    };
    let ok;
    try {
      ok = await ask();
    } catch (error) {
      if (this.given || !OVER.has(error.name2)) throw error;
      this.forget();
      ok = await ask();
    }
    await this.look();
    return ok;
  }

  /** Releases the lines of a session that `part(line)` returns `true` or some seats for. */
  async release(session, part) {
    if (!this.token) return;
    const { lines } = await this.link.request('cart.get', { token: this.token }, { deadline: COMMAND_WITHIN_MS });
    for (const line of lines.filter((each) => each.session === session)) {
      const given = part(line);
      for (const seats of given === true ? [undefined] : portions(given || [])) {
        this.show(await this.command('cart.release', { line: line.line, seats }));
      }
    }
  }

  command(op, body, patience) {
    return this.link.request(op, { token: this.token, ...body }, { rid: newRid(), deadline: COMMAND_WITHIN_MS, patience });
  }

  show(cart) {
    if (this.stopped) return;
    if (cart.state === 'done') this.bought.push(...cart.lines);
    if (cart.state === 'done' || cart.state === 'canceled' || cart.state === 'expired') {
      const had = this.lines.length > 0;
      this.forget();
      if (had && cart.state !== 'done') this.onover(`cart_${cart.state}`);
      return;
    }
    this.lines = cart.lines;
    this.watch(cart.id);
    this.onchange();
  }

  watch(id) {
    if (this.watching) return;
    const { token } = this;
    const mine = (act) => (value, current) => token === this.token && act(value, current);
    this.watching = this.link.watch(`cart/${id}`, {
      snapshot: mine((now) => this.show(now.cart)),
      delta: mine((_, now) => this.show(now.cart)),
      ended: mine(({ name }) => {
        const had = this.lines.length > 0;
        this.forget();
        if (had) this.onover(name);
      }),
    }, { token });
  }

  forget() {
    this.watching?.stop();
    this.watching = null;
    this.lines = [];
    if (!this.given) {
      this.token = null;
      write(this.key, null);
    }
    this.onchange();
  }
}

/** A line in lines of at most as many seats as one may have. Its price types are one for all seats, or one for each. */
function split(line) {
  if (!line.seats) return [line];
  const types = portions(line.types?.length > 1 ? line.types : []);
  return portions(line.seats).map((seats, part) => ({ ...line, seats, types: types[part] ?? line.types }));
}

function portions(seats) {
  return Array.from({ length: Math.ceil(seats.length / LINE_SEATS) }, (_, part) => seats.slice(part * LINE_SEATS, (part + 1) * LINE_SEATS));
}

const memory = new Map();

/** Storage may be refused, as in private windows. Then a token lasts as long as the page. */
function read(key) {
  try {
    return sessionStorage.getItem(key);
  } catch {
    return memory.get(key) ?? null;
  }
}

function write(key, token) {
  memory.set(key, token);
  try {
    if (token === null) sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, token);
  } catch {
    // It lasts as long as the page.
  }
}

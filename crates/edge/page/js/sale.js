// Whether a session sells now. Its feed tells the seats, and a mark that changes when an offer opens or the terms change. The terms
// are read again when the mark changes, when an offer should open, at a sign that the session was canceled, when a customer is signed in
// or out, and from time to time.

import { offersKey, opensAt } from './offers.js';

/** How long the terms are believed without a sign: this, and up to as much again. */
const BELIEVED_MS = 3 * 60_000;
/** A cancellation gives seats back one after the other, and the terms are read once for all of them. */
const AFTER_SIGN_MS = 500;
/** All watchers learn at once that a sale opens. Their reads are spread over this time, and are this far apart until it is open. */
const SPREAD_MS = 1_000;
/** What may change while a session is watched. */
const TERMS = ['canceled', 'open', 'starts_at', 'ends_at', 'sells_after_begin', 'prices', 'areas', 'price_types', 'offers', 'counters', 'sale'];

/** Why a session does not sell at an instant: "canceled", "over", "not_yet", "begun" or "ended". Null if it does. */
export function closedKey(session, now) {
  if (session.canceled) return 'canceled';
  if (now >= Date.parse(session.ends_at)) return 'over';
  if (session.open === false) return 'not_yet';
  if (now >= Date.parse(session.starts_at) && !session.sells_after_begin) return 'begun';
  return offersKey(session, now);
}

/** Keeps the terms of `session` in the object itself, and calls `onchange()` when they are others than before. */
export class Terms {
  constructor(link, session, onchange) {
    Object.assign(this, { link, session, onchange });
    this.sold = null;
    this.mark = null;
    // They may be those of a guest, read before a customer was known.
    this.token = null;
    this.isOver = false;
    this.forget = link.on('hello', () => this.meet());
    this.wait();
    this.meet();
  }

  stop() {
    this.isOver = true;
    this.forget();
    clearTimeout(this.timer);
  }

  wait() {
    clearTimeout(this.timer);
    const opens = opensAt(this.session, this.link.now());
    const untilOpen = opens === null ? Infinity : Math.max(SPREAD_MS, opens - this.link.now()) + SPREAD_MS * Math.random();
    this.timer = setTimeout(() => (document.hidden ? this.wait() : this.look()), Math.min(untilOpen, BELIEVED_MS * (1 + Math.random())));
  }

  /** The numbers and the mark of a snapshot or a delta. What was sold comes back only by the house, as after a cancellation. */
  show({ counts, areas, sale }) {
    const sold = [counts, ...(areas || [])].reduce((sum, each) => sum + (each?.sold || 0), 0);
    const mark = sale?.version ?? 0;
    // The first mark is that of the terms, unless the sale opened between the two.
    const isNew = this.mark === null ? sale?.opens_at !== this.session.sale?.opens_at : mark !== this.mark;
    if (isNew) this.soon(SPREAD_MS * Math.random());
    else if (this.sold !== null && sold < this.sold) this.soon(AFTER_SIGN_MS);
    this.sold = sold;
    this.mark = mark;
  }

  /** Another customer may have other offers. */
  meet() {
    const token = this.link.identity?.token ?? null;
    if (token === this.token) return;
    this.token = token;
    this.look();
  }

  soon(wait) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), wait);
  }

  /** Reads the terms now. */
  async look() {
    this.wait();
    try {
      const now = await this.link.request('session.get', { id: this.session.id, layout: false });
      const before = this.said();
      for (const name of TERMS) this.session[name] = now[name];
      if (this.isOver) return;
      if (this.said() !== before) this.onchange();
      this.wait();
    } catch {
      // The next look may have an answer.
    }
  }

  said() {
    // The feed tells how many places are left.
    const told = TERMS.map((name) => (name === 'areas' ? this.session.areas?.map(({ id, name: called, names, price }) => [id, called, names, price]) : this.session[name]));
    return JSON.stringify(told);
  }
}

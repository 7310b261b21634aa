// Whether a session sells now. Its feed tells the seats and not this, so its terms are read again at a sign that it was canceled,
// and from time to time.

/** How long the terms are believed without a sign: this, and up to as much again. */
const BELIEVED_MS = 3 * 60_000;
/** A cancellation gives seats back one after the other, and the terms are read once for all of them. */
const AFTER_SIGN_MS = 500;

/** Why a session does not sell at an instant: "canceled", "over", "not_yet" or "begun". Null if it does. */
export function closedKey(session, now) {
  if (session.canceled) return 'canceled';
  if (now >= Date.parse(session.ends_at)) return 'over';
  if (session.open === false) return 'not_yet';
  return now >= Date.parse(session.starts_at) && !session.sells_after_begin ? 'begun' : null;
}

/** Keeps the terms of `session` in the object itself, and calls `onchange()` when they are others than before. */
export class Terms {
  constructor(link, session, onchange) {
    Object.assign(this, { link, session, onchange });
    this.sold = null;
    this.isOver = false;
    this.wait();
  }

  stop() {
    this.isOver = true;
    clearTimeout(this.timer);
  }

  wait() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => (document.hidden ? this.wait() : this.look()), BELIEVED_MS * (1 + Math.random()));
  }

  /** The numbers of a snapshot or a delta. What was sold comes back only by the house, as after a cancellation. */
  show({ counts, areas }) {
    const sold = [counts, ...(areas || [])].reduce((sum, each) => sum + (each?.sold || 0), 0);
    if (this.sold !== null && sold < this.sold) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.look(), AFTER_SIGN_MS);
    }
    this.sold = sold;
  }

  /** Reads the terms now. */
  async look() {
    this.wait();
    try {
      const { canceled, open, starts_at, ends_at, sells_after_begin } = await this.link.request('session.get', { id: this.session.id, layout: false });
      const before = this.said();
      Object.assign(this.session, { canceled, open, starts_at, ends_at, sells_after_begin });
      if (!this.isOver && this.said() !== before) this.onchange();
    } catch {
      // The next look may have an answer.
    }
  }

  said() {
    const { canceled, open, starts_at, ends_at, sells_after_begin } = this.session;
    return JSON.stringify([canceled, open, starts_at, ends_at, sells_after_begin]);
  }
}

// Feeds of a connection. Snapshots and deltas are checked for gaps, feeds resume after a reconnect, and all watchers of an entity
// share its feed. The current state is kept, so later watchers begin with a snapshot too.

const WATCH_WITHIN_MS = 20_000;
const AGAIN_FIRST_MS = 300;
const AGAIN_MAX_MS = 5_000;

export const SEAT_STATES = { free: 0, held: 1, sold: 2, blocked: 3 };

export class Feeds {
  constructor(link) {
    this.link = link;
    this.entities = new Map();
    this.counts = new Map();
    this.numbers = new Map();
    /** Feeds that may be behind, as the node says. */
    this.stale = new Set();
  }

  watch(entity, handlers, { token } = {}) {
    let feed = this.entities.get(entity);
    if (!feed) {
      feed = { key: entity, token, listeners: new Set(), number: null, current: null, asking: false, failures: 0 };
      this.entities.set(entity, feed);
    }
    const listener = { ...handlers };
    feed.listeners.add(listener);
    if (feed.current) handlers.snapshot?.(feed.current);
    if (feed.listeners.size === 1) this.ask(feed);
    return { stop: () => this.stop(this.entities, feed, listener) };
  }

  watchCounts(sessions, onCounts) {
    const mine = [];
    const fresh = [];
    for (const session of sessions) {
      let feed = this.counts.get(session);
      if (!feed) {
        feed = { key: session, counting: true, listeners: new Set(), number: null, current: null, failures: 0 };
        this.counts.set(session, feed);
        fresh.push(feed);
      }
      const listener = { snapshot: (now) => onCounts(session, now), delta: (_, now) => onCounts(session, now) };
      feed.listeners.add(listener);
      mine.push([feed, listener]);
      if (feed.current) onCounts(session, feed.current);
    }
    this.askCounts(fresh);
    return { stop: () => mine.forEach(([feed, listener]) => this.stop(this.counts, feed, listener)) };
  }

  /**
   * Ends a feed with its last listener. A feed that is being asked for ends with its answer. The node has one feed for an entity
   * that is watched twice, so ending it earlier would end the feed of a listener who has come meanwhile.
   */
  stop(map, feed, listener) {
    if (!feed.listeners.delete(listener) || feed.listeners.size > 0 || feed.asking) return;
    map.delete(feed.key);
    this.end(feed);
  }

  /** Ends a feed whose last listener has left while it was being asked for. Returns whether it did. */
  left(feed) {
    if (feed.counting || feed.listeners.size > 0) return false;
    this.entities.delete(feed.key);
    this.end(feed);
    return true;
  }

  end(feed) {
    feed.ended = true;
    clearTimeout(feed.again);
    if (feed.number === null) return;
    this.numbers.delete(feed.number);
    this.aged(feed, false);
    this.once('unwatch', { feed: feed.number }, () => {}, () => {});
    feed.number = null;
  }

  once(op, body, resolve, reject) {
    this.link.ask({ op, body, resolve, reject, once: true, until: Date.now() + WATCH_WITHIN_MS });
  }

  /** Resumes all feeds on a new connection. */
  resume() {
    for (const feed of this.entities.values()) this.ask(feed);
    this.askCounts([...this.counts.values()]);
  }

  lost() {
    this.numbers.clear();
    this.stale.clear();
    for (const feed of [...this.entities.values(), ...this.counts.values()]) {
      feed.number = null;
      feed.asking = false;
      clearTimeout(feed.again);
      this.left(feed);
    }
  }

  ask(feed) {
    if (this.link.state !== 'connected' || feed.asking || feed.ended) return;
    feed.asking = true;
    const body = { entity: feed.key, token: feed.token, resume: resumeOf(feed) };
    this.once('watch', body, (ok) => this.begun(feed, ok.feed), (error) => this.notBegun(feed, error, () => this.ask(feed)));
  }

  askCounts(feeds) {
    const left = feeds.filter((feed) => !feed.ended);
    if (left.length === 0 || this.link.state !== 'connected') return;
    const most = Math.min(1024, this.link.limits.feeds || 1024);
    for (let first = 0; first < left.length; first += most) {
      const part = left.slice(first, first + most);
      const done = (ok) => {
        for (const { session, feed: number } of ok.feeds || []) {
          const feed = this.counts.get(session);
          if (feed) this.begun(feed, number);
        }
        for (const session of ok.missing || []) this.missing(session);
        this.laterCounts(ok.unreachable || []);
      };
      const failed = (error) => part.forEach((feed, index) => {
        this.notBegun(feed, error, () => index === 0 && this.askCounts(part));
      });
      this.once('watch', { sessions: part.map((feed) => feed.key) }, done, failed);
    }
  }

  missing(session) {
    const feed = this.counts.get(session);
    if (feed) this.tell(feed, 'ended', { name: 'not_found' });
  }

  /** Asks again later for sessions that no reachable node has now. */
  laterCounts(sessions) {
    if (sessions.length === 0) return;
    setTimeout(() => this.askCounts(sessions.map((session) => this.counts.get(session)).filter((feed) => feed && feed.number === null)), AGAIN_MAX_MS * Math.random());
  }

  begun(feed, number) {
    feed.asking = false;
    feed.failures = 0;
    if (feed.number !== null) this.numbers.delete(feed.number);
    feed.number = number;
    this.numbers.set(number, feed);
    this.left(feed);
  }

  notBegun(feed, error, again) {
    feed.asking = false;
    if (feed.ended || this.left(feed)) return;
    if (error.kind === 'no') {
      this.tell(feed, 'ended', { name: error.name2 });
      return;
    }
    const wait = Math.min(AGAIN_MAX_MS, AGAIN_FIRST_MS * 2 ** feed.failures) * Math.random();
    feed.failures += 1;
    feed.again = setTimeout(again, wait);
  }

  heard(frame) {
    const feed = this.numbers.get(frame.feed);
    if (!feed) return;
    if (frame.snapshot) {
      feed.gap = false;
      feed.current = begun(frame.snapshot, feed.current);
      this.tell(feed, 'snapshot', feed.current);
    } else if (frame.delta) {
      this.delta(feed, frame.delta);
    } else if (frame.stale_ms !== undefined) {
      this.aged(feed, frame.stale_ms > 0);
    } else if (frame.ended) {
      this.numbers.delete(feed.number);
      feed.number = null;
      this.aged(feed, false);
      this.tell(feed, 'ended', frame.ended);
    }
  }

  aged(feed, old) {
    if (old) this.stale.add(feed);
    else this.stale.delete(feed);
    this.link.aged(this.stale.size > 0);
  }

  delta(feed, delta) {
    const mine = versionOf(feed.current);
    if (mine === null || delta.to <= mine) return;
    if (delta.from > mine) {
      // A delta is missing. The feed is asked for once, because deltas that come meanwhile do not fit either.
      if (feed.gap) return;
      feed.gap = true;
      if (feed.counting) this.askCounts([feed]);
      else this.ask(feed);
      return;
    }
    feed.gap = false;
    fold(feed.current, delta);
    this.tell(feed, 'delta', delta, feed.current);
  }

  tell(feed, what, value, current) {
    for (const listener of [...feed.listeners]) listener[what]?.(value, current);
  }
}

function versionOf(current) {
  if (!current) return null;
  return current.purchases ? current.to : current.version;
}

function resumeOf(feed) {
  const { current } = feed;
  // The state of a cart is one frame, so nothing is saved by resuming.
  if (!current || current.cart) return undefined;
  return current.purchases ? { cursor: current.to } : { epoch: current.epoch, version: current.version };
}

/** A snapshot replaces everything. A customer's snapshot continues where the one before ended. */
function begun(snapshot, before) {
  if (!snapshot.purchases) return withStates(snapshot);
  const goesOn = before && snapshot.from === before.to;
  return { ...snapshot, purchases: [...(goesOn ? before.purchases : []), ...snapshot.purchases] };
}

function withStates(snapshot) {
  if (snapshot.seats !== undefined) {
    const { free, held, sold, blocked } = snapshot.counts;
    snapshot.states = unpack(snapshot.seats, free + held + sold + blocked);
  }
  return snapshot;
}

/** Two bits a seat, four seats a byte, the first in the lowest bits. */
export function unpack(base64, count) {
  const bytes = atob(base64);
  const states = new Uint8Array(count);
  for (let seat = 0; seat < count; seat += 1) states[seat] = (bytes.charCodeAt(seat >> 2) >> ((seat & 3) * 2)) & 3;
  return states;
}

function fold(current, delta) {
  if (current.purchases) {
    current.purchases.push(...delta.purchases);
    current.to = delta.to;
    return;
  }
  current.version = delta.to;
  for (const key of ['counts', 'cart', 'bookings']) if (delta[key] !== undefined) current[key] = delta[key];
  if (delta.changes && current.states) {
    for (const [index, state] of delta.changes) current.states[index] = SEAT_STATES[state];
  }
  if (delta.areas) {
    const areas = new Map((current.areas || []).map((area) => [area.area, area]));
    for (const area of delta.areas) areas.set(area.area, area);
    current.areas = [...areas.values()];
  }
}

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
      feed = { ...fresh(this.entities, entity), token };
      this.entities.set(entity, feed);
    }
    const listener = { ...handlers };
    feed.listeners.add(listener);
    if (feed.current) handlers.snapshot?.(feed.current);
    if (feed.listeners.size === 1) this.ask(feed);
    return { stop: () => this.stop(feed, listener) };
  }

  watchCounts(sessions, onCounts) {
    const mine = [];
    const unasked = [];
    for (const session of sessions) {
      let feed = this.counts.get(session);
      if (!feed) {
        feed = fresh(this.counts, session);
        this.counts.set(session, feed);
        unasked.push(feed);
      }
      const listener = { snapshot: (now) => onCounts(session, now), delta: (_, now) => onCounts(session, now) };
      feed.listeners.add(listener);
      mine.push([feed, listener]);
      if (feed.current) onCounts(session, feed.current);
    }
    this.askCounts(unasked);
    return { stop: () => mine.forEach(([feed, listener]) => this.stop(feed, listener)) };
  }

  /**
   * Ends a feed with its last listener. A feed that is being asked for ends with its answer. The node has one feed for an entity
   * that is watched twice. If it ended earlier, a new listener would lose it as well.
   */
  stop(feed, listener) {
    if (feed.listeners.delete(listener) && !feed.asking) this.left(feed);
  }

  /** Ends a feed without listeners. Whether it did. */
  left(feed) {
    if (feed.listeners.size > 0) return false;
    feed.map.delete(feed.key);
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
    this.once('watch', body, (ok) => this.begun(feed, ok.feed), (error) => this.notBegun(feed, error));
  }

  askCounts(feeds) {
    const left = feeds.filter((feed) => !feed.ended && !feed.asking);
    if (left.length === 0 || this.link.state !== 'connected') return;
    const most = Math.min(1024, this.link.limits.feeds || 1024);
    for (let first = 0; first < left.length; first += most) {
      const part = left.slice(first, first + most);
      part.forEach((feed) => { feed.asking = true; });
      const byKey = new Map(part.map((feed) => [feed.key, feed]));
      const of = (sessions = []) => this.stay(sessions.map((session) => byKey.get(session)));
      const done = (ok) => {
        for (const { session, feed: number } of ok.feeds || []) this.begun(byKey.get(session), number);
        for (const feed of of(ok.missing)) this.tell(feed, 'ended', { name: 'not_found' });
        // No node that answers has these at the moment.
        this.laterCounts(of(ok.unreachable), AGAIN_MAX_MS * Math.random());
      };
      const failed = (error) => {
        const feeds = this.stay(part);
        if (error.kind === 'no') feeds.forEach((feed) => this.tell(feed, 'ended', { name: error.name2 }));
        else if (feeds.length > 0) this.laterCounts(feeds, waitOf(feeds[0]));
      };
      this.once('watch', { sessions: [...byKey.keys()] }, done, failed);
    }
  }

  laterCounts(feeds, wait) {
    if (feeds.length > 0) setTimeout(() => this.askCounts(feeds.filter((feed) => feed.number === null || feed.gap)), wait);
  }

  /** Of feeds that were asked for and have not begun, those that still have listeners. */
  stay(feeds) {
    feeds.forEach((feed) => { feed.asking = false; });
    return feeds.filter((feed) => !feed.ended && !this.left(feed));
  }

  begun(feed, number) {
    feed.asking = false;
    feed.failures = 0;
    if (feed.number !== null) this.numbers.delete(feed.number);
    feed.number = number;
    this.numbers.set(number, feed);
    this.left(feed);
  }

  notBegun(feed, error) {
    if (this.stay([feed]).length === 0) return;
    if (error.kind === 'no') this.tell(feed, 'ended', { name: error.name2 });
    else feed.again = setTimeout(() => this.ask(feed), waitOf(feed));
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
      if (feed.map === this.counts) this.askCounts([feed]);
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

function fresh(map, key) {
  return { map, key, listeners: new Set(), number: null, current: null, asking: false, failures: 0 };
}

/** How long to wait before a feed is asked for again, in milliseconds. */
function waitOf(feed) {
  const wait = Math.min(AGAIN_MAX_MS, AGAIN_FIRST_MS * 2 ** feed.failures) * Math.random();
  feed.failures += 1;
  return wait;
}

function versionOf(current) {
  if (!current) return null;
  return current.purchases ? current.to : current.version;
}

function resumeOf(feed) {
  const { current } = feed;
  // The state of a cart is one frame, so nothing is saved by resuming.
  if (!current || current.cart) return undefined;
  return current.purchases ? { epoch: current.epoch, cursor: current.to } : { epoch: current.epoch, version: current.version };
}

/** A snapshot replaces everything. A customer's snapshot continues where the one before ended, in the same epoch. */
function begun(snapshot, before) {
  if (!snapshot.purchases) return withStates(snapshot);
  const goesOn = before && snapshot.epoch === before.epoch && snapshot.from === before.to;
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
  for (const key of ['counts', 'cart', 'bookings', 'sale']) if (delta[key] !== undefined) current[key] = delta[key];
  if (delta.changes && current.states) {
    for (const [index, state] of delta.changes) current.states[index] = SEAT_STATES[state];
  }
  if (delta.areas) {
    const areas = new Map((current.areas || []).map((area) => [area.area, area]));
    for (const area of delta.areas) areas.set(area.area, area);
    current.areas = [...areas.values()];
  }
}

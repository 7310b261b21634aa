// The programme's data: venues with their sessions, read page by page as far as somebody looks, and searches over all of them.

import { isIn, keyOf } from './fold.js';
import { isoDay } from './local-time.js';

/** Sessions that began longer ago are over. */
const BEGUN_AGO_MS = 60 * 60 * 1000;
/** Venues whose first sessions are read together, and how many are asked at the same time. */
const VENUES_TOGETHER = 60;
const VENUES_UNDER_WAY = 6;
/** How long a programme is good on the way back to it. */
const OLD_MS = 15 * 60 * 1000;
/** Sessions of one request. */
const SESSIONS_PAGE = 200;
const TITLES_PAGE = 1_000;
/** No day is further from a browser's day than this, wherever the venue is. */
const ZONES_APART_MS = 14 * 60 * 60 * 1000;
const DAY_MS = 24 * 60 * 60 * 1000;

/** Sessions of one day, or from now on if `day` ("2026-11-28") is empty. */
export class Programme {
  constructor(app, day = '') {
    Object.assign(this, { app, day });
    /** {venue, sessions, cursor, key}, in the order of their first sessions as far as they are read. */
    this.venues = [];
    this.waiting = [];
    this.readAt = Date.now();
    this.titles = new Map();
    this.halls = new Map();
    const from = day ? Date.parse(`${day}T00:00:00Z`) - ZONES_APART_MS : app.link.now() - BEGUN_AGO_MS;
    this.span = { from: new Date(from).toISOString(), to: day ? new Date(from + DAY_MS + 2 * ZONES_APART_MS).toISOString() : undefined };
  }

  /** Reads the venues and the first sessions of some. */
  async begin() {
    this.waiting = await this.app.catalogue.venues();
    await this.more();
  }

  /** Whether it was read so long ago that it is read anew. */
  get isOld() {
    return Date.now() - this.readAt > OLD_MS;
  }

  /** Whether there are venues whose sessions were not read. */
  get hasMore() {
    return this.waiting.length > 0;
  }

  /** Reads the first sessions of further venues. Those without any are left out. */
  async more() {
    for (let found = 0; found === 0 && this.hasMore;) {
      const some = this.waiting.splice(0, VENUES_TOGETHER).map((venue) => ({ venue, sessions: [], cursor: null, begun: false }));
      await inTurn(some, (entry) => this.read(entry));
      const known = some.filter(({ sessions }) => sessions.length > 0);
      known.sort((one, other) => Date.parse(one.sessions[0].starts_at) - Date.parse(other.sessions[0].starts_at));
      this.venues.push(...known);
      found = known.length;
    }
  }

  /** Reads the next page of sessions of a venue. A page may have none of the day. */
  async read(entry) {
    const before = entry.sessions.length;
    while (entry.sessions.length === before && (!entry.begun || entry.cursor)) {
      const body = { venue: entry.venue.id, ...this.span, limit: SESSIONS_PAGE, cursor: entry.cursor ?? undefined };
      const ok = await this.app.link.request('session.search', body, { deadline: 20_000 });
      entry.begun = true;
      entry.cursor = ok.cursor ?? null;
      entry.sessions.push(...ok.sessions.filter(({ starts_at }) => !this.day || isoDay(starts_at, entry.venue.zone) === this.day));
    }
  }

  /**
   * Finds the sessions that have each word in their title, venue, city or hall. The node finds titles, because there may be very many.
   * Calls `found(entry, sessions)` for each venue as it is known. Stops when `isOver()`.
   */
  async search(words, found, isOver) {
    const titles = await Promise.all(words.map((word) => this.titlesOf(word)));
    const look = async (entry) => {
      const { venue } = entry;
      const halls = await this.hallsOf(venue);
      const ofVenue = keyOf(venue.name, venue.city || '', plain(venue.id));
      const fits = ({ title, hall }) => {
        const ofSession = keyOf(halls.get(hall) || '', plain(hall), plain(title));
        return words.every((word, index) => titles[index].has(title) || isIn(ofVenue, word) || isIn(ofSession, word));
      };
      while (entry.cursor && !isOver()) await this.read(entry);
      if (!isOver()) found(entry, entry.sessions.filter(fits));
    };
    for (let from = 0; !isOver();) {
      const some = this.venues.slice(from);
      from = this.venues.length;
      await inTurn(some, look, isOver);
      if (!this.hasMore) return;
      await this.more();
    }
  }

  /** The ids of the titles with a word in their name. */
  titlesOf(word) {
    return this.once(this.titles, word, async () => {
      const ids = new Set();
      for (let cursor; ;) {
        const ok = await this.app.link.request('title.search', { name: word, limit: TITLES_PAGE, cursor }, { deadline: 20_000 });
        for (const title of ok.titles) {
          ids.add(title.id);
          this.app.catalogue.knowTitle(title);
        }
        cursor = ok.cursor;
        if (!cursor) return ids;
      }
    });
  }

  /** The names of a venue's halls by their ids. */
  hallsOf(venue) {
    return this.once(this.halls, venue.id, async () => {
      const known = await this.app.catalogue.venue(venue.id);
      return new Map((known.halls || []).map(({ id, name }) => [id, name]));
    });
  }

  /** What failed is asked again the next time. */
  once(kept, key, ask) {
    if (!kept.has(key)) {
      kept.set(key, ask().catch((error) => {
        kept.delete(key);
        throw error;
      }));
    }
    return kept.get(key);
  }
}

const plain = (id) => id.replace(/[-_.:]+/g, ' ');

/** Does something with each entry, a few at a time. */
async function inTurn(entries, act, isOver = () => false) {
  let next = 0;
  const worker = async () => {
    while (next < entries.length && !isOver()) {
      next += 1;
      await act(entries[next - 1]);
    }
  };
  await Promise.all(Array.from({ length: VENUES_UNDER_WAY }, worker));
}

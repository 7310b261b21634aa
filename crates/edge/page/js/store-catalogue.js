// Answers of the catalogue that are kept: sessions with their layouts, venues, titles.

import { titled } from './dom.js';
import { takeEarly } from './first.js';
import { wholeSession } from './layout.js';

const UNDER_WAY = 4;
/** Entries of one request. */
const PAGE = 500;
const ANSWER_WITHIN_MS = 20_000;

/** A title that is called by its id has no name of its own, so it is written as all ids are. */
function named(title) {
  return title.name === title.id ? { ...title, name: titled(title.id) } : title;
}

export class Catalogue {
  constructor(link) {
    this.link = link;
    this.known = new Map();
    this.waiting = [];
    this.underWay = 0;
  }

  /** A session with its layout and prices. */
  session(id) {
    const ask = () => wholeSession(this.link, id, { deadline: ANSWER_WITHIN_MS }, takeEarly(id));
    return this.once('session.get', id, undefined, ask);
  }

  venue(id) {
    return this.once('venue.get', id);
  }

  /** A title, or only its id if the catalogue has no such title. */
  title(id) {
    const ask = () => this.link.request('title.get', { id }, { deadline: ANSWER_WITHIN_MS }).then(named);
    return this.once('title.get', id, { id, name: null }, ask);
  }

  product(id) {
    return this.once('product.get', id, { id, name: null });
  }

  resource(id) {
    return this.once('resource.get', id, { id, name: null });
  }

  /** Keeps a title that came with a search. */
  knowTitle(title) {
    this.known.set(`title.get ${title.id}`, Promise.resolve(named(title)));
  }

  once(op, id, otherwise, ask = () => this.link.request(op, { id }, { deadline: ANSWER_WITHIN_MS })) {
    const key = `${op} ${id}`;
    if (!this.known.has(key)) {
      const answer = this.queued(ask).catch((error) => {
        if (otherwise && error.kind === 'no') return otherwise;
        // Asked again the next time.
        this.known.delete(key);
        throw error;
      });
      this.known.set(key, answer);
    }
    return this.known.get(key);
  }

  /** Layouts are long. Only a few are requested at once, so that other requests do not wait behind them. */
  queued(ask) {
    return new Promise((resolve, reject) => {
      this.waiting.push(() => ask().then(resolve, reject).finally(() => {
        this.underWay -= 1;
        this.next();
      }));
      this.next();
    });
  }

  next() {
    while (this.underWay < UNDER_WAY && this.waiting.length > 0) {
      this.underWay += 1;
      this.waiting.shift()();
    }
  }

  /** All venues. */
  venues() {
    return this.pages('venue.search', {}, 'venues');
  }

  /** All sessions of a venue from a time on. */
  sessionsOf(venue, from) {
    return this.pages('session.search', { venue, from }, 'sessions');
  }

  /** A whole list, page by page. */
  async pages(op, body, name) {
    const all = [];
    for (let cursor; ;) {
      const ok = await this.link.request(op, { ...body, limit: PAGE, cursor }, { deadline: ANSWER_WITHIN_MS });
      all.push(...ok[name]);
      cursor = ok.cursor;
      if (!cursor) return all;
    }
  }
}

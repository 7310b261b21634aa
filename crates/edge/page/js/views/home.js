// The programme: venues, days, sessions, and how much of each is left, live. Lists of any length are shown a page at a time.

import { fill, h, money, titled } from '../dom.js';
import { explain } from '../explain.js';
import { wordsOf } from '../fold.js';
import { clock, day, isoDay, place } from '../local-time.js';
import { shown } from '../offers.js';
import { button, countsBar, summed } from '../parts.js';
import { Programme } from '../programme.js';

/** Venues at first, and further ones with each press. */
const VENUES_SHOWN = 12;
/** Sessions of a venue at first, and further ones with each press. */
const SESSIONS_SHOWN = 12;
/** Sessions that a search shows at first, and further ones with each press. */
const FOUND_SHOWN = 48;
/** After this pause in typing the search begins. */
const TYPED_MS = 200;
/** How often what was found so far is shown. */
const FOUND_EVERY_MS = 250;
const DAY_MS = 24 * 60 * 60 * 1000;

export const title = () => 'Programme';

/** `kept` is what this view keeps for the way back to it. */
export async function render(root, _params, app, kept) {
  const view = new Home(root, app, kept);
  await view.show();
  return () => view.stop();
}

class Home {
  constructor(root, app, kept) {
    Object.assign(this, { root, app, kept, counts: null, cards: new Map(), turn: 0 });
    kept.typed ??= '';
    kept.day ??= '';
    this.reset(false);
    this.search = h('input', { class: 'input', id: 'search', type: 'search', placeholder: 'Title, venue, hall or city', autocomplete: 'off', value: kept.typed, oninput: () => this.typed() });
    this.picker = h('input', { class: 'input hero__date', id: 'day', type: 'date', value: kept.day, onchange: () => this.go(this.picker.value) });
    this.every = h('button', { class: 'button button--small', id: 'every-day', type: 'button', onclick: () => this.go('') }, 'Every day');
    this.list = h('div', { class: 'programme', id: 'programme' }, h('p', { class: 'loading', role: 'status' }, 'Reading the programme …'));
    this.found = h('p', { class: 'muted', id: 'found', role: 'status' });
    this.further = h('div', { class: 'programme__more' });
    const step = (days, text, label) => h('button', { class: 'button button--small', type: 'button', 'aria-label': label, onclick: () => this.go(this.dayAfter(days)) }, text);
    fill(root,
      h('header', { class: 'hero' },
        h('p', { class: 'eyebrow' }, 'The programme'),
        h('h1', {}, 'Tonight, and the nights to come'),
        h('p', { class: 'hero__line' }, 'Every seat you see is live: what others take disappears before your eyes.'),
        h('div', { class: 'hero__fields' },
          h('div', { class: 'field hero__search' }, h('label', { class: 'field__label', for: 'search' }, 'Search'), this.search),
          h('div', { class: 'field' }, h('label', { class: 'field__label', for: 'day' }, 'Day'),
            h('div', { class: 'row hero__day' }, step(-1, '←', 'The day before'), this.picker, step(1, '→', 'The next day'), this.every)))),
      this.found, this.list, this.further);
    this.observer = new IntersectionObserver((seen) => {
      for (const { target, isIntersecting } of seen) {
        if (!isIntersecting) continue;
        this.observer.unobserve(target);
        dress(this.cards.get(target.dataset.session), app);
      }
    }, { rootMargin: '200px' });
  }

  stop() {
    this.turn += 1;
    clearTimeout(this.timer);
    this.counts?.stop();
    this.observer.disconnect();
  }

  /** How much is shown is counted anew. */
  reset(all = true) {
    const { kept } = this;
    kept.venues = (!all && kept.venues) || VENUES_SHOWN;
    kept.sessions = (!all && kept.sessions) || new Map();
    kept.matches = (!all && kept.matches) || FOUND_SHOWN;
    if (all) kept.programme = null;
  }

  typed() {
    this.kept.typed = this.search.value;
    this.kept.matches = FOUND_SHOWN;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.show(), TYPED_MS);
  }

  go(date) {
    this.kept.day = date;
    this.picker.value = date;
    this.reset();
    this.show();
  }

  dayAfter(days) {
    const from = this.kept.day || isoDay(this.app.link.now());
    return new Date(Date.parse(`${from}T12:00:00Z`) + days * DAY_MS).toISOString().slice(0, 10);
  }

  /** Shows the programme, or what was searched for. */
  async show() {
    const { kept, app } = this;
    const turn = ++this.turn;
    const words = wordsOf(kept.typed);
    this.every.hidden = kept.day === '';
    try {
      if (!kept.programme || kept.programme.isOld) {
        const programme = new Programme(app, kept.day);
        await programme.begin();
        if (turn !== this.turn) return;
        kept.programme = programme;
      }
      if (words.length > 0) await this.showFound(words, turn);
      else await this.showAll(turn);
    } catch (error) {
      if (turn === this.turn) fill(this.list, h('div', { class: 'notice notice--warn' }, explain(error)));
    }
  }

  async showAll(turn) {
    const { kept } = this;
    const { programme } = kept;
    while (programme.venues.length < kept.venues && programme.hasMore) await programme.more();
    if (turn !== this.turn) return;
    const shown = programme.venues.slice(0, kept.venues);
    const left = programme.venues.length - shown.length;
    this.found.textContent = '';
    this.put(shown.map((entry) => ({ entry, sessions: entry.sessions.slice(0, this.shownOf(entry)), more: this.moreOf(entry) })),
      kept.day ? 'Nothing is on the programme on this day.' : 'Nothing is on the programme yet.');
    fill(this.further, left > 0 || programme.hasMore
      ? button('More venues', () => this.grow(() => { kept.venues += VENUES_SHOWN; }), { id: 'more-venues' }) : null);
  }

  shownOf({ venue }) {
    return this.kept.sessions.get(venue.id) || SESSIONS_SHOWN;
  }

  moreOf(entry) {
    const { venue, sessions, cursor } = entry;
    if (sessions.length <= this.shownOf(entry) && !cursor) return null;
    const act = async () => {
      const wanted = this.shownOf(entry) + SESSIONS_SHOWN;
      while (sessions.length < wanted && entry.cursor) await this.kept.programme.read(entry);
      await this.grow(() => this.kept.sessions.set(venue.id, wanted));
    };
    return button(`More at ${venue.name}`, act, { class: 'button--small', 'data-more': venue.id });
  }

  async showFound(words, turn) {
    const { kept } = this;
    const found = new Map();
    let shownAt = 0;
    const put = (isDone) => {
      const order = kept.programme.venues.filter((entry) => found.get(entry)?.length > 0);
      let left = kept.matches;
      const groups = [];
      for (const entry of order) {
        const sessions = found.get(entry).slice(0, left);
        left -= sessions.length;
        if (sessions.length > 0) groups.push({ entry, sessions, more: null });
      }
      const count = order.reduce((sum, entry) => sum + found.get(entry).length, 0);
      const text = `${count} ${count === 1 ? 'session' : 'sessions'} found`;
      this.found.textContent = isDone ? text : `Searching … ${text}`;
      this.put(groups, isDone ? 'Nothing of that name is on the programme.' : 'Searching …');
      fill(this.further, count > kept.matches && isDone
        ? button('More of what was found', () => this.grow(() => { kept.matches += FOUND_SHOWN; }), { id: 'more-found' }) : null);
      shownAt = Date.now();
    };
    const isOver = () => turn !== this.turn;
    await kept.programme.search(words, (entry, sessions) => {
      found.set(entry, sessions);
      if (Date.now() - shownAt > FOUND_EVERY_MS) put(false);
    }, isOver);
    if (!isOver()) put(true);
  }

  /** Shows more, and puts the focus on the first card that is new, because the button may be gone. */
  async grow(change) {
    const before = new Set([...this.list.querySelectorAll('[data-session]')].map(({ dataset }) => dataset.session));
    change();
    await this.show();
    const fresh = [...this.list.querySelectorAll('[data-session]')].find(({ dataset }) => !before.has(dataset.session));
    fresh?.querySelector('a').focus();
  }

  /** Puts sessions of venues into the list: [{entry, sessions, more}]. */
  put(groups, nothing) {
    if (groups.length === 0) fill(this.list, h('p', { class: 'muted programme__none' }, nothing));
    else fill(this.list, groups.map((group) => this.section(group)));
    const shown = groups.flatMap(({ sessions }) => sessions.map(({ id }) => id));
    for (const id of shown) this.observer.observe(this.cards.get(id).element);
    this.counts?.stop();
    this.counts = shown.length > 0 ? this.app.link.watchCounts(shown, (id, now) => this.cards.get(id).show(now)) : null;
    if (this.kept.chosen) this.cards.get(this.kept.chosen)?.link.focus({ preventScroll: true });
    this.kept.chosen = null;
  }

  section({ entry: { venue }, sessions, more }) {
    return h('section', { class: 'venue', dataset: { venue: venue.id }, 'aria-labelledby': `venue-${venue.id}` },
      h('div', { class: 'venue__head' }, h('h2', { id: `venue-${venue.id}` }, venue.name), venue.city && h('p', { class: 'venue__city' }, venue.city)),
      h('div', { class: 'days' }, [...byDay(venue, sessions)].map(([name, ofDay]) => h('div', { class: 'day' },
        h('h3', { class: 'day__name' }, name),
        h('ul', { class: 'sessions' }, ofDay.map((session) => this.card(venue, session).element))))),
      more);
  }

  card(venue, session) {
    if (!this.cards.has(session.id)) this.cards.set(session.id, cardOf(venue, session, this.kept, this.app));
    return this.cards.get(session.id);
  }
}

function byDay(venue, sessions) {
  const days = new Map();
  for (const session of sessions) {
    const name = day(session.starts_at, venue.zone);
    days.set(name, [...(days.get(name) || []), session]);
  }
  return days;
}

function cardOf(venue, session, kept, app) {
  const counts = countsBar();
  const link = h('a', { class: 'session-card__link', href: `#/session/${encodeURIComponent(session.id)}`, onclick: () => { kept.chosen = session.id; } }, titled(session.title));
  const price = h('strong', { class: 'number' });
  const hall = h('span', { class: 'session-card__hall' }, titled(session.hall));
  const element = h('li', { class: `session-card ${session.open ? '' : 'session-card--closed'}`, dataset: { session: session.id } },
    h('time', { class: 'session-card__time', datetime: session.starts_at }, clock(session.starts_at, venue.zone), placeNote(session, venue.zone)),
    h('div', {}, h('h4', { class: 'session-card__title' }, link), h('p', { class: 'session-card__meta' }, hall, session.open ? price : h('span', { class: 'badge' }, 'closed'))),
    counts.element);
  const show = (now) => {
    counts.show(now.counts, now.areas);
    element.dataset.free = summed(now.counts, now.areas).free;
  };
  const card = { venue, session, element, link, price, hall, show };
  nameIt(card, app);
  return card;
}

/** The place whose time is shown, if it must be said. */
function placeNote({ starts_at: at }, zone) {
  const name = place(at, zone);
  return name ? h('span', { class: 'session-card__place' }, ` ${name}`) : null;
}

/** The title's name, and the hall's if the venue has several. Names are known soon, or already. */
async function nameIt({ venue, session, link, hall }, app) {
  const title = app.catalogue.known.get(`title.get ${session.title}`);
  if (title) link.textContent = (await title.catch(() => null))?.name || link.textContent;
  const known = app.catalogue.known.get(`venue.get ${venue.id}`);
  const found = known && (await known.catch(() => null))?.halls?.find(({ id }) => id === session.hall);
  if (found) hall.textContent = found.name;
}

/** Names and price of a session that has come into view. */
async function dress(card, app) {
  const { session, venue } = card;
  const [title, known] = await Promise.allSettled([app.catalogue.title(session.title), app.catalogue.session(session.id), app.catalogue.venue(venue.id)]);
  if (title.value?.name) card.link.textContent = title.value.name;
  nameIt(card, app);
  if (!known.value) return;
  const { prices = {}, areas = [] } = known.value;
  const list = [...Object.values(prices), ...areas.map(({ price }) => price)];
  if (list.length === 0) return;
  const zones = [...Object.keys(prices).map((category) => ({ category })), ...areas.map(({ id }) => ({ area: id }))];
  const amounts = zones.flatMap((zone) => shown(known.value, zone, app.link.now())).map(({ amount }) => amount);
  if (amounts.length === 0) return;
  const least = Math.min(...amounts);
  card.price.textContent = `${amounts.some((amount) => amount !== least) ? 'from ' : ''}${money(least, list[0].currency)}`;
}

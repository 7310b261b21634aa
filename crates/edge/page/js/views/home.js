// The programme: venues, days, sessions, and how much of each is left, live.

import { fill, h, money, titled } from '../dom.js';
import { explain } from '../explain.js';
import { clock, day, place } from '../local-time.js';
import { countsBar, summed } from '../parts.js';

/** Sessions that began longer ago are over. */
const BEGUN_AGO_MS = 60 * 60 * 1000;
const VENUES_MAX = 40;

export const title = () => 'Programme';

export async function render(root, _params, app) {
  const search = h('input', { class: 'input', id: 'search', type: 'search', placeholder: 'Title, venue or city', autocomplete: 'off' });
  const programme = h('div', { class: 'programme', id: 'programme' }, h('p', { class: 'loading', role: 'status' }, 'Reading the programme …'));
  const found = h('p', { class: 'unseen', role: 'status' });
  fill(root,
    h('header', { class: 'hero' },
      h('p', { class: 'eyebrow' }, 'The programme'),
      h('h1', {}, 'Tonight, and the nights to come'),
      h('p', { class: 'hero__line' }, 'Every seat you see is live: what others take disappears before your eyes.'),
      h('div', { class: 'field hero__search' }, h('label', { class: 'field__label', for: 'search' }, 'Search'), search)),
    found, programme);

  let cards = [];
  let counts = null;
  let observer = null;
  const filter = () => {
    const words = plain(search.value).split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const card of cards) {
      card.element.hidden = !words.every((word) => card.text.includes(word));
      if (!card.element.hidden) shown += 1;
    }
    for (const group of programme.querySelectorAll('.day, .venue')) {
      group.hidden = [...group.querySelectorAll('.session-card')].every((card) => card.hidden);
    }
    found.textContent = search.value ? `${shown} sessions found` : '';
    programme.querySelector('.programme__none')?.remove();
    if (cards.length > 0 && shown === 0) programme.append(h('p', { class: 'muted programme__none' }, 'Nothing of that name is on the programme.'));
  };
  search.addEventListener('input', filter);

  try {
    const venues = await programmeOf(app);
    if (!root.isConnected) return undefined;
    cards = venues.flatMap(({ venue, sessions }) => sessions.map((session) => cardOf(venue, session)));
    show(programme, venues, cards);
    counts = app.link.watchCounts(cards.map(({ session }) => session.id), (id, now) => {
      const card = cards.find(({ session }) => session.id === id);
      card?.show(now);
    });
    observer = new IntersectionObserver((seen) => {
      for (const { target, isIntersecting } of seen) {
        if (!isIntersecting) continue;
        observer.unobserve(target);
        dress(cards.find(({ element }) => element === target), app);
      }
    }, { rootMargin: '200px' });
    for (const card of cards) observer.observe(card.element);
    filter();
  } catch (error) {
    fill(programme, h('div', { class: 'notice notice--warn' }, explain(error)));
  }
  return () => {
    counts?.stop();
    observer?.disconnect();
  };
}

async function programmeOf(app) {
  const venues = (await app.catalogue.venues()).slice(0, VENUES_MAX);
  const from = new Date(app.link.now() - BEGUN_AGO_MS).toISOString();
  const all = await Promise.all(venues.map(async (venue) => ({ venue, sessions: await app.catalogue.sessionsOf(venue.id, from) })));
  return all.filter(({ sessions }) => sessions.length > 0)
    .sort((one, other) => Date.parse(one.sessions[0].starts_at) - Date.parse(other.sessions[0].starts_at));
}

function show(programme, venues, cards) {
  if (venues.length === 0) {
    fill(programme, h('p', { class: 'muted' }, 'Nothing is on the programme yet.'));
    return;
  }
  const byId = new Map(cards.map((card) => [card.session.id, card]));
  fill(programme, venues.map(({ venue, sessions }) => {
    const days = Map.groupBy ? Map.groupBy(sessions, ({ starts_at: at, zone }) => day(at, zone)) : grouped(sessions);
    return h('section', { class: 'venue', dataset: { venue: venue.id }, 'aria-labelledby': `venue-${venue.id}` },
      h('div', { class: 'venue__head' }, h('h2', { id: `venue-${venue.id}` }, venue.name), venue.city && h('p', { class: 'venue__city' }, venue.city)),
      h('div', { class: 'days' }, [...days].map(([name, ofDay]) => h('div', { class: 'day' },
        h('h3', { class: 'day__name' }, name),
        h('ul', { class: 'sessions' }, ofDay.map(({ id }) => byId.get(id).element))))));
  }));
}

function grouped(sessions) {
  const days = new Map();
  for (const session of sessions) {
    const name = day(session.starts_at, session.zone);
    days.set(name, [...(days.get(name) || []), session]);
  }
  return days;
}

function cardOf(venue, session) {
  const counts = countsBar();
  const link = h('a', { class: 'session-card__link', href: `#/session/${encodeURIComponent(session.id)}` }, titled(session.title));
  const price = h('strong', { class: 'number' });
  const hall = h('span', {}, titled(session.hall));
  const element = h('li', { class: `session-card ${session.open ? '' : 'session-card--closed'}`, dataset: { session: session.id } },
    h('time', { class: 'session-card__time', datetime: session.starts_at }, clock(session.starts_at, session.zone), placeNote(session)),
    h('div', {}, h('h4', { class: 'session-card__title' }, link), h('p', { class: 'session-card__meta' }, hall, session.open ? price : h('span', { class: 'badge' }, 'closed'))),
    counts.element);
  const show = (now) => {
    counts.show(now.counts, now.areas);
    element.dataset.free = summed(now.counts, now.areas).free;
  };
  return { session, element, link, price, hall, show, text: plain(`${session.title} ${venue.name} ${venue.city || ''} ${session.hall}`), dressed: false };
}

/** The place whose time is shown, if it must be said. */
function placeNote({ starts_at: at, zone }) {
  const name = place(at, zone);
  return name ? h('span', { class: 'session-card__place' }, ` ${name}`) : null;
}

/** Name and price of a session that has come into view. */
async function dress(card, app) {
  const { session } = card;
  const [title, known] = await Promise.allSettled([app.catalogue.title(session.title), app.catalogue.session(session.id)]);
  if (title.value?.name) {
    card.link.textContent = title.value.name;
    card.text += ` ${plain(title.value.name)}`;
  }
  if (!known.value) return;
  const prices = [...Object.values(known.value.prices || {}), ...(known.value.areas || []).map((area) => area.price)];
  if (prices.length === 0) return;
  const least = prices.reduce((one, other) => (other.amount < one.amount ? other : one));
  card.price.textContent = `${prices.some((price) => price.amount !== least.amount) ? 'from ' : ''}${money(least.amount, least.currency)}`;
}

function plain(text) {
  return text.normalize('NFKD').replace(/\p{Diacritic}/gu, '').toLowerCase().replace(/[-_]/g, ' ');
}

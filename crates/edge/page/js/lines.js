// Lines of carts and orders, as people read them: names of titles, seats and places, prices.

import { h, money, titled } from './dom.js';
import { moment, span } from './local-time.js';
import { Plan, rowName } from './map/plan.js';
import { nameFor } from './names.js';
import { boughtSummary, boughtText } from './offers.js';

const plans = new Map();

async function planOf(app, id) {
  const session = await app.catalogue.session(id);
  if (!plans.has(id)) plans.set(id, new Plan(session));
  return { session, plan: plans.get(id) };
}

/** The price of a line, in minor units. */
export function amountOf(line) {
  if (line.prices) return line.prices.reduce((sum, price) => sum + price, 0);
  return (line.price || 0) * (line.quantity || 1);
}

/** Seats of a row together: "Stalls, Row A: 5, 6, 7". */
function seatsText(plan, seats) {
  const rows = new Map();
  for (const seat of seats) {
    const index = plan.index(seat);
    if (index >= 0) rows.set(seat[0], [...(rows.get(seat[0]) || []), plan.labels[index]]);
  }
  return [...rows].map(([number, labels]) => {
    const row = plan.rows[number];
    return `${row.section && plan.sections.length > 1 ? `${plan.sectionName(row.section)}, ` : ''}${rowName(row.label)}: ${labels.join(', ')}`;
  }).join(' · ');
}

/** The element of a line. `controls(line)` returns the elements below it. Names are filled in when they are known. */
export function lineElement(app, line, currency, controls = () => null) {
  const title = h('h2', { class: 'line__title' });
  const about = h('p', { class: 'muted' });
  const element = h('li', { class: 'line', dataset: { line: line.line } },
    h('div', {}, title, about, line.note ? h('p', { class: 'muted small', 'data-note': '' }, paragraph(line.note)) : null),
    h('p', { class: 'line__price' }, currency ? money(amountOf(line), currency) : ''),
    h('div', { class: 'line__body' }, controls(line)));
  describe(app, line, title, about).catch(() => {
    // The ids are shown already.
  });
  return element;
}

/** A text with its line ends. */
function paragraph(text) {
  return text.split(/\r?\n/).flatMap((each, index) => (index === 0 ? [each] : [h('br'), each]));
}

async function describe(app, line, title, about) {
  if (line.session) await describeSession(app, line, title, about);
  else if (line.product) {
    title.textContent = titled(line.product);
    about.textContent = line.late ? `${line.quantity} × — set aside when you pay` : `${line.quantity} ×`;
    const { name } = await app.catalogue.product(line.product);
    if (name) title.textContent = name;
  } else if (line.resource) {
    title.textContent = titled(line.resource);
    about.textContent = `${span(line.begin, line.end, line.zone)}${line.details ? ` · ${line.details}` : ''}`;
    const { name } = await app.catalogue.resource(line.resource);
    if (name) title.textContent = name;
  }
}

/** Venue, hall and city of a session, as far as they are known. */
async function placeOf(app, session) {
  const venue = await app.catalogue.venue(session.venue);
  const hall = venue.halls?.find((each) => each.id === session.hall);
  return [venue.name, hall?.name, venue.city].filter(Boolean).join(' · ');
}

async function describeSession(app, line, title, about) {
  const link = h('a', { href: `#/session/${encodeURIComponent(line.session)}` }, titled(line.session));
  title.replaceChildren(link);
  about.textContent = line.seats ? `${line.seats.length} seats` : `${line.quantity} places in ${titled(line.area)}`;
  const { session, plan } = await planOf(app, line.session);
  const area = (session.areas || []).find((each) => each.id === line.area);
  const what = line.seats ? seatsText(plan, line.seats) : `${line.quantity} × ${nameFor(area?.names, area?.name || titled(line.area))}`;
  const where = h('span', { class: 'line__place' });
  const types = boughtSummary(session, line);
  // The zone of the line is the one in which it was held or bought.
  about.replaceChildren(moment(session.starts_at, line.zone), h('br'), what, ...(types ? [h('br'), h('span', { class: 'line__types' }, types)] : []), h('br'), where);
  link.textContent = titled(session.title);
  const [known, place] = await Promise.allSettled([app.catalogue.title(session.title), placeOf(app, session)]);
  if (known.value?.name) link.textContent = known.value.name;
  where.textContent = place.value || titled(session.venue);
}

/**
 * "Row A seat 5" for buttons that release it, and the seat's numbers until the plan is known. `show` also gets a function that says what
 * a seat of a line was bought as.
 */
export function seatName(app, session, seat, show) {
  show(`${seat[0] + 1}/${seat[1] + 1}`, () => '');
  planOf(app, session).then(({ session: known, plan }) => show(plan.name(plan.index(seat)), (line, number) => boughtText(known, line, number)), () => {});
}

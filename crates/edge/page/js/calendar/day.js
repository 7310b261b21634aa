// One day of a resource as a strip of hours, with the closed, booked, free and chosen times.

import { fill, h } from '../dom.js';
import { hoursOf, lengthText, timeText, wall } from './zone.js';

const DAY_MINUTES = 24 * 60;
/** The margin before and after the opening hours. */
const MARGIN_MINUTES = 30;

/** The part of a day that is shown, in minutes: the opening hours and all bookings, with a margin. */
export function shownSpan(hours, day, bookings) {
  const open = hoursOf(hours, day);
  const all = [...open, ...bookings.map(({ from, to }) => [from, to])];
  if (all.length === 0) return [8 * 60, 20 * 60];
  const from = Math.min(...all.map(([begin]) => begin)) - MARGIN_MINUTES;
  const to = Math.max(...all.map(([, end]) => end)) + MARGIN_MINUTES;
  return [Math.max(0, Math.floor(from / 60) * 60), Math.min(DAY_MINUTES, Math.ceil(to / 60) * 60)];
}

/** The part of `[begin, end)` that is on this day, in minutes. Null if none is. */
export function onDay(zone, day, begin, end) {
  const [first, last] = [wall(zone, begin), wall(zone, end)];
  const from = first.day < day ? 0 : first.day === day ? first.minutes : null;
  const to = last.day > day ? DAY_MINUTES : last.day === day ? last.minutes : null;
  return from === null || to === null || to <= from ? null : { from, to };
}

/** The strip: {element, show({day, hours, bookings, slots, chosen, now})}. Calls `onPick(minutes)` when a free time is chosen. */
export function dayStrip(onPick) {
  const element = h('div', { class: 'day-strip' });
  const show = (state) => {
    const focused = element.contains(document.activeElement) ? document.activeElement.dataset.from : null;
    const span = shownSpan(state.hours, state.day, state.bookings);
    element.style.setProperty('--minutes', span[1] - span[0]);
    fill(element, hourLines(span), closedParts(state, span), nowLine(state, span), bookingList(state, span), slotList(state, span, onPick), chosenPart(state, span));
    if (focused !== null) element.querySelector(`[data-from="${focused}"]`)?.focus({ preventScroll: true });
  };
  return { element, show };
}

function placed(from, to, span) {
  return { '--from': Math.max(from, span[0]) - span[0], '--to': Math.min(to, span[1]) - span[0] };
}

function hourLines(span) {
  const lines = [];
  for (let minute = span[0]; minute <= span[1]; minute += 60) {
    lines.push(h('span', { class: 'day-strip__hour number', style: { '--from': minute - span[0] } }, timeText(minute)));
  }
  return h('div', { class: 'day-strip__hours', 'aria-hidden': 'true' }, lines);
}

function closedParts({ hours, day }, span) {
  const parts = [];
  let from = span[0];
  for (const [open, close] of [...hoursOf(hours, day), [span[1], span[1]]]) {
    if (open > from) parts.push(h('span', { class: 'day-strip__closed', style: placed(from, open, span) }));
    from = Math.max(from, close);
  }
  return h('div', { 'aria-hidden': 'true' }, parts);
}

function nowLine({ now }, span) {
  if (now === null || now < span[0] || now > span[1]) return null;
  return h('span', { class: 'day-strip__now', 'aria-hidden': 'true', style: { '--from': now - span[0] } });
}

const STATES = { reserved: 'Reserved', held: 'In a cart', sold: 'Booked' };

function bookingList({ bookings }, span) {
  const lanes = lanesOf(bookings);
  return h('ul', { class: 'day-strip__list', 'aria-label': 'Bookings' }, bookings.map((booking, index) => h('li', {
    class: `booking booking--${booking.mine ? 'mine' : booking.state}`,
    dataset: { short: booking.to - booking.from < 45 ? 'yes' : 'no' },
    style: { ...placed(booking.from, booking.to, span), '--lane': lanes.of[index], '--lanes': lanes.count },
  },
  h('strong', { class: 'number' }, `${timeText(booking.from)}–${timeText(booking.to)}`),
  h('span', {}, booking.mine || STATES[booking.state] || booking.state),
  booking.details && h('span', { class: 'booking__details' }, booking.details))));
}

/** Bookings at the same time stand side by side. */
function lanesOf(bookings) {
  const ends = [];
  const of = bookings.map(({ from, to }) => {
    const free = ends.findIndex((end) => end <= from);
    const lane = free === -1 ? ends.length : free;
    ends[lane] = to;
    return lane;
  });
  return { of, count: Math.max(1, ends.length) };
}

function slotList({ slots, chosen }, span, onPick) {
  return h('ul', { class: 'day-strip__list', 'aria-label': 'Free times' }, slots.map(({ from, to }) => h('li', { class: 'slot', style: placed(from, to, span) },
    h('button', {
      class: 'slot__button number', type: 'button', dataset: { from }, 'aria-pressed': String(chosen?.from === from), onclick: () => onPick(from),
    }, `${timeText(from)}–${timeText(to)}`, h('span', { class: 'unseen' }, ` free, ${lengthText(to - from)}`)))));
}

function chosenPart({ chosen, slots }, span) {
  if (!chosen || slots.some(({ from }) => from === chosen.from) || chosen.from < span[0] || chosen.to > span[1]) return null;
  return h('span', { class: 'day-strip__chosen', 'aria-hidden': 'true', dataset: { fits: chosen.fits ? 'yes' : 'no' }, style: placed(chosen.from, chosen.to, span) });
}

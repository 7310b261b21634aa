// One day of a resource as a strip of hours, with the closed, booked, free and chosen times, in minutes that pass.

import { fill, h } from '../dom.js';
import { lengthText } from './zone.js';

/** The margin before and after the opening hours. */
const MARGIN_MINUTES = 30;

/** The part of a day that is shown, in minutes: the opening hours and all bookings, with a margin. */
export function shownSpan(hours, day, bookings) {
  const all = [...day.open(hours), ...bookings.map(({ from, to }) => [from, to])];
  if (all.length === 0) return [8 * 60, 20 * 60];
  const from = Math.min(...all.map(([begin]) => begin)) - MARGIN_MINUTES;
  const to = Math.max(...all.map(([, end]) => end)) + MARGIN_MINUTES;
  return [Math.max(0, Math.floor(from / 60) * 60), Math.min(day.minutes, Math.ceil(to / 60) * 60)];
}

/** The strip: {element, show({day, hours, bookings, slots, chosen, now})} with a LocalDay. Calls `onPick(minutes)` when a free time is chosen. */
export function dayStrip(onPick) {
  const element = h('div', { class: 'day-strip' });
  const show = (state) => {
    const focused = element.contains(document.activeElement) ? document.activeElement.dataset.from : null;
    const span = shownSpan(state.hours, state.day, state.bookings);
    element.style.setProperty('--minutes', span[1] - span[0]);
    fill(element, hourLines(state, span), closedParts(state, span), nowLine(state, span), bookingList(state, span), slotList(state, span, onPick), chosenPart(state, span));
    if (focused !== null) element.querySelector(`[data-from="${focused}"]`)?.focus({ preventScroll: true });
  };
  return { element, show };
}

function placed(from, to, span) {
  return { '--from': Math.max(from, span[0]) - span[0], '--to': Math.min(to, span[1]) - span[0] };
}

function hourLines({ day }, span) {
  const lines = [];
  for (let minute = span[0]; minute <= span[1]; minute += 60) {
    lines.push(h('span', { class: 'day-strip__hour number', style: { '--from': minute - span[0] } }, day.text(minute)));
  }
  return h('div', { class: 'day-strip__hours', 'aria-hidden': 'true' }, lines);
}

function closedParts({ hours, day }, span) {
  const parts = [];
  let from = span[0];
  for (const [open, close] of [...day.open(hours), [span[1], span[1]]]) {
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

function bookingList({ day, bookings }, span) {
  const lanes = lanesOf(bookings);
  return h('ul', { class: 'day-strip__list', 'aria-label': 'Bookings' }, bookings.map((booking, index) => h('li', {
    class: `booking booking--${booking.mine ? 'mine' : booking.state}`,
    dataset: { short: booking.to - booking.from < 45 ? 'yes' : 'no' },
    style: { ...placed(booking.from, booking.to, span), '--lane': lanes.of[index], '--lanes': lanes.count },
  },
  h('strong', { class: 'number' }, `${day.text(booking.from)}–${day.text(booking.to)}`),
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

function slotList({ day, slots, chosen }, span, onPick) {
  return h('ul', { class: 'day-strip__list', 'aria-label': 'Free times' }, slots.map(({ from, to }) => h('li', { class: 'slot', style: placed(from, to, span) },
    h('button', {
      class: 'slot__button number', type: 'button', dataset: { from }, 'aria-pressed': String(chosen?.from === from), onclick: () => onPick(from),
    }, `${day.text(from)}–${day.text(to)}`, h('span', { class: 'unseen' }, ` free, ${lengthText(to - from)}`)))));
}

function chosenPart({ chosen, slots }, span) {
  if (!chosen || slots.some(({ from }) => from === chosen.from) || chosen.from < span[0] || chosen.to > span[1]) return null;
  return h('span', { class: 'day-strip__chosen', 'aria-hidden': 'true', dataset: { fits: chosen.fits ? 'yes' : 'no' }, style: placed(chosen.from, chosen.to, span) });
}

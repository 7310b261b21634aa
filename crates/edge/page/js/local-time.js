// Times as the clocks of their place show them, wherever the browser is. The place is named if this browser's clocks show another
// hour at that instant. Without a zone, or with one that the browser does not know, the time is that of UTC, by name.

import { ahead } from './calendar/zone.js';

const MINUTE = 60_000;
const UTC = { zone: 'UTC', name: 'UTC', always: true };
const places = new Map();
const formats = new Map();

/** A zone that the browser knows, with the name of its place. */
function placeOf(zone) {
  if (!zone) return UTC;
  if (!places.has(zone)) places.set(zone, known(zone) ? { zone, name: nameOf(zone), always: false } : UTC);
  return places.get(zone);
}

function known(zone) {
  try {
    return Boolean(new Intl.DateTimeFormat('en', { timeZone: zone }));
  } catch {
    return false;
  }
}

/** "New York" of America/New_York. Zones without a place have their own name. */
export function nameOf(zone) {
  return zone.includes('/') && !zone.startsWith('Etc/') ? zone.split('/').at(-1).replace(/_/g, ' ') : zone;
}

function format(kind, zone, options) {
  const language = globalThis.document?.documentElement.lang || 'en';
  const key = `${kind} ${language} ${zone}`;
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat(language, { ...options, timeZone: zone }));
  return formats.get(key);
}

const CLOCK = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };

/** The name of the place if it must be said: "time in New York", "UTC" or "". */
export function place(time, zone) {
  const { zone: shown, name, always } = placeOf(zone);
  if (always) return name;
  const instant = new Date(time);
  const here = -instant.getTimezoneOffset() * MINUTE;
  return ahead(shown, instant.getTime()) === here ? '' : `time in ${name}`;
}

/** The same after a time: " (time in New York)", " UTC" or "". */
export function suffix(time, zone) {
  const name = place(time, zone);
  if (!name) return '';
  return placeOf(zone).always ? ` ${name}` : ` (${name})`;
}

/** A time of the day without its place: "19:30". */
export function clock(time, zone) {
  return format('clock', placeOf(zone).zone, CLOCK).format(new Date(time));
}

/** A day: "Sunday 22 November". */
export function day(time, zone) {
  return format('day', placeOf(zone).zone, { weekday: 'long', day: 'numeric', month: 'long' }).format(new Date(time));
}

/** A day for forms and searches: "2026-11-22". */
export function isoDay(time, zone) {
  const { year, month, day: date } = Object.fromEntries(format('iso day', placeOf(zone).zone, { year: 'numeric', month: '2-digit', day: '2-digit', calendar: 'iso8601', numberingSystem: 'latn' })
    .formatToParts(new Date(time)).map(({ type, value }) => [type, value]));
  return `${year}-${month}-${date}`;
}

/** Day and time: "Sun 22 Nov, 19:30 (time in New York)". */
export function moment(time, zone) {
  const shown = format('moment', placeOf(zone).zone, { weekday: 'short', day: 'numeric', month: 'short', ...CLOCK });
  return `${shown.format(new Date(time))}${suffix(time, zone)}`;
}

/** Day and time to the second: "22 Nov, 19:30:05 UTC". */
export function exactly(time, zone) {
  const shown = format('exactly', placeOf(zone).zone, { day: 'numeric', month: 'short', ...CLOCK, second: '2-digit' });
  return `${shown.format(new Date(time))}${suffix(time, zone)}`;
}

/** Day and time in a language, with the name of the zone: "Sun, Nov 22, 19:30 GMT+1". */
export function momentIn(language, time, zone) {
  const options = { weekday: 'short', day: 'numeric', month: 'short', ...CLOCK, timeZoneName: 'short', timeZone: placeOf(zone).zone };
  return new Intl.DateTimeFormat(language, options).format(new Date(time));
}

/** From one time to another: "Sun 22 Nov, 19:30 – 21:00 (time in New York)". */
export function span(begin, end, zone) {
  const first = format('moment', placeOf(zone).zone, { weekday: 'short', day: 'numeric', month: 'short', ...CLOCK }).format(new Date(begin));
  // A change of clocks in between may make one of the two differ from this browser's clocks and not the other.
  return `${first} – ${clock(end, zone)}${suffix(begin, zone) || suffix(end, zone)}`;
}

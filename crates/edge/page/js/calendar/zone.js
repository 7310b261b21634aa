// Local days and times of a resource. A day is "2026-04-12", and a time of day is in minutes after midnight.

const MINUTE = 60_000;
const formats = new Map();

function format(zone) {
  if (!formats.has(zone)) {
    formats.set(zone, new Intl.DateTimeFormat('en-CA', {
      timeZone: zone, hourCycle: 'h23', year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit',
    }));
  }
  return formats.get(zone);
}

/** The wall-clock time at an instant: {day, minutes}. */
export function wall(zone, instant) {
  const parts = Object.fromEntries(format(zone).formatToParts(new Date(instant)).map(({ type, value }) => [type, value]));
  return { day: `${parts.year}-${parts.month}-${parts.day}`, minutes: Number(parts.hour) * 60 + Number(parts.minute) };
}

/** How far the wall clock is ahead of UTC at an instant, in milliseconds. */
function ahead(zone, instant) {
  const { day, minutes } = wall(zone, instant);
  const whole = Math.floor(instant / MINUTE) * MINUTE;
  return Date.parse(`${day}T00:00:00Z`) + minutes * MINUTE - whole;
}

/** The instant of a wall-clock time, in milliseconds since 1970. A time that the clocks skip has the offset from before. */
export function instant(zone, day, minutes) {
  const shown = Date.parse(`${day}T00:00:00Z`) + minutes * MINUTE;
  const first = shown - ahead(zone, shown);
  // The clocks may have been changed between the guess and the instant.
  return shown - ahead(zone, first);
}

/** The day this many days later. */
export function addDays(day, days) {
  return new Date(Date.parse(`${day}T00:00:00Z`) + days * 24 * 60 * MINUTE).toISOString().slice(0, 10);
}

/** 0 for Monday to 6 for Sunday. */
export function weekday(day) {
  return (new Date(`${day}T00:00:00Z`).getUTCDay() + 6) % 7;
}

/** A time as "09:30". The end of a day is "24:00". */
export function timeText(minutes) {
  return `${String(Math.floor(minutes / 60)).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`;
}

/** "Monday, November 23, 2026" */
export function dayText(day) {
  return new Intl.DateTimeFormat('en', { timeZone: 'UTC', weekday: 'long', day: 'numeric', month: 'long', year: 'numeric' }).format(new Date(`${day}T00:00:00Z`));
}

/** "1 h 30 min" */
export function lengthText(minutes) {
  const [hours, rest] = [Math.floor(minutes / 60), minutes % 60];
  return [hours > 0 && `${hours} h`, rest > 0 && `${rest} min`].filter(Boolean).join(' ') || '0 min';
}

/** The opening hours of a day as [[open, close]] in minutes. The whole day if there are none. */
export function hoursOf(hours, day) {
  if (!hours) return [[0, 24 * 60]];
  return hours.exceptions?.[day] ?? hours.week?.[weekday(day)] ?? [];
}

/** The first of seven days, from a wall-clock time on, that is open for `length` minutes in one piece. If none is, the day of that time. */
export function openDay(hours, { day, minutes }, length) {
  for (let days = 0; days < 7; days += 1) {
    const next = addDays(day, days);
    const from = days === 0 ? minutes : 0;
    if (hoursOf(hours, next).some(([open, close]) => Math.max(open, from) + length <= close)) return next;
  }
  return day;
}

// Local days and times of a resource. A day is "2026-04-12", and a time of day is in minutes after midnight by the clock. Within a
// day, minutes are counted as they pass, so a day on which the clocks change has 23 or 25 hours.

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** No place is further from UTC. */
const FURTHEST = 15 * HOUR;
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
export function ahead(zone, instant) {
  const { day, minutes } = wall(zone, instant);
  const whole = Math.floor(instant / MINUTE) * MINUTE;
  return midnight(day) + minutes * MINUTE - whole;
}

/** The midnight of a day in UTC, in milliseconds since 1970. */
function midnight(day) {
  return Date.parse(`${day}T00:00:00Z`);
}

/** The first instant between two for which this is so, to the minute. It is so from then on, and for the last one. */
function first(from, to, isSo) {
  let [before, after] = [Math.floor(from / MINUTE), Math.floor(to / MINUTE)];
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2);
    if (isSo(middle * MINUTE)) after = middle;
    else before = middle;
  }
  return after * MINUTE;
}

/** The instant at which a day begins. It need not be midnight by the clock, which may skip it or show it twice. */
function beginOf(zone, day) {
  return first(midnight(day) - FURTHEST, midnight(day) + FURTHEST, (instant) => wall(zone, instant).day >= day);
}

/** "UTC", "UTC+1", "UTC-3:30" */
function offsetText(offset) {
  const [sign, minutes] = [offset < 0 ? '-' : '+', Math.abs(offset) / MINUTE];
  const [hours, rest] = [Math.floor(minutes / 60), minutes % 60];
  return offset === 0 ? 'UTC' : `UTC${sign}${hours}${rest > 0 ? `:${String(rest).padStart(2, '0')}` : ''}`;
}

/** A day of a zone, in minutes that pass from its begin on. */
export class LocalDay {
  constructor(zone, day) {
    Object.assign(this, { zone, day, begin: beginOf(zone, day) });
    this.end = beginOf(zone, addDays(day, 1));
    this.minutes = (this.end - this.begin) / MINUTE;
    this.stretches = this.cut();
  }

  /** Stretches with one offset from UTC. The clock shows `shift` more than the minutes that have passed. */
  cut() {
    const stretches = [];
    for (let from = this.begin; from < this.end;) {
      const offset = ahead(this.zone, from);
      const same = ahead(this.zone, this.end - MINUTE) === offset;
      const to = same ? this.end : first(from, this.end - MINUTE, (instant) => ahead(this.zone, instant) !== offset);
      const passed = (from - this.begin) / MINUTE;
      stretches.push({ from: passed, to: (to - this.begin) / MINUTE, offset, shift: (from + offset - midnight(this.day)) / MINUTE - passed });
      from = to;
    }
    return stretches;
  }

  /** The minute at an instant. It may be before or after the day. */
  minute(instant) {
    return (instant - this.begin) / MINUTE;
  }

  /** The instant at a minute. */
  instant(minute) {
    return this.begin + minute * MINUTE;
  }

  /** The part of `[begin, end)` that is on this day. Null if none is. */
  part(begin, end) {
    const [from, to] = [Math.max(0, this.minute(begin)), Math.min(this.minutes, this.minute(end))];
    return to > from ? { from, to } : null;
  }

  /** When it is open, as [[from, to]]. An hour that the clocks skip is not, and one that they show twice is so twice. */
  open(hours) {
    const parts = [];
    for (const { from, to, shift } of this.stretches) {
      for (const [open, close] of hoursOf(hours, this.day)) {
        const [begin, end] = [Math.max(from, open - shift), Math.min(to, close - shift)];
        if (end <= begin) continue;
        if (parts.at(-1)?.[1] === begin) parts.at(-1)[1] = end;
        else parts.push([begin, end]);
      }
    }
    return parts;
  }

  /** A minute as the clock shows it: "09:30". If the clock shows it twice on this day, with the offset: "01:30 UTC+1". */
  text(minute) {
    const stretch = this.stretches.find(({ to }) => minute < to) || this.stretches.at(-1);
    const shown = minute + stretch.shift;
    const again = this.stretches.some((other) => other !== stretch && other.from <= shown - other.shift && shown - other.shift < other.to);
    return `${timeText(shown)}${again ? ` ${offsetText(stretch.offset)}` : ''}`;
  }
}

/** The day this many days later. */
export function addDays(day, days) {
  return new Date(midnight(day) + days * 24 * HOUR).toISOString().slice(0, 10);
}

/** 0 for Monday to 6 for Sunday. */
export function weekday(day) {
  return (new Date(midnight(day)).getUTCDay() + 6) % 7;
}

/** A time as "09:30". The end of a day is "24:00". */
export function timeText(minutes) {
  return `${String(Math.floor(minutes / 60)).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`;
}

/** "Monday, November 23, 2026" */
export function dayText(day) {
  return new Intl.DateTimeFormat('en', { timeZone: 'UTC', weekday: 'long', day: 'numeric', month: 'long', year: 'numeric' }).format(new Date(midnight(day)));
}

/** "1 h 30 min" */
export function lengthText(minutes) {
  const [hours, rest] = [Math.floor(minutes / 60), minutes % 60];
  return [hours > 0 && `${hours} h`, rest > 0 && `${rest} min`].filter(Boolean).join(' ') || '0 min';
}

/** The opening hours of a day as [[open, close]] in minutes by the clock. The whole day if there are none. */
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

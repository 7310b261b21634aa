// Days and times of a zone without a browser: the day with which a room's page begins, days on which the clocks change, and times
// of shows by the clocks of their place.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addDays, LocalDay, openDay, wall } from '../../crates/edge/page/js/calendar/zone.js';
import { clock, day, moment, place, span, suffix } from '../../crates/edge/page/js/local-time.js';
import { seeded } from './lib.mjs';

const [WEDNESDAY, THURSDAY, MONDAY] = ['2026-11-25', '2026-11-26', '2026-11-30'];
const at = (hour, minute = 0) => ({ day: WEDNESDAY, minutes: hour * 60 + minute });

test('a room that is always open begins with the day that has room for a booking', () => {
  assert.equal(openDay(null, at(0), 60), WEDNESDAY);
  assert.equal(openDay(null, at(23), 60), WEDNESDAY);
  assert.equal(openDay(null, at(23, 1), 60), THURSDAY);
});

test('a room with opening hours begins with the next day that it is open for long enough', () => {
  const [day, short] = [[[540, 1080]], [[540, 580]]];
  const hours = { week: [day, day, day, short, [], [], []], exceptions: {} };
  assert.equal(openDay(hours, at(17), 60), WEDNESDAY);
  assert.equal(openDay(hours, at(17, 1), 60), MONDAY);
  assert.equal(openDay(hours, at(17, 1), 40), WEDNESDAY);
  assert.equal(openDay({ ...hours, exceptions: { [THURSDAY]: day } }, at(18), 60), THURSDAY);
  assert.equal(openDay({ week: [[], [], [], [], [], [], []] }, at(8), 60), WEDNESDAY);
});

test('a day has 23 or 25 hours when the clocks change, also at midnight and by half an hour', () => {
  const of = (zone, day) => {
    const { minutes, stretches, begin } = new LocalDay(zone, day);
    return [minutes, stretches.map(({ from, to }) => `${from}-${to}`).join(' '), new Date(begin).toISOString().slice(0, 16)];
  };
  assert.deepEqual(of('Europe/London', '2027-06-01'), [1440, '0-1440', '2027-05-31T23:00']);
  assert.deepEqual(of('Europe/London', '2027-10-31'), [1500, '0-120 120-1500', '2027-10-30T23:00']);
  assert.deepEqual(of('Europe/London', '2027-03-28'), [1380, '0-60 60-1380', '2027-03-28T00:00']);
  assert.deepEqual(of('America/New_York', '2027-11-07'), [1500, '0-120 120-1500', '2027-11-07T04:00']);
  assert.deepEqual(of('Australia/Lord_Howe', '2027-04-04'), [1470, '0-120 120-1470', '2027-04-03T13:00']);
  assert.deepEqual(of('Asia/Kathmandu', '2027-03-28'), [1440, '0-1440', '2027-03-27T18:15']);
  // In Cairo midnight does not exist on one day, and in Havana the clocks show it twice on another.
  assert.deepEqual(of('Africa/Cairo', '2027-04-30'), [1380, '0-1380', '2027-04-29T22:00']);
  assert.deepEqual(of('America/Havana', '2027-11-07'), [1500, '0-60 60-1500', '2027-11-07T04:00']);
});

test('what is booked in an hour that the clocks show twice is on the strip, and the two hours have different names', () => {
  const day = new LocalDay('Europe/London', '2027-10-31');
  const [begin, end] = [Date.parse('2027-10-31T00:00Z'), Date.parse('2027-10-31T01:00Z')];
  assert.deepEqual(day.part(begin, end), { from: 60, to: 120 });
  assert.equal(day.text(60), '01:00 UTC+1');
  assert.equal(day.text(120), '01:00 UTC');
  assert.equal(day.text(180), '02:00');
  assert.equal(day.text(1500), '24:00');
  const short = new LocalDay('Europe/London', '2027-03-28');
  assert.deepEqual([0, 59, 60, 1380].map((minute) => short.text(minute)), ['00:00', '00:59', '02:00', '24:00']);
  // Open from one to three is three hours on the long day, and one on the short day.
  const hours = { week: Array(7).fill([[60, 180]]) };
  assert.deepEqual(day.open(hours), [[60, 240]]);
  assert.deepEqual(short.open(hours), [[60, 120]]);
  assert.deepEqual(day.open(null), [[0, 1500]]);
});

/** On every day of two years, in zones of every kind: nothing is lost, nothing is counted twice, and clocks and instants agree. */
test('every part of every day is on exactly one strip', () => {
  const { draw } = seeded('days');
  const zones = ['Europe/Copenhagen', 'America/New_York', 'America/St_Johns', 'Australia/Lord_Howe', 'Pacific/Auckland', 'Africa/Cairo', 'America/Havana', 'Asia/Kathmandu', 'Pacific/Apia'];
  for (const zone of zones) {
    let before = null;
    for (let date = '2027-01-01'; date < '2028-01-01'; date = addDays(date, 1)) {
      const day = new LocalDay(zone, date);
      if (before) assert.equal(day.begin, before.end, `${zone} ${date} begins when the day before ends`);
      assert.ok([1380, 1410, 1440, 1470, 1500].includes(day.minutes), `${zone} ${date} has ${day.minutes} minutes`);
      const minute = draw(day.minutes / 15) * 15;
      const instant = day.instant(minute);
      const shown = wall(zone, instant);
      const text = `${String(Math.floor(shown.minutes / 60)).padStart(2, '0')}:${String(shown.minutes % 60).padStart(2, '0')}`;
      assert.equal(shown.day, date);
      assert.equal(day.text(minute).slice(0, 5), text, `${zone} ${date} minute ${minute}`);
      // A booking of an hour is whole on this day, or its rest is on the next one.
      const part = day.part(instant, instant + 3_600_000);
      const rest = new LocalDay(zone, addDays(date, 1)).part(instant, instant + 3_600_000);
      assert.equal(part.to - part.from + (rest ? rest.to - rest.from : 0), 60, `${zone} ${date} minute ${minute}`);
      before = day;
    }
  }
});

test('times are those of the place, which is named if the browser\'s clocks show another hour at that instant', () => {
  const evening = '2027-03-20T19:00:00Z';
  const later = '2027-03-28T18:00:00Z';
  const told = (zone, time, of) => {
    process.env.TZ = zone;
    return moment(time, of);
  };
  const own = process.env.TZ;
  try {
    assert.equal(told('Europe/Copenhagen', evening, 'Europe/Copenhagen'), 'Sat, Mar 20, 20:00');
    assert.equal(told('Europe/Berlin', evening, 'Europe/Copenhagen'), 'Sat, Mar 20, 20:00');
    assert.equal(told('America/New_York', evening, 'Europe/Copenhagen'), 'Sat, Mar 20, 20:00 (time in Copenhagen)');
    assert.equal(told('Europe/Copenhagen', evening, 'America/New_York'), 'Sat, Mar 20, 15:00 (time in New York)');
    assert.equal(told('Asia/Tokyo', evening, 'Asia/Kathmandu'), 'Sun, Mar 21, 00:45 (time in Kathmandu)');
    // Clocks in Algiers stay as they are when those in Copenhagen go forward.
    assert.equal(told('Africa/Algiers', evening, 'Europe/Copenhagen'), 'Sat, Mar 20, 20:00');
    assert.equal(told('Africa/Algiers', later, 'Europe/Copenhagen'), 'Sun, Mar 28, 20:00 (time in Copenhagen)');
    for (const unknown of [undefined, null, '', 'Atlantis/City']) {
      assert.equal(told('Europe/Copenhagen', evening, unknown), 'Sat, Mar 20, 19:00 UTC');
      assert.equal(told('UTC', evening, unknown), 'Sat, Mar 20, 19:00 UTC');
      assert.equal(place(evening, unknown), 'UTC');
    }
    process.env.TZ = 'America/New_York';
    assert.equal(clock(evening, 'Europe/Copenhagen'), '20:00');
    assert.equal(day(evening, 'Asia/Kathmandu'), 'Sunday, March 21');
    assert.equal(suffix(evening, 'America/New_York'), '');
    assert.equal(span(evening, '2027-03-20T20:30:00Z', 'Europe/Copenhagen'), 'Sat, Mar 20, 20:00 – 21:30 (time in Copenhagen)');
  } finally {
    if (own === undefined) delete process.env.TZ;
    else process.env.TZ = own;
  }
});

// The day with which a room's page begins, without a browser.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openDay } from '../../crates/edge/page/js/calendar/zone.js';

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

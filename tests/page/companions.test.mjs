// What is particular about seats: notes of the house, such as a restricted view, and seats of companions beside wheelchair places.

import assert from 'node:assert/strict';
import { house, price, sentOf, visit } from './house.mjs';
import { hold, inCart, pageTest, pick, reads } from './lib.mjs';
import { withOwn } from './own.mjs';

const LAYOUT = {
  rows: [{ label: 'A', runs: [{ count: 2 }, { count: 1, first: 3, accessible: true }, { count: 3, first: 4 }] }],
  category: 'stalls',
  seat_notes: [{ text: 'Restricted view', names: { da: 'Begrænset udsyn', en: 'Restricted view' }, seats: [[0, 5]] }],
};

/** Clicks at a seat without waiting for it to be picked. */
async function click(page, row, seat) {
  const { x, y } = await page.evaluate(([r, s]) => window.boxoffice.seatPoint(r, s), [row, seat]);
  await page.mouse.click(x, y);
}

pageTest('a companion\'s seat is picked beside its wheelchair place, and notes of seats are told', (people) => withOwn(people, async (own) => {
  const { ask, url } = await house(own);
  await ask('hall.put', { venue: 'v', id: 'h', name: 'H', layout: LAYOUT });
  await ask('session.create', {
    id: 's', venue: 'v', hall: 'h', title: 't', starts_at: '2031-01-01T19:00:00Z', ends_at: '2031-01-01T21:00:00Z',
    prices: { stalls: price(1000) }, allotments: [{ id: 'beside', seats: [[0, 1]], companions: true }, { id: 'house', seats: [[0, 0]] }],
  });
  let held;
  const page = await visit(people, url, 's', { locale: 'da-DK' }, (window) => { held = sentOf(window, 'cart.hold_seats'); });
  await click(page, 0, 1);
  await reads(page, 'body', /Pick the wheelchair place beside it first/);
  assert.equal(await page.locator('#picked').count(), 0);
  await pick(page, 0, 2, 1);
  // Without the wheelchair place its companion's seat goes, too.
  await click(page, 0, 2);
  await page.waitForFunction(() => !document.querySelector('#picked li'));
  await pick(page, 0, 2, 1, 5);
  await reads(page, '#picked [data-seat="0,5"]', /Begrænset udsyn/);
  assert.equal(await page.locator('#picked [data-seat="0,1"]').getByText('Begrænset').count(), 0);
  await reads(page, '#seats-live', /Begrænset udsyn/);
  // The seat of the house stays its own.
  await click(page, 0, 0);
  assert.equal(await page.locator('#picked [data-seat="0,0"]').count(), 0);
  await hold(page);
  await inCart(page, 3);
  assert.deepEqual(held.map(({ seats }) => seats.sort()), [[[0, 1], [0, 2], [0, 5]]]);
}), { within: 60_000 });

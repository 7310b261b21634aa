// Seats: live updates, races for a seat, expiry, and payment.

import assert from 'node:assert/strict';
import { call, frames, go, hold, inCart, mapKnown, median, pageTest, pause, pay, pick, reads, shows, taken } from './lib.mjs';

const SEEN_WITHIN_MS = 200;

pageTest('two browsers on different nodes see each other\'s holds within 200 ms', async (people, print) => {
  const [one, other] = [await people.open(0, '#/session/page-two'), await people.open(1, '#/session/page-two')];
  const took = [];
  for (let turn = 0; turn < 5; turn += 1) {
    const [presses, watches] = turn % 2 === 0 ? [one, other] : [other, one];
    await pick(presses, turn, 3);
    const seen = watches.evaluate((row) => new Promise((resolve) => {
      const look = () => (window.boxoffice.mapState(row, 3) === 1 ? resolve(Date.now()) : setTimeout(look, 1));
      look();
    }), turn);
    // The page watches before this resolves.
    await watches.evaluate(() => 0);
    const pressed = await presses.evaluate(() => {
      document.getElementById('hold').click();
      return Date.now();
    });
    took.push((await seen) - pressed);
    await inCart(presses, Math.floor(turn / 2) + 1);
  }
  print(`from the press to the other's map: ${took.join(', ')} ms, median ${median(took)} ms`);
  assert.ok(median(took) <= SEEN_WITHIN_MS, `median ${median(took)} ms`);
});

pageTest('a watch that ends before its answer does not end the next watch of the same session', async (people) => {
  const page = await people.open(0);
  await page.evaluate(() => {
    const { link } = window.boxoffice.app;
    window.heard = [];
    link.watch('session/page-sleep', {}).stop();
    link.watch('session/page-sleep', { snapshot: () => window.heard.push('snapshot'), delta: () => window.heard.push('delta') });
  });
  await page.waitForFunction(() => window.heard.includes('snapshot'));
  // Frames that the first watch still sends reach the node meanwhile.
  await pause(500);
  await taken('page-sleep', [[9, 11]]);
  await page.waitForFunction(() => window.heard.includes('delta'));
});

pageTest('a watch of counts that ends before its answer is ended at the node', async (people) => {
  let between;
  const page = await people.open(0, '#/cart', {}, async (each) => { between = await frames(each); });
  await page.evaluate(() => window.boxoffice.app.link.watchCounts(['page-sleep'], () => {}).stop());
  for (let left = 50; left > 0 && !between.sent.includes('unwatch'); left -= 1) await pause(100);
  assert.ok(between.sent.includes('unwatch'), between.sent.join(' '));
});

pageTest('a late answer to a checkout does not open the order again', async (people) => {
  let between;
  const page = await people.open(0, '#/session/page-late', {}, async (each) => { between = await frames(each); });
  await pick(page, 0, 1);
  await hold(page);
  await go(page, '#/cart');
  await page.waitForSelector('#pay');
  // Feeds go on, so the page hears of the order from the cart's.
  between.stop((frame) => frame.feed === undefined);
  await pay(page, 'Ada');
  await page.waitForFunction(() => location.hash.startsWith('#/order/'));
  await go(page, '#/purchases');
  between.go();
  await page.waitForSelector('#purchases');
  await pause(500);
  assert.equal(await page.evaluate(() => location.hash), '#/purchases');
});

pageTest('the loser of a race sees the lost seats and the reason, and keeps the other picks', async (people) => {
  // The loser presses before it learns of the winner's hold, however busy the machine is.
  let sent;
  const winner = await people.open(0, '#/session/page-race');
  const loser = await people.open(2, '#/session/page-race', {}, async (page) => { sent = await frames(page); });
  await pick(winner, 4, 2, 3, 4);
  await pick(loser, 4, 4, 5, 6);
  sent.stop();
  await hold(winner);
  await loser.click('#hold');
  sent.go();
  await loser.waitForSelector('#lost-seats');
  await inCart(winner, 3);
  assert.match(await loser.textContent('#lost-seats'), /^Row E seat 5 — held$/);
  assert.match(await loser.textContent('#session-note'), /taken/i);
  assert.deepEqual(await loser.$$eval('#picked [data-seat]', (chips) => chips.map((chip) => chip.dataset.seat)), ['4,5', '4,6']);
  assert.equal(await winner.locator('#lost-seats').count(), 0);
  await hold(loser);
  await inCart(loser, 2);
  await shows(winner, 4, 5, 1);
});

pageTest('the countdown ticks, the expiry is shown, and the seats are free again', async (people) => {
  const page = await people.open(1, '#/session/page-expiry');
  const other = await people.open(0, '#/session/page-expiry');
  await pick(page, 2, 2, 3);
  await hold(page);
  await shows(other, 2, 2, 1);
  await page.click('#to-cart');
  await page.waitForSelector('#countdown:not(:empty)');
  const first = await page.textContent('#countdown');
  await page.waitForFunction((text) => document.getElementById('countdown').textContent !== text, first);
  const second = await page.textContent('#countdown');
  assert.match(`${first} ${second}`, /^0:0[1-4] 0:0[0-3]$/);
  await page.waitForSelector('#expired');
  await reads(page, '#toasts', /Your time ran out/);
  await inCart(page, 0);
  await shows(other, 2, 2, 0);
  await shows(other, 2, 3, 0);
  assert.equal((await call('session.get', { id: 'page-expiry' })).counts.held, 0);
  await page.click('#hold-again');
  await inCart(page, 2);
});

pageTest('the cart survives a reload', async (people) => {
  const page = await people.open(0, '#/session/page-reload');
  await pick(page, 1, 5, 6);
  await hold(page);
  await page.reload();
  await mapKnown(page);
  await inCart(page, 2);
  await reads(page, '#summary', /2 held for you/);
  await go(page, '#/cart');
  await reads(page, '#lines', /Row B: 6, 7/);
});

pageTest('the best available seats are held with one press', async (people) => {
  const page = await people.open(2, '#/session/page-best');
  await page.click('#best-count button:last-child');
  await page.click('#best');
  await inCart(page, 3);
  const seats = await page.evaluate(() => window.boxoffice.app.cart.seatsOf('page-best'));
  assert.equal(new Set(seats.map(([row]) => row)).size, 1, 'side by side in a row');
  for (const [row, seat] of seats) await shows(page, row, seat, 1);
});

pageTest('an order is paid elsewhere and recorded, and is found among the purchases', async (people) => {
  const page = await people.open(0, '#/session/page-paid');
  await pick(page, 0, 1, 2);
  await hold(page);
  await page.click('#to-cart');
  await pay(page, 'Ada Lovelace');
  await page.waitForSelector('#payment[data-state=recorded]');
  assert.equal(await page.textContent('#order-total'), '€40');
  await reads(page, '#order', /Row A: 2, 3/);
  const id = await page.textContent('#order-id');
  await page.click('a[href="#/purchases"] >> nth=-1');
  await page.waitForSelector(`#purchases [data-order="${id}"]`);
  await go(page, '#/session/page-paid');
  await shows(page, 0, 1, 2);
});

pageTest('the gateway declines and the seats stay held; it approves and the order is there', async (people) => {
  const page = await people.open(1, '#/session/page-paid');
  await pick(page, 3, 4);
  await hold(page);
  await page.click('#to-cart');
  await pay(page, 'Grace Hopper', 'decline');
  await page.waitForSelector('#pay-note[data-refusal=payment_declined]');
  await reads(page, '#pay-note', /declined.*still held/);
  await inCart(page, 1);
  await pay(page, 'Grace Hopper', 'ok');
  await page.waitForSelector('#payment[data-state=captured]');
  await inCart(page, 0);
});

pageTest('after a network outage the map is correct again', async (people) => {
  const page = await people.open(0, '#/session/page-sleep');
  const other = await people.open(1, '#/session/page-sleep');
  const network = await page.context().newCDPSession(page);
  const offline = (is) => network.send('Network.emulateNetworkConditions', { offline: is, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
  await offline(true);
  await pick(other, 6, 6);
  await hold(other);
  await pause(3_000);
  await offline(false);
  await shows(page, 6, 6, 1);
  await go(other, '#/cart');
  await other.click('#give-back');
  await shows(page, 6, 6, 0);
}, { nodesGo: true });

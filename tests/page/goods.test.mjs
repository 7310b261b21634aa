// The shop, the days of a room, and the operators' view.

import assert from 'node:assert/strict';
import { call, eventually, go, inCart, nodes, pageTest, pay, reads, taken } from './lib.mjs';

pageTest('a product\'s stock is live on every node, and it is bought', async (people) => {
  const [one, other] = [await people.open(0, '#/shop'), await people.open(1, '#/shop')];
  const card = '[data-product=programme]';
  const stock = (page) => page.textContent(`${card} .shop__stock`);
  await reads(one, `${card} .shop__stock`, /^\d+ left/);
  await reads(other, `${card} .shop__stock`, /^\d+ left/);
  const before = parseInt(await stock(other), 10);
  await one.click(`${card} button[aria-label="One more"]`);
  await one.click(`${card} button[type=submit]`);
  await inCart(one, 2);
  await reads(other, `${card} .shop__stock`, new RegExp(`^${before - 2} left, 2 in carts`));
  await go(one, '#/cart');
  await pay(one, 'Shop');
  await one.waitForSelector('#payment[data-state=recorded]');
  await reads(other, `${card} .shop__stock`, new RegExp(`^${before - 2} left\\.$`));
});

pageTest('a time of a room is booked, seen by others, and canceled', async (people) => {
  const day = new Date(Date.now() + 4 * 86_400_000).toISOString().slice(0, 10);
  const hash = `#/resource/rehearsal-room/${day}`;
  const [one, other] = [await people.open(0, hash), await people.open(2, hash)];
  const choose = async (time) => {
    await one.selectOption('#slot-start', { label: time });
    await reads(one, '.calendar__verdict', new RegExp(`^${time} to .* is free`));
  };
  await one.waitForSelector('.slot__button', { state: 'attached' });
  await choose('15:00');
  await one.getByRole('button', { name: 'Put into the cart' }).click();
  await one.waitForSelector('.booking--mine');
  await inCart(one, 1);
  await reads(other, '.booking--held', /15:00–16:00/);
  await choose('18:00');
  await one.fill('#slot-who', 'Ada');
  await one.getByRole('button', { name: 'Reserve without paying' }).click();
  // Another visitor sees that the time is taken, but not who booked it.
  await reads(other, '.booking--reserved', /^\s*18:00–19:00\s*Reserved\s*$/);
  await one.getByRole('button', { name: /^Cancel/ }).click();
  await other.waitForFunction(() => !document.querySelector('.booking--reserved'));
  await one.getByRole('button', { name: /^Give back/ }).click();
  await other.waitForFunction(() => !document.querySelector('.booking--held'));
  await inCart(one, 0);
});

pageTest('the operators\' view shows three nodes, the shards and the rates', async (people) => {
  const page = await people.open(1, '#/operator');
  await page.waitForFunction(() => document.querySelectorAll('.op-node[data-up=yes]').length === 3);
  await reads(page, '.op [role=status]', /^3 of 3 nodes answer, \d+ of \d+ shards have a leader/);
  const busy = setInterval(() => call('session.get', { id: 'hamlet-tonight' }, 2).catch(() => {}), 20);
  try {
    await page.waitForFunction(() => [...document.querySelectorAll('.op-node .op-facts div')]
      .some((row) => row.textContent.startsWith('Answers') && parseFloat(row.textContent.slice(7)) > 0));
  } finally {
    clearInterval(busy);
  }
  const leads = await page.$$eval('.op-node .op-facts div:first-child dd', (all) => all.map((each) => each.textContent));
  assert.equal(leads.length, nodes.length);
  for (const text of leads) assert.match(text, /^\d+ of \d+ shards$/);
});

pageTest('the history of a seat shows its events and their carts', async (people) => {
  const token = await taken('page-history', [[3, 3]]);
  await call('cart.release', { token, line: 1 });
  // The cart has answered. The session learns of it a moment later.
  const free = async () => (await call('session.get', { id: 'page-history' })).counts.held === 0;
  await eventually(free, 'the seat is free');
  await taken('page-history', [[3, 3]], 1);
  const page = await people.open(0, '#/operator/session/page-history');
  await page.selectOption('#seat-row', { label: 'Row D' });
  await page.selectOption('#seat-number', { label: '4' });
  await page.getByRole('button', { name: 'Show its history' }).click();
  await page.waitForFunction(() => document.querySelectorAll('.op-event').length === 3);
  const events = await page.$$eval('.op-event', (all) => all.map((each) => each.textContent));
  assert.match(events[0], /held.*cart [0-9a-f]{8}…/s);
  assert.match(events[1], /released/);
  // The seat by its name, the cart's deadline, and nothing of the protocol between shards.
  assert.match(events[0], /Row D seat 4 .*until the cart's deadline/s);
  assert.doesNotMatch(events.join(), /revision|\[\d+, \d+\]/);
  await taken('page-history', [[3, 4]]);
  await page.waitForSelector('.op-recent [data-seat="3,4"]');
});

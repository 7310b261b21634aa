// Price types and offers in a browser: what is chosen, held, paid and shown, on the page and in the widget.

import assert from 'node:assert/strict';
import { TYPES, house, price, sentOf, visit } from './house.mjs';
import { connected, go, hold, inCart, mapKnown, pageTest, pick, reads } from './lib.mjs';
import { withOwn } from './own.mjs';

const soon = (ms) => new Date(Date.now() + ms).toISOString();

pageTest('seats and places are bought as the price types that were chosen', (people) => withOwn(people, async (own) => {
  const { create, url } = await house(own);
  await create('s', { price_types: TYPES, offers: [{ id: 'all' }, { id: 'early', name: 'Early bird', types: ['adult'], categories: ['stalls'], rate_off: 1000, until: '2030-01-01T00:00:00Z' }] });
  const page = await people.window({ locale: 'en-GB' });
  const [seats, places, best] = ['cart.hold_seats', 'cart.hold_places', 'cart.hold_best'].map((op) => sentOf(page, op));
  await page.goto(`${url}/#/session/s`);
  await connected(page);
  await mapKnown(page);
  await reads(page, '.legend__list', /Box€90.*Stalls€20 – €27/);
  await pick(page, 0, 1, 2, 3);
  await pick(page, 1, 0);
  await reads(page, '.summary__sum', /4 seats picked€171/);
  const select = (seat) => page.locator(`#picked [data-seat="${seat}"] select`);
  assert.deepEqual(await select('0,2').locator('option').allTextContents(), ['Adult — €27', 'Under 26 — €20']);
  assert.deepEqual(await select('1,0').locator('option').allTextContents(), ['Adult — €90'], 'boxes are not sold to young people');
  assert.equal(await select('0,2').getAttribute('aria-label'), 'Price for Stalls, Row A seat 3');
  // By the keyboard, and the focus stays.
  await select('0,2').focus();
  await page.keyboard.press('ArrowDown');
  await reads(page, '.summary__sum', /4 seats picked€164/);
  assert.equal(await page.evaluate(() => document.activeElement.closest('[data-seat]')?.dataset.seat), '0,2');
  await hold(page);
  await inCart(page, 4);
  assert.deepEqual(seats[0].seats, [[0, 1], [0, 2], [0, 3], [1, 0]]);
  assert.deepEqual(seats[0].types, ['adult', 'under26', 'adult', 'adult']);
  await reads(page, '.area h2 + strong', /^€10$/);
  await page.selectOption('[data-type=yard]', 'under26');
  await reads(page, '.area h2 + strong', /^€7$/);
  await page.click('[data-act=hold-area]');
  await inCart(page, 5);
  assert.deepEqual(places[0].types, ['under26']);
  await page.selectOption('#best-type', 'under26');
  await page.click('#best');
  await inCart(page, 7);
  assert.deepEqual(best[0].types, ['under26']);
  await go(page, '#/cart');
  await reads(page, '#lines', /2 × Adult \(Early bird\), 1 × Under 26, 1 × Adult/);
  await reads(page, '#lines [data-seat="0,2"]', /Under 26/);
  await reads(page, '#lines', /1 × Yard.*1 × Under 26/);
  await reads(page, '#total', /€211/);
  await page.fill('#customer', 'Ada');
  await page.click('#pay');
  await page.waitForSelector('#order');
  await reads(page, '#order', /2 × Adult \(Early bird\), 1 × Under 26, 1 × Adult/);
  await reads(page, '#order-total', /€211/);
  const german = await visit(people, url, 's', { locale: 'de-DE' });
  await pick(german, 0, 7);
  await reads(german, '#picked select', /Erwachsene/);
}));

pageTest('a session without price types is asked for as before', (people) => withOwn(people, async (own) => {
  const { create, url } = await house(own);
  await create('plain', {});
  const page = await people.window();
  const [seats, places, best] = ['cart.hold_seats', 'cart.hold_places', 'cart.hold_best'].map((op) => sentOf(page, op));
  await page.goto(`${url}/#/session/plain`);
  await connected(page);
  await mapKnown(page);
  await pick(page, 0, 1);
  assert.equal(await page.locator('select:visible').count(), await page.locator('#best-category:visible, #best-section:visible').count());
  await hold(page);
  await page.click('[data-act=hold-area]');
  await inCart(page, 2);
  await page.click('#best');
  await inCart(page, 4);
  assert.deepEqual([seats, places, best].map(([body]) => Object.keys(body).filter((key) => key === 'types')), [[], [], []]);
}));

pageTest('a page that waits sells as soon as the sale opens, and says when it has ended', (people) => withOwn(people, async (own) => {
  const { create, url, ask } = await house(own);
  await create('wait', { price_types: TYPES, offers: [{ id: 'sale', from: soon(8_000), until: soon(16_000) }] });
  const page = await visit(people, url, 'wait');
  await reads(page, '#sale', /^The sale opens on \w+/);
  await reads(page, '#sale-left', /^Opens in 0:0\d$/);
  assert.equal(await page.isVisible('#best'), false);
  assert.equal(await page.isVisible('[data-act=hold-area]'), false);
  const { x, y } = await page.evaluate(() => window.boxoffice.seatPoint(0, 1));
  await page.mouse.click(x, y);
  await reads(page, '#toasts', /The sale opens on/);
  assert.equal(await page.locator('#picked').count(), 0);
  await page.waitForFunction(() => document.getElementById('sale').hidden && document.getElementById('sale-left').hidden);
  await pick(page, 0, 1);
  await hold(page);
  await inCart(page, 1);
  await reads(page, '#sale', /^This is not on sale\.$/);
  assert.equal(await page.isVisible('#best'), false);
  // The house changes the terms: another offer, another price, and one more area.
  const areas = [{ id: 'yard', name: 'Yard', capacity: 30, price: price(1000) }, { id: 'roof', name: 'Roof', capacity: 5, price: price(1500) }];
  await ask('session.change', { id: 'wait', offers: [{ id: 'again' }], prices: { stalls: price(3500), box: price(9000) }, areas });
  await page.waitForFunction(() => document.getElementById('sale').hidden);
  await pick(page, 0, 2);
  await reads(page, '#picked', /€35/);
  await page.click('[data-area=roof] [data-act=hold-area]');
  await inCart(page, 2);
}), { within: 90_000 });

pageTest('what is sold out at a price is said, and the other price is bought', (people) => withOwn(people, async (own) => {
  const { create, url } = await house(own);
  await create('few', { price_types: TYPES, offers: [{ id: 'adults', types: ['adult'] }, { id: 'young', types: ['under26'], counters: ['few'] }], counters: [{ id: 'few', max: 2 }] });
  const [one, other] = [await visit(people, url, 'few'), await visit(people, url, 'few')];
  await pick(one, 0, 1, 2);
  await pick(other, 0, 5);
  await reads(other, '#picked select', /Under 26 — €20 \(2 left\)/);
  await other.selectOption('#picked select', 'under26');
  for (const seat of ['0,1', '0,2']) await one.selectOption(`#picked [data-seat="${seat}"] select`, 'under26');
  await hold(one);
  await inCart(one, 2);
  await other.click('#hold');
  await reads(other, '#session-note', /None is left at this price\./);
  await reads(other, '#picked select', /Under 26 — sold out/);
  await hold(other);
  await inCart(other, 1);
  await go(other, '#/cart');
  await reads(other, '#lines', /1 × Adult/);
}));

pageTest('what ran out is held again as the same price types', (people) => withOwn(people, async (own) => {
  const { create, url } = await house(own);
  await create('again', { price_types: TYPES, hold_ttl_ms: 3_000 });
  const page = await visit(people, url, 'again');
  await pick(page, 0, 1, 2);
  await page.selectOption('#picked [data-seat="0,2"] select', 'under26');
  await hold(page);
  await go(page, '#/cart');
  await page.click('#hold-again');
  await reads(page, '#lines', /1 × Adult, 1 × Under 26/);
  await reads(page, '#total', /€50/);
}));

pageTest('the widget sells price types, and tells the site which ones', (people) => withOwn(people, async (own) => {
  const { create, url } = await house(own);
  await create('w', { price_types: TYPES });
  await create('later', { price_types: TYPES, offers: [{ id: 'sale', from: '2030-12-01T09:00:00Z' }] });
  const page = await people.window();
  const all = sentOf(page, 'cart.hold_all');
  await page.goto(url);
  await connected(page);
  await page.evaluate(async () => {
    await import('/page/widget.js');
    window.told = [];
    const map = document.createElement('boxoffice-map');
    for (const name of ['pick', 'fault', 'ready']) map.addEventListener(name, ({ detail }) => window.told.push({ name, ...detail }));
    Object.entries({ node: location.origin, session: 'w', lang: 'de' }).forEach(([name, value]) => map.setAttribute(name, value));
    document.body.prepend(map);
  });
  await page.waitForFunction(() => window.told.some(({ name }) => name === 'ready'));
  for (const seat of [1, 2]) {
    const { x, y } = await page.evaluate((each) => document.querySelector('boxoffice-map').pointOf(0, each), seat);
    await page.mouse.click(x, y);
  }
  await page.locator('boxoffice-map .types__seat[data-seat="0,2"] select').selectOption('under26');
  await page.locator('boxoffice-map [data-area=yard] [part=step]').last().click();
  await page.locator('boxoffice-map [data-area=yard] select').selectOption('under26');
  const last = await page.evaluate(() => window.told.findLast(({ name }) => name === 'pick'));
  assert.deepEqual(last.seats.map(({ type, price: { amount } }) => [type, amount]), [['adult', 3000], ['under26', 2000]]);
  assert.deepEqual(last.places.map(({ type, quantity, price: { amount } }) => [type, quantity, amount]), [['under26', 1, 700]]);
  await reads(page, 'body', /./);
  assert.match(await page.locator('boxoffice-map .types').innerText(), /Erwachsene — 30,00/);
  const held = await page.evaluate(() => document.querySelector('boxoffice-map').hold());
  assert.equal(held.seats.length, 2);
  assert.deepEqual(all[0].lines.map(({ types }) => types), [['adult', 'under26'], ['under26']]);
  await page.evaluate(() => document.querySelector('boxoffice-map').setAttribute('session', 'later'));
  await page.waitForFunction(() => window.told.some(({ name }) => name === 'fault'));
  const fault = await page.evaluate(() => window.told.find(({ name }) => name === 'fault'));
  assert.deepEqual([fault.code, fault.reason], [212, 'not_on_sale']);
  assert.match(fault.message, /^Der Verkauf beginnt am So\., 1\. Dez\., 10:00 MEZ\.$/);
  assert.equal(await page.evaluate(() => document.querySelector('boxoffice-map').sale), 'not_yet');
}));

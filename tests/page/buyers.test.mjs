// What a buyer meets before and after the sale: a search, long lists, two pages, refunds, print, a house that only shows, a small window.

import assert from 'node:assert/strict';
import { after } from 'node:test';
import { closeChrome, connected, eventually, go, hold, inCart, mapKnown, pageTest, pause, pick, reads, shows } from './lib.mjs';
import { ended, withOwn } from './own.mjs';

after(closeChrome);

const NAMES = ['Théâtre du Nord', 'İstanbul Sahnesi', 'Kölner Oper', 'Große Straßenbühne'];
const SHOWS = 52;
const VENUES = 55;

const hall = (id, name) => ({ id, name, layout: { rows: 6, seats: 8, category: 'stalls' } });
const session = (id, title, day, more = {}) => ({
  id, hall: 'h', title, starts_at: `+${day}d 19:30`, ends_at: '+2h', prices: { '*': 2000 }, ...more,
});

/** A programme of many venues. The last of them has many showings of one film. */
function programme() {
  const venues = Array.from({ length: VENUES }, (_, number) => ({
    id: `v${number}`,
    name: NAMES[number] || `House ${String(number).padStart(2, '0')}`,
    city: number === 2 ? 'Köln' : 'Aarhus',
    halls: [hall('h', number === 7 ? 'Der Kuppelsaal' : 'Saal 1')],
    sessions: [session(`v${number}-s`, number === 9 ? 't-9' : 't-0', 2 + (number % 5))],
  }));
  venues.at(-1).sessions = Array.from({ length: SHOWS }, (_, number) => session(`film-${number}`, 'film', 10 + number));
  const titles = [{ id: 'film', name: 'Metropolis' }, { id: 't-9', name: 'Ope\u0301ra sauvage' }, { id: 't-0', name: 'Ein Abend' }];
  return { currency: 'EUR', titles, venues };
}

const found = (page) => page.textContent('#found');

/** Types into the search, and waits until it has found everything. */
async function searches(page, words) {
  await page.fill('#search', words);
  await page.waitForFunction((typed) => document.getElementById('search').value === typed && /^\d+ sessions? found$/.test(document.getElementById('found').textContent), words);
  await pause(400);
  await page.waitForFunction(() => /^\d+ sessions? found$/.test(document.getElementById('found').textContent));
  return Number.parseInt(await found(page), 10);
}

pageTest('titles, venues, cities and halls are found by name, however they are typed, before anything was scrolled into view', (people) => withOwn(people, async (own) => {
  const node = await own.node(1);
  own.offer(node.operators, programme());
  const page = await people.window({ viewport: { width: 1000, height: 500 } });
  await page.goto(`http://127.0.0.1:${node.port}/`);
  await connected(page);
  await page.waitForSelector('.session-card');
  assert.equal(await searches(page, 'Metropolis'), SHOWS);
  assert.equal(await page.locator('.session-card').count(), 48, 'the first ones are shown');
  await page.click('#more-found');
  await page.waitForFunction((count) => document.querySelectorAll('.session-card').length === count, SHOWS);
  for (const words of ['opéra', 'ope\u0301ra', 'OPERA', 'theatre', 'istanbul', 'koln', 'koeln', 'Köln', 'strassen', 'STRASSENBÜHNE', 'kuppelsaal', 'metropolis aarhus house']) {
    const count = await searches(page, words);
    assert.ok(count >= 1 && count < VENUES, `${words}: ${count}`);
    assert.ok(count === 1 || words.startsWith('metropolis'), `${words} finds ${count}`);
  }
  assert.equal(await found(page), `${SHOWS} sessions found`);
  await searches(page, 'kuppelsaal');
  assert.equal(await found(page), '1 session found');
  assert.match(await page.textContent('.session-card__hall'), /Der Kuppelsaal/);
  assert.equal(await searches(page, 'nothing of this name'), 0);
  await reads(page, '#programme', /Nothing of that name/);
}), { within: 120_000 });

pageTest('every venue and session of a long programme can be reached, days can be chosen, and the way back leads to the same place', (people) => withOwn(people, async (own) => {
  const node = await own.node(1);
  own.offer(node.operators, programme());
  const page = await people.window({ viewport: { width: 390, height: 800 } });
  await page.goto(`http://127.0.0.1:${node.port}/`);
  await connected(page);
  await page.waitForSelector('.session-card');
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  assert.ok(height < 12_000, `the first part is ${height} px long`);
  for (let presses = 0; await page.$('#more-venues'); presses += 1) {
    assert.ok(presses < 10, 'it never ends');
    const before = await page.locator('.venue').count();
    await page.click('#more-venues');
    await page.waitForFunction((count) => document.querySelectorAll('.venue').length > count || !document.getElementById('more-venues'), before);
  }
  assert.equal(await page.locator('.venue').count(), VENUES);
  const cinema = page.locator(`[data-venue="v${VENUES - 1}"]`);
  while (await page.$(`[data-more="v${VENUES - 1}"]`)) {
    const before = await cinema.locator('.session-card').count();
    await page.click(`[data-more="v${VENUES - 1}"]`);
    await page.waitForFunction(([id, count]) => document.querySelectorAll(`[data-venue="${id}"] .session-card`).length > count, [`v${VENUES - 1}`, before]);
  }
  assert.equal(await cinema.locator('.session-card').count(), SHOWS);
  // Back.
  const card = cinema.locator('.session-card').nth(30);
  await card.scrollIntoViewIfNeeded();
  const y = await page.evaluate(() => scrollY);
  assert.ok(y > 2_000, `scrolled to ${y}`);
  await card.locator('a').click();
  await mapKnown(page);
  assert.equal(await page.evaluate(() => scrollY), 0);
  await page.goBack();
  await page.waitForSelector('.session-card');
  await page.waitForFunction((to) => Math.abs(scrollY - to) < 200, y);
  assert.equal(await page.locator('.venue').count(), VENUES);
  assert.match(await page.evaluate(() => document.activeElement.getAttribute('href')), /film-30$/);
  // A day.
  const day = await page.evaluate(() => document.querySelector('[data-session="film-3"] time').getAttribute('datetime').slice(0, 10));
  await page.fill('#day', day);
  await page.waitForFunction(() => document.querySelectorAll('.session-card').length === 1);
  assert.equal(await page.getAttribute('.session-card', 'data-session'), 'film-3');
  await page.click('[aria-label="The next day"]');
  await page.waitForSelector('[data-session="film-4"]');
  await page.click('#every-day');
  await page.waitForFunction(() => document.querySelectorAll('.session-card').length > 10);
}), { within: 120_000 });

const trial = () => ({
  currency: 'EUR',
  titles: [{ id: 'trial', name: 'The trial' }],
  venues: [{
    id: 'house', name: 'House of trials', city: 'Copenhagen', halls: [{ ...hall('h', 'The red hall'), layout: { rows: 6, seats: 8, category: 'stalls' } }, { ...hall('tiny', 'The tiny hall'), layout: { rows: 1, seats: 2, category: 'stalls' } }],
    sessions: [
      session('one', 'trial', 2), session('two', 'trial', 3), session('three', 'trial', 4),
      { ...session('tiny', 'trial', 5), hall: 'tiny' },
    ],
  }],
});

/** A node with the sessions above, and a page of it. `args` and `config` are the node's. */
async function house(people, own, { args = [], config, hash = '#/session/one', options = {} } = {}) {
  const node = await own.node(1, args, { config });
  own.offer(node.operators, trial());
  const page = await people.window(options);
  const url = `http://127.0.0.1:${node.port}`;
  await page.goto(`${url}/${hash}`);
  await connected(page);
  if (hash.startsWith('#/session/')) await mapKnown(page);
  return { node, page, url };
}

const pay = async (page, name) => {
  await go(page, '#/cart');
  await page.waitForSelector('#pay');
  if (name) await page.fill('#customer', name);
  await page.click('#pay');
  await page.waitForSelector('#order');
  return page.textContent('#order-id');
};

pageTest('an order names its venue, prints, is found without a name, and says when it is refunded', (people) => withOwn(people, async (own) => {
  const { node, page, url } = await house(people, own);
  await pick(page, 1, 1, 2);
  await hold(page);
  const order = await pay(page);
  await reads(page, '.line__place', /House of trials · The red hall · Copenhagen/);
  await reads(page, '#order', /Enjoy the evening.*Paid/);
  await page.emulateMedia({ media: 'print' });
  for (const gone of ['.top', '#print', '.ticket__ways a', '.foot']) assert.equal(await page.isVisible(gone), false, `${gone} is printed`);
  for (const there of ['.line__place', '#order-id', '#order-total']) assert.equal(await page.isVisible(there), true, `${there} is not printed`);
  await page.emulateMedia({ media: 'screen' });
  // Another window of the same device, long after.
  await page.goto(`${url}/#/`);
  const again = await page.context().newPage();
  await again.goto(`${url}/#/purchases`);
  await connected(again);
  await again.click(`#here [data-order="${order}"] a`);
  await again.waitForSelector('#order[data-is=paid]');
  own.admin(node.operators, 'refund', `order/${order}`, '--reason', 'ill');
  await again.reload();
  await again.waitForSelector('#order[data-is=refunded]');
  const words = await again.textContent('#order');
  assert.doesNotMatch(words, /Enjoy the evening|\bPaid\b/);
  assert.match(words, /Refunded on .*\(ill\)/);
  assert.equal(await again.textContent('#payment'), 'Refunded');
}), { within: 120_000 });

pageTest('an answer about a cart that another page has paid leaves the cart alone that the page has begun since', (people) => withOwn(people, async (own) => {
  const { page: one, url } = await house(people, own);
  await pick(one, 0, 1);
  await hold(one);
  const two = await one.context().newPage();
  // A slow way to the node: what the second page sends waits.
  let waiting = null;
  let late = null;
  await two.routeWebSocket(/\/v1\/ws$/, (socket) => {
    const server = socket.connectToServer();
    socket.onMessage((frame) => (waiting ? waiting.push(() => server.send(frame)) : server.send(frame)));
    server.onMessage((frame) => (late && JSON.parse(frame).no ? late.push(() => socket.send(frame)) : socket.send(frame)));
  });
  await two.goto(`${url}/#/session/two`);
  await connected(two);
  await mapKnown(two);
  await inCart(two, 1);
  // The second page asks for a hold in the cart. The node hears of it when the first page has paid, and the answer is late too.
  [waiting, late] = [[], []];
  await two.evaluate(() => { window.late = window.boxoffice.app.cart.hold('cart.hold_seats', { session: 'two', seats: [[0, 1]] }).then(() => 'held', (error) => error.name2); });
  await pay(one);
  const sent = waiting;
  waiting = null;
  sent.forEach((send) => send());
  await go(one, '#/session/one');
  await pick(one, 2, 2, 3);
  await hold(one);
  await eventually(async () => late.length > 0, 'the node has refused');
  await two.waitForFunction(() => JSON.parse(localStorage.getItem('boxoffice.cart'))?.token);
  const answers = late;
  late = null;
  answers.forEach((answer) => answer());
  assert.equal(await two.evaluate(() => window.late), 'held');
  const kept = await one.evaluate(() => JSON.parse(localStorage.getItem('boxoffice.cart')).token);
  for (const page of [one, two]) {
    await page.waitForFunction((token) => window.boxoffice.app.cart.token === token && window.boxoffice.app.cart.count() === 3, kept);
  }
}), { within: 120_000 });

pageTest('where strangers may only watch the page says so in a sentence, and sells to a customer who is known', (people) => withOwn(people, async (own) => {
  const config = '[listen]\nanonymous = "watch"\n[payments]\nrecorded = "anyone"\n';
  const secret = 'the secret of the shop';
  const { page } = await house(people, own, { config, args: ['--customer-secret', secret] });
  await reads(page, '#sale', /one can look, but not buy. Please sign in/);
  for (const dead of ['#best', '#hold', '#summary']) assert.equal(await page.isVisible(dead), false, `${dead} is offered`);
  const { x, y } = await page.evaluate(() => window.boxoffice.seatPoint(1, 1));
  await page.mouse.click(x, y);
  await reads(page, '#toasts', /not buy/);
  assert.equal(await page.locator('#picked').count(), 0);
  const token = own.customerToken('ada', secret);
  await page.evaluate((shown) => window.boxoffice.signIn({ customer: 'ada', token: shown }), token);
  await page.waitForSelector('#best:visible');
  assert.equal(await page.isVisible('#sale'), false);
  await connected(page);
  await pick(page, 1, 1);
  await hold(page);
  await page.evaluate(() => window.boxoffice.signIn({}));
  await page.waitForSelector('#sale:visible');
}), { within: 120_000 });

/** Words of those who run the house. */
const OPERATORS_WORDS = /\bn\d+\b|\bnodes?\b|\boperators?\b|\bshards?\b|\bcluster\b|limits\.|listen\.|127\.0\.0\.1/i;

/** Everything that can be read on a page, with the texts of attributes. */
const readable = (page) => page.evaluate(() => {
  const labels = [...document.querySelectorAll('[title], [aria-label]')].filter((it) => it.checkVisibility());
  return [document.title, document.body.innerText, ...labels.flatMap((it) => [it.title, it.getAttribute('aria-label')])].join('\n');
});

pageTest('buyers read no words of operators, with and without a connection, and operators read them', (people) => withOwn(people, async (own) => {
  const { page, node, url } = await house(people, own);
  const readsNone = async (where) => assert.doesNotMatch(await readable(page), OPERATORS_WORDS, where);
  await pick(page, 1, 1, 2);
  await hold(page);
  for (const hash of ['#/session/one', '#/', '#/cart', '#/purchases']) {
    await go(page, hash);
    await readsNone(hash);
  }
  await pay(page, 'Ada');
  await readsNone('the order');
  assert.equal(await page.isVisible('[data-route=operator]'), false);
  // Every text while the connection is lost and found again, also those that are seen for a moment only.
  await page.evaluate(() => {
    window.texts = [];
    const places = ['link-text', 'toasts', 'why'].map((id) => document.getElementById(id));
    const look = () => window.texts.push(...places.map((place) => place.textContent));
    places.forEach((place) => new MutationObserver(look).observe(place, { childList: true, characterData: true, subtree: true }));
    window.boxoffice.app.link.abandon();
  });
  await reads(page, '#link-text', /^connected again$/);
  const texts = await page.evaluate(() => window.texts);
  assert.ok(texts.includes('connection lost — trying again'), texts.join());
  assert.doesNotMatch(texts.join('\n'), OPERATORS_WORDS);
  // In a window that has opened the operators' view, and at the operators' port, they are there, in all views.
  const operator = await people.window();
  await operator.goto(`${url}/#/operator`);
  await reads(operator, '#link-text', /^connected to n1$/);
  await go(operator, '#/');
  assert.equal(await operator.isVisible('[data-route=operator]'), true);
  await reads(operator, '#link-text', /^connected to n1$/);
  const inside = await people.window();
  await inside.goto(`http://${node.operators}/`);
  await reads(inside, '#link-text', /^connected to n1$/);
  assert.equal(await inside.isVisible('[data-route=operator]'), true);
  await ended(node.child, 'SIGKILL');
  await reads(page, '#link-text', /^no answer — trying again$/);
  await readsNone('without a node');
  await reads(operator, '#link-text', /^no answer from 127\.0\.0\.1/);
}), { nodesGo: true, refused: true, within: 120_000 });

pageTest('a refusal of rights that the page could not foresee is told in the words of a box office', (people) => withOwn(people, async (own) => {
  const config = '[listen]\nanonymous = "watch"\n[payments]\nrecorded = "anyone"\n';
  const { page } = await house(people, own, { config, hash: '#/' });
  // A page of a node that sells is connected to one that does not.
  await page.evaluate(() => { window.boxoffice.app.page.sells = true; });
  await go(page, '#/session/one');
  await pick(page, 1, 1);
  await page.click('#hold');
  await reads(page, '#sale', /Tickets are sold at the box office/);
  assert.doesNotMatch(await page.textContent('body'), /unauthenticated|role sell|cart\.hold/);
  assert.equal(await page.locator('#picked').count(), 0);
}), { within: 120_000 });

pageTest('sold out, begun, over and canceled: each is a sentence, and there is no dead button', (people) => withOwn(people, async (own) => {
  const { node, page, url } = await house(people, own, { hash: '#/session/tiny' });
  const other = await people.window();
  await other.goto(`${url}/#/session/tiny`);
  await mapKnown(other);
  await pick(other, 0, 0);
  await hold(other);
  await other.evaluate(() => window.boxoffice.app.cart.holdSeats('tiny', [[0, 1]]));
  await reads(page, '#sale', /^Sold out\. 2 are in the carts of others and may come back\.$/);
  for (const dead of ['#best', '#hold', '.summary__hint']) assert.equal(await page.isVisible(dead), false, `${dead} beside "Sold out"`);
  await go(other, '#/cart');
  await other.click('#give-back');
  await page.waitForSelector('#best:visible');
  assert.equal(await page.isVisible('#sale'), false);
  // The page's clock goes on to the begin and the end.
  const shift = (to) => page.evaluate((field) => {
    const { app } = window.boxoffice;
    return app.catalogue.session('tiny').then((known) => { app.link.clockOffset = Date.parse(known[field]) + 1_000 - Date.now(); });
  }, to);
  await pick(page, 0, 0);
  await shift('starts_at');
  await reads(page, '#sale', /This show has begun/);
  assert.equal(await page.locator('#picked').count(), 0);
  assert.equal(await page.isVisible('#best'), false);
  await shift('ends_at');
  await reads(page, '#sale', /This show is over/);
  const headers = { 'content-type': 'application/json', 'idempotency-key': 'cancel-tiny' };
  const canceled = await fetch(`http://${node.operators}/v1/session.cancel`, { method: 'POST', headers, body: JSON.stringify({ id: 'tiny', reason: 'no power' }) });
  assert.equal(canceled.status, 200);
  await page.reload();
  await mapKnown(page);
  await reads(page, '#sale', /This show does not take place: no power/);
  assert.equal(await page.isVisible('#best'), false);
  // One that is canceled while it is looked at. Somebody had bought.
  await go(page, '#/session/one');
  await mapKnown(page);
  await go(other, '#/session/one');
  await mapKnown(other);
  await pick(other, 2, 2);
  await hold(other);
  await pay(other, 'Bob');
  await page.waitForFunction(() => window.boxoffice.mapState(2, 2) === 2);
  await pick(page, 1, 1);
  const more = { ...headers, 'idempotency-key': 'cancel-one' };
  await fetch(`http://${node.operators}/v1/session.cancel`, { method: 'POST', headers: more, body: JSON.stringify({ id: 'one', reason: 'a storm' }) });
  await reads(page, '#sale', /This show does not take place: a storm/);
  assert.equal(await page.locator('#picked').count(), 0);
}), { within: 120_000 });

pageTest('at four times the size the content is seen, and nothing stands still over it', (people) => withOwn(people, async (own) => {
  const { page } = await house(people, own, { options: { viewport: { width: 320, height: 225 } } });
  const middle = () => page.evaluate(() => document.elementsFromPoint(innerWidth / 2, innerHeight / 2).some((each) => each.closest?.('main') && each.id !== 'main'));
  for (const hash of ['#/session/one', '#/', '#/purchases', '#/cart']) {
    await page.evaluate((to) => { location.hash = to; }, hash);
    await page.waitForSelector(`[data-view="${{ '#/': 'home', '#/purchases': 'purchases', '#/cart': 'checkout' }[hash] || 'session'}"] h1`);
    await page.evaluate(() => document.querySelector('main h1').scrollIntoView({ block: 'center' }));
    assert.equal(await middle(), true, `${hash}: the heading is covered`);
    const fixed = await page.evaluate(() => [...document.querySelectorAll('body *')].filter((each) => ['fixed', 'sticky'].includes(getComputedStyle(each).position) && each.getBoundingClientRect().height > 0 && !each.closest('.unseen, .skip'))
      .reduce((sum, each) => sum + each.getBoundingClientRect().height, 0));
    assert.ok(fixed < 60, `${hash}: ${fixed} of 225 px stand still`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${hash} is too wide`);
  }
  await go(page, '#/session/one');
  await page.evaluate(() => document.getElementById('seats').scrollIntoView({ block: 'center' }));
  assert.ok((await page.locator('#seats').boundingBox()).height > 150);
  await page.evaluate(() => document.getElementById('best').scrollIntoView({ block: 'center' }));
  await page.click('#best');
  await inCart(page, 2);
}), { within: 120_000 });

pageTest('the focus stays in the page after a hold and while picks go away, and each seat has its price', (people) => withOwn(people, async (own) => {
  const { page } = await house(people, own);
  await pick(page, 1, 1, 2, 3);
  assert.deepEqual(await page.$$eval('#picked .chip__price', (prices) => prices.map((each) => each.textContent)), ['€20', '€20', '€20']);
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.className || document.activeElement.tagName);
  await page.focus('#picked .chip__away');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelectorAll('#picked .chip').length === 2);
  assert.equal(await focused(), 'chip__away');
  await page.focus('#hold');
  await page.keyboard.press('Enter');
  await inCart(page, 2);
  await page.waitForFunction(() => document.activeElement.id === 'to-cart');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#pay');
  await reads(page, '#lines .chip__price', /€20/);
  await page.focus('#lines .chip__away');
  await page.keyboard.press('Enter');
  await inCart(page, 1);
  assert.notEqual(await focused(), 'BODY');
}), { within: 120_000 });

pageTest('a lost network is told at once, and what was pressed meanwhile is done afterwards', (people, print) => withOwn(people, async (own) => {
  const { page } = await house(people, own);
  await pick(page, 1, 1);
  const begun = Date.now();
  await page.context().setOffline(true);
  await reads(page, '#link-text', /^no network/);
  await reads(page, '#toasts', /no network/);
  print(`told after ${Date.now() - begun} ms`);
  assert.ok(Date.now() - begun < 4_000, `told after ${Date.now() - begun} ms`);
  await page.context().setOffline(false);
  await reads(page, '#link-text', /^connected$/);
  // A network that swallows everything, while the browser knows of nothing.
  const silent = await people.window();
  let swallow = false;
  await silent.routeWebSocket(/\/v1\/ws$/, (socket) => {
    const server = socket.connectToServer();
    socket.onMessage((frame) => swallow || server.send(frame));
    server.onMessage((frame) => swallow || socket.send(frame));
  });
  await silent.goto(page.url());
  await connected(silent);
  await mapKnown(silent);
  await pick(silent, 2, 2);
  swallow = true;
  const pressed = Date.now();
  await silent.click('#hold');
  await silent.waitForFunction(() => window.boxoffice.app.link.state !== 'connected');
  print(`found silent after ${Date.now() - pressed} ms`);
  assert.ok(Date.now() - pressed < 11_000, `found silent after ${Date.now() - pressed} ms`);
  swallow = false;
  await inCart(silent, 1);
}), { nodesGo: true, within: 120_000 });

/** A round arena: sections around a pitch in the middle. */
function arena() {
  const rows = [];
  for (let section = 0; section < 24; section += 1) {
    for (let row = 0; row < 6; row += 1) {
      const seats = Array.from({ length: 12 }, (_, seat) => {
        const angle = ((section + seat / 14) / 24) * 2 * Math.PI;
        const radius = 3_000 + row * 130;
        return [Math.round(radius * Math.cos(angle)), Math.round(radius * Math.sin(angle))];
      });
      rows.push({ label: String(row + 1), section: `block-${section + 1}`, runs: [{ count: 12, first: 1, step: 1, category: 'stalls', points: seats }] });
    }
  }
  return rows;
}

pageTest('a large plan names its sections, "+" goes to the seats, and nothing covers the buttons of the map', (people) => withOwn(people, async (own) => {
  const node = await own.node(1);
  const offer = trial();
  offer.venues[0].halls.push({ id: 'arena', name: 'The arena', layout: { focal: [0, 0], rows: arena() } });
  offer.venues[0].sessions.push({ ...session('arena', 'trial', 6), hall: 'arena' });
  own.offer(node.operators, offer);
  const page = await people.window();
  await page.goto(`http://127.0.0.1:${node.port}/#/session/arena`);
  await connected(page);
  await mapKnown(page);
  await page.waitForFunction(() => window.boxoffice.sectionNames().length >= 12);
  const plus = page.locator('.seats__button').first();
  for (let presses = 0; presses < 6; presses += 1) await plus.click();
  await pause(300);
  const seen = await page.evaluate(() => {
    const box = document.getElementById('seats').getBoundingClientRect();
    let count = 0;
    for (let row = 0; row < 144; row += 1) {
      for (let seat = 0; seat < 12; seat += 1) {
        const { x, y } = window.boxoffice.seatPoint(row, seat);
        if (x > box.left && x < box.right && y > box.top && y < box.bottom) count += 1;
      }
    }
    return count;
  });
  assert.ok(seen > 20, `${seen} seats are in view after zooming in`);
  // Tips of the seats at the lower right end, and notes, beside the buttons.
  await page.locator('.seats__button').nth(2).click();
  const covered = () => page.evaluate(() => [...document.querySelectorAll('.seats__button')].filter((button) => {
    const { left, top, width, height } = button.getBoundingClientRect();
    if (top < 0 || top + height > innerHeight) return false;
    return document.elementFromPoint(left + width / 2, top + height / 2) !== button;
  }).length);
  await page.evaluate(() => document.querySelector('.seats__zoom').scrollIntoView({ block: 'end' }));
  for (let note = 0; note < 3; note += 1) await page.evaluate((number) => window.boxoffice.app.say(`A long note, the ${number}th, of something that happened to the seats of somebody in the house`), note);
  assert.equal(await covered(), 0, 'notes cover the buttons');
  await go(page, '#/session/one');
  // Closer, so that seats are beside and below the buttons.
  for (let presses = 0; presses < 3; presses += 1) await plus.click();
  await pause(300);
  const tips = await page.evaluate(() => {
    const overlaps = [];
    const zoom = document.querySelector('.seats__zoom').getBoundingClientRect();
    for (let row = 0; row < 6; row += 1) {
      for (let seat = 0; seat < 8; seat += 1) {
        const { x, y } = window.boxoffice.seatPoint(row, seat);
        document.getElementById('seats').dispatchEvent(new PointerEvent('pointermove', { clientX: x, clientY: y, pointerType: 'mouse', bubbles: true }));
        const tip = document.querySelector('.seats__tip').getBoundingClientRect();
        if (tip.width > 0 && tip.right > zoom.left && tip.left < zoom.right && tip.bottom > zoom.top && tip.top < zoom.bottom) overlaps.push([row, seat]);
      }
    }
    return overlaps;
  });
  assert.deepEqual(tips, [], 'tips cover the buttons');
}), { within: 120_000 });

pageTest('a WebSocket of a browser ends cleanly: closed by the page, by a node that goes away, and by a revoked key', (people, print) => withOwn(people, async (own) => {
  const files = own.certificate();
  const sealed = await own.node(2, ['--tls-certificate', files.certificate, '--tls-key', files.key]);
  const plain = await own.node(1);
  for (const [node, scheme] of [[plain, 'http'], [sealed, 'https']]) {
    const key = own.admin(node.operators, 'key', 'create', 'screen', '--role', 'watch');
    const page = await people.window({ ignoreHTTPSErrors: true });
    await page.goto(`${scheme}://127.0.0.1:${node.port}/`);
    await connected(page);
    await page.evaluate((shown) => {
      window.open = (hello) => new Promise((resolve) => {
        const socket = new WebSocket(`${location.origin.replace('http', 'ws')}/v1/ws`, 'boxoffice.v1.json');
        socket.onopen = () => socket.send(JSON.stringify({ id: 1, op: 'hello', body: hello }));
        const ended = new Promise((end) => { socket.onclose = ({ code, wasClean, reason }) => end({ code, wasClean, reason }); });
        socket.onmessage = ({ data }) => JSON.parse(data).id === 1 && resolve({ socket, ended });
      });
      window.shown = shown;
    }, key.trim().split(/\s+/).at(-1));
    const closed = await page.evaluate(async () => {
      const ends = [];
      for (const code of [1000, 4321]) {
        const { socket, ended } = await window.open({});
        socket.close(code, 'that is all');
        ends.push(await ended);
      }
      return ends;
    });
    assert.deepEqual(closed.map(({ code, wasClean }) => [code, wasClean]), [[1000, true], [4321, true]]);
    await page.evaluate(async () => {
      window.keyed = (await window.open({ token: window.shown })).ended;
      window.stranger = (await window.open({})).ended;
    });
    own.admin(node.operators, 'key', 'revoke', 'screen');
    const revoked = await page.evaluate(() => window.keyed);
    assert.deepEqual([revoked.code, revoked.wasClean], [4001, true]);
    node.child.kill('SIGTERM');
    const drained = await page.evaluate(() => window.stranger);
    assert.deepEqual([drained.code, drained.wasClean], [4200, true]);
    print(`${scheme}: ${revoked.reason}; ${drained.reason}`);
  }
}), { nodesGo: true, within: 120_000 });

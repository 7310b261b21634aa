// Codes in browsers: entered, shown with holds, refused, removed, on the page and in the widget. A code stands nowhere but in memory.

import assert from 'node:assert/strict';
import { house, price, sentOf, visit } from './house.mjs';
import { go, hold, inCart, pageTest, pause, pick, reads } from './lib.mjs';
import { Own, withOwn } from './own.mjs';
import { RECORDER, Shop, page as shopPage } from './shop.mjs';

const CODE = 'GLOBE-7Q2M-XK';
const GUESS = 'globe-7q2m-xk';
const LATER = '2030-12-01T09:00:00Z';
/** Only members buy before the opening. */
const PRESALE = [{ id: 'everybody', from: LATER }, { id: 'inner-circle', code_group: 'circle', set_price: 1500 }];
const MEMBERS = [{ id: 'adult', name: 'Adult' }, { id: 'member', name: 'Member', prices: { stalls: 2500, box: 8000 }, area_prices: { yard: 900 } }];

/** A house with a code for so many seats. `uses()` are those in carts. */
async function houseWithCode(own, uses = 10, options = undefined) {
  const known = await house(own, options);
  await known.ask('code.put', { code: CODE, group: 'circle', uses });
  return { ...known, uses: async () => (await known.ask('code.get', { code: CODE })).held };
}

/** Enters a code at the field of a page, or of the map within it. */
async function enter(page, code, within = '') {
  await page.click(`${within}#code-open`);
  await page.fill(`${within}#code`, code);
  await page.click(`${within}#code-use`);
}

/** All that a window shows outside of itself: addresses, messages, and what its storages have. */
function outside(page) {
  const seen = [];
  page.on('request', (request) => seen.push(request.url(), request.postData() ?? ''));
  page.on('console', (message) => seen.push(message.text()));
  return async () => {
    const now = await page.evaluate(() => JSON.stringify([location.href, history.state, document.cookie, { ...localStorage }, { ...sessionStorage }]));
    return [...seen, page.url(), now].join('\n');
  };
}

/** Opens another session without reloading the page. */
async function goTo(page, id) {
  await go(page, '#/cart');
  await page.waitForSelector('#cart-title');
  await go(page, `#/session/${id}`);
}

/** Checks that no code stands outside of a window, by what `outside` has returned for it. */
async function standsNowhere(outsideOf, kept) {
  const all = await outsideOf();
  assert.ok(all.includes(kept), 'it has what the storages keep');
  assert.ok(!all.toLowerCase().includes('globe'), all);
}

const focused = (page) => page.evaluate(() => document.activeElement.id);

pageTest('with a code a member buys before the sale opens, and the code stands nowhere', (people) => withOwn(people, async (own) => {
  const { create, url, uses } = await houseWithCode(own);
  await create('pre', { offers: PRESALE });
  let outsideOf;
  let [seats, places, best] = [];
  const page = await visit(people, url, 'pre', { locale: 'en-GB' }, (window) => {
    outsideOf = outside(window);
    [seats, places, best] = ['cart.hold_seats', 'cart.hold_places', 'cart.hold_best'].map((op) => sentOf(window, op));
  });
  await reads(page, '#sale', /^The sale opens on \w+/);
  assert.equal(await page.isVisible('#best'), false);
  // By the keyboard, with the spaces that a letter has.
  await page.focus('#code-open');
  await page.keyboard.press('Enter');
  assert.equal(await focused(page), 'code');
  await page.keyboard.type(` ${CODE} `);
  await page.keyboard.press('Enter');
  assert.equal(await focused(page), 'code-away');
  await reads(page, '#code-said', /^Your code GLOBE-7Q2M-XK is used when/);
  assert.equal(await page.isVisible('#sale'), false);
  await pick(page, 0, 1, 2);
  await reads(page, '.summary__sum', /2 seats picked€60/);
  await hold(page);
  await inCart(page, 2);
  assert.equal(seats[0].code, CODE);
  await standsNowhere(outsideOf, 'boxoffice.cart');
  await reads(page, '#code-said', /^With your code: Stalls, Row A seat 2 \(€15\), Stalls, Row A seat 3 \(€15\)\.$/);
  await page.click('[data-act=hold-area]');
  await inCart(page, 3);
  await page.click('#best');
  await inCart(page, 5);
  assert.deepEqual([places[0].code, best[0].code, await uses()], [CODE, CODE, 5]);
  await go(page, '#/cart');
  await reads(page, '#lines', /2 × with a code/);
  await reads(page, '#total', /€75/);
  // The page knows the code for as long as it is open.
  await goTo(page, 'pre');
  await reads(page, '#code-said', /^Your code GLOBE-7Q2M-XK is used when/);
  await go(page, '#/cart');
  await page.fill('#customer', 'Ada');
  await page.click('#pay');
  await page.waitForSelector('#order');
  await reads(page, '#order', /2 × with a code/);
  await standsNowhere(outsideOf, 'boxoffice.');
  await goTo(page, 'pre');
  await page.reload();
  await reads(page, '#sale', /^The sale opens on \w+/);
  await page.waitForSelector('#code-open');
}));

pageTest('a wrong code is explained at its field, nothing is held, and the next one waits', (people) => withOwn(people, async (own) => {
  const { create, url, uses } = await houseWithCode(own);
  await create('pre', { offers: PRESALE });
  let seats;
  const page = await visit(people, url, 'pre', { locale: 'en-GB' }, (window) => { seats = sentOf(window, 'cart.hold_seats'); });
  await enter(page, 'two words and a ?');
  await reads(page, '#code-alert', /^A code has up to 64 letters/);
  await page.fill('#code', GUESS);
  await page.click('#code-use');
  await pick(page, 0, 1, 2);
  await page.click('#hold');
  await reads(page, '#code-alert', /^This code is not valid here, or it is used up\. Nothing was held\./);
  assert.equal(await focused(page), 'code');
  assert.deepEqual(await page.evaluate(() => ['role', 'aria-invalid'].map((name, at) => document.getElementById(['code-alert', 'code'][at]).getAttribute(name))), ['alert', 'true']);
  assert.equal(await page.locator('#picked li').count(), 2, 'what was picked can be held with another code');
  assert.equal(await page.locator('#to-cart').count(), 0);
  assert.equal(await uses(), 0);
  // What stands in the field is what is held with.
  await page.fill('#code', CODE);
  await hold(page);
  await inCart(page, 2);
  assert.deepEqual([seats.map(({ code }) => code), await uses()], [[GUESS, CODE], 2]);
  await reads(page, '#code-said', /^With your code:/);
  await page.click('#code-away');
  await enter(page, GUESS);
  await pick(page, 0, 5);
  // Each further wrong code makes the next one wait longer. Two seconds are enough for what follows.
  const waits = /^Too much was tried from your network\. Please try again in [2-9] seconds\.$/;
  for (let tries = 0; tries < 200 && !waits.test(await page.textContent('#code-alert')); tries += 1) {
    await page.click('#hold');
    await pause(50);
  }
  await reads(page, '#code-alert', waits);
  const asked = seats.length;
  await page.click('#hold');
  await pause(100);
  assert.equal(seats.length, asked, 'nothing is sent before the time');
  await reads(page, '#code-alert', /^You can try again now\.$/);
  assert.equal(await focused(page), 'code');
  await page.fill('#code', CODE);
  await page.click('#hold');
  await inCart(page, 3);
}));

pageTest('a code is removed, and then everybody\'s price is paid', (people) => withOwn(people, async (own) => {
  const { create, url, uses } = await houseWithCode(own);
  await create('plain', {});
  await create('pre', { offers: PRESALE });
  await create('both', { offers: [{ id: 'everybody' }, { id: 'inner-circle', code_group: 'circle', rate_off: 5000 }] });
  let seats;
  const page = await visit(people, url, 'plain', { locale: 'en-GB' }, (window) => { seats = sentOf(window, 'cart.hold_seats'); });
  assert.equal(await page.isVisible('#code-open'), false, 'a session without offers takes no code');
  await goTo(page, 'pre');
  await page.waitForSelector('#code-open');
  await enter(page, CODE);
  await pick(page, 0, 1);
  await page.click('#code-away');
  await reads(page, '#sale', /^The sale opens on \w+/);
  assert.equal(await focused(page), 'code-open');
  assert.equal(await page.locator('#picked').count(), 0);
  await goTo(page, 'both');
  await enter(page, CODE);
  await pick(page, 0, 1);
  await hold(page);
  await inCart(page, 1);
  await page.click('#code-away');
  await pick(page, 0, 2);
  await page.click('#hold');
  await inCart(page, 2);
  assert.deepEqual([seats.map(({ code }) => code), await uses()], [[CODE, undefined], 1]);
  // Emptying the field is no code, too.
  await enter(page, GUESS);
  await pick(page, 0, 3);
  await page.click('#hold');
  await reads(page, '#code-alert', /not valid/);
  await page.fill('#code', '');
  await page.click('#hold');
  await inCart(page, 3);
  assert.equal(seats.at(-1).code, undefined);
  await go(page, '#/cart');
  await reads(page, '#lines', /1 × with a code/);
  await reads(page, '#total', /€75/);
}));

pageTest('a member chooses the price type that the code is for', (people) => withOwn(people, async (own) => {
  const { create, url } = await houseWithCode(own, 1);
  await create('types', { price_types: MEMBERS, hold_ttl_ms: 6_000, offers: [{ id: 'everybody', types: ['adult'], from: LATER }, { id: 'inner-circle', types: ['member'], code_group: 'circle' }] });
  await create('mixed', { price_types: MEMBERS, offers: [{ id: 'everybody', types: ['adult'] }, { id: 'inner-circle', types: ['adult', 'member'], code_group: 'circle', amount_off: 100 }] });
  const page = await visit(people, url, 'types');
  await enter(page, CODE);
  await pick(page, 0, 1);
  assert.deepEqual(await page.locator('#picked option').allTextContents(), ['Adult — €30', 'Member — €25']);
  await page.click('#hold');
  await reads(page, '#session-note', /The sale has not begun yet\. Your code may be for another price\. Please choose one\./);
  await page.selectOption('#picked select', 'member');
  await hold(page);
  await inCart(page, 1);
  await go(page, '#/cart');
  await reads(page, '#lines', /1 × Member \(with a code\)/);
  // What ran out is asked for again with the code.
  await page.click('#hold-again');
  await reads(page, '#lines', /1 × Member \(with a code\)/);
  await page.click('#give-back');
  await page.waitForSelector('#lines', { state: 'hidden' });
  // The code has one use, so the second seat is everybody's, and the page says which one is not.
  await goTo(page, 'mixed');
  await enter(page, CODE);
  await pick(page, 0, 1, 2);
  await hold(page);
  await inCart(page, 2);
  await reads(page, '#code-said', /^With your code: Stalls, Row A seat 2 \(€29\)\.$/);
  await go(page, '#/cart');
  await reads(page, '#lines [data-seat="0,1"]', /Adult \(with a code\)€29/);
  await reads(page, '#lines [data-seat="0,2"]', /Adult€30/);
}), { within: 90_000 });

pageTest('what two codes had bought and ran out is held again, by a request for each code', (people) => withOwn(people, async (own) => {
  const { create, url, ask } = await houseWithCode(own, 1);
  await ask('code.put', { code: 'PAPER-1', group: 'readers', uses: 1 });
  await create('one', { hold_ttl_ms: 4_000, offers: [{ id: 'inner-circle', code_group: 'circle' }] });
  await create('two', { hold_ttl_ms: 4_000, offers: [{ id: 'readers', code_group: 'readers' }] });
  let all;
  const page = await visit(people, url, 'one', { locale: 'en-GB' }, (window) => { all = sentOf(window, 'cart.hold_all'); });
  await reads(page, '#sale', /^This is not on sale\.$/);
  await enter(page, CODE);
  await pick(page, 0, 1);
  await hold(page);
  await goTo(page, 'two');
  await enter(page, 'PAPER-1');
  await page.click('[data-act=hold-area]');
  await inCart(page, 2);
  await go(page, '#/cart');
  await page.click('#hold-again');
  await inCart(page, 2);
  assert.deepEqual(all.map(({ lines }) => lines.map(({ session, code }) => `${session} ${code}`)), [[`one ${CODE}`], ['two PAPER-1']]);
}));

pageTest('seats that would be left alone are named and taken as well, and small parties are told the number', (people) => withOwn(people, async (own) => {
  const { create, url } = await house(own);
  await create('single', { no_single_seats: true });
  await create('party', { min_party: 2 });
  const page = await visit(people, url, 'single');
  await pick(page, 0, 1, 2);
  await page.click('#hold');
  await reads(page, '#single', /^This would leave a single seat free\./);
  await reads(page, '#lost-seats [data-seat="0,0"]', /^Stalls, Row A seat 1$/);
  assert.equal(await page.locator('#to-cart').count(), 0);
  await page.click('#take-single');
  assert.equal(await page.locator('#single').count(), 0);
  await page.waitForSelector('#picked [data-seat="0,0"]');
  await hold(page);
  await inCart(page, 3);
  await goTo(page, 'party');
  await pick(page, 0, 1);
  await page.click('#hold');
  await reads(page, '#session-note', /Please choose at least 2 seats\./);
}));

// The widget

/** A page of a shop with the map. */
const withMap = (node, session, more) => shopPage(`${RECORDER}
<script type="module" src="${node}/page/widget.js"></script>
<boxoffice-map session="${session}" node="${node}" ${more}></boxoffice-map>`);

const MAP = 'boxoffice-map ';
const sold = (page, wanted) => page.waitForFunction((is) => {
  const map = document.querySelector('boxoffice-map');
  return map?.state === 'ready' && map.sale === is;
}, wanted);

async function click(page, row, seat) {
  const { x, y } = await page.evaluate(([r, s]) => document.querySelector('boxoffice-map').pointOf(r, s), [row, seat]);
  await page.mouse.click(x, y);
  await page.waitForFunction((wanted) => document.querySelector('boxoffice-map').selected.some(({ row: r, seat: s }) => `${r},${s}` === wanted), `${row},${seat}`);
}

/** Holds what is picked. Returns the seats, or the refusal. */
const held = (page) => page.evaluate(() => document.querySelector('boxoffice-map').hold().then(
  ({ seats }) => seats.map(({ row, seat }) => `${row},${seat}`),
  ({ code, reason }) => `${code} ${reason}`,
));

for (const browser of ['chromium', 'firefox']) {
  pageTest(`the widget takes a code from its site, its attribute and its buyer (${browser})`, async (people) => {
    const own = new Own();
    const shop = await new Shop().open();
    try {
      const { create, url, uses, ask } = await houseWithCode(own, 10, { origins: [shop.origin] });
      await create('pre', { offers: PRESALE, no_single_seats: true });
      shop.serve('/', withMap(url, 'pre', `lang="de" code="${CODE}"`));
      const page = await people.window();
      const outsideOf = outside(page);
      await page.goto(`${shop.origin}/`);
      await sold(page, 'on');
      assert.match(await page.locator(`${MAP}#code-said`).innerText(), /^Ihr Code GLOBE-7Q2M-XK wird verwendet/);
      await click(page, 0, 0);
      assert.deepEqual(await held(page), ['0,0']);
      assert.equal(await uses(), 1);
      assert.match(await page.locator(`${MAP}#code-said`).innerText(), /^Mit Ihrem Code: Stalls, Reihe A Platz 1 \(15,00\s€\)\.$/);
      await click(page, 0, 2);
      assert.equal(await held(page), '216 leaves_single');
      assert.match(await page.locator(`${MAP}[part=note]`).innerText(), /^So bliebe ein einzelner Platz frei: Stalls, Reihe A Platz 2\.$/);
      await click(page, 0, 1);
      // Another value of the attribute is taken over. It is wrong, so the buyer is told and corrects it.
      await page.evaluate((code) => document.querySelector('boxoffice-map').setAttribute('code', code), GUESS);
      assert.equal(await page.evaluate(() => document.querySelector('boxoffice-map').code), GUESS);
      assert.equal(await held(page), '218 code_not_valid');
      assert.match(await page.locator(`${MAP}#code-alert`).innerText(), /^Dieser Code gilt hier nicht/);
      assert.equal(await page.evaluate(() => document.querySelector('boxoffice-map').shadowRoot.activeElement.id), 'code');
      await page.fill(`${MAP}#code`, CODE);
      await page.click(`${MAP}#code-use`);
      assert.deepEqual(await page.evaluate(() => [document.querySelector('boxoffice-map').code, document.querySelector('boxoffice-map').getAttribute('code')]), [CODE, GUESS]);
      assert.deepEqual((await held(page)).toSorted(), ['0,1', '0,2']);
      assert.equal(await uses(), 3);
      // Without it the map waits for the opening, and the site is told.
      await page.evaluate(() => document.querySelector('boxoffice-map').removeAttribute('code'));
      await sold(page, 'not_yet');
      const faults = await page.evaluate(() => window.events.filter(({ name }) => name === 'fault').map(({ code }) => code));
      assert.deepEqual(faults, [212]);
      await enter(page, CODE, MAP);
      await sold(page, 'on');
      await page.evaluate(() => { document.querySelector('boxoffice-map').code = null; });
      await sold(page, 'not_yet');
      await page.evaluate((code) => { document.querySelector('boxoffice-map').code = ` ${code}\n`; }, CODE);
      await sold(page, 'on');
      assert.equal(await page.evaluate(() => document.querySelector('boxoffice-map').code), CODE);
      await page.locator(`${MAP}[data-area=yard] [part=step]`).last().click();
      assert.deepEqual(await held(page), []);
      assert.equal(await uses(), 4);
      assert.match(await page.locator(`${MAP}#code-said`).innerText(), /^Mit Ihrem Code: 1 × Yard \(15,00\s€\)\.$/);
      await standsNowhere(outsideOf, 'boxoffice.cart');
      // The opening for everybody.
      await page.evaluate(() => { document.querySelector('boxoffice-map').code = null; });
      await sold(page, 'not_yet');
      await ask('session.change', { id: 'pre', offers: [{ id: 'everybody' }], prices: { stalls: price(3000), box: price(9000) } });
      await sold(page, 'on');
    } finally {
      await people.leave();
      shop.close();
      await own.end();
    }
  }, { browser, within: 180_000 });
}

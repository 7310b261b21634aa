// Price types and offers, as the page counts them.
//
// Needs neither a browser nor a node: `node --test tests/page/offers.test.mjs`.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  boughtSummary, boughtText, choices, chosenOf, heldUnder, leftOf, offersKey, opensAt, priceUnder, quote, stampOf, typesIn, typesTold, withCode, withCodeIn,
} from '../../crates/edge/page/js/offers.js';
import { Terms, closedKey } from '../../crates/edge/page/js/sale.js';

const NOON = Date.parse('2031-01-01T12:00:00Z');
const HOUR = 3_600_000;
const at = (hours) => new Date(NOON + hours * HOUR).toISOString();
const euro = (amount) => ({ amount, currency: 'EUR' });

/** A session with adults, young people who are not sold boxes, and carers who are sold standing places only. */
const session = (more = {}) => ({
  id: 's', starts_at: at(100), ends_at: at(102), prices: { stalls: euro(3000), box: euro(9000) }, areas: [{ id: 'yard', price: euro(1000) }],
  price_types: [
    { id: 'adult', names: { en: 'Adult', de: 'Erwachsene' } },
    { id: 'under26', name: 'Under 26', prices: { stalls: 2000 }, area_prices: { yard: 700 } },
    { id: 'carer', area_prices: { yard: 0 } },
  ],
  ...more,
});
const stalls = { category: 'stalls' };
const short = (ways) => ways.map((way) => way && [way.type, way.amount, way.left]);

test('a session without price types and offers is sold at its prices', () => {
  const plain = { prices: { stalls: euro(3000) }, areas: [{ id: 'yard', price: euro(1000) }] };
  assert.deepEqual(short(choices(plain, stalls, NOON)), [[null, 3000, Infinity]]);
  assert.deepEqual(short(choices(plain, { area: 'yard' }, NOON)), [[null, 1000, Infinity]]);
  assert.deepEqual(choices(plain, { category: 'box' }, NOON), []);
  assert.equal(offersKey(plain, NOON), null);
  assert.equal(opensAt(plain, NOON), null);
  assert.equal(typesTold([undefined, undefined]), undefined);
  // Only the desk sells it, and nobody else is told its offers.
  const desks = { ...plain, sale: { terms: 0, desk_only: true } };
  assert.deepEqual(choices(desks, stalls, NOON), []);
  assert.equal(offersKey(desks, NOON), 'ended');
});

test('a type is sold where it has a price, and the first one has those of the session', () => {
  const of = (zone) => short(choices(session(), zone, NOON)).map(([type, amount]) => `${type} ${amount}`);
  assert.deepEqual(of(stalls), ['adult 3000', 'under26 2000']);
  assert.deepEqual(of({ category: 'box' }), ['adult 9000']);
  assert.deepEqual(of({ area: 'yard' }), ['adult 1000', 'under26 700', 'carer 0']);
});

test('an offer sets a price, or takes an amount or a rate off, rounded half up', () => {
  assert.equal(priceUnder({ set_price: 0 }, 3000), 0);
  assert.equal(priceUnder({ amount_off: 500 }, 3000), 2500);
  assert.equal(priceUnder({ amount_off: 500 }, 300), 0);
  assert.equal(priceUnder({ rate_off: 1000 }, 995), 895, '99.5 is taken off as 100');
  assert.equal(priceUnder({ rate_off: 1000 }, 994), 895, '99.4 is taken off as 99');
  assert.equal(priceUnder({ rate_off: 10_000 }, 3000), 0);
  assert.equal(priceUnder({ rate_off: 3333 }, 1_000_000_000_000), 666_700_000_000);
  assert.equal(priceUnder({}, 3000), 3000);
});

test('the cheapest open offer counts, and it sells what it names', () => {
  const offered = session({ offers: [
    { id: 'all' },
    { id: 'early', types: ['adult'], categories: ['stalls'], rate_off: 2000, until: at(1) },
    { id: 'closed', set_price: 1, closed: true },
    { id: 'yard', areas: ['yard'], amount_off: 100 },
  ] });
  const under = (zone, now) => choices(offered, zone, now).map(({ type, amount, list, offer }) => `${type} ${amount}/${list} ${offer.id}`);
  assert.deepEqual(under(stalls, NOON), ['adult 2400/3000 early', 'under26 2000/2000 all']);
  assert.deepEqual(under(stalls, NOON + HOUR - 1), ['adult 2400/3000 early', 'under26 2000/2000 all']);
  assert.deepEqual(under(stalls, NOON + HOUR), ['adult 3000/3000 all', 'under26 2000/2000 all'], 'its end is exclusive');
  assert.deepEqual(under({ area: 'yard' }, NOON), ['adult 900/1000 yard', 'under26 600/700 yard', 'carer 0/0 all']);
  assert.notEqual(stampOf(offered, NOON), stampOf(offered, NOON + HOUR));
});

test('the node opens an offer, not the clock, and before that the page knows when', () => {
  const offers = [{ id: 'sale', from: at(1), until: at(3) }, { id: 'later', from: at(2) }];
  const waiting = session({ offers, sale: { terms: 0 } });
  for (const hours of [0, 1, 1.5]) {
    assert.equal(closedKey(waiting, NOON + hours * HOUR), 'not_yet');
    assert.equal(opensAt(waiting, NOON + hours * HOUR), NOON + HOUR);
    assert.deepEqual(choices(waiting, stalls, NOON + hours * HOUR), []);
  }
  const open = session({ offers, sale: { terms: 0, opened: ['sale'] } });
  assert.equal(closedKey(open, NOON), null, 'the node says so, whatever the clock of this device shows');
  assert.equal(choices(open, stalls, NOON).length, 2);
  // Between the two nothing is on sale, and the next one will be.
  assert.equal(closedKey(session({ offers: [offers[0], { id: 'later', from: at(5) }], sale: { opened: ['sale'] } }), NOON + 3 * HOUR), 'not_yet');
  assert.equal(opensAt(session({ offers: [offers[0], { id: 'later', from: at(5) }], sale: { opened: ['sale'] } }), NOON + 3 * HOUR), NOON + 5 * HOUR);
  assert.equal(closedKey(session({ offers: [offers[0]], sale: { opened: ['sale'] } }), NOON + 3 * HOUR), 'ended');
  assert.equal(closedKey(session({ offers: [{ id: 'sale', closed: true }] }), NOON), 'ended');
  assert.equal(closedKey({ ...waiting, canceled: 'no power' }, NOON), 'canceled');
});

test('a counter limits all its offers, and seats are priced in their order', () => {
  const counted = session({
    offers: [{ id: 'all' }, { id: 'cheap', types: ['under26'], set_price: 500, counters: ['few'] }, { id: 'yard', types: ['under26'], areas: ['yard'], set_price: 100, counters: ['few'] }],
    counters: [{ id: 'many', max: 9 }, { id: 'few', max: 10 }], sale: { counted: [0, 8] },
  });
  assert.equal(leftOf(counted, 'few'), 2);
  assert.equal(leftOf(counted, 'none'), null);
  assert.deepEqual(short(choices(counted, stalls, NOON)), [['adult', 3000, Infinity], ['under26', 500, 2]]);
  const young = { type: 'under26', zone: stalls };
  assert.deepEqual(short(quote(counted, [young, { type: 'adult', zone: stalls }, young, young], NOON)),
    [['under26', 500, 2], ['adult', 3000, Infinity], ['under26', 500, 1], ['under26', 2000, Infinity]]);
  assert.deepEqual(short(quote(counted, [young, { type: 'under26', zone: { area: 'yard' } }, young], NOON)),
    [['under26', 500, 2], ['under26', 100, 1], ['under26', 2000, Infinity]]);
  assert.deepEqual(short(quote(counted, [{ type: 'under26', zone: { area: 'yard' }, quantity: 3 }], NOON)), [['under26', 700, Infinity]], 'all places have one price');
  assert.deepEqual(short(quote(counted, [{ type: 'carer', zone: stalls }], NOON)), [null]);
});

test('a type that is sold out is told with none left, and another one is chosen', () => {
  const out = session({
    offers: [{ id: 'adults', types: ['adult'] }, { id: 'young', types: ['under26'], counters: ['few'] }],
    counters: [{ id: 'few', max: 1 }], sale: { counted: [1] },
  });
  const ways = choices(out, stalls, NOON);
  assert.deepEqual(short(ways), [['adult', 3000, Infinity], ['under26', 2000, 0]]);
  assert.equal(chosenOf(ways, 'under26'), 'adult');
  assert.equal(chosenOf(ways, 'adult'), 'adult');
  assert.equal(chosenOf(ways, undefined), 'adult');
  assert.equal(chosenOf([], 'adult'), undefined);
});

test('what the cart holds under an offer counts for its limit of one order', () => {
  const limited = session({ offers: [{ id: 'all' }, { id: 'two', types: ['adult'], rate_off: 5000, per_order: 2 }] });
  const lines = [
    { seats: [[0, 0], [0, 1]], prices: [1500, 3000], bought_as: [{ offer: 'two', price_type: 'adult', list_price: 3000 }, { offer: 'all', price_type: 'adult', list_price: 3000 }] },
    { area: 'yard', quantity: 3, price: 1000, bought_as: [{ offer: 'all', price_type: 'adult', list_price: 1000 }] },
    { product: 'programme', quantity: 9 },
  ];
  const held = heldUnder(lines);
  assert.deepEqual([...held], [['two', 1], ['all', 4]]);
  const adult = { type: 'adult', zone: stalls };
  assert.deepEqual(short(quote(limited, [adult, adult], NOON, held)), [['adult', 1500, 1], ['adult', 3000, Infinity]]);
  assert.deepEqual(short(quote(limited, [adult, adult], NOON)), [['adult', 1500, 2], ['adult', 1500, 1]]);
});

test('a line says its price types, and the offer that has made it cheaper', () => {
  const known = session({ offers: [{ id: 'early', names: { en: 'Early bird', de: 'Frühbucher' } }, { id: 'all', name: 'Box office' }] });
  const as = (price_type, offer, list_price) => ({ terms: 0, price_type, offer, list_price });
  const line = {
    seats: [[0, 0], [0, 1], [0, 2], [0, 3]], prices: [3000, 2000, 2400, 3000],
    bought_as: [as('adult', 'all', 3000), as('under26', 'all', 2000), as('adult', 'early', 3000), as('adult', 'all', 3000)],
  };
  assert.equal(boughtSummary(known, line, ['en']), '2 × Adult, 1 × Under 26, 1 × Adult (Early bird)');
  assert.equal(boughtSummary(known, line, ['de']), '2 × Erwachsene, 1 × Under 26, 1 × Erwachsene (Frühbucher)');
  assert.equal(boughtText(known, line, 2, ['en']), 'Adult (Early bird)');
  assert.deepEqual(typesIn(line), ['adult', 'under26', 'adult', 'adult']);
  const places = { area: 'yard', quantity: 3, price: 0, bought_as: [as('gone', 'all', 0)] };
  assert.equal(boughtSummary(known, places, ['en']), '3 × gone', 'a type that is there no more has its id');
  assert.equal(boughtSummary(known, { seats: [[0, 0], [0, 1]], prices: [10, 10], bought_as: [as(undefined, 'early', 20)] }, ['en']), '2 × Early bird');
  assert.equal(boughtSummary(known, { seats: [[0, 0]], prices: [10] }), '');
  assert.equal(typesIn({ seats: [[0, 0]] }), undefined);
  assert.deepEqual(typesTold(['adult', 'adult']), ['adult']);
  assert.deepEqual(typesTold(['adult', 'under26']), ['adult', 'under26']);
});

test('with a code all types are for sale, and what everybody buys has the price of everybody', () => {
  const presale = session({ offers: [{ id: 'sale', from: at(1) }] });
  const members = { ...session({ sale: { terms: 0, desk_only: true } }), offers: [] };
  for (const [closed, key] of [[presale, 'not_yet'], [members, 'ended']]) {
    assert.equal(offersKey(closed, NOON), key);
    assert.equal(offersKey(withCode(closed), NOON), null);
    assert.deepEqual(short(choices(withCode(closed), stalls, NOON)), [['adult', 3000, Infinity], ['under26', 2000, Infinity]]);
  }
  const open = session({
    offers: [{ id: 'few', types: ['adult'], set_price: 2500, counters: ['few'] }, { id: 'dear', types: ['adult'], categories: ['box'], set_price: 9900 }],
    counters: [{ id: 'few', max: 1 }],
  });
  assert.deepEqual(short(choices(withCode(open), stalls, NOON)), [['adult', 2500, 1], ['under26', 2000, Infinity]]);
  assert.deepEqual(short(choices(withCode({ ...open, offers: [open.offers[1]] }), { category: 'box' }, NOON)), [['adult', 9900, Infinity]]);
  const adult = { type: 'adult', zone: stalls };
  assert.deepEqual(short(quote(withCode(open), [adult, adult], NOON)), [['adult', 2500, 1], ['adult', 3000, Infinity]]);
  // The session itself stays as it is.
  assert.equal(presale.offers.length, 1);
});

test('a line says which of its seats were bought with a code', () => {
  const as = (code_group) => ({ terms: 0, price_type: 'adult', offer: code_group ?? 'all', list_price: 3000, ...(code_group && { code_group }) });
  const line = { seats: [[0, 0], [0, 1]], prices: [3000, 3000], bought_as: [as('members'), as()] };
  assert.deepEqual(withCodeIn(line), [{ seat: [0, 0], price: 3000 }]);
  assert.equal(boughtSummary(session(), line, ['en']), '1 × Adult (with a code), 1 × Adult');
  assert.deepEqual(withCodeIn({ area: 'yard', quantity: 2, price: 1000, bought_as: [as('members')] }), [{ price: 1000 }]);
  assert.deepEqual(withCodeIn({ product: 'programme', quantity: 2 }), []);
});

test('the terms are read again when the mark of the feed changes, and not before', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  globalThis.document = { hidden: false };
  t.after(() => { delete globalThis.document; });
  const asked = [];
  const opened = { ...session({ offers: [{ id: 'sale', from: at(1) }] }), sale: { terms: 0, opened: ['sale'] } };
  const link = { on: () => () => {}, now: () => NOON, request: async (op) => { asked.push(op); return structuredClone(opened); } };
  const known = session({ offers: [{ id: 'sale', from: at(1) }], sale: { terms: 0, opens_at: at(1) } });
  let changes = 0;
  const terms = new Terms(link, known, () => { changes += 1; });
  const counts = { free: 1, held: 0, sold: 0 };
  terms.show({ counts, sale: { version: 1, opens_at: at(1) } });
  terms.show({ counts, sale: { version: 1, opens_at: at(1) } });
  t.mock.timers.tick(60_000);
  assert.equal(asked.length, 0);
  terms.show({ counts, sale: { version: 7 } });
  t.mock.timers.tick(1_000);
  await new Promise((resolve) => { setImmediate(resolve); });
  assert.deepEqual([asked.length, changes], [1, 1]);
  assert.equal(closedKey(known, NOON), null);
  terms.stop();
});

test('the terms are read again when an offer should open, until it is open', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  globalThis.document = { hidden: false };
  t.after(() => { delete globalThis.document; });
  let now = NOON + HOUR - 10_000;
  let asked = 0;
  let latest = { terms: 0, opens_at: at(1) };
  const known = session({ offers: [{ id: 'sale', from: at(1) }], sale: latest });
  const terms = new Terms({ on: () => () => {}, now: () => now, request: async () => { asked += 1; return { ...session({ offers: known.offers }), sale: latest }; } }, known, () => {});
  const pass = async (ms) => {
    now += ms;
    t.mock.timers.tick(ms);
    await new Promise((resolve) => { setImmediate(resolve); });
  };
  await pass(9_999);
  assert.equal(asked, 0);
  await pass(1_001);
  assert.equal(asked, 1);
  assert.equal(closedKey(known, now), 'not_yet');
  latest = { terms: 0, opened: ['sale'] };
  await pass(2_000);
  assert.equal(asked, 2);
  assert.equal(closedKey(known, now), null);
  await pass(60_000);
  assert.equal(asked, 2);
  terms.stop();
});

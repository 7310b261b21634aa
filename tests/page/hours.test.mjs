// The hour of the show. Venues in Copenhagen, New York and Kathmandu, one without a zone, and one with a zone that the browser does
// not know, are visited by browsers in four zones, on the days on which clocks change. Every view that tells a time is read.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connected, pageTest, reads, seeded } from './lib.mjs';
import { withOwn } from './own.mjs';

const HOUR = 3_600_000;

/** Days on which clocks change, with what a clock at 20:00 is ahead of UTC in hours. Written by hand, so that the page is judged by another source. */
const DAYS = [
  { date: '2027-03-14', name: 'Sunday, March 14', short: 'Sun, Mar 14', copenhagen: 1, 'new-york': -4, kathmandu: 5.75, algiers: 1 },
  { date: '2027-03-28', name: 'Sunday, March 28', short: 'Sun, Mar 28', copenhagen: 2, 'new-york': -4, kathmandu: 5.75, algiers: 1 },
  { date: '2027-10-31', name: 'Sunday, October 31', short: 'Sun, Oct 31', copenhagen: 1, 'new-york': -4, kathmandu: 5.75, algiers: 1 },
  { date: '2027-11-07', name: 'Sunday, November 7', short: 'Sun, Nov 7', copenhagen: 1, 'new-york': -5, kathmandu: 5.75, algiers: 1 },
];
const VENUES = [
  { id: 'copenhagen', zone: 'Europe/Copenhagen', place: 'time in Copenhagen' },
  { id: 'new-york', zone: 'America/New_York', place: 'time in New York' },
  { id: 'kathmandu', zone: 'Asia/Kathmandu', place: 'time in Kathmandu' },
  { id: 'nowhere', zone: null, place: 'UTC' },
  // The browsers of this test are told not to know this zone.
  { id: 'unknown', zone: 'Antarctica/Troll', place: 'UTC' },
];
const BROWSERS = { copenhagen: 'Europe/Copenhagen', 'new-york': 'America/New_York', kathmandu: 'Asia/Kathmandu', algiers: 'Africa/Algiers' };

const sessionOf = (venue, date) => `${venue}-${date}`;

/** What a browser should say of a session at 20:00: the clock, and the place if it must be named. */
function expected(browser, venue, day) {
  if (venue.place === 'UTC') return { place: 'UTC', after: ' UTC' };
  const named = day[venue.id] !== day[browser];
  return { place: named ? venue.place : '', after: named ? ` (${venue.place})` : '' };
}

/** Venues and sessions at 20:00 by the clocks of each. Where the zone is not known to the browser, the session is at 20:00 UTC. */
function programme() {
  const at = ({ id, date }) => (id === 'unknown' ? `${date}T20:00:00Z` : `${date}T20:00`);
  return {
    currency: 'EUR',
    titles: [{ id: 'hour', name: 'The hour' }],
    venues: VENUES.map(({ id, zone }) => ({
      id, name: `House ${id}`, city: id, ...(zone ? { zone } : {}), halls: [{ id: 'hall', name: 'Hall', layout: { rows: 4, seats: 10, category: 'standard' } }],
      sessions: DAYS.map(({ date }) => ({ id: sessionOf(id, date), hall: 'hall', title: 'hour', starts_at: at({ id, date }), ends_at: '+2h', prices: { '*': 1000 } })),
    })),
  };
}

function imported(own, operators, file) {
  const path = join(own.home, 'hours.json');
  writeFileSync(path, JSON.stringify(file));
  return execFileSync(process.env.BOXOFFICE_PROGRAM, ['import', '--address', operators, path], { stdio: 'pipe' }).toString();
}

async function asked(address, op, body) {
  const headers = { 'content-type': 'application/json', 'idempotency-key': randomBytes(12).toString('hex') };
  const response = await fetch(`http://${address}/v1/${op}`, { method: 'POST', headers, body: JSON.stringify(body) });
  const answer = await response.json();
  assert.ok(answer.ok, `${op}: ${JSON.stringify(answer)}`);
  return answer.ok;
}

/** A visitor in this zone, whose browser does not know one of the zones. */
async function visitor(people, url, zone) {
  const page = await people.window({ timezoneId: zone });
  await page.addInitScript(() => {
    const Known = Intl.DateTimeFormat;
    Intl.DateTimeFormat = new Proxy(Known, {
      construct(target, [language, options = {}]) {
        if (options.timeZone === 'Antarctica/Troll') throw new RangeError('Invalid time zone specified: Antarctica/Troll');
        return new target(language, options);
      },
    });
  });
  await page.goto(url);
  await connected(page);
  return page;
}

const go = (page, hash) => page.evaluate((to) => { location.hash = to; }, hash);

for (const [browser, zone] of Object.entries(BROWSERS)) {
  pageTest(`a browser in ${zone} tells every show by the clocks of its venue`, (people) => withOwn(people, async (own) => {
    const node = await own.node(1);
    assert.match(imported(own, node.operators, programme()), /warning +venue nowhere has no zone/);
    const page = await visitor(people, `http://127.0.0.1:${node.port}/#/`, zone);
    const all = VENUES.flatMap((venue) => DAYS.map((day) => ({ venue, day, id: sessionOf(venue.id, day.date), ...expected(browser, venue, day) })));

    // The programme: the hour, the place, and the day under which it stands.
    await page.waitForSelector(`[data-session="${all[0].id}"]`);
    const cards = await page.$$eval('.session-card', (found) => Object.fromEntries(found.map((card) => [card.dataset.session, {
      time: card.querySelector('time').textContent.trim(), day: card.closest('.day').querySelector('h3').textContent,
    }])));
    for (const { id, day, place } of all) {
      assert.deepEqual(cards[id], { time: `20:00${place ? ` ${place}` : ''}`, day: day.name }, `the programme, ${id}`);
    }

    // The session.
    for (const { id, day, after } of all) {
      await go(page, `#/session/${id}`);
      await reads(page, '.session-head__when', new RegExp(`^${day.name}, 20:00 – 22:00${escaped(after)}$`));
    }

    // The cart, with a seat of every show.
    for (const { id } of all) {
      await page.evaluate((session) => window.boxoffice.app.cart.holdSeats(session, [[1, 2]]), id);
    }
    await go(page, '#/cart');
    const line = async (where) => {
      for (const { id, day, after } of all) {
        const selector = `${where} .line:has(a[href="#/session/${id}"]) p.muted`;
        await reads(page, selector, new RegExp(`^${day.short}, 20:00${escaped(after) || '(?! \\(| UTC)'}`));
      }
    };
    await line('#lines');

    // The order, as it is shown and as it is printed, and the purchases.
    await page.fill('#customer', 'Ada Hour');
    await page.click('#pay');
    await page.waitForSelector('#order');
    await line('#order');
    await page.emulateMedia({ media: 'print' });
    await line('#order');
    await page.emulateMedia({ media: 'screen' });
    // It was bought now, and is told by the clocks of the first line, which is in Copenhagen.
    const now = new Date();
    const [here, there] = [clockIn(zone, now), clockIn('Europe/Copenhagen', now)];
    const bought = new RegExp(`, \\d\\d:\\d\\d${here === there ? '$' : ' \\(time in Copenhagen\\)$'}`);
    await reads(page, '#order .facts dd:nth-of-type(2)', bought);
    await go(page, '#/purchases');
    await reads(page, '#purchases time', bought);
    // Without a name it is among the orders of this device.
    await page.evaluate(() => window.boxoffice.app.customer.set(''));
    await go(page, '#/cart');
    await page.waitForSelector('#empty');
    await go(page, '#/purchases');
    await reads(page, '#here time', bought);

    // The history of a seat.
    const operator = await visitor(people, `http://${node.operators}/#/operator/session/${all[0].id}`, zone);
    for (const { id, day, venue, after } of all) {
      await go(operator, `#/operator/session/${id}`);
      await reads(operator, '.op-history, .stack--wide', new RegExp(`${day.short}, 20:00${escaped(after)}, hall`));
      await operator.selectOption('#seat-row', { label: 'Row B' });
      await operator.selectOption('#seat-number', { label: '3' });
      await operator.getByRole('button', { name: 'Show its history' }).click();
      const shown = venue.place === 'UTC' ? 'UTC' : venue.zone;
      const named = venue.place === 'UTC' ? ' UTC' : clockIn(zone, now) === clockIn(shown, now) ? '' : ` \\(${venue.place}\\)`;
      // The hour may have changed since.
      const hours = [now, new Date()].map((at) => clockIn(shown, at).slice(0, 2)).join('|');
      await reads(operator, '.op-event time', new RegExp(`^\\w+ \\d+, (${hours}):\\d\\d:\\d\\d${named}$`));
    }
  }), { within: 180_000 });
}

const escaped = (text) => text.replace(/[()]/g, '\\$&');

/** The hour and minute in a zone. */
function clockIn(zone, instant) {
  return new Intl.DateTimeFormat('en', { timeZone: zone, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }).format(instant);
}

pageTest('another zone of a venue moves no instant, changes what is shown, and leaves orders as they were', (people) => withOwn(people, async (own) => {
  const node = await own.node(1);
  imported(own, node.operators, programme());
  const { date, short } = DAYS[0];
  const id = sessionOf('copenhagen', date);
  const page = await visitor(people, `http://127.0.0.1:${node.port}/#/session/${id}`, 'Europe/Copenhagen');
  await reads(page, '.session-head__when', /20:00 – 22:00$/);
  await page.evaluate((session) => window.boxoffice.app.cart.holdSeats(session, [[1, 2]]), id);
  await go(page, '#/cart');
  await page.fill('#customer', 'Ada Hour');
  await page.click('#pay');
  await page.waitForSelector('#order');
  const order = await page.evaluate(() => location.hash);
  const put = (zone) => asked(node.operators, 'venue.put', { id: 'copenhagen', name: 'House', city: 'copenhagen', zone });
  // On the days between the two changes of the clocks, and outside, London is an hour behind.
  assert.equal((await put('Europe/London')).shifted, DAYS.length);
  assert.equal((await put('Europe/London')).shifted, undefined, 'it is the same zone');
  const before = (await asked(node.operators, 'session.get', { id })).starts_at;
  assert.equal(before, `${date}T19:00:00.000Z`);
  const other = await visitor(people, `http://127.0.0.1:${node.port}/#/session/${id}`, 'Europe/Copenhagen');
  // The session learns of it a moment later.
  for (let tries = 0; tries < 100 && (await asked(node.operators, 'session.get', { id })).zone !== 'Europe/London'; tries += 1) {
    await new Promise((resolve) => { setTimeout(resolve, 50); });
  }
  await other.reload();
  await reads(other, '.session-head__when', /19:00 – 21:00 \(time in London\)$/);
  await go(other, '#/');
  await reads(other, `[data-session="${id}"] time`, /^19:00 time in London$/);
  await page.reload();
  await go(page, order);
  await reads(page, '#order .line p.muted', new RegExp(`^${short}, 20:00(?! \\()`));
}), { within: 120_000 });

pageTest('on a day of 23 or 25 hours every booking is on the strip, and every free hour is offered', (people, print) => withOwn(people, async (own) => {
  const { seed, draw } = seeded('strips');
  print(`seed ${seed}`);
  const node = await own.node(1);
  const days = [
    { zone: 'Europe/London', date: '2027-10-31', begin: '2027-10-30T23:00Z', hours: 25 },
    { zone: 'Europe/London', date: '2027-03-28', begin: '2027-03-28T00:00Z', hours: 23 },
    { zone: 'America/New_York', date: '2027-11-07', begin: '2027-11-07T04:00Z', hours: 25 },
    { zone: 'America/New_York', date: '2027-03-14', begin: '2027-03-14T05:00Z', hours: 23 },
    { zone: 'Asia/Kathmandu', date: '2027-03-28', begin: '2027-03-27T18:15Z', hours: 24 },
  ];
  for (const [number, { zone, date, begin, hours }] of days.entries()) {
    const resource = `room-${number}`;
    await asked(node.operators, 'resource.put', { id: resource, name: 'A room', zone, rate: { amount: 1000, currency: 'EUR', per_ms: HOUR } });
    const page = await visitor(people, `http://127.0.0.1:${node.port}/#/resource/${resource}/${date}`, BROWSERS[Object.keys(BROWSERS)[draw(4)]]);
    await page.waitForFunction((count) => document.querySelectorAll('.slot').length === count, hours);
    // Some hours, always with those around the change of the clocks.
    const booked = [...new Set([0, 1, 2, hours - 1, ...Array.from({ length: 6 }, () => draw(hours))])];
    for (const hour of booked) {
      const from = Date.parse(begin) + hour * HOUR;
      await asked(node.operators, 'resource.reserve', {
        resource, booking: `b-${hour}`, begin: new Date(from).toISOString(), end: new Date(from + HOUR).toISOString(),
      });
    }
    await page.waitForFunction((count) => document.querySelectorAll('.booking').length === count, booked.length);
    await page.waitForFunction((count) => document.querySelectorAll('.slot').length === count, hours - booked.length);
    const lengths = await page.$$eval('.booking', (all) => all.map((each) => each.style.getPropertyValue('--to') - each.style.getPropertyValue('--from')));
    assert.deepEqual([...new Set(lengths)], [60], `${zone} ${date}: every booking is an hour long`);
    const names = await page.$$eval('.booking strong, .slot__button', (all) => all.map((each) => each.firstChild.textContent));
    assert.equal(new Set(names).size, hours, `${zone} ${date}: no two hours have the same name: ${names}`);
    for (const text of await page.$$eval('.slot__button .unseen', (all) => all.map((each) => each.textContent))) assert.equal(text, ' free, 1 h');
  }
}), { within: 120_000 });

// Makes the pictures of the page for the README: a house that is selling, the operators' view, and a phone.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { PHONE, call, chrome, closeChrome, connected, inCart, mapKnown, nodes, pause } from './lib.mjs';

const SESSION = 'tosca-tonight';
/** Share of the house that is sold before the pictures are taken. */
const SOLD = 0.38;
/** Time for the demonstration's own buyers to produce activity. */
const LIVE_MS = 6_000;
const BYTES_MAX = 300 * 1024;

const into = process.argv[2];
await mkdir(into, { recursive: true });
await fillHouse();
const browser = await chrome();
const window = { viewport: { width: 1280, height: 800 }, colorScheme: 'light' };

const operator = await open(window, '#/operator');
const session = await open(window, `#/session/${SESSION}`);
const phone = await open({ ...PHONE, colorScheme: 'light' }, `#/session/${SESSION}`);
for (const page of [session, phone]) {
  await mapKnown(page);
  await page.click('#best');
  await inCart(page, 2);
}
// Notices disappear after a while.
await pause(LIVE_MS);
await session.waitForFunction(() => !document.querySelector('.toast'));
await phone.waitForFunction(() => !document.querySelector('.toast'));
await fromTop(session);
await fromTop(phone);
await picture(session, 'session');
await picture(phone, 'phone');
// The charts need a minute of data.
await pause(20_000);
await fromTop(operator);
await picture(operator, 'operator');
await closeChrome();

async function open(options, hash) {
  const page = await (await browser.newContext(options)).newPage();
  await page.goto(`${nodes[0]}/${hash}`);
  await connected(page);
  return page;
}

function fromTop(page) {
  return page.evaluate(() => {
    document.activeElement?.blur();
    scrollTo(0, 0);
  });
}

async function picture(page, name) {
  const path = join(into, `${name}.png`);
  await page.mouse.move(2, 400);
  await page.screenshot({ path });
  const { size } = await stat(path);
  assert.ok(size <= BYTES_MAX, `${path} has ${size} bytes`);
  console.log(`${path}: ${Math.ceil(size / 1024)} KiB`);
}

/** Buys random groups of seats until this share of the house is sold. */
async function fillHouse() {
  const { layout, counts } = await call('session.get', { id: SESSION });
  const rows = layout.rows.map(seatsOf);
  const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const rng = rngOf(7);
  for (let { sold } = counts; sold < SOLD * all;) {
    const row = rng(rows.length);
    const size = 2 + rng(3);
    const first = rng(Math.max(1, rows[row] - size));
    const seats = Array.from({ length: Math.min(size, rows[row]) }, (_, each) => [row, first + each]);
    const token = randomBytes(16).toString('hex');
    try {
      await call('cart.hold_seats', { token, session: SESSION, seats }, row % nodes.length);
      await call('cart.checkout', { token, payment: { recorded: { method: 'card', transaction_id: `P-${sold}` } } }, row % nodes.length);
      sold += seats.length;
    } catch (error) {
      // Another buyer holds these seats.
      if (!/seats_taken/.test(error.message)) throw error;
    }
  }
}

/** The number of seats of a row. */
function seatsOf(row) {
  return row.runs.reduce((sum, run) => sum + run.count, 0);
}

/** Seeded random numbers below a bound. */
function rngOf(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

// What the page weighs over a slow link: compressed files and layouts, few rounds, and the title before the seats.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { request } from 'node:http';
import { mapKnown, median, pageTest } from './lib.mjs';
import { withOwn } from './own.mjs';
import { Shaper } from './shaper.mjs';

const PAGE = fileURLToPath(new URL('../../crates/edge/page/', import.meta.url));
const LINK = { rtt: 400, rate: 50_000 };
const ROUNDS = 3;

/** What the page may carry until the map is there, in bytes, as the quick compression of a debug build makes it, and the connections that it may make. */
const BYTES_MAX = 245_000;
const CONNECTIONS_MAX = 10;
/** What it may carry until the title is there. */
const TITLE_BYTES_MAX = 60_000;

/** The answer to a GET as it is on the wire. */
function get(port, path, headers = {}) {
  return new Promise((resolve, reject) => {
    request({ port, path, headers, host: '127.0.0.1' }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(parts) }));
    }).on('error', reject).end();
  });
}

/** A hall of 20 000 seats in curved rows, each seat with its point, so that the layout is as long as those of real arenas. */
function arena() {
  const row = (number) => {
    const radius = 2_000 + number * 100;
    const seats = Array.from({ length: 160 }, (_, seat) => {
      const angle = ((seat - 79.5) / 160) * 2.4;
      return { label: String(seat + 1), x: Math.round(radius * 1.6 * Math.sin(angle)), y: Math.round(radius * Math.cos(angle)) };
    });
    return { label: `${number + 1}`, section: `block-${1 + (number % 5)}`, category: ['gold', 'silver', 'bronze'][number % 3], seats };
  };
  return { rows: Array.from({ length: 125 }, (_, number) => row(number)) };
}

/** Puts it on sale. */
function sellArena(own, operators) {
  const session = { id: 'big-night', hall: 'arena', title: 'big', starts_at: '+3d 20:00', ends_at: '+2h', prices: { '*': 4000 } };
  own.offer(operators, {
    currency: 'EUR',
    titles: [{ id: 'big', name: 'The big night of the arena' }],
    venues: [{ id: 'big', name: 'A large house', city: 'Aarhus', halls: [{ id: 'arena', name: 'The arena', layout: arena() }], sessions: [session] }],
  });
}

pageTest('each file is the same in every coding, and a layout is a fifth of its length', (people, print) => withOwn(people, async (own) => {
  const node = await own.node(1);
  sellArena(own, node.operators);
  const files = readdirSync(PAGE, { recursive: true }).filter((path) => statSync(join(PAGE, path)).isFile());
  const built = statSync(process.env.BOXOFFICE_PROGRAM).mtimeMs;
  const sums = { identity: 0, gzip: 0, br: 0 };
  for (const file of files) {
    const plain = readFileSync(join(PAGE, file));
    for (const [coding, unpack] of [['identity', (bytes) => bytes], ['gzip', gunzipSync], ['br', brotliDecompressSync]]) {
      const answer = await get(node.port, `/page/${file}`, { 'accept-encoding': coding });
      const found = answer.headers['content-encoding'] ?? 'identity';
      // A program that is built for debugging has brotli only of files that have not changed since.
      const may = found === 'identity' && (plain.length < 512 || (coding === 'br' && statSync(join(PAGE, file)).mtimeMs > built));
      assert.ok(found === coding || may, `${file}: ${found} instead of ${coding}`);
      assert.deepEqual((found === coding ? unpack : (bytes) => bytes)(answer.body), plain, `${file} ${coding}`);
      sums[coding] += answer.body.length;
    }
  }
  const [plain, packed] = [{}, { 'accept-encoding': 'gzip, deflate, br' }].map((headers) => get(node.port, '/v1/sessions/big-night/layout', headers));
  const [{ length: long }, { length: short }] = [(await plain).body, (await packed).body];
  assert.deepEqual(gunzipSync((await packed).body), (await plain).body);
  print(`files: ${sums.identity} bytes, gzip ${sums.gzip}, brotli ${sums.br}; layout of 20 000 seats: ${long} bytes, gzip ${short}`);
  assert.ok(short * 3 < long, `${short} of ${long}`);
  // Brotli is made beside, after the first client that takes it.
  const takes = { 'accept-encoding': 'gzip, deflate, br' };
  let shorter = await get(node.port, '/v1/sessions/big-night/layout', takes);
  for (const end = Date.now() + 60_000; shorter.headers['content-encoding'] !== 'br' && Date.now() < end;) {
    await new Promise((resolve) => { setTimeout(resolve, 50); });
    shorter = await get(node.port, '/v1/sessions/big-night/layout', takes);
  }
  assert.deepEqual(brotliDecompressSync(shorter.body), (await plain).body);
  assert.ok(shorter.body.length < short * 0.8, `${shorter.body.length} of ${short}`);
  const known = (await packed).headers.etag;
  assert.equal((await get(node.port, '/v1/sessions/big-night/layout', { ...takes, 'if-none-match': known })).status, 304, 'a client with gzip keeps it');
}));

/** The modules that a module imports without waiting, and those that these import. */
function importsOf(file, found = new Set()) {
  if (found.has(file)) return found;
  found.add(file);
  const source = readFileSync(join(PAGE, file), 'utf8');
  for (const [, from] of source.matchAll(/^(?:import|export)\s[^;]*?'(\.[^']+)';/gms)) importsOf(relative('.', join(dirname(file), from)), found);
  return found;
}

test('the first module names every module that the view of a session needs, and no other', () => {
  const [, list] = readFileSync(join(PAGE, 'js/first.js'), 'utf8').match(/const MODULES = \[(.*?)\];/s);
  const named = [...list.matchAll(/'([^']+)'/g)].map(([, file]) => `js/${file}`);
  const first = [...importsOf('js/first.js')];
  const needed = new Set(['js/main.js', 'js/views/session.js'].flatMap((file) => [...importsOf(file)]));
  assert.deepEqual(named.toSorted(), [...needed].filter((file) => !first.includes(file)).toSorted());
  // The first module comes with one that it needs, and index.html names both.
  assert.deepEqual(first, ['js/first.js', 'js/layout.js']);
  const index = readFileSync(join(PAGE, 'index.html'), 'utf8');
  assert.deepEqual([...index.matchAll(/\/page\/(js\/[^"]+)"/g)].map(([, file]) => file), first);
});

pageTest('over a slow link the title of a show of 20 000 seats is there early, and its map soon after', (people, print) => withOwn(people, async (own) => {
  const node = await own.node(1);
  sellArena(own, node.operators);
  const figures = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const link = await new Shaper(node.port, LINK).open();
    try {
      const visitor = await people.window();
      const begun = Date.now();
      const since = () => Date.now() - begun;
      visitor.goto(`http://127.0.0.1:${link.port}/#/session/big-night`, { waitUntil: 'commit' }).catch(() => {});
      await visitor.waitForFunction(() => document.body?.innerText.includes('The big night of the arena'), null, { timeout: 40_000 });
      const [title, before] = [since(), link.carried];
      const isEarly = await visitor.evaluate(() => !document.querySelector('.seats__field'));
      await mapKnown(visitor);
      figures.push({ title, map: since(), before, bytes: link.carried, connections: link.connections, isEarly });
      await visitor.context().close();
    } finally {
      link.close();
    }
  }
  const of = (name) => median(figures.map((figure) => figure[name]));
  print(`median of ${ROUNDS}: title ${of('title')} ms after ${of('before')} bytes, map ${of('map')} ms after ${of('bytes')} bytes, ${of('connections')} connections; all: ${JSON.stringify(figures)}`);
  assert.ok(figures.every(({ isEarly }) => isEarly), 'the title does not wait for the seats');
  assert.ok(of('bytes') <= BYTES_MAX, `${of('bytes')} bytes`);
  assert.ok(of('connections') <= CONNECTIONS_MAX, `${of('connections')} connections`);
  assert.ok(of('before') <= TITLE_BYTES_MAX, `${of('before')} bytes before the title`);
}), { within: 180_000 });

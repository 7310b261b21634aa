// The widget in pages of another site: in plain HTML as the guide has it, with React and with Vue, in Chromium and in Firefox.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { closeChrome, frames, pageTest, pause } from './lib.mjs';
import { Own } from './own.mjs';
import { RECORDER, Shop, ask, bundled, page, takenBy } from './shop.mjs';

/** After this time a picked seat that is taken has been told as lost. */
const LOST_WITHIN_MS = 3_500;
const BROWSERS = ['chromium', 'firefox'];

const row = (label, section, category) => ({ label, section, category, count: 12 });
const LAYOUT = { rows: [row('A', 'stalls', 'premium'), row('B', 'stalls', 'premium'), row('C', 'stalls', 'standard'), row('K', 'balcony', 'standard')] };
const SESSIONS = 40;

const own = new Own();
const shop = new Shop();
let nodes = null;
let used = 0;

after(async () => {
  await closeChrome();
  shop.close();
  await own.end();
});

/** A node that sells to guests and one that only shows, once for all tests. */
function servers() {
  nodes ??= (async () => {
    await shop.open();
    const started = [];
    for (const [id, anonymous] of [[1, 'sell'], [2, 'watch']]) {
      const node = await own.node(id, [], { origins: [shop.origin], anonymous });
      const session = (number) => ({
        id: `night-${number}`, hall: 'studio', title: 'own', starts_at: `+${3 + number}d 20:00`, ends_at: '+2h',
        prices: { premium: 3000 + number, standard: 2000 }, areas: [{ id: 'standing', name: 'Standing room', capacity: 30, price: 900 }],
      });
      const halls = [{ id: 'studio', name: 'The studio', layout: LAYOUT }];
      const sessions = Array.from({ length: SESSIONS }, (_, number) => session(number));
      own.offer(node.operators, { currency: 'EUR', titles: [{ id: 'own', name: 'Our own' }], venues: [{ id: 'own', name: 'A house', city: 'Aarhus', halls, sessions }] });
      started.push(`http://127.0.0.1:${node.port}`, `http://${node.operators}`);
    }
    const [sells, desk, shows] = started;
    return { sells, desk, shows };
  })();
  return nodes;
}

/** The next session that no test has used. */
function night() {
  const id = `night-${used}`;
  used += 1;
  assert.ok(used <= SESSIONS, 'more sessions are needed');
  return id;
}

/** A test in both browsers: `does(window, given)`, where `window()` opens a visitor's window on a page of the shop. */
function inBoth(name, does) {
  for (const browser of BROWSERS) {
    pageTest(`${name} (${browser})`, async (people) => {
      const given = await servers();
      const open = async (html, prepare = () => {}) => {
        const at = `/${used}-${Math.random().toString(36).slice(2)}`;
        shop.serve(at, html);
        const opened = await people.window();
        await prepare(opened);
        await opened.goto(`${shop.origin}${at}`);
        return opened;
      };
      await does(open, given, people);
    }, { browser, within: 180_000, refused: true });
  }
}

const element = ({ node, session, more = '' }) => page(`${RECORDER}
<script type="module" src="${node}/page/widget.js"></script>
<boxoffice-map session="${session}" node="${node}" ${more}></boxoffice-map>`);

const ready = (opened) => opened.waitForFunction(() => document.querySelector('boxoffice-map')?.state === 'ready');

/** Clicks a seat of the map. */
async function click(opened, rowNumber, seat) {
  const { x, y } = await opened.evaluate(([r, s]) => document.querySelector('boxoffice-map').pointOf(r, s), [rowNumber, seat]);
  await opened.mouse.click(x, y);
}

const picked = (opened) => opened.evaluate(() => document.querySelector('boxoffice-map').selected.map(({ row: r, seat }) => `${r},${seat}`));
const events = (opened, name) => opened.evaluate((wanted) => window.events.filter((event) => event.name === wanted), name);
const seatsOf = ({ seats }) => seats.map(({ row: r, seat }) => `${r},${seat}`);

/** Waits until the map says that these seats are the buyer's. */
const isMine = (opened, ...seats) => opened.waitForFunction((wanted) => {
  const mine = document.querySelector('boxoffice-map').mine.map(String);
  return mine.length === wanted.length && wanted.every((seat) => mine.includes(seat));
}, seats);

// The guide

/** The blocks of HTML of the guide, for this node and session. */
function guide(node, session) {
  const text = readFileSync(new URL('../../docs/start/widget.md', import.meta.url), 'utf8');
  const blocks = [...text.matchAll(/```html\n(.*?)```/gs)].map(([, html]) => html);
  assert.equal(blocks.length, 3, 'the page, the script of step 3, the script of step 4');
  return blocks.map((html) => html.replaceAll('http://127.0.0.1:7180', node).replaceAll('hamlet-tonight', session).replace('<html lang="en">', `<html lang="en">${RECORDER}<link rel="icon" href="data:,">`));
}

function alerts(opened) {
  const said = [];
  opened.on('dialog', (dialog) => {
    said.push(dialog.message());
    dialog.accept();
  });
  return said;
}

inBoth('the guide: another buyer\'s hold is lost, and the own hold of step 3 is not', async (open, { sells }) => {
  const session = night();
  const [html, script] = guide(sells, session);
  let between;
  const opened = await open(html + script, async (visitor) => { between = await frames(visitor); });
  const said = alerts(opened);
  await ready(opened);
  for (const seat of [3, 4, 5]) await click(opened, 2, seat);
  assert.equal(await opened.textContent('#picked'), 'Stalls, Row C seat 4, Stalls, Row C seat 5, Stalls, Row C seat 6');
  await takenBy(sells, { session, seats: [[2, 5]] });
  await opened.waitForFunction(() => window.events.some(({ name }) => name === 'lost'));
  assert.deepEqual(said, ['Just taken: Stalls, Row C seat 6']);
  assert.equal(await opened.textContent('#picked'), 'Stalls, Row C seat 4, Stalls, Row C seat 5');
  // The map shows the hold long before the answer comes.
  between.stop((frame) => frame.ok?.cart && frame.ok.deadline);
  await opened.click('#hold');
  await pause(LOST_WITHIN_MS);
  between.go();
  await isMine(opened, '2,3', '2,4');
  await pause(LOST_WITHIN_MS);
  assert.equal((await events(opened, 'lost')).length, 1, 'the own hold is no loss');
  assert.equal(said.length, 2, said.join());
  assert.match(said[1], /^Held until /);
  assert.equal(await opened.textContent('#picked'), 'Nothing picked');
  // A reload goes on with the guest's cart.
  await opened.reload();
  await isMine(opened, '2,3', '2,4');
  await opened.evaluate(() => document.querySelector('boxoffice-map').release([[2, 3]]));
  await isMine(opened, '2,4');
  await opened.evaluate(() => document.querySelector('boxoffice-map').release());
  await isMine(opened);
  const { json } = await ask(sells, 'session.get', { id: session, layout: false });
  assert.equal(json.ok.counts.held, 1, 'only the other buyer holds');
});

inBoth('the guide: a hold on the shop\'s server as in step 4 is the buyer\'s, however late the answer', async (open, { sells }) => {
  const session = night();
  const [html, , script] = guide(sells, session);
  const opened = await open(html + script);
  const said = alerts(opened);
  await ready(opened);
  let works = true;
  shop.answer('/hold', async (body) => {
    if (!works) return { status: 403, text: '' };
    await takenBy(sells, { session, seats: JSON.parse(body) });
    // The map shows the hold long before the page has this answer.
    await pause(LOST_WITHIN_MS);
    return { text: '' };
  });
  await click(opened, 1, 1);
  await click(opened, 1, 2);
  await opened.click('#hold');
  await isMine(opened, '1,1', '1,2');
  await opened.waitForFunction(() => document.querySelector('boxoffice-map').selected.length === 0);
  await pause(LOST_WITHIN_MS + 1_000);
  assert.deepEqual(await events(opened, 'lost'), []);
  assert.deepEqual(said, ['Held']);
  works = false;
  await click(opened, 0, 5);
  await opened.click('#hold');
  await isMine(opened, '1,1', '1,2');
  assert.deepEqual(said, ['Held', 'Not held']);
});

inBoth('a shop that says `mine` only when its server has answered is told of no loss either', async (open, { sells }) => {
  const session = night();
  const opened = await open(element({ node: sells, session }));
  await ready(opened);
  await click(opened, 0, 7);
  await takenBy(sells, { session, seats: [[0, 7]] });
  await pause(700);
  await opened.evaluate(() => { document.querySelector('boxoffice-map').mine = [[0, 7]]; });
  await pause(LOST_WITHIN_MS);
  assert.deepEqual(await events(opened, 'lost'), []);
  assert.deepEqual(await picked(opened), []);
  // Given back, the seat is free for everybody, and is nobody's loss.
  await opened.evaluate(() => { document.querySelector('boxoffice-map').mine = []; });
  await pause(200);
  assert.deepEqual(await events(opened, 'lost'), []);
});

// Attributes, properties and events

inBoth('attributes and properties are one, and no pick is dropped in silence', async (open, { sells }) => {
  const [one, other] = [night(), night()];
  const opened = await open(element({ node: sells, session: one, more: 'max="3"' }));
  await ready(opened);
  const first = await events(opened, 'ready');
  assert.deepEqual(first.map(({ session, seats, places }) => [session, seats, places]), [[one, [], []]]);
  await click(opened, 0, 0);
  await click(opened, 0, 1);
  const all = await opened.evaluate(() => window.events.slice(-2));
  assert.deepEqual(all.map(({ name }) => name), ['pick', 'select'], 'the alias comes after');
  assert.deepEqual({ ...all[0], name: '', at: 0 }, { ...all[1], name: '', at: 0 });
  const [, premium] = [used, Number(one.split('-')[1]) + 3000];
  assert.deepEqual(all[0].seats[0], {
    row: 0, seat: 0, label: 'Stalls, Row A seat 1', price: { amount: premium, currency: 'EUR' }, category: 'premium', categoryName: 'Premium',
  });
  // A text in another language, and another place in the document, are no reasons to lose a pick.
  await opened.evaluate(() => { document.querySelector('boxoffice-map').lang = 'de'; });
  await ready(opened);
  await opened.waitForFunction(() => document.querySelector('boxoffice-map').selected[0]?.label === 'Stalls, Reihe A Platz 1');
  await opened.evaluate(() => {
    const place = document.createElement('div');
    document.body.append(place);
    place.append(document.querySelector('boxoffice-map'));
  });
  await opened.waitForFunction(() => document.querySelector('boxoffice-map').state !== 'ready' || true);
  await ready(opened);
  await opened.waitForFunction(() => document.querySelector('boxoffice-map').selected.length === 2);
  assert.equal((await events(opened, 'pick')).length, 2);
  // Another session is another map, whichever way it is said.
  const change = async (how, id, before) => {
    await opened.evaluate(([way, to]) => {
      const map = document.querySelector('boxoffice-map');
      if (way === 'property') map.session = to; else map.setAttribute('session', to);
    }, [how, id]);
    await opened.waitForFunction((to) => window.events.at(-1).name === 'ready' && window.events.at(-1).session === to, id);
    const told = await events(opened, 'pick');
    assert.deepEqual([told.at(-1).session, told.at(-1).seats], [before, []], `${how}: the picks of before are told`);
    assert.deepEqual(await opened.evaluate(() => [document.querySelector('boxoffice-map').session, document.querySelector('boxoffice-map').getAttribute('session')]), [id, id]);
    await click(opened, 0, 2);
    await opened.waitForFunction(() => window.events.at(-1).name === 'select');
    const now = (await events(opened, 'pick')).at(-1);
    assert.deepEqual([now.session, seatsOf(now), now.seats[0].price.amount], [id, ['0,2'], Number(id.split('-')[1]) + 3000], how);
  };
  await change('property', other, one);
  await change('attribute', one, other);
  // The most that may be picked.
  for (const seat of [3, 4, 5]) await click(opened, 0, seat);
  assert.deepEqual(await picked(opened), ['0,2', '0,3', '0,4']);
  await opened.evaluate(() => { document.querySelector('boxoffice-map').max = 4; });
  assert.equal(await opened.getAttribute('boxoffice-map', 'max'), '4');
  await click(opened, 0, 5);
  assert.equal((await picked(opened)).length, 4);
  await opened.evaluate(() => document.querySelector('boxoffice-map').clear());
  assert.deepEqual(seatsOf((await events(opened, 'pick')).at(-1)), []);
});

inBoth('properties that are set before the script is there count', async (open, { sells }) => {
  const session = night();
  const opened = await open(page(`${RECORDER}<boxoffice-map></boxoffice-map>
<script>
  Object.assign(document.querySelector('boxoffice-map'), { session: '${session}', node: '${sells}', mine: [[3, 3]] });
</script>
<script type="module" src="${sells}/page/widget.js"></script>`));
  await ready(opened);
  await isMine(opened, '3,3');
  assert.equal(await opened.getAttribute('boxoffice-map', 'session'), session);
});

inBoth('areas by their buttons, seats by the keyboard, a legend with prices, and one hold for all', async (open, { sells, desk }) => {
  const session = night();
  const opened = await open(element({ node: sells, session, more: 'max="5"' }));
  await ready(opened);
  const map = opened.locator('boxoffice-map');
  assert.match(await map.locator('[part=legend]').textContent(), /Premium.*€30\.\d\d.*Standard.*€20\.00/s);
  assert.match(await map.locator('[part=areas]').textContent(), /Standing room.*€9\.00.*30 free/s);
  await map.locator('#seats').focus();
  await opened.keyboard.press('ArrowRight');
  await opened.keyboard.press('Enter');
  await opened.keyboard.press('ArrowRight');
  await opened.keyboard.press(' ');
  assert.equal((await picked(opened)).length, 2);
  const more = map.getByRole('button', { name: 'Standing room: one more' });
  for (let press = 0; press < 5; press += 1) await more.press('Enter');
  assert.deepEqual(await opened.evaluate(() => document.querySelector('boxoffice-map').places), [
    { area: 'standing', name: 'Standing room', quantity: 3, price: { amount: 900, currency: 'EUR' } },
  ], 'seats and places together are at most 5');
  assert.equal(await more.getAttribute('aria-disabled'), 'true');
  await map.getByRole('button', { name: 'Standing room: one less' }).press('Enter');
  const held = await opened.evaluate(() => document.querySelector('boxoffice-map').hold());
  assert.deepEqual([held.seats.length, held.places[0].quantity, typeof held.cart, Date.parse(held.deadline) > Date.now()], [2, 2, 'string', true]);
  await opened.waitForFunction(() => document.querySelector('boxoffice-map').shadowRoot.querySelector('[part=areas]').textContent.includes('2 yours'));
  assert.deepEqual(await opened.evaluate(() => [document.querySelector('boxoffice-map').selected, document.querySelector('boxoffice-map').places]), [[], []]);
  assert.equal(await opened.evaluate(() => document.querySelector('boxoffice-map').hold()), null, 'nothing is picked');
  // Others leave one place of the three that are picked.
  for (let press = 0; press < 3; press += 1) await more.press('Enter');
  // A guest would have reached the share of a network.
  await takenBy(desk, { session, area: 'standing', quantity: 27 });
  await opened.waitForFunction(() => window.events.some(({ name }) => name === 'lost'));
  assert.deepEqual((await events(opened, 'lost')).map(({ places }) => places.map(({ area, quantity }) => [area, quantity])), [[['standing', 2]]]);
  assert.equal((await events(opened, 'pick')).at(-1).places[0].quantity, 1);
  await opened.evaluate(() => document.querySelector('boxoffice-map').release('standing'));
  await isMine(opened, ...held.seats.map(({ row: r, seat }) => `${r},${seat}`));
  const { json } = await ask(sells, 'session.get', { id: session, layout: false });
  assert.equal(json.ok.areas[0].held, 27);
});

inBoth('what cannot be is a fault or a rejection with its code', async (open, { sells, shows }) => {
  const session = night();
  const opened = await open(element({ node: shows, session }));
  await ready(opened);
  await click(opened, 0, 3);
  await opened.waitForFunction(() => document.querySelector('boxoffice-map').selected.length === 1);
  const refused = await opened.evaluate(() => document.querySelector('boxoffice-map').hold().catch(({ code, reason, message }) => ({ code, reason, message })));
  assert.deepEqual([refused.code, refused.reason], [107, 'unauthenticated'], refused.message);
  assert.deepEqual(await picked(opened), ['0,3'], 'a refused hold keeps the picks');
  // Seats that were taken in the same moment are refused by name.
  const other = await open(element({ node: sells, session }));
  await ready(other);
  await click(other, 0, 3);
  await click(other, 0, 4);
  await takenBy(sells, { session, seats: [[0, 3]] });
  const late = await other.evaluate(() => document.querySelector('boxoffice-map').hold().catch(({ code, reason }) => ({ code, reason })));
  assert.deepEqual(late, { code: 201, reason: 'seats_taken' });
  await other.waitForFunction(() => window.events.some(({ name }) => name === 'lost'));
  assert.deepEqual(await picked(other), ['0,4']);
  const unknown = await open(element({ node: sells, session: 'no-such-night' }));
  await unknown.waitForFunction(() => window.events.length > 0);
  const [{ name, code, reason, session: told }] = await unknown.evaluate(() => window.events);
  assert.deepEqual([name, code, reason, told], ['fault', 701, 'not_found', 'no-such-night']);
  assert.equal(await unknown.evaluate(() => document.querySelector('boxoffice-map').state), 'fault');
  // The element goes on with another session.
  await unknown.evaluate((to) => { document.querySelector('boxoffice-map').session = to; }, session);
  await ready(unknown);
});

inBoth('a show that has begun, is over or is canceled says so, and nothing can be picked', async (open, { sells, desk }) => {
  const session = night();
  const { json } = await ask(sells, 'session.get', { id: session, layout: false });
  // The clock of the page goes on to an instant, since the node tells its time in the hello.
  const at = (instant) => async (visitor) => {
    await visitor.routeWebSocket(/\/v1\/ws$/, (socket) => {
      const server = socket.connectToServer();
      socket.onMessage((frame) => server.send(frame));
      server.onMessage((frame) => {
        const told = JSON.parse(frame);
        if (told.hello) told.hello.time = new Date(instant).toISOString();
        socket.send(JSON.stringify(told));
      });
    });
  };
  const map = (opened, what) => opened.evaluate((name) => document.querySelector('boxoffice-map')[name], what);
  const begin = Date.parse(json.ok.starts_at);
  for (const [instant, key, lang, words] of [[begin + 1_000, 'begun', 'de', 'Diese Vorstellung hat begonnen.'], [Date.parse(json.ok.ends_at) + 1_000, 'over', 'fr', 'Cette séance est terminée.']]) {
    const opened = await open(element({ node: sells, session, more: `lang="${lang}"` }), at(instant));
    await opened.waitForFunction(() => window.events.some(({ name }) => name === 'fault'));
    const [fault] = await events(opened, 'fault');
    assert.deepEqual([fault.session, fault.code, fault.reason, fault.message], [session, 207, 'session_closed', words]);
    assert.deepEqual([await map(opened, 'state'), await map(opened, 'sale')], ['ready', key]);
    await click(opened, 0, 5);
    assert.deepEqual(await picked(opened), []);
  }
  // It begins while seats and places are picked.
  const opened = await open(element({ node: sells, session }), at(begin - 15_000));
  await ready(opened);
  assert.equal(await map(opened, 'sale'), 'on');
  await click(opened, 0, 5);
  await opened.getByRole('button', { name: 'Standing room: one more' }).click();
  assert.deepEqual([(await picked(opened)).length, (await map(opened, 'places')).length], [1, 1], 'the machine is too slow for this test');
  await opened.waitForFunction(() => document.querySelector('boxoffice-map').sale === 'begun');
  assert.deepEqual([(await picked(opened)).length, (await map(opened, 'places')).length], [0, 0]);
  assert.deepEqual((await events(opened, 'pick')).at(-1).seats, [], 'the site is told that nothing is picked');
  assert.equal(await opened.getByRole('button', { name: 'Standing room: one more' }).getAttribute('aria-disabled'), 'true');
  assert.equal((await events(opened, 'fault')).length, 1, 'it is told once');
  // A show that is canceled while it is looked at. Somebody had bought.
  const other = await open(element({ node: sells, session }));
  await ready(other);
  await click(other, 0, 5);
  const token = await takenBy(sells, { session, seats: [[2, 2]] });
  const paid = await ask(desk, 'cart.checkout', { token, payment: { recorded: { method: 'cash', transaction_id: '1' } } });
  assert.equal(paid.status, 200, JSON.stringify(paid.json));
  await pause(500);
  assert.equal((await ask(desk, 'session.cancel', { id: session, reason: 'no power' })).status, 200);
  await other.waitForFunction(() => document.querySelector('boxoffice-map').sale === 'canceled');
  assert.equal((await events(other, 'fault')).at(-1).message, 'This show does not take place: no power');
  assert.deepEqual(await picked(other), []);
  await other.getByText('This show does not take place: no power').first().waitFor();
});

// React and Vue

const CHOICE = `
  const [one, other] = location.hash.slice(1).split(',');
  const node = document.body.dataset.node;`;

const REACT = `
  import { useState } from 'react';
  import { createRoot } from 'react-dom/client';
  ${CHOICE}
  function App() {
    const [session, setSession] = useState(one);
    const [picked, setPicked] = useState([]);
    const [mine, setMine] = useState([[3, 1]]);
    const [max, setMax] = useState(2);
    return <>
      <button id="other" onClick={() => setSession(other)}>other</button>
      <button id="mine" onClick={() => setMine([[3, 1], [3, 2]])}>mine</button>
      <button id="max" onClick={() => setMax(4)}>max</button>
      <p id="list">{picked.join(' ')}</p>
      <boxoffice-map id="map" session={session} node={node} max={max} mine={mine}
        onpick={({ detail }) => setPicked(detail.seats.map(({ row, seat }) => detail.session + ':' + row + ',' + seat))} />
    </>;
  }
  createRoot(document.getElementById('app')).render(<App />);`;

const VUE = `
  import { createApp } from 'vue';
  ${CHOICE}
  const app = createApp({
    data: () => ({ session: one, node, picked: [], mine: [[3, 1]], max: 2 }),
    methods: {
      other() { this.session = other; },
      own() { this.mine = [[3, 1], [3, 2]]; },
      more() { this.max = 4; },
      told({ detail }) { this.picked = detail.seats.map(({ row, seat }) => detail.session + ':' + row + ',' + seat); },
    },
    template: \`
      <button id="other" @click="other">other</button>
      <button id="mine" @click="own">mine</button>
      <button id="max" @click="more">max</button>
      <p id="list">{{ picked.join(' ') }}</p>
      <boxoffice-map id="map" :session="session" :node="node" :max="max" :mine="mine" @pick="told"></boxoffice-map>\`,
  });
  app.config.compilerOptions.isCustomElement = (tag) => tag === 'boxoffice-map';
  app.mount('#app');`;

for (const [framework, source] of [['React 19', REACT], ['Vue 3', VUE]]) {
  inBoth(`${framework}: properties follow the state, whether the script comes before or after`, async (open, { sells }) => {
    const at = `/${framework.split(' ')[0]}.js`;
    shop.script(at, await bundled(source));
    for (const order of ['before', 'after']) {
      const [one, other] = [night(), night()];
      const widget = `<script type="module" src="${sells}/page/widget.js"></script>`;
      const program = `<script type="module" src="${at}"></script>`;
      const late = `<script type="module">
        addEventListener('load', () => setTimeout(() => import('${sells}/page/widget.js'), 200));
      </script>`;
      const opened = await open(page(`${RECORDER}<body data-node="${sells}"><script>history.replaceState(null, '', '#${one},${other}')</script><div id="app"></div>
        ${order === 'before' ? widget + program : program + late}`));
      await ready(opened);
      await isMine(opened, '3,1');
      await click(opened, 1, 1);
      await click(opened, 1, 2);
      await click(opened, 1, 3);
      const list = (text) => opened.waitForFunction((wanted) => document.getElementById('list').textContent === wanted, text);
      await list(`${one}:1,1 ${one}:1,2`);
      await opened.click('#max');
      await click(opened, 1, 3);
      await list(`${one}:1,1 ${one}:1,2 ${one}:1,3`);
      await opened.click('#mine');
      await isMine(opened, '3,1', '3,2');
      await opened.click('#other');
      await opened.waitForFunction((id) => window.events.at(-1).name === 'ready' && window.events.at(-1).session === id, other);
      await list('');
      await click(opened, 0, 6);
      await list(`${other}:0,6`);
      const { session, seats: [seat] } = (await events(opened, 'pick')).at(-1);
      assert.deepEqual([session, seat.price.amount], [other, Number(other.split('-')[1]) + 3000], `${order}: the picked seat is of the map that is seen`);
      assert.equal(await opened.getAttribute('#map', 'session'), other);
    }
  });
}

// Types

test('the types fit programs that use the element, and refuse those that do not', () => {
  const home = mkdtempSync(fileURLToPath(new URL('.types-', import.meta.url)));
  try {
    writeFileSync(join(home, 'widget.d.ts'), readFileSync(new URL('../../crates/edge/page/widget.d.ts', import.meta.url)));
    const reference = readFileSync(new URL('../../docs/reference/widget.md', import.meta.url), 'utf8');
    const [, declaration] = reference.match(/```ts\n(.*?)```/s);
    const [, use] = reference.match(/```jsx\n(.*?)```/s);
    writeFileSync(join(home, 'program.ts'), `
      import type { MapHeld } from './widget';
      const map = document.querySelector('boxoffice-map')!;
      map.addEventListener('pick', ({ detail }) => { const rows: number[] = detail.seats.map(({ row }) => row); map.max = rows.length; });
      map.addEventListener('fault', ({ detail }) => { const code: number | null = detail.code; map.title = String(code); });
      map.mine = [[1, 2], { area: 'standing', quantity: 3 }];
      map.code = map.code === null ? 'GLOBE-7Q2M' : null;
      const held: Promise<MapHeld | null> = map.hold();
      held.then((each) => map.release(each?.seats.map(({ row, seat }) => [row, seat] as const)));
      // @ts-expect-error It is read only.
      map.selected = [];
      // @ts-expect-error A seat has two numbers.
      map.mine = [[1]];
    `);
    writeFileSync(join(home, 'program.tsx'), `
      import * as React from 'react';
      ${declaration}
      declare const session: string, node: string, mine: [number, number][];
      declare function setPicked(seats: { row: number }[]): void;
      export const shown = ${use};
      // @ts-expect-error There is no such property.
      export const wrong = <boxoffice-map sessions="hamlet" />;
    `);
    const options = { strict: true, noEmit: true, jsx: 'react-jsx', target: 'es2022', module: 'esnext', moduleResolution: 'bundler', lib: ['es2022', 'dom'], types: [] };
    writeFileSync(join(home, 'tsconfig.json'), JSON.stringify({ compilerOptions: options, include: ['*.ts', '*.tsx'] }));
    const compiler = createRequire(import.meta.url).resolve('typescript/bin/tsc');
    try {
      execFileSync(process.execPath, [compiler, '-p', home], { stdio: 'pipe' });
    } catch (error) {
      assert.fail(String(error.stdout));
    }
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
});

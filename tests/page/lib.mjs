// Shared by the tests of the page: browsers, visitors, requests without a browser, and the demonstration that they visit.

import assert from 'node:assert/strict';
import { createHash, randomBytes, randomInt } from 'node:crypto';
import { test } from 'node:test';
import { chromium, firefox } from 'playwright-core';

/** The addresses of the nodes, in order. */
export const nodes = (process.env.BOXOFFICE_NODES || '').split(' ');
export const WINDOW = { width: 1280, height: 1000 };
export const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true };
const WITHIN_MS = 15_000;
const TEST_WITHIN_MS = 60_000;

/** The seed of what the tests draw. `BOXOFFICE_SEED` repeats a run. */
const SEED = Number(process.env.BOXOFFICE_SEED ?? randomInt(2 ** 31));

/** Draws numbers from the run's seed, for a purpose: {seed, draw(below)}. */
export function seeded(purpose) {
  let drawn = 0;
  const draw = (below) => {
    drawn += 1;
    return createHash('sha256').update(`${SEED} ${purpose} ${drawn}`).digest().readUInt32BE() % below;
  };
  return { seed: SEED, draw };
}

/** Zones of visitors. Times of shows are the same for all of them, and tests that depend on another time say its zone. */
const ZONES = ['UTC', 'Europe/Copenhagen', 'America/New_York', 'America/St_Johns', 'Asia/Kathmandu', 'Asia/Tokyo', 'Pacific/Auckland'];

/** Chromium's own console message when a node is gone. Only tests that expect it allow it. */
const NODE_GONE = /^(WebSocket connection to 'wss?:\/\/[\w.-]+:\d+\/v1\/ws' failed: |Failed to load resource: (net::ERR_(CONNECTION_REFUSED|CONNECTION_RESET|EMPTY_RESPONSE|INTERNET_DISCONNECTED|NAME_NOT_RESOLVED|SOCKET_NOT_CONNECTED|INCOMPLETE_CHUNKED_ENCODING)$|the server responded with a status of 50[23]))/;

/** Chromium's own console message when a node refuses a page. Only tests that expect it allow it. */
const REFUSED = /^(WebSocket connection to 'wss?:\/\/[\w.-]+:\d+\/v1\/ws' failed: |Failed to load resource: the server responded with a status of (403|404|429|503))/;

const browsers = new Map();

const LAUNCH = {
  chromium: () => chromium.launch({
    executablePath: process.env.BOXOFFICE_CHROMIUM || '/usr/bin/chromium',
    // Host names of the tests. Browsers cannot resolve those that end in .internal. Chromium's sandbox does not work for root.
    args: ['--host-resolver-rules=MAP *.test 127.0.0.1, MAP *.localhost 127.0.0.1, MAP *.internal ~NOTFOUND', ...(process.getuid() === 0 ? ['--no-sandbox'] : [])],
  }),
  // By WebDriver BiDi, which Debian's Firefox speaks as it is.
  firefox: () => firefox.launch({ channel: 'moz-firefox', executablePath: process.env.BOXOFFICE_FIREFOX || '/usr/bin/firefox-esr' }),
};

/** Debian's Chromium or Firefox, started once. */
export function started(kind) {
  if (!browsers.has(kind)) browsers.set(kind, LAUNCH[kind]());
  return browsers.get(kind);
}

export const chrome = () => started('chromium');

/** Closes all browsers that were started. */
export async function closeChrome() {
  const all = [...browsers.values()];
  browsers.clear();
  await Promise.all(all.map(async (browser) => (await browser).close()));
}

/** A test with visitors in browsers. Any error on a console fails it. */
export function pageTest(name, does, { nodesGo = false, refused = false, within = TEST_WITHIN_MS, browser = 'chromium' } = {}) {
  test(name, { timeout: within }, async (t) => {
    const { seed, draw } = seeded(name);
    const people = new People(nodesGo, refused, browser, draw);
    t.diagnostic(`BOXOFFICE_SEED=${seed}`);
    try {
      await does(people, (figure) => t.diagnostic(figure));
      assert.deepEqual(people.errors, [], 'errors on the console');
    } finally {
      await people.leave();
    }
  });
}

/** Browser windows with separate storage, like those of different people. */
class People {
  constructor(nodesGo, refused, browser, draw) {
    this.browser = browser;
    this.draw = draw;
    this.nodesGo = nodesGo;
    this.refused = refused;
    this.errors = [];
    this.contexts = [];
  }

  /** Opens a new visitor's window on any address, in a zone that is drawn unless the options say one. */
  async window(options = {}) {
    const timezoneId = ZONES[this.draw(ZONES.length)];
    const context = await (await started(this.browser)).newContext({ viewport: WINDOW, colorScheme: 'light', timezoneId, ...options });
    context.setDefaultTimeout(WITHIN_MS);
    this.contexts.push(context);
    const page = await context.newPage();
    page.on('pageerror', (error) => this.errors.push(error.stack));
    page.on('console', (message) => {
      if (message.type() !== 'error' || (this.nodesGo && NODE_GONE.test(message.text()))) return;
      if (this.refused && REFUSED.test(message.text())) return;
      this.errors.push(`${message.text()} (${message.location().url})`);
    });
    return page;
  }

  /** Opens a new visitor's window on the page of a node (0, 1, 2), connected to it. `prepare(page)` is called before. */
  async open(node, hash = '', options = {}, prepare = () => {}) {
    const page = await this.window(options);
    await prepare(page);
    await page.goto(`${nodes[node]}/${hash}`);
    await connected(page);
    if (hash.startsWith('#/session/')) await mapKnown(page);
    return page;
  }

  async leave() {
    await Promise.all(this.contexts.splice(0).map((context) => context.close()));
  }
}

/**
 * Lets a test hold back frames of the node from `stop(which)` until `go()`. `sent` are the ops that the page has sent. To be called
 * before the page is opened.
 */
export async function frames(page) {
  let waiting = null;
  let held = () => true;
  const sent = [];
  await page.routeWebSocket(/\/v1\/ws$/, (socket) => {
    const server = socket.connectToServer();
    socket.onMessage((frame) => {
      sent.push(JSON.parse(frame).op);
      server.send(frame);
    });
    server.onMessage((frame) => {
      if (waiting && held(JSON.parse(frame))) waiting.push(() => socket.send(frame));
      else socket.send(frame);
    });
  });
  return {
    sent,
    stop(which = () => true) { [waiting, held] = [[], which]; },
    go() {
      const late = waiting;
      waiting = null;
      late.forEach((send) => send());
    },
  };
}

export const connected = (page) => page.waitForFunction(() => window.boxoffice?.app.link.state === 'connected');

/** Waits until the page shows the session's seats as the node reports them. */
export const mapKnown = (page) => page.waitForFunction(() => {
  const counts = document.querySelector('#counts [data-counts]');
  return counts?.dataset.free !== undefined && window.boxoffice.seatPoint?.(0, 0);
});

/** Opens another view without reloading the page. */
export async function go(page, hash) {
  await page.evaluate((to) => { location.hash = to; }, hash);
  if (hash.startsWith('#/session/')) await mapKnown(page);
}

/** Clicks seats of a row on the map, and checks that they are picked. */
export async function pick(page, row, ...seats) {
  for (const seat of seats) {
    const { x, y } = await page.evaluate(([r, s]) => window.boxoffice.seatPoint(r, s), [row, seat]);
    await page.mouse.click(x, y);
    await page.waitForSelector(`#picked [data-seat="${row},${seat}"]`);
  }
}

/** Holds the picked seats. */
export async function hold(page) {
  await page.click('#hold');
  await page.waitForSelector('#to-cart');
}

/** Waits until the map shows a seat in this state: 0 free, 1 held, 2 sold. */
export const shows = (page, row, seat, state) => page.waitForFunction(([r, s, is]) => window.boxoffice.mapState(r, s) === is, [row, seat, state]);

/** Waits until the cart has this many seats. */
export const inCart = (page, count) => page.waitForFunction((wanted) => document.getElementById('basket-count').textContent === String(wanted), count);

/** Waits until an element's text matches. */
export async function reads(page, selector, pattern) {
  try {
    await page.waitForFunction(([css, source]) => {
      const element = document.querySelector(css);
      return element && new RegExp(source, 's').test(element.textContent);
    }, [selector, pattern.source]);
  } catch (error) {
    const texts = await page.locator(selector).allTextContents().catch(() => []);
    throw new Error(`${selector} does not read ${pattern}, but ${JSON.stringify(texts)}`, { cause: error });
  }
}

/** Pays in the cart's view, "recorded" or through the gateway with an outcome. */
export async function pay(page, name, outcome) {
  await page.waitForSelector('#pay');
  await page.fill('#customer', name);
  await page.check(outcome ? '#way-gateway' : '#way-recorded');
  if (outcome) await page.selectOption('#source', outcome);
  await page.click('#pay');
}

/** Sends a request to a node over HTTP, without a browser. */
export async function call(op, body, node = 0) {
  const headers = { 'content-type': 'application/json', 'idempotency-key': randomBytes(12).toString('hex') };
  const response = await fetch(`${nodes[node]}/v1/${op}`, { method: 'POST', headers, body: JSON.stringify(body) });
  const answer = await response.json();
  assert.ok(answer.ok, `${op}: ${JSON.stringify(answer)}`);
  return answer.ok;
}

/** Holds seats ([[row, seat]]) without a browser. Returns the token of the cart. */
export async function taken(session, seats, node = 0) {
  const token = randomBytes(16).toString('hex');
  await call('cart.hold_seats', { token, session, seats }, node);
  return token;
}

/** The control of the demonstration. */
export const demo = {
  async asked(path, method) {
    const { demo: base } = await (await fetch(`${nodes[0]}/page.json`)).json();
    demo.base = base;
    return fetch(`${base}${path}`, { method });
  },
  /** The process of a node (0, 1, 2): {running, pid}. */
  async process(node) {
    const answer = demo.base ? await fetch(`${demo.base}/nodes`) : await demo.asked('/nodes', 'GET');
    return (await answer.json()).find(({ url }) => url === nodes[node]);
  },
  /** Starts a node that has ended, and waits until it answers. */
  async start(node) {
    await eventually(async () => !(await demo.process(node)).running, 'the process has ended');
    const { node: name } = await demo.process(node);
    const answer = await fetch(`${demo.base}/nodes/${name}/start`, { method: 'POST' });
    assert.equal(answer.status, 204);
    await ready(node);
  },
};

/** Waits until a node serves. */
export const ready = (node) => eventually(async () => (await fetch(`${nodes[node]}/readyz`)).ok, `node ${node + 1} is ready`);

/** Waits until `holds` returns true. An error counts as false. */
export async function eventually(holds, what, within = 20_000) {
  for (const until = Date.now() + within; Date.now() < until; await pause(50)) {
    if (await holds().catch(() => false)) return;
  }
  assert.fail(`not within ${within} ms: ${what}`);
}

export const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

export const median = (values) => [...values].sort((one, other) => one - other)[values.length >> 1];

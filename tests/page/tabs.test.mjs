// The cart of a device in two pages of one browser: races between them, reloads and expiry, drawn at random from a seed.
//
// Needs neither a browser nor a node: the pages' own cart talks to a model of the node over a slow network.
// `BOXOFFICE_TABS_SEED=7 node --test tests/page/tabs.test.mjs` plays one seed again.

import assert from 'node:assert/strict';
import { test } from 'node:test';

const RUNS = Number(process.env.BOXOFFICE_TABS_RUNS || 400);
const STEPS = 14;
const EVENTS_MAX = 4_000;

/** Numbers drawn from a seed (mulberry32). */
function drawn(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  return { upTo: (most) => Math.floor(next() * most), of: (all) => all[Math.floor(next() * all.length)] };
}

/** Time of the model: what is due is done in order, and promises settle in between. */
class Clock {
  constructor() {
    this.now = 0;
    this.due = [];
    this.count = 0;
  }

  after(ms, act) {
    const entry = { at: this.now + ms, number: this.count += 1, act };
    this.due.push(entry);
    return entry;
  }

  cancel(entry) {
    this.due = this.due.filter((each) => each !== entry);
  }

  async run(until = Infinity) {
    for (let events = 0; ; events += 1) {
      for (let turns = 0; turns < 12; turns += 1) await null;
      this.due.sort((one, other) => one.at - other.at || one.number - other.number);
      if (this.due.length === 0 || this.due[0].at > until) return;
      assert.ok(events < EVENTS_MAX, 'the pages never rest');
      const { at, act } = this.due.shift();
      this.now = Math.max(this.now, at);
      act();
    }
  }
}

/** The storage that the pages share. A page hears of another's change later. */
class Storage {
  constructor(clock, random) {
    Object.assign(this, { clock, random, values: new Map(), pages: new Set() });
  }

  of(page) {
    return {
      getItem: (key) => this.values.get(key) ?? null,
      setItem: (key, value) => this.changed(page, key, value),
      removeItem: (key) => this.changed(page, key, null),
    };
  }

  changed(page, key, value) {
    if ((this.values.get(key) ?? null) === value) return;
    if (value === null) this.values.delete(key);
    else this.values.set(key, value);
    for (const other of this.pages) {
      if (other !== page) this.clock.after(this.random.upTo(60), () => other.heard(key));
    }
  }

  kept() {
    return JSON.parse(this.values.get('boxoffice.cart') ?? 'null');
  }
}

const no = (name, code = 300) => ({ kind: 'no', name2: name, code });

/** The model of the node: carts with seats, of which each is held once. */
class Node {
  constructor(clock, random) {
    Object.assign(this, { clock, random, carts: new Map(), watchers: new Set(), rids: new Map() });
  }

  ask(op, body, rid) {
    if (rid && this.rids.has(rid)) return this.rids.get(rid);
    const answer = this.decide(op, body);
    if (rid) this.rids.set(rid, answer);
    return answer;
  }

  decide(op, { token, seats, release }) {
    const cart = this.carts.get(token);
    if (op === 'cart.get') return cart ? { ok: this.view(cart), at: cart.version, of: cart } : { no: no('not_found', 701) };
    if (op === 'cart.hold_seats') {
      if (!cart) this.carts.set(token, { token, id: `id-${token}`, state: 'active', seats: [], version: 0 });
      const mine = this.carts.get(token);
      if (mine.state === 'expired') return { no: no('cart_expired', 302) };
      if (mine.state !== 'active') return { no: no('cart_not_active', 301) };
      mine.seats.push(...seats);
      this.changed(mine);
      return { ok: { cart: mine.id, lines: [], deadline: null }, at: mine.version, of: mine };
    }
    if (!cart) return { no: no('not_found', 701) };
    if (cart.state === 'expired') return { no: no('cart_expired', 302) };
    if (cart.state !== 'active') return { no: no('cart_not_active', 301) };
    if (op === 'cart.cancel') {
      this.end(cart, 'canceled');
      return { ok: {} };
    }
    assert.equal(op, 'cart.checkout');
    if (cart.seats.length === 0) return { no: no('cart_empty', 304) };
    cart.state = 'checking_out';
    this.changed(cart);
    const outcome = this.random.of(['paid', 'paid', 'kept', 'released']);
    return { later: 20 + this.random.upTo(200), cart, outcome };
  }

  pay({ cart, outcome }) {
    if (outcome === 'paid') {
      cart.sold = cart.seats.splice(0);
      cart.order = `order-${cart.token}`;
      this.end(cart, 'done');
      return { ok: { id: cart.order, at: '2026-11-28T20:00:00Z', total: { amount: 1, currency: 'EUR' } } };
    }
    if (outcome === 'released') this.end(cart, 'canceled');
    else {
      cart.state = 'active';
      this.changed(cart);
    }
    return { no: no('payment_declined', 601) };
  }

  end(cart, state) {
    cart.state = state;
    if (state !== 'done') cart.seats = [];
    this.changed(cart);
  }

  expire(cart) {
    if (cart.state === 'active') this.end(cart, 'expired');
  }

  view(cart) {
    const lines = cart.seats.length > 0 || cart.state !== 'active' ? [{ line: 1, session: 's', seats: [...cart.seats] }] : [];
    return { id: cart.id, state: cart.state, lines, order: cart.order, total: { amount: 1, currency: 'EUR' }, deadline: '2026-11-28T20:00:00Z', lines_version: cart.version };
  }

  changed(cart) {
    cart.version += 1;
    const [now, version] = [this.view(cart), cart.version];
    for (const watcher of this.watchers) if (watcher.id === cart.id) watcher.tell(now, version);
  }
}

/** A page: a cart of the page's own code with its connection. */
class Page {
  constructor(town, modules) {
    Object.assign(this, town, { town, modules, alive: true, listeners: [] });
    this.storage.pages.add(this);
    const as = (act) => this.enter(act);
    this.link = {
      now: () => this.clock.now,
      on: (event, act) => { if (event === 'hello') this.clock.after(1, () => this.alive && as(act)); },
      request: (op, body, options = {}) => this.request(op, body, options),
      watch: (entity, handlers, options) => this.watch(entity, handlers, options),
    };
    this.cart = as(() => {
      const cart = new modules.Cart(this.link, () => {});
      cart.start();
      return cart;
    });
  }

  /** Runs code of this page with its storage. A page that is gone runs none. */
  enter(act) {
    if (!this.alive) return undefined;
    globalThis.localStorage = this.storage.of(this);
    globalThis.addEventListener = (_, listener) => this.listeners.push(listener);
    return act();
  }

  heard(key) {
    this.enter(() => this.listeners.forEach((listener) => listener({ key })));
  }

  request(op, body, { rid } = {}) {
    return new Promise((resolve, reject) => {
      const settle = (answer) => this.clock.after(this.random.upTo(80), () => this.enter(() => {
        if (answer.ok) {
          const ok = { ...answer.ok };
          if (answer.of) Object.defineProperty(ok, this.modules.AT, { value: [{ entity: `cart/${answer.of.id}`, version: answer.at }] });
          resolve(ok);
        } else reject(Object.assign(new Error(answer.no.name2), answer.no));
      }));
      // What was sent arrives, even if the page is gone by then.
      this.clock.after(this.random.upTo(80), () => {
        const answer = this.node.ask(op, body, rid);
        if (answer.later) this.clock.after(answer.later, () => settle(this.node.pay(answer)));
        else settle(answer);
      });
    });
  }

  watch(entity, handlers) {
    const watcher = { id: entity.slice('cart/'.length), tell: () => {}, version: 0 };
    const say = (act) => this.clock.after(this.random.upTo(60), () => this.enter(() => this.node.watchers.has(watcher) && act()));
    watcher.tell = (cart, version) => say(() => {
      if (version <= watcher.version) return;
      watcher.version = version;
      handlers.delta({}, { cart, version });
    });
    this.node.watchers.add(watcher);
    const cart = [...this.node.carts.values()].find(({ id }) => id === watcher.id);
    if (cart) {
      const [now, version] = [this.node.view(cart), cart.version];
      say(() => {
        watcher.version = Math.max(watcher.version, version);
        handlers.snapshot({ cart: now, version });
      });
    }
    return { stop: () => this.node.watchers.delete(watcher) };
  }

  gone() {
    this.alive = false;
    this.storage.pages.delete(this);
  }
}

/** Plays a seed. Throws if a seat is held by a cart that the device does not have, or a page shows another cart than that one. */
async function play(seed, modules) {
  const random = drawn(seed);
  const clock = new Clock();
  const town = { clock, random, storage: new Storage(clock, random), node: new Node(clock, random) };
  globalThis.setTimeout = (act, ms) => clock.after(ms, act);
  globalThis.clearTimeout = (entry) => entry && clock.cancel(entry);
  const pages = [new Page(town, modules), new Page(town, modules)];
  const story = [];
  let seat = 0;
  for (let step = 0; step < STEPS; step += 1) {
    const which = random.upTo(2);
    const page = pages[which];
    const does = random.of(['hold', 'hold', 'hold', 'pay', 'cancel', 'reload', 'expire', 'wait']);
    story.push(`${clock.now} ${'AB'[which]} ${does}`);
    const act = (what) => page.enter(() => Promise.resolve().then(() => page.enter(what)).catch((error) => {
      if (!error.kind) throw error;
    }));
    if (does === 'hold') act(() => page.cart.holdSeats('s', [seat += 1]));
    if (does === 'pay') act(() => page.cart.current && page.cart.checkout({ payment: {} }));
    if (does === 'cancel') act(() => page.cart.current && page.cart.cancel());
    if (does === 'expire') for (const cart of town.node.carts.values()) town.node.expire(cart);
    if (does === 'reload') {
      page.gone();
      pages[which] = new Page(town, modules);
    }
    await clock.run(clock.now + random.of([1, 20, 60, 150, 600]));
  }
  await clock.run();
  const kept = town.storage.kept();
  const tell = `seed ${seed}: ${story.join(', ')}`;
  for (const cart of town.node.carts.values()) {
    if (cart.state === 'active' && cart.seats.length > 0) {
      assert.equal(kept?.token, cart.token, `${tell}: seats ${cart.seats} are held by a cart that nobody has`);
      pages.forEach(({ cart: shown }, which) => assert.deepEqual(
        shown.lines.flatMap(({ seats }) => seats), cart.seats, `${tell}: page ${'AB'[which]} does not show what is held`));
    }
    if (cart.order) {
      const listed = JSON.parse(town.storage.values.get('boxoffice.orders') ?? '[]').map(({ id }) => id);
      assert.ok(listed.includes(cart.order) || story.some((line) => line.endsWith('reload')), `${tell}: the device does not list ${cart.order}`);
    }
  }
  return [...town.node.carts.values()].length;
}

test('two pages of a browser never leave a held seat in a cart that neither has', async () => {
  const [{ Cart }, { AT }] = await Promise.all([import('../../crates/edge/page/js/cart.js'), import('../../crates/edge/page/js/connection.js')]);
  const given = process.env.BOXOFFICE_TABS_SEED;
  const first = given === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(given);
  const timers = [globalThis.setTimeout, globalThis.clearTimeout];
  let carts = 0;
  try {
    for (let run = 0; run < (given === undefined ? RUNS : 1); run += 1) carts += await play(first + run, { Cart, AT });
  } finally {
    [globalThis.setTimeout, globalThis.clearTimeout] = timers;
    delete globalThis.localStorage;
  }
  console.log(`seeds from ${first}: ${RUNS} runs, ${carts} carts`);
});

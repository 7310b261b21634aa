// <boxoffice-map session="…" node="http://…">: a live seat map for other sites. docs/reference/widget.md describes its use, and
// widget.d.ts its types.

import { CodeField, codeIn } from './js/code-field.js';
import { Connection, RequestError } from './js/connection.js';
import { SEAT_STATES } from './js/feeds.js';
import { wholeSession } from './js/layout.js';
import { momentIn } from './js/local-time.js';
import { FREE } from './js/map/brush.js';
import { Plan } from './js/map/plan.js';
import { SeatMap } from './js/map/seatmap.js';
import { wordsOf } from './js/map/words.js';
import { digitsOf } from './js/money.js';
import { choices, chosenOf, hasOffers, hasTypes, heldUnder, opensAt, quote, shown, stampOf, typesTold, withCode, withCodeIn } from './js/offers.js';
import { Terms, closedKey } from './js/sale.js';
import { MapCart } from './js/widget/cart.js';
import { Areas, Picks, legend, make } from './js/widget/panel.js';

/** The colours. A page may override them on the element. They are light or dark as the page's `color-scheme` says. */
const LOOK = `
  :host {
    display: flex; flex-direction: column; gap: 0.5rem; position: relative; height: 32rem; contain: content;
    --ink: light-dark(#251a1d, #f5ede3); --ink-2: light-dark(#64575a, #beb0ab);
    --line: light-dark(#e3d8c6, #3d3238); --line-strong: light-dark(#948671, #857780);
    --surface: light-dark(#fffdf9, #1e181c); --surface-2: light-dark(#f3ece0, #292126);
    --accent-soft: light-dark(#f6e4e6, #3b1c27); --gold: light-dark(#b8893a, #d9b466); --focus: light-dark(#1f5fbf, #8ab8ff);
    --held: light-dark(#c8922e, #d9a545); --sold: light-dark(#cfc5b8, #453a40); --mine: light-dark(#8a1538, #f0718f);
    --cat-0: light-dark(#a5762a, #dcb45f); --cat-1: light-dark(#5f4690, #ab96df); --cat-2: light-dark(#226b86, #63b4d2);
    --cat-3: light-dark(#37764f, #74c294); --cat-4: light-dark(#9a5233, #e0946d); --cat-5: light-dark(#4b5f78, #9db3ce);
    --cat-6: light-dark(#8a4a78, #d793c3); --cat-7: light-dark(#66722a, #b7c46d); --radius: 10px;
  }
  :host([hidden]) { display: none; }
  .place { flex: 1; min-height: 0; }
  .place[hidden] { display: none; }
  .unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
  .note { padding: 1rem; color: var(--ink-2); font: 1rem/1.5 system-ui, sans-serif; }
`;

const HERE = import.meta.url;
const SHEETS = ['css/map.css', 'css/widget.css'];
const ANSWER_WITHIN_MS = 5_000;
const SESSION_WITHIN_MS = 30_000;
const AGAIN_AFTER_MS = 2_000;
const MAX = 20;
/** How often the map looks whether its show has begun, or is over. */
const SALE_LOOK_MS = 1_000;
/** The refusal of a session that does not sell. */
const SESSION_CLOSED = { code: 207, name2: 'session_closed' };
/** The refusal of a session whose offers sell nothing. */
const NOT_ON_SALE = { code: 212, name2: 'not_on_sale' };
/** Refusals after which the terms are read again, because they or the counters have changed. */
const OLD_TERMS = new Set(['session_closed', 'not_on_sale', 'not_sold_as', 'price_sold_out']);

/**
 * How long a picked seat that somebody holds may still become this buyer's. The map often shows a hold before the site's server
 * has its answer and the site says `mine`.
 */
const LOST_AFTER_MS = 2_000;

/** Properties that a page may have set before this script defines the element. */
const PROPERTIES = ['session', 'node', 'max', 'mine', 'cart', 'code'];

class BoxofficeMap extends HTMLElement {
  static observedAttributes = ['session', 'node', 'max', 'lang', 'mine', 'code'];

  #root;
  #place = make('div', 'seats place', { part: 'map' });
  #below = make('div', 'below', {});
  #said = make('p', 'said', { role: 'status', part: 'note' });
  #saidNow = false;
  #closedNote = make('p', 'closed', { role: 'status', part: 'closed' });
  #styled;
  /** The begin that is under way or done. Another one makes it void. */
  #turn = null;
  #due = false;
  #link = null;
  /** What is shown: its session, plan, map and areas belong together. */
  #session = null;
  #plan = null;
  #map = null;
  #areas = null;
  #picks = null;
  #legend = null;
  #dressLegend = null;
  /** The chosen price types, by seat. */
  #types = new Map();
  /** What was on sale when the prices were shown last. Null if they are old. */
  #stamp = null;
  #language = 'en';
  #feed = null;
  #cart = null;
  #terms = null;
  #saleTimer = 0;
  #sale = 'on';
  #state = 'idle';
  /** Seats and places that the site says are the buyer's: `[row, seat]` and `{area, quantity}`. */
  #mine = [];
  #token = null;
  /** The code that the site has set or the buyer has entered. */
  #code = null;
  #codeField = null;
  /** What is being held at this moment, so that it is no loss. */
  #holding = { seats: new Set(), places: new Map() };
  /** Picked seats and areas of picked places that are not free, with the time from which they count as lost. */
  #doubted = new Map();
  #doubtTimer = 0;
  /** What was picked when the map was taken away, to be picked again by the next one of the same session. */
  #kept = null;
  /** What the site was told last of what is picked. */
  #toldPicked = '';

  constructor() {
    super();
    this.#root = this.attachShadow({ mode: 'open' });
    const look = new CSSStyleSheet();
    look.replaceSync(LOOK);
    this.#root.adoptedStyleSheets = [look];
    const sheets = SHEETS.map((path) => Object.assign(document.createElement('link'), { rel: 'stylesheet', href: new URL(path, HERE).href }));
    // The canvas takes its colours from the sheets.
    this.#styled = Promise.all(sheets.map((sheet) => new Promise((resolve) => {
      sheet.addEventListener('load', resolve, { once: true });
      sheet.addEventListener('error', resolve, { once: true });
    })));
    this.#root.append(...sheets, this.#place, this.#below);
  }

  // Attributes and properties

  connectedCallback() {
    for (const name of PROPERTIES) {
      if (!Object.hasOwn(this, name)) continue;
      const value = this[name];
      delete this[name];
      this[name] = value;
    }
    if (this.hasAttribute('cart')) {
      // A framework writes a property that it does not know yet as an attribute. This one is a secret.
      this.cart = this.getAttribute('cart');
      this.removeAttribute('cart');
    }
    this.#renew();
  }

  disconnectedCallback() {
    // An element that is only moved is connected again at once.
    this.#renew();
  }

  attributeChangedCallback(name, before, now) {
    if (before === now) return;
    if (name === 'max') this.#limit();
    else if (name === 'mine') this.mine = pairsOf(now);
    else if (name === 'code') this.code = now;
    else this.#renew();
  }

  /** The session that is wanted. The one that is shown is in each event. */
  get session() {
    return this.getAttribute('session') ?? '';
  }

  set session(id) {
    this.#reflect('session', id);
  }

  /** The address of a node. */
  get node() {
    return this.getAttribute('node') || new URL(HERE).origin;
  }

  set node(url) {
    this.#reflect('node', url);
  }

  /** The most seats and places picked at once. */
  get max() {
    const max = Number.parseInt(this.getAttribute('max') ?? '', 10);
    return max >= 0 ? max : MAX;
  }

  set max(max) {
    this.#reflect('max', max);
  }

  /** The buyer's own seats, `[[row, seat], …]`: those of the element's cart, and those that the site has set. */
  get mine() {
    return this.#plan ? [...this.#mineNow()].map((seat) => this.#plan.seat(seat)) : this.#mine.filter(Array.isArray);
  }

  set mine(seats) {
    this.#mine = [...(seats ?? [])];
    this.#showMine();
  }

  /** The token of the cart, a secret. The site's own one if it has set one, else that of the guest's cart, if there is one. */
  get cart() {
    return this.#cart?.token ?? this.#token;
  }

  set cart(token) {
    if ((token ?? null) === this.#token) return;
    this.#token = token ?? null;
    this.#follow();
  }

  /** The code that holds show: that of the site or the attribute, or what the buyer has entered since. Never written to the attribute. */
  get code() {
    return this.#code;
  }

  set code(code) {
    this.#takeCode(codeIn(code));
    this.#codeField?.set(this.#code);
  }

  /** "idle" without a session, "connecting", "ready" or "fault". */
  get state() {
    return this.#state;
  }

  /** Whether the session that is shown sells: "on", "not_yet", "begun", "ended", "over" or "canceled". */
  get sale() {
    return this.#sale;
  }

  /** The picked seats, as in the event. */
  get selected() {
    return this.#map ? this.#toldAll([...this.#map.picked]) : [];
  }

  /** The picked places, as in the event. */
  get places() {
    return this.#areas?.picked ?? [];
  }

  #reflect(name, value) {
    if (value === null || value === undefined) this.removeAttribute(name);
    else this.setAttribute(name, value);
  }

  // What a site may do

  /** Unpicks all seats and places. */
  clear() {
    if (!this.#session) return;
    this.#unpick(this.#map ? [...this.#map.picked] : [], this.places);
  }

  /** Holds what is picked. Resolves with `{session, cart, seats, places, deadline}`, or null if nothing is picked. */
  async hold() {
    const hindrance = this.#isCodeTaken() ? this.#codeField.hindrance() : null;
    if (hindrance) throw faultOf(new RequestError('no', hindrance));
    const [session, map, areas, cart, field] = [this.#session, this.#map, this.#areas, this.#cart, this.#codeField];
    const code = this.#isCodeTaken() ? this.#code ?? undefined : undefined;
    const seats = map ? [...map.picked].filter((seat) => !this.#holding.seats.has(seat)) : [];
    const places = areas?.picked.filter(({ area }) => !this.#holding.places.has(area)) ?? [];
    if (!cart || seats.length + places.length === 0) return null;
    const picked = this.#toldAll(seats);
    const lines = [
      ...(seats.length > 0 ? [{ session: session.id, seats: picked.map(({ row, seat }) => [row, seat]), types: typesTold(picked.map(({ type }) => type)), code }] : []),
      ...places.map(({ area, quantity, type }) => ({ session: session.id, area, quantity, types: typesTold([type]), code })),
    ];
    const holding = this.#holding;
    seats.forEach((seat) => holding.seats.add(seat));
    places.forEach(({ area, quantity }) => holding.places.set(area, quantity));
    try {
      const ok = await cart.hold(lines);
      // What is held is counted.
      if (session.counters?.length) this.#terms?.look();
      if (map === this.#map && areas === this.#areas) {
        this.#unpick(seats, places);
        if (code !== undefined) this.#tellCode(ok);
      }
      return { session: session.id, cart: cart.token, seats: picked, places, deadline: ok.deadline };
    } catch (error) {
      if (OLD_TERMS.has(error.name2)) this.#terms?.look();
      if (field === this.#codeField) this.#sayRefused(error, code !== undefined);
      throw faultOf(error);
    } finally {
      seats.forEach((seat) => holding.seats.delete(seat));
      places.forEach(({ area }) => holding.places.delete(area));
      this.#weigh();
    }
  }

  /**
   * Releases what the cart holds of this session: everything, some seats `[[row, seat], …]`, or the places of an area by its id.
   * Seats that the site has set as `mine` are the site's to release.
   */
  async release(what) {
    const wanted = Array.isArray(what) ? new Set(what.map(String)) : null;
    const part = (line) => {
      if (what === undefined) return true;
      if (!wanted) return line.area === what;
      return (line.seats ?? []).filter((seat) => wanted.has(String(seat)));
    };
    try {
      await this.#cart?.release(this.#session.id, part);
    } catch (error) {
      throw faultOf(error);
    }
  }

  /** Where a seat is in the window, in pixels. Null while the map does not show it. */
  pointOf(row, seat) {
    const index = this.#plan?.index([row, seat]) ?? -1;
    if (index < 0 || !this.#map?.picture.view) return null;
    const box = this.#map.field.getBoundingClientRect();
    const [x, y] = this.#map.picture.toScreen(this.#plan.x[index], this.#plan.y[index]);
    return { x: box.left + x, y: box.top + y };
  }

  // What is shown

  /** Begins anew, once for all changes of this moment. */
  #renew() {
    if (this.#due) return;
    this.#due = true;
    queueMicrotask(() => {
      this.#due = false;
      this.#end();
      if (this.isConnected) this.#begin();
    });
  }

  async #begin() {
    const { session, node } = this;
    if (this.#kept && (this.#kept.session !== session || session === '')) this.#drop();
    this.#become(session === '' ? 'idle' : 'connecting');
    if (session === '') return;
    const turn = {};
    this.#turn = turn;
    const isOver = () => turn !== this.#turn;
    let origin;
    try {
      origin = new URL(node).origin;
    } catch {
      this.#fault({ code: 101, name2: 'bad_request', message: `${node} is no address of a node` });
      return;
    }
    const asked = fetch(new URL('/page.json', origin), { signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
    const page = await asked.then((answer) => (answer.ok ? answer.json() : {})).catch(() => ({}));
    if (isOver()) return;
    const link = new Connection(page.nodes || [], { first: origin, node: page.node, client: 'boxoffice widget' });
    this.#link = link;
    link.on('state', ({ silent, detail, state }) => {
      if (isOver()) return;
      const isGone = silent || state === 'closed';
      if (isGone && this.#state !== 'fault') this.#fault({ code: 903, name2: 'not_ready', message: detail });
      if (state === 'connected' && this.#state === 'fault' && this.#session) this.#ready();
    });
    link.start();
    while (!isOver()) {
      try {
        const [known] = await Promise.all([wholeSession(link, session, { deadline: SESSION_WITHIN_MS }), this.#styled]);
        if (!isOver()) this.#show(known);
        return;
      } catch (error) {
        if (isOver()) return;
        if (error.kind !== 'fail' || this.#state !== 'fault') this.#fault(error);
        // No node could answer, and one may later.
        if (error.kind !== 'fail') return;
        await new Promise((resolve) => { setTimeout(resolve, AGAIN_AFTER_MS); });
      }
    }
  }

  #end() {
    this.#turn = null;
    if (this.#session) {
      const [seats, places] = [this.selected, this.places];
      if (seats.length + places.length > 0) this.#kept = { session: this.#session.id, seats, places };
    }
    clearTimeout(this.#doubtTimer);
    this.#doubted.clear();
    clearInterval(this.#saleTimer);
    this.#terms?.stop();
    this.#cart?.stop();
    this.#feed?.stop();
    this.#link?.stop();
    this.#map?.stop();
    this.#codeField?.stop();
    this.#link = this.#codeField = this.#map = this.#plan = this.#areas = this.#picks = this.#session = this.#feed = this.#cart = this.#terms = null;
    this.#sale = 'on';
    this.#types.clear();
    this.#below.replaceChildren();
    this.#place.replaceChildren();
  }

  /** What was picked of the session of before is picked no more, and the site is told so. */
  #drop() {
    const { session } = this.#kept;
    this.#kept = null;
    this.#toldPicked = '';
    this.#emit(['pick', 'select'], { session, seats: [], places: [] });
  }

  #show(session) {
    const language = this.lang || document.documentElement.lang || 'en';
    const words = wordsOf(language);
    this.#session = session;
    this.#language = language;
    const money = (price) => this.#money(price);
    this.#stamp = null;
    this.#plan = new Plan(session, language);
    this.#place.replaceChildren();
    this.#place.hidden = this.#plan.size === 0;
    this.#areas = new Areas(session, words, language, { money, onpick: () => this.#pickedPlaces(), room: () => this.#room() });
    if (this.#plan.size > 0) {
      this.#map = new SeatMap(this.#place, this.#plan, {
        max: this.max,
        language,
        money,
        say: (text) => this.#say(text),
        onselect: () => this.#pickedSeats(),
      });
      // Which of the picked seats that are taken are lost is decided here.
      this.#map.spared = { has: () => true };
    }
    this.#closedNote.textContent = '';
    this.#picks = new Picks(session, this.#plan, { language, money, onchoose: (seat, type) => {
      this.#types.set(seat, type);
      this.#showPicks();
      this.#tellPicked();
    } });
    this.#codeField = new CodeField(words.code, { code: this.#code, onchange: (code) => this.#takeCode(code) });
    this.#legend = make('div', '', {});
    this.#dressLegend = () => this.#legend.replaceChildren(legend(this.#plan, money));
    this.#below.replaceChildren(this.#closedNote, this.#codeField.element, ...(this.#plan.size > 0 ? [this.#legend] : []), this.#picks.element, this.#areas.element, this.#said);
    this.#terms = new Terms(this.#link, session, () => {
      this.#stamp = null;
      // The house may have added an area.
      if (session.areas?.length > this.#areas.areas.size) this.#renew();
      else this.#lookAtSale();
    });
    this.#lookAtOffers();
    this.#follow();
    let isFirst = true;
    this.#feed = this.#link.watch(`session/${session.id}`, {
      snapshot: (now) => {
        this.#map?.setStates(now.states || new Uint8Array(this.#plan.size));
        this.#areas.show(now.areas || []);
        this.#terms.show(now);
        if (isFirst) this.#shown();
        isFirst = false;
        this.#weigh();
      },
      delta: (delta, now) => {
        if (delta.changes?.length) this.#map?.change(delta.changes.map(([seat, state]) => [seat, SEAT_STATES[state]]));
        if (delta.areas) this.#areas.show(now.areas);
        this.#terms.show(now);
        this.#weigh();
      },
      ended: ({ name }) => this.#fault({ code: null, name2: name, message: name }),
    });
  }

  /** The states are known for the first time. */
  #shown() {
    const kept = this.#kept;
    this.#kept = null;
    if (kept) {
      const seats = kept.seats.map(({ row, seat }) => this.#plan.index([row, seat])).filter((seat) => seat >= 0);
      kept.seats.forEach(({ row, seat, type }) => this.#types.set(this.#plan.index([row, seat]), type));
      for (const seat of seats) {
        this.#map.picked.add(seat);
        this.#map.dress(seat);
      }
      kept.places.forEach(({ area, quantity, type }) => this.#areas.pick(area, quantity, type));
      this.#limit();
      this.#showPicks();
    }
    this.#ready();
    // The site may have changed the session while it was told.
    if (!this.#session) return;
    this.#lookAtSale();
    this.#saleTimer = setInterval(() => this.#lookAtSale(), SALE_LOOK_MS);
  }

  /** Nothing can be picked while the session does not sell, and what was picked is picked no more. The site is told once. */
  #lookAtSale() {
    this.#lookAtOffers();
    this.#codeField.element.hidden = !this.#isCodeTaken();
    const key = closedKey(this.#asSold(), this.#link.now());
    const words = key ? this.#closedWords(key) : '';
    if (this.#closedNote.textContent !== words) this.#closedNote.textContent = words;
    if ((key ?? 'on') === this.#sale) return;
    this.#sale = key ?? 'on';
    if (this.#map) this.#map.closed = key ? words : null;
    this.#areas.close(key !== null);
    if (key === null) {
      this.#ready();
      return;
    }
    const { id } = this.#session;
    this.#unpick(this.#map ? [...this.#map.picked] : [], this.places);
    const isOffers = key === 'ended' || (key === 'not_yet' && this.#session.open !== false);
    const { code, name2: reason } = isOffers ? NOT_ON_SALE : SESSION_CLOSED;
    this.#emit(['fault'], { session: id, code, reason, message: words });
  }

  /** Why nothing is sold. A sale that opens later is told by the clocks of the venue. */
  #closedWords(key) {
    const { words } = this.#plan;
    const opens = key === 'not_yet' ? opensAt(this.#session, this.#link.now()) : null;
    return opens === null ? words.closed[key](this.#session) : words.opens(momentIn(this.#language, opens, this.#session.zone));
  }

  // The buyer's code

  /** Whether a code could open something of the session. Sessions that take none are asked for without it. */
  #isCodeTaken() {
    return this.#session !== null && hasOffers(this.#session) && closedKey(withCode(this.#session), this.#link.now()) === null;
  }

  /** The session as it is sold to this buyer. */
  #asSold() {
    return this.#code === null || !hasOffers(this.#session) ? this.#session : withCode(this.#session);
  }

  #takeCode(code) {
    if (code === this.#code) return;
    this.#code = code;
    this.#stamp = null;
    // A map that is not shown yet looks at the sale when it is.
    if (this.#session && this.#state === 'ready') this.#lookAtSale();
  }

  /** Says what of a hold was bought with the code. */
  #tellCode({ lines, currency }) {
    const { words } = this.#plan;
    const name = ({ area, quantity }, seat) => (seat ? this.#plan.name(this.#plan.index(seat)) : `${quantity} × ${this.#areas.areas.get(area)?.name ?? area}`);
    const names = lines.filter((line) => line.session === this.#session.id).flatMap((line) => withCodeIn(line).map(({ seat, price }) => `${name(line, seat)} (${this.#money({ amount: price, currency })})`));
    this.#codeField.tell(names.length > 0 ? words.code.bought(names.join(', ')) : words.code.unused);
  }

  /** Says in the map what its buyer can do about a refusal. All others are the site's to tell. */
  #sayRefused(error, hasCode) {
    if (hasCode && this.#codeField.note(error)) return;
    const { words } = this.#plan;
    const { seats = [], min } = error.details ?? {};
    if (error.name2 === 'party_too_small') this.#say(words.party(min));
    if (error.name2 !== 'leaves_single') return;
    const single = seats.map((seat) => this.#plan.index(seat)).filter((seat) => seat >= 0);
    this.#say(words.single(single.map((seat) => this.#plan.name(seat)).join(', ')));
    this.#map?.point(single);
  }

  // Price types and offers

  /** Takes the prices of this moment, if something else is on sale than before. */
  #lookAtOffers() {
    const now = this.#link.now();
    const session = this.#asSold();
    const stamp = stampOf(session, now);
    if (stamp === this.#stamp) return;
    this.#stamp = stamp;
    this.#plan.offer(session, now);
    this.#dressLegend();
    this.#areas.offer((area) => shown(session, { area }, now, this.#held()));
    this.#showPicks();
    // What is picked again after a change of language or node is not known yet.
    if (!this.#kept) this.#tellPicked();
  }

  #choices(zone) {
    return choices(this.#asSold(), zone, this.#link.now(), this.#held());
  }

  /** How much the cart has under each offer. */
  #held() {
    return heldUnder(this.#cart ? this.#lines() : []);
  }

  #zoneOf(index) {
    return { category: this.#plan.categories[this.#plan.category[index]].id };
  }

  /** The price type of a seat. Undefined in a session without price types, or if the seat is not on sale. */
  #typeOf(index) {
    return hasTypes(this.#session) ? chosenOf(this.#choices(this.#zoneOf(index)), this.#types.get(index)) : undefined;
  }

  #showPicks() {
    const picked = this.#map && hasTypes(this.#session) ? [...this.#map.picked] : [];
    this.#picks.show(picked.map((seat) => ({ seat, ways: this.#choices(this.#zoneOf(seat)), type: this.#typeOf(seat) })));
  }

  #ready() {
    if (!this.#map) {
      this.#place.replaceChildren();
      this.#place.hidden = true;
    }
    this.#become('ready');
    this.#emit(['ready'], { session: this.#session.id, seats: this.selected, places: this.places });
  }

  /** Places of areas that may be missing because this buyer has them. */
  #spared() {
    const spared = new Map(this.#holding.places);
    for (const each of this.#mine) if (each.area) spared.set(each.area, (spared.get(each.area) || 0) + each.quantity);
    return spared;
  }

  // The buyer's own

  #follow() {
    this.#cart?.stop();
    this.#cart = null;
    if (!this.#session) return;
    this.#cart = new MapCart(this.#link, {
      node: new URL(this.node).origin,
      token: this.#token,
      onchange: () => this.#showMine(),
      onover: (reason) => this.#emit(['fault'], { session: this.#session?.id ?? this.session, code: null, reason, message: reason }),
    });
    this.#showMine();
  }

  #lines() {
    const { lines, bought } = this.#cart ?? { lines: [], bought: [] };
    return [...lines, ...bought].filter((line) => line.session === this.#session.id);
  }

  /** The indexes of the buyer's own seats. */
  #mineNow() {
    const ofCart = this.#lines().flatMap((line) => line.seats ?? []);
    const seats = [...this.#mine.filter(Array.isArray), ...ofCart];
    return new Set(seats.map((seat) => this.#plan.index(seat)).filter((seat) => seat >= 0));
  }

  #showMine() {
    if (!this.#session) return;
    const mine = this.#mineNow();
    this.#map?.setMine(mine);
    const places = new Map();
    const add = (area, quantity) => places.set(area, (places.get(area) || 0) + quantity);
    this.#lines().filter(({ area }) => area).forEach(({ area, quantity }) => add(area, quantity));
    this.#mine.filter(({ area }) => area).forEach(({ area, quantity }) => add(area, quantity));
    this.#areas.setMine(places);
    // What is the buyer's is picked no more. While it is being held, `hold` unpicks it.
    const had = this.#map ? [...this.#map.picked].filter((seat) => mine.has(seat) && !this.#holding.seats.has(seat)) : [];
    if (had.length > 0) this.#map.unpick(had);
    this.#weigh();
  }

  // What is picked

  #room() {
    return this.max - (this.#map?.picked.size ?? 0) - (this.#areas?.count ?? 0);
  }

  #limit() {
    if (this.#map) this.#map.max = this.max - (this.#areas?.count ?? 0);
    this.#areas?.changed();
  }

  #pickedSeats() {
    if (!this.#saidNow) this.#say('');
    this.#limit();
    this.#weigh();
    this.#showPicks();
    this.#tellPicked();
  }

  #pickedPlaces() {
    this.#limit();
    this.#tellPicked();
  }

  #unpick(seats, places) {
    places.forEach(({ area }) => this.#areas.pick(area, 0));
    this.#limit();
    if (this.#map && seats.length > 0) this.#map.unpick(seats);
    else this.#tellPicked();
  }

  /** Tells what is picked and others have as lost, each after it could still have become this buyer's. */
  #weigh() {
    clearTimeout(this.#doubtTimer);
    if (!this.#session) return;
    const [now, map] = [Date.now(), this.#map];
    const taken = map?.known ? [...map.picked].filter((seat) => map.shown[seat] !== FREE) : [];
    const short = this.#areas.missing(this.#spared());
    const doubted = new Set([...taken, ...short.keys()]);
    for (const each of this.#doubted.keys()) if (!doubted.has(each)) this.#doubted.delete(each);
    for (const each of doubted) if (!this.#doubted.has(each)) this.#doubted.set(each, now + LOST_AFTER_MS);
    const open = [...this.#doubted].filter(([each]) => !this.#holding.seats.has(each));
    const lost = open.filter(([, from]) => from <= now).map(([each]) => each);
    if (lost.length > 0) {
      this.#lose(lost.filter((each) => !short.has(each)), lost.filter((each) => short.has(each)).map((each) => short.get(each)));
    } else if (open.length > 0) {
      const next = Math.min(...open.map(([, from]) => from));
      this.#doubtTimer = setTimeout(() => this.#weigh(), Math.max(10, next - now));
    }
  }

  /** Others have these seats and places. `places` are as in the event. */
  #lose(seats, places) {
    const told = this.#toldAll(seats);
    const names = [...told.map(({ label }) => label), ...places.map(({ name, quantity }) => `${quantity} × ${name}`)];
    this.#say(this.#plan.words.lost(names.join(', ')));
    places.forEach(({ area, quantity }) => this.#areas.pick(area, this.#areas.areas.get(area).picked - quantity));
    this.#emit(['lost'], { session: this.#session.id, seats: told, places });
    // The site may have changed the session while it was told.
    if (this.#session) this.#unpick(seats, []);
  }

  // What is told

  #money({ amount, currency }) {
    const digits = digitsOf(currency);
    const format = new Intl.NumberFormat(this.#language, { style: 'currency', currency, minimumFractionDigits: digits, maximumFractionDigits: digits });
    return format.format(amount / 10 ** digits);
  }

  /** Seats for the site: `row` and `seat` are those of `cart.hold_seats`. The price is that of the chosen type, if all are bought together. */
  #toldAll(indexes) {
    const wishes = indexes.map((index) => ({ type: this.#typeOf(index), zone: this.#zoneOf(index) }));
    const ways = quote(this.#asSold(), wishes, this.#link.now(), this.#held());
    return indexes.map((index, number) => {
      const [row, seat] = this.#plan.seat(index);
      const { id, name, price } = this.#plan.categories[this.#plan.category[index]];
      const now = price && ways[number] ? { ...price, amount: ways[number].amount } : price;
      return { row, seat, label: this.#plan.name(index), price: now, category: id, categoryName: name, ...typed(wishes[number].type) };
    });
  }

  #tellPicked() {
    if (!this.#session) return;
    const picked = JSON.stringify([this.selected.map(({ row, seat, type }) => [row, seat, type]), this.places.map(({ area, quantity, type }) => [area, quantity, type])]);
    if (picked === (this.#toldPicked || '[[],[]]')) return;
    this.#toldPicked = picked;
    this.#emit(['pick', 'select'], { session: this.#session.id, seats: this.selected, places: this.places });
  }

  #fault(error) {
    this.#become('fault');
    const { code, reason, message } = faultOf(error);
    if (!this.#map) this.#place.replaceChildren(make('p', 'note', {}, message));
    this.#place.hidden = false;
    this.#emit(['fault'], { session: this.#session?.id ?? this.session, code, reason, message });
  }

  #say(text) {
    this.#said.textContent = text;
    // What is said of a seat that cannot be picked stays until the next one.
    this.#saidNow = true;
    queueMicrotask(() => { this.#saidNow = false; });
  }

  #become(state) {
    this.#state = state;
  }

  #emit(names, detail) {
    for (const name of names) this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }
}

/** An error of the map for the site: `code` and `reason` are the number and the name of a refusal or a failure. */
function faultOf(error) {
  const known = error instanceof Error ? error : new RequestError('fail', { ...error, name: error.name2 });
  known.code ??= null;
  known.reason ??= known.name2 ?? 'not_ready';
  return known;
}

/** The field of a price type. Sessions without price types have none. */
const typed = (type) => (type ? { type } : {});

/** The pairs of an attribute: `[[2,3],[2,4]]`, or `2,3,2,4` as an array becomes when it is written as a text. */
function pairsOf(text) {
  const numbers = (text ?? '').match(/\d+/g)?.map(Number) ?? [];
  return Array.from({ length: numbers.length >> 1 }, (_, pair) => numbers.slice(2 * pair, 2 * pair + 2));
}

if (!customElements.get('boxoffice-map')) customElements.define('boxoffice-map', BoxofficeMap);

export { BoxofficeMap };

// A session: its live house, the picked seats, and the held ones.

import { needsCustomer } from '../cart.js';
import { CodeField } from '../code-field.js';
import { clock as ownClock, countdown, fill, h, money, titled, whole } from '../dom.js';
import { explain } from '../explain.js';
import { SEAT_STATES } from '../feeds.js';
import { opening } from '../first.js';
import { clock, day, moment, suffix } from '../local-time.js';
import { Plan } from '../map/plan.js';
import { SeatMap } from '../map/seatmap.js';
import { choices, chosenOf, hasOffers, hasTypes, heldUnder, isChoice, nameOf, opensAt, quote, stampOf, typesTold, withCode, withCodeIn } from '../offers.js';
import { button, countsBar, noteBox, summed } from '../parts.js';
import { Terms, closedKey } from '../sale.js';
import { areaCards } from './session-areas.js';
import { bestForm } from './session-best.js';
import { seatList } from './session-list.js';
import { typeOptions, typeSelect } from './session-types.js';

const PICKED_MAX = 20;
const LOST_READ_MS = 5_000;
/** More than two days are counted down in days. */
const DAY_MS = 24 * 3_600_000;
/** Refusals after which the terms are read again, because they or the counters have changed. */
const OLD_TERMS = new Set(['session_closed', 'not_on_sale', 'not_sold_as', 'price_sold_out']);
/** Refusals of a price type that the buyer's code may not be for. */
const OTHER_TYPE = new Set(['not_on_sale', 'not_sold_as', 'price_sold_out']);

/** Why a session does not sell, by the key of `closedKey`. */
const CLOSED = {
  canceled: (session) => `This show does not take place: ${session.canceled}`,
  over: () => 'This show is over.',
  not_yet: ({ zone }, { opens }, at) => (at === null ? 'This show is not on sale yet.' : opens(moment(at, zone))),
  begun: () => 'This show has begun. Please ask at the box office whether there are places left.',
  ended: (_, { closed }) => closed.ended(),
};

export const title = ({ id }) => titled(id);

export async function render(root, { id }, app) {
  root.append(opening(id));
  let session;
  try {
    session = await app.catalogue.session(id);
  } catch (error) {
    fill(root, h('div', { class: 'notice notice--warn', id: 'missing' }, explain(error)), h('p', {}, h('a', { href: '#/' }, 'To the programme')));
    return undefined;
  }
  if (!root.isConnected) return undefined;
  const view = new SessionView(root, session, app);
  view.dress();
  return () => view.stop();
}

class SessionView {
  constructor(root, session, app) {
    Object.assign(this, { root, session, app });
    this.plan = new Plan(session);
    this.counts = countsBar();
    this.note = noteBox('session-note');
    this.summary = h('section', { class: 'summary', id: 'summary', 'aria-label': 'Your seats', tabindex: '-1' });
    this.sale = h('p', { class: 'notice sale', id: 'sale', role: 'status', hidden: true });
    this.opening = h('p', { class: 'sale__left number', id: 'sale-left', role: 'timer', hidden: true });
    this.code = new CodeField(this.plan.words.code, { code: app.cart.codes.get(session.id), onchange: (code) => this.takeCode(code) });
    /** The chosen price types, by seat. */
    this.types = new Map();
    /** Free and held seats and places. Null until they are known. */
    this.left = null;
    this.ends = [];
    this.build();
    this.begin();
  }

  stop() {
    for (const end of this.ends) end();
    this.map?.stop();
    this.code.stop();
    document.documentElement.style.removeProperty('--toasts-up');
  }

  build() {
    const { session, plan } = this;
    const host = h('div', { class: 'seats' });
    this.areas = this.areaCards();
    this.bestType = typeSelect(session, { id: 'best-type', 'aria-label': plan.words.price });
    this.best = plan.size > 0 ? bestForm(plan, this.bestType.element, (wanted) => this.holdBest(wanted)) : null;
    this.list = plan.size > 0 ? seatList(plan, (seat) => this.map.toggle(seat)) : null;
    fill(
      this.root,
      this.head(),
      h(
        'div',
        { class: plan.size > 0 ? 'house' : 'house house--places' },
        plan.size > 0 ? h('section', { class: 'house__map', 'aria-label': 'The house' }, host, this.legend(), this.list.element) : null,
        h('div', { class: 'house__side' }, this.note.element, this.sale, this.opening, this.code.element, this.summary, this.areas.element, this.best),
      ),
    );
    if (plan.size === 0) return;
    const show = (price) => money(price.amount, price.currency);
    this.map = new SeatMap(host, plan, {
      max: PICKED_MAX,
      money: show,
      say: (text) => this.app.say(text),
      onselect: () => this.show(),
      onlost: (seats) => this.tellLost(seats),
    });
    const { left, right, top, bottom } = this.map.picture.extent;
    host.style.setProperty('aspect-ratio', `${right - left} / ${bottom - top}`);
    this.list.states(() => this.map);
    window.boxoffice.mapState = (row, seat) => this.map.shown[plan.index([row, seat])];
    window.boxoffice.seatPoint = (row, seat) => this.seatPoint(plan.index([row, seat]));
    window.boxoffice.sectionNames = () => this.map.picture.named.map(({ id }) => id);
    this.ends.push(() => {
      window.boxoffice.mapState = () => null;
      window.boxoffice.seatPoint = () => null;
      window.boxoffice.sectionNames = () => [];
    });
  }

  areaCards() {
    return areaCards(this.session, this.plan.words, (...wanted) => this.holdPlaces(...wanted));
  }

  /** Where a seat is in the window, and how large. */
  seatPoint(index) {
    const { picture, field } = this.map;
    const box = field.getBoundingClientRect();
    const [x, y] = picture.toScreen(this.plan.x[index], this.plan.y[index]);
    return { x: box.left + x, y: box.top + y, size: 100 * picture.view.scale };
  }

  head() {
    const { session } = this;
    this.heading = h('h1', { class: 'session-head__title' }, titled(session.title));
    this.where = h('p', { class: 'eyebrow' }, titled(session.venue));
    this.about = h('p', { class: 'muted session-head__about' });
    return h(
      'header',
      { class: 'session-head' },
      h('div', {}, this.where, this.heading,
        this.when(),
        this.about),
      h('div', { class: 'session-head__counts', id: 'counts' }, this.counts.element),
    );
  }

  /** By the clocks of the venue. */
  when() {
    const { starts_at: begin, ends_at: end, zone } = this.session;
    return h('p', { class: 'session-head__when' },
      h('time', { datetime: begin }, `${day(begin, zone)}, ${clock(begin, zone)}`), ` – ${clock(end, zone)}${suffix(begin, zone) || suffix(end, zone)}`);
  }

  /** Names come after the map, because they are asked for on their own. */
  async dress() {
    const { session, app } = this;
    const [title, venue] = await Promise.allSettled([app.catalogue.title(session.title), app.catalogue.venue(session.venue)]);
    const known = title.value || {};
    if (known.name) this.heading.textContent = known.name;
    document.title = `${this.heading.textContent} — Boxoffice`;
    this.about.textContent = [known.director && `Directed by ${known.director}`, known.cast?.length && `with ${known.cast.join(', ')}`].filter(Boolean).join(', ');
    if (venue.value) {
      const hall = venue.value.halls?.find((each) => each.id === session.hall);
      this.where.textContent = [venue.value.name, hall?.name, venue.value.city].filter(Boolean).join(' · ');
    }
  }

  legend() {
    const { plan } = this;
    const entry = (dot, text, price) => h('li', { class: 'legend__entry' }, h('span', { class: `legend__dot ${dot}`, 'aria-hidden': 'true' }), h('span', {}, text), price && h('strong', { class: 'number' }, price));
    const show = (price) => money(price.amount, price.currency);
    const categories = h('ul', { class: 'legend__list', 'aria-label': 'Categories and prices' });
    this.dressLegend = () => fill(categories, plan.categories.map((category, ordinal) => entry(`legend__dot--cat-${ordinal % 8}`, category.name, plan.priceText(category, show))));
    return h(
      'div',
      { class: 'legend' },
      categories,
      h('ul', { class: 'legend__list legend__list--states', 'aria-label': 'Signs' }, entry('legend__dot--picked', 'picked'), entry('legend__dot--mine', 'yours'), entry('legend__dot--held', 'held'), entry('legend__dot--sold', 'sold')),
    );
  }

  begin() {
    const { app, session, plan } = this;
    const feed = app.link.watch(`session/${session.id}`, {
      snapshot: (now) => {
        this.map?.setStates(now.states || new Uint8Array(plan.size));
        this.showCounts(now);
      },
      delta: (delta, now) => {
        if (delta.changes?.length) this.map?.change(delta.changes.map(([seat, state]) => [seat, SEAT_STATES[state]]));
        this.showCounts(now);
      },
      ended: ({ name }) => this.note.show('warn', name === 'not_found' ? 'This session is not there any more.' : 'The live map has ended.'),
    });
    const mine = () => {
      this.map?.setMine(app.cart.seatsOf(session.id).map((seat) => plan.index(seat)).filter((seat) => seat >= 0));
      // An offer may have a limit for one order.
      this.stamp = null;
      this.showOffers();
    };
    this.terms = new Terms(app.link, session, () => {
      this.stamp = null;
      // The house may have added an area.
      if (session.areas?.length > this.areas.size) {
        const { element } = this.areas;
        this.areas = this.areaCards();
        element.replaceWith(this.areas.element);
        this.areas.show(this.areasNow || []);
      }
      this.showSale();
    });
    const ticking = setInterval(() => this.tick(), 1000);
    const rights = () => this.showSale();
    addEventListener('rightschange', rights);
    this.ends.push(() => feed.stop(), () => this.terms.stop(), app.cart.on('change', mine), () => clearInterval(ticking), () => removeEventListener('rightschange', rights));
    mine();
    this.showSale();
  }

  showCounts(now) {
    this.terms?.show(now);
    this.counts.show(now.counts, now.areas);
    this.areasNow = now.areas;
    this.areas.show(now.areas || []);
    this.left = { seats: now.counts?.free || 0, ...summed(now.counts, now.areas) };
    this.list?.changed();
    this.showSale();
  }

  // The buyer's code

  /** The session as it is sold to this buyer, who may have a code. */
  asSold() {
    return this.code.code === null ? this.session : withCode(this.session);
  }

  takeCode(code) {
    const { codes } = this.app.cart;
    if (code === null) codes.delete(this.session.id);
    else codes.set(this.session.id, code);
    this.note.clear();
    this.stamp = null;
    this.showSale();
  }

  /** The field stands where a code could open something. */
  showCode() {
    const { session, app } = this;
    this.code.element.hidden = !hasOffers(session) || !app.rights.mayBuy() || closedKey(withCode(session), app.link.now()) !== null;
  }

  /** Says what of a hold was bought with the code. */
  tellCode(lines, currency) {
    if (this.code.code === null) return;
    const { plan: { words: { code: words } } } = this;
    const names = lines.flatMap((line) => withCodeIn(line).map(({ seat, price }) => `${this.nameOf(line, seat)} (${money(price, currency)})`));
    this.code.tell(names.length > 0 ? words.bought(names.join(', ')) : words.unused);
  }

  // Whether anything is sold

  /** Why nothing is sold here now, as {key, words}. Null if something is. */
  closedBy() {
    const { session, app, left } = this;
    const now = app.link.now();
    const key = closedKey(this.asSold(), now);
    if (key) return { key, words: CLOSED[key](session, this.plan.words, opensAt(session, now)) };
    if (!app.rights.mayBuy()) return { key: 'watch', words: app.rights.words() };
    if (left?.free === 0) {
      const back = left.held > 0 ? ` ${whole(left.held)} ${left.held === 1 ? 'is' : 'are'} in the carts of others and may come back.` : '';
      return { key: 'sold_out', words: `Sold out.${back}` };
    }
    return null;
  }

  /** Shows the sentence on the sale, and only the buttons that can do something. */
  showSale() {
    this.showOffers();
    this.showCode();
    const closed = this.closedBy();
    const key = closed?.key || '';
    this.showOpening(key);
    this.sale.hidden = closed === null;
    this.sale.className = `notice sale ${key === 'canceled' ? 'notice--bad' : 'notice--warn'}`;
    if (this.sale.textContent !== (closed?.words || '')) this.sale.textContent = closed?.words || '';
    if (this.best) this.best.hidden = closed !== null || this.left?.seats === 0 || this.plan.categories.every(({ isSold }) => isSold === false);
    this.areas.close(closed !== null);
    if (this.map) this.map.closed = closed && key !== 'sold_out' ? closed.words : null;
    if (this.sale.dataset.key === key) return;
    this.sale.dataset.key = key;
    // What was picked cannot be held any more.
    if (closed && this.map?.picked.size > 0) this.map.unpick();
    else this.show();
  }

  /** Counts down to the opening of the sale, by the node's clock. */
  showOpening(key) {
    const { session, app, plan: { words } } = this;
    const now = app.link.now();
    const at = key === 'not_yet' ? opensAt(session, now) : null;
    this.opening.hidden = at === null;
    if (at === null) return;
    const left = at - now;
    this.opening.textContent = words.opensIn(left > 2 * DAY_MS ? words.days(Math.floor(left / DAY_MS)) : countdown(left));
  }

  /** Takes the prices of this moment, if something else is on sale than before. */
  showOffers() {
    const { plan, app } = this;
    const session = this.asSold();
    const now = app.link.now();
    const stamp = stampOf(session, now);
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    plan.offer(session, now);
    this.dressLegend?.();
    this.areas.price(session, now, heldUnder(this.mine()));
    const open = new Set(plan.categories.flatMap(({ id }) => choices(session, { category: id }, now)).filter(({ left }) => left > 0).map(({ type }) => type));
    this.bestType.show((session.price_types || []).filter(({ id }) => open.has(id)).map((type) => h('option', { value: type.id }, nameOf(type))));
    this.show();
  }

  /** The cart's lines of this session. */
  mine() {
    return this.app.cart.lines.filter((line) => line.session === this.session.id);
  }

  /** A refusal of the caller's rights or code is no matter of these seats. */
  refused(error) {
    if (OLD_TERMS.has(error.name2)) this.terms.look();
    if (this.code.note(error)) {
      // It stands in the field, from where the next hold takes it again.
      this.app.cart.codes.delete(this.session.id);
      return true;
    }
    if (!this.app.rights.note(error)) return false;
    this.note.clear();
    this.showSale();
    return true;
  }

  // What is picked and held

  show() {
    const { plan } = this;
    const picked = this.map ? [...this.map.picked] : [];
    const mine = this.mine().reduce((sum, line) => sum + (line.seats?.length ?? line.quantity), 0);
    this.summary.dataset.picked = picked.length;
    this.summary.dataset.mine = mine;
    this.list?.changed();
    const isOpen = (this.sale.dataset.key || '') === '' && (this.left === null || this.left.seats > 0);
    const empty = picked.length === 0 && mine === 0;
    const focus = this.focusIn();
    fill(this.summary, picked.length > 0 ? this.pickedPart(picked) : null, mine > 0 ? this.minePart(mine) : null,
      empty && isOpen && plan.size > 0 ? h('p', { class: 'muted summary__hint' }, 'Pick seats on the map, or let us find the best ones.') : null);
    this.summary.hidden = empty && !(isOpen && plan.size > 0);
    if (focus !== null) this.focusOn(focus);
    this.raiseToasts();
  }

  /** What of the summary has the focus. Null if nothing has. */
  focusIn() {
    const { activeElement } = document;
    return this.summary.contains(activeElement) ? activeElement.id || activeElement.dataset.focus || '' : null;
  }

  /** The focus stays where it was, or goes to the next step, because the element that had it is gone. */
  focusOn(what) {
    const same = what && this.summary.querySelector(`#${CSS.escape(what)}, [data-focus="${CSS.escape(what)}"]`);
    (same || this.summary.querySelector('.chip__away, #hold, #to-cart') || this.map?.field || this.summary).focus({ preventScroll: true });
  }

  pickedPart(picked) {
    const { plan, session } = this;
    const currency = plan.price(picked[0])?.currency;
    const ways = this.waysOf(picked);
    const total = ways.reduce((sum, way) => sum + (way?.amount || 0), 0);
    // A select says its price, unless the seats before have emptied a counter.
    const isSaid = (seat, way) => isChoice(session) && this.choicesOf(seat).some(({ type, amount }) => type === way.type && amount === way.amount);
    const price = (seat, way) => {
      if (!way) return plan.words.notSold;
      if (way.left < 1) return plan.words.soldOut;
      return plan.price(seat) && !isSaid(seat, way) ? money(way.amount, currency) : '';
    };
    const chip = (seat, number) => h('li', { class: 'chip', dataset: { seat: plan.seat(seat).join(',') } },
      h('span', {}, plan.name(seat), plan.note(seat) ? h('span', { class: 'muted small' }, ` ${plan.note(seat)}`) : null),
      isChoice(session) ? this.typePart(seat, currency) : null,
      h('span', { class: 'chip__price number' }, price(seat, ways[number])),
      h('button', { class: 'chip__away', type: 'button', dataset: { focus: `away-${seat}` }, 'aria-label': `Without ${plan.name(seat)}`, onclick: () => this.map.unpick([seat]) }, '×'));
    const words = picked.length === 1 ? '1 seat picked' : `${picked.length} seats picked`;
    return h('div', { class: 'summary__picked' },
      h('ul', { class: 'chips', id: 'picked' }, picked.map(chip)),
      h('div', { class: 'row row--apart' },
        h('p', { class: 'summary__sum' }, h('span', { class: 'muted small' }, words), h('strong', { class: 'number' }, currency ? money(total, currency) : '')),
        button('Hold', () => this.hold(), { class: 'button--main', id: 'hold' })));
  }

  /** What these seats cost together, as `quote` has it. */
  waysOf(seats) {
    const { plan, app } = this;
    const wishes = seats.map((seat) => ({ type: this.typeOf(seat), zone: { category: plan.categories[plan.category[seat]].id } }));
    return quote(this.asSold(), wishes, app.link.now(), heldUnder(this.mine()));
  }

  /** What can be bought of a seat, as `choices` has it. */
  choicesOf(seat) {
    const { plan, app } = this;
    return choices(this.asSold(), { category: plan.categories[plan.category[seat]].id }, app.link.now(), heldUnder(this.mine()));
  }

  /** The price type of a picked seat. */
  typeOf(seat) {
    return hasTypes(this.session) ? chosenOf(this.choicesOf(seat), this.types.get(seat)) : undefined;
  }

  typePart(seat, currency) {
    const { plan: { words }, session } = this;
    const select = h('select', { class: 'chip__type', dataset: { focus: `type-${seat}` }, 'aria-label': words.priceFor(this.plan.name(seat)), onchange: () => {
      this.types.set(seat, select.value);
      this.show();
    } }, typeOptions(session, this.choicesOf(seat), currency, words));
    select.value = this.typeOf(seat) ?? '';
    return select;
  }

  minePart(mine) {
    this.time = h('span', { class: 'number', id: 'mine-left' }, this.leftText());
    return h('div', { class: 'row row--apart summary__mine' },
      h('p', { class: 'summary__sum' }, h('span', { class: 'muted small' }, `${mine} held for you`), this.time),
      h('a', { class: 'button button--main', href: '#/cart', id: 'to-cart' }, 'To the cart'));
  }

  leftText() {
    const left = this.app.cart.remaining();
    return left === null ? '' : `${countdown(left)} left`;
  }

  tick() {
    if (this.time?.isConnected) this.time.textContent = this.leftText();
    // It may have begun, or be over.
    this.showSale();
  }

  /** On phones the summary is a sheet at the bottom, so notes go above it. */
  raiseToasts() {
    const sheet = getComputedStyle(this.summary).position === 'fixed';
    document.documentElement.style.setProperty('--toasts-up', sheet ? `${this.summary.offsetHeight}px` : '0px');
  }

  async hold() {
    const { app, session, plan, map } = this;
    if (this.code.hindrance()) return;
    const picked = [...map.picked];
    // Without the code nothing may be on sale any more.
    if (picked.length === 0) return;
    const focused = this.focusIn() !== null;
    // A note on seats that were lost just before the click is still to be read.
    if (!(Date.now() - this.lostAt < LOST_READ_MS)) this.note.clear();
    map.spared = new Set(picked);
    try {
      const ok = await app.cart.holdSeats(session.id, picked.map((seat) => plan.seat(seat)), typesTold(picked.map((seat) => this.typeOf(seat))));
      map.unpick(picked);
      this.tellHeld(ok);
      const isLost = document.activeElement === document.body || document.activeElement === map.field;
      if (focused && isLost) this.summary.querySelector('#to-cart')?.focus({ preventScroll: true });
    } catch (error) {
      if (!this.refused(error) && !this.asksWho(error, () => this.hold())) this.tellRefused(error, picked);
    } finally {
      map.spared = new Set();
    }
  }

  async holdBest(wanted) {
    if (this.code.hindrance()) return;
    this.note.clear();
    try {
      const ok = await this.app.cart.holdBest(this.session.id, wanted);
      this.tellHeld(ok);
      const seat = ok.lines[0]?.seats?.[0];
      if (seat) this.map.picture.reveal(this.plan.index(seat));
    } catch (error) {
      if (!this.refused(error) && !this.asksWho(error, () => this.holdBest(wanted))) this.note.show('bad', this.why(error));
    }
  }

  async holdPlaces(area, quantity, types) {
    if (this.code.hindrance()) return;
    this.note.clear();
    try {
      this.tellHeld(await this.app.cart.holdPlaces(this.session.id, area, quantity, types));
    } catch (error) {
      if (!this.refused(error) && !this.asksWho(error, () => this.holdPlaces(area, quantity, types))) this.note.show('bad', this.why(error));
    }
  }

  /** Asks for the buyer's name if a hold needs it, and holds again with it. Returns whether it does. */
  asksWho(error, again) {
    if (!needsCustomer(error)) return false;
    const { app } = this;
    const why = h('p', { id: 'who-needed' }, explain({ name2: 'customer_needed' }));
    if (app.page.customers) {
      // Only the page that signs customers in knows who this is.
      this.note.show('bad', why);
      return true;
    }
    const name = h('input', { class: 'input', id: 'who', autocomplete: 'name', maxlength: 80 });
    const take = (event) => {
      event.preventDefault();
      if (!app.customer.set(name.value)) return name.focus();
      this.note.clear();
      return again();
    };
    this.note.show('bad', why, h('form', { class: 'code__form', onsubmit: take },
      h('label', { class: 'field__label', for: 'who' }, 'Your name'),
      h('div', { class: 'code__entry' }, name, h('button', { class: 'button', id: 'who-use', type: 'submit' }, 'Hold'))));
    name.focus();
    return true;
  }

  /** Why nothing was held. A code may be for another price type than the buyer has chosen, which only the hold tells. */
  why(error) {
    const isOther = this.code.code !== null && isChoice(this.session) && OTHER_TYPE.has(error.name2);
    return isOther ? `${explain(error)} ${this.plan.words.code.other}` : explain(error);
  }

  /** The name of a seat of a line, or of its places. */
  nameOf({ quantity }, seat) {
    return seat ? this.plan.name(this.plan.index(seat)) : `${quantity} places`;
  }

  tellHeld(ok) {
    const lines = ok.lines.filter((line) => line.session === this.session.id);
    const names = lines.flatMap((line) => (line.seats ?? [undefined]).map((seat) => this.nameOf(line, seat)));
    this.tellCode(lines, ok.currency);
    const until = ok.deadline ? ` until ${ownClock(ok.deadline)}` : '';
    // What is held is counted.
    if (this.session.counters?.length) this.terms.look();
    this.app.say(`Held for you${until}: ${names.join(', ')}.`, 'good');
    this.show();
  }

  /** Shows which seats are gone and why. The others stay picked. */
  tellRefused(error, picked) {
    const { plan, map } = this;
    const seats = (error.details?.seats || []).map((seat) => plan.index(seat)).filter((seat) => picked.includes(seat));
    if (error.name2 === 'leaves_single') {
      this.tellSingle(error.details.seats.map((seat) => plan.index(seat)), explain(error));
      return;
    }
    if (seats.length === 0) {
      this.note.show('bad', this.why(error));
      this.app.cart.look();
      return;
    }
    const states = error.details.states || [];
    map.unpick(seats);
    const rest = picked.length - seats.length;
    this.note.show('bad',
      h('p', { id: 'refused' }, h('strong', {}, seats.length === 1 ? 'One seat is gone. ' : `${seats.length} seats are gone. `), explain(error)),
      this.lostList(seats, (seat) => states[error.details.seats.findIndex((each) => plan.index(each) === seat)]),
      rest > 0 ? h('p', {}, rest === 1 ? 'The other one is still picked.' : `The other ${rest} are still picked.`) : null);
    this.app.say(`Gone: ${seats.map((seat) => plan.name(seat)).join(', ')}.`, 'bad');
  }

  /** Shows which seats would be left alone. Where the borders of kept seats are, only the house knows, so nothing is said before a hold. */
  tellSingle(seats, why) {
    const { plan, map } = this;
    const room = map.max - map.picked.size;
    const take = () => {
      this.note.clear();
      seats.filter((seat) => !map.picked.has(seat)).forEach((seat) => map.toggle(seat));
    };
    this.note.show('warn', h('p', { id: 'single' }, why), this.lostList(seats, () => ''),
      seats.length <= room ? button(seats.length === 1 ? 'Take it as well' : 'Take them as well', take, { class: 'button--small', id: 'take-single' }) : null);
    map.point(seats);
    this.app.say(`Left alone: ${seats.map((seat) => plan.name(seat)).join(', ')}.`, 'bad');
  }

  tellLost(seats) {
    const { states } = this.map.words;
    this.lostAt = Date.now();
    this.note.show('warn', h('p', { id: 'lost' }, h('strong', {}, 'Taken while you were looking:')), this.lostList(seats, (seat) => states[this.map.shown[seat]]));
    this.app.say(`${seats.map((seat) => this.plan.name(seat)).join(', ')}: taken by somebody else.`, 'bad');
  }

  lostList(seats, stateOf) {
    const { plan } = this;
    const line = (seat) => h('li', { dataset: { seat: plan.seat(seat).join(',') } }, plan.name(seat), stateOf(seat) ? ` — ${stateOf(seat)}` : '');
    return h('ul', { class: 'notice__list', id: 'lost-seats' }, seats.map(line));
  }
}

// A day of a resource: its opening hours, bookings and free times. A time is put into the cart or reserved.

import { fill, h, money, titled } from '../dom.js';
import { nameOf } from '../local-time.js';
import { button, noteBox } from '../parts.js';
import { explain, explainToDesk } from '../explain.js';
import { dayStrip, shownSpan } from '../calendar/day.js';
import { cancel, mayReserve, mineOf, reserve } from '../calendar/desk.js';
import { addDays, dayText, hoursOf, lengthText, LocalDay, openDay, timeText, wall } from '../calendar/zone.js';

const LENGTHS = [30, 45, 60, 90, 120, 180, 240, 480];
const QUARTER = 15;
const MORNING = 8 * 60;
const MINUTE = 60_000;
const RELOAD_AFTER_MS = 150;

export const title = ({ id }) => (id ? titled(id) : 'Rooms');

export async function render(root, { id, date }, app) {
  const chosen = id || app.page.resources[0];
  if (!chosen) {
    root.append(h('h1', {}, 'Rooms'), h('p', { class: 'notice' }, 'Nothing can be booked here at the moment.'));
    return undefined;
  }
  const view = new ResourceView(root, chosen, date, app);
  await view.begin();
  return () => view.stop();
}

class ResourceView {
  constructor(root, id, date, app) {
    Object.assign(this, { root, id, date, app, length: 60, chosen: null, bookings: [], slots: [], loads: 0, checks: 0 });
    this.strip = dayStrip((from) => this.choose(from));
    this.note = noteBox('resource-note');
  }

  async begin() {
    try {
      this.resource = await this.app.catalogue.resource(this.id);
    } catch (error) {
      this.root.append(h('p', { class: 'notice notice--bad', role: 'alert' }, explain(error)));
      return;
    }
    if (this.stopped) return;
    if (!this.resource.zone) {
      this.root.append(h('h1', {}, titled(this.id)), h('p', { class: 'notice' }, 'There is no such room.'));
      return;
    }
    this.zone = this.resource.zone;
    this.setDay(this.date || openDay(this.resource.hours, wall(this.zone, this.app.link.now()), this.length));
    fill(this.root, this.frame());
    this.endCart = this.app.cart.on('change', () => this.show());
    this.rights = () => this.show();
    addEventListener('rightschange', this.rights);
    this.feed = this.app.link.watch(`resource/${this.id}`, { snapshot: () => this.reloadSoon(), delta: ({ days }) => this.changed(days) });
    this.showDesk();
    await this.load();
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    this.feed?.stop();
    this.endCart?.();
    removeEventListener('rightschange', this.rights);
  }

  setDay(day) {
    this.day = day;
    this.local = new LocalDay(this.zone, day);
  }

  // What is shown

  frame() {
    const { name, properties, rate, capacity } = this.resource;
    const facts = [
      rate && `${money(rate.amount, rate.currency)} ${rate.per_ms ? `for ${lengthText(rate.per_ms / MINUTE)}` : 'a booking'}`,
      capacity > 1 && `${capacity} at a time`,
      `times as in ${nameOf(this.zone)}`,
      ...Object.entries(properties || {}).map(([key, text]) => `${titled(key)}: ${text}`),
    ];
    return h('div', { class: 'stack stack--wide' },
      h('div', { class: 'stack stack--tight' },
        h('p', { class: 'eyebrow' }, 'Rooms'),
        h('h1', {}, name || titled(this.id)),
        h('p', { class: 'muted' }, facts.filter(Boolean).join(' · ')),
        this.others()),
      this.note.element,
      h('div', { class: 'calendar' },
        h('section', { class: 'stack', 'aria-labelledby': 'day-title' }, this.dayHead(), this.frameOfDay = h('div', { class: 'day-frame' }, this.strip.element)),
        h('div', { class: 'stack calendar__side' }, this.chooser(), this.mine = h('section', { class: 'card stack stack--tight', 'aria-labelledby': 'mine-title' }))));
  }

  others() {
    const all = this.app.page.resources;
    if (all.length < 2) return null;
    return h('ul', { class: 'chips', 'aria-label': 'All rooms' }, all.map((id) => h('li', {},
      h('a', { class: 'button button--small', href: `#/resource/${encodeURIComponent(id)}`, 'aria-current': id === this.id ? 'true' : null }, titled(id)))));
  }

  dayHead() {
    this.heading = h('h2', { class: 'calendar__day', id: 'day-title', 'aria-live': 'polite' });
    this.hours = h('p', { class: 'small muted' });
    this.picker = h('input', { class: 'input calendar__date', type: 'date', 'aria-label': 'Day', onchange: (event) => event.target.value && this.go(event.target.value) });
    const step = (days, text, label) => h('button', { class: 'button button--small', type: 'button', 'aria-label': label, onclick: () => this.go(addDays(this.day, days)) }, text);
    return h('div', { class: 'row row--apart' },
      h('div', {}, this.heading, this.hours),
      h('div', { class: 'row' }, step(-1, '←', 'The day before'), this.picker, step(1, '→', 'The next day')));
  }

  chooser() {
    const lengths = LENGTHS.map((minutes) => h('option', { value: minutes }, lengthText(minutes)));
    this.lengths = h('select', { class: 'input', id: 'slot-length', onchange: () => this.lengthen(Number(this.lengths.value)) }, lengths);
    this.lengths.value = this.length;
    this.start = h('select', { class: 'input number', id: 'slot-start', onchange: () => this.choose(this.start.value === '' ? NaN : Number(this.start.value), true) });
    this.verdict = h('p', { class: 'calendar__verdict', role: 'status' });
    this.only = h('p', { class: 'muted small', role: 'status' });
    this.hold = button('Put into the cart', () => this.holdChosen(), { class: 'button--main' });
    this.who = h('input', { class: 'input', id: 'slot-who', maxlength: '80', autocomplete: 'off' });
    this.desk = h('div', { class: 'stack stack--tight', hidden: true },
      h('div', { class: 'field' }, h('label', { class: 'field__label', for: 'slot-who' }, 'At the desk: reserve for'), this.who),
      this.reserve = button('Reserve without paying', () => this.reserveChosen()));
    return h('section', { class: 'card stack', 'aria-labelledby': 'choose-title' },
      h('h2', { class: 'calendar__title', id: 'choose-title' }, 'Book a time'),
      h('div', { class: 'calendar__fields' },
        h('div', { class: 'field' }, h('label', { class: 'field__label', for: 'slot-length' }, 'For'), this.lengths),
        h('div', { class: 'field' }, h('label', { class: 'field__label', for: 'slot-start' }, 'From'), this.start)),
      this.verdict, this.only, this.hold, this.desk);
  }

  /** Reserving is not offered if it needs a token. */
  async showDesk() {
    const may = await mayReserve(this.app).catch(() => false);
    if (!this.stopped) this.desk.hidden = !may;
  }

  show() {
    if (this.stopped || !this.heading) return;
    this.heading.textContent = dayText(this.day);
    this.picker.value = this.day;
    this.hours.textContent = hoursText(this.resource.hours, this.day);
    const now = Math.floor(this.local.minute(this.app.link.now()));
    this.strip.show({
      day: this.local, hours: this.resource.hours, bookings: this.bookings.map((booking) => ({ ...booking, mine: this.whose(booking) })),
      slots: this.slots, chosen: this.chosen, now: now >= 0 && now < this.local.minutes ? now : null,
    });
    this.showChosen();
    this.showMine();
  }

  showChosen() {
    const { chosen } = this;
    this.listStarts();
    this.start.value = chosen ? chosen.from : '';
    const fits = chosen?.fits === true;
    const { rights } = this.app;
    this.hold.hidden = !rights.mayBuy();
    this.only.textContent = rights.mayBuy() ? '' : rights.words();
    this.hold.disabled = !fits || !this.resource.rate;
    this.reserve.disabled = !fits;
    this.verdict.dataset.fits = chosen ? (fits ? 'yes' : chosen.fits === null ? 'asking' : 'no') : '';
    const text = this.verdictText();
    if (this.verdict.textContent !== text) this.verdict.textContent = text;
  }

  /** Lists when a booking of the chosen length may begin, by the opening hours, and the time chosen in the calendar. */
  listStarts() {
    const starts = new Set(this.chosen ? [this.chosen.from] : []);
    for (const [open, close] of this.local.open(this.resource.hours)) {
      for (let from = Math.ceil(open / QUARTER) * QUARTER; from + this.length <= close; from += QUARTER) starts.add(from);
    }
    const sorted = [...starts].sort((one, other) => one - other);
    const key = `${this.day} ${sorted.join()}`;
    if (this.start.dataset.starts === key) return;
    this.start.dataset.starts = key;
    fill(this.start, h('option', { value: '' }, '–'), sorted.map((from) => h('option', { value: from }, this.local.text(from))));
  }

  verdictText() {
    const { chosen } = this;
    if (!chosen) return this.slots.length > 0 ? 'Choose a free time in the calendar, or say when it begins.' : 'Nothing of this length is free on this day.';
    const when = `${this.local.text(chosen.from)} to ${this.local.text(chosen.to)}`;
    if (chosen.fits === null) return `${when}: looking …`;
    if (!chosen.fits) return `${when}: ${chosen.why}`;
    return `${when} is free.${this.resource.rate ? ` ${this.price()}.` : ''}`;
  }

  price() {
    const { amount, currency, per_ms: per } = this.resource.rate;
    // Begun periods of the rate are paid whole.
    return money(amount * (per ? Math.ceil((this.length * MINUTE) / per) : 1), currency);
  }

  showMine() {
    const lines = this.app.cart.lines.filter((line) => line.resource === this.id);
    const known = new Set(mineOf(this.id));
    const reserved = this.bookings.filter(({ booking }) => known.has(booking));
    const entries = [
      ...lines.map((line) => this.mineEntry(this.spanText(line.begin, line.end), 'in your cart', 'Give back', () => this.giveBack(line))),
      ...reserved.map((each) => this.mineEntry(this.spanText(each.begin, each.end), each.details ? `reserved for ${each.details}` : 'reserved', 'Cancel', () => this.cancelMine(each))),
    ];
    fill(this.mine, h('h2', { class: 'calendar__title', id: 'mine-title' }, 'Yours'),
      entries.length > 0 ? h('ul', { class: 'stack stack--tight' }, entries) : h('p', { class: 'small muted' }, 'Nothing on this day yet.'),
      lines.length > 0 && h('p', {}, h('a', { href: '#/cart' }, 'To the cart')));
  }

  mineEntry(when, what, word, act) {
    return h('li', { class: 'mine' },
      h('span', {}, h('strong', { class: 'number' }, when), h('span', { class: 'small muted' }, ` ${what}`)),
      button([word, h('span', { class: 'unseen' }, ` ${when}`)], act, { class: 'button--small' }));
  }

  spanText(begin, end) {
    const [from, to] = [Date.parse(begin), Date.parse(end)];
    const { day } = wall(this.zone, from);
    const local = day === this.day ? this.local : new LocalDay(this.zone, day);
    const name = day === this.day ? '' : `${dayText(day).replace(/, \d{4}$/, '')}, `;
    const last = wall(this.zone, to);
    // The end of a time that goes on until another day is by that day's clock.
    return `${name}${local.text(local.minute(from))}–${to <= local.end ? local.text(local.minute(to)) : timeText(last.minutes)}`;
  }

  /** The text of the buyer's own booking. '' for others. */
  whose({ booking, begin, end, state }) {
    if (mineOf(this.id).includes(booking)) return 'Your reservation';
    const inCart = (line) => line.resource === this.id && Date.parse(line.begin) === Date.parse(begin) && Date.parse(line.end) === Date.parse(end);
    return state === 'held' && this.app.cart.lines.some(inCart) ? 'In your cart' : '';
  }

  // Requests

  changed(days) {
    const bounds = [this.local.begin, this.local.end - 1];
    const shown = bounds.map((time) => new Date(time).toISOString().slice(0, 10));
    if (!days || days.some((day) => shown.includes(day))) this.reloadSoon();
  }

  reloadSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), RELOAD_AFTER_MS);
  }

  go(day) {
    this.setDay(day);
    this.chosen = null;
    this.bookings = [];
    this.slots = [];
    this.note.clear();
    // The address names the day, and the view stays.
    history.replaceState(null, '', `#/resource/${encodeURIComponent(this.id)}/${day}`);
    this.load();
  }

  lengthen(minutes) {
    this.length = minutes;
    if (this.chosen) this.chosen = { ...this.chosen, to: this.chosen.from + minutes, fits: null };
    this.load();
  }

  async load() {
    const turn = ++this.loads;
    const { begin, end } = this.local;
    try {
      const [bookings, slots] = await Promise.all([this.readBookings(begin, end), this.readSlots(begin, end)]);
      if (turn !== this.loads || this.stopped) return;
      this.bookings = bookings;
      this.slots = slots;
      this.show();
      this.scrollToDay();
      if (this.chosen) this.check();
    } catch (error) {
      if (turn === this.loads && !this.stopped) this.note.show('bad', explain(error));
    }
  }

  /** If the whole night is shown as well, the day begins in the morning. */
  scrollToDay() {
    if (this.scrolledTo === this.day) return;
    this.scrolledTo = this.day;
    const first = Math.min(MORNING, ...this.bookings.map(({ from }) => from));
    const [begin, end] = shownSpan(this.resource.hours, this.local, this.bookings);
    this.frameOfDay.scrollTop = (this.strip.element.clientHeight * Math.max(0, first - 30 - begin)) / (end - begin);
  }

  async readBookings(begin, end) {
    const all = await this.app.catalogue.pages('resource.bookings', { resource: this.id, from: iso(begin), to: iso(end) }, 'bookings');
    return all.map((booking) => ({ ...booking, ...this.local.part(Date.parse(booking.begin), Date.parse(booking.end)) }))
      .filter(({ from }) => from !== undefined);
  }

  /** Free times of the chosen length. None begins before it can be booked. */
  async readSlots(begin, end) {
    const soonest = this.app.link.now() + (this.resource.notice_ms || 0);
    const from = Math.max(begin, Math.ceil(soonest / (QUARTER * MINUTE)) * QUARTER * MINUTE);
    const length = this.length * MINUTE;
    if (from + length > end) return [];
    try {
      const { slots } = await this.app.link.request('resource.free_slots', { resource: this.id, from: iso(from), to: iso(end), length_ms: length });
      return slots.map(([first, last]) => this.local.part(Date.parse(first), Date.parse(last))).filter(Boolean);
    } catch (error) {
      // A day that is too far ahead has none.
      if (error.kind === 'no') return [];
      throw error;
    }
  }

  choose(from, here = false) {
    if (!Number.isFinite(from)) {
      this.chosen = null;
      this.show();
      return;
    }
    this.note.clear();
    this.chosen = { from, to: from + this.length, fits: null, why: '' };
    this.show();
    this.check();
    if (!here) this.verdict.scrollIntoView({ block: 'nearest' });
  }

  /** Asks whether the chosen time is free. The engine decides, and not this page's arithmetic. */
  async check() {
    const turn = ++this.checks;
    const { chosen } = this;
    const [fits, why] = await this.fits(chosen);
    if (turn !== this.checks || chosen !== this.chosen || this.stopped) return;
    this.chosen = { ...chosen, fits, why };
    this.show();
  }

  async fits({ from, to }) {
    try {
      const ok = await this.app.link.request('resource.is_available', { resource: this.id, ...this.times(from, to) });
      const why = ok.conflicts?.[0]?.why || '';
      return [ok.available, ok.available ? '' : conflictText(why)];
    } catch (error) {
      return [false, explain(error)];
    }
  }

  times(from, to) {
    return { begin: iso(this.local.instant(from)), end: iso(this.local.instant(to)) };
  }

  // Actions

  async holdChosen() {
    const { from, to } = this.chosen;
    const { begin, end } = this.times(from, to);
    await this.act(() => this.app.cart.holdSlot(this.id, begin, end), `${this.local.text(from)} to ${this.local.text(to)} is in your cart.`);
  }

  async reserveChosen() {
    const { from, to } = this.chosen;
    const { begin, end } = this.times(from, to);
    const who = this.who.value.trim();
    const reserved = await this.act(() => reserve(this.app, this.id, begin, end, who), `${this.local.text(from)} to ${this.local.text(to)} is reserved.`, explainToDesk);
    if (reserved) this.who.value = '';
  }

  async giveBack(line) {
    await this.act(() => this.app.cart.release(line.line), 'Given back.');
  }

  async cancelMine({ booking }) {
    await this.act(() => cancel(this.app, this.id, booking), 'The reservation is canceled.', explainToDesk);
  }

  /** Does something, and shows the outcome. Returns whether it was done. */
  async act(what, done, words = explain) {
    this.note.clear();
    let isDone = false;
    try {
      await what();
      isDone = true;
      this.chosen = null;
      this.app.say(done, 'good');
    } catch (error) {
      if (words !== explain || !this.app.rights.note(error)) this.note.show('bad', words(error));
    }
    await this.load();
    return isDone;
  }
}

function iso(time) {
  return new Date(time).toISOString();
}

function conflictText(why) {
  const [, from, to] = / from \S+T(\d\d:\d\d)\S* to \S+T(\d\d:\d\d)/.exec(why) || [];
  if (from) return `taken from ${from} to ${to}.`;
  if (/hours/.test(why)) return 'it is closed then.';
  if (/too soon/.test(why)) return 'too soon to be booked.';
  if (/too late/.test(why)) return 'too far ahead to be booked yet.';
  return 'not free.';
}

function hoursText(hours, day) {
  const open = hoursOf(hours, day);
  if (!hours) return 'Open all day';
  return open.length === 0 ? 'Closed' : `Open ${open.map(([from, to]) => `${timeText(from)}–${timeText(to)}`).join(' and ')}`;
}

// The history of a seat: each event with its time, its cart or order, and the session's version.

import { fill, h } from '../dom.js';
import { exactly, moment } from '../local-time.js';
import { askAny, wantsToken } from '../operator/ask.js';
import { indexOf, rowName, rowsOf, seatName } from '../operator/seats.js';
import { tokenForm } from '../operator/token.js';

const PAGE = 30;
const RECENT = 25;
/** Seats of one event that are shown as buttons. */
const SEATS_SHOWN = 8;
/** Changes within this time are read at once. */
const LOOK_AFTER_MS = 400;

export const title = () => 'History of a seat';

export async function render(root, { id }, app) {
  const view = new History(root, id, app);
  await view.begin();
  return () => view.stop();
}

class History {
  constructor(root, id, app) {
    Object.assign(this, { root, id, app, seat: null, events: [], cursor: null, rows: [] });
    this.timeline = h('ol', { class: 'op-timeline' });
    this.heading = h('h2', { class: 'op-title', id: 'seat-title', tabindex: '-1' }, 'Choose a seat');
    this.note = h('p', { class: 'muted', role: 'status' });
    this.older = h('button', { class: 'button', type: 'button', hidden: true, onclick: () => this.more() }, 'What was before');
    this.recent = h('ul', { class: 'op-recent' });
  }

  async begin() {
    let session;
    try {
      session = await this.app.catalogue.session(this.id);
    } catch (error) {
      this.root.append(h('p', { class: 'notice notice--bad', role: 'alert' }, `There is no session ${this.id}: ${error.message}. `, h('a', { href: '#/operator' }, 'Back')));
      return;
    }
    if (this.stopped) return;
    this.rows = rowsOf(session.layout);
    this.zone = session.zone;
    fill(this.root, this.frame(session));
    this.feed = this.app.link.watch(`session/${this.id}`, { delta: ({ changes }) => this.changed(changes || []) });
    await this.listRecent();
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    this.feed?.stop();
  }

  frame(session) {
    return h('div', { class: 'stack stack--wide' },
      h('div', { class: 'stack stack--tight' },
        h('p', { class: 'eyebrow' }, h('a', { href: '#/operator' }, 'Operator'), ' · history'),
        h('h1', {}, 'History of a seat'),
        h('p', { class: 'muted' }, h('a', { href: `#/session/${encodeURIComponent(this.id)}` }, this.id), ` — ${moment(session.starts_at, session.zone)}, ${session.hall}`)),
      this.picker(),
      this.gate = h('div', {}),
      h('div', { class: 'op-history' },
        h('section', { class: 'stack', 'aria-labelledby': 'recent-title' }, h('h2', { class: 'op-title', id: 'recent-title' }, 'Lately'), this.recent),
        h('section', { class: 'stack', 'aria-labelledby': 'seat-title' }, this.heading, this.note, this.timeline, h('div', {}, this.older))));
  }

  picker() {
    this.row = h('select', { class: 'input', id: 'seat-row', onchange: () => this.listSeats() },
      this.rows.map((_, row) => h('option', { value: row }, rowName(this.rows, row))));
    this.number = h('select', { class: 'input', id: 'seat-number' });
    this.listSeats();
    const submit = (event) => {
      event.preventDefault();
      this.choose([Number(this.row.value), Number(this.number.value)]);
    };
    if (this.rows.length === 0) return h('p', { class: 'notice' }, 'This session has places, and no seats.');
    return h('form', { class: 'op-pick', onsubmit: submit },
      h('div', { class: 'field field--short' }, h('label', { class: 'field__label', for: 'seat-row' }, 'Row'), this.row),
      h('div', { class: 'field field--short' }, h('label', { class: 'field__label', for: 'seat-number' }, 'Seat'), this.number),
      h('button', { class: 'button button--main', type: 'submit' }, 'Show its history'));
  }

  listSeats() {
    const seats = this.rows[Number(this.row.value)]?.seats || [];
    fill(this.number, seats.map((label, seat) => h('option', { value: seat }, label)));
  }

  /** Shows the history of a seat. */
  async choose(seat) {
    this.seat = seat;
    [this.row.value, this.number.value] = [seat[0], ''];
    this.listSeats();
    this.number.value = seat[1];
    this.heading.textContent = seatName(this.rows, seat);
    this.events = [];
    await this.read();
    this.markChosen();
    this.heading.focus({ preventScroll: matchMedia('(min-width: 60rem)').matches });
  }

  async read(before) {
    const { seat } = this;
    const page = await this.ask({ seat, limit: PAGE, before });
    if (!page || seat !== this.seat) return;
    this.events = before ? [...page.entries, ...this.events] : page.entries;
    this.cursor = page.cursor ?? null;
    this.show(page);
  }

  more() {
    return this.read(this.cursor);
  }

  /** A page of a history. If it cannot be read, shows why and returns undefined. */
  async ask(body) {
    try {
      const page = await askAny(this.app, 'admin.history', { entity: `session/${this.id}`, ...body });
      this.gate.replaceChildren();
      return page;
    } catch (error) {
      if (wantsToken(error)) fill(this.gate, tokenForm(() => this.listRecent().then(() => this.seat && this.read())));
      else this.note.textContent = `The history cannot be had now: ${error.message}.`;
      return undefined;
    }
  }

  show(page) {
    const { events } = this;
    this.note.textContent = ['Nothing has happened to it: it was always free.', 'One thing happened to it.'][events.length]
      || `${events.length} things happened to it, the newest first.`;
    if (!page.complete && !page.cursor) this.note.textContent += ' What was before is no longer kept.';
    this.older.hidden = this.cursor === null;
    fill(this.timeline, events.toReversed().map((event) => this.event(event)));
  }

  event({ at, event, details, version }) {
    return h('li', { class: `op-event op-event--${event}` },
      h('span', { class: 'row' }, h('span', { class: 'badge' }, event), h('time', { class: 'number small muted', datetime: at }, exactly(at, this.zone))),
      h('span', { class: 'op-event__what' }, this.worded(details || '')),
      h('span', { class: 'small muted number' }, `version ${version}`));
  }

  /** Replaces seats by their labels, orders by links, and long numbers by short ones. */
  worded(details) {
    const parts = details.split(/(\[\d+, \d+\]|order [0-9a-f]{32}|[0-9a-f]{32})/);
    return parts.map((part) => {
      const seat = /^\[(\d+), (\d+)\]$/.exec(part);
      if (seat) return seatName(this.rows, [Number(seat[1]), Number(seat[2])]);
      const order = /^order ([0-9a-f]{32})$/.exec(part);
      if (order) return h('a', { href: `#/order/${order[1]}` }, `order ${order[1].slice(0, 8)}…`);
      return /^[0-9a-f]{32}$/.test(part) ? h('abbr', { title: part }, `${part.slice(0, 8)}…`) : part.replace(/seats? $/, '').replace(/(\d{4}-\d\d-\d\dT[\d:.]+Z)/g, (instant) => exactly(instant, this.zone));
    });
  }

  /** Lists the latest events of all seats. Each leads to the histories of its seats. */
  async listRecent() {
    const page = await this.ask({ limit: RECENT });
    if (!page || this.stopped) return;
    const lines = page.entries.toReversed().map((entry) => this.recentLine(entry)).filter(Boolean);
    fill(this.recent, lines.length > 0 ? lines : h('li', { class: 'op-recent__line muted' }, 'No seat has changed yet.'));
    this.markChosen();
  }

  recentLine({ at, event, details }) {
    const seats = [...(details || '').matchAll(/\[(\d+), (\d+)\]/g)].map(([, row, seat]) => [Number(row), Number(seat)]);
    if (seats.length === 0) return null;
    const rest = seats.length - SEATS_SHOWN;
    return h('li', { class: 'op-recent__line' },
      h('time', { class: 'number small muted', datetime: at }, exactly(at, this.zone).split(', ').at(-1)),
      h('span', { class: 'badge' }, event),
      h('span', { class: 'op-recent__seats' },
        seats.slice(0, SEATS_SHOWN).map((seat) => h('button', { class: 'op-seat', type: 'button', dataset: { seat: seat.join() }, onclick: () => this.choose(seat) }, seatName(this.rows, seat))),
        rest > 0 && h('span', { class: 'small muted' }, `and ${rest} more`)));
  }

  markChosen() {
    for (const button of this.recent.querySelectorAll('[data-seat]')) {
      button.setAttribute('aria-pressed', String(button.dataset.seat === this.seat?.join()));
    }
  }

  changed(changes) {
    const mine = this.seat && indexOf(this.rows, this.seat);
    const touchesMine = changes.some(([index]) => index === mine);
    this.rereadSeat = this.rereadSeat || touchesMine;
    if (this.timer) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      const reread = this.rereadSeat;
      this.rereadSeat = false;
      // Nothing is moved away from under a finger or the focus.
      if (!this.recent.matches(':hover, :focus-within')) this.listRecent();
      if (reread) this.read();
    }, LOOK_AFTER_MS);
  }
}

// <boxoffice-map session="…" node="http://…">: a live seat map for other sites. docs/reference/widget.md describes its use.

import { Connection } from './js/connection.js';
import { SEAT_STATES } from './js/feeds.js';
import { Plan } from './js/map/plan.js';
import { SeatMap } from './js/map/seatmap.js';

/** The colours. A page may override them on the element. They are light or dark as the page's `color-scheme` says. */
const LOOK = `
  :host {
    display: block; position: relative; height: 32rem; contain: content;
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
  .unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
  .note { padding: 1rem; color: var(--ink-2); font: 1rem/1.5 system-ui, sans-serif; }
`;

const HERE = import.meta.url;
const ANSWER_WITHIN_MS = 5_000;

class BoxofficeMap extends HTMLElement {
  static observedAttributes = ['session', 'node', 'max', 'lang'];

  constructor() {
    super();
    const root = this.attachShadow({ mode: 'open' });
    const look = new CSSStyleSheet();
    look.replaceSync(LOOK);
    root.adoptedStyleSheets = [look];
    const sheet = document.createElement('link');
    Object.assign(sheet, { rel: 'stylesheet', href: new URL('css/map.css', HERE).href });
    this.place = document.createElement('div');
    this.place.className = 'seats';
    this.place.setAttribute('part', 'map');
    root.append(sheet, this.place);
  }

  connectedCallback() {
    this.begin();
  }

  disconnectedCallback() {
    this.end();
  }

  attributeChangedCallback() {
    if (this.isConnected) this.begin();
  }

  /** The picked seats, as in the event. */
  get selected() {
    return this.map ? [...this.map.picked].map((seat) => this.told(seat)) : [];
  }

  /** Unpicks all seats, for example after a hold. */
  clear() {
    this.map?.unpick();
  }

  async begin() {
    this.end();
    const [session, node] = [this.getAttribute('session'), this.getAttribute('node') || new URL(HERE).origin];
    if (!session) return;
    const turn = (this.turn = {});
    const asked = fetch(new URL('/page.json', node), { signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
    const page = await asked.then((answer) => (answer.ok ? answer.json() : {})).catch(() => ({}));
    if (turn !== this.turn) return;
    this.link = new Connection(page.nodes || [], { first: new URL(node).origin, node: page.node, client: 'boxoffice widget' });
    this.link.on('state', ({ silent, text }) => silent && !this.map && this.note(text));
    this.link.start();
    try {
      const known = await this.link.request('session.get', { id: session }, { deadline: 30_000 });
      if (turn === this.turn) this.show(known);
    } catch (error) {
      if (turn === this.turn) this.note(error.message);
    }
  }

  end() {
    this.turn = null;
    this.link?.stop();
    this.map?.stop();
    this.link = this.map = null;
  }

  note(text) {
    const note = document.createElement('p');
    note.className = 'note';
    note.textContent = text;
    this.place.replaceChildren(note);
  }

  show(session) {
    const language = this.lang || document.documentElement.lang || 'en';
    this.session = session.id;
    this.plan = new Plan(session);
    this.place.replaceChildren();
    this.map = new SeatMap(this.place, this.plan, {
      max: Number(this.getAttribute('max')) || 20,
      language,
      money: ({ amount, currency }) => {
        const format = new Intl.NumberFormat(language, { style: 'currency', currency });
        return format.format(amount / 10 ** format.resolvedOptions().maximumFractionDigits);
      },
      onselect: (seats) => this.tell('select', seats),
      onlost: (seats) => this.tell('lost', seats),
    });
    this.link.watch(`session/${session.id}`, {
      snapshot: (now) => this.map.setStates(now.states),
      delta: (delta) => this.map.change(delta.changes.map(([seat, state]) => [seat, SEAT_STATES[state]])),
    });
  }

  /** A seat for the host page: `row` and `seat` are those of `cart.hold_seats`. */
  told(index) {
    const [row, seat] = this.plan.seat(index);
    const { id, price } = this.plan.categories[this.plan.category[index]];
    return { row, seat, label: this.plan.name(index), price, category: id };
  }

  tell(name, seats) {
    const detail = { session: this.session, seats: seats.map((seat) => this.told(seat)) };
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }
}

customElements.define('boxoffice-map', BoxofficeMap);

// An interactive seat map: pointer, touch and keyboard, a note on the current seat, and the picked seats.

import { BLOCKED, FREE, MINE, PICKED } from './brush.js';
import { Picture } from './canvas.js';
import { wordsOf } from './words.js';

/** A finger is at most this far from the seat it means, in pixels. */
const TOUCH_REACH = 22;
/** A shorter movement is a tap, in pixels. */
const DRAG = 6;
const ZOOM_STEP = 1.5;
/** A taken seat is looked at only where no free one is in view. In units of the plan, squared. */
const TAKEN_FURTHER = 1e12;

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export class SeatMap {
  /**
   * Shows `plan` in `host`. Calls `onselect(picked)` when the picked seats change, `onlost(seats)` when another buyer has taken
   * picked ones, and `say(text)` for messages to the buyer. `money(price)` formats.
   */
  constructor(host, plan, { max = 20, language = 'en', money, onselect, onlost, say } = {}) {
    Object.assign(this, { host, plan, max, money, onselect, onlost, say });
    this.words = wordsOf(language);
    this.shown = new Uint8Array(plan.size);
    this.over = new Uint8Array(plan.size);
    this.picked = new Set();
    this.mine = new Set();
    /** Picked seats that are being held right now, so their changes are no loss. */
    this.spared = new Set();
    this.known = false;
    /** Why no seat may be picked, in words for the buyer. Null if seats may be picked. */
    this.closed = null;
    this.focus = -1;
    this.pointers = new Map();
    this.build();
    this.picture = new Picture(this.field, plan, this.shown, this.over);
    this.picture.onmove = () => this.afterMove();
    this.afterMove();
    this.listen();
  }

  stop() {
    this.picture.stop();
    removeEventListener('themechange', this.restyle);
    this.dark.removeEventListener('change', this.restyle);
    this.host.replaceChildren();
  }

  build() {
    const { words } = this;
    const make = (tag, className, attributes = {}) => {
      const element = document.createElement(tag);
      element.className = className;
      for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
      return element;
    };
    this.field = make('div', 'seats__field', { tabindex: '0', role: 'application', 'aria-roledescription': words.map, 'aria-label': words.map, 'aria-describedby': 'seats-help', id: 'seats' });
    this.help = make('p', 'unseen', { id: 'seats-help' });
    this.help.textContent = words.help;
    this.live = make('div', 'unseen', { 'aria-live': 'polite', id: 'seats-live' });
    this.tip = make('div', 'seats__tip', { 'aria-hidden': 'true', part: 'tip' });
    this.tip.hidden = true;
    const zoom = make('div', 'seats__zoom', { part: 'zoom' });
    this.zoom = zoom;
    const button = (text, label, act) => {
      const element = make('button', 'seats__button', { type: 'button', 'aria-label': label, title: label });
      element.textContent = text;
      element.addEventListener('click', act);
      zoom.append(element);
    };
    button('+', words.zoomIn, () => this.zoomMiddle(ZOOM_STEP));
    button('−', words.zoomOut, () => this.zoomMiddle(1 / ZOOM_STEP));
    button('⤢', words.fit, () => this.picture.fit());
    this.host.append(this.field, this.tip, zoom, this.help, this.live);
  }

  // What is shown

  /** Sets all states. */
  setStates(states) {
    const lost = [];
    for (let seat = 0; seat < this.plan.size; seat += 1) {
      if (this.shown[seat] !== states[seat]) this.become(seat, states[seat], this.known, lost);
    }
    this.known = true;
    this.tellLost(lost);
  }

  /** Sets some states: [[index, state]]. */
  change(changes) {
    const lost = [];
    for (const [seat, state] of changes) if (this.shown[seat] !== state) this.become(seat, state, true, lost);
    this.tellLost(lost);
    if (this.focus >= 0 && changes.some(([seat]) => seat === this.focus)) this.tellSeat(this.focus, this.field.matches(':focus'));
  }

  become(seat, state, flash, lost) {
    this.shown[seat] = state;
    if (state !== FREE && this.picked.has(seat) && !this.spared.has(seat) && !this.isAccompanied(seat)) {
      this.picked.delete(seat);
      this.over[seat] = this.mine.has(seat) ? MINE : 0;
      lost.push(seat);
    }
    this.picture.change(seat, flash);
  }

  tellLost(lost) {
    if (lost.length === 0) return;
    this.onlost?.(lost);
    this.onselect?.([...this.picked]);
  }

  /** Sets the seats that this buyer has. */
  setMine(seats) {
    const before = this.mine;
    this.mine = new Set(seats);
    for (const seat of new Set([...before, ...this.mine])) this.dress(seat);
  }

  dress(seat) {
    const over = this.mine.has(seat) ? MINE : this.picked.has(seat) ? PICKED : 0;
    if (this.over[seat] === over) return;
    this.over[seat] = over;
    this.picture.change(seat, false);
  }

  /** Picks or unpicks a seat. */
  toggle(seat) {
    const { words } = this;
    if (this.mine.has(seat)) {
      this.say?.(words.taken(this.plan.name(seat), words.mine));
    } else if (this.picked.has(seat)) {
      this.picked.delete(seat);
      // The seat of a companion is held only together with the wheelchair place.
      for (const other of this.picked) if (this.plan.beside(other) && this.shown[other] !== FREE && !this.isAccompanied(other)) this.unpick([other]);
    } else if (this.closed !== null) {
      this.say?.(this.closed);
    } else if (!this.isSold(seat)) {
      this.say?.(words.taken(this.plan.name(seat), words.notSold));
    } else if (this.shown[seat] === BLOCKED && this.plan.beside(seat) && !this.isAccompanied(seat)) {
      this.say?.(words.companion(this.plan.name(seat)));
    } else if (this.shown[seat] !== FREE && !this.isAccompanied(seat)) {
      this.say?.(words.taken(this.plan.name(seat), words.states[this.shown[seat]]));
    } else if (this.picked.size >= this.max) {
      this.say?.(words.most(this.max));
    } else {
      this.picked.add(seat);
    }
    this.dress(seat);
    this.point([]);
    this.tellSeat(seat, true);
    this.onselect?.([...this.picked]);
  }

  /** Whether it is kept for a companion, and an accessible seat beside it is picked. */
  isAccompanied(seat) {
    return this.shown[seat] === BLOCKED && (this.plan.beside(seat) || []).some((other) => this.picked.has(other));
  }

  /** Whether its category is on sale. */
  isSold(seat) {
    return this.plan.categories[this.plan.category[seat]].isSold !== false;
  }

  /** Points at some seats, until others are picked. */
  point(seats) {
    this.picture.setPointed(seats);
    if (seats.length > 0) this.picture.reveal(seats[0]);
  }

  unpick(seats = [...this.picked]) {
    for (const seat of seats) {
      this.picked.delete(seat);
      this.dress(seat);
    }
    this.point([]);
    this.onselect?.([...this.picked]);
  }

  /** "Row A seat 5, Parkett, €30, free" */
  describe(seat) {
    const { plan, words } = this;
    const category = plan.categories[plan.category[seat]];
    const price = this.money ? plan.priceText(category, this.money) : null;
    const state = this.mine.has(seat) ? words.mine : this.picked.has(seat) ? words.picked : words.states[this.shown[seat]];
    const parts = [plan.name(seat), category.name, price, plan.accessible[seat] ? words.accessible : null, plan.note(seat), state];
    return parts.filter(Boolean);
  }

  // The current seat

  tellSeat(seat, aloud) {
    const parts = this.describe(seat);
    if (aloud) this.live.textContent = parts.join(', ');
    this.tip.replaceChildren(...parts.map((part, index) => {
      const line = document.createElement(index === 0 ? 'strong' : 'span');
      line.textContent = part;
      return line;
    }));
    this.tip.dataset.seat = this.plan.seat(seat).join(',');
    this.tip.hidden = false;
    const [x, y] = this.picture.toScreen(this.plan.x[seat], this.plan.y[seat]);
    const { offsetWidth, offsetHeight } = this.tip;
    let left = Math.max(4, Math.min(this.picture.width - offsetWidth - 4, x - offsetWidth / 2));
    const above = y - offsetHeight - 18;
    const top = above > 4 ? above : y + 22;
    // The buttons stay free.
    const zoom = { left: this.zoom.offsetLeft, top: this.zoom.offsetTop };
    if (left + offsetWidth > zoom.left - 4 && top + offsetHeight > zoom.top - 4) left = Math.max(4, zoom.left - offsetWidth - 8);
    this.tip.style.setProperty('transform', `translate(${Math.round(left)}px, ${Math.round(top)}px)`);
  }

  hideTip() {
    this.tip.hidden = true;
  }

  setFocus(seat) {
    this.focus = seat;
    this.picture.setFocus(seat);
    this.picture.reveal(seat);
    this.tellSeat(seat, true);
  }

  setHover(seat) {
    if (seat === this.picture.hover) return;
    this.picture.setHover(seat);
    this.field.style.setProperty('cursor', seat >= 0 ? 'pointer' : this.picture.zoomed ? 'grab' : 'default');
    if (seat >= 0) this.tellSeat(seat, false);
    else this.hideTip();
  }

  afterMove() {
    if (!this.picture) return;
    this.field.dataset.zoomed = Boolean(this.picture.zoomed);
    if (this.tip && !this.tip.hidden) this.hideTip();
  }

  /** Zooms in to what the buyer looks at, and out around the middle. */
  zoomMiddle(factor) {
    const seat = factor > 1 ? this.lookedAt() : -1;
    if (seat >= 0) this.picture.zoomTo(factor, this.plan.x[seat], this.plan.y[seat]);
    else this.picture.zoom(factor, this.picture.width / 2, this.picture.height / 2);
  }

  /**
   * The seat in view that was picked last, or that is held, or the current one, or else the free one nearest to the middle, because
   * the middle itself may be the stage. -1 if there is none.
   */
  lookedAt() {
    const { plan, picture } = this;
    const isSeen = (seat) => {
      const [x, y] = picture.toScreen(plan.x[seat], plan.y[seat]);
      return x >= 0 && y >= 0 && x <= picture.width && y <= picture.height;
    };
    const chosen = [...[...this.picked].reverse(), this.focus, ...this.mine].find((seat) => seat >= 0 && isSeen(seat));
    if (chosen !== undefined) return chosen;
    const [cx, cy] = picture.toPlan(picture.width / 2, picture.usable() / 2);
    let [best, least] = [-1, Infinity];
    for (let seat = 0; seat < plan.size; seat += 1) {
      const distance = (plan.x[seat] - cx) ** 2 + (plan.y[seat] - cy) ** 2 + (this.shown[seat] === FREE ? 0 : TAKEN_FURTHER);
      if (distance < least && isSeen(seat)) [best, least] = [seat, distance];
    }
    return best;
  }

  /** Zooms around the current seat. */
  zoomFocus(factor) {
    if (this.focus < 0) {
      this.zoomMiddle(factor);
      return;
    }
    this.picture.zoom(factor, ...this.picture.toScreen(this.plan.x[this.focus], this.plan.y[this.focus]));
    this.picture.reveal(this.focus);
    this.tellSeat(this.focus, false);
  }

  // Input

  listen() {
    const { field } = this;
    const on = (type, act, options) => field.addEventListener(type, act.bind(this), options);
    on('pointerdown', this.down);
    on('pointermove', this.move);
    on('pointerup', this.up);
    on('pointercancel', this.cancel);
    on('pointerleave', () => this.setHover(-1));
    on('wheel', this.wheel, { passive: false });
    on('keydown', this.key);
    on('focus', this.focused);
    on('blur', () => {
      this.picture.setFocus(-1);
      this.hideTip();
    });
    this.restyle = () => this.picture.restyle();
    this.dark = matchMedia('(prefers-color-scheme: dark)');
    addEventListener('themechange', this.restyle);
    this.dark.addEventListener('change', this.restyle);
  }

  place(event) {
    const box = this.field.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  seatAt([px, py], reach) {
    const [x, y] = this.picture.toPlan(px, py);
    return this.plan.grid.near(x, y, Math.max(52, reach / this.picture.view.scale));
  }

  down(event) {
    if (event.button > 0) return;
    const at = this.place(event);
    this.pointers.set(event.pointerId, { at, from: at, touch: event.pointerType !== 'mouse' });
    if (this.pointers.size > 1) this.dragged = true;
    else this.dragged = false;
  }

  move(event) {
    const pointer = this.pointers.get(event.pointerId);
    const at = this.place(event);
    if (!pointer) {
      if (event.pointerType === 'mouse') this.setHover(this.seatAt(at, 4));
      return;
    }
    const far = Math.hypot(at[0] - pointer.from[0], at[1] - pointer.from[1]) > DRAG;
    if (!this.dragged && !far) return;
    if (!this.dragged) this.field.setPointerCapture(event.pointerId);
    this.dragged = true;
    this.setHover(-1);
    const others = [...this.pointers.values()].filter((other) => other !== pointer);
    if (others.length > 0) this.pinch(pointer.at, at, others[0].at);
    else this.picture.pan(at[0] - pointer.at[0], at[1] - pointer.at[1]);
    pointer.at = at;
  }

  pinch(before, at, other) {
    const length = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]);
    const middle = (point) => [(point[0] + other[0]) / 2, (point[1] + other[1]) / 2];
    const [from, to] = [middle(before), middle(at)];
    this.picture.pan(to[0] - from[0], to[1] - from[1]);
    this.picture.zoom(length(at) / Math.max(1, length(before)), ...to);
  }

  up(event) {
    const pointer = this.pointers.get(event.pointerId);
    this.pointers.delete(event.pointerId);
    if (!pointer || this.dragged) return;
    const seat = this.seatAt(this.place(event), pointer.touch ? TOUCH_REACH : 6);
    if (seat < 0) return;
    // On a small scale a finger covers many seats, so the first touch only zooms in.
    if (pointer.touch && 100 * this.picture.view.scale < 13) {
      this.picture.zoom(18 / (100 * this.picture.view.scale), ...this.place(event));
      return;
    }
    this.focus = seat;
    this.toggle(seat);
  }

  cancel(event) {
    this.pointers.delete(event.pointerId);
    this.dragged = true;
  }

  wheel(event) {
    const closer = event.deltaY < 0;
    // At the smallest scale the wheel scrolls the page.
    if (!closer && !this.picture.zoomed && !event.ctrlKey) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 30 : 1;
    this.picture.zoom(Math.exp((-event.deltaY * lines) / 400), ...this.place(event));
  }

  focused() {
    // A click focuses too. The seat that it picks is the current one.
    if (this.plan.size === 0 || !this.field.matches(':focus-visible')) return;
    this.setFocus(this.focus >= 0 ? this.focus : this.firstFree());
  }

  firstFree() {
    const free = this.shown.findIndex((state) => state === FREE);
    return free >= 0 ? free : 0;
  }

  key(event) {
    if (this.plan.size === 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const arrow = ARROWS[event.key];
    const row = this.focus >= 0 ? this.plan.rows[this.plan.row[this.focus]] : null;
    if (arrow) this.setFocus(this.focus < 0 ? this.firstFree() : this.plan.neighbour(this.focus, ...arrow));
    else if (event.key === 'Home' && row) this.setFocus(row.first);
    else if (event.key === 'End' && row) this.setFocus(row.first + row.count - 1);
    else if ((event.key === 'Enter' || event.key === ' ') && this.focus >= 0) this.toggle(this.focus);
    else if (event.key === '+' || event.key === '=') this.zoomFocus(ZOOM_STEP);
    else if (event.key === '-') this.zoomFocus(1 / ZOOM_STEP);
    else if (event.key === '0') this.picture.fit();
    else return;
    event.preventDefault();
  }
}

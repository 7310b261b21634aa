// What stands below a seat map on another site: the legend with prices, and the areas, whose places are picked by number.

import { nameFor } from '../names.js';

const CATEGORIES = 8;

/** An element with a class, attributes and children. */
export function make(tag, className, attributes = {}, ...children) {
  const element = document.createElement(tag);
  element.className = className;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** The categories of a plan with their colours and prices. */
export function legend(plan, money) {
  const entry = ({ name, price }, ordinal) => {
    const dot = make('span', 'legend__dot', { 'aria-hidden': 'true' });
    dot.style.setProperty('background', `var(--cat-${ordinal % CATEGORIES})`);
    return make('li', 'legend__entry', {}, dot, name, ...(price ? [' ', make('strong', '', {}, money(price))] : []));
  };
  return make('ul', 'legend', { 'aria-label': plan.words.legend, part: 'legend' }, ...plan.categories.map(entry));
}

/** The areas of a session, each with a stepper. Calls `onpick()` when a number changes, and asks `room()` how many more may be picked. */
export class Areas {
  constructor(session, words, language, { money, onpick, room }) {
    Object.assign(this, { words, onpick, room });
    this.isClosed = false;
    this.areas = new Map((session.areas || []).map((area) => [area.id, { ...area, name: nameFor(area.names, area.name || area.id, [language]), picked: 0, mine: 0 }]));
    this.element = make('ul', 'areas', { 'aria-label': words.places, part: 'areas' });
    this.element.hidden = this.areas.size === 0;
    for (const area of this.areas.values()) this.build(area, money);
  }

  build(area, money) {
    const { words } = this;
    const button = (text, label, by) => {
      const element = make('button', 'areas__button', { type: 'button', 'aria-label': label, part: 'step' }, text);
      element.addEventListener('click', () => this.step(area, by));
      return element;
    };
    area.left = make('span', 'areas__left');
    area.number = make('output', 'areas__number', { 'aria-live': 'polite', 'aria-label': area.name });
    area.less = button('−', words.less(area.name), -1);
    area.more = button('+', words.more(area.name), 1);
    const price = area.price ? [' ', make('strong', '', {}, money(area.price))] : [];
    const about = make('span', 'areas__about', {}, area.name, ...price, ' ', area.left);
    this.element.append(make('li', 'areas__area', { 'data-area': area.id }, about, make('span', 'areas__stepper', {}, area.less, area.number, area.more)));
    this.dress(area);
  }

  dress(area) {
    const { words } = this;
    const { free, mine, picked } = area;
    const left = free === undefined ? '' : free > 0 ? words.free(free) : words.soldOut;
    area.left.textContent = [left, mine > 0 ? words.held(mine) : ''].filter(Boolean).join(' · ');
    area.number.textContent = picked;
    // A button that is disabled while it is used would lose the focus, so these stay, and say that they do nothing.
    area.less.setAttribute('aria-disabled', picked === 0);
    area.more.setAttribute('aria-disabled', this.isClosed || picked >= (free ?? Infinity) || this.room() <= 0);
  }

  step(area, by) {
    if (by > 0 && (this.isClosed || area.picked >= (area.free ?? Infinity) || this.room() <= 0)) return;
    if (by < 0 && area.picked === 0) return;
    area.picked += by;
    this.changed();
    this.onpick();
  }

  /** Whether nothing can be picked, because the session does not sell. */
  close(isClosed) {
    this.isClosed = isClosed;
    this.changed();
  }

  /** How many more may be picked has changed. */
  changed() {
    for (const area of this.areas.values()) this.dress(area);
  }

  /** Shows the numbers of places now. */
  show(counts) {
    for (const { area: id, free } of counts) {
      const area = this.areas.get(id);
      if (area) area.free = free;
    }
    this.changed();
  }

  /** The picked places that others have, by area, each as in the event. `spared` are the places that the buyer has of those. */
  missing(spared) {
    const of = ({ id, name, price, picked, free }) => ({ area: id, name, price, quantity: picked - (free ?? picked) - (spared.get(id) || 0) });
    return new Map([...this.areas.values()].map(of).filter(({ quantity }) => quantity > 0).map((each) => [each.area, each]));
  }

  setMine(quantities) {
    for (const [id, area] of this.areas) area.mine = quantities.get(id) || 0;
    this.changed();
  }

  /** Picks so many places of an area. */
  pick(id, quantity) {
    const area = this.areas.get(id);
    if (area) area.picked = Math.max(0, quantity);
    this.changed();
  }

  /** The picked places: `[{area, name, quantity, price}]`. */
  get picked() {
    const all = [...this.areas.values()].filter(({ picked }) => picked > 0);
    return all.map(({ id, name, picked, price }) => ({ area: id, name, quantity: picked, price }));
  }

  get count() {
    return this.picked.reduce((sum, { quantity }) => sum + quantity, 0);
  }
}

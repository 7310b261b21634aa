// What stands below a seat map on another site: the legend with prices, and the areas, whose places are picked by number.

import { nameFor } from '../names.js';
import { chosenOf, isChoice, nameIn } from '../offers.js';

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
  const entry = (category, ordinal) => {
    const price = plan.priceText(category, money);
    const dot = make('span', 'legend__dot', { 'aria-hidden': 'true' });
    dot.style.setProperty('background', `var(--cat-${ordinal % CATEGORIES})`);
    return make('li', 'legend__entry', {}, dot, category.name, ...(price ? [' ', make('strong', '', {}, price)] : []));
  };
  return make('ul', 'legend', { 'aria-label': plan.words.legend, part: 'legend' }, ...plan.categories.map(entry));
}

/** A select of the price types that `choices` has. A type that is sold out can be read and not chosen. */
export function typeSelect(session, { words, language, money, currency, label }) {
  const element = make('select', 'types__select', { 'aria-label': label, part: 'type' });
  element.hidden = !isChoice(session);
  const show = (ways, chosen) => {
    element.replaceChildren(...ways.map(({ type, amount, left }) => {
      const option = make('option', '', { value: type ?? '' }, `${nameIn(session.price_types, type, [language])} — ${left > 0 ? money({ amount, currency }) : words.soldOut}`);
      option.disabled = left === 0;
      return option;
    }));
    element.value = chosenOf(ways, chosen) ?? '';
  };
  return { element, show };
}

/** The picked seats of a session with price types, each with a select. Calls `onchoose(seat, type)`. */
export class Picks {
  constructor(session, plan, { language, money, onchoose }) {
    Object.assign(this, { session, plan, language, money, onchoose });
    this.element = make('ul', 'types', { 'aria-label': plan.words.pickedSeats, part: 'types' });
    this.selects = new Map();
    this.show([]);
  }

  /** `seats` are [{seat, ways, type}]. A select that has the focus stays. */
  show(seats) {
    const { plan, language, money, session } = this;
    const before = this.selects;
    this.selects = new Map(seats.map(({ seat, ways, type }) => {
      const known = before.get(seat) ?? this.build(seat, { words: plan.words, language, money, currency: plan.price(seat)?.currency, label: plan.words.priceFor(plan.name(seat)) });
      const stamp = JSON.stringify([ways.map(({ amount, left }) => [amount, left > 0]), type]);
      if (known.stamp !== stamp) known.select.show(ways, type);
      known.stamp = stamp;
      return [seat, known];
    }));
    for (const [seat, { row }] of before) if (!this.selects.has(seat)) row.remove();
    for (const [seat, { row }] of this.selects) if (!before.has(seat)) this.element.append(row);
    this.element.hidden = !isChoice(session) || seats.length === 0;
  }

  build(seat, options) {
    const select = typeSelect(this.session, options);
    select.element.addEventListener('change', () => this.onchoose(seat, select.element.value));
    return { select, row: make('li', 'types__seat', { 'data-seat': this.plan.seat(seat).join(',') }, this.plan.name(seat), ' ', select.element) };
  }
}

/** The areas of a session, each with a stepper. Calls `onpick()` when a number changes, and asks `room()` how many more may be picked. */
export class Areas {
  constructor(session, words, language, { money, onpick, room }) {
    Object.assign(this, { words, onpick, room, session, language, money });
    this.isClosed = false;
    this.areas = new Map((session.areas || []).map((area) => [area.id, { ...area, name: nameFor(area.names, area.name || area.id, [language]), picked: 0, mine: 0, ways: [], isSold: true }]));
    this.element = make('ul', 'areas', { 'aria-label': words.places, part: 'areas' });
    this.element.hidden = this.areas.size === 0;
    for (const area of this.areas.values()) this.build(area);
  }

  build(area) {
    const { words, session, language, money } = this;
    const button = (text, label, by) => {
      const element = make('button', 'areas__button', { type: 'button', 'aria-label': label, part: 'step' }, text);
      element.addEventListener('click', () => this.step(area, by));
      return element;
    };
    area.left = make('span', 'areas__left');
    area.number = make('output', 'areas__number', { 'aria-live': 'polite', 'aria-label': area.name });
    area.less = button('−', words.less(area.name), -1);
    area.more = button('+', words.more(area.name), 1);
    area.cost = make('strong', '', {}, area.price ? money(area.price) : '');
    area.type = typeSelect(session, { words, language, money, currency: area.price?.currency, label: words.priceFor(area.name) });
    area.type.element.addEventListener('change', () => {
      area.chosen = area.type.element.value;
      this.price(area);
      this.onpick();
    });
    const about = make('span', 'areas__about', {}, area.name, ' ', area.cost, ' ', area.left);
    this.element.append(make('li', 'areas__area', { 'data-area': area.id }, about, area.type.element, make('span', 'areas__stepper', {}, area.less, area.number, area.more)));
    this.dress(area);
  }

  /** Takes what is on sale: `waysOf(area)` is that of `choices`. */
  offer(waysOf) {
    for (const area of this.areas.values()) {
      area.ways = waysOf(area.id);
      area.isSold = area.ways.some(({ left }) => left > 0);
      area.type.show(area.ways, area.chosen);
      this.price(area);
    }
    this.changed();
  }

  /** The price of the chosen type. */
  price(area) {
    area.as = chosenOf(area.ways, area.chosen);
    const way = area.ways.find(({ type, left }) => left > 0 && type === area.as);
    if (way && area.price) area.price = { ...area.price, amount: way.amount };
    if (area.price) area.cost.textContent = area.isSold ? this.money(area.price) : this.words.notSold;
  }

  dress(area) {
    const { words } = this;
    const { free, mine, picked } = area;
    const left = free === undefined ? '' : free > 0 ? words.free(free) : words.soldOut;
    area.left.textContent = [left, mine > 0 ? words.held(mine) : ''].filter(Boolean).join(' · ');
    area.number.textContent = picked;
    // A button that is disabled while it is used would lose the focus, so these stay, and say that they do nothing.
    area.less.setAttribute('aria-disabled', picked === 0);
    area.more.setAttribute('aria-disabled', this.isClosed || !area.isSold || picked >= (free ?? Infinity) || this.room() <= 0);
  }

  step(area, by) {
    if (by > 0 && (this.isClosed || !area.isSold || area.picked >= (area.free ?? Infinity) || this.room() <= 0)) return;
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
    const of = ({ id, name, price, as, picked, free }) => ({ area: id, name, price, ...(as && { type: as }), quantity: picked - (free ?? picked) - (spared.get(id) || 0) });
    return new Map([...this.areas.values()].map(of).filter(({ quantity }) => quantity > 0).map((each) => [each.area, each]));
  }

  setMine(quantities) {
    for (const [id, area] of this.areas) area.mine = quantities.get(id) || 0;
    this.changed();
  }

  /** Picks so many places of an area, as a price type if one is named. */
  pick(id, quantity, type) {
    const area = this.areas.get(id);
    if (area) area.picked = Math.max(0, quantity);
    if (area && type) {
      area.chosen = type;
      area.type.show(area.ways, type);
      this.price(area);
    }
    this.changed();
  }

  /** The picked places: `[{area, name, quantity, price, type}]`. Sessions without price types have no `type`. */
  get picked() {
    const all = [...this.areas.values()].filter(({ picked }) => picked > 0);
    return all.map(({ id, name, picked, price, as }) => ({ area: id, name, quantity: picked, price, ...(as && { type: as }) }));
  }

  get count() {
    return this.picked.reduce((sum, { quantity }) => sum + quantity, 0);
  }
}

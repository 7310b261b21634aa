// The plan of a session: the position, name and price of each seat, and the seat near a point.
//
// Units are hundredths of a seat's width, as in layouts. y grows away from the stage.

import { nameFor } from '../names.js';
import { shown } from '../offers.js';
import { wordsOf } from './words.js';

/** Straight rows of different sections are drawn this much further apart than they are counted. */
const SECTION_GAP = 170;
/** The width of a seat. */
const SEAT = 100;
const CELL = 200;

export class Plan {
  /** `session` is an answer of `session.get`. Names are for the language, or for the browser's languages without one. */
  constructor(session, language) {
    this.words = wordsOf(language);
    const rows = session.layout?.rows || [];
    this.names = { sections: session.layout?.section_names || {}, categories: session.layout?.category_names || {} };
    this.languages = language ? [language] : undefined;
    this.stage = nameFor(session.layout?.stage_names, this.words.stage, this.languages);
    this.rows = [];
    this.size = rows.reduce((sum, row) => sum + row.runs.reduce((seats, run) => seats + run.count, 0), 0);
    this.x = new Float32Array(this.size);
    this.y = new Float32Array(this.size);
    this.row = new Uint16Array(this.size);
    this.category = new Uint8Array(this.size);
    this.accessible = new Uint8Array(this.size);
    this.labels = new Array(this.size);
    this.categories = categoriesOf(this, session, rows);
    this.ordinals = new Map(this.categories.map((category, ordinal) => [category.id, ordinal]));
    this.focal = session.layout?.focal || null;
    this.place(rows);
    this.notes = notesOf(this, session.layout?.seat_notes || []);
    this.bounds = boundsOf(this);
    this.sections = sectionsOf(this);
    this.grid = new Grid(this);
  }

  place(rows) {
    const straight = rows.every((row) => row.runs.every((run) => !run.points?.length));
    let index = 0;
    let down = 0;
    rows.forEach((row, number) => {
      if (straight && number > 0 && rows[number - 1].section !== row.section) down += SECTION_GAP;
      const first = index;
      const width = row.runs.reduce((sum, run) => sum + run.gap + run.count, 0);
      let x = -((width - 1) / 2) * 100;
      for (const run of row.runs) {
        x += run.gap * 100;
        for (let seat = 0; seat < run.count; seat += 1, index += 1, x += 100) {
          const point = run.points?.[seat] || [x, number * 100 + down];
          [this.x[index], this.y[index]] = point;
          this.row[index] = number;
          this.labels[index] = run.names ? run.names[seat] : String(run.first + run.step * seat);
          this.category[index] = this.ordinals.get(run.category);
          this.accessible[index] = run.accessible ? 1 : 0;
        }
      }
      this.rows.push({ label: row.label, section: row.section || null, first, count: index - first });
    });
  }

  /** The index of [row, seat], or -1. */
  index([row, seat]) {
    const known = this.rows[row];
    return known && seat < known.count ? known.first + seat : -1;
  }

  /** [row, seat] of an index. */
  seat(index) {
    const row = this.row[index];
    return [row, index - this.rows[row].first];
  }

  /** A section by its name for people. */
  sectionName(id) {
    return nameFor(this.names.sections[id], sectionName(id), this.languages);
  }

  /** A category by its name for people. */
  categoryName(id) {
    return nameFor(this.names.categories[id], sectionName(id), this.languages);
  }

  /** "Row A seat 5", with the section if there are several. */
  name(index) {
    const row = this.rows[this.row[index]];
    const section = row.section && this.sections.length > 1 ? `${this.sectionName(row.section)}, ` : '';
    const name = row.label.length > 3 ? row.label : this.words.row(row.label);
    return `${section}${name} ${this.words.seat(this.labels[index])}`;
  }

  /** What the house says of a seat, such as that its view is restricted. Undefined if nothing. */
  note(index) {
    return this.notes.get(index);
  }

  /** The accessible seats beside a seat that is kept for somebody who comes along. Undefined for other seats. */
  beside(index) {
    return this.companions?.get(index);
  }

  /** {amount, currency} */
  price(index) {
    return this.categories[this.category[index]].price;
  }

  /** Takes what is on sale at an instant: the price of each category for its first price type, the range of all, and whether it is sold. */
  offer(session, now) {
    this.companions = companionsOf(this, session.allotments || []);
    for (const category of this.categories) {
      const list = session.prices?.[category.id] || null;
      const amounts = shown(session, { category: category.id }, now).filter(({ left }) => left > 0).map(({ amount }) => amount);
      category.isSold = amounts.length > 0 || !session.offers?.length;
      category.price = list && amounts.length > 0 ? { ...list, amount: amounts[0] } : list;
      category.range = [Math.min(...amounts), Math.max(...amounts)];
    }
  }

  /** The price of a category, "€20" or "€10 – €20", or that it is not on sale. Empty if it has none. */
  priceText({ price, range, isSold = true }, money) {
    if (!isSold) return this.words.notSold;
    if (!price) return '';
    if (!range || !(range[0] < range[1])) return money(price);
    return range.map((amount) => money({ ...price, amount })).join(' – ');
  }

  /** The nearest seat in a direction, or the same one: dx, dy are -1, 0 or 1. */
  neighbour(index, dx, dy) {
    const row = this.rows[this.row[index]];
    const beside = index + dx;
    if (dx !== 0 && beside >= row.first && beside < row.first + row.count) return beside;
    let [best, least] = [index, Infinity];
    for (let other = 0; other < this.size; other += 1) {
      const [ex, ey] = [this.x[other] - this.x[index], this.y[other] - this.y[index]];
      const along = ex * dx + ey * dy;
      if (along <= 20 || (dy !== 0 && this.row[other] === this.row[index])) continue;
      const across = Math.abs(ex * dy) + Math.abs(ey * dx);
      const distance = along + 2 * across;
      if (distance < least) [best, least] = [other, distance];
    }
    return best;
  }
}

function notesOf(plan, notes) {
  const all = new Map();
  for (const { text, names, seats } of notes) {
    const shown = nameFor(names, text, plan.languages);
    for (const seat of seats) all.set(plan.index(seat), shown);
  }
  return all;
}

function companionsOf(plan, allotments) {
  const all = new Map();
  for (const seat of allotments.filter(({ companions }) => companions).flatMap(({ seats }) => seats)) {
    const index = plan.index(seat);
    const isBeside = (other) => plan.row[other] === plan.row[index] && plan.accessible[other] === 1;
    all.set(index, [index - 1, index + 1].filter(isBeside));
  }
  return all;
}

function categoriesOf(plan, session, rows) {
  const ids = new Set();
  for (const row of rows) for (const run of row.runs) ids.add(run.category);
  const categories = [...ids].map((id) => ({ id, name: plan.categoryName(id), price: session.prices?.[id] || null }));
  categories.sort((one, other) => (other.price?.amount ?? 0) - (one.price?.amount ?? 0));
  return categories;
}

function boundsOf({ x, y, size }) {
  if (size === 0) return { left: -500, right: 500, top: 0, bottom: 500 };
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let seat = 0; seat < size; seat += 1) {
    left = Math.min(left, x[seat]);
    right = Math.max(right, x[seat]);
    top = Math.min(top, y[seat]);
    bottom = Math.max(bottom, y[seat]);
  }
  return { left, right, top, bottom };
}

/** Sections with the places of their names: behind the middle of their last seats, and in the middle of all. */
function sectionsOf(plan) {
  const sections = new Map();
  plan.rows.forEach((row) => {
    if (!row.section) return;
    const section = sections.get(row.section) || { id: row.section, name: plan.sectionName(row.section), bottom: -Infinity, seats: [] };
    for (let seat = row.first; seat < row.first + row.count; seat += 1) {
      section.bottom = Math.max(section.bottom, plan.y[seat]);
      section.seats.push(seat);
    }
    sections.set(row.section, section);
  });
  return [...sections.values()].map(({ id, name, bottom, seats }) => {
    let [left, right, x, y] = [Infinity, -Infinity, 0, 0];
    for (const seat of seats) {
      x += plan.x[seat] / seats.length;
      y += plan.y[seat] / seats.length;
      if (plan.y[seat] <= bottom - SEAT) continue;
      left = Math.min(left, plan.x[seat]);
      right = Math.max(right, plan.x[seat]);
    }
    return { id, name, bottom, middle: (left + right) / 2, center: [x, y] };
  });
}

export function sectionName(id) {
  const text = id.replace(/[-_.]+/g, ' ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Longer labels name boxes or tables, which are not called "Row". */
export function rowName(label) {
  return label.length > 3 ? label : `Row ${label}`;
}

/** The seats in each square of the plan. */
class Grid {
  constructor(plan) {
    this.plan = plan;
    this.cells = new Map();
    for (let seat = 0; seat < plan.size; seat += 1) {
      const key = this.key(plan.x[seat], plan.y[seat]);
      const cell = this.cells.get(key);
      if (cell) cell.push(seat);
      else this.cells.set(key, [seat]);
    }
  }

  key(x, y) {
    return Math.floor(x / CELL) * 65_536 + Math.floor(y / CELL);
  }

  /** The seat nearest to a point, at most `reach` away. -1 if there is none. */
  near(x, y, reach) {
    const { plan } = this;
    let [best, least] = [-1, reach * reach];
    for (let cx = Math.floor((x - reach) / CELL); cx <= Math.floor((x + reach) / CELL); cx += 1) {
      for (let cy = Math.floor((y - reach) / CELL); cy <= Math.floor((y + reach) / CELL); cy += 1) {
        for (const seat of this.cells.get(cx * 65_536 + cy) || []) {
          const distance = (plan.x[seat] - x) ** 2 + (plan.y[seat] - y) ** 2;
          if (distance < least) [best, least] = [seat, distance];
        }
      }
    }
    return best;
  }
}

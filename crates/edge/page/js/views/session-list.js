// The house as a list, for people whom a picture does not help. Rows show their free seats, and seats are buttons.

import { fill, h } from '../dom.js';
import { rowName } from '../map/plan.js';

const EVERY_MS = 1_000;

/** `toggle(seat)` picks. `states(() => map)` sets the source of the states. Call `changed()` after each change. */
export function seatList(plan, toggle) {
  const rows = h('ul', { class: 'rows' });
  const element = h('details', { class: 'list', id: 'list' }, h('summary', { class: 'list__title' }, 'The house as a list'), rows);
  let mapOf = () => null;
  let timer = null;
  const open = new Set();

  const seatButton = (map, seat) => {
    const free = (map.shown[seat] === 0 || map.isAccompanied(seat)) && !map.mine.has(seat);
    return h('button', {
      class: 'rows__seat', type: 'button', dataset: { seat: plan.seat(seat).join(','), state: map.mine.has(seat) ? 'mine' : map.shown[seat] },
      'aria-pressed': String(map.picked.has(seat)), 'aria-disabled': free ? undefined : 'true', 'aria-label': map.describe(seat).join(', '), onclick: () => toggle(seat),
    }, plan.labels[seat]);
  };
  const draw = () => {
    timer = null;
    const map = mapOf();
    if (!element.open || !map) return;
    const focused = document.activeElement?.dataset?.seat;
    fill(rows, plan.rows.map((row, number) => {
      const seats = Array.from({ length: row.count }, (_, offset) => row.first + offset);
      const free = seats.filter((seat) => map.shown[seat] === 0).length;
      const name = `${row.section ? `${plan.sectionName(row.section)}, ` : ''}${rowName(row.label)}`;
      const head = h('button', { class: 'rows__name', type: 'button', 'aria-expanded': String(open.has(number)), onclick: () => {
        if (!open.delete(number)) open.add(number);
        draw();
      } }, name, h('span', { class: 'muted small number' }, ` ${free} of ${row.count} free`));
      return h('li', { class: 'rows__row' }, head, open.has(number) ? h('div', { class: 'rows__seats' }, seats.map((seat) => seatButton(map, seat))) : null);
    }));
    if (focused) rows.querySelector(`[data-seat="${focused}"]`)?.focus();
  };
  const changed = () => {
    if (element.open && !timer) timer = setTimeout(draw, EVERY_MS);
  };
  element.addEventListener('toggle', draw);
  rows.addEventListener('click', () => queueMicrotask(draw));
  return { element, changed, states: (of) => { mapOf = of; } };
}

// Areas of a session: places without seats, sold by number.

import { h, money, titled } from '../dom.js';
import { nameFor } from '../names.js';
import { button, countsBar, stepper } from '../parts.js';

/** Cards of all areas, with `hold(area, quantity)`. `show(areas)` updates the free places. `close(is)` takes the buttons away. */
export function areaCards(session, hold) {
  const cards = new Map();
  const element = h('div', { class: 'areas stack' });
  for (const area of session.areas || []) {
    const name = nameFor(area.names, area.name || titled(area.id));
    const counts = countsBar();
    counts.show({}, [area]);
    const quantity = stepper({ value: 1, min: 1, max: 20, label: `Places in ${name}` });
    const act = button('Hold places', () => hold(area.id, quantity.value), { class: 'button--main', 'data-act': 'hold-area' });
    const buy = h('div', { class: 'row row--apart' }, quantity.element, act);
    element.append(h('section', { class: 'card area', dataset: { area: area.id }, 'aria-label': name },
      h('div', { class: 'row row--apart' }, h('h2', { class: 'area__name' }, name), h('strong', { class: 'number' }, money(area.price.amount, area.price.currency))),
      counts.element, buy));
    cards.set(area.id, { counts, buy, free: 1 });
  }
  let isClosed = false;
  // Nothing is offered that cannot be had. The counts say "sold out".
  const offer = () => cards.forEach(({ buy, free }) => { buy.hidden = isClosed || free === 0; });
  const show = (areas) => {
    for (const area of areas) {
      const card = cards.get(area.area);
      if (!card) continue;
      card.counts.show({}, [area]);
      card.free = area.free;
    }
    offer();
  };
  /** Whether nothing is sold at all. */
  const close = (is) => {
    isClosed = is;
    offer();
  };
  if (cards.size === 0) element.hidden = true;
  return { element, show, close };
}

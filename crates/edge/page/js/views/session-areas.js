// Areas of a session: places without seats, sold by number.

import { h, money, titled } from '../dom.js';
import { nameFor } from '../names.js';
import { shown } from '../offers.js';
import { button, countsBar, stepper } from '../parts.js';
import { typeOptions, typeSelect } from './session-types.js';

/**
 * Cards of all areas, with `hold(area, quantity, types)`. `show(areas)` updates the free places, and `price(sold, now, held)` what is on
 * sale of the session as it is `sold` to this buyer. `close(is)` takes the buttons away.
 */
export function areaCards(session, words, hold) {
  const cards = new Map();
  const element = h('div', { class: 'areas stack' });
  for (const area of session.areas || []) {
    const name = nameFor(area.names, area.name || titled(area.id));
    const counts = countsBar();
    counts.show({}, [area]);
    const quantity = stepper({ value: 1, min: 1, max: 20, label: `Places in ${name}` });
    const price = h('strong', { class: 'number' }, money(area.price.amount, area.price.currency));
    const card = { area, counts, price, free: 1, ways: [], isSold: true };
    card.type = typeSelect(session, { 'data-type': area.id, 'aria-label': words.priceFor(name), onchange: () => tell(card) });
    const act = button('Hold places', () => hold(area.id, quantity.value, card.type.element.value ? [card.type.element.value] : undefined), { class: 'button--main', 'data-act': 'hold-area' });
    card.buy = h('div', { class: 'stack' }, card.type.element, h('div', { class: 'row row--apart' }, quantity.element, act));
    element.append(h('section', { class: 'card area', dataset: { area: area.id }, 'aria-label': name },
      h('div', { class: 'row row--apart' }, h('h2', { class: 'area__name' }, name), price),
      counts.element, card.buy));
    cards.set(area.id, card);
  }
  /** The price of the chosen type. */
  const tell = ({ area, price, ways, type, isSold }) => {
    const way = ways.find((each) => each.type === type.element.value) || ways[0];
    price.textContent = isSold ? money(way.amount, area.price.currency) : words.notSold;
  };
  let isClosed = false;
  // Nothing is offered that cannot be had. The counts say "sold out".
  const offer = () => cards.forEach(({ buy, free, isSold }) => { buy.hidden = isClosed || free === 0 || !isSold; });
  const show = (areas) => {
    for (const area of areas) {
      const card = cards.get(area.area);
      if (!card) continue;
      card.counts.show({}, [area]);
      card.free = area.free;
    }
    offer();
  };
  const price = (sold, now, held) => {
    for (const card of cards.values()) {
      const { area, type } = card;
      card.ways = shown(sold, { area: area.id }, now, held);
      card.isSold = card.ways.some(({ left }) => left > 0);
      type.show(typeOptions(session, card.ways, area.price.currency, words));
      tell(card);
    }
    offer();
  };
  /** Whether nothing is sold at all. */
  const close = (is) => {
    isClosed = is;
    offer();
  };
  if (cards.size === 0) element.hidden = true;
  return { element, size: cards.size, show, price, close };
}

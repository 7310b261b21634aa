// The way to pay at the gateway for trials (docs/reference/gateway.md): instead of a card, one says what the gateway shall do.

import { h } from '../dom.js';

const OUTCOMES = [
  ['ok', 'Approve'],
  ['decline', 'Decline'],
  ['late-4000', 'Decide after four seconds'],
  ['lost-2', 'Approve, but lose two answers'],
  ['capture-fails', 'Approve, then fail to take the money'],
];

/** Puts what people need to see into `place`; `source()` is what the gateway is told to charge. */
export default function mount(place) {
  const source = h('select', { class: 'input', id: 'source' }, OUTCOMES.map(([value, text]) => h('option', { value }, `${text} (${value})`)));
  place.append(h('div', { class: 'field' }, h('label', { class: 'field__label', for: 'source' }, 'The gateway for trials shall …'), source));
  return { source: () => source.value };
}

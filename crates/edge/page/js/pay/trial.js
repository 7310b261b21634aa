// The payment form of the gateway for trials (docs/reference/gateway.md). Instead of a card, the buyer chooses the outcome.

import { h } from '../dom.js';

const OUTCOMES = [
  ['ok', 'Approve'],
  ['decline', 'Decline'],
  ['late-4000', 'Decide after four seconds'],
  ['lost-2', 'Approve, but lose two answers'],
  ['capture-fails', 'Approve, then fail to take the money'],
];

/** Puts the form into `place`. `source()` returns the source that the gateway charges. */
export default function mount(place) {
  const source = h('select', { class: 'input', id: 'source' }, OUTCOMES.map(([value, text]) => h('option', { value }, `${text} (${value})`)));
  place.append(h('div', { class: 'field' }, h('label', { class: 'field__label', for: 'source' }, 'The gateway for trials shall …'), source));
  return { source: () => source.value };
}

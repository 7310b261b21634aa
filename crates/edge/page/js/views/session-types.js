// Price types to choose from, in selects.

import { fill, h, money } from '../dom.js';
import { hasTypes, isChoice, nameIn } from '../offers.js';

/** Fewer than these are said to be left. */
const FEW = 10;

/** The options of a select for what `choices` says. A type that is sold out can be read and not chosen. */
export function typeOptions(session, ways, currency, words) {
  if (!hasTypes(session)) return [];
  return ways.map(({ type, amount, left }) => {
    const more = left === 0 ? words.soldOut : money(amount, currency);
    const few = left > 0 && left < FEW ? ` (${words.left(left)})` : '';
    return h('option', { value: type, disabled: left === 0 }, `${nameIn(session.price_types, type)} — ${more}${few}`);
  });
}

/** A select that stays. `show(options)` replaces its options and keeps what is chosen. Hidden where there is nothing to choose. */
export function typeSelect(session, attributes) {
  const element = h('select', { ...attributes, class: `input ${attributes.class || ''}` });
  const show = (options) => {
    const { value } = element;
    fill(element, options);
    const open = options.filter((option) => !option.disabled);
    element.value = (open.find((option) => option.value === value) || open[0])?.value ?? '';
    element.hidden = !isChoice(session);
  };
  return { element, show };
}

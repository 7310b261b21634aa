// "Best available": how many, and of which kind.

import { h, money } from '../dom.js';
import { button, stepper } from '../parts.js';

/** `hold({count, category, section, accessible, split, types})`. `type` is the select of price types, hidden if there is no choice. */
export function bestForm(plan, type, hold) {
  const count = stepper({ value: 2, min: 1, max: 20, label: 'Seats' });
  count.element.id = 'best-count';
  const category = select('best-category', 'Any category', plan.categories.map(({ id, price }) => [id, price ? `${plan.categoryName(id)} — ${money(price.amount, price.currency)}` : plan.categoryName(id)]));
  const section = select('best-section', 'Anywhere', plan.sections.map(({ id, name }) => [id, name]));
  const accessible = h('input', { type: 'checkbox', id: 'best-accessible' });
  const split = h('input', { type: 'checkbox', id: 'best-split' });
  const ask = () => hold({
    count: count.value,
    category: category.value || undefined,
    section: section.value || undefined,
    accessible: accessible.checked || undefined,
    split: split.checked || undefined,
    types: type.value ? [type.value] : undefined,
  });
  return h('section', { class: 'card best stack', 'aria-labelledby': 'best-title' },
    h('h2', { class: 'best__title', id: 'best-title' }, 'Best available'),
    h('div', { class: 'best__fields' },
      h('div', { class: 'row row--apart' }, h('span', { class: 'field__label' }, 'Seats'), count.element),
      plan.categories.length > 1 ? field('Category', 'best-category', category) : null,
      plan.sections.length > 1 ? field('Part of the house', 'best-section', section) : null,
      type,
      h('div', { class: 'row' },
        plan.accessible.includes(1) ? h('label', { class: 'choice' }, accessible, 'Wheelchair places') : null,
        h('label', { class: 'choice' }, split, 'May be apart'))),
    button('Hold the best', ask, { id: 'best' }));
}

function select(id, any, options) {
  return h('select', { class: 'input', id }, h('option', { value: '' }, any), options.map(([value, text]) => h('option', { value }, text)));
}

function field(label, id, control) {
  return h('div', { class: 'field' }, h('label', { class: 'field__label', for: id }, label), control);
}

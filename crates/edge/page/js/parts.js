// Parts that several views show: how much is left, a stepper, a button that waits.

import { fill, h, whole } from './dom.js';

/** A bar of free, held and sold with its numbers. `show(counts, areas)` updates it. */
export function countsBar() {
  const parts = ['sold', 'held', 'free'].map((state) => h('span', { class: `bar__part bar__part--${state}` }));
  const bar = h('div', { class: 'bar', 'aria-hidden': 'true' }, parts);
  const text = h('p', { class: 'counts__text small muted number' }, '…');
  const element = h('div', { class: 'counts', dataset: { counts: '' } }, bar, text);
  const show = (counts, areas) => {
    const sum = summed(counts, areas);
    const all = Math.max(1, sum.free + sum.held + sum.sold);
    ['sold', 'held', 'free'].forEach((state, index) => parts[index].style.setProperty('width', `${(100 * sum[state]) / all}%`));
    Object.assign(element.dataset, { free: sum.free, held: sum.held, sold: sum.sold });
    const [free, held, sold] = [sum.free, sum.held, sum.sold].map(whole);
    const some = sum.held > 0 ? `${held} held · ` : '';
    const words = sum.free === 0 ? `sold out${sum.held > 0 ? ` · ${held} held` : ''}` : `${free} free · ${some}${sold} sold`;
    if (text.textContent !== words) text.textContent = words;
  };
  return { element, show };
}

/** Seats and places together. */
export function summed(counts = {}, areas = []) {
  const sum = { free: counts.free || 0, held: counts.held || 0, sold: counts.sold || 0 };
  for (const area of areas || []) for (const state of ['free', 'held', 'sold']) sum[state] += area[state] || 0;
  return sum;
}

/** − n +, with `onchange(value)`. */
export function stepper({ value = 1, min = 1, max = 20, label, onchange = () => {} }) {
  const shown = h('span', { class: 'stepper__value', role: 'status' }, String(value));
  const less = h('button', { class: 'stepper__button', type: 'button', 'aria-label': `${label}: one less`, onclick: () => set(value - 1) }, '−');
  const more = h('button', { class: 'stepper__button', type: 'button', 'aria-label': `${label}: one more`, onclick: () => set(value + 1) }, '+');
  const element = h('span', { class: 'stepper', role: 'group', 'aria-label': label }, less, shown, more);
  const set = (next, quiet) => {
    value = Math.min(max, Math.max(min, next));
    shown.textContent = value;
    element.dataset.value = value;
    less.disabled = value <= min;
    more.disabled = value >= max;
    if (!quiet) onchange(value);
  };
  set(value, true);
  return { element, get value() { return value; }, set: (next) => set(next, true) };
}

/** A button that does one thing at a time. */
export function button(text, act, attributes = {}) {
  const element = h('button', { type: 'button', ...attributes, class: `button ${attributes.class || ''}` }, text);
  let busy = false;
  element.addEventListener('click', async () => {
    if (busy) return;
    busy = true;
    element.setAttribute('aria-busy', 'true');
    try {
      await act();
    } finally {
      busy = false;
      element.removeAttribute('aria-busy');
    }
  });
  return element;
}

/** A place for notes in a view: `note.show('bad', …)`, `note.clear()`. */
export function noteBox(id) {
  const element = h('div', { id, class: 'note-box', role: 'status' });
  return {
    element,
    show: (tone, ...children) => fill(element, h('div', { class: `notice notice--${tone}`, dataset: { tone } }, ...children)),
    clear: () => fill(element),
  };
}

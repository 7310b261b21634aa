// Small helpers to make elements and to format money and times.

import { digitsOf } from './money.js';

/** An element: `h('a', {class: 'x', href: '…', onclick: f, dataset: {…}}, children…)`. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  dress(element, attributes);
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  dress(element, attributes);
  element.append(...children);
  return element;
}

function dress(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'dataset') Object.assign(element.dataset, value);
    else if (name === 'style') for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else if (name === 'value') element.value = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
}

/** Replaces all children by these. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const formats = new Map();

function format(key, make) {
  if (!formats.has(key)) formats.set(key, make());
  return formats.get(key);
}

const language = () => document.documentElement.lang || 'en';

/** Money in minor units, as people write it. A whole amount has no digits behind the point. */
export function money(amount, currency) {
  const digits = digitsOf(currency);
  const units = amount / 10 ** digits;
  const least = Number.isInteger(units) ? 0 : digits;
  const number = format(`money ${currency} ${least}`, () => {
    const fraction = { minimumFractionDigits: least, maximumFractionDigits: digits };
    try {
      return new Intl.NumberFormat(language(), { style: 'currency', currency, ...fraction });
    } catch {
      return new Intl.NumberFormat(language(), fraction);
    }
  });
  return number.format(units);
}

/** A whole number: "20,025". */
export function whole(number) {
  return format('whole number', () => new Intl.NumberFormat(language(), { maximumFractionDigits: 0 })).format(number);
}

/** A time by this browser's own clock, for what concerns the buyer now: "19:30". Times of shows are in local-time.js. */
export function clock(time) {
  return format('clock', () => new Intl.DateTimeFormat(language(), { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })).format(new Date(time));
}

/** A length of time as a countdown: "9:05". */
export function countdown(milliseconds) {
  const seconds = Math.max(0, Math.ceil(milliseconds / 1000));
  const [hours, minutes, rest] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const two = (number) => String(number).padStart(2, '0');
  return hours > 0 ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** An id as a title, if nothing better is known: "the-tempest" is "The tempest". */
export function titled(id) {
  const text = id.replace(/[-_.:]+/g, ' ').trim();
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// Refusals and failures in the words of a box office. The words are templates of the server's table of refusals (words.js).

import { WORDS } from './words.js';

/**
 * A place in a template. `{free}` is a field of the answer, `{retry_after_ms:span}` a span of milliseconds in words, and
 * `{message:reason}` what the message says after its first colon. `{shortages.held?}` is not shown.
 */
const PLACE = /\{([a-z_.]+)(?::([a-z]+))?\??\}/g;

/** The text of an error for the buyer. */
export function explain(error) {
  const template = templateOf(error);
  return template ? filled(template, error.details || {}) : error.message || 'Something went wrong.';
}

/** The template for an error, if there is one. */
export function templateOf({ name2 }) {
  return WORDS[`refusal.${name2}`] ?? WORDS[`failure.${name2}`];
}

/** Fills in the first half of a template, or the half after ` | ` if the first field is 0, empty or absent. */
function filled(template, details) {
  const [first, other] = template.split(' | ');
  const [[, path, format] = []] = first.matchAll(PLACE);
  const half = other === undefined || isThere(value(details, path, format)) ? first : other;
  return half.replace(PLACE, (place, path, format) => (place.endsWith('?}') ? '' : value(details, path, format)));
}

/** The value of a field. That of `list.field` is the list of its values. */
function value(details, path, format) {
  const found = path.split('.').reduce((from, name) => (Array.isArray(from) ? from.map((each) => each[name]) : from?.[name]), details);
  if (format === 'span') return span(found || 0);
  return format === 'reason' ? reason(found) : found;
}

function isThere(found) {
  return Array.isArray(found) ? found.some(isThere) : Boolean(found);
}

/** A span in minutes, or in hours if it is long. */
function span(ms) {
  const minutes = Math.max(1, Math.ceil(ms / 60_000));
  if (minutes >= 120) return `${Math.ceil(minutes / 60)} hours`;
  return minutes === 1 ? 'a minute' : `${minutes} minutes`;
}

function reason(message = '') {
  const colon = message.indexOf(':');
  return colon < 0 ? '' : message.slice(colon + 1).trim();
}

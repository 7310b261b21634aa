// Refusals and failures in the words of a box office. The words are templates of the server's table of refusals (words.js).

import { WORDS } from './words.js';

/**
 * A place in a template. `{free}` is a field of the answer, `{retry_after_ms:span}` a span of milliseconds in words, and
 * `{message:reason}` what the message says after its first colon. `{shortages.held?}` is not shown.
 */
const PLACE = /\{([a-z_.]+)(?::([a-z]+))?\??\}/g;

/** Words for refusals that the table has no words for, because their messages are for programs and operators. */
const WATCH_ONLY = 'Here one can look, but not buy. Please sign in, or ask at the box office.';
const OTHERWISE = 'This is not possible here. Please ask at the box office.';
const FAILED = 'Something went wrong. Please try again.';

/** The text of an error for the buyer. A message of the node is for operators, and is never shown. */
export function explain(error) {
  const template = templateOf(error);
  if (template) return filled(template, error.details || {});
  if (error.name2 === 'unauthenticated') return WATCH_ONLY;
  return error.kind === 'no' ? OTHERWISE : FAILED;
}

/** The text of an error for the desk, which may read what the node says. */
export function explainToDesk(error) {
  return templateOf(error) ? explain(error) : error.message || FAILED;
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

// Why the page has no connection, in words for a visitor and for the operator. A browser does not tell a script why a WebSocket was
// refused, so the page asks the node that it came from.

import { ABOUT } from './first.js';

const WITHIN_MS = 4_000;

/** The reason that page.json gave for its own page: this origin may not connect. */
export const ORIGIN = 'origin';

/** The words for a page whose address the node does not know. */
export function unknownAddress() {
  return {
    text: 'This page cannot connect: the box office is not set up for this address.',
    hint: `For the operator: this node does not know the address ${location.origin} of this page. Set listen.public_url.`,
  };
}

/**
 * Asks the node of the page. Returns {text, hint, detail}, or null if it is there and gives no reason. `hint` is for the
 * operator of an address that sells nothing. `detail` are the node's own words, for operators only.
 */
export async function why() {
  if (navigator.onLine === false) return { text: 'This page cannot connect: this device has no network.' };
  const about = await asked(ABOUT);
  if (about === null) {
    return { text: 'This page cannot connect: the box office does not answer. It tries again.', detail: `${location.host} cannot be reached.` };
  }
  if (about.status === 503) return { text: 'This page cannot connect: too many people are here at this moment. It tries again.', detail: about.words };
  if (about.status === 429) return { text: 'This page cannot connect: your network has too many connections. It tries again.', detail: about.words };
  if (about.json?.refused === ORIGIN) return unknownAddress();
  if (about.json === null) {
    return {
      text: 'This page cannot connect: no box office is at this address.',
      hint: `For the operator: ${location.origin}/page.json answered ${about.status}. A node is at the root of its address, without a path before it.`,
    };
  }
  const ready = await asked('/readyz');
  if (ready?.status !== 503) return null;
  if (ready.words === 'draining') return { text: 'This page cannot connect: the box office restarts. It tries again.' };
  return { text: 'This page cannot connect: the box office is not ready yet. It tries again.', detail: ready.words };
}

/** Status, text and JSON of an answer. Null without one. */
async function asked(path) {
  try {
    const response = await fetch(path, { cache: 'no-store', signal: AbortSignal.timeout(WITHIN_MS) });
    const words = (await response.text()).trim();
    return { status: response.status, words: words.slice(0, 300), json: parsed(response, words) };
  } catch {
    return null;
  }
}

function parsed(response, words) {
  try {
    return response.ok ? JSON.parse(words) : null;
  } catch {
    return null;
  }
}

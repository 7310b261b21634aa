// The first module of the page. Over a slow link it asks for what the address names while the rest of the page still loads, and shows
// the title of a session as soon as it is known.

import { publicLayout } from './layout.js';

const WITHIN_MS = 20_000;
const SESSION = /^#\/session\/([^/]+)$/;

/** The answer of a node to a read without credentials, or null. */
async function read(op, body) {
  try {
    const answer = await fetch(`/v1/${op}?${new URLSearchParams(body)}`, { signal: AbortSignal.timeout(WITHIN_MS) });
    return answer.ok ? (await answer.json()).ok : null;
  } catch {
    return null;
  }
}

/** What was asked for before the page could: promises of `facts` and `layout` of the session `id`, and of its title's `name`. */
let early = null;

function begin() {
  const id = SESSION.exec(location.hash)?.[1];
  if (id === undefined) return;
  const session = decodeURIComponent(id);
  const facts = read('session.get', { id: session, layout: false });
  const title = facts.then((known) => known && read('title.get', { id: known.title }));
  // The rows are long, and what comes before them waits for nothing. So they come after the title.
  const layout = title.then(() => facts).then((known) => known && publicLayout(location.origin, session));
  early = { id: session, facts, layout, title };
  // This module does not wait for the rest of the document.
  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', show, { once: true });
  else show();
}

function show() {
  const main = document.getElementById('main');
  // The page itself has not begun.
  if (main.querySelector('.loading') && !main.querySelector('[data-view]')) main.replaceChildren(opening(early.id));
}

/** What stands where a session will be shown. */
export function opening(id) {
  const place = document.createElement('div');
  const loading = document.createElement('p');
  loading.className = 'loading';
  loading.setAttribute('role', 'status');
  loading.textContent = 'The house opens …';
  place.append(loading);
  if (early?.id !== id) return place;
  early.title.then((title) => {
    if (!title?.name) return;
    const heading = document.createElement('h1');
    heading.className = 'session-head__title';
    heading.textContent = title.name;
    place.prepend(heading);
  });
  return place;
}

/** The promises for a session, the first time that it is asked for. They were true when the page began. */
export function takeEarly(id) {
  if (early?.id !== id) return {};
  const { facts, layout } = early;
  if (early.taken) return {};
  early.taken = true;
  return { facts, layout };
}

begin();

// The first module of the page, which loads the others. If the address names a session, it first asks for its title and shows it,
// because over a slow link the other modules take seconds.

import { publicLayout } from './layout.js';

/** The address of page.json, which says whether a page of this origin may connect. */
export const ABOUT = `/page.json?origin=${encodeURIComponent(location.origin)}`;

const WITHIN_MS = 20_000;
const ABOUT_WITHIN_MS = 5_000;
/** The longest time that the other modules wait for the session. */
const FACTS_FIRST_MS = 1_500;
/** What main.js and the view of a session import, so that they load together. tests/page/weight.test.mjs says what is missing. */
const MODULES = [
  'main.js',
  'connection.js', 'feeds.js', 'cart.js', 'cart-token.js', 'store.js', 'store-catalogue.js',
  'customer.js', 'rights.js', 'operator/seen.js', 'dom.js', 'why.js', 'local-time.js', 'calendar/zone.js', 'names.js', 'views/session.js', 'explain.js', 'words.js',
  'map/plan.js', 'map/words.js', 'map/seatmap.js', 'map/brush.js', 'map/canvas.js', 'parts.js', 'sale.js', 'offers.js', 'money.js',
  'code-field.js', 'views/session-areas.js', 'views/session-best.js', 'views/session-list.js', 'views/session-types.js',
];

/** The styles of views that no session needs. */
const STYLES = ['calendar.css', 'operator.css'];

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

/** What was asked for before the page could: promises of `facts` and `layout` of the session `id`, and of its `title`. */
let early = null;
/** The answer of page.json, as a promise. */
let about = null;

function begin() {
  const session = named();
  if (session === null) {
    loadPage();
    return;
  }
  const facts = read('session.get', { id: session, layout: false });
  const title = facts.then((known) => known && read('title.get', { id: known.title }));
  // The request for the title goes out before those for the modules, so its answer does not wait behind theirs.
  const page = Promise.race([facts, new Promise((resolve) => { setTimeout(resolve, FACTS_FIRST_MS); })]).then(loadPage);
  const layout = page.then(() => facts).then((known) => known && publicLayout(location.origin, session));
  early = { id: session, facts, layout, title };
  // This module does not wait for the rest of the document.
  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', show, { once: true });
  else show();
}

/** The session that the address names, or null. */
function named() {
  try {
    return decodeURIComponent(SESSION.exec(location.hash)[1]);
  } catch {
    return null;
  }
}

/** Loads the page itself. */
function loadPage() {
  const link = (rel, href) => document.head.append(Object.assign(document.createElement('link'), { rel, href }));
  MODULES.forEach((module) => link('modulepreload', `/page/js/${module}`));
  document.head.append(Object.assign(document.createElement('script'), { type: 'module', src: '/page/js/main.js' }));
  STYLES.forEach((style) => link('stylesheet', `/page/css/${style}`));
  about = fetch(ABOUT, { cache: 'no-store', signal: AbortSignal.timeout(ABOUT_WITHIN_MS) }).catch(() => null);
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

/** The answer of page.json that was asked for while the page loaded, the first time. Null if there is none. */
export async function takeAbout() {
  const answer = about;
  about = null;
  return answer;
}

begin();

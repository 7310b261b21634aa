// The page: reads page.json, connects, and shows the view that the address names.

import { Connection, hex } from './connection.js';
import { Cart } from './cart.js';
import { Catalogue } from './store-catalogue.js';
import { SignedIn } from './customer.js';
import { ABOUT, takeAbout } from './first.js';
import { noteView, operatorLooks } from './operator/seen.js';
import { Rights } from './rights.js';
import { customer, read, write } from './store.js';
import { countdown, h } from './dom.js';
import { ORIGIN, unknownAddress, why } from './why.js';

const ROUTES = [
  { path: /^\/?$/, view: 'home' },
  { path: /^\/session\/([^/]+)$/, view: 'session', params: ['id'] },
  { path: /^\/cart$/, view: 'checkout' },
  { path: /^\/order\/([^/]+)$/, view: 'order', params: ['id'] },
  { path: /^\/purchases$/, view: 'purchases' },
  { path: /^\/shop$/, view: 'products' },
  { path: /^\/product\/([^/]+)$/, view: 'product', params: ['id'] },
  { path: /^\/rooms$/, view: 'resource' },
  { path: /^\/resource\/([^/]+)(?:\/(\d{4}-\d{2}-\d{2}))?$/, view: 'resource', params: ['id', 'date'] },
  { path: /^\/operator$/, view: 'operator' },
  { path: /^\/operator\/session\/([^/]+)$/, view: 'history', params: ['id'] },
];
/** Entries of the browser's history that are led back to the same place. */
const ENTRIES_KEPT = 30;
const TOAST_MS = 6_000;
const ANSWER_WITHIN_MS = 5_000;
/** How often the page asks why it has no connection. */
const WHY_EVERY_MS = 5_000;

const byId = (id) => document.getElementById(id);

async function pageJson() {
  const nothing = { node: '', nodes: [], products: [], resources: [], gateway: false, demo: null, operators: false, sells: true, customers: false, hosts: [], payment: null, refused: null };
  try {
    const asked = () => fetch(ABOUT, { cache: 'no-store', signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
    const response = (await takeAbout()) ?? (await asked());
    return response.ok ? { ...nothing, ...(await response.json()) } : nothing;
  } catch {
    return nothing;
  }
}

/** Shows the view the address names. The one before is torn down first. */
class Router {
  constructor(app, root) {
    this.app = app;
    this.root = root;
    this.teardown = null;
    this.turn = 0;
    /** What each entry of the browser's history keeps for the way back to it: how far it was scrolled, and what its view puts there. */
    this.entries = new Map();
    this.kept = null;
    // The browser would scroll before the view is there.
    history.scrollRestoration = 'manual';
    addEventListener('hashchange', () => this.show());
  }

  /** What the current entry of the history keeps. */
  entry() {
    let name = history.state?.entry;
    if (name === undefined) {
      name = hex(8);
      history.replaceState({ ...history.state, entry: name }, '');
    }
    if (!this.entries.has(name)) this.entries.set(name, { y: 0 });
    if (this.entries.size > ENTRIES_KEPT) this.entries.delete(this.entries.keys().next().value);
    return this.entries.get(name);
  }

  async show() {
    // A link inside the page (the skip link) is no route.
    if (location.hash !== '' && !location.hash.startsWith('#/')) return;
    const found = match(location.hash.slice(1)) || { view: 'home', params: {} };
    const turn = ++this.turn;
    if (this.kept) this.kept.y = scrollY;
    this.kept = null;
    const kept = this.entry();
    let module;
    try {
      module = await import(`./views/${found.view}.js`);
    } catch {
      module = { title: () => 'Not here', render: (root) => root.append(h('p', { class: 'notice' }, 'This part of the page could not be loaded. '), h('a', { href: '#/' }, 'To the programme')) };
    }
    if (turn !== this.turn) return;
    this.teardown?.();
    this.teardown = null;
    const root = h('div', { class: `view view--${found.view}`, dataset: { view: found.view } });
    this.root.replaceChildren(root);
    document.title = `${module.title(found.params)} — Boxoffice`;
    noteView(found.view);
    showOperators(this.app);
    for (const link of document.querySelectorAll('[data-route]')) {
      if (link.dataset.route === found.view) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    if (this.shown) {
      scrollTo(0, 0);
      this.root.focus({ preventScroll: true });
    }
    this.shown = true;
    const teardown = await module.render(root, found.params, this.app, kept);
    if (turn !== this.turn) {
      teardown?.();
      return;
    }
    this.teardown = teardown;
    this.kept = kept;
    if (kept.y > 0) scrollTo(0, kept.y);
  }
}

function match(path) {
  for (const route of ROUTES) {
    const parts = path.match(route.path);
    if (!parts) continue;
    const params = {};
    (route.params || []).forEach((name, index) => {
      if (parts[index + 1] !== undefined) params[name] = decodeURIComponent(parts[index + 1]);
    });
    return { view: route.view, params };
  }
  return null;
}

/** Announces a text to screen readers, and shows it as a note that goes away. `tone`: "good", "bad" or none. */
function say(text, tone = '') {
  const live = byId('live');
  live.textContent = '';
  // The same text twice is announced twice.
  requestAnimationFrame(() => { live.textContent = text; });
  const toast = h('div', { class: `toast ${tone && `toast--${tone}`}`, dataset: { toast: tone || 'plain' } }, text);
  const toasts = byId('toasts');
  toasts.append(toast);
  while (toasts.childElementCount > 3) toasts.firstElementChild.remove();
  setTimeout(() => toast.remove(), TOAST_MS);
  toast.addEventListener('click', () => toast.remove());
  clearButtons();
}

/** Raises the notes above the buttons of the map, if they would cover them. */
function clearButtons() {
  const root = document.documentElement;
  const zoom = document.querySelector('.seats__zoom');
  root.style.removeProperty('--toasts-over');
  if (!zoom) return;
  const [buttons, base] = [zoom.getBoundingClientRect(), byId('toasts').getBoundingClientRect().bottom];
  const isBeside = [...byId('toasts').children].every((toast) => {
    const box = toast.getBoundingClientRect();
    return box.right < buttons.left || box.left > buttons.right || box.top > buttons.bottom || box.bottom < buttons.top;
  });
  if (!isBeside) root.style.setProperty('--toasts-over', `${Math.max(0, base - buttons.top)}px`);
}

/** Shows operators the link to their view. */
function showOperators({ page, link }) {
  document.querySelector('[data-route=operator]').hidden = !operatorLooks(page);
  link.tell();
}

function showLink(link, page) {
  const pill = byId('link');
  let said = '';
  const words = ({ text, detail }) => (operatorLooks(page) ? detail : text);
  const show = ({ state, silent, moved, ...both }) => {
    const text = words(both);
    pill.dataset.state = state;
    pill.dataset.node = link.node;
    byId('link-text').textContent = text;
    pill.title = state === 'closed' ? 'Try again' : text;
    if (moved) {
      say(text, 'good');
      setTimeout(() => link.state === 'connected' && !link.old && link.become('connected'), TOAST_MS);
    } else if (silent ? said !== 'silent' : ['lost', 'old', 'offline'].includes(state) && said !== state) {
      say(text, silent ? 'bad' : '');
    }
    said = silent ? 'silent' : state;
  };
  link.on('state', show);
  show(link);
  pill.addEventListener('click', () => (link.state === 'connected' ? say(words(link)) : link.reconnectNow()));
}

/** Says why there is no connection, above the view. `page` is page.json, whose `refused` may be the reason. */
function showWhy(link, page) {
  const place = byId('why');
  let askedAt = 0;
  const put = (words) => {
    place.hidden = words === null || (link.state === 'connected' && !link.offline);
    byId('why-text').textContent = words?.text || '';
    byId('why-hint').textContent = words?.hint || (operatorLooks(page) && words?.detail) || '';
  };
  link.on('state', async ({ state, silent }) => {
    if (state === 'offline') put(await why());
    else if (link.state === 'connected') put(null);
    else if (silent && Date.now() - askedAt > WHY_EVERY_MS) {
      askedAt = Date.now();
      put(await why());
    }
  });
  // No connection can succeed, so the page does not wait until it knows.
  if (page.refused === ORIGIN) put(unknownAddress());
}

function showBasket(cart) {
  const basket = byId('basket');
  const time = byId('basket-time');
  const show = () => {
    const count = cart.count();
    const left = cart.remaining();
    basket.dataset.count = count;
    byId('basket-count').textContent = count;
    time.hidden = left === null;
    if (left !== null) {
      time.textContent = countdown(left);
      time.dataset.soon = left < 60_000;
    }
  };
  cart.on('change', show);
  setInterval(show, 1000);
  show();
}

function showTheme() {
  const liked = read('theme');
  if (liked) document.documentElement.dataset.theme = liked;
  byId('theme').addEventListener('click', () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
    write('theme', root.dataset.theme);
    dispatchEvent(new Event('themechange'));
  });
}

async function begin() {
  showTheme();
  addEventListener('scroll', () => byId('toasts').childElementCount > 0 && clearButtons(), { passive: true });
  const page = await pageJson();
  const link = new Connection(page.nodes, { first: location.origin, node: page.node });
  const go = (hash) => { location.hash = hash; };
  const buyer = page.customers ? new SignedIn(link, page.hosts) : customer;
  const app = { page, link, go, say, customer: buyer, rights: new Rights(page, buyer), cart: null, catalogue: null };
  app.cart = new Cart(link, say);
  app.cart.buyer = () => buyer.get()?.id;
  app.catalogue = new Catalogue(link);
  document.querySelector('[data-route=products]').hidden = page.products.length === 0;
  document.querySelector('[data-route=resource]').hidden = page.resources.length === 0;
  byId('foot-text').textContent = 'Boxoffice';
  window.boxoffice = { app, mapState: () => null, sectionNames: () => [], signIn: (shown) => page.customers && buyer.signIn(shown) };
  showLink(link, page);
  showWhy(link, page);
  showBasket(app.cart);
  link.start();
  app.cart.start();
  // Paid, perhaps by another page of this browser or before a reload.
  app.cart.on('done', (cart) => {
    if (location.hash === '#/cart') go(`#/order/${cart.order}`);
    else say('Your order is paid.', 'good');
  });
  // The members may have changed since the page was loaded.
  link.on('hello', async () => {
    if (link.at.url === location.origin) return;
    try {
      const now = await (await fetch(`${link.at.url}/page.json`)).json();
      // The browser lets the page connect to the members of its beginning. It gets to those that joined since by a reload.
      link.setNodes((now.nodes || []).filter(({ url }) => page.nodes.some((member) => member.url === url)));
    } catch {
      // The known list is good enough.
    }
  });
  await new Router(app, byId('main')).show();
  // Loads all views now, because this page's node may be gone when they are needed.
  const views = new Set(ROUTES.map((route) => route.view));
  for (const view of views) import(`./views/${view}.js`).catch(() => {});
}

begin();

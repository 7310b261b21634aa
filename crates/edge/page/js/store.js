// The data that the page keeps on this device: the cart's token, the buyer, and the preferred look.

import { hex } from './connection.js';

const memory = new Map();

/** Storage may be refused, as in private windows. Then a value lasts as long as the page. */
export function read(key) {
  try {
    return JSON.parse(localStorage.getItem(`boxoffice.${key}`));
  } catch {
    return memory.get(key) ?? null;
  }
}

/** `null` removes the value. */
export function write(key, value) {
  memory.set(key, value);
  try {
    if (value === null) localStorage.removeItem(`boxoffice.${key}`);
    else localStorage.setItem(`boxoffice.${key}`, JSON.stringify(value));
  } catch {
    // Without storage it lasts as long as the page.
  }
}

/** The most orders that this device lists. The oldest go first. */
const ORDERS_MAX = 500;

/** Keeps an order {id, at, total, lines} in the list of this device, so that it is found again without a name. */
export function remember({ id, at, total, lines }) {
  if (!id) return;
  const others = ordered().filter((order) => order.id !== id);
  const known = ordered().find((order) => order.id === id);
  write('orders', [...others, known || { id, at, total, zone: (lines || []).find((line) => line.zone)?.zone }].slice(-ORDERS_MAX));
}

/** The orders of this device: [{id, at, total, zone}], the oldest first. */
export function ordered() {
  const kept = read('orders');
  return Array.isArray(kept) ? kept : [];
}

/** The buyer on this device: {id, name} or null. The cluster knows the id only. The name stays here. */
export const customer = {
  get() {
    return read('customer');
  },

  /** Another name is another customer, under a random id. */
  set(name) {
    const text = name.trim();
    const known = read('customer');
    if (text === '') write('customer', null);
    else if (!known || known.name !== text) write('customer', { name: text, id: `${slug(text)}-${hex(4)}` });
    return read('customer');
  },
};

function slug(text) {
  const ascii = text.normalize('NFKD').replace(/[^\p{ASCII}]/gu, '').toLowerCase();
  return ascii.replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '').slice(0, 40) || 'guest';
}

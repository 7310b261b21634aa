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

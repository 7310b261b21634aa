// The token of a new cart: the cart's place, then 112 secret bits (docs/reference/protocol.md, Carts).

import { hex } from './connection.js';

const BITS = (1n << 64n) - 1n;
const SECRET_BYTES = 14;
const KINDS = { session: 's', product: 'p', resource: 'r' };

/** The first 16 bits of an entity's hash as four digits: FNV-1a over its key, then the finalizer of MurmurHash3. */
export function hashPrefix(kind, id) {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(`${KINDS[kind]}/${id}`)) {
    hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & BITS;
  }
  hash = ((hash ^ (hash >> 33n)) * 0xff51afd7ed558ccdn) & BITS;
  hash = ((hash ^ (hash >> 33n)) * 0xc4ceb9fe1a85ec53n) & BITS;
  return ((hash ^ (hash >> 33n)) >> 48n).toString(16).padStart(4, '0');
}

/** A token of a cart in the shard of the first entity that this body of a hold wants. */
export function tokenFor(body, secret = hex(SECRET_BYTES)) {
  const wanted = body.lines?.[0] ?? body;
  const kind = Object.keys(KINDS).find((each) => wanted[each]);
  return (kind ? hashPrefix(kind, wanted[kind]) : hex(2)) + secret;
}

// Cart tokens, without a browser. The same values as in docs/reference/protocol.md and crates/core/tests/rules/placement.rs.

import assert from 'node:assert/strict';
import { webcrypto } from 'node:crypto';
import { test } from 'node:test';
import { hashPrefix, tokenFor } from '../../crates/edge/page/js/cart-token.js';

globalThis.crypto ??= webcrypto;

const SECRET = '2d3c4b5a69788796a5b4c3d2e1f0';

test('entities have the hash prefixes that the nodes place them by', () => {
  assert.equal(hashPrefix('session', 'hamlet-tonight'), '944e');
  assert.equal(hashPrefix('session', 'hamlet-0412'), '55da');
  assert.equal(hashPrefix('product', 'programme'), 'beef');
  assert.equal(hashPrefix('resource', 'room-5'), '1b71');
});

test('a token begins with the hash prefix of the first inventory that its cart will hold', () => {
  assert.equal(tokenFor({ session: 'hamlet-0412', seats: [[1, 5]] }, SECRET), `55da${SECRET}`);
  assert.equal(tokenFor({ lines: [{ product: 'programme', quantity: 1 }, { session: 'hamlet-0412' }] }, SECRET), `beef${SECRET}`);
  assert.equal(tokenFor({ resource: 'room-5', begin: '', end: '' }, SECRET), `1b71${SECRET}`);
});

test('the other digits are random', () => {
  const tokens = Array.from({ length: 100 }, () => tokenFor({ session: 'hamlet-0412' }));
  assert.ok(tokens.every((token) => /^55da[0-9a-f]{28}$/.test(token)), tokens[0]);
  assert.equal(new Set(tokens).size, tokens.length);
});

// A node of one test with a house, whose sessions the test creates with the terms that it is about.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { connected, mapKnown } from './lib.mjs';

export const price = (amount) => ({ amount, currency: 'EUR' });
export const TYPES = [
  { id: 'adult', names: { en: 'Adult', de: 'Erwachsene' } },
  { id: 'under26', name: 'Under 26', prices: { stalls: 2000 }, area_prices: { yard: 700 } },
];
const LAYOUT = { rows: [{ label: 'A', section: 'stalls', count: 8, category: 'stalls' }, { label: 'B', section: 'boxes', count: 4, category: 'box' }] };

/** A node with a house, and `create(id, more)` for sessions in it. `options` are those of the node. */
export async function house(own, options) {
  const node = await own.node(1, [], options);
  const ask = async (op, body) => {
    const headers = { 'content-type': 'application/json', 'idempotency-key': randomBytes(12).toString('hex') };
    const answer = await (await fetch(`http://${node.operators}/v1/${op}`, { method: 'POST', headers, body: JSON.stringify(body) })).json();
    assert.ok(answer.ok, `${op}: ${JSON.stringify(answer)}`);
    return answer.ok;
  };
  await ask('venue.put', { id: 'v', name: 'V', zone: 'Europe/Copenhagen' });
  await ask('title.put', { id: 't', name: 'T' });
  const create = async (id, more) => {
    await ask('hall.put', { venue: 'v', id: `hall-${id}`, name: 'H', layout: LAYOUT });
    await ask('session.create', {
      id, venue: 'v', hall: `hall-${id}`, title: 't', starts_at: '2031-01-01T19:00:00Z', ends_at: '2031-01-01T21:00:00Z',
      prices: { stalls: price(3000), box: price(9000) }, areas: [{ id: 'yard', name: 'Yard', capacity: 30, price: price(1000) }], ...more,
    });
  };
  return { node, ask, create, url: `http://127.0.0.1:${node.port}` };
}

/** Opens the page of a session. `prepare(page)` is called before. */
export async function visit(people, url, id, options = { locale: 'en-GB' }, prepare = () => {}) {
  const page = await people.window(options);
  await prepare(page);
  await page.goto(`${url}/#/session/${id}`);
  await connected(page);
  await mapKnown(page);
  return page;
}

/** The bodies of the requests with this op that the page has sent. */
export function sentOf(page, op) {
  const sent = [];
  page.on('websocket', (socket) => socket.on('framesent', ({ payload }) => {
    const frame = JSON.parse(payload);
    if (frame.op === op) sent.push(frame.body);
  }));
  return sent;
}

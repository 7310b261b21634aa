// Which answers the page's connection treats as final. Sockets are stubs; no browser runs.

import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const sockets = [];

class Socket {
  constructor() {
    this.sent = [];
    sockets.push(this);
    setTimeout(() => {
      this.onopen?.();
      this.say({ hello: { node: '1', time: new Date().toISOString() } });
    }, 1);
  }

  send(text) {
    const frame = JSON.parse(text);
    this.sent.push(frame);
    if (frame.rid) setTimeout(() => this.answers?.(frame), 1);
  }

  say(frame) {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }

  no(id, name, code) {
    this.say({ id, no: { code, name, message: name } });
  }

  close() {}
}

/** The page loads its scripts as modules. Here a package.json declares them to be modules. */
async function connection() {
  const folder = mkdtempSync(join(tmpdir(), 'boxoffice-page-'));
  cpSync(fileURLToPath(new URL('../../crates/edge/page/js', import.meta.url)), join(folder, 'js'), { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  const { Connection } = await import(pathToFileURL(join(folder, 'js/connection.js')));
  rmSync(folder, { recursive: true });
  return Connection;
}

async function connected(link) {
  const before = sockets.length;
  for (let tries = 0; tries < 100 && (link.state !== 'connected' || sockets.length === before - 1); tries += 1) await sleep(20);
  assert.equal(link.state, 'connected');
  return sockets.at(-1);
}

test('a refusal is final only if no earlier attempt can be granted', async () => {
  const kept = { WebSocket: globalThis.WebSocket, document: globalThis.document };
  Object.assign(globalThis, {
    WebSocket: Socket, addEventListener() {}, removeEventListener() {},
    document: { addEventListener() {}, removeEventListener() {}, visibilityState: 'visible' },
  });
  const Connection = await connection();
  const link = new Connection([{ node: '1', url: 'http://a' }], { first: 'http://a' }).start();
  try {
    let socket = await connected(link);
    const hold = (rid, deadline) => link.request('cart.hold_seats', {}, { rid, deadline }).catch((error) => error);
    const sentOf = (rid) => socket.sent.filter((frame) => frame.rid === rid);

    // The outcome was unknown, and the node has resolved it.
    let answer = hold('same', 3_000);
    let [{ id }] = sentOf('same');
    socket.say({ id, fail: { code: 902, name: 'unknown', message: '', retry_after_ms: 10 } });
    await sleep(50);
    socket.no(id, 'seats_taken', 201);
    assert.equal((await answer).name2, 'seats_taken');

    // The first attempt went over another connection, and its grant arrives late.
    answer = hold('late', 8_000);
    [{ id }] = sentOf('late');
    socket.onclose({ code: 1006 });
    socket = await connected(link);
    socket.no(id, 'seats_taken', 201);
    await sleep(500);
    assert.equal(sentOf('late').length, 2, 'it is asked again');
    socket.say({ id, ok: { cart: 'c' } });
    assert.equal((await answer).cart, 'c');

    // The outcome is unknown until the deadline, also for a repeat of the request.
    answer = hold('never', 2_500);
    socket.onclose({ code: 1006 });
    socket = await connected(link);
    socket.answers = (frame) => socket.no(frame.id, 'seats_taken', 201);
    sentOf('never').forEach(socket.answers);
    assert.equal((await answer).name2, 'unknown');
    assert.equal((await hold('never', 400)).name2, 'unknown');
    assert.equal((await hold('another', 400)).name2, 'seats_taken');

    // The outcome of a payment is kept.
    socket.answers = (frame) => socket.no(frame.id, 'payment_declined', 601);
    assert.equal((await hold('never', 400)).name2, 'payment_declined');
  } finally {
    link.stop();
    Object.assign(globalThis, kept);
  }
});

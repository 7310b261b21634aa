// A slow link to a node: a proxy that delays and paces what passes, like a phone far from a mast.

import { connect, createServer } from 'node:net';

/** How often paced bytes go on, in milliseconds. */
const TICK_MS = 10;

/**
 * A link with a round trip of `rtt` milliseconds and `rate` bytes a second towards the browser. All connections share the rate, in
 * the order in which the bytes came. A new connection waits for the round trip of its handshake, too.
 */
export class Shaper {
  constructor(port, { rtt, rate }) {
    Object.assign(this, { rtt, rate });
    /** Parts on their way to the browser: {socket, bytes, from}. */
    this.queue = [];
    this.carried = 0;
    this.connections = 0;
    this.sockets = new Set();
    this.server = createServer((client) => this.accept(client, port));
    this.ticker = setInterval(() => this.tick(), TICK_MS);
    this.allowed = 0;
    this.tickedAt = Date.now();
  }

  async open() {
    await new Promise((resolve) => { this.server.listen(0, '127.0.0.1', resolve); });
    this.port = this.server.address().port;
    return this;
  }

  accept(client, port) {
    this.connections += 1;
    const node = connect(port, '127.0.0.1');
    for (const socket of [client, node]) {
      this.sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => {});
    }
    const born = Date.now();
    client.on('data', (bytes) => {
      // The kernel has answered the handshake at once, which takes a round trip on a real link.
      const wait = Math.max(this.rtt / 2, born + this.rtt * 1.5 - Date.now());
      setTimeout(() => node.destroyed || node.write(bytes), wait);
    });
    node.on('data', (bytes) => this.queue.push({ socket: client, bytes, from: Date.now() + this.rtt / 2 }));
    client.on('close', () => setTimeout(() => node.end(), this.rtt / 2));
    node.on('close', () => this.queue.push({ socket: client, bytes: null, from: Date.now() + this.rtt / 2 }));
  }

  tick() {
    const now = Date.now();
    this.allowed += ((now - this.tickedAt) * this.rate) / 1000;
    this.tickedAt = now;
    while (this.queue.length > 0 && this.queue[0].from <= now) {
      const first = this.queue[0];
      if (first.bytes === null) {
        first.socket.end();
        this.queue.shift();
        continue;
      }
      if (this.allowed < 1) return;
      const part = first.bytes.subarray(0, Math.floor(this.allowed));
      this.allowed -= part.length;
      this.carried += part.length;
      first.socket.destroyed || first.socket.write(part);
      first.bytes = first.bytes.subarray(part.length);
      if (first.bytes.length > 0) return;
      this.queue.shift();
    }
    // An idle link saves nothing up.
    this.allowed = Math.min(this.allowed, (this.rate * TICK_MS) / 1000);
  }

  close() {
    clearInterval(this.ticker);
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
  }
}

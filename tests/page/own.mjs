// Nodes that belong to one test, with or without TLS, and a proxy in front of them.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from './lib.mjs';

const PROGRAM = process.env.BOXOFFICE_PROGRAM;
const START_WITHIN_MS = 30_000;

/** A port on which nothing listens. */
export async function freePort() {
  const server = createServer();
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const { port } = server.address();
  await new Promise((resolve) => { server.close(resolve); });
  return port;
}

/** The processes and files of one test. `end` stops and removes them. */
export class Own {
  constructor() {
    this.home = mkdtempSync(join(tmpdir(), 'boxoffice-web-'));
    this.children = [];
    const drawn = () => randomBytes(32).toString('hex');
    // A node that can be reached from elsewhere has these. All nodes have the others.
    this.credentials = { BOXOFFICE_ADMIN_TOKEN: drawn(), BOXOFFICE_CUSTOMER_SECRET: drawn() };
    this.shared = { BOXOFFICE_PEERS_SECRET: drawn(), BOXOFFICE_CODE_SECRET: drawn() };
    // The operators' ports of nodes with credentials.
    this.closed = new Set();
  }

  async end() {
    // SIGTERM also ends the proxy's workers. SIGKILL would leave them running.
    await Promise.all(this.children.map((child) => ended(child, child === this.nginx ? 'SIGTERM' : 'SIGKILL')));
    rmSync(this.home, { recursive: true, force: true });
  }

  /** A certificate for names that end in .test and for this machine, and its key. */
  certificate() {
    const [certificate, key] = ['certificate.pem', 'key.pem'].map((name) => join(this.home, name));
    const names = 'subjectAltName=DNS:tickets.test,DNS:shop.test,IP:127.0.0.1';
    execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
      '-subj', '/CN=tickets.test', '-addext', names, '-keyout', key, '-out', certificate], { stdio: 'pipe' });
    return { certificate, key };
  }

  /** Starts a node. Pass a port or directory of an earlier node to start it again. */
  async node(id, args = [], { port, origins = [], anonymous = 'sell', config } = {}) {
    const at = port ?? await freePort();
    const file = join(this.home, `node-${id}.toml`);
    // Anonymous callers buy, if nothing else is said, and record payments themselves.
    writeFileSync(file, config ?? `[listen]\nanonymous = "${anonymous}"\norigins = ${JSON.stringify(origins)}\n[payments]\nrecorded = "anyone"\n`);
    const all = ['serve', '--config', file, '--listen', `127.0.0.1:${at}`, '--ops-listen', '127.0.0.1:0', '--data-dir', join(this.home, `data-${id}`), '--fsync', 'never', '--log', 'error', ...args];
    const isClosed = args.some((arg) => arg === '--public-url' || arg === '--advertise');
    const env = { ...process.env, ...this.shared, ...(isClosed ? this.credentials : {}) };
    const child = spawn(PROGRAM, all, { stdio: ['ignore', 'pipe', 'inherit'], env });
    this.children.push(child);
    let output = '';
    child.stdout.on('data', (text) => { output += text; });
    await eventually(async () => output.includes('boxoffice serves on'), `node ${id} serves`, START_WITHIN_MS);
    const operators = output.match(/operators on http:\/\/([\d.:]+)/)[1];
    if (isClosed) this.closed.add(operators);
    return { child, port: at, args, operators };
  }

  /** The token of a customer at a node with this secret. */
  customerToken(customer, secret) {
    return execFileSync(PROGRAM, ['admin', 'customer-token', customer, '--customer-secret', secret]).toString().trim();
  }

  /** Starts a cluster of three nodes. `argumentsOf(id)` returns further arguments for a node. */
  async cluster(argumentsOf, more = {}) {
    const nodes = [];
    for (const id of [1, 2, 3]) {
      const [port, peers] = [await freePort(), await freePort()];
      const join = nodes.flatMap((node) => ['--join', `127.0.0.1:${node.port}`]);
      nodes.push(await this.node(id, ['--node', String(id), '--peers-listen', `127.0.0.1:${peers}`, ...join, ...argumentsOf(id)], { ...more, port }));
    }
    return nodes;
  }

  /** Puts a session in a small hall on sale. */
  sell(operators, session) {
    const layout = { rows: 10, seats: 12, category: 'standard' };
    const venue = { id: 'own', name: 'A house', city: 'Aarhus', zone: 'Europe/Copenhagen', halls: [{ id: 'studio', name: 'The studio', layout }] };
    venue.sessions = [{ id: session, hall: 'studio', title: 'own', starts_at: '+3d 20:00', ends_at: '+2h', prices: { '*': 2000 } }];
    this.offer(operators, { currency: 'EUR', titles: [{ id: 'own', name: 'Our own' }], venues: [venue] });
  }

  /** Imports venues, titles and sessions. */
  offer(operators, all) {
    const file = join(this.home, 'sessions.json');
    writeFileSync(file, JSON.stringify(all));
    this.run(operators, ['import', '--address', operators, file]);
  }

  /** Runs an admin command at a node. Returns what it prints. */
  admin(operators, ...words) {
    return this.run(operators, ['admin', '--address', operators, ...words]);
  }

  run(operators, words) {
    const env = { ...process.env, ...(this.closed.has(operators) ? this.credentials : {}) };
    return execFileSync(PROGRAM, words, { stdio: 'pipe', env }).toString();
  }

  /** nginx with TLS at `port` in front of these nodes. At `shop` it serves the HTML of another shop's page, which must have no apostrophes. */
  async proxy(nodes, { certificate, key }, { port, shop, html }) {
    const folders = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((each) => `${each}_temp_path ${join(this.home, each)};`);
    const seal = `ssl_certificate ${certificate}; ssl_certificate_key ${key};`;
    const upstream = nodes.map((node) => `server 127.0.0.1:${node.port} max_fails=1 fail_timeout=2s;`);
    writeFileSync(join(this.home, 'nginx.conf'), `
      daemon off; worker_processes 1; pid ${join(this.home, 'nginx.pid')}; error_log ${join(this.home, 'nginx.log')};
      events { worker_connections 256; }
      http {
        access_log off; ${folders.join(' ')}
        map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
        upstream boxoffice { ${upstream.join(' ')} }
        server {
          listen 127.0.0.1:${port} ssl; server_name tickets.test; ${seal}
          location / {
            proxy_pass http://boxoffice;
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_read_timeout 1h;
          }
        }
        server { listen 127.0.0.1:${shop} ssl; server_name shop.test; ${seal} location = / { default_type text/html; return 200 '${html}'; } }
      }`);
    const path = `${process.env.PATH}:/usr/sbin`;
    const child = spawn('nginx', ['-p', this.home, '-c', join(this.home, 'nginx.conf')], { stdio: ['ignore', 'inherit', 'inherit'], env: { ...process.env, PATH: path } });
    this.nginx = child;
    this.children.push(child);
    await eventually(async () => listens(port), 'the proxy listens');
  }
}

/** Ends a process and waits for its exit. */
export async function ended(child, signal) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((resolve) => { child.once('exit', resolve); });
  child.kill(signal);
  await gone;
}

async function listens(port) {
  const { connect } = await import('node:net');
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => { socket.destroy(); resolve(true); });
    socket.once('error', () => resolve(false));
  });
}

/** A test with its own nodes and files, which end with it. The windows close before, because a page whose node has ended reports it. */
export async function withOwn(people, does) {
  assert.ok(PROGRAM, 'BOXOFFICE_PROGRAM names the program');
  const own = new Own();
  try {
    await does(own);
  } finally {
    await people.leave();
    await own.end();
  }
}

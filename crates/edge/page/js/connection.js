// The connection to a cluster: one WebSocket to one of its nodes. It moves to another node when that one goes away.
//
// `request` returns an answer even if the connection breaks meanwhile. Unanswered requests are sent again until the deadline,
// commands under the same `rid`. Feeds (feeds.js) resume.

import { Feeds } from './feeds.js';

const PROTOCOL = 'boxoffice.v1.json';
const DEADLINE_MS = 10_000;
/** A node that does not say hello within this is taken for dead. */
const HELLO_WITHIN_MS = 4_000;
const BACKOFF_FIRST_MS = 500;
const BACKOFF_MAX_MS = 20_000;
/** After this silence the page asks whether the node is there. Pages do not see the pings of WebSockets. */
const QUIET_MS = 12_000;
const PONG_WITHIN_MS = 3_000;
/** While a request waits, or the browser says that it has no network, the page asks earlier, and waits less long. */
const WAITS_QUIET_MS = 2_000;
const WAITS_PONG_MS = 2_000;
/** How long a lost node is not tried again while there are others. */
const AVOID_MS = 15_000;
const WATCH_EVERY_MS = 1_000;
/** After this time without a connection, the page names the hosts that do not answer. */
const SAY_AFTER_MS = 5_000;

/** The longest wait before the next repeat while a refusal is not final. The wait doubles up to this. */
const REFUSED_AGAIN_MAX_MS = 2_000;

/** Refusals that say how a payment ended, or that it is not known yet. They are shown even if an earlier attempt may be granted. */
const OUTCOMES = new Set(['payment_declined', 'amount_mismatch', 'payment_pending']);

/** Failures after which the same request is made again. */
const AGAIN = new Set(['busy', 'not_ready', 'draining', 'unknown', 'in_progress']);

/** The first minor version of the protocol whose requests may say how long the buyer will be there. */
const PATIENCE_MINOR = 4;

/** Close codes for credentials that are invalid or have expired. */
const UNAUTHENTICATED = 4001;
const TOKEN_EXPIRED = 4101;

/** Marks attempts in doubt for which no connection can bring a final answer. */
const ANYWHERE = 'anywhere';
/** How long after its deadline an attempt may still be on its way. */
const LATE_MS = 10_000;

/** The key of the versions that an answer rests on: `ok[AT]`. */
export const AT = Symbol('at');

/** A refusal (`kind` "no") or a failure (`kind` "fail"). */
export class RequestError extends Error {
  constructor(kind, details) {
    super(details.message || details.name);
    this.kind = kind;
    this.code = details.code;
    this.name2 = details.name;
    this.details = details;
  }
}

/** A new request id. */
export function newRid() {
  return `p-${hex(12)}`;
}

/** This many random bytes as hexadecimal digits. */
export function hex(bytes) {
  return Array.from(crypto.getRandomValues(new Uint8Array(bytes)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function jitter(most) {
  return Math.random() * most;
}

/**
 * The nodes to connect to, in order: `first`, from where the page or the widget was loaded, then the other members. A page
 * over TLS may not connect without TLS.
 */
export function doors(nodes, { first, node = '' }) {
  const secure = first.startsWith('https:') || globalThis.location?.protocol === 'https:';
  const known = nodes.find((member) => sameOrigin(member.url, first));
  const others = nodes.filter((member) => member !== known && (node === '' || member.node !== node));
  const usable = others.filter(({ url }) => !secure || url.startsWith('https:'));
  return [{ node: node || known?.node || '', url: first }, ...usable];
}

export class Connection {
  /** `nodes`: [{node, url}]. `first`: the url to begin with, which is the one of `node`. */
  constructor(nodes, { first, node, client = 'boxoffice page' } = {}) {
    this.client = client;
    this.origin = { first, node };
    this.nodes = doors(nodes, this.origin);
    [this.at] = this.nodes;
    /** The customer's credentials: {customer, customer_token} or {token}. */
    this.identity = null;
    /** Whether the connection has shown them and has no answer yet. */
    this.shown = false;
    /** Since when there is no connection, and the hosts that were tried since then. */
    this.silentSince = Date.now();
    this.tried = new Set();
    /** "connecting", "connected", "lost" (looking for another node) or "closed" (turned away for good). */
    this.state = 'connecting';
    /** The name of the current node, or of the last one. */
    this.node = this.at.node;
    this.text = '';
    this.detail = '';
    this.told = { state: 'connecting', silent: false };
    this.limits = {};
    /** The minor version of the node's protocol. */
    this.minor = 0;
    this.clockOffset = 0;
    this.socket = null;
    this.lastId = 0;
    this.pending = new Map();
    /** The number of connections so far. */
    this.connections = 0;
    /** Requests that ended in doubt, by `rid`: {over, until}. */
    this.doubts = new Map();
    this.listeners = new Map();
    this.avoided = new Map();
    this.failures = 0;
    this.lostNode = null;
    /** The browser says that it has no network, and nothing was heard since. */
    this.offline = false;
    /** The node is cut off from the others, so its feeds may be behind. */
    this.old = false;
    this.leftOldAt = 0;
    /** The node that was left because it is cut off. It is better than none. */
    this.leftOld = null;
    this.heardAt = 0;
    this.tickedAt = Date.now();
    this.feeds = new Feeds(this);
    this.stopped = false;
  }

  /** Starts to connect. Returns itself. */
  start() {
    this.ticker = setInterval(() => this.tick(), WATCH_EVERY_MS);
    this.wake = () => {
      this.offline = false;
      this.areYouThere();
      this.become(this.state);
    };
    this.seen = () => document.visibilityState === 'visible' && this.areYouThere();
    this.unplugged = () => this.goOffline();
    addEventListener('offline', this.unplugged);
    addEventListener('online', this.wake);
    addEventListener('pageshow', this.wake);
    document.addEventListener('visibilitychange', this.seen);
    this.connect();
    return this;
  }

  /** Ends for good. */
  stop() {
    this.stopped = true;
    clearInterval(this.ticker);
    clearTimeout(this.retry);
    removeEventListener('offline', this.unplugged);
    removeEventListener('online', this.wake);
    removeEventListener('pageshow', this.wake);
    document.removeEventListener('visibilitychange', this.seen);
    this.drop();
  }

  /** The node's time, in milliseconds since 1970. Deadlines are compared with it and not with the device's clock. */
  now() {
    return Date.now() + this.clockOffset;
  }

  /** Calls `listener` on each "state" (connection) or "hello". Returns a function that ends that. */
  on(event, listener) {
    const all = this.listeners.get(event) || new Set();
    this.listeners.set(event, all.add(listener));
    return () => all.delete(listener);
  }

  emit(event, value) {
    for (const listener of [...(this.listeners.get(event) || [])]) listener(value);
  }

  /** Replaces the known members of the cluster. */
  setNodes(nodes) {
    if (nodes.length > 0) this.nodes = doors(nodes, this.origin);
  }

  /** Tries again after being turned away, or at once instead of later. */
  reconnectNow() {
    this.failures = 0;
    this.avoided.clear();
    clearTimeout(this.retry);
    this.connect();
  }

  /** Acts for another customer from now on, on new connections too. */
  identify(identity) {
    this.identity = identity;
    // A connection acts for one customer.
    if (this.state === 'connected') {
      this.state = 'connecting';
      this.lost({ code: 4200 });
    } else if (this.state === 'closed') this.reconnectNow();
  }

  // Requests

  /**
   * Sends a request. Resolves with `ok`, rejects with a RequestError. `patience` is how long the buyer will be there, in
   * milliseconds, if that is longer than the deadline.
   */
  request(op, body = {}, { rid, deadline = DEADLINE_MS, patience } = {}) {
    return new Promise((resolve, reject) => this.ask({ op, body, rid, patience, until: Date.now() + deadline, resolve, reject }));
  }

  /** Begins a request. One with `once` is not sent again on another connection. */
  ask(request) {
    request.id = ++this.lastId;
    request.sent = false;
    request.refused = 0;
    // The connection of the attempts that may have been granted. ANYWHERE if there were several, or if it is gone.
    request.doubt = this.doubtOf(request.rid);
    request.timer = setTimeout(() => this.overdue(request), Math.max(0, request.until - Date.now()));
    this.pending.set(request.id, request);
    this.dispatch(request);
  }

  dispatch(request) {
    if (this.state !== 'connected' || !this.pending.has(request.id)) return;
    const deadline = Math.max(1, Math.min(60_000, Math.round(request.until - Date.now())));
    const frame = { id: request.id, op: request.op, deadline_ms: deadline, body: request.body };
    if (request.rid) frame.rid = request.rid;
    if (request.patience && this.minor >= PATIENCE_MINOR) frame.patience_ms = request.patience;
    request.sent = true;
    request.waits = true;
    this.socket.send(JSON.stringify(frame));
  }

  /** The doubt that earlier requests with this `rid` left. */
  doubtOf(rid) {
    for (const [known, { until }] of this.doubts) if (until <= Date.now()) this.doubts.delete(known);
    return (rid && this.doubts.get(rid)?.over) || null;
  }

  /** The outcome of the last attempt of this request is unknown. */
  inDoubt(request, over = this.connections) {
    if (request.rid) request.doubt = request.doubt === null || request.doubt === over ? over : ANYWHERE;
  }

  /**
   * Whether a refusal is final. A node decides the attempts of one connection in their order, and an attempt over another one
   * may still be on its way.
   */
  isFinal(request, name) {
    return !request.rid || request.doubt === null || request.doubt === this.connections || OUTCOMES.has(name);
  }

  settle(request) {
    clearTimeout(request.timer);
    clearTimeout(request.again);
    this.pending.delete(request.id);
  }

  overdue(request) {
    this.settle(request);
    if (request.waits) this.inDoubt(request, ANYWHERE);
    const unknown = request.rid && request.doubt !== null;
    if (unknown) this.doubts.set(request.rid, { over: request.doubt, until: Date.now() + LATE_MS });
    const details = unknown
      ? { code: 902, name: 'unknown', message: 'No answer in time; it may have happened.' }
      : { code: 903, name: 'not_ready', message: 'No node answered in time.' };
    request.reject(new RequestError('fail', details));
  }

  answered(frame) {
    const request = this.pending.get(frame.id);
    if (!request) return;
    request.waits = false;
    const bad = frame.no || frame.fail;
    if (!bad) {
      this.settle(request);
      const ok = frame.ok || {};
      if (frame.at) Object.defineProperty(ok, AT, { value: frame.at });
      request.resolve(ok);
      return;
    }
    if (bad.name === 'draining') this.moveOn('draining', jitter(500));
    if (bad.name === 'unknown' || bad.name === 'in_progress') this.inDoubt(request);
    if (frame.no && bad.name !== 'in_progress' && !this.isFinal(request, bad.name)) {
      const wait = Math.min(REFUSED_AGAIN_MAX_MS, 200 * 2 ** request.refused) * (0.5 + Math.random());
      request.refused += 1;
      request.again = setTimeout(() => this.dispatch(request), wait);
      return;
    }
    if (AGAIN.has(bad.name) && Date.now() < request.until) {
      const wait = (bad.retry_after_ms || 100) * (0.5 + Math.random());
      request.again = setTimeout(() => this.dispatch(request), wait);
      return;
    }
    this.settle(request);
    request.reject(new RequestError(frame.no ? 'no' : 'fail', bad));
  }

  // Feeds

  /** Watches an entity with handlers {snapshot, delta, ended}. A cart needs its `token`. */
  watch(entity, handlers, options = {}) {
    return this.feeds.watch(entity, handlers, options);
  }

  /** Counts of many sessions: `onCounts(session, {counts, areas, version})`. */
  watchCounts(sessions, onCounts) {
    return this.feeds.watchCounts(sessions, onCounts);
  }

  // The socket

  connect() {
    if (this.stopped) return;
    this.drop();
    this.tried.add(hostOf(this.at.url));
    this.become(this.lostNode ? 'lost' : 'connecting');
    let socket;
    try {
      socket = new WebSocket(`${this.at.url.replace(/^http/, 'ws').replace(/\/$/, '')}/v1/ws`, PROTOCOL);
    } catch {
      this.lost({ code: 1006 });
      return;
    }
    this.socket = socket;
    this.greeting = setTimeout(() => this.socket === socket && this.abandon(), HELLO_WITHIN_MS);
    socket.onopen = () => {
      this.shown = this.identity !== null;
      socket.send(JSON.stringify({ id: 0, op: 'hello', body: { client: this.client, ...this.identity } }));
    };
    socket.onmessage = (event) => this.socket === socket && this.heard(JSON.parse(event.data));
    socket.onclose = (event) => this.socket === socket && this.lost(event);
  }

  /** Forgets the socket without waiting for its end, because a dead peer would not answer the close. */
  drop() {
    clearTimeout(this.greeting);
    clearTimeout(this.pong);
    this.pong = null;
    const { socket } = this;
    this.socket = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  abandon() {
    this.drop();
    this.lost({ code: 1006 });
  }

  heard(frame) {
    this.heardAt = Date.now();
    clearTimeout(this.pong);
    this.pong = null;
    if (this.offline) {
      // It was another network of this device.
      this.offline = false;
      if (this.state === 'connected') this.become('connected');
    }
    if (frame.feed !== undefined) this.feeds.heard(frame);
    else if (frame.hello) this.greeted(frame.hello);
    else if (frame.notice === 'draining') this.moveOn('draining', frame.reconnect_ms || 0);
    else if (frame.id === 0 && this.shown) this.identified(frame);
    else if (frame.id !== undefined) this.answered(frame);
  }

  /** The node has looked at the credentials. If it could not, another one may. Wrong ones end the connection. */
  identified(frame) {
    this.shown = false;
    if (frame.fail || frame.no?.name === 'rate_limited') this.abandon();
  }

  greeted(hello) {
    clearTimeout(this.greeting);
    this.failures = 0;
    this.connections += 1;
    this.clockOffset = Date.parse(hello.time) - Date.now();
    this.limits = hello.limits || {};
    this.minor = hello.minor || 0;
    // Behind a public address this may be any node.
    this.node = hello.node || this.at.node;
    this.silentSince = null;
    this.tried.clear();
    this.avoided.delete(this.at.url);
    const { lostNode } = this;
    this.lostNode = null;
    this.become('connected', lostNode && { text: 'connected again', detail: `node ${called(lostNode)} lost — connected to ${called(this.node)}` });
    this.feeds.resume();
    for (const request of [...this.pending.values()]) if (!request.once) this.dispatch(request);
    this.emit('hello', hello);
  }

  lost({ code, reason }) {
    this.drop();
    clearTimeout(this.moving);
    this.moving = null;
    for (const request of [...this.pending.values()]) {
      clearTimeout(request.again);
      if (request.waits) this.inDoubt(request, ANYWHERE);
      request.waits = false;
      if (!request.once) continue;
      this.settle(request);
      request.reject(new RequestError('fail', { code: 903, name: 'not_ready', message: 'the connection was lost' }));
    }
    this.feeds.lost();
    this.old = false;
    if (this.state === 'connected') this.lostNode = this.node;
    this.silentSince ??= Date.now();
    if ((code === UNAUTHENTICATED || code === TOKEN_EXPIRED) && this.identity) {
      // The credentials are no longer valid. The page continues as a stranger, and the customer may sign in again.
      this.identity = null;
      this.become('connecting');
      this.emit('stranger', reason);
      this.retry = setTimeout(() => this.connect(), jitter(BACKOFF_FIRST_MS));
      return;
    }
    if ((code >= 4000 && code < 4100) || code === 1009) {
      this.become('closed', { text: 'disconnected', detail: reason || 'the node has turned this page away' });
      return;
    }
    this.avoided.set(this.at.url, Date.now());
    const wait = this.delayAfter(code);
    this.chooseAnother();
    this.become(this.lostNode ? 'lost' : 'connecting');
    this.retry = setTimeout(() => this.connect(), wait);
  }

  delayAfter(code) {
    if (code >= 4200 && code < 4300) return 0;
    // Addresses that fail at once, as unknown names do, must not make the others wait.
    const rounds = Math.floor(this.failures / this.nodes.length);
    const most = Math.min(BACKOFF_MAX_MS, BACKOFF_FIRST_MS * 2 ** rounds);
    this.failures += 1;
    // While other nodes are left to try, the wait is short.
    return this.failures <= this.nodes.length && this.nodes.length > 1 ? jitter(Math.min(most, 250)) : jitter(most);
  }

  chooseAnother() {
    const fresh = (member) => Date.now() - (this.avoided.get(member.url) || 0) > AVOID_MS;
    const others = this.nodes.filter(fresh);
    // If there is none, the page's own origin is every second one, because only the nodes may know the other names.
    const [own, ...rest] = this.nodes;
    const from = others.length > 0 ? others : this.at === own && rest.length > 0 ? rest : [own];
    this.at = (others.length === 0 && this.leftOld) || from[Math.floor(Math.random() * from.length)];
    if (this.at === this.leftOld) this.leftOld = null;
  }

  moveOn(why, wait) {
    if (this.moving) return;
    this.moving = setTimeout(() => {
      this.moving = null;
      this.drop();
      this.lost({ code: 4200, reason: why });
    }, wait);
  }

  /** The feeds may be behind (`old`), or no longer are. Another node may know more, or none does. */
  aged(old) {
    if (old === this.old || this.state !== 'connected') return;
    this.old = old;
    this.become('connected');
    this.leaveIfOld();
  }

  leaveIfOld() {
    if (!this.old || this.nodes.length < 2 || Date.now() - this.leftOldAt < AVOID_MS) return;
    this.leftOldAt = Date.now();
    this.leftOld = this.at;
    this.moveOn('cut off', jitter(1_000));
  }

  // Whether the node is there

  tick() {
    this.leaveIfOld();
    if (this.isSilent()) this.become(this.state);
    const slept = Date.now() - this.tickedAt > 10 * WATCH_EVERY_MS;
    this.tickedAt = Date.now();
    const waits = [...this.pending.values()].some((request) => request.waits);
    const quiet = waits ? WAITS_QUIET_MS : QUIET_MS;
    if (slept || (this.state === 'connected' && Date.now() - this.heardAt > quiet)) this.areYouThere(waits ? WAITS_PONG_MS : PONG_WITHIN_MS);
  }

  /** The browser has lost its network. It is told at once, and the node is asked, because the way to it may be another one. */
  goOffline() {
    this.offline = true;
    if (this.state === 'closed') return;
    this.become(this.state);
    this.areYouThere(WAITS_PONG_MS);
  }

  areYouThere(within = PONG_WITHIN_MS) {
    if (this.state === 'lost' || this.state === 'connecting') {
      if (!this.socket) this.reconnectNow();
      return;
    }
    if (this.state !== 'connected' || this.pong) return;
    this.pong = setTimeout(() => this.abandon(), within);
    this.socket.send(JSON.stringify({ id: 0, op: 'hello', body: {} }));
  }

  /** No node has answered for a while. */
  isSilent() {
    const looking = this.state === 'connecting' || this.state === 'lost';
    return looking && this.silentSince !== null && Date.now() - this.silentSince >= SAY_AFTER_MS;
  }

  /** Tells a state in two ways: `text` for buyers, who know of no nodes, and `detail` for operators. */
  become(state, words = null) {
    this.state = state;
    const usual = {
      connecting: { text: 'connecting …' },
      connected: { text: 'connected', detail: `connected to ${called(this.node)}` },
      lost: { text: 'connection lost — trying again', detail: `node ${called(this.lostNode)} lost — looking for another` },
      closed: { text: 'disconnected' },
    };
    const old = this.old && state === 'connected';
    const offline = this.offline && state !== 'closed';
    const silent = this.isSilent();
    let said = words || usual[state];
    if (old) said = { text: 'this may be old', detail: `node ${called(this.node)} is cut off — this may be old` };
    if (silent) said = { text: 'no answer — trying again', detail: `no answer from ${[...this.tried].join(', ')} — trying again` };
    if (offline) said = { text: 'no network — this goes on as soon as your device is online' };
    this.text = said.text;
    this.detail = said.detail || said.text;
    this.told = { state: offline ? 'offline' : old ? 'old' : state, silent: silent && !offline };
    this.emit('state', { ...this.told, node: this.node, text: this.text, detail: this.detail, moved: !offline && state === 'connected' && Boolean(words) });
  }

  /** Tells its state again, to who shows it in another way now. */
  tell() {
    this.emit('state', { ...this.told, node: this.node, text: this.text, detail: this.detail, moved: false });
  }
}

/** Nodes without names have numbers. */
export function called(node) {
  return /^\d+$/.test(node) ? `n${node}` : node;
}

function hostOf(url) {
  try {
    return new URL(url).host;
  } catch {
    return url;
  }
}

function sameOrigin(one, other) {
  try {
    return new URL(one).origin === new URL(other).origin;
  } catch {
    return false;
  }
}

// The cluster as operators see it. It is read once a second, and the changes since then are described in words.

import { ask, askAny, showDemoKey, text, wantsToken } from './ask.js';
import { happenings } from './happenings.js';
import { between, rates, reading, together } from './metrics.js';
import { POINTS } from './spark.js';

const EVERY_MS = 1_000;
const WITHIN_MS = 1_500;
/** When a node that did not answer is asked again. Browsers write each failed attempt into their console. */
const AGAIN_MS = 4_000;
/** A member that is at most this many entries behind has caught up. */
const CAUGHT_UP = 2;
/** Latencies are those of this many of the last readings. */
const LATENCY_READINGS = 10;

/** Origins that the page may not connect to. Its policy has the members of the moment in which it was loaded. */
const beyond = new Set();
document.addEventListener('securitypolicyviolation', ({ effectiveDirective, blockedURI }) => {
  if (effectiveDirective === 'connect-src' && URL.canParse(blockedURI)) beyond.add(new URL(blockedURI).origin);
});

/** Whether a member joined after the page was loaded, so that only a reload reaches it. */
export function isBeyond(url) {
  return URL.canParse(url) && beyond.has(new URL(url).origin);
}

/** The number in the name of a replica: "2.14" is one of node 2. */
export function nodeOf(replica) {
  return Number(replica.split('.')[0]);
}

export class Cluster {
  /** `control` is that of a demonstration, or null. */
  constructor(app, control) {
    this.app = app;
    this.control = control;
    this.version = 0;
    this.replicas = 0;
    /** Members that are not gone, by number, with `status` and `readings`. */
    this.members = new Map();
    this.places = [];
    /** The leader of each shard, or null if none is known. */
    this.leaders = new Map();
    this.totals = { series: { ok: [], no: [], fail: [], frames: [], watchers: [] }, buckets: [] };
    this.locked = false;
    this.listeners = new Set();
    this.stopped = false;
  }

  /** Calls `listener` with the events of each look. Returns a function that ends that. */
  on(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  start() {
    this.seen = () => document.visibilityState === 'visible' && this.look();
    document.addEventListener('visibilitychange', this.seen);
    this.look();
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    document.removeEventListener('visibilitychange', this.seen);
  }

  /** Does something between two looks, because asking a node while it is killed would log an error in the console. */
  async between(what) {
    this.held = true;
    try {
      await this.looking;
      await what();
    } finally {
      this.held = false;
      this.look();
    }
  }

  /** Looks now, and then again each second while the page is visible. */
  look() {
    if (this.looking || this.held || this.stopped || document.visibilityState === 'hidden') return;
    clearTimeout(this.timer);
    this.looking = this.lookOnce().finally(() => {
      this.looking = null;
      // The page asks for a token only if the node requires one.
      if (!this.stopped && !this.locked) this.timer = setTimeout(() => this.look(), EVERY_MS);
    });
  }

  async lookOnce() {
    const before = this.picture();
    await this.askControl();
    await this.askMembers();
    if (!this.locked) await Promise.all([...this.members.values()].map((member) => this.askMember(member)));
    this.leaders = leadersOf(this.members);
    this.sum();
    if (this.stopped) return;
    const news = before.version === 0 ? [] : happenings(before, this.picture());
    for (const listener of [...this.listeners]) listener(news);
  }

  /** The state that is compared from one look to the next. */
  picture() {
    const members = [...this.members.values()].map(({ node, up, state, returning }) => ({ node, up, state, returning }));
    const moving = this.places.filter((place) => place.from).map((place) => place.shard);
    return { version: this.version, at: Date.now(), members, moving, leaders: new Map(this.leaders) };
  }

  async askControl() {
    if (!this.control) return;
    await showDemoKey(this.app);
    this.processes = await this.control.nodes().catch(() => this.processes || []);
  }

  async askMembers() {
    if (this.alone) {
      this.askAlone();
      return;
    }
    let now;
    const avoid = new Set([...this.members.values()].filter((member) => member.up === false).map((member) => member.url));
    try {
      now = await askAny(this.app, 'admin.nodes', {}, { within: WITHIN_MS, avoid });
    } catch (error) {
      this.locked = wantsToken(error);
      if (error.name2 === 'not_found') this.askAlone();
      return;
    }
    this.locked = false;
    this.version = now.version;
    this.replicas = now.replicas;
    this.places = now.places;
    for (const member of now.members) this.put(member);
  }

  /** A node without others has no table of its cluster, because it is all of it. */
  askAlone() {
    this.alone = true;
    const node = Number(this.app.page.node);
    this.version = 1;
    this.replicas = 1;
    this.put({ node, state: 'serving', client: '', program: '' });
    const shards = this.members.get(node).status?.shards || [];
    this.places = shards.map(({ shard }) => ({ shard, voters: [`${node}.1`], learners: [], leader: `${node}.1` }));
  }

  put({ node, state, client, program }) {
    if (state === 'gone') {
      this.members.delete(node);
      return;
    }
    const known = this.members.get(node) || { node, up: null, status: null, readings: [], series: { ok: [] }, triedAt: 0, lag: 0 };
    const listed = this.app.page.nodes.find((each) => each.node === String(node));
    const told = client && (client.includes('://') ? client : `${location.protocol}//${client}`);
    const url = listed?.url || told || this.app.link.at.url;
    this.members.set(node, Object.assign(known, { state, url, program }));
  }

  /** The process of a member. Undefined without a control. */
  processOf(member) {
    return this.processes?.find((each) => each.url.replace(/\/$/, '') === member.url);
  }

  async askMember(member) {
    const { running } = this.processOf(member) || {};
    const isTime = member.up !== false || running || Date.now() - member.triedAt > AGAIN_MS;
    if (running === false || isBeyond(member.url)) {
      member.up = false;
    } else if (isTime) {
      member.triedAt = Date.now();
      member.up = await this.read(member);
    }
    if (!member.up) member.status = null;
    follow(member);
  }

  async read(member) {
    try {
      const [status, counters] = await Promise.all([
        ask(member.url, 'admin.status', {}, { within: WITHIN_MS }),
        text(`${member.url}/metrics`, WITHIN_MS),
      ]);
      member.status = status;
      keep(member.readings, reading(counters, performance.now()));
      return true;
    } catch (error) {
      if (wantsToken(error)) this.locked = true;
      return false;
    }
  }

  /** Sums up the rates of all nodes, and sets how far each is behind. */
  sum() {
    const up = [...this.members.values()].filter((member) => member.up);
    for (const key of ['ok', 'no', 'fail', 'frames']) {
      keep(this.totals.series[key], up.reduce((sum, member) => sum + (member.rates?.[key] || 0), 0));
    }
    keep(this.totals.series.watchers, up.reduce((sum, member) => sum + (member.now?.watchers || 0), 0));
    this.totals.sockets = up.reduce((sum, member) => sum + (member.now?.sockets || 0), 0);
    this.totals.buckets = together(up.map((member) => member.buckets));
    const lags = lagsOf(up);
    for (const member of this.members.values()) catchUp(member, lags.get(member.node));
  }
}

function keep(list, value) {
  list.push(value);
  if (list.length > POINTS) list.shift();
}

/** Sets the rates of a member since the reading before. */
function follow(member) {
  const { readings } = member;
  member.now = member.up ? readings.at(-1) : null;
  const before = readings.at(-2);
  member.rates = member.up && before ? rates(before, member.now) : null;
  const earlier = readings.at(-Math.min(readings.length, LATENCY_READINGS));
  member.buckets = member.up && earlier !== member.now ? between(earlier, member.now) : [];
  keep(member.series.ok, member.rates?.ok || 0);
  // Counters of a process that is gone say nothing about the next one.
  if (!member.up) readings.length = 0;
}

/** The leader of each shard in the latest term: the node that says it leads, else one that others name and that answers. */
function leadersOf(members) {
  const best = new Map();
  for (const member of members.values()) {
    for (const { shard, role, term, leader } of member.status?.shards || []) {
      const known = best.get(shard);
      const leads = role === 'leader';
      if (known && (known.term > term || (known.term === term && (known.leads || !leads)))) continue;
      const answers = leader !== undefined && members.get(leader)?.up;
      best.set(shard, { term, leads, leader: leads ? member.node : answers ? leader : null });
    }
  }
  return new Map([...best].map(([shard, { leader }]) => [shard, leader]));
}

/** Sets how far a member is behind, and the most that it was behind since it came back. */
function catchUp(member, lag) {
  member.lag = member.up ? lag ?? 0 : null;
  if (!member.up) {
    member.returning = { most: 0 };
  } else if (member.returning && lag !== undefined) {
    member.returning = lag <= CAUGHT_UP ? null : { most: Math.max(lag, member.returning.most) };
  }
}

/** The most entries that one of its replicas is behind, by node, as the leaders say. Replicas not heard are left out. */
function lagsOf(up) {
  const lags = new Map();
  for (const member of up) {
    for (const shard of member.status?.shards || []) {
      for (const { replica, lag, heard } of shard.followers || []) {
        const node = nodeOf(replica);
        if (heard) lags.set(node, Math.max(lag, lags.get(node) || 0));
      }
    }
  }
  return lags;
}

// Counters of a node, as Prometheus text, and their changes between two readings.

const LATENCY = 'boxoffice_edge_request_duration_seconds_bucket';
const REQUESTS = 'boxoffice_edge_requests_total';
const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** One reading. */
export function reading(text, at) {
  const now = { at, ok: 0, no: 0, fail: 0, buckets: [], watchers: 0, sockets: 0, frames: 0, commits: 0, syncs: 0 };
  for (const line of text.split('\n')) {
    const parts = line.startsWith('#') ? null : LINE.exec(line);
    if (parts) take(now, parts[1], labelsOf(parts[2]), Number(parts[3]));
  }
  now.buckets.sort((one, other) => one.le - other.le);
  return now;
}

function labelsOf(text = '') {
  return Object.fromEntries([...text.matchAll(LABEL)].map(([, name, value]) => [name, value]));
}

function take(now, name, labels, value) {
  if (name === REQUESTS) {
    // Requests of operators are not sales.
    if (!labels.op.startsWith('admin.') && labels.outcome in now) now[labels.outcome] += value;
  } else if (name === LATENCY) {
    now.buckets.push({ le: labels.le === '+Inf' ? Infinity : Number(labels.le), count: value });
  } else if (name === 'boxoffice_edge_watchers') now.watchers = value;
  else if (name === 'boxoffice_edge_sockets') now.sockets = value;
  else if (name === 'boxoffice_edge_feed_frames_total') now.frames = value;
  else if (name === 'boxoffice_turns_total') now.commits = value;
  else if (name === 'boxoffice_log_syncs_total') now.syncs = value;
}

const RATES = ['ok', 'no', 'fail', 'frames', 'commits', 'syncs'];

/** The rates per second between two readings. A counter that went back began anew, because the node was restarted. */
export function rates(before, now) {
  const seconds = Math.max(0.001, (now.at - before.at) / 1000);
  const since = (key) => (now[key] >= before[key] ? now[key] - before[key] : now[key]) / seconds;
  return Object.fromEntries(RATES.map((key) => [key, since(key)]));
}

/** How many requests fell into each bucket between two readings: [{le, count}], not summed up. */
export function between(before, now) {
  const restarted = before.buckets.length !== now.buckets.length
    || now.buckets.some((bucket, index) => bucket.count < before.buckets[index].count);
  let [sum, sumBefore] = [0, 0];
  return now.buckets.map((bucket, index) => {
    const earlier = restarted ? 0 : before.buckets[index].count;
    const count = bucket.count - sum - (earlier - sumBefore);
    [sum, sumBefore] = [bucket.count, earlier];
    return { le: bucket.le, count };
  });
}

/** Adds up buckets of several nodes. */
export function together(all) {
  const [first, ...others] = all.filter((buckets) => buckets.length > 0);
  if (!first) return [];
  return first.map(({ le, count }, index) => ({ le, count: others.reduce((sum, more) => sum + (more[index]?.count || 0), count) }));
}

/** The time within which this part of the requests was answered, in seconds. Null if there were none. */
export function quantile(buckets, part) {
  const all = buckets.reduce((sum, { count }) => sum + count, 0);
  if (all <= 0) return null;
  let [left, low] = [all * part, 0];
  for (const { le, count } of buckets) {
    if (count > 0 && left <= count) return le === Infinity ? low : low + (le - low) * (left / count);
    left -= count;
    if (le !== Infinity) low = le;
  }
  return low;
}

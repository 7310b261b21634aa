// The control of a demonstration: which node processes run, and killing and starting them.

import { RequestError } from '../connection.js';

const WITHIN_MS = 10_000;

/** A control at this address. Null if this is no demonstration. */
export function demoControl(base) {
  if (!base) return null;
  const origin = base.replace(/\/$/, '');
  return {
    /** The nodes: [{node, url, running, pid}]. */
    async nodes() {
      return (await asked(`${origin}/nodes`, {})).json();
    },
    /** The key of this view, which the nodes of the demonstration know. */
    async key() {
      return (await (await asked(`${origin}/key`, {})).json()).key;
    },
    /** Kills a node as a power cut would. */
    kill: (node) => asked(`${origin}/nodes/${encodeURIComponent(node)}/kill`, { method: 'POST' }),
    start: (node) => asked(`${origin}/nodes/${encodeURIComponent(node)}/start`, { method: 'POST' }),
  };
}

async function asked(url, init) {
  let response;
  try {
    response = await fetch(url, { ...init, signal: AbortSignal.timeout(WITHIN_MS) });
  } catch {
    throw new RequestError('fail', { name: 'not_ready', message: 'the demonstration has ended' });
  }
  if (response.ok) return response;
  const why = await response.json().catch(() => ({}));
  throw new RequestError('no', { name: 'conflict', message: why.message || `it answered ${response.status}` });
}

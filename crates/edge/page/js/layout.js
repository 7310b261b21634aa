// Sessions with their layouts. A layout comes over HTTP if every stranger may have it, because there it is compressed and kept.

const LAYOUT_WITHIN_MS = 30_000;

/** The layout of a session from a node, or null. Without credentials, since with them it would be neither compressed nor kept. */
export async function publicLayout(node, id, cache = 'default') {
  try {
    const url = new URL(`/v1/sessions/${encodeURIComponent(id)}/layout`, node);
    const answer = await fetch(url, { cache, credentials: 'omit', signal: AbortSignal.timeout(LAYOUT_WITHIN_MS) });
    return answer.ok ? (await answer.json()).ok : null;
  } catch {
    return null;
  }
}

/**
 * A session with its layout, as `session.get` answers. `early` is what is known or under way already: promises of the `facts`, which
 * are the session without rows, and of the `layout`.
 */
export async function wholeSession(link, id, options = {}, early = {}) {
  const facts = (await early.facts) || (await link.request('session.get', { id, layout: false }, options));
  // A node of before sends the rows all the same.
  if (facts.layout.rows.length > 0 || seatsOf(facts.counts) === 0) return facts;
  const node = link.at?.url || location.origin;
  for (const layout of [early.layout || publicLayout(node, id), () => publicLayout(node, id, 'reload')]) {
    const found = await (typeof layout === 'function' ? layout() : layout);
    // A browser may have kept the layout of another cluster at this address.
    if (found && found.rows.flatMap((row) => row.runs).reduce((sum, run) => sum + run.count, 0) === seatsOf(facts.counts)) {
      return { ...facts, layout: found };
    }
    if (!found) break;
  }
  return link.request('session.get', { id }, options);
}

function seatsOf({ free, held, sold, blocked }) {
  return free + held + sold + blocked;
}

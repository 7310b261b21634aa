// Requests of operators to any node. They go over HTTP, because each node reports only itself and the page is connected to one.
// If the nodes require an operators' token, the page asks for it and keeps it until the window is closed.

import { RequestError, newRid } from '../connection.js';
import { demoControl } from './demo.js';

const KEPT = 'boxoffice.operator';
const WITHIN_MS = 4_000;

let memory = '';

/** The token of operators, or ''. */
export function token() {
  try {
    return sessionStorage.getItem(KEPT) || '';
  } catch {
    return memory;
  }
}

/** Sets the token. '' forgets it. */
export function setToken(text) {
  memory = text;
  try {
    if (text === '') sessionStorage.removeItem(KEPT);
    else sessionStorage.setItem(KEPT, text);
  } catch {
    // Without storage it lasts as long as the page.
  }
}

let shown;

/** A demonstration gives its operators' views a key of their own. */
export function showDemoKey(app) {
  if (token() !== '' || !app.page.demo) return Promise.resolve();
  shown ||= demoControl(app.page.demo).key().then(setToken).catch(() => { shown = undefined; });
  return shown;
}

/** Whether this error says that operators must show who they are. */
export function wantsToken(error) {
  return error?.kind === 'no' && (error.code === 107 || error.code === 108);
}

/** Asks a node. Returns its ok, or throws a RequestError. Changes need a `rid`. */
export async function ask(url, op, body = {}, { rid, within = WITHIN_MS } = {}) {
  const headers = {};
  const shown = token();
  if (shown !== '') headers.authorization = `Bearer ${shown}`;
  const isEmpty = Object.keys(body).length === 0;
  // Without a body and a token a browser sends no preflight request.
  if (!isEmpty) headers['content-type'] = 'application/json';
  if (rid) headers['idempotency-key'] = rid;
  const init = { headers, method: isEmpty ? 'GET' : 'POST', body: isEmpty ? undefined : JSON.stringify(body) };
  const response = await fetched(`${url}/v1/${op}`, init, within);
  const answer = await response.json().catch(() => null);
  if (answer?.ok) return answer.ok;
  if (answer?.no) throw new RequestError('no', answer.no);
  throw new RequestError('fail', answer?.fail || { code: 903, name: 'not_ready', message: `the node answered ${response.status}` });
}

/**
 * Asks the node that the page is connected to, and others if that one is gone. Those to `avoid` come last. Without a token the
 * request goes over the page's own connection, where a browser does not log refusals as errors.
 */
export async function askAny(app, op, body, options = {}) {
  await showDemoKey(app);
  const rid = options.changes ? newRid() : undefined;
  if (token() === '') return app.link.request(op, body, { rid, deadline: options.within || WITHIN_MS });
  const all = [...new Set([app.link.at.url, ...app.link.nodes.map((member) => member.url)])];
  const avoided = (url) => options.avoid?.has(url) || false;
  const urls = all.toSorted((one, other) => avoided(one) - avoided(other));
  let last;
  for (const url of urls) {
    try {
      return await ask(url, op, body, { ...options, rid });
    } catch (error) {
      // A refusal is the same everywhere.
      if (error.kind === 'no') throw error;
      last = error;
    }
  }
  throw last;
}

/** Any page of a node, as text. */
export async function text(url, within = WITHIN_MS) {
  const shown = token();
  const headers = shown === '' ? {} : { authorization: `Bearer ${shown}` };
  const response = await fetched(url, { headers }, within);
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
  return response.text();
}

async function fetched(url, init, within) {
  try {
    return await fetch(url, { ...init, cache: 'no-store', signal: AbortSignal.timeout(within) });
  } catch {
    throw new RequestError('fail', { code: 903, name: 'not_ready', message: 'the node cannot be reached' });
  }
}

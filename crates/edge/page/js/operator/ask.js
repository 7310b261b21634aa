// What operators ask, of any node: by HTTP, because each node tells only of itself and the page is connected to one.
// Where the nodes want an operators' token, it is asked for and kept until the window is closed.

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

/** Another token; '' forgets it. */
export function setToken(text) {
  memory = text;
  try {
    if (text === '') sessionStorage.removeItem(KEPT);
    else sessionStorage.setItem(KEPT, text);
  } catch {
    // It lasts as long as the page.
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

/** Asks a node: its ok, or a RequestError. `rid` for what changes something. */
export async function ask(url, op, body = {}, { rid, within = WITHIN_MS } = {}) {
  const headers = {};
  const shown = token();
  if (shown !== '') headers.authorization = `Bearer ${shown}`;
  const isEmpty = Object.keys(body).length === 0;
  // Without a body and a token a browser need not ask beforehand whether it may.
  if (!isEmpty) headers['content-type'] = 'application/json';
  if (rid) headers['idempotency-key'] = rid;
  const init = { headers, method: isEmpty ? 'GET' : 'POST', body: isEmpty ? undefined : JSON.stringify(body) };
  const response = await fetched(`${url}/v1/${op}`, init, within);
  const answer = await response.json().catch(() => null);
  if (answer?.ok) return answer.ok;
  if (answer?.no) throw new RequestError('no', answer.no);
  throw new RequestError('fail', answer?.fail || { code: 903, name: 'not_ready', message: `the node answered ${response.status}` });
}

/** Asks the node that the page is connected to, and others where that one is gone; those to `avoid` come last. Who shows
    no token asks over the page's own connection, where a refusal is no error that a browser notes. */
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

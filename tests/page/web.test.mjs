// The page and the widget over TLS, behind a proxy, from nodes whose names browsers cannot resolve.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after } from 'node:test';
import './buyers.test.mjs';
import './codes.test.mjs';
import './companions.test.mjs';
import './hours.test.mjs';
import './members.test.mjs';
import './names.test.mjs';
import { closeChrome, connected, eventually, hold, inCart, mapKnown, pageTest, pick, reads } from './lib.mjs';
import { ended, freePort, withOwn } from './own.mjs';
import './types.test.mjs';
import './weight.test.mjs';
import './widget.test.mjs';

after(closeChrome);

const OVER_TLS = { ignoreHTTPSErrors: true };

const shopPage = (url, session) => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>A page of another shop</title>
<link rel="icon" href="data:,">
<script type="module" src="${url}/page/widget.js"></script>
<boxoffice-map session="${session}" node="${url}" max="4"></boxoffice-map>`;

/** Picks, holds and pays two seats of a row. */
async function buy(page, row) {
  await pick(page, row, 1, 2);
  await hold(page);
  await inCart(page, 2);
  await page.click('#to-cart');
  await page.waitForSelector('#pay');
  // Where customers have tokens, a visitor names none.
  if (await page.$('#customer')) await page.fill('#customer', 'Ada');
  await page.click('#pay');
  await page.waitForFunction(() => location.hash.startsWith('#/order/'));
}

async function visit(page, url, session) {
  await page.goto(`${url}/#/session/${session}`);
  await connected(page);
  await mapKnown(page);
}

const endpoint = (page) => page.evaluate(() => ({ at: window.boxoffice.app.link.at.url, doors: window.boxoffice.app.link.nodes.map(({ url }) => url) }));

/** Records the addresses of the page's WebSockets. */
function sockets(page) {
  const urls = [];
  page.on('websocket', (socket) => urls.push(socket.url()));
  return urls;
}

pageTest('a node that speaks TLS sells to a page and shows its map in a page of another site', (people) => withOwn(people, async (own) => {
  const { certificate, key } = own.certificate();
  const [port, other, shop] = [await freePort(), await freePort(), await freePort()];
  const url = `https://tickets.test:${port}`;
  const origin = `https://shop.test:${shop}`;
  const tls = ['--tls-certificate', certificate, '--tls-key', key, '--public-url', url];
  const node = await own.node(1, tls, { port, origins: [origin] });
  own.sell(node.operators, 'own-tls');
  const page = await people.window(OVER_TLS);
  const went = sockets(page);
  await visit(page, url, 'own-tls');
  await buy(page, 1);
  assert.deepEqual(went, [`wss://tickets.test:${port}/v1/ws`]);
  assert.deepEqual(await endpoint(page), { at: url, doors: [url] });
  await own.proxy([node], { certificate, key }, { port: other, shop, html: shopPage(url, 'own-tls') });
  const visitor = await people.window(OVER_TLS);
  await visitor.goto(`${origin}/`);
  await visitor.waitForFunction(() => document.querySelector('boxoffice-map').state === 'ready');
}));

pageTest('behind a proxy with TLS all connections use its name, also when a node dies', (people) => withOwn(people, async (own) => {
  const files = own.certificate();
  const [port, shop] = [await freePort(), await freePort()];
  const url = `https://tickets.test:${port}`;
  const origin = `https://shop.test:${shop}`;
  const argumentsOf = (id) => ['--public-url', url, '--advertise', `http://node-${id}.internal:7180`];
  const nodes = await own.cluster(argumentsOf, { origins: [origin] });
  own.sell(nodes[0].operators, 'own-proxy');
  await own.proxy(nodes, files, { port, shop, html: shopPage(url, 'own-proxy') });
  const page = await people.window(OVER_TLS);
  const went = sockets(page);
  await visit(page, url, 'own-proxy');
  // The page connects to its own origin. It ignores node addresses without TLS.
  assert.deepEqual(await endpoint(page), { at: url, doors: [url] });
  await buy(page, 1);
  const other = await people.window(OVER_TLS);
  const shown = sockets(other);
  await other.goto(`${origin}/`);
  await other.waitForFunction(() => document.querySelector('boxoffice-map').state === 'ready');
  const node = await page.evaluate(() => window.boxoffice.app.link.node);
  await page.evaluate(() => { location.hash = '#/session/own-proxy'; });
  await mapKnown(page);
  await pick(page, 2, 1, 2);
  await ended(nodes[Number(node) - 1].child, 'SIGKILL');
  await page.waitForFunction((before) => {
    const { link } = window.boxoffice.app;
    return link.state === 'connected' && link.node !== before;
  }, node);
  await hold(page);
  await inCart(page, 2);
  const all = new Set([...went, ...shown]);
  assert.deepEqual([...all], [`wss://tickets.test:${port}/v1/ws`]);
}), { nodesGo: true, within: 120_000 });

pageTest('nodes with unresolvable names: the page uses its own origin, and names the addresses that do not answer', (people) => withOwn(people, async (own) => {
  const nodes = await own.cluster((id) => ['--advertise', `http://node-${id}.internal:7180`]);
  own.sell(nodes[0].operators, 'own-names');
  const [{ port, args }] = nodes;
  const url = `http://127.0.0.1:${port}`;
  const page = await people.window();
  await visit(page, url, 'own-names');
  assert.deepEqual(await endpoint(page), { at: url, doors: [url, 'http://node-2.internal:7180', 'http://node-3.internal:7180'] });
  await buy(page, 1);
  await ended(nodes[0].child, 'SIGKILL');
  const begun = Date.now();
  await page.waitForFunction(() => document.getElementById('link-text').textContent === 'no answer — trying again');
  const after = Date.now() - begun;
  assert.ok(after > 4_000 && after < 9_000, `reported after ${after} ms`);
  await reads(page, '#toasts', /no answer — trying again/);
  // Operators read which nodes they are.
  await page.evaluate(() => { location.hash = '#/operator'; });
  await reads(page, '#link-text', /^no answer from .*node-[23]\.internal:7180/);
  await own.node(1, args, { port });
  await connected(page);
  await reads(page, '#link-text', /connected to n1/);
}), { nodesGo: true, within: 120_000 });

/** The words above the view, once they are seen. */
async function said(page, words) {
  await reads(page, '#why-text', words);
  assert.equal(await page.isVisible('#why'), true);
  return page.textContent('#why-hint');
}

pageTest('a page whose address the node does not know says so, and what the operator must set', (people) => withOwn(people, async (own) => {
  const files = own.certificate();
  const [port, other, shop] = [await freePort(), await freePort(), await freePort()];
  // A name of a node without a public address, in plain text, with TLS in the node, and behind a proxy.
  const plain = await own.node(1);
  const sealed = await own.node(2, ['--tls-certificate', files.certificate, '--tls-key', files.key], { port });
  await own.proxy([plain], files, { port: other, shop, html: 'nothing' });
  for (const url of [`http://tickets.localhost:${plain.port}`, `https://tickets.test:${sealed.port}`, `https://tickets.test:${other}`]) {
    const page = await people.window(OVER_TLS);
    await page.goto(`${url}/`);
    const hint = await said(page, /not set up for this address/);
    assert.match(hint, /listen\.public_url/);
    assert.ok(hint.includes(`address ${url} of`), hint);
  }
  // By its IP address the same node takes the page, which then says nothing.
  const page = await people.window();
  await page.goto(`http://127.0.0.1:${plain.port}/`);
  await connected(page);
  assert.equal(await page.isVisible('#why'), false);
}), { nodesGo: true, refused: true, within: 120_000 });

pageTest('a page without a connection says why: a full node, one that drains, none, no network', (people) => withOwn(people, async (own) => {
  const node = await own.node(1);
  const url = `http://127.0.0.1:${node.port}`;
  const page = await people.window();
  // The node's answers to a page that has none of its sockets.
  let answer = null;
  let turnedAway = false;
  await page.routeWebSocket(/\/v1\/ws/, (socket) => (turnedAway ? socket.close({ code: 1011 }) : socket.connectToServer()));
  await page.goto(`${url}/`);
  await connected(page);
  turnedAway = true;
  await page.route(/\/(page\.json|readyz)/, (route) => {
    const found = answer?.[new URL(route.request().url()).pathname];
    if (found) route.fulfill(found); else route.continue();
  });
  const lose = () => page.evaluate(() => window.boxoffice.app.link.abandon());
  const says = async (words, detail) => {
    const hint = await said(page, words);
    if (await page.evaluate(() => location.hash === '#/operator')) assert.match(hint, detail);
    else assert.equal(hint, '', 'the words of the node are for operators');
  };
  answer = { '/page.json': { status: 503, body: 'this node has as many connections as it may have (limits.connections)\n' } };
  await lose();
  await says(/too many people/, /limits\.connections/);
  await page.evaluate(() => { location.hash = '#/operator'; });
  await reads(page, '#why-hint', /limits\.connections/);
  answer = { '/page.json': { status: 429, body: 'too many connections from this network.\n' } };
  await said(page, /your network has too many/);
  answer = { '/readyz': { status: 503, body: 'draining\n' } };
  await said(page, /restarts/);
  answer = { '/readyz': { status: 503, body: 'it reads its log\n' } };
  await says(/not ready yet/, /it reads its log/);
  answer = { '/page.json': { status: 404, body: '' } };
  assert.match(await said(page, /no box office is at this address/), /at the root of its address/);
  answer = null;
  await ended(node.child, 'SIGKILL');
  await says(/does not answer/, new RegExp(`127\\.0\\.0\\.1:${node.port} cannot be reached`));
  await page.context().setOffline(true);
  await said(page, /no network/);
  await page.context().setOffline(false);
  await page.unrouteAll({ behavior: 'ignoreErrors' });
}), { nodesGo: true, refused: true, within: 120_000 });

pageTest('a script of the page reaches the members and no other address', (people) => withOwn(people, async (own) => {
  const node = await own.node(1);
  const foreign = createServer((_, response) => response.writeHead(200, { 'access-control-allow-origin': '*' }).end('{}'));
  await new Promise((resolve) => { foreign.listen(0, '127.0.0.1', resolve); });
  try {
    const page = await people.window();
    await page.goto(`http://127.0.0.1:${node.port}/`);
    await connected(page);
    const reached = (url) => page.evaluate((to) => fetch(to).then(() => true, () => false), url);
    assert.equal(await reached(`http://127.0.0.1:${node.port}/page.json`), true);
    assert.equal(await reached(`http://127.0.0.1:${foreign.address().port}/`), false, 'the policy lets a script reach a foreign address');
    assert.equal(await page.evaluate(() => document.featurePolicy.allowsFeature('camera')), false);
    const errors = people.errors.splice(0);
    assert.ok(errors.length > 0 && errors.every((error) => /Content Security Policy|violates the document/.test(error)), errors.join());
  } finally {
    foreign.close();
  }
}));

pageTest('a page that is open goes on with the members it knows when another one joins, and a reload adds that one', (people) => withOwn(people, async (own) => {
  const peers = [await freePort(), await freePort(), await freePort()];
  const args = (id) => ['--node', String(id), '--peers-listen', `127.0.0.1:${peers[id - 1]}`];
  const first = await own.node(1, args(1));
  const second = await own.node(2, [...args(2), '--join', `127.0.0.1:${first.port}`]);
  const urls = (...nodes) => nodes.map((node) => `http://127.0.0.1:${node.port}`);
  const known = async (page) => (await endpoint(page)).doors.toSorted();
  await eventually(async () => (await (await fetch(`${urls(first)}/page.json`)).json()).nodes.length === 2, 'the first node knows the second');
  const page = await people.window();
  await page.goto(`${urls(first)}/`);
  await connected(page);
  assert.deepEqual(await known(page), urls(first, second).toSorted());
  const third = await own.node(3, [...args(3), '--join', `127.0.0.1:${first.port}`]);
  await eventually(async () => (await (await fetch(`${urls(second)}/page.json`)).json()).nodes.length === 3, 'the second node knows the third');
  await ended(first.child, 'SIGTERM');
  await page.waitForFunction((url) => window.boxoffice.app.link.state === 'connected' && window.boxoffice.app.link.at.url === url, urls(second)[0]);
  // It asks the second node for its members now, and may not connect to the third.
  await page.waitForTimeout(1_000);
  assert.deepEqual(await known(page), urls(first, second).toSorted());
  const again = await people.window();
  await again.goto(`${urls(second)}/`);
  await connected(again);
  assert.ok((await known(again)).includes(urls(third)[0]));
}), { nodesGo: true, within: 120_000 });

const SECRET = 'the secret of the shop';

/** A shop's page that shows the box office to a signed-in customer. */
const account = (url, customer, token) => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>An account</title>
<link rel="icon" href="data:,">
<script>
  addEventListener('message', ({ origin, data, source }) => {
    if (origin === '${url}' && data.boxoffice === 'ready') source.postMessage({ boxoffice: 'customer', customer: '${customer}', token: '${token}' }, origin);
  });
</script>
<iframe src="${url}/#/purchases" title="Tickets" width="1200" height="900"></iframe>`;

pageTest('a customer signed in by the embedding page buys and finds the order; an anonymous visitor must sign in', (people) => withOwn(people, async (own) => {
  const [port, shop] = [await freePort(), await freePort()];
  const [url, origin] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${shop}`];
  const node = await own.node(1, ['--customer-secret', SECRET], { port, origins: [origin] });
  own.sell(node.operators, 'own-customers');
  const html = account(url, 'ada', own.customerToken('ada', SECRET));
  const server = createServer((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(html));
  await new Promise((resolve) => { server.listen(shop, '127.0.0.1', resolve); });
  try {
    const page = await people.window();
    await page.goto(`${origin}/`);
    const frame = page.frameLocator('iframe');
    const inside = await (await page.waitForSelector('iframe')).contentFrame();
    await connected(inside);
    await reads(inside, '#purchases', /Nothing was bought/);
    await inside.evaluate(() => window.boxoffice.app.cart.holdSeats('own-customers', [[1, 1], [1, 2]]));
    await inside.evaluate(() => { location.hash = '#/cart'; });
    await reads(inside, '#buyer', /You buy as ada/);
    await frame.locator('#pay').click();
    await inside.waitForFunction(() => location.hash.startsWith('#/order/'));
    await inside.evaluate(() => { location.hash = '#/purchases'; });
    await reads(inside, '#purchases', /Order [0-9a-f]{8}/);
    await inside.waitForSelector('#purchases [data-order]');
    // A token of another customer is refused.
    const anonymous = await people.window();
    await anonymous.goto(`${url}/#/purchases`);
    await reads(anonymous, '#purchases', /to customers who are signed in/);
    await anonymous.evaluate(() => window.boxoffice.signIn({ customer: 'ada', token: '0'.repeat(64) }));
    await anonymous.waitForFunction(() => window.boxoffice.app.customer.get() === null);
    await connected(anonymous);
    await reads(anonymous, '#purchases', /to customers who are signed in/);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}));

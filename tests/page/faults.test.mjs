// Nodes that die and nodes that are taken away, under people who buy.

import assert from 'node:assert/strict';
import { connected, demo, hold, inCart, mapKnown, nodes, pageTest, pick, reads, ready, shows } from './lib.mjs';

pageTest('when its node is killed the page says so, goes on with another one and keeps its cart; the operators see it', async (people, print) => {
  const operator = await people.open(0, '#/operator');
  const page = await people.open(1, '#/session/page-kill');
  await pick(page, 1, 1, 2);
  await hold(page);
  const card = operator.locator('.op-node').nth(1);
  await operator.waitForFunction(() => document.querySelectorAll('.op-node__demo[data-what=kill]').length === 3);
  const begun = Date.now();
  await card.getByRole('button').click();
  await page.waitForSelector('#link[data-state=lost]', { timeout: 5_000 });
  await reads(page, '#toasts', /lost/);
  await connected(page);
  print(`connected again ${Date.now() - begun} ms after the press`);
  await reads(page, '#link-text', /^node n2 lost — connected to n[13]$/);
  await inCart(page, 2);
  await pick(page, 2, 1);
  await page.click('#hold');
  await inCart(page, 3);
  await shows(page, 2, 1, 1);
  await operator.waitForFunction(() => document.querySelectorAll('.op-node')[1].dataset.up === 'no');
  await reads(operator, '.op-log', /Node 2 does not answer any more/);
  await operator.waitForSelector('.op-node:nth-child(2) .op-node__demo[data-what=start]');
  await card.getByRole('button').click();
  await ready(1);
  await operator.waitForFunction(() => document.querySelectorAll('.op-node')[1].dataset.up === 'yes');
  await reads(operator, '.op-log', /Node 2 answers again/);
}, { nodesGo: true });

pageTest('when its node is taken away in order the page moves without an error', async (people, print) => {
  const page = await people.open(2, '#/session/page-drain');
  await pick(page, 1, 1, 2);
  await hold(page);
  const { pid } = await demo.process(2);
  try {
    const begun = Date.now();
    process.kill(pid, 'SIGTERM');
    await page.waitForFunction((url) => {
      const { link } = window.boxoffice.app;
      return link.at.url !== url && link.state === 'connected';
    }, nodes[2]);
    print(`moved ${Date.now() - begun} ms after the signal`);
    await inCart(page, 2);
    await pick(page, 3, 3);
    await page.click('#hold');
    await inCart(page, 3);
    assert.equal(await page.locator('.toast--bad, .notice--bad').count(), 0, 'no error is shown');
  } finally {
    await demo.start(2);
  }
  const back = await people.open(2, '#/session/page-drain');
  await mapKnown(back);
  await shows(back, 3, 3, 1);
}, { nodesGo: true });

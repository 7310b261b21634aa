// Nodes that die and nodes that are drained while people buy.

import assert from 'node:assert/strict';
import { demo, hold, inCart, mapKnown, nodes, pageTest, pick, reads, ready, shows } from './lib.mjs';

pageTest('when its node is killed the page reports it, moves to another node and keeps its cart; the operators see it', async (people, print) => {
  const operator = await people.open(0, '#/operator');
  const page = await people.open(1, '#/session/page-kill');
  await pick(page, 1, 1, 2);
  await hold(page);
  const texts = await recordConnectionTexts(page);
  const card = operator.locator('.op-node').nth(1);
  await operator.waitForFunction(() => document.querySelectorAll('.op-node__demo[data-what=kill]').length === 3);
  const begun = Date.now();
  try {
    await card.getByRole('button').click();
    await page.waitForFunction(() => window.connectionTexts.at(-1) === 'connected again');
    print(`connected again ${Date.now() - begun} ms after the press`);
    assert.ok((await texts()).includes('connection lost — trying again'));
    await reads(page, '#toasts', /connected again/);
    await reads(operator, '#link-text', /^(connected to n[13]|node n2 lost — connected to n[13])$/);
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
  } finally {
    if (!(await demo.process(1)).running) await demo.start(1);
  }
}, { nodesGo: true });

/** Records every text of the connection indicator. Some texts are visible for a moment only. */
async function recordConnectionTexts(page) {
  await page.evaluate(() => {
    window.connectionTexts = [];
    const pill = document.getElementById('link-text');
    new MutationObserver(() => window.connectionTexts.push(pill.textContent)).observe(pill, { childList: true, characterData: true, subtree: true });
  });
  return () => page.evaluate(() => window.connectionTexts);
}

pageTest('when its node shuts down the page moves without an error', async (people, print) => {
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

pageTest('the page leaves an isolated node, and shows a staleness warning if there is no better one', async (people, print) => {
  const page = await people.open(1, '#/session/page-old');
  await mapKnown(page);
  const texts = await recordConnectionTexts(page);
  const others = [await demo.process(0), await demo.process(2)];
  const begun = Date.now();
  others.forEach(({ pid }) => process.kill(pid, 'SIGSTOP'));
  try {
    await page.waitForFunction(() => window.connectionTexts.includes('this may be old'));
    print(`reported stale ${Date.now() - begun} ms after the others stopped`);
    // The other nodes are stopped and say no hello. The page returns to its node and stays there.
    await page.waitForSelector('#link[data-state=connected], #link[data-state=old]');
    await page.waitForFunction(() => window.connectionTexts.filter((text) => text.endsWith('this may be old')).length > 1);
    assert.equal(await page.getAttribute('#link', 'data-state'), 'old');
    assert.ok((await texts()).includes('connection lost — trying again'));
  } finally {
    others.forEach(({ pid }) => process.kill(pid, 'SIGCONT'));
  }
  await page.waitForSelector('#link[data-state=connected]');
  await pick(page, 2, 2);
  await page.click('#hold');
  await inCart(page, 1);
  await shows(page, 2, 2, 1);
}, { nodesGo: true });

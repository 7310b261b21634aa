// Checks every view with axe: no serious or critical violation.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { PHONE, go, hold, inCart, pageTest, pay, pick } from './lib.mjs';

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

pageTest('axe finds no serious violation in any view', async (people, print) => {
  const page = await people.open(0, '', { bypassCSP: true, reducedMotion: 'reduce' });
  await page.addScriptTag({ path: AXE });
  const looked = [];
  const look = async (view, selector, hash) => {
    if (hash) await go(page, hash);
    await page.waitForSelector(selector);
    await inspect(page, view);
    looked.push(view);
  };
  await look('home', '.session-card');
  await go(page, '#/session/page-axe');
  await pick(page, 0, 3, 4);
  await page.click('#code-open');
  await page.click('#code-use');
  await page.click('#list summary');
  await page.click('.rows__name');
  await look('session', '.rows__seat');
  await page.fill('#code', '');
  await hold(page);
  await inCart(page, 2);
  await look('cart', '#lines .line__title a', '#/cart');
  await pay(page, 'Axe');
  await look('order', '#payment[data-state=recorded]');
  await look('purchases', '#purchases [data-order]', '#/purchases');
  await look('shop', '.shop__card', '#/shop');
  await look('resource', '.slot__button', '#/resource/rehearsal-room');
  await look('operator', '.op-node[data-up=yes]', '#/operator');
  await look('history', '.op-seat', '#/operator/session/page-axe');
  const phone = await people.open(1, '#/session/page-axe', { ...PHONE, bypassCSP: true, reducedMotion: 'reduce' });
  await phone.addScriptTag({ path: AXE });
  await inspect(phone, 'session on a phone');
  print(`${looked.join(', ')}; session on a phone`);
});

async function inspect(page, view) {
  // axe must not measure a color in the middle of a transition.
  await page.waitForFunction(() => document.getAnimations().every((each) => each.playState !== 'running' || each.effect.getTiming().iterations === Infinity));
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const bad = found.violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  assert.deepEqual(bad.map(({ id, nodes }) => `${id}: ${nodes[0].html}`), [], view);
}

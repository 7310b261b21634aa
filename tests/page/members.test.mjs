// Offers for customers with an attribute, which the token of the embedding page names, and offers with a limit for each customer.

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { house, visit } from './house.mjs';
import { connected, go, hold, inCart, mapKnown, pageTest, pick, reads } from './lib.mjs';
import { withOwn } from './own.mjs';

const SECRET = 'a secret of the shop with more than thirty-two bytes';
const CONFIG = `[listen]
anonymous = "sell"
token_keys = [{ algorithm = "HS256", key = "${SECRET}" }]
[payments]
recorded = "anyone"
`;

/** A short-lived token of a customer with these attributes. */
function tokenOf(customer, attributes) {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const text = `${part({ alg: 'HS256', typ: 'JWT' })}.${part({ sub: customer, exp: Math.floor(Date.now() / 1000) + 600, attributes })}`;
  return `${text}.${createHmac('sha256', SECRET).update(text).digest('base64url')}`;
}

pageTest('a member who signs in has the price of members, and a guest never sees it', (people) => withOwn(people, async (own) => {
  const { create, url } = await house(own, { config: CONFIG });
  await create('s', { offers: [{ id: 'web' }, { id: 'members', attributes: ['member'], set_price: 1200 }] });
  await create('club', { offers: [{ id: 'members', attributes: ['member'], set_price: 1200 }] });
  const page = await visit(people, url, 's');
  await pick(page, 0, 1, 2);
  await reads(page, '.summary__sum', /2 seats picked€60/);
  // It signs in while the page is open, and what was picked stays picked.
  await page.evaluate((token) => window.boxoffice.signIn({ token }), tokenOf('ada', 'member'));
  await reads(page, '.summary__sum', /2 seats picked€24/);
  await hold(page);
  await inCart(page, 2);
  await go(page, '#/cart');
  await reads(page, '.line', /Row A: 2, 32 × membersV · H€24/);
  // A reload knows the customer, whose offers a guest's answer lacks.
  await page.goto(`${url}/#/session/club`);
  await page.reload();
  await connected(page);
  await mapKnown(page);
  await page.waitForSelector('#best');
  await pick(page, 0, 1);
  await reads(page, '.summary__sum', /1 seat picked€12/);
  await page.evaluate(() => window.boxoffice.signIn({}));
  await reads(page, '#sale', /This is not on sale/);

  const friend = await visit(people, url, 'club');
  await reads(friend, '#sale', /This is not on sale/);
  await friend.evaluate((token) => window.boxoffice.signIn({ token }), tokenOf('eve', ['friend']));
  await connected(friend);
  await reads(friend, '#sale', /This is not on sale/);
  assert.ok(!(await friend.content()).includes('members'));
}));

pageTest('what is limited per customer asks for the name before the hold', (people) => withOwn(people, async (own) => {
  const { ask, create, url } = await house(own);
  await create('s', { offers: [{ id: 'friends', per_customer: 2, set_price: 1200 }] });
  const page = await visit(people, url, 's');
  await pick(page, 0, 1, 2);
  await page.click('#hold');
  await reads(page, '#who-needed', /Please say who you are first/);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'who');
  // An empty name is none.
  await page.keyboard.press('Enter');
  assert.equal(await page.isVisible('#who'), true);
  await page.keyboard.type('Ada Lovelace');
  await page.keyboard.press('Enter');
  await inCart(page, 2);
  // In the same window, the third one is refused for what it is.
  await pick(page, 0, 3);
  await page.click('#hold');
  await reads(page, '#session-note', /None is left at this price/);
  // The cart is hers, so the name stays at the checkout.
  await go(page, '#/cart');
  await page.waitForSelector('#customer[readonly]');
  assert.equal(await page.inputValue('#customer'), 'Ada Lovelace');
  await page.click('#pay');
  await page.waitForFunction(() => location.hash.startsWith('#/order/'));
  const { id } = await page.evaluate(() => window.boxoffice.app.customer.get());
  const { purchases } = await ask('customer.purchases', { customer: id });
  assert.equal(purchases.length, 1);
}));

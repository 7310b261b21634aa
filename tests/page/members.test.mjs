// Offers for customers with an attribute, which the token of the embedding page names.

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { house, visit } from './house.mjs';
import { connected, go, hold, inCart, pageTest, pick, reads } from './lib.mjs';
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

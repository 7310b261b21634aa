// Names of sections, categories and areas for people: which one a browser shows, and that every view shows it.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { nameFor } from '../../crates/edge/page/js/names.js';
import { connected, mapKnown, pageTest, reads } from './lib.mjs';
import { withOwn } from './own.mjs';

test('the name for a browser\'s languages is shown, else the first one, else the id', () => {
  const names = { da: 'Balkon', 'de-CH': 'Rang (CH)', de: 'Rang', en: 'Balcony', 'zh-Hant': '東上B' };
  const shown = (...languages) => nameFor(names, 'balcony', languages);
  assert.equal(shown('da-DK'), 'Balkon');
  assert.equal(shown('de-ch', 'da'), 'Rang (CH)');
  assert.equal(shown('de-AT'), 'Rang');
  assert.equal(shown('zh-TW'), '東上B');
  assert.equal(shown('fr', 'en-GB'), 'Balcony');
  assert.equal(shown('fr'), 'Balkon');
  assert.equal(shown(), 'Balkon');
  assert.equal(nameFor(undefined, 'balcony', ['da']), 'balcony');
  assert.equal(nameFor({}, 'balcony', ['da']), 'balcony');
});

/** Keeps the texts that are drawn on canvases. */
function recordTexts() {
  window.drawn = new Set();
  const { fillText } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.fillText = function record(text, ...more) {
    window.drawn.add(text);
    return fillText.call(this, text, ...more);
  };
}

const draws = (page, text) => page.waitForFunction((wanted) => window.drawn.has(wanted), text);

pageTest('sections, categories, areas and the stage have the names of the browser\'s language in every view', (people) => withOwn(people, async (own) => {
  const node = await own.node(1);
  const ask = async (op, body) => {
    const headers = { 'content-type': 'application/json', 'idempotency-key': randomBytes(12).toString('hex') };
    const answer = await (await fetch(`http://${node.operators}/v1/${op}`, { method: 'POST', headers, body: JSON.stringify(body) })).json();
    assert.ok(answer.ok, `${op}: ${JSON.stringify(answer)}`);
    return answer.ok;
  };
  const layout = {
    rows: [{ label: 'A', section: 'stalls', count: 6, category: 'premium' }, { label: 'A', section: 'east-b', count: 6, category: 'plain' }],
    section_names: { stalls: { en: 'Stalls', da: 'Parket' }, 'east-b': { 'zh-Hant': '東上B', da: 'Balkon' } },
    category_names: { premium: { da: 'Bedste', en: 'Best' } },
    stage_names: { da: 'Lærred', 'en-GB': 'Screen' },
  };
  await ask('venue.put', { id: 'v', name: 'V', zone: 'Europe/Copenhagen' });
  await ask('hall.put', { venue: 'v', id: 'h', name: 'H', layout });
  await ask('title.put', { id: 't', name: 'T' });
  const price = { amount: 1000, currency: 'EUR' };
  await ask('session.create', {
    id: 's', venue: 'v', hall: 'h', title: 't', starts_at: '2031-01-01T19:00:00Z', ends_at: '2031-01-01T21:00:00Z',
    prices: { premium: price, plain: price }, areas: [{ id: 'yard', name: 'Yard', capacity: 9, price, names: { da: 'Gården' } }],
  });
  await ask('hall.put', { venue: 'v', id: 'plain', name: 'Plain', layout: { rows: 2, seats: 4 } });
  await ask('session.create', {
    id: 'plain', venue: 'v', hall: 'plain', title: 't', starts_at: '2031-01-01T19:00:00Z', ends_at: '2031-01-01T21:00:00Z', prices: { standard: price },
  });
  for (const [locale, names] of [['da-DK', ['Parket', 'Balkon', 'Bedste', 'Plain', 'Gården', 'Lærred']], ['en-GB', ['Stalls', 'Balkon', 'Best', 'Plain', 'Gården', 'Screen']], ['zh-TW', ['Parket', '東上B', 'Bedste', 'Plain', 'Gården', 'Lærred']]]) {
    const page = await people.window({ locale });
    await page.addInitScript(recordTexts);
    await page.goto(`http://127.0.0.1:${node.port}/#/session/s`);
    await connected(page);
    await mapKnown(page);
    const [stalls, balcony, premium, plain, yard, stage] = names;
    await draws(page, stage);
    assert.equal(await page.evaluate(() => window.drawn.has('Stage')), false, 'the stage has one name');
    await reads(page, '.legend__list', new RegExp(`${premium}.*${plain}`));
    await reads(page, '#best-section', new RegExp(`${stalls}.*${balcony}`));
    await reads(page, '#best-category', new RegExp(`${premium}.*${plain}`));
    await reads(page, '.areas', new RegExp(yard));
    await page.evaluate(() => window.boxoffice.app.cart.holdSeats('s', [[1, 2]]));
    await page.evaluate(() => window.boxoffice.app.cart.holdPlaces('s', 'yard', 1));
    await page.evaluate(() => { location.hash = '#/cart'; });
    await reads(page, '#lines', new RegExp(`${balcony}, Row A: 3.*${yard}`));
    await page.evaluate(() => window.boxoffice.app.cart.cancel());
    await page.evaluate(() => { location.hash = '#/session/plain'; });
    await draws(page, 'Stage');
  }
  // The widget has the name in the language of its element, and the word of that language for a hall whose stage has none.
  for (const [session, lang, stage] of [['s', 'da', 'Lærred'], ['s', 'en-GB', 'Screen'], ['s', 'fr', 'Lærred'], ['plain', 'de', 'Bühne']]) {
    const page = await people.window();
    await page.addInitScript(recordTexts);
    await page.goto(`http://127.0.0.1:${node.port}/`);
    await connected(page);
    await page.evaluate(async (attributes) => {
      await import('/page/widget.js');
      const map = document.createElement('boxoffice-map');
      for (const [name, value] of Object.entries({ node: location.origin, ...attributes })) map.setAttribute(name, value);
      document.body.prepend(map);
    }, { session, lang });
    await draws(page, stage);
  }
}), { within: 120_000 });

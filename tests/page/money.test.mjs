// Amounts have as many digits on the page, in the widget and at the terminal.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { digitsOf } from '../../crates/edge/page/js/money.js';
import { pageTest } from './lib.mjs';

test('the page has the digits of the terminal for every currency', () => {
  const source = readFileSync(new URL('../../crates/cli/src/draw/money.rs', import.meta.url), 'utf8');
  const list = (name) => source.match(new RegExp(`const ${name}: .*? = \\[([^\\]]*)\\]`))[1].match(/[A-Z]{3}/g);
  const terminal = new Map([['WHOLE', 0], ['THOUSANDTHS', 3], ['TEN_THOUSANDTHS', 4]].flatMap(([name, digits]) => list(name).map((currency) => [currency, digits])));
  assert.equal(terminal.size, 26);
  for (const currency of new Set([...Intl.supportedValuesOf('currency'), ...terminal.keys()])) {
    assert.equal(digitsOf(currency), terminal.get(currency) ?? 2, currency);
  }
});

pageTest('the page divides amounts by the digits of ISO 4217, whatever the browser knows', async (people) => {
  const page = await people.open(0, '#/');
  const shown = await page.evaluate(async () => {
    const { money } = await import('/page/js/dom.js');
    return [[12_345, 'EUR'], [1_200, 'EUR'], [10_000, 'LBP'], [10_050, 'LBP'], [1_234, 'IQD'], [12_345, 'CLF'], [700, 'JPY'], [700, 'UYI']].map(([amount, currency]) => money(amount, currency).replace(/\s/g, ' '));
  });
  assert.deepEqual(shown, ['€123.45', '€12', 'LBP 100', 'LBP 100.50', 'IQD 1.234', 'CLF 1.2345', '¥700', 'UYI 700']);
});

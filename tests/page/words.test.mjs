// The words that a buyer reads for every refusal and failure. Each sample of the server goes through the page's own reader.
//
// Needs neither a browser nor a node: `node --test tests/page/words.test.mjs`. With UPDATE_EXPECT=1 it writes words.txt.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { explain, templateOf } from '../../crates/edge/page/js/explain.js';
import { WORDS } from '../../crates/edge/page/js/words.js';

const at = (path) => new URL(path, import.meta.url);
const text = (path) => readFileSync(at(path), 'utf8');

/** Each sample as the page's connection hands it to its views. */
const errors = text('../../crates/wire/src/tests/golden/refusals.txt').trim().split('\n').map((line) => {
  const frame = JSON.parse(line.slice(line.indexOf(' ')));
  const [[kind, details]] = Object.entries(frame);
  return { kind, code: details.code, name2: details.name, message: details.message, details };
});

test('every sample has the words that it had', () => {
  const words = `${errors.map((error) => `${error.code} ${error.name2}: ${explain(error)}`).join('\n')}\n`;
  if (process.env.UPDATE_EXPECT) writeFileSync(at('words.txt'), words);
  assert.equal(words, text('words.txt'));
});

test('every field in the words is in the sample', () => {
  for (const error of errors) {
    for (const [, path, isCondition] of (templateOf(error) || '').matchAll(/\{([a-z_.]+)(\?)?/g)) {
      // A field of a list is in each of its entries.
      const within = (all) => path.split('.').reduce((from, name) => from.flatMap((each) => each?.[name]), all.map(({ details }) => details));
      // A field that is only asked for may be absent, but not from every sample.
      const values = isCondition ? within(errors.filter(({ name2 }) => name2 === error.name2)).filter((value) => value !== undefined) : within([error]);
      assert.ok(values.length > 0 && values.every((value) => value !== undefined), `${error.name2} has no ${path}: ${JSON.stringify(error.details)}`);
    }
    assert.doesNotMatch(explain(error), /undefined|[{}|]/);
  }
});

test('every text is used by a sample', () => {
  const names = new Set(errors.map((error) => templateOf(error)));
  assert.deepEqual(Object.values(WORDS).filter((words) => !names.has(words)), []);
});

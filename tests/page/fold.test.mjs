// Names as the page folds them are names as the node does. Needs neither a browser nor a node: `node --test tests/page/fold.test.mjs`.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fold, isIn, keyOf, spellOut } from '../../crates/edge/page/js/fold.js';

test('every row of the node has the same spellings here', () => {
  const rows = readFileSync(new URL('../../crates/core/src/directory/folded.txt', import.meta.url), 'utf8').split('\n').slice(0, -1);
  assert.ok(rows.length > 1_000);
  const different = rows.filter((row) => {
    const [name, folded, speltOut] = row.split('\t');
    return fold(name) !== folded || spellOut(name) !== speltOut;
  });
  assert.deepEqual(different, []);
});

test('words are found in either spelling', () => {
  for (const [word, name] of [['koeln', 'Köln'], ['koln', 'Köln'], ['Köln', 'Koeln'], ['strassen', 'Große Straßen'], ['aarhus', 'Århus']]) {
    assert.ok(isIn(keyOf(name), word), `${word} in ${name}`);
  }
  assert.ok(!isIn(keyOf('Koln'), 'koeln'));
});

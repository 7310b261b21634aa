// Names as people type them, without case and accents, as the node compares them (docs/reference/protocol.md, Names). Titles are
// searched by the node, and the names of venues, cities and halls here, because the page has these.

// The Greek iota below is no mark, because its capital is a letter.
const MARK = /[\u0300-\u0344\u0346-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]/;
/** Letters whose marks are dropped: Latin, Greek and Cyrillic, in lower case. */
const LOOSE = /[a-zªºß-öø-\u02af\u0370-\u052f\u1c80-\u1c8f\u1d00-\u1dbf\u1e00-\u1fff\u2c60-\u2c7f\ua640-\ua69f\ua720-\ua7ff\uab30-\uab6f]/;
const LETTERS = { ß: 'ss', æ: 'ae', œ: 'oe', þ: 'th', ø: 'o', ł: 'l', đ: 'd', ı: 'i' };
/** What those write who have no such letters. */
const SPELT_OUT = { 'a\u0308': 'e', 'o\u0308': 'e', 'u\u0308': 'e', 'a\u030a': 'a' };

function spelt(name, isSpeltOut) {
  let text = '';
  let base = null;
  for (const letter of name.normalize('NFKD')) {
    if (base !== null && MARK.test(letter)) {
      if (isSpeltOut) text += SPELT_OUT[base + letter] || '';
      continue;
    }
    // Each letter by itself, because a browser's lower case of a sigma depends on its place in the word.
    for (const upper of letter.toUpperCase()) {
      for (const lower of upper.toLowerCase()) {
        base = LOOSE.test(lower) ? lower : null;
        text += isSpeltOut && lower === 'ø' ? 'oe' : LETTERS[lower] ?? lower;
      }
    }
  }
  // A letter of another script is not found in one with a mark.
  return text.normalize('NFC');
}

/** A name without case and accents. */
export const fold = (name) => spelt(name, false);

/** The same with `ä`, `ö`, `ü` and `ø` spelt with an `e`, and `å` as `aa`. */
export const spellOut = (name) => spelt(name, true);

/** Both spellings of some names, to find words in. */
export const keyOf = (...names) => names.map((name) => `${fold(name)}\0${spellOut(name)}`).join('\0');

/** Whether a word is in a key. */
export const isIn = (key, word) => key.includes(fold(word)) || key.includes(spellOut(word));

/** The words of what was typed. */
export const wordsOf = (typed) => typed.split(/\s+/u).filter(Boolean);

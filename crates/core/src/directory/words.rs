//! Comparison of names as people type them: without case, and without the accents of Latin, Greek and Cyrillic letters.

use alloc::{string::String, vec::Vec};

use icu_normalizer::{
    ComposingNormalizer, ComposingNormalizerBorrowed, DecomposingNormalizer, DecomposingNormalizerBorrowed,
};
use smol_str::{SmolStr, format_smolstr};

/// Compatibility decomposition (NFKD), so that a composed letter, its parts and its forms of other widths are the same.
const NFKD: DecomposingNormalizerBorrowed<'static> = DecomposingNormalizer::new_nfkd();

/// Composition (NFC) of what is left, so that a letter of another script is not found in one with a mark.
const NFC: ComposingNormalizerBorrowed<'static> = ComposingNormalizer::new_nfc();

/// Between the two spellings of a key. Smaller than every other letter, so that keys are in the order of the first spelling.
const BETWEEN: char = '\0';

/// A name without case and accents: Unicode's full case folding over its compatibility decomposition, without the marks over
/// Latin, Greek and Cyrillic letters. Letters that have no decomposition are those of a keyboard without them: `ø` is `o`, `æ` is
/// `ae`. Marks of other scripts change the word, so they stay.
pub(super) fn fold(name: &str) -> SmolStr {
    spelt(name, false)
}

/// The same name as those write it who have no such letters: `ä`, `ö`, `ü` and `ø` with an `e` behind them, `å` as `aa`.
pub(super) fn spell_out(name: &str) -> SmolStr {
    spelt(name, true)
}

/// The key of a name in an index, which is [`fold`], and [`spell_out`] where that differs. No two places of a list have the same
/// key unless their names fold to the same.
pub(super) fn key(name: &str) -> SmolStr {
    let (folded, spelt_out) = (fold(name), spell_out(name));
    if folded == spelt_out { folded } else { format_smolstr!("{folded}{BETWEEN}{spelt_out}") }
}

/// The spellings under which a name is found that must match as a whole. One or two.
pub(super) fn spellings(name: &str) -> impl Iterator<Item = SmolStr> {
    let (folded, spelt_out) = (fold(name), spell_out(name));
    let other = (folded != spelt_out).then_some(spelt_out);
    core::iter::once(folded).chain(other)
}

fn spelt(name: &str, is_spelt_out: bool) -> SmolStr {
    let mut text = String::with_capacity(name.len());
    // The letter that marks are dropped from.
    let mut base = None;
    for letter in NFKD.normalize_iter(name.chars()) {
        if is_mark(letter)
            && let Some(base) = base
        {
            match (base, letter) {
                ('a' | 'o' | 'u', '\u{308}') if is_spelt_out => text.push('e'),
                ('a', '\u{30a}') if is_spelt_out => text.push('a'),
                _ => {}
            }
            continue;
        }
        // Lower case alone keeps `ß` and the final sigma apart from `ss` and `σ`.
        for lower in letter.to_uppercase().flat_map(char::to_lowercase) {
            base = has_loose_marks(lower).then_some(lower);
            match lower {
                'ß' => text.push_str("ss"),
                'æ' => text.push_str("ae"),
                'œ' => text.push_str("oe"),
                'þ' => text.push_str("th"),
                'ø' if is_spelt_out => text.push_str("oe"),
                'ø' => text.push('o'),
                'ł' => text.push('l'),
                'đ' => text.push('d'),
                'ı' => text.push('i'),
                other => text.push(other),
            }
        }
    }
    NFC.normalize_iter(text.chars()).collect()
}

/// Whether a character is a mark that letters of several scripts have. The Greek iota below is none, because its capital is a letter.
fn is_mark(letter: char) -> bool {
    matches!(letter,
        '\u{300}'..='\u{344}' | '\u{346}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
}

/// Whether a letter in lower case is Latin, Greek or Cyrillic.
fn has_loose_marks(letter: char) -> bool {
    matches!(letter,
        'a'..='z' | 'ª' | 'º' | 'ß'..='ö' | 'ø'..='\u{2af}' | '\u{370}'..='\u{52f}' | '\u{1c80}'..='\u{1c8f}'
        | '\u{1d00}'..='\u{1dbf}' | '\u{1e00}'..='\u{1fff}' | '\u{2c60}'..='\u{2c7f}' | '\u{a640}'..='\u{a69f}'
        | '\u{a720}'..='\u{a7ff}' | '\u{ab30}'..='\u{ab6f}')
}

/// Words to find in names, in any order.
pub(super) struct Words(Vec<Word>);

/// A word in its spellings.
struct Word {
    folded: SmolStr,
    spelt_out: SmolStr,
}

impl Words {
    /// The words of a wish.
    pub(super) fn new(wish: &str) -> Result<Words, SmolStr> {
        let word = |word: &str| Word { folded: fold(word), spelt_out: spell_out(word) };
        let words: Vec<Word> = wish.split_whitespace().map(word).collect();
        if words.is_empty() { Err("the name looked for is empty".into()) } else { Ok(Words(words)) }
    }

    /// Whether each of them is in the name with this key, as a word or a part of one.
    pub(super) fn are_in(&self, key: &str) -> bool {
        let is_in = |word: &Word| key.contains(word.folded.as_str()) || key.contains(word.spelt_out.as_str());
        self.0.iter().all(is_in)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use alloc::{
        format,
        string::{String, ToString},
        vec::Vec,
    };

    use super::{NFC, Words, fold, key, spell_out};

    fn finds(wish: &str, name: &str) -> bool {
        Words::new(wish).expect("words").are_in(&key(name))
    }

    #[test]
    fn names_are_found_as_people_type_them() {
        let found = [
            ("opéra", "Ope\u{301}ra"),
            ("ope\u{301}ra", "Opéra"),
            ("opera", "OPÉRA"),
            ("theatre", "Théâtre du Nord"),
            ("théâtre", "Theatre"),
            ("istanbul", "İstanbul"),
            ("ISTANBUL", "ıstanbul"),
            ("İSTANBUL", "Istanbul"),
            ("sao", "São Paulo"),
            ("koln", "Köln"),
            ("koeln", "Köln"),
            ("KÖLN", "Koeln"),
            ("strassen", "Straßen"),
            ("STRASSEN", "straßen"),
            ("straßen", "STRASSEN"),
            ("strassen", "STRAẞEN"),
            ("lodz", "Łódź"),
            ("kobenhavn", "København"),
            ("koebenhavn", "København"),
            ("aarhus", "Århus"),
            ("encyclopaedia", "Encyclopædia"),
            ("coeur", "Cœur"),
            ("thor", "Þór"),
            ("dakovo", "Đakovo"),
            ("αθηνα", "ΑΘΉΝΑ"),
            ("οδοσ", "ΟΔΟΣ"),
            ("οδός", "ΟΔΟΣ"),
            ("елка", "Ёлка"),
            ("ｆｉｌｍ", "Film"),
            ("ﬁlm", "FILM"),
        ];
        for (wish, name) in found {
            assert!(finds(wish, name), "{wish} does not find {name}");
        }
        // Marks of other scripts make other words, and a letter is no pair of letters.
        let not_found = [("か", "が"), ("שלום", "שָׁלוֹם"), ("koeln", "Koln"), ("poet", "Pot"), ("हिंदि", "हद")];
        for (wish, name) in not_found {
            assert!(!finds(wish, name), "{wish} finds {name}");
        }
    }

    /// The page compares the names of halls and cities itself. `tests/page/fold.test.mjs` reads these rows.
    #[test]
    fn the_page_has_the_spellings_of_these_rows() {
        let letters =
            (0xa0..0x530).chain(0x1e00..0x2000).filter_map(char::from_u32).map(|letter| format!("x{letter}x"));
        let names = [
            "Théâtre",
            "İstanbul",
            "ıstanbul",
            "ΟΔΟΣ",
            "STRAẞEN",
            "Encyclopædia",
            "が",
            "שָׁלוֹם",
            "각",
            "ｆｉｌｍ",
            "Ａ̈",
        ];
        let rows = letters.chain(names.map(String::from)).map(|name| (fold(&name), spell_out(&name), name));
        let rows = rows.filter(|(folded, _, name)| *folded != *name);
        let text: String = rows.map(|(folded, spelt_out, name)| format!("{name}\t{folded}\t{spelt_out}\n")).collect();
        expect_test::expect_file!["folded.txt"].assert_eq(&text);
    }

    /// Every character of Unicode but those of blocks without cases and marks: cases and compositions of a letter are the same, and
    /// folding twice is folding once.
    #[test]
    fn every_letter_folds_the_same_in_each_case_and_composition() {
        let mut different = Vec::new();
        let plain = |letter: &u32| (0x3400..0xd7a4).contains(letter) || (0xe000..0xf900).contains(letter);
        for letter in (0..0x2_0000).filter(|letter| !plain(letter)).filter_map(char::from_u32) {
            let text = format!("x{letter}x");
            let folded = fold(&text);
            let cases =
                [text.to_uppercase(), text.to_lowercase(), NFC.normalize(&text).into_owned(), folded.to_string()];
            let spelt_out = spell_out(&text);
            for other in cases {
                if fold(&other) != folded {
                    different.push(format!("{:x} {text} {other}", u32::from(letter)));
                }
            }
            let again: String = spell_out(&spelt_out).to_string();
            if again != spelt_out {
                different.push(format!("{:x} {text} {spelt_out} {again}", u32::from(letter)));
            }
        }
        assert!(different.is_empty(), "{}: {different:?}", different.len());
    }
}

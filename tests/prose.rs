//! The rhythm of prose: the sentences of a page and the rules that they keep. Tables, headings, blocks of code and list items of one
//! sentence are exempt. A list item of several sentences is a paragraph.

use std::{fmt, ops::RangeInclusive};

/// The fewest and the most words of a sentence on average.
const WORDS_ON_AVERAGE: RangeInclusive<f64> = 14.0..=18.0;

/// A sentence of at most this many words is short. At most one sentence in [`SHORT_ONE_IN`] may be.
const SHORT_WORDS: usize = 8;
const SHORT_ONE_IN: usize = 4;

/// A sentence of more than this many words is long. At most one sentence in [`LONG_ONE_IN`] may be.
const LONG_WORDS: usize = 30;
const LONG_ONE_IN: usize = 10;

/// Of so many sentences in a row one must have at least [`ROW_WORDS`] words.
const ROW: usize = 3;
const ROW_WORDS: usize = 10;

/// Pronouns that begin at most one of two neighbouring sentences, whichever of them it is.
const PRONOUNS: [&str; 6] = ["it", "its", "this", "these", "they", "their"];

/// Words before the noun of a sentence.
const DETERMINERS: [&str; 7] = ["a", "an", "the", "each", "every", "no", "another"];

/// Words that begin a sentence and are not its noun.
const NO_NOUNS: &str = "after afterwards although as at because before behind beside between but by during for from if in of on once \
    otherwise since so then there to under until when where while with within without";

/// Words whose full stop does not end a sentence.
const ABBREVIATIONS: [&str; 4] = ["e.g.", "i.e.", "vs.", "cf."];

/// Stands for a blank in inline code, which counts as one word.
const BLANK_IN_CODE: char = '\u{1}';

/// A sentence of a page.
#[derive(Clone, Debug)]
pub(crate) struct Sentence {
    /// Where it begins, from 1.
    pub(crate) line: usize,
    /// Its text as it is read: a link is its words.
    pub(crate) text: String,
    pub(crate) words: usize,
    /// Only blanks and paragraphs lie between it and the sentence before.
    follows: bool,
}

/// A paragraph or list item: its words, each with its line.
#[derive(Default)]
struct Block {
    words: Vec<(usize, String)>,
    is_item: bool,
    /// Nothing but an empty line lies between it and the paragraph before.
    follows: bool,
}

/// The counts of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) sentences: usize,
    pub(crate) words: usize,
    pub(crate) short: usize,
    pub(crate) long: usize,
}

impl Counts {
    pub(crate) fn of(sentences: &[Sentence]) -> Self {
        let count = |counts: fn(&Sentence) -> bool| sentences.iter().filter(|sentence| counts(sentence)).count();
        Self {
            sentences: sentences.len(),
            words: sentences.iter().map(|sentence| sentence.words).sum(),
            short: count(|sentence| sentence.words <= SHORT_WORDS),
            long: count(|sentence| sentence.words > LONG_WORDS),
        }
    }

    fn words_on_average(&self) -> f64 {
        self.words as f64 / self.sentences.max(1) as f64
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |part: usize| 100.0 * part as f64 / self.sentences.max(1) as f64;
        write!(
            formatter,
            "{} sentences of {:.1} words on average; {:.0} % have {SHORT_WORDS} or fewer, {:.0} % more than {LONG_WORDS}",
            self.sentences,
            self.words_on_average(),
            percent(self.short),
            percent(self.long)
        )
    }
}

impl Sentence {
    /// The word by which two sentences are said to begin alike: a pronoun, or the noun after an article. `None` for other words.
    fn begins(&self) -> Option<String> {
        let plain = |word: &str| {
            let word = word.trim_matches(|char: char| !char.is_alphanumeric()).to_lowercase().replace('’', "'");
            word.trim_end_matches("'s").to_owned()
        };
        let mut words = self.text.split_whitespace().map(plain).filter(|word| !word.is_empty()).peekable();
        let first = words.peek().cloned()?;
        if PRONOUNS.contains(&first.as_str()) {
            return Some("a pronoun".to_owned());
        }
        let noun = words.find(|word| !DETERMINERS.contains(&word.as_str()))?;
        // Singular and plural are the same noun.
        (!NO_NOUNS.split_whitespace().any(|word| word == noun)).then(|| noun.trim_end_matches('s').to_owned())
    }
}

/// A line without the targets of its links, with the blanks in inline code replaced. `in_code` goes on from line to line.
fn spoken(line: &str, in_code: &mut bool) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, target)) = rest.split_once("](") {
        text.push_str(before);
        rest = target.split_once(')').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    let mut blank = |char: char| {
        *in_code ^= char == '`';
        if *in_code && char == ' ' { BLANK_IN_CODE } else { char }
    };
    text.chars().filter(|char| *char != '[').map(&mut blank).collect()
}

/// The text of a list item after its mark. `None` if the line begins no item.
fn item(line: &str) -> Option<&str> {
    let number = line.trim_start_matches(|char: char| char.is_ascii_digit());
    let numbered = if number.len() < line.len() { number.strip_prefix(". ") } else { None };
    line.strip_prefix("- ").or(numbered)
}

/// The paragraphs and list items of a page.
fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut block) = (Vec::new(), Block::default());
    let (mut fenced, mut in_code) = (false, false);
    for (at, line) in page.lines().map(str::trim).enumerate() {
        let is_fence = line.starts_with("```");
        fenced ^= is_fence;
        let is_definition = line.starts_with('[') && line.contains("]: ");
        let is_other =
            fenced || is_fence || is_definition || ["|", "#", "<", "!["].iter().any(|mark| line.starts_with(mark));
        let begun = item(line);
        if (is_other || line.is_empty() || begun.is_some()) && !block.words.is_empty() {
            let ended = std::mem::replace(&mut block, Block { follows: true, ..Block::default() });
            block.follows = !ended.is_item;
            blocks.push(ended);
            in_code = false;
        }
        if is_other {
            block.follows = false;
        } else {
            if begun.is_some() {
                block = Block { is_item: true, ..Block::default() };
            }
            let text = spoken(begun.unwrap_or(line), &mut in_code);
            block.words.extend(text.split_whitespace().map(|word| (at + 1, word.to_owned())));
        }
    }
    blocks.extend((!block.words.is_empty()).then_some(block));
    blocks
}

/// Whether a sentence ends with a word, before another one.
fn ends(word: &str, next: Option<&str>) -> bool {
    let closing = |char: char| matches!(char, '*' | '_' | ')' | '"' | '”');
    let opening = |char: char| matches!(char, '*' | '_' | '(' | '"' | '“');
    let begins = |char: char| char.is_uppercase() || char.is_numeric() || char == '`';
    let stops = word.trim_end_matches(closing).ends_with(['.', '!', '?'])
        && !ABBREVIATIONS.contains(&word.trim_start_matches(opening));
    next.is_none_or(|next| stops && next.trim_start_matches(opening).starts_with(begins))
}

/// The sentences of a page's prose.
pub(crate) fn sentences(page: &str) -> Vec<Sentence> {
    let mut sentences = Vec::new();
    for block in blocks(page) {
        let (mut of_block, mut begin, mut follows) = (Vec::new(), 0, block.follows);
        for at in 0..block.words.len() {
            let next = block.words.get(at + 1).map(|(_, word)| word.as_str());
            if !ends(&block.words[at].1, next) {
                continue;
            }
            let words = &block.words[begin..=at];
            let text: Vec<&str> = words.iter().map(|(_, word)| word.as_str()).collect();
            of_block.push(Sentence {
                line: words[0].0,
                text: text.join(" ").replace(BLANK_IN_CODE, " "),
                words: text.iter().filter(|word| word.contains(char::is_alphanumeric)).count(),
                follows,
            });
            (begin, follows) = (at + 1, true);
        }
        if !block.is_item || of_block.len() > 1 {
            sentences.extend(of_block);
        }
    }
    sentences
}

/// What is wrong with the sentences of a page, each as line, fault and sentence. Line 0 is the page. Empty if nothing is wrong.
pub(crate) fn faults(sentences: &[Sentence]) -> Vec<String> {
    let counts = Counts::of(sentences);
    let mut faults = Vec::new();
    let average = counts.words_on_average();
    if !WORDS_ON_AVERAGE.contains(&average) {
        faults.push(format!("0: {average:.1} words on average, not {WORDS_ON_AVERAGE:?}: {counts}"));
    }
    let mut list = |fault: &str, is_wrong: fn(&Sentence) -> bool| {
        let wrong = sentences.iter().filter(|sentence| is_wrong(sentence));
        faults.extend(wrong.map(|sentence| format!("{}: {fault}: {}", sentence.line, sentence.text)));
    };
    if counts.short * SHORT_ONE_IN > counts.sentences {
        list("one of too many short ones", |sentence| sentence.words <= SHORT_WORDS);
    }
    if counts.long * LONG_ONE_IN > counts.sentences {
        list("one of too many long ones", |sentence| sentence.words > LONG_WORDS);
    }
    for at in 1..sentences.len() {
        let row = &sentences[(at + 1).saturating_sub(ROW)..=at];
        let joined = |row: &[Sentence]| row.iter().skip(1).all(|sentence| sentence.follows);
        if row.len() == ROW && joined(row) && row.iter().all(|sentence| sentence.words < ROW_WORDS) {
            faults.push(format!("{}: third in a row under {ROW_WORDS} words: {}", row[2].line, row[2].text));
        }
        let pair = [&sentences[at - 1], &sentences[at]];
        if let [Some(first), Some(second)] = pair.map(Sentence::begins)
            && pair[1].follows
            && first == second
        {
            faults.push(format!("{}: begins like the sentence before ({first}): {}", pair[1].line, pair[1].text));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sentences of a page as words, line and text.
    fn drawn(page: &str) -> Vec<String> {
        let drawn = |sentence: &Sentence| format!("{} {} {}", sentence.line, sentence.words, sentence.text);
        sentences(page).iter().map(drawn).collect()
    }

    /// What is wrong with neighbouring sentences, without the counts of a whole page.
    fn wrong_neighbours(page: &str) -> Vec<String> {
        let mut faults = faults(&sentences(page));
        faults.retain(|fault| fault.contains("in a row") || fault.contains("begins like"));
        faults
    }

    #[test]
    fn telegrams_are_found_and_prose_is_not() {
        let telegrams = [
            "A snapshot contains memory only. It names the number of batches. A start with fewer is refused.",
            "Reads go on. Before the next write the store is closed. It is reopened when there is room.",
            "The leader stops. Its followers elect another. This takes half a second.",
        ];
        for telegram in telegrams {
            assert!(wrong_neighbours(telegram)[0].starts_with("1: third in a row"), "{telegram}");
            assert!(Counts::of(&sentences(telegram)).words_on_average() < *WORDS_ON_AVERAGE.start());
        }
        let prose = [
            "A snapshot contains memory only and names the number of batches that the store had when it was cut, so a start that \
             finds fewer batches is refused.",
            "Reads go on; before the next write the store is closed and, as soon as there is room, reopened.",
            "When the leader stops, its followers elect another within half a second.",
        ]
        .join(" ");
        assert_eq!(wrong_neighbours(&prose), [""; 0]);
        assert_eq!(Counts::of(&sentences(&prose)), Counts { sentences: 3, words: 59, short: 0, long: 0 });
    }

    #[test]
    fn a_page_is_read_as_sentences() {
        let page = "# A heading. Of two.\n\nOne `a b. C` is\ntwo words. See [the page. It](a.md#b) (e.g. Rust.) Next, 1.5 s. `a` ends\n\n\
                    | a. B | c |\n\n```\nCode. More.\n```\n- an item. With two\n- one of one.\n2. A third. And more.\n\n[`a`]: b.md\n";
        assert_eq!(
            drawn(page),
            [
                "3 5 One `a b. C` is two words.",
                "4 3 See the page.",
                "4 3 It (e.g. Rust.)",
                "4 3 Next, 1.5 s.",
                "4 2 `a` ends",
                "11 2 an item.",
                "11 2 With two",
                "13 2 A third.",
                "13 2 And more."
            ]
        );
    }

    #[test]
    fn neighbours_that_begin_alike_are_found() {
        let begin_alike = [
            "The node ends. A node says so, and that is why nobody has to look for it in the logs.",
            "Nodes vote. The node's vote counts.",
            "It ends. This is late.",
            "They end.\n\nTheir ends are near.",
            "`decide` reads. `decide` answers.",
        ];
        for page in begin_alike {
            assert_eq!(wrong_neighbours(page).len(), 1, "{page}");
        }
        let begin_otherwise = [
            "The node ends. A cart ends.",
            "If it ends, it ends. If not, not.",
            "It ends.\n\n## A heading\n\nIt begins.",
            "It ends.\n\n| a | b |\n\nIt begins.",
            "- It ends. Carts do.\n- Carts end. It begins.",
        ];
        for page in begin_otherwise {
            assert_eq!(wrong_neighbours(page), [""; 0], "{page}");
        }
    }

    #[test]
    fn short_and_long_sentences_are_listed_when_they_are_too_many() {
        let of = |words: usize, noun: &str| format!("{noun} {}.", ["word"; 40][..words - 1].join(" "));
        let page = |lengths: &[usize]| {
            let sentences = lengths.iter().zip(["Alas", "Bells", "Carts", "Doors"].iter().cycle());
            sentences.map(|(words, noun)| of(*words, noun)).collect::<Vec<_>>().join("\n")
        };
        let found = |lengths: &[usize]| {
            let faults = faults(&sentences(&page(lengths)));
            faults.iter().map(|fault| fault.split(": ").take(2).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        let (short, long) = ("one of too many short ones", "one of too many long ones");
        assert_eq!(found(&[8, 18, 18, 18]), [""; 0]);
        assert_eq!(found(&[8, 18, 18, 8, 24]), [format!("1 {short}"), format!("4 {short}")]);
        assert_eq!(found(&[31, 12, 15, 12, 15, 12, 15, 12, 15, 12]), [""; 0]);
        assert_eq!(found(&[31, 12, 15, 12, 15, 12, 15, 12, 15]), [format!("1 {long}")]);
        assert_eq!(found(&[9, 9, 9, 28, 28]), ["3 third in a row under 10 words"]);
        assert_eq!(found(&[13, 14, 13, 14]), ["0 13.5 words on average, not 14.0..=18.0"]);
        assert_eq!(found(&[19, 18, 19]), ["0 18.7 words on average, not 14.0..=18.0"]);
    }
}

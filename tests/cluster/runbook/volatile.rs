//! What differs from run to run in the output of a command.

/// Stands for a value that differs.
const MASK: char = '#';

/// Random or hashed text has at least this many characters.
const RANDOM_CHARS: usize = 16;

/// Units of values that differ, and counts of what differs.
const UNITS: [&str; 12] =
    ["ms", "s", "min", "h", "d", "kB", "MB", "ended", "entities", "entries", "actors", "connections"];

/// Columns that differ: elections, and entries of the log.
const COLUMNS: [&str; 8] = ["leads", "to lead", "leader", "committed", "from", "to", "entries", "places"];

/// A text with `#` in the place of each value that differs from run to run: times, spans, sizes, rates, ids, versions, numbers of
/// several digits. Columns are two blanks apart.
pub(super) fn masked(text: &str) -> String {
    let mut columns = Vec::new();
    let mut lines = Vec::new();
    for line in text.trim_end().lines().map(masked_line) {
        let mut cells: Vec<&str> = line.split("  ").collect();
        // A table ends with an empty line, and the first one that names such a column is its head.
        if line.is_empty() {
            columns.clear();
        } else if columns.is_empty() {
            columns = (0..cells.len()).filter(|at| COLUMNS.contains(&cells[*at])).collect();
        } else if columns.iter().all(|at| *at < cells.len()) {
            for at in &columns {
                cells[*at] = "#";
            }
        }
        lines.push(cells.join("  "));
    }
    lines.join("\n")
}

fn masked_line(line: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut after_number = false;
    let mut rest = line.trim_end();
    while !rest.is_empty() {
        let blanks = rest.len() - rest.trim_start_matches(' ').len();
        let (gap, from) = rest.split_at(blanks);
        let (word, next) = from.split_at(from.find(' ').unwrap_or(from.len()));
        rest = next;
        let gap = if gap.len() > 1 && !words.is_empty() { "  " } else { &gap[..gap.len().min(1)] };
        let plain = word.trim_matches(|char: char| matches!(char, '(' | ')' | ',' | ';' | '.' | ':' | '`' | '"'));
        let differs = is_volatile(plain) || after_number && UNITS.contains(&plain);
        // The number before a unit differs, however short it is.
        if let Some(last) = words.last_mut().filter(|_| after_number && UNITS.contains(&plain)) {
            let number: String = last.chars().filter(char::is_ascii_digit).collect();
            if !number.is_empty() {
                *last = last.replacen(&number, "#", 1);
            }
        }
        let shown = match differs && !UNITS.contains(&plain) {
            true => word.replacen(plain, &MASK.to_string(), 1),
            false => without_numbers(word),
        };
        after_number = !plain.is_empty() && plain.chars().all(|char| char.is_ascii_digit() || char == '.');
        words.push(format!("{gap}{shown}"));
    }
    words.concat()
}

/// Whether a whole word differs: a number of several digits, a decimal number, a time, a version, a random text.
fn is_volatile(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let is_number = digits > 1 && word.chars().all(|char| char.is_ascii_digit() || matches!(char, '.' | '_'));
    let is_address = word.matches('.').count() == 3;
    let is_date = word.len() >= 10 && word.as_bytes()[4] == b'-' && word[..4].chars().all(|char| char.is_ascii_digit());
    let is_clock = word.len() == 5 && digits == 4 && word.as_bytes()[2] == b':';
    let is_version = word.contains('+') && word.starts_with(|char: char| char.is_ascii_digit());
    is_number && !is_address || is_date || is_clock || is_version
}

/// The word without its numbers of several digits and without random text. An address stays as it is.
fn without_numbers(word: &str) -> String {
    if word.matches('.').count() >= 3 && !word.contains('…') {
        return word.to_owned();
    }
    let mut shown = String::new();
    let mut run = String::new();
    for char in word.chars().chain(['\0']) {
        if char.is_ascii_alphanumeric() {
            run.push(char);
            continue;
        }
        let digits = run.chars().filter(char::is_ascii_digit).count();
        let is_number = digits > 1 && digits == run.len();
        if is_number || digits > 0 && run.len() >= RANDOM_CHARS {
            run = MASK.to_string();
        }
        shown.push_str(&run);
        shown.extend((char != '\0').then_some(char));
        run.clear();
    }
    shown
}

#[test]
fn volatile_values_are_masked_and_others_stay() {
    let same = |one: &str, other: &str| assert_eq!(masked(one), masked(other));
    same("1     391  0 ms", "1  7391  120 ms");
    same("now  0.0 requests (12.5 ok)", "now  3.0 requests (1.1 ok)");
    same("since 2026-12-24 19:30 UTC", "since 2027-01-01 00:00 UTC");
    same("2026-11-30T08:32:17.123Z ERROR it", "2026-11-30T09:32:17.124Z ERROR it");
    same("0.3.0+0123456789ab  5", "0.3.0+unknown  5");
    same("12.4 kB in 0.1 s;", "9.4 kB in 2.1 s;");
    same("up 5 s", "up 12 s");
    same("damaged-2026-11-30-090116/log off_ms=3599999", "damaged-2027-01-01-000000/log off_ms=3600001");
    same("18 entities in memory, 1 ended; 55 entries", "9 entities in memory, 0 ended; 7 entries");
    same(" shard   from  chain\n     0      5  x", " shard   from  chain\n     0     12  x");
    let table = |cells: [&str; 3]| format!("node  leads  copies\n{}\n\n2", cells.join("   "));
    same(&table(["1", "3", "5"]), &table(["1", "2", "5"]));
    assert_ne!(masked(&table(["1", "3", "5"])), masked(&table(["1", "3", "4"])));
    let differ = |one: &str, other: &str| assert_ne!(masked(one), masked(other));
    differ("node 3 is gone", "node 2 is gone");
    differ("10.20.0.11:7180  ready", "10.20.0.12:7180  ready");
    differ("quorum_would_be_lost", "node_gone");
    differ("812 ms behind", "812 ms ahead");
}

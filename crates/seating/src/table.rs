//! The lines and columns of a CSV file, whatever separates them.

use std::fmt;

/// The separators that are looked for.
const SEPARATORS: [char; 4] = [',', ';', '\t', '|'];

/// The lines of a file, without those in which nothing is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sheet {
    pub separator: char,
    pub records: Vec<Record>,
}

/// A line with its fields, without blanks around them and without empty ones at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number of the line, from 1.
    pub line: u64,
    pub fields: Vec<String>,
    /// How many fields it had with the empty ones at the end.
    pub width: usize,
}

impl Record {
    /// A field, or nothing.
    pub fn field(&self, place: usize) -> &str {
        self.fields.get(place).map_or("", String::as_str)
    }
}

/// Reads a table. `is_header` says whether the fields of the first line name columns.
///
/// # Errors
/// The separator is not known, or quotes do not match. The message has the line.
pub fn read(text: &str, is_header: impl Fn(&[String]) -> bool) -> Result<Sheet, String> {
    if let Some((separator, rest)) = said_separator(text)? {
        return with(rest, separator, 1);
    }
    let mut named = SEPARATORS.into_iter().filter(|separator| {
        let first = first_record(text, *separator);
        first.is_some_and(|first| first.fields.len() > 1 && is_header(&first.fields))
    });
    if let Some(separator) = named.next() {
        return with(text, separator, 0);
    }
    // Without names, the separator is the one that parts every line.
    let mut possible = Vec::new();
    let mut broken = None;
    for separator in SEPARATORS {
        match with(text, separator, 0) {
            Ok(table) if !table.records.is_empty() && table.records.iter().all(|record| record.width > 1) => {
                possible.push(table);
            }
            Ok(_) => {}
            Err(why) => broken = broken.or(Some(why)),
        }
    }
    match possible.len() {
        1 => Ok(possible.remove(0)),
        0 => match (broken, with(text, ',', 0)?) {
            (Some(why), _) => Err(why),
            (None, table) if table.records.is_empty() => Ok(table),
            (None, table) => {
                let line = table.records.iter().find(|record| record.width < 2).map_or(1, |record| record.line);
                Err(format!(
                    "line {line} has one column only; a line is a seat, as in `row,seat,category`, with commas, semicolons or \
                     tabs between them, the same in all lines"
                ))
            }
        },
        _ => {
            let readings: Vec<String> = possible.iter().map(reading).collect();
            Err(format!(
                "line {} can be read in {} ways: {}; begin the file with the names of the columns, as in `row;seat;category`, or \
                 with a line `sep=;`",
                possible[0].records[0].line,
                possible.len(),
                readings.join(", and ")
            ))
        }
    }
}

fn reading(table: &Sheet) -> String {
    let fields: Vec<String> = table.records[0].fields.iter().map(|field| format!("`{field}`")).collect();
    format!("{} with {}", fields.join(" "), Named(table.separator))
}

/// A separator in words.
pub struct Named(pub char);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ',' => f.write_str("commas"),
            ';' => f.write_str("semicolons"),
            '\t' => f.write_str("tabs"),
            '|' => f.write_str("bars"),
            other => write!(f, "`{other}`"),
        }
    }
}

/// The separator of a first line `sep=;`, and the text after that line.
fn said_separator(text: &str) -> Result<Option<(char, &str)>, String> {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let first = first.trim_end_matches('\r');
    let bare = first.strip_prefix('"').and_then(|bare| bare.strip_suffix('"')).unwrap_or(first);
    let Some(said) = bare.get(..4).filter(|said| said.eq_ignore_ascii_case("sep=")).map(|_| &bare[4..]) else {
        return Ok(None);
    };
    let mut letters = said.chars();
    let separator = letters.next().filter(|letter| letter.is_ascii() && !letter.is_ascii_alphanumeric());
    match separator.filter(|letter| !matches!(letter, '"' | '\r' | ' ')) {
        // Programs that do not know the line fill it up with separators.
        Some(separator) if letters.all(|letter| letter == separator) => Ok(Some((separator, rest))),
        _ => Err(format!("line 1: {first:?} names no separator; write `sep=;`, `sep=,`, or leave the line out")),
    }
}

fn first_record(text: &str, separator: char) -> Option<Record> {
    let mut records = reader(text, separator).into_records();

    records.find_map(|record| record.ok().map(|record| plain(&record, 1)).filter(|plain| !plain.fields.is_empty()))
}

fn reader(text: &str, separator: char) -> csv::Reader<&[u8]> {
    let mut builder = csv::ReaderBuilder::new();
    builder.has_headers(false).flexible(true).delimiter(separator as u8).from_reader(text.as_bytes())
}

/// The table with this separator. `before` is the number of lines before the text.
fn with(text: &str, separator: char, before: u64) -> Result<Sheet, String> {
    check_quotes(text, separator, before)?;
    let mut records = Vec::new();
    let mut lines = Lines { text, read: 0, line: before + 1 };
    for record in reader(text, separator).into_records() {
        let record = record.map_err(|error| format!("this is not CSV: {error}"))?;
        let begin = record.position().map_or(0, csv::Position::byte);
        let record = plain(&record, lines.at(begin as usize));
        if !record.fields.is_empty() {
            records.push(record);
        }
    }
    Ok(Sheet { separator, records })
}

/// Counts the lines before each record. The reader's own number is too low after `\r\n` and after an empty line, because its records begin
/// with what is left of the line end.
struct Lines<'a> {
    text: &'a str,
    /// The bytes whose line ends are counted.
    read: usize,
    /// The line after them.
    line: u64,
}

impl Lines<'_> {
    /// The line of a record that begins at a byte. Records are asked about in their order.
    fn at(&mut self, byte: usize) -> u64 {
        let bytes = self.text.as_bytes();
        let begin = byte + bytes[byte..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        self.line += bytes[self.read..begin].iter().filter(|byte| **byte == b'\n').count() as u64;
        self.read = begin;
        self.line
    }
}

fn plain(record: &csv::StringRecord, line: u64) -> Record {
    let mut fields: Vec<String> = record.iter().map(|field| field.trim().to_owned()).collect();
    let width = fields.len();
    while fields.last().is_some_and(String::is_empty) {
        fields.pop();
    }
    Record { line, fields, width }
}

/// Refuses a quote that is not closed, which swallows the lines after it, and letters behind a closed one.
fn check_quotes(text: &str, separator: char, before: u64) -> Result<(), String> {
    #[derive(Clone, Copy, PartialEq)]
    enum At {
        Start,
        Plain,
        Quoted { since: u64 },
        Closed { since: u64 },
    }
    let (mut at, mut line) = (At::Start, before + 1);
    for letter in text.chars() {
        at = match (at, letter) {
            (At::Start, '"') => At::Quoted { since: line },
            (At::Quoted { since }, '"') => At::Closed { since },
            (At::Closed { since }, '"') => At::Quoted { since },
            (At::Quoted { since }, _) => At::Quoted { since },
            (At::Start | At::Plain | At::Closed { .. }, '\n' | '\r') => At::Start,
            (At::Start | At::Plain | At::Closed { .. }, letter) if letter == separator => At::Start,
            (At::Closed { since }, ' ' | '\t') => At::Closed { since },
            (At::Closed { .. }, letter) => {
                return Err(format!(
                    "line {line}: {letter:?} stands behind a closing quote; write quotes within quotes twice, as in `\"12\"\"\"`"
                ));
            }
            (At::Start | At::Plain, _) => At::Plain,
        };
        line += u64::from(letter == '\n');
    }
    match at {
        At::Quoted { since } => Err(format!("line {since} has a quote that is never closed")),
        At::Start | At::Plain | At::Closed { .. } => Ok(()),
    }
}

use std::{
    io::Write,
    process::{Command, Stdio},
};

use boxoffice_seating::{decode, read_table};
use rand::{Rng, SeedableRng, rngs::SmallRng, seq::IndexedRandom};

/// Tables of one run of the test.
const TABLES: usize = 400;

/// Reads a list of (separator, encoding, bytes as hexadecimal digits) and prints the fields of each, a line each.
const PROGRAM: &str = r#"
import csv, io, json, sys
for line in sys.stdin:
    separator, encoding, skipped, digits = json.loads(line)
    text = bytes.fromhex(digits).decode(encoding)
    lines = io.StringIO(text, newline="")
    for _ in range(skipped):
        lines.readline()
    rows = [[field.strip() for field in row] for row in csv.reader(lines, delimiter=separator)]
    for row in rows:
        while row and row[-1] == "":
            row.pop()
    print(json.dumps([row for row in rows if row]))
"#;

/// A table as a spreadsheet may write it.
struct Written {
    text: String,
    /// Lines before the table.
    skipped: usize,
}

fn field(rng: &mut SmallRng) -> String {
    const PIECES: [&str; 14] = ["A", "1", "12", "Süd", "Loge 3", ",", ";", "\"", "\t", "|", "é", " ", "3,5", "-"];
    let pieces = rng.random_range(0..4);
    (0..pieces).map(|_| *PIECES.choose(rng).expect("pieces")).collect()
}

fn written(rng: &mut SmallRng, separator: char) -> Written {
    let mut text = String::new();
    let skipped = usize::from(rng.random_bool(0.2));
    let end = if rng.random_bool(0.5) { "\n" } else { "\r\n" };
    if skipped > 0 {
        text += &format!("sep={separator}{end}");
    }
    let columns = rng.random_range(2..6);
    let mut line = |fields: Vec<String>, rng: &mut SmallRng| {
        let fields: Vec<String> = fields
            .into_iter()
            .map(|field| {
                let needs_quotes = field.contains([separator, '"', '\n', '\r', '\t', ';', ',', '|']);
                if needs_quotes || rng.random_bool(0.2) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
            })
            .collect();
        text += &fields.join(&separator.to_string());
        text += end;
    };
    let mut names: Vec<String> = ["row", "seat", "category", "section", "accessible"].map(Into::into).to_vec();
    names.truncate(columns);
    line(names, rng);
    for _ in 0..rng.random_range(1..8) {
        let fields = (0..rng.random_range(1..=columns)).map(|_| field(rng)).collect();
        line(fields, rng);
    }
    Written { text, skipped }
}

/// In this encoding, for Rust and for Python.
fn encoded(text: &str, rng: &mut SmallRng) -> (Vec<u8>, &'static str) {
    let utf_16 =
        |order: fn(u16) -> [u8; 2]| std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(order).collect();
    match rng.random_range(0..5) {
        0 => (text.as_bytes().to_vec(), "utf-8"),
        1 => ([b"\xef\xbb\xbf", text.as_bytes()].concat(), "utf-8-sig"),
        2 => (utf_16(u16::to_le_bytes), "utf-16"),
        3 => (utf_16(u16::to_be_bytes), "utf-16"),
        // All letters of these tables are below 256, and in Latin-1 where they are in Windows-1252.
        _ => (text.chars().map(|letter| letter as u8).collect(), "cp1252"),
    }
}

#[test]
fn tables_are_read_as_python_reads_them_with_the_separator_and_encoding_that_were_found() {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| SmallRng::from_os_rng().random());
    println!("SEED={seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let (mut input, mut found) = (String::new(), Vec::new());
    let mut read = 0;
    while read < TABLES {
        let separator = *[',', ';', '\t', '|'].choose(&mut rng).expect("separators");
        let Written { text, skipped } = written(&mut rng, separator);
        let (bytes, encoding) = encoded(&text, &mut rng);
        let decoded = decode(&bytes).unwrap_or_else(|why| panic!("{text:?} in {encoding}: {why}"));
        let reported = match (decoded.encoding, encoding) {
            ("UTF-8", "utf-8" | "utf-8-sig") | ("UTF-16", "utf-16") | ("Windows-1252", "cp1252") => encoding,
            // Without a letter outside ASCII they are the same.
            ("UTF-8", "cp1252") if text.is_ascii() => "utf-8",
            (other, _) => panic!("{text:?} in {encoding} is taken for {other}"),
        };
        let table = read_table(&decoded.text, |fields| fields.first().is_some_and(|first| first == "row"));
        let table = table.unwrap_or_else(|why| panic!("{text:?}: {why}"));
        assert_eq!(table.separator, separator, "{text:?}");
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        input += &serde_json::json!([table.separator.to_string(), reported, skipped, digits]).to_string();
        input.push('\n');
        found.push((text, table.records.into_iter().map(|record| record.fields).collect::<Vec<Vec<String>>>()));
        read += 1;
    }
    let mut python = Command::new("python3")
        .args(["-c", PROGRAM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let mut stdin = python.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = python.wait_with_output().expect("python3 runs");
    writer.join().expect("the writer ends").expect("python3 reads all");
    assert!(output.status.success(), "python3 failed");
    let lines = String::from_utf8(output.stdout).expect("JSON");
    assert_eq!(lines.lines().count(), TABLES);
    for ((text, own), line) in found.iter().zip(lines.lines()) {
        let other: Vec<Vec<String>> = serde_json::from_str(line).expect("lists of texts");
        assert_eq!(*own, other, "{text:?}");
    }
}

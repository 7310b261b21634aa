//! The inputs in `corpus`: a file for each target, an input for each line.
//!
//! A line has a name, `=`, and the bytes, as text with Rust's escapes or as `hex:` and hexadecimal digits. A name that begins
//! with `real` belongs to bytes that an encoder made. The decoder must accept them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use boxoffice_wire::Encoding;

/// An input with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// The path of a target's corpus.
pub fn path(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("corpus/{target}.txt"))
}

/// The inputs of a target: those of its file, and for the client protocol all golden frames.
///
/// # Panics
/// If the file cannot be read.
pub fn of(target: &str) -> Vec<Seed> {
    let text = fs::read_to_string(path(target)).unwrap_or_default();
    let mut seeds: Vec<Seed> =
        text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(read).collect();
    let golden = |file, encoding| golden(file, encoding);
    seeds.extend(match target {
        "request_json" => golden("requests.txt", Encoding::Json),
        "request_msgpack" => golden("requests.txt", Encoding::MsgPack),
        "server_frame_json" => golden("server_frames.txt", Encoding::Json),
        "server_frame_msgpack" => golden("server_frames.txt", Encoding::MsgPack),
        _ => Vec::new(),
    });
    seeds
}

/// The frames of the client protocol as they are written down: a name, JSON, MessagePack in hexadecimal digits, an empty line.
fn golden(file: &str, encoding: Encoding) -> Vec<Seed> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/src/tests/golden").join(file);
    let text = fs::read_to_string(path).expect("golden frames");
    let lines: Vec<&str> = text.lines().collect();
    let frame = |lines: &[&str]| {
        let [name, json, msgpack, ..] = lines else { panic!("a golden frame has three lines: {lines:?}") };
        let bytes = match encoding {
            Encoding::Json => json.as_bytes().to_vec(),
            Encoding::MsgPack => digits(msgpack),
        };
        Seed { name: format!("real {name}"), bytes }
    };
    lines.chunks(4).map(frame).collect()
}

/// The input in a line.
///
/// # Panics
/// If the line has no input.
pub fn read(line: &str) -> Seed {
    let (name, said) = line.split_once(" = ").unwrap_or_else(|| panic!("`name = bytes` is expected: {line}"));
    let bytes = match said.strip_prefix("hex:") {
        Some(text) => digits(text),
        None => unescape(said),
    };
    Seed { name: name.to_owned(), bytes }
}

/// The line of an input.
pub fn write(seed: &Seed) -> String {
    let text = seed.bytes.escape_ascii().to_string();
    let is_text = text.len() < 2 * seed.bytes.len() && !text.starts_with("hex:");
    let said = if is_text { text } else { format!("hex:{}", hex(&seed.bytes)) };
    format!("{} = {said}\n", seed.name)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn digits(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a hexadecimal digit") as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'\\' => match rest.next().expect("an escape") {
                b't' => b'\t',
                b'r' => b'\r',
                b'n' => b'\n',
                b'x' => digits(&rest.by_ref().take(2).map(char::from).collect::<String>())[0],
                other => other,
            },
            byte => byte,
        };
        bytes.push(byte);
    }
    bytes
}

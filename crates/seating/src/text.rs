//! The text of a file, whatever encoding it was saved in.

use encoding_rs::{Encoding, UTF_16BE, UTF_16LE, WINDOWS_1250, WINDOWS_1252};

/// A decoded file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The text without a byte order mark. Its lines end in `\n` or `\r\n`.
    pub text: String,
    /// The encoding, as people call it.
    pub encoding: &'static str,
}

/// First bytes of files that are no text, and the advice for each.
const NO_TEXT: [(&[u8], &str); 4] = [
    (b"PK\x03\x04", "is a workbook (.xlsx, .ods or .numbers) and no text: open it and save the sheet as CSV, in UTF-8"),
    (b"\xd0\xcf\x11\xe0", "is an old workbook (.xls) and no text: open it and save the sheet as CSV, in UTF-8"),
    (b"%PDF", "is a PDF: take the spreadsheet or the plan that it was made from"),
    (b"\x1f\x8b", "is compressed: unpack it first"),
];

/// Bytes that mean nothing in Windows-1252.
const NOT_IN_1252: [u8; 5] = [0x81, 0x8d, 0x8f, 0x90, 0x9d];

/// The text of a file: UTF-8, UTF-16 with or without a byte order mark, or else Windows-1252.
///
/// # Errors
/// The bytes are no text, or text of two encodings, or text that was damaged before. The message says what to do.
pub fn decode(bytes: &[u8]) -> Result<Text, String> {
    if let Some((_, advice)) = NO_TEXT.iter().find(|(first, _)| bytes.starts_with(first)) {
        return Err(format!("this file {advice}"));
    }
    let (text, encoding) = if let Some(rest) = bytes.strip_prefix(b"\xef\xbb\xbf") {
        (utf_8(rest)?, "UTF-8")
    } else if bytes.starts_with(b"\xff\xfe\0\0") || bytes.starts_with(b"\0\0\xfe\xff") {
        return Err("this file is UTF-32; save it as UTF-8".into());
    } else if let Some(rest) = bytes.strip_prefix(b"\xff\xfe") {
        (utf_16(UTF_16LE, rest)?, "UTF-16")
    } else if let Some(rest) = bytes.strip_prefix(b"\xfe\xff") {
        (utf_16(UTF_16BE, rest)?, "UTF-16")
    } else if bytes.contains(&0) {
        (utf_16(byte_order(bytes)?, bytes)?, "UTF-16")
    } else if std::str::from_utf8(bytes).is_ok() || has_wide_letter(bytes) {
        (utf_8(bytes)?, "UTF-8")
    } else {
        (windows_1252(bytes)?, "Windows-1252")
    };
    if let Some(line) = line_of(&text, |letter| letter == char::REPLACEMENT_CHARACTER) {
        return Err(format!(
            "line {line} has the character \u{fffd}, which stands for one that was lost; save the file again, as UTF-8"
        ));
    }
    if let Some(line) = line_of(&text, |letter| letter == '\0') {
        return Err(format!("line {line} has a zero byte, so this is no text; save the sheet as CSV, in UTF-8"));
    }
    Ok(Text { text: with_plain_line_ends(text), encoding })
}

/// The same bytes as Windows-1250, which is what Polish, Czech and Hungarian programs write where others write Windows-1252.
pub(crate) fn decode_as_central_european(bytes: &[u8]) -> Option<Text> {
    let text = WINDOWS_1250.decode_without_bom_handling_and_without_replacement(bytes)?.into_owned();
    let has_control = text.chars().any(|letter| ('\u{80}'..='\u{9f}').contains(&letter));
    (!has_control).then(|| Text { text: with_plain_line_ends(text), encoding: "Windows-1250" })
}

fn utf_8(bytes: &[u8]) -> Result<String, String> {
    std::str::from_utf8(bytes).map(Into::into).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line} is not UTF-8, and others are; save the file again, as UTF-8")
    })
}

fn utf_16(encoding: &'static Encoding, bytes: &[u8]) -> Result<String, String> {
    let text = encoding.decode_without_bom_handling_and_without_replacement(bytes);
    text.map(Into::into).ok_or_else(|| "this file is UTF-16 with a letter that is cut; save it as UTF-8".into())
}

fn windows_1252(bytes: &[u8]) -> Result<String, String> {
    if let Some(at) = bytes.iter().position(|byte| NOT_IN_1252.contains(byte)) {
        let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        return Err(format!("line {line} is neither UTF-8 nor Windows-1252; save the file again, as UTF-8"));
    }
    Ok(WINDOWS_1252.decode_without_bom_handling(bytes).0.into_owned())
}

/// Whether there is a letter that only UTF-8 writes this way: a file of which one line is damaged must not be read as one in which
/// every letter is two.
fn has_wide_letter(bytes: &[u8]) -> bool {
    bytes.utf8_chunks().any(|chunk| !chunk.valid().is_ascii())
}

/// The byte order of UTF-16 without a mark. Most letters of a spreadsheet have a zero byte.
fn byte_order(bytes: &[u8]) -> Result<&'static Encoding, String> {
    let zeros = |parity: usize| bytes.iter().skip(parity).step_by(2).filter(|byte| **byte == 0).count();
    let (first, second) = (zeros(0), zeros(1));
    let most = bytes.len() / 4;
    match bytes.len() % 2 {
        0 if second > most && first * 8 < second => Ok(UTF_16LE),
        0 if first > most && second * 8 < first => Ok(UTF_16BE),
        _ => Err("this file has zero bytes, so it is no text; save the sheet as CSV, in UTF-8".into()),
    }
}

fn line_of(text: &str, wanted: impl Fn(char) -> bool) -> Option<usize> {
    text.find(wanted).map(|at| text[..at].matches('\n').count() + 1)
}

/// Old programs end lines with a carriage return alone.
fn with_plain_line_ends(text: String) -> String {
    if text.contains('\r') && !text.contains('\n') { text.replace('\r', "\n") } else { text }
}

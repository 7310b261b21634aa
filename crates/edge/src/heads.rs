//! Keeps requests from being smuggled past a proxy. Ambiguous heads are made unreadable, so that the parser refuses them.
//!
//! A head is ambiguous if a line ends in a bare LF, or if it has both a content length and chunks. The HTTP parser takes a
//! bare LF for the end of a line, and the chunks for the length. A proxy in front of the node may not, and then the two
//! disagree about where the request ends. A length beyond the bytes that are looked at is made unreadable too.

use std::mem::take;

/// Bytes of a header line that are looked at, more than the names and values that matter have.
const LINE_BYTES_SEEN: usize = 64;

/// The longest chunk size, in digits.
const DIGITS_MAX: usize = 16;

/// The name of the header with a body's length.
const CONTENT_LENGTH: &[u8] = b"content-length";

/// Replaces a bare LF. No line of a head may have this byte, so the parser answers 400.
const UNREADABLE: u8 = 0;

/// Follows the bytes of a client's requests.
#[derive(Default)]
pub(crate) struct Heads {
    at: Place,
    line: HeadLine,
    /// Whether a line of the current head has ended.
    begun: bool,
    framing: Framing,
}

/// The stream's position in a request.
#[derive(Clone, Copy, Default)]
enum Place {
    #[default]
    Head,
    /// In the body, with this many bytes to come.
    Body(u64),
    /// In the line with a chunk's size.
    ChunkSize,
    /// In a chunk and its line end, with this many bytes to come.
    Chunk(u64),
    /// In the fields behind the last chunk.
    Trailers,
    /// The connection may become a WebSocket. Nothing more is looked at.
    Through,
}

/// The body's length according to the head.
#[derive(Clone, Copy, Default)]
struct Framing {
    length: u64,
    has_length: bool,
    is_chunked: bool,
    is_upgrade: bool,
}

/// The line that is being read.
struct HeadLine {
    seen: [u8; LINE_BYTES_SEEN],
    length: usize,
    after_cr: bool,
}

impl Default for HeadLine {
    fn default() -> HeadLine {
        HeadLine { seen: [0; LINE_BYTES_SEEN], length: 0, after_cr: false }
    }
}

impl HeadLine {
    fn push(&mut self, byte: u8) {
        if let Some(seen) = self.seen.get_mut(self.length) {
            *seen = byte.to_ascii_lowercase();
        }
        self.length += 1;
        self.after_cr = byte == b'\r';
    }

    fn clear(&mut self) {
        (self.length, self.after_cr) = (0, false);
    }

    /// The beginning of the line, in lower case.
    fn text(&self) -> &[u8] {
        self.seen[..self.length.min(LINE_BYTES_SEEN)].trim_ascii()
    }

    /// The number of hexadecimal digits at the beginning.
    fn digits(&self) -> usize {
        self.text().iter().take_while(|byte| byte.is_ascii_hexdigit()).count()
    }

    /// Whether this is a content length that is longer than the bytes that are looked at.
    fn hides_length(&self) -> bool {
        self.length > LINE_BYTES_SEEN && self.text().starts_with(CONTENT_LENGTH)
    }

    fn is_empty(&self) -> bool {
        self.length == 0 || (self.length == 1 && self.after_cr)
    }
}

impl Heads {
    /// Follows these bytes, and makes each bare LF of a head unreadable.
    pub(crate) fn pass(&mut self, bytes: &mut [u8]) {
        let mut next = 0;
        while next < bytes.len() {
            match self.at {
                Place::Through => return,
                Place::Body(left) => next += self.skip(left, bytes.len() - next, Place::Body),
                Place::Chunk(left) => next += self.skip(left, bytes.len() - next, Place::Chunk),
                Place::Head | Place::ChunkSize | Place::Trailers => {
                    self.byte(&mut bytes[next]);
                    next += 1;
                }
            }
        }
    }

    /// Skips up to `left` bytes. Returns how many of them are `there`.
    fn skip(&mut self, left: u64, there: usize, place: fn(u64) -> Place) -> usize {
        let skipped = usize::try_from(left).unwrap_or(usize::MAX).min(there);
        self.at = match (left - skipped as u64, self.at) {
            (0, Place::Chunk(_)) => Place::ChunkSize,
            (0, _) => Place::Head,
            (left, _) => place(left),
        };
        skipped
    }

    fn byte(&mut self, byte: &mut u8) {
        if *byte != b'\n' {
            self.line.push(*byte);
            return;
        }
        let is_unreadable = match self.at {
            Place::ChunkSize => self.line.digits() > DIGITS_MAX,
            Place::Head => !self.line.after_cr || self.line.hides_length(),
            Place::Trailers | Place::Body(_) | Place::Chunk(_) | Place::Through => !self.line.after_cr,
        };
        if is_unreadable {
            *byte = UNREADABLE;
        }
        let is_empty = self.line.is_empty();
        let Framing { has_length, is_chunked, .. } = self.framing;
        if matches!(self.at, Place::Head) && is_empty && has_length && is_chunked {
            *byte = UNREADABLE;
        }
        match self.at {
            // Empty lines may come before a request.
            Place::Head if is_empty && !self.begun => {}
            Place::Head if is_empty => self.head_ended(),
            Place::Head if !self.begun => self.begun = true,
            Place::Head => self.framing.header(self.line.text()),
            Place::Trailers if is_empty => self.at = Place::Head,
            Place::ChunkSize => self.at = chunk(&self.line),
            Place::Trailers | Place::Body(_) | Place::Chunk(_) | Place::Through => {}
        }
        self.line.clear();
    }

    fn head_ended(&mut self) {
        let Framing { length, is_chunked, is_upgrade, has_length: _ } = take(&mut self.framing);
        self.begun = false;
        self.at = match (is_upgrade, is_chunked, length) {
            (true, ..) => Place::Through,
            (false, true, _) => Place::ChunkSize,
            (false, false, 0) => Place::Head,
            (false, false, length) => Place::Body(length),
        };
    }
}

impl Framing {
    fn header(&mut self, line: &[u8]) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return };
        match &line[..colon] {
            CONTENT_LENGTH => {
                self.has_length = true;
                self.length = number(line[colon + 1..].trim_ascii(), 10).unwrap_or(0);
            }
            b"transfer-encoding" => self.is_chunked = true,
            b"upgrade" => self.is_upgrade = true,
            _ => {}
        }
    }
}

/// The position after the line with a chunk's size.
fn chunk(line: &HeadLine) -> Place {
    let digits = line.digits();
    match number(&line.text()[..digits], 16).filter(|_| digits <= DIGITS_MAX) {
        Some(0) => Place::Trailers,
        // The chunk's line end is passed with it.
        Some(size) => Place::Chunk(size.saturating_add(2)),
        // The parser refuses it.
        None => Place::Through,
    }
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    u64::from_str_radix(str::from_utf8(digits).ok()?, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::{Heads, UNREADABLE};

    /// The bytes that the parser gets, in whatever pieces they arrive.
    fn passed(text: &str) -> String {
        let mut passed = Vec::new();
        for step in [1, 2, 3, 7, 10_000] {
            let (mut heads, mut bytes) = (Heads::default(), text.as_bytes().to_vec());
            bytes.chunks_mut(step).for_each(|part| heads.pass(part));
            passed.push(String::from_utf8(bytes).expect("text"));
        }
        passed.dedup();
        assert_eq!(passed.len(), 1, "the same for all pieces: {passed:?}");
        passed.remove(0).replace(char::from(UNREADABLE), "#")
    }

    #[test]
    fn a_bare_line_feed_is_masked_in_heads_only() {
        let good = [
            "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
            "\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\nGET /b HTTP/1.1\r\n\r\n",
            // A body of bare LFs, then the next head.
            "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n\n\n\n\n\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\n\n\n\n\r\nA\r\n\n123456789\r\n0\r\na: b\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            // Frames follow an upgrade.
            "GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n\n\n",
        ];
        for text in good {
            assert_eq!(passed(text), text);
        }
        let bad = [
            ("GET / HTTP/1.1\nhost: a\r\n\r\n", "GET / HTTP/1.1#host: a\r\n\r\n"),
            ("GET / HTTP/1.1\r\nhost: a\n\r\n", "GET / HTTP/1.1\r\nhost: a#\r\n"),
            ("GET / HTTP/1.1\r\nhost: a\r\n\n", "GET / HTTP/1.1\r\nhost: a\r\n#"),
            ("\nGET / HTTP/1.1\r\n\r\n", "#GET / HTTP/1.1\r\n\r\n"),
            ("GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\n\r\n", "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1#\r\n"),
            (
                "POST / HTTP/1.1\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
                "POST / HTTP/1.1\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r#0\r\n\r\n",
            ),
            (
                "POST / HTTP/1.1\r\ncontent-length: 1\r\n\r\n\nGET / HTTP/1.1\n",
                "POST / HTTP/1.1\r\ncontent-length: 1\r\n\r\n\nGET / HTTP/1.1#",
            ),
            (
                "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\n\r\nGET / HTTP/1.1\n",
                "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\n\r\nGET / HTTP/1.1#",
            ),
        ];
        for (text, expected) in bad {
            assert_eq!(passed(text), expected);
        }
    }

    #[test]
    fn an_overlong_length_is_masked() {
        for padding in [" ".repeat(60), "\t".repeat(60), "0".repeat(60)] {
            let text = format!("POST / HTTP/1.1\r\nContent-Length:{padding}5\r\n\r\n");
            assert_eq!(passed(&text), text.replace("5\r\n", "5\r#"));
        }
        let chunk = |digits: &str| format!("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{digits}\r\n");
        assert_eq!(passed(&chunk("0000000000000005")), chunk("0000000000000005"));
        assert_eq!(passed(&chunk("00000000000000005")), chunk("00000000000000005").replace("5\r\n", "5\r#"));
    }
}

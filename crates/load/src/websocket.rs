//! A minimal WebSocket client: it reads whole messages from a stream of bytes and writes masked frames.

/// A complete message.
pub(crate) enum Message<'a> {
    /// A text. Its fragments are joined.
    Text(&'a [u8]),
    /// Binary data.
    Binary(&'a [u8]),
    /// A ping, with the payload that the pong must repeat.
    Ping(&'a [u8]),
    /// The server closes the connection, with a code if it gave one.
    Close(Option<u16>),
}

/// The peer does not speak WebSocket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidFrame;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Reads the messages of one connection. It holds no memory between messages.
#[derive(Default)]
pub(crate) struct FrameReader {
    /// The beginning of an incomplete frame.
    rest: Vec<u8>,
    /// The fragments of an incomplete message.
    message: Vec<u8>,
}

impl FrameReader {
    /// Reads bytes, and passes each message that they complete to `on_message`.
    pub(crate) fn read(&mut self, bytes: &[u8], mut on_message: impl FnMut(Message<'_>)) -> Result<(), InvalidFrame> {
        if self.rest.is_empty() {
            let used = self.read_frames(bytes, &mut on_message)?;
            self.rest.extend_from_slice(&bytes[used..]);
            return Ok(());
        }
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(bytes);
        let used = self.read_frames(&rest, &mut on_message)?;
        if used < rest.len() {
            rest.drain(..used);
            self.rest = rest;
        }
        Ok(())
    }

    /// Passes on the messages of the complete frames at the beginning of `bytes`. Returns the length of those frames.
    fn read_frames(&mut self, bytes: &[u8], on_message: &mut impl FnMut(Message<'_>)) -> Result<usize, InvalidFrame> {
        let mut used = 0;
        while let Some(Frame { is_last, opcode, payload, length }) = frame(&bytes[used..])? {
            used += length;
            match (opcode, is_last) {
                (TEXT, true) if self.message.is_empty() => on_message(Message::Text(payload)),
                (BINARY, true) if self.message.is_empty() => on_message(Message::Binary(payload)),
                (TEXT, false) if self.message.is_empty() => self.message.extend_from_slice(payload),
                (CONTINUATION, false) => self.message.extend_from_slice(payload),
                (CONTINUATION, true) => {
                    let mut message = std::mem::take(&mut self.message);
                    message.extend_from_slice(payload);
                    on_message(Message::Text(&message));
                }
                (PING, true) => on_message(Message::Ping(payload)),
                (PONG, true) => {}
                (CLOSE, true) => {
                    let code = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
                    on_message(Message::Close(code));
                }
                _ => return Err(InvalidFrame),
            }
        }
        Ok(used)
    }
}

struct Frame<'a> {
    is_last: bool,
    opcode: u8,
    payload: &'a [u8],
    /// The length including the header.
    length: usize,
}

/// The frame at the beginning. `None` if it is incomplete.
fn frame(bytes: &[u8]) -> Result<Option<Frame<'_>>, InvalidFrame> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    let (head, payload_length) = match (second, rest) {
        // A server must not mask its frames.
        (128.., _) => return Err(InvalidFrame),
        (126, [high, low, ..]) => (4, usize::from(u16::from_be_bytes([*high, *low]))),
        (127, rest) => match rest.first_chunk() {
            Some(long) => (10, usize::try_from(u64::from_be_bytes(*long)).map_err(|_| InvalidFrame)?),
            None => return Ok(None),
        },
        (126, _) => return Ok(None),
        (short, _) => (2, usize::from(*short)),
    };
    let length = head + payload_length;
    let payload = bytes.get(head..length);
    Ok(payload.map(|payload| Frame { is_last: first & 0x80 != 0, opcode: first & 0x0f, payload, length }))
}

/// Appends a text frame. Its mask is zero, which leaves the text as it is. That is as good as any other mask on a
/// connection without eavesdroppers.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    write(out, TEXT, text);
}

/// Appends a binary frame, masked as [`write_text`] does.
pub(crate) fn write_binary(out: &mut Vec<u8>, bytes: &[u8]) {
    write(out, BINARY, bytes);
}

/// Appends a pong.
pub(crate) fn write_pong(out: &mut Vec<u8>, payload: &[u8]) {
    write(out, PONG, payload);
}

fn write(out: &mut Vec<u8>, opcode: u8, payload: &[u8]) {
    out.push(0x80 | opcode);
    match payload.len() {
        short @ ..126 => out.push(0x80 | short as u8),
        middle @ ..0x1_0000 => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(middle as u16).to_be_bytes());
        }
        long => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(frame_reader: &mut FrameReader, bytes: &[u8]) -> Vec<String> {
        let mut all = Vec::new();
        let read = frame_reader.read(bytes, |message| {
            all.push(match message {
                Message::Binary(bytes) => format!("bytes {}", bytes.len()),
                Message::Text(text) => format!("text {}", String::from_utf8_lossy(text)),
                Message::Ping(payload) => format!("ping {}", payload.len()),
                Message::Close(code) => format!("close {code:?}"),
            });
        });
        assert_eq!(read, Ok(()));
        all
    }

    #[test]
    fn messages_are_complete_however_the_bytes_are_split() {
        let long = "x".repeat(70_000);
        let mut bytes = vec![0x81, 2, b'h', b'i', 0x89, 1, 7, 0x01, 1, b'a', 0x89, 0, 0x80, 1, b'b'];
        bytes.extend([0x81, 126, 0, 200]);
        bytes.extend([b'y'; 200]);
        bytes.extend([0x81, 127]);
        bytes.extend((long.len() as u64).to_be_bytes());
        bytes.extend(long.as_bytes());
        bytes.extend([0x88, 2, 0x10, 0x06]);
        let expected = [
            "text hi".to_owned(),
            "ping 1".into(),
            "ping 0".into(),
            "text ab".into(),
            format!("text {}", "y".repeat(200)),
            format!("text {long}"),
            "close Some(4102)".into(),
        ];
        let mut frame_reader = FrameReader::default();
        assert_eq!(messages(&mut frame_reader, &bytes), expected);
        for piece in [1, 3, 7, 1_000] {
            let pieces: Vec<String> =
                bytes.chunks(piece).flat_map(|piece| messages(&mut frame_reader, piece)).collect();
            assert_eq!(pieces, expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_masked_frame_from_the_server_is_invalid() {
        assert_eq!(FrameReader::default().read(&[0x81, 0x81, 0, 0, 0, 0, 1], |_| ()), Err(InvalidFrame));
    }

    #[test]
    fn sent_frames_have_a_zero_mask() {
        let mut out = Vec::new();
        write_pong(&mut out, b"x");
        write_text(&mut out, &[b'y'; 130]);
        assert_eq!(out[..7], [0x8a, 0x81, 0, 0, 0, 0, b'x']);
        assert_eq!(out[7..15], [0x81, 0xfe, 0, 130, 0, 0, 0, 0]);
    }
}

//! WebSocket as a watcher needs it: whole messages out of whatever was read, and masked frames to be sent.

/// What came whole.
pub(crate) enum Message<'a> {
    /// A text, put together if it came in pieces.
    Text(&'a [u8]),
    /// The same in bytes.
    Binary(&'a [u8]),
    /// A ping, with what the pong must repeat.
    Ping(&'a [u8]),
    /// The server says farewell, with a code if it gave one.
    Close(Option<u16>),
}

/// The peer does not speak WebSocket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// What was read of one connection and is no whole message yet. Has no memory of its own between messages.
#[derive(Default)]
pub(crate) struct Inbound {
    /// The beginning of a frame.
    rest: Vec<u8>,
    /// The fragments of a message.
    message: Vec<u8>,
}

impl Inbound {
    /// Takes in what was read, and hands out each message that is whole with it.
    pub(crate) fn take(&mut self, bytes: &[u8], mut on: impl FnMut(Message<'_>)) -> Result<(), Broken> {
        if self.rest.is_empty() {
            let used = self.walk(bytes, &mut on)?;
            self.rest.extend_from_slice(&bytes[used..]);
            return Ok(());
        }
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(bytes);
        let used = self.walk(&rest, &mut on)?;
        if used < rest.len() {
            rest.drain(..used);
            self.rest = rest;
        }
        Ok(())
    }

    /// Hands out the messages of the whole frames at the beginning of `bytes`; how many bytes those have.
    fn walk(&mut self, bytes: &[u8], on: &mut impl FnMut(Message<'_>)) -> Result<usize, Broken> {
        let mut used = 0;
        while let Some(Frame { is_last, opcode, payload, length }) = frame(&bytes[used..])? {
            used += length;
            match (opcode, is_last) {
                (TEXT, true) if self.message.is_empty() => on(Message::Text(payload)),
                (BINARY, true) if self.message.is_empty() => on(Message::Binary(payload)),
                (TEXT, false) if self.message.is_empty() => self.message.extend_from_slice(payload),
                (CONTINUATION, false) => self.message.extend_from_slice(payload),
                (CONTINUATION, true) => {
                    let mut message = std::mem::take(&mut self.message);
                    message.extend_from_slice(payload);
                    on(Message::Text(&message));
                }
                (PING, true) => on(Message::Ping(payload)),
                (PONG, true) => {}
                (CLOSE, true) => {
                    let code = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
                    on(Message::Close(code));
                }
                _ => return Err(Broken),
            }
        }
        Ok(used)
    }
}

struct Frame<'a> {
    is_last: bool,
    opcode: u8,
    payload: &'a [u8],
    /// With its head.
    length: usize,
}

/// The frame at the beginning; `None` if it is not whole.
fn frame(bytes: &[u8]) -> Result<Option<Frame<'_>>, Broken> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    let (head, payload_length) = match (second, rest) {
        // Servers do not mask.
        (128.., _) => return Err(Broken),
        (126, [high, low, ..]) => (4, usize::from(u16::from_be_bytes([*high, *low]))),
        (127, rest) => match rest.first_chunk() {
            Some(long) => (10, usize::try_from(u64::from_be_bytes(*long)).map_err(|_| Broken)?),
            None => return Ok(None),
        },
        (126, _) => return Ok(None),
        (short, _) => (2, usize::from(*short)),
    };
    let length = head + payload_length;
    let payload = bytes.get(head..length);
    Ok(payload.map(|payload| Frame { is_last: first & 0x80 != 0, opcode: first & 0x0f, payload, length }))
}

/// Appends a text frame. Its mask is zero, which masks nothing and is as good as another where nobody listens in.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    write(out, TEXT, text);
}

/// Appends a frame of bytes, masked as [`write_text`] does.
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

    fn messages(inbound: &mut Inbound, bytes: &[u8]) -> Vec<String> {
        let mut all = Vec::new();
        let taken = inbound.take(bytes, |message| {
            all.push(match message {
                Message::Binary(bytes) => format!("bytes {}", bytes.len()),
                Message::Text(text) => format!("text {}", String::from_utf8_lossy(text)),
                Message::Ping(payload) => format!("ping {}", payload.len()),
                Message::Close(code) => format!("close {code:?}"),
            });
        });
        assert_eq!(taken, Ok(()));
        all
    }

    #[test]
    fn messages_come_whole_however_they_were_read() {
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
        let mut inbound = Inbound::default();
        assert_eq!(messages(&mut inbound, &bytes), expected);
        for piece in [1, 3, 7, 1_000] {
            let pieces: Vec<String> = bytes.chunks(piece).flat_map(|piece| messages(&mut inbound, piece)).collect();
            assert_eq!(pieces, expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_server_that_masks_is_none() {
        assert_eq!(Inbound::default().take(&[0x81, 0x81, 0, 0, 0, 0, 1], |_| ()), Err(Broken));
    }

    #[test]
    fn what_is_sent_is_masked_with_nothing() {
        let mut out = Vec::new();
        write_pong(&mut out, b"x");
        write_text(&mut out, &[b'y'; 130]);
        assert_eq!(out[..7], [0x8a, 0x81, 0, 0, 0, 0, b'x']);
        assert_eq!(out[7..15], [0x81, 0xfe, 0, 130, 0, 0, 0, 0]);
    }
}

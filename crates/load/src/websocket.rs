//! A WebSocket client for very many connections. It reads whole messages from bytes and writes masked frames, over
//! sockets that do not block.
//!
//! Tungstenite reads the headers. Its connections are not used, because each has a buffer of its own and copies every
//! message. All connections of a fleet read into one buffer and compare messages there.

use std::{
    fmt::Display,
    io::{self, Cursor, Read, Write},
};

use mio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::frame::{
    FrameHeader,
    coding::{Control, Data, OpCode},
};

/// The most bytes of the server's answer to the upgrade.
const HEAD_BYTES_MAX: usize = 4_096;

/// The request that opens a WebSocket with this subprotocol.
pub(crate) fn upgrade_request(address: impl Display, subprotocol: &str) -> String {
    format!(
        "GET /v1/ws HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Protocol: {subprotocol}\r\n\r\n"
    )
}

/// The length of the server's answer to the upgrade. `None` if it is incomplete.
pub(crate) fn upgrade_answer(bytes: &[u8]) -> io::Result<Option<usize>> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        let too_long = bytes.len() > HEAD_BYTES_MAX;
        return if too_long { Err(io::Error::other("the answer to the upgrade is too long")) } else { Ok(None) };
    };
    if !bytes.starts_with(b"HTTP/1.1 101 ") {
        let line = String::from_utf8_lossy(bytes.split(|byte| *byte == b'\r').next().unwrap_or_default());
        return Err(io::Error::other(format!("the server answers {line}")));
    }
    Ok(Some(end + 4))
}

/// A complete message.
pub(crate) enum Message<'a> {
    /// A text. Its fragments are joined.
    Text(&'a [u8]),
    Binary(&'a [u8]),
    /// A ping, with the payload that the pong must repeat.
    Ping(&'a [u8]),
    /// The server closes the connection, with a code and a reason if it gave them.
    Close(Option<u16>, &'a [u8]),
}

/// The peer does not speak WebSocket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidFrame;

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
        while let Some((FrameHeader { is_final, opcode, .. }, payload, length)) = frame(&bytes[used..])? {
            used += length;
            match (opcode, is_final) {
                (OpCode::Data(Data::Text), true) if self.message.is_empty() => on_message(Message::Text(payload)),
                (OpCode::Data(Data::Binary), true) if self.message.is_empty() => on_message(Message::Binary(payload)),
                (OpCode::Data(Data::Text), false) if self.message.is_empty() => self.message.extend_from_slice(payload),
                (OpCode::Data(Data::Continue), false) => self.message.extend_from_slice(payload),
                (OpCode::Data(Data::Continue), true) => {
                    let mut message = std::mem::take(&mut self.message);
                    message.extend_from_slice(payload);
                    on_message(Message::Text(&message));
                }
                (OpCode::Control(Control::Ping), true) => on_message(Message::Ping(payload)),
                (OpCode::Control(Control::Pong), true) => {}
                (OpCode::Control(Control::Close), true) => {
                    let code = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
                    on_message(Message::Close(code, payload.get(2..).unwrap_or_default()));
                }
                _ => return Err(InvalidFrame),
            }
        }
        Ok(used)
    }
}

/// The header of a frame, its payload, and its whole length in bytes.
type Frame<'a> = (FrameHeader, &'a [u8], usize);

/// The frame at the beginning. `None` if it is incomplete.
fn frame(bytes: &[u8]) -> Result<Option<Frame<'_>>, InvalidFrame> {
    let mut cursor = Cursor::new(bytes);
    let Some((header, length)) = FrameHeader::parse(&mut cursor).map_err(|_| InvalidFrame)? else { return Ok(None) };
    // A server must not mask its frames.
    let (None, Ok(length)) = (header.mask, usize::try_from(length)) else { return Err(InvalidFrame) };
    let head = cursor.position() as usize;
    Ok(bytes[head..].get(..length).map(|payload| (header, payload, head + length)))
}

/// Appends a text frame.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    write(out, OpCode::Data(Data::Text), text);
}

/// Appends a binary frame.
pub(crate) fn write_binary(out: &mut Vec<u8>, bytes: &[u8]) {
    write(out, OpCode::Data(Data::Binary), bytes);
}

/// Appends a pong.
pub(crate) fn write_pong(out: &mut Vec<u8>, payload: &[u8]) {
    write(out, OpCode::Control(Control::Pong), payload);
}

/// Appends a frame. Its mask is zero, which leaves the payload as it is. That is as good as any other mask on a
/// connection without eavesdroppers.
fn write(out: &mut Vec<u8>, opcode: OpCode, payload: &[u8]) {
    let header = FrameHeader { opcode, mask: Some([0; 4]), ..FrameHeader::default() };
    header.format(payload.len() as u64, out).expect("writing to a vector cannot fail");
    out.extend_from_slice(payload);
}

/// Reads once. `None` if there is nothing to read.
pub(crate) fn read_available(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match stream.read(buffer) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if is_not_ready(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes as much of `out` as the socket accepts, and removes that from it.
pub(crate) fn flush(stream: &mut TcpStream, out: &mut Vec<u8>) -> io::Result<()> {
    let mut written = 0;
    while written < out.len() {
        match stream.write(&out[written..]) {
            Ok(bytes) => written += bytes,
            Err(error) if is_not_ready(&error) => break,
            Err(error) => return Err(error),
        }
    }
    out.drain(..written);
    Ok(())
}

/// Whether a socket has to wait. It may still be connecting.
fn is_not_ready(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected)
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
                Message::Close(code, reason) => format!("close {code:?} {}", String::from_utf8_lossy(reason)),
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
        bytes.extend([0x88, 6, 0x10, 0x06, b'l', b'a', b't', b'e']);
        let expected = [
            "text hi".to_owned(),
            "ping 1".into(),
            "ping 0".into(),
            "text ab".into(),
            format!("text {}", "y".repeat(200)),
            format!("text {long}"),
            "close Some(4102) late".into(),
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

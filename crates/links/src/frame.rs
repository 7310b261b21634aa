//! The framing of a connection, which detects changed frames.
//!
//! ```text
//! length of the body: u32 LE | kind: u8 | CRC-32C of the head: u32 LE | CRC-32C of the body: u32 LE | body
//! ```
//! The head's checksum covers the frame's number on its connection (u64 LE, from 0, not sent), length and kind. The
//! body's checksum continues from it. So a frame that is changed, left out or repeated ends the connection. A changed
//! length is detected before its body is awaited.

use boxoffice_env::Lane;
use bytes::{Bytes, BytesMut};
use crc32c::{crc32c, crc32c_append};

/// The length of a frame's head.
pub(super) const FRAME_OVERHEAD: usize = 13;

/// Room made before each read. A claimed length reserves no memory. The buffer only grows with received bytes.
const READ_BYTES: usize = 64 * 1024;

/// A body up to this length is copied, because a slice would keep the whole buffer in memory.
const COPIED_BYTES_MAX: usize = 16 * 1024;

/// A buffer that grew beyond this for a long frame is freed.
const BUFFER_BYTES_KEPT: usize = 256 * 1024;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An empty sign of life. The dialer's first one establishes the connection.
    Heartbeat,
    /// For the node.
    Data(Lane),
    /// The first frame of each side.
    Hello,
    /// The dialer's proof that it knows a secret, with its claims.
    Proof,
    /// The acceptor's proof, with its claims.
    Welcome,
    /// The last frame, with the reason of a refusal.
    Refusal,
    /// The last frame to a verified caller, with a proof and the reason of a permanent refusal.
    Removed,
}

impl Kind {
    pub(super) const fn byte(self) -> u8 {
        match self {
            Kind::Heartbeat => 0,
            Kind::Data(Lane::Consensus) => 1,
            Kind::Data(Lane::Calls) => 2,
            Kind::Data(Lane::Feeds) => 3,
            Kind::Data(Lane::Bulk) => 4,
            Kind::Hello => 16,
            Kind::Proof => 17,
            Kind::Welcome => 18,
            Kind::Refusal => 19,
            Kind::Removed => 20,
        }
    }

    pub(super) fn read(byte: u8) -> Option<Kind> {
        Some(match byte {
            0 => Kind::Heartbeat,
            1 => Kind::Data(Lane::Consensus),
            2 => Kind::Data(Lane::Calls),
            3 => Kind::Data(Lane::Feeds),
            4 => Kind::Data(Lane::Bulk),
            16 => Kind::Hello,
            17 => Kind::Proof,
            18 => Kind::Welcome,
            19 => Kind::Refusal,
            20 => Kind::Removed,
            _ => return None,
        })
    }
}

/// The received bytes are not those that a node sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Corrupt {
    #[error("a frame claims {length} bytes where {max} is the most")]
    TooLong { length: usize, max: usize },
    #[error("a frame is of no known kind ({0})")]
    Kind(u8),
    #[error("a frame's checksum is wrong: bytes were changed or left out on the way")]
    Checksum,
}

/// The checksum of the first five bytes of frame `number`.
fn head_sum(number: u64, head: &[u8]) -> u32 {
    crc32c_append(crc32c(&number.to_le_bytes()), head)
}

/// Numbers the frames that are sent on one connection and makes their heads.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    number: u64,
}

impl Encoder {
    /// The head of a frame with this body.
    ///
    /// # Panics
    /// If the body has 4 GiB or more. Senders check a lower bound.
    pub(super) fn head(&mut self, kind: Kind, body: &[u8]) -> [u8; FRAME_OVERHEAD] {
        let length = u32::try_from(body.len()).expect("no frame is as long as 4 GiB");
        let mut head = [0; FRAME_OVERHEAD];
        head[..4].copy_from_slice(&length.to_le_bytes());
        head[4] = kind.byte();
        let sum = head_sum(self.number, &head[..5]);
        head[5..9].copy_from_slice(&sum.to_le_bytes());
        head[9..].copy_from_slice(&crc32c_append(sum, body).to_le_bytes());
        self.number += 1;
        head
    }

    /// The whole frame.
    pub(super) fn frame(&mut self, kind: Kind, body: &[u8]) -> Vec<u8> {
        let head = self.head(kind, body);
        [&head, body].concat()
    }
}

/// Reads frames from the bytes of one connection, in pieces of any size.
#[derive(Debug)]
pub(super) struct Decoder {
    read: BytesMut,
    number: u64,
    /// The longest accepted body. It is short until the other side is verified.
    pub(super) body_bytes_max: usize,
}

impl Decoder {
    pub(super) fn new(body_bytes_max: usize) -> Decoder {
        Decoder { read: BytesMut::new(), number: 0, body_bytes_max }
    }

    /// The buffer for the next bytes, with room.
    pub(super) fn room(&mut self) -> &mut BytesMut {
        self.read.reserve(READ_BYTES);
        &mut self.read
    }

    /// The next frame, `None` if it is not complete.
    ///
    /// # Errors
    /// [`Corrupt`]. Later frames cannot be read either.
    pub(super) fn next(&mut self) -> Result<Option<(Kind, Bytes)>, Corrupt> {
        let Some(head) = self.read.first_chunk::<FRAME_OVERHEAD>() else { return Ok(None) };
        let [a, b, c, d, kind, e, f, g, h, body_sum @ ..] = *head;
        let sum = head_sum(self.number, &head[..5]);
        let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        if length > self.body_bytes_max {
            return Err(Corrupt::TooLong { length, max: self.body_bytes_max });
        }
        if sum != u32::from_le_bytes([e, f, g, h]) {
            return Err(Corrupt::Checksum);
        }
        let kind = Kind::read(kind).ok_or(Corrupt::Kind(kind))?;
        let end = FRAME_OVERHEAD + length;
        if self.read.len() < end {
            return Ok(None);
        }
        if crc32c_append(sum, &self.read[FRAME_OVERHEAD..end]) != u32::from_le_bytes(body_sum) {
            return Err(Corrupt::Checksum);
        }
        self.number += 1;
        Ok(Some((kind, self.take(end))))
    }

    /// Removes a frame that ends at `end` from the buffer and returns its body.
    fn take(&mut self, end: usize) -> Bytes {
        let mut whole = self.read.split_to(end);
        if end <= COPIED_BYTES_MAX {
            return Bytes::copy_from_slice(&whole[FRAME_OVERHEAD..]);
        }
        if whole.len() + self.read.capacity() > BUFFER_BYTES_KEPT {
            self.read = BytesMut::from(&self.read[..]);
        }
        whole.split_off(FRAME_OVERHEAD).freeze()
    }
}

#[cfg(test)]
mod tests;

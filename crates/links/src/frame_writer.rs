//! The write side of a connection: the encoder, encoded frames that are not written yet, and the socket of a direct
//! connection.

use std::io::{self, Write as _};

use boxoffice_env::Lane;
use bytes::{Buf as _, Bytes, BytesMut};

use super::{
    encrypted::Written,
    frame::{Encoder, Kind},
    transport::Socket,
};

pub(super) struct FrameWriter {
    encoder: Encoder,
    /// Encoded bytes that are to be written next.
    pub(super) out: BytesMut,
    /// A second handle of the non-blocking socket.
    socket: Option<Socket>,
    /// Bytes were taken that must be flushed.
    has_unsent: bool,
}

impl FrameWriter {
    /// `first` is written before anything else.
    pub(super) fn new(encoder: Encoder, socket: Option<Socket>, first: &[u8]) -> FrameWriter {
        FrameWriter { encoder, out: BytesMut::from(first), socket, has_unsent: false }
    }

    /// Whether it can write to the socket itself.
    pub(super) fn is_direct(&self) -> bool {
        self.socket.is_some()
    }

    /// Whether it can write and has nothing left. Frames that the socket does not take must wait in the bounded queues.
    pub(super) fn is_free(&self) -> bool {
        self.is_direct() && self.out.is_empty() && !self.has_unsent
    }

    /// Encodes a frame behind those that wait to be written.
    pub(super) fn frame(&mut self, lane: Lane, body: &Bytes) {
        self.head(lane, body);
        self.out.extend_from_slice(body);
    }

    /// Encodes only the head of a frame, whose body is written without a copy.
    pub(super) fn head(&mut self, lane: Lane, body: &Bytes) {
        self.out.extend_from_slice(&self.encoder.head(Kind::Data(lane), body));
    }

    pub(super) fn heartbeat(&mut self) {
        self.out.extend_from_slice(&self.encoder.head(Kind::Heartbeat, b""));
    }

    /// Writes as much as the socket takes now, and returns whether that was all. The writer task notices a failure
    /// later.
    pub(super) fn write_at_once(&mut self) -> bool {
        let written = match &mut self.socket {
            None => return false,
            Some(Socket::Plain(socket)) => socket.write(&self.out).map(|taken| Written { taken, has_unsent: false }),
            Some(Socket::Encrypted(stream)) => stream.write_at_once(&self.out),
        };
        match written {
            Ok(Written { taken, has_unsent }) => {
                self.out.advance(taken);
                self.has_unsent = has_unsent;
            }
            // The rest waits for the socket, or a flush finds the failure again.
            Err(error) => self.has_unsent = error.kind() != io::ErrorKind::WouldBlock,
        }
        self.is_free()
    }

    /// The writer task has written everything.
    pub(super) fn flushed(&mut self) {
        self.has_unsent = false;
    }
}

//! The write side of a connection: the encoder, encoded frames that are not written yet, and the socket of a plain
//! connection.

use std::{io::Write as _, net::TcpStream};

use boxoffice_env::Lane;
use bytes::{Buf as _, Bytes, BytesMut};

use super::frame::{Encoder, Kind};

pub(super) struct FrameWriter {
    encoder: Encoder,
    /// Encoded bytes that are to be written next.
    pub(super) out: BytesMut,
    /// A second handle of the non-blocking socket.
    socket: Option<TcpStream>,
}

impl FrameWriter {
    /// `first` is written before anything else.
    pub(super) fn new(encoder: Encoder, socket: Option<TcpStream>, first: &[u8]) -> FrameWriter {
        FrameWriter { encoder, out: BytesMut::from(first), socket }
    }

    /// Whether it can write to the socket itself.
    pub(super) fn is_direct(&self) -> bool {
        self.socket.is_some()
    }

    /// Whether it can write and has nothing left. Frames that the socket does not take must wait in the bounded queues.
    pub(super) fn is_free(&self) -> bool {
        self.is_direct() && self.out.is_empty()
    }

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
        let Some(socket) = &mut self.socket else { return false };
        if let Ok(taken) = socket.write(&self.out) {
            self.out.advance(taken);
        }
        self.out.is_empty()
    }
}

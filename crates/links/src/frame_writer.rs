//! What a connection writes with: the encoder, what is encoded and not written yet, and the socket where nothing encrypts.

use std::{io::Write as _, net::TcpStream};

use boxoffice_env::Lane;
use bytes::{Buf as _, Bytes, BytesMut};

use super::frame::{Encoder, Kind};

pub(super) struct FrameWriter {
    encoder: Encoder,
    /// Goes before whatever is written next.
    pub(super) out: BytesMut,
    /// Another handle of the connection's own socket, which does not block.
    socket: Option<TcpStream>,
}

impl FrameWriter {
    /// `first` is written before anything else.
    pub(super) fn new(encoder: Encoder, socket: Option<TcpStream>, first: &[u8]) -> FrameWriter {
        FrameWriter { encoder, out: BytesMut::from(first), socket }
    }

    /// Whether it can write by itself.
    pub(super) fn is_direct(&self) -> bool {
        self.socket.is_some()
    }

    /// … and has nothing left from before: what the socket does not take is to wait in the queues, which are bounded.
    pub(super) fn is_free(&self) -> bool {
        self.is_direct() && self.out.is_empty()
    }

    pub(super) fn frame(&mut self, lane: Lane, body: &Bytes) {
        self.head(lane, body);
        self.out.extend_from_slice(body);
    }

    /// What stands before a body that is written from where it is.
    pub(super) fn head(&mut self, lane: Lane, body: &Bytes) {
        self.out.extend_from_slice(&self.encoder.head(Kind::Data(lane), body));
    }

    pub(super) fn heartbeat(&mut self) {
        self.out.extend_from_slice(&self.encoder.head(Kind::Heartbeat, b""));
    }

    /// Writes what the socket takes now; says whether that was all. What is wrong with the socket the writer finds out.
    pub(super) fn write_at_once(&mut self) -> bool {
        let Some(socket) = &mut self.socket else { return false };
        if let Ok(taken) = socket.write(&self.out) {
            self.out.advance(taken);
        }
        self.out.is_empty()
    }
}

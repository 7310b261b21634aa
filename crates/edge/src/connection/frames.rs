//! The frames of a connection. They are written into a buffer that is flushed once a wake-up.

use std::{
    borrow::Cow,
    cell::RefCell,
    io::{self, Write},
    time::Duration,
};

use boxoffice_wire::{Encoding, limits, limits::close};
use bytes::{Bytes, BytesMut};
use tokio_tungstenite::tungstenite::{
    Error, Message, WebSocket,
    error::ProtocolError,
    protocol::{
        CloseFrame, Role, WebSocketConfig,
        frame::{
            FrameHeader,
            coding::{CloseCode, Data, OpCode},
        },
    },
};

use super::socket::Socket;
use crate::{
    access_end::{AccessEnd, Ended, ended},
    config::Limits,
    planted,
    shared::within,
};

/// The library's read buffer, in bytes. Idle connections keep it. It is filled from the socket's own buffer, so it need not
/// be large.
const READ_BUFFER_BYTES: usize = 1024;

/// Bytes that are written to the socket without waiting for the flush.
const UNSENT_BYTES_MAX: usize = 16 * 1024;

/// The capacity that a thread keeps for encoding frames.
const KEPT_BYTES: usize = 64 * 1024;

thread_local! {
    /// The frame that is being encoded. All connections of the thread share it.
    static FRAME: RefCell<BytesMut> = RefCell::default();
}

/// Why a connection ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The peer has closed the connection or is gone.
    Gone,
    /// The peer does not read.
    Stalled,
    /// The node closes the connection, with this code and reason.
    Close(u16, Cow<'static, str>),
    /// The caller's credentials are no longer valid.
    Access(Ended),
}

/// A message from the client.
pub(super) enum Received {
    /// A frame of the protocol.
    Frame(Bytes),
    Pong,
    /// The library answers a ping with the next flush.
    Ping,
}

/// A connection as a stream of frames.
pub(super) struct Frames {
    socket: WebSocket<Socket>,
    encoding: Encoding,
    /// The longest frame that is read, in bytes.
    longest: usize,
    /// Whether the socket takes no more for the moment.
    blocked: bool,
}

impl Frames {
    /// Frames of at most [`limits::FRAME_BYTES_MAX`].
    pub(super) fn new(socket: Socket, encoding: Encoding) -> Frames {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            // The socket has the only write buffer. The library hands its control frames on to it at once.
            .write_buffer_size(0)
            .max_message_size(Some(limits::FRAME_BYTES_MAX))
            .max_frame_size(Some(limits::FRAME_BYTES_MAX));
        let socket = WebSocket::from_raw_socket(socket, Role::Server, Some(config));
        Frames { socket, encoding, longest: limits::FRAME_BYTES_MAX, blocked: false }
    }

    /// Sets the length of the longest frame that is read.
    pub(super) fn set_bytes_max(&mut self, bytes: usize) {
        self.longest = bytes;
        self.socket.set_config(|config| {
            config.max_message_size = Some(bytes);
            config.max_frame_size = Some(bytes);
        });
    }

    pub(super) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Bytes read and written since the connection began.
    pub(super) fn bytes(&self) -> (u64, u64) {
        let socket = self.socket.get_ref();
        (socket.bytes_in, socket.bytes_out)
    }

    /// Moves the stream to the current runtime.
    pub(super) fn move_here(&mut self) -> Result<(), End> {
        self.socket.get_mut().move_here().map_err(|_| End::Gone)
    }

    /// Waits until there is something to read.
    pub(super) async fn readable(&mut self) -> Result<(), End> {
        self.socket.get_mut().readable().await.map_err(|_| End::Gone)
    }

    /// Whether a read may return something.
    pub(super) fn may_have(&self) -> bool {
        self.socket.get_ref().may_have()
    }

    /// The next read asks the stream again.
    pub(super) fn look_again(&mut self) {
        self.socket.get_mut().look_again();
    }

    /// How many messages came before the incomplete one. `None` if none is incomplete. Only valid while there is nothing to
    /// read.
    pub(super) fn incomplete_after(&self) -> Option<u64> {
        self.socket.get_ref().boundary.incomplete_after()
    }

    /// Memory of the incomplete message, in bytes.
    pub(super) fn room(&self) -> usize {
        usize::try_from(self.socket.get_ref().boundary.room()).unwrap_or(usize::MAX).min(self.longest)
    }

    /// Reads a message, if one has arrived.
    pub(super) fn read(&mut self) -> Result<Option<Received>, End> {
        match self.socket.read() {
            Ok(Message::Binary(frame)) => match self.encoding {
                Encoding::MsgPack => Ok(Some(Received::Frame(frame))),
                Encoding::Json => Err(wrong_type("text")),
            },
            Ok(Message::Text(frame)) => match self.encoding {
                Encoding::Json => Ok(Some(Received::Frame(frame.into()))),
                Encoding::MsgPack => Err(wrong_type("binary")),
            },
            Ok(Message::Pong(_)) => Ok(Some(Received::Pong)),
            Ok(Message::Ping(_)) => Ok(Some(Received::Ping)),
            // The library answers the close with this flush.
            Ok(Message::Close(_) | Message::Frame(_)) => {
                let _ = self.socket.flush();
                Err(End::Gone)
            }
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(end_of(error, self.longest)),
        }
    }

    /// Writes a frame into the buffer.
    pub(super) fn write(&mut self, write: impl FnOnce(Encoding, &mut BytesMut)) -> Result<(), End> {
        FRAME.with_borrow_mut(|frame| {
            frame.clear();
            write(self.encoding, frame);
            let written = self.write_encoded(frame);
            if frame.capacity() > KEPT_BYTES {
                *frame = BytesMut::new();
            }
            written
        })
    }

    /// Writes an encoded frame into the buffer.
    pub(super) fn write_encoded(&mut self, frame: &[u8]) -> Result<(), End> {
        let opcode = match self.encoding {
            Encoding::Json => Data::Text,
            Encoding::MsgPack => Data::Binary,
        };
        let header = FrameHeader { opcode: OpCode::Data(opcode), ..FrameHeader::default() };
        let socket = self.socket.get_mut();
        header.format(frame.len() as u64, socket).map_err(|_| End::Gone)?;
        socket.write_all(frame).map_err(|_| End::Gone)?;
        self.flush_if_large()
    }

    pub(super) fn ping(&mut self) -> Result<(), End> {
        self.socket.write(Message::Ping(Bytes::new())).map_err(|_| End::Gone)?;
        self.flush_if_large()
    }

    /// Whether a flush must come before more is written, because the buffer would grow.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Writes everything out. Waits as long as the peer makes progress and the caller's credentials are valid.
    pub(super) async fn flush(&mut self, limits: &Limits, access_end: &mut Option<AccessEnd>) -> Result<(), End> {
        if self.try_flush()? {
            return Ok(());
        }
        // Boxed, so that a connection whose peer reads has no memory for waiting.
        Box::pin(async {
            tokio::select! {
                flushed = self.flush_in_time(limits) => flushed,
                end = ended(access_end), if !planted::is("a slow peer is not looked at") => Err(End::Access(end)),
            }
        })
        .await
    }

    async fn flush_in_time(&mut self, limits: &Limits) -> Result<(), End> {
        while !self.try_flush()? {
            match within(limits.stall_timeout, self.socket.get_ref().writable()).await {
                Some(Ok(())) => {}
                Some(Err(_)) => return Err(End::Gone),
                None => return Err(End::Stalled),
            }
        }
        Ok(())
    }

    /// Writes out as much as the peer takes. Returns whether that is everything.
    fn try_flush(&mut self) -> Result<bool, End> {
        match self.socket.flush() {
            Ok(()) => {
                self.blocked = false;
                Ok(true)
            }
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(_) => Err(End::Gone),
        }
    }

    /// Closes the connection. Gives the peer a little time to read the close frame, and `write_timeout` to take what was
    /// written before.
    pub(super) async fn close(mut self, code: u16, reason: &str, limits: &Limits, write_timeout: Duration) {
        let frame = CloseFrame { code: CloseCode::from(code), reason: reason.into() };
        // The connection ends, whatever goes wrong now.
        let _ = self.socket.close(Some(frame));
        let flushed = within(write_timeout, self.flush(limits, &mut None)).await;
        if flushed.is_none() {
            return self.socket.get_ref().cut();
        }
        let close_at = async {
            let socket = self.socket.get_mut();
            socket.shut_down();
            // The peer's bytes must be read, or its kernel gets a reset and drops the close frame.
            let _ = socket.drain().await;
        };
        let _ = within(limits.close_timeout, close_at).await;
    }

    /// Writes to the socket if the buffer is large.
    fn flush_if_large(&mut self) -> Result<(), End> {
        let socket = self.socket.get_mut();
        if socket.unsent() < UNSENT_BYTES_MAX {
            return Ok(());
        }
        match socket.flush() {
            Ok(()) => Ok(()),
            // The frame stays in the buffer.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.blocked = true;
                Ok(())
            }
            Err(_) => Err(End::Gone),
        }
    }
}

fn wrong_type(right: &str) -> End {
    End::Close(close::WRONG_FRAME_TYPE, format!("frames of this subprotocol are {right}").into())
}

fn end_of(error: Error, longest: usize) -> End {
    match error {
        Error::Capacity(_) => End::Close(close::TOO_BIG, format!("a frame has at most {longest} bytes").into()),
        Error::Utf8(_) => End::Close(1007, "a text frame is not UTF-8".into()),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => End::Gone,
        Error::Protocol(error) => End::Close(1002, error.to_string().into()),
        _ => End::Gone,
    }
}

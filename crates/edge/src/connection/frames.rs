//! Frames in and out of one connection: read until there is none, written into a buffer, flushed once a turn.

use std::{
    borrow::Cow,
    cell::RefCell,
    io::{self, Write},
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
use crate::{config::Limits, shared::within};

/// What the library's read buffer has, in bytes: an idle connection keeps it for ever. It is filled from what the socket read
/// with one call, so it need not be large.
const READ_BUFFER_BYTES: usize = 1024;

/// Bytes to be written that are handed to the socket without waiting for the flush.
const UNSENT_BYTES_MAX: usize = 16 * 1024;

/// The capacity that a thread keeps for writing frames.
const KEPT_BYTES: usize = 64 * 1024;

thread_local! {
    /// The frame being encoded by whichever connection has its turn.
    static FRAME: RefCell<BytesMut> = RefCell::default();
}

/// Why a connection ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The peer is not there any more, or has said farewell.
    Gone,
    /// The peer does not read.
    Stalled,
    /// We close, with a code and the reason.
    Close(u16, Cow<'static, str>),
}

/// What was read.
pub(super) enum Received {
    /// A frame of the protocol.
    Frame(Bytes),
    /// A sign of life.
    Pong,
    /// A ping, answered by itself with the next flush.
    Ping,
}

/// One connection as frames.
pub(super) struct Frames {
    socket: WebSocket<Socket>,
    encoding: Encoding,
    /// The longest frame that is read, in bytes: each that is under way has room for all of it.
    longest: usize,
    /// The socket takes no more for the moment.
    blocked: bool,
}

impl Frames {
    /// Frames of at most [`limits::FRAME_BYTES_MAX`].
    pub(super) fn new(socket: Socket, encoding: Encoding) -> Frames {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            // The socket has the one buffer for writing, to which the library hands its control frames on at once.
            .write_buffer_size(0)
            .max_message_size(Some(limits::FRAME_BYTES_MAX))
            .max_frame_size(Some(limits::FRAME_BYTES_MAX));
        let socket = WebSocket::from_raw_socket(socket, Role::Server, Some(config));
        Frames { socket, encoding, longest: limits::FRAME_BYTES_MAX, blocked: false }
    }

    /// Reads frames of so many bytes from the next one on.
    pub(super) fn read_up_to(&mut self, bytes: usize) {
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

    /// Moves the stream to the runtime that this is called on.
    pub(super) fn move_here(&mut self) -> Result<(), End> {
        self.socket.get_mut().move_here().map_err(|_| End::Gone)
    }

    /// Waits until there is something to read.
    pub(super) async fn readable(&mut self) -> Result<(), End> {
        self.socket.get_mut().readable().await.map_err(|_| End::Gone)
    }

    /// Whether there may be something to read that was not told of yet.
    pub(super) fn may_have(&self) -> bool {
        self.socket.get_ref().may_have()
    }

    /// Something may have come meanwhile.
    pub(super) fn look_again(&mut self) {
        self.socket.get_mut().look_again();
    }

    /// How many whole messages came before the one that is in the middle; `None` if none is. Means something when there
    /// is nothing to read.
    pub(super) fn in_the_middle_after(&self) -> Option<u64> {
        self.socket.get_ref().boundary.in_the_middle_after()
    }

    /// Bytes of memory that the message in the middle has.
    pub(super) fn room(&self) -> usize {
        usize::try_from(self.socket.get_ref().boundary.room()).unwrap_or(usize::MAX).min(self.longest)
    }

    /// What has come, if anything has.
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
            // The answer to the close is written by the library with the next flush.
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

    /// Writes a frame that is encoded already into the buffer.
    pub(super) fn write_encoded(&mut self, frame: &[u8]) -> Result<(), End> {
        let opcode = match self.encoding {
            Encoding::Json => Data::Text,
            Encoding::MsgPack => Data::Binary,
        };
        let header = FrameHeader { opcode: OpCode::Data(opcode), ..FrameHeader::default() };
        let socket = self.socket.get_mut();
        header.format(frame.len() as u64, socket).map_err(|_| End::Gone)?;
        socket.write_all(frame).map_err(|_| End::Gone)?;
        self.pass_on()
    }

    /// Asks for a sign of life.
    pub(super) fn ping(&mut self) -> Result<(), End> {
        self.socket.write(Message::Ping(Bytes::new())).map_err(|_| End::Gone)?;
        self.pass_on()
    }

    /// Whether a flush must come before more is written, or the buffer would grow.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Writes everything out; waits while the peer makes progress.
    pub(super) async fn flush(&mut self, limits: &Limits) -> Result<(), End> {
        if self.is_flushed()? {
            return Ok(());
        }
        // Boxed, so that a connection whose peer reads keeps no room for waiting.
        Box::pin(self.flush_in_time(limits)).await
    }

    async fn flush_in_time(&mut self, limits: &Limits) -> Result<(), End> {
        while !self.is_flushed()? {
            match within(limits.stall_timeout, self.socket.get_ref().writable()).await {
                Some(Ok(())) => {}
                Some(Err(_)) => return Err(End::Gone),
                None => return Err(End::Stalled),
            }
        }
        Ok(())
    }

    /// Writes out as much as the peer takes; whether that is everything.
    fn is_flushed(&mut self) -> Result<bool, End> {
        match self.socket.flush() {
            Ok(()) => {
                self.blocked = false;
                Ok(true)
            }
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(_) => Err(End::Gone),
        }
    }

    /// Says farewell, and gives the peer a little time to hear it.
    pub(super) async fn close(mut self, code: u16, reason: &str, limits: &Limits) {
        let frame = CloseFrame { code: CloseCode::from(code), reason: reason.into() };
        // Whatever goes wrong now: the connection is over.
        let _ = self.socket.close(Some(frame));
        let farewell = async {
            let _ = self.flush(limits).await;
            let socket = self.socket.get_mut();
            socket.shut_down();
            // What the peer still sends must be read, or its kernel hears a reset and forgets the close.
            let _ = socket.drain().await;
        };
        let _ = within(limits.close_timeout, farewell).await;
    }

    /// Has the socket take what there is when it is much.
    fn pass_on(&mut self) -> Result<(), End> {
        let socket = self.socket.get_mut();
        if socket.unsent() < UNSENT_BYTES_MAX {
            return Ok(());
        }
        match socket.flush() {
            Ok(()) => Ok(()),
            // It is in the buffer all the same.
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

//! The frames of a connection. They are written into a buffer that is flushed once a wake-up.

use std::{
    borrow::Cow,
    cell::RefCell,
    io::{self, Write},
    sync::Arc,
    time::Duration,
};

use boxoffice_wire::{
    Encoding,
    encode::{self, SharedPart},
    limits,
    limits::close,
    reply::ServerFrame,
};
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
use crate::{access_end::Ended, config::Limits, shared::within, unsent::UnsentShare};

/// The library's read buffer, in bytes. Idle connections keep it. It is filled from the socket's own buffer, so it need not
/// be large.
const READ_BUFFER_BYTES: usize = 1024;

/// The most bytes of answers that wait to be written. From then on no further answers are made until the peer reads.
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
    /// The peer is gone.
    Gone,
    /// The peer has closed the connection. The answer to its close is in the buffer.
    ClosedByPeer,
    /// The peer does not read.
    Stalled,
    /// The node needs its place or its memory at once.
    Cut,
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
    /// The answers that are not sent yet.
    unsent: Arc<UnsentShare>,
    /// Bytes of the frame that was written last: its own, and those that other connections share.
    last_written: (usize, usize),
}

impl Frames {
    /// Frames of at most [`limits::FRAME_BYTES_MAX`].
    pub(super) fn new(socket: Socket, encoding: Encoding, unsent: Arc<UnsentShare>) -> Frames {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            // The socket has the only write buffer. The library hands its control frames on to it at once.
            .write_buffer_size(0)
            .max_message_size(Some(limits::FRAME_BYTES_MAX))
            .max_frame_size(Some(limits::FRAME_BYTES_MAX));
        let socket = WebSocket::from_raw_socket(socket, Role::Server, Some(config));
        Frames { socket, encoding, longest: limits::FRAME_BYTES_MAX, blocked: false, unsent, last_written: (0, 0) }
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

    /// Waits until there is something to read, if it `reads`, or until more can be written, if the peer has not taken all.
    pub(super) async fn ready(&mut self, reads: bool) -> Result<(), End> {
        let writes = self.blocked;
        self.socket.get_mut().ready(reads, writes).await.map_err(|_| End::Gone)
    }

    /// Whether a read may return something.
    pub(super) fn may_have(&mut self) -> bool {
        self.socket.get_mut().may_have()
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
            // With this flush the library writes its answer to the close into the socket's buffer. It says then that the
            // connection is closed, and leaves the buffer as it is.
            Ok(Message::Close(_) | Message::Frame(_)) => {
                let _ = self.socket.flush();
                Err(End::ClosedByPeer)
            }
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(end_of(error, self.longest)),
        }
    }

    /// Writes a frame into the buffer.
    pub(super) fn write(&mut self, write: impl FnOnce(Encoding, &mut BytesMut)) -> Result<(), End> {
        FRAME.with_borrow_mut(|frame| {
            frame.clear();
            let encoding = self.encoding;
            let shared = encode::sharing(frame, |frame| write(encoding, frame));
            self.last_written = (frame.len(), shared.iter().map(|part| part.bytes.len()).sum());
            let written = if shared.is_empty() { self.write_encoded(frame) } else { self.write_parts(frame, shared) };
            if frame.capacity() > KEPT_BYTES {
                *frame = BytesMut::new();
            }
            written
        })
    }

    /// Bytes of the frame that was written last: its own, and those that other connections share.
    pub(super) fn last_written(&self) -> (usize, usize) {
        self.last_written
    }

    /// Writes an encoded frame into the buffer.
    pub(super) fn write_encoded(&mut self, frame: &[u8]) -> Result<(), End> {
        let header = self.header();
        let socket = self.socket.get_mut();
        header.format(frame.len() as u64, socket).map_err(|_| End::Gone)?;
        socket.write_all(frame).map_err(|_| End::Gone)?;
        self.flush_if_large()
    }

    /// Writes an encoded frame with parts that other connections share.
    fn write_parts(&mut self, frame: &[u8], shared: Vec<SharedPart>) -> Result<(), End> {
        let header = self.header();
        let length = frame.len() + shared.iter().map(|part| part.bytes.len()).sum::<usize>();
        let socket = self.socket.get_mut();
        header.format(length as u64, socket).map_err(|_| End::Gone)?;
        let mut written = 0;
        for SharedPart { at, bytes } in shared {
            socket.write_all(&frame[written..at]).map_err(|_| End::Gone)?;
            let shared = self.unsent.use_shared(&bytes);
            socket.out().push_shared(bytes, shared);
            written = at;
        }
        socket.write_all(&frame[written..]).map_err(|_| End::Gone)?;
        self.flush_if_large()
    }

    /// Writes an encoded frame of a feed into the buffer. Answers go before it until it has begun.
    pub(super) fn write_feed(&mut self, frame: &[u8]) {
        let header = self.header();
        let out = self.socket.get_mut().out().feeds();
        header.format(frame.len() as u64, out).expect("writing to memory cannot fail");
        out.extend_from_slice(frame);
    }

    /// Forgets the frames of a feed that have not begun, because the client is told that it has ended, or begins anew.
    pub(super) fn drop_feed(&mut self, feed: u64) {
        let encoding = self.encoding;
        self.socket.get_mut().out().retain_feeds(
            |frame| !matches!(ServerFrame::read(encoding, frame), Ok(ServerFrame::Feed(number, _)) if number == feed),
        );
    }

    pub(super) fn ping(&mut self) -> Result<(), End> {
        self.socket.write(Message::Ping(Bytes::new())).map_err(|_| End::Gone)?;
        self.flush_if_large()
    }

    /// Whether the peer has not taken all that was to be written.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Whether the peer has taken so much of the answers that further ones may be made.
    pub(super) fn has_room(&self) -> bool {
        self.socket.get_ref().unsent_answers() < UNSENT_BYTES_MAX
    }

    /// Bytes of answers that wait to be written and that no other connection shares.
    pub(super) fn own_unsent_answers(&self) -> usize {
        self.socket.get_ref().own_unsent_answers()
    }

    /// All bytes that were written or wait for it.
    pub(super) fn bytes_given(&self) -> u64 {
        self.socket.get_ref().bytes_given()
    }

    /// Writes out as much as the peer takes. Returns whether that is everything.
    pub(super) fn flush(&mut self) -> Result<bool, End> {
        self.blocked = match self.socket.flush() {
            Ok(()) => false,
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => true,
            Err(_) => return Err(End::Gone),
        };
        Ok(!self.blocked)
    }

    /// Writes everything out, however long that takes. It asks the socket, because the library writes nothing after a close.
    async fn flush_all(&mut self) -> io::Result<()> {
        loop {
            match self.socket.get_mut().flush() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.socket.get_ref().writable().await?,
                flushed => return flushed,
            }
        }
    }

    fn header(&self) -> FrameHeader {
        let opcode = match self.encoding {
            Encoding::Json => Data::Text,
            Encoding::MsgPack => Data::Binary,
        };
        FrameHeader { opcode: OpCode::Data(opcode), ..FrameHeader::default() }
    }

    /// Drops the connection with all that was written to it.
    pub(super) fn cut(self) {
        self.socket.get_ref().cut();
    }

    /// Closes the connection. Gives the peer a little time to read the close frame, and `write_timeout` to take what was
    /// written before. Frames of feeds that have not begun are dropped.
    pub(super) async fn close(mut self, code: u16, reason: &str, limits: &Limits, write_timeout: Duration) {
        let frame = CloseFrame { code: CloseCode::from(code), reason: reason.into() };
        self.socket.get_mut().out().retain_feeds(|_| false);
        // The connection ends, whatever goes wrong now.
        let _ = self.socket.close(Some(frame));
        self.end(limits, write_timeout).await;
    }

    /// Ends the connection after the close frame that is in the buffer, the first one or the answer to the peer's.
    pub(super) async fn end(mut self, limits: &Limits, write_timeout: Duration) {
        self.socket.get_mut().out().retain_feeds(|_| false);
        let flushed = within(write_timeout, self.flush_all()).await;
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
        if socket.unsent_answers() < UNSENT_BYTES_MAX {
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

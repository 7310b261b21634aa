//! An encrypted stream whose reader, writer and pushing thread share the session.

use std::{
    io::{self, IoSlice, Write},
    ops::DerefMut,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use rustls::ConnectionCommon;
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::TlsStream;
use tracing_mutex::parkinglot::Mutex;

/// A handle of the stream. The lock is held while one call encrypts or decrypts, and never during a wait.
#[derive(Clone)]
pub(super) struct EncryptedStream(Arc<Mutex<TlsStream<TcpStream>>>);

/// What a write without waiting has done.
pub(super) struct Written {
    /// Bytes taken. They are sent, or are encrypted in the session.
    pub(super) taken: usize,
    /// The session has encrypted bytes that the socket did not take. A flush sends them.
    pub(super) has_unsent: bool,
}

impl EncryptedStream {
    /// A stream after its handshake.
    pub(super) fn new(stream: TlsStream<TcpStream>) -> EncryptedStream {
        EncryptedStream(Arc::new(Mutex::new(stream)))
    }

    /// Registers the socket with the current runtime. No other handle may be waiting for the stream.
    pub(super) fn move_to_this_runtime(&self) -> io::Result<()> {
        let mut stream = self.0.lock();
        let socket = stream.get_mut().0;
        *socket = TcpStream::from_std(SockRef::from(&*socket).try_clone()?.into())?;
        Ok(())
    }

    /// Encrypts and writes as much as the socket takes now.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn write_at_once(&self, bytes: &[u8]) -> io::Result<Written> {
        match &mut *self.0.lock() {
            TlsStream::Client(stream) => {
                let (socket, session) = stream.get_mut();
                write_through(socket, session, bytes)
            }
            TlsStream::Server(stream) => {
                let (socket, session) = stream.get_mut();
                write_through(socket, session, bytes)
            }
        }
    }
}

/// Writes through the session. The session itself takes a bounded number of bytes that the socket does not take.
fn write_through<D>(
    socket: &TcpStream,
    session: &mut impl DerefMut<Target = ConnectionCommon<D>>,
    bytes: &[u8],
) -> io::Result<Written> {
    let mut taken = 0;
    loop {
        taken += session.writer().write(&bytes[taken..])?;
        match session.write_tls(&mut NotWaiting(socket)) {
            Ok(_) if taken == bytes.len() && !session.wants_write() => return Ok(Written { taken, has_unsent: false }),
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Written { taken, has_unsent: true }),
            Err(error) => return Err(error),
        }
    }
}

/// Writes that fail where they would have to wait.
struct NotWaiting<'a>(&'a TcpStream);

impl Write for NotWaiting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsyncRead for EncryptedStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_read(context, into)
    }
}

impl AsyncWrite for EncryptedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.lock()).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_shutdown(context)
    }
}

//! The byte stream of an HTTP connection, plain or encrypted. A write that makes no progress fails in the end.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use rustls::ServerConnection;
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Sleep, sleep},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::heads::Heads;

/// A connection's stream, until it becomes a WebSocket.
pub(crate) struct Stream {
    link: Link,
    heads: Heads,
}

enum Link {
    Plain(Timed),
    Tls(Box<TlsStream<Timed>>),
}

impl Stream {
    /// A stream that is not encrypted. A write that makes no progress for `stall` fails, and so does each one once `is_cut` is
    /// set.
    pub(crate) fn plain(stream: TcpStream, stall: Duration, is_cut: Arc<AtomicBool>) -> Stream {
        Stream { link: Link::Plain(Timed::new(stream, stall, is_cut)), heads: Heads::default() }
    }

    /// A stream after a TLS handshake.
    pub(crate) async fn tls(
        stream: TcpStream,
        stall: Duration,
        is_cut: Arc<AtomicBool>,
        acceptor: TlsAcceptor,
    ) -> io::Result<Stream> {
        let stream = acceptor.accept(Timed::new(stream, stall, is_cut)).await?;
        Ok(Stream { link: Link::Tls(Box::new(stream)), heads: Heads::default() })
    }

    /// The TCP stream and the TLS session, if there is one.
    pub(crate) fn into_parts(self) -> (TcpStream, Option<Box<ServerConnection>>) {
        match self.link {
            Link::Plain(timed) => (timed.stream, None),
            Link::Tls(stream) => {
                let (timed, session) = stream.into_inner();
                (timed.stream, Some(Box::new(session)))
            }
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        let before = buffer.filled().len();
        let read = match &mut stream.link {
            Link::Plain(link) => Pin::new(link).poll_read(context, buffer),
            Link::Tls(link) => Pin::new(link).poll_read(context, buffer),
        };
        stream.heads.pass(&mut buffer.filled_mut()[before..]);
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().link {
            Link::Plain(link) => Pin::new(link).poll_write(context, bytes),
            Link::Tls(link) => Pin::new(link).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().link {
            Link::Plain(link) => Pin::new(link).poll_write_vectored(context, parts),
            Link::Tls(link) => Pin::new(link).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().link {
            Link::Plain(link) => Pin::new(link).poll_flush(context),
            Link::Tls(link) => Pin::new(link).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().link {
            Link::Plain(link) => Pin::new(link).poll_shutdown(context),
            Link::Tls(link) => Pin::new(link).poll_shutdown(context),
        }
    }
}

/// A TCP stream whose writes fail when the peer takes nothing for too long.
struct Timed {
    stream: TcpStream,
    stall: Duration,
    /// When the waiting write fails.
    until: Option<Pin<Box<Sleep>>>,
    is_cut: Arc<AtomicBool>,
}

impl Timed {
    fn new(stream: TcpStream, stall: Duration, is_cut: Arc<AtomicBool>) -> Timed {
        Timed { stream, stall, until: None, is_cut }
    }

    /// Fails once the stream was cut. The kernel then drops what it has not sent, and resets the connection.
    fn check_cut(&self) -> io::Result<()> {
        if !self.is_cut.load(Ordering::Relaxed) {
            return Ok(());
        }
        SockRef::from(&self.stream).set_linger(Some(Duration::ZERO))?;
        Err(io::ErrorKind::ConnectionAborted.into())
    }

    /// The result of a write, or an error once it has waited for too long.
    fn timed<T>(&mut self, context: &mut Context<'_>, wrote: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.until = None;
            return wrote;
        }
        let stall = self.stall;
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(stall)));
        ready!(until.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl AsyncRead for Timed {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Timed {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let timed = self.get_mut();
        timed.check_cut()?;
        let wrote = Pin::new(&mut timed.stream).poll_write(context, bytes);
        timed.timed(context, wrote)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let timed = self.get_mut();
        timed.check_cut()?;
        let wrote = Pin::new(&mut timed.stream).poll_write_vectored(context, parts);
        timed.timed(context, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

//! The two ends of a connection in this process: what it is read from and written to, frame by frame until it stands.

use std::{io, time::Duration};

use bytes::Bytes;
use rustls::pki_types::CertificateDer;
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    net::TcpStream,
    time::timeout,
};

use super::{
    config::PeerConfig,
    frame::{Decoder, Encoder, Kind},
    hello::printable,
    refusal::{Failure, Refusal},
};

/// The longest frame of an introduction: what a stranger may have us keep.
const INTRODUCTION_BYTES_MAX: usize = 1_024;

/// Bytes written and not sent yet that a socket may have before it is not writable: what is in the kernel can no longer be
/// overtaken, so a call would wait for it.
const NOT_SENT_BYTES_MAX: u32 = 64 * 1024;

/// How long one who is refused may take to read why.
const REFUSAL_READ_TIME: Duration = Duration::from_millis(500);

pub(super) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(super) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

pub(super) struct Transport {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
    /// Another handle of the socket, for who writes without waiting; `None` if nobody may.
    pub(super) socket: Option<std::net::TcpStream>,
    pub(super) encoder: Encoder,
    pub(super) decoder: Decoder,
    /// The other side's certificate, which the authority vouches for, when the link is encrypted.
    pub(super) certificate: Option<CertificateDer<'static>>,
}

impl Transport {
    /// A connection in the clear.
    pub(super) fn plain(stream: TcpStream) -> io::Result<Transport> {
        let socket = SockRef::from(&stream).try_clone()?.into();
        let (reader, writer) = split(stream);
        Ok(Transport { socket: Some(socket), ..Transport::sealed(Box::new(reader), Box::new(writer), None) })
    }

    /// Whether nothing encrypts.
    pub(super) fn is_plain(&self) -> bool {
        self.socket.is_some()
    }

    /// The same connection, carried by the runtime this is called on; `direct` if others may write as well, without waiting.
    pub(super) fn moved_to_this_runtime(self, direct: bool) -> io::Result<Transport> {
        let Some(socket) = self.socket else { return Ok(self) };
        let (reader, writer) = TcpStream::from_std(socket.try_clone()?)?.into_split();
        let socket = Some(socket).filter(|_| direct);
        Ok(Transport { reader: Box::new(reader), writer: Box::new(writer), socket, ..self })
    }

    /// An encrypted connection.
    pub(super) fn sealed(reader: Reader, writer: Writer, certificate: Option<CertificateDer<'static>>) -> Transport {
        let decoder = Decoder::new(INTRODUCTION_BYTES_MAX);
        Transport { reader, writer, socket: None, encoder: Encoder::default(), decoder, certificate }
    }

    /// Says one thing.
    pub(super) async fn send(&mut self, kind: Kind, body: &[u8]) -> Result<(), Failure> {
        let frame = self.encoder.frame(kind, body);
        self.writer.write_all(&frame).await?;
        Ok(self.writer.flush().await?)
    }

    /// Hears what must come next, unless it is a refusal.
    pub(super) async fn receive(&mut self, awaited: Kind) -> Result<Bytes, Failure> {
        loop {
            match self.decoder.next()? {
                Some((kind, body)) if kind == awaited => return Ok(body),
                Some((Kind::Refusal, reason)) => return Err(Failure::Refused(printable(&reason))),
                Some((Kind::Removed, body)) => return Err(Failure::UnverifiedRemoval(body)),
                Some((kind, _)) => return Err(Failure::OutOfTurn(kind)),
                None if self.reader.read_buf(self.decoder.room()).await? == 0 => return Err(Failure::Ended),
                None => {}
            }
        }
    }

    /// Says why not, and waits a little for it to be read: a socket closed with bytes unread resets the connection, and the
    /// reason may be lost with it.
    pub(super) async fn refuse(mut self, refusal: &Refusal) {
        let sent = async {
            let (kind, body) = refusal.as_frame();
            self.send(kind, &body).await?;
            self.writer.shutdown().await?;
            let mut rest = [0; 1_024];
            while self.reader.read(&mut rest).await? > 0 {}
            Ok::<(), Failure>(())
        };
        // It may have gone already.
        let _ = timeout(REFUSAL_READ_TIME, sent).await;
    }
}

/// Sets what every socket between nodes has.
pub(super) fn set_up(stream: &TcpStream, config: &PeerConfig) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(NOT_SENT_BYTES_MAX)?;
    socket.set_tcp_user_timeout(Some(config.stall()))
}

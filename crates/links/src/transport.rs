//! The reader and writer of a connection, used frame by frame during the handshake.

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

/// The longest frame of a handshake. It bounds the memory that an unknown caller can take.
const HANDSHAKE_BYTES_MAX: usize = 1_024;

/// Unsent bytes in the kernel beyond which the socket is not writable. A call would have to wait for them.
const NOT_SENT_BYTES_MAX: u32 = 64 * 1024;

/// The time that a refused caller has to read the reason.
const REFUSAL_READ_TIME: Duration = Duration::from_millis(500);

pub(super) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(super) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

pub(super) struct Transport {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
    /// A second handle of the socket for writes without waiting, if they are allowed.
    pub(super) socket: Option<std::net::TcpStream>,
    pub(super) encoder: Encoder,
    pub(super) decoder: Decoder,
    /// The other side's verified certificate, if the link is encrypted.
    pub(super) certificate: Option<CertificateDer<'static>>,
}

impl Transport {
    /// An unencrypted connection.
    pub(super) fn plain(stream: TcpStream) -> io::Result<Transport> {
        let socket = SockRef::from(&stream).try_clone()?.into();
        let (reader, writer) = split(stream);
        Ok(Transport { socket: Some(socket), ..Transport::sealed(Box::new(reader), Box::new(writer), None) })
    }

    pub(super) fn is_plain(&self) -> bool {
        self.socket.is_some()
    }

    /// Registers a plain connection with the current runtime. `direct` allows writes without waiting.
    pub(super) fn moved_to_this_runtime(self, direct: bool) -> io::Result<Transport> {
        let Some(socket) = self.socket else { return Ok(self) };
        let (reader, writer) = TcpStream::from_std(socket.try_clone()?)?.into_split();
        let socket = Some(socket).filter(|_| direct);
        Ok(Transport { reader: Box::new(reader), writer: Box::new(writer), socket, ..self })
    }

    /// An encrypted connection.
    pub(super) fn sealed(reader: Reader, writer: Writer, certificate: Option<CertificateDer<'static>>) -> Transport {
        let decoder = Decoder::new(HANDSHAKE_BYTES_MAX);
        Transport { reader, writer, socket: None, encoder: Encoder::default(), decoder, certificate }
    }

    pub(super) async fn send(&mut self, kind: Kind, body: &[u8]) -> Result<(), Failure> {
        let frame = self.encoder.frame(kind, body);
        self.writer.write_all(&frame).await?;
        Ok(self.writer.flush().await?)
    }

    /// Receives the next frame, which must be of the kind `awaited` unless it is a refusal.
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

    /// Sends a refusal and waits a little until it is read. A socket that is closed with unread bytes resets the
    /// connection, which may lose the reason.
    pub(super) async fn refuse(mut self, refusal: &Refusal) {
        let sent = async {
            let (kind, body) = refusal.as_frame();
            self.send(kind, &body).await?;
            self.writer.shutdown().await?;
            let mut rest = [0; 1_024];
            while self.reader.read(&mut rest).await? > 0 {}
            Ok::<(), Failure>(())
        };
        // The other side may have gone already.
        let _ = timeout(REFUSAL_READ_TIME, sent).await;
    }
}

/// Sets the options of a socket between nodes.
pub(super) fn set_up(stream: &TcpStream, config: &PeerConfig) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(NOT_SENT_BYTES_MAX)?;
    socket.set_tcp_user_timeout(Some(config.stall()))
}

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
use tokio_rustls::TlsStream;

use super::{
    config::PeerConfig,
    encrypted::EncryptedStream,
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
    pub(super) socket: Socket,
    pub(super) encoder: Encoder,
    pub(super) decoder: Decoder,
    /// The other side's verified certificate, if the link is encrypted.
    pub(super) certificate: Option<CertificateDer<'static>>,
}

/// A further handle of what the reader and the writer share.
pub(super) enum Socket {
    Plain(std::net::TcpStream),
    Encrypted(EncryptedStream),
}

impl Transport {
    /// An unencrypted connection.
    pub(super) fn plain(stream: TcpStream) -> io::Result<Transport> {
        let socket = Socket::Plain(SockRef::from(&stream).try_clone()?.into());
        let (reader, writer) = split(stream);
        Ok(Transport::new(Box::new(reader), Box::new(writer), socket, None))
    }

    /// An encrypted connection.
    pub(super) fn encrypted(stream: TlsStream<TcpStream>, certificate: Option<CertificateDer<'static>>) -> Transport {
        let stream = EncryptedStream::new(stream);
        let (reader, writer) = (Box::new(stream.clone()), Box::new(stream.clone()));
        Transport::new(reader, writer, Socket::Encrypted(stream), certificate)
    }

    fn new(reader: Reader, writer: Writer, socket: Socket, certificate: Option<CertificateDer<'static>>) -> Transport {
        let decoder = Decoder::new(HANDSHAKE_BYTES_MAX);
        Transport { reader, writer, socket, encoder: Encoder::default(), decoder, certificate }
    }

    /// Registers the connection with the current runtime.
    pub(super) fn moved_to_this_runtime(self) -> io::Result<Transport> {
        match &self.socket {
            Socket::Plain(socket) => {
                let (reader, writer) = TcpStream::from_std(socket.try_clone()?)?.into_split();
                Ok(Transport { reader: Box::new(reader), writer: Box::new(writer), ..self })
            }
            Socket::Encrypted(stream) => {
                stream.move_to_this_runtime()?;
                Ok(self)
            }
        }
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

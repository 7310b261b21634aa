//! One WebSocket connection: it connects, upgrades, and then moves frames in and out without blocking.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use boxoffice_wire::{
    Encoding,
    limits::{self, ANSWER_BYTES_MAX},
};
use bytes::Bytes;
use futures_util::{Sink, Stream};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{
        self, Message, Utf8Bytes,
        client::ClientRequestBuilder,
        http::{StatusCode, Uri, header::AUTHORIZATION},
        protocol::{CloseFrame, WebSocketConfig, frame::coding::CloseCode},
    },
};

use crate::{
    config::{AdminToken, ClientConfig},
    tls,
};

/// The path of the upgrade request.
const PATH: &str = "/v1/ws";

/// Why an attempt to connect failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("{address}: {source}; is a node running there?")]
    Connect { address: String, source: io::Error },
    #[error("{address}: no connection within {limit:?}; is the address right?")]
    Timeout { address: String, limit: Duration },
    #[error("{address} is not an address; write host:port")]
    InvalidAddress { address: String },
    #[error("{address} is this machine or on its local link, but the node that named the address is remote")]
    LocalAddress { address: String },
    #[error("{address}: no encrypted connection: {source}")]
    Tls { address: String, source: io::Error },
    #[error("{address}: this port speaks TLS, and the connection is in plain text; connect with TLS")]
    SpeaksTls { address: String },
    #[error("{address}: this port does not speak TLS; connect in plain text, or name the port that does")]
    SpeaksPlain { address: String },
    #[error("{reason}")]
    Unauthorized { reason: String },
    #[error("{address} does not speak this protocol: {source}")]
    Upgrade { address: String, source: Box<tungstenite::Error> },
}

/// A WebSocket connection to one node.
#[derive(Debug)]
pub(crate) struct WsConnection {
    socket: WebSocketStream<ByteStream>,
    encoding: Encoding,
}

/// The bytes of a connection.
#[derive(Debug)]
enum ByteStream {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

fn upgrade_error(address: &str, source: tungstenite::Error) -> ConnectError {
    match source {
        tungstenite::Error::Http(answer) if answer.status() == StatusCode::UNAUTHORIZED => {
            let reason = answer.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default();
            ConnectError::Unauthorized { reason: reason.trim().to_owned() }
        }
        // A port with TLS tells plain requests so.
        tungstenite::Error::Http(answer) if says_tls(answer.body().as_deref()) => {
            ConnectError::SpeaksTls { address: address.into() }
        }
        source => ConnectError::Upgrade { address: address.into(), source: Box::new(source) },
    }
}

fn says_tls(body: Option<&[u8]>) -> bool {
    body.is_some_and(|body| body.starts_with(limits::SPEAKS_TLS.as_bytes()))
}

/// The failure of a handshake of TLS. A port in plain text answers it with a line of HTTP, which is no record of TLS.
fn tls_error(address: &str, source: io::Error) -> ConnectError {
    let cause = source.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    if let Some(rustls::Error::InvalidMessage(_)) = cause {
        return ConnectError::SpeaksPlain { address: address.into() };
    }
    ConnectError::Tls { address: address.into(), source }
}

/// Something that arrived.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A frame of the protocol.
    Frame(Bytes),
    /// A ping. The pong is queued and needs a flush.
    Ping,
    /// The connection is closed. With the server's close code, if it sent one, and the reason.
    Closed(Option<u16>, String),
}

impl WsConnection {
    /// Connects to a node. With `only_remote` it does not connect to an address for which [`is_local`] holds.
    pub(crate) async fn connect(
        address: &str,
        config: &ClientConfig,
        only_remote: bool,
    ) -> Result<WsConnection, ConnectError> {
        let limit = config.connect_timeout;
        let attempt = timeout(limit, WsConnection::upgrade(address, config, only_remote)).await;
        attempt.unwrap_or_else(|_| Err(ConnectError::Timeout { address: address.into(), limit }))
    }

    async fn upgrade(address: &str, config: &ClientConfig, only_remote: bool) -> Result<WsConnection, ConnectError> {
        let uri: Uri = format!("ws://{address}{PATH}")
            .parse()
            .map_err(|_| ConnectError::InvalidAddress { address: address.into() })?;
        let connect = |source| ConnectError::Connect { address: address.into(), source };
        let stream = if only_remote {
            let mut resolved: Vec<SocketAddr> = lookup_host(address).await.map_err(connect)?.collect();
            resolved.retain(|resolved| !is_local(resolved.ip()));
            if resolved.is_empty() {
                return Err(ConnectError::LocalAddress { address: address.into() });
            }
            TcpStream::connect(&resolved[..]).await
        } else {
            TcpStream::connect(address).await
        }
        .map_err(connect)?;
        // The client already gathers frames into one write. Nagle's algorithm would only delay them.
        stream.set_nodelay(true).map_err(connect)?;
        let stream = match &config.tls {
            None => ByteStream::Plain(stream),
            Some(authorities) => {
                let name = tls::server_name(address)
                    .ok_or_else(|| ConnectError::InvalidAddress { address: address.into() })?;
                let encrypted = authorities.connector().connect(name, stream).await;
                ByteStream::Encrypted(Box::new(encrypted.map_err(|source| tls_error(address, source))?))
            }
        };
        let mut request = ClientRequestBuilder::new(uri).with_sub_protocol(config.encoding.subprotocol());
        if let Some(AdminToken(token)) = &config.admin_token {
            request = request.with_header(AUTHORIZATION.as_str(), format!("Bearer {token}"));
        }
        if let Some(address) = config.forwarded_for {
            request = request.with_header("X-Forwarded-For", address.to_string());
        }
        let websocket = WebSocketConfig::default()
            .read_buffer_size(config.buffer_bytes)
            .write_buffer_size(config.buffer_bytes)
            .max_message_size(Some(ANSWER_BYTES_MAX))
            .max_frame_size(Some(ANSWER_BYTES_MAX));
        let (socket, _) = client_async_with_config(request, stream, Some(websocket))
            .await
            .map_err(|source| upgrade_error(address, source))?;
        Ok(WsConnection { socket, encoding: config.encoding })
    }

    /// Whether the node is at an address for which [`is_local`] holds.
    pub(crate) fn is_local(&self) -> bool {
        self.socket.get_ref().tcp().peer_addr().is_ok_and(|peer| is_local(peer.ip()))
    }

    /// The next frame or event that has arrived.
    pub(crate) fn poll_incoming(&mut self, context: &mut Context<'_>) -> Poll<Incoming> {
        loop {
            let Poll::Ready(message) = Pin::new(&mut self.socket).poll_next(context) else {
                return Poll::Pending;
            };
            return Poll::Ready(match (message, self.encoding) {
                (Some(Ok(Message::Binary(frame))), Encoding::MsgPack) => Incoming::Frame(frame),
                (Some(Ok(Message::Text(frame))), Encoding::Json) => Incoming::Frame(frame.into()),
                (Some(Ok(Message::Binary(_) | Message::Text(_))), _) => {
                    Incoming::Closed(None, "the server sent a frame of the wrong encoding".into())
                }
                (Some(Ok(Message::Ping(_))), _) => Incoming::Ping,
                (Some(Ok(Message::Pong(_) | Message::Frame(_))), _) => continue,
                (Some(Ok(Message::Close(Some(CloseFrame { code, reason })))), _) => {
                    Incoming::Closed(Some(code.into()), format!("{} {reason}", u16::from(code)))
                }
                (Some(Ok(Message::Close(None))) | None, _) => {
                    Incoming::Closed(None, "the server closed the connection".into())
                }
                (Some(Err(error)), _) => Incoming::Closed(None, error.to_string()),
            });
        }
    }

    /// Ready when the write buffer has room for a frame.
    pub(crate) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), String>> {
        Pin::new(&mut self.socket).poll_ready(context).map_err(|error| error.to_string())
    }

    /// Queues a frame. It is sent with the next flush at the latest.
    pub(crate) fn send(&mut self, frame: Bytes) -> Result<(), String> {
        let message = match self.encoding {
            Encoding::MsgPack => Message::Binary(frame),
            Encoding::Json => Message::Text(Utf8Bytes::try_from(frame).map_err(|error| error.to_string())?),
        };
        Pin::new(&mut self.socket).start_send(message).map_err(|error| error.to_string())
    }

    /// Sends the queued frames.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), String>> {
        Pin::new(&mut self.socket).poll_flush(context).map_err(|error| error.to_string())
    }

    /// Sends a close frame if that is possible within half a second.
    pub(crate) async fn close(mut self) {
        const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
        let close = CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() };
        // A server that does not read the frame notices the end of the TCP connection.
        let _ = timeout(CLOSE_TIMEOUT, self.socket.close(Some(close))).await;
    }
}

impl ByteStream {
    fn tcp(&self) -> &TcpStream {
        match self {
            ByteStream::Plain(stream) => stream,
            ByteStream::Encrypted(stream) => stream.get_ref().0,
        }
    }
}

impl AsyncRead for ByteStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ByteStream::Plain(stream) => Pin::new(stream).poll_read(context, into),
            ByteStream::Encrypted(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for ByteStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            ByteStream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            ByteStream::Encrypted(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ByteStream::Plain(stream) => Pin::new(stream).poll_flush(context),
            ByteStream::Encrypted(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ByteStream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            ByteStream::Encrypted(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// Whether an address is loopback, link-local or unspecified. Such an address means a different machine on every
/// machine.
fn is_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_loopback() || address.is_link_local() || address.is_unspecified(),
        IpAddr::V6(address) => address.is_loopback() || address.is_unicast_link_local() || address.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn loopback_link_local_and_unspecified_addresses_are_local() {
        let is_local = |text: &str| is_local(text.parse().expect("an address"));
        for text in ["127.0.0.1", "127.9.9.9", "169.254.169.254", "0.0.0.0", "::1", "::", "fe80::1", "::ffff:127.0.0.1"]
        {
            assert!(is_local(text), "{text}");
        }
        for text in ["10.0.0.1", "192.168.1.1", "192.0.2.1", "2001:db8::1", "fd00::1", "::ffff:10.0.0.1"] {
            assert!(!is_local(text), "{text}");
        }
    }

    #[tokio::test]
    async fn only_remote_refuses_local_addresses() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let config = ClientConfig::new(["unused"]);
        for host in ["127.0.0.1", "0.0.0.0", "localhost"] {
            let refused = WsConnection::connect(&format!("{host}:{port}"), &config, true).await;
            assert!(matches!(refused, Err(ConnectError::LocalAddress { .. })), "{host}: {refused:?}");
        }
        let accepted = timeout(Duration::from_millis(100), listener.accept()).await;
        assert!(accepted.is_err(), "{accepted:?}");
    }
}

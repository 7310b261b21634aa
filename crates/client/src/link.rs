//! One connection: TCP, the upgrade, frames in and out without waiting.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use boxoffice_wire::{Encoding, limits::ANSWER_BYTES_MAX};
use bytes::Bytes;
use futures_util::{Sink, Stream};
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{
        self, Message, Utf8Bytes,
        client::ClientRequestBuilder,
        http::{StatusCode, Uri, header::AUTHORIZATION},
        protocol::{CloseFrame, WebSocketConfig, frame::coding::CloseCode},
    },
};

use crate::config::{AdminToken, ClientConfig};

/// The path of the upgrade.
const PATH: &str = "/v1/ws";

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("{address}: {source}; is a node running there?")]
    Connect { address: String, source: io::Error },
    #[error("{address}: no connection within {limit:?}; is the address right?")]
    TooSlow { address: String, limit: Duration },
    #[error("{address} is no address; write host:port")]
    Address { address: String },
    #[error("{address} is this machine or on its link, and the node that told the address is not")]
    NotRemote { address: String },
    #[error("{why}")]
    NotTaken { why: String },
    #[error("{address} does not speak this protocol: {source}")]
    Upgrade { address: String, source: Box<tungstenite::Error> },
}

/// A connection to one node.
#[derive(Debug)]
pub(crate) struct Link {
    socket: WebSocketStream<TcpStream>,
    encoding: Encoding,
}

/// Why an upgrade was refused.
fn refused(address: &str, source: tungstenite::Error) -> LinkError {
    match source {
        tungstenite::Error::Http(answer) if answer.status() == StatusCode::UNAUTHORIZED => {
            let words = answer.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default();
            LinkError::NotTaken { why: words.trim().to_owned() }
        }
        source => LinkError::Upgrade { address: address.into(), source: Box::new(source) },
    }
}

/// What comes in.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A frame of the protocol.
    Frame(Bytes),
    /// The server wants to know whether anyone is there; the answer needs a flush.
    Ping,
    /// The connection is over, with the server's code if it gave one.
    Over(Option<u16>, String),
}

impl Link {
    /// Connects to a node; with `only_remote` not to an address for which [`is_local`] holds.
    pub(crate) async fn connect(address: &str, config: &ClientConfig, only_remote: bool) -> Result<Link, LinkError> {
        let limit = config.connect_timeout;
        let attempt = timeout(limit, Link::upgrade(address, config, only_remote)).await;
        attempt.unwrap_or_else(|_| Err(LinkError::TooSlow { address: address.into(), limit }))
    }

    async fn upgrade(address: &str, config: &ClientConfig, only_remote: bool) -> Result<Link, LinkError> {
        let uri: Uri =
            format!("ws://{address}{PATH}").parse().map_err(|_| LinkError::Address { address: address.into() })?;
        let connect = |source| LinkError::Connect { address: address.into(), source };
        let stream = if only_remote {
            let mut resolved: Vec<SocketAddr> = lookup_host(address).await.map_err(connect)?.collect();
            resolved.retain(|resolved| !is_local(resolved.ip()));
            if resolved.is_empty() {
                return Err(LinkError::NotRemote { address: address.into() });
            }
            TcpStream::connect(&resolved[..]).await
        } else {
            TcpStream::connect(address).await
        }
        .map_err(connect)?;
        // Frames are already gathered; waiting for more would only delay them.
        stream.set_nodelay(true).map_err(connect)?;
        let mut request = ClientRequestBuilder::new(uri).with_sub_protocol(config.encoding.subprotocol());
        if let Some(AdminToken(token)) = &config.admin_token {
            request = request.with_header(AUTHORIZATION.as_str(), format!("Bearer {token}"));
        }
        let websocket = WebSocketConfig::default()
            .read_buffer_size(config.buffer_bytes)
            .write_buffer_size(config.buffer_bytes)
            .max_message_size(Some(ANSWER_BYTES_MAX))
            .max_frame_size(Some(ANSWER_BYTES_MAX));
        let (socket, _) = client_async_with_config(request, stream, Some(websocket))
            .await
            .map_err(|source| refused(address, source))?;
        Ok(Link { socket, encoding: config.encoding })
    }

    /// Whether the node is at an address for which [`is_local`] holds.
    pub(crate) fn is_local(&self) -> bool {
        self.socket.get_ref().peer_addr().is_ok_and(|peer| is_local(peer.ip()))
    }

    /// The next thing that came in, if any has.
    pub(crate) fn poll_incoming(&mut self, context: &mut Context<'_>) -> Poll<Incoming> {
        loop {
            let Poll::Ready(message) = Pin::new(&mut self.socket).poll_next(context) else {
                return Poll::Pending;
            };
            return Poll::Ready(match (message, self.encoding) {
                (Some(Ok(Message::Binary(frame))), Encoding::MsgPack) => Incoming::Frame(frame),
                (Some(Ok(Message::Text(frame))), Encoding::Json) => Incoming::Frame(frame.into()),
                (Some(Ok(Message::Binary(_) | Message::Text(_))), _) => {
                    Incoming::Over(None, "a frame of the other encoding came".into())
                }
                (Some(Ok(Message::Ping(_))), _) => Incoming::Ping,
                (Some(Ok(Message::Pong(_) | Message::Frame(_))), _) => continue,
                (Some(Ok(Message::Close(Some(CloseFrame { code, reason })))), _) => {
                    Incoming::Over(Some(code.into()), format!("{} {reason}", u16::from(code)))
                }
                (Some(Ok(Message::Close(None))) | None, _) => Incoming::Over(None, "the server closed it".into()),
                (Some(Err(error)), _) => Incoming::Over(None, error.to_string()),
            });
        }
    }

    /// Whether a frame can be taken without piling up.
    pub(crate) fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<Result<(), String>> {
        Pin::new(&mut self.socket).poll_ready(context).map_err(|error| error.to_string())
    }

    /// Takes a frame; it goes out with the next flush at the latest.
    pub(crate) fn send(&mut self, frame: Bytes) -> Result<(), String> {
        let message = match self.encoding {
            Encoding::MsgPack => Message::Binary(frame),
            Encoding::Json => Message::Text(Utf8Bytes::try_from(frame).map_err(|error| error.to_string())?),
        };
        Pin::new(&mut self.socket).start_send(message).map_err(|error| error.to_string())
    }

    /// Sends what was taken.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), String>> {
        Pin::new(&mut self.socket).poll_flush(context).map_err(|error| error.to_string())
    }

    /// Says goodbye, as far as that is quick.
    pub(crate) async fn close(mut self) {
        const GOODBYE: Duration = Duration::from_millis(500);
        let farewell = CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() };
        // A server that does not listen to it will notice all the same.
        let _ = timeout(GOODBYE, self.socket.close(Some(farewell))).await;
    }
}

/// Whether an address means another machine to every machine that uses it: loopback, link-local or unspecified.
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
    fn local_addresses_are_told_from_others() {
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
    async fn a_local_address_is_not_connected_to_where_only_remote_ones_may_be() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let config = ClientConfig::new(["unused"]);
        for host in ["127.0.0.1", "0.0.0.0", "localhost"] {
            let refused = Link::connect(&format!("{host}:{port}"), &config, true).await;
            assert!(matches!(refused, Err(LinkError::NotRemote { .. })), "{host}: {refused:?}");
        }
        let comes = timeout(Duration::from_millis(100), listener.accept()).await;
        assert!(comes.is_err(), "{comes:?}");
    }
}

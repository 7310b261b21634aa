//! One connection: TCP, the upgrade, frames in and out without waiting.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use boxoffice_wire::{Encoding, limits::ANSWER_BYTES_MAX};
use bytes::Bytes;
use futures_util::{Sink, Stream};
use tokio::{net::TcpStream, time::timeout};
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
    /// Connects to a node.
    pub(crate) async fn connect(address: &str, config: &ClientConfig) -> Result<Link, LinkError> {
        let limit = config.connect_timeout;
        let attempt = timeout(limit, Link::upgrade(address, config)).await;
        attempt.unwrap_or_else(|_| Err(LinkError::TooSlow { address: address.into(), limit }))
    }

    async fn upgrade(address: &str, config: &ClientConfig) -> Result<Link, LinkError> {
        let uri: Uri =
            format!("ws://{address}{PATH}").parse().map_err(|_| LinkError::Address { address: address.into() })?;
        let connect = |source| LinkError::Connect { address: address.into(), source };
        let stream = TcpStream::connect(address).await.map_err(connect)?;
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

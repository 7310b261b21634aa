//! Raw connections from a chosen loopback address.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::common::{Encoding, Port, TIMEOUT};

/// The address of an attacker. Its last part is the attacker's number.
pub(crate) fn attacker(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1, number)
}

/// A TCP connection from this address.
pub(crate) async fn connect(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    connect_with(from, to, None).await
}

/// The same, with this size of the kernel's receive buffer.
pub(crate) async fn connect_with(from: Ipv4Addr, to: SocketAddr, unread: Option<u32>) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if let Some(unread) = unread {
        socket.set_recv_buffer_size(unread)?;
    }
    socket.bind(SocketAddr::from((from, 0)))?;
    timeout(TIMEOUT, socket.connect(to)).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// A WebSocket from this address with this key or token, or without credentials.
pub(crate) async fn port(
    from: Ipv4Addr,
    to: SocketAddr,
    encoding: Encoding,
    token: Option<&str>,
) -> Result<Port, String> {
    let stream = connect(from, to).await.map_err(|error| error.to_string())?;
    Port::over(stream, encoding, token).await
}

/// The same for an attacker, who must be accepted.
///
/// # Panics
/// If there is no connection.
pub(crate) async fn guest(from: Ipv4Addr, to: SocketAddr) -> Port {
    port(from, to, Encoding::Json, None).await.unwrap_or_else(|error| panic!("{from} cannot connect: {error}"))
}

/// The request of an upgrade to a WebSocket, with these additional header lines.
pub(crate) fn upgrade(headers: &str) -> String {
    format!(
        "GET /v1/ws HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: boxoffice.v1.json\r\n{headers}\r\n"
    )
}

/// A raw WebSocket: upgraded, its `hello` unread.
pub(crate) async fn raw_socket(from: Ipv4Addr, to: SocketAddr, unread: Option<u32>) -> io::Result<TcpStream> {
    let mut stream = connect_with(from, to, unread).await?;
    stream.write_all(upgrade("").as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(TIMEOUT, stream.read_u8()).await??);
    }
    match head.starts_with(b"HTTP/1.1 101") {
        true => Ok(stream),
        false => Err(io::Error::other(String::from_utf8_lossy(&head).into_owned())),
    }
}

/// The header of a masked frame with this claimed length, and the given part of its payload. The mask is zero.
pub(crate) fn frame(first: u8, claimed: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first, 0x80 | 126];
    frame.extend(claimed.to_be_bytes());
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

/// A whole text frame.
pub(crate) fn text(text: &str) -> Vec<u8> {
    frame(0x81, u16::try_from(text.len()).expect("a short text"), text.as_bytes())
}

/// An HTTP answer.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl HttpAnswer {
    /// The code of a refusal or failure. 0 for an ok, and for answers that come from no op.
    pub(crate) fn code(&self) -> u64 {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_default();
        ["no", "fail"].iter().find_map(|kind| body[*kind]["code"].as_u64()).unwrap_or(0)
    }
}

/// Sends this text on a connection of its own and reads the whole answer.
pub(crate) async fn exchange(from: Ipv4Addr, to: SocketAddr, request: &str) -> io::Result<HttpAnswer> {
    exchange_within(from, to, request, TIMEOUT).await
}

/// The same, with a time limit.
pub(crate) async fn exchange_within(
    from: Ipv4Addr,
    to: SocketAddr,
    request: &str,
    time: Duration,
) -> io::Result<HttpAnswer> {
    let asked = async {
        let mut stream = connect(from, to).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer: io::Result<String> = timeout(time, asked).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let answer = answer?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| io::Error::other(format!("no head: {answer:?}")))?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no status: {head:?}")))?;
    Ok(HttpAnswer { status, head: head.to_owned(), body: body.to_owned() })
}

/// `POST /v1/{op}` with this body and these header lines, on a connection of its own.
pub(crate) async fn post(
    from: Ipv4Addr,
    to: SocketAddr,
    op: &str,
    headers: &str,
    body: &str,
) -> io::Result<HttpAnswer> {
    let length = body.len();
    let request = format!(
        "POST /v1/{op} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\ncontent-type: application/json\r\n{headers}\
         content-length: {length}\r\n\r\n{body}"
    );
    exchange(from, to, &request).await
}

/// The header line with a key or a token, if there is one.
pub(crate) fn shows(token: Option<&str>) -> String {
    token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default()
}

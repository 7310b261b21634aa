//! A minimal HTTP client. Each request has a connection of its own.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{ADMIN, TIMEOUT, port::Answer};

/// Sends `POST /v1/{op}` as an operator. Writes need a request id.
pub(crate) async fn post(address: SocketAddr, op: &str, rid: Option<&str>, body: &Value) -> (u16, Value) {
    post_as(Some(ADMIN), address, op, rid, body).await
}

/// The same with this key or token, or without credentials.
pub(crate) async fn post_as(
    token: Option<&str>,
    address: SocketAddr,
    op: &str,
    rid: Option<&str>,
    body: &Value,
) -> (u16, Value) {
    let key = rid.map(|rid| format!("idempotency-key: {rid}\r\n")).unwrap_or_default();
    let shown = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let headers = shown + &key;
    let (status, text) = raw_post(address, &format!("/v1/{op}"), &headers, &body.to_string()).await;
    (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{op}: {error}: {text}")))
}

/// The same, as an [`Answer`].
pub(crate) async fn ask(address: SocketAddr, op: &str, rid: Option<&str>, body: &Value) -> Answer {
    Answer::read(&post(address, op, rid, body).await.1)
}

/// Posts a JSON text with these header lines and no other credentials. Returns the status and the raw body.
pub(crate) async fn raw_post(address: SocketAddr, path: &str, headers: &str, body: &str) -> (u16, String) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n{headers}\
         content-length: {}\r\n\r\n",
        body.len()
    );
    exchange(address, &(head + body)).await.unwrap_or_else(|error| panic!("POST {path}: {error}"))
}

/// Sends a `GET` as an operator.
pub(crate) async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    exchange(address, &got(address, path)).await.unwrap_or_else(|error| panic!("GET {path}: {error}"))
}

/// The same from a node that may be down. `None` if it is.
pub(crate) async fn try_get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    exchange(address, &got(address, path)).await.ok()
}

fn got(address: SocketAddr, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {ADMIN}\r\nconnection: close\r\n\r\n")
}

async fn exchange(address: SocketAddr, request: &str) -> std::io::Result<(u16, String)> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    let answer: std::io::Result<String> = timeout(TIMEOUT, exchange).await.expect("an answer in time");
    let answer = answer?;
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    assert!(!head.to_ascii_lowercase().contains("transfer-encoding: chunked"), "answers have a content-length: {head}");
    Ok((status, body.to_owned()))
}

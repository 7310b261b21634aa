//! The ways of a request to a node: a WebSocket, a batch, `POST` and `GET`, at either port.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use boxoffice_wire::Op;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{
    super::wire::{self, HttpAnswer},
    callers::Caller,
    requests::Asked,
};
use crate::common::{Encoding, Port, TIMEOUT, eventually};

/// The failure of a node that has too much to do.
const BUSY: u64 = 901;

/// Requests of one WebSocket at the same time. A connection has eight queries.
const CONCURRENT: usize = 4;

/// The code of an answer and its text. 0 is ok.
pub(super) type Answered = (u64, String);

fn answered(frame: &Value) -> Answered {
    let code = ["no", "fail"].iter().find_map(|kind| frame[*kind]["code"].as_u64());
    let is_ok = frame.get("ok").is_some();
    assert!(is_ok != code.is_some(), "an answer is ok, no or fail: {frame}");
    (code.unwrap_or(0), frame.to_string())
}

/// A caller's WebSocket.
pub(super) async fn socket(from: Ipv4Addr, to: SocketAddr, caller: &Caller) -> Port {
    let port = wire::port(from, to, Encoding::Json, caller.token.as_deref()).await;
    let port = port.unwrap_or_else(|error| panic!("{} cannot connect: {error}", caller.name));
    if let Some(customer) = caller.shown_customer {
        let token = super::super::tokens::of_customer(customer);
        port.frame(json!({"op": "hello", "body": {"customer": customer, "customer_token": token}})).await.ok();
    }
    port
}

/// The answers to all requests over a WebSocket, each in a frame of its own.
pub(super) async fn by_socket(port: &Port, asked: &[Asked], bodies: &[Value]) -> Vec<Answered> {
    let mut answers = Vec::new();
    let frames: Vec<Value> = (0..)
        .zip(asked.iter().zip(bodies))
        .map(|(number, (asked, body))| {
            let mut frame = json!({"op": asked.op.name(), "body": body});
            if asked.op.changes() {
                frame["rid"] = json!(rid("socket", asked.op, number, body));
            }
            frame
        })
        .collect();
    for some in frames.chunks(CONCURRENT) {
        answers.extend(
            join_all(
                some.iter().map(|frame| unless_busy(async || answered(&port.exchange_whole(frame.clone()).await))),
            )
            .await,
        );
    }
    answers
}

/// Asks again while the node is busy. It reads few histories at the same time.
async fn unless_busy(mut ask: impl AsyncFnMut() -> Answered) -> Answered {
    eventually("the node is no longer busy", async || {
        let answer = ask().await;
        (answer.0 != BUSY).then_some(answer)
    })
    .await
}

/// The frame of one batch with these items.
pub(super) fn batch(items: &[(Op, Value)]) -> Value {
    let items = (0..)
        .zip(items)
        .map(|(number, (op, body))| json!({"op": op.name(), "rid": rid("batch", *op, number, body), "body": body}));
    json!({"op": "batch", "body": {"items": items.collect::<Vec<_>>()}})
}

/// The answers of the items.
pub(super) fn of_items(frame: &Value) -> Vec<Answered> {
    frame["ok"]["items"].as_array().unwrap_or_else(|| panic!("no items: {frame}")).iter().map(answered).collect()
}

/// A request id that no other caller uses for the same entity: bodies have the caller's own tokens or numbers.
fn rid(way: &str, op: Op, number: usize, body: &Value) -> String {
    let sum = body.to_string().bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    format!("{way}-{}-{number}-{sum:x}", op.name())
}

/// A connection for HTTP requests, one after the other. It is made anew when the node has closed it.
pub(super) struct Http {
    from: Ipv4Addr,
    to: SocketAddr,
    headers: String,
    stream: Option<TcpStream>,
}

impl Http {
    pub(super) fn new(from: Ipv4Addr, to: SocketAddr, caller: &Caller) -> Http {
        Http { from, to, headers: caller.headers(), stream: None }
    }

    /// `POST /v1/{op}`.
    pub(super) async fn post(&mut self, number: usize, op: Op, body: &Value) -> Answered {
        let rid =
            if op.changes() { format!("idempotency-key: {}\r\n", rid("post", op, number, body)) } else { "".into() };
        let body = body.to_string();
        let head = format!("content-type: application/json\r\n{rid}content-length: {}\r\n", body.len());
        let path = format!("/v1/{}", op.name());
        unless_busy(async || api(&self.ask("POST", &path, &head, &body).await)).await
    }

    /// `GET /v1/{op}?…`. `None` if the body is not made of plain fields.
    pub(super) async fn get(&mut self, op: Op, body: &Value) -> Option<Answered> {
        let mut query = Vec::new();
        for (name, value) in body.as_object()? {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => return None,
            };
            // Ids, times and entities have no byte that a query would need to escape.
            query.push(format!("{name}={value}"));
        }
        let path = format!("/v1/{}?{}", op.name(), query.join("&"));
        Some(unless_busy(async || api(&self.ask("GET", &path, "", "").await)).await)
    }

    /// Any request.
    pub(super) async fn ask(&mut self, method: &str, path: &str, head: &str, body: &str) -> HttpAnswer {
        let request = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n{}{head}\r\n{body}", self.to, self.headers);
        // The node may have closed the connection since.
        for last in [false, true] {
            match timeout(TIMEOUT, self.exchange(&request)).await.expect("an answer in time") {
                Ok(answer) => return answer,
                Err(error) if last => panic!("{method} {path}: {error}"),
                Err(_) => self.stream = None,
            }
        }
        unreachable!("the last try is answered or fails")
    }

    async fn exchange(&mut self, request: &str) -> io::Result<HttpAnswer> {
        if self.stream.is_none() {
            self.stream = Some(wire::connect(self.from, self.to).await?);
        }
        let stream = self.stream.as_mut().expect("just made");
        stream.write_all(request.as_bytes()).await?;
        let mut read = Vec::new();
        let head_end = loop {
            if let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end;
            }
            more(stream, &mut read).await?;
        };
        let head = String::from_utf8_lossy(&read[..head_end]).to_ascii_lowercase();
        let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let length = header("content-length:").map_or(0, |length| length.parse().expect("a length"));
        while read.len() < head_end + 4 + length {
            more(stream, &mut read).await?;
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let body = String::from_utf8_lossy(&read[head_end + 4..]).into_owned();
        if header("connection:") == Some("close") {
            self.stream = None;
        }
        Ok(HttpAnswer { status, head, body })
    }
}

async fn more(stream: &mut TcpStream, read: &mut Vec<u8>) -> io::Result<()> {
    if stream.read_buf(read).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

/// The answer of an op. Its status and its code agree.
fn api(answer: &HttpAnswer) -> Answered {
    let frame = serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("no answer of an op: {answer:?}"));
    let (code, text) = answered(&frame);
    let fits = match code {
        0 => answer.status == 200,
        107 => answer.status == 401,
        108 => answer.status == 403,
        _ => answer.status >= 400,
    };
    assert!(fits, "{answer:?}");
    (code, text)
}

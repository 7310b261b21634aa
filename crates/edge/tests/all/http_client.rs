//! An HTTP client that writes any bytes and reads the answers.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::{fmt::Write, net::SocketAddr, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Longer than anything here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A connection that is kept open.
pub struct HttpClient {
    stream: TcpStream,
    read: Vec<u8>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct HttpAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl HttpAnswer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    /// The code of the refusal or failure. 0 if it is an ok.
    pub fn code(&self) -> u64 {
        let body = self.json();
        ["no", "fail"].iter().find_map(|kind| body[kind]["code"].as_u64()).unwrap_or(0)
    }
}

impl HttpClient {
    pub async fn connect(address: SocketAddr) -> HttpClient {
        HttpClient { stream: TcpStream::connect(address).await.expect("a connection"), read: Vec::new() }
    }

    pub fn over(stream: TcpStream) -> HttpClient {
        HttpClient { stream, read: Vec::new() }
    }

    /// Sends a request without a body, whose answer is not waited for.
    pub async fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)]) {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head.push_str("\r\n");
        self.write(head.as_bytes()).await;
    }

    /// Posts a body.
    pub async fn post(&mut self, path: &str, headers: &[(&str, &str)], body: &str) -> HttpAnswer {
        let mut all = vec![("content-type", "application/json")];
        all.extend_from_slice(headers);
        self.ask("POST", path, &all, body.as_bytes()).await
    }

    /// Posts a body under a request id.
    pub async fn command(&mut self, op: &str, rid: &str, body: &Value) -> HttpAnswer {
        self.post(&format!("/v1/{op}"), &[("idempotency-key", rid)], &body.to_string()).await
    }

    pub async fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> HttpAnswer {
        self.ask("GET", path, headers, b"").await
    }

    pub async fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> HttpAnswer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if !body.is_empty() {
            let _ = write!(head, "content-length: {}\r\n", body.len());
        }
        head.push_str("\r\n");
        self.write(head.as_bytes()).await;
        self.write(body).await;
        self.read_answer(method == "HEAD").await
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        // A server that has answered already may have closed.
        let _ = self.stream.write_all(bytes).await;
    }

    /// The next answer.
    pub async fn read_answer(&mut self, is_head: bool) -> HttpAnswer {
        let reading = async {
            let end = loop {
                if let Some(end) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                    break end;
                }
                assert!(self.more().await, "the connection is closed: {:?}", String::from_utf8_lossy(&self.read));
            };
            let head = String::from_utf8(self.read.drain(..end + 4).collect()).expect("heads are text");
            let mut lines = head.trim_end().split("\r\n");
            let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
            let headers: Vec<(String, String)> = lines
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect();
            let mut answer = HttpAnswer { status: status.expect("a status"), headers, body: Vec::new() };
            let length = answer.header("content-length").map_or(0, |length| length.parse().expect("a length"));
            if !is_head {
                while self.read.len() < length {
                    assert!(self.more().await, "the connection is closed in the middle of a body");
                }
                answer.body = self.read.drain(..length).collect();
            }
            answer
        };
        tokio::time::timeout(TIMEOUT, reading).await.expect("an answer in time")
    }

    /// Waits until the server closes. Returns whether it did.
    pub async fn is_closed(&mut self) -> bool {
        tokio::time::timeout(TIMEOUT, async { !self.more().await }).await.unwrap_or(false)
    }

    async fn more(&mut self) -> bool {
        let mut bytes = [0; 16 * 1024];
        let read = self.stream.read(&mut bytes).await.unwrap_or(0);
        self.read.extend_from_slice(&bytes[..read]);
        read > 0
    }
}

//! A WebSocket client that reads when the test wants, and as slowly. It answers each ping that it has read.

use std::{net::SocketAddr, time::Duration};

use boxoffice_wire::{
    Encoding,
    feed::Snapshot,
    reply::{Event, ServerFrame},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

use crate::server::common::TIMEOUT;

/// The kernel keeps this many bytes for a client that does not read, or a little more.
const RECEIVE_BUFFER_BYTES: u32 = 4_096;

/// Bytes of one read.
const READ_BYTES: usize = 256;

/// A frame from the server.
#[derive(Debug)]
pub(crate) struct Frame {
    /// The place of its first byte in everything that came after the upgrade.
    pub(crate) begin: u64,
    pub(crate) text: String,
}

impl Frame {
    /// The number of the request that it answers.
    pub(crate) fn answers(&self) -> Option<u64> {
        match ServerFrame::read(Encoding::Json, self.text.as_bytes()).expect("readable") {
            ServerFrame::Answer(id, ..) => id,
            _ => None,
        }
    }

    /// The feed of a session and its event.
    pub(crate) fn event(&self) -> Option<(u64, Event)> {
        match ServerFrame::read(Encoding::Json, self.text.as_bytes()).expect("readable") {
            ServerFrame::Feed(feed, event) => Some((feed, event.read::<Snapshot>(Encoding::Json).expect("readable"))),
            _ => None,
        }
    }
}

/// What a client has read.
#[derive(Debug)]
pub(crate) enum Message {
    Frame(Frame),
    /// A ping, which the client has answered.
    Ping,
    /// A close with this code.
    Close(u16),
}

/// A client over a socket with small buffers.
pub(crate) struct SlowClient {
    pub(crate) stream: TcpStream,
    read: Vec<u8>,
    /// The place of the first byte of `read`.
    begin: u64,
    /// Bytes that it reads a second. As fast as it can without it.
    pub(crate) bytes_per_second: Option<u64>,
    pub(crate) pongs: usize,
}

impl SlowClient {
    /// Connects and reads the server's hello. `header` is empty or a header with its line end.
    pub(crate) async fn connect(address: SocketAddr, header: &str) -> SlowClient {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES).expect("a small buffer");
        let mut stream = socket.connect(address).await.expect("a connection");
        let upgrade = format!(
            "GET /v1/ws HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             sec-websocket-protocol: boxoffice.v1.json\r\n{header}\r\n"
        );
        stream.write_all(upgrade.as_bytes()).await.expect("written");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("an answer"));
        }
        assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
        let mut client = SlowClient { stream, read: Vec::new(), begin: 0, bytes_per_second: None, pongs: 0 };
        client.frame().await;
        client
    }

    /// Sends a request as a masked text frame. Its mask is zero.
    pub(crate) async fn send(&mut self, text: &str) {
        self.send_all(&[text.to_owned()]).await;
    }

    /// Sends requests with one write.
    pub(crate) async fn send_all(&mut self, texts: &[String]) {
        let mut bytes = Vec::new();
        for text in texts {
            let length = u16::try_from(text.len()).expect("it is short");
            bytes.extend([0x81, 0x80 | 126]);
            bytes.extend(length.to_be_bytes());
            bytes.extend([0; 4]);
            bytes.extend(text.as_bytes());
        }
        self.stream.write_all(&bytes).await.expect("written");
    }

    /// Watches a session. Returns the feed.
    pub(crate) async fn watch(&mut self, id: u64, session: &str) -> u64 {
        self.send(&format!(r#"{{"id":{id},"op":"watch","body":{{"entity":"session/{session}"}}}}"#)).await;
        let answer = self.answer(id).await;
        let answer: serde_json::Value = serde_json::from_str(&answer.text).expect("JSON");
        answer["ok"]["feed"].as_u64().unwrap_or_else(|| panic!("{answer}"))
    }

    /// The next frame that answers this request.
    pub(crate) async fn answer(&mut self, id: u64) -> Frame {
        loop {
            let frame = self.frame().await;
            if frame.answers() == Some(id) {
                return frame;
            }
        }
    }

    /// The next frame.
    pub(crate) async fn frame(&mut self) -> Frame {
        loop {
            match self.message().await {
                Message::Frame(frame) => return frame,
                Message::Ping => {}
                Message::Close(code) => panic!("the server closes with {code}"),
            }
        }
    }

    /// The next message.
    pub(crate) async fn message(&mut self) -> Message {
        loop {
            if let Some((opcode, head, length)) = head(&self.read)
                && self.read.len() >= head + length
            {
                let begin = self.begin;
                let payload: Vec<u8> = self.read.drain(..head + length).skip(head).collect();
                self.begin += (head + length) as u64;
                match opcode {
                    1 => return Message::Frame(Frame { begin, text: String::from_utf8(payload).expect("UTF-8") }),
                    8 => return Message::Close(u16::from_be_bytes([payload[0], payload[1]])),
                    9 => {
                        let pong = [&[0x8a, 0x80 | payload.len() as u8, 0, 0, 0, 0], &payload[..]].concat();
                        self.stream.write_all(&pong).await.expect("written");
                        self.pongs += 1;
                        return Message::Ping;
                    }
                    other => panic!("opcode {other}"),
                }
            }
            let mut bytes = [0; READ_BYTES];
            let read = tokio::time::timeout(TIMEOUT, self.stream.read(&mut bytes)).await.expect("something comes");
            let read = read.unwrap_or_else(|error| panic!("after {} bytes: {error}", self.begin));
            assert!(read > 0, "the stream ends after {} bytes", self.begin);
            self.read.extend_from_slice(&bytes[..read]);
            if let Some(bytes_per_second) = self.bytes_per_second {
                tokio::time::sleep(Duration::from_millis(read as u64 * 1_000 / bytes_per_second)).await;
            }
        }
    }
}

/// Opcode, length of the head and length of the payload of the frame at the beginning.
fn head(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let (first, second) = (*bytes.first()?, *bytes.get(1)?);
    let (head, length) = match second {
        126 => (4, u64::from(u16::from_be_bytes(*bytes.get(2..4)?.first_chunk()?))),
        127 => (10, u64::from_be_bytes(*bytes.get(2..10)?.first_chunk()?)),
        short => (2, u64::from(short)),
    };
    Some((first & 0x0f, head, length as usize))
}

//! One connection of the buyers: WebSocket frames with MessagePack, and a limit on the purchases that
//! its buyers may have under way.

use std::{
    io::{self, Read, Write},
    net::TcpStream as Blocking,
    time::Duration,
};

use boxoffice_client::WaitingRequests;
use boxoffice_wire::{Encoding, limits::REQUESTS_UNDER_WAY_MAX};
use mio::net::TcpStream;
use tokio::time::Instant;

use super::purchase::WaitingPurchase;
use crate::websocket::{
    FrameReader, Message, flush, read_available, upgrade_answer, upgrade_request, write_binary, write_pong,
};

/// How long a node may take to answer the upgrade.
const UPGRADE_LIMIT: Duration = Duration::from_secs(10);

/// Bytes that wait for the socket. Beyond this the connection accepts no request, because the node does not read.
const UNSENT_MAX: usize = 1 << 20;

pub(super) struct BuyerConnection {
    pub(super) stream: TcpStream,
    frame_reader: FrameReader,
    out: Vec<u8>,
    pub(super) under_way: usize,
    /// Purchases of obeying clients that wait for their turn, as in the client library.
    pub(super) waiting: WaitingRequests<WaitingPurchase>,
}

impl BuyerConnection {
    /// Connects, and waits for the upgrade.
    pub(super) fn connect(address: &str) -> io::Result<BuyerConnection> {
        let mut stream = Blocking::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(UPGRADE_LIMIT))?;
        stream.write_all(upgrade_request(address, Encoding::MsgPack.subprotocol()).as_bytes())?;
        let mut head = Vec::new();
        let mut byte = [0];
        while upgrade_answer(&head)?.is_none() {
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        stream.set_read_timeout(None)?;
        stream.set_nonblocking(true)?;
        Ok(BuyerConnection {
            stream: TcpStream::from_std(stream),
            frame_reader: FrameReader::default(),
            out: Vec::new(),
            under_way: 0,
            waiting: WaitingRequests::new(REQUESTS_UNDER_WAY_MAX, Instant::now()),
        })
    }

    /// Goes on over this new connection. What waits for its turn stays, as does the number of requests without an answer.
    pub(super) fn continue_on(&mut self, new: BuyerConnection) {
        (self.stream, self.frame_reader, self.out) = (new.stream, new.frame_reader, new.out);
    }

    /// Whether the connection accepts another request. The node limits the requests under way on one connection.
    pub(super) fn has_room(&self) -> bool {
        self.under_way < REQUESTS_UNDER_WAY_MAX && self.out.len() < UNSENT_MAX
    }

    /// Queues a request for the next flush.
    pub(super) fn send(&mut self, frame: &[u8]) {
        self.under_way += 1;
        self.send_beside(frame);
    }

    /// The same for a request whose answer is not waited for.
    pub(super) fn send_beside(&mut self, frame: &[u8]) {
        write_binary(&mut self.out, frame);
    }

    /// Reads everything that the socket has, and passes on every complete frame.
    pub(super) fn read(&mut self, buffer: &mut [u8], mut on_frame: impl FnMut(&[u8])) -> io::Result<()> {
        while let Some(bytes) = read_available(&mut self.stream, buffer)? {
            let out = &mut self.out;
            let mut closed = None;
            let read = self.frame_reader.read(&buffer[..bytes], |message| match message {
                Message::Binary(frame) => on_frame(frame),
                Message::Text(_) => {}
                Message::Ping(payload) => write_pong(out, payload),
                Message::Close(code, reason) => closed = Some((code, String::from_utf8_lossy(reason).into_owned())),
            });
            if let Some((code, reason)) = closed {
                return Err(io::Error::other(format!(
                    "the node closed the connection with the code {code:?}: {reason}"
                )));
            }
            read.map_err(|invalid| io::Error::other(format!("{invalid:?}")))?;
        }
        Ok(())
    }

    /// Writes as much as the socket accepts.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        flush(&mut self.stream, &mut self.out)
    }
}

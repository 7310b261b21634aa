//! One watcher's connection.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr},
};

use mio::net::TcpStream;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{
    GallerySpec,
    frames::{Inbound, write_text},
};

/// Connections from one source address: well below the ports it has.
const OF_ONE_SOURCE: u32 = 8_192;

/// The most bytes of the server's answer to the upgrade.
const HEAD_BYTES_MAX: usize = 4_096;

/// How far a connection has come.
pub(super) enum Stage {
    /// It is not there, and will be opened.
    Away,
    /// The server's answer to the upgrade, as far as it has come.
    Upgrading(Vec<u8>),
    /// It is a WebSocket.
    Open,
}

/// What a watcher has of one session.
#[derive(Clone, Default)]
pub(super) struct Stand {
    pub(super) epoch: u64,
    pub(super) version: u64,
    pub(super) is_whole: bool,
    /// Packed; empty where maps are not kept.
    pub(super) map: Vec<u8>,
}

/// One connection.
pub(super) struct Link {
    pub(super) stage: Stage,
    /// Which of the nodes it goes to.
    pub(super) node: usize,
    pub(super) inbound: Inbound,
    /// What the socket did not take yet.
    out: Vec<u8>,
    pub(super) stream: Option<TcpStream>,
    /// Its first session.
    first: usize,
    pub(super) stands: Vec<Stand>,
    /// How many of them have begun.
    pub(super) whole: u32,
    /// It has not got what it came for yet.
    pub(super) is_opening: bool,
}

impl Link {
    pub(super) fn new(number: u32, spec: &GallerySpec) -> Link {
        let sessions = spec.sessions.len().max(1);
        Link {
            stage: Stage::Away,
            node: number as usize % spec.addresses.len(),
            inbound: Inbound::default(),
            out: Vec::new(),
            stream: None,
            first: number as usize * spec.feeds as usize % sessions,
            stands: vec![Stand::default(); spec.feeds as usize],
            whole: 0,
            is_opening: false,
        }
    }

    /// The session of its watch number `place`.
    pub(super) fn session(&self, place: usize, sessions: usize) -> usize {
        (self.first + place) % sessions
    }

    /// What it has of a session; `None` if it does not watch it.
    pub(super) fn stand(&mut self, session: usize, sessions: usize) -> Option<&mut Stand> {
        self.stands.get_mut((session + sessions - self.first) % sessions)
    }

    /// Begins to connect; the stream is to be registered.
    pub(super) fn connect(&mut self, number: u32, address: SocketAddr) -> io::Result<()> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        if address.ip().is_loopback() && address.is_ipv4() {
            // A source address has some 28 000 ports.
            let source = Ipv4Addr::new(127, 0, 1, 1 + (number / OF_ONE_SOURCE) as u8);
            socket.bind(&SockAddr::from(SocketAddr::from((source, 0))))?;
        }
        match socket.connect(&address.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        self.stream = Some(TcpStream::from_std(socket.into()));
        self.stage = Stage::Upgrading(Vec::new());
        self.inbound = Inbound::default();
        self.out = format!(
            "GET /v1/ws HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Protocol: boxoffice.v1.json\r\n\r\n"
        )
        .into_bytes();
        Ok(())
    }

    /// Forgets the connection; what it had of its sessions stays.
    pub(super) fn close(&mut self) {
        self.stream = None;
        self.stage = Stage::Away;
        self.out = Vec::new();
    }

    /// Takes bytes of the answer to the upgrade in; those behind it when it is whole.
    pub(super) fn upgraded(&mut self, bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let Stage::Upgrading(head) = &mut self.stage else { return Ok(None) };
        head.extend_from_slice(bytes);
        let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") else {
            let too_long = head.len() > HEAD_BYTES_MAX;
            return if too_long { Err(io::Error::other("an answer without end")) } else { Ok(None) };
        };
        if !head.starts_with(b"HTTP/1.1 101 ") {
            let line = String::from_utf8_lossy(head.split(|byte| *byte == b'\r').next().unwrap_or_default());
            return Err(io::Error::other(format!("the server says {line}")));
        }
        let behind = head.split_off(end + 4);
        self.stage = Stage::Open;
        Ok(Some(behind))
    }

    /// Asks for its sessions, or for one of them again, from what it has of them.
    pub(super) fn watch(&mut self, places: std::ops::Range<usize>, spec: &GallerySpec) {
        if spec.counts {
            let sessions: Vec<&String> =
                places.map(|place| &spec.sessions[self.session(place, spec.sessions.len())]).collect();
            let body = serde_json::json!({ "id": 1, "op": "watch", "body": { "sessions": sessions } });
            write_text(&mut self.out, body.to_string().as_bytes());
            return;
        }
        for place in places {
            let session = &spec.sessions[self.session(place, spec.sessions.len())];
            let Stand { epoch, version, is_whole, .. } = self.stands[place];
            let resume =
                if is_whole { format!(r#","resume":{{"epoch":{epoch},"version":{version}}}"#) } else { String::new() };
            let id = place + 1;
            let text = format!(
                r#"{{"id":{id},"op":"watch","deadline_ms":60000,"body":{{"entity":"session/{session}"{resume}}}}}"#
            );
            write_text(&mut self.out, text.as_bytes());
        }
    }

    /// To be sent with the next flush.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Writes what the socket takes.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let mut written = 0;
        while written < self.out.len() {
            match stream.write(&self.out[written..]) {
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::NotConnected => break,
                Err(error) => return Err(error),
            }
        }
        self.out.drain(..written);
        if self.out.is_empty() {
            self.out = Vec::new();
        }
        Ok(())
    }

    /// Reads once; `None` if there is nothing.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        match stream.read(buffer) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(None),
            Err(error) => Err(error),
        }
    }
}

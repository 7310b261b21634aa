//! One watcher's connection.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use boxoffice_wire::Encoding;
use mio::net::TcpStream;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::messages::FleetSpec;
use crate::websocket::{FrameReader, flush, read_available, upgrade_answer, upgrade_request, write_text};

/// Connections from one source address. This is far below its number of ports.
const CONNECTIONS_PER_SOURCE: u32 = 8_192;

/// What the kernel keeps for a slow watcher, in bytes.
const RECEIVE_BUFFER_BYTES: usize = 8_192;

/// The state of a slow watcher.
#[derive(Default)]
pub(super) struct SlowState {
    /// There may be something to read.
    pub(super) is_readable: bool,
    /// Its turns so far.
    pub(super) turns: u64,
}

/// The state of a connection.
pub(super) enum Stage {
    /// There is no connection. The fleet opens it later.
    Disconnected,
    /// The answer to the upgrade is incomplete. This is its beginning.
    Upgrading(Vec<u8>),
    /// The WebSocket is open.
    Open,
}

/// One session as a watcher sees it.
#[derive(Clone, Default)]
pub(super) struct Feed {
    pub(super) epoch: u64,
    pub(super) version: u64,
    pub(super) is_synced: bool,
    /// The packed map. Empty if the fleet does not keep maps.
    pub(super) map: Vec<u8>,
}

pub(super) struct WatcherConnection {
    pub(super) stage: Stage,
    /// The index of its node.
    pub(super) node: usize,
    pub(super) frame_reader: FrameReader,
    /// Bytes that the socket did not accept yet.
    out: Vec<u8>,
    pub(super) stream: Option<TcpStream>,
    /// The index of its first session.
    first: usize,
    pub(super) feeds: Vec<Feed>,
    /// The number of feeds that have begun.
    pub(super) synced: u32,
    /// Some of its feeds have not begun yet.
    pub(super) is_opening: bool,
    /// `None` for a watcher that is not slow.
    pub(super) slow: Option<SlowState>,
}

impl WatcherConnection {
    pub(super) fn new(number: u32, spec: &FleetSpec) -> WatcherConnection {
        let sessions = spec.sessions.len().max(1);
        WatcherConnection {
            stage: Stage::Disconnected,
            node: number as usize % spec.addresses.len(),
            frame_reader: FrameReader::default(),
            out: Vec::new(),
            stream: None,
            first: number as usize * spec.feeds as usize % sessions,
            feeds: vec![Feed::default(); spec.feeds as usize],
            synced: 0,
            is_opening: false,
            slow: spec.is_slow(number).then(SlowState::default),
        }
    }

    /// The session of its feed number `index`.
    pub(super) fn session(&self, index: usize, sessions: usize) -> usize {
        (self.first + index) % sessions
    }

    /// Its feed of a session. `None` if it does not watch the session.
    pub(super) fn feed(&mut self, session: usize, sessions: usize) -> Option<&mut Feed> {
        self.feeds.get_mut((session + sessions - self.first) % sessions)
    }

    /// Begins to connect. The caller registers the stream.
    pub(super) fn connect(&mut self, number: u32, address: SocketAddr) -> io::Result<()> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        if let Some(slow) = &mut self.slow {
            *slow = SlowState::default();
            socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
        }
        if address.ip().is_loopback() && address.is_ipv4() {
            // A source address has about 28 000 ports.
            let source = Ipv4Addr::new(127, 0, 1, 1 + (number / CONNECTIONS_PER_SOURCE) as u8);
            socket.bind(&SockAddr::from(SocketAddr::from((source, 0))))?;
        }
        match socket.connect(&address.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        self.stream = Some(TcpStream::from_std(socket.into()));
        self.stage = Stage::Upgrading(Vec::new());
        self.frame_reader = FrameReader::default();
        self.out = upgrade_request(address, Encoding::Json.subprotocol()).into_bytes();
        Ok(())
    }

    /// Closes the connection. Its feeds stay as they are.
    pub(super) fn close(&mut self) {
        self.stream = None;
        self.stage = Stage::Disconnected;
        self.out = Vec::new();
    }

    /// Reads the answer to the upgrade. When it is complete, returns the bytes behind it.
    pub(super) fn read_upgrade(&mut self, bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let Stage::Upgrading(head) = &mut self.stage else { return Ok(None) };
        head.extend_from_slice(bytes);
        let Some(end) = upgrade_answer(head)? else { return Ok(None) };
        let rest = head.split_off(end);
        self.stage = Stage::Open;
        Ok(Some(rest))
    }

    /// Watches these feeds. A feed that was synced resumes at its version.
    pub(super) fn watch(&mut self, indices: std::ops::Range<usize>, spec: &FleetSpec) {
        if spec.counts {
            let sessions: Vec<&String> =
                indices.map(|index| &spec.sessions[self.session(index, spec.sessions.len())]).collect();
            let body = serde_json::json!({ "id": 1, "op": "watch", "body": { "sessions": sessions } });
            write_text(&mut self.out, body.to_string().as_bytes());
            return;
        }
        for index in indices {
            let session = &spec.sessions[self.session(index, spec.sessions.len())];
            let Feed { epoch, version, is_synced, .. } = self.feeds[index];
            let resume =
                if is_synced { format!(r#","resume":{{"epoch":{epoch},"version":{version}}}"#) } else { String::new() };
            let id = index + 1;
            let text = format!(
                r#"{{"id":{id},"op":"watch","deadline_ms":60000,"body":{{"entity":"session/{session}"{resume}}}}}"#
            );
            write_text(&mut self.out, text.as_bytes());
        }
    }

    /// Bytes to send with the next flush.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Writes as much as the socket accepts.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        flush(stream, &mut self.out)?;
        if self.out.is_empty() {
            self.out = Vec::new();
        }
        Ok(())
    }

    /// Reads once. `None` if there is nothing to read.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.stream.as_mut().map_or(Ok(None), |stream| read_available(stream, buffer))
    }
}

//! The thread of a fleet: it opens all connections, reads and writes their sockets, and reconnects those that are lost.

use std::{collections::VecDeque, io, net::SocketAddr, sync::mpsc, time::Duration};

use mio::{Events, Interest, Poll, Token, Waker};
use rustc_hash::FxHashMap;

use super::{
    connection::{Stage, WatcherConnection},
    frame_cache::FrameCache,
    messages::{FleetCommand, FleetReply, FleetSpec, FleetStatus},
    stats::FleetStats,
};
use crate::clock::now_us;

/// The most connections that are opening at the same time. This is less than a server's backlog of connections that it
/// has not accepted yet.
const OPENING_MAX: usize = 256;

/// The most socket events of one poll.
const EVENTS: usize = 1_024;

/// Bytes of one read.
const BUFFER_BYTES: usize = 64 * 1024;

/// The pause before a lost connection is reopened or a failed watch is repeated.
pub(super) const RETRY_AFTER_US: u64 = 200_000;

/// The longest poll while a reconnect or a repeated watch is due soon.
const TICK: Duration = Duration::from_millis(20);

const WAKER: Token = Token(usize::MAX);

/// A command and the channel for its reply.
pub(super) struct PendingCommand(pub(super) FleetCommand, pub(super) tokio::sync::oneshot::Sender<FleetReply>);

pub(super) struct EventLoop {
    pub(super) spec: FleetSpec,
    addresses: Vec<SocketAddr>,
    /// The index of each watched session.
    pub(super) sessions: FxHashMap<String, usize>,
    pub(super) commands: mpsc::Receiver<PendingCommand>,
    poll: Poll,
    pub(super) buffer: Vec<u8>,
    pub(super) connections: Vec<WatcherConnection>,
    pub(super) nodes: Vec<NodeState>,
    /// Times and connections to open.
    to_connect: VecDeque<(u64, usize)>,
    /// The number of connections that are opening.
    opening: usize,
    /// Times, connections and feeds whose watch is to be repeated.
    pub(super) to_rewatch: VecDeque<(u64, usize, usize)>,
    pub(super) status: FleetStatus,
    /// When counting began.
    pub(super) counting_since_us: Option<u64>,
    pub(super) stats: FleetStats,
    pub(super) jumps: Vec<SnapshotJump>,
    pub(super) slow_turns: SlowTurns,
}

/// The frames and feeds of a node.
#[derive(Default)]
pub(super) struct NodeState {
    pub(super) frames: FrameCache,
    /// The session of each feed.
    pub(super) feeds: FxHashMap<u64, usize>,
}

/// The turns of the fleet's slow watchers.
#[derive(Default)]
pub(super) struct SlowTurns {
    /// When the next part has its turn, by [`now_us`].
    pub(super) next_us: u64,
    /// Turns of parts so far.
    pub(super) turns: u64,
}

/// A snapshot that moved a synced feed to a newer version.
pub(super) struct SnapshotJump {
    pub(super) session: usize,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) received: u32,
}

impl EventLoop {
    pub(super) fn new(spec: FleetSpec, commands: mpsc::Receiver<PendingCommand>) -> io::Result<(EventLoop, Waker)> {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
        let address =
            |text: &String| text.parse().map_err(|_| invalid(format!("{text} is not an address like 127.0.0.1:7180")));
        let addresses = spec.addresses.iter().map(address).collect::<io::Result<Vec<SocketAddr>>>()?;
        if addresses.is_empty() || spec.feeds == 0 || spec.feeds as usize > spec.sessions.len() {
            return Err(invalid("a fleet needs a node, and a session for each feed of a watcher".into()));
        }
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let expected = u64::from(spec.watchers) * u64::from(spec.feeds);
        let event_loop = EventLoop {
            sessions: spec.sessions.iter().enumerate().map(|(index, name)| (name.clone(), index)).collect(),
            commands,
            poll,
            buffer: vec![0; BUFFER_BYTES],
            connections: (0..spec.watchers).map(|number| WatcherConnection::new(number, &spec)).collect(),
            nodes: addresses.iter().map(|_| NodeState::default()).collect(),
            addresses,
            to_connect: (0..spec.watchers as usize).map(|number| (0, number)).collect(),
            opening: 0,
            to_rewatch: VecDeque::new(),
            status: FleetStatus { expected, ..FleetStatus::default() },
            counting_since_us: None,
            stats: FleetStats::default(),
            jumps: Vec::new(),
            slow_turns: SlowTurns::default(),
            spec,
        };
        Ok((event_loop, waker))
    }

    /// Runs until the channel of the commands is closed.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS);
        loop {
            self.run_due_actions();
            self.serve_slow();
            let nothing_due = self.to_connect.is_empty() && self.to_rewatch.is_empty() && self.spec.slow == 0;
            match self.poll.poll(&mut events, (!nothing_due).then_some(TICK)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return self.note_error(format!("cannot poll the sockets: {error}")),
            }
            for event in &events {
                if event.token() == WAKER {
                    if !self.handle_commands() {
                        return;
                    }
                    continue;
                }
                let number = event.token().0;
                let mut done = Ok(());
                if event.is_writable() {
                    done = self.connections[number].flush();
                }
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    done = done.and_then(|()| self.on_readable(number));
                }
                if let Err(error) = done {
                    self.reconnect_later(number, &error);
                }
            }
        }
    }

    pub(super) fn note_error(&mut self, what: String) {
        self.status.first_error.get_or_insert(what);
    }

    /// Opens the connections and repeats the watches that are due.
    fn run_due_actions(&mut self) {
        let now = now_us();
        while self.opening < OPENING_MAX
            && let Some((_, number)) = self.to_connect.pop_front_if(|(at, _)| *at <= now)
        {
            if let Err(error) = self.open(number) {
                self.note_error(format!("a watcher cannot connect: {error}"));
                self.connections[number].close();
                self.to_connect.push_back((now + RETRY_AFTER_US, number));
                return;
            }
        }
        while let Some((_, number, feed)) = self.to_rewatch.pop_front_if(|(at, ..)| *at <= now) {
            let connection = &mut self.connections[number];
            if matches!(connection.stage, Stage::Open) {
                let feeds = if self.spec.counts { 0..self.spec.feeds as usize } else { feed..feed + 1 };
                connection.watch(feeds, &self.spec);
                if let Err(error) = connection.flush() {
                    self.reconnect_later(number, &error);
                }
            }
        }
    }

    fn open(&mut self, number: usize) -> io::Result<()> {
        let connection = &mut self.connections[number];
        connection.connect(number as u32, self.addresses[connection.node])?;
        if let Some(stream) = &mut connection.stream {
            self.poll.registry().register(stream, Token(number), Interest::READABLE | Interest::WRITABLE)?;
        }
        connection.is_opening = true;
        self.opening += 1;
        Ok(())
    }

    /// A connection has all its feeds or was lost, so another one may open.
    pub(super) fn finish_opening(&mut self, number: usize) {
        if std::mem::take(&mut self.connections[number].is_opening) {
            self.opening -= 1;
        }
    }

    /// Closes a connection. A new one to the next node replaces it later.
    pub(super) fn reconnect_later(&mut self, number: usize, why: &io::Error) {
        match self.connections[number].stage {
            Stage::Disconnected => return,
            Stage::Upgrading(_) => {}
            Stage::Open => self.status.connected -= 1,
        }
        self.finish_opening(number);
        let connection = &mut self.connections[number];
        connection.close();
        // A restarted node numbers its feeds from the beginning.
        self.nodes[connection.node].frames.forget();
        connection.node = (connection.node + 1) % self.addresses.len();
        self.stats.lost += 1;
        self.stats.slow_lost += u64::from(connection.slow.is_some());
        self.to_connect.push_back((now_us() + RETRY_AFTER_US, number));
        self.note_error(format!("a watcher lost its connection: {why}"));
    }

    fn on_readable(&mut self, number: usize) -> io::Result<()> {
        if let Some(slow) = &mut self.connections[number].slow {
            // It reads when its turn comes.
            slow.is_readable = true;
            return Ok(());
        }
        self.read_all(number)
    }

    fn read_all(&mut self, number: usize) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut done = Ok(());
        loop {
            match self.connections[number].read(&mut buffer) {
                Ok(Some(bytes)) => {
                    done = self.on_bytes(number, &buffer[..bytes]);
                    // A short read emptied the socket. The poll reports it again when more arrives.
                    if done.is_err() || bytes < buffer.len() {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    done = Err(error);
                    break;
                }
            }
        }
        self.buffer = buffer;
        done?;
        let connection = &mut self.connections[number];
        if connection.out().is_empty() { Ok(()) } else { connection.flush() }
    }
}

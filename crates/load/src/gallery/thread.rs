//! The thread of a gallery: all its connections, and what they have received.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    net::SocketAddr,
    sync::mpsc,
    time::Duration,
};

use mio::{Events, Interest, Poll, Token, Waker};
use rustc_hash::FxHashMap;

use super::{
    Answer, Asked, GallerySpec, Mark, Order, Standing, Tally,
    frames::{Message, write_pong},
    link::{Link, Stage},
    now_us,
    seen::{Content, Frames, change},
    tally::{self, Latencies},
};

/// Connections that are not through with coming in at the same time: fewer than a server keeps until it accepts them.
const OPENING_MAX: usize = 256;

/// Sockets looked at in one go.
const EVENTS: usize = 1_024;

/// Bytes read in one go.
const BUFFER_BYTES: usize = 64 * 1024;

/// Before a connection that was lost is opened again, or a watch that failed is asked for again.
const AGAIN_US: u64 = 200_000;

/// How often it is looked whether something is due that no socket tells.
const TICK: Duration = Duration::from_millis(20);

const WAKER: Token = Token(usize::MAX);

pub(super) struct Thread {
    spec: GallerySpec,
    addresses: Vec<SocketAddr>,
    sessions: FxHashMap<String, usize>,
    orders: mpsc::Receiver<Asked>,
    poll: Poll,
    buffer: Vec<u8>,
    links: Vec<Link>,
    nodes: Vec<Node>,
    /// Links that are to be opened, and when.
    to_open: VecDeque<(u64, usize)>,
    opening: usize,
    /// Watches that are asked for again, and when.
    to_ask: VecDeque<(u64, usize, usize)>,
    standing: Standing,
    /// When counting began.
    begun_us: Option<u64>,
    tally: Tally,
    jumps: Vec<Jump>,
}

/// What is known of a node.
#[derive(Default)]
struct Node {
    frames: Frames,
    /// The sessions of its feeds.
    feeds: FxHashMap<u64, usize>,
}

/// A snapshot that brought a watcher forward who had something already.
struct Jump {
    session: usize,
    from: u64,
    to: u64,
    received: u32,
}

impl Thread {
    pub(super) fn new(spec: GallerySpec, orders: mpsc::Receiver<Asked>) -> io::Result<(Thread, Waker)> {
        let bad = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
        let address = |text: &String| text.parse().map_err(|_| bad(format!("{text} is no address as 127.0.0.1:7180")));
        let addresses = spec.addresses.iter().map(address).collect::<io::Result<Vec<SocketAddr>>>()?;
        if addresses.is_empty() || spec.feeds == 0 || spec.feeds as usize > spec.sessions.len() {
            return Err(bad("a gallery needs a node, and a session for each feed of a watcher".into()));
        }
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let wanted = u64::from(spec.watchers) * u64::from(spec.feeds);
        let thread = Thread {
            sessions: spec.sessions.iter().enumerate().map(|(place, name)| (name.clone(), place)).collect(),
            orders,
            poll,
            buffer: vec![0; BUFFER_BYTES],
            links: (0..spec.watchers).map(|number| Link::new(number, &spec)).collect(),
            nodes: addresses.iter().map(|_| Node::default()).collect(),
            addresses,
            to_open: (0..spec.watchers as usize).map(|number| (0, number)).collect(),
            opening: 0,
            to_ask: VecDeque::new(),
            standing: Standing { wanted, ..Standing::default() },
            begun_us: None,
            tally: Tally::default(),
            jumps: Vec::new(),
            spec,
        };
        Ok((thread, waker))
    }

    /// Until nobody can ask any more.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS);
        loop {
            self.do_what_is_due();
            let nothing_due = self.to_open.is_empty() && self.to_ask.is_empty();
            match self.poll.poll(&mut events, (!nothing_due).then_some(TICK)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return self.trouble(format!("the sockets cannot be waited for: {error}")),
            }
            for event in &events {
                if event.token() == WAKER {
                    if !self.answer_all() {
                        return;
                    }
                    continue;
                }
                let number = event.token().0;
                let mut done = Ok(());
                if event.is_writable() {
                    done = self.links[number].flush();
                }
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    done = done.and_then(|()| self.readable(number));
                }
                if let Err(error) = done {
                    self.lose(number, &error);
                }
            }
        }
    }

    fn trouble(&mut self, what: String) {
        self.standing.trouble.get_or_insert(what);
    }

    /// Opens connections and asks again, as far as their time has come.
    fn do_what_is_due(&mut self) {
        let now = now_us();
        while self.opening < OPENING_MAX
            && let Some((_, number)) = self.to_open.pop_front_if(|(at, _)| *at <= now)
        {
            if let Err(error) = self.open(number) {
                self.trouble(format!("a watcher cannot connect: {error}"));
                self.links[number].close();
                self.to_open.push_back((now + AGAIN_US, number));
                return;
            }
        }
        while let Some((_, number, place)) = self.to_ask.pop_front_if(|(at, ..)| *at <= now) {
            let link = &mut self.links[number];
            if matches!(link.stage, Stage::Open) {
                let places = if self.spec.counts { 0..self.spec.feeds as usize } else { place..place + 1 };
                link.watch(places, &self.spec);
                if let Err(error) = link.flush() {
                    self.lose(number, &error);
                }
            }
        }
    }

    fn open(&mut self, number: usize) -> io::Result<()> {
        let link = &mut self.links[number];
        link.connect(number as u32, self.addresses[link.node])?;
        if let Some(stream) = &mut link.stream {
            self.poll.registry().register(stream, Token(number), Interest::READABLE | Interest::WRITABLE)?;
        }
        link.is_opening = true;
        self.opening += 1;
        Ok(())
    }

    /// A connection is over; another one is opened to the next node.
    fn lose(&mut self, number: usize, why: &io::Error) {
        let link = &mut self.links[number];
        match link.stage {
            Stage::Away => return,
            Stage::Upgrading(_) => {}
            Stage::Open => self.standing.connected -= 1,
        }
        if std::mem::take(&mut link.is_opening) {
            self.opening -= 1;
        }
        link.close();
        // A node that starts again counts its feeds anew.
        self.nodes[link.node].frames.forget();
        link.node = (link.node + 1) % self.addresses.len();
        self.tally.lost += 1;
        self.to_open.push_back((now_us() + AGAIN_US, number));
        self.trouble(format!("a watcher lost its connection: {why}"));
    }

    fn readable(&mut self, number: usize) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut done = Ok(());
        loop {
            match self.links[number].read(&mut buffer) {
                Ok(Some(bytes)) => {
                    done = self.take(number, &buffer[..bytes]);
                    // A short read has emptied the socket, and more will be told.
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
        let link = &mut self.links[number];
        if link.out().is_empty() { Ok(()) } else { link.flush() }
    }

    /// Takes in what was read of a connection.
    fn take(&mut self, number: usize, bytes: &[u8]) -> io::Result<()> {
        let link = &mut self.links[number];
        if matches!(link.stage, Stage::Upgrading(_)) {
            let Some(behind) = link.upgraded(bytes)? else { return Ok(()) };
            link.watch(0..self.spec.feeds as usize, &self.spec);
            self.standing.connected += 1;
            return self.take(number, &behind);
        }
        self.tally.bytes += bytes.len() as u64;
        let received_us = now_us();
        let mut inbound = std::mem::take(&mut link.inbound);
        let mut done = Ok(());
        let whole = inbound.take(bytes, |message| match message {
            Message::Text(text) => self.text(number, text, received_us),
            Message::Binary(_) => done = Err(io::Error::other("the server sends bytes where text was agreed on")),
            Message::Ping(payload) => write_pong(self.links[number].out(), payload),
            Message::Close(code) => done = Err(io::Error::other(format!("the server closes with code {code:?}"))),
        });
        self.links[number].inbound = inbound;
        whole.map_err(|_| io::Error::other("the server does not speak WebSocket"))?;
        done
    }

    /// Takes a frame in.
    fn text(&mut self, number: usize, text: &[u8], received_us: u64) {
        let Thread { links, nodes, spec, tally, standing, .. } = self;
        let link = &mut links[number];
        let Node { frames, feeds } = &mut nodes[link.node];
        let place = match frames.recognize(text) {
            Ok(place) => place,
            Err(error) => return self.trouble(format!("{}: {error}", String::from_utf8_lossy(text))),
        };
        let seen = &mut frames.seen[place];
        match &seen.content {
            Content::Delta { feed, from, to, changes } => {
                let Some(session) = feeds.get(feed).copied() else {
                    tally.stale += 1;
                    return;
                };
                let Some(stand) = link.stand(session, spec.sessions.len()) else { return };
                if !stand.is_whole || *to <= stand.version {
                    tally.stale += 1;
                } else if *from > stand.version {
                    tally.skipped += 1;
                    let place =
                        (session + spec.sessions.len() - link.session(0, spec.sessions.len())) % spec.sessions.len();
                    self.to_ask.push_back((received_us, number, place));
                } else {
                    tally.versions += *to - stand.version;
                    stand.version = *to;
                    if spec.keep_maps && !change(&mut stand.map, changes) {
                        tally.wrong += 1;
                    }
                    tally.deltas += 1;
                    if let Some(begun_us) = self.begun_us {
                        seen.session = session;
                        seen.receipts.push(since(begun_us, received_us));
                    }
                }
            }
            Content::Snapshot { feed, entity, epoch, version, seats } => {
                let Some(session) = entity.strip_prefix("session/").and_then(|name| self.sessions.get(name)) else {
                    return;
                };
                let session = *session;
                feeds.insert(*feed, session);
                let Some(stand) = link.stand(session, spec.sessions.len()) else { return };
                let before = stand.is_whole.then_some((stand.epoch, stand.version));
                if before.is_some_and(|(its, before)| its == *epoch && before > *version) {
                    tally.wrong += 1;
                    return;
                }
                stand.epoch = *epoch;
                stand.version = *version;
                stand.is_whole = true;
                if spec.keep_maps {
                    stand.map.clone_from(seats);
                }
                match before {
                    None => {
                        standing.whole += 1;
                        link.whole += 1;
                        if link.whole == spec.feeds && std::mem::take(&mut link.is_opening) {
                            self.opening -= 1;
                        }
                    }
                    Some((its, from)) => {
                        tally.snapshots += 1;
                        tally.versions += version.saturating_sub(from);
                        let goes_on = its == *epoch && *version > from;
                        tally.stale += u64::from(its == *epoch && *version == from);
                        if let (Some(begun_us), true) = (self.begun_us, goes_on) {
                            let received = since(begun_us, received_us);
                            self.jumps.push(Jump { session, from, to: *version, received });
                        }
                        if std::mem::take(&mut link.is_opening) {
                            self.opening -= 1;
                        }
                    }
                }
            }
            Content::Watching { request, feed } => {
                let session = link.session(*request as usize - 1, spec.sessions.len());
                feeds.insert(*feed, session);
                // Whoever takes a feed up again may get nothing until there is something new.
                if link.whole == spec.feeds && std::mem::take(&mut link.is_opening) {
                    self.opening -= 1;
                }
            }
            Content::Counting { feeds: counted, missing } => {
                for (session, feed) in counted {
                    if let Some(session) = self.sessions.get(session) {
                        feeds.insert(*feed, *session);
                    }
                }
                if *missing > 0 {
                    let what = format!("{missing} sessions are not there");
                    self.trouble(what);
                }
            }
            Content::NotGranted { request, name, for_now } => {
                let what = format!("a watch is not granted: {name}");
                if let (Some(request), true) = (*request, *for_now) {
                    self.to_ask.push_back((received_us + AGAIN_US, number, request as usize - 1));
                    return;
                }
                self.trouble(what);
            }
            Content::Ended { .. } => tally.ended += 1,
            Content::Other => {}
        }
    }

    /// Answers what was asked; whether anybody can ask more.
    fn answer_all(&mut self) -> bool {
        loop {
            match self.orders.try_recv() {
                Ok(Asked(order, sender)) => {
                    // Whoever asked may have gone away.
                    let _ = sender.send(self.answer(order));
                }
                Err(mpsc::TryRecvError::Empty) => return true,
                Err(mpsc::TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn answer(&mut self, order: Order) -> Answer {
        match order {
            Order::Look => Answer::Standing(self.standing.clone()),
            Order::Begin => {
                self.nodes.iter_mut().for_each(|node| node.frames.clear());
                self.jumps.clear();
                self.tally = Tally::default();
                self.begun_us = Some(now_us());
                Answer::Begun
            }
            Order::Reached(versions) => self.reached(&versions),
            Order::Tell(marks) => {
                let latencies = self.latencies(&marks);
                Answer::Told(Box::new(Tally { latencies, ..self.tally.clone() }))
            }
            Order::Compare { session, version, seats } => self.compare(session as usize, version, &seats),
        }
    }

    fn reached(&mut self, versions: &[(u32, u64)]) -> Answer {
        let wanted: BTreeMap<usize, u64> =
            versions.iter().map(|(session, version)| (*session as usize, *version)).collect();
        let sessions = self.spec.sessions.len();
        let mut behind = 0;
        for link in &mut self.links {
            for place in 0..link.stands.len() {
                let Some(version) = wanted.get(&link.session(place, sessions)) else { continue };
                behind += u64::from(link.stands[place].version < *version);
            }
        }
        let brought = |session: usize, from: u64, to: u64| {
            wanted.get(&session).is_some_and(|version| from < *version && *version <= to)
        };
        let of_deltas = self.nodes.iter().flat_map(|node| &node.frames.seen).filter_map(|seen| match seen.content {
            Content::Delta { from, to, .. } if brought(seen.session, from, to) => seen.receipts.last().copied(),
            _ => None,
        });
        let of_jumps = self.jumps.iter().filter(|jump| brought(jump.session, jump.from, jump.to));
        let last = of_deltas.chain(of_jumps.map(|jump| jump.received)).max();
        let last_us = last.map_or(0, |last| self.begun_us.unwrap_or(0) + u64::from(last));
        Answer::Reached { behind, last_us }
    }

    /// From each change to each receipt of it.
    fn latencies(&self, marks: &[Mark]) -> Latencies {
        let begun_us = self.begun_us.unwrap_or(0);
        let made: BTreeMap<(usize, u64), u64> =
            marks.iter().map(|mark| ((mark.session as usize, mark.version), mark.at_us)).collect();
        let mut histogram = tally::histogram();
        let mut add = |session: usize, from: u64, to: u64, receipts: &[u32]| {
            for (_, made_us) in made.range((session, from + 1)..=(session, to)) {
                for received in receipts {
                    let latency_us = (begun_us + u64::from(*received)).saturating_sub(*made_us);
                    histogram.record(latency_us).expect("a histogram that grows");
                }
            }
        };
        for seen in self.nodes.iter().flat_map(|node| &node.frames.seen) {
            if let Content::Delta { from, to, .. } = seen.content {
                add(seen.session, from, to, &seen.receipts);
            }
        }
        for Jump { session, from, to, received } in &self.jumps {
            add(*session, *from, *to, &[*received]);
        }
        Latencies::of(&histogram)
    }

    fn compare(&mut self, session: usize, version: u64, seats: &[u8]) -> Answer {
        let (mut same, mut different, mut example) = (0, 0, None);
        let sessions = self.spec.sessions.len();
        for (number, link) in self.links.iter_mut().enumerate() {
            let node = link.node;
            let Some(stand) = link.stand(session, sessions) else { continue };
            if stand.version == version && stand.map == seats {
                same += 1;
            } else {
                different += 1;
                example.get_or_insert_with(|| {
                    format!("watcher {number} at node {node} is at version {} and not {version}", stand.version)
                });
            }
        }
        Answer::Compared { same, different, example }
    }
}

/// Microseconds since counting began; it never lasts for an hour.
fn since(begun_us: u64, now_us: u64) -> u32 {
    u32::try_from(now_us.saturating_sub(begun_us)).unwrap_or(u32::MAX)
}

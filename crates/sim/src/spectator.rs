//! A watcher. It watches sessions, products and customers at any node, reads slowly or pauses, leaves, and resumes at
//! another node. At each version it must see what all other clients see, in either encoding and from any node, and at
//! the end the current state (P14).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use boxoffice_core::{
    answer::{Answer, AreaCounts, SeatCounts},
    command::{Command, SessionCommand},
    id::{Entity, Id},
};
use boxoffice_feeds::{FeedEvent, NoFeed, View, Watcher, Watching};
use boxoffice_wire::{
    Encoding,
    body::{PurchaseCursor, Resume},
    call::Since,
    feed::{CountsSnapshot, Delta, ProductSnapshot, PurchasesSnapshot, Snapshot, SnapshotBody},
    reply::{Event, RawEvent, ServerFrame},
};
use bytes::Bytes;
use rand::{
    Rng,
    rngs::SmallRng,
    seq::{IndexedRandom, IteratorRandom},
};
use tokio::{sync::watch, time::sleep};

use crate::{
    client_stub::ClientStub,
    fixture::{self, Fixture},
    machine::Machine,
    rng::{around, rng},
    settings::Settings,
    shown::Shown,
};

/// Mean pauses between two pulls, in milliseconds.
const LOOKS_AWAY_MS: [u64; 4] = [30, 300, 3_000, 20_000];
/// Limits of a pull, in bytes. With [`PULL_BYTES_BEHIND`] it pulls as a connection does whose client is behind, in short frames.
const PULL_BYTES: [usize; 3] = [1, PULL_BYTES_BEHIND, 1 << 16];
const PULL_BYTES_BEHIND: usize = 400;
/// It leaves once in this many pulls, and unwatches a feed as often.
const LEAVES: u32 = 25;
/// Customers whose purchases it watches.
const CUSTOMERS: usize = 2;
/// The limit until it sees the final state, in milliseconds after healing.
const SEES_ALL_MS: u64 = 120_000;

/// A watched entity in a view.
type Subject = (Entity, View);

/// The last state that it has seen.
enum LastSeen {
    Session { epoch: u64, version: u64, seats: Vec<u8>, counts: SeatCounts, areas: Vec<AreaCounts> },
    Counts { version: u64 },
    Product { epoch: u64, version: u64 },
    Purchases { epoch: u64, cursor: u64 },
}

impl LastSeen {
    fn version(&self) -> u64 {
        match self {
            LastSeen::Session { version, .. } | LastSeen::Counts { version } | LastSeen::Product { version, .. } => {
                *version
            }
            LastSeen::Purchases { cursor, .. } => *cursor,
        }
    }

    fn since(&self) -> Option<Since> {
        match self {
            LastSeen::Session { epoch, version, .. } | LastSeen::Product { epoch, version } => {
                Some(Since::Version(Resume { epoch: *epoch, version: *version }))
            }
            LastSeen::Counts { .. } => None,
            LastSeen::Purchases { epoch, cursor } => {
                Some(Since::Cursor(PurchaseCursor { epoch: Some(*epoch), cursor: *cursor }))
            }
        }
    }
}

/// Its watcher at one process of a node.
struct Attachment {
    machine: Arc<Machine>,
    life: u64,
    watcher: Watcher,
    feeds: BTreeMap<u64, Subject>,
    awaited: BTreeMap<u64, Subject>,
    /// Feeds that were reported as stale.
    stale: BTreeSet<u64>,
}

/// One spectator.
pub(crate) struct Spectator {
    name: String,
    client: Arc<ClientStub>,
    fixture: Arc<Fixture>,
    rng: SmallRng,
    encoding: Encoding,
    attachment: Option<Attachment>,
    last_seen: BTreeMap<Subject, LastSeen>,
    next_tag: u64,
}

impl Spectator {
    /// The spectator with this number. Even ones read JSON, odd ones MessagePack.
    pub(crate) fn new(number: u64, settings: &Settings, client: Arc<ClientStub>, fixture: Arc<Fixture>) -> Spectator {
        let encoding = if number.is_multiple_of(2) { Encoding::Json } else { Encoding::MsgPack };
        let (name, rng) = (format!("spectator {number}"), rng(settings.seed, "spectator", number));
        Spectator { name, client, fixture, rng, encoding, attachment: None, last_seen: BTreeMap::new(), next_tag: 0 }
    }

    /// Watches until told to stop, and then until it has seen the final state.
    pub(crate) async fn run(mut self, stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let away_ms = *LOOKS_AWAY_MS.choose(&mut self.rng).expect("there are some");
            sleep(Duration::from_millis(around(&mut self.rng, away_ms))).await;
            self.look();
        }
        let until_ms = self.client.trace.now_ms() + SEES_ALL_MS;
        loop {
            self.attach();
            self.watch_all(1);
            sleep(Duration::from_millis(100)).await;
            self.pull(1 << 20);
            let Some(what) = self.missing().await else { return };
            if self.client.trace.now_ms() > until_ms {
                return self.wrong(&format!("{SEES_ALL_MS} ms after all was done {what}; {}", self.position_text()));
            }
            sleep(Duration::from_millis(500)).await;
        }
    }

    /// Its node and feeds in words.
    fn position_text(&self) -> String {
        let Some(attachment) = &self.attachment else { return "it sits nowhere".into() };
        let known = attachment.feeds.iter().chain(&attachment.awaited);
        let known: Vec<String> = known.map(|(feed, (entity, view))| format!("{feed}: {entity} {view:?}")).collect();
        let (node, stale, status) =
            (attachment.machine.number, &attachment.stale, attachment.machine.handle().map(|handle| handle.status()));
        format!("it sits at node {node} and watches {known:?}, behind {stale:?}; {status:?}")
    }

    fn wrong(&self, what: &str) {
        self.client.oracle.lock().violation(format!("{}: {what}", self.name));
    }

    fn look(&mut self) {
        if self.rng.random_ratio(1, LEAVES) {
            self.attachment = None;
        }
        self.attach();
        // A paused node sends nothing.
        if self.attachment.as_ref().is_none_or(|attachment| attachment.machine.handle().is_none()) {
            return;
        }
        self.watch_all(2);
        if self.rng.random_ratio(1, LEAVES) {
            self.unwatch_one();
        }
        let bytes_max = *PULL_BYTES.choose(&mut self.rng).expect("there are some");
        self.pull(bytes_max);
    }

    /// Attaches to a running node, unless the current one still runs.
    fn attach(&mut self) {
        let is_running =
            |attachment: &Attachment| attachment.machine.life() == attachment.life && !attachment.machine.is_off();
        if self.attachment.as_ref().is_some_and(is_running) {
            return;
        }
        let members = self.client.members();
        let running = members.iter().filter_map(|machine| Some((machine, machine.handle()?)));
        self.attachment = running.choose(&mut self.rng).map(|(machine, handle)| Attachment {
            machine: Arc::clone(machine),
            life: machine.life(),
            watcher: handle.feeds().watcher(),
            feeds: BTreeMap::new(),
            awaited: BTreeMap::new(),
            stale: BTreeSet::new(),
        });
    }

    fn subjects(&self) -> Vec<Subject> {
        let sessions = self.fixture.sold_now().into_iter().map(Entity::Session);
        let mut subjects: Vec<Subject> =
            sessions.flat_map(|session| [(session.clone(), View::Whole), (session, View::Counts)]).collect();
        subjects.extend(self.fixture.products().map(|product| (Entity::Product(product), View::Whole)));
        let customers = self.fixture.customers().take(CUSTOMERS);
        subjects.extend(customers.map(|customer| (Entity::Customer(customer), View::Whole)));
        subjects
    }

    /// Watches further subjects, each with a chance of one in `odds`.
    fn watch_all(&mut self, odds: u32) {
        for subject in self.subjects() {
            if self.rng.random_ratio(1, odds) {
                self.watch(subject);
            }
        }
    }

    fn watch(&mut self, subject: Subject) {
        let Some(attachment) = &mut self.attachment else { return };
        if attachment.feeds.values().chain(attachment.awaited.values()).any(|known| *known == subject) {
            return;
        }
        self.next_tag += 1;
        let since = self.last_seen.get(&subject).and_then(LastSeen::since);
        match attachment.watcher.watch(&subject.0, subject.1, since, self.next_tag) {
            Ok(Watching::Begun(feed)) => {
                attachment.watcher.release(feed);
                attachment.feeds.insert(feed, subject);
            }
            Ok(Watching::Awaited) => _ = attachment.awaited.insert(self.next_tag, subject),
            // A lagging node may not know it yet.
            Err(NoFeed::NotFound | NoFeed::Unreachable | NoFeed::Pending) => {}
        }
    }

    fn unwatch_one(&mut self) {
        let Some(attachment) = &mut self.attachment else { return };
        if let Some(feed) = attachment.feeds.keys().copied().choose(&mut self.rng) {
            attachment.feeds.remove(&feed);
            attachment.stale.remove(&feed);
            assert!(attachment.watcher.unwatch(feed), "{} watches {feed}", self.name);
        }
    }

    fn pull(&mut self, bytes_max: usize) {
        let Some(attachment) = &mut self.attachment else { return };
        let mut events = Vec::new();
        match bytes_max {
            PULL_BYTES_BEHIND => attachment.watcher.pull_behind(self.encoding, bytes_max, |event| events.push(event)),
            _ => attachment.watcher.pull(self.encoding, bytes_max, |event| events.push(event)),
        };
        for event in events {
            match event {
                FeedEvent::Begun { tag, feed } => {
                    let Some(attachment) = &mut self.attachment else { return };
                    let subject = attachment.awaited.remove(&tag).expect("an answer to what was asked");
                    attachment.feeds.insert(feed, subject);
                    attachment.watcher.release(feed);
                }
                FeedEvent::Refused { tag, why: _ } => {
                    let Some(attachment) = &mut self.attachment else { return };
                    attachment.awaited.remove(&tag).expect("an answer to what was asked");
                }
                FeedEvent::Frame(frame) => {
                    if let Err(what) = self.take(&frame) {
                        self.wrong(&what);
                    }
                }
            }
        }
    }

    /// Processes a frame. The error is a violation.
    fn take(&mut self, frame: &Bytes) -> Result<(), String> {
        let read = ServerFrame::read(self.encoding, frame).map_err(|error| error.to_string())?;
        let ServerFrame::Feed(feed, event) = read else { return Err(format!("{read:?} is not of a feed")) };
        let attachment = self.attachment.as_mut().expect("frames come from somewhere");
        let Some(subject) = attachment.feeds.get(&feed).cloned() else {
            return Err(format!("feed {feed} was given up, or never begun"));
        };
        if matches!(event, RawEvent::Ended(_)) {
            attachment.feeds.remove(&feed);
            attachment.stale.remove(&feed);
            return Ok(());
        }
        if let RawEvent::Stale(stale_ms) = event {
            let is_news = if stale_ms > 0 { attachment.stale.insert(feed) } else { attachment.stale.remove(&feed) };
            return if is_news { Ok(()) } else { Err(format!("{subject:?} is told twice to be {stale_ms} ms old")) };
        }
        let at = self.last_seen.remove(&subject);
        let last_seen = match (&subject.0, subject.1) {
            (Entity::Session(session), View::Whole) => self.session(session, at, self.event::<Snapshot>(event)?)?,
            (Entity::Session(session), View::Counts) => {
                self.counts(session, at, self.event::<CountsSnapshot>(event)?)?
            }
            (Entity::Product(_), _) => self.product(&subject.0, at, self.event::<ProductSnapshot>(event)?)?,
            (Entity::Customer(_), _) => self.purchases(&subject.0, at, self.event::<PurchasesSnapshot>(event)?)?,
            (other, _) => return Err(format!("{other} is not watched")),
        };
        self.last_seen.insert(subject, last_seen);
        Ok(())
    }

    fn event<S: SnapshotBody>(&self, event: RawEvent<'_>) -> Result<Event<S>, String> {
        event.read(self.encoding).map_err(|error| error.to_string())
    }

    fn session(&self, session: &Id, at: Option<LastSeen>, event: Event<Snapshot>) -> Result<LastSeen, String> {
        let (epoch, version, seats, counts, areas) = match event {
            Event::Snapshot(now) => {
                not_back(session, at.as_ref(), now.version)?;
                (now.epoch, now.version, now.seats, now.counts, now.areas)
            }
            Event::Delta(delta) => {
                let Some(LastSeen::Session { epoch, version, mut seats, areas, .. }) = at else {
                    return Err(format!("{session}: a delta from {} comes before a snapshot", delta.from));
                };
                follows(session, version, (delta.from, delta.to))?;
                let areas = apply(&delta, &mut seats, areas);
                (epoch, delta.to, seats, delta.counts, areas)
            }
            Event::Ended(_) | Event::Stale(_) => unreachable!("taken before"),
        };
        let all = counts.free + counts.held + counts.sold + counts.blocked;
        if counted(&seats, all) != counts {
            return Err(format!("{session} at {version}: {counts:?} are not the counts of its seats (P5)"));
        }
        self.shown(Entity::Session(session.clone()), version, Shown::Counts(counts, areas.clone()));
        let shown = Shown::Map(seats.clone(), areas.clone());
        self.shown(Entity::Session(session.clone()), version, shown);
        Ok(LastSeen::Session { epoch, version, seats, counts, areas })
    }

    fn counts(&self, session: &Id, at: Option<LastSeen>, event: Event<CountsSnapshot>) -> Result<LastSeen, String> {
        let (version, counts, areas) = match event {
            Event::Snapshot(now) => (now.version, now.counts, Some(now.areas)),
            Event::Delta(delta) => {
                let version = at.map(|last_seen| last_seen.version()).unwrap_or_default();
                follows(session, version, (delta.from, delta.to))?;
                (delta.to, delta.counts, None)
            }
            Event::Ended(_) | Event::Stale(_) => unreachable!("taken before"),
        };
        if let Some(areas) = areas {
            self.shown(Entity::Session(session.clone()), version, Shown::Counts(counts, areas));
        }
        Ok(LastSeen::Counts { version })
    }

    fn product(
        &self,
        product: &Entity,
        at: Option<LastSeen>,
        event: Event<ProductSnapshot>,
    ) -> Result<LastSeen, String> {
        let (epoch, version, counts) = match event {
            Event::Snapshot(now) => {
                not_back(product, at.as_ref(), now.version)?;
                (now.epoch, now.version, now.counts)
            }
            Event::Delta(delta) => {
                let Some(LastSeen::Product { epoch, version }) = at else {
                    return Err(format!("{product}: a delta from {} comes before a snapshot", delta.from));
                };
                follows(product, version, (delta.from, delta.to))?;
                (epoch, delta.to, delta.counts)
            }
            Event::Ended(_) | Event::Stale(_) => unreachable!("taken before"),
        };
        self.shown(product.clone(), version, Shown::Stock(counts));
        Ok(LastSeen::Product { epoch, version })
    }

    fn purchases(
        &self,
        of: &Entity,
        at: Option<LastSeen>,
        event: Event<PurchasesSnapshot>,
    ) -> Result<LastSeen, String> {
        let (epoch_before, cursor) = match at {
            Some(LastSeen::Purchases { epoch, cursor }) => (Some(epoch), cursor),
            _ => (None, 0),
        };
        let (epoch, from, to, purchases) = match event {
            Event::Snapshot(page) => (page.epoch.ok_or("a snapshot has no epoch")?, page.from, page.to, page.purchases),
            Event::Delta(delta) => (epoch_before.ok_or("a delta came first")?, delta.from, delta.to, delta.purchases),
            Event::Ended(_) | Event::Stale(_) => unreachable!("taken before"),
        };
        // In another epoch it begins anew.
        let cursor = if epoch_before.is_none_or(|before| before == epoch) { cursor } else { 0 };
        if from != cursor || purchases.iter().map(|purchase| purchase.cursor).ne(from + 1..=to) {
            return Err(format!("{of}: purchases {from} to {to} came after {cursor}: {purchases:?}"));
        }
        for purchase in purchases {
            self.shown(of.clone(), purchase.cursor, Shown::Purchase(purchase.order));
        }
        Ok(LastSeen::Purchases { epoch, cursor: to })
    }

    fn shown(&self, entity: Entity, version: u64, shown: Shown) {
        self.client.oracle.lock().shown(&self.name, entity, version, shown);
    }

    /// A subject whose final state it does not see, in words.
    async fn missing(&mut self) -> Option<String> {
        for subject in self.subjects() {
            let audit = self.client.read(&mut self.rng, &self.name, fixture::audit_of(&subject.0)).await?;
            let Ok(answered) = audit else { return Some(format!("{} has no audit: {audit:?}", subject.0)) };
            let version = match &answered.answer {
                Answer::CustomerAudit(_) => continue,
                _ => answered.at.iter().find(|at| at.entity == subject.0)?.version,
            };
            match self.last_seen.get(&subject) {
                Some(last_seen) if last_seen.version() == version => {}
                last_seen => {
                    let sees = last_seen.map(LastSeen::version);
                    return Some(format!("{} is at {version} and it sees {sees:?} of {:?}", subject.0, subject.1));
                }
            }
            if let (Some(LastSeen::Session { counts, .. }), Answer::SessionAudit(audit)) =
                (self.last_seen.get(&subject), &answered.answer)
                && *counts != audit.counts
            {
                return Some(format!("{} at {version} has {:?} and it sees {counts:?}", subject.0, audit.counts));
            }
            if let Entity::Session(session) = &subject.0 {
                // The oracle compares the map with the states that watchers have seen.
                self.client
                    .read(&mut self.rng, &self.name, Command::Session(session.clone(), SessionCommand::Map))
                    .await?
                    .ok()?;
            }
        }
        let stale = self.attachment.as_ref().and_then(|attachment| attachment.stale.first());
        stale.map(|feed| format!("feed {feed} is still said to be behind"))
    }
}

/// Checks that a delta follows a version. It may begin before it, because deltas contain states.
fn follows(of: &impl std::fmt::Display, version: u64, (from, to): (u64, u64)) -> Result<(), String> {
    match from <= version && to > version {
        true => Ok(()),
        false => Err(format!("{of}: a delta from {from} to {to} came at {version}")),
    }
}

/// Checks that a resumed watcher does not go back.
fn not_back(of: &impl std::fmt::Display, at: Option<&LastSeen>, version: u64) -> Result<(), String> {
    match at.map(LastSeen::version).filter(|at| version < *at) {
        None => Ok(()),
        Some(at) => Err(format!("{of}: a snapshot at {version} came at {at}")),
    }
}

fn apply(delta: &Delta, seats: &mut [u8], mut areas: Vec<AreaCounts>) -> Vec<AreaCounts> {
    for (seat, state) in &delta.changes {
        let (byte, shift) = ((seat / 4) as usize, seat % 4 * 2);
        seats[byte] = seats[byte] & !(3 << shift) | (*state as u8) << shift;
    }
    for area in &delta.areas {
        if let Some(mine) = areas.iter_mut().find(|mine| mine.area == area.area) {
            mine.clone_from(area);
        }
    }
    areas
}

/// Counts seats by state, from two bits each.
fn counted(seats: &[u8], all: u32) -> SeatCounts {
    let mut counts = SeatCounts { free: 0, held: 0, sold: 0, blocked: 0 };
    for seat in 0..all {
        match seats[(seat / 4) as usize] >> (seat % 4 * 2) & 3 {
            0 => counts.free += 1,
            1 => counts.held += 1,
            2 => counts.sold += 1,
            _ => counts.blocked += 1,
        }
    }
    counts
}

//! The buyers of one generator, all on one thread. A buyer costs little more than its frames, so one processor offers many times
//! what another one can sell.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use boxoffice_client::{NextCall, Order};
use boxoffice_wire::{
    Encoding, FailKind, Op,
    body::Unwatch,
    reply::{RawVerdict, Reply, ServerFrame, Watching, request},
    view::Held,
};
use bytes::BytesMut;
use mio::{Events, Interest, Poll, Token};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::time::Instant;

use super::{
    connection::BuyerConnection,
    phase_stats::PhaseStats,
    purchase::{Purchase, PurchaseId, Step, WaitingPurchase},
};
use crate::{flow::Flow, run_context::RunContext};

/// What each connection waits for.
const INTEREST: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// Bytes of one read.
const READ_BYTES: usize = 256 * 1024;

/// How often the buyers look for purchases whose client gives up, in microseconds.
const EXPIRE_EVERY_US: u64 = 100_000;

/// The pause before a client that ignores `retry_after_ms` repeats its checkout, in microseconds.
const IMPATIENT_US: u64 = 10_000;

/// The id of requests whose answers are ignored. No purchase has it.
const UNWATCH_ID: u64 = u32::MAX as u64;

/// The most purchases that begin between two reads of answers.
const BEGINS_A_POLL_MAX: u64 = 2_048;

/// The part of a run's purchase numbers that belongs to one generator: every `of`-th one.
#[derive(Clone, Copy, Debug)]
pub(super) struct GeneratorPart {
    pub(super) index: u32,
    pub(super) of: u32,
}

/// Blocks of seats, each for one purchase. All generators take theirs from here.
pub(super) struct UntriedBlocks {
    number: u32,
    next: AtomicU32,
}

impl UntriedBlocks {
    /// The blocks of the house, one for each purchase that it has room for.
    pub(super) fn of(context: &RunContext) -> UntriedBlocks {
        let house = context.picker.as_ref().expect("the scenario check requires seats for [overload]").house();
        let seats = context.scenario.flow.as_ref().map_or(1, |flow| flow.seats);
        let of_group = house.sessions_of_group() * (house.seats_of_session() / u32::from(seats));
        UntriedBlocks { number: of_group * house.groups, next: AtomicU32::new(0) }
    }

    /// `None` if all were taken.
    fn next(&self) -> Option<u32> {
        let block = self.next.fetch_add(1, Ordering::Relaxed);
        (block < self.number).then_some(block)
    }
}

/// What became of the purchases of a phase.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PhaseEnds {
    /// Those that got their seats.
    pub(super) granted: u64,
    /// Those of them that did not buy them, as far as their clients know.
    pub(super) not_bought: u64,
}

/// The load model: when a buyer begins a purchase.
#[derive(Clone, Copy, Debug)]
pub(super) enum LoadModel {
    /// This many clients, each of which begins its next purchase when its last one has ended.
    Closed(u32),
    /// A rate that does not depend on how purchases end.
    Open {
        /// Purchases a second.
        per_s: f64,
        /// Whether the clients obey `retry_after_ms`.
        obeys: bool,
    },
}

pub(super) struct Buyers {
    context: Arc<RunContext>,
    addresses: Vec<String>,
    poll: Poll,
    connections: Vec<BuyerConnection>,
    purchases: Vec<Option<Purchase>>,
    free: Vec<PurchaseId>,
    generations: Vec<u32>,
    /// The blocks of seats of all generators, and those that came back to this one because their holds were refused.
    blocks: Arc<UntriedBlocks>,
    returned: Vec<u32>,
    /// Times and generations of checkouts to repeat, in no order.
    repeats: VecDeque<(u64, PurchaseId, u32)>,
    part: GeneratorPart,
    next_number: u32,
    next_connection: usize,
    stats: PhaseStats,
    flows: Vec<Flow>,
    rng: SmallRng,
    load_model: LoadModel,
    began_us: u64,
    /// Purchases begun since the phase began.
    begun: u64,
    /// The purchases that have seats in mind.
    under_way: u32,
    /// New purchases that wait for their turn.
    waiting: u32,
    expired_us: u64,
    /// By phase.
    ends: Vec<PhaseEnds>,
    is_sold_out: bool,
    /// A purchase also watches its cart, as the page does.
    watches: bool,
    frame: BytesMut,
}

impl Buyers {
    /// Opens all connections, spread over the nodes, after this many phases.
    pub(super) fn connect(
        addresses: &[String],
        connections: u32,
        (part, phases): (GeneratorPart, usize),
        (context, blocks): (Arc<RunContext>, Arc<UntriedBlocks>),
    ) -> io::Result<Buyers> {
        let poll = Poll::new()?;
        // All at once: a crowded node answers each after some 0.2 s, and closes the first ones if no frame comes within 10 s.
        let mut all = std::thread::scope(|scope| {
            let addresses = addresses.iter().cycle().take(connections as usize);
            let connecting: Vec<_> =
                addresses.map(|address| scope.spawn(|| BuyerConnection::connect(address))).collect();
            let connected = connecting.into_iter().map(|thread| thread.join().expect("connecting does not panic"));
            connected.collect::<io::Result<Vec<BuyerConnection>>>()
        })?;
        for (number, connection) in all.iter_mut().enumerate() {
            poll.registry().register(&mut connection.stream, Token(number), INTEREST)?;
        }
        Ok(Buyers {
            addresses: addresses.to_vec(),
            poll,
            connections: all,
            purchases: Vec::new(),
            free: Vec::new(),
            generations: Vec::new(),
            blocks,
            returned: Vec::new(),
            repeats: VecDeque::new(),
            part,
            next_number: part.index,
            next_connection: 0,
            stats: PhaseStats::default(),
            flows: Vec::new(),
            rng: SmallRng::seed_from_u64(context.run_seed.seed.wrapping_add(part.index.into())),
            load_model: LoadModel::Closed(0),
            began_us: 0,
            begun: 0,
            under_way: 0,
            waiting: 0,
            expired_us: 0,
            ends: vec![PhaseEnds::default(); phases],
            is_sold_out: false,
            watches: context.scenario.overload.as_ref().is_some_and(|spec| spec.watches),
            frame: BytesMut::new(),
            context,
        })
    }

    /// Begins a phase. Returns its number.
    pub(super) fn begin(&mut self, load_model: LoadModel) -> usize {
        self.began_us = self.now_us();
        (self.load_model, self.begun) = (load_model, 0);
        self.measure();
        self.ends.push(PhaseEnds::default());
        self.ends.len() - 1
    }

    /// Forgets the statistics of the phase so far. Its load goes on.
    pub(super) fn measure(&mut self) {
        self.stats = PhaseStats::default();
    }

    /// What has become of the purchases of this phase so far. `None` if it had no such phase.
    pub(super) fn ends_of(&self, phase: usize) -> Option<PhaseEnds> {
        self.ends.get(phase).copied()
    }

    /// Purchases of all phases that got their seats and did not buy them, as far as their clients know.
    pub(super) fn left_holding(&self) -> u64 {
        self.ends.iter().map(|ends| ends.not_bought).sum()
    }

    /// How many phases have begun.
    pub(super) fn phases(&self) -> usize {
        self.ends.len()
    }

    /// Its part of the seats and numbers.
    pub(super) fn part(&self) -> GeneratorPart {
        self.part
    }

    /// Whether all seats were tried.
    pub(super) fn is_sold_out(&self) -> bool {
        self.is_sold_out
    }

    /// Microseconds since the run's start.
    pub(super) fn now_us(&self) -> u64 {
        self.context.now_us()
    }

    /// The statistics since the phase began.
    pub(super) fn stats(&self) -> &PhaseStats {
        &self.stats
    }

    /// Drops all purchases that wait for the concurrency limit of their connection. They hold nothing.
    pub(super) fn drop_waiting(&mut self) {
        for connection in 0..self.connections.len() {
            for waiting in self.connections[connection].waiting.take_all() {
                self.drop_purchase(waiting);
            }
        }
    }

    fn drop_purchase(&mut self, waiting: WaitingPurchase) {
        match waiting {
            WaitingPurchase::New { .. } => self.waiting -= 1,
            WaitingPurchase::Again(id) => self.cancel(id),
        }
    }

    /// Begins no more purchases, and waits until all have ended.
    pub(super) fn drain(&mut self) {
        self.begin(LoadModel::Closed(0));
        self.drop_waiting();
        while self.under_way > 0 {
            self.run(Duration::from_millis(100));
        }
    }

    /// The purchases that may have got something, as flows.
    pub(super) fn take_flows(&mut self) -> Vec<Flow> {
        std::mem::take(&mut self.flows)
    }

    /// Runs the buyers for this time.
    pub(super) fn run(&mut self, time: Duration) {
        let until_us = self.now_us() + time.as_micros() as u64;
        let mut events = Events::with_capacity(1_024);
        let mut buffer = vec![0; READ_BYTES];
        while self.now_us() < until_us {
            self.start_due();
            self.begin_waiting();
            self.repeat();
            self.expire_overdue();
            for connection in 0..self.connections.len() {
                if let Err(error) = self.connections[connection].flush() {
                    self.connect_again(connection, &error);
                }
            }
            // A poll takes at most a millisecond, so arrivals come in groups of a millisecond.
            if self.poll.poll(&mut events, Some(Duration::from_millis(1))).is_err() {
                continue;
            }
            for event in &events {
                self.read(event.token().0, &mut buffer);
            }
        }
    }

    fn start_due(&mut self) {
        let now_us = self.now_us();
        let due = match self.load_model {
            LoadModel::Closed(clients) => u64::from(clients.saturating_sub(self.under_way + self.waiting)),
            LoadModel::Open { per_s, .. } => {
                let due = ((now_us - self.began_us) as f64 * per_s / 1e6) as u64;
                due.saturating_sub(self.begun)
            }
        };
        for _ in 0..due.min(BEGINS_A_POLL_MAX) {
            self.begun += 1;
            self.stats.counts.offered += 1;
            let connection = self.next_connection;
            self.next_connection = (connection + 1) % self.connections.len();
            let phase = self.ends.len() - 1;
            if !matches!(self.load_model, LoadModel::Open { obeys: false, .. }) {
                self.waiting += 1;
                self.wait(connection, WaitingPurchase::New { came_us: now_us, phase }, now_us);
            } else if self.connections[connection].has_room()
                && let Some(id) = self.add(connection, false, (now_us, phase))
            {
                self.send(id, now_us);
            } else {
                // A node that does not read gets no more requests. Its new purchases count as not sent.
                self.stats.counts.not_sent += 1;
            }
        }
    }

    /// Has a purchase of an obeying client wait for its turn. Its buyer came at `came_us`.
    fn wait(&mut self, connection: usize, waiting: WaitingPurchase, came_us: u64) {
        let deadline_us = came_us + self.context.scenario.connect.deadline_ms * 1_000;
        let (came, deadline) = (self.instant(came_us), self.instant(deadline_us));
        self.connections[connection].waiting.push(waiting, came, deadline);
    }

    fn instant(&self, us: u64) -> Instant {
        Instant::from_std(self.context.start + Duration::from_micros(us))
    }

    /// Adds a purchase of a buyer who came at this time in this phase. `None` if there is no seat left to try.
    fn add(&mut self, connection: usize, obeys: bool, (came_us, phase): (u64, usize)) -> Option<PurchaseId> {
        let Some(block) = self.returned.pop().or_else(|| self.blocks.next()) else {
            self.is_sold_out = true;
            return None;
        };
        let mut purchase = Purchase::new(&self.context, self.next_number, block, came_us);
        self.next_number += self.part.of;
        self.under_way += 1;
        (purchase.connection, purchase.obeys, purchase.phase) = (connection, obeys, phase);
        let id = self.free.pop().unwrap_or_else(|| {
            self.purchases.push(None);
            self.generations.push(0);
            self.purchases.len() - 1
        });
        purchase.generation = self.generations[id];
        self.purchases[id] = Some(purchase);
        Some(id)
    }

    /// Begins waiting purchases as far as the concurrency limit of each connection allows.
    fn begin_waiting(&mut self) {
        let now_us = self.now_us();
        let now = self.instant(now_us);
        for connection in 0..self.connections.len() {
            while self.connections[connection].has_room()
                && let Some(turn) = self.connections[connection].waiting.next(now)
            {
                let id = match turn {
                    NextCall::GiveUp(waiting) => {
                        self.stats.counts.given_up += 1;
                        self.drop_purchase(waiting);
                        continue;
                    }
                    NextCall::Begin(WaitingPurchase::Again(id)) => Some(id),
                    NextCall::Begin(WaitingPurchase::New { came_us, phase }) => {
                        self.waiting -= 1;
                        self.add(connection, true, (came_us, phase))
                    }
                };
                match id {
                    Some(id) => self.send(id, now_us),
                    None => {
                        self.connections[connection].waiting.release();
                        self.stats.counts.not_sent += 1;
                    }
                }
            }
        }
    }

    fn send(&mut self, id: PurchaseId, now_us: u64) {
        let purchase = self.purchases[id].as_mut().expect("the purchase is under way");
        (purchase.called_us, purchase.is_sent) = (now_us, true);
        self.frame.clear();
        purchase.write(&self.context, (u64::from(purchase.generation) << 32) | id as u64, now_us, &mut self.frame);
        self.connections[purchase.connection].send(&self.frame);
    }

    /// Repeats the checkouts that were refused as `busy`, when their time has come.
    fn repeat(&mut self) {
        let now_us = self.now_us();
        for _ in 0..self.repeats.len() {
            let Some((at_us, id, generation)) = self.repeats.pop_front() else { return };
            if self.generations[id] != generation {
                continue;
            }
            let connection = self.purchases[id].as_ref().expect("the purchase is under way").connection;
            if at_us > now_us || !self.connections[connection].has_room() {
                self.repeats.push_back((at_us, id, generation));
            } else {
                self.send(id, now_us);
            }
        }
    }

    /// Ends purchases whose deadline has passed.
    fn expire_overdue(&mut self) {
        let now_us = self.now_us();
        if now_us < self.expired_us + EXPIRE_EVERY_US {
            return;
        }
        self.expired_us = now_us;
        for id in 0..self.purchases.len() {
            let Some(purchase) = &mut self.purchases[id] else { continue };
            // The node itself reports that a request's deadline has passed. That report may be late.
            if purchase.is_sent && purchase.deadline_us + 2_000_000 <= now_us {
                purchase.gave_up(true, now_us);
                self.stats.counts.unknown += 1;
                self.connections[purchase.connection].under_way -= 1;
                if purchase.step == Step::Hold && purchase.obeys {
                    self.connections[purchase.connection].waiting.release();
                }
                self.finish(id, true);
            } else if !purchase.is_sent && purchase.step != Step::Hold && purchase.deadline_us <= now_us {
                purchase.gave_up(false, now_us);
                self.finish(id, true);
            }
        }
    }

    fn read(&mut self, connection: usize, buffer: &mut [u8]) {
        let mut frames: Vec<(u64, Outcome)> = Vec::new();
        let read = self.connections[connection].read(buffer, |frame| frames.extend(read_outcome(frame)));
        if let Err(error) = read {
            self.connect_again(connection, &error);
        }
        let now_us = self.now_us();
        for (id, outcome) in frames {
            let (id, generation) = ((id & 0xffff_ffff) as PurchaseId, (id >> 32) as u32);
            if self.generations.get(id) == Some(&generation) && self.purchases[id].is_some() {
                self.connections[connection].under_way -= 1;
                self.answered(id, outcome, now_us);
            }
        }
    }

    /// Opens a closed connection again, as a client does. Requests without an answer end at their deadlines.
    fn connect_again(&mut self, connection: usize, closed: &io::Error) {
        *self.stats.counts.other.entry(format!("connection closed: {closed}")).or_default() += 1;
        let address = &self.addresses[connection % self.addresses.len()];
        let opened = BuyerConnection::connect(address).and_then(|mut new| {
            self.poll.registry().register(&mut new.stream, Token(connection), INTEREST)?;
            Ok(new)
        });
        let new = opened.unwrap_or_else(|error| panic!("{closed}, and then {error}"));
        self.connections[connection].continue_on(new);
    }

    fn answered(&mut self, id: PurchaseId, outcome: Outcome, now_us: u64) {
        let purchase = self.purchases[id].as_mut().expect("the caller checked it");
        purchase.is_sent = false;
        let (connection, called_us) = (&mut self.connections[purchase.connection], purchase.called_us);
        let is_paced = purchase.step == Step::Hold && purchase.obeys;
        if is_paced && !matches!(outcome, Outcome::Busy(_)) {
            connection.waiting.on_answer();
        }
        let now = Instant::from_std(self.context.start + Duration::from_micros(now_us));
        match outcome {
            Outcome::Ok(frame) => match purchase.step {
                Step::Hold => {
                    let Some(Reply::Ok(held, at)) = read::<Held>(&frame) else {
                        panic!("the answer to a hold has no lines")
                    };
                    self.stats.held(purchase.came_us, called_us, now_us);
                    self.ends[purchase.phase].granted += 1;
                    purchase.held(&self.context, &held, &at, self.watches, now_us);
                    self.send(id, now_us);
                }
                Step::Watch => {
                    let Some(Reply::Ok(Watching { feed }, _)) = read::<Watching>(&frame) else {
                        panic!("the answer to a watch has no feed")
                    };
                    (purchase.step, purchase.feed) = (Step::Checkout, Some(feed));
                    self.send(id, now_us);
                }
                Step::Checkout => {
                    let Some(Reply::Ok(view, at)) = read::<Order>(&frame) else {
                        panic!("the answer to a checkout has no order")
                    };
                    self.stats.checked_out(called_us, now_us);
                    let took = Duration::from_micros(now_us - purchase.began_us);
                    connection.waiting.finished_after(took, now);
                    purchase.bought(&self.context, &view, &at, now_us);
                    self.finish(id, false);
                }
            },
            Outcome::No(code, name) => {
                *self.stats.counts.other.entry(name.clone()).or_default() += 1;
                let leaves_seats = purchase.step != Step::Hold;
                purchase.refused(code, &name, now_us);
                self.finish(id, leaves_seats);
            }
            Outcome::Busy(retry_after_ms) => {
                self.stats.busy(called_us, now_us);
                self.stats.counts.checkouts_refused += u64::from(purchase.step == Step::Checkout);
                let wait_ms = f64::from(retry_after_ms) * self.rng.random_range(0.5..1.5);
                if is_paced {
                    connection.waiting.on_busy(Duration::from_micros((wait_ms * 1e3) as u64), now);
                }
                match (purchase.step, purchase.obeys) {
                    (Step::Hold, true) => {
                        let (came_us, connection) = (purchase.came_us, purchase.connection);
                        self.wait(connection, WaitingPurchase::Again(id), came_us);
                    }
                    (Step::Hold, false) => self.cancel(id),
                    // A purchase that holds seats is not given up.
                    (Step::Watch | Step::Checkout, obeys) => {
                        let wait_us = if obeys { (wait_ms * 1e3) as u64 } else { IMPATIENT_US };
                        self.repeats.push_back((now_us + wait_us, id, purchase.generation));
                    }
                }
            }
            Outcome::Failed(kind) => {
                *self.stats.counts.other.entry(kind.name().to_owned()).or_default() += 1;
                self.stats.counts.unknown += u64::from(kind.may_have_happened());
                let leaves_seats = purchase.step != Step::Hold || kind.may_have_happened();
                purchase.gave_up(kind.may_have_happened(), now_us);
                self.finish(id, leaves_seats);
            }
        }
    }

    /// Ends a purchase whose hold certainly did not happen. Its seats go to another one.
    fn cancel(&mut self, id: PurchaseId) {
        let purchase = self.purchases[id].take().expect("the purchase is under way");
        self.returned.push(purchase.block);
        self.free_slot(id);
    }

    /// Ends a purchase that may have got its seats. `leaves_holding` says whether its client may leave held seats
    /// behind.
    fn finish(&mut self, id: PurchaseId, leaves_holding: bool) {
        let purchase = self.purchases[id].take().expect("the purchase is under way");
        self.ends[purchase.phase].not_bought += u64::from(leaves_holding);
        if let Some(feed) = purchase.feed {
            self.frame.clear();
            let body = Unwatch { feed };
            request(Encoding::MsgPack, &mut self.frame, UNWATCH_ID, Op::Unwatch, None, None, &body);
            self.connections[purchase.connection].send_beside(&self.frame);
        }
        self.context.count_started();
        self.flows.push(purchase.flow);
        self.free_slot(id);
    }

    fn free_slot(&mut self, id: PurchaseId) {
        self.generations[id] = self.generations[id].wrapping_add(1) & 0x7fff_ffff;
        self.free.push(id);
        self.under_way -= 1;
    }
}

/// The outcome of a request.
enum Outcome {
    /// It was granted. This is the frame with the answer.
    Ok(Vec<u8>),
    /// It was refused, with this code and name.
    No(u16, String),
    /// The node is overloaded. The client should try again after this many milliseconds.
    Busy(u32),
    /// It failed for another reason.
    Failed(FailKind),
}

/// The request id of an answer, and the outcome.
fn read_outcome(frame: &[u8]) -> Option<(u64, Outcome)> {
    let Ok(ServerFrame::Answer(Some(id), verdict, _)) = ServerFrame::read(Encoding::MsgPack, frame) else {
        return None;
    };
    let outcome = match verdict {
        RawVerdict::Ok(..) => Outcome::Ok(frame.to_vec()),
        RawVerdict::No(_) | RawVerdict::Fail(_) => match verdict.read::<Held>(Encoding::MsgPack).ok()? {
            Reply::Ok(..) => return None,
            Reply::No(no) => Outcome::No(no.code, no.name.to_string()),
            Reply::Fail(fail) if fail.kind == FailKind::Busy => Outcome::Busy(fail.retry_after_ms.unwrap_or(0)),
            Reply::Fail(fail) => Outcome::Failed(fail.kind),
        },
    };
    Some((id, outcome))
}

fn read<T: boxoffice_wire::reply::FromBody>(frame: &[u8]) -> Option<Reply<T>> {
    match ServerFrame::read(Encoding::MsgPack, frame) {
        Ok(ServerFrame::Answer(_, verdict, _)) => verdict.read(Encoding::MsgPack).ok(),
        _ => None,
    }
}

//! The task of a connection.

use std::{
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use boxoffice_feeds::{FeedEvent, Watcher};
use boxoffice_node::api::{self, ReplySink};
use boxoffice_wire::{
    Op, Request, encode,
    feed::Notice,
    limits::{self, close},
};
use futures_util::stream::{FuturesUnordered, StreamExt};
use smol_str::SmolStr;
use tokio::time::{Instant, sleep_until};

use super::{
    AcceptedSocket,
    cart_queues::CartQueues,
    frames::{End, Frames, Received},
    requests::end_of_access,
    socket::Socket,
    timers::Timers,
    under_way::UnderWay,
    watching::Awaited,
};
use crate::{
    answer_queue::AnswerQueue,
    batch::Batch,
    budgets::Owners,
    caller::Caller,
    fan_out::QueryOutcome,
    metrics::Metrics,
    shared::{ConnectionPermit, GaugeGuard, Phase, Shared, phase_after},
};

/// Frames that one wake-up takes in, so that answers, timers and other connections do not starve.
const FRAMES_PER_WAKE_UP: usize = 256;

/// A frame up to this length is always read, however much memory others take, in bytes.
const SHORT_FRAME_BYTES: usize = 4_096;

/// Bytes of feeds that one wake-up writes, or a little more.
const FEED_BYTES_PER_WAKE_UP: usize = 64 * 1024;

/// How long a connection pauses after a wake-up while the node is overloaded. Frames and answers that arrive meanwhile
/// share one wake-up and one write. A wake-up costs several times as much as a refusal.
const SHEDDING_PAUSE: Duration = Duration::from_millis(10);

/// Answers for which memory is kept between wake-ups.
const ANSWERS_KEPT: usize = 64;

/// The connection must go on in the runtime for watching. Its next request is a `watch`.
#[derive(Debug)]
pub(super) struct MoveToWatching;

/// A query that has ended.
pub(super) struct FinishedQuery {
    pub(super) id: u64,
    pub(super) op: Op,
    pub(super) at: Instant,
    pub(super) outcome: QueryOutcome,
}

/// The state of a connection.
pub(super) struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) frames: Frames,
    pub(super) timers: Timers,
    pub(super) caller: Caller,
    /// The owners of the budgets that requests are charged to.
    pub(super) owners: Owners,
    pub(super) answers: Arc<AnswerQueue>,
    /// `answers`, as the node takes it.
    pub(super) sink: Arc<dyn ReplySink>,
    taken: Vec<(u64, api::Result)>,
    pub(super) under_way: UnderWay,
    pub(super) cart_queues: CartQueues,
    pub(super) batches: Vec<Option<Batch>>,
    pub(super) queries: FuturesUnordered<Pin<Box<dyn Future<Output = FinishedQuery> + Send>>>,
    /// The number of `queries` that are audits.
    pub(super) audits_under_way: usize,
    /// Made with the first `watch`, in the runtime for watching.
    pub(super) watcher: Option<Watcher>,
    /// Watches that wait for another node.
    pub(super) awaited: Awaited,
    /// The first `watch`, on its way to the runtime for watching.
    pub(super) migrating_watch: Option<Request>,
    pub(super) malformed: u32,
    /// The number of requests beyond the rate of the client's network, and since when they are counted.
    pub(super) over_rate: Option<(Instant, u32)>,
    known_phase: Phase,
    /// Bytes read and written that are counted already.
    counted: (u64, u64),
    watchers: GaugeGuard,
    submitted: GaugeGuard,
    /// Memory of the incomplete message.
    room: GaugeGuard,
    _socket: GaugeGuard,
    pub(super) permit: Arc<ConnectionPermit>,
}

impl Connection {
    pub(super) fn new(accepted: AcceptedSocket, shared: Arc<Shared>) -> Connection {
        let AcceptedSocket { stream, session, read, encoding, caller, permit } = accepted;
        let answers = Arc::new(AnswerQueue::default());
        Connection {
            frames: Frames::new(Socket::new(stream, session, read), encoding),
            timers: Timers::new(Instant::now(), &shared.config.limits),
            owners: caller.owners(&permit),
            caller,
            sink: Arc::clone(&answers) as Arc<dyn ReplySink>,
            answers,
            taken: Vec::new(),
            under_way: UnderWay::default(),
            cart_queues: CartQueues::default(),
            batches: Vec::new(),
            queries: FuturesUnordered::new(),
            audits_under_way: 0,
            watcher: None,
            awaited: Awaited::default(),
            migrating_watch: None,
            malformed: 0,
            over_rate: None,
            known_phase: Phase::Open,
            counted: (0, 0),
            watchers: GaugeGuard::new(&shared, |metrics: &Metrics| &metrics.watchers, 0),
            submitted: GaugeGuard::new(&shared, |metrics: &Metrics| &metrics.under_way, 0),
            room: GaugeGuard::new(&shared, |metrics: &Metrics| &metrics.frame_bytes, 0),
            _socket: GaugeGuard::new(&shared, |metrics: &Metrics| &metrics.sockets, 1),
            permit,
            shared,
        }
    }

    pub(super) fn into_frames(self: Box<Self>) -> Frames {
        self.frames
    }

    /// Sets the length of frames that the client may send. The long frames of an import take much memory.
    pub(super) fn set_frame_bytes_max(&mut self) {
        let roles = self.caller.access.roles;
        let may_import = Op::ALL.iter().any(|op| op.is_for_importers() && op.is_open_to(roles));
        self.frames.set_bytes_max(if may_import { limits::IMPORT_FRAME_BYTES_MAX } else { limits::FRAME_BYTES_MAX });
    }

    /// Says hello, then goes on as [`Connection::run`].
    pub(super) async fn hello_and_run(&mut self) -> Result<MoveToWatching, End> {
        self.set_frame_bytes_max();
        let mut hello = self.shared.backend.hello();
        let limits = &self.shared.config.limits;
        hello.limits.requests_under_way = u32::try_from(limits.requests_under_way_max).unwrap_or(u32::MAX);
        hello.limits.feeds = u32::try_from(limits.feeds_max).unwrap_or(u32::MAX);
        hello.limits.first_frame_ms = milliseconds(limits.first_frame_timeout);
        hello.limits.whole_frame_ms = milliseconds(limits.whole_frame_timeout);
        if !self.caller.access.sees_the_cluster() {
            (hello.cluster, hello.version) = (SmolStr::default(), SmolStr::default());
        }
        self.frames.write(|encoding, out| encode::hello(encoding, out, &hello))?;
        self.frames.flush(&self.shared.config.limits).await?;
        self.run().await
    }

    /// Runs until the connection must move or end.
    pub(super) async fn run(&mut self) -> Result<MoveToWatching, End> {
        let shared = Arc::clone(&self.shared);
        let limits = &shared.config.limits;
        let mut armed = self.next_due();
        let mut timer = pin!(sleep_until(armed));
        if let Some(watch) = self.migrating_watch.take() {
            self.frames.move_here()?;
            self.watcher = Some(shared.backend.feeds().watcher());
            self.perform(watch, Instant::now())?;
        }
        // These futures stay in their queues over all wake-ups, so that a change in a feed costs a watcher nothing there.
        let mut next_phase = pin!(phase_after(shared.phase.clone(), self.known_phase));
        let answers = Arc::clone(&self.answers);
        let mut answered = pin!(answers.ready());
        let mut more = true;
        loop {
            if more {
                tokio::task::yield_now().await;
            } else {
                tokio::select! {
                    // Feeds come first, so that a watcher polls nothing else when they wake it.
                    biased;
                    () = dirty(self.watcher.as_ref()) => {}
                    phase = next_phase.as_mut() => {
                        self.on_phase(phase)?;
                        next_phase.set(phase_after(shared.phase.clone(), self.known_phase));
                    }
                    () = answered.as_mut() => answered.set(answers.ready()),
                    Some(finished) = self.queries.next(), if !self.queries.is_empty() => self.on_query_finished(finished)?,
                    () = timer.as_mut() => {}
                    readable = self.frames.readable() => readable?,
                }
            }
            let now = Instant::now();
            self.caller.access.check(&self.shared).map_err(end_of_access)?;
            self.take_answers(now).await?;
            more = (more || self.frames.may_have()) && self.read(now)?;
            self.check_time(now)?;
            more |= self.pull_feeds()?;
            let flushed = self.frames.flush(limits).await;
            self.count();
            flushed?;
            if self.migrating_watch.is_some() {
                return Ok(MoveToWatching);
            }
            let pauses = !more && self.watcher.is_none() && shared.backend.is_shedding();
            if pauses {
                timer.as_mut().reset(now + SHEDDING_PAUSE);
                timer.as_mut().await;
                self.frames.look_again();
            }
            let due = self.next_due();
            if pauses || due < armed || timer.is_elapsed() {
                timer.as_mut().reset(due);
                armed = due;
            }
        }
    }

    /// Passes on the node's answers.
    async fn take_answers(&mut self, now: Instant) -> Result<(), End> {
        let mut taken = std::mem::take(&mut self.taken);
        self.answers.take(&mut taken);
        for (tag, result) in taken.drain(..) {
            if let Some(pending) = self.under_way.answered(tag) {
                let cart = pending.cart;
                self.on_answer(pending, result, now)?;
                self.submit_next(cart, tag, now);
            }
            if self.frames.is_blocked() {
                self.frames.flush(&self.shared.config.limits).await?;
            }
        }
        if taken.capacity() <= ANSWERS_KEPT {
            self.taken = taken;
        }
        Ok(())
    }

    /// Takes in frames that have arrived. Returns whether there may be more.
    fn read(&mut self, now: Instant) -> Result<bool, End> {
        for _ in 0..FRAMES_PER_WAKE_UP {
            match self.frames.read()? {
                Some(Received::Frame(frame)) => {
                    self.timers.on_frame();
                    self.frame(&frame, now)?;
                    if self.migrating_watch.is_some() {
                        return Ok(true);
                    }
                }
                Some(Received::Pong) => self.timers.on_pong(),
                Some(Received::Ping) => {}
                None => {
                    self.timers.on_incomplete(self.frames.incomplete_after(), now, &self.shared.config.limits);
                    self.check_memory()?;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Counts the memory of the incomplete message. Ends the connection if all incomplete messages take too much, unless its
    /// own is short.
    fn check_memory(&mut self) -> Result<(), End> {
        let room = self.frames.room();
        self.room.set(room);
        if room <= SHORT_FRAME_BYTES {
            return Ok(());
        }
        let all = self.shared.metrics.frame_bytes.load(Ordering::Relaxed);
        if u64::try_from(all).unwrap_or(0) <= self.shared.config.limits.frame_bytes_max {
            return Ok(());
        }
        Err(End::Close(close::TOO_MANY_REQUESTS, "the node has no room for another long frame; try again".into()))
    }

    fn check_time(&mut self, now: Instant) -> Result<(), End> {
        while let Some((tag, pending)) = self.under_way.overdue(now) {
            let cart = pending.cart;
            self.on_timeout(pending, now)?;
            self.submit_next(cart, tag, now);
        }
        if self.timers.check(now, &self.shared.config.limits)? {
            self.frames.ping()?;
        }
        if self.timers.must_close() && self.is_idle() {
            return Err(draining());
        }
        Ok(())
    }

    /// Writes the due frames of feeds. Returns whether there are more.
    fn pull_feeds(&mut self) -> Result<bool, End> {
        let Some(watcher) = &mut self.watcher else { return Ok(false) };
        let mut written = Ok(());
        let mut count = 0;
        let mut answers = Vec::new();
        let frames = &mut self.frames;
        let more = watcher.pull(frames.encoding(), FEED_BYTES_PER_WAKE_UP, |said| match said {
            FeedEvent::Frame(frame) => {
                count += 1;
                if written.is_ok() {
                    written = frames.write_encoded(&frame);
                }
            }
            FeedEvent::Begun { tag, feed } => answers.push((tag, Ok(feed))),
            FeedEvent::Refused { tag, why } => answers.push((tag, Err(why))),
        });
        if count > 0 {
            self.shared.metrics.feed_frames.fetch_add(count, Ordering::Relaxed);
        }
        written?;
        for (tag, outcome) in answers {
            self.watch_ended(tag, outcome)?;
        }
        Ok(more)
    }

    fn on_phase(&mut self, phase: Phase) -> Result<(), End> {
        self.known_phase = phase;
        match phase {
            Phase::Open | Phase::Leaving => Ok(()),
            Phase::Draining => {
                let reconnect_ms = self.shared.reconnect_ms();
                self.timers.drain(Instant::now(), Duration::from_millis(reconnect_ms));
                let notice = Notice { name: SmolStr::new_static("draining"), reconnect_ms: Some(reconnect_ms) };
                self.frames.write(|encoding, out| encode::notice(encoding, out, &notice))
            }
            Phase::Closed => Err(draining()),
        }
    }

    /// Whether nothing is under way.
    fn is_idle(&self) -> bool {
        self.under_way.submitted() == 0 && self.queries.is_empty()
    }

    fn next_due(&self) -> Instant {
        let timers = self.timers.next();
        self.under_way.next_deadline().map_or(timers, |deadline| deadline.min(timers))
    }

    fn count(&mut self) {
        let (bytes_in, bytes_out) = self.frames.bytes();
        let metrics = &self.shared.metrics;
        if bytes_in > self.counted.0 {
            metrics.bytes_in.fetch_add(bytes_in - self.counted.0, Ordering::Relaxed);
        }
        if bytes_out > self.counted.1 {
            metrics.bytes_out.fetch_add(bytes_out - self.counted.1, Ordering::Relaxed);
        }
        self.counted = (bytes_in, bytes_out);
        self.watchers.set(self.watcher.as_ref().map_or(0, Watcher::len));
        self.submitted.set(self.under_way.submitted());
    }
}

async fn dirty(watcher: Option<&Watcher>) {
    match watcher {
        Some(watcher) => watcher.ready().await,
        None => std::future::pending().await,
    }
}

fn draining() -> End {
    End::Close(close::DRAINING, "this node is going away".into())
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

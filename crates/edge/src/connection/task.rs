//! The task of a connection: turn by turn.

use std::{
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use boxoffice_feeds::{FeedEvent, Watcher};
use boxoffice_node::door::{self, ReplySink};
use boxoffice_wire::{
    Op, Request, encode,
    feed::Notice,
    limits::{self, close},
};
use futures_util::stream::{FuturesUnordered, StreamExt};
use smol_str::SmolStr;
use tokio::time::{Instant, sleep_until};

use super::{
    Newcomer,
    clocks::Clocks,
    frames::{End, Frames, Received},
    requests::end_of_access,
    socket::Socket,
    turns::Turns,
    under_way::UnderWay,
    watching::Awaited,
};
use crate::{
    answers::Answers,
    batch::Batch,
    budgets::Owners,
    caller::Caller,
    errand::Ending,
    metrics::Metrics,
    shared::{Guest, Phase, Share, Shared, phase_after},
};

/// Frames taken in before answers, timers and other connections have their turn.
const FRAMES_PER_TURN: usize = 256;

/// A frame that is no longer may always come, however much memory others take, in bytes.
const SHORT_FRAME_BYTES: usize = 4_096;

/// Bytes of feeds written in one turn, or a little more.
const FEED_BYTES_PER_TURN: usize = 64 * 1024;

/// How long a connection rests after a turn while the node is overloaded. Frames and answers that come meanwhile share one turn
/// and one write: alone, the turn of a refusal costs several times what the refusal does.
const REST: Duration = Duration::from_millis(10);

/// Answers for which room is kept between turns.
const ANSWERS_KEPT: usize = 64;

/// What a connection needs that is not its end.
#[derive(Debug)]
pub(super) enum Turn {
    /// To go on where watchers are: its next request is a `watch`.
    Watch,
}

/// What the door itself went about, when it is there or its deadline came.
pub(super) struct GoneAbout {
    pub(super) id: u64,
    pub(super) op: Op,
    pub(super) at: Instant,
    pub(super) ending: Ending,
}

/// Everything of one connection.
pub(super) struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) frames: Frames,
    pub(super) clocks: Clocks,
    pub(super) caller: Caller,
    /// Who is charged for what it takes.
    pub(super) owners: Owners,
    pub(super) answers: Arc<Answers>,
    /// The same as `answers`, as the node takes it.
    pub(super) sink: Arc<dyn ReplySink>,
    taken: Vec<(u64, door::Result)>,
    pub(super) under_way: UnderWay,
    pub(super) turns: Turns,
    pub(super) batches: Vec<Option<Batch>>,
    pub(super) errands: FuturesUnordered<Pin<Box<dyn Future<Output = GoneAbout> + Send>>>,
    /// Errands that are audits.
    pub(super) audits_under_way: usize,
    /// Made with the first `watch`, on the runtime of the watchers.
    pub(super) watcher: Option<Watcher>,
    /// Watches whose answer is not known yet.
    pub(super) awaited: Awaited,
    /// The first `watch`, on its way to that runtime.
    pub(super) carried: Option<Request>,
    pub(super) malformed: u32,
    /// Requests beyond the rate of the client's network, and since when they are counted.
    pub(super) overs: Option<(Instant, u32)>,
    known_phase: Phase,
    /// Bytes read and written that are counted already.
    counted: (u64, u64),
    watchers: Share,
    submitted: Share,
    /// Bytes of the message that has not come whole.
    room: Share,
    _socket: Share,
    pub(super) guest: Arc<Guest>,
}

impl Connection {
    pub(super) fn new(newcomer: Newcomer, shared: Arc<Shared>) -> Connection {
        let Newcomer { stream, session, read, encoding, caller, guest } = newcomer;
        let answers = Arc::new(Answers::default());
        Connection {
            frames: Frames::new(Socket::new(stream, session, read), encoding),
            clocks: Clocks::new(Instant::now(), &shared.config.limits),
            owners: caller.owners(&guest),
            caller,
            sink: Arc::clone(&answers) as Arc<dyn ReplySink>,
            answers,
            taken: Vec::new(),
            under_way: UnderWay::default(),
            turns: Turns::default(),
            batches: Vec::new(),
            errands: FuturesUnordered::new(),
            audits_under_way: 0,
            watcher: None,
            awaited: Awaited::default(),
            carried: None,
            malformed: 0,
            overs: None,
            known_phase: Phase::Open,
            counted: (0, 0),
            watchers: Share::new(&shared, |metrics: &Metrics| &metrics.watchers, 0),
            submitted: Share::new(&shared, |metrics: &Metrics| &metrics.under_way, 0),
            room: Share::new(&shared, |metrics: &Metrics| &metrics.frame_bytes, 0),
            _socket: Share::new(&shared, |metrics: &Metrics| &metrics.sockets, 1),
            guest,
            shared,
        }
    }

    /// What is left of it at its end.
    pub(super) fn into_frames(self: Box<Self>) -> Frames {
        self.frames
    }

    /// Reads as long frames as the client may send: those of an import take much memory while they are under way.
    pub(super) fn read_as_allowed(&mut self) {
        let roles = self.caller.access.roles;
        let may_import = Op::ALL.iter().any(|op| op.is_for_importers() && op.is_open_to(roles));
        self.frames.read_up_to(if may_import { limits::IMPORT_FRAME_BYTES_MAX } else { limits::FRAME_BYTES_MAX });
    }

    /// Says hello, then goes on as [`Connection::run`].
    pub(super) async fn greet_and_run(&mut self) -> Result<Turn, End> {
        self.read_as_allowed();
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

    /// Takes turn after turn until it must move or end.
    pub(super) async fn run(&mut self) -> Result<Turn, End> {
        let shared = Arc::clone(&self.shared);
        let limits = &shared.config.limits;
        let mut armed = self.next_due();
        let mut timer = pin!(sleep_until(armed));
        if let Some(watch) = self.carried.take() {
            self.frames.move_here()?;
            self.watcher = Some(shared.backend.feeds().watcher());
            self.perform(watch, Instant::now())?;
        }
        // What is waited for turn after turn stays in its queue; a watcher has nothing to do there when it is told something.
        let mut next_phase = pin!(phase_after(shared.phase.clone(), self.known_phase));
        let answers = Arc::clone(&self.answers);
        let mut answered = pin!(answers.there());
        let mut more = true;
        loop {
            if more {
                tokio::task::yield_now().await;
            } else {
                tokio::select! {
                    // First what wakes a watcher, so that it looks at nothing else then; it is empty when all was pulled.
                    biased;
                    () = dirty(self.watcher.as_ref()) => {}
                    phase = next_phase.as_mut() => {
                        self.phase_is(phase)?;
                        next_phase.set(phase_after(shared.phase.clone(), self.known_phase));
                    }
                    () = answered.as_mut() => answered.set(answers.there()),
                    Some(gone) = self.errands.next(), if !self.errands.is_empty() => self.gone_about(gone)?,
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
            if self.carried.is_some() {
                return Ok(Turn::Watch);
            }
            let rests = !more && self.watcher.is_none() && shared.backend.is_shedding();
            if rests {
                timer.as_mut().reset(now + REST);
                timer.as_mut().await;
                self.frames.look_again();
            }
            let due = self.next_due();
            if rests || due < armed || timer.is_elapsed() {
                timer.as_mut().reset(due);
                armed = due;
            }
        }
    }

    /// Answers everything the node has answered.
    async fn take_answers(&mut self, now: Instant) -> Result<(), End> {
        let mut taken = std::mem::take(&mut self.taken);
        self.answers.take(&mut taken);
        for (tag, result) in taken.drain(..) {
            if let Some(asked) = self.under_way.answered(tag) {
                let cart = asked.cart;
                self.answered(asked, result, now)?;
                self.next_turn(cart, tag, now);
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

    /// Takes in the frames that have come; says whether there may be more.
    fn read(&mut self, now: Instant) -> Result<bool, End> {
        for _ in 0..FRAMES_PER_TURN {
            match self.frames.read()? {
                Some(Received::Frame(frame)) => {
                    self.clocks.frame_came();
                    self.frame(&frame, now)?;
                    if self.carried.is_some() {
                        return Ok(true);
                    }
                }
                Some(Received::Pong) => self.clocks.pong_came(),
                Some(Received::Ping) => {}
                None => {
                    self.clocks.in_the_middle(self.frames.in_the_middle_after(), now, &self.shared.config.limits);
                    self.make_room()?;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Notes how much memory the frame in the middle takes. If all of them take too much, the connection ends, unless its
    /// own is short.
    fn make_room(&mut self) -> Result<(), End> {
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
        while let Some((tag, asked)) = self.under_way.overdue(now) {
            let cart = asked.cart;
            self.overdue(asked, now)?;
            self.next_turn(cart, tag, now);
        }
        if self.clocks.check(now, &self.shared.config.limits)? {
            self.frames.ping()?;
        }
        if self.clocks.is_farewell() && self.is_idle() {
            return Err(draining());
        }
        Ok(())
    }

    /// Writes what is due in the feeds; says whether there is more.
    fn pull_feeds(&mut self) -> Result<bool, End> {
        let Some(watcher) = &mut self.watcher else { return Ok(false) };
        let mut written = Ok(());
        let mut count = 0;
        let mut answers = Vec::new();
        let frames = &mut self.frames;
        let more = watcher.pull(frames.encoding(), FEED_BYTES_PER_TURN, |said| match said {
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

    fn phase_is(&mut self, phase: Phase) -> Result<(), End> {
        self.known_phase = phase;
        match phase {
            Phase::Open | Phase::Leaving => Ok(()),
            Phase::Draining => {
                let reconnect_ms = self.shared.reconnect_ms();
                self.clocks.drain(Instant::now(), Duration::from_millis(reconnect_ms));
                let notice = Notice { name: SmolStr::new_static("draining"), reconnect_ms: Some(reconnect_ms) };
                self.frames.write(|encoding, out| encode::notice(encoding, out, &notice))
            }
            Phase::Closed => Err(draining()),
        }
    }

    /// Whether nobody waits for anything.
    fn is_idle(&self) -> bool {
        self.under_way.submitted() == 0 && self.errands.is_empty()
    }

    fn next_due(&self) -> Instant {
        let clocks = self.clocks.next();
        self.under_way.next_deadline().map_or(clocks, |deadline| deadline.min(clocks))
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

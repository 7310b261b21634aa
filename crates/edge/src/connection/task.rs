//! The task of a connection.

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use boxoffice_feeds::{FeedEvent, Watcher};
use boxoffice_wire::{encode, feed::Notice, limits::close};
use futures_util::stream::StreamExt;
use smol_str::SmolStr;
use tokio::time::{Instant, sleep_until};

use super::{
    frames::{End, Received},
    state::{Connection, PendingHello},
};
use crate::{
    access_end::ended,
    admission::NotAdmitted,
    answer_queue::Waiting,
    caller::Caller,
    planted,
    shared::{Phase, Port, phase_after},
};

/// Frames that one wake-up takes in, so that answers, timers and other connections do not starve.
const FRAMES_PER_WAKE_UP: usize = 256;

/// A frame up to this length is always read, however much memory others take, in bytes.
const SHORT_FRAME_BYTES: usize = 4_096;

/// Bytes of feeds that are written at once, or a little more, and those of one wake-up.
const FEED_BYTES: usize = 16 * 1024;
const FEED_BYTES_PER_WAKE_UP: usize = 64 * 1024;

/// A client is behind until it has taken everything at once for so long. Otherwise it would get a long frame whenever it has caught up.
const BEHIND_TIME: Duration = Duration::from_secs(5);

/// The longest frame of a feed for a client that is behind, in bytes without its head. The answer to a request waits for one.
const FRAME_BYTES_BEHIND: usize = 4_096 - 4;

/// How long a connection pauses after a wake-up while the node is overloaded. Frames and answers that arrive meanwhile
/// share one wake-up and one write. A wake-up costs several times as much as a refusal.
const SHEDDING_PAUSE: Duration = Duration::from_millis(10);

/// Answers for which memory is kept between wake-ups.
const ANSWERS_KEPT: usize = 64;

/// The connection must go on in the runtime for watching. Its next request is a `watch`.
#[derive(Debug)]
pub(super) struct MoveToWatching;

impl Connection {
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
        self.frames.flush()?;
        self.run().await
    }

    /// Runs until the connection must move or end. A wake-up looks at everything once, whatever has caused it: answers of the node,
    /// then frames of the client, then timers. It ends with one flush of answers and due feeds.
    pub(super) async fn run(&mut self) -> Result<MoveToWatching, End> {
        let shared = Arc::clone(&self.shared);
        let mut armed = self.next_due(true);
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
        let place = Arc::clone(&self.permit.place);
        let mut place_ended = pin!(place.ended());
        let (mut unread, mut unsent) = (true, false);
        // Whether feeds have woken this task last, and nothing else was looked at.
        let mut feeds_had_turn = false;
        loop {
            let (has_room, reads) = (self.frames.has_room(), self.reads());
            // Nothing else wakes this task for what was left.
            let more = unsent || (has_room && !self.taken.is_empty()) || (unread && reads);
            let feeds = !more && !self.frames.is_blocked();
            let is_looked_at = !(self.frames.is_blocked() && planted::is("a slow peer is not looked at"));
            let feeds_first = feeds && !feeds_had_turn;
            feeds_had_turn = false;
            tokio::select! {
                // Feeds come first every other time, so that a watcher polls nothing else when they wake it.
                biased;
                () = dirty(self.watcher.as_ref()), if feeds_first => feeds_had_turn = true,
                phase = next_phase.as_mut() => {
                    self.on_phase(phase)?;
                    next_phase.set(phase_after(shared.phase.clone(), self.known_phase));
                }
                () = answered.as_mut(), if has_room => answered.set(answers.ready()),
                Some(finished) = self.queries.next(), if has_room && !self.queries.is_empty() => {
                    self.on_query_finished(finished)?;
                }
                () = place_ended.as_mut() => return Err(End::Cut),
                end = ended(&mut self.access_end), if is_looked_at => return Err(End::Access(end)),
                (id, admitted, at) = admitted(&mut self.hello) => {
                    self.hello = None;
                    self.on_admitted(id, admitted, at)?;
                    // The frames after the hello have waited.
                    unread = true;
                }
                () = timer.as_mut() => {}
                ready = self.frames.ready(reads) => ready?,
                () = dirty(self.watcher.as_ref()), if feeds && !feeds_first => {}
                () = tokio::task::yield_now(), if more => {}
            }
            let now = Instant::now();
            if is_looked_at {
                self.caller.access.check(&self.shared).map_err(End::Access)?;
            }
            self.take_answers(now)?;
            let is_ignored = planted::is("a busy watcher is not read") && (feeds_had_turn || self.is_behind());
            if self.reads() && !is_ignored {
                unread = (unread || self.frames.may_have()) && self.read(now)?;
            }
            let has_heard = !unread && self.reads();
            self.check_time(has_heard, now)?;
            self.note_feeds();
            let written = self.write_out(now);
            self.count();
            unsent = written?;
            if self.migrating_watch.is_some() {
                return Ok(MoveToWatching);
            }
            let more = unsent || unread || !self.taken.is_empty();
            let pauses = !more && self.watcher.is_none() && shared.backend.is_shedding();
            if pauses {
                timer.as_mut().reset(now + SHEDDING_PAUSE);
                timer.as_mut().await;
                self.frames.look_again();
            }
            let due = self.next_due(!unread && self.reads());
            if pauses || due < armed || timer.is_elapsed() {
                timer.as_mut().reset(due);
                armed = due;
            }
        }
    }

    /// Whether frames are read. Not while a hello waits, nor while the client leaves answers unread.
    fn reads(&self) -> bool {
        self.hello.is_none() && self.frames.has_room()
    }

    /// Passes on the node's answers, as far as the client reads them.
    fn take_answers(&mut self, now: Instant) -> Result<(), End> {
        // Those that were left are the older ones.
        let are_left = !self.taken.is_empty();
        if !are_left {
            self.answers.take(&mut self.taken);
        }
        while self.frames.has_room()
            && let Some(Waiting { tag, result, .. }) = self.taken.pop_front()
        {
            if let Some(pending) = self.under_way.answered(tag) {
                let cart = pending.cart;
                self.on_answer(pending, result, now)?;
                self.submit_next(cart, tag, now);
            }
        }
        if !self.taken.is_empty() {
            return Ok(());
        }
        if are_left {
            return self.take_answers(now);
        }
        if self.taken.capacity() > ANSWERS_KEPT {
            self.taken = VecDeque::new();
        }
        Ok(())
    }

    /// Takes in frames that have arrived, as long as the client reads the answers. Returns whether there may be more.
    fn read(&mut self, now: Instant) -> Result<bool, End> {
        for _ in 0..FRAMES_PER_WAKE_UP {
            if !self.frames.has_room() {
                return Ok(true);
            }
            match self.frames.read()? {
                Some(Received::Frame(frame)) => {
                    self.timers.on_frame();
                    self.frame(&frame, now)?;
                    if self.migrating_watch.is_some() {
                        return Ok(true);
                    }
                    if self.hello.is_some() {
                        return Ok(false);
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

    /// Looks at the timers. `has_heard` is whether everything was read that has arrived.
    fn check_time(&mut self, has_heard: bool, now: Instant) -> Result<(), End> {
        // Until there is room, an answer that is there may wait for it.
        while self.frames.has_room()
            && let Some((tag, pending)) = self.under_way.overdue(now)
        {
            let cart = pending.cart;
            self.on_timeout(pending, now)?;
            self.submit_next(cart, tag, now);
        }
        // While a hello waits no pong is read either.
        if self.hello.is_none()
            && self.timers.check(self.frames.bytes_given(), has_heard, now, &self.shared.config.limits)?
        {
            self.frames.ping()?;
        }
        if self.timers.must_close() && self.is_idle() {
            return Err(draining());
        }
        let has_role = self.permit.port == Port::Clients || self.caller.access.is_staff() || !self.is_idle();
        let limits = &self.shared.config.limits;
        if self.timers.is_idle_without_role(has_role, now, limits) {
            let words = "a connection of the operators' port needs a key or token";
            return Err(End::Close(close::UNAUTHENTICATED, words.into()));
        }
        Ok(())
    }

    /// Writes everything out that the peer takes, answers first, then due frames of feeds. Returns whether there are more to be
    /// written now.
    ///
    /// A client that does not take all is behind. It gets the next frames of feeds when those before have left, and short ones, so
    /// that an answer never waits for long.
    fn write_out(&mut self, now: Instant) -> Result<bool, End> {
        let mut written = 0;
        let more = loop {
            if self.frames.is_blocked() {
                // It has not taken everything until now, also where nothing was written to it meanwhile.
                if !planted::is("a blocked watcher is forgotten to be behind") {
                    self.behind_until = Some(now + BEHIND_TIME);
                }
                if !self.frames.flush()? {
                    break false;
                }
            }
            if written >= FEED_BYTES_PER_WAKE_UP {
                break true;
            }
            self.behind_until.take_if(|until| *until <= now);
            let bytes = if self.is_behind() { FRAME_BYTES_BEHIND } else { FEED_BYTES };
            let more = self.pull_feeds(bytes)?;
            written += bytes;
            if !self.frames.flush()? {
                self.behind_until = Some(now + BEHIND_TIME);
                break false;
            }
            if !more {
                break false;
            }
        };
        let (_, taken) = self.frames.bytes();
        self.timers.on_flush(self.frames.is_blocked(), taken, now, &self.shared.config.limits)?;
        Ok(more)
    }

    /// Adds about so many bytes of due frames of feeds. Returns whether there are more.
    fn pull_feeds(&mut self, bytes: usize) -> Result<bool, End> {
        let is_behind = self.is_behind();
        let Some(watcher) = &mut self.watcher else { return Ok(false) };
        let mut count = 0;
        let mut answers = Vec::new();
        let frames = &mut self.frames;
        let encoding = frames.encoding();
        let take = |said| match said {
            FeedEvent::Frame(frame) => {
                count += 1;
                frames.write_feed(&frame);
            }
            FeedEvent::Begun { tag, feed } => answers.push((tag, Ok(feed))),
            FeedEvent::Refused { tag, why } => answers.push((tag, Err(why))),
        };
        let more =
            if is_behind { watcher.pull_behind(encoding, bytes, take) } else { watcher.pull(encoding, bytes, take) };
        if count > 0 {
            self.shared.metrics.feed_frames.fetch_add(count, Ordering::Relaxed);
        }
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

    /// Whether the client reads more slowly than its feeds go on.
    fn is_behind(&self) -> bool {
        self.behind_until.is_some()
    }

    /// Whether nothing is under way.
    fn is_idle(&self) -> bool {
        self.under_way.submitted() == 0 && self.queries.is_empty()
    }

    fn next_due(&self, has_heard: bool) -> Instant {
        let timers = match self.hello {
            None => self.timers.next(has_heard),
            Some(_) => Instant::now() + self.shared.config.limits.ping_every,
        };
        self.under_way
            .next_deadline()
            .filter(|_| self.frames.has_room())
            .map_or(timers, |deadline| deadline.min(timers))
    }

    /// Keeps the connection's place if it has feeds. Before the client hears of them.
    fn note_feeds(&mut self) {
        let has_feeds = self.watcher.as_ref().is_some_and(|watcher| !watcher.is_empty());
        if self.has_feeds != has_feeds {
            self.has_feeds = has_feeds;
            self.permit.place.set_feeds(has_feeds);
        }
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
        self.unsent.set(self.frames.own_unsent_answers());
    }
}

/// Waits until the credentials of a hello were looked at.
async fn admitted(hello: &mut Option<PendingHello>) -> (u64, Result<Caller, NotAdmitted>, Instant) {
    match hello {
        Some(PendingHello { id, at, admission }) => (*id, admission.await, *at),
        None => std::future::pending().await,
    }
}

/// Waits until a feed of the connection may have something. For ever, if it watches nothing.
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

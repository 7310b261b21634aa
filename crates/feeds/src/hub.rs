//! The hub: the channels of all entities, and the task that publishes to them.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use boxoffice_core::{answer::Purchase, id::Entity};
use boxoffice_env::Clock;
use boxoffice_wire::call::Since;
use tokio::{sync::Notify, time::sleep};
use tracing_mutex::parkinglot::Mutex;

use super::{
    Commit, FeedSettings, FeedSource, InitialState, NoFeed, View,
    channel::{Channel, Position, PublishOutcome},
    inbox::Inbox,
    ready::ReadyFlag,
};

/// Watchers of one channel that are notified in one step, before other channels, new commits and other tasks have their
/// turn.
const FAN_OUT_SLICE: usize = 64;

/// Milliseconds before the restart of a feed is tried again.
const RESTART_MS: u64 = 250;

/// How long a node waits for a version that a watcher has and the node lacks, in milliseconds of its waiting time. A
/// connected replica lags less. The version was committed, so it comes, unless the cluster was restored from a backup.
const AHEAD_MS: u64 = 60_000;

/// The step of waiting time in milliseconds. A pause of the node counts as one step, because no version can come
/// meanwhile.
const AHEAD_STEP_MS: u64 = 1_000;

/// The state that the driver, the connections and the publishing task share.
pub(super) struct Hub {
    source: Arc<dyn FeedSource>,
    settings: FeedSettings,
    epoch: AtomicU64,
    /// The epoch for the next round of the task.
    next_epoch: AtomicU64,
    clock: Arc<dyn Clock>,
    /// `inbox` and `answers` are the only locks that the driver and the links take. They are never held during a wait.
    inbox: Mutex<Inbox>,
    answers: Mutex<Vec<Answer>>,
    table: Mutex<ChannelTable>,
    /// Channels with a fan-out under way, in turn.
    fan_out: Mutex<VecDeque<Arc<Channel>>>,
    /// Some channels are stale.
    some_are_stale: AtomicBool,
    /// Waiting time so far, in milliseconds. It only advances while a watcher has a version that this node lacks.
    waited_ms: AtomicU64,
    wake: Notify,
}

/// An answer of another node.
enum Answer {
    InitialState(Entity, Result<InitialState, NoFeed>),
    Page(Entity, u64, Vec<Purchase>),
}

/// The channels of the node, and their timers in monotonic milliseconds.
struct ChannelTable {
    channels: BTreeMap<(Entity, View), Arc<Channel>>,
    next_feed: u64,
    /// One queue for each kind, ordered by time.
    deferred: [VecDeque<(u64, Deferred)>; 3],
    /// Channels with watchers ahead of the published state, by feed.
    ahead: BTreeMap<u64, AheadWatchers>,
    /// The next step of waiting time. `None` if no watcher is ahead.
    ahead_step_ms: Option<u64>,
    /// The next check for stale channels.
    staleness_check_ms: Option<u64>,
}

/// A channel with watchers ahead of the published state.
struct AheadWatchers {
    channel: Arc<Channel>,
    /// The waiting time at which its watchers are notified next.
    next_ms: u64,
    /// The waiting time until which the last of them waits.
    last_ms: u64,
}

/// A timer of a channel.
enum Deferred {
    /// Remove it if it has no watchers.
    RemoveIdle(Arc<Channel>),
    /// Restart it after a failed attempt.
    Restart(Entity),
    /// The request of this number has no answer, or a page of purchases has not come.
    AnswerTimeout(Arc<Channel>, u64),
}

impl Hub {
    pub(super) fn new(source: Arc<dyn FeedSource>, settings: FeedSettings, clock: Arc<dyn Clock>) -> Hub {
        Hub {
            source,
            settings,
            epoch: AtomicU64::new(settings.epoch),
            next_epoch: AtomicU64::new(settings.epoch),
            clock,
            inbox: Mutex::default(),
            answers: Mutex::default(),
            table: Mutex::new(ChannelTable {
                channels: BTreeMap::new(),
                next_feed: 1,
                deferred: Default::default(),
                ahead: BTreeMap::new(),
                ahead_step_ms: None,
                staleness_check_ms: None,
            }),
            fan_out: Mutex::default(),
            some_are_stale: AtomicBool::new(false),
            waited_ms: AtomicU64::new(0),
            wake: Notify::new(),
        }
    }

    /// Queues commits and wakes the publishing task. Never waits for it.
    pub(super) fn commit(&self, commits: Vec<Commit>) {
        if commits.is_empty() {
            return;
        }
        let mut inbox = self.inbox.lock();
        for commit in commits {
            let Commit { entity, from, to, .. } = &commit;
            assert!(from < to, "a commit of {entity} goes from {from} to {to}");
            inbox.push(commit, self.settings.coalesce_ms > 0);
        }
        drop(inbox);
        self.wake.notify_one();
    }

    pub(super) fn initial_state(&self, entity: Entity, outcome: Result<InitialState, NoFeed>) {
        self.answers.lock().push(Answer::InitialState(entity, outcome));
        self.wake.notify_one();
    }

    pub(super) fn purchases_page(&self, entity: Entity, after: u64, page: Vec<Purchase>) {
        self.answers.lock().push(Answer::Page(entity, after, page));
        self.wake.notify_one();
    }

    /// Adds a watcher to an entity's channel, which is created if needed. Returns the channel, the watcher's slot and
    /// its ready flag.
    pub(super) fn join(
        &self,
        entity: &Entity,
        view: View,
        ready: impl FnOnce(u64) -> Arc<ReadyFlag>,
    ) -> (Arc<Channel>, usize, Arc<ReadyFlag>) {
        let mut table = self.table.lock();
        let key = (entity.clone(), view);
        let channel = match table.channels.get(&key) {
            Some(channel) => Arc::clone(channel),
            None => {
                let channel =
                    Arc::new(Channel::new(table.next_feed, entity.clone(), view, (self.epoch(), self.settings.depth)));
                table.next_feed += 1;
                table.channels.insert(key, Arc::clone(&channel));
                channel
            }
        };
        let ready = ready(channel.feed);
        // Under the table's lock, so that no channel with watchers is removed.
        let slot = channel.join(Arc::clone(&ready));
        (channel, slot, ready)
    }

    /// The position of a new watcher. The first watcher starts the feed.
    pub(super) fn begin(&self, channel: &Arc<Channel>, since: Option<Since>) -> Result<Position, NoFeed> {
        if channel.open(&*self.source) {
            self.await_answer(channel);
        }
        self.check_staleness_of(&channel.entity);
        self.resume_position(channel, since)
    }

    /// The position of a watcher after the feed has begun.
    pub(super) fn resume_position(&self, channel: &Arc<Channel>, since: Option<Since>) -> Result<Position, NoFeed> {
        let position = channel.resume_position(since, || {
            let may_come = self.inbox.lock().waits(&channel.entity) || self.source.may_lag(&channel.entity);
            may_come.then(|| self.waited_ms() + AHEAD_MS)
        });
        if let Ok(Position::ResumeAhead { waits_until_ms, .. }) = position {
            self.table.lock().wait_ahead(channel, waits_until_ms, self.now_ms());
            self.wake.notify_one();
        }
        position
    }

    pub(super) fn leaders_changed(&self) {
        let soon = self.some_are_stale.load(Ordering::Relaxed);
        self.check_staleness_in(if soon { 0 } else { self.settings.stale_ms });
    }

    /// A feed that begins without a leader may be stale already.
    fn check_staleness_of(&self, entity: &Entity) {
        if self.source.leaderless_ms(entity).is_some() {
            self.check_staleness_in(0);
        }
    }

    fn check_staleness_in(&self, wait_ms: u64) {
        let at_ms = self.now_ms() + wait_ms;
        let mut table = self.table.lock();
        table.staleness_check_ms = Some(table.staleness_check_ms.map_or(at_ms, |before_ms| before_ms.min(at_ms)));
        drop(table);
        self.wake.notify_one();
    }

    /// Notifies the watchers of channels that have become stale or fresh.
    fn check_staleness(&self, now_ms: u64) {
        let channels: Vec<_> = self.table.lock().channels.values().cloned().collect();
        let mut some_are_stale = false;
        for channel in channels {
            let leaderless_ms = self.source.leaderless_ms(&channel.entity);
            let staleness = channel.update_staleness(now_ms, leaderless_ms, self.settings.stale_ms);
            some_are_stale |= staleness.is_stale;
            if staleness.changed {
                self.notify(&channel);
            }
            if let Some(again_ms) = staleness.again_ms {
                self.check_staleness_in(again_ms);
            }
        }
        self.some_are_stale.store(some_are_stale, Ordering::Relaxed);
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.clock.monotonic_ms()
    }

    /// Waiting time so far, in milliseconds.
    pub(super) fn waited_ms(&self) -> u64 {
        self.waited_ms.load(Ordering::Relaxed)
    }

    /// Starts the time-out of a request to another node.
    pub(super) fn await_answer(&self, channel: &Arc<Channel>) {
        self.defer(self.settings.answer_timeout_ms, Deferred::AnswerTimeout(Arc::clone(channel), channel.requests()));
    }

    pub(super) fn source(&self) -> &dyn FeedSource {
        &*self.source
    }

    /// Removes a watcher. The channel stays a while after the last one.
    pub(super) fn leave(&self, channel: &Arc<Channel>, slot: usize) {
        if !channel.leave(slot) {
            return;
        }
        if !channel.is_begun() {
            // A returning watcher would find nothing.
            self.table.lock().remove_unwatched(channel, &*self.source);
        } else if !channel.lingers.swap(true, Ordering::Relaxed) {
            self.defer(self.settings.linger_ms, Deferred::RemoveIdle(Arc::clone(channel)));
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(super) fn set_epoch(&self, epoch: u64) {
        self.next_epoch.store(epoch, Ordering::Release);
        self.wake.notify_one();
    }

    /// Restarts every feed if there is a new epoch.
    fn take_epoch(&self) {
        let epoch = self.next_epoch.load(Ordering::Acquire);
        if self.epoch.swap(epoch, Ordering::AcqRel) == epoch {
            return;
        }
        let channels: Vec<_> = self.table.lock().channels.values().cloned().collect();
        for channel in channels {
            let outcome = channel.begin_epoch(epoch, &*self.source);
            self.handle_outcome(&channel, outcome);
        }
    }

    pub(super) fn counts(&self) -> (usize, usize) {
        let table = self.table.lock();
        (table.channels.len(), table.channels.values().map(|channel| channel.watching()).sum())
    }

    fn defer(&self, in_ms: u64, deferred: Deferred) {
        let at_ms = self.now_ms() + in_ms;
        self.table.lock().defer(at_ms, deferred);
        self.wake.notify_one();
    }

    /// Publishes commits, the first one after a pause at once, then once a tick. Answers of other nodes are published at once.
    pub(super) async fn run(&self) {
        let mut next_ms = self.now_ms();
        loop {
            let next_timer_ms = self.run_timers(self.now_ms());
            // Commits that were delayed by a fan-out have consumed their wake-up, so the inbox is checked.
            if !self.is_fanning_out() && self.inbox.lock().is_empty() {
                match next_timer_ms {
                    Some(until_ms) => tokio::select! {
                        biased;
                        () = self.wake.notified() => {}
                        () = self.wait_until(until_ms) => continue,
                    },
                    None => self.wake.notified().await,
                }
            }
            self.take_epoch();
            self.take_answers();
            if !self.inbox.lock().is_empty() {
                if !self.is_fanning_out() {
                    self.wait_until(next_ms).await;
                }
                // New commits do not wait for the end of a fan-out.
                let now_ms = self.now_ms();
                if now_ms >= next_ms {
                    next_ms = now_ms + self.settings.coalesce_ms;
                    self.publish();
                }
            }
            self.fan_out_step();
            if self.is_fanning_out() {
                tokio::task::yield_now().await;
            }
        }
    }

    fn is_fanning_out(&self) -> bool {
        !self.fan_out.lock().is_empty()
    }

    /// Notifies some watchers of the next channel.
    fn fan_out_step(&self) {
        let mut fan_out = self.fan_out.lock();
        if let Some(channel) = fan_out.pop_front()
            && channel.notify(FAN_OUT_SLICE)
        {
            fan_out.push_back(channel);
        }
    }

    async fn wait_until(&self, until_ms: u64) {
        let wait_ms = until_ms.saturating_sub(self.now_ms());
        if wait_ms > 0 {
            sleep(Duration::from_millis(wait_ms)).await;
        }
    }

    fn take_answers(&self) {
        let answers = std::mem::take(&mut *self.answers.lock());
        for answer in answers {
            match answer {
                Answer::InitialState(entity, outcome) => self.on_answer(&entity, &outcome),
                Answer::Page(entity, after, page) => {
                    let channel = self.table.lock().channels.get(&(entity, View::Whole)).cloned();
                    if let Some(channel) = channel.filter(|channel| channel.purchases_page(after, page)) {
                        self.notify(&channel);
                    }
                }
            }
        }
    }

    fn on_answer(&self, entity: &Entity, outcome: &Result<InitialState, NoFeed>) {
        for channel in self.channels_of(entity) {
            let outcome = channel.on_answer(outcome.clone(), &*self.source);
            self.handle_outcome(&channel, outcome);
        }
        self.check_staleness_of(entity);
    }

    /// Publishes all waiting commits to the channels of their entities.
    fn publish(&self) {
        let commits = self.inbox.lock().take();
        for commit in commits {
            let mut channels = self.channels_of(&commit.entity);
            let last = channels.pop();
            for channel in channels {
                let outcome = channel.publish(commit.clone(), &*self.source);
                self.handle_outcome(&channel, outcome);
            }
            if let Some(channel) = last {
                let outcome = channel.publish(commit, &*self.source);
                self.handle_outcome(&channel, outcome);
            }
        }
    }

    /// Notifies the watchers after a publication, or goes on to restart the feed.
    fn handle_outcome(&self, channel: &Arc<Channel>, outcome: PublishOutcome) {
        match outcome {
            PublishOutcome::Nothing => {}
            PublishOutcome::Updated => {
                self.notify(channel);
                if self.some_are_stale.load(Ordering::Relaxed) {
                    self.check_staleness_in(0);
                }
            }
            PublishOutcome::Requested => {
                self.await_answer(channel);
                self.mark_disconnected(channel);
            }
            PublishOutcome::RetryLater => {
                self.defer(RESTART_MS, Deferred::Restart(channel.entity.clone()));
                self.mark_disconnected(channel);
            }
        }
    }

    fn mark_disconnected(&self, channel: &Channel) {
        channel.mark_disconnected(self.now_ms());
        self.check_staleness_in(self.settings.stale_ms);
    }

    /// Has all watchers of a channel notified, from the current position of a fan-out that is under way.
    fn notify(&self, channel: &Arc<Channel>) {
        if channel.start_fan_out() {
            self.fan_out.lock().push_back(Arc::clone(channel));
        }
    }

    fn channels_of(&self, entity: &Entity) -> Vec<Arc<Channel>> {
        let table = self.table.lock();
        let of = |view| table.channels.get(&(entity.clone(), view)).cloned();
        [View::Whole, View::Counts].into_iter().filter_map(of).collect()
    }

    /// Runs all due timers and returns the time of the next one.
    fn run_timers(&self, now_ms: u64) -> Option<u64> {
        if self.table.lock().staleness_check_ms.take_if(|at_ms| *at_ms <= now_ms).is_some() {
            self.check_staleness(now_ms);
        }
        if self.table.lock().ahead_step_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            let waited_ms = self.waited_ms.fetch_add(AHEAD_STEP_MS, Ordering::Relaxed) + AHEAD_STEP_MS;
            let told = self.table.lock().step_ahead(waited_ms, now_ms);
            told.iter().for_each(|channel| self.notify(channel));
        }
        loop {
            let (due, next_ms) = self.table.lock().due(now_ms);
            match due {
                None => return next_ms,
                Some(Deferred::RemoveIdle(channel)) => {
                    channel.lingers.store(false, Ordering::Relaxed);
                    self.table.lock().remove_unwatched(&channel, &*self.source);
                }
                Some(Deferred::Restart(entity)) => self.commit(vec![Commit::lost(entity)]),
                Some(Deferred::AnswerTimeout(channel, ask)) => self.ask_elsewhere(&channel, ask),
            }
        }
    }

    /// Asks another node if the answer to request `ask` has not come.
    fn ask_elsewhere(&self, channel: &Arc<Channel>, ask: u64) {
        if channel.watching() == 0 || channel.requests() != ask {
            return;
        }
        if !channel.is_pending() {
            if channel.forget_page_requests() {
                self.notify(channel);
            }
            return;
        }
        match self.source.begin_elsewhere(&channel.entity) {
            Err(NoFeed::Pending) => self.await_answer(channel),
            outcome => self.on_answer(&channel.entity, &outcome),
        }
    }
}

impl ChannelTable {
    /// A watcher of a channel waits until this waiting time. One notification serves all of them.
    fn wait_ahead(&mut self, channel: &Arc<Channel>, until_ms: u64, now_ms: u64) {
        let new = || AheadWatchers { channel: Arc::clone(channel), next_ms: until_ms, last_ms: until_ms };
        self.ahead.entry(channel.feed).or_insert_with(new).last_ms = until_ms;
        self.ahead_step_ms.get_or_insert(now_ms + AHEAD_STEP_MS);
    }

    /// Counts a step of waiting time, and returns the channels with watchers that have waited long enough.
    fn step_ahead(&mut self, waited_ms: u64, now_ms: u64) -> Vec<Arc<Channel>> {
        let mut told = Vec::new();
        self.ahead.retain(|_, ahead| {
            if ahead.next_ms <= waited_ms {
                told.push(Arc::clone(&ahead.channel));
                ahead.next_ms = ahead.last_ms;
            }
            ahead.last_ms > waited_ms
        });
        self.ahead_step_ms = (!self.ahead.is_empty()).then(|| now_ms + AHEAD_STEP_MS);
        told
    }

    fn defer(&mut self, at_ms: u64, deferred: Deferred) {
        let queue = match deferred {
            Deferred::RemoveIdle(_) => 0,
            Deferred::Restart(_) => 1,
            Deferred::AnswerTimeout(..) => 2,
        };
        self.deferred[queue].push_back((at_ms, deferred));
    }

    /// A due timer, or the time of the next one.
    fn due(&mut self, now_ms: u64) -> (Option<Deferred>, Option<u64>) {
        let is_due = |queue: &&mut VecDeque<(u64, Deferred)>| queue.front().is_some_and(|(at_ms, _)| *at_ms <= now_ms);
        match self.deferred.iter_mut().find(is_due) {
            Some(queue) => (queue.pop_front().map(|(_, deferred)| deferred), None),
            None => {
                let fronts = self.deferred.iter().filter_map(|queue| queue.front());
                (None, fronts.map(|(at_ms, _)| *at_ms).chain(self.staleness_check_ms).chain(self.ahead_step_ms).min())
            }
        }
    }

    /// Removes a channel without watchers. The table is locked, so that a new feed of the entity begins after this.
    fn remove_unwatched(&mut self, channel: &Arc<Channel>, source: &dyn FeedSource) {
        let key = (channel.entity.clone(), channel.view);
        let known = self.channels.get(&key).is_some_and(|known| Arc::ptr_eq(known, channel));
        if known && channel.watching() == 0 {
            self.channels.remove(&key);
            let other = match channel.view {
                View::Whole => View::Counts,
                View::Counts => View::Whole,
            };
            let watched_besides = self.channels.get(&(key.0, other)).is_some_and(|channel| channel.is_begun());
            if channel.is_begun() && !watched_besides {
                source.end(&channel.entity);
            }
        }
    }
}

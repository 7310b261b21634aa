//! One shard as this node has it: the committed state, and, while it leads, the actors that decide.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering},
    },
};

use boxoffice_core::{
    command::{CartCommand, Command},
    id::{Entity, Request, RequestHash},
    planted,
    state_map::StateMap,
};
use boxoffice_env::{Clock, NotSent};
use boxoffice_shard::{Epoch, FollowerStatus, NodeId, ReplicaId, ShardId, ShardTime};
use parking_lot::Mutex;
use ractor::ActorRef;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use smol_str::SmolStr;

use crate::{
    actor::{Letter, Message, Serving},
    admission::{Admission, Class, Pass},
    contain::CallerKey,
    desk::{Desk, LaidDown, WasOpen},
    door::{self, ReplyTo},
    routing::{Belief, Led},
    under_way::UnderWay,
};

/// One shard of this node.
pub(crate) struct ShardCell {
    /// Its number.
    pub(crate) id: ShardId,
    /// What is committed, and who watches it.
    pub(crate) replica: Mutex<Replica>,
    /// Who decides, while this node leads.
    pub(crate) lead: Mutex<Lead>,
    /// The last applied entry's index.
    pub(crate) applied: AtomicU64,
    /// The first entry that must stay in the log: 0 when that has not been worked out, [`u64::MAX`] when none must.
    pub(crate) first_needed: AtomicU64,
    /// The term of the last change of leadership.
    pub(crate) term: AtomicU64,
    /// The id of the shard's replica on this node, once it has a state; 0 if it has none.
    pub(crate) replica_id: AtomicU64,
    /// The same from its first message on.
    pub(crate) group_id: AtomicU64,
    /// The replica has no vote.
    pub(crate) learns: AtomicBool,
    /// True time less the shard's running time, in milliseconds, as it was last committed.
    pub(crate) distance_ms: AtomicI64,
    /// This node leads the shard, and no majority of its voters confirms its time.
    pub(crate) unconfirmed: AtomicBool,
    /// How many replicas vote.
    pub(crate) voters: AtomicUsize,
    /// The last entry that the replica here knows to be committed.
    pub(crate) committed: AtomicU64,
    /// While this node leads: every other replica, as it was known a moment ago.
    pub(crate) followers: Mutex<Vec<FollowerStatus>>,
    /// Who leads, as far as is known here.
    pub(crate) belief: Mutex<Belief>,
    /// Since which monotonic millisecond the replica here knows no leader; 0 if it knows one.
    unled_since_ms: AtomicU64,
    admitted: AtomicUsize,
    /// Requests of clients' commands that are under way here.
    requests: Mutex<FxHashSet<u64>>,
    /// The node's, the same for every shard.
    admission: Arc<Admission>,
    clock: Arc<dyn Clock>,
}

/// The committed state of a shard.
#[derive(Default)]
pub(crate) struct Replica {
    /// Every entity of the shard that is in memory.
    pub(crate) kept: StateMap,
    /// How many batches of the store a snapshot cut now would rest on: what they have is not in `kept`.
    pub(crate) rests_on: u64,
    /// Entities whose changes the feeds want.
    pub(crate) watched: WatchedEntities,
}

/// Entities whose changes are wanted by feeds of this node, of others, or of both.
#[derive(Default)]
pub(crate) struct WatchedEntities(BTreeMap<Entity, Wanted>);

#[derive(Clone, Copy, Default)]
struct Wanted {
    here: bool,
    far: bool,
}

impl WatchedEntities {
    pub(crate) fn begin_here(&mut self, entity: Entity) {
        self.0.entry(entity).or_default().here = true;
    }

    pub(crate) fn begin_far(&mut self, entity: Entity) {
        self.0.entry(entity).or_default().far = true;
    }

    pub(crate) fn end_here(&mut self, entity: &Entity) {
        self.end(entity, |wanted| wanted.here = false);
    }

    pub(crate) fn end_far(&mut self, entity: &Entity) {
        self.end(entity, |wanted| wanted.far = false);
    }

    fn end(&mut self, entity: &Entity, change: impl FnOnce(&mut Wanted)) {
        if let Some(wanted) = self.0.get_mut(entity) {
            change(wanted);
            if !wanted.here && !wanted.far {
                self.0.remove(entity);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, entity: &Entity) -> bool {
        self.0.contains_key(entity)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entity> {
        self.0.keys()
    }
}

/// Leadership of a shard: none, or an epoch with its actors.
#[derive(Default)]
pub(crate) struct Lead {
    /// The epoch this node leads in, and the clock of it.
    pub(crate) reign: Option<Reign>,
    /// Who is served by which actor. Looked up, never walked to decide anything.
    pub(crate) actors: FxHashMap<Entity, Arc<Served>>,
}

/// A span of leadership.
#[derive(Clone, Copy)]
pub(crate) struct Reign {
    /// Its epoch.
    pub(crate) epoch: Epoch,
    /// Its clock.
    pub(crate) time: ShardTime,
}

/// An entity that an actor serves.
pub(crate) struct Served {
    /// The actor.
    pub(crate) actor: ActorRef<Message>,
    /// What it decides on.
    pub(crate) desk: Desk<Box<Serving>>,
    /// Messages and turns that are under way.
    pub(crate) under_way: UnderWay,
    /// The entity's version up to which everything is committed, as far as this leader has seen.
    pub(crate) committed: AtomicU64,
    /// When it was last sent something, in monotonic milliseconds.
    pub(crate) used_ms: AtomicU64,
}

impl Served {
    /// Puts a letter into the actor's mailbox. A closed mailbox drops it: a client that waits for an answer hears `unknown`.
    pub(crate) fn cast(self: &Arc<Self>, letter: Letter) {
        let _ = self.actor.cast(Message { to: Arc::clone(self), letter });
    }

    /// Lays down what was taken from the desk.
    pub(crate) fn lay_down(self: &Arc<Self>, serving: Box<Serving>) {
        match self.desk.lay_down(serving) {
            LaidDown::Here => {}
            LaidDown::Wanted => self.cast(Letter::Back),
            LaidDown::Closed(serving) => drop(serving),
        }
    }
}

impl Lead {
    /// Ends the leadership: closes the desk of every actor for which `ends` says yes. The states that lay there come back, to be
    /// dropped where no lock is held.
    #[must_use]
    pub(crate) fn end(&mut self, ends: impl Fn(&Served) -> bool) -> Vec<WasOpen<Box<Serving>>> {
        self.reign = None;
        self.actors.extract_if(|_, served| ends(served)).map(|(_, served)| served.desk.close()).collect()
    }
}

impl ShardCell {
    pub(crate) fn new(id: ShardId, admission: Arc<Admission>, clock: Arc<dyn Clock>) -> ShardCell {
        ShardCell {
            id,
            replica: Mutex::default(),
            lead: Mutex::default(),
            applied: AtomicU64::new(0),
            first_needed: AtomicU64::new(0),
            term: AtomicU64::new(0),
            replica_id: AtomicU64::new(0),
            group_id: AtomicU64::new(0),
            learns: AtomicBool::new(false),
            distance_ms: AtomicI64::new(0),
            unconfirmed: AtomicBool::new(false),
            voters: AtomicUsize::new(1),
            committed: AtomicU64::new(0),
            followers: Mutex::default(),
            belief: Mutex::default(),
            unled_since_ms: AtomicU64::new(0),
            admitted: AtomicUsize::new(0),
            requests: Mutex::default(),
            admission,
            clock,
        }
    }

    /// Counts one more command under way.
    pub(crate) fn enter(self: &Arc<Self>, pass: Pass, request: Option<u64>, reply: ReplyTo) -> Caller {
        self.admitted.fetch_add(1, Ordering::Relaxed);
        if let Some(request) = request {
            self.requests.lock().insert(request);
        }
        let until_ms = pass.came_ms().saturating_add(reply.patience_ms());
        Caller { reply: Some(reply), cell: Arc::clone(self), pass, request, until_ms }
    }

    /// The class in which a client's command may be shed, as far as this node knows; `None` if it must not be: it repeats a
    /// request that was admitted, or gives something back.
    pub(crate) fn class_of(&self, entity: &Entity, command: &Command, request: Option<Request>) -> Option<Class> {
        let releases = || matches!(command, Command::Cart(_, CartCommand::Release { .. } | CartCommand::Cancel));
        if planted::is("a release is shed") && releases() {
            return Some(Class::Read);
        }
        let class = Class::of(command)?;
        let Some(request) = request else { return Some(class) };
        if planted::is("an admitted repeat is shed") {
            return Some(class);
        }
        if self.requests.lock().contains(&key_of(entity, request.id)) {
            return None;
        }
        let state = self.replica.lock().kept.get(entity);
        match (state, class) {
            (Some(state), _) if state.knows_request(request) => None,
            (Some(_), Class::Begin) if matches!(entity, Entity::Cart(_)) => Some(Class::Hold),
            // A cart that is not in memory has bought what it wanted, or has nothing to buy.
            (None, Class::Checkout) => None,
            (Some(_) | None, class) => Some(class),
        }
    }

    /// The class of a command that opens a cart, unless there is such a cart or the request was admitted before.
    pub(crate) fn class_of_opening(&self, cart: &Entity, request: RequestHash) -> Option<Class> {
        if planted::is("an admitted repeat is shed") {
            return Some(Class::Begin);
        }
        let is_known =
            self.requests.lock().contains(&key_of(cart, request)) || self.replica.lock().kept.get(cart).is_some();
        (!is_known).then_some(Class::Begin)
    }

    /// Whether this node leads the shard.
    pub(crate) fn leads(&self) -> bool {
        self.lead.lock().reign.is_some()
    }

    /// The term in which this node leads the shard.
    pub(crate) fn leads_in(&self) -> Option<u64> {
        self.lead.lock().reign.map(|reign| reign.epoch.0)
    }

    /// The shard's replica on this node.
    pub(crate) fn replica_here(&self) -> Option<ReplicaId> {
        ReplicaId::from_bits(self.replica_id.load(Ordering::Relaxed))
    }

    /// Whom to ask at this attempt; `None` if there is no telling.
    pub(crate) fn leader(&self, attempt: u16) -> Option<NodeId> {
        self.belief.lock().leader(attempt)
    }

    /// The same with the term in which it is believed to lead; 0 if it is only asked whether it does.
    pub(crate) fn leader_in_term(&self, attempt: u16) -> Option<(NodeId, u64)> {
        let belief = self.belief.lock();
        let node = belief.leader(attempt)?;
        Some((node, belief.term_of(node).unwrap_or(0)))
    }

    /// Its part in the shard, as `admin.status` says it.
    pub(crate) fn role(&self) -> &'static str {
        match (self.leads(), self.replica_here(), self.known_leader()) {
            (true, ..) => "leader",
            (false, None, _) => "none",
            (false, Some(_), _) if self.learns.load(Ordering::Relaxed) => "learner",
            (false, Some(_), Some(_)) => "follower",
            (false, Some(_), None) => "candidate",
        }
    }

    /// Who leads, as far as the replica here knows.
    pub(crate) fn known_leader(&self) -> Option<NodeId> {
        self.led().leader
    }

    /// The same with its term.
    pub(crate) fn led(&self) -> Led {
        self.belief.lock().follows()
    }

    /// The replica here knows a leader now, or none; whether that is news.
    pub(crate) fn is_led(&self, led: bool, now_ms: u64) -> bool {
        if led {
            self.unled_since_ms.swap(0, Ordering::Relaxed) != 0
        } else {
            let since_ms = now_ms.max(1);
            self.unled_since_ms.compare_exchange(0, since_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        }
    }

    /// Since which monotonic millisecond the replica here knows no leader; `None` if it knows one, or there is no replica.
    pub(crate) fn unled_since_ms(&self) -> Option<u64> {
        let since_ms = self.unled_since_ms.load(Ordering::Relaxed);
        (since_ms > 0 && self.replica_here().is_some()).then_some(since_ms)
    }

    /// What became of something sent to the believed leader: one that cannot be reached is not believed to lead any more.
    pub(crate) fn note_sent<T>(&self, sent: &Result<T, NotSent>) {
        if let Err(NotSent::Unreachable(node)) = sent {
            self.belief.lock().unreachable(*node);
        }
    }

    /// Commands under way.
    pub(crate) fn under_way(&self) -> usize {
        self.admitted.load(Ordering::Relaxed)
    }
}

/// A client waiting for an answer, counted against the node's admission until it has one.
pub(crate) struct Caller {
    reply: Option<ReplyTo>,
    cell: Arc<ShardCell>,
    pass: Pass,
    /// What its command changes something under.
    request: Option<u64>,
    /// Until when it waits, in milliseconds of the monotonic clock.
    until_ms: u64,
}

impl Caller {
    /// Names the caller while it waits.
    pub(crate) fn key(&self) -> Option<CallerKey> {
        self.reply.as_ref().map(ReplyTo::key)
    }

    /// The name of the key or the operator that asks.
    pub(crate) fn asker(&self) -> Option<&SmolStr> {
        self.reply.as_ref()?.asker()
    }

    /// The actor has its command now. Whether the answer would come too late.
    pub(crate) fn is_too_late(&self, now_ms: u64) -> bool {
        self.cell.admission.taken(self.pass, now_ms);
        now_ms >= self.until_ms && !planted::is("a command decided for a caller that has gone")
    }

    /// Gives the answer.
    pub(crate) fn answer(mut self, result: door::Result) {
        if let Some(reply) = self.reply.take() {
            reply.answer(result);
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // Without an answer, `reply` says `unknown` or `internal` as it is dropped.
        self.cell.admitted.fetch_sub(1, Ordering::Relaxed);
        if let Some(request) = self.request {
            self.cell.requests.lock().remove(&request);
        }
        self.cell.admission.over(self.pass, self.cell.clock.monotonic_ms());
    }
}

/// A number for the request of an entity. Two requests with the same number do no harm: one of them is not shed.
pub(crate) fn key_of(entity: &Entity, request: RequestHash) -> u64 {
    let mut hasher = FxHasher::default();
    entity.hash(&mut hasher);
    request.hash(&mut hasher);
    hasher.finish()
}

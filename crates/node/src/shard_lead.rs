//! One shard on this node: the committed state and, while the node leads, the actors that decide.

use std::{
    ops::Deref,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use boxoffice_core::{
    ask::Ask,
    command::{CartCommand, Command},
    host::{Effect, Host, Input, Turn},
    id::{Entity, Request, RequestHash},
    planted,
    rules::Rules,
    state_map::State,
};
use boxoffice_env::{Clock, NotSent};
use boxoffice_replication::{
    history_reads::ReadError,
    shard_state::{Leadership, ShardState},
};
use boxoffice_shard::{NodeId, ReplicaId, ShardId, ring::shard_of};
use boxoffice_storage::history::StoredEntity;
use ractor::ActorRef;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use tracing_mutex::parkinglot::Mutex;

use crate::{
    admission::{Admission, Class, Pass},
    api::ReplyTo,
    caller::{Caller, Callers, key_of},
    leader_hint::{LeaderHint, LeaderInfo},
    recovery::{Health, PanicHistory},
    state_slot::{Closed, PutBack, StateSlot},
    under_way::UnderWay,
};

/// The shard of the directory. No key maps to it.
const DIRECTORY_SHARD: u16 = 0;

/// The shards of this node, by number.
pub(crate) struct Shards(Vec<Arc<ShardLead>>);

impl Shards {
    /// The directory's first, then at least one more.
    pub(crate) fn new(shards: Vec<Arc<ShardLead>>) -> Shards {
        Shards(shards)
    }

    /// The shard an entity lives in.
    pub(crate) fn of(&self, entity: &Entity) -> &Arc<ShardLead> {
        let shard = match entity {
            Entity::Directory | Entity::Cluster => DIRECTORY_SHARD,
            _ => shard_of(entity.hash_prefix(), self.0.len() as u16 - 1),
        };
        &self.0[usize::from(shard)]
    }
}

impl Deref for Shards {
    type Target = [Arc<ShardLead>];

    fn deref(&self) -> &[Arc<ShardLead>] {
        &self.0
    }
}

/// One shard of this node.
pub(crate) struct ShardLead {
    pub(crate) id: ShardId,
    /// Its replica here.
    pub(crate) state: Arc<ShardState>,
    /// The actors, while this node leads.
    pub(crate) leader_state: Mutex<LeaderState>,
    pub(crate) leader_hint: Mutex<LeaderHint>,
    /// The monotonic millisecond since which the replica here knows no leader. 0 if it knows one.
    leaderless_since_ms: AtomicU64,
    /// The terms of the deployment, if they are others here.
    rules: OnceLock<Arc<Rules>>,
    /// Clients' commands that are under way here.
    callers: Arc<Callers>,
}

/// Leadership of a shard: none, or an epoch with its actors.
#[derive(Default)]
pub(crate) struct LeaderState {
    /// The epoch in which this node leads, and its clock.
    pub(crate) leadership: Option<Leadership>,
    /// The actor of each entity. Looked up, never walked to decide anything.
    pub(crate) actors: FxHashMap<Entity, Arc<ActorHandle>>,
}

/// An entity's actor, with its state and its counts.
pub(crate) struct ActorHandle {
    /// The actor.
    pub(crate) mailbox: ActorRef<Envelope>,
    /// The entity's state.
    pub(crate) slot: StateSlot<Box<Assignment>>,
    /// Messages and turns that are under way.
    pub(crate) under_way: UnderWay,
    /// The entity's committed version, as this leader has seen it.
    pub(crate) committed: AtomicU64,
    /// When it was last sent something, in monotonic milliseconds.
    pub(crate) used_ms: AtomicU64,
}

impl ActorHandle {
    /// Puts a message into the actor's mailbox. A closed mailbox drops it, and its client hears `unknown`.
    pub(crate) fn cast(self: &Arc<Self>, message: EntityMessage) {
        let _ = self.mailbox.cast(Envelope { to: Arc::clone(self), message });
    }

    /// Puts the state back into its slot.
    pub(crate) fn put_back(self: &Arc<Self>, assignment: Box<Assignment>) {
        match self.slot.put_back(assignment) {
            PutBack::Present => {}
            PutBack::Wanted => self.cast(EntityMessage::StateIsBack),
            PutBack::Closed(assignment) => drop(assignment),
        }
    }
}

/// A message to an actor, with its entity.
pub(crate) struct Envelope {
    pub(crate) to: Arc<ActorHandle>,
    pub(crate) message: EntityMessage,
}

/// A message to an entity.
pub(crate) enum EntityMessage {
    /// An input to decide.
    Input(Input<Caller>),
    /// A cart of this shard asks, and sends its host along. The actor decides for both.
    JointAsk(Box<JointAsk>),
    /// The cart's joint ask has an outcome.
    JointOutcome(JointOutcome),
    /// The entity's record was read from the store.
    Loaded(Result<Option<StoredEntity>, ReadError>),
    /// Release the entity if nothing is under way.
    Leave,
    /// The entity's state is back in its slot.
    StateIsBack,
}

/// An entity and the actor's copy of it.
pub(crate) struct Assignment {
    pub(crate) entity: Entity,
    /// `None` until the actor has checked whether the entity has left memory. `None` also after a panic, until the
    /// entity restarts.
    pub(crate) host: Option<Host<Caller>>,
    /// The stored state of an entity that has left memory, until its first turn is proposed.
    pub(crate) reloaded: Option<Arc<State>>,
    pub(crate) health: Health,
    pub(crate) panics: PanicHistory,
    pub(crate) lead: Arc<ShardLead>,
    pub(crate) leadership: Leadership,
}

/// An entity whose state an actor has taken.
pub(crate) struct TakenEntity {
    pub(crate) actor: Arc<ActorHandle>,
    pub(crate) assignment: Box<Assignment>,
}

/// A cart's host with its ask, on the way to the inventory with which it decides together ([`crate::joint`]).
pub(crate) struct JointAsk {
    pub(crate) cart: Entity,
    pub(crate) host: Host<Caller>,
    pub(crate) reloaded: Option<Arc<State>>,
    /// The cart's actor.
    pub(crate) actor: Arc<ActorHandle>,
    /// The cart's decisions so far, without the ask: an order, or nothing yet.
    pub(crate) turn: Turn<Caller>,
    /// The name of the key or the operator that sent the command.
    pub(crate) by: Option<SmolStr>,
    pub(crate) ask: Ask,
    pub(crate) inventory: Entity,
}

/// Where a joint turn is decided.
pub(crate) enum JointPlace {
    /// By the cart's actor at once, because the inventory is idle.
    AtTheCart(Box<JointAsk>, TakenEntity),
    /// Later, by the inventory's actor, which has the ask as a message now.
    AtTheInventory,
    /// Nowhere: this node does not lead any more.
    Nowhere(Box<JointAsk>),
}

/// What a cart gets back of its joint ask.
pub(crate) enum JointOutcome {
    /// Its host. The turn was proposed, or the inventory's answer comes as a message.
    Asked(Host<Caller>),
    /// Its whole ask, because nothing was decided. The cart proposes its own decisions, and asks by a message.
    NotAsked(Box<JointAsk>),
    /// Nothing, because the host panicked when it decided on the reply. The cart restarts.
    HostLost,
}

impl JointAsk {
    /// The outcome when the inventory did not decide together with the cart. The result of a hold comes as a message. An order, or
    /// the beginning of a checkout, is proposed by the cart itself, which then asks again.
    pub(crate) fn answered_apart(self: Box<Self>) -> JointOutcome {
        let is_hold = matches!(self.ask, Ask::Hold { .. });
        let has_changed = !self.turn.events.is_empty() && !planted::is("a beginning forgotten with its hold");
        if is_hold && !has_changed { JointOutcome::Asked(self.host) } else { JointOutcome::NotAsked(self) }
    }

    /// The cart's turn with its ask, as it was decided.
    pub(crate) fn into_own_turn(self) -> (Host<Caller>, Option<Arc<State>>, Turn<Caller>, Option<SmolStr>) {
        let JointAsk { host, reloaded, mut turn, by, ask, inventory, .. } = self;
        let effect = Effect::Ask { to: inventory, ask };
        if turn.events.is_empty() {
            turn.now.push(effect)
        } else {
            turn.committed.insert(0, effect)
        }
        (host, reloaded, turn, by)
    }
}

impl Assignment {
    /// Whether another actor than the entity's own may decide on it.
    pub(crate) fn may_be_borrowed(&self) -> bool {
        self.host.is_some() && matches!(self.health, Health::Healthy)
    }
}

impl LeaderState {
    /// Ends the leadership and closes the slot of every actor for which `ends` is true. Returns the states, to be dropped where
    /// no lock is held.
    #[must_use]
    pub(crate) fn end(&mut self, ends: impl Fn(&ActorHandle) -> bool) -> Vec<Closed<Box<Assignment>>> {
        self.leadership = None;
        self.actors.extract_if(|_, actor| ends(actor)).map(|(_, actor)| actor.slot.close()).collect()
    }
}

impl ShardLead {
    pub(crate) fn new(state: Arc<ShardState>, admission: Arc<Admission>, clock: Arc<dyn Clock>) -> ShardLead {
        ShardLead {
            id: state.id,
            state,
            leader_state: Mutex::default(),
            leader_hint: Mutex::default(),
            leaderless_since_ms: AtomicU64::new(0),
            rules: OnceLock::new(),
            callers: Arc::new(Callers::new(admission, clock)),
        }
    }

    /// The terms of the deployment as they are in this shard.
    pub(crate) fn rules(&self, rules: &Arc<Rules>) -> Arc<Rules> {
        match self.state.payment_epoch.load(Ordering::Relaxed) {
            0 => Arc::clone(rules),
            // A replica has it before it leads, and it never changes.
            payment_epoch => {
                Arc::clone(self.rules.get_or_init(|| Arc::new(Rules { payment_epoch, ..(**rules).clone() })))
            }
        }
    }

    /// Counts one more command under way.
    pub(crate) fn enter(&self, pass: Pass, request: Option<u64>, reply: ReplyTo) -> Caller {
        self.callers.enter(pass, request, reply)
    }

    /// The class in which a client's command may be shed. `None` if it must not be shed, because it repeats an admitted request
    /// or gives something back.
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
        if self.callers.has(&key_of(entity, request.id)) {
            return None;
        }
        let state = self.state.replica.lock().kept.get(entity);
        let is_empty = |state: &State| matches!(state, State::Cart(cart) if !cart.has_lines());
        match (state, class) {
            (Some(state), _) if state.knows_request(request) => None,
            (Some(_), Class::Begin) if matches!(entity, Entity::Cart(_)) => Some(Class::Hold),
            // A cart that is not in memory has bought what it wanted, or has nothing to buy.
            (None, Class::Checkout) => None,
            // An empty cart has nothing that must come to its end.
            (Some(state), Class::Checkout) if is_empty(&state) => Some(Class::Hold),
            (Some(_) | None, class) => Some(class),
        }
    }

    /// The class of a command that opens a cart, unless there is such a cart or the request was admitted before.
    pub(crate) fn class_of_opening(&self, cart: &Entity, request: RequestHash) -> Option<Class> {
        if planted::is("an admitted repeat is shed") {
            return Some(Class::Begin);
        }
        let is_known = self.callers.has(&key_of(cart, request)) || self.state.replica.lock().kept.get(cart).is_some();
        (!is_known).then_some(Class::Begin)
    }

    /// Whether this node leads the shard.
    pub(crate) fn leads(&self) -> bool {
        self.leader_state.lock().leadership.is_some()
    }

    /// The term in which this node leads the shard.
    pub(crate) fn leads_in(&self) -> Option<u64> {
        self.leader_state.lock().leadership.map(|leadership| leadership.epoch.0)
    }

    /// The shard's replica on this node.
    pub(crate) fn replica_here(&self) -> Option<ReplicaId> {
        self.state.replica_here()
    }

    /// The node to ask at this attempt. `None` if no node is known.
    pub(crate) fn leader(&self, attempt: u16) -> Option<NodeId> {
        self.leader_hint.lock().leader(attempt)
    }

    /// The same with the term of the hint. 0 if the hint has no term.
    pub(crate) fn leader_in_term(&self, attempt: u16) -> Option<(NodeId, u64)> {
        let leader_hint = self.leader_hint.lock();
        let node = leader_hint.leader(attempt)?;
        Some((node, leader_hint.term_of(node).unwrap_or(0)))
    }

    /// The node's role in the shard, for `admin.status`.
    pub(crate) fn role(&self) -> &'static str {
        match (self.leads(), self.replica_here(), self.known_leader()) {
            (true, ..) => "leader",
            (false, None, _) => "none",
            (false, Some(_), _) if self.state.learns.load(Ordering::Relaxed) => "learner",
            (false, Some(_), Some(_)) => "follower",
            (false, Some(_), None) => "candidate",
        }
    }

    /// The leader that the replica here knows.
    pub(crate) fn known_leader(&self) -> Option<NodeId> {
        self.leader_info().leader
    }

    /// The same with its term.
    pub(crate) fn leader_info(&self) -> LeaderInfo {
        self.leader_hint.lock().follows()
    }

    /// Notes whether the replica here knows a leader. Returns whether that changed.
    pub(crate) fn note_leader(&self, is_known: bool, now_ms: u64) -> bool {
        if is_known {
            self.leaderless_since_ms.swap(0, Ordering::Relaxed) != 0
        } else {
            let since_ms = now_ms.max(1);
            self.leaderless_since_ms.compare_exchange(0, since_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        }
    }

    /// Since which monotonic millisecond the replica here knows no leader. `None` if it knows one, or there is no replica.
    pub(crate) fn leaderless_since_ms(&self) -> Option<u64> {
        let since_ms = self.leaderless_since_ms.load(Ordering::Relaxed);
        (since_ms > 0 && self.replica_here().is_some()).then_some(since_ms)
    }

    /// Drops the hint if a message could not be sent to the hinted leader.
    pub(crate) fn note_sent<T>(&self, sent: &Result<T, NotSent>) {
        if let Err(NotSent::Unreachable(node)) = sent {
            self.leader_hint.lock().unreachable(*node);
        }
    }

    /// Commands under way.
    pub(crate) fn under_way(&self) -> usize {
        self.callers.count()
    }
}

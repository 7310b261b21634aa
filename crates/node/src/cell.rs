//! One shard as this node has it: the committed state, and, while it leads, the actors that decide.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use boxoffice_core::{
    ask::Ask,
    command::{CartCommand, Command},
    host::{Effect, Host, Input, Turn},
    id::{Entity, Request, RequestHash},
    planted,
};
use boxoffice_env::{Clock, NotSent};
use boxoffice_replication::shard_state::{Leadership, ShardState};
use boxoffice_shard::{NodeId, ReplicaId, ShardId, ring::shard_of};
use parking_lot::Mutex;
use ractor::ActorRef;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use crate::{
    admission::{Admission, Class, Pass},
    caller::{Caller, Callers, key_of},
    desk::{Desk, LaidDown, WasOpen},
    door::ReplyTo,
    leader::{Belief, Led},
    recovery::{Faults, Health},
    under_way::UnderWay,
};

/// The shard of the directory: its number is not worked out from a key.
const DIRECTORY_SHARD: u16 = 0;

/// The shards of this node, by number.
pub(crate) struct Shards(Vec<Arc<ShardCell>>);

impl Shards {
    /// The directory's first, then at least one more.
    pub(crate) fn new(cells: Vec<Arc<ShardCell>>) -> Shards {
        Shards(cells)
    }

    /// The shard an entity lives in.
    pub(crate) fn of(&self, entity: &Entity) -> &Arc<ShardCell> {
        let shard = match entity {
            Entity::Directory | Entity::Cluster => DIRECTORY_SHARD,
            _ => shard_of(entity.hash_prefix(), self.0.len() as u16 - 1),
        };
        &self.0[usize::from(shard)]
    }
}

impl Deref for Shards {
    type Target = [Arc<ShardCell>];

    fn deref(&self) -> &[Arc<ShardCell>] {
        &self.0
    }
}

/// One shard of this node.
pub(crate) struct ShardCell {
    /// Its number.
    pub(crate) id: ShardId,
    /// Its replica here.
    pub(crate) state: Arc<ShardState>,
    /// Who decides, while this node leads.
    pub(crate) lead: Mutex<Lead>,
    /// Who leads, as far as is known here.
    pub(crate) belief: Mutex<Belief>,
    /// Since which monotonic millisecond the replica here knows no leader; 0 if it knows one.
    unled_since_ms: AtomicU64,
    /// Clients' commands that are under way here.
    callers: Arc<Callers>,
}

/// Leadership of a shard: none, or an epoch with its actors.
#[derive(Default)]
pub(crate) struct Lead {
    /// The epoch this node leads in, and the clock of it.
    pub(crate) leadership: Option<Leadership>,
    /// Who is served by which actor. Looked up, never walked to decide anything.
    pub(crate) actors: FxHashMap<Entity, Arc<Served>>,
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

/// What an actor is sent: a letter to an entity that it serves.
pub(crate) struct Message {
    pub(crate) to: Arc<Served>,
    pub(crate) letter: Letter,
}

/// What is said to an entity.
pub(crate) enum Letter {
    /// Something to decide.
    Input(Input<Caller>),
    /// A cart of this shard lends its host with an ask: decide both.
    Lent(Box<Loan>),
    /// What was lent comes back.
    Returned(Returned),
    /// Leave the entity if nothing is under way.
    Leave,
    /// What was not on the entity's desk is there again.
    Back,
}

/// An entity and the actor's copy of it.
pub(crate) struct Serving {
    pub(crate) entity: Entity,
    /// `None` until it is known whether the entity has left memory: the actor looks, not the sender. `None` also
    /// after a panic, until the entity begins anew.
    pub(crate) host: Option<Host<Caller>>,
    pub(crate) health: Health,
    pub(crate) faults: Faults,
    pub(crate) cell: Arc<ShardCell>,
    pub(crate) leadership: Leadership,
}

/// An entity whose desk is taken up.
pub(crate) struct AtWork {
    pub(crate) served: Arc<Served>,
    pub(crate) serving: Box<Serving>,
}

/// A cart's host on its way to the inventory that it asks.
pub(crate) struct Loan {
    /// The cart.
    pub(crate) cart: Entity,
    pub(crate) host: Host<Caller>,
    pub(crate) served: Arc<Served>,
    /// What the cart has decided already, without the ask: an order, or nothing yet.
    pub(crate) turn: Turn<Caller>,
    /// The name of the key or the operator that sent the command.
    pub(crate) by: Option<SmolStr>,
    /// What it asks.
    pub(crate) ask: Ask,
    /// Whom.
    pub(crate) inventory: Entity,
}

/// What becomes of a loan.
pub(crate) enum Lent {
    /// The inventory is at rest: it is decided here and now.
    Beside(Box<Loan>, AtWork),
    /// The inventory's actor decides when its turn has come, and gives the host back.
    Sent,
    /// This node does not lead any more.
    Not(Box<Loan>),
}

/// A cart's host on its way back.
pub(crate) enum Returned {
    /// The turn was proposed, or the cart is told of the inventory's answer by a message.
    Asked(Host<Caller>),
    /// Nothing was decided: the cart goes on by itself.
    AsItCame(Box<Loan>),
    /// The cart panicked as it decided the reply.
    Lost,
}

impl Loan {
    /// Whether it asks for a hold; otherwise it asks to sell.
    pub(crate) fn holds(&self) -> bool {
        matches!(self.ask, Ask::Hold { .. })
    }

    /// What the cart gets back when nothing was decided together. It hears of a hold by a message. What has happened to the cart, an
    /// order or the beginning of a checkout, it proposes by itself, and asks again.
    pub(crate) fn undecided(self: Box<Self>) -> Returned {
        let has_changed = !self.turn.events.is_empty() && !planted::is("a beginning forgotten with its hold");
        if self.holds() && !has_changed { Returned::Asked(self.host) } else { Returned::AsItCame(self) }
    }

    /// Puts the ask back to where the cart had it.
    pub(crate) fn undo(self) -> (Host<Caller>, Turn<Caller>, Option<SmolStr>) {
        let Loan { host, mut turn, by, ask, inventory, .. } = self;
        let effect = Effect::Ask { to: inventory, ask };
        if turn.events.is_empty() {
            turn.now.push(effect)
        } else {
            turn.committed.insert(0, effect)
        }
        (host, turn, by)
    }
}

impl Serving {
    /// Whether another actor than the entity's own may decide on it.
    pub(crate) fn may_be_borrowed(&self) -> bool {
        self.host.is_some() && matches!(self.health, Health::Well)
    }
}

impl Lead {
    /// Ends the leadership: closes the desk of every actor for which `ends` says yes. The states that lay there come back, to be
    /// dropped where no lock is held.
    #[must_use]
    pub(crate) fn end(&mut self, ends: impl Fn(&Served) -> bool) -> Vec<WasOpen<Box<Serving>>> {
        self.leadership = None;
        self.actors.extract_if(|_, served| ends(served)).map(|(_, served)| served.desk.close()).collect()
    }
}

impl ShardCell {
    pub(crate) fn new(state: Arc<ShardState>, admission: Arc<Admission>, clock: Arc<dyn Clock>) -> ShardCell {
        ShardCell {
            id: state.id,
            state,
            lead: Mutex::default(),
            belief: Mutex::default(),
            unled_since_ms: AtomicU64::new(0),
            callers: Arc::new(Callers::new(admission, clock)),
        }
    }

    /// Counts one more command under way.
    pub(crate) fn enter(&self, pass: Pass, request: Option<u64>, reply: ReplyTo) -> Caller {
        self.callers.enter(pass, request, reply)
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
        if self.callers.has(&key_of(entity, request.id)) {
            return None;
        }
        let state = self.state.replica.lock().kept.get(entity);
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
        let is_known = self.callers.has(&key_of(cart, request)) || self.state.replica.lock().kept.get(cart).is_some();
        (!is_known).then_some(Class::Begin)
    }

    /// Whether this node leads the shard.
    pub(crate) fn leads(&self) -> bool {
        self.lead.lock().leadership.is_some()
    }

    /// The term in which this node leads the shard.
    pub(crate) fn leads_in(&self) -> Option<u64> {
        self.lead.lock().leadership.map(|leadership| leadership.epoch.0)
    }

    /// The shard's replica on this node.
    pub(crate) fn replica_here(&self) -> Option<ReplicaId> {
        self.state.replica_here()
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
            (false, Some(_), _) if self.state.learns.load(Ordering::Relaxed) => "learner",
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
        self.callers.count()
    }
}

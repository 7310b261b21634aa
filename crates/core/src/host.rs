//! The host: turns inputs into events, asks, answers and timers. Pure; the node's actors carry out what it says.

mod cart;
mod cluster;
mod directory;
mod inventory;
mod mail;
mod speculation;
mod venue;

use alloc::{boxed::Box, sync::Arc, vec::Vec};

use smol_str::format_smolstr;

use crate::{
    answer::Outcome,
    ask::{Ask, Reply},
    command::Command,
    event::Event,
    id::{Entity, Request},
    keep::State,
    payment::{GatewayCall, GatewayOutcome, PaymentKey, PaymentStep},
    planted,
    push_exact::push_exact,
    refusal::Refusal,
    rules::Rules,
    time::{Moment, TIMESTAMP_MAX, Timestamp},
};

use cart::CartHost;
use inventory::InventoryHost;
use speculation::Speculation;
use venue::VenueHost;

/// Clients that wait for the answer of one request; those beyond it are told that it is in progress. As many as one
/// connection may have under way.
const WAITERS_MAX: usize = 256;

/// What can come to an entity. `R` says where an answer goes; it means nothing to the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<R> {
    /// A client's command.
    Command {
        /// Where the answer goes.
        from: R,
        /// The request, if the command changes something.
        request: Option<Request>,
        /// The command, addressed to this entity.
        command: Command,
    },
    /// Another entity asks.
    Ask {
        /// Which.
        from: Entity,
        /// What.
        ask: Ask,
    },
    /// Another entity replies.
    Reply {
        /// Which.
        from: Entity,
        /// What.
        reply: Reply,
    },
    /// The gateway has said what came of a call, or that it does not know.
    Paid {
        /// Of which attempt.
        key: PaymentKey,
        /// Which step of it.
        step: PaymentStep,
        /// What came of it.
        outcome: GatewayOutcome,
    },
    /// A deadline or a `wake_at` has come, or the entity was just loaded after a restart.
    Wake,
}

/// Something to be carried out for an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<R> {
    /// A client is answered.
    Answer {
        /// Who.
        to: R,
        /// What.
        outcome: Outcome,
    },
    /// Another entity is asked.
    Ask {
        /// Which.
        to: Entity,
        /// What.
        ask: Ask,
    },
    /// The gateway is asked; what it says comes back as [`Input::Paid`], always.
    Pay(GatewayCall),
    /// Another entity's ask is replied to.
    Reply {
        /// Which.
        to: Entity,
        /// What.
        reply: Reply,
    },
}

/// What one input led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn<R> {
    /// Set by whoever hands in the input: up to which version of the entity everything is known to be committed here. 0 is
    /// always right.
    pub known: u64,
    /// The entity's version before: what happened has the ones after it.
    pub after: u64,
    /// What happened: atomic, one entry of the log holds all of it.
    pub events: Vec<Event>,
    /// May be carried out at once.
    pub now: Vec<Effect<R>>,
    /// To be carried out when the events are committed.
    pub committed: Vec<Effect<R>>,
    /// To be carried out after a safe read index begun now, which also waits for everything proposed before.
    pub read: Vec<Effect<R>>,
    /// The host wants a [`Input::Wake`] then; deadlines of committed state are the keeper's business.
    pub wake_at: Option<Timestamp>,
}

impl<R> Default for Turn<R> {
    fn default() -> Turn<R> {
        Turn {
            known: 0,
            after: 0,
            events: Vec::new(),
            now: Vec::new(),
            committed: Vec::new(),
            read: Vec::new(),
            wake_at: None,
        }
    }
}

impl<R> Turn<R> {
    /// Empties it for the next input; keeps its memory.
    pub fn clear(&mut self) {
        self.events.clear();
        self.now.clear();
        self.committed.clear();
        self.read.clear();
        self.wake_at = None;
    }
}

impl<R> Turn<R> {
    /// Answers a client: when the turn's events are committed, or, if there are none, after a read.
    fn answer(&mut self, to: R, outcome: Outcome) {
        let effect = Effect::Answer { to, outcome };
        if !self.events.is_empty() && planted::is("an answer before the commit") {
            return self.now.push(effect);
        }
        self.hold_back(effect);
    }

    /// Replies to an entity: when the turn's events are committed, or, if there are none, after a read.
    fn reply(&mut self, to: Entity, reply: Reply) {
        self.hold_back(Effect::Reply { to, reply });
    }

    fn hold_back(&mut self, effect: Effect<R>) {
        push_exact(if self.events.is_empty() { &mut self.read } else { &mut self.committed }, effect);
    }

    /// Makes running time true time in what clients are answered.
    fn tell(&mut self, distance_ms: i64) {
        for effect in [&mut self.now, &mut self.committed, &mut self.read].into_iter().flatten() {
            if let Effect::Answer { outcome: Ok(answered), .. } = effect
                && !planted::is("a deadline told in running time")
            {
                answered.answer.told(distance_ms);
            }
        }
    }

    /// Asks to be woken at this instant of running time, if not earlier.
    fn wake(&mut self, at: Timestamp) {
        // After the end of time nothing comes later than now.
        if at >= TIMESTAMP_MAX {
            return;
        }
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }
}

/// An entity that cannot count another event takes nothing more: it says so to clients, and nothing to others.
fn refuse_full<R>(stage: &mut Stage<'_, R>, input: Input<R>) {
    if let Input::Command { from, .. } = input {
        let text = format_smolstr!("{} has changed as often as can be counted; use another", stage.entity.entity());
        stage.turn.answer(from, Err(Refusal::BadRequest(text)));
    }
}

/// One entity at work: its state with everything proposed so far, and what is under way.
pub struct Host<R> {
    entity: Speculation,
    rules: Arc<Rules>,
    role: Role<R>,
}

enum Role<R> {
    Venue(VenueHost<R>),
    Inventory(InventoryHost<R>),
    Cart(Box<CartHost<R>>),
    Directory,
    Cluster,
}

/// What every step of a turn needs.
struct Stage<'a, R> {
    entity: &'a mut Speculation,
    rules: &'a Rules,
    /// The shard's running time.
    at: Timestamp,
    /// True time.
    now: Timestamp,
    turn: &'a mut Turn<R>,
}

impl<R> Host<R> {
    /// The host of an entity, from its committed state (`None` if nothing happened to it yet).
    pub fn new(entity: Entity, state: Option<Arc<State>>, rules: Arc<Rules>) -> Host<R> {
        let role = match &entity {
            Entity::Venue(_) => Role::Venue(VenueHost::new()),
            Entity::Session(_) | Entity::Product(_) | Entity::Resource(_) | Entity::Customer(_) => {
                Role::Inventory(InventoryHost::new())
            }
            Entity::Directory => Role::Directory,
            Entity::Cluster => Role::Cluster,
            Entity::Cart(_) => Role::Cart(Box::new(CartHost::new())),
        };
        Host { entity: Speculation::new(entity, state), rules, role }
    }

    /// Handles one input at an instant. `turn` must be clear; it is filled.
    ///
    /// # Panics
    /// If a promise is broken, or an input is addressed to another kind of entity.
    pub fn handle(&mut self, moment: impl Into<Moment>, input: Input<R>, turn: &mut Turn<R>) {
        assert!(turn.events.is_empty() && turn.committed.is_empty(), "a turn is cleared before it is used again");
        turn.after = self.entity.version();
        let moment = moment.into();
        let (at, now) = (moment.at, moment.true_time());
        let stage = &mut Stage { entity: &mut self.entity, rules: &self.rules, at, now, turn };
        if stage.entity.state().is_some_and(State::is_full) {
            return refuse_full(stage, input);
        }
        match &mut self.role {
            Role::Venue(host) => host.handle(stage, input),
            Role::Inventory(host) => host.handle(stage, input),
            Role::Directory => directory::handle(stage, input),
            Role::Cluster => cluster::handle(stage, input),
            Role::Cart(host) => host.handle(stage, input),
        }
        turn.tell(moment.distance_ms);
    }

    /// Whether the entity is over and will hardly be asked for again: a cart that is done, canceled, expired, or that nobody
    /// has opened.
    pub fn ended(&self) -> bool {
        match &self.role {
            Role::Venue(_) | Role::Inventory(_) | Role::Directory | Role::Cluster => false,
            Role::Cart(_) => self.entity.cart().is_some_and(|cart| cart.terminal() || cart.is_tombstone()),
        }
    }

    /// Whether nothing is under way: the host may be dropped once its events are applied.
    pub fn idle(&self) -> bool {
        match &self.role {
            Role::Venue(host) => host.idle(&self.entity),
            Role::Inventory(host) => host.idle(&self.entity),
            Role::Directory | Role::Cluster => true,
            Role::Cart(host) => host.idle(&self.entity),
        }
    }
}

//! The host turns inputs into events, asks, answers and timers. It is pure. The node's actors carry out its effects.

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
    payment::{GatewayCall, GatewayOutcome, PaymentKey, PaymentStep},
    planted,
    push_exact::push_exact,
    refusal::Refusal,
    rules::Rules,
    state_map::State,
    time::{Moment, TIMESTAMP_MAX, Timestamp},
    version::{ClusterVersion, OFFERS},
};

use cart::CartHost;
use inventory::InventoryHost;
use speculation::Speculation;
use venue::VenueHost;

/// How many clients wait for the answer of one request, as many as one connection may have under way. The others are answered
/// that it is in progress.
const WAITERS_MAX: usize = 256;

/// An input of an entity. `R` is the receiver of an answer, which the rules do not look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<R> {
    /// A client's command.
    Command {
        /// The receiver of the answer.
        from: R,
        /// The request, if the command changes something.
        request: Option<Request>,
        /// The command, addressed to this entity.
        command: Command,
        /// How long the receiver of the answer waits for it from now on, in milliseconds.
        timeout_ms: u64,
    },
    /// Another entity asks.
    Ask { from: Entity, ask: Ask },
    /// Another entity replies.
    Reply { from: Entity, reply: Reply },
    /// The gateway has answered a call.
    Paid {
        key: PaymentKey,
        step: PaymentStep,
        /// How it ended, or that the gateway does not know.
        outcome: GatewayOutcome,
    },
    /// A deadline or a `wake_at` has come, or the entity was just loaded after a restart.
    Wake,
}

/// An effect that is carried out for an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<R> {
    /// A client is answered.
    Answer { to: R, outcome: Outcome },
    /// Another entity is asked.
    Ask { to: Entity, ask: Ask },
    /// The gateway is asked. Its answer always comes back as [`Input::Paid`].
    Pay(GatewayCall),
    /// Another entity's ask is replied to.
    Reply { to: Entity, reply: Reply },
}

/// The result of one input: the events, and the effects in three lists.
///
/// The events are decided against a state that may never be committed, so an effect waits until nothing that it discloses can be taken
/// back. Which list it is in says for how long. `docs/internals/way-of-a-hold.md` follows the effects of one hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn<R> {
    /// The version of the entity up to which everything is known to be committed here. The caller sets it before the input, and
    /// an answer that rests on no later version may go into `now`. 0 is always right.
    pub known: u64,
    /// The entity's version before the events.
    pub after: u64,
    /// What happened. One entry of the log has all of it.
    pub events: Vec<Event>,
    /// Effects that may be carried out at once, because a lost turn takes nothing back that they disclose. A cart's ask for a new hold
    /// is one.
    pub now: Vec<Effect<R>>,
    /// Effects that rest on the events, and wait until the entry with them is committed and applied. They are dropped with the turn if
    /// the term ends before, and their clients hear that the outcome is not known.
    pub committed: Vec<Effect<R>>,
    /// Effects that rest on the state although nothing happened, such as a refusal. They wait for a read index that is taken after the
    /// decision, which proves that this node still leads, and for everything that was proposed before.
    pub read: Vec<Effect<R>>,
    /// When the host wants an [`Input::Wake`]. Deadlines of committed state are in the [`StateMap`](crate::state_map::StateMap).
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
    /// Empties the turn for the next input, and keeps its memory.
    pub fn clear(&mut self) {
        self.events.clear();
        self.now.clear();
        self.committed.clear();
        self.read.clear();
        self.wake_at = None;
    }

    /// Answers a client when the turn's events are committed. Without events, the answer waits for a read.
    fn answer(&mut self, to: R, outcome: Outcome) {
        let effect = Effect::Answer { to, outcome };
        if !self.events.is_empty() && planted::is("an answer before the commit") {
            return self.now.push(effect);
        }
        self.hold_back(effect);
    }

    /// Replies to an entity when the turn's events are committed. Without events, the reply waits for a read.
    fn reply(&mut self, to: Entity, reply: Reply) {
        self.hold_back(Effect::Reply { to, reply });
    }

    /// Puts an effect into `committed` if something has happened in this turn so far, or else into `read`.
    fn hold_back(&mut self, effect: Effect<R>) {
        push_exact(if self.events.is_empty() { &mut self.read } else { &mut self.committed }, effect);
    }

    /// Converts running time to true time in the answers to clients.
    fn convert_to_true_time(&mut self, distance_ms: i64) {
        for effect in [&mut self.now, &mut self.committed, &mut self.read].into_iter().flatten() {
            if let Effect::Answer { outcome: Ok(answered), .. } = effect
                && !planted::is("a deadline told in running time")
            {
                answered.answer.convert_to_true_time(distance_ms);
            }
        }
    }

    /// Asks to be woken at this instant of running time, if not earlier.
    fn wake(&mut self, at: Timestamp) {
        // Nothing is later than the end of time.
        if at >= TIMESTAMP_MAX {
            return;
        }
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }
}

/// An entity that cannot count another event takes no more input. It refuses clients, and stays silent to entities.
fn refuse_full<R>(stage: &mut Stage<'_, R>, input: Input<R>) {
    if let Input::Command { from, .. } = input {
        let text = format_smolstr!("{} has changed as often as can be counted; use another", stage.entity.entity());
        stage.turn.answer(from, Err(Refusal::BadRequest(text)));
    }
}

/// One entity at work, with everything that was proposed for its state, and everything under way.
pub struct Host<R> {
    entity: Speculation,
    rules: Arc<Rules>,
    role: Role<R>,
}

enum Role<R> {
    Venue(VenueHost<R>),
    // Boxed, because carts are the most by far.
    Inventory(Box<InventoryHost<R>>),
    Cart(Box<CartHost<R>>),
    Directory,
    Cluster,
}

/// The parts of a turn that each step needs.
struct Stage<'a, R> {
    entity: &'a mut Speculation,
    rules: &'a Rules,
    /// The shard's running time.
    at: Timestamp,
    /// True time.
    now: Timestamp,
    /// The version under which the events are written.
    version: ClusterVersion,
    turn: &'a mut Turn<R>,
}

impl<R> Stage<'_, R> {
    /// Whether all nodes of the cluster read what came with offers.
    fn has_offers(&self) -> bool {
        self.version.has(OFFERS) || planted::is("a customer told before all nodes can read it")
    }
}

impl<R> Host<R> {
    /// The host of an entity, from its committed state (`None` if nothing happened to it yet).
    pub fn new(entity: Entity, state: Option<Arc<State>>, rules: Arc<Rules>) -> Host<R> {
        let role = match &entity {
            Entity::Venue(_) => Role::Venue(VenueHost::new()),
            Entity::Session(_) | Entity::Product(_) | Entity::Resource(_) | Entity::Customer(_) | Entity::Code(_) => {
                Role::Inventory(Box::new(InventoryHost::new()))
            }
            Entity::Directory => Role::Directory,
            Entity::Cluster => Role::Cluster,
            Entity::Cart(_) => Role::Cart(Box::new(CartHost::new())),
        };
        Host { entity: Speculation::new(entity, state), rules, role }
    }

    /// Handles one input at an instant. `turn` must be clear, and is filled.
    ///
    /// # Panics
    /// If a promise is broken, or an input is addressed to another kind of entity.
    pub fn handle(&mut self, moment: impl Into<Moment>, input: Input<R>, turn: &mut Turn<R>) {
        assert!(turn.events.is_empty() && turn.committed.is_empty(), "a turn is cleared before it is used again");
        turn.after = self.entity.version();
        let moment = moment.into();
        let (at, now) = (moment.at, moment.true_time());
        let stage = &mut Stage { entity: &mut self.entity, rules: &self.rules, at, now, version: moment.version, turn };
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
        turn.convert_to_true_time(moment.distance_ms);
    }

    /// Whether the entity is a cart that has ended or that no client has opened. It will hardly be used again.
    pub fn ended(&self) -> bool {
        match &self.role {
            Role::Venue(_) | Role::Inventory(_) | Role::Directory | Role::Cluster => false,
            Role::Cart(_) => self.entity.cart().is_some_and(|cart| cart.terminal() || cart.is_tombstone()),
        }
    }

    /// Whether nothing is under way. The host may be dropped once its events are applied.
    pub fn idle(&self) -> bool {
        match &self.role {
            Role::Venue(host) => host.idle(&self.entity),
            Role::Inventory(host) => host.idle(&self.entity),
            Role::Directory | Role::Cluster => true,
            Role::Cart(host) => host.idle(&self.entity),
        }
    }
}

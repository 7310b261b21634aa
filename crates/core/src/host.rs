//! The host: turns inputs into events, asks, answers and timers. Pure; the node's actors carry out what it says.

use alloc::{sync::Arc, vec::Vec};

use crate::{
    answer::Outcome,
    ask::{Ask, Reply},
    command::Command,
    event::Event,
    id::{Entity, Request},
    keep::State,
    time::{Rules, Timestamp},
};

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
        Turn { events: Vec::new(), now: Vec::new(), committed: Vec::new(), read: Vec::new(), wake_at: None }
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

/// One entity at work: its state with everything proposed so far, and what is under way.
pub struct Host<R> {
    entity: Entity,
    state: Option<Arc<State>>,
    rules: Arc<Rules>,
    waiting: Vec<R>,
}

impl<R> Host<R> {
    /// The host of an entity, from its committed state (`None` if nothing happened to it yet).
    pub fn new(entity: Entity, state: Option<Arc<State>>, rules: Arc<Rules>) -> Host<R> {
        Host { entity, state, rules, waiting: Vec::new() }
    }

    /// Handles one input at an instant. `turn` must be clear; it is filled.
    pub fn handle(&mut self, at: Timestamp, input: Input<R>, turn: &mut Turn<R>) {
        let _ = (at, input, &self.state, &self.rules, &self.entity);
        turn.wake_at = None;
    }

    /// Whether nothing is under way: the host may be dropped once its events are applied.
    pub fn idle(&self) -> bool {
        self.waiting.is_empty()
    }
}

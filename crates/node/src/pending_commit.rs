//! What waits for a turn to be committed, or for a read to be safe.

use std::sync::Arc;

use boxoffice_core::{event::Event, host::Effect, id::Entity};
use boxoffice_replication::owner::{self as replication, ProposedTurn};

use crate::{api::Failure, caller::Caller, shard_lead::ActorHandle};

/// What is carried out when a turn is committed, or a read is safe.
pub(crate) struct PendingCommit {
    /// Whose turn it was.
    pub(crate) entity: Entity,
    /// The entity's version before it, and after it.
    pub(crate) versions: (u64, u64),
    /// What happens, as the proposal's bytes say it: it is applied as it is, not read from the log again.
    pub(crate) events: Vec<Event>,
    /// What was held back.
    pub(crate) effects: Vec<Effect<Caller>>,
    /// Of a turn with events: whose count of turns in flight it is in.
    pub(crate) actor: Option<Arc<ActorHandle>>,
    /// Of a joint turn: the same of the cart.
    pub(crate) cart: Option<Box<PendingCommit>>,
}

impl replication::Ticket for PendingCommit {
    fn proposed(&mut self) -> impl Iterator<Item = ProposedTurn<'_>> {
        let cart = self.cart.as_deref_mut().map(|cart| ProposedTurn {
            entity: &cart.entity,
            until: cart.versions.1,
            events: &mut cart.events,
        });
        let own = ProposedTurn { entity: &self.entity, until: self.versions.1, events: &mut self.events };
        [Some(own), cart].into_iter().flatten().filter(|turn| !turn.events.is_empty())
    }
}

impl PendingCommit {
    /// Answers all waiting callers with a failure.
    pub(crate) fn refuse(self, failure: Failure) {
        if let Some(cart) = self.cart {
            cart.refuse(failure);
        }
        for effect in self.effects {
            if let Effect::Answer { to, .. } = effect {
                to.answer(Err(failure));
            }
        }
    }
}

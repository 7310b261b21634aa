//! Effects that wait for a turn to be committed, or for a read to be safe.

use std::sync::Arc;

use boxoffice_core::{event::Event, host::Effect, id::Entity, state_map::State};
use boxoffice_replication::owner::{self as replication, ProposedTurn};

use crate::{api::Failure, caller::Caller, shard_lead::ActorHandle};

/// The effects in a turn's `committed` until its entry is applied, or those in its `read` until the read is safe. It goes through the
/// replication with the proposal or the read, and comes back with the place in the log, or is dropped with its callers.
pub(crate) struct PendingCommit {
    /// The entity that the turn changes.
    pub(crate) entity: Entity,
    /// The entity's version before it, and after it.
    pub(crate) versions: (u64, u64),
    /// The events, as in the proposal's bytes. They are applied directly and not decoded from the log again.
    pub(crate) events: Vec<Event>,
    /// The effects that are held back.
    pub(crate) effects: Vec<Effect<Caller>>,
    /// The actor that counts the turn as in flight, if the turn has events.
    pub(crate) actor: Option<Arc<ActorHandle>>,
    /// The stored state that it was decided on, if it is the first turn of a reloaded entity.
    pub(crate) reloaded: Option<Arc<State>>,
    /// The same of the cart in a joint turn.
    pub(crate) cart: Option<Box<PendingCommit>>,
}

impl replication::Completion for PendingCommit {
    fn proposed(&mut self) -> impl Iterator<Item = ProposedTurn<'_>> {
        let cart = self.cart.as_deref_mut().map(|cart| ProposedTurn {
            entity: &cart.entity,
            until: cart.versions.1,
            events: &mut cart.events,
            reloaded: cart.reloaded.as_ref(),
        });
        let own = ProposedTurn {
            entity: &self.entity,
            until: self.versions.1,
            events: &mut self.events,
            reloaded: self.reloaded.as_ref(),
        };
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

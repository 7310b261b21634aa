//! Actors that serve no entity at the moment: starting one costs as much as ten messages.

use std::sync::Arc;

use parking_lot::Mutex;
use ractor::{ActorRef, ActorRuntime};

use crate::{
    actor::{EntityActor, Message},
    shared::Shared,
};

/// Actors waiting for an entity; more than this are stopped instead (8 KB each).
const POOL_MAX: usize = 2_048;

/// Actors without an entity.
#[derive(Default)]
pub(crate) struct Pool {
    free: Mutex<Vec<ActorRef<Message>>>,
}

impl Pool {
    pub(crate) fn put(&self, actor: &ActorRef<Message>) {
        let mut free = self.free.lock();
        if free.len() < POOL_MAX {
            free.push(actor.clone());
        } else {
            drop(free);
            actor.stop(None);
        }
    }

    pub(crate) fn take(&self, shared: &Arc<Shared>) -> ActorRef<Message> {
        if let Some(actor) = self.free.lock().pop() {
            return actor;
        }
        let _runtime = shared.tasks.selling.enter();
        let (actor, _starting) = ActorRuntime::spawn_instant(None, EntityActor, Arc::clone(shared))
            .expect("an actor without a name cannot collide with another");
        actor
    }

    /// Ends every free actor.
    pub(crate) fn stop(&self) {
        for actor in self.free.lock().drain(..) {
            actor.stop(None);
        }
    }

    /// Ends every free actor where it stands.
    pub(crate) fn kill(&self) {
        for actor in self.free.lock().drain(..) {
            actor.kill();
        }
    }
}

//! Actors that serve no entity at the moment. Starting one costs as much as ten messages.

use ractor::ActorRef;
use tracing_mutex::parkinglot::Mutex;

use crate::shard_lead::Envelope;

/// Actors waiting for an entity, 8 KB each. Further ones are stopped instead.
const POOL_MAX: usize = 2_048;

/// Actors without an entity.
#[derive(Default)]
pub(crate) struct ActorPool {
    free: Mutex<Vec<ActorRef<Envelope>>>,
}

impl ActorPool {
    pub(crate) fn put(&self, actor: &ActorRef<Envelope>) {
        let mut free = self.free.lock();
        if free.len() < POOL_MAX {
            free.push(actor.clone());
        } else {
            drop(free);
            actor.stop(None);
        }
    }

    pub(crate) fn take(&self) -> Option<ActorRef<Envelope>> {
        self.free.lock().pop()
    }

    /// Ends every free actor.
    pub(crate) fn stop(&self) {
        for actor in self.free.lock().drain(..) {
            actor.stop(None);
        }
    }

    /// Kills every free actor.
    pub(crate) fn kill(&self) {
        for actor in self.free.lock().drain(..) {
            actor.kill();
        }
    }
}

//! The keeping: all entities of one shard as committed, and what they want to be woken for.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use crate::{event::Event, id::Entity, time::Timestamp};

/// A venue as kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Venue {}
/// A session as kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {}
/// A cart as kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cart {}

/// What is kept of one entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// A venue.
    Venue(Venue),
    /// A session.
    Session(Session),
    /// A cart.
    Cart(Cart),
}

impl State {
    /// Writes one event. It was decided before, so it cannot fail.
    pub fn apply(&mut self, event: &Event) {
        let _ = event;
    }

    /// How many events the entity has had.
    pub fn version(&self) -> u64 {
        0
    }

    /// The earliest instant at which the entity's host wants a wake because of committed state.
    pub fn deadline(&self) -> Option<Timestamp> {
        None
    }

    /// Whether something is owed to others: the entity is woken when its shard gets a leader.
    pub fn unfinished(&self) -> bool {
        false
    }
}

/// All entities of one shard.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    states: BTreeMap<Entity, Arc<State>>,
    unfinished: BTreeSet<Entity>,
}

/// A copy of a shard's entities at one moment, to be written to a snapshot by another thread.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cut {
    states: Vec<(Entity, Arc<State>)>,
}

/// Sums over a shard, counted afresh.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptAudit {
    /// What is wrong, in words; empty when every promise holds.
    pub violations: Vec<smol_str::SmolStr>,
}

impl Kept {
    /// Nothing kept yet.
    pub fn new() -> Kept {
        Kept::default()
    }

    /// An entity's committed state.
    pub fn get(&self, entity: &Entity) -> Option<Arc<State>> {
        self.states.get(entity).cloned()
    }

    /// Writes what was committed for an entity.
    pub fn apply(&mut self, entity: &Entity, events: Vec<Event>) {
        let _ = (entity, events);
    }

    /// Names up to `max` entities that want a wake at `now`. One that is named is named again a second later unless its state changed.
    pub fn due(&mut self, now: Timestamp, max: usize, out: &mut Vec<Entity>) {
        let _ = (now, max, out);
    }

    /// The earliest instant at which [`Kept::due`] will name an entity.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        None
    }

    /// Entities that owe something to others: to be woken when the shard gets a leader.
    pub fn unfinished(&self) -> impl Iterator<Item = &Entity> {
        self.unfinished.iter()
    }

    /// All entities, in order.
    pub fn entities(&self) -> impl Iterator<Item = (&Entity, &Arc<State>)> {
        self.states.iter()
    }

    /// A copy of everything as it is now; cheap.
    pub fn cut(&self) -> Cut {
        Cut { states: self.states.iter().map(|(entity, state)| (entity.clone(), Arc::clone(state))).collect() }
    }

    /// Everything as it was when the cut was made.
    pub fn restore(cut: Cut) -> Kept {
        Kept { states: cut.states.into_iter().collect(), unfinished: BTreeSet::new() }
    }

    /// Counts everything afresh.
    pub fn audit(&self) -> KeptAudit {
        KeptAudit::default()
    }
}

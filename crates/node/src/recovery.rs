//! What an actor does after a decision of its entity has panicked: it takes nothing more until all it had proposed is
//! applied, begins anew from committed state, and leaves in peace for a while what panics again and again by itself.

use std::collections::VecDeque;

use boxoffice_core::{host::Input, id::Entity};

use crate::{caller::Caller, contain::CallerKey};

/// The shortest rest, in milliseconds; doubled with each panic. Entities ask again after as long.
const REST_MS: u64 = 1_000;
/// How often it is doubled at most.
const DOUBLED_MAX: u32 = 6;
/// A panic so long after the one before, in milliseconds, counts as a first one.
const FORGIVEN_MS: u64 = 120_000;
/// Entities whose asks and replies are left, the last ones.
const SHUNNED_MAX: usize = 64;

/// Whether an actor decides.
#[derive(Default)]
pub(crate) enum Health {
    /// It does.
    #[default]
    Well,
    /// It waits until all that it has proposed is applied; what comes meanwhile is held back, in order.
    Draining(VecDeque<Input<Caller>>),
    /// Its host, a cart's, is lent to an inventory; what comes meanwhile is held back, in order.
    Lent(VecDeque<Input<Caller>>),
    /// It panicked again without a client's command: nothing is decided before this monotonic millisecond.
    Resting(u64),
}

/// What led to a panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A client's command: only the client repeats it.
    Command(CallerKey),
    /// Its own wake, or what the gateway said: it comes again by itself.
    Own,
    /// What this other entity asked or replied, and will again.
    Other(Entity),
}

impl Cause {
    pub(crate) fn of(input: &Input<Caller>) -> Cause {
        match input {
            Input::Command { from, .. } => from.key().map_or(Cause::Own, Cause::Command),
            Input::Ask { from, .. } | Input::Reply { from, .. } => Cause::Other(from.clone()),
            Input::Paid { .. } | Input::Wake => Cause::Own,
        }
    }

    /// The client that hears of it.
    pub(crate) fn caller(&self) -> Option<CallerKey> {
        match self {
            Cause::Command(caller) => Some(*caller),
            Cause::Own | Cause::Other(_) => None,
        }
    }
}

/// The panics of an entity that come from its own wakes or from other entities.
#[derive(Default)]
pub(crate) struct Faults {
    own: Row,
    /// The last ones at the end.
    others: Vec<(Entity, Row)>,
}

#[derive(Clone, Copy, Default)]
struct Row {
    count: u32,
    last_ms: u64,
    until_ms: u64,
}

impl Row {
    /// Counts a panic. `free` of a row have no rest.
    fn note(&mut self, now_ms: u64, free: u32) {
        if now_ms.saturating_sub(self.last_ms) > FORGIVEN_MS {
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        self.last_ms = now_ms;
        if let Some(again) = self.count.checked_sub(free + 1) {
            self.until_ms = now_ms + (REST_MS << again.min(DOUBLED_MAX));
        }
    }
}

impl Faults {
    /// Counts a panic.
    pub(crate) fn note(&mut self, cause: &Cause, now_ms: u64) {
        match cause {
            Cause::Command(_) => {}
            Cause::Own => self.own.note(now_ms, 1),
            Cause::Other(other) => {
                let known = self.others.iter().position(|(known, _)| known == other);
                let mut row = known.map(|place| self.others.remove(place).1).unwrap_or_default();
                row.note(now_ms, 0);
                if self.others.len() == SHUNNED_MAX {
                    self.others.remove(0);
                }
                self.others.push((other.clone(), row));
            }
        }
    }

    /// Until when the entity rests, if it does.
    pub(crate) fn rests_until_ms(&self, now_ms: u64) -> Option<u64> {
        (self.own.until_ms > now_ms).then_some(self.own.until_ms)
    }

    /// Whether an input is left, as if it was lost on its way: its sender panicked this entity and sends it again.
    pub(crate) fn leaves(&self, input: &Input<Caller>, now_ms: u64) -> bool {
        if self.others.is_empty() {
            return false;
        }
        let Cause::Other(other) = Cause::of(input) else { return false };
        self.leaves_from(&other, now_ms)
    }

    /// Whether what this entity sends is left.
    pub(crate) fn leaves_from(&self, other: &Entity, now_ms: u64) -> bool {
        self.others.iter().any(|(known, row)| known == other && row.until_ms > now_ms)
    }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::{
        ask::Ask,
        id::{CartId, HoldId, RequestHash},
    };

    use super::*;

    fn ask(cart: u128) -> Input<Caller> {
        let hold = HoldId { cart: CartId(cart), request: RequestHash(1), part: 0, attempt: 0 };
        Input::Ask { from: Entity::Cart(CartId(cart)), ask: Ask::Overdue { hold } }
    }

    #[test]
    fn own_panics_rest_from_the_second_on_ever_longer_and_are_forgiven() {
        let mut faults = Faults::default();
        let mut rests = Vec::new();
        let mut now_ms = 5;
        for _ in 0..10 {
            faults.note(&Cause::Own, now_ms);
            let until_ms = faults.rests_until_ms(now_ms);
            rests.push(until_ms.map_or(0, |until_ms| until_ms - now_ms));
            now_ms = until_ms.unwrap_or(now_ms);
        }
        assert_eq!(rests, [0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 64_000, 64_000]);
        faults.note(&Cause::Own, now_ms + FORGIVEN_MS + 1);
        assert_eq!(faults.rests_until_ms(now_ms + FORGIVEN_MS + 1), None);
    }

    #[test]
    fn who_panics_an_entity_is_left_and_nobody_else() {
        let mut faults = Faults::default();
        faults.note(&Cause::of(&ask(1)), 10);
        assert!(faults.leaves(&ask(1), 10 + REST_MS - 1));
        assert!(!faults.leaves(&ask(2), 10) && !faults.leaves(&Input::Wake, 10));
        assert!(!faults.leaves(&ask(1), 10 + REST_MS));
        assert_eq!(faults.rests_until_ms(10), None);
        (2..=SHUNNED_MAX as u128 + 1).for_each(|cart| faults.note(&Cause::of(&ask(cart)), 20));
        assert_eq!(faults.others.len(), SHUNNED_MAX);
        assert!(!faults.leaves(&ask(1), 20), "the oldest makes room");
    }
}

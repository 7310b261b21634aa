//! The recovery of an actor after a decision of its entity has panicked. The actor takes no inputs until all its proposals are
//! applied, restarts from committed state, and pauses for a while if the entity panics again and again by itself.

use std::collections::VecDeque;

use boxoffice_core::{host::Input, id::Entity};

use crate::{caller::Caller, contain::CallerKey};

/// The first cooldown, in milliseconds. Each panic doubles it. Entities ask again after the same time.
const COOLDOWN_MS: u64 = 1_000;
/// How often the cooldown doubles at most.
const DOUBLINGS_MAX: u32 = 6;
/// A panic this long after the one before, in milliseconds, counts as the first.
const FORGET_AFTER_MS: u64 = 120_000;
/// The number of entities whose asks and replies are ignored: the last ones that caused a panic.
const IGNORED_MAX: usize = 64;

/// Whether an actor decides.
#[derive(Default)]
pub(crate) enum Health {
    /// It decides.
    #[default]
    Healthy,
    /// It waits until all its proposals are applied. Messages are held back meanwhile, in order.
    Draining(VecDeque<Input<Caller>>),
    /// The cart's host is at an inventory, for a joint turn. Messages are held back meanwhile, in order.
    InJointTurn(VecDeque<Input<Caller>>),
    /// It waits for the entity's record. Messages are held back meanwhile, in order.
    Loading(VecDeque<Input<Caller>>),
    /// It panicked again without a client's command. It decides nothing before this monotonic millisecond.
    CoolingDown(u64),
}

/// The cause of a panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A client's command. Only the client repeats it.
    Command(CallerKey),
    /// Its own wake, or an outcome from the gateway. It comes again by itself.
    Own,
    /// An ask or reply of this other entity, which will come again.
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

    /// The client that gets the failure.
    pub(crate) fn caller(&self) -> Option<CallerKey> {
        match self {
            Cause::Command(caller) => Some(*caller),
            Cause::Own | Cause::Other(_) => None,
        }
    }
}

/// The panics of an entity that come from its own wakes or from other entities.
#[derive(Default)]
pub(crate) struct PanicHistory {
    own: PanicStreak,
    /// The last ones at the end.
    others: Vec<(Entity, PanicStreak)>,
}

#[derive(Clone, Copy, Default)]
struct PanicStreak {
    count: u32,
    last_ms: u64,
    until_ms: u64,
}

impl PanicStreak {
    /// Counts a panic. The first `free` panics of a streak cause no cooldown.
    fn note(&mut self, now_ms: u64, free: u32) {
        if now_ms.saturating_sub(self.last_ms) > FORGET_AFTER_MS {
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        self.last_ms = now_ms;
        if let Some(again) = self.count.checked_sub(free + 1) {
            self.until_ms = now_ms + (COOLDOWN_MS << again.min(DOUBLINGS_MAX));
        }
    }
}

impl PanicHistory {
    /// Counts a panic.
    pub(crate) fn note(&mut self, cause: &Cause, now_ms: u64) {
        match cause {
            Cause::Command(_) => {}
            Cause::Own => self.own.note(now_ms, 1),
            Cause::Other(other) => {
                let known = self.others.iter().position(|(known, _)| known == other);
                let mut streak = known.map(|place| self.others.remove(place).1).unwrap_or_default();
                streak.note(now_ms, 0);
                if self.others.len() == IGNORED_MAX {
                    self.others.remove(0);
                }
                self.others.push((other.clone(), streak));
            }
        }
    }

    /// The end of the entity's cooldown, if it is in one.
    pub(crate) fn cooldown_until_ms(&self, now_ms: u64) -> Option<u64> {
        (self.own.until_ms > now_ms).then_some(self.own.until_ms)
    }

    /// Whether an input is ignored as if it was lost, because its sender panicked this entity before and sends it again.
    pub(crate) fn ignores(&self, input: &Input<Caller>, now_ms: u64) -> bool {
        if self.others.is_empty() {
            return false;
        }
        let Cause::Other(other) = Cause::of(input) else { return false };
        self.ignores_from(&other, now_ms)
    }

    /// Whether messages of this entity are ignored.
    pub(crate) fn ignores_from(&self, other: &Entity, now_ms: u64) -> bool {
        self.others.iter().any(|(known, streak)| known == other && streak.until_ms > now_ms)
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
    fn cooldowns_begin_with_the_second_own_panic_double_and_end() {
        let mut panics = PanicHistory::default();
        let mut cooldowns = Vec::new();
        let mut now_ms = 5;
        for _ in 0..10 {
            panics.note(&Cause::Own, now_ms);
            let until_ms = panics.cooldown_until_ms(now_ms);
            cooldowns.push(until_ms.map_or(0, |until_ms| until_ms - now_ms));
            now_ms = until_ms.unwrap_or(now_ms);
        }
        assert_eq!(cooldowns, [0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 64_000, 64_000]);
        panics.note(&Cause::Own, now_ms + FORGET_AFTER_MS + 1);
        assert_eq!(panics.cooldown_until_ms(now_ms + FORGET_AFTER_MS + 1), None);
    }

    #[test]
    fn only_the_entity_that_caused_a_panic_is_ignored() {
        let mut panics = PanicHistory::default();
        panics.note(&Cause::of(&ask(1)), 10);
        assert!(panics.ignores(&ask(1), 10 + COOLDOWN_MS - 1));
        assert!(!panics.ignores(&ask(2), 10) && !panics.ignores(&Input::Wake, 10));
        assert!(!panics.ignores(&ask(1), 10 + COOLDOWN_MS));
        assert_eq!(panics.cooldown_until_ms(10), None);
        (2..=IGNORED_MAX as u128 + 1).for_each(|cart| panics.note(&Cause::of(&ask(cart)), 20));
        assert_eq!(panics.others.len(), IGNORED_MAX);
        assert!(!panics.ignores(&ask(1), 20), "the oldest makes room");
    }
}

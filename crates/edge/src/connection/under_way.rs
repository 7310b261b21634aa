//! The commands of a connection that are under way, and their deadlines.

use boxoffice_core::id::{CartId, Entity};
use boxoffice_wire::{Op, call::Shape};
use tokio::time::Instant;

use crate::budgets::Charge;

/// The waiter for the answer to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    /// The client, with its number for the request.
    Client(u64),
    /// An item of a batch.
    Batch { batch: usize, item: usize },
}

/// A command under way.
#[derive(Clone, Debug)]
pub(super) struct PendingCommand {
    pub(super) waiter: Waiter,
    pub(super) op: Op,
    /// The shape of an ok answer.
    pub(super) shape: Shape,
    pub(super) charge: Option<Charge>,
    /// Whether it reads an order, which may be another customer's.
    pub(super) reads_order: bool,
    /// Whether it shows a code that may be wrong.
    pub(super) guesses_code: bool,
    /// The cart in whose queue it is.
    pub(super) cart: Option<CartId>,
    /// Its entity, if another node led that when the command arrived.
    pub(super) elsewhere: Option<Entity>,
    /// When it arrived.
    pub(super) at: Instant,
    pub(super) deadline: Instant,
}

/// Commands under way by tag. A tag has a slot's index and how often the slot was used before.
#[derive(Default)]
pub(super) struct UnderWay {
    slots: Vec<CommandSlot>,
    free: Vec<u32>,
    /// No deadline is earlier. Computed anew when this time comes.
    earliest: Option<Instant>,
    /// Commands that the node has not answered, even if their deadline has passed.
    submitted: usize,
}

#[derive(Default)]
struct CommandSlot {
    used: u32,
    pending: Option<PendingCommand>,
}

impl UnderWay {
    /// Adds a command. Returns the tag for its answer.
    pub(super) fn submit(&mut self, pending: PendingCommand) -> u64 {
        self.submitted += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(CommandSlot::default());
            u32::try_from(self.slots.len() - 1).expect("commands under way are bounded")
        });
        if self.earliest.is_none_or(|earliest| pending.deadline < earliest) {
            self.earliest = Some(pending.deadline);
        }
        let place = &mut self.slots[slot as usize];
        place.pending = Some(pending);
        u64::from(place.used) << 32 | u64::from(slot)
    }

    /// Takes the command that was answered. `None` if its deadline has passed.
    pub(super) fn answered(&mut self, tag: u64) -> Option<PendingCommand> {
        assert!(self.submitted > 0, "an answer came twice");
        self.submitted -= 1;
        let slot = tag as u32;
        let place = &mut self.slots[slot as usize];
        if u64::from(place.used) != tag >> 32 {
            return None;
        }
        Some(self.free_slot(slot))
    }

    /// Takes a command whose deadline has passed, with its tag.
    pub(super) fn overdue(&mut self, now: Instant) -> Option<(u64, PendingCommand)> {
        if self.earliest? > now {
            return None;
        }
        let overdue = |slot: &CommandSlot| slot.pending.as_ref().is_some_and(|pending| pending.deadline <= now);
        if let Some(slot) = self.slots.iter().position(overdue) {
            let tag = u64::from(self.slots[slot].used) << 32 | slot as u64;
            return Some((tag, self.free_slot(slot as u32)));
        }
        self.earliest = self.slots.iter().filter_map(|slot| Some(slot.pending.as_ref()?.deadline)).min();
        None
    }

    /// The deadline of a command. `None` if it has passed.
    pub(super) fn deadline_of(&self, tag: u64) -> Option<Instant> {
        let slot = &self.slots[tag as u32 as usize];
        let pending = slot.pending.as_ref().filter(|_| u64::from(slot.used) == tag >> 32);
        pending.map(|pending| pending.deadline)
    }

    /// The charge of a command. `None` if it has none, or its deadline has passed.
    pub(super) fn charge_of(&self, tag: u64) -> Option<&Charge> {
        let slot = &self.slots[tag as u32 as usize];
        slot.pending.as_ref().filter(|_| u64::from(slot.used) == tag >> 32)?.charge.as_ref()
    }

    /// A command ended before it was submitted, so there will be no answer.
    pub(super) fn never_submitted(&mut self) {
        self.submitted -= 1;
    }

    /// When to look for overdue commands. There may be none.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.earliest
    }

    /// How many commands the node has.
    pub(super) fn submitted(&self) -> usize {
        self.submitted
    }

    fn free_slot(&mut self, slot: u32) -> PendingCommand {
        let place = &mut self.slots[slot as usize];
        place.used = place.used.wrapping_add(1);
        self.free.push(slot);
        place.pending.take().expect("the tag's slot is in use")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Instant, Op, PendingCommand, Shape, UnderWay, Waiter};

    fn pending(id: u64, from: Instant, deadline_ms: u64) -> PendingCommand {
        let deadline = from + Duration::from_millis(deadline_ms);
        PendingCommand {
            waiter: Waiter::Client(id),
            op: Op::CartGet,
            shape: Shape::Plain,
            charge: None,
            reads_order: false,
            guesses_code: false,
            cart: None,
            elsewhere: None,
            at: from,
            deadline,
        }
    }

    #[test]
    fn a_late_answer_is_dropped() {
        let now = Instant::now();
        let mut under_way = UnderWay::default();
        let slow = under_way.submit(pending(1, now, 10));
        let quick = under_way.submit(pending(2, now, 1_000));
        assert!(under_way.overdue(now).is_none());
        let later = now + Duration::from_millis(10);
        assert_eq!(under_way.deadline_of(slow), Some(later));
        assert_eq!(
            under_way.overdue(later).map(|(tag, pending)| (tag, pending.waiter)),
            Some((slow, Waiter::Client(1)))
        );
        assert_eq!(under_way.deadline_of(slow), None);
        assert!(under_way.overdue(later).is_none());
        assert_eq!(under_way.next_deadline(), Some(now + Duration::from_millis(1_000)));
        // The slot serves another request before the late answer comes.
        let next = under_way.submit(pending(3, later, 1_000));
        assert_eq!(under_way.submitted(), 3);
        assert!(under_way.answered(slow).is_none());
        assert_eq!(under_way.answered(next).map(|pending| pending.waiter), Some(Waiter::Client(3)));
        assert_eq!(under_way.answered(quick).map(|pending| pending.waiter), Some(Waiter::Client(2)));
        assert_eq!(under_way.submitted(), 0);
    }

    #[test]
    fn every_deadline_is_found() {
        let now = Instant::now();
        let mut under_way = UnderWay::default();
        for id in 0..100 {
            under_way.submit(pending(id, now, 1 + (id * 37) % 100));
        }
        let mut found = Vec::new();
        for ms in 0..=100 {
            let at = now + Duration::from_millis(ms);
            while let Some((_, pending)) = under_way.overdue(at) {
                assert_eq!(pending.deadline, at, "found when it is due");
                found.push(pending.waiter);
            }
        }
        assert_eq!(found.len(), 100);
        assert_eq!(under_way.next_deadline(), None);
    }
}

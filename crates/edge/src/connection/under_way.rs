//! The commands of a connection that the node has and has not answered, or whose time is over.

use boxoffice_core::id::{CartId, Entity};
use boxoffice_wire::{Op, call::Shape};
use tokio::time::Instant;

use crate::budgets::Charge;

/// Who waits for the answer to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The client, under its number for the request.
    Client(u64),
    /// An item of a batch.
    Batch {
        /// Which batch.
        batch: usize,
        /// Which item.
        item: usize,
    },
}

/// A command under way.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// Who asked.
    pub(super) asker: Asker,
    /// For what.
    pub(super) op: Op,
    /// How an ok is to be written.
    pub(super) shape: Shape,
    /// What was charged for it.
    pub(super) charge: Option<Charge>,
    /// Whether it reads an order, which may be another's.
    pub(super) reads_order: bool,
    /// The cart whose changes it takes turns with.
    pub(super) cart: Option<CartId>,
    /// Its entity, if another node led that when the command came.
    pub(super) elsewhere: Option<Entity>,
    /// When.
    pub(super) at: Instant,
    /// Until when it waits.
    pub(super) deadline: Instant,
}

/// Commands under way, by the tag their answer comes back with: a slot, and how often the slot was used before.
#[derive(Default)]
pub(super) struct UnderWay {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// No deadline is before this; found anew when it comes.
    earliest: Option<Instant>,
    /// Submitted and not answered by the node, whether anybody still waits or not.
    submitted: usize,
}

#[derive(Default)]
struct Slot {
    used: u32,
    asked: Option<Asked>,
}

impl UnderWay {
    /// Writes a command down; the tag for its answer.
    pub(super) fn submit(&mut self, asked: Asked) -> u64 {
        self.submitted += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).expect("commands under way are bounded")
        });
        if self.earliest.is_none_or(|earliest| asked.deadline < earliest) {
            self.earliest = Some(asked.deadline);
        }
        let place = &mut self.slots[slot as usize];
        place.asked = Some(asked);
        u64::from(place.used) << 32 | u64::from(slot)
    }

    /// Takes the command that was answered; `None` if nobody waits any more.
    pub(super) fn answered(&mut self, tag: u64) -> Option<Asked> {
        assert!(self.submitted > 0, "an answer came twice");
        self.submitted -= 1;
        let slot = tag as u32;
        let place = &mut self.slots[slot as usize];
        if u64::from(place.used) != tag >> 32 {
            return None;
        }
        Some(self.free_slot(slot))
    }

    /// Takes a command whose deadline is over, if there is one, with its tag.
    pub(super) fn overdue(&mut self, now: Instant) -> Option<(u64, Asked)> {
        if self.earliest? > now {
            return None;
        }
        let overdue = |slot: &Slot| slot.asked.as_ref().is_some_and(|asked| asked.deadline <= now);
        if let Some(slot) = self.slots.iter().position(overdue) {
            let tag = u64::from(self.slots[slot].used) << 32 | slot as u64;
            return Some((tag, self.free_slot(slot as u32)));
        }
        self.earliest = self.slots.iter().filter_map(|slot| Some(slot.asked.as_ref()?.deadline)).min();
        None
    }

    /// Until when a command is waited for; `None` if nobody waits any more.
    pub(super) fn deadline_of(&self, tag: u64) -> Option<Instant> {
        let slot = &self.slots[tag as u32 as usize];
        let asked = slot.asked.as_ref().filter(|_| u64::from(slot.used) == tag >> 32);
        asked.map(|asked| asked.deadline)
    }

    /// A command was over before it was handed to the node: there will be no answer.
    pub(super) fn never_submitted(&mut self) {
        self.submitted -= 1;
    }

    /// When to look for overdue commands; there may be none then.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.earliest
    }

    /// How many commands the node has.
    pub(super) fn submitted(&self) -> usize {
        self.submitted
    }

    fn free_slot(&mut self, slot: u32) -> Asked {
        let place = &mut self.slots[slot as usize];
        place.used = place.used.wrapping_add(1);
        self.free.push(slot);
        place.asked.take().expect("the tag's slot is in use")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Asked, Asker, Instant, Op, Shape, UnderWay};

    fn asked(id: u64, from: Instant, deadline_ms: u64) -> Asked {
        let deadline = from + Duration::from_millis(deadline_ms);
        Asked {
            asker: Asker::Client(id),
            op: Op::CartGet,
            shape: Shape::Plain,
            charge: None,
            reads_order: false,
            cart: None,
            elsewhere: None,
            at: from,
            deadline,
        }
    }

    #[test]
    fn a_late_answer_is_nobodys() {
        let now = Instant::now();
        let mut under_way = UnderWay::default();
        let slow = under_way.submit(asked(1, now, 10));
        let quick = under_way.submit(asked(2, now, 1_000));
        assert!(under_way.overdue(now).is_none());
        let later = now + Duration::from_millis(10);
        assert_eq!(under_way.deadline_of(slow), Some(later));
        assert_eq!(under_way.overdue(later).map(|(tag, asked)| (tag, asked.asker)), Some((slow, Asker::Client(1))));
        assert_eq!(under_way.deadline_of(slow), None);
        assert!(under_way.overdue(later).is_none());
        assert_eq!(under_way.next_deadline(), Some(now + Duration::from_millis(1_000)));
        // The slot serves another request before the late answer comes.
        let next = under_way.submit(asked(3, later, 1_000));
        assert_eq!(under_way.submitted(), 3);
        assert!(under_way.answered(slow).is_none());
        assert_eq!(under_way.answered(next).map(|asked| asked.asker), Some(Asker::Client(3)));
        assert_eq!(under_way.answered(quick).map(|asked| asked.asker), Some(Asker::Client(2)));
        assert_eq!(under_way.submitted(), 0);
    }

    #[test]
    fn every_deadline_is_found() {
        let now = Instant::now();
        let mut under_way = UnderWay::default();
        for id in 0..100 {
            under_way.submit(asked(id, now, 1 + (id * 37) % 100));
        }
        let mut found = Vec::new();
        for ms in 0..=100 {
            let at = now + Duration::from_millis(ms);
            while let Some((_, asked)) = under_way.overdue(at) {
                assert_eq!(asked.deadline, at, "found when it is due");
                found.push(asked.asker);
            }
        }
        assert_eq!(found.len(), 100);
        assert_eq!(under_way.next_deadline(), None);
    }
}

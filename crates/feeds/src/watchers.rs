//! The watchers of a feed, and the fan-out of notifications to them.

use std::sync::Arc;

use super::ready::ReadyFlag;

/// Watchers in slots, which do not move while others come and go.
#[derive(Default)]
pub(super) struct Watchers {
    slots: Vec<Option<Arc<ReadyFlag>>>,
    free: Vec<usize>,
    /// The slot that is notified next.
    next: usize,
    /// Slots to be notified from there on, with a wrap at the end.
    left: usize,
}

impl Watchers {
    /// Adds a watcher and returns its slot.
    pub(super) fn join(&mut self, ready: Arc<ReadyFlag>) -> usize {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = Some(ready);
                slot
            }
            None => {
                // A fan-out that wraps passes the new slot as well. Without this it would miss its last one.
                if self.next + self.left > self.slots.len() {
                    self.left += 1;
                }
                self.slots.push(Some(ready));
                self.slots.len() - 1
            }
        }
    }

    /// Removes a watcher and returns whether it was the last one.
    pub(super) fn leave(&mut self, slot: usize) -> bool {
        assert!(self.slots[slot].take().is_some(), "a watcher left twice");
        self.free.push(slot);
        self.free.len() == self.slots.len()
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Begins a fan-out to all watchers, or extends the one under way from its current slot. Returns whether none was
    /// under way.
    pub(super) fn start_fan_out(&mut self) -> bool {
        let was_idle = self.left == 0;
        self.left = self.slots.len();
        was_idle && self.left > 0
    }

    /// Notifies up to `count` watchers and returns whether more are left.
    pub(super) fn notify(&mut self, count: usize) -> bool {
        // A new watcher sees the published state anyway, and a leaving one leaves its slot empty. So no watcher is
        // missed.
        for _ in 0..count.min(self.left) {
            if self.next >= self.slots.len() {
                self.next = 0;
            }
            if let Some(ready) = &self.slots[self.next] {
                ready.set();
            }
            self.next += 1;
            self.left -= 1;
        }
        self.left > 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, VecDeque};

    use super::{super::ready::ReadyList, *};

    /// The watchers that were notified since the last call, by number.
    fn take_notified(ready_list: &ReadyList, ready_flags: &[Arc<ReadyFlag>]) -> BTreeSet<u64> {
        let mut due = VecDeque::new();
        ready_list.take(&mut due);
        ready_flags.iter().for_each(|ready| ready.clear());
        due.into_iter().collect()
    }

    #[test]
    fn all_watchers_are_notified_while_others_join() {
        for (before, first, joins) in (1..6).flat_map(|n| (0..=n).flat_map(move |k| (0..4).map(move |j| (n, k, j)))) {
            let ready_list = Arc::new(ReadyList::default());
            let mut watchers = Watchers::default();
            let mut ready_flags: Vec<Arc<ReadyFlag>> = Vec::new();
            let join = |watchers: &mut Watchers, ready_flags: &mut Vec<Arc<ReadyFlag>>| {
                let ready = Arc::new(ReadyFlag::new(ready_flags.len() as u64, Arc::clone(&ready_list)));
                ready_flags.push(Arc::clone(&ready));
                watchers.join(ready);
            };
            (0..before).for_each(|_| join(&mut watchers, &mut ready_flags));
            assert!(watchers.start_fan_out());
            watchers.notify(first);
            take_notified(&ready_list, &ready_flags);
            // An update arrives in the middle of a fan-out, and watchers join in the middle of the next one.
            watchers.start_fan_out();
            let mut more = true;
            for _ in 0..joins {
                more = watchers.notify(1);
                join(&mut watchers, &mut ready_flags);
            }
            while more && watchers.notify(1) {}
            let notified = take_notified(&ready_list, &ready_flags);
            assert!(
                (0..before as u64).all(|watcher| notified.contains(&watcher)),
                "{before}, {first}, {joins}: {notified:?}"
            );
            assert!(!watchers.notify(9), "no watcher is left");
        }
    }
}

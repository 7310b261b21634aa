//! Who is to be told of a feed.

use std::sync::Arc;

use super::ready::ReadyFlag;

/// Who watches, in slots that stay where they are while others come and go.
#[derive(Default)]
pub(super) struct Watchers {
    slots: Vec<Option<Arc<ReadyFlag>>>,
    free: Vec<usize>,
    /// The slot that is told next.
    next: usize,
    /// Slots that are to be told from there on, round the end.
    left: usize,
}

impl Watchers {
    /// Adds a watcher; the number it is removed by.
    pub(super) fn join(&mut self, ready: Arc<ReadyFlag>) -> usize {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = Some(ready);
                slot
            }
            None => {
                // Who goes round the end passes the new slot as well: without this it would leave the last one out.
                if self.next + self.left > self.slots.len() {
                    self.left += 1;
                }
                self.slots.push(Some(ready));
                self.slots.len() - 1
            }
        }
    }

    /// Removes a watcher; says whether it was the last one.
    pub(super) fn leave(&mut self, slot: usize) -> bool {
        assert!(self.slots[slot].take().is_some(), "a watcher left twice");
        self.free.push(slot);
        self.free.len() == self.slots.len()
    }

    /// How many watch.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// All are to be told, from where others are being told, so that news wait for nobody; whether none were.
    pub(super) fn start_fan_out(&mut self) -> bool {
        let was_idle = self.left == 0;
        self.left = self.slots.len();
        was_idle && self.left > 0
    }

    /// Tells so many that there is something; whether there are more to be told.
    pub(super) fn notify(&mut self, count: usize) -> bool {
        // Who comes meanwhile sees what is published already; who leaves leaves its slot empty. Nobody is passed over.
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

    /// Who was told since it was last asked, by their numbers.
    fn told(ready_list: &ReadyList, ready_flags: &[Arc<ReadyFlag>]) -> BTreeSet<u64> {
        let mut due = VecDeque::new();
        ready_list.take(&mut due);
        ready_flags.iter().for_each(|ready| ready.clear());
        due.into_iter().collect()
    }

    #[test]
    fn everybody_is_told_however_many_come_meanwhile() {
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
            told(&ready_list, &ready_flags);
            // News that come while some have been told, and watchers that come while others are.
            watchers.start_fan_out();
            let mut more = true;
            for _ in 0..joins {
                more = watchers.notify(1);
                join(&mut watchers, &mut ready_flags);
            }
            while more && watchers.notify(1) {}
            let told = told(&ready_list, &ready_flags);
            assert!((0..before as u64).all(|watcher| told.contains(&watcher)), "{before}, {first}, {joins}: {told:?}");
            assert!(!watchers.notify(9), "nobody is left");
        }
    }
}

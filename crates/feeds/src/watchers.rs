//! Who is to be told of a feed.

use std::sync::Arc;

use super::mark::Mark;

/// Who watches, in slots that stay where they are while others come and go.
#[derive(Default)]
pub(super) struct Watchers {
    slots: Vec<Option<Arc<Mark>>>,
    free: Vec<usize>,
    /// The slot that is told next.
    next: usize,
    /// Slots that are to be told from there on, round the end.
    left: usize,
}

impl Watchers {
    /// Adds a watcher; the number it is removed by.
    pub(super) fn join(&mut self, mark: Arc<Mark>) -> usize {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = Some(mark);
                slot
            }
            None => {
                // Who goes round the end passes the new slot as well: without this it would leave the last one out.
                if self.next + self.left > self.slots.len() {
                    self.left += 1;
                }
                self.slots.push(Some(mark));
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
    pub(super) fn has_news(&mut self) -> bool {
        let was_idle = self.left == 0;
        self.left = self.slots.len();
        was_idle && self.left > 0
    }

    /// Tells so many that there is something; whether there are more to be told.
    pub(super) fn tell(&mut self, count: usize) -> bool {
        // Who comes meanwhile sees what is published already; who leaves leaves its slot empty. Nobody is passed over.
        for _ in 0..count.min(self.left) {
            if self.next >= self.slots.len() {
                self.next = 0;
            }
            if let Some(mark) = &self.slots[self.next] {
                mark.set();
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

    use super::{super::mark::Dirty, *};

    /// Who was told since it was last asked, by their numbers.
    fn told(dirty: &Dirty, marks: &[Arc<Mark>]) -> BTreeSet<u64> {
        let mut due = VecDeque::new();
        dirty.take(&mut due);
        marks.iter().for_each(|mark| mark.clear());
        due.into_iter().collect()
    }

    #[test]
    fn everybody_is_told_however_many_come_meanwhile() {
        for (before, first, joins) in (1..6).flat_map(|n| (0..=n).flat_map(move |k| (0..4).map(move |j| (n, k, j)))) {
            let dirty = Arc::new(Dirty::default());
            let mut watchers = Watchers::default();
            let mut marks: Vec<Arc<Mark>> = Vec::new();
            let join = |watchers: &mut Watchers, marks: &mut Vec<Arc<Mark>>| {
                let mark = Arc::new(Mark::new(marks.len() as u64, Arc::clone(&dirty)));
                marks.push(Arc::clone(&mark));
                watchers.join(mark);
            };
            (0..before).for_each(|_| join(&mut watchers, &mut marks));
            assert!(watchers.has_news());
            watchers.tell(first);
            told(&dirty, &marks);
            // News that come while some have been told, and watchers that come while others are.
            watchers.has_news();
            let mut more = true;
            for _ in 0..joins {
                more = watchers.tell(1);
                join(&mut watchers, &mut marks);
            }
            while more && watchers.tell(1) {}
            let told = told(&dirty, &marks);
            assert!((0..before as u64).all(|watcher| told.contains(&watcher)), "{before}, {first}, {joins}: {told:?}");
            assert!(!watchers.tell(9), "nobody is left");
        }
    }
}

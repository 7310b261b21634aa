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

//! Who is to be told of a feed.

use std::sync::Arc;

use super::mark::Mark;

/// Who watches, in slots that stay where they are while others come and go.
#[derive(Default)]
pub(super) struct Watchers {
    slots: Vec<Option<Arc<Mark>>>,
    free: Vec<usize>,
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

    /// Tells the watchers in `slots` that there is something; whether there are slots beyond.
    pub(super) fn tell(&self, slots: std::ops::Range<usize>) -> bool {
        let end = slots.end.min(self.slots.len());
        // Who comes meanwhile sees what is published already; who leaves leaves its slot empty. Nobody is passed over.
        for mark in self.slots[slots.start.min(end)..end].iter().flatten() {
            mark.set();
        }
        end < self.slots.len()
    }
}

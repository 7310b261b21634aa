//! The outbox: what a cart owes to sessions until they acknowledge it.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{
    ask::{Ask, Reply},
    event::Owed,
    id::{HoldId, Id},
};

/// Messages owed, each with a number; numbers rise and are never used again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outbox {
    next: u64,
    /// Ascending by number.
    entries: Vec<(u64, Owed)>,
}

impl Outbox {
    /// Whether nothing is owed.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many messages are owed.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Everything owed, in the order in which it was.
    pub(crate) fn entries(&self) -> &[(u64, Owed)] {
        &self.entries
    }

    /// What may be told now: everything but a `Forget` behind other messages to its session. A release that came after
    /// the `Forget` would be remembered for ever.
    pub(crate) fn sendable(&self) -> impl Iterator<Item = &(u64, Owed)> {
        self.entries.iter().enumerate().filter_map(|(place, entry)| {
            let blocked = entry.1.ask == Ask::Forget
                && self.entries[..place].iter().any(|(_, earlier)| earlier.session == entry.1.session);
            (!blocked).then_some(entry)
        })
    }

    /// The message a reply of `session` acknowledges.
    pub(crate) fn acknowledged_by(&self, session: &Id, reply: &Reply) -> Option<u64> {
        let fits = |ask: &Ask| match (ask, reply) {
            (Ask::Release { hold, revision, .. }, Reply::Released { hold: said, revision: replied }) => {
                (hold, revision) == (said, replied)
            }
            (Ask::Sell { hold, .. }, Reply::Sold { hold: said, .. }) => hold == said,
            (Ask::Forget, Reply::Forgotten) => true,
            _ => false,
        };
        let entry = self.entries.iter().find(|(_, owed)| owed.session == *session && fits(&owed.ask))?;
        Some(entry.0)
    }

    /// Whether any sale is owed.
    pub(crate) fn owes_sales(&self) -> bool {
        self.entries.iter().any(|(_, owed)| matches!(owed.ask, Ask::Sell { .. }))
    }

    /// Whether the sale of this hold is owed to the session.
    pub(crate) fn owes_sale(&self, session: &Id, of: HoldId) -> bool {
        let sells = |ask: &Ask| matches!(ask, Ask::Sell { hold, .. } if *hold == of);
        self.entries.iter().any(|(_, owed)| owed.session == *session && sells(&owed.ask))
    }

    /// The releases of a hold that are owed to the session: revision, and whether it is the last word.
    pub(crate) fn releases(&self, session: &Id, of: HoldId) -> impl Iterator<Item = (u64, bool)> {
        let to_session = self.entries.iter().filter(move |(_, owed)| owed.session == *session);
        to_session.filter_map(move |(_, owed)| match &owed.ask {
            Ask::Release { hold, revision, last, .. } if *hold == of => Some((*revision, *last)),
            _ => None,
        })
    }

    /// Adds a message.
    pub(super) fn owe(&mut self, session: &Id, ask: Ask) {
        self.entries.push((self.next, Owed { session: session.clone(), ask }));
        self.next += 1;
    }

    /// Takes acknowledged messages out.
    pub(super) fn deliver(&mut self, numbers: &[u64]) {
        let before = self.entries.len();
        self.entries.retain(|(number, _)| !numbers.contains(number));
        assert_eq!(self.entries.len() + numbers.len(), before, "a message was acknowledged that is not owed");
        if self.entries.is_empty() {
            // Most carts never owe anything again.
            self.entries = Vec::new();
        }
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<(u64, Owed)>()
    }
}

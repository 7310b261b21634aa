//! Changes of one cart take turns: a connection hands the next one in when the one before it has been answered, or its time
//! is over. So commands that a client sends one after the other, without waiting, happen in that order, whatever they have to
//! ask of others and whichever node decides them.

use std::collections::{BTreeMap, VecDeque};

use boxoffice_core::{
    command::Command,
    id::{CartId, Entity, Request as RequestKey},
};

/// The carts of a connection that changes are under way of.
#[derive(Default)]
pub(super) struct Turns {
    carts: BTreeMap<CartId, Queue>,
}

struct Queue {
    /// The change that the node has.
    tag: u64,
    /// Those behind it. Their number is bounded by what a connection may have under way.
    waiting: VecDeque<Change>,
}

/// A change, and its tag among the commands under way.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) tag: u64,
    pub(super) command: Command,
    pub(super) key: Option<RequestKey>,
}

impl Turns {
    /// The cart whose changes this command has to wait for. Reads wait for nothing.
    pub(super) fn cart_of(command: &Command, key: Option<&RequestKey>) -> Option<CartId> {
        match command.entity() {
            Entity::Cart(cart) if key.is_some() => Some(cart),
            _ => None,
        }
    }

    /// Gives a change back if it is its turn; else it waits.
    pub(super) fn take(&mut self, cart: CartId, change: Change) -> Option<Change> {
        if let Some(queue) = self.carts.get_mut(&cart) {
            queue.waiting.push_back(change);
            return None;
        }
        self.carts.insert(cart, Queue { tag: change.tag, waiting: VecDeque::new() });
        Some(change)
    }

    /// The change with this tag is over; the next one of its cart, if it was its turn and another one waits.
    pub(super) fn over(&mut self, cart: CartId, tag: u64) -> Option<Change> {
        let queue = self.carts.get_mut(&cart).filter(|queue| queue.tag == tag)?;
        match queue.waiting.pop_front() {
            Some(next) => {
                queue.tag = next.tag;
                Some(next)
            }
            None => {
                self.carts.remove(&cart);
                None
            }
        }
    }
}

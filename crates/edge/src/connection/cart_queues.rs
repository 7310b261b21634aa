//! Queues of the changes of one cart. A connection submits the next change when the one before was answered, or its deadline
//! has passed. So the commands that a client sends without waiting happen in that order, whichever node decides them.

use std::collections::{BTreeMap, VecDeque};

use boxoffice_core::{
    command::{CartCommand, Command},
    id::{CartId, Request as RequestKey},
};
use boxoffice_wire::permission::VenueRule;

/// The carts of a connection with changes under way.
#[derive(Default)]
pub(super) struct CartQueues {
    carts: BTreeMap<CartId, Queue>,
}

struct Queue {
    /// The tag of the change that the node has.
    tag: u64,
    /// The changes behind it. The limit of requests under way bounds their number.
    waiting: VecDeque<QueuedChange>,
}

/// A change of a cart.
#[derive(Debug)]
pub(super) struct QueuedChange {
    pub(super) tag: u64,
    /// The rule of its op for callers that are limited to venues.
    pub(super) rule: VenueRule,
    pub(super) command: Command,
    pub(super) key: Option<RequestKey>,
    /// How much longer the buyer will be there than the client waits, in milliseconds.
    pub(super) spare_ms: u64,
}

impl CartQueues {
    /// The cart in whose queue this command belongs. Reads do not queue, nor does the end of a checkout, which would otherwise wait
    /// for the answer of the checkout that it ends.
    pub(super) fn cart_of(command: &Command, key: Option<&RequestKey>) -> Option<CartId> {
        match command {
            Command::Cart(_, CartCommand::CancelCheckout { .. }) => None,
            Command::Cart(cart, _) if key.is_some() => Some(*cart),
            _ => None,
        }
    }

    /// Returns a change that may be submitted now. Queues it otherwise.
    pub(super) fn start_or_queue(&mut self, cart: CartId, queued: QueuedChange) -> Option<QueuedChange> {
        if let Some(queue) = self.carts.get_mut(&cart) {
            queue.waiting.push_back(queued);
            return None;
        }
        self.carts.insert(cart, Queue { tag: queued.tag, waiting: VecDeque::new() });
        Some(queued)
    }

    /// The change with this tag has ended. Returns the next one of its cart, if there is one.
    pub(super) fn next_after(&mut self, cart: CartId, tag: u64) -> Option<QueuedChange> {
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

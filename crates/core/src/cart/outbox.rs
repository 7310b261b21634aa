//! The outbox of a cart, with the messages that it owes until they are acknowledged.

use alloc::vec::Vec;

use boxoffice_declare::Stored;

use crate::{
    ask::{Ask, Reply},
    event::Owed,
    id::{Entity, HoldId},
    payment::{GatewayCall, PaymentKey, PaymentStep},
    planted,
    push_exact::push_exact,
};

/// Messages owed, each with a number. Numbers rise and are never used again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Stored)]
pub(crate) struct Outbox {
    #[n(0)]
    next: u64,
    /// Ascending by number.
    #[n(1)]
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

    /// The number of the next message.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// All messages, in the order in which they became owed.
    pub(crate) fn entries(&self) -> &[(u64, Owed)] {
        &self.entries
    }

    /// Messages that may be sent now. The others wait for earlier messages to the same receiver.
    pub(crate) fn sendable(&self) -> impl Iterator<Item = &(u64, Owed)> {
        let free = |(place, _): &(usize, &(u64, Owed))| !self.is_blocked(*place);
        self.entries.iter().enumerate().filter(free).map(|(_, entry)| entry)
    }

    /// Whether a message has to wait for earlier ones.
    fn is_blocked(&self, place: usize) -> bool {
        self.entries[..place].iter().any(|(_, earlier)| waits(&self.entries[place].1, earlier))
    }

    /// The message that a reply of `from` acknowledges.
    pub(crate) fn acknowledged_by(&self, from: &Entity, reply: &Reply) -> Option<u64> {
        let fits = |ask: &Ask| match (ask, reply) {
            (Ask::Release { hold, revision, .. }, Reply::Released { hold: replied_hold, revision: replied }) => {
                (hold, revision) == (replied_hold, replied)
            }
            (Ask::Sell { hold, .. }, Reply::Sold { hold: replied_hold, .. })
            | (Ask::Refund { hold }, Reply::Refunded { hold: replied_hold }) => hold == replied_hold,
            (Ask::Post { purchase }, Reply::Posted { order }) => purchase.order == *order,
            (Ask::Forget, Reply::Forgotten) => true,
            _ => false,
        };
        let fits = |(_, owed): &(u64, Owed)| owed.to.as_ref() == Some(from) && fits(&owed.ask);
        let place = self.entries.iter().position(fits)?;
        // A message that was not sent yet is not acknowledged. The reply belongs to something else.
        (!self.is_blocked(place)).then(|| self.entries[place].0)
    }

    /// The message to the gateway with this step of an attempt.
    pub(crate) fn payment(&self, key: PaymentKey, step: PaymentStep) -> Option<(u64, &GatewayCall)> {
        self.entries.iter().find_map(|(number, owed)| match &owed.ask {
            Ask::Pay(call) if call.key() == key && call.step() == step => Some((*number, call)),
            _ => None,
        })
    }

    /// Whether any sale is owed.
    pub(crate) fn owes_sales(&self) -> bool {
        self.entries.iter().any(|(_, owed)| matches!(owed.ask, Ask::Sell { .. }))
    }

    /// Whether the sale of this hold is owed.
    pub(crate) fn owes_sale(&self, to: &Entity, of: HoldId) -> bool {
        let sells = |ask: &Ask| matches!(ask, Ask::Sell { hold, .. } if *hold == of);
        self.entries.iter().any(|(_, owed)| owed.to.as_ref() == Some(to) && sells(&owed.ask))
    }

    /// The owed releases of a hold, each with its revision and whether it is the last message about the hold.
    pub(crate) fn releases(&self, to: &Entity, of: HoldId) -> impl Iterator<Item = (u64, bool)> {
        let to_entity = self.entries.iter().filter(move |(_, owed)| owed.to.as_ref() == Some(to));
        to_entity.filter_map(move |(_, owed)| match &owed.ask {
            Ask::Release { hold, revision, last, .. } if *hold == of => Some((*revision, *last)),
            _ => None,
        })
    }

    /// Adds a message. Without `to` it goes to the gateway.
    pub(super) fn owe(&mut self, to: Option<Entity>, ask: Ask) {
        assert_eq!(to.is_none(), matches!(ask, Ask::Pay(_)), "only payments are asked of the gateway: {ask:?}");
        let dropped = match ask {
            Ask::Sell { .. } => planted::is("a sale dropped from the outbox"),
            Ask::Release { .. } => planted::is("a release never told"),
            Ask::Post { .. } => planted::is("a purchase dropped from the outbox"),
            _ => false,
        };
        if dropped {
            return;
        }
        push_exact(&mut self.entries, (self.next, Owed { to, ask }));
        self.next += 1;
    }

    /// Removes acknowledged messages.
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

/// Whether a message has to wait until an earlier one is acknowledged.
fn waits(message: &Owed, earlier: &Owed) -> bool {
    if message.to != earlier.to {
        return false;
    }
    match (&message.ask, &earlier.ask) {
        // A release that came after the `Forget` would be remembered for ever.
        (Ask::Forget, _) => true,
        // A refund that came before the sale would find nothing, and then the sale would stand.
        (Ask::Refund { hold }, Ask::Sell { hold: sold, .. }) => hold == sold,
        // Money that is not captured cannot be paid back.
        (Ask::Pay(GatewayCall::Refund { key, .. }), Ask::Pay(GatewayCall::Capture { key: captured, .. })) => {
            key == captured
        }
        _ => false,
    }
}

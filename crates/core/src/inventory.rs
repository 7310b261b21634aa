//! What holds are of: a session, a product, a resource, a customer's quotas. One set of rules for all of them.

use alloc::vec::Vec;

use crate::{
    ask::{Granted, Reply},
    command::Want,
    event::Event,
    id::{CartId, HoldId, OrderId},
    portion::Portion,
    time::Timestamp,
};

/// A cart asks for something.
pub(crate) struct HoldAsk<'a> {
    /// The hold's id.
    pub(crate) hold: HoldId,
    /// Its revision.
    pub(crate) revision: u64,
    /// What of the inventory.
    pub(crate) want: &'a Want,
    /// When the cart is to be asked about it: the cart's deadline and the grace.
    pub(crate) deadline: Timestamp,
}

/// The side of an entity that carts hold things of. Everything is looked at before anything is written.
pub(crate) trait Inventory {
    /// A cart asks for a hold, or for more or less of one that it has. The event, or what is replied without one: that it
    /// is so already, that it is refused, that the ask is stale.
    #[expect(clippy::result_large_err, reason = "a reply is no error, and goes on its way at once")]
    fn decide_hold(&self, now: Timestamp, ask: &HoldAsk<'_>) -> Result<Event, Reply>;

    /// How long a hold of it lives at most while its cart is not touched, in milliseconds; `None` if as long as the cart says.
    fn hold_ttl_ms(&self) -> Option<u64>;

    /// When the cart of a live hold is asked about it; `None` if there is no such hold.
    fn asks_at(&self, hold: HoldId) -> Option<Timestamp>;

    /// The reply to a hold that is live: what it has now.
    fn granted(&self, hold: HoldId) -> Granted;

    /// A cart gives back everything of a hold but `left`. `None` if there is nothing to write: it is so already.
    fn decide_release(&self, hold: HoldId, revision: u64, left: Option<&Portion>, last: bool) -> Option<Event>;

    /// A cart has sold this of its hold to itself; the rest is free. The events, and none if it is sold already.
    ///
    /// # Panics
    /// If the hold is neither live nor sold, or lacks something: a hold covers its line at every instant.
    fn decide_sell(&self, hold: HoldId, revision: u64, portion: &Portion, order: OrderId, at: Timestamp) -> Vec<Event>;

    /// Whether it has, or had, this hold. A leader that was stopped and does not know yet that another one leads may be told
    /// of holds that were granted since.
    fn knows(&self, hold: HoldId) -> bool;

    /// The version with the sale of this hold, if it is sold and was not refunded.
    fn sale_version(&self, hold: HoldId) -> Option<u64>;

    /// A cart has refunded the sale of this hold. `None` if it is over already.
    fn decide_refund(&self, hold: HoldId) -> Option<Event>;

    /// The cart says the hold is its own, to be asked about at `deadline`. `None` if there is no such hold, or no news.
    fn decide_extend(&self, hold: HoldId, deadline: Timestamp) -> Option<Event>;

    /// The cart says that the hold can never be its own. `None` if it is gone already.
    fn decide_disowned(&self, hold: HoldId) -> Option<Event>;

    /// The cart is terminal. `None` if nothing of it is remembered.
    fn decide_forget(&self, cart: CartId) -> Option<Event>;

    /// Up to `max` holds whose cart is to be asked, in the order of their deadlines: those after `after`, up to `now`.
    fn overdue(&self, after: (Timestamp, HoldId), now: Timestamp, max: usize) -> Vec<(Timestamp, HoldId)>;

    /// Up to `max` holds and sales after `after` that a canceled inventory wants back from their carts; none of others.
    fn unwanted(&self, after: Option<HoldId>, max: usize) -> Vec<HoldId>;
}

//! A line of a cart, and its hold.

use alloc::{boxed::Box, vec::Vec};
use core::ops::{Deref, DerefMut};

use boxoffice_declare::Stored;

use crate::{
    ask::Ask,
    event::QuotaClaim,
    id::{CartId, Entity, HoldId, Id, RequestHash},
    portion::{Content, LineItem, Portion},
    time::Timestamp,
};

/// A line as stored.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub(super) struct Line {
    #[n(0)]
    pub(super) number: u32,
    #[n(1)]
    pub(super) item: LineItem,
    /// When the cart got it, for operators. Only the cart knows: its inventory stores neither this nor the customer.
    #[n(2)]
    pub(super) added_at: Timestamp,
    /// `None` while it is to be validated at the checkout.
    #[n(4)]
    pub(super) hold: Option<LineHold>,
    #[n(5)]
    pub(super) quota: Option<Box<QuotaClaim>>,
    #[n(6)]
    pub(super) ttl_ms: Option<u64>,
    /// When its hold ends even if the cart is touched, because its holder has a share.
    #[n(7)]
    pub(super) ends_at: Option<Timestamp>,
    /// The latest deadline that an inventory of the line may know. Until then it believes in its hold without asking the cart.
    /// It may be later than the cart's own deadline, because another line can shorten the cart's life.
    #[n(3)]
    pub(super) believed_until: Timestamp,
}

/// A line is read as its item.
impl Deref for Line {
    type Target = LineItem;

    fn deref(&self) -> &LineItem {
        &self.item
    }
}

impl DerefMut for Line {
    fn deref_mut(&mut self) -> &mut LineItem {
        &mut self.item
    }
}

/// The hold of a line, without its cart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub(super) struct LineHold {
    #[n(0)]
    pub(super) request: RequestHash,
    #[n(1)]
    pub(super) part: u16,
    #[n(2)]
    pub(super) attempt: u16,
    #[n(3)]
    pub(super) revision: u64,
}

/// A hold of a line, of its inventory or of its customer's quota.
pub(super) struct LineClaim<'a> {
    pub(super) entity: Entity,
    pub(super) hold: HoldId,
    pub(super) revision: u64,
    content: &'a Content,
    quota: Option<&'a QuotaClaim>,
}

impl LineClaim<'_> {
    /// The part of the hold that the line needs.
    pub(super) fn portion(&self) -> Portion {
        match self.quota {
            Some(quota) => quota.portion(self.content.quantity()),
            None => self.content.portion(),
        }
    }
}

impl Line {
    /// The line's holds, of its inventory and of the quota.
    pub(super) fn claims(&self, cart: CartId, customer: Option<&Id>) -> impl Iterator<Item = LineClaim<'_>> {
        let content = &self.content;
        let own = self.hold.map(|hold| LineClaim {
            entity: self.entity.clone(),
            hold: hold.id(cart),
            revision: hold.revision,
            content,
            quota: None,
        });
        let quota = self.quota.as_deref().map(|quota| LineClaim {
            entity: customer_entity(customer),
            hold: quota.hold,
            revision: quota.revision,
            content,
            quota: Some(quota),
        });
        own.into_iter().chain(quota)
    }

    /// Whether this is one of the line's holds.
    pub(super) fn depends_on(&self, cart: CartId, customer: Option<&Id>, entity: &Entity, hold: HoldId) -> bool {
        if let Entity::Customer(id) = entity {
            return customer == Some(id) && self.quota.as_ref().is_some_and(|quota| quota.hold == hold);
        }
        self.entity == *entity && self.hold.is_some_and(|own| own.id(cart) == hold)
    }

    /// Raises the revisions of the line's holds, and releases what the line does not have. A hold without a new revision stays as
    /// it is. The holds of a line that ends are released completely.
    pub(super) fn release(
        &mut self,
        cart: CartId,
        customer: Option<&Id>,
        (revision, quota_revision): (Option<u64>, Option<u64>),
        ends: bool,
    ) -> Vec<(Entity, Ask)> {
        let Line { number, item: LineItem { entity, content, .. }, hold, quota, .. } = self;
        let mut asks = Vec::new();
        if let (Some(hold), Some(revision)) = (hold, revision) {
            assert!(revision > hold.revision, "line {number} is released by an old revision");
            hold.revision = revision;
            let left = (!ends).then(|| content.portion());
            let ask = Ask::Release { hold: hold.id(cart), revision, left, last: false, expired: false };
            asks.push((entity.clone(), ask));
        }
        if let (Some(quota), Some(revision)) = (quota, quota_revision) {
            assert!(revision > quota.revision, "the quota of line {number} is released by an old revision");
            quota.revision = revision;
            let left = (!ends).then(|| quota.portion(content.quantity()));
            let ask = Ask::Release { hold: quota.hold, revision, left, last: false, expired: false };
            asks.push((customer_entity(customer), ask));
        }
        asks
    }
}

/// The customer of a line with a quota.
fn customer_entity(customer: Option<&Id>) -> Entity {
    Entity::Customer(customer.expect("a cart with a quota has a customer").clone())
}

impl QuotaClaim {
    fn portion(&self, count: u32) -> Portion {
        Portion::Quota { quota: self.quota.clone(), count }
    }
}

impl LineHold {
    pub(super) fn new(hold: HoldId, revision: u64) -> LineHold {
        LineHold { request: hold.request, part: hold.part, attempt: hold.attempt, revision }
    }

    pub(super) fn id(&self, cart: CartId) -> HoldId {
        HoldId { cart, request: self.request, part: self.part, attempt: self.attempt }
    }
}

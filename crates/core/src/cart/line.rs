//! A line of a cart, and its hold.

use alloc::{boxed::Box, vec::Vec};
use core::ops::{Deref, DerefMut};

use boxoffice_declare::Stored;

use crate::{
    ask::Ask,
    event::QuotaClaim,
    id::{CartId, Entity, HoldId, Id, RequestHash},
    planted,
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
    #[n(8)]
    pub(super) code: Option<Box<CodeClaim>>,
}

/// The hold of a line on uses of a code. It has as many as the line has seats and places that take one.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub(super) struct CodeClaim {
    #[n(0)]
    pub(super) code: Id,
    #[n(1)]
    pub(super) hold: HoldId,
    #[n(2)]
    pub(super) revision: u64,
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

/// A hold of a line, of its inventory, of its customer's quota or of a code.
pub(super) struct LineClaim<'a> {
    pub(super) entity: Entity,
    pub(super) hold: HoldId,
    pub(super) revision: u64,
    content: &'a Content,
    of: ClaimOf<'a>,
}

enum ClaimOf<'a> {
    Inventory,
    Quota(&'a QuotaClaim),
    Code,
}

impl LineClaim<'_> {
    /// The part of the hold that the line needs.
    pub(super) fn portion(&self) -> Portion {
        match self.of {
            ClaimOf::Quota(quota) => quota.portion(self.content.quantity()),
            ClaimOf::Code => Portion::Uses(self.content.uses()),
            ClaimOf::Inventory => self.content.portion(),
        }
    }
}

/// New revisions of the holds of a line. A hold without one stays as it is.
#[derive(Clone, Copy, Default)]
pub(super) struct NewRevisions {
    pub(super) hold: Option<u64>,
    pub(super) quota: Option<u64>,
    pub(super) code: Option<u64>,
}

impl Line {
    /// The line's holds, of its inventory, of the quota and of the code.
    pub(super) fn claims(&self, cart: CartId, customer: Option<&Id>) -> impl Iterator<Item = LineClaim<'_>> {
        let content = &self.content;
        let own = self.hold.map(|hold| LineClaim {
            entity: self.entity.clone(),
            hold: hold.id(cart),
            revision: hold.revision,
            content,
            of: ClaimOf::Inventory,
        });
        let quota = self.quota.as_deref().map(|quota| LineClaim {
            entity: customer_entity(customer),
            hold: quota.hold,
            revision: quota.revision,
            content,
            of: ClaimOf::Quota(quota),
        });
        let code = self.code.as_deref().map(|claim| LineClaim {
            entity: Entity::Code(claim.code.clone()),
            hold: claim.hold,
            revision: claim.revision,
            content,
            of: ClaimOf::Code,
        });
        own.into_iter().chain(quota).chain(code)
    }

    /// Whether this is one of the line's holds.
    pub(super) fn depends_on(&self, cart: CartId, customer: Option<&Id>, entity: &Entity, hold: HoldId) -> bool {
        if let Entity::Customer(id) = entity {
            return customer == Some(id) && self.quota.as_ref().is_some_and(|quota| quota.hold == hold);
        }
        if let Entity::Code(id) = entity {
            let owns = self.code.as_ref().is_some_and(|claim| claim.code == *id && claim.hold == hold);
            return owns && !planted::is("a use that is free again while its line lives");
        }
        self.entity == *entity && self.hold.is_some_and(|own| own.id(cart) == hold)
    }

    /// Raises the revisions of the line's holds, and releases what the line does not have. A hold without a new revision stays as
    /// it is. The holds of a line that ends are released completely, and so is that of a code of which the line needs no use.
    pub(super) fn release(
        &mut self,
        cart: CartId,
        customer: Option<&Id>,
        revisions: NewRevisions,
        ends: bool,
    ) -> Vec<(Entity, Ask)> {
        let Line { number, item: LineItem { entity, content, .. }, hold, quota, code, .. } = self;
        let mut asks = Vec::new();
        if let (Some(hold), Some(revision)) = (hold, revisions.hold) {
            assert!(revision > hold.revision, "line {number} is released by an old revision");
            hold.revision = revision;
            let left = (!ends).then(|| content.portion());
            let ask = Ask::Release { hold: hold.id(cart), revision, left, last: false, expired: false };
            asks.push((entity.clone(), ask));
        }
        if let (Some(quota), Some(revision)) = (quota, revisions.quota) {
            assert!(revision > quota.revision, "the quota of line {number} is released by an old revision");
            quota.revision = revision;
            let left = (!ends).then(|| quota.portion(content.quantity()));
            let ask = Ask::Release { hold: quota.hold, revision, left, last: false, expired: false };
            asks.push((customer_entity(customer), ask));
        }
        if let (Some(claim), Some(revision)) = (&mut *code, revisions.code) {
            assert!(revision > claim.revision, "the code of line {number} is released by an old revision");
            claim.revision = revision;
            let needed = if ends { 0 } else { content.uses() };
            let left = (needed > 0).then_some(Portion::Uses(needed));
            let ask = Ask::Release { hold: claim.hold, revision, left, last: false, expired: false };
            asks.push((Entity::Code(claim.code.clone()), ask));
            if needed == 0 {
                *code = None;
            }
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

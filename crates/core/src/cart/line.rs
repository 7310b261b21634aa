//! A line of a cart, and the hold it rests on.

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use crate::{
    event::QuotaClaim,
    id::{CartId, Entity, HoldId, Id, RequestHash},
    portion::{Content, Portion},
    time::Timestamp,
};

/// A line as kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) number: u32,
    pub(super) entity: Entity,
    /// `None` while it is to be validated at the checkout.
    pub(super) hold: Option<LineHold>,
    pub(super) quota: Option<Box<QuotaClaim>>,
    pub(super) content: Content,
    pub(super) ttl_ms: Option<u64>,
    /// Until when those it has holds of may believe in them without asking the cart: the latest deadline that they were
    /// told, or may have been. It may be later than the cart's, whose life others can make shorter.
    pub(super) believed_until: Timestamp,
}

/// The hold a line rests on; its cart goes without saying.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LineHold {
    pub(super) request: RequestHash,
    pub(super) part: u16,
    pub(super) attempt: u16,
    pub(super) revision: u64,
}

impl Line {
    /// Whether this is the hold it rests on, or the one on its customer's quota.
    pub(super) fn store_batches(&self, cart: CartId, customer: Option<&Id>, entity: &Entity, hold: HoldId) -> bool {
        if let Entity::Customer(id) = entity {
            return customer == Some(id) && self.quota.as_ref().is_some_and(|quota| quota.hold == hold);
        }
        self.entity == *entity && self.hold.is_some_and(|own| own.id(cart) == hold)
    }

    /// What it needs of its customer's quota.
    pub(super) fn quota_portion(&self, quota: &QuotaClaim) -> Portion {
        Portion::Quota { quota: quota.quota.clone(), count: self.content.quantity() }
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

//! The bodies of requests: plain shapes, one set for both encodings. Absent and `null` are the same. Whether
//! a field that is not known is refused or ignored is for the op to say: see [`crate::Op::is_strict`].

mod admin;
mod cart;
mod catalogue;
mod order;
mod product;
mod resource;
mod session;

use boxoffice_core::{
    command::{CustomerLimit, Limits},
    id::{CartToken, Entity, Id},
};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

pub use admin::{AdminJoin, AdminLeave, AdminNode, AdminRelease, AdminSettle, Audit, History, KeyCreate};
pub use cart::{
    CartOnly, CartOpen, Checkout, Figure, GatewayPayment, HoldAll, HoldBest, HoldPlaces, HoldSeats, HoldSlot,
    HoldStock, Line, PaymentBody, RecordedPayment, Release, SetQuantity, ShippingBody,
};
pub use catalogue::{HallGet, HallPut, Position, TitlePut, TitleSearch, VenuePut, VenueSearch};
pub use order::{CustomerPurchases, OrderGet, OrderRefund};
pub use product::ProductPut;
pub use resource::{
    RepeatBody, ResourceBookings, ResourceCancel, ResourceFreeSlots, ResourceIsAvailable, ResourceMove, ResourcePut,
    ResourceReserve,
};
pub use session::{AreaBody, SessionCancel, SessionCreate, SessionMap, SessionSearch, SessionSeats};

use crate::{form, quantity::Quantity};

/// Of `hello`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientHello {
    /// What the client calls itself.
    #[serde(default)]
    pub client: SmolStr,
    /// Who it is, where the server wants to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<SmolStr>,
    /// The customer it acts for, where the server wants to know.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<Id>,
    /// That customer's token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer_token: Option<SmolStr>,
}

/// Of `venue.get`, `title.get`, `session.get`, `product.get` and `resource.get`: the one with this id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Get {
    /// Its id.
    #[serde(with = "form")]
    pub id: Id,
}

/// How many of something one order and one customer may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsBody {
    /// In one order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_order: Option<Quantity>,
    /// By one customer, over everything that names the same quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_customer: Option<CustomerLimitBody>,
}

/// A limit over everything a customer has under one quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomerLimitBody {
    /// Which quota.
    #[serde(with = "form")]
    pub quota: Id,
    /// How many.
    pub max: Quantity,
}

impl LimitsBody {
    /// Whether nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == LimitsBody::default()
    }
}

impl From<Limits> for LimitsBody {
    fn from(Limits { per_order, per_customer }: Limits) -> LimitsBody {
        let per_customer =
            per_customer.map(|CustomerLimit { quota, max }| CustomerLimitBody { quota, max: max.into() });
        LimitsBody { per_order: per_order.map(Quantity::from), per_customer }
    }
}

/// Of `watch`: either of the first two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// What to follow: a session, a product, a resource, a cart or a customer.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub entity: Option<Entity>,
    /// Sessions to follow in counts only: a feed each.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Vec<Id>>,
    /// Of a cart: its token.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub token: Option<CartToken>,
    /// What the client has already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<ResumeBody>,
}

/// What a watcher has: an epoch and a version; of a customer the cursor of the last purchase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeBody {
    /// In which epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Which version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Up to which purchase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
}

impl ResumeBody {
    /// From this version on.
    pub fn version(Resume { epoch, version }: Resume) -> ResumeBody {
        ResumeBody { epoch: Some(epoch), version: Some(version), cursor: None }
    }

    /// From this purchase on.
    pub fn cursor(cursor: u64) -> ResumeBody {
        ResumeBody { epoch: None, version: None, cursor: Some(cursor) }
    }
}

/// A version a watcher has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    /// In which epoch.
    pub epoch: u64,
    /// Which version.
    pub version: u64,
}

/// Of `unwatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unwatch {
    /// Which feed.
    pub feed: u64,
}

/// Of `admin.status`, and of whatever else has no fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

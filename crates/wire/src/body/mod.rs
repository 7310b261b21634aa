//! The bodies of requests. Absent and `null` are the same. [`crate::Op::is_strict`] says whether unknown fields are refused
//! or ignored.

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
    portion::LINE_QUANTITY_MAX,
};
use smol_str::SmolStr;

pub use admin::{AdminInvite, AdminJoin, AdminLeave, AdminNode, AdminRelease, AdminSettle, Audit, History, KeyCreate};
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

use crate::{
    Rejection,
    limits::{CLIENT_NAME_BYTES_MAX, FEEDS_MAX},
    quantity::Quantity,
    repr::{repr_of, shape::shapes},
};

shapes! {
    #[derive(Default, Eq)]
    pub struct ClientHello {
        pub client??: SmolStr = 0..=CLIENT_NAME_BYTES_MAX,
        /// The operators' token or a key, if one is needed.
        pub token?: Option<SmolStr>,
        /// The customer that this connection acts for, if customers have tokens.
        pub customer?: Option<Id>,
        /// That customer's token.
        pub customer_token?: Option<SmolStr>,
    }

    #[derive(Eq)]
    pub struct Get {
        pub id: Id,
    }

    /// The limits of one order and of one customer.
    #[derive(Default, Eq)]
    pub struct LimitsBody as Limits {
        pub per_order?: Option<Quantity> = 1..=LINE_QUANTITY_MAX,
        pub per_customer?: Option<CustomerLimitBody>,
    }

    /// The limit of one customer, over everything that names the same quota.
    #[derive(Eq)]
    pub struct CustomerLimitBody as CustomerLimit {
        pub quota: Id,
        pub max: Quantity = 1..=LINE_QUANTITY_MAX,
    }

    #[derive(Default, Eq)]
    #[one_of([entity] [sessions])]
    pub struct Watch {
        pub entity?: Option<Entity>,
        /// Sessions to follow in counts only, each with a feed.
        pub sessions?: Option<Vec<Id>> = 1..=FEEDS_MAX,
        /// The token of the cart. Only its owner may watch a cart.
        pub token?: Option<CartToken>,
        pub resume?: Option<ResumeBody>,
    }

    /// The state that the watcher has.
    #[derive(Copy, Default, Eq)]
    #[one_of([epoch, version] [cursor])]
    pub struct ResumeBody as Resume {
        pub epoch?: Option<u64>,
        pub version?: Option<u64>,
        /// The cursor of a watch of a customer, instead of epoch and version.
        pub cursor?: Option<u64>,
    }

    #[derive(Copy, Eq)]
    pub struct Unwatch {
        pub feed: u64,
    }

    /// The body of ops that have no fields.
    #[derive(Copy, Default, Eq)]
    pub struct Empty {}
}

repr_of!(Limits: LimitsBody);

impl From<Limits> for LimitsBody {
    fn from(Limits { per_order, per_customer }: Limits) -> LimitsBody {
        let limit = |CustomerLimit { quota, max }: CustomerLimit| CustomerLimitBody { quota, max: max.into() };
        LimitsBody { per_order: per_order.map(Quantity::from), per_customer: per_customer.map(limit) }
    }
}

impl TryFrom<LimitsBody> for Limits {
    type Error = Rejection;

    fn try_from(LimitsBody { per_order, per_customer }: LimitsBody) -> Result<Limits, Rejection> {
        let limit = |CustomerLimitBody { quota, max }| {
            Ok::<_, Rejection>(CustomerLimit { quota, max: max.within_u32("max", 1, LINE_QUANTITY_MAX)? })
        };
        let per_order = per_order.map(|most| most.within_u32("per_order", 1, LINE_QUANTITY_MAX)).transpose()?;
        Ok(Limits { per_order, per_customer: per_customer.map(limit).transpose()? })
    }
}

impl ResumeBody {
    /// Continue after this version.
    pub fn version(Resume { epoch, version }: Resume) -> ResumeBody {
        ResumeBody { epoch: Some(epoch), version: Some(version), cursor: None }
    }

    /// Continue after this purchase.
    pub fn cursor(cursor: u64) -> ResumeBody {
        ResumeBody { epoch: None, version: None, cursor: Some(cursor) }
    }
}

/// The version that a watcher has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    pub epoch: u64,
    pub version: u64,
}

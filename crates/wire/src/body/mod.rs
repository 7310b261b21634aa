//! The ops, each with its body and the rule that makes a call of it. Absent and `null` are the same.
//! [`crate::Op::is_strict`] says whether unknown fields are refused or ignored.
//!
//! An op is a struct and a name in the list of [`crate::op`]. Everything else is made of the two.

mod admin;
mod batch;
mod cart;
mod catalogue;
mod code;
mod offer;
mod order;
mod product;
mod resource;
mod session;

use std::collections::BTreeSet;

use boxoffice_core::{
    command::{CustomerLimit, Limits},
    id::{CartToken, Entity, Id},
    portion::LINE_QUANTITY_MAX,
    refusal::Refusal,
};
use boxoffice_declare::{op, shape};
use smol_str::SmolStr;

pub use admin::{
    AdminBackup, AdminBackupRead, AdminCheckoutCancel, AdminDrain, AdminFinishUpgrade, AdminInvite, AdminJoin,
    AdminKeyRevoke, AdminKeys, AdminLeave, AdminMap, AdminNode, AdminNodes, AdminRelease, AdminRemove, AdminReplace,
    AdminSettle, AdminStatus, AdminUndrain, Audit, History, KeyCreate,
};
pub(crate) use batch::Batch;
pub use cart::*;
pub use catalogue::{HallGet, HallPut, Position, TitleGet, TitlePut, TitleSearch, VenueGet, VenuePut, VenueSearch};
pub use code::{CodeGet, CodePut};
pub use offer::{AllotmentBody, CounterBody, OfferBody, PriceTypeBody, TaxBody};
pub use order::{CustomerPurchases, OrderGet, OrderRefund};
pub use product::{ProductGet, ProductPut};
pub use resource::{
    RepeatBody, ResourceBookings, ResourceCancel, ResourceFreeSlots, ResourceGet, ResourceIsAvailable, ResourceMove,
    ResourcePut, ResourceReserve,
};
pub use session::{
    AreaBody, SessionBlock, SessionCancel, SessionChange, SessionCreate, SessionGet, SessionMap, SessionSearch,
    SessionSeats, SessionUnblock,
};

pub use crate::call::{PurchaseCursor, Resume};
use crate::{
    Rejection,
    call::{Call, HelloFields, Since},
    cluster::ShardMap,
    convert::{Converted, bytes_at_most},
    feed_kind::FeedKind,
    limits::{CLIENT_NAME_BYTES_MAX, FEEDS_MAX},
    quantity::Quantity,
    reply::{CountsWatching, Watching},
    repr::repr_of,
};

/// Who the client is.
#[op("hello", connection, roles(), weight(5), examples_need("a connection"), answers())]
#[example(r#"{"client": "box office 3"}"#)]
#[derive(Default, Eq)]
pub struct ClientHello {
    #[optional(written)]
    #[narrow(0..=CLIENT_NAME_BYTES_MAX)]
    pub client: SmolStr,
    /// The operators' token or a key, if one is needed.
    pub token: Option<SmolStr>,
    /// The customer that this connection acts for, if customers have tokens.
    pub customer: Option<Id>,
    /// That customer's token.
    pub customer_token: Option<SmolStr>,
}

impl ClientHello {
    fn command(self) -> Converted<Call> {
        bytes_at_most("client", self.client.len(), CLIENT_NAME_BYTES_MAX)?;
        let ClientHello { client, token, customer, customer_token } = self;
        Ok(Call::Hello(HelloFields { client, token, customer, customer_token }))
    }
}

/// The leader of each shard, and the address of each node for clients.
#[op("shards", inside, roles(Watch), venues(Unlimited), batch(Alone), weight(2), answers(ShardMap))]
#[example(r#"{}"#)]
pub struct Shards(pub Empty);

impl Shards {
    fn command(self) -> Converted<Call> {
        Ok(Call::Shards)
    }
}

/// The body of ops that name one thing.
#[shape(body)]
#[derive(Eq)]
pub struct Get {
    pub id: Id,
}

/// The limits of one order and of one customer.
#[shape("Limits")]
#[derive(Default, Eq)]
pub struct LimitsBody {
    #[within(1..=LINE_QUANTITY_MAX)]
    pub per_order: Option<Quantity>,
    pub per_customer: Option<CustomerLimitBody>,
}

/// The limit of one customer, over everything that names the same quota.
#[shape("CustomerLimit")]
#[derive(Eq)]
pub struct CustomerLimitBody {
    pub quota: Id,
    #[within(1..=LINE_QUANTITY_MAX)]
    pub max: Quantity,
}

/// Follow a session, product, resource, cart or customer, or the counts of a list of sessions.
#[op("watch", connection, roles(Watch), weight(4), examples_need("a connection"), answers(Watching, CountsWatching))]
#[example(r#"{"entity": "session/hamlet-tonight", "resume": {"epoch": 1, "version": 391}}"#)]
#[example(r#"{"entity": "product/programme"}"#)]
#[example(r#"{"entity": "cart/0f1e1892ba91625a7bb986fa704738a5", "token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"}"#)]
#[example(r#"{"entity": "customer/ada", "resume": {"epoch": 1, "cursor": 2}}"#)]
#[example(r#"{"sessions": ["hamlet-tonight", "hamlet-matinee"]}"#)]
#[derive(Default, Eq)]
#[one_of([entity] [sessions])]
pub struct Watch {
    pub entity: Option<Entity>,
    /// Sessions to follow in counts only, each with a feed.
    #[narrow(1..=FEEDS_MAX)]
    pub sessions: Option<Vec<Id>>,
    /// The token of the cart. Only its owner may watch a cart.
    pub token: Option<CartToken>,
    pub resume: Option<ResumeBody>,
}

impl Watch {
    /// A watch of a cart needs the cart's token.
    fn command(self) -> Converted<Call> {
        let entity = match (self.entity, self.sessions) {
            (Some(entity), None) => entity,
            (None, Some(sessions)) if self.token.is_none() && self.resume.is_none() => return counts_of(sessions),
            (None, Some(_)) => {
                return Err(Rejection::bad_request(
                    "counts of `sessions` have no `token`, and always begin with a snapshot",
                ));
            }
            (Some(_), Some(_)) | (None, None) => {
                return Err(Rejection::bad_request("what is watched is an `entity`, or `sessions`"));
            }
        };
        let Some(kind) = FeedKind::of(&entity) else {
            return Err(Rejection::bad_request("sessions, products, resources, carts and customers are watched"));
        };
        match (&entity, self.token) {
            (Entity::Cart(cart), Some(token)) if boxoffice_core::command::owns(token, *cart) => {}
            (Entity::Cart(_), Some(_)) => return Err(Refusal::NotYourCart.into()),
            (Entity::Cart(_), None) => return Err(Rejection::bad_request("a cart is watched with its `token`")),
            (
                Entity::Session(_)
                | Entity::Product(_)
                | Entity::Resource(_)
                | Entity::Customer(_)
                | Entity::Code(_)
                | Entity::Venue(_)
                | Entity::Directory
                | Entity::Cluster,
                _,
            ) => {}
        }
        let since = match (&entity, self.resume) {
            (_, None) => None,
            (Entity::Customer(_), Some(ResumeBody { epoch, version: None, cursor: Some(cursor) })) => {
                Some(Since::Cursor(PurchaseCursor { epoch, cursor }))
            }
            (Entity::Customer(_), Some(_)) => {
                return Err(Rejection::bad_request("`resume` of a customer has a `cursor`"));
            }
            (_, Some(ResumeBody { epoch: Some(epoch), version: Some(version), cursor: None })) => {
                Some(Since::Version(Resume { epoch, version }))
            }
            (_, Some(_)) => return Err(Rejection::bad_request("`resume` has an `epoch` and a `version`")),
        };
        Ok(Call::Watch { kind, entity, since })
    }
}

/// The sessions of a watch of counts, without repeats.
fn counts_of(mut sessions: Vec<Id>) -> Converted<Call> {
    if sessions.is_empty() || sessions.len() > FEEDS_MAX {
        return Err(Rejection::bad_request(format!("`sessions` are 1 to {FEEDS_MAX}")));
    }
    let mut seen = BTreeSet::new();
    sessions.retain(|session| seen.insert(session.clone()));
    Ok(Call::WatchCounts { sessions })
}

/// The state that the watcher has.
#[shape("Resume")]
#[derive(Copy, Default, Eq)]
#[one_of([epoch, version] [epoch, cursor] [cursor without epoch])]
pub struct ResumeBody {
    /// The epoch of the version or the cursor. In another one the watch begins anew.
    pub epoch: Option<u64>,
    pub version: Option<u64>,
    /// The cursor of a watch of a customer, instead of a version. Without its epoch, purchases that a restored cluster has in place of
    /// lost ones may be missed.
    pub cursor: Option<u64>,
}

/// End a feed.
#[op("unwatch", connection, roles(Watch), weight(1), examples_need("a connection"), answers())]
#[example(r#"{"feed": 3}"#)]
#[derive(Copy, Eq)]
pub struct Unwatch {
    pub feed: u64,
}

impl Unwatch {
    fn command(self) -> Converted<Call> {
        Ok(Call::Unwatch { feed: self.feed })
    }
}

/// The body of ops that have no fields.
#[shape]
#[derive(Copy, Default, Eq)]
pub struct Empty {}

repr_of!(Limits: LimitsBody);

impl From<Limits> for LimitsBody {
    fn from(Limits { per_order, per_customer }: Limits) -> LimitsBody {
        let limit = |CustomerLimit { quota, max }: CustomerLimit| CustomerLimitBody { quota, max: max.into() };
        LimitsBody { per_order: per_order.map(Quantity::from), per_customer: per_customer.map(limit) }
    }
}

/// Bounds are checked in requests only, so an answer may have any number of 32 bits.
impl TryFrom<LimitsBody> for Limits {
    type Error = Rejection;

    fn try_from(LimitsBody { per_order, per_customer }: LimitsBody) -> Result<Limits, Rejection> {
        let limit =
            |CustomerLimitBody { quota, max }| Ok::<_, Rejection>(CustomerLimit { quota, max: max.try_into()? });
        let per_order = per_order.map(u32::try_from).transpose()?;
        Ok(Limits { per_order, per_customer: per_customer.map(limit).transpose()? })
    }
}

impl ResumeBody {
    /// Continue after this version.
    pub fn version(Resume { epoch, version }: Resume) -> ResumeBody {
        ResumeBody { epoch: Some(epoch), version: Some(version), cursor: None }
    }

    /// Continue after this purchase.
    pub fn cursor(PurchaseCursor { epoch, cursor }: PurchaseCursor) -> ResumeBody {
        ResumeBody { epoch, version: None, cursor: Some(cursor) }
    }
}

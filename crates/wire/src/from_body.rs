//! The bodies of the server's frames that a client can read.
//!
//! Reading a type takes much code, so each is compiled here and not in every crate that reads it.

use boxoffice_core::{
    answer::{
        At, CartAudit, CartView, CustomerAudit, HallView, Held, MapView, ProductAudit, ProductView, PurchasesPage,
        ResourceAudit, ResourceView, SessionAudit, SessionView, TitleView, VenueView, VenuesPage,
    },
    payment::RefundRecord,
};

use crate::{
    Encoding, Fail,
    access::KeyList,
    city::CityPage,
    cluster::{ClusterStatus, ShardMap},
    decode,
    feed::{
        CartDelta, CartSnapshot, CountsDelta, CountsSnapshot, Delta, Ended, ProductDelta, ProductSnapshot,
        PurchasesDelta, PurchasesSnapshot, ResourceDelta, ResourceSnapshot, Snapshot,
    },
    hello::Hello,
    raw,
    rejection::FailRepr,
    reply::{
        Available, BookingPage, CountsWatching, FreeSlots, No, OrderView, Reply, ServerFrame, SessionPage, ThreeStates,
        TitlePage, Unreadable, Watching,
    },
    repr::FromWire,
    status::{HistoryPage, NodeAudit, NodeStatus},
};

/// A body of a frame of the server.
pub trait FromBody: Sized {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Unreadable`] if it is another body.
    fn from_body(encoding: Encoding, body: &[u8]) -> Result<Self, Unreadable>;
}

macro_rules! bodies {
    ($($body:ty),+ $(,)?) => {$(
        impl FromBody for $body {
            fn from_body(encoding: Encoding, body: &[u8]) -> Result<$body, Unreadable> {
                decode::read(encoding, body).map(|FromWire(value)| value).map_err(Unreadable)
            }
        }
    )+};
}

bodies! {
    Available, BookingPage, CartAudit, CartDelta, CartSnapshot, CartView, CityPage, ClusterStatus, CountsDelta,
    CountsSnapshot, CountsWatching, CustomerAudit, Delta, Ended, FreeSlots, HallView, Held, HistoryPage, KeyList,
    MapView, No, NodeAudit, NodeStatus, OrderView, ProductAudit, ProductDelta, ProductSnapshot, ProductView,
    PurchasesDelta, PurchasesPage, PurchasesSnapshot, RefundRecord, ResourceAudit, ResourceDelta, ResourceSnapshot,
    ResourceView, SessionAudit, SessionPage, SessionView, ShardMap, Snapshot, ThreeStates, TitlePage, TitleView,
    Vec<At>, VenueView, VenuesPage, Watching,
}

impl FromBody for Fail {
    fn from_body(encoding: Encoding, body: &[u8]) -> Result<Fail, Unreadable> {
        decode::read::<FailRepr>(encoding, body).map(Fail::from).map_err(Unreadable)
    }
}

impl FromBody for Hello {
    fn from_body(encoding: Encoding, body: &[u8]) -> Result<Hello, Unreadable> {
        decode::read(encoding, body).map_err(Unreadable)
    }
}

/// Done. Any fields are ignored.
impl FromBody for () {
    fn from_body(encoding: Encoding, body: &[u8]) -> Result<(), Unreadable> {
        raw::fields(encoding, body, |_, _| Ok(())).map_err(Unreadable::from)
    }
}

/// The answer of `batch`: one for each item, all of one type.
impl<T: FromBody> FromBody for Vec<Reply<T>> {
    fn from_body(encoding: Encoding, body: &[u8]) -> Result<Vec<Reply<T>>, Unreadable> {
        let mut list = None;
        raw::fields(encoding, body, |name, value| {
            if name == "items" {
                list = Some(value);
            }
            Ok(())
        })?;
        let list = list.ok_or_else(|| Unreadable("`items` is missing".into()))?;
        let mut replies = Vec::new();
        raw::elements(encoding, list, |element| {
            let reply = match ServerFrame::read(encoding, element) {
                Ok(ServerFrame::Answer(_, verdict, _)) => verdict.read(encoding),
                Ok(_) => Err(Unreadable("an item is no answer".into())),
                Err(unreadable) => Err(unreadable),
            };
            replies.push(reply);
            Ok(())
        })?;
        replies.into_iter().collect()
    }
}

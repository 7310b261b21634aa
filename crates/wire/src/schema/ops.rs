//! The ops with their bodies, answers and HTTP methods.

use boxoffice_core::{
    answer::{
        CartAudit, CartView, CustomerAudit, HallView, Held, MapView, ProductAudit, ProductView, PurchasesPage,
        ResourceAudit, ResourceView, SessionAudit, SessionView, TitleView, VenueView, VenuesPage,
    },
    payment::RefundRecord,
};
use serde_json::Value;

use super::{
    HttpMethods,
    batch::{Batch, BatchAnswer},
};
use crate::{
    Op,
    access::KeyList,
    body,
    city::CityPage,
    cluster::{ClusterStatus, ShardMap},
    reply,
    repr::order::OrderView,
    repr::{WireRepr, shape::Shapes},
    status::{HistoryPage, NodeAudit, NodeStatus},
};

/// Returns the schema of a type.
pub(super) type Schema = fn(&mut Shapes) -> Value;

/// An op.
pub(super) struct Entry {
    pub(super) summary: &'static str,
    pub(super) request: Schema,
    /// The possible answers. Without any, the answer is empty.
    pub(super) answers: Vec<Schema>,
    pub(super) methods: HttpMethods,
    pub(super) examples_need: Option<&'static str>,
}

/// What the examples of the ops about members need, since one node alone cannot be drained.
const SEVERAL: &str = "a cluster of several nodes";

pub(super) fn entry(op: Op) -> Entry {
    let entry = match op {
        Op::Hello => asks::<body::ClientHello>("Who the client is.").on_sockets_only(),
        Op::Shards => {
            asks::<body::Empty>("Who leads which shard, and where clients reach each node.").answers::<ShardMap>()
        }
        Op::VenuePut => asks::<body::VenuePut>("Create or change a venue."),
        Op::VenueGet => asks::<body::Get>("Read a venue.").answers::<VenueView>(),
        Op::VenueSearch => asks::<body::VenueSearch>("Venues by city and name; nearest first, if it is said to what.")
            .answers::<VenuesPage>(),
        Op::HallPut => asks::<body::HallPut>("Create or change a hall."),
        Op::HallGet => asks::<body::HallGet>("Read a hall.").answers::<HallView>(),
        Op::TitlePut => asks::<body::TitlePut>("Create or change a title."),
        Op::TitleGet => asks::<body::Get>("Read a title.").answers::<TitleView>(),
        Op::TitleSearch => asks::<body::TitleSearch>("Titles by name.").answers::<reply::TitlePage>(),
        Op::SessionCreate => {
            asks::<body::SessionCreate>("Create a session; it has the hall for its time.").answers::<SessionView>()
        }
        Op::SessionGet => asks::<body::Get>("Read a session.").answers::<SessionView>(),
        Op::SessionSearch => asks::<body::SessionSearch>("Sessions of a venue, or of all venues of a city, by start.")
            .answers::<reply::SessionPage>()
            .answers::<CityPage>(),
        Op::SessionMap => asks::<body::SessionMap>("The state of every seat of a session.")
            .answers::<MapView>()
            .answers::<reply::ThreeStates>(),
        Op::SessionBlock => asks::<body::SessionSeats>("Keep seats off sale."),
        Op::SessionUnblock => asks::<body::SessionSeats>("Put seats back on sale."),
        Op::SessionCancel => {
            asks::<body::SessionCancel>("It will not take place: holds are given back, orders refunded.")
        }
        Op::ProductPut => asks::<body::ProductPut>("Create or change a product.").answers::<ProductView>(),
        Op::ProductGet => asks::<body::Get>("Read a product with its counts.").answers::<ProductView>(),
        Op::ResourcePut => asks::<body::ResourcePut>("Create or change a resource.").answers::<ResourceView>(),
        Op::ResourceGet => asks::<body::Get>("Read a resource.").answers::<ResourceView>(),
        Op::ResourceReserve => asks::<body::ResourceReserve>(
            "Book time of a resource without a cart, once or again and again; all of it or nothing.",
        )
        .answers::<reply::BookingPage>(),
        Op::ResourceCancel => asks::<body::ResourceCancel>("End a booking, or all bookings of a series."),
        Op::ResourceMove => {
            asks::<body::ResourceMove>("Put a booking to another time.").answers::<reply::BookingPage>()
        }
        Op::ResourceIsAvailable => asks::<body::ResourceIsAvailable>("Whether a time is free, and what is in the way.")
            .answers::<reply::Available>(),
        Op::ResourceBookings => {
            asks::<body::ResourceBookings>("The bookings of a time, those in carts and those that were bought as well.")
                .answers::<reply::BookingPage>()
        }
        Op::ResourceFreeSlots => {
            asks::<body::ResourceFreeSlots>("The first free slots of a length.").answers::<reply::FreeSlots>()
        }
        Op::CartOpen => asks::<body::CartOpen>("Open a cart.").answers::<CartView>(),
        Op::CartGet => asks::<body::CartOnly>("Read a cart.").answers::<CartView>(),
        Op::CartHoldSeats => asks::<body::HoldSeats>("Hold named seats.").answers::<Held>(),
        Op::CartHoldBest => asks::<body::HoldBest>("Hold the best seats there are.").answers::<Held>(),
        Op::CartHoldPlaces => asks::<body::HoldPlaces>("Hold places in an area.").answers::<Held>(),
        Op::CartHoldStock => asks::<body::HoldStock>("Hold units of a product.").answers::<Held>(),
        Op::CartHoldSlot => asks::<body::HoldSlot>("Hold time of a resource.").answers::<Held>(),
        Op::CartHoldAll => asks::<body::HoldAll>("Hold several lines, all or none.").answers::<Held>(),
        Op::CartSetQuantity => {
            asks::<body::SetQuantity>("Hold more or less of a line of places or units.").answers::<CartView>()
        }
        Op::CartRelease => asks::<body::Release>("Give a line, or seats of it, back.").answers::<CartView>(),
        Op::CartCancel => asks::<body::CartOnly>("Give everything back.").answers::<CartView>(),
        Op::CartCheckout => asks::<body::Checkout>("Buy what the cart holds.").answers::<OrderView>(),
        Op::OrderGet => asks::<body::OrderGet>("Read an order.").answers::<OrderView>(),
        Op::OrderRefund => asks::<body::OrderRefund>("Pay lines of an order back and put them on sale again.")
            .answers::<RefundRecord>(),
        Op::CustomerPurchases => {
            asks::<body::CustomerPurchases>("The orders of a customer.").answers::<PurchasesPage>()
        }
        Op::Watch => asks::<body::Watch>(
            "Follow a session, a product, a resource, a cart or a customer; or a list of sessions, in counts only.",
        )
        .answers::<reply::Watching>()
        .answers::<reply::CountsWatching>()
        .on_sockets_only(),
        Op::Unwatch => asks::<body::Unwatch>("Follow it no longer.").on_sockets_only(),
        Op::Batch => {
            let batch = asks::<Batch>("Several commands at once, each answered by itself.").answers::<BatchAnswer>();
            Entry { methods: HttpMethods::Post, ..batch }
        }
        Op::AdminStatus => asks::<body::Empty>("How the node is.").answers::<NodeStatus>(),
        Op::AdminAudit => asks::<body::Audit>(
            "What a session, a cart, a product, a resource, a customer or the whole node holds, counted afresh.",
        )
        .answers::<NodeAudit>()
        .answers::<SessionAudit>()
        .answers::<CartAudit>()
        .answers::<ProductAudit>()
        .answers::<ResourceAudit>()
        .answers::<CustomerAudit>(),
        Op::AdminHistory => asks::<body::History>(
            "What happened to an entity, or to one of its seats: the newest page first, in it the oldest first.",
        )
        .answers::<HistoryPage>(),
        Op::AdminRelease => asks::<body::AdminRelease>("Release a line of a cart.").answers::<CartView>(),
        Op::AdminSettle => asks::<body::AdminSettle>(
            "Say how a step of an attempt to pay ended, of which the gateway tells nothing or that it failed.",
        )
        .needing("a payment attempt whose outcome is unknown"),
        Op::AdminNodes => asks::<body::Empty>("The members of the cluster, and where each shard should be.")
            .answers::<ClusterStatus>()
            .needing(SEVERAL),
        Op::AdminJoin => asks::<body::AdminJoin>(
            "Become a member of the cluster; asked again by the same disk, it is the same member.",
        )
        .answers::<ClusterStatus>()
        .needing(SEVERAL),
        Op::AdminDrain => {
            asks::<body::AdminLeave>("Move everything away from a member; it goes when it has nothing left.")
                .needing(SEVERAL)
        }
        Op::AdminUndrain => {
            asks::<body::AdminNode>("Let a member that is drained keep what it has, and get more.").needing(SEVERAL)
        }
        Op::AdminRemove => asks::<body::AdminLeave>(
            "Say that a member will not come back. Its shards are copied anew; its id is never given again.",
        )
        .needing(SEVERAL),
        Op::AdminReplace => asks::<body::AdminNode>(
            "Say that a member has lost its disk; a machine with another one joins in its place, under its id.",
        )
        .needing(SEVERAL),
        Op::AdminKeys => asks::<body::Empty>("Every key: its name and what it may do.").answers::<KeyList>(),
        Op::AdminKeyCreate => asks::<body::KeyCreate>(
            "Make a key. Its owner shows `bok.ID.SECRET`; the cluster is told only the hash of the secret.",
        ),
        Op::AdminKeyRevoke => asks::<body::Get>("Revoke a key: every node refuses it within a second."),
    };
    // Changes cannot be requested by `GET`.
    if op.changes() && entry.methods == HttpMethods::PostAndGet {
        Entry { methods: HttpMethods::Post, ..entry }
    } else {
        entry
    }
}

/// An op with this body.
fn asks<T: WireRepr>(summary: &'static str) -> Entry {
    Entry { summary, request: T::schema, answers: Vec::new(), methods: HttpMethods::PostAndGet, examples_need: None }
}

impl Entry {
    fn answers<T: WireRepr>(mut self) -> Entry {
        self.answers.push(T::schema);
        self
    }

    fn on_sockets_only(self) -> Entry {
        Entry { methods: HttpMethods::None, examples_need: Some("a connection"), ..self }
    }

    fn needing(self, what: &'static str) -> Entry {
        Entry { examples_need: Some(what), ..self }
    }
}

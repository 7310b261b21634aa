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
    cluster::{ClusterStatus, InvitationStatus, ShardMap},
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

/// The need of the examples of ops about members, since one node alone cannot be drained.
const SEVERAL: &str = "a cluster of several nodes";

pub(super) fn entry(op: Op) -> Entry {
    let entry = match op {
        Op::Hello => asks::<body::ClientHello>("Who the client is.").on_sockets_only(),
        Op::Shards => asks::<body::Empty>("The leader of each shard, and the address of each node for clients.")
            .answers::<ShardMap>(),
        Op::VenuePut => asks::<body::VenuePut>("Create or change a venue."),
        Op::VenueGet => asks::<body::Get>("Read a venue.").answers::<VenueView>(),
        Op::VenueSearch => {
            asks::<body::VenueSearch>("Venues by city and name, or nearest first.").answers::<VenuesPage>()
        }
        Op::HallPut => asks::<body::HallPut>("Create or change a hall."),
        Op::HallGet => asks::<body::HallGet>("Read a hall.").answers::<HallView>(),
        Op::TitlePut => asks::<body::TitlePut>("Create or change a title."),
        Op::TitleGet => asks::<body::Get>("Read a title.").answers::<TitleView>(),
        Op::TitleSearch => asks::<body::TitleSearch>("Titles by name.").answers::<reply::TitlePage>(),
        Op::SessionCreate => {
            asks::<body::SessionCreate>("Create a session. It occupies the hall for its time.").answers::<SessionView>()
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
        Op::SessionCancel => asks::<body::SessionCancel>("Cancel a session: holds are released, orders refunded."),
        Op::ProductPut => asks::<body::ProductPut>("Create or change a product.").answers::<ProductView>(),
        Op::ProductGet => asks::<body::Get>("Read a product with its counts.").answers::<ProductView>(),
        Op::ResourcePut => asks::<body::ResourcePut>("Create or change a resource.").answers::<ResourceView>(),
        Op::ResourceGet => asks::<body::Get>("Read a resource.").answers::<ResourceView>(),
        Op::ResourceReserve => {
            asks::<body::ResourceReserve>("Book time of a resource without a cart, once or repeatedly, all or none.")
                .answers::<reply::BookingPage>()
        }
        Op::ResourceCancel => {
            asks::<body::ResourceCancel>("End a booking by its name, a cart's too, or all bookings of a series.")
        }
        Op::ResourceMove => {
            asks::<body::ResourceMove>("Move a booking to another time.").answers::<reply::BookingPage>()
        }
        Op::ResourceIsAvailable => {
            asks::<body::ResourceIsAvailable>("Whether a time is free, and the conflicts if not.")
                .answers::<reply::Available>()
        }
        Op::ResourceBookings => {
            asks::<body::ResourceBookings>("The bookings that overlap a time, held and bought ones.")
                .answers::<reply::BookingPage>()
        }
        Op::ResourceFreeSlots => {
            asks::<body::ResourceFreeSlots>("The first free slots of a length.").answers::<reply::FreeSlots>()
        }
        Op::CartOpen => asks::<body::CartOpen>("Open a cart.").answers::<CartView>(),
        Op::CartGet => asks::<body::CartOnly>("Read a cart.").answers::<CartView>(),
        Op::CartHoldSeats => asks::<body::HoldSeats>("Hold named seats.").answers::<Held>(),
        Op::CartHoldBest => asks::<body::HoldBest>("Hold the best free seats.").answers::<Held>(),
        Op::CartHoldPlaces => asks::<body::HoldPlaces>("Hold places in an area.").answers::<Held>(),
        Op::CartHoldStock => asks::<body::HoldStock>("Hold units of a product.").answers::<Held>(),
        Op::CartHoldSlot => asks::<body::HoldSlot>("Hold time of a resource.").answers::<Held>(),
        Op::CartHoldAll => asks::<body::HoldAll>("Hold several lines, all or none.").answers::<Held>(),
        Op::CartSetQuantity => {
            asks::<body::SetQuantity>("Change the quantity of a line of places or units.").answers::<CartView>()
        }
        Op::CartRelease => asks::<body::Release>("Release a line, or seats of it.").answers::<CartView>(),
        Op::CartCancel => asks::<body::CartOnly>("Release everything and end the cart.").answers::<CartView>(),
        Op::CartCheckout => asks::<body::Checkout>("Buy what the cart holds.").answers::<OrderView>(),
        Op::OrderGet => asks::<body::OrderGet>("Read an order.").answers::<OrderView>(),
        Op::OrderRefund => {
            asks::<body::OrderRefund>("Refund lines of an order and put them on sale again.").answers::<RefundRecord>()
        }
        Op::CustomerPurchases => {
            asks::<body::CustomerPurchases>("The orders of a customer.").answers::<PurchasesPage>()
        }
        Op::Watch => asks::<body::Watch>(
            "Follow a session, product, resource, cart or customer, or the counts of a list of sessions.",
        )
        .answers::<reply::Watching>()
        .answers::<reply::CountsWatching>()
        .on_sockets_only(),
        Op::Unwatch => asks::<body::Unwatch>("End a feed.").on_sockets_only(),
        Op::Batch => {
            let batch = asks::<Batch>("Several commands at once, each with its own answer.").answers::<BatchAnswer>();
            Entry { methods: HttpMethods::Post, ..batch }
        }
        Op::AdminStatus => asks::<body::Empty>("The status of the node.").answers::<NodeStatus>(),
        Op::AdminAudit => asks::<body::Audit>(
            "A fresh count of what a session, cart, product, resource, customer or the whole node holds.",
        )
        .answers::<NodeAudit>()
        .answers::<SessionAudit>()
        .answers::<CartAudit>()
        .answers::<ProductAudit>()
        .answers::<ResourceAudit>()
        .answers::<CustomerAudit>(),
        Op::AdminHistory => asks::<body::History>(
            "The events of an entity or of one of its seats. The newest page comes first, with its oldest entry first.",
        )
        .answers::<HistoryPage>(),
        Op::AdminRelease => asks::<body::AdminRelease>("Release a line of a cart.").answers::<CartView>(),
        Op::AdminSettle => asks::<body::AdminSettle>(
            "Settle a step of a payment whose outcome the gateway does not tell, or that failed.",
        )
        .needing("a payment attempt whose outcome is unknown"),
        Op::AdminNodes => asks::<body::Empty>("The members of the cluster, and the wanted place of each shard.")
            .answers::<ClusterStatus>()
            .needing(SEVERAL),
        Op::AdminJoin => asks::<body::AdminJoin>("Join the cluster. A repeat by the same disk is the same member.")
            .answers::<ClusterStatus>()
            .needing(SEVERAL),
        Op::AdminInvite => asks::<body::AdminInvite>(
            "Invite one machine to join. The answer has what the machine needs, the secret of the nodes too.",
        )
        .answers::<InvitationStatus>()
        .needing(SEVERAL),
        Op::AdminDrain => {
            asks::<body::AdminLeave>("Move everything away from a member. It leaves when it has nothing left.")
                .needing(SEVERAL)
        }
        Op::AdminUndrain => {
            asks::<body::AdminNode>("End the draining of a member. It keeps its replicas and gets more.")
                .needing(SEVERAL)
        }
        Op::AdminRemove => asks::<body::AdminLeave>(
            "Remove a member that will not come back. Its shards are copied anew, and its id is not used again.",
        )
        .needing(SEVERAL),
        Op::AdminReplace => asks::<body::AdminNode>(
            "Declare the disk of a member lost. A machine with another disk joins in its place, under its id.",
        )
        .needing(SEVERAL),
        Op::AdminKeys => asks::<body::Empty>("All keys, with their names and roles.").answers::<KeyList>(),
        Op::AdminKeyCreate => asks::<body::KeyCreate>(
            "Make a key. Its owner shows `bok.ID.SECRET`. The cluster keeps only the hash of the secret.",
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

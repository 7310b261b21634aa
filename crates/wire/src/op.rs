//! The ops of the protocol.

use boxoffice_core::access::{Role, Roles};

/// Makes [`Op`] from its table: variant, name on the wire, whether it changes something, and its roles.
macro_rules! ops {
    ($($(#[$doc:meta])* $op:ident $name:literal $effect:ident [$($role:ident),*],)*) => {
        /// An operation of the protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Op {
            $($(#[$doc])* $op,)*
        }

        impl Op {
            /// Every op, in the order of the protocol's table.
            pub const ALL: [Op; [$($name),*].len()] = [$(Op::$op),*];

            /// Its name on the wire.
            pub fn name(self) -> &'static str {
                match self {
                    $(Op::$op => $name,)*
                }
            }

            /// The op with this name.
            pub fn from_name(name: &str) -> Option<Op> {
                // A match is faster than a search, and every frame needs it.
                match name {
                    $($name => Some(Op::$op),)*
                    _ => None,
                }
            }

            /// Whether it changes something, and so needs a request id.
            pub fn changes(self) -> bool {
                match self {
                    $(Op::$op => ops!(@ $effect),)*
                }
            }

            /// The roles of which a caller needs one. Empty if every caller may use the op. A role includes others.
            pub fn needs(self) -> &'static [Role] {
                match self {
                    $(Op::$op => &[$(Role::$role),*],)*
                }
            }

            /// Whether a caller with these roles may use the op.
            pub fn is_open_to(self, roles: Roles) -> bool {
                let needed = self.needs();
                needed.is_empty() || needed.iter().any(|role| roles.has(*role))
            }
        }
    };
    (@ changes) => { true };
    (@ reads) => { false };
}

ops! {
    /// Who the client is; its first frame.
    Hello "hello" reads [],
    /// The leader of each shard, and the address of each node for clients.
    Shards "shards" reads [Watch],
    /// Create or change a venue.
    VenuePut "venue.put" changes [Desk],
    /// Read a venue.
    VenueGet "venue.get" reads [Watch],
    /// Venues by city and name, or by distance.
    VenueSearch "venue.search" reads [Watch],
    /// Create or change a hall.
    HallPut "hall.put" changes [Desk],
    /// Read a hall with its layout.
    HallGet "hall.get" reads [Watch],
    /// Create or change a title.
    TitlePut "title.put" changes [Desk],
    /// Read a title.
    TitleGet "title.get" reads [Watch],
    /// Titles by name.
    TitleSearch "title.search" reads [Watch],
    /// Create a session.
    SessionCreate "session.create" changes [Desk],
    /// Read a session with its layout.
    SessionGet "session.get" reads [Watch],
    /// Sessions of a venue or of a city, by start.
    SessionSearch "session.search" reads [Watch],
    /// The state of every seat of a session.
    SessionMap "session.map" reads [Watch],
    /// Keep seats off sale.
    SessionBlock "session.block" changes [Desk],
    /// Put seats back on sale.
    SessionUnblock "session.unblock" changes [Desk],
    /// It will not take place.
    SessionCancel "session.cancel" changes [Desk],
    /// Create or change a product.
    ProductPut "product.put" changes [Desk],
    /// Read a product with its counts.
    ProductGet "product.get" reads [Watch],
    /// Create or change a resource.
    ResourcePut "resource.put" changes [Desk],
    /// Read a resource.
    ResourceGet "resource.get" reads [Watch],
    /// Book time of a resource without a cart, once or again and again.
    ResourceReserve "resource.reserve" changes [Desk],
    /// End a booking or a series.
    ResourceCancel "resource.cancel" changes [Desk],
    /// Move a booking to another time.
    ResourceMove "resource.move" changes [Desk],
    /// Whether a time is free, and the conflicts if not.
    ResourceIsAvailable "resource.is_available" reads [Watch],
    /// The bookings of a time.
    ResourceBookings "resource.bookings" reads [Watch],
    /// The first free slots of a length.
    ResourceFreeSlots "resource.free_slots" reads [Watch],
    /// Open a cart.
    CartOpen "cart.open" changes [Sell],
    /// Read a cart.
    CartGet "cart.get" reads [Sell],
    /// Hold named seats.
    CartHoldSeats "cart.hold_seats" changes [Sell],
    /// Hold the best free seats.
    CartHoldBest "cart.hold_best" changes [Sell],
    /// Hold places in an area.
    CartHoldPlaces "cart.hold_places" changes [Sell],
    /// Hold units of a product.
    CartHoldStock "cart.hold_stock" changes [Sell],
    /// Hold time of a resource.
    CartHoldSlot "cart.hold_slot" changes [Sell],
    /// Hold several lines, all or none.
    CartHoldAll "cart.hold_all" changes [Sell],
    /// Hold more or less of a line.
    CartSetQuantity "cart.set_quantity" changes [Sell],
    /// Release a line, or seats of it.
    CartRelease "cart.release" changes [Sell],
    /// Release everything and end the cart.
    CartCancel "cart.cancel" changes [Sell],
    /// Buy what the cart holds.
    CartCheckout "cart.checkout" changes [Sell],
    /// Read an order.
    OrderGet "order.get" reads [Sell, Report],
    /// Refund lines of an order and put them on sale again.
    OrderRefund "order.refund" changes [Desk],
    /// The orders of a customer.
    CustomerPurchases "customer.purchases" reads [Sell, Report],
    /// Follow an entity.
    Watch "watch" reads [Watch],
    /// End a feed.
    Unwatch "unwatch" reads [Watch],
    /// Several commands in one frame.
    Batch "batch" reads [Desk],
    /// The status of the node.
    AdminStatus "admin.status" reads [Report],
    /// What an entity, or the whole node, holds, counted afresh.
    AdminAudit "admin.audit" reads [Desk, Report],
    /// What happened to an entity, or to one of its seats.
    AdminHistory "admin.history" reads [Desk, Report],
    /// Release a line of a cart.
    AdminRelease "admin.release" changes [Desk],
    /// Say how an attempt to pay ended.
    AdminSettle "admin.settle" changes [Desk],
    /// The members of the cluster, and where shards should be.
    AdminNodes "admin.nodes" reads [Report],
    /// Become a member of the cluster.
    AdminJoin "admin.join" changes [Admin],
    /// Invite a machine to become a member.
    AdminInvite "admin.invite" changes [Admin],
    /// Move everything away from a member.
    AdminDrain "admin.drain" changes [Admin],
    /// Let a member that is drained keep what it has.
    AdminUndrain "admin.undrain" changes [Admin],
    /// Say that a member will not come back.
    AdminRemove "admin.remove" changes [Admin],
    /// Say that a member has lost its disk.
    AdminReplace "admin.replace" changes [Admin],
    /// Every key.
    AdminKeys "admin.keys" reads [Admin],
    /// Make a key.
    AdminKeyCreate "admin.key_create" changes [Admin],
    /// Revoke a key.
    AdminKeyRevoke "admin.key_revoke" changes [Admin],
}

impl Op {
    /// Whether unknown fields are refused. Changes refuse them, so that nothing in a request is dropped silently. Reads ignore
    /// them.
    pub fn is_strict(self) -> bool {
        self.changes() || self == Op::Batch
    }

    /// Whether its frames may be as long as importers need.
    pub fn is_for_importers(self) -> bool {
        matches!(self, Op::Batch | Op::HallPut | Op::ProductPut | Op::ResourcePut)
    }
}

//! The ops of the protocol.

use boxoffice_core::access::{Role, Roles};

use crate::permission::{BatchRule, Exception, OwnerRule, Permission, VenueRule};

/// Makes [`Op`] from its table: variant, name on the wire, whether it changes something, its row of the permission table, and
/// its weight.
/// An op that leaves out a part of its row does not compile.
macro_rules! ops {
    ($($(#[$doc:meta])* $op:ident $name:literal $effect:ident [$($role:ident),*] $(or $exception:ident)?
        owner($owner:ident) venues($venues:ident) batch($batch:ident) weight($weight:literal),)*) => {
        /// An operation of the protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Op {
            $($(#[$doc])* $op,)*
        }

        impl Op {
            /// Every op, in the order of the protocol's table.
            pub const ALL: [Op; [$($name),*].len()] = [$(Op::$op),*];

            /// Its name on the wire.
            pub const fn name(self) -> &'static str {
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

            /// The processor time of its smallest request over that of `cart.get`, about, as `tests/prices.py` measures it.
            /// Budgets charge this, and more by size ([`crate::weight`]).
            pub const fn weight(self) -> u32 {
                match self {
                    $(Op::$op => $weight,)*
                }
            }

            /// What a caller needs for the op.
            pub const fn permission(self) -> Permission {
                match self {
                    $(Op::$op => Permission {
                        roles: &[$(Role::$role),*],
                        or: &[$(Exception::$exception)?],
                        owner: OwnerRule::$owner,
                        venues: VenueRule::$venues,
                        batch: BatchRule::$batch,
                    },)*
                }
            }
        }
    };
    (@ changes) => { true };
    (@ reads) => { false };
}

ops! {
    /// Who the client is; its first frame.
    Hello "hello" reads [] owner(Nobody) venues(Unlimited) batch(Alone) weight(2),
    /// The leader of each shard, and the address of each node for clients.
    Shards "shards" reads [Watch] owner(Nobody) venues(Unlimited) batch(Alone) weight(2),
    /// Create or change a venue.
    VenuePut "venue.put" changes [Desk] owner(Nobody) venues(OfEntity) batch(Item) weight(15),
    /// Read a venue.
    VenueGet "venue.get" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item) weight(1),
    /// Venues by city and name, or by distance.
    VenueSearch "venue.search" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item) weight(3),
    /// Create or change a hall.
    HallPut "hall.put" changes [Desk] owner(Nobody) venues(OfEntity) batch(Item) weight(15),
    /// Read a hall with its layout.
    HallGet "hall.get" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item) weight(3),
    /// Create or change a title.
    TitlePut "title.put" changes [Desk] owner(Nobody) venues(Refused) batch(Item) weight(15),
    /// Read a title.
    TitleGet "title.get" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item) weight(1),
    /// Titles by name.
    TitleSearch "title.search" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item) weight(4),
    /// Create a session.
    SessionCreate "session.create" changes [Desk] owner(Nobody) venues(OfEntity) batch(Item) weight(20),
    /// Read a session with its layout.
    SessionGet "session.get" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item) weight(8),
    /// Sessions of a venue or of a city, by start.
    SessionSearch "session.search" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item) weight(4),
    /// The state of every seat of a session.
    SessionMap "session.map" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item) weight(3),
    /// Keep seats off sale.
    SessionBlock "session.block" changes [Desk] owner(Nobody) venues(OfEntity) batch(Item) weight(12),
    /// Put seats back on sale.
    SessionUnblock "session.unblock" changes [Desk] owner(Nobody) venues(OfEntity) batch(Item) weight(12),
    /// It will not take place.
    SessionCancel "session.cancel" changes [Desk] owner(Nobody) venues(OfEntity) batch(Item) weight(20),
    /// Create or change a product.
    ProductPut "product.put" changes [Desk] owner(Nobody) venues(Refused) batch(Item) weight(15),
    /// Read a product with its counts.
    ProductGet "product.get" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item) weight(1),
    /// Create or change a resource.
    ResourcePut "resource.put" changes [Desk] owner(Nobody) venues(Refused) batch(Item) weight(15),
    /// Read a resource.
    ResourceGet "resource.get" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item) weight(1),
    /// Book time of a resource without a cart, once or again and again.
    ResourceReserve "resource.reserve" changes [Desk] owner(Nobody) venues(Refused) batch(Item) weight(12),
    /// End a booking or a series.
    ResourceCancel "resource.cancel" changes [Desk] owner(Nobody) venues(Refused) batch(Item) weight(12),
    /// Move a booking to another time.
    ResourceMove "resource.move" changes [Desk] owner(Nobody) venues(Refused) batch(Item) weight(12),
    /// Whether a time is free, and the conflicts if not.
    ResourceIsAvailable "resource.is_available" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item) weight(2),
    /// The bookings of a time.
    ResourceBookings "resource.bookings" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item) weight(6),
    /// The first free slots of a length.
    ResourceFreeSlots "resource.free_slots" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item) weight(5),
    /// Open a cart.
    CartOpen "cart.open" changes [Sell] owner(CartTokenAndCustomer) venues(Unlimited) batch(Item) weight(6),
    /// Read a cart.
    CartGet "cart.get" reads [Sell] owner(CartToken) venues(Unlimited) batch(Item) weight(1),
    /// Hold named seats.
    CartHoldSeats "cart.hold_seats" changes [Sell] owner(CartTokenAndCustomer) venues(OfLinesAsked) batch(Item) weight(14),
    /// Hold the best free seats.
    CartHoldBest "cart.hold_best" changes [Sell] owner(CartTokenAndCustomer) venues(OfLinesAsked) batch(Item) weight(14),
    /// Hold places in an area.
    CartHoldPlaces "cart.hold_places" changes [Sell] owner(CartTokenAndCustomer) venues(OfLinesAsked) batch(Item) weight(14),
    /// Hold units of a product.
    CartHoldStock "cart.hold_stock" changes [Sell] owner(CartTokenAndCustomer) venues(OfLinesAsked) batch(Item) weight(14),
    /// Hold time of a resource.
    CartHoldSlot "cart.hold_slot" changes [Sell] owner(CartTokenAndCustomer) venues(OfLinesAsked) batch(Item) weight(14),
    /// Hold several lines, all or none.
    CartHoldAll "cart.hold_all" changes [Sell] owner(CartTokenAndCustomer) venues(OfLinesAsked) batch(Item) weight(14),
    /// Hold more or less of a line.
    CartSetQuantity "cart.set_quantity" changes [Sell] owner(CartToken) venues(OfCartLines) batch(Item) weight(6),
    /// Release a line, or seats of it.
    CartRelease "cart.release" changes [Sell] owner(CartToken) venues(Unlimited) batch(Item) weight(6),
    /// Release everything and end the cart.
    CartCancel "cart.cancel" changes [Sell] owner(CartToken) venues(Unlimited) batch(Item) weight(6),
    /// Buy what the cart holds.
    CartCheckout "cart.checkout" changes [Sell] owner(CartTokenAndCustomer) venues(OfCartLines) batch(Item) weight(8),
    /// Read an order.
    OrderGet "order.get" reads [Sell, Report] owner(OrdersCustomer) venues(OfCartLines) batch(Item) weight(3),
    /// Refund lines of an order and put them on sale again.
    OrderRefund "order.refund" changes [Desk] owner(Nobody) venues(OfCartLines) batch(Item) weight(8),
    /// The orders of a customer.
    CustomerPurchases "customer.purchases" reads [Sell, Report] owner(Customer) venues(Refused) batch(Item) weight(4),
    /// Follow an entity.
    Watch "watch" reads [Watch] owner(Nobody) venues(Unlimited) batch(Alone) weight(2),
    /// End a feed.
    Unwatch "unwatch" reads [Watch] owner(Nobody) venues(Unlimited) batch(Alone) weight(1),
    /// Several commands in one frame.
    Batch "batch" reads [Desk] owner(Nobody) venues(Unlimited) batch(Alone) weight(1),
    /// The status of the node.
    AdminStatus "admin.status" reads [Report] owner(Nobody) venues(Refused) batch(Alone) weight(20),
    /// What an entity, or the whole node, holds, counted afresh.
    AdminAudit "admin.audit" reads [Desk, Report] owner(Nobody) venues(OfEntity) batch(Alone) weight(50),
    /// What happened to an entity, or to one of its seats.
    AdminHistory "admin.history" reads [Desk, Report] owner(Nobody) venues(OfEntity) batch(Alone) weight(50),
    /// Release a line of a cart.
    AdminRelease "admin.release" changes [Desk] owner(Nobody) venues(OfCartLines) batch(Item) weight(6),
    /// Say how an attempt to pay ended.
    AdminSettle "admin.settle" changes [Desk] owner(Nobody) venues(OfCartLines) batch(Item) weight(8),
    /// The members of the cluster, and where shards should be.
    AdminNodes "admin.nodes" reads [Report] owner(Nobody) venues(Refused) batch(Item) weight(5),
    /// Become a member of the cluster.
    AdminJoin "admin.join" changes [Admin] or JoiningMachine owner(Nobody) venues(Refused) batch(Item) weight(20),
    /// Invite a machine to become a member.
    AdminInvite "admin.invite" changes [Admin] owner(Nobody) venues(Refused) batch(Item) weight(20),
    /// Move everything away from a member.
    AdminDrain "admin.drain" changes [Admin] owner(Nobody) venues(Refused) batch(Item) weight(20),
    /// Let a member that is drained keep what it has.
    AdminUndrain "admin.undrain" changes [Admin] owner(Nobody) venues(Refused) batch(Item) weight(20),
    /// Say that a member will not come back.
    AdminRemove "admin.remove" changes [Admin] owner(Nobody) venues(Refused) batch(Item) weight(20),
    /// Say that a member has lost its disk.
    AdminReplace "admin.replace" changes [Admin] owner(Nobody) venues(Refused) batch(Item) weight(20),
    /// Every key.
    AdminKeys "admin.keys" reads [Admin] owner(Nobody) venues(Refused) batch(Item) weight(5),
    /// Make a key.
    AdminKeyCreate "admin.key_create" changes [Admin] owner(Nobody) venues(Refused) batch(Item) weight(15),
    /// Revoke a key.
    AdminKeyRevoke "admin.key_revoke" changes [Admin] owner(Nobody) venues(Refused) batch(Item) weight(15),
}

impl Op {
    /// The roles of which a caller needs one. Empty if every caller may use the op. A role includes others.
    pub const fn needs(self) -> &'static [Role] {
        self.permission().roles
    }

    /// Whether a caller with these roles may use the op.
    pub const fn is_open_to(self, roles: Roles) -> bool {
        self.permission().is_open_to(roles)
    }

    /// Whether unknown fields are refused. Changes refuse them, so that nothing in a request is dropped silently. Reads ignore
    /// them.
    pub fn is_strict(self) -> bool {
        self.changes() || self == Op::Batch
    }

    /// Whether it opens a cart that does not exist yet, so that a purchase may begin with it.
    pub fn begins_cart(self) -> bool {
        let holds = [Op::CartHoldSeats, Op::CartHoldBest, Op::CartHoldPlaces, Op::CartHoldStock, Op::CartHoldSlot];
        matches!(self, Op::CartOpen | Op::CartHoldAll) || holds.contains(&self)
    }

    /// Whether its frames may be as long as importers need.
    pub fn is_for_importers(self) -> bool {
        matches!(self, Op::Batch | Op::HallPut | Op::ProductPut | Op::ResourcePut)
    }
}

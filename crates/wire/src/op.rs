//! The ops of the protocol.

use boxoffice_core::access::{Role, Roles};

use crate::permission::{BatchRule, Exception, OwnerRule, Permission, VenueRule};

/// Makes [`Op`] from its table: variant, name on the wire, whether it changes something, and its row of the permission table.
/// An op that leaves out a part of its row does not compile.
macro_rules! ops {
    ($($(#[$doc:meta])* $op:ident $name:literal $effect:ident [$($role:ident),*] $(or $exception:ident)?
        owner($owner:ident) venues($venues:ident) batch($batch:ident),)*) => {
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
    Hello "hello" reads [] owner(Nobody) venues(Unlimited) batch(Alone),
    /// The leader of each shard, and the address of each node for clients.
    Shards "shards" reads [Watch] owner(Nobody) venues(Unlimited) batch(Alone),
    /// Create or change a venue.
    VenuePut "venue.put" changes [Desk] owner(Nobody) venues(OfEntity) batch(Item),
    /// Read a venue.
    VenueGet "venue.get" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item),
    /// Venues by city and name, or by distance.
    VenueSearch "venue.search" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item),
    /// Create or change a hall.
    HallPut "hall.put" changes [Desk] owner(Nobody) venues(OfEntity) batch(Item),
    /// Read a hall with its layout.
    HallGet "hall.get" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item),
    /// Create or change a title.
    TitlePut "title.put" changes [Desk] owner(Nobody) venues(Refused) batch(Item),
    /// Read a title.
    TitleGet "title.get" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item),
    /// Titles by name.
    TitleSearch "title.search" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item),
    /// Create a session.
    SessionCreate "session.create" changes [Desk] owner(Nobody) venues(OfEntity) batch(Item),
    /// Read a session with its layout.
    SessionGet "session.get" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item),
    /// Sessions of a venue or of a city, by start.
    SessionSearch "session.search" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item),
    /// The state of every seat of a session.
    SessionMap "session.map" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item),
    /// Keep seats off sale.
    SessionBlock "session.block" changes [Desk] owner(Nobody) venues(OfEntity) batch(Item),
    /// Put seats back on sale.
    SessionUnblock "session.unblock" changes [Desk] owner(Nobody) venues(OfEntity) batch(Item),
    /// It will not take place.
    SessionCancel "session.cancel" changes [Desk] owner(Nobody) venues(OfEntity) batch(Item),
    /// Create or change a product.
    ProductPut "product.put" changes [Desk] owner(Nobody) venues(Refused) batch(Item),
    /// Read a product with its counts.
    ProductGet "product.get" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item),
    /// Create or change a resource.
    ResourcePut "resource.put" changes [Desk] owner(Nobody) venues(Refused) batch(Item),
    /// Read a resource.
    ResourceGet "resource.get" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item),
    /// Book time of a resource without a cart, once or again and again.
    ResourceReserve "resource.reserve" changes [Desk] owner(Nobody) venues(Refused) batch(Item),
    /// End a booking or a series.
    ResourceCancel "resource.cancel" changes [Desk] owner(Nobody) venues(Refused) batch(Item),
    /// Move a booking to another time.
    ResourceMove "resource.move" changes [Desk] owner(Nobody) venues(Refused) batch(Item),
    /// Whether a time is free, and the conflicts if not.
    ResourceIsAvailable "resource.is_available" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item),
    /// The bookings of a time.
    ResourceBookings "resource.bookings" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item),
    /// The first free slots of a length.
    ResourceFreeSlots "resource.free_slots" reads [Watch] owner(Nobody) venues(Unlimited) batch(Item),
    /// Open a cart.
    CartOpen "cart.open" changes [Sell] owner(CartTokenAndCustomer) venues(Unlimited) batch(Item),
    /// Read a cart.
    CartGet "cart.get" reads [Sell] owner(CartToken) venues(Unlimited) batch(Item),
    /// Hold named seats.
    CartHoldSeats "cart.hold_seats" changes [Sell] owner(CartTokenAndCustomer) venues(OfLinesAsked) batch(Item),
    /// Hold the best free seats.
    CartHoldBest "cart.hold_best" changes [Sell] owner(CartTokenAndCustomer) venues(OfLinesAsked) batch(Item),
    /// Hold places in an area.
    CartHoldPlaces "cart.hold_places" changes [Sell] owner(CartTokenAndCustomer) venues(OfLinesAsked) batch(Item),
    /// Hold units of a product.
    CartHoldStock "cart.hold_stock" changes [Sell] owner(CartTokenAndCustomer) venues(OfLinesAsked) batch(Item),
    /// Hold time of a resource.
    CartHoldSlot "cart.hold_slot" changes [Sell] owner(CartTokenAndCustomer) venues(OfLinesAsked) batch(Item),
    /// Hold several lines, all or none.
    CartHoldAll "cart.hold_all" changes [Sell] owner(CartTokenAndCustomer) venues(OfLinesAsked) batch(Item),
    /// Hold more or less of a line.
    CartSetQuantity "cart.set_quantity" changes [Sell] owner(CartToken) venues(OfCartLines) batch(Item),
    /// Release a line, or seats of it.
    CartRelease "cart.release" changes [Sell] owner(CartToken) venues(Unlimited) batch(Item),
    /// Release everything and end the cart.
    CartCancel "cart.cancel" changes [Sell] owner(CartToken) venues(Unlimited) batch(Item),
    /// Buy what the cart holds.
    CartCheckout "cart.checkout" changes [Sell] owner(CartTokenAndCustomer) venues(OfCartLines) batch(Item),
    /// Read an order.
    OrderGet "order.get" reads [Sell, Report] owner(OrdersCustomer) venues(OfCartLines) batch(Item),
    /// Refund lines of an order and put them on sale again.
    OrderRefund "order.refund" changes [Desk] owner(Nobody) venues(OfCartLines) batch(Item),
    /// The orders of a customer.
    CustomerPurchases "customer.purchases" reads [Sell, Report] owner(Customer) venues(Refused) batch(Item),
    /// Follow an entity.
    Watch "watch" reads [Watch] owner(Nobody) venues(Unlimited) batch(Alone),
    /// End a feed.
    Unwatch "unwatch" reads [Watch] owner(Nobody) venues(Unlimited) batch(Alone),
    /// Several commands in one frame.
    Batch "batch" reads [Desk] owner(Nobody) venues(Unlimited) batch(Alone),
    /// The status of the node.
    AdminStatus "admin.status" reads [Report] owner(Nobody) venues(Refused) batch(Alone),
    /// What an entity, or the whole node, holds, counted afresh.
    AdminAudit "admin.audit" reads [Desk, Report] owner(Nobody) venues(OfEntity) batch(Alone),
    /// What happened to an entity, or to one of its seats.
    AdminHistory "admin.history" reads [Desk, Report] owner(Nobody) venues(OfEntity) batch(Alone),
    /// Release a line of a cart.
    AdminRelease "admin.release" changes [Desk] owner(Nobody) venues(OfCartLines) batch(Item),
    /// Say how an attempt to pay ended.
    AdminSettle "admin.settle" changes [Desk] owner(Nobody) venues(OfCartLines) batch(Item),
    /// The members of the cluster, and where shards should be.
    AdminNodes "admin.nodes" reads [Report] owner(Nobody) venues(Refused) batch(Item),
    /// Become a member of the cluster.
    AdminJoin "admin.join" changes [Admin] or JoiningMachine owner(Nobody) venues(Refused) batch(Item),
    /// Invite a machine to become a member.
    AdminInvite "admin.invite" changes [Admin] owner(Nobody) venues(Refused) batch(Item),
    /// Move everything away from a member.
    AdminDrain "admin.drain" changes [Admin] owner(Nobody) venues(Refused) batch(Item),
    /// Let a member that is drained keep what it has.
    AdminUndrain "admin.undrain" changes [Admin] owner(Nobody) venues(Refused) batch(Item),
    /// Say that a member will not come back.
    AdminRemove "admin.remove" changes [Admin] owner(Nobody) venues(Refused) batch(Item),
    /// Say that a member has lost its disk.
    AdminReplace "admin.replace" changes [Admin] owner(Nobody) venues(Refused) batch(Item),
    /// Every key.
    AdminKeys "admin.keys" reads [Admin] owner(Nobody) venues(Refused) batch(Item),
    /// Make a key.
    AdminKeyCreate "admin.key_create" changes [Admin] owner(Nobody) venues(Refused) batch(Item),
    /// Revoke a key.
    AdminKeyRevoke "admin.key_revoke" changes [Admin] owner(Nobody) venues(Refused) batch(Item),
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

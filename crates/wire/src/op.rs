//! The ops: what a request may ask for, by name.

/// Makes [`Op`] of its one table: variant, name on the wire, whether it changes something, whom it is for.
macro_rules! ops {
    ($($(#[$doc:meta])* $op:ident $name:literal $effect:ident $whom:ident,)*) => {
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
                // A match, not a search: this is on the way of every frame.
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

            /// Whether it is for operators only: what makes and changes the offer, books without a cart, pays back, looks
            /// inside. A batch is: it is how importers speak.
            pub fn for_operators(self) -> bool {
                match self {
                    $(Op::$op => ops!(@ $whom),)*
                }
            }
        }
    };
    (@ changes) => { true };
    (@ reads) => { false };
    (@ operators) => { true };
    (@ everyone) => { false };
}

ops! {
    /// Who the client is; its first frame.
    Hello "hello" reads everyone,
    /// Create or change a venue.
    VenuePut "venue.put" changes operators,
    /// Read a venue.
    VenueGet "venue.get" reads everyone,
    /// Venues by city and name, or by distance.
    VenueSearch "venue.search" reads everyone,
    /// Create or change a hall.
    HallPut "hall.put" changes operators,
    /// Read a hall with its layout.
    HallGet "hall.get" reads everyone,
    /// Create or change a title.
    TitlePut "title.put" changes operators,
    /// Read a title.
    TitleGet "title.get" reads everyone,
    /// Titles by name.
    TitleSearch "title.search" reads everyone,
    /// Create a session.
    SessionCreate "session.create" changes operators,
    /// Read a session with its layout.
    SessionGet "session.get" reads everyone,
    /// Sessions of a venue or of a city, by start.
    SessionSearch "session.search" reads everyone,
    /// The state of every seat of a session.
    SessionMap "session.map" reads everyone,
    /// Keep seats off sale.
    SessionBlock "session.block" changes operators,
    /// Put seats back on sale.
    SessionUnblock "session.unblock" changes operators,
    /// It will not take place.
    SessionCancel "session.cancel" changes operators,
    /// Create or change a product.
    ProductPut "product.put" changes operators,
    /// Read a product with its counts.
    ProductGet "product.get" reads everyone,
    /// Create or change a resource.
    ResourcePut "resource.put" changes operators,
    /// Read a resource.
    ResourceGet "resource.get" reads everyone,
    /// Book time of a resource without a cart, once or again and again.
    ResourceReserve "resource.reserve" changes operators,
    /// End a booking or a series.
    ResourceCancel "resource.cancel" changes operators,
    /// Put a booking to another time.
    ResourceMove "resource.move" changes operators,
    /// Whether a time is free, and what is in the way.
    ResourceIsAvailable "resource.is_available" reads everyone,
    /// The bookings of a time.
    ResourceBookings "resource.bookings" reads everyone,
    /// The first free slots of a length.
    ResourceFreeSlots "resource.free_slots" reads everyone,
    /// Open a cart.
    CartOpen "cart.open" changes everyone,
    /// Read a cart.
    CartGet "cart.get" reads everyone,
    /// Hold named seats.
    CartHoldSeats "cart.hold_seats" changes everyone,
    /// Hold the best seats there are.
    CartHoldBest "cart.hold_best" changes everyone,
    /// Hold places in an area.
    CartHoldPlaces "cart.hold_places" changes everyone,
    /// Hold units of a product.
    CartHoldStock "cart.hold_stock" changes everyone,
    /// Hold time of a resource.
    CartHoldSlot "cart.hold_slot" changes everyone,
    /// Hold several lines, all or none.
    CartHoldAll "cart.hold_all" changes everyone,
    /// Hold more or less of a line.
    CartSetQuantity "cart.set_quantity" changes everyone,
    /// Give a line, or seats of it, back.
    CartRelease "cart.release" changes everyone,
    /// Give everything back.
    CartCancel "cart.cancel" changes everyone,
    /// Buy what the cart holds.
    CartCheckout "cart.checkout" changes everyone,
    /// Read an order.
    OrderGet "order.get" reads everyone,
    /// Pay lines of an order back and put them on sale again.
    OrderRefund "order.refund" changes operators,
    /// The orders of a customer.
    CustomerPurchases "customer.purchases" reads everyone,
    /// Follow an entity.
    Watch "watch" reads everyone,
    /// Follow it no longer.
    Unwatch "unwatch" reads everyone,
    /// Several commands in one frame.
    Batch "batch" reads operators,
    /// How the node is.
    AdminStatus "admin.status" reads operators,
    /// What an entity, or the whole node, holds, counted afresh.
    AdminAudit "admin.audit" reads operators,
    /// What happened to an entity, or to one of its seats.
    AdminHistory "admin.history" reads operators,
    /// Release a line of a cart.
    AdminRelease "admin.release" changes operators,
    /// Say how an attempt to pay ended.
    AdminSettle "admin.settle" changes operators,
    /// The members of the cluster, and where shards should be.
    AdminNodes "admin.nodes" reads operators,
    /// Become a member of the cluster.
    AdminJoin "admin.join" changes operators,
    /// Move everything away from a member.
    AdminDrain "admin.drain" changes operators,
    /// Let a member that is drained keep what it has.
    AdminUndrain "admin.undrain" changes operators,
    /// Say that a member will not come back.
    AdminRemove "admin.remove" changes operators,
    /// Say that a member has lost its disk.
    AdminReplace "admin.replace" changes operators,
}

impl Op {
    /// Whether fields it does not know are refused: in everything that changes something, so that nothing a client asked for
    /// is dropped in silence. Reads ignore them.
    pub fn is_strict(self) -> bool {
        self.changes() || self == Op::Batch
    }

    /// Whether its frame may be as long as importers need.
    pub fn is_for_importers(self) -> bool {
        matches!(self, Op::Batch | Op::HallPut | Op::ProductPut | Op::ResourcePut)
    }
}

//! The ops: what a request may ask for, by name.

/// An operation of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Who the client is; its first frame.
    Hello,
    /// Create or change a venue.
    VenuePut,
    /// Read a venue.
    VenueGet,
    /// Venues by city and name, or by distance.
    VenueSearch,
    /// Create or change a hall.
    HallPut,
    /// Read a hall with its layout.
    HallGet,
    /// Create or change a title.
    TitlePut,
    /// Read a title.
    TitleGet,
    /// Titles by name.
    TitleSearch,
    /// Create a session.
    SessionCreate,
    /// Read a session with its layout.
    SessionGet,
    /// Sessions of a venue or of a city, by start.
    SessionSearch,
    /// The state of every seat of a session.
    SessionMap,
    /// Keep seats off sale.
    SessionBlock,
    /// Put seats back on sale.
    SessionUnblock,
    /// It will not take place.
    SessionCancel,
    /// Create or change a product.
    ProductPut,
    /// Read a product with its counts.
    ProductGet,
    /// Create or change a resource.
    ResourcePut,
    /// Read a resource.
    ResourceGet,
    /// Book time of a resource without a cart, once or again and again.
    ResourceReserve,
    /// End a booking or a series.
    ResourceCancel,
    /// Put a booking to another time.
    ResourceMove,
    /// Whether a time is free, and what is in the way.
    ResourceIsAvailable,
    /// The bookings of a time.
    ResourceBookings,
    /// The first free slots of a length.
    ResourceFreeSlots,
    /// Open a cart.
    CartOpen,
    /// Read a cart.
    CartGet,
    /// Hold named seats.
    CartHoldSeats,
    /// Hold the best seats there are.
    CartHoldBest,
    /// Hold places in an area.
    CartHoldPlaces,
    /// Hold units of a product.
    CartHoldStock,
    /// Hold time of a resource.
    CartHoldSlot,
    /// Hold several lines, all or none.
    CartHoldAll,
    /// Hold more or less of a line.
    CartSetQuantity,
    /// Give a line, or seats of it, back.
    CartRelease,
    /// Give everything back.
    CartCancel,
    /// Buy what the cart holds.
    CartCheckout,
    /// Read an order.
    OrderGet,
    /// Pay lines of an order back and put them on sale again.
    OrderRefund,
    /// The orders of a customer.
    CustomerPurchases,
    /// Follow an entity.
    Watch,
    /// Follow it no longer.
    Unwatch,
    /// Several commands in one frame.
    Batch,
    /// How the node is.
    AdminStatus,
    /// What an entity, or the whole node, holds, counted afresh.
    AdminAudit,
    /// What happened to an entity, or to one of its seats.
    AdminHistory,
    /// Give a line of somebody's cart back.
    AdminRelease,
    /// Say how an attempt to pay ended.
    AdminSettle,
}

impl Op {
    /// Every op, in the order of the protocol's table.
    pub const ALL: [Op; 49] = [
        Op::Hello,
        Op::VenuePut,
        Op::VenueGet,
        Op::VenueSearch,
        Op::HallPut,
        Op::HallGet,
        Op::TitlePut,
        Op::TitleGet,
        Op::TitleSearch,
        Op::SessionCreate,
        Op::SessionGet,
        Op::SessionSearch,
        Op::SessionMap,
        Op::SessionBlock,
        Op::SessionUnblock,
        Op::SessionCancel,
        Op::ProductPut,
        Op::ProductGet,
        Op::ResourcePut,
        Op::ResourceGet,
        Op::ResourceReserve,
        Op::ResourceCancel,
        Op::ResourceMove,
        Op::ResourceIsAvailable,
        Op::ResourceBookings,
        Op::ResourceFreeSlots,
        Op::CartOpen,
        Op::CartGet,
        Op::CartHoldSeats,
        Op::CartHoldBest,
        Op::CartHoldPlaces,
        Op::CartHoldStock,
        Op::CartHoldSlot,
        Op::CartHoldAll,
        Op::CartSetQuantity,
        Op::CartRelease,
        Op::CartCancel,
        Op::CartCheckout,
        Op::OrderGet,
        Op::OrderRefund,
        Op::CustomerPurchases,
        Op::Watch,
        Op::Unwatch,
        Op::Batch,
        Op::AdminStatus,
        Op::AdminAudit,
        Op::AdminHistory,
        Op::AdminRelease,
        Op::AdminSettle,
    ];

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Op::Hello => "hello",
            Op::VenuePut => "venue.put",
            Op::VenueGet => "venue.get",
            Op::VenueSearch => "venue.search",
            Op::HallPut => "hall.put",
            Op::HallGet => "hall.get",
            Op::TitlePut => "title.put",
            Op::TitleGet => "title.get",
            Op::TitleSearch => "title.search",
            Op::SessionCreate => "session.create",
            Op::SessionGet => "session.get",
            Op::SessionSearch => "session.search",
            Op::SessionMap => "session.map",
            Op::SessionBlock => "session.block",
            Op::SessionUnblock => "session.unblock",
            Op::SessionCancel => "session.cancel",
            Op::ProductPut => "product.put",
            Op::ProductGet => "product.get",
            Op::ResourcePut => "resource.put",
            Op::ResourceGet => "resource.get",
            Op::ResourceReserve => "resource.reserve",
            Op::ResourceCancel => "resource.cancel",
            Op::ResourceMove => "resource.move",
            Op::ResourceIsAvailable => "resource.is_available",
            Op::ResourceBookings => "resource.bookings",
            Op::ResourceFreeSlots => "resource.free_slots",
            Op::CartOpen => "cart.open",
            Op::CartGet => "cart.get",
            Op::CartHoldSeats => "cart.hold_seats",
            Op::CartHoldBest => "cart.hold_best",
            Op::CartHoldPlaces => "cart.hold_places",
            Op::CartHoldStock => "cart.hold_stock",
            Op::CartHoldSlot => "cart.hold_slot",
            Op::CartHoldAll => "cart.hold_all",
            Op::CartSetQuantity => "cart.set_quantity",
            Op::CartRelease => "cart.release",
            Op::CartCancel => "cart.cancel",
            Op::CartCheckout => "cart.checkout",
            Op::OrderGet => "order.get",
            Op::OrderRefund => "order.refund",
            Op::CustomerPurchases => "customer.purchases",
            Op::Watch => "watch",
            Op::Unwatch => "unwatch",
            Op::Batch => "batch",
            Op::AdminStatus => "admin.status",
            Op::AdminAudit => "admin.audit",
            Op::AdminHistory => "admin.history",
            Op::AdminRelease => "admin.release",
            Op::AdminSettle => "admin.settle",
        }
    }

    /// The op with this name.
    pub fn from_name(name: &str) -> Option<Op> {
        // A match, not a search: this is on the way of every frame.
        let op = match name {
            "hello" => Op::Hello,
            "venue.put" => Op::VenuePut,
            "venue.get" => Op::VenueGet,
            "venue.search" => Op::VenueSearch,
            "hall.put" => Op::HallPut,
            "hall.get" => Op::HallGet,
            "title.put" => Op::TitlePut,
            "title.get" => Op::TitleGet,
            "title.search" => Op::TitleSearch,
            "session.create" => Op::SessionCreate,
            "session.get" => Op::SessionGet,
            "session.search" => Op::SessionSearch,
            "session.map" => Op::SessionMap,
            "session.block" => Op::SessionBlock,
            "session.unblock" => Op::SessionUnblock,
            "session.cancel" => Op::SessionCancel,
            "product.put" => Op::ProductPut,
            "product.get" => Op::ProductGet,
            "resource.put" => Op::ResourcePut,
            "resource.get" => Op::ResourceGet,
            "resource.reserve" => Op::ResourceReserve,
            "resource.cancel" => Op::ResourceCancel,
            "resource.move" => Op::ResourceMove,
            "resource.is_available" => Op::ResourceIsAvailable,
            "resource.bookings" => Op::ResourceBookings,
            "resource.free_slots" => Op::ResourceFreeSlots,
            "cart.open" => Op::CartOpen,
            "cart.get" => Op::CartGet,
            "cart.hold_seats" => Op::CartHoldSeats,
            "cart.hold_best" => Op::CartHoldBest,
            "cart.hold_places" => Op::CartHoldPlaces,
            "cart.hold_stock" => Op::CartHoldStock,
            "cart.hold_slot" => Op::CartHoldSlot,
            "cart.hold_all" => Op::CartHoldAll,
            "cart.set_quantity" => Op::CartSetQuantity,
            "cart.release" => Op::CartRelease,
            "cart.cancel" => Op::CartCancel,
            "cart.checkout" => Op::CartCheckout,
            "order.get" => Op::OrderGet,
            "order.refund" => Op::OrderRefund,
            "customer.purchases" => Op::CustomerPurchases,
            "watch" => Op::Watch,
            "unwatch" => Op::Unwatch,
            "batch" => Op::Batch,
            "admin.status" => Op::AdminStatus,
            "admin.audit" => Op::AdminAudit,
            "admin.history" => Op::AdminHistory,
            "admin.release" => Op::AdminRelease,
            "admin.settle" => Op::AdminSettle,
            _ => return None,
        };
        Some(op)
    }

    /// Whether it changes something, and so needs a request id.
    pub fn changes(self) -> bool {
        match self {
            Op::VenuePut
            | Op::HallPut
            | Op::TitlePut
            | Op::SessionCreate
            | Op::SessionBlock
            | Op::SessionUnblock
            | Op::SessionCancel
            | Op::ProductPut
            | Op::ResourcePut
            | Op::ResourceReserve
            | Op::ResourceCancel
            | Op::ResourceMove
            | Op::CartOpen
            | Op::CartHoldSeats
            | Op::CartHoldBest
            | Op::CartHoldPlaces
            | Op::CartHoldStock
            | Op::CartHoldSlot
            | Op::CartHoldAll
            | Op::CartSetQuantity
            | Op::CartRelease
            | Op::CartCancel
            | Op::CartCheckout
            | Op::OrderRefund
            | Op::AdminRelease
            | Op::AdminSettle => true,
            Op::Hello
            | Op::VenueGet
            | Op::VenueSearch
            | Op::HallGet
            | Op::TitleGet
            | Op::TitleSearch
            | Op::SessionGet
            | Op::SessionSearch
            | Op::SessionMap
            | Op::ProductGet
            | Op::ResourceGet
            | Op::ResourceIsAvailable
            | Op::ResourceBookings
            | Op::ResourceFreeSlots
            | Op::CartGet
            | Op::OrderGet
            | Op::CustomerPurchases
            | Op::Watch
            | Op::Unwatch
            | Op::Batch
            | Op::AdminStatus
            | Op::AdminAudit
            | Op::AdminHistory => false,
        }
    }

    /// Whether it is for operators only: what makes and changes the offer, books without a cart, pays back, looks inside.
    /// A batch is: it is how importers speak.
    pub fn for_operators(self) -> bool {
        match self {
            Op::VenuePut
            | Op::HallPut
            | Op::TitlePut
            | Op::SessionCreate
            | Op::SessionBlock
            | Op::SessionUnblock
            | Op::SessionCancel
            | Op::ProductPut
            | Op::ResourcePut
            | Op::ResourceReserve
            | Op::ResourceCancel
            | Op::ResourceMove
            | Op::OrderRefund
            | Op::Batch
            | Op::AdminStatus
            | Op::AdminAudit
            | Op::AdminHistory
            | Op::AdminRelease
            | Op::AdminSettle => true,
            Op::Hello
            | Op::VenueGet
            | Op::VenueSearch
            | Op::HallGet
            | Op::TitleGet
            | Op::TitleSearch
            | Op::SessionGet
            | Op::SessionSearch
            | Op::SessionMap
            | Op::ProductGet
            | Op::ResourceGet
            | Op::ResourceIsAvailable
            | Op::ResourceBookings
            | Op::ResourceFreeSlots
            | Op::CartOpen
            | Op::CartGet
            | Op::CartHoldSeats
            | Op::CartHoldBest
            | Op::CartHoldPlaces
            | Op::CartHoldStock
            | Op::CartHoldSlot
            | Op::CartHoldAll
            | Op::CartSetQuantity
            | Op::CartRelease
            | Op::CartCancel
            | Op::CartCheckout
            | Op::OrderGet
            | Op::CustomerPurchases
            | Op::Watch
            | Op::Unwatch => false,
        }
    }

    /// Whether its frame may be as long as importers need.
    pub fn is_for_importers(self) -> bool {
        matches!(self, Op::Batch | Op::HallPut | Op::ProductPut | Op::ResourcePut)
    }
}

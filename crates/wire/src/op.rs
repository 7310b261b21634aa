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
    /// Create or change a hall.
    HallPut,
    /// Read a hall with its layout.
    HallGet,
    /// Create a session.
    SessionCreate,
    /// Read a session with its layout.
    SessionGet,
    /// Sessions of a venue, by start.
    SessionSearch,
    /// The state of every seat of a session.
    SessionMap,
    /// Keep seats off sale.
    SessionBlock,
    /// Put seats back on sale.
    SessionUnblock,
    /// Open a cart.
    CartOpen,
    /// Read a cart.
    CartGet,
    /// Hold named seats.
    CartHoldSeats,
    /// Hold the best seats there are.
    CartHoldBest,
    /// Hold several lines, all or none.
    CartHoldAll,
    /// Give a line, or seats of it, back.
    CartRelease,
    /// Give everything back.
    CartCancel,
    /// Buy what the cart holds.
    CartCheckout,
    /// Read an order.
    OrderGet,
    /// Follow a session's map.
    Watch,
    /// Follow it no longer.
    Unwatch,
    /// Several commands in one frame.
    Batch,
    /// How the node is.
    AdminStatus,
    /// What an entity, or the whole node, holds, counted afresh.
    AdminAudit,
}

impl Op {
    /// Every op, in the order of the protocol's table.
    pub const ALL: [Op; 25] = [
        Op::Hello,
        Op::VenuePut,
        Op::VenueGet,
        Op::HallPut,
        Op::HallGet,
        Op::SessionCreate,
        Op::SessionGet,
        Op::SessionSearch,
        Op::SessionMap,
        Op::SessionBlock,
        Op::SessionUnblock,
        Op::CartOpen,
        Op::CartGet,
        Op::CartHoldSeats,
        Op::CartHoldBest,
        Op::CartHoldAll,
        Op::CartRelease,
        Op::CartCancel,
        Op::CartCheckout,
        Op::OrderGet,
        Op::Watch,
        Op::Unwatch,
        Op::Batch,
        Op::AdminStatus,
        Op::AdminAudit,
    ];

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Op::Hello => "hello",
            Op::VenuePut => "venue.put",
            Op::VenueGet => "venue.get",
            Op::HallPut => "hall.put",
            Op::HallGet => "hall.get",
            Op::SessionCreate => "session.create",
            Op::SessionGet => "session.get",
            Op::SessionSearch => "session.search",
            Op::SessionMap => "session.map",
            Op::SessionBlock => "session.block",
            Op::SessionUnblock => "session.unblock",
            Op::CartOpen => "cart.open",
            Op::CartGet => "cart.get",
            Op::CartHoldSeats => "cart.hold_seats",
            Op::CartHoldBest => "cart.hold_best",
            Op::CartHoldAll => "cart.hold_all",
            Op::CartRelease => "cart.release",
            Op::CartCancel => "cart.cancel",
            Op::CartCheckout => "cart.checkout",
            Op::OrderGet => "order.get",
            Op::Watch => "watch",
            Op::Unwatch => "unwatch",
            Op::Batch => "batch",
            Op::AdminStatus => "admin.status",
            Op::AdminAudit => "admin.audit",
        }
    }

    /// The op with this name.
    pub fn from_name(name: &str) -> Option<Op> {
        // A match, not a search: this is on the way of every frame.
        let op = match name {
            "hello" => Op::Hello,
            "venue.put" => Op::VenuePut,
            "venue.get" => Op::VenueGet,
            "hall.put" => Op::HallPut,
            "hall.get" => Op::HallGet,
            "session.create" => Op::SessionCreate,
            "session.get" => Op::SessionGet,
            "session.search" => Op::SessionSearch,
            "session.map" => Op::SessionMap,
            "session.block" => Op::SessionBlock,
            "session.unblock" => Op::SessionUnblock,
            "cart.open" => Op::CartOpen,
            "cart.get" => Op::CartGet,
            "cart.hold_seats" => Op::CartHoldSeats,
            "cart.hold_best" => Op::CartHoldBest,
            "cart.hold_all" => Op::CartHoldAll,
            "cart.release" => Op::CartRelease,
            "cart.cancel" => Op::CartCancel,
            "cart.checkout" => Op::CartCheckout,
            "order.get" => Op::OrderGet,
            "watch" => Op::Watch,
            "unwatch" => Op::Unwatch,
            "batch" => Op::Batch,
            "admin.status" => Op::AdminStatus,
            "admin.audit" => Op::AdminAudit,
            _ => return None,
        };
        Some(op)
    }

    /// Whether it changes something, and so needs a request id.
    pub fn changes(self) -> bool {
        match self {
            Op::VenuePut
            | Op::HallPut
            | Op::SessionCreate
            | Op::SessionBlock
            | Op::SessionUnblock
            | Op::CartOpen
            | Op::CartHoldSeats
            | Op::CartHoldBest
            | Op::CartHoldAll
            | Op::CartRelease
            | Op::CartCancel
            | Op::CartCheckout => true,
            Op::Hello
            | Op::VenueGet
            | Op::HallGet
            | Op::SessionGet
            | Op::SessionSearch
            | Op::SessionMap
            | Op::CartGet
            | Op::OrderGet
            | Op::Watch
            | Op::Unwatch
            | Op::Batch
            | Op::AdminStatus
            | Op::AdminAudit => false,
        }
    }

    /// Whether its frame may be as long as importers need.
    pub fn is_for_importers(self) -> bool {
        matches!(self, Op::Batch | Op::HallPut)
    }
}

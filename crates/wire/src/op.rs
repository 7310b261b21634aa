//! The list of the ops, and the words of their facts.
//!
//! An op is its struct in [`crate::body`], whose attribute says everything about it, and its line in the list here. The list
//! stands below everything that knows an op, and [`crate::ops`] asks the structs.

/// The list of the ops, in the order of the protocol's table: `Op = Struct`, or `Op` if the struct is called the same. Hands it to
/// a macro.
macro_rules! each_op {
    ($callback:ident) => {
        $callback! {
            Hello = ClientHello,
            Shards,
            VenuePut,
            VenueGet,
            VenueSearch,
            HallPut,
            HallGet,
            TitlePut,
            TitleGet,
            TitleSearch,
            SessionCreate,
            SessionGet,
            SessionSearch,
            SessionMap,
            SessionBlock,
            SessionUnblock,
            SessionChange,
            SessionCancel,
            ProductPut,
            ProductGet,
            CodePut,
            CodeGet,
            ResourcePut,
            ResourceGet,
            ResourceReserve,
            ResourceCancel,
            ResourceMove,
            ResourceIsAvailable,
            ResourceBookings,
            ResourceFreeSlots,
            CartOpen,
            CartGet,
            CartHoldSeats = HoldSeats,
            CartHoldBest = HoldBest,
            CartHoldPlaces = HoldPlaces,
            CartHoldStock = HoldStock,
            CartHoldSlot = HoldSlot,
            CartHoldAll = HoldAll,
            CartSetQuantity = SetQuantity,
            CartSetNote = SetNote,
            CartRelease = Release,
            CartCancel,
            CartCheckoutCancel,
            CartCheckout = Checkout,
            OrderGet,
            OrderRefund,
            CustomerPurchases,
            Watch,
            Unwatch,
            Batch,
            AdminStatus,
            AdminAudit = Audit,
            AdminHistory = History,
            AdminMap,
            AdminRelease,
            AdminCheckoutCancel,
            AdminSettle,
            AdminNodes,
            AdminJoin,
            AdminInvite,
            AdminDrain,
            AdminUndrain,
            AdminRemove,
            AdminReplace,
            AdminFinishUpgrade,
            AdminBackup,
            AdminBackupRead,
            AdminKeys,
            AdminKeyCreate = KeyCreate,
            AdminKeyRevoke,
        }
    };
}
pub(crate) use each_op;

macro_rules! declare_ops {
    ($($op:ident $(= $body:ident)?),* $(,)?) => {
        /// An operation of the protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Op {
            $($op,)*
        }

        impl Op {
            /// Every op, in the order of the protocol's table.
            pub const ALL: [Op; [$(stringify!($op)),*].len()] = [$(Op::$op),*];
        }
    };
}

each_op!(declare_ops);

/// The class of an op's head: what an overloaded node may refuse before it reads the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadClass {
    /// A read that is refused first.
    Read,
    /// It opens the cart of its token if there is none, so a purchase may begin with it.
    Begin,
    /// The head does not show it. The command has a class of its own.
    Later,
}

/// When a client sends an op to an overloaded node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// It begins something, so it waits for its turn.
    Limited,
    /// It reads, continues something or gives something back, so it does not wait.
    AtOnce,
}

/// What becomes of fields of a body that the node does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFields {
    /// They are refused, so that nothing of a request is dropped silently.
    Refused,
    /// They are ignored.
    Ignored,
}

/// How long the frames of an op may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameLength {
    /// [`FRAME_BYTES_MAX`](crate::limits::FRAME_BYTES_MAX).
    Plain,
    /// [`IMPORT_FRAME_BYTES_MAX`](crate::limits::IMPORT_FRAME_BYTES_MAX).
    Import,
    /// [`HALL_FRAME_BYTES_MAX`](crate::limits::HALL_FRAME_BYTES_MAX).
    Hall,
}

/// The HTTP methods of an op, besides the WebSocket frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpMethods {
    /// None, because the op is about the connection.
    None,
    /// `POST`.
    Post,
    /// `POST`, and `GET` with the fields in the query string.
    PostAndGet,
}

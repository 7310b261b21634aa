//! The ops: what the struct of each says, in one place to ask.

use boxoffice_core::access::{Role, Roles};

use crate::{
    body,
    call::{Call, Shape},
    limits,
    op::{FrameLength, HeadClass, Op, Pace, UnknownFields, each_op},
    permission::{OwnerRule, Permission},
    rejection::Rejection,
    spec::{Facts, OpBody, OpSpec, ReadOp},
    unread::Body,
};

/// Asks the struct of an op.
macro_rules! ask_the_structs {
    ($($op:ident $(= $body:ident)?),* $(,)?) => {
        $(impl OpBody for ask_the_structs!(@type $op $($body)?) {
            const OP: Op = Op::$op;
        })*

        impl Op {
            /// Its name on the wire.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Op::$op => <ask_the_structs!(@type $op $($body)?) as OpSpec>::NAME,)*
                }
            }

            /// The op with this name.
            pub fn from_name(name: &str) -> Option<Op> {
                // A match is faster than a search, and every frame needs it.
                match name {
                    $(<ask_the_structs!(@type $op $($body)?) as OpSpec>::NAME => Some(Op::$op),)*
                    _ => None,
                }
            }

            /// What its struct says.
            pub(crate) const fn facts(self) -> &'static Facts {
                match self {
                    $(Op::$op => const { &<ask_the_structs!(@type $op $($body)?) as OpSpec>::FACTS },)*
                }
            }

            /// Reads a body as that of the op.
            ///
            /// # Errors
            /// The answer instead.
            pub(crate) fn read(self, body: Body<'_>) -> Result<(Call, Shape), Rejection> {
                match self {
                    $(Op::$op => <ask_the_structs!(@type $op $($body)?) as ReadOp>::read(body),)*
                }
            }
        }
    };
    (@type $op:ident) => { body::$op };
    (@type $op:ident $body:ident) => { body::$body };
}

each_op!(ask_the_structs);

impl Op {
    /// Whether it changes something, and so needs a request id.
    pub const fn changes(self) -> bool {
        self.facts().changes
    }

    /// The processor time of its smallest request over that of `cart.get`, about, as `tests/prices.py` measures it. Budgets
    /// charge this, and more by size ([`crate::weight`]).
    pub const fn weight(self) -> u32 {
        self.facts().weight
    }

    /// What a caller needs for the op.
    pub const fn permission(self) -> Permission {
        self.facts().permission
    }

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
        self.facts().unknown == UnknownFields::Refused
    }

    /// What an overloaded node may refuse by the head of a request.
    pub const fn class(self) -> HeadClass {
        self.facts().class
    }

    /// Whether it opens a cart that does not exist yet, so that a purchase may begin with it.
    pub fn begins_cart(self) -> bool {
        self.class() == HeadClass::Begin
    }

    /// When a client sends it to an overloaded node.
    pub const fn pace(self) -> Pace {
        self.facts().pace
    }

    /// Whether its frames may be as long as importers need.
    pub fn is_for_importers(self) -> bool {
        self.facts().frame != FrameLength::Plain
    }

    /// The longest frame, and body of a request over HTTP, in bytes.
    pub fn frame_bytes_max(self) -> usize {
        match self.facts().frame {
            FrameLength::Plain => limits::FRAME_BYTES_MAX,
            FrameLength::Import => limits::IMPORT_FRAME_BYTES_MAX,
            FrameLength::Hall => limits::HALL_FRAME_BYTES_MAX,
        }
    }

    /// Whether the request or the answer may name a customer.
    pub(crate) fn is_about_a_customer(self) -> bool {
        match self.permission().owner {
            OwnerRule::CartTokenAndCustomer
            | OwnerRule::Customer
            | OwnerRule::OrdersCustomer
            | OwnerRule::OfItsItems => true,
            OwnerRule::Unowned | OwnerRule::CartToken => false,
        }
    }
}

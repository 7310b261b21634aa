//! The permission table: who may make which call, follow which feed and ask for which path.
//!
//! Each op has a row in the table of [`crate::op`]. A feed has the row of the op that reads the same data, so that following
//! something never needs less than reading it. The edge decides by these rows, and `docs/reference/access.md` is made of them.

use boxoffice_core::{
    access::{Role, Roles},
    id::Entity,
};

use crate::Op;

/// What a caller needs for an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    /// The roles of which the caller needs one. Empty if every caller may use the op. A role includes others.
    pub roles: &'static [Role],
    /// Callers without these roles that may use the op all the same.
    pub or: &'static [Exception],
    pub owner: OwnerRule,
    pub venues: VenueRule,
    pub batch: BatchRule,
}

impl Permission {
    /// Whether one of these roles is enough.
    pub const fn is_open_to(&self, roles: Roles) -> bool {
        // An iterator cannot be used in a constant.
        let mut index = 0;
        while index < self.roles.len() {
            if roles.has(self.roles[index]) {
                return true;
            }
            index += 1;
        }
        self.roles.is_empty()
    }
}

/// A caller that may use an op without its roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exception {
    /// A machine that wants to join, and has proved that it knows the secret of the cluster's nodes.
    JoiningMachine,
}

impl Exception {
    /// Its name in the table.
    pub const fn words(self) -> &'static str {
        match self {
            Exception::JoiningMachine => "a joining machine",
        }
    }
}

/// Whose data an op reads or changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerRule {
    /// Data of no customer, or an operator's op that is about all customers.
    Nobody,
    /// A cart, which belongs to any caller that shows its token.
    CartToken,
    /// The same. If the request names a customer, the caller must act for that customer.
    CartTokenAndCustomer,
    /// A customer's data. The caller must act for the customer that the request names.
    Customer,
    /// An order. If it has a customer, the caller must act for that customer.
    OrdersCustomer,
}

impl OwnerRule {
    /// The rule as the table shows it.
    pub const fn words(self) -> &'static str {
        match self {
            OwnerRule::Nobody => "–",
            OwnerRule::CartToken => "the cart's token",
            OwnerRule::CartTokenAndCustomer => "the cart's token, and a customer that is named",
            OwnerRule::Customer => "the customer",
            OwnerRule::OrdersCustomer => "the order's customer",
        }
    }
}

/// What the venues of a limited key or token mean for an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VenueRule {
    /// Nothing: the offer, and carts that are opened by their token.
    Unlimited,
    /// The venue or session of the request must be of these venues, and every line of its cart. Products, resources,
    /// customers, the directory and the whole node belong to no venue, so they are refused.
    OfEntity,
    /// Every line that is asked for must be of these venues.
    OfLinesAsked,
    /// Every line of the cart or order must be of these venues.
    OfCartLines,
    /// The op is about no venue, or about all of them, and is refused.
    Refused,
}

impl VenueRule {
    /// The rule as the table shows it.
    pub const fn words(self) -> &'static str {
        match self {
            VenueRule::Unlimited => "no limit",
            VenueRule::OfEntity => "of its venue",
            VenueRule::OfLinesAsked => "of every line asked for",
            VenueRule::OfCartLines => "of every line of the cart or order",
            VenueRule::Refused => "refused",
        }
    }

    /// Whether the rule needs nothing but the key: neither the request's entity nor the lines of a cart.
    const fn is_decided_by_the_key(self) -> bool {
        match self {
            VenueRule::Unlimited | VenueRule::Refused => true,
            VenueRule::OfEntity | VenueRule::OfLinesAsked | VenueRule::OfCartLines => false,
        }
    }
}

/// Whether an op may be an item of a `batch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchRule {
    /// An item, for a caller that may use it alone.
    Item,
    /// Only in a frame of its own.
    Alone,
}

impl BatchRule {
    /// The rule as the table shows it.
    pub const fn words(self) -> &'static str {
        match self {
            BatchRule::Item => "yes",
            BatchRule::Alone => "no",
        }
    }
}

/// Makes [`FeedKind`] from its table: what is followed, its name in the table, and the op that reads the same data.
macro_rules! feeds {
    ($($(#[$doc:meta])* $feed:ident $name:literal as $op:ident,)*) => {
        /// A kind of feed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FeedKind {
            $($(#[$doc])* $feed,)*
        }

        impl FeedKind {
            /// Every kind, in the order of the table.
            pub const ALL: [FeedKind; [$($name),*].len()] = [$(FeedKind::$feed),*];

            /// The name of what is followed.
            pub const fn name(self) -> &'static str {
                match self {
                    $(FeedKind::$feed => $name,)*
                }
            }

            /// The op that reads the same data. Following needs what reading needs.
            pub const fn read(self) -> Op {
                match self {
                    $(FeedKind::$feed => Op::$op,)*
                }
            }
        }
    };
}

feeds! {
    /// The seats of a session, `{"entity":"session/…"}`.
    Session "session" as SessionMap,
    /// The counts of sessions, `{"sessions":[…]}`.
    SessionCounts "counts of sessions" as SessionMap,
    /// The counts of a product.
    Product "product" as ProductGet,
    /// The days of a resource on which bookings change.
    Resource "resource" as ResourceBookings,
    /// A cart.
    Cart "cart" as CartGet,
    /// The purchases of a customer.
    Customer "customer" as CustomerPurchases,
}

impl FeedKind {
    /// The feed of an entity. `None` for entities that nobody can follow.
    pub const fn of(entity: &Entity) -> Option<FeedKind> {
        match entity {
            Entity::Session(_) => Some(FeedKind::Session),
            Entity::Product(_) => Some(FeedKind::Product),
            Entity::Resource(_) => Some(FeedKind::Resource),
            Entity::Cart(_) => Some(FeedKind::Cart),
            Entity::Customer(_) => Some(FeedKind::Customer),
            Entity::Venue(_) | Entity::Directory | Entity::Cluster => None,
        }
    }

    /// The row of the table.
    pub const fn permission(self) -> Permission {
        self.read().permission()
    }
}

// A feed begins without asking the node for a venue. A kind whose read asks for one needs that question first.
const _: () = {
    let mut index = 0;
    while index < FeedKind::ALL.len() {
        assert!(FeedKind::ALL[index].permission().venues.is_decided_by_the_key(), "a feed of a venue is not checked");
        index += 1;
    }
};

/// Who may ask for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Every caller. Credentials are not looked at.
    Everyone,
    /// Every caller whose credentials are valid, or that shows none.
    NoneOrValid,
    /// Callers that may use this op.
    As(Op),
    /// The same. Others are told that there is no such path.
    HiddenAs(Op),
    /// By the row of the op in the path or in the frame.
    ByOp,
    /// The payment gateway, which signs each request.
    Gateway,
}

impl Opening {
    /// The rule as the table shows it.
    pub fn words(self) -> String {
        match self {
            Opening::Everyone => "everyone".into(),
            Opening::NoneOrValid => "everyone without invalid credentials".into(),
            Opening::As(op) => format!("as `{}`", op.name()),
            Opening::HiddenAs(op) => format!("as `{}`, else 404", op.name()),
            Opening::ByOp => "by the op".into(),
            Opening::Gateway => "the gateway's signature".into(),
        }
    }
}

/// Makes [`Path`] from its table: the route, and who may ask for it at the clients' and at the operators' port.
macro_rules! paths {
    ($($(#[$doc:meta])* $path:ident $route:literal clients($($clients:tt)*) operators($($operators:tt)*),)*) => {
        /// A path of both ports.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Path {
            $($(#[$doc])* $path,)*
        }

        impl Path {
            /// Every path, in the order of the table.
            pub const ALL: [Path; [$($route),*].len()] = [$(Path::$path),*];

            /// The path, with its parameters in braces.
            pub const fn route(self) -> &'static str {
                match self {
                    $(Path::$path => $route,)*
                }
            }

            /// Who may ask for it at the clients' port.
            pub const fn at_clients_port(self) -> Opening {
                match self {
                    $(Path::$path => Opening::$($clients)*,)*
                }
            }

            /// Who may ask for it at the operators' port.
            pub const fn at_operators_port(self) -> Opening {
                match self {
                    $(Path::$path => Opening::$($operators)*,)*
                }
            }
        }
    };
}

paths! {
    /// An op.
    Op "/v1/{op}" clients(ByOp) operators(ByOp),
    /// A WebSocket connection.
    WebSocket "/v1/ws" clients(ByOp) operators(ByOp),
    /// The layout of a session.
    Layout "/v1/sessions/{id}/layout" clients(As(Op::SessionGet)) operators(As(Op::SessionGet)),
    /// The map of a session.
    Map "/v1/sessions/{id}/map" clients(As(Op::SessionMap)) operators(As(Op::SessionMap)),
    /// Reports of the payment gateway.
    Webhook "/v1/payments/webhook" clients(Gateway) operators(Gateway),
    /// The OpenAPI document.
    Document "/v1/openapi.json" clients(Everyone) operators(Everyone),
    /// The counters.
    Metrics "/metrics" clients(HiddenAs(Op::AdminStatus)) operators(NoneOrValid),
    /// Whether the node takes requests.
    Ready "/readyz" clients(Everyone) operators(Everyone),
    /// Whether the process answers.
    Health "/healthz" clients(Everyone) operators(Everyone),
    /// The page.
    Page "/" clients(Everyone) operators(Everyone),
    /// What the page needs to know of the node.
    PageFacts "/page.json" clients(Everyone) operators(Everyone),
    /// The page's files.
    PageFile "/page/{*path}" clients(Everyone) operators(Everyone),
}

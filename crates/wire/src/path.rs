//! The paths of both ports, and who may ask for them.

use crate::op::Op;

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

/// What a request for a path costs a stranger's network at the clients' port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Price {
    /// As many requests as the weight of the op says.
    OfOp,
    /// One request of the caller that connects.
    OfUpgrade,
    /// So many requests.
    Requests(u32),
    /// A probe, which has a budget of its own.
    Probe,
    /// Only if it is refused: the gateway signs what it sends.
    Refused,
}

impl Price {
    /// The price as the table shows it.
    pub fn words(self) -> String {
        match self {
            Price::OfOp => "of the op".into(),
            Price::OfUpgrade => "1".into(),
            Price::Requests(count) => count.to_string(),
            Price::Probe => "a probe".into(),
            Price::Refused => "1 if it is refused".into(),
        }
    }
}

/// Makes [`Path`] from its table: the route, who may ask for it at the clients' and at the operators' port, and its price.
macro_rules! paths {
    ($($(#[$doc:meta])* $path:ident $route:literal clients($($clients:tt)*) operators($($operators:tt)*)
        price($($price:tt)*),)*) => {
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

            /// What a request costs at the clients' port.
            pub const fn price(self) -> Price {
                match self {
                    $(Path::$path => Price::$($price)*,)*
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
    Op "/v1/{op}" clients(ByOp) operators(ByOp) price(OfOp),
    /// A WebSocket connection.
    WebSocket "/v1/ws" clients(ByOp) operators(ByOp) price(OfUpgrade),
    /// The layout of a session.
    Layout "/v1/sessions/{id}/layout" clients(As(Op::SessionGet)) operators(As(Op::SessionGet)) price(OfOp),
    /// The map of a session.
    Map "/v1/sessions/{id}/map" clients(As(Op::SessionMap)) operators(As(Op::SessionMap)) price(OfOp),
    /// Reports of the payment gateway.
    Webhook "/v1/payments/webhook" clients(Gateway) operators(Gateway) price(Refused),
    /// The OpenAPI document.
    Document "/v1/openapi.json" clients(Everyone) operators(Everyone) price(Requests(10)),
    /// The counters.
    Metrics "/metrics" clients(HiddenAs(Op::AdminStatus)) operators(NoneOrValid) price(Requests(5)),
    /// Whether the node takes requests.
    Ready "/readyz" clients(Everyone) operators(Everyone) price(Probe),
    /// Whether the process answers.
    Health "/healthz" clients(Everyone) operators(Everyone) price(Probe),
    /// The page.
    Page "/" clients(Everyone) operators(Everyone) price(Requests(2)),
    /// What the page needs to know of the node.
    PageFacts "/page.json" clients(Everyone) operators(Everyone) price(Requests(2)),
    /// The page's files.
    PageFile "/page/{*path}" clients(Everyone) operators(Everyone) price(Requests(2)),
}

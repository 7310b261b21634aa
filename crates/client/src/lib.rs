//! The client library for programs that sell and buy seats, places, products and times of resources.
//!
//! A [`Client`] is one connection to a Boxoffice node or cluster. It has a typed method for each op of the protocol,
//! keeps many requests under way at the same time, and reconnects on its own. A [`Cart`] is one buyer's cart. It holds
//! seats and everything else that is for sale, and checks out.
//!
//! # Connect
//!
//! Give [`ClientConfig::new`] the addresses of one or more nodes, and pass the configuration to [`Client::connect`].
//! Clone the client to use it in several tasks. All clones share the connection.
//!
//! ```no_run
//! # async fn buy() -> Result<(), Box<dyn std::error::Error>> {
//! use boxoffice_client::{Cart, Client, ClientConfig, Entity, Id, Seat, recorded};
//!
//! let client = Client::connect(ClientConfig::new(["127.0.0.1:7180"])).await?;
//! let session = Id::new("hamlet-tonight").expect("a valid id");
//! let cart = Cart::beside(&client, &Entity::Session(session.clone()));
//! cart.hold_seats(&session, [Seat { row: 1, seat: 5 }, Seat { row: 1, seat: 6 }]).await?;
//! let order = cart.checkout(recorded("card", "4711"), None).await?;
//! println!("order {}", order.value.id);
//! # Ok(())
//! # }
//! ```
//!
//! # Retries and request ids
//!
//! Every op fails with an [`Error`]. It distinguishes refusals, which are final, from failures and unknown outcomes.
//!
//! Every request has a deadline. Until then the client retries a command with the same **request id** when a node is
//! busy, draining or unreachable. A repeat of a command that succeeded gets the same answer and changes nothing, so no
//! seat is sold twice by a retry.
//!
//! [`Error::Unknown`] says that the deadline passed and the outcome is not known. It is always safe to repeat such a
//! command with the same request id ([`Client::with_request_id`]), even from another program. A program that must
//! survive its own crash stores the request id ([`Client::new_request_id`]) and the cart's token before it sends the
//! command.
//!
//! # Watches
//!
//! A [`Watch`] follows the seats of a session as a stream of consistent maps, version by version, across reconnects.
//! Other watches follow a cart, a product, a resource or a customer's purchases. A [`CountsWatch`] follows how many
//! seats are free in many sessions.

// In reading order: configuration and errors, the ops, the watches, the internals.
mod config;
mod error;
mod tls;

mod batch;
mod call;
mod call_state;
mod cart;
mod catalog;
mod client;
mod cluster;
mod op_request;

mod counts;
mod live;
mod map_state;
mod waiter;
mod watch;

mod back_off;
mod concurrency_limit;
mod connection;
mod connection_task;
mod feeds;
mod in_doubt;
mod pending;
mod request_id;
mod retries;
mod routes;
mod ws_connection;

#[cfg(test)]
mod tests;

pub use boxoffice_core::{
    access::Role,
    answer::{AreaCounts, SeatCounts, StockCounts},
    command::{
        Allotment, Area, CodeDetails, Counter, CustomerLimit, HoldPolicy, Limits, NewSession, Offer, Offering,
        OpeningHours, Payment, PriceChange, PriceType, ProductDetails, Rate, ResourceDetails, SessionExtras, Shipping,
        Title, VenueDetails,
    },
    id::{CartId, CartToken, Entity, HoldId, Id, OrderId},
    layout::Layout,
    money::{Currency, Money},
    payment::OnDecline,
    portion::{BoughtAs, Content, Portion, PricedSeat, Tax},
    refusal::{Conflict, Shortage},
    seat::{Seat, SeatSet, SeatState},
    text::Text,
    time::Timestamp,
};
pub use boxoffice_wire::{
    Encoding, Fail, FailKind,
    access::{KeyList, KeyStatus},
    body::{
        AdminInvite, AdminJoin, CounterBody, Figure, KeyCreate, Line as WantedLine, OfferBody, Position, PriceTypeBody,
        RepeatBody, ResourceBookings, ResourceFreeSlots, ResourceIsAvailable, ResourceMove, ResourceReserve,
        SessionChange, SessionSearch, TaxBody, TitleSearch, VenueSearch,
    },
    city::{CityPage, CitySession},
    cluster::{ClusterStatus, CopiesStatus, InvitationStatus, MemberStatus, PlaceStatus},
    customer::token as customer_token,
    hello::{Durability, Hello, Limits as ServerLimits},
    reply::{
        Available, BookingPage, FreeSlots, No, Reply as BatchReply, SessionPage, Slot, ThreeStates, TitlePage,
        Unreadable,
    },
    status::{
        CartTotals, CurrencyTotal, FollowerStatus, HistoryEntry, HistoryPage, NodeAudit, NodeStatus, PaymentTotals,
        Rates, SeatTotals, ShardStatus, UnitTotals,
    },
    view::{
        AsOf, At, BookingState, BookingView, CartAudit, CartState, CartView, Claim, CodeAudit, CodeView, CustomerAudit,
        Ended, HallView, Held, HoldView, HolderView, LineView, MapView, Order, PaymentStatus, ProductAudit,
        ProductView, Purchase, PurchasedItem, PurchasesPage, RefundRecord, RefundStatus, ResourceAudit, ResourceView,
        SaleMark, SaleView, SessionAudit, SessionChanged, SessionEntry, SessionSale, SessionView, TakenLine, Taker,
        TitleView, VenueChange, VenueEntry, VenueView, VenuesPage, VoidRecord, VoidStatus,
    },
};

pub use batch::BatchCommand;
pub use boxoffice_wire::body::PurchaseCursor;
pub use cart::{BestWish, Cart, gateway, recorded};
pub use catalog::CitySearch;
pub use client::Client;
pub use concurrency_limit::{ConcurrencyLimit, NextCall, WaitingKey, WaitingRequests};
pub use config::{AdminToken, ClientConfig, CustomerCredentials};
pub use counts::{CountsWatch, LiveCounts};
pub use error::{Error, Reply};
pub use live::{Applied, Live, LiveCart, LivePurchases, LiveResource, LiveStock};
pub use map_state::{Change, MapState};
pub use op_request::OpRequest;
pub use retries::RetryCounts;
pub use tls::{InvalidAuthorities, TlsAuthorities};
pub use watch::Watch;

/// The parts of a hall's [`Layout`].
pub mod layout {
    pub use boxoffice_core::layout::{Labels, Layout, LayoutError, Point, Row, Run, SeatNote};
}

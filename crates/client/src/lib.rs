//! The library for programs that sell and buy seats: one connection, many requests under way, nothing sold twice by a repeat.
//!
//! ```no_run
//! # async fn buy() -> Result<(), Box<dyn std::error::Error>> {
//! use boxoffice_client::{Cart, Client, ClientConfig, Id, Seat, recorded};
//!
//! let client = Client::connect(ClientConfig::new(["127.0.0.1:7180"])).await?;
//! let session = Id::new("hamlet-0412").expect("a good id");
//! let cart = Cart::new(&client);
//! cart.hold_seats(&session, [Seat { row: 1, seat: 5 }, Seat { row: 1, seat: 6 }]).await?;
//! let order = cart.checkout(recorded("card", "4711"), None).await?;
//! println!("order {}", order.value.order.id);
//! # Ok(())
//! # }
//! ```
//!
//! - Every command has a deadline. Until then the client repeats it with the same request id when a node is busy, going
//!   away or unreachable: a repeat of what succeeded gets the same answer and changes nothing.
//! - [`Error::Unknown`] is what is left when the deadline passes in doubt; repeating it with the same request id
//!   ([`Client::with_request_id`]) is always safe.
//! - A [`Watch`] gives the seats of a session as consistent maps, version by version, across reconnects.

// In reading order: what it is told, what it says, the doors, the machine behind them.
mod config;
mod error;

mod call;
mod cart;
mod client;

mod map_state;
mod watch;

mod back_off;
mod feeds;
mod link;
mod pending;
mod post;
mod request_id;

pub use boxoffice_core::{
    answer::{
        At, CartAudit, CartState, CartView, HallView, Held, LineView, MapView, Order, PricedSeat, SeatCounts,
        SessionAudit, SessionEntry, SessionView, VenueView,
    },
    command::{BestWish, Command, NewSession, Payment, VenueDetails, Want, WantedLine},
    id::{CartId, CartToken, Entity, Id, OrderId},
    layout::Layout,
    money::{Currency, Money},
    seat::{Seat, SeatState},
    time::Timestamp,
};
pub use boxoffice_wire::{
    Encoding, Fail, FailKind,
    body::SessionSearch,
    hello::Hello,
    reply::{No, OrderView, SessionPage, ThreeStates, Unreadable},
    status::{NodeAudit, NodeStatus},
};

pub use cart::{Cart, recorded};
pub use client::{BatchCommand, Client};
pub use config::{AdminToken, ClientConfig};
pub use error::{Error, Reply};
pub use map_state::{Change, MapState};
pub use watch::Watch;

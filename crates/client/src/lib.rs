//! The library for programs that sell and buy seats: one connection, many requests under way, nothing sold twice by a repeat.
//!
//! ```no_run
//! # async fn buy() -> Result<(), Box<dyn std::error::Error>> {
//! use boxoffice_client::{Cart, Client, ClientConfig, Entity, Id, Seat, recorded};
//!
//! let client = Client::connect(ClientConfig::new(["127.0.0.1:7180"])).await?;
//! let session = Id::new("hamlet-0412").expect("a good id");
//! let cart = Cart::beside(&client, &Entity::Session(session.clone()));
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
//! - A [`Watch`] gives the seats of a session as consistent maps, version by version, across reconnects; a [`CountsWatch`]
//!   how many are free in many sessions.

// In reading order: what it is told, what it says, the doors, the machine behind them.
mod config;
mod error;

mod call;
mod cart;
mod client;
mod cluster;
mod offer;

mod counts;
mod live;
mod map_state;
mod watch;

mod back_off;
mod doubt;
mod feeds;
mod link;
mod pace;
mod pending;
mod post;
mod repeats;
mod request_id;
mod routes;

pub use boxoffice_core::{
    answer::{
        AreaCounts, At, BookingState, BookingView, CartAudit, CartState, CartView, CustomerAudit, Ended, HallView,
        Held, LineView, MapView, Order, ProductAudit, ProductView, Purchase, PurchasesPage, ResourceAudit,
        ResourceView, SeatCounts, SessionAudit, SessionEntry, SessionView, StockCounts, TakenLine, Taker, TitleView,
        VenueEntry, VenueView, VenuesPage,
    },
    command::{
        Area, BestWish, Command, CustomerLimit, Every, HoldPolicy, Limits, NewSession, OpeningHours, Payment,
        ProductDetails, Rate, Repeat, ResourceDetails, Shipping, Title, Until, VenueDetails, Want, WantedLine, When,
    },
    id::{CartId, CartToken, Entity, Id, OrderId},
    layout::Layout,
    money::{Currency, Money},
    payment::{
        OnDecline, PaymentFailure, PaymentStatus, RefundRecord, RefundStatus, Settlement, VoidRecord, VoidStatus,
    },
    portion::{Content, PricedSeat},
    refusal::{Conflict, Shortage},
    seat::{Seat, SeatState},
    time::Timestamp,
};
pub use boxoffice_wire::{
    Encoding, Fail, FailKind,
    access::{KeyList, KeyStatus},
    body::{
        AdminJoin, Figure, KeyCreate, Position, ResourceBookings, ResourceFreeSlots, SessionSearch, TitleSearch,
        VenueSearch,
    },
    city::{CityPage, CitySession},
    cluster::{ClusterStatus, CopiesStatus, MemberStatus, PlaceStatus},
    hello::Hello,
    reply::{Available, BookingPage, FreeSlots, No, OrderView, SessionPage, Slot, ThreeStates, TitlePage, Unreadable},
    status::{FollowerStatus, HistoryEntry, HistoryPage, NodeAudit, NodeStatus},
};

pub use cart::{Cart, gateway, recorded};
pub use client::{BatchCommand, Client};
pub use config::{AdminToken, ClientConfig, ShownCustomer};
pub use counts::{CountsWatch, LiveCounts};
pub use error::{Error, Reply};
pub use live::{Applied, Live, LiveCart, LivePurchases, LiveResource, LiveStock};
pub use map_state::{Change, MapState};
pub use offer::CitySearch;
pub use pace::Pace;
pub use repeats::Repeats;
pub use watch::Watch;

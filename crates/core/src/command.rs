//! What clients ask for, checked as far as it can be without looking at any state.

use alloc::{sync::Arc, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{
    id::{CartId, CartToken, Entity, Id, hash64},
    layout::Layout,
    money::Money,
    seat::{Seat, SeatSet},
    time::Timestamp,
};

/// A command, addressed to the entity that decides it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Command {
    /// To a venue.
    Venue(Id, VenueCommand),
    /// To a session.
    Session(Id, SessionCommand),
    /// To a cart.
    Cart(CartId, CartCommand),
}

impl Command {
    /// The entity that decides this command.
    pub fn entity(&self) -> Entity {
        match self {
            Command::Venue(id, _) => Entity::Venue(id.clone()),
            Command::Session(id, _) => Entity::Session(id.clone()),
            Command::Cart(id, _) => Entity::Cart(*id),
        }
    }
}

/// What a venue is told or asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum VenueCommand {
    /// Create or change it: `venue.put`. Idempotent by id.
    Put(VenueDetails),
    /// `venue.get`: its details, and its halls by name and size.
    Get,
    /// Create or change a hall: `hall.put`. Sessions that exist keep the layout they were made with.
    PutHall {
        /// Which hall.
        hall: Id,
        /// What it is called.
        name: SmolStr,
        /// Its seats.
        layout: Arc<Layout>,
    },
    /// `hall.get`: name and layout.
    GetHall {
        /// Which hall.
        hall: Id,
    },
    /// `session.create`: books the hall for the time (P13 for halls), then opens the session. Idempotent by id.
    CreateSession(NewSession),
    /// `session.search`: sessions of this venue that start in `[from, to)`, by start, then id.
    SearchSessions {
        /// Only in this hall.
        hall: Option<Id>,
        /// Only this title.
        title: Option<Id>,
        /// Starting at or after.
        from: Timestamp,
        /// Starting before.
        to: Timestamp,
        /// At most so many; 1 to 1 000.
        limit: u32,
        /// Go on after this session: the last one of the page before.
        after: Option<(Timestamp, Id)>,
    },
}

/// What is known of a venue besides its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VenueDetails {
    /// What it is called.
    pub name: SmolStr,
    /// Where it is.
    pub city: SmolStr,
    /// Longitude and latitude in millionths of a degree.
    pub position: Option<(i32, i32)>,
    /// Anything worth saying.
    pub comments: SmolStr,
}

/// A session to be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSession {
    /// Its id, chosen by the client.
    pub id: Id,
    /// In which hall of the venue.
    pub hall: Id,
    /// What is shown.
    pub title: Id,
    /// When it starts; the hall is booked for `[starts_at, ends_at)`.
    pub starts_at: Timestamp,
    /// When it ends.
    pub ends_at: Timestamp,
    /// A price for every category of the hall's layout; all in one currency.
    pub prices: Vec<(Id, Money)>,
    /// How long carts with seats of this session live untouched, if not as the rules say.
    pub hold_ttl_ms: Option<u64>,
}

/// What a session is told or asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum SessionCommand {
    /// `session.get`: what, where, when, prices, counts, layout.
    Get,
    /// `session.map`: the state of every seat, with the version.
    Map,
    /// `session.block`: keeps free seats off sale, all or none. Seats blocked already stay so.
    Block(Vec<Seat>),
    /// `session.unblock`: puts blocked seats back on sale, all or none. Free seats stay free.
    Unblock(Vec<Seat>),
    /// `admin.audit`: counts, holds and sales, counted afresh from the seats.
    Audit,
}

/// What a hold in a session asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    /// These seats; with `best_effort` as many of them as are free, but at least one.
    Seats {
        /// Which.
        seats: SeatSet,
        /// Take what is free and leave the rest.
        best_effort: bool,
    },
    /// The best seats there are, by the rule of best available.
    Best(BestWish),
}

impl Want {
    /// A hash of what is asked for. It is written into the log: what goes in, and how it is mixed, is the same for ever.
    pub(crate) fn hash(&self) -> u64 {
        match self {
            Want::Seats { seats, best_effort } => {
                let kind = if *best_effort { 2 } else { 1 };
                let word = |seat: &Seat| u64::from(seat.row) << 16 | u64::from(seat.seat);
                seats.as_slice().iter().fold(mix(0, kind), |hash, seat| mix(hash, word(seat)))
            }
            Want::Best(BestWish { count, category, section, accessible, split }) => {
                let kind = if *split { 4 } else { 3 };
                let numbers = u64::from(*count) << 16 | u64::from(*accessible);
                let name = |name: &Option<Id>| name.as_ref().map_or(0, |name| hash64(name.as_str().as_bytes()));
                [numbers, name(category), name(section)].into_iter().fold(mix(0, kind), mix)
            }
        }
    }
}

/// Folds one word into a hash: the finalizer of SplitMix64.
fn mix(hash: u64, word: u64) -> u64 {
    let mut mixed = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// What the best seats must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BestWish {
    /// How many; 1 to 20.
    pub count: u16,
    /// Only of this category.
    pub category: Option<Id>,
    /// Only in this section.
    pub section: Option<Id>,
    /// Exactly so many of them accessible.
    pub accessible: u16,
    /// If no run is long enough, take several.
    pub split: bool,
}

/// One line to be added to a cart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedLine {
    /// Of which session.
    pub session: Id,
    /// What of it.
    pub want: Want,
}

/// How an order is paid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Payment {
    /// Paid elsewhere; what the client says is written down (SC).
    Recorded {
        /// Cash, card, …
        method: SmolStr,
        /// The payer's reference.
        transaction_id: SmolStr,
    },
}

/// What a cart is told or asked. Every one of them was made with the cart's token, except `Order` and `Audit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum CartCommand {
    /// `cart.open`. A cart that is open already answers as it is.
    Open {
        /// Whose it is, as the client says.
        customer: Option<Id>,
        /// How long it lives untouched.
        ttl_ms: Option<u64>,
    },
    /// `cart.get`.
    Get,
    /// `cart.hold_seats`, `cart.hold_best` (one line) and `cart.hold_all` (several, all or none). Opens the cart if need be.
    Hold(Vec<WantedLine>),
    /// `cart.release`: the whole line, or these seats of it.
    Release {
        /// Which line.
        line: u32,
        /// Which seats of it; all if absent.
        seats: Option<SeatSet>,
    },
    /// `cart.cancel`: gives everything back and ends the cart.
    Cancel,
    /// `cart.checkout`: writes the order and turns holds into sales.
    Checkout {
        /// How it is paid.
        payment: Payment,
        /// Who buys, if not said before.
        customer: Option<Id>,
    },
    /// `order.get`: what the cart became. The order's id is needed, the token is not.
    Order,
    /// `admin.audit`: state, lines, holds and what is owed to others.
    Audit,
}

/// The proof that a client may speak for a cart: checked at the door, so that commands carry only the cart's id.
pub fn owns(token: CartToken, cart: CartId) -> bool {
    token.cart() == cart
}

#[cfg(test)]
mod tests {
    use super::{BestWish, Want};
    use crate::{
        id::Id,
        seat::{Seat, SeatSet},
    };

    #[test]
    fn hashes_of_wants_are_told_apart_and_stay_for_ever() {
        let seats = |row, best_effort| {
            let seats = SeatSet::new([Seat { row, seat: 2 }, Seat { row: 1, seat: 3 }]).expect("two seats");
            Want::Seats { seats, best_effort }.hash()
        };
        let best = |category: Option<&str>, section: Option<&str>, split| {
            let id = |name: &str| Id::new(name).expect("a good id");
            let (category, section) = (category.map(id), section.map(id));
            Want::Best(BestWish { count: 2, category, section, accessible: 0, split }).hash()
        };
        let all = [
            seats(0, false),
            seats(0, true),
            seats(1, false),
            best(None, None, false),
            best(None, None, true),
            best(Some("a"), None, false),
            best(None, Some("a"), false),
        ];
        // They are in logs: never change them.
        let for_ever: [u64; 7] = [
            17295276361922785118,
            7279688024645410281,
            500636399574370912,
            5786361470146036825,
            10749840888971917698,
            3949278302036278962,
            10267789813172717849,
        ];
        assert_eq!(all, for_ever);
    }
}

//! What is asked of an inventory, for a line of a cart or for a quota.

use alloc::{boxed::Box, vec::Vec};
use core::fmt;

use boxoffice_declare::Stored;

use crate::{
    id::{Id, hash64},
    seat::{Seat, SeatSet},
    text::Text,
    time::Timestamp,
};

/// The details of a booking.
pub type Details = Text<0, 1_024, true>;

/// The things that a hold asks for.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum Want {
    /// These seats, or with `best_effort` those of them that are free, at least one.
    #[n(0)]
    Seats {
        #[n(0)]
        seats: SeatSet,
        /// Take the free seats and leave the others.
        #[n(1)]
        best_effort: bool,
        #[n(2)]
        buy_as: BuyAs,
    },
    /// The best available seats.
    #[n(1)]
    Best(#[n(0)] BestWish),
    /// Places in an area. The quantity is the total of the hold.
    #[n(2)]
    Places {
        #[n(0)]
        area: Id,
        #[n(1)]
        quantity: u32,
        /// With one price type at most.
        #[n(2)]
        buy_as: BuyAs,
    },
    /// Units of a product. The quantity is the total of the hold.
    #[n(3)]
    Units {
        #[n(0)]
        quantity: u32,
        /// Set them aside even if the product does that only at the checkout.
        #[n(1)]
        now: bool,
    },
    /// Time of a resource, `[begin, end)`.
    #[n(4)]
    Slot {
        #[n(0)]
        begin: Timestamp,
        #[n(1)]
        end: Timestamp,
        /// Free text of the booking.
        #[n(2)]
        details: Details,
    },
    /// A part of a customer's quota.
    #[n(5)]
    Quota {
        #[n(0)]
        quota: Id,
        /// How many altogether.
        #[n(1)]
        count: u32,
        /// How many the customer may have of it.
        #[n(2)]
        max: u32,
    },
    /// Uses of a code.
    #[n(6)]
    Uses {
        /// How many altogether. Fewer are granted if there are fewer.
        #[n(0)]
        count: u32,
    },
}

impl Want {
    /// These seats at the terms of a buyer who names none.
    pub fn seats(seats: SeatSet, best_effort: bool) -> Want {
        Want::Seats { seats, best_effort, buy_as: BuyAs::default() }
    }

    /// Places at the terms of a buyer who names none.
    pub fn places(area: Id, quantity: u32) -> Want {
        Want::Places { area, quantity, buy_as: BuyAs::default() }
    }

    /// A hash of the wish. Logs have it, so its inputs and mixing never change.
    pub(crate) fn hash(&self) -> u64 {
        let hash = match self {
            Want::Seats { seats, best_effort, buy_as: _ } => {
                let kind = if *best_effort { 2 } else { 1 };
                let word = |seat: &Seat| u64::from(seat.row) << 16 | u64::from(seat.seat);
                seats.as_slice().iter().fold(mix(0, kind), |hash, seat| mix(hash, word(seat)))
            }
            Want::Best(BestWish { count, category, section, accessible, split, buy_as: _ }) => {
                let kind = if *split { 4 } else { 3 };
                let numbers = u64::from(*count) << 16 | u64::from(*accessible);
                let name = |name: &Option<Id>| name.as_ref().map_or(0, |name| hash64(name.as_str().as_bytes()));
                [numbers, name(category), name(section)].into_iter().fold(mix(0, kind), mix)
            }
            Want::Places { area, quantity, buy_as: _ } => {
                [hash64(area.as_str().as_bytes()), u64::from(*quantity)].into_iter().fold(mix(0, 5), mix)
            }
            Want::Units { quantity, now } => mix(mix(0, if *now { 7 } else { 6 }), u64::from(*quantity)),
            Want::Slot { begin, end, details } => {
                [begin.0, end.0, hash64(details.as_bytes())].into_iter().fold(mix(0, 8), mix)
            }
            Want::Quota { quota, count, max } => {
                let numbers = u64::from(*count) << 32 | u64::from(*max);
                [hash64(quota.as_str().as_bytes()), numbers].into_iter().fold(mix(0, 9), mix)
            }
            Want::Uses { count } => mix(mix(0, 11), u64::from(*count)),
        };
        self.buy_as().map_or(hash, |buy_as| buy_as.hash(hash))
    }

    /// Puts the id of its entity in place of the code that the wish shows, if it shows one.
    pub fn hide_code(&mut self, id_of: &dyn Fn(&Id) -> Id) {
        if let Want::Seats { buy_as, .. } | Want::Best(BestWish { buy_as, .. }) | Want::Places { buy_as, .. } = self {
            buy_as.hide_code(id_of);
        }
    }

    /// The code that the wish shows.
    pub fn shown_code(&self) -> Option<&Id> {
        self.buy_as()?.code()
    }

    /// The code that the buyer shows, and how many of its uses the wish could need.
    pub(crate) fn code(&self) -> Option<(&Id, u32)> {
        let code = self.buy_as()?.code()?;
        let most = match self {
            Want::Seats { seats, .. } => seats.len() as u32,
            Want::Best(BestWish { count, .. }) => u32::from(*count),
            Want::Places { quantity, .. } => *quantity,
            Want::Units { .. } | Want::Slot { .. } | Want::Quota { .. } | Want::Uses { .. } => return None,
        };
        Some((code, most))
    }

    /// What seats or places are to be bought as, if the wish says it.
    pub fn buy_as(&self) -> Option<&BuyAs> {
        let buy_as = match self {
            Want::Seats { buy_as, .. } | Want::Best(BestWish { buy_as, .. }) | Want::Places { buy_as, .. } => buy_as,
            Want::Units { .. } | Want::Slot { .. } | Want::Quota { .. } | Want::Uses { .. } => return None,
        };
        Some(buy_as).filter(|buy_as| **buy_as != BuyAs::default())
    }
}

/// What seats or places are to be bought as.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Stored)]
#[stored(transparent)]
pub struct BuyAs(Option<Box<NamedTerms>>);

/// As the part that it has, so that a wish without any looks as it did before there were price types.
impl fmt::Debug for BuyAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The price types and the offer that a wish names.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Stored)]
struct NamedTerms {
    #[n(0)]
    types: Vec<Id>,
    #[n(1)]
    offer: Option<Id>,
    #[n(2)]
    code: Option<Id>,
}

impl BuyAs {
    /// These price types, one for each seat in the order of the seats, or one for all. None means the first one of the session. The
    /// cheapest offer that admits is taken if none is named.
    pub fn new(types: Vec<Id>, offer: Option<Id>) -> BuyAs {
        BuyAs::with_code(types, offer, None)
    }

    /// As [`BuyAs::new`], by a buyer who shows this code.
    pub fn with_code(types: Vec<Id>, offer: Option<Id>, code: Option<Id>) -> BuyAs {
        let is_named = !types.is_empty() || offer.is_some() || code.is_some();
        BuyAs(is_named.then(|| Box::new(NamedTerms { types, offer, code })))
    }

    /// The price types, as they are named.
    pub fn types(&self) -> &[Id] {
        self.0.as_deref().map_or(&[], |named| &named.types)
    }

    /// The price type of the seat with this place in the order of the seats. `None` if no type is named.
    pub fn type_of(&self, place: usize) -> Option<&Id> {
        match self.types() {
            [one] => Some(one),
            types => types.get(place),
        }
    }

    /// The offer that is named.
    pub fn offer(&self) -> Option<&Id> {
        self.0.as_deref()?.offer.as_ref()
    }

    /// The code that the buyer shows. It is the id of its entity from the node's port on, and the code itself before.
    pub fn code(&self) -> Option<&Id> {
        self.0.as_deref()?.code.as_ref()
    }

    /// Puts the id of its entity in place of the code.
    pub fn hide_code(&mut self, id_of: &dyn Fn(&Id) -> Id) {
        if let Some(code) = self.0.as_deref_mut().and_then(|named| named.code.as_mut()) {
            *code = id_of(code);
        }
    }

    /// Folds it into a hash. Logs have the result, as that of [`Want::hash`].
    fn hash(&self, hash: u64) -> u64 {
        let offer = self.offer().map_or(0, |offer| hash64(offer.as_str().as_bytes()));
        let types = self.types().iter().map(|id| hash64(id.as_str().as_bytes()));
        let hash = types.chain([offer]).fold(mix(hash, 10), mix);
        self.code().map_or(hash, |code| mix(hash, hash64(code.as_str().as_bytes())))
    }
}

/// Folds one word into a hash with the finalizer of SplitMix64.
fn mix(hash: u64, word: u64) -> u64 {
    let mut mixed = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A wish for the best seats.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct BestWish {
    /// 1 to 20.
    #[n(0)]
    pub count: u16,
    /// Only of this category.
    #[n(2)]
    pub category: Option<Id>,
    /// Only in this section.
    #[n(3)]
    pub section: Option<Id>,
    /// Exactly how many of them are accessible.
    #[n(1)]
    pub accessible: u16,
    /// If no run is long enough, take several.
    #[n(4)]
    pub split: bool,
    #[n(5)]
    pub buy_as: BuyAs,
}

#[cfg(test)]
mod tests {
    use super::{BestWish, BuyAs, Want};
    use crate::{
        id::Id,
        seat::{Seat, SeatSet},
    };

    #[test]
    fn hashes_of_wants_are_distinct_and_pinned() {
        let seats = |row, best_effort| {
            let seats = SeatSet::new([Seat { row, seat: 2 }, Seat { row: 1, seat: 3 }]).expect("two seats");
            Want::Seats { seats, best_effort, buy_as: BuyAs::default() }.hash()
        };
        let best = |category: Option<&str>, section: Option<&str>, split| {
            let id = |name: &str| Id::new(name).expect("a good id");
            let (category, section) = (category.map(id), section.map(id));
            let buy_as = BuyAs::default();
            Want::Best(BestWish { count: 2, category, section, accessible: 0, split, buy_as }).hash()
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
        // These hashes are in logs and must never change.
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

//! Seats and places of a session by hold. Each write asserts what must be true.

use alloc::boxed::Box;
use core::mem;

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use super::share::Share;
use crate::{
    changes::Changes,
    command::Area,
    fairness::Charge,
    holds::{Hold, Holds, Refunded},
    id::HoldId,
    seat::SeatState,
    seat_bits::SeatBits,
    taken::Taken,
    time::Timestamp,
};

/// How many blocks, unblocks and cancellations a session remembers. A theatre is set up with many at a time.
pub(super) const SESSION_CHANGES_MAX: usize = 256;

/// Holds, blocked seats and changes. Held and sold bits and counters follow from them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Stored)]
pub(super) struct Book {
    #[n(0)]
    pub(super) holds: Holds<Share>,
    #[n(1)]
    blocked: SeatBits,
    #[n(2)]
    pub(super) changes: Changes<(), SESSION_CHANGES_MAX>,
    /// Why the session will not take place.
    #[n(3)]
    pub(super) canceled: Option<SmolStr>,
    /// Whether the venue knows of the cancellation.
    #[n(4)]
    pub(super) vacated: bool,
    #[stored(skip)]
    held: SeatBits,
    #[stored(skip)]
    sold: SeatBits,
    #[stored(skip)]
    pub(super) counts: Counts,
    /// By area.
    #[stored(skip)]
    places: Box<[Taken]>,
}

/// Seats that are not free, by state (P5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) held: u32,
    pub(super) sold: u32,
    pub(super) blocked: u32,
}

impl Counts {
    /// Seats that are not free.
    pub(super) fn taken(&self) -> u64 {
        u64::from(self.held) + u64::from(self.sold) + u64::from(self.blocked)
    }
}

impl Book {
    /// Makes room for the counters of the areas, to which new ones may be added at the end.
    pub(super) fn open(&mut self, areas: usize) {
        if self.places.len() != areas {
            let mut places = mem::take(&mut self.places).into_vec();
            places.resize(areas, Taken::default());
            self.places = places.into_boxed_slice();
        }
    }

    pub(super) fn state(&self, index: u32) -> SeatState {
        if self.sold.has(index) {
            SeatState::Sold
        } else if self.held.has(index) {
            SeatState::Held
        } else if self.blocked.has(index) {
            SeatState::Blocked
        } else {
            SeatState::Free
        }
    }

    /// 64 seats, a free one as a set bit.
    pub(super) fn free_word(&self, number: u32) -> u64 {
        !(self.held.word(number) | self.sold.word(number) | self.blocked.word(number))
    }

    /// The states of 64 seats, two bits each, the first in the lowest bits. Those that are `kept` are blocked if they are free.
    pub(super) fn map_word(&self, number: u32, kept: u64) -> u128 {
        const { assert!(SeatState::Held as u8 == 1 && SeatState::Sold as u8 == 2 && SeatState::Blocked as u8 == 3) };
        let (held, sold, blocked) = (self.held.word(number), self.sold.word(number), self.blocked.word(number));
        let blocked = blocked | (kept & !held & !sold);
        spread(held | blocked) | spread(sold | blocked) << 1
    }

    /// Places of an area that are not free.
    pub(super) fn places(&self, area: usize) -> Taken {
        self.places.get(area).copied().unwrap_or_default()
    }

    /// Gives seats to a new hold, or places to a new hold or one of the same area.
    pub(super) fn hold(
        &mut self,
        id: HoldId,
        (hold, charge): (Hold<Share>, Option<&Charge>),
        seats: u32,
        areas: &[Area],
    ) {
        let share = hold.what.clone();
        let before = self.holds.hold(id, hold, charge);
        match share {
            Share::Seats(list) => {
                let indexes = list.indexes();
                assert!(before.is_none(), "{id:?} is held already");
                assert!(!indexes.is_empty(), "hold {id:?} of nothing");
                for &index in indexes {
                    assert_eq!(self.state(index), SeatState::Free, "held twice: {index}");
                }
                self.held.add_all(indexes, seats);
                self.counts.held += indexes.len() as u32;
            }
            Share::Places { area, quantity, .. } => {
                assert!(quantity > 0, "hold {id:?} of nothing");
                let before = before.map_or(0, |before| {
                    let (of, before) = places(&before, id);
                    assert_eq!(of, area, "{id:?} goes from one area to another");
                    before
                });
                let taken = &mut self.places[usize::from(area)];
                taken.hold(before, quantity);
                let Area { id: name, capacity, .. } = &areas[usize::from(area)];
                assert!(taken.all() <= u64::from(*capacity), "{taken:?} of {capacity} places of {name}");
            }
        }
    }

    pub(super) fn release_seats(&mut self, id: HoldId, revision: u64, seats: &[u32], how: (bool, Option<Timestamp>)) {
        let Share::Seats(has) = self.holds.released(id) else { panic!("{id:?} has places, not seats") };
        for index in seats {
            assert!(has.indexes().contains(index), "hold {id:?} releases seat {index}, which is not its own");
        }
        let left = has.retain(|index| !seats.contains(&index));
        let count = left.indexes().len();
        assert_eq!(has.indexes().len(), count + seats.len(), "hold {id:?} releases a seat twice");
        self.held.take_all(seats);
        self.counts.held -= seats.len() as u32;
        let left = (count > 0).then_some(Share::Seats(left));
        self.holds.release(id, revision, left, how);
    }

    pub(super) fn release_places(&mut self, id: HoldId, revision: u64, left: u32, how: (bool, Option<Timestamp>)) {
        let Share::Places { area, quantity, price } = self.holds.released(id).clone() else {
            panic!("{id:?} has seats, not places")
        };
        assert!(left <= quantity, "{id:?} releases down to {left} and has {quantity}");
        self.places[usize::from(area)].hold(quantity, left);
        let left = (left > 0).then_some(Share::Places { area, quantity: left, price });
        self.holds.release(id, revision, left, how);
    }

    pub(super) fn sell_seats(
        &mut self,
        id: HoldId,
        at: (Timestamp, Option<Timestamp>),
        version: u64,
        seats: &[u32],
        all: u32,
    ) {
        let what = self.holds.sell(id, at, version);
        assert_eq!(what.seats(), seats, "hold {id:?} is sold with other seats than it has");
        self.held.take_all(seats);
        self.sold.add_all(seats, all);
        self.counts.held -= seats.len() as u32;
        self.counts.sold += seats.len() as u32;
    }

    pub(super) fn sell_places(&mut self, id: HoldId, at: (Timestamp, Option<Timestamp>), version: u64, quantity: u32) {
        let (area, has) = places(&self.holds.sell(id, at, version), id);
        assert_eq!(has, quantity, "hold {id:?} is sold with other places than it has");
        self.places[usize::from(area)].sell(quantity);
    }

    pub(super) fn refund(&mut self, id: HoldId, seats: &[u32]) {
        let refunded = self.holds.refund(id);
        let (Refunded::Sale(share) | Refunded::Hold(share)) = &refunded;
        assert_eq!(share.seats(), seats, "hold {id:?} is refunded with other seats than it had");
        match share {
            Share::Places { area, quantity, .. } => {
                let (area, quantity) = (usize::from(*area), *quantity);
                self.places[area].refund(refunded.map(|_| quantity));
            }
            Share::Seats(_) => {
                let (bits, count) = match refunded {
                    Refunded::Sale(_) => (&mut self.sold, &mut self.counts.sold),
                    Refunded::Hold(_) => (&mut self.held, &mut self.counts.held),
                };
                bits.take_all(seats);
                *count -= seats.len() as u32;
            }
        }
    }

    pub(super) fn block(&mut self, indexes: &[u32], seats: u32) {
        for &index in indexes {
            assert_eq!(self.state(index), SeatState::Free, "blocked although not free: {index}");
        }
        self.blocked.add_all(indexes, seats);
        self.counts.blocked += indexes.len() as u32;
    }

    pub(super) fn unblock(&mut self, indexes: &[u32]) {
        self.blocked.take_all(indexes);
        self.counts.blocked -= indexes.len() as u32;
    }

    pub(super) fn is_blank(&self) -> bool {
        self.holds.is_blank() && self.changes.is_empty() && self.counts.blocked == 0 && self.canceled.is_none()
    }

    /// What is held and sold.
    pub(super) fn shares(&self) -> impl Iterator<Item = &Share> {
        let live = self.holds.all_live().map(|(_, hold)| &hold.what);
        live.chain(self.holds.all_sales().map(|(_, sale)| &sale.what))
    }

    /// Computes what is not serialized.
    pub(super) fn rebuild(&mut self, seats: u32, areas: usize) {
        self.holds.rebuild();
        self.open(areas);
        let Book { holds, held, sold, counts, places, .. } = self;
        let live = holds.all_live().map(|(_, hold)| (&hold.what, false));
        let sales = holds.all_sales().map(|(_, sale)| (&sale.what, true));
        for (share, is_sold) in live.chain(sales) {
            match share {
                Share::Seats(list) => {
                    let (bits, count) =
                        if is_sold { (&mut *sold, &mut counts.sold) } else { (&mut *held, &mut counts.held) };
                    let indexes = list.indexes();
                    bits.add_all(indexes, seats);
                    *count += indexes.len() as u32;
                }
                Share::Places { area, quantity, .. } => {
                    let taken = &mut places[usize::from(*area)];
                    let count = if is_sold { &mut taken.sold } else { &mut taken.held };
                    *count += u64::from(*quantity);
                }
            }
        }
        self.counts.blocked = self.blocked.count();
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let shares: usize = self.shares().map(Share::heap_bytes).sum();
        let bits = self.held.heap_bytes() + self.sold.heap_bytes() + self.blocked.heap_bytes();
        shares + bits + self.holds.heap_bytes() + size_of_val(&*self.places) + self.changes.heap_bytes()
    }
}

/// Area and quantity of a share of places.
fn places(share: &Share, hold: HoldId) -> (u16, u32) {
    match share {
        Share::Places { area, quantity, .. } => (*area, *quantity),
        Share::Seats(_) => panic!("{hold:?} has seats, not places"),
    }
}

/// A word with each bit at twice its place.
fn spread(word: u64) -> u128 {
    let mut wide = u128::from(word);
    wide = (wide | wide << 32) & 0x0000_0000_ffff_ffff_0000_0000_ffff_ffff;
    wide = (wide | wide << 16) & 0x0000_ffff_0000_ffff_0000_ffff_0000_ffff;
    wide = (wide | wide << 8) & 0x00ff_00ff_00ff_00ff_00ff_00ff_00ff_00ff;
    wide = (wide | wide << 4) & 0x0f0f_0f0f_0f0f_0f0f_0f0f_0f0f_0f0f_0f0f;
    wide = (wide | wide << 2) & 0x3333_3333_3333_3333_3333_3333_3333_3333;
    (wide | wide << 1) & 0x5555_5555_5555_5555_5555_5555_5555_5555
}

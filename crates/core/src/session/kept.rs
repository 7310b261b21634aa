//! The seats of allotments that are not released: whose they are, and how many of them are free.

use alloc::{boxed::Box, vec, vec::Vec};

use super::{SessionTerms, book::Book};
use crate::{command::Allotment, id::Id, layout::Layout, seat::SeatState};

/// In place of the number of an allotment: the seat is in none, or in one that is released.
const NONE: u16 = 0;

/// Which seats are kept. It follows from the terms, from what is released, and from the holds and sales.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// By seat one more than the number of its allotment. Empty if no seat is kept.
    of_seat: Box<[u16]>,
    /// 64 seats each, a kept one as a set bit. Empty if no seat is kept.
    words: Box<[u64]>,
}

impl Kept {
    /// The seats that are kept for allotments that are not released.
    pub(super) fn new(terms: &SessionTerms, is_released: impl Fn(&Allotment) -> bool) -> Kept {
        let all = terms.offering().map_or(&[][..], |offering| &offering.allotments);
        if all.iter().all(&is_released) {
            return Kept::default();
        }
        let layout = &*terms.layout;
        let seats = layout.seats() as usize;
        let mut kept =
            Kept { of_seat: vec![NONE; seats].into(), words: vec![0; seats.div_ceil(64)].into_boxed_slice() };
        for (number, allotment) in (1..).zip(all).filter(|(_, allotment)| !is_released(allotment)) {
            // Each was looked up when the terms were checked.
            for index in allotment.seats.iter().filter_map(|seat| layout.index(*seat)) {
                kept.of_seat[index as usize] = number;
                kept.words[index as usize / 64] |= 1 << (index % 64);
            }
        }
        kept
    }

    /// The number of the allotment that a seat is kept for.
    pub(super) fn allotment_of(&self, index: u32) -> Option<u16> {
        self.of_seat.get(index as usize)?.checked_sub(1)
    }

    /// 64 seats, a kept one as a set bit.
    pub(super) fn word(&self, number: u32) -> u64 {
        self.words.get(number as usize).copied().unwrap_or_default()
    }

    /// 64 seats, one that is kept for one of these allotments as a set bit.
    pub(super) fn word_of(&self, number: u32, allotments: &[u16]) -> u64 {
        let of_these = |bit: &u32| self.allotment_of(number * 64 + bit).is_some_and(|of| allotments.contains(&of));
        match self.word(number) {
            0 => 0,
            _ => (0..64).filter(of_these).fold(0, |word, bit| word | 1 << bit),
        }
    }

    /// How many kept seats are free otherwise, by number of their allotment.
    pub(super) fn free(&self, book: Option<&Book>, allotments: usize) -> Box<[u32]> {
        let mut free = vec![0; allotments].into_boxed_slice();
        for (index, _) in (0..).zip(&*self.of_seat).filter(|(_, of)| **of != NONE) {
            if book.is_none_or(|book| book.state(index) == SeatState::Free) {
                let number = self.allotment_of(index).expect("filtered");
                free[usize::from(number)] += 1;
            }
        }
        free
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.of_seat) + size_of_val(&*self.words)
    }
}

/// The accessible seats beside a seat.
pub(super) fn accessible_beside(layout: &Layout, index: u32) -> impl Iterator<Item = u32> {
    let beside = [layout.left_neighbour(index), layout.right_neighbour(index)];
    beside.into_iter().flatten().filter(|seat| layout.accessible(*seat))
}

/// The seats whose allotments are among these, in the order of their indexes.
pub(super) fn seats_of(terms: &SessionTerms, ids: &[Id]) -> Vec<u32> {
    let all = terms.offering().map_or(&[][..], |offering| &offering.allotments);
    let named = all.iter().filter(|allotment| ids.contains(&allotment.id));
    let seats = named.flat_map(|allotment| &allotment.seats);
    let mut seats: Vec<u32> = seats.filter_map(|seat| terms.layout.index(*seat)).collect();
    seats.sort_unstable();
    seats
}

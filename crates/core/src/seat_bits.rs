//! A set of seats of one layout, one bit a seat.

use alloc::{boxed::Box, vec};

use serde::{Deserialize, Serialize};

/// Seats by index. Empty sets own no memory.
#[derive(Clone, Debug, Default, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SeatBits {
    words: Box<[u64]>,
}

impl PartialEq for SeatBits {
    /// Compares the words. Missing words are empty.
    fn eq(&self, other: &SeatBits) -> bool {
        let words = self.words.len().max(other.words.len()) as u32;
        (0..words).all(|number| self.word(number) == other.word(number))
    }
}

impl SeatBits {
    /// Whether the seat is in the set.
    pub(crate) fn has(&self, index: u32) -> bool {
        self.word(index / 64) >> (index % 64) & 1 == 1
    }

    /// Adds a seat that is not in the set yet, of a layout of `seats` seats.
    pub(crate) fn add(&mut self, index: u32, seats: u32) {
        assert!(index < seats, "seat {index} of a layout of {seats}");
        if self.words.is_empty() {
            self.words = vec![0; seats.div_ceil(64) as usize].into_boxed_slice();
        }
        assert!(!self.has(index), "seat {index} is in the set already");
        self.words[(index / 64) as usize] |= 1 << (index % 64);
    }

    /// Removes a seat that is in the set.
    pub(crate) fn take(&mut self, index: u32) {
        assert!(self.has(index), "seat {index} is not in the set");
        self.words[(index / 64) as usize] &= !(1 << (index % 64));
    }

    /// The bits of seats `64 × number` to `64 × number + 63`, the first in the lowest bit.
    pub(crate) fn word(&self, number: u32) -> u64 {
        self.words.get(number as usize).copied().unwrap_or(0)
    }

    /// The number of seats in the set, counted anew.
    pub(crate) fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::SeatBits;

    #[test]
    fn seats_come_and_go_and_an_empty_set_owns_nothing() {
        let mut bits = SeatBits::default();
        assert_eq!((bits.has(899), bits.count(), bits.heap_bytes()), (false, 0, 0));
        for index in [0, 63, 64, 899] {
            bits.add(index, 900);
        }
        assert_eq!((bits.has(63), bits.has(62), bits.count(), bits.heap_bytes()), (true, false, 4, 120));
        bits.take(63);
        assert_eq!((bits.has(63), bits.count(), bits.word(14)), (false, 3, 1 << 3));
    }

    #[test]
    #[should_panic(expected = "seat 5 is in the set already")]
    fn adding_a_seat_twice_panics() {
        let mut bits = SeatBits::default();
        bits.add(5, 10);
        bits.add(5, 10);
    }
}

//! The number of intervals at each instant, in one sweep over intervals in the order of their beginnings.

use alloc::collections::BinaryHeap;
use core::{cmp::Reverse, iter::Peekable};

/// A stretch of time during which the number of intervals stays the same and is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) count: usize,
}

/// The levels, in order and without overlap. Stretches with no interval are left out.
pub(super) struct Profile<I: Iterator<Item = (u64, u64)>> {
    intervals: Peekable<I>,
    /// The ends of the intervals that are under way.
    ends: BinaryHeap<Reverse<u64>>,
    at: u64,
}

impl<I: Iterator<Item = (u64, u64)>> Profile<I> {
    /// The profile of half-open intervals. They are not empty, and come in the order of their beginnings.
    pub(super) fn new(intervals: I) -> Profile<I> {
        Profile { intervals: intervals.peekable(), ends: BinaryHeap::new(), at: 0 }
    }
}

impl<I: Iterator<Item = (u64, u64)>> Iterator for Profile<I> {
    type Item = Level;

    fn next(&mut self) -> Option<Level> {
        while self.ends.peek().is_some_and(|end| end.0 <= self.at) {
            self.ends.pop();
        }
        if self.ends.is_empty() {
            let (begin, _) = *self.intervals.peek()?;
            assert!(begin >= self.at, "intervals come in the order of their beginnings: {begin} after {}", self.at);
            self.at = begin;
        }
        while let Some((_, end)) = self.intervals.next_if(|(begin, _)| *begin <= self.at) {
            assert!(end > self.at, "an empty interval at {end}");
            self.ends.push(Reverse(end));
        }
        let ends = self.ends.peek().expect("one is under way").0;
        let end = self.intervals.peek().map_or(ends, |(begin, _)| ends.min(*begin));
        let level = Level { begin: self.at, end, count: self.ends.len() };
        self.at = end;
        Some(level)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::{Level, Profile};

    fn levels(intervals: &[(u64, u64)]) -> Vec<(u64, u64, usize)> {
        let of = |Level { begin, end, count }| (begin, end, count);
        Profile::new(intervals.iter().copied()).map(of).collect()
    }

    #[test]
    fn overlapping_intervals_are_counted() {
        assert_eq!(levels(&[]), []);
        assert_eq!(levels(&[(2, 5)]), [(2, 5, 1)]);
        assert_eq!(
            levels(&[(0, 4), (0, 2), (3, 9), (12, 13)]),
            [(0, 2, 2), (2, 3, 1), (3, 4, 2), (4, 9, 1), (12, 13, 1)]
        );
    }

    #[test]
    fn adjacent_intervals_do_not_overlap() {
        assert_eq!(levels(&[(1, 3), (3, 5)]), [(1, 3, 1), (3, 5, 1)]);
    }
}

//! The choice of the best available seats for a buyer that names none.
//!
//! The choice is a run of n neighbouring free seats in one row, of the wanted category and section, with exactly the wanted
//! number of accessible seats. Runs that would strand a single free seat come last. Among the rest the smallest sum of
//! distances to the focal point wins. Ties go to the front, then to the left. Without such a run there is no choice, unless the
//! wish allows a split. A split is as even as it can be, and leaves one of the party alone only if there is no other way.

use alloc::vec::Vec;
use core::mem;

use smol_str::format_smolstr;

use crate::{
    command::BestWish,
    layout::{Layout, Row},
    planted,
    refusal::Refusal,
    seat::HOLD_SEATS_MAX,
};

/// How many ways to split a party with accessible seats are tried before the longest runs are taken. Without such seats the first way
/// always fits.
const SPLITS_TRIED: usize = 8;

/// The best seats for a wish, ascending by index. `free` gives 64 seats a word, the first in the lowest bit.
///
/// # Errors
/// [`Refusal::BadRequest`] if the wish is out of bounds, [`Refusal::NotFound`] if the layout has no such category or section,
/// [`Refusal::NoAdjacentSeats`] if there are no such seats.
pub(crate) fn choose(layout: &Layout, free: impl Fn(u32) -> u64, wish: &BestWish) -> Result<Vec<u32>, Refusal> {
    let count = usize::from(wish.count);
    if !(1..=HOLD_SEATS_MAX).contains(&count) || wish.accessible > wish.count {
        let text = format_smolstr!("best available gives 1 to {HOLD_SEATS_MAX} seats, and no more of them accessible");
        return Err(Refusal::BadRequest(text));
    }
    let mut search = Search::new(layout, free, wish)?;
    if let Some(run) = search.best_run(count, usize::from(wish.accessible)) {
        return Ok((run.first..run.first + u32::from(wish.count)).collect());
    }
    if wish.split
        && let Some(seats) = search.split(count, usize::from(wish.accessible))
    {
        return Ok(seats);
    }
    // A split that found too few seats has taken none.
    search.taken.clear();
    let free = search.fitting_free();
    // Without a wish for accessible or adjacent seats, any seats do.
    let any_do = (wish.split || count == 1) && wish.accessible == 0;
    debug_assert!(!any_do || free < u32::from(wish.count), "{wish:?} is refused although {free} such seats are free");
    Err(Refusal::NoAdjacentSeats { count: wish.count, free })
}

/// A run that fits, with its score. The smallest score is the best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    strands: bool,
    distance: u64,
    first: u32,
}

struct Search<'a, F> {
    layout: &'a Layout,
    free: F,
    category: Option<u8>,
    wish: &'a BestWish,
    /// Seats taken by earlier pieces of a split.
    taken: Vec<u32>,
}

impl<'a, F: Fn(u32) -> u64> Search<'a, F> {
    fn new(layout: &'a Layout, free: F, wish: &'a BestWish) -> Result<Search<'a, F>, Refusal> {
        let category = match &wish.category {
            None => None,
            Some(name) => match layout.category_ordinal(name) {
                Some(ordinal) => Some(ordinal),
                None => return Err(Refusal::NotFound(format_smolstr!("category {name}"))),
            },
        };
        if let Some(name) = &wish.section
            && !layout.rows().iter().any(|row| row.section.as_ref() == Some(name))
        {
            return Err(Refusal::NotFound(format_smolstr!("section {name}")));
        }
        Ok(Search { layout, free, category, wish, taken: Vec::new() })
    }

    /// The best run of `count` seats of which exactly `accessible` are accessible.
    fn best_run(&self, count: usize, accessible: usize) -> Option<Candidate> {
        let mut best: Option<Candidate> = None;
        for (number, row) in self.layout.rows().iter().enumerate() {
            let row_number = number as u16;
            let least = u64::from(self.layout.nearest(row_number)) * count as u64;
            // No run of a row is better than all its seats at the place of the nearest one.
            let hopeless = best.is_some_and(|best| !best.strands && best.distance <= least);
            if !hopeless && self.in_section(row) {
                self.best_in_row(row_number, count, accessible, &mut best);
            }
        }
        best
    }

    /// Slides a window along a row. The `length` seats up to `index` are neighbours, free, and fit.
    fn best_in_row(&self, row: u16, count: usize, accessible: usize, best: &mut Option<Candidate>) {
        let spots = self.layout.row_spots(row);
        if spots.len() < count {
            return;
        }
        let start = self.layout.row_seats(row).start;
        let (mut length, mut distance, mut wheelchairs) = (0, 0u64, 0);
        let mut word = self.free_word(start) >> (start % 64);
        let crosses = planted::is("an aisle is crossed");
        for (place, spot) in spots.iter().enumerate() {
            let index = start + place as u32;
            if index.is_multiple_of(64) {
                word = self.free_word(index);
            }
            let fits = word & 1 == 1 && self.fits(spot.category);
            word >>= 1;
            if !fits {
                (length, distance, wheelchairs) = (0, 0, 0);
                continue;
            }
            if !spot.joined && !crosses {
                (length, distance, wheelchairs) = (0, 0, 0);
            }
            if length == count {
                let left = &spots[place - count];
                distance -= u64::from(left.distance);
                wheelchairs -= usize::from(left.accessible);
                length -= 1;
            }
            length += 1;
            distance += u64::from(spot.distance);
            wheelchairs += usize::from(spot.accessible);
            if length == count && wheelchairs == accessible {
                self.consider(index + 1 - count as u32, index, distance, best);
            }
        }
    }

    fn consider(&self, first: u32, last: u32, distance: u64, best: &mut Option<Candidate>) {
        // Windows that cannot win are skipped early.
        let hopeful = Candidate { strands: false, distance, first };
        if best.is_some_and(|best| best <= hopeful) {
            return;
        }
        let candidate = Candidate { strands: self.strands(first, last), ..hopeful };
        if best.is_none_or(|best| candidate < best) {
            *best = Some(candidate);
        }
    }

    /// Whether taking `first..=last` leaves a free seat beside it that has no free neighbour any more.
    fn strands(&self, first: u32, last: u32) -> bool {
        if planted::is("single seats left beside a party") {
            return false;
        }
        let alone =
            |seat: u32, beyond: Option<u32>| self.is_free(seat) && !beyond.is_some_and(|seat| self.is_free(seat));
        let left = self.layout.left_neighbour(first);
        let right = self.layout.right_neighbour(last);
        left.is_some_and(|seat| alone(seat, self.layout.left_neighbour(seat)))
            || right.is_some_and(|seat| alone(seat, self.layout.right_neighbour(seat)))
    }

    /// The seats of a party in several runs, which are as even as they can be. The longest run chooses its place first, and accessible
    /// seats go into the earliest run that takes them.
    fn split(&mut self, count: usize, accessible: usize) -> Option<Vec<u32>> {
        if planted::is("a split that leaves one alone") {
            return self.longest_first(count, accessible);
        }
        let runs = self.longest_runs(count, accessible > 0);
        let (mut seats, mut tried) = (None, 0);
        even_splits(count, &runs, &mut |lengths| {
            seats = self.place(lengths, accessible);
            tried += 1;
            debug_assert!(accessible > 0 || seats.is_some(), "{lengths:?} do not fit into {runs:?}");
            seats.is_some() || tried == SPLITS_TRIED
        });
        // Runs do not say where their accessible seats are, so a way that should fit may not.
        seats.or_else(|| if accessible > 0 { self.longest_first(count, accessible) } else { None })
    }

    /// The best seats for pieces of these lengths, which ascend. The longest is placed first, and then the others fit all the same: they
    /// are no longer, and there is a run for each.
    fn place(&mut self, lengths: &[usize], accessible: usize) -> Option<Vec<u32>> {
        let (mut plain_left, mut accessible_left) = (lengths.iter().sum::<usize>() - accessible, accessible);
        for &length in lengths.iter().rev() {
            let least = length.saturating_sub(plain_left);
            let mut numbers = (least..=length.min(accessible_left)).rev();
            let found = numbers.find_map(|number| self.best_run(length, number).map(|run| (number, run)));
            let Some((run_accessible, run)) = found else {
                self.taken.clear();
                return None;
            };
            plain_left -= length - run_accessible;
            accessible_left -= run_accessible;
            self.taken.extend(run.first..run.first + length as u32);
        }
        Some(self.take())
    }

    /// The seats of several runs, each as long as it can be.
    fn longest_first(&mut self, count: usize, accessible: usize) -> Option<Vec<u32>> {
        let (mut plain_left, mut accessible_left, mut longest) = (count - accessible, accessible, count);
        while plain_left + accessible_left > 0 {
            let (length, run_accessible, run) = self.longest_piece(plain_left, accessible_left, longest)?;
            plain_left -= length - run_accessible;
            accessible_left -= run_accessible;
            // A later piece cannot be longer, because it would have been found now.
            longest = length;
            self.taken.extend(run.first..run.first + length as u32);
        }
        Some(self.take())
    }

    fn longest_piece(&self, plain: usize, accessible: usize, longest: usize) -> Option<(usize, usize, Candidate)> {
        for length in (1..=longest.min(plain + accessible)).rev() {
            for run_accessible in (0..=length.min(accessible)).rev() {
                if length - run_accessible <= plain
                    && let Some(run) = self.best_run(length, run_accessible)
                {
                    return Some((length, run_accessible, run));
                }
            }
        }
        None
    }

    /// The seats that the pieces of a split have taken, ascending.
    fn take(&mut self) -> Vec<u32> {
        let mut seats = mem::take(&mut self.taken);
        seats.sort_unstable();
        seats
    }

    /// The lengths of the longest runs of free seats that fit, the longest first: at most `count` runs, none counted as longer than that.
    /// Accessible seats end a run unless it may be `mixed`.
    fn longest_runs(&self, count: usize, mixed: bool) -> Vec<usize> {
        let mut by_length = [0_usize; HOLD_SEATS_MAX + 1];
        for (number, row) in self.layout.rows().iter().enumerate() {
            if !self.in_section(row) {
                continue;
            }
            let start = self.layout.row_seats(number as u16).start;
            let mut word = self.free_word(start) >> (start % 64);
            let mut length = 0;
            for (index, spot) in (start..).zip(self.layout.row_spots(number as u16)) {
                if index.is_multiple_of(64) {
                    word = self.free_word(index);
                }
                let fits = word & 1 == 1 && self.fits(spot.category) && (mixed || !spot.accessible);
                word >>= 1;
                if !fits || !spot.joined {
                    by_length[length.min(count)] += 1;
                    length = 0;
                }
                length += usize::from(fits);
            }
            by_length[length.min(count)] += 1;
        }
        let longest_first = by_length.iter().enumerate().skip(1).rev();
        longest_first.flat_map(|(length, runs)| core::iter::repeat_n(length, *runs)).take(count).collect()
    }

    /// How many free seats fit the wish, neighbours or not.
    fn fitting_free(&self) -> u32 {
        let fitting = |index: &u32| {
            let seat_accessible = self.layout.accessible(*index);
            self.is_free(*index)
                && self.fits(self.layout.category(*index))
                && (self.wish.accessible > 0 || !seat_accessible)
        };
        let rows = self.layout.rows().iter().enumerate().filter(|(_, row)| self.in_section(row));
        rows.map(|(number, _)| self.layout.row_seats(number as u16).filter(fitting).count() as u32).sum()
    }

    fn in_section(&self, row: &Row) -> bool {
        self.wish.section.is_none() || row.section == self.wish.section
    }

    fn fits(&self, category: u8) -> bool {
        self.category.is_none_or(|wanted| wanted == category)
    }

    fn is_free(&self, index: u32) -> bool {
        self.free_word(index) >> (index % 64) & 1 == 1
    }

    fn free_word(&self, index: u32) -> u64 {
        let number = index / 64;
        let mut word = (self.free)(number);
        for &seat in &self.taken {
            if seat / 64 == number {
                word &= !(1 << (seat % 64));
            }
        }
        word
    }
}

/// Calls `takes` with the ways to split a party over runs of these lengths, of which the longest comes first, until it takes one. A way is
/// the lengths of its pieces, ascending. First come those that leave the fewest people alone, of these those with the fewest pieces, and
/// of these the most even ones.
fn even_splits(count: usize, runs: &[usize], takes: &mut impl FnMut(&[usize]) -> bool) {
    let most_singles = if planted::is("a split without single seats") { 0 } else { count };
    let mut lengths = Vec::with_capacity(count);
    for singles in 0..=most_singles {
        for pieces in singles.max(2)..=count.min(runs.len()) {
            lengths.clear();
            lengths.resize(singles, 1);
            if even_lengths(&mut lengths, count - singles, &runs[..pieces - singles], takes) {
                return;
            }
        }
    }
}

/// Adds a length of two or more for each of these runs, which are `rest` together. The shortest run is filled first, with as much of its
/// equal share as it has room for, so the first way that is found is the most even one.
fn even_lengths(
    lengths: &mut Vec<usize>,
    rest: usize,
    runs: &[usize],
    takes: &mut impl FnMut(&[usize]) -> bool,
) -> bool {
    let Some((shortest, longer)) = runs.split_last() else {
        return rest == 0 && takes(lengths);
    };
    if runs.iter().sum::<usize>() < rest {
        return false;
    }
    let least = lengths.last().map_or(2, |last| *last.max(&2));
    let most = (rest / runs.len()).min(*shortest);
    for length in (least..=most).rev() {
        lengths.push(length);
        if even_lengths(lengths, rest - length, longer, takes) {
            return true;
        }
        lengths.pop();
    }
    false
}

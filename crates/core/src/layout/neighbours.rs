//! Which seats of a row are neighbours, by the points that a plan gives them.
//!
//! Many plans show an aisle by coordinates alone. So two consecutive seats with points are neighbours only if they are about as far
//! from each other as the seats of their row usually are. They are compared with their row and not with the width of a seat, so
//! that a plan in a wrong unit still has neighbours.

use alloc::{collections::BTreeMap, vec::Vec};
use core::ops::RangeInclusive;

use super::{FOCAL_DEFAULT, Layout, POINT_MAX, Point, Row, Spot};
use crate::{id::Id, planted};

/// The [pitches](Layout::pitch) of plans in the unit of points, in hundredths of a seat's width. Another pitch is most likely one in
/// another unit.
pub const PITCH_USUAL: RangeInclusive<u32> = 80..=130;

/// A row with fewer distances takes the usual distance of its section, because an aisle may be half of its own.
const DISTANCES_MIN: usize = 3;

impl Layout {
    /// The median distance of consecutive seats that have points and no gap between them, in hundredths of a seat's width, rounded
    /// down. `None` if there are no such seats. A plan whose pitch is not in [`PITCH_USUAL`] is probably in another unit.
    pub fn pitch(&self) -> Option<u32> {
        let rows = self.rows.iter().zip(&self.starts);
        let pairs = rows.flat_map(|(row, first)| pairs(row, *first, &self.spots));
        let mut squares: Vec<u64> = pairs.map(|(_, square)| square).filter(|square| *square > 0).collect();
        median(&mut squares).map(|square| square.isqrt() as u32)
    }

    /// How many consecutive seats are no neighbours because of their points, although no gap stands between them.
    pub fn parted_by_points(&self) -> u32 {
        let rows = self.rows.iter().zip(&self.starts);
        let pairs = rows.flat_map(|(row, first)| pairs(row, *first, &self.spots));
        pairs.filter(|(second, _)| !self.spot(*second).joined).count() as u32
    }
}

/// Parts seats that are too far from each other for neighbours.
pub(super) fn part(rows: &[Row], starts: &[u32], spots: &mut [Spot]) {
    if planted::is("points ignored") {
        return;
    }
    let mut found: Vec<(u32, u64)> = Vec::new();
    let mut squares = Vec::new();
    let mut short = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        if row.runs.iter().all(|run| run.points.is_empty()) {
            continue;
        }
        found.clear();
        found.extend(pairs(row, starts[number], spots));
        squares.clear();
        squares.extend(found.iter().map(|(_, square)| *square).filter(|square| *square > 0));
        if squares.len() < DISTANCES_MIN {
            short.push(number);
        } else {
            part_row(&found, median(&mut squares), spots);
        }
    }
    let mut sections: BTreeMap<Option<&Id>, Vec<u64>> = BTreeMap::new();
    for &number in &short {
        sections.entry(rows[number].section.as_ref()).or_default();
    }
    if sections.is_empty() {
        return;
    }
    for (row, first) in rows.iter().zip(starts) {
        if let Some(squares) = sections.get_mut(&row.section.as_ref()) {
            squares.extend(pairs(row, *first, spots).map(|(_, square)| square).filter(|square| *square > 0));
        }
    }
    let usual: BTreeMap<Option<&Id>, Option<u64>> =
        sections.into_iter().map(|(section, mut squares)| (section, median(&mut squares))).collect();
    for number in short {
        found.clear();
        found.extend(pairs(&rows[number], starts[number], spots));
        part_row(&found, usual[&rows[number].section.as_ref()], spots);
    }
}

/// The middle of the front edge of all points, which is where pages draw the stage. Without points it is the usual focal point.
pub(super) fn stage(rows: &[Row]) -> Point {
    let mut points = rows.iter().flat_map(|row| &row.runs).flat_map(|run| &run.points);
    let Some(first) = points.next() else { return FOCAL_DEFAULT };
    let (mut left, mut right, mut front) = (first.x, first.x, first.y);
    for point in points {
        (left, right, front) = (left.min(point.x), right.max(point.x), front.min(point.y));
    }
    // Points that are too far out are refused later.
    let inside = |value: i32| value.clamp(-POINT_MAX, POINT_MAX);
    Point { x: i32::midpoint(inside(left), inside(right)), y: inside(front) }
}

/// Consecutive seats of a row that have points and no gap between them: the index of the second one, and the square of their
/// distance.
fn pairs(row: &Row, first: u32, spots: &[Spot]) -> impl Iterator<Item = (u32, u64)> {
    let mut next = first;
    let mut pointed_before = false;
    row.runs.iter().flat_map(move |run| {
        let begin = next;
        next += u32::from(run.count);
        let pointed = !run.points.is_empty();
        let goes_on = pointed_before && run.gap == 0;
        pointed_before = pointed;
        let seconds = match (pointed, goes_on) {
            (false, _) => next..next,
            (true, false) => begin + 1..next,
            (true, true) => begin..next,
        };
        seconds.map(move |second| (second, square(spots[second as usize - 1].point, spots[second as usize].point)))
    })
}

/// The square of a distance. Points are in reach, so it is far from overflowing, also ninefold.
fn square(one: Point, other: Point) -> u64 {
    let (wide, deep) = (u64::from(one.x.abs_diff(other.x)), u64::from(one.y.abs_diff(other.y)));
    wide * wide + deep * deep
}

/// The lower one of two medians, because an aisle is longer than the distance of neighbours.
fn median(squares: &mut [u64]) -> Option<u64> {
    let middle = squares.len().checked_sub(1)? / 2;
    Some(*squares.select_nth_unstable(middle).1)
}

/// Parts seats at more than one and a half of the usual distance, whose square is given.
fn part_row(found: &[(u32, u64)], usual: Option<u64>, spots: &mut [Spot]) {
    let Some(usual) = usual else { return };
    for &(second, square) in found {
        if 4 * square > 9 * usual {
            spots[second as usize].joined = false;
        }
    }
}

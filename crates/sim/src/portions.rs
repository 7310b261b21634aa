//! What lines have, as buyers reckon with it.

use std::collections::BTreeMap;

use boxoffice_core::{answer::LineView, portion::Content, seat::Seat};

/// The seats of a line; none if it has something else.
pub(crate) fn seats_of(content: &Content) -> Vec<Seat> {
    match content {
        Content::Seats(seats) => seats.iter().map(|priced| priced.seat).collect(),
        Content::Places { .. } | Content::Units { .. } | Content::Slot { .. } => Vec::new(),
    }
}

/// A line has so many left; none ends it.
pub(crate) fn shrink(lines: &mut BTreeMap<u32, LineView>, line: u32, left: u32) {
    match lines.get_mut(&line).map(|line| &mut line.content) {
        Some(Content::Places { quantity, .. } | Content::Units { quantity, .. }) if left > 0 => *quantity = left,
        Some(_) => _ = lines.remove(&line),
        None => {}
    }
}

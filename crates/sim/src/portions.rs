//! The portions of lines.

use std::collections::BTreeMap;

use boxoffice_core::{answer::LineView, portion::Content, seat::Seat};

/// The seats of a line, empty for other lines.
pub(crate) fn seats_of(content: &Content) -> Vec<Seat> {
    match content {
        Content::Seats(seats) => seats.iter().map(|priced| priced.seat).collect(),
        Content::Places { .. } | Content::Units { .. } | Content::Slot { .. } => Vec::new(),
    }
}

/// Reduces a line to `left` units. 0 removes it.
pub(crate) fn shrink(lines: &mut BTreeMap<u32, LineView>, line: u32, left: u32) {
    match lines.get_mut(&line).map(|line| &mut line.content) {
        Some(Content::Places { quantity, .. } | Content::Units { quantity, .. }) if left > 0 => *quantity = left,
        Some(_) => _ = lines.remove(&line),
        None => {}
    }
}

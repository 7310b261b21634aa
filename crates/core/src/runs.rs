//! The runs of a row whose seats are told one by one.

use alloc::vec::Vec;

use smol_str::{SmolStr, format_smolstr};

use crate::{
    id::Id,
    layout::{Labels, Point, Run},
};

/// A seat that is told by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SingleSeat {
    pub label: SmolStr,
    pub category: Id,
    pub accessible: bool,
    pub point: Option<Point>,
}

/// The gap before a seat is wider than 65 535 seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a gap is too wide")]
pub struct GapTooWide;

/// The runs of a row. Neighbours of the same category and accessibility form a run, and `None` is a gap one seat wide.
///
/// # Errors
/// [`GapTooWide`].
pub fn of_seats(seats: impl IntoIterator<Item = Option<SingleSeat>>) -> Result<Vec<Run>, GapTooWide> {
    let mut runs: Vec<Run> = Vec::new();
    let mut gap = 0u16;
    for seat in seats {
        let Some(SingleSeat { label, category, accessible, point }) = seat else {
            gap = gap.checked_add(1).ok_or(GapTooWide)?;
            continue;
        };
        let goes_on = gap == 0
            && runs.last().is_some_and(|run| {
                run.category == category
                    && run.accessible == accessible
                    && run.points.is_empty() == point.is_none()
                    && run.count < u16::MAX
            });
        if !goes_on {
            let labels = Labels::Names(Vec::new());
            runs.push(Run { gap, count: 0, labels, category, accessible, points: Vec::new() });
        }
        gap = 0;
        let run = runs.last_mut().expect("a run was just pushed or goes on");
        run.count += 1;
        run.points.extend(point);
        if let Labels::Names(names) = &mut run.labels {
            names.push(label);
        }
    }
    for run in &mut runs {
        if let Some(numbers) = numbered(&run.labels) {
            run.labels = numbers;
        }
    }
    Ok(runs)
}

/// The same labels as numbers, if that is what they are.
fn numbered(labels: &Labels) -> Option<Labels> {
    let Labels::Names(names) = labels else {
        return None;
    };
    let number = |name: &SmolStr| name.parse::<i32>().ok().filter(|number| format_smolstr!("{number}") == *name);
    let first = number(names.first()?)?;
    let step = match names.get(1) {
        Some(second) => number(second)?.checked_sub(first)?,
        None => 1,
    };
    let expected = |index: usize| i32::try_from(index).ok()?.checked_mul(step)?.checked_add(first);
    let all = names.iter().enumerate().all(|(index, name)| number(name).is_some() && number(name) == expected(index));
    all.then_some(Labels::Numbers { first, step })
}

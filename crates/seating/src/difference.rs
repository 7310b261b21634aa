//! The difference between two plans of a hall, seat by seat.

use std::{collections::BTreeMap, fmt};

use boxoffice_core::{
    id::Id,
    layout::{Layout, Point},
};
use smol_str::SmolStr;

/// A seat by its labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeatName {
    pub section: Option<Id>,
    pub row: SmolStr,
    pub seat: SmolStr,
}

impl fmt::Display for SeatName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(section) = &self.section {
            write!(f, "{section}/")?;
        }
        // `12` in row 3 must not be read as 312.
        let parts = self.row.ends_with(|last: char| last.is_ascii_digit())
            && self.seat.starts_with(|first: char| first.is_ascii_digit());
        write!(f, "{}{}{}", self.row, if parts { "-" } else { "" }, self.seat)
    }
}

/// What is different between two plans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanDifference {
    /// Seats that are only in the first plan, with their indexes there.
    pub removed: Vec<(SeatName, u32)>,
    /// Seats that are only in the second plan.
    pub added: Vec<SeatName>,
    /// Seats of both, with what is different, in words.
    pub changed: Vec<(SeatName, String)>,
    /// What is different besides, in words.
    pub other: Vec<String>,
}

impl PlanDifference {
    /// The difference from one plan to another.
    pub fn between(old: &Layout, new: &Layout) -> PlanDifference {
        let mut difference = PlanDifference::default();
        if old == new {
            return difference;
        }
        let (before, after) = (seats(old), seats(new));
        for (name, was) in &before {
            match after.get(name) {
                None => difference.removed.push((name.clone(), was.index)),
                Some(now) => {
                    if let Some(words) = changes((old, *was), (new, *now)) {
                        difference.changed.push((name.clone(), words));
                    }
                }
            }
        }
        difference.added = after.keys().filter(|name| !before.contains_key(*name)).cloned().collect();
        difference.removed.sort_by_key(|(_, index)| *index);
        difference.added.sort_by_key(|name| after[name].index);
        let common = |seats: &BTreeMap<SeatName, Seat>, others: &BTreeMap<SeatName, Seat>| {
            let both = seats.iter().filter(|(name, _)| others.contains_key(*name));
            let mut common: Vec<(u32, SeatName)> = both.map(|(name, seat)| (seat.index, name.clone())).collect();
            common.sort();
            common.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
        };
        if common(&before, &after) != common(&after, &before) {
            difference.other.push("the order of the seats".into());
        }
        if old.focal() != new.focal() {
            difference.other.push("the focal point".into());
        }
        if old.names() != new.names() {
            difference.other.push("names of sections or categories".into());
        }
        if difference == PlanDifference::default() {
            difference.other.push("gaps".into());
        }
        difference
    }

    /// Whether the plans are the same.
    pub fn is_empty(&self) -> bool {
        *self == PlanDifference::default()
    }

    /// Each difference in a few words.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let list = |what: &str, names: Vec<String>| (!names.is_empty()).then(|| format!("{what} {}", some(&names)));
        words.extend(list("taken out:", self.removed.iter().map(|(name, _)| name.to_string()).collect()));
        words.extend(list("new:", self.added.iter().map(SeatName::to_string).collect()));
        let mut by_words: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (name, words) in &self.changed {
            by_words.entry(words).or_default().push(name.to_string());
        }
        words.extend(by_words.into_iter().map(|(change, names)| format!("{change}: {}", some(&names))));
        words.extend(self.other.iter().map(|what| format!("different: {what}")));
        words
    }
}

/// The first names of a list, and how many more there are.
pub(crate) fn some(names: &[String]) -> String {
    const SHOWN: usize = 5;
    match names.len() {
        0..=SHOWN => names.join(", "),
        all => format!("{} and {} more", names[..SHOWN].join(", "), all - SHOWN),
    }
}

/// A seat of a plan.
#[derive(Clone, Copy)]
struct Seat {
    index: u32,
    /// The place that the plan tells. Seats of straight rows have none, because another seat moves them.
    point: Option<Point>,
}

fn seats(layout: &Layout) -> BTreeMap<SeatName, Seat> {
    let mut seats = BTreeMap::new();
    let mut index = 0;
    for row in layout.rows() {
        for run in &row.runs {
            for place in 0..usize::from(run.count) {
                let name =
                    SeatName { section: row.section.clone(), row: row.label.clone(), seat: layout.seat_label(index) };
                seats.insert(name, Seat { index, point: run.points.get(place).copied() });
                index += 1;
            }
        }
    }
    seats
}

/// What is different about a seat of both plans.
fn changes((old, before): (&Layout, Seat), (new, after): (&Layout, Seat)) -> Option<String> {
    let category = |layout: &Layout, seat: Seat| layout.categories()[usize::from(layout.category(seat.index))].clone();
    let (was, is) = (category(old, before), category(new, after));
    let mut changes = Vec::new();
    if was != is {
        changes.push(format!("category {is} instead of {was}"));
    }
    match (old.accessible(before.index), new.accessible(after.index)) {
        (true, false) => changes.push("no longer accessible".to_owned()),
        (false, true) => changes.push("now accessible".to_owned()),
        (true, true) | (false, false) => {}
    }
    if before.point != after.point {
        changes.push("another place".to_owned());
    }
    (!changes.is_empty()).then(|| changes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_seats;

    fn differences(old: &str, new: &str) -> Vec<String> {
        let layout = |text: &str| read_seats(text.as_bytes()).expect("a hall").seating.layout;
        PlanDifference::between(&layout(old), &layout(new)).words()
    }

    #[test]
    fn every_difference_of_a_plan_is_named() {
        let old =
            "row,seat,category,section,accessible,x,y\nA,1,a,s,,0,0\nA,2,a,s,,100,0\nA,3,a,s,,200,0\n1,2,a,,,0,100\n";
        assert_eq!(differences(old, old), Vec::<String>::new());
        for (new, words) in [
            (old.replace("A,2,a,s,,100,0\n", ""), vec!["taken out: s/A2"]),
            (old.replace("A,2,a", "A,9,a"), vec!["taken out: s/A2", "new: s/A9"]),
            (format!("{old}1,3,a,,,100,100\n"), vec!["new: 1-3"]),
            (old.replace("A,2,a", "A,2,b"), vec!["category b instead of a: s/A2"]),
            (old.replace("A,2,a,s,,", "A,2,a,s,yes,"), vec!["now accessible: s/A2"]),
            (old.replace(",100,0", ",110,0"), vec!["another place: s/A2"]),
            (old.replace("A,2,a,s,,100,0\n", "") + "A,2,a,s,,100,0\n", vec!["different: the order of the seats"]),
            (old.replace("A,2,a,s", "A,,,s,,,\nA,2,a,s"), vec!["different: gaps"]),
            (old.replace("A,2,a,s,,100,0", "A,2,a,s,,,"), vec!["another place: s/A2"]),
            (
                old.replace(",s,", ",Süd,"),
                vec![
                    "taken out: s/A1, s/A2, s/A3",
                    "new: sud/A1, sud/A2, sud/A3",
                    "different: names of sections or categories",
                ],
            ),
        ] {
            assert_eq!(differences(old, &new), words, "{new}");
        }
        // Straight rows are centred, so a seat less moves the others, although the file says nothing of them.
        assert_eq!(differences("A,1\nA,2\nA,3\n", "A,1\nA,2\n"), vec!["taken out: A3"]);
    }
}

//! The order of rows and seats in a spreadsheet that was sorted, as text or not at all.

use crate::plan::{Place, Plan, PlanRow, PlanSeat};

/// Sorts rows and seats that are in text order (1, 10, 2) by number, and warns of an order that no house has.
pub(crate) fn mend(plan: &mut Plan) {
    let mut sorted_rows = Vec::new();
    let mut wrong_rows = Vec::new();
    let mut sections: Vec<Option<String>> = Vec::new();
    for row in &plan.rows {
        if !sections.contains(&row.section) {
            sections.push(row.section.clone());
        }
    }
    for section in sections {
        let places: Vec<usize> = (0..plan.rows.len()).filter(|place| plan.rows[*place].section == section).collect();
        let labels: Vec<&str> = places.iter().map(|place| plan.rows[*place].label.as_str()).collect();
        let Some(numbers) = numbers(&labels) else { continue };
        let name = section.as_ref().map_or_else(String::new, |section| format!(" of {section}"));
        match verdict(&labels, &numbers) {
            Verdict::Good => {}
            Verdict::Text => {
                let shown = some(&labels);
                let mut order: Vec<usize> = (0..places.len()).collect();
                order.sort_by_key(|place| numbers[*place]);
                let mut rows: Vec<PlanRow> =
                    places.iter().map(|place| std::mem::take(&mut plan.rows[*place])).collect();
                for (place, from) in places.iter().zip(order) {
                    plan.rows[*place] = std::mem::take(&mut rows[from]);
                }
                sorted_rows.push(format!("the rows{name} ({shown})"));
            }
            // Rows are told from the stage backwards.
            Verdict::Turns => wrong_rows.push(format!("the rows{name} ({})", some(&labels))),
        }
    }
    let (mut sorted_seats, mut gapped, mut wrong_seats) = (Vec::new(), Vec::new(), Vec::new());
    for row in &mut plan.rows {
        let labels: Vec<&str> = row.seats.iter().flatten().map(|seat| seat.label.as_str()).collect();
        let Some(numbers) = numbers(&labels) else { continue };
        match verdict(&labels, &numbers) {
            Verdict::Good => {}
            // The places tell that the seats are in this order.
            Verdict::Text | Verdict::Turns if places_agree(row, &numbers) => {}
            Verdict::Text if row.seats.iter().all(Option::is_some) => {
                sorted_seats.push(format!("row {} ({})", row.label, some(&labels)));
                let mut seats: Vec<(u64, Option<PlanSeat>)> =
                    numbers.into_iter().zip(std::mem::take(&mut row.seats)).collect();
                seats.sort_by_key(|(number, _)| *number);
                row.seats = seats.into_iter().map(|(_, seat)| seat).collect();
            }
            Verdict::Text => gapped.push(format!("row {} ({})", row.label, some(&labels))),
            // Odd numbers on one side and even ones on the other turn once, in each block of seats.
            Verdict::Turns if blocks(row).iter().all(|block| turns(block) <= 1) => {}
            Verdict::Turns => wrong_seats.push(format!("row {} ({})", row.label, some(&labels))),
        }
    }
    let say = |what: &[String]| match what {
        [] => None,
        [only] => Some(only.clone()),
        [first, rest @ ..] => Some(format!("{first} and {} more", rest.len())),
    };
    if let Some(what) = say(&sorted_rows) {
        plan.notes.push(format!("{what} came in text order and are sorted by number"));
    }
    if let Some(what) = say(&sorted_seats) {
        plan.notes.push(format!("the seats of {what} came in text order and are sorted by number"));
    }
    if let Some(what) = say(&gapped) {
        plan.warnings.push(format!(
            "the seats of {what} are in text order, and the places of the gaps are not known; sort the file by number"
        ));
    }
    if let Some(what) = say(&wrong_rows) {
        plan.warnings.push(format!("{what} are in an order that no house has; rows are told from the stage backwards"));
    }
    if let Some(what) = say(&wrong_seats) {
        plan.warnings.push(format!("the seats of {what} are in an order that no house has; sort the file"));
    }
}

/// What an order is.
enum Verdict {
    Good,
    /// Sorted as text.
    Text,
    /// Neither up nor down.
    Turns,
}

fn verdict(labels: &[&str], numbers: &[u64]) -> Verdict {
    match turns(numbers) {
        0 => Verdict::Good,
        _ if labels.is_sorted() || labels.iter().rev().is_sorted() => Verdict::Text,
        _ => Verdict::Turns,
    }
}

/// How often the numbers go the other way than before.
fn turns(numbers: &[u64]) -> usize {
    let ways: Vec<bool> = numbers.windows(2).map(|pair| pair[0] < pair[1]).collect();
    ways.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// Whether the seats of a row have places, and the way along them is no longer in the order of the file than in that of the numbers.
fn places_agree(row: &PlanRow, numbers: &[u64]) -> bool {
    let places: Vec<Place> = row.seats.iter().flatten().filter_map(|seat| seat.place).collect();
    let length = |places: &[Place]| -> f64 {
        places.windows(2).map(|pair| (pair[0].x - pair[1].x).hypot(pair[0].y - pair[1].y)).sum()
    };
    let mut numbered: Vec<(u64, Place)> = numbers.iter().copied().zip(places.iter().copied()).collect();
    numbered.sort_by_key(|(number, _)| *number);
    let by_number: Vec<Place> = numbered.into_iter().map(|(_, place)| place).collect();
    places.len() == numbers.len() && length(&places) <= length(&by_number)
}

/// The numbers between the gaps of a row whose labels are numbers.
fn blocks(row: &PlanRow) -> Vec<Vec<u64>> {
    let block = |seats: &[Option<PlanSeat>]| {
        let labels: Vec<&str> = seats.iter().flatten().map(|seat| seat.label.as_str()).collect();
        numbers(&labels).unwrap_or_default()
    };
    row.seats.split(Option::is_none).map(block).collect()
}

/// The numbers of labels that are numbers behind the same letters, or the places of single letters in the alphabet.
fn numbers(labels: &[&str]) -> Option<Vec<u64>> {
    let single = |label: &&str| match label.as_bytes() {
        [letter] if letter.is_ascii_uppercase() => Some(u64::from(*letter)),
        _ => None,
    };
    if let Some(places) = labels.iter().map(single).collect() {
        return Some(places);
    }
    let letters = |label: &str| label.find(|letter: char| letter.is_ascii_digit());
    let first = *labels.first()?;
    let prefix = &first[..letters(first)?];
    labels.iter().map(|label| label.strip_prefix(prefix)?.parse().ok()).collect()
}

fn some(labels: &[&str]) -> String {
    let more = if labels.len() > 4 { ", …" } else { "" };
    labels[..labels.len().min(4)].join(", ") + more
}

//! Chart reports of seats.io, by label. They have the seats with their neighbours, and no coordinates.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::{
    json::{At, LeftOut, count, flag, object, text},
    plan::{Plan, PlanArea, PlanRow, PlanSeat},
};

/// The most places of an area.
const CAPACITY_MAX: usize = 1_000_000;

/// A seat of the report.
struct Entry {
    label: String,
    left: Option<String>,
    right: Option<String>,
    seat: PlanSeat,
}

/// Whether a file is such a report: lists of objects by label.
pub(crate) fn is_one(root: &Map<String, Value>) -> bool {
    let is_object = |entry: &Value| entry.get("objectType").is_some() && entry.get("labels").is_some();
    let is_list = |list: &Value| list.as_array().is_some_and(|list| list.first().is_some_and(is_object));
    root.values().any(is_list)
}

/// The plan.
///
/// # Errors
/// The place in the file and what is wrong.
pub(crate) fn read(root: &Map<String, Value>) -> Result<Plan, String> {
    const KNOWN: [&str; 16] = [
        "label",
        "labels",
        "ids",
        "categoryKey",
        "categoryLabel",
        "section",
        "objectType",
        "leftNeighbour",
        "rightNeighbour",
        "isAccessible",
        "capacity",
        "numSeats",
        "bookAsAWhole",
        "floor",
        "zone",
        "distanceToFocalPoint",
    ];
    let mut left_out = LeftOut::default();
    let mut plan = Plan::default();
    let mut order: Vec<(Option<String>, String)> = Vec::new();
    let mut rows: BTreeMap<(Option<String>, String), Vec<Entry>> = BTreeMap::new();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for (index, entry) in root.values().flat_map(|list| list.as_array().into_iter().flatten()).enumerate() {
        let at = At::new("object", index);
        let entry = object(entry, &at)?;
        left_out.keys("object", entry, &KNOWN);
        let label = text(entry, "label").ok_or_else(|| format!("{at} has no `label`"))?;
        // A report by category or by section has every object once as well, and one by label may list it again.
        if !seen.insert(label.clone()) {
            continue;
        }
        let labels = entry.get("labels").and_then(Value::as_object).ok_or_else(|| format!("{at} has no `labels`"))?;
        let own = text(labels, "own").ok_or_else(|| format!("{at} has no `labels.own`"))?;
        let parent = text(labels, "parent");
        let section =
            text(labels, "section").or_else(|| text(entry, "section")).filter(|section| section != "NO_SECTION");
        let category = text(entry, "categoryKey").or_else(|| text(entry, "categoryLabel"));
        if let (Some(key), Some(name)) = (&category, text(entry, "categoryLabel")) {
            names.entry(key.clone()).or_insert(name);
        }
        match text(entry, "objectType").as_deref() {
            Some("seat") => {
                let accessible = flag(entry, "isAccessible");
                let seat = PlanSeat { label: own, category, accessible, place: None };
                let parent =
                    parent.ok_or_else(|| format!("{at}, {label}, is a seat without a row (`labels.parent`)"))?;
                let key = (section, parent);
                if !rows.contains_key(&key) {
                    order.push(key.clone());
                }
                let (left, right) = (text(entry, "leftNeighbour"), text(entry, "rightNeighbour"));
                rows.entry(key).or_default().push(Entry { label, left, right, seat });
            }
            Some("generalAdmission" | "generalAdmissionArea") => {
                let capacity = count(entry, "capacity", CAPACITY_MAX, &at)? as u32;
                plan.areas.push(PlanArea { name: own, capacity, category });
            }
            Some("booth" | "table") => {
                let seat = PlanSeat { label: "1".into(), category, accessible: false, place: None };
                left_out.thing("object", "that a table or booth is one thing");
                plan.rows.push(PlanRow { section, label: own, seats: vec![Some(seat)], is_table: true });
            }
            Some(kind) => {
                left_out.thing("report", &format!("an unknown `{}`", kind.chars().take(40).collect::<String>()))
            }
            None => return Err(format!("{at} has no `objectType`")),
        }
    }
    for key in order {
        let entries = rows.remove(&key).expect("a row that was seen");
        let (section, label) = key;
        let seats = in_a_row(entries, &label)?;
        plan.rows.push(PlanRow { section, label, seats, is_table: false });
    }
    plan.category_names.extend(names);
    plan.notes.push("a chart report of seats.io; there are no coordinates in this file, so rows are straight".into());
    plan.notes.extend(left_out.note());
    Ok(plan)
}

/// The seats of a row by their neighbours. Where a seat has none, there is a gap.
fn in_a_row(entries: Vec<Entry>, row: &str) -> Result<Vec<Option<PlanSeat>>, String> {
    let places: BTreeMap<String, usize> =
        entries.iter().enumerate().map(|(place, entry)| (entry.label.clone(), place)).collect();
    let next: Vec<Option<usize>> =
        entries.iter().map(|entry| entry.right.as_ref().and_then(|right| places.get(right)).copied()).collect();
    let is_first = |entry: &&Entry| entry.left.as_ref().is_none_or(|left| !places.contains_key(left));
    let firsts: Vec<usize> =
        entries.iter().enumerate().filter(|(_, entry)| is_first(entry)).map(|(place, _)| place).collect();
    // The seats from each seat without a left neighbour to the right, in the order of the file.
    let mut pieces: Vec<Vec<usize>> = Vec::new();
    let mut taken = vec![false; entries.len()];
    for first in firsts {
        let mut piece = Vec::new();
        let mut at = Some(first);
        while let Some(place) = at.filter(|place| !taken[*place]) {
            taken[place] = true;
            piece.push(place);
            at = next[place];
        }
        if !piece.is_empty() {
            pieces.push(piece);
        }
    }
    if let Some(place) = taken.iter().position(|taken| !taken) {
        return Err(format!("row {row}: the neighbours of {} form a ring", entries[place].label));
    }
    // Pieces of numbered seats are in the order of their numbers.
    let number = |piece: &Vec<usize>| {
        let numbers = piece.iter().map(|place| entries[*place].seat.label.parse::<u64>().ok());
        numbers.collect::<Option<Vec<u64>>>().and_then(|numbers| numbers.into_iter().min())
    };
    if pieces.iter().all(|piece| number(piece).is_some()) {
        let descends = |piece: &Vec<usize>| {
            let numbers: Vec<Option<u64>> = piece.iter().map(|place| entries[*place].seat.label.parse().ok()).collect();
            numbers.first() > numbers.last()
        };
        let down = pieces.iter().filter(|piece| descends(piece)).count() * 2 > pieces.len();
        pieces.sort_by_key(|piece| number(piece));
        if down {
            pieces.reverse();
        }
    }
    let mut seats: Vec<Option<PlanSeat>> = Vec::new();
    let mut entries: Vec<Option<PlanSeat>> = entries.into_iter().map(|entry| Some(entry.seat)).collect();
    for piece in pieces {
        if !seats.is_empty() {
            seats.push(None);
        }
        seats.extend(piece.into_iter().map(|place| entries[place].take()));
    }
    Ok(seats)
}

//! Charts of SeatLayer. Rows are told by their first seat, their direction, their curve and the number of their seats.

use boxoffice_core::layout::LAYOUT_SEATS_MAX;
use serde_json::{Map, Value};

use crate::{
    json::{At, LeftOut, count, flag, is_stage, list, number, object, place, place_of, text},
    plan::{Place, Plan, PlanArea, PlanRow, PlanSeat, Unit, middle},
};

/// How far outside a table's edge its seats are.
const TABLE_SEAT: f64 = 16.0;

/// The most places of an area.
const CAPACITY_MAX: usize = 1_000_000;

/// A section of the drawing: whatever lies within its outline.
struct Section {
    label: String,
    outline: Vec<Place>,
}

/// Whether a file is such a chart.
pub(crate) fn is_one(root: &Map<String, Value>) -> bool {
    let has_list = |key: &str| root.get(key).is_some_and(Value::is_array);
    root.contains_key("version")
        && (has_list("objects") || has_list("floors"))
        && (root.contains_key("focalPoint") || root.contains_key("venueType"))
}

/// The plan.
///
/// # Errors
/// The place in the file and what is wrong.
pub(crate) fn read(root: &Map<String, Value>) -> Result<Plan, String> {
    if number(root, "version") != Some(1.0) {
        return Err("this chart of SeatLayer has another version than 1, which is the one that is known".into());
    }
    let mut left_out = LeftOut::default();
    left_out.keys(
        "chart",
        root,
        &["version", "name", "venueType", "focalPoint", "categories", "zones", "floors", "objects"],
    );
    let mut plan = Plan { unit: Unit::Any, stage: place(root, "focalPoint"), ..Plan::default() };
    for (index, category) in list(root, "categories", "the chart")?.iter().enumerate() {
        let category = object(category, &At::new("category", index))?;
        left_out.keys("category", category, &["key", "label", "color"]);
        if let (Some(key), Some(label)) = (text(category, "key"), text(category, "label")) {
            plan.category_names.push((key, label));
        }
    }
    let floors = list(root, "floors", "the chart")?;
    if floors.is_empty() {
        read_objects(list(root, "objects", "the chart")?, None, None, &mut plan, &mut left_out)?;
    }
    for (index, floor) in floors.iter().enumerate() {
        let at = At::new("floor", index);
        let floor = object(floor, &at)?;
        left_out.keys("floor", floor, &["id", "name", "objects", "focalPoint"]);
        let name = text(floor, "name").filter(|_| floors.len() > 1);
        read_objects(list(floor, "objects", &at.to_string())?, name.as_deref(), Some(&at), &mut plan, &mut left_out)?;
    }
    plan.notes.push("a chart of SeatLayer".into());
    plan.notes.extend(left_out.note());
    Ok(plan)
}

fn read_objects(
    objects: &[Value],
    floor: Option<&str>,
    at: Option<&At>,
    plan: &mut Plan,
    left_out: &mut LeftOut,
) -> Result<(), String> {
    let at = |index: usize| at.map_or_else(|| At::new("object", index), |at| at.below("object", index));
    let mut sections = Vec::new();
    for (index, value) in objects.iter().enumerate() {
        let section = object(value, &at(index))?;
        if text(section, "type").as_deref() == Some("section") {
            left_out.keys("section", section, &["type", "id", "label", "outline", "color", "zone"]);
            let outline = list(section, "outline", &at(index).to_string())?.iter().filter_map(place_of).collect();
            sections.extend(text(section, "label").map(|label| Section { label, outline }));
        }
    }
    for (index, value) in objects.iter().enumerate() {
        let at = at(index);
        let thing = object(value, &at)?;
        let first = plan.rows.len();
        match text(thing, "type").as_deref() {
            Some("row") => plan.rows.push(row(thing, &at, left_out)?),
            Some("table") => {
                plan.rows.push(table(thing, &at, left_out)?);
                if flag(thing, "bookAsWhole") {
                    left_out.thing("table", "`bookAsWhole`");
                }
            }
            Some("booth") => plan.rows.push(booth(thing, &at, left_out)?),
            Some("gaArea") => plan.areas.push(area(thing, &at, left_out)?),
            Some("section") => {}
            Some("shape" | "text")
                if text(thing, "label").or_else(|| text(thing, "text")).is_some_and(|text| is_stage(&text)) => {}
            Some(kind @ ("shape" | "text" | "decorImage")) => left_out.thing("chart", &format!("a {kind}")),
            Some(kind) => {
                left_out.thing("chart", &format!("an unknown `{}`", &kind.chars().take(40).collect::<String>()))
            }
            None => return Err(format!("{at} has no `type`")),
        }
        for row in &mut plan.rows[first..] {
            let within =
                middle(row).and_then(|middle| sections.iter().find(|section| contains(&section.outline, middle)));
            row.section = match (within, floor) {
                (Some(section), Some(floor)) => Some(format!("{floor} {}", section.label)),
                (Some(section), None) => Some(section.label.clone()),
                (None, floor) => floor.map(Into::into),
            };
        }
        let seats: usize = plan.rows.iter().map(|row| row.seats.len()).sum();
        if seats > 2 * LAYOUT_SEATS_MAX {
            return Err(format!("{at}: the chart has more than {LAYOUT_SEATS_MAX} seats; split the hall"));
        }
    }
    Ok(())
}

fn row(row: &Map<String, Value>, at: &At, left_out: &mut LeftOut) -> Result<PlanRow, String> {
    const KNOWN: [&str; 13] = [
        "type",
        "id",
        "label",
        "displayLabel",
        "origin",
        "rotation",
        "curve",
        "seatCount",
        "seatSpacing",
        "categoryKey",
        "seatLabelStart",
        "seatNumbering",
        "overrides",
    ];
    left_out.keys("row", row, &KNOWN);
    let label = text(row, "label").ok_or_else(|| format!("{at} has no `label`"))?;
    if row.contains_key("path") {
        return Err(format!("{at}, row {label}, follows a path, which is not understood; make it straight or curved"));
    }
    let seats = count(row, "seatCount", u16::MAX.into(), at)?;
    let places = places(row, seats, at)?;
    let numbers = numbers(row, seats, at)?;
    let category = text(row, "categoryKey");
    let mut slots: Vec<Option<PlanSeat>> = places
        .into_iter()
        .zip(numbers)
        .map(|(place, number)| {
            let (category, label) = (category.clone(), number.to_string());
            Some(PlanSeat { label, category, accessible: false, place: Some(place) })
        })
        .collect();
    for (index, exception) in list(row, "overrides", &at.to_string())?.iter().enumerate() {
        let at = at.below("override", index);
        let exception = object(exception, &at)?;
        const KNOWN: [&str; 8] = ["index", "skip", "dx", "dy", "label", "categoryKey", "accessible", "accessibility"];
        left_out.keys("seat", exception, &KNOWN);
        let place = count(exception, "index", seats.saturating_sub(1), &at)?;
        let Some(slot) = slots.get_mut(place) else { continue };
        if flag(exception, "skip") {
            *slot = None;
            continue;
        }
        let Some(seat) = slot else { continue };
        if let Some(own) = text(exception, "label") {
            // Labels there name the row as well.
            seat.label = own.strip_prefix(&format!("{label}-")).unwrap_or(&own).to_owned();
        }
        seat.category = text(exception, "categoryKey").or(seat.category.take());
        if let Some(place) = &mut seat.place {
            place.x += number(exception, "dx").unwrap_or_default();
            place.y += number(exception, "dy").unwrap_or_default();
        }
        let kinds: Vec<&str> = exception
            .get("accessibility")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        seat.accessible = kinds.contains(&"wheelchair") || (kinds.is_empty() && flag(exception, "accessible"));
        for kind in kinds.iter().filter(|kind| **kind != "wheelchair") {
            let shown: String = kind.chars().take(40).collect();
            left_out.thing("seat", &format!("`{shown}`"));
        }
    }
    Ok(PlanRow { section: None, label, seats: slots, is_table: false })
}

/// The places of the seats of a row, straight or on an arc whose chords are as long as the spacing.
fn places(row: &Map<String, Value>, seats: usize, at: &At) -> Result<Vec<Place>, String> {
    let origin = place(row, "origin").ok_or_else(|| format!("{at} has no `origin`"))?;
    let spacing = number(row, "seatSpacing").filter(|spacing| *spacing > 0.0);
    let spacing = match spacing {
        Some(spacing) => spacing,
        None if seats < 2 => 1.0,
        None => return Err(format!("{at} has no `seatSpacing`")),
    };
    let (rotation, curve) = (number(row, "rotation").unwrap_or_default(), number(row, "curve").unwrap_or_default());
    let step = if seats > 1 { curve.to_radians() / (seats - 1) as f64 } else { 0.0 };
    let local = |index: usize| {
        let along = index as f64;
        if step == 0.0 {
            return (along * spacing, 0.0);
        }
        let radius = spacing / (2.0 * (step.abs() / 2.0).sin());
        let angle = along * step;
        (radius * angle.sin(), radius * angle.cos() - radius)
    };
    Ok((0..seats).map(|index| turned(local(index), rotation, origin)).collect())
}

/// A place turned clockwise around the origin by these degrees, with y growing downward.
fn turned((x, y): (f64, f64), degrees: f64, origin: Place) -> Place {
    let (sin, cos) = degrees.to_radians().sin_cos();
    Place { x: origin.x + x * cos - y * sin, y: origin.y + x * sin + y * cos }
}

/// The numbers of the seats of a row, by their places.
fn numbers(row: &Map<String, Value>, seats: usize, at: &At) -> Result<Vec<i64>, String> {
    let start = number(row, "seatLabelStart").unwrap_or(1.0).round() as i64;
    let numbering = row.get("seatNumbering").and_then(Value::as_object);
    let step = numbering.and_then(|numbering| number(numbering, "step")).unwrap_or(1.0).round() as i64;
    let direction = numbering.and_then(|numbering| text(numbering, "direction")).unwrap_or_else(|| "ltr".into());
    let rank: Vec<usize> = match direction.as_str() {
        "ltr" => (0..seats).collect(),
        "rtl" => (0..seats).rev().collect(),
        // From the middle outward, the left one first.
        "center" => {
            let mut order: Vec<usize> = (0..seats).collect();
            order.sort_by_key(|place| ((2 * place).abs_diff(seats - 1), *place));
            let mut rank = vec![0; seats];
            for (number, place) in order.into_iter().enumerate() {
                rank[place] = number;
            }
            rank
        }
        other => return Err(format!("{at} is numbered {other:?}; ltr, rtl and center are known")),
    };
    Ok(rank.into_iter().map(|rank| start.saturating_add(step.saturating_mul(rank as i64))).collect())
}

/// A table is a row of its own.
fn table(table: &Map<String, Value>, at: &At, left_out: &mut LeftOut) -> Result<PlanRow, String> {
    const KNOWN: [&str; 15] = [
        "type",
        "id",
        "label",
        "center",
        "shape",
        "seatCount",
        "sides",
        "rotation",
        "radius",
        "seatArc",
        "width",
        "height",
        "categoryKey",
        "bookAsWhole",
        "displayLabel",
    ];
    left_out.keys("table", table, &KNOWN);
    let label = text(table, "label").ok_or_else(|| format!("{at} has no `label`"))?;
    let center = place(table, "center").ok_or_else(|| format!("{at} has no `center`"))?;
    let seats = count(table, "seatCount", u16::MAX.into(), at)?;
    let rotation = number(table, "rotation").unwrap_or_default();
    let places = match text(table, "shape").as_deref() {
        Some("rect") => at_edges(table, seats, rotation, center),
        _ => {
            let radius = number(table, "radius").unwrap_or(40.0) + TABLE_SEAT;
            let arc = number(table, "seatArc").unwrap_or(360.0).clamp(0.0, 360.0);
            let angle = |index: usize| {
                if arc >= 360.0 || seats == 1 {
                    rotation + 360.0 * index as f64 / seats as f64
                } else {
                    rotation + (360.0 - arc) / 2.0 + arc * index as f64 / (seats - 1) as f64
                }
            };
            let at = |index: usize| {
                let (sin, cos) = angle(index).to_radians().sin_cos();
                Place { x: center.x + radius * cos, y: center.y + radius * sin }
            };
            (0..seats).map(at).collect::<Vec<_>>()
        }
    };
    let category = text(table, "categoryKey");
    let seat = |(index, place): (usize, Place)| {
        let (label, category) = ((index + 1).to_string(), category.clone());
        Some(PlanSeat { label, category, accessible: false, place: Some(place) })
    };
    Ok(PlanRow { section: None, label, seats: places.into_iter().enumerate().map(seat).collect(), is_table: true })
}

/// The seats of a table with edges, dealt out to its sides in turn.
fn at_edges(table: &Map<String, Value>, seats: usize, rotation: f64, center: Place) -> Vec<Place> {
    let (width, height) = (number(table, "width").unwrap_or(80.0), number(table, "height").unwrap_or(50.0));
    let wanted: Vec<&str> =
        table.get("sides").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let wanted = if wanted.is_empty() { vec!["top", "bottom"] } else { wanted };
    let sides: Vec<&str> =
        ["top", "bottom", "left", "right"].into_iter().filter(|side| wanted.contains(side)).collect();
    let mut places = Vec::with_capacity(seats);
    for (turn, side) in sides.iter().enumerate() {
        let here = (seats + sides.len() - 1 - turn) / sides.len();
        for index in 0..here {
            let along = (index as f64 + 0.5) / here as f64 - 0.5;
            let local = match *side {
                "top" => (along * width, -height / 2.0 - TABLE_SEAT),
                "bottom" => (along * width, height / 2.0 + TABLE_SEAT),
                "left" => (-width / 2.0 - TABLE_SEAT, along * height),
                _ => (width / 2.0 + TABLE_SEAT, along * height),
            };
            places.push(turned(local, rotation, center));
        }
    }
    places
}

/// A booth is a row with one seat.
fn booth(booth: &Map<String, Value>, at: &At, left_out: &mut LeftOut) -> Result<PlanRow, String> {
    let known = ["type", "id", "label", "center", "width", "height", "rotation", "categoryKey", "displayLabel"];
    left_out.keys("booth", booth, &known);
    let label = text(booth, "label").ok_or_else(|| format!("{at} has no `label`"))?;
    let place = place(booth, "center").ok_or_else(|| format!("{at} has no `center`"))?;
    let category = text(booth, "categoryKey");
    let seat = PlanSeat { label: "1".into(), category, accessible: false, place: Some(place) };
    Ok(PlanRow { section: None, label, seats: vec![Some(seat)], is_table: true })
}

fn area(area: &Map<String, Value>, at: &At, left_out: &mut LeftOut) -> Result<PlanArea, String> {
    left_out.keys("area", area, &["type", "id", "label", "points", "holes", "capacity", "categoryKey", "displayLabel"]);
    let name = text(area, "label").ok_or_else(|| format!("{at} has no `label`"))?;
    let capacity = count(area, "capacity", CAPACITY_MAX, at)? as u32;
    Ok(PlanArea { name, capacity, category: text(area, "categoryKey") })
}

/// Whether a place is within an outline: a line from it to the right crosses the outline an odd number of times.
fn contains(outline: &[Place], place: Place) -> bool {
    let mut inside = false;
    for (index, one) in outline.iter().enumerate() {
        let other = outline[(index + outline.len() - 1) % outline.len()];
        let crosses = (one.y > place.y) != (other.y > place.y)
            && place.x < (other.x - one.x) * (place.y - one.y) / (other.y - one.y) + one.x;
        inside ^= crosses;
    }
    inside
}

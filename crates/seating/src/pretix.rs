//! Seating plans of pretix. A seat stands at the sum of the positions of its zone, its row and itself, in pixels.

use serde_json::{Map, Value};

use crate::{
    json::{At, LeftOut, is_stage, list, number, object, place, text},
    plan::{Place, Plan, PlanRow, PlanSeat, Unit},
};

/// Whether a file is such a plan.
pub(crate) fn is_one(root: &Map<String, Value>) -> bool {
    let is_zone = |zone: &Value| zone.get("rows").is_some_and(Value::is_array);
    root.get("zones").and_then(Value::as_array).is_some_and(|zones| zones.iter().any(is_zone))
}

/// The plan.
///
/// # Errors
/// The place in the file and what is wrong.
pub(crate) fn read(root: &Map<String, Value>) -> Result<Plan, String> {
    let mut left_out = LeftOut::default();
    left_out.keys("plan", root, &["name", "categories", "zones", "size"]);
    let mut plan = Plan { unit: Unit::Any, ..Plan::default() };
    let mut categories = Vec::new();
    for (index, category) in list(root, "categories", "the plan")?.iter().enumerate() {
        let category = object(category, &At::new("category", index))?;
        left_out.keys("category", category, &["name", "color"]);
        categories.extend(text(category, "name"));
    }
    let mut unknown: Vec<String> = Vec::new();
    for (index, zone) in list(root, "zones", "the plan")?.iter().enumerate() {
        let at = At::new("zone", index);
        let zone = object(zone, &at)?;
        left_out.keys("zone", zone, &["name", "displayed", "position", "rows", "areas", "zone_id", "uuid"]);
        let origin = place(zone, "position").unwrap_or(Place { x: 0.0, y: 0.0 });
        let section = text(zone, "name");
        for (index, row) in list(zone, "rows", &at.to_string())?.iter().enumerate() {
            let at = at.below("row", index);
            let row = read_row(object(row, &at)?, origin, section.clone(), &at, &mut left_out)?;
            for seat in row.seats.iter().flatten() {
                let named = seat.category.iter().filter(|name| !categories.contains(name) && !unknown.contains(name));
                unknown.extend(named.cloned().collect::<Vec<_>>());
            }
            plan.rows.push(row);
        }
        for (index, area) in list(zone, "areas", &at.to_string())?.iter().enumerate() {
            let area = object(area, &at.below("area", index))?;
            match stage_of(area, origin) {
                Some(stage) => plan.stage = plan.stage.or(Some(stage)),
                None => left_out.thing("area", "the drawing"),
            }
        }
    }
    plan.notes.push("a seating plan of pretix; it tells no aisles and no wheelchair places".into());
    if plan.stage.is_some() {
        plan.notes.push("the stage is where the drawing says so".into());
    }
    plan.notes.extend(left_out.note());
    if !unknown.is_empty() {
        plan.warnings.push(format!("seats have categories that the plan does not list: {}", unknown.join(", ")));
    }
    Ok(plan)
}

fn read_row(
    row: &Map<String, Value>,
    zone: Place,
    section: Option<String>,
    at: &At,
    left_out: &mut LeftOut,
) -> Result<PlanRow, String> {
    const KNOWN: [&str; 8] = [
        "row_number",
        "row_label",
        "seat_label",
        "seats",
        "position",
        "number_of_seats",
        "seats_spacing",
        "row_number_position",
    ];
    left_out.keys("row", row, &KNOWN);
    let label = text(row, "row_number").ok_or_else(|| format!("{at} has no `row_number`"))?;
    let origin = place(row, "position").unwrap_or(Place { x: 0.0, y: 0.0 });
    let mut seats = Vec::new();
    for (index, seat) in list(row, "seats", &at.to_string())?.iter().enumerate() {
        let at = at.below("seat", index);
        let seat = object(seat, &at)?;
        left_out.keys("seat", seat, &["seat_guid", "seat_number", "position", "category", "radius", "start_direction"]);
        let label = text(seat, "seat_number").ok_or_else(|| format!("{at} has no `seat_number`"))?;
        let own = place(seat, "position").ok_or_else(|| format!("{at} has no `position`"))?;
        let place = Place { x: zone.x + origin.x + own.x, y: zone.y + origin.y + own.y };
        let category = text(seat, "category");
        seats.push(Some(PlanSeat { label, category, accessible: false, place: Some(place) }));
    }
    Ok(PlanRow { section, label, seats, is_table: false })
}

/// The middle of an area whose text says that it is the stage.
fn stage_of(area: &Map<String, Value>, zone: Place) -> Option<Place> {
    let (said, offset) = match area.get("text")? {
        Value::String(said) => (said.clone(), None),
        Value::Object(said) => (text(said, "text")?, place(said, "position")),
        _ => return None,
    };
    if !is_stage(&said) {
        return None;
    }
    let at = place(area, "position")?;
    let box_of =
        |area: &Map<String, Value>| Some(Place { x: number(area, "width")? / 2.0, y: number(area, "height")? / 2.0 });
    let half = area.get("rectangle").and_then(Value::as_object).and_then(box_of).or_else(|| box_of(area));
    let middle = offset.or(half).unwrap_or(Place { x: 0.0, y: 0.0 });
    Some(Place { x: zone.x + at.x + middle.x, y: zone.y + at.y + middle.y })
}

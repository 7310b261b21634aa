//! GeoJSON: points whose properties have the names of columns.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::{
    columns::{Column, Header, SEATS, header},
    json::{At, LeftOut, list, object, text},
    order,
    plan::{Place, Plan, PlanRow, PlanSeat, Unit},
};

/// Metres of a degree of latitude.
const METRES: f64 = 111_320.0;

/// A hall is smaller than this, in degrees.
const EXTENT_MAX: f64 = 0.02;

/// Whether a file is such a collection.
pub(crate) fn is_one(root: &Map<String, Value>) -> bool {
    matches!(text(root, "type").as_deref(), Some("FeatureCollection" | "Feature"))
}

/// The plan, with the stage there in the coordinates of the file.
///
/// # Errors
/// The place in the file and what is wrong.
pub(crate) fn read(root: &Map<String, Value>, stage: Option<Place>) -> Result<Plan, String> {
    let mut left_out = LeftOut::default();
    let features = list(root, "features", "the collection")?;
    let mut keys: BTreeSet<&str> = BTreeSet::new();
    for feature in features {
        let properties = feature.get("properties").and_then(Value::as_object);
        keys.extend(properties.into_iter().flat_map(Map::keys).map(String::as_str));
    }
    let (columns, unknown) = columns(&keys)?;
    let mut plan = Plan { unit: Unit::Any, stage, ..Plan::default() };
    let mut places: BTreeMap<(Option<String>, String), usize> = BTreeMap::new();
    for (index, feature) in features.iter().enumerate() {
        let at = At::new("feature", index);
        let feature = object(feature, &at)?;
        let geometry = feature.get("geometry").and_then(Value::as_object);
        let kind = geometry.and_then(|geometry| text(geometry, "type")).unwrap_or_default();
        if kind != "Point" {
            left_out.thing("collection", "a feature that is no point");
            continue;
        }
        let position = geometry.and_then(|geometry| geometry.get("coordinates")).and_then(Value::as_array);
        let coordinate = |place: usize| position.and_then(|position| position.get(place)).and_then(Value::as_f64);
        let (Some(x), Some(y)) = (coordinate(0), coordinate(1)) else {
            return Err(format!("{at}: its `coordinates` are no numbers"));
        };
        let no_properties = Map::new();
        let properties = feature.get("properties").and_then(Value::as_object).unwrap_or(&no_properties);
        let value = |column: Column| columns.get(&column).and_then(|key| text(properties, key));
        let row = value(Column::Row).ok_or_else(|| format!("{at} has no row"))?;
        let label = value(Column::Seat).ok_or_else(|| format!("{at} has no seat"))?;
        let section = value(Column::Section);
        let accessible = columns.get(&Column::Accessible).is_some_and(|key| match properties.get(*key) {
            Some(Value::Bool(accessible)) => *accessible,
            Some(Value::String(word)) => {
                matches!(word.to_lowercase().as_str(), "yes" | "true" | "1" | "ja" | "oui" | "sí" | "sì")
            }
            Some(Value::Number(number)) => number.as_f64().is_some_and(|number| number != 0.0),
            _ => false,
        });
        let place = *places.entry((section.clone(), row.clone())).or_insert_with(|| {
            plan.rows.push(PlanRow { section, label: row, ..PlanRow::default() });
            plan.rows.len() - 1
        });
        let seat = PlanSeat { label, category: value(Column::Category), accessible, place: Some(Place { x, y }) };
        plan.rows[place].seats.push(Some(seat));
    }
    for key in unknown {
        left_out.thing("feature", &format!("`{}`", key.chars().take(40).collect::<String>()));
    }
    let shown: Vec<String> = columns.iter().map(|(column, key)| format!("{} ← {key}", column.name())).collect();
    plan.notes.push(format!("points of GeoJSON; {}", shown.join(", ")));
    project(&mut plan);
    order::mend(&mut plan);
    plan.notes.extend(left_out.note());
    Ok(plan)
}

/// The key of each column, and the keys of none.
fn columns<'a>(keys: &BTreeSet<&'a str>) -> Result<(BTreeMap<Column, &'a str>, Vec<&'a str>), String> {
    let is_known = |key: &&&str| matches!(header(&SEATS, &[], &[(**key).to_owned()], 1), Header::Names(_));
    let known: Vec<&str> = keys.iter().filter(is_known).copied().collect();
    let unknown = keys.iter().filter(|key| !known.contains(*key)).copied().collect();
    let fields: Vec<String> = known.iter().map(|key| (*key).to_owned()).collect();
    match header(&SEATS, &[Column::Row, Column::Seat], &fields, 1) {
        Header::Names(columns) => {
            let named = |(place, column): (usize, &Option<Column>)| (*column).map(|column| (column, known[place]));
            Ok((columns.places.iter().enumerate().filter_map(named).collect(), unknown))
        }
        Header::Unusable(_) | Header::None => {
            let shown: Vec<String> = keys.iter().take(12).map(|key| format!("`{key}`")).collect();
            Err(format!(
                "the properties of the points ({}) have no row and seat; call two of them so",
                shown.join(", ")
            ))
        }
    }
}

/// Degrees become metres around the middle, and y grows downward.
fn project(plan: &mut Plan) {
    let seats = || plan.rows.iter().flat_map(|row| &row.seats).flatten().filter_map(|seat| seat.place);
    let bounds = |value: fn(Place) -> f64| {
        seats()
            .map(value)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
    };
    let ((left, right), (bottom, top)) = (bounds(|place| place.x), bounds(|place| place.y));
    let is_globe = left >= -180.0 && right <= 180.0 && bottom >= -90.0 && top <= 90.0;
    let is_degrees = is_globe && right - left < EXTENT_MAX && top - bottom < EXTENT_MAX;
    let (middle, height) = ((left + right) / 2.0, (bottom + top) / 2.0);
    let (across, down) = if is_degrees { (METRES * height.to_radians().cos(), METRES) } else { (1.0, 1.0) };
    let origin = if is_degrees { Place { x: middle, y: height } } else { Place { x: 0.0, y: 0.0 } };
    let places = plan.rows.iter_mut().flat_map(|row| &mut row.seats).flatten().filter_map(|seat| seat.place.as_mut());
    for place in places.chain(&mut plan.stage) {
        *place = Place { x: (place.x - origin.x) * across, y: (origin.y - place.y) * down };
    }
    if is_degrees {
        plan.notes.push("the coordinates are degrees, so they became metres around the middle of the hall".into());
    }
}

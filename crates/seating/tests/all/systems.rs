use std::{fs, path::Path};

use boxoffice_seating::{Place, read_plan};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::told;

fn file(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name);
    serde_json::from_str(&fs::read_to_string(path).expect("a fixture")).expect("JSON")
}

fn read(root: &Value, stage: Option<Place>) -> String {
    match read_plan(root, stage) {
        Ok(Some(seating)) => told(&seating),
        Ok(None) => "not a known plan".into(),
        Err(why) => why,
    }
}

fn check(name: &str, words: Expect) {
    words.assert_eq(&read(&file(name), None));
}

#[test]
fn plans_of_pretix() {
    check("pretix-small.json", expect![[r#""#]]);
    check("pretix-curved.json", expect![[r#""#]]);
    check("pretix-zones.json", expect![[r#""#]]);
    check("pretix-areas.json", expect![[r#""#]]);
    check("pretix-unknown.json", expect![[r#""#]]);
}

#[test]
fn charts_of_seatlayer() {
    check("seatlayer-small.json", expect![[r#""#]]);
    check("seatlayer-curved.json", expect![[r#""#]]);
    check("seatlayer-zones.json", expect![[r#""#]]);
    check("seatlayer-areas.json", expect![[r#""#]]);
    check("seatlayer-unknown.json", expect![[r#""#]]);
}

#[test]
fn reports_of_seatsio() {
    check("seatsio-small.json", expect![[r#""#]]);
    check("seatsio-order.json", expect![[r#""#]]);
    check("seatsio-zones.json", expect![[r#""#]]);
    check("seatsio-areas.json", expect![[r#""#]]);
    check("seatsio-unknown.json", expect![[r#""#]]);
}

#[test]
fn points_of_geojson() {
    check("geojson-small.geojson", expect![[r#""#]]);
    check("geojson-curved.geojson", expect![[r#""#]]);
    check("geojson-zones.geojson", expect![[r#""#]]);
    check("geojson-areas.geojson", expect![[r#""#]]);
    check("geojson-unknown.geojson", expect![[r#""#]]);
}

#[test]
fn the_stage_is_where_somebody_says() {
    expect![[r#""#]].assert_eq(&read(&file("pretix-small.json"), Some(Place { x: 100.0, y: 300.0 })));
    expect![[r#""#]].assert_eq(&read(&file("geojson-small.geojson"), Some(Place { x: 0.0, y: 5.0 })));
}

/// The chords of a curved row are as long as the spacing, so a seat is as wide as the others.
#[test]
fn curved_rows_of_seatlayer_have_seats_of_one_width() {
    let seating = read_plan(&file("seatlayer-curved.json"), None).expect("a chart").expect("a chart");
    for row in seating.layout.rows() {
        for run in &row.runs {
            for pair in run.points.windows(2) {
                let (x, y) = (f64::from(pair[0].x - pair[1].x), f64::from(pair[0].y - pair[1].y));
                assert!((x.hypot(y) - 100.0).abs() < 1.5, "{pair:?}");
            }
        }
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let pretix = |change: fn(&mut Value)| {
        let mut plan = file("pretix-small.json");
        change(&mut plan);
        read(&plan, None)
    };
    let seatlayer = |change: fn(&mut Value)| {
        let mut plan = file("seatlayer-small.json");
        change(&mut plan);
        read(&plan, None)
    };
    let said = [
        pretix(|plan| plan["zones"][0]["rows"][1]["seats"][2]["seat_number"] = Value::Null),
        pretix(|plan| plan["zones"][0]["rows"][1]["seats"][2]["position"] = json!("left")),
        pretix(|plan| plan["zones"][0]["rows"][0]["row_number"] = Value::Null),
        pretix(|plan| plan["zones"][0]["rows"][0]["seats"][1]["seat_number"] = json!("1")),
        pretix(|plan| plan["zones"][0]["rows"] = json!([])),
        seatlayer(|plan| plan["version"] = json!(2)),
        seatlayer(|plan| plan["objects"][0]["path"] = json!({})),
        seatlayer(|plan| plan["objects"][0]["seatCount"] = json!(1e9)),
        seatlayer(|plan| plan["objects"][1]["seatNumbering"]["direction"] = json!("spiral")),
        read(&json!({"type": "FeatureCollection", "features": [{"geometry": {"type": "Point", "coordinates": [1, 2]}, "properties": {"a": 1}}]}), None),
        read(&json!({"type": "FeatureCollection", "features": []}), None),
        read(&json!({"A-1": [{"label": "A-1", "labels": {"own": "1"}, "objectType": "seat"}]}), None),
        read(&json!({"venues": []}), None),
    ];
    expect![[r#""#]].assert_eq(&(said.join("\n") + "\n"));
}

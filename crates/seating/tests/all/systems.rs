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
    check(
        "pretix-small.json",
        expect![[r#"
        Saal/1: 1(Parkett) 2 3 4  at -150,200 to 150,200
        Saal/2: 1(Parkett) 2 3(1.-rang) 4  at -150,320 to 150,320
        category 1.-rang is 1. Rang (en)
        note: a seating plan of pretix; it tells no aisles and no wheelchair places
        note: one seat is 25 of the file's units wide, the median of its rows
        note: the stage is at the middle of the upper edge; --stage X,Y says another place
        note: ids for each category: 1. Rang is 1.-rang
    "#]],
    );
    check(
        "pretix-curved.json",
        expect![[r#"
        Bogen/2: 1(Parkett) 2 3 4 5  at -198,642 to 198,642
        Bogen/1: 1(Parkett) 2 3 4 5  at -165,771 to 165,771
        note: a seating plan of pretix; it tells no aisles and no wheelchair places
        note: the stage is where the drawing says so
        note: the stage is below the seats, so the drawing is turned
        note: one seat is 29.98 of the file's units wide, the median of its rows
    "#]],
    );
    check(
        "pretix-zones.json",
        expect![[r#"
            Links/A: 1(Parkett) 2 3 _ 4 5 6  at -850,200 to -150,200
            Links/B: 1(Parkett) 2 3  at -850,400 to -650,400
            Rechts/A: 1(Parkett) 2 3  at 650,200 to 850,200
            rechts-2/A: 1(Parkett) 2 3  at 650,400 to 850,400
            rechts-3/A: 1(Parkett) 2 3  at 650,600 to 850,600
            section rechts-2 is Rechts (2) (en)
            section rechts-3 is Rechts (3) (en)
            note: a seating plan of pretix; it tells no aisles and no wheelchair places
            note: once a row has the label of another row of its section and goes on with its numbers; it is joined to it, behind a gap
            note: rows of one section have the same label and the same seats; they are in sections of their own: Rechts (2), Rechts (3)
            note: one seat is 20 of the file's units wide, the median of its rows
            note: the stage is at the middle of the upper edge; --stage X,Y says another place
            note: ids for each section: Rechts (2) is rechts-2, Rechts (3) is rechts-3
        "#]],
    );
    check(
        "pretix-areas.json",
        expect![[r#"
            Halle/1: 1(Stehplatz) 2  at -250,400 to -150,400
            note: a seating plan of pretix; it tells no aisles and no wheelchair places
            note: the stage is where the drawing says so
            note: left out: the drawing of an area
            note: one seat is 20 of the file's units wide, the median of its rows
        "#]],
    );
    check(
        "pretix-unknown.json",
        expect![[r#"
            Saal/1: 1(Parkett) 2(Loge)  at -50,200 to 50,200
            note: a seating plan of pretix; it tells no aisles and no wheelchair places
            note: left out: the drawing of an area, `tier` of a category, `future` of a plan, `slope` of a row, `lamp` of 2 seats, `floor` of a zone
            note: one seat is 20 of the file's units wide, the median of its rows
            note: the stage is at the middle of the upper edge; --stage X,Y says another place
            warning: seats have categories that the plan does not list: Loge
        "#]],
    );
}

#[test]
fn charts_of_seatlayer() {
    check(
        "seatlayer-small.json",
        expect![[r#"
        A: 1(1) 2 3 4  at -455,455 to -155,455
        B: 8(1) _ 4♿(vip) 99(1)  at -455,591 to -132,591
        C: 4(1) 2 1 3 5  at -455,727 to -55,727
        category 1 is Stalls (en)
        category vip is VIP (en)
        note: a chart of SeatLayer
        note: left out: `companion` of a seat
        note: one seat is 22 of the file's units wide, the median of its rows
        note: ids for each category: Stalls is 1, VIP is vip
    "#]],
    );
    check(
        "seatlayer-curved.json",
        expect![[r#"
        A: 1(1) 2 3 4 5  at -455,455 to -154,202
        B: 6(1) 5 4 3 2 1  at -928,389 to -500,636
        category 1 is Stalls (en)
        note: a chart of SeatLayer
        note: one seat is 22 of the file's units wide, the median of its rows
        note: ids for each category: Stalls is 1
    "#]],
    );
    check(
        "seatlayer-zones.json",
        expect![[r#"
        Left/A: 1(1) 2 3  at -818,455 to -618,455
        Right/A: 1(1) 2 3  at 91,455 to 291,455
        Z: 1(1) 2  at -818,1364 to -718,1364
        category 1 is Stalls (en)
        note: a chart of SeatLayer
        note: left out: `elevation` of a section
        note: one seat is 22 of the file's units wide, the median of its rows
        note: ids for each category: Stalls is 1
    "#]],
    );
    check(
        "seatlayer-areas.json",
        expect![[r#"
            A: 1(1) 2  at -455,455 to -355,455
            T2: 1(vip) 2 3  at 364,723 to 200,909
            T1: 1(vip) 2 3 4  at 255,909 to 0,655
            Booth 1: 1(vip)  at 909,909 to 909,909
            area standing-room Standing Room 250 pit
            category 1 is Stalls (en)
            category vip is VIP (en)
            note: a chart of SeatLayer
            note: left out: a decorImage of a chart, a text of a chart, `bookAsWhole` of a table
            note: one seat is 22 of the file's units wide, the median of its rows
            note: ids for each category: Stalls is 1, VIP is vip
        "#]],
    );
    check(
        "seatlayer-unknown.json",
        expect![[r#"
        Ground/A: 1(1) 2  at -909,455 to -809,455
        Upper/A: 1(1) 2  at -909,909 to -809,909
        category 1 is Stalls (en)
        note: a chart of SeatLayer
        note: left out: `theme` of a chart, an unknown `hologram` of a chart, `height` of a floor, `glow` of a row
        note: one seat is 22 of the file's units wide, the median of its rows
        note: ids for each category: Stalls is 1
    "#]],
    );
}

#[test]
fn reports_of_seatsio() {
    check(
        "seatsio-small.json",
        expect![[r#"
            A: 1(1) 2♿ _ 3 4(2)
            B: 1(1)
            category 1 is Stalls (en)
            category 2 is 1st tier (en)
            note: a chart report of seats.io; there are no coordinates in this file, so rows are straight
            note: ids for each category: Stalls is 1, 1st tier is 2
        "#]],
    );
    check(
        "seatsio-order.json",
        expect![[r#"
            A: 1(1) 2 _ 8 9 10
            category 1 is Stalls (en)
            note: a chart report of seats.io; there are no coordinates in this file, so rows are straight
            note: ids for each category: Stalls is 1
        "#]],
    );
    check(
        "seatsio-zones.json",
        expect![[r#"
            balcony-left/A: 1(1) 2 3
            Stalls/A: 1(1) 2 3
            section balcony-left is Balcony left (en)
            category 1 is Stalls (en)
            note: a chart report of seats.io; there are no coordinates in this file, so rows are straight
            note: ids for each section: Balcony left is balcony-left
            note: ids for each category: Stalls is 1
        "#]],
    );
    check(
        "seatsio-areas.json",
        expect![[r#"
            hall-2/Booth 2: 1(1)
            Table 1: 1(1)
            A: 1(1)
            area Standing Standing 500 3
            section hall-2 is Hall 2 (en)
            category 1 is Stalls (en)
            note: a chart report of seats.io; there are no coordinates in this file, so rows are straight
            note: left out: that a table or booth is one thing of 2 objects
            note: ids for each section: Hall 2 is hall-2
            note: ids for each category: Stalls is 1
        "#]],
    );
    check(
        "seatsio-unknown.json",
        expect![[r#"
            A: 1(1)
            category 1 is Stalls (en)
            note: a chart report of seats.io; there are no coordinates in this file, so rows are straight
            note: left out: `mood` of an object, `viewFromSeatUrl` of an object, an unknown `hologram` of a report
            note: ids for each category: Stalls is 1
        "#]],
    );
}

#[test]
fn points_of_geojson() {
    check(
        "geojson-small.geojson",
        expect![[r#"
        A: 1♿(stalls) 2 3  at -100,200 to 100,200
        B: 1♿(sud) 2 3  at -100,400 to 100,400
        category sud is Süd (en)
        note: points of GeoJSON; row ← row, seat ← seat, category ← category, accessible ← accessible
        note: one seat is 0.5 of the file's units wide, the median of its rows
        note: the stage is at the middle of the upper edge; --stage X,Y says another place
        note: ids for each category: Süd is sud
    "#]],
    );
    check(
        "geojson-curved.geojson",
        expect![[r#"
        1: 1(standard) 2 3 4 5  at -181,200 to 181,200
        2: 1(standard) 2 3 4 5  at -200,381 to 200,381
        note: points of GeoJSON; row ← Reihe, seat ← Platz
        note: the coordinates are degrees, so they became metres around the middle of the hall
        note: one seat is 0.55 of the file's units wide, the median of its rows
        note: the stage is at the middle of the upper edge; --stage X,Y says another place
    "#]],
    );
    check(
        "geojson-zones.geojson",
        expect![[r#"
        Left/A: 1(standard) 2  at -2550,200 to -2450,200
        Right/A: 1(standard) 2  at 2450,200 to 2550,200
        note: points of GeoJSON; row ← row, seat ← seat, section ← section
        note: one seat is 1 of the file's units wide, the median of its rows
        note: the stage is at the middle of the upper edge; --stage X,Y says another place
    "#]],
    );
    check(
        "geojson-areas.geojson",
        expect![[r#"
        A: 1(standard) 2  at -50,200 to 50,200
        note: points of GeoJSON; row ← row, seat ← seat
        note: left out: a feature that is no point of a collection, `capacity` of a feature, `name` of a feature
        note: one seat is 1 of the file's units wide, the median of its rows
        note: the stage is at the middle of the upper edge; --stage X,Y says another place
    "#]],
    );
    check(
        "geojson-unknown.geojson",
        expect![[r#"
            1: 1(standard) 10 2  at -100,200 to 100,200
            note: points of GeoJSON; row ← row, seat ← seat
            note: left out: `colour` of a feature, `id` of a feature
            note: one seat is 2 of the file's units wide, the median of its rows
            note: the stage is at the middle of the upper edge; --stage X,Y says another place
        "#]],
    );
}

#[test]
fn the_stage_is_where_somebody_says() {
    expect![[r#"
        Saal/2: 4(1.-rang) 3 2(Parkett) 1  at -300,680 to 0,680
        Saal/1: 4(Parkett) 3 2 1  at -300,800 to 0,800
        category 1.-rang is 1. Rang (en)
        note: a seating plan of pretix; it tells no aisles and no wheelchair places
        note: the stage is below the seats, so the drawing is turned
        note: one seat is 25 of the file's units wide, the median of its rows
        note: ids for each category: 1. Rang is 1.-rang
    "#]]
    .assert_eq(&read(&file("pretix-small.json"), Some(Place { x: 100.0, y: 300.0 })));
    expect![[r#"
        A: 1♿(stalls) 2 3  at 0,1000 to 200,1000
        B: 1♿(sud) 2 3  at 0,1200 to 200,1200
        category sud is Süd (en)
        note: points of GeoJSON; row ← row, seat ← seat, category ← category, accessible ← accessible
        note: one seat is 0.5 of the file's units wide, the median of its rows
        note: ids for each category: Süd is sud
    "#]]
    .assert_eq(&read(&file("geojson-small.geojson"), Some(Place { x: 0.0, y: 5.0 })));
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
        read(
            &json!({"type": "FeatureCollection", "features": [{"geometry": {"type": "Point", "coordinates": [1, 2]}, "properties": {"a": 1}}]}),
            None,
        ),
        read(&json!({"type": "FeatureCollection", "features": []}), None),
        read(&json!({"A-1": [{"label": "A-1", "labels": {"own": "1"}, "objectType": "seat"}]}), None),
        read(&json!({"venues": []}), None),
    ];
    expect![[r#"
        zone 1, row 2, seat 3 has no `seat_number`
        zone 1, row 2, seat 3 has no `position`
        zone 1, row 1 has no `row_number`
        row 1 of Saal has two seats called 1; call one of them something else
        there are no seats in this file
        this chart of SeatLayer has another version than 1, which is the one that is known
        object 1, row A, follows a path, which is not understood; make it straight or curved
        object 1: `seatCount` is 1000000000, and at most 65535 is allowed
        object 2 is numbered "spiral"; ltr, rtl and center are known
        the properties of the points (`a`) have no row and seat; call two of them so
        the properties of the points () have no row and seat; call two of them so
        object 1, A-1, is a seat without a row (`labels.parent`)
        not a known plan
    "#]]
    .assert_eq(&(said.join("\n") + "\n"));
}

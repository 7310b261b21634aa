//! The short forms of a layout, and the full form that they all become.

use boxoffice_core::{
    command::{Command, VenueCommand},
    layout::Layout,
};
use bytes::BytesMut;
use expect_test::{Expect, expect};

use super::common::id;
use crate::{Call, Encoding, Op, Request, call::Shape, encode};

fn read(layout: &str) -> Result<std::sync::Arc<Layout>, String> {
    let body = format!(r#"{{"venue":"globe","id":"main","name":"Main","layout":{layout}}}"#);
    let read = Request::from_parts(Encoding::Json, 7, Op::HallPut, Some("r"), None, Some(body.as_bytes()));
    match read.map_err(|why| why.to_string())?.call {
        Call::Command(Command::Venue(_, VenueCommand::PutHall { layout, .. })) => Ok(layout),
        other => panic!("{other:?} does not put a hall"),
    }
}

/// The full form, as `hall.get` returns it.
fn full(layout: std::sync::Arc<Layout>) -> String {
    let hall = boxoffice_core::answer::HallView {
        venue: id("globe"),
        id: id("main"),
        name: "Main".into(),
        comments: "".into(),
        layout,
    };
    let answered =
        boxoffice_core::answer::Answered { answer: boxoffice_core::answer::Answer::Hall(hall), at: Vec::new() };
    let mut out = BytesMut::new();
    encode::answer(Encoding::Json, &mut out, &answered, Shape::Plain);
    let text = String::from_utf8(out.to_vec()).expect("JSON is UTF-8");
    let layout = text.split_once(r#""layout":"#).expect("it has a layout").1;
    layout[..layout.len() - 1].to_owned()
}

fn check(short: &str, expected: Expect) {
    let layout = read(short).expect("a good layout");
    let written = full(layout.clone());
    expected.assert_eq(&written.replace(r#"{"label""#, "\n  {\"label\""));
    assert_eq!(read(&written).expect("the full form is good"), layout, "the full form reads as another layout");
}

fn refused(layout: &str, words: &str) {
    let reason = read(layout).expect_err("no layout");
    assert!(reason.contains(words), "{reason}");
}

#[test]
fn a_grid() {
    check(
        r#"{"rows":2,"seats":16,"category":"stalls"}"#,
        expect![[r#"
            {"rows":[
              {"label":"A","runs":[{"gap":0,"count":16,"first":1,"step":1,"category":"stalls","accessible":false}]},
              {"label":"B","runs":[{"gap":0,"count":16,"first":1,"step":1,"category":"stalls","accessible":false}]}]}"#]],
    );
    let many = read(r#"{"rows":703,"seats":1}"#).expect("a good layout");
    let labels: Vec<&str> = [0, 25, 26, 701, 702].map(|row| many.rows()[row].label.as_str()).to_vec();
    assert_eq!(labels, ["A", "Z", "AA", "ZZ", "AAA"]);
}

#[test]
fn rows_by_count_with_aisles() {
    check(
        r#"{"rows":[{"label":"1","count":3},{"label":"2","section":"balcony","count":6,"first":11,"step":2,"gaps":[2,4],"category":"cheap"}]}"#,
        expect![[r#"
            {"rows":[
              {"label":"1","runs":[{"gap":0,"count":3,"first":1,"step":1,"category":"standard","accessible":false}]},
              {"label":"2","section":"balcony","runs":[{"gap":0,"count":2,"first":11,"step":2,"category":"cheap","accessible":false},{"gap":1,"count":2,"first":15,"step":2,"category":"cheap","accessible":false},{"gap":1,"count":2,"first":19,"step":2,"category":"cheap","accessible":false}]}]}"#]],
    );
}

#[test]
fn seat_by_seat() {
    check(
        r#"{"focal":[0,-200],"rows":[
            {"label":"A","seats":[{"label":"1"},{"label":"2"},null,null,{"label":"3","accessible":true},{"label":"4a","category":"box"}]},
            {"label":"B","seats":[{"label":"x","x":-50,"y":120},{"label":"y","x":50,"y":120},{"label":"z"}]}]}"#,
        expect![[r#"
            {"focal":[0,-200],"rows":[
              {"label":"A","runs":[{"gap":0,"count":2,"first":1,"step":1,"category":"standard","accessible":false},{"gap":2,"count":1,"first":3,"step":1,"category":"standard","accessible":true},{"gap":0,"count":1,"names":["4a"],"category":"box","accessible":false}]},
              {"label":"B","runs":[{"gap":0,"count":2,"names":["x","y"],"category":"standard","accessible":false,"points":[[-50,120],[50,120]]},{"gap":0,"count":1,"names":["z"],"category":"standard","accessible":false}]}]}"#]],
    );
}

#[test]
fn invalid_layouts_are_refused_with_a_reason() {
    refused(r#"{"rows":4294967295,"seats":65535}"#, "at most 200000 seats");
    refused(r#"{"rows":18446744073709551615,"seats":1}"#, "more rows");
    refused(r#"{"rows":5}"#, "`rows` and `seats`");
    refused(r#"{"rows":"five"}"#, "a list of rows");
    refused(r#"{"rows":[{"label":"A"}]}"#, "row A: a row has one of");
    refused(r#"{"rows":[{"label":"A","count":3,"seats":[]}]}"#, "a row has one of");
    refused(r#"{"rows":[{"label":"A","count":0}]}"#, "without seats");
    refused(r#"{"rows":[{"label":"A","count":4,"gaps":[4]}]}"#, "`gaps`");
    refused(r#"{"rows":[{"label":"A","count":4,"gaps":[2,2]}]}"#, "`gaps`");
    refused(r#"{"rows":[{"label":"","count":4}]}"#, "a label");
    refused(r#"{"rows":[{"label":"\u001b[2J","count":4}]}"#, "a label");
    refused(r#"{"rows":[{"label":"A","seats":[{"label":"1","x":1}]}]}"#, "both `x` and `y`");
    refused(r#"{"rows":[{"label":"A","seats":[{"label":"1"},{"label":"1"}]}]}"#, "two seats called 1");
    refused(r#"{"rows":[{"label":"A","count":65535,"first":2147483647}]}"#, "label");
}

//! Invalid times: intervals that end before they begin or last for ever, and times that the clocks skip or repeat. Each is
//! refused by name over both protocols, and nothing changes.

use crate::common::{
    Answer, Encoding, Home, Port, Rng, Server, Theatre,
    fixture::{audit, room},
    http,
};
use serde_json::{Value, json};

/// A node with a theatre, a room in Berlin that has one booking, and one in Samoa.
struct Stage {
    server: Server,
    port: Port,
    token: String,
    _home: Home,
}

impl Stage {
    async fn new(test: &str) -> Stage {
        let home = Home::new();
        let server = home.start();
        let port = server.port(Encoding::Json).await;
        Theatre::open(&port, 1, (2, 8), None).await;
        room(&port, "berlin", Value::Null).await;
        room(&port, "apia", json!({"zone": "Pacific/Apia"})).await;
        room(&port, "lord-howe", json!({"zone": "Australia/Lord_Howe"})).await;
        let there = json!({"resource": "berlin", "booking": "there",
            "begin": "2030-01-01T10:00:00Z", "end": "2030-01-01T11:00:00Z"});
        port.ask("resource.reserve", "there", there).await.ok();
        Stage { server, port, token: Rng::of_test(test).token(), _home: home }
    }

    /// Checks that both protocols refuse each of these requests with this code, and that the audit stays the same.
    async fn refuses(&self, wrong: Vec<(&str, Value)>, code: u64, name: &str) {
        let before = audit(&self.port).await;
        let mut failures = Vec::new();
        for (number, (op, body)) in wrong.into_iter().enumerate() {
            let rid = format!("wrong-{number}");
            let answers = [
                self.port.ask(op, &rid, body.clone()).await,
                http::ask(self.server.address(), op, Some(&rid), &body).await,
            ];
            for answer in answers {
                match answer {
                    Answer::No(no) if (no.code, no.name.as_str()) == (code, name) => {}
                    other => failures.push(format!("{op} {body} must be refused with {code} {name}: {other:?}")),
                }
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n"));
        assert_eq!(audit(&self.port).await, before, "a refusal changed something");
    }

    /// Requests of every op with local times, at this time.
    fn in_local_time(&self, resource: &str, begin: &str, end: &str) -> Vec<(&'static str, Value)> {
        let time = |booking: Option<&str>| {
            let mut body = json!({"resource": resource, "local_begin": begin, "local_end": end});
            if let Some(booking) = booking {
                body["booking"] = booking.into();
            }
            body
        };
        let mut all = vec![("resource.reserve", time(Some("new"))), ("resource.is_available", time(None))];
        if resource == "berlin" {
            all.push(("resource.move", time(Some("there"))));
        }
        all
    }

    /// Requests of every op with times in UTC, at this time.
    fn in_utc(&self, begin: &str, end: &str) -> Vec<(&'static str, Value)> {
        let time = |more: Value| {
            let mut body = json!({"resource": "berlin", "begin": begin, "end": end});
            body.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
            body
        };
        let line = time(json!({}));
        vec![
            ("resource.reserve", time(json!({"booking": "new"}))),
            ("resource.move", time(json!({"booking": "there"}))),
            ("resource.is_available", line.clone()),
            ("cart.hold_slot", time(json!({"token": self.token}))),
            ("cart.hold_all", json!({"token": self.token, "lines": [line]})),
            ("resource.bookings", json!({"resource": "berlin", "from": begin, "to": end})),
            ("resource.free_slots", json!({"resource": "berlin", "from": begin, "to": end, "length_ms": 60_000})),
        ]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_that_end_before_they_begin_or_last_a_hundred_years() {
    let stage = Stage::new("times_that_end_before_they_begin_or_last_a_hundred_years").await;
    let mut wrong = Vec::new();
    for (begin, end) in [
        ("2030-01-01T12:00:00Z", "2030-01-01T12:00:00Z"),
        ("2030-01-01T12:00:00Z", "2030-01-01T11:59:59.999Z"),
        ("2030-01-01T12:00:00Z", "2031-01-02T12:00:00.001Z"),
        ("2030-01-01T12:00:00Z", "2130-01-01T12:00:00Z"),
        ("1970-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"),
    ] {
        wrong.extend(stage.in_utc(begin, end));
    }
    for (begin, end) in [
        ("2030-01-01T12:00", "2030-01-01T12:00"),
        ("2030-01-01T12:00", "2030-01-01T11:59"),
        ("2030-01-01T12:00", "2130-01-01T12:00"),
        // Later in local time, but earlier: the clocks went back in between.
        ("2030-10-27T03:00", "2030-10-27T01:59"),
    ] {
        wrong.extend(stage.in_local_time("berlin", begin, end));
    }
    let repeat = |repeat: Value| {
        let body = json!({"resource": "berlin", "booking": "new", "begin": "2030-01-01T12:00:00Z",
            "end": "2030-01-01T13:00:00Z", "repeat": repeat});
        ("resource.reserve", body)
    };
    wrong.push(repeat(json!({"every": "day", "until": "2130-01-01"})));
    wrong.push(repeat(json!({"every": "month", "until": "2130-01-01"})));
    stage.refuses(wrong, 502, "bad_interval").await;
    let session = |starts_at: &str, ends_at: &str| {
        let body = json!({"id": "new", "venue": "royal", "hall": "main", "title": "hamlet", "starts_at": starts_at,
            "ends_at": ends_at, "prices": {"standard": {"amount": 1, "currency": "EUR"}}});
        ("session.create", body)
    };
    let wrong = vec![
        session("2031-01-01T20:00:00Z", "2031-01-01T20:00:00Z"),
        session("2031-01-01T20:00:00Z", "2031-01-01T19:00:00Z"),
        session("2031-01-01T20:00:00Z", "2131-01-01T20:00:00Z"),
        repeat(json!({"every": "week", "interval": 1_000_000, "count": 100})),
    ];
    stage.refuses(wrong, 101, "bad_request").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn skipped_and_ambiguous_local_times_are_refused() {
    let stage = Stage::new("skipped_and_ambiguous_local_times_are_refused").await;
    let mut wrong = Vec::new();
    for (resource, begin, end) in [
        // In Berlin 2:00 to 3:00 is skipped on 31 March 2030 and comes twice on 27 October.
        ("berlin", "2030-03-31T02:00", "2030-03-31T04:00"),
        ("berlin", "2030-03-31T01:00", "2030-03-31T02:59:59.999"),
        ("berlin", "2030-03-31T02:15", "2030-03-31T02:45"),
        ("berlin", "2030-10-27T02:00", "2030-10-27T05:00"),
        ("berlin", "2030-10-27T00:00", "2030-10-27T02:59"),
        // Lord Howe skips half an hour, Samoa a whole day.
        ("lord-howe", "2030-10-06T02:15", "2030-10-06T04:00"),
        ("lord-howe", "2030-04-07T01:45", "2030-04-07T04:00"),
        ("apia", "2011-12-30T10:00", "2011-12-30T11:00"),
    ] {
        wrong.extend(stage.in_local_time(resource, begin, end));
    }
    for (begin, end) in [
        ("2030-02-30T10:00", "2030-03-01T10:00"),
        ("2030-01-01T24:00", "2030-01-02T10:00"),
        ("2030-01-01T10:60", "2030-01-01T12:00"),
        ("2030-01-01", "2030-01-02"),
        ("2030-01-01T10:00+01:00", "2030-01-01T12:00"),
        ("tomorrow", "2030-01-01T12:00"),
        ("", "2030-01-01T12:00"),
    ] {
        wrong.extend(stage.in_local_time("berlin", begin, end));
    }
    stage.refuses(wrong, 502, "bad_interval").await;
    // An interval across the skipped hour has its true length.
    let over = json!({"resource": "berlin", "booking": "over", "local_begin": "2030-03-31T01:30",
        "local_end": "2030-03-31T03:30"});
    let over = stage.port.ask("resource.reserve", "over", over).await.ok();
    let times = (&over["bookings"][0]["begin"], &over["bookings"][0]["end"]);
    assert_eq!(times, (&json!("2030-03-31T00:30:00.000Z"), &json!("2030-03-31T01:30:00.000Z")));
    // In UTC each of the two 2:30 is a time of its own.
    for (booking, begin, end) in [
        ("first", "2030-10-27T00:30:00Z", "2030-10-27T01:00:00Z"),
        ("second", "2030-10-27T01:30:00Z", "2030-10-27T02:00:00Z"),
    ] {
        let body = json!({"resource": "berlin", "booking": booking, "begin": begin, "end": end});
        stage.port.ask("resource.reserve", booking, body).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_times_are_refused() {
    let stage = Stage::new("malformed_times_are_refused").await;
    let mut wrong = Vec::new();
    for begin in [
        "2030-02-30T10:00:00Z",
        "2030-01-01T24:00:01Z",
        "2030-01-01T10:00:00",
        "1969-12-31T23:59:59Z",
        "10000-01-01T00:00:00Z",
        "2030-13-01T00:00:00Z",
        "yesterday",
        "",
    ] {
        wrong.extend(stage.in_utc(begin, "2030-01-01T12:00:00Z"));
    }
    stage.refuses(wrong, 101, "bad_request").await;
    // Numbers are times in the other encoding only.
    let packed = stage.server.port(Encoding::MsgPack).await;
    let before = audit(&packed).await;
    for begin in [json!(-1), json!(1.5), json!(u64::MAX), json!(253_402_300_800_000_u64), json!("2030-01-01T10:00:00Z")]
    {
        let body = json!({"token": stage.token, "resource": "berlin", "begin": begin, "end": 1_900_000_000_000_u64});
        let answer = packed.ask("cart.hold_slot", "wrong", body).await;
        assert!(matches!(&answer, Answer::No(no) if [101, 502].contains(&no.code)), "{begin}: {answer:?}");
    }
    assert_eq!(audit(&packed).await, before);
}

/// A booking in the last second that numbers can express can be written as text too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_second_of_the_year_9999() {
    let stage = Stage::new("the_last_second_of_the_year_9999").await;
    const END_MS: u64 = 253_402_300_799_999;
    let watcher = stage.server.port(Encoding::Json).await;
    watcher.read("watch", json!({"entity": "resource/berlin"})).await.ok();
    watcher.other().await;
    let packed = stage.server.port(Encoding::MsgPack).await;
    let slot = json!({"token": stage.token, "resource": "berlin", "begin": END_MS - 999, "end": END_MS});
    packed.ask("cart.hold_slot", "last", slot).await.ok();
    let delta = watcher.other().await;
    assert_eq!(delta["delta"]["days"], json!(["9999-12-31"]), "{delta}");
    let (begin, end) = ("9999-12-31T23:59:59.000Z", "9999-12-31T23:59:59.999Z");
    let window = json!({"resource": "berlin", "from": "9999-12-31T00:00:00Z", "to": end});
    let page = stage.port.read("resource.bookings", window).await.ok();
    assert_eq!((&page["bookings"][0]["begin"], &page["bookings"][0]["end"]), (&json!(begin), &json!(end)), "{page}");
    let again = json!({"resource": "berlin", "booking": "new", "begin": begin, "end": end});
    stage.port.ask("resource.reserve", "again", again).await.no(501, "slot_taken");
    let cart = stage.port.read("cart.get", json!({"token": stage.token})).await.ok();
    assert_eq!(cart["lines"][0]["end"], end);
    let events = stage.port.read("admin.history", json!({"entity": "resource/berlin"})).await.ok();
    assert!(events["entries"].as_array().is_some_and(|entries| entries.len() > 2), "{events}");
}

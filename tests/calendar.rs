//! Calendars: bookings by time, with and without a cart, single and recurring, in time zones with clock changes.

use std::{collections::BTreeMap, sync::Arc};

use crate::common::{
    Answer, Encoding, Home, Port, Rng, Shopper, eventually,
    fixture::{audit, room},
    http, time,
};
use futures_util::future::join_all;
use serde_json::{Value, json};

/// 2030-01-01T00:00:00Z.
const NEW_YEAR_MS: u64 = 1_893_456_000_000;
const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// A booking of a resource. `begin` and `end` are milliseconds since the new year.
fn booking(port: &Port, resource: &str, booking: &str, begin: u64, end: u64) -> Value {
    json!({"resource": resource, "booking": booking,
        "begin": time(port, NEW_YEAR_MS + begin), "end": time(port, NEW_YEAR_MS + end)})
}

async fn is_free(port: &Port, resource: &str, begin: u64, end: u64) -> bool {
    let body = json!({"resource": resource,
        "begin": time(port, NEW_YEAR_MS + begin), "end": time(port, NEW_YEAR_MS + end)});
    let answer = port.read("resource.is_available", body).await.ok();
    assert_eq!(answer["available"] == true, answer["conflicts"].as_array().is_none_or(Vec::is_empty), "{answer}");
    answer["available"] == true
}

/// Ids of the bookings that overlap a window.
async fn booked(port: &Port, resource: &str, from: u64, to: u64) -> Vec<String> {
    let body =
        json!({"resource": resource, "from": time(port, NEW_YEAR_MS + from), "to": time(port, NEW_YEAR_MS + to)});
    let page = port.read("resource.bookings", body).await.ok();
    let bookings = page["bookings"].as_array().expect("bookings");
    bookings.iter().map(|booking| booking["booking"].as_str().expect("an id").to_owned()).collect()
}

/// Worked examples 12 and 13, and mistakes of the seed's code: seconds at the end of a day, days of 24 hours from the begin,
/// cancels that cancel half a booking, windows that hide bookings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_desk_by_the_minute() {
    let home = Home::new();
    let server = home.start();
    for encoding in Encoding::BOTH {
        let port = server.port(encoding).await;
        let desk = format!("desk-{encoding:?}");
        room(&port, &desk, Value::Null).await;
        let reserve = async |id: &str, begin: u64, end: u64| {
            port.ask("resource.reserve", &format!("{id}-{begin}-{end}"), booking(&port, &desk, id, begin, end)).await
        };
        let (ten, half_past) = (10 * HOUR_MS, 10 * HOUR_MS + 30 * MINUTE_MS);
        let next_day = DAY_MS + 10 * HOUR_MS + 45 * MINUTE_MS;
        reserve("a", ten, half_past).await.ok();
        reserve("b", half_past, next_day).await.ok();
        let no = reserve("c", half_past, next_day).await.no(501, "slot_taken");
        assert!(no["conflicts"][0]["why"].as_str().is_some_and(|why| why.contains('b')), "the conflict is named: {no}");
        assert_eq!(no["conflicts"].as_array().map(Vec::len), Some(1));
        // Across midnight. The last second of a day, or half of it, can be booked like any other time.
        let (late, early) = (4 * DAY_MS + 22 * HOUR_MS, 5 * DAY_MS + 2 * HOUR_MS);
        reserve("night", late, early).await.ok();
        let midnight = 5 * DAY_MS;
        reserve("d", midnight - 1_000, midnight + 1_000).await.no(501, "slot_taken");
        reserve("e", midnight - 500, midnight - 100).await.no(501, "slot_taken");
        reserve("f", midnight + HOUR_MS, midnight + 3 * HOUR_MS).await.no(501, "slot_taken");
        reserve("g", early, early + 1).await.ok();
        reserve("h", late - 1, late).await.ok();
        // Every window shows the same bookings.
        for (from, to, expected) in [
            (4 * DAY_MS, 5 * DAY_MS, vec!["h", "night"]),
            (5 * DAY_MS, 6 * DAY_MS, vec!["night", "g"]),
            (late, late + 1, vec!["night"]),
            (early, early + 1, vec!["g"]),
            (early + 1, early + DAY_MS, vec![]),
            (0, 30 * DAY_MS, vec!["a", "b", "h", "night", "g"]),
        ] {
            assert_eq!(booked(&port, &desk, from, to).await, expected, "from {from} to {to}");
        }
        assert!(!is_free(&port, &desk, midnight - 1, midnight).await);
        assert!(is_free(&port, &desk, early + 1, early + 2).await);
        // An id is used once, an interval has a length, and a cancel removes every part.
        reserve("a", 20 * DAY_MS, 20 * DAY_MS + 1).await.no(503, "id_in_use");
        reserve("x", ten, ten).await.no(502, "bad_interval");
        reserve("x", half_past, ten).await.no(502, "bad_interval");
        reserve("x", ten, ten + 367 * DAY_MS).await.no(502, "bad_interval");
        let cancel = |id: &str| json!({"resource": desk, "booking": id});
        port.ask("resource.cancel", "c1", cancel("night")).await.ok();
        port.ask("resource.cancel", "c1", cancel("night")).await.ok();
        port.ask("resource.cancel", "c2", cancel("night")).await.no(505, "no_such_booking");
        assert!(is_free(&port, &desk, late, early).await);
        for id in ["a", "b", "g", "h"] {
            port.ask("resource.cancel", id, cancel(id)).await.ok();
        }
        assert_eq!(booked(&port, &desk, 0, 30 * DAY_MS).await, [""; 0]);
        // A move to a taken time keeps the old time. A booking may overlap its own old time.
        reserve("p", 0, HOUR_MS).await.ok();
        reserve("q", 2 * HOUR_MS, 3 * HOUR_MS).await.ok();
        let moved = booking(&port, &desk, "p", 2 * HOUR_MS, 4 * HOUR_MS);
        port.ask("resource.move", "m1", moved).await.no(501, "slot_taken");
        assert_eq!(booked(&port, &desk, 0, HOUR_MS).await, ["p"]);
        port.ask("resource.move", "m2", booking(&port, &desk, "p", 30 * MINUTE_MS, 2 * HOUR_MS)).await.ok();
        assert!(is_free(&port, &desk, 0, 30 * MINUTE_MS).await && !is_free(&port, &desk, HOUR_MS, HOUR_MS + 1).await);
        port.ask("resource.move", "m3", booking(&port, &desk, "nobody", 0, 1)).await.no(505, "no_such_booking");
    }
}

/// Recurring bookings keep their local time. If clocks skip or repeat one of their times, the answer names it and nothing is
/// booked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recurring_bookings_across_clock_changes() {
    let home = Home::new();
    let server = home.start();
    let port = server.port(Encoding::Json).await;
    let address = server.address();
    room(&port, "hall", Value::Null).await;
    let local = |id: &str, begin: &str, end: &str, repeat: Value| json!({"resource": "hall", "booking": id, "local_begin": begin, "local_end": end, "repeat": repeat});
    // In Berlin the clocks go forward on 31 March 2030 at 2:00 and back on 27 October 2030 at 3:00.
    let weekly = json!({"every": "week", "count": 3});
    let choir =
        port.ask("resource.reserve", "r1", local("choir", "2030-03-24T10:00", "2030-03-24T11:30", weekly)).await.ok();
    let begins: Vec<_> = choir["bookings"].as_array().expect("bookings").iter().map(|one| &one["begin"]).collect();
    assert_eq!(begins, ["2030-03-24T09:00:00.000Z", "2030-03-31T08:00:00.000Z", "2030-04-07T08:00:00.000Z"], "{choir}");
    let names: Vec<_> = choir["bookings"].as_array().expect("bookings").iter().map(|one| &one["booking"]).collect();
    assert_eq!(names, ["choir.1", "choir.2", "choir.3"]);
    // Over HTTP: a night that is an hour shorter.
    let daily = json!({"every": "day", "count": 2});
    let night = local("guard", "2030-03-29T22:00", "2030-03-30T06:00", daily);
    let night = http::ask(address, "resource.reserve", Some("r2"), &night).await.ok();
    assert_eq!(night["bookings"][1]["begin"], "2030-03-30T21:00:00.000Z");
    assert_eq!(night["bookings"][1]["end"], "2030-03-31T04:00:00.000Z");
    // 2:30 is skipped once and repeated once. Nothing is booked, and the answer names the day.
    let daily = json!({"every": "day", "until": "2030-04-02"});
    let no = port.ask("resource.reserve", "r3", local("early", "2030-03-29T02:15", "2030-03-29T02:45", daily)).await;
    let no = no.no(501, "slot_taken");
    let reasons: Vec<_> =
        no["conflicts"].as_array().expect("conflicts").iter().filter_map(|conflict| conflict["why"].as_str()).collect();
    assert!(reasons.iter().any(|why| why.contains("2030-03-31T02:15")), "the skipped time is named: {reasons:?}");
    let no =
        port.ask("resource.reserve", "r4", local("once", "2030-03-31T02:30", "2030-03-31T04:00", Value::Null)).await;
    assert!(no.no(502, "bad_interval")["message"].as_str().is_some_and(|words| words.contains("2030-03-31T02:30")));
    let no =
        port.ask("resource.reserve", "r5", local("twice", "2030-10-27T02:30", "2030-10-27T04:00", Value::Null)).await;
    no.no(502, "bad_interval");
    // A time in UTC is unambiguous.
    let second = json!({"resource": "hall", "booking": "twice",
        "begin": "2030-10-27T01:30:00Z", "end": "2030-10-27T01:45:00Z"});
    port.ask("resource.reserve", "r6", second).await.ok();
    let all = json!({"resource": "hall", "from": "2030-03-01T00:00:00Z", "to": "2030-12-01T00:00:00Z"});
    let bookings = port.read("resource.bookings", all.clone()).await.ok();
    assert_eq!(bookings["bookings"].as_array().map(Vec::len), Some(3 + 2 + 1), "{bookings}");
    // A series with a conflict books none of its days.
    let weekly = json!({"every": "week", "weekdays": [5, 7], "count": 4});
    let no = port.ask("resource.reserve", "r7", local("band", "2030-03-22T09:30", "2030-03-22T10:30", weekly)).await;
    let no = no.no(501, "slot_taken");
    assert_eq!(no["conflicts"].as_array().map(Vec::len), Some(2), "{no}");
    assert_eq!(port.read("resource.bookings", all.clone()).await.ok(), bookings);
    // Cancels one booking of a series, then the rest.
    port.ask("resource.cancel", "c1", json!({"resource": "hall", "booking": "choir.2"})).await.ok();
    port.ask("resource.cancel", "c2", json!({"resource": "hall", "booking": "choir", "series": true})).await.ok();
    port.ask("resource.cancel", "c3", json!({"resource": "hall", "booking": "choir", "series": true}))
        .await
        .no(505, "no_such_booking");
    let left = port.read("resource.bookings", all).await.ok();
    assert_eq!(left["bookings"].as_array().map(Vec::len), Some(3), "{left}");
    // Months without this day are skipped.
    let monthly = json!({"every": "month", "count": 3});
    let rent =
        port.ask("resource.reserve", "r8", local("rent", "2030-01-31T12:00", "2030-01-31T13:00", monthly)).await.ok();
    let days: Vec<_> = rent["bookings"]
        .as_array()
        .expect("bookings")
        .iter()
        .map(|one| one["begin"].as_str().expect("a time")[..10].to_owned())
        .collect();
    assert_eq!(days, ["2030-01-31", "2030-03-31", "2030-05-31"]);
    audit(&port).await;
}

/// Hours, exceptions, buffers, notice and horizon. Free slots are exactly the slots that can be booked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_hours_and_free_slots() {
    let home = Home::new();
    let server = home.start();
    let port = server.port(Encoding::Json).await;
    let week: Vec<Value> =
        (1..=7).map(|day| if day == 7 { json!([]) } else { json!([[540, 720], [780, 1_080]]) }).collect();
    let hours = json!({"week": week, "exceptions": {"2030-01-03": [], "2030-01-04": [[0, 1_440]]}});
    let put =
        room(&port, "court", json!({"hours": hours, "before_ms": 0, "after_ms": 15 * MINUTE_MS, "capacity": 1})).await;
    assert_eq!(put["hours"], hours);
    let reserve = async |id: &str, begin: &str, end: &str| {
        let body = json!({"resource": "court", "booking": id, "local_begin": begin, "local_end": end});
        port.ask("resource.reserve", id, body).await
    };
    // 2 January 2030 is a Wednesday.
    reserve("a", "2030-01-02T09:00", "2030-01-02T10:00").await.ok();
    reserve("b", "2030-01-02T10:00", "2030-01-02T11:00").await.no(501, "slot_taken");
    reserve("c", "2030-01-02T10:15", "2030-01-02T12:00").await.ok();
    reserve("d", "2030-01-02T12:00", "2030-01-02T12:30").await.no(504, "outside_hours");
    reserve("e", "2030-01-02T11:30", "2030-01-02T13:30").await.no(504, "outside_hours");
    reserve("f", "2030-01-03T09:00", "2030-01-03T10:00").await.no(504, "outside_hours");
    reserve("g", "2030-01-04T00:00", "2030-01-04T09:00").await.ok();
    reserve("h", "2030-01-06T09:00", "2030-01-06T10:00").await.no(504, "outside_hours");
    let free = json!({"resource": "court", "from": "2030-01-02T00:00:00Z", "to": "2030-01-05T00:00:00Z",
        "length_ms": 2 * HOUR_MS, "count": 3});
    let slots = port.read("resource.free_slots", free).await.ok();
    let slots = slots["slots"].as_array().expect("slots");
    assert_eq!(slots[0], json!(["2030-01-02T12:00:00.000Z", "2030-01-02T14:00:00.000Z"]), "{slots:?}");
    for (number, slot) in slots.iter().enumerate() {
        let body = json!({"resource": "court", "booking": format!("s{number}"), "begin": slot[0], "end": slot[1]});
        let answer = port.read("resource.is_available", body.clone()).await.ok();
        assert_eq!(answer["available"], true, "{slot}: {answer}");
    }
    // Seats for up to four people.
    room(&port, "pool", json!({"capacity": 4})).await;
    for number in 0..4 {
        let id = format!("p{number}");
        port.ask("resource.reserve", &id, booking(&port, "pool", &id, 0, HOUR_MS)).await.ok();
    }
    port.ask("resource.reserve", "p4", booking(&port, "pool", "p4", HOUR_MS - 1, HOUR_MS + 1))
        .await
        .no(501, "slot_taken");
    port.ask("resource.reserve", "p5", booking(&port, "pool", "p5", HOUR_MS, 2 * HOUR_MS)).await.ok();
    // Not before the notice ends, not beyond the horizon.
    room(&port, "soon", json!({"notice_ms": DAY_MS, "horizon_ms": 30 * DAY_MS})).await;
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis() as u64;
    for (id, from_now, code) in [("x", HOUR_MS, Some(506)), ("y", 2 * DAY_MS, None), ("z", 31 * DAY_MS, Some(506))] {
        let begin = now + from_now;
        let body = json!({"resource": "soon", "booking": id, "begin": time(&port, begin), "end": time(&port, begin + HOUR_MS)});
        let answer = port.ask("resource.reserve", id, body).await;
        match code {
            Some(_) => drop(answer.no(506, "too_soon_or_far")),
            None => drop(answer.ok()),
        }
    }
    audit(&port).await;
}

/// A room and a projector in one cart, both or none. Time in a cart expires, is sold and is refunded like seats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_room_and_its_projector() {
    let mut rng = Rng::of_test("a_room_and_its_projector");
    let home = Home::new();
    let server = home.start();
    let port = Arc::new(server.port(Encoding::MsgPack).await);
    room(&port, "room", json!({"hold_ttl_ms": 60_000})).await;
    room(&port, "projector", json!({"rate": {"amount": 500, "currency": "EUR"}})).await;
    let both = |hour: u64| {
        let slot = |resource: &str| json!({"resource": resource, "begin": NEW_YEAR_MS + hour * HOUR_MS, "end": NEW_YEAR_MS + (hour + 2) * HOUR_MS});
        json!({"lines": [slot("room"), slot("projector")]})
    };
    port.ask("resource.reserve", "service", booking(&port, "projector", "service", 3 * HOUR_MS, 4 * HOUR_MS))
        .await
        .ok();
    let buyer = Shopper::new(&port, &mut rng);
    let no = buyer.ask("cart.hold_all", both(2)).await.no(501, "slot_taken");
    assert!(no["conflicts"][0]["why"].as_str().is_some_and(|why| why.contains("service")), "{no}");
    eventually("the room is free", async || is_free(&port, "room", 2 * HOUR_MS, 4 * HOUR_MS).await.then_some(())).await;
    let held = buyer.ask("cart.hold_all", both(4)).await.ok();
    // Two begun hours at 20.00, and a projector at a flat 5.00.
    assert_eq!([0, 1].map(|line| held["lines"][line]["price"].as_i64()), [Some(4_000), Some(500)]);
    port.ask("resource.reserve", "x", booking(&port, "room", "x", 5 * HOUR_MS, 7 * HOUR_MS))
        .await
        .no(501, "slot_taken");
    let order = buyer.checkout().await.ok();
    assert_eq!(order["total"]["amount"], 4_500);
    // The desk cancels a sold booking by its public name. Its cart refunds the line.
    let bookings = port
        .read("resource.bookings", json!({"resource": "room", "from": NEW_YEAR_MS, "to": NEW_YEAR_MS + DAY_MS}))
        .await
        .ok();
    let id = bookings["bookings"][0]["booking"].clone();
    assert_eq!(bookings["bookings"][0]["order"], json!(buyer.cart()));
    port.ask("resource.cancel", "y", json!({"resource": "room", "booking": id})).await.ok();
    eventually("the room is free", async || is_free(&port, "room", 4 * HOUR_MS, 6 * HOUR_MS).await.then_some(())).await;
    assert!(!is_free(&port, "projector", 4 * HOUR_MS, 6 * HOUR_MS).await);
    // An abandoned cart.
    room(&port, "short", json!({"hold_ttl_ms": 200})).await;
    let forgotten = Shopper::new(&port, &mut rng);
    forgotten.slot("short", NEW_YEAR_MS.into(), (NEW_YEAR_MS + HOUR_MS).into()).await.ok();
    assert!(!is_free(&port, "short", 0, 1).await);
    eventually("the cart expires", async || is_free(&port, "short", 0, HOUR_MS).await.then_some(())).await;
    assert_eq!(forgotten.state().await, "expired");
    audit(&port).await;
}

/// Twenty clients reserve, move and cancel concurrently while the node is killed. The bookings equal the answers, and no two
/// overlap.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_bookings_survive_a_kill() {
    const CLIENTS: usize = 20;
    const STEPS: usize = 30;
    let mut rng = Rng::of_test("concurrent_bookings_survive_a_kill");
    let home = Home::new();
    let mut server = home.start();
    let address = server.address();
    let port = server.port(Encoding::MsgPack).await;
    room(&port, "court", Value::Null).await;
    drop(port);
    // Every client's bookings by id: one state, or two possible states after a lost answer.
    let mut known: Vec<BTreeMap<String, (u64, u64)>> = vec![BTreeMap::new(); CLIENTS];
    for round in 0..2 {
        let ports = server.ports(CLIENTS).await;
        let wait_us = 20_000 + rng.below(150_000) as u64;
        let storm = ports.iter().zip(&mut known).enumerate().map(|(number, (port, known))| {
            let mut rng = rng.fork((round * CLIENTS + number) as u64);
            async move {
                let mut lost = None;
                for step in 0..STEPS {
                    let begin = rng.below(4 * 24 * 2) as u64 * 30 * MINUTE_MS;
                    let end = begin + (1 + rng.below(6) as u64) * 30 * MINUTE_MS;
                    let old = known.keys().nth(rng.below(known.len().max(1))).cloned();
                    let rid = format!("{round}-{number}-{step}");
                    let (op, id) = match (rng.below(10), old) {
                        (0..3, Some(old)) => ("resource.cancel", old),
                        (3..6, Some(old)) => ("resource.move", old),
                        _ => ("resource.reserve", format!("b-{rid}")),
                    };
                    let body = match op {
                        "resource.cancel" => json!({"resource": "court", "booking": id}),
                        _ => booking(port, "court", &id, begin, end),
                    };
                    let answer = port.ask(op, &rid, body.clone()).await;
                    if answer.is_unknown() {
                        lost = Some((op, rid, body, id, (begin, end)));
                        break;
                    }
                    note(known, op, id, (begin, end), answer);
                }
                lost
            }
        });
        let crash = async {
            tokio::time::sleep(std::time::Duration::from_micros(wait_us)).await;
            if round == 0 {
                server.kill();
                home.start_at(address)
            } else {
                server
            }
        };
        let (lost, running) = tokio::join!(join_all(storm), crash);
        server = running;
        let port = server.port(Encoding::MsgPack).await;
        // A repeat with the same id resolves an unknown outcome.
        for (known, lost) in known.iter_mut().zip(lost) {
            let Some((op, rid, body, id, slot)) = lost else { continue };
            // The other encoding writes times differently, but the repeat is the same command.
            let body = match op {
                "resource.cancel" => body,
                _ => booking(&port, "court", &id, slot.0, slot.1),
            };
            let answer = port.ask(op, &rid, body).await;
            note(known, op, id, slot, answer);
        }
        let expected: BTreeMap<String, (u64, u64)> =
            known.iter().flatten().map(|(id, slot)| (id.clone(), *slot)).collect();
        let body = json!({"resource": "court", "from": NEW_YEAR_MS, "to": NEW_YEAR_MS + 30 * DAY_MS, "limit": 1_000});
        let page = port.read("resource.bookings", body).await.ok();
        let since = |one: &Value| one.as_u64().expect("a time") - NEW_YEAR_MS;
        let bookings = page["bookings"].as_array().expect("bookings");
        let found: BTreeMap<String, (u64, u64)> = bookings
            .iter()
            .map(|one| (one["booking"].as_str().expect("an id").to_owned(), (since(&one["begin"]), since(&one["end"]))))
            .collect();
        assert_eq!(found, expected);
        let mut slots: Vec<_> = found.into_values().collect();
        slots.sort_unstable();
        assert!(slots.windows(2).all(|pair| pair[0].1 <= pair[1].0), "two bookings overlap (P13): {slots:?}");
        println!("round {round}: {} bookings exist", slots.len());
        audit(&port).await;
    }
}

/// Applies an answer to a client's record.
fn note(known: &mut BTreeMap<String, (u64, u64)>, op: &str, id: String, slot: (u64, u64), answer: Answer) {
    match (op, answer) {
        ("resource.cancel", answer) => {
            answer.ok();
            known.remove(&id);
        }
        (_, Answer::No(no)) => assert_eq!(no.code, 501, "{op} {id}: {}", no.body),
        (_, answer) => {
            answer.ok();
            known.insert(id, slot);
        }
    }
}

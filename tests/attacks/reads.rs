//! Expensive reads, sent over many sockets at once.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use boxoffice_wire::Op;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    stage::Stage,
    wire::{self, attacker},
};
use crate::common::{Answer, Port};

/// Sockets that read.
const READERS: usize = 16;

/// Rows and seats of the arena.
const ARENA: (u64, u64) = (160, 125);

/// Sessions of the city, and bookings of the room.
const SESSIONS: usize = 500;
const BOOKINGS: u64 = 400;

const HOUR_MS: u64 = 60 * 60 * 1_000;
const FROM_MS: u64 = 1_900_800_000_000;

fn time(ms: u64) -> Value {
    boxoffice_wire::repr::rfc3339(boxoffice_core::time::Timestamp(ms)).expect("a time of the calendar").into()
}

/// Creates an arena, a city with many sessions and a room with many bookings. Returns the reads of all of them.
async fn prepare(stage: &Stage) -> Vec<(&'static str, Value)> {
    let operator = stage.operator().await;
    let put = async |items: Vec<Value>| {
        let answer = operator.read("batch", json!({"items": items})).await.ok();
        for item in answer["items"].as_array().expect("items") {
            assert!(item.get("ok").is_some(), "{item}");
        }
    };
    let layout = json!({"rows": ARENA.0, "seats": ARENA.1});
    let prices = json!({"standard": {"amount": 1_000, "currency": "EUR"}});
    let mut items = vec![
        json!({"op": "venue.put", "rid": "av", "body": {"id": "arena", "name": "Arena", "city": "Graz"}}),
        json!({"op": "hall.put", "rid": "ah", "body": {"venue": "arena", "id": "main", "name": "Main", "layout": layout}}),
        json!({"op": "hall.put", "rid": "as", "body": {"venue": "arena", "id": "small", "name": "Small", "layout": {"rows": 2, "seats": 2}}}),
        json!({"op": "resource.put", "rid": "rr", "body": {"id": "room", "name": "Room", "zone": "UTC", "rate": {"amount": 1, "currency": "EUR"}}}),
    ];
    items.extend((0..SESSIONS).map(|number| {
        let begin = FROM_MS + number as u64 * 4 * HOUR_MS;
        json!({"op": "session.create", "rid": format!("c{number}"), "body": {
            "id": format!("show-{number}"), "venue": "arena", "hall": if number == 0 { "main" } else { "small" }, "title": "hamlet",
            "starts_at": time(begin), "ends_at": time(begin + HOUR_MS), "prices": prices,
        }})
    }));
    put(items).await;
    let (begin, end) = (time(FROM_MS), time(FROM_MS + HOUR_MS));
    let series = json!({"resource": "room", "booking": "choir", "begin": begin, "end": end,
        "repeat": {"every": "day", "count": BOOKINGS}});
    operator.ask("resource.reserve", "choir", series).await.ok();
    let year = FROM_MS + 366 * 24 * HOUR_MS;
    let sessions: Vec<String> = (0..SESSIONS).map(|number| format!("show-{number}")).collect();
    vec![
        ("session.get", json!({"id": "show-0"})),
        ("session.map", json!({"id": "show-0"})),
        (
            "resource.free_slots",
            json!({"resource": "room", "from": time(FROM_MS), "to": time(year), "length_ms": 60_000, "count": 1_000}),
        ),
        (
            "resource.free_slots",
            json!({"resource": "room", "from": time(FROM_MS), "to": time(year), "length_ms": 23 * HOUR_MS + 1, "count": 1_000}),
        ),
        ("resource.bookings", json!({"resource": "room", "from": time(FROM_MS), "to": time(year), "limit": 1_000})),
        ("session.search", json!({"city": "Graz", "limit": 1_000})),
        ("session.search", json!({"venue": "arena", "limit": 1_000})),
        ("title.search", json!({"name": "a", "limit": 1_000})),
        ("venue.search", json!({"name": "a", "near": {"lat": 47.0, "lon": 15.4}, "limit": 1_000})),
        ("customer.purchases", json!({"customer": "ada", "limit": 1_000})),
        ("watch", json!({"sessions": sessions})),
    ]
}

/// The answers of a reader.
#[derive(Debug, Default)]
struct Answers {
    ok: u64,
    /// What those that were answered weigh, without what their size adds.
    weight: u64,
    limited: u64,
    busy: u64,
}

/// Sends the reads in turn, each after the last answer, for this long.
async fn read(port: &Port, reads: &[(&'static str, Value)], first: usize, until: Instant) -> Answers {
    let mut answers = Answers::default();
    for (op, body) in reads.iter().cycle().skip(first) {
        if Instant::now() >= until {
            break;
        }
        match port.read_once(op, body.clone()).await {
            Answer::Ok(body, _) => {
                answers.ok += 1;
                answers.weight += u64::from(Op::from_name(op).expect("an op").weight());
                for feed in body["feeds"].as_array().into_iter().flatten() {
                    if matches!(port.read("unwatch", json!({"feed": feed["feed"]})).await, Answer::No(_)) {
                        break;
                    }
                }
            }
            Answer::No(no) => {
                assert_eq!((no.code, no.name.as_str()), (109, "rate_limited"), "{op}: {}", no.body);
                // A refusal for too many feeds on a connection has no time to wait.
                if *op != "watch" {
                    assert!(no.body["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0), "{op}: {}", no.body);
                }
                answers.limited += 1;
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            Answer::Fail(code) => {
                assert!([901, 902].contains(&code), "{op}: {code}");
                answers.busy += 1;
            }
            Answer::Gone => panic!("{op}: the connection is gone"),
        }
    }
    answers
}

/// All sockets read at once until their time is over. Returns how long that took, too.
async fn read_at_once(test: &str, attack: &'static str, from: impl Fn(usize) -> Ipv4Addr) -> (Answers, Duration) {
    let stage = Stage::new(test, "").await;
    let reads = Arc::new(prepare(&stage).await);
    let run = stage.start_attack(attack, 20).await;
    let (begun, until) = (Instant::now(), Instant::now() + run.left());
    let mut tasks = Vec::new();
    for number in 0..READERS {
        let (port, reads) = (wire::guest(from(number), stage.address()).await, Arc::clone(&reads));
        tasks.push(tokio::spawn(async move { read(&port, &reads, number, until).await }));
    }
    let mut all = Answers::default();
    for task in tasks {
        let answers = task.await.expect("a reader");
        all.ok += answers.ok;
        all.weight += answers.weight;
        all.limited += answers.limited;
        all.busy += answers.busy;
    }
    let took = begun.elapsed();
    println!("attack | {attack}: {all:?}");
    let sold = run.end().await;
    stage.has_sold_exactly(sold).await;
    stage.server.stop();
    (all, took)
}

/// Sixteen sockets of one address share the budget of their network.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expensive_reads_of_one_address_are_bounded() {
    let (answers, took) = read_at_once(
        "expensive_reads_of_one_address_are_bounded",
        "6 expensive reads, 16 sockets of one address",
        |_| attacker(1),
    )
    .await;
    // Five seconds' worth at once, of requests of the weight 10.
    assert!(answers.weight <= 25_000 + 5_000 * (took.as_secs() + 1), "{answers:?} in {took:?}");
    assert!(answers.ok > 0, "nothing was answered: {answers:?}");
}

/// Each of sixteen addresses has its own budget. Together they may saturate a small machine, but the buyer still buys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expensive_reads_of_many_addresses_stop_no_buyer() {
    let test = "expensive_reads_of_many_addresses_stop_no_buyer";
    let from = |number| attacker(1 + number as u8);
    let (answers, _) = read_at_once(test, "6 expensive reads, 16 addresses", from).await;
    assert!(answers.ok > 0, "nothing was answered: {answers:?}");
}

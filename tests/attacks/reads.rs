//! Dear reads: what takes a node long to answer, asked by many sockets at once.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    stage::Stage,
    wire::{self, attacker},
};
use crate::common::{Answer, PATIENCE, Port};

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

/// An arena, a city with many sessions, a room with many bookings, and the reads of all of them.
async fn prepare(stage: &Stage) -> Vec<(&'static str, Value)> {
    let operator = stage.operator().await;
    let put = async |items: Vec<Value>| {
        let told = operator.read("batch", json!({"items": items})).await.ok();
        for item in told["items"].as_array().expect("items") {
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

/// What a reader got.
#[derive(Debug, Default)]
struct Got {
    ok: u64,
    limited: u64,
    busy: u64,
}

/// Asks for all of it again and again, the next one when the one before is answered: for so long, and until it was `enough`.
async fn read(
    port: &Port,
    reads: &[(&'static str, Value)],
    first: usize,
    until: Instant,
    enough: Arc<AtomicBool>,
) -> Got {
    let mut got = Got::default();
    for (op, body) in reads.iter().cycle().skip(first) {
        let now = Instant::now();
        if now >= until && (enough.load(Ordering::Relaxed) || now >= until + PATIENCE) {
            break;
        }
        match port.read(op, body.clone()).await {
            Answer::Ok(body, _) => {
                got.ok += 1;
                for feed in body["feeds"].as_array().into_iter().flatten() {
                    if matches!(port.read("unwatch", json!({"feed": feed["feed"]})).await, Answer::No(_)) {
                        break;
                    }
                }
            }
            Answer::No(no) => {
                assert_eq!((no.code, no.name.as_str()), (109, "rate_limited"), "{op}: {}", no.body);
                // Feeds above the limit of a connection have no time to wait for.
                if *op != "watch" {
                    assert!(no.body["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0), "{op}: {}", no.body);
                }
                got.limited += 1;
                enough.store(true, Ordering::Relaxed);
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            Answer::Fail(code) => {
                assert!([901, 902].contains(&code), "{op}: {code}");
                got.busy += 1;
            }
            Answer::Gone => panic!("{op}: the connection is gone"),
        }
    }
    got
}

/// All read at once, until their time is over, and the budget of one of them as well if it has to be reached.
async fn storm(test: &str, attack: &'static str, from: impl Fn(usize) -> Ipv4Addr, is_limited: bool) -> Got {
    let stage = Stage::new(test, "").await;
    let reads = Arc::new(prepare(&stage).await);
    let siege = stage.siege(attack, 20).await;
    let until = Instant::now() + siege.left();
    let (mut tasks, enough) = (Vec::new(), Arc::new(AtomicBool::new(!is_limited)));
    for number in 0..READERS {
        let (port, reads) = (wire::guest(from(number), stage.address()).await, Arc::clone(&reads));
        let enough = Arc::clone(&enough);
        tasks.push(tokio::spawn(async move { read(&port, &reads, number, until, enough).await }));
    }
    let mut all = Got::default();
    for task in tasks {
        let got = task.await.expect("a reader");
        all = Got { ok: all.ok + got.ok, limited: all.limited + got.limited, busy: all.busy + got.busy };
    }
    println!("attack | {attack}: {all:?}");
    let sold = siege.end().await;
    stage.is_as_bought(sold).await;
    stage.server.stop();
    all
}

/// Sixteen sockets of one address are held to the budget of their network.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dear_reads_of_one_address_are_bounded() {
    let got = storm(
        "dear_reads_of_one_address_are_bounded",
        "6 dear reads, 16 sockets of one address",
        |_| attacker(1),
        true,
    )
    .await;
    assert!(got.limited > 0, "nothing was refused: {got:?}");
    assert!(got.ok > 0, "nothing was answered: {got:?}");
}

/// Each of sixteen addresses has its own budget; together they may keep a small machine busy, and the buyer goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dear_reads_of_many_addresses_stop_no_buyer() {
    let test = "dear_reads_of_many_addresses_stop_no_buyer";
    let got = storm(test, "6 dear reads, 16 addresses", |number| attacker(1 + number as u8), false).await;
    assert!(got.ok > 0, "nothing was answered: {got:?}");
}

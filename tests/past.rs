//! `boxoffice admin map --at`: who held or owned each seat at an instant, as a watcher recorded it, before and after a restart, and as far
//! back as archives and snapshots reach.

use std::{
    collections::BTreeMap,
    process::Command,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use boxoffice_core::time::Timestamp;
use boxoffice_wire::repr::rfc3339;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::common::{
    ADMIN, Answer, BOXOFFICE, Buyers, Encoding, Home, Map, Port, Record, Rng, Server, Theatre, eventually, read_time,
};

/// Small segments, frequent snapshots of which each is kept, and room for a few of them. A watcher hears of each version.
const SMALL: &str = "[node]\nshards = 2\n\n[log]\nsegment_bytes = 262_144\n\n[snapshots]\nentries = 60\n\n\
                     [history]\narchive_bytes = 1_600_000\nsnapshot_hours = 0\n\n[feeds]\ntick_ms = 0\n";

/// How far the time of a shard may be ahead of the wall clock before it is corrected, in milliseconds.
const SHARD_OFF_MS: u64 = 100;

/// Rounds of purchases until the beginning is gone.
const ROUNDS_MAX: usize = 40;

/// A map, and when its watcher heard of it.
struct Seen {
    heard_ms: u64,
    map: Map,
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

fn text(ms: u64) -> String {
    rfc3339(Timestamp(ms)).expect("a time within the calendar")
}

/// Watches the first session until the connection ends.
async fn watch(port: Port, theatre: Theatre, seen: Arc<Mutex<Vec<Seen>>>) {
    port.read("watch", json!({"entity": format!("session/{}", theatre.session())})).await.ok();
    let seats = usize::from(theatre.rows) * usize::from(theatre.seats);
    while let Some(frame) = port.next_other().await {
        let heard_ms = now_ms();
        let mut seen = seen.lock().expect("no panic");
        let map = match (frame.get("snapshot"), frame.get("delta"), seen.last()) {
            (Some(snapshot), _, _) => Map::read(snapshot, seats),
            (None, Some(delta), Some(Seen { map, .. })) => {
                let mut map = map.clone();
                map.apply(delta);
                map
            }
            _ => continue,
        };
        seen.push(Seen { heard_ms, map });
    }
}

async fn ask(port: &Port, theatre: &Theatre, at_ms: u64) -> Answer {
    port.read("admin.map", json!({"entity": format!("session/{}", theatre.session()), "at": text(at_ms)})).await
}

/// The earliest instant that may be asked for, if this one may not.
async fn floor(port: &Port, theatre: &Theatre, at_ms: u64) -> Option<u64> {
    match ask(port, theatre, at_ms).await {
        Answer::No(no) => {
            assert_eq!((no.code, no.name.as_str()), (704, "not_kept"), "{}", no.body);
            Some(read_time(&no.body["floor"]))
        }
        other => {
            other.ok();
            None
        }
    }
}

/// The map in an answer, which holds from `since` until `until`.
fn map_of(then: &Value, theatre: &Theatre) -> Map {
    Map::read(&then["map"], usize::from(theatre.rows) * usize::from(theatre.seats))
}

/// Compares what is found at many instants with what was seen. Returns how many maps were compared.
async fn check(port: &Port, theatre: &Theatre, seen: &[Seen]) -> usize {
    let by_version: BTreeMap<u64, &Map> = seen.iter().map(|seen| (seen.map.version, &seen.map)).collect();
    let mut compared = 0;
    for Seen { heard_ms, map: known } in seen.iter().step_by((seen.len() / 12).max(1)) {
        let at_ms = heard_ms + SHARD_OFF_MS;
        let then = match ask(port, theatre, at_ms).await {
            // A start archives more, and the oldest go.
            Answer::No(no) if no.code == 704 && read_time(&no.body["floor"]) > at_ms => continue,
            other => other.ok(),
        };
        let map = map_of(&then, theatre);
        assert!(map.version >= known.version, "heard of {} at {heard_ms}: {then}", known.version);
        assert_eq!(then["session"]["violations"], json!([]));
        if let Some(same) = by_version.get(&map.version) {
            assert_eq!(map, **same, "at {at_ms}");
            compared += 1;
        }
        let since = read_time(&then["since"]);
        assert!(since <= at_ms, "{then}");
        if let Some(until) = then.get("until").map(read_time) {
            assert!(until > at_ms, "{then}");
            // Archives may go in between.
            if floor(port, theatre, until - 1).await.is_none() {
                assert_eq!(map_of(&ask(port, theatre, until - 1).await.ok(), theatre), map, "until {until}");
                assert!(map_of(&ask(port, theatre, until).await.ok(), theatre).version > map.version, "at {until}");
            }
        }
    }
    compared
}

/// What the program prints, and its code.
fn shown(server: &Server, args: &[&str]) -> (Option<i32>, String) {
    let address = server.operators().to_string();
    let mut command = Command::new(BOXOFFICE);
    command.args(["admin", "--address", &address, "map"]).args(args).env("BOXOFFICE_ADMIN_TOKEN", ADMIN);
    let output = command.output().expect("the program runs");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.code(), text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_map_of_any_instant_is_what_a_watcher_recorded() {
    let mut rng = Rng::of_test("the_map_of_any_instant_is_what_a_watcher_recorded");
    let home = Home::with_config(SMALL);
    let mut server = home.start();
    let port = server.port(Encoding::Json).await;
    let theatre = Theatre::open(&port, 8, (40, 60), None).await;
    let session = theatre.session();
    // Its beginning is still kept.
    let (code, why) = shown(&server, &[session, "--at", "2001-01-01T00:00:00Z"]);
    assert!(code == Some(1) && why.contains("did not exist then"), "{code:?}: {why}");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let watching = tokio::spawn(watch(server.port(Encoding::Json).await, theatre.clone(), Arc::clone(&seen)));
    let mut buyers = Buyers::start(&server, &theatre, Record::default(), 16, &mut rng).await;
    buyers.orders(150).await;
    let first_ms = seen.lock().expect("no panic").first().expect("a snapshot").heard_ms;

    // Who it is, at the terminal. A machine may sell faster than a command reads what is kept, so nobody buys meanwhile.
    let record = buyers.stop().await;
    let (then, shown_then) = eventually("what is told is still kept when it is shown", async || {
        // A slow machine takes so long that the archives of that moment may have gone.
        let then = match ask(&port, &theatre, now_ms()).await {
            Answer::No(no) if no.code == 704 => return None,
            other => other.ok(),
        };
        let (at, sale) = (text(read_time(&then["at"])), &then["session"]["sales"][0]);
        let seat = format!("{},{}", sale["seats"][0][0], sale["seats"][0][1]);
        let shown = [&[][..], &["--seat", &seat], &["--json"]]
            .map(|more| shown(&server, &[&[session, "--at", &at][..], more].concat()));
        (!shown.iter().any(|(_, text)| text.contains("nothing is kept of"))).then_some((then, shown))
    })
    .await;
    let [(code, table), (row_code, row), (json_code, printed)] = shown_then;
    let map = map_of(&then, &theatre);
    let count = |word: &str| table.lines().filter(|line| line.contains(word)).count() as u64;
    assert_eq!((code, count("  sold     order "), count("  held     cart ")), (Some(0), map.sold, map.held), "{table}");
    let order = then["session"]["sales"][0]["order"].as_str().expect("an order");
    assert!(row_code == Some(0) && row.lines().last().is_some_and(|row| row.contains(order)), "{row_code:?}: {row}");
    let printed: Value = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    assert_eq!((json_code, &printed["version"], &printed["map"]), (Some(0), &then["version"], &then["map"]));
    let (code, why) = shown(&server, &[session, "--at", "2026-11-29T20:00:00"]);
    assert!(code == Some(2) && why.contains("with its zone"), "{code:?}: {why}");
    let (code, why) = shown(&server, &[session, "--at", &text(now_ms() + 3_600_000)]);
    assert!(code == Some(1) && why.contains("ahead of now"), "{code:?}: {why}");

    // Until the beginning is gone.
    let mut buyers = Buyers::start(&server, &theatre, record, 4, &mut rng).await;
    let mut rounds = 0;
    while floor(&port, &theatre, first_ms).await.is_none() {
        rounds += 1;
        assert!(rounds < ROUNDS_MAX, "the beginning is still there");
        buyers.orders(100).await;
    }
    buyers.orders(400).await;
    buyers.stop().await;
    // Segments are still archived, and the oldest go.
    let mut last = None;
    let floor_ms = eventually("the floor stands still", async || {
        sleep(Duration::from_secs(2)).await;
        let now = floor(&port, &theatre, first_ms).await;
        (std::mem::replace(&mut last, now) == now).then_some(now).flatten()
    })
    .await;
    watching.abort();
    let kept: Vec<Seen> = std::mem::take(&mut *seen.lock().expect("no panic"));
    let kept: Vec<Seen> = kept.into_iter().filter(|seen| seen.heard_ms > floor_ms).collect();
    assert!(kept.len() > 12, "{} after the floor", kept.len());
    let (code, why) = shown(&server, &[session, "--at", &text(first_ms)]);
    assert!(code == Some(1) && why.contains("nothing is kept of session/"), "{code:?}: {why}");
    assert!(check(&port, &theatre, &kept).await > 5);
    drop(port);
    server.stop();
    server = home.start();
    assert!(check(&server.port(Encoding::Json).await, &theatre, &kept).await > 5);
    server.stop();
    home.is_whole();
}

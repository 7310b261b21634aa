//! Every limit of the protocol and of the configuration: its value is accepted and one more is refused, here or in a test
//! elsewhere.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use boxoffice_wire::limits::*;
use futures_util::future::join_all;
use serde_json::{Map, Value, json};

use super::{
    pointers::{Pointer, at},
    stage::{SHOP, Stage},
    wire::{self, attacker},
};
use crate::common::{Answer, Encoding, Port, eventually};

/// A limit of a field: a body of a given size, and the code beyond the limit.
struct Field {
    limit: &'static str,
    most: u64,
    op: &'static str,
    body: fn(u64) -> Value,
    code: u64,
}

fn text(length: u64) -> String {
    "x".repeat(length as usize)
}

fn product(name: &str, value: Value) -> Value {
    with(json!({"id": "p", "name": "P", "price": {"amount": 1, "currency": "EUR"}, "stock": 1}), name, value)
}

fn resource(name: &str, value: Value) -> Value {
    with(json!({"id": "r", "name": "R", "zone": "UTC", "rate": {"amount": 1, "currency": "EUR"}}), name, value)
}

fn session(name: &str, value: Value) -> Value {
    let body = json!({"id": "s", "venue": "v", "hall": "h", "title": "t", "starts_at": 2_000_000_000_000_u64, "ends_at": 2_000_000_001_000_u64});
    with(body, name, value)
}

fn reserve(name: &str, value: Value) -> Value {
    with(
        json!({"resource": "r", "booking": "b", "begin": 2_000_000_000_000_u64, "end": 2_000_000_001_000_u64}),
        name,
        value,
    )
}

fn pays(payment: Value) -> Value {
    json!({"token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0", "payment": payment})
}

fn with(mut body: Value, name: &str, value: Value) -> Value {
    body[name] = value;
    body
}

fn names(prefix: &str, count: u64, value: &Value) -> Value {
    (0..count).map(|number| (format!("{prefix}{number}"), value.clone())).collect::<Map<_, _>>().into()
}

fn hours(spans: u64, exceptions: u64) -> Value {
    let day: Vec<_> = (0..spans).map(|span| json!([span * 2, span * 2 + 1])).collect();
    let dates = (0..exceptions)
        .map(|day| (format!("{}-{:02}-{:02}", 2030 + day / 336, day % 336 / 28 + 1, day % 28 + 1), json!([])));
    json!({"week": [day, [], [], [], [], [], []], "exceptions": dates.collect::<Map<_, _>>()})
}

#[rustfmt::skip]
const FIELDS: &[Field] = &[
    Field { limit: "BATCH_ITEMS_MAX", most: BATCH_ITEMS_MAX as u64, op: "batch", code: 103,
        body: |count| json!({"items": vec![json!({"op": "title.get", "body": {"id": "t"}}); count as usize]}) },
    Field { limit: "CART_LINES_MAX", most: CART_LINES_MAX as u64, op: "cart.hold_all", code: 103,
        body: |count| json!({"token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0", "lines": vec![json!({"product": "p", "quantity": 1}); count as usize]}) },
    Field { limit: "SHARDS_MAX", most: SHARDS_MAX as u64, op: "admin.backup", code: 101,
        body: |count| json!({"after": vec![json!({"shard": 1, "index": 1}); count as usize]}) },
    Field { limit: "CURSOR_BYTES_MAX", most: CURSOR_BYTES_MAX as u64, op: "admin.backup_read", code: 103,
        body: |length| json!({"snapshot": 1, "from": text(length)}) },
    Field { limit: "PAGE_ENTRIES_MAX", most: PAGE_ENTRIES_MAX as u64, op: "title.search", code: 101, body: |count| json!({"limit": count}) },
    Field { limit: "NAME_BYTES_MAX", most: NAME_BYTES_MAX as u64, op: "title.put", code: 103, body: |length| json!({"id": "t", "name": text(length)}) },
    Field { limit: "ADDRESS_BYTES_MAX", most: ADDRESS_BYTES_MAX as u64, op: "venue.put", code: 103,
        body: |length| json!({"id": "v", "name": "V", "address": text(length)}) },
    Field { limit: "COMMENTS_BYTES_MAX", most: COMMENTS_BYTES_MAX as u64, op: "title.put", code: 103,
        body: |length| json!({"id": "t", "name": "T", "comments": text(length)}) },
    Field { limit: "CAST_MAX", most: CAST_MAX as u64, op: "title.put", code: 103,
        body: |count| json!({"id": "t", "name": "T", "cast": vec!["x"; count as usize]}) },
    Field { limit: "DURATION_MS_MAX", most: DURATION_MS_MAX, op: "title.put", code: 101, body: |ms| json!({"id": "t", "name": "T", "duration_ms": ms}) },
    Field { limit: "DETAILS_BYTES_MAX", most: DETAILS_BYTES_MAX as u64, op: "resource.reserve", code: 103, body: |length| reserve("details", json!(text(length))) },
    Field { limit: "SERIES_MAX", most: SERIES_MAX as u64, op: "resource.reserve", code: 101,
        body: |count| reserve("repeat", json!({"every": "day", "count": count})) },
    Field { limit: "SERIES_INTERVAL_MAX", most: SERIES_INTERVAL_MAX as u64, op: "resource.reserve", code: 101,
        body: |days| reserve("repeat", json!({"every": "day", "count": 2, "interval": days})) },
    Field { limit: "PAYMENT_TEXT_BYTES_MAX", most: PAYMENT_TEXT_BYTES_MAX as u64, op: "cart.checkout", code: 103,
        body: |length| pays(json!({"recorded": {"method": text(length), "transaction_id": ""}})) },
    Field { limit: "SOURCE_BYTES_MAX", most: SOURCE_BYTES_MAX as u64, op: "cart.checkout", code: 103, body: |length| pays(json!({"gateway": {"source": text(length)}})) },
    Field { limit: "SHIPPING_BYTES_MAX", most: SHIPPING_BYTES_MAX as u64, op: "cart.checkout", code: 103,
        body: |length| with(pays(json!({"gateway": {"source": "x"}})), "shipping", json!({"address": text(length)})) },
    Field { limit: "REASON_BYTES_MAX", most: REASON_BYTES_MAX as u64, op: "session.cancel", code: 103, body: |length| json!({"id": "s", "reason": text(length)}) },
    Field { limit: "PROPERTIES_MAX", most: PROPERTIES_MAX as u64, op: "product.put", code: 103, body: |count| product("properties", names("n", count, &json!("x"))) },
    Field { limit: "PROPERTY_NAME_BYTES_MAX", most: PROPERTY_NAME_BYTES_MAX as u64, op: "product.put", code: 103,
        body: |length| product("properties", json!({text(length): "x"})) },
    Field { limit: "PROPERTY_VALUE_BYTES_MAX", most: PROPERTY_VALUE_BYTES_MAX as u64, op: "product.put", code: 103,
        body: |length| product("properties", json!({"n": text(length)})) },
    Field { limit: "STOCK_MAX", most: STOCK_MAX, op: "product.put", code: 402, body: |units| product("stock", json!(units)) },
    Field { limit: "AREAS_MAX", most: AREAS_MAX as u64, op: "session.create", code: 103,
        body: |count| session("areas", (0..count).map(|number| json!({"id": format!("{number}"), "capacity": 1, "price": {"amount": 1, "currency": "EUR"}})).collect()) },
    Field { limit: "AREA_CAPACITY_MAX", most: AREA_CAPACITY_MAX as u64, op: "session.create", code: 402,
        body: |places| session("areas", json!([{"id": "a", "capacity": places, "price": {"amount": 1, "currency": "EUR"}}])) },
    Field { limit: "CATEGORIES_MAX", most: CATEGORIES_MAX as u64, op: "session.create", code: 103,
        body: |count| session("prices", names("c", count, &json!({"amount": 1, "currency": "EUR"}))) },
    Field { limit: "RESOURCE_CAPACITY_MAX", most: RESOURCE_CAPACITY_MAX as u64, op: "resource.put", code: 402, body: |places| resource("capacity", json!(places)) },
    Field { limit: "BUFFER_MS_MAX", most: BUFFER_MS_MAX, op: "resource.put", code: 101, body: |ms| resource("after_ms", json!(ms)) },
    Field { limit: "AHEAD_MS_MAX", most: AHEAD_MS_MAX, op: "resource.put", code: 101, body: |ms| resource("horizon_ms", json!(ms)) },
    Field { limit: "SPANS_MAX", most: SPANS_MAX as u64, op: "resource.put", code: 103, body: |count| resource("hours", hours(count, 0)) },
    Field { limit: "EXCEPTIONS_MAX", most: EXCEPTIONS_MAX as u64, op: "resource.put", code: 103, body: |count| resource("hours", hours(1, count)) },
    Field { limit: "INTERVAL_MS_MAX", most: INTERVAL_MS_MAX, op: "resource.free_slots", code: 502,
        body: |ms| json!({"resource": "r", "from": 2_000_000_000_000_u64, "to": 2_000_000_001_000_u64, "length_ms": ms}) },
    Field { limit: "CLIENT_NAME_BYTES_MAX", most: CLIENT_NAME_BYTES_MAX as u64, op: "hello", code: 103, body: |length| json!({"client": text(length)}) },
];

/// Limits of other things than fields, and the tests that reach them and contain one of these words.
const ELSEWHERE: &[(&str, Pointer, &[&str])] = &[
    (
        "FRAME_BYTES_MAX",
        at("crates/wire/src/tests/malformed.rs", "frames_have_a_maximum_length_by_op"),
        &["FRAME_BYTES_MAX"],
    ),
    (
        "IMPORT_FRAME_BYTES_MAX",
        at("crates/wire/src/tests/malformed.rs", "frames_have_a_maximum_length_by_op"),
        &["IMPORT_FRAME_BYTES_MAX"],
    ),
    (
        "HALL_FRAME_BYTES_MAX",
        at("crates/wire/src/tests/malformed.rs", "frames_have_a_maximum_length_by_op"),
        &["HALL_FRAME_BYTES_MAX"],
    ),
    ("DEPTH_MAX", at("crates/wire/src/tests/malformed.rs", "nesting_is_bounded_in_both_encodings"), &["16"]),
    ("BLOB_BYTES_MAX", at("crates/wire/src/tests/bounds.rs", "lists_and_blobs_have_a_maximum_length"), &["1366"]),
    ("FIRST_FRAME_MS", at("tests/bad_input/frames.rs", "half_a_frame_and_silence"), &["LIMIT"]),
    ("WHOLE_FRAME_MS", at("tests/bad_input/frames.rs", "half_a_frame_and_silence"), &["LIMIT"]),
    (
        "PING_MS",
        at("crates/edge/tests/all/server/connections.rs", "a_client_that_does_not_answer_a_ping_is_disconnected"),
        &["ping_every"],
    ),
    (
        "PONG_MS",
        at("crates/edge/tests/all/server/connections.rs", "a_client_that_does_not_answer_a_ping_is_disconnected"),
        &["pong_timeout"],
    ),
    ("DEADLINE_MS", at("tests/attacks/limits.rs", "limits_of_a_connection_are_reached"), &["DEADLINE_MS"]),
    ("DEADLINE_MS_MAX", at("crates/wire/src/tests/document.rs", "the_limits_are_as_documented"), &["DEADLINE_MS_MAX"]),
    (
        "BATCH_SEATS_MAX",
        at("crates/wire/src/tests/bounds.rs", "the_halls_of_a_batch_have_a_maximum_of_seats"),
        &["1000000 seats"],
    ),
    (
        "REQUEST_ID_BYTES_MAX",
        at("tests/attacks/limits.rs", "limits_of_a_connection_are_reached"),
        &["REQUEST_ID_BYTES_MAX"],
    ),
    (
        "REQUESTS_UNDER_WAY_MAX",
        at("tests/attacks/limits.rs", "limits_of_a_connection_are_reached"),
        &["REQUESTS_UNDER_WAY_MAX"],
    ),
    ("FEEDS_MAX", at("tests/attacks/limits.rs", "limits_of_a_connection_are_reached"), &["FEEDS_MAX"]),
    ("PAGE_ENTRIES", at("tests/attacks/limits.rs", "limits_of_a_connection_are_reached"), &["PAGE_ENTRIES"]),
    ("ZONE_BYTES_MAX", at("tests/attacks/limits.rs", "limits_of_a_connection_are_reached"), &["ZONE_BYTES_MAX"]),
];

/// Limits without a test, and why.
const NOT_REACHED: &[(&str, &str)] = &[
    ("SPEAKS_TLS", "it is a text, which tests/terminal.rs reads"),
    ("PROTOCOL_VERSION", "not a limit"),
    ("ANSWER_BYTES_MAX", "no body of a megabyte makes an answer that long; the client's bound for a faulty node"),
];

/// Settings that bound something, and the tests that reach them.
const SETTINGS: &[(&str, Pointer, &[&str])] = &[
    (
        "budgets.connections",
        at("tests/attacks/floods.rs", "a_flood_of_connections_leaves_room_for_others"),
        &["connections"],
    ),
    (
        "budgets.requests_per_second",
        at("tests/attacks/floods.rs", "a_flood_of_requests_is_refused_with_a_time_to_wait"),
        &["requests"],
    ),
    (
        "budgets.connections_per_second",
        at("crates/edge/tests/all/server/counted.rs", "new_connections_of_a_network_are_counted"),
        &["connections_per_second"],
    ),
    (
        "budgets.handshakes_per_second",
        at("crates/edge/tests/all/server/counted.rs", "handshakes_of_a_network_are_counted"),
        &["handshakes_per_second"],
    ),
    ("limits.unsent_bytes", at("crates/edge/tests/all/server/unread.rs", "unread_answers_have_a_bound"), &["BOUND"]),
    (
        "limits.handshake_percent",
        at("crates/edge/src/handshakes.rs", "handshakes_have_a_share_of_a_core"),
        &["HandshakeTime::new(50)"],
    ),
    ("budgets.carts", at("tests/attacks/floods.rs", "one_address_has_as_many_carts_as_shipped"), &["CARTS"]),
    (
        "budgets.node_carts",
        at("crates/edge/src/budgets/tests.rs", "the_carts_of_all_anonymous_callers_are_limited"),
        &["node_carts"],
    ),
    ("budgets.held", at("tests/attacks/hoards.rs", "two_addresses_hold_twice_as_much_and_no_more"), &["held"]),
    ("budgets.cart_held", at("crates/edge/src/budgets/tests.rs", "concurrent_holds_are_limited"), &["CartHeld"]),
    (
        "budgets.seat_seconds",
        at("tests/attacks/hoards.rs", "repeated_short_holds_consume_seat_seconds"),
        &["seat_seconds"],
    ),
    (
        "budgets.seat_seconds_per_second",
        at("tests/attacks/hoards.rs", "repeated_short_holds_consume_seat_seconds"),
        &["seat_seconds_per_second"],
    ),
    (
        "limits.connections",
        at("crates/edge/tests/all/server/connections.rs", "connections_are_limited"),
        &["connections_max"],
    ),
    (
        "limits.frame_bytes",
        at("crates/edge/tests/all/server/connections.rs", "unfinished_frames_share_their_memory"),
        &["frame_bytes_max"],
    ),
    ("limits.actor_idle_ms", at("tests/attacks/limits.rs", "idle_actors_free_their_memory"), &["actor_idle_ms"]),
    (
        "overload.target_ms",
        at("crates/node/src/admission/tests.rs", "a_lasting_overload_is_shed_and_the_rest_is_answered_in_time"),
        &["p99_ms"],
    ),
    (
        "overload.sustain_ms",
        at("crates/node/src/admission/tests.rs", "a_lasting_overload_is_shed_and_the_rest_is_answered_in_time"),
        &["499"],
    ),
    ("overload.under_way", at("tests/attacks/limits.rs", "commands_under_way_are_bounded_by_node"), &["under_way"]),
];

/// Close codes, and the tests that see them.
const CLOSES: &[(&str, Pointer, &[&str])] = &[
    (
        "PROTOCOL",
        at("tests/bad_input/frames.rs", "malformed_requests_are_refused_and_the_connection_stays_open"),
        &["4000"],
    ),
    ("UNAUTHENTICATED", at("tests/attacks/roles.rs", "invalid_tokens_are_refused"), &["4001"]),
    (
        "WRONG_FRAME_TYPE",
        at("tests/bad_input/frames.rs", "malformed_requests_are_refused_and_the_connection_stays_open"),
        &["4003"],
    ),
    ("TOKEN_EXPIRED", at("tests/attacks/roles.rs", "a_connection_ends_with_its_token"), &["4101"]),
    ("NO_HELLO", at("crates/edge/tests/all/server/connections.rs", "a_silent_client_is_disconnected"), &["4102"]),
    (
        "NO_PONG",
        at("crates/edge/tests/all/server/connections.rs", "a_client_that_does_not_answer_a_ping_is_disconnected"),
        &["4103"],
    ),
    ("TOO_MANY_REQUESTS", at("tests/attacks/limits.rs", "a_connection_far_above_its_rate_is_closed"), &["4104"]),
    (
        "SLOW_READER",
        at("crates/edge/tests/all/server/connections.rs", "a_client_that_does_not_read_is_disconnected"),
        &["boxoffice_edge_slow_readers_total"],
    ),
    ("DRAINING", at("crates/edge/tests/all/server/connections.rs", "a_draining_server_lets_clients_finish"), &["4200"]),
    ("TOO_BIG", at("tests/bad_input/frames.rs", "frames_that_are_too_long"), &["1009"]),
];

/// Close codes that clients know and no node sends.
const NOT_SENT: [&str; 3] = ["VERSION", "BANNED", "MOVED"];

fn source(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Names of the constants in a text.
fn constants(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.trim_start().strip_prefix("pub const ")?.split_once(':'))
        .map(|(name, _)| name)
        .collect()
}

fn check(what: &str, all: &[&str], known: &[(&str, Pointer, &[&str])], others: &[&str]) {
    for name in all {
        if others.contains(name) {
            continue;
        }
        let pointers: Vec<_> = known.iter().filter(|(of, ..)| of == name).collect();
        assert!(!pointers.is_empty(), "no test reaches {what} {name}: name one, or write one");
        pointers.iter().for_each(|(_, pointer, words)| pointer.check(words));
    }
    for name in known.iter().map(|(name, ..)| name).chain(others) {
        assert!(all.contains(name), "{what} {name} does not exist");
    }
}

#[test]
fn every_limit_is_reached_by_some_test() {
    let limits = source("crates/wire/src/limits.rs");
    let (own, closes) = limits.split_once("pub mod close").expect("limits, then codes");
    let fields = FIELDS.iter().map(|field| field.limit);
    let others: Vec<&str> = fields.chain(NOT_REACHED.iter().map(|(name, _)| *name)).collect();
    check("the limit", &constants(own), ELSEWHERE, &others);
    check("the close code", &constants(closes), CLOSES, &NOT_SENT);
    let config: toml::Table = source("config/boxoffice.toml").parse().expect("a configuration");
    let settings: Vec<String> = ["budgets", "limits", "overload"]
        .into_iter()
        .flat_map(|section| {
            config[section].as_table().expect("a section").keys().map(move |key| format!("{section}.{key}"))
        })
        .collect();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    check("the setting", &settings, SETTINGS, &[]);
}

/// A code of `NOT_SENT` that is sent needs a test.
#[test]
fn unsent_close_codes_are_not_sent() {
    fn look(directory: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(directory).expect("sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                look(&path, found);
            } else {
                let text = fs::read_to_string(&path).unwrap_or_default();
                found.extend(
                    NOT_SENT
                        .iter()
                        .filter(|code| text.contains(&format!("close::{code}")))
                        .map(|code| (*code).to_owned()),
                );
            }
        }
    }
    let mut found = BTreeSet::new();
    look(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../edge/src"), &mut found);
    assert_eq!(found, BTreeSet::new(), "these are sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_field_is_taken_at_its_limit_and_refused_beyond() {
    let stage = Stage::new("every_field_is_taken_at_its_limit_and_refused_beyond", "").await;
    let port = stage.server.port(Encoding::MsgPack).await;
    for (number, Field { limit, most, op, body, code }) in FIELDS.iter().enumerate() {
        let answer = port.ask(op, &format!("{number}-right"), body(*most)).await;
        assert!(!matches!(&answer, Answer::No(no) if no.code == *code), "{op} at {limit} = {most}: {answer:?}");
        match port.ask(op, &format!("{number}-wrong"), body(most + 1)).await {
            Answer::No(no) => assert_eq!(no.code, *code, "{op} beyond {limit} = {most}: {}", no.body),
            other => panic!("{op} beyond {limit} = {most}: {other:?}"),
        }
    }
    stage.server.stop();
}

/// Limits of other things than fields: request ids, deadlines, requests under way, feeds, pages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_a_connection_are_reached() {
    let stage = Stage::new("limits_of_a_connection_are_reached", "").await;
    let port = Arc::new(stage.server.port(Encoding::MsgPack).await);
    let titles: Vec<_> = (0..=PAGE_ENTRIES)
        .map(|number| json!({"op": "title.put", "rid": format!("t{number}"), "body": {"id": format!("t{number}"), "name": "T"}}))
        .collect();
    port.read("batch", json!({"items": titles})).await.ok();
    let page = port.read("title.search", json!({})).await.ok();
    assert_eq!(page["titles"].as_array().map(Vec::len), Some(PAGE_ENTRIES as usize));
    assert!(page["cursor"].is_string());

    let put = |name: &str| json!({"id": "t0", "name": name});
    port.ask("title.put", &text(REQUEST_ID_BYTES_MAX as u64), put("a")).await.ok();
    port.ask("title.put", &text(REQUEST_ID_BYTES_MAX as u64 + 1), put("b")).await.no(101, "bad_request");

    // A zone name that is too long has another code than an unknown zone.
    let zone = |length: usize| resource("zone", json!(text(length as u64)));
    let words = async |length: usize| {
        port.ask("resource.put", "zone", zone(length)).await.no(101, "bad_request")["message"].clone()
    };
    assert_ne!(words(ZONE_BYTES_MAX).await, words(ZONE_BYTES_MAX + 1).await);

    // All at once. Some of them wait for the disk.
    let all = 40 * REQUESTS_UNDER_WAY_MAX;
    let opened = (0..all).map(|number| {
        let token = format!("{number:032x}");
        let port = Arc::clone(&port);
        async move { port.ask_once("cart.open", "o", json!({"token": token})).await }
    });
    let busy = join_all(opened).await.into_iter().filter(|answer| matches!(answer, Answer::Fail(901))).count();
    assert!(busy > 0 && busy <= all - REQUESTS_UNDER_WAY_MAX, "{busy} of {all} were busy");

    // The maximum of feeds, and one more.
    let session = stage.theatre.session();
    port.read("watch", json!({"entity": format!("session/{session}")})).await.ok();
    let watch = async |number: usize| {
        let token = format!("{number:032x}");
        let cart = boxoffice_core::id::CartToken(number as u128).cart();
        port.read("watch", json!({"entity": format!("cart/{cart}"), "token": token})).await
    };
    let (mut feeds, mut number) = (1, 0);
    // Carts that were refused as busy do not exist.
    let open = async |number: usize| {
        port.ask("cart.open", "o", json!({"token": format!("{number:032x}")})).await.ok();
    };
    while feeds < FEEDS_MAX {
        open(number).await;
        watch(number).await.ok();
        (feeds, number) = (feeds + 1, number + 1);
    }
    open(number).await;
    watch(number).await.no(109, "rate_limited");

    // A request without a deadline has the default deadline.
    assert_eq!((DEADLINE_MS, DEADLINE_MS_MAX), (10_000, 60_000));
    stage.server.stop();
}

/// A command beyond the node's limit of commands under way is busy at once, in one shard or in many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_under_way_are_bounded_by_node() {
    for (setting, more) in [
        ("one shard", "[node]\nshards = 1\n\n[overload]\nunder_way = 64\n"),
        ("many shards", "[overload]\nunder_way = 64\n"),
    ] {
        let stage = Stage::new("commands_under_way_are_bounded_by_node", more).await;
        let ports = join_all((0..8).map(|number| wire::guest(attacker(1 + number), stage.address()))).await;
        let mut rng = stage.rng.fork(100);
        let asked = (0..2_000).map(|number| {
            let token = rng.token();
            let port: &Port = &ports[number % ports.len()];
            async move { port.ask_once("cart.open", &token, json!({"token": token})).await }
        });
        let answer = join_all(asked).await;
        let (mut opened, mut busy) = (0, 0);
        for answer in answer {
            match answer {
                Answer::Ok(..) => opened += 1,
                Answer::Fail(code) => {
                    assert_eq!(code, 901, "{setting}");
                    busy += 1;
                }
                other => panic!("{setting}: {other:?}"),
            }
        }
        assert!(opened > 0 && busy > 0, "{setting}: {opened} were opened and {busy} were busy");
        stage.server.stop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_actors_free_their_memory() {
    let stage = Stage::new("idle_actors_free_their_memory", "[limits]\nactor_idle_ms = 300\n").await;
    let operator = stage.operator().await;
    let mut rng = stage.rng.fork(100);
    let tokens: Vec<String> = (0..200).map(|_| rng.token()).collect();
    let opened = tokens.iter().map(|token| operator.ask("cart.open", token, json!({"token": token})));
    join_all(opened).await.into_iter().for_each(|answer| drop(answer.ok()));
    let actors = async || operator.read("admin.status", json!({})).await.ok()["actors"].as_u64().expect("a count");
    eventually("actors of idle carts are gone", async || (actors().await < 100).then_some(())).await;
    // Requests recreate them.
    operator.read("cart.get", json!({"token": tokens[0]})).await.ok();
    stage.server.stop();
}

/// Refusals cost time as well. A connection that stays far above its rate is closed, and may reconnect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_far_above_its_rate_is_closed() {
    assert!(!SHOP.contains("[budgets]"));
    let stage = Stage::new("a_connection_far_above_its_rate_is_closed", "[budgets]\nrequests_per_second = 10\n").await;
    let port = wire::guest(attacker(1), stage.address()).await;
    for number in 0..20_000 {
        let frame = json!({"id": number, "op": "venue.get", "body": {"id": "royal"}});
        port.send(Encoding::Json.message(&frame));
    }
    assert_eq!(port.closed().await, 4104);
    // Unreadable frames count as well.
    let port = wire::guest(attacker(2), stage.address()).await;
    for number in 0..20_000 {
        port.send(Encoding::Json.message(&json!({"id": number, "op": "nothing"})));
    }
    assert_eq!(port.closed().await, 4104);
    // A moment later the client may send requests again.
    eventually("requests are answered again", async || {
        let answer = wire::post(attacker(1), stage.address(), "venue.get", "", "{\"id\":\"royal\"}").await.ok()?;
        (answer.status == 200).then_some(())
    })
    .await;
    stage.server.stop();
}

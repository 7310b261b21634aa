//! Every code that a caller may receive has a recipe that makes a node answer it, or a test elsewhere.

use std::collections::BTreeSet;

use boxoffice_core::refusal::{Row, rows};
use serde_json::{Value, json};

use super::{
    pointers::{self, Pointer, at},
    stage::Stage,
    tokens,
    wire::{self, attacker},
};
use crate::common::{Answer, Encoding, Port, Rng, checkout};

/// Codes that need a gateway, a cluster, a full disk, a panic or a clock, and the tests that produce them. A refusal that a test of a
/// crate names needs no row.
const ELSEWHERE: &[(u16, Pointer)] = &[
    (106, at("crates/core/tests/rules/bounds.rs", "holds_and_waiters_under_way_are_bounded")),
    // The client produces this itself for a node that is too old. No node sends it.
    (110, at("crates/client/src/tests/nodes.rs", "a_field_is_not_sent_to_a_node_that_does_not_know_it")),
    (307, at("crates/core/tests/rules/bounds.rs", "a_touched_cart_ends_at_its_maximum_age")),
    (601, at("tests/payments/outcomes.rs", "failed_payments_release_or_keep_the_cart")),
    (602, at("tests/payments/operators.rs", "an_operator_settles_an_unanswered_payment")),
    (603, at("tests/payments/outcomes.rs", "failed_payments_release_or_keep_the_cart")),
    (604, at("tests/payments/meanwhile.rs", "canceled_while_it_is_being_paid")),
    (605, at("tests/payments/meanwhile.rs", "ended_by_its_buyer_and_paid_in_another_way")),
    (704, at("crates/edge/tests/all/server/fan_out.rs", "states_of_the_past_that_are_not_known_are_refused")),
    (801, at("crates/core/tests/rules/cluster/moves.rs", "every_refusal")),
    (802, at("crates/core/tests/rules/cluster/moves.rs", "every_refusal")),
    (803, at("crates/core/tests/rules/cluster/moves.rs", "every_refusal")),
    (804, at("crates/core/tests/rules/cluster/moves.rs", "every_refusal")),
    (805, at("crates/core/tests/rules/cluster/moves.rs", "every_refusal")),
    (806, at("crates/core/tests/rules/cluster/moves.rs", "every_refusal")),
    (807, at("crates/core/tests/rules/cluster/moves.rs", "every_refusal")),
    (808, at("crates/core/tests/rules/cluster/stories.rs", "a_member_is_drained_and_retires")),
    (809, at("crates/core/src/cluster_table/decide.rs", "no_node_joins_when_every_id_is_used")),
    (810, at("tests/cluster/members.rs", "nodes_without_the_secret_are_refused")),
    (811, at("tests/cluster/members.rs", "members_join_and_leave")),
    (812, at("tests/cluster/joining.rs", "an_operator_vouches_for_a_machine")),
    (813, at("tests/cluster/upgrades.rs", "a_cluster_is_upgraded_while_it_sells")),
    (814, at("crates/core/tests/rules/cluster/stories.rs", "a_damaged_disk_is_replaced_by_its_node")),
    (901, at("crates/edge/tests/all/server/requests.rs", "more_under_way_than_allowed_is_busy")),
    (902, at("crates/edge/tests/all/server/requests.rs", "the_deadline_is_kept_and_a_late_answer_is_dropped")),
    (903, at("crates/edge/tests/all/server/roles.rs", "a_node_without_the_directory_still_sells")),
    (904, at("crates/edge/tests/all/server/connections.rs", "a_draining_server_lets_clients_finish")),
    (905, at("tests/crash.rs", "a_full_disk_refuses_and_recovers").through("full_disk")),
    (906, at("tests/cluster/panics.rs", "a_decision_that_panics_fails_one_request")),
];

/// The name of the variant in the sources: `seats_taken` is `SeatsTaken`.
fn variant(name: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split('_').map(capital).collect()
}

/// Sends requests, and records the codes of the answers.
struct Seen {
    codes: BTreeSet<u64>,
    rng: Rng,
}

impl Seen {
    async fn ask(&mut self, port: &Port, code: u64, op: &str, body: Value) {
        let rid = self.rng.token();
        let answer = port.ask(op, &rid, body.clone()).await;
        self.is(&answer, code, &format!("{op} {body}"));
    }

    fn is(&mut self, answer: &Answer, code: u64, asked: &str) {
        match answer {
            Answer::No(no) => {
                assert_eq!(no.code, code, "{asked}: {}", no.body);
                let row = rows().find(|row| u64::from(row.code) == code).expect("a known code");
                assert_eq!(no.name, row.name, "{asked}");
                for detail in row.fields {
                    assert!(no.body.get(detail).is_some(), "{asked}: {detail} is missing in {}", no.body);
                }
            }
            Answer::Fail(found) => assert_eq!(*found, code, "{asked}"),
            other => panic!("{asked} must be answered {code}: {other:?}"),
        }
        self.codes.insert(code);
    }

    fn token(&mut self) -> String {
        self.rng.token()
    }
}

async fn done(port: &Port, rng: &mut Rng, op: &str, body: Value) -> Value {
    port.ask(op, &rng.token(), body).await.ok()
}

/// Creates the entities that the recipes need.
async fn create_entities(port: &Port, rng: &mut Rng) {
    let price = json!({"amount": 100, "currency": "EUR"});
    let session = |id: &str, hall: &str, day: u32, more: Value| {
        let mut body = json!({
            "id": id, "venue": "royal", "hall": hall, "title": "hamlet", "prices": {"standard": price},
            "starts_at": format!("2041-01-{day:02}T19:00:00Z"), "ends_at": format!("2041-01-{day:02}T22:00:00Z"),
        });
        body.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        body
    };
    let product = |id: &str, more: Value| {
        let mut body = json!({"id": id, "name": id, "price": price, "stock": 5});
        body.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        body
    };
    let limited = json!({"limits": {"per_order": 2, "per_customer": {"quota": "q", "max": 3}}});
    for (op, body) in [
        ("hall.put", json!({"venue": "royal", "id": "row", "name": "Row", "layout": {"rows": 4, "seats": 25}})),
        (
            "session.create",
            session("row-1", "row", 1, json!({"areas": [{"id": "yard", "capacity": 3, "price": price}]})),
        ),
        ("session.create", session("row-2", "row", 2, json!({}))),
        (
            "session.create",
            session(
                "row-3",
                "row",
                3,
                json!({
                    "price_types": [{"id": "adult"}, {"id": "child"}, {"id": "few", "prices": {"standard": 50}}],
                    "offers": [
                        {"id": "later", "types": ["adult", "child"], "from": "2040-01-01T00:00:00Z"},
                        {"id": "none", "types": ["few"], "counters": ["none"]},
                    ],
                    "counters": [{"id": "none", "max": 0}],
                }),
            ),
        ),
        ("session.cancel", json!({"id": "row-2", "reason": "rain"})),
        ("session.block", json!({"id": "row-1", "seats": [[0, 0]]})),
        ("product.put", product("pen", json!({}))),
        ("product.put", product("few", limited)),
        (
            "resource.put",
            json!({"id": "room", "name": "Room", "zone": "UTC", "rate": price, "notice_ms": 3_600_000,
                "hours": {"week": [[[540, 720]], [[540, 720]], [[540, 720]], [[540, 720]], [[540, 720]], [[540, 720]], []], "exceptions": {}}}),
        ),
        ("resource.reserve", booking("choir", "09:00", "10:00")),
    ] {
        done(port, rng, op, body).await;
    }
}

fn booking(name: &str, begin: &str, end: &str) -> Value {
    json!({"resource": "room", "booking": name, "begin": format!("2041-01-07T{begin}:00Z"), "end": format!("2041-01-07T{end}:00Z")})
}

/// Makes a node answer every code that one node can produce.
async fn recipes(stage: &Stage) -> BTreeSet<u64> {
    let mut seen = Seen { codes: BTreeSet::new(), rng: stage.rng.fork(100) };
    let operator = stage.operator().await;
    create_entities(&operator, &mut seen.rng.fork(7)).await;
    let guest = wire::guest(attacker(1), stage.address()).await;

    // Requests.
    seen.ask(&guest, 101, "venue.get", json!({"id": 7})).await;
    seen.ask(&guest, 102, "venue.steal", json!({})).await;
    seen.ask(&guest, 103, "title.search", json!({"name": "x".repeat(300)})).await;
    let answer = guest.read("cart.open", json!({"token": seen.token()})).await;
    seen.is(&answer, 104, "a cart without a request id");
    let token = seen.token();
    guest.ask("cart.hold_seats", "once", json!({"token": token, "session": "row-1", "seats": [[0, 1]]})).await.ok();
    let answer =
        guest.ask("cart.hold_seats", "once", json!({"token": token, "session": "row-1", "seats": [[0, 2]]})).await;
    seen.is(&answer, 105, "a request id that comes with another body");
    seen.ask(&guest, 107, "venue.put", json!({"id": "mine", "name": "Mine"})).await;
    let key = tokens::key(stage, "till", "sell").await;
    let till = wire::port(attacker(2), stage.address(), Encoding::MsgPack, Some(&key)).await.expect("cannot connect");
    seen.ask(&till, 108, "venue.put", json!({"id": "mine", "name": "Mine"})).await;

    // Seats and places.
    let other = seen.token();
    let seats = |token: &str, seats: Value| json!({"token": token, "session": "row-1", "seats": seats});
    seen.ask(&guest, 201, "cart.hold_seats", seats(&other, json!([[0, 1]]))).await;
    seen.ask(&guest, 202, "cart.hold_seats", seats(&other, json!([[9, 9]]))).await;
    seen.ask(&guest, 203, "cart.hold_seats", seats(&other, json!([[1, 1], [1, 1]]))).await;
    seen.ask(&guest, 204, "cart.hold_seats", seats(&other, json!([[0, 0]]))).await;
    seen.ask(
        &guest,
        205,
        "cart.hold_places",
        json!({"token": other, "session": "row-1", "area": "yard", "quantity": 4}),
    )
    .await;
    let best = json!({"token": other, "session": "row-1", "count": 20, "category": "standard", "accessible": 20});
    seen.ask(&guest, 206, "cart.hold_best", best).await;
    seen.ask(&guest, 207, "cart.hold_seats", json!({"token": other, "session": "row-2", "seats": [[0, 1]]})).await;
    for (code, price_type) in [(212, "adult"), (213, "child"), (214, "few")] {
        let hold = json!({"token": other, "session": "row-3", "seats": [[0, 1]], "types": [price_type]});
        seen.ask(&guest, code, "cart.hold_seats", hold).await;
    }
    seen.ask(&operator, 215, "session.change", json!({"id": "row-3", "expect": 7})).await;
    let overlaps = json!({"id": "row-9", "venue": "royal", "hall": "row", "title": "hamlet",
        "prices": {"standard": {"amount": 1, "currency": "EUR"}},
        "starts_at": "2041-01-01T20:00:00Z", "ends_at": "2041-01-01T21:00:00Z"});
    seen.ask(&operator, 208, "session.create", overlaps.clone()).await;
    let few =
        |token: &str, quantity: u64| json!({"token": token, "customer": "ada", "product": "few", "quantity": quantity});
    let nobody = json!({"token": seen.token(), "product": "few", "quantity": 1});
    seen.ask(&guest, 219, "cart.hold_stock", nobody).await;
    let ada = seen.token();
    guest.ask("cart.hold_stock", "few", few(&ada, 2)).await.ok();
    seen.ask(&guest, 210, "cart.hold_stock", few(&ada, 1)).await;
    let again = seen.token();
    seen.ask(&guest, 209, "cart.hold_stock", few(&again, 2)).await;

    // Carts.
    let sold = seen.token();
    guest.ask("cart.hold_seats", "h", seats(&sold, json!([[0, 3]]))).await.ok();
    let differs = json!({"token": sold, "payment": checkout("")["payment"], "expect": {"total": {"amount": 1, "currency": "EUR"}}});
    seen.ask(&guest, 308, "cart.checkout", differs).await;
    let order = guest.ask("cart.checkout", "c", checkout(&sold)).await.ok();
    seen.ask(&guest, 301, "cart.hold_seats", seats(&sold, json!([[0, 4]]))).await;
    let refund = json!({"order": order["id"], "reason": "rain"});
    operator.ask("order.refund", "r", refund.clone()).await.ok();
    seen.ask(&operator, 606, "order.refund", refund).await;
    let open = |ttl_ms: u64| json!({"token": again, "ttl_ms": ttl_ms});
    guest.ask("cart.open", "a", open(30_000)).await.ok();
    seen.ask(&guest, 309, "cart.open", open(60_000)).await;
    let short = seen.token();
    guest.ask("cart.open", "o", json!({"token": short, "ttl_ms": 1})).await.ok();
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    seen.ask(&guest, 302, "cart.hold_seats", seats(&short, json!([[0, 4]]))).await;
    seen.ask(&guest, 303, "cart.release", json!({"token": token, "line": 99})).await;
    let empty = seen.token();
    guest.ask("cart.open", "o", json!({"token": empty})).await.ok();
    seen.ask(&guest, 304, "cart.checkout", checkout(&empty)).await;
    let cart = guest.read("cart.get", json!({"token": token})).await.ok()["id"].clone();
    seen.ask(&guest, 305, "cart.get", json!({"token": other, "cart": cart})).await;
    let full = seen.token();
    let lines: Vec<_> =
        (0..50).map(|seat| json!({"session": "row-1", "seats": [[1 + seat / 25, seat % 25]]})).collect();
    // A guest has a share, and an operator has none.
    let all = json!({"token": full, "lines": lines});
    seen.ask(&guest, 211, "cart.hold_all", all.clone()).await;
    operator.ask("cart.hold_all", "50", all).await.ok();
    seen.ask(&operator, 306, "cart.hold_seats", seats(&full, json!([[3, 0]]))).await;

    // Stock and calendar.
    let pens = |quantity: u64| json!({"token": other, "product": "pen", "quantity": quantity});
    seen.ask(&guest, 401, "cart.hold_stock", pens(6)).await;
    seen.ask(&guest, 402, "cart.hold_stock", pens(0)).await;
    seen.ask(&guest, 403, "cart.hold_stock", json!({"token": other, "product": "nothing", "quantity": 1})).await;
    seen.ask(&operator, 501, "resource.reserve", booking("band", "09:30", "10:30")).await;
    seen.ask(&operator, 502, "resource.reserve", booking("band", "10:00", "09:00")).await;
    seen.ask(&operator, 503, "resource.reserve", booking("choir", "10:00", "11:00")).await;
    seen.ask(&operator, 504, "resource.reserve", booking("band", "13:00", "14:00")).await;
    seen.ask(&operator, 505, "resource.cancel", json!({"resource": "room", "booking": "nobody"})).await;
    let past =
        json!({"token": other, "resource": "room", "begin": "2001-01-01T09:00:00Z", "end": "2001-01-01T10:00:00Z"});
    seen.ask(&guest, 506, "cart.hold_slot", past).await;

    // The catalogue.
    seen.ask(&guest, 701, "venue.get", json!({"id": "nowhere"})).await;
    let mut differs = overlaps;
    differs["id"] = json!("row-1");
    seen.ask(&operator, 702, "session.create", differs).await;
    let dollars = json!({"id": "pen", "name": "pen", "price": {"amount": 1, "currency": "USD"}, "stock": 5});
    seen.ask(&operator, 703, "product.put", dollars).await;

    let long_ago = json!({"entity": "session/row-1", "at": "2001-01-01T00:00:00Z"});
    seen.ask(&operator, 705, "admin.map", long_ago).await;

    // Exhausts the budget of the whole address, so it comes last.
    let best = |number: u32| json!({"token": format!("{number:032x}"), "session": "nowhere", "count": 2});
    let asked = (0..3_000).map(|number| guest.ask("cart.hold_best", "b", best(number)));
    let answers = futures_util::future::join_all(asked).await;
    let is_limited = |answer: &&Answer| matches!(answer, Answer::No(no) if no.code == 109);
    let answer = answers.iter().find(is_limited).expect("each weighs 14, and five seconds' worth is 25 000");
    seen.is(answer, 109, "three thousand requests at once");
    seen.codes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_code_is_answered_by_some_test() {
    let stage = Stage::new("every_code_is_answered_by_some_test", "").await;
    let seen = recipes(&stage).await;
    let all: Vec<&Row> = rows().collect();
    for Row { code, name, .. } in &all {
        if seen.contains(&u64::from(*code)) {
            continue;
        }
        let pointers: Vec<&Pointer> =
            ELSEWHERE.iter().filter(|(of, _)| of == code).map(|(_, pointer)| pointer).collect();
        let is_met = !pointers.is_empty() || pointers::is_in_a_test(&format!("Refusal::{}", variant(name)));
        assert!(is_met, "{code} {name} has neither a recipe nor a test elsewhere");
        for pointer in pointers {
            pointer.check(&[&code.to_string(), name, &variant(name)]);
        }
    }
    let unknown: Vec<u16> =
        ELSEWHERE.iter().map(|(code, _)| *code).filter(|code| !all.iter().any(|row| row.code == *code)).collect();
    assert_eq!(unknown, [0; 0], "unknown codes");
    stage.server.stop();
}

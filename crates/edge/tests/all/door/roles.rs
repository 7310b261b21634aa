//! Who may ask for what: every op by every role, with a key and without, by both ways in.

use std::{sync::Arc, time::Duration};

use boxoffice_core::{
    access::{AccessKey, NewKey, Role, Roles},
    id::Id,
    time::Timestamp,
};
use boxoffice_edge::{EdgeConfig, Limits, budgets::BudgetConfig};
use boxoffice_node::access::KeyRing;
use boxoffice_wire::{Encoding, Op, access::ShownKey, schema};
use serde_json::{Value, json};

use crate::{
    asking::Asking,
    door::{
        common::{Client, Door, request},
        who_may::is_allowed,
    },
};

const TOKEN: &str = "open sesame, please";

/// The secret of every key here.
const SECRET: &str = "0123456789abcdefghijABCDEFGHIJ-_0123456789x";

fn id(text: &str) -> Id {
    Id::new(text).expect("a good id")
}

/// Gives the cluster a key with these roles, named after the first.
fn give(door: &Door, name: &str, roles: Roles) -> String {
    let shown = ShownKey { name, secret: SECRET };
    let terms = NewKey { hash: shown.hash(), roles, venues: Vec::new(), requests_per_second: None, held_max: None };
    let key = AccessKey { terms, created_at: Timestamp(1) };
    door.node.access_keys.lock().insert(id(name), Arc::new(key));
    shown.written()
}

/// What `POST /v1/{op}` with a body that is none is answered: 400 if the caller may ask at all.
async fn posted(door: &Door, op: Op, token: Option<&str>) -> (u16, u16) {
    let authorization = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![("idempotency-key", "r")];
    headers.extend(authorization.as_deref().map(|value| ("authorization", value)));
    let told = Asking::connect(door.clients).await.post(&format!("/v1/{}", op.name()), &headers, "[]").await;
    (told.status, told.code() as u16)
}

/// A body that would be taken.
fn body_of(op: Op) -> Value {
    schema::of(op).examples.first().cloned().unwrap_or_else(|| json!({}))
}

fn is_about_a_socket(op: Op) -> bool {
    ["hello", "watch", "unwatch"].contains(&op.name())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_op_is_for_its_roles() {
    for anonymous in [None, Some(Role::Watch), Some(Role::Sell)] {
        let door = Door::strict(EdgeConfig { anonymous, admin_token: Some(TOKEN.into()), ..EdgeConfig::default() });
        let stranger = anonymous.map_or("nobody", Role::name);
        let keys = Role::ALL.map(|role| (role.name(), give(&door, role.name(), Roles::of(role))));
        let mut asked = 0;
        for op in Op::ALL.into_iter().filter(|op| !is_about_a_socket(*op)) {
            let expected = if is_allowed(op, stranger) { (400, 101) } else { (401, 107) };
            assert_eq!(posted(&door, op, None).await, expected, "{} of a stranger who may {stranger}", op.name());
            for (role, key) in &keys {
                let expected = if is_allowed(op, role) { (400, 101) } else { (403, 108) };
                assert_eq!(posted(&door, op, Some(key)).await, expected, "{} with the role {role}", op.name());
                asked += 1;
            }
            assert_eq!(posted(&door, op, Some(TOKEN)).await, (400, 101), "{} with the admin token", op.name());
            let other = ShownKey { name: "desk", secret: &SECRET.replace('0', "1") }.written();
            for wrong in ["open sesame, pleasf", &other, "bok.nobody.0123456789abcdefghijABCDEFGHIJ-_0123456789x"] {
                if op == Op::VenueGet {
                    assert_eq!(posted(&door, op, Some(wrong)).await, (401, 107), "{wrong}");
                }
            }
        }
        assert_eq!(asked, 5 * (Op::ALL.len() - 3), "every op with every role");
        assert!(door.node.keys.lock().is_empty() && door.node.diary.lock().is_empty(), "nothing reached the node");
    }
}

/// The same over a WebSocket, with bodies that would be taken: what is refused changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_are_held_to_the_same_roles() {
    let door = Door::strict(EdgeConfig { anonymous: None, admin_token: Some(TOKEN.into()), ..EdgeConfig::default() });
    let mut stranger = Client::connect(door.clients, Encoding::Json).await;
    for (number, op) in (1..).zip(Op::ALL) {
        stranger.send(number, op, body_of(op)).await;
        let refused = if op == Op::Hello { 0 } else { 107 };
        assert_eq!(stranger.code().await, (Some(number), refused), "{}", op.name());
    }
    for role in Role::ALL {
        let key = give(&door, role.name(), Roles::of(role));
        let shown = request(door.clients, "boxoffice.v1.json", &[("authorization", &format!("Bearer {key}"))]);
        let mut client = Client::connect_with(shown, Encoding::Json).await;
        for (number, op) in (1..).zip(Op::ALL).filter(|(_, op)| !is_allowed(*op, role.name())) {
            client.send(number, op, body_of(op)).await;
            assert_eq!(client.code().await, (Some(number), 108), "{} with the role {}", op.name(), role.name());
        }
    }
    assert!(door.node.keys.lock().is_empty() && door.node.diary.lock().is_empty(), "nothing reached the node");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_revoked_is_refused_and_its_connections_end() {
    let door = Door::strict(EdgeConfig { anonymous: None, ..EdgeConfig::default() });
    let key = give(&door, "till-3", Roles::of(Role::Desk));
    let shown = || request(door.clients, "boxoffice.v1.json", &[("authorization", &format!("Bearer {key}"))]);
    let mut client = Client::connect_with(shown(), Encoding::Json).await;
    client.is_alive().await;
    let revoke = || {
        door.node.access_keys.lock().remove(&id("till-3"));
        door.node.key_ring.lock().version += 1;
    };
    revoke();
    let begun = tokio::time::Instant::now();
    while posted(&door, Op::VenuePut, Some(&key)).await != (401, 107) {
        assert!(begun.elapsed().as_secs() < 20, "it is refused");
    }
    // The connection hears of it with its next request at the latest, once the node has looked at the keys again.
    loop {
        client.send(7, Op::CartOpen, json!({"token": crate::door::common::token(9)})).await;
        match client.next().await {
            crate::door::common::Sent::Frame(_) => assert!(begun.elapsed().as_secs() < 20, "it ends"),
            crate::door::common::Sent::Closed(code, why) => {
                assert_eq!((code, why.as_str()), (4001, "this key was revoked"));
                break;
            }
            crate::door::common::Sent::Broken => panic!("it is told why"),
        }
    }
    // Another key under the same name is another key.
    let mut client = {
        give(&door, "till-3", Roles::of(Role::Desk));
        Client::connect_with(shown(), Encoding::Json).await
    };
    client.is_alive().await;
    give(&door, "till-3", Roles::of(Role::Watch));
    door.node.key_ring.lock().version += 1;
    let begun = tokio::time::Instant::now();
    loop {
        client.send(7, Op::CartOpen, json!({"token": crate::door::common::token(9)})).await;
        if let crate::door::common::Sent::Closed(code, _) = client.next().await {
            assert_eq!(code, 4001);
            break;
        }
        assert!(begun.elapsed().as_secs() < 20, "it ends");
    }
}

/// A key may have been revoked meanwhile: what only desks and operators may do is refused, and selling goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_does_not_hear_of_the_directory_sells_on() {
    let door = Door::strict(EdgeConfig { admin_token: Some(TOKEN.into()), ..EdgeConfig::default() });
    let desk = give(&door, "desk", Roles::of(Role::Desk));
    *door.node.key_ring.lock() = KeyRing { version: 1, has_admin: false, silent_ms: 6_000 };
    let begun = tokio::time::Instant::now();
    while posted(&door, Op::VenuePut, Some(&desk)).await != (503, 903) {
        assert!(begun.elapsed().as_secs() < 20, "it is refused");
    }
    for (op, token, expected) in [
        (Op::CartOpen, Some(desk.as_str()), (400, 101)),
        (Op::OrderGet, Some(desk.as_str()), (400, 101)),
        (Op::AdminSettle, Some(desk.as_str()), (503, 903)),
        (Op::VenueGet, None, (400, 101)),
        // What stands in the configuration cannot be revoked by the cluster.
        (Op::VenuePut, Some(TOKEN), (400, 101)),
    ] {
        assert_eq!(posted(&door, op, token).await, expected, "{}", op.name());
    }
    *door.node.key_ring.lock() = KeyRing { version: 1, has_admin: false, silent_ms: 0 };
    while posted(&door, Op::VenuePut, Some(&desk)).await != (400, 101) {
        assert!(begun.elapsed().as_secs() < 20, "it is taken again");
    }
}

/// Without an admin token the operators' port asks for nothing, as long as no key has the role admin; the clients' port does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operators_port_is_open_until_there_is_an_operators_key() {
    let door = Door::strict(EdgeConfig::default());
    let put = async |address, host: &str| {
        let head =
            format!("POST /v1/venue.put HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nidempotency-key: r\r\n");
        let request = format!("{head}content-type: application/json\r\ncontent-length: 2\r\n\r\n[]");
        crate::door::common::http(address, &request).await.0
    };
    assert_eq!(put(door.operators, "127.0.0.1:7380").await, 400);
    assert_eq!(put(door.operators, "localhost").await, 400);
    // A stranger's name that leads here is the page of a stranger.
    assert_eq!(put(door.operators, "evil.example:7380").await, 421);
    assert_eq!(put(door.clients, "127.0.0.1:7180").await, 401);
    *door.node.key_ring.lock() = KeyRing { version: 2, has_admin: true, silent_ms: 0 };
    let begun = tokio::time::Instant::now();
    while put(door.operators, "localhost").await != 401 {
        assert!(begun.elapsed().as_secs() < 20, "it asks for a key now");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_desk_says_that_a_cart_was_paid_elsewhere() {
    let recorded = json!({"token": crate::door::common::token(9), "payment": {"recorded": {"method": "cash", "transaction_id": "1"}}});
    let through = json!({"token": crate::door::common::token(9), "payment": {"gateway": {"source": "ok"}}});
    for (by_anyone, role, allowed) in
        [(false, Role::Sell, false), (false, Role::Desk, true), (true, Role::Sell, true), (false, Role::Admin, true)]
    {
        let config = EdgeConfig { anonymous: Some(role), recorded_by_anyone: by_anyone, ..EdgeConfig::default() };
        let door = Door::strict(config);
        let mut client = Client::connect(door.clients, Encoding::Json).await;
        client.send(1, Op::CartCheckout, recorded.clone()).await;
        let (_, code) = client.code().await;
        assert_eq!(code == 108, !allowed, "{role:?} {by_anyone}: {code}");
        assert_eq!(door.node.keys.lock().len(), usize::from(allowed), "what is refused does not reach the node");
        client.send(2, Op::CartCheckout, through.clone()).await;
        assert_ne!(client.code().await.1, 108);
    }
}

/// By both ways in: who guesses waits, and who is right does not, wherever they come from.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_are_answered_later_and_later() {
    let limits = Limits { guess_step: Duration::from_millis(100), ..Limits::default() };
    let door = Door::strict(EdgeConfig { admin_token: Some(TOKEN.into()), limits, ..EdgeConfig::default() });
    let begun = tokio::time::Instant::now();
    for _ in 0..5 {
        assert_eq!(posted(&door, Op::VenueGet, Some("open sesame, pleasf")).await, (401, 107));
    }
    assert!(begun.elapsed() >= Duration::from_millis(300), "the fourth waits a step, the fifth two");
    let mut client = Client::connect(door.clients, Encoding::Json).await;
    let begun = tokio::time::Instant::now();
    client.send(1, Op::Hello, json!({"token": "open sesame, pleasf"})).await;
    client.send(2, Op::VenueGet, json!({"id": "globe"})).await;
    assert_eq!(client.code().await.0, Some(2), "others are not waited for");
    assert_eq!(client.code().await, (Some(1), 107));
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert_eq!(client.close_code().await, 4001);
    assert_eq!(posted(&door, Op::VenuePut, Some(TOKEN)).await, (400, 101));
    assert_eq!(door.metric("boxoffice_edge_denied_total{reason=\"token\"}").await, 6.0);
}

/// A network that has taken enough is told so by both ways in, with when it may have more; a key lifts that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_takes_so_much_and_no_more() {
    let door = |connections, requests_per_second| {
        let budgets = BudgetConfig { connections, requests_per_second, ..BudgetConfig::default() };
        let config = EdgeConfig { anonymous: Some(Role::Sell), budgets, ..EdgeConfig::default() };
        Door::strict(EdgeConfig { admin_token: Some(TOKEN.into()), ..config })
    };
    let slow = door(0, 2);
    let mut client = Client::connect(slow.clients, Encoding::Json).await;
    let mut codes = Vec::new();
    for number in 0..12 {
        client.send(number, Op::VenueGet, json!({"id": "globe"})).await;
        codes.push(client.code().await.1);
    }
    // The connection was the first request.
    assert!(codes[..9].iter().all(|code| *code != 109) && codes[11] == 109, "five seconds' worth: {codes:?}");
    let mut asking = Asking::connect(slow.clients).await;
    let told = asking.get("/v1/venue.get?id=globe", &[]).await;
    assert_eq!((told.status, told.code()), (429, 109));
    assert!(told.json()["no"]["retry_after_ms"].as_u64().is_some_and(|ms| (1..=5_000).contains(&ms)), "{told:?}");
    assert!(told.header("retry-after").is_some(), "{told:?}");
    assert_ne!(posted(&slow, Op::VenueGet, Some(TOKEN)).await.1, 109, "a key lifts it");
    assert!(slow.metric("boxoffice_edge_over_budget_total{budget=\"requests\"}").await >= 2.0);
    // Strangers have three connections; those with a key come all the same.
    let small = door(3, 0);
    let ws = |headers: &[(&str, &str)]| request(small.clients, "boxoffice.v1.json", headers);
    let (mut strangers, mut refused) = (Vec::new(), 0);
    while refused < 3 {
        match tokio_tungstenite::connect_async(ws(&[])).await {
            Ok((socket, _)) => strangers.push(socket),
            Err(_) => refused += 1,
        }
        assert!(strangers.len() <= 3);
    }
    let authorization = format!("Bearer {TOKEN}");
    let operator = Client::connect_with(ws(&[("authorization", &authorization)]), Encoding::Json).await;
    drop((operator, strangers));
    assert!(small.metric("boxoffice_edge_over_budget_total{budget=\"connections\"}").await >= 1.0);
}

/// The bounds of guests' carts are for everybody but desks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_is_told_who_is_a_guest() {
    for (role, guest) in [(Role::Sell, true), (Role::Desk, false)] {
        let door = Door::strict(EdgeConfig { anonymous: Some(role), ..EdgeConfig::default() });
        let mut client = Client::connect(door.clients, Encoding::Json).await;
        client.send(1, Op::CartOpen, json!({"token": crate::door::common::token(9)})).await;
        client.code().await;
        let lines = json!([{"product": "milk", "quantity": 1}]);
        client.send(2, Op::CartHoldAll, json!({"token": crate::door::common::token(9), "lines": lines})).await;
        client.code().await;
        assert_eq!(*door.node.guests.lock(), [guest, guest], "{role:?}");
    }
}

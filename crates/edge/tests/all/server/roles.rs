//! The roles of every op, with a key and without, over WebSocket and HTTP.

use boxoffice_core::access::{Role, Roles};
use boxoffice_edge::{EdgeConfig, Proxies, WebConfig, budgets::BudgetConfig};
use boxoffice_env::secret::Secret;
use boxoffice_node::access::KeyRing;
use boxoffice_wire::{Encoding, Op, access::ShownKey, customer, reply::Event, schema};
use serde_json::{Value, json};

use crate::{
    http_client::HttpClient,
    server::{
        common::{Client, SECRET, TestServer, add_key, cart, id, request, token},
        permissions::is_allowed,
        watching::watch,
    },
};

const TOKEN: &str = "open sesame, please, and quickly!";

/// The answer to `POST /v1/{op}` with an invalid body: 400 if the caller has the right to the op.
async fn posted(server: &TestServer, op: Op, token: Option<&str>) -> (u16, u16) {
    let authorization = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![("idempotency-key", "r")];
    headers.extend(authorization.as_deref().map(|value| ("authorization", value)));
    let answer = HttpClient::connect(server.clients).await.post(&format!("/v1/{}", op.name()), &headers, "[]").await;
    (answer.status, answer.code() as u16)
}

/// A valid body.
fn body_of(op: Op) -> Value {
    schema::of(op).examples.first().cloned().unwrap_or_else(|| json!({}))
}

fn needs_a_socket(op: Op) -> bool {
    ["hello", "watch", "unwatch"].contains(&op.name())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_op_needs_its_role() {
    for anonymous in [None, Some(Role::Watch), Some(Role::Sell)] {
        let server =
            TestServer::strict(EdgeConfig { anonymous, admin_token: Some(TOKEN.into()), ..EdgeConfig::default() });
        let role = anonymous.map_or("anonymous", Role::name);
        let keys = Role::ALL.map(|role| (role.name(), add_key(&server, role.name(), Roles::of(role))));
        let mut asked = 0;
        for op in Op::ALL.into_iter().filter(|op| !needs_a_socket(*op)) {
            let expected = if is_allowed(op, role) { (400, 101) } else { (401, 107) };
            assert_eq!(
                posted(&server, op, None).await,
                expected,
                "{} of an anonymous caller with the role {role}",
                op.name()
            );
            for (role, key) in &keys {
                let expected = if is_allowed(op, role) { (400, 101) } else { (403, 108) };
                assert_eq!(posted(&server, op, Some(key)).await, expected, "{} with the role {role}", op.name());
                asked += 1;
            }
            assert_eq!(posted(&server, op, Some(TOKEN)).await, (400, 101), "{} with the admin token", op.name());
            let other = ShownKey { name: "desk", secret: &SECRET.replace('0', "1") }.written();
            for wrong in ["open sesame, pleasf", &other, "bok.nobody.0123456789abcdefghijABCDEFGHIJ-_0123456789x"] {
                if op == Op::VenueGet {
                    assert_eq!(posted(&server, op, Some(wrong)).await, (401, 107), "{wrong}");
                }
            }
        }
        assert_eq!(asked, 5 * (Op::ALL.len() - 3), "every op with every role");
        assert!(server.node.keys.lock().is_empty() && server.node.log.lock().is_empty(), "nothing reached the node");
    }
}

/// The same over a WebSocket with valid bodies. Refused requests change nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn websockets_enforce_the_same_roles() {
    let server =
        TestServer::strict(EdgeConfig { anonymous: None, admin_token: Some(TOKEN.into()), ..EdgeConfig::default() });
    let mut guest = Client::connect(server.clients, Encoding::Json).await;
    for (number, op) in (1..).zip(Op::ALL) {
        guest.send(number, op, body_of(op)).await;
        let refused = if op == Op::Hello { 0 } else { 107 };
        assert_eq!(guest.code().await, (Some(number), refused), "{}", op.name());
    }
    for role in Role::ALL {
        let key = add_key(&server, role.name(), Roles::of(role));
        let shown = request(server.clients, "boxoffice.v1.json", &[("authorization", &format!("Bearer {key}"))]);
        let mut client = Client::connect_with(shown, Encoding::Json).await;
        for (number, op) in (1..).zip(Op::ALL).filter(|(_, op)| !is_allowed(*op, role.name())) {
            client.send(number, op, body_of(op)).await;
            assert_eq!(client.code().await, (Some(number), 108), "{} with the role {}", op.name(), role.name());
        }
    }
    assert!(server.node.keys.lock().is_empty() && server.node.log.lock().is_empty(), "nothing reached the node");
}

/// Keys may have been revoked meanwhile. The node refuses ops of desks and operators with a key, and sales continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_the_directory_still_sells() {
    let server = TestServer::strict(EdgeConfig { admin_token: Some(TOKEN.into()), ..EdgeConfig::default() });
    let desk = add_key(&server, "desk", Roles::of(Role::Desk));
    *server.node.key_ring.lock() = KeyRing { version: 1, copy_version: 1, has_admin: false, silent_ms: 6_000 };
    let begun = tokio::time::Instant::now();
    while posted(&server, Op::VenuePut, Some(&desk)).await != (503, 903) {
        assert!(begun.elapsed().as_secs() < 20, "the key must be refused");
    }
    for (op, token, expected) in [
        (Op::CartOpen, Some(desk.as_str()), (400, 101)),
        (Op::OrderGet, Some(desk.as_str()), (400, 101)),
        (Op::AdminSettle, Some(desk.as_str()), (503, 903)),
        (Op::VenueGet, None, (400, 101)),
        // The cluster cannot revoke the token in the configuration.
        (Op::VenuePut, Some(TOKEN), (400, 101)),
    ] {
        assert_eq!(posted(&server, op, token).await, expected, "{}", op.name());
    }
    *server.node.key_ring.lock() = KeyRing { version: 1, copy_version: 1, has_admin: false, silent_ms: 0 };
    while posted(&server, Op::VenuePut, Some(&desk)).await != (400, 101) {
        assert!(begun.elapsed().as_secs() < 20, "the key must be accepted again");
    }
}

/// The operators' port needs no credentials while there is neither an admin token nor a key with the role admin. The clients'
/// port does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operators_port_is_open_until_there_is_an_operators_key() {
    let server = TestServer::strict(EdgeConfig::default());
    let put = async |address, host: &str| {
        let head =
            format!("POST /v1/venue.put HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nidempotency-key: r\r\n");
        let request = format!("{head}content-type: application/json\r\ncontent-length: 2\r\n\r\n[]");
        crate::server::common::http(address, &request).await.0
    };
    assert_eq!(put(server.operators, "127.0.0.1:7380").await, 400);
    assert_eq!(put(server.operators, "localhost").await, 400);
    // A foreign name that resolves to this node comes from a foreign page.
    assert_eq!(put(server.operators, "evil.example:7380").await, 421);
    assert_eq!(put(server.clients, "127.0.0.1:7180").await, 401);
    *server.node.key_ring.lock() = KeyRing { version: 2, copy_version: 2, has_admin: true, silent_ms: 0 };
    let begun = tokio::time::Instant::now();
    while put(server.operators, "localhost").await != 401 {
        assert!(begun.elapsed().as_secs() < 20, "the port must require a key now");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_desk_records_payments() {
    let recorded = json!({"token": crate::server::common::token(9), "payment": {"recorded": {"method": "cash", "transaction_id": "1"}}});
    let through = json!({"token": crate::server::common::token(9), "payment": {"gateway": {"source": "ok"}}});
    for (by_anyone, role, allowed) in
        [(false, Role::Sell, false), (false, Role::Desk, true), (true, Role::Sell, true), (false, Role::Admin, true)]
    {
        let config = EdgeConfig { anonymous: Some(role), recorded_by_anyone: by_anyone, ..EdgeConfig::default() };
        let server = TestServer::strict(config);
        let mut client = Client::connect(server.clients, Encoding::Json).await;
        client.send(1, Op::CartCheckout, recorded.clone()).await;
        let (_, code) = client.code().await;
        assert_eq!(code == 108, !allowed, "{role:?} {by_anyone}: {code}");
        assert_eq!(server.node.keys.lock().len(), usize::from(allowed), "a refused request does not reach the node");
        client.send(2, Op::CartCheckout, through.clone()).await;
        assert_ne!(client.code().await.1, 108);
    }
}

/// Over WebSocket and HTTP. The refusal has a time to wait. A caller with a key is exempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_budget_of_a_network_is_enforced() {
    let server = |connections, requests_per_second| {
        let budgets = BudgetConfig { connections, requests_per_second, ..BudgetConfig::default() };
        let config = EdgeConfig { anonymous: Some(Role::Sell), budgets, ..EdgeConfig::default() };
        TestServer::strict(EdgeConfig { admin_token: Some(TOKEN.into()), ..config })
    };
    let slow = server(0, 2);
    let mut client = Client::connect(slow.clients, Encoding::Json).await;
    let mut codes = Vec::new();
    for number in 0..12 {
        client.send(number, Op::VenueGet, json!({"id": "globe"})).await;
        codes.push(client.code().await.1);
    }
    // The connection was the first request.
    assert!(codes[..9].iter().all(|code| *code != 109) && codes[11] == 109, "five seconds' worth: {codes:?}");
    let mut http_client = HttpClient::connect(slow.clients).await;
    let answer = http_client.get("/v1/venue.get?id=globe", &[]).await;
    assert_eq!((answer.status, answer.code()), (429, 109));
    assert!(answer.json()["no"]["retry_after_ms"].as_u64().is_some_and(|ms| (1..=5_000).contains(&ms)), "{answer:?}");
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    assert_ne!(posted(&slow, Op::VenueGet, Some(TOKEN)).await.1, 109, "a key is exempt");
    assert!(slow.metric("boxoffice_edge_over_budget_total{budget=\"requests\"}").await >= 2.0);
    // Anonymous callers may have three connections. A caller with a key connects all the same.
    let small = server(3, 0);
    let ws = |headers: &[(&str, &str)]| request(small.clients, "boxoffice.v1.json", headers);
    let (mut connections, mut refused) = (Vec::new(), 0);
    while refused < 3 {
        match tokio_tungstenite::connect_async(ws(&[])).await {
            Ok((socket, _)) => connections.push(socket),
            Err(_) => refused += 1,
        }
        assert!(connections.len() <= 3);
    }
    let authorization = format!("Bearer {TOKEN}");
    let operator = Client::connect_with(ws(&[("authorization", &authorization)]), Encoding::Json).await;
    drop((operator, connections));
    assert!(small.metric("boxoffice_edge_over_budget_total{budget=\"connections\"}").await >= 1.0);
}

/// Every caller but a desk is a guest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_learns_which_callers_are_guests() {
    for (role, guest) in [(Role::Sell, true), (Role::Desk, false)] {
        let server = TestServer::strict(EdgeConfig { anonymous: Some(role), ..EdgeConfig::default() });
        let mut client = Client::connect(server.clients, Encoding::Json).await;
        client.send(1, Op::CartOpen, json!({"token": crate::server::common::token(9)})).await;
        client.code().await;
        let lines = json!([{"product": "milk", "quantity": 1}]);
        client.send(2, Op::CartHoldAll, json!({"token": crate::server::common::token(9), "lines": lines})).await;
        client.code().await;
        assert_eq!(*server.node.connections.lock(), [guest, guest], "{role:?}");
    }
}

/// Guests hold for their network, customers for themselves, and keys and staff without a share. It is the same over WebSocket and HTTP,
/// and a command that makes a line larger, or holds at the checkout, says it as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_learns_who_holds() {
    let server = TestServer::strict(EdgeConfig {
        anonymous: Some(Role::Sell),
        admin_token: Some(TOKEN.into()),
        holder_secret: Some(Secret("thirty-two letters or a few more".into())),
        customer_secret: Some(Secret(SECRET.into())),
        web: WebConfig {
            proxies: Proxies { networks: vec!["127.0.0.1".parse().expect("an address")], ..Proxies::default() },
            ..WebConfig::default()
        },
        ..EdgeConfig::default()
    });
    let token = crate::server::common::token(9);
    let hold = json!({"token": token, "lines": [{"product": "milk", "quantity": 1}]}).to_string();
    let learned = || server.node.holders.lock().drain(..).collect::<Vec<_>>();
    let post = async |op: &str, headers: &[(&str, &str)], body: &str| {
        let mut all = vec![("idempotency-key", "r")];
        all.extend_from_slice(headers);
        HttpClient::connect(server.clients).await.post(&format!("/v1/{op}"), &all, body).await;
        let learned = learned();
        assert_eq!(learned.len(), 1, "{op} {headers:?}");
        learned[0]
    };
    let from = |address: &'static str| [("x-forwarded-for", address)];
    let guest = post("cart.hold_all", &from("192.0.2.1"), &hold).await.expect("a guest has a share");
    let others = ["192.0.2.2", "198.51.100.1", "2001:db8:1:ab00::1"];
    for other in others {
        let other = post("cart.hold_all", &from(other), &hold).await.expect("a guest has a share");
        assert_ne!(guest.own, other.own);
    }
    let grows = json!({"token": token, "line": 1, "quantity": 9}).to_string();
    assert_eq!(post("cart.set_quantity", &from("192.0.2.1"), &grows).await, Some(guest));
    let pays = json!({"token": token, "payment": {"gateway": {"source": "card"}}}).to_string();
    assert_eq!(post("cart.checkout", &from("192.0.2.1"), &pays).await, Some(guest));

    let shown = request(server.clients, "boxoffice.v1.json", &from("192.0.2.1"));
    let mut client = Client::connect_with(shown, Encoding::Json).await;
    client.send(2, Op::CartHoldAll, serde_json::from_str(&hold).expect("JSON")).await;
    client.code().await;
    assert_eq!(learned(), [Some(guest)]);

    let bearer = format!("Bearer {}", add_key(&server, "school", Roles::of(Role::Sell)));
    for authorization in [format!("Bearer {TOKEN}"), bearer] {
        let headers = [("x-forwarded-for", "192.0.2.1"), ("authorization", authorization.as_str())];
        assert_eq!(post("cart.hold_all", &headers, &hold).await, None);
    }
    let ann = customer::token(SECRET.as_bytes(), &id("ann"));
    let headers = |address| {
        [("x-forwarded-for", address), ("boxoffice-customer", "ann"), ("boxoffice-customer-token", ann.as_str())]
    };
    let here = post("cart.hold_all", &headers("192.0.2.1"), &hold).await.expect("a customer has a share");
    let there = post("cart.hold_all", &headers("198.51.100.1"), &hold).await.expect("a customer has a share");
    assert_eq!(here.own, there.own);
    assert_ne!(here.wider, there.wider);
    assert!(![guest.own, guest.wider].contains(&here.own));
}

/// Following needs what reading needs: the purchases of a customer are for `sell` and `report`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_needs_what_the_read_of_the_same_data_needs() {
    let server =
        TestServer::strict(EdgeConfig { anonymous: None, admin_token: Some(TOKEN.into()), ..EdgeConfig::default() });
    let feeds = [
        ("session/hamlet".to_owned(), Op::SessionMap),
        ("customer/ada".to_owned(), Op::CustomerPurchases),
        (format!("cart/{}", cart(1)), Op::CartGet),
    ];
    for role in Role::ALL {
        let key = add_key(&server, role.name(), Roles::of(role));
        let shown = request(server.clients, "boxoffice.v1.json", &[("authorization", &format!("Bearer {key}"))]);
        let mut client = Client::connect_with(shown, Encoding::Json).await;
        for (number, (entity, read)) in (1..).zip(&feeds) {
            client.send(number, Op::Watch, json!({"entity": entity, "token": token(1)})).await;
            let expected = if is_allowed(*read, role.name()) { 0 } else { 108 };
            assert_eq!(client.code().await, (Some(number), expected), "{entity} with the role {}", role.name());
            if expected == 0 {
                client.frame().await;
            }
        }
    }
}

/// A key with fewer rights, shown on the same connection, ends the feeds that it may not follow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_ends_when_another_hello_takes_the_right_to_it() {
    let server =
        TestServer::strict(EdgeConfig { anonymous: None, admin_token: Some(TOKEN.into()), ..EdgeConfig::default() });
    let key = add_key(&server, "screen", Roles::of(Role::Watch));
    let mut client = Client::connect(server.clients, Encoding::Json).await;
    client.send(1, Op::Hello, json!({"token": TOKEN})).await;
    assert_eq!(client.code().await, (Some(1), 0));
    let session = watch(&mut client, 2, json!({"entity": "session/hamlet"})).await;
    client.frame().await;
    let purchases = watch(&mut client, 3, json!({"entity": "customer/ada"})).await;
    client.frame().await;
    client.send(4, Op::Hello, json!({"token": key})).await;
    assert_eq!(client.code().await, (Some(4), 0));
    let (feed, Event::Ended(ended)) = client.event().await else { panic!("the feed goes on") };
    assert_eq!((feed, ended.name.as_str()), (purchases, "forbidden"));
    client.send(5, Op::Unwatch, json!({"feed": purchases})).await;
    assert_eq!(client.code().await, (Some(5), 701));
    // What the key may follow goes on.
    client.send(6, Op::Unwatch, json!({"feed": session})).await;
    assert_eq!(client.code().await, (Some(6), 0));
}

//! Every op with every role on a real port, in the shipped configurations, and invalid tokens.

use std::net::Ipv4Addr;

use boxoffice_wire::{Op, schema};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{
    permissions::is_allowed,
    stage::{SHOP, Stage},
    tokens::{self, Shop, good},
    wire::{self, attacker, shows},
};
use crate::common::{ADMIN, Encoding, Home, Port};

pub(super) const LOG: &str = "\n[log]\nsegment_bytes = 1_048_576\n";

const ROLES: [&str; 5] = ["watch", "sell", "desk", "report", "admin"];

/// A caller: its role, and its credentials if any.
struct Caller {
    role: String,
    token: Option<String>,
    headers: String,
}

impl Caller {
    fn showing(role: &str, token: Option<String>) -> Caller {
        Caller { role: role.to_owned(), headers: shows(token.as_deref()), token }
    }
}

fn needs_a_socket(op: Op) -> bool {
    ["hello", "watch", "unwatch"].contains(&op.name())
}

/// Sends `POST /v1/{op}` with an invalid body. The answer is 400 and 101 if the role may use the op.
async fn each_op_by_http(stage: &Stage, to: std::net::SocketAddr, from: Ipv4Addr, caller: &Caller) {
    let ops: Vec<Op> = Op::ALL.into_iter().filter(|op| !needs_a_socket(*op)).collect();
    let headers = format!("idempotency-key: r\r\n{}", caller.headers);
    let mut answers = Vec::new();
    // The operators' port has sixteen connections, and other tests use it too.
    for some in ops.chunks(8) {
        answers.extend(join_all(some.iter().map(|op| wire::post(from, to, op.name(), &headers, "[]"))).await);
    }
    for (op, answer) in ops.iter().zip(answers) {
        let answer = answer.unwrap_or_else(|error| panic!("{}: {error}", op.name()));
        let expected = match (is_allowed(*op, &caller.role), &caller.token) {
            (true, _) => (400, 101),
            (false, None) if !caller.headers.contains("boxoffice-customer") => (401, 107),
            (false, _) => (403, 108),
        };
        let shown = caller.token.as_ref().map_or("nothing", |token| &token[..token.len().min(12)]);
        let words = format!("{} with the role {} that shows {shown}: {}", op.name(), caller.role, answer.body);
        assert_eq!((answer.status, answer.code()), expected, "{words}");
    }
    // `/metrics` on the clients' port needs the role `report`.
    if to == stage.address() {
        let request = format!("GET /metrics HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\n{}\r\n", caller.headers);
        let answer = wire::exchange(from, to, &request).await.expect("an answer");
        let expected = if is_allowed(Op::AdminStatus, &caller.role) { 200 } else { 404 };
        assert_eq!(answer.status, expected, "/metrics with the role {}", caller.role);
    }
}

/// The same over a WebSocket, with valid bodies. A forbidden op changes nothing.
async fn each_op_by_socket(stage: &Stage, from: Ipv4Addr, caller: &Caller) {
    let connected = wire::port(from, stage.address(), Encoding::Json, caller.token.as_deref()).await;
    let port = connected.unwrap_or_else(|error| panic!("the role {} cannot connect: {error}", caller.role));
    let expected = if caller.token.is_none() { (107, "unauthenticated") } else { (108, "forbidden") };
    for op in Op::ALL.into_iter().filter(|op| !is_allowed(*op, &caller.role)) {
        let body = schema::of(op).examples.first().cloned().unwrap_or_else(|| json!({}));
        port.ask(op.name(), "r", body).await.no(expected.0, expected.1);
    }
}

/// The entities that only operators create.
async fn entities(stage: &Stage) -> Value {
    let audit = stage.audit().await;
    let counted = ["venues", "titles", "sessions", "products", "resources", "refunds"];
    json!(counted.map(|name| audit[name].clone()))
}

async fn every_op_for_every_role(stage: &Stage, anonymous: &str, mut callers: Vec<Caller>) {
    callers.push(Caller::showing(anonymous, None));
    callers.push(Caller::showing("admin", Some(ADMIN.into())));
    for role in ROLES {
        callers.push(Caller::showing(role, Some(tokens::key(stage, &format!("{role}-1"), role).await)));
    }
    let before = entities(stage).await;
    for (number, caller) in (1..).zip(&callers) {
        let from = attacker(number);
        each_op_by_http(stage, stage.address(), from, caller).await;
        if caller.headers.matches("boxoffice-customer").count() == 0 {
            each_op_by_socket(stage, from, caller).await;
        }
        each_op_by_http(stage, stage.server.operators(), Ipv4Addr::LOCALHOST, caller).await;
    }
    assert_eq!(entities(stage).await, before, "a refused op changed something");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_op_needs_its_role_as_shipped() {
    let stage = Stage::of_home("every_op_needs_its_role_as_shipped", Home::with_config(LOG)).await;
    every_op_for_every_role(&stage, "watch", Vec::new()).await;
    // Callers without credentials, or with the role `sell` only, may not record a payment.
    let sell = tokens::key(&stage, "till", "sell").await;
    let port = Port::show(stage.address(), Encoding::Json, Some(&sell)).await.expect("the caller is accepted");
    let token = stage.rng.clone().token();
    port.ask("cart.hold_best", "1", json!({"token": token, "session": stage.theatre.session(), "count": 1})).await.ok();
    port.ask("cart.checkout", "2", crate::common::checkout(&token)).await.no(108, "forbidden");
    stage.server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_op_needs_its_role_in_the_open_configuration() {
    const OPEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/open.toml");
    let open = std::fs::read_to_string(OPEN).expect("a shipped configuration");
    let stage =
        Stage::of_home("every_op_needs_its_role_in_the_open_configuration", Home::with_config(&(open + LOG))).await;
    let run = stage.start_attack("1 roles, open.toml", 20).await;
    every_op_for_every_role(&stage, "sell", Vec::new()).await;
    let sold = run.end().await;
    stage.has_sold_exactly(sold).await;
    stage.server.stop();
}

/// The shop's configuration with its tokens.
pub(crate) fn with_tokens(shop: &Shop) -> String {
    SHOP.replace("[listen]\n", &format!("[listen]\n{}", shop.listen()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_op_needs_its_role_with_tokens() {
    let shop = Shop::new();
    let home = Home::with_config(&with_tokens(&shop));
    let stage = Stage::of_home("every_op_needs_its_role_with_tokens", home).await;
    let run = stage.start_attack("1 roles, short-lived tokens", 20).await;
    let mut callers: Vec<Caller> = ["watch", "sell", "desk", "report"]
        .into_iter()
        .flat_map(|role| {
            [shop.eddsa(&good("ada", role)), tokens::shared(&good("ada", role))].map(|token| (role, token))
        })
        .map(|(role, token)| Caller::showing(role, Some(token)))
        .collect();
    // A customer's token identifies the customer, who may buy.
    let headers = tokens::shows_customer("ada", &tokens::of_customer("ada"));
    callers.push(Caller { role: "sell".into(), token: None, headers });
    every_op_for_every_role(&stage, "sell", callers).await;
    let sold = run.end().await;
    stage.has_sold_exactly(sold).await;
    stage.server.stop();
}

/// Invalid credentials are refused for every op and on every port, also for public ops.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_tokens_are_refused() {
    let shop = Shop::new();
    let home = Home::with_config(&with_tokens(&shop));
    let stage = Stage::of_home("invalid_tokens_are_refused", home).await;
    let run = stage.start_attack("1 invalid tokens", 20).await;
    let key = tokens::key(&stage, "till", "desk").await;
    let mut bad = shop.bad();
    bad.push(("a key with another secret", key.replace('x', "y")));
    bad.push(("a key without a secret", "bok.till.".into()));
    bad.push(("an unknown key", key.replace("till", "tall")));
    bad.push(("another admin token", ADMIN.to_uppercase()));
    bad.push(("half an admin token", ADMIN[..8].into()));
    bad.push(("nothing at all", String::new()));
    for (number, (what, token)) in (1..).zip(&bad) {
        // Each from an address of its own, because repeated guesses of one address are delayed.
        let from = attacker(number);
        let answer = wire::post(from, stage.address(), "venue.get", &shows(Some(token)), "{\"id\":\"royal\"}").await;
        let answer = answer.expect("an answer");
        assert_eq!((answer.status, answer.code()), (401, 107), "a token {what}: {}", answer.body);
        let upgrade = wire::upgrade(&shows(Some(token)));
        let answer = wire::exchange(from, stage.address(), &upgrade).await.expect("an answer");
        assert_eq!(answer.status, 401, "a token {what}");
        if token.is_empty() {
            continue;
        }
        let port = wire::guest(from, stage.address()).await;
        port.frame(json!({"op": "hello", "body": {"token": token}})).await.no(107, "unauthenticated");
        assert_eq!(port.closed().await, 4001, "a token {what}");
    }
    // Customers' tokens: of another customer, missing, in capitals, too short.
    let ada = tokens::of_customer("ada");
    for (number, token) in
        (100..).zip([tokens::of_customer("bob"), ada.to_uppercase(), ada[..60].into(), String::new()])
    {
        let from = attacker(number);
        let headers = tokens::shows_customer("ada", &token);
        let answer = wire::post(from, stage.address(), "venue.get", &headers, "{\"id\":\"royal\"}").await;
        assert_eq!(answer.expect("an answer").code(), 107, "{token:?}");
        let port = wire::guest(from, stage.address()).await;
        let hello = json!({"op": "hello", "body": {"customer": "ada", "customer_token": token}});
        port.frame(hello).await.no(107, "unauthenticated");
        assert_eq!(port.closed().await, 4001);
    }
    // Valid tokens still work.
    for token in [shop.eddsa(&good("ada", "sell")), tokens::shared(&good("ada", "sell")), key] {
        let answer =
            wire::post(attacker(1), stage.address(), "venue.get", &shows(Some(&token)), "{\"id\":\"royal\"}").await;
        assert_eq!(answer.expect("an answer").status, 200);
    }
    assert!(stage.metric("boxoffice_edge_denied_total{reason=\"token\"}").await >= 3 * (bad.len() as u64 - 1));
    let sold = run.end().await;
    stage.has_sold_exactly(sold).await;
    stage.server.stop();
}

/// A connection ends when its token expires.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_ends_with_its_token() {
    let shop = Shop::new();
    let home = Home::with_config(&with_tokens(&shop));
    let stage = Stage::of_home("a_connection_ends_with_its_token", home).await;
    let mut claims = good("ada", "sell");
    claims["exp"] = json!(claims["exp"].as_u64().expect("a time") - 600 + 2);
    let token = shop.eddsa(&claims);
    let port = wire::port(attacker(1), stage.address(), Encoding::Json, Some(&token)).await.expect("it is good still");
    let begun = tokio::time::Instant::now();
    while !port.is_closed() {
        port.read("venue.get", json!({"id": "royal"})).await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        assert!(begun.elapsed() < crate::common::TIMEOUT, "the connection outlives its token");
    }
    assert_eq!(port.closed().await, 4101);
    stage.server.stop();
}

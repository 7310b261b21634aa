//! Every op by every role at the real port, in the shipped configurations; and tokens that are no good.

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

const LOG: &str = "\n[log]\nsegment_bytes = 1_048_576\n";

const ROLES: [&str; 5] = ["watch", "sell", "desk", "report", "admin"];

/// Somebody at the port: the role, whether anything is shown, and what.
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

fn is_about_a_socket(op: Op) -> bool {
    ["hello", "watch", "unwatch"].contains(&op.name())
}

/// What `POST /v1/{op}` with a body that is none is answered: 400 and 101 if the caller may ask at all.
async fn each_op_by_http(stage: &Stage, to: std::net::SocketAddr, from: Ipv4Addr, caller: &Caller) {
    let ops: Vec<Op> = Op::ALL.into_iter().filter(|op| !is_about_a_socket(*op)).collect();
    let headers = format!("idempotency-key: r\r\n{}", caller.headers);
    let mut answers = Vec::new();
    // The operators' port has sixteen connections, and others look at it meanwhile.
    for some in ops.chunks(8) {
        answers.extend(join_all(some.iter().map(|op| wire::post(from, to, op.name(), &headers, "[]"))).await);
    }
    for (op, told) in ops.iter().zip(answers) {
        let told = told.unwrap_or_else(|error| panic!("{}: {error}", op.name()));
        let expected = match (is_allowed(*op, &caller.role), &caller.token) {
            (true, _) => (400, 101),
            (false, None) => (401, 107),
            (false, Some(_)) => (403, 108),
        };
        let shown = caller.token.as_ref().map_or("nothing", |token| &token[..token.len().min(12)]);
        let words = format!("{} with the role {} that shows {shown}: {}", op.name(), caller.role, told.body);
        assert_eq!((told.status, told.code()), expected, "{words}");
    }
    // What the clients' port tells of itself is for those who report.
    if to == stage.address() {
        let request = format!("GET /metrics HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\n{}\r\n", caller.headers);
        let told = wire::exchange(from, to, &request).await.expect("an answer");
        let expected = if is_allowed(Op::AdminStatus, &caller.role) { 200 } else { 404 };
        assert_eq!(told.status, expected, "/metrics with the role {}", caller.role);
    }
}

/// The same over a WebSocket, with bodies that would be taken: what is not allowed changes nothing.
async fn each_op_by_socket(stage: &Stage, from: Ipv4Addr, caller: &Caller) {
    let connected = wire::port(from, stage.address(), Encoding::Json, caller.token.as_deref()).await;
    let port = connected.unwrap_or_else(|error| panic!("the role {} does not get in: {error}", caller.role));
    let expected = if caller.token.is_none() { (107, "unauthenticated") } else { (108, "forbidden") };
    for op in Op::ALL.into_iter().filter(|op| !is_allowed(*op, &caller.role)) {
        let body = schema::of(op).examples.first().cloned().unwrap_or_else(|| json!({}));
        port.ask(op.name(), "r", body).await.no(expected.0, expected.1);
    }
}

/// The things that only the house makes.
async fn things(stage: &Stage) -> Value {
    let audit = stage.audit().await;
    let counted = ["venues", "titles", "sessions", "products", "resources", "refunds"];
    json!(counted.map(|name| audit[name].clone()))
}

async fn every_op_for_every_role(stage: &Stage, stranger: &str, mut callers: Vec<Caller>) {
    callers.push(Caller::showing(stranger, None));
    callers.push(Caller::showing("admin", Some(ADMIN.into())));
    for role in ROLES {
        callers.push(Caller::showing(role, Some(tokens::key(stage, &format!("{role}-1"), role).await)));
    }
    let before = things(stage).await;
    for (number, caller) in (1..).zip(&callers) {
        let from = attacker(number);
        each_op_by_http(stage, stage.address(), from, caller).await;
        if caller.headers.matches("boxoffice-customer").count() == 0 {
            each_op_by_socket(stage, from, caller).await;
        }
        each_op_by_http(stage, stage.server.operators(), Ipv4Addr::LOCALHOST, caller).await;
    }
    assert_eq!(things(stage).await, before, "a refused op changed something");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_op_is_for_its_roles_as_it_is_shipped() {
    let stage = Stage::of_home("every_op_is_for_its_roles_as_it_is_shipped", Home::with_config(LOG)).await;
    every_op_for_every_role(&stage, "watch", Vec::new()).await;
    // Callers without credentials, or with the role `sell` only, may not record a payment.
    let sell = tokens::key(&stage, "till", "sell").await;
    let port = Port::show(stage.address(), Encoding::Json, Some(&sell)).await.expect("it gets in");
    let token = stage.dice.clone().token();
    port.ask("cart.hold_best", "1", json!({"token": token, "session": stage.theatre.session(), "count": 1})).await.ok();
    port.ask("cart.checkout", "2", crate::common::checkout(&token)).await.no(108, "forbidden");
    stage.server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_op_is_for_its_roles_where_all_is_open() {
    const OPEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/open.toml");
    let open = std::fs::read_to_string(OPEN).expect("a shipped configuration");
    let stage = Stage::of_home("every_op_is_for_its_roles_where_all_is_open", Home::with_config(&(open + LOG))).await;
    let siege = stage.siege("1 roles, open.toml", 20).await;
    every_op_for_every_role(&stage, "sell", Vec::new()).await;
    let sold = siege.end().await;
    stage.is_as_bought(sold).await;
    stage.server.stop();
}

/// The shop's configuration with its tokens.
pub(crate) fn with_tokens(shop: &Shop) -> String {
    SHOP.replace("[listen]\n", &format!("[listen]\n{}", shop.listen()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_op_is_for_its_roles_with_tokens() {
    let shop = Shop::new();
    let home = Home::with_config(&with_tokens(&shop));
    let stage = Stage::of_home("every_op_is_for_its_roles_with_tokens", home).await;
    let siege = stage.siege("1 roles, short-lived tokens", 20).await;
    let mut callers: Vec<Caller> = ["watch", "sell", "desk", "report"]
        .into_iter()
        .flat_map(|role| {
            [shop.eddsa(&good("ada", role)), tokens::shared(&good("ada", role))].map(|token| (role, token))
        })
        .map(|(role, token)| Caller::showing(role, Some(token)))
        .collect();
    // A customer's token says who it is, and gives no role.
    let headers = tokens::shows_customer("ada", &tokens::of_customer("ada"));
    callers.push(Caller { role: "sell".into(), token: None, headers });
    every_op_for_every_role(&stage, "sell", callers).await;
    let sold = siege.end().await;
    stage.is_as_bought(sold).await;
    stage.server.stop();
}

/// Credentials that do not fit are refused for every op and on every port, also for public ops.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_that_are_no_good_open_nothing() {
    let shop = Shop::new();
    let home = Home::with_config(&with_tokens(&shop));
    let stage = Stage::of_home("tokens_that_are_no_good_open_nothing", home).await;
    let siege = stage.siege("1 tokens that are no good", 20).await;
    let key = tokens::key(&stage, "till", "desk").await;
    let mut bad = shop.bad();
    bad.push(("a key with another secret", key.replace('x', "y")));
    bad.push(("a key without a secret", "bok.till.".into()));
    bad.push(("a key that there is not", key.replace("till", "tall")));
    bad.push(("another admin token", ADMIN.to_uppercase()));
    bad.push(("half an admin token", ADMIN[..8].into()));
    bad.push(("nothing at all", String::new()));
    for (number, (what, token)) in (1..).zip(&bad) {
        // Each from an address of its own: guesses of one are answered later and later.
        let from = attacker(number);
        let told = wire::post(from, stage.address(), "venue.get", &shows(Some(token)), "{\"id\":\"royal\"}").await;
        let told = told.expect("an answer");
        assert_eq!((told.status, told.code()), (401, 107), "a token {what}: {}", told.body);
        let upgrade = wire::upgrade(&shows(Some(token)));
        let told = wire::exchange(from, stage.address(), &upgrade).await.expect("an answer");
        assert_eq!(told.status, 401, "a token {what}");
        if token.is_empty() {
            continue;
        }
        let port = wire::guest(from, stage.address()).await;
        port.frame(json!({"op": "hello", "body": {"token": token}})).await.no(107, "unauthenticated");
        assert_eq!(port.closed().await, 4001, "a token {what}");
    }
    // Customers' tokens: another's, none, in capitals, too short.
    let ada = tokens::of_customer("ada");
    for (number, token) in
        (100..).zip([tokens::of_customer("bob"), ada.to_uppercase(), ada[..60].into(), String::new()])
    {
        let from = attacker(number);
        let headers = tokens::shows_customer("ada", &token);
        let told = wire::post(from, stage.address(), "venue.get", &headers, "{\"id\":\"royal\"}").await;
        assert_eq!(told.expect("an answer").code(), 107, "{token:?}");
        let port = wire::guest(from, stage.address()).await;
        let hello = json!({"op": "hello", "body": {"customer": "ada", "customer_token": token}});
        port.frame(hello).await.no(107, "unauthenticated");
        assert_eq!(port.closed().await, 4001);
    }
    // Right ones still open what they are for.
    for token in [shop.eddsa(&good("ada", "sell")), tokens::shared(&good("ada", "sell")), key] {
        let told =
            wire::post(attacker(1), stage.address(), "venue.get", &shows(Some(&token)), "{\"id\":\"royal\"}").await;
        assert_eq!(told.expect("an answer").status, 200);
    }
    assert!(stage.metric("boxoffice_edge_denied_total{reason=\"token\"}").await >= 3 * (bad.len() as u64 - 1));
    let sold = siege.end().await;
    stage.is_as_bought(sold).await;
    stage.server.stop();
}

/// A connection ends when its token does.
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
        assert!(begun.elapsed() < crate::common::PATIENCE, "it goes on without a token");
    }
    assert_eq!(port.closed().await, 4101);
    stage.server.stop();
}

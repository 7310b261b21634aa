//! Guesses of credentials: they are charged when they are looked at, take turns, and delay nobody with a right key.

use std::time::Duration;

use boxoffice_core::access::{Role, Roles};
use boxoffice_edge::{EdgeConfig, Limits, budgets::BudgetConfig};
use boxoffice_wire::{Encoding, Op};
use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::{
    http_client::HttpClient,
    server::common::{Client, TIMEOUT, TestServer, add_key, refused, request},
};

const TOKEN: &str = "open sesame, please, and quickly!";
const WRONG: &str = "open sesame, please, and quickly?";

/// Wrong credentials that are answered at once.
const FREE: u32 = 3;

fn guarded(step: Duration, config: EdgeConfig) -> TestServer {
    let limits = Limits { auth_failure_step: step, ..Limits::default() };
    TestServer::strict(EdgeConfig { admin_token: Some(TOKEN.into()), limits, ..config })
}

/// The status of a request with this key or token.
async fn asked(server: &TestServer, token: &str) -> u16 {
    let authorization = format!("Bearer {token}");
    let headers = [("authorization", authorization.as_str())];
    HttpClient::connect(server.clients).await.get("/v1/session.map?id=hamlet", &headers).await.status
}

/// Sends a request with this token, and closes after `wait`. Returns the status if one came before.
async fn asked_briefly(server: &TestServer, token: &str, wait: Duration) -> Option<u16> {
    timeout(wait, asked(server, token)).await.ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_further_guess_is_answered_later() {
    let step = Duration::from_millis(100);
    let server = guarded(step, EdgeConfig::default());
    let begun = Instant::now();
    for _ in 0..FREE + 2 {
        assert_eq!(asked(&server, WRONG).await, 401);
    }
    assert!(begun.elapsed() >= 3 * step, "the fourth waits a step, the fifth two");
    let mut client = Client::connect(server.clients, Encoding::Json).await;
    let begun = Instant::now();
    client.send(1, Op::Hello, json!({"token": WRONG})).await;
    assert_eq!(client.code().await, (Some(1), 107));
    assert!(begun.elapsed() >= 3 * step, "{:?}", begun.elapsed());
    assert_eq!(client.close_code().await, 4001);
    let authorization = format!("Bearer {WRONG}");
    let upgrade = request(server.clients, Encoding::Json.subprotocol(), &[("authorization", &authorization)]);
    let begun = Instant::now();
    assert_eq!(refused(upgrade).await, 401);
    assert!(begun.elapsed() >= 4 * step, "{:?}", begun.elapsed());
    assert_eq!(asked(&server, TOKEN).await, 200);
    assert_eq!(server.metric("boxoffice_edge_denied_total{reason=\"token\"}").await, 7.0);
}

/// In a network with failures. The time of its answer says nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_admin_token_waits_like_a_wrong_one() {
    let step = Duration::from_millis(200);
    for shows_in_hello in [false, true] {
        let server = guarded(step, EdgeConfig::default());
        for _ in 0..FREE {
            assert_eq!(asked(&server, WRONG).await, 401);
        }
        let begun = Instant::now();
        assert_eq!(asked(&server, WRONG).await, 401);
        let wrong = begun.elapsed();
        let begun = Instant::now();
        if shows_in_hello {
            let mut client = Client::connect(server.clients, Encoding::Json).await;
            client.send(1, Op::Hello, json!({"token": TOKEN})).await;
            // This one has the rights of the hello before it, so it waits as well.
            client.send(2, Op::AdminStatus, json!({})).await;
            assert_eq!((client.code().await, client.code().await), ((Some(1), 0), (Some(2), 0)));
        } else {
            assert_eq!(asked(&server, TOKEN).await, 200);
        }
        let right = begun.elapsed();
        assert!(right >= 2 * step && right >= wrong, "a right one after {right:?}, a wrong one after {wrong:?}");
        // From then on the network is known.
        let begun = Instant::now();
        for _ in 0..5 {
            assert_eq!(asked(&server, TOKEN).await, 200);
        }
        assert!(begun.elapsed() < 2 * step, "{:?}", begun.elapsed());
    }
}

/// On one connection one credential is looked at at a time, so a right token after many wrong ones is not found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_looks_at_one_hello_at_a_time() {
    let server = guarded(Duration::from_millis(400), EdgeConfig::default());
    for _ in 0..FREE {
        assert_eq!(asked(&server, WRONG).await, 401);
    }
    let mut client = Client::connect(server.clients, Encoding::Json).await;
    let begun = Instant::now();
    for number in 0..2_000 {
        client.send(number, Op::Hello, json!({"token": WRONG})).await;
    }
    client.send(2_000, Op::Hello, json!({"token": TOKEN})).await;
    assert_eq!(client.code().await, (Some(0), 107));
    assert!(begun.elapsed() >= Duration::from_millis(400), "the first was looked at alone");
    assert_eq!(client.close_code().await, 4001, "and ended the connection");
}

/// The bound holds whatever the number of connections, and for callers that close early.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_over_many_connections_take_turns() {
    let step = Duration::from_millis(100);
    let server = guarded(
        step,
        EdgeConfig {
            budgets: BudgetConfig { requests_per_second: 0, ..BudgetConfig::default() },
            ..EdgeConfig::default()
        },
    );
    let begun = Instant::now();
    let guesser = async |_: usize| {
        let (mut looked_at, mut limited) = (0, 0);
        while begun.elapsed() < Duration::from_secs(4) {
            match asked(&server, WRONG).await {
                401 => looked_at += 1,
                429 => {
                    limited += 1;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                other => panic!("a guess is answered {other}"),
            }
        }
        (looked_at, limited)
    };
    let counts = join_all((0..100).map(guesser)).await;
    let (looked_at, limited) = counts.into_iter().fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
    // The n-th delay is n steps, so the k-th guess after the free ones comes after k * (k + 1) / 2 steps.
    let steps = begun.elapsed().as_millis() / step.as_millis();
    let most = (1_u128..).take_while(|k| k * (k + 1) / 2 <= steps).count() + FREE as usize;
    println!("{looked_at} guesses over 100 connections in {:?}, {limited} not looked at", begun.elapsed());
    assert!((FREE as usize..=most).contains(&looked_at), "{looked_at} guesses, and {most} may be");
    assert!(limited > 100, "{limited} were told to wait");

    // Closing after a few milliseconds is charged all the same, so the right token at the end is not found.
    let server = guarded(Duration::from_secs(2), EdgeConfig::default());
    let brief = Duration::from_millis(20);
    for _ in 0..10 {
        join_all((0..10).map(|_| asked_briefly(&server, WRONG, brief))).await;
    }
    for _ in 0..20 {
        let found = asked_briefly(&server, TOKEN, 5 * brief).await;
        assert!(found.is_none_or(|status| status == 429), "found: {found:?}");
    }
}

/// A connection beyond its network's budget may show a key, and not guess for nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_over_connections_beyond_the_budget_take_turns() {
    let budgets = BudgetConfig { connections: 1, ..BudgetConfig::default() };
    let server = guarded(Duration::from_secs(1), EdgeConfig { budgets, ..EdgeConfig::default() });
    let mut guest = HttpClient::connect(server.clients).await;
    assert_eq!(guest.get("/v1/session.map?id=hamlet", &[]).await.status, 200);
    for _ in 0..FREE {
        assert_eq!(asked(&server, WRONG).await, 429, "too many connections");
    }
    let begun = Instant::now();
    assert_eq!(asked(&server, TOKEN).await, 200);
    assert!(begun.elapsed() >= Duration::from_secs(1), "the right one waits its turn: {:?}", begun.elapsed());
}

/// A pupil in the same building guesses. The till's key is answered at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_of_a_network_do_not_delay_its_keys() {
    let step = Duration::from_millis(400);
    let server = guarded(step, EdgeConfig::default());
    let till = add_key(&server, "till", Roles::of(Role::Desk));
    let pupil = async {
        for _ in 0..20 {
            join_all((0..50).map(|_| asked_briefly(&server, WRONG, Duration::from_millis(50)))).await;
        }
    };
    let sales = async {
        let mut waits = Vec::new();
        let begun = Instant::now();
        while waits.len() < 200 && begun.elapsed() < TIMEOUT {
            let begun = Instant::now();
            assert_eq!(asked(&server, &till).await, 200);
            waits.push(begun.elapsed());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        waits.sort_unstable();
        waits
    };
    let ((), waits) = tokio::join!(pupil, sales);
    let p99 = waits[waits.len() * 99 / 100];
    println!("the till beside 1 000 guesses: p50 {:?}, p99 {p99:?} of {}", waits[waits.len() / 2], waits.len());
    assert!(waits.len() >= 100 && p99 < step, "p99 {p99:?} of {} requests", waits.len());
}

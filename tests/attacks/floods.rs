//! Floods of connections at a node with few file descriptors, of carts, and of requests.

use std::{fs, net::SocketAddr, os::unix::fs::MetadataExt, path::Path, sync::Arc, time::Duration};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Instant, sleep, timeout},
};

use super::{
    stage::{SHOP, Stage},
    wire::{self, attacker},
};
use crate::common::{Answer, Encoding, Home, IdleClients, Port, Rng, eventually};

/// The shipped value of budgets.carts.
const CARTS: usize = 1_000;

/// One address connects as often as it can. The buyer reconnects for each purchase, and succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_connections_leaves_room_for_others() {
    let home = Home::with_config(SHOP);
    let command = home.limited_as_shipped(1_024);
    let stage = Stage::of_command("a_flood_of_connections_leaves_room_for_others", home, command).await;
    let run = stage.start_attack("4 connections of one address, 1 024 descriptors", 1).await;
    let clients = IdleClients::connect(stage.address(), 2_048);
    eventually("the flood is there", async || (clients.connections() > 1_500).then_some(())).await;
    run.wait().await;
    // Another client of that address gets a refusal with a time to retry.
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {}\r\n\r\n", stage.address());
    let reply = wire::exchange(std::net::Ipv4Addr::LOCALHOST, stage.address(), &request).await;
    if let Ok(reply) = reply {
        assert!(reply.status == 429 && reply.head.contains("retry-after"), "{reply:?}");
    }
    assert!(stage.metric("boxoffice_edge_over_budget_total{budget=\"connections\"}").await > 0);
    drop(clients);
    let sold = run.end().await;
    stage.has_sold_exactly(sold).await;
    stage.has_no_attackers().await;
    stage.server.stop();
}

/// Opens carts as fast as answers come. Returns the number of carts, and when the next one is allowed.
async fn open_carts(port: &Port, rng: &mut Rng, ttl_ms: u64, until: Instant) -> (usize, Option<u64>) {
    let (mut opened, mut retry) = (0, None);
    while Instant::now() < until {
        let token = rng.token();
        match port.ask_once("cart.open", &token, json!({"token": token, "ttl_ms": ttl_ms})).await {
            Answer::Ok(..) => opened += 1,
            Answer::No(no) => {
                assert_eq!((no.code, no.name.as_str()), (109, "rate_limited"), "{}", no.body);
                let after = no.body["retry_after_ms"].as_u64();
                assert!(after.is_some_and(|ms| (1..=1_800_000).contains(&ms)), "{}", no.body);
                retry = after;
                sleep(Duration::from_millis(5)).await;
            }
            Answer::Fail(901) => {}
            other => panic!("expected an opened cart or a refusal: {other:?}"),
        }
    }
    (opened, retry)
}

/// One address opens short-lived carts: up to a limit, and more once they have expired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_carts_is_bounded() {
    const LIFE_MS: u64 = 1_000;
    let stage = Stage::new("a_flood_of_carts_is_bounded", "[budgets]\ncarts = 100\n").await;
    let run = stage.start_attack("4 carts of one address", 20).await;
    let mut opening = Vec::new();
    // The carts outlive the attack, so none expires during the count.
    let until = Instant::now() + run.left();
    for number in 0..8 {
        let (address, mut rng) = (stage.address(), stage.rng.fork(100 + number));
        opening.push(tokio::spawn(async move {
            let port = wire::guest(attacker(1), address).await;
            open_carts(&port, &mut rng, 900_000, until).await
        }));
    }
    let (mut opened, mut refused) = (0, 0);
    for task in opening {
        let (carts, retry) = task.await.expect("an attacker");
        opened += carts;
        refused += usize::from(retry.is_some());
    }
    assert!(opened <= 100, "one address opened {opened} carts");
    assert!(refused > 0, "no cart was refused");
    // Expired carts make room for others.
    let (port, mut rng) = (wire::guest(attacker(2), stage.address()).await, stage.rng.fork(200));
    let (first, retry) = open_carts(&port, &mut rng, LIFE_MS, Instant::now() + Duration::from_millis(300)).await;
    assert!(first <= 100 && (retry.is_some() || first < 100), "{first} {retry:?}");
    eventually("carts that have ended count no longer", async || {
        let (again, _) = open_carts(&port, &mut rng, LIFE_MS, Instant::now() + Duration::from_millis(10)).await;
        (again > 0).then_some(())
    })
    .await;
    let sold = run.end().await;
    stage.has_sold_exactly(sold).await;
    stage.server.stop();
}

/// Disk usage of a directory, in bytes.
fn size_of(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    entries
        .map(|entry| match entry.metadata() {
            Ok(status) if status.is_dir() => size_of(&entry.path()),
            Ok(status) => status.blocks() * 512,
            // Files may disappear meanwhile.
            Err(_) => 0,
        })
        .sum()
}

/// Reconnects, after a close for too many requests, as soon as the node allows it.
async fn returns(address: SocketAddr) -> Port {
    eventually("the node accepts the connection", async || {
        wire::port(attacker(1), address, Encoding::Json, None).await.ok()
    })
    .await
}

/// Carts are opened and canceled repeatedly. Few are open at a time, but each is written to disk. The rate of requests bounds the
/// writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn carts_that_come_and_go_are_bounded_by_the_rate() {
    let stage = Stage::new("carts_that_come_and_go_are_bounded_by_the_rate", "").await;
    let run = stage.start_attack("4 carts opened and canceled", 20).await;
    let mut port = Arc::new(wire::guest(attacker(1), stage.address()).await);
    let (begun, mut ended, mut over, size) = (Instant::now(), 0_u64, 0_u64, size_of(&stage.home.data_dir()));
    let mut rng = stage.rng.fork(100);
    while !run.is_over() || over == 0 {
        if port.is_closed() {
            assert_eq!(port.closed().await, 4104, "too many requests");
            port = Arc::new(returns(stage.address()).await);
        }
        let one = |token: String| {
            let port = Arc::clone(&port);
            async move {
                let opened = port.ask_once("cart.open", "1", json!({"token": token})).await;
                let canceled = port.ask_once("cart.cancel", "2", json!({"token": token})).await;
                [opened, canceled]
            }
        };
        let tokens: Vec<String> = (0..64).map(|_| rng.token()).collect();
        for answer in futures_util::future::join_all(tokens.into_iter().map(one)).await.into_iter().flatten() {
            match answer {
                Answer::Ok(..) => ended += 1,
                Answer::No(no) if no.code == 109 => over += 1,
                Answer::No(no) => assert_eq!(no.code, 701, "{}", no.body),
                Answer::Fail(901) | Answer::Gone => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(60) + run.left(), "no limit bounds the rate of requests");
    }
    let rate = ended as f64 / begun.elapsed().as_secs_f64();
    let bytes = size_of(&stage.home.data_dir()).saturating_sub(size) / ended.max(1);
    println!(
        "attack | 4 carts opened and canceled: {rate:.0} changes a second of one address, {bytes} bytes on disk for each, {over} refused"
    );
    // A burst of five seconds, then 500 requests of the weight 10 a second. Each change weighs 6.
    assert!(ended <= (2_500 + 500 * (begun.elapsed().as_secs() + 2)) * 10 / 6, "{ended} changes");
    let sold = run.end().await;
    stage.has_sold_exactly(sold).await;
    stage.server.stop();
}

/// Sends these frames repeatedly until the connection is closed or the time is over. Returns the number of refusals, and whether
/// the node closed the connection for the flood.
async fn flood(address: SocketAddr, frames: &[u8], until: Instant) -> (usize, bool) {
    // The first byte of a close frame, and its code.
    const CLOSE: u8 = 0x88;
    const TOO_MANY_REQUESTS: [u8; 2] = 4_104_u16.to_be_bytes();
    let Ok(stream) = wire::raw_socket(attacker(1), address, None).await else {
        // The client reconnected too early.
        sleep(Duration::from_millis(20)).await;
        return (0, false);
    };
    let (mut reader, mut writer) = stream.into_split();
    let reading = tokio::spawn(async move {
        let (mut answers, mut limited) = (vec![0; 1 << 16], 0);
        while let Ok(Ok(read @ 1..)) = timeout(Duration::from_secs(10), reader.read(&mut answers)).await {
            let answers = &answers[..read];
            limited += String::from_utf8_lossy(answers).matches("\"retry_after_ms\"").count();
            if answers.windows(4).any(|bytes| bytes[0] == CLOSE && bytes[2..] == TOO_MANY_REQUESTS) {
                return (limited, true);
            }
        }
        (limited, false)
    });
    while Instant::now() < until && !reading.is_finished() && writer.write_all(frames).await.is_ok() {
        tokio::task::yield_now().await;
    }
    reading.await.expect("a reader")
}

/// One address floods the node with pipelined requests. Next to it the buyer asks slowly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_requests_is_refused_with_a_time_to_wait() {
    let stage = Stage::new("a_flood_of_requests_is_refused_with_a_time_to_wait", "").await;
    let run = stage.start_attack("4 requests of one address", 20).await;
    let session = stage.theatre.sessions[0].clone();
    let frames: Vec<u8> = (0..64)
        .flat_map(|id| wire::text(&json!({"id": id, "op": "session.get", "body": {"id": session}}).to_string()))
        .collect();
    let mut tasks = Vec::new();
    let left = run.left();
    for _ in 0..4 {
        let (address, frames) = (stage.address(), frames.clone());
        tasks.push(tokio::spawn(async move {
            let (mut limited, mut closed, until) = (0, 0, Instant::now() + left);
            while Instant::now() < until {
                let (refused, is_closed) = flood(address, &frames, until).await;
                (limited, closed) = (limited + refused, closed + u32::from(is_closed));
            }
            (limited, closed)
        }));
    }
    let (mut limited, mut closed) = (0, 0);
    for task in tasks {
        let (of_one, times) = task.await.expect("an attacker");
        (limited, closed) = (limited + of_one, closed + times);
    }
    println!("attack | 4 requests of one address: {limited} refused, {closed} connections closed");
    assert!(limited > 0, "nothing was refused");
    // Refusals cost time as well, so the node closes a connection that does not read.
    assert!(closed > 0, "{limited} refusals, and no connection was closed");
    assert!(stage.metric("boxoffice_edge_over_budget_total{budget=\"requests\"}").await > 0);
    let sold = run.end().await;
    stage.has_sold_exactly(sold).await;
    stage.server.stop();
}

/// The shipped configuration grants one address exactly its budget of carts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_has_as_many_carts_as_shipped() {
    let stage = Stage::new("one_address_has_as_many_carts_as_shipped", "").await;
    let port = Arc::new(wire::guest(attacker(1), stage.address()).await);
    let mut rng = stage.rng.fork(100);
    let tokens: Vec<String> = (0..CARTS + 200).map(|_| rng.token()).collect();
    let mut opened = 0;
    for some in tokens.chunks(100) {
        // A refused op on a cart does not free its place.
        let asked = some.iter().map(async |token| {
            let reply = port.ask("cart.open", token, json!({"token": token})).await;
            if matches!(reply, Answer::Ok(..)) {
                port.ask("cart.checkout", "c", crate::common::checkout(token)).await.no(304, "cart_empty");
            }
            reply
        });
        for answer in futures_util::future::join_all(asked).await {
            match answer {
                Answer::Ok(..) => opened += 1,
                other => drop(other.no(109, "rate_limited")),
            }
        }
    }
    assert_eq!(opened, CARTS);
    // Another address has its own budget.
    let token = rng.token();
    let other = wire::guest(attacker(2), stage.address()).await;
    other.ask("cart.open", &token, json!({"token": token})).await.ok();
    stage.server.stop();
}

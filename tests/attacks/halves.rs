//! Unfinished input: half frames, half heads, half bodies, bytes that trickle, unread answers, silence.

use std::{io, time::Duration};

use serde_json::json;
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{Instant, sleep},
};

use super::{
    stage::Stage,
    wire::{self, attacker},
};
use crate::common::eventually;

/// Half frames, from two addresses. Each claims the maximum length of an anonymous caller's frame.
const HALF_FRAMES: usize = 500;
const CLAIMED: u16 = 60_000;

/// Connections of each other kind.
const OTHERS: usize = 64;

async fn half_frame(from: u8, stage: &Stage) -> io::Result<TcpStream> {
    let mut stream = wire::raw_socket(attacker(from), stage.address(), None).await?;
    stream.write_all(&wire::frame(0x81, CLAIMED, &vec![b'['; usize::from(CLAIMED) / 2])).await?;
    Ok(stream)
}

async fn half_head(from: u8, stage: &Stage) -> io::Result<TcpStream> {
    let mut stream = wire::connect(attacker(from), stage.address()).await?;
    stream.write_all(b"POST /v1/cart.open HTTP/1.1\r\nhost: localhost\r\nx: ").await?;
    stream.write_all(&[b'y'; 4_096]).await?;
    Ok(stream)
}

async fn half_body(from: u8, stage: &Stage) -> io::Result<TcpStream> {
    let mut stream = wire::connect(attacker(from), stage.address()).await?;
    let head = "POST /v1/cart.open HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 60000\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&[b' '; 30_000]).await?;
    Ok(stream)
}

async fn silence(from: u8, stage: &Stage) -> io::Result<TcpStream> {
    wire::connect(attacker(from), stage.address()).await
}

/// Watches the session on sale and requests its map repeatedly, but reads nothing.
async fn slow_reader(from: u8, stage: &Stage) -> io::Result<TcpStream> {
    let mut stream = wire::raw_socket(attacker(from), stage.address(), Some(2_048)).await?;
    let session = stage.theatre.session();
    let watch = json!({"id": 1, "op": "watch", "body": {"entity": format!("session/{session}")}});
    stream.write_all(&wire::text(&watch.to_string())).await?;
    let map = wire::text(&json!({"id": 2, "op": "session.map", "body": {"id": session}}).to_string());
    for _ in 0..100 {
        stream.write_all(&map).await?;
    }
    Ok(stream)
}

/// Sends one byte at a time, for ever: of a head, or of a frame.
async fn trickle(mut stream: TcpStream) {
    while stream.write_all(b"z").await.is_ok() {
        sleep(Duration::from_millis(250)).await;
    }
}

/// Thirteen hundred unfinished connections. The node closes each in time, and waits for none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_input_is_closed_in_time() {
    let stage = Stage::new("unfinished_input_is_closed_in_time", "").await;
    rustix::process::setrlimit(rustix::process::Resource::Nofile, {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        rustix::process::Rlimit { current: limit.maximum, ..limit }
    })
    .expect("a limit that can be raised");
    let run = stage.start_attack("5 half frames, heads, bodies; trickles; slow readers; silence", 1).await;
    let begun = Instant::now();
    let mut all = Vec::new();
    for number in 0..2 * HALF_FRAMES {
        all.push(half_frame(1 + (number % 2) as u8, &stage).await.expect("half a frame"));
    }
    let mut trickles = Vec::new();
    for number in 0..OTHERS {
        all.push(half_head(3, &stage).await.expect("half a head"));
        all.push(half_body(4, &stage).await.expect("half a body"));
        all.push(silence(5, &stage).await.expect("silence"));
        // Each from an address of its own, because a network may read few maps.
        all.push(slow_reader(100 + number as u8, &stage).await.expect("a reader"));
        trickles.push(tokio::spawn(trickle(half_head(7, &stage).await.expect("half a head"))));
        trickles.push(tokio::spawn(trickle(half_frame(8, &stage).await.expect("half a frame"))));
    }
    println!("attack | 5 {} connections after {:.1} s", all.len() + trickles.len(), begun.elapsed().as_secs_f64());
    // The clients keep all connections open. The node closes them.
    eventually("every idle connection is closed", async || {
        (stage.metric("boxoffice_edge_connections").await < 50).then_some(())
    })
    .await;
    for task in trickles {
        task.await.expect("a write fails in the end");
    }
    assert!(stage.metric("boxoffice_edge_slow_readers_total").await > 0, "no connection was closed for not reading");
    drop(all);
    run.wait().await;
    let sold = run.end().await;
    stage.has_sold_exactly(sold).await;
    stage.has_no_attackers().await;
    stage.server.stop();
}

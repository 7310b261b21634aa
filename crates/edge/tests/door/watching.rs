//! Watching: a snapshot, then deltas, on the runtime of the watchers, beside everything else.

use crate::common::{Client, Door, in_both, token};
use boxoffice_edge::Limits;
use boxoffice_wire::{
    Encoding, Op,
    reply::{Event, Reply, Watching},
};
use serde_json::json;

async fn watch(client: &mut Client, id: u64, body: serde_json::Value) -> u64 {
    client.send(id, Op::Watch, body).await;
    match client.answer::<Watching>().await {
        (Some(answered), Reply::Ok(Watching { feed }, _)) if answered == id => feed,
        other => panic!("{other:?}"),
    }
}

async fn delta(client: &mut Client) -> (u64, u64, u64, Vec<u32>) {
    match client.event().await {
        (feed, Event::Delta(delta)) => {
            (feed, delta.from, delta.to, delta.changes.iter().map(|(seat, _)| *seat).collect())
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_then_every_change() {
    in_both(|encoding| async move {
        let door = Door::open(Limits::default());
        let mut client = Client::connect(door.address, encoding).await;
        // A request before and one after: the connection moves with both under way.
        client.send(1, Op::CartGet, json!({"token": token(1)})).await;
        let feed = watch(&mut client, 2, json!({"entity": "session/hamlet"})).await;
        let Event::Snapshot(snapshot) = client.event().await.1 else { panic!("no snapshot") };
        assert_eq!((snapshot.version, snapshot.counts.free, snapshot.seats.len()), (5, 1_000, 250));
        client.is_alive().await;
        door.node.sell(&[3, 4]);
        assert_eq!(delta(&mut client).await, (feed, 5, 6, vec![3, 4]));
        door.node.sell(&[999]);
        assert_eq!(delta(&mut client).await, (feed, 6, 7, vec![999]));
        let reply = door.node.waiting.lock().pop().expect("it reached the node");
        reply.answer(Ok(Ok(crate::common::opened(crate::common::cart(1)))));
        assert_eq!(client.code().await, (Some(1), 0), "asked on one runtime, answered on the other");
        assert_eq!(*door.node.theatre.threads.lock(), ["watching"]);
        // Others get the same number, and may go on from a version.
        let mut other = Client::connect(door.address, encoding).await;
        let resume = json!({"entity": "session/hamlet", "resume": {"epoch": 0, "version": 7}});
        assert_eq!(watch(&mut other, 1, resume).await, feed);
        door.node.sell(&[500]);
        assert_eq!(delta(&mut other).await, (feed, 7, 8, vec![500]));
        assert_eq!(delta(&mut client).await, (feed, 7, 8, vec![500]));
        assert_eq!(door.metric("boxoffice_edge_watchers").await, 2.0);
        client.send(9, Op::Unwatch, json!({"feed": feed})).await;
        assert_eq!(client.code().await, (Some(9), 0));
        client.send(10, Op::Unwatch, json!({"feed": feed})).await;
        assert_eq!(client.code().await, (Some(10), 701));
        door.node.sell(&[501]);
        assert_eq!(delta(&mut other).await, (feed, 8, 9, vec![501]));
        client.is_alive().await;
        drop(other);
        door.metric_is("boxoffice_edge_watchers", 0.0).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_not_there_is_not_watched() {
    let door = Door::open(Limits { feeds_max: 1, ..Limits::default() });
    let mut client = Client::connect(door.address, Encoding::Json).await;
    client.send(1, Op::Watch, json!({"entity": "session/lear"})).await;
    assert_eq!(client.code().await, (Some(1), 701));
    client.send(2, Op::Watch, json!({"entity": "cart/00000000000000000000000000000001"})).await;
    assert_eq!(client.code().await, (Some(2), 101));
    watch(&mut client, 3, json!({"entity": "session/hamlet"})).await;
    assert!(matches!(client.event().await.1, Event::Snapshot(_)));
    client.send(4, Op::Watch, json!({"entity": "session/macbeth"})).await;
    assert_eq!(client.code().await, (Some(4), 109), "one feed and no more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_watchers_see_every_sale() {
    let door = Door::open(Limits::default());
    let mut clients = Vec::new();
    for number in 0..200 {
        let mut client = Client::connect(door.address, Encoding::ALL[number % 2]).await;
        watch(&mut client, 1, json!({"entity": "session/hamlet"})).await;
        assert!(matches!(client.event().await.1, Event::Snapshot(_)));
        clients.push(client);
    }
    for seat in 0..20 {
        door.node.sell(&[seat]);
    }
    for client in &mut clients {
        let mut version = 5;
        while version < 25 {
            let (_, from, to, _) = delta(client).await;
            assert_eq!(from, version, "no gap");
            version = to;
        }
    }
    drop(clients);
    door.metric_is("boxoffice_edge_connections", 1.0).await;
    assert_eq!(door.metric("boxoffice_edge_feed_frames_total").await, 200.0 * 21.0);
}

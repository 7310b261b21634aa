//! Watches: a snapshot, then deltas, in the runtime for watching.

use std::time::Duration;

use crate::server::common::{Client, Received, TestServer, in_both, token};
use boxoffice_core::{
    answer::{self, Answer, Purchase},
    id::{Entity, Id, OrderId},
    money::{Currency, Money},
    seat::SeatState,
    time::Timestamp,
};
use boxoffice_edge::Limits;
use boxoffice_feeds::FeedUpdate;
use boxoffice_wire::{
    Encoding, Op,
    feed::{CartSnapshot, CountsSnapshot, PurchasesSnapshot, Snapshot},
    reply::{CountsWatching, Event, Reply, ServerFrame, SessionFeed, Watching},
    view::{self, CartState},
};
use serde_json::json;

pub(crate) async fn watch(client: &mut Client, id: u64, body: serde_json::Value) -> u64 {
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
        let server = TestServer::open(Limits::default());
        let mut client = Client::connect(server.address, encoding).await;
        // The connection moves to the other runtime with a request before and one after the move under way.
        client.send(1, Op::CartGet, json!({"token": token(1)})).await;
        let feed = watch(&mut client, 2, json!({"entity": "session/hamlet"})).await;
        let Event::Snapshot(snapshot) = client.event().await.1 else { panic!("no snapshot") };
        assert_eq!((snapshot.version, snapshot.counts.free, snapshot.seats.len()), (5, 1_000, 250));
        client.is_alive().await;
        server.node.sell(&[3, 4]);
        assert_eq!(delta(&mut client).await, (feed, 5, 6, vec![3, 4]));
        server.node.sell(&[999]);
        assert_eq!(delta(&mut client).await, (feed, 6, 7, vec![999]));
        let reply = server.node.waiting.lock().pop().expect("it reached the node");
        reply.answer(Ok(Ok(crate::server::common::opened(crate::server::common::cart(1)))));
        assert_eq!(client.code().await, (Some(1), 0), "asked on one runtime, answered on the other");
        assert_eq!(*server.node.theatre.threads.lock(), ["watching"]);
        // Other watches get the same version, and may resume from one.
        let mut other = Client::connect(server.address, encoding).await;
        let resume = json!({"entity": "session/hamlet", "resume": {"epoch": 0, "version": 7}});
        assert_eq!(watch(&mut other, 1, resume).await, feed);
        server.node.sell(&[500]);
        assert_eq!(delta(&mut other).await, (feed, 7, 8, vec![500]));
        assert_eq!(delta(&mut client).await, (feed, 7, 8, vec![500]));
        assert_eq!(server.metric("boxoffice_edge_watchers").await, 2.0);
        client.send(9, Op::Unwatch, json!({"feed": feed})).await;
        assert_eq!(client.code().await, (Some(9), 0));
        client.send(10, Op::Unwatch, json!({"feed": feed})).await;
        assert_eq!(client.code().await, (Some(10), 701));
        server.node.sell(&[501]);
        assert_eq!(delta(&mut other).await, (feed, 8, 9, vec![501]));
        client.is_alive().await;
        drop(other);
        server.metric_is("boxoffice_edge_watchers", 0.0).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_session_is_not_watched() {
    let server = TestServer::open(Limits { feeds_max: 1, ..Limits::default() });
    let mut client = Client::connect(server.address, Encoding::Json).await;
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
async fn a_cart_is_watched_by_its_owner_until_it_ends() {
    in_both(|encoding| async move {
        let server = TestServer::open(Limits::default());
        let mut client = Client::connect(server.address, encoding).await;
        let entity = format!("cart/{}", crate::server::common::cart(1));
        client.send(1, Op::Watch, json!({"entity": entity, "token": token(2)})).await;
        assert_eq!(client.code().await, (Some(1), 305), "the token of another cart");
        let feed = watch(&mut client, 2, json!({"entity": entity, "token": token(1)})).await;
        let (of, Event::Snapshot(snapshot)) = client.event_of::<CartSnapshot>().await else { panic!("no snapshot") };
        assert_eq!((of, snapshot.version, snapshot.cart.state), (feed, 1, CartState::Active));
        let Answer::Cart(opened) = crate::server::common::opened(crate::server::common::cart(1)).answer else {
            panic!("a cart")
        };
        let ended = Box::new(answer::CartView { state: answer::CartState::Expired, ..opened });
        server.node.publish(Entity::Cart(crate::server::common::cart(1)), 1, FeedUpdate::Cart(ended.clone()));
        let (_, Event::Delta(delta)) = client.event_of::<CartSnapshot>().await else { panic!("no delta") };
        assert_eq!((delta.from, delta.to, &delta.cart), (1, 2, &view::CartView::from(&*ended)));
        let (of, Event::Ended(end)) = client.event_of::<CartSnapshot>().await else { panic!("no end") };
        assert_eq!((of, end.name.as_str()), (feed, "cart_expired"));
        client.send(3, Op::Unwatch, json!({"feed": feed})).await;
        assert_eq!(client.code().await, (Some(3), 701), "the cart has ended");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purchase_is_pushed() {
    in_both(|encoding| async move {
        let server = TestServer::open(Limits::default());
        let mut client = Client::connect(server.address, encoding).await;
        client.send(1, Op::Watch, json!({"entity": "customer/ada", "resume": {"epoch": 0, "version": 0}})).await;
        assert_eq!(client.code().await, (Some(1), 101), "a customer has a cursor");
        let feed = watch(&mut client, 2, json!({"entity": "customer/ada"})).await;
        let (of, Event::Snapshot(none)) = client.event_of::<PurchasesSnapshot>().await else { panic!("no snapshot") };
        assert_eq!((of, none.from, none.to, none.purchases.len()), (feed, 0, 0, 0));
        let total = Money { amount: 1_000, currency: Currency::new("EUR").expect("a currency") };
        let bought = Purchase { cursor: 1, order: OrderId(7), at: Timestamp(9), total, zone: None, items: Vec::new() };
        let ada = Entity::Customer(crate::server::common::id("ada"));
        server.node.publish(ada.clone(), 0, FeedUpdate::Purchases(vec![bought.clone()]));
        let (_, Event::Delta(delta)) = client.event_of::<PurchasesSnapshot>().await else { panic!("no delta") };
        assert_eq!((delta.from, delta.to, &delta.purchases[..]), (0, 1, &[bought.clone().into()][..]));
        // Another connection resumes after the first.
        let mut other = Client::connect(server.address, encoding).await;
        watch(&mut other, 1, json!({"entity": "customer/ada", "resume": {"cursor": 1}})).await;
        let second = Purchase { cursor: 2, ..bought };
        server.node.publish(ada, 1, FeedUpdate::Purchases(vec![second.clone()]));
        for client in [&mut client, &mut other] {
            let (_, Event::Delta(delta)) = client.event_of::<PurchasesSnapshot>().await else { panic!("no delta") };
            assert_eq!((delta.from, delta.to, &delta.purchases[..]), (1, 2, &[second.clone().into()][..]));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_watchers_see_every_sale() {
    let server = TestServer::open(Limits::default());
    let mut clients = Vec::new();
    for number in 0..200 {
        let mut client = Client::connect(server.address, Encoding::ALL[number % 2]).await;
        watch(&mut client, 1, json!({"entity": "session/hamlet"})).await;
        assert!(matches!(client.event().await.1, Event::Snapshot(_)));
        clients.push(client);
    }
    for seat in 0..20 {
        server.node.sell(&[seat]);
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
    server.metric_is("boxoffice_edge_connections", 1.0).await;
    assert_eq!(server.metric("boxoffice_edge_feed_frames_total").await, 200.0 * 21.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_counts_of_a_list_of_sessions() {
    in_both(|encoding| async move {
        let server = TestServer::open(Limits { feeds_max: 4, ..Limits::default() });
        let mut client = Client::connect(server.address, encoding).await;
        client.send(1, Op::Watch, json!({"sessions": ["hamlet", "lear", "hamlet"]})).await;
        let (Some(1), Reply::Ok(listed, _)) = client.answer::<CountsWatching>().await else { panic!("no list") };
        let [SessionFeed { session, feed }] = &listed.feeds[..] else { panic!("{listed:?}") };
        assert_eq!((session.as_str(), listed.missing[0].as_str()), ("hamlet", "lear"));
        assert_eq!((listed.missing.len(), &listed.unreachable[..]), (1, &[][..]));
        let (response, Event::Snapshot(snapshot)) = client.event_of::<CountsSnapshot>().await else {
            panic!("no snapshot")
        };
        assert_eq!((response, snapshot.version, snapshot.counts.free), (*feed, 5, 1_000));
        // The whole map is another feed on the same connection.
        let whole = watch(&mut client, 2, json!({"entity": "session/hamlet"})).await;
        assert_ne!(whole, *feed);
        let Event::Snapshot(_) = client.event().await.1 else { panic!("no snapshot") };
        server.node.sell(&[3, 4]);
        for _ in 0..2 {
            let frame = client.frame().await;
            let Ok(ServerFrame::Feed(response, event)) = ServerFrame::read(encoding, &frame) else {
                panic!("{frame:?}")
            };
            match response == whole {
                true => assert!(matches!(event.read::<Snapshot>(encoding), Ok(Event::Delta(delta)) if delta.to == 6)),
                false => {
                    let Ok(Event::Delta(delta)) = event.read::<CountsSnapshot>(encoding) else { panic!("no delta") };
                    assert_eq!((response, delta.from, delta.to), (*feed, 5, 6));
                    assert_eq!((delta.counts.free, delta.counts.sold), (998, 2));
                }
            }
        }
        client.send(3, Op::Unwatch, json!({"feed": feed})).await;
        assert_eq!(client.code().await, (Some(3), 0));
        client.send(4, Op::Watch, json!({"sessions": ["a", "b", "c", "d"]})).await;
        assert_eq!(client.code().await, (Some(4), 109), "more than a connection may have");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_watches_count_as_feeds() {
    in_both(|encoding| async move {
        let server = TestServer::open(Limits { feeds_max: 4, ..Limits::default() });
        let mut client = Client::connect(server.address, encoding).await;
        for id in 1..=6 {
            client.send(id, Op::Watch, json!({"entity": "session/elsewhere"})).await;
        }
        // Four wait for the other node. The rest is refused at once.
        assert_eq!(client.code().await, (Some(5), 109));
        assert_eq!(client.code().await, (Some(6), 109));
        client.is_alive().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_that_does_not_read_is_disconnected_and_delays_no_other() {
    in_both(|encoding| async move {
        let server = TestServer::open(Limits { stall_timeout: Duration::from_millis(300), ..Limits::default() });
        let mut reader = Client::connect(server.address, encoding).await;
        let mut slow = Client::connect(server.address, encoding).await;
        for client in [&mut reader, &mut slow] {
            watch(client, 1, json!({"entity": "session/hamlet"})).await;
            assert!(matches!(client.event().await.1, Event::Snapshot(_)));
        }
        // Some kilobytes each time, until the kernel buffers no more for the client that does not read.
        let test_node: Vec<_> = (0..1_000).map(|seat| (seat, SeatState::Sold)).collect();
        let hamlet = Entity::Session(Id::new("hamlet").expect("an id"));
        let mut version = 5;
        while server.metric("boxoffice_edge_slow_readers_total").await == 0.0 {
            assert!(version < 20_000, "the watcher should have been disconnected");
            for _ in 0..20 {
                let news = FeedUpdate::Session { seats: test_node.clone(), areas: Vec::new(), sale: None };
                server.node.publish(hamlet.clone(), version, news);
                let (_, from, to, _) = delta(&mut reader).await;
                assert_eq!((from, to), (version, version + 1), "a reading watcher gets every version");
                version = to;
            }
        }
        server.metric_is("boxoffice_edge_sockets", 1.0).await;
        // Everything written before arrives without a gap, and then the end.
        let mut seen = 5;
        let end = loop {
            let frame = match slow.next().await {
                Received::Frame(frame) => frame,
                end => break end,
            };
            let Ok(ServerFrame::Feed(_, event)) = ServerFrame::read(encoding, &frame) else { panic!("{frame:?}") };
            match event.read::<Snapshot>(encoding).expect("readable") {
                Event::Delta(delta) => {
                    assert_eq!(delta.from, seen, "a gap");
                    seen = delta.to;
                }
                Event::Snapshot(snapshot) => {
                    assert!(snapshot.version > seen);
                    seen = snapshot.version;
                }
                other => panic!("{other:?}"),
            }
        };
        assert!(matches!(end, Received::Closed(4106, _) | Received::Broken), "{end:?}");
        assert!(seen < version, "the slow watcher got all versions up to {seen}");
        reader.is_alive().await;
    })
    .await;
}

//! Many requests under way. Each is answered once, by its deadline.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    http_client::HttpClient,
    server::common::{Client, TIMEOUT, TestServer, cart, in_both, opened, token},
};
use boxoffice_core::{
    answer,
    id::{Request, RequestHash},
    refusal::Refusal,
};
use boxoffice_edge::Limits;
use boxoffice_wire::{
    Encoding, FailKind, Op,
    cluster::ShardMap,
    reply::{Leader, Reply, ServerFrame},
    status::{NodeAudit, NodeStatus},
    view::{At, CartView, MapView},
};
use futures_util::SinkExt;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ok_has_the_versions_that_it_rests_on() {
    in_both(|encoding| async move {
        let server = TestServer::open(Limits::default());
        let mut client = Client::connect(server.address, encoding).await;
        client.send(7, Op::CartOpen, json!({"token": token(1)})).await;
        let (id, reply) = client.answer::<CartView>().await;
        let Reply::Ok(view, at) = reply else { panic!("{reply:?}") };
        assert_eq!((id, view.id), (Some(7), cart(1)));
        let at: Vec<answer::At> =
            at.into_iter().map(|At { entity, version, position }| answer::At { entity, version, position }).collect();
        assert_eq!(at, opened(cart(1)).at);
        client.send(8, Op::SessionMap, json!({"id": "hamlet"})).await;
        let (_, reply) = client.answer::<MapView>().await;
        let Reply::Ok(map, _) = reply else { panic!("{reply:?}") };
        assert_eq!((map.version, map.seats.len()), (5, 250));
        client
            .send(
                9,
                Op::CartCheckout,
                json!({"token": token(1), "payment": {"recorded": {"method": "cash", "transaction_id": "1"}}}),
            )
            .await;
        assert_eq!(client.code().await, (Some(9), FailKind::ReadOnly.code()));
        // The request id reaches the node with changes only.
        let keys = server.node.keys.lock().clone();
        let is = |key: &Option<Request>, rid: &str| key.is_some_and(|key| key.id == RequestHash::of(rid));
        assert!(is(&keys[0], "r7") && keys[1].is_none() && is(&keys[2], "r9"), "{keys:?}");
        assert_eq!(server.metric("boxoffice_edge_requests_total{op=\"cart.open\",outcome=\"ok\"}").await, 1.0);
        assert_eq!(server.metric("boxoffice_edge_requests_total{op=\"cart.checkout\",outcome=\"fail\"}").await, 1.0);
        assert_eq!(server.metric("boxoffice_edge_request_duration_seconds_count").await, 3.0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_requests_in_one_go_are_each_answered_once() {
    in_both(|encoding| async move {
        let server = TestServer::open(Limits { requests_under_way_max: 10_000, ..Limits::default() });
        let mut client = Client::connect(server.address, encoding).await;
        for id in 0..1_000 {
            let frame = client.request(id, Op::CartOpen, Some("r"), None, &json!({"token": token(u128::from(id))}));
            let message = client.message(&frame);
            client.socket.feed(message).await.expect("fed");
        }
        client.socket.flush().await.expect("sent");
        let mut answered = BTreeSet::new();
        for _ in 0..1_000 {
            let (id, reply) = client.answer::<CartView>().await;
            let id = id.expect("an id");
            let Reply::Ok(view, _) = reply else { panic!("{reply:?}") };
            assert_eq!(view.id, cart(u128::from(id)), "the answer of its own request");
            assert!(answered.insert(id), "{id} was answered twice");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deadline_is_kept_and_a_late_answer_is_dropped() {
    let server = TestServer::open(Limits::default());
    let mut client = Client::connect(server.address, Encoding::Json).await;
    let ask = |client: &Client, id, deadline_ms| {
        client.request(id, Op::CartGet, None, Some(deadline_ms), &json!({"token": token(1)}))
    };
    let begun = tokio::time::Instant::now();
    for (id, deadline_ms) in [(1, 5_000), (2, 150), (3, 50)] {
        let frame = ask(&client, id, deadline_ms);
        client.send_frame(&frame).await;
    }
    assert_eq!(client.code().await, (Some(3), 902));
    assert_eq!(client.code().await, (Some(2), 902));
    assert!(begun.elapsed() >= Duration::from_millis(150), "not before the deadline");
    assert!(begun.elapsed() < Duration::from_millis(4_000), "not with the longest one");
    // The node answers all of them now. Only the first has not timed out.
    let waiting = std::mem::take(&mut *server.node.waiting.lock());
    assert_eq!(waiting.len(), 3);
    for reply in waiting.into_iter().rev() {
        reply.answer(Ok(Ok(opened(cart(1)))));
    }
    assert_eq!(client.code().await, (Some(1), 0));
    client.is_alive().await;
    // A dropped command gets no answer.
    client.send(4, Op::CartCancel, json!({"token": token(1)})).await;
    assert_eq!(client.code().await, (Some(4), 902));
    server.metric_is("boxoffice_edge_requests_under_way", 0.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_is_told_how_long_the_buyer_will_be_there() {
    for encoding in Encoding::ALL {
        let server = TestServer::open(Limits::default());
        let mut client = Client::connect(server.address, encoding).await;
        let frame = |patience: Value| {
            let body = json!({"token": token(1)});
            json!({"id": 1, "op": "cart.get", "deadline_ms": 60, "patience_ms": patience, "body": body})
        };
        // Left out, shorter than the deadline, longer, and too long for any bound.
        let cases = [(Value::Null, 60), (json!(7), 60), (json!(300_000), 300_000), (json!(u64::MAX), u64::MAX)];
        for (patience, expected) in cases {
            client.send_frame(&client.encoded(&frame(patience.clone()))).await;
            assert_eq!(client.code().await, (Some(1), 902));
            let reply = server.node.waiting.lock().pop().expect("the node has it");
            assert_eq!((reply.timeout_ms(), reply.patience_ms()), (60, expected), "{patience}");
        }
        let mut http_client = HttpClient::connect(server.address).await;
        let headers = [("boxoffice-deadline-ms", "60"), ("boxoffice-patience-ms", "300000")];
        let body = format!("{{\"token\":\"{}\"}}", token(1));
        assert_eq!(http_client.post("/v1/cart.get", &headers, &body).await.code(), 902);
        let reply = server.node.waiting.lock().pop().expect("the node has it");
        assert!((299_900..=300_000).contains(&reply.patience_ms()), "{}", reply.patience_ms());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_under_way_than_allowed_is_busy() {
    let server = TestServer::open(Limits { requests_under_way_max: 8, ..Limits::default() });
    let mut client = Client::connect(server.address, Encoding::MsgPack).await;
    for id in 0..10 {
        client.send(id, Op::CartGet, json!({"token": token(1)})).await;
    }
    assert_eq!(client.code().await, (Some(8), 901));
    assert_eq!(client.code().await, (Some(9), 901));
    let waiting = std::mem::take(&mut *server.node.waiting.lock());
    assert_eq!(waiting.len(), 8);
    for reply in waiting {
        reply.answer(Ok(Ok(opened(cart(1)))));
    }
    for id in 0..8 {
        assert_eq!(client.code().await, (Some(id), 0));
    }
    client.is_alive().await;
}

/// Also with other requests under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_one_cart_happen_in_order() {
    let server = TestServer::open(Limits::default());
    let mut client = Client::connect(server.address, Encoding::Json).await;
    let release = |cart: u128, line: u32| json!({"cart": format!("{:032x}", self::cart(cart).0), "line": line});
    client.send(1, Op::AdminRelease, release(1, 1)).await;
    client.send(2, Op::AdminRelease, release(1, 2)).await;
    client.send(3, Op::AdminRelease, release(2, 3)).await;
    // It times out in the queue and is never submitted.
    let late = client.request(4, Op::AdminRelease, Some("late"), Some(50), &release(1, 4));
    client.send_frame(&late).await;
    client.send(5, Op::AdminRelease, release(1, 5)).await;
    assert_eq!(client.code().await, (Some(4), 902));
    assert_eq!(*server.node.log.lock(), ["revoke 1", "revoke 3"]);
    let answer_one = || {
        let reply = server.node.waiting.lock().remove(0);
        reply.answer(Ok(Ok(opened(cart(1)))));
    };
    for (id, log) in [(1, "revoke 2"), (3, "revoke 2"), (2, "revoke 5"), (5, "revoke 5")] {
        answer_one();
        assert_eq!(client.code().await, (Some(id), 0));
        client.is_alive().await;
        assert_eq!(server.node.log.lock().last().map(String::as_str), Some(log));
    }
    server.metric_is("boxoffice_edge_requests_under_way", 0.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_goes_in_waves() {
    in_both(|encoding| async move {
        let server = TestServer::open(Limits::default());
        let mut client = Client::connect(server.address, encoding).await;
        let venue =
            |n: u32| json!({"op": "venue.put", "rid": format!("v{n}"), "body": {"id": format!("v{n}"), "name": "V"}});
        let get = json!({"op": "venue.get", "body": {"id": "v1"}});
        let unknown = json!({"op": "venue.burn", "rid": "x"});
        let no_rid = json!({"op": "venue.put", "body": {"id": "v1", "name": "V"}});
        let map = json!({"op": "session.map", "body": {"id": "hamlet"}});
        let items = json!([venue(1), venue(2), unknown, venue(3), get, map, no_rid, venue(4)]);
        client.send(5, Op::Batch, json!({"items": items})).await;
        let (id, reply) = client.answer::<Vec<Reply<()>>>().await;
        let Reply::Ok(items, _) = reply else { panic!("{reply:?}") };
        let codes: Vec<u16> = items
            .iter()
            .map(|item| match item {
                Reply::Ok((), _) => 0,
                Reply::No(no) => no.code,
                Reply::Fail(fail) => fail.kind.code(),
            })
            .collect();
        assert_eq!((id, codes), (Some(5), vec![0, 0, 102, 0, 0, 0, 104, 0]));
        let log = server.node.log.lock().join(", ");
        let wave = "venue begins, venue begins, venue begins, venue ends, venue ends, venue ends";
        assert_eq!(log, format!("{wave}, get begins, get ends, venue begins, venue ends"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_bounded_in_items_and_time() {
    let server = TestServer::open(Limits::default());
    let mut client = Client::connect(server.address, Encoding::MsgPack).await;
    let get = json!({"op": "venue.get", "body": {"id": "v"}});
    client.send(1, Op::Batch, json!({"items": vec![get.clone(); 1_000]})).await;
    let (_, reply) = client.answer::<Vec<Reply<()>>>().await;
    let Reply::Ok(items, _) = reply else { panic!("{reply:?}") };
    assert!(items.len() == 1_000 && items.iter().all(|item| matches!(item, Reply::Ok((), _))));
    client.send(2, Op::Batch, json!({"items": vec![get.clone(); 1_001]})).await;
    assert_eq!(client.code().await, (Some(2), 103));
    client.send(3, Op::Batch, json!({"items": []})).await;
    assert_eq!(client.code().await, (Some(3), 101));
    // The second wave is never answered, so the third never begins.
    let wait = json!({"op": "cart.get", "body": {"token": token(1)}});
    let items = json!([get, wait, get]);
    let frame = client.request(4, Op::Batch, None, Some(100), &json!({"items": items}));
    client.send_frame(&frame).await;
    let (_, reply) = client.answer::<Vec<Reply<()>>>().await;
    let Reply::Ok(items, _) = reply else { panic!("{reply:?}") };
    let kinds: Vec<Option<FailKind>> = items
        .iter()
        .map(|item| match item {
            Reply::Ok((), _) => None,
            Reply::No(no) => panic!("{no}"),
            Reply::Fail(fail) => Some(fail.kind),
        })
        .collect();
    assert_eq!(kinds, [None, Some(FailKind::Unknown), Some(FailKind::Busy)]);
    for id in 5..10 {
        client.send(id, Op::Batch, json!({"items": [wait]})).await;
    }
    assert_eq!(client.code().await, (Some(9), 901), "this many batches at once and no more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_name_the_leader() {
    in_both(|encoding| async move {
        let server = TestServer::open(Limits::default());
        let mut client = Client::connect(server.address, encoding).await;
        client.send(1, Op::Shards, json!({})).await;
        let (_, reply) = client.answer::<ShardMap>().await;
        let Reply::Ok(map, _) = reply else { panic!("{reply:?}") };
        assert_eq!(map.leaders, [1, 2]);
        // Another node leads venues here, and this one leads carts.
        client.send(2, Op::VenueGet, json!({"id": "v"})).await;
        assert_eq!(client.leader().await, Leader(Some(2)));
        client.send(3, Op::CartOpen, json!({"token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"})).await;
        assert_eq!(client.leader().await, Leader(None));
        client.send(4, Op::HallGet, json!({"venue": "v", "id": "nowhere"})).await;
        assert_eq!(client.leader().await, Leader(Some(2)), "a refusal as well");
        // The leader may change before the answer comes.
        for (id, before, after) in [(5, Some(2), Some(3)), (6, Some(2), None), (7, None, Some(2))] {
            *server.node.carts_led_by.lock() = before;
            client.send(id, Op::CartGet, json!({"token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"})).await;
            let reply = loop {
                if let Some(reply) = server.node.waiting.lock().pop() {
                    break reply;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            };
            *server.node.carts_led_by.lock() = after;
            reply.answer(Ok(Err(Refusal::CartExpired)));
            // A command that arrived while this node led was not forwarded.
            assert_eq!(client.leader().await, Leader(before.and(after)));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_read_the_status_of_the_node() {
    in_both(|encoding| async move {
        let server = TestServer::open(Limits::default());
        let mut client = Client::connect(server.address, encoding).await;
        client.send(1, Op::AdminStatus, json!({})).await;
        let (_, reply) = client.answer::<NodeStatus>().await;
        let Reply::Ok(status, _) = reply else { panic!("{reply:?}") };
        assert_eq!(status.state, "ready");
        for id in 2..5 {
            client.send(id, Op::AdminAudit, json!({})).await;
        }
        assert_eq!(client.code().await, (Some(4), 901), "two audits at once and no more");
        for _ in 0..2 {
            let (_, reply) = client.answer::<NodeAudit>().await;
            let Reply::Ok(audit, _) = reply else { panic!("{reply:?}") };
            assert_eq!(audit.orders, 3);
        }
        let frame = client.request(6, Op::AdminAudit, None, Some(1), &json!({}));
        client.send_frame(&frame).await;
        assert_eq!(client.code().await, (Some(6), 902));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_longer_than_a_fragment_arrive_whole() {
    in_both(|encoding| async move {
        let server = TestServer::open(Limits::default());
        let seats = 100_000;
        {
            let mut sessions = server.node.theatre.sessions.lock();
            let map = sessions.get_mut(&crate::server::common::id("hamlet")).expect("it is there");
            map.seats = (0..seats / 4).map(|byte| byte as u8).collect();
            let count = |state: u8| {
                let bits = |byte: &u8| (0..4).filter(move |seat| byte >> (seat * 2) & 3 == state).count();
                map.seats.iter().map(bits).sum::<usize>() as u32
            };
            map.counts = boxoffice_core::answer::SeatCounts {
                free: count(0),
                held: count(1),
                sold: count(2),
                blocked: count(3),
            };
        }
        let mut client = Client::connect(server.address, encoding).await;
        for id in 0..20 {
            client.send(id, Op::SessionMap, json!({"id": "hamlet"})).await;
        }
        let expected = server.node.theatre.sessions.lock()[&crate::server::common::id("hamlet")].clone();
        for _ in 0..20 {
            let frame = tokio::time::timeout(TIMEOUT, client.frame()).await.expect("in time");
            let Ok(ServerFrame::Answer(_, verdict, _)) = ServerFrame::read(encoding, &frame) else {
                panic!("no answer")
            };
            let Ok(Reply::Ok(map, _)) = verdict.read::<MapView>(encoding) else { panic!("no map") };
            assert_eq!((map.version, map.counts, &map.seats), (expected.version, expected.counts, &expected.seats));
        }
    })
    .await;
}

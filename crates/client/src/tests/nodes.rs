//! A client of several nodes: it retries at the next node, under the same request id.

use std::{pin::pin, time::Duration};

use boxoffice_core::{answer::Answered, refusal::Refusal};
use boxoffice_wire::{
    Fail, Op, Request,
    call::Shape,
    cluster::{NodeAddress, ShardMap},
    encode,
    rejection::unknown_op,
};
use tokio::time::{Instant, sleep, timeout};

use super::common::*;
use crate::{Cart, Client, ClientConfig, Encoding, Error, FailKind, RetryCounts, Seat, Timestamp};

const SEATS: [Seat; 2] = [Seat { row: 1, seat: 5 }, Seat { row: 1, seat: 6 }];

/// Two servers. A client of the first with the second as fallback, the client of the second, and both server ends.
async fn two() -> (Client, Client, Peer, Peer, [Server; 2]) {
    let servers = [Server::new(Encoding::MsgPack).await, Server::new(Encoding::MsgPack).await];
    let config = |server: &Server| ClientConfig { wait_for_connection: false, ..server.config() };
    let (own, one) = servers[0].connected(config(&servers[0])).await;
    let (other, two) = servers[1].connected(config(&servers[1])).await;
    let client = own.with_fallbacks([&other]);
    (client, other, one, two, servers)
}

#[tokio::test]
async fn a_request_that_a_node_does_not_serve_goes_to_the_next_node() {
    let (client, _other, mut one, mut two, _servers) = two().await;
    let cart = Cart::new(&client);
    let serve = async {
        let first = one.request().await;
        one.fail(&first, FailKind::NotReady).await;
        let second = two.request().await;
        assert_eq!(second.key, first.key);
        two.fail(&second, FailKind::Unknown).await;
        // After `unknown` the client asks the same node again, because only a refusal from that node is final.
        let third = two.request().await;
        assert_eq!(third.key, first.key);
        // After `busy` the client stays with the node, so as not to load another one.
        two.fail(&third, FailKind::Busy).await;
        let fourth = two.request().await;
        two.fail(&fourth, FailKind::Draining).await;
        let last = one.request().await;
        assert_eq!(last.key, first.key);
        one.ok(&last, held(cart.id())).await;
        two.expect_no_request().await;
    };
    let session = id("hamlet");
    let (reply, ()) = tokio::join!(cart.hold_seats(&session, SEATS), serve);
    assert_eq!(reply.expect("granted").value.cart, cart.id());
    assert_eq!(
        client.retry_counts(),
        RetryCounts { not_ready: 1, unknown: 1, busy: 1, draining: 1, ..RetryCounts::default() }
    );
    assert_eq!(client.retry_counts().all(), 4);
}

#[tokio::test]
async fn a_field_is_not_sent_to_a_node_that_does_not_know_it() {
    for encoding in Encoding::ALL {
        let servers = [Server::new(encoding).await, Server::new(encoding).await];
        let (old, mut one) = servers[0].connected_as_first_version(servers[0].config()).await;
        let (new, mut two) = servers[1].connected(servers[1].config()).await;
        let (room, begin, end) = (id("room-5"), Timestamp(1_000), Timestamp(2_000));
        // Without a fallback the client itself refuses the request, and sends nothing.
        let cart = Cart::new(&old);
        let error = cart.hold_slot(&room, begin, end).details("with a piano").await.expect_err("the node is too old");
        let no = error.refusal().expect("a refusal");
        assert_eq!((no.code, no.name.as_str()), (110, "unsupported_version"));
        let message = "`details` of `cart.hold_slot` needs protocol 1.1, and the node speaks 1.0";
        assert!(no.message.contains(message), "{}", no.message);
        one.expect_no_request().await;
        // An old node takes a request without the field.
        let serve = async {
            let request = one.request().await;
            one.ok(&request, held(cart.id())).await;
        };
        tokio::join!(cart.hold_slot(&room, begin, end), serve).0.expect("granted");
        // If a fallback knows the field, the client asks the fallback.
        let client = old.with_fallbacks([&new]);
        let cart = Cart::new(&client);
        let serve = async {
            let request = two.request().await;
            assert!(format!("{:?}", request.call).contains("with a piano"), "{request:?}");
            two.ok(&request, held(cart.id())).await;
        };
        tokio::join!(cart.hold_slot(&room, begin, end).details("with a piano"), serve).0.expect("granted");
        one.expect_no_request().await;
    }
}

#[tokio::test]
async fn requests_do_not_wait_for_a_node_that_is_gone() {
    let (client, _other, mut one, mut two, servers) = two().await;
    let [first, _second] = servers;
    let (cart, later) = (Cart::new(&client), Cart::new(&client));
    let session = id("hamlet");
    let serve = async {
        let under_way = one.request().await;
        one.reset();
        drop(first);
        let again = two.request().await;
        assert_eq!(again.key, under_way.key, "the lost request is retried at the other node");
        two.ok(&again, held(cart.id())).await;
    };
    let (reply, ()) = tokio::join!(cart.hold_seats(&session, SEATS), serve);
    reply.expect("granted");
    assert_eq!(client.retry_counts().lost, 1);
    let serve = async {
        let request = two.request().await;
        two.ok(&request, held(later.id())).await;
    };
    let (reply, ()) = tokio::join!(later.hold_seats(&session, SEATS), serve);
    reply.expect("granted");
    assert_eq!((client.retry_counts().lost, client.retry_counts().no_connection), (1, 1));
}

/// The shard map of a cluster with one data shard that node 2 leads, with the address of node 2.
fn led_by_two(client: String) -> ShardMap {
    ShardMap { leaders: vec![1, 2], nodes: vec![NodeAddress { node: 2, client: client.into() }] }
}

/// A client of node 1 that sends requests to leaders, node 1's end of its connection, and the servers of nodes 1 and 2.
async fn with_a_leader() -> (Client, Peer, [Server; 2]) {
    with_a_leader_and(|config| config).await
}

/// The same with a changed configuration.
async fn with_a_leader_and(change: impl Fn(ClientConfig) -> ClientConfig) -> (Client, Peer, [Server; 2]) {
    let servers = [Server::new(Encoding::MsgPack).await, Server::new(Encoding::MsgPack).await];
    let config = change(ClientConfig { to_leaders: true, ..servers[0].config() });
    let (client, mut one) = servers[0].connected_as("1", config).await;
    // The first request goes through node 1. The client also asks node 1 for the map, once.
    let cart = Cart::new(&client);
    let map = led_by_two(servers[1].config().addresses.remove(0));
    let serve = async {
        let mut asked = Vec::new();
        for _ in 0..2 {
            let request = one.request().await;
            match request.op {
                Op::Shards => one.shards(&request, &map).await,
                _ => one.ok(&request, held(cart.id())).await,
            }
            asked.push(request.op);
        }
        asked.sort_by_key(|op| op.name());
        assert_eq!(asked, [Op::CartHoldSeats, Op::Shards]);
    };
    let session = id("hamlet");
    tokio::join!(cart.hold_seats(&session, SEATS), serve).0.expect("granted");
    // Gives the client time to read the map.
    sleep(Duration::from_millis(20)).await;
    (client, one, servers)
}

/// Sends requests through node 1 until the client has connected to the leader.
async fn connect_to_leader(client: &Client, one: &mut Peer, leader: &Server) -> Peer {
    let cart = Cart::new(client);
    let session = id("hamlet");
    let mut accepting = pin!(leader.accept_as("2"));
    loop {
        let serve = async {
            let request = one.request().await;
            one.ok(&request, held(cart.id())).await;
        };
        tokio::join!(cart.hold_seats(&session, SEATS), serve).0.expect("granted");
        if let Ok(two) = timeout(Duration::from_millis(5), &mut accepting).await {
            return two;
        }
    }
}

#[tokio::test]
async fn requests_go_to_the_leader_and_to_the_own_node_when_the_leader_is_gone() {
    let (client, mut one, servers) = with_a_leader().await;
    let mut two = connect_to_leader(&client, &mut one, &servers[1]).await;
    let cart = Cart::new(&client);
    let session = id("hamlet");
    let serve = async {
        let first = two.request().await;
        two.ok(&first, held(cart.id())).await;
        // The node does not lead any more. The same request goes to the client's own node, which is also asked for the
        // map.
        let second = two.request().await;
        two.fail(&second, FailKind::NotReady).await;
        let again = one.request().await;
        assert_eq!(again.key, second.key);
        one.ok(&again, held(cart.id())).await;
        // A request that gets no answer goes there as well.
        let third = two.request().await;
        drop(two);
        let again = one.request().await;
        assert_eq!(again.key, third.key);
        one.ok(&again, held(cart.id())).await;
    };
    let buy = async {
        for _ in 0..3 {
            cart.hold_seats(&session, SEATS).await.expect("granted");
        }
    };
    tokio::join!(buy, serve);
    assert_eq!(client.retry_counts(), RetryCounts { not_ready: 1, lost: 1, ..RetryCounts::default() });
}

#[tokio::test]
async fn the_client_follows_an_answer_that_names_another_leader() {
    let (client, mut one, servers) = with_a_leader().await;
    let mut two = connect_to_leader(&client, &mut one, &servers[1]).await;
    let cart = Cart::new(&client);
    let session = id("hamlet");
    let serve = async {
        let first = two.request().await;
        let outcome = Ok(Answered { answer: held(cart.id()), at: Vec::new() });
        two.send(|encoding, out| encode::outcome(encoding, out, first.id, &outcome, Shape::Plain, Some(1))).await;
        // The answer named node 1, which is the client's own.
        let second = one.request().await;
        one.ok(&second, held(cart.id())).await;
        two.expect_no_request().await;
    };
    let buy = async {
        for _ in 0..2 {
            cart.hold_seats(&session, SEATS).await.expect("granted");
        }
    };
    tokio::join!(buy, serve);
}

#[tokio::test]
async fn requests_go_to_the_own_node_while_the_leader_is_unreachable() {
    let servers = [Server::new(Encoding::MsgPack).await, Server::new(Encoding::MsgPack).await];
    let config = ClientConfig { to_leaders: true, ..servers[0].config() };
    let (client, mut one) = servers[0].connected_as("1", config).await;
    let cart = Cart::new(&client);
    // The first address refuses connections. The second needs TLS, which the library does not have.
    for address in ["127.0.0.1:1", "https://two.tickets.example"] {
        let serve = async {
            for _ in 0..4 {
                let mut request = one.request().await;
                if request.op == Op::Shards {
                    one.shards(&request, &led_by_two(address.into())).await;
                    request = one.request().await;
                }
                one.ok(&request, held(cart.id())).await;
            }
        };
        let buy = async {
            for _ in 0..4 {
                cart.hold_seats(&id("hamlet"), SEATS).await.expect("granted");
            }
        };
        tokio::join!(buy, serve);
    }
}

/// Sends a request through node 1, which answers with this map if it is asked for one. Returns whether it was.
async fn request_through(client: &Client, one: &mut Peer, map: &ShardMap) -> bool {
    let cart = Cart::new(client);
    let session = id("hamlet");
    let mut was_asked = false;
    let serve = async {
        loop {
            let request = one.request().await;
            if request.op != Op::Shards {
                // The client may ask for the map after it has sent this request.
                if let Ok(shards) = timeout(Duration::from_millis(50), one.request()).await {
                    assert_eq!(shards.op, Op::Shards);
                    one.shards(&shards, map).await;
                    was_asked = true;
                }
                return one.ok(&request, held(cart.id())).await;
            }
            one.shards(&request, map).await;
            was_asked = true;
        }
    };
    tokio::join!(cart.hold_seats(&session, SEATS), serve).0.expect("granted");
    was_asked
}

/// The next request that is not `shards`. Answers `shards` requests with this map.
async fn next_except_shards(one: &mut Peer, map: &ShardMap) -> Request {
    loop {
        let request = one.request().await;
        if request.op != Op::Shards {
            return request;
        }
        one.shards(&request, map).await;
    }
}

#[tokio::test]
async fn a_silent_leader_is_dropped_and_the_request_goes_to_the_own_node() {
    let (client, mut one, servers) = with_a_leader().await;
    let mut two = connect_to_leader(&client, &mut one, &servers[1]).await;
    let map = led_by_two(servers[1].config().addresses.remove(0));
    // After this time the client may ask for the map again.
    sleep(Duration::from_millis(1_100)).await;
    let cart = Cart::new(&client).with_deadline(Duration::from_millis(1_500));
    let session = id("hamlet");
    let begin = Instant::now();
    let serve = async {
        let silent = two.request().await;
        assert!(silent.deadline_ms > 1_000, "the leader may take the whole time");
        let again = next_except_shards(&mut one, &map).await;
        assert_eq!(again.key, silent.key);
        let took = begin.elapsed();
        assert!((Duration::from_millis(450)..Duration::from_millis(1_000)).contains(&took), "it took {took:?}");
        // The first attempt may still be granted, so this refusal is not final.
        one.no(&again, Refusal::CartEmpty).await;
        let again = next_except_shards(&mut one, &map).await;
        one.ok(&again, held(cart.id())).await;
    };
    let (reply, ()) = tokio::join!(cart.hold_seats(&session, SEATS), serve);
    assert!(reply.expect("granted").retried);
    // Whatever the map says, the client sends the node nothing until it has accepted another connection.
    two.expect_close().await;
    let mut two = connect_to_leader(&client, &mut one, &servers[1]).await;
    let serve = async {
        let request = two.request().await;
        two.ok(&request, held(cart.id())).await;
    };
    tokio::join!(cart.hold_seats(&session, SEATS), serve).0.expect("granted");
}

#[tokio::test]
async fn the_client_waits_for_a_slow_leader_that_is_not_silent() {
    let (client, mut one, servers) = with_a_leader().await;
    let mut two = connect_to_leader(&client, &mut one, &servers[1]).await;
    let cart = Cart::new(&client).with_deadline(Duration::from_millis(1_500));
    let session = id("hamlet");
    let serve = async {
        let request = two.request().await;
        for _ in 0..5 {
            sleep(Duration::from_millis(200)).await;
            two.ping().await;
        }
        two.ok(&request, held(cart.id())).await;
    };
    let (reply, ()) = tokio::join!(cart.hold_seats(&session, SEATS), serve);
    assert!(!reply.expect("granted").retried);
}

#[tokio::test]
async fn the_client_sends_a_leader_nothing_before_its_hello() {
    let (client, mut one, servers) = with_a_leader().await;
    let map = led_by_two(servers[1].config().addresses.remove(0));
    request_through(&client, &mut one, &map).await;
    let mut two = servers[1].accept_without_hello().await;
    request_through(&client, &mut one, &map).await;
    two.expect_no_request().await;
    two.send_hello("2", "c").await;
    assert_eq!(two.request().await.op, Op::Hello);
    let cart = Cart::new(&client);
    let session = id("hamlet");
    let serve = async {
        let request = two.request().await;
        two.ok(&request, held(cart.id())).await;
    };
    tokio::join!(cart.hold_seats(&session, SEATS), serve).0.expect("granted");
}

#[tokio::test]
async fn the_client_sends_nothing_to_a_node_that_is_not_the_leader() {
    for (node, cluster) in [("3", "c"), ("2", "another"), ("2", ""), ("n", "c")] {
        let (client, mut one, servers) = with_a_leader().await;
        let map = led_by_two(servers[1].config().addresses.remove(0));
        request_through(&client, &mut one, &map).await;
        // The client does not even send its hello.
        servers[1].accept_and_send_hello(node, cluster).await.expect_close().await;
        request_through(&client, &mut one, &map).await;
        servers[1].expect_no_connection().await;
        // Later the map may be right, or the right node may be at the address.
        advance_time(Duration::from_secs(61), &mut [&mut one]).await;
        assert!(request_through(&client, &mut one, &map).await, "the map is old");
        connect_to_leader(&client, &mut one, &servers[1]).await;
    }
}

#[tokio::test]
async fn a_request_in_doubt_is_retried_over_the_same_connection() {
    let (client, mut one, servers) = with_a_leader().await;
    let session = id("hamlet");
    let cart = Cart::new(&client);
    let in_doubt = cart.with_request_id("mine-1").with_deadline(Duration::from_secs(5));
    let serve = async {
        let request = one.request().await;
        // The wait ends after the deadline, so there is no second attempt.
        let fail = Fail { retry_after_ms: Some(60_000), ..Fail::new(FailKind::Unknown) };
        one.send(|encoding, out| encode::fail(encoding, out, request.id, &fail)).await;
    };
    let (reply, ()) = tokio::join!(in_doubt.hold_seats(&session, SEATS), serve);
    assert!(matches!(reply, Err(Error::Unknown(Some(_)))), "{reply:?}");
    let mut two = connect_to_leader(&client, &mut one, &servers[1]).await;
    let serve = async {
        let request = one.request().await;
        one.no(&request, Refusal::CartExpired).await;
        two.expect_no_request().await;
    };
    let (reply, ()) = tokio::join!(in_doubt.hold_seats(&session, SEATS), serve);
    assert_eq!(reply.expect_err("refused").refusal().map(|no| no.code), Some(302));
}

#[tokio::test]
async fn the_client_asks_again_for_an_old_map() {
    let (client, mut one, servers) = with_a_leader().await;
    let mut two = connect_to_leader(&client, &mut one, &servers[1]).await;
    let cart = Cart::new(&client);
    let session = id("hamlet");
    advance_time(Duration::from_secs(61), &mut [&mut one, &mut two]).await;
    // In the new map node 2 leads nothing.
    let map = ShardMap { leaders: vec![1, 1], ..led_by_two(servers[1].config().addresses.remove(0)) };
    let serve = async {
        let request = two.request().await;
        two.ok(&request, held(cart.id())).await;
        let shards = one.request().await;
        assert_eq!(shards.op, Op::Shards);
        one.shards(&shards, &map).await;
    };
    tokio::join!(cart.hold_seats(&session, SEATS), serve).0.expect("granted");
    two.expect_close().await;
    assert!(!request_through(&client, &mut one, &map).await);
}

#[tokio::test]
async fn the_client_asks_again_for_the_map_while_a_leader_is_not_connected() {
    let (client, mut one, servers) = with_a_leader().await;
    let map = led_by_two(servers[1].config().addresses.remove(0));
    drop(servers);
    assert!(!request_through(&client, &mut one, &map).await, "the client asked a moment ago");
    for _ in 0..3 {
        advance_time(Duration::from_secs(6), &mut [&mut one]).await;
        assert!(request_through(&client, &mut one, &map).await);
        assert!(!request_through(&client, &mut one, &map).await);
    }
}

#[tokio::test]
async fn a_leader_that_refused_the_client_is_tried_again_later() {
    let (client, mut one, servers) = with_a_leader().await;
    let map = led_by_two(servers[1].config().addresses.remove(0));
    let mut two = connect_to_leader(&client, &mut one, &servers[1]).await;
    let cart = Cart::new(&client);
    let session = id("hamlet");
    let serve = async {
        let request = two.request().await;
        two.send(|encoding, out| {
            let fail = Fail { retry_after_ms: Some(400), ..Fail::new(FailKind::NotReady) };
            encode::fail(encoding, out, request.id, &fail);
        })
        .await;
        two.close(4001).await;
        let again = one.request().await;
        assert_eq!(again.key, request.key);
        one.fail(&again, FailKind::NotReady).await;
        // The leader was next in turn, but the request was not sent there. So this refusal is final.
        let again = next_except_shards(&mut one, &map).await;
        assert_eq!(again.key, request.key);
        one.no(&again, Refusal::CartExpired).await;
    };
    let (reply, ()) = tokio::join!(cart.hold_seats(&session, SEATS), serve);
    assert_eq!(reply.expect_err("refused").refusal().map(|no| no.code), Some(302));
    request_through(&client, &mut one, &map).await;
    // A new map does not make the client try the leader again at once.
    advance_time(Duration::from_secs(6), &mut [&mut one]).await;
    let serve = async {
        let request = one.request().await;
        let outcome = Ok(Answered { answer: held(cart.id()), at: Vec::new() });
        one.send(|encoding, out| encode::outcome(encoding, out, request.id, &outcome, Shape::Plain, Some(9))).await;
        let shards = one.request().await;
        assert_eq!(shards.op, Op::Shards, "a leader without an address");
        one.shards(&shards, &map).await;
    };
    tokio::join!(cart.hold_seats(&session, SEATS), serve).0.expect("granted");
    sleep(Duration::from_millis(20)).await;
    request_through(&client, &mut one, &map).await;
    servers[1].expect_no_connection().await;
    advance_time(Duration::from_secs(61), &mut [&mut one]).await;
    assert!(request_through(&client, &mut one, &map).await, "the map is old");
    connect_to_leader(&client, &mut one, &servers[1]).await;
}

#[tokio::test]
async fn without_retries_a_request_still_goes_to_the_own_node_if_it_was_not_sent_to_the_leader() {
    let (client, mut one, servers) = with_a_leader_and(|config| ClientConfig { retry: false, ..config }).await;
    let map = led_by_two(servers[1].config().addresses.remove(0));
    request_through(&client, &mut one, &map).await;
    let mut two = servers[1].accept_as_first_version("2").await;
    sleep(Duration::from_millis(50)).await;
    let cart = Cart::new(&client);
    let (room, begin, end) = (id("room-5"), Timestamp(1_000), Timestamp(2_000));
    let serve = async {
        let request = next_except_shards(&mut one, &map).await;
        one.ok(&request, held(cart.id())).await;
        // The leader's answer to a request that was sent to it is final.
        let request = two.request().await;
        two.fail(&request, FailKind::NotReady).await;
        two.expect_no_request().await;
    };
    let buy = async {
        cart.hold_slot(&room, begin, end).details("with a piano").await.expect("granted");
        let reply = cart.hold_seats(&id("hamlet"), SEATS).await;
        assert!(matches!(reply, Err(Error::Failed(_))), "{reply:?}");
    };
    tokio::join!(buy, serve);
}

#[tokio::test]
async fn a_node_without_a_usable_map_is_not_asked_every_second() {
    let session = id("hamlet");
    for knows_the_op in [true, false] {
        let server = Server::new(Encoding::MsgPack).await;
        let config = ClientConfig { to_leaders: true, ..server.config() };
        let (client, mut one) = server.connected_as("1", config).await;
        for (time, is_asked) in [(0, true), (6, false), (40, false), (20, true), (6, false)] {
            advance_time(Duration::from_secs(time), &mut [&mut one]).await;
            let cart = Cart::new(&client).with_deadline(Duration::from_millis(500));
            let serve = async {
                let mut asked = Vec::new();
                while let Ok(request) = timeout(Duration::from_millis(100), one.request()).await {
                    asked.push(request.op);
                    match request.op {
                        Op::Shards => {
                            let allowed = Duration::from_millis(request.deadline_ms);
                            assert!((1_500..=2_000).contains(&request.deadline_ms), "it may take {allowed:?}");
                            if knows_the_op {
                                one.shards(&request, &ShardMap::default()).await;
                            } else {
                                one.reject(&request, &unknown_op("shards")).await;
                            }
                        }
                        _ => one.ok(&request, held(cart.id())).await,
                    }
                }
                assert_eq!(asked.contains(&Op::Shards), is_asked, "after {time} s");
            };
            tokio::join!(cart.hold_seats(&session, SEATS), serve).0.expect("granted");
        }
    }
}

#[tokio::test]
async fn a_request_may_be_started_outside_of_the_runtime() {
    let (client, mut one, servers) = with_a_leader().await;
    let cart = Cart::new(&client);
    let session = id("hamlet");
    let mut buy = Box::pin(async move { cart.hold_seats(&session, SEATS).await.map(|reply| reply.value.cart) });
    // The first poll connects to the leader. The request itself goes to the client's own node.
    let buy = tokio::task::spawn_blocking(|| {
        std::thread::spawn(move || {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(buy.as_mut().poll(&mut context).is_pending());
            buy
        })
        .join()
        .expect("no panic")
    });
    let buy = buy.await.expect("no panic");
    let serve = async {
        let request = one.request().await;
        one.ok(&request, held(crate::CartId(7))).await;
    };
    tokio::join!(buy, serve).0.expect("granted");
    servers[1].accept_as("2").await;
}

//! A client of several nodes: what one does not do, the next one is asked, under the same request id.

mod common;

use std::{pin::pin, time::Duration};

use boxoffice_client::{Cart, Client, ClientConfig, Encoding, Error, FailKind, Repeats, Seat, Timestamp};
use boxoffice_core::{answer::Answered, refusal::Refusal};
use boxoffice_wire::{
    Op, Rejection, Request,
    call::Shape,
    cluster::{NodeAddress, ShardMap},
    encode,
};
use common::*;
use tokio::time::{Instant, sleep, timeout};

const SEATS: [Seat; 2] = [Seat { row: 1, seat: 5 }, Seat { row: 1, seat: 6 }];

/// Two servers, the client of the first with the second to step in, and the servers' ends.
async fn two() -> (Client, Client, Peer, Peer, [Server; 2]) {
    let servers = [Server::new(Encoding::MsgPack).await, Server::new(Encoding::MsgPack).await];
    let config = |server: &Server| ClientConfig { wait_for_connection: false, ..server.config() };
    let (own, one) = servers[0].connected(config(&servers[0])).await;
    let (other, two) = servers[1].connected(config(&servers[1])).await;
    let client = own.with_others([&other]);
    (client, other, one, two, servers)
}

#[tokio::test]
async fn what_one_node_does_not_do_the_next_one_is_asked() {
    let (client, _other, mut one, mut two, _servers) = two().await;
    let cart = Cart::new(&client);
    let serve = async {
        let first = one.request().await;
        one.fail(&first, FailKind::NotReady).await;
        let second = two.request().await;
        assert_eq!(second.key, first.key);
        two.fail(&second, FailKind::Unknown).await;
        // Only the node that does not know can say later that a refusal is the last word.
        let third = two.request().await;
        assert_eq!(third.key, first.key);
        // Too much to do is no reason to burden another one.
        two.fail(&third, FailKind::Busy).await;
        let fourth = two.request().await;
        two.fail(&fourth, FailKind::Draining).await;
        let last = one.request().await;
        assert_eq!(last.key, first.key);
        one.ok(&last, held(cart.id())).await;
        two.is_quiet().await;
    };
    let session = id("hamlet");
    let (reply, ()) = tokio::join!(cart.hold_seats(&session, SEATS), serve);
    assert_eq!(reply.expect("granted").value.cart, cart.id());
    assert_eq!(client.repeats(), Repeats { not_ready: 1, unknown: 1, busy: 1, draining: 1, ..Repeats::default() });
    assert_eq!(client.repeats().all(), 4);
}

#[tokio::test]
async fn a_node_that_does_not_know_a_field_is_not_sent_it() {
    for encoding in Encoding::ALL {
        let servers = [Server::new(encoding).await, Server::new(encoding).await];
        let (old, mut one) = servers[0].connected_as_first_version(servers[0].config()).await;
        let (new, mut two) = servers[1].connected(servers[1].config()).await;
        let (room, begin, end) = (id("room-5"), Timestamp(1_000), Timestamp(2_000));
        // Alone it refuses, and sends nothing.
        let cart = Cart::new(&old);
        let error = cart.hold_slot_with_details(&room, begin, end, "with a piano").await.expect_err("it is too old");
        let no = error.refusal().expect("a refusal");
        assert_eq!((no.code, no.name.as_str()), (110, "unsupported_version"));
        let words = "`details` of `cart.hold_slot` needs protocol 1.1, and the node speaks 1.0";
        assert!(no.message.contains(words), "{}", no.message);
        one.is_quiet().await;
        // Without the field it is an old request.
        let serve = async {
            let request = one.request().await;
            one.ok(&request, held(cart.id())).await;
        };
        tokio::join!(cart.hold_slot(&room, begin, end), serve).0.expect("granted");
        // Where another node knows the field, that one is asked.
        let client = old.with_others([&new]);
        let cart = Cart::new(&client);
        let serve = async {
            let request = two.request().await;
            assert!(format!("{:?}", request.call).contains("with a piano"), "{request:?}");
            two.ok(&request, held(cart.id())).await;
        };
        tokio::join!(cart.hold_slot_with_details(&room, begin, end, "with a piano"), serve).0.expect("granted");
        one.is_quiet().await;
    }
}

#[tokio::test]
async fn nothing_waits_for_a_node_that_is_gone() {
    let (client, _other, mut one, mut two, servers) = two().await;
    let [first, _second] = servers;
    let (cart, later) = (Cart::new(&client), Cart::new(&client));
    let session = id("hamlet");
    let serve = async {
        let under_way = one.request().await;
        one.break_off();
        drop(first);
        let again = two.request().await;
        assert_eq!(again.key, under_way.key, "what was lost is repeated at the other node");
        two.ok(&again, held(cart.id())).await;
    };
    let (reply, ()) = tokio::join!(cart.hold_seats(&session, SEATS), serve);
    reply.expect("granted");
    assert_eq!(client.repeats().lost, 1);
    let serve = async {
        let request = two.request().await;
        two.ok(&request, held(later.id())).await;
    };
    let (reply, ()) = tokio::join!(later.hold_seats(&session, SEATS), serve);
    reply.expect("granted");
    assert_eq!((client.repeats().lost, client.repeats().no_connection), (1, 1));
}

/// The shard map of a cluster with one data shard, led by node 2, which is here.
fn led_by_two(client: String) -> ShardMap {
    ShardMap { leaders: vec![1, 2], nodes: vec![NodeAddress { node: 2, client: client.into() }] }
}

/// A client of node 1 that sends requests to leaders, node 1's end of it, and the server at which it finds node 2.
async fn with_a_leader() -> (Client, Peer, [Server; 2]) {
    with_a_leader_and(|config| config).await
}

/// The same with another configuration.
async fn with_a_leader_and(change: impl Fn(ClientConfig) -> ClientConfig) -> (Client, Peer, [Server; 2]) {
    let servers = [Server::new(Encoding::MsgPack).await, Server::new(Encoding::MsgPack).await];
    let config = change(ClientConfig { to_leaders: true, ..servers[0].config() });
    let (client, mut one) = servers[0].connected_as("1", config).await;
    // The first request goes the usual way; beside it the client asks for the map, once.
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
    // The map is there, and the client's to read.
    sleep(Duration::from_millis(20)).await;
    (client, one, servers)
}

/// Buys through node 1 until the client has a connection to the leader.
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
async fn requests_go_to_the_leader_and_past_it_when_it_is_gone() {
    let (client, mut one, servers) = with_a_leader().await;
    let mut two = connect_to_leader(&client, &mut one, &servers[1]).await;
    let cart = Cart::new(&client);
    let session = id("hamlet");
    let serve = async {
        let first = two.request().await;
        two.ok(&first, held(cart.id())).await;
        // It leads no more; the same request goes on through the client's own node, which is asked for the map as well.
        let second = two.request().await;
        two.fail(&second, FailKind::NotReady).await;
        let again = one.request().await;
        assert_eq!(again.key, second.key);
        one.ok(&again, held(cart.id())).await;
        // So does a request that gets no answer.
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
    assert_eq!(client.repeats(), Repeats { not_ready: 1, lost: 1, ..Repeats::default() });
}

#[tokio::test]
async fn an_answer_that_names_another_leader_is_believed() {
    let (client, mut one, servers) = with_a_leader().await;
    let mut two = connect_to_leader(&client, &mut one, &servers[1]).await;
    let cart = Cart::new(&client);
    let session = id("hamlet");
    let serve = async {
        let first = two.request().await;
        let outcome = Ok(Answered { answer: held(cart.id()), at: Vec::new() });
        two.send(|encoding, out| encode::outcome(encoding, out, first.id, &outcome, Shape::Plain, Some(1))).await;
        // Node 1 it is: the client's own.
        let second = one.request().await;
        one.ok(&second, held(cart.id())).await;
        two.is_quiet().await;
    };
    let buy = async {
        for _ in 0..2 {
            cart.hold_seats(&session, SEATS).await.expect("granted");
        }
    };
    tokio::join!(buy, serve);
}

#[tokio::test]
async fn a_leader_that_cannot_be_reached_is_passed_over() {
    let servers = [Server::new(Encoding::MsgPack).await, Server::new(Encoding::MsgPack).await];
    let config = ClientConfig { to_leaders: true, ..servers[0].config() };
    let (client, mut one) = servers[0].connected_as("1", config).await;
    let cart = Cart::new(&client);
    // The first address refuses connections. The library does not speak to the second one: it has no TLS.
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

/// Buys through node 1, and answers with this map if it is asked for; whether it was.
async fn buy_through(client: &Client, one: &mut Peer, map: &ShardMap) -> bool {
    let cart = Cart::new(client);
    let session = id("hamlet");
    let mut was_asked = false;
    let serve = async {
        loop {
            let request = one.request().await;
            if request.op != Op::Shards {
                // The client may ask for the map after it has sent this.
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

/// The next request that does not ask for the map; what does is answered.
async fn next_but_shards(one: &mut Peer, map: &ShardMap) -> Request {
    loop {
        let request = one.request().await;
        if request.op != Op::Shards {
            return request;
        }
        one.shards(&request, map).await;
    }
}

#[tokio::test]
async fn a_silent_leader_is_passed_over_and_not_believed() {
    let (client, mut one, servers) = with_a_leader().await;
    let mut two = connect_to_leader(&client, &mut one, &servers[1]).await;
    let map = led_by_two(servers[1].config().addresses.remove(0));
    // The map may be asked for again.
    sleep(Duration::from_millis(1_100)).await;
    let cart = Cart::new(&client).with_deadline(Duration::from_millis(1_500));
    let session = id("hamlet");
    let begin = Instant::now();
    let serve = async {
        let silent = two.request().await;
        assert!(silent.deadline_ms > 1_000, "the leader may take all the time there is");
        let again = next_but_shards(&mut one, &map).await;
        assert_eq!(again.key, silent.key);
        let took = begin.elapsed();
        assert!((Duration::from_millis(450)..Duration::from_millis(1_000)).contains(&took), "it took {took:?}");
        // The first attempt may be granted late, so that this is not the last word.
        one.no(&again, Refusal::CartEmpty).await;
        let again = next_but_shards(&mut one, &map).await;
        one.ok(&again, held(cart.id())).await;
    };
    let (reply, ()) = tokio::join!(cart.hold_seats(&session, SEATS), serve);
    assert!(reply.expect("granted").repeated);
    // Whatever the map says, the node is sent nothing until it has accepted another connection.
    two.is_left().await;
    let mut two = connect_to_leader(&client, &mut one, &servers[1]).await;
    let serve = async {
        let request = two.request().await;
        two.ok(&request, held(cart.id())).await;
    };
    tokio::join!(cart.hold_seats(&session, SEATS), serve).0.expect("granted");
}

#[tokio::test]
async fn a_slow_leader_that_is_heard_is_waited_for() {
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
    assert!(!reply.expect("granted").repeated);
}

#[tokio::test]
async fn a_leader_is_sent_nothing_before_it_has_said_who_it_is() {
    let (client, mut one, servers) = with_a_leader().await;
    let map = led_by_two(servers[1].config().addresses.remove(0));
    buy_through(&client, &mut one, &map).await;
    let mut two = servers[1].accept_silently().await;
    buy_through(&client, &mut one, &map).await;
    two.is_quiet().await;
    two.say_hello("2", "c").await;
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
async fn a_node_that_is_not_the_leader_is_left_and_sent_nothing() {
    for (node, cluster) in [("3", "c"), ("2", "another"), ("2", ""), ("n", "c")] {
        let (client, mut one, servers) = with_a_leader().await;
        let map = led_by_two(servers[1].config().addresses.remove(0));
        buy_through(&client, &mut one, &map).await;
        // Not even who the client is.
        servers[1].accept_saying(node, cluster).await.is_left().await;
        buy_through(&client, &mut one, &map).await;
        servers[1].nobody_comes().await;
        // Later the map may be right, or the right node there.
        pass(Duration::from_secs(61), &mut [&mut one]).await;
        assert!(buy_through(&client, &mut one, &map).await, "the map is old");
        connect_to_leader(&client, &mut one, &servers[1]).await;
    }
}

#[tokio::test]
async fn a_doubt_over_another_connection_is_settled_there() {
    let (client, mut one, servers) = with_a_leader().await;
    let session = id("hamlet");
    let cart = Cart::new(&client);
    let doubtful = cart.with_request_id("mine-1").with_deadline(Duration::from_millis(300));
    let serve = async {
        let deadline = Instant::now() + Duration::from_millis(400);
        while let Ok(request) = tokio::time::timeout_at(deadline, one.request()).await {
            one.fail(&request, FailKind::Unknown).await;
        }
    };
    let (reply, ()) = tokio::join!(doubtful.hold_seats(&session, SEATS), serve);
    assert!(matches!(reply, Err(Error::Unknown(Some(_)))), "{reply:?}");
    let mut two = connect_to_leader(&client, &mut one, &servers[1]).await;
    let serve = async {
        let request = one.request().await;
        one.no(&request, Refusal::CartExpired).await;
        two.is_quiet().await;
    };
    let (reply, ()) = tokio::join!(doubtful.hold_seats(&session, SEATS), serve);
    assert_eq!(reply.expect_err("refused").refusal().map(|no| no.code), Some(302));
}

#[tokio::test]
async fn an_old_map_is_asked_for_again() {
    let (client, mut one, servers) = with_a_leader().await;
    let mut two = connect_to_leader(&client, &mut one, &servers[1]).await;
    let cart = Cart::new(&client);
    let session = id("hamlet");
    pass(Duration::from_secs(61), &mut [&mut one, &mut two]).await;
    // The node leads nothing any more.
    let map = ShardMap { leaders: vec![1, 1], ..led_by_two(servers[1].config().addresses.remove(0)) };
    let serve = async {
        let request = two.request().await;
        two.ok(&request, held(cart.id())).await;
        let shards = one.request().await;
        assert_eq!(shards.op, Op::Shards);
        one.shards(&shards, &map).await;
    };
    tokio::join!(cart.hold_seats(&session, SEATS), serve).0.expect("granted");
    two.is_left().await;
    assert!(!buy_through(&client, &mut one, &map).await);
}

#[tokio::test]
async fn the_map_is_asked_for_again_while_a_leader_is_not_there() {
    let (client, mut one, servers) = with_a_leader().await;
    let map = led_by_two(servers[1].config().addresses.remove(0));
    drop(servers);
    assert!(!buy_through(&client, &mut one, &map).await, "it was asked for a moment ago");
    for _ in 0..3 {
        pass(Duration::from_secs(6), &mut [&mut one]).await;
        assert!(buy_through(&client, &mut one, &map).await);
        assert!(!buy_through(&client, &mut one, &map).await);
    }
}

#[tokio::test]
async fn a_leader_that_sends_the_client_away_is_tried_again_later() {
    let (client, mut one, servers) = with_a_leader().await;
    let map = led_by_two(servers[1].config().addresses.remove(0));
    let mut two = connect_to_leader(&client, &mut one, &servers[1]).await;
    let cart = Cart::new(&client);
    let session = id("hamlet");
    let serve = async {
        let request = two.request().await;
        two.send(|encoding, out| {
            let fail =
                boxoffice_wire::Fail { retry_after_ms: Some(400), ..boxoffice_wire::Fail::new(FailKind::NotReady) };
            encode::fail(encoding, out, request.id, &fail);
        })
        .await;
        two.close(4001).await;
        let again = one.request().await;
        assert_eq!(again.key, request.key);
        one.fail(&again, FailKind::NotReady).await;
        // The leader's turn was next. It was not sent there, so that this refusal is the last word.
        let again = next_but_shards(&mut one, &map).await;
        assert_eq!(again.key, request.key);
        one.no(&again, Refusal::CartExpired).await;
    };
    let (reply, ()) = tokio::join!(cart.hold_seats(&session, SEATS), serve);
    assert_eq!(reply.expect_err("refused").refusal().map(|no| no.code), Some(302));
    buy_through(&client, &mut one, &map).await;
    // Another map is no reason to try again at once.
    pass(Duration::from_secs(6), &mut [&mut one]).await;
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
    buy_through(&client, &mut one, &map).await;
    servers[1].nobody_comes().await;
    pass(Duration::from_secs(61), &mut [&mut one]).await;
    assert!(buy_through(&client, &mut one, &map).await, "the map is old");
    connect_to_leader(&client, &mut one, &servers[1]).await;
}

#[tokio::test]
async fn without_repeats_a_request_still_goes_past_a_leader_that_was_not_sent_it() {
    let (client, mut one, servers) = with_a_leader_and(|config| ClientConfig { retry: false, ..config }).await;
    let map = led_by_two(servers[1].config().addresses.remove(0));
    buy_through(&client, &mut one, &map).await;
    let mut two = servers[1].accept_as_first_version("2").await;
    sleep(Duration::from_millis(50)).await;
    let cart = Cart::new(&client);
    let (room, begin, end) = (id("room-5"), Timestamp(1_000), Timestamp(2_000));
    let serve = async {
        let request = next_but_shards(&mut one, &map).await;
        one.ok(&request, held(cart.id())).await;
        // What the leader was sent is its to answer.
        let request = two.request().await;
        two.fail(&request, FailKind::NotReady).await;
        two.is_quiet().await;
    };
    let buy = async {
        cart.hold_slot_with_details(&room, begin, end, "with a piano").await.expect("granted");
        let reply = cart.hold_seats(&id("hamlet"), SEATS).await;
        assert!(matches!(reply, Err(Error::Failed(_))), "{reply:?}");
    };
    tokio::join!(buy, serve);
}

#[tokio::test]
async fn a_node_that_tells_no_map_is_not_asked_every_second() {
    let session = id("hamlet");
    for knows_the_op in [true, false] {
        let server = Server::new(Encoding::MsgPack).await;
        let config = ClientConfig { to_leaders: true, ..server.config() };
        let (client, mut one) = server.connected_as("1", config).await;
        for (time, is_asked) in [(0, true), (6, false), (40, false), (20, true), (6, false)] {
            pass(Duration::from_secs(time), &mut [&mut one]).await;
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
                                one.reject(&request, &Rejection::UnknownOp("shards".into())).await;
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
async fn a_request_may_be_begun_outside_of_the_runtime() {
    let (client, mut one, servers) = with_a_leader().await;
    let cart = Cart::new(&client);
    let session = id("hamlet");
    let mut buy = Box::pin(async move { cart.hold_seats(&session, SEATS).await.map(|reply| reply.value.cart) });
    // It connects to the leader, and goes to the client's own node meanwhile.
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
        one.ok(&request, held(boxoffice_client::CartId(7))).await;
    };
    tokio::join!(buy, serve).0.expect("granted");
    servers[1].accept_as("2").await;
}

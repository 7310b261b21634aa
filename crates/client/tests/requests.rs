//! Requests against a server that breaks, lies about and forgets: repeats, deadlines, close codes.

mod common;

use std::time::{Duration, Instant};

use boxoffice_client::{Cart, Client, ClientConfig, Encoding, Error, FailKind, Seat};
use boxoffice_core::{answer::Answer, refusal::Refusal};
use boxoffice_wire::Call;
use common::*;

const SEATS: [Seat; 2] = [Seat { row: 1, seat: 5 }, Seat { row: 1, seat: 6 }];

#[tokio::test]
async fn answers_come_in_any_order_in_both_encodings() {
    for encoding in Encoding::ALL {
        let server = Server::new(encoding).await;
        let (client, mut peer) = server.connected(server.config()).await;
        let (one, other) = (Cart::new(&client), Cart::new(&client));
        let session = id("hamlet");
        let serve = async {
            let (first, second) = (peer.request().await, peer.request().await);
            assert_ne!(first.id, second.id);
            peer.ok(&second, held(other.id())).await;
            peer.ok(&first, held(one.id())).await;
        };
        let (first, second, ()) =
            tokio::join!(one.hold_seats(&session, SEATS), other.hold_seats(&session, SEATS), serve);
        assert_eq!(first.expect("granted").value.cart, one.id());
        assert_eq!(second.expect("granted").value.cart, other.id());
        assert_eq!(client.server().expect("it said hello").node, "n");
        peer.ping().await;
    }
}

#[tokio::test]
async fn every_connection_shows_the_customer() {
    for encoding in Encoding::ALL {
        let server = Server::new(encoding).await;
        let config = server.config().customer(id("ada"), "7115");
        assert!(!format!("{config:?}").contains("7115"), "a token stands in no log");
        let shown = |peer: &Peer| match &peer.greeting {
            Some(Call::Hello(hello)) => (hello.customer.clone(), hello.customer_token.clone(), hello.token.clone()),
            other => panic!("no hello: {other:?}"),
        };
        let (_client, peer) = server.connected(config).await;
        assert_eq!(shown(&peer), (Some(id("ada")), Some("7115".into()), None));
        peer.break_off();
        let again = server.accept().await;
        assert_eq!(shown(&again), (Some(id("ada")), Some("7115".into()), None));
        let (_other, peer) = server.connected(server.config()).await;
        assert_eq!(shown(&peer), (None, None, None));
    }
}

#[tokio::test]
async fn a_broken_connection_is_repeated_with_the_same_request_id() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let cart = Cart::new(&client);
    let serve = async {
        let first = peer.request().await;
        peer.break_off();
        let mut peer = server.accept().await;
        let second = peer.request().await;
        assert_eq!(second.key, first.key);
        assert!(second.deadline_ms <= first.deadline_ms, "the deadline moved");
        peer.ok(&second, held(cart.id())).await;
    };
    let session = id("hamlet");
    let (reply, ()) = tokio::join!(cart.hold_seats(&session, SEATS), serve);
    assert_eq!(reply.expect("granted").value.cart, cart.id());
}

#[tokio::test]
async fn whatever_did_not_happen_is_repeated_with_the_same_request_id() {
    let server = Server::new(Encoding::Json).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let cart = Cart::new(&client);
    let serve = async {
        let first = peer.request().await;
        peer.fail(&first, FailKind::Busy).await;
        for kind in [FailKind::NotReady, FailKind::Draining, FailKind::Unknown] {
            let again = peer.request().await;
            assert_eq!(again.key, first.key);
            peer.fail(&again, kind).await;
        }
        let again = peer.request().await;
        peer.no(&again, Refusal::InProgress).await;
        let last = peer.request().await;
        assert_eq!(last.key, first.key);
        peer.no(&last, Refusal::CartExpired).await;
        peer.is_quiet().await;
    };
    let session = id("hamlet");
    let (reply, ()) = tokio::join!(cart.hold_seats(&session, SEATS), serve);
    let Err(Error::Refused(no)) = reply else { panic!("{reply:?} is no refusal") };
    assert_eq!((no.code, no.name.as_str()), (302, "cart_expired"));
}

/// An attempt over a connection that is gone may still be granted. A refusal of the repeat is no last word then, and a grant
/// is.
#[tokio::test]
async fn a_refusal_over_another_connection_is_not_the_last_word() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let (session, cart) = (id("hamlet"), Cart::new(&client));
    let serve = async {
        let first = peer.request().await;
        peer.break_off();
        let mut peer = server.accept().await;
        for _ in 0..2 {
            let again = peer.request().await;
            assert_eq!(again.key, first.key);
            peer.no(&again, Refusal::CartEmpty).await;
        }
        let last = peer.request().await;
        peer.ok(&last, held(cart.id())).await;
        peer
    };
    let (reply, mut peer) = tokio::join!(cart.hold_seats(&session, SEATS), serve);
    assert!(reply.expect("the first attempt was granted late").repeated);
    assert_eq!((client.repeats().lost, client.repeats().refused), (1, 2));

    // Until the deadline, and when the caller asks again with the same request id.
    let doubtful = cart.with_request_id("mine-2").with_deadline(Duration::from_millis(600));
    let serve = async {
        peer.request().await;
        peer.break_off();
        let mut peer = server.accept().await;
        while let Ok(again) = tokio::time::timeout(Duration::from_millis(900), peer.request()).await {
            peer.no(&again, Refusal::CartEmpty).await;
        }
        peer
    };
    let (reply, mut peer) = tokio::join!(doubtful.hold_seats(&session, SEATS), serve);
    assert!(matches!(reply, Err(Error::Unknown(Some(_)))), "{reply:?}");
    let serve = async {
        while let Ok(again) = tokio::time::timeout(Duration::from_millis(900), peer.request()).await {
            peer.no(&again, Refusal::CartEmpty).await;
        }
        peer
    };
    let (reply, mut peer) = tokio::join!(doubtful.hold_seats(&session, SEATS), serve);
    assert!(matches!(reply, Err(Error::Unknown(Some(_)))), "{reply:?}");

    // A declined card is remembered by the cart: no attempt can buy any more.
    let serve = async {
        peer.request().await;
        peer.break_off();
        let mut peer = server.accept().await;
        let again = peer.request().await;
        peer.no(&again, Refusal::PaymentDeclined("no money".into())).await;
        peer
    };
    let (reply, mut peer) = tokio::join!(cart.checkout(boxoffice_client::gateway("card", None), None), serve);
    assert_eq!(reply.expect_err("declined").refusal().map(|no| no.code), Some(601));

    // Another request is another matter.
    let serve = async {
        let request = peer.request().await;
        peer.no(&request, Refusal::CartEmpty).await;
    };
    let (reply, ()) = tokio::join!(cart.hold_seats(&session, SEATS), serve);
    assert_eq!(reply.expect_err("refused").refusal().map(|no| no.code), Some(304));
}

#[tokio::test]
async fn a_deadline_in_doubt_is_unknown_and_names_the_request_id() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let cart = Cart::new(&client).with_deadline(Duration::from_millis(200)).with_request_id("mine-1");
    let begin = Instant::now();
    let session = id("hamlet");
    let (reply, request) = tokio::join!(cart.hold_seats(&session, SEATS), peer.request());
    let Err(Error::Unknown(Some(request_id))) = reply else { panic!("{reply:?} is known") };
    assert_eq!(request_id, "mine-1");
    let took = begin.elapsed();
    assert!((Duration::from_millis(200)..Duration::from_secs(2)).contains(&took), "it took {took:?}");
    assert!(request.deadline_ms <= 200);
    // An answer that comes too late disturbs nobody.
    peer.ok(&request, held(cart.id())).await;
    let serve = async {
        let again = peer.request().await;
        assert_eq!(again.key, request.key, "the same request id is the same request");
        peer.ok(&again, held(cart.id())).await;
    };
    let again = Cart::with_token(&client, cart.token()).with_request_id("mine-1");
    let (reply, ()) = tokio::join!(again.hold_seats(&session, SEATS), serve);
    reply.expect("granted");
}

#[tokio::test]
async fn without_a_server_nothing_happened() {
    let server = Server::new(Encoding::MsgPack).await;
    let config = ClientConfig { deadline: Duration::from_millis(200), ..server.config() };
    drop(server);
    let client = Client::start(config.clone()).expect("a client");
    let reply = client.session_get(&id("hamlet")).await;
    let Err(Error::Failed(fail)) = reply else { panic!("{reply:?} did not fail") };
    assert_eq!(fail.kind, FailKind::NotReady);
    let refused = Client::connect(config).await.expect_err("nobody is there").to_string();
    assert!(refused.contains("is a node running there?"), "{refused}");
    assert!(Client::connect(ClientConfig::new(Vec::<String>::new())).await.is_err());
}

#[tokio::test]
async fn requests_wait_for_the_first_connection() {
    let server = Server::new(Encoding::MsgPack).await;
    let client = Client::start(server.config()).expect("a client");
    let serve = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut peer = server.accept().await;
        let request = peer.request().await;
        peer.ok(&request, Answer::Done).await;
    };
    let hamlet = id("hamlet");
    let (reply, ()) = tokio::join!(client.session_block(&hamlet, SEATS), serve);
    reply.expect("granted");
}

#[tokio::test]
async fn who_is_sent_away_stays_away() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, peer) = server.connected(server.config()).await;
    peer.close(4001).await;
    server.nobody_comes().await;
    let reply = client.session_get(&id("hamlet")).await;
    let Err(Error::Closed(why)) = reply else { panic!("{reply:?} is open") };
    assert!(why.contains("4001"), "{why}");
}

#[tokio::test]
async fn who_is_told_to_come_back_does() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, peer) = server.connected(server.config()).await;
    peer.close(4200).await;
    let begin = Instant::now();
    let mut peer = server.accept().await;
    assert!(begin.elapsed() < Duration::from_secs(1), "it took {:?}", begin.elapsed());
    peer.notice(50).await;
    let mut next = server.accept().await;
    peer.is_left().await;
    let hamlet = id("hamlet");
    let (reply, ()) = tokio::join!(client.session_block(&hamlet, SEATS), async {
        let request = next.request().await;
        next.ok(&request, Answer::Done).await;
    });
    reply.expect("granted");
}

#[tokio::test]
async fn without_repeats_the_first_failure_is_the_answer() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(ClientConfig { retry: false, ..server.config() }).await;
    let hamlet = id("hamlet");
    let (reply, ()) = tokio::join!(client.session_block(&hamlet, SEATS), async {
        let request = peer.request().await;
        peer.fail(&request, FailKind::Busy).await;
    });
    assert!(matches!(reply, Err(Error::Failed(fail)) if fail.kind == FailKind::Busy));
    let (reply, ()) = tokio::join!(client.session_block(&hamlet, SEATS), async {
        peer.request().await;
        peer.break_off();
    });
    assert!(matches!(reply, Err(Error::Unknown(Some(_)))), "{reply:?}");
}

#[tokio::test]
async fn no_more_are_under_way_than_allowed() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(ClientConfig { under_way_max: 2, ..server.config() }).await;
    let hamlet = id("hamlet");
    let block = || client.session_block(&hamlet, SEATS);
    let (one, two, three, ()) = tokio::join!(block(), block(), block(), async {
        let (first, second) = (peer.request().await, peer.request().await);
        peer.is_quiet().await;
        peer.ok(&second, Answer::Done).await;
        let third = peer.request().await;
        peer.ok(&third, Answer::Done).await;
        peer.ok(&first, Answer::Done).await;
    });
    one.and(two).and(three).expect("granted");
}

#[tokio::test]
async fn the_last_one_out_closes_the_door() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let copy = client.clone();
    drop(client);
    peer.is_quiet().await;
    drop(copy);
    peer.is_left().await;
}

#[tokio::test]
async fn a_caller_who_gives_up_is_not_waited_for() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(ClientConfig { under_way_max: 1, ..server.config() }).await;
    let hamlet = id("hamlet");
    let impatient = tokio::time::timeout(Duration::from_millis(50), client.session_get(&hamlet)).await;
    assert!(impatient.is_err());
    let request = peer.request().await;
    let (reply, ()) = tokio::join!(client.session_block(&hamlet, SEATS), async {
        peer.no(&request, Refusal::NotFound("session hamlet".into())).await;
        let request = peer.request().await;
        peer.ok(&request, Answer::Done).await;
    });
    reply.expect("granted");
}

/// However often a caller asks again, a doubt ends when the last attempt in doubt can be late no more.
#[tokio::test]
async fn refused_repeats_do_not_prolong_a_doubt() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let cart = Cart::new(&client).with_request_id("mine-3").with_deadline(Duration::from_millis(300));
    let session = id("hamlet");
    let serve = async {
        peer.request().await;
        peer.break_off();
        let mut peer = server.accept().await;
        peer.request().await;
        peer
    };
    let (reply, mut peer) = tokio::join!(cart.hold_seats(&session, SEATS), serve);
    assert!(matches!(reply, Err(Error::Unknown(Some(_)))), "{reply:?}");
    for (after, is_final) in [(6, false), (5, true)] {
        pass(Duration::from_secs(after), &mut [&mut peer]).await;
        let serve = async {
            while let Ok(request) = tokio::time::timeout(Duration::from_millis(400), peer.request()).await {
                peer.no(&request, Refusal::CartExpired).await;
            }
        };
        let (reply, ()) = tokio::join!(cart.hold_seats(&session, SEATS), serve);
        let error = reply.expect_err("refused");
        assert_eq!(error.refusal().map(|no| no.code), is_final.then_some(302), "{error:?}");
    }
}

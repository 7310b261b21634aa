//! Requests against a server that breaks connections, answers wrongly and forgets: retries, deadlines, close codes.

use std::time::{Duration, Instant};

use boxoffice_core::{answer::Answer, refusal::Refusal};
use boxoffice_wire::Call;

use super::common::*;
use crate::{Cart, Client, ClientConfig, Encoding, Error, FailKind, Seat};

const SEATS: [Seat; 2] = [Seat { row: 1, seat: 5 }, Seat { row: 1, seat: 6 }];

#[tokio::test]
async fn answers_may_arrive_in_any_order_in_both_encodings() {
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
        assert_eq!(client.server_hello().expect("a hello").node, "n");
        peer.ping().await;
    }
}

#[tokio::test]
async fn every_connection_sends_the_customer_and_its_token() {
    for encoding in Encoding::ALL {
        let server = Server::new(encoding).await;
        let config = server.config().customer(id("ada"), "7115");
        assert!(!format!("{config:?}").contains("7115"), "the token must not be logged");
        let credentials = |peer: &Peer| match &peer.client_hello {
            Some(Call::Hello(hello)) => (hello.customer.clone(), hello.customer_token.clone(), hello.token.clone()),
            other => panic!("{other:?} is not a hello"),
        };
        let (_client, peer) = server.connected(config).await;
        assert_eq!(credentials(&peer), (Some(id("ada")), Some("7115".into()), None));
        peer.reset();
        let again = server.accept().await;
        assert_eq!(credentials(&again), (Some(id("ada")), Some("7115".into()), None));
        let (_other, peer) = server.connected(server.config()).await;
        assert_eq!(credentials(&peer), (None, None, None));
    }
}

#[tokio::test]
async fn after_a_broken_connection_a_request_is_retried_with_the_same_request_id() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let cart = Cart::new(&client);
    let serve = async {
        let first = peer.request().await;
        peer.reset();
        let mut peer = server.accept().await;
        let second = peer.request().await;
        assert_eq!(second.key, first.key);
        assert!(second.deadline_ms <= first.deadline_ms, "a retry keeps the deadline");
        peer.ok(&second, held(cart.id())).await;
    };
    let session = id("hamlet");
    let (reply, ()) = tokio::join!(cart.hold_seats(&session, SEATS), serve);
    assert_eq!(reply.expect("granted").value.cart, cart.id());
}

#[tokio::test]
async fn after_a_temporary_failure_a_request_is_retried_with_the_same_request_id() {
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
        peer.expect_no_request().await;
    };
    let session = id("hamlet");
    let (reply, ()) = tokio::join!(cart.hold_seats(&session, SEATS), serve);
    let Err(Error::Refused(no)) = reply else { panic!("{reply:?} is not a refusal") };
    assert_eq!((no.code, no.name.as_str()), (302, "cart_expired"));
}

/// An attempt over a connection that is gone may still be granted. A refusal of the retry is then not final, but a
/// grant is.
#[tokio::test]
async fn a_refusal_over_another_connection_is_not_final() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let (session, cart) = (id("hamlet"), Cart::new(&client));
    let serve = async {
        let first = peer.request().await;
        peer.reset();
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
    assert!(reply.expect("the first attempt was granted late").retried);
    assert_eq!((client.retry_counts().lost, client.retry_counts().refused), (1, 2));

    // Refusals stay not final until the deadline, and also when the caller repeats the request with the same request
    // id.
    let in_doubt = cart.with_request_id("mine-2").with_deadline(Duration::from_millis(600));
    let serve = async {
        peer.request().await;
        peer.reset();
        let mut peer = server.accept().await;
        while let Ok(again) = tokio::time::timeout(Duration::from_millis(900), peer.request()).await {
            peer.no(&again, Refusal::CartEmpty).await;
        }
        peer
    };
    let (reply, mut peer) = tokio::join!(in_doubt.hold_seats(&session, SEATS), serve);
    assert!(matches!(reply, Err(Error::Unknown(Some(_)))), "{reply:?}");
    let serve = async {
        while let Ok(again) = tokio::time::timeout(Duration::from_millis(900), peer.request()).await {
            peer.no(&again, Refusal::CartEmpty).await;
        }
        peer
    };
    let (reply, mut peer) = tokio::join!(in_doubt.hold_seats(&session, SEATS), serve);
    assert!(matches!(reply, Err(Error::Unknown(Some(_)))), "{reply:?}");

    // The cart remembers a declined payment, so no attempt can buy any more.
    let serve = async {
        peer.request().await;
        peer.reset();
        let mut peer = server.accept().await;
        let again = peer.request().await;
        peer.no(&again, Refusal::PaymentDeclined("no money".into())).await;
        peer
    };
    let (reply, mut peer) = tokio::join!(cart.checkout(crate::gateway("card", None), None), serve);
    assert_eq!(reply.expect_err("declined").refusal().map(|no| no.code), Some(601));

    // A refusal of another request is final.
    let serve = async {
        let request = peer.request().await;
        peer.no(&request, Refusal::CartEmpty).await;
    };
    let (reply, ()) = tokio::join!(cart.hold_seats(&session, SEATS), serve);
    assert_eq!(reply.expect_err("refused").refusal().map(|no| no.code), Some(304));
}

#[tokio::test]
async fn a_request_without_an_answer_is_unknown_and_the_error_names_the_request_id() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let cart = Cart::new(&client).with_deadline(Duration::from_millis(200)).with_request_id("mine-1");
    let begin = Instant::now();
    let session = id("hamlet");
    let (reply, request) = tokio::join!(cart.hold_seats(&session, SEATS), peer.request());
    let Err(Error::Unknown(Some(request_id))) = reply else { panic!("{reply:?} is not unknown") };
    assert_eq!(request_id, "mine-1");
    let took = begin.elapsed();
    assert!((Duration::from_millis(200)..Duration::from_secs(2)).contains(&took), "it took {took:?}");
    assert!(request.deadline_ms <= 200);
    // A late answer has no effect.
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
async fn without_a_server_a_request_fails_as_not_done() {
    let server = Server::new(Encoding::MsgPack).await;
    let config = ClientConfig { deadline: Duration::from_millis(200), ..server.config() };
    drop(server);
    let client = Client::start(config.clone()).expect("a client");
    let reply = client.session_get(&id("hamlet")).await;
    let Err(Error::Failed(fail)) = reply else { panic!("{reply:?} did not fail") };
    assert_eq!(fail.kind, FailKind::NotReady);
    let refused = Client::connect(config).await.expect_err("no server listens").to_string();
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
async fn the_client_does_not_reconnect_after_a_permanent_close_code() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, peer) = server.connected(server.config()).await;
    peer.close(4001).await;
    server.expect_no_connection().await;
    let reply = client.session_get(&id("hamlet")).await;
    let Err(Error::Closed(reason)) = reply else { panic!("{reply:?} is not closed") };
    assert!(reason.contains("4001"), "{reason}");
}

#[tokio::test]
async fn the_client_reconnects_when_the_server_asks_it_to() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, peer) = server.connected(server.config()).await;
    peer.close(4200).await;
    let begin = Instant::now();
    let mut peer = server.accept().await;
    assert!(begin.elapsed() < Duration::from_secs(1), "it took {:?}", begin.elapsed());
    peer.notice(50).await;
    let mut next = server.accept().await;
    peer.expect_close().await;
    let hamlet = id("hamlet");
    let (reply, ()) = tokio::join!(client.session_block(&hamlet, SEATS), async {
        let request = next.request().await;
        next.ok(&request, Answer::Done).await;
    });
    reply.expect("granted");
}

#[tokio::test]
async fn without_retries_the_first_failure_is_the_answer() {
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
        peer.reset();
    });
    assert!(matches!(reply, Err(Error::Unknown(Some(_)))), "{reply:?}");
}

#[tokio::test]
async fn the_number_of_requests_under_way_is_limited() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(ClientConfig { under_way_max: 2, ..server.config() }).await;
    let hamlet = id("hamlet");
    let block = || client.session_block(&hamlet, SEATS);
    let (one, two, three, ()) = tokio::join!(block(), block(), block(), async {
        let (first, second) = (peer.request().await, peer.request().await);
        peer.expect_no_request().await;
        peer.ok(&second, Answer::Done).await;
        let third = peer.request().await;
        peer.ok(&third, Answer::Done).await;
        peer.ok(&first, Answer::Done).await;
    });
    one.and(two).and(three).expect("granted");
}

#[tokio::test]
async fn the_connection_closes_with_the_last_clone_of_the_client() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let copy = client.clone();
    drop(client);
    peer.expect_no_request().await;
    drop(copy);
    peer.expect_close().await;
}

#[tokio::test]
async fn an_abandoned_request_does_not_block_the_next_one() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(ClientConfig { under_way_max: 1, ..server.config() }).await;
    let hamlet = id("hamlet");
    let timed_out = tokio::time::timeout(Duration::from_millis(50), client.session_get(&hamlet)).await;
    assert!(timed_out.is_err());
    let request = peer.request().await;
    let (reply, ()) = tokio::join!(client.session_block(&hamlet, SEATS), async {
        peer.no(&request, Refusal::NotFound("session hamlet".into())).await;
        let request = peer.request().await;
        peer.ok(&request, Answer::Done).await;
    });
    reply.expect("granted");
}

/// A doubt ends when the last attempt in doubt cannot arrive any more, however often the caller repeats the request.
#[tokio::test]
async fn refused_retries_do_not_prolong_a_doubt() {
    let server = Server::new(Encoding::MsgPack).await;
    let (client, mut peer) = server.connected(server.config()).await;
    let cart = Cart::new(&client).with_request_id("mine-3").with_deadline(Duration::from_millis(300));
    let session = id("hamlet");
    let serve = async {
        peer.request().await;
        peer.reset();
        let mut peer = server.accept().await;
        peer.request().await;
        peer
    };
    let (reply, mut peer) = tokio::join!(cart.hold_seats(&session, SEATS), serve);
    assert!(matches!(reply, Err(Error::Unknown(Some(_)))), "{reply:?}");
    for (after, is_final) in [(6, false), (5, true)] {
        advance_time(Duration::from_secs(after), &mut [&mut peer]).await;
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

#[tokio::test]
async fn only_a_node_that_knows_patience_is_told_it_and_only_with_what_begins_a_purchase() {
    for encoding in Encoding::ALL {
        let server = Server::new(encoding).await;
        let session = id("hamlet");
        for first_version in [false, true] {
            let config = ClientConfig { patience: Some(Duration::from_secs(300)), ..server.config() };
            let (client, mut peer) = match first_version {
                true => server.connected_as_first_version(config).await,
                false => server.connected(config).await,
            };
            client.wait_for_hello().await.expect("a hello");
            let cart = Cart::new(&client);
            let serve = async {
                let hold = peer.request().await;
                let patient = !first_version && (290_000..=300_000).contains(&hold.patience_ms);
                assert!(patient || (first_version && hold.patience_ms == hold.deadline_ms), "{}", hold.patience_ms);
                peer.ok(&hold, held(cart.id())).await;
                let get = peer.request().await;
                assert_eq!(get.patience_ms, get.deadline_ms, "a read begins nothing");
                peer.no(&get, Refusal::CartEmpty).await;
            };
            let buy = async {
                cart.hold_seats(&session, SEATS).await.expect("granted");
                cart.get().await.expect_err("refused");
            };
            tokio::join!(buy, serve);
            // Less patience than the deadline says nothing.
            let cart = cart.with_patience(Duration::from_millis(5));
            let serve = async {
                let hold = peer.request().await;
                assert_eq!(hold.patience_ms, hold.deadline_ms);
                peer.ok(&hold, held(cart.id())).await;
            };
            let (reply, ()) = tokio::join!(cart.hold_seats(&session, SEATS), serve);
            reply.expect("granted");
        }
    }
}

//! The closing handshake of WebSockets (RFC 6455, 7.1): a close is answered before the connection ends, over TLS as well.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use boxoffice_edge::{Limits, WebConfig};
use boxoffice_wire::{Encoding, Op};
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio_tungstenite::tungstenite::{
    Message,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

use crate::server::{
    common::{Client, TIMEOUT, TestServer, in_both},
    web::Pem,
};

/// Closes a client with this code, or without one, and returns the code of the answer. Panics if the connection ends without one, or
/// goes on after it.
async fn closes(client: &mut Client, code: Option<u16>) -> Option<u16> {
    let frame = code.map(|code| CloseFrame { code: CloseCode::from(code), reason: "that is all".into() });
    client.socket.send(Message::Close(frame)).await.expect("sent");
    loop {
        match tokio::time::timeout(TIMEOUT, client.socket.next()).await.expect("something comes") {
            // What was written before.
            Some(Ok(Message::Text(_) | Message::Binary(_) | Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Close(answer))) => {
                let after = tokio::time::timeout(TIMEOUT, client.socket.next()).await.expect("the end comes");
                assert!(after.is_none(), "{after:?} after the close");
                return answer.map(|answer| answer.code.into());
            }
            other => panic!("{other:?} instead of a close"),
        }
    }
}

/// Clients that close: with nothing under way, with answers and feeds on their way, and with a request that is never answered.
async fn every_client_is_answered(server: &TestServer, address: SocketAddr) {
    let mut seat = 0;
    for encoding in [Encoding::Json, Encoding::MsgPack] {
        for code in [Some(1000), Some(1001), Some(4_321), None] {
            let mut idle = Client::connect(address, encoding).await;
            assert_eq!(closes(&mut idle, code).await, code, "{encoding:?}");
            let mut busy = Client::connect(address, encoding).await;
            for id in 0..40 {
                busy.send(id, Op::SessionMap, json!({"id": "hamlet"})).await;
            }
            assert_eq!(closes(&mut busy, code).await, code, "{encoding:?}, busy");
            let mut watching = Client::connect(address, encoding).await;
            watching.send(1, Op::Watch, json!({"entity": "session/hamlet"})).await;
            watching.code().await;
            server.node.sell(&[seat]);
            seat += 1;
            assert_eq!(closes(&mut watching, code).await, code, "{encoding:?}, watching");
        }
        // A code that no client may send is answered as a violation.
        let mut wrong = Client::connect(address, encoding).await;
        assert_eq!(closes(&mut wrong, Some(1005)).await, Some(1002), "{encoding:?}");
    }
    let unsent = server.metric("boxoffice_edge_sockets").await;
    for _ in 0..200 {
        if server.metric("boxoffice_edge_sockets").await == 0.0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("connections are left: {unsent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clients_close_is_answered_before_the_end() {
    let server = TestServer::open(Limits::default());
    every_client_is_answered(&server, server.address).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clients_close_is_answered_before_the_end_over_tls() {
    let pem = Arc::new(Pem::new());
    let (server, _) = pem.server(WebConfig::default(), Limits::default());
    let address = pem.tunnel(server.clients).await;
    every_client_is_answered(&server, address).await;
}

/// A client that closes and then neither reads nor ends does not keep its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_closes_and_stays_is_ended() {
    let limits = Limits { close_timeout: Duration::from_millis(200), ..Limits::default() };
    let server = TestServer::open(limits);
    in_both(|encoding| {
        let address = server.address;
        async move {
            let mut client = Client::connect(address, encoding).await;
            client.socket.send(Message::Close(None)).await.expect("sent");
            // Nobody reads its socket, and it stays open.
            tokio::time::sleep(Duration::from_millis(600)).await;
            drop(client);
        }
    })
    .await;
    assert_eq!(server.metric("boxoffice_edge_sockets").await, 0.0);
}

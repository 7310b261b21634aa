//! Pages of other sites: cross-origin requests and DNS rebinding.

use std::net::Ipv4Addr;

use crate::common::{ADMIN, Home, Server};

use super::{
    stage::{SHOP, Stage},
    wire::{self, HttpAnswer, attacker},
};

const SHOP_PAGE: &str = "https://shop.example";

async fn posts(to: std::net::SocketAddr, host: &str, origin: Option<&str>, more: &str) -> HttpAnswer {
    let origin = origin.map(|origin| format!("origin: {origin}\r\n")).unwrap_or_default();
    let request = format!(
        "POST /v1/venue.get HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\n{origin}{more}\
         content-length: 14\r\n\r\n{{\"id\":\"royal\"}}"
    );
    wire::exchange(attacker(1), to, &request).await.expect("an answer")
}

async fn upgrades(to: std::net::SocketAddr, host: &str, origin: &str) -> u16 {
    let request = wire::upgrade(&format!("origin: {origin}\r\n")).replace("host: localhost", &format!("host: {host}"));
    // An accepted connection stays open, so read the status line only.
    let mut stream = wire::connect(attacker(1), to).await.expect("a connection");
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.expect("sent");
    let mut answer = [0; 12];
    tokio::io::AsyncReadExt::read_exact(&mut stream, &mut answer).await.expect("an answer");
    String::from_utf8_lossy(&answer[9..]).parse().expect("a status")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_origins_are_refused() {
    let config = SHOP.replace("[listen]\n", &format!("[listen]\norigins = [{SHOP_PAGE:?}]\n"));
    let stage = Stage::of_home("foreign_origins_are_refused", Home::with_config(&config)).await;
    let run = stage.start_attack("3 pages of other origins and rebound names", 20).await;
    let own = stage.address().to_string();
    let own_page = format!("http://{own}");
    let port = stage.address().port();
    let rebound = format!("evil.example:{port}");
    let rebound_page = format!("http://{rebound}");
    let neighbour = format!("http://127.0.0.1:{}", if port == 1_024 { 1_025 } else { port - 1 });
    for (host, origin, welcome) in [
        (own.as_str(), SHOP_PAGE, true),
        (own.as_str(), own_page.as_str(), true),
        (own.as_str(), "https://evil.example", false),
        (own.as_str(), "null", false),
        (own.as_str(), "http://shop.example", false),
        (own.as_str(), "https://shop.example.evil.example", false),
        (own.as_str(), "https://shop.example:444", false),
        (own.as_str(), neighbour.as_str(), false),
        (own.as_str(), "file://", false),
        // The name of the page resolves to the node: Host and Origin agree, and neither is the node's.
        (rebound.as_str(), rebound_page.as_str(), false),
    ] {
        let reply = posts(stage.address(), host, Some(origin), "").await;
        let reads = reply.head.to_ascii_lowercase().contains("access-control-allow-origin");
        if welcome {
            assert!(reply.status == 200 && reads, "{origin} at {host}: {reply:?}");
        } else {
            assert!((reply.status, reply.code()) == (403, 108) && !reads, "{origin} at {host}: {reply:?}");
        }
        let expected = if welcome { 101 } else { 403 };
        assert_eq!(upgrades(stage.address(), host, origin).await, expected, "{origin} at {host}");
    }
    // A valid token does not allow a foreign origin.
    let shown = format!("authorization: Bearer {ADMIN}\r\n");
    let reply = posts(stage.address(), &own, Some("https://evil.example"), &shown).await;
    assert_eq!(reply.code(), 108);
    // A form cannot send JSON, and is refused before its body is read.
    let form = "POST /v1/cart.open HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: text/plain\r\n\
                idempotency-key: r\r\ncontent-length: 44\r\n\r\n{\"token\":\"000102030405060708090a0b0c0d0e0f\"}";
    assert_eq!(wire::exchange(attacker(1), stage.address(), form).await.expect("an answer").code(), 101);
    assert!(stage.metric("boxoffice_edge_denied_total{reason=\"origin\"}").await >= 16);
    let sold = run.end().await;
    stage.has_sold_exactly(sold).await;
    stage.server.stop();
}

/// A proxy on this machine makes the world look like loopback, so what it forwards is refused and explained once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_operators_port_serves_no_proxy() {
    let home = Home::with_config(SHOP);
    let mut command = home.shipped_command();
    command.env_remove("BOXOFFICE_ADMIN_TOKEN");
    let server = Server::spawn(command).unwrap_or_else(|refused| panic!("the node does not serve: {refused:?}"));
    let ask = async |path: &str, header: &str| {
        let to = server.operators();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\n{header}\r\n");
        wire::exchange(Ipv4Addr::LOCALHOST, to, &request).await.expect("an answer").status
    };
    let forwarding = [
        "Forwarded: for=203.0.113.7\r\n",
        "X-Forwarded-For: 203.0.113.7\r\n",
        "x-forwarded-for: \r\n",
        "X-Forwarded-Host: tickets.example\r\n",
        "X-Forwarded-Proto: https\r\n",
        "X-Forwarded-Server: one\r\n",
        "X-Real-IP: 127.0.0.1\r\n",
        "Via: 1.1 proxy\r\n",
    ];
    for path in ["/v1/admin.status", "/metrics", "/readyz", "/", "/v1/ws"] {
        for header in forwarding {
            assert_eq!(ask(path, header).await, 421, "{path} with {header}");
        }
    }
    assert_eq!(ask("/v1/admin.status", "").await, 200, "programs of this machine need no credentials");
    let explained = server.stderr().matches("the operators' port has no credentials").count();
    assert_eq!(explained, 1, "{}", server.stderr());
    server.stop();
}

/// An operators' port without credentials accepts only the names of this machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebound_name_cannot_reach_an_open_operators_port() {
    let home = Home::with_config(SHOP);
    let mut command = home.shipped_command();
    command.env_remove("BOXOFFICE_ADMIN_TOKEN");
    let server = Server::spawn(command).unwrap_or_else(|refused| panic!("the node does not serve: {refused:?}"));
    let operators = server.operators();
    let (own, page) = (operators.to_string(), format!("http://evil.example:{}", operators.port()));
    let ask = async |path: &str, host: &str, origin: &str| {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{origin}idempotency-key: r\r\n\
             content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
        );
        wire::exchange(Ipv4Addr::LOCALHOST, operators, &request).await.expect("an answer").status
    };
    let evil = format!("evil.example:{}", operators.port());
    assert_eq!(ask("/v1/admin.status", &own, "").await, 200, "it needs no credentials");
    assert_eq!(ask("/v1/admin.status", &evil, "").await, 421);
    assert_eq!(ask("/v1/admin.status", &evil, &format!("origin: {page}\r\n")).await, 421);
    assert_eq!(ask("/v1/admin.status", &own, &format!("origin: {page}\r\n")).await, 403);
    assert_eq!(ask("/v1/admin.status", &own, "origin: https://shop.example\r\n").await, 403);
    for path in ["/", "/metrics", "/healthz", "/readyz"] {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {evil}\r\nconnection: close\r\n\r\n");
        let reply = wire::exchange(Ipv4Addr::LOCALHOST, operators, &request).await.expect("an answer");
        assert_eq!(reply.status, 421, "{path} with a rebound name");
    }
    server.stop();
}

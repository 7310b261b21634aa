//! Requests, connections and handshakes that are counted where only the client's network is known.

use std::{net::SocketAddr, time::Duration};

use boxoffice_core::access::{Role, Roles};
use boxoffice_edge::{EdgeConfig, Limits, Proxies, ProxyWay, WebConfig, budgets::BudgetConfig};
use boxoffice_wire::{Encoding, Op};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use crate::{
    http_client::HttpClient,
    server::common::{Client, TIMEOUT, TestServer, add_key, planted, request},
    server::full_port::proxy_header,
    server::web::Pem,
};

const CLIENT: &str = "203.0.113.7";

fn behind_proxies(way: ProxyWay, budgets: BudgetConfig) -> EdgeConfig {
    let networks = vec!["127.0.0.0/8".parse().expect("a network")];
    let web = WebConfig { proxies: Proxies { networks, way }, ..WebConfig::default() };
    EdgeConfig { anonymous: Some(Role::Sell), web, budgets, ..EdgeConfig::default() }
}

/// A node that gives each network ten requests a second, fifty at once.
fn server() -> TestServer {
    let budgets = BudgetConfig { requests_per_second: 10, ..BudgetConfig::default() };
    TestServer::strict(behind_proxies(ProxyWay::ForwardedFor, budgets))
}

/// How many of 200 requests were answered with anything but 429.
#[derive(Debug)]
struct Answered {
    all: u32,
    /// Less those that the client could send in the time that they took, if each cost one unit.
    at_once: u32,
}

/// Sends 200 requests as this client, which comes anew when it is sent away.
async fn answered(server: &TestServer, client: &str, method: &str, path: &str, headers: &[(&str, &str)]) -> Answered {
    let headers = [&[("x-forwarded-for", client)], headers].concat();
    let (mut all, mut http, begun) = (0, HttpClient::connect(server.clients).await, Instant::now());
    for _ in 0..200 {
        let answer = http.ask(method, path, &headers, if method == "POST" { b"{}" } else { b"" }).await;
        all += u32::from(answer.status != 429);
        if answer.header("connection") == Some("close") {
            http = HttpClient::connect(server.clients).await;
        }
    }
    Answered { all, at_once: all.saturating_sub(begun.elapsed().as_secs() as u32 * 10) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_none_of_an_op_are_counted() {
    let json = [("content-type", "application/json")];
    let files = ["/", "/page.json", "/page/page.css", "/page/nothing.js", "/v1/openapi.json", "/metrics"];
    let others = ["/nowhere", "/v1/a/b", "/v1/no.such_op"];
    for path in files.into_iter().chain(others) {
        let server = server();
        let counted = answered(&server, CLIENT, "GET", path, &[]).await;
        assert!(counted.all >= 4 && counted.at_once <= 70, "{path}: {counted:?} of 200");
        assert!(
            answered(&server, "203.0.113.8", "GET", path, &[]).await.all >= 4,
            "{path}: another network has its own"
        );
        assert_eq!(
            answered(&server, "127.0.0.5", "GET", path, &[]).await.all,
            200,
            "{path}: this machine is not counted"
        );
    }
    for (method, path) in [("POST", "/v1/no.such_op"), ("DELETE", "/v1/cart.open"), ("POST", "/v1/payments/webhook")] {
        let server = server();
        let counted = answered(&server, CLIENT, method, path, &json).await;
        assert!(counted.all >= 40 && counted.at_once <= 70, "{method} {path}: {counted:?} of 200");
    }
}

/// Fifty balancers behind one address ask for health as often as they like, whatever strangers ask there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_have_a_budget_of_their_own() {
    let budgets = BudgetConfig { requests_per_second: 500, ..BudgetConfig::default() };
    let server = TestServer::strict(behind_proxies(ProxyWay::ForwardedFor, budgets));
    let shown = [("x-forwarded-for", CLIENT)];
    // Somebody there floods.
    let mut flood = HttpClient::connect(server.clients).await;
    while flood.get("/v1/no.such_op", &shown).await.status != 429 {}
    let mut balancers = Vec::new();
    for _ in 0..50 {
        balancers.push(HttpClient::connect(server.clients).await);
    }
    for _ in 0..20 {
        for balancer in &mut balancers {
            for path in ["/healthz", "/readyz"] {
                assert_eq!(balancer.get(path, &shown).await.status, 200);
            }
        }
    }
    // A flood of probes is none of balancers.
    let few = self::server();
    let probes = answered(&few, CLIENT, "GET", "/healthz", &[]).await;
    assert!(probes.all >= 40 && probes.at_once <= 70, "{probes:?} of 200");
}

/// Credentials that nobody looks at any more end the connection. Right ones of the same network are looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_credentials_end_their_connections() {
    let budgets = BudgetConfig { requests_per_second: 10, ..BudgetConfig::default() };
    let mut config = behind_proxies(ProxyWay::ForwardedFor, budgets);
    // Once all turns are taken, none is free before half a minute, however long the sending of a thousand frames takes.
    config.limits = Limits { auth_failure_step: Duration::from_secs(30), ..Limits::default() };
    let server = TestServer::strict(config);
    let wrong = [("x-forwarded-for", CLIENT), ("authorization", "Bearer nonsense")];
    // Turns are taken by those that do not wait.
    let mut waiting = Vec::new();
    for _ in 0..30 {
        let mut http = HttpClient::connect(server.clients).await;
        http.send("GET", "/v1/session.map?id=hamlet", &wrong).await;
        waiting.push(http);
    }
    sleep(Duration::from_millis(200)).await;
    let mut closed = 0;
    for _ in 0..10 {
        let mut http = HttpClient::connect(server.clients).await;
        let answer = http.get("/v1/session.map?id=hamlet", &wrong).await;
        assert_eq!((answer.status, answer.header("connection")), (429, Some("close")));
        closed += u32::from(http.is_closed().await);
    }
    assert_eq!(closed, 10);
    // Over WebSocket as well, after many.
    let mut socket = Client::connect_with(
        request(server.clients, "boxoffice.v1.json", &[("x-forwarded-for", "203.0.113.9")]),
        Encoding::Json,
    )
    .await;
    let hello = socket.request(1, Op::Hello, None, None, &json!({"token": "nonsense"}));
    for _ in 0..30 {
        let mut other = HttpClient::connect(server.clients).await;
        let wrong = [("x-forwarded-for", "203.0.113.9"), ("authorization", "Bearer nonsense")];
        other.send("GET", "/v1/session.map?id=hamlet", &wrong).await;
        waiting.push(other);
    }
    sleep(Duration::from_millis(200)).await;
    for _ in 0..1_100 {
        let message = socket.message(&hello);
        if futures_util::SinkExt::send(&mut socket.socket, message).await.is_err() {
            break;
        }
    }
    let mut codes = 0;
    loop {
        match socket.next().await {
            crate::server::common::Received::Frame(_) => codes += 1,
            crate::server::common::Received::Closed(code, _) => {
                assert_eq!(code, 4104);
                break;
            }
            crate::server::common::Received::Broken => break,
        }
    }
    assert!((900..=1_100).contains(&codes), "{codes} were refused before the close");
    let key = add_key(&server, "till", Roles::of(Role::Desk));
    let bearer = format!("Bearer {key}");
    let right = [("x-forwarded-for", CLIENT), ("authorization", bearer.as_str())];
    let mut till = HttpClient::connect(server.clients).await;
    assert_eq!(till.get("/v1/session.map?id=hamlet", &right).await.status, 200);
}

/// Whether a connection of this client is served.
async fn is_served(to: SocketAddr, client: [u8; 4]) -> bool {
    let mut stream = TcpStream::connect(to).await.expect("a connection");
    let _ = stream.write_all(&proxy_header(client)).await;
    let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
    let mut answer = Vec::new();
    let _ = timeout(TIMEOUT, stream.read_to_end(&mut answer)).await.expect("in time");
    answer.starts_with(b"HTTP/1.1 200")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_connections_of_a_network_are_counted() {
    let budgets = BudgetConfig { connections_per_second: 4, requests_per_second: 0, ..BudgetConfig::default() };
    let server = TestServer::strict(behind_proxies(ProxyWay::ProxyProtocol, budgets));
    let (mut served, begun) = (0, Instant::now());
    for _ in 0..100 {
        served += u32::from(is_served(server.clients, [203, 0, 113, 7]).await);
    }
    let more = begun.elapsed().as_secs() as u32 * 4 + 5;
    assert!((20..=20 + more).contains(&served), "{served} of 100");
    assert!(is_served(server.clients, [203, 0, 113, 8]).await, "another network");
    for _ in 0..100 {
        assert!(is_served(server.clients, [127, 0, 0, 9]).await, "this machine is not counted");
    }
    assert!(server.metric("boxoffice_edge_over_budget_total{budget=\"new_connections\"}").await > 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handshakes_of_a_network_are_counted() {
    let budgets = BudgetConfig { handshakes_per_second: 2, ..BudgetConfig::default() };
    let pem = Pem::new();
    let mut config = behind_proxies(ProxyWay::ProxyProtocol, budgets);
    config.web.certificate = Some(pem.certificate());
    let server = TestServer::strict(config);
    let (mut done, begun) = (0, Instant::now());
    for _ in 0..40 {
        let mut stream = TcpStream::connect(server.clients).await.expect("a connection");
        stream.write_all(&proxy_header([203, 0, 113, 7])).await.expect("written");
        done += u32::from(pem.connect(stream).await.is_ok());
    }
    let more = begun.elapsed().as_secs() as u32 * 2 + 3;
    assert!((10..=10 + more).contains(&done), "{done} of 40");
    for client in [[203, 0, 113, 8], [127, 0, 0, 9]] {
        let mut stream = TcpStream::connect(server.clients).await.expect("a connection");
        stream.write_all(&proxy_header(client)).await.expect("written");
        assert!(pem.connect(stream).await.is_ok());
    }
    assert!(server.metric("boxoffice_edge_over_budget_total{budget=\"handshakes\"}").await > 0.0);
}

#[test]
fn planted_faults_are_found() {
    planted::are_found(
        "server::counted",
        &[("wrong credentials are looked at for ever", "wrong_credentials_end_their_connections")],
    );
}

//! Headers that keep pages of other sites out, on every answer of both ports, and requests of such pages.

use std::{collections::BTreeSet, fs, net::SocketAddr, time::Duration};

use boxoffice_core::access::Role;
use boxoffice_edge::{Certificate, EdgeConfig, Limits, TlsFiles, WebConfig};
use boxoffice_wire::{Op, path::Path};
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    http_client::{HttpAnswer, HttpClient},
    server::common::{TIMEOUT, TestServer, token},
};

const ALLOWED: &str = "https://tickets.example";

/// The paths of the table of access, with something in the place of each parameter. The router is made of that table, so a new route
/// is walked as well.
fn routes() -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for path in Path::ALL {
        for value in ["hamlet", "nowhere", "js/main.js", "cart.open", "session.map", "admin.audit"] {
            let mut filled = path.route().to_owned();
            while let Some((before, after)) = filled.split_once('{') {
                filled = format!("{before}{value}{}", after.split_once('}').expect("an end").1);
            }
            paths.insert(filled);
        }
    }
    assert!(["/", "/v1/ws", "/page.json", "/v1/cart.open"].iter().all(|path| paths.contains(*path)), "{paths:?}");
    paths
}

/// The headers that every answer has, and the resource policy that it must have.
fn check(what: &str, answer: &HttpAnswer) {
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{what}: {answer:?}");
    let policies: Vec<&str> = answer
        .headers
        .iter()
        .filter(|(name, _)| name == "cross-origin-resource-policy")
        .map(|(_, value)| value.as_str())
        .collect();
    let policy = match answer.header("access-control-allow-origin") {
        Some(_) => "cross-origin",
        None => "same-origin",
    };
    assert_eq!(policies, [policy], "{what}: {answer:?}");
}

async fn asked(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)]) -> HttpAnswer {
    let body: &[u8] = if method == "POST" { b"{}" } else { b"" };
    HttpClient::connect(address).await.ask(method, path, headers, body).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_of_both_ports_has_the_headers() {
    let server = TestServer::with(EdgeConfig { origins: vec![ALLOWED.into()], ..EdgeConfig::default() });
    let mut paths: Vec<String> = routes().into_iter().collect();
    paths.extend(["/nothing", "/v1/no/op", "/page/none.js", "/page/../x", "/%ff"].map(str::to_owned));
    paths.extend(Op::ALL.map(|op| format!("/v1/{}", op.name())));
    let variants: [&[(&str, &str)]; 9] = [
        &[],
        &[("origin", ALLOWED)],
        &[("origin", "https://evil.example")],
        &[("authorization", "Bearer wrong")],
        &[("if-none-match", "*")],
        &[("host", "twice")],
        &[("upgrade", "websocket")],
        &[("sec-fetch-site", "cross-site")],
        &[("content-type", "application/json"), ("idempotency-key", "r1")],
    ];
    let mut statuses = BTreeSet::new();
    for address in [server.clients, server.address] {
        for path in &paths {
            for (number, headers) in variants.iter().enumerate() {
                // The first variants with every method, the others with one.
                let methods: &[&str] = match number {
                    0 => &["GET", "HEAD", "POST", "OPTIONS", "DELETE"],
                    1 | 2 => &["GET", "OPTIONS"],
                    8 => &["POST"],
                    _ => &["GET"],
                };
                for method in methods {
                    // This op is answered by the test only.
                    if path.starts_with("/v1/cart.get") || path.starts_with("/v1/cart.revoke") {
                        continue;
                    }
                    let answer = asked(address, method, path, headers).await;
                    check(&format!("{method} {path} {headers:?} at {address}"), &answer);
                    statuses.insert(answer.status);
                }
            }
        }
    }
    for status in [200, 204, 304, 400, 401, 403, 404, 405, 426] {
        assert!(statuses.contains(&status), "{status} was not walked: {statuses:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_without_a_router_have_the_headers() {
    let read = async |mut stream: TcpStream| {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.expect("sent");
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut answer)).await.expect("it is closed");
        String::from_utf8(answer).expect("text")
    };
    let check = |status: &str, answer: &str| {
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(answer.contains("\r\nx-content-type-options: nosniff\r\n"), "{answer}");
        assert!(answer.contains("\r\ncross-origin-resource-policy: same-origin\r\n"), "{answer}");
    };
    // The port has no room.
    let full = TestServer::open(Limits { connections_max: 1, ..Limits::default() });
    let mut first = HttpClient::connect(full.clients).await;
    assert_eq!(first.get("/healthz", &[]).await.status, 200);
    check("503", &read(TcpStream::connect(full.clients).await.expect("a connection")).await);
    // The network has too many connections.
    let mut config = EdgeConfig::default();
    config.budgets.connections = 1;
    let counted = TestServer::strict(EdgeConfig { anonymous: Some(Role::Sell), ..config });
    // Those beyond the bound are told so when they ask, and those far beyond it at once.
    let mut first = HttpClient::connect(counted.clients).await;
    assert_eq!(first.get("/healthz", &[]).await.status, 200);
    let mut open = Vec::new();
    for _ in 0..7 {
        open.push(TcpStream::connect(counted.clients).await.expect("a connection"));
    }
    // The node may count a later connection first.
    let mut answer = String::new();
    for _ in 0..10 {
        answer = read(TcpStream::connect(counted.clients).await.expect("a connection")).await;
        if !answer.contains("sec-websocket-version") {
            break;
        }
    }
    assert!(!answer.contains("sec-websocket-version"), "the router answered: {answer}");
    check("429", &answer);
    // A client without TLS at a port with TLS.
    let folder = tempfile::tempdir().expect("a temporary directory");
    let files = TlsFiles { certificate: folder.path().join("c.pem"), key: folder.path().join("k.pem") };
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    fs::write(&files.certificate, params.self_signed(&key).expect("a certificate").pem()).expect("written");
    fs::write(&files.key, key.serialize_pem()).expect("written");
    let certificate = Some(Certificate::load(files).expect("valid files").into());
    let web = WebConfig { certificate, ..WebConfig::default() };
    let sealed = TestServer::with(EdgeConfig { web, ..EdgeConfig::default() });
    check("400", &read(TcpStream::connect(sealed.clients).await.expect("a connection")).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_other_sites_make_no_requests_without_their_origin() {
    let server = TestServer::with(EdgeConfig { origins: vec![ALLOWED.into()], ..EdgeConfig::default() });
    let status = async |address: SocketAddr, path: &str, headers: &[(&str, &str)]| {
        asked(address, "GET", path, headers).await.status
    };
    let (operators, clients) = (server.address, server.clients);
    for site in ["cross-site", "same-site"] {
        let site = ("sec-fetch-site", site);
        // `<img src="http://127.0.0.1:7380/v1/admin.audit">` on any page.
        let image = [site, ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")];
        for path in ["/v1/admin.audit", "/v1/admin.status", "/metrics", "/", "/healthz", "/readyz", "/nothing"] {
            let before = std::time::Instant::now();
            let answer = asked(operators, "GET", path, &image).await;
            assert_eq!(answer.status, 403, "{path}");
            assert_eq!(answer.body, b"pages of other sites may not ask here\n");
            assert!(before.elapsed() < Duration::from_secs(10));
        }
        let link = [site, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        assert_eq!(status(operators, "/v1/admin.audit", &link).await, 403, "a link is followed with the port's rights");
        let allowed = [site, ("sec-fetch-mode", "cors"), ("origin", ALLOWED)];
        let foreign = [site, ("sec-fetch-mode", "cors"), ("origin", "https://evil.example")];
        assert_eq!(status(operators, "/metrics", &allowed).await, 200, "the page of another node reads counters");
        assert_eq!(status(operators, "/metrics", &foreign).await, 403);
        // At the clients' port: links, files of the page, and pages of allowed origins.
        for path in ["/", "/page.json", "/page/js/main.js", "/healthz"] {
            assert_eq!(status(clients, path, &image).await, 200, "{path}");
        }
        for path in ["/v1/session.map?id=hamlet", "/v1/sessions/hamlet/map", "/v1/openapi.json"] {
            assert_eq!(status(clients, path, &image).await, 403, "{path}");
            assert_eq!(status(clients, path, &link).await, 200, "{path}");
            assert_eq!(status(clients, path, &allowed).await, 200, "{path}");
            assert_eq!(status(clients, path, &foreign).await, 403, "{path}");
        }
        let preflight = [site, ("origin", ALLOWED), ("access-control-request-method", "POST")];
        for address in [operators, clients] {
            assert_eq!(asked(address, "OPTIONS", "/v1/admin.status", &preflight).await.status, 204);
        }
    }
    // Typed addresses, the page itself, and programs.
    for headers in [&[("sec-fetch-site", "none")][..], &[("sec-fetch-site", "same-origin")], &[]] {
        for address in [operators, clients] {
            assert_eq!(status(address, "/", headers).await, 200, "{headers:?}");
        }
        assert_eq!(status(operators, "/v1/admin.status", headers).await, 200, "{headers:?}");
    }
    server.metric_is("boxoffice_edge_denied_total{reason=\"role\"}", 0.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_carts_token_is_no_part_of_an_address() {
    let server = TestServer::open(Limits::default());
    let mut http_client = HttpClient::connect(server.clients).await;
    let secret = token(1).to_string();
    for query in [format!("token={secret}"), format!("x=1&token={secret}"), "token=1".into(), "token=".into()] {
        let answer = http_client.get(&format!("/v1/cart.get?{query}"), &[]).await;
        assert_eq!((answer.status, answer.code()), (400, 101), "{query}");
        let words = answer.json()["no"]["message"].to_string();
        assert!(words.contains("Boxoffice-Cart-Token") && words.contains("POST"), "{words}");
        assert!(!words.contains(&secret), "{words}");
    }
    // The header goes with both methods. The backend has the command then, and this one answers it when the test says so.
    let waits = async |method: &str, headers: &[(&str, &str)], body: &str| {
        let mut http_client = HttpClient::connect(server.clients).await;
        let ask = http_client.ask(method, "/v1/cart.get", headers, body.as_bytes());
        let answer = tokio::time::timeout(Duration::from_millis(300), ask).await;
        let commands = std::mem::take(&mut *server.node.waiting.lock()).len();
        (commands, answer.ok().map(|answer| answer.code()))
    };
    let shown = ("boxoffice-cart-token", secret.as_str());
    let json = ("content-type", "application/json");
    let (same, other) = (json!({"token": secret}).to_string(), json!({"token": token(2)}).to_string());
    assert_eq!(waits("GET", &[shown], "").await, (1, None));
    assert_eq!(waits("POST", &[shown], "").await, (1, None));
    assert_eq!(waits("POST", &[shown, json], "{}").await, (1, None));
    assert_eq!(waits("POST", &[shown, json], &same).await, (1, None));
    assert_eq!(waits("POST", &[json], &same).await, (1, None));
    assert_eq!(waits("POST", &[shown, json], &other).await, (0, Some(101)));
    assert_eq!(waits("GET", &[shown, shown], "").await, (0, Some(101)));
    assert_eq!(waits("GET", &[("boxoffice-cart-token", "short")], "").await, (0, Some(101)));
    assert_eq!(waits("GET", &[], "").await, (0, Some(101)));
    assert_eq!(waits("POST", &[shown, json], "[").await, (0, Some(101)));
}

//! Commands over HTTP: limits, deadlines, rights.

use std::time::{Duration, Instant};

use boxoffice_core::{
    access::{Role, Roles},
    id::{Request, RequestHash},
};
use boxoffice_edge::{EdgeConfig, Limits, backend::Member};
use boxoffice_wire::{
    Op,
    schema::{self, HttpMethods},
};
use serde_json::{Value, json};

use crate::{
    http_client::HttpClient,
    server::common::{TIMEOUT, TestServer, cart, opened, token},
};

const JSON: (&str, &str) = ("content-type", "application/json");

/// Method, path, headers and body, and the expected status and code.
type Step<'a> = (&'a str, &'a str, Vec<(&'a str, &'a str)>, &'a str, u16, u64);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_is_kept_and_each_outcome_has_its_status() {
    let server = TestServer::open(Limits::default());
    let mut http_client = HttpClient::connect(server.address).await;
    let body = json!({"token": token(1)});
    let answer = http_client.command("cart.open", "r1", &body).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let answer = answer.json();
    let at = json!([{"entity": format!("cart/{}", cart(1)), "version": 1, "position": 7}]);
    assert_eq!((&answer["ok"]["state"], &answer["at"], answer.get("id")), (&json!("active"), &at, None));
    let key = server.node.keys.lock()[0];
    assert!(key.is_some_and(|key: Request| key.id == RequestHash::of("r1")), "the key is the request id");

    let paid = json!({"token": token(1), "payment": {"recorded": {"method": "card", "transaction_id": "1"}}});
    let answer = http_client.command("cart.checkout", "r2", &paid).await;
    assert_eq!((answer.status, answer.code(), answer.header("retry-after")), (507, 905, Some("5")));
    // The node drops this one, so its outcome is unknown.
    let answer = http_client.command("cart.cancel", "r3", &body).await;
    assert_eq!((answer.status, answer.code(), answer.header("retry-after")), (504, 902, Some("1")));
    let answer = http_client.get("/v1/session.map?id=hamlet", &[]).await;
    assert_eq!((answer.status, &answer.json()["ok"]["version"]), (200, &json!(5)));
    let answer = http_client.ask("HEAD", "/v1/session.map?id=hamlet", &[], b"").await;
    assert!(answer.status == 200 && answer.body.is_empty(), "{answer:?}");
    let answer = http_client.get("/v1/session.map?id=macbeth", &[]).await;
    assert_eq!((answer.status, answer.code()), (404, 701));
    server.metric_is("boxoffice_edge_requests_total{op=\"cart.open\",outcome=\"ok\"}", 1.0).await;
    server.metric_is("boxoffice_edge_requests_total{op=\"cart.checkout\",outcome=\"fail\"}", 1.0).await;
    server.metric_is("boxoffice_edge_requests_total{op=\"session.map\",outcome=\"no\"}", 1.0).await;
    server.metric_is("boxoffice_edge_requests_under_way", 0.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_requests_are_refused_by_name() {
    let server = TestServer::open(Limits::default());
    let mut http_client = HttpClient::connect(server.address).await;
    let body = format!("{{\"token\":\"{}\"}}", token(1));
    let (open, key) = ("/v1/cart.open", ("idempotency-key", "r"));
    let deep = format!("{{\"token\":\"{}\",\"more\":{}{}}}", token(1), "[".repeat(20), "]".repeat(20));
    let long_key = "k".repeat(65);
    let steps: Vec<Step<'_>> = vec![
        ("POST", open, vec![JSON], &body, 400, 104),
        ("POST", open, vec![JSON, ("idempotency-key", "")], &body, 400, 101),
        ("POST", open, vec![JSON, ("idempotency-key", &long_key)], &body, 400, 101),
        ("POST", open, vec![JSON, key, key], &body, 400, 101),
        ("POST", open, vec![key], &body, 400, 101),
        ("POST", open, vec![key, ("content-type", "text/plain")], &body, 400, 101),
        ("POST", open, vec![JSON, key, ("boxoffice-deadline-ms", "soon")], &body, 400, 101),
        ("POST", open, vec![JSON, key, ("boxoffice-patience-ms", "-1")], &body, 400, 101),
        ("POST", open, vec![JSON, key], "[1]", 400, 101),
        ("POST", open, vec![JSON, key], "{", 400, 101),
        ("POST", open, vec![JSON, key], &deep, 400, 101),
        ("POST", open, vec![key], "", 400, 101),
        ("GET", "/v1/session.map?id=a&id=b", vec![], "", 400, 101),
        ("GET", "/v1/session.search?venue=a&limit=many", vec![], "", 400, 101),
        ("GET", open, vec![], "", 405, 101),
        ("DELETE", "/v1/cart.get", vec![], "", 405, 101),
        ("POST", "/v1/watch", vec![JSON], "{\"entity\":\"session/hamlet\"}", 400, 101),
        ("POST", "/v1/cart.steal", vec![JSON, key], &body, 404, 102),
        ("POST", "/v1/cart.open/now", vec![JSON, key], &body, 404, 102),
        ("POST", "/v1/openapi.json", vec![JSON], "{}", 405, 101),
        ("POST", "/v1/sessions/hamlet/map", vec![], "", 405, 101),
        // The connection still works.
        ("POST", open, vec![("content-type", "Application/JSON; charset=utf-8"), key], &body, 200, 0),
    ];
    for (method, path, headers, body, status, code) in steps {
        let answer = http_client.ask(method, path, &headers, body.as_bytes()).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{method} {path} {headers:?} {body}: {answer:?}");
    }
    let answer = http_client.get(open, &[]).await;
    assert_eq!(answer.header("allow"), Some("POST"));
    for (path, message) in [
        ("/v1/cart/open", "there is no op `cart/open`; did you mean `cart.open`?"),
        ("/v1/Cart/Hold-Seats", "there is no op `Cart/Hold-Seats`; did you mean `cart.hold_seats`?"),
        ("/v1/cart/steal", "there is no op `cart/steal`"),
    ] {
        assert_eq!(http_client.get(path, &[]).await.json()["no"]["message"], message);
    }
    assert_eq!(http_client.ask("PUT", "/v1/cart.get", &[], b"").await.header("allow"), Some("GET, HEAD, POST"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_are_limited_in_length_and_time() {
    let limits = Limits { whole_frame_timeout: Duration::from_millis(200), ..Limits::default() };
    let server = TestServer::open(limits);
    let head = |length: &str| {
        format!(
            "POST /v1/cart.open HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nidempotency-key: r\r\n{length}\r\n\r\n"
        )
    };
    // A content length that is too large is refused before the body is read.
    let mut http_client = HttpClient::connect(server.address).await;
    http_client.write(head("content-length: 65537").as_bytes()).await;
    let answer = http_client.read_answer(false).await;
    assert_eq!((answer.status, answer.code(), answer.header("connection")), (413, 103, Some("close")));
    assert!(http_client.is_closed().await);
    // Chunks without a known length.
    let mut http_client = HttpClient::connect(server.address).await;
    http_client.write(head("transfer-encoding: chunked").as_bytes()).await;
    let chunk = format!("4000\r\n{}\r\n", " ".repeat(0x4000));
    for _ in 0..5 {
        http_client.write(chunk.as_bytes()).await;
    }
    let answer = http_client.read_answer(false).await;
    assert_eq!((answer.status, answer.code()), (413, 103));
    // A hall may be longer.
    let mut http_client = HttpClient::connect(server.address).await;
    let rows: Vec<Value> = (0..2_000).map(|row| json!({"label": format!("row {row:>20}"), "count": 2})).collect();
    let hall = json!({"venue": "v", "id": "h", "name": "H", "layout": {"rows": rows}});
    assert!(hall.to_string().len() > 70_000, "it is no longer than other bodies may be");
    assert_eq!(http_client.command("hall.put", "r", &hall).await.status, 200);
    // Half of a body.
    let mut http_client = HttpClient::connect(server.address).await;
    http_client.write(head("content-length: 50").as_bytes()).await;
    http_client.write(b"{\"token\":").await;
    let answer = http_client.read_answer(false).await;
    assert_eq!((answer.status, answer.code(), answer.header("connection")), (408, 101, Some("close")));
    assert!(http_client.is_closed().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlines_are_kept_and_requests_under_way_are_bounded() {
    let server = TestServer::open(Limits { requests_under_way_max: 1, http_requests_max: 2, ..Limits::default() });
    let mut http_client = HttpClient::connect(server.address).await;
    let body = format!("{{\"token\":\"{}\"}}", token(1));
    let begun = Instant::now();
    let answer = http_client.post("/v1/cart.get", &[("boxoffice-deadline-ms", "50")], &body).await;
    assert_eq!((answer.status, answer.code()), (504, 902));
    assert!(begun.elapsed() >= Duration::from_millis(50), "not before the deadline");
    // The node still has the command, and this connection may have one under way.
    server.metric_is("boxoffice_edge_requests_under_way", 1.0).await;
    let answer = http_client.post("/v1/cart.get", &[], &body).await;
    assert_eq!((answer.status, answer.code(), answer.header("retry-after")), (503, 901, Some("1")));
    for reply in std::mem::take(&mut *server.node.waiting.lock()) {
        reply.answer(Ok(Ok(opened(cart(1)))));
    }
    server.metric_is("boxoffice_edge_requests_under_way", 0.0).await;

    // Two requests of all connections may be under way. A third is refused.
    let mut others = Vec::new();
    for _ in 0..2 {
        let address = server.address;
        let body = body.clone();
        others.push(tokio::spawn(
            async move { HttpClient::connect(address).await.post("/v1/cart.get", &[], &body).await },
        ));
    }
    server.metric_is("boxoffice_edge_requests_under_way", 2.0).await;
    assert_eq!(http_client.post("/v1/cart.get", &[], &body).await.code(), 901);
    for reply in std::mem::take(&mut *server.node.waiting.lock()) {
        reply.answer(Ok(Ok(opened(cart(1)))));
    }
    for other in others {
        assert_eq!(other.await.expect("the request is answered").status, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_answered_item_by_item() {
    let server = TestServer::open(Limits::default());
    let mut http_client = HttpClient::connect(server.address).await;
    let venue = |number: u32| json!({"op": "venue.put", "rid": format!("{number}"), "body": {"id": "v", "name": "V"}});
    let items = json!({"items": [venue(1), {"op": "venue.burn"}, venue(2), {"op": "venue.get", "body": {"id": "v"}}]});
    let answer = http_client.post("/v1/batch", &[], &items.to_string()).await;
    assert_eq!(answer.status, 200);
    let answer = answer.json();
    let items = answer["ok"]["items"].as_array().expect("items");
    assert!(items.len() == 4 && items[0]["ok"].is_object() && items[3]["ok"].is_object(), "{answer}");
    assert_eq!(items[1]["no"]["code"], json!(102));
    let log = server.node.log.lock().clone();
    let (last_put, get) =
        (log.iter().rposition(|line| line == "venue ends"), log.iter().position(|line| line == "get begins"));
    assert!(last_put < get, "{log:?}");
    // An item without an answer is unknown. One that was not submitted did not happen.
    let waits = json!({"op": "cart.get", "body": {"token": token(1)}});
    let items = json!({"items": [waits, venue(3)]}).to_string();
    let answer = http_client.post("/v1/batch", &[("boxoffice-deadline-ms", "50")], &items).await.json();
    assert_eq!(
        (&answer["ok"]["items"][0]["fail"]["code"], &answer["ok"]["items"][1]["fail"]["code"]),
        (&json!(902), &json!(901))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_show_their_token() {
    let config =
        EdgeConfig { admin_token: Some("a-token-that-is-long-enough-to-be-one".into()), ..EdgeConfig::default() };
    let server = TestServer::with(config);
    let mut http_client = HttpClient::connect(server.address).await;
    for op in Op::ALL {
        let schema = schema::of(op);
        if schema.methods == HttpMethods::None {
            continue;
        }
        let path = format!("/v1/{}", op.name());
        let answer = http_client.post(&path, &[], "{").await;
        let expected = if !op.is_open_to(Roles::of(Role::Sell)) { (401, 107) } else { (400, 101) };
        // Changes lack their request id here.
        assert!(
            (answer.status, answer.code()) == expected || answer.code() == 104 && op.is_open_to(Roles::of(Role::Sell)),
            "{path}: {answer:?}"
        );
        assert_eq!(
            answer.header("www-authenticate"),
            (!op.is_open_to(Roles::of(Role::Sell))).then_some("Bearer"),
            "{path}"
        );
        let answer = http_client.post(&path, &[("authorization", "Bearer a-long-enough-tokem")], "{}").await;
        assert_eq!((answer.status, answer.code()), (401, 107), "{path}");
    }
    let bearer = ("authorization", "bearer a-token-that-is-long-enough-to-be-one");
    let answer = http_client.get("/v1/admin.status", &[bearer]).await;
    assert_eq!((answer.status, &answer.json()["ok"]["node"]), (200, &json!("n1")));
    let answer = http_client.get("/v1/admin.audit", &[bearer]).await;
    assert_eq!((answer.status, &answer.json()["ok"]["orders"]), (200, &json!(3)));
    let answer = http_client.get("/v1/admin.audit", &[bearer, ("boxoffice-deadline-ms", "20")]).await;
    assert_eq!((answer.status, answer.code()), (504, 902));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_allowed_origins_may_send_requests() {
    let (own, foreign) = (("origin", "https://tickets.example"), ("origin", "https://evil.example"));
    let body = format!("{{\"token\":\"{}\"}}", token(1));
    let server = TestServer::with(EdgeConfig { origins: vec![own.1.into()], ..EdgeConfig::default() });
    let mut http_client = HttpClient::connect(server.address).await;
    let reader = "access-control-allow-origin";
    for (origin, status) in [(own, 204), (foreign, 403)] {
        let asked =
            [origin, ("access-control-request-method", "POST"), ("access-control-request-headers", "idempotency-key")];
        let mut http_client = HttpClient::connect(server.address).await;
        let answer = http_client.ask("OPTIONS", "/v1/cart.open", &asked, b"").await;
        assert_eq!((answer.status, answer.header(reader)), (status, (status == 204).then_some(own.1)));
        assert_eq!(answer.header("vary"), Some("origin"));
        if status == 204 {
            let taken = answer.header("access-control-allow-headers").expect("headers");
            let wanted = [
                "idempotency-key",
                "content-type",
                "authorization",
                "boxoffice-deadline-ms",
                "boxoffice-patience-ms",
                "if-none-match",
                "boxoffice-cart-token",
            ];
            assert!(wanted.iter().all(|name| taken.contains(name)), "{taken}");
        }
    }
    let answer = http_client.post("/v1/cart.open", &[own, ("idempotency-key", "r")], &body).await;
    assert_eq!((answer.status, answer.header(reader)), (200, Some(own.1)));
    for path in ["/v1/cart.open", "/v1/openapi.json", "/v1/sessions/hamlet/map", "/v1/nothing/there"] {
        // Requests of such a page are not read.
        let mut http_client = HttpClient::connect(server.address).await;
        let answer = http_client.post(path, &[foreign, ("idempotency-key", "r")], &body).await;
        assert_eq!((answer.status, answer.code(), answer.header(reader)), (403, 108, None), "{path}");
    }
    // Pages may read refusals too. A request without an `Origin` does not come from a page.
    let answer = http_client.get("/v1/session.map?id=macbeth", &[own]).await;
    assert_eq!((answer.status, answer.header(reader)), (404, Some(own.1)));
    assert_eq!(http_client.get("/v1/session.map?id=hamlet", &[]).await.status, 200);
    // By default only pages of the cluster's own nodes are allowed.
    let server = TestServer::open(Limits::default());
    let member = Member { node: "n2".into(), client: "box2.example:7180".into() };
    *server.node.members.lock() = vec![member];
    let own = format!("http://{}", server.clients);
    let as_name = format!("http://localhost:{}", server.clients.port());
    for (origin, host, status) in [
        (own.as_str(), server.clients.to_string(), 200),
        (&as_name, format!("localhost:{}", server.clients.port()), 200),
        ("http://box2.example:7180", server.clients.to_string(), 200),
        ("https://evil.example", server.clients.to_string(), 403),
        ("null", server.clients.to_string(), 403),
        (&own, "localhost".into(), 403),
        // A foreign name that resolves to this node is the origin of a foreign page.
        ("http://evil.example:7180", "evil.example:7180".into(), 403),
    ] {
        let head = format!("GET /v1/session.map?id=hamlet HTTP/1.1\r\nhost: {host}\r\norigin: {origin}\r\n");
        let (found, _) = crate::server::common::http(server.clients, &format!("{head}connection: close\r\n\r\n")).await;
        assert_eq!(found, status, "{origin} at {host}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_under_way_are_answered_when_the_server_closes() {
    let mut server = TestServer::open(Limits { drain_timeout: Duration::from_millis(300), ..Limits::default() });
    let body = format!("{{\"token\":\"{}\"}}", token(1));
    let address = server.address;
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let body = body.clone();
        waiting.push(tokio::spawn(
            async move { HttpClient::connect(address).await.post("/v1/cart.get", &[], &body).await },
        ));
    }
    server.metric_is("boxoffice_edge_requests_under_way", 2.0).await;
    let reply = server.node.waiting.lock().pop().expect("two wait");
    server.close();
    reply.answer(Ok(Ok(opened(cart(1)))));
    let mut answer = Vec::new();
    for one in waiting {
        let one = one.await.expect("the request is answered");
        answer.push((one.status, one.code()));
    }
    answer.sort_unstable();
    assert_eq!(answer, [(200, 0), (504, 902)], "one was answered, the other's time was over");
    server.closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_has_recent_rates() {
    let server = TestServer::open(Limits::default());
    let mut http_client = HttpClient::connect(server.address).await;
    let begun = Instant::now();
    loop {
        let open = http_client.command("cart.open", "r", &json!({"token": token(1)})).await;
        let refused = http_client.get("/v1/session.map?id=macbeth", &[]).await;
        let failed = http_client.command("cart.cancel", "r", &json!({"token": token(1)})).await;
        assert_eq!((open.status, refused.status, failed.status), (200, 404, 504));
        let rates = http_client.get("/v1/admin.status", &[]).await.json()["ok"]["rates"].clone();
        if ["ok", "no", "fail"].iter().all(|kind| rates[kind].as_f64().is_some_and(|rate| rate > 0.0)) {
            break;
        }
        assert!(begun.elapsed() < TIMEOUT, "{rates}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

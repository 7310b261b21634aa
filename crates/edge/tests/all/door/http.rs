//! Commands by HTTP: limits, deadlines, who may ask, and that nobody is left behind.

use std::time::{Duration, Instant};

use boxoffice_core::{
    access::{Role, Roles},
    id::{Request, RequestHash},
};
use boxoffice_edge::{EdgeConfig, Limits, backend::Member};
use boxoffice_wire::{
    Op,
    schema::{self, Doors},
};
use serde_json::{Value, json};

use crate::{
    asking::Asking,
    door::common::{Door, PATIENCE, cart, opened, token},
};

const JSON: (&str, &str) = ("content-type", "application/json");

/// Method, path, headers and body; the status and the number of the answer.
type Step<'a> = (&'a str, &'a str, Vec<(&'a str, &'a str)>, &'a str, u16, u64);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_is_kept_and_each_outcome_has_its_status() {
    let door = Door::open(Limits::default());
    let mut asking = Asking::connect(door.address).await;
    let body = json!({"token": token(1)});
    let told = asking.command("cart.open", "r1", &body).await;
    assert_eq!((told.status, told.header("content-type")), (200, Some("application/json")));
    let told = told.json();
    let at = json!([{"entity": format!("cart/{}", cart(1)), "version": 1, "position": 7}]);
    assert_eq!((&told["ok"]["state"], &told["at"], told.get("id")), (&json!("active"), &at, None));
    let key = door.node.keys.lock()[0];
    assert!(key.is_some_and(|key: Request| key.id == RequestHash::of("r1")), "the key is the request id");

    let paid = json!({"token": token(1), "payment": {"recorded": {"method": "card", "transaction_id": "1"}}});
    let told = asking.command("cart.checkout", "r2", &paid).await;
    assert_eq!((told.status, told.code(), told.header("retry-after")), (507, 905, Some("5")));
    // The node drops this one: nobody knows.
    let told = asking.command("cart.cancel", "r3", &body).await;
    assert_eq!((told.status, told.code(), told.header("retry-after")), (504, 902, Some("1")));
    let told = asking.get("/v1/session.map?id=hamlet", &[]).await;
    assert_eq!((told.status, &told.json()["ok"]["version"]), (200, &json!(5)));
    let told = asking.ask("HEAD", "/v1/session.map?id=hamlet", &[], b"").await;
    assert!(told.status == 200 && told.body.is_empty(), "{told:?}");
    let told = asking.get("/v1/session.map?id=macbeth", &[]).await;
    assert_eq!((told.status, told.code()), (404, 701));
    door.metric_is("boxoffice_edge_requests_total{op=\"cart.open\",outcome=\"ok\"}", 1.0).await;
    door.metric_is("boxoffice_edge_requests_total{op=\"cart.checkout\",outcome=\"fail\"}", 1.0).await;
    door.metric_is("boxoffice_edge_requests_total{op=\"session.map\",outcome=\"no\"}", 1.0).await;
    door.metric_is("boxoffice_edge_requests_under_way", 0.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_request_is_refused_by_name() {
    let door = Door::open(Limits::default());
    let mut asking = Asking::connect(door.address).await;
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
        ("POST", open, vec![JSON, key], "[1]", 400, 101),
        ("POST", open, vec![JSON, key], "{", 400, 101),
        ("POST", open, vec![JSON, key], &deep, 400, 101),
        ("POST", open, vec![key], "", 400, 101),
        ("GET", "/v1/cart.get?token=1&token=2", vec![], "", 400, 101),
        ("GET", "/v1/session.search?venue=a&limit=many", vec![], "", 400, 101),
        ("GET", open, vec![], "", 405, 101),
        ("DELETE", "/v1/cart.get", vec![], "", 405, 101),
        ("POST", "/v1/watch", vec![JSON], "{\"entity\":\"session/hamlet\"}", 400, 101),
        ("POST", "/v1/cart.steal", vec![JSON, key], &body, 404, 102),
        ("POST", "/v1/cart.open/now", vec![JSON, key], &body, 404, 102),
        ("POST", "/v1/openapi.json", vec![JSON], "{}", 405, 101),
        ("POST", "/v1/sessions/hamlet/map", vec![], "", 405, 101),
        // The connection is as good as ever.
        ("POST", open, vec![("content-type", "Application/JSON; charset=utf-8"), key], &body, 200, 0),
    ];
    for (method, path, headers, body, status, code) in steps {
        let told = asking.ask(method, path, &headers, body.as_bytes()).await;
        assert_eq!((told.status, told.code()), (status, code), "{method} {path} {headers:?} {body}: {told:?}");
    }
    let told = asking.get(open, &[]).await;
    assert_eq!(told.header("allow"), Some("POST"));
    assert_eq!(asking.ask("PUT", "/v1/cart.get", &[], b"").await.header("allow"), Some("GET, HEAD, POST"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_are_short_and_come_in_time() {
    let limits = Limits { whole_frame_timeout: Duration::from_millis(200), ..Limits::default() };
    let door = Door::open(limits);
    let head = |length: &str| {
        format!(
            "POST /v1/cart.open HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nidempotency-key: r\r\n{length}\r\n\r\n"
        )
    };
    // Claimed to be too long: nothing of it is waited for.
    let mut asking = Asking::connect(door.address).await;
    asking.write(head("content-length: 65537").as_bytes()).await;
    let told = asking.told(false).await;
    assert_eq!((told.status, told.code(), told.header("connection")), (413, 103, Some("close")));
    assert!(asking.is_closed().await);
    // In chunks, of which nobody knows how many come.
    let mut asking = Asking::connect(door.address).await;
    asking.write(head("transfer-encoding: chunked").as_bytes()).await;
    let chunk = format!("4000\r\n{}\r\n", " ".repeat(0x4000));
    for _ in 0..5 {
        asking.write(chunk.as_bytes()).await;
    }
    let told = asking.told(false).await;
    assert_eq!((told.status, told.code()), (413, 103));
    // A hall may be longer.
    let mut asking = Asking::connect(door.address).await;
    let rows: Vec<Value> = (0..2_000).map(|row| json!({"label": format!("row {row:>20}"), "count": 2})).collect();
    let hall = json!({"venue": "v", "id": "h", "name": "H", "layout": {"rows": rows}});
    assert!(hall.to_string().len() > 70_000, "it is no longer than other bodies may be");
    assert_eq!(asking.command("hall.put", "r", &hall).await.status, 200);
    // Half of it, and no more.
    let mut asking = Asking::connect(door.address).await;
    asking.write(head("content-length: 50").as_bytes()).await;
    asking.write(b"{\"token\":").await;
    let told = asking.told(false).await;
    assert_eq!((told.status, told.code(), told.header("connection")), (408, 101, Some("close")));
    assert!(asking.is_closed().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deadline_is_kept_and_what_is_under_way_is_bounded() {
    let door = Door::open(Limits { requests_under_way_max: 1, http_requests_max: 2, ..Limits::default() });
    let mut asking = Asking::connect(door.address).await;
    let body = format!("{{\"token\":\"{}\"}}", token(1));
    let begun = Instant::now();
    let told = asking.post("/v1/cart.get", &[("boxoffice-deadline-ms", "50")], &body).await;
    assert_eq!((told.status, told.code()), (504, 902));
    assert!(begun.elapsed() >= Duration::from_millis(50), "not before the deadline");
    // The node still has it, and this connection may have one.
    door.metric_is("boxoffice_edge_requests_under_way", 1.0).await;
    let told = asking.post("/v1/cart.get", &[], &body).await;
    assert_eq!((told.status, told.code(), told.header("retry-after")), (503, 901, Some("1")));
    for reply in std::mem::take(&mut *door.node.waiting.lock()) {
        reply.answer(Ok(Ok(opened(cart(1)))));
    }
    door.metric_is("boxoffice_edge_requests_under_way", 0.0).await;

    // Two of all connections are waited for; a third is not taken.
    let mut others = Vec::new();
    for _ in 0..2 {
        let address = door.address;
        let body = body.clone();
        others.push(tokio::spawn(async move { Asking::connect(address).await.post("/v1/cart.get", &[], &body).await }));
    }
    door.metric_is("boxoffice_edge_requests_under_way", 2.0).await;
    assert_eq!(asking.post("/v1/cart.get", &[], &body).await.code(), 901);
    for reply in std::mem::take(&mut *door.node.waiting.lock()) {
        reply.answer(Ok(Ok(opened(cart(1)))));
    }
    for other in others {
        assert_eq!(other.await.expect("it is told").status, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_answered_item_by_item() {
    let door = Door::open(Limits::default());
    let mut asking = Asking::connect(door.address).await;
    let venue = |number: u32| json!({"op": "venue.put", "rid": format!("{number}"), "body": {"id": "v", "name": "V"}});
    let items = json!({"items": [venue(1), {"op": "venue.burn"}, venue(2), {"op": "venue.get", "body": {"id": "v"}}]});
    let told = asking.post("/v1/batch", &[], &items.to_string()).await;
    assert_eq!(told.status, 200);
    let told = told.json();
    let items = told["ok"]["items"].as_array().expect("items");
    assert!(items.len() == 4 && items[0]["ok"].is_object() && items[3]["ok"].is_object(), "{told}");
    assert_eq!(items[1]["no"]["code"], json!(102));
    let diary = door.node.diary.lock().clone();
    let (last_put, get) =
        (diary.iter().rposition(|line| line == "venue ends"), diary.iter().position(|line| line == "get begins"));
    assert!(last_put < get, "{diary:?}");
    // What is waited for in vain is unknown, what had no turn did not happen.
    let waits = json!({"op": "cart.get", "body": {"token": token(1)}});
    let items = json!({"items": [waits, venue(3)]}).to_string();
    let told = asking.post("/v1/batch", &[("boxoffice-deadline-ms", "50")], &items).await.json();
    assert_eq!(
        (&told["ok"]["items"][0]["fail"]["code"], &told["ok"]["items"][1]["fail"]["code"]),
        (&json!(902), &json!(901))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_show_their_token() {
    let config = EdgeConfig { admin_token: Some("a-long-enough-token".into()), ..EdgeConfig::default() };
    let door = Door::with(config);
    let mut asking = Asking::connect(door.address).await;
    for op in Op::ALL {
        let schema = schema::of(op);
        if schema.doors == Doors::Sockets {
            continue;
        }
        let path = format!("/v1/{}", op.name());
        let told = asking.post(&path, &[], "{").await;
        let expected = if !op.is_open_to(Roles::of(Role::Sell)) { (401, 107) } else { (400, 101) };
        // What changes something has no request id here.
        assert!(
            (told.status, told.code()) == expected || told.code() == 104 && op.is_open_to(Roles::of(Role::Sell)),
            "{path}: {told:?}"
        );
        assert_eq!(
            told.header("www-authenticate"),
            (!op.is_open_to(Roles::of(Role::Sell))).then_some("Bearer"),
            "{path}"
        );
        let told = asking.post(&path, &[("authorization", "Bearer a-long-enough-tokem")], "{}").await;
        assert_eq!((told.status, told.code()), (401, 107), "{path}");
    }
    let bearer = ("authorization", "bearer a-long-enough-token");
    let told = asking.get("/v1/admin.status", &[bearer]).await;
    assert_eq!((told.status, &told.json()["ok"]["node"]), (200, &json!("n1")));
    let told = asking.get("/v1/admin.audit", &[bearer]).await;
    assert_eq!((told.status, &told.json()["ok"]["orders"]), (200, &json!(3)));
    let told = asking.get("/v1/admin.audit", &[bearer, ("boxoffice-deadline-ms", "20")]).await;
    assert_eq!((told.status, told.code()), (504, 902));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_welcome_origins_may_ask() {
    let (ours, foreign) = (("origin", "https://tickets.example"), ("origin", "https://evil.example"));
    let body = format!("{{\"token\":\"{}\"}}", token(1));
    let door = Door::with(EdgeConfig { origins: vec![ours.1.into()], ..EdgeConfig::default() });
    let mut asking = Asking::connect(door.address).await;
    let reader = "access-control-allow-origin";
    for (origin, status) in [(ours, 204), (foreign, 403)] {
        let asked =
            [origin, ("access-control-request-method", "POST"), ("access-control-request-headers", "idempotency-key")];
        let mut asking = Asking::connect(door.address).await;
        let told = asking.ask("OPTIONS", "/v1/cart.open", &asked, b"").await;
        assert_eq!((told.status, told.header(reader)), (status, (status == 204).then_some(ours.1)));
        assert_eq!(told.header("vary"), Some("origin"));
        if status == 204 {
            let taken = told.header("access-control-allow-headers").expect("headers");
            let wanted = ["idempotency-key", "content-type", "authorization", "boxoffice-deadline-ms", "if-none-match"];
            assert!(wanted.iter().all(|name| taken.contains(name)), "{taken}");
        }
    }
    let told = asking.post("/v1/cart.open", &[ours, ("idempotency-key", "r")], &body).await;
    assert_eq!((told.status, told.header(reader)), (200, Some(ours.1)));
    for path in ["/v1/cart.open", "/v1/openapi.json", "/v1/sessions/hamlet/map", "/v1/nothing/there"] {
        // Nothing that such a page sends is read.
        let mut asking = Asking::connect(door.address).await;
        let told = asking.post(path, &[foreign, ("idempotency-key", "r")], &body).await;
        assert_eq!((told.status, told.code(), told.header(reader)), (403, 108, None), "{path}");
    }
    // Refusals are for pages as well; what is no page is not asked where it is from.
    let told = asking.get("/v1/session.map?id=macbeth", &[ours]).await;
    assert_eq!((told.status, told.header(reader)), (404, Some(ours.1)));
    assert_eq!(asking.get("/v1/session.map?id=hamlet", &[]).await.status, 200);
    // Where nothing is configured, the pages of the cluster's own nodes may ask, and no others.
    let door = Door::open(Limits::default());
    let member = Member { node: "n2".into(), client: "box2.example:7180".into() };
    *door.node.members.lock() = vec![member];
    let own = format!("http://{}", door.clients);
    let as_name = format!("http://localhost:{}", door.clients.port());
    for (origin, host, status) in [
        (own.as_str(), door.clients.to_string(), 200),
        (&as_name, format!("localhost:{}", door.clients.port()), 200),
        ("http://box2.example:7180", door.clients.to_string(), 200),
        ("https://evil.example", door.clients.to_string(), 403),
        ("null", door.clients.to_string(), 403),
        (&own, "localhost".into(), 403),
        // A stranger's name that was made to lead here is its page's own origin.
        ("http://evil.example:7180", "evil.example:7180".into(), 403),
    ] {
        let head = format!("GET /v1/session.map?id=hamlet HTTP/1.1\r\nhost: {host}\r\norigin: {origin}\r\n");
        let (found, _) = crate::door::common::http(door.clients, &format!("{head}connection: close\r\n\r\n")).await;
        assert_eq!(found, status, "{origin} at {host}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_when_the_door_closes_is_told() {
    let mut door = Door::open(Limits { drain_timeout: Duration::from_millis(300), ..Limits::default() });
    let body = format!("{{\"token\":\"{}\"}}", token(1));
    let address = door.address;
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let body = body.clone();
        waiting
            .push(tokio::spawn(async move { Asking::connect(address).await.post("/v1/cart.get", &[], &body).await }));
    }
    door.metric_is("boxoffice_edge_requests_under_way", 2.0).await;
    let reply = door.node.waiting.lock().pop().expect("two wait");
    door.close();
    reply.answer(Ok(Ok(opened(cart(1)))));
    let mut told = Vec::new();
    for one in waiting {
        let one = one.await.expect("it is told");
        told.push((one.status, one.code()));
    }
    told.sort_unstable();
    assert_eq!(told, [(200, 0), (504, 902)], "one was answered, the other's time was over");
    door.closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_says_what_the_door_did_lately() {
    let door = Door::open(Limits::default());
    let mut asking = Asking::connect(door.address).await;
    let begun = Instant::now();
    loop {
        let open = asking.command("cart.open", "r", &json!({"token": token(1)})).await;
        let refused = asking.get("/v1/session.map?id=macbeth", &[]).await;
        let failed = asking.command("cart.cancel", "r", &json!({"token": token(1)})).await;
        assert_eq!((open.status, refused.status, failed.status), (200, 404, 504));
        let rates = asking.get("/v1/admin.status", &[]).await.json()["ok"]["rates"].clone();
        if ["ok", "no", "fail"].iter().all(|kind| rates[kind].as_f64().is_some_and(|rate| rate > 0.0)) {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{rates}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

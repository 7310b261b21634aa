//! Layout and map: loaded over HTTP, cached, and watched from there on.

use std::io::Read;

use boxoffice_core::access::Role;
use boxoffice_edge::EdgeConfig;
use boxoffice_wire::{
    Encoding,
    feed::Snapshot,
    reply::{Event, FromBody, RawVerdict, Reply, ServerFrame},
    view::MapView,
};
use flate2::read::GzDecoder;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest, http::HeaderValue};

use crate::{
    api::test_node::TestNode,
    http_client::{HttpAnswer, HttpClient},
};

const LAYOUT: &str = "/v1/sessions/hamlet-tonight/layout";
const MAP: &str = "/v1/sessions/hamlet-tonight/map";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layout_is_cached_and_a_map_is_revalidated() {
    let test_node = TestNode::with_sample_entities().await;
    let mut http_client = HttpClient::connect(test_node.address).await;
    let whole = http_client.command("session.get", "", &json!({"id": "hamlet-tonight"})).await.json();

    let layout = http_client.get(LAYOUT, &[]).await;
    assert_eq!(layout.status, 200);
    assert_eq!(layout.json()["ok"], whole["ok"]["layout"]);
    assert_eq!(layout.header("cache-control"), Some("public, max-age=3600"));
    let tag = layout.header("etag").expect("a tag").to_owned();
    let same = http_client.get("/v1/sessions/hamlet-matinee/layout", &[]).await;
    assert_eq!(same.header("etag"), Some(tag.as_str()), "the tag is of the content");
    for known in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
        let kept = http_client.get(LAYOUT, &[("if-none-match", &known)]).await;
        assert_eq!((kept.status, kept.body.len(), kept.header("etag")), (304, 0, Some(tag.as_str())), "{known}");
    }
    assert_eq!(http_client.get(LAYOUT, &[("if-none-match", "\"other\"")]).await.status, 200);
    let head = http_client.ask("HEAD", LAYOUT, &[], b"").await;
    assert_eq!((head.status, head.header("etag"), head.body.len()), (200, Some(tag.as_str()), 0));
    assert_eq!(head.header("content-length"), layout.header("content-length"));

    let map = http_client.get(MAP, &[]).await;
    assert_eq!((map.status, map.header("cache-control")), (200, Some("no-cache")));
    let body = map.json();
    let tag = format!("\"{}-{}\"", body["ok"]["epoch"], body["ok"]["version"]);
    assert_eq!(map.header("etag"), Some(tag.as_str()));
    assert_eq!(http_client.get(MAP, &[("if-none-match", &tag)]).await.status, 304);
    let hold = json!({"token": format!("{:032x}", 1), "session": "hamlet-tonight", "seats": [[0, 0]]});
    assert_eq!(http_client.command("cart.hold_seats", "h", &hold).await.status, 200);
    let after = http_client.get(MAP, &[("if-none-match", &tag)]).await;
    assert_eq!((after.status, &after.json()["ok"]["counts"]["held"]), (200, &json!(1)));

    let refused = [("/v1/sessions/nowhere/map", 404, 701), ("/v1/sessions/no%20id/layout", 400, 101)];
    for (path, status, code) in refused {
        let response = http_client.get(path, &[]).await;
        assert_eq!((response.status, response.code()), (status, code), "{path}");
    }
    let response = http_client.post(MAP, &[], "{}").await;
    assert_eq!((response.status, response.header("allow")), (405, Some("GET, HEAD")));
    test_node.close().await;
}

/// A cache between clients and the node hands on what is public, and asks nobody for a key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_every_stranger_may_read_is_kept_by_shared_caches() {
    let key = ("authorization", "Bearer the token of operators, made for a test");
    for (anonymous, stranger) in [(None, 401), (Some(Role::Watch), 200), (Some(Role::Sell), 200)] {
        let admin_token = Some("the token of operators, made for a test".to_owned());
        let test_node = TestNode::behind(EdgeConfig { anonymous, admin_token, ..EdgeConfig::default() }, None).await;
        test_node.create_sample_entities_as(&[key]).await;
        let mut http_client = HttpClient::connect(test_node.address).await;
        for (path, public, private) in
            [(LAYOUT, "public, max-age=3600", "private, max-age=3600"), (MAP, "no-cache", "private, no-cache")]
        {
            let shown = http_client.get(path, &[key]).await;
            assert_eq!((shown.status, shown.header("cache-control")), (200, Some(private)), "{anonymous:?} {path}");
            let tag = shown.header("etag").expect("a tag");
            let kept = http_client.get(path, &[key, ("if-none-match", tag)]).await;
            assert_eq!((kept.status, kept.header("cache-control")), (304, Some(private)), "{anonymous:?} {path}");
            let vary: Vec<&str> =
                shown.headers.iter().filter(|(name, _)| name == "vary").map(|(_, names)| names.as_str()).collect();
            let coding = if path == LAYOUT { "accept-encoding, " } else { "" };
            assert_eq!(vary.join(", "), format!("accept, authorization, {coding}origin"), "{path}");
            let open = http_client.get(path, &[]).await;
            let expected = if stranger == 200 { public } else { "no-store" };
            assert_eq!((open.status, open.header("cache-control")), (stranger, Some(expected)), "{anonymous:?} {path}");
        }
        test_node.close().await;
    }
}

/// A layout with so many rows of named seats, which is long.
fn long_layout(rows: usize) -> Value {
    let seats: Vec<Value> = (1..=40).map(|seat| json!({"label": format!("place {seat}")})).collect();
    let row = |number| json!({"label": format!("{number}"), "category": "standard", "seats": seats});
    json!({"rows": (1..=rows).map(row).collect::<Vec<_>>()})
}

/// A house with a session whose layout is long.
async fn sell_long(http_client: &mut HttpClient, key: &[(&str, &str)]) {
    let bodies = [
        ("hall.put", json!({"venue": "globe", "id": "long", "name": "Long", "layout": long_layout(60)})),
        (
            "session.create",
            json!({
                "venue": "globe", "hall": "long", "id": "long-night", "title": "hamlet",
                "starts_at": "2099-06-12T19:00:00Z", "ends_at": "2099-06-12T22:00:00Z",
                "prices": {"standard": {"amount": 1000, "currency": "EUR"}},
            }),
        ),
    ];
    for (op, body) in bodies {
        let headers = [&[("idempotency-key", op)], key].concat();
        let answer = http_client.post(&format!("/v1/{op}"), &headers, &body.to_string()).await;
        assert_eq!(answer.status, 200, "{op} {answer:?}");
    }
}

const LONG: &str = "/v1/sessions/long-night/layout";

/// What shared caches may keep is compressed, and nothing else is. Each coding has its tag.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_public_layout_is_compressed_and_a_private_one_is_not() {
    let key = ("authorization", "Bearer the token of operators, made for a test");
    let admin_token = Some("the token of operators, made for a test".to_owned());
    let config = EdgeConfig { anonymous: Some(Role::Watch), admin_token, ..EdgeConfig::default() };
    let test_node = TestNode::behind(config, None).await;
    test_node.create_sample_entities_as(&[key]).await;
    let mut http_client = HttpClient::connect(test_node.address).await;
    sell_long(&mut http_client, &[key]).await;
    // With brotli the answer would be another one some time after the first.
    let gzip = ("accept-encoding", "gzip, deflate");
    let mut tags = Vec::new();
    for accept in ["application/json", "application/msgpack"] {
        let accept = ("accept", accept);
        let plain = http_client.get(LONG, &[accept]).await;
        assert_eq!((plain.status, plain.header("content-encoding")), (200, None));
        for _ in 0..2 {
            let packed = http_client.get(LONG, &[accept, gzip]).await;
            assert_eq!((packed.status, packed.header("content-encoding")), (200, Some("gzip")));
            assert_eq!(packed.header("content-type"), plain.header("content-type"));
            assert_eq!(packed.header("cache-control"), Some("public, max-age=3600"));
            assert!(packed.body.len() * 4 < plain.body.len(), "{} of {}", packed.body.len(), plain.body.len());
            let mut unpacked = Vec::new();
            GzDecoder::new(&packed.body[..]).read_to_end(&mut unpacked).expect("gzip");
            assert_eq!(unpacked, plain.body);
            let head = http_client.ask("HEAD", LONG, &[accept, gzip], b"").await;
            assert_eq!(head.header("content-length"), Some(packed.body.len().to_string().as_str()));
        }
        let tag = |answer: &HttpAnswer| answer.header("etag").expect("a tag").to_owned();
        let packed = http_client.get(LONG, &[accept, gzip]).await;
        let kept = http_client.get(LONG, &[accept, gzip, ("if-none-match", &tag(&packed))]).await;
        assert_eq!((kept.status, tag(&kept)), (304, tag(&packed)));
        assert_eq!(http_client.get(LONG, &[accept, ("if-none-match", &tag(&packed))]).await.status, 200);
        assert_eq!(http_client.get(LONG, &[accept, gzip, ("if-none-match", &tag(&plain))]).await.status, 200);
        tags.extend([tag(&plain), tag(&packed)]);
        // To credentials it is private.
        let private = http_client.get(LONG, &[accept, gzip, key]).await;
        assert_eq!((private.header("content-encoding"), &private.body), (None, &plain.body));
        assert_eq!(tag(&private), tag(&plain));
    }
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags.len(), 4, "a tag stands for bytes");
    // A short one fits into a packet as it is, and a map changes all the time.
    for path in [LAYOUT, MAP, "/v1/sessions/long-night/map", "/v1/session.get?id=long-night"] {
        let answer = http_client.get(path, &[gzip]).await;
        assert_eq!((answer.status, answer.header("content-encoding")), (200, None), "{path}");
    }
    test_node.close().await;
}

/// A page asks for the facts first, and for the rows where caches have them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_without_rows_is_short() {
    let test_node = TestNode::with_sample_entities().await;
    let mut http_client = HttpClient::connect(test_node.address).await;
    sell_long(&mut http_client, &[]).await;
    let mut whole = http_client.get("/v1/session.get?id=long-night", &[]).await.json();
    for query in ["layout=true", "layout=false"] {
        let answer = http_client.get(&format!("/v1/session.get?id=long-night&{query}"), &[]).await;
        if query == "layout=false" {
            whole["ok"]["layout"] = json!({"rows": []});
            assert!(answer.body.len() < 1_000, "{}", answer.body.len());
        }
        assert_eq!(answer.json(), whole, "{query}");
    }
    test_node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_encodings_have_the_same_content_and_different_tags() {
    let test_node = TestNode::with_sample_entities().await;
    let mut http_client = HttpClient::connect(test_node.address).await;
    let plain = http_client.get(MAP, &[("accept", "text/html, application/json;q=0.9, */*;q=0.1")]).await;
    assert_eq!(plain.header("content-type"), Some("application/json"));
    for kind in ["application/msgpack", "application/vnd.msgpack"] {
        let packed = http_client.get(MAP, &[("accept", &format!("application/json;q=0.5, {kind}"))]).await;
        assert_eq!((packed.status, packed.header("content-type")), (200, Some(kind)));
        assert_ne!(packed.header("etag"), plain.header("etag"));
        assert_eq!(packed.header("vary"), Some("accept, authorization"));
        let read = |encoding, bytes| match ServerFrame::read(encoding, bytes).expect("a frame") {
            ServerFrame::Answer(None, RawVerdict::Ok(body, _), _) => MapView::from_body(encoding, body).expect("a map"),
            other => panic!("{other:?}"),
        };
        assert_eq!(read(Encoding::MsgPack, &packed.body), read(Encoding::Json, &plain.body));
    }
    test_node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_map_from_http_is_watched_on_without_a_snapshot() {
    let test_node = TestNode::with_sample_entities().await;
    let mut http_client = HttpClient::connect(test_node.address).await;
    let map = http_client.get(MAP, &[]).await.json();
    let resume = json!({"epoch": map["ok"]["epoch"], "version": map["ok"]["version"]});
    // A sale between the map and the watch is the first delta.
    let hold = |token: u32, seat: u32| json!({"token": format!("{token:032x}"), "session": "hamlet-tonight", "seats": [[0, seat]]});

    let mut request = format!("ws://{}/v1/ws", test_node.address).into_client_request().expect("a request");
    let protocol = HeaderValue::from_static("boxoffice.v1.json");
    request.headers_mut().insert("sec-websocket-protocol", protocol);
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.expect("a connection");
    let watch = json!({"id": 1, "op": "watch", "body": {"entity": "session/hamlet-tonight", "resume": resume}});
    socket.send(Message::text(watch.to_string())).await.expect("sent");
    let mut version = map["ok"]["version"].as_u64().expect("a version");
    let mut feed = None;
    let mut deltas = 0;
    let mut held = 0;
    while deltas < 2 {
        let frame = tokio::time::timeout(std::time::Duration::from_secs(20), socket.next()).await.expect("in time");
        let frame = frame.expect("a frame").expect("whole").into_text().expect("text");
        match ServerFrame::read(Encoding::Json, frame.as_bytes()).expect("a frame") {
            ServerFrame::Hello(_) => {}
            ServerFrame::Answer(_, verdict, _) => {
                let Ok(Reply::Ok(answer, _)) = verdict.read::<boxoffice_wire::reply::Watching>(Encoding::Json) else {
                    panic!("{frame}")
                };
                feed = Some(answer.feed);
                assert_eq!(http_client.command("cart.hold_seats", "a", &hold(1, 1)).await.status, 200);
            }
            ServerFrame::Feed(number, event) => {
                assert_eq!(Some(number), feed);
                let Event::<Snapshot>::Delta(delta) = event.read(Encoding::Json).expect("an event") else {
                    panic!("{frame}")
                };
                assert_eq!(delta.from, version, "nothing is missing");
                version = delta.to;
                held += delta.changes.len();
                deltas += 1;
                if deltas == 1 {
                    assert_eq!(http_client.command("cart.hold_seats", "b", &hold(2, 2)).await.status, 200);
                }
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(held, 2);
    let after: Value = http_client.get(MAP, &[]).await.json();
    assert_eq!(after["ok"]["version"], json!(version));
    test_node.close().await;
}

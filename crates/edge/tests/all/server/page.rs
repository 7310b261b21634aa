//! The page's files, `/page.json`, and their headers for browsers.

use std::{
    fs,
    io::Read,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use boxoffice_core::access::Role;
use boxoffice_edge::{EdgeConfig, Limits, PageConfig, WebConfig, backend::Member};
use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::{
    http_client::{HttpAnswer, HttpClient},
    server::common::{TestServer, get, id},
};

/// The paths of all files below `/page/`.
fn files() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    let (mut folders, mut files): (Vec<PathBuf>, Vec<String>) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(&root).expect("it is below").to_str().expect("a plain name");
                files.push(name.to_owned());
            }
        }
    }
    files
}

fn kind(file: &str) -> &'static str {
    match file.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("ts") => "text/plain; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("woff2") => "font/woff2",
        Some("json") => "application/json",
        other => panic!("{file}: {other:?} has no media type here; the server needs one too"),
    }
}

fn assert_revalidated(answer: &HttpAnswer) {
    assert_eq!(answer.header("cache-control"), Some("no-cache"), "{answer:?}");
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    let tag = answer.header("etag").expect("a tag");
    assert!(tag.len() == 34 && tag.starts_with('"') && tag.ends_with('"'), "{tag}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_file_has_its_media_type() {
    let server = TestServer::open(Limits::default());
    let mut http_client = HttpClient::connect(server.clients).await;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    let files = files();
    assert!(!files.is_empty());
    for file in files {
        let path = format!("/page/{file}");
        let answer = http_client.get(&path, &[]).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(kind(&file))), "{file}");
        assert_eq!(answer.body, fs::read(root.join(&file)).expect("the file"), "{file}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{file}");
        assert_revalidated(&answer);
        let head = http_client.ask("HEAD", &path, &[], b"").await;
        let length = answer.body.len().to_string();
        assert_eq!((head.status, head.header("content-length")), (200, Some(length.as_str())), "{file}");
        assert_eq!(head.header("etag"), answer.header("etag"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_is_at_the_root_and_runs_no_foreign_script() {
    let server = TestServer::open(Limits::default());
    let mut http_client = HttpClient::connect(server.clients).await;
    let answer = http_client.get("/", &[]).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_revalidated(&answer);
    let policy = answer.header("content-security-policy").expect("a policy");
    let parts: Vec<&str> = policy.split(';').map(str::trim).collect();
    for part in ["default-src 'self'", "object-src 'none'", "base-uri 'none'"] {
        assert!(parts.contains(&part), "{part} in {policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    let text = String::from_utf8(answer.body).expect("text");
    assert!(!text.contains("<style"), "styles are files");
    for script in text.split("<script").skip(1) {
        let (head, rest) = script.split_once('>').expect("an end");
        assert!(head.contains("src=") && rest.starts_with("</script>"), "scripts are files: {head}");
    }
    assert_eq!(http_client.ask("HEAD", "/", &[], b"").await.status, 200);
    let wrong = http_client.ask("POST", "/", &[], b"").await;
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("GET,HEAD")));
}

/// The sources that the page may connect to, and its permissions policy, asked with this `Host`.
async fn page_may(server: &TestServer, host: &str) -> (Vec<String>, String) {
    page_at(server.clients, host).await
}

async fn page_at(address: SocketAddr, host: &str) -> (Vec<String>, String) {
    let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n");
    let mut http_client = HttpClient::connect(address).await;
    http_client.write(request.as_bytes()).await;
    let answer = http_client.read_answer(false).await;
    let policy = answer.header("content-security-policy").expect("a policy");
    let mut parts = policy.split(';').map(str::trim);
    let sources = parts.find_map(|part| part.strip_prefix("connect-src ")).expect("sources");
    let permissions = answer.header("permissions-policy").expect("permissions").to_owned();
    (sources.split(' ').map(str::to_owned).collect(), permissions)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_connects_to_the_members_and_to_nobody_else() {
    let alone = TestServer::open(Limits::default());
    let (sources, permissions) = page_may(&alone, "127.0.0.1:7180").await;
    let own = ["'self'", "http://127.0.0.1:7180", "ws://127.0.0.1:7180", "wss://127.0.0.1:7180"];
    assert_eq!(sources, own);
    for feature in ["camera=()", "microphone=()", "geolocation=()", "payment=()"] {
        assert!(permissions.split(", ").any(|part| part == feature), "{feature} in {permissions}");
    }
    // A name that would end the list is left out.
    for host in ["a;script-src*", "a,b", "a'unsafe-inline'", "*"] {
        let (sources, _) = page_may(&alone, host).await;
        assert!(sources.iter().all(|source| !source.contains('*') && !source.contains("unsafe")), "{sources:?}");
    }

    let page = PageConfig {
        demo: Some("http://127.0.0.1:7190/".into()),
        payment: Some("https://pay.example/element.js".into()),
        ..PageConfig::default()
    };
    let web = WebConfig { public_url: Some("https://tickets.example".into()), ..WebConfig::default() };
    let server = TestServer::with(EdgeConfig { page, web, ..EdgeConfig::default() });
    let member = |node: &str, client: &str| Member { node: node.into(), client: client.into() };
    *server.node.members.lock() = vec![member("n1", "10.0.0.1:7180"), member("n3", "https://three.tickets.example")];
    let (sources, permissions) = page_may(&server, "tickets.example").await;
    let expected = [
        "'self'",
        "https://three.tickets.example",
        "wss://three.tickets.example",
        "https://tickets.example",
        "wss://tickets.example",
        "ws://tickets.example",
        "http://127.0.0.1:7190",
        "https://pay.example",
    ];
    assert_eq!(sources, expected);
    assert!(permissions.ends_with("payment=(self \"https://pay.example\")"), "{permissions}");
    // Clients are not told of an address that only nodes use. The operators' view asks every node.
    assert!(!sources.contains(&"http://10.0.0.1:7180".to_owned()));
    let (at_operators, _) = page_at(server.address, "localhost").await;
    assert!(at_operators.contains(&"http://10.0.0.1:7180".to_owned()), "{at_operators:?}");
    // A member that joins is in the policy of the next page.
    server.node.members.lock().push(member("n4", "https://four.tickets.example"));
    assert!(page_may(&server, "tickets.example").await.0.contains(&"wss://four.tickets.example".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_json_says_whether_a_page_of_this_address_may_connect() {
    let web = WebConfig { public_url: Some("https://tickets.example".into()), ..WebConfig::default() };
    let server = TestServer::with(EdgeConfig { web, ..EdgeConfig::default() });
    let mut http_client = HttpClient::connect(server.clients).await;
    for (origin, refused) in [
        ("https%3A%2F%2Ftickets.example", Value::Null),
        ("https://tickets.example", Value::Null),
        ("http://localhost", Value::Null),
        ("https%3A%2F%2Fother.example", json!("origin")),
        ("http%3A%2F%2Ftickets.example", json!("origin")),
        ("null", json!("origin")),
    ] {
        let answer = http_client.get(&format!("/page.json?origin={origin}"), &[]).await;
        assert_eq!((answer.status, &answer.json()["refused"]), (200, &refused), "{origin}");
        // It says what the upgrade does.
        let origin = origin.replace("%3A", ":").replace("%2F", "/");
        let upgrade = [("upgrade", "websocket"), ("connection", "upgrade"), ("sec-websocket-version", "13")];
        let key = [("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="), ("origin", origin.as_str())];
        let status =
            HttpClient::connect(server.clients).await.get("/v1/ws", &[&upgrade[..], &key].concat()).await.status;
        // Without a subprotocol an allowed page gets no further.
        assert_eq!(status, if refused.is_null() { 400 } else { 403 }, "{origin}");
    }
    for query in ["", "?", "?origin", "?origin=a&origin=b", "?%ff"] {
        assert_eq!(http_client.get(&format!("/page.json{query}"), &[]).await.status, 200, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cached_files_are_not_sent_again() {
    let server = TestServer::open(Limits::default());
    let mut http_client = HttpClient::connect(server.clients).await;
    for path in ["/", "/page/index.html", "/page/css/operator.css"] {
        let tag = http_client.get(path, &[]).await.header("etag").expect("a tag").to_owned();
        for known in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".into()] {
            let answer = http_client.get(path, &[("if-none-match", &known)]).await;
            assert_eq!((answer.status, answer.body.len()), (304, 0), "{path} {known}");
            assert_eq!(answer.header("etag"), Some(tag.as_str()));
            assert_eq!(answer.header("cache-control"), Some("no-cache"));
        }
        assert_eq!(http_client.get(path, &[("if-none-match", "\"other\"")]).await.status, 200);
    }
}

fn unpacked(gzip: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    GzDecoder::new(gzip).read_to_end(&mut plain).expect("gzip");
    plain
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_has_a_tag_for_each_coding_and_the_same_content_in_all() {
    let server = TestServer::open(Limits::default());
    let mut http_client = HttpClient::connect(server.clients).await;
    let (mut plain_bytes, mut gzip_bytes) = (0, 0);
    let paths = files().into_iter().map(|file| format!("/page/{file}")).chain(["/".to_owned()]);
    let mut with_brotli = 0;
    for path in paths {
        let plain = http_client.get(&path, &[]).await;
        assert_eq!((plain.header("content-encoding"), plain.header("vary")), (None, Some("accept-encoding")), "{path}");
        let mut tags = vec![plain.header("etag").expect("a tag").to_owned()];
        for (accepted, coding) in [("gzip, deflate", "gzip"), ("gzip, deflate, br, zstd", "br")] {
            let packed = http_client.get(&path, &[("accept-encoding", accepted)]).await;
            let found = packed.header("content-encoding");
            assert_eq!((packed.status, packed.header("vary")), (200, Some("accept-encoding")), "{path} {coding}");
            assert_eq!(packed.header("content-type"), plain.header("content-type"), "{path} {coding}");
            match found {
                Some("gzip") => assert_eq!(unpacked(&packed.body), plain.body, "{path}"),
                // `tests/page/weight.test.mjs` unpacks these.
                Some("br") => with_brotli += 1,
                // A few bytes are not worth it.
                other => assert!(other.is_none() && plain.body.len() < 512, "{path}: {other:?}"),
            }
            assert!(packed.body.len() <= plain.body.len(), "{path} {coding}");
            let tag = packed.header("etag").expect("a tag").to_owned();
            assert_eq!(tags.contains(&tag), found.is_none() || tags.len() > 1 && found == Some("gzip"), "{path} {tag}");
            let known = [("accept-encoding", accepted), ("if-none-match", tag.as_str())];
            let kept = http_client.get(&path, &known).await;
            assert_eq!((kept.status, kept.body.len(), kept.header("etag")), (304, 0, Some(tag.as_str())), "{path}");
            assert_eq!(kept.header("vary"), Some("accept-encoding"), "{path}");
            let other = [("accept-encoding", accepted), ("if-none-match", tags[0].as_str())];
            assert_eq!(http_client.get(&path, &other).await.status, if found.is_some() { 200 } else { 304 }, "{path}");
            let head = http_client.ask("HEAD", &path, &[("accept-encoding", accepted)], b"").await;
            assert_eq!(head.header("content-length"), Some(packed.body.len().to_string().as_str()), "{path}");
            if coding == "gzip" {
                plain_bytes += plain.body.len();
                gzip_bytes += packed.body.len();
            }
            tags.push(tag);
        }
    }
    assert!(gzip_bytes * 2 < plain_bytes, "{plain_bytes} bytes are {gzip_bytes}");
    assert!(with_brotli > 0, "no file has brotli: the page has changed in every file since this program was built");
}

/// Answers with what a client chose beside what it must not learn are never compressed: their lengths would tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_but_files_and_layouts_is_compressed() {
    let server = TestServer::open(Limits::default());
    let mut http_client = HttpClient::connect(server.clients).await;
    let all = ("accept-encoding", "br, gzip, deflate");
    for path in ["/page.json", "/v1/openapi.json", "/v1/shards", "/readyz", "/page/nothing.js", "/v1/nothing"] {
        let answer = http_client.get(path, &[all]).await;
        assert_eq!(answer.header("content-encoding"), None, "{path} {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_page_is_served() {
    let server = TestServer::open(Limits::default());
    let mut http_client = HttpClient::connect(server.clients).await;
    for path in [
        "/page/../Cargo.toml",
        "/page/..%2fCargo.toml",
        "/page/%2e%2e/Cargo.toml",
        "/page/css/../../src/lib.rs",
        "/page/css/../css/operator.css",
        "/page/./index.html",
        "/page//index.html",
        "/page//etc/passwd",
        "/page/css\\operator.css",
        "/page/index%2ehtml",
        "/page/css",
        "/page/css/",
        "/page/",
        "/page",
        "/page/.hidden.js",
        "/page/nothing.js",
        "/index.html",
        "/page.json/more",
    ] {
        let answer = http_client.get(path, &[]).await;
        assert_eq!((answer.status, answer.body.len()), (404, 0), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_json_describes_the_cluster() {
    let page = PageConfig {
        products: vec![id("programme"), id("poster")],
        resources: vec![id("room-5")],
        gateway: true,
        demo: Some("http://127.0.0.1:7190".into()),
        payment: Some("https://pay.example/element.js".into()),
    };
    let server = TestServer::with(EdgeConfig { page, ..EdgeConfig::default() });
    let member = |node: &str, client: &str| Member { node: node.into(), client: client.into() };
    *server.node.members.lock() = vec![
        member("n1", "10.0.0.1:7180"),
        member("n2", "box2.example:7180"),
        // Members without a known address or port.
        member("n3", ""),
        member("n4", "10.0.0.4:0"),
        member("n5", "[::1]:7180"),
    ];
    let mut http_client = HttpClient::connect(server.clients).await;
    let answer = http_client.get("/page.json", &[("origin", "https://tickets.example")]).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let expected = json!({
        "node": "n1",
        "nodes": [
            {"node": "n1", "url": "http://10.0.0.1:7180"},
            {"node": "n2", "url": "http://box2.example:7180"},
            {"node": "n5", "url": "http://[::1]:7180"},
        ],
        "products": ["programme", "poster"],
        "resources": ["room-5"],
        "gateway": true,
        "demo": "http://127.0.0.1:7190",
        "operators": false,
        "sells": true,
        "customers": false,
        "hosts": [],
        "payment": "https://pay.example/element.js",
    });
    assert_eq!(answer.json(), expected);
    assert_eq!(http_client.ask("HEAD", "/page.json", &[], b"").await.status, 200);
    assert_eq!(http_client.get("/metrics", &[]).await.status, 404, "anonymous callers see no counters");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_json_says_whether_strangers_may_buy() {
    for (anonymous, sells) in [(None, false), (Some(Role::Watch), false), (Some(Role::Sell), true)] {
        let server = TestServer::strict(EdgeConfig { anonymous, ..EdgeConfig::default() });
        let answer = HttpClient::connect(server.clients).await.get("/page.json", &[]).await;
        assert_eq!(answer.json()["sells"], json!(sells), "{anonymous:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_node_uses_the_host_of_the_request() {
    let server = TestServer::open(Limits::default());
    *server.node.members.lock() = vec![Member { node: "n1".into(), client: "".into() }];
    let answer: Value = HttpClient::connect(server.clients).await.get("/page.json", &[]).await.json();
    assert_eq!(answer["nodes"], json!([{"node": "n1", "url": "http://localhost"}]), "as the request's Host says");
    assert_eq!((&answer["gateway"], &answer["demo"], &answer["products"]), (&json!(false), &Value::Null, &json!([])));
    // The node does not know its cluster yet, and the request's host is not usable.
    server.node.members.lock().clear();
    for host in ["", "a b", "user@evil.example", "a/b"] {
        let request = format!("GET /page.json HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        let (status, body) = crate::server::common::http(server.clients, &request).await;
        if status == 200 {
            let answer: Value = serde_json::from_str(&body).expect("JSON");
            assert_eq!(
                answer["nodes"],
                json!([{"node": "n1", "url": format!("http://{}", server.clients)}]),
                "{host:?}"
            );
        }
    }
    assert_eq!(get(server.clients, "/page.json").await.0, 200);
}

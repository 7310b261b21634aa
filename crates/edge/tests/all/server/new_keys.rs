//! Keys that the directory has, and this node's copy of it not yet.

use std::time::Duration;

use boxoffice_core::access::{Role, Roles};
use boxoffice_edge::{EdgeConfig, Limits};
use boxoffice_wire::{Encoding, Op, access::ShownKey};
use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    http_client::HttpClient,
    server::common::{Client, Directory, SECRET, TestServer, add_key, id, key_with, refused, request, token},
};

/// The version of the directory that has the key.
const MADE_AT: u64 = 9;

fn key_of(name: &str) -> String {
    ShownKey { name, secret: SECRET }.written()
}

/// The directory has a key with this name, and this node has not heard of it.
fn make(server: &TestServer, name: &str) -> String {
    let mut directory = server.node.directory.lock();
    let directory = directory.get_or_insert_with(Directory::default);
    directory.version = MADE_AT;
    directory.keys.insert(id(name), key_with(name, Roles::of(Role::Desk)));
    key_of(name)
}

/// The status of a request with this key.
async fn posted(server: &TestServer, key: &str) -> u16 {
    let authorization = format!("Bearer {key}");
    let headers = [("authorization", authorization.as_str()), ("idempotency-key", "r")];
    HttpClient::connect(server.clients).await.post("/v1/venue.put", &headers, "[]").await.status
}

async fn socket(server: &TestServer, key: &str) -> Client {
    let authorization = format!("Bearer {key}");
    let upgrade = request(server.clients, Encoding::Json.subprotocol(), &[("authorization", &authorization)]);
    Client::connect_with(upgrade, Encoding::Json).await
}

fn strict() -> TestServer {
    let limits = Limits { auth_failure_step: Duration::from_millis(1), ..Limits::default() };
    TestServer::strict(EdgeConfig { anonymous: None, limits, ..EdgeConfig::default() })
}

/// A change of the keys has reached this node's copy of the directory, which has this version now.
fn copy_is_at(server: &TestServer, version: u64) {
    let mut ring = server.node.key_ring.lock();
    (ring.version, ring.copy_version) = (ring.version + 1, version);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_just_made_works_at_a_node_that_has_not_heard_of_it() {
    let server = strict();
    assert_eq!(posted(&server, &key_of("till")).await, 401, "there is no such key");
    let key = make(&server, "till");
    assert_eq!(posted(&server, &key).await, 400, "over HTTP");
    let authorization = format!("Bearer {key}");
    let headers = [("authorization", authorization.as_str()), ("idempotency-key", "r")];
    let operators = HttpClient::connect(server.operators).await.post("/v1/venue.put", &headers, "[]").await;
    assert_eq!(operators.status, 400, "at the operators' port");
    socket(&server, &key).await.is_alive().await;
    let mut client = Client::connect(server.clients, Encoding::Json).await;
    client.send(1, Op::Hello, json!({"token": key})).await;
    // Sent without waiting for the hello's answer, and allowed by it.
    client.send(2, Op::CartOpen, json!({"token": token(9)})).await;
    assert_eq!((client.code().await, client.code().await), ((Some(1), 0), (Some(2), 0)));
    assert_eq!(server.node.keys_asked.lock().len(), 5);
    // Another secret under the name is refused, as is a name that the directory does not have.
    let wrong = ShownKey { name: "till", secret: &SECRET.replace('0', "1") }.written();
    assert_eq!((posted(&server, &wrong).await, posted(&server, &key_of("nobody")).await), (401, 401));
    // A key that is made again under the name of a revoked one that the copy still has.
    add_key(&server, "desk", Roles::of(Role::Watch));
    let again = ShownKey { name: "desk", secret: &SECRET.replace('0', "2") };
    let mut made = (*key_with("desk", Roles::of(Role::Desk))).clone();
    made.terms.hash = again.hash();
    server.node.directory.lock().as_mut().expect("it answers").keys.insert(id("desk"), made.into());
    assert_eq!(posted(&server, &again.written()).await, 400);
}

/// The connection lives while the copy is older than the key, and ends when the key is revoked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_told_key_is_valid_until_the_copy_says_otherwise() {
    let server = strict();
    let key = make(&server, "till");
    let (mut slow, mut skips) = (socket(&server, &key).await, socket(&server, &key).await);
    // Another key reaches the copy, which is still older than this one.
    copy_is_at(&server, MADE_AT - 4);
    tokio::time::sleep(Duration::from_millis(400)).await;
    slow.is_alive().await;
    skips.is_alive().await;
    // It arrives at a version before the one that was told, because the directory has had other changes since.
    server.node.access_keys.lock().insert(id("till"), key_with("till", Roles::of(Role::Desk)));
    copy_is_at(&server, MADE_AT - 2);
    tokio::time::sleep(Duration::from_millis(400)).await;
    slow.is_alive().await;
    let mut late = socket(&server, &key).await;
    late.is_alive().await;
    server.node.access_keys.lock().remove(&id("till"));
    copy_is_at(&server, MADE_AT + 1);
    let gone = Instant::now();
    for client in [&mut slow, &mut skips, &mut late] {
        assert_eq!(client.close_code().await, 4001);
    }
    assert!(gone.elapsed() < Duration::from_secs(1), "after {:?}", gone.elapsed());
    // The copy gets the key and its end at once.
    let other = make(&server, "other");
    let mut skips = socket(&server, &other).await;
    skips.is_alive().await;
    copy_is_at(&server, MADE_AT + 3);
    assert_eq!(skips.close_code().await, 4001);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_with_the_same_new_key_asks_few_times() {
    let server = strict();
    let key = make(&server, "till");
    let statuses = join_all((0..100).map(|_| posted(&server, &key))).await;
    assert!(statuses.iter().all(|status| *status == 400), "{statuses:?}");
    let asked = server.node.keys_asked.lock().len();
    assert!(asked <= 20, "100 callers caused {asked} questions");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_keys_of_a_network_cause_ten_questions_a_second() {
    let server = strict();
    let begun = Instant::now();
    let keys: Vec<String> = (0..40).map(|number| key_of(&format!("k{number}"))).collect();
    let statuses = join_all(keys.iter().map(|key| posted(&server, key))).await;
    assert!(statuses.iter().all(|status| [401, 429].contains(status)), "{statuses:?}");
    let most = 10 * (begun.elapsed().as_secs() as usize + 1);
    let asked = server.node.keys_asked.lock().len();
    assert!((10..=most).contains(&asked), "{asked} questions in {:?}", begun.elapsed());
    // Beyond them a key waits a moment for this node's own copy.
    let key = key_of("till");
    let arrives = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        add_key(&server, "till", Roles::of(Role::Desk));
    };
    // A new second begins with these.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    join_all(keys[..10].iter().map(|key| posted(&server, key))).await;
    let ((), status) = tokio::join!(arrives, posted(&server, &key));
    assert_eq!(status, 400);
    // What has no name of a key is not asked about.
    let asked = server.node.keys_asked.lock().len();
    assert_eq!(posted(&server, "bok.not a name.0123456789abcdefghijABCDEFGHIJ-_0123456789x").await, 401);
    assert_eq!(posted(&server, "bok.short.secret").await, 401);
    assert_eq!(server.node.keys_asked.lock().len(), asked);
}

/// Without the directory nobody knows whether the key is right, so it is not called wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_nobody_can_judge_is_answered_not_ready() {
    let server = strict();
    *server.node.directory.lock() = None;
    let begun = Instant::now();
    assert_eq!(posted(&server, &key_of("till")).await, 503);
    assert!(begun.elapsed() < Duration::from_secs(5), "a second is enough: {:?}", begun.elapsed());
    let authorization = format!("Bearer {}", key_of("till"));
    let upgrade = request(server.clients, Encoding::Json.subprotocol(), &[("authorization", &authorization)]);
    assert_eq!(refused(upgrade).await, 503);
    let mut client = Client::connect(server.clients, Encoding::Json).await;
    client.send(1, Op::Hello, json!({"token": key_of("till")})).await;
    assert_eq!(client.code().await, (Some(1), 903));
    let key = make(&server, "till");
    client.send(2, Op::Hello, json!({"token": key})).await;
    assert_eq!(client.code().await, (Some(2), 0), "the connection was kept");
    client.is_alive().await;
}

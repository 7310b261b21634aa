//! Keys: created, used, recorded in the history, limited to venues, and revoked.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use boxoffice_wire::Op;
use serde_json::{Value, json};

use crate::common::{self, ADMIN, Answer, BOXOFFICE, Encoding, Home, Port, Rng, Theatre, eventually, http};

/// The output of `boxoffice admin`, or its exit code and error.
fn admin(address: SocketAddr, args: &[&str]) -> Result<String, (Option<i32>, String)> {
    let mut command = Command::new(BOXOFFICE);
    command.args(["admin", "--address", &address.to_string()]).args(args).env("BOXOFFICE_ADMIN_TOKEN", ADMIN);
    let output = command.output().expect("the program runs");
    match output.status.code() {
        Some(0) => Ok(String::from_utf8(output.stdout).expect("text")),
        code => Err((code, String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// The code of an op's answer with this key. 0 if it was granted.
async fn asked(address: SocketAddr, key: &str, op: &str, rid: &str, body: Value) -> u64 {
    let changes = Op::from_name(op).is_some_and(Op::changes);
    let (_, answer) = http::post_as(Some(key), address, op, changes.then_some(rid), &body).await;
    ["no", "fail"].iter().find_map(|kind| answer[*kind]["code"].as_u64()).unwrap_or(0)
}

/// Whether any file under a directory contains a text.
fn stands_in(dir: &Path, text: &str) -> bool {
    fs::read_dir(dir).expect("a directory").any(|entry| {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => stands_in(&path, text),
            false => fs::read(&path).expect("a file").windows(text.len()).any(|bytes| bytes == text.as_bytes()),
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_made_used_recorded_and_revoked() {
    let home = Home::new();
    let server = home.start();
    let address = server.address();
    let file = home.path().join("till.key");
    let to = file.display().to_string();
    let made = admin(address, &["key", "create", "till-3", "--role", "desk", "--to", &to]);
    assert_eq!(made, Ok(String::new()), "the key is written to the file only");
    let key = fs::read_to_string(&file).expect("it was written").trim().to_owned();
    assert!(key.starts_with("bok.till-3."), "{key}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).expect("it is there").permissions());
    assert_eq!(mode & 0o777, 0o600);
    // An existing file is not overwritten, and no key is created.
    let (code, words) =
        admin(address, &["key", "create", "till-4", "--role", "sell", "--to", &to]).expect_err("it is there");
    assert!(code == Some(2) && words.contains("till.key"), "{words}");
    let (code, words) = admin(address, &["key", "create", "till-3", "--role", "sell"]).expect_err("the name is taken");
    assert!(code == Some(1) && words.contains("already"), "{words}");
    let printed = admin(address, &["key", "create", "boss", "--role", "report"]).expect("a key");
    let boss = printed.trim().to_owned();

    let venue = |name: &str| json!({"id": "globe", "name": name});
    assert_eq!(asked(address, &key, "venue.put", "v-1", venue("The Globe")).await, 0);
    assert_eq!(asked(address, &boss, "venue.put", "v-2", venue("My Globe")).await, 108);
    assert_eq!(asked(address, &key, "admin.keys", "", json!({})).await, 108);
    let history = admin(address, &["history", "venue/globe"]).expect("a history");
    assert!(history.contains("(by till-3)"), "{history}");
    assert_eq!(asked(address, &boss, "admin.history", "", json!({"entity": "venue/globe"})).await, 0);
    let keys = admin(address, &["key", "list"]).expect("a list");
    assert!(keys.contains("till-3") && keys.contains("desk") && keys.contains("boss"), "{keys}");

    // Revocation closes a connection that used the key, and outlives a restart.
    let till = Port::show(address, Encoding::Json, Some(&key)).await.expect("it is taken");
    assert_eq!(admin(address, &["key", "revoke", "till-3"]), Ok("till-3 is revoked\n".into()));
    eventually("the key is refused", async || {
        (asked(address, &key, "venue.put", "v-3", venue("His Globe")).await == 107).then_some(())
    })
    .await;
    // It sends nothing meanwhile.
    assert_eq!(till.closed().await, 4001);
    let history = admin(address, &["history", "directory"]).expect("a history");
    assert!(
        history.contains("key_created") && history.contains("key_revoked") && history.contains("(by admin token)"),
        "{history}"
    );
    let log = server.stderr();
    server.stop();
    let server = home.start();
    let address = server.address();
    assert_eq!(asked(address, &key, "venue.get", "", json!({"id": "globe"})).await, 107);
    assert_eq!(asked(address, &boss, "admin.status", "", json!({})).await, 0);
    // No file contains the secret of a key.
    for secret in [&key, &boss].map(|key| key.rsplit('.').next().expect("a secret")) {
        assert!(!stands_in(&home.data_dir(), secret) && !log.contains(secret) && !server.stderr().contains(secret));
    }
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_for_one_venue_changes_nothing_of_another() {
    let mut rng = Rng::of_test("a_key_for_one_venue_changes_nothing_of_another");
    let home = Home::new();
    let server = home.start();
    let address = server.address();
    let operator = server.port(Encoding::Json).await;
    let ours = Theatre::open_called(&operator, "royal", "ours", 1, (2, 4), None).await;
    let theirs = Theatre::open_called(&operator, "globe", "theirs", 1, (2, 4), None).await;
    let made = admin(address, &["key", "create", "royal", "--role", "desk", "--venue", "royal"]).expect("a key");
    let key = made.trim();
    let (code, words) = admin(address, &["key", "create", "k", "--role", "admin", "--venue", "royal"])
        .expect_err("admins have all venues");
    assert!(code == Some(1) && words.contains("venues"), "{words}");

    let mut number = 0;
    let mut ask = async |op: &str, body: Value| {
        number += 1;
        asked(address, key, op, &format!("r-{number}"), body).await
    };
    let block = |session: &str| json!({"id": session, "seats": [[0, 0]]});
    assert_eq!(ask("session.block", block(ours.session())).await, 0);
    assert_eq!(ask("session.block", block(theirs.session())).await, 108);
    assert_eq!(ask("venue.put", json!({"id": "royal", "name": "Royal"})).await, 0);
    assert_eq!(ask("venue.put", json!({"id": "globe", "name": "Mine"})).await, 108);
    assert_eq!(ask("title.put", json!({"id": "ours", "name": "Ours"})).await, 108);
    assert_eq!(ask("admin.status", json!({})).await, 108);
    assert_eq!(ask("admin.audit", json!({})).await, 108);
    for (session, expected) in [(ours.session(), 0), (theirs.session(), 108)] {
        let of = json!({"entity": format!("session/{session}")});
        assert_eq!(ask("admin.audit", of.clone()).await, expected, "{session}");
        assert_eq!(ask("admin.history", of).await, expected, "{session}");
        // Public ops.
        assert_eq!(ask("session.map", json!({"id": session})).await, 0);
        // A hold, and the payment of a cart that another caller filled.
        let hold = |token: &str| json!({"token": token, "session": session, "seats": [[1, 1]]});
        let held = ask("cart.hold_seats", hold(&rng.token())).await;
        assert!(held == expected, "{session}: {held}");
        let token = rng.token();
        operator
            .ask("cart.hold_seats", &token, json!({"token": token, "session": session, "seats": [[1, 2]]}))
            .await
            .ok();
        assert_eq!(ask("cart.checkout", common::checkout(&token)).await, expected, "{session}");
        let (token, rid) = (rng.token(), rng.token());
        operator
            .ask("cart.hold_seats", &rid, json!({"token": token, "session": session, "seats": [[1, 3]]}))
            .await
            .ok();
        let order = operator.ask("cart.checkout", &token, common::checkout(&token)).await.ok();
        let refund = json!({"order": order["id"], "reason": "rain"});
        assert_eq!(ask("order.refund", refund).await, expected, "{session}: {order}");
    }
    let (_, counters) = http::get(address, "/metrics").await;
    assert!(counters.contains("boxoffice_edge_denied_total{reason=\"venue\"}"), "{counters}");
    server.stop();
}

/// A guest's cart ends at its maximum age however often it is touched. A desk's cart next to it lives on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guests_cart_ends_at_its_maximum_age() {
    const TTL: Duration = Duration::from_secs(2);
    const AGE: Duration = Duration::from_secs(4);
    let mut rng = Rng::of_test("a_guests_cart_ends_at_its_maximum_age");
    let bounds = format!("guest_ttl_max_ms = {}\nguest_age_max_ms = {}\n", TTL.as_millis(), AGE.as_millis());
    let home = Home::with_config(&format!("[carts]\n{bounds}"));
    let server = home.start();
    let desk = server.port(Encoding::Json).await;
    let theatre = Theatre::open(&desk, 1, (2, 40), None).await;
    let guest = Port::guest(server.address(), Encoding::Json).await;

    let open = |token: &str, ttl_ms: u64| json!({"token": token, "ttl_ms": ttl_ms});
    let (long, longer) = (rng.token(), rng.token());
    guest.ask("cart.open", "long", open(&long, 2_001)).await.no(108, "forbidden");
    desk.ask("cart.open", "longer", open(&longer, 3_600_000)).await.ok();

    // A guest's first hold opens a cart with the same bounds.
    let (token, begun) = (rng.token(), Instant::now());
    let mut seat: u64 = 0;
    let ended = loop {
        seat += 1;
        let hold =
            |token: &str, row: u32| json!({"token": token, "session": theatre.session(), "seats": [[row, seat]]});
        desk.ask("cart.hold_seats", &format!("desk-{seat}"), hold(&longer, 1)).await.ok();
        match guest.ask("cart.hold_seats", &format!("guest-{seat}"), hold(&token, 0)).await {
            Answer::Ok(..) => tokio::time::sleep(TTL / 8).await,
            other => break other,
        }
        assert!(seat < 40, "the cart still lives after {:?} of holds", begun.elapsed());
    };
    let lived = begun.elapsed();
    ended.no(307, "hold_age_exceeded");
    assert!(lived >= AGE, "the cart ended after {lived:?}");
    assert!(seat > 3, "{seat} holds: the cart would have expired anyway");
    let map = eventually("its seats are free", async || {
        let map = theatre.map(&desk, theatre.session()).await;
        map.seats.starts_with(&".".repeat(40)).then_some(map)
    })
    .await;
    assert_eq!(map.held, seat, "the desk's cart lives on");
    server.stop();
}

//! The hour of a show: the zone of a venue, the begin of a session, and imports by the clocks of the venue.

use std::{
    fs,
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::common::{
    self, ADMIN, Answer, BOXOFFICE, Encoding, Home, Port, Rng, eventually,
    fixture::{event, room},
};

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis()).expect("a time")
}

/// The output of `boxoffice import` of a file with this name and text, and its exit code.
fn import(home: &Home, address: std::net::SocketAddr, name: &str, text: &str, args: &[&str]) -> (Option<i32>, String) {
    let file = home.path().join(name);
    fs::write(&file, text).expect("a file");
    let mut command = Command::new(BOXOFFICE);
    command.args(["import", "--address", &address.to_string()]).arg(&file).args(args);
    let output = command.env("BOXOFFICE_ADMIN_TOKEN", ADMIN).output().expect("the program runs");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text")).concat();
    (output.status.code(), text)
}

/// The refusal of an answer.
fn refused(answer: Answer, code: u64, words: &str) {
    match answer {
        Answer::No(no) if no.code == code && no.body["message"].as_str().is_some_and(|text| text.contains(words)) => {}
        other => panic!("must be refused with {code} ({words}): {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_show_that_has_begun_is_sold_at_the_desk_only_unless_the_house_says_otherwise() {
    let mut rng = Rng::of_test("a_show_that_has_begun_is_sold_at_the_desk_only_unless_the_house_says_otherwise");
    let home = Home::new();
    let server = home.start();
    let address = server.address();
    let desk = server.port(Encoding::Json).await;
    let begins = now_ms() + 4_000;
    let times = |more: Value| {
        let mut body =
            json!({"starts_at": common::time(&desk, begins), "ends_at": common::time(&desk, begins + 3_600_000)});
        body.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
        body
    };
    event(&desk, "strict", 100, times(json!({}))).await;
    event(&desk, "late", 100, times(json!({"sells_after_begin": true}))).await;
    let guest = Port::guest(address, Encoding::Json).await;
    let hold = |token: &str, session: &str| json!({"token": token, "session": session, "area": "yard", "quantity": 1});
    let early = rng.token();
    guest.ask("cart.hold_places", "early", hold(&early, "strict")).await.ok();
    assert!(now_ms() < begins, "the machine is too slow for this test");
    let view = guest.read("session.get", json!({"id": "late"})).await.ok();
    assert_eq!(view["sells_after_begin"], json!(true));

    tokio::time::sleep(Duration::from_millis(begins - now_ms() + 200)).await;
    for encoding in Encoding::BOTH {
        let guest = Port::guest(address, encoding).await;
        refused(guest.ask("cart.hold_places", "too-late", hold(&rng.token(), "strict")).await, 207, "it has begun");
        let more = json!({"token": early, "line": 1, "quantity": 2});
        refused(guest.ask("cart.set_quantity", "more", more).await, 207, "it has begun");
        guest.ask("cart.hold_places", "late", hold(&rng.token(), "late")).await.ok();
    }
    desk.ask("cart.hold_places", "desk", hold(&rng.token(), "strict")).await.ok();
    for (role, sells) in [("sell", false), ("desk", true)] {
        let key = Command::new(BOXOFFICE)
            .args(["admin", "--address", &address.to_string(), "key", "create", role, "--role", role])
            .env("BOXOFFICE_ADMIN_TOKEN", ADMIN)
            .output()
            .expect("the program runs");
        let key = String::from_utf8(key.stdout).expect("text");
        let shown = Port::show(address, Encoding::Json, Some(key.trim())).await.expect("it is taken");
        let answer = shown.ask("cart.hold_places", role, hold(&rng.token(), "strict")).await;
        match sells {
            true => drop(answer.ok()),
            false => refused(answer, 207, "it has begun"),
        }
    }
    // What is held is paid for, and a node that starts again knows the rule.
    let paid = json!({"token": early, "payment": {"recorded": {"method": "cash", "transaction_id": "1"}}});
    guest.ask("cart.checkout", "pay", paid).await.ok();
    server.stop();
    let server = home.start();
    let guest = Port::guest(server.address(), Encoding::Json).await;
    refused(guest.ask("cart.hold_places", "again", hold(&rng.token(), "strict")).await, 207, "it has begun");
    guest.ask("cart.hold_places", "late again", hold(&rng.token(), "late")).await.ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_over_or_too_long_is_refused_in_words() {
    let home = Home::new();
    let server = home.start();
    let desk = server.port(Encoding::Json).await;
    event(&desk, "good", 10, Value::Null).await;
    let create = |starts: &str, ends: &str| {
        json!({"id": "bad", "venue": "arena", "hall": "good", "title": "finals", "starts_at": starts, "ends_at": ends,
            "areas": [{"id": "yard", "capacity": 10, "price": {"amount": 1_000, "currency": "EUR"}}]})
    };
    let over = create("2025-11-29T19:30:00Z", "2025-11-29T22:30:00Z");
    refused(desk.ask("session.create", "over", over).await, 101, "the session is over: it ends at 2025-11-29T22:30Z");
    let long = create("2031-01-01T10:00:00Z", "2031-03-02T10:00:00Z");
    refused(
        desk.ask("session.create", "long", long).await,
        101,
        "the session takes 60 days; the longest takes 31 days",
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zone_is_in_every_answer_that_tells_a_time_and_outlives_a_restart() {
    let mut rng = Rng::of_test("a_zone_is_in_every_answer_that_tells_a_time_and_outlives_a_restart");
    let home = Home::new();
    let mut server = home.start();
    let mut desk = server.port(Encoding::Json).await;
    event(&desk, "match", 100, Value::Null).await;
    room(&desk, "room", Value::Null).await;
    let put =
        |zone: &str| json!({"id": "arena", "name": "Arena", "city": "Athens", "zone": zone, "address": "At the sea 1"});
    let changed = desk.ask("venue.put", "zone", put("europe/athens")).await.ok();
    assert_eq!(changed, json!({"shifted": 1}));
    assert_eq!(desk.ask("venue.put", "zone", put("europe/athens")).await.ok(), json!({"shifted": 1}), "a repeat");
    refused(desk.ask("venue.put", "wrong", put("Atlantis/City")).await, 101, "Atlantis/City is no zone");
    let token = rng.token();
    for restarted in [false, true] {
        if restarted {
            server.stop();
            server = home.start();
            desk = server.port(Encoding::Json).await;
        }
        for encoding in Encoding::BOTH {
            let port = Port::guest(server.address(), encoding).await;
            let zone = "Europe/Athens";
            eventually("the session knows the zone", async || {
                (port.read("session.get", json!({"id": "match"})).await.ok()["zone"] == zone).then_some(())
            })
            .await;
            let venue = port.read("venue.get", json!({"id": "arena"})).await.ok();
            assert_eq!((&venue["zone"], &venue["address"]), (&json!(zone), &json!("At the sea 1")));
            assert_eq!(port.read("venue.search", json!({"city": "athens"})).await.ok()["venues"][0]["zone"], zone);
            for search in [json!({"venue": "arena"}), json!({"city": "Athens"})] {
                let found = port.read("session.search", search).await.ok();
                assert_eq!(found["sessions"][0]["zone"], zone, "{found}");
            }
        }
    }
    let guest = Port::guest(server.address(), Encoding::Json).await;
    let hold = json!({"token": token, "session": "match", "area": "yard", "quantity": 1, "customer": "ann"});
    assert_eq!(guest.ask("cart.hold_places", "hold", hold).await.ok()["lines"][0]["zone"], "Europe/Athens");
    let (begin, end) = (common::time(&guest, 1_900_000_800_000), common::time(&guest, 1_900_004_400_000));
    let slot = json!({"token": token, "resource": "room", "begin": begin, "end": end});
    assert_eq!(guest.ask("cart.hold_slot", "slot", slot).await.ok()["lines"][0]["zone"], "Europe/Berlin");
    assert_eq!(guest.read("cart.get", json!({"token": token})).await.ok()["lines"][0]["zone"], "Europe/Athens");
    // The venue moves to another zone. What was held before keeps its own.
    assert_eq!(desk.ask("venue.put", "zone-2", put("Asia/Kathmandu")).await.ok(), json!({"shifted": 1}));
    eventually("the session knows the zone", async || {
        (guest.read("session.get", json!({"id": "match"})).await.ok()["zone"] == "Asia/Kathmandu").then_some(())
    })
    .await;
    let paid = json!({"token": token, "payment": {"recorded": {"method": "cash", "transaction_id": "1"}}});
    let order = guest.ask("cart.checkout", "pay", paid).await.ok();
    let zones = |order: &Value| [0, 1].map(|line| order["lines"][line]["zone"].clone());
    assert_eq!(zones(&order), [json!("Europe/Athens"), json!("Europe/Berlin")]);
    let order = desk.read("order.get", json!({"order": order["id"]})).await.ok();
    assert_eq!(zones(&order), [json!("Europe/Athens"), json!("Europe/Berlin")]);
    eventually("the purchase is posted", async || {
        let page = desk.read("customer.purchases", json!({"customer": "ann"})).await.ok();
        (page["purchases"][0]["zone"] == "Europe/Athens").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn imports_read_times_by_the_clocks_of_the_venue() {
    let home = Home::new();
    let server = home.start();
    let address = server.address();
    let file = |zone: &str, starts: &str, ends: &str| {
        format!(
            r#"{{"currency": "EUR", "venues": [{{"id": "v", "name": "V"{zone},
            "halls": [{{"id": "h", "layout": {{"rows": 1, "seats": 5}}}}],
            "sessions": [{{"id": "s", "hall": "h", "title": "t", "starts_at": "{starts}", "ends_at": "{ends}",
                "prices": {{"*": 1000}}}}]}}]}}"#
        )
    };
    let copenhagen = r#", "zone": "Europe/Copenhagen""#;
    for (starts, ends, words) in [
        ("2025-11-29T19:30:00Z", "+3h", "it is over since 2025-11-29 23:30 Europe/Copenhagen; is the year right?"),
        ("2031-01-01T20:00", "2031-01-01T19:00", "it would end (2031-01-01 19:00 Europe/Copenhagen) before it starts"),
        ("2031-01-01T20:00", "+60d", "it would take 60 days"),
        ("2031-03-30T02:30", "+3h", "write 2031-03-30T01:30+01:00 or 2031-03-30T03:30+02:00"),
        ("2031-10-26T02:30", "+3h", "write 2031-10-26T02:30+02:00 or 2031-10-26T02:30+01:00"),
    ] {
        let (code, text) = import(&home, address, "bad.json", &file(copenhagen, starts, ends), &[]);
        assert!(code == Some(1) && text.contains(words), "{starts} {ends}: {code:?}: {text}");
    }
    let (code, text) = import(&home, address, "a.json", &file(r#", "zone": "Atlantis/City""#, "+1d 19:30", "+3h"), &[]);
    assert!(code == Some(2) && text.contains("Atlantis/City is no zone of the IANA database"), "{text}");
    let (code, text) = import(&home, address, "b.json", &file(copenhagen, "2031-06-01T19:30", "+3h"), &[]);
    assert!(code == Some(0) && text.contains("2031-06-01 19:30 Europe/Copenhagen"), "{text}");
    assert!(!text.contains("warning"), "{text}");
    let port = server.port(Encoding::Json).await;
    let session = port.read("session.get", json!({"id": "s"})).await.ok();
    assert_eq!(
        (&session["starts_at"], &session["zone"]),
        (&json!("2031-06-01T17:30:00.000Z"), &json!("Europe/Copenhagen"))
    );
    // A file without a zone takes none away, and its local times are still the venue's.
    let (code, text) = import(&home, address, "c.json", &file("", "2031-06-01T19:30", "+3h"), &[]);
    assert!(code == Some(0) && text.contains("there     venue v") || text.contains("there    venue v"), "{text}");
    // A new venue without a zone is told in UTC, and the import says so.
    let seats = "row,seat\nA,1\n";
    let csv =
        ["--venue", "w", "--hall", "h", "--session", "w-1", "--price", "*=1000", "--starts-at", "2031-06-01T19:30"];
    let (code, text) = import(&home, address, "w.csv", seats, &csv);
    assert!(code == Some(0) && text.contains("warning  venue w has no zone"), "{text}");
    assert!(text.contains("2031-06-01 19:30 UTC"), "{text}");
    let csv = ["--venue", "x", "--zone", "Asia/Kathmandu", "--hall", "h", "--session", "x-1", "--price", "*=1000"];
    let (code, text) = import(&home, address, "x.csv", seats, &csv);
    assert!(code == Some(0) && text.contains("19:30 Asia/Kathmandu") && !text.contains("warning"), "{text}");
    let other = ["--venue", "x", "--zone", "Europe/Berlin", "--hall", "h"];
    let (code, text) = import(&home, address, "x.csv", seats, &other);
    assert!(code == Some(1) && text.contains("it is there already with Asia/Kathmandu"), "{text}");
}

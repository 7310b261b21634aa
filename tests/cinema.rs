//! Cinemas and theatres: venues by city and by distance, titles, sessions by title and time, seats of irregular halls.

use std::sync::Arc;

use crate::common::{self, Encoding, Home, Map, Port, Rng, Shopper, Theatre, eventually, fixture::audit, http, time};
use serde_json::{Value, json};

const START_MS: u64 = 1_900_000_000_000;
const HOUR_MS: u64 = 3_600_000;

/// Cinemas of two cities with two halls each, films, and sessions.
async fn open_cinemas(port: &Port) {
    let mut items = Vec::new();
    let mut item =
        |op: &str, body: Value| items.push(json!({"op": op, "rid": format!("i{}", items.len()), "body": body}));
    for (id, name, city, lon, lat) in [
        ("astor", "Astor Palace", "Berlin", 13.33, 52.50),
        ("babylon", "Babylon", "Berlin", 13.41, 52.53),
        ("colosseum", "Colosseum", "Berlin", 13.41, 52.55),
        ("delphi", "Delphi Palace", "Berlin", 13.32, 52.51),
        ("savoy", "Savoy", "Hamburg", 10.01, 53.56),
        ("zeise", "Zeise", "Hamburg", 9.93, 53.55),
    ] {
        let position = json!({"lon": lon, "lat": lat});
        item("venue.put", json!({"id": id, "name": name, "city": city, "position": position, "comments": "a bar"}));
        for (hall, seats) in [("one", 10), ("two", 5)] {
            let layout = json!({"rows": 12, "seats": seats});
            item("hall.put", json!({"venue": id, "id": hall, "name": format!("Hall {hall}"), "layout": layout}));
        }
    }
    for (id, name, director) in [
        ("metropolis", "Metropolis", "Fritz Lang"),
        ("m", "M", "Fritz Lang"),
        ("nosferatu", "Nosferatu", "F. W. Murnau"),
    ] {
        let title = json!({"id": id, "name": name, "director": director, "cast": ["Brigitte Helm", "Peter Lorre"],
            "comments": "black and white", "duration_ms": 2 * HOUR_MS});
        item("title.put", title);
    }
    for venue in ["astor", "babylon", "savoy"] {
        for (number, (hall, title)) in
            [("one", "metropolis"), ("one", "m"), ("two", "m"), ("two", "nosferatu")].into_iter().enumerate()
        {
            let starts_at = START_MS + number as u64 * 3 * HOUR_MS;
            let price = json!({"standard": {"amount": 900 + 100 * number, "currency": "EUR"}});
            item(
                "session.create",
                json!({"id": format!("{venue}-{number}"), "venue": venue, "hall": hall, "title": title,
                "starts_at": time(port, starts_at), "ends_at": time(port, starts_at + 2 * HOUR_MS), "prices": price}),
            );
        }
    }
    let answers = port.read("batch", json!({"items": items})).await.ok();
    for (item, answer) in items.iter().zip(answers["items"].as_array().expect("items")) {
        assert!(answer.get("ok").is_some(), "{item}: {answer}");
    }
}

fn ids<'a>(body: &'a Value, list: &str) -> Vec<&'a str> {
    body[list].as_array().expect("a list").iter().map(|entry| entry["id"].as_str().expect("an id")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn venues_titles_and_sessions_are_searched() {
    let home = Home::new();
    let server = home.start();
    open_cinemas(&server.port(Encoding::Json).await).await;
    for encoding in Encoding::BOTH {
        let port = server.port(encoding).await;
        // Venues reach the directory a moment later.
        let found = async |body: Value| port.read("venue.search", body).await.ok();
        eventually("every venue is listed", async || {
            (found(json!({})).await["venues"].as_array()?.len() == 6).then_some(())
        })
        .await;
        let berlin = found(json!({"city": "Berlin"})).await;
        assert_eq!(ids(&berlin, "venues"), ["astor", "babylon", "colosseum", "delphi"]);
        assert_eq!(ids(&found(json!({"city": "Berlin", "name": "palace"})).await, "venues"), ["astor", "delphi"]);
        assert_eq!(ids(&found(json!({"city": "Rome"})).await, "venues"), [""; 0]);
        // Nearest first, with the distance. Pages give the same list.
        let gate = json!({"lon": 13.378, "lat": 52.516});
        let near = found(json!({"city": "Berlin", "near": gate})).await;
        assert_eq!(ids(&near, "venues"), ["babylon", "astor", "delphi", "colosseum"]);
        let distances: Vec<f64> = near["venues"]
            .as_array()
            .expect("venues")
            .iter()
            .map(|venue| venue["distance_m"].as_f64().expect("metres"))
            .collect();
        assert!(distances.is_sorted() && (2_000.0..3_500.0).contains(&distances[0]), "{distances:?}");
        let (mut cursor, mut paged) = (Value::Null, Vec::new());
        loop {
            let page = found(json!({"near": gate, "limit": 2, "cursor": cursor})).await;
            paged.extend(ids(&page, "venues").into_iter().map(str::to_owned));
            cursor = page["cursor"].clone();
            if cursor.is_null() || paged.len() > 6 {
                break;
            }
        }
        assert_eq!(paged, ["babylon", "astor", "delphi", "colosseum", "savoy", "zeise"]);
        let venue = port.read("venue.get", json!({"id": "astor"})).await.ok();
        assert_eq!(venue["position"], json!({"lon": 13.33, "lat": 52.5}));
        let halls =
            json!([{"id": "one", "name": "Hall one", "seats": 120}, {"id": "two", "name": "Hall two", "seats": 60}]);
        assert_eq!((&venue["halls"], &venue["comments"]), (&halls, &json!("a bar")));

        let titles = port.read("title.search", json!({"name": "m"})).await.ok();
        assert_eq!(ids(&titles, "titles"), ["m", "metropolis"]);
        let title = port.read("title.get", json!({"id": "metropolis"})).await.ok();
        assert_eq!((&title["director"], &title["cast"][0]), (&json!("Fritz Lang"), &json!("Brigitte Helm")));
        let sessions = async |body: Value| port.read("session.search", body).await.ok();
        assert_eq!(ids(&sessions(json!({"venue": "astor", "title": "m"})).await, "sessions"), ["astor-1", "astor-2"]);
        assert_eq!(
            ids(&sessions(json!({"venue": "astor", "title": "m", "hall": "two"})).await, "sessions"),
            ["astor-2"]
        );
        assert_eq!(ids(&sessions(json!({"venue": "zeise"})).await, "sessions"), [""; 0]);
        let window =
            json!({"venue": "astor", "from": time(&port, START_MS + 1), "to": time(&port, START_MS + 9 * HOUR_MS)});
        assert_eq!(ids(&sessions(window).await, "sessions"), ["astor-1", "astor-2"]);
        let city = sessions(json!({"city": "Berlin", "title": "nosferatu"})).await;
        assert_eq!(ids(&city, "sessions"), ["astor-3", "babylon-3"]);
        assert_eq!(city["sessions"][1]["venue"], "babylon");
        let session = port.read("session.get", json!({"id": "babylon-3"})).await.ok();
        assert_eq!(session["prices"], json!({"standard": {"amount": 1_200, "currency": "EUR"}}));
    }
    // The same over HTTP.
    let (status, text) =
        http::get(server.address(), "/v1/venue.search?city=Hamburg&near=%7B%22lon%22:9.9,%22lat%22:53.5%7D").await;
    let body: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((status, ids(&body["ok"], "venues")), (200, vec!["zeise", "savoy"]));
    let (status, text) = http::get(server.address(), "/v1/session.search?city=Hamburg&title=metropolis").await;
    let body: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((status, ids(&body["ok"], "sessions")), (200, vec!["savoy-0"]));
}

/// Several holds of one session: atomic or partial as requested, and one payment for all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seats_of_a_session_are_sold() {
    let mut rng = Rng::of_test("seats_of_a_session_are_sold");
    let home = Home::new();
    let server = home.start();
    let port = Arc::new(server.port(Encoding::Json).await);
    open_cinemas(&port).await;
    let states = async || {
        let map = port.read("session.map", json!({"id": "astor-2", "view": "2,1,0"})).await.ok();
        map["states"].as_array().expect("states")[..5].to_vec()
    };
    let [first, second, third] = [(); 3].map(|()| Shopper::new(&port, &mut rng));
    first.seats("astor-2", json!([[0, 1], [0, 2]])).await.ok();
    assert_eq!(states().await, [2, 1, 1, 2, 2]);
    let no = second.seats("astor-2", json!([[0, 0], [0, 1], [0, 3]])).await.no(201, "seats_taken");
    assert_eq!(
        (&no["seats"], states().await),
        (&json!([[0, 1]]), json!([2, 1, 1, 2, 2]).as_array().expect("five").clone())
    );
    // A partial hold on request.
    let some = json!({"session": "astor-2", "seats": [[0, 0], [0, 1], [0, 3]], "best_effort": true});
    let held = second.ask("cart.hold_seats", some).await.ok();
    assert_eq!(held["lines"][0]["seats"], json!([[0, 0], [0, 3]]));
    let none = json!({"session": "astor-2", "seats": [[0, 0], [0, 1]], "best_effort": true});
    third.ask("cart.hold_seats", none).await.no(201, "seats_taken");
    assert_eq!(states().await, [1, 1, 1, 1, 2]);
    // Row 10 is after row 2, and seats count from 0.
    third.seats("astor-2", json!([[2, 4], [10, 0]])).await.ok();
    let map = Map::read(&port.read("session.map", json!({"id": "astor-2"})).await.ok(), 60);
    assert_eq!((&map.seats[10..15], &map.seats[50..55]), ("....h", "h...."));
    for seats in [json!([[12, 0]]), json!([[0, 5]]), json!([[1, 0], [0, 10]])] {
        third.seats("astor-2", seats).await.no(202, "no_such_seat");
    }
    third.seats("astor-2", json!([[3, 3], [3, 3]])).await.no(203, "duplicate_seat");
    third.seats("astor-2", json!([])).await.no(101, "bad_request");
    second.checkout().await.ok();
    assert_eq!(states().await, [0, 1, 1, 0, 2]);
    // Creating the same session again returns it, with its sold seats. Different fields are refused.
    let body = json!({"id": "astor-2", "venue": "astor", "hall": "two", "title": "m",
        "starts_at": time(&port, START_MS + 6 * HOUR_MS), "ends_at": time(&port, START_MS + 8 * HOUR_MS),
        "prices": {"standard": {"amount": 1_100, "currency": "EUR"}}});
    port.ask("session.create", "again", body.clone()).await.ok();
    assert_eq!(states().await, [0, 1, 1, 0, 2]);
    let mut other = body.clone();
    other["prices"]["standard"]["amount"] = 1.into();
    port.ask("session.create", "other", other).await.no(702, "already_exists_differently");
    let mut overlapping = body;
    (overlapping["id"], overlapping["starts_at"]) = ("astor-x".into(), time(&port, START_MS + 7 * HOUR_MS));
    port.ask("session.create", "overlapping", overlapping).await.no(208, "hall_occupied");
    audit(&port).await;
}

/// A hall with rows of different lengths, aisles and gaps. Sessions keep the layout of their creation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ragged_hall_and_its_later_edits() {
    let mut rng = Rng::of_test("a_ragged_hall_and_its_later_edits");
    let home = Home::new();
    let server = home.start();
    let port = Arc::new(server.port(Encoding::MsgPack).await);
    port.ask("venue.put", "v", json!({"id": "old-vic", "name": "Old Vic", "city": "London"})).await.ok();
    port.ask("title.put", "t", json!({"id": "hamlet", "name": "Hamlet"})).await.ok();
    let hall = |rows: Value| json!({"venue": "old-vic", "id": "main", "name": "Main", "layout": {"rows": rows}});
    let ragged = json!([
        {"label": "A", "category": "stalls", "count": 3},
        {"label": "B", "category": "stalls", "count": 6, "first": 2, "step": 2, "gaps": [2, 4]},
        {"label": "C", "category": "circle", "seats": [{"label": "1"}, null, {"label": "3", "accessible": true}]},
    ]);
    port.ask("hall.put", "h", hall(ragged)).await.ok();
    let create = |id: &str, starts_at: u64, prices: Value| {
        json!({"id": id, "venue": "old-vic", "hall": "main", "title": "hamlet", "starts_at": starts_at,
            "ends_at": starts_at + HOUR_MS, "prices": prices})
    };
    let prices =
        json!({"stalls": {"amount": 1_000, "currency": "GBP"}, "circle": {"amount": 2_500, "currency": "GBP"}});
    let session = port.ask("session.create", "s", create("hamlet-1", START_MS, prices.clone())).await.ok();
    assert_eq!(session["counts"]["free"], 11);
    let missing = create("hamlet-2", START_MS + HOUR_MS, json!({"stalls": prices["stalls"]}));
    port.ask("session.create", "s2", missing).await.no(101, "bad_request");
    // The hall is rebuilt. Sold seats keep the old layout.
    port.ask("hall.put", "h2", hall(json!([{"label": "A", "category": "stalls", "count": 2}]))).await.ok();
    let buyer = Shopper::new(&port, &mut rng);
    let held = buyer.seats("hamlet-1", json!([[1, 5], [2, 1]])).await.ok();
    assert_eq!((&held["lines"][0]["prices"], &held["currency"]), (&json!([1_000, 2_500]), &json!("GBP")));
    buyer.seats("hamlet-1", json!([[2, 2]])).await.no(202, "no_such_seat");
    assert_eq!(buyer.checkout().await.ok()["total"], json!({"amount": 3_500, "currency": "GBP"}));
    assert_eq!(port.read("session.get", json!({"id": "hamlet-1"})).await.ok()["layout"], session["layout"]);
    let both = create("hamlet-3", START_MS + HOUR_MS, prices.clone());
    port.ask("session.create", "s3", both).await.no(101, "bad_request");
    let only_stalls = create("hamlet-4", START_MS + 2 * HOUR_MS, json!({"stalls": prices["stalls"]}));
    assert_eq!(port.ask("session.create", "s4", only_stalls).await.ok()["counts"]["free"], 2);
    // Currencies do not mix in a cart.
    common::fixture::product(&port, "programme", 5, Value::Null).await;
    let mixed = Shopper::new(&port, &mut rng);
    mixed.stock("programme", 1).await.ok();
    mixed.seats("hamlet-1", json!([[0, 0]])).await.no(101, "bad_request");
    eventually("nothing of the refused line is held", async || {
        let map = Map::read(&port.read("session.map", json!({"id": "hamlet-1"})).await.ok(), 11);
        (map.held == 0).then_some(())
    })
    .await;
    audit(&port).await;
}

/// Two lines of one cart in one session: both expire, and a late release frees no seat of another cart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_line_of_an_abandoned_cart_expires() {
    let mut rng = Rng::of_test("every_line_of_an_abandoned_cart_expires");
    let home = Home::new();
    let server = home.start();
    let port = Arc::new(server.port(Encoding::Json).await);
    let theatre = Theatre::open(&port, 2, (2, 8), Some(1_000)).await;
    let [one, two] = [0, 1].map(|number| theatre.sessions[number].as_str());
    let forgotten = Shopper::new(&port, &mut rng);
    forgotten.seats(one, json!([[0, 0], [0, 1]])).await.ok();
    forgotten.seats(one, json!([[1, 6], [1, 7]])).await.ok();
    let release = json!({"token": forgotten.token, "line": 1, "seats": [[0, 0]]});
    port.ask("cart.release", "early", release.clone()).await.ok();
    forgotten.seats(two, json!([[0, 0]])).await.ok();
    let rival = Shopper::new(&port, &mut rng);
    eventually("everything is free", async || {
        let (one, two) = (theatre.map(&port, one).await, theatre.map(&port, two).await);
        (one.free == 16 && two.free == 16).then_some(())
    })
    .await;
    let cart = forgotten.get().await;
    assert_eq!((&cart["state"], cart["lines"].as_array().map(Vec::len)), (&json!("expired"), Some(3)));
    rival.seats(one, json!([[0, 0], [0, 1], [1, 7]])).await.ok();
    rival.checkout().await.ok();
    // Repeats and late requests of the ended cart.
    port.ask("cart.release", "early", release.clone()).await.ok();
    port.ask("cart.release", "late", release).await.no(302, "cart_expired");
    forgotten.cancel().await.no(302, "cart_expired");
    forgotten.checkout().await.no(302, "cart_expired");
    assert_eq!(theatre.map(&port, one).await.seats, "ss.............s");
    audit(&port).await;
}

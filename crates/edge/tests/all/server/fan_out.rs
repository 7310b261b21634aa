//! Queries that use several commands: searches over a city, and histories, over WebSocket and HTTP.

use std::collections::BTreeSet;

use boxoffice_core::{
    event::{Event, SessionEvent},
    id::{CartId, HoldId, OrderId, RequestHash},
    refusal::Refusal,
    seat::Seat,
    time::Timestamp,
};
use boxoffice_edge::Limits;
use boxoffice_node::{
    api::Failure,
    as_of::AsOfError,
    history::{HistoryEntry, HistoryError, HistoryPart},
};
use boxoffice_wire::{Encoding, FailKind, Op, city::CityPage, reply::Reply, status::HistoryPage};
use serde_json::{Value, json};

use crate::{
    http_client::HttpClient,
    server::common::{Client, TestServer, in_both},
};

/// Venues of the city, more than are asked at the same time.
const VENUES: usize = 70;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_city_search_merges_its_venues() {
    in_both(|encoding| async move {
        let server = TestServer::open(Limits::default());
        server.node.city.lock().extend((0..VENUES).map(|number| format!("v{number}")));
        let mut client = Client::connect(server.address, encoding).await;
        let (mut cursor, mut found, mut pages) = (None::<String>, Vec::new(), 0);
        loop {
            let body = json!({"city": "Paris", "limit": 50, "cursor": cursor});
            let body = if cursor.is_none() { json!({"city": "Paris", "limit": 50}) } else { body };
            client.send(pages, Op::SessionSearch, body).await;
            let (id, reply) = client.answer::<CityPage>().await;
            let Reply::Ok(page, at) = reply else { panic!("{reply:?}") };
            assert_eq!((id, at.len()), (Some(pages), 0), "a page of many venues has no version");
            found.extend(page.sessions.into_iter().map(|session| (session.starts_at, session.id, session.venue)));
            pages += 1;
            match page.cursor {
                Some(next) => cursor = Some(next.to_string()),
                None => break,
            }
        }
        assert_eq!((found.len(), pages), (2 * VENUES, 3), "two per venue");
        assert!(found.is_sorted(), "by start, then id, over all pages");
        assert_eq!(found.iter().map(|(_, id, _)| id).collect::<BTreeSet<_>>().len(), 2 * VENUES, "each once");
        let most = *server.node.searches_most.lock();
        assert!((2..=32).contains(&most), "{most} venues were asked at a time");
        assert_eq!(server.metric("boxoffice_edge_requests_total{op=\"session.search\",outcome=\"ok\"}").await, 3.0);
        server.metric_is("boxoffice_edge_requests_under_way", 0.0).await;

        // HTTP answers the same.
        let mut http_client = HttpClient::connect(server.address).await;
        let response = http_client.get("/v1/session.search?city=Paris&limit=50", &[]).await;
        assert_eq!(response.status, 200, "{response:?}");
        let first = response.json()["ok"]["sessions"].clone();
        assert_eq!(first.as_array().map(Vec::len), Some(50));
        assert_eq!(first[0]["venue"], json!(found[0].2.to_string()));
        // A city without venues is an empty page.
        server.node.city.lock().clear();
        let response = http_client.get("/v1/session.search?city=Nowhere", &[]).await;
        assert_eq!(response.json(), json!({"ok": {"sessions": []}}));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_venue_that_does_not_answer_makes_a_search_unknown_in_time() {
    let server = TestServer::open(Limits::default());
    server.node.city.lock().extend(["v1".to_owned(), "silent".to_owned(), "v2".to_owned()]);
    let mut http_client = HttpClient::connect(server.address).await;
    let response = http_client.get("/v1/session.search?city=Paris", &[("boxoffice-deadline-ms", "50")]).await;
    assert_eq!((response.status, response.code()), (504, 902));
    server.node.city.lock().retain(|venue| venue != "silent");
    server.node.city.lock().push("busy".to_owned());
    let response = http_client.get("/v1/session.search?city=Paris", &[]).await;
    assert_eq!((response.status, response.code()), (503, 901), "a busy venue is not left out silently");
}

fn hold(seats: Vec<Seat>) -> Event {
    let hold = HoldId { cart: CartId(0xabc), request: RequestHash(1), part: 0, attempt: 0 };
    Event::Session(SessionEvent::SeatsHeld {
        hold,
        revision: 1,
        want_hash: 1,
        seats,
        deadline: Timestamp(9_000),
        charge: None,
        prices: None,
        customer: None,
    })
}

fn sale(seats: Vec<Seat>) -> Event {
    let hold = HoldId { cart: CartId(0xabc), request: RequestHash(1), part: 0, attempt: 0 };
    Event::Session(SessionEvent::SeatsSold { hold, seats, order: OrderId(0xabc), at: Timestamp(8_000), freed_at: None })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_are_paged_texts() {
    in_both(|encoding| async move {
        let server = TestServer::open(Limits::default());
        let entry = |version: u64, event: Event| HistoryEntry {
            shard: 1,
            index: 100 + version,
            time: Timestamp(7_000),
            version,
            event,
            by: None,
        };
        let seat = Seat { row: 1, seat: 11 };
        let entries = vec![entry(4, hold(vec![seat])), entry(5, sale(vec![seat]))];
        *server.node.history.lock() = Some(HistoryPart { entries, version: 5, from: 4, is_full: true });
        let mut client = Client::connect(server.address, encoding).await;
        let body = json!({"entity": "session/hamlet", "seat": [1, 11], "limit": 2, "before": 6});
        client.send(1, Op::AdminHistory, body.clone()).await;
        let (_, reply) = client.answer::<HistoryPage>().await;
        let Reply::Ok(page, _) = reply else { panic!("{reply:?}") };
        let words: Vec<&str> = page.entries.iter().map(|entry| entry.event.as_str()).collect();
        assert_eq!((words, page.cursor, page.complete), (vec!["held", "sold"], Some(4), false));
        assert!(page.entries[0].details.starts_with("seat [1, 11] by cart 0000"), "{page:?}");
        assert_eq!(*server.node.histories_asked.lock(), [(Some(seat), 2, Some(6))]);

        // The last page, back to the beginning.
        let entries = vec![entry(1, hold(vec![seat]))];
        *server.node.history.lock() = Some(HistoryPart { entries, version: 5, from: 1, is_full: false });
        let mut http_client = HttpClient::connect(server.address).await;
        let response = http_client.post("/v1/admin.history", &[], &body.to_string()).await;
        let ok = response.json()["ok"].clone();
        assert_eq!((response.status, &ok["complete"], &ok["cursor"]), (200, &json!(true), &Value::Null));
        // Older events are not kept any more. The page is incomplete and has no cursor.
        *server.node.history.lock() = Some(HistoryPart { entries: Vec::new(), version: 5, from: 3, is_full: false });
        let response = http_client.post("/v1/admin.history", &[], &body.to_string()).await;
        let ok = response.json()["ok"].clone();
        assert_eq!((&ok["complete"], &ok["cursor"], &ok["entries"]), (&json!(false), &Value::Null, &json!([])));
        // An entity that never existed.
        *server.node.history.lock() = Some(HistoryPart { entries: Vec::new(), version: 0, from: 1, is_full: false });
        client.send(2, Op::AdminHistory, body.clone()).await;
        assert_eq!(client.code().await, (Some(2), 701));
        // Too many histories are being read.
        *server.node.history.lock() = None;
        client.send(3, Op::AdminHistory, body).await;
        assert_eq!(client.code().await, (Some(3), FailKind::Busy.code()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_of_the_past_that_are_not_known_are_refused() {
    in_both(|encoding| async move {
        let server = TestServer::open(Limits::default());
        let mut client = Client::connect(server.address, encoding).await;
        let text = json!({"entity": "session/hamlet", "at": "2026-11-29T20:00:00Z"});
        let body = match encoding {
            Encoding::Json => text.clone(),
            Encoding::MsgPack => json!({"entity": "session/hamlet", "at": 1_795_982_400_000_u64}),
        };
        client.send(1, Op::AdminMap, body.clone()).await;
        assert_eq!(client.code().await, (Some(1), FailKind::Busy.code()));
        let known: [(fn() -> AsOfError, u16); 7] = [
            (|| AsOfError::Below { floor: Timestamp(1_798_142_400_000) }, 704),
            (|| AsOfError::NotYet, 705),
            (|| AsOfError::Ahead { now: Timestamp(1_798_142_400_000) }, 101),
            (|| Refusal::NotFound("session/hamlet".into()).into(), 701),
            (|| Failure::NotReady.into(), FailKind::NotReady.code()),
            (|| HistoryError::Elsewhere.into(), FailKind::NotReady.code()),
            (|| HistoryError::TooLong { bytes_max: 1 }.into(), FailKind::Internal.code()),
        ];
        for (why, code) in known {
            *server.node.past.lock() = Some(why);
            client.send(2, Op::AdminMap, body.clone()).await;
            assert_eq!(client.code().await, (Some(2), code), "{}", why());
        }
        // `not_kept` says from when on something is known.
        *server.node.past.lock() = Some(known[0].0);
        let mut http_client = HttpClient::connect(server.address).await;
        let response = http_client.post("/v1/admin.map", &[], &text.to_string()).await;
        let no = response.json()["no"].clone();
        assert_eq!((response.status, &no["name"]), (404, &json!("not_kept")));
        assert_eq!(no["floor"], "2026-12-24T20:00:00.000Z");
        assert_eq!(no["message"], "nothing is kept of session/hamlet before 2026-12-24T20:00Z");
        client.send(3, Op::AdminMap, json!({"entity": "customer/ada", "at": body["at"]})).await;
        assert_eq!(client.code().await, (Some(3), 101));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn best_seats_that_are_refused_although_enough_are_free_are_counted() {
    in_both(|encoding| async move {
        let server = TestServer::open(Limits::default());
        let mut client = Client::connect(server.address, encoding).await;
        // The session's name says how many seats are free. No two of them are adjacent.
        for (number, (session, count)) in [("free3", 4), ("free3", 3), ("free4", 2)].into_iter().enumerate() {
            let request = json!({"token": crate::server::common::token(1), "session": session, "count": count});
            client.send(number as u64, Op::CartHoldBest, request).await;
            assert_eq!(client.code().await, (Some(number as u64), 206));
        }
        assert_eq!(server.metric("boxoffice_edge_refused_scattered_total").await, 2.0);
        let mut http_client = HttpClient::connect(server.address).await;
        let request =
            |count: u32| json!({"token": crate::server::common::token(1), "session": "free9", "count": count});
        assert_eq!(http_client.command("cart.hold_best", "r", &request(9)).await.code(), 206);
        assert_eq!(server.metric("boxoffice_edge_refused_scattered_total").await, 3.0);
        assert_eq!(server.metric("boxoffice_edge_refused_although_free_total").await, 0.0);
        let item = json!({"op": "cart.hold_best", "rid": "v", "body": request(2)});
        let items = json!({"items": [item]});
        assert_eq!(http_client.post("/v1/batch", &[], &items.to_string()).await.status, 200);
        client.send(9, Op::Batch, items).await;
        client.frame().await;
        assert_eq!(server.metric("boxoffice_edge_refused_scattered_total").await, 5.0);
    })
    .await;
}

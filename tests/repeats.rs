//! One request id has one effect (P9): a hundred concurrent requests over both protocols and both encodings, and repeats long
//! after, when the state has changed.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use crate::common::{
    Answer, Encoding, Home, Port, Rng, Server, Shopper, Theatre, eventually,
    fixture::{audit, room},
    http,
};
use futures_util::future::join_all;
use serde_json::{Value, json};

const TIMES: usize = 100;

/// Several connections, and the address for requests over HTTP.
struct Clients {
    ports: Vec<Arc<Port>>,
    address: SocketAddr,
    /// The versions in the first answers, by op and request id.
    first_versions: Mutex<BTreeMap<(String, String), BTreeMap<String, u64>>>,
}

impl Clients {
    async fn open(server: &Server) -> Clients {
        Clients { ports: server.ports(6).await, address: server.address(), first_versions: Mutex::default() }
    }

    /// Sends a hundred requests concurrently. Checks that all get the same body and versions. Returns the body.
    async fn all(&self, op: &str, rid: &str, body: &Value) -> Value {
        let asks = (0..TIMES).map(async |number| match number % 5 {
            0 => (Encoding::Json, http::ask(self.address, op, Some(rid), body).await),
            _ => {
                let port = &self.ports[number % self.ports.len()];
                (port.encoding(), port.ask(op, rid, body.clone()).await)
            }
        });
        let first_versions = |answer: Answer| match answer {
            Answer::Ok(body, versions) => (body, versions),
            other => panic!("{op} {rid}: {other:?}"),
        };
        let answers = join_all(asks).await.into_iter().map(|(encoding, answer)| (encoding, first_versions(answer)));
        let (json, packed): (Vec<_>, Vec<_>) = answers.partition(|(encoding, _)| *encoding == Encoding::Json);
        for answers in [&json, &packed] {
            for (_, answer) in answers {
                assert_eq!(*answer, answers[0].1, "{op}");
            }
        }
        assert_eq!(json[0].1.1, packed[0].1.1, "{op}");
        let (answer, versions) = json[0].1.clone();
        let mut before = self.first_versions.lock().expect("no panic");
        let first = before.entry((op.to_owned(), rid.to_owned())).or_insert_with(|| versions.clone());
        assert_eq!(versions, *first, "{op} {rid}: other versions than in the first answer");
        answer
    }
}

/// A node with a theatre and a room.
async fn stage() -> (Home, Server, Arc<Port>, Theatre, Clients) {
    let home = Home::new();
    let server = home.start();
    let port = Arc::new(server.port(Encoding::Json).await);
    let theatre = Theatre::open(&port, 2, (2, 8), None).await;
    room(&port, "court", Value::Null).await;
    let clients = Clients::open(&server).await;
    (home, server, port, theatre, clients)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_cart_requests_have_one_effect() {
    let mut rng = Rng::of_test("repeated_cart_requests_have_one_effect");
    let (_home, _server, port, theatre, clients) = stage().await;
    let session = theatre.session();
    let (buyer, rival) = (Shopper::new(&port, &mut rng), Shopper::new(&port, &mut rng));
    let shows = async |seats: &str| {
        eventually(seats, async || (theatre.map(&port, session).await.seats == seats).then_some(())).await;
    };
    let bookings = async || port.read("resource.get", json!({"id": "court"})).await.ok()["bookings"].clone();

    let open = buyer.body(json!({"ttl_ms": 600_000, "customer": "ann"}));
    let opened = clients.all("cart.open", "open", &open).await;
    assert_eq!((&opened["state"], &opened["customer"]), (&json!("active"), &json!("ann")));
    let seats = buyer.body(json!({"session": session, "seats": [[0, 0], [0, 1], [0, 2]]}));
    let held = clients.all("cart.hold_seats", "seats", &seats).await;
    assert_eq!(held["lines"][0]["line"], 1);
    shows("hhh.............").await;
    let release = buyer.body(json!({"line": 1, "seats": [[0, 1]]}));
    clients.all("cart.release", "some", &release).await;
    shows("h.h.............").await;
    let best = buyer.body(json!({"session": session, "count": 2}));
    let second = clients.all("cart.hold_best", "best", &best).await;
    assert_eq!(
        (&second["lines"][0]["line"], buyer.get().await["lines"].as_array().map(Vec::len)),
        (&json!(2), Some(2))
    );
    clients.all("cart.release", "whole", &buyer.body(json!({"line": 2}))).await;
    shows("h.h.............").await;
    // All in JSON, because the encodings write times differently.
    let slot = buyer.body(json!({"resource": "court", "begin": "2030-01-01T12:00:00Z", "end": "2030-01-01T13:00:00Z"}));
    let asks = (0..TIMES).map(|_| port.ask("cart.hold_slot", "slot", slot.clone()));
    let lines: Vec<Value> = join_all(asks).await.into_iter().map(|answer| answer.ok()["lines"].clone()).collect();
    assert!(lines.iter().all(|all| *all == lines[0]), "{lines:?}");
    assert_eq!(bookings().await, 1);
    // An operator cancels the booking.
    clients.all("admin.release", "revoke", &json!({"cart": buyer.cart(), "line": 3})).await;
    eventually("the room is free", async || (bookings().await == 0).then_some(())).await;

    // Another buyer holds the released seats. Repeats must neither release nor take anything.
    rival.seats(session, json!([[0, 1]])).await.ok();
    let before = buyer.get().await["lines"].clone();
    assert_eq!(clients.all("cart.release", "some", &release).await["lines"][0]["seats"], json!([[0, 0], [0, 2]]));
    assert_eq!(clients.all("cart.hold_seats", "seats", &seats).await, held);
    assert_eq!(clients.all("cart.hold_best", "best", &best).await, second);
    port.ask("cart.hold_slot", "slot", slot.clone()).await.ok();
    assert_eq!((theatre.map(&port, session).await.held, bookings().await), (3, json!(0)));
    assert_eq!(buyer.get().await["lines"], before);

    let cancel = buyer.body(json!({}));
    assert_eq!(clients.all("cart.cancel", "end", &cancel).await["state"], "canceled");
    shows(".h..............").await;
    assert_eq!(clients.all("cart.hold_seats", "seats", &seats).await, held);
    clients.all("admin.release", "revoke", &json!({"cart": buyer.cart(), "line": 3})).await;
    clients.all("cart.cancel", "end", &cancel).await;
    rival.checkout().await.ok();
    clients.all("cart.release", "some", &release).await;
    shows(".s..............").await;
    let audit = audit(&port).await;
    assert_eq!((&audit["orders"], &audit["holds"], &audit["carts"]["canceled"]), (&json!(1), &json!(0), &json!(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_operator_requests_have_one_effect() {
    let mut rng = Rng::of_test("repeated_operator_requests_have_one_effect");
    let (_home, _server, port, theatre, clients) = stage().await;
    let session = theatre.session();
    let seats = async || theatre.map(&port, session).await.seats;
    let some = json!({"id": session, "seats": [[1, 0], [1, 1]]});
    clients.all("session.block", "block", &some).await;
    assert_eq!(seats().await, "........bb......");
    clients.all("session.unblock", "unblock", &some).await;
    // The repeated block must not block again: the seats were unblocked since.
    clients.all("session.block", "block", &some).await;
    assert_eq!(seats().await, "................");
    let buyer = Shopper::new(&port, &mut rng);
    buyer.seats(session, json!([[1, 0]])).await.ok();
    clients.all("session.block", "block", &some).await;
    assert_eq!(seats().await, "........h.......");
    port.ask("session.block", "another", some.clone()).await.no(201, "seats_taken");
    buyer.checkout().await.ok();

    let cancel = json!({"id": session, "reason": "rain"});
    clients.all("session.cancel", "cancel", &cancel).await;
    let refunds = eventually("the refund is listed", async || buyer.order().await.get("refunds").cloned()).await;
    clients.all("session.cancel", "cancel", &cancel).await;
    assert_eq!((refunds.as_array().map(Vec::len), buyer.order().await["refunds"].clone()), (Some(1), refunds));
    assert_eq!(audit(&port).await["refunds"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_calendar_requests_have_one_effect() {
    let (_home, _server, port, _theatre, clients) = stage().await;
    let local = |booking: &str, begin: &str, end: &str| json!({"resource": "court", "booking": booking, "local_begin": begin, "local_end": end});
    let booked = async || {
        let window = json!({"resource": "court", "from": "2030-01-01T00:00:00Z", "to": "2030-12-01T00:00:00Z"});
        let page = port.read("resource.bookings", window).await.ok();
        let all = page["bookings"].as_array().expect("bookings").iter();
        let first_versions = |one: &Value, field: &str| one[field].as_str().expect("a text").to_owned();
        all.map(|one| format!("{} {}", first_versions(one, "booking"), &first_versions(one, "begin")[..16]))
            .collect::<Vec<_>>()
    };
    let mut weekly = local("choir", "2030-01-07T10:00", "2030-01-07T11:00");
    weekly["repeat"] = json!({"every": "week", "count": 3});
    let series = clients.all("resource.reserve", "reserve", &weekly).await;
    assert_eq!(booked().await, ["choir.1 2030-01-07T09:00", "choir.2 2030-01-14T09:00", "choir.3 2030-01-21T09:00"]);
    let first = local("choir.2", "2030-01-15T10:00", "2030-01-15T11:00");
    let moved = clients.all("resource.move", "move", &first).await;
    let second = local("choir.2", "2030-01-16T10:00", "2030-01-16T11:00");
    port.ask("resource.move", "on", second).await.ok();
    // The booking was moved since, and stays at its new time.
    assert_eq!(clients.all("resource.move", "move", &first).await, moved);
    assert_eq!(booked().await, ["choir.1 2030-01-07T09:00", "choir.2 2030-01-16T09:00", "choir.3 2030-01-21T09:00"]);
    let cancel = json!({"resource": "court", "booking": "choir", "series": true});
    clients.all("resource.cancel", "cancel", &cancel).await;
    // A repeat must not restore a canceled booking, and must not cancel a newer one.
    assert_eq!(clients.all("resource.reserve", "reserve", &weekly).await, series);
    assert_eq!(booked().await, [""; 0]);
    port.ask("resource.reserve", "anew", weekly).await.ok();
    clients.all("resource.cancel", "cancel", &cancel).await;
    assert_eq!(booked().await.len(), 3);
    let other = local("choir", "2030-02-07T10:00", "2030-02-07T11:00");
    let Answer::No(no) = port.ask("resource.reserve", "reserve", other).await else { panic!("another body") };
    assert_eq!((no.code, no.name.as_str()), (105, "request_id_reused"));
    assert_eq!(audit(&port).await["bookings"], 3);
}

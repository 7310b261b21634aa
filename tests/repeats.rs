//! One request id has one effect (P9): a hundred times at once through both doors and both encodings, and once more long
//! after, when the world has gone on.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use crate::common::{
    Answer, Dice, Encoding, Home, Port, Server, Shopper, Theatre, eventually, http,
    town::{audit, room},
};
use futures_util::future::join_all;
use serde_json::{Value, json};

const TIMES: usize = 100;

/// Several connections, and the address for requests by HTTP.
struct Doors {
    ports: Vec<Arc<Port>>,
    address: SocketAddr,
    /// The versions that each request was told, by op and request id.
    told: Mutex<BTreeMap<(String, String), BTreeMap<String, u64>>>,
}

impl Doors {
    async fn open(server: &Server) -> Doors {
        Doors { ports: server.ports(6).await, address: server.address(), told: Mutex::default() }
    }

    /// Sends a hundred requests at once. All get the same answer of the same versions, which is returned.
    async fn all(&self, op: &str, rid: &str, body: &Value) -> Value {
        let asks = (0..TIMES).map(async |number| match number % 5 {
            0 => (Encoding::Json, http::ask(self.address, op, Some(rid), body).await),
            _ => {
                let port = &self.ports[number % self.ports.len()];
                (port.encoding(), port.ask(op, rid, body.clone()).await)
            }
        });
        let told = |answer: Answer| match answer {
            Answer::Ok(body, versions) => (body, versions),
            other => panic!("{op} {rid}: {other:?}"),
        };
        let answers = join_all(asks).await.into_iter().map(|(encoding, answer)| (encoding, told(answer)));
        let (json, packed): (Vec<_>, Vec<_>) = answers.partition(|(encoding, _)| *encoding == Encoding::Json);
        for answers in [&json, &packed] {
            for (_, answer) in answers {
                assert_eq!(*answer, answers[0].1, "{op}");
            }
        }
        assert_eq!(json[0].1.1, packed[0].1.1, "{op}");
        let (answer, versions) = json[0].1.clone();
        let mut before = self.told.lock().expect("no panic");
        let first = before.entry((op.to_owned(), rid.to_owned())).or_insert_with(|| versions.clone());
        assert_eq!(versions, *first, "{op} {rid} was told other versions before");
        answer
    }
}

/// A node with a theatre and a room.
async fn stage() -> (Home, Server, Arc<Port>, Theatre, Doors) {
    let home = Home::new();
    let server = home.start();
    let port = Arc::new(server.port(Encoding::Json).await);
    let theatre = Theatre::open(&port, 2, (2, 8), None).await;
    room(&port, "court", Value::Null).await;
    let doors = Doors::open(&server).await;
    (home, server, port, theatre, doors)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_carts_are_asked() {
    let mut dice = Dice::of_test("what_carts_are_asked");
    let (_home, _server, port, theatre, doors) = stage().await;
    let session = theatre.session();
    let (buyer, rival) = (Shopper::new(&port, &mut dice), Shopper::new(&port, &mut dice));
    let shows = async |seats: &str| {
        eventually(seats, async || (theatre.map(&port, session).await.seats == seats).then_some(())).await;
    };
    let bookings = async || port.read("resource.get", json!({"id": "court"})).await.ok()["bookings"].clone();

    let open = buyer.body(json!({"ttl_ms": 600_000, "customer": "ann"}));
    let opened = doors.all("cart.open", "open", &open).await;
    assert_eq!((&opened["state"], &opened["customer"]), (&json!("active"), &json!("ann")));
    let seats = buyer.body(json!({"session": session, "seats": [[0, 0], [0, 1], [0, 2]]}));
    let held = doors.all("cart.hold_seats", "seats", &seats).await;
    assert_eq!(held["lines"][0]["line"], 1);
    shows("hhh.............").await;
    let release = buyer.body(json!({"line": 1, "seats": [[0, 1]]}));
    doors.all("cart.release", "some", &release).await;
    shows("h.h.............").await;
    let best = buyer.body(json!({"session": session, "count": 2}));
    let second = doors.all("cart.hold_best", "best", &best).await;
    assert_eq!(
        (&second["lines"][0]["line"], buyer.get().await["lines"].as_array().map(Vec::len)),
        (&json!(2), Some(2))
    );
    doors.all("cart.release", "whole", &buyer.body(json!({"line": 2}))).await;
    shows("h.h.............").await;
    // All in JSON, because the encodings write times differently.
    let slot = buyer.body(json!({"resource": "court", "begin": "2030-01-01T12:00:00Z", "end": "2030-01-01T13:00:00Z"}));
    let asks = (0..TIMES).map(|_| port.ask("cart.hold_slot", "slot", slot.clone()));
    let lines: Vec<Value> = join_all(asks).await.into_iter().map(|answer| answer.ok()["lines"].clone()).collect();
    assert!(lines.iter().all(|all| *all == lines[0]), "{lines:?}");
    assert_eq!(bookings().await, 1);
    // An operator takes it away.
    doors.all("admin.release", "revoke", &json!({"cart": buyer.cart(), "line": 3})).await;
    eventually("the room is free", async || (bookings().await == 0).then_some(())).await;

    // The rival has what was given back; whatever comes again leaves it there and takes nothing.
    rival.seats(session, json!([[0, 1]])).await.ok();
    let before = buyer.get().await["lines"].clone();
    assert_eq!(doors.all("cart.release", "some", &release).await["lines"][0]["seats"], json!([[0, 0], [0, 2]]));
    assert_eq!(doors.all("cart.hold_seats", "seats", &seats).await, held);
    assert_eq!(doors.all("cart.hold_best", "best", &best).await, second);
    port.ask("cart.hold_slot", "slot", slot.clone()).await.ok();
    assert_eq!((theatre.map(&port, session).await.held, bookings().await), (3, json!(0)));
    assert_eq!(buyer.get().await["lines"], before);

    let cancel = buyer.body(json!({}));
    assert_eq!(doors.all("cart.cancel", "end", &cancel).await["state"], "canceled");
    shows(".h..............").await;
    assert_eq!(doors.all("cart.hold_seats", "seats", &seats).await, held);
    doors.all("admin.release", "revoke", &json!({"cart": buyer.cart(), "line": 3})).await;
    doors.all("cart.cancel", "end", &cancel).await;
    rival.checkout().await.ok();
    doors.all("cart.release", "some", &release).await;
    shows(".s..............").await;
    let audit = audit(&port).await;
    assert_eq!((&audit["orders"], &audit["holds"], &audit["carts"]["canceled"]), (&json!(1), &json!(0), &json!(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_box_office_is_asked() {
    let mut dice = Dice::of_test("what_the_box_office_is_asked");
    let (_home, _server, port, theatre, doors) = stage().await;
    let session = theatre.session();
    let seats = async || theatre.map(&port, session).await.seats;
    let some = json!({"id": session, "seats": [[1, 0], [1, 1]]});
    doors.all("session.block", "block", &some).await;
    assert_eq!(seats().await, "........bb......");
    doors.all("session.unblock", "unblock", &some).await;
    // The block comes again: it was lifted since, and stays so.
    doors.all("session.block", "block", &some).await;
    assert_eq!(seats().await, "................");
    let buyer = Shopper::new(&port, &mut dice);
    buyer.seats(session, json!([[1, 0]])).await.ok();
    doors.all("session.block", "block", &some).await;
    assert_eq!(seats().await, "........h.......");
    port.ask("session.block", "another", some.clone()).await.no(201, "seats_taken");
    buyer.checkout().await.ok();

    let cancel = json!({"id": session, "reason": "rain"});
    doors.all("session.cancel", "cancel", &cancel).await;
    let refunds = eventually("it is paid back", async || buyer.order().await.get("refunds").cloned()).await;
    doors.all("session.cancel", "cancel", &cancel).await;
    assert_eq!((refunds.as_array().map(Vec::len), buyer.order().await["refunds"].clone()), (Some(1), refunds));
    assert_eq!(audit(&port).await["refunds"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_calendar_is_asked() {
    let (_home, _server, port, _theatre, doors) = stage().await;
    let local = |booking: &str, begin: &str, end: &str| json!({"resource": "court", "booking": booking, "local_begin": begin, "local_end": end});
    let booked = async || {
        let window = json!({"resource": "court", "from": "2030-01-01T00:00:00Z", "to": "2030-12-01T00:00:00Z"});
        let page = port.read("resource.bookings", window).await.ok();
        let all = page["bookings"].as_array().expect("bookings").iter();
        let told = |one: &Value, field: &str| one[field].as_str().expect("a text").to_owned();
        all.map(|one| format!("{} {}", told(one, "booking"), &told(one, "begin")[..16])).collect::<Vec<_>>()
    };
    let mut weekly = local("choir", "2030-01-07T10:00", "2030-01-07T11:00");
    weekly["repeat"] = json!({"every": "week", "count": 3});
    let series = doors.all("resource.reserve", "reserve", &weekly).await;
    assert_eq!(booked().await, ["choir.1 2030-01-07T09:00", "choir.2 2030-01-14T09:00", "choir.3 2030-01-21T09:00"]);
    let first = local("choir.2", "2030-01-15T10:00", "2030-01-15T11:00");
    let moved = doors.all("resource.move", "move", &first).await;
    let second = local("choir.2", "2030-01-16T10:00", "2030-01-16T11:00");
    port.ask("resource.move", "on", second).await.ok();
    // It was moved on since, and stays there.
    assert_eq!(doors.all("resource.move", "move", &first).await, moved);
    assert_eq!(booked().await, ["choir.1 2030-01-07T09:00", "choir.2 2030-01-16T09:00", "choir.3 2030-01-21T09:00"]);
    let cancel = json!({"resource": "court", "booking": "choir", "series": true});
    doors.all("resource.cancel", "cancel", &cancel).await;
    // What was canceled since is not booked by a repeat, and what was booked since is not canceled by one.
    assert_eq!(doors.all("resource.reserve", "reserve", &weekly).await, series);
    assert_eq!(booked().await, [""; 0]);
    port.ask("resource.reserve", "anew", weekly).await.ok();
    doors.all("resource.cancel", "cancel", &cancel).await;
    assert_eq!(booked().await.len(), 3);
    let other = local("choir", "2030-02-07T10:00", "2030-02-07T11:00");
    let Answer::No(no) = port.ask("resource.reserve", "reserve", other).await else { panic!("another body") };
    assert_eq!((no.code, no.name.as_str()), (105, "request_id_reused"));
    assert_eq!(audit(&port).await["bookings"], 3);
}

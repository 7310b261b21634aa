//! `order.get` with `names`: an order says what was bought in the words of the time at which it was held, however the terms have changed
//! since, after a kill as well, and nothing of what others may buy.

use serde_json::{Value, json};

use crate::common::{Encoding, Home, Port, Rng, Theatre, eventually, http, recorded, time};

const SEATS: [[u16; 2]; 2] = [[0, 4], [1, 0]];

/// Price types and offers with these names.
fn terms(theatre: &Theatre, young: &str, offer: &str) -> Value {
    json!({
        "id": theatre.session(),
        "price_types": [
            {"id": "adult", "name": "Adults"},
            {"id": "under26", "name": young, "names": {"da": "Unge"}, "prices": {"standard": 500}},
        ],
        "offers": [
            {"id": "web", "name": offer},
            {"id": "press", "name": "For the press", "desk": true, "set_price": 0},
        ],
        "areas": [{"id": "yard", "name": "The yard", "capacity": 10, "price": {"amount": 300, "currency": "EUR"}}],
    })
}

async fn open(port: &Port) -> Theatre {
    let theatre = Theatre::open(port, 1, (3, 10), None).await;
    port.ask("session.change", "offers", terms(&theatre, "Under 26", "On the web")).await.ok();
    theatre
}

/// What of `order.get` stays the same. An order settles after it is decided.
async fn receipt(port: &Port, order: &str) -> Value {
    port.read("order.get", json!({"order": order, "names": true})).await.ok()["sessions"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_says_what_was_bought_after_the_terms_have_changed() {
    for encoding in Encoding::BOTH {
        let mut rng = Rng::of_test("an_order_says_what_was_bought_after_the_terms_have_changed");
        let home = Home::new();
        let server = home.start();
        let (desk, guest) = (server.port(encoding).await, Port::guest(server.address(), encoding).await);
        let theatre = open(&desk).await;
        let session = theatre.session();

        let token = rng.token();
        let seats = json!({"token": token, "session": session, "seats": SEATS, "types": ["under26", "under26"]});
        guest.ask("cart.hold_seats", "seats", seats).await.ok();
        let places = json!({"token": token, "session": session, "area": "yard", "quantity": 2});
        guest.ask("cart.hold_places", "places", places).await.ok();
        // The house changes the words between the hold of one line and that of the next one.
        desk.ask("session.change", "words", terms(&theatre, "Young people", "Online")).await.ok();
        let late = json!({"token": token, "session": session, "seats": [[2, 9]], "types": ["under26"]});
        guest.ask("cart.hold_seats", "late", late).await.ok();
        let paid = desk.ask("cart.checkout", "pay", json!({"token": token, "payment": recorded()})).await.ok();
        let order = paid["id"].as_str().expect("an order");
        assert_eq!(paid.get("sessions"), None, "nobody asked for names: {paid}");

        let expected = json!([{
            "session": session, "title": "hamlet", "venue": "royal", "hall": "main",
            "starts_at": time(&desk, 1_900_000_000_000), "ends_at": time(&desk, 1_900_000_000_000 + 3 * 3_600_000),
            "terms": [
                {
                    "terms": 1,
                    "areas": [{"id": "yard", "name": "The yard"}],
                    "price_types": [
                        {"id": "adult", "name": "Adults"},
                        {"id": "under26", "name": "Under 26", "names": {"da": "Unge"}},
                    ],
                    "offers": [{"id": "web", "name": "On the web"}],
                },
                {
                    "terms": 2,
                    "price_types": [{"id": "under26", "name": "Young people", "names": {"da": "Unge"}}],
                    "offers": [{"id": "web", "name": "Online"}],
                },
            ],
            "seats": [
                {"seat": [0, 4], "row": "A", "label": "5"},
                {"seat": [1, 0], "row": "B", "label": "1"},
                {"seat": [2, 9], "row": "C", "label": "10"},
            ],
        }]);
        assert_eq!(receipt(&guest, order).await, expected);
        // Over HTTP as well, and not in a batch, because it asks more than one entity.
        let (status, text) = http::get(server.address(), &format!("/v1/order.get?order={order}&names=true")).await;
        assert_eq!(status, 200, "{text}");
        let told: Value = serde_json::from_str(&text).expect("JSON");
        for part in ["terms", "seats"] {
            assert_eq!(told["ok"]["sessions"][0][part], expected[0][part], "{told}");
        }
        let item = json!({"op": "order.get", "body": {"order": order, "names": true}});
        let items = desk.read("batch", json!({"items": [item]})).await.ok();
        assert_eq!(items["items"][0]["no"]["code"], 101, "{items}");
        guest.read("order.get", json!({"order": rng.token(), "names": true})).await.no(701, "not_found");

        // Whatever the house calls things later, and after a kill.
        for (number, words) in ["Youth", "Juniors", "Kids"].iter().enumerate() {
            desk.ask("session.change", &format!("w{number}"), terms(&theatre, words, words)).await.ok();
        }
        drop((desk, guest));
        server.kill();
        let server = home.start();
        let guest = Port::guest(server.address(), encoding).await;
        let same =
            eventually("the order after a kill", async || (receipt(&guest, order).await == expected).then_some(()));
        same.await;
        server.stop();
    }
}

/// The names of an order in a session whose terms never changed: its times, its zone and the labels of its seats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_of_a_plain_session_says_its_labels() {
    let mut rng = Rng::of_test("an_order_of_a_plain_session_says_its_labels");
    let home = Home::new();
    let server = home.start();
    let desk = server.port(Encoding::Json).await;
    let theatre = Theatre::open(&desk, 1, (2, 4), None).await;
    let token = rng.token();
    desk.ask("cart.hold_seats", "seats", json!({"token": token, "session": theatre.session(), "seats": [[1, 3]]}))
        .await
        .ok();
    let paid = desk.ask("cart.checkout", "pay", json!({"token": token, "payment": recorded()})).await.ok();
    let told = receipt(&desk, paid["id"].as_str().expect("an order")).await;
    assert_eq!(told[0]["seats"], json!([{"seat": [1, 3], "row": "B", "label": "4"}]), "{told}");
    assert_eq!(told[0]["terms"], json!([{"terms": 0}]));
    server.stop();
}

/// What a hall says of a seat is in its layout, in that of its sessions, and on the receipt of who bought it. Each note is of seats that are
/// there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restricted_view_is_told_before_and_after() {
    let home = Home::new();
    let server = home.start();
    for encoding in Encoding::BOTH {
        let mut rng = Rng::of_test("a_restricted_view_is_told_before_and_after");
        let desk = server.port(encoding).await;
        Theatre::open(&desk, 1, (2, 4), None).await;
        let (hall, show) = (format!("hall-{encoding:?}"), format!("show-{encoding:?}"));
        let put = |notes: Value| {
            let layout = json!({"rows": 2, "seats": 4, "seat_notes": notes});
            json!({"venue": "royal", "id": hall, "name": "Hall", "layout": layout})
        };
        let notes = json!([
            {"text": "Restricted view", "names": {"da": "Begrænset udsyn"}, "seats": [[0, 0], [0, 3]]},
            {"text": "Behind a pillar", "seats": [[1, 2]]},
        ]);
        desk.ask("hall.put", &format!("{hall}-1"), put(notes.clone())).await.ok();
        for (wrong, why) in [
            (json!([{"text": "", "seats": [[0, 0]]}]), "1 to 200 bytes"),
            (json!([{"text": "A lamp", "seats": [[0, 4]]}]), "no seat 4 in row 0"),
            (json!([{"text": "A lamp", "seats": [[0, 1]]}, {"text": "A pillar", "seats": [[0, 1]]}]), "two notes"),
        ] {
            let no = desk.ask("hall.put", &format!("{hall}-{why}"), put(wrong)).await.no(101, "bad_request");
            assert!(no["message"].as_str().is_some_and(|message| message.contains(why)), "{no}");
        }
        let seen = desk.read("hall.get", json!({"venue": "royal", "id": hall})).await.ok();
        assert_eq!(seen["layout"]["seat_notes"], notes);
        let create = json!({
            "id": show, "venue": "royal", "hall": hall, "title": "hamlet",
            "starts_at": time(&desk, 1_900_000_000_000), "ends_at": time(&desk, 1_900_010_000_000),
            "prices": {"standard": {"amount": 500, "currency": "EUR"}},
        });
        desk.ask("session.create", &format!("{show}-1"), create).await.ok();
        let seen = desk.read("session.get", json!({"id": show})).await.ok();
        assert_eq!(seen["layout"]["seat_notes"], notes);
        let token = rng.token();
        let hold = json!({"token": token, "session": show, "seats": [[0, 2], [1, 2]]});
        desk.ask("cart.hold_seats", &format!("{show}-hold"), hold).await.ok();
        let pay = json!({"token": token, "payment": recorded()});
        let paid = desk.ask("cart.checkout", &format!("{show}-pay"), pay).await.ok();
        let told = receipt(&desk, paid["id"].as_str().expect("an order")).await;
        let seats = json!([
            {"seat": [0, 2], "row": "A", "label": "3"},
            {"seat": [1, 2], "row": "B", "label": "3", "note": "Behind a pillar"},
        ]);
        assert_eq!(told[0]["seats"], seats);
    }
    server.stop();
}

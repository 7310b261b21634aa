//! Owners of orders. Customers, other customers, guests and operators ask a node that requires tokens of customers.

use std::{path::Path, process::Command, sync::Arc};

use crate::common::{
    self, ADMIN, Answer, BOXOFFICE, Encoding, Home, Port, Rng, Shopper, eventually,
    fixture::{event, product, purchases, room},
    http, read_time, recorded,
};
use serde_json::{Value, json};

const SECRET: &str = "the secret of the shop";

/// A home that requires tokens of operators and customers. The shop's secret is in the file or in the environment.
fn guarded() -> Home {
    Home::with_config(&format!("[log]\nsegment_bytes = 1_048_576\n[listen]\ncustomer_secret = \"{SECRET}\"\n"))
}

/// The output of `boxoffice admin customer-token`, or its exit code and error.
fn made(customer: &str, config: Option<&Path>, secret: Option<&str>) -> Result<String, (Option<i32>, String)> {
    let mut command = Command::new(BOXOFFICE);
    command.env_remove("BOXOFFICE_CUSTOMER_SECRET").env_remove("BOXOFFICE_CONFIG");
    command.args(["admin", "customer-token", customer]);
    if let Some(config) = config {
        command.arg("--config").arg(config);
    }
    if let Some(secret) = secret {
        command.env("BOXOFFICE_CUSTOMER_SECRET", secret);
    }
    let output = command.output().expect("the program runs");
    match output.status.code() {
        Some(0) => Ok(String::from_utf8(output.stdout).expect("text").trim_end().to_owned()),
        code => Err((code, String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

async fn greeted(server: &common::Server, encoding: Encoding, hello: Value) -> Arc<Port> {
    let port = Port::guest(server.address(), encoding).await;
    port.read("hello", hello).await.ok();
    Arc::new(port)
}

/// Buys a pen in a new cart of this customer. Returns the buyer.
async fn buy(port: &Arc<Port>, rng: &mut Rng, customer: Option<&str>) -> Shopper {
    let shopper = Shopper::new(port, rng);
    shopper.ask("cart.open", json!({"customer": customer})).await.ok();
    shopper.stock("pen", 1).await.ok();
    shopper.checkout().await.ok();
    shopper
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_belong_to_their_customers() {
    let mut rng = Rng::of_test("orders_belong_to_their_customers");
    let home = guarded();
    let server = home.start();
    let token = |customer: &str| made(customer, Some(&home.config_file()), None).expect("a token");
    assert_eq!(token("ada").len(), 64);
    for encoding in Encoding::BOTH {
        let operator = greeted(&server, encoding, json!({"token": ADMIN})).await;
        product(&operator, "pen", 100, Value::Null).await;
        let name = |name: &str| format!("{name}-{encoding:?}");
        let (ada, bob) = (name("ada"), name("bob"));
        let shown = |who: &str| json!({"customer": who, "customer_token": token(who)});
        let adas = greeted(&server, encoding, shown(&ada)).await;
        let bobs = greeted(&server, encoding, shown(&bob)).await;
        let guests = greeted(&server, encoding, json!({})).await;
        let bought = buy(&adas, &mut rng, Some(&ada)).await;
        let without_owner = buy(&guests, &mut rng, None).await;
        eventually("the purchase is listed", async || (purchases(&adas, &ada).await.len() == 1).then_some(())).await;
        assert_eq!(purchases(&operator, &ada).await, [bought.cart()]);
        let (order, open) = (json!({"order": bought.cart()}), json!({"order": without_owner.cart()}));
        for port in [&adas, &operator] {
            assert_eq!(port.read("order.get", order.clone()).await.ok()["customer"], ada.as_str());
        }
        // Other customers know the order's id, but read nothing of it, and change nothing of the owner.
        for port in [&bobs, &guests] {
            let no = port.read("order.get", order.clone()).await.no(108, "forbidden");
            assert!(!no.to_string().contains(&ada), "{no}");
            port.read("customer.purchases", json!({"customer": ada})).await.no(108, "forbidden");
            port.read("watch", json!({"entity": format!("customer/{ada}")})).await.no(108, "forbidden");
            let thief = Shopper::new(port, &mut rng);
            thief.ask("cart.open", json!({"customer": ada})).await.no(108, "forbidden");
            thief
                .ask("cart.hold_stock", json!({"product": "pen", "quantity": 1, "customer": ada}))
                .await
                .no(108, "forbidden");
            let cart = port.read("cart.get", thief.body(json!({}))).await;
            assert!(matches!(cart, Answer::No(_)), "no cart was opened: {cart:?}");
            thief.stock("pen", 1).await.ok();
            let paid = json!({"payment": recorded(), "customer": ada});
            thief.ask("cart.checkout", paid).await.no(108, "forbidden");
            assert_eq!(thief.state().await, "active");
            thief.cancel().await.ok();
            // A cart without an owner belongs to the holder of its 128-bit token.
            port.read("order.get", open.clone()).await.ok();
        }
        assert_eq!(purchases(&operator, &ada).await, [bought.cart()], "no other order names the customer");
        // A wrong token is refused.
        let liar = Port::guest(server.address(), encoding).await;
        let hello = json!({"customer": ada, "customer_token": token(&bob)});
        liar.send(encoding.message(&json!({"id": 7, "op": "hello", "body": hello})));
        let no = liar.refusal_of_a_frame().await["no"].clone();
        assert_eq!((&no["code"], &no["name"], liar.closed().await), (&json!(107), &json!("unauthenticated"), 4001));
        // The same over HTTP.
        let (address, body) = (server.address(), order.to_string());
        let headers =
            |who: &str, token: &str| format!("boxoffice-customer: {who}\r\nboxoffice-customer-token: {token}\r\n");
        for (headers, status) in [
            (headers(&ada, &token(&ada)), 200),
            (format!("authorization: Bearer {ADMIN}\r\n"), 200),
            (headers(&bob, &token(&bob)), 403),
            (String::new(), 403),
            (headers(&ada, &token(&bob)), 401),
        ] {
            let (answered, text) = http::raw_post(address, "/v1/order.get", &headers, &body).await;
            assert_eq!((answered, text.contains(&ada)), (status, status == 200), "{headers} {text}");
        }
    }
    // The secret is neither logged nor printed.
    assert!(!server.stderr().contains(SECRET), "{}", server.stderr());
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guests_do_not_see_the_owner_of_a_booking() {
    let mut rng = Rng::of_test("guests_do_not_see_the_owner_of_a_booking");
    let home = guarded();
    let server = home.start();
    for encoding in Encoding::BOTH {
        let operator = greeted(&server, encoding, json!({"token": ADMIN})).await;
        let guests = greeted(&server, encoding, json!({})).await;
        let court = format!("court-{encoding:?}");
        room(&operator, &court, json!({"capacity": 3})).await;
        let time = |hour: u64| common::time(&guests, 1_893_456_000_000 + hour * 3_600_000);
        let choir = json!({"resource": court, "booking": "choir", "begin": time(12), "end": time(13),
            "details": "with a piano"});
        operator.ask("resource.reserve", &format!("choir-{encoding:?}"), choir).await.ok();
        let mut sold = Vec::new();
        for _ in 0..2 {
            let shopper = Shopper::new(&guests, &mut rng);
            shopper.slot(&court, time(12), time(13)).await.ok();
            shopper.checkout().await.ok();
            sold.push(shopper.cart());
        }
        let page = async |port: &Port, limit: u64, cursor: Option<&str>| {
            let body = json!({"resource": court, "from": time(0), "to": time(24), "limit": limit, "cursor": cursor});
            port.read("resource.bookings", body).await.ok()
        };
        let everything = page(&operator, 10, None).await["bookings"].clone();
        let everything = everything.as_array().expect("bookings").clone();
        assert!(everything.iter().any(|booking| booking["details"] == "with a piano"), "{everything:?}");
        for cart in &sold {
            let its = |booking: &Value| booking["order"] == cart.as_str() && booking["state"] == "sold";
            assert!(everything.iter().any(its), "{everything:?}");
        }
        // Guests page through the same bookings one by one, and see no private field.
        let (mut seen, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let page = page(&guests, 1, cursor.as_deref()).await;
            seen.extend(page["bookings"].as_array().expect("bookings").clone());
            assert!(seen.len() <= everything.len(), "pages never end: {seen:?}");
            match page["cursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => break,
            }
        }
        let when = |bookings: &[Value]| -> Vec<Value> {
            bookings.iter().map(|booking| json!([booking["begin"], booking["end"], booking["state"]])).collect()
        };
        assert_eq!(when(&seen), when(&everything));
        let availability = json!({"resource": court, "begin": time(12), "end": time(13)});
        let available = guests.read("resource.is_available", availability).await.ok();
        assert_eq!(available["conflicts"].as_array().map(Vec::len), Some(3), "{available}");
        let late = Shopper::new(&guests, &mut rng);
        let no = late.slot(&court, time(12), time(13)).await.no(501, "slot_taken");
        for answer in [json!(seen), available, no] {
            let text = answer.to_string();
            assert!(!text.contains("piano") && !text.contains("\"order\""), "{text}");
            assert!(sold.iter().all(|cart| !text.contains(cart.as_str())), "{text}");
        }
    }
    server.stop();
}

#[test]
fn a_missing_or_weak_secret_is_refused_by_name() {
    let home = guarded();
    let from_file = made("ada", Some(&home.config_file()), None).expect("a token");
    assert_eq!(made("ada", None, Some(SECRET)), Ok(from_file.clone()), "from the environment");
    let other = made("ada", Some(&home.config_file()), Some("the secret of another shop")).expect("a token");
    assert_ne!(other, from_file, "the environment wins over the file");
    for (made, words) in [
        (made("ada", None, None), "no customer secret"),
        (made("ada", None, Some("short")), "too short"),
        (made("a b", None, Some(SECRET)), "customer's id"),
    ] {
        let (code, message) = made.expect_err("it is refused");
        assert!(code == Some(2) && message.contains(words) && !message.contains(SECRET), "{code:?} {message}");
    }
    // A node does not start with a weak secret, from the file or from the environment.
    let refused = Home::new().with_args(&["--customer-secret", "short"]).refused();
    assert!(refused.code == Some(4) && refused.stderr.contains("customer secret"), "{refused:?}");
    let printed = Command::new(BOXOFFICE)
        .args(["serve", "--print-config"])
        .env("BOXOFFICE_CUSTOMER_SECRET", SECRET)
        .output()
        .expect("the program runs");
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert!(printed.contains("customer_secret = \"\"") && !printed.contains(SECRET), "{printed}");
}

/// Entities that hold and have sold something of this buyer, with the op's body that holds it.
fn goods(hall: &str, at: &dyn Fn(u64) -> Value) -> [(String, &'static str, Value); 3] {
    [
        (format!("session/{hall}"), "cart.hold_places", json!({"session": hall, "area": "yard", "quantity": 2})),
        (format!("product/pen-{hall}"), "cart.hold_stock", json!({"product": format!("pen-{hall}"), "quantity": 3})),
        (
            format!("resource/court-{hall}"),
            "cart.hold_slot",
            json!({"resource": format!("court-{hall}"), "begin": at(12), "end": at(13)}),
        ),
    ]
}

/// The hold or sale of this cart in an audit.
fn of_cart(audit: &Value, list: &str, cart: &str) -> Value {
    let all = audit[list].as_array().unwrap_or_else(|| panic!("{list} of {audit}"));
    let its = |entry: &&Value| entry["hold"]["cart"] == cart;
    all.iter().find(its).unwrap_or_else(|| panic!("{cart} is not in {list} of {audit}")).clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_see_the_customer_and_the_begin_of_each_hold_and_sale() {
    let mut rng = Rng::of_test("operators_see_the_customer_and_the_begin_of_each_hold_and_sale");
    let home = Home::new();
    let mut server = home.start();
    for encoding in Encoding::BOTH {
        let hall = format!("hall-{encoding:?}").to_lowercase();
        let (ada, bob) = (format!("ada-{hall}"), format!("bob-{hall}"));
        let port = Arc::new(server.port(encoding).await);
        event(&port, &hall, 10, Value::Null).await;
        product(&port, &format!("pen-{hall}"), 10, Value::Null).await;
        room(&port, &format!("court-{hall}"), json!({"capacity": 3})).await;
        let at = |hour: u64| common::time(&port, 1_893_456_000_000 + hour * 3_600_000);
        let goods = goods(&hall, &at);
        // Ada holds, Bob has bought, and a stranger becomes a customer only when the cart is opened again.
        let [holder, buyer, stranger, late] = [0; 4].map(|_| Shopper::new(&port, &mut rng));
        holder.ask("cart.open", json!({"customer": ada})).await.ok();
        buyer.ask("cart.open", json!({"customer": bob})).await.ok();
        for shopper in [&holder, &buyer, &stranger] {
            for (_, op, body) in &goods {
                shopper.ask(op, body.clone()).await.ok();
            }
        }
        buyer.checkout().await.ok();
        stranger.ask("cart.open", json!({"customer": bob})).await.ok();
        late.ask(goods[0].1, goods[0].2.clone()).await.ok();
        eventually("the sales are known", async || {
            let mut sold = 0;
            for (entity, _, _) in &goods {
                let audit = port.read("admin.audit", json!({"entity": entity})).await.ok();
                sold += audit["sales"].as_array().map_or(0, Vec::len);
            }
            (sold == goods.len()).then_some(())
        })
        .await;
        // The customers, and when the holder's holds began, in milliseconds after its cart was opened.
        let seen = async |port: &Port| {
            let cart = port.read("cart.get", holder.body(json!({}))).await.ok();
            let opened = read_time(&cart["opened_at"]);
            let mut begins = Vec::new();
            for (entity, _, _) in &goods {
                let plain = port.read("admin.audit", json!({"entity": entity})).await.ok();
                let text = plain.to_string();
                assert!(
                    !text.contains(&ada) && !text.contains(&bob),
                    "only those who ask for customers are told: {text}"
                );
                let audit = port.read("admin.audit", json!({"entity": entity, "customers": true})).await.ok();
                assert_eq!(audit["violations"], json!([]), "{audit}");
                let held = of_cart(&audit, "holds", &holder.cart());
                assert_eq!(held["customer"], json!(ada), "{audit}");
                assert_eq!(of_cart(&audit, "holds", &stranger.cart())["customer"], json!(bob), "{audit}");
                assert_eq!(of_cart(&audit, "sales", &buyer.cart())["customer"], json!(bob), "{audit}");
                begins.push(read_time(&held["since"]).checked_sub(opened).expect("no hold begins before its cart"));
            }
            let audit = port.read("admin.audit", json!({"entity": goods[0].0, "customers": true})).await.ok();
            let unnamed = of_cart(&audit, "holds", &late.cart());
            assert!(unnamed["customer"].is_null() && !unnamed["since"].is_null(), "{audit}");
            let modified = read_time(&cart["modified_at"]) - opened;
            assert!(begins.is_sorted() && begins.last().is_some_and(|last| *last <= modified), "{begins:?} {modified}");
            begins
        };
        let begins = seen(&port).await;
        holder.set(1, 3).await.ok();
        assert_eq!(seen(&port).await, begins, "a hold that grows keeps its begin");
        // Those who may not audit are told nothing.
        let guest = Port::guest(server.address(), encoding).await;
        for (entity, _, _) in &goods {
            guest.read("admin.audit", json!({"entity": entity, "customers": true})).await.no(107, "unauthenticated");
        }
        let no = port.read("admin.audit", json!({"customers": true})).await.no(101, "bad_request");
        assert!(no["message"].as_str().is_some_and(|text| text.contains("of one entity")), "{no}");
        server.stop();
        server = home.start();
        assert_eq!(seen(&server.port(encoding).await).await, begins, "after a restart");
    }
    server.stop();
}

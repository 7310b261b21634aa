//! Cursors that were changed in any place, and what guests can learn of others' bookings.

use std::{collections::BTreeSet, time::Duration};

use boxoffice_wire::Op;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    roles::with_tokens,
    stage::Stage,
    tokens::{Shop, good},
};
use crate::common::{self, Answer, Encoding, Home, Port, eventually, read_time};

/// Strangers ask as much as they like, because this is not about budgets.
const UNLIMITED: &str = "[budgets]\nrequests_per_second = 0\n";

/// Requests under way at once.
const AT_ONCE: usize = 8;

const BEGIN: &str = "2030-01-01T10:00:00Z";
const END: &str = "2030-01-01T11:00:00Z";

/// Words that only the owner of a booking and the desk may read.
const SECRET: &str = "surgery of Ada";

/// A list: its op, its body without limit and cursor, and the name of its entries.
type List = (&'static str, Value, &'static str);

fn lists() -> Vec<List> {
    vec![
        ("venue.search", json!({}), "venues"),
        ("venue.search", json!({"city": "Graz"}), "venues"),
        ("venue.search", json!({"name": "hall"}), "venues"),
        ("venue.search", json!({"near": {"lat": 47.0, "lon": 15.4}}), "venues"),
        ("title.search", json!({}), "titles"),
        ("session.search", json!({"venue": "v1"}), "sessions"),
        ("session.search", json!({"city": "Graz"}), "sessions"),
        ("resource.bookings", bookings(), "bookings"),
    ]
}

fn bookings() -> Value {
    json!({"resource": "room", "from": "2030-01-01T00:00:00Z", "to": "2030-01-03T00:00:00Z"})
}

/// A node with some of everything that is listed, and a room with named bookings and those of carts. Returns the tokens of the
/// carts.
async fn prepare(stage: &Stage) -> Vec<String> {
    let operator = stage.operator().await;
    let put = async |op: &str, body: Value| {
        let rid = format!("{op} {}", body["id"]);
        operator.ask(op, &rid, body).await.ok();
    };
    let prices = json!({"standard": {"amount": 1_000, "currency": "EUR"}});
    for number in 0..4 {
        let (venue, title) = (format!("v{number}"), format!("t{number}"));
        let position = json!({"lat": 47.0, "lon": 15.0 + f64::from(number) / 10.0});
        let name = format!("Hall {number}");
        put("venue.put", json!({"id": venue, "name": name, "city": "Graz", "position": position})).await;
        put("hall.put", json!({"id": "h", "venue": venue, "name": "h", "layout": {"rows": 2, "seats": 2}})).await;
        put("title.put", json!({"id": title, "name": format!("Ham/let {number}")})).await;
    }
    for number in 0..4 {
        let (from, to) = (format!("2030-02-0{}T10:00:00Z", number + 1), format!("2030-02-0{}T12:00:00Z", number + 1));
        put(
            "session.create",
            json!({"id": format!("s{number}"), "venue": "v1", "hall": "h", "title": "t1",
                "starts_at": from, "ends_at": to, "prices": prices}),
        )
        .await;
    }
    let rate = json!({"amount": 100, "currency": "EUR"});
    put("resource.put", json!({"id": "room", "name": "Room", "zone": "UTC", "capacity": 8, "rate": rate})).await;
    for booking in ["choir", "zither"] {
        let body = json!({"resource": "room", "booking": booking, "begin": BEGIN, "end": END, "details": SECRET});
        operator.ask("resource.reserve", booking, body).await.ok();
    }
    let (buyer, mut rng, mut tokens) = (Port::guest(stage.address(), Encoding::Json).await, stage.rng.clone(), vec![]);
    for number in 0..4 {
        let token = rng.token();
        let body = json!({"token": token, "resource": "room", "begin": BEGIN, "end": END, "details": SECRET});
        buyer.ask("cart.hold_slot", &format!("hold {number}"), body).await.ok();
        if number % 2 == 0 {
            buyer.ask("cart.checkout", &format!("pay {number}"), common::checkout(&token)).await.ok();
        }
        tokens.push(token);
    }
    tokens
}

/// Guest, customer and desk, with their tokens.
fn callers(shop: &Shop) -> [(&'static str, Option<String>); 3] {
    let token = |name: &str, role: &str| Some(shop.eddsa(&good(name, role)));
    [("guest", None), ("customer", token("ada", "sell")), ("desk", token("till", "desk"))]
}

/// Connects a caller. A connection without a frame in its first ten seconds is closed, so each is made when it is used.
async fn connect(stage: &Stage, token: Option<&str>) -> Port {
    Port::show(stage.address(), Encoding::Json, token).await.expect("the caller is accepted")
}

fn page(body: &Value, limit: u32, cursor: Option<&str>) -> Value {
    let mut body = body.clone();
    body["limit"] = limit.into();
    if let Some(cursor) = cursor {
        body["cursor"] = cursor.into();
    }
    body
}

/// Texts that differ from a cursor in one place, and names of bookings of every length.
fn mutations(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for at in 0..=text.len() {
        let (before, rest) = text.split_at(at);
        found.extend([before.to_owned(), rest.to_owned(), format!("{text}{rest}")]);
        let (first, behind) = rest.split_at(rest.len().min(1));
        found.insert(format!("{before}{behind}"));
        for other in ["0", "7", "f", "F", "/", ":", "x", " ", first] {
            found.extend([format!("{before}{other}{rest}"), format!("{before}{other}{behind}")]);
        }
    }
    let (first, _) = text.split_once('/').unwrap_or((text, ""));
    for digits in [0, 1, 30, 31, 32, 33, 40] {
        for digit in ["0", "7", "f", "F"] {
            found.insert(format!("{first}/hold:{}", digit.repeat(digits)));
            found.insert(format!("{first}/hold/{}/0000000000000001/0/0", digit.repeat(digits)));
        }
    }
    found.remove(text);
    found
}

/// The place that a cursor of bookings names in public, or `None` if no page gives such a cursor.
fn place(text: &str) -> Option<(u64, String)> {
    let (millis, name) = text.split_once('/')?;
    let at: u64 = millis.parse().ok().filter(|at: &u64| at.to_string() == millis && *at < 253_402_300_800_000)?;
    let known = match name.strip_prefix("hold:") {
        Some(digits) => digits.len() == 32 && digits.bytes().all(|byte| b"0123456789abcdef".contains(&byte)),
        None => {
            let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
            (1..=64).contains(&name.len()) && name.bytes().all(good)
        }
    };
    known.then(|| (at, name.to_owned()))
}

fn place_of(booking: &Value) -> (u64, String) {
    (read_time(&booking["begin"]), booking["booking"].as_str().expect("a name").to_owned())
}

/// Reads a list page by page, and then with each cursor changed. Returns how many changed cursors were tried.
async fn check(who: &str, port: &Port, (op, body, entries): &List) -> usize {
    let read = async |limit: u32, cursor: Option<&str>| port.read(op, page(body, limit, cursor)).await;
    let all_of = |answer: &Value| answer[entries].as_array().expect("entries").clone();
    let all = all_of(&read(1_000, None).await.ok());
    assert!(all.len() >= 4, "{who}: {op} {body} has {} entries", all.len());
    let (mut cursors, mut read_so_far) = (Vec::<String>::new(), Vec::new());
    loop {
        let answer = read(2, cursors.last().map(String::as_str)).await.ok();
        read_so_far.extend(all_of(&answer));
        let Some(cursor) = answer["cursor"].as_str() else { break };
        assert!(!cursors.iter().any(|known| known == cursor), "{who}: {op} goes round at {cursor}");
        cursors.push(cursor.to_owned());
    }
    assert_eq!(read_so_far, all, "{who}: {op} {body}, in pages of two");
    check_changed(who, port, &(op, body.clone(), entries), &all, &cursors).await
}

/// Reads a list with each of the first cursors changed. Returns how many changed cursors were tried.
async fn check_changed(who: &str, port: &Port, (op, body, entries): &List, all: &[Value], cursors: &[String]) -> usize {
    let read = async |cursor: &String| port.read(op, page(body, 1_000, Some(cursor))).await;
    let changed: Vec<String> = cursors.iter().take(2).flat_map(|cursor| mutations(cursor)).collect();
    for some in changed.chunks(AT_ONCE) {
        let answers = join_all(some.iter().map(read)).await;
        for (cursor, answer) in some.iter().zip(answers) {
            let found = match answer {
                Answer::No(no) => {
                    assert_eq!(no.code, 101, "{who}: {op} after {cursor:?}: {}", no.body);
                    None
                }
                other => Some(other.ok()[entries].as_array().expect("entries").clone()),
            };
            if *op == "resource.bookings" {
                // What follows a place depends on nothing that is not in the list.
                let expected = place(cursor)
                    .map(|place| all.iter().filter(|booking| place_of(booking) > place).cloned().collect::<Vec<_>>());
                assert_eq!(found, expected, "{who}: {op} after {cursor:?}");
            } else if let Some(found) = found {
                assert!(all.ends_with(&found), "{who}: {op} after {cursor:?} is no end of the list: {found:?}");
            }
        }
    }
    changed.len()
}

/// A node for these tests, with a planted fault if one is given as variable of the environment and name.
async fn node(test: &str, shop: &Shop, planted: Option<(&str, &str)>) -> Stage {
    let home = Home::with_config(&format!("{}{UNLIMITED}", with_tokens(shop)));
    let mut command = home.shipped_command();
    command.envs(planted);
    Stage::of_command(test, home, command).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_cursor_is_refused_or_continues_the_list() {
    let shop = Shop::new();
    let stage = node("a_changed_cursor_is_refused_or_continues_the_list", &shop, None).await;
    prepare(&stage).await;
    let mut tried = 0;
    for (who, token) in callers(&shop) {
        let port = connect(&stage, token.as_deref()).await;
        for list in lists() {
            tried += check(who, &port, &list).await;
        }
    }
    // Numbers have one form, and one behind the end has nothing after it.
    let [.., (_, token)] = callers(&shop);
    let desk = connect(&stage, token.as_deref()).await;
    for (op, body, name) in [
        ("admin.history", json!({"entity": "resource/room"}), "before"),
        ("customer.purchases", json!({"customer": "ada"}), "cursor"),
    ] {
        for wrong in [json!("2"), json!(-1), json!(2.5), json!([2]), json!({}), json!(1e30), json!("2/hold:x")] {
            let mut body = body.clone();
            body[name] = wrong;
            desk.read(op, body.clone()).await.no(101, "bad_request");
        }
        for number in [2, 3, 1_000, (1_u64 << 53) - 1] {
            let mut body = body.clone();
            body[name] = number.into();
            desk.read(op, body).await.ok();
        }
    }
    println!("cursors: {tried} changed ones");
    assert!(tried > 10_000, "{tried} are not many");
    stage.audit().await;
    stage.server.stop();
}

/// The planted fault: a cursor with fewer digits than a name has is compared with the ids of carts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unchecked_cursor_is_found() {
    let shop = Shop::new();
    let planted = Some(("BOXOFFICE_PLANTED_CORE", "cursor unchecked"));
    let stage = node("an_unchecked_cursor_is_found", &shop, planted).await;
    prepare(&stage).await;
    let (who, guest) = ("guest", connect(&stage, None).await);
    let list = ("resource.bookings", bookings(), "bookings");
    let all = guest.read(list.0, page(&list.1, 1_000, None)).await.ok();
    let all = all["bookings"].as_array().expect("bookings").clone();
    let first = guest.read(list.0, page(&list.1, 2, None)).await.ok();
    let cursors = [first["cursor"].as_str().expect("there are more").to_owned()];
    let found = tokio::spawn(async move { check_changed(who, &guest, &list, &all, &cursors).await }).await;
    let found = found.expect_err("the fault is not found").into_panic();
    let words = found.downcast_ref::<String>().expect("words");
    assert!(words.contains("resource.bookings after"), "{words}");
    stage.server.stop();
}

/// What a guest may ask of everything that is read. An op that is not here fails the test.
fn reads(op: Op, cart: &str) -> Option<Vec<Value>> {
    let entities = ["resource/room", "session/s1", "venue/v1"].map(|entity| json!({"entity": entity}));
    let slot = json!({"resource": "room", "begin": BEGIN, "end": END});
    Some(match op.name() {
        "hello" | "unwatch" | "shards" => vec![json!({})],
        "watch" => entities.into_iter().chain([json!({"entity": format!("cart/{cart}")})]).collect(),
        "venue.get" => vec![json!({"id": "v1"})],
        "hall.get" => vec![json!({"venue": "v1", "id": "h"})],
        "title.get" => vec![json!({"id": "t1"})],
        "session.get" | "session.map" => vec![json!({"id": "s1"})],
        "product.get" => vec![json!({"id": "none"})],
        "resource.get" => vec![json!({"id": "room"})],
        "resource.is_available" => vec![slot],
        "resource.free_slots" => {
            let mut body = bookings();
            body["length_ms"] = 3_600_000.into();
            vec![body]
        }
        "venue.search" | "title.search" | "session.search" | "resource.bookings" => {
            lists().into_iter().filter(|(list, ..)| *list == op.name()).map(|(_, body, _)| body).collect()
        }
        // The id of a cart opens no cart.
        "cart.get" => vec![json!({"token": cart})],
        "customer.purchases" => vec![json!({"customer": "ada"})],
        "code.get" => vec![json!({"code": "GLOBE-7Q2M"})],
        // Guests are not let in.
        "batch" => vec![json!({"items": [{"op": "resource.get", "body": {"id": "room"}}]})],
        // An order is read by its id, which a guest must not learn.
        "order.get" => vec![],
        name if name.starts_with("admin.") => vec![json!({}), json!({"entity": "resource/room"})],
        _ => return None,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_to_a_guest_names_the_order_of_another() {
    let shop = Shop::new();
    let stage = node("no_answer_to_a_guest_names_the_order_of_another", &shop, None).await;
    let tokens = prepare(&stage).await;
    let operator = stage.operator().await;
    let cart_of = |token: &String| {
        let token = u128::from_str_radix(token, 16).expect("digits");
        boxoffice_core::id::CartToken(token).cart().to_string()
    };
    let carts: Vec<String> = tokens.iter().map(cart_of).collect();
    // The secret part of a cart's id is what counts, since its first digits place it.
    let hidden: Vec<&str> = carts.iter().chain(&tokens).map(|id| &id[4..]).chain([SECRET]).collect();
    let guest = Port::guest(stage.address(), Encoding::Json).await;
    let mut answers = 0;
    let mut clean = |what: &str, answer: &Value| {
        answers += 1;
        let text = answer.to_string().to_lowercase();
        for word in &hidden {
            assert!(!text.contains(&word.to_lowercase()), "{what} tells {word}: {answer}");
        }
    };
    for op in Op::ALL.into_iter().filter(|op| !op.changes()) {
        let bodies = reads(op, &carts[0]).unwrap_or_else(|| panic!("what may a guest ask with {}?", op.name()));
        for body in bodies {
            let answer = guest.exchange_whole(json!({"op": op.name(), "body": body})).await;
            // A refusal may repeat what the guest has said itself.
            if !body.to_string().contains(&carts[0]) {
                clean(op.name(), &answer);
            }
        }
    }
    // The room is full, so holds are refused with the bookings in the way.
    for booking in ["full-1", "full-2"] {
        let body = json!({"resource": "room", "booking": booking, "begin": BEGIN, "end": END});
        operator.ask("resource.reserve", booking, body).await.ok();
    }
    let slot = json!({"resource": "room", "begin": BEGIN, "end": END});
    let answer = guest.exchange_whole(json!({"op": "resource.is_available", "body": slot})).await;
    assert_eq!(answer["ok"]["conflicts"].as_array().map(Vec::len), Some(8), "{answer}");
    clean("resource.is_available", &answer);
    let token = stage.rng.fork(9).token();
    let mut line = slot.clone();
    line["token"] = token.clone().into();
    for (op, body) in [("cart.hold_slot", line), ("cart.hold_all", json!({"token": token, "lines": [slot]}))] {
        let answer = guest.exchange_whole(json!({"op": op, "rid": op, "body": body})).await;
        assert_eq!(answer["no"]["code"], 501, "{answer}");
        clean(op, &answer);
    }
    // Everybody sees the same names, and by them the desk cancels.
    let listed = guest.read("resource.bookings", bookings()).await.ok();
    let names = |listed: &Value| -> Vec<String> {
        let all = listed["bookings"].as_array().expect("bookings").iter();
        all.map(|booking| booking["booking"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names(&listed), names(&operator.read("resource.bookings", bookings()).await.ok()));
    let of_carts: Vec<String> = names(&listed).into_iter().filter(|name| name.starts_with("hold:")).collect();
    assert_eq!(of_carts.len(), 4, "{listed}");
    for name in &of_carts {
        let body = json!({"resource": "room", "booking": name});
        guest.ask("resource.cancel", &format!("guest {name}"), body.clone()).await.no(107, "unauthenticated");
        operator.ask("resource.cancel", &format!("desk {name}"), body).await.ok();
    }
    eventually("the carts have let go of the bookings", async || {
        let listed = guest.read("resource.bookings", bookings()).await.ok();
        while let Ok(Some(feed)) = timeout(Duration::from_millis(50), guest.next_other()).await {
            clean("a feed", &feed);
        }
        (names(&listed) == ["choir", "full-1", "full-2", "zither"]).then_some(())
    })
    .await;
    for (number, (token, cart)) in tokens.iter().zip(&carts).enumerate() {
        if number % 2 == 0 {
            let order = operator.read("order.get", json!({"order": cart})).await.ok();
            assert_eq!(order["refunds"][0]["reason"], "the booking was canceled", "{order}");
        } else {
            let cart = guest.read("cart.get", json!({"token": token})).await.ok();
            assert_eq!((&cart["lines"], &cart["taken"][0]["by"]), (&json!([]), &json!("operator")), "{cart}");
        }
    }
    println!("ids: {answers} answers to a guest");
    assert!(answers > 20, "{answers} are not many");
    stage.audit().await;
    stage.server.stop();
}

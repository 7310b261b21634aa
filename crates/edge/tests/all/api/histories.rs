//! Histories of a real node, and a search over its city.

use boxoffice_wire::{Op, schema};
use serde_json::{Value, json};

use crate::{api::test_node::TestNode, http_client::HttpClient};

const SESSION: &str = "hamlet-tonight";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_of_a_seat_is_read_back_from_the_log() {
    let test_node = TestNode::with_sample_entities().await;
    let mut http_client = HttpClient::connect(test_node.address).await;
    let (seat, other) = (json!([1, 5]), json!([1, 6]));
    let token = |number: u128| format!("{number:032x}");
    let hold = json!({"token": token(1), "session": SESSION, "seats": [seat, other]});
    let held = http_client.command("cart.hold_seats", "1", &hold).await;
    assert_eq!(held.status, 200, "{held:?}");
    let cart = held.json()["ok"]["cart"].as_str().expect("an id").to_owned();
    let line = held.json()["ok"]["lines"][0]["line"].clone();
    let answer =
        http_client.command("cart.release", "2", &json!({"token": token(1), "line": line, "seats": [seat]})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    // The release reaches the session a moment after the cart has answered.
    let hold = json!({"token": token(2), "session": SESSION, "seats": [seat]});
    let held = loop {
        let held = http_client.command("cart.hold_seats", "3", &hold).await;
        if held.status == 200 {
            break held;
        }
        assert_eq!(held.code(), 201, "{held:?}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    let buyer = held.json()["ok"]["cart"].as_str().expect("an id").to_owned();
    let paid = json!({"token": token(2), "payment": {"recorded": {"method": "cash", "transaction_id": "1"}}});
    let answer = http_client.command("cart.checkout", "4", &paid).await;
    assert_eq!(answer.status, 200, "{answer:?}");

    // The release and the sale reach the session a moment later.
    let entity = format!("session/{SESSION}");
    let mut story: Vec<(String, String)>;
    let whole = loop {
        let answer = http_client.command("admin.history", "5", &json!({"entity": entity, "seat": seat})).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let ok = answer.json()["ok"].clone();
        story = entries(&ok);
        if story.len() == 4 {
            break ok;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    let words: Vec<&str> = story.iter().map(|(word, _)| word.as_str()).collect();
    assert_eq!(words, ["held", "released", "held", "sold"]);
    assert!(story[0].1.contains(&format!("seats [1, 5], [1, 6] by cart {cart}")), "{story:?}");
    assert!(story[3].1.contains(&format!("by order {buyer}")), "{story:?}");
    assert_eq!((&whole["complete"], &whole["cursor"]), (&json!(true), &Value::Null));

    // Two pages. The newer page comes first, and each has its oldest event first.
    let page = json!({"entity": entity, "seat": seat, "limit": 2});
    let newest = http_client.command("admin.history", "6", &page).await.json()["ok"].clone();
    assert_eq!((entries(&newest), &newest["complete"]), (story[2..].to_vec(), &json!(false)));
    let before = newest["cursor"].clone();
    assert_eq!(before, newest["entries"][0]["version"], "the next page ends before the oldest entry of this one");
    let page = json!({"entity": entity, "seat": seat, "limit": 5, "before": before});
    let oldest = http_client.command("admin.history", "7", &page).await.json()["ok"].clone();
    assert_eq!((entries(&oldest), &oldest["complete"]), (story[..2].to_vec(), &json!(true)));

    // The session as it was when the seat was sold.
    let sold = &whole["entries"][3];
    let at = json!({"entity": entity, "at": sold["at"]});
    let then = http_client.command("admin.map", "15", &at).await.json()["ok"].clone();
    assert_eq!((&then["version"], &then["since"]), (&sold["version"], &sold["at"]), "{then}");
    assert_eq!((&then["map"]["counts"]["sold"], &then["map"]["counts"]["held"]), (&json!(1), &json!(1)), "{then}");
    assert_eq!((&then["session"]["sales"][0]["order"], &then["session"]["violations"]), (&json!(buyer), &json!([])));
    assert_eq!((&then["floor"], &then["until"]), (&Value::Null, &Value::Null));
    let before = json!({"entity": entity, "at": "2001-01-01T00:00:00Z"});
    assert_eq!(http_client.command("admin.map", "16", &before).await.code(), 705);

    // The whole session with its opening, a seat without events, and a seat that does not exist.
    let all = http_client.command("admin.history", "8", &json!({"entity": entity})).await.json()["ok"].clone();
    assert_eq!((&all["entries"][0]["event"], &all["entries"][0]["version"]), (&json!("opened"), &json!(1)));
    let quiet = json!({"entity": entity, "seat": [0, 0]});
    let quiet = http_client.command("admin.history", "9", &quiet).await.json()["ok"].clone();
    assert_eq!((&quiet["entries"], &quiet["complete"]), (&json!([]), &json!(true)));
    let cart = http_client.command("admin.history", "10", &json!({"entity": format!("cart/{buyer}")})).await;
    let words: Vec<String> = entries(&cart.json()["ok"]).into_iter().map(|(word, _)| word).collect();
    assert_eq!(words[..3], ["opened", "added", "done"], "{cart:?}");
    // A hold past its deadline has expired and was not released.
    let open = json!({"token": token(3), "ttl_ms": 1_000});
    assert_eq!(http_client.command("cart.open", "12", &open).await.status, 200);
    let hold = json!({"token": token(3), "session": SESSION, "seats": [[2, 0]]});
    assert_eq!(http_client.command("cart.hold_seats", "13", &hold).await.status, 200);
    let of_seat = json!({"entity": entity, "seat": [2, 0]});
    let words = loop {
        let answer = http_client.command("admin.history", "14", &of_seat).await;
        let words: Vec<String> = entries(&answer.json()["ok"]).into_iter().map(|(word, _)| word).collect();
        if words.len() > 1 {
            break words;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    assert_eq!(words, ["held", "expired"]);
    let answer = http_client.command("admin.history", "11", &json!({"entity": "session/nothing"})).await;
    assert_eq!((answer.status, answer.code()), (404, 701));
    test_node.close().await;
}

/// A note is with its line in every answer of the cart and the order, for its owner and for operators, and nowhere else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_note_stays_with_its_line_until_the_order() {
    const FIRST: &str = "by the aisle,\r\n\tplease";
    let test_node = TestNode::with_sample_entities().await;
    let mut http_client = HttpClient::connect(test_node.address).await;
    for (op, id) in [("product.put", "programme"), ("resource.put", "room-5")] {
        let op = Op::from_name(op).expect("an op");
        let example = schema::of(op).examples.iter().find(|example| example["id"] == id).expect("an example").clone();
        assert_eq!(http_client.command(op.name(), id, &example).await.status, 200);
    }
    let token = format!("{:032x}", 11);
    let mut number = 0;
    let mut ask = async |op: &str, mut body: Value| {
        number += 1;
        body["token"] = json!(token);
        let answer = http_client.command(op, &format!("note-{number}"), &body).await;
        assert_eq!(answer.status, 200, "{op}: {answer:?}");
        answer.json()["ok"].clone()
    };
    let notes = |answer: &Value| -> Vec<String> {
        let lines = answer["lines"].as_array().expect("lines").iter();
        lines.map(|line| line["note"].as_str().unwrap_or_default().to_owned()).collect()
    };

    // Every hold takes a note, and a line that grows keeps it unless there is another one.
    let slot =
        json!({"resource": "room-5", "begin": "2099-04-15T09:00:00Z", "end": "2099-04-15T10:30:00Z", "note": "slot"});
    let holds = [
        ("cart.hold_seats", json!({"session": SESSION, "seats": [[1, 5]], "customer": "ada", "note": FIRST}), FIRST),
        ("cart.hold_best", json!({"session": SESSION, "count": 1, "note": "best"}), "best"),
        (
            "cart.hold_places",
            json!({"session": "hamlet-matinee", "area": "yard", "quantity": 1, "note": "places"}),
            "places",
        ),
        ("cart.hold_stock", json!({"product": "programme", "quantity": 1, "note": "stock"}), "stock"),
        ("cart.hold_stock", json!({"product": "programme", "quantity": 1}), "stock"),
        ("cart.hold_slot", slot, "slot"),
    ];
    for (op, body, note) in holds {
        assert_eq!(notes(&ask(op, body).await), [note], "{op}");
    }
    let lines = json!([
        {"session": SESSION, "seats": [[2, 5]], "note": "one of several"},
        {"product": "programme", "quantity": 1, "note": "signed"},
        {"session": SESSION, "seats": [[2, 6]]},
    ]);
    assert_eq!(notes(&ask("cart.hold_all", json!({"lines": lines})).await), ["one of several", "signed", ""]);
    let all = [FIRST, "best", "places", "signed", "slot", "one of several", ""];
    assert_eq!(notes(&ask("cart.get", json!({})).await), all);
    assert_eq!(notes(&ask("cart.set_quantity", json!({"line": 4, "quantity": 5})).await), all);

    // It is changed, and ended, while the cart is active.
    let all = [FIRST, "", "places", "signed", "slot", "one of several", "late"];
    ask("cart.set_note", json!({"line": 2, "note": ""})).await;
    assert_eq!(notes(&ask("cart.set_note", json!({"line": 7, "note": "late"})).await), all);
    let cart = ask("cart.get", json!({})).await["id"].as_str().expect("an id").to_owned();
    let feed_of_session = ask("session.map", json!({"id": SESSION})).await;
    let order = ask("cart.checkout", json!({"payment": {"recorded": {"method": "cash", "transaction_id": "1"}}})).await;
    assert_eq!(notes(&order), all);
    assert_eq!(notes(&ask("order.get", json!({"order": order["id"]})).await), all);

    // Operators see it in the audit and in the history of the cart. Bookings, sessions and their histories do not have it.
    let mut inside = async |op: &str, body: Value| http_client.command(op, "", &body).await.json()["ok"].clone();
    assert_eq!(notes(&inside("admin.audit", json!({"entity": format!("cart/{cart}")})).await["cart"]), all);
    let history = entries(&inside("admin.history", json!({"entity": format!("cart/{cart}")})).await);
    let said = |word: &str, note: &str| history.iter().any(|(each, words)| each == word && words.contains(note));
    assert!(
        said("added", r#"noted "by the aisle,\r\n\tplease""#) && said("noted", r#"line 7 is noted "late""#),
        "{history:?}"
    );
    let window = json!({"resource": "room-5", "from": "2099-04-15T00:00:00Z", "to": "2099-04-16T00:00:00Z"});
    let elsewhere = [
        feed_of_session,
        inside("resource.bookings", window).await,
        inside("admin.audit", json!({"entity": format!("session/{SESSION}")})).await,
        inside("admin.history", json!({"entity": format!("session/{SESSION}")})).await,
        inside("admin.history", json!({"entity": "resource/room-5"})).await,
    ];
    for answer in elsewhere {
        assert!(answer.is_object() && !answer.to_string().contains("note"), "{answer}");
        assert!(
            !all.iter().any(|note| !note.is_empty() && answer.to_string().contains(&format!("\"{note}\""))),
            "{answer}"
        );
    }

    // A longer one is refused, and so are other control characters and a change of what is sold.
    let hold =
        |note: String| json!({"token": format!("{:032x}", 12), "session": SESSION, "seats": [[3, 5]], "note": note});
    let too_long = http_client.command("cart.hold_seats", "long", &hold("x".repeat(257))).await;
    assert_eq!(too_long.code(), 103, "{too_long:?}");
    assert_eq!(http_client.command("cart.hold_seats", "bell", &hold("\u{7}".into())).await.code(), 101);
    let line = |note: String| json!({"token": format!("{:032x}", 12), "lines": [{"product": "programme", "quantity": 1, "note": note}]});
    assert_eq!(http_client.command("cart.hold_all", "longs", &line("x".repeat(257))).await.code(), 103);
    assert_eq!(http_client.command("cart.hold_all", "longest", &line("x".repeat(256))).await.status, 200);
    let late = json!({"token": token, "line": 1, "note": "too late"});
    assert_eq!(http_client.command("cart.set_note", "late", &late).await.code(), 301);
    test_node.close().await;
}

fn entries(page: &Value) -> Vec<(String, String)> {
    let text = |entry: &Value, field: &str| entry[field].as_str().expect("a text").to_owned();
    let entries = page["entries"].as_array().expect("entries");
    entries.iter().map(|entry| (text(entry, "event"), text(entry, "details"))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_city_is_searched_over_all_its_venues() {
    let test_node = TestNode::open().await;
    let mut http_client = HttpClient::connect(test_node.address).await;
    let mut wanted = Vec::new();
    let title = json!({"id": "t", "name": "T"});
    assert_eq!(http_client.command("title.put", "t", &title).await.status, 200);
    for number in 0..3 {
        let venue = format!("kino{number}");
        let put = json!({"id": venue, "name": venue, "city": "Aarhus"});
        assert_eq!(http_client.command("venue.put", &format!("v{number}"), &put).await.status, 200);
        let hall = json!({"venue": venue, "id": "h", "name": "h", "layout": {"rows": 1, "seats": 2, "category": "c"}});
        assert_eq!(http_client.command("hall.put", &format!("h{number}"), &hall).await.status, 200);
        let session = json!({"venue": venue, "id": format!("s{number}"), "hall": "h", "title": "t",
            "starts_at": format!("2099-04-1{}T19:00:00Z", 5 - number), "ends_at": format!("2099-04-1{}T20:00:00Z", 5 - number),
            "prices": {"c": {"amount": 1, "currency": "EUR"}}});
        let answer = http_client.command("session.create", &format!("s{number}"), &session).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        wanted.insert(0, json!([format!("s{number}"), venue]));
    }
    // A venue reaches the directory a moment after its answer.
    for _ in 0..2_000 {
        let answer = http_client.get("/v1/session.search?city=Aarhus", &[]).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let found: Vec<Value> = answer.json()["ok"]["sessions"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|session| json!([session["id"], session["venue"]]))
            .collect();
        if found == wanted {
            return test_node.close().await;
        }
        assert!(found.len() < wanted.len(), "{found:?} is not {wanted:?}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("the directory does not know the venues");
}

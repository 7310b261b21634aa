//! Codes on one node, in both encodings: put, shown, used, paid back and ended, before and after a kill. The code itself is nowhere but
//! with those who show it: not in what the node prints at any level, in no answer to another, and in no turn of the log on its disk.

use std::process::Command;

use serde_json::{Value, json};

use crate::common::{Answer, BOXOFFICE, Encoding, Home, Port, Rng, Server, Theatre, eventually, http, recorded, time};

const CODE: &str = "GLOBE-7Q2M-XK";
/// A code that nobody put.
const GUESS: &str = "globe-7q2m-xk";

/// How often the code was used: in carts, and in orders.
async fn uses(port: &Port) -> (u64, u64) {
    let view = port.read("code.get", json!({"code": CODE})).await.ok();
    (view["held"].as_u64().expect("a count"), view["sold"].as_u64().expect("a count"))
}

async fn open(port: &Port) -> Theatre {
    let theatre = Theatre::open(port, 1, (3, 10), None).await;
    let offers = json!([
        {"id": "everybody", "from": time(port, 1_899_999_000_000)},
        {"id": "members", "code_group": "members", "set_price": 100},
    ]);
    port.ask("session.change", "offers", json!({"id": theatre.session(), "offers": offers})).await.ok();
    theatre
}

/// A hold of seats of the first row with a code.
fn hold(theatre: &Theatre, token: &str, seats: &[u16], code: &str) -> Value {
    let seats: Vec<[u16; 2]> = seats.iter().map(|seat| [0, *seat]).collect();
    json!({"token": token, "session": theatre.session(), "seats": seats, "code": code})
}

/// Every turn in the logs of a data directory, in words.
fn turns(home: &Home) -> String {
    let output = Command::new(BOXOFFICE).arg("inspect").arg(home.data_dir()).arg("--turns").output();
    let output = output.expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_is_used_and_stands_nowhere() {
    for encoding in Encoding::BOTH {
        let mut rng = Rng::of_test("a_code_is_used_and_stands_nowhere");
        let home = Home::new().with_args(&["--log", "trace"]);
        let server = home.start();
        let (desk, guest) = (server.port(encoding).await, Port::guest(server.address(), encoding).await);
        let theatre = open(&desk).await;

        let put = json!({"code": CODE, "group": "members", "uses": 3});
        let first = desk.ask("code.put", "put", put.clone()).await.ok();
        assert_eq!(first, json!({"group": "members", "uses": 3, "held": 0, "sold": 0}));
        // Others in one frame, a repeat, and what cannot be.
        let items: Vec<Value> = (0..40)
            .map(|number| {
                let body = json!({"code": format!("OTHER-{number}"), "group": "members", "uses": 1});
                json!({"op": "code.put", "rid": format!("o{number}"), "body": body})
            })
            .collect();
        let answers = desk.read("batch", json!({"items": items})).await.ok();
        assert!(answers["items"].as_array().expect("items").iter().all(|item| item.get("ok").is_some()), "{answers}");
        assert_eq!(desk.ask("code.put", "put", put).await.ok(), first);
        let many = json!({"code": CODE, "group": "members", "uses": 1_000_001});
        assert!(matches!(desk.ask("code.put", "many", many).await, Answer::No(no) if no.code < 200));
        guest.read("code.get", json!({"code": CODE})).await.no(107, "unauthenticated");

        // Nobody else buys yet. Guests see no offer that needs a code.
        let token = rng.token();
        guest
            .ask("cart.hold_seats", "bare", json!({"token": token, "session": theatre.session(), "seats": [[0, 0]]}))
            .await
            .no(212, "not_on_sale");
        let seen = guest.read("session.get", json!({"id": theatre.session(), "layout": false})).await.ok();
        assert!(!seen.to_string().contains("members"), "{seen}");
        let wrong = guest.ask("cart.hold_seats", "wrong", hold(&theatre, &token, &[0], GUESS)).await;
        let no = wrong.no(218, "code_not_valid");
        assert!(!no.to_string().to_lowercase().contains("globe"), "{no}");

        let held = guest.ask("cart.hold_seats", "two", hold(&theatre, &token, &[0, 1], CODE)).await.ok();
        let bought_as = &held["lines"][0]["bought_as"];
        assert_eq!((&held["lines"][0]["prices"], &bought_as[0]["code_group"]), (&json!([100, 100]), &json!("members")));
        let again = guest.ask("cart.hold_seats", "two", hold(&theatre, &token, &[0, 1], CODE)).await.ok();
        assert_eq!((again, uses(&desk).await), (held, (2, 0)));
        // The third seat has the last use, and the fourth one none.
        let other = rng.token();
        guest
            .ask(
                "cart.hold_best",
                "best",
                json!({
                    "token": other, "session": theatre.session(), "count": 1, "code": CODE
                }),
            )
            .await
            .ok();
        let late = rng.token();
        guest.ask("cart.hold_seats", "late", hold(&theatre, &late, &[5], CODE)).await.no(218, "code_not_valid");
        guest.ask("cart.release", "less", json!({"token": token, "line": 1, "seats": [[0, 1]]})).await.ok();
        let freed = eventually("the use is free again", async || (uses(&desk).await == (2, 0)).then_some(()));
        freed.await;
        let paid = desk.ask("cart.checkout", "pay", json!({"token": token, "payment": recorded()})).await.ok();
        let sold = eventually("the use is bought", async || (uses(&desk).await == (1, 1)).then_some(()));
        sold.await;

        // What operators read: the history of the code and of all that it was shown to, audits and metrics.
        let whole = desk.exchange_whole(json!({"op": "code.get", "body": {"code": CODE}})).await;
        let entity = whole["at"][0]["entity"].as_str().expect("the entity of the code").to_owned();
        assert!(entity.starts_with("code/"), "{whole}");
        let session = format!("session/{}", theatre.session());
        let cart = format!("cart/{}", paid["id"].as_str().expect("an order"));
        for about in [&entity, &session, &cart] {
            for op in ["admin.history", "admin.audit"] {
                let told = desk.read(op, json!({"entity": about})).await.ok();
                assert!(!told.to_string().contains(CODE), "{op} of {about}: {told}");
            }
        }
        let told = desk.read("admin.history", json!({"entity": entity})).await.ok().to_string();
        assert!(told.contains("uses_held") && told.contains("used") && told.contains("uses_released"), "{told}");
        let (_, metrics) = http::get(server.operators(), "/metrics").await;
        assert!(!metrics.contains(CODE));

        // After a kill it is known as before.
        drop((desk, guest));
        let log = server.stderr();
        server.kill();
        let server = home.start();
        let desk = server.port(encoding).await;
        assert_eq!(uses(&desk).await, (1, 1));
        let order = paid["id"].as_str().expect("an order");
        desk.ask("order.refund", "refund", json!({"order": order, "reason": "ill"})).await.ok();
        let back = eventually("the use is free again", async || (uses(&desk).await == (1, 0)).then_some(()));
        back.await;
        let ended = json!({"code": CODE, "group": "members", "uses": 3, "ended": true});
        assert_eq!(desk.ask("code.put", "end", ended).await.ok()["ended"], true);
        let late = rng.token();
        desk.ask("cart.hold_seats", "late", hold(&theatre, &late, &[6], CODE)).await.no(218, "code_not_valid");
        let log = log + &server.stderr();
        server.stop();
        home.is_whole();

        let turns = turns(&home);
        assert!(turns.contains(&entity["code/".len()..]), "the log has the hash of the code: {turns}");
        for secret in [CODE, GUESS, "OTHER-7"] {
            for (place, text) in [("the node's messages", &log), ("the log", &turns)] {
                let around = |at: usize| text[at.saturating_sub(200)..].chars().take(300).collect::<String>();
                assert_eq!(text.find(secret).map(around), None, "{place} has {secret}");
            }
        }
    }
}

/// A code whose uses count orders: a cart has one use for all its lines, until the last of them is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_counts_orders_if_the_house_says_so() {
    for encoding in Encoding::BOTH {
        let mut rng = Rng::of_test("a_code_counts_orders_if_the_house_says_so");
        let home = Home::new();
        let server = home.start();
        let (desk, guest) = (server.port(encoding).await, Port::guest(server.address(), encoding).await);
        let theatre = open(&desk).await;
        let put = json!({"code": CODE, "group": "members", "uses": 1, "by_order": true});
        let first = desk.ask("code.put", "put", put).await.ok();
        assert_eq!(first, json!({"group": "members", "uses": 1, "by_order": true, "held": 0, "sold": 0}));
        let [ada, eve] = [rng.token(), rng.token()];
        let held = guest.ask("cart.hold_seats", "five", hold(&theatre, &ada, &[0, 1, 2, 3, 4], CODE)).await.ok();
        assert_eq!(held["lines"][0]["prices"], json!([100, 100, 100, 100, 100]));
        guest.ask("cart.hold_seats", "more", hold(&theatre, &ada, &[7], CODE)).await.ok();
        assert_eq!(uses(&desk).await, (1, 0));
        guest.ask("cart.hold_seats", "eve", hold(&theatre, &eve, &[8], CODE)).await.no(218, "code_not_valid");
        // The first line goes, and the second one keeps the use.
        guest.ask("cart.release", "less", json!({"token": ada, "line": 1})).await.ok();
        let entity = desk.exchange_whole(json!({"op": "code.get", "body": {"code": CODE}})).await;
        let entity = entity["at"][0]["entity"].as_str().expect("the entity of the code").to_owned();
        let of_one = async || {
            let audit = desk.read("admin.audit", json!({"entity": entity})).await.ok();
            assert_eq!(audit["violations"], json!([]), "{audit}");
            (audit["holds"].as_array().expect("holds").len() == 1).then_some(())
        };
        eventually("the uses of the first line are free", of_one).await;
        assert_eq!(uses(&desk).await, (1, 0));
        guest.ask("cart.hold_seats", "eve", hold(&theatre, &eve, &[8], CODE)).await.no(218, "code_not_valid");
        let paid = desk.ask("cart.checkout", "pay", json!({"token": ada, "payment": recorded()})).await.ok();
        let sold = eventually("the use is bought", async || (uses(&desk).await == (0, 1)).then_some(()));
        sold.await;

        // After a kill it counts as before, and a refund gives the use back.
        drop((desk, guest));
        server.kill();
        let server = home.start();
        let (desk, guest) = (server.port(encoding).await, Port::guest(server.address(), encoding).await);
        assert_eq!(uses(&desk).await, (0, 1));
        guest.ask("cart.hold_seats", "again", hold(&theatre, &eve, &[8], CODE)).await.no(218, "code_not_valid");
        desk.ask("order.refund", "refund", json!({"order": paid["id"], "reason": "ill"})).await.ok();
        let back = eventually("the use is free again", async || (uses(&desk).await == (0, 0)).then_some(()));
        back.await;
        guest.ask("cart.hold_seats", "last", hold(&theatre, &eve, &[8, 9], CODE)).await.ok();
        assert_eq!(uses(&desk).await, (1, 0));
        server.stop();
        home.is_whole();
    }
}

/// A node without a secret takes no codes, and says what is missing to those who may put some.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_a_secret_says_what_is_missing() {
    let home = Home::new();
    let mut command = home.command();
    command.env_remove("BOXOFFICE_CODE_SECRET");
    let server = Server::spawn(command).expect("it serves");
    let (desk, guest) = (server.port(Encoding::Json).await, Port::guest(server.address(), Encoding::Json).await);
    let theatre = open(&desk).await;
    let put = json!({"code": CODE, "group": "members", "uses": 3});
    let Answer::No(no) = desk.ask("code.put", "put", put).await else { panic!("it has no secret") };
    assert!(no.body.to_string().contains("listen.code_secret"), "{}", no.body);
    let token = Rng::of_test("a_node_without_a_secret_says_what_is_missing").token();
    guest.ask("cart.hold_seats", "hold", hold(&theatre, &token, &[0], CODE)).await.no(218, "code_not_valid");
    server.stop();
}

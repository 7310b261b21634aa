//! What is for operators only: every op, by both doors, with what it asks for and without.

use boxoffice_edge::EdgeConfig;
use boxoffice_wire::{Encoding, Op, schema};

use crate::{
    asking::Asking,
    common::{Client, Door},
};

const TOKEN: &str = "open sesame, please";

/// What the protocol's page says: everything that puts, creates, blocks, cancels, refunds, and so on.
fn is_for_operators(op: Op) -> bool {
    let name = op.name();
    let (noun, verb) = name.split_once('.').unwrap_or((name, ""));
    match noun {
        "admin" | "batch" => true,
        "cart" | "customer" | "hello" | "watch" | "unwatch" => false,
        _ => ["put", "create", "block", "unblock", "cancel", "refund", "reserve", "move"].contains(&verb),
    }
}

fn guarded() -> Door {
    Door::with(EdgeConfig { admin_token: Some(TOKEN.into()), ..EdgeConfig::default() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guests_hear_so_before_anything_is_read() {
    let door = guarded();
    for op in Op::ALL {
        let path = format!("/v1/{}", op.name());
        let key = ("idempotency-key", "r");
        for (headers, may) in [
            (vec![key], false),
            (vec![key, ("authorization", "Bearer open sesame, pleasf")], false),
            (vec![key, ("authorization", "Bearer open sesame, please")], true),
        ] {
            let shows_a_wrong_one = headers.len() == 2 && !may;
            let mut asking = Asking::connect(door.address).await;
            // No op is asked with a list.
            let told = asking.post(&path, &headers, "[]").await;
            let unknown = (is_for_operators(op) && !may) || shows_a_wrong_one;
            let is_about_a_socket = ["hello", "watch", "unwatch"].contains(&op.name());
            let expected = if unknown && !is_about_a_socket { (401, 107) } else { (400, 101) };
            assert_eq!((told.status, told.code()), expected, "{path} {headers:?}");
        }
    }
    assert!(door.node.keys.lock().is_empty() && door.node.diary.lock().is_empty(), "nothing reached the node");
}

/// With bodies that would be taken from an operator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn good_requests_of_guests_change_nothing() {
    let door = guarded();
    let mut guest = Client::connect(door.address, Encoding::Json).await;
    let mut asked = 0;
    for op in Op::ALL.iter().filter(|op| is_for_operators(**op)) {
        for body in &schema::of(*op).examples {
            asked += 1;
            let told = Asking::connect(door.address).await.command(op.name(), "r", body).await;
            assert_eq!((told.status, told.code()), (401, 107), "{} {body}", op.name());
            guest.send(asked, *op, body.clone()).await;
            assert_eq!(guest.code().await, (Some(asked), 107), "{}", op.name());
        }
    }
    assert!(asked >= 19, "each of them has an example: {asked}");
    assert!(door.node.keys.lock().is_empty() && door.node.histories_asked.lock().is_empty());
    // The same guest is an operator with the token.
    guest.send(1_000, Op::Hello, serde_json::json!({"token": TOKEN})).await;
    assert_eq!(guest.code().await, (Some(1_000), 0));
    guest.send(1_001, Op::AdminStatus, serde_json::json!({})).await;
    assert_eq!(guest.code().await, (Some(1_001), 0));
}

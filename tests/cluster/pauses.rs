//! A node that is stopped for longer than elections take and holds live, and goes on as if nothing had been.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    THREE,
    cluster::{Anywhere, Stage},
    common::{Answer, Asked, CartRecord, Dice, PATIENCE, Stands, Theatre, checkout, eventually},
};

/// How long holds live here.
const TTL: Duration = Duration::from_secs(4);

/// How long the leader is stopped: until the holds are over, and their grace as well.
const STOPPED: Duration = Duration::from_millis(6_500);

/// Carts whose time runs out meanwhile.
const CARTS: u16 = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_is_stopped_across_deadlines() {
    let mut stage = Stage::new(Dice::of_test("a_leader_is_stopped_across_deadlines"), THREE).await;
    let short = stage.play(2, (CARTS, 2), Some(TTL.as_millis() as u64)).await;
    let mut buyers = stage.begin().await;
    buyers.orders(10).await;
    let anywhere = Arc::new(stage.cluster.anywhere(stage.dice.next()));
    let mut carts = JoinSet::new();
    let began = Instant::now();
    for row in 0..CARTS {
        let (anywhere, short, token) = (Arc::clone(&anywhere), short.clone(), stage.dice.token());
        // Half of them pay around the deadline, one millisecond this side or that; the others never do.
        let pays_ms = TTL.as_millis() as usize - 1_000 + stage.dice.below(2_000);
        let pays = stage.dice.percent(50).then_some(Duration::from_millis(pays_ms as u64));
        carts.spawn(async move { one_cart(&anywhere, &short, token, row, pays).await });
    }
    let stopped = stage.cluster.a_leader().await;
    stage.cluster.pause(stopped);
    // The others go on without it.
    buyers.orders(30).await;
    sleep_until(began + STOPPED).await;
    stage.cluster.resume(stopped);
    buyers.orders(20).await;
    let mut ended = Vec::new();
    while let Some(cart) = carts.join_next().await {
        ended.push(cart.expect("a cart"));
    }
    let count = |stands| ended.iter().filter(|cart| cart.stands == stands).count();
    println!("{} sold, {} expired, {} unknown", count(Stands::Done), count(Stands::Expired), count(Stands::Active));
    let unknown: Vec<CartRecord> = ended.extract_if(.., |cart| cart.stands == Stands::Active).collect();
    for cart in unknown {
        ended.push(resolved(&anywhere, cart).await);
    }
    stage.cluster.ready().await;
    stage
        .end_with(buyers, async |stage| {
            stage.record.carts.extend(ended);
            // Seats of lost messages are free when their session has asked the cart: a grace after the deadline.
            let (node, asked) = (stage.cluster.running()[0], Instant::now());
            stage.record.check_maps(&stage.cluster.port(node).await, &short).await;
            println!("every hold that is over was free {:?} later", asked.elapsed());
        })
        .await;
    for id in stage.cluster.running() {
        stage.record.check_maps(&stage.cluster.port(id).await, &short).await;
    }
    stage.check_everything().await;
}

/// A cart with two seats of each session. It pays this long after it was begun, if at all. It counts as active if
/// the outcome is unknown.
async fn one_cart(anywhere: &Anywhere, short: &Theatre, token: String, row: u16, pays: Option<Duration>) -> CartRecord {
    let mut cart = CartRecord::new(token);
    let lines: Vec<Value> =
        short.sessions.iter().map(|session| json!({"session": session, "seats": [[row, 0], [row, 1]]})).collect();
    let called = Instant::now();
    let answer = ask(anywhere, &mut cart, "cart.hold_all", |token| json!({"token": token, "lines": lines})).await;
    assert!(matches!(answer, Answer::Ok(..)), "seats that no other buyer wants: {answer:?}");
    let Some(pays) = pays else {
        while state(anywhere, &cart).await.is_none_or(|state| state != "expired") {
            assert!(called.elapsed() < PATIENCE, "a cart does not expire");
            sleep(Duration::from_millis(100)).await;
        }
        // Looking does not keep it alive, and it has its whole time.
        assert!(called.elapsed() >= TTL, "a hold ended {:?} after it was asked for", called.elapsed());
        cart.stands = Stands::Expired;
        return cart;
    };
    sleep_until(called + pays).await;
    match ask(anywhere, &mut cart, "cart.checkout", checkout).await {
        Answer::No(no) => {
            assert!(matches!(no.code, 301 | 302), "{}", no.body);
            assert!(called.elapsed() >= TTL, "a hold ended {:?} after it was asked for", called.elapsed());
            cart.stands = Stands::Expired;
        }
        Answer::Ok(..) | Answer::Gone => {}
        Answer::Fail(code) => panic!("a checkout failed with {code} for {:?}", PATIENCE / 2),
    }
    cart
}

/// The unknown outcome is known at last: the checkout came in time, or it did not.
async fn resolved(anywhere: &Anywhere, mut cart: CartRecord) -> CartRecord {
    let asked = cart.unknown.take().expect("it is unknown");
    let answer = eventually("an answer to a repeat", async || {
        match anywhere.ask_within(asked.op, &asked.rid, asked.body.clone(), PATIENCE / 6).await {
            Answer::Gone | Answer::Fail(_) => None,
            answer => Some(answer),
        }
    })
    .await;
    cart.note(asked, &answer);
    if let Answer::No(no) = answer {
        assert!(matches!(no.code, 301 | 302), "{}", no.body);
        cart.stands = Stands::Expired;
    }
    cart
}

async fn ask(anywhere: &Anywhere, cart: &mut CartRecord, op: &'static str, body: impl FnOnce(&str) -> Value) -> Answer {
    let asked = Asked::new(op, format!("{op}-{}", &cart.token[..12]), body(&cart.token));
    let answer = anywhere.ask_within(op, &asked.rid, asked.body.clone(), PATIENCE / 2).await;
    cart.note(asked, &answer);
    answer
}

async fn state(anywhere: &Anywhere, cart: &CartRecord) -> Option<String> {
    match anywhere.ask_within("cart.get", "", json!({"token": cart.token}), PATIENCE / 6).await {
        Answer::Ok(body, _) => Some(body["state"].as_str()?.to_owned()),
        Answer::No(no) => panic!("{}", no.body),
        Answer::Fail(_) | Answer::Gone => None,
    }
}

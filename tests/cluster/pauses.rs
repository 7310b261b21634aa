//! A node that is paused for longer than elections take and holds live, and resumes without noticing.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    THREE,
    cluster::{FailoverClient, Stage},
    common::{Answer, Asked, CartRecord, CartStatus, Rng, TIMEOUT, Theatre, checkout, eventually},
};

/// The lifetime of holds here.
const TTL: Duration = Duration::from_secs(4);

/// The pause of the leader: until the holds and their grace have ended.
const STOPPED: Duration = Duration::from_millis(6_500);

/// Carts that expire during the pause.
const CARTS: u16 = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_is_stopped_across_deadlines() {
    let mut stage = Stage::new(Rng::of_test("a_leader_is_stopped_across_deadlines"), THREE).await;
    let short = stage.play(2, (CARTS, 2), Some(TTL.as_millis() as u64)).await;
    let mut buyers = stage.begin().await;
    buyers.orders(10).await;
    let failover_client = Arc::new(stage.cluster.failover_client(stage.rng.next()));
    let mut carts = JoinSet::new();
    let began = Instant::now();
    for row in 0..CARTS {
        let (failover_client, short, token) = (Arc::clone(&failover_client), short.clone(), stage.rng.token());
        // Half of them pay around the deadline, a few milliseconds earlier or later. The others never pay.
        let pays_ms = TTL.as_millis() as usize - 1_000 + stage.rng.below(2_000);
        let pays = stage.rng.percent(50).then_some(Duration::from_millis(pays_ms as u64));
        carts.spawn(async move { one_cart(&failover_client, &short, token, row, pays).await });
    }
    let stopped = stage.cluster.a_leader().await;
    stage.cluster.pause(stopped);
    // The other nodes take over.
    buyers.orders(30).await;
    sleep_until(began + STOPPED).await;
    stage.cluster.resume(stopped);
    buyers.orders(20).await;
    let mut ended = Vec::new();
    while let Some(cart) = carts.join_next().await {
        ended.push(cart.expect("a cart"));
    }
    let count = |status| ended.iter().filter(|cart| cart.status == status).count();
    println!(
        "{} sold, {} expired, {} unknown",
        count(CartStatus::Done),
        count(CartStatus::Expired),
        count(CartStatus::Active)
    );
    let unknown: Vec<CartRecord> = ended.extract_if(.., |cart| cart.status == CartStatus::Active).collect();
    for cart in unknown {
        ended.push(resolved(&failover_client, cart).await);
    }
    stage.cluster.ready().await;
    stage
        .end_with(buyers, async |stage| {
            stage.record.carts.extend(ended);
            // Seats of lost messages are free once their session has asked the cart, a grace after the deadline.
            let (node, asked) = (stage.cluster.running()[0], Instant::now());
            stage.record.check_maps(&stage.cluster.port(node).await, &short).await;
            println!("every expired hold was free {:?} later", asked.elapsed());
        })
        .await;
    for id in stage.cluster.running() {
        stage.record.check_maps(&stage.cluster.port(id).await, &short).await;
    }
    stage.check_everything().await;
}

/// A cart with two seats of each session. It pays this long after its begin, if at all. It counts as active if the outcome is
/// unknown.
async fn one_cart(
    failover_client: &FailoverClient,
    short: &Theatre,
    token: String,
    row: u16,
    pays: Option<Duration>,
) -> CartRecord {
    let mut cart = CartRecord::new(token);
    let lines: Vec<Value> =
        short.sessions.iter().map(|session| json!({"session": session, "seats": [[row, 0], [row, 1]]})).collect();
    let called = Instant::now();
    let answer =
        ask(failover_client, &mut cart, "cart.hold_all", |token| json!({"token": token, "lines": lines})).await;
    assert!(matches!(answer, Answer::Ok(..)), "seats that no other buyer wants: {answer:?}");
    let Some(pays) = pays else {
        while state(failover_client, &cart).await.is_none_or(|state| state != "expired") {
            assert!(called.elapsed() < TIMEOUT, "a cart does not expire");
            sleep(Duration::from_millis(100)).await;
        }
        // Reads do not keep it alive, and it must not expire early.
        assert!(called.elapsed() >= TTL, "a hold ended {:?} after it was asked for", called.elapsed());
        cart.status = CartStatus::Expired;
        return cart;
    };
    sleep_until(called + pays).await;
    match ask(failover_client, &mut cart, "cart.checkout", checkout).await {
        Answer::No(no) => {
            assert!(matches!(no.code, 301 | 302), "{}", no.body);
            assert!(called.elapsed() >= TTL, "a hold ended {:?} after it was asked for", called.elapsed());
            cart.status = CartStatus::Expired;
        }
        Answer::Ok(..) | Answer::Gone => {}
        Answer::Fail(code) => panic!("a checkout failed with {code} for {:?}", TIMEOUT / 2),
    }
    cart
}

/// Resolves the unknown outcome: the checkout came in time, or it did not.
async fn resolved(failover_client: &FailoverClient, mut cart: CartRecord) -> CartRecord {
    let asked = cart.unknown.take().expect("an unknown outcome");
    let answer = eventually("an answer to a repeat", async || {
        match failover_client.ask_within(asked.op, &asked.rid, asked.body.clone(), TIMEOUT / 6).await {
            Answer::Gone | Answer::Fail(_) => None,
            answer => Some(answer),
        }
    })
    .await;
    cart.note(asked, &answer);
    if let Answer::No(no) = answer {
        assert!(matches!(no.code, 301 | 302), "{}", no.body);
        cart.status = CartStatus::Expired;
    }
    cart
}

async fn ask(
    failover_client: &FailoverClient,
    cart: &mut CartRecord,
    op: &'static str,
    body: impl FnOnce(&str) -> Value,
) -> Answer {
    let asked = Asked::new(op, format!("{op}-{}", &cart.token[..12]), body(&cart.token));
    let answer = failover_client.ask_within(op, &asked.rid, asked.body.clone(), TIMEOUT / 2).await;
    cart.note(asked, &answer);
    answer
}

async fn state(failover_client: &FailoverClient, cart: &CartRecord) -> Option<String> {
    match failover_client.ask_within("cart.get", "", json!({"token": cart.token}), TIMEOUT / 6).await {
        Answer::Ok(body, _) => Some(body["state"].as_str()?.to_owned()),
        Answer::No(no) => panic!("{}", no.body),
        Answer::Fail(_) | Answer::Gone => None,
    }
}

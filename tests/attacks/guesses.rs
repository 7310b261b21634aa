//! Guesses of keys, tokens, customers' tokens and carts' secrets. They are answered late and counted. Other callers are not
//! delayed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::{
    roles::with_tokens,
    stage::Stage,
    tokens::{self, Shop, good},
    wire::{self, attacker, shows},
};
use crate::common::{Answer, Encoding, Home, Rng, checkout, eventually};

/// Concurrent guessers.
const GUESSERS: usize = 32;

/// Wrong guesses that are answered at once, the delay that each further one adds, and the longest delay in steps.
const FREE: usize = 3;
const STEP: Duration = Duration::from_millis(500);
const STEPS_MAX: usize = 20;

/// How many guesses of one network may be answered in this time, whatever the number of connections.
fn guesses_in(time: Duration) -> usize {
    let steps = time.as_millis() / STEP.as_millis();
    let delay = |guess: usize| guess.min(STEPS_MAX) as u128;
    let mut used = 0;
    FREE + (1..)
        .take_while(|guess| {
            used += delay(*guess);
            used <= steps
        })
        .count()
}

/// One address guesses over many connections at once. They take turns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_are_delayed_for_their_own_address_only() {
    let shop = Shop::new();
    let home = Home::with_config(&with_tokens(&shop));
    let stage = Stage::of_home("guesses_are_delayed_for_their_own_address_only", home).await;
    let key = tokens::key(&stage, "till", "desk").await;
    let other_shop = Shop::new();
    let run = stage.start_attack("8 guesses of keys and tokens", 1).await;
    let begun = Instant::now();
    let (asked, answered) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = Vec::new();
    for number in 0..GUESSERS {
        let (address, mut rng) = (stage.address(), stage.rng.fork(100 + number as u64));
        let (asked, answered, forged) =
            (Arc::clone(&asked), Arc::clone(&answered), other_shop.eddsa(&good("ada", "sell")));
        tasks.push(tokio::spawn(async move {
            loop {
                asked.fetch_add(1, Ordering::Relaxed);
                let code = if number % 4 == 3 {
                    // Guesses are requests of their network as well, and may use its budget up.
                    let Ok(port) = wire::port(attacker(1), address, Encoding::Json, None).await else {
                        sleep(Duration::from_millis(20)).await;
                        continue;
                    };
                    match port.frame(json!({"op": "hello", "body": {"token": rng.token()}})).await {
                        Answer::No(no) => no.code,
                        other => panic!("a guess is right: {other:?}"),
                    }
                } else {
                    let headers = match number % 4 {
                        0 => shows(Some(&format!("bok.connection.{}{}", rng.token(), rng.token()))),
                        1 => shows(Some(&forged)),
                        _ => tokens::shows_customer("ada", &format!("{}{}", rng.token(), rng.token())),
                    };
                    let reply = wire::post(attacker(1), address, "admin.keys", &headers, "{}").await;
                    let Ok(reply) = reply else { continue };
                    reply.code()
                };
                match code {
                    107 => _ = answered.fetch_add(1, Ordering::Relaxed),
                    // Too many wait, so nobody looked at this one.
                    109 => sleep(Duration::from_millis(20)).await,
                    other => panic!("a guess is answered {other}"),
                }
            }
        }));
    }
    run.wait().await;
    let (elapsed, answers) = (begun.elapsed(), answered.load(Ordering::Relaxed));
    // The owner of the key is behind the same address. Its correct key is accepted at once while guesses wait.
    let headers = shows(Some(&key));
    let right = wire::post(attacker(1), stage.address(), "venue.get", &headers, "{\"id\":\"royal\"}");
    let right = timeout(Duration::from_secs(9), right).await.expect("a correct key does not wait").expect("an answer");
    assert_eq!(right.status, 200);
    let most = guesses_in(begun.elapsed());
    println!(
        "attack | 8 guesses: {answers} answered in {:.1} s, {} asked",
        elapsed.as_secs_f64(),
        asked.load(Ordering::Relaxed)
    );
    assert!(answers <= most, "{answers} guesses were answered in {elapsed:?}, and {most} may be");
    assert!(stage.metric("boxoffice_edge_denied_total{reason=\"token\"}").await >= answers as u64);
    for task in tasks {
        task.abort();
        // Reports a panic of a guesser.
        let Err(ended) = task.await;
        assert!(ended.is_cancelled(), "a guesser: {ended}");
    }
    let sold = run.end().await;
    stage.has_sold_exactly(sold).await;
    stage.server.stop();
}

/// The secret of a cart has 128 bits. The rate of requests bounds guesses, and none opens the cart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_of_a_carts_secret_are_bounded_by_the_rate() {
    let stage = Stage::new("guesses_of_a_carts_secret_are_bounded_by_the_rate", "").await;
    let run = stage.start_attack("8 guesses of carts' secrets", 20).await;
    let mut rng: Rng = stage.rng.fork(100);
    let owner = wire::guest(attacker(2), stage.address()).await;
    let token = rng.token();
    let session = stage.theatre.sessions.last().expect("sessions");
    let held = owner.ask("cart.hold_best", "1", json!({"token": token, "session": session, "count": 2})).await.ok();
    let cart = held["cart"].as_str().expect("a cart").to_owned();
    let (mut wrong, mut unknown, mut limited) = (0, 0, 0);
    let mut ports = join_all((0..4).map(|_| wire::guest(attacker(1), stage.address()))).await;
    let begun = Instant::now();
    while limited == 0 || !run.is_over() {
        for port in &mut ports {
            if port.is_closed() {
                assert_eq!(port.closed().await, 4104, "too many requests");
                let again = async || wire::port(attacker(1), stage.address(), Encoding::Json, None).await.ok();
                *port = eventually("the node accepts the connection", again).await;
            }
        }
        let guesses: Vec<_> = (0..200)
            .map(|number| {
                let body = match number % 2 {
                    0 => json!({"token": rng.token(), "cart": cart}),
                    _ => json!({"token": rng.token()}),
                };
                let op = ["cart.get", "cart.cancel"][number / 2 % 2];
                ports[number % 4].ask_once(op, "g", body)
            })
            .collect();
        for answer in join_all(guesses).await {
            match answer {
                Answer::No(no) if no.code == 305 => wrong += 1,
                Answer::No(no) if no.code == 701 => unknown += 1,
                Answer::No(no) if no.code == 109 => {
                    assert!(no.body["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0), "{}", no.body);
                    limited += 1;
                }
                Answer::Fail(901) | Answer::Gone => {}
                other => panic!("a guess is wrong: {other:?}"),
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(60) + run.left(), "no limit stops the guesses");
    }
    println!(
        "attack | 8 guesses of carts' secrets: {wrong} not_your_cart, {unknown} not_found, {limited} rate_limited"
    );
    // Five seconds' worth at once, of requests of the weight 10. A read weighs 1, and a cancel 6.
    let most = (2_500 + 500 * (begun.elapsed().as_secs() as usize + 2)) * 10 * 2 / 7;
    assert!(
        wrong > 0 && unknown > 0 && wrong + unknown <= most,
        "{wrong} + {unknown} guesses in {:?}",
        begun.elapsed()
    );
    owner.ask("cart.checkout", "2", checkout(&token)).await.ok();
    let sold = run.end().await;
    stage.has_sold_exactly(sold + 2).await;
    stage.server.stop();
}

//! How long a buyer waits if his node lives while the leader of what he asks for dies.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    THREE,
    cluster::{SHARDS, Stage},
    common::{Answer, Asked, CartRecord, Dice, PATIENCE, Port, Theatre, checkout, eventually},
};

/// Buyers at once, each with a row of every session.
const BUYERS: u16 = 12;

/// More than are sold in the time, on a quick machine too.
const SESSIONS: usize = 40;

/// Seats of a row; a cart takes two.
const SEATS: u16 = 60;

/// How long buyers buy before the death, and after another node leads.
const WHILE: Duration = Duration::from_millis(1_500);

/// How long a buyer thinks between two carts.
const THOUGHT: Duration = Duration::from_millis(10);

/// Who waits longer is told of one by one.
const LONG: Duration = Duration::from_millis(600);

/// One request: what, when it was asked, when it was answered.
type Waited = (&'static str, Instant, Instant);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_at_a_node_that_lives_is_turned_away() {
    let mut stage = Stage::new(Dice::of_test("nobody_at_a_node_that_lives_is_turned_away"), THREE).await;
    let theatre = stage.play(SESSIONS, (BUYERS, SEATS), None).await;
    let doomed = stage.cluster.a_leader().await;
    let living: Vec<u64> = stage.cluster.running().into_iter().filter(|id| *id != doomed).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let mut buyers = JoinSet::new();
    for row in 0..BUYERS {
        let port = stage.cluster.port(living[usize::from(row) % living.len()]).await;
        let (theatre, dice, stop) = (theatre.clone(), stage.dice.fork(row.into()), Arc::clone(&stop));
        buyers.spawn(async move { buy(&port, &theatre, row, dice, &stop).await });
    }
    sleep(WHILE).await;
    let killed = Instant::now();
    stage.cluster.kill(doomed);
    eventually("the others lead", async || (stage.cluster.leaders().await.len() == 1 + SHARDS).then_some(())).await;
    let led = Instant::now();
    sleep(WHILE).await;
    stop.store(true, Relaxed);
    let mut waited = Vec::new();
    while let Some(buyer) = buyers.join_next().await {
        let (carts, waits) = buyer.expect("a buyer");
        stage.record.carts.extend(carts);
        waited.extend(waits);
    }
    report(&waited, killed, led);
    stage.cluster.start_node(doomed).await;
    stage.cluster.converged().await;
    for id in stage.cluster.running() {
        stage.record.check_maps(&stage.cluster.port(id).await, &theatre).await;
    }
    stage.check_everything().await;
}

/// Two seats of one row after the other, each with a cart of its own. No other buyer wants them.
async fn buy(
    port: &Port,
    theatre: &Theatre,
    row: u16,
    mut dice: Dice,
    stop: &AtomicBool,
) -> (Vec<CartRecord>, Vec<Waited>) {
    let (mut carts, mut waited) = (Vec::new(), Vec::new());
    for seat in (0..SEATS).step_by(2) {
        for session in &theatre.sessions {
            if stop.load(Relaxed) {
                return (carts, waited);
            }
            let mut cart = CartRecord::new(dice.token());
            let body = json!({"token": cart.token, "session": session, "seats": [[row, seat], [row, seat + 1]]});
            waited.push(ask(port, &mut cart, "cart.hold_seats", body).await);
            let body = checkout(&cart.token);
            waited.push(ask(port, &mut cart, "cart.checkout", body).await);
            carts.push(cart);
            sleep(THOUGHT).await;
        }
    }
    panic!("row {row} is sold out: more seats are needed");
}

/// Asks, and is answered: a leader that dies is no reason to say anything else.
async fn ask(port: &Port, cart: &mut CartRecord, op: &'static str, body: Value) -> Waited {
    let (asked, called) = (Asked::new(op, format!("{op}-{}", &cart.token[..12]), body), Instant::now());
    let answer = port.ask_within(op, &asked.rid, asked.body.clone(), PATIENCE).await;
    assert!(matches!(answer, Answer::Ok(..)), "{op}: {answer:?}");
    cart.note(asked, &answer);
    (op, called, Instant::now())
}

/// Says how long they waited: all of them, and those whom the death struck, by what they asked for.
fn report(waited: &[Waited], killed: Instant, led: Instant) {
    println!("{} requests; every shard was led again {:?} after the death", waited.len(), led - killed);
    let mut struck: BTreeMap<&str, Vec<u128>> = BTreeMap::new();
    for (op, called, answered) in waited.iter().filter(|(_, called, answered)| *called < led && *answered > killed) {
        let late = answered.saturating_duration_since(led.max(*called));
        struck.entry(op).or_default().push(late.as_millis());
    }
    for (op, mut late) in struck {
        late.sort_unstable();
        println!("{op}: {} were under way; they were answered this many ms after that: {late:?}", late.len());
    }
    let ms = |at: &Instant| at.saturating_duration_since(killed).as_millis();
    for (op, called, answered) in
        waited.iter().filter(|(_, called, answered)| *answered - *called > LONG && *answered > led)
    {
        println!("{op}: asked {} ms after the death, answered {} ms after it", ms(called), ms(answered));
    }
    let longest =
        waited.iter().filter(|(_, called, _)| *called >= led).map(|(_, called, answered)| *answered - *called);
    println!("of those that were asked later the longest took {:?}", longest.max().unwrap_or_default());
}

//! How long a buyer waits when the leader of its request dies while its own node lives.

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
    common::{Answer, Asked, CartRecord, Port, Rng, TIMEOUT, Theatre, checkout, eventually},
};

/// Concurrent buyers. Each has a row of every session.
const BUYERS: u16 = 12;

/// More than can be sold in the time, even on a fast machine.
const SESSIONS: usize = 40;

/// Seats of a row. A cart takes two.
const SEATS: u16 = 60;

/// How long buyers buy before the kill, and after another node leads.
const LOAD_TIME: Duration = Duration::from_millis(1_500);

/// The pause of a buyer between two carts.
const THINK_TIME: Duration = Duration::from_millis(10);

/// Longer waits are printed one by one.
const LONG: Duration = Duration::from_millis(600);

/// One request: its op, when it was sent, when it was answered.
type Waited = (&'static str, Instant, Instant);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_at_live_nodes_survive_the_death_of_a_leader() {
    let mut stage = Stage::new(Rng::of_test("requests_at_live_nodes_survive_the_death_of_a_leader"), THREE).await;
    let theatre = stage.play(SESSIONS, (BUYERS, SEATS), None).await;
    let victim = stage.cluster.a_leader().await;
    let living: Vec<u64> = stage.cluster.running().into_iter().filter(|id| *id != victim).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let mut buyers = JoinSet::new();
    for row in 0..BUYERS {
        let port = stage.cluster.port(living[usize::from(row) % living.len()]).await;
        let (theatre, rng, stop) = (theatre.clone(), stage.rng.fork(row.into()), Arc::clone(&stop));
        buyers.spawn(async move { buy(&port, &theatre, row, rng, &stop).await });
    }
    sleep(LOAD_TIME).await;
    let killed = Instant::now();
    stage.cluster.kill(victim);
    eventually("the others lead", async || (stage.cluster.leaders().await.len() == 1 + SHARDS).then_some(())).await;
    let led = Instant::now();
    sleep(LOAD_TIME).await;
    stop.store(true, Relaxed);
    let mut waited = Vec::new();
    while let Some(buyer) = buyers.join_next().await {
        let (carts, waits) = buyer.expect("a buyer");
        stage.record.carts.extend(carts);
        waited.extend(waits);
    }
    report(&waited, killed, led);
    stage.cluster.start_node(victim).await;
    stage.cluster.converged().await;
    for id in stage.cluster.running() {
        stage.record.check_maps(&stage.cluster.port(id).await, &theatre).await;
    }
    stage.check_everything().await;
}

/// Buys two seats of one row after the other, each pair in its own cart. No other buyer wants them.
async fn buy(
    port: &Port,
    theatre: &Theatre,
    row: u16,
    mut rng: Rng,
    stop: &AtomicBool,
) -> (Vec<CartRecord>, Vec<Waited>) {
    let (mut carts, mut waited) = (Vec::new(), Vec::new());
    for seat in (0..SEATS).step_by(2) {
        for session in &theatre.sessions {
            if stop.load(Relaxed) {
                return (carts, waited);
            }
            let mut cart = CartRecord::new(rng.token());
            let body = json!({"token": cart.token, "session": session, "seats": [[row, seat], [row, seat + 1]]});
            waited.push(ask(port, &mut cart, "cart.hold_seats", body).await);
            let body = checkout(&cart.token);
            waited.push(ask(port, &mut cart, "cart.checkout", body).await);
            carts.push(cart);
            sleep(THINK_TIME).await;
        }
    }
    panic!("row {row} is sold out: more seats are needed");
}

/// Sends a request, which must be granted even while a leader dies.
async fn ask(port: &Port, cart: &mut CartRecord, op: &'static str, body: Value) -> Waited {
    let (asked, called) = (Asked::new(op, format!("{op}-{}", &cart.token[..12]), body), Instant::now());
    let answer = port.ask_within(op, &asked.rid, asked.body.clone(), TIMEOUT).await;
    assert!(matches!(answer, Answer::Ok(..)), "{op}: {answer:?}");
    cart.note(asked, &answer);
    (op, called, Instant::now())
}

/// Prints the waits: of all requests, and of those under way at the kill, by op.
fn report(waited: &[Waited], killed: Instant, led: Instant) {
    println!("{} requests; every shard had a leader again {:?} after the kill", waited.len(), led - killed);
    let mut struck: BTreeMap<&str, Vec<u128>> = BTreeMap::new();
    for (op, called, answered) in waited.iter().filter(|(_, called, answered)| *called < led && *answered > killed) {
        let late = answered.saturating_duration_since(led.max(*called));
        struck.entry(op).or_default().push(late.as_millis());
    }
    for (op, mut late) in struck {
        late.sort_unstable();
        println!("{op}: {} were under way at the kill; answered this many ms after it: {late:?}", late.len());
    }
    let ms = |at: &Instant| at.saturating_duration_since(killed).as_millis();
    for (op, called, answered) in
        waited.iter().filter(|(_, called, answered)| *answered - *called > LONG && *answered > led)
    {
        println!("{op}: asked {} ms after the kill, answered {} ms after it", ms(called), ms(answered));
    }
    let longest =
        waited.iter().filter(|(_, called, _)| *called >= led).map(|(_, called, answered)| *answered - *called);
    println!("the longest later request took {:?}", longest.max().unwrap_or_default());
}

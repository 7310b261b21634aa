//! A legitimate buyer: opens a cart, holds a seat and buys it, again and again, and repeats requests without an answer.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use super::wire;
use crate::common::{Answer, Encoding, Port, Rng, TIMEOUT, Theatre, checkout};

/// The buyer's address, which no attacker uses.
pub(crate) const BUYER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Pause between two purchases.
const PAUSE: Duration = Duration::from_millis(5);

/// Pause before a repeat.
const REPEAT_PAUSE: Duration = Duration::from_millis(50);

/// Time limit of one step of a purchase, with all repeats.
const STEP: Duration = TIMEOUT;

/// Results of the purchases so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bought {
    /// The begin and the duration of each purchase.
    pub(crate) purchases: Vec<(Instant, Duration)>,
    /// Repeats by the code of the failure. 0 = no connection.
    pub(crate) repeats: BTreeMap<u64, usize>,
    /// Failed purchases, and why.
    pub(crate) failed: Vec<String>,
}

/// A running buyer.
pub(crate) struct Buyer {
    bought: Arc<Mutex<Bought>>,
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

struct BuyerTask {
    address: SocketAddr,
    theatre: Theatre,
    rng: Rng,
    bought: Arc<Mutex<Bought>>,
    port: Option<Port>,
    /// Purchases per connection.
    each: usize,
}

impl Buyer {
    /// Starts, and reconnects after `each` purchases.
    pub(crate) fn start(address: SocketAddr, theatre: &Theatre, rng: Rng, each: usize) -> Buyer {
        let (bought, stop) = (Arc::<Mutex<Bought>>::default(), Arc::new(AtomicBool::new(false)));
        let task = BuyerTask { address, theatre: theatre.clone(), rng, bought: Arc::clone(&bought), port: None, each };
        let task = tokio::spawn(task.run(Arc::clone(&stop)));
        Buyer { bought, stop, task }
    }

    /// The results so far.
    pub(crate) fn bought(&self) -> Bought {
        self.bought.lock().expect("no panic").clone()
    }

    /// Finishes the current purchase. Returns the results.
    pub(crate) async fn stop(self) -> Bought {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.expect("a buyer");
        self.bought.lock().expect("no panic").clone()
    }
}

impl BuyerTask {
    async fn run(mut self, stop: Arc<AtomicBool>) {
        let all = self.theatre.sessions.len() * usize::from(self.theatre.rows) * usize::from(self.theatre.seats);
        for number in 0..all {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            if number % self.each == 0 {
                self.port = None;
            }
            let begun = Instant::now();
            let outcome = self.purchase(number).await;
            {
                let mut bought = self.bought.lock().expect("no panic");
                match outcome {
                    Ok(()) => bought.purchases.push((begun, begun.elapsed())),
                    Err(why) => bought.failed.push(why),
                }
            }
            sleep(PAUSE).await;
        }
        self.bought.lock().expect("no panic").failed.push("every seat is sold: the hall is too small".into());
    }

    async fn purchase(&mut self, number: usize) -> Result<(), String> {
        let (rows, seats) = (usize::from(self.theatre.rows), usize::from(self.theatre.seats));
        let session = self.theatre.sessions[number / (rows * seats)].clone();
        let seat = json!([number % (rows * seats) / seats, number % seats]);
        let token = self.rng.token();
        self.step(&token, "cart.open", json!({"token": token})).await?;
        self.step(&token, "cart.hold_seats", json!({"token": token, "session": session, "seats": [seat]})).await?;
        let order = self.step(&token, "cart.checkout", checkout(&token)).await?;
        match order["total"]["amount"].as_i64() {
            Some(total) if total == self.theatre.price => Ok(()),
            _ => Err(format!("another price: {order}")),
        }
    }

    /// Repeats a request until its answer is final.
    async fn step(&mut self, token: &str, op: &str, body: Value) -> Result<Value, String> {
        let rid = format!("{op}-{}", &token[..16]);
        let begun = Instant::now();
        loop {
            let code = match self.connected().await {
                Ok(port) => match port.ask(op, &rid, body.clone()).await {
                    Answer::Ok(body, _) => return Ok(body),
                    Answer::No(no) => return Err(format!("{op}: {}", no.body)),
                    Answer::Fail(code) => code,
                    Answer::Gone => 0,
                },
                Err(_) => 0,
            };
            if code == 0 {
                self.port = None;
            }
            *self.bought.lock().expect("no panic").repeats.entry(code).or_default() += 1;
            if begun.elapsed() > STEP {
                return Err(format!("{op}: no answer in {STEP:?}, the last failure is {code}"));
            }
            sleep(REPEAT_PAUSE).await;
        }
    }

    async fn connected(&mut self) -> Result<&Port, String> {
        if self.port.as_ref().is_none_or(Port::is_closed) {
            self.port = Some(wire::port(BUYER, self.address, Encoding::MsgPack, None).await?);
        }
        Ok(self.port.as_ref().expect("just connected"))
    }
}

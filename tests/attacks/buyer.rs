//! A good buyer: opens a cart, holds a seat, buys it, again and again, and repeats what was not answered.

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
use crate::common::{Answer, Dice, Encoding, PATIENCE, Port, Theatre, checkout};

/// Where the buyer comes from: not where attackers do.
pub(crate) const BUYER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Between two purchases.
const REST: Duration = Duration::from_millis(5);

/// Before something is repeated.
const AGAIN: Duration = Duration::from_millis(50);

/// How long one step of a purchase may take with all its repeats.
const STEP: Duration = PATIENCE;

/// What became of the purchases so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bought {
    /// When each purchase began, and how long it took.
    pub(crate) purchases: Vec<(Instant, Duration)>,
    /// What was repeated, by the code of the failure; 0 = the connection was gone or was not had.
    pub(crate) repeats: BTreeMap<u64, usize>,
    /// What could not be bought, and why.
    pub(crate) failed: Vec<String>,
}

/// The buyer at work.
pub(crate) struct Buyer {
    bought: Arc<Mutex<Bought>>,
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

struct Purse {
    address: SocketAddr,
    theatre: Theatre,
    dice: Dice,
    bought: Arc<Mutex<Bought>>,
    port: Option<Port>,
    /// Purchases over one connection.
    each: usize,
}

impl Buyer {
    /// Starts, with a new connection after this many purchases.
    pub(crate) fn start(address: SocketAddr, theatre: &Theatre, dice: Dice, each: usize) -> Buyer {
        let (bought, stop) = (Arc::<Mutex<Bought>>::default(), Arc::new(AtomicBool::new(false)));
        let purse = Purse { address, theatre: theatre.clone(), dice, bought: Arc::clone(&bought), port: None, each };
        let task = tokio::spawn(purse.go_on(Arc::clone(&stop)));
        Buyer { bought, stop, task }
    }

    /// What was bought so far.
    pub(crate) fn bought(&self) -> Bought {
        self.bought.lock().expect("no panic").clone()
    }

    /// Ends the purchase that is under way, and says what was bought.
    pub(crate) async fn stop(self) -> Bought {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.expect("a buyer");
        self.bought.lock().expect("no panic").clone()
    }
}

impl Purse {
    async fn go_on(mut self, stop: Arc<AtomicBool>) {
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
            sleep(REST).await;
        }
        self.bought.lock().expect("no panic").failed.push("every seat is sold: the stage is too small".into());
    }

    async fn purchase(&mut self, number: usize) -> Result<(), String> {
        let (rows, seats) = (usize::from(self.theatre.rows), usize::from(self.theatre.seats));
        let session = self.theatre.sessions[number / (rows * seats)].clone();
        let seat = json!([number % (rows * seats) / seats, number % seats]);
        let token = self.dice.token();
        self.step(&token, "cart.open", json!({"token": token})).await?;
        self.step(&token, "cart.hold_seats", json!({"token": token, "session": session, "seats": [seat]})).await?;
        let order = self.step(&token, "cart.checkout", checkout(&token)).await?;
        match order["total"]["amount"].as_i64() {
            Some(total) if total == self.theatre.price => Ok(()),
            _ => Err(format!("another price: {order}")),
        }
    }

    /// Asks until there is an answer that is final.
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
            sleep(AGAIN).await;
        }
    }

    async fn connected(&mut self) -> Result<&Port, String> {
        if self.port.as_ref().is_none_or(Port::is_closed) {
            self.port = Some(wire::port(BUYER, self.address, Encoding::MsgPack, None).await?);
        }
        Ok(self.port.as_ref().expect("just connected"))
    }
}

//! Concurrent buyers, each with a seed. They hold, release, cancel, abandon and buy carts, and record every answer.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    Rng, TIMEOUT, eventually,
    paying::{fails_permanently, source},
    port::{Answer, Encoding, Port},
    record::{Asked, CartRecord, CartStatus, Record},
    server::Server,
    theatre::{Theatre, written},
};

/// The length of a long address.
const ADDRESS_BYTES: usize = 1_000;

/// Buyers that share one connection.
const BUYERS_A_CONNECTION: usize = 8;

/// The connection of a buyer.
pub(crate) trait BuyerConnection: Send + Sync {
    /// Sends a request, and waits for the answer for at most `limit`.
    fn ask<'a>(
        &'a self,
        op: &'a str,
        rid: &'a str,
        body: Value,
        limit: Duration,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

    /// Whether this connection will never answer again.
    fn is_closed(&self) -> bool;

    /// The pause after a cart.
    fn pause(&self) -> Duration;
}

impl BuyerConnection for Port {
    fn ask<'a>(
        &'a self,
        op: &'a str,
        rid: &'a str,
        body: Value,
        limit: Duration,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        Box::pin(self.ask_within(op, rid, written(self.encoding(), &body), limit))
    }

    fn is_closed(&self) -> bool {
        Port::is_closed(self)
    }

    fn pause(&self) -> Duration {
        Duration::ZERO
    }
}

/// A running load of buyers.
pub(crate) struct Buyers {
    record: Arc<Mutex<Record>>,
    stop: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

impl Buyers {
    /// Starts this many buyers in both encodings. They run until they are stopped or the connection breaks.
    pub(crate) async fn start(
        server: &Server,
        theatre: &Theatre,
        record: Record,
        count: usize,
        rng: &mut Rng,
    ) -> Buyers {
        let mut connections: Vec<Arc<dyn BuyerConnection>> = Vec::new();
        for number in 0..count {
            connections.push(match number % BUYERS_A_CONNECTION {
                0 => Arc::new(server.port(Encoding::BOTH[number / BUYERS_A_CONNECTION % 2]).await),
                _ => Arc::clone(connections.last().expect("connected")),
            });
        }
        Buyers::start_at(connections, theatre, record, rng)
    }

    /// Starts a buyer on each of these connections.
    pub(crate) fn start_at(
        connections: Vec<Arc<dyn BuyerConnection>>,
        theatre: &Theatre,
        record: Record,
        rng: &mut Rng,
    ) -> Buyers {
        let record = Arc::new(Mutex::new(record));
        let stop = Arc::new(AtomicBool::new(false));
        let theatre = Arc::new(theatre.clone());
        let mut tasks = JoinSet::new();
        let round = Rng::new(rng.next());
        for (number, connection) in (0..).zip(connections) {
            let buyer = Buyer {
                connection,
                theatre: Arc::clone(&theatre),
                rng: round.fork(number),
                record: Arc::clone(&record),
                requests: 0,
            };
            let stop = Arc::clone(&stop);
            tasks.spawn(buyer.run(stop));
        }
        Buyers { record, stop, tasks }
    }

    /// Waits until there are this many more orders than now.
    pub(crate) async fn orders(&mut self, more: usize) {
        let wanted = self.count() + more;
        eventually(&format!("{wanted} orders"), async || {
            self.check();
            (self.count() >= wanted).then_some(())
        })
        .await;
    }

    /// # Panics
    /// If a buyer saw an invariant violated.
    pub(crate) fn check(&mut self) {
        while let Some(ended) = self.tasks.try_join_next() {
            ended.expect("a buyer");
        }
    }

    /// Waits until requests were refused or failed with this code this many times.
    pub(crate) async fn refused(&self, code: u64, times: u64) {
        eventually(&format!("code {code}, {times} times"), async || {
            let record = self.record.lock().expect("no panic");
            (record.refused.get(&code).copied().unwrap_or_default() >= times).then_some(())
        })
        .await;
    }

    /// Refusals and failures by code.
    pub(crate) fn refused_so_far(&self) -> std::collections::BTreeMap<u64, u64> {
        self.record.lock().expect("no panic").refused.clone()
    }

    /// The number of orders so far.
    pub(crate) fn count(&self) -> usize {
        self.record.lock().expect("no panic").orders()
    }

    /// Lets every buyer finish its current cart. Returns their record.
    pub(crate) async fn stop(mut self) -> Record {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a buyer");
        }
        std::mem::take(&mut *self.record.lock().expect("no panic"))
    }
}

struct Buyer {
    connection: Arc<dyn BuyerConnection>,
    theatre: Arc<Theatre>,
    rng: Rng,
    record: Arc<Mutex<Record>>,
    requests: u32,
}

impl Buyer {
    async fn run(mut self, stop: Arc<AtomicBool>) {
        while !stop.load(Ordering::Relaxed) && !self.connection.is_closed() {
            let cart = self.one_cart().await;
            self.record.lock().expect("no panic").carts.push(cart);
            tokio::time::sleep(self.connection.pause()).await;
        }
    }

    /// One cart, from its token to its end or to an unknown outcome.
    async fn one_cart(&mut self) -> CartRecord {
        let mut cart = CartRecord::new(self.rng.token());
        let customer = self.theatre.goods.as_ref().and_then(|goods| goods.customer(&mut self.rng));
        if let Some(customer) = customer {
            let body = json!({"token": cart.token, "customer": customer});
            self.ask(&mut cart, "cart.open", body).await;
        }
        for _ in 0..=self.rng.below(2) {
            let (op, body) = self.next_hold(&cart);
            self.ask(&mut cart, op, body).await;
        }
        if !cart.lines.is_empty() && self.rng.percent(20) {
            let body = self.next_release(&cart);
            self.ask(&mut cart, "cart.release", body).await;
        }
        if self.rng.percent(8) {
            // Some buyers abandon their cart.
            return cart;
        }
        if self.rng.percent(8) && cart.id.is_some() {
            let body = json!({"token": cart.token});
            self.ask(&mut cart, "cart.cancel", body).await;
        }
        // A declined card may leave the cart unchanged. Then another card pays.
        for _ in 0..2 {
            if cart.status == CartStatus::Active && !cart.lines.is_empty() {
                let payment = self.payment(&mut cart);
                let mut body = json!({"token": cart.token, "payment": payment});
                if self.rng.percent(30) {
                    body["shipping"] = json!({"address": self.address()});
                }
                self.ask(&mut cart, "cart.checkout", body).await;
            }
        }
        if let Some((order, _)) = cart.order.clone()
            && self.theatre.goods.is_some()
            && !cart.sources.iter().any(|source| fails_permanently(source))
            && self.rng.percent(15)
        {
            let mut body = json!({"order": order, "reason": "ill"});
            if self.rng.percent(50) {
                body["lines"] = json!([cart.lines.keys().next()]);
            }
            self.ask(&mut cart, "order.refund", body).await;
        }
        cart
    }

    /// Draws how to pay: elsewhere, or through the gateway if there is one.
    fn payment(&mut self, cart: &mut CartRecord) -> Value {
        let goods = self.theatre.goods.as_ref();
        if !goods.is_some_and(|goods| goods.through_gateway) || self.rng.percent(65) {
            return json!({"recorded": {"method": "card", "transaction_id": cart.token[..8]}});
        }
        let source = source(&mut self.rng);
        cart.sources.push(source.to_owned());
        let on_decline = if self.rng.percent(50) { "keep" } else { "release" };
        json!({"gateway": {"source": source, "on_decline": on_decline}})
    }

    /// An address that fills more than a sector of a disk, of letters that do not repeat.
    fn address(&mut self) -> String {
        (0..ADDRESS_BYTES).map(|_| char::from(b'a' + self.rng.below(26) as u8)).collect()
    }

    /// Draws the next hold: named seats, the best seats, or seats of two sessions. With other goods on sale also these, or
    /// several things in one request.
    fn next_hold(&mut self, cart: &CartRecord) -> (&'static str, Value) {
        let theatre = Arc::clone(&self.theatre);
        if let Some(goods) = theatre.goods.as_ref().filter(|_| self.rng.percent(65)) {
            let seats = json!({"session": self.session(), "seats": self.seats()});
            let (op, mut body) = goods.next_hold(&mut self.rng, cart, seats);
            body["token"] = cart.token.as_str().into();
            return (op, body);
        }
        let session = self.session();
        match self.rng.below(10) {
            0..6 => {
                let seats = self.seats();
                ("cart.hold_seats", json!({"token": cart.token, "session": session, "seats": seats}))
            }
            6..9 => {
                let count = 1 + self.rng.below(4);
                ("cart.hold_best", json!({"token": cart.token, "session": session, "count": count}))
            }
            _ => {
                let mut other = self.session();
                while other == session {
                    other = self.session();
                }
                let lines = json!([
                    {"session": session, "seats": self.seats()},
                    {"session": other, "seats": self.seats()},
                ]);
                ("cart.hold_all", json!({"token": cart.token, "lines": lines}))
            }
        }
    }

    fn session(&mut self) -> String {
        self.theatre.sessions[self.rng.below(self.theatre.sessions.len())].clone()
    }

    /// One to four adjacent seats.
    fn seats(&mut self) -> Vec<(u16, u16)> {
        let (row, count) = (self.rng.below(self.theatre.rows.into()) as u16, 1 + self.rng.below(4) as u16);
        let first = self.rng.below(usize::from(self.theatre.seats - count) + 1) as u16;
        (first..first + count).map(|seat| (row, seat)).collect()
    }

    /// A line, or one seat of it.
    fn next_release(&mut self, cart: &CartRecord) -> Value {
        let lines: Vec<_> = cart.lines.iter().collect();
        let (number, line) = lines[self.rng.below(lines.len())];
        let mut body = json!({"token": cart.token, "line": number});
        let seats: Vec<_> = line.seats().collect();
        if self.rng.percent(50) && !seats.is_empty() {
            body["seats"] = json!([seats[self.rng.below(seats.len())]]);
        }
        body
    }

    /// Sends a request and records its answer, unless an earlier outcome is unknown.
    async fn ask(&mut self, cart: &mut CartRecord, op: &'static str, body: Value) {
        if cart.unknown.is_some() {
            return;
        }
        self.requests += 1;
        let rid = format!("{}-{}", &cart.token[..12], self.requests);
        let asked = Asked::new(op, rid, body);
        let answer = self.connection.ask(op, &asked.rid, asked.body.clone(), TIMEOUT / 3).await;
        {
            let mut record = self.record.lock().expect("no panic");
            record.note(&asked, &answer);
            record.granted.extend(matches!(answer, Answer::Ok(..)).then(Instant::now));
        }
        cart.note(asked, &answer);
        if matches!(answer, Answer::Fail(_)) {
            // A fault that caused this lasts for a while.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

//! Buyers: many at once, each with a seed, who hold, give back, give up, forget and buy, and remember what they were told.

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
    Dice, PATIENCE, eventually,
    paying::{fails_for_good, source},
    port::{Answer, Encoding, Port},
    record::{Asked, CartRecord, Record, Stands},
    server::Server,
    theatre::{Theatre, written},
};

/// Buyers that share one connection.
const BUYERS_A_CONNECTION: usize = 8;

/// Where buyers ask.
pub(crate) trait Till: Send + Sync {
    /// Asks, and waits for the answer for so long.
    fn ask<'a>(
        &'a self,
        op: &'a str,
        rid: &'a str,
        body: Value,
        patience: Duration,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

    /// Whether this connection will never answer again.
    fn is_closed(&self) -> bool;

    /// The pause after a cart.
    fn pause(&self) -> Duration;
}

impl Till for Port {
    fn ask<'a>(
        &'a self,
        op: &'a str,
        rid: &'a str,
        body: Value,
        patience: Duration,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        Box::pin(self.ask_within(op, rid, written(self.encoding(), &body), patience))
    }

    fn is_closed(&self) -> bool {
        Port::is_closed(self)
    }

    fn pause(&self) -> Duration {
        Duration::ZERO
    }
}

/// A load under way.
pub(crate) struct Buyers {
    record: Arc<Mutex<Record>>,
    stop: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

impl Buyers {
    /// Starts this many buyers in both encodings. They go on until they are stopped or the connection breaks.
    pub(crate) async fn start(
        server: &Server,
        theatre: &Theatre,
        record: Record,
        count: usize,
        dice: &mut Dice,
    ) -> Buyers {
        let mut tills: Vec<Arc<dyn Till>> = Vec::new();
        for number in 0..count {
            tills.push(match number % BUYERS_A_CONNECTION {
                0 => Arc::new(server.port(Encoding::BOTH[number / BUYERS_A_CONNECTION % 2]).await),
                _ => Arc::clone(tills.last().expect("connected")),
            });
        }
        Buyers::start_at(tills, theatre, record, dice)
    }

    /// Starts a buyer at each of these.
    pub(crate) fn start_at(tills: Vec<Arc<dyn Till>>, theatre: &Theatre, record: Record, dice: &mut Dice) -> Buyers {
        let record = Arc::new(Mutex::new(record));
        let stop = Arc::new(AtomicBool::new(false));
        let theatre = Arc::new(theatre.clone());
        let mut tasks = JoinSet::new();
        let round = Dice::new(dice.next());
        for (number, till) in (0..).zip(tills) {
            let buyer = Buyer {
                till,
                theatre: Arc::clone(&theatre),
                dice: round.fork(number),
                record: Arc::clone(&record),
                requests: 0,
            };
            let stop = Arc::clone(&stop);
            tasks.spawn(buyer.go_on(stop));
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
    /// If a buyer saw what must not be.
    pub(crate) fn check(&mut self) {
        while let Some(ended) = self.tasks.try_join_next() {
            ended.expect("a buyer");
        }
    }

    /// Waits until something was refused or failed with this code so often.
    pub(crate) async fn refused(&self, code: u64, times: u64) {
        eventually(&format!("{code} for {times} times"), async || {
            let record = self.record.lock().expect("no panic");
            (record.refused.get(&code).copied().unwrap_or_default() >= times).then_some(())
        })
        .await;
    }

    /// Refusals and failures by code.
    pub(crate) fn refused_so_far(&self) -> std::collections::BTreeMap<u64, u64> {
        self.record.lock().expect("no panic").refused.clone()
    }

    /// How many orders there are by now.
    pub(crate) fn count(&self) -> usize {
        self.record.lock().expect("no panic").orders()
    }

    /// Lets every buyer end what it is at, and hands over what they remember.
    pub(crate) async fn stop(mut self) -> Record {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a buyer");
        }
        std::mem::take(&mut *self.record.lock().expect("no panic"))
    }
}

struct Buyer {
    till: Arc<dyn Till>,
    theatre: Arc<Theatre>,
    dice: Dice,
    record: Arc<Mutex<Record>>,
    requests: u32,
}

impl Buyer {
    async fn go_on(mut self, stop: Arc<AtomicBool>) {
        while !stop.load(Ordering::Relaxed) && !self.till.is_closed() {
            let cart = self.one_cart().await;
            self.record.lock().expect("no panic").carts.push(cart);
            tokio::time::sleep(self.till.pause()).await;
        }
    }

    /// One cart, from its token to its end or to an unknown outcome.
    async fn one_cart(&mut self) -> CartRecord {
        let mut cart = CartRecord::new(self.dice.token());
        let customer = self.theatre.goods.as_ref().and_then(|goods| goods.customer(&mut self.dice));
        if let Some(customer) = customer {
            let body = json!({"token": cart.token, "customer": customer});
            self.ask(&mut cart, "cart.open", body).await;
        }
        for _ in 0..=self.dice.below(2) {
            let (op, body) = self.wish(&cart);
            self.ask(&mut cart, op, body).await;
        }
        if !cart.lines.is_empty() && self.dice.percent(20) {
            let body = self.give_back(&cart);
            self.ask(&mut cart, "cart.release", body).await;
        }
        if self.dice.percent(8) {
            // Some never come back.
            return cart;
        }
        if self.dice.percent(8) && cart.id.is_some() {
            let body = json!({"token": cart.token});
            self.ask(&mut cart, "cart.cancel", body).await;
        }
        // A card that is declined may leave the cart as it is; then it is another one's turn.
        for _ in 0..2 {
            if cart.stands == Stands::Active && !cart.lines.is_empty() {
                let payment = self.payment(&mut cart);
                let body = json!({"token": cart.token, "payment": payment});
                self.ask(&mut cart, "cart.checkout", body).await;
            }
        }
        if let Some((order, _)) = cart.order.clone()
            && self.theatre.goods.is_some()
            && !cart.sources.iter().any(|source| fails_for_good(source))
            && self.dice.percent(15)
        {
            let mut body = json!({"order": order, "reason": "ill"});
            if self.dice.percent(50) {
                body["lines"] = json!([cart.lines.keys().next()]);
            }
            self.ask(&mut cart, "order.refund", body).await;
        }
        cart
    }

    /// How the cart is paid: elsewhere, or through the gateway where there is one.
    fn payment(&mut self, cart: &mut CartRecord) -> Value {
        let goods = self.theatre.goods.as_ref();
        if !goods.is_some_and(|goods| goods.through_gateway) || self.dice.percent(65) {
            return json!({"recorded": {"method": "card", "transaction_id": cart.token[..8]}});
        }
        let source = source(&mut self.dice);
        cart.sources.push(source.to_owned());
        let on_decline = if self.dice.percent(50) { "keep" } else { "release" };
        json!({"gateway": {"source": source, "on_decline": on_decline}})
    }

    /// What to hold: named seats, the best there are, or seats of two sessions; or, where more is sold, something else, or
    /// several things at once.
    fn wish(&mut self, cart: &CartRecord) -> (&'static str, Value) {
        let theatre = Arc::clone(&self.theatre);
        if let Some(goods) = theatre.goods.as_ref().filter(|_| self.dice.percent(65)) {
            let seats = json!({"session": self.session(), "seats": self.seats()});
            let (op, mut body) = goods.wish(&mut self.dice, cart, seats);
            body["token"] = cart.token.as_str().into();
            return (op, body);
        }
        let session = self.session();
        match self.dice.below(10) {
            0..6 => {
                let seats = self.seats();
                ("cart.hold_seats", json!({"token": cart.token, "session": session, "seats": seats}))
            }
            6..9 => {
                let count = 1 + self.dice.below(4);
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
        self.theatre.sessions[self.dice.below(self.theatre.sessions.len())].clone()
    }

    /// One to four neighbours.
    fn seats(&mut self) -> Vec<(u16, u16)> {
        let (row, count) = (self.dice.below(self.theatre.rows.into()) as u16, 1 + self.dice.below(4) as u16);
        let first = self.dice.below(usize::from(self.theatre.seats - count) + 1) as u16;
        (first..first + count).map(|seat| (row, seat)).collect()
    }

    /// A line, or one seat of it.
    fn give_back(&mut self, cart: &CartRecord) -> Value {
        let lines: Vec<_> = cart.lines.iter().collect();
        let (number, line) = lines[self.dice.below(lines.len())];
        let mut body = json!({"token": cart.token, "line": number});
        let seats: Vec<_> = line.seats().collect();
        if self.dice.percent(50) && !seats.is_empty() {
            body["seats"] = json!([seats[self.dice.below(seats.len())]]);
        }
        body
    }

    /// Asks, unless something is unknown already, and takes the answer down.
    async fn ask(&mut self, cart: &mut CartRecord, op: &'static str, body: Value) {
        if cart.unknown.is_some() {
            return;
        }
        self.requests += 1;
        let rid = format!("{}-{}", &cart.token[..12], self.requests);
        let asked = Asked::new(op, rid, body);
        let answer = self.till.ask(op, &asked.rid, asked.body.clone(), PATIENCE / 3).await;
        {
            let mut record = self.record.lock().expect("no panic");
            record.note(&asked, &answer);
            record.granted.extend(matches!(answer, Answer::Ok(..)).then(Instant::now));
        }
        cart.note(asked, &answer);
        if matches!(answer, Answer::Fail(_)) {
            // Whatever it suffers from will not be over at once.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

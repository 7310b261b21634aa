//! Guests whose holds live for seconds. Most of them never come back. This process's clock checks the deadlines in their
//! answers: no other buyer gets their seats before the deadline, and everything is free a grace after it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    cluster::{CONFIRM_MS, FailoverClient, Stage},
    common::{
        Answer, Asked, CartRecord, CartStatus, Line, Port, Record, Rng, SeatName, Theatre, fixture::product,
        has_counts, read_time,
    },
};

/// Concurrent guests.
const GUESTS: usize = 4;

/// The life of holds in milliseconds: of seats, and of units, which changes now and then.
const SEATS_MS: u64 = 2_500;
const UNITS_MS: [u64; 2] = [1_000, 3_500];

/// More than guests ever hold.
const STOCK: u64 = 1_000_000;

/// The timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// The allowed error of a deadline. Clocks agree within half a second, and stamps are taken at the beginning of a turn.
const TOLERANCE_MS: u64 = 1_000;

/// The time from a hold's deadline to the inventory's question to the cart.
const GRACE_MS: u64 = 2_000;

/// The additional time for repeated asks after all faults are healed.
const SLACK_MS: u64 = 8_000;

/// All guests of a round.
pub(crate) struct Guests {
    theatre: Theatre,
    product: String,
    answers: Arc<Mutex<Answers>>,
    stop: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

/// The answers that guests got.
#[derive(Default)]
struct Answers {
    record: Record,
    /// The carts that certainly had a seat, and when.
    had: BTreeMap<(String, SeatName), Vec<Had>>,
    /// Violations, unless clocks were set in this round.
    wrong: Vec<String>,
    deadlines: usize,
    /// The time of the last request.
    last: Option<Instant>,
}

/// From an answer to its deadline, or to the release. In true milliseconds.
#[derive(Debug)]
struct Had {
    cart: String,
    from_ms: u64,
    until_ms: u64,
}

impl Guests {
    /// Starts guests with new sessions and a new product.
    pub(crate) async fn begin(stage: &mut Stage, round: usize) -> Guests {
        let theatre = stage.play(2, (5, 8), Some(SEATS_MS)).await;
        let product = format!("sweets-{round}");
        let port = stage.cluster.port(stage.cluster.running()[0]).await;
        self::product(&port, &product, STOCK, json!({"hold_ttl_ms": UNITS_MS[0]})).await;
        let (answers, stop, mut tasks) = (Arc::default(), Arc::new(AtomicBool::new(false)), JoinSet::new());
        for number in 0..GUESTS {
            let guest = Guest {
                client: stage.cluster.failover_client(stage.rng.next()),
                theatre: theatre.clone(),
                product: product.clone(),
                rng: Rng::new(stage.rng.next()),
                answers: Arc::clone(&answers),
                requests: 0,
            };
            tasks.spawn(guest.run(Arc::clone(&stop), number == 0));
        }
        Guests { theatre, product, answers, stop, tasks }
    }

    /// Stops the guests.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Waits until every hold has ended, and checks the answers and the final state. Returns the carts.
    pub(crate) async fn end(mut self, stage: &Stage, clocks_were_set: bool) -> Record {
        self.stop();
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a guest");
        }
        let mut answers = std::mem::take(&mut *self.answers.lock().expect("no panic"));
        let life_ms = SEATS_MS.max(UNITS_MS[1]).max(CONFIRM_MS);
        let over = answers.last.map_or_else(Instant::now, |last| last + Duration::from_millis(life_ms + GRACE_MS));
        // All faults are healed. Only repeated asks take time.
        let latest = over.max(Instant::now()) + Duration::from_millis(SLACK_MS);
        let port = stage.cluster.port(stage.cluster.running()[0]).await;
        while let Some(held) = self.held(&port).await {
            assert!(Instant::now() < latest, "{held} is still held when every life and grace are over (P8)");
            sleep(Duration::from_millis(50)).await;
        }
        sleep_until(over).await;
        for cart in &mut answers.record.carts {
            settle(&port, cart).await;
        }
        // Only their orders are sold.
        answers.record.check_maps(&port, &self.theatre).await;
        let sold = answers.record.carts.iter().flat_map(CartRecord::has);
        let units: u64 = sold.filter_map(|(line, _)| line.quantity()).sum();
        let counts = json!([STOCK - units, 0, units]);
        has_counts(&port, "product.get", &self.product, &counts, |body| &body["counts"]).await;
        let overlaps: Vec<String> = answers.had.iter_mut().filter_map(overlap).collect();
        answers.wrong.extend(overlaps);
        println!(
            "{} carts of guests, {} orders, {} deadlines judged{}",
            answers.record.carts.len(),
            answers.record.orders(),
            answers.deadlines,
            if clocks_were_set { " by life only: clocks were set" } else { "" }
        );
        assert!(clocks_were_set || answers.wrong.is_empty(), "deadlines were not kept (P8): {:#?}", answers.wrong);
        answers.record
    }

    /// The holds that are left.
    async fn held(&self, port: &Port) -> Option<String> {
        for session in &self.theatre.sessions {
            let map = self.theatre.map(port, session).await;
            if map.held > 0 {
                return Some(format!("{session} {}", map.seats));
            }
        }
        let product = port.read("product.get", json!({"id": self.product})).await.ok();
        (product["counts"]["held"] != 0).then(|| product.to_string())
    }
}

/// Two carts that had the same seat at the same time.
fn overlap(((session, seat), had): (&(String, SeatName), &mut Vec<Had>)) -> Option<String> {
    had.sort_by_key(|had| had.from_ms);
    let both = had.windows(2).find(|pair| pair[0].until_ms > pair[1].from_ms && pair[0].cart != pair[1].cart)?;
    Some(format!("{seat:?} of {session} was another buyer's before its time: {both:?}"))
}

/// The end of an abandoned cart, as the nodes report it, if that is allowed.
async fn settle(port: &Port, cart: &mut CartRecord) {
    let unknown = cart.unknown.take();
    let body = match port.read("cart.get", json!({"token": cart.token})).await {
        Answer::Ok(body, _) => body,
        Answer::No(no) if no.code == 701 && cart.id.is_none() => return,
        other => panic!("{other:?}: {cart:?}"),
    };
    let state = body["state"].as_str().expect("a state");
    match unknown {
        None if cart.status == CartStatus::Active => {
            assert_eq!(state, "expired", "its time is over: {body} {cart:?}");
            cart.status = CartStatus::Expired;
        }
        None => {}
        // Released lines are gone. Check the others.
        Some(asked) => match state {
            "done" => {
                assert_eq!(asked.op, "cart.checkout", "not bought: {body} {cart:?}");
                let order = port.read("order.get", json!({"order": body["order"]})).await.ok();
                let versions = BTreeMap::new();
                cart.note(asked, &Answer::Ok(order, versions));
                // A repeat gets the first answer, not the current state.
                cart.granted = None;
            }
            "canceled" => {
                assert_eq!(asked.op, "cart.cancel", "not canceled: {body} {cart:?}");
                cart.note(asked, &Answer::Ok(body, BTreeMap::new()));
            }
            "expired" => {
                assert_ne!(cart.status, CartStatus::Done, "{body} {cart:?}");
                // The request may have happened before. The cart's own lines count.
                if asked.op.starts_with("cart.hold_") {
                    cart.id = Some(body["id"].as_str().expect("a cart").to_owned());
                    cart.lines = Line::read_all(&body["lines"]);
                }
                cart.status = CartStatus::Expired;
            }
            other => panic!("its time is over, and it is {other}: {body} {cart:?}"),
        },
    }
}

struct Guest {
    client: FailoverClient,
    theatre: Theatre,
    product: String,
    rng: Rng,
    answers: Arc<Mutex<Answers>>,
    requests: u32,
}

impl Guest {
    async fn run(mut self, stop: Arc<AtomicBool>, puts: bool) {
        while !stop.load(Relaxed) {
            if puts && self.rng.percent(15) {
                self.put().await;
            }
            let cart = self.one_cart().await;
            self.answers.lock().expect("no panic").record.carts.push(cart);
            self.pause(200).await;
        }
    }

    async fn pause(&mut self, most_ms: usize) {
        sleep(Duration::from_millis(self.rng.below(most_ms) as u64)).await;
    }

    /// Changes the life of new holds. The outcome does not matter.
    async fn put(&mut self) {
        let life_ms = UNITS_MS[self.rng.below(2)];
        let price = json!({"amount": 100 + self.rng.below(50), "currency": "EUR"});
        let body =
            json!({"id": self.product, "name": "Sweets", "price": price, "stock": STOCK, "hold_ttl_ms": life_ms});
        self.requests += 1;
        let rid = format!("put-{}-{}", self.product, self.requests);
        let answer = self.client.ask_within("product.put", &rid, body, REQUEST_TIMEOUT).await;
        assert!(!matches!(answer, Answer::No(_)), "{answer:?}");
    }

    async fn one_cart(&mut self) -> CartRecord {
        let mut cart = CartRecord::new(self.rng.token());
        let mut own = Own::default();
        self.hold(&mut cart, &mut own).await;
        if cart.lines.is_empty() {
            return cart;
        }
        if self.rng.percent(20) {
            self.pause(1_500).await;
            self.hold(&mut cart, &mut own).await;
        }
        match self.rng.below(10) {
            // Most carts are abandoned.
            0..6 => {}
            6..8 => {
                self.pause(800).await;
                // From now on any buyer may get it.
                own.end_ms = Some(now_ms());
                self.ask(&mut cart, &mut own, "cart.cancel", json!({})).await;
            }
            _ => {
                self.pause(2_800).await;
                let payment = json!({"recorded": {"method": "cash", "transaction_id": cart.token[..8]}});
                self.ask(&mut cart, &mut own, "cart.checkout", json!({"payment": payment})).await;
                if cart.order.is_some() {
                    own.end_ms = Some(u64::MAX);
                }
            }
        }
        // Any buyer may get released seats at once, and all others after the deadline. Bought seats stay.
        let over_ms = own.deadline_ms.saturating_sub(TOLERANCE_MS);
        let until_ms =
            own.end_ms.map_or(over_ms, |end_ms| if end_ms == u64::MAX { end_ms } else { end_ms.min(over_ms) });
        let mut answers = self.answers.lock().expect("no panic");
        for (session, seat, from_ms) in own.seats {
            answers.had.entry((session, seat)).or_default().push(Had { cart: cart.token.clone(), from_ms, until_ms });
        }
        cart
    }

    async fn hold(&mut self, cart: &mut CartRecord, own: &mut Own) {
        let (theatre, rng) = (self.theatre.clone(), &mut self.rng);
        let session = &theatre.sessions[rng.below(theatre.sessions.len())];
        let (row, count) = (rng.below(theatre.rows.into()) as u16, 1 + rng.below(2) as u16);
        let first = rng.below(usize::from(theatre.seats - count) + 1) as u16;
        let seats: Vec<SeatName> = (first..first + count).map(|seat| (row, seat)).collect();
        let (seats, units) =
            (json!({"session": session, "seats": seats}), json!({"product": self.product, "quantity": 2}));
        match rng.below(10) {
            0..6 => self.ask(cart, own, "cart.hold_seats", seats).await,
            6..8 => self.ask(cart, own, "cart.hold_stock", units).await,
            _ => self.ask(cart, own, "cart.hold_all", json!({"lines": [seats, units]})).await,
        }
    }

    async fn ask(&mut self, cart: &mut CartRecord, own: &mut Own, op: &'static str, mut body: Value) {
        if cart.unknown.is_some() {
            return;
        }
        body["token"] = cart.token.as_str().into();
        self.requests += 1;
        let rid = format!("{}-{}", &cart.token[..12], self.requests);
        let (asked, called_ms) = (Asked::new(op, rid, body), now_ms());
        let answer = self.client.ask_within(op, &asked.rid, asked.body.clone(), REQUEST_TIMEOUT).await;
        let answered_ms = now_ms();
        let mut answers = self.answers.lock().expect("no panic");
        answers.last = Some(Instant::now());
        answers.record.note(&asked, &answer);
        match &answer {
            Answer::Ok(held, _) if op.starts_with("cart.hold_") => {
                let deadline_ms = read_time(&held["deadline"]);
                // A cart lives as long as its shortest hold.
                let lines = Line::read_all(&held["lines"]);
                let of = |kind: &str| lines.values().chain(cart.lines.values()).any(|line| line.of.starts_with(kind));
                let units = of("product/").then_some(UNITS_MS);
                let (mut least, mut most) = units.map_or((u64::MAX, u64::MAX), |[short, long]| (short, long));
                if of("session/") {
                    (least, most) = (least.min(SEATS_MS), most.min(SEATS_MS));
                }
                let (from, to) = (called_ms + least - TOLERANCE_MS, answered_ms + most + TOLERANCE_MS);
                answers.deadlines += 1;
                if !(from..=to).contains(&deadline_ms) {
                    answers
                        .wrong
                        .push(format!("{op} from {called_ms} to {answered_ms} got deadline {deadline_ms}: {held}"));
                }
                own.deadline_ms = deadline_ms;
                for line in lines.values() {
                    let Some(session) = line.of.strip_prefix("session/") else { continue };
                    own.seats.extend(line.seats().map(|seat| (session.to_owned(), seat, answered_ms)));
                }
            }
            Answer::No(no) if matches!(no.code, 301 | 302) && answered_ms + TOLERANCE_MS < own.deadline_ms => {
                answers
                    .wrong
                    .push(format!("{op} was refused at {answered_ms}, before {}: {}", own.deadline_ms, no.body));
            }
            _ => {}
        }
        drop(answers);
        cart.note(asked, &answer);
    }
}

/// The certain content of a guest's cart.
#[derive(Default)]
struct Own {
    deadline_ms: u64,
    /// With the time of the answer.
    seats: Vec<(String, SeatName, u64)>,
    /// When it ended before its deadline. Never, if it was bought.
    end_ms: Option<u64>,
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_millis() as u64
}

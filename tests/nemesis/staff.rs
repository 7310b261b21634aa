//! The box office. It has sessions and a product of its own, so it knows their state at any time. It sells, takes lines out of
//! carts, keeps seats off sale, changes the product, and cancels sessions. Allowed requests must be granted, after any number of
//! repeats. Others must be refused with the right code. The final state must be as expected.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    cluster::{FailoverClient, Stage},
    common::{
        Answer, Asked, CartRecord, CartStatus, Line, Map, No, Record, Rng, SeatName, Theatre, fixture::product, paying,
    },
};

/// The timeout of one attempt. The next attempt has the same request id.
const TRY_TIMEOUT: Duration = Duration::from_secs(4);

/// The time for all that is left after the work. Faults are healed then.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// The stock at the beginning.
const STOCK: u64 = 60;

/// The box office of one round.
pub(crate) struct Staff {
    stop: Arc<AtomicBool>,
    work: JoinHandle<Record>,
}

impl Staff {
    /// Creates the sessions and the product.
    pub(crate) async fn begin(stage: &mut Stage, round: usize) -> Staff {
        let theatre = stage.play(3, (4, 8), None).await;
        let name = format!("posters-{round}");
        let port = stage.cluster.port(stage.cluster.running()[0]).await;
        product(&port, &name, STOCK, Value::Null).await;
        let stop = Arc::new(AtomicBool::new(false));
        let desk = BoxOffice {
            client: stage.cluster.failover_client(stage.rng.next()),
            rng: Rng::new(stage.rng.next()),
            open: theatre.sessions.iter().cloned().collect(),
            theatre,
            product: name,
            terms: (350, STOCK),
            off_sale: BTreeSet::new(),
            coming_back: BTreeSet::new(),
            record: Record::default(),
            requests: 0,
            stop: Arc::clone(&stop),
            latest: None,
            done: BTreeMap::new(),
        };
        Staff { stop, work: tokio::spawn(desk.work()) }
    }

    /// Begins no more work.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Waits for the expected state. Returns the record of sales.
    pub(crate) async fn end(self) -> Record {
        self.stop();
        self.work.await.expect("the box office")
    }
}

struct BoxOffice {
    client: FailoverClient,
    rng: Rng,
    theatre: Theatre,
    /// Sessions that are not canceled.
    open: BTreeSet<String>,
    product: String,
    /// The product's price and stock.
    terms: (i64, u64),
    off_sale: BTreeSet<(String, SeatName)>,
    /// Released seats that were not seen free yet.
    coming_back: BTreeSet<(String, SeatName)>,
    record: Record,
    requests: u32,
    stop: Arc<AtomicBool>,
    /// The deadline of the final check, once the work has stopped.
    latest: Option<Instant>,
    /// Counts of actions by name.
    done: BTreeMap<&'static str, u32>,
}

impl BoxOffice {
    async fn work(mut self) -> Record {
        while !self.stop.load(Relaxed) {
            match self.rng.below(100) {
                0..35 => self.hold().await,
                35..47 => self.block().await,
                47..55 => self.unblock().await,
                55..68 => self.take_away().await,
                68..80 => self.sell().await,
                80..84 => self.cancel_cart().await,
                84..89 => self.put().await,
                89..91 => self.cancel_session().await,
                91..95 => self.may_not().await,
                _ => _ = self.look().await,
            }
            sleep(Duration::from_millis(10 + self.rng.below(60) as u64)).await;
        }
        let carts = self.carts_of(&self.theatre.sessions.clone());
        self.until_settled(&carts).await;
        while !self.look().await {
            sleep(Duration::from_millis(50)).await;
        }
        println!("the box office: {:?}", self.done);
        self.record
    }

    /// Repeats a request until it is answered, however long faults last.
    async fn ask(&mut self, op: &'static str, body: Value) -> (Asked, Answer) {
        self.requests += 1;
        let asked = Asked::new(op, format!("{}-{}", self.product, self.requests), body);
        let (answer, _) = self.ask_as(&asked).await;
        (asked, answer)
    }

    /// The same. Also returns whether an attempt before the last one may have happened.
    async fn ask_as(&mut self, asked: &Asked) -> (Answer, bool) {
        let Asked { op, rid, body, .. } = asked;
        let mut in_doubt = false;
        loop {
            let answer = self.client.ask_within(op, rid, body.clone(), TRY_TIMEOUT).await;
            if !matches!(answer, Answer::Gone | Answer::Fail(_)) {
                self.record.note(asked, &answer);
                *self.done.entry(op).or_default() += 1;
                return (answer, in_doubt);
            }
            in_doubt |= answer.is_unknown();
            self.is_late(&format!("{op} {body}: {answer:?}"));
        }
    }

    /// # Panics
    /// If the work ended too long ago.
    fn is_late(&mut self, what: &str) {
        if self.stop.load(Relaxed) {
            let latest = *self.latest.get_or_insert_with(|| Instant::now() + END_TIMEOUT);
            assert!(Instant::now() < latest, "the box office waits in vain: {what}");
        }
    }

    /// Sends a request that must be granted, because there are no other callers.
    async fn granted(&mut self, op: &'static str, body: Value) -> (Asked, Answer) {
        self.requests += 1;
        let asked = Asked::new(op, format!("{}-{}", self.product, self.requests), body);
        let mut may_have_happened = false;
        loop {
            let (answer, in_doubt) = self.ask_as(&asked).await;
            may_have_happened |= in_doubt;
            if matches!(answer, Answer::Ok(..)) {
                return (asked, answer);
            }
            // Seats of an earlier attempt that its cart does not know are being released. They are in the way until then.
            assert!(may_have_happened, "{asked:?} has to be granted: {answer:?}");
            self.is_late(&format!("{asked:?}: {answer:?}"));
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn read(&mut self, op: &'static str, body: Value) -> Value {
        loop {
            match self.client.ask_within(op, "read", body.clone(), TRY_TIMEOUT).await {
                Answer::Ok(body, _) => return body,
                Answer::No(no) => panic!("{op} {body}: {}", no.body),
                answer @ (Answer::Fail(_) | Answer::Gone) => self.is_late(&format!("{op} {body}: {answer:?}")),
            }
        }
    }

    /// Certainly free seats of a session that is not canceled.
    fn free(&mut self) -> (String, Vec<SeatName>) {
        let open: Vec<&String> = self.open.iter().collect();
        let session = open[self.rng.below(open.len())].clone();
        let taken: BTreeSet<SeatName> = self.taken(&session).into_keys().collect();
        let all = (0..self.theatre.rows).flat_map(|row| (0..self.theatre.seats).map(move |seat| (row, seat)));
        let is_free = |seat: &SeatName| {
            let named = (session.clone(), *seat);
            !taken.contains(seat) && !self.off_sale.contains(&named) && !self.coming_back.contains(&named)
        };
        let mut free: Vec<SeatName> = all.filter(is_free).collect();
        while free.len() > 3 {
            free.swap_remove(self.rng.below(free.len()));
        }
        free.truncate(1 + self.rng.below(3));
        (session, free)
    }

    /// The carts' seats of a session, and whether they are sold.
    fn taken(&self, session: &str) -> BTreeMap<SeatName, bool> {
        let of = format!("session/{session}");
        let lines = self.record.carts.iter().flat_map(CartRecord::has).filter(|(line, _)| line.of == of);
        lines.flat_map(|(line, sold)| line.seats().map(move |seat| (seat, sold))).collect()
    }

    /// The number of units in carts and in orders.
    fn units(&self) -> [u64; 2] {
        let mut units = [0; 2];
        for (line, sold) in self.record.carts.iter().flat_map(CartRecord::has) {
            units[usize::from(sold)] += line.quantity().unwrap_or_default();
        }
        units
    }

    async fn hold(&mut self) {
        let (session, seats) = self.free();
        let [held, sold] = self.units();
        let mut cart = CartRecord::new(self.rng.token());
        if !seats.is_empty() {
            let body = json!({"token": cart.token, "session": session, "seats": seats});
            let (asked, answer) = self.granted("cart.hold_seats", body).await;
            cart.note(asked, &answer);
        }
        // Recently released seats may not be free yet.
        if held + sold + 20 < self.terms.1 && self.rng.percent(60) {
            let body = json!({"token": cart.token, "product": self.product, "quantity": 1 + self.rng.below(2)});
            let (asked, answer) = self.granted("cart.hold_stock", body).await;
            cart.note(asked, &answer);
        }
        if !cart.lines.is_empty() {
            self.record.carts.push(cart);
        }
    }

    async fn block(&mut self) {
        let (session, seats) = self.free();
        if seats.is_empty() || self.off_sale.len() > 20 {
            return;
        }
        self.granted("session.block", json!({"id": session, "seats": seats})).await;
        self.off_sale.extend(seats.into_iter().map(|seat| (session.clone(), seat)));
    }

    async fn unblock(&mut self) {
        let open: Vec<_> = self.off_sale.iter().filter(|(session, _)| self.open.contains(session)).cloned().collect();
        if open.is_empty() {
            return;
        }
        let (session, seat) = open[self.rng.below(open.len())].clone();
        self.granted("session.unblock", json!({"id": session, "seats": [seat]})).await;
        self.off_sale.remove(&(session, seat));
    }

    /// A random active cart with lines.
    fn a_cart(&mut self) -> Option<usize> {
        let carts = &self.record.carts;
        let active: Vec<usize> = (0..carts.len())
            .filter(|number| carts[*number].status == CartStatus::Active && !carts[*number].lines.is_empty())
            .collect();
        (!active.is_empty()).then(|| active[self.rng.below(active.len())])
    }

    /// Expects the seats of this line to become free.
    fn comes_back(&mut self, line: &Line) {
        let Some(session) = line.of.strip_prefix("session/") else { return };
        self.coming_back.extend(line.seats().map(|seat| (session.to_owned(), seat)));
    }

    /// An operator takes a line out of a buyer's cart. The cart shows the line, the operator and the reason.
    async fn take_away(&mut self) {
        let Some(number) = self.a_cart() else { return };
        let cart = &self.record.carts[number];
        let lines: Vec<u64> = cart.lines.keys().copied().collect();
        let line = lines[self.rng.below(lines.len())];
        let (id, token) = (cart.id.clone(), cart.token.clone());
        self.granted("admin.release", json!({"cart": id, "line": line, "reason": "a broken seat"})).await;
        let cart = &mut self.record.carts[number];
        let gone = cart.lines.remove(&line).expect("a line");
        // Its earlier answers no longer show its content.
        cart.granted = None;
        self.comes_back(&gone);
        let lines = self.record.carts[number].lines.clone();
        let body = self.read("cart.get", json!({"token": token})).await;
        assert_eq!(Line::read_all(&body["lines"]), lines, "{body}");
        let taken = body["taken"].as_array().expect("what was taken away").iter();
        let told = taken.filter(|taken| taken["line"]["line"] == line && taken["by"] == "operator").count();
        assert_eq!(told, 1, "line {line} was taken away: {body}");
    }

    async fn sell(&mut self) {
        let Some(number) = self.a_cart() else { return };
        let (token, total) = (self.record.carts[number].token.clone(), self.record.carts[number].total());
        let mut payment = json!({"recorded": {"method": "card", "transaction_id": token[..8]}});
        if self.rng.percent(60) {
            // A payment that fails permanently could not be refunded when its session is canceled.
            let source =
                Some(paying::source(&mut self.rng)).filter(|source| !paying::fails_permanently(source)).unwrap_or("ok");
            self.record.carts[number].sources.push(source.to_owned());
            payment = json!({"gateway": {"source": source}});
        }
        let expect = json!({"total": {"amount": total, "currency": "EUR"}});
        let (asked, answer) =
            self.ask("cart.checkout", json!({"token": token, "payment": payment, "expect": expect})).await;
        let well = match &answer {
            Answer::Ok(..) => true,
            Answer::No(no) => matches!(no.code, 601 | 603),
            Answer::Fail(_) | Answer::Gone => false,
        };
        assert!(well, "{} {} has to be sold, or not be paid: {answer:?}", asked.op, asked.body);
        self.record.carts[number].note(asked, &answer);
        self.forget_canceled(number);
    }

    async fn cancel_cart(&mut self) {
        let Some(number) = self.a_cart() else { return };
        let token = self.record.carts[number].token.clone();
        let (asked, answer) = self.granted("cart.cancel", json!({"token": token})).await;
        self.record.carts[number].note(asked, &answer);
        self.forget_canceled(number);
    }

    /// Expects the seats of an ended cart to become free.
    fn forget_canceled(&mut self, number: usize) {
        if self.record.carts[number].status == CartStatus::Canceled {
            let lines: Vec<Line> = self.record.carts[number].lines.values().cloned().collect();
            lines.iter().for_each(|line| self.comes_back(line));
        }
    }

    /// Changes the product's price, stock and hold time.
    async fn put(&mut self) {
        let terms = (300 + self.rng.below(100) as i64, self.terms.1 + 10);
        let price = json!({"amount": terms.0, "currency": "EUR"});
        let life_ms = 3_600_000 * (1 + self.rng.below(5));
        let body =
            json!({"id": self.product, "name": "Posters", "price": price, "stock": terms.1, "hold_ttl_ms": life_ms});
        self.granted("product.put", body).await;
        self.terms = terms;
    }

    /// The numbers of carts with lines of these sessions.
    fn carts_of(&self, sessions: &[String]) -> Vec<usize> {
        let has = |cart: &CartRecord| {
            cart.lines.values().any(|line| {
                line.of.strip_prefix("session/").is_some_and(|of| sessions.iter().any(|session| session == of))
            })
        };
        let carts = self.record.carts.iter().enumerate();
        carts.filter(|(_, cart)| has(cart)).map(|(number, _)| number).collect()
    }

    /// Cancels a session: its lines leave carts, and orders are refunded.
    async fn cancel_session(&mut self) {
        if self.open.len() < 2 {
            return;
        }
        let open: Vec<&String> = self.open.iter().collect();
        let session = open[self.rng.below(open.len())].clone();
        let carts = self.carts_of(std::slice::from_ref(&session));
        self.granted("session.cancel", json!({"id": session, "reason": "rain"})).await;
        self.open.remove(&session);
        let of = format!("session/{session}");
        for &number in &carts {
            let cart = &mut self.record.carts[number];
            let lines: Vec<u64> =
                cart.lines.iter().filter(|(_, line)| line.of == of).map(|(number, _)| *number).collect();
            match cart.status {
                CartStatus::Active => {
                    cart.lines.retain(|_, line| line.of != of);
                    cart.granted = None;
                }
                CartStatus::Done => cart.refunded.extend(lines),
                CartStatus::Canceled | CartStatus::Expired => {}
            }
        }
        self.until_settled(&carts).await;
    }

    /// Waits until these carts have the expected lines.
    async fn until_settled(&mut self, carts: &[usize]) {
        for &number in carts {
            while let Some(why) = self.differs(number).await {
                self.is_late(&why);
                sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// The difference of a cart, or its order, from the expected state.
    async fn differs(&mut self, number: usize) -> Option<String> {
        let cart = self.record.carts[number].clone();
        let body = self.read("cart.get", json!({"token": cart.token})).await;
        if Line::read_all(&body["lines"]) != cart.lines {
            return Some(format!("{body} is not {cart:?}"));
        }
        let (order, _) = cart.order.as_ref()?;
        let body = self.read("order.get", json!({"order": order})).await;
        let refunds = body["refunds"].as_array().into_iter().flatten();
        let back: Vec<u64> =
            refunds.flat_map(|refund| refund["lines"].as_array().expect("lines")).filter_map(Value::as_u64).collect();
        let once: BTreeSet<u64> = back.iter().copied().collect();
        assert_eq!(once.len(), back.len(), "paid back twice: {body}");
        (once != cart.refunded).then(|| format!("{body} is not {cart:?}"))
    }

    /// Sends requests that must be refused.
    async fn may_not(&mut self) {
        let held =
            self.open.iter().find_map(|session| Some((session.clone(), self.taken(session).into_keys().next()?)));
        if let Some((session, seat)) = held {
            let (_, answer) = self.ask("session.block", json!({"id": session, "seats": [seat]})).await;
            assert!(matches!(&answer, Answer::No(No { code: 201, .. })), "a taken seat: {answer:?}");
        }
        let token = self.rng.token();
        let off = self.off_sale.iter().find(|(session, _)| self.open.contains(session)).cloned();
        let hold = |session: &String, seat| json!({"token": token, "session": session, "seats": [seat]});
        if let Some((session, seat)) = off {
            let (_, answer) = self.ask("cart.hold_seats", hold(&session, seat)).await;
            assert!(matches!(&answer, Answer::No(No { code: 201 | 204, .. })), "a seat that is off sale: {answer:?}");
        }
        let over = self.theatre.sessions.iter().find(|session| !self.open.contains(*session)).cloned();
        if let Some(session) = over {
            let (_, answer) = self.ask("cart.hold_seats", hold(&session, (0, 0))).await;
            assert!(
                matches!(&answer, Answer::No(No { code: 207, .. })),
                "a session that does not take place: {answer:?}"
            );
        }
    }

    /// Whether all released seats are free. Asserts that everything else is as expected.
    async fn look(&mut self) -> bool {
        for session in self.theatre.sessions.clone() {
            let body = self.read("session.map", json!({"id": session})).await;
            let map = Map::read(&body, usize::from(self.theatre.rows * self.theatre.seats));
            let taken = self.taken(&session);
            for row in 0..self.theatre.rows {
                for seat in (0..self.theatre.seats).map(|seat| (row, seat)) {
                    let named = (session.clone(), seat);
                    let found = map.seats.as_bytes()[self.theatre.index(seat)] as char;
                    let wanted = match taken.get(&seat) {
                        Some(true) => 's',
                        Some(false) => 'h',
                        None if self.off_sale.contains(&named) => 'b',
                        None => '.',
                    };
                    let is_coming = self.coming_back.contains(&named);
                    if found == wanted {
                        self.coming_back.remove(&named);
                    } else if self.open.contains(&session) && !is_coming && !(found == 'h' && wanted == 's') {
                        panic!("{seat:?} of {session} is {found:?} and has to be {wanted:?}: {}", map.seats);
                    } else {
                        // Certainly sold, or released without the session's knowledge yet.
                        self.is_late(&format!("{seat:?} of {session} is {found:?} and has to be {wanted:?}"));
                        return false;
                    }
                }
            }
        }
        let ((price, stock), [held, sold]) = (self.terms, self.units());
        let body = self.read("product.get", json!({"id": self.product})).await;
        assert_eq!((&body["price"]["amount"], &body["stock"]), (&json!(price), &json!(stock)), "{body}");
        let is = body["counts"] == json!({"free": stock - held - sold, "held": held, "sold": sold});
        if !is {
            self.is_late(&format!("{held} held and {sold} sold of {stock}: {body}"));
        }
        is
    }
}

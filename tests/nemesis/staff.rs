//! The box office. It has sessions and a product to itself, so it knows all the time what is where. It sells, takes lines out of
//! carts, keeps seats off sale, changes the product, and cancels sessions. Allowed requests are granted, however often it has to
//! repeat them. Others are refused with the right code. In the end all is as it should be.

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
        Answer, Asked, CartRecord, Line, Map, No, Record, Rng, SeatName, Stands, Theatre, fixture::product, paying,
    },
};

/// How long one request is tried before it is begun anew, with the same request id.
const TRY: Duration = Duration::from_secs(4);

/// How long everything may take after the work is over: nodes are well by then.
const PATIENCE: Duration = Duration::from_secs(60);

/// Units that there are at first.
const STOCK: u64 = 60;

/// A round's work of the box office.
pub(crate) struct Staff {
    stop: Arc<AtomicBool>,
    work: JoinHandle<Record>,
}

impl Staff {
    /// Its own sessions and its own product.
    pub(crate) async fn begin(stage: &mut Stage, round: usize) -> Staff {
        let theatre = stage.play(3, (4, 8), None).await;
        let name = format!("posters-{round}");
        let port = stage.cluster.port(stage.cluster.running()[0]).await;
        product(&port, &name, STOCK, Value::Null).await;
        let stop = Arc::new(AtomicBool::new(false));
        let desk = Desk {
            till: stage.cluster.failover_client(stage.rng.next()),
            dice: Rng::new(stage.rng.next()),
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

    /// Nothing more is begun.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// What was sold, once everything is as it should be.
    pub(crate) async fn end(self) -> Record {
        self.stop();
        self.work.await.expect("the box office")
    }
}

struct Desk {
    till: FailoverClient,
    dice: Rng,
    theatre: Theatre,
    /// Sessions that take place.
    open: BTreeSet<String>,
    product: String,
    /// Its price and how many there are.
    terms: (i64, u64),
    off_sale: BTreeSet<(String, SeatName)>,
    /// Given back, and not seen free since.
    coming_back: BTreeSet<(String, SeatName)>,
    record: Record,
    requests: u32,
    stop: Arc<AtomicBool>,
    /// When everything has to be over, once nothing more is begun.
    latest: Option<Instant>,
    /// How often what was done.
    done: BTreeMap<&'static str, u32>,
}

impl Desk {
    async fn work(mut self) -> Record {
        while !self.stop.load(Relaxed) {
            match self.dice.below(100) {
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
            sleep(Duration::from_millis(10 + self.dice.below(60) as u64)).await;
        }
        let carts = self.carts_of(&self.theatre.sessions.clone());
        self.until_settled(&carts).await;
        while !self.look().await {
            sleep(Duration::from_millis(50)).await;
        }
        println!("the box office: {:?}", self.done);
        self.record
    }

    /// Asks until it is answered, however long that takes while faults go on.
    async fn ask(&mut self, op: &'static str, body: Value) -> (Asked, Answer) {
        self.requests += 1;
        let asked = Asked::new(op, format!("{}-{}", self.product, self.requests), body);
        let (answer, _) = self.ask_as(&asked).await;
        (asked, answer)
    }

    /// The same; and whether an attempt before the last one may have happened.
    async fn ask_as(&mut self, asked: &Asked) -> (Answer, bool) {
        let Asked { op, rid, body, .. } = asked;
        let mut in_doubt = false;
        loop {
            let answer = self.till.ask_within(op, rid, body.clone(), TRY).await;
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
    /// If the work is long over.
    fn is_late(&mut self, what: &str) {
        if self.stop.load(Relaxed) {
            let latest = *self.latest.get_or_insert_with(|| Instant::now() + PATIENCE);
            assert!(Instant::now() < latest, "the box office waits in vain: {what}");
        }
    }

    /// There are no other callers, so it must be granted.
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
            // What an attempt before has taken, and its cart does not know, is on its way back: until then it is in the way.
            assert!(may_have_happened, "{asked:?} has to be granted: {answer:?}");
            self.is_late(&format!("{asked:?}: {answer:?}"));
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn read(&mut self, op: &'static str, body: Value) -> Value {
        loop {
            match self.till.ask_within(op, "read", body.clone(), TRY).await {
                Answer::Ok(body, _) => return body,
                Answer::No(no) => panic!("{op} {body}: {}", no.body),
                answer @ (Answer::Fail(_) | Answer::Gone) => self.is_late(&format!("{op} {body}: {answer:?}")),
            }
        }
    }

    /// Seats that are free for certain, of a session that takes place.
    fn free(&mut self) -> (String, Vec<SeatName>) {
        let open: Vec<&String> = self.open.iter().collect();
        let session = open[self.dice.below(open.len())].clone();
        let taken: BTreeSet<SeatName> = self.taken(&session).into_keys().collect();
        let all = (0..self.theatre.rows).flat_map(|row| (0..self.theatre.seats).map(move |seat| (row, seat)));
        let is_free = |seat: &SeatName| {
            let named = (session.clone(), *seat);
            !taken.contains(seat) && !self.off_sale.contains(&named) && !self.coming_back.contains(&named)
        };
        let mut free: Vec<SeatName> = all.filter(is_free).collect();
        while free.len() > 3 {
            free.swap_remove(self.dice.below(free.len()));
        }
        free.truncate(1 + self.dice.below(3));
        (session, free)
    }

    /// Seats of a session that carts have, and whether they are sold.
    fn taken(&self, session: &str) -> BTreeMap<SeatName, bool> {
        let of = format!("session/{session}");
        let lines = self.record.carts.iter().flat_map(CartRecord::has).filter(|(line, _)| line.of == of);
        lines.flat_map(|(line, sold)| line.seats().map(move |seat| (seat, sold))).collect()
    }

    /// How many units carts have, and have bought.
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
        let mut cart = CartRecord::new(self.dice.token());
        if !seats.is_empty() {
            let body = json!({"token": cart.token, "session": session, "seats": seats});
            let (asked, answer) = self.granted("cart.hold_seats", body).await;
            cart.note(asked, &answer);
        }
        // What was given back lately may not be back yet.
        if held + sold + 20 < self.terms.1 && self.dice.percent(60) {
            let body = json!({"token": cart.token, "product": self.product, "quantity": 1 + self.dice.below(2)});
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
        let (session, seat) = open[self.dice.below(open.len())].clone();
        self.granted("session.unblock", json!({"id": session, "seats": [seat]})).await;
        self.off_sale.remove(&(session, seat));
    }

    /// One of the carts that are active and have something.
    fn a_cart(&mut self) -> Option<usize> {
        let carts = &self.record.carts;
        let active: Vec<usize> = (0..carts.len())
            .filter(|number| carts[*number].stands == Stands::Active && !carts[*number].lines.is_empty())
            .collect();
        (!active.is_empty()).then(|| active[self.dice.below(active.len())])
    }

    /// What this line had comes back.
    fn comes_back(&mut self, line: &Line) {
        let Some(session) = line.of.strip_prefix("session/") else { return };
        self.coming_back.extend(line.seats().map(|seat| (session.to_owned(), seat)));
    }

    /// An operator takes a line out of a buyer's cart. The cart shows which, by whom and why.
    async fn take_away(&mut self) {
        let Some(number) = self.a_cart() else { return };
        let cart = &self.record.carts[number];
        let lines: Vec<u64> = cart.lines.keys().copied().collect();
        let line = lines[self.dice.below(lines.len())];
        let (id, token) = (cart.id.clone(), cart.token.clone());
        self.granted("admin.release", json!({"cart": id, "line": line, "reason": "a broken seat"})).await;
        let cart = &mut self.record.carts[number];
        let gone = cart.lines.remove(&line).expect("a line");
        // What it was told before is not what it has now.
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
        if self.dice.percent(60) {
            // What fails for good could not be paid back when its session is canceled.
            let source = Some(paying::source(&mut self.dice))
                .filter(|source| !paying::fails_permanently(source))
                .unwrap_or("ok");
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

    /// What a cart that ended had comes back.
    fn forget_canceled(&mut self, number: usize) {
        if self.record.carts[number].stands == Stands::Canceled {
            let lines: Vec<Line> = self.record.carts[number].lines.values().cloned().collect();
            lines.iter().for_each(|line| self.comes_back(line));
        }
    }

    /// The product costs something else, there is more of it, and what is held from now on lives longer or shorter.
    async fn put(&mut self) {
        let terms = (300 + self.dice.below(100) as i64, self.terms.1 + 10);
        let price = json!({"amount": terms.0, "currency": "EUR"});
        let life_ms = 3_600_000 * (1 + self.dice.below(5));
        let body =
            json!({"id": self.product, "name": "Posters", "price": price, "stock": terms.1, "hold_ttl_ms": life_ms});
        self.granted("product.put", body).await;
        self.terms = terms;
    }

    /// Numbers of the carts that have something of these sessions.
    fn carts_of(&self, sessions: &[String]) -> Vec<usize> {
        let has = |cart: &CartRecord| {
            cart.lines.values().any(|line| {
                line.of.strip_prefix("session/").is_some_and(|of| sessions.iter().any(|session| session == of))
            })
        };
        let carts = self.record.carts.iter().enumerate();
        carts.filter(|(_, cart)| has(cart)).map(|(number, _)| number).collect()
    }

    /// A session does not take place: its lines leave carts, and orders are paid back.
    async fn cancel_session(&mut self) {
        if self.open.len() < 2 {
            return;
        }
        let open: Vec<&String> = self.open.iter().collect();
        let session = open[self.dice.below(open.len())].clone();
        let carts = self.carts_of(std::slice::from_ref(&session));
        self.granted("session.cancel", json!({"id": session, "reason": "rain"})).await;
        self.open.remove(&session);
        let of = format!("session/{session}");
        for &number in &carts {
            let cart = &mut self.record.carts[number];
            let lines: Vec<u64> =
                cart.lines.iter().filter(|(_, line)| line.of == of).map(|(number, _)| *number).collect();
            match cart.stands {
                Stands::Active => {
                    cart.lines.retain(|_, line| line.of != of);
                    cart.granted = None;
                }
                Stands::Done => cart.refunded.extend(lines),
                Stands::Canceled | Stands::Expired => {}
            }
        }
        self.until_settled(&carts).await;
    }

    /// Waits until these carts have what they should have.
    async fn until_settled(&mut self, carts: &[usize]) {
        for &number in carts {
            while let Some(why) = self.differs(number).await {
                self.is_late(&why);
                sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// How a cart, or its order, differs from what it should be.
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

    /// What may not be is refused.
    async fn may_not(&mut self) {
        let held =
            self.open.iter().find_map(|session| Some((session.clone(), self.taken(session).into_keys().next()?)));
        if let Some((session, seat)) = held {
            let (_, answer) = self.ask("session.block", json!({"id": session, "seats": [seat]})).await;
            assert!(matches!(&answer, Answer::No(No { code: 201, .. })), "a taken seat: {answer:?}");
        }
        let token = self.dice.token();
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

    /// Whether all that was given back is free; everything else is as it should be at any time.
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
                        // Sold for certain, or given back, and the session has not heard of it.
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

//! Checks the node's state against the answers that buyers got. Nothing acknowledged is missing, nothing exists twice,
//! and requests with unknown outcomes happened once or not at all.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    TIMEOUT, Theatre, eventually, eventually_within,
    port::{Answer, Encoding, Port},
    record::{Asked, CartRecord, CartStatus, Granted, Line, Record},
    server::Server,
    theatre::{SeatName, written},
};

/// Concurrent requests while everything is read back.
const AT_ONCE: usize = 64;

/// The code of `payment_pending`.
const PENDING: u64 = 602;

/// How long a node considers that an uncertain request may still be granted.
const DOUBT: Duration = Duration::from_secs(60);

impl Record {
    /// Repeats requests with unknown outcomes, then checks everything.
    ///
    /// # Panics
    /// At the first promise that does not hold.
    pub(crate) async fn check(&mut self, server: &Server, theatre: &Theatre) {
        let port = server.port(Encoding::MsgPack).await;
        self.check_carts(&port, 0).await;
        self.check_repeats(&port).await;
        self.check_maps(&port, theatre).await;
        self.check_audit(&port).await;
        let unknown = self.refused.get(&0).copied().unwrap_or_default();
        println!(
            "checked {} carts, {} orders; {unknown} had been unknown; refusals {:?}",
            self.carts.len(),
            self.orders(),
            self.refused
        );
    }

    /// Checks the carts from this one on against their buyers' answers. Repeats requests with unknown outcomes first.
    pub(crate) async fn check_carts(&mut self, port: &Port, from: usize) {
        let known: Vec<&CartRecord> = self.carts[from..].iter().filter(|cart| cart.unknown.is_none()).collect();
        for carts in known.chunks(AT_ONCE) {
            let checks = carts.iter().map(|cart| self.check_cart(port, cart));
            futures_util::future::join_all(checks).await;
        }
        for number in from..self.carts.len() {
            if let Some(asked) = self.carts[number].unknown.take() {
                let answer = resolve(port, &self.carts[number], &asked).await;
                self.note(&asked, &answer);
                self.carts[number].note(asked, &answer);
                self.check_cart(port, &self.carts[number]).await;
            }
        }
    }

    /// Checks a cart and its order against the buyer's answers. Their versions are not lower.
    async fn check_cart(&self, port: &Port, cart: &CartRecord) {
        let Some(id) = &cart.id else { return };
        let (body, at) = match port.read("cart.get", json!({"token": cart.token})).await {
            Answer::Ok(body, at) => (body, at),
            other => panic!("cart {id} was acknowledged ({cart:?}): {other:?}"),
        };
        let state = match cart.status {
            CartStatus::Active => "active",
            CartStatus::Canceled => "canceled",
            CartStatus::Expired => "expired",
            CartStatus::Done => "done",
        };
        assert_eq!((body["id"].as_str(), body["state"].as_str()), (Some(id.as_str()), Some(state)), "{cart:?}");
        assert_eq!(Line::read_all(&body["lines"]), cart.lines, "{cart:?}");
        assert!(cart.ended.is_none_or(|why| body["ended"]["why"] == why), "{body}: {cart:?}");
        let entity = format!("cart/{id}");
        let told = self.calls.highest(&entity);
        assert!(
            at.get(&entity).is_some_and(|&version| version >= told),
            "version {told} was acknowledged: {at:?} {cart:?}"
        );
        let Some((order, total)) = &cart.order else { return };
        let body = port.read("order.get", json!({"order": order})).await.ok();
        assert_eq!(body["id"], order.as_str());
        assert_eq!(Line::read_all(&body["lines"]), cart.lines, "{cart:?}");
        assert_eq!(body["total"], json!({"amount": total, "currency": "EUR"}));
        let refunds = body["refunds"].as_array().into_iter().flatten();
        let lines = refunds.flat_map(|refund| refund["lines"].as_array().expect("lines")).filter_map(Value::as_u64);
        let refunded: Vec<u64> = cart.refunded.iter().copied().collect();
        let mut lines: Vec<u64> = lines.collect();
        lines.sort_unstable();
        assert_eq!(lines, refunded, "{cart:?}: {body}");
    }

    /// The number of acknowledged carts that the node does not know.
    pub(crate) async fn lost(&self, port: &Port) -> usize {
        let mut lost = 0;
        for cart in self.carts.iter().filter(|cart| cart.id.is_some()) {
            let answer = port.read("cart.get", json!({"token": cart.token})).await;
            lost += usize::from(matches!(answer, Answer::No(no) if no.code == 701));
        }
        lost
    }

    /// Repeats granted requests, which must get the same answers (P9).
    pub(crate) async fn check_repeats(&mut self, port: &Port) {
        let granted: Vec<_> = self.carts.iter().rev().filter_map(|cart| cart.granted.as_ref()).take(200).collect();
        let mut repeated = Vec::new();
        for some in granted.chunks(AT_ONCE) {
            let repeats = some.iter().map(async |(asked, answer)| {
                let body = written(port.encoding(), &asked.body);
                let (again, at) = match port.ask(asked.op, &asked.rid, body).await {
                    Answer::Ok(again, at) => (again, at),
                    other => panic!("the repeat of {asked:?}: {other:?}"),
                };
                let field = match asked.op {
                    "cart.cancel" => "state",
                    "order.refund" => "amount",
                    _ => "lines",
                };
                let same = match field {
                    // Times are written as the connection writes them.
                    "lines" => Line::read_all(&again[field]) == Line::read_all(&answer[field]),
                    _ => again[field] == answer[field],
                };
                assert!(same, "the repeat of {} {} is another answer: {again}, {answer}", asked.op, asked.body);
                assert_eq!(
                    again["total"], answer["total"],
                    "the repeat of {} {} is another answer",
                    asked.op, asked.body
                );
                (Granted::new(asked, &at), at)
            });
            repeated.extend(futures_util::future::join_all(repeats).await);
        }
        for (request, at) in repeated {
            assert_eq!(self.repeated(&request, &at), None);
        }
    }

    /// Checks every seat against the orders and the live carts. Messages to sessions may take a moment.
    pub(crate) async fn check_maps(&self, port: &Port, theatre: &Theatre) {
        let mut expected: BTreeMap<&str, BTreeMap<SeatName, char>> = BTreeMap::new();
        let mut taken: BTreeSet<(&str, SeatName)> = BTreeSet::new();
        for cart in &self.carts {
            for (session, seat, sold) in cart.seats() {
                assert!(taken.insert((session, seat)), "{seat:?} of {session} was granted to two carts");
                expected.entry(session).or_default().insert(seat, if sold { 's' } else { 'h' });
            }
        }
        for session in &theatre.sessions {
            let mut seats = vec!['.'; usize::from(theatre.rows) * usize::from(theatre.seats)];
            for (seat, letter) in expected.remove(session.as_str()).unwrap_or_default() {
                seats[theatre.index(seat)] = letter;
            }
            let seats: String = seats.into_iter().collect();
            let mut last = String::new();
            let what = format!("the map of {session} is\n{seats}");
            let map = eventually(&what, async || {
                let map = theatre.map(port, session).await;
                if map.seats != last {
                    println!("{session}: {}", map.seats);
                }
                last.clone_from(&map.seats);
                (map.seats == seats).then_some(map)
            })
            .await;
            let told = self.calls.highest(&format!("session/{session}"));
            assert!(map.version >= told, "{session} is at version {}, {told} was acknowledged", map.version);
        }
    }

    /// Checks that the node's own audit finds no violation and has the same sums.
    pub(crate) async fn check_audit(&self, port: &Port) {
        let audit = eventually("nothing is owed any more", async || {
            let audit = port.read("admin.audit", json!({})).await.ok();
            (audit["owed"] == 0).then_some(audit)
        })
        .await;
        assert_eq!(audit["violations"], json!([]), "{audit}");
        if audit["orders"] != self.orders() {
            tokio::time::sleep(Duration::from_secs(3)).await;
            println!("the node counts anew, later: {}", port.read("admin.audit", json!({})).await.ok());
        }
        let seats = |sold: bool| -> usize {
            self.carts.iter().map(|cart| cart.seats().filter(|(_, _, is_sold)| *is_sold == sold).count()).sum()
        };
        assert_eq!(audit["orders"], self.orders(), "{audit}");
        assert_eq!(audit["order_seats"], seats(true), "{audit}");
        assert_eq!(audit["sold_seats"], seats(true), "{audit}");
        assert_eq!(audit["held_seats"], seats(false), "{audit}");
        assert_eq!(audit["cart_seats"], seats(false), "{audit}");
        let total: i64 = self.carts.iter().filter_map(|cart| cart.order.as_ref()).map(|(_, total)| total).sum();
        let totals = match self.orders() {
            0 => json!([]),
            orders => json!([{"currency": "EUR", "orders": orders, "amount": total}]),
        };
        assert_eq!(audit["order_totals"], totals, "{audit}");
    }
}

impl CartRecord {
    /// All its seats, with their sessions, and whether they are sold.
    fn seats(&self) -> impl Iterator<Item = (&str, SeatName, bool)> {
        self.has().flat_map(|(line, sold)| {
            let session = line.of.strip_prefix("session/").unwrap_or_default();
            line.seats().map(move |seat| (session, seat, sold))
        })
    }
}

/// Repeats a request until its outcome is known, and once more: the second answer equals the first.
async fn resolve(port: &Port, cart: &CartRecord, asked: &Asked) -> Answer {
    let token = boxoffice_core::id::CartToken(u128::from_str_radix(&cart.token, 16).expect("hexadecimal digits"));
    let (id, began, mut told) = (token.cart(), Instant::now(), false);
    let (mut asks, mut last) = (0, None);
    let mut repeat = async || {
        let answer = port.ask(asked.op, &asked.rid, written(port.encoding(), &asked.body)).await;
        asks += 1;
        let waits = match &answer {
            Answer::Fail(901..=904) => true,
            Answer::No(no) => no.code == PENDING,
            Answer::Ok(..) | Answer::Fail(_) | Answer::Gone => false,
        };
        if waits && last.replace(answer.clone()).as_ref() != Some(&answer) {
            println!("repeat {asks} of {} {} {}: {answer:?}", asked.op, asked.rid, asked.body);
        }
        if waits && began.elapsed() > DOUBT && !std::mem::replace(&mut told, true) {
            for op in ["admin.audit", "admin.history"] {
                let found = port.read(op, json!({"entity": format!("cart/{id}")})).await;
                println!("{op} of a cart that waits: {found:?}");
            }
        }
        if waits {
            // A cart begins a limited number of checkouts.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        (!waits).then_some(answer)
    };
    // A node refuses finally only a minute after the last uncertain attempt, since that attempt may be granted late.
    let first = eventually_within("an answer to a repeat", DOUBT + TIMEOUT, &mut repeat).await;
    match &first {
        Answer::Ok(body, _) => {
            let second = eventually("an answer to a second repeat", repeat).await.ok();
            assert_eq!(without_settling(second), without_settling(body.clone()), "{} {}", asked.op, asked.body);
        }
        // Only requests that take something can be refused because of other buyers. Such a request had not happened. A checkout
        // takes late lines.
        Answer::No(no) => {
            let taken = match asked.op {
                "cart.set_quantity" => matches!(no.code, 205 | 209 | 401),
                "cart.checkout" if matches!(no.code, 209 | 401) => cart.lines.values().any(|line| line.late),
                "cart.checkout" => matches!(no.code, 601 | 603) && !cart.sources.is_empty(),
                op => op.starts_with("cart.hold_") && matches!(no.code, 201 | 205 | 206 | 209 | 401 | 501),
            };
            assert!(taken, "{} {} is refused: {}", asked.op, asked.body, no.body);
        }
        other => panic!("{} {}: {other:?}", asked.op, asked.body),
    }
    first
}

fn without_settling(mut answer: Value) -> Value {
    if let Some(fields) = answer.as_object_mut() {
        fields.remove("settling");
    }
    answer
}

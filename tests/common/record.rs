//! The answers that buyers got, and the requests with unknown outcomes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use boxoffice_workload::calls::Calls;
use serde_json::Value;

use super::{
    port::Answer,
    theatre::{SeatName, read_time},
};

/// All carts of a test, across its nodes and crashes.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) carts: Vec<CartRecord>,
    /// Granted requests, by the versions of their answers.
    pub(crate) calls: Calls<String, Granted, Instant>,
    /// The times of grants.
    pub(crate) granted: Vec<Instant>,
    /// Refusals and failures by code.
    pub(crate) refused: BTreeMap<u64, u64>,
}

/// A granted request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Granted {
    pub(crate) rid: String,
    pub(crate) op: &'static str,
    /// The cart in its answer.
    pub(crate) cart: Option<String>,
}

impl Granted {
    pub(crate) fn new(asked: &Asked, at: &BTreeMap<String, u64>) -> Granted {
        let cart = at.keys().find_map(|entity| entity.strip_prefix("cart/"));
        Granted { rid: asked.rid.clone(), op: asked.op, cart: cart.map(str::to_owned) }
    }
}

/// A request as it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) op: &'static str,
    pub(crate) rid: String,
    pub(crate) body: Value,
    /// When it was first sent.
    pub(crate) called: Instant,
}

impl Asked {
    /// A request that is sent now.
    pub(crate) fn new(op: &'static str, rid: String, body: Value) -> Asked {
        Asked { op, rid, body, called: Instant::now() }
    }
}

/// The state of a cart, as its buyer knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CartStatus {
    Active,
    Canceled,
    /// Its deadline has passed. Only a read of the cart shows it.
    Expired,
    Done,
}

/// A cart as its buyer knows it from answers.
#[derive(Clone, Debug)]
pub(crate) struct CartRecord {
    pub(crate) token: String,
    /// Its id, once an answer named it.
    pub(crate) id: Option<String>,
    pub(crate) status: CartStatus,
    /// Its owner, if it has one.
    pub(crate) customer: Option<String>,
    /// By number.
    pub(crate) lines: BTreeMap<u64, Line>,
    /// The order and its total.
    pub(crate) order: Option<(String, i64)>,
    /// Refunded lines of the order.
    pub(crate) refunded: BTreeSet<u64>,
    /// The last request that was granted, and its answer.
    pub(crate) granted: Option<(Asked, Value)>,
    /// A request with an unknown outcome. It is the cart's last one.
    pub(crate) unknown: Option<Asked>,
    /// The reason of its cancellation.
    pub(crate) ended: Option<&'static str>,
    /// The payment sources of the checkouts, in order. A source tells the gateway what to do.
    pub(crate) sources: Vec<String>,
    /// The order was paid through the gateway.
    pub(crate) by_gateway: bool,
}

/// A line of a cart or an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// `session/…`, `product/…` or `resource/…`.
    pub(crate) of: String,
    pub(crate) what: What,
    /// It is held only at the checkout.
    pub(crate) late: bool,
}

/// The content of a line, with prices in cents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Seats(BTreeMap<SeatName, i64>),
    Places {
        area: String,
        quantity: u64,
        price: i64,
    },
    Units {
        quantity: u64,
        price: i64,
    },
    /// Begin and end in milliseconds.
    Slot {
        begin: u64,
        end: u64,
        price: i64,
    },
}

impl Line {
    pub(crate) fn read(line: &Value) -> (u64, Line) {
        let of = ["session", "product", "resource"].into_iter().find_map(|kind| {
            let name = line.get(kind)?.as_str()?;
            Some(format!("{kind}/{name}"))
        });
        let quantity = || line["quantity"].as_u64().expect("a quantity");
        let price = || line["price"].as_i64().expect("a price");
        let what = if let Some(seats) = line["seats"].as_array() {
            let prices = line["prices"].as_array().expect("prices").iter();
            let prices = prices.map(|price| price.as_i64().expect("a price"));
            assert_eq!(seats.len(), prices.len(), "{line}");
            What::Seats(seats.iter().map(seat).zip(prices).collect())
        } else if let Some(area) = line["area"].as_str() {
            What::Places { area: area.to_owned(), quantity: quantity(), price: price() }
        } else if line.get("begin").is_some() {
            What::Slot { begin: read_time(&line["begin"]), end: read_time(&line["end"]), price: price() }
        } else {
            What::Units { quantity: quantity(), price: price() }
        };
        let late = line["late"] == true;
        (line["line"].as_u64().expect("a number"), Line { of: of.expect("of something"), what, late })
    }

    /// The lines in this list, by number.
    pub(crate) fn read_all(lines: &Value) -> BTreeMap<u64, Line> {
        lines.as_array().expect("lines").iter().map(Line::read).collect()
    }

    /// Its seats. Empty if it has none.
    pub(crate) fn seats(&self) -> impl Iterator<Item = SeatName> {
        let seats = match &self.what {
            What::Seats(seats) => Some(seats),
            What::Places { .. } | What::Units { .. } | What::Slot { .. } => None,
        };
        seats.into_iter().flat_map(|seats| seats.keys().copied())
    }

    /// Its quantity of places or units.
    pub(crate) fn quantity(&self) -> Option<u64> {
        match self.what {
            What::Places { quantity, .. } | What::Units { quantity, .. } => Some(quantity),
            What::Seats(_) | What::Slot { .. } => None,
        }
    }

    fn total(&self) -> i64 {
        match &self.what {
            What::Seats(seats) => seats.values().sum(),
            What::Places { quantity, price, .. } | What::Units { quantity, price } => *quantity as i64 * price,
            What::Slot { price, .. } => *price,
        }
    }

    /// Whether that line may have grown into this one.
    fn grows_from(&self, before: &Line) -> bool {
        let same = match (&before.what, &self.what) {
            (What::Places { area, .. }, What::Places { area: now, .. }) => area == now,
            (What::Units { .. }, What::Units { .. }) => true,
            _ => false,
        };
        same && before.of == self.of && before.quantity() < self.quantity()
    }
}

fn seat(seat: &Value) -> SeatName {
    let number = |place: usize| seat[place].as_u64().expect("a number") as u16;
    (number(0), number(1))
}

impl CartRecord {
    pub(crate) fn new(token: String) -> CartRecord {
        CartRecord {
            token,
            id: None,
            status: CartStatus::Active,
            customer: None,
            lines: BTreeMap::new(),
            order: None,
            refunded: BTreeSet::new(),
            granted: None,
            unknown: None,
            ended: None,
            sources: Vec::new(),
            by_gateway: false,
        }
    }

    /// The lines that hold or have bought something of an entity, and whether it is sold.
    pub(crate) fn has(&self) -> impl Iterator<Item = (&Line, bool)> {
        let sold = match self.status {
            CartStatus::Active => Some(false),
            CartStatus::Done => Some(true),
            CartStatus::Canceled | CartStatus::Expired => None,
        };
        let lines = self.lines.iter().filter(|(number, line)| !line.late && !self.refunded.contains(*number));
        sold.into_iter().flat_map(move |sold| lines.clone().map(move |(_, line)| (line, sold)))
    }

    /// The refunded amount of its order.
    pub(crate) fn paid_back(&self) -> i64 {
        self.refunded.iter().map(|line| self.lines[line].total()).sum()
    }

    /// The price of its lines.
    pub(crate) fn total(&self) -> i64 {
        self.lines.values().map(Line::total).sum()
    }

    /// Records an answer and checks it against earlier answers.
    pub(crate) fn note(&mut self, asked: Asked, answer: &Answer) {
        if answer.is_unknown() {
            self.unknown = Some(asked);
            return;
        }
        if let (Answer::No(no), "cart.checkout") = (answer, asked.op) {
            // A failed payment is an outcome. Everything is released, unless the buyer wanted to keep it.
            let keeps = asked.body["payment"]["gateway"]["on_decline"] == "keep";
            match no.code {
                601 if !keeps => (self.status, self.ended) = (CartStatus::Canceled, Some("declined")),
                603 if !keeps => (self.status, self.ended) = (CartStatus::Canceled, Some("amount_mismatch")),
                _ => {}
            }
        }
        let Answer::Ok(body, _) = answer else { return };
        let context = || format!("{} {} of {}: {body}", asked.op, asked.body, self.token);
        match asked.op {
            "cart.open" => {
                self.id = Some(body["id"].as_str().expect("a cart").to_owned());
                self.customer = asked.body["customer"].as_str().map(str::to_owned);
                assert_eq!((&body["state"], &Line::read_all(&body["lines"])), (&Value::from("active"), &self.lines));
            }
            hold if hold.starts_with("cart.hold_") => {
                self.id = Some(body["cart"].as_str().expect("a cart").to_owned());
                for (number, line) in Line::read_all(&body["lines"]) {
                    assert!(line.quantity() != Some(0) && line.what != What::Seats(BTreeMap::new()), "{}", context());
                    let before = self.lines.insert(number, line.clone());
                    let grows = before.as_ref().is_none_or(|before| line.grows_from(before));
                    assert!(grows, "line {number} was {before:?}: {}", context());
                }
            }
            "cart.set_quantity" => {
                let number = asked.body["line"].as_u64().expect("a line");
                let wanted = asked.body["quantity"].as_u64().expect("a quantity");
                let line = self.lines.get_mut(&number).expect("the line that is set");
                match &mut line.what {
                    What::Places { quantity, .. } | What::Units { quantity, .. } => *quantity = wanted,
                    What::Seats(_) | What::Slot { .. } => panic!("{} has no quantity", context()),
                }
                if wanted == 0 {
                    self.lines.remove(&number);
                }
                assert_eq!(Line::read_all(&body["lines"]), self.lines, "{}", context());
            }
            "cart.release" => {
                let number = asked.body["line"].as_u64().expect("a line");
                let given = asked.body["seats"].as_array();
                match (given, self.lines.get_mut(&number).map(|line| &mut line.what)) {
                    (Some(given), Some(What::Seats(seats))) => {
                        seats.retain(|held, _| !given.iter().any(|given| seat(given) == *held));
                        if seats.is_empty() {
                            self.lines.remove(&number);
                        }
                    }
                    (None, Some(_)) => drop(self.lines.remove(&number)),
                    _ => panic!("{} is of no such line", context()),
                }
                assert_eq!(Line::read_all(&body["lines"]), self.lines);
            }
            "cart.cancel" => {
                assert_eq!(body["state"], "canceled", "{}", context());
                (self.status, self.ended) = (CartStatus::Canceled, Some("canceled"));
            }
            "cart.checkout" => {
                // Late holds were made at the checkout.
                self.lines.values_mut().for_each(|line| line.late = false);
                assert_eq!(Line::read_all(&body["lines"]), self.lines, "{}", context());
                let total = body["total"]["amount"].as_i64().expect("a total");
                assert_eq!(total, self.total(), "{}", context());
                self.status = CartStatus::Done;
                self.by_gateway = asked.body["payment"].get("gateway").is_some();
                self.order = Some((body["id"].as_str().expect("an order").to_owned(), total));
            }
            "order.refund" => {
                let lines: BTreeSet<u64> =
                    body["lines"].as_array().expect("lines").iter().filter_map(Value::as_u64).collect();
                let amount: i64 = lines.iter().map(|line| self.lines[line].total()).sum();
                assert_eq!(body["amount"]["amount"], amount, "{}", context());
                assert!(self.refunded.is_disjoint(&lines) && !lines.is_empty(), "paid back twice: {}", context());
                self.refunded.extend(lines);
            }
            other => panic!("buyers do not ask {other}"),
        }
        self.granted = Some((asked, body.clone()));
    }
}

impl Record {
    /// Records an answer and checks its versions against those of earlier answers.
    ///
    /// # Panics
    /// If they contradict each other.
    pub(crate) fn note(&mut self, asked: &Asked, answer: &Answer) {
        match answer {
            Answer::Ok(_, at) => {
                let (request, answered) = (Granted::new(asked, at), Instant::now());
                let mut wrong = Vec::from_iter(self.repeated(&request, at));
                for (entity, &version) in at {
                    let times = (asked.called, answered);
                    // A late line does not change its product before the checkout.
                    if entity.starts_with("product/") {
                        wrong.extend(self.calls.read(times, entity, version));
                    } else {
                        wrong.extend(self.calls.changed(&request, times, (entity, version, None)));
                    }
                }
                assert!(wrong.is_empty(), "{wrong:#?}");
            }
            Answer::No(no) => *self.refused.entry(no.code).or_default() += 1,
            Answer::Fail(code) => *self.refused.entry(*code).or_default() += 1,
            Answer::Gone => *self.refused.entry(0).or_default() += 1,
        }
    }

    /// Records the versions of an answer to a request. Returns the difference from its first answer (P9).
    pub(crate) fn repeated(&mut self, request: &Granted, at: &BTreeMap<String, u64>) -> Option<String> {
        self.calls.answered(request, at.iter().map(|(entity, version)| (entity.clone(), *version)).collect())
    }

    /// Adds the record of other sellers, without the times of their answers.
    pub(crate) fn add(&mut self, other: Record) {
        self.carts.extend(other.carts);
        self.calls.append(other.calls);
        for (code, times) in other.refused {
            *self.refused.entry(code).or_default() += times;
        }
    }

    pub(crate) fn orders(&self) -> usize {
        self.carts.iter().filter(|cart| cart.order.is_some()).count()
    }
}

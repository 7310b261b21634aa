//! What buyers were told: every acknowledged answer, and what nobody knows.

use std::{collections::BTreeMap, time::Instant};

use serde_json::Value;

use super::{port::Answer, theatre::SeatName};

/// All carts of a test, over all its nodes and crashes.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) carts: Vec<CartRecord>,
    /// The highest version of each entity in any answer.
    pub(crate) versions: BTreeMap<String, u64>,
    /// Refusals and failures by code: what kind of load it was.
    pub(crate) refused: BTreeMap<u64, u64>,
    /// Everything that was granted, with its times.
    pub(crate) granted: Vec<Granted>,
}

/// One request that was granted.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    pub(crate) op: &'static str,
    pub(crate) rid: String,
    /// When it was asked for the first time.
    pub(crate) called: Instant,
    /// When the answer came.
    pub(crate) answered: Instant,
    /// The versions of the answer, by entity.
    pub(crate) at: BTreeMap<String, u64>,
}

/// One request, as it was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) op: &'static str,
    pub(crate) rid: String,
    pub(crate) body: Value,
}

/// Where a cart stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    Active,
    Canceled,
    /// Its time ran out; buyers are not told, whoever looks sees it.
    Expired,
    Done,
}

/// One cart, as its buyer was told.
#[derive(Clone, Debug)]
pub(crate) struct CartRecord {
    pub(crate) token: String,
    /// Its id, once an answer said it.
    pub(crate) id: Option<String>,
    pub(crate) stands: Stands,
    /// By number: session, seats, their prices.
    pub(crate) lines: BTreeMap<u64, Line>,
    /// The order and its total.
    pub(crate) order: Option<(String, i64)>,
    /// The last request that was granted, and its answer.
    pub(crate) granted: Option<(Asked, Value)>,
    /// A request that may or may not have happened; nothing was asked for this cart after it.
    pub(crate) unknown: Option<Asked>,
}

/// A line of a cart or an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) session: String,
    pub(crate) seats: BTreeMap<SeatName, i64>,
}

impl Line {
    pub(crate) fn read(line: &Value) -> (u64, Line) {
        let seats = line["seats"].as_array().expect("seats").iter().map(seat);
        let prices = line["prices"].as_array().expect("prices").iter().map(|price| price.as_i64().expect("a price"));
        assert_eq!(seats.len(), prices.len(), "{line}");
        let session = line["session"].as_str().expect("a session").to_owned();
        (line["line"].as_u64().expect("a number"), Line { session, seats: seats.zip(prices).collect() })
    }

    /// The lines in this list, by number.
    pub(crate) fn read_all(lines: &Value) -> BTreeMap<u64, Line> {
        lines.as_array().expect("lines").iter().map(Line::read).collect()
    }

    fn total(&self) -> i64 {
        self.seats.values().sum()
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
            stands: Stands::Active,
            lines: BTreeMap::new(),
            order: None,
            granted: None,
            unknown: None,
        }
    }

    /// What its lines cost.
    pub(crate) fn total(&self) -> i64 {
        self.lines.values().map(Line::total).sum()
    }

    /// Takes down what was answered to what was asked, and checks that it fits what was answered before.
    pub(crate) fn note(&mut self, asked: Asked, answer: &Answer) {
        if answer.is_unknown() {
            self.unknown = Some(asked);
            return;
        }
        let Answer::Ok(body, _) = answer else { return };
        let context = || format!("{} {} of {}: {body}", asked.op, asked.body, self.token);
        match asked.op {
            "cart.hold_seats" | "cart.hold_best" | "cart.hold_all" => {
                self.id = Some(body["cart"].as_str().expect("a cart").to_owned());
                for (number, line) in Line::read_all(&body["lines"]) {
                    assert!(!line.seats.is_empty(), "{}", context());
                    let before = self.lines.insert(number, line);
                    assert_eq!(before, None, "a line's number came twice");
                }
            }
            "cart.release" => {
                let number = asked.body["line"].as_u64().expect("a line");
                match asked.body["seats"].as_array() {
                    Some(seats) => {
                        let line = self.lines.get_mut(&number).expect("the line that is released from");
                        line.seats.retain(|held, _| !seats.iter().any(|given| seat(given) == *held));
                        if line.seats.is_empty() {
                            self.lines.remove(&number);
                        }
                    }
                    None => drop(self.lines.remove(&number)),
                }
                assert_eq!(Line::read_all(&body["lines"]), self.lines);
            }
            "cart.cancel" => {
                assert_eq!(body["state"], "canceled", "{}", context());
                self.stands = Stands::Canceled;
            }
            "cart.checkout" => {
                assert_eq!(Line::read_all(&body["lines"]), self.lines, "{}", context());
                let total = body["total"]["amount"].as_i64().expect("a total");
                assert_eq!(total, self.total(), "{}", context());
                self.stands = Stands::Done;
                self.order = Some((body["id"].as_str().expect("an order").to_owned(), total));
            }
            other => panic!("buyers do not ask {other}"),
        }
        self.granted = Some((asked, body.clone()));
    }
}

impl Record {
    /// Takes down versions: they never go back for one who asks after an answer.
    pub(crate) fn note(&mut self, answer: &Answer) {
        match answer {
            Answer::Ok(_, versions) => {
                for (entity, &version) in versions {
                    let highest = self.versions.entry(entity.clone()).or_default();
                    *highest = version.max(*highest);
                }
            }
            Answer::No(no) => *self.refused.entry(no.code).or_default() += 1,
            Answer::Fail(code) => *self.refused.entry(*code).or_default() += 1,
            Answer::Gone => *self.refused.entry(0).or_default() += 1,
        }
    }

    pub(crate) fn orders(&self) -> usize {
        self.carts.iter().filter(|cart| cart.order.is_some()).count()
    }
}

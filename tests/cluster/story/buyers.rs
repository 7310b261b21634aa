//! Buyers of the theatre, who write down every answer with the time before and after it.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::terms::{HOUSE_ROWS, ROWS, SEATS, Seat, Type, YARD};
use crate::{
    cluster::FailoverClient,
    common::{Answer, Rng, checkout},
};

/// How long one request is repeated at all nodes.
const LIMIT: Duration = Duration::from_secs(20);
/// How long a payment is repeated.
const PAYS_WITHIN: Duration = Duration::from_secs(60);
/// The longest pauses of buyers before a hold and before a payment, in milliseconds.
const THINK_MS: usize = 100;
const PAYING_MS: usize = 400;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Show {
    Gala,
    Matinee,
}

impl Show {
    pub(super) fn id(self) -> &'static str {
        match self {
            Show::Gala => "gala",
            Show::Matinee => "matinee",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// A guest who shows the code.
    Member,
    Guest,
    Desk,
}

/// What a buyer asks for.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    Seats(Vec<(Seat, Type)>),
    Places(u64, Type),
}

impl Wish {
    pub(super) fn seats(&self) -> &[(Seat, Type)] {
        match self {
            Wish::Seats(seats) => seats,
            Wish::Places(..) => &[],
        }
    }

    /// How many tickets of a type it is for.
    pub(super) fn count(&self, of: Type) -> u64 {
        match self {
            Wish::Seats(seats) => seats.iter().filter(|(_, it)| *it == of).count() as u64,
            Wish::Places(quantity, it) => {
                if *it == of {
                    *quantity
                } else {
                    0
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// The line that was made.
    Held(Value),
    Refused(Value),
    /// No answer came, or a refusal after an attempt without an answer.
    Unknown,
}

/// One wish and what came of it.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) who: Who,
    pub(super) show: Show,
    pub(super) wish: Wish,
    /// When it was sent first, in milliseconds since 1970.
    pub(super) asked: u64,
    pub(super) answered: u64,
    pub(super) outcome: Outcome,
}

impl Hold {
    pub(super) fn is_held(&self) -> bool {
        matches!(self.outcome, Outcome::Held(_))
    }

    /// The code of its refusal.
    pub(super) fn code(&self) -> Option<u64> {
        match &self.outcome {
            Outcome::Refused(no) => no["code"].as_u64(),
            Outcome::Held(_) | Outcome::Unknown => None,
        }
    }
}

/// A cart with all that its buyer was told.
#[derive(Debug)]
pub(super) struct Cart {
    pub(super) token: String,
    pub(super) holds: Vec<Hold>,
    /// The order, with the time after its answer.
    pub(super) order: Option<(Value, u64)>,
}

impl Cart {
    /// Whether it may have more than its buyer knows. It is not paid, and canceled in the end.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.holds.iter().any(|hold| matches!(hold.outcome, Outcome::Unknown))
    }

    fn has_something(&self) -> bool {
        self.holds.iter().any(Hold::is_held)
    }
}

/// What all buyers know.
pub(super) struct Sale {
    /// The code of the members.
    pub(super) code: String,
    /// The prefixes of cart tokens whose carts are in one shard.
    pub(super) prefixes: Range<u16>,
    /// Buyers go home.
    pub(super) is_over: AtomicBool,
}

pub(super) struct Buyer {
    who: Who,
    client: FailoverClient,
    rng: Rng,
    sale: Arc<Sale>,
    pub(super) carts: Vec<Cart>,
}

impl Buyer {
    pub(super) fn new(who: Who, client: FailoverClient, rng: Rng, sale: &Arc<Sale>) -> Buyer {
        Buyer { who, client, rng, sale: Arc::clone(sale), carts: Vec::new() }
    }

    /// Buys seats of the evening until the sale is over.
    pub(super) async fn shop(mut self) -> Vec<Cart> {
        while !self.sale.is_over.load(Relaxed) {
            let wish = self.seats(if self.who == Who::Desk { 20 } else { 12 });
            self.take(Show::Gala, wish).await;
            if matches!(self.last().code(), Some(109 | 218)) {
                // The code has no use left.
                self.who = Who::Guest;
            }
            self.pause(PAYING_MS).await;
            self.pay().await;
            self.pause(THINK_MS).await;
        }
        self.carts
    }

    /// Buys seats of the matinee, and some places in the same cart, until the sale is over.
    pub(super) async fn shop_matinees(mut self) -> Vec<Cart> {
        while !self.sale.is_over.load(Relaxed) {
            let wish = self.seats(0);
            self.take(Show::Matinee, wish).await;
            if self.rng.percent(40) {
                self.pause(THINK_MS).await;
                let of = if self.rng.percent(70) { Type::Adult } else { Type::Under26 };
                let places = Wish::Places(1 + self.rng.below(2) as u64, of);
                self.take_more(Show::Matinee, places).await;
            }
            self.pause(PAYING_MS).await;
            self.pay().await;
        }
        self.carts
    }

    /// One to three seats side by side. Some buyers want those of the house, of a hundred this many.
    fn seats(&mut self, of_house: usize) -> Wish {
        let rows = if self.rng.percent(of_house) { HOUSE_ROWS } else { 0..ROWS };
        let row = rows.start + self.rng.below(rows.len()) as u16;
        let count = 1 + self.rng.below(3) as u16;
        let first = self.rng.below(usize::from(SEATS - count)) as u16;
        let of = |rng: &mut Rng| match rng.below(100) {
            0..60 => Type::Adult,
            60..88 => Type::Under26,
            _ => Type::Carer,
        };
        Wish::Seats((first..first + count).map(|seat| ([row, seat], of(&mut self.rng))).collect())
    }

    async fn pause(&mut self, most_ms: usize) {
        sleep(Duration::from_millis(self.rng.below(most_ms) as u64)).await;
    }

    /// The newest hold.
    pub(super) fn last(&self) -> &Hold {
        self.carts.last().and_then(|cart| cart.holds.last()).expect("a hold")
    }

    /// Asks with a new cart.
    pub(super) async fn take(&mut self, show: Show, wish: Wish) -> &Hold {
        let prefix = self.sale.prefixes.start + self.rng.below(self.sale.prefixes.len()) as u16;
        let token = format!("{prefix:04x}{}", &self.rng.token()[4..]);
        self.carts.push(Cart { token, holds: Vec::new(), order: None });
        self.take_more(show, wish).await
    }

    /// Asks with the same cart, unless it is in doubt.
    pub(super) async fn take_more(&mut self, show: Show, wish: Wish) -> &Hold {
        let cart = self.carts.last_mut().expect("a cart");
        if cart.is_in_doubt() {
            return self.last();
        }
        let (op, mut body) = match &wish {
            Wish::Seats(seats) => {
                let types: Vec<&str> = seats.iter().map(|(_, of)| of.id()).collect();
                let seats: Vec<Seat> = seats.iter().map(|(seat, _)| *seat).collect();
                ("cart.hold_seats", json!({"seats": seats, "types": types}))
            }
            Wish::Places(quantity, of) => {
                ("cart.hold_places", json!({"area": YARD, "quantity": quantity, "types": [of.id()]}))
            }
        };
        (body["token"], body["session"]) = (cart.token.as_str().into(), show.id().into());
        if self.who == Who::Member {
            body["code"] = self.sale.code.as_str().into();
        }
        let rid = format!("hold-{}", cart.holds.len());
        let asked = now_ms();
        let outcome = match self.client.ask_within(op, &rid, body.clone(), LIMIT).await {
            Answer::Ok(body, _) => Outcome::Held(line(&body)),
            Answer::No(no) => Outcome::Refused(no.body),
            // A repeat under the same request id tells what the first one did, if that is known by now.
            Answer::Gone | Answer::Fail(_) => match self.client.ask_within(op, &rid, body, LIMIT).await {
                Answer::Ok(body, _) => Outcome::Held(line(&body)),
                Answer::No(_) | Answer::Gone | Answer::Fail(_) => Outcome::Unknown,
            },
        };
        cart.holds.push(Hold { who: self.who, show, wish, asked, answered: now_ms(), outcome });
        self.last()
    }

    /// Pays for what the cart has. Nothing may keep a buyer from that.
    pub(super) async fn pay(&mut self) {
        let cart = self.carts.last_mut().expect("a cart");
        if cart.is_in_doubt() || !cart.has_something() {
            return;
        }
        let until = Instant::now() + PAYS_WITHIN;
        while Instant::now() < until {
            match self.client.ask_within("cart.checkout", "pay", checkout(&cart.token), LIMIT).await {
                Answer::Ok(order, _) => return cart.order = Some((order, now_ms())),
                Answer::No(no) => panic!("{cart:#?} is not paid: {}", no.body),
                Answer::Gone | Answer::Fail(_) => {}
            }
        }
        panic!("{cart:#?} is not paid within {PAYS_WITHIN:?}");
    }

    /// Asks with new carts until one is answered for sure, and pays for it.
    pub(super) async fn buy(&mut self, show: Show, wish: Wish) -> &Hold {
        while matches!(self.take(show, wish.clone()).await.outcome, Outcome::Unknown) {
            let token = &self.carts.last().expect("a cart").token;
            // The next cart shall not meet what this one may have.
            let _ = self.client.ask_within("cart.cancel", "cancel", json!({"token": token}), LIMIT).await;
        }
        self.pay().await;
        self.last()
    }
}

fn line(held: &Value) -> Value {
    let [line] = &held["lines"].as_array().expect("lines")[..] else { panic!("a hold makes one line: {held}") };
    line.clone()
}

/// The time of this machine, which is that of all nodes.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    since.as_millis().try_into().expect("before the end of time")
}

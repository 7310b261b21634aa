//! A network that takes what it may, and buys nothing.

use std::{sync::Arc, time::Duration};

use boxoffice_core::{
    answer::{Answer, Answered, Outcome},
    command::{BestWish, CartCommand, Expect, Payment, Want, WantedLine},
    id::CartId,
    payment::OnDecline,
    portion::Content,
    refusal::Refusal,
    seat::{Seat, SeatSet},
    time::Timestamp,
};
use rand::{Rng, rngs::SmallRng};
use tokio::{sync::watch, time::sleep};

use super::{
    Hoard,
    house::{House, ROWS, SEATS, WIDTH, floor, holder, is_share},
};
use crate::{
    clock::BEGIN_MS,
    gateway::UNFINISHED,
    rng::{one_of, rng},
};

/// Pauses after an ask that was granted, and after one that was refused, in milliseconds.
const PAUSES_MS: [u64; 2] = [100, 800];
/// Lines of a cart, at most.
const LINES: usize = 20;
/// The most seats of one ask.
const SIZE_MAX: u32 = 20;
/// How often [`Hoard::Again`] gives everything back, in milliseconds.
const AGAIN_MS: u64 = 60_000;
/// Tries of an ask.
const TRIES: u32 = 3;

/// A cart as its hoarder knows it.
struct Cart {
    cart: CartId,
    /// When it ends, in milliseconds of the run.
    ends_ms: u64,
    lines: usize,
    /// How many lines it is to get.
    lines_max: usize,
    held: u32,
    /// Its line that grows, with the quantity.
    growing: Option<(u32, u32)>,
}

/// One network of hoarders.
pub(super) struct Hoarder {
    network: u64,
    hoard: Hoard,
    house: Arc<House>,
    random: SmallRng,
    carts: Vec<Cart>,
    /// How much it asks for at once. Half as much after a refusal.
    size: u32,
    /// The next of every second seat.
    next_seat: u32,
    /// When it last gave everything back.
    gave_back_ms: u64,
}

impl Hoarder {
    pub(super) fn new(network: u64, hoard: Hoard, seed: u64, house: Arc<House>) -> Hoarder {
        let random = rng(seed, "hoarder", network);
        let next_seat = network as u32 * SEATS / 16 * 2;
        Hoarder { network, hoard, house, random, carts: Vec::new(), size: SIZE_MAX, next_seat, gave_back_ms: 0 }
    }

    /// Hoards until told to stop.
    pub(super) async fn hoard(mut self, stop: watch::Receiver<bool>) {
        self.gave_back_ms = self.house.client.trace.now_ms();
        while !*stop.borrow() {
            let now_ms = self.house.client.trace.now_ms();
            self.carts.retain(|cart| cart.ends_ms > now_ms);
            if self.hoard == Hoard::Again && now_ms - self.gave_back_ms >= AGAIN_MS {
                self.gave_back_ms = now_ms;
                while !self.carts.is_empty() {
                    self.give_back().await;
                }
            }
            let has = self.carts.iter().map(|cart| cart.held).sum::<u32>();
            let got = match self.hoard {
                Hoard::Level(level) if has >= level => false,
                _ => self.take().await,
            };
            match self.random.random_range(0..60) {
                0 => self.give_back().await,
                1 | 2 => self.begin_payment().await,
                _ => {}
            }
            sleep(Duration::from_millis(PAUSES_MS[usize::from(!got)])).await;
        }
    }

    /// Asks for more, and returns whether there is more.
    async fn take(&mut self) -> bool {
        let now_ms = self.house.client.trace.now_ms();
        let place = self.carts.iter().position(|cart| cart.lines < cart.lines_max);
        let growing = self.carts.iter().position(|cart| cart.growing.is_some());
        let (place, command) = match (self.hoard, growing) {
            (Hoard::Growth, Some(place)) if !self.random.random_ratio(1, 8) => {
                let (line, quantity) = self.carts[place].growing.expect("it was looked for");
                let (quantity, holder) = (quantity + self.size, Some(holder(self.network)));
                (Some(place), CartCommand::SetQuantity { line, quantity, guest: false, holder, attributes: Vec::new() })
            }
            (Hoard::Growth, _) => (None, House::hold(self.network, vec![self.wanted(Want::places(floor(), 1))])),
            _ => (place, House::hold(self.network, self.wishes())),
        };
        let place = place.unwrap_or_else(|| {
            let cart = self.house.new_cart(self.network, &mut self.random);
            let lines_max = one_of(&mut self.random, &[1, 2, 5, LINES]);
            self.carts.push(Cart { cart, ends_ms: now_ms + 5_000, lines: 0, lines_max, held: 0, growing: None });
            self.carts.len() - 1
        });
        let cart = self.carts[place].cart;
        let outcome = self.house.ask(&mut self.random, cart, command, TRIES).await;
        self.note(place, outcome)
    }

    fn wanted(&self, want: Want) -> WantedLine {
        WantedLine::new(self.house.session.clone(), want)
    }

    /// One line of seats, or several lines at once.
    fn wishes(&mut self) -> Vec<WantedLine> {
        let best = |count: u32| {
            let count = count as u16;
            Want::Best(BestWish {
                count,
                category: None,
                section: None,
                accessible: 0,
                split: true,
                buy_as: Default::default(),
            })
        };
        let want = match self.hoard {
            Hoard::Level(_) => best(1),
            Hoard::Scattered => {
                let seats: Vec<Seat> = (0..self.size).map(|_| self.next_even()).collect();
                Want::seats(SeatSet::new(seats).expect("a few seats, none twice"), true)
            }
            _ if self.random.random_ratio(1, 3) => {
                let first = Seat { row: self.random.random_range(0..ROWS), seat: self.random.random_range(0..WIDTH) };
                let seats = (first.seat..WIDTH).take(self.size as usize).map(|seat| Seat { seat, ..first });
                Want::seats(SeatSet::new(seats).expect("a few seats, none twice"), true)
            }
            _ => best(self.size),
        };
        let mut lines = vec![self.wanted(want)];
        if matches!(self.hoard, Hoard::Greedy | Hoard::Again) && self.random.random_ratio(1, 8) {
            lines.push(self.wanted(best(1)));
            lines.push(self.wanted(Want::places(floor(), 1)));
        }
        lines
    }

    fn next_even(&mut self) -> Seat {
        self.next_seat = (self.next_seat + 2) % SEATS;
        let width = u32::from(WIDTH);
        Seat { row: (self.next_seat / width) as u16, seat: (self.next_seat % width) as u16 }
    }

    /// Notes the outcome of an ask, and returns whether it was granted.
    fn note(&mut self, place: usize, outcome: Option<Outcome>) -> bool {
        let cart = &mut self.carts[place];
        match outcome {
            Some(Ok(Answered { answer: Answer::Held(held), .. })) => {
                let counts = |content: &Content| content.quantity();
                cart.lines += held.lines.len();
                cart.held += held.lines.iter().map(|line| counts(&line.content)).sum::<u32>();
                if self.hoard == Hoard::Growth {
                    cart.growing = held.lines.first().map(|line| (line.line, line.content.quantity()));
                }
                cart.ends_ms = run_ms(held.deadline);
                self.size = (self.size * 2).min(SIZE_MAX);
                self.house.count(true);
                true
            }
            Some(Ok(Answered { answer: Answer::Cart(view), .. })) => {
                if let Some((line, quantity)) = &mut cart.growing
                    && let Some(grown) = view.lines.iter().find(|other| other.line == *line)
                {
                    *quantity = grown.content.quantity();
                    cart.held = *quantity;
                }
                cart.ends_ms = run_ms(view.deadline);
                self.size = (self.size * 2).min(SIZE_MAX);
                self.house.count(true);
                true
            }
            Some(Err(refusal)) => {
                if is_share(&refusal) {
                    self.house.count(false);
                    self.size = (self.size / 2).max(1);
                }
                if matches!(refusal, Refusal::CartExpired | Refusal::NoSuchLine(_) | Refusal::NotFound(_))
                    || cart.held == 0
                {
                    self.carts.swap_remove(place);
                } else if matches!(refusal, Refusal::CartNotActive(_)) {
                    // It is paying.
                    cart.lines_max = cart.lines;
                    cart.growing = None;
                }
                false
            }
            // A node is off. What the cart has nobody knows.
            None | Some(Ok(_)) => {
                cart.lines_max = cart.lines;
                false
            }
        }
    }

    /// Cancels a cart.
    async fn give_back(&mut self) {
        if self.carts.is_empty() {
            return;
        }
        let place = self.random.random_range(0..self.carts.len());
        let cart = self.carts.swap_remove(place).cart;
        self.house.ask(&mut self.random, cart, CartCommand::Cancel, TRIES).await;
    }

    /// Begins a payment that nobody confirms. The cart is to go on when the gateway gives up.
    async fn begin_payment(&mut self) {
        if self.carts.is_empty() {
            return;
        }
        let place = self.random.random_range(0..self.carts.len());
        let cart = self.carts[place].cart;
        let checkout = CartCommand::Checkout {
            payment: Payment::Gateway { source: UNFINISHED.into(), on_decline: Some(OnDecline::Keep) },
            customer: None,
            shipping: None,
            expect: Expect::default(),
            holder: None,
        };
        let (house, mut random) = (Arc::clone(&self.house), rng(self.random.random(), "unfinished", self.network));
        tokio::spawn(async move { house.ask(&mut random, cart, checkout, 1).await });
    }
}

fn run_ms(at: Timestamp) -> u64 {
    at.0.saturating_sub(BEGIN_MS)
}

//! A network that takes what it may, and buys nothing.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use boxoffice_client::{
    BestWish, Cart, CartView, Client, Error, Held, OnDecline, Reply, Seat, Timestamp, WantedLine, gateway,
};
use rand::{Rng, SeedableRng, rngs::SmallRng, seq::IndexedRandom};
use tokio::sync::watch;

use super::{Evening, address::NetworkAddress};
use crate::{clock::now_ms, scenario::HoardKind, setup::floor_id};

/// Lines of a cart.
const LINES: [usize; 5] = [1, 2, 5, 10, 20];
/// The most seats of one ask.
const SIZE_MAX: u32 = 20;
/// How often [`HoardKind::Again`] gives everything back, in milliseconds of the evening.
const AGAIN_MS: u64 = 60_000;
/// How long the gateway waits for a payment that nobody confirms, in milliseconds. A node gives it up before. The minute after
/// which it does is not configured, so a faster evening has payments that are over sooner.
const UNFINISHED_MS: u64 = 600_000;
const UNFINISHED_FAST_MS: u64 = 60_000;
/// The pause before a network that cannot connect tries again.
const CONNECT_AGAIN: Duration = Duration::from_millis(200);

struct HoardCart {
    cart: Cart,
    until: Timestamp,
    /// The quantity of each line.
    lines: BTreeMap<u32, u32>,
    /// How many lines it is to get.
    lines_max: usize,
    /// Its line that grows, with the quantity.
    growing: Option<(u32, u32)>,
}

impl HoardCart {
    fn held(&self) -> u32 {
        self.lines.values().sum()
    }
}

/// One network of hoarders.
pub(super) struct Hoarder {
    number: u32,
    kind: HoardKind,
    evening: Arc<Evening>,
    random: SmallRng,
    /// A client of each node.
    clients: Vec<Client>,
    carts: Vec<HoardCart>,
    /// How much it asks for at once. Half as much after a refusal.
    size: u32,
    /// The next of every second seat.
    next_seat: u32,
    gave_back_ms: u64,
}

impl Hoarder {
    pub(super) fn new(number: u32, kind: HoardKind, evening: Arc<Evening>, seed: u64) -> Hoarder {
        let all = u32::from(evening.rows) * u32::from(evening.width);
        let next_seat = number * all / 16 * 2;
        let (clients, carts) = (Vec::new(), Vec::new());
        let random = SmallRng::seed_from_u64(seed);
        Hoarder { number, kind, evening, random, clients, carts, size: SIZE_MAX, next_seat, gave_back_ms: 0 }
    }

    /// Hoards until told to stop.
    pub(super) async fn hoard(mut self, stop: watch::Receiver<bool>) {
        while self.clients.len() < self.evening.addresses.len() {
            match self.evening.connect(NetworkAddress::hoarder(self.number), self.clients.len()).await {
                Ok(client) => self.clients.push(client),
                Err(_) => tokio::time::sleep(CONNECT_AGAIN).await,
            }
        }
        let pause = Duration::from_millis(self.evening.spec.pause_ms);
        while !*stop.borrow() {
            self.carts.retain(|cart| cart.until.0 > now_ms());
            if self.kind == HoardKind::Again && self.evening.now_ms() - self.gave_back_ms >= AGAIN_MS {
                self.gave_back_ms = self.evening.now_ms();
                while !self.carts.is_empty() {
                    self.give_back().await;
                }
            }
            let has = self.carts.iter().map(HoardCart::held).sum::<u32>();
            let got = match self.kind {
                HoardKind::Level if has >= self.evening.spec.level => false,
                _ => self.take().await,
            };
            match self.random.random_range(0..400) {
                0..2 => self.give_back().await,
                2..12 => self.begin_payment(),
                12..20 => self.touch().await,
                _ => {}
            }
            if !got {
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// Asks for more, and returns whether there is more.
    async fn take(&mut self) -> bool {
        let growing = self.carts.iter().position(|cart| cart.growing.is_some());
        if let (HoardKind::Growth, Some(place)) = (self.kind, growing)
            && !self.random.random_ratio(1, 8)
        {
            return self.grow(place).await;
        }
        let place = match self.carts.iter().position(|cart| cart.lines.len() < cart.lines_max) {
            Some(place) if self.kind != HoardKind::Growth => place,
            _ => self.open(),
        };
        let cart = self.cart(place);
        self.evening.ledger.begin(cart.id());
        let held = self.hold(&cart).await;
        self.held(place, held)
    }

    /// Asks for one line or several, by any of the ops.
    async fn hold(&mut self, cart: &Cart) -> Result<Reply<Held>, Error> {
        let evening = Arc::clone(&self.evening);
        let (session, size) = (&evening.session, self.size);
        let best =
            |count: u32| BestWish { count: count as u16, category: None, section: None, accessible: 0, split: true };
        match self.kind {
            HoardKind::Level => cart.hold_best(session, best(1)).await,
            HoardKind::Growth => cart.hold_places(session, &floor_id(), 1).await,
            HoardKind::Scattered => {
                let seats: Vec<Seat> = (0..size).map(|_| self.next_even()).collect();
                cart.hold_seats(session, seats).best_effort().await
            }
            HoardKind::Greedy | HoardKind::Again | HoardKind::Mixed => match self.random.random_range(0..8) {
                0..4 => cart.hold_best(session, best(size)).await,
                4..6 => {
                    let first = self.random.random_range(0..evening.width);
                    let row = self.random.random_range(0..evening.rows);
                    let seats = (first..evening.width).take(size as usize).map(|seat| Seat { row, seat });
                    cart.hold_seats(session, seats).best_effort().await
                }
                6 => cart.hold_places(session, &floor_id(), size).await,
                _ => {
                    let row = self.random.random_range(0..evening.rows);
                    let line = || WantedLine { session: Some(session.clone()), ..WantedLine::default() };
                    let best = |count: u32| WantedLine { count: Some(count as u16), split: true, ..line() };
                    let wants = [
                        best(size),
                        best(1),
                        WantedLine { seats: Some(vec![Seat { row, seat: 0 }]), best_effort: true, ..line() },
                        WantedLine { area: Some(floor_id()), quantity: Some(1.into()), ..line() },
                    ];
                    let count = self.random.random_range(2..=wants.len());
                    cart.hold_all(wants.into_iter().take(count)).await
                }
            },
        }
    }

    fn next_even(&mut self) -> Seat {
        let width = u32::from(self.evening.width);
        self.next_seat = (self.next_seat + 2) % (u32::from(self.evening.rows) * width);
        Seat { row: (self.next_seat / width) as u16, seat: (self.next_seat % width) as u16 }
    }

    fn open(&mut self) -> usize {
        let client = self.clients.choose(&mut self.random).expect("there is a node");
        let cart = match self.random.random_ratio(3, 4) {
            true => Cart::beside(client, &self.evening.entity()),
            false => Cart::new(client),
        };
        self.evening.ledger.open(cart.id(), self.number);
        let lines_max = *LINES.choose(&mut self.random).expect("there are some");
        // Until it has something, it is forgotten soon.
        let until = Timestamp(now_ms() + 5_000);
        self.carts.push(HoardCart { cart, until, lines: BTreeMap::new(), lines_max, growing: None });
        self.carts.len() - 1
    }

    /// The cart at this place, at any node.
    fn cart(&mut self, place: usize) -> Cart {
        let client = self.clients.choose(&mut self.random).expect("there is a node");
        Cart::with_token(client, self.carts[place].cart.token())
    }

    /// Notes the outcome of a hold, and returns whether there is more.
    fn held(&mut self, place: usize, outcome: Result<Reply<Held>, Error>) -> bool {
        let is_growth = self.kind == HoardKind::Growth;
        let it = &mut self.carts[place];
        match outcome {
            Ok(reply) => {
                let held = reply.value;
                // More places are a line that grows.
                it.lines.extend(held.lines.iter().map(|line| (line.line, line.content.quantity())));
                if is_growth {
                    it.growing = held.lines.first().map(|line| (line.line, line.content.quantity()));
                }
                self.granted(place, held.deadline)
            }
            Err(error) => self.refused(place, &error),
        }
    }

    /// Asks for more of the line that grows.
    async fn grow(&mut self, place: usize) -> bool {
        let (line, quantity) = self.carts[place].growing.expect("it was looked for");
        let cart = self.cart(place);
        self.evening.ledger.begin(cart.id());
        match cart.set_quantity(line, quantity + self.size).await {
            Ok(reply) => {
                self.is_now(place, &reply.value);
                self.granted(place, reply.value.deadline)
            }
            Err(error) => self.refused(place, &error),
        }
    }

    /// Notes what the cart has.
    fn is_now(&mut self, place: usize, view: &CartView) {
        let it = &mut self.carts[place];
        it.lines = view.lines.iter().map(|line| (line.line, line.content.quantity())).collect();
        if let Some((line, quantity)) = &mut it.growing
            && let Some(grown) = view.lines.iter().find(|other| other.line == *line)
        {
            *quantity = grown.content.quantity();
        }
    }

    fn granted(&mut self, place: usize, deadline: Timestamp) -> bool {
        let it = &mut self.carts[place];
        it.until = deadline;
        self.size = (self.size * 2).min(SIZE_MAX);
        self.evening.ledger.end(it.cart.id(), Some((it.held(), it.until)));
        self.evening.ledger.count(Ok(()));
        true
    }

    fn refused(&mut self, place: usize, error: &Error) -> bool {
        let it = &mut self.carts[place];
        let ledger = &self.evening.ledger;
        ledger.end(it.cart.id(), None);
        match error {
            Error::Refused(no) => {
                ledger.count(Err(&no.name));
                self.size = (self.size / 2).max(1);
                if matches!(&*no.name, "cart_expired" | "cart_not_active" | "not_found" | "no_such_line")
                    || it.lines.is_empty()
                {
                    ledger.doubt(it.cart.id());
                    self.carts.swap_remove(place);
                }
            }
            Error::Failed(fail) if !fail.kind.may_have_happened() => ledger.count(Err(fail.kind.name())),
            _ => {
                ledger.count(Err("unknown"));
                ledger.doubt(it.cart.id());
                // What it has is not known. It ends some time.
                self.carts.swap_remove(place);
            }
        }
        false
    }

    /// Makes a cart live longer, by a line that comes and goes.
    async fn touch(&mut self) {
        if self.carts.is_empty() {
            return;
        }
        let place = self.random.random_range(0..self.carts.len());
        let cart = self.cart(place);
        self.evening.ledger.begin(cart.id());
        let session = self.evening.session.clone();
        let wish = BestWish { count: 1, category: None, section: None, accessible: 0, split: true };
        let held = match cart.hold_best(&session, wish).await {
            Ok(held) => held.value,
            Err(error) => {
                self.refused(place, &error);
                return;
            }
        };
        match cart.release(held.lines[0].line, None).await {
            Ok(reply) => {
                self.is_now(place, &reply.value);
                self.granted(place, reply.value.deadline);
            }
            Err(error) => {
                self.evening.ledger.doubt(cart.id());
                self.refused(place, &error);
            }
        }
    }

    /// Cancels a cart.
    async fn give_back(&mut self) {
        if self.carts.is_empty() {
            return;
        }
        let place = self.random.random_range(0..self.carts.len());
        let cart = self.cart(place);
        let it = self.carts.swap_remove(place);
        self.evening.ledger.begin(cart.id());
        let gone = cart.cancel().await;
        self.evening.ledger.end(it.cart.id(), gone.is_ok().then_some((0, Timestamp(0))));
        if gone.is_err() {
            self.evening.ledger.doubt(it.cart.id());
        }
    }

    /// Begins a payment that nobody confirms. The cart is to go on when the gateway gives up.
    fn begin_payment(&mut self) {
        if self.carts.is_empty() {
            return;
        }
        let place = self.random.random_range(0..self.carts.len());
        let cart = self.cart(place);
        self.evening.ledger.doubt(cart.id());
        let spec = &self.evening.spec;
        let late_ms = if spec.speed == 1 { UNFINISHED_MS } else { spec.ms(UNFINISHED_FAST_MS) };
        let source = format!("late-{late_ms}+decline");
        // Nobody waits for the answer.
        tokio::spawn(async move { cart.checkout(gateway(source, Some(OnDecline::Keep)), None).await });
    }
}

//! Clients that obey `retry_after_ms`, as the client library does, and clients that ignore it, at a node with this admission, in
//! simulated time. What they do together is decided by both sides, so both are the real ones.

use std::{collections::VecDeque, time::Duration};

use boxoffice_client::{NextCall, WaitingRequests};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::time::Instant;

use super::{tests::patient, *};

/// Connections, each with many buyers.
const CONNECTIONS: usize = 32;

/// Commands that the node decides in a millisecond. A purchase is two of them.
const PER_MS: f64 = 7.0;

/// What a refusal costs, in commands: 4 of 143 µs.
const REFUSAL: f64 = 0.03;

/// A node that sheds reads each connection once in this time, in milliseconds.
const REST_MS: u64 = 10;

/// How long a frame and its answer are on their way, in milliseconds.
const WAY_MS: u64 = 1;

/// How long a buyer waits, in milliseconds.
const DEADLINE_MS: u64 = 10_000;

/// In each period the node decides nothing for a while, as when its disk is slow for once. In milliseconds.
const PERIOD_MS: u64 = 5_000;
const STALL_MS: u64 = 200;

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

#[derive(Clone, Copy, Debug)]
struct Purchase {
    came_ms: u64,
    began_ms: u64,
    connection: usize,
    buys: bool,
}

/// What has happened since the measurement began.
#[derive(Debug, Default)]
struct Measured {
    bought: u64,
    granted: u64,
    not_bought: u64,
    refused: u64,
    given_up: u64,
    ages_ms: Vec<u64>,
    idle: f64,
}

struct World {
    rng: SmallRng,
    admission: Admission,
    began: Instant,
    now_ms: u64,
    clients: Vec<WaitingRequests<Purchase>>,
    /// Frames that the node has not read, by connection.
    frames: Vec<VecDeque<(u64, Purchase)>>,
    /// Admitted commands.
    queue: VecDeque<(Pass, Purchase)>,
    answers: VecDeque<(u64, Purchase, Result<(), u32>)>,
    owed: f64,
    /// Work that the node may do now, in commands.
    power: f64,
    measured: Measured,
    order: Order,
}

/// Which waiting purchase begins next while the node sheds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// As the client has it.
    YoungestFirst,
    OldestFirst,
    /// What cannot be finished in time is begun as well.
    OldestWithoutGivingUp,
    /// Every purchase begins at once, and one that is refused is given up.
    Ignoring,
}

impl World {
    fn new(order: Order, seed: u64) -> World {
        let began = Instant::now();
        World {
            rng: SmallRng::seed_from_u64(seed),
            admission: Admission::new(OverloadSettings::default(), 0),
            began,
            now_ms: 0,
            clients: (0..CONNECTIONS).map(|_| WaitingRequests::new(256, began)).collect(),
            frames: vec![VecDeque::new(); CONNECTIONS],
            queue: VecDeque::new(),
            answers: VecDeque::new(),
            owed: 0.0,
            power: 0.0,
            measured: Measured::default(),
            order,
        }
    }

    fn instant(&self, ms: u64) -> Instant {
        self.began + Duration::from_millis(ms)
    }

    /// Offers a multiple of the capacity.
    fn offer(&mut self, times: f64, ms: u64) {
        for _ in 0..ms {
            self.owed += times * PER_MS / 2.0;
            while self.owed >= 1.0 {
                self.owed -= 1.0;
                let connection = self.rng.random_range(0..CONNECTIONS);
                let purchase = Purchase { came_ms: self.now_ms, began_ms: self.now_ms, connection, buys: false };
                match self.order {
                    Order::Ignoring => self.frames[connection].push_back((self.now_ms + WAY_MS, purchase)),
                    _ => self.wait(purchase),
                }
            }
            self.answers();
            self.begin();
            self.read();
            self.decide();
            self.now_ms += 1;
        }
    }

    fn wait(&mut self, purchase: Purchase) {
        // Clients of another order are told a wrong time.
        let came_ms = if self.order == Order::YoungestFirst { purchase.came_ms } else { DAY_MS - purchase.came_ms };
        let (came, deadline) = (self.instant(came_ms), self.instant(purchase.came_ms + DEADLINE_MS));
        self.clients[purchase.connection].push(purchase, came, deadline);
    }

    fn begin(&mut self) {
        let now = self.instant(self.now_ms);
        for connection in 0..CONNECTIONS {
            while let Some(turn) = self.clients[connection].next(now) {
                match turn {
                    NextCall::GiveUp(_) => self.measured.given_up += 1,
                    NextCall::Begin(purchase) => {
                        let began_ms = self.now_ms;
                        self.frames[connection].push_back((self.now_ms + WAY_MS, Purchase { began_ms, ..purchase }));
                    }
                }
            }
        }
    }

    /// The node reads frames, and admits or refuses their commands.
    fn read(&mut self) {
        let sheds = self.admission.is_shedding();
        for connection in 0..CONNECTIONS {
            if sheds && !(self.now_ms + connection as u64).is_multiple_of(REST_MS) {
                continue;
            }
            while let Some((_, purchase)) = self.frames[connection].pop_front_if(|(at_ms, _)| *at_ms <= self.now_ms) {
                let class = if purchase.buys { Class::Checkout } else { Class::Begin };
                let left_ms = (purchase.came_ms + DEADLINE_MS).saturating_sub(self.now_ms);
                match self.admission.admit(purchase.buys, || Some(class), patient(left_ms), self.now_ms) {
                    Ok(pass) => self.queue.push_back((pass, purchase)),
                    Err(retry_after_ms) => {
                        self.power -= REFUSAL;
                        self.answers.push_back((self.now_ms + WAY_MS, purchase, Err(retry_after_ms)));
                    }
                }
            }
        }
    }

    fn decide(&mut self) {
        if self.now_ms % PERIOD_MS < STALL_MS {
            return;
        }
        self.power += PER_MS;
        while self.power >= 1.0 {
            let Some((pass, purchase)) = self.queue.pop_front() else {
                self.measured.idle += self.power / PER_MS;
                self.power = 0.0;
                break;
            };
            self.power -= 1.0;
            self.admission.taken(pass, self.now_ms);
            self.admission.over(pass, true, self.now_ms);
            self.answers.push_back((self.now_ms + WAY_MS, purchase, Ok(())));
        }
    }

    fn answers(&mut self) {
        let now = self.instant(self.now_ms);
        while let Some((_, purchase, answer)) = self.answers.pop_front_if(|(at_ms, ..)| *at_ms <= self.now_ms) {
            let client = &mut self.clients[purchase.connection];
            let is_late = purchase.came_ms + DEADLINE_MS <= self.now_ms;
            match answer {
                Ok(()) if purchase.buys => {
                    if self.order != Order::OldestWithoutGivingUp {
                        client.finished_after(Duration::from_millis(self.now_ms - purchase.began_ms), now);
                    }
                    self.measured.bought += u64::from(!is_late);
                    self.measured.not_bought += u64::from(is_late);
                }
                Ok(()) => {
                    if self.order != Order::Ignoring {
                        client.on_answer();
                    }
                    self.measured.granted += 1;
                    self.measured.ages_ms.push(purchase.began_ms - purchase.came_ms);
                    if is_late {
                        self.measured.not_bought += 1;
                    } else {
                        let frame = (self.now_ms + WAY_MS, Purchase { buys: true, ..purchase });
                        self.frames[purchase.connection].push_back(frame);
                    }
                }
                Err(_) if self.order == Order::Ignoring => self.measured.refused += 1,
                Err(retry_after_ms) => {
                    self.measured.refused += 1;
                    let wait_ms = f64::from(retry_after_ms) * self.rng.random_range(0.5..1.5);
                    client.on_busy(Duration::from_micros((wait_ms * 1e3) as u64), now);
                    self.wait(purchase);
                }
            }
        }
    }

    /// The goodput over 20 s as a share of the capacity, after 5 s.
    fn goodput(&mut self, times: f64) -> f64 {
        self.offer(times, 5_000);
        self.measured = Measured::default();
        self.offer(times, 20_000);
        let works = 1.0 - STALL_MS as f64 / PERIOD_MS as f64;
        self.measured.bought as f64 / (20_000.0 * works * PER_MS / 2.0)
    }
}

/// Whether the promises of a load run hold, and the figures in words.
fn judged(order: Order, times: f64, seed: u64) -> (bool, String) {
    let mut world = World::new(order, seed);
    let goodput = world.goodput(times);
    let Measured { granted, not_bought, refused, given_up, mut ages_ms, idle, .. } = world.measured;
    ages_ms.sort_unstable();
    let age_ms = |percent: usize| ages_ms[(ages_ms.len() - 1) * percent / 100];
    let lost = not_bought as f64 / granted as f64;
    let least = if order == Order::Ignoring && times > 2.0 { 0.9 } else { 0.95 };
    let is_kept = goodput >= least && lost <= 0.000_5 && age_ms(50) <= 1_000;
    let words = format!(
        "{order:?}, {times} times: goodput {goodput:.3}, idle {:.3}, refused {refused}, granted {granted}, not bought \
         {not_bought}, given up {given_up}, age {} and {} ms",
        idle / 20_000.0,
        age_ms(50),
        age_ms(99)
    );
    (is_kept, words)
}

#[test]
fn clients_that_ignore_the_advice_leave_the_node_busy_with_purchases() {
    for (seed, times) in [(7, 1.0), (8, 2.0), (9, 3.0)] {
        let (is_kept, words) = judged(Order::Ignoring, times, seed);
        assert!(is_kept, "{words}");
    }
}

#[test]
fn obeying_clients_get_what_the_node_can_do() {
    for (seed, times) in [(1, 1.0), (2, 2.0), (3, 3.0), (4, 10.0)] {
        let (is_kept, words) = judged(Order::YoungestFirst, times, seed);
        assert!(is_kept, "{words}");
    }
    // The same is not so for clients that begin with the oldest one, whether or not they give up in time.
    for (order, times) in [(Order::OldestFirst, 2.0), (Order::OldestFirst, 10.0), (Order::OldestWithoutGivingUp, 3.0)] {
        let (is_kept, words) = judged(order, times, 6);
        assert!(!is_kept, "{words}");
    }
}

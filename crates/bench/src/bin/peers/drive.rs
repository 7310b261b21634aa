//! The closed loop that drives every system alike, with the same purchases, tasks and clock.

use std::{
    fmt,
    future::Future,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use boxoffice_core::id::{CartId, CartToken};
use boxoffice_workload::{
    arrival::FlowNumber,
    flow::{Choice, Picker},
    goods::{Good, Goods},
    run_seed::RunSeed,
    statistics::LatencyStatistics,
};
use rand::seq::index::sample;

/// An error of a system in words.
pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;

/// One purchase: a new cart, five named seats of one session, an order.
#[derive(Clone, Debug)]
pub(crate) struct Purchase {
    pub(crate) token: CartToken,
    pub(crate) cart: CartId,
    pub(crate) choice: Choice,
}

/// How a purchase ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bought {
    /// The order is written and on disk.
    Sold,
    /// Seats were taken, so nothing changed.
    Refused,
}

/// Products of a basket, all different.
pub(crate) const BASKET: usize = 5;

/// One cart of the shop: one unit each of some products, and an order.
#[derive(Clone, Debug)]
pub(crate) struct Basket {
    pub(crate) token: CartToken,
    pub(crate) cart: CartId,
    pub(crate) products: [u32; BASKET],
}

/// How a cart is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// By a round trip of its own.
    First,
    /// By the hold.
    WithTheHold,
}

/// One connection to a system, shared by some clients.
pub(crate) trait Till: Clone + Send + Sync + 'static {
    /// Opens the cart, holds the seats and checks out. Each is a round trip, durable before the next.
    fn buy(&self, purchase: &Purchase, opening: Opening) -> impl Future<Output = Result<Bought, Failed>> + Send;

    /// Puts a unit of each product into a new cart, one after the other, and orders. These are six round trips, each
    /// durable before the next.
    fn order(&self, basket: &Basket) -> impl Future<Output = Result<Bought, Failed>> + Send;
}

/// The sales that were found at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verified {
    pub(crate) seats_sold: u64,
    pub(crate) orders: u64,
}

/// How many clients there are and how they are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) clients: usize,
    pub(crate) connections: usize,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.clients == self.connections {
            write!(f, "{} clients, a connection each", self.clients)
        } else {
            write!(f, "{} clients over {} connections", self.clients, self.connections)
        }
    }
}

/// The figures of one closed loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) flows_per_second: f64,
    pub(crate) mean_ms: f64,
    pub(crate) p99_ms: f64,
    /// The rate of the slowest [`WINDOW_S`] seconds, as a share of the median of such windows. `None` if the loop ended
    /// sooner.
    pub(crate) slowest: Option<f64>,
}

/// See [`Measured::slowest`].
pub(crate) const WINDOW_S: usize = 5;

/// The purchase of a flow.
pub(crate) fn purchase(picker: &Picker, index: u32) -> Purchase {
    let flow = FlowNumber { group: 0, index };
    let choice = picker.choose(flow, 0);
    let token = picker.token(flow, &choice);
    Purchase { token, cart: token.cart(), choice }
}

/// The basket of a flow: different products, drawn with the same chance.
pub(crate) fn basket(seed: &RunSeed, goods: &Goods, index: u32) -> Basket {
    let flow = FlowNumber { group: 0, index };
    let chosen = sample(&mut seed.rng(flow, 0), goods.products as usize, BASKET);
    let mut products = [0; BASKET];
    for (place, product) in chosen.into_iter().enumerate() {
        products[place] = product as u32;
    }
    let token = seed.token_beside(flow, &goods.entity(Good::Product(products[0])));
    Basket { token, cart: token.cart(), products }
}

/// The work of the flows in a turn.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// They buy seats.
    Seats(Arc<Picker>, Opening),
    /// They order baskets of these products.
    Baskets(RunSeed, Goods),
}

impl Work {
    /// Runs flow `index`. A refusal is an error, because no two flows want the same.
    async fn flow<T: Till>(&self, till: &T, index: u32) -> Result<(), Failed> {
        let bought = match self {
            Work::Seats(picker, opening) => till.buy(&purchase(picker, index), *opening).await?,
            Work::Baskets(seed, goods) => till.order(&basket(seed, goods, index)).await?,
        };
        match bought {
            Bought::Sold => Ok(()),
            Bought::Refused => Err(format!("flow {index} was refused what is free").into()),
        }
    }
}

/// Runs these flows with `clients` tasks over these tills. Every flow must be sold.
pub(crate) async fn closed_loop<T: Till>(
    tills: &[T],
    clients: usize,
    work: Work,
    purchases: Range<u32>,
) -> Result<Measured, Failed> {
    let flows = purchases.end - purchases.start;
    let next = Arc::new(AtomicU32::new(purchases.start));
    let start = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let till = tills[client % tills.len()].clone();
            let (next, work) = (next.clone(), work.clone());
            tokio::spawn(async move {
                let mut ended = Vec::with_capacity(flows as usize / clients * 2);
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= purchases.end {
                        return Ok::<_, Failed>(ended);
                    }
                    let begun = Instant::now();
                    work.flow(&till, index).await?;
                    ended.push((start.elapsed(), begun.elapsed().as_micros() as u64));
                }
            })
        })
        .collect();
    let mut durations_us = Vec::with_capacity(flows as usize);
    let mut ended_in_second = Vec::new();
    for task in tasks {
        for (end, duration_us) in task.await?? {
            let second = end.as_secs() as usize;
            if ended_in_second.len() <= second {
                ended_in_second.resize(second + 1, 0);
            }
            ended_in_second[second] += 1;
            durations_us.push(duration_us);
        }
    }
    let elapsed: Duration = start.elapsed();
    // The last second is incomplete.
    ended_in_second.pop();
    let statistics = LatencyStatistics::of(&mut durations_us).ok_or("no flow was run")?;
    assert_eq!(statistics.count, u64::from(flows), "every flow is measured once");
    Ok(Measured {
        flows_per_second: f64::from(flows) / elapsed.as_secs_f64(),
        mean_ms: statistics.mean,
        p99_ms: statistics.p99,
        slowest: slowest(&ended_in_second),
    })
}

/// The fewest flows that ended within [`WINDOW_S`] seconds, as a share of the median.
fn slowest(ended_in_second: &[u64]) -> Option<f64> {
    let mut windows: Vec<u64> = ended_in_second.windows(WINDOW_S).map(|window| window.iter().sum()).collect();
    windows.sort_unstable();
    Some(*windows.first()? as f64 / windows[windows.len() / 2] as f64)
}

/// Asks again for sold seats, with new carts. Every request must be refused.
pub(crate) async fn challenge<T: Till>(
    till: &T,
    (picker, opening): (&Picker, Opening),
    flows: u32,
    attempts: u32,
) -> Result<(), Failed> {
    for attempt in 0..attempts {
        let sold = purchase(picker, (u64::from(attempt) * u64::from(flows) / u64::from(attempts)) as u32);
        let token = picker.token(FlowNumber { group: 1, index: attempt }, &sold.choice);
        let again = Purchase { token, cart: token.cart(), choice: sold.choice };
        if till.buy(&again, opening).await? == Bought::Sold {
            return Err(format!("sold twice: {again:?}").into());
        }
    }
    Ok(())
}

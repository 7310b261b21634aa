//! One of the compared systems, and its turns.

use std::{
    io,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use boxoffice_load::machine::CpuTimes;
use boxoffice_workload::{
    flow::{Pick, Picker},
    goods::Goods,
    house::House,
    run_seed::RunSeed,
};

use crate::{
    Flow, Nodes, PRICE,
    boxoffice::Boxoffice,
    drive::{
        BASKET, Basket, Failed, Measured, Opening, Purchase, Shape, Till, Verified, Work, basket, challenge,
        closed_loop, purchase,
    },
    postgres_sync::Postgres,
    redis_always::Redis,
    report::Round,
};

/// Seats of a purchase.
const SEATS: u16 = 5;

/// Purchases are the same in every turn except for the prefix of their ids.
const SEED: u64 = 1;

/// Purchases over each connection before a turn is measured. Then every system has made its plans and its code is warm.
const WARM_UP: u32 = 5;

/// Purchases of sold seats that are tried after each turn. Each must be refused.
const CHALLENGES: u32 = 50;

/// Products of the shop.
const PRODUCTS: u32 = 1_000;

/// Units of each product, enough for every turn.
const STOCK: u64 = 1_000_000;

/// The systems that are compared.
pub(crate) enum System {
    Boxoffice(Boxoffice),
    Redis(Redis),
    Postgres(Postgres),
}

impl System {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            System::Boxoffice(boxoffice) => match boxoffice.nodes() {
                Nodes::One => "Boxoffice always",
                Nodes::Three if boxoffice.to_leaders() => "Boxoffice leaders",
                Nodes::Three => "Boxoffice 3 nodes",
            },
            System::Redis(redis) => match redis.nodes() {
                Nodes::One => "Redis always",
                Nodes::Three => "Redis WAIT 1",
            },
            System::Postgres(postgres) => match postgres.nodes() {
                Nodes::One => "PostgreSQL sync",
                Nodes::Three => "PostgreSQL standby",
            },
        }
    }

    /// Processor time used so far by all its servers.
    fn cpu(&self) -> io::Result<Duration> {
        match self {
            System::Boxoffice(boxoffice) => boxoffice.cpu(),
            System::Redis(redis) => redis.cpu(),
            System::Postgres(postgres) => postgres.cpu(),
        }
    }

    async fn prepare(&self, house: &House) -> Result<(), Failed> {
        match self {
            System::Boxoffice(boxoffice) => boxoffice.prepare(house).await,
            System::Redis(redis) => redis.prepare(house).await,
            System::Postgres(postgres) => postgres.prepare(house).await,
        }
    }

    async fn prepare_shop(&self, goods: &Goods) -> Result<(), Failed> {
        match self {
            System::Boxoffice(boxoffice) => boxoffice.prepare_shop(goods).await,
            System::Redis(redis) => redis.prepare_shop(goods).await,
            System::Postgres(postgres) => postgres.prepare_shop(goods).await,
        }
    }

    /// Counts units and orders, and checks that every order has its products.
    async fn verify_shop(&self, goods: &Goods, baskets: &[Basket]) -> Result<Verified, Failed> {
        match self {
            System::Boxoffice(boxoffice) => boxoffice.verify_shop(goods, baskets).await,
            System::Redis(redis) => redis.verify_shop(goods, baskets).await,
            System::Postgres(postgres) => postgres.verify_shop(goods, baskets).await,
        }
    }

    async fn verify(&self, house: &House, carts: &[Purchase]) -> Result<Verified, Failed> {
        match self {
            System::Boxoffice(boxoffice) => boxoffice.verify(house, carts).await,
            System::Redis(redis) => redis.verify(house, carts).await,
            System::Postgres(postgres) => postgres.verify(house, carts).await,
        }
    }

    /// One turn: a fresh house or shop, the closed loop, the challenge, the count.
    pub(crate) async fn turn(&self, flow: Flow, shape: Shape, flows: u32) -> Result<Round, Failed> {
        let warm_up = WARM_UP * shape.connections as u32;
        let all = warm_up + flows;
        let (looped, verified, sold) = match flow {
            Flow::Theatre | Flow::TwoSteps => {
                let opening = if flow == Flow::Theatre { Opening::First } else { Opening::WithTheHold };
                let house = fresh_house(all);
                self.prepare(&house).await?;
                let picker = Arc::new(Picker::new(house.clone(), Pick::Next, SEATS, u64::from(all), SEED)?);
                let (none, work) = (Goods::default(), Work::Seats(picker.clone(), opening));
                let looped = self.connect_and_run(&house, &none, shape, &work, warm_up, flows).await?;
                let carts: Vec<Purchase> = (0..all).map(|index| purchase(&picker, index)).collect();
                (looped, self.verify(&house, &carts).await?, u64::from(SEATS))
            }
            Flow::Cart => {
                let goods = fresh_shop();
                self.prepare_shop(&goods).await?;
                let seed = RunSeed { prefix: goods.prefix.clone(), seed: SEED };
                let work = Work::Baskets(seed.clone(), goods.clone());
                let looped = self.connect_and_run(&fresh_house(1), &goods, shape, &work, warm_up, flows).await?;
                let baskets: Vec<Basket> = (0..all).map(|index| basket(&seed, &goods, index)).collect();
                (looped, self.verify_shop(&goods, &baskets).await?, BASKET as u64)
            }
        };
        let wanted = Verified { seats_sold: u64::from(all) * sold, orders: u64::from(all) };
        if verified != wanted {
            return Err(format!("{} has {verified:?} after {wanted:?} were acknowledged", self.name()).into());
        }
        Ok(Round {
            system: self.name(),
            clients: shape.clients,
            connections: shape.connections,
            flows_per_second: looped.measured.flows_per_second,
            mean_ms: looped.measured.mean_ms,
            p99_ms: looped.measured.p99_ms,
            slowest: looped.measured.slowest,
            server_cpu_us: looped.server_cpu.as_secs_f64() * 1e6 / f64::from(flows),
            steal_percent: looped.steal_percent,
        })
    }

    async fn connect_and_run(
        &self,
        house: &House,
        goods: &Goods,
        shape: Shape,
        work: &Work,
        warm_up: u32,
        flows: u32,
    ) -> Result<Looped, Failed> {
        match self {
            System::Boxoffice(boxoffice) => {
                let tills = boxoffice.connect(house, goods, shape.connections).await?;
                self.run(&tills, shape, work, warm_up, flows).await
            }
            System::Redis(redis) => {
                let tills = redis.connect(house, goods, shape.connections).await?;
                self.run(&tills, shape, work, warm_up, flows).await
            }
            System::Postgres(postgres) => {
                let tills = postgres.connect(house, goods, shape.connections).await?;
                self.run(&tills, shape, work, warm_up, flows).await
            }
        }
    }

    /// Warms up, measures, challenges.
    async fn run<T: Till>(
        &self,
        tills: &[T],
        shape: Shape,
        work: &Work,
        warm_up: u32,
        flows: u32,
    ) -> Result<Looped, Failed> {
        // A client for each connection, so that each of them is warm.
        closed_loop(tills, tills.len(), work.clone(), 0..warm_up).await?;
        let cpu = CpuTimes::now();
        let used = self.cpu()?;
        eprintln!("{} begins, {shape}", self.name());
        let measured = closed_loop(tills, shape.clients, work.clone(), warm_up..warm_up + flows).await?;
        let server_cpu = self.cpu()?.saturating_sub(used);
        let steal_percent = match (cpu, CpuTimes::now()) {
            (Some(before), Some(after)) => after.since(before).steal_percent,
            (None, _) | (_, None) => 0.0,
        };
        if let Work::Seats(picker, opening) = work {
            challenge(&tills[0], (picker, *opening), flows, CHALLENGES.min(flows)).await?;
        }
        Ok(Looped { measured, server_cpu, steal_percent })
    }
}

/// A closed loop with its cost.
struct Looped {
    measured: Measured,
    /// Processor time of all server processes.
    server_cpu: Duration,
    steal_percent: f64,
}

/// The shop of a turn: unused products.
fn fresh_shop() -> Goods {
    let shop = Goods { products: PRODUCTS, stock: STOCK, unit_price: PRICE, ..Goods::default() };
    Goods { prefix: fresh_prefix(), ..shop }
}

/// The prefix of the ids of a turn. No other turn has it.
fn fresh_prefix() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("p{:x}", since.as_micros())
}

/// An unused house with seats for this many purchases. Group 1 is only there for the tokens of challengers.
fn fresh_house(flows: u32) -> House {
    let sessions = flows.div_ceil(80 / u32::from(SEATS));
    House { prefix: fresh_prefix(), groups: 1, venues: sessions.div_ceil(100), sessions: 100, rows: 5, seats: 16 }
}

//! Boxoffice beside Redis and PostgreSQL on the same purchase: open a cart, hold five named seats of an 80-seat session all or
//! none, check out with an order. Three round trips, each durable (flushed) before its answer, closed loop, all systems driven
//! by this one program, turn by turn. Needs `crates/bench/setup-peers.sh` to have run once.

mod boxoffice;
mod child;
mod drive;
mod postgres_sync;
mod redis_always;
mod report;

use std::{
    fmt,
    future::Future,
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use boxoffice_load::machine::{CpuTimes, DiskFloor};
use boxoffice_workload::{
    draw::Draw,
    flow::{Pick, Picker},
    goods::Goods,
    house::House,
};
use clap::{Parser, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    boxoffice::Boxoffice,
    child::Server,
    drive::{BASKET, Basket, Failed, Measured, Purchase, Shape, Till, Work, basket, challenge, closed_loop, purchase},
    postgres_sync::Postgres,
    redis_always::Redis,
    report::{Report, Turn},
};

/// What one seat costs, in minor units.
pub(crate) const PRICE: i64 = 1_000;

/// Seats of a purchase.
const SEATS: u16 = 5;

/// Purchases are the same in every turn but for the prefix of their ids.
const SEED: u64 = 1;

/// How long a server may take to answer its first request.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Purchases over each connection before a turn is measured: plans are made and code is warm, in every system.
const WARM_UP: u32 = 5;

/// Purchases of sold seats tried after each turn; each must be refused.
const CHALLENGES: u32 = 50;

/// Products of the shop.
const PRODUCTS: u32 = 1_000;

/// Units of each product: enough for every turn.
const STOCK: u64 = 1_000_000;

/// What a flow does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Flow {
    /// Opens a cart, holds five named seats, checks out.
    Theatre,
    /// Puts five products into a cart, one after the other, and orders.
    Cart,
}

/// Compares Boxoffice with Redis (appendfsync always) and PostgreSQL (synchronous_commit on) on one purchase.
#[derive(Clone, Debug, Parser)]
struct Options {
    /// What is bought.
    #[arg(long, value_enum, default_value_t = Flow::Theatre)]
    flow: Flow,
    /// Purchases of each system in each turn.
    #[arg(long, default_value_t = 40_000)]
    flows: u32,
    /// Turns of each system with each number of clients and connections; medians are shown.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Numbers of clients.
    #[arg(long, value_delimiter = ',', default_value = "64,256")]
    clients: Vec<usize>,
    /// Connections that all clients share; a connection for each client is measured as well.
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Only these systems: boxoffice, redis, postgres.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Threads of this program.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// The program `boxoffice`; the one beside this program if it is not said.
    #[arg(long)]
    boxoffice: Option<PathBuf>,
    /// The Redis server.
    #[arg(long, default_value = "redis-server")]
    redis: String,
    /// The directory of `initdb` and `postgres`; found by itself if they are where Debian puts them.
    #[arg(long)]
    postgres_bin: Option<PathBuf>,
    /// Writes all figures to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// What was found sold in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verified {
    pub(crate) seats_sold: u64,
    pub(crate) orders: u64,
}

/// The shop of a turn: products that nobody has used.
fn fresh_shop() -> Goods {
    let shop = Goods { products: PRODUCTS, stock: STOCK, unit_price: PRICE, ..Goods::default() };
    Goods { prefix: fresh_prefix(), ..shop }
}

/// Tries to connect until the server answers.
pub(crate) async fn starting<E: fmt::Display, F: Future<Output = Result<(), E>>>(
    server: &mut Server,
    connect: impl Fn() -> F,
) -> Result<(), Failed> {
    let start = Instant::now();
    loop {
        match connect().await {
            Ok(()) => return Ok(()),
            Err(error) if start.elapsed() > START_LIMIT => {
                return Err(format!("no answer after {START_LIMIT:?}: {error}\n{}", server.log_tail()).into());
            }
            Err(_) => {
                server.check_alive()?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// The systems that are compared.
enum System {
    Boxoffice(Boxoffice),
    Redis(Redis),
    Postgres(Postgres),
}

impl System {
    fn name(&self) -> &'static str {
        match self {
            System::Boxoffice(_) => "Boxoffice always",
            System::Redis(_) => "Redis always",
            System::Postgres(_) => "PostgreSQL sync",
        }
    }

    fn server(&self) -> &Server {
        match self {
            System::Boxoffice(boxoffice) => boxoffice.server(),
            System::Redis(redis) => redis.server(),
            System::Postgres(postgres) => postgres.server(),
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

    /// Counts units and orders, and looks that every order has its products.
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
    async fn turn(&self, flow: Flow, shape: Shape, flows: u32) -> Result<Turn, Failed> {
        let warm_up = WARM_UP * shape.connections as u32;
        let all = warm_up + flows;
        let (looped, verified, sold) = match flow {
            Flow::Theatre => {
                let house = fresh_house(all);
                self.prepare(&house).await?;
                let picker = Arc::new(Picker::new(house.clone(), Pick::Next, SEATS, u64::from(all), SEED)?);
                let (none, work) = (Goods::default(), Work::Seats(picker.clone()));
                let looped = self.connect_and_run(&house, &none, shape, &work, warm_up, flows).await?;
                let carts: Vec<Purchase> = (0..all).map(|index| purchase(&picker, index)).collect();
                (looped, self.verify(&house, &carts).await?, u64::from(SEATS))
            }
            Flow::Cart => {
                let goods = fresh_shop();
                self.prepare_shop(&goods).await?;
                let draw = Draw { prefix: goods.prefix.clone(), seed: SEED };
                let work = Work::Baskets(draw.clone(), goods.products);
                let looped = self.connect_and_run(&fresh_house(1), &goods, shape, &work, warm_up, flows).await?;
                let baskets: Vec<Basket> = (0..all).map(|index| basket(&draw, goods.products, index)).collect();
                (looped, self.verify_shop(&goods, &baskets).await?, BASKET as u64)
            }
        };
        let wanted = Verified { seats_sold: u64::from(all) * sold, orders: u64::from(all) };
        if verified != wanted {
            return Err(format!("{} has {verified:?} after {wanted:?} were acknowledged", self.name()).into());
        }
        Ok(Turn {
            system: self.name(),
            clients: shape.clients,
            connections: shape.connections,
            flows_per_second: looped.measured.flows_per_second,
            mean_ms: looped.measured.mean_ms,
            p99_ms: looped.measured.p99_ms,
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
        let used = self.server().cpu()?;
        let measured = closed_loop(tills, shape.clients, work.clone(), warm_up..warm_up + flows).await?;
        let server_cpu = self.server().cpu()?.saturating_sub(used);
        let steal_percent = match (cpu, CpuTimes::now()) {
            (Some(before), Some(after)) => after.since(before).steal_percent,
            (None, _) | (_, None) => 0.0,
        };
        if let Work::Seats(picker) = work {
            challenge(&tills[0], picker, flows, CHALLENGES.min(flows)).await?;
        }
        Ok(Looped { measured, server_cpu, steal_percent })
    }
}

/// A closed loop with what it cost.
struct Looped {
    measured: Measured,
    /// Processor time of the server's processes.
    server_cpu: Duration,
    steal_percent: f64,
}

/// What the ids of a turn start with; no other turn's do.
fn fresh_prefix() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("p{:x}", since.as_micros())
}

/// A house nobody has used, with seats for so many purchases. Group 1 is only there for the tokens of challengers.
fn fresh_house(flows: u32) -> House {
    let sessions = flows.div_ceil(80 / u32::from(SEATS));
    House { prefix: fresh_prefix(), groups: 1, venues: sessions.div_ceil(100), sessions: 100, rows: 5, seats: 16 }
}

fn shapes(options: &Options) -> Vec<Shape> {
    let shared =
        options.clients.iter().map(|&clients| Shape { clients, connections: options.connections.min(clients) });
    let each = options.clients.iter().map(|&clients| Shape { clients, connections: clients });
    shared.chain(each).collect()
}

async fn compare(options: &Options) -> Result<Report, Failed> {
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let mut systems = Vec::new();
    if wanted("boxoffice") {
        let program = options.boxoffice.clone().or_else(boxoffice::find);
        let program = program.ok_or("no program boxoffice beside this one; build it, or give --boxoffice")?;
        systems.push(System::Boxoffice(Boxoffice::start(&program).await?));
    }
    if wanted("redis") {
        systems.push(System::Redis(Redis::start(&options.redis).await?));
    }
    if wanted("postgres") {
        let found = options.postgres_bin.clone().or_else(postgres_sync::find_bin);
        let bin = found.ok_or("no initdb found; run crates/bench/setup-peers.sh or give --postgres-bin")?;
        systems.push(System::Postgres(Postgres::start(&bin).await?));
    }

    let temp = std::env::temp_dir();
    let mut report = Report::new(options.flow, options.flows, options.rounds, DiskFloor::measure(&temp)?);
    for round in 1..=options.rounds {
        for shape in shapes(options) {
            for system in &systems {
                let turn = system
                    .turn(options.flow, shape, options.flows)
                    .await
                    .map_err(|error| format!("{}: {}", system.name(), in_full(&*error)))?;
                eprintln!(
                    "round {round}/{}: {:16} {shape}: {:.0} flows/s, mean {:.2} ms, p99 {:.2} ms",
                    options.rounds, turn.system, turn.flows_per_second, turn.mean_ms, turn.p99_ms
                );
                report.turns.push(turn);
            }
        }
    }
    report.floor_after = DiskFloor::measure(&temp)?;
    Ok(report)
}

/// Ends early at a signal, so that the servers are stopped and their directories removed.
async fn until_interrupted(compare: impl Future<Output = Result<Report, Failed>>) -> Result<Report, Failed> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        _ = terminate.recv() => Err("terminated".into()),
        compared = compare => compared,
    }
}

/// An error with everything that caused it.
fn in_full(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |error| (*error).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn main() -> ExitCode {
    let options = Options::parse();
    let mut builder = if options.threads > 1 {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let compared = builder
        .worker_threads(options.threads)
        .enable_all()
        .build()
        .map_err(Failed::from)
        .and_then(|runtime| runtime.block_on(until_interrupted(compare(&options))))
        .and_then(|report| {
            print!("{report}");
            match &options.json {
                Some(path) => Ok(std::fs::write(path, report.json()?)?),
                None => Ok(()),
            }
        });
    match compared {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {}", in_full(&*error));
            ExitCode::FAILURE
        }
    }
}

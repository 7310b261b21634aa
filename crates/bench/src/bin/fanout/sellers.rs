//! What watching costs those who sell: the theatre's purchase in a closed loop at saturation, with watchers and without them,
//! turn about.

use std::{
    fmt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use boxoffice_client::{Cart, Client, ClientConfig, recorded};
use boxoffice_load::watcher_fleet::FleetSpec;
use boxoffice_workload::{
    arrival::FlowNumber,
    flow::{Pick, Picker},
    house::House,
    statistics::median,
};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::{
    Failed, Options,
    boxoffice::{Boxoffice, Seller, sessions, theatre},
    floor::Publish,
    turn::cpu,
    watchers::Watchers,
};

/// Clients of the closed loop.
const CLIENTS: u32 = 256;

/// Connections that they share.
const CONNECTIONS: usize = 4;

/// Buffers of those connections.
const BUFFER_BYTES: usize = 64 * 1024;

/// Seats of a purchase.
const SEATS: u16 = 5;

/// What is watched while seats are sold.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Watched {
    /// Other sessions, in which nothing happens.
    Idle,
    /// Another session, with a steady rate of changes. The changes are made in the turns without watchers as well.
    Steady,
    /// One of the sessions that are sold. It changes about a hundred times a second.
    Sold,
}

/// Sessions of idle watchers.
const IDLE_SESSIONS: u32 = 50;

/// Changes a second of the session with a steady rate.
const STEADY_RATE: u32 = 20;

/// Longer than any turn takes, in seconds.
const STEADY_SECONDS: f64 = 600.0;

impl Watched {
    fn watchers(self) -> u32 {
        match self {
            Watched::Idle => 5_000,
            Watched::Steady | Watched::Sold => 1_000,
        }
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.watchers();
        match self {
            Watched::Idle => write!(f, "{count} idle watchers on other sessions"),
            Watched::Steady => write!(f, "{count} watchers of another session with {STEADY_RATE} changes a second"),
            Watched::Sold => write!(f, "{count} watchers of one of the sessions that are sold"),
        }
    }
}

/// One turn.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Sale {
    purchases_a_second: f64,
    /// Of the server, a purchase: what a machine that is busy otherwise changes less.
    cpu_us: f64,
}

/// One turn with watchers beside one without.
#[derive(Clone, Copy, Debug, Serialize)]
struct Pair {
    without: Sale,
    with: Sale,
}

/// The pairs of one kind of watchers.
#[derive(Clone, Debug, Serialize)]
struct Pairs {
    watched: Watched,
    pairs: Vec<Pair>,
    /// Frames that all watchers received a second, turn by turn.
    deliveries_a_second: Vec<f64>,
}

/// The figures of all kinds of watchers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sellers {
    flows: u32,
    kinds: Vec<Pairs>,
}

/// Measures each kind of watchers, one after the other.
pub(crate) async fn measure(options: &Options, program: &Path) -> Result<Sellers, Failed> {
    let boxoffice = Boxoffice::start(program, 1, Watched::Idle.watchers()).await?;
    let (idle, steady) = (theatre("idle", IDLE_SESSIONS), theatre("steady", 1));
    boxoffice.prepare(&idle).await?;
    boxoffice.prepare(&steady).await?;
    let mut turns = Turns { boxoffice, flows: options.flows, number: 0 };
    // The first purchases of a process are slower.
    let house = turns.spread();
    turns.boxoffice.prepare(&house).await?;
    turns.sell(&house).await?;
    let mut report = Sellers { flows: options.flows, kinds: Vec::new() };
    for watched in [Watched::Idle, Watched::Steady, Watched::Sold] {
        let mut changes = JoinSet::new();
        if let Watched::Steady = watched {
            let mut seller = Seller::new(&turns.boxoffice.addresses(), &steady).await?;
            let publish = Publish { a_second: STEADY_RATE, seconds: STEADY_SECONDS };
            changes.spawn(async move { seller.publish(publish).await.map(drop) });
        }
        let mut kind = Pairs { watched, pairs: Vec::new(), deliveries_a_second: Vec::new() };
        for pair in 0..options.pairs {
            let mut sales = [Sale::default(); 2];
            for turn in 0..2 {
                let with = (pair + turn) % 2 == 1;
                let house = turns.spread();
                turns.boxoffice.prepare(&house).await?;
                let sessions = match watched {
                    Watched::Idle => sessions(&idle),
                    Watched::Steady => sessions(&steady),
                    Watched::Sold => sessions(&house).into_iter().take(1).collect(),
                };
                let mut watching = if with { Some(turns.watchers(sessions, watched.watchers()).await?) } else { None };
                let sale = turns.sell(&house).await?;
                if let Some(watching) = &mut watching {
                    let seconds = f64::from(options.flows) / sale.purchases_a_second;
                    kind.deliveries_a_second.push(watching.stats(&[])?.deliveries() as f64 / seconds);
                }
                sales[usize::from(with)] = sale;
            }
            kind.pairs.push(Pair { without: sales[0], with: sales[1] });
            eprintln!("pair {}/{} of {watched}: {:?}", pair + 1, options.pairs, kind.pairs.last());
        }
        if let Some(ended) = changes.try_join_next() {
            ended??;
        }
        report.kinds.push(kind);
    }
    Ok(report)
}

/// The turns, each with a house of its own.
struct Turns {
    boxoffice: Boxoffice,
    flows: u32,
    number: u32,
}

impl Turns {
    fn prefix(&self) -> String {
        format!("sale{}", self.number)
    }

    /// Sessions of 900 seats, as many as it takes.
    fn spread(&mut self) -> House {
        self.number += 1;
        let of_session = 900 / u32::from(SEATS);
        theatre(&self.prefix(), self.flows.div_ceil(of_session))
    }

    async fn watchers(&self, sessions: Vec<String>, count: u32) -> Result<Watchers, Failed> {
        let spec = FleetSpec {
            addresses: self.boxoffice.addresses(),
            watchers: count,
            sessions,
            feeds: 1,
            counts: false,
            keep_maps: false,
            slow: 0,
        };
        let (mut watchers, _) = Watchers::come_in(&spec).await?;
        watchers.begin()?;
        Ok(watchers)
    }

    /// Sells a house.
    async fn sell(&self, house: &House) -> Result<Sale, Failed> {
        let picker = Arc::new(Picker::new(house.clone(), Pick::Next, SEATS, u64::from(self.flows), 1)?);
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut config = ClientConfig::new([self.boxoffice.addresses()[0].clone()]);
            config.buffer_bytes = BUFFER_BYTES;
            clients.push(Client::connect(config).await?);
        }
        let next = Arc::new(AtomicU32::new(0));
        let flows = self.flows;
        let pids = self.boxoffice.pids();
        let (cpu_before, start) = (cpu(&pids)?, Instant::now());
        let mut tasks: JoinSet<Result<(), Failed>> = JoinSet::new();
        for client in 0..CLIENTS {
            let client = clients[client as usize % CONNECTIONS].clone();
            let (next, picker) = (Arc::clone(&next), Arc::clone(&picker));
            tasks.spawn(async move {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= flows {
                        return Ok(());
                    }
                    buy(&client, &picker, index).await?;
                }
            });
        }
        while let Some(task) = tasks.join_next().await {
            task??;
        }
        let (seconds, used) = (start.elapsed().as_secs_f64(), cpu(&pids)?.saturating_sub(cpu_before));
        let flows = f64::from(flows);
        Ok(Sale { purchases_a_second: flows / seconds, cpu_us: used.as_secs_f64() * 1e6 / flows })
    }
}

/// Opens a cart, holds five seats, checks out.
async fn buy(client: &Client, picker: &Picker, index: u32) -> Result<(), Failed> {
    let flow = FlowNumber { group: 0, index };
    let choice = picker.choose(flow, 0);
    let cart = Cart::with_token(client, picker.token(flow, &choice));
    cart.open(None, None).await?;
    let session = picker.house().session_id(choice.session);
    cart.hold_seats(&session, choice.seats.as_slice().iter().copied()).await?;
    cart.checkout(recorded("card", "fanout"), None).await?;
    Ok(())
}

impl fmt::Display for Sellers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        writeln!(
            f,
            "{} purchases of {SEATS} seats a turn, {CLIENTS} clients over {CONNECTIONS} connections, pairs of turns.",
            self.flows
        )?;
        for Pairs { watched, pairs, deliveries_a_second } in &self.kinds {
            for (unit, figure) in [
                ("purchases/s", (|sale| sale.purchases_a_second) as fn(&Sale) -> f64),
                ("µs of the server's processor time a purchase", |sale| sale.cpu_us),
            ] {
                let middle = |sale: fn(&Pair) -> &Sale| {
                    median(&mut pairs.iter().map(|pair| figure(sale(pair))).collect::<Vec<f64>>()).unwrap_or(f64::NAN)
                };
                let (with, without) = (middle(|pair| &pair.with), middle(|pair| &pair.without));
                let mut ratios: Vec<f64> =
                    pairs.iter().map(|pair| figure(&pair.with) / figure(&pair.without)).collect();
                let ratio = median(&mut ratios).unwrap_or(f64::NAN);
                let (least, most) = ratios
                    .iter()
                    .fold((f64::INFINITY, 0.0_f64), |(least, most), ratio| (least.min(*ratio), most.max(*ratio)));
                writeln!(
                    f,
                    "{watched}: {with:.0} {unit}, without them {without:.0}; median ratio {ratio:.3} ({least:.3} to {most:.3})."
                )?;
            }
            let deliveries = median(&mut deliveries_a_second.clone()).unwrap_or(f64::NAN);
            writeln!(f, "{watched}: they received {deliveries:.0} frames a second.")?;
        }
        Ok(())
    }
}

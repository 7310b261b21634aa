//! Boxoffice: nodes of the program itself, and a seller who changes seats of their sessions by the clock.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use boxoffice_bench::admin_token;
use boxoffice_client::{AdminToken, At, Cart, Client, ClientConfig, Currency, Entity, Money};
use boxoffice_core::{id::Id, seat::Seat};
use boxoffice_load::{LaunchConfig, LocalCluster, LocalNode, clock::now_us, create_house, watcher_fleet::ChangeTime};
use boxoffice_workload::{arrival::FlowNumber, house::House, run_seed::RunSeed};
use tempfile::TempDir;
use tokio::{sync::Mutex, task::JoinSet};

use crate::{Failed, floor::Publish};

/// The price of one seat, in minor units.
pub(crate) const PRICE: i64 = 1_000;

/// Carts that take turns at one session.
const CARTS: u32 = 64;

/// Connections that a node accepts by default.
const CONNECTIONS_DEFAULT: u32 = 16_384;

/// Connections beside those of the watchers.
const CONNECTIONS_BESIDE: u32 = 512;

/// A node, or a cluster.
pub(crate) struct Boxoffice {
    processes: Processes,
    _directory: TempDir,
}

enum Processes {
    One(LocalNode),
    Several(LocalCluster),
}

/// The program beside this one, if it is there.
pub(crate) fn find() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.with_file_name("boxoffice");
    program.is_file().then_some(program)
}

impl Boxoffice {
    /// Starts this many nodes, each with room for its share of the watchers.
    pub(crate) async fn start(program: &Path, nodes: usize, watchers: u32) -> Result<Boxoffice, Failed> {
        let directory = tempfile::Builder::new().prefix("fanout-").tempdir()?;
        let each = watchers.div_ceil(nodes as u32) + CONNECTIONS_BESIDE;
        let config =
            if each > CONNECTIONS_DEFAULT { format!("[limits]\nconnections = {each}\n") } else { String::new() };
        let files = directory.path().join("node");
        let admin_token = admin_token().to_owned();
        let launch = LaunchConfig {
            program: program.to_owned(),
            files,
            fsync: "always",
            config,
            admin_token,
            is_shipped: false,
            log: None,
            certificate: None,
            port: None,
        };
        let processes = if nodes == 1 {
            Processes::One(LocalNode::start(&launch)?)
        } else {
            let cluster = LocalCluster::start(nodes, launch)?;
            cluster.wait_until_placed().await?;
            Processes::Several(cluster)
        };
        Ok(Boxoffice { processes, _directory: directory })
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        match &self.processes {
            Processes::One(node) => vec![node.address.clone()],
            Processes::Several(cluster) => cluster.addresses(),
        }
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        match &self.processes {
            Processes::One(node) => vec![node.pid()],
            Processes::Several(cluster) => cluster.pids(),
        }
    }

    /// Makes the sessions of a house.
    pub(crate) async fn prepare(&self, house: &House) -> Result<(), Failed> {
        let price = Money { amount: PRICE, currency: Currency::new("EUR").expect("a currency") };
        Ok(create_house(&self.addresses(), AdminToken(admin_token().into()), house, price).await?)
    }
}

/// A house of this many sessions of 900 seats.
pub(crate) fn theatre(prefix: &str, sessions: u32) -> House {
    House { prefix: prefix.to_owned(), groups: 1, venues: 1, sessions, rows: 30, seats: 30 }
}

/// The ids of a house's sessions.
pub(crate) fn sessions(house: &House) -> Vec<String> {
    (0..house.sessions_all()).map(|session| house.session_id(session).to_string()).collect()
}

/// A client that holds seats and releases them.
pub(crate) struct Seller {
    client: Client,
    tills: Vec<Arc<Mutex<Till>>>,
    next: usize,
    sessions: usize,
}

/// A cart that holds one seat of one session, or nothing.
struct Till {
    cart: Cart,
    number: u32,
    session: Id,
    seat: Seat,
    line: Option<u32>,
}

impl Seller {
    /// A seller for the sessions of a house, at the first of these nodes. Every second cart holds its seat already, so
    /// that holds and releases alternate from now on.
    pub(crate) async fn new(addresses: &[String], house: &House) -> Result<Seller, Failed> {
        let admin_token = Some(AdminToken(admin_token().into()));
        let config = ClientConfig { admin_token, ..ClientConfig::new([addresses[0].clone()]) };
        let client = Client::connect(config).await?;
        let seed = RunSeed { prefix: house.prefix.clone(), seed: 1 };
        let sessions = house.sessions_all();
        let tills = (0..sessions.max(CARTS)).map(|till| {
            let number = till % sessions;
            let session = Entity::Session(house.session_id(number));
            let token = seed.token_beside(FlowNumber { group: 0, index: till }, &session);
            Arc::new(Mutex::new(Till {
                cart: Cart::with_token(&client, token),
                number,
                session: house.session_id(number),
                seat: house.seat(till / sessions),
                line: None,
            }))
        });
        let tills: Vec<_> = tills.collect();
        let mut held = JoinSet::new();
        for till in tills.iter().step_by(2) {
            let till = Arc::clone(till);
            held.spawn(async move { till.lock().await.change().await });
        }
        while let Some(one) = held.join_next().await {
            one??;
        }
        Ok(Seller { tills, client, next: 0, sessions: sessions as usize })
    }

    /// Makes changes by the clock without waiting for earlier answers, and waits for the last answer. Returns the times
    /// of the changes whose version is known. The answer to a hold has it, the answer to a release is about the cart.
    pub(crate) async fn publish(&mut self, publish: Publish) -> Result<Vec<ChangeTime>, Failed> {
        let start = Instant::now();
        let changes = (f64::from(publish.a_second) * publish.seconds) as u32;
        let mut under_way: JoinSet<Result<Option<ChangeTime>, Failed>> = JoinSet::new();
        for change in 0..changes {
            let due = start + Duration::from_secs(1) * change / publish.a_second;
            tokio::time::sleep_until(due.into()).await;
            let till = Arc::clone(&self.tills[self.next % self.tills.len()]);
            self.next += 1;
            under_way.spawn(async move { till.lock().await.change().await });
        }
        let mut made = Vec::new();
        while let Some(one) = under_way.join_next().await {
            made.extend(one??);
        }
        Ok(made)
    }

    /// The last version of each session, according to the node.
    pub(crate) async fn versions(&self) -> Result<Vec<(u32, u64)>, Failed> {
        let mut versions = Vec::new();
        // Each of the first tills has a session of its own.
        for till in &self.tills[..self.sessions] {
            let till = till.lock().await;
            versions.push((till.number, self.client.session_map(&till.session).await?.value.version));
        }
        Ok(versions)
    }
}

impl Till {
    /// Holds its seat, or releases it.
    async fn change(&mut self) -> Result<Option<ChangeTime>, Failed> {
        let at_us = now_us();
        if let Some(line) = self.line.take() {
            self.cart.release(line, None).await?;
            return Ok(None);
        }
        let held = self.cart.hold_seats(&self.session, [self.seat]).await?;
        self.line = held.value.lines.first().map(|line| line.line);
        let version = self.version(&held.at).ok_or("an answer does not say the session's version")?;
        Ok(Some(ChangeTime { session: self.number, version, at_us }))
    }

    fn version(&self, at: &[At]) -> Option<u64> {
        at.iter().find(|at| matches!(&at.entity, Entity::Session(id) if *id == self.session)).map(|at| at.version)
    }
}

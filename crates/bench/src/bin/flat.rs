//! Whether a node is as fast after a million purchases as in the beginning, and what a sale keeps in memory.
//!
//! `flat [--program PATH]` starts a node of the program beside this one, with `fsync` always. It sells seats one at a time to 256
//! clients over 4 connections as fast as it is answered, and prints speed, processor time by thread and memory for each 100 000
//! purchases. Then it compares in pairs: a fresh node sells 100 000 purchases and then its second 100 000, and right after these
//! the old node sells as many. The machine is the same for both halves of a pair. A ratio of 0.9 or more is flat.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use boxoffice_bench::{admin_token, euros, processor_ns};
use boxoffice_client::{AdminToken, Cart, Client, ClientConfig, recorded};
use boxoffice_core::id::{Entity, Id};
use boxoffice_load::{LaunchConfig, LocalNode, create_house, machine::process_memory};
use boxoffice_workload::house::House;
use clap::Parser;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Buffers of a connection, in bytes. Many clients share it.
const BUFFER_BYTES: usize = 64 * 1024;

/// Threads with less are left out of the table, in microseconds a purchase.
const SHOWN_US: f64 = 0.5;

/// Below this ratio a node is not flat.
const FLAT: f64 = 0.9;

/// Whether a node stays as fast as it was.
#[derive(Parser)]
struct Options {
    /// The program `boxoffice`. Default: the one beside this program
    #[arg(long)]
    program: Option<PathBuf>,
    /// Purchases of a row.
    #[arg(long, default_value_t = 100_000)]
    row: u32,
    /// Rows that the old node sells before the pairs.
    #[arg(long, default_value_t = 10)]
    rows: u32,
    /// Pairs of the old node with a fresh one.
    #[arg(long, default_value_t = 5)]
    pairs: u32,
    #[arg(long, default_value_t = 256)]
    clients: usize,
    #[arg(long, default_value_t = 4)]
    connections: usize,
}

/// A node, and the seats that it has not sold.
struct Seller {
    node: LocalNode,
    clients: Vec<Client>,
    sessions: Arc<[Id]>,
    house: House,
    /// The number of the next seat.
    next: u32,
}

/// The figures of one row.
struct Row {
    flows_a_second: f64,
    us_by_thread: BTreeMap<String, f64>,
    memory: u64,
}

impl Seller {
    /// Starts a node with this many seats.
    async fn start(options: &Options, number: u32, seats: u32) -> Result<Seller, Failed> {
        let program = match &options.program {
            Some(program) => program.clone(),
            None => std::env::current_exe()?.with_file_name("boxoffice"),
        };
        let launch = LaunchConfig {
            program,
            files: std::env::temp_dir().join(format!("boxoffice-flat-{}-{number}", std::process::id())),
            fsync: "always",
            config: String::new(),
            admin_token: admin_token().to_owned(),
            is_shipped: false,
            log: None,
            certificate: None,
            port: None,
        };
        let node = LocalNode::start(&launch)?;
        let (rows, row_seats) = (10, 20);
        let sessions = seats.div_ceil(u32::from(rows) * u32::from(row_seats) * 100);
        let house = House { prefix: "flat".into(), groups: 1, venues: 100, sessions, rows, seats: row_seats };
        create_house(std::slice::from_ref(&node.address), AdminToken(admin_token().into()), &house, euros(1_000))
            .await?;
        let mut clients = Vec::new();
        for _ in 0..options.connections {
            let config = ClientConfig {
                admin_token: Some(AdminToken(admin_token().into())),
                buffer_bytes: BUFFER_BYTES,
                ..ClientConfig::new([node.address.clone()])
            };
            clients.push(Client::connect(config).await?);
        }
        let sessions = (0..house.sessions_all()).map(|session| house.session_id(session)).collect();
        Ok(Seller { node, clients, sessions, house, next: 0 })
    }

    /// Sells this many seats. Neighbouring purchases are of different sessions.
    async fn sell(&mut self, count: u32, clients: usize) -> Result<Row, Failed> {
        let (next, end) = (Arc::new(AtomicU32::new(self.next)), self.next + count);
        self.next = end;
        let pid = self.node.pid().to_string();
        let (before, began) = (processor_ns(&pid), Instant::now());
        let tasks: Vec<_> = (0..clients)
            .map(|number| {
                let (client, sessions) =
                    (self.clients[number % self.clients.len()].clone(), Arc::clone(&self.sessions));
                let (next, house) = (Arc::clone(&next), self.house.clone());
                tokio::spawn(async move {
                    loop {
                        let purchase = next.fetch_add(1, Ordering::Relaxed);
                        if purchase >= end {
                            return Ok::<_, Failed>(());
                        }
                        let count = sessions.len() as u32;
                        let session = &sessions[(purchase % count) as usize];
                        let cart = Cart::beside(&client, &Entity::Session(session.clone()));
                        cart.hold_seats(session, [house.seat(purchase / count)]).await?;
                        cart.checkout(recorded("card", "flat"), None).await?;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        let flows_a_second = f64::from(count) / began.elapsed().as_secs_f64();
        let us = |(name, ns): (String, u64)| {
            let ns = ns.saturating_sub(before.get(&name).copied().unwrap_or(0));
            (name, ns as f64 / f64::from(count) / 1_000.0)
        };
        let us_by_thread = processor_ns(&pid).into_iter().map(us).collect();
        let memory = process_memory(self.node.pid()).unwrap_or(0);
        Ok(Row { flows_a_second, us_by_thread, memory })
    }
}

impl Row {
    fn print(&self, what: &str) {
        let all_us: f64 = self.us_by_thread.values().sum();
        let shown = self.us_by_thread.iter().filter(|(_, us)| **us >= SHOWN_US);
        let by_thread: String = shown.map(|(name, us)| format!(" {name} {us:.1}")).collect();
        let memory = self.memory >> 20;
        println!("{what:>12} {:>12.0} {all_us:>8.1} {memory:>10}  {by_thread}", self.flows_a_second);
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> Result<(), Failed> {
    let options = Options::parse();
    println!("{:>12} {:>12} {:>8} {:>10}  µs a purchase by thread", "sold", "purchases/s", "CPU µs", "MiB");
    let mut old = Seller::start(&options, 0, options.row * (options.rows + options.pairs)).await?;
    let mut memory = Vec::new();
    for row in 1..=options.rows {
        let sold = old.sell(options.row, options.clients).await?;
        sold.print(&(row * options.row).to_string());
        memory.push(sold.memory);
    }
    if let [_, second, .., last] = memory[..] {
        let sales = f64::from(options.row * (options.rows - 2));
        println!("a sale keeps {:.0} bytes, from the second row to the last", (last as f64 - second as f64) / sales);
    }
    let mut ratios = Vec::new();
    for pair in 1..=options.pairs {
        let mut fresh = Seller::start(&options, pair, 2 * options.row).await?;
        fresh.sell(options.row, options.clients).await?;
        let second = fresh.sell(options.row, options.clients).await?;
        let last = old.sell(options.row, options.clients).await?;
        second.print("fresh");
        last.print("old");
        ratios.push(last.flows_a_second / second.flows_a_second);
    }
    ratios.sort_unstable_by(f64::total_cmp);
    if let Some(median) = ratios.get(ratios.len() / 2) {
        let verdict = if *median >= FLAT { "flat" } else { "not flat" };
        let all: String = ratios.iter().map(|ratio| format!(" {ratio:.2}")).collect();
        println!("old against fresh, median of {} pairs: {median:.2}, {verdict} (all:{all})", ratios.len());
    }
    Ok(())
}

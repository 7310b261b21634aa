//! What a backup takes of a node that sells.
//!
//! `backup [ROUNDS] [DIR]`, beside the program. Backups go into DIR, and into a directory on the node's disk if it is absent. A node of this machine gets 240 000 sessions of 200 seats, and a first backup of it is timed.
//! Then 300 purchases a second come in an open loop, in turns alone and with full backups one after the other beside them. Prints the
//! percentiles of a purchase by round, and the ratios of their medians.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use boxoffice_bench::admin_token;
use boxoffice_load::{LaunchConfig, LocalNode, machine::DiskFloor};
use serde_json::Value;

type Failed = Box<dyn std::error::Error>;

/// Purchases of a round, and microseconds from one to the next.
const PURCHASES: u64 = 4_500;
const GAP_US: u64 = 3_333;

/// Rounds of each kind, if the command line has no number.
const ROUNDS: usize = 5;

/// A node with its sessions, and room for backups on the same disk.
struct House {
    program: PathBuf,
    node: LocalNode,
    operators: String,
    files: tempfile::TempDir,
    backups: tempfile::TempDir,
}

impl House {
    fn new(backups: &str) -> Result<House, Failed> {
        let program = std::env::current_exe()?.with_file_name("boxoffice");
        let files = tempfile::Builder::new().prefix("backup-").tempdir_in(".")?;
        let backups = tempfile::Builder::new().prefix("backup-").tempdir_in(backups)?;
        // Free at the moment.
        let operators = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.to_string();
        let node = LocalNode::start(&LaunchConfig {
            program: program.clone(),
            files: files.path().join("node"),
            fsync: "always",
            config: format!("[ops]\nlisten = \"{operators}\"\n"),
            admin_token: admin_token().to_owned(),
            is_shipped: false,
            log: None,
            certificate: None,
            port: None,
        })?;
        Ok(House { program, node, operators, files, backups })
    }

    /// Runs a load scenario. Returns its report.
    fn load(&self, scenario: &str, settings: &[(&str, u64)]) -> Result<Value, Failed> {
        let out = self.files.path().join("report");
        let mut command = Command::new(&self.program);
        command.args(["load", scenario, "--quiet", "--address", &self.node.address, "--out"]).arg(&out);
        for (key, value) in settings {
            command.arg("--set").arg(format!("{key}={value}"));
        }
        let output = command.env("BOXOFFICE_ADMIN_TOKEN", admin_token()).stdin(Stdio::null()).output()?;
        if !output.status.success() {
            return Err(format!("{scenario}: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(serde_json::from_slice(&fs::read(out.join("report.json"))?)?)
    }

    /// The percentiles of purchases in milliseconds: half of them, and one in a hundred.
    fn purchases(&self) -> Result<[f64; 2], Failed> {
        let report = self.load(
            "seed-theatre",
            &[
                ("house.groups", 1),
                ("house.venues", 2),
                ("house.sessions", 50),
                ("open_loop.flows", PURCHASES),
                ("open_loop.gap_us", GAP_US),
                ("expect.done", PURCHASES),
                ("expect.seats_sold", 5 * PURCHASES),
                ("expect.total", 5_000 * PURCHASES),
            ],
        )?;
        let percentiles = &report["done"]["intended"]["percentiles"];
        let of = |name: &str| percentiles[name].as_f64().ok_or_else(|| format!("no {name} in the report"));
        Ok([of("p50")?, of("p99")?])
    }

    /// Begins a full backup into a directory of its own.
    fn back_up(&self, name: &str) -> Result<Child, Failed> {
        let mut command = Command::new(&self.program);
        command.arg("backup").arg(self.backups.path().join(name)).args(["--full", "--address", &self.operators]);
        command.env("BOXOFFICE_ADMIN_TOKEN", admin_token()).stdin(Stdio::null()).stdout(Stdio::null());
        Ok(command.spawn()?)
    }

    /// The percentiles of purchases while backups are taken, and how many were.
    fn purchases_beside(&self) -> Result<([f64; 2], usize), Failed> {
        std::thread::scope(|scope| {
            let (told, ended) = std::sync::mpsc::channel::<()>();
            let backups = scope.spawn(move || -> Result<usize, String> {
                for number in 0.. {
                    let mut backup = self.back_up("beside").map_err(|error| error.to_string())?;
                    let status = backup.wait().map_err(|error| error.to_string())?;
                    if !status.success() {
                        return Err(format!("a backup ended with {status}"));
                    }
                    remove(&self.backups.path().join("beside")).map_err(|error| error.to_string())?;
                    if ended.try_recv().is_ok() {
                        return Ok(number + 1);
                    }
                }
                unreachable!("it is told to end")
            });
            let found = self.purchases();
            // It may have failed already.
            let _ = told.send(());
            Ok((found?, backups.join().expect("no panic")?))
        })
    }
}

fn remove(dir: &Path) -> std::io::Result<()> {
    fs::remove_dir_all(dir)
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn main() -> Result<(), Failed> {
    let rounds = std::env::args().nth(1).map_or(Ok(ROUNDS), |text| text.parse())?;
    let house = House::new(&std::env::args().nth(2).unwrap_or_else(|| ".".to_owned()))?;
    house.load("resident", &[])?;
    let began = Instant::now();
    let status = house.back_up("first")?.wait()?;
    println!("first backup of 240 000 sessions: {:.1} s, {status}", began.elapsed().as_secs_f64());
    remove(&house.backups.path().join("first"))?;
    let (mut alone, mut beside) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    println!(
        "{:>8} {:>10} {:>10} {:>12} {:>12} {:>8}",
        "round", "p50 alone", "p99 alone", "p50 beside", "p99 beside", "backups"
    );
    for round in 1..=rounds {
        let [p50, p99] = house.purchases()?;
        let ([p50_beside, p99_beside], backups) = house.purchases_beside()?;
        println!("{round:>8} {p50:>10.1} {p99:>10.1} {p50_beside:>12.1} {p99_beside:>12.1} {backups:>8}");
        for (all, one) in alone.iter_mut().zip([p50, p99]).chain(beside.iter_mut().zip([p50_beside, p99_beside])) {
            all.push(one);
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    let [p50, p99] = alone.map(median);
    let [p50_beside, p99_beside] = beside.map(median);
    println!("medians: p50 {:.2} x, p99 {:.2} x", p50_beside / p50, p99_beside / p99);
    let floor = DiskFloor::measure(house.files.path())?;
    println!("raw fdatasync p50/p99 {:.0}/{:.0} us", floor.p50_us, floor.p99_us);
    Ok(())
}

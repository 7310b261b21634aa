//! A sitting: one system is started afresh, the watchers connect, and it takes its turns at all rates.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use boxoffice_load::watcher_fleet::{ChangeTime, FleetSpec};

use crate::{
    Failed, Options,
    boxoffice::{Boxoffice, Seller, sessions, theatre},
    floor::{Publish, SESSION},
    report::{Memory, Report},
    turn::{Changes, memory, turn},
    watchers::Watchers,
};

/// Processes of the floor, one for each node.
struct Floor {
    processes: Vec<FloorProcess>,
    version: u64,
}

struct FloorProcess {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    address: String,
}

impl FloorProcess {
    fn start() -> Result<FloorProcess, Failed> {
        let program = std::env::current_exe()?;
        let mut child = Command::new(program).arg("floor").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let orders = child.stdin.take();
        let mut answers = BufReader::new(child.stdout.take().ok_or("no way out")?);
        let mut address = String::new();
        answers.read_line(&mut address)?;
        Ok(FloorProcess { child, orders, answers, address: address.trim().to_owned() })
    }
}

impl Drop for FloorProcess {
    fn drop(&mut self) {
        // The process ends when its input ends.
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}

impl Changes for Floor {
    async fn publish(&mut self, publish: Publish) -> Result<Vec<ChangeTime>, Failed> {
        let line = serde_json::to_string(&publish)?;
        for process in &mut self.processes {
            let orders = process.orders.as_mut().ok_or("the floor is closed")?;
            writeln!(orders, "{line}")?;
        }
        let mut change_times: Vec<ChangeTime> = Vec::new();
        for process in &mut self.processes {
            let mut line = String::new();
            process.answers.read_line(&mut line)?;
            // The times of several processes are the same to within the time of a wake-up.
            change_times = serde_json::from_str(&line)?;
        }
        self.version = change_times.last().map_or(self.version, |change| change.version);
        Ok(change_times)
    }

    async fn versions(&mut self) -> Result<Vec<(u32, u64)>, Failed> {
        Ok(vec![(0, self.version)])
    }
}

impl Changes for Seller {
    async fn publish(&mut self, publish: Publish) -> Result<Vec<ChangeTime>, Failed> {
        Seller::publish(self, publish).await
    }

    async fn versions(&mut self) -> Result<Vec<(u32, u64)>, Failed> {
        Seller::versions(self).await
    }
}

/// The floor's sitting.
pub(crate) async fn floor(options: &Options, report: &mut Report) -> Result<(), Failed> {
    let processes = (0..options.nodes).map(|_| FloorProcess::start()).collect::<Result<Vec<_>, _>>()?;
    let pids: Vec<u32> = processes.iter().map(|process| process.child.id()).collect();
    let addresses = processes.iter().map(|process| process.address.clone()).collect();
    let mut floor = Floor { processes, version: 1 };
    sit("floor", options, &pids, addresses, vec![SESSION.to_owned()], &mut floor, report).await
}

/// Boxoffice's sitting.
pub(crate) async fn boxoffice(options: &Options, program: &Path, report: &mut Report) -> Result<(), Failed> {
    let boxoffice = Boxoffice::start(program, options.nodes, options.watchers).await?;
    let house = theatre("fanout", 1);
    boxoffice.prepare(&house).await?;
    let mut seller = Seller::new(&boxoffice.addresses(), &house).await?;
    sit("boxoffice", options, &boxoffice.pids(), boxoffice.addresses(), sessions(&house), &mut seller, report).await
}

async fn sit(
    system: &'static str,
    options: &Options,
    pids: &[u32],
    addresses: Vec<String>,
    sessions: Vec<String>,
    changes: &mut impl Changes,
    report: &mut Report,
) -> Result<(), Failed> {
    let spec = FleetSpec {
        addresses,
        watchers: options.watchers,
        sessions,
        feeds: 1,
        counts: false,
        keep_maps: false,
        slow: 0,
    };
    let before = memory(pids);
    let (mut watchers, came_in) = Watchers::come_in(&spec).await?;
    let connected = memory(pids);
    for a_second in &options.rates {
        let publish = Publish { a_second: *a_second, seconds: options.seconds };
        let turn = turn(system, pids, &mut watchers, options.watchers, changes, publish).await?;
        eprintln!(
            "{system:10} {a_second:>4} changes/s: {:.0} deliveries/s, p50 {:.1}, p99 {:.1} ms, {:.2} µs a delivery",
            turn.deliveries_a_second, turn.p50_ms, turn.p99_ms, turn.cpu_us
        );
        report.turns.push(turn);
    }
    if let Some(error) = watchers.status()?.first_error {
        eprintln!("{system}: {error}");
    }
    let memory = Memory {
        system,
        watchers: options.watchers,
        before,
        connected,
        after: memory(pids),
        came_in_s: came_in.as_secs_f64(),
    };
    report.memory.push(memory);
    Ok(())
}

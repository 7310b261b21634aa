//! The watchers: fleets in processes of their own, as many as the limit of open files requires.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use boxoffice_load::watcher_fleet::{ChangeTime, FleetCommand, FleetReply, FleetSpec, FleetStats, FleetStatus};

use crate::Failed;

/// Watchers of one process.
const OF_ONE_PROCESS: u32 = 15_000;

/// How long all watchers may take to connect and get their first state.
const COME_IN: Duration = Duration::from_secs(180);

/// The pause between two checks of the watchers.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// All watchers of a sitting.
pub(crate) struct Watchers {
    fleets: Vec<FleetProcess>,
}

struct FleetProcess {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Watchers {
    /// Starts the processes, and waits until all watchers have their first state. Returns how long that took.
    pub(crate) async fn come_in(spec: &FleetSpec) -> Result<(Watchers, Duration), Failed> {
        let start = Instant::now();
        let processes = spec.watchers.div_ceil(OF_ONE_PROCESS).max(1);
        let mut fleets = Vec::new();
        for process in 0..processes {
            let share = spec.watchers / processes + u32::from(process < spec.watchers % processes);
            fleets.push(FleetProcess::start(&FleetSpec { watchers: share, ..spec.clone() })?);
        }
        let mut watchers = Watchers { fleets };
        loop {
            let status = watchers.status()?;
            if status.is_complete() {
                return Ok((watchers, start.elapsed()));
            }
            if start.elapsed() > COME_IN {
                return Err(format!("the watchers did not come in: {status:?}").into());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    pub(crate) fn status(&mut self) -> Result<FleetStatus, Failed> {
        let mut all = FleetStatus::default();
        for answer in self.ask(&FleetCommand::GetStatus)? {
            let FleetReply::Status(FleetStatus { connected, synced, expected, first_error }) = answer else {
                return Err(wrong_reply());
            };
            all.connected += connected;
            all.synced += synced;
            all.expected += expected;
            all.first_error = all.first_error.or(first_error);
        }
        Ok(all)
    }

    /// Begins to count anew.
    pub(crate) fn begin(&mut self) -> Result<(), Failed> {
        self.ask(&FleetCommand::StartCounting).map(drop)
    }

    /// Waits until all watchers have these versions, or the time is over. Returns how many are behind then, and when
    /// the last of the others reached its version.
    pub(crate) async fn reached(&mut self, versions: &[(u32, u64)], limit: Duration) -> Result<(u64, u64), Failed> {
        let start = Instant::now();
        loop {
            let (mut all_behind, mut all_last_us) = (0, 0);
            for answer in self.ask(&FleetCommand::GetProgress(versions.to_vec()))? {
                let FleetReply::Progress { behind, last_us } = answer else { return Err(wrong_reply()) };
                all_behind += behind;
                all_last_us = last_us.max(all_last_us);
            }
            if all_behind == 0 || start.elapsed() > limit {
                return Ok((all_behind, all_last_us));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The counts of all watchers.
    pub(crate) fn stats(&mut self, change_times: &[ChangeTime]) -> Result<FleetStats, Failed> {
        let mut all = FleetStats::default();
        for answer in self.ask(&FleetCommand::GetStats(change_times.to_vec()))? {
            let FleetReply::Stats(stats) = answer else { return Err(wrong_reply()) };
            all.add(&stats);
        }
        Ok(all)
    }

    fn ask(&mut self, command: &FleetCommand) -> Result<Vec<FleetReply>, Failed> {
        let line = serde_json::to_string(command)?;
        for fleet in &mut self.fleets {
            let commands = fleet.commands.as_mut().ok_or("a fleet is closed")?;
            writeln!(commands, "{line}")?;
            commands.flush()?;
        }
        self.fleets.iter_mut().map(FleetProcess::answer).collect()
    }
}

impl FleetProcess {
    fn start(spec: &FleetSpec) -> Result<FleetProcess, Failed> {
        let program = std::env::current_exe()?;
        let mut child =
            Command::new(program).arg("watcher-fleet").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut commands = child.stdin.take().ok_or("no way in")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no way out")?);
        writeln!(commands, "{}", serde_json::to_string(spec)?)?;
        Ok(FleetProcess { child, commands: Some(commands), answers })
    }

    fn answer(&mut self) -> Result<FleetReply, Failed> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("a process of watchers has ended".into());
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for FleetProcess {
    fn drop(&mut self) {
        // The process ends when its input ends.
        drop(self.commands.take());
        let _ = self.child.wait();
    }
}

fn wrong_reply() -> Failed {
    "a fleet sent another reply than expected".into()
}

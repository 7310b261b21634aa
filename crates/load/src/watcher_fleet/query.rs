//! How a fleet answers commands.

use std::{collections::BTreeMap, sync::mpsc};

use super::{
    event_loop::{EventLoop, PendingCommand, SnapshotJump},
    frame_cache::FrameContent,
    messages::{ChangeTime, FleetCommand, FleetReply},
    stats::{self, FleetStats, Latencies},
};
use crate::clock::now_us;

impl EventLoop {
    /// Answers the commands that arrived. Returns whether more may arrive.
    pub(super) fn handle_commands(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(PendingCommand(command, sender)) => {
                    // The caller may have stopped waiting.
                    let _ = sender.send(self.handle(command));
                }
                Err(mpsc::TryRecvError::Empty) => return true,
                Err(mpsc::TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn handle(&mut self, command: FleetCommand) -> FleetReply {
        match command {
            FleetCommand::GetStatus => FleetReply::Status(self.status.clone()),
            FleetCommand::StartCounting => {
                self.nodes.iter_mut().for_each(|node| node.frames.clear());
                self.jumps.clear();
                self.stats = FleetStats::default();
                self.counting_since_us = Some(now_us());
                FleetReply::CountingStarted
            }
            FleetCommand::GetProgress(versions) => self.progress(&versions),
            FleetCommand::GetStats(changes) => {
                let latencies = self.latencies(&changes);
                FleetReply::Stats(Box::new(FleetStats { latencies, ..self.stats.clone() }))
            }
            FleetCommand::CompareMaps { session, version, seats } => self.compare(session as usize, version, &seats),
        }
    }

    fn progress(&mut self, versions: &[(u32, u64)]) -> FleetReply {
        let wanted: BTreeMap<usize, u64> =
            versions.iter().map(|(session, version)| (*session as usize, *version)).collect();
        let sessions = self.spec.sessions.len();
        let mut behind = 0;
        for connection in &self.connections {
            for (index, feed) in connection.feeds.iter().enumerate() {
                let Some(version) = wanted.get(&connection.session(index, sessions)) else { continue };
                behind += u64::from(feed.version < *version);
            }
        }
        let brought = |session: usize, from: u64, to: u64| {
            wanted.get(&session).is_some_and(|version| from < *version && *version <= to)
        };
        let of_deltas = self.nodes.iter().flat_map(|node| &node.frames.seen).filter_map(|seen| match seen.content {
            FrameContent::Delta { from, to, .. } if brought(seen.session, from, to) => seen.receipts.last().copied(),
            _ => None,
        });
        let of_jumps = self.jumps.iter().filter(|jump| brought(jump.session, jump.from, jump.to));
        let last = of_deltas.chain(of_jumps.map(|jump| jump.received)).max();
        let last_us = last.map_or(0, |last| self.counting_since_us.unwrap_or(0) + u64::from(last));
        FleetReply::Progress { behind, last_us }
    }

    /// The time from each change to each of its receipts.
    fn latencies(&self, changes: &[ChangeTime]) -> Latencies {
        let counting_since_us = self.counting_since_us.unwrap_or(0);
        let made: BTreeMap<(usize, u64), u64> =
            changes.iter().map(|change| ((change.session as usize, change.version), change.at_us)).collect();
        let mut histogram = stats::histogram();
        let mut add = |session: usize, from: u64, to: u64, receipts: &[u32]| {
            for (_, made_us) in made.range((session, from + 1)..=(session, to)) {
                for received in receipts {
                    let latency_us = (counting_since_us + u64::from(*received)).saturating_sub(*made_us);
                    histogram.record(latency_us).expect("the histogram resizes itself");
                }
            }
        };
        for seen in self.nodes.iter().flat_map(|node| &node.frames.seen) {
            if let FrameContent::Delta { from, to, .. } = seen.content {
                add(seen.session, from, to, &seen.receipts);
            }
        }
        for SnapshotJump { session, from, to, received } in &self.jumps {
            add(*session, *from, *to, &[*received]);
        }
        Latencies::of(&histogram)
    }

    fn compare(&mut self, session: usize, version: u64, seats: &[u8]) -> FleetReply {
        let (mut same, mut different, mut example) = (0, 0, None);
        let sessions = self.spec.sessions.len();
        for (number, connection) in self.connections.iter_mut().enumerate() {
            let node = connection.node;
            let Some(feed) = connection.feed(session, sessions) else { continue };
            if feed.version == version && feed.map == seats {
                same += 1;
            } else {
                different += 1;
                example.get_or_insert_with(|| {
                    format!("watcher {number} at node {node} is at version {}, not {version}", feed.version)
                });
            }
        }
        FleetReply::MapsCompared { same, different, example }
    }
}

//! The pending proposals and reads of a leader during one epoch of one shard.

use std::collections::VecDeque;

use crate::batch::{self, Header};
use crate::clocks::TrueTime;
use crate::config::Config;
use crate::name::{Epoch, ShardId};
use crate::output::{Output, RejectReason};
use crate::planted;
use crate::time::ShardTime;

/// One term of leadership of one shard, on the node that leads it.
pub(crate) struct Leadership<T> {
    shard: ShardId,
    pub(crate) epoch: Epoch,
    time: ShardTime,
    // Whether a majority of the voters confirms the true time.
    pub(crate) confirmed: bool,
    // Whether the distance from true time has changed since the last entry.
    time_is_due: bool,
    stamp_ms: u64,
    sequence: u64,
    // The highest mark of the shard's entries, with those that are not committed yet.
    mark: u64,
    // Accepted in this pass and not in an entry yet.
    turns: VecDeque<Proposed<T>>,
    // Reads of this pass that raft has not received yet.
    requested: Vec<T>,
    // Appended and not committed yet, by index.
    waiting: VecDeque<(u64, T)>,
    readings: VecDeque<Reading<T>>,
}

/// A proposed turn, or a joint turn of two actors.
pub(crate) struct Proposed<T> {
    pub(crate) events: Vec<u8>,
    // The turn of the second actor, in the same entry.
    pub(crate) joint: Option<Vec<u8>>,
    pub(crate) completion: T,
}

impl<T> Proposed<T> {
    pub(crate) fn turns(&self) -> impl Iterator<Item = &[u8]> + Clone {
        [Some(&self.events), self.joint.as_ref()].into_iter().flatten().map(Vec::as_slice)
    }
}

/// The reads of one pass.
struct Reading<T> {
    // Identifies the reads towards raft.
    context: u64,
    // The index of the last entry that was proposed before.
    barrier: u64,
    // The commit index when the reads were requested. Known after a round trip to a majority.
    safe: Option<u64>,
    completions: Vec<T>,
}

impl<T> Leadership<T> {
    pub(crate) fn new((shard, epoch): (ShardId, Epoch), time: ShardTime, confirmed: bool, mark: u64) -> Leadership<T> {
        Leadership {
            shard,
            epoch,
            time,
            confirmed,
            time_is_due: false,
            stamp_ms: time.base_ms,
            sequence: 0,
            mark,
            turns: VecDeque::new(),
            requested: Vec::new(),
            waiting: VecDeque::new(),
            readings: VecDeque::new(),
        }
    }

    /// Accepts a proposal for the next entry.
    pub(crate) fn take(&mut self, proposed: Proposed<T>) {
        self.turns.push_back(proposed);
    }

    /// Accepts a read for the next read index.
    pub(crate) fn request_read(&mut self, completion: T) {
        self.requested.push(completion);
    }

    /// How many accepted proposals fit into the next entry. At least one if there is any.
    pub(crate) fn next_entry(&self, config: &Config) -> usize {
        let mut bytes = 0;
        let fits = self.turns.iter().take_while(|proposed| {
            bytes += proposed.turns().map(batch::cost).sum::<usize>();
            bytes <= config.entry_bytes
        });
        fits.count().max(usize::from(!self.turns.is_empty()))
    }

    /// The shard's running time.
    pub(crate) fn running_ms(&self, mono_ms: u64) -> u64 {
        self.time.at(mono_ms).max(self.stamp_ms)
    }

    /// True time, as the shard knows it.
    pub(crate) fn true_ms(&self, mono_ms: u64) -> u64 {
        self.time.true_ms(mono_ms)
    }

    /// Whether the next entry must carry a changed distance from true time.
    pub(crate) fn time_is_due(&self) -> bool {
        self.time_is_due
    }

    /// Makes the next entry carry the distance, even without turns.
    pub(crate) fn require_time(&mut self) {
        self.time_is_due = true;
    }

    /// An entry with the distance was appended.
    pub(crate) fn time_appended(&mut self) {
        self.time_is_due = false;
    }

    /// Compares the shard's time with true time. Returns whether an entry must carry a correction.
    pub(crate) fn compare_time(&mut self, truth: TrueTime, mono_ms: u64) -> bool {
        if !self.confirmed && planted::is("a term that begins with the last stamp and stays there") {
            return false;
        }
        self.confirmed = truth.is_confirmed();
        let corrected = self.time.correct(mono_ms, truth);
        self.time_is_due |= corrected;
        corrected
    }

    /// The mark that the next entry must carry, even without turns.
    pub(crate) fn due_mark(&self, config: &Config) -> Option<u64> {
        config.mark.above(self.mark, config.version.get())
    }

    /// The payload of the next entry, with the first `count` proposals.
    pub(crate) fn seal(&mut self, config: &Config, count: usize, mono_ms: u64) -> Vec<u8> {
        let version = config.version.get();
        let mark = self.due_mark(config);
        self.mark = self.mark.max(mark.unwrap_or(0));
        self.sequence += 1;
        self.stamp_ms = self.stamp_ms.max(self.time.at(mono_ms));
        let (stamp_ms, distance_ms) = (self.stamp_ms, self.time.distance_ms);
        let (epoch, sequence) = (self.epoch, self.sequence);
        let header = Header { version, epoch, sequence, stamp_ms, distance_ms, mark };
        let turns = self.turns.range(..count);
        batch::seal(header, turns.flat_map(Proposed::turns))
    }

    /// The first `count` proposals were appended at `index`.
    pub(crate) fn appended(&mut self, count: usize, index: u64) {
        let turns = self.turns.drain(..count);
        self.waiting.extend(turns.map(|proposed| (index, proposed.completion)));
    }

    /// Whether there are reads that raft has not received yet.
    pub(crate) fn has_requested_reads(&self) -> bool {
        !self.requested.is_empty()
    }

    /// Raft received the reads as `context`, after everything up to `barrier` was proposed.
    pub(crate) fn begin_reading(&mut self, context: u64, barrier: u64) {
        let completions = std::mem::take(&mut self.requested);
        self.readings.push_back(Reading { context, barrier, safe: None, completions });
    }

    /// Raft confirms that everything up to `index` was committed when the reads of `context` were requested.
    pub(crate) fn safe(&mut self, context: u64, index: u64) {
        // The reads of an epoch that has ended are answered already.
        if let Ok(found) = self.readings.binary_search_by_key(&context, |reading| reading.context) {
            self.readings[found].safe = Some(index);
        }
    }

    /// The entry at `index` was applied, so its proposals are completed.
    pub(crate) fn applied(&mut self, index: u64, out: &mut Vec<Output<T>>) {
        while let Some((appended, _)) = self.waiting.front() {
            assert!(*appended >= index, "an entry was applied before an earlier one");
            if *appended > index {
                return;
            }
            let (_, completion) = self.waiting.pop_front().expect("it was looked at");
            out.push(Output::Completed { completion, shard: self.shard, index });
        }
    }

    /// Completes the reads that are safe now that everything up to `applied` is applied.
    pub(crate) fn finish_readings(&mut self, applied: u64, out: &mut Vec<Output<T>>) {
        while let Some(reading) = self.readings.front() {
            match reading.safe {
                Some(index) if index.max(reading.barrier) <= applied => (),
                Some(_) | None => return,
            }
            let reading = self.readings.pop_front().expect("it was looked at");
            out.extend(reading.completions.into_iter().map(|completion| Output::Completed {
                completion,
                shard: self.shard,
                index: applied,
            }));
        }
    }

    /// Whether nothing is pending.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.readings.is_empty()
    }

    /// Drops the proposals that were not appended, and the reads that depend on them.
    pub(crate) fn refuse_open(&mut self, why: RejectReason, out: &mut Vec<Output<T>>) {
        let turns = self.turns.drain(..).map(|proposed| proposed.completion);
        for completion in turns.chain(self.requested.drain(..)) {
            out.push(lost(self.shard, completion, why));
        }
    }

    /// The leadership has ended. Everything pending is answered.
    pub(crate) fn end(mut self, out: &mut Vec<Output<T>>) {
        for (_, completion) in self.waiting.drain(..) {
            out.push(lost(self.shard, completion, RejectReason::Ended));
        }
        for completion in self.readings.drain(..).flat_map(|reading| reading.completions) {
            out.push(lost(self.shard, completion, RejectReason::Ended));
        }
        self.refuse_open(RejectReason::NotLeader, out);
    }
}

pub(crate) fn lost<T>(shard: ShardId, completion: T, why: RejectReason) -> Output<T> {
    Output::ProposalDropped { completion, shard, why }
}

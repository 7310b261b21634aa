//! What a leader has under way during one epoch of one shard.

use std::collections::VecDeque;

use crate::batch::{self, Header};
use crate::clocks::TrueTime;
use crate::config::Config;
use crate::name::{Epoch, ShardId};
use crate::output::{Output, Why};
use crate::planted;
use crate::time::ShardTime;

/// One epoch of one shard, on the node that leads it.
pub(crate) struct Reign<T> {
    shard: ShardId,
    pub(crate) epoch: Epoch,
    time: ShardTime,
    // A majority of the voters confirms the true time.
    pub(crate) confirmed: bool,
    // The distance is another one than entries say so far.
    owes_time: bool,
    stamp_ms: u64,
    sequence: u64,
    // Taken in this pass and not yet in an entry.
    turns: VecDeque<Proposed<T>>,
    // Asked in this pass and not yet handed to raft.
    asked: Vec<T>,
    // Appended, by index.
    waiting: VecDeque<(u64, T)>,
    readings: VecDeque<Reading<T>>,
}

/// A turn that was proposed, or two that are one.
pub(crate) struct Proposed<T> {
    pub(crate) events: Vec<u8>,
    // Of another actor, in the same entry.
    pub(crate) beside: Option<Vec<u8>>,
    pub(crate) ticket: T,
}

impl<T> Proposed<T> {
    pub(crate) fn turns(&self) -> impl Iterator<Item = &[u8]> + Clone {
        [Some(&self.events), self.beside.as_ref()].into_iter().flatten().map(Vec::as_slice)
    }
}

/// The reads of one pass.
struct Reading<T> {
    // Names the reads towards raft.
    context: u64,
    // Everything proposed before ends here.
    barrier: u64,
    // What raft said was committed when they were asked; known after a round to a majority.
    safe: Option<u64>,
    tickets: Vec<T>,
}

impl<T> Reign<T> {
    pub(crate) fn new(shard: ShardId, epoch: Epoch, time: ShardTime, confirmed: bool) -> Reign<T> {
        Reign {
            shard,
            epoch,
            time,
            confirmed,
            owes_time: false,
            stamp_ms: time.base_ms,
            sequence: 0,
            turns: VecDeque::new(),
            asked: Vec::new(),
            waiting: VecDeque::new(),
            readings: VecDeque::new(),
        }
    }

    pub(crate) fn take(&mut self, proposed: Proposed<T>) {
        self.turns.push_back(proposed);
    }

    pub(crate) fn ask(&mut self, ticket: T) {
        self.asked.push(ticket);
    }

    /// How many of the proposals taken fit into the next entry: at least one if there is one.
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

    /// True time as the shard has it.
    pub(crate) fn true_ms(&self, mono_ms: u64) -> u64 {
        self.time.true_ms(mono_ms)
    }

    /// Whether an entry must say that the distance is another one.
    pub(crate) fn owes_time(&self) -> bool {
        self.owes_time
    }

    /// The next entry is to say the distance, even if there are no turns.
    pub(crate) fn owe_time(&mut self) {
        self.owes_time = true;
    }

    /// An entry that says it is appended.
    pub(crate) fn time_appended(&mut self) {
        self.owes_time = false;
    }

    /// Compares the shard's time with true time; whether there is something to be said.
    pub(crate) fn look_at(&mut self, truth: TrueTime, mono_ms: u64) -> bool {
        if !self.confirmed && planted::is("a term that begins with the last stamp and stays there") {
            return false;
        }
        self.confirmed = truth.is_confirmed();
        let corrected = self.time.correct(mono_ms, truth);
        self.owes_time |= corrected;
        corrected
    }

    /// The payload of the next entry, with the first `count` proposals.
    pub(crate) fn seal(&mut self, count: usize, mono_ms: u64) -> Vec<u8> {
        self.sequence += 1;
        self.stamp_ms = self.stamp_ms.max(self.time.at(mono_ms));
        let (stamp_ms, distance_ms) = (self.stamp_ms, self.time.distance_ms);
        let header = Header { epoch: self.epoch, sequence: self.sequence, stamp_ms, distance_ms };
        let turns = self.turns.range(..count);
        batch::seal(header, turns.flat_map(Proposed::turns))
    }

    /// The first `count` proposals are appended at `index`.
    pub(crate) fn appended(&mut self, count: usize, index: u64) {
        let turns = self.turns.drain(..count);
        self.waiting.extend(turns.map(|proposed| (index, proposed.ticket)));
    }

    /// Whether reads wait to be handed to raft.
    pub(crate) fn has_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    /// The reads taken are handed to raft under the name `context`, after everything up to `barrier` was proposed.
    pub(crate) fn begin_reading(&mut self, context: u64, barrier: u64) {
        let tickets = std::mem::take(&mut self.asked);
        self.readings.push_back(Reading { context, barrier, safe: None, tickets });
    }

    /// Raft answers: when the reads named `context` were asked, everything up to `index` was committed.
    pub(crate) fn safe(&mut self, context: u64, index: u64) {
        // Reads of an epoch that ended have no one waiting.
        if let Ok(found) = self.readings.binary_search_by_key(&context, |reading| reading.context) {
            self.readings[found].safe = Some(index);
        }
    }

    /// The entry at `index` is applied.
    pub(crate) fn applied(&mut self, index: u64, out: &mut Vec<Output<T>>) {
        while let Some((appended, _)) = self.waiting.front() {
            assert!(*appended >= index, "an entry was applied before an earlier one");
            if *appended > index {
                return;
            }
            let (_, ticket) = self.waiting.pop_front().expect("it was looked at");
            out.push(Output::Done { ticket, shard: self.shard, index });
        }
    }

    /// Answers the reads that are safe now that everything up to `applied` is applied.
    pub(crate) fn finish_readings(&mut self, applied: u64, out: &mut Vec<Output<T>>) {
        while let Some(reading) = self.readings.front() {
            match reading.safe {
                Some(index) if index.max(reading.barrier) <= applied => (),
                Some(_) | None => return,
            }
            let reading = self.readings.pop_front().expect("it was looked at");
            out.extend(reading.tickets.into_iter().map(|ticket| Output::Done {
                ticket,
                shard: self.shard,
                index: applied,
            }));
        }
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.readings.is_empty()
    }

    /// What was taken and not appended is lost; what rests on it is lost with it.
    pub(crate) fn refuse_open(&mut self, why: Why, out: &mut Vec<Output<T>>) {
        let turns = self.turns.drain(..).map(|proposed| proposed.ticket);
        for ticket in turns.chain(self.asked.drain(..)) {
            out.push(lost(self.shard, ticket, why));
        }
    }

    /// The epoch is over: everything still open is answered.
    pub(crate) fn end(mut self, out: &mut Vec<Output<T>>) {
        for (_, ticket) in self.waiting.drain(..) {
            out.push(lost(self.shard, ticket, Why::Ended));
        }
        for ticket in self.readings.drain(..).flat_map(|reading| reading.tickets) {
            out.push(lost(self.shard, ticket, Why::Ended));
        }
        self.refuse_open(Why::NotLeader, out);
    }
}

pub(crate) fn lost<T>(shard: ShardId, ticket: T, why: Why) -> Output<T> {
    Output::Lost { ticket, shard, why }
}

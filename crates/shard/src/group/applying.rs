//! Applying committed entries.

use bytes::Bytes;
use protobuf::Message as _;
use raft::eraftpb::{ConfChangeV2, Entry, EntryType};
use raft::{ReadState, StateRole};

use super::leading::CLOCKS_TICKS;
use super::{Group, position};
use crate::batch::{self, Stamp};
use crate::config::Config;
use crate::fields;
use crate::name::Position;
use crate::output::{FatalError, Output};
use crate::record::EntryKind;
use crate::snapshot::Members;

impl<T> Group<T> {
    /// Puts out committed entries, each followed by the completions that wait for it here.
    pub(super) fn apply_all(&mut self, entries: Vec<Entry>, out: &mut Vec<Output<T>>) -> Result<(), FatalError> {
        for entry in entries {
            self.apply(entry, out)?;
        }
        Ok(())
    }

    /// Puts out one committed entry. With the first one of its own term, a leader begins to look for the time, and then leads.
    fn apply(&mut self, entry: Entry, out: &mut Vec<Output<T>>) -> Result<(), FatalError> {
        let position = position(&entry);
        self.applied_state.take(position, entry.data.len())?;
        match entry.get_entry_type() {
            EntryType::EntryNormal if entry.data.is_empty() => self.applied_state.link(EntryKind::Turns, &[]),
            EntryType::EntryNormal => self.apply_turns(position, entry.data, out)?,
            EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => {
                self.applied_state.link(EntryKind::Members, &entry.data);
                self.change_members(&entry.data)?;
            }
        }
        let raft = &self.raft.raft;
        let leading = raft.state == StateRole::Leader && raft.term == position.term;
        let begins = leading && !self.is_spent();
        match &mut self.leadership {
            Some(leadership) => leadership.applied(position.index, out),
            None if begins => _ = self.clocks_awaited.get_or_insert(CLOCKS_TICKS),
            None => (),
        }
        Ok(())
    }

    /// Puts out the turns of an entry, if its header follows the one before.
    fn apply_turns(&mut self, position: Position, payload: Bytes, out: &mut Vec<Output<T>>) -> Result<(), FatalError> {
        self.applied_state.link(EntryKind::Turns, &payload);
        let (header, turns) = batch::open(payload)?;
        self.applied_state.follow(position, header)?;
        let stamp = Stamp { running_ms: header.stamp_ms, distance_ms: header.distance_ms };
        out.push(Output::Apply { shard: self.shard, position, stamp, turns, chain: self.meta().chain });
        Ok(())
    }

    fn change_members(&mut self, payload: &[u8]) -> Result<(), FatalError> {
        let broken = |what: String| FatalError::Members(what);
        let change = read_members_change(payload).map_err(broken)?;
        let placed = placed(&change.context)?;
        let state = self.raft.apply_conf_change(&change).map_err(|error| broken(error.to_string()))?;
        let members = Members::of(&state).ok_or_else(|| broken(format!("{state:?} names what is no replica")))?;
        self.applied_state.change_members(members, placed);
        self.set_order();
        self.changed = self.meta().position.index;
        self.needs_reconcile = true;
        Ok(())
    }

    /// Completes the reads that are safe by now.
    pub(super) fn finish_reads(&mut self, safe: &[ReadState], out: &mut Vec<Output<T>>) {
        let Some(leadership) = &mut self.leadership else { return };
        for read in safe {
            // Only this engine makes read contexts, of eight bytes each.
            if let Ok(context) = read.request_ctx.as_slice().try_into() {
                leadership.safe(u64::from_le_bytes(context), read.index);
            }
        }
        leadership.finish_readings(self.applied_state.meta().position.index, out);
    }

    /// A single node keeps no entries in memory, because a new follower begins with a snapshot. A follower that lags by more than
    /// the kept entries gets a snapshot as well. A restart reads the log.
    pub(super) fn forget_applied(&mut self, config: &Config) {
        let (members, applied) = (&self.meta().members, self.meta().position.index);
        if members.decides_alone(self.replica) && members.learners.is_empty() {
            self.raft.mut_store().forget(applied);
        } else {
            self.raft.mut_store().forget_beyond(applied, config.tail_bytes);
        }
    }

    pub(super) fn ask_for_snapshots(&mut self, config: &Config, out: &mut Vec<Output<T>>) {
        if self.applied_state.is_snapshot_due(config) {
            out.push(Output::SnapshotDue { meta: self.meta().clone() });
        }
        for to in self.raft.store().take_wanted() {
            if self.snapshot_progress.request() {
                let to = to.node();
                out.push(Output::CutSnapshot { to, meta: self.meta().clone() });
            }
        }
    }
}

/// The membership change in the payload of an entry.
pub(crate) fn read_members_change(payload: &[u8]) -> Result<ConfChangeV2, String> {
    if !fields::may_be_conf_change(payload) {
        return Err("its fields are not those of a change of members".into());
    }
    ConfChangeV2::parse_from_bytes(payload).map_err(|error| error.to_string())
}

/// The version of the target configuration that a membership change was made for. The change that ends a joint one has
/// none.
fn placed(context: &[u8]) -> Result<Option<u64>, FatalError> {
    match context {
        [] => Ok(None),
        context => {
            let version = context.try_into().map(u64::from_le_bytes);
            version
                .map(Some)
                .map_err(|_| FatalError::Members(format!("its target is named by {} bytes", context.len())))
        }
    }
}

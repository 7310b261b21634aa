//! Finds the state that an entity had at an instant: from the newest snapshot before it, the kept ones among them, and the entity's
//! entries after that, in the log and its archives, which are applied as every replica applies them.

use std::sync::Arc;

use boxoffice_core::{
    event::Event,
    id::Entity,
    planted,
    state_map::{Cut, State, StateMap},
    time::Timestamp,
};
use boxoffice_shard::Stamp;
use boxoffice_storage::{
    codec,
    snapshot::{self, Snapshot},
    snapshot_files::KeptSnapshot,
};
use bytes::Bytes;

use crate::{
    as_of_query::{AsOfQuery, StoredState, Then},
    history_query::HistoryError,
    history_reader::{ReadTurn, Taker, Walked, beside, walk_back},
    shared::Shared,
};

/// The most bytes of turns that are applied for one answer.
const TURN_BYTES_MAX: usize = 64 << 20;

/// Reads this node's snapshots, log and archives.
///
/// # Errors
/// [`HistoryError`].
pub(crate) async fn read_here(shared: &Arc<Shared>, query: AsOfQuery<'static>) -> Result<Then, HistoryError> {
    beside(shared, move |shared| read(shared, &query)).await
}

fn read(shared: &Shared, query: &AsOfQuery<'_>) -> Result<Then, HistoryError> {
    let AsOfQuery { entity, at, version } = query;
    let shard = shared.lead_of(entity).id;
    let mut snapshots = shared.replication.snapshot_files.all_of(shard)?;
    if planted::is("kept snapshots that are passed over") {
        snapshots.clear();
    }
    // The time of an entry that is in a snapshot and after the instant, although the snapshot's last entry is not.
    let mut corrected = None;
    loop {
        let is_before = |snapshot: &&KeptSnapshot| snapshot.stamp.true_ms() <= at.0;
        let base = snapshots.iter().rev().find(is_before).copied();
        let walked = walk_back(shared, entity, || TurnsUntil::new(*at, base))?;
        if walked.now < *version {
            return Ok(Then::Behind);
        }
        if let (Some(base), Some(late)) = (base, walked.taker.late) {
            corrected = Some(late);
            snapshots.retain(|snapshot| snapshot.name != base.name);
            continue;
        }
        let usable = |snapshot: &&KeptSnapshot| snapshot.name.index.saturating_add(1) >= walked.first;
        let floor = match walked.first <= 1 || walked.version == 0 {
            true => None,
            false => snapshots.iter().find(usable).map(|snapshot| Timestamp(snapshot.stamp.true_ms())),
        };
        let begin = match base.filter(|base| walked.version > 0 && usable(&base)) {
            Some(base) => match load(shared, entity, &base)? {
                Some(begin) => begin,
                // It is damaged, or was removed meanwhile. An older one may do.
                None => {
                    snapshots.retain(|snapshot| snapshot.name != base.name);
                    continue;
                }
            },
            // It was made after the first of the entries that are here.
            None if walked.version == 0 => Begin::default(),
            None => {
                let floor = corrected.or(floor).unwrap_or(Timestamp(shared.world.clock.wall_ms()));
                return Ok(Then::Below { floor });
            }
        };
        return Ok(match begin.apply(entity, walked)? {
            Some(then) => Then::Was(StoredState { shard, floor, ..then }),
            None => Then::NotYet,
        });
    }
}

/// Where a state begins.
#[derive(Default)]
struct Begin {
    /// The entity in a snapshot, if it is there.
    state: Option<Arc<State>>,
    /// The last entry in the snapshot.
    index: u64,
    stamp: Option<Stamp>,
}

/// An entity in a snapshot. `None` if the snapshot cannot be read.
fn load(shared: &Shared, entity: &Entity, base: &KeptSnapshot) -> Result<Option<Begin>, HistoryError> {
    let Some(payload) = shared.replication.snapshot_files.load_any(base.name)? else { return Ok(None) };
    match snapshot::decode(&payload) {
        Ok(Snapshot { meta, cut, .. }) => {
            let found = cut.entities().find(|(of, _)| *of == entity);
            let state = found.map(|(_, state)| Arc::clone(state));
            Ok(Some(Begin { state, index: meta.position.index, stamp: Some(base.stamp) }))
        }
        Err(why) => {
            tracing::warn!(shard = base.name.shard, index = base.name.index, why, "a snapshot is passed over");
            Ok(None)
        }
    }
}

impl Begin {
    /// Applies the turns that a walk has found. `None` if there is no such entity then.
    fn apply(self, entity: &Entity, walked: Walked<TurnsUntil>) -> Result<Option<StoredState>, HistoryError> {
        let TurnsUntil { turns, version, until, .. } = walked.taker;
        let mut kept = match self.state {
            Some(state) => StateMap::restore(Cut::one(entity.clone(), state, self.index)),
            None => StateMap::new(),
        };
        let (mut position, mut stamp) = (self.index, self.stamp);
        for (index, of_turn, turn) in turns.into_iter().rev() {
            kept.advance(index);
            kept.apply(entity, events(&turn)?);
            (position, stamp) = (index, Some(of_turn));
        }
        let found = kept.get(entity).map_or(0, |state| state.version());
        let expected = version.unwrap_or(walked.version);
        if found != expected {
            let why =
                format!("{entity} has {found} events at entry {position}, and {expected} are counted back from now");
            return Err(HistoryError::Undecodable(why));
        }
        let Some((state, stamp)) = kept.get(entity).zip(stamp) else { return Ok(None) };
        Ok(Some(StoredState {
            cut: snapshot::encode_state(&Cut::one(entity.clone(), state, position)).into(),
            shard: 0,
            position,
            since: Timestamp(stamp.true_ms()),
            until,
            floor: None,
            distance_ms: stamp.distance_ms,
        }))
    }
}

fn events(turn: &[u8]) -> Result<Vec<Event>, HistoryError> {
    codec::decode(turn).map(|(_, _, events)| events).map_err(HistoryError::Undecodable)
}

/// An entity's turns until an instant, and after a snapshot.
struct TurnsUntil {
    at: Timestamp,
    /// The last entry in the snapshot.
    base: Option<u64>,
    /// Index, stamp and bytes, newest first.
    turns: Vec<(u64, Stamp, Bytes)>,
    bytes: usize,
    /// The entity's version with the newest of them.
    version: Option<u64>,
    /// The time of the oldest turn after the instant.
    until: Option<Timestamp>,
    /// A turn was met that is in the snapshot.
    met_base: bool,
    /// Its time, if it is after the instant: time was corrected backwards before the snapshot's last entry, so the snapshot has too much.
    late: Option<Timestamp>,
}

impl TurnsUntil {
    fn new(at: Timestamp, base: Option<KeptSnapshot>) -> TurnsUntil {
        let base = base.map(|base| base.name.index);
        TurnsUntil { at, base, turns: Vec::new(), bytes: 0, version: None, until: None, met_base: false, late: None }
    }
}

impl Taker for TurnsUntil {
    const LOOKS_ON: bool = true;

    fn take(&mut self, turn: ReadTurn, version: u64) -> Result<u64, HistoryError> {
        let ReadTurn { index, stamp, events, bytes, .. } = turn;
        if self.base.is_some_and(|base| index <= base) {
            self.met_base = true;
            self.late = Some(Timestamp(stamp.true_ms())).filter(|time| *time > self.at && self.version.is_none());
            return Ok(0);
        }
        let slack_ms = if planted::is("an entry after the instant is applied") { 1_000 } else { 0 };
        // Time may be corrected backwards, so everything before the last entry that is not after the instant is in it.
        if self.version.is_none() && stamp.true_ms() > self.at.0.saturating_add(slack_ms) {
            self.until = Some(Timestamp(stamp.true_ms()));
            return Ok(events.len() as u64);
        }
        self.version.get_or_insert(version);
        self.bytes += bytes.len();
        if self.bytes > TURN_BYTES_MAX {
            return Err(HistoryError::TooLong { bytes_max: TURN_BYTES_MAX });
        }
        self.turns.push((index, stamp, bytes));
        Ok(events.len() as u64)
    }

    /// The newest turn in the snapshot tells whether the snapshot may be used, so the walk goes on to it.
    fn is_done(&self) -> bool {
        self.met_base
    }
}

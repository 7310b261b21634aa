//! The seats of a session at a version, kept up to date from a feed.

use boxoffice_core::{
    answer::{AreaCounts, SeatCounts},
    id::{Entity, Id},
    seat::SeatState,
};
use boxoffice_wire::{
    body::{Resume, ResumeBody},
    feed::{Delta, Snapshot},
    reply::Unreadable,
};

use crate::live::{Applied, Live, merge, order};

/// The state of every seat of a session at one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapState {
    session: Id,
    epoch: u64,
    version: u64,
    counts: SeatCounts,
    areas: Vec<AreaCounts>,
    packed: Vec<u8>,
    change: Change,
}

/// What was new with the last frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Everything: it was a snapshot.
    All,
    /// These seats, by index in layout order, after this version.
    Seats {
        /// The version before.
        from: u64,
        /// Each seat and what it is now.
        seats: Vec<(u32, SeatState)>,
    },
}

impl MapState {
    /// Which session.
    pub fn session(&self) -> &Id {
        &self.session
    }

    /// Its version; it belongs to [`MapState::epoch`].
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Versions of different epochs have nothing to do with each other.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Seats by state.
    pub fn counts(&self) -> SeatCounts {
        self.counts
    }

    /// Places by area and state.
    pub fn areas(&self) -> &[AreaCounts] {
        &self.areas
    }

    /// How many seats there are.
    pub fn seats(&self) -> u32 {
        self.counts.free + self.counts.held + self.counts.sold + self.counts.blocked
    }

    /// The state of the seat with this index in layout order.
    ///
    /// # Panics
    /// If there is no such seat.
    pub fn state(&self, index: u32) -> SeatState {
        assert!(index < self.seats(), "seat {index} of {}", self.seats());
        match self.packed[index as usize / 4] >> (index % 4 * 2) & 3 {
            0 => SeatState::Free,
            1 => SeatState::Held,
            2 => SeatState::Sold,
            _ => SeatState::Blocked,
        }
    }

    /// The states of all seats, in layout order.
    pub fn states(&self) -> impl ExactSizeIterator<Item = SeatState> + '_ {
        (0..self.seats()).map(|index| self.state(index))
    }

    /// What was new with the last frame.
    pub fn change(&self) -> &Change {
        &self.change
    }

    /// Seats by state, counted afresh.
    pub fn recount(&self) -> SeatCounts {
        let mut counts = SeatCounts::default();
        self.states().for_each(|state| *of(&mut counts, state) += 1);
        counts
    }
}

impl Live for MapState {
    type Snapshot = Snapshot;

    fn begin(snapshot: Snapshot) -> Result<MapState, Unreadable> {
        let Snapshot { entity, epoch, version, counts, areas, seats: packed } = snapshot;
        let Entity::Session(session) = entity else {
            return Err(Unreadable(format!("a map of {entity}, which has no seats")));
        };
        let map = MapState { session, epoch, version, counts, areas, packed, change: Change::All };
        if map.packed.len() != map.seats().div_ceil(4) as usize {
            return Err(Unreadable("a snapshot has another number of seats than it counts".into()));
        }
        if map.recount() != counts {
            return Err(Unreadable("a snapshot counts its seats wrongly".into()));
        }
        Ok(map)
    }

    fn replace(&mut self, snapshot: Snapshot) -> Result<Applied, Unreadable> {
        if snapshot.epoch == self.epoch && snapshot.version < self.version {
            return Ok(Applied::Nothing);
        }
        *self = MapState::begin(snapshot)?;
        Ok(Applied::Newer)
    }

    /// States are absolute, so a delta that begins before this version and ends after it fits as well.
    fn apply(&mut self, delta: Delta) -> Result<Applied, Unreadable> {
        let applied = order(self.version, delta.from, delta.to);
        if applied != Applied::Newer {
            return Ok(applied);
        }
        let seats = self.seats();
        if delta.changes.iter().any(|(index, _)| *index >= seats) {
            return Err(Unreadable("a delta names a seat that does not exist".into()));
        }
        for (index, state) in &delta.changes {
            let before = self.state(*index);
            *of(&mut self.counts, before) -= 1;
            *of(&mut self.counts, *state) += 1;
            let byte = &mut self.packed[*index as usize / 4];
            let shift = index % 4 * 2;
            *byte = *byte & !(3 << shift) | (*state as u8) << shift;
        }
        if self.counts != delta.counts {
            return Err(Unreadable(format!("a delta counts {:?} where the map has {:?}", delta.counts, self.counts)));
        }
        merge(&mut self.areas, delta.areas)?;
        self.change = Change::Seats { from: self.version, seats: delta.changes };
        self.version = delta.to;
        Ok(Applied::Newer)
    }

    fn resume(&self) -> ResumeBody {
        ResumeBody::version(Resume { epoch: self.epoch, version: self.version })
    }
}

fn of(counts: &mut SeatCounts, state: SeatState) -> &mut u32 {
    match state {
        SeatState::Free => &mut counts.free,
        SeatState::Held => &mut counts.held,
        SeatState::Sold => &mut counts.sold,
        SeatState::Blocked => &mut counts.blocked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(free: u32, held: u32, sold: u32, blocked: u32) -> SeatCounts {
        SeatCounts { free, held, sold, blocked }
    }

    fn session() -> Id {
        Id::new("hamlet").expect("a good id")
    }

    /// Five seats at version 7: free, held, sold, blocked, free.
    fn map() -> MapState {
        MapState::begin(snapshot(1, 7)).expect("a good snapshot")
    }

    fn snapshot(epoch: u64, version: u64) -> Snapshot {
        let entity = Entity::Session(session());
        Snapshot {
            entity,
            epoch,
            version,
            counts: counts(2, 1, 1, 1),
            areas: Vec::new(),
            seats: vec![0b11_10_01_00, 0b00],
        }
    }

    fn delta(from: u64, to: u64, changes: &[(u32, SeatState)], counts: SeatCounts) -> Delta {
        Delta { from, to, changes: changes.to_vec(), counts, areas: Vec::new() }
    }

    fn drawn(map: &MapState) -> String {
        let letter = |state| match state {
            SeatState::Free => '.',
            SeatState::Held => 'h',
            SeatState::Sold => 's',
            SeatState::Blocked => 'x',
        };
        map.states().map(letter).collect()
    }

    #[test]
    fn a_delta_changes_what_it_names() {
        let mut map = map();
        assert_eq!(drawn(&map), ".hsx.");
        let next = delta(7, 9, &[(0, SeatState::Held), (1, SeatState::Sold), (4, SeatState::Held)], counts(0, 2, 2, 1));
        assert_eq!(map.apply(next.clone()), Ok(Applied::Newer));
        assert_eq!((drawn(&map).as_str(), map.version()), ("hssxh", 9));
        assert_eq!(map.change(), &Change::Seats { from: 7, seats: next.changes.clone() });
        assert_eq!(map.apply(next), Ok(Applied::Nothing), "the same once more does nothing");
        assert_eq!(drawn(&map), "hssxh");
    }

    #[test]
    fn a_gap_is_noticed_and_an_overlap_is_none() {
        let mut map = map();
        let later = delta(8, 9, &[(0, SeatState::Held)], counts(1, 2, 1, 1));
        assert_eq!(map.apply(later), Ok(Applied::Gap));
        assert_eq!((drawn(&map).as_str(), map.version()), (".hsx.", 7));
        let over = delta(5, 8, &[(1, SeatState::Held), (0, SeatState::Held)], counts(1, 2, 1, 1));
        assert_eq!(map.apply(over), Ok(Applied::Newer));
        assert_eq!((drawn(&map).as_str(), map.version()), ("hhsx.", 8));
    }

    #[test]
    fn a_snapshot_replaces_unless_it_is_older() {
        let mut map = map();
        assert_eq!(map.replace(snapshot(1, 6)), Ok(Applied::Nothing));
        assert_eq!(map.version(), 7);
        assert_eq!(map.replace(snapshot(1, 9)), Ok(Applied::Newer));
        assert_eq!(map.replace(snapshot(2, 3)), Ok(Applied::Newer), "another epoch starts over");
        assert_eq!((map.epoch(), map.version()), (2, 3));
    }

    #[test]
    fn what_does_not_add_up_is_not_believed() {
        let mut map = map();
        assert!(map.apply(delta(7, 8, &[(0, SeatState::Held)], counts(2, 1, 1, 1))).is_err());
        let mut map = self::map();
        assert!(map.apply(delta(7, 8, &[(5, SeatState::Held)], counts(2, 1, 1, 1))).is_err());
        let wrong = Snapshot { counts: counts(3, 1, 1, 0), ..snapshot(1, 7) };
        assert!(MapState::begin(wrong).is_err());
        let short = Snapshot { seats: vec![0], ..snapshot(1, 7) };
        assert!(MapState::begin(short).is_err());
        assert_eq!(map.recount(), map.counts());
    }
}

//! The seat map of a session, kept up to date from a feed.

use boxoffice_core::{
    answer::{AreaCounts, SaleMark, SeatCounts},
    id::{Entity, Id},
    seat::SeatState,
};
use boxoffice_wire::{
    body::{Resume, ResumeBody},
    feed::{Delta, Snapshot},
    reply::Unreadable,
};

use crate::live::{Applied, Live, compare_versions, merge_areas};

/// The state of every seat of a session at one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapState {
    session: Id,
    epoch: u64,
    version: u64,
    counts: SeatCounts,
    areas: Vec<AreaCounts>,
    sale: Option<SaleMark>,
    /// The states of the seats in layout order, two bits each.
    packed: Vec<u8>,
    change: Change,
}

/// The change by the last frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Any seat may have changed, because the frame was a snapshot.
    All,
    /// Only these seats changed.
    Seats {
        /// The version before the change.
        from: u64,
        /// The index of each seat in layout order, and its state now.
        seats: Vec<(u32, SeatState)>,
    },
}

impl MapState {
    /// The session whose map this is.
    pub fn session(&self) -> &Id {
        &self.session
    }

    /// The session's version, within [`MapState::epoch`].
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The epoch of the version. Versions of different epochs cannot be compared.
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

    /// The mark of the session's offers and terms. Read the session again when it changes.
    pub fn sale(&self) -> Option<SaleMark> {
        self.sale
    }

    /// The number of seats.
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

    /// The change by the last frame.
    pub fn change(&self) -> &Change {
        &self.change
    }

    /// Seats by state, counted from the seats.
    pub fn recount(&self) -> SeatCounts {
        let mut counts = SeatCounts::default();
        self.states().for_each(|state| *count_mut(&mut counts, state) += 1);
        counts
    }
}

impl Live for MapState {
    type Snapshot = Snapshot;

    fn from_snapshot(snapshot: Snapshot) -> Result<MapState, Unreadable> {
        let Snapshot { entity, epoch, version, counts, areas, seats: packed, sale } = snapshot;
        let Entity::Session(session) = entity else {
            return Err(Unreadable(format!("a watch of seats got a snapshot of {entity}, which has no seats")));
        };
        let map = MapState { session, epoch, version, counts, areas, sale, packed, change: Change::All };
        if map.packed.len() != map.seats().div_ceil(4) as usize {
            return Err(Unreadable("the number of seats in a snapshot differs from its counts".into()));
        }
        if map.recount() != counts {
            return Err(Unreadable("the counts of a snapshot differ from its seats".into()));
        }
        Ok(map)
    }

    fn apply_snapshot(&mut self, snapshot: Snapshot) -> Result<Applied, Unreadable> {
        if snapshot.epoch == self.epoch && snapshot.version < self.version {
            return Ok(Applied::Unchanged);
        }
        *self = MapState::from_snapshot(snapshot)?;
        Ok(Applied::Newer)
    }

    /// A delta carries absolute states. So a delta that begins before this version and ends after it applies as well.
    fn apply_delta(&mut self, delta: Delta) -> Result<Applied, Unreadable> {
        let applied = compare_versions(self.version, delta.from, delta.to);
        if applied != Applied::Newer {
            return Ok(applied);
        }
        let seats = self.seats();
        if delta.changes.iter().any(|(index, _)| *index >= seats) {
            return Err(Unreadable("a delta names a seat that does not exist".into()));
        }
        for (index, state) in &delta.changes {
            let before = self.state(*index);
            *count_mut(&mut self.counts, before) -= 1;
            *count_mut(&mut self.counts, *state) += 1;
            let byte = &mut self.packed[*index as usize / 4];
            let shift = index % 4 * 2;
            *byte = *byte & !(3 << shift) | (*state as u8) << shift;
        }
        if self.counts != delta.counts {
            let (delta, map) = (delta.counts, self.counts);
            return Err(Unreadable(format!("the counts of a delta are {delta:?}, but the map has {map:?}")));
        }
        merge_areas(&mut self.areas, delta.areas);
        self.sale = delta.sale.or(self.sale);
        self.change = Change::Seats { from: self.version, seats: delta.changes };
        self.version = delta.to;
        Ok(Applied::Newer)
    }

    fn resume(&self) -> ResumeBody {
        ResumeBody::version(Resume { epoch: self.epoch, version: self.version })
    }
}

fn count_mut(counts: &mut SeatCounts, state: SeatState) -> &mut u32 {
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
        MapState::from_snapshot(snapshot(1, 7)).expect("a good snapshot")
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
            sale: None,
        }
    }

    fn delta(from: u64, to: u64, changes: &[(u32, SeatState)], counts: SeatCounts) -> Delta {
        Delta { from, to, changes: changes.to_vec(), counts, areas: Vec::new(), sale: None }
    }

    /// One character per seat.
    fn render(map: &MapState) -> String {
        let letter = |state| match state {
            SeatState::Free => '.',
            SeatState::Held => 'h',
            SeatState::Sold => 's',
            SeatState::Blocked => 'x',
        };
        map.states().map(letter).collect()
    }

    #[test]
    fn a_delta_changes_the_seats_that_it_names() {
        let mut map = map();
        assert_eq!(render(&map), ".hsx.");
        let next = delta(7, 9, &[(0, SeatState::Held), (1, SeatState::Sold), (4, SeatState::Held)], counts(0, 2, 2, 1));
        assert_eq!(map.apply_delta(next.clone()), Ok(Applied::Newer));
        assert_eq!((render(&map).as_str(), map.version()), ("hssxh", 9));
        assert_eq!(map.change(), &Change::Seats { from: 7, seats: next.changes.clone() });
        assert_eq!(map.apply_delta(next), Ok(Applied::Unchanged), "the same delta again has no effect");
        assert_eq!(render(&map), "hssxh");
    }

    #[test]
    fn a_gap_is_detected_and_an_overlap_is_not_a_gap() {
        let mut map = map();
        let later = delta(8, 9, &[(0, SeatState::Held)], counts(1, 2, 1, 1));
        assert_eq!(map.apply_delta(later), Ok(Applied::Gap));
        assert_eq!((render(&map).as_str(), map.version()), (".hsx.", 7));
        let overlapping = delta(5, 8, &[(1, SeatState::Held), (0, SeatState::Held)], counts(1, 2, 1, 1));
        assert_eq!(map.apply_delta(overlapping), Ok(Applied::Newer));
        assert_eq!((render(&map).as_str(), map.version()), ("hhsx.", 8));
    }

    #[test]
    fn a_snapshot_replaces_the_map_unless_it_is_older() {
        let mut map = map();
        assert_eq!(map.apply_snapshot(snapshot(1, 6)), Ok(Applied::Unchanged));
        assert_eq!(map.version(), 7);
        assert_eq!(map.apply_snapshot(snapshot(1, 9)), Ok(Applied::Newer));
        assert_eq!(map.apply_snapshot(snapshot(2, 3)), Ok(Applied::Newer), "another epoch starts over");
        assert_eq!((map.epoch(), map.version()), (2, 3));
    }

    #[test]
    fn contradictory_frames_are_rejected() {
        let mut map = map();
        assert!(map.apply_delta(delta(7, 8, &[(0, SeatState::Held)], counts(2, 1, 1, 1))).is_err());
        let mut map = self::map();
        assert!(map.apply_delta(delta(7, 8, &[(5, SeatState::Held)], counts(2, 1, 1, 1))).is_err());
        let wrong = Snapshot { counts: counts(3, 1, 1, 0), ..snapshot(1, 7) };
        assert!(MapState::from_snapshot(wrong).is_err());
        let short = Snapshot { seats: vec![0], ..snapshot(1, 7) };
        assert!(MapState::from_snapshot(short).is_err());
        assert_eq!(map.recount(), map.counts());
    }
}

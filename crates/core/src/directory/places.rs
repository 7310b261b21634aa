//! Venues by position.
//!
//! An immutable tree of points is shared by all copies. Beside it are the few venues that came or moved since it was built.
//! When they become many, the tree is built anew by a bulk load. So a write copies no tree, and the cost of building is in
//! proportion to the writes.

use alloc::{boxed::Box, collections::BinaryHeap, sync::Arc, vec::Vec};
use core::{
    cmp::Reverse,
    iter::{self, Peekable},
};

use rstar::{PointDistance, RTree, primitives::GeomWithData};

use super::position::{Vector, distance_mm, vector};
use crate::{id::Id, shared_map::SharedMap};

/// How many changes are always allowed beside the tree.
const RECENT_MIN: usize = 64;

/// Beyond that, one change is allowed for this number of venues in the tree. Each search near a point looks at every change.
const INDEXED_PER_RECENT: usize = 8;

/// Distances are rounded, so the next entry of the tree may be nearer by this much than the one before.
const ROUNDING_MM: u64 = 1;

type Spot = GeomWithData<Vector, Id>;

/// The index of venues by position.
#[derive(Clone)]
pub(super) struct Places {
    indexed: Arc<RTree<Spot>>,
    /// Positions that differ from the tree. `None` if the venue has no position any more.
    recent: SharedMap<Id, Option<Vector>>,
}

impl Places {
    /// The index of these venues.
    pub(super) fn of(venues: impl Iterator<Item = (Id, (i32, i32))>) -> Places {
        let spots = venues.map(|(id, position)| Spot::new(vector(position), id)).collect();
        Places { indexed: Arc::new(RTree::bulk_load(spots)), recent: SharedMap::new() }
    }

    /// Sets or removes the position of a venue.
    pub(super) fn put(&mut self, id: &Id, position: Option<(i32, i32)>) {
        self.recent.insert(id.clone(), position.map(vector));
        if self.recent.len() > RECENT_MIN.max(self.indexed.size() / INDEXED_PER_RECENT) {
            self.index_recent();
        }
    }

    fn index_recent(&mut self) {
        let stay = self.indexed.iter().filter(|spot| !self.recent.contains_key(&spot.data)).cloned();
        let come = self.recent.iter().filter_map(|(id, place)| Some(Spot::new((*place)?, id.clone())));
        let spots: Vec<Spot> = stay.chain(come).collect();
        self.indexed = Arc::new(RTree::bulk_load(spots));
        self.recent = SharedMap::new();
    }

    /// All venues that have a position, nearest first.
    pub(super) fn nearest(&self, to: (i32, i32)) -> Nearest<'_> {
        let to = vector(to);
        let recent = self.recent.iter().filter_map(|(id, place)| Some(step((*place)?, to, id)));
        let spots = self.indexed.nearest_neighbor_iter_with_distance_2(to);
        let spots = spots.filter(|(spot, _)| !self.recent.contains_key(&spot.data));
        let spots = spots.map(|(spot, chord_2)| (distance_mm(chord_2), &spot.data));
        let spots: Box<dyn Iterator<Item = (u64, &Id)>> = Box::new(spots);
        Nearest { waiting: recent.collect(), spots: spots.peekable() }
    }
}

impl Default for Places {
    fn default() -> Places {
        Places::of(iter::empty())
    }
}

fn step(place: Vector, to: Vector, id: &Id) -> Reverse<(u64, &Id)> {
    Reverse((distance_mm(place.distance_2(&to)), id))
}

/// Venues with their distances in millimetres, nearest first, then by id.
pub(super) struct Nearest<'a> {
    /// Venues that come next unless the tree has a nearer one.
    waiting: BinaryHeap<Reverse<(u64, &'a Id)>>,
    /// Venues of the tree, nearest first up to rounding, and in no order at equal distances.
    spots: Peekable<Box<dyn Iterator<Item = (u64, &'a Id)> + 'a>>,
}

impl<'a> Nearest<'a> {
    /// Only these venues.
    pub(super) fn among(venues: impl Iterator<Item = (&'a Id, (i32, i32))>, to: (i32, i32)) -> Nearest<'a> {
        let to = vector(to);
        let waiting = venues.map(|(id, position)| step(vector(position), to, id)).collect();
        let spots: Box<dyn Iterator<Item = (u64, &Id)>> = Box::new(iter::empty());
        Nearest { waiting, spots: spots.peekable() }
    }
}

impl<'a> Iterator for Nearest<'a> {
    type Item = (u64, &'a Id);

    fn next(&mut self) -> Option<(u64, &'a Id)> {
        let waiting = &mut self.waiting;
        while let Some(spot) = self.spots.next_if(|(distance, _)| {
            waiting.peek().is_none_or(|Reverse((nearest, _))| *distance <= *nearest + ROUNDING_MM)
        }) {
            waiting.push(Reverse(spot));
        }
        waiting.pop().map(|Reverse(venue)| venue)
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, sync::Arc, vec::Vec};

    use super::{Places, RECENT_MIN};
    use crate::id::Id;

    /// Every write is made to a copy, as an actor does. It copies no tree.
    #[test]
    fn writes_to_copies_share_the_tree_and_seldom_make_a_new_one() {
        let (mut places, mut made, mut loaded) = (Places::default(), 0, 0);
        for number in 0..5_000i32 {
            let before = places.clone();
            let id = Id::new(&format!("venue-{number}")).expect("a good id");
            places.put(&id, Some((number * 30_011 % 180_000_000, number * 7_919 % 90_000_000)));
            if !Arc::ptr_eq(&before.indexed, &places.indexed) {
                made += 1;
                loaded += places.indexed.size();
            }
            assert!(places.recent.len() <= RECENT_MIN.max(places.indexed.size() / 8));
            assert_eq!(places.indexed.size() + places.recent.len(), number as usize + 1);
        }
        // Trees grow by a ninth at least, so all of them together are at most nine times the last.
        assert_eq!((made, loaded), (27, 41_800), "trees made, and points loaded into them");
        assert_eq!(places.nearest((0, 0)).count(), 5_000);
    }

    #[test]
    fn a_moved_venue_is_found_once_and_a_removed_one_never() {
        let id = |number: i32| Id::new(&format!("v{number}")).expect("a good id");
        let mut places = Places::of((0..100).map(|number| (id(number), (number * 1_000_000, 0))));
        places.put(&id(0), Some((99_500_000, 0)));
        places.put(&id(99), None);
        let nearest_ids =
            |places: &Places| places.nearest((100_000_000, 0)).map(|(_, id)| id.clone()).collect::<Vec<_>>();
        let order = nearest_ids(&places);
        assert_eq!(order[..3], [id(0), id(98), id(97)]);
        assert_eq!(order.len(), 99);
        places.index_recent();
        assert_eq!(nearest_ids(&places), order);
        assert_eq!((places.indexed.size(), places.recent.len()), (99, 0));
    }
}

//! An ordered map that is cheap to copy. Copies share their leaves, and a write copies only the leaf it touches and its branch.
//! So a snapshot, the committed state and an actor share memory, and no command waits for a copy of all sales of an entity.

use alloc::{sync::Arc, vec::Vec};
use core::{
    fmt,
    ops::{Bound, RangeBounds},
};

use crate::{
    planted,
    stored::{Decode, Encode, Error, Reader, Schema, Shape, Writer, entries},
};

/// The most entries of one leaf. A write copies no more.
const LEAF_MAX: usize = 64;

/// How many entries a full leaf gets room for. A vector that grows by itself doubles, and as many entries again would stay empty.
const LEAF_STEP: usize = 8;

/// The most leaves of one branch. A copy of the map counts references of its few branches only.
const BRANCH_MAX: usize = 64;

type Leaf<K, V> = Arc<Vec<(K, V)>>;

/// Adjacent leaves, and keys between them. So a search touches only the leaf of its key.
#[derive(Clone)]
struct Branch<K, V> {
    /// A bound above every key before the branch, and not above any key of it. The first branch of the map has no bound.
    low: K,
    /// Such a bound for every leaf but the first.
    lows: Vec<K>,
    leaves: Vec<Leaf<K, V>>,
}

/// The branch, the leaf of the branch, and the entry of the leaf.
type Place = (usize, usize, usize);

/// The map. Keys are unique and in order.
pub struct SharedMap<K, V> {
    /// Neither branches nor leaves are empty. Keys ascend through all of them.
    branches: Vec<Arc<Branch<K, V>>>,
    len: usize,
}

/// A set that is cheap to copy.
pub type SharedSet<K> = SharedMap<K, ()>;

impl<K, V> SharedMap<K, V> {
    /// An empty map.
    pub const fn new() -> SharedMap<K, V> {
        SharedMap { branches: Vec::new(), len: 0 }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.leaves().flat_map(|leaf| leaf.iter()).map(|(key, value)| (key, value))
    }

    /// All keys, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// All values, in the order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The first entry.
    pub fn first(&self) -> Option<(&K, &V)> {
        self.branches.first()?.leaves.first()?.first().map(|(key, value)| (key, value))
    }

    /// The last entry.
    pub fn last(&self) -> Option<(&K, &V)> {
        self.branches.last()?.leaves.last()?.last().map(|(key, value)| (key, value))
    }

    /// Bytes on the heap, without those that keys and values own.
    pub fn heap_bytes(&self) -> usize {
        let leaf = |leaf: &Leaf<K, V>| leaf.capacity() * size_of::<(K, V)>() + HEAD_BYTES;
        let branch = |branch: &Arc<Branch<K, V>>| {
            let counts = 2 * size_of::<usize>();
            let lows = branch.lows.capacity() * size_of::<K>();
            size_of::<Branch<K, V>>() + counts + branch.leaves.capacity() * size_of::<usize>() + lows
        };
        let branches: usize = self.branches.iter().map(branch).sum();
        self.leaves().map(leaf).sum::<usize>() + branches + self.branches.capacity() * size_of::<usize>()
    }

    fn leaves(&self) -> impl DoubleEndedIterator<Item = &Leaf<K, V>> {
        self.branches.iter().flat_map(|branch| branch.leaves.iter())
    }
}

/// The overhead of a leaf, which is two counts and a vector.
const HEAD_BYTES: usize = 5 * size_of::<usize>();

impl<K: Ord, V> SharedMap<K, V> {
    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        let (branch, leaf) = self.leaf_of(key);
        let leaf = self.branches.get(branch)?.leaves.get(leaf)?;
        let place = leaf.binary_search_by(|(known, _)| known.cmp(key)).ok()?;
        Some(&leaf[place].1)
    }

    /// Whether there is a value of a key.
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// The entries whose keys are in a range, in order.
    pub fn range<B: RangeBounds<K>>(&self, range: B) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        let (first, last) = (self.begin(range.start_bound()), self.end(range.end_bound()));
        // An empty range may end before it begins.
        let last = last.max(first);
        let branches = self.branches.get(first.0..self.branches.len().min(last.0 + 1)).unwrap_or(&[]);
        branches.iter().enumerate().flat_map(move |(number, branch)| {
            let number = number + first.0;
            let from = if number == first.0 { first.1 } else { 0 };
            let leaves = &branch.leaves;
            let to = if number == last.0 { leaves.len().min(last.1 + 1) } else { leaves.len() };
            leaves[from..to].iter().enumerate().flat_map(move |(leaf_number, leaf)| {
                let here = (number, leaf_number + from);
                let from = if here == (first.0, first.1) { first.2 } else { 0 };
                let to = if here == (last.0, last.1) { last.2 } else { leaf.len() };
                leaf[from..to].iter().map(|(key, value)| (key, value))
            })
        })
    }

    /// The branch and the leaf that have the key, or would have it. Both are 0 in an empty map.
    fn leaf_of(&self, key: &K) -> (usize, usize) {
        let others = self.branches.get(1..).unwrap_or(&[]);
        let branch = others.partition_point(|branch| branch.low <= *key);
        (branch, self.branches.get(branch).map_or(0, |branch| branch.leaf_of(key)))
    }

    /// The place of the first entry of a range with this begin.
    fn begin(&self, bound: Bound<&K>) -> Place {
        match bound {
            Bound::Unbounded => (0, 0, 0),
            Bound::Included(key) => self.place(key, |known| known < key),
            Bound::Excluded(key) => self.place(key, |known| known <= key),
        }
    }

    /// The place after the last entry of a range with this end.
    fn end(&self, bound: Bound<&K>) -> Place {
        match bound {
            Bound::Unbounded => (self.branches.len(), 0, 0),
            Bound::Included(key) => self.place(key, |known| known <= key),
            Bound::Excluded(key) => self.place(key, |known| known < key),
        }
    }

    fn place(&self, key: &K, before: impl Fn(&K) -> bool) -> Place {
        let (branch, leaf) = self.leaf_of(key);
        let entries = self.branches.get(branch).and_then(|branch| branch.leaves.get(leaf));
        (branch, leaf, entries.map_or(0, |leaf| leaf.partition_point(|(known, _)| before(known))))
    }
}

impl<K: Ord, V> Branch<K, V> {
    fn leaf_of(&self, key: &K) -> usize {
        self.lows.partition_point(|low| low <= key)
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let (branch, leaf) = self.leaf_of(key);
        let place = self.branches.get(branch)?.leaves[leaf].binary_search_by(|(known, _)| known.cmp(key)).ok()?;
        let leaf = &mut Arc::make_mut(&mut self.branches[branch]).leaves[leaf];
        Some(&mut Arc::make_mut(leaf)[place].1)
    }

    /// The value of a key, to be changed. Inserts the given value if there is none.
    pub fn get_or_insert(&mut self, key: &K, value: V) -> &mut V {
        if !self.contains_key(key) {
            self.insert(key.clone(), value);
        }
        self.get_mut(key).expect("it is there by now")
    }

    /// Sets the value of a key, and returns the one before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let (number, leaf_number) = self.leaf_of(&key);
        let Some(branch) = self.branches.get_mut(number) else {
            let (low, leaf) = (key.clone(), Arc::new(Vec::from([(key, value)])));
            self.branches.push(Arc::new(Branch { low, lows: Vec::new(), leaves: Vec::from([leaf]) }));
            self.len = 1;
            return None;
        };
        let branch = Arc::make_mut(branch);
        let leaf = Arc::make_mut(&mut branch.leaves[leaf_number]);
        let place = match leaf.binary_search_by(|(known, _)| known.cmp(&key)) {
            Ok(place) => return Some(core::mem::replace(&mut leaf[place].1, value)),
            Err(place) => place,
        };
        if leaf.len() == leaf.capacity() && !planted::is("leaves that grow to twice their size") {
            leaf.reserve_exact(LEAF_STEP);
        }
        leaf.insert(place, (key, value));
        self.len += 1;
        if leaf.len() > LEAF_MAX {
            let upper = leaf.split_off(cut(place, LEAF_MAX));
            leaf.shrink_to(leaf.len() + LEAF_STEP);
            branch.lows.insert(leaf_number, upper[0].0.clone());
            branch.leaves.insert(leaf_number + 1, Arc::new(upper));
            if branch.leaves.len() > BRANCH_MAX {
                let upper = branch.split_off(cut(leaf_number + 1, BRANCH_MAX));
                self.branches.insert(number + 1, Arc::new(upper));
            }
        }
        None
    }

    /// Removes the entry with this key.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let (branch, leaf) = self.leaf_of(key);
        let place = self.branches.get(branch)?.leaves[leaf].binary_search_by(|(known, _)| known.cmp(key)).ok()?;
        Some(self.remove_at((branch, leaf, place)).1)
    }

    /// Removes the first entry.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        (!self.is_empty()).then(|| self.remove_at((0, 0, 0)))
    }

    fn remove_at(&mut self, (number, leaf_number, place): Place) -> (K, V) {
        let branch = Arc::make_mut(&mut self.branches[number]);
        let entry = Arc::make_mut(&mut branch.leaves[leaf_number]).remove(place);
        self.len -= 1;
        if branch.shrink(leaf_number) {
            self.shrink(number);
        }
        entry
    }

    /// Removes a branch that has become empty, or joins one that has become small with a neighbour.
    fn shrink(&mut self, number: usize) {
        let sizes = |number: usize| self.branches.get(number).map(|branch| branch.leaves.len());
        match shrinking(number, BRANCH_MAX, sizes) {
            Shrinking::No => {}
            Shrinking::Gone => drop(self.branches.remove(number)),
            Shrinking::Joined { first } => {
                let next = Arc::unwrap_or_clone(self.branches.remove(first + 1));
                let branch = Arc::make_mut(&mut self.branches[first]);
                branch.lows.push(next.low);
                branch.lows.extend(next.lows);
                branch.leaves.extend(next.leaves);
            }
        }
        if self.branches.is_empty() {
            self.branches = Vec::new();
        }
    }
}

impl<K: Clone, V: Clone> Branch<K, V> {
    /// Splits off the leaves after the first `at`, which are not all and not none.
    fn split_off(&mut self, at: usize) -> Branch<K, V> {
        let leaves = self.leaves.split_off(at);
        let lows = self.lows.split_off(at);
        let low = self.lows.pop().expect("a key lies between the two parts");
        Branch { low, lows, leaves }
    }

    /// Removes a leaf that has become empty, or joins one that has become small with a neighbour. Returns whether it did.
    fn shrink(&mut self, number: usize) -> bool {
        let sizes = |number: usize| self.leaves.get(number).map(|leaf| leaf.len());
        match shrinking(number, LEAF_MAX, sizes) {
            Shrinking::No => return false,
            Shrinking::Gone => {
                self.leaves.remove(number);
                if !self.lows.is_empty() {
                    self.lows.remove(number.saturating_sub(1));
                }
            }
            Shrinking::Joined { first } => {
                self.lows.remove(first);
                let next = self.leaves.remove(first + 1);
                Arc::make_mut(&mut self.leaves[first]).extend(next.iter().cloned());
            }
        }
        true
    }
}

/// The change of a part after a removal.
enum Shrinking {
    No,
    /// It is empty.
    Gone,
    /// This part and the next one are both small and become one.
    Joined {
        first: usize,
    },
}

fn shrinking(number: usize, max: usize, size: impl Fn(usize) -> Option<usize>) -> Shrinking {
    let left = size(number).unwrap_or(0);
    if left == 0 {
        return Shrinking::Gone;
    }
    let fits = |other: Option<usize>| left < max / 4 && other.is_some_and(|other| left + other <= max / 2);
    if fits(size(number + 1)) {
        Shrinking::Joined { first: number }
    } else if number > 0 && fits(size(number - 1)) {
        Shrinking::Joined { first: number - 1 }
    } else {
        Shrinking::No
    }
}

/// Where to cut a part that an insert at `place` made too long. Inserts in order leave full parts, others half full ones.
fn cut(place: usize, max: usize) -> usize {
    if place == max { max } else { max / 2 }
}

impl<K, V> Clone for SharedMap<K, V> {
    fn clone(&self) -> SharedMap<K, V> {
        SharedMap { branches: self.branches.clone(), len: self.len }
    }
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> SharedMap<K, V> {
        SharedMap::new()
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &SharedMap<K, V>) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: Eq, V: Eq> Eq for SharedMap<K, V> {}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for SharedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> SharedMap<K, V> {
        let mut map = SharedMap::new();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

impl<K: Encode, V: Encode> Encode for SharedMap<K, V> {
    fn encode(&self, out: &mut Writer) {
        out.map(self.len);
        for (key, value) in self.iter() {
            key.encode(out);
            value.encode(out);
        }
    }

    fn is_absent(&self) -> bool {
        self.len == 0
    }
}

impl<K: Decode + Ord + Clone, V: Decode + Clone> Decode for SharedMap<K, V> {
    fn shape(schema: &mut Schema) -> Shape {
        Shape::Map(alloc::boxed::Box::new((K::shape(schema), V::shape(schema))))
    }

    fn decode(from: &mut Reader<'_>) -> Result<SharedMap<K, V>, Error> {
        let mut map = SharedMap::new();
        entries(from, |key, value| _ = map.insert(key, value))?;
        Ok(map)
    }

    fn absent() -> Option<SharedMap<K, V>> {
        Some(SharedMap::new())
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeMap, vec::Vec};

    use proptest::{collection::vec, prelude::*};

    use super::{BRANCH_MAX, LEAF_MAX, SharedMap};

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u16, u32),
        Remove(u16),
        Change(u16, u32),
        PopFirst,
        Copy,
        Range(u16, u16),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            8 => (0..600u16, any::<u32>()).prop_map(|(key, value)| Step::Insert(key, value)),
            5 => (0..600u16).prop_map(Step::Remove),
            2 => (0..600u16, any::<u32>()).prop_map(|(key, value)| Step::Change(key, value)),
            1 => Just(Step::PopFirst),
            1 => Just(Step::Copy),
            2 => (0..600u16, 0..600u16).prop_map(|(from, to)| Step::Range(from, to)),
        ];
        vec(step, 0..800)
    }

    fn check(map: &SharedMap<u16, u32>, model: &BTreeMap<u16, u32>) {
        assert_eq!(map.len(), model.len());
        assert!(map.iter().eq(model.iter()));
        assert!(map.iter().rev().eq(model.iter().rev()));
        assert_eq!(map.first(), model.first_key_value());
        assert_eq!(map.last(), model.last_key_value());
        assert!(map.leaves().all(|leaf| (1..=LEAF_MAX).contains(&leaf.len())));
        assert!(map.branches.iter().all(|branch| (1..=BRANCH_MAX).contains(&branch.leaves.len())));
        assert!(map.branches.iter().all(|branch| branch.lows.len() + 1 == branch.leaves.len()));
        assert!(map.keys().all(|key| map.contains_key(key)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn the_shared_map_matches_a_map_and_copies_do_not_change(steps in steps()) {
            let (mut map, mut model) = (SharedMap::new(), BTreeMap::new());
            let mut copies = Vec::new();
            for step in steps {
                match step {
                    Step::Insert(key, value) => assert_eq!(map.insert(key, value), model.insert(key, value)),
                    Step::Remove(key) => assert_eq!(map.remove(&key), model.remove(&key)),
                    Step::Change(key, value) => {
                        if let Some(kept) = map.get_mut(&key) {
                            *kept = value;
                        }
                        if let Some(kept) = model.get_mut(&key) {
                            *kept = value;
                        }
                        assert_eq!(map.get(&key), model.get(&key));
                    }
                    Step::PopFirst => assert_eq!(map.pop_first(), model.pop_first()),
                    Step::Copy => copies.push((map.clone(), model.clone())),
                    Step::Range(from, to) => {
                        let (low, high) = (from.min(to), from.max(to));
                        assert!(map.range(low..high).eq(model.range(low..high)));
                        assert!(map.range(low..=high).rev().eq(model.range(low..=high).rev()));
                        assert!(map.range(low..).eq(model.range(low..)));
                        assert!(map.range(..high).eq(model.range(..high)));
                    }
                }
            }
            check(&map, &model);
            for (map, model) in &copies {
                check(map, model);
            }
        }
    }

    #[test]
    fn many_branches_come_and_go_in_order_and_out_of_order() {
        let scattered = |number: u32| number.wrapping_mul(0x9e37_79b9);
        let in_order = |number: u32| number;
        for key in [scattered as fn(u32) -> u32, in_order] {
            let (mut map, mut model) = (SharedMap::new(), BTreeMap::new());
            for number in 0..20_000 {
                assert_eq!(map.insert(key(number), number), model.insert(key(number), number));
            }
            assert!(map.branches.len() > 3, "{} branches", map.branches.len());
            let copy = map.clone();
            for (from, to) in [(0, 1 << 20), (1 << 20, u32::MAX), (63, 64 * 64 + 1), (4_096, 4_096), (9_999, 20_001)] {
                assert!(map.range(from..to).eq(model.range(from..to)));
                assert!(map.range(from..=to).rev().eq(model.range(from..=to).rev()));
            }
            for number in (0..20_000).filter(|number| number % 97 != 0) {
                assert_eq!(map.remove(&key(number)), model.remove(&key(number)));
            }
            assert!(map.iter().eq(model.iter()));
            assert!(map.branches.len() < copy.branches.len());
            assert_eq!(copy.len(), 20_000);
            while let Some((key, value)) = map.pop_first() {
                assert_eq!(model.pop_first(), Some((key, value)));
            }
            assert_eq!((map.heap_bytes(), model.len()), (0, 0));
        }
    }

    #[test]
    fn a_range_that_ends_before_it_begins_is_empty() {
        let map: SharedMap<u16, ()> = (0..300).map(|key| (key, ())).collect();
        let (from, to) = (200, 100);
        assert_eq!(map.range(from..to).count(), 0);
        assert_eq!(map.range(1_000..).count(), 0);
        assert_eq!(SharedMap::<u16, ()>::new().range(..).count(), 0);
    }
}

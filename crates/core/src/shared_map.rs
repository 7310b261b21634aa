//! An ordered map that is cheap to copy: copies share their leaves, and a write copies only the leaf it touches. What a
//! snapshot, the committed state and an actor have in common is in memory once, and no command waits for a copy of
//! everything an entity has ever sold.

use alloc::{sync::Arc, vec::Vec};
use core::{
    fmt,
    marker::PhantomData,
    ops::{Bound, RangeBounds},
};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};

/// Entries of one leaf: a write copies at most so many.
const LEAF_MAX: usize = 64;

/// The map. Keys are unique and in order.
pub struct SharedMap<K, V> {
    /// None of them is empty; keys ascend through all of them.
    leaves: Vec<Arc<Vec<(K, V)>>>,
    len: usize,
}

/// A set that is cheap to copy.
pub type SharedSet<K> = SharedMap<K, ()>;

impl<K, V> SharedMap<K, V> {
    /// Nothing in it.
    pub const fn new() -> SharedMap<K, V> {
        SharedMap { leaves: Vec::new(), len: 0 }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.leaves.iter().flat_map(|leaf| leaf.iter()).map(|(key, value)| (key, value))
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
        self.leaves.first()?.first().map(|(key, value)| (key, value))
    }

    /// The last entry.
    pub fn last(&self) -> Option<(&K, &V)> {
        self.leaves.last()?.last().map(|(key, value)| (key, value))
    }

    /// Bytes on the heap, those behind keys and values not counted.
    pub fn heap_bytes(&self) -> usize {
        let leaves: usize =
            self.leaves.iter().map(|leaf| leaf.capacity() * size_of::<(K, V)>() + LEAF_HEAD_BYTES).sum();
        leaves + self.leaves.capacity() * size_of::<usize>()
    }
}

/// What a leaf needs beside its entries: two counts and a vector.
const LEAF_HEAD_BYTES: usize = 5 * size_of::<usize>();

impl<K: Ord, V> SharedMap<K, V> {
    /// What is kept under a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        let leaf = self.leaves.get(self.leaf_of(key))?;
        let place = leaf.binary_search_by(|(known, _)| known.cmp(key)).ok()?;
        Some(&leaf[place].1)
    }

    /// Whether there is something under a key.
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// The entries whose keys are in a range, in order.
    pub fn range<B: RangeBounds<K>>(&self, range: B) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        let (first, last) = (self.begin(range.start_bound()), self.end(range.end_bound()));
        // An empty range may end before it begins.
        let last = last.max(first);
        let leaves = self.leaves.get(first.0..self.leaves.len().min(last.0 + 1)).unwrap_or(&[]);
        leaves.iter().enumerate().flat_map(move |(number, leaf)| {
            let number = number + first.0;
            let from = if number == first.0 { first.1 } else { 0 };
            let to = if number == last.0 { last.1 } else { leaf.len() };
            leaf[from..to].iter().map(|(key, value)| (key, value))
        })
    }

    /// The leaf that has the key, or would: the first whose last key is not smaller.
    fn leaf_of(&self, key: &K) -> usize {
        self.leaves.partition_point(|leaf| leaf.last().is_some_and(|(last, _)| last < key))
    }

    /// Leaf and place of the first entry of a range that begins so.
    fn begin(&self, bound: Bound<&K>) -> (usize, usize) {
        match bound {
            Bound::Unbounded => (0, 0),
            Bound::Included(key) => self.place(key, |known| known < key),
            Bound::Excluded(key) => self.place(key, |known| known <= key),
        }
    }

    /// Leaf and place after the last entry of a range that ends so.
    fn end(&self, bound: Bound<&K>) -> (usize, usize) {
        match bound {
            Bound::Unbounded => (self.leaves.len(), 0),
            Bound::Included(key) => self.place(key, |known| known <= key),
            Bound::Excluded(key) => self.place(key, |known| known < key),
        }
    }

    fn place(&self, key: &K, before: impl Fn(&K) -> bool) -> (usize, usize) {
        let number = self.leaf_of(key);
        let place = self.leaves.get(number).map_or(0, |leaf| leaf.partition_point(|(known, _)| before(known)));
        (number, place)
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    /// What is kept under a key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let number = self.leaf_of(key);
        let leaf = self.leaves.get_mut(number)?;
        let place = leaf.binary_search_by(|(known, _)| known.cmp(key)).ok()?;
        Some(&mut Arc::make_mut(leaf)[place].1)
    }

    /// What is kept under a key, to be changed; the given value if there was nothing.
    pub fn get_or_insert(&mut self, key: &K, value: V) -> &mut V {
        if !self.contains_key(key) {
            self.insert(key.clone(), value);
        }
        self.get_mut(key).expect("it is there by now")
    }

    /// Keeps a value under a key; what was there before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.leaves.is_empty() {
            self.leaves.push(Arc::new(Vec::from([(key, value)])));
            self.len = 1;
            return None;
        }
        let number = self.leaf_of(&key).min(self.leaves.len() - 1);
        let leaf = Arc::make_mut(&mut self.leaves[number]);
        match leaf.binary_search_by(|(known, _)| known.cmp(&key)) {
            Ok(place) => Some(core::mem::replace(&mut leaf[place].1, value)),
            Err(place) => {
                leaf.insert(place, (key, value));
                self.len += 1;
                if leaf.len() > LEAF_MAX {
                    // Keys that come in order leave full leaves behind, others half full ones.
                    let cut = if place == LEAF_MAX { LEAF_MAX } else { LEAF_MAX / 2 };
                    let upper = leaf.split_off(cut);
                    self.leaves.insert(number + 1, Arc::new(upper));
                }
                None
            }
        }
    }

    /// Takes the entry with this key out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let number = self.leaf_of(key);
        let place = self.leaves.get(number)?.binary_search_by(|(known, _)| known.cmp(key)).ok()?;
        Some(self.remove_at(number, place).1)
    }

    /// Takes the first entry out.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        (!self.is_empty()).then(|| self.remove_at(0, 0))
    }

    fn remove_at(&mut self, number: usize, place: usize) -> (K, V) {
        let leaf = Arc::make_mut(&mut self.leaves[number]);
        let entry = leaf.remove(place);
        let left = leaf.len();
        self.len -= 1;
        if left == 0 {
            self.leaves.remove(number);
            if self.leaves.is_empty() {
                self.leaves = Vec::new();
            }
        } else if left < LEAF_MAX / 4
            && self.leaves.get(number + 1).is_some_and(|next| left + next.len() <= LEAF_MAX / 2)
        {
            let next = self.leaves.remove(number + 1);
            Arc::make_mut(&mut self.leaves[number]).extend(next.iter().cloned());
        }
        entry
    }
}

impl<K, V> Clone for SharedMap<K, V> {
    fn clone(&self) -> SharedMap<K, V> {
        SharedMap { leaves: self.leaves.clone(), len: self.len }
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

impl<K: Serialize, V: Serialize> Serialize for SharedMap<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, K, V> Deserialize<'de> for SharedMap<K, V>
where
    K: Deserialize<'de> + Ord + Clone,
    V: Deserialize<'de> + Clone,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SharedMap<K, V>, D::Error> {
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

struct Entries<K, V>(PhantomData<(K, V)>);

impl<'de, K, V> Visitor<'de> for Entries<K, V>
where
    K: Deserialize<'de> + Ord + Clone,
    V: Deserialize<'de> + Clone,
{
    type Value = SharedMap<K, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<SharedMap<K, V>, A::Error> {
        let mut map = SharedMap::new();
        while let Some((key, value)) = entries.next_entry()? {
            map.insert(key, value);
        }
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeMap, vec::Vec};

    use proptest::{collection::vec, prelude::*};

    use super::{LEAF_MAX, SharedMap};

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
        assert!(map.leaves.iter().all(|leaf| (1..=LEAF_MAX).contains(&leaf.len())));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn it_is_a_map_and_copies_stay_as_they_were(steps in steps()) {
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
    fn a_range_that_ends_before_it_begins_is_empty() {
        let map: SharedMap<u16, ()> = (0..300).map(|key| (key, ())).collect();
        let (from, to) = (200, 100);
        assert_eq!(map.range(from..to).count(), 0);
        assert_eq!(map.range(1_000..).count(), 0);
        assert_eq!(SharedMap::<u16, ()>::new().range(..).count(), 0);
    }
}

//! A Bloom filter in front of the store. It knows that an entity has no record without reading the store.
//!
//! **Why it never hides a record.** It contains every entity whose record the store has had since this process opened it.
//! Entities are added before the batch that writes or removes their records, and a scan adds the records from before.
//! Until the scan has passed a shard, the filter says nothing about that shard. Nothing is removed from the filter. So
//! a reopened store, which may lack unsynced batches or have a batch that failed, has no record that the filter lacks.
//!
//! **Memory order.** A reader asks only after it has seen under the replica's lock that the entity is not in memory. The
//! archive writer adds the entity before it takes that lock to evict it, and an import before its snapshot is handed
//! on. The scan publishes its progress with release, and readers read it with acquire. So the bits themselves need no
//! order.

use std::{
    hash::{BuildHasher, Hasher},
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use boxoffice_core::{id::Entity, planted};
use boxoffice_shard::ShardId;
use bytes::Bytes;
use fastbloom::{AtomicBloomFilter, DefaultHasher};
use tracing_mutex::parkinglot::Mutex;

/// Layers. Each has room for [`GROWTH`] times as many entities as the one before, and is allocated when that one is
/// full. All together have room for 11 million entities in 15 MB. Beyond that the last layer has more false positives,
/// and lookups reach the store as they would without a filter.
const LAYERS: usize = 5;
const FIRST_LAYER: usize = 32_768;
const GROWTH: usize = 4;
/// The rate of a full layer, which takes 11 bits for each entity.
const FALSE_POSITIVES: f64 = 0.005;
/// Constant, so that a simulation is reproducible.
const SEED: [u8; 16] = *b"boxoffice filter";

pub(super) struct Filter {
    hasher: DefaultHasher,
    /// The capacity of the first layer.
    first: usize,
    layers: [OnceLock<AtomicBloomFilter>; LAYERS],
    /// The layer for new entities, and the number of its entities.
    growing: Mutex<(usize, usize)>,
    /// All records of shards with smaller numbers are in the filter.
    filled: AtomicU32,
    /// Whether there are doubts.
    doubts: AtomicBool,
    /// Parts of the store that the scan could not read: behind a key, before another one.
    doubtful: Mutex<Vec<(Bytes, Option<Bytes>)>>,
}

impl Filter {
    /// An empty filter, which excludes nothing before it is filled.
    pub(super) fn new() -> Filter {
        Filter::with_first_layer(FIRST_LAYER)
    }

    fn with_first_layer(first: usize) -> Filter {
        Filter {
            hasher: DefaultHasher::seeded(&SEED),
            first,
            layers: [const { OnceLock::new() }; LAYERS],
            growing: Mutex::default(),
            filled: AtomicU32::new(0),
            doubts: AtomicBool::new(false),
            doubtful: Mutex::default(),
        }
    }

    /// Adds the entities of records with these keys.
    pub(super) fn add<'a>(&self, keys: impl Iterator<Item = &'a Bytes>) {
        let mut growing = self.growing.lock();
        for key in keys {
            let Some(entity) = super::entity_part(key) else { continue };
            let hash = self.hash(entity);
            if self.may_have(hash) || (planted::is("a filter that misses a record") && hash.is_multiple_of(4)) {
                continue;
            }
            let (layer, count) = *growing;
            let capacity = self.first * GROWTH.pow(layer as u32);
            let new = || AtomicBloomFilter::with_false_pos(FALSE_POSITIVES).expected_items(capacity);
            self.layers[layer].get_or_init(new).insert_hash(hash);
            *growing = match count + 1 < capacity || layer + 1 == LAYERS {
                true => (layer, count + 1),
                false => (layer + 1, 0),
            };
        }
    }

    /// The scan has added all records of shards with smaller numbers than this.
    pub(super) fn fill_to(&self, shard: u32) {
        self.filled.store(shard, Ordering::Release);
    }

    /// The scan could not read the records behind the key `after` and before the key `next`, so nothing there is excluded.
    pub(super) fn doubt(&self, after: Bytes, next: Option<Bytes>) {
        self.doubtful.lock().push((after, next));
        // Before the scan's progress is published.
        self.doubts.store(true, Ordering::Relaxed);
    }

    /// Whether the store certainly has no record of this entity.
    pub(super) fn excludes(&self, shard: ShardId, entity: &Entity) -> bool {
        u32::from(shard) < self.filled.load(Ordering::Acquire)
            && !self.may_have(entity.with_key(|key| self.hash(key)))
            && !(self.doubts.load(Ordering::Relaxed) && self.is_doubtful(&super::entity_key(shard, entity)))
    }

    fn is_doubtful(&self, key: &Bytes) -> bool {
        let within =
            |(after, next): &(Bytes, Option<Bytes>)| after < key && next.as_ref().is_none_or(|next| key < next);
        self.doubtful.lock().iter().any(within)
    }

    fn may_have(&self, hash: u64) -> bool {
        self.layers.iter().map_while(OnceLock::get).any(|layer| layer.contains_hash(hash))
    }

    fn hash(&self, entity: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(entity);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::id::{CartId, Id};

    use super::super::entity_key;
    use super::*;

    const SHARD: ShardId = 2;

    fn cart(number: usize) -> Entity {
        Entity::Cart(CartId(number as u128 * 0x9e37_79b9_7f4a_7c15))
    }

    fn add(filter: &Filter, numbers: std::ops::Range<usize>) {
        let keys: Vec<_> = numbers.map(|number| entity_key(SHARD, &cart(number))).collect();
        filter.add(keys.iter());
    }

    #[test]
    fn a_shard_excludes_nothing_before_it_is_filled() {
        let filter = Filter::new();
        for (filled, excludes) in [(0, false), (u32::from(SHARD), false), (u32::from(SHARD) + 1, true)] {
            filter.fill_to(filled);
            assert_eq!(filter.excludes(SHARD, &cart(1)), excludes, "filled to {filled}");
        }
    }

    #[test]
    fn it_finds_every_added_entity_and_few_others_over_several_layers() {
        let filter = Filter::new();
        filter.fill_to(u32::MAX);
        assert!(filter.layers[0].get().is_none(), "an empty layer is not allocated");
        let many = 3 * FIRST_LAYER;
        add(&filter, 0..many);
        // Known entities take no space.
        let before = *filter.growing.lock();
        add(&filter, 0..many);
        assert_eq!(*filter.growing.lock(), before);
        assert_eq!((before.0, filter.layers.iter().filter_map(OnceLock::get).count()), (1, 2));
        assert!((0..many).all(|number| !filter.excludes(SHARD, &cart(number))));
        let passed = (many..2 * many).filter(|number| !filter.excludes(SHARD, &cart(*number))).count();
        assert!(passed < many / 100, "{passed} of {many} that were not added");
        let bytes: usize = filter.layers.iter().filter_map(OnceLock::get).map(|layer| layer.num_bits() / 8).sum();
        assert!(bytes < 240_000, "{bytes}");
    }

    #[test]
    fn entities_beyond_the_capacity_go_to_the_last_layer() {
        let filter = Filter::with_first_layer(4);
        filter.fill_to(u32::MAX);
        // The capacity is 4 + 16 + 64 + 256 + 1 024.
        add(&filter, 0..1_000);
        let passed = |filter: &Filter| (10_000..20_000).filter(|at| !filter.excludes(SHARD, &cart(*at))).count();
        assert!(passed(&filter) < 300, "{}", passed(&filter));
        add(&filter, 1_000..5_000);
        assert_eq!(filter.growing.lock().0, LAYERS - 1);
        assert!((0..5_000).all(|number| !filter.excludes(SHARD, &cart(number))));
        assert!(passed(&filter) > 3_000, "it is too full to be useful, but still correct: {}", passed(&filter));
    }

    #[test]
    fn keys_of_records_and_entities_hash_alike() {
        let filter = Filter::new();
        filter.fill_to(u32::MAX);
        let session = Entity::Session(Id::new("hall-7").expect("an id"));
        let keys = [entity_key(SHARD, &session), super::super::shard_key(SHARD), Bytes::from_static(b"owner")];
        filter.add(keys.iter());
        assert!(!filter.excludes(SHARD, &session));
        assert_eq!(*filter.growing.lock(), (0, 1), "only records are added");
    }
}

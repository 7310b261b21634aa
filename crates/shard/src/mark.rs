//! Marks: numbers that divide the entries of all shards into those before and those after one cut, although shards have no common
//! clock (K. M. Chandy and L. Lamport, "Distributed Snapshots: Determining Global States of Distributed Systems", 1985).
//!
//! Anybody may raise the highest mark. Every message between nodes carries the highest one that its sender knows, and a leader that
//! knows a higher mark than its shard has puts it into the header of the shard's next entry. The cut at a mark has of each shard the
//! entries before the first one with that mark or a higher one. An entry after the cut was sealed by a node that knew the mark, and its
//! effects leave that node later, so they carry the mark and come after the cut as well, in every shard that they reach.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use boxoffice_core::version::{ClusterVersion, MARKED};

/// The highest mark that a node knows, shared by everything of it that sends, receives, proposes or applies. 0 before the first one.
#[derive(Clone, Debug, Default)]
pub struct KnownMark(Arc<AtomicU64>);

impl KnownMark {
    /// The highest mark. 0 if there is none yet.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Another node, an entry or a snapshot has this mark. A lower one changes nothing.
    pub fn raise(&self, mark: u64) {
        self.0.fetch_max(mark, Ordering::AcqRel);
    }

    /// Makes a mark that is higher than every known one.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The mark that a message to another node carries, or an entry of a shard whose entries have had marks up to `before`. `None` if
    /// there is no higher one, or everything is written under a version without marks.
    pub fn above(&self, before: u64, version: ClusterVersion) -> Option<u64> {
        Some(self.get()).filter(|mark| *mark > before && version.has(MARKED))
    }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::version::{NEWEST, OLDEST_READ, WriteVersion};

    use super::*;
    use crate::{Config, Engine, Input, Now, Output, Position};

    const SHARD: u16 = 1;

    /// A node that is alone, and its time.
    struct Alone {
        engine: Engine<u8>,
        mark: KnownMark,
        now_ms: u64,
    }

    impl Alone {
        fn led(version: ClusterVersion) -> Alone {
            let mut config = Config::founding(1, 1, SHARD);
            config.version = WriteVersion::new(version);
            let mark = config.mark.clone();
            let engine = Engine::restore(config, [], []).expect("a new node");
            let mut alone = Alone { engine, mark, now_ms: 0 };
            for _ in 0..20 {
                alone.pass(Vec::new());
            }
            alone
        }

        /// One pass with a tick. Returns the entries that are applied, each with the number of its turns.
        fn pass(&mut self, inputs: Vec<Input<u8>>) -> Vec<(Position, usize)> {
            self.now_ms += crate::TICK_MS;
            let now = Now { wall_ms: self.now_ms, mono_ms: self.now_ms };
            let mut outputs = Vec::new();
            self.engine.step(now, inputs.into_iter().chain([Input::Tick]));
            self.engine.persisted(&mut outputs);
            while self.engine.has_ready() {
                self.engine.step(now, []);
                self.engine.persisted(&mut outputs);
            }
            let applied = |output: Output<u8>| match output {
                Output::Apply { shard: SHARD, position, turns, .. } => Some((position, turns.len())),
                _ => None,
            };
            outputs.into_iter().filter_map(applied).collect()
        }

        fn propose(&self) -> Input<u8> {
            let epoch = self.engine.epoch(SHARD).expect("it leads");
            Input::Propose { shard: SHARD, epoch, events: vec![1], joint: None, completion: 0 }
        }

        fn of_entries(&self) -> Option<u64> {
            self.engine.snapshot_meta(SHARD)?.mark
        }
    }

    #[test]
    fn an_idle_shard_gets_one_empty_entry_for_a_mark_and_a_busy_one_none() {
        let mut alone = Alone::led(NEWEST);
        assert_eq!((alone.pass(Vec::new()), alone.of_entries()), (Vec::new(), None));
        alone.mark.raise(5);
        let applied = alone.pass(Vec::new());
        assert_eq!(applied.iter().map(|(_, turns)| *turns).collect::<Vec<_>>(), [0]);
        assert_eq!((alone.pass(Vec::new()), alone.of_entries()), (Vec::new(), Some(5)), "once");
        alone.mark.raise(3);
        assert_eq!((alone.pass(Vec::new()), alone.of_entries()), (Vec::new(), Some(5)), "a lower one");
        assert_eq!(alone.mark.next(), 6);
        let propose = alone.propose();
        let applied = alone.pass(vec![propose]);
        assert_eq!(applied.iter().map(|(_, turns)| *turns).collect::<Vec<_>>(), [1]);
        assert_eq!(alone.of_entries(), Some(6));
    }

    #[test]
    fn before_its_version_no_entry_has_a_mark() {
        let mut alone = Alone::led(OLDEST_READ);
        alone.mark.raise(5);
        let propose = alone.propose();
        assert_eq!(alone.pass(vec![propose]).len(), 1);
        assert_eq!(alone.of_entries(), None);
    }
}

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

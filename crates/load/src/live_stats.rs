//! Live statistics of the shards: which shard granted a request when, as seen by the clients.

use std::sync::Mutex;

use boxoffice_client::Entity;
use boxoffice_shard::ring::shard_of;
use boxoffice_workload::history::Span;

/// How many of a shard's last successes are searched for one that was requested late enough.
const LOOK_BACK_MAX: usize = 1_000;

/// Successes by shard.
pub(crate) struct LiveStats {
    shards: u16,
    /// Data shard 1 comes first. Each list is in the order in which flows ended.
    successes: Mutex<Vec<Vec<Span>>>,
}

impl LiveStats {
    /// Statistics of a cluster with `shards` data shards. With 0 shards they are disabled.
    pub(crate) fn new(shards: u16) -> LiveStats {
        LiveStats { shards, successes: Mutex::new(vec![Vec::new(); shards.into()]) }
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.shards > 0
    }

    pub(crate) fn record(&self, of_flow: Vec<(u16, Span)>) {
        let mut successes = self.successes.lock().expect("no thread panics while it holds the lock");
        for (shard, span) in of_flow {
            successes[usize::from(shard) - 1].push(span);
        }
    }

    /// Whether every shard granted a request that was sent at `from_us` or later, in microseconds since the run's
    /// start.
    pub(crate) fn every_shard_succeeded_since(&self, from_us: u64) -> bool {
        let successes = self.successes.lock().expect("no thread panics while it holds the lock");
        successes.iter().all(|spans| spans.iter().rev().take(LOOK_BACK_MAX).any(|span| span.called_us >= from_us))
    }

    /// The successes of each shard, in the order of their answers.
    pub(crate) fn take(&self) -> Vec<Vec<Span>> {
        let mut successes =
            std::mem::take(&mut *self.successes.lock().expect("no thread panics while it holds the lock"));
        successes.iter_mut().for_each(|spans| spans.sort_unstable_by_key(|span| span.returned_us));
        successes
    }

    /// The number of data shards.
    pub(crate) fn shards(&self) -> u16 {
        self.shards
    }

    /// The data shard of an entity.
    pub(crate) fn shard_of(&self, entity: &Entity) -> u16 {
        shard_of(entity.hash_prefix(), self.shards)
    }
}

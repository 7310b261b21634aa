//! Replies, and asks that nobody repeats, for shards that nobody is known to lead: sent when somebody is.

use std::collections::BTreeMap;

use boxoffice_shard::ShardId;
use bytes::Bytes;
use parking_lot::Mutex;

/// Messages parked for one shard; what comes beyond is lost, and asked again.
const PARKED_MAX: usize = 1_024;

/// What waits for a leader, by shard and in order.
#[derive(Default)]
pub(crate) struct Parked(Mutex<BTreeMap<ShardId, Vec<Bytes>>>);

impl Parked {
    /// Keeps a message until the shard has a leader.
    pub(crate) fn park(&self, shard: ShardId, message: Bytes) {
        let mut parked = self.0.lock();
        let waiting = parked.entry(shard).or_default();
        if waiting.len() < PARKED_MAX {
            waiting.push(message);
        }
    }

    /// Everything for a shard.
    pub(crate) fn take(&self, shard: ShardId) -> Vec<Bytes> {
        self.0.lock().remove(&shard).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_parked_is_bounded_and_comes_out_once_in_order() {
        let parked = Parked::default();
        for number in 0..=PARKED_MAX {
            parked.park(3, Bytes::copy_from_slice(&number.to_le_bytes()));
        }
        parked.park(4, Bytes::new());
        let taken = parked.take(3);
        assert_eq!(taken.len(), PARKED_MAX);
        assert!(taken.is_sorted_by_key(|bytes| usize::from_le_bytes(bytes[..].try_into().unwrap())));
        assert_eq!((parked.take(3).len(), parked.take(4).len()), (0, 1));
    }
}

//! The random choices of a run: pure functions of the run's seed and the number of a flow. They do not depend on
//! timing.

use boxoffice_core::id::{CartToken, Entity, hash64};
use rand::{Rng, SeedableRng, rngs::SmallRng};

use crate::arrival::FlowNumber;

/// The random stream that decides whether a flow gives up. The streams of attempts count from 0.
const ABANDON_STREAM: u32 = u32::MAX;

/// The random stream that decides what kind of thing a flow buys.
const KIND_STREAM: u32 = u32::MAX - 1;

/// The random stream that decides whether a flow wants what another flow has just got. Stream `u32::MAX - 2` is the
/// customer's.
const CONTEND_STREAM: u32 = u32::MAX - 3;

/// The seed of a run, and the prefix of its ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSeed {
    /// The prefix of all ids of the run.
    pub prefix: String,
    /// The seed of all random choices.
    pub seed: u64,
}

impl RunSeed {
    /// The token of a flow's cart. Different prefixes and different seeds give different tokens.
    pub fn token(&self, flow: FlowNumber) -> CartToken {
        let mut key = Vec::with_capacity(self.prefix.len() + 17);
        key.extend_from_slice(&self.seed.to_be_bytes());
        key.extend_from_slice(&flow.group.to_be_bytes());
        key.extend_from_slice(&flow.index.to_be_bytes());
        key.push(0);
        key.extend_from_slice(self.prefix.as_bytes());
        let high = hash64(&key);
        key[16] = 1;
        CartToken(u128::from(high) << 64 | u128::from(hash64(&key)))
    }

    /// The token of a flow's cart, in the shard of `entity`, the first entity that the flow wants something of.
    pub fn token_beside(&self, flow: FlowNumber, entity: &Entity) -> CartToken {
        CartToken::beside(entity, self.token(flow).0)
    }

    /// Whether the flow gives up after its hold, if `percent` of flows do.
    pub fn abandons(&self, flow: FlowNumber, percent: u8) -> bool {
        percent > 0 && self.rng(flow, ABANDON_STREAM).random_range(0..100) < percent
    }

    /// Whether the flow wants what another flow has just got, if `percent` of flows do.
    pub fn contends(&self, flow: FlowNumber, percent: u8) -> bool {
        percent > 0 && self.rng(flow, CONTEND_STREAM).random_range(0..100) < percent
    }

    /// The kind of thing that the flow buys: an index into these weights of kinds.
    ///
    /// # Panics
    /// If all weights are 0.
    pub fn kind(&self, flow: FlowNumber, weights: &[u32]) -> usize {
        let all: u32 = weights.iter().sum();
        let mut number = self.rng(flow, KIND_STREAM).random_range(0..all);
        for (index, &weight) in weights.iter().enumerate() {
            match number.checked_sub(weight) {
                Some(left) => number = left,
                None => return index,
            }
        }
        unreachable!("the number is below the sum of the weights")
    }

    /// The random numbers of a stream of a flow. The streams of the flow's attempts count from 0.
    pub fn rng(&self, flow: FlowNumber, stream: u32) -> SmallRng {
        let mut key = [0u8; 20];
        key[..8].copy_from_slice(&self.seed.to_be_bytes());
        key[8..12].copy_from_slice(&flow.group.to_be_bytes());
        key[12..16].copy_from_slice(&flow.index.to_be_bytes());
        key[16..].copy_from_slice(&stream.to_be_bytes());
        SmallRng::seed_from_u64(hash64(&key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_their_weights_and_weight_0_never_occurs() {
        let seed = RunSeed { prefix: "t".into(), seed: 1 };
        let mut counts = [0u32; 4];
        for index in 0..1_000 {
            counts[seed.kind(FlowNumber { group: 0, index }, &[50, 0, 30, 20])] += 1;
        }
        assert!(counts[0].abs_diff(500) < 60 && counts[1] == 0 && counts[3].abs_diff(200) < 50, "{counts:?}");
    }
}

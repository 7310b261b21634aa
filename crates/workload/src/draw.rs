//! What a run's choices are drawn from: pure functions of its seed and the number of a flow, fixed before any wait.

use boxoffice_core::id::{CartToken, Entity, hash64};
use rand::{Rng, SeedableRng, rngs::SmallRng};

use crate::arrival::FlowNumber;

/// The lot that decides whether a flow goes away; other attempts count from 0.
const ABANDONS: u32 = u32::MAX;

/// The lot that decides what kind of thing a flow buys.
const KIND: u32 = u32::MAX - 1;

/// The lot that decides whether a flow wants what somebody else has just got; the one between is the customer's.
const CONTENDS: u32 = u32::MAX - 3;

/// The seed of a run, and the prefix of its ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draw {
    /// What all ids of the run start with.
    pub prefix: String,
    /// What everything is drawn from.
    pub seed: u64,
}

impl Draw {
    /// The token of the flow's cart. Different prefixes and different seeds give different tokens.
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

    /// The token of the flow's cart, in the shard of the first thing that it wants.
    pub fn token_beside(&self, flow: FlowNumber, entity: &Entity) -> CartToken {
        CartToken::beside(entity, self.token(flow).0)
    }

    /// Whether the flow gives up after its hold, if `percent` of flows do.
    pub fn abandons(&self, flow: FlowNumber, percent: u8) -> bool {
        percent > 0 && self.random(flow, ABANDONS).random_range(0..100) < percent
    }

    /// Whether the flow wants what somebody else has just got, if `percent` of flows do.
    pub fn contends(&self, flow: FlowNumber, percent: u8) -> bool {
        percent > 0 && self.random(flow, CONTENDS).random_range(0..100) < percent
    }

    /// Which of several kinds of things with these weights the flow buys: its place among them.
    ///
    /// # Panics
    /// If all weights are 0.
    pub fn kind(&self, flow: FlowNumber, weights: &[u32]) -> usize {
        let all: u32 = weights.iter().sum();
        let mut lot = self.random(flow, KIND).random_range(0..all);
        for (place, &weight) in weights.iter().enumerate() {
            match lot.checked_sub(weight) {
                Some(left) => lot = left,
                None => return place,
            }
        }
        unreachable!("the lot is below the sum of the weights")
    }

    /// The random numbers of an attempt of a flow, counted from 0.
    pub fn random(&self, flow: FlowNumber, attempt: u32) -> SmallRng {
        let mut key = [0u8; 20];
        key[..8].copy_from_slice(&self.seed.to_be_bytes());
        key[8..12].copy_from_slice(&flow.group.to_be_bytes());
        key[12..16].copy_from_slice(&flow.index.to_be_bytes());
        key[16..].copy_from_slice(&attempt.to_be_bytes());
        SmallRng::seed_from_u64(hash64(&key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_in_about_their_weights_and_never_with_none() {
        let draw = Draw { prefix: "t".into(), seed: 1 };
        let mut counts = [0u32; 4];
        for index in 0..1_000 {
            counts[draw.kind(FlowNumber { group: 0, index }, &[50, 0, 30, 20])] += 1;
        }
        assert!(counts[0].abs_diff(500) < 60 && counts[1] == 0 && counts[3].abs_diff(200) < 50, "{counts:?}");
    }
}

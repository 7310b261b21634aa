//! Random numbers from a printed seed. Set `BOXOFFICE_SEED` to replay a failed run.

use std::hash::{BuildHasher, RandomState};

/// A small generator (SplitMix64), good enough to choose seats.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// A new seed for each run, or the one in `BOXOFFICE_SEED`. Prints it with the name of the test.
    pub(crate) fn of_test(test: &str) -> Rng {
        let given = std::env::var("BOXOFFICE_SEED").ok();
        let seed = match &given {
            Some(text) => text.parse().expect("BOXOFFICE_SEED is a number"),
            None => RandomState::new().hash_one(test),
        };
        println!("{test}: BOXOFFICE_SEED={seed}");
        Rng(seed)
    }

    /// A generator that depends only on this one's state and the number.
    pub(crate) fn fork(&self, number: u64) -> Rng {
        let mut rng = Rng(self.0 ^ number.wrapping_mul(0xd134_2543_de82_ef95));
        rng.next();
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number from 0, below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True with this probability in percent.
    pub(crate) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    /// A cart token: 32 hexadecimal digits.
    pub(crate) fn token(&mut self) -> String {
        format!("{:016x}{:016x}", self.next(), self.next())
    }
}

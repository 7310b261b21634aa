//! Random numbers from a seed that is printed: a failing run can be played again with `BOXOFFICE_SEED`.

use std::hash::{BuildHasher, RandomState};

/// A small generator (SplitMix64): good enough to choose seats.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// A new seed for each run, or the one in `BOXOFFICE_SEED`; printed with the name of the test.
    pub(crate) fn of_test(test: &str) -> Dice {
        let given = std::env::var("BOXOFFICE_SEED").ok();
        let seed = match &given {
            Some(text) => text.parse().expect("BOXOFFICE_SEED is a number"),
            None => RandomState::new().hash_one(test),
        };
        println!("{test}: BOXOFFICE_SEED={seed}");
        Dice(seed)
    }

    /// Other dice that depend only on these and the number.
    pub(crate) fn fork(&self, number: u64) -> Dice {
        let mut dice = Dice(self.0 ^ number.wrapping_mul(0xd134_2543_de82_ef95));
        dice.next();
        dice
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

    /// Whether something happens that happens so often in a hundred.
    pub(crate) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    /// A cart token: 32 hexadecimal digits.
    pub(crate) fn token(&mut self) -> String {
        format!("{:016x}{:016x}", self.next(), self.next())
    }
}

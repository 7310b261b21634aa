//! All random numbers of a run, drawn from its seed.

use boxoffice_core::id::hash64;
use rand::{Rng, RngCore, SeedableRng, rngs::SmallRng, seq::IndexedRandom};
use tracing_mutex::parkinglot::Mutex;

/// A generator for one purpose, independent of all others.
pub(crate) fn rng(seed: u64, purpose: &str, number: u64) -> SmallRng {
    let mut key = purpose.as_bytes().to_vec();
    key.extend_from_slice(&seed.to_be_bytes());
    key.extend_from_slice(&number.to_be_bytes());
    SmallRng::seed_from_u64(hash64(&key))
}

/// A span in milliseconds around `mean_ms`, mostly shorter, at times much longer.
pub(crate) fn around(rng: &mut SmallRng, mean_ms: u64) -> u64 {
    let uniform: f64 = rng.random_range(0.000_001..1.0);
    ((-uniform.ln()) * mean_ms as f64) as u64 + 1
}

/// A node's source of random numbers.
pub(crate) struct SimRng(Mutex<SmallRng>);

impl SimRng {
    pub(crate) fn new(seed: u64, node: u64) -> SimRng {
        SimRng(Mutex::new(rng(seed, "node", node)))
    }
}

impl boxoffice_env::Rng for SimRng {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().fill_bytes(bytes);
    }
}

pub(crate) fn one_of<T: Copy>(rng: &mut SmallRng, all: &[T]) -> T {
    *all.choose(rng).expect("there are some")
}

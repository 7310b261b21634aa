//! Random numbers.

use rand::TryRngCore;

/// A node's source of random numbers, for identities, salts, tokens and election time-outs.
pub trait Rng: Send + Sync {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);

    /// A random number of 64 bits.
    fn u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A random number of 128 bits.
    fn u128(&self) -> u128 {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        u128::from_le_bytes(bytes)
    }
}

/// The operating system's generator, good enough for secrets.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsRng;

impl Rng for OsRng {
    /// # Panics
    /// When the operating system has no random numbers, because nothing secret can be made then.
    fn fill(&self, bytes: &mut [u8]) {
        rand::rngs::OsRng.try_fill_bytes(bytes).expect("the operating system gives no random numbers");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ() {
        assert_ne!(OsRng.u64(), OsRng.u64());
        assert_ne!(OsRng.u128(), OsRng.u128());
    }
}

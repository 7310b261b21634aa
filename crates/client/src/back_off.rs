//! The wait before the client connects again.

use std::time::Duration;

use boxoffice_wire::limits::close::Advice;
use rand::Rng;

/// The maximum wait after the first failure. Each further failure doubles it.
const INITIAL_MAX: Duration = Duration::from_millis(500);

/// The upper bound of the maximum wait.
const CAP: Duration = Duration::from_secs(20);

/// The maximum wait after a working connection has ended. It is short, but long enough that not all clients reconnect
/// at the same instant.
const RECONNECT_MAX: Duration = Duration::from_millis(50);

/// Exponential back-off with full jitter. It starts over once a connection has worked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BackOff {
    failures: u32,
}

impl BackOff {
    /// Starts over, because an answer has shown that the connection works.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// How long to wait before the next attempt. `None` if the client must not try again.
    pub(crate) fn next_wait(&mut self, advice: Advice, rng: &mut impl Rng) -> Option<Duration> {
        let longest = match (advice, self.failures) {
            (Advice::Stay, _) => return None,
            // If the connection worked before, the first retry is quick whatever the reason.
            (Advice::Now | Advice::BackOff, 0) => RECONNECT_MAX,
            (Advice::Now | Advice::BackOff, failures) => {
                INITIAL_MAX.saturating_mul(1 << (failures - 1).min(16)).min(CAP)
            }
        };
        self.failures = self.failures.saturating_add(1);
        Some(longest.mul_f64(rng.random()))
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::SmallRng};

    use super::*;

    #[test]
    fn waits_grow_to_the_cap_and_start_over_after_a_reset() {
        let mut rng = SmallRng::seed_from_u64(7);
        for _ in 0..200 {
            let mut back_off = BackOff::default();
            let bounds = [50, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 20_000, 20_000];
            for bound in bounds {
                let wait = back_off.next_wait(Advice::BackOff, &mut rng).expect("a wait");
                assert!(wait <= Duration::from_millis(bound), "{wait:?} is longer than {bound} ms");
            }
            back_off.reset();
            let wait = back_off.next_wait(Advice::Now, &mut rng).expect("a wait");
            assert!(wait <= RECONNECT_MAX, "{wait:?} is too long");
        }
    }

    #[test]
    fn jitter_spreads_over_the_whole_wait() {
        let mut rng = SmallRng::seed_from_u64(8);
        let waits: Vec<Duration> =
            (0..1_000).map(|_| BackOff { failures: 7 }.next_wait(Advice::BackOff, &mut rng).expect("a wait")).collect();
        let under = |bound: u64| waits.iter().filter(|wait| **wait < Duration::from_secs(bound)).count();
        assert!((400..600).contains(&under(10)), "{} of 1 000 waits are in the lower half", under(10));
        assert!(under(2) > 50 && under(18) < 950, "the waits are not spread evenly");
    }

    #[test]
    fn there_is_no_next_wait_after_the_advice_to_stay_away() {
        let mut rng = SmallRng::seed_from_u64(9);
        assert_eq!(BackOff::default().next_wait(Advice::Stay, &mut rng), None);
    }
}

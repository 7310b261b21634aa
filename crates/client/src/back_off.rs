//! How long to wait before connecting again.

use std::time::Duration;

use boxoffice_wire::limits::close::Advice;
use rand::Rng;

/// The longest wait after the first failure; doubled with each further one.
const FIRST: Duration = Duration::from_millis(500);

/// The longest wait of all.
const LONGEST: Duration = Duration::from_secs(20);

/// The longest wait where a connection that worked has ended: quick, but not all clients in the same instant.
const QUICK: Duration = Duration::from_millis(50);

/// Exponential back-off with full jitter, forgotten once a connection has worked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BackOff {
    failures: u32,
}

impl BackOff {
    /// A connection worked: a frame came.
    pub(crate) fn worked(&mut self) {
        self.failures = 0;
    }

    /// How long to wait now, or `None` if trying again is pointless.
    pub(crate) fn wait(&mut self, advice: Advice, rng: &mut impl Rng) -> Option<Duration> {
        let longest = match (advice, self.failures) {
            (Advice::Stay, _) => return None,
            // The first retry is quick whatever the reason, if the connection worked before.
            (Advice::Now | Advice::BackOff, 0) => QUICK,
            (Advice::Now | Advice::BackOff, failures) => FIRST.saturating_mul(1 << (failures - 1).min(16)).min(LONGEST),
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
    fn waits_grow_to_a_bound_and_start_over_when_it_worked() {
        let mut rng = SmallRng::seed_from_u64(7);
        for _ in 0..200 {
            let mut back_off = BackOff::default();
            let bounds = [50, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 20_000, 20_000];
            for bound in bounds {
                let wait = back_off.wait(Advice::BackOff, &mut rng).expect("it is worth trying");
                assert!(wait <= Duration::from_millis(bound), "{wait:?} is longer than {bound} ms");
            }
            back_off.worked();
            let wait = back_off.wait(Advice::Now, &mut rng).expect("it is worth trying");
            assert!(wait <= QUICK, "{wait:?} is not quick");
        }
    }

    #[test]
    fn jitter_spreads_over_the_whole_wait() {
        let mut rng = SmallRng::seed_from_u64(8);
        let waits: Vec<Duration> = (0..1_000)
            .map(|_| BackOff { failures: 7 }.wait(Advice::BackOff, &mut rng).expect("it is worth trying"))
            .collect();
        let under = |bound: u64| waits.iter().filter(|wait| **wait < Duration::from_secs(bound)).count();
        assert!((400..600).contains(&under(10)), "{} of 1 000 waits are in the lower half", under(10));
        assert!(under(2) > 50 && under(18) < 950, "waits huddle together");
    }

    #[test]
    fn nobody_goes_back_to_where_they_were_sent_away() {
        let mut rng = SmallRng::seed_from_u64(9);
        assert_eq!(BackOff::default().wait(Advice::Stay, &mut rng), None);
    }
}

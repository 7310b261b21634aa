//! Invalid keys and tokens, by network. Each further one is answered later, so that guessing takes long. A valid one is
//! always answered at once, so that one client's guesses lock no other client of its network out.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;

use crate::network::ClientNetwork;

/// Failures that are answered at once, since people mistype.
const FREE: u32 = 3;

/// The longest delay, in steps.
const STEPS_MAX: u32 = 20;

/// After this time without a failure the count starts anew.
const FORGET_AFTER: Duration = Duration::from_secs(60);

/// Networks that are remembered.
const NETWORKS_MAX: usize = 4_096;

/// The number of failures of each network, and the time of the last one.
#[derive(Debug, Default)]
pub(crate) struct AuthFailures(Mutex<BTreeMap<ClientNetwork, (u32, Instant)>>);

impl AuthFailures {
    /// Counts a failure. Returns how long to delay its answer. The delay is a step for each earlier failure.
    pub(crate) fn note(&self, address: IpAddr, now: Instant, step: Duration) -> Duration {
        let mut known = self.0.lock();
        let is_recent = |last: &Instant| now.duration_since(*last) < FORGET_AFTER;
        if known.len() >= NETWORKS_MAX {
            known.retain(|_, (_, last)| is_recent(last));
        }
        let network = ClientNetwork::of(address);
        if known.len() >= NETWORKS_MAX && !known.contains_key(&network) {
            // Too many networks at once to tell them apart.
            return step * STEPS_MAX;
        }
        let (count, last) = known.entry(network).or_insert((0, now));
        *count = if is_recent(last) { count.saturating_add(1) } else { 1 };
        *last = now;
        step * count.saturating_sub(FREE).min(STEPS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(500);
    const LONGEST: Duration = Duration::from_secs(10);

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn each_further_guess_of_a_network_waits_longer() {
        let (auth_failures, now) = (AuthFailures::default(), Instant::now());
        let one = address("192.0.2.1");
        let waits: Vec<u64> = (0..6).map(|_| auth_failures.note(one, now, STEP).as_millis() as u64).collect();
        assert_eq!(waits, [0, 0, 0, 500, 1_000, 1_500]);
        assert_eq!(
            auth_failures.note(address("192.0.2.2"), now, STEP),
            Duration::ZERO,
            "another network is not delayed"
        );
        for _ in 0..100 {
            auth_failures.note(one, now, STEP);
        }
        assert_eq!(auth_failures.note(one, now, STEP), LONGEST);
        assert_eq!(auth_failures.note(one, now + FORGET_AFTER, STEP), Duration::ZERO);
    }

    #[test]
    fn guesses_of_many_networks_are_delayed_in_bounded_memory() {
        let (auth_failures, now) = (AuthFailures::default(), Instant::now());
        for number in 0..2 * NETWORKS_MAX as u32 {
            auth_failures.note(IpAddr::from(number.to_be_bytes()), now, STEP);
        }
        assert_eq!(auth_failures.0.lock().len(), NETWORKS_MAX);
        assert_eq!(auth_failures.note(address("203.0.113.1"), now, STEP), LONGEST);
        assert_eq!(auth_failures.note(address("203.0.113.1"), now + FORGET_AFTER, STEP), Duration::ZERO);
    }
}

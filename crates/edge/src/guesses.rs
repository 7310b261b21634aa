//! Wrong keys and tokens, by the network they came from: each further one is answered later, so that guessing takes long.
//! What fits is answered at once, whatever else came from there: nobody is locked out by somebody else's guesses.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::network::ClientNetwork;

/// Wrong ones that are answered at once: people mistype.
const FREE: u32 = 3;

/// The longest that an answer waits, in steps.
const STEPS_MAX: u32 = 20;

/// After so long without one it begins anew.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// Networks that are remembered.
const NETWORKS_MAX: usize = 4_096;

/// Who guessed wrong lately.
#[derive(Debug, Default)]
pub(crate) struct Guesses(Mutex<BTreeMap<ClientNetwork, (u32, Instant)>>);

impl Guesses {
    /// Counts a wrong one; how long its answer waits: a step longer for each that came before it.
    pub(crate) fn note(&self, address: IpAddr, now: Instant, step: Duration) -> Duration {
        let mut known = self.0.lock();
        let is_recent = |last: &Instant| now.duration_since(*last) < FORGOTTEN;
        if known.len() >= NETWORKS_MAX {
            known.retain(|_, (_, last)| is_recent(last));
        }
        let network = ClientNetwork::of(address);
        if known.len() >= NETWORKS_MAX && !known.contains_key(&network) {
            // Too many guess at once to tell them apart.
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
        let (guesses, now) = (Guesses::default(), Instant::now());
        let one = address("192.0.2.1");
        let waits: Vec<u64> = (0..6).map(|_| guesses.note(one, now, STEP).as_millis() as u64).collect();
        assert_eq!(waits, [0, 0, 0, 500, 1_000, 1_500]);
        assert_eq!(guesses.note(address("192.0.2.2"), now, STEP), Duration::ZERO, "another one is another one");
        for _ in 0..100 {
            guesses.note(one, now, STEP);
        }
        assert_eq!(guesses.note(one, now, STEP), LONGEST);
        assert_eq!(guesses.note(one, now + FORGOTTEN, STEP), Duration::ZERO);
    }

    #[test]
    fn a_flood_of_networks_takes_no_more_memory_and_is_slow() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        for number in 0..2 * NETWORKS_MAX as u32 {
            guesses.note(IpAddr::from(number.to_be_bytes()), now, STEP);
        }
        assert_eq!(guesses.0.lock().len(), NETWORKS_MAX);
        assert_eq!(guesses.note(address("203.0.113.1"), now, STEP), LONGEST);
        assert_eq!(guesses.note(address("203.0.113.1"), now + FORGOTTEN, STEP), Duration::ZERO);
    }
}

//! Turns of credentials that may be wrong, by network. The answer to each further one of a network comes later, and never
//! before that of the one before, so the number of guesses is bounded whatever the number of connections. A turn is taken when
//! a credential is looked at and not when it is answered, so closing early saves nothing.
//!
//! Right keys and tokens take no turn, because nobody guesses their 256 bits: one client's guesses lock no other client of its
//! network out. The admin token of a configuration may be weaker. A right one takes a turn as well, so that the time of an
//! answer says nothing, unless the network has shown a right one within the hour.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;

use crate::{network::ClientNetwork, planted};

/// Turns without a delay, since people mistype.
const FREE: u32 = 3;

/// The longest delay, in steps. A credential that would have to wait longer is not looked at.
const STEPS_MAX: u32 = 20;

/// After this time without a turn the count starts anew.
const FORGET_AFTER: Duration = Duration::from_secs(60);

/// For how long a network with a right admin token is known.
const RIGHT_FOR: Duration = Duration::from_secs(60 * 60);

/// Networks with turns that are remembered. All others share one count.
const NETWORKS_MAX: usize = 4_096;

/// Networks with a right admin token that are remembered. Only right tokens add one.
const RIGHT_MAX: usize = 1_024;

/// The shortest time between two searches for forgotten networks.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The turns of each network.
#[derive(Debug, Default)]
pub(crate) struct AuthFailures(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// `None` is all networks for which there is no room.
    turns: BTreeMap<Option<ClientNetwork>, Turns>,
    swept: Option<Instant>,
    /// When each network last showed a right admin token.
    right: BTreeMap<ClientNetwork, Instant>,
}

#[derive(Debug)]
struct Turns {
    count: u32,
    /// When the last turn ends.
    last: Instant,
}

/// When a credential is answered.
#[derive(Debug)]
pub(crate) struct AnswerTime {
    /// When its answer may be given.
    pub(crate) at: Instant,
    delay: Duration,
    network: Option<ClientNetwork>,
}

impl AuthFailures {
    /// Takes a turn for a credential of this network.
    ///
    /// # Errors
    /// Too many are waiting, so this one must not be looked at. The time after which the next one may be shown.
    pub(crate) fn take_turn(&self, address: IpAddr, now: Instant, step: Duration) -> Result<AnswerTime, Duration> {
        let mut known = self.0.lock();
        let network = known.room_for(ClientNetwork::of(address), now);
        let turns = known.turns.entry(network).or_insert(Turns { count: 0, last: now });
        let is_recent = now.saturating_duration_since(turns.last) < FORGET_AFTER;
        let count = if is_recent { turns.count.saturating_add(1) } else { 1 };
        let delay = step * count.saturating_sub(FREE).min(STEPS_MAX);
        let before = if planted::is("guesses side by side") { now } else { turns.last.max(now) };
        let at = before + delay;
        let longest = step * STEPS_MAX;
        if at - now > longest {
            return Err(at - now - longest);
        }
        *turns = Turns { count, last: at };
        Ok(AnswerTime { at, delay, network })
    }

    /// How long a network that took turns has to wait until the last one ends. `None` if it need not.
    pub(crate) fn wait(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let mut known = self.0.lock();
        let network = known.room_for(ClientNetwork::of(address), now);
        let last = known.turns.get(&network)?.last;
        Some(last.saturating_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    /// Takes a turn back, because its credential was right.
    pub(crate) fn give_back(&self, turn: &AnswerTime) {
        let mut known = self.0.lock();
        let Some(turns) = known.turns.get_mut(&turn.network) else { return };
        turns.count = turns.count.saturating_sub(1);
        if turns.last == turn.at {
            turns.last = turn.at - turn.delay;
        }
    }

    /// A network has shown a right admin token. Called when it is answered and not before, so that a caller that closes early
    /// learns nothing from the next answer.
    pub(crate) fn note_right(&self, address: IpAddr, now: Instant) {
        let mut known = self.0.lock();
        let network = ClientNetwork::of(address);
        if known.right.len() >= RIGHT_MAX && !known.right.contains_key(&network) {
            let oldest = known.right.iter().min_by_key(|(_, at)| **at).map(|(network, _)| *network);
            oldest.and_then(|oldest| known.right.remove(&oldest));
        }
        known.right.insert(network, now);
    }

    /// Whether a network has shown a right admin token within the hour.
    pub(crate) fn was_right(&self, address: IpAddr, now: Instant) -> bool {
        let known = self.0.lock();
        let right = known.right.get(&ClientNetwork::of(address));
        right.is_some_and(|at| now.saturating_duration_since(*at) < RIGHT_FOR)
    }
}

impl Known {
    /// The network, or `None` if there is no room for another one.
    fn room_for(&mut self, network: ClientNetwork, now: Instant) -> Option<ClientNetwork> {
        let is_known = self.turns.contains_key(&Some(network));
        if is_known || self.turns.len() < NETWORKS_MAX {
            return Some(network);
        }
        if self.swept.is_none_or(|swept| now.saturating_duration_since(swept) >= SWEEP_EVERY) {
            self.swept = Some(now);
            self.turns.retain(|_, turns| now.saturating_duration_since(turns.last) < FORGET_AFTER);
        }
        (self.turns.len() < NETWORKS_MAX).then_some(network)
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

    fn wait_ms(failures: &AuthFailures, from: IpAddr, now: Instant) -> Result<u64, u64> {
        let ms = |time: Duration| time.as_millis() as u64;
        failures.take_turn(from, now, STEP).map(|turn| ms(turn.at - now)).map_err(ms)
    }

    /// At the same moment, so over as many connections as there are guesses.
    #[test]
    fn each_further_guess_of_a_network_waits_for_those_before() {
        let (failures, now) = (AuthFailures::default(), Instant::now());
        let one = address("192.0.2.1");
        let waits: Vec<_> = (0..10).map(|_| wait_ms(&failures, one, now)).collect();
        let turns = [0, 0, 0, 500, 1_500, 3_000, 5_000, 7_500].map(Ok);
        assert_eq!(waits[..8], turns);
        assert_eq!(waits[8..], [Err(500), Err(500)], "too many wait");
        assert_eq!(wait_ms(&failures, address("192.0.2.2"), now), Ok(0), "another network is not delayed");
        assert_eq!(wait_ms(&failures, one, now + Duration::from_millis(500)), Ok(10_000));
        let later = now + Duration::from_millis(10_500);
        assert_eq!(wait_ms(&failures, one, later + FORGET_AFTER), Ok(0));
    }

    /// The bound that `docs/concepts/limits.md` states, for guessers that ask all the time, or pause until they are forgotten.
    #[test]
    fn an_hour_of_guesses_is_bounded() {
        const HOUR: Duration = Duration::from_secs(3_600);
        let mut most = 0;
        for burst in 1..=40 {
            let (failures, begun) = (AuthFailures::default(), Instant::now());
            let (mut now, mut answered, mut in_burst) = (begun, 0, 0);
            while now < begun + HOUR {
                match failures.take_turn(address("192.0.2.1"), now, STEP) {
                    Ok(turn) if turn.at <= begun + HOUR => {
                        (now, answered, in_burst) = (turn.at, answered + 1, in_burst + 1)
                    }
                    Ok(_) => break,
                    Err(after) => now += after,
                }
                if in_burst == burst {
                    (now, in_burst) = (now + FORGET_AFTER, 0);
                }
            }
            most = most.max(answered);
        }
        assert!((400..=600).contains(&most), "{most} guesses in an hour");
    }

    #[test]
    fn guesses_of_many_networks_share_a_count_in_bounded_memory() {
        let (failures, now) = (AuthFailures::default(), Instant::now());
        let networks = u32::try_from(NETWORKS_MAX).expect("it is small");
        for number in 0..networks {
            assert_eq!(wait_ms(&failures, IpAddr::from(number.to_be_bytes()), now), Ok(0));
        }
        let waits: Vec<_> =
            (0..10).map(|number| wait_ms(&failures, IpAddr::from((networks + number).to_be_bytes()), now)).collect();
        assert_eq!(waits[..4], [Ok(0), Ok(0), Ok(0), Ok(500)]);
        assert_eq!(waits[9], Err(500));
        assert_eq!(failures.0.lock().turns.len(), NETWORKS_MAX + 1);
        let later = now + LONGEST + FORGET_AFTER;
        assert_eq!(wait_ms(&failures, address("203.0.113.1"), later), Ok(0));
        assert_eq!(failures.0.lock().turns.len(), 1);
    }

    #[test]
    fn a_right_credential_gives_its_turn_back() {
        let (failures, now) = (AuthFailures::default(), Instant::now());
        let one = address("192.0.2.1");
        for _ in 0..4 {
            wait_ms(&failures, one, now).expect("a turn");
        }
        let turn = failures.take_turn(one, now, STEP).expect("a turn");
        assert_eq!(turn.at - now, Duration::from_millis(1_500));
        failures.give_back(&turn);
        assert_eq!(wait_ms(&failures, one, now), Ok(1_500));
    }

    #[test]
    fn networks_with_a_right_admin_token_are_known_for_an_hour_in_bounded_memory() {
        let (failures, now) = (AuthFailures::default(), Instant::now());
        let one = address("192.0.2.1");
        assert!(!failures.was_right(one, now));
        failures.note_right(one, now);
        assert!(failures.was_right(one, now + RIGHT_FOR / 2) && !failures.was_right(one, now + RIGHT_FOR));
        for number in 0..2 * RIGHT_MAX as u32 {
            failures.note_right(IpAddr::from(number.to_be_bytes()), now + Duration::from_secs(u64::from(number)));
        }
        assert_eq!(failures.0.lock().right.len(), RIGHT_MAX);
        assert!(!failures.was_right(one, now));
    }
}

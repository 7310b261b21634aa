//! How many file descriptors the process may have, and what they are for.
//!
//! A client costs one, and anybody may connect. So a part is kept for the node itself, which the door cannot take: without
//! a descriptor the log begins no segment and the store reads nothing.

use boxoffice_edge::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What the node itself needs: its runtimes, the log, snapshots, archives, the store.
const OWN: u64 = 128;
/// Links to other nodes, two of each while they are made anew.
const LINKS: u64 = 32;
/// Connections of operators: clients cannot take these.
const OPERATORS: u64 = 16;
/// With fewer connections than this a node is of no use.
const CONNECTIONS_MIN: u64 = 16;
/// Where there is no limit we do with this.
const ENOUGH: u64 = 1 << 20;
/// The share of all descriptors that callers at the port for other nodes may have before they have introduced themselves,
/// and the most of them.
const STRANGERS: (u64, u64) = (32, 256);
/// The same of those who are being turned away at the door.
const TURNED_AWAY: (u64, u64) = (16, 64);
/// The share that calls to the payment gateway may have; they have their own limit besides.
const CALLS: u64 = 8;

/// What the node wants to do with its descriptors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Connections of clients.
    pub(crate) connections: usize,
    /// The number that the operator configured.
    pub(crate) is_said: bool,
    /// There are other nodes.
    pub(crate) has_peers: bool,
    /// Calls to a payment gateway at the same time, if there is one.
    pub(crate) calls: usize,
}

/// What everybody gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// All there are.
    pub(crate) all: u64,
    /// Connections of clients.
    pub(crate) connections: usize,
    /// Clients that are being turned away.
    pub(crate) turned_away: usize,
    /// Callers at the port for other nodes.
    pub(crate) strangers: usize,
    /// Calls to the payment gateway.
    pub(crate) calls: usize,
}

impl Shares {
    /// A descriptor with this number or a higher one is not for a client: the rest is reserved for the node.
    pub(crate) fn ends_of_door(&self) -> u64 {
        self.ends_of_operators() - OPERATORS
    }

    /// The same for an operator.
    pub(crate) fn ends_of_operators(&self) -> u64 {
        self.ends_of_links() - LINKS
    }

    /// The same for other nodes.
    pub(crate) fn ends_of_links(&self) -> u64 {
        self.all - OWN / 2
    }
}

/// Lets the process have as many descriptors as it may; how many these are.
pub(crate) fn raise() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(ENOUGH).min(ENOUGH);
    let now = current.unwrap_or(ENOUGH);
    if now >= wanted {
        return now;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }) {
        Ok(()) => wanted,
        Err(error) => {
            tracing::warn!(%error, now, wanted, "the limit of file descriptors cannot be raised");
            now
        }
    }
}

/// Shares `all` descriptors out.
///
/// # Errors
/// That they are not enough, and what to do.
pub(crate) fn share(all: u64, wanted: &Wanted) -> Result<Shares, String> {
    let of_all = |(share, most): (u64, u64)| (all / share).clamp(1, most);
    let turned_away = of_all(TURNED_AWAY);
    let strangers = if wanted.has_peers { of_all(STRANGERS) } else { 0 };
    let calls = (wanted.calls as u64).min((all / CALLS).max(1));
    let links = if wanted.has_peers { LINKS } else { 0 };
    // One is accepted before it is known that it is too many.
    let kept = OWN + OPERATORS + links + strangers + turned_away + calls + 1;
    let room = all.saturating_sub(kept);
    let raise = "ulimit -n, LimitNOFILE= of a systemd unit, --ulimit nofile= of a container";
    if room < CONNECTIONS_MIN {
        let least = kept + CONNECTIONS_MIN;
        return Err(format!("{all} file descriptors are not enough for a node: allow it {least} or more ({raise})"));
    }
    let connections = wanted.connections as u64;
    if wanted.is_said && connections > room {
        // The shares of others grow with all.
        let needed = OWN + OPERATORS + links + STRANGERS.1 + TURNED_AWAY.1 + wanted.calls as u64 + 1 + connections;
        return Err(format!(
            "limits.connections = {connections}: with {all} file descriptors there is room for {room}, the others are kept for \
             the node's files and links; allow the process {needed} descriptors ({raise}), or set limits.connections to {room} \
             or less"
        ));
    }
    Ok(Shares {
        all,
        connections: connections.min(room) as usize,
        turned_away: turned_away as usize,
        strangers: strangers as usize,
        calls: calls as usize,
    })
}

/// The connections that one network may have: a quarter of the door at most, and for a moment twice as many, or one stranger could
/// fill a small door. 0 is as many as it likes.
pub(crate) fn of_one_network(wanted: u32, shares: &Shares) -> u32 {
    wanted.min(u32::try_from(shares.connections / 4).unwrap_or(u32::MAX).max(1))
}

/// The door's limits with these shares; says so where they are less than is usual.
pub(crate) fn door(shares: &Shares, wanted: &Wanted) -> Limits {
    if shares.connections < wanted.connections {
        tracing::warn!(
            connections = shares.connections,
            usual = wanted.connections,
            descriptors = shares.all,
            "there are file descriptors for fewer connections than usual; allow the process more (ulimit -n), or set \
             limits.connections"
        );
    }
    Limits {
        connections_max: shares.connections,
        turned_away_max: shares.turned_away,
        descriptors_end: shares.ends_of_door(),
        operator_connections_max: OPERATORS as usize,
        operator_descriptors_end: shares.ends_of_operators(),
        ..Limits::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Wanted = Wanted { connections: 16_384, is_said: false, has_peers: true, calls: 0 };

    #[test]
    fn everything_that_may_be_open_at_once_fits() {
        for all in [208, 256, 512, 1_024, 4_096, 20_000, 1 << 20] {
            for has_peers in [false, true] {
                for calls in [0, 256] {
                    let wanted = Wanted { has_peers, calls, ..USUAL };
                    let Ok(shares) = share(all, &wanted) else {
                        assert!(all < 256, "{all} are enough");
                        continue;
                    };
                    let Shares { connections, turned_away, strangers, calls, .. } = shares;
                    let links = if has_peers { LINKS as usize } else { 0 };
                    assert!(connections >= CONNECTIONS_MIN as usize);
                    assert!(OWN as usize + links + connections + turned_away + strangers + calls < all as usize);
                    assert!(shares.ends_of_door() < shares.ends_of_links() && shares.ends_of_links() < all);
                }
            }
        }
        assert_eq!(share(1 << 20, &USUAL).map(|shares| shares.connections), Ok(16_384));
    }

    #[test]
    fn one_network_fills_half_of_any_door_at_most() {
        for all in [256, 1_024, 4_096, 1 << 20] {
            let shares = share(all, &USUAL).expect("they are enough");
            let budget = of_one_network(512, &shares);
            // Twice as many for the moment in which a key may be shown.
            assert!(budget >= 1 && 2 * budget as usize <= shares.connections / 2, "{budget} of {}", shares.connections);
            assert_eq!(of_one_network(0, &shares), 0, "as many as it likes");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_does() {
        let said = Wanted { connections: 2_000, is_said: true, ..USUAL };
        let refused = share(1_024, &said).expect_err("too many");
        let number = |after: &str| -> u64 {
            let rest = refused.split_once(after).expect("it is said").1;
            rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).expect("a number")
        };
        let fits = Wanted { connections: number("set limits.connections to ") as usize, ..said };
        assert!(share(1_024, &fits).is_ok(), "{refused}");
        assert!(share(number("allow the process "), &said).is_ok(), "{refused}");
        let refused = share(150, &USUAL).expect_err("too few");
        let least: u64 =
            refused.split_once("allow it ").expect("it is said").1.split(' ').next().unwrap().parse().unwrap();
        // The shares of others grow a little with all.
        assert!(share(least + 8, &USUAL).is_ok(), "{refused}");
    }
}

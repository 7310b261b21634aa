//! The file descriptors of the process, and their shares.
//!
//! A client costs one, and strangers can connect. So a part is reserved for the node itself. Without descriptors the log
//! cannot begin a segment and the store cannot read.

use boxoffice_edge::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For the node itself: its runtimes, the log, snapshots, archives, the store.
const OWN: u64 = 128;
/// For links to other nodes. A link has two while it is renewed.
const LINKS: u64 = 32;
/// For connections of operators, and for probes of theirs. Clients cannot take these.
const OPERATORS: u64 = 16 + PROBES;
/// Places of the operators' port that are kept for probes.
const PROBES: u64 = 2;
/// With fewer connections a node is useless.
const CONNECTIONS_MIN: u64 = 16;
/// Used if the system has no limit.
const ENOUGH: u64 = 1 << 20;
/// The share, and the maximum, for callers at the port for other nodes before their handshake.
const PEER_STRANGERS: (u64, u64) = (32, 256);
/// The share, and the maximum, for clients that are being rejected.
const TURNED_AWAY: (u64, u64) = (16, 64);
/// The share for calls to the payment gateway, which have their own limit besides.
const CALLS: u64 = 8;

/// The descriptors that the configuration asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// Connections of clients.
    pub(crate) connections: usize,
    /// Whether the operator configured that number.
    pub(crate) is_configured: bool,
    pub(crate) has_peers: bool,
    /// Calls to a payment gateway at the same time, if there is one.
    pub(crate) calls: usize,
}

/// The shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    pub(crate) all: u64,
    /// Connections of clients.
    pub(crate) connections: usize,
    /// Clients that are being rejected.
    pub(crate) turned_away: usize,
    /// Callers at the port for other nodes.
    pub(crate) strangers: usize,
    /// Calls to the payment gateway.
    pub(crate) calls: usize,
}

impl Shares {
    /// A descriptor with this number or a higher one is not for clients.
    pub(crate) fn clients_end(&self) -> u64 {
        self.operators_end() - OPERATORS
    }

    /// The same for operators.
    pub(crate) fn operators_end(&self) -> u64 {
        self.links_end() - LINKS
    }

    /// The same for other nodes.
    pub(crate) fn links_end(&self) -> u64 {
        self.all - OWN / 2
    }
}

/// Raises the limit as far as possible. Returns it.
pub(crate) fn raise() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let demand = maximum.unwrap_or(ENOUGH).min(ENOUGH);
    let now = current.unwrap_or(ENOUGH);
    if now >= demand {
        return now;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(demand), maximum }) {
        Ok(()) => demand,
        Err(error) => {
            tracing::warn!(%error, now, demand, "the limit of file descriptors cannot be raised");
            now
        }
    }
}

/// Divides `all` descriptors.
///
/// # Errors
/// They are not enough. The message says what to do.
pub(crate) fn share(all: u64, demand: &Demand) -> Result<Shares, String> {
    let of_all = |(share, most): (u64, u64)| (all / share).clamp(1, most);
    let turned_away = of_all(TURNED_AWAY);
    let strangers = if demand.has_peers { of_all(PEER_STRANGERS) } else { 0 };
    let calls = (demand.calls as u64).min((all / CALLS).max(1));
    let links = if demand.has_peers { LINKS } else { 0 };
    // One connection is accepted before it is known to be too many.
    let kept = OWN + OPERATORS + links + strangers + turned_away + calls + 1;
    let room = all.saturating_sub(kept);
    let raise = "ulimit -n, LimitNOFILE= of a systemd unit, --ulimit nofile= of a container";
    if room < CONNECTIONS_MIN {
        let least = kept + CONNECTIONS_MIN;
        return Err(format!("{all} file descriptors are not enough for a node: allow it {least} or more ({raise})"));
    }
    let connections = demand.connections as u64;
    if demand.is_configured && connections > room {
        // Other shares grow with the total.
        let needed = OWN + OPERATORS + links + PEER_STRANGERS.1 + TURNED_AWAY.1 + demand.calls as u64 + 1 + connections;
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

/// The connections that one network may have, at most a quarter of all, and for a moment twice as many. Otherwise one stranger
/// could take all of a small node. 0 is without a limit.
pub(crate) fn of_one_network(demand: u32, shares: &Shares) -> u32 {
    demand.min(u32::try_from(shares.connections / 4).unwrap_or(u32::MAX).max(1))
}

/// The limits of the client port with these shares. Warns if they are lower than usual.
pub(crate) fn edge_limits(shares: &Shares, demand: &Demand) -> Limits {
    if shares.connections < demand.connections {
        tracing::warn!(
            connections = shares.connections,
            usual = demand.connections,
            descriptors = shares.all,
            "there are file descriptors for fewer connections than usual; allow the process more (ulimit -n), or set \
             limits.connections"
        );
    }
    Limits {
        connections_max: shares.connections,
        turned_away_max: shares.turned_away,
        descriptors_end: shares.clients_end(),
        operator_connections_max: (OPERATORS - PROBES) as usize,
        probe_places: PROBES as usize,
        operator_descriptors_end: shares.operators_end(),
        ..Limits::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: Demand = Demand { connections: 16_384, is_configured: false, has_peers: true, calls: 0 };

    #[test]
    fn everything_that_may_be_open_at_once_fits() {
        for all in [208, 256, 512, 1_024, 4_096, 20_000, 1 << 20] {
            for has_peers in [false, true] {
                for calls in [0, 256] {
                    let demand = Demand { has_peers, calls, ..DEFAULT };
                    let Ok(shares) = share(all, &demand) else {
                        assert!(all < 256, "{all} should be enough");
                        continue;
                    };
                    let Shares { connections, turned_away, strangers, calls, .. } = shares;
                    let links = if has_peers { LINKS as usize } else { 0 };
                    assert!(connections >= CONNECTIONS_MIN as usize);
                    assert!(OWN as usize + links + connections + turned_away + strangers + calls < all as usize);
                    assert!(shares.clients_end() < shares.links_end() && shares.links_end() < all);
                }
            }
        }
        assert_eq!(share(1 << 20, &DEFAULT).map(|shares| shares.connections), Ok(16_384));
    }

    #[test]
    fn one_network_takes_at_most_half_of_the_connections() {
        for all in [256, 1_024, 4_096, 1 << 20] {
            let shares = share(all, &DEFAULT).expect("enough descriptors");
            let budget = of_one_network(512, &shares);
            // Twice as many until the client has sent its key.
            assert!(budget >= 1 && 2 * budget as usize <= shares.connections / 2, "{budget} of {}", shares.connections);
            assert_eq!(of_one_network(0, &shares), 0, "0 is without a limit");
        }
    }

    #[test]
    fn too_many_connections_are_refused_with_the_possible_number() {
        let demand = Demand { connections: 2_000, is_configured: true, ..DEFAULT };
        let refused = share(1_024, &demand).expect_err("too many");
        let number = |after: &str| -> u64 {
            let rest = refused.split_once(after).expect("the message names the limit").1;
            rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).expect("a number")
        };
        let fits = Demand { connections: number("set limits.connections to ") as usize, ..demand };
        assert!(share(1_024, &fits).is_ok(), "{refused}");
        assert!(share(number("allow the process "), &demand).is_ok(), "{refused}");
        let refused = share(150, &DEFAULT).expect_err("too few");
        let least: u64 = refused
            .split_once("allow it ")
            .expect("the message names the limit")
            .1
            .split(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        // Other shares grow a little with the total.
        assert!(share(least + 8, &DEFAULT).is_ok(), "{refused}");
    }
}

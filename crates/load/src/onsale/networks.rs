//! The connections of buyers. Each shows a network of its own, because a node looks at few codes of one network at once, and lets a
//! network wait that shows wrong ones.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use boxoffice_client::{BestWish, Cart, Client, ClientConfig, Id, TlsAuthorities};

use super::ledger::RATE_LIMITED;

/// Networks that buyers share, each for at most as many buyers at once as a node looks at codes of one network.
const SHARED: u32 = 64;

/// Codes that are probably wrong which one network shows. After one more the node would let it wait.
const WRONG_MAX: u32 = 3;

/// How the buyers connect.
pub(super) struct Networks {
    addresses: Vec<String>,
    tls: Option<TlsAuthorities>,
    deadline: Duration,
    shared: Vec<Client>,
    next_shared: AtomicU32,
    next_network: AtomicU32,
    /// The network that shows wrong codes now, and how many it has shown.
    wrong: Mutex<Option<(Client, u32)>>,
}

impl Networks {
    /// Connects the networks that buyers share.
    ///
    /// # Errors
    /// Why a node cannot be reached.
    pub(super) async fn connect(
        addresses: Vec<String>,
        tls: Option<TlsAuthorities>,
        deadline: Duration,
    ) -> Result<Networks, boxoffice_client::Error> {
        let mut networks = Networks {
            addresses,
            tls,
            deadline,
            shared: Vec::new(),
            next_shared: AtomicU32::new(0),
            next_network: AtomicU32::new(0),
            wrong: Mutex::new(None),
        };
        for _ in 0..SHARED {
            let client = networks.new_network().await?;
            networks.shared.push(client);
        }
        Ok(networks)
    }

    /// The next shared network.
    pub(super) fn shared(&self) -> &Client {
        &self.shared[(self.next_shared.fetch_add(1, Ordering::Relaxed) % SHARED) as usize]
    }

    /// A network whose code is probably refused.
    ///
    /// # Errors
    /// Why a node cannot be reached.
    pub(super) async fn wrong(&self) -> Result<Client, boxoffice_client::Error> {
        let known = {
            let mut wrong = self.wrong.lock().expect("no thread panics while it holds the lock");
            let fresh = wrong.as_mut().filter(|(_, shown)| *shown < WRONG_MAX);
            fresh.map(|(client, shown)| {
                *shown += 1;
                client.clone()
            })
        };
        if let Some(client) = known {
            return Ok(client);
        }
        let client = self.new_network().await?;
        *self.wrong.lock().expect("no thread panics while it holds the lock") = Some((client.clone(), 1));
        Ok(client)
    }

    /// Shows wrong codes from one network until it has to wait, and one from another network.
    ///
    /// # Errors
    /// What to set, if the nodes take both for one network. The codes of all buyers would wait for each other then.
    pub(super) async fn check(&self, session: &Id, code: &Id) -> Result<(), String> {
        let show = async |client: &Client| {
            let wish = BestWish { count: 1, category: None, section: None, accessible: 0, split: false };
            let held = Cart::new(client).hold_best(session, wish).code(Some(code)).await;
            held.err().and_then(|error| error.refusal().map(|no| no.code))
        };
        let one = self.new_network().await;
        // Nodes count for themselves, so the other one begins with the same node.
        self.next_network.fetch_add(self.addresses.len() as u32 - 1, Ordering::Relaxed);
        let other = self.new_network().await;
        let [one, other] = [one.map_err(|error| error.to_string())?, other.map_err(|error| error.to_string())?];
        for _ in 0..=WRONG_MAX {
            show(&one).await;
        }
        match show(&other).await {
            Some(RATE_LIMITED) => {
                Err("the nodes take all of them for one: set listen.proxies to the address of this machine".into())
            }
            _ => Ok(()),
        }
    }

    async fn new_network(&self) -> Result<Client, boxoffice_client::Error> {
        let number = self.next_network.fetch_add(1, Ordering::Relaxed);
        let nodes = self.addresses.len();
        // Each begins with another node, and goes to the next one if that is gone.
        let addresses = (0..nodes).map(|step| self.addresses[(number as usize + step) % nodes].clone());
        Client::connect(ClientConfig {
            forwarded_for: Some(address(number)),
            tls: self.tls.clone(),
            deadline: self.deadline,
            ..ClientConfig::new(addresses)
        })
        .await
    }
}

/// The address of a network. No two are in one /48, within which nodes count wrong codes together.
fn address(network: u32) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8 + (network >> 16) as u16, network as u16, 0, 0, 0, 0, 1).into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_networks_are_in_one_wider_network() {
        let wider = |address: IpAddr| match address {
            IpAddr::V6(address) => address.to_bits() >> 80,
            IpAddr::V4(address) => address.to_bits().into(),
        };
        let all: BTreeSet<u128> = (0..100_000).map(|network| wider(address(network))).collect();
        assert_eq!(all.len(), 100_000);
    }
}

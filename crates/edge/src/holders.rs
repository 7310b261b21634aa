//! Who holds, as the entities know it: keyed hashes of networks and customers, which tell nobody an address.

use std::net::IpAddr;

use boxoffice_core::{holder::Holder, id::Id};
use boxoffice_env::secret::Secret;
use hmac::{Hmac, KeyInit, Mac};
use rand::{TryRngCore, rngs::OsRng};
use sha2::Sha256;

use crate::network::{ClientNetwork, WiderNetwork};

/// Makes holders of networks and customers. All nodes of a cluster have the same secret, so that they make the same.
pub(crate) struct Holders {
    mac: Hmac<Sha256>,
}

impl Holders {
    /// Makers with this secret, or with one that is drawn now and lost when the process ends.
    pub(crate) fn new(secret: Option<&Secret>) -> Holders {
        let mut drawn = [0; 32];
        let key = match secret {
            Some(Secret(secret)) => secret.as_bytes(),
            None => {
                OsRng.try_fill_bytes(&mut drawn).expect("the system has randomness");
                &drawn
            }
        };
        Holders { mac: Hmac::new_from_slice(key).expect("HMAC takes keys of any length") }
    }

    /// The holder of a caller with this address, who may have shown a customer.
    pub(crate) fn of(&self, address: IpAddr, customer: Option<&Id>) -> Holder {
        let network = ClientNetwork::of(address).to_string();
        match customer {
            Some(customer) => {
                Holder { own: self.hash("customer", customer.as_str()), wider: self.hash("customers of", &network) }
            }
            None => Holder {
                own: self.hash("network", &network),
                wider: self.hash("wider network", &WiderNetwork::of(address).to_string()),
            },
        }
    }

    fn hash(&self, kind: &str, name: &str) -> u64 {
        let mut mac = self.mac.clone();
        mac.update(b"boxoffice holder 1\0");
        mac.update(kind.as_bytes());
        mac.update(b"\0");
        mac.update(name.as_bytes());
        let bytes = mac.finalize().into_bytes();
        let mut first = [0; 8];
        first.copy_from_slice(&bytes[..8]);
        u64::from_be_bytes(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: &str, customer: Option<&str>) -> Holder {
        let customer = customer.map(|name| Id::new(name).expect("an id"));
        let secret = Secret("thirty-two letters or a few more".into());
        Holders::new(Some(&secret)).of(address.parse().expect("an address"), customer.as_ref())
    }

    #[test]
    fn guests_are_their_network_and_customers_are_themselves() {
        let guest = of("192.0.2.1", None);
        assert_eq!(guest, of("192.0.2.1", None));
        assert_eq!(guest, of("::ffff:192.0.2.1", None));
        let neighbor = of("192.0.2.99", None);
        assert_ne!(guest.own, neighbor.own);
        assert_eq!(guest.wider, neighbor.wider);
        assert_ne!(guest.wider, of("192.0.3.1", None).wider);

        let household = of("2001:db8:1:ab00::1", None);
        assert_eq!(household, of("2001:db8:1:abff::2", None));
        let neighbor = of("2001:db8:1:ac00::1", None);
        assert_ne!(household.own, neighbor.own);
        assert_eq!(household.wider, neighbor.wider);

        let ann = of("192.0.2.1", Some("ann"));
        assert_eq!(ann.own, of("198.51.100.7", Some("ann")).own);
        assert_ne!(ann.own, of("192.0.2.1", Some("bob")).own);
        assert_eq!(ann.wider, of("192.0.2.1", Some("bob")).wider);
        assert!(
            ![guest.own, guest.wider].contains(&ann.wider),
            "customers are not charged to the guests of their network"
        );
    }

    #[test]
    fn another_secret_makes_other_hashes() {
        let address = "192.0.2.1".parse().expect("an address");
        assert_ne!(Holders::new(None).of(address, None), Holders::new(None).of(address, None));
    }
}

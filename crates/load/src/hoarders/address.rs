//! The addresses of networks. Every other one is of IPv6. No two are in one wider network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address that stands for a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NetworkAddress(IpAddr);

/// The networks of one IPv4 range with a /24 each.
const V4_MAX: u32 = 250;

impl NetworkAddress {
    /// The network of the hoarder with this number.
    pub(super) fn hoarder(number: u32) -> NetworkAddress {
        NetworkAddress::of(number, 18, 0x1000)
    }

    /// The network of an honest buyer.
    pub(super) fn honest(number: u32) -> NetworkAddress {
        NetworkAddress::of(number, 19, 0x2000)
    }

    /// The address of the office, the family and the burst.
    pub(super) fn office() -> NetworkAddress {
        NetworkAddress(Ipv4Addr::new(203, 0, 113, 7).into())
    }

    fn of(number: u32, v4: u8, v6: u16) -> NetworkAddress {
        NetworkAddress(match number {
            number if number % 2 == 0 && number / 2 < V4_MAX => Ipv4Addr::new(198, v4, (number / 2) as u8, 1).into(),
            number => Ipv6Addr::new(0x2001, 0xdb8, v6 + number as u16, 0, 0, 0, 0, 1).into(),
        })
    }

    pub(super) fn address(self) -> IpAddr {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_networks_are_in_one_wider_network() {
        let wider = |network: NetworkAddress| match network.address() {
            IpAddr::V4(address) => u64::from(address.to_bits() >> 8),
            IpAddr::V6(address) => 1 << 63 | (address.to_bits() >> 80) as u64,
        };
        let hoarders = (0..100).map(NetworkAddress::hoarder);
        let all: Vec<NetworkAddress> =
            hoarders.chain((0..1_000).map(NetworkAddress::honest)).chain([NetworkAddress::office()]).collect();
        let different: BTreeSet<u64> = all.iter().copied().map(wider).collect();
        assert_eq!(different.len(), all.len());
        assert!(all.iter().any(|network| network.address().is_ipv4()));
    }
}

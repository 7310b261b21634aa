//! The network of a client: one IPv4 address, or the IPv6 /56 that a household gets (RFC 6177), and the wider network around it.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// The length of the IPv6 prefix that a provider gives to one customer.
const IPV6_PREFIX_BITS: u32 = 56;

/// The lengths of the prefixes of a site: what a tunnel gives for nothing, and the smallest IPv4 network that is routed.
const IPV6_SITE_BITS: u32 = 48;
const IPV4_SITE_BITS: u32 = 24;

/// The network of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientNetwork(IpAddr);

impl ClientNetwork {
    pub(crate) fn of(address: IpAddr) -> ClientNetwork {
        match address.to_canonical() {
            IpAddr::V4(address) => ClientNetwork(address.into()),
            IpAddr::V6(address) => ClientNetwork(ipv6_prefix(address, IPV6_PREFIX_BITS).into()),
        }
    }
}

impl fmt::Display for ClientNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The wider network of a client: an IPv4 /24, or an IPv6 /48. Whoever has one address there may have others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WiderNetwork(IpAddr);

impl WiderNetwork {
    pub(crate) fn of(address: IpAddr) -> WiderNetwork {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let prefix = address.to_bits() >> (32 - IPV4_SITE_BITS) << (32 - IPV4_SITE_BITS);
                WiderNetwork(Ipv4Addr::from_bits(prefix).into())
            }
            IpAddr::V6(address) => WiderNetwork(ipv6_prefix(address, IPV6_SITE_BITS).into()),
        }
    }
}

impl fmt::Display for WiderNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn ipv6_prefix(address: Ipv6Addr, bits: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(address.to_bits() >> (128 - bits) << (128 - bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_household_is_one_network() {
        let of = |text: &str| ClientNetwork::of(text.parse().expect("an address"));
        assert_eq!(of("2001:db8:1:ab00::1"), of("2001:db8:1:abff:ffff::"));
        assert_ne!(of("2001:db8:1:ab00::1"), of("2001:db8:1:ac00::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
    }
}

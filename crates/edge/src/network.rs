//! The network of a client: one IPv4 address, or the IPv6 /56 that a household gets (RFC 6177).

use std::net::{IpAddr, Ipv6Addr};

/// The length of the IPv6 prefix that a provider gives to one customer.
const IPV6_PREFIX_BITS: u32 = 56;

/// The network of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientNetwork(IpAddr);

impl ClientNetwork {
    pub(crate) fn of(address: IpAddr) -> ClientNetwork {
        match address.to_canonical() {
            IpAddr::V4(address) => ClientNetwork(address.into()),
            IpAddr::V6(address) => {
                let prefix = address.to_bits() >> (128 - IPV6_PREFIX_BITS) << (128 - IPV6_PREFIX_BITS);
                ClientNetwork(Ipv6Addr::from_bits(prefix).into())
            }
        }
    }
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

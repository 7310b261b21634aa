//! Trusted proxies in front of the node, and the clients whose connections and requests they forward.

use std::{io, net::IpAddr, str::FromStr};

use axum::http::HeaderMap;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The beginning of a PROXY protocol header, version 2.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// The head of such a header: the signature, version and command, family, length.
const HEAD_BYTES: usize = 16;

/// The longest rest of such a header, in bytes: addresses, and what a proxy adds.
const REST_BYTES_MAX: usize = 4 * 1024;

/// Proxies that are trusted to tell a client's address.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    /// Their addresses.
    pub networks: Vec<Network>,
    pub way: ProxyWay,
}

/// How a proxy tells the client's address. A proxy sets one of these and forwards the others as clients have sent them, so
/// only one is trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyWay {
    /// The header `X-Forwarded-For` of each request.
    #[default]
    ForwardedFor,
    /// The header `Forwarded` of each request (RFC 7239).
    Forwarded,
    /// The PROXY protocol, version 2, in front of each connection.
    ProxyProtocol,
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl FromStr for Network {
    type Err = ();

    fn from_str(text: &str) -> Result<Network, ()> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(drop)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(drop))?;
        if bits > most { Err(()) } else { Ok(Network { address, bits }) }
    }
}

impl Network {
    /// Whether an address is in it.
    pub fn has(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                (own.to_bits() ^ other.to_bits()) & mask == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                (own.to_bits() ^ other.to_bits()) & mask == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl Proxies {
    /// Whether an address is a proxy's.
    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.has(address))
    }

    /// The client's address of a connection that was just accepted. Reads a proxy's PROXY header.
    ///
    /// # Errors
    /// The proxy sends no such header.
    pub(crate) async fn client_of(&self, stream: &mut (impl AsyncRead + Unpin), peer: IpAddr) -> io::Result<IpAddr> {
        if self.way != ProxyWay::ProxyProtocol || !self.trusts(peer) {
            return Ok(peer);
        }
        let mut head = [0; HEAD_BYTES];
        stream.read_exact(&mut head).await?;
        let length = usize::from(u16::from_be_bytes([head[14], head[15]]));
        if head[..12] != SIGNATURE || head[12] >> 4 != 2 || length > REST_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a proxy sent no PROXY header of version 2"));
        }
        let mut rest = vec![0; length];
        stream.read_exact(&mut rest).await?;
        Ok(proxied(head[12] & 0x0f, head[13], &rest).unwrap_or(peer))
    }

    /// Whether proxies tell the client's address with each request.
    pub(crate) fn tell_with_requests(&self) -> bool {
        !self.networks.is_empty() && self.way != ProxyWay::ProxyProtocol
    }

    /// The client's address of a request from `peer`: the last one in the list that is not a proxy's.
    pub(crate) fn client_of_request(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let (name, read): (_, fn(&str) -> Option<IpAddr>) = match self.way {
            ProxyWay::ForwardedFor => ("x-forwarded-for", address),
            ProxyWay::Forwarded => ("forwarded", forwarded_for),
            ProxyWay::ProxyProtocol => return peer,
        };
        // Entry by entry, because a client's part of the line may not be text, and the proxy's entry follows it.
        let lists = headers.get_all(name).iter().rev();
        let entries = lists.flat_map(|list| list.as_bytes().rsplit(|byte| *byte == b','));
        let mut entries = entries.map(|entry| str::from_utf8(entry).ok().and_then(read));
        let mut client = peer;
        while self.trusts(client) {
            // An entry that is not an address hides the client. Only the proxy that wrote it is known.
            let Some(Some(before)) = entries.next() else { break };
            client = before;
        }
        client
    }
}

/// The address in a PROXY header. `None` if there is none, as in a proxy's own health checks.
fn proxied(command: u8, family: u8, rest: &[u8]) -> Option<IpAddr> {
    match (command, family >> 4) {
        (1, 1) => rest.first_chunk::<4>().filter(|_| rest.len() >= 12).map(|address| IpAddr::from(*address)),
        (1, 2) => rest.first_chunk::<16>().filter(|_| rest.len() >= 36).map(|address| IpAddr::from(*address)),
        _ => None,
    }
    .map(|address| address.to_canonical())
}

/// The address in an element of `Forwarded`.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then(|| address(value.trim().trim_matches('"')))?
    };
    element.split(';').find_map(pair)
}

/// An address, with or without brackets and port.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let host = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => match text.split_once(':') {
            Some((host, port)) if !port.contains(':') => host,
            Some(_) | None => text,
        },
    };
    host.parse().ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn networks_have_the_addresses_of_their_first_bits() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("192.0.2.128/25", "192.0.2.200", "192.0.2.127"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("2001:db8::/32", "2001:db8:1::9", "2001:db9::1"),
            ("::1", "::1", "::2"),
            ("::/0", "2001:db8::1", "127.0.0.1"),
        ] {
            let network: Network = network.parse().expect("a network");
            assert!(network.has(ip(inside)) && !network.has(ip(outside)), "{network:?}");
        }
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/", "example"] {
            assert_eq!(wrong.parse::<Network>(), Err(()), "{wrong:?}");
        }
    }

    /// The client of a request from `peer` with these headers, where 10.0.0.0/8 and ::1 are proxies.
    fn client(way: ProxyWay, peer: &str, headers: &[(&'static str, &str)]) -> String {
        let networks = ["10.0.0.0/8", "::1"].map(|network| network.parse().expect("a network")).to_vec();
        let mut map = HeaderMap::new();
        headers.iter().for_each(|(name, value)| _ = map.append(*name, value.parse().expect("a value")));
        Proxies { networks, way }.client_of_request(ip(peer), &map).to_string()
    }

    #[test]
    fn only_proxies_are_trusted() {
        let by = |peer, list| client(ProxyWay::ForwardedFor, peer, &[("x-forwarded-for", list)]);
        assert_eq!(by("10.0.0.1", "192.0.2.1"), "192.0.2.1");
        assert_eq!(by("198.51.100.9", "192.0.2.1"), "198.51.100.9", "only proxies may name another client");
        assert_eq!(
            by("10.0.0.1", "203.0.113.5, 192.0.2.1, 10.9.9.9"),
            "192.0.2.1",
            "the client may have sent the first entries"
        );
        assert_eq!(by("10.0.0.1", "192.0.2.1, nonsense"), "10.0.0.1");
        assert_eq!(by("10.0.0.1", "10.0.0.2"), "10.0.0.2");
        assert_eq!(by("::1", "[2001:db8::7]:4711"), "2001:db8::7");
        assert_eq!(by("10.0.0.1", "192.0.2.1:4711"), "192.0.2.1");
        let lines = [("x-forwarded-for", "203.0.113.5"), ("x-forwarded-for", "192.0.2.1")];
        assert_eq!(client(ProxyWay::ForwardedFor, "10.0.0.1", &lines), "192.0.2.1");

        let by = |list| client(ProxyWay::Forwarded, "10.0.0.1", &[("forwarded", list)]);
        assert_eq!(by("for=203.0.113.5;proto=http, For=\"[2001:db8::7]:4711\";by=10.0.0.1"), "2001:db8::7");
        assert_eq!(by("for=_hidden"), "10.0.0.1");
        let other = [("x-forwarded-for", "192.0.2.1")];
        assert_eq!(client(ProxyWay::Forwarded, "10.0.0.1", &other), "10.0.0.1", "a header that proxies do not set");
        assert_eq!(client(ProxyWay::ProxyProtocol, "10.0.0.1", &other), "10.0.0.1");
    }

    #[test]
    fn bytes_that_are_not_text_hide_no_entry_of_a_proxy() {
        let networks = vec!["10.0.0.0/8".parse().expect("a network")];
        let proxies = Proxies { networks, way: ProxyWay::ForwardedFor };
        let by = |list: &[u8]| {
            let value = axum::http::HeaderValue::from_bytes(list).expect("a value");
            proxies.client_of_request(
                ip("10.0.0.1"),
                &HeaderMap::from_iter([(HeaderName::from_static("x-forwarded-for"), value)]),
            )
        };
        assert_eq!(by(b"\xff, 192.0.2.1"), ip("192.0.2.1"));
        assert_eq!(by(b"192.0.2.1, \xff"), ip("10.0.0.1"));
    }

    #[test]
    fn proxy_headers_name_a_client_or_none() {
        let v4 = [192, 0, 2, 1, 10, 0, 0, 1, 0x12, 0x34, 0, 80];
        assert_eq!(proxied(1, 0x11, &v4), Some(ip("192.0.2.1")));
        let mut v6 = [0; 36];
        v6[..16].copy_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(proxied(1, 0x21, &v6), Some(ip("2001:db8::7")));
        // The proxy's own request, a family without addresses, truncated addresses.
        for (command, family, rest) in [(0, 0x11, &v4[..]), (1, 0, &v4), (1, 0x11, &v4[..11]), (1, 0x21, &v6[..35])] {
            assert_eq!(proxied(command, family, rest), None);
        }
    }
}

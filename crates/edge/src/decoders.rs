//! The decoders for bytes from clients and proxies, for the fuzz tests in `crates/fuzz`.

use std::{io, net::IpAddr};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use boxoffice_core::{access::Roles, id::Id, time::Timestamp};
use futures_util::FutureExt;

use crate::{Proxies, ProxyWay, heads::Heads, token::TokenKeys};

/// Follows the bytes of a client's requests as they arrive `step` bytes at a time.
pub fn heads(bytes: &mut [u8], step: usize) {
    let mut heads = Heads::default();
    bytes.chunks_mut(step).for_each(|piece| heads.pass(piece));
}

/// The client's address in the PROXY header before a connection, and the bytes after the header.
///
/// # Errors
/// There is no such header.
pub fn proxy_header<'a>(proxies: &Proxies, mut bytes: &'a [u8], peer: IpAddr) -> io::Result<(IpAddr, &'a [u8])> {
    let address = proxies.client_of(&mut bytes, peer).now_or_never().expect("all of it is there")?;
    Ok((address, bytes))
}

/// The client's address in the headers of a request. `None` if a value cannot be a header's.
pub fn client_of_request(proxies: &Proxies, peer: IpAddr, values: &[&[u8]]) -> Option<IpAddr> {
    let name = match proxies.way {
        ProxyWay::Forwarded => "forwarded",
        ProxyWay::ForwardedFor | ProxyWay::ProxyProtocol => "x-forwarded-for",
    };
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value).ok()?);
    }
    Some(proxies.client_of_request(peer, &headers))
}

/// A token's subject, roles, venues and end.
///
/// # Errors
/// The reason why the token is not valid.
pub fn token(keys: &TokenKeys, token: &str, now: Timestamp) -> Result<(Id, Roles, Vec<Id>, Timestamp), &'static str> {
    let claims = keys.read(token, now).map_err(|invalid| invalid.words)?;
    Ok((claims.subject, claims.roles, claims.venues, claims.expires_at))
}

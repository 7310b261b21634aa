//! Which pages may ask: those of the cluster's own nodes, and those that the configuration names.
//!
//! A browser says with every request of a page where that page came from (`Origin`). A request without it does not come from
//! another page's script. What a page says of the node's own name (`Host`) is only believed of names that are known to be a
//! node's, or of addresses: a stranger's name that was made to lead here (DNS rebinding) would be its own origin.

use std::net::IpAddr;

use axum::http::{HeaderMap, header, uri::Authority};

use crate::{denials::Denial, shared::Shared};

/// Whether a request comes from a page that may ask, or from no page. Counts those that may not.
pub(crate) fn is_welcome(shared: &Shared, headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let Ok(origin) = origin.to_str() else { return false };
    let web = &shared.config.web;
    let is_welcome = shared.config.origins.iter().any(|welcome| welcome == origin)
        || [&web.public_url, &web.advertise].into_iter().any(|own| own.as_deref() == Some(origin))
        || shared.backend.members().iter().any(|member| member.client == origin)
        || authority_of(origin).is_some_and(|from| is_own(shared, headers, from));
    if !is_welcome {
        shared.denials.note(Denial::Origin, None, &format!("a page of {origin:?}"));
    }
    is_welcome
}

/// Host and port of an origin that a page of ours can have.
fn authority_of(origin: &str) -> Option<&str> {
    origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))
}

/// Whether this is the origin of a page that a node of the cluster serves.
fn is_own(shared: &Shared, headers: &HeaderMap, from: &str) -> bool {
    if shared.backend.members().iter().any(|member| member.client == from) {
        return true;
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    host == Some(from) && is_address(from)
}

/// Whether a host and port name an address, or this machine, and not a name that anybody could make lead here.
pub(crate) fn is_address(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

/// Whether a host and port name this machine by its loopback interface.
pub(crate) fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_addresses() {
        for host in ["127.0.0.1:7180", "192.0.2.1", "[::1]:80", "localhost:7180", "LOCALHOST"] {
            assert!(is_address(host), "{host}");
        }
        for host in ["evil.example:7180", "127.0.0.1.evil.example", "localhost.evil.example", "", "a b"] {
            assert!(!is_address(host), "{host}");
        }
        assert!(is_loopback("127.0.0.2:1") && is_loopback("[::1]") && is_loopback("localhost:7380"));
        assert!(!is_loopback("192.0.2.1") && !is_loopback("evil.example"));
    }
}

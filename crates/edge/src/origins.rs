//! Origins whose pages may send requests: those of the cluster's own nodes, and those in the configuration.
//!
//! A browser sends the origin of a page with every request of the page's script. A request without an `Origin` header does
//! not come from a browser page and is allowed. A page may be of the host that it names (`Host`) only if that is a member's
//! address or an IP address. Any other name could be an attacker's that was made to lead here (DNS rebinding).

use std::net::IpAddr;

use axum::http::{HeaderMap, header, uri::Authority};

use crate::{denials::Denial, shared::Shared};

/// Whether a request comes from an allowed page, or from no page. Counts the others.
pub(crate) fn is_allowed(shared: &Shared, headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let Ok(origin) = origin.to_str() else { return false };
    let is_allowed = is_known(shared, headers, origin);
    if !is_allowed {
        shared.denials.note(Denial::Origin, None, &format!("a page of {origin:?}"));
    }
    is_allowed
}

/// Whether pages of this origin may send requests to the host of these headers.
pub(crate) fn is_known(shared: &Shared, headers: &HeaderMap, origin: &str) -> bool {
    let web = &shared.config.web;
    shared.config.origins.iter().any(|welcome| welcome == origin)
        || [&web.public_url, &web.advertise].into_iter().any(|own| own.as_deref() == Some(origin))
        || shared.backend.members().iter().any(|member| member.client == origin)
        || authority_of(origin).is_some_and(|from| is_own(shared, headers, from))
}

/// Host and port of an HTTP origin.
fn authority_of(origin: &str) -> Option<&str> {
    origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))
}

/// Whether a node of the cluster serves pages of this origin.
fn is_own(shared: &Shared, headers: &HeaderMap, from: &str) -> bool {
    if shared.backend.members().iter().any(|member| member.client == from) {
        return true;
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    host == Some(from) && is_address(from)
}

/// Whether a host and port are an IP address or `localhost`, and not a name that an attacker could make lead here.
pub(crate) fn is_address(host: &str) -> bool {
    is_localhost_or(host, |_| true)
}

/// Whether a host and port are of the loopback interface.
pub(crate) fn is_loopback(host: &str) -> bool {
    is_localhost_or(host, |address| address.is_loopback())
}

/// Whether a host and port are `localhost`, or an address of this kind.
fn is_localhost_or(host: &str, is_kind: fn(IpAddr) -> bool) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(is_kind)
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

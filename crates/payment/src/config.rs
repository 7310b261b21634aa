//! The configuration of the payment gateway.

use std::{fmt, io, str::FromStr};

use boxoffice_env::secret::Secret;
use hyper::{Uri, http::uri::PathAndQuery};

/// The configuration of the payment gateway.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// The base of the contract's paths.
    pub url: GatewayUrl,
    /// The limit for one call, from connecting to the last byte, in milliseconds.
    pub timeout_ms: u64,
    /// The token for `Authorization: Bearer`.
    pub api_key: Option<Secret>,
    /// Calls under way at the same time. The outcome of a further call is unknown, `busy`, and the call is repeated
    /// later.
    pub concurrency: usize,
}

/// A node cannot use the configured gateway.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The key has characters that are not valid in a header.
    #[error("payments.api_key: it cannot stand in a header; only visible ASCII characters can")]
    ApiKey,
    /// TLS is not available.
    #[error("payments.url: https is not available: {0}")]
    Tls(rustls::Error),
    /// Without root certificates the gateway cannot be verified.
    #[error(
        "payments.url: the system's root certificates cannot be read ({0}); install ca-certificates, or name a file in \
         SSL_CERT_FILE"
    )]
    Roots(io::Error),
}

/// An address like `https://pay.example/v1`: `http` or `https`, a host, an optional port and path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayUrl(Uri);

/// A gateway's address is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// It is no URL.
    #[error("it is not an address like https://pay.example/v1")]
    NoAddress,
    /// It has neither `http` nor `https`.
    #[error("it begins with neither http:// nor https://")]
    Scheme,
    /// It has a user name or password.
    #[error("a user name or password does not belong in it; set payments.api_key")]
    Credentials,
    /// It has a query or fragment.
    #[error("it ends with its path; `?` and `#` do not belong in it")]
    Query,
}

impl FromStr for GatewayUrl {
    type Err = BadUrl;

    fn from_str(text: &str) -> Result<GatewayUrl, BadUrl> {
        if text.contains(['?', '#']) {
            return Err(BadUrl::Query);
        }
        let mut parts = text.parse::<Uri>().map_err(|_| BadUrl::NoAddress)?.into_parts();
        if !parts.scheme.as_ref().is_some_and(|scheme| matches!(scheme.as_str(), "http" | "https")) {
            return Err(if text.contains("://") { BadUrl::Scheme } else { BadUrl::NoAddress });
        }
        let authority = parts.authority.as_ref().ok_or(BadUrl::NoAddress)?;
        if authority.as_str().contains('@') {
            return Err(BadUrl::Credentials);
        }
        if authority.host().is_empty() {
            return Err(BadUrl::NoAddress);
        }
        if parts.path_and_query.is_none() {
            parts.path_and_query = Some(PathAndQuery::from_static("/"));
        }
        Uri::from_parts(parts).map(GatewayUrl).map_err(|_| BadUrl::NoAddress)
    }
}

impl GatewayUrl {
    /// Whether calls are encrypted.
    pub fn is_https(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }

    /// The host, a name or an address. An IPv6 address is in brackets.
    pub fn host(&self) -> &str {
        self.0.host().unwrap_or_default()
    }

    /// The address of a path of the contract. The path begins with `/`.
    pub(crate) fn below(&self, path: &str) -> Uri {
        let base = self.0.path().trim_end_matches('/');
        let mut parts = self.0.clone().into_parts();
        let whole = PathAndQuery::try_from(format!("{base}{path}")).expect("two paths make a path");
        parts.path_and_query = Some(whole);
        Uri::from_parts(parts).expect("an address with another path is an address")
    }
}

impl fmt::Display for GatewayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_string().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, path) in [
            ("http://127.0.0.1:7190", "http://127.0.0.1:7190/voids"),
            ("https://pay.example/", "https://pay.example/voids"),
            ("https://pay.example/v1", "https://pay.example/v1/voids"),
            ("https://pay.example:8443/v1/", "https://pay.example:8443/v1/voids"),
            ("http://[::1]:1/a/b", "http://[::1]:1/a/b/voids"),
        ] {
            let url: GatewayUrl = text.parse().expect("an address");
            assert_eq!(url.below("/voids").to_string(), path);
            assert_eq!(url.to_string(), text.trim_end_matches('/'));
            assert_eq!(url.is_https(), text.starts_with("https"));
        }
        for (text, wrong) in [
            ("", BadUrl::NoAddress),
            ("pay.example", BadUrl::NoAddress),
            ("/v1", BadUrl::NoAddress),
            ("http://", BadUrl::NoAddress),
            ("http://:80", BadUrl::NoAddress),
            ("http://a b", BadUrl::NoAddress),
            ("ftp://pay.example", BadUrl::Scheme),
            ("https://me:pass@pay.example", BadUrl::Credentials),
            ("https://pay.example/?a=b", BadUrl::Query),
            ("https://pay.example/#a", BadUrl::Query),
        ] {
            assert_eq!(text.parse::<GatewayUrl>(), Err(wrong), "{text}");
        }
    }
}

//! What an operator says about the payment gateway.

use std::{fmt, io, str::FromStr};

use boxoffice_env::secret::Secret;
use hyper::{Uri, http::uri::PathAndQuery};

/// Where the gateway is and how it is asked.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Its address; the paths of the contract are below it.
    pub url: GatewayUrl,
    /// How long one call may take, from connecting to the last byte, in milliseconds.
    pub timeout_ms: u64,
    /// What we show as `Authorization: Bearer`, if anything.
    pub api_key: Option<Secret>,
    /// Calls under way at the same time; beyond this a call is unknown, `busy`, and asked again later.
    pub concurrency: usize,
}

/// Why a node cannot use the gateway it was told of.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The key has characters that no header may have.
    #[error("payments.api_key: it cannot stand in a header; only visible ASCII characters can")]
    ApiKey,
    /// No encryption to be had.
    #[error("payments.url: https cannot be spoken: {0}")]
    Tls(rustls::Error),
    /// There is nothing to tell a true gateway by.
    #[error(
        "payments.url: the system's root certificates cannot be read ({0}); install ca-certificates, or name a file in \
         SSL_CERT_FILE"
    )]
    Roots(io::Error),
}

/// An address like `https://pay.example/v1`: `http` or `https`, a host, perhaps a port and a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayUrl(Uri);

/// What is wrong with a gateway's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// No address at all.
    #[error("it is not an address like https://pay.example/v1")]
    NoAddress,
    /// Neither `http` nor `https`.
    #[error("it begins with neither http:// nor https://")]
    Scheme,
    /// A name or password in it.
    #[error("a user name or password does not belong in it; set payments.api_key")]
    Credentials,
    /// Something behind the path.
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

    /// The address of a path of the contract, which begins with `/`.
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

//! Encrypted connections to nodes.

use std::sync::Arc;

use rustls::{
    RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio_rustls::TlsConnector;

/// The authorities whose certificates a client accepts from nodes. A node's certificate must have the host of the address
/// that the client connects to, as a DNS name or as an IP address.
#[derive(Clone)]
pub struct TlsAuthorities(Arc<rustls::ClientConfig>);

/// The text holds no certificates of authorities.
#[derive(Debug, thiserror::Error)]
#[error("these are no certificates of authorities: {0}")]
pub struct InvalidAuthorities(String);

impl TlsAuthorities {
    /// The authorities whose certificates are in this PEM text.
    ///
    /// # Errors
    /// [`InvalidAuthorities`] if it has none, or one that cannot be read.
    pub fn from_pem(text: &[u8]) -> Result<TlsAuthorities, InvalidAuthorities> {
        let invalid = |error: &dyn std::fmt::Display| InvalidAuthorities(error.to_string());
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(text) {
            roots.add(certificate.map_err(|error| invalid(&error))?).map_err(|error| invalid(&error))?;
        }
        if roots.is_empty() {
            return Err(InvalidAuthorities("no certificate in PEM".into()));
        }
        TlsAuthorities::of(roots)
    }

    /// The authorities that this machine trusts. `SSL_CERT_FILE` and `SSL_CERT_DIR` name others.
    ///
    /// # Errors
    /// [`InvalidAuthorities`] if none is found.
    pub fn of_system() -> Result<TlsAuthorities, InvalidAuthorities> {
        let mut roots = RootCertStore::empty();
        // Some systems have certificates that cannot be read. The others are as good as without them.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(InvalidAuthorities("this machine has none; name a file of them".into()));
        }
        TlsAuthorities::of(roots)
    }

    fn of(roots: RootCertStore) -> Result<TlsAuthorities, InvalidAuthorities> {
        let invalid = |error: &dyn std::fmt::Display| InvalidAuthorities(error.to_string());
        let config = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(TlsAuthorities(Arc::new(config)))
    }

    pub(crate) fn connector(&self) -> TlsConnector {
        Arc::clone(&self.0).into()
    }
}

impl std::fmt::Debug for TlsAuthorities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsAuthorities")
    }
}

/// The name that the certificate of the node at this address must have. `None` if the address has no valid host.
pub(crate) fn server_name(address: &str) -> Option<ServerName<'static>> {
    let (host, _) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(host.to_owned()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_has_the_host_of_the_address() {
        for (address, name) in [
            ("127.0.0.1:7180", Some("IpAddress(V4(Ipv4Addr([127, 0, 0, 1])))")),
            ("tickets.example:443", Some("DnsName(\"tickets.example\")")),
            ("[::1]:7180", Some("IpAddress(V6(Ipv6Addr([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])))")),
            ("no port", None),
            (":7180", None),
        ] {
            assert_eq!(server_name(address).map(|name| format!("{name:?}")).as_deref(), name, "{address}");
        }
    }

    #[test]
    fn what_is_no_authority_is_refused() {
        for text in ["", "hello", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"] {
            assert!(TlsAuthorities::from_pem(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}

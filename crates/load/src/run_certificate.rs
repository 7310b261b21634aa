//! The certificate of the nodes that are started for one run.

use boxoffice_client::TlsAuthorities;
use rcgen::{CertificateParams, KeyPair};

/// Node numbers that the certificate is good for.
const NODES: u16 = 64;

/// A certificate that all nodes of a run share, at their clients' ports and between them. It is its own authority.
#[derive(Clone, Debug)]
pub struct RunCertificate {
    /// In PEM.
    pub(crate) certificate: String,
    /// Its private key, in PEM.
    pub(crate) key: String,
    /// For clients of these nodes.
    pub authorities: TlsAuthorities,
}

/// No certificate can be made.
#[derive(Debug, thiserror::Error)]
#[error("no certificate can be made: {0}")]
pub struct NoCertificate(String);

impl RunCertificate {
    /// Makes a certificate for nodes on 127.0.0.1.
    ///
    /// # Errors
    /// [`NoCertificate`] if the system gives no random bytes.
    pub fn new() -> Result<RunCertificate, NoCertificate> {
        let failed = |error: &dyn std::fmt::Display| NoCertificate(error.to_string());
        let key = KeyPair::generate().map_err(|error| failed(&error))?;
        let names = (1..=NODES).map(|node| format!("node-{node}")).chain(["127.0.0.1".into()]);
        let params = CertificateParams::new(names.collect::<Vec<_>>()).map_err(|error| failed(&error))?;
        let certificate = params.self_signed(&key).map_err(|error| failed(&error))?.pem();
        let authorities = TlsAuthorities::from_pem(certificate.as_bytes()).map_err(|error| failed(&error))?;
        Ok(RunCertificate { certificate, key: key.serialize_pem(), authorities })
    }
}

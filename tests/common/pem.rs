//! Certificates of nodes.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use rcgen::{CertificateParams, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// A certificate for `localhost`, which is its own authority, and its key.
pub(crate) struct Pem {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Pem {
    pub(crate) fn new(directory: &Path) -> Pem {
        let pem = Pem { certificate: directory.join("certificate.pem"), key: directory.join("key.pem") };
        pem.renew();
        pem
    }

    /// The arguments with which a node presents it.
    pub(crate) fn args(&self) -> [String; 4] {
        let [certificate, key] = [&self.certificate, &self.key].map(|path| path.display().to_string());
        ["--tls-certificate".into(), certificate, "--tls-key".into(), key]
    }

    /// Writes another certificate with another key.
    pub(crate) fn renew(&self) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        std::fs::write(&self.certificate, params.self_signed(&key).expect("a certificate").pem()).expect("written");
        std::fs::write(&self.key, key.serialize_pem()).expect("written");
    }

    /// Connects to a port that presents this certificate.
    pub(crate) async fn connect(&self, address: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.certificate).expect("a certificate")).expect("a certificate");
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a name");
        TlsConnector::from(Arc::new(config)).connect(name, TcpStream::connect(address).await?).await
    }
}

//! Encrypted links. Both sides show a certificate of the cluster's authority for their node's name.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use boxoffice_env::NodeId;
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::verify_server_name,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::{ParsedCertificate, WebPkiClientVerifier},
    version::TLS13,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tracing_mutex::parkinglot::{Mutex, RwLock};

use super::{
    config::{PeerTls, PeersError},
    transport::Transport,
};

/// The settings of both sides from the files last read. Existing links keep theirs.
pub(super) struct Tls {
    files: PeerTls,
    sides: RwLock<Sides>,
    /// The files last read, valid or not.
    read: Mutex<Texts>,
}

struct Sides {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
}

/// The files' contents.
#[derive(PartialEq, Eq)]
struct Texts {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authority: Vec<u8>,
}

impl Texts {
    fn read(files: &PeerTls) -> Result<Texts, PeersError> {
        Ok(Texts { certificate: read(&files.certificate)?, key: read(&files.key)?, authority: read(&files.authority)? })
    }
}

impl Tls {
    /// # Errors
    /// [`PeersError::Tls`] names the file and what is wrong with it.
    pub(super) fn load(files: &PeerTls) -> Result<Tls, PeersError> {
        let texts = Texts::read(files)?;
        let sides = RwLock::new(Sides::of(files, &texts)?);
        Ok(Tls { files: files.clone(), sides, read: Mutex::new(texts) })
    }

    /// Reads the files again, and returns whether they have changed.
    ///
    /// # Errors
    /// They have changed and are not valid. Then the old ones stay in use.
    pub(super) fn reload(&self) -> Result<bool, PeersError> {
        let texts = Texts::read(&self.files)?;
        let mut read = self.read.lock();
        if *read == texts {
            return Ok(false);
        }
        let sides = Sides::of(&self.files, &texts);
        *read = texts;
        *self.sides.write() = sides?;
        Ok(true)
    }

    /// Encrypts a stream that this side dialed, and verifies that the acceptor has a certificate for node `to`.
    pub(super) async fn connect(&self, stream: TcpStream, to: NodeId) -> io::Result<Transport> {
        let connector = self.sides.read().connector.clone();
        let stream = connector.connect(name(to), stream).await?;
        Ok(Transport::encrypted(stream.into(), None))
    }

    /// Encrypts a stream that the other side dialed, and verifies its certificate. Its name is checked later.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<Transport> {
        let acceptor = self.sides.read().acceptor.clone();
        let stream = acceptor.accept(stream).await?;
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let shown = shown.map(|certificate| certificate.clone().into_owned());
        let shown = shown.ok_or_else(|| io::Error::other("the caller has shown no certificate"))?;
        Ok(Transport::encrypted(stream.into(), Some(shown)))
    }
}

impl Sides {
    fn of(files: &PeerTls, texts: &Texts) -> Result<Sides, PeersError> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&files.authority, &texts.authority)? {
            roots.add(certificate).map_err(|error| wrong(&files.authority, error))?;
        }
        let roots = Arc::new(roots);
        let chain = certificates(&files.certificate, &texts.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&texts.key)
            .map_err(|error| wrong(&files.key, format!("it has no private key that can be read ({error})")))?;
        let server = Self::server(&provider, &roots, files, chain.clone(), key.clone_key())?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| wrong(&files.certificate, error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(|error| unfit(files, error))?;
        Ok(Sides { acceptor: Arc::new(server).into(), connector: Arc::new(client).into() })
    }

    fn server(
        provider: &Arc<CryptoProvider>,
        roots: &Arc<RootCertStore>,
        files: &PeerTls,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<ServerConfig, PeersError> {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(provider))
            .build()
            .map_err(|error| wrong(&files.authority, error))?;
        ServerConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| wrong(&files.certificate, error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(|error| unfit(files, error))
    }
}

/// Checks that a certificate is for the name of `node`.
///
/// # Errors
/// The reason in words.
pub(super) fn check_name(certificate: &CertificateDer<'_>, node: NodeId) -> Result<(), String> {
    let parsed = ParsedCertificate::try_from(certificate).map_err(|error| error.to_string())?;
    verify_server_name(&parsed, &name(node)).map_err(|error| error.to_string())
}

fn name(node: NodeId) -> ServerName<'static> {
    ServerName::try_from(format!("node-{node}")).expect("letters, a dash and digits make a name")
}

fn certificates(file: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, PeersError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let certificates = read.map_err(|error| wrong(file, format!("it is not a PEM file that can be read ({error})")))?;
    if certificates.is_empty() {
        return Err(wrong(file, "it has no certificate in PEM"));
    }
    Ok(certificates)
}

fn read(file: &Path) -> Result<Vec<u8>, PeersError> {
    fs::read(file).map_err(|error| wrong(file, format!("it cannot be read: {error}")))
}

fn unfit(files: &PeerTls, error: rustls::Error) -> PeersError {
    let key: &PathBuf = &files.key;
    wrong(&files.certificate, format!("it does not go with the key {}: {error}", key.display()))
}

fn wrong(file: &Path, what: impl std::fmt::Display) -> PeersError {
    PeersError::Tls { file: file.to_owned(), what: what.to_string() }
}

//! The certificate of the client port. It can be reloaded while the node runs.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio_rustls::TlsAcceptor;
use tracing_mutex::parkinglot::{Mutex, RwLock};

/// The paths of the certificate and its key, both PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by its chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", .file.display())]
pub struct TlsError {
    pub file: PathBuf,
    /// What is wrong with the file.
    pub what: String,
}

/// The certificate for new connections.
pub struct Certificate {
    files: TlsFiles,
    current: RwLock<Arc<ServerConfig>>,
    /// The contents that were read last, whether usable or not.
    read: Mutex<PemFiles>,
}

/// The files' contents.
#[derive(PartialEq, Eq)]
struct PemFiles {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Certificate").field(&self.files).finish()
    }
}

impl Certificate {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`] names the file and what is wrong with it.
    pub fn load(files: TlsFiles) -> Result<Certificate, TlsError> {
        let files_read = PemFiles::read(&files)?;
        let current = RwLock::new(files_read.config(&files)?);
        Ok(Certificate { files, current, read: Mutex::new(files_read) })
    }

    /// Reads the files again. New connections use what they hold now. Returns whether the certificate has changed.
    ///
    /// # Errors
    /// The files have changed and cannot be used, so the certificate stays as it was. The same contents are an error only
    /// once.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let files_read = PemFiles::read(&self.files)?;
        let mut read = self.read.lock();
        if *read == files_read {
            return Ok(false);
        }
        let config = files_read.config(&self.files);
        *read = files_read;
        *self.current.write() = config?;
        Ok(true)
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        Arc::clone(&self.current.read()).into()
    }
}

impl PemFiles {
    fn read(files: &TlsFiles) -> Result<PemFiles, TlsError> {
        Ok(PemFiles { certificate: read(&files.certificate)?, key: read(&files.key)? })
    }

    fn config(&self, files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        let chain = chain
            .map_err(|error| wrong(&files.certificate, format!("it is not a PEM file that can be read ({error})")))?;
        if chain.is_empty() {
            return Err(wrong(&files.certificate, "it has no certificate in PEM"));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| wrong(&files.key, format!("it has no private key that can be read ({error})")))?;
        let unfit = |error| {
            let key = files.key.display();
            wrong(&files.certificate, format!("it does not go with the key {key}: {error}"))
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(unfit)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(unfit)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(file).map_err(|error: io::Error| wrong(file, format!("it cannot be read: {error}")))
}

fn wrong(file: &Path, what: impl std::fmt::Display) -> TlsError {
    TlsError { file: file.to_owned(), what: what.to_string() }
}

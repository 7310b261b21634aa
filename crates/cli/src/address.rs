//! Addresses of nodes as people write them, and whether connections to them are encrypted.

use std::path::Path;

use boxoffice_client::TlsAuthorities;

use crate::failure::Failure;

/// The default port of a node's clients.
const PORT: u16 = 7180;

/// The default port of an address that begins with `https://`, because a proxy is usually there.
const ENCRYPTED_PORT: u16 = 443;

/// The address of a node: `host`, `host:port`, or either behind `http://`, `https://`, `ws://` or `wss://`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub host_and_port: String,
    /// Whether its scheme says that connections are encrypted, or that they are not. `None` without a scheme.
    encrypted: Option<bool>,
}

impl Address {
    /// The address in this text.
    pub fn parse(text: &str) -> Address {
        let text = text.trim().trim_end_matches('/');
        let schemes = [("https://", true), ("wss://", true), ("http://", false), ("ws://", false)];
        let with_scheme =
            schemes.iter().find_map(|(scheme, encrypted)| Some((text.strip_prefix(scheme)?, Some(*encrypted))));
        let (place, encrypted) = with_scheme.unwrap_or((text, None));
        let port = if encrypted == Some(true) { ENCRYPTED_PORT } else { PORT };
        let has_port = place.rsplit_once(':').is_some_and(|(host, port)| {
            port.bytes().all(|byte| byte.is_ascii_digit()) && (!host.contains(':') || host.ends_with(']'))
        });
        let host_and_port = match has_port {
            true => place.to_owned(),
            false if place.contains(':') && !place.starts_with('[') => format!("[{place}]:{port}"),
            false => format!("{place}:{port}"),
        };
        Address { host_and_port, encrypted }
    }
}

/// The authorities whose certificates the nodes at these addresses show. `None` if connections to them are in plain text.
///
/// Connections are encrypted if the addresses begin with `https://`, or if a file of authorities is named and they do not begin with
/// `http://`. Without a file the authorities are those of this machine.
///
/// # Errors
/// [`Failure::Usage`] if the file cannot be read or has no certificates, or if only some of the addresses are encrypted.
pub fn authorities(addresses: &[Address], file: Option<&Path>) -> Result<Option<TlsAuthorities>, Failure> {
    let is_encrypted = |address: &Address| address.encrypted.unwrap_or(file.is_some());
    let encrypted = addresses.iter().filter(|address| is_encrypted(address)).count();
    if encrypted == 0 {
        return Ok(None);
    }
    if encrypted < addresses.len() {
        return Err(Failure::Usage(
            "some of the addresses are encrypted and others are not; begin all with https://".into(),
        ));
    }
    let Some(file) = file else {
        let found = TlsAuthorities::of_system();
        return found.map(Some).map_err(|error| Failure::Usage(format!("{error} (--ca FILE)")));
    };
    let text =
        std::fs::read(file).map_err(|error| Failure::Usage(format!("{}: cannot be read: {error}", file.display())))?;
    let found = TlsAuthorities::from_pem(&text);
    found.map(Some).map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_get_the_usual_port() {
        let full = |text: &str| Address::parse(text).host_and_port;
        assert_eq!(full("127.0.0.1:7180"), "127.0.0.1:7180");
        assert_eq!(full("localhost"), "localhost:7180");
        assert_eq!(full("http://localhost:80/"), "localhost:80");
        assert_eq!(full("[::1]:9000"), "[::1]:9000");
        assert_eq!(full("::1"), "[::1]:7180");
        assert_eq!(full("[::1]"), "[::1]:7180");
        assert_eq!(full("https://tickets.example/"), "tickets.example:443");
        assert_eq!(full("wss://tickets.example:7180"), "tickets.example:7180");
    }

    #[test]
    fn the_scheme_and_the_file_say_whether_connections_are_encrypted() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let (good, bad) = (dir.path().join("ca.pem"), dir.path().join("bad.pem"));
        std::fs::write(&good, certified.cert.pem()).expect("a written file");
        std::fs::write(&bad, "no certificate").expect("a written file");
        let encrypted = |texts: &[&str], file: Option<&Path>| {
            let addresses: Vec<Address> = texts.iter().map(|text| Address::parse(text)).collect();
            authorities(&addresses, file).map(|found| found.is_some()).map_err(|error| error.to_string())
        };
        assert_eq!(encrypted(&["one", "http://two"], None), Ok(false));
        assert_eq!(encrypted(&["one", "https://two"], Some(&good)), Ok(true));
        // A named file does not encrypt what is told to be plain, like the operators' port.
        assert_eq!(encrypted(&["http://one"], Some(&good)), Ok(false));
        assert!(encrypted(&["https://one", "two"], None).is_err_and(|error| error.contains("begin all with https")));
        assert!(
            encrypted(&["one"], Some(&bad)).is_err_and(|error| error.contains("bad.pem: these are no certificates"))
        );
        assert!(encrypted(&["one"], Some(Path::new("/nowhere"))).is_err_and(|error| error.contains("cannot be read")));
    }
}

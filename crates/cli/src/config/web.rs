//! TLS, proxies and public addresses of the client port.

use boxoffice_core::cluster::ADDRESS_BYTES_MAX;
use boxoffice_edge::{Network, Proxies, ProxyWay, TlsFiles, WebConfig};

use super::{ConfigError, Settings, is_origin};

/// The maximum of `hsts_s`: two years.
const HSTS_S_MAX: u64 = 2 * 366 * 24 * 60 * 60;

impl Settings<'_> {
    /// The keys of `[listen]` about the web. The certificate is loaded at the start.
    pub(super) fn web(&self) -> Result<WebConfig, ConfigError> {
        Ok(WebConfig {
            certificate: None,
            hsts_s: self.within("listen.hsts_s", 0..=HSTS_S_MAX)?,
            proxies: Proxies { networks: self.networks()?, way: self.proxy_way()? },
            public_url: self.url("listen.public_url")?,
            advertise: self.url("listen.advertise")?,
        })
    }

    pub(super) fn tls(&self) -> Result<Option<TlsFiles>, ConfigError> {
        let keys = ["listen.tls_certificate", "listen.tls_key"];
        let files = self.files_set_together(keys, "listen.tls_certificate and listen.tls_key are set together")?;
        Ok(files.map(|[certificate, key]| TlsFiles { certificate, key }))
    }

    fn networks(&self) -> Result<Vec<Network>, ConfigError> {
        let networks = self.find::<Vec<String>>("listen.proxies")?;
        let network = |text: &String| {
            let wrong = || networks.wrong(format!("{text:?} is not a network like \"10.0.0.0/8\" or an address"));
            text.parse().map_err(|()| wrong())
        };
        networks.value.iter().map(network).collect()
    }

    fn proxy_way(&self) -> Result<ProxyWay, ConfigError> {
        self.find("listen.proxy_header")?.one_of(&[
            ("x-forwarded-for", ProxyWay::ForwardedFor),
            ("forwarded", ProxyWay::Forwarded),
            ("proxy-protocol", ProxyWay::ProxyProtocol),
        ])
    }

    fn url(&self, key: &str) -> Result<Option<String>, ConfigError> {
        let url = self.find::<String>(key)?;
        match url.value.as_str() {
            "" => Ok(None),
            given => check_url(given).map(|()| Some(given.to_owned())).map_err(|why| url.wrong(why)),
        }
    }
}

/// Checks an address for browsers.
///
/// # Errors
/// The right form, in words.
pub fn check_url(given: &str) -> Result<(), String> {
    if is_origin(given) && given.len() <= ADDRESS_BYTES_MAX {
        return Ok(());
    }
    Err(format!("{given:?} is not an address like \"https://tickets.example\": scheme, host, perhaps a port, no path"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Config, tests::refused};
    use super::*;

    fn read(text: &str) -> Config {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("b.toml");
        std::fs::write(&path, format!("[listen]\n{text}\n")).expect("a written file");
        Config::load(Some(&path)).expect("a valid file")
    }

    #[test]
    fn a_port_is_plain_and_trusts_no_proxy_by_default() {
        let config = read("");
        let web = &config.edge.web;
        assert!(config.tls.is_none() && web.proxies.networks.is_empty() && web.public_url.is_none());
        assert_eq!((config.drain, web.hsts_s), (Duration::from_secs(5), 31_536_000));
    }

    #[test]
    fn settings_of_the_web_are_read() {
        let config = read(
            "tls_certificate = \"c.pem\"\ntls_key = \"k.pem\"\nproxies = [\"10.0.0.0/8\", \"::1\"]\n\
             proxy_header = \"proxy-protocol\"\npublic_url = \"https://tickets.example\"\n\
             advertise = \"https://one.tickets.example:8443\"\ndrain_ms = 0\nhsts_s = 60",
        );
        let web = &config.edge.web;
        let tls = config.tls.expect("certificates");
        assert!(tls.certificate.is_absolute() && tls.certificate.ends_with("c.pem") && tls.key.ends_with("k.pem"));
        assert_eq!((web.proxies.networks.len(), web.proxies.way), (2, ProxyWay::ProxyProtocol));
        assert_eq!(web.public_url.as_deref(), Some("https://tickets.example"));
        assert_eq!(web.advertise.as_deref(), Some("https://one.tickets.example:8443"));
        assert_eq!((config.drain, web.hsts_s), (Duration::ZERO, 60));
    }

    #[test]
    fn mistakes_about_the_web_are_named_with_line_and_key() {
        for (text, expected) in [
            ("tls_key = \"k\"", "listen.tls_certificate and listen.tls_key are set together"),
            ("proxies = [\"10.0.0.0/33\"]", "listen.proxies: \"10.0.0.0/33\" is not a network like"),
            ("proxy_header = \"x-real-ip\"", "listen.proxy_header: \"x-real-ip\" is none of"),
            ("public_url = \"tickets.example\"", "listen.public_url: \"tickets.example\" is not an address like"),
            ("advertise = \"https://one/path\"", "listen.advertise: \"https://one/path\" is not an address like"),
            ("drain_ms = 600_001", "listen.drain_ms: 600001 is not within 0 and 600000"),
        ] {
            let error = refused(&format!("# mine\n[listen]\n{text}\n"));
            assert!(error.starts_with(&format!("line 3: {expected}")), "{text}: {error}");
        }
    }
}

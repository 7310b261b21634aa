//! The section `[payments]`.

use std::{
    net::{IpAddr, Ipv6Addr},
    slice,
};

use boxoffice_core::payment::OnDecline;
use boxoffice_edge::WEBHOOK_SECRET_BYTES_MIN;
use boxoffice_env::secret::Secret;
use boxoffice_payment::{GatewayConfig, GatewayUrl};
use serde::Deserialize;

use super::{ConfigError, Settings};

/// The maximum of webhook secrets: an old and a new one. Each costs a hash for every forged webhook.
const WEBHOOK_SECRETS_MAX: usize = 4;

/// Why a gateway is refused that is called without encryption.
const UNENCRYPTED: &str = "everyone on the way could read the key and change payments; use https://, or an address of this machine \
                           or of a private network";

/// Endings of names that are never those of public hosts.
const PRIVATE_ENDINGS: [&str; 6] = [".localhost", ".local", ".internal", ".lan", ".home.arpa", ".svc"];

/// Whether a host is this machine, or one of a private network. Names without a dot are those of containers and services beside
/// this one.
fn is_near(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_private() || address.is_link_local(),
        Ok(IpAddr::V6(address)) => is_near_v6(address),
        Err(_) => {
            let name = host.trim_end_matches('.').to_ascii_lowercase();
            !name.contains('.') || PRIVATE_ENDINGS.iter().any(|ending| name.ends_with(ending))
        }
    }
}

fn is_near_v6(address: Ipv6Addr) -> bool {
    match address.to_ipv4_mapped() {
        Some(mapped) => is_near(&mapped.to_string()),
        None => address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local(),
    }
}

/// A text, or a list of them.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a text or a list of texts")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl Settings<'_> {
    pub(super) fn on_decline(&self) -> Result<OnDecline, ConfigError> {
        let words = [("release", OnDecline::Release), ("keep", OnDecline::Keep)];
        self.find("payments.on_decline")?.one_of(&words)
    }

    pub(super) fn gateway(&self) -> Result<Option<GatewayConfig>, ConfigError> {
        let timeout_ms = self.within("payments.timeout_ms", 1..=600_000)?;
        let concurrency = self.within("payments.under_way", 1..=65_536)?;
        let url = self.find::<String>("payments.url")?;
        let api_key = self.api_key()?;
        if url.value.is_empty() {
            return Ok(None);
        }
        let parsed: GatewayUrl = url.value.parse().map_err(|error| url.wrong(format!("{:?}: {error}", url.value)))?;
        if !parsed.is_https() && !is_near(parsed.host()) {
            return Err(url.wrong(format!("{:?}: {UNENCRYPTED}", url.value)));
        }
        Ok(Some(GatewayConfig { url: parsed, timeout_ms, api_key, concurrency }))
    }

    pub(super) fn webhook_secrets(&self) -> Result<Vec<Secret>, ConfigError> {
        let setting = self.find("payments.webhook_secret")?;
        let secrets = match &setting.value {
            OneOrMore::One(none) if none.is_empty() => &[],
            OneOrMore::One(one) => slice::from_ref(one),
            OneOrMore::More(more) => &more[..],
        };
        let what = if secrets.len() > WEBHOOK_SECRETS_MAX {
            format!("at most {WEBHOOK_SECRETS_MAX} of them")
        } else if secrets.iter().any(|secret| secret.len() < WEBHOOK_SECRET_BYTES_MIN) {
            format!("at least {WEBHOOK_SECRET_BYTES_MIN} characters, or empty for none")
        } else {
            return Ok(secrets.iter().cloned().map(Secret).collect());
        };
        Err(setting.wrong(what))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use boxoffice_core::payment::OnDecline;
    use boxoffice_env::secret::Secret;

    use super::super::{Config, tests::refused};

    fn payments(text: &str) -> Config {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("b.toml");
        fs::write(&path, format!("[payments]\n{text}")).expect("a written file");
        Config::load(Some(&path)).expect("a valid file")
    }

    #[test]
    fn payments_are_only_recorded_by_default() {
        let config = Config::load(None).expect("the built-in configuration is valid");
        assert!(config.gateway.is_none());
        assert!(config.edge.webhook_secrets.is_empty());
        assert_eq!(config.node.rules.on_decline, OnDecline::Release);
    }

    #[test]
    fn a_gateway_with_everything() {
        let secrets = "webhook_secret = [\"the-new-secret-of-1\", \"the-old-secret-of-1\"]";
        let url = "url = \"https://pay.example/v1/\"\ntimeout_ms = 700\nunder_way = 9\non_decline = \"keep\"";
        let config = payments(&format!("{url}\n{secrets}\napi_key = \"k-1\"\nwait_ms = 5\nagain_ms = 50\n"));
        let gateway = config.gateway.expect("a gateway");
        assert_eq!(gateway.url.to_string(), "https://pay.example/v1");
        assert_eq!((gateway.timeout_ms, gateway.concurrency), (700, 9));
        assert_eq!(gateway.api_key, Some(Secret("k-1".into())));
        assert_eq!(config.edge.webhook_secrets.len(), 2);
        let rules = &config.node.rules;
        assert_eq!((rules.on_decline, rules.payment_wait_ms, rules.payment_again_ms), (OnDecline::Keep, 5, 50));
        let shown = format!("{:?} {:?}", gateway.api_key, config.edge.webhook_secrets);
        assert!(!shown.contains("k-1") && !shown.contains("secret-of-1"), "{shown}");
    }

    #[test]
    fn a_key_from_a_file_is_trimmed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let key = dir.path().join("key");
        fs::write(&key, "k-from-a-file\n").expect("a written file");
        let config = payments(&format!("url = \"http://127.0.0.1:1\"\napi_key_file = {key:?}\n"));
        let gateway = config.gateway.expect("a gateway");
        assert_eq!(gateway.api_key, Some(Secret("k-from-a-file".into())));
        fs::write(&key, "two\nlines\n").expect("a written file");
        let two = refused(&format!("[payments]\napi_key_file = {key:?}\n"));
        assert!(two.starts_with("line 2: payments.api_key_file: ") && two.contains("on one line"), "{two}");
    }

    #[test]
    fn a_gateway_without_encryption_is_near() {
        for near in [
            "localhost", "127.0.0.1", "127.8.9.1", "10.1.2.3", "172.31.0.1", "192.168.1.5", "169.254.1.1", "[::1]", "[fd00::1]",
            "[fe80::1]", "[::ffff:10.0.0.1]", "gateway", "pay.internal", "pay.shop.svc", "PAY.Local.", "a.localhost",
        ] {
            assert!(super::is_near(near), "{near}");
        }
        for abroad in [
            "pay.example", "localhost.example", "8.8.8.8", "172.32.0.1", "11.0.0.1", "[2001:db8::1]", "[::ffff:8.8.8.8]",
            "internal.example", "xn--pay.com", "100.example.",
        ] {
            assert!(!super::is_near(abroad), "{abroad}");
        }
    }

    #[test]
    fn mistakes_about_payments_are_named_with_line_and_key() {
        for (text, expected) in [
            (
                "url = \"pay.example\"",
                "payments.url: \"pay.example\": it is not an address like https://pay.example/v1",
            ),
            ("url = \"ftp://a\"", "payments.url: \"ftp://a\": it begins with neither http:// nor https://"),
            ("url = \"http://pay.example\"", "payments.url: \"http://pay.example\": everyone on the way could read"),
            ("timeout_ms = 0", "payments.timeout_ms: 0 is not within 1 and 600000"),
            ("under_way = 0", "payments.under_way: 0 is not within 1 and 65536"),
            ("on_decline = \"forget\"", "payments.on_decline: \"forget\" is neither \"release\" nor \"keep\""),
            ("webhook_secret = \"short\"", "payments.webhook_secret: at least 16 characters, or empty for none"),
            ("webhook_secret = [\"\"]", "payments.webhook_secret: at least 16 characters, or empty for none"),
            ("webhook_secret = [\"\", \"\", \"\", \"\", \"\"]", "payments.webhook_secret: at most 4 of them"),
            ("webhook_secret = 5", "a text or a list of texts"),
            ("api_key = \"a b\"", "payments.api_key: only visible ASCII characters can be shown"),
            ("api_key_file = \"/nowhere/key\"", "payments.api_key_file: /nowhere/key: cannot be read: "),
            ("api_key_file = \"k\"\napi_key = \"k\"", "payments.api_key_file: payments.api_key is set as well"),
            ("secret = \"x\"", "unknown field `secret`"),
        ] {
            let error = refused(&format!("# mine\n[payments]\n{text}\n"));
            assert!(error.starts_with(&format!("line 3: {expected}")), "{text}: {error}");
        }
    }
}

//! Roles and secrets. Each secret may be in a file of its own.

use std::{
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use boxoffice_core::access::Role;
use boxoffice_edge::{
    ADMIN_TOKEN_CHARS_MIN,
    token::{TokenKey, TokenKeys},
};
use boxoffice_env::secret::Secret;
use boxoffice_wire::customer::SECRET_BYTES_MIN;
use rustls::pki_types::{SubjectPublicKeyInfoDer, pem::PemObject};
use serde::Deserialize;
use smol_str::SmolStr;
use toml::Spanned;

use super::{ConfigError, Settings, source::Setting};
use crate::secret::is_fit_for_a_header;

/// A key of short-lived tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenKeySection {
    id: Option<String>,
    algorithm: String,
    key: Option<String>,
    key_file: Option<PathBuf>,
}

/// Reads a secret from a file that the configuration names.
pub(crate) fn read_secret_file(path: &Path) -> Result<String, String> {
    let secret = read_trimmed(path)?;
    if !is_fit_for_a_header(&secret) {
        return Err(format!("{}: a secret is visible ASCII characters, on one line", path.display()));
    }
    Ok(secret)
}

/// Whether an admin token is long enough.
pub(crate) fn is_admin_token(token: &str) -> bool {
    token.chars().count() >= ADMIN_TOKEN_CHARS_MIN
}

/// What an admin token must be.
pub(crate) fn admin_token_rule() -> String {
    format!("at least {ADMIN_TOKEN_CHARS_MIN} characters (`boxoffice admin token` makes one), or empty for none")
}

/// The text in a file, without the blanks around it.
pub(super) fn read_trimmed(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: cannot be read: {error}", path.display()))?;
    match text.trim() {
        "" => Err(format!("{}: it is empty", path.display())),
        text => Ok(text.to_owned()),
    }
}

impl Settings<'_> {
    /// A secret, or the text that `read` finds in its file.
    pub(super) fn secret<'a>(
        &'a self,
        key: &'a str,
        read: fn(&Path) -> Result<String, String>,
    ) -> Result<Option<Setting<'a, String>>, ConfigError> {
        let file_key = format!("{key}_file");
        let file = self.find::<PathBuf>(&file_key)?;
        let mut secret = self.find::<String>(key)?;
        if !file.value.as_os_str().is_empty() {
            if !secret.value.is_empty() {
                return Err(file.wrong(format!("{key} is set as well; one of them")));
            }
            secret.value = read(&file.path()).map_err(|why| file.wrong(why))?;
        }
        Ok(Some(secret).filter(|secret| !secret.value.is_empty()))
    }

    /// A secret that passes a check. `rule` is the message if it does not.
    fn checked_secret(
        &self,
        key: &str,
        check: impl Fn(&str) -> bool,
        rule: &str,
    ) -> Result<Option<String>, ConfigError> {
        match self.secret(key, read_secret_file)? {
            Some(secret) if !check(&secret.value) => Err(secret.wrong(rule)),
            secret => Ok(secret.map(|secret| secret.value)),
        }
    }

    /// The key for the payment gateway.
    pub(super) fn api_key(&self) -> Result<Option<Secret>, ConfigError> {
        let rule = "only visible ASCII characters can be shown";
        Ok(self.checked_secret("payments.api_key", is_fit_for_a_header, rule)?.map(Secret))
    }

    pub(super) fn admin_token(&self) -> Result<Option<String>, ConfigError> {
        self.checked_secret("listen.admin_token", is_admin_token, &admin_token_rule())
    }

    pub(super) fn customer_secret(&self) -> Result<Option<Secret>, ConfigError> {
        let rule = format!("at least {SECRET_BYTES_MIN} characters, or empty for none");
        let secret = self.checked_secret("listen.customer_secret", |secret| secret.len() >= SECRET_BYTES_MIN, &rule)?;
        Ok(secret.map(Secret))
    }

    pub(super) fn code_secret(&self) -> Result<Option<Secret>, ConfigError> {
        let rule = format!("at least {SECRET_BYTES_MIN} characters, or empty for none");
        let secret = self.checked_secret("listen.code_secret", |secret| secret.len() >= SECRET_BYTES_MIN, &rule)?;
        Ok(secret.map(Secret))
    }

    /// The role of callers without credentials.
    pub(super) fn anonymous(&self, has_gateway: bool, recorded_by_anyone: bool) -> Result<Option<Role>, ConfigError> {
        let word = self.find::<String>("listen.anonymous")?;
        let auto = if has_gateway { Role::Sell } else { Role::Watch };
        let words = [("auto", Some(auto)), ("sell", Some(Role::Sell)), ("watch", Some(Role::Watch)), ("none", None)];
        let role = word.one_of(&words)?;
        if role == Some(Role::Sell) && !has_gateway && !recorded_by_anyone {
            return Err(word.wrong(
                "\"sell\" needs a gateway (payments.url): without one strangers could hold seats and never buy them",
            ));
        }
        Ok(role)
    }

    /// Whether every caller may record a payment made elsewhere.
    pub(super) fn recorded_by_anyone(&self) -> Result<bool, ConfigError> {
        self.find("payments.recorded")?.one_of(&[("desk", false), ("anyone", true)])
    }

    pub(super) fn token_keys(&self) -> Result<TokenKeys, ConfigError> {
        let keys = self.find::<Vec<Spanned<TokenKeySection>>>("listen.token_keys")?;
        let audience = self.get::<String>("listen.token_audience")?;
        let key = |key: &Spanned<TokenKeySection>| {
            token_key(key.get_ref(), |path| keys.beside(path)).map_err(|why| keys.wrong_at(key.span().start, why))
        };
        let tokens = keys.value.iter().map(key).collect::<Result<Vec<TokenKey>, ConfigError>>()?;
        Ok(TokenKeys::new(tokens, Some(audience).filter(|audience| !audience.is_empty())))
    }
}

/// The key of a section.
fn token_key(section: &TokenKeySection, beside: impl Fn(&Path) -> PathBuf) -> Result<TokenKey, String> {
    let id = section.id.as_deref().map(SmolStr::new);
    let file = |path: &PathBuf| {
        let path = beside(path);
        fs::read(&path).map_err(|error| format!("{}: cannot be read: {error}", path.display()))
    };
    let bytes = match (&section.key, &section.key_file) {
        (Some(key), None) => key.as_bytes().to_vec(),
        (None, Some(path)) => file(path)?,
        (Some(_), Some(_)) => return Err("`key` and `key_file` are both set; one of them".into()),
        (None, None) => return Err("a key has a `key` or a `key_file`".into()),
    };
    match section.algorithm.as_str() {
        "HS256" => TokenKey::hs256(id, bytes.trim_ascii()),
        "EdDSA" => TokenKey::ed25519(id, &public_key(&bytes)?),
        other => Err(format!("{other:?} is neither \"EdDSA\" nor \"HS256\"")),
    }
}

/// A public key as PEM, or as 32 bytes in base64 (the `x` of a JSON Web Key).
fn public_key(text: &[u8]) -> Result<Vec<u8>, String> {
    if text.trim_ascii().starts_with(b"-----BEGIN") {
        let key = SubjectPublicKeyInfoDer::from_pem_slice(text);
        return key.map(|key| key.to_vec()).map_err(|error| format!("this is no public key in PEM: {error}"));
    }
    URL_SAFE_NO_PAD.decode(text.trim_ascii()).map_err(|error| format!("this is neither PEM nor base64: {error}"))
}

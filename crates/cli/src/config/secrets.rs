//! Roles and secrets. Each secret may be in a file of its own.

use std::{fs, path::PathBuf};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use boxoffice_core::access::Role;
use boxoffice_edge::token::{TokenKey, TokenKeys};
use boxoffice_env::secret::Secret;
use boxoffice_wire::customer::SECRET_BYTES_MIN;
use rustls::pki_types::{SubjectPublicKeyInfoDer, pem::PemObject};
use serde::Deserialize;
use smol_str::SmolStr;
use toml::Spanned;

use super::{ConfigError, File, Settings, Source, is_fit_for_a_header};

/// The shortest admin token, in characters.
const ADMIN_TOKEN_MIN: usize = 16;

/// A key of short-lived tokens.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenKeySection {
    id: Option<String>,
    algorithm: String,
    key: Option<String>,
    key_file: Option<PathBuf>,
}

/// A secret, with the place in the configuration of the secret or its file.
type SecretSaid<'a> = (&'a Source, &'a Spanned<String>, String);

/// Reads a secret from a file that the configuration names.
pub(crate) fn read_secret_file(path: &std::path::Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: cannot be read: {error}", path.display()))?;
    match text.trim() {
        "" => Err(format!("{}: it is empty", path.display())),
        secret if is_fit_for_a_header(secret) => Ok(secret.to_owned()),
        _ => Err(format!("{}: a secret is visible ASCII characters, on one line", path.display())),
    }
}

impl Settings {
    /// A secret, with its place in the configuration.
    fn secret(
        &self,
        key: &str,
        get: impl Fn(&File) -> Option<&Spanned<String>>,
        get_file: impl Fn(&File) -> Option<&Spanned<PathBuf>>,
    ) -> Result<Option<SecretSaid<'_>>, ConfigError> {
        let (source, secret) = self.find(get);
        let (file_source, file) = self.find(get_file);
        if file.get_ref().as_os_str().is_empty() {
            let said = secret.get_ref();
            return Ok((!said.is_empty()).then(|| (source, secret, said.clone())));
        }
        if !secret.get_ref().is_empty() {
            return Err(file_source.wrong(file, format!("{key}_file: {key} is set as well; one of them")));
        }
        let read = read_secret_file(file.get_ref());
        let read = read.map_err(|why| file_source.wrong(file, format!("{key}_file: {why}")))?;
        Ok(Some((source, secret, read)))
    }

    /// The key for the payment gateway.
    pub(super) fn api_key(&self) -> Result<Option<Secret>, ConfigError> {
        let key = "payments.api_key";
        match self.secret(key, |file| file.payments.api_key.as_ref(), |file| file.payments.api_key_file.as_ref())? {
            None => Ok(None),
            Some((_, _, key)) if is_fit_for_a_header(&key) => Ok(Some(Secret(key))),
            Some((source, at, _)) => {
                Err(source.wrong(at, "payments.api_key: only visible ASCII characters can be shown".into()))
            }
        }
    }

    pub(super) fn admin_token(&self) -> Result<Option<String>, ConfigError> {
        let key = "listen.admin_token";
        match self.secret(key, |file| file.listen.admin_token.as_ref(), |file| file.listen.admin_token_file.as_ref())? {
            None => Ok(None),
            Some((_, _, token)) if token.len() >= ADMIN_TOKEN_MIN => Ok(Some(token)),
            Some((source, at, _)) => {
                let what = format!("listen.admin_token: at least {ADMIN_TOKEN_MIN} characters, or empty for none");
                Err(source.wrong(at, what))
            }
        }
    }

    pub(super) fn customer_secret(&self) -> Result<Option<Secret>, ConfigError> {
        let secret = self.secret(
            "listen.customer_secret",
            |file| file.listen.customer_secret.as_ref(),
            |file| file.listen.customer_secret_file.as_ref(),
        );
        match secret? {
            None => Ok(None),
            Some((_, _, secret)) if secret.len() >= SECRET_BYTES_MIN => Ok(Some(Secret(secret))),
            Some((source, at, _)) => {
                let what = format!("listen.customer_secret: at least {SECRET_BYTES_MIN} characters, or empty for none");
                Err(source.wrong(at, what))
            }
        }
    }

    /// The role of callers without credentials.
    pub(super) fn anonymous(&self, has_gateway: bool, recorded_by_anyone: bool) -> Result<Option<Role>, ConfigError> {
        let (source, word) = self.find(|file| file.listen.anonymous.as_ref());
        match word.get_ref().as_str() {
            "none" => Ok(None),
            "watch" => Ok(Some(Role::Watch)),
            "auto" => Ok(Some(if has_gateway { Role::Sell } else { Role::Watch })),
            "sell" if has_gateway || recorded_by_anyone => Ok(Some(Role::Sell)),
            "sell" => {
                let what = "listen.anonymous: \"sell\" needs a gateway (payments.url): without one strangers could hold \
                            seats and never buy them";
                Err(source.wrong(word, what.into()))
            }
            other => {
                let what = format!("listen.anonymous: {other:?} is none of \"auto\", \"sell\", \"watch\", \"none\"");
                Err(source.wrong(word, what))
            }
        }
    }

    /// Whether every caller may record a payment made elsewhere.
    pub(super) fn recorded_by_anyone(&self) -> Result<bool, ConfigError> {
        let (source, word) = self.find(|file| file.payments.recorded.as_ref());
        match word.get_ref().as_str() {
            "desk" => Ok(false),
            "anyone" => Ok(true),
            other => {
                Err(source.wrong(word, format!("payments.recorded: {other:?} is neither \"desk\" nor \"anyone\"")))
            }
        }
    }

    pub(super) fn token_keys(&self) -> Result<TokenKeys, ConfigError> {
        let (source, keys) = self.find(|file| file.listen.token_keys.as_ref());
        let (_, audience) = self.find(|file| file.listen.token_audience.as_ref());
        let audience = Some(audience.get_ref().clone()).filter(|audience| !audience.is_empty());
        let key = |key: &Spanned<TokenKeySection>| {
            token_key(key.get_ref()).map_err(|why| source.wrong(key, format!("listen.token_keys: {why}")))
        };
        let keys = keys.get_ref().iter().map(key).collect::<Result<Vec<TokenKey>, ConfigError>>()?;
        Ok(TokenKeys::new(keys, audience))
    }
}

/// The key of a section.
fn token_key(section: &TokenKeySection) -> Result<TokenKey, String> {
    let id = section.id.as_deref().map(SmolStr::new);
    let file = |path: &PathBuf| fs::read(path).map_err(|error| format!("{}: cannot be read: {error}", path.display()));
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

//! Short-lived tokens: JSON Web Tokens (RFC 7519) that a shop makes for its customers and staff, signed with a key in this
//! node's configuration. Only EdDSA (Ed25519, RFC 8037) and HS256 are known, and the algorithm in a token's header must be
//! the key's.

use std::sync::Once;

use boxoffice_core::{
    access::{Role, Roles},
    id::Id,
    time::Timestamp,
};
use hmac::{Hmac, KeyInit, Mac};
use jsonwebtoken::{
    Algorithm, DecodingKey, EncodingKey, Validation,
    crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils},
    errors::{Error, ErrorKind, Result as JwtResult, new_error},
};
use serde::Deserialize;
use sha2::Sha256;
use signature::Verifier;
use smol_str::SmolStr;

/// The shortest secret of HS256, in bytes: as long as the hash (RFC 7518, 3.2).
pub const TOKEN_SECRET_BYTES_MIN: usize = 32;

/// Bytes of a public key of Ed25519.
pub const ED25519_KEY_BYTES: usize = 32;

/// The beginning of such a key in DER (RFC 8410). The key itself follows.
const ED25519_DER: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// How far the clocks of the shop and of the node may be apart, in seconds.
const LEEWAY_S: u64 = 5;

/// The most attributes of a customer that one token names.
const ATTRIBUTES_MAX: usize = 32;
const TOO_MANY_ATTRIBUTES: &str = "this token has more than 32 `attributes`";

/// A key that verifies tokens.
#[derive(Clone)]
pub struct TokenKey {
    /// Its name, the `kid` of tokens. A key without a name is tried for every token without one.
    id: Option<SmolStr>,
    algorithm: Algorithm,
    key: DecodingKey,
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenKey({:?}, {:?})", self.id, self.algorithm)
    }
}

impl TokenKey {
    /// A secret that the shop and the node share.
    ///
    /// # Errors
    /// The secret is too short.
    pub fn hs256(id: Option<SmolStr>, secret: &[u8]) -> Result<TokenKey, String> {
        if secret.len() < TOKEN_SECRET_BYTES_MIN {
            return Err(format!("a secret of HS256 has at least {TOKEN_SECRET_BYTES_MIN} bytes"));
        }
        Ok(TokenKey { id, algorithm: Algorithm::HS256, key: DecodingKey::from_secret(secret) })
    }

    /// The public key of the shop, as 32 bytes or in DER.
    ///
    /// # Errors
    /// This is not a public key of Ed25519.
    pub fn ed25519(id: Option<SmolStr>, key: &[u8]) -> Result<TokenKey, String> {
        let key = key.strip_prefix(&ED25519_DER).unwrap_or(key);
        if key.len() != ED25519_KEY_BYTES {
            return Err("this is no public key of Ed25519".into());
        }
        Ok(TokenKey { id, algorithm: Algorithm::EdDSA, key: DecodingKey::from_ed_der(key) })
    }
}

/// The keys that verify tokens, and the audience that tokens must have.
#[derive(Clone, Debug, Default)]
pub struct TokenKeys {
    keys: Vec<TokenKey>,
    audience: Option<String>,
}

/// The claims of a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    /// The customer, or the member of staff.
    pub(crate) subject: Id,
    pub(crate) roles: Roles,
    /// The venues that the token is valid for. All if empty.
    pub(crate) venues: Vec<Id>,
    /// What the customer is, to offers that ask for it: a member, a student.
    pub(crate) attributes: Vec<Id>,
    pub(crate) expires_at: Timestamp,
}

/// Why a token is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidToken {
    /// Whether one of the shop's keys has signed it, so that nobody guesses with it.
    pub(crate) is_signed: bool,
    /// The reason, for the caller.
    pub(crate) words: &'static str,
}

/// The claims as they are written. Others are ignored (RFC 7519, 4).
#[derive(Deserialize)]
struct RawClaims {
    sub: String,
    exp: f64,
    nbf: Option<f64>,
    role: Option<OneOrMore>,
    venue: Option<OneOrMore>,
    attributes: Option<OneOrMore>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn iter(&self) -> impl Iterator<Item = &str> {
        match self {
            OneOrMore::One(one) => std::slice::from_ref(one),
            OneOrMore::More(more) => more,
        }
        .iter()
        .map(String::as_str)
    }
}

impl Claims {
    /// When this node stops taking the token.
    pub(crate) fn ends_at(&self) -> Timestamp {
        self.expires_at.after(LEEWAY_S * 1_000)
    }
}

impl TokenKeys {
    /// With an audience, a token must name it in `aud`.
    pub fn new(keys: Vec<TokenKey>, audience: Option<String>) -> TokenKeys {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            // Another part of this process may have installed one. Either verifies these two algorithms.
            let _ = Box::leak(Box::new(provider())).install_default();
        });
        TokenKeys { keys, audience }
    }

    /// Whether there are no keys, so that no token is valid.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether this text has the form of a token: three parts in base64, of which the first is a JSON object.
    pub(crate) fn is_token(text: &str) -> bool {
        text.starts_with("ey") && text.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// The claims of a token that is valid at `now`.
    ///
    /// # Errors
    /// The reason why the token is not valid.
    pub(crate) fn read(&self, token: &str, now: Timestamp) -> Result<Claims, InvalidToken> {
        let wrong = |words: &'static str| InvalidToken { is_signed: false, words };
        let header = jsonwebtoken::decode_header(token).map_err(|_| wrong("this is no token"))?;
        let kid = header.kid.as_deref();
        let mut candidates = self.keys.iter().filter(|key| key.id.as_deref() == kid && key.algorithm == header.alg);
        let known = candidates.clone().next().is_some();
        let raw = candidates.find_map(|key| self.verified(token, key));
        let raw = raw.ok_or(wrong(match known {
            true => "this token's signature does not fit",
            false => "this token's key is not known",
        }))?;
        raw.claims(now).map_err(|words| InvalidToken { is_signed: true, words })
    }

    fn verified(&self, token: &str, key: &TokenKey) -> Option<RawClaims> {
        let mut validation = Validation::new(key.algorithm);
        // The node's own clock decides.
        (validation.validate_exp, validation.validate_nbf) = (false, false);
        match &self.audience {
            Some(audience) => {
                validation.set_audience(&[audience]);
                validation.set_required_spec_claims(&["exp", "sub", "aud"]);
            }
            None => {
                validation.validate_aud = false;
                validation.set_required_spec_claims(&["exp", "sub"]);
            }
        }
        jsonwebtoken::decode::<RawClaims>(token, &key.key, &validation).ok().map(|data| data.claims)
    }
}

impl RawClaims {
    fn claims(self, now: Timestamp) -> Result<Claims, &'static str> {
        let ms = |seconds: f64| (seconds * 1_000.0) as u64;
        let (leeway_ms, expires_at) = (LEEWAY_S * 1_000, Timestamp(ms(self.exp)));
        if expires_at.after(leeway_ms) <= now {
            return Err("this token has expired");
        }
        if self.nbf.is_some_and(|from| ms(from) > now.after(leeway_ms).0) {
            return Err("this token is not good yet");
        }
        let subject = Id::new(&self.sub).ok_or("`sub` of this token is no id")?;
        let role = |name: &str| match Role::from_name(name) {
            Some(Role::Admin) => Err("a token cannot have the role admin: use a key"),
            Some(role) => Ok(role),
            None => Err("this token names an unknown role"),
        };
        let roles = match &self.role {
            Some(roles) => roles.iter().map(role).collect::<Result<Roles, _>>()?,
            None => Roles::of(Role::Sell),
        };
        let venue = |name: &str| Id::new(name).ok_or("`venue` of this token is no id");
        let venues = self.venue.iter().flat_map(OneOrMore::iter).map(venue).collect::<Result<Vec<_>, _>>()?;
        if self.venue.is_some() && venues.is_empty() {
            return Err("this token is good for no venue");
        }
        let attribute = |name: &str| Id::new(name).ok_or("one of the `attributes` of this token is no id");
        let attributes = self.attributes.iter().flat_map(OneOrMore::iter);
        let attributes = attributes.map(attribute).collect::<Result<Vec<_>, _>>()?;
        if attributes.len() > ATTRIBUTES_MAX {
            return Err(TOO_MANY_ATTRIBUTES);
        }
        Ok(Claims { subject, roles, venues, attributes, expires_at })
    }
}

/// Ed25519 of ring and HS256 of hmac, which this crate uses anyway. Nothing is signed.
fn provider() -> CryptoProvider {
    CryptoProvider { signer_factory: no_signer, verifier_factory: verifier, key_utils: KeyUtils::new_unimplemented() }
}

fn no_signer(_: &Algorithm, _: &EncodingKey) -> JwtResult<Box<dyn JwtSigner>> {
    Err(new_error(ErrorKind::InvalidAlgorithm))
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> JwtResult<Box<dyn JwtVerifier>> {
    let bytes = || key.try_get_as_bytes().map(<[u8]>::to_vec);
    match algorithm {
        Algorithm::EdDSA => Ok(Box::new(EdDsa(bytes()?))),
        Algorithm::HS256 => Ok(Box::new(Hs256(bytes()?))),
        _ => Err(Error::from(ErrorKind::InvalidAlgorithm)),
    }
}

struct EdDsa(Vec<u8>);

impl Verifier<Vec<u8>> for EdDsa {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let key = ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, &self.0);
        key.verify(message, signature).map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for EdDsa {
    fn algorithm(&self) -> Algorithm {
        Algorithm::EdDSA
    }
}

struct Hs256(Vec<u8>);

impl Verifier<Vec<u8>> for Hs256 {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(message);
        mac.verify_slice(signature).map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use ring::{
        rand::SystemRandom,
        signature::{Ed25519KeyPair, KeyPair as _},
    };
    use serde_json::{Value, json};

    use super::*;

    const SECRET: &[u8] = b"a secret of thirty-two bytes, or more";
    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn part(value: &Value) -> String {
        URL_SAFE_NO_PAD.encode(value.to_string())
    }

    fn hs256(secret: &[u8], header: Value, claims: Value) -> String {
        let text = format!("{}.{}", part(&header), part(&claims));
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key");
        mac.update(text.as_bytes());
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
    }

    fn good() -> Value {
        json!({"sub": "ada", "exp": 1_800_000_060})
    }

    fn keys() -> TokenKeys {
        TokenKeys::new(vec![TokenKey::hs256(None, SECRET).expect("long enough")], None)
    }

    fn read(claims: Value) -> Result<Claims, &'static str> {
        words(keys().read(&hs256(SECRET, json!({"alg": "HS256", "typ": "JWT"}), claims), NOW))
    }

    fn words(read: Result<Claims, InvalidToken>) -> Result<Claims, &'static str> {
        read.map_err(|invalid| invalid.words)
    }

    #[test]
    fn a_valid_token_has_a_subject_and_roles() {
        let claims = read(good()).expect("a valid token");
        assert_eq!((claims.subject.as_str(), claims.roles), ("ada", Roles::of(Role::Sell)));
        assert_eq!(claims.expires_at, Timestamp(1_800_000_060_000));
        let staff = read(json!({"sub": "eve", "exp": 1_800_000_060, "role": ["desk", "report"], "venue": "globe"}));
        let staff = staff.expect("a valid token");
        assert_eq!(staff.roles, Roles::of(Role::Desk).with(Role::Report));
        assert_eq!(staff.venues.iter().map(Id::as_str).collect::<Vec<_>>(), ["globe"]);
    }

    #[test]
    fn a_token_is_valid_for_its_time_by_the_clock_of_the_node() {
        let at = |now: u64| words(keys().read(&hs256(SECRET, json!({"alg": "HS256"}), good()), Timestamp(now)));
        let last = at(1_800_000_064_999).expect("clocks differ a little");
        assert_eq!(last.ends_at(), Timestamp(1_800_000_065_000), "a connection ends when it could not begin");
        assert_eq!(at(1_800_000_065_000), Err("this token has expired"));
        let later = json!({"sub": "ada", "exp": 1_800_000_060, "nbf": 1_800_000_006});
        assert_eq!(read(later), Err("this token is not good yet"));
        assert_eq!(read(json!({"sub": "ada"})), Err("this token's signature does not fit"));
        assert!(read(json!({"sub": "ada", "exp": -1})).is_err());
        assert!(read(json!({"sub": "ada", "exp": 1e300})).is_err(), "not a time");
    }

    #[test]
    fn tokens_without_a_valid_signature_are_refused() {
        let header = || json!({"alg": "HS256"});
        let good_token = hs256(SECRET, header(), good());
        assert!(keys().read(&good_token, NOW).is_ok());
        let other = hs256(b"another secret of thirty-two bytes or more", header(), good());
        let wrong = InvalidToken { is_signed: false, words: "this token's signature does not fit" };
        assert_eq!(keys().read(&other, NOW), Err(wrong));
        let stale = keys().read(&good_token, Timestamp(NOW.0 + 100_000));
        assert_eq!(stale, Err(InvalidToken { is_signed: true, words: "this token has expired" }), "it is no guess");
        let unsigned = format!("{}.{}.", part(&json!({"alg": "none"})), part(&good()));
        assert!(keys().read(&unsigned, NOW).is_err(), "no signature at all");
        for place in 0..good_token.len() {
            let mut bytes = good_token.clone().into_bytes();
            bytes[place] ^= 1;
            let Ok(changed) = String::from_utf8(bytes) else { continue };
            // The last base64 character of a part has unused bits.
            let claims = keys().read(&changed, NOW);
            assert!(claims.is_err() || claims == keys().read(&good_token, NOW), "{changed}");
        }
        // The public key of another algorithm is not a secret.
        let pair = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("randomness");
        let pair = Ed25519KeyPair::from_pkcs8(pair.as_ref()).expect("just made");
        let public = pair.public_key().as_ref();
        let shop = TokenKeys::new(vec![TokenKey::ed25519(None, public).expect("a key")], None);
        assert_eq!(words(shop.read(&hs256(public, header(), good()), NOW)), Err("this token's key is not known"));
    }

    #[test]
    fn a_shop_signs_with_ed25519() {
        let pair = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("randomness");
        let pair = Ed25519KeyPair::from_pkcs8(pair.as_ref()).expect("just made");
        let public = pair.public_key().as_ref();
        let text = format!("{}.{}", part(&json!({"alg": "EdDSA", "kid": "k2"})), part(&good()));
        let token = format!("{text}.{}", URL_SAFE_NO_PAD.encode(pair.sign(text.as_bytes())));
        let named = |id: &str, key: &[u8]| TokenKey::ed25519(Some(id.into()), key).expect("a key");
        let der = [&ED25519_DER[..], public].concat();
        for key in [public, &der] {
            let keys = TokenKeys::new(vec![named("k1", &[7; 32]), named("k2", key)], None);
            assert_eq!(keys.read(&token, NOW).map(|claims| claims.subject.to_string()), Ok("ada".into()));
        }
        let keys = TokenKeys::new(vec![named("k1", public)], None);
        assert_eq!(words(keys.read(&token, NOW)), Err("this token's key is not known"));
        assert!(TokenKey::ed25519(None, &[7; 31]).is_err());
    }

    #[test]
    fn a_token_names_its_audience() {
        let keys = TokenKeys::new(vec![TokenKey::hs256(None, SECRET).expect("long enough")], Some("globe".into()));
        let read = |audience: Value| {
            let claims = json!({"sub": "ada", "exp": 1_800_000_060, "aud": audience});
            keys.read(&hs256(SECRET, json!({"alg": "HS256"}), claims), NOW).is_ok()
        };
        assert!(read(json!("globe")) && read(json!(["other", "globe"])));
        assert!(!read(json!("other")) && !read(json!(null)));
    }

    #[test]
    fn invalid_claims_are_refused() {
        for claims in [
            json!({"sub": "no id!", "exp": 1_800_000_060}),
            json!({"sub": "ada", "exp": 1_800_000_060, "role": "admin"}),
            json!({"sub": "ada", "exp": 1_800_000_060, "role": "root"}),
            json!({"sub": "ada", "exp": 1_800_000_060, "venue": []}),
            json!({"sub": "ada", "exp": "soon"}),
        ] {
            assert!(read(claims.clone()).is_err(), "{claims}");
        }
        assert!(TokenKey::hs256(None, b"too short").is_err());
    }
}

//! Keys, short-lived tokens and customers' tokens, valid and invalid.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use boxoffice_core::id::Id;
use boxoffice_wire::{access::ShownKey, customer};
use hmac::{Hmac, KeyInit, Mac};
use ring::{
    rand::SystemRandom,
    signature::{Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};
use sha2::Sha256;

use super::stage::Stage;
use crate::common::http;

/// Secret of HS256 tokens.
const SHARED: &str = "a secret of the shop with more than thirty-two bytes";

/// Secret of customers' tokens.
const CUSTOMERS: &str = "what the tokens of customers are made with";

/// Audience of short-lived tokens.
pub(crate) const AUDIENCE: &str = "boxoffice";

/// A shop that issues tokens.
pub(crate) struct Shop {
    pair: Ed25519KeyPair,
}

impl Shop {
    pub(crate) fn new() -> Shop {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("randomness");
        Shop { pair: Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("just made") }
    }

    fn public(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    /// The lines of `[listen]` that make a node accept this shop's tokens.
    pub(crate) fn listen(&self) -> String {
        let public = URL_SAFE_NO_PAD.encode(self.public());
        format!(
            "customer_secret = \"{CUSTOMERS}\"\ntoken_audience = \"{AUDIENCE}\"\ntoken_keys = [\n  \
             {{ id = \"shop\", algorithm = \"EdDSA\", key = \"{public}\" }},\n  \
             {{ algorithm = \"HS256\", key = \"{SHARED}\" }},\n]\n"
        )
    }

    /// A token with these claims, signed with EdDSA.
    pub(crate) fn eddsa(&self, claims: &Value) -> String {
        self.eddsa_called("shop", claims)
    }

    fn eddsa_called(&self, kid: &str, claims: &Value) -> String {
        let text = format!("{}.{}", part(&json!({"alg": "EdDSA", "kid": kid})), part(claims));
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(self.pair.sign(text.as_bytes())))
    }

    /// Invalid tokens, by their defect.
    pub(crate) fn bad(&self) -> Vec<(&'static str, String)> {
        let claims = good("ada", "sell");
        let with = |name: &str, value: Value| {
            let mut claims = claims.clone();
            claims[name] = value;
            claims
        };
        let without = |name: &str| {
            let mut claims = claims.clone();
            claims.as_object_mut().expect("a map").remove(name);
            claims
        };
        let signed = self.eddsa(&claims);
        let (head, signature) = signed.rsplit_once('.').expect("three parts");
        let (header, _) = head.split_once('.').expect("two parts");
        let staff = part(&with("role", json!("desk")));
        vec![
            ("expired", self.eddsa(&with("exp", json!(now() - 60)))),
            ("not valid yet", hs256(SHARED.as_bytes(), &json!({"alg": "HS256"}), &with("nbf", json!(now() + 600)))),
            ("for another audience", self.eddsa(&with("aud", json!("elsewhere")))),
            ("without an audience", self.eddsa(&without("aud"))),
            ("without an end", self.eddsa(&without("exp"))),
            ("without a subject", self.eddsa(&without("sub"))),
            ("for an admin", self.eddsa(&with("role", json!("admin")))),
            ("for an unknown role", self.eddsa(&with("role", json!(["sell", "root"])))),
            ("for no venue", self.eddsa(&with("venue", json!([])))),
            ("not signed", format!("{}.{}.", part(&json!({"alg": "none"})), part(&claims))),
            (
                "not signed, with a signature",
                format!("{}.{}.{signature}", part(&json!({"alg": "none"})), part(&claims)),
            ),
            ("from another shop", Shop::new().eddsa(&claims)),
            ("of an unknown key", self.eddsa_called("other", &claims)),
            ("signed with another secret", hs256(SHARED.to_uppercase().as_bytes(), &json!({"alg": "HS256"}), &claims)),
            ("signed with the public key", hs256(self.public(), &json!({"alg": "HS256", "kid": "shop"}), &claims)),
            ("with another algorithm", hs256(SHARED.as_bytes(), &json!({"alg": "HS384"}), &claims)),
            ("changed after signing", format!("{header}.{staff}.{signature}")),
            ("truncated", signed[..signed.len() - 4].to_owned()),
        ]
    }
}

/// A token with these claims, signed with the shared secret.
pub(crate) fn shared(claims: &Value) -> String {
    hs256(SHARED.as_bytes(), &json!({"alg": "HS256", "typ": "JWT"}), claims)
}

/// Claims that are valid for a few minutes.
pub(crate) fn good(subject: &str, role: &str) -> Value {
    json!({"sub": subject, "exp": now() + 600, "aud": AUDIENCE, "role": role})
}

/// A customer's token.
pub(crate) fn of_customer(name: &str) -> String {
    customer::token(CUSTOMERS.as_bytes(), &Id::new(name).expect("a good id"))
}

/// The header lines of a customer and its token.
pub(crate) fn shows_customer(name: &str, token: &str) -> String {
    format!("boxoffice-customer: {name}\r\nboxoffice-customer-token: {token}\r\n")
}

/// Creates a key with this role on the node.
pub(crate) async fn key(stage: &Stage, name: &str, role: &str) -> String {
    key_with(stage, name, json!({"roles": [role]})).await
}

/// Creates a key with these terms on the node.
pub(crate) async fn key_with(stage: &Stage, name: &str, terms: Value) -> String {
    let secret = format!("{name:x<43}");
    let shown = ShownKey { name, secret: &secret };
    let hash: String = shown.hash().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut body = terms;
    (body["id"], body["hash"]) = (name.into(), hash.into());
    http::ask(stage.server.operators(), "admin.key_create", Some(&format!("key-{name}")), &body).await.ok();
    shown.written()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn hs256(secret: &[u8], header: &Value, claims: &Value) -> String {
    let text = format!("{}.{}", part(header), part(claims));
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

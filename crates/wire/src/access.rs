//! Access keys: their text, and the list of them.
//!
//! The maker of a key draws its secret and gives the cluster only the hash. So the secret is in no log and in no answer.

use boxoffice_core::{
    access::{AccessKey, KEY_HASH_BYTES, Role},
    id::Id,
    time::Timestamp,
};
use sha2::{Digest, Sha256};
use smol_str::SmolStr;

use crate::repr::shape::{Each, named, shapes};

named! {
    /// A role of a key.
    pub(crate) struct RoleName as Role = Role::ALL.map(Role::name);
}

/// The beginning of every key, and of no other token.
const PREFIX: &str = "bok.";

/// The minimum of characters of a secret. 32 random bytes are 43 characters in base64.
pub const KEY_SECRET_MIN: usize = 32;

/// The most characters of a secret.
const KEY_SECRET_MAX: usize = 128;

/// A key as its owner shows it, `bok.NAME.SECRET`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownKey<'a> {
    pub name: &'a str,
    /// The secret: letters, digits, `-` and `_`.
    pub secret: &'a str,
}

impl<'a> ShownKey<'a> {
    /// The key in this text. `None` if the text is not a key.
    pub fn read(text: &'a str) -> Option<ShownKey<'a>> {
        let (name, secret) = text.strip_prefix(PREFIX)?.rsplit_once('.')?;
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let is_secret = (KEY_SECRET_MIN..=KEY_SECRET_MAX).contains(&secret.len()) && secret.bytes().all(is_fit);
        is_secret.then_some(ShownKey { name, secret })
    }

    /// The text of the key.
    pub fn written(&self) -> String {
        format!("{PREFIX}{}.{}", self.name, self.secret)
    }

    /// The hash that the cluster keeps.
    pub fn hash(&self) -> [u8; KEY_HASH_BYTES] {
        Sha256::digest(self.secret.as_bytes()).into()
    }
}

shapes! {
    #[derive(Eq)]
    pub struct KeyList as Keys {
        pub keys: Vec<KeyStatus>,
    }

    /// A key without its secret.
    #[derive(Eq)]
    pub struct KeyStatus as Key {
        pub id: Id,
        /// The roles, without those that others of them include.
        pub roles: Vec<SmolStr> = Each(RoleName),
        /// The venues that the key is limited to. All if empty.
        pub venues?: Vec<Id>,
        /// The maximum of requests a second on one node.
        pub requests_per_second?: Option<u32>,
        /// The maximum that its carts hold at the same time on one node.
        pub held_max?: Option<u32>,
        pub created_at: Timestamp,
    }
}

impl From<&[(Id, AccessKey)]> for KeyList {
    fn from(keys: &[(Id, AccessKey)]) -> KeyList {
        KeyList { keys: keys.iter().map(|(id, key)| KeyStatus::of(id, key)).collect() }
    }
}

impl KeyStatus {
    fn of(id: &Id, AccessKey { terms, created_at }: &AccessKey) -> KeyStatus {
        KeyStatus {
            id: id.clone(),
            roles: terms.roles.names().map(SmolStr::new_static).collect(),
            venues: terms.venues.clone(),
            requests_per_second: terms.requests_per_second,
            held_max: terms.held_max,
            created_at: *created_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ShownKey;

    #[test]
    fn a_key_is_shown_and_read() {
        let key = ShownKey { name: "till.3", secret: "0123456789abcdefghijABCDEFGHIJ-_0123456789x" };
        let text = key.written();
        assert_eq!(ShownKey::read(&text), Some(key));
        assert_eq!(text, "bok.till.3.0123456789abcdefghijABCDEFGHIJ-_0123456789x");
    }

    #[test]
    fn other_texts_are_not_keys() {
        let long = "x".repeat(129);
        let texts = ["", "bok.", "bok.a.", "bok.a.short", "open sesame, please", &format!("bok.a.{long}"), "bok.a"];
        for text in texts.into_iter().chain(["bok.a.0123456789abcdefghijABCDEFGHI J-_0123456789x"]) {
            assert_eq!(ShownKey::read(text), None, "{text}");
        }
    }
}

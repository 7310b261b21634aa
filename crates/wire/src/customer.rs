//! Tokens of customers. They are made with the node's secret. A caller with a customer's token acts for that customer.

use boxoffice_core::id::Id;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::mac;

/// The header with the customer of an HTTP request or an upgrade.
pub const CUSTOMER_HEADER: &str = "boxoffice-customer";

/// The header with that customer's token.
pub const TOKEN_HEADER: &str = "boxoffice-customer-token";

/// The shortest secret, in bytes. Every customer has a token to test guesses with, so a shorter one could be guessed.
pub const SECRET_BYTES_MIN: usize = 16;

/// Digits of a token.
pub const TOKEN_DIGITS: usize = 2 * mac::MAC_BYTES;

/// The token of a customer: HMAC-SHA256 of the id under the secret, in lowercase hexadecimal digits.
pub fn token(secret: &[u8], customer: &Id) -> String {
    mac::written(&mac_of(secret, customer).finalize().into_bytes().into()).into()
}

/// Whether this is the customer's token. Compares in constant time, so that the time tells nothing about a guess.
pub fn is_token(secret: &[u8], customer: &Id, token: &str) -> bool {
    mac::read(token).is_some_and(|bytes| mac_of(secret, customer).verify_slice(&bytes).is_ok())
}

fn mac_of(secret: &[u8], customer: &Id) -> Hmac<Sha256> {
    mac::of(secret, &[customer.as_str().as_bytes()])
}

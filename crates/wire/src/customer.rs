//! Tokens of customers. They are made with the node's secret. A caller with a customer's token acts for that customer.

use boxoffice_core::id::Id;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The header with the customer of an HTTP request or an upgrade.
pub const CUSTOMER_HEADER: &str = "boxoffice-customer";

/// The header with that customer's token.
pub const TOKEN_HEADER: &str = "boxoffice-customer-token";

/// The shortest secret, in bytes. Every customer has a token to test guesses with, so a shorter one could be guessed.
pub const SECRET_BYTES_MIN: usize = 16;

/// Digits of a token.
pub const TOKEN_DIGITS: usize = 64;

/// The token of a customer: HMAC-SHA256 of the id under the secret, in lowercase hexadecimal digits.
pub fn token(secret: &[u8], customer: &Id) -> String {
    use std::fmt::Write;
    let mut token = String::with_capacity(TOKEN_DIGITS);
    for byte in mac(secret, customer).finalize().into_bytes() {
        write!(token, "{byte:02x}").expect("text takes text");
    }
    token
}

/// Whether this is the customer's token. Compares in constant time, so that the time tells nothing about a guess.
pub fn is_token(secret: &[u8], customer: &Id, token: &str) -> bool {
    bytes(token).is_some_and(|bytes| mac(secret, customer).verify_slice(&bytes).is_ok())
}

fn mac(secret: &[u8], customer: &Id) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(customer.as_str().as_bytes());
    mac
}

fn bytes(token: &str) -> Option<[u8; TOKEN_DIGITS / 2]> {
    let digits: &[u8; TOKEN_DIGITS] = token.as_bytes().try_into().ok()?;
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; TOKEN_DIGITS / 2];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? * 16 + value(pair[1])?;
    }
    Some(bytes)
}

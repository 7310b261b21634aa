//! HMAC-SHA256 under a secret, and the text of 256 bits.

use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use smol_str::{SmolStr, SmolStrBuilder};

/// Bytes of a MAC.
pub(crate) const MAC_BYTES: usize = 32;

/// The pattern of 64 lowercase hexadecimal digits.
pub(crate) const HEX_256: &str = "^[0-9a-f]{64}$";

/// The MAC of these parts, one after the other.
pub(crate) fn of(secret: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac
}

/// The text of a MAC, in lowercase hexadecimal digits.
pub fn written(mac: &[u8; MAC_BYTES]) -> SmolStr {
    let mut text = SmolStrBuilder::new();
    for byte in mac {
        write!(text, "{byte:02x}").expect("text takes text");
    }
    text.finish()
}

/// The MAC with this text.
pub fn read(text: &str) -> Option<[u8; MAC_BYTES]> {
    let digits: &[u8; 2 * MAC_BYTES] = text.as_bytes().try_into().ok()?;
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut mac = [0; MAC_BYTES];
    for (byte, pair) in mac.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? * 16 + value(pair[1])?;
    }
    Some(mac)
}

//! Secrets: how they are drawn, and which texts can be shown as one.

use rand::{TryRngCore, rngs::OsRng};

use crate::failure::Failure;

/// Random bytes of a secret.
pub const SECRET_BYTES: usize = 32;

/// The random bytes of a secret.
///
/// # Errors
/// The system has no randomness.
pub fn bytes() -> Result<[u8; SECRET_BYTES], Failure> {
    let mut bytes = [0; SECRET_BYTES];
    OsRng.try_fill_bytes(&mut bytes).map_err(|error| Failure::Node(format!("no randomness: {error}")))?;
    Ok(bytes)
}

/// A secret in 64 hexadecimal digits.
///
/// # Errors
/// As [`bytes`].
pub fn hex() -> Result<String, Failure> {
    Ok(bytes()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether a text can be shown in a header: visible ASCII characters only.
pub fn is_fit_for_a_header(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

//! Request ids: a random prefix per client and a number per request.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::{TryRngCore, rngs::OsRng};
use smol_str::{SmolStr, format_smolstr};

/// Makes request ids that are unique among all clients.
#[derive(Debug)]
pub(crate) struct RequestIds {
    prefix: SmolStr,
    next: AtomicU64,
}

/// Characters of the prefix, 5 bits each: 60 bits.
const PREFIX_CHARS: usize = 12;

impl RequestIds {
    pub(crate) fn new() -> RequestIds {
        const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let bits = random_u64();
        let prefix = (0..PREFIX_CHARS).map(|index| char::from(DIGITS[(bits >> (index * 5)) as usize & 31])).collect();
        RequestIds { prefix, next: AtomicU64::new(1) }
    }

    /// A new request id. The first 10⁹ ids are short enough to be stored inline, without an allocation.
    pub(crate) fn next(&self) -> SmolStr {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format_smolstr!("{}-{number}", self.prefix)
    }
}

/// 64 unpredictable bits from the operating system.
///
/// # Panics
/// If the operating system gives none. Without them a token would not be a secret.
pub(crate) fn random_u64() -> u64 {
    OsRng.try_next_u64().expect("the operating system gives random bits")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn request_ids_are_unique_and_printable() {
        let (one, other) = (RequestIds::new(), RequestIds::new());
        let ids: BTreeSet<SmolStr> = (0..1_000).flat_map(|_| [one.next(), other.next()]).collect();
        assert_eq!(ids.len(), 2_000);
        assert!(ids.iter().all(|id| id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_graphic())));
    }
}

//! Proofs of a joining machine that it knows the secret of the cluster's nodes.
//!
//! The client port asks for the proof besides the operators' token. A machine with another secret would become a member
//! that no node talks to.

use boxoffice_core::command::{Machine, PROOF_BYTES};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use smol_str::{SmolStr, format_smolstr};

/// The secret of nodes on loopback that have no secret of their own. It is public.
pub const ON_LOOPBACK: &str = "nobody but this machine";

/// The beginning of such a token.
const TOKEN_PREFIX: &str = "boj.";

/// The proof of a machine that wants to be member `node` of `cluster`: HMAC-SHA256 under the secret, over everything in its
/// request. A repeat of it can only repeat the request.
pub fn proof(secret: &[u8], cluster: &str, node: Option<u64>, machine: &Machine) -> [u8; PROOF_BYTES] {
    mac(secret, cluster, node, machine).finalize().into_bytes().into()
}

/// Whether this was made with the secret. Compares in constant time.
pub fn is_proof(secret: &[u8], cluster: &str, node: Option<u64>, machine: &Machine, shown: &[u8]) -> bool {
    mac(secret, cluster, node, machine).verify_slice(shown).is_ok()
}

/// The token of a machine that asks which cluster this is, before it joins.
pub fn token(secret: &[u8]) -> SmolStr {
    format_smolstr!("{TOKEN_PREFIX}{}", written(&token_mac(secret).finalize().into_bytes().into()))
}

/// Whether this was made with the secret. Compares in constant time.
pub fn is_token(secret: &[u8], token: &str) -> bool {
    let shown = token.strip_prefix(TOKEN_PREFIX).and_then(read);
    shown.is_some_and(|shown| token_mac(secret).verify_slice(&shown).is_ok())
}

fn token_mac(secret: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(b"boxoffice joins");
    mac
}

/// The pattern of 64 lowercase hexadecimal digits.
pub(crate) const HEX_256: &str = "^[0-9a-f]{64}$";

/// The text of a proof, in lowercase hexadecimal digits.
pub fn written(proof: &[u8; PROOF_BYTES]) -> SmolStr {
    proof.iter().fold(SmolStr::default(), |text, byte| format_smolstr!("{text}{byte:02x}"))
}

/// The proof with this text.
pub fn read(text: &str) -> Option<[u8; PROOF_BYTES]> {
    let digits: &[u8; 2 * PROOF_BYTES] = text.as_bytes().try_into().ok()?;
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut proof = [0; PROOF_BYTES];
    for (byte, pair) in proof.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? * 16 + value(pair[1])?;
    }
    Some(proof)
}

fn mac(secret: &[u8], cluster: &str, node: Option<u64>, machine: &Machine) -> Hmac<Sha256> {
    let Machine { disk, peer, client, program } = machine;
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(b"boxoffice join: ");
    mac.update(&node.unwrap_or_default().to_be_bytes());
    mac.update(&disk.to_be_bytes());
    for text in [cluster, peer, client, program] {
        mac.update(&(text.len() as u64).to_be_bytes());
        mac.update(text.as_bytes());
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_for_one_machine_of_one_cluster_under_one_secret() {
        let machine = Machine { disk: 7, peer: "a:1".into(), client: "a:2".into(), program: "0.1.0".into() };
        let shown = proof(b"one secret", "c1", Some(2), &machine);
        assert!(is_proof(b"one secret", "c1", Some(2), &machine, &shown));
        assert!(!is_proof(b"another", "c1", Some(2), &machine, &shown));
        assert!(!is_proof(b"one secret", "c2", Some(2), &machine, &shown));
        assert!(!is_proof(b"one secret", "c1", None, &machine, &shown));
        assert!(!is_proof(b"one secret", "c1", Some(2), &Machine { disk: 8, ..machine.clone() }, &shown));
        let moved = Machine { peer: "a".into(), client: ":1a:2".into(), ..machine.clone() };
        assert!(!is_proof(b"one secret", "c1", Some(2), &moved, &shown));
        assert!(!is_proof(b"one secret", "c1", Some(2), &machine, &shown[..31]));
        assert_eq!(read(&written(&shown)), Some(shown));
        for bad in ["", "0", &written(&shown)[1..], &written(&shown).to_uppercase(), &"g".repeat(64)] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}

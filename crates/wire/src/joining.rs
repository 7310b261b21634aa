//! Proofs of a joining machine that it knows the secret of the cluster's nodes.
//!
//! The client port asks for the proof besides the operators' token. A machine with another secret would become a member
//! that no node talks to.

use boxoffice_core::command::{INVITATION_HASH_BYTES, Machine, PROOF_BYTES};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use smol_str::{SmolStr, format_smolstr};

use crate::mac;
pub use crate::mac::{read, written};

/// The beginning of such a token.
const TOKEN_PREFIX: &str = "boj.";

/// Random bytes of an invitation.
pub const INVITATION_BYTES: usize = 32;

/// The hash of an invitation, which the cluster keeps.
pub fn invitation_hash(invitation: &[u8; INVITATION_BYTES]) -> [u8; INVITATION_HASH_BYTES] {
    Sha256::digest(invitation).into()
}

/// The proof of a machine that wants to be member `node` of `cluster`: HMAC-SHA256 under the secret, over everything in its
/// request. A repeat of it can only repeat the request.
pub fn proof(secret: &[u8], cluster: &str, node: Option<u64>, machine: &Machine) -> [u8; PROOF_BYTES] {
    mac_of(secret, cluster, node, machine).finalize().into_bytes().into()
}

/// The proof that such a machine knows the admin token of the node that it asks, made in the same way. So the token is shown
/// to nobody who answers at a wrong address.
pub fn admin_proof(admin_token: &[u8], cluster: &str, node: Option<u64>, machine: &Machine) -> [u8; PROOF_BYTES] {
    admin_mac(admin_token, cluster, node, machine).finalize().into_bytes().into()
}

/// The proof of a machine that wants to replace the damaged data directory `disk` of member `node` by a new one. It is made like
/// [`proof`], and shows besides that the machine has the damaged directory.
pub fn renewal_proof(secret: &[u8], cluster: &str, node: u64, machine: &Machine, disk: u128) -> [u8; PROOF_BYTES] {
    renewal_mac(secret, cluster, node, machine, disk).finalize().into_bytes().into()
}

/// Whether this is such a proof. Compares in constant time.
pub fn is_renewal_proof(
    secret: &[u8],
    cluster: &str,
    node: u64,
    machine: &Machine,
    disk: u128,
    shown: &[u8; PROOF_BYTES],
) -> bool {
    renewal_mac(secret, cluster, node, machine, disk).verify_slice(shown).is_ok()
}

/// Whether this was made with the admin token. Compares in constant time.
pub fn is_admin_proof(
    admin_token: &[u8],
    cluster: &str,
    node: Option<u64>,
    machine: &Machine,
    shown: &[u8; PROOF_BYTES],
) -> bool {
    admin_mac(admin_token, cluster, node, machine).verify_slice(shown).is_ok()
}

/// Whether this was made with the secret. Compares in constant time.
pub fn is_proof(secret: &[u8], cluster: &str, node: Option<u64>, machine: &Machine, shown: &[u8]) -> bool {
    mac_of(secret, cluster, node, machine).verify_slice(shown).is_ok()
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
    mac::of(secret, &[b"boxoffice joins"])
}

fn mac_of(secret: &[u8], cluster: &str, node: Option<u64>, machine: &Machine) -> Hmac<Sha256> {
    over(secret, b"boxoffice join: ", cluster, node, machine)
}

fn admin_mac(admin_token: &[u8], cluster: &str, node: Option<u64>, machine: &Machine) -> Hmac<Sha256> {
    over(admin_token, b"boxoffice join, vouched: ", cluster, node, machine)
}

fn renewal_mac(secret: &[u8], cluster: &str, node: u64, machine: &Machine, disk: u128) -> Hmac<Sha256> {
    let mut mac = over(secret, b"boxoffice renewal: ", cluster, Some(node), machine);
    mac.update(&disk.to_be_bytes());
    mac
}

fn over(secret: &[u8], what: &[u8], cluster: &str, node: Option<u64>, machine: &Machine) -> Hmac<Sha256> {
    let Machine { disk, peer, client, program, versions: _ } = machine;
    let (node, disk) = (node.unwrap_or_default().to_be_bytes(), disk.to_be_bytes());
    let mut mac = mac::of(secret, &[what, &node, &disk]);
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
        let machine =
            Machine { disk: 7, peer: "a:1".into(), client: "a:2".into(), program: "0.1.0".into(), versions: None };
        let shown = proof(b"one secret", "c1", Some(2), &machine);
        assert!(is_proof(b"one secret", "c1", Some(2), &machine, &shown));
        assert!(!is_proof(b"another", "c1", Some(2), &machine, &shown));
        assert!(!is_proof(b"one secret", "c2", Some(2), &machine, &shown));
        assert!(!is_proof(b"one secret", "c1", None, &machine, &shown));
        assert!(!is_proof(b"one secret", "c1", Some(2), &Machine { disk: 8, ..machine.clone() }, &shown));
        let renewal = renewal_proof(b"one secret", "c1", 2, &machine, 6);
        assert!(is_renewal_proof(b"one secret", "c1", 2, &machine, 6, &renewal));
        assert!(!is_renewal_proof(b"one secret", "c1", 2, &machine, 7, &renewal), "another directory");
        assert!(!is_renewal_proof(b"another", "c1", 2, &machine, 6, &renewal));
        assert!(!is_renewal_proof(b"one secret", "c1", 2, &machine, 6, &shown), "another kind of proof");
        assert!(!is_proof(b"one secret", "c1", Some(2), &machine, &renewal), "another kind of proof");
        let vouched = admin_proof(b"one secret", "c1", Some(2), &machine);
        assert!(is_admin_proof(b"one secret", "c1", Some(2), &machine, &vouched));
        assert!(!is_admin_proof(b"one secret", "c1", Some(2), &machine, &shown), "another kind of proof");
        assert!(!is_admin_proof(b"another", "c1", Some(2), &machine, &vouched));
        let moved = Machine { peer: "a".into(), client: ":1a:2".into(), ..machine.clone() };
        assert!(!is_proof(b"one secret", "c1", Some(2), &moved, &shown));
        assert!(!is_proof(b"one secret", "c1", Some(2), &machine, &shown[..31]));
        assert_eq!(read(&written(&shown)), Some(shown));
        for bad in ["", "0", &written(&shown)[1..], &written(&shown).to_uppercase(), &"g".repeat(64)] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}

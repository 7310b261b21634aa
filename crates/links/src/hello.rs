//! The hellos of a new connection, and the proofs that both sides know the cluster's secret.
//!
//! ```text
//! dialer    Hello    magic, version, nonce, its identity, the node it dials, the kind of the connection
//! acceptor  Hello    the same of itself
//! dialer    Proof    HMAC-SHA256 under the secret, over its side's name and both hellos
//! acceptor  Welcome  the same, with its own side's name
//! ```
//!
//! Either side may send `Refusal` instead, with the reason. After the dialer's proof the acceptor may send `Removed`, a permanent
//! refusal. It has the reason and an HMAC over all of it, because the dialer then ends.
//!
//! Each hello has 32 random bytes, so a proof is valid for one connection. The proof covers both hellos, so none can be
//! changed on the way, and the secret never travels.

use boxoffice_core::packing;
use boxoffice_env::{DurablePosition, Local, NodeId, PeerHello, Rng, secret::Secret};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use smol_str::SmolStr;

use super::queues::LinkKind;

/// The version of hellos and frames, and of the placement, because nodes with different placements must not form a
/// cluster.
pub(super) const VERSION: u16 = 5;

/// The beginning of every hello of every version. The version (u16 LE) follows.
const MAGIC: &[u8; 8] = b"boxoffic";

/// Bytes of a proof.
pub(super) const PROOF_BYTES: usize = 32;

/// The first frame of each side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Random, so that a proof is valid once.
    pub(super) nonce: [u8; 32],
    pub(super) cluster: u128,
    pub(super) node: NodeId,
    pub(super) disk: u128,
    /// A random number of the process. It changes with a restart.
    pub(super) incarnation: u64,
    /// The receiver.
    pub(super) to: NodeId,
    /// [`LinkKind::index`] of the connection.
    link_kind: u8,
    pub(super) program: SmolStr,
    /// The version of its copy of the cluster's table.
    table: u64,
    durable_position: DurablePosition,
}

/// A hello is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadHello {
    #[error("this is no hello of a node")]
    Foreign,
    #[error("versions {0} and {VERSION} of the link's protocol do not go together; run the same release on all nodes")]
    Version(u16),
    #[error("a hello cannot be read: {0}")]
    Malformed(String),
}

impl Hello {
    /// This node's hello to the node `to`.
    pub(super) fn new(
        (local, incarnation): (&Local, u64),
        (table, durable_position): (u64, DurablePosition),
        (to, link_kind): (NodeId, LinkKind),
        rng: &dyn Rng,
    ) -> Hello {
        let mut nonce = [0; 32];
        rng.fill(&mut nonce);
        let index = u8::try_from(link_kind.index()).expect("there are two bad_kind");
        Hello {
            nonce,
            cluster: local.cluster,
            node: local.node,
            disk: local.disk,
            incarnation,
            to,
            link_kind: index,
            program: SmolStr::new_static(concat!("boxoffice ", env!("CARGO_PKG_VERSION"))),
            table,
            durable_position,
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        packing::append(self, bytes)
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Hello, BadHello> {
        let (head, peer_hello) = bytes.split_at_checked(MAGIC.len() + 2).ok_or(BadHello::Foreign)?;
        let (magic, version) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(BadHello::Foreign);
        }
        let version = u16::from_le_bytes([version[0], version[1]]);
        if version != VERSION {
            return Err(BadHello::Version(version));
        }
        let hello: Hello = packing::read(peer_hello).map_err(BadHello::Malformed)?;
        match LinkKind::from_index(hello.link_kind) {
            Some(_) => Ok(hello),
            None => Err(BadHello::Malformed("it is for no connection there is".into())),
        }
    }

    pub(super) fn link_kind(&self) -> LinkKind {
        LinkKind::from_index(self.link_kind).expect("checked when it was read")
    }

    /// The claims that the node decides about.
    pub(super) fn peer_hello(&self) -> PeerHello {
        let program = printable(self.program.as_bytes()).into();
        PeerHello {
            cluster: self.cluster,
            node: self.node,
            disk: self.disk,
            version: VERSION,
            program,
            table: self.table,
            durable_position: self.durable_position,
        }
    }
}

/// A side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Dialer,
    Acceptor,
}

/// Both hellos of a connection, as they were sent.
pub(super) struct Transcript<'a> {
    pub(super) secret: &'a Secret,
    pub(super) dialer: &'a [u8],
    pub(super) acceptor: &'a [u8],
}

impl Transcript<'_> {
    /// The proof of `side`.
    pub(super) fn proof(&self, side: Side) -> [u8; PROOF_BYTES] {
        self.mac(side).finalize().into_bytes().into()
    }

    /// Whether `side` has proved that it knows the secret, compared in constant time.
    pub(super) fn is_proof(&self, side: Side, shown: &[u8]) -> bool {
        self.mac(side).verify_slice(shown).is_ok()
    }

    /// The acceptor's proof with the reason of a removal.
    pub(super) fn removal_proof(&self, reason: &str) -> [u8; PROOF_BYTES] {
        self.removal_mac(reason.as_bytes()).finalize().into_bytes().into()
    }

    /// Whether the acceptor has proved that it sent this reason, compared in constant time.
    pub(super) fn is_removal_proof(&self, reason: &[u8], shown: &[u8]) -> bool {
        self.removal_mac(reason).verify_slice(shown).is_ok()
    }

    fn removal_mac(&self, reason: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.over(b"boxoffice link, dismissal: ");
        mac.update(reason);
        mac
    }

    fn mac(&self, side: Side) -> Hmac<Sha256> {
        self.over(match side {
            Side::Dialer => b"boxoffice link, dialer: ",
            Side::Acceptor => b"boxoffice link, answerer: ",
        })
    }

    fn over(&self, what: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.as_ref()).expect("HMAC takes keys of any length");
        mac.update(what);
        for hello in [self.dialer, self.acceptor] {
            mac.update(&(hello.len() as u64).to_le_bytes());
            mac.update(hello);
        }
        mac
    }
}

const PRINTABLE_CHARS_MAX: usize = 400;

/// A text of an unknown sender for the log, shortened and without control characters.
pub(super) fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().take(PRINTABLE_CHARS_MAX).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use boxoffice_env::OsRng;

    fn hello(node: NodeId, to: NodeId) -> Hello {
        Hello::new(
            (&Local { cluster: 7, node, disk: 8 }, 9),
            (3, DurablePosition::default()),
            (to, LinkKind::Common),
            &OsRng,
        )
    }

    #[test]
    fn a_proof_is_for_one_side_of_one_pair_of_hellos_under_one_secret() {
        let (secret, other) = (Secret("sixteen letters!".into()), Secret("sixteen letters?".into()));
        let (one, two, three) = (hello(1, 2).bytes(), hello(2, 1).bytes(), hello(2, 1).bytes());
        let transcript = Transcript { secret: &secret, dialer: &one, acceptor: &two };
        let proof = transcript.proof(Side::Dialer);
        assert!(transcript.is_proof(Side::Dialer, &proof));
        assert!(!transcript.is_proof(Side::Acceptor, &proof));
        assert!(!transcript.is_proof(Side::Dialer, &proof[..31]));
        assert!(!transcript.is_proof(Side::Dialer, b""));
        let removal_proof = transcript.removal_proof("removed");
        assert!(transcript.is_removal_proof(b"removed", &removal_proof));
        assert!(!transcript.is_removal_proof(b"removed!", &removal_proof));
        assert!(!transcript.is_removal_proof(b"", &transcript.proof(Side::Acceptor)));
        assert!(!Transcript { secret: &other, ..transcript }.is_removal_proof(b"removed", &removal_proof));
        assert!(!Transcript { secret: &other, ..transcript }.is_proof(Side::Dialer, &proof));
        assert!(!Transcript { secret: &secret, dialer: &one, acceptor: &three }.is_proof(Side::Dialer, &proof));
        assert!(!Transcript { secret: &secret, dialer: &two, acceptor: &one }.is_proof(Side::Dialer, &proof));
    }

    #[test]
    fn hellos_round_trip() {
        let peer_hello = hello(3, 4);
        assert_eq!(Hello::read(&peer_hello.bytes()), Ok(peer_hello.clone()));
        let mut later = peer_hello.bytes();
        later[8] += 1;
        assert_eq!(Hello::read(&later), Err(BadHello::Version(VERSION + 1)));
        assert_eq!(Hello::read(b"GET / HTTP/1.1\r\n"), Err(BadHello::Foreign));
        assert_eq!(Hello::read(b"box"), Err(BadHello::Foreign));
        let bad_kind = Hello { link_kind: 2, ..peer_hello };
        assert!(matches!(Hello::read(&bad_kind.bytes()), Err(BadHello::Malformed(_))));
        assert_eq!(printable("a\nb\u{1b}[31mc".as_bytes()), "a b [31mc");
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(bytes in vec(any::<u8>(), 0..200), headed: bool) {
            let bytes = if headed { [&hello(1, 2).bytes()[..10], &bytes].concat() } else { bytes };
            if let Ok(hello) = Hello::read(&bytes) {
                let _ = hello.peer_hello();
            }
        }
    }
}

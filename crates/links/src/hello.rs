//! What the two sides of a new connection say first, and how each proves that it knows the cluster's secret.
//!
//! ```text
//! dialer    Hello    magic, version, nonce, who it is, whom it dials, for which road
//! answerer  Hello    the same of itself
//! dialer    Proof    HMAC-SHA256 under the secret, over its side's name and both hellos
//! answerer  Welcome  the same, with its own side's name
//! ```
//! Either may say `Refusal` instead, with the reason in words; and the answerer, when the dialer has proved who it is,
//! `Removed`: that it will never deal with it again, with the reason and an HMAC over all of it, for the dialer then ends.
//! The hellos have 32 random bytes each, so a proof is good for one
//! connection, and it covers everything that was said: the secret never travels, and no hello can be changed on the way.

use boxoffice_core::packing;
use boxoffice_env::{DurablePosition, Local, NodeId, PeerHello, Rng, secret::Secret};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use smol_str::SmolStr;

use super::queues::LinkKind;

/// The version of what is said on a link, hellos and frames, and of the placement: nodes that look for an entity in
/// different shards must not form a cluster.
pub(super) const VERSION: u16 = 5;

/// What every hello of every version begins with, followed by the version (u16 LE).
const MAGIC: &[u8; 8] = b"boxoffic";

/// Bytes of a proof.
pub(super) const PROOF_BYTES: usize = 32;

/// The first words of a side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Random, so that no proof is good twice.
    pub(super) nonce: [u8; 32],
    pub(super) cluster: u128,
    pub(super) node: NodeId,
    pub(super) disk: u128,
    /// Drawn when its process began: tells a restarted node from the one before.
    pub(super) incarnation: u64,
    /// To whom it is said.
    pub(super) to: NodeId,
    /// [`LinkKind::index`] of the connection.
    link_kind: u8,
    pub(super) program: SmolStr,
    /// How new its copy of the cluster's table is.
    table: u64,
    /// How far its disk is.
    durable_position: DurablePosition,
}

/// What cannot be a hello of ours.
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
    /// What this node says to `to`.
    pub(super) fn new(
        (local, incarnation): (&Local, u64),
        (table, durable_position): (u64, DurablePosition),
        (to, link_kind): (NodeId, LinkKind),
        rng: &dyn Rng,
    ) -> Hello {
        let mut nonce = [0; 32];
        rng.fill(&mut nonce);
        let index = u8::try_from(link_kind.index()).expect("there are two roads");
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

    /// What the node is told to judge.
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

/// Which side of a connection proves something.
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
    /// What `side` shows.
    pub(super) fn proof(&self, side: Side) -> [u8; PROOF_BYTES] {
        self.mac(side).finalize().into_bytes().into()
    }

    /// Whether `side` has shown it knows the secret; compared in constant time.
    pub(super) fn is_proof(&self, side: Side, shown: &[u8]) -> bool {
        self.mac(side).verify_slice(shown).is_ok()
    }

    /// What the answerer shows with the words by which it dismisses the dialer.
    pub(super) fn removal_proof(&self, reason: &str) -> [u8; PROOF_BYTES] {
        self.removal_mac(reason.as_bytes()).finalize().into_bytes().into()
    }

    /// Whether the answerer has shown that these words are its own; compared in constant time.
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

/// The most that is taken of a stranger's words, in characters.
const PRINTABLE_CHARS_MAX: usize = 400;

/// A stranger's words as they may stand in a log: without control characters, and not too many.
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
    fn hellos_are_read_as_they_were_said() {
        let peer_hello = hello(3, 4);
        assert_eq!(Hello::read(&peer_hello.bytes()), Ok(peer_hello.clone()));
        let mut later = peer_hello.bytes();
        later[8] += 1;
        assert_eq!(Hello::read(&later), Err(BadHello::Version(VERSION + 1)));
        assert_eq!(Hello::read(b"GET / HTTP/1.1\r\n"), Err(BadHello::Foreign));
        assert_eq!(Hello::read(b"box"), Err(BadHello::Foreign));
        let roads = Hello { link_kind: 2, ..peer_hello };
        assert!(matches!(Hello::read(&roads.bytes()), Err(BadHello::Malformed(_))));
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

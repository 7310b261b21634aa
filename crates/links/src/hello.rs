//! The messages of a handshake.
//!
//! ```text
//! dialer    Hello      magic, version, nonce, the kind of the connection
//! acceptor  Hello      magic, version, nonce, the same kind
//! dialer    Proof      for each of its secrets: an HMAC-SHA256 and its sealed claims
//! acceptor  Welcome    under the secret that matched: an HMAC-SHA256 and its sealed claims
//! dialer    Heartbeat  it takes the acceptor's claims as well, and data may follow at once
//! ```
//!
//! A hello says nothing of a node but the version of its protocol. The claims, which are the identity of a node and the state that
//! the other one decides about, are sealed under a key that both derive from a secret and both hellos. `proof` makes and checks
//! what stands in `Proof` and `Welcome`.
//!
//! - A stranger that dials learns nothing without a secret, because the acceptor sends its claims after the dialer's proof.
//! - A stranger at the address of a member learns that a node of this version dialed, and for which kind of connection. It also has
//!   an HMAC by which it can try guesses of the secret, hence [`CLUSTER_SECRET_BYTES_MIN`]. With certificates it gets no hello at
//!   all. Without them it could pass all bytes on to the member and read the frames that follow, so the network between nodes must
//!   be trusted then.
//! - With certificates a stranger sees the acceptor's, and so the number in its name. TLS shows the certificate of the accepting side
//!   first.
//!
//! Either side may send `Refusal` instead, with a reason. It is in general words until the other side has proved that it knows a
//! secret, and then names both nodes. After the dialer's proof the acceptor may send `Removed`, a permanent refusal. It has the
//! reason and an HMAC over all of it, because the dialer then ends.
//!
//! [`CLUSTER_SECRET_BYTES_MIN`]: super::config::CLUSTER_SECRET_BYTES_MIN

use boxoffice_core::{
    stored::{self, Stored},
    version::{LINK, LINK_OLDEST, NodeVersions},
};
use boxoffice_env::{DurablePosition, Local, NodeId, PeerHello, Rng};
use smol_str::SmolStr;

use super::queues::LinkKind;

/// The beginning of every hello of every version. The newest and the oldest version that the sender speaks follow (u16 LE each), and
/// behind what this program knows there may be more. Both sides speak the newest version that both know.
const MAGIC: &[u8; 8] = b"boxoffic";

const NONCE_BYTES: usize = 32;

/// The longest claims, in bytes.
pub(super) const CLAIMS_BYTES_MAX: usize = 256;

/// The first frame of each side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    /// Random, so that a proof is valid once.
    nonce: [u8; NONCE_BYTES],
    pub(super) link_kind: LinkKind,
}

/// A hello, or what follows it, is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadHello {
    #[error("this is no hello of a node")]
    Foreign,
    #[error(
        "it speaks versions {oldest} to {newest} of the link's protocol, and this node {LINK_OLDEST} to {LINK}: the releases are too \
         far apart, so upgrade to one between them first"
    )]
    Version { oldest: u16, newest: u16 },
    #[error("a hello cannot be read: {0}")]
    Malformed(String),
}

impl Hello {
    pub(super) fn new(link_kind: LinkKind, rng: &dyn Rng) -> Hello {
        let mut nonce = [0; NONCE_BYTES];
        rng.fill(&mut nonce);
        Hello { nonce, link_kind }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let index = u8::try_from(self.link_kind.index()).expect("there are two kinds");
        [&MAGIC[..], &LINK.to_le_bytes(), &LINK_OLDEST.to_le_bytes(), &self.nonce, &[index]].concat()
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Hello, BadHello> {
        let bytes = bytes.strip_prefix(MAGIC).ok_or(BadHello::Foreign)?;
        let malformed = |what: &str| BadHello::Malformed(what.to_owned());
        let (newest, bytes) = bytes.split_first_chunk().ok_or(BadHello::Foreign)?;
        let newest = u16::from_le_bytes(*newest);
        // Before there were two, the nonce followed.
        let (oldest, bytes) = match newest < LINK_OLDEST {
            true => return Err(BadHello::Version { oldest: newest, newest }),
            false => bytes.split_first_chunk().ok_or_else(|| malformed("it is cut"))?,
        };
        let oldest = u16::from_le_bytes(*oldest);
        if oldest > LINK {
            return Err(BadHello::Version { oldest, newest });
        }
        let (nonce, rest) = bytes.split_first_chunk().ok_or_else(|| malformed("it is cut"))?;
        let (index, more) = rest.split_first().ok_or_else(|| malformed("it is cut"))?;
        if newest == LINK && !more.is_empty() {
            return Err(malformed("it is longer than a hello of its version"));
        }
        let link_kind = LinkKind::from_index(*index).ok_or_else(|| malformed("it is for no connection there is"))?;
        Ok(Hello { nonce: *nonce, link_kind })
    }
}

/// What a node says of itself to a node that knows the secret. A later program may say more, which is skipped.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
#[stored(lenient)]
pub(super) struct Claims {
    #[n(0)]
    pub(super) cluster: u128,
    #[n(1)]
    pub(super) node: NodeId,
    #[n(2)]
    pub(super) disk: u128,
    /// A random number of the process. It changes with a restart.
    #[n(3)]
    pub(super) incarnation: u64,
    /// The receiver.
    #[n(4)]
    pub(super) to: NodeId,
    #[n(7)]
    pub(super) program: SmolStr,
    /// The version of its copy of the cluster's table.
    #[n(5)]
    table: u64,
    #[n(6)]
    durable_position: DurablePosition,
    #[n(8)]
    versions: NodeVersions,
}

impl Claims {
    /// This node's claims for the node `to`.
    pub(super) fn new(
        (local, incarnation): (&Local, u64),
        (table, durable_position, versions): (u64, DurablePosition, NodeVersions),
        to: NodeId,
    ) -> Claims {
        Claims {
            cluster: local.cluster,
            node: local.node,
            disk: local.disk,
            incarnation,
            to,
            program: SmolStr::new_static(concat!("boxoffice ", env!("CARGO_PKG_VERSION"))),
            table,
            durable_position,
            versions,
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        stored::append(self, Vec::new())
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Claims, BadHello> {
        if bytes.len() > CLAIMS_BYTES_MAX {
            return Err(BadHello::Malformed(format!("a node claims no more than {CLAIMS_BYTES_MAX} bytes")));
        }
        stored::read(bytes).map_err(BadHello::Malformed)
    }

    /// The claims that the node decides about.
    pub(super) fn peer_hello(&self) -> PeerHello {
        let program = printable(self.program.as_bytes()).into();
        PeerHello {
            cluster: self.cluster,
            node: self.node,
            disk: self.disk,
            version: LINK,
            program,
            table: self.table,
            durable_position: self.durable_position,
            versions: self.versions,
        }
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

    fn claims() -> Claims {
        Claims::new(
            (&Local { cluster: 7, node: 3, disk: 8 }, 9),
            (3, DurablePosition::default(), NodeVersions::newest()),
            4,
        )
    }

    #[test]
    fn hellos_round_trip() {
        let hello = Hello::new(LinkKind::Common, &OsRng);
        let bytes = hello.bytes();
        assert_eq!(Hello::read(&bytes).as_ref(), Ok(&hello));
        let changed = |at: usize| {
            let mut changed = bytes.clone();
            changed[at] += 1;
            Hello::read(&changed)
        };
        assert_eq!(changed(0), Err(BadHello::Foreign));
        // The dialer's version may be a later one, as long as it speaks this one too.
        assert_eq!(changed(8), Ok(hello.clone()));
        assert_eq!(changed(10), Err(BadHello::Version { oldest: LINK_OLDEST + 1, newest: LINK }));
        let mut earlier = bytes.clone();
        earlier[8] -= 1;
        assert_eq!(Hello::read(&earlier), Err(BadHello::Version { oldest: LINK - 1, newest: LINK - 1 }));
        assert!(matches!(changed(bytes.len() - 1), Err(BadHello::Malformed(_))));
        assert_eq!(Hello::read(b"GET / HTTP/1.1\r\n"), Err(BadHello::Foreign));
        assert_eq!(Hello::read(b"box"), Err(BadHello::Foreign));
        for wrong in [&bytes[..bytes.len() - 1], &[&bytes[..], &[0]].concat(), &bytes[..10]] {
            assert!(matches!(Hello::read(wrong), Err(BadHello::Malformed(_))));
        }
        assert_eq!(printable("a\nb\u{1b}[31mc".as_bytes()), "a b [31mc");
    }

    #[test]
    fn claims_round_trip_up_to_their_bound() {
        assert_eq!(Claims::read(&claims().bytes()), Ok(claims()));
        let longest = Claims {
            cluster: u128::MAX,
            node: u64::MAX,
            disk: u128::MAX,
            incarnation: u64::MAX,
            to: u64::MAX,
            table: u64::MAX,
            durable_position: DurablePosition { disk: u64::MAX, run: u64::MAX, durable: u64::MAX },
            program: "boxoffice 1000.1000.1000-a-long-name-of-a-release".into(),
            versions: NodeVersions::newest(),
        };
        assert_eq!(Claims::read(&longest.bytes()), Ok(longest.clone()));
        let too_long = Claims { program: "x".repeat(CLAIMS_BYTES_MAX).into(), ..longest };
        assert!(matches!(Claims::read(&too_long.bytes()), Err(BadHello::Malformed(_))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(bytes in vec(any::<u8>(), 0..200), headed: bool) {
            let head = Hello::new(LinkKind::Common, &OsRng).bytes();
            let _ = Hello::read(&if headed { [&head[..10], &bytes].concat() } else { bytes.clone() });
            if let Ok(claims) = Claims::read(&bytes) {
                let _ = claims.peer_hello();
            }
        }
    }
}

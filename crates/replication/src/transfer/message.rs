//! Messages about snapshots on their way.

use boxoffice_core::stored;
use boxoffice_core::stored::Stored;
use boxoffice_shard::ShardId;
use bytes::Bytes;

/// One message of the bulk lane.
#[derive(Debug, PartialEq, Eq, Stored)]
#[stored(name = "BulkMessage")]
pub enum Message {
    /// A snapshot can be pulled.
    #[n(0)]
    Offer {
        #[n(0)]
        shard: ShardId,
        /// The token by which it is pulled from this sender.
        #[n(1)]
        token: u64,
        /// Raft's message, for raft when the snapshot is complete.
        #[n(2)]
        raft: Bytes,
    },
    /// Send this piece.
    #[n(1)]
    Pull {
        #[n(0)]
        token: u64,
        /// The number of the piece, from 0, in order.
        #[n(1)]
        piece: u64,
    },
    #[n(2)]
    Piece {
        #[n(0)]
        token: u64,
        #[n(1)]
        piece: u64,
        #[n(2)]
        body: Body,
        /// The highest mark that the sender knows. Records may be of entries behind it.
        #[n(3)]
        mark: Option<u64>,
    },
}

/// The content of a piece.
#[derive(Debug, PartialEq, Eq, Stored)]
#[stored(name = "BulkBody")]
pub enum Body {
    /// The next bytes of the memory part.
    #[n(0)]
    Memory(#[n(0)] Bytes),
    /// The next records of the history, as the sender's store has them.
    #[n(1)]
    Records(#[n(0)] Vec<Bytes>),
    /// There are no more pieces.
    #[n(2)]
    End,
    /// The sender no longer has it.
    #[n(3)]
    Gone,
}

impl Message {
    /// The message as it is sent.
    pub fn encode(&self) -> Bytes {
        stored::append(self, Vec::new()).into()
    }

    /// # Errors
    /// What is wrong with the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Message, String> {
        stored::read(bytes)
    }
}

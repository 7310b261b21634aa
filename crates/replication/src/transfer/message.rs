//! Messages about snapshots on their way, in postcard.

use boxoffice_core::packing;
use boxoffice_shard::ShardId;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// One message of the bulk lane.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// A snapshot can be pulled.
    Offer {
        shard: ShardId,
        /// The token by which it is pulled from this sender.
        token: u64,
        /// Raft's message, for raft when the snapshot is complete.
        raft: Bytes,
    },
    /// Send this piece.
    Pull {
        token: u64,
        /// The number of the piece, from 0, in order.
        piece: u64,
    },
    Piece {
        token: u64,
        piece: u64,
        body: Body,
    },
}

/// The content of a piece.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// The next bytes of the memory part.
    Memory(Bytes),
    /// The next records of the history, as the sender's store has them.
    Records(Vec<Bytes>),
    /// There are no more pieces.
    End,
    /// The sender no longer has it.
    Gone,
}

impl Message {
    /// The message as it is sent.
    pub fn encode(&self) -> Bytes {
        packing::append(self, Vec::new()).into()
    }

    /// # Errors
    /// What is wrong with the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Message, String> {
        packing::read(bytes)
    }
}

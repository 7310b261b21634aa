//! What is said about snapshots under way, in postcard.

use boxoffice_core::packing;
use boxoffice_shard::ShardId;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// One message of the lane of big things.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// A snapshot is there to be pulled.
    Offer {
        /// Of which shard.
        shard: ShardId,
        /// What it is pulled by, at this sender.
        token: u64,
        /// Raft's message, to be given to raft when all of it is here.
        raft: Bytes,
    },
    /// Send this piece.
    Pull {
        /// Of which snapshot.
        token: u64,
        /// Which, from 0, in order.
        piece: u64,
    },
    /// A piece.
    Piece {
        /// Of which snapshot.
        token: u64,
        piece: u64,
        /// What is in it.
        body: Body,
    },
}

/// What is in a piece.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// The next bytes of what was in memory.
    Memory(Bytes),
    /// The next records of the history, as the sender's store has them.
    Records(Vec<Bytes>),
    /// That was all.
    End,
    /// The sender does not have it any more.
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

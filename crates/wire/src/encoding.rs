//! The two encodings of the protocol. The WebSocket subprotocol selects one.

/// An encoding of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// JSON in text frames: times as RFC 3339, bytes as base64.
    Json,
    /// MessagePack in binary frames, maps with named fields: times as milliseconds, bytes as bytes.
    MsgPack,
}

impl Encoding {
    /// Both, in the order a server prefers them.
    pub const ALL: [Encoding; 2] = [Encoding::MsgPack, Encoding::Json];

    /// The value of `Sec-WebSocket-Protocol`.
    pub fn subprotocol(self) -> &'static str {
        match self {
            Encoding::Json => "boxoffice.v1.json",
            Encoding::MsgPack => "boxoffice.v1.msgpack",
        }
    }

    /// A body with no fields.
    pub(crate) fn empty(self) -> &'static [u8] {
        match self {
            Encoding::Json => b"{}",
            Encoding::MsgPack => &[0x80],
        }
    }
}

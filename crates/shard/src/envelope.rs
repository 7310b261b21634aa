//! The messages between engines. Each is a raft message after the sender's running time of the shard.
//!
//! Layout, little-endian: running time 8 bytes (0 if the sender does not know it), then the message in raft-rs' protobuf form. A
//! delayed message is older, so its running time is never ahead of the shard's time.

use bytes::{Buf, BufMut, Bytes};
use protobuf::Message as _;
use raft::eraftpb::Message;

use crate::fields;

const HEADER_BYTES: usize = 8;

/// A message of raft with the sender's running time, if it knows that.
pub(crate) fn seal(message: &Message, running_ms: Option<u64>) -> Bytes {
    let size = usize::try_from(message.compute_size()).expect("a message fits into memory");
    let mut bytes = Vec::with_capacity(HEADER_BYTES + size);
    bytes.put_u64_le(running_ms.unwrap_or(0));
    message.write_to_vec(&mut bytes).expect("a message fits into memory");
    bytes.into()
}

/// The sender's running time, if it knows it, and the message. `None` if the bytes are malformed.
pub(crate) fn open(mut bytes: &[u8]) -> Option<(Option<u64>, Message)> {
    if bytes.len() < HEADER_BYTES {
        return None;
    }
    let running_ms = Some(bytes.get_u64_le()).filter(|ms| *ms > 0);
    let message = fields::may_be_message(bytes).then(|| Message::parse_from_bytes(bytes).ok());
    Some((running_ms, message.flatten()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_entry_is_opened() {
        let mut message = Message::default();
        (message.from, message.to, message.term) = (1 << 40, 2 << 40, 7);
        for running_ms in [None, Some(5)] {
            let sealed = seal(&message, running_ms);
            assert_eq!(open(&sealed), Some((running_ms, message.clone())));
            assert!((0..HEADER_BYTES).all(|length| open(&sealed[..length]).is_none()));
        }
        assert_eq!(open(&[0xff; 40]), None);
    }
}

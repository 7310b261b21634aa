//! Private decoders of this crate, for the fuzz tests in `crates/fuzz`. Each decodes some bytes and encodes the value
//! again. It returns `None` if the bytes are refused.

use bytes::Bytes;

use crate::{batch, envelope, group::read_members_change, snapshot};

/// A message of another node's engine.
pub fn message(bytes: &[u8]) -> Option<Vec<u8>> {
    let (running_ms, message) = envelope::open(bytes)?;
    Some(envelope::seal(&message, running_ms).to_vec())
}

/// The payload of an entry of the log.
pub fn entry(bytes: &[u8]) -> Option<Vec<u8>> {
    let (header, turns) = batch::open(Bytes::copy_from_slice(bytes)).ok()?;
    let turns: Vec<&[u8]> = turns.iter().collect();
    Some(batch::seal(header, turns.into_iter()))
}

/// The payload of an entry that changes a shard's members.
pub fn members(bytes: &[u8]) -> Option<Vec<u8>> {
    use protobuf::Message as _;
    read_members_change(bytes).ok()?.write_to_bytes().ok()
}

/// A snapshot as raft sends it to a follower.
pub fn packed_snapshot(bytes: &[u8]) -> Option<Vec<u8>> {
    let (meta, state) = snapshot::unpack(Bytes::copy_from_slice(bytes)).ok()?;
    Some(snapshot::pack(&meta, &state).to_vec())
}

/// The payloads of the entries and the snapshot in a message, and its kind.
pub fn parts(bytes: &[u8]) -> Option<(String, Vec<Bytes>, Bytes)> {
    let (_, message) = envelope::open(bytes)?;
    let entries = message.entries.iter().map(|entry| entry.data.clone()).collect();
    let kind = format!("{:?} {}", message.get_msg_type(), message.entries.len().min(3));
    Some((kind, entries, message.get_snapshot().data.clone()))
}

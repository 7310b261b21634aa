//! The encoding of a shard's snapshot.

use boxoffice_core::{state_map::Cut, stored};
use boxoffice_shard::SnapshotMeta;
use bytes::Bytes;

/// A snapshot of a shard.
pub struct Snapshot {
    /// The shard, position and configuration.
    pub meta: SnapshotMeta,
    /// The last batch of the history store that the snapshot needs to be complete.
    pub store_batches: u64,
    /// The entities in memory.
    pub cut: Cut,
}

/// Encodes a snapshot: the length of its description, the description, the last store batch, the state.
pub fn encode(meta: &SnapshotMeta, store_batches: u64, state: &[u8]) -> Vec<u8> {
    let described = meta.encode();
    let length = u32::try_from(described.len()).expect("a description is short");
    [&length.to_le_bytes(), &described[..], &store_batches.to_le_bytes(), state].concat()
}

/// Encodes the state in a cut.
pub fn encode_state(cut: &Cut) -> Vec<u8> {
    stored::append(cut, Vec::new())
}

/// Decodes a cut.
///
/// # Errors
/// The reason in words.
pub fn decode_state(state: &[u8]) -> Result<Cut, String> {
    stored::read(state)
}

/// Decodes a snapshot.
///
/// # Errors
/// The reason in words.
pub fn decode(bytes: &[u8]) -> Result<Snapshot, String> {
    let (meta, state) = split(bytes)?;
    let (store_batches, state) = state.split_first_chunk::<8>().ok_or("it is cut off before its state")?;
    Ok(Snapshot { meta, store_batches: u64::from_le_bytes(*store_batches), cut: decode_state(state)? })
}

/// Decodes the description of a snapshot, which may be cut off behind it.
///
/// # Errors
/// The reason in words.
pub fn describe(bytes: &[u8]) -> Result<SnapshotMeta, String> {
    split(bytes).map(|(meta, _)| meta)
}

fn split(bytes: &[u8]) -> Result<(SnapshotMeta, &[u8]), String> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or("it is too short")?;
    let (described, rest) =
        rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or("its description is cut off")?;
    let meta = SnapshotMeta::decode(Bytes::copy_from_slice(described)).map_err(|error| error.to_string())?;
    Ok((meta, rest))
}

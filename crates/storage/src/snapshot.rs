//! A snapshot of a shard as bytes.

use boxoffice_core::{packing, state_map::Cut};
use boxoffice_shard::SnapshotMeta;
use bytes::Bytes;

/// A snapshot of a shard.
pub struct Snapshot {
    /// What it is of.
    pub meta: SnapshotMeta,
    /// How many batches of the store it rests on: without what they have it is not whole.
    pub rests_on: u64,
    /// The entities in memory.
    pub cut: Cut,
}

/// A snapshot's bytes: the length of its description, the description, the batches of the store it rests on, the state.
pub fn join(meta: &SnapshotMeta, rests_on: u64, state: &[u8]) -> Vec<u8> {
    let described = meta.encode();
    let length = u32::try_from(described.len()).expect("a description is short");
    [&length.to_le_bytes(), &described[..], &rests_on.to_le_bytes(), state].concat()
}

/// The bytes of the state in a cut.
pub fn state(cut: &Cut) -> Vec<u8> {
    packing::append(cut, Vec::new())
}

/// The cut in these bytes.
///
/// # Errors
/// What is wrong with them.
pub fn decode_state(state: &[u8]) -> Result<Cut, String> {
    packing::read(state)
}

/// What a snapshot's bytes say.
///
/// # Errors
/// What is wrong with them.
pub fn decode(bytes: &[u8]) -> Result<Snapshot, String> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or("it is too short")?;
    let (described, state) =
        rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or("its description is cut off")?;
    let meta = SnapshotMeta::decode(Bytes::copy_from_slice(described)).map_err(|error| error.to_string())?;
    let (rests_on, state) = state.split_first_chunk::<8>().ok_or("it is cut off before its state")?;
    Ok(Snapshot { meta, rests_on: u64::from_le_bytes(*rests_on), cut: decode_state(state)? })
}

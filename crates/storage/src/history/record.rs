//! The encoding of a record.
//!
//! Layout: the version of the cluster under which it was written (1 byte), a snapshot of that one entity (its log index, layouts, entity and state, in postcard), and
//! the CRC-32C of all before (4 bytes, little-endian). The store has checksums of its own. This one covers the whole
//! way from memory to memory.

use std::sync::Arc;

use boxoffice_core::{
    id::Entity,
    state_map::{Cut, EvictionCandidate, State},
    stored::{self, Decode, Encode},
    version::ClusterVersion,
};
use bytes::Bytes;

const CRC_BYTES: usize = 4;
/// Bytes that most records fit into, because a growing buffer is copied each time.
const RECORD_BYTES: usize = 768;

/// A decoded record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntity {
    /// The log index up to which it contains every event of the entity.
    pub index: u64,
    pub entity: Entity,
    pub state: Arc<State>,
}

pub(super) fn encode(version: ClusterVersion, leaving: &EvictionCandidate) -> Bytes {
    encode_checked(version, &Cut::one(leaving.entity.clone(), Arc::clone(&leaving.state), leaving.index))
}

/// Decodes a record.
///
/// # Errors
/// The reason in words.
pub fn decode(bytes: &[u8]) -> Result<StoredEntity, String> {
    let cut: Cut = decode_checked(bytes)?;
    let mut entities = cut.entities();
    let (Some((entity, state)), None) = (entities.next(), entities.next()) else {
        return Err("it does not hold one entity".into());
    };
    Ok(StoredEntity { index: cut.index(), entity: entity.clone(), state: Arc::clone(state) })
}

/// Whether a record is as it was written.
///
/// # Errors
/// The reason in words.
pub(super) fn check(bytes: &[u8]) -> Result<(), String> {
    let (body, crc) = bytes.split_last_chunk::<CRC_BYTES>().ok_or("it is too short")?;
    match u32::from_le_bytes(*crc) == crc32c::crc32c(body) {
        true => Ok(()),
        false => Err("its checksum does not match".into()),
    }
}

/// Encodes a value with version and checksum.
pub fn encode_checked(version: ClusterVersion, value: &impl Encode) -> Bytes {
    let mut bytes = Vec::with_capacity(RECORD_BYTES);
    bytes.push(version.number());
    let mut bytes = stored::append(value, bytes);
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    Bytes::from(bytes)
}

/// Reverses [`encode_checked`].
pub(super) fn decode_checked<T: Decode>(bytes: &[u8]) -> Result<T, String> {
    check(bytes)?;
    let (version, value) = bytes[..bytes.len() - CRC_BYTES].split_first().ok_or("it is empty")?;
    ClusterVersion::read(*version).map_err(|other| format!("it was {other}"))?;
    stored::read(value)
}

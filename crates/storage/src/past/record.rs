//! How an entity stands in the store.
//!
//! Layout: version 1 byte, then a snapshot of that one entity (its place in the log, layouts, entity and state, in
//! postcard), then the checksum (CRC-32C, 4 bytes, little-endian) of all before. The store has checksums of its own;
//! this one is of the whole way from memory to memory.

use std::sync::Arc;

use boxoffice_core::{
    id::Entity,
    packing,
    state_map::{Cut, EvictionCandidate, State},
};
use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

const VERSION: u8 = 5;
const CRC_BYTES: usize = 4;
/// Bytes that most records fit into: a buffer that grows is copied each time.
const RECORD_BYTES: usize = 768;

/// An entity as it was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The place in its shard's log up to which it tells: it has every event of the entity up to there.
    pub index: u64,
    /// Which entity.
    pub entity: Entity,
    /// Everything about it.
    pub state: Arc<State>,
}

pub(super) fn encode(leaving: &EvictionCandidate) -> Bytes {
    seal(&Cut::one(leaving.entity.clone(), Arc::clone(&leaving.state), leaving.index))
}

/// The entity in the bytes of a record.
///
/// # Errors
/// What is wrong with them.
pub fn decode(bytes: &[u8]) -> Result<Stored, String> {
    let cut: Cut = open(bytes)?;
    let mut entities = cut.entities();
    let (Some((entity, state)), None) = (entities.next(), entities.next()) else {
        return Err("it does not hold one entity".into());
    };
    Ok(Stored { index: cut.index(), entity: entity.clone(), state: Arc::clone(state) })
}

/// A value with version and checksum.
pub fn seal(value: &impl Serialize) -> Bytes {
    let mut bytes = Vec::with_capacity(RECORD_BYTES);
    bytes.push(VERSION);
    let mut bytes = packing::append(value, bytes);
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    Bytes::from(bytes)
}

/// What [`seal`] was given.
pub(super) fn open<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let (body, crc) = bytes.split_last_chunk::<CRC_BYTES>().ok_or("it is too short")?;
    if u32::from_le_bytes(*crc) != crc32c::crc32c(body) {
        return Err("its checksum does not match".into());
    }
    match body.split_first() {
        Some((&VERSION, value)) => packing::read(value),
        Some((other, _)) => Err(format!("it has version {other}, this program reads version {VERSION}")),
        None => Err("it is empty".into()),
    }
}

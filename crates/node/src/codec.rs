//! What a node keeps, as bytes: turns in the log, records in the store, states in snapshots. All of it is written in
//! [postcard](https://postcard.jamesmunns.com/wire-format): without names it is half as long as MessagePack and is read in
//! half the time, and every disk format has a version of its own.

use boxoffice_core::{event::Event, id::Entity, packing};
use serde::{Serialize, de::DeserializeOwned};
use smol_str::SmolStr;

/// Bytes that most turns fit into.
const TURN_BYTES: usize = 160;

/// Appends a value's bytes.
pub(crate) fn append(value: &(impl Serialize + ?Sized), bytes: Vec<u8>) -> Vec<u8> {
    packing::append(value, bytes)
}

/// The value in these bytes, which must be all of them.
///
/// # Errors
/// What is wrong with them, if no node of this version wrote them.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(format!("{} bytes are left over", rest.len())),
        Err(error) => Err(error.to_string()),
    }
}

/// The bytes of a turn, which are what an entry of the log says: the events one input led to, of one entity, and the name of
/// the key or the operator that asked for them.
pub(crate) fn encode(entity: &Entity, by: Option<&SmolStr>, events: &[Event]) -> Vec<u8> {
    append(&(entity, by, events), Vec::with_capacity(TURN_BYTES))
}

/// The turn in these bytes.
///
/// # Errors
/// As [`read`].
pub(crate) fn decode(bytes: &[u8]) -> Result<(Entity, Option<SmolStr>, Vec<Event>), String> {
    read(bytes)
}

/// Only whose turn it is: it is the first that a turn says.
///
/// # Errors
/// As [`read`].
pub(crate) fn entity(bytes: &[u8]) -> Result<Entity, String> {
    postcard::take_from_bytes(bytes).map(|(entity, _)| entity).map_err(|error| error.to_string())
}

//! What a node keeps, as bytes: turns in the log, records in the store, states in snapshots. All of it is written in
//! [postcard](https://postcard.jamesmunns.com/wire-format): without names it is half as long as MessagePack and is read in
//! half the time, and every disk format has a version of its own.

use boxoffice_core::{event::Event, id::Entity, packing};
use smol_str::SmolStr;

/// Bytes that most turns fit into.
const TURN_BYTES: usize = 160;

/// The bytes of a turn, which are what an entry of the log says: the events one input led to, of one entity, and the name of
/// the key or the operator that asked for them.
pub fn encode(entity: &Entity, by: Option<&SmolStr>, events: &[Event]) -> Vec<u8> {
    packing::append(&(entity, by, events), Vec::with_capacity(TURN_BYTES))
}

/// The turn in these bytes.
///
/// # Errors
/// As [`packing::read`].
pub fn decode(bytes: &[u8]) -> Result<(Entity, Option<SmolStr>, Vec<Event>), String> {
    packing::read(bytes)
}

/// Only whose turn it is: it is the first that a turn says.
///
/// # Errors
/// As [`packing::read`].
pub fn entity(bytes: &[u8]) -> Result<Entity, String> {
    postcard::take_from_bytes(bytes).map(|(entity, _)| entity).map_err(|error| error.to_string())
}

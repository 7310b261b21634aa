//! The encoding of turns in the log. It is [postcard](https://postcard.jamesmunns.com/wire-format), as in records and
//! snapshots. Without names it is half as long as MessagePack and is read in half the time. Every disk format has a
//! version.

use boxoffice_core::{event::Event, id::Entity, packing};
use smol_str::SmolStr;

/// Bytes that most turns fit into.
const TURN_BYTES: usize = 160;

/// Encodes a turn: the events of one entity that one input led to, and the name of the key or operator that asked for
/// them.
pub fn encode(entity: &Entity, by: Option<&SmolStr>, events: &[Event]) -> Vec<u8> {
    packing::append(&(entity, by, events), Vec::with_capacity(TURN_BYTES))
}

/// Decodes a turn.
///
/// # Errors
/// As [`packing::read`].
pub fn decode(bytes: &[u8]) -> Result<(Entity, Option<SmolStr>, Vec<Event>), String> {
    packing::read(bytes)
}

/// Decodes only the entity of a turn.
///
/// # Errors
/// As [`packing::read`].
pub fn entity(bytes: &[u8]) -> Result<Entity, String> {
    postcard::take_from_bytes(bytes).map(|(entity, _)| entity).map_err(|error| error.to_string())
}

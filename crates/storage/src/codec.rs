//! The encoding of turns in the log, in the stored form of values ([`stored`]).

use boxoffice_core::{
    event::Event,
    id::Entity,
    stored::{self, FieldReader, Reader},
};
use smol_str::SmolStr;

/// Bytes that most turns fit into.
const TURN_BYTES: usize = 160;

/// Encodes a turn: the events of one entity that one input led to, and the name of the key or operator that asked for
/// them.
pub fn encode(entity: &Entity, by: Option<&SmolStr>, events: &[Event]) -> Vec<u8> {
    stored::append(&(entity, by, events), Vec::with_capacity(TURN_BYTES))
}

/// Decodes a turn.
///
/// # Errors
/// As [`stored::read`].
pub fn decode(bytes: &[u8]) -> Result<(Entity, Option<SmolStr>, Vec<Event>), String> {
    stored::read(bytes)
}

/// Decodes only the entity of a turn.
///
/// # Errors
/// As [`stored::read`].
pub fn entity(bytes: &[u8]) -> Result<Entity, String> {
    let mut from = Reader::new(bytes);
    FieldReader::of_struct(&mut from).and_then(|mut fields| fields.next(&mut from)).map_err(|error| error.to_string())
}

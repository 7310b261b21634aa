//! The encoding of turns in the log, in the stored form of values ([`stored`]).

use boxoffice_core::{
    event::Event,
    id::Entity,
    stored::{self, Decode, Definition, FieldReader, Reader, Schema},
};
use smol_str::SmolStr;

/// Bytes that most turns fit into.
const TURN_BYTES: usize = 160;

type LoggedTurn = (Entity, Option<SmolStr>, Vec<Event>);

/// Adds the turn to a schema.
#[doc(hidden)]
pub fn schema(schema: &mut Schema) {
    let path = concat!(module_path!(), "::LoggedTurn");
    schema.define::<LoggedTurn>("Turn", path, |schema| Definition::As(LoggedTurn::shape(schema)));
}

/// Encodes a turn: the events of one entity that one input led to, and the name of the key or operator that asked for
/// them.
pub fn encode(entity: &Entity, by: Option<&SmolStr>, events: &[Event]) -> Vec<u8> {
    stored::append(&(entity, by, events), Vec::with_capacity(TURN_BYTES))
}

/// Decodes a turn.
///
/// # Errors
/// As [`stored::read`].
pub fn decode(bytes: &[u8]) -> Result<LoggedTurn, String> {
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

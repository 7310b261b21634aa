//! Turns as bytes: what an entry of the log says. One turn is the events one input led to, of one entity.

use boxoffice_core::{event::Event, id::Entity};
use serde::Serialize;

/// The bytes of a turn.
pub(crate) fn encode(entity: &Entity, events: &[Event]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(192);
    let mut serializer = rmp_serde::Serializer::new(&mut bytes);
    (entity, events).serialize(&mut serializer).expect("events serialize into memory");
    bytes
}

/// The turn in these bytes.
///
/// # Errors
/// What is wrong with them, if no node of this version wrote them.
pub(crate) fn decode(bytes: &[u8]) -> Result<(Entity, Vec<Event>), String> {
    rmp_serde::from_slice(bytes).map_err(|error| error.to_string())
}

/// Only whose turn it is.
///
/// # Errors
/// What is wrong with the bytes.
pub(crate) fn entity(bytes: &[u8]) -> Result<Entity, String> {
    // A turn is an array of two, the entity is its first.
    match bytes.split_first() {
        Some((&PAIR, rest)) => rmp_serde::from_slice(rest).map_err(|error| error.to_string()),
        Some(_) | None => Err("it does not begin like a turn".into()),
    }
}

/// How MessagePack begins an array of two.
const PAIR: u8 = 0x92;

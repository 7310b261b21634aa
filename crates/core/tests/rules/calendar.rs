//! The calendar, with stories, traps, local time, and random commands against a plain list of intervals.

mod script;
mod words;

mod bookings;
pub(crate) mod free;
mod hours;
mod model;
mod repeat;
mod terms;
mod traps;
mod zones;

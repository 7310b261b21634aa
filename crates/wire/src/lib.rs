//! What goes over client sockets: protocol v1 in two encodings, with its limits, and the way to and from the core's words.
//!
//! A frame is read in two steps: first the envelope (who asks, which op, which request id), then the body by its op; so an
//! op that is not known is a refusal and not a broken frame. Nothing is believed about a frame before it was scanned:
//! depth, claimed lengths, trailing bytes. `docs/reference/protocol.md` is the same for people.

// In reading order: the ground, the shapes of values, what comes in, what goes out, what the other side reads;
// tokens of customers; payments; all of it as schemas.
pub mod limits;

pub mod encoding;
mod raw;
mod strict;

pub mod form;
mod form_answer;
mod form_audit;
mod form_calendar;
mod form_line;
mod form_order;
mod form_payment;
mod form_stock;
mod kept;
pub mod layout;
pub mod quantity;

pub mod envelope;
pub mod op;
pub mod rejection;

pub mod body;
pub mod call;
mod convert;
pub mod request;
pub mod version;

pub mod access;
pub mod city;
pub mod cluster;
pub mod happening;
pub mod joining;
pub mod status;

pub mod alone;
pub mod encode;
pub mod feed;
pub mod hello;
mod no;

pub mod reply;

pub mod customer;
pub mod payment;
pub mod schema;
pub mod webhook;

pub use call::Call;
pub use encoding::Encoding;
pub use op::Op;
pub use rejection::{Fail, FailKind, Rejection};
pub use request::{FirstCommand, Head, Request};

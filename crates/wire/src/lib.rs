//! The client protocol v1: frames in two encodings, their limits, and the conversion from and to the types of the core.
//!
//! A frame is read in two steps. The first reads the envelope (id, op, request id), the second the body by its op. So an
//! unknown op is a refusal and not a malformed frame. Every frame is scanned before it is read: depth, claimed lengths,
//! trailing bytes. `docs/reference/protocol.md` describes the protocol.
//!
//! ```
//! use boxoffice_wire::{Call, Encoding, Op, Request};
//!
//! let frame = br#"{"id": 1, "op": "session.map", "body": {"id": "hamlet-tonight"}}"#;
//! let request = Request::read(Encoding::Json, frame).unwrap();
//! assert_eq!((request.id, request.op), (1, Op::SessionMap));
//! let Call::Command(command) = &request.call else { panic!("{request:?}") };
//! assert_eq!(command.entity().to_string(), "session/hamlet-tonight");
//!
//! // The body lacks its id. The answer names the field and has the request's id.
//! let rejected = Request::read(Encoding::Json, br#"{"id": 2, "op": "session.map", "body": {}}"#).unwrap_err();
//! assert_eq!(rejected.id, Some(2));
//! ```

// In reading order: limits and encodings, representations of values, calls, answers, the client's side, the ops with their
// bodies, requests, customers' tokens, payments, schemas.
pub mod limits;
pub mod op;

mod bound;
mod newer;

mod decode;
pub mod encoding;
mod from_body;
mod raw;
mod unknown;

pub mod labels;
pub mod layout;
pub mod quantity;
pub mod repr;
pub mod view;

pub mod envelope;
pub mod feed_kind;
pub mod path;
pub mod permission;
pub mod rejection;

pub mod call;
mod convert;
mod spec;
mod unread;

pub mod needed;
pub mod weight;

pub mod access;
pub mod city;
pub mod cluster;
pub mod event_text;
pub mod joining;
pub mod status;

pub mod encode;
pub mod feed;
pub mod hello;
pub mod http;
mod refusal;

pub mod reply;

pub mod body;
mod ops;

pub mod request;
pub mod version;

pub mod customer;
mod mac;
pub mod payment;
pub mod schema;
pub mod webhook;

// The bench uses the samples in tests/common as well, and names the crate.
#[cfg(test)]
extern crate self as boxoffice_wire;
#[cfg(test)]
mod tests;

pub use call::Call;
pub use encoding::Encoding;
pub use op::Op;
pub use rejection::{Fail, FailKind, Rejection};
pub use request::{FirstCommand, Head, Request};
pub use spec::{AnsweredOp, OpBody};

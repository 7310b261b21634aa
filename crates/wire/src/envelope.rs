//! The envelope of a request. The body is not read yet.

use std::borrow::Cow;

use crate::{
    Encoding,
    raw::{self, Malformed},
    rejection::Rejection,
    unknown::Unknown,
};

/// A request whose body has not been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The client's number for this request, on this connection.
    pub id: u64,
    /// The op's name.
    pub op: Cow<'a, str>,
    /// The request id.
    pub rid: Option<Cow<'a, str>>,
    /// How long the client waits, in milliseconds.
    pub deadline_ms: Option<u64>,
    pub body: Option<&'a [u8]>,
    pub(crate) unknown: Unknown,
}

/// A frame that is not a valid request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The id, if it could be read.
    pub id: Option<u64>,
    /// The answer.
    pub why: Rejection,
}

impl<'a> Envelope<'a> {
    /// Reads the envelope of a frame.
    ///
    /// # Errors
    /// `bad_request` if the frame is not one complete map with the fields of an envelope.
    pub fn read(encoding: Encoding, frame: &'a [u8]) -> Result<Envelope<'a>, Rejected> {
        let mut parts = Parts::default();
        let seen = raw::check_depth(encoding, frame)
            .and_then(|()| raw::fields(encoding, frame, |name, value| parts.take(encoding, name, value)));
        let id = parts.id;
        let rejected = |why: Rejection| Rejected { id, why };
        seen.map_err(|malformed| rejected(malformed.into()))?;
        let number = id.ok_or_else(|| rejected(Rejection::bad_request("`id` is missing")))?;
        let op = parts.op.ok_or_else(|| rejected(Rejection::bad_request("`op` is missing")))?;
        Ok(Envelope {
            id: number,
            op,
            rid: parts.rid,
            deadline_ms: parts.deadline_ms,
            body: parts.body,
            unknown: parts.unknown,
        })
    }
}

/// The fields of an envelope seen so far. Also of an item of a batch, which has no id.
#[derive(Default)]
pub(crate) struct Parts<'a> {
    pub(crate) id: Option<u64>,
    pub(crate) op: Option<Cow<'a, str>>,
    pub(crate) rid: Option<Cow<'a, str>>,
    pub(crate) deadline_ms: Option<u64>,
    pub(crate) body: Option<&'a [u8]>,
    pub(crate) unknown: Unknown,
}

impl<'a> Parts<'a> {
    /// Takes a field. `null` is the same as absent. Unknown fields are noted, and the op decides whether they matter.
    pub(crate) fn take(&mut self, encoding: Encoding, name: &str, value: &'a [u8]) -> Result<(), Malformed> {
        if raw::is_nothing(encoding, value) {
            return Ok(());
        }
        match name {
            "id" => once(&mut self.id, raw::number(encoding, value), "`id` is one whole number"),
            "op" => once(&mut self.op, raw::text(encoding, value), "`op` is one text"),
            "rid" => once(&mut self.rid, raw::text(encoding, value), "`rid` is one text"),
            "deadline_ms" => {
                once(&mut self.deadline_ms, raw::number(encoding, value), "`deadline_ms` is one whole number")
            }
            "body" => once(&mut self.body, Some(value), "`body` is there once"),
            _ => {
                self.unknown.note_field(name, &["id", "op", "rid", "deadline_ms", "body"]);
                Ok(())
            }
        }
    }
}

fn once<T>(place: &mut Option<T>, value: Option<T>, expected: &str) -> Result<(), Malformed> {
    if place.is_some() || value.is_none() {
        return Err(expected.into());
    }
    *place = value;
    Ok(())
}

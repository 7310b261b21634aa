//! The envelope of a request. The body is not read yet.

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};

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
    /// How long the buyer will still be there, in milliseconds. Absent if no longer than `deadline_ms`.
    pub patience_ms: Option<u64>,
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
            patience_ms: parts.patience_ms,
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
    pub(crate) patience_ms: Option<u64>,
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
            "patience_ms" => {
                once(&mut self.patience_ms, raw::number(encoding, value), "`patience_ms` is one whole number")
            }
            "body" => once(&mut self.body, Some(value), "`body` is there once"),
            _ => {
                self.unknown.note_field(name, &["id", "op", "rid", "deadline_ms", "patience_ms", "body"]);
                Ok(())
            }
        }
    }
}

/// The frame of a request with `patience_ms` as one more field of its envelope. The client adds it when it sends the frame,
/// because it does not know before whether the node at the other end is new enough for the field.
///
/// # Panics
/// If the frame is not a request as [`crate::reply::request`] writes it.
pub fn with_patience(encoding: Encoding, frame: &[u8], patience_ms: u64) -> BytesMut {
    let mut out = BytesMut::with_capacity(frame.len() + PATIENCE_BYTES);
    match encoding {
        Encoding::Json => {
            let rest = frame.strip_prefix(b"{").expect("a request is a map");
            out.extend_from_slice(format!("{{\"patience_ms\":{patience_ms},").as_bytes());
            out.extend_from_slice(rest);
        }
        Encoding::MsgPack => {
            let (head, rest) = frame.split_first().expect("a request is a map");
            assert!((0x81..0x8f).contains(head), "an envelope has few fields, and its first byte is {head:#x}");
            out.put_u8(head + 1);
            // A text of 11 bytes, then a whole number of 8 bytes.
            out.put_u8(0xab);
            out.extend_from_slice(b"patience_ms");
            out.put_u8(0xcf);
            out.put_u64(patience_ms);
            out.extend_from_slice(rest);
        }
    }
    out
}

/// The most bytes that the field takes, in either encoding.
const PATIENCE_BYTES: usize = 40;

fn once<T>(place: &mut Option<T>, value: Option<T>, expected: &str) -> Result<(), Malformed> {
    if place.is_some() || value.is_none() {
        return Err(expected.into());
    }
    *place = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Head, Op, body, reply};

    #[test]
    fn patience_is_added_to_a_frame_that_is_written() {
        for encoding in Encoding::ALL {
            for (rid, patience_ms) in [(Some("c1"), 0), (None, 300_000), (Some("c1"), u64::MAX)] {
                let mut frame = BytesMut::new();
                let empty = body::Empty {};
                reply::request(encoding, &mut frame, 7, Op::AdminStatus, rid, Some(2_000), &empty);
                let before = Envelope::read(encoding, &frame).expect("an envelope");
                let patient = with_patience(encoding, &frame, patience_ms);
                let after = Envelope::read(encoding, &patient).expect("an envelope");
                assert_eq!(after, Envelope { patience_ms: Some(patience_ms), ..before });
                assert!(patient.len() <= frame.len() + PATIENCE_BYTES);
                let read = Head::read(encoding, &patient).expect("a head").request().expect("a request");
                assert_eq!((read.deadline_ms, read.patience_ms), (2_000, patience_ms.max(2_000)));
            }
        }
    }
}

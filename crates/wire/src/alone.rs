//! For doors where the envelope is not in the frame (HTTP): bodies alone come in, frames without an id go out.

use bytes::BytesMut;
use serde::Serialize;
use smol_str::format_smolstr;

use crate::{
    Encoding, Op, Rejection, Request,
    encode::{ItemVerdict, Verdict},
    form::{Form, On},
    form_answer::Each,
    limits::{FRAME_BYTES_MAX, IMPORT_FRAME_BYTES_MAX},
    raw,
};

#[derive(Serialize)]
struct Ok<T> {
    ok: T,
}

/// Answers whatever it was.
pub fn verdict(encoding: Encoding, out: &mut BytesMut, verdict: &Verdict) {
    encoding.write(out, &ItemVerdict(verdict));
}

/// Answers a batch: a verdict for each item, in their order.
pub fn batch(encoding: Encoding, out: &mut BytesMut, verdicts: &[Verdict]) {
    #[derive(Serialize)]
    struct Items<I: Serialize> {
        items: I,
    }
    encoding.write(out, &Ok { ok: Items { items: Each(|| verdicts.iter().map(ItemVerdict)) } });
}

/// Answers with this body: of what the door knows by itself, as a status, and with parts of answers.
pub fn ok<T: Form>(encoding: Encoding, out: &mut BytesMut, body: &T) {
    encoding.write(out, &Ok { ok: On(body) });
}

/// The request that this body, as JSON, is; an empty one is a map without fields.
///
/// # Errors
/// What to answer instead.
pub fn request(op: Op, rid: Option<&str>, deadline_ms: Option<u64>, body: &[u8]) -> Result<Request, Rejection> {
    let most = body_bytes_max(op);
    if body.len() > most {
        return Err(too_long(most));
    }
    let body = (!body.is_empty()).then_some(body);
    if let Some(body) = body {
        raw::check_depth(Encoding::Json, body)?;
    }
    Request::from_parts(Encoding::Json, 0, op, rid, deadline_ms, body)
}

/// The longest body of this op, in bytes: what a frame of it may have.
pub fn body_bytes_max(op: Op) -> usize {
    if op.is_for_importers() { IMPORT_FRAME_BYTES_MAX } else { FRAME_BYTES_MAX }
}

/// What is said of a longer one.
pub fn too_long(most: usize) -> Rejection {
    Rejection::TooLarge(format_smolstr!("a body of this op has at most {most} bytes"))
}

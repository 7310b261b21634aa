//! Requests and answers over HTTP. Bodies have no envelope, and answers have no id.

use std::sync::Arc;

use boxoffice_core::{answer::MapView, layout::Layout};
use bytes::BytesMut;
use smol_str::format_smolstr;

use crate::{
    Encoding, Op, Rejection, Request,
    encode::{self, Verdict, VerdictFrame},
    raw,
    repr::{ToWire, WireWrite},
};

/// Answers with a verdict.
pub fn verdict(encoding: Encoding, out: &mut BytesMut, verdict: &Verdict) {
    encoding.write(out, &VerdictFrame { id: None, verdict });
}

/// Answers a batch with a verdict for each item, in their order.
pub fn batch(encoding: Encoding, out: &mut BytesMut, verdicts: &[Verdict]) {
    encode::write_ok(encoding, out, None, &encode::items(verdicts));
}

/// Answers with a body that is not an entity's answer, such as a status, or with a part of one.
pub fn ok<T: WireWrite>(encoding: Encoding, out: &mut BytesMut, body: &T) {
    encode::write_ok(encoding, out, None, &ToWire(body));
}

/// Answers with a layout.
pub fn layout(encoding: Encoding, out: &mut BytesMut, layout: &Arc<Layout>) {
    encode::layout(encoding, out, layout);
}

/// Answers with a map.
pub fn map(encoding: Encoding, out: &mut BytesMut, map: &MapView) {
    encode::map(encoding, out, map);
}

/// The request with this JSON body. An empty body is a map without fields.
///
/// # Errors
/// The answer instead.
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

/// The longest body of an op, in bytes, the same as for a frame.
pub fn body_bytes_max(op: Op) -> usize {
    op.frame_bytes_max()
}

/// The rejection of a longer body.
pub fn too_long(most: usize) -> Rejection {
    Rejection::TooLarge(format_smolstr!("a body of this op has at most {most} bytes"))
}

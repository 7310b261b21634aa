//! The input of an HTTP request: its caller, headers and body, within their limits.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Query, Request as HttpRequest},
    http::{HeaderMap, Uri, header, request::Parts},
};
use boxoffice_wire::{
    Call, Encoding, FailKind, Op, Rejection, Request, http,
    limits::FRAME_BYTES_MAX,
    schema::{self, CART_TOKEN_HEADER, HttpMethods},
    version, weight,
};
use bytes::BytesMut;
use futures_util::StreamExt;
use tokio::{sync::SemaphorePermit, time::Instant};

use super::answer::ApiAnswer;
use crate::{
    access::{Denied, Row},
    admission::{NotAdmitted, text},
    budgets::{OverBudget, Owners},
    caller::{Admitted, Caller},
    shared::{ConnectionPermit, Phase, Shared, within},
};

/// The header with the request id.
const REQUEST_ID: &str = "idempotency-key";

/// The header that says how long the client waits, in milliseconds.
const DEADLINE: &str = "boxoffice-deadline-ms";

/// The header that says how long the buyer will still be there, in milliseconds.
const PATIENCE: &str = "boxoffice-patience-ms";

/// Bytes reserved before a body is read. A larger content length is not trusted.
const RESERVED_BYTES: usize = 4 * 1024;

/// The connection that a request came over.
pub(super) fn permit(request: &mut HttpRequest) -> Arc<ConnectionPermit> {
    request.extensions_mut().remove().expect("every request carries its connection's permit")
}

/// Takes a slot for a request.
///
/// # Errors
/// The answer if there is none, or if the node drains.
pub(super) fn enter(shared: &Shared) -> Result<SemaphorePermit<'_>, ApiAnswer> {
    if *shared.phase.borrow() >= Phase::Draining {
        return Err(ApiAnswer::failed(FailKind::Draining).closing());
    }
    shared.http_requests.try_acquire().map_err(|_| ApiAnswer::failed(FailKind::Busy))
}

/// Reads the body of a request that is refused, so that the connection can be kept. Gives up if the body is long or slow.
pub(super) async fn skip_body(shared: &Shared, body: Body) {
    let reading = async {
        let (mut read, mut chunks) = (0, body.into_data_stream());
        while let Some(Ok(chunk)) = chunks.next().await {
            read += chunk.len();
            if read > FRAME_BYTES_MAX {
                break;
            }
        }
    };
    let _ = within(shared.config.limits.whole_frame_timeout, reading).await;
}

/// The caller of a request, if it may use the op.
///
/// # Errors
/// The answer to a key or token that is not valid, to a caller beyond its budget, or to one without the right.
pub(super) async fn caller(
    shared: &Arc<Shared>,
    permit: &ConnectionPermit,
    parts: &Parts,
    op: Op,
) -> Result<Caller, ApiAnswer> {
    let caller = match Admitted::of(shared, permit, parts).await {
        Ok(caller) => caller,
        // Nobody looked at the credentials, because the network has shown too many.
        Err(NotAdmitted::Rejected(why @ Rejection::RateLimited { .. })) => {
            return Err(ApiAnswer::rejected(why).closing());
        }
        Err(NotAdmitted::Rejected(why)) => return Err(ApiAnswer::rejected(why)),
        Err(NotAdmitted::Failed(kind)) => return Err(ApiAnswer::failed(kind)),
    };
    permit.serves(caller.access.ends_with(), || caller.access.end(shared));
    permit.note_role(caller.access.is_staff());
    // Denied requests count as well.
    let charged = shared.budgets.request(&caller.owners(permit), op.weight(), Instant::now());
    charged.map_err(|over| over_rate(permit, over))?;
    match caller.access.may(shared, Row::Op(op)) {
        Ok(()) => Ok(caller),
        Err(denied) => Err(self::denied(shared, &caller, denied)),
    }
}

/// Charges what a request costs by its size.
///
/// # Errors
/// The answer to a caller beyond its budget.
pub(super) fn charge_size(
    shared: &Shared,
    permit: &ConnectionPermit,
    owners: &Owners,
    call: &Call,
    bytes: usize,
) -> Result<(), ApiAnswer> {
    let budgets = &shared.budgets;
    let ended = if let Call::Command(command) = call { budgets.ended_lines(command) } else { 0 };
    let units = weight::of_call(call, bytes).saturating_add(weight::of_ended_lines(ended));
    if units == 0 || owners.is_empty() {
        return Ok(());
    }
    budgets.request(owners, units, Instant::now()).map_err(|over| over_rate(permit, over))
}

/// The answer to a caller beyond its budget. Its connection is closed if it does not wait.
fn over_rate(permit: &ConnectionPermit, over: OverBudget) -> ApiAnswer {
    let refused = ApiAnswer::rejected(over.rejection());
    if permit.is_far_over_rate() { refused.closing() } else { refused }
}

/// The answer to a request that the caller has no right to.
pub(super) fn denied(shared: &Shared, caller: &Caller, denied: Denied) -> ApiAnswer {
    match denied {
        Denied::Refused(denial, why) => {
            caller.denied(shared, denial, &why);
            ApiAnswer::rejected(why)
        }
        Denied::Failed(kind) => ApiAnswer::failed(kind),
    }
}

/// The request of a `POST`, with the op's body.
/// Returns its length as well.
pub(super) async fn from_body(
    shared: &Shared,
    op: Op,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Request, usize), ApiAnswer> {
    let body = whole(shared, headers, body, http::body_bytes_max(op)).await?;
    if !body.is_empty() && !is_json(headers) {
        // A browser asks before it sends this type for a page of another origin. It sends other types without asking.
        return Err(bad_request("a body is of the type application/json"));
    }
    let length = body.len();
    let request = match cart_token(op, headers, &body)? {
        Some(body) => request(shared, op, headers, &body),
        None => request(shared, op, headers, &body),
    };
    Ok((request?, length))
}

/// The request of a `GET`, with the op's body in the query string.
pub(super) fn from_query(shared: &Shared, op: Op, headers: &HeaderMap, uri: &Uri) -> Result<Request, ApiAnswer> {
    let Query(fields) = Query::<Vec<(String, String)>>::try_from_uri(uri)
        .map_err(|_| bad_request("the query string is not made of `field=value`"))?;
    let fields = fields.into_iter().map(|(name, value)| (name.into(), value.into()));
    let body = schema::body_of_query(op, fields).map_err(ApiAnswer::rejected)?;
    let body = cart_token(op, headers, &body)?.unwrap_or(body);
    request(shared, op, headers, &body)
}

/// The body of a read with the cart's token of a header, if there is one and the body has none.
fn cart_token(op: Op, headers: &HeaderMap, body: &[u8]) -> Result<Option<Vec<u8>>, ApiAnswer> {
    if schema::of(op).methods != HttpMethods::PostAndGet {
        return Ok(None);
    }
    let Some(token) = text(headers, CART_TOKEN_HEADER).map_err(ApiAnswer::rejected)? else { return Ok(None) };
    schema::with_cart_token(op, body, token).map_err(ApiAnswer::rejected)
}

/// How long the client waits, in milliseconds, if a header says so.
pub(super) fn deadline_ms(headers: &HeaderMap) -> Result<Option<u64>, ApiAnswer> {
    milliseconds(headers, DEADLINE, "Boxoffice-Deadline-Ms is a whole number of milliseconds")
}

/// The number of milliseconds in a header, if it is there. `rule` says what it is otherwise.
fn milliseconds(headers: &HeaderMap, name: &'static str, rule: &str) -> Result<Option<u64>, ApiAnswer> {
    let Some(value) = text(headers, name).map_err(ApiAnswer::rejected)? else { return Ok(None) };
    let is_whole = !value.is_empty() && value.bytes().all(|digit| digit.is_ascii_digit());
    // A number that is too large means a long time all the same.
    let parsed = is_whole.then(|| value.parse().unwrap_or(u64::MAX));
    parsed.map(Some).ok_or_else(|| bad_request(rule))
}

fn request(shared: &Shared, op: Op, headers: &HeaderMap, body: &[u8]) -> Result<Request, ApiAnswer> {
    let rid = text(headers, REQUEST_ID).map_err(ApiAnswer::rejected)?;
    let patience_ms = milliseconds(headers, PATIENCE, "Boxoffice-Patience-Ms is a whole number of milliseconds")?;
    version::check(shared.backend.minor(), Encoding::Json, op, body).map_err(ApiAnswer::rejected)?;
    let request = http::request(op, rid, deadline_ms(headers)?, body).map_err(ApiAnswer::rejected)?;
    Ok(request.with_patience(patience_ms))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.and_then(|kind| kind.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Reads a whole body.
///
/// # Errors
/// The answer to a body that is longer than `bytes_max`, or slow.
pub(super) async fn whole(
    shared: &Shared,
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<BytesMut, ApiAnswer> {
    let too_long = || ApiAnswer::rejected(http::too_long(bytes_max)).closing();
    let claimed = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if claimed.is_some_and(|claimed| claimed > bytes_max) {
        return Err(too_long());
    }
    let reading = async {
        let mut whole = BytesMut::with_capacity(claimed.unwrap_or(0).min(RESERVED_BYTES));
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| bad_request("the body broke off").closing())?;
            if whole.len() + chunk.len() > bytes_max {
                return Err(too_long());
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole)
    };
    within(shared.config.limits.whole_frame_timeout, reading).await.unwrap_or_else(|| Err(ApiAnswer::too_slow()))
}

fn bad_request(words: &str) -> ApiAnswer {
    ApiAnswer::rejected(Rejection::bad_request(words))
}

//! What an HTTP request asks for: its headers and its body, within their limits.

use axum::{
    body::Body,
    extract::Query,
    http::{HeaderMap, Uri, header},
};
use boxoffice_wire::{FailKind, Op, Rejection, Request, alone, limits::FRAME_BYTES_MAX, schema};
use bytes::BytesMut;
use futures_util::StreamExt;
use tokio::{sync::SemaphorePermit, time::Instant};

use super::said::Said;
use crate::{
    access::Denied,
    budgets::weight_of,
    caller::{Caller, text},
    shared::{Guest, Phase, Shared, within},
};

/// Carries the request id.
const REQUEST_ID: &str = "idempotency-key";

/// Carries how long the client waits, in milliseconds.
const DEADLINE: &str = "boxoffice-deadline-ms";

/// Bytes reserved ahead of reading a body: a claimed length is not believed further than this.
const RESERVED_BYTES: usize = 4 * 1024;

/// A place among the requests that are dealt with; what is said where there is none.
pub(super) fn enter(shared: &Shared) -> Result<SemaphorePermit<'_>, Said> {
    if *shared.phase.borrow() >= Phase::Draining {
        return Err(Said::failed(FailKind::Draining).closing());
    }
    shared.asking.try_acquire().map_err(|_| Said::failed(FailKind::Busy))
}

/// Reads the body of a request that is refused without it, so that the connection can be kept; not a long one, and not
/// for long.
pub(super) async fn skip(shared: &Shared, body: Body) {
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

/// Who asks for this, if they may; a token that is shown and does not fit is refused, whatever is asked.
pub(super) async fn caller(shared: &Shared, guest: &Guest, headers: &HeaderMap, op: Op) -> Result<Caller, Said> {
    let caller = match Caller::of_headers(shared, guest.port, headers) {
        Ok(caller) => caller,
        Err(why) => {
            shared.guessed(guest, &why).await;
            return Err(Said::rejected(why));
        }
    };
    // What is denied counts as well.
    let asked = shared.budgets.request(&caller.owners(guest), weight_of(op), Instant::now());
    asked.map_err(|over| Said::rejected(over.rejection()))?;
    match caller.access.may(shared, op) {
        Ok(()) => Ok(caller),
        Err(Denied::Refused(denial, why)) => {
            caller.denied(shared, denial, &why);
            Err(Said::rejected(why))
        }
        Err(Denied::Failed(kind)) => Err(Said::failed(kind)),
    }
}

/// The request of a `POST`: its body is the op's.
pub(super) async fn posted(shared: &Shared, op: Op, headers: &HeaderMap, body: Body) -> Result<Request, Said> {
    let body = body_of(shared, op, headers, body).await?;
    if !body.is_empty() && !is_json(headers) {
        // Browsers ask before they send this type for a page of another origin; others they just send.
        return Err(bad_request("a body is of the type application/json"));
    }
    request(op, headers, &body)
}

/// The request of a `GET`: its query string is the op's body.
pub(super) fn queried(op: Op, headers: &HeaderMap, uri: &Uri) -> Result<Request, Said> {
    let Query(fields) = Query::<Vec<(String, String)>>::try_from_uri(uri)
        .map_err(|_| bad_request("the query string is not made of `field=value`"))?;
    let fields = fields.into_iter().map(|(name, value)| (name.into(), value.into()));
    let body = schema::body_of_query(op, fields).map_err(Said::rejected)?;
    request(op, headers, &body)
}

/// How long the client waits, in milliseconds, if it says so.
pub(super) fn deadline_ms(headers: &HeaderMap) -> Result<Option<u64>, Said> {
    let Some(value) = text(headers, DEADLINE).map_err(Said::rejected)? else { return Ok(None) };
    let is_whole = !value.is_empty() && value.bytes().all(|digit| digit.is_ascii_digit());
    // More digits than a number has is a long time all the same.
    let parsed = is_whole.then(|| value.parse().unwrap_or(u64::MAX));
    parsed.map(Some).ok_or_else(|| bad_request("Boxoffice-Deadline-Ms is a whole number of milliseconds"))
}

fn request(op: Op, headers: &HeaderMap, body: &[u8]) -> Result<Request, Said> {
    let rid = text(headers, REQUEST_ID).map_err(Said::rejected)?;
    alone::request(op, rid, deadline_ms(headers)?, body).map_err(Said::rejected)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.and_then(|kind| kind.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// The whole body, if it is no longer than the op's may be and is there in time.
async fn body_of(shared: &Shared, op: Op, headers: &HeaderMap, body: Body) -> Result<BytesMut, Said> {
    whole(shared, headers, body, alone::body_bytes_max(op)).await
}

/// The whole body, if it has at most so many bytes and is there in time.
pub(super) async fn whole(shared: &Shared, headers: &HeaderMap, body: Body, most: usize) -> Result<BytesMut, Said> {
    let too_long = || Said::rejected(alone::too_long(most)).closing();
    let claimed = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if claimed.is_some_and(|claimed| claimed > most) {
        return Err(too_long());
    }
    let reading = async {
        let mut whole = BytesMut::with_capacity(claimed.unwrap_or(0).min(RESERVED_BYTES));
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| bad_request("the body broke off").closing())?;
            if whole.len() + chunk.len() > most {
                return Err(too_long());
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole)
    };
    within(shared.config.limits.whole_frame_timeout, reading).await.unwrap_or_else(|| Err(Said::too_slow()))
}

fn bad_request(words: &str) -> Said {
    Said::rejected(Rejection::bad_request(words))
}

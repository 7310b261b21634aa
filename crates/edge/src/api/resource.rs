//! `GET /v1/sessions/{id}/layout` and `…/map`: a session's layout and map, with entity tags.
//!
//! In a rush all clients load both here, through any caches in between, and then watch with `resume`. So no snapshot goes
//! over a socket. A layout that every stranger may read is compressed.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    body::Body,
    extract::{Path, Request as HttpRequest, State, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use boxoffice_core::{
    answer::{Answer, Answered, SessionView},
    command::{Command, SessionCommand},
    id::Id,
};
use boxoffice_wire::{
    Encoding, Op, Rejection,
    call::Shape,
    encode::Verdict,
    http,
    limits::{DEADLINE_MS, DEADLINE_MS_MAX},
    path::{Opening, Path as RoutePath},
};
use bytes::BytesMut;
use tokio::time::Instant;

use super::{answer::ApiAnswer, input, ops::owe_answer, origin::Origin};
use crate::{
    access::{Access, Row},
    budgets::Owners,
    coding::{self, Coding},
    etag::is_known,
    planted,
    shared::{ConnectionPermit, Port, Shared},
    submission::Submission,
    unsent::{self, AnswerBytes},
};

/// The media types of MessagePack: the usual one and the registered one.
const MSGPACK: [&str; 2] = ["application/msgpack", "application/vnd.msgpack"];

/// A resource of a session.
struct Resource {
    op: Op,
    command: SessionCommand,
    /// The cache control of an answer that every stranger may have, and of one for the caller alone.
    cache: [&'static str; 2],
}

/// Answers with a session's layout. It never changes.
pub(crate) async fn layout(
    State(shared): State<Arc<Shared>>,
    id: Result<Path<String>, PathRejection>,
    request: HttpRequest,
) -> Response {
    let cache = ["public, max-age=3600", "private, max-age=3600"];
    answer(shared, id, request, Resource { op: op_of(RoutePath::Layout), command: SessionCommand::Get, cache }).await
}

/// Answers with a session's map. Caches check it each time, and get it only if it has changed.
pub(crate) async fn map(
    State(shared): State<Arc<Shared>>,
    id: Result<Path<String>, PathRejection>,
    request: HttpRequest,
) -> Response {
    let resource =
        Resource { op: op_of(RoutePath::Map), command: SessionCommand::Map, cache: ["no-cache", "private, no-cache"] };
    answer(shared, id, request, resource).await
}

/// The op whose row of the permission table a resource has, at either port.
fn op_of(path: RoutePath) -> Op {
    match (path.at_clients_port(), path.at_operators_port()) {
        (Opening::As(op), Opening::As(other)) if op == other => op,
        other => unreachable!("a resource is read as by one op, and not as by {other:?}"),
    }
}

async fn answer(
    shared: Arc<Shared>,
    id: Result<Path<String>, PathRejection>,
    mut request: HttpRequest,
    resource: Resource,
) -> Response {
    let permit = input::permit(&mut request);
    let (parts, body) = request.into_parts();
    let (method, headers) = (parts.method.clone(), &parts.headers);
    let origin = Origin::of(&shared, headers);
    let given = method.clone();
    let shown = async {
        input::skip_body(&shared, body).await;
        if !matches!(given, Method::GET | Method::HEAD) {
            return ApiAnswer::wrong_method("GET, HEAD").response();
        }
        let at = Instant::now();
        let id = id.ok().and_then(|Path(id)| Id::new(&id));
        let Some(id) = id else {
            return ApiAnswer::rejected(Rejection::bad_request("this is no session's id")).response();
        };
        let (verdict, owners) = match read(&shared, &permit, id, &parts, &resource).await {
            Ok(read) => read,
            Err(answer) => return answer.response(),
        };
        let shown = match verdict {
            Verdict::Ok(Answered { answer, .. }, _) => {
                let is_public = is_public(&shared, &permit, headers, &resource);
                let cache = resource.cache[usize::from(!is_public)];
                match &answer {
                    Answer::Session(session) if is_public || planted::is("private layouts are compressed") => {
                        Ok(pack(&shared, &owners, session, headers, cache).await)
                    }
                    _ => Ok(show(&answer, headers, cache)),
                }
            }
            other => Err(ApiAnswer::verdict(other)),
        };
        let ended = shown.as_ref().map_or_else(ApiAnswer::ended, |_| crate::metrics::Ended::Ok);
        shared.metrics.ended(resource.op, ended, at.elapsed());
        let response = shown.unwrap_or_else(ApiAnswer::response);
        owe_answer(&shared, &owners, &response);
        response
    };
    origin.answer(method, shown).await
}

/// Whether every stranger may have an answer. A cache between clients and the node may hand such a one on. It asks no key, so an answer
/// to credentials is for the caller alone, and so is one of the operators' port.
fn is_public(shared: &Shared, permit: &ConnectionPermit, headers: &HeaderMap, resource: &Resource) -> bool {
    permit.port == Port::Clients
        && !headers.contains_key(header::AUTHORIZATION)
        && Access::of_nothing(shared, Port::Clients).may(shared, Row::Op(resource.op)).is_ok()
}

/// The session's verdict, and whom it is charged to.
async fn read(
    shared: &Arc<Shared>,
    permit: &ConnectionPermit,
    id: Id,
    parts: &Parts,
    resource: &Resource,
) -> Result<(Verdict, Owners), ApiAnswer> {
    let deadline_ms = input::deadline_ms(&parts.headers)?.unwrap_or(DEADLINE_MS).min(DEADLINE_MS_MAX);
    let caller = input::caller(shared, permit, parts, resource.op).await?;
    let owners = caller.owners(permit);
    let _slot = input::enter(shared)?;
    let deadline = Instant::now() + Duration::from_millis(deadline_ms);
    let submission = Submission::begin(shared, permit, caller, deadline).map_err(ApiAnswer::failed)?;
    let command = Command::Session(id, resource.command.clone());
    Ok((submission.command(Some(resource.op), command, None, Shape::Plain).await, owners))
}

/// The answer without a coding and with its tag, or 304 if the client has it.
fn show(answer: &Answer, headers: &HeaderMap, cache: &'static str) -> Response {
    let (encoding, kind) = accepted(headers);
    let mark = mark(encoding);
    let tag = match answer {
        Answer::Session(session) => layout_tag(session, encoding, Coding::Identity),
        Answer::Map(map) => format!("\"{}-{}{mark}\"", map.epoch, map.version),
        other => unreachable!("a session was asked for its layout or its map and said {other:?}"),
    };
    let body = || {
        unsent::body(|out| match answer {
            Answer::Session(session) => http::layout(encoding, out, &session.layout),
            Answer::Map(map) => http::map(encoding, out, map),
            other => unreachable!("a session was asked for its layout or its map and said {other:?}"),
        })
    };
    let mut response = respond(headers, &tag, kind, cache, body);
    // Layouts that are not public have one coding, but a cache that sees both kinds must not mix them up.
    if matches!(answer, Answer::Session(_)) {
        Coding::Identity.tell(response.headers_mut());
    }
    response
}

/// A layout that every stranger may have, in the coding that the client likes most. Brotli is there some time after the first such
/// client.
async fn pack(
    shared: &Shared,
    owners: &Owners,
    session: &Arc<SessionView>,
    headers: &HeaderMap,
    cache: &'static str,
) -> Response {
    let liked = coding::preferred(headers, &[Coding::Brotli, Coding::Gzip]);
    let takes_gzip = coding::preferred(headers, &[Coding::Gzip]) == Coding::Gzip;
    if !takes_gzip {
        return show(&Answer::Session(Arc::clone(session)), headers, cache);
    }
    let (encoding, kind) = accepted(headers);
    let layout = Arc::clone(&session.layout);
    let plain = move || {
        let mut out = BytesMut::new();
        http::layout(encoding, &mut out, &layout);
        out.freeze()
    };
    let key = (session.layout.digest(), encoding);
    let packed = shared.packed_layouts.get(key, plain.clone()).await;
    // The one for whom it was compressed pays for that as for an answer that is written.
    shared.budgets.owe(owners, AnswerBytes::own(packed.worked_on).weight(), Instant::now());
    let Some(gzip) = packed.gzip else {
        return show(&Answer::Session(Arc::clone(session)), headers, cache);
    };
    let tag = |coding| layout_tag(session, encoding, coding);
    let (coding, bytes) = match packed.brotli {
        // What the client has is as good.
        Some(brotli) if liked == Coding::Brotli && !is_known(headers, &tag(Coding::Gzip)) => (Coding::Brotli, brotli),
        Some(_) | None => (Coding::Gzip, gzip),
    };
    if liked == Coding::Brotli && coding == Coding::Gzip {
        shared.packed_layouts.shrink(key, plain);
    }
    let tag = tag(coding);
    let mut response = respond(headers, &tag, kind, cache, || unsent::shared_body(bytes));
    coding.tell(response.headers_mut());
    response
}

/// An answer with its tag, or 304 if the client has it.
fn respond(
    headers: &HeaderMap,
    tag: &str,
    kind: &'static str,
    cache: &'static str,
    body: impl FnOnce() -> (Body, AnswerBytes),
) -> Response {
    let mut response = if is_known(headers, tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let (body, bytes) = body();
        ([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], Extension(bytes), body).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, HeaderValue::from_str(tag).expect("digits are fit for a header"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.append(header::VARY, HeaderValue::from_static("accept, authorization"));
    response
}

/// The tag of a session's layout.
fn layout_tag(session: &SessionView, encoding: Encoding, coding: Coding) -> String {
    format!("\"{:016x}{}{}\"", session.layout.digest(), mark(encoding), coding.mark())
}

/// What a tag has for an encoding. A tag stands for bytes, so the two encodings have different tags.
fn mark(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Json => "",
        Encoding::MsgPack => "-m",
    }
}

/// The encoding that a client prefers, and its media type. JSON if the client has no preference.
fn accepted(headers: &HeaderMap) -> (Encoding, &'static str) {
    let ranges = headers.get_all(header::ACCEPT).iter().filter_map(|list| list.to_str().ok());
    let mut best = (0, (Encoding::Json, "application/json"));
    for range in ranges.flat_map(|list| list.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(1_000, coding::thousandths);
        let named = MSGPACK.into_iter().find(|name| kind.eq_ignore_ascii_case(name));
        let wanted = match named {
            Some(name) => (Encoding::MsgPack, name),
            None => (Encoding::Json, "application/json"),
        };
        let is_ours = named.is_some() || ["application/json", "application/*", "*/*"].contains(&kind);
        if is_ours && weight > best.0 {
            best = (weight, wanted);
        }
    }
    best.1
}

//! `POST /v1/{op}` and `GET /v1/{op}?…`: a command, its answer.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::{
    extract::{Request as HttpRequest, State},
    http::{Method, request::Parts},
    response::Response,
};
use boxoffice_wire::{
    Call, Op, Rejection, Request,
    schema::{self, Doors},
};
use smol_str::{SmolStr, format_smolstr};
use tokio::time::Instant;

use super::{
    origin::Origin,
    question,
    said::{Body, Said},
};
use crate::{
    caller::Caller,
    errand::{self, Errand},
    failures::not_of_a_node,
    members,
    shared::{Guest, Shared},
    waiting::Waiting,
};

/// The longest part of an unknown op's name that is repeated to the client, in characters.
const NAME_SHOWN: usize = 40;

/// Answers a request for an op.
pub(super) async fn op(State(shared): State<Arc<Shared>>, mut request: HttpRequest) -> Response {
    let guest = guest(&mut request);
    let origin = Origin::of(&shared, request.headers());
    let method = request.method().clone();
    origin.answer(method, async move { ask(&shared, &guest, request).await.response() }).await
}

/// The connection that a request came over.
pub(super) fn guest(request: &mut HttpRequest) -> Arc<Guest> {
    request.extensions_mut().remove::<Arc<Guest>>().expect("the accept loop lets guests in")
}

async fn ask(shared: &Arc<Shared>, guest: &Arc<Guest>, request: HttpRequest) -> Said {
    let at = Instant::now();
    let (parts, body) = request.into_parts();
    let rejected = |said: Said| {
        shared.metrics.rejected_frames.fetch_add(1, Ordering::Relaxed);
        said
    };
    let (op, is_query, caller) = match permitted(shared, guest, &parts).await {
        Ok(permitted) => permitted,
        Err(said) => {
            question::skip(shared, body).await;
            return rejected(said);
        }
    };
    let said = match question::enter(shared) {
        Ok(_permit) => {
            let asked = if is_query {
                question::queried(op, &parts.headers, &parts.uri)
            } else {
                question::posted(shared, op, &parts.headers, body).await
            };
            match asked {
                Ok(request) => done(shared, guest, caller, request).await,
                Err(said) => return rejected(said),
            }
        }
        Err(said) => said,
    };
    shared.metrics.ended(op, said.ended(), at.elapsed());
    said
}

/// The op that is asked, whether by its query string, and by whom; if there is one, and its caller may. The body is not
/// looked at.
async fn permitted(shared: &Shared, guest: &Guest, parts: &Parts) -> Result<(Op, bool, Caller), Said> {
    let name = parts.uri.path().trim_start_matches("/v1/");
    let Some(op) = Op::from_name(name) else {
        let shown: String = name.chars().take(NAME_SHOWN).collect();
        return Err(Said::rejected(Rejection::UnknownOp(SmolStr::new(shown))));
    };
    let is_query = match (schema::of(op).doors, &parts.method) {
        (Doors::Sockets, _) => {
            let words = format_smolstr!("`{}` is about a WebSocket connection: /v1/ws", op.name());
            return Err(Said::rejected(Rejection::bad_request(words)));
        }
        (Doors::Post | Doors::PostAndGet, &Method::POST) => false,
        (Doors::PostAndGet, &Method::GET | &Method::HEAD) => true,
        (Doors::Post, _) => return Err(Said::wrong_method("POST")),
        (Doors::PostAndGet, _) => return Err(Said::wrong_method("GET, HEAD, POST")),
    };
    let caller = question::caller(shared, guest, &parts.headers, op).await?;
    Ok((op, is_query, caller))
}

/// What becomes of a request.
async fn done(shared: &Arc<Shared>, guest: &Arc<Guest>, caller: Caller, request: Request) -> Said {
    let Request { op, deadline_ms, key, shape, mut call, .. } = request;
    if let Err(why) = caller.admit(shared, &mut call) {
        return Said::rejected(why);
    }
    let deadline = Instant::now() + Duration::from_millis(deadline_ms);
    match call {
        Call::Command(command) => match Waiting::begin(shared, guest, caller, deadline) {
            Ok(waiting) => Said::verdict(waiting.command(command, key, shape).await),
            Err(kind) => Said::failed(kind),
        },
        Call::Batch(items) => match Waiting::begin(shared, guest, caller, deadline) {
            Ok(waiting) => Said::ok(Body::Batch(waiting.batch(items).await)),
            Err(kind) => Said::failed(kind),
        },
        Call::Status => Said::ok(Body::Status(shared.status())),
        Call::Shards => Said::ok(Body::Shards(members::shard_map(shared))),
        Call::AuditNode if !caller.access.venues.is_empty() => Said::rejected(not_of_a_node()),
        Call::AuditNode => gone_about(shared, guest, Errand::Audit, deadline).await,
        Call::SearchCity(search) => gone_about(shared, guest, Errand::City(search), deadline).await,
        Call::History { entity, seat, limit, before } => {
            let venues = Arc::clone(&caller.access.venues);
            gone_about(shared, guest, Errand::History { entity, seat, limit, before, venues }, deadline).await
        }
        Call::Hello(_) | Call::Watch { .. } | Call::WatchCounts { .. } | Call::Unwatch { .. } => {
            unreachable!("`{}` is about a connection and was refused for it", op.name())
        }
    }
}

async fn gone_about(shared: &Arc<Shared>, guest: &Arc<Guest>, errand: Errand, deadline: Instant) -> Said {
    match errand::run(Arc::clone(shared), Arc::clone(guest), errand, deadline).await {
        Ok(found) => Said::ok(Body::Found(found)),
        Err(verdict) => Said::verdict(*verdict),
    }
}

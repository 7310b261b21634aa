//! `POST /v1/{op}` and `GET /v1/{op}?…`.

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
    path::Price,
    rejection,
    schema::{self, HttpMethods},
};
use smol_str::format_smolstr;
use tokio::time::Instant;

use super::{
    answer::{ApiAnswer, Body},
    input,
    origin::Origin,
};
use crate::{
    budgets::Owners,
    caller::Caller,
    fan_out::{self, FanOutQuery},
    members,
    shared::{ConnectionPermit, Shared},
    submission::Submission,
    unsent::AnswerBytes,
};

/// The longest part of an unknown op's name that is repeated to the client, in characters.
const NAME_SHOWN: usize = 40;

/// Answers a request for an op.
pub(crate) async fn op(State(shared): State<Arc<Shared>>, mut request: HttpRequest) -> Response {
    let permit = input::permit(&mut request);
    let origin = Origin::of(&shared, request.headers());
    let method = request.method().clone();
    let answered = async move {
        let (answer, owners) = answer(&shared, &permit, request).await;
        let response = answer.response();
        owe_answer(&shared, &owners, &response);
        response
    };
    origin.answer(method, answered).await
}

/// Charges what an answer costs by its length.
pub(super) fn owe_answer(shared: &Shared, owners: &Owners, response: &Response) {
    if let Some(bytes) = response.extensions().get::<AnswerBytes>() {
        shared.budgets.owe(owners, bytes.weight(), Instant::now());
    }
}

/// The answer, and whom it is charged to.
async fn answer(shared: &Arc<Shared>, permit: &Arc<ConnectionPermit>, request: HttpRequest) -> (ApiAnswer, Owners) {
    let at = Instant::now();
    let (parts, body) = request.into_parts();
    let rejected = |answer: ApiAnswer| {
        shared.metrics.rejected_frames.fetch_add(1, Ordering::Relaxed);
        answer
    };
    let (op, is_query, caller) = match permitted(shared, permit, &parts).await {
        Ok(permitted) => permitted,
        Err(answer) => {
            input::skip_body(shared, body).await;
            return (rejected(answer), Owners::new());
        }
    };
    let owners = caller.owners(permit);
    let answer = match input::enter(shared) {
        Ok(_slot) => {
            let request = if is_query {
                input::from_query(shared, op, &parts.headers, &parts.uri).map(|request| (request, 0))
            } else {
                input::from_body(shared, op, &parts.headers, body).await
            };
            match request {
                Ok((request, bytes)) => match input::charge_size(shared, permit, &owners, &request.call, bytes) {
                    Ok(()) => carry_out(shared, permit, caller, request).await,
                    Err(over) => over,
                },
                Err(answer) => return (rejected(answer), owners),
            }
        }
        Err(answer) => answer,
    };
    shared.metrics.ended(op, answer.ended(), at.elapsed());
    (answer, owners)
}

/// The refusal of a path below `/v1/` that names no op.
pub(super) fn unknown_op(name: &str) -> ApiAnswer {
    let shown: String = name.chars().take(NAME_SHOWN).collect();
    ApiAnswer::rejected(rejection::unknown_op(&shown))
}

/// The op of a request, whether its body is the query string, and the caller. Checks that there is such an op and that the
/// caller may use it, before the body is read.
async fn permitted(
    shared: &Arc<Shared>,
    permit: &ConnectionPermit,
    parts: &Parts,
) -> Result<(Op, bool, Caller), ApiAnswer> {
    let name = parts.uri.path().trim_start_matches("/v1/");
    let Some(op) = Op::from_name(name) else {
        charge(permit)?;
        return Err(unknown_op(name));
    };
    let query = match (schema::of(op).methods, &parts.method) {
        (HttpMethods::None, _) => {
            let words = format_smolstr!("`{}` is about a WebSocket connection: /v1/ws", op.name());
            Err(ApiAnswer::rejected(Rejection::bad_request(words)))
        }
        (HttpMethods::Post | HttpMethods::PostAndGet, &Method::POST) => Ok(false),
        (HttpMethods::PostAndGet, &Method::GET | &Method::HEAD) => Ok(true),
        (HttpMethods::Post, _) => Err(ApiAnswer::wrong_method("POST")),
        (HttpMethods::PostAndGet, _) => Err(ApiAnswer::wrong_method("GET, HEAD, POST")),
    };
    if query.is_err() {
        charge(permit)?;
    }
    let is_query = query?;
    let caller = input::caller(shared, permit, parts, op).await?;
    Ok((op, is_query, caller))
}

/// Charges a request that is none of an op.
fn charge(permit: &ConnectionPermit) -> Result<(), ApiAnswer> {
    permit.charge(Price::Requests(1)).map_err(|over| ApiAnswer::rejected(over.rejection()).closing())
}

/// Carries out a request.
async fn carry_out(
    shared: &Arc<Shared>,
    permit: &Arc<ConnectionPermit>,
    caller: Caller,
    request: Request,
) -> ApiAnswer {
    let Request { op, deadline_ms, patience_ms, key, shape, mut call, .. } = request;
    if let Err(denied) = caller.admit((shared, permit.address()), op, &mut call) {
        return input::denied(shared, &caller, denied);
    }
    let deadline = Instant::now() + Duration::from_millis(deadline_ms);
    match call {
        Call::Command(command) => match Submission::begin(shared, permit, caller, deadline) {
            Ok(submission) => {
                let submission = submission.with_spare(patience_ms - deadline_ms);
                ApiAnswer::verdict(submission.command(Some(op), command, key, shape).await)
            }
            Err(kind) => ApiAnswer::failed(kind),
        },
        Call::Batch(items) => match Submission::begin(shared, permit, caller, deadline) {
            Ok(submission) => ApiAnswer::ok(Body::Batch(submission.batch(items).await)),
            Err(kind) => ApiAnswer::failed(kind),
        },
        Call::Status => ApiAnswer::ok(Body::Status(shared.status())),
        Call::Shards => ApiAnswer::ok(Body::Shards(members::shard_map(shared))),
        Call::AuditNode => run_query(shared, permit, &caller, FanOutQuery::Audit, deadline).await,
        Call::AuditWithCarts(command) => {
            let venues = Arc::clone(&caller.access.venues);
            run_query(shared, permit, &caller, FanOutQuery::AuditWithCarts { command, venues }, deadline).await
        }
        Call::NamedOrder(command) => {
            let query = FanOutQuery::NamedOrder { command, caller: Box::new(caller.clone()) };
            run_query(shared, permit, &caller, query, deadline).await
        }
        Call::SearchCity(search) => run_query(shared, permit, &caller, FanOutQuery::City(search), deadline).await,
        Call::Backup(query) => {
            let by = caller.access.name.clone();
            run_query(shared, permit, &caller, FanOutQuery::Backup { query, by }, deadline).await
        }
        Call::History { entity, seat, limit, before } => {
            let venues = Arc::clone(&caller.access.venues);
            run_query(shared, permit, &caller, FanOutQuery::History { entity, seat, limit, before, venues }, deadline)
                .await
        }
        Call::AsOf { entity, at } => {
            let venues = Arc::clone(&caller.access.venues);
            run_query(shared, permit, &caller, FanOutQuery::AsOf { entity, at, venues }, deadline).await
        }
        Call::Hello(_) | Call::Watch { .. } | Call::WatchCounts { .. } | Call::Unwatch { .. } => {
            unreachable!("`{}` is about a connection and was refused for it", op.name())
        }
    }
}

async fn run_query(
    shared: &Arc<Shared>,
    permit: &Arc<ConnectionPermit>,
    caller: &Caller,
    query: FanOutQuery,
    deadline: Instant,
) -> ApiAnswer {
    match fan_out::run(Arc::clone(shared), Arc::clone(permit), caller.owners(permit), query, deadline).await {
        Ok(result) => ApiAnswer::ok(Body::QueryResult(result)),
        Err(verdict) => ApiAnswer::verdict(*verdict),
    }
}

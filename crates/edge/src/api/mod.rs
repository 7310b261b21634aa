//! The commands by HTTP: `POST /v1/{op}`, reads also by `GET`, layouts and maps as resources, and the OpenAPI document.
//!
//! The same requests go the same way as on a WebSocket connection: read by `wire`, held against the same limits, submitted
//! to the same backend. Which ops there are and how they are asked is in [`boxoffice_wire::schema`].

// In reading order: how answers are written, who may ask from where, what was asked, the routes.
mod said;

mod origin;

mod question;

mod ask;
mod resource;
mod webhook;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::{Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::any,
};
use boxoffice_wire::{Rejection, schema};
use smol_str::SmolStr;

pub(crate) use self::origin::Origin;
use self::said::Said;
use crate::shared::Shared;

/// The routes of the API; what is asked for elsewhere under `/v1/` is told that there is no such thing.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/openapi.json", any(document))
        .route("/v1/sessions/{id}/layout", any(resource::layout))
        .route("/v1/sessions/{id}/map", any(resource::map))
        .route("/v1/payments/webhook", any(webhook::webhook))
        .route("/v1/{op}", any(ask::op))
        .fallback(nowhere)
}

async fn document(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let origin = Origin::of(&shared, request.headers());
    let method = request.method().clone();
    origin
        .answer(method.clone(), async move {
            question::skip(&shared, request.into_body()).await;
            if !matches!(method, Method::GET | Method::HEAD) {
                return Said::wrong_method("GET, HEAD").response();
            }
            ([(header::CONTENT_TYPE, "application/json")], schema::document()).into_response()
        })
        .await
}

async fn nowhere(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let path = request.uri().path();
    if !path.starts_with("/v1/") {
        return StatusCode::NOT_FOUND.into_response();
    }
    let (origin, method) = (Origin::of(&shared, request.headers()), request.method().clone());
    let answer = async move {
        question::skip(&shared, request.into_body()).await;
        Said::rejected(Rejection::UnknownOp(SmolStr::new_static("at this path"))).response()
    };
    origin.answer(method, answer).await
}

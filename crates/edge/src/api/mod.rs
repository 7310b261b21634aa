//! The HTTP API: `POST /v1/{op}`, reads also by `GET`, layouts and maps as resources, and the OpenAPI document.
//!
//! Requests take the same way as those on a WebSocket connection. The crate `wire` reads them, the same limits apply, and
//! the same backend gets them. [`boxoffice_wire::schema`] lists the ops and their methods.

// In reading order: answers, origins, the input of requests, the routes.
mod answer;
mod origin;

mod input;

mod ops;
mod resource;
mod webhook;

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use boxoffice_wire::{path::Price, schema};

use self::answer::ApiAnswer;
pub(crate) use self::{
    ops::op,
    origin::Origin,
    resource::{layout, map},
    webhook::webhook,
};
use crate::shared::Shared;

/// Answers with the OpenAPI document.
pub(crate) async fn document(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let origin = Origin::of(&shared, request.headers());
    let method = request.method().clone();
    origin
        .answer(method.clone(), async move {
            input::skip_body(&shared, request.into_body()).await;
            if !matches!(method, Method::GET | Method::HEAD) {
                return ApiAnswer::wrong_method("GET, HEAD").response();
            }
            ([(header::CONTENT_TYPE, "application/json")], schema::document()).into_response()
        })
        .await
}

/// Answers for a path that the node does not have. Those below `/v1/` are unknown ops.
pub(crate) async fn nowhere(State(shared): State<Arc<Shared>>, mut request: Request) -> Response {
    // A path that is not there costs as much as one that is.
    if let Err(over) = input::permit(&mut request).charge(Price::Requests(1)) {
        return ApiAnswer::rejected(over.rejection()).closing().response();
    }
    let Some(name) = request.uri().path().strip_prefix("/v1/") else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let refusal = ops::unknown_op(name);
    let (origin, method) = (Origin::of(&shared, request.headers()), request.method().clone());
    let answer = async move {
        input::skip_body(&shared, request.into_body()).await;
        refusal.response()
    };
    origin.answer(method, answer).await
}

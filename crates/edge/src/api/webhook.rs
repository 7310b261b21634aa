//! `POST /v1/payments/webhook`: the payment gateway reports the outcome of a step by itself.
//!
//! A webhook needs a valid signature. The answer is 200 only after the cart has committed the webhook's effect. After any
//! other answer the gateway delivers again, and a repeated delivery changes nothing.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::{
    extract::{Request as HttpRequest, State},
    http::{HeaderMap, Method},
    response::Response,
};
use boxoffice_core::command::{CartCommand, Command};
use boxoffice_wire::{
    Rejection,
    call::Shape,
    limits::{DEADLINE_MS, FRAME_BYTES_MAX},
    path::Price,
    webhook::{SIGNATURE_HEADER, WebhookRefusal, verify},
};
use tokio::time::Instant;

use super::{answer::ApiAnswer, input};
use crate::{caller::Caller, shared::Shared, submission::Submission};

/// Takes a webhook.
pub(crate) async fn webhook(State(shared): State<Arc<Shared>>, mut request: HttpRequest) -> Response {
    let permit = input::permit(&mut request);
    let (parts, body) = request.into_parts();
    if parts.method != Method::POST {
        input::skip_body(&shared, body).await;
        return ApiAnswer::wrong_method("POST").response();
    }
    let answer = async {
        let _slot = input::enter(&shared)?;
        let body = input::whole(&shared, &parts.headers, body, FRAME_BYTES_MAX).await?;
        let signature = signature(&parts.headers)?;
        let secrets = &shared.config.webhook_secrets;
        let event = verify(secrets, signature, &body, shared.backend.now()).map_err(refused)?;
        // The cart gets the event only after its signature was verified.
        let deadline = Instant::now() + Duration::from_millis(DEADLINE_MS);
        let submission = Submission::begin(&shared, &permit, Caller::default(), deadline).map_err(ApiAnswer::failed)?;
        let paid = CartCommand::Paid { key: event.key, step: event.step, outcome: event.outcome };
        Ok(ApiAnswer::verdict(submission.command(None, Command::Cart(event.key.cart, paid), None, Shape::Plain).await))
    };
    let answer: ApiAnswer = answer.await.unwrap_or_else(|refused| match permit.charge(Price::Requests(1)) {
        Ok(()) => refused,
        Err(over) => ApiAnswer::rejected(over.rejection()).closing(),
    });
    shared.metrics.webhooks[answer.ended() as usize].fetch_add(1, Ordering::Relaxed);
    answer.response()
}

fn signature(headers: &HeaderMap) -> Result<Option<&str>, ApiAnswer> {
    let mut values = headers.get_all(SIGNATURE_HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (value.to_str(), values.next()) {
        (Ok(value), None) => Ok(Some(value)),
        (Ok(_) | Err(_), _) => Err(refused(WebhookRefusal::Malformed)),
    }
}

/// The answer to a refused webhook. A sender that does not prove to be the gateway is not authenticated.
fn refused(why: WebhookRefusal) -> ApiAnswer {
    let words = why.to_string();
    match why {
        WebhookRefusal::Missing | WebhookRefusal::BadSignature => {
            ApiAnswer::rejected(Rejection::Unauthenticated(words.into()))
        }
        WebhookRefusal::Malformed | WebhookRefusal::Stale | WebhookRefusal::BadBody(_) => {
            ApiAnswer::rejected(Rejection::bad_request(words))
        }
    }
}

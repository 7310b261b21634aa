//! `POST /v1/payments/webhook`: the payment gateway says by itself how a step ended.
//!
//! What it says is believed only with its signature, and answered 200 only when the cart has committed what follows from
//! it: a gateway that hears anything else delivers again, and a delivery that came before changes nothing.

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
    webhook::{SIGNATURE_HEADER, WebhookRefusal, verify},
};
use tokio::time::Instant;

use super::{ask, question, said::Said};
use crate::{caller::Caller, shared::Shared, waiting::Waiting};

/// Takes a webhook.
pub(super) async fn webhook(State(shared): State<Arc<Shared>>, mut request: HttpRequest) -> Response {
    let guest = ask::guest(&mut request);
    let (parts, body) = request.into_parts();
    if parts.method != Method::POST {
        question::skip(&shared, body).await;
        return Said::wrong_method("POST").response();
    }
    let said = async {
        let _permit = question::enter(&shared)?;
        let body = question::whole(&shared, &parts.headers, body, FRAME_BYTES_MAX).await?;
        let signature = signature(&parts.headers)?;
        let secrets = &shared.config.webhook_secrets;
        let event = verify(secrets, signature, &body, shared.backend.now()).map_err(refused)?;
        // No cart is woken for what it says before its signature was found good.
        let deadline = Instant::now() + Duration::from_millis(DEADLINE_MS);
        let waiting = Waiting::begin(&shared, &guest, Caller::default(), deadline).map_err(Said::failed)?;
        let paid = CartCommand::Paid { key: event.key, step: event.step, outcome: event.outcome };
        Ok(Said::verdict(waiting.command(Command::Cart(event.key.cart, paid), None, Shape::Plain).await))
    };
    let said: Said = said.await.unwrap_or_else(|said| said);
    shared.metrics.webhooks[said.ended() as usize].fetch_add(1, Ordering::Relaxed);
    said.response()
}

fn signature(headers: &HeaderMap) -> Result<Option<&str>, Said> {
    let mut values = headers.get_all(SIGNATURE_HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (value.to_str(), values.next()) {
        (Ok(value), None) => Ok(Some(value)),
        (Ok(_) | Err(_), _) => Err(refused(WebhookRefusal::Malformed)),
    }
}

/// Who cannot prove to be the gateway is not authenticated; everything else is a request that is wrong.
fn refused(why: WebhookRefusal) -> Said {
    let words = why.to_string();
    match why {
        WebhookRefusal::Missing | WebhookRefusal::BadSignature => {
            Said::rejected(Rejection::Unauthenticated(words.into()))
        }
        WebhookRefusal::Malformed | WebhookRefusal::Stale | WebhookRefusal::BadBody(_) => {
            Said::rejected(Rejection::bad_request(words))
        }
    }
}

//! Reads an outcome from a response. It is definite only if the response is 200, JSON, small, complete and fits the
//! step.

use std::{error::Error, time::Duration};

use boxoffice_core::payment::{GatewayOutcome, PaymentStep};
use boxoffice_wire::payment::{GATEWAY_BODY_BYTES_MAX, GatewayAnswer, LIST_PATH, ListedPage, Misfit};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{HeaderMap, Response, StatusCode, body::Incoming, header::CONTENT_TYPE};

/// The outcome of a call is unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("no answer within {} ms", .0.as_millis())]
    TooLate(Duration),
    #[error("the connection failed: {0}")]
    Lost(String),
    #[error("it answered {0}, and only 200 says what was done{hint}", hint = hint(*.0))]
    Status(StatusCode),
    #[error("the answer is not application/json")]
    ContentType,
    #[error("the answer is longer than {GATEWAY_BODY_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the answer is not understood: {0}")]
    Misfit(Misfit),
    #[error("the list is not understood: {0}")]
    List(String),
    #[error("it has no list of authorizations (GET {LIST_PATH}), which the contract leaves open")]
    NoList,
}

/// A hint for the operator.
fn hint(status: StatusCode) -> &'static str {
    match status.as_u16() {
        300..=399 => "; redirects are not followed: is payments.url right?",
        401 | 403 => "; is payments.api_key right?",
        404 | 405 => "; is payments.url right?",
        409 => "; another body was asked for under this key",
        _ => "",
    }
}

impl CallError {
    /// Contains the whole chain of sources, because the first error alone says little.
    pub(super) fn lost(error: &(dyn Error + 'static)) -> CallError {
        let chain = std::iter::successors(Some(error), |error| (*error).source());
        CallError::Lost(chain.map(ToString::to_string).collect::<Vec<_>>().join(": "))
    }
}

pub(super) async fn read(step: PaymentStep, response: Response<Incoming>) -> Result<GatewayOutcome, CallError> {
    let (head, body) = response.into_parts();
    // The body of a refusal is read too, so that the connection can be reused.
    let body = whole(body).await;
    match head.status {
        StatusCode::OK if !is_json(&head.headers) => Err(CallError::ContentType),
        StatusCode::OK => {
            let answer = GatewayAnswer::read(&body?).map_err(CallError::Misfit)?;
            answer.outcome(step).map_err(CallError::Misfit)
        }
        StatusCode::ACCEPTED => Ok(GatewayOutcome::Unknown { reason: "pending".into() }),
        other => Err(CallError::Status(other)),
    }
}

/// Reads a page of a gateway's list.
pub(super) async fn read_list(response: Response<Incoming>) -> Result<ListedPage, CallError> {
    let (head, body) = response.into_parts();
    let body = whole(body).await;
    match head.status {
        StatusCode::OK if !is_json(&head.headers) => Err(CallError::ContentType),
        StatusCode::OK => serde_json::from_slice(&body?).map_err(|error| CallError::List(error.to_string())),
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => Err(CallError::NoList),
        other => Err(CallError::Status(other)),
    }
}

async fn whole(body: Incoming) -> Result<Bytes, CallError> {
    match Limited::new(body, GATEWAY_BODY_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(CallError::TooLarge),
        Err(error) => Err(CallError::lost(&*error)),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

//! From a response to an outcome: definite only if it is 200, JSON, small, whole, and says what belongs to the step.

use std::{error::Error, time::Duration};

use boxoffice_core::payment::{GatewayOutcome, PaymentStep};
use boxoffice_wire::payment::{GATEWAY_BODY_BYTES_MAX, GatewayAnswer, Misfit};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{HeaderMap, Response, StatusCode, body::Incoming, header::CONTENT_TYPE};

/// Why nothing certain is known.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
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
}

/// What an operator should look at.
fn hint(status: StatusCode) -> &'static str {
    match status.as_u16() {
        300..=399 => "; redirects are not followed: is payments.url right?",
        401 | 403 => "; is payments.api_key right?",
        404 | 405 => "; is payments.url right?",
        409 => "; another body was asked for under this key",
        _ => "",
    }
}

impl Trouble {
    /// With everything that stands behind the error, for its first words say little.
    pub(super) fn lost(error: &(dyn Error + 'static)) -> Trouble {
        let mut words = error.to_string();
        let mut behind = error.source();
        while let Some(error) = behind {
            words.push_str(": ");
            words.push_str(&error.to_string());
            behind = error.source();
        }
        Trouble::Lost(words)
    }
}

pub(super) async fn read(step: PaymentStep, response: Response<Incoming>) -> Result<GatewayOutcome, Trouble> {
    let (head, body) = response.into_parts();
    // The body of a refusal is read as well: the connection then serves the next call.
    let body = whole(body).await;
    match head.status {
        StatusCode::OK if !is_json(&head.headers) => Err(Trouble::ContentType),
        StatusCode::OK => {
            let answer = GatewayAnswer::read(&body?).map_err(Trouble::Misfit)?;
            answer.outcome(step).map_err(Trouble::Misfit)
        }
        StatusCode::ACCEPTED => Ok(GatewayOutcome::Unknown { reason: "pending".into() }),
        other => Err(Trouble::Status(other)),
    }
}

async fn whole(body: Incoming) -> Result<Bytes, Trouble> {
    match Limited::new(body, GATEWAY_BODY_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Trouble::TooLarge),
        Err(error) => Err(Trouble::lost(&*error)),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

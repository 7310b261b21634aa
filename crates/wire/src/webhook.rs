//! Signed webhooks, with which a gateway reports the outcome of a payment's step by itself.

use boxoffice_core::{
    id::Id,
    payment::{GatewayOutcome, PaymentKey, PaymentStep},
    time::Timestamp,
};
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use smol_str::SmolStr;

use crate::{
    mac::{self, MAC_BYTES},
    payment::{GatewayAnswer, Misfit, StepKey, plain},
    repr,
};

/// The header with the signature: `t=<unix seconds>,v1=<64 hexadecimal digits>`. Several `v1` during a rotation of secrets.
pub const SIGNATURE_HEADER: &str = "boxoffice-signature";

/// How far the signature's time may be from ours, in seconds. So a webhook that was intercepted cannot be replayed later.
pub const TOLERANCE_S: u64 = 5 * 60;

/// The longest signature header, in bytes.
const HEADER_BYTES_MAX: usize = 1_024;

/// The maximum of signatures in a header, since each costs a hash of the body for each secret.
const SIGNATURES_MAX: usize = 4;

/// A verified webhook. It may come twice, late or out of order. The cart takes it like an answer of the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookEvent {
    /// The gateway's id of this webhook, the same in every delivery.
    pub id: Id,
    /// The attempt.
    pub key: PaymentKey,
    pub step: PaymentStep,
    /// The outcome, never unknown.
    pub outcome: GatewayOutcome,
}

/// Why a webhook is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookRefusal {
    #[error("the header Boxoffice-Signature is missing")]
    Missing,
    #[error("Boxoffice-Signature is not `t=<unix seconds>,v1=<64 hexadecimal digits>`")]
    Malformed,
    /// It was signed too long ago, or in the future.
    #[error("it was signed more than {TOLERANCE_S} seconds away from now")]
    Stale,
    /// No signature was made with one of the secrets.
    #[error("no signature fits")]
    BadSignature,
    /// The signature is valid and the body is not.
    #[error("the body says nothing that is understood: {0}")]
    BadBody(SmolStr),
}

/// The body of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookBody {
    /// The gateway's id of this webhook.
    #[serde(with = "repr")]
    pub id: Id,
    /// The idempotency key of the step.
    #[serde(with = "repr")]
    pub key: StepKey,
    /// The outcome.
    #[serde(flatten)]
    pub answer: GatewayAnswer,
}

/// The header that signs `body` at this instant.
pub fn sign(secret: &[u8], at: Timestamp, body: &[u8]) -> String {
    let seconds = (at.0 / 1_000).to_string();
    let signature = mac_of(secret, &seconds, body).finalize().into_bytes().into();
    format!("t={seconds},v1={}", mac::written(&signature))
}

/// The event of a webhook that is signed with one of the secrets, not too far from `now`.
///
/// # Errors
/// [`WebhookRefusal`]. The body is read only after its signature was verified.
pub fn verify<S: AsRef<[u8]>>(
    secrets: &[S],
    header: Option<&str>,
    body: &[u8],
    now: Timestamp,
) -> Result<WebhookEvent, WebhookRefusal> {
    let signed = Signed::read(header.ok_or(WebhookRefusal::Missing)?).ok_or(WebhookRefusal::Malformed)?;
    // Everyone knows the empty secret.
    let mut secrets = secrets.iter().map(AsRef::as_ref).filter(|secret| !secret.is_empty());
    if !secrets.any(|secret| signed.fits(secret, body)) {
        return Err(WebhookRefusal::BadSignature);
    }
    if (now.0 / 1_000).abs_diff(signed.at_s) > TOLERANCE_S {
        return Err(WebhookRefusal::Stale);
    }
    event(body).map_err(|misfit| WebhookRefusal::BadBody(plain(&misfit.to_string())))
}

fn event(body: &[u8]) -> Result<WebhookEvent, Misfit> {
    let said: WebhookBody = serde_json::from_slice(body).map_err(|error| Misfit::Shape(plain(&error.to_string())))?;
    let StepKey { attempt: key, step } = said.key;
    let status = said.answer.status;
    match said.answer.outcome(step)? {
        // A webhook always has an outcome.
        GatewayOutcome::Unknown { .. } => Err(Misfit::Status(status)),
        outcome => Ok(WebhookEvent { id: said.id, key, step, outcome }),
    }
}

/// A readable signature header.
struct Signed<'a> {
    /// The seconds as text, since these bytes were signed.
    seconds: &'a str,
    at_s: u64,
    signatures: Vec<[u8; MAC_BYTES]>,
}

impl Signed<'_> {
    fn read(header: &str) -> Option<Signed<'_>> {
        if header.len() > HEADER_BYTES_MAX {
            return None;
        }
        let mut time = None;
        let mut signatures = Vec::new();
        for part in header.split(',') {
            match part.trim().split_once('=')? {
                ("t", _) if time.is_some() => return None,
                ("t", seconds) => time = Some(seconds),
                ("v1", _) if signatures.len() == SIGNATURES_MAX => return None,
                ("v1", digits) => signatures.push(mac::read(&digits.to_ascii_lowercase())?),
                // Newer versions of signatures may be there too.
                (_, _) => {}
            }
        }
        let seconds = time.filter(|seconds| seconds.bytes().all(|byte| byte.is_ascii_digit()))?;
        let at_s = seconds.parse().ok()?;
        (!signatures.is_empty()).then_some(Signed { seconds, at_s, signatures })
    }

    /// Compares each signature in constant time, so that the time tells nothing about a guess.
    fn fits(&self, secret: &[u8], body: &[u8]) -> bool {
        let mac = mac_of(secret, self.seconds, body);
        self.signatures.iter().any(|signature| mac.clone().verify_slice(signature).is_ok())
    }
}

fn mac_of(secret: &[u8], seconds: &str, body: &[u8]) -> Hmac<Sha256> {
    mac::of(secret, &[seconds.as_bytes(), b".", body])
}

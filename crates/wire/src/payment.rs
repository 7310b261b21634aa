//! The protocol with a payment gateway: bodies, idempotency keys and limits.
//!
//! `docs/reference/gateway.md` describes it. An answer of the gateway counts only if it is complete and clear. Any other is
//! a [`Misfit`], which the caller treats as *unknown*.

use std::{fmt, str::FromStr};

use boxoffice_core::{
    id::OrderId,
    money::{AMOUNT_MAX, Money},
    payment::{GatewayCall, GatewayOutcome, PaymentKey, PaymentStep},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;
use smol_str::{SmolStr, SmolStrBuilder};

use crate::{
    limits::PAYMENT_TEXT_BYTES_MAX,
    repr::{
        self, WireRepr, WireWrite,
        shape::{Shapes, shapes},
    },
};

/// The longest body to or from a gateway, in bytes.
pub const GATEWAY_BODY_BYTES_MAX: usize = 64 * 1024;

/// The header with the idempotency key of a step. The body has it as well.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// One step of an attempt. Its text is the idempotency key: `<cart>-<attempt>` is the authorization, and `-capture`,
/// `-void` or `-refund-<number>` behind it are the steps that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepKey {
    pub attempt: PaymentKey,
    pub step: PaymentStep,
}

impl fmt::Display for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempt = self.attempt;
        match self.step {
            PaymentStep::Authorize => write!(f, "{attempt}"),
            PaymentStep::Capture => write!(f, "{attempt}-capture"),
            PaymentStep::Void => write!(f, "{attempt}-void"),
            PaymentStep::Refund(number) => write!(f, "{attempt}-refund-{number}"),
        }
    }
}

impl FromStr for StepKey {
    type Err = Misfit;

    fn from_str(text: &str) -> Result<StepKey, Misfit> {
        let (attempt, step) = match text.match_indices('-').nth(1) {
            None => (text, PaymentStep::Authorize),
            Some((end, _)) => (&text[..end], step(&text[end + 1..]).ok_or(Misfit::Key)?),
        };
        let key = StepKey { attempt: attempt.parse().map_err(|()| Misfit::Key)?, step };
        // A key has only one text, because it is compared as text elsewhere.
        if key.to_string() == text { Ok(key) } else { Err(Misfit::Key) }
    }
}

fn step(word: &str) -> Option<PaymentStep> {
    match word {
        "capture" => Some(PaymentStep::Capture),
        "void" => Some(PaymentStep::Void),
        other => Some(PaymentStep::Refund(other.strip_prefix("refund-")?.parse().ok()?)),
    }
}

/// The path of a step below the gateway's address.
pub fn step_path(step: PaymentStep) -> &'static str {
    match step {
        PaymentStep::Authorize => "/authorizations",
        PaymentStep::Capture => "/captures",
        PaymentStep::Void => "/voids",
        PaymentStep::Refund(_) => "/refunds",
    }
}

impl WireWrite for StepKey {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl WireRepr for StepKey {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StepKey, D::Error> {
        SmolStr::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }

    fn schema(shapes: &mut Shapes) -> Value {
        String::schema(shapes)
    }
}

impl WireWrite for PaymentKey {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl WireRepr for PaymentKey {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PaymentKey, D::Error> {
        let key = StepKey::read(deserializer)?;
        match key.step {
            PaymentStep::Authorize => Ok(key.attempt),
            PaymentStep::Capture | PaymentStep::Void | PaymentStep::Refund(_) => Err(D::Error::custom(Misfit::Key)),
        }
    }

    fn schema(shapes: &mut Shapes) -> Value {
        String::schema(shapes)
    }
}

/// The path of the list of authorizations below the gateway's address.
pub const LIST_PATH: &str = "/authorizations";

/// The most authorizations of one page of the list.
pub const LIST_PAGE_MAX: usize = 200;

/// What a gateway says of the money of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListedState {
    /// Not decided yet.
    Pending,
    Declined,
    /// The amount is set aside.
    Authorized,
    /// The amount is taken.
    Captured,
    /// It is given up.
    Voided,
}

/// An attempt to pay in a gateway's list. Amounts are minor units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedAttempt {
    /// The idempotency key of its authorization.
    pub key: SmolStr,
    pub status: ListedState,
    /// When it was asked for first, as RFC 3339.
    pub at: SmolStr,
    /// The gateway's name for it, once it is authorized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<SmolStr>,
    pub currency: SmolStr,
    /// The amount that was set aside.
    #[serde(default)]
    pub authorized: i64,
    /// The amount that was taken.
    #[serde(default)]
    pub captured: i64,
    /// The amount that was paid back.
    #[serde(default)]
    pub refunded: i64,
}

/// The answer to `GET /authorizations`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedPage {
    pub authorizations: Vec<ListedAttempt>,
    /// The `after` of the next page, if there may be more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<SmolStr>,
}

shapes! {
    /// The body of `POST /authorizations`.
    #[derive(Eq)]
    pub struct AuthorizationBody {
        /// The idempotency key: the attempt itself.
        pub key: StepKey,
        /// The amount to authorize.
        pub amount: Money,
        /// The client's opaque token.
        pub source: SmolStr,
        /// The future order.
        pub order: OrderId,
    }

    /// The body of `POST /captures` and `POST /refunds`.
    #[derive(Eq)]
    pub struct MoveBody {
        /// The idempotency key of the step.
        pub key: StepKey,
        /// The attempt.
        pub authorization: PaymentKey,
        /// The gateway's id of the authorization.
        pub reference: SmolStr,
        pub amount: Money,
    }

    /// The body of `POST /voids`.
    #[derive(Eq)]
    pub struct VoidBody {
        /// The idempotency key of the step.
        pub key: StepKey,
        /// The attempt to void.
        pub authorization: PaymentKey,
        /// The gateway's id of the authorization, if known.
        pub reference?: Option<SmolStr>,
    }
}

/// The body of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepBody {
    Authorize(AuthorizationBody),
    Capture(MoveBody),
    Void(VoidBody),
    Refund(MoveBody),
}

impl StepBody {
    /// The body of a call.
    pub fn of(call: &GatewayCall) -> StepBody {
        let key = StepKey { attempt: call.key(), step: call.step() };
        let authorization = key.attempt;
        match call.clone() {
            GatewayCall::Authorize { amount, source, order, .. } => {
                StepBody::Authorize(AuthorizationBody { key, amount, source, order })
            }
            GatewayCall::Capture { reference, amount, .. } => {
                StepBody::Capture(MoveBody { key, authorization, reference, amount })
            }
            GatewayCall::Void { reference, .. } => StepBody::Void(VoidBody { key, authorization, reference }),
            GatewayCall::Refund { reference, amount, .. } => {
                StepBody::Refund(MoveBody { key, authorization, reference, amount })
            }
        }
    }

    /// The idempotency key.
    pub fn key(&self) -> StepKey {
        match self {
            StepBody::Authorize(body) => body.key,
            StepBody::Capture(body) | StepBody::Refund(body) => body.key,
            StepBody::Void(body) => body.key,
        }
    }

    /// The body in JSON.
    pub fn json(&self) -> Vec<u8> {
        let json = match self {
            StepBody::Authorize(body) => serde_json::to_vec(body),
            StepBody::Capture(body) | StepBody::Refund(body) => serde_json::to_vec(body),
            StepBody::Void(body) => serde_json::to_vec(body),
        };
        json.expect("these bodies have text for keys and nothing that cannot be written")
    }
}

/// The state of a step at the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GatewayStatus {
    Authorized,
    /// The payer's bank declined.
    Declined,
    Captured,
    Voided,
    Refunded,
    /// A capture, void or refund that will never succeed.
    Failed,
    /// There is no outcome yet.
    Pending,
}

/// The answer of a gateway. A webhook has the same fields besides its id and key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayAnswer {
    pub status: GatewayStatus,
    /// With `authorized`: the gateway's id of the authorization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<SmolStr>,
    /// With `authorized`: the amount.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "repr")]
    pub amount: Option<Money>,
    /// With `declined` and `failed`: the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<SmolStr>,
}

/// Why an answer of a gateway does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The key is not one of ours.
    #[error(
        "a key is 32 hexadecimal digits, `-` and a number, and then `-capture`, `-void`, `-refund-<number>` or nothing"
    )]
    Key,
    /// The body is not JSON of this shape.
    #[error("{0}")]
    Shape(SmolStr),
    /// The state does not belong to this step.
    #[error("`{0:?}` is no answer to this step")]
    Status(GatewayStatus),
    /// An authorization without a usable reference.
    #[error("an authorization has a reference of 1 to {PAYMENT_TEXT_BYTES_MAX} bytes")]
    Reference,
    /// An authorization without a usable amount.
    #[error("an authorization has an amount, from 0 to {AMOUNT_MAX}")]
    Amount,
}

impl GatewayAnswer {
    /// The answer for an outcome.
    pub fn of(outcome: &GatewayOutcome) -> GatewayAnswer {
        let bare = |status| GatewayAnswer { status, reference: None, amount: None, reason: None };
        match outcome {
            GatewayOutcome::Authorized { reference, amount } => GatewayAnswer {
                reference: Some(reference.clone()),
                amount: Some(*amount),
                ..bare(GatewayStatus::Authorized)
            },
            GatewayOutcome::Captured => bare(GatewayStatus::Captured),
            GatewayOutcome::Voided => bare(GatewayStatus::Voided),
            GatewayOutcome::Refunded => bare(GatewayStatus::Refunded),
            GatewayOutcome::Declined { reason } => {
                GatewayAnswer { reason: Some(reason.clone()), ..bare(GatewayStatus::Declined) }
            }
            GatewayOutcome::Failed { reason } => {
                GatewayAnswer { reason: Some(reason.clone()), ..bare(GatewayStatus::Failed) }
            }
            GatewayOutcome::Unknown { .. } => bare(GatewayStatus::Pending),
        }
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// [`Misfit::Shape`] if the bytes are not JSON of this shape.
    pub fn read(body: &[u8]) -> Result<GatewayAnswer, Misfit> {
        serde_json::from_slice(body).map_err(|error| Misfit::Shape(plain(&error.to_string())))
    }

    /// The outcome of this step.
    ///
    /// # Errors
    /// [`Misfit`] if the state does not belong to the step, or a field is missing.
    pub fn outcome(self, step: PaymentStep) -> Result<GatewayOutcome, Misfit> {
        let reason = || self.reason.as_deref().map_or(SmolStr::new_static("no reason given"), plain);
        match (step, self.status) {
            (PaymentStep::Authorize, GatewayStatus::Authorized) => {
                let reference = self.reference.ok_or(Misfit::Reference)?;
                if !(1..=PAYMENT_TEXT_BYTES_MAX).contains(&reference.len()) || reference.contains(char::is_control) {
                    return Err(Misfit::Reference);
                }
                let amount = self.amount.filter(|money| (0..=AMOUNT_MAX).contains(&money.amount));
                Ok(GatewayOutcome::Authorized { reference, amount: amount.ok_or(Misfit::Amount)? })
            }
            (PaymentStep::Authorize, GatewayStatus::Declined) => Ok(GatewayOutcome::Declined { reason: reason() }),
            (PaymentStep::Capture, GatewayStatus::Captured) => Ok(GatewayOutcome::Captured),
            (PaymentStep::Void, GatewayStatus::Voided) => Ok(GatewayOutcome::Voided),
            (PaymentStep::Refund(_), GatewayStatus::Refunded) => Ok(GatewayOutcome::Refunded),
            (PaymentStep::Capture | PaymentStep::Void | PaymentStep::Refund(_), GatewayStatus::Failed) => {
                Ok(GatewayOutcome::Failed { reason: reason() })
            }
            (_, GatewayStatus::Pending) => Ok(GatewayOutcome::Unknown { reason: SmolStr::new_static("pending") }),
            (_, status) => Err(Misfit::Status(status)),
        }
    }
}

/// A foreign text, made safe to be kept and shown: without control characters, and not too long.
pub fn plain(words: &str) -> SmolStr {
    let mut text = SmolStrBuilder::new();
    let mut bytes = 0;
    for letter in words.chars() {
        bytes += letter.len_utf8();
        if bytes > PAYMENT_TEXT_BYTES_MAX {
            break;
        }
        text.push(if letter.is_control() { ' ' } else { letter });
    }
    text.finish()
}

#[cfg(test)]
mod tests {
    use boxoffice_core::{id::CartId, money::Currency};
    use expect_test::{Expect, expect};

    use super::*;

    const KEY: PaymentKey = PaymentKey { cart: CartId(0xab), attempt: 2 };

    fn euros(amount: i64) -> Money {
        Money { amount, currency: Currency::new("EUR").expect("a currency") }
    }

    fn check(call: GatewayCall, expected: Expect) {
        let body = StepBody::of(&call);
        let (key, body) = (body.key(), body.json());
        let text = format!("{} {key}\n{}\n", step_path(key.step), String::from_utf8(body).expect("JSON is text"));
        assert_eq!(key.to_string().parse(), Ok(key));
        expected.assert_eq(&text);
    }

    #[test]
    fn gateway_requests_are_pinned() {
        check(
            GatewayCall::Authorize { key: KEY, amount: euros(3000), source: "tok".into(), order: OrderId(0xab) },
            expect![[r#"
                /authorizations 000000000000000000000000000000ab-2
                {"key":"000000000000000000000000000000ab-2","amount":{"amount":3000,"currency":"EUR"},"source":"tok","order":"000000000000000000000000000000ab"}
            "#]],
        );
        check(
            GatewayCall::Capture { key: KEY, reference: "r1".into(), amount: euros(3000) },
            expect![[r#"
                /captures 000000000000000000000000000000ab-2-capture
                {"key":"000000000000000000000000000000ab-2-capture","authorization":"000000000000000000000000000000ab-2","reference":"r1","amount":{"amount":3000,"currency":"EUR"}}
            "#]],
        );
        check(
            GatewayCall::Void { key: KEY, reference: None },
            expect![[r#"
                /voids 000000000000000000000000000000ab-2-void
                {"key":"000000000000000000000000000000ab-2-void","authorization":"000000000000000000000000000000ab-2"}
            "#]],
        );
        check(
            GatewayCall::Refund { key: KEY, refund: 3, reference: "r1".into(), amount: euros(1) },
            expect![[r#"
                /refunds 000000000000000000000000000000ab-2-refund-3
                {"key":"000000000000000000000000000000ab-2-refund-3","authorization":"000000000000000000000000000000ab-2","reference":"r1","amount":{"amount":1,"currency":"EUR"}}
            "#]],
        );
    }

    #[test]
    fn keys_have_one_spelling() {
        let cart = "000000000000000000000000000000ab";
        for tail in [
            "",
            "-",
            "-2-",
            "-02",
            "-2-captured",
            "-2-refund",
            "-2-refund-",
            "-2-refund-01",
            "-2-refund-+1",
            "-2-void-1",
        ] {
            assert_eq!(format!("{cart}{tail}").parse::<StepKey>(), Err(Misfit::Key), "{tail}");
        }
        assert_eq!("é-1-void".parse::<StepKey>(), Err(Misfit::Key));
    }

    fn meant(step: PaymentStep, body: &str) -> String {
        match GatewayAnswer::read(body.as_bytes()).and_then(|answer| answer.outcome(step)) {
            Ok(outcome) => format!("{outcome:?}"),
            Err(misfit) => format!("misfit: {misfit}"),
        }
    }

    #[test]
    fn gateway_answers_are_interpreted() {
        let mut seen = String::new();
        let answers = [
            (
                PaymentStep::Authorize,
                r#"{"status":"authorized","reference":"r1","amount":{"amount":5,"currency":"EUR"},"more":1}"#,
            ),
            (PaymentStep::Authorize, r#"{"status":"authorized","reference":"r1"}"#),
            (PaymentStep::Authorize, r#"{"status":"authorized","amount":{"amount":5,"currency":"EUR"}}"#),
            (
                PaymentStep::Authorize,
                r#"{"status":"authorized","reference":"","amount":{"amount":5,"currency":"EUR"}}"#,
            ),
            (
                PaymentStep::Authorize,
                r#"{"status":"authorized","reference":"r1","amount":{"amount":-5,"currency":"EUR"}}"#,
            ),
            (
                PaymentStep::Authorize,
                r#"{"status":"authorized","reference":"r1","amount":{"amount":5.5,"currency":"EUR"}}"#,
            ),
            (PaymentStep::Authorize, r#"{"status":"declined"}"#),
            (PaymentStep::Authorize, "{\"status\":\"declined\",\"reason\":\"no\\u001b[31m money\"}"),
            (PaymentStep::Authorize, r#"{"status":"pending"}"#),
            (PaymentStep::Authorize, r#"{"status":"failed","reason":"x"}"#),
            (PaymentStep::Authorize, r#"{"status":"captured"}"#),
            (PaymentStep::Capture, r#"{"status":"captured"}"#),
            (PaymentStep::Capture, r#"{"status":"failed","reason":"expired"}"#),
            (PaymentStep::Capture, r#"{"status":"declined","reason":"x"}"#),
            (PaymentStep::Void, r#"{"status":"voided"}"#),
            (PaymentStep::Refund(1), r#"{"status":"refunded"}"#),
            (PaymentStep::Refund(1), r#"{"status":"voided"}"#),
            (PaymentStep::Refund(1), r#"{"status":"well done"}"#),
            (PaymentStep::Refund(1), "[]"),
            (PaymentStep::Refund(1), r#"{"status":"refunded"} "#),
            (PaymentStep::Refund(1), r#"{"status":"refunded"}{}"#),
        ];
        for (step, body) in answers {
            seen.push_str(&format!("{step:?} {body}\n    {}\n", meant(step, body)));
        }
        expect![[r#"
            Authorize {"status":"authorized","reference":"r1","amount":{"amount":5,"currency":"EUR"},"more":1}
                Authorized { reference: "r1", amount: Money { amount: 5, currency: EUR } }
            Authorize {"status":"authorized","reference":"r1"}
                misfit: an authorization has an amount, from 0 to 9007199254740991
            Authorize {"status":"authorized","amount":{"amount":5,"currency":"EUR"}}
                misfit: an authorization has a reference of 1 to 256 bytes
            Authorize {"status":"authorized","reference":"","amount":{"amount":5,"currency":"EUR"}}
                misfit: an authorization has a reference of 1 to 256 bytes
            Authorize {"status":"authorized","reference":"r1","amount":{"amount":-5,"currency":"EUR"}}
                misfit: an authorization has an amount, from 0 to 9007199254740991
            Authorize {"status":"authorized","reference":"r1","amount":{"amount":5.5,"currency":"EUR"}}
                misfit: invalid type: floating point `5.5`, expected i64 at line 1 column 62
            Authorize {"status":"declined"}
                Declined { reason: "no reason given" }
            Authorize {"status":"declined","reason":"no\u001b[31m money"}
                Declined { reason: "no [31m money" }
            Authorize {"status":"pending"}
                Unknown { reason: "pending" }
            Authorize {"status":"failed","reason":"x"}
                misfit: `Failed` is no answer to this step
            Authorize {"status":"captured"}
                misfit: `Captured` is no answer to this step
            Capture {"status":"captured"}
                Captured
            Capture {"status":"failed","reason":"expired"}
                Failed { reason: "expired" }
            Capture {"status":"declined","reason":"x"}
                misfit: `Declined` is no answer to this step
            Void {"status":"voided"}
                Voided
            Refund(1) {"status":"refunded"}
                Refunded
            Refund(1) {"status":"voided"}
                misfit: `Voided` is no answer to this step
            Refund(1) {"status":"well done"}
                misfit: unknown variant `well done`, expected one of `authorized`, `declined`, `captured`, `voided`, `refunded`, `failed`, `pending` at line 1 column 21
            Refund(1) []
                misfit: invalid length 0, expected struct GatewayAnswer with 4 elements at line 1 column 2
            Refund(1) {"status":"refunded"} 
                Refunded
            Refund(1) {"status":"refunded"}{}
                misfit: trailing characters at line 1 column 22
        "#]].assert_eq(&seen);
    }

    #[test]
    fn an_encoded_answer_decodes_unchanged() {
        let outcomes = [
            (PaymentStep::Authorize, GatewayOutcome::Authorized { reference: "r".into(), amount: euros(7) }),
            (PaymentStep::Authorize, GatewayOutcome::Declined { reason: "no".into() }),
            (PaymentStep::Capture, GatewayOutcome::Captured),
            (PaymentStep::Void, GatewayOutcome::Voided),
            (PaymentStep::Refund(1), GatewayOutcome::Failed { reason: "gone".into() }),
            (PaymentStep::Refund(1), GatewayOutcome::Unknown { reason: "pending".into() }),
        ];
        for (step, outcome) in outcomes {
            assert_eq!(GatewayAnswer::of(&outcome).outcome(step), Ok(outcome));
        }
    }

    #[test]
    fn long_reasons_are_cut_between_letters() {
        let long = "é".repeat(PAYMENT_TEXT_BYTES_MAX);
        assert_eq!(plain(&long).len(), PAYMENT_TEXT_BYTES_MAX);
    }
}

//! Webhooks: a signature made by another program, and forged ones.

use boxoffice_core::{
    id::{CartId, Id},
    money::{Currency, Money},
    payment::{GatewayOutcome, PaymentKey, PaymentStep},
    time::Timestamp,
};
use proptest::prelude::*;

use crate::webhook::{TOLERANCE_S, WebhookEvent, WebhookRefusal, sign, verify};

const SECRET: &str = "whsec-a-secret-of-a-test";
const NOW: Timestamp = Timestamp(1_800_000_000_250);
const BODY: &str = r#"{"id":"evt-1","key":"000000000000000000000000000000ab-2","status":"authorized","reference":"r1","amount":{"amount":3000,"currency":"EUR"}}"#;

/// The HMAC of `1800000000.` and `BODY` with `SECRET`, computed with Python's `hmac` module.
const DIGEST: &str = "59ea914b198aa46beff6a3f41c509548f0ba33f2be03078dd72693478d8afcb6";

fn at(seconds: u64) -> Timestamp {
    Timestamp(seconds * 1_000)
}

fn header(seconds: &str, signatures: &[&str]) -> String {
    let mut header = format!("t={seconds}");
    for signature in signatures {
        header.push_str(",v1=");
        header.push_str(signature);
    }
    header
}

fn refused(header: Option<&str>, body: &str, now: Timestamp) -> WebhookRefusal {
    verify(&[SECRET], header, body.as_bytes(), now).expect_err("the webhook must be refused")
}

fn signed(body: &str) -> Result<WebhookEvent, WebhookRefusal> {
    verify(&[SECRET], Some(&sign(SECRET.as_bytes(), NOW, body.as_bytes())), body.as_bytes(), NOW)
}

#[test]
fn a_signature_of_another_program_is_valid() {
    let event = verify(&[SECRET], Some(&header("1800000000", &[DIGEST])), BODY.as_bytes(), NOW);
    let amount = Money { amount: 3000, currency: Currency::new("EUR").expect("a currency") };
    let expected = WebhookEvent {
        id: Id::new("evt-1").expect("an id"),
        key: PaymentKey { cart: CartId(0xab), attempt: 2 },
        step: PaymentStep::Authorize,
        outcome: GatewayOutcome::Authorized { reference: "r1".into(), amount },
    };
    assert_eq!(event, Ok(expected));
    assert_eq!(sign(SECRET.as_bytes(), NOW, BODY.as_bytes()), header("1800000000", &[DIGEST]));
}

#[test]
fn a_webhook_is_valid_for_five_minutes() {
    let header = header("1800000000", &[DIGEST]);
    let first = verify(&[SECRET], Some(&header), BODY.as_bytes(), NOW).expect("fresh");
    for now in [1_800_000_000 - TOLERANCE_S, 1_800_000_000 + TOLERANCE_S] {
        assert_eq!(verify(&[SECRET], Some(&header), BODY.as_bytes(), at(now)).as_ref(), Ok(&first));
    }
    for now in [0, 1_800_000_000 - TOLERANCE_S - 1, 1_800_000_000 + TOLERANCE_S + 1, u64::MAX / 1_000] {
        assert_eq!(refused(Some(&header), BODY, at(now)), WebhookRefusal::Stale);
    }
}

#[test]
fn a_changed_webhook_is_refused() {
    let good = header("1800000000", &[DIGEST]);
    let more = BODY.replace("3000", "3001");
    assert_eq!(refused(Some(&good), &more, NOW), WebhookRefusal::BadSignature);
    // A fresh time on an old signature.
    assert_eq!(refused(Some(&header("1800000001", &[DIGEST])), BODY, NOW), WebhookRefusal::BadSignature);
    // The same number in another notation is not what was signed.
    assert_eq!(refused(Some(&header("01800000000", &[DIGEST])), BODY, NOW), WebhookRefusal::BadSignature);
    let other = verify(&["another-secret-of-a-test"], Some(&good), BODY.as_bytes(), NOW);
    assert_eq!(other, Err(WebhookRefusal::BadSignature));
    assert_eq!(verify::<&str>(&[], Some(&good), BODY.as_bytes(), NOW), Err(WebhookRefusal::BadSignature));
}

#[test]
fn an_empty_secret_opens_nothing() {
    let forged = sign(b"", NOW, BODY.as_bytes());
    assert_eq!(verify(&["", SECRET], Some(&forged), BODY.as_bytes(), NOW), Err(WebhookRefusal::BadSignature));
}

#[test]
fn secrets_are_changed_without_a_gap() {
    let (old, new) = ("the-old-secret-of-a-test", "the-new-secret-of-a-test");
    let by = |secret: &str| sign(secret.as_bytes(), NOW, BODY.as_bytes());
    // The node knows both secrets while the gateway signs with either.
    for secret in [old, new] {
        assert!(verify(&[new, old], Some(&by(secret)), BODY.as_bytes(), NOW).is_ok());
    }
    // The gateway signs with both while the node knows either.
    let digest = |secret: &str| by(secret).split_once("v1=").expect("a signature").1.to_owned();
    let both = header("1800000000", &[&digest(old), &digest(new)]);
    for secret in [old, new] {
        assert!(verify(&[secret], Some(&both), BODY.as_bytes(), NOW).is_ok());
    }
    assert_eq!(verify(&[SECRET], Some(&both), BODY.as_bytes(), NOW), Err(WebhookRefusal::BadSignature));
}

#[test]
fn unreadable_headers_are_refused() {
    assert_eq!(refused(None, BODY, NOW), WebhookRefusal::Missing);
    let good = header("1800000000", &[DIGEST]);
    for bad in [
        String::new(),
        "t=1800000000".into(),
        format!("v1={DIGEST}"),
        format!("t=,v1={DIGEST}"),
        format!("t=-1,v1={DIGEST}"),
        format!("t=+1,v1={DIGEST}"),
        format!("t=99999999999999999999,v1={DIGEST}"),
        format!("t=1800000000,{good}"),
        format!("t=1800000000,v1={}", &DIGEST[1..]),
        format!("t=1800000000,v1={}g", &DIGEST[1..]),
        format!("t=1800000000,v1=é{}", &DIGEST[2..]),
        format!("{good},"),
        header("1800000000", &[DIGEST; 5]),
        format!("{good},v0={}", "x".repeat(1_024)),
    ] {
        assert_eq!(refused(Some(&bad), BODY, NOW), WebhookRefusal::Malformed, "{bad}");
    }
    // Spaces after commas and unknown versions are ignored.
    let with_more = format!("t=1800000000, v0=abc, v1={DIGEST}");
    assert!(verify(&[SECRET], Some(&with_more), BODY.as_bytes(), NOW).is_ok());
}

#[test]
fn invalid_bodies_are_refused() {
    for (body, why) in [
        ("", "EOF"),
        ("[]", "expected"),
        (r#"{"id":"e","status":"captured"}"#, "key"),
        (r#"{"id":"e","key":"ab-1","status":"captured"}"#, "32 hexadecimal"),
        (r#"{"id":"","key":"000000000000000000000000000000ab-1-capture","status":"captured"}"#, "id"),
        (r#"{"id":"e","key":"000000000000000000000000000000ab-1","status":"captured"}"#, "Captured"),
        (r#"{"id":"e","key":"000000000000000000000000000000ab-1","status":"pending"}"#, "Pending"),
        (r#"{"id":"e","key":"000000000000000000000000000000ab-1","status":"authorized"}"#, "reference"),
        (r#"{"id":"e","key":"000000000000000000000000000000ab-1","status":"perhaps"}"#, "perhaps"),
    ] {
        match signed(body) {
            Err(WebhookRefusal::BadBody(reason)) => assert!(reason.contains(why), "{body}: {reason}"),
            other => panic!("{body}: {other:?}"),
        }
    }
}

#[test]
fn webhooks_cover_every_payment_step() {
    for (tail, status, step, outcome) in [
        ("", "declined", PaymentStep::Authorize, GatewayOutcome::Declined { reason: "no funds".into() }),
        ("-capture", "captured", PaymentStep::Capture, GatewayOutcome::Captured),
        ("-capture", "failed", PaymentStep::Capture, GatewayOutcome::Failed { reason: "no funds".into() }),
        ("-void", "voided", PaymentStep::Void, GatewayOutcome::Voided),
        ("-refund-2", "refunded", PaymentStep::Refund(2), GatewayOutcome::Refunded),
    ] {
        let body = format!(
            r#"{{"id":"e","key":"000000000000000000000000000000ab-1{tail}","status":"{status}","reason":"no funds"}}"#
        );
        let event = signed(&body).expect("a valid event");
        assert_eq!((event.key.attempt, event.step, event.outcome), (1, step, outcome));
    }
}

proptest! {
    #[test]
    fn random_bytes_are_refused_and_break_nothing(
        header in "(t=[0-9]{0,20},?)?(v1=[0-9a-f]{0,70},?){0,3}\\PC{0,8}",
        body in proptest::collection::vec(any::<u8>(), 0..200),
        now in any::<u64>(),
    ) {
        prop_assert!(verify(&[SECRET], Some(&header), &body, Timestamp(now)).is_err());
    }

    #[test]
    fn random_bodies_with_a_good_signature_break_nothing(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let header = sign(SECRET.as_bytes(), NOW, &body);
        let refused = verify(&[SECRET], Some(&header), &body, NOW);
        prop_assert!(matches!(refused, Err(WebhookRefusal::BadBody(_))), "{refused:?}");
    }

    #[test]
    fn one_changed_bit_is_detected(at in 0..BODY.len(), bit in 0..8u8) {
        let mut body = BODY.as_bytes().to_vec();
        body[at] ^= 1 << bit;
        let refused = verify(&[SECRET], Some(&header("1800000000", &[DIGEST])), &body, NOW);
        prop_assert_eq!(refused, Err(WebhookRefusal::BadSignature));
    }
}

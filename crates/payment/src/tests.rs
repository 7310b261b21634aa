//! The client of the payment gateway against the test gateway over loopback, with its faults and its ledger.

use std::{net::SocketAddr, sync::Arc};

use boxoffice_core::{
    id::CartId,
    money::{Currency, Money},
    payment::{GatewayCall, GatewayOutcome, PaymentKey, PaymentStep},
    time::Timestamp,
};
use boxoffice_env::{Gateway, secret::Secret};
use boxoffice_gateway::{
    LedgerHandle, Server, Settings, Webhook,
    ledger::{Charge, ChargeState, FaultRates},
};
use boxoffice_wire::webhook::{WebhookEvent, verify};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use crate::{GatewayConfig, HttpGateway};

const TIMEOUT_MS: u64 = 1_000;
const SECRET: &str = "a-webhook-secret-of-a-test";

/// A running gateway and its client.
struct Pair {
    address: SocketAddr,
    client: HttpGateway,
    ledger: LedgerHandle,
    running: JoinHandle<()>,
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.running.abort();
    }
}

fn config(address: SocketAddr) -> GatewayConfig {
    let url = format!("http://{address}").parse().expect("an address");
    GatewayConfig { url, timeout_ms: TIMEOUT_MS, api_key: None, concurrency: 8 }
}

fn client(config: &GatewayConfig) -> HttpGateway {
    HttpGateway::new(config, Handle::current()).expect("a client")
}

async fn pair_of(settings: Settings) -> Pair {
    let server = Server::bind(settings).await.expect("a free port");
    let (address, ledger) = (server.address(), server.ledger());
    let running = tokio::spawn(server.run(std::future::pending()));
    Pair { address, client: client(&config(address)), ledger, running }
}

async fn pair() -> Pair {
    pair_of(Settings::default()).await
}

fn key(attempt: u32) -> PaymentKey {
    PaymentKey { cart: CartId(7), attempt }
}

fn euros(amount: i64) -> Money {
    Money { amount, currency: Currency::new("EUR").expect("a currency") }
}

fn authorize(attempt: u32, source: &str) -> GatewayCall {
    GatewayCall::Authorize { key: key(attempt), amount: euros(3000), source: source.into(), order: CartId(7).order() }
}

fn capture(attempt: u32, reference: &str) -> GatewayCall {
    GatewayCall::Capture { key: key(attempt), reference: reference.into(), amount: euros(3000) }
}

fn void(attempt: u32) -> GatewayCall {
    GatewayCall::Void { key: key(attempt), reference: None }
}

fn refund(attempt: u32, refund: u32, reference: &str, amount: i64) -> GatewayCall {
    GatewayCall::Refund { key: key(attempt), refund, reference: reference.into(), amount: euros(amount) }
}

async fn outcome(client: &HttpGateway, call: GatewayCall) -> GatewayOutcome {
    let (sender, receiver) = oneshot::channel();
    client.call(call, Box::new(move |outcome| sender.send(outcome).expect("the receiver lives")));
    receiver.await.expect("every call has an outcome")
}

fn authorized(reference: &str) -> GatewayOutcome {
    GatewayOutcome::Authorized { reference: reference.into(), amount: euros(3000) }
}

#[track_caller]
fn assert_unknown(outcome: GatewayOutcome, why: &str) {
    match outcome {
        GatewayOutcome::Unknown { reason } => assert!(reason.contains(why), "{reason:?} does not say {why:?}"),
        other => panic!("{other:?} is not unknown"),
    }
}

impl Pair {
    async fn ask(&self, call: GatewayCall) -> GatewayOutcome {
        outcome(&self.client, call).await
    }

    /// The charge of an attempt, if the gateway has one.
    fn charge(&self, attempt: u32) -> Option<Charge> {
        self.ledger.view().charges.into_iter().find(|charge| charge.key == key(attempt).to_string())
    }

    #[track_caller]
    fn assert_state(&self, attempt: u32, state: ChargeState) {
        assert_eq!(self.charge(attempt).map(|charge| charge.state), Some(state));
    }
}

#[tokio::test]
async fn money_is_authorized_captured_and_refunded_over_one_connection() {
    let pair = pair().await;
    assert_eq!(pair.ask(authorize(1, "ok")).await, authorized("auth_1"));
    pair.assert_state(1, ChargeState::Authorized);
    assert_eq!(pair.ask(capture(1, "auth_1")).await, GatewayOutcome::Captured);
    assert_eq!(pair.ask(refund(1, 1, "auth_1", 1000)).await, GatewayOutcome::Refunded);
    assert_eq!(pair.ask(refund(1, 2, "auth_1", 2000)).await, GatewayOutcome::Refunded);
    let too_much = pair.ask(refund(1, 3, "auth_1", 1)).await;
    assert_eq!(too_much, GatewayOutcome::Failed { reason: "more than was taken".into() });
    let view = pair.ledger.view();
    let totals = view.totals["EUR"];
    assert_eq!((totals.authorized, totals.captured, totals.refunded, totals.voided), (0, 3000, 3000, 0));
    assert_eq!(view.charges[0].order, CartId(7).order().to_string());
    assert_eq!((view.requests, view.connections), (5, 1));
}

#[tokio::test]
async fn a_repeated_call_changes_nothing() {
    let pair = pair().await;
    for _ in 0..3 {
        assert_eq!(pair.ask(authorize(1, "ok")).await, authorized("auth_1"));
    }
    for _ in 0..3 {
        assert_eq!(pair.ask(capture(1, "auth_1")).await, GatewayOutcome::Captured);
        assert_eq!(pair.ask(refund(1, 1, "auth_1", 10)).await, GatewayOutcome::Refunded);
    }
    let charge = pair.charge(1).expect("a charge");
    assert_eq!((charge.captured, charge.refunded), (3000, 10));
    assert_unknown(pair.ask(authorize(1, "decline")).await, "409");
    // Another attempt is another authorization.
    assert_eq!(pair.ask(authorize(2, "ok")).await, authorized("auth_2"));
}

#[tokio::test]
async fn a_refusal_is_definite() {
    let pair = pair().await;
    for (attempt, source, reason) in [(1, "decline", "declined as asked"), (2, "tok_visa", "no such source: tok_visa")]
    {
        assert_eq!(pair.ask(authorize(attempt, source)).await, GatewayOutcome::Declined { reason: reason.into() });
        pair.assert_state(attempt, ChargeState::Declined);
    }
    assert!(pair.ledger.view().totals.is_empty());
}

#[tokio::test]
async fn another_amount_is_reported() {
    let pair = pair().await;
    let outcome = pair.ask(authorize(1, "amount-2999")).await;
    assert_eq!(outcome, GatewayOutcome::Authorized { reference: "auth_1".into(), amount: euros(2999) });
    assert_eq!(pair.ask(void(1)).await, GatewayOutcome::Voided);
    assert_eq!(pair.ledger.view().totals["EUR"].voided, 2999);
}

#[tokio::test]
async fn a_slow_answer_is_awaited_and_a_late_one_is_unknown() {
    let pair = pair().await;
    assert_eq!(pair.ask(authorize(1, "delay-20")).await, authorized("auth_1"));
    assert_unknown(pair.ask(authorize(2, "delay-60000")).await, "no answer within 1000 ms");
    assert_unknown(pair.ask(authorize(3, "timeout")).await, "no answer within 1000 ms");
    // The call succeeded all the same, so the outcome must not be a refusal.
    pair.assert_state(3, ChargeState::Authorized);
    assert_unknown(pair.ask(authorize(3, "timeout")).await, "no answer");
    assert_eq!(pair.ask(void(3)).await, GatewayOutcome::Voided);
    pair.assert_state(3, ChargeState::Voided);
}

#[tokio::test]
async fn a_lost_answer_is_found_by_a_repeated_call() {
    let pair = pair().await;
    for _ in 0..2 {
        assert_unknown(pair.ask(authorize(1, "lost-2")).await, "the connection failed");
        pair.assert_state(1, ChargeState::Authorized);
    }
    assert_eq!(pair.ask(authorize(1, "lost-2")).await, authorized("auth_1"));
    assert_eq!(pair.ledger.view().totals["EUR"].authorized, 3000);
}

#[tokio::test]
async fn errors_and_garbage_are_unknown_until_a_repeated_call() {
    let pair = pair().await;
    for _ in 0..2 {
        assert_unknown(pair.ask(authorize(1, "error-2")).await, "500");
        assert_eq!(pair.charge(1), None);
    }
    assert_eq!(pair.ask(authorize(1, "error-2")).await, authorized("auth_1"));
    assert_unknown(pair.ask(authorize(2, "garbage-1")).await, "not understood");
    assert_eq!(pair.ask(authorize(2, "garbage-1")).await, authorized("auth_2"));
    assert_unknown(pair.ask(authorize(3, "huge")).await, "longer than 65536 bytes");
    assert_unknown(pair.ask(authorize(3, "huge")).await, "longer than 65536 bytes");
    pair.assert_state(3, ChargeState::Authorized);
}

#[tokio::test]
async fn captures_voids_and_refunds_can_fail_permanently() {
    let pair = pair().await;
    let failed = GatewayOutcome::Failed { reason: "failed as asked".into() };
    pair.ask(authorize(1, "capture-fails+void-fails")).await;
    assert_eq!(pair.ask(capture(1, "auth_1")).await, failed);
    assert_eq!(pair.ask(void(1)).await, failed);
    pair.assert_state(1, ChargeState::Authorized);
    pair.ask(authorize(2, "refund-fails")).await;
    assert_eq!(pair.ask(capture(2, "auth_2")).await, GatewayOutcome::Captured);
    assert_eq!(pair.ask(refund(2, 1, "auth_2", 1)).await, failed);
    let void_of_taken = GatewayOutcome::Failed { reason: "it was captured; refund it".into() };
    assert_eq!(pair.ask(void(2)).await, void_of_taken);
    // Money that was never authorized cannot be captured.
    assert!(matches!(pair.ask(capture(9, "auth_9")).await, GatewayOutcome::Failed { .. }));
    assert!(matches!(pair.ask(refund(1, 1, "auth_1", 1)).await, GatewayOutcome::Failed { .. }));
    assert!(matches!(pair.ask(refund(2, 2, "auth_1", 1)).await, GatewayOutcome::Failed { .. }));
}

#[tokio::test]
async fn answers_of_later_steps_get_lost_as_well() {
    let pair = pair().await;
    pair.ask(authorize(1, "capture-lost-1+refund-timeout-1")).await;
    assert_unknown(pair.ask(capture(1, "auth_1")).await, "the connection failed");
    assert_eq!(pair.ask(capture(1, "auth_1")).await, GatewayOutcome::Captured);
    assert_unknown(pair.ask(refund(1, 1, "auth_1", 5)).await, "no answer");
    assert_eq!(pair.ask(refund(1, 1, "auth_1", 5)).await, GatewayOutcome::Refunded);
    let charge = pair.charge(1).expect("a charge");
    assert_eq!((charge.captured, charge.refunded), (3000, 5));
}

#[tokio::test]
async fn an_authorization_that_comes_after_its_void_is_declined() {
    let pair = pair().await;
    assert_eq!(pair.ask(void(1)).await, GatewayOutcome::Voided);
    let late = pair.ask(authorize(1, "ok")).await;
    assert_eq!(late, GatewayOutcome::Declined { reason: "it was voided before".into() });
    pair.assert_state(1, ChargeState::Voided);
    // A repeated void may contain a reference that was learned meanwhile.
    pair.ask(authorize(2, "ok")).await;
    assert_eq!(pair.ask(void(2)).await, GatewayOutcome::Voided);
    let known = GatewayCall::Void { key: key(2), reference: Some("auth_1".into()) };
    assert_eq!(pair.ask(known).await, GatewayOutcome::Voided);
}

/// Receives webhooks and forwards the signature and body of each. It answers 500 to the first `refusals` and then 200.
async fn listener(mut refusals: u32) -> (SocketAddr, mpsc::Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (sender, receiver) = mpsc::channel(16);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (head, body) = request(&mut stream).await;
            let status = if refusals > 0 { "500 No" } else { "200 OK" };
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.expect("an answer");
            if refusals > 0 {
                refusals -= 1;
                continue;
            }
            let signature = head.lines().find_map(|line| line.strip_prefix("boxoffice-signature: "));
            sender.send((signature.expect("a signature").to_owned(), body)).await.expect("the test receives");
        }
    });
    (address, receiver)
}

/// Reads the head and body of one request.
async fn request(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some(end) = text.find("\r\n\r\n") {
            let head = text[..end].to_owned();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.expect("a length").parse().expect("a number");
            if bytes.len() >= end + 4 + length {
                return (head, bytes[end + 4..end + 4 + length].to_vec());
            }
        }
        assert_ne!(stream.read_buf(&mut bytes).await.expect("a request"), 0, "the request ends early");
    }
}

#[allow(clippy::disallowed_methods, reason = "a signature is judged by the real time")]
fn verified((signature, body): (String, Vec<u8>)) -> WebhookEvent {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let now = Timestamp(u64::try_from(since.as_millis()).expect("a time"));
    verify(&[Secret(SECRET.to_owned())], Some(&signature), &body, now).expect("the webhook is signed")
}

async fn with_webhooks(refusals: u32) -> (Pair, mpsc::Receiver<(String, Vec<u8>)>) {
    let (address, webhooks) = listener(refusals).await;
    let url = format!("http://{address}/hook").parse().expect("an address");
    let webhook = Some(Webhook { url, secret: SECRET.to_owned() });
    (pair_of(Settings { webhook, ..Settings::default() }).await, webhooks)
}

#[tokio::test]
async fn a_late_answer_is_pending_and_then_sent_by_webhook() {
    // The first delivery fails and is repeated.
    let (pair, mut webhooks) = with_webhooks(1).await;
    assert_unknown(pair.ask(authorize(1, "late-600")).await, "pending");
    pair.assert_state(1, ChargeState::Pending);
    assert_unknown(pair.ask(authorize(1, "late-600")).await, "pending");
    let event = verified(webhooks.recv().await.expect("a webhook arrives"));
    assert_eq!((event.key, event.step, event.outcome), (key(1), PaymentStep::Authorize, authorized("auth_1")));
    assert_eq!(pair.ask(authorize(1, "late-600")).await, authorized("auth_1"));
    assert_unknown(pair.ask(authorize(2, "late-20+decline")).await, "pending");
    let event = verified(webhooks.recv().await.expect("a webhook arrives"));
    assert_eq!(event.outcome, GatewayOutcome::Declined { reason: "declined as asked".into() });
}

#[tokio::test]
async fn a_void_wins_against_an_authorization_that_is_pending() {
    let (pair, mut webhooks) = with_webhooks(0).await;
    assert_unknown(pair.ask(authorize(1, "late-600")).await, "pending");
    assert_eq!(pair.ask(void(1)).await, GatewayOutcome::Voided);
    let event = verified(webhooks.recv().await.expect("a webhook arrives"));
    assert_eq!(event.outcome, GatewayOutcome::Declined { reason: "it was voided before".into() });
    pair.assert_state(1, ChargeState::Voided);
}

#[tokio::test]
async fn a_webhook_may_come_twice_with_the_same_content() {
    let (pair, mut webhooks) = with_webhooks(0).await;
    assert_eq!(pair.ask(authorize(1, "twice")).await, authorized("auth_1"));
    let first = verified(webhooks.recv().await.expect("a webhook arrives"));
    let second = verified(webhooks.recv().await.expect("the webhook arrives again"));
    assert_eq!(first, second);
    assert_eq!(first.outcome, authorized("auth_1"));
}

#[tokio::test]
async fn fault_rates_affect_the_same_calls_each_time() {
    let fates = async |seed| {
        let rates = FaultRates { decline: 0.5, timeout: 0.0, seed };
        let pair = pair_of(Settings { rates, ..Settings::default() }).await;
        let mut fates = Vec::new();
        for attempt in 1..=40 {
            fates.push(matches!(pair.ask(authorize(attempt, "ok")).await, GatewayOutcome::Declined { .. }));
        }
        fates
    };
    let first = fates(1).await;
    assert_eq!(first, fates(1).await);
    assert_ne!(first, fates(2).await);
    let declined = first.iter().filter(|declined| **declined).count();
    assert!((8..=32).contains(&declined), "{declined} of 40 are far from one half");
    let rates = FaultRates { timeout: 1.0, ..FaultRates::default() };
    let pair = pair_of(Settings { rates, ..Settings::default() }).await;
    assert_unknown(pair.ask(authorize(1, "ok")).await, "no answer");
    assert_eq!(pair.ask(authorize(1, "ok")).await, authorized("auth_1"));
}

#[tokio::test]
async fn the_api_key_is_sent() {
    let settings = Settings { api_key: Some("sesame".into()), ..Settings::default() };
    let pair = pair_of(settings).await;
    assert_unknown(pair.ask(authorize(1, "ok")).await, "payments.api_key");
    assert_eq!(pair.charge(1), None);
    let knowing = GatewayConfig { api_key: Some(Secret("sesame".into())), ..config(pair.address) };
    assert_eq!(outcome(&client(&knowing), authorize(1, "ok")).await, authorized("auth_1"));
    let unfit = GatewayConfig { api_key: Some(Secret("a\nb".into())), ..config(pair.address) };
    let error = HttpGateway::new(&unfit, Handle::current()).err().expect("this key is refused");
    assert!(error.to_string().starts_with("payments.api_key"), "{error}");
}

#[tokio::test]
async fn calls_beyond_the_limit_are_busy_until_others_end() {
    let pair = pair().await;
    let narrow = client(&GatewayConfig { concurrency: 2, ..config(pair.address) });
    let ask = |call| {
        let (sender, receiver) = oneshot::channel();
        narrow.call(call, Box::new(move |outcome| sender.send(outcome).expect("the receiver lives")));
        receiver
    };
    let waiting = [ask(authorize(1, "timeout")), ask(authorize(2, "timeout"))];
    // The call is answered at once, and the gateway receives nothing.
    let refused = ask(authorize(3, "ok")).try_recv().expect("the call does not wait");
    assert_unknown(refused, "busy");
    for receiver in waiting {
        assert_unknown(receiver.await.expect("an outcome"), "no answer");
    }
    assert_eq!(pair.charge(3), None);
    assert_eq!(outcome(&narrow, authorize(3, "ok")).await, authorized("auth_3"));
}

#[tokio::test]
async fn parallel_calls_share_connections() {
    let pair = pair().await;
    let wide = Arc::new(client(&GatewayConfig { concurrency: 64, ..config(pair.address) }));
    for round in 0..3 {
        let mut receivers = Vec::new();
        for number in 0..64 {
            let (sender, receiver) = oneshot::channel();
            let call = authorize(round * 64 + number, "ok");
            wide.call(call, Box::new(move |outcome| sender.send(outcome).expect("the receiver lives")));
            receivers.push(receiver);
        }
        for receiver in receivers {
            assert!(matches!(receiver.await.expect("an outcome"), GatewayOutcome::Authorized { .. }));
        }
    }
    let view = pair.ledger.view();
    assert_eq!((view.charges.len(), view.totals["EUR"].authorized), (192, 192 * 3000));
    assert!(view.connections <= 128, "{} connections for 192 calls, 64 at a time", view.connections);
}

#[tokio::test]
async fn a_gateway_may_stop_and_restart() {
    let pair = pair().await;
    let address = pair.address;
    assert_eq!(pair.ask(authorize(1, "ok")).await, authorized("auth_1"));
    let client = pair.client.clone();
    drop(pair);
    // The open connection breaks first, then the port is closed. Both outcomes are unknown.
    let mut reasons = Vec::new();
    for _ in 0..5 {
        match outcome(&client, capture(1, "auth_1")).await {
            GatewayOutcome::Unknown { reason } => reasons.push(reason),
            other => panic!("{other:?} without a gateway"),
        }
    }
    assert!(reasons.iter().any(|reason| reason.contains("refused")), "{reasons:?}");
    let server =
        Server::bind(Settings { listen: address, ..Settings::default() }).await.expect("the port is free again");
    let running = tokio::spawn(server.run(std::future::pending()));
    assert_eq!(outcome(&client, authorize(2, "ok")).await, authorized("auth_1"));
    running.abort();
}

/// The outcome of a call to a gateway that sends exactly these bytes and closes the connection.
async fn outcome_of_answer(answer: impl Into<Vec<u8>>) -> GatewayOutcome {
    let answer = answer.into();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let answering = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a caller");
        let (head, _) = request(&mut stream).await;
        stream.write_all(&answer).await.expect("the receiver lives");
        stream.shutdown().await.expect("the receiver lives");
        head
    });
    let outcome = outcome(&client(&config(address)), authorize(1, "ok")).await;
    let head = answering.await.expect("a head");
    assert!(head.starts_with("POST /authorizations HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nidempotency-key: {}\r\n", key(1))), "{head}");
    outcome
}

fn http(status: &str, kind: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

const YES: &str = r#"{"status":"authorized","reference":"r1","amount":{"amount":3000,"currency":"EUR"}}"#;

#[tokio::test]
async fn only_a_complete_valid_answer_is_an_outcome() {
    assert_eq!(outcome_of_answer(http("200 OK", "application/json", YES)).await, authorized("r1"));
    assert_eq!(outcome_of_answer(http("200 OK", "Application/JSON; charset=utf-8", YES)).await, authorized("r1"));
    for (answer, why) in [
        (http("200 OK", "text/html", YES), "application/json"),
        (http("200 OK", "application/jsonp", YES), "application/json"),
        (http("201 Created", "application/json", YES), "201"),
        (http("202 Accepted", "application/json", YES), "pending"),
        (http("301 Moved\r\nlocation: /elsewhere", "application/json", YES), "redirects are not followed"),
        (http("400 Bad Request", "application/json", r#"{"status":"declined"}"#), "400"),
        (http("404 Not Found", "text/html", "no"), "payments.url"),
        (http("503 Busy", "application/json", r#"{"status":"declined"}"#), "503"),
        (http("200 OK", "application/json", &YES.replace("authorized", "captured")), "no answer to this step"),
        (http("200 OK", "application/json", &YES.replace("r1", "")), "reference"),
        (http("200 OK", "application/json", &YES.replace("3000", "30.5")), "not understood"),
        (http("200 OK", "application/json", ""), "not understood"),
        (http("200 OK", "application/json", &"[".repeat(60_000)), "not understood"),
        // The gateway closes in the middle of the body, in the head, and before the first byte.
        (http("200 OK", "application/json", YES)[..120].to_owned(), "the connection failed"),
        ("HTTP/1.1 200 OK\r\ncontent-ty".to_owned(), "the connection failed"),
        (String::new(), "the connection failed"),
        ("SSH-2.0-OpenSSH_9.9\r\n".to_owned(), "the connection failed"),
        (format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(200_000)), "the connection failed"),
    ] {
        assert_unknown(outcome_of_answer(answer).await, why);
    }
    assert_unknown(
        outcome_of_answer(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n\xff\xfe".to_vec(),
        )
        .await,
        "not understood",
    );
}

#[tokio::test]
async fn an_endless_answer_is_not_read_to_its_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let writing = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a caller");
        request(&mut stream).await;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await.expect("the receiver lives");
        let chunk = format!("1000\r\n{}\r\n", " ".repeat(4096));
        let mut written = 0u64;
        while stream.write_all(chunk.as_bytes()).await.is_ok() {
            written += 4096;
        }
        written
    });
    assert_unknown(outcome(&client(&config(address)), authorize(1, "ok")).await, "longer than 65536 bytes");
    // The client has closed, and at most the sockets' buffers were sent beyond the limit.
    assert!(writing.await.expect("it ends") < 64 << 20);
}

#[tokio::test]
async fn https_fails_with_a_plain_server() {
    let pair = pair().await;
    let url = format!("https://{}", pair.address).parse().expect("an address");
    match HttpGateway::new(&GatewayConfig { url, ..config(pair.address) }, Handle::current()) {
        Ok(client) => assert_unknown(outcome(&client, authorize(1, "ok")).await, "the connection failed"),
        // A machine without root certificates fails before any call.
        Err(error) => assert!(error.to_string().contains("root certificates"), "{error}"),
    }
    assert_eq!(pair.charge(1), None);
}

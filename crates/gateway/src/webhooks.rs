//! Sends webhooks. Each attempt is signed anew. The gateway retries until the receiver accepts the webhook.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use boxoffice_core::{id::Id, time::Timestamp};
use boxoffice_wire::{
    payment::{GatewayAnswer, StepKey},
    webhook::{SIGNATURE_HEADER, WebhookBody, sign},
};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Uri, header::CONTENT_TYPE};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};

/// Attempts to send one webhook before the gateway gives it up.
const ATTEMPTS_MAX: u32 = 8;

/// The wait before the second attempt. It doubles with each attempt.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// How long the receiver may take to answer.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A receiver of webhooks.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// The URL to post to. `http` only.
    pub url: Uri,
    /// The secret with which webhooks are signed.
    pub secret: String,
}

/// Sends webhooks, if the configuration names a receiver.
pub(crate) struct WebhookSender {
    receiver: Option<Webhook>,
    client: Client<HttpConnector, Full<Bytes>>,
    /// The number of webhooks so far, which gives each its id.
    count: AtomicU64,
}

impl WebhookSender {
    pub(crate) fn new(receiver: Option<Webhook>) -> WebhookSender {
        let client = Client::builder(TokioExecutor::new()).build_http();
        WebhookSender { receiver, client, count: AtomicU64::new(0) }
    }

    /// Reports the answer to a step, `times` times with the same id.
    pub(crate) async fn notify(&self, key: StepKey, answer: GatewayAnswer, times: u32) {
        let Some(receiver) = &self.receiver else { return };
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let id = Id::new(&format!("evt-{number}")).expect("letters, a dash and digits make an id");
        let body = serde_json::to_vec(&WebhookBody { id, key, answer }).expect("a webhook is JSON");
        let body = Bytes::from(body);
        for _ in 0..times {
            self.send(receiver, &body, key).await;
        }
    }

    async fn send(&self, receiver: &Webhook, body: &Bytes, key: StepKey) {
        let mut wait = RETRY_AFTER;
        for _ in 0..ATTEMPTS_MAX {
            let request = Request::post(receiver.url.clone())
                .header(CONTENT_TYPE, "application/json")
                .header(SIGNATURE_HEADER, sign(receiver.secret.as_bytes(), now(), body))
                .body(Full::new(body.clone()))
                .expect("the parts of the request are valid");
            let response = tokio::time::timeout(RESPONSE_TIMEOUT, self.client.request(request)).await;
            if matches!(&response, Ok(Ok(response)) if response.status().is_success()) {
                return;
            }
            tokio::time::sleep(wait).await;
            wait *= 2;
        }
        let url = &receiver.url;
        eprintln!("boxoffice-gateway: {url} did not accept the webhook about {key} in {ATTEMPTS_MAX} attempts");
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

//! Telling by webhook: signed anew each time it is sent, and sent again until somebody takes it.

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
use hyper::{Request, header::CONTENT_TYPE};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};

use crate::Webhook;

/// How often one webhook is sent before it is given up.
const TRIES: u32 = 8;

/// How long to wait before the second try; doubled each time.
const AGAIN: Duration = Duration::from_millis(100);

/// How long a listener may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who sends webhooks, if anybody is to be told.
pub(crate) struct Teller {
    to: Option<Webhook>,
    client: Client<HttpConnector, Full<Bytes>>,
    told: AtomicU64,
}

impl Teller {
    pub(crate) fn new(to: Option<Webhook>) -> Teller {
        Teller { to, client: Client::builder(TokioExecutor::new()).build_http(), told: AtomicU64::new(0) }
    }

    /// Tells of a step `times` times, with the same id.
    pub(crate) async fn tell(&self, key: StepKey, answer: GatewayAnswer, times: u32) {
        let Some(to) = &self.to else { return };
        let number = self.told.fetch_add(1, Ordering::Relaxed) + 1;
        let id = Id::new(&format!("evt-{number}")).expect("letters, a dash and digits make an id");
        let body = serde_json::to_vec(&WebhookBody { id, key, answer }).expect("a webhook is JSON");
        let body = Bytes::from(body);
        for _ in 0..times {
            self.send(to, &body, key).await;
        }
    }

    async fn send(&self, to: &Webhook, body: &Bytes, key: StepKey) {
        let mut pause = AGAIN;
        for _ in 0..TRIES {
            let request = Request::post(to.url.clone())
                .header(CONTENT_TYPE, "application/json")
                .header(SIGNATURE_HEADER, sign(to.secret.as_bytes(), now(), body))
                .body(Full::new(body.clone()))
                .expect("the parts of a request are fit for it");
            let taken = tokio::time::timeout(PATIENCE, self.client.request(request)).await;
            if matches!(&taken, Ok(Ok(response)) if response.status().is_success()) {
                return;
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        eprintln!("boxoffice-gateway: nobody took the webhook about {key} at {}", to.url);
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

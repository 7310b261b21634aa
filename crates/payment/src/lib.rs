//! The HTTP client of the payment gateway. Calls are bounded, and each has an idempotency key and a time-out.
//!
//! It never repeats a call. The caller receives an unknown outcome and repeats the call with the same key when the
//! rules say so. `docs/reference/gateway.md` is the contract.

use std::{sync::Arc, time::Duration};

use boxoffice_core::payment::{GatewayCall, GatewayOutcome};
use boxoffice_env::gateway::{Gateway, OnOutcome};
use boxoffice_wire::payment::{IDEMPOTENCY_KEY, LIST_PAGE_MAX, LIST_PATH, ListedPage, StepBody, plain, step_path};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Uri,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT},
    http::request,
};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio::{runtime::Handle, sync::Semaphore};

mod answer;
mod config;

#[cfg(test)]
mod tests;

pub use config::{BadUrl, GatewayConfig, GatewayError, GatewayUrl};

use answer::CallError;

/// How long an idle connection is kept. Most gateways close theirs sooner, which is noticed.
const KEEP_IDLE: Duration = Duration::from_secs(60);

/// The limit for the head of an answer.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// A gateway over HTTP/1.1. Clones share its connections and its limit of calls.
#[derive(Clone)]
pub struct HttpGateway {
    calls: Arc<Calls>,
    /// Limits the calls under way. The outcome of a call beyond it is unknown, `busy`.
    under_way: Arc<Semaphore>,
    runtime: Handle,
}

impl HttpGateway {
    /// The gateway at `config.url`. It connects with the first call. Calls run on `runtime`.
    ///
    /// # Errors
    /// [`GatewayError`] if the key is not valid in a header, or the system has no root certificates.
    pub fn new(config: &GatewayConfig, runtime: Handle) -> Result<HttpGateway, GatewayError> {
        let authorization = config.api_key.as_ref().map(|key| {
            let mut value = HeaderValue::try_from(format!("Bearer {}", key.0)).map_err(|_| GatewayError::ApiKey)?;
            value.set_sensitive(true);
            Ok::<_, GatewayError>(value)
        });
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(KEEP_IDLE)
            .pool_max_idle_per_host(config.concurrency)
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .build(connector(config)?);
        let calls = Calls {
            client,
            url: config.url.clone(),
            timeout: Duration::from_millis(config.timeout_ms),
            authorization: authorization.transpose()?,
        };
        Ok(HttpGateway { calls: Arc::new(calls), under_way: Arc::new(Semaphore::new(config.concurrency)), runtime })
    }
}

impl HttpGateway {
    /// A page of the gateway's list of attempts, from `since` (RFC 3339) on, behind `after`.
    ///
    /// # Errors
    /// Why there is none, in words: a gateway need not have a list.
    pub async fn list(&self, since: Option<&str>, after: Option<&str>) -> Result<ListedPage, String> {
        let named = [("since", since), ("after", after)].into_iter().filter_map(|(name, value)| Some((name, value?)));
        let mut query = form_urlencoded::Serializer::new(String::new());
        let query = query.extend_pairs(named).append_pair("limit", &LIST_PAGE_MAX.to_string()).finish();
        let uri: Uri = self.calls.url.below(&format!("{LIST_PATH}?{query}"));
        let request = self.calls.with_authorization(Request::get(uri)).body(Full::new(Bytes::new()));
        let asked = async {
            let request = request.expect("the parts of a request are valid");
            let response = self.calls.client.request(request).await.map_err(|error| CallError::lost(&error))?;
            answer::read_list(response).await
        };
        let answered = tokio::time::timeout(self.calls.timeout, asked).await;
        answered
            .unwrap_or(Err(CallError::TooLate(self.calls.timeout)))
            .map_err(|error| plain(&error.to_string()).into())
    }
}

fn connector(config: &GatewayConfig) -> Result<HttpsConnector<HttpConnector>, GatewayError> {
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(GatewayError::Tls)?;
    let tls = if config.url.is_https() {
        tls.with_native_roots().map_err(GatewayError::Roots)?
    } else {
        // No certificate is verified.
        tls.with_root_certificates(RootCertStore::empty())
    };
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.enforce_http(false);
    let tls = HttpsConnectorBuilder::new().with_tls_config(tls.with_no_client_auth()).https_or_http();
    Ok(tls.enable_http1().wrap_connector(tcp))
}

impl Gateway for HttpGateway {
    fn call(&self, call: GatewayCall, done: OnOutcome) {
        let Ok(permit) = Arc::clone(&self.under_way).try_acquire_owned() else {
            return done(GatewayOutcome::Unknown { reason: "busy: too many payments are under way".into() });
        };
        let calls = Arc::clone(&self.calls);
        self.runtime.spawn(async move {
            let outcome = calls.outcome(&call).await;
            // The receiver of the outcome may call again at once.
            drop(permit);
            done(outcome);
        });
    }
}

struct Calls {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: GatewayUrl,
    timeout: Duration,
    authorization: Option<HeaderValue>,
}

impl Calls {
    async fn outcome(&self, call: &GatewayCall) -> GatewayOutcome {
        let answered = tokio::time::timeout(self.timeout, self.call(call)).await;
        answered.unwrap_or(Err(CallError::TooLate(self.timeout))).unwrap_or_else(|error| {
            let reason = plain(&error.to_string());
            tracing::warn!(key = %call.key(), step = ?call.step(), %reason, "the outcome of a payment call is unknown");
            GatewayOutcome::Unknown { reason }
        })
    }

    async fn call(&self, call: &GatewayCall) -> Result<GatewayOutcome, CallError> {
        let response = self.client.request(self.request(call)).await.map_err(|error| CallError::lost(&error))?;
        answer::read(call.step(), response).await
    }

    fn request(&self, call: &GatewayCall) -> Request<Full<Bytes>> {
        let body = StepBody::of(call);
        let (key, body) = (body.key(), body.json());
        let uri: Uri = self.url.below(step_path(call.step()));
        self.with_authorization(Request::post(uri))
            .header(IDEMPOTENCY_KEY, key.to_string())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .expect("the parts of a request are valid")
    }

    fn with_authorization(&self, request: request::Builder) -> request::Builder {
        let request = request
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("boxoffice/", env!("CARGO_PKG_VERSION")));
        match &self.authorization {
            Some(authorization) => request.header(AUTHORIZATION, authorization.clone()),
            None => request,
        }
    }
}

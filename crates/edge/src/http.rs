//! What the port says to HTTP: the way to WebSocket, health, metrics, and the page for who comes with a browser.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use boxoffice_wire::{Encoding, Rejection};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::{
    api,
    caller::Caller,
    connection::{self, Newcomer},
    page,
    shared::{Guest, Phase, Shared},
};

/// The routes of the port.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    api::routes()
        .merge(page::routes())
        .route("/healthz", get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/v1/ws", get(upgrade))
        .with_state(shared)
}

async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    let ready = match *shared.phase.borrow() {
        Phase::Open => shared.backend.ready(),
        Phase::Draining | Phase::Closed => Err("draining".to_owned()),
    };
    match ready {
        Ok(()) => "ready\n".into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let text = shared.backend.metrics_text() + &shared.metrics.text();
    // The page of one node shows the counters of all.
    let headers = [(header::CONTENT_TYPE, "text/plain; version=0.0.4"), (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*")];
    (headers, text).into_response()
}

/// Turns the connection into a WebSocket, or says why not.
async fn upgrade(State(shared): State<Arc<Shared>>, mut request: Request) -> Response {
    let upgrading = request.extensions_mut().remove::<OnUpgrade>();
    let guest = request.extensions_mut().remove::<Arc<Guest>>().expect("the accept loop lets guests in");
    let headers = request.headers();
    let (Some(upgrading), true) = (upgrading, has_token(headers, header::UPGRADE, "websocket")) else {
        return refuse(StatusCode::UPGRADE_REQUIRED, "this is the door for WebSocket connections");
    };
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return refuse(StatusCode::UPGRADE_REQUIRED, "the WebSocket version must be 13");
    }
    let Some(key) = headers.get(header::SEC_WEBSOCKET_KEY) else {
        return refuse(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is missing");
    };
    let accept = derive_accept_key(key.as_bytes());
    if !origin_is_welcome(headers, &shared.config.origins) {
        return refuse(StatusCode::FORBIDDEN, "pages of this origin may not connect");
    }
    let is_offered = |encoding: &Encoding| has_token(headers, header::SEC_WEBSOCKET_PROTOCOL, encoding.subprotocol());
    let Some(encoding) = Encoding::ALL.into_iter().find(is_offered) else {
        let words = "offer the subprotocol boxoffice.v1.msgpack or boxoffice.v1.json";
        return refuse(StatusCode::BAD_REQUEST, words);
    };
    let caller = match Caller::of_headers(&shared, headers) {
        Ok(caller) => caller,
        Err(why @ Rejection::Unauthenticated(_)) => return refuse(StatusCode::UNAUTHORIZED, why.to_string()),
        Err(why) => return refuse(StatusCode::BAD_REQUEST, why.to_string()),
    };
    shared.runtimes.selling.clone().spawn(async move {
        let upgraded = match upgrading.await {
            Ok(upgraded) => upgraded,
            Err(error) => return tracing::debug!(%error, "an upgrade did not happen"),
        };
        let parts = upgraded.downcast::<TokioIo<TcpStream>>().expect("the accept loop serves TCP streams");
        let newcomer = Newcomer { stream: parts.io.into_inner(), read: parts.read_buf, encoding, caller, guest };
        connection::serve(newcomer, shared).await;
    });
    let headers = [
        (header::CONNECTION, HeaderValue::from_static("upgrade")),
        (header::UPGRADE, HeaderValue::from_static("websocket")),
        (header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(encoding.subprotocol())),
        (header::SEC_WEBSOCKET_ACCEPT, HeaderValue::from_str(&accept).expect("base64 is fit for a header")),
    ];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

fn refuse(status: StatusCode, reason: impl std::fmt::Display) -> Response {
    let headers = [(header::SEC_WEBSOCKET_VERSION, "13"), (header::CONNECTION, "close")];
    (status, headers, format!("{reason}\n")).into_response()
}

/// Whether a header's comma-separated list has this entry.
fn has_token(headers: &HeaderMap, name: header::HeaderName, token: &str) -> bool {
    let lists = headers.get_all(name);
    lists
        .iter()
        .filter_map(|list| list.to_str().ok())
        .flat_map(|list| list.split(','))
        .any(|entry| entry.trim().eq_ignore_ascii_case(token))
}

pub(crate) fn origin_is_welcome(headers: &HeaderMap, origins: &[String]) -> bool {
    match headers.get(header::ORIGIN) {
        Some(origin) if !origins.is_empty() => origins.iter().any(|welcome| origin == welcome.as_str()),
        Some(_) | None => true,
    }
}

/// Whether the client says that it has what this tag stands for.
pub(crate) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let lists = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|list| list.to_str().ok());
    lists
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

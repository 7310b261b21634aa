//! The routes of the ports: WebSocket upgrade, health, metrics, the API and the page.

use std::sync::Arc;

use axum::{
    Extension, Router,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{MethodRouter, any, get},
};
use boxoffice_node::metrics_text::MetricsText;
use boxoffice_wire::{
    Encoding, Rejection,
    path::{Opening, Path},
    weight,
};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::{
    access::Row,
    admission::NotAdmitted,
    api::{self, Origin},
    caller::{Admitted, Caller},
    connection::{self, AcceptedSocket},
    denials::Denial,
    isolation,
    network::ClientNetwork,
    origins, page,
    shared::{ConnectionPermit, Phase, Port, Shared},
    stream::Stream,
    unsent::AnswerBytes,
};

/// Headers by which proxies tell that they forward a request.
const FORWARDING: [&str; 7] =
    ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-server", "x-real-ip", "via"];

/// The paths for which the operators' port keeps places.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// The answer of `/healthz`.
pub(crate) const ALIVE: &str = "alive\n";

/// The routes of both ports.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    // Each path has a row of the permission table, and there is no other.
    let priced = |path| handler(path).layer(middleware::from_fn_with_state(path, charge));
    let routes = Path::ALL.into_iter().fold(Router::new(), |router, path| router.route(path.route(), priced(path)));
    routes.fallback(api::nowhere).layer(middleware::from_fn_with_state(Arc::clone(&shared), guard)).with_state(shared)
}

/// The handler of a path. Every path of the permission table has one.
fn handler(path: Path) -> MethodRouter<Arc<Shared>> {
    match path {
        Path::Op => any(api::op),
        Path::WebSocket => get(upgrade),
        Path::Layout => any(api::layout),
        Path::Map => any(api::map),
        Path::Webhook => any(api::webhook),
        Path::Document => any(api::document),
        Path::Metrics => any(metrics),
        Path::Ready => get(ready),
        Path::Health => get(|| async { ALIVE }),
        Path::Page => get(page::index),
        Path::PageFacts => get(page::about),
        Path::PageFile => get(page::file),
    }
}

/// Checks the host, the site of the page that asks, and the connection's budget. An operators' port without credentials serves only programs of this
/// machine. A stranger's page whose name was made to lead here sends that name as the host.
async fn guard(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let permit = request.extensions().get::<Arc<ConnectionPermit>>();
    let permit = Arc::clone(permit.expect("every request carries its connection's permit"));
    if permit.is_for_probes && !PROBES.contains(&request.uri().path()) {
        let words = "the operators' port is full, and its last places are for /healthz, /readyz and /metrics";
        return refuse(StatusCode::SERVICE_UNAVAILABLE, words);
    }
    if permit.port == Port::Operators && shared.has_no_operators() {
        let headers = request.headers();
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let forwarded = FORWARDING.into_iter().find(|name| headers.contains_key(*name));
        if !host.is_some_and(origins::is_loopback) || forwarded.is_some() {
            let by = forwarded.map_or_else(|| format!("host {host:?}"), |name| format!("`{name}`"));
            shared.denials.note(Denial::Origin, None, &format!("{by} at the operators' port"));
            shared.explain_operators_port();
            let words = "without an admin token the operators' port answers only programs of this machine, as localhost or \
                         127.0.0.1 and not through a proxy";
            return refuse(StatusCode::MISDIRECTED_REQUEST, words);
        }
    }
    if isolation::is_refused(&shared, permit.port, &request) {
        return refuse(StatusCode::FORBIDDEN, "pages of other sites may not ask here");
    }
    if permit.is_over() || permit.is_exempt() {
        let admitted = Caller::of_headers(&shared, &permit, request.headers()).await;
        match &admitted {
            // Strangers of a network do not keep the operator's own programs in it from connecting.
            Ok(caller) if caller.access.is_staff() => permit.exempt(),
            // A key let the connection be, and this request shows none.
            Ok(_) | Err(_) if permit.is_exempt() => {
                if let Err(over) = permit.count_again() {
                    return refuse(StatusCode::TOO_MANY_REQUESTS, over.rejection());
                }
            }
            Ok(_) | Err(_) => {
                let over = shared.budgets.too_many_connections();
                return refuse(StatusCode::TOO_MANY_REQUESTS, over.rejection());
            }
        }
        // The credentials of a request are looked at once.
        request.extensions_mut().insert(Admitted(admitted));
    }
    next.run(request).await
}

/// Charges what a path costs where no op says it.
async fn charge(State(path): State<Path>, request: Request, next: Next) -> Response {
    let permit = request.extensions().get::<Arc<ConnectionPermit>>();
    let permit = permit.expect("every request carries its connection's permit");
    match permit.charge(path.price()) {
        Ok(()) => next.run(request).await,
        Err(over) => refuse(StatusCode::TOO_MANY_REQUESTS, over.rejection()),
    }
}

async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    let ready = match *shared.phase.borrow() {
        Phase::Open => shared.backend.ready(),
        Phase::Leaving | Phase::Draining | Phase::Closed => Err("draining".to_owned()),
    };
    match ready {
        // A balancer must not take the node out for that. Everything else is sold.
        Ok(()) => match shared.backend.damage() {
            Some(damage) => format!("ready, but {damage}\n").into_response(),
            None => "ready\n".into_response(),
        },
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

/// The counters. The clients' port shows them to callers with the role report only.
async fn metrics(
    State(shared): State<Arc<Shared>>,
    Extension(permit): Extension<Arc<ConnectionPermit>>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    // The page of one node shows the counters of all nodes.
    let origin = Origin::of(&shared, &parts.headers);
    origin.answer(parts.method.clone(), async { counters(&shared, &permit, &parts).await }).await
}

async fn counters(shared: &Arc<Shared>, permit: &ConnectionPermit, parts: &Parts) -> Response {
    let caller = match Admitted::of(shared, permit, parts).await {
        Ok(caller) => caller,
        Err(why) => return refuse_caller(why),
    };
    permit.serves(caller.access.ends_with(), || caller.access.end(shared));
    permit.note_role(caller.access.is_staff());
    let opening = match permit.port {
        Port::Clients => Path::Metrics.at_clients_port(),
        Port::Operators => Path::Metrics.at_operators_port(),
    };
    let is_open = match opening {
        Opening::Everyone | Opening::NoneOrValid => true,
        Opening::As(op) | Opening::HiddenAs(op) => caller.access.may(shared, Row::Op(op)).is_ok(),
        Opening::ByOp | Opening::Gateway => false,
    };
    if !is_open {
        return StatusCode::NOT_FOUND.into_response();
    }
    let mut text = MetricsText::default();
    shared.metrics.write(&mut text);
    shared.denials.write(&mut text);
    shared.budgets.write(&mut text);
    shared.roster.write(&mut text);
    shared.unsent.write(&mut text);
    let text = shared.backend.metrics_text() + &text.finish();
    let own = AnswerBytes::own(text.len());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], Extension(own), text).into_response()
}

/// Turns the connection into a WebSocket, or answers why not.
async fn upgrade(State(shared): State<Arc<Shared>>, mut request: Request) -> Response {
    let upgrading = request.extensions_mut().remove::<OnUpgrade>();
    let permit = request
        .extensions_mut()
        .remove::<Arc<ConnectionPermit>>()
        .expect("every request carries its connection's permit");
    let headers = request.headers();
    let (Some(upgrading), true) = (upgrading, has_token(headers, header::UPGRADE, "websocket")) else {
        return refuse(StatusCode::UPGRADE_REQUIRED, "this path is for WebSocket connections");
    };
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return refuse(StatusCode::UPGRADE_REQUIRED, "the WebSocket version must be 13");
    }
    let Some(key) = headers.get(header::SEC_WEBSOCKET_KEY) else {
        return refuse(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is missing");
    };
    let accept = derive_accept_key(key.as_bytes());
    if !origins::is_allowed(&shared, headers) {
        return refuse(StatusCode::FORBIDDEN, "pages of this origin may not connect");
    }
    let is_offered = |encoding: &Encoding| has_token(headers, header::SEC_WEBSOCKET_PROTOCOL, encoding.subprotocol());
    let Some(encoding) = Encoding::ALL.into_iter().find(is_offered) else {
        let words = "offer the subprotocol boxoffice.v1.msgpack or boxoffice.v1.json";
        return refuse(StatusCode::BAD_REQUEST, words);
    };
    let (parts, _) = request.into_parts();
    let caller = match Admitted::of(&shared, &permit, &parts).await {
        Ok(caller) => caller,
        Err(why) => return refuse_caller(why),
    };
    tracing::debug!(client = %permit.address(), "a connection becomes a WebSocket");
    if caller.access.is_staff() {
        permit.exempt();
    } else if permit.port == Port::Clients {
        // A proxy may have told the client with this request.
        permit.place.set_network(Some(ClientNetwork::of(permit.address())));
    }
    if !caller.access.is_staff() && (permit.count().is_err() || permit.is_over()) {
        return refuse(StatusCode::TOO_MANY_REQUESTS, shared.budgets.too_many_connections().rejection());
    }
    // A client whose connection was closed for too many requests cannot go on over the next one.
    if let Err(over) = shared.budgets.request(&caller.owners(&permit), weight::REQUEST, tokio::time::Instant::now()) {
        return refuse(StatusCode::TOO_MANY_REQUESTS, over.rejection());
    }
    shared.runtimes.selling.clone().spawn(async move {
        let upgraded = match upgrading.await {
            Ok(upgraded) => upgraded,
            Err(error) => return tracing::debug!(%error, "an upgrade did not happen"),
        };
        let parts = upgraded.downcast::<TokioIo<Stream>>().expect("the accept loop serves such streams");
        let (stream, session) = parts.io.into_inner().into_parts();
        let accepted = AcceptedSocket { stream, session, read: parts.read_buf, encoding, caller, permit };
        connection::serve(accepted, shared).await;
    });
    let headers = [
        (header::CONNECTION, HeaderValue::from_static("upgrade")),
        (header::UPGRADE, HeaderValue::from_static("websocket")),
        (header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(encoding.subprotocol())),
        (header::SEC_WEBSOCKET_ACCEPT, HeaderValue::from_str(&accept).expect("base64 is fit for a header")),
    ];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

/// The answer to a caller that is not admitted.
fn refuse_caller(why: NotAdmitted) -> Response {
    match why {
        NotAdmitted::Rejected(why @ Rejection::Unauthenticated(_)) => refuse(StatusCode::UNAUTHORIZED, why),
        NotAdmitted::Rejected(why @ Rejection::RateLimited { .. }) => refuse(StatusCode::TOO_MANY_REQUESTS, why),
        NotAdmitted::Rejected(why) => refuse(StatusCode::BAD_REQUEST, why),
        NotAdmitted::Failed(kind) => refuse(StatusCode::SERVICE_UNAVAILABLE, kind.name()),
    }
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

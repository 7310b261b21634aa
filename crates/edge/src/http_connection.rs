//! An HTTP connection, from its first byte to its end or until it becomes a WebSocket.

use std::{io, net::IpAddr, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Request, Response, StatusCode, Version, header, uri::Authority},
    response::IntoResponse,
};
use boxoffice_wire::limits::SPEAKS_TLS;
use futures_util::FutureExt as _;
use hyper::{body::Incoming, server::conn::http1, service::Service as _};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};

use crate::{
    WebConfig,
    access_end::ACCESS_END_TIMEOUT,
    budgets::OverBudget,
    isolation,
    network::ClientNetwork,
    shared::{ConnectionPermit, Port, Shared, closed, draining, within},
    stream::Stream,
    unsent::{self, AnswerBytes},
};

/// The longest HTTP head, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The first byte of a TLS handshake. No HTTP request begins with it.
const HANDSHAKE: u8 = 22;

/// An answer that closes the connection, written without a router.
pub(crate) fn raw_answer(status: &str, retry_after_s: Option<u32>, text: &str) -> String {
    let retry_after = retry_after_s.map_or_else(String::new, |seconds| format!("retry-after: {seconds}\r\n"));
    format!(
        "HTTP/1.1 {status}\r\n{retry_after}connection: close\r\ncontent-type: text/plain\r\n{}content-length: {}\r\n\r\n{text}",
        isolation::LINES,
        text.len()
    )
}

/// The answer to a client without TLS at a port with TLS.
fn speak_tls() -> String {
    raw_answer("400 Bad Request", None, &format!("{SPEAKS_TLS}: use https, wss\r\n"))
}

/// The answer to a client whose network has too many connections.
fn too_many() -> String {
    raw_answer("429 Too Many Requests", Some(5), "too many connections from this network.\n")
}

/// How long a rejected client may take to read why.
pub(crate) const DISMISS_TIMEOUT: Duration = Duration::from_millis(500);

pub(crate) type Router = TowerToHyperService<axum::Router>;

/// Speaks HTTP until the connection ends or becomes a WebSocket.
pub(crate) async fn serve(stream: TcpStream, router: Router, permit: Arc<ConnectionPermit>, shared: Arc<Shared>) {
    let limits = &shared.config.limits;
    let header_timeout = match permit.port {
        Port::Clients => limits.header_timeout,
        // As long as nothing was asked, the caller has no role.
        Port::Operators => limits.header_timeout.min(limits.no_role_timeout),
    };
    let begun = tokio::select! {
        begun = within(header_timeout, begin(stream, &permit, &shared)) => begun,
        () = permit.place.ended() => return,
    };
    let stream = match begun {
        Some(Ok(stream)) => stream,
        Some(Err(error)) => return tracing::debug!(%error, "a connection ended before it spoke HTTP"),
        None => return tracing::debug!("a connection did not begin in time"),
    };
    let (asked, asker, peer) = (Arc::clone(&shared), Arc::clone(&permit), permit.address());
    let service = hyper::service::service_fn(move |request| answer(request, &router, (&asker, peer), &asked));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        // A probe has one request.
        .keep_alive(!permit.is_for_probes)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let mut access_ended = std::pin::pin!(permit.access_ended());
    let ended = tokio::select! {
        ended = connection.as_mut() => Ok(ended),
        () = draining(shared.phase.clone()) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection.as_mut() => Ok(ended),
                why = access_ended.as_mut() => Err(why.words()),
                () = closed(shared.phase.clone()) => Err("the time of the drain is over"),
            }
        }
        why = access_ended.as_mut() => Err(why.words()),
        () = permit.idle_without_role() => Err("no role, and nothing is asked"),
        () = permit.place.ended() => {
            tracing::debug!("an HTTP connection is cut");
            permit.cut();
            // A write that waits notices it now.
            return drop(connection.now_or_never());
        }
    };
    let ended = match ended {
        Ok(ended) => ended,
        // An idle connection is closed at once. The answer to a request under way has a moment, and is then cut off.
        Err(why) => {
            tracing::debug!(reason = why, "an HTTP connection is closed");
            connection.as_mut().graceful_shutdown();
            match within(ACCESS_END_TIMEOUT, connection.as_mut()).await {
                Some(ended) => ended,
                None => {
                    permit.cut();
                    // A write that waits notices it now.
                    return drop(connection.now_or_never());
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection ended");
    }
}

/// Reads what comes before HTTP: a proxy's header and the TLS handshake.
async fn begin(mut stream: TcpStream, permit: &ConnectionPermit, shared: &Shared) -> io::Result<Stream> {
    let stall = shared.config.limits.stall_timeout;
    let web = match permit.port {
        Port::Clients => &shared.config.web,
        Port::Operators => return Ok(Stream::plain(stream, stall, permit.cut_flag())),
    };
    let peer = permit.address();
    permit.set_address(web.proxies.client_of(&mut stream, peer).await?);
    if permit.address() != peer {
        permit.place.set_network(Some(ClientNetwork::of(permit.address())));
        if !shared.is_uncounted(permit.address()) {
            shared.budgets.new_connection(permit.address(), Instant::now()).map_err(over)?;
        }
    }
    // A proxy that tells the client with each request has connections of its own.
    if !(web.proxies.tell_with_requests() && web.proxies.trusts(permit.address()))
        && let Err(over) = permit.count()
    {
        // A client that is told why keeps its slot for a moment. Too many at once would leave none for others.
        if web.certificate.is_none()
            && let Ok(_slot) = shared.closing_notices.try_acquire()
        {
            dismiss(stream, too_many().as_bytes()).await;
        }
        return Err(self::over(over));
    }
    let Some(certificate) = &web.certificate else { return Ok(Stream::plain(stream, stall, permit.cut_flag())) };
    let mut first = [0];
    stream.peek(&mut first).await?;
    if first != [HANDSHAKE] {
        dismiss(stream, speak_tls().as_bytes()).await;
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a client does not speak TLS"));
    }
    if !shared.is_uncounted(permit.address()) {
        shared.budgets.handshake(permit.address(), Instant::now()).map_err(over)?;
    }
    shared.handshakes.spend(Stream::tls(stream, stall, permit.cut_flag(), certificate.acceptor())).await
}

fn over(over: OverBudget) -> io::Error {
    io::Error::other(over.rejection().to_string())
}

/// Sends an answer and closes the connection.
pub(crate) async fn dismiss(mut stream: TcpStream, answer: &[u8]) {
    let _ = stream.write_all(answer).await;
    let _ = stream.shutdown().await;
    // A socket that is closed with bytes unread resets the connection, which may lose the answer. So they are read.
    let mut unread = [0; 1024];
    let drain = async { while stream.read(&mut unread).await.is_ok_and(|read| read > 0) {} };
    let _ = within(DISMISS_TIMEOUT, drain).await;
}

/// The answer to a request. A request with an ambiguous address is refused.
fn answer(
    mut request: Request<Incoming>,
    router: &Router,
    (permit, peer): (&Arc<ConnectionPermit>, IpAddr),
    shared: &Arc<Shared>,
) -> impl Future<Output = Result<Response<Body>, std::convert::Infallible>> + use<> {
    let ambiguity = ambiguity(&request);
    let web = &shared.config.web;
    if permit.port == Port::Clients && web.proxies.tell_with_requests() {
        permit.set_address(web.proxies.client_of_request(peer, request.headers()));
    }
    let is_upgrade = request.headers().contains_key(header::UPGRADE);
    let hsts = hsts(permit.port, web);
    permit.place.spoke();
    let under_way = permit.begin_request();
    let answered = ambiguity.is_none().then(|| {
        request.extensions_mut().insert(Arc::clone(permit));
        router.call(request)
    });
    let permit = Arc::clone(permit);
    async move {
        let mut response = match (answered, ambiguity) {
            (Some(answered), _) => answered.await?,
            (None, why) => (StatusCode::BAD_REQUEST, why.unwrap_or_default()).into_response(),
        };
        let headers = response.headers_mut();
        // Bytes after an upgrade request were not checked as a head, so nothing may follow it.
        if ambiguity.is_some() || (is_upgrade && !headers.contains_key(header::UPGRADE)) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        headers.extend(hsts);
        isolation::seal(headers);
        drop(under_way);
        Ok(match response.extensions_mut().remove::<AnswerBytes>() {
            Some(bytes) => response.map(|body| unsent::counted(body, &bytes, &permit.unsent)),
            None => response,
        })
    }
}

/// Why a request's address is ambiguous, if it is.
fn ambiguity<B>(request: &Request<B>) -> Option<&'static str> {
    // A proxy in front may have used the one name, and this node would use the other.
    if request.uri().authority().is_some() {
        return Some("a request names a path, not a whole address\n");
    }
    let mut hosts = request.headers().get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if is_host(host) => None,
        (Some(_), None) => Some("Host is not a host\n"),
        (Some(_), Some(_)) => Some("Host is there more than once\n"),
        (None, _) if request.version() < Version::HTTP_11 => None,
        (None, _) => Some("Host is missing\n"),
    }
}

fn is_host(host: &HeaderValue) -> bool {
    host.to_str().is_ok_and(|host| !host.contains('@') && host.parse::<Authority>().is_ok())
}

/// The header that tells browsers to use TLS only.
fn hsts(port: Port, web: &WebConfig) -> Option<(HeaderName, HeaderValue)> {
    let is_said = port == Port::Clients && web.hsts_s > 0 && web.is_secure();
    is_said.then(|| {
        let value = format!("max-age={}", web.hsts_s);
        (header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_str(&value).expect("digits are fit for a header"))
    })
}

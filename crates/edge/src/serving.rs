//! One connection of HTTP: from its first byte to its end, or until it becomes a WebSocket.

use std::{io, net::IpAddr, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Request, Response, StatusCode, Version, header, uri::Authority},
    response::IntoResponse,
};
use hyper::{body::Incoming, server::conn::http1, service::Service as _};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    WebConfig,
    shared::{Guest, Port, Shared, draining, within},
    stream::Stream,
};

/// The most an HTTP head may have, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The first byte of a TLS handshake. No HTTP request begins with it.
const HANDSHAKE: u8 = 22;

/// What a client without TLS is told where the port speaks it.
const SPEAK_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\n\
                           content-length: 37\r\n\r\nthis port speaks TLS: use https, wss\r\n";

/// What a client is told whose network has as many connections as one network may have.
const TOO_MANY: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 5\r\nconnection: close\r\n\
                          content-type: text/plain\r\ncontent-length: 40\r\n\r\ntoo many connections from this network.\n";

/// How long a client that is dismissed may take to read why.
pub(crate) const FAREWELL: Duration = Duration::from_millis(500);

pub(crate) type Router = TowerToHyperService<axum::Router>;

/// Speaks HTTP until the connection is over or becomes a WebSocket.
pub(crate) async fn serve(stream: TcpStream, router: Router, guest: Arc<Guest>, shared: Arc<Shared>) {
    let introduced = within(shared.config.limits.header_timeout, introduce(stream, &guest, &shared)).await;
    let stream = match introduced {
        Some(Ok(stream)) => stream,
        Some(Err(error)) => return tracing::debug!(%error, "a connection ended before it spoke HTTP"),
        None => return tracing::debug!("a connection did not begin in time"),
    };
    let asked = Arc::clone(&shared);
    let peer = guest.address();
    let service = hyper::service::service_fn(move |request| answer(request, &router, (&guest, peer), &asked));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.config.limits.header_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = draining(shared.phase.clone()) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection ended");
    }
}

/// What comes before HTTP: what a proxy says of the client, and TLS.
async fn introduce(mut stream: TcpStream, guest: &Guest, shared: &Shared) -> io::Result<Stream> {
    let stall = shared.config.limits.stall_timeout;
    let web = match guest.port {
        Port::Clients => &shared.config.web,
        Port::Operators => return Ok(Stream::plain(stream, stall)),
    };
    guest.comes_from(web.proxies.client_of(&mut stream, guest.address()).await?);
    // A proxy that names clients request by request has connections of its own.
    if !(web.proxies.are_asked_of_requests() && web.proxies.trusts(guest.address()))
        && let Err(over) = guest.count()
    {
        // Those that are told why keep their place for a moment: with too many at once, others would find none.
        if web.certificate.is_none()
            && let Ok(_permit) = shared.dismissing.try_acquire()
        {
            dismiss(stream, TOO_MANY).await;
        }
        return Err(io::Error::other(over.rejection().to_string()));
    }
    let Some(certificate) = &web.certificate else { return Ok(Stream::plain(stream, stall)) };
    let mut first = [0];
    stream.peek(&mut first).await?;
    if first != [HANDSHAKE] {
        dismiss(stream, SPEAK_TLS).await;
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a client does not speak TLS"));
    }
    Stream::sealed(stream, stall, certificate.acceptor()).await
}

/// Says this and closes.
pub(crate) async fn dismiss(mut stream: TcpStream, answer: &[u8]) {
    let _ = stream.write_all(answer).await;
    let _ = stream.shutdown().await;
    // What the client has sent is read: a socket that is closed with bytes unread resets the connection, and the answer
    // may be lost with it.
    let mut asked = [0; 1024];
    let listen = async { while stream.read(&mut asked).await.is_ok_and(|read| read > 0) {} };
    let _ = within(FAREWELL, listen).await;
}

/// The answer to a request; one that does not say clearly what it asks for gets no further.
fn answer(
    mut request: Request<Incoming>,
    router: &Router,
    (guest, peer): (&Arc<Guest>, IpAddr),
    shared: &Arc<Shared>,
) -> impl Future<Output = Result<Response<Body>, std::convert::Infallible>> + use<> {
    let unclear = unclear(&request);
    let web = &shared.config.web;
    if guest.port == Port::Clients && web.proxies.are_asked_of_requests() {
        guest.comes_from(web.proxies.client_of_request(peer, request.headers()));
    }
    let is_upgrade = request.headers().contains_key(header::UPGRADE);
    let stays_secure = stays_secure(guest.port, web);
    let answered = unclear.is_none().then(|| {
        request.extensions_mut().insert(Arc::clone(guest));
        router.call(request)
    });
    async move {
        let mut response = match (answered, unclear) {
            (Some(answered), _) => answered.await?,
            (None, why) => (StatusCode::BAD_REQUEST, why.unwrap_or_default()).into_response(),
        };
        let headers = response.headers_mut();
        // What follows a request to upgrade was not looked at as a head: nothing may.
        if unclear.is_some() || (is_upgrade && !headers.contains_key(header::UPGRADE)) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        headers.extend(stays_secure);
        Ok(response)
    }
}

/// What is wrong with how a request names what it asks for.
fn unclear<B>(request: &Request<B>) -> Option<&'static str> {
    // A proxy in front may have decided by the one name, and this node would by the other.
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

/// What tells browsers to come back with TLS only.
fn stays_secure(port: Port, web: &WebConfig) -> Option<(HeaderName, HeaderValue)> {
    let is_said = port == Port::Clients && web.hsts_s > 0 && web.is_secure();
    is_said.then(|| {
        let value = format!("max-age={}", web.hsts_s);
        (header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_str(&value).expect("digits are fit for a header"))
    })
}

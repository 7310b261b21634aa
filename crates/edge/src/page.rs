//! The page: its files, and the facts about the node that it needs.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Query, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header, uri::Authority},
    response::{IntoResponse, Response},
};
use boxoffice_core::access::Role;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{
    access::Access,
    coding,
    etag::is_known,
    members, origins, page_files,
    shared::{ConnectionPermit, Port, Shared},
};

/// The file at `/`.
const INDEX: &str = "index.html";

/// The path of the other files.
const FOLDER: &str = "/page/";

/// The content security policy. Scripts, styles and fonts are files of the node, except those of the payment provider. The
/// page connects to the members of this moment, and a page that is open does not connect to those that join later. Without the
/// list an injected script could send what it finds to anyone. Pages of allowed origins may frame the page, and hand it the customer.
fn policy(shared: &Shared, port: Port, headers: &HeaderMap) -> String {
    let provider = shared.config.page.payment.as_deref().and_then(origin_of).unwrap_or_default();
    let scripts = if provider.is_empty() {
        String::new()
    } else {
        format!(" script-src 'self' {provider}; frame-src {provider};")
    };
    let hosts: String = shared.config.origins.iter().map(|host| format!(" {host}")).collect();
    let connects = connects(shared, port, headers);
    format!(
        "default-src 'self';{scripts} connect-src 'self'{connects}; img-src 'self' data:; object-src 'none'; \
         base-uri 'none'; form-action 'self'; frame-ancestors 'self'{hosts}"
    )
}

/// What the page connects to besides its own origin, each with a space before it: the members, for HTTP and WebSocket, the control
/// of a demonstration, and the payment provider. Old browsers do not take a WebSocket of its own origin for `'self'`. At the
/// operators' port these are all members, also those whose addresses clients are not told.
fn connects(shared: &Shared, port: Port, headers: &HeaderMap) -> String {
    let own = own_address(shared, headers);
    let (config, node) = (&shared.config, shared.backend.hello().node);
    let members = member_urls(shared, &node, headers).into_iter().map(|member| member.url);
    let public = [&config.web.public_url, &config.web.advertise].into_iter().flatten().cloned();
    let internal = match port {
        Port::Clients => Vec::new(),
        Port::Operators => members::all_urls(shared),
    };
    let nodes = members.chain(public).chain(internal).flat_map(|url| {
        let socket = url.replacen("http", "ws", 1);
        [url, socket]
    });
    // Whether the browser speaks TLS to a proxy in front is not known.
    let sockets = ["ws", "wss"].map(|scheme| format!("{scheme}://{own}"));
    let others = [&config.page.demo, &config.page.payment].into_iter().flatten();
    let others = others.filter_map(|url| origin_of(url).map(str::to_owned));
    let mut sources: Vec<String> = Vec::new();
    for source in nodes.chain(sockets).chain(others) {
        let source = source.trim_end_matches('/');
        // A `Host` may have other letters, which would end the list.
        let is_plain = source.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":/.-_[]".contains(&byte));
        if is_plain && !sources.iter().any(|known| known == source) {
            sources.push(source.to_owned());
        }
    }
    sources.into_iter().map(|source| format!(" {source}")).collect()
}

/// What the browser keeps from the page and its frames: what the page does not use. A payment provider may use the browser's payments.
fn permissions(shared: &Shared) -> String {
    let provider = shared.config.page.payment.as_deref().and_then(origin_of);
    let payment = provider.map_or_else(String::new, |provider| format!("self \"{provider}\""));
    let off: String = NOT_USED.iter().map(|feature| format!("{feature}=(), ")).collect();
    format!("{off}payment=({payment})")
}

/// Features of browsers that the page does not use. Browsers warn of names that they do not know, so only common ones are here.
const NOT_USED: [&str; 17] = [
    "accelerometer",
    "autoplay",
    "camera",
    "display-capture",
    "encrypted-media",
    "fullscreen",
    "geolocation",
    "gyroscope",
    "hid",
    "magnetometer",
    "microphone",
    "midi",
    "picture-in-picture",
    "screen-wake-lock",
    "serial",
    "usb",
    "xr-spatial-tracking",
];

/// Scheme and host of an address, if it has them.
fn origin_of(url: &str) -> Option<&str> {
    let host = url.find("://")? + 3;
    Some(url[host..].find('/').map_or(url, |path| &url[..host + path]))
}

/// Answers with the page.
pub(crate) async fn index(
    State(shared): State<Arc<Shared>>,
    Extension(permit): Extension<Arc<ConnectionPermit>>,
    headers: HeaderMap,
) -> Response {
    let mut response = answer(INDEX, &headers);
    let policy =
        HeaderValue::from_str(&policy(&shared, permit.port, &headers)).expect("origins are checked when they are read");
    let permissions = HeaderValue::from_str(&permissions(&shared)).expect("origins are checked when they are read");
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    headers.insert(HeaderName::from_static("permissions-policy"), permissions);
    // Orders have their own addresses, which other sites must not learn.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// Answers with a file of the page.
pub(crate) async fn file(uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().strip_prefix(FOLDER).unwrap_or_default();
    let mut response = answer(path, &headers);
    // Pages of other origins load the widget.
    response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

/// A file in the coding that the browser likes most, or 304 if the browser has it.
fn answer(path: &str, headers: &HeaderMap) -> Response {
    let found = kind_of(path).filter(|_| is_plain(path)).zip(page_files::find(path));
    let Some((kind, file)) = found else { return StatusCode::NOT_FOUND.into_response() };
    let coding = coding::preferred(headers, &file.codings());
    let tag = format!("\"{}{}\"", file.digest, coding.mark());
    let mut response = if is_known(headers, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, kind)], file.bytes(coding)).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, HeaderValue::from_str(&tag).expect("digits are fit for a header"));
    // Cached, but checked each time, because the node may run another version of the program next time.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    coding.tell(headers);
    response
}

/// Whether a path has only plain names, so that it stays inside the folder.
fn is_plain(path: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    path.split('/').all(|name| !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_fit))
}

/// The media type of a file, by its ending. Files with other endings are not served.
fn kind_of(path: &str) -> Option<&'static str> {
    let (_, ending) = path.rsplit_once('.')?;
    Some(match ending {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        // Types. No browser runs them.
        "ts" => "text/plain; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "webmanifest" => "application/manifest+json",
        _ => return None,
    })
}

/// The answer of `/page.json`.
#[derive(Serialize)]
struct About<'a> {
    node: SmolStr,
    nodes: Vec<MemberUrl>,
    products: Vec<&'a str>,
    resources: Vec<&'a str>,
    gateway: bool,
    demo: Option<&'a str>,
    /// Whether it is the operators' port, where the page shows what is for them.
    operators: bool,
    /// Whether a caller that shows nothing may buy. Others only watch.
    sells: bool,
    /// Whether customers show tokens.
    customers: bool,
    /// Origins whose pages may hand it a customer.
    hosts: &'a [String],
    payment: Option<&'a str>,
    /// Why pages of the origin that the query names cannot connect.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<&'static str>,
}

/// The query of `/page.json`.
#[derive(Default, Deserialize)]
struct AboutQuery {
    /// The origin of the page that asks. A browser does not send it with a `GET` to its own origin.
    #[serde(default)]
    origin: Option<String>,
}

/// The address of a member's page.
#[derive(Serialize)]
struct MemberUrl {
    node: SmolStr,
    url: String,
}

/// Answers with the facts about the node.
pub(crate) async fn about(
    State(shared): State<Arc<Shared>>,
    Extension(permit): Extension<Arc<ConnectionPermit>>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    // Another query is none.
    let origin = Query::<AboutQuery>::try_from_uri(&uri).ok().and_then(|Query(query)| query.origin);
    let page = &shared.config.page;
    let hello = shared.backend.hello();
    let about = About {
        nodes: member_urls(&shared, &hello.node, &headers),
        node: hello.node,
        products: page.products.iter().map(|product| product.as_str()).collect(),
        resources: page.resources.iter().map(|resource| resource.as_str()).collect(),
        gateway: page.gateway,
        demo: page.demo.as_deref(),
        operators: permit.port == Port::Operators,
        sells: Access::of_nothing(&shared, permit.port).roles.has(Role::Sell),
        customers: shared.knows_customers(),
        hosts: &shared.config.origins,
        payment: page.payment.as_deref(),
        refused: origin.filter(|origin| !origins::is_known(&shared, &headers, origin)).map(|_| "origin"),
    };
    let headers = [(header::CACHE_CONTROL, "no-store"), (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*")];
    (headers, Json(about)).into_response()
}

/// The addresses of the members for browsers. This node is always among them, since the browser has just reached it.
fn member_urls(shared: &Shared, own: &str, headers: &HeaderMap) -> Vec<MemberUrl> {
    let web = &shared.config.web;
    let members = members::addresses(shared, own).into_iter();
    let mut member_urls: Vec<MemberUrl> = members.map(|(node, url)| MemberUrl { node, url }).collect();
    if member_urls.iter().all(|member| member.node != own) {
        let known = web.public_url.clone().or_else(|| web.advertise.clone());
        let url = known.unwrap_or_else(|| format!("{}://{}", members::scheme(shared), own_address(shared, headers)));
        member_urls.push(MemberUrl { node: own.into(), url });
    }
    member_urls
}

/// The host of the request, or else the address that the node listens on.
fn own_address(shared: &Shared, headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.filter(|host| !host.contains('@') && host.parse::<Authority>().is_ok());
    host.map_or_else(|| shared.config.listen.to_string(), str::to_owned)
}

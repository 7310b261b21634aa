//! The page: its files, and the facts about the node that it needs.
//!
//! The files are in `crates/edge/page` and a part of the program. A debug build reads them from there each time, so that
//! they can be edited while it runs.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header, uri::Authority},
    response::{IntoResponse, Response},
};
use rust_embed::{Embed, EmbeddedFile};
use serde::Serialize;
use smol_str::SmolStr;

use crate::{etag::is_known, members, shared::Shared};

/// The file at `/`.
const INDEX: &str = "index.html";

/// The path of the other files.
const FOLDER: &str = "/page/";

/// Bytes of a file's digest in its entity tag.
const TAG_BYTES: usize = 16;

/// The content security policy. Scripts, styles and fonts are files of the node, except those of the payment provider. The
/// page connects to every node, and members may join while it is open, so their addresses are not listed. Pages of
/// allowed origins may frame it, and hand it the customer.
fn policy(shared: &Shared) -> String {
    let provider = shared.config.page.payment.as_deref().and_then(origin_of).unwrap_or_default();
    let scripts = if provider.is_empty() {
        String::new()
    } else {
        format!(" script-src 'self' {provider}; frame-src {provider};")
    };
    let hosts: String = shared.config.origins.iter().map(|host| format!(" {host}")).collect();
    format!(
        "default-src 'self';{scripts} connect-src 'self' ws: wss: http: https:; img-src 'self' data:; object-src 'none'; \
         base-uri 'none'; form-action 'self'; frame-ancestors 'self'{hosts}"
    )
}

/// Scheme and host of an address, if it has them.
fn origin_of(url: &str) -> Option<&str> {
    let host = url.find("://")? + 3;
    Some(url[host..].find('/').map_or(url, |path| &url[..host + path]))
}

#[derive(Embed)]
#[folder = "page/"]
struct Files;

/// Answers with the page.
pub(crate) async fn index(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let mut response = answer(INDEX, &headers);
    let headers = response.headers_mut();
    let policy = HeaderValue::from_str(&policy(&shared)).expect("origins are checked when they are read");
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
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

/// A file, or 304 if the browser has it.
fn answer(path: &str, headers: &HeaderMap) -> Response {
    let found = kind_of(path).filter(|_| is_plain(path)).zip(Files::get(path));
    let Some((kind, EmbeddedFile { data, metadata })) = found else { return StatusCode::NOT_FOUND.into_response() };
    let digest = metadata.sha256_hash();
    let tag: String = digest[..TAG_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("\"{tag}\"");
    let mut response = if is_known(headers, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, kind)], data).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, HeaderValue::from_str(&tag).expect("digits are fit for a header"));
    // Cached, but checked each time, because the node may run another version of the program next time.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
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
    /// Whether customers show tokens.
    customers: bool,
    /// Origins whose pages may hand it a customer.
    hosts: &'a [String],
    payment: Option<&'a str>,
}

/// The address of a member's page.
#[derive(Serialize)]
struct MemberUrl {
    node: SmolStr,
    url: String,
}

/// Answers with the facts about the node.
pub(crate) async fn about(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let page = &shared.config.page;
    let hello = shared.backend.hello();
    let about = About {
        nodes: member_urls(&shared, &hello.node, &headers),
        node: hello.node,
        products: page.products.iter().map(|product| product.as_str()).collect(),
        resources: page.resources.iter().map(|resource| resource.as_str()).collect(),
        gateway: page.gateway,
        demo: page.demo.as_deref(),
        customers: shared.knows_customers(),
        hosts: &shared.config.origins,
        payment: page.payment.as_deref(),
    };
    let headers = [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    ];
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

//! What keeps pages of other sites away from answers: headers of every answer, and the check of `Sec-Fetch-Site`.
//!
//! A page can load an answer of another site as an image or a script (`no-cors`), for which a browser sends no `Origin`. It cannot
//! read such an answer, but the request is carried out, and a browser may be tricked into showing a part of it.
//!
//! - `X-Content-Type-Options: nosniff`: no browser takes an answer for another kind than the one that it names.
//! - `Cross-Origin-Resource-Policy`: `cross-origin` for what pages of other origins may read (CORS): the files of the page and the
//!   widget, `page.json`, and answers to allowed origins. `same-origin` for everything else.
//! - `Sec-Fetch-Site`: a browser says whether a page of another site makes the request, and no page can change that. Programs and
//!   old browsers do not send it.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, header};

use crate::{
    denials::Denial,
    origins,
    shared::{Port, Shared},
};

const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The same headers for answers that are written without a router.
pub(crate) const LINES: &str = "x-content-type-options: nosniff\r\ncross-origin-resource-policy: same-origin\r\n";

/// Adds the headers to an answer. The HTTP library alone answers a head that it cannot read, without a body. They follow from the answer, so that a new route has the right ones.
pub(crate) fn seal(headers: &mut HeaderMap) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let is_for_others = headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN);
    let policy = if is_for_others { "cross-origin" } else { "same-origin" };
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static(policy));
}

/// Whether a page of another site makes a request that is not for it. Counts such a request.
///
/// At the operators' port no request of another site is carried out, except those of pages of allowed origins. Other sites may not even
/// link there, because a visit is a request with the rights of the port. At the clients' port other sites may link to
/// anything and load the page's files, but make no request of the API as an image or a script. Its cost would be charged to the
/// visitor's network.
pub(crate) fn is_refused<B>(shared: &Shared, port: Port, request: &Request<B>) -> bool {
    let headers = request.headers();
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    if !matches!(site, Some(b"cross-site" | b"same-site")) {
        return false;
    }
    if headers.contains_key(header::ORIGIN) {
        // At the clients' port each route checks it, and answers in the words of its kind.
        return port == Port::Operators && !origins::is_allowed(shared, headers);
    }
    let is_visit = headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate");
    let path = request.uri().path();
    let is_refused = match port {
        Port::Operators => true,
        Port::Clients => !is_visit && (path.starts_with("/v1/") || path == "/metrics"),
    };
    if is_refused {
        shared.denials.note(Denial::Origin, None, "a page of another site, without an origin");
    }
    is_refused
}

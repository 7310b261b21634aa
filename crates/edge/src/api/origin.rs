//! Pages of other origins: which may ask, and what their browsers are told (CORS).

use axum::{
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use boxoffice_core::refusal::Refusal;
use smol_str::SmolStr;

use super::said::Said;
use crate::{origins, shared::Shared};

/// Headers that pages may send.
const HEADERS_TAKEN: &str = "authorization, boxoffice-customer, boxoffice-customer-token, boxoffice-deadline-ms, \
                             content-type, idempotency-key, if-none-match";

/// Headers that pages may read besides the usual ones.
const HEADERS_SHOWN: &str = "etag, retry-after";

/// How long a browser may remember what it was told, in seconds.
const REMEMBERED: &str = "600";

/// Where a request came from.
pub(crate) struct Origin {
    is_welcome: bool,
    /// What the browser is told may read the answer.
    reader: Option<HeaderValue>,
}

impl Origin {
    pub(crate) fn of(shared: &Shared, headers: &HeaderMap) -> Origin {
        let is_welcome = origins::is_welcome(shared, headers);
        let reader = headers.get(header::ORIGIN).filter(|_| is_welcome).cloned();
        Origin { is_welcome, reader }
    }

    /// The answer, marked for the browser; pages that are not welcome get none, and what a browser asks beforehand is
    /// answered here.
    pub(crate) async fn answer(self, method: Method, answer: impl Future<Output = Response>) -> Response {
        let mut response = if !self.is_welcome {
            let words = SmolStr::new_static("pages of this origin may not ask");
            Said::rejected(Refusal::Forbidden(words).into()).response()
        } else if method == Method::OPTIONS {
            let headers = [
                (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST"),
                (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS_TAKEN),
                (header::ACCESS_CONTROL_MAX_AGE, REMEMBERED),
            ];
            (StatusCode::NO_CONTENT, headers).into_response()
        } else {
            answer.await
        };
        let headers = response.headers_mut();
        if let Some(reader) = self.reader {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, reader);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(HEADERS_SHOWN));
        }
        // The answer is another one for another origin.
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        response
    }
}

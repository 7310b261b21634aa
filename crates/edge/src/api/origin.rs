//! Requests of pages of other origins (CORS).

use axum::{
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use boxoffice_core::refusal::Refusal;
use smol_str::SmolStr;

use super::answer::ApiAnswer;
use crate::{origins, shared::Shared};

/// Headers that pages may send.
const HEADERS_TAKEN: &str = "authorization, boxoffice-cart-token, boxoffice-customer, boxoffice-customer-token, boxoffice-deadline-ms, \
                             boxoffice-patience-ms, content-type, idempotency-key, if-none-match";

/// Headers that pages may read besides the usual ones.
const HEADERS_SHOWN: &str = "etag, retry-after";

/// How long a browser may remember the answer to a preflight request, in seconds.
const PREFLIGHT_AGE_S: &str = "600";

/// The origin of a request.
pub(crate) struct Origin {
    is_allowed: bool,
    /// The origin that may read the answer, for the browser.
    reader: Option<HeaderValue>,
}

impl Origin {
    pub(crate) fn of(shared: &Shared, headers: &HeaderMap) -> Origin {
        let is_allowed = origins::is_allowed(shared, headers);
        let reader = headers.get(header::ORIGIN).filter(|_| is_allowed).cloned();
        Origin { is_allowed, reader }
    }

    /// Adds the headers for the browser to an answer. Refuses pages of other origins, and answers preflight requests.
    pub(crate) async fn answer(self, method: Method, answer: impl Future<Output = Response>) -> Response {
        let mut response = if !self.is_allowed {
            let words = SmolStr::new_static("pages of this origin may not ask");
            ApiAnswer::rejected(Refusal::Forbidden(words).into()).response()
        } else if method == Method::OPTIONS {
            let headers = [
                (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST"),
                (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS_TAKEN),
                (header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_AGE_S),
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
        // Another origin gets another answer.
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        response
    }
}

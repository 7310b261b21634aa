//! Answers of the HTTP API.

use axum::{
    Extension,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use boxoffice_core::refusal::Refusal;
use boxoffice_wire::{
    Encoding, Fail, FailKind, Rejection, cluster::ShardMap, encode::Verdict, http, schema::status, status::NodeStatus,
};

use crate::{fan_out::QueryResult, metrics::Ended, unsent};

/// An answer.
pub(super) struct ApiAnswer {
    status: u16,
    /// Boxed, because answers are also the errors of reading a request.
    body: Box<Body>,
    /// The allowed methods, if the request had another one.
    allow: Option<&'static str>,
    /// Whether the connection is closed after the answer.
    closes: bool,
}

/// The body of an answer.
pub(super) enum Body {
    Verdict(Verdict),
    Batch(Vec<Verdict>),
    Status(NodeStatus),
    Shards(ShardMap),
    QueryResult(QueryResult),
}

impl ApiAnswer {
    pub(super) fn ok(body: Body) -> ApiAnswer {
        ApiAnswer { status: status::OK, body: Box::new(body), allow: None, closes: false }
    }

    pub(super) fn verdict(verdict: Verdict) -> ApiAnswer {
        ApiAnswer { status: status::of_verdict(&verdict), ..ApiAnswer::ok(Body::Verdict(verdict)) }
    }

    pub(super) fn rejected(why: Rejection) -> ApiAnswer {
        ApiAnswer::verdict(Verdict::Rejected(why))
    }

    pub(super) fn failed(kind: FailKind) -> ApiAnswer {
        ApiAnswer::verdict(Verdict::Fail(Fail::new(kind)))
    }

    /// The request must have one of these methods.
    pub(super) fn wrong_method(allow: &'static str) -> ApiAnswer {
        let why = Rejection::bad_request(format!("this is asked with {allow}"));
        ApiAnswer { status: status::WRONG_METHOD, allow: Some(allow), ..ApiAnswer::rejected(why) }
    }

    /// The body did not arrive in time.
    pub(super) fn too_slow() -> ApiAnswer {
        let why = Rejection::bad_request("the body did not arrive whole in time");
        ApiAnswer { status: status::TOO_SLOW, ..ApiAnswer::rejected(why) }.closing()
    }

    /// The same answer, after which the connection is closed because the rest of the body is not read.
    pub(super) fn closing(self) -> ApiAnswer {
        ApiAnswer { closes: true, ..self }
    }

    /// The outcome for the counters.
    pub(super) fn ended(&self) -> Ended {
        match &*self.body {
            Body::Batch(_)
            | Body::Status(_)
            | Body::Shards(_)
            | Body::QueryResult(_)
            | Body::Verdict(Verdict::Ok(..)) => Ended::Ok,
            Body::Verdict(Verdict::No(_) | Verdict::Rejected(_)) => Ended::No,
            Body::Verdict(Verdict::Fail(_)) => Ended::Fail,
        }
    }

    pub(super) fn response(self) -> Response {
        let (body, own) = unsent::body(|out| match &*self.body {
            Body::Verdict(verdict) => http::verdict(Encoding::Json, out, verdict),
            Body::Batch(verdicts) => http::batch(Encoding::Json, out, verdicts),
            Body::Status(status) => http::ok(Encoding::Json, out, status),
            Body::Shards(shards) => http::ok(Encoding::Json, out, shards),
            Body::QueryResult(QueryResult::Audit(audit)) => http::ok(Encoding::Json, out, &**audit),
            Body::QueryResult(QueryResult::Entity(verdict)) => http::verdict(Encoding::Json, out, verdict),
            Body::QueryResult(QueryResult::City(page)) => http::ok(Encoding::Json, out, page),
            Body::QueryResult(QueryResult::History(page)) => http::ok(Encoding::Json, out, page),
            Body::QueryResult(QueryResult::BackupPlaces(places)) => http::ok(Encoding::Json, out, &**places),
            Body::QueryResult(QueryResult::BackupPiece(piece)) => http::ok(Encoding::Json, out, piece),
            Body::QueryResult(QueryResult::AsOf(then)) => http::ok(Encoding::Json, out, &**then),
        });
        let status = StatusCode::from_u16(self.status).expect("the table's statuses are those of HTTP");
        let mut response = (status, Extension(own), body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // Carts are private, and everything else may change in a moment.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let wait_ms = match &*self.body {
            Body::Verdict(Verdict::Fail(fail)) => fail.retry_after_ms.map(u64::from),
            Body::Verdict(Verdict::Rejected(Rejection::RateLimited { retry_after_ms, .. })) => *retry_after_ms,
            Body::Verdict(Verdict::Rejected(Rejection::Refusal(Refusal::ShareReached { retry_after_ms, .. }))) => {
                Some(*retry_after_ms)
            }
            _ => None,
        };
        if let Some(wait_ms) = wait_ms {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(wait_ms.div_ceil(1_000)));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(allow) = self.allow {
            headers.insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        if self.closes {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

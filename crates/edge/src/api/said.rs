//! What is answered to an HTTP request, and how that looks.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use boxoffice_wire::{
    Encoding, Fail, FailKind, Rejection, alone, cluster::ShardMap, encode::Verdict, schema::status, status::NodeStatus,
};
use bytes::BytesMut;

use crate::{errand::Found, metrics::Ended};

/// An answer.
pub(super) struct Said {
    status: u16,
    /// Boxed: it is also what reading a request ends with where it is none.
    body: Box<Body>,
    /// The methods there are, where it was asked with another.
    allow: Option<&'static str>,
    /// Nothing more is read from the connection.
    closes: bool,
}

/// The body of an answer.
pub(super) enum Body {
    /// How a request ended.
    Verdict(Verdict),
    /// How the items of a batch ended.
    Batch(Vec<Verdict>),
    /// How the node is.
    Status(NodeStatus),
    /// Who leads which shard.
    Shards(ShardMap),
    /// What the door itself went about.
    Found(Found),
}

impl Said {
    pub(super) fn ok(body: Body) -> Said {
        Said { status: status::OK, body: Box::new(body), allow: None, closes: false }
    }

    pub(super) fn verdict(verdict: Verdict) -> Said {
        Said { status: status::of_verdict(&verdict), ..Said::ok(Body::Verdict(verdict)) }
    }

    pub(super) fn rejected(why: Rejection) -> Said {
        Said::verdict(Verdict::Rejected(why))
    }

    pub(super) fn failed(kind: FailKind) -> Said {
        Said::verdict(Verdict::Fail(Fail::new(kind)))
    }

    /// It is asked with one of these methods.
    pub(super) fn wrong_method(allow: &'static str) -> Said {
        let why = Rejection::bad_request(format!("this is asked with {allow}"));
        Said { status: status::WRONG_METHOD, allow: Some(allow), ..Said::rejected(why) }
    }

    /// The body did not arrive in time.
    pub(super) fn too_slow() -> Said {
        let why = Rejection::bad_request("the body did not arrive whole in time");
        Said { status: status::TOO_SLOW, ..Said::rejected(why) }.closing()
    }

    /// The same, and the connection is closed: what is left of the body is not read.
    pub(super) fn closing(self) -> Said {
        Said { closes: true, ..self }
    }

    /// How the request ended.
    pub(super) fn ended(&self) -> Ended {
        match &*self.body {
            Body::Batch(_) | Body::Status(_) | Body::Shards(_) | Body::Found(_) | Body::Verdict(Verdict::Ok(..)) => {
                Ended::Ok
            }
            Body::Verdict(Verdict::No(_) | Verdict::Rejected(_)) => Ended::No,
            Body::Verdict(Verdict::Fail(_)) => Ended::Fail,
        }
    }

    /// The response.
    pub(super) fn response(self) -> Response {
        let mut out = BytesMut::new();
        match &*self.body {
            Body::Verdict(verdict) => alone::verdict(Encoding::Json, &mut out, verdict),
            Body::Batch(verdicts) => alone::batch(Encoding::Json, &mut out, verdicts),
            Body::Status(status) => alone::ok(Encoding::Json, &mut out, status),
            Body::Shards(shards) => alone::ok(Encoding::Json, &mut out, shards),
            Body::Found(Found::Audit(audit)) => alone::ok(Encoding::Json, &mut out, &**audit),
            Body::Found(Found::City(page)) => alone::ok(Encoding::Json, &mut out, page),
            Body::Found(Found::History(page)) => alone::ok(Encoding::Json, &mut out, page),
        }
        let status = StatusCode::from_u16(self.status).expect("the table's statuses are those of HTTP");
        let mut response = (status, out.freeze()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // Carts are their owners' business, and everything else may be otherwise in a moment.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let wait_ms = match &*self.body {
            Body::Verdict(Verdict::Fail(fail)) => fail.retry_after_ms.map(u64::from),
            Body::Verdict(Verdict::Rejected(Rejection::RateLimited { retry_after_ms, .. })) => *retry_after_ms,
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

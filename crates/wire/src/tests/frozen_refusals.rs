//! Every refusal, rejection and failure as a client gets it by HTTP: status, code, name, message and fields. Clients rely on them.
//! The page's own reader is tested with the same lines in `tests/page/words.test.mjs`.
//!
//! `UPDATE_EXPECT=1 cargo test -p boxoffice-wire --lib frozen_refusals` writes the file. Lines may be added. Nothing else may change.

use std::fmt::Write;

use bytes::BytesMut;
use expect_test::expect_file;

use super::common::{other_refusals, other_rejections, refusals, refused_lines, rejections};
use crate::{Encoding, Fail, FailKind, encode::Verdict, http, schema::status};

#[test]
fn refusals_and_failures_stay_as_they_are() {
    let refused = refusals().into_iter().chain(other_refusals()).chain([refused_lines()]).map(Verdict::No);
    let rejected = rejections().into_iter().chain(other_rejections()).map(Verdict::Rejected);
    let failed = FailKind::ALL.map(|kind| Verdict::Fail(Fail::new(kind)));
    let mut text = String::new();
    for verdict in refused.chain(rejected).chain(failed) {
        let mut body = BytesMut::new();
        http::verdict(Encoding::Json, &mut body, &verdict);
        let body = std::str::from_utf8(&body).expect("JSON is text");
        writeln!(text, "{} {body}", status::of_verdict(&verdict)).expect("text takes text");
    }
    expect_file!["golden/refusals.txt"].assert_eq(&text);
}

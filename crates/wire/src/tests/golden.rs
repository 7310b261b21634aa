//! Every frame of the protocol, byte by byte. A change here breaks clients.
//!
//! `UPDATE_EXPECT=1 cargo test -p boxoffice-wire` writes the files. Fields may be added. Nothing else may change.

use std::fmt::Write;

use expect_test::expect_file;

use super::common::{Sample, other_requests, requests, server_frames};
use crate::{Encoding, Op, Request, envelope::Envelope, reply::ServerFrame};

fn drawn(samples: &[Sample]) -> String {
    let mut text = String::new();
    for Sample { name, json, msgpack } in samples {
        let hex: String = msgpack.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{name}\n{json}\n{hex}\n").expect("text takes text");
    }
    text
}

#[test]
fn requests_match_the_golden_files() {
    expect_file!["golden/requests.txt"].assert_eq(&drawn(&requests()));
}

#[test]
fn server_frames_match_the_golden_files() {
    expect_file!["golden/server_frames.txt"].assert_eq(&drawn(&server_frames()));
}

#[test]
fn there_is_a_sample_of_every_op() {
    let names: Vec<&str> = requests().iter().map(|sample| sample.name).collect();
    let ops: Vec<&str> = Op::ALL.into_iter().map(Op::name).collect();
    assert_eq!(names, ops);
    assert!(Op::ALL.into_iter().all(|op| Op::from_name(op.name()) == Some(op)));
}

#[test]
fn a_request_means_the_same_in_both_encodings() {
    let other = other_requests();
    for sample in requests().into_iter().chain(other) {
        let read = |encoding| {
            Request::read(encoding, sample.bytes(encoding)).unwrap_or_else(|why| panic!("{}: {why:?}", sample.name))
        };
        let (json, msgpack) = (read(Encoding::Json), read(Encoding::MsgPack));
        assert_eq!(json, msgpack, "{}", sample.name);
        assert_eq!((json.id, json.op.name(), json.deadline_ms), (7, sample.name, 2_000));
        assert_eq!(json.key.is_some(), json.op.changes(), "{}", sample.name);
    }
}

#[test]
fn envelopes_are_read_without_their_bodies() {
    for sample in requests() {
        for encoding in Encoding::ALL {
            let envelope = Envelope::read(encoding, sample.bytes(encoding)).expect("a good envelope");
            assert_eq!((envelope.id, envelope.op.as_ref(), envelope.deadline_ms), (7, sample.name, Some(2_000)));
            let body = envelope.body.expect("it has a body");
            let frame = sample.bytes(encoding).as_ptr_range();
            assert!(frame.contains(&body.as_ptr()), "the body of {} is a copy", sample.name);
        }
    }
}

#[test]
fn every_server_frame_is_read() {
    for sample in server_frames() {
        for encoding in Encoding::ALL {
            let frame = ServerFrame::read(encoding, sample.bytes(encoding));
            let frame = frame.unwrap_or_else(|why| panic!("{}: {why}", sample.name));
            assert_ne!(frame, ServerFrame::Other, "{}", sample.name);
        }
    }
}

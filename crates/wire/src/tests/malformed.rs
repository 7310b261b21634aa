//! Malformed frames. Each gets its refusal, nothing panics, and no claimed length is trusted.

use proptest::prelude::*;

use super::{
    common::{requests, server_frames},
    frozen_ops,
};
use crate::{
    Call, Encoding, Request,
    body::Resume,
    call::Since,
    envelope::Rejected,
    limits::{FRAME_BYTES_MAX, HALL_FRAME_BYTES_MAX, IMPORT_FRAME_BYTES_MAX},
    reply::{ServerFrame, Unreadable},
};

fn json(frame: &str) -> Result<Request, Rejected> {
    Request::read(Encoding::Json, frame.as_bytes())
}

/// The id, the code and the message of a refusal.
#[track_caller]
fn refused(read: Result<Request, Rejected>) -> (Option<u64>, u16, String) {
    let Rejected { id, why } = read.expect_err("a refusal");
    (id, why.code(), why.to_string())
}

#[track_caller]
fn check(frame: &str, id: Option<u64>, code: u16, words: &str) {
    let found = refused(json(frame));
    assert_eq!((found.0, found.1), (id, code), "{frame}: {}", found.2);
    assert!(found.2.contains(words), "{frame}: {}", found.2);
    frozen_ops::message(frame, code, &found.2);
}

const TOKEN: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";

fn hold(seats: &str) -> String {
    format!(r#"{{"id":7,"op":"cart.hold_seats","rid":"r","body":{{"token":"{TOKEN}","session":"s","seats":{seats}}}}}"#)
}

#[test]
fn bad_frames_are_refused_with_a_reason() {
    check("", None, 101, "EOF");
    check("[]", None, 101, "a map");
    check("7", None, 101, "a map");
    check(r#"{"op":"admin.status"}"#, None, 101, "`id` is missing");
    check(r#"{"id":7}"#, Some(7), 101, "`op` is missing");
    check(r#"{"id":-7,"op":"admin.status"}"#, None, 101, "`id` is one whole number");
    check(r#"{"id":7.5,"op":"admin.status"}"#, None, 101, "`id` is one whole number");
    check(r#"{"id":7,"id":8,"op":"admin.status"}"#, Some(7), 101, "`id` is one whole number");
    check(r#"{"id":7,"op":7}"#, Some(7), 101, "`op` is one text");
    check(r#"{"id":7,"op":"cart.steal"}"#, Some(7), 102, "cart.steal");
    check(r#"{"id":7,"op":"session.get","body":[]}"#, Some(7), 101, "body");
    check(r#"{"id":7,"op":"session.get","body":{"id":"a b"}}"#, Some(7), 101, "`a b` is not an id");
    check(r#"{"id":7,"op":"session.get","body":{"id":"a"}} {}"#, Some(7), 101, "trailing");
    check(r#"{"id":7,"op":"session.get","body":{"id":"a"}"#, Some(7), 101, "EOF");
    check(r#"{"id":7,"op":"session.get"}"#, Some(7), 101, "missing field `id`");
    check(r#"{"id":7,"op":"session.map","body":{"id":"a","view":"3"}}"#, Some(7), 101, "`view`");
    check(r#"{"id":7,"op":"watch","body":{"entity":"venue/a"}}"#, Some(7), 101, "are watched");
    check(r#"{"id":7,"op":"watch","body":{"entity":"a"}}"#, Some(7), 101, "an entity");
    check(r#"{"id":7,"op":"admin.audit","body":{"entity":"venue/a"}}"#, Some(7), 101, "audited");
    check(r#"{"id":7,"op":"batch","body":{"items":[]}}"#, Some(7), 101, "`items` is empty");
    check(r#"{"id":7,"op":"batch","body":{}}"#, Some(7), 101, "`items` is missing");
}

#[test]
fn request_ids_are_needed_where_something_changes() {
    let block = |rid: &str| format!(r#"{{"id":7,"op":"session.block",{rid}"body":{{"id":"a","seats":[[0,0]]}}}}"#);
    check(&block(""), Some(7), 104, "request id");
    check(&block(r#""rid":null,"#), Some(7), 104, "request id");
    check(&block(r#""rid":"","#), Some(7), 101, "printable");
    check(&block(r#""rid":7,"#), Some(7), 101, "`rid` is one text");
    check(&block(r#""rid":"a\tb","#), Some(7), 101, "printable");
    check(&block(r#""rid":"ä","#), Some(7), 101, "printable");
    check(&block(&format!(r#""rid":"{}","#, "r".repeat(65))), Some(7), 101, "printable");
    assert!(json(&block(&format!(r#""rid":"{}","#, "r".repeat(64)))).is_ok());
    assert!(json(r#"{"id":7,"op":"session.get","rid":"ä","body":{"id":"a"}}"#).is_ok(), "reads need none");
}

#[test]
fn seats_are_checked() {
    check(&hold("[]"), Some(7), 101, "empty");
    check(&hold("[[1,5],[1,5]]"), Some(7), 203, "more than once");
    check(&hold("[[1]]"), Some(7), 101, "body");
    check(&hold("[[1,5,6]]"), Some(7), 101, "body");
    check(&hold("[[-1,5]]"), Some(7), 101, "body");
    check(&hold("[[65536,5]]"), Some(7), 101, "body");
    let many: Vec<String> = (0..21).map(|seat| format!("[0,{seat}]")).collect();
    check(&hold(&format!("[{}]", many.join(","))), Some(7), 103, "at most 20");
    assert!(json(&hold(&format!("[{}]", many[..20].join(",")))).is_ok());
}

#[test]
fn a_million_seats_are_refused_in_any_form() {
    let seats = format!("[{}]", vec!["[0,0]"; 1_000_000].join(","));
    assert_eq!(refused(json(&hold(&seats))).1, 103);
    // Also if the frame's length is not checked here.
    let body = format!(r#"{{"token":"{TOKEN}","session":"s","seats":{seats}}}"#);
    let op = crate::Op::CartHoldSeats;
    let why = Request::from_parts(Encoding::Json, 7, op, Some("r"), None, Some(body.as_bytes())).expect_err("too many");
    assert_eq!(why.code(), 103);
    let body = format!(r#"{{"id":"s","seats":{seats}}}"#);
    let op = crate::Op::SessionBlock;
    let why = Request::from_parts(Encoding::Json, 7, op, Some("r"), None, Some(body.as_bytes())).expect_err("too many");
    assert_eq!(why.code(), 103);
}

#[test]
fn carts_are_opened_by_their_token() {
    let get = |cart: &str| format!(r#"{{"id":7,"op":"cart.get","body":{{"token":"{TOKEN}"{cart}}}}}"#);
    assert!(json(&get("")).is_ok());
    assert!(json(&get(r#","cart":"0f1e1892ba91625a7bb986fa704738a5""#)).is_ok());
    check(&get(r#","cart":"1892ba91625a7bb986fa704738a54552""#), Some(7), 305, "does not open");
    check(&get(r#","cart":"1892""#), Some(7), 101, "32 hexadecimal digits");
    check(r#"{"id":7,"op":"cart.get","body":{"token":"secret"}}"#, Some(7), 101, "32 hexadecimal digits");
    let found = refused(json(r#"{"id":7,"op":"cart.get","body":{"token":"+f1e2d3c4b5a69788796a5b4c3d2e1f0"}}"#));
    assert!(!found.2.contains("f1e2d3c4"), "the message shows a token: {}", found.2);
    check(r#"{"id":7,"op":"cart.get","body":{"cart":"0f1e1892ba91625a7bb986fa704738a5"}}"#, Some(7), 101, "token");
}

#[test]
fn sessions_are_checked() {
    let create = |prices: &str, ends: &str| {
        format!(
            r#"{{"id":7,"op":"session.create","rid":"r","body":{{"id":"s","venue":"v","hall":"h","title":"t",
            "starts_at":"2026-04-12T12:00:00Z","ends_at":"{ends}","prices":{prices}}}}}"#
        )
    };
    let (price, good) = (r#"{"a":{"amount":1000,"currency":"EUR"}}"#, "2026-04-12T15:00:00Z");
    assert!(json(&create(price, good)).is_ok());
    assert!(json(&create(price, "2026-04-12T15:00:00.000+02:00")).is_ok(), "another zone names an instant as well");
    check(&create(price, "2026-04-12T12:00:00Z"), Some(7), 101, "before");
    check(&create(price, "2026-04-12"), Some(7), 101, "a time");
    check(&create(price, "1969-12-31T23:59:59Z"), Some(7), 101, "a time");
    check(&create(price, "+010000-01-01T00:00:00Z"), Some(7), 101, "a time");
    let amount = |amount: &str| create(&format!(r#"{{"a":{{"amount":{amount},"currency":"EUR"}}}}"#), good);
    check(&amount("-1"), Some(7), 101, "a price is");
    check(&amount("1000000000001"), Some(7), 101, "a price is");
    check(&amount("9223372036854775808"), Some(7), 101, "body");
    check(&amount("10.5"), Some(7), 101, "body");
    check(&create(r#"{"a":{"amount":1,"currency":"euro"}}"#, good), Some(7), 101, "a currency");
    let two = r#"{"a":{"amount":1,"currency":"EUR"},"b":{"amount":1,"currency":"USD"}}"#;
    check(&create(two, good), Some(7), 101, "one currency");
    let twice = r#"{"a":{"amount":1,"currency":"EUR"},"a":{"amount":2,"currency":"EUR"}}"#;
    check(&create(twice, good), Some(7), 101, "two prices");
}

#[test]
fn null_is_absent_even_in_unknown_fields() {
    let plain = json(&hold("[[1,5]]")).expect("a good request");
    let more = hold("[[1,5]]").replace(r#""session""#, r#""colour":null,"best_effort":false,"cart":null,"session""#);
    let more = more.replace(r#""op""#, r#""trace":null,"op""#);
    assert_eq!(json(&more).expect("a good request"), plain);
}

#[test]
fn the_key_is_of_the_command_and_not_of_the_bytes() {
    let key = |frame: &str| json(frame).expect("a good request").key.expect("it changes something");
    let one = key(&hold("[[1,5],[1,6]]"));
    assert_eq!(key(&hold("[ [1,6], [1,5] ]")), one, "the same seats in another order");
    assert_ne!(key(&hold("[[1,5],[1,7]]")).body, one.body);
    let later = hold("[[1,5],[1,6]]").replace(r#""id":7"#, r#""id":8,"deadline_ms":50"#);
    assert_eq!(key(&later), one, "a repeat has another id and deadline");
    let patient = hold("[[1,5],[1,6]]").replace(r#""id":7"#, r#""id":8,"patience_ms":60000"#);
    assert_eq!(key(&patient), one, "a repeat may come of a buyer with less time");
}

#[test]
fn batches_answer_for_each_item() {
    let batch = |items: &str| format!(r#"{{"id":7,"op":"batch","body":{{"items":[{items}]}}}}"#);
    let items = [
        r#"{"op":"session.block","rid":"1","body":{"id":"a","seats":[[0,0]]}}"#,
        r#"{"op":"session.block","body":{"id":"a","seats":[[0,0]]}}"#,
        r#"{"op":"watch","body":{"entity":"session/a"}}"#,
        r#"{"op":"batch","body":{"items":[]}}"#,
        r#"{"op":"cart.steal"}"#,
        r#"7"#,
    ];
    let request = json(&batch(&items.join(","))).expect("a good request");
    let Call::Batch(read) = request.call else { panic!("not a batch") };
    let codes: Vec<Option<u16>> = read.iter().map(|item| item.as_ref().err().map(|why| why.code())).collect();
    assert_eq!(codes, [None, Some(104), Some(101), Some(101), Some(102), Some(101)]);
    let many = |count| batch(&vec![r#"{"op":"session.get","body":{"id":"a"}}"#; count].join(","));
    assert!(json(&many(1_000)).is_ok());
    check(&many(1_001), Some(7), 103, "1000 items");
}

#[test]
fn nesting_is_bounded_in_both_encodings() {
    let json_frame = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"id":7,"op":"admin.status","body":{{}},"x":{open}{close}}}"#)
    };
    let msgpack_frame = |depth: usize, innermost: u8| {
        let mut frame = vec![0x83, 0xa2, b'i', b'd', 7, 0xa2, b'o', b'p', 0xac];
        frame.extend_from_slice(b"admin.status");
        frame.extend_from_slice(&[0xa1, b'x']);
        frame.extend(std::iter::repeat_n(0x91, depth - 1));
        frame.push(innermost);
        frame
    };
    let msgpack = |depth, innermost| Request::read(Encoding::MsgPack, &msgpack_frame(depth, innermost));
    assert!(json(&json_frame(15)).is_ok());
    assert!(msgpack(15, 0x90).is_ok());
    for depth in [16, 100, 32_000] {
        check(&json_frame(depth), None, 101, "deeper than 16");
        let (_, code, words) = refused(msgpack(depth, 0x90));
        assert_eq!((code, words.contains("deeper than 16")), (101, true), "{words}");
    }
    check(&json_frame(100_000), None, 101, "deeper than 16");
    assert_eq!(refused(msgpack(100_000, 0x90)).1, 101);
    assert!(json(r#"{"id":7,"op":"admin.status","x":"[[[[[[[[[[[[[[[[[[[[[[\"[[[["}"#).is_ok(), "text is not nesting");
}

#[test]
fn claimed_lengths_are_not_trusted() {
    let head = [0x83, 0xa2, b'i', b'd', 7, 0xa2, b'o', b'p', 0xab];
    let claims: [&[u8]; 8] = [
        &[0xdd, 0xff, 0xff, 0xff, 0xff],
        &[0xdf, 0xff, 0xff, 0xff, 0xff],
        &[0xdb, 0xff, 0xff, 0xff, 0xff],
        &[0xc6, 0xff, 0xff, 0xff, 0xff],
        &[0xc9, 0xff, 0xff, 0xff, 0xff, 0x01],
        &[0xda, 0xff, 0xff],
        &[0xdc, 0xff],
        &[0xcf],
    ];
    for claim in claims {
        let mut frame = head.to_vec();
        frame.extend_from_slice(b"session.get");
        frame.extend_from_slice(&[0xa4, b'b', b'o', b'd', b'y']);
        frame.extend_from_slice(claim);
        let (id, code, words) = refused(Request::read(Encoding::MsgPack, &frame));
        assert_eq!((id, code), (Some(7), 101), "{words}");
        assert!(words.contains("middle of a value"), "{words}");
    }
    let whole_map = [0xdf, 0xff, 0xff, 0xff, 0xff];
    assert_eq!(refused(Request::read(Encoding::MsgPack, &whole_map)).1, 101);
}

#[test]
fn invalid_text_and_bytes_after_the_end_are_refused() {
    let good = |encoding| {
        let sample = requests().into_iter().find(|sample| sample.name == "session.get").expect("there is one");
        sample.bytes(encoding).to_vec()
    };
    for encoding in Encoding::ALL {
        let mut longer = good(encoding);
        longer.push(b'7');
        assert_eq!(refused(Request::read(encoding, &longer)).1, 101);
        for from in ["hamlet", "session.get", "body"] {
            let mut broken = good(encoding);
            let at = broken.windows(from.len()).position(|part| part == from.as_bytes()).expect("it is there");
            broken[at] = 0xff;
            assert_eq!(refused(Request::read(encoding, &broken)).1, 101, "{from}");
        }
    }
    assert_eq!(refused(Request::read(Encoding::MsgPack, &[0xc1])).1, 101);
}

#[test]
fn frames_have_a_maximum_length_by_op() {
    let padded = |op: &str, bytes: usize| {
        let frame = format!(r#"{{"id":7,"op":"{op}","body":{{}},"x":""}}"#);
        let padding = "x".repeat(bytes - frame.len());
        frame.replace(r#""x":"""#, &format!(r#""x":"{padding}""#))
    };
    assert!(json(&padded("admin.status", FRAME_BYTES_MAX)).is_ok());
    check(&padded("admin.status", FRAME_BYTES_MAX + 1), Some(7), 103, "65536 bytes");
    check(&padded("batch", IMPORT_FRAME_BYTES_MAX), Some(7), 101, "unknown field `x`");
    check(&padded("batch", IMPORT_FRAME_BYTES_MAX + 1), Some(7), 103, "1048576 bytes");
    // These are too long for a file of messages.
    let (id, code, words) = refused(json(&padded("hall.put", HALL_FRAME_BYTES_MAX)));
    assert!((id, code) == (Some(7), 101) && words.contains("unknown field `x`"), "{words}");
    let (id, code, words) = refused(json(&padded("hall.put", HALL_FRAME_BYTES_MAX + 1)));
    assert!((id, code) == (None, 103) && words.contains("8388608 bytes"), "{words}");
}

#[test]
fn a_watch_resumes_from_an_epoch_and_a_version() {
    let request = json(r#"{"id":7,"op":"watch","body":{"entity":"session/a","resume":{"epoch":1,"version":2}}}"#);
    let Call::Watch { since, .. } = request.expect("a good request").call else { panic!("not a watch") };
    assert_eq!(since, Some(Since::Version(Resume { epoch: 1, version: 2 })));
    check(r#"{"id":7,"op":"watch","body":{"entity":"session/a","resume":{"version":2}}}"#, Some(7), 101, "epoch");
}

/// Reads a frame as far as possible, as a server and as a client.
fn read_everything(encoding: Encoding, frame: &[u8]) {
    let _ = Request::read(encoding, frame);
    let Ok(read) = ServerFrame::read(encoding, frame) else {
        return;
    };
    match read {
        ServerFrame::Answer(_, verdict, _) => {
            let _: Result<_, Unreadable> = verdict.read::<crate::view::CartView>(encoding);
            let _: Result<_, Unreadable> = verdict.read::<crate::view::SessionView>(encoding);
            let _: Result<_, Unreadable> = verdict.read::<crate::view::MapView>(encoding);
            let _: Result<_, Unreadable> = verdict.read::<crate::reply::SessionPage>(encoding);
            let _: Result<_, Unreadable> = verdict.read::<Vec<crate::reply::Reply<()>>>(encoding);
        }
        ServerFrame::Feed(_, event) => {
            let _ = event.read::<crate::feed::Snapshot>(encoding);
            let _ = event.read::<crate::feed::CartSnapshot>(encoding);
            let _ = event.read::<crate::feed::PurchasesSnapshot>(encoding);
        }
        ServerFrame::Notice(_) | ServerFrame::Hello(_) | ServerFrame::Other => {}
    }
}

/// This count times `BOXOFFICE_RANDOM`, the factor of all random tests. It is 1 if not set.
fn scaled(count: u32) -> u32 {
    count * std::env::var("BOXOFFICE_RANDOM").map_or(1, |text| text.parse().expect("a number"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(500)))]

    #[test]
    fn readers_survive_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for encoding in Encoding::ALL {
            read_everything(encoding, &bytes);
        }
    }

    #[test]
    fn readers_survive_any_damage(
        which in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        for encoding in Encoding::ALL {
            for samples in [requests(), server_frames()] {
                let mut frame = which.get(&samples).bytes(encoding).to_vec();
                for (at, byte) in &damage {
                    let at = at.index(frame.len());
                    frame[at] = *byte;
                }
                if is_cut {
                    frame.truncate(cut.index(frame.len()));
                }
                read_everything(encoding, &frame);
            }
        }
    }
}

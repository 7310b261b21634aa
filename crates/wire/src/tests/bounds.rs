//! The fields of the newer ops at their bounds.

use boxoffice_core::{
    command::{CartCommand, Command, Every, ResourceCommand, Until, When},
    id::Entity,
};

use super::frozen_ops;
use crate::{Call, Encoding, Op, Request, body::PurchaseCursor, call::Since, feed_kind::FeedKind};

const TOKEN: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
const CART: &str = "0f1e1892ba91625a7bb986fa704738a5";

fn read(op: Op, body: &str) -> Result<Call, (u16, String)> {
    let rid = op.changes().then_some("r");
    let read = Request::from_parts(Encoding::Json, 7, op, rid, None, Some(body.as_bytes()));
    read.map(|request| request.call).map_err(|why| (why.code(), why.to_string()))
}

#[track_caller]
fn taken(op: Op, body: &str) -> Call {
    read(op, body).unwrap_or_else(|why| panic!("{body} is refused: {why:?}"))
}

#[track_caller]
fn refused(op: Op, body: &str, code: u16, words: &str) {
    let (found, why) = read(op, body).expect_err("a refusal");
    assert_eq!(found, code, "{body}: {why}");
    assert!(why.contains(words), "{body}: {why}");
    frozen_ops::message(&format!("{} {body}", op.name()), code, &why);
}

/// A valid body with this text in the place of `@`.
fn with(body: &str, text: &str) -> String {
    body.replace('@', text)
}

#[test]
fn quantities_are_whole_numbers_in_bounds_wherever_they_stand() {
    let places = format!(r#"{{"token":"{TOKEN}","session":"s","area":"a","quantity":@}}"#);
    let stock = format!(r#"{{"token":"{TOKEN}","product":"p","quantity":@}}"#);
    let line = format!(r#"{{"token":"{TOKEN}","lines":[{{"product":"p","quantity":@}}]}}"#);
    let area = format!(r#"{{"token":"{TOKEN}","lines":[{{"session":"s","area":"a","quantity":@}}]}}"#);
    for (op, body) in
        [(Op::CartHoldPlaces, &places), (Op::CartHoldStock, &stock), (Op::CartHoldAll, &line), (Op::CartHoldAll, &area)]
    {
        for good in ["1", "1000000"] {
            taken(op, &with(body, good));
        }
        for bad in ["0", "-1", "-9223372036854775808", "1000001", "18446744073709551615", "1e300", "2.5", "1.0"] {
            refused(op, &with(body, bad), 402, "from 1 to 1000000");
        }
        refused(op, &with(body, r#""3""#), 101, "body");
    }
    let set = format!(r#"{{"token":"{TOKEN}","line":1,"quantity":@}}"#);
    taken(Op::CartSetQuantity, &with(&set, "0"));
    refused(Op::CartSetQuantity, &with(&set, "-3"), 402, "not -3");
    refused(Op::CartSetQuantity, &with(&set, "1000001"), 402, "from 0 to 1000000");
    let product = r#"{"id":"p","name":"P","price":{"amount":1,"currency":"EUR"},"stock":@}"#;
    for good in ["0", "9007199254740991"] {
        taken(Op::ProductPut, &with(product, good));
    }
    for bad in ["-1", "9007199254740992", "0.5"] {
        refused(Op::ProductPut, &with(product, bad), 402, "`stock`");
    }
    let limits = |limits: &str| with(product, &format!(r#"1,"limits":{limits}"#));
    taken(Op::ProductPut, &limits(r#"{"per_order":1,"per_customer":{"quota":"q","max":1000000}}"#));
    refused(Op::ProductPut, &limits(r#"{"per_order":0}"#), 402, "`per_order`");
    refused(Op::ProductPut, &limits(r#"{"per_customer":{"quota":"q","max":0}}"#), 402, "`max`");
}

#[test]
fn quantities_are_read_from_msgpack_as_well() {
    let frame = |number: &[u8]| {
        let mut body = vec![0x83, 0xa5];
        body.extend_from_slice(b"token");
        body.extend_from_slice(&[0xd9, 32]);
        body.extend_from_slice(TOKEN.as_bytes());
        body.extend_from_slice(&[0xa7]);
        body.extend_from_slice(b"product");
        body.extend_from_slice(&[0xa1, b'p', 0xa8]);
        body.extend_from_slice(b"quantity");
        body.extend_from_slice(number);
        Request::from_parts(Encoding::MsgPack, 7, Op::CartHoldStock, Some("r"), None, Some(&body))
    };
    assert!(frame(&[3]).is_ok());
    assert!(frame(&[0xd2, 0, 0, 0, 3]).is_ok(), "a signed number that is not negative");
    for bad in [&[0][..], &[0xff], &[0xcb, 0x40, 4, 0, 0, 0, 0, 0, 0], &[0xcf, 255, 255, 255, 255, 255, 255, 255, 255]]
    {
        assert_eq!(frame(bad).expect_err("not a quantity").code(), 402, "{bad:?}");
    }
}

#[test]
fn times_are_intervals_of_at_most_366_days() {
    let slot = format!(r#"{{"token":"{TOKEN}","resource":"r","begin":"@}}"#);
    let line = format!(r#"{{"token":"{TOKEN}","lines":[{{"resource":"r","begin":"@}}]}}"#);
    let asked = r#"{"resource":"r","begin":"@}"#;
    let booked = r#"{"resource":"r","booking":"b","begin":"@}"#;
    for (op, body) in [
        (Op::CartHoldSlot, slot.as_str()),
        (Op::CartHoldAll, &line),
        (Op::ResourceIsAvailable, asked),
        (Op::ResourceReserve, booked),
        (Op::ResourceMove, booked),
    ] {
        let at = |begin: &str, end: &str| with(body, &format!(r#"{begin}","end":"{end}""#));
        taken(op, &at("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.001Z"));
        taken(op, &at("2026-01-01T00:00:00Z", "2027-01-02T00:00:00Z"));
        refused(op, &at("2026-01-01T00:00:00Z", "2027-01-02T00:00:00.001Z"), 502, "366 days");
        refused(op, &at("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"), 502, "ends before");
        refused(op, &at("2026-01-01T00:00:01Z", "2026-01-01T00:00:00Z"), 502, "ends before");
        refused(op, &at("yesterday", "2026-01-01T00:00:00Z"), 101, "a time");
    }
    let window = r#"{"resource":"r","from":"2026-01-01T00:00:00Z","to":"@"}"#;
    taken(Op::ResourceBookings, &with(window, "2026-01-02T00:00:00Z"));
    refused(Op::ResourceBookings, &with(window, "2026-01-01T00:00:00Z"), 502, "ends before");
    refused(Op::ResourceBookings, &with(window, "2028-01-01T00:00:00Z"), 502, "366 days");
    let free = r#"{"resource":"r","from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z","length_ms":@}"#;
    taken(Op::ResourceFreeSlots, &with(free, "1"));
    refused(Op::ResourceFreeSlots, &with(free, "0"), 502, "`length_ms`");
    refused(Op::ResourceFreeSlots, &with(free, "31622400001"), 502, "`length_ms`");
    refused(Op::ResourceFreeSlots, &with(free, r#"1,"count":0"#), 101, "`count`");
    refused(Op::ResourceFreeSlots, &with(free, r#"1,"count":1001"#), 101, "`count`");
}

#[test]
fn local_times_have_no_zone() {
    let at = |begin: &str, end: &str| {
        format!(r#"{{"resource":"r","booking":"b","local_begin":"{begin}","local_end":"{end}"}}"#)
    };
    let call = taken(Op::ResourceMove, &at("2026-03-29T02:30", "2026-03-29T03:30:30"));
    let Call::Command(Command::Resource(_, ResourceCommand::Move { when, .. })) = call else { panic!("no move") };
    assert_eq!(when, When::Local { begin: "2026-03-29T02:30".into(), end: "2026-03-29T03:30:30".into() });
    for bad in
        ["2026-02-30T10:00", "2026-03-29 02:30", "2026-03-29T02:30Z", "2026-03-29T24:00", "20260329T0230", "x", ""]
    {
        refused(Op::ResourceMove, &at(bad, "2026-03-29T12:00"), 502, "a local time");
    }
    refused(Op::ResourceMove, &at("2026-03-29T12:00", "2026-03-29T12:00"), 502, "ends before");
    refused(Op::ResourceMove, &at("2026-03-29T12:00", "2027-03-30T12:01"), 502, "366 days");
    let both = r#"{"resource":"r","begin":"2026-03-29T12:00:00Z","local_end":"2026-03-29T12:00"}"#;
    refused(Op::ResourceIsAvailable, both, 101, "a time is");
    refused(Op::ResourceIsAvailable, r#"{"resource":"r"}"#, 101, "a time is");
}

#[test]
fn repetitions_are_bounded() {
    let times = r#""begin":"2026-03-29T12:00:00Z","end":"2026-03-29T13:00:00Z""#;
    let body = |repeat: &str| format!(r#"{{"resource":"r","booking":"b",{times},"repeat":{repeat}}}"#);
    let call = taken(Op::ResourceReserve, &body(r#"{"every":"week","weekdays":[5,1],"until":"2026-12-31"}"#));
    let Call::Command(Command::Resource(_, ResourceCommand::Reserve { repeat: Some(repeat), .. })) = call else {
        panic!("no repetition")
    };
    assert_eq!((repeat.every, repeat.interval), (Every::Week(vec![1, 5]), 1));
    assert_eq!(repeat.until, Until::Date("2026-12-31".into()));
    taken(Op::ResourceReserve, &body(r#"{"every":"day","interval":1000,"count":400}"#));
    for (bad, words) in [
        (r#"{"every":"day"}"#, "ends with"),
        (r#"{"every":"day","count":3,"until":"2026-12-31"}"#, "ends with"),
        (r#"{"every":"day","count":0}"#, "`count`"),
        (r#"{"every":"day","count":401}"#, "`count`"),
        (r#"{"every":"day","count":3,"interval":0}"#, "`interval`"),
        (r#"{"every":"day","count":3,"interval":1001}"#, "`interval`"),
        (r#"{"every":"year","count":3}"#, "`every`"),
        (r#"{"every":"day","count":3,"weekdays":[1]}"#, "`weekdays`"),
        (r#"{"every":"week","count":3,"weekdays":[0]}"#, "`weekdays`"),
        (r#"{"every":"week","count":3,"weekdays":[8]}"#, "`weekdays`"),
        (r#"{"every":"week","count":3,"weekdays":[1,1]}"#, "`weekdays`"),
        (r#"{"every":"day","until":"2026-02-29"}"#, "`until`"),
        (r#"{"every":"day","until":"soon"}"#, "`until`"),
    ] {
        refused(Op::ResourceReserve, &body(bad), 101, words);
    }
}

#[test]
fn texts_have_a_maximum_length_and_no_control_characters() {
    let order = format!(r#"{{"order":"{CART}","reason":"@"}}"#);
    let recorded = format!(r#"{{"token":"{TOKEN}","payment":{{"recorded":{{"method":"@","transaction_id":""}}}}}}"#);
    let source = format!(r#"{{"token":"{TOKEN}","payment":{{"gateway":{{"source":"@"}}}}}}"#);
    let paid = r#""payment":{"recorded":{"method":"card","transaction_id":"1"}}"#;
    let shipping = |field: &str| format!(r#"{{"token":"{TOKEN}",{paid},"shipping":{{"{field}":"@"}}}}"#);
    let product = r#""price":{"amount":1,"currency":"EUR"},"stock":1}"#;
    let times = r#""begin":"2026-03-29T12:00:00Z","end":"2026-03-29T13:00:00Z""#;
    let rate = r#""rate":{"amount":1,"currency":"EUR"}"#;
    let checks: [(Op, String, usize); 16] = [
        (Op::TitlePut, r#"{"id":"t","name":"@"}"#.into(), 200),
        (Op::TitlePut, r#"{"id":"t","name":"T","director":"@"}"#.into(), 200),
        (Op::TitlePut, r#"{"id":"t","name":"T","cast":["@"]}"#.into(), 200),
        (Op::TitlePut, r#"{"id":"t","name":"T","comments":"@"}"#.into(), 4_096),
        (Op::TitleSearch, r#"{"name":"@"}"#.into(), 200),
        (Op::VenueSearch, r#"{"city":"@"}"#.into(), 200),
        (Op::SessionSearch, r#"{"city":"@"}"#.into(), 200),
        (Op::SessionCancel, r#"{"id":"s","reason":"@"}"#.into(), 256),
        (Op::ProductPut, format!(r#"{{"id":"p","name":"@",{product}"#), 200),
        (Op::ProductPut, format!(r#"{{"id":"p","name":"P","properties":{{"@":"x"}},{product}"#), 64),
        (Op::ProductPut, format!(r#"{{"id":"p","name":"P","properties":{{"x":"@"}},{product}"#), 1_024),
        (Op::ResourcePut, format!(r#"{{"id":"r","name":"@","zone":"UTC",{rate}}}"#), 200),
        (Op::ResourceReserve, format!(r#"{{"resource":"r","booking":"b",{times},"details":"@"}}"#), 1_024),
        (Op::OrderRefund, order, 256),
        (Op::CartCheckout, recorded, 256),
        (Op::CartCheckout, source, 256),
    ];
    let shipped = ["recipient", "address", "method"].map(|field| (Op::CartCheckout, shipping(field), 1_024));
    for (op, body, most) in checks.into_iter().chain(shipped) {
        taken(op, &with(&body, &"x".repeat(most)));
        refused(op, &with(&body, &"x".repeat(most + 1)), 103, "at most");
        refused(op, &with(&body, r"a\u0007"), 101, "control characters");
        // Only free texts have lines and tabs.
        let is_free = ["comments", "reason", "properties\":{\"x", "details", "recipient", "address"];
        let is_free = is_free.iter().any(|name| body.contains(&format!("\"{name}\":\"@")));
        for text in [r"Some street 1\r\nNY\t11223", r"a\nb"] {
            let body = with(&body, text);
            if is_free {
                taken(op, &body);
            } else {
                refused(op, &body, 101, "control characters");
            }
        }
    }
    refused(Op::SessionCancel, r#"{"id":"s","reason":""}"#, 101, "`reason` is empty");
    refused(Op::OrderRefund, &format!(r#"{{"order":"{CART}","reason":""}}"#), 101, "`reason` is empty");
}

#[test]
fn lists_and_blobs_have_a_maximum_length() {
    let cast = |names: usize| format!(r#"{{"id":"t","name":"T","cast":[{}]}}"#, vec![r#""x""#; names].join(","));
    taken(Op::TitlePut, &cast(100));
    refused(Op::TitlePut, &cast(101), 103, "100 entries");
    let long = |millis: &str| format!(r#"{{"id":"t","name":"T","duration_ms":{millis}}}"#);
    taken(Op::TitlePut, &long("2678400000"));
    refused(Op::TitlePut, &long("2678400001"), 101, "`duration_ms`");
    let product =
        |more: &str| format!(r#"{{"id":"p","name":"P","price":{{"amount":1,"currency":"EUR"}},"stock":1,{more}}}"#);
    let properties = |count: usize| {
        let all: Vec<String> = (0..count).map(|number| format!(r#""n{number}":"x""#)).collect();
        product(&format!(r#""properties":{{{}}}"#, all.join(",")))
    };
    taken(Op::ProductPut, &properties(64));
    refused(Op::ProductPut, &properties(65), 103, "64 properties");
    refused(Op::ProductPut, &product(r#""properties":{"a":"1","a":"2"}"#), 101, "two values");
    refused(Op::ProductPut, &product(r#""properties":{"":"1"}"#), 101, "is empty");
    // 1 024 bytes are 1 366 digits and two of padding.
    taken(Op::ProductPut, &product(&format!(r#""blob":"{}==""#, "A".repeat(1_366))));
    refused(Op::ProductPut, &product(&format!(r#""blob":"{}=""#, "A".repeat(1_367))), 103, "1024 bytes");
    refused(Op::ProductPut, &product(r#""blob":"?""#), 101, "base64");
    refused(Op::ProductPut, &product(r#""hold":"never""#), 101, "body");
    let order = |lines: &str| format!(r#"{{"order":"{CART}","reason":"x","lines":{lines}}}"#);
    taken(Op::OrderRefund, &order("[2,1]"));
    refused(Op::OrderRefund, &order("[]"), 101, "empty");
    refused(Op::OrderRefund, &order("[1,1]"), 101, "twice");
    let many: Vec<String> = (0..51).map(|line| line.to_string()).collect();
    refused(Op::OrderRefund, &order(&format!("[{}]", many.join(","))), 103, "50 entries");
    refused(Op::TitleSearch, r#"{"limit":0}"#, 101, "`limit`");
    refused(Op::VenueSearch, r#"{"limit":1001}"#, 101, "`limit`");
    refused(Op::CustomerPurchases, r#"{"customer":"c","limit":0}"#, 101, "`limit`");
    refused(Op::AdminHistory, r#"{"entity":"session/s","limit":0}"#, 101, "`limit`");
    refused(Op::TitleSearch, r#"{"cursor":"no slash"}"#, 101, "`cursor`");
    refused(Op::VenueSearch, &format!(r#"{{"cursor":"{}"}}"#, "x".repeat(513)), 101, "`cursor`");
    refused(Op::VenueSearch, r#"{"near":{"lon":200,"lat":0}}"#, 101, "globe");
}

/// Bodies with the cursor `@` of each list whose cursor is text, and a real cursor of it.
const LISTS: [(Op, &str, &str); 6] = [
    (Op::TitleSearch, r#"{"cursor":"@"}"#, "hamlet/Ham let/2"),
    (Op::SessionSearch, r#"{"venue":"v","cursor":"@"}"#, "1775995200000/hamlet-tonight"),
    (Op::SessionSearch, r#"{"city":"c","cursor":"@"}"#, "1775995200000/hamlet-tonight"),
    (Op::ResourceBookings, BOOKINGS, "1775995200000/choir.2"),
    (Op::ResourceBookings, BOOKINGS, "1775995200000/hold:068f372e3fcdfb0ac81a3f0c8c30d381"),
    (Op::ResourceBookings, BOOKINGS, "0/-"),
];
const BOOKINGS: &str = r#"{"resource":"r","from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z","cursor":"@"}"#;

#[test]
fn a_cursor_is_read_in_the_form_of_a_page_only() {
    for (op, body, cursor) in LISTS {
        let with = |cursor: &str| body.replace('@', cursor);
        taken(op, &with(cursor));
        let (first, rest) = cursor.split_once('/').expect("a slash");
        let mut others = vec![
            String::new(),
            "/".into(),
            first.to_owned(),
            format!("{first}/"),
            format!("/{rest}"),
            format!("{first}{rest}"),
            format!(" {cursor}"),
            format!("{first} /{rest}"),
            format!("{first}/{rest}\\u0000"),
            format!("{first}/{}", "x".repeat(513)),
        ];
        if op != Op::TitleSearch {
            // Names of titles may contain anything, so what is behind the slash is one.
            others.extend([format!("{cursor}/"), format!("{cursor} "), format!("{first}/ {rest}"), cursor.repeat(2)]);
            others.extend([
                format!("+{cursor}"),
                format!("-{cursor}"),
                format!("0{cursor}"),
                format!("{first}.0/{rest}"),
            ]);
            others.extend([format!("253402300800000/{rest}"), format!("18446744073709551616/{rest}")]);
            others.push(format!("\u{661}/{rest}"));
        }
        if let Some(digits) = rest.strip_prefix("hold:") {
            let names = [
                digits[1..].to_owned(),
                format!("0{digits}"),
                format!("{digits}0"),
                digits.to_uppercase(),
                format!("+{}", &digits[1..]),
                String::new(),
                "x".repeat(32),
            ];
            others.extend(names.map(|name| format!("{first}/hold:{name}")));
            others.push(format!("{first}/hold/{digits}/0000000000000001/0/0"));
            others.push(format!("{first}/hold/{}/0000000000000001/0/0", &digits[1..]));
        }
        for other in others {
            refused(op, &with(&other), 101, "`cursor`");
        }
    }
}

#[test]
fn the_name_of_a_carts_booking_is_read_in_one_form() {
    let times = r#""begin":"2026-01-01T00:00:00Z","end":"2026-01-01T01:00:00Z""#;
    let cancel = |name: &str| format!(r#"{{"resource":"r","booking":"{name}"}}"#);
    let with_times = |name: &str| format!(r#"{{"resource":"r","booking":"{name}",{times}}}"#);
    let name = "hold:068f372e3fcdfb0ac81a3f0c8c30d381";
    taken(Op::ResourceCancel, &cancel(name));
    taken(Op::ResourceMove, &with_times(name));
    for other in ["hold:", "hold:1", &name[..36], "hold:068F372E3FCDFB0AC81A3F0C8C30D381"] {
        refused(Op::ResourceCancel, &cancel(other), 101, "32 lower-case");
        refused(Op::ResourceMove, &with_times(other), 101, "32 lower-case");
    }
    for reserved in [name, "hold:", "hold:x"] {
        refused(Op::ResourceReserve, &with_times(reserved), 101, "of carts");
    }
    taken(Op::ResourceReserve, &with_times("hold"));
}

#[test]
fn the_halls_of_a_batch_have_a_maximum_of_seats() {
    let runs = r#"[{"gap":0,"count":50000,"first":1,"step":1,"category":"c","accessible":false}]"#;
    let row = |label: &str| format!(r#"{{"label":"{label}","section":"s","runs":{runs}}}"#);
    let layout = format!(r#"{{"rows":[{}]}}"#, ["a", "b", "c", "d"].map(row).join(","));
    let hall = format!(r#"{{"op":"hall.put","rid":"r","body":{{"venue":"v","id":"h","name":"H","layout":{layout}}}}}"#);
    let get = r#"{"op":"venue.get","body":{"id":"v"}}"#;
    let items = [vec![hall.as_str(); 7], vec![get]].concat().join(",");
    let Call::Batch(items) = taken(Op::Batch, &format!(r#"{{"items":[{items}]}}"#)) else { panic!("no batch") };
    let taken: Vec<bool> = items.iter().map(Result::is_ok).collect();
    assert_eq!(taken, [true, true, true, true, true, false, false, true], "five of them have a million seats");
    assert!(items[5].as_ref().is_err_and(|why| why.to_string().contains("1000000 seats")), "{:?}", items[5]);
}

#[test]
fn resources_are_checked() {
    let put = |more: &str| {
        format!(r#"{{"id":"r","name":"R","zone":"Europe/Berlin","rate":{{"amount":1,"currency":"EUR"}}{more}}}"#)
    };
    let hours = |hours: &str| put(&format!(r#","hours":{hours}"#));
    let week = |monday: &str| hours(&format!(r#"{{"week":[{monday},[],[],[],[],[],[]]}}"#));
    taken(Op::ResourcePut, &put(""));
    taken(
        Op::ResourcePut,
        &put(r#","capacity":10000,"before_ms":604800000,"after_ms":604800000,"horizon_ms":316224000000"#),
    );
    taken(Op::ResourcePut, &week("[[0,720],[720,1440]]"));
    for bad in ["[[720,720]]", "[[0,1441]]", "[[0,720],[719,800]]"] {
        refused(Op::ResourcePut, &week(bad), 101, "opening hours");
    }
    let many: Vec<String> = (0..25).map(|span| format!("[{},{}]", span * 2, span * 2 + 1)).collect();
    refused(Op::ResourcePut, &week(&format!("[{}]", many.join(","))), 103, "24 spans");
    refused(Op::ResourcePut, &hours(r#"{"week":[[]]}"#), 101, "body");
    let exception = |days: &str| hours(&format!(r#"{{"week":[[],[],[],[],[],[],[]],"exceptions":{days}}}"#));
    taken(Op::ResourcePut, &exception(r#"{"2026-12-24":[[540,720]]}"#));
    refused(Op::ResourcePut, &exception(r#"{"2026-13-24":[]}"#), 101, "a day in");
    refused(Op::ResourcePut, &exception(r#"{"2026-12-24":[],"2026-12-24":[]}"#), 101, "twice");
    refused(Op::ResourcePut, &put(r#","capacity":0"#), 402, "`capacity`");
    refused(Op::ResourcePut, &put(r#","capacity":10001"#), 402, "`capacity`");
    refused(Op::ResourcePut, &put(r#","before_ms":604800001"#), 101, "`before_ms`");
    refused(Op::ResourcePut, &put(r#","after_ms":604800001"#), 101, "`after_ms`");
    refused(Op::ResourcePut, &put(r#","notice_ms":316224000001"#), 101, "`notice_ms`");
    refused(Op::ResourcePut, &put(r#","horizon_ms":0"#), 101, "`horizon_ms`");
    let rate = |rate: &str| format!(r#"{{"id":"r","name":"R","zone":"UTC","rate":{rate}}}"#);
    refused(Op::ResourcePut, &rate(r#"{"amount":-1,"currency":"EUR"}"#), 101, "a price");
    refused(Op::ResourcePut, &rate(r#"{"amount":1,"currency":"EUR","per_ms":0}"#), 101, "`per_ms`");
    let zone = |zone: &str| rate(r#"{"amount":1,"currency":"EUR"}"#).replace("UTC", zone);
    refused(Op::ResourcePut, &zone(""), 101, "`zone`");
    refused(Op::ResourcePut, &zone("Mars Base"), 101, "`zone`");
}

#[test]
fn sessions_may_have_areas_instead_of_seats() {
    let create = |more: &str| {
        format!(
            r#"{{"id":"s","venue":"v","hall":"h","title":"t","starts_at":"2026-04-12T12:00:00Z",
            "ends_at":"2026-04-12T15:00:00Z"{more}}}"#
        )
    };
    let area = |id: &str, capacity: &str, currency: &str| {
        format!(r#"{{"id":"{id}","capacity":{capacity},"price":{{"amount":1,"currency":"{currency}"}}}}"#)
    };
    let areas = |areas: &[String]| create(&format!(r#","areas":[{}]"#, areas.join(",")));
    taken(Op::SessionCreate, &create(""));
    taken(Op::SessionCreate, &areas(&[area("a", "1", "EUR"), area("b", "1000000", "EUR")]));
    refused(Op::SessionCreate, &areas(&[area("a", "0", "EUR")]), 402, "`capacity`");
    refused(Op::SessionCreate, &areas(&[area("a", "1000001", "EUR")]), 402, "`capacity`");
    refused(Op::SessionCreate, &areas(&[area("a", "1", "EUR"), area("a", "1", "EUR")]), 101, "the same id");
    refused(Op::SessionCreate, &areas(&[area("a", "1", "EUR"), area("b", "1", "USD")]), 101, "one currency");
    let many: Vec<String> = (0..1_001).map(|number| area(&format!("a{number}"), "1", "EUR")).collect();
    refused(Op::SessionCreate, &areas(&many), 103, "1000 entries");
}

#[test]
fn searches_need_a_scope() {
    let call = taken(Op::SessionSearch, r#"{"city":"London","title":"hamlet","limit":2}"#);
    let Call::SearchCity(search) = call else { panic!("no search over a city") };
    assert_eq!((search.city.as_str(), search.limit), ("London", 2));
    refused(Op::SessionSearch, "{}", 101, "either a `venue` or a `city`");
    refused(Op::SessionSearch, r#"{"city":"London","venue":"v"}"#, 101, "either a `venue` or a `city`");
    refused(Op::SessionSearch, r#"{"city":"London","hall":"h"}"#, 101, "a `hall`");
    let batch = r#"{"items":[{"op":"session.search","body":{"city":"London"}}]}"#;
    let Call::Batch(items) = taken(Op::Batch, batch) else { panic!("no batch") };
    assert_eq!(items[0].as_ref().expect_err("it stands alone").code(), 101);
}

#[test]
fn lines_are_of_one_kind() {
    let line = |line: &str| format!(r#"{{"token":"{TOKEN}","lines":[{line}]}}"#);
    for bad in [
        r#"{}"#,
        r#"{"session":"s"}"#,
        r#"{"session":"s","product":"p","quantity":1}"#,
        r#"{"session":"s","seats":[[0,0]],"area":"a","quantity":1}"#,
        r#"{"session":"s","area":"a"}"#,
        r#"{"product":"p"}"#,
        r#"{"resource":"r","begin":"2026-04-12T12:00:00Z"}"#,
    ] {
        refused(Op::CartHoldAll, &line(bad), 101, "a line");
    }
}

#[test]
fn payments_are_of_one_kind() {
    let pay = |payment: &str| format!(r#"{{"token":"{TOKEN}","payment":{payment}}}"#);
    for policy in ["release", "keep"] {
        taken(Op::CartCheckout, &pay(&format!(r#"{{"gateway":{{"source":"x","on_decline":"{policy}"}}}}"#)));
    }
    refused(Op::CartCheckout, &pay(r#"{"gateway":{"source":"x","on_decline":"wait"}}"#), 101, "body");
    refused(Op::CartCheckout, &pay(r#"{"gateway":{}}"#), 101, "`source` is empty");
    refused(Op::CartCheckout, &pay("{}"), 101, "either");
    let both = r#"{"gateway":{"source":"x"},"recorded":{"method":"card","transaction_id":"1"}}"#;
    refused(Op::CartCheckout, &pay(both), 101, "either");
    let settle = |more: &str| format!(r#"{{"cart":"{CART}","attempt":1,"outcome":{more}}}"#);
    taken(Op::AdminSettle, &settle(r#""declined""#));
    refused(Op::AdminSettle, &settle(r#""authorized""#), 101, "`reference`");
    refused(Op::AdminSettle, &settle(r#""declined","reference":"x""#), 101, "`reference`");
    refused(Op::AdminSettle, &settle(r#""maybe""#), 101, "`outcome`");
    for word in [r#""captured""#, r#""voided""#] {
        taken(Op::AdminSettle, &settle(word));
        refused(Op::AdminSettle, &settle(&format!(r#"{word},"reference":"x""#)), 101, "`reference`");
        refused(Op::AdminSettle, &settle(&format!(r#"{word},"refund":1"#)), 101, "`refund`");
    }
    taken(Op::AdminSettle, &settle(r#""refunded","refund":1"#));
    refused(Op::AdminSettle, &settle(r#""refunded""#), 101, "`refund`");
    refused(Op::AdminSettle, &settle(r#""refunded","refund":1,"reference":"x""#), 101, "`reference`");
    refused(Op::AdminSettle, &settle(r#""declined","refund":1"#), 101, "`refund`");
    refused(Op::AdminSettle, &settle(r#""authorized","reference":"x","refund":1"#), 101, "`refund`");
}

#[test]
fn a_watch_may_resume_and_a_cart_needs_its_token() {
    let watch = |entity: &str, more: &str| format!(r#"{{"entity":"{entity}"{more}}}"#);
    let cart = format!("cart/{CART}");
    for entity in ["session/a", "product/a", "resource/a"] {
        taken(Op::Watch, &watch(entity, r#","resume":{"epoch":1,"version":2}"#));
        refused(Op::Watch, &watch(entity, r#","resume":{"cursor":2}"#), 101, "`epoch`");
    }
    let call = taken(Op::Watch, &watch("customer/ada", r#","resume":{"cursor":2}"#));
    let Call::Watch { kind: FeedKind::Customer, entity: Entity::Customer(_), since } = call else {
        panic!("no customer is watched")
    };
    assert_eq!(since, Some(Since::Cursor(PurchaseCursor { epoch: None, cursor: 2 })));
    let call = taken(Op::Watch, &watch("customer/ada", r#","resume":{"epoch":1,"cursor":2}"#));
    let Call::Watch { since, .. } = call else { panic!("a customer is watched") };
    assert_eq!(since, Some(Since::Cursor(PurchaseCursor { epoch: Some(1), cursor: 2 })));
    refused(Op::Watch, &watch("customer/ada", r#","resume":{"epoch":1,"cursor":2,"version":3}"#), 101, "`resume`");
    refused(Op::Watch, &watch("customer/ada", r#","resume":{"epoch":1,"version":2}"#), 101, "`cursor`");
    taken(Op::Watch, &watch(&cart, &format!(r#","token":"{TOKEN}""#)));
    refused(Op::Watch, &watch(&cart, ""), 101, "`token`");
    refused(Op::Watch, &watch(&cart, &format!(r#","token":"{CART}""#)), 305, "does not open");
    refused(Op::Watch, &watch("directory", ""), 101, "are watched");
    refused(Op::Watch, "{}", 101, "or `sessions`");
    refused(Op::Watch, &watch("session/a", r#","sessions":["a"]"#), 101, "or `sessions`");
    refused(Op::Watch, r#"{"sessions":[]}"#, 101, "1 to 1024");
    refused(Op::Watch, r#"{"sessions":["a b"]}"#, 101, "is not an id");
    refused(Op::Watch, r#"{"sessions":["a"],"resume":{"epoch":1,"version":2}}"#, 101, "begin with a snapshot");
    let sessions = |count: usize| (0..count).map(|number| format!(r#""s{number}""#)).collect::<Vec<_>>().join(",");
    refused(Op::Watch, &format!(r#"{{"sessions":[{}]}}"#, sessions(1_025)), 101, "1 to 1024");
    taken(Op::Watch, &format!(r#"{{"sessions":[{}]}}"#, sessions(1_024)));
    let Call::WatchCounts { sessions } = taken(Op::Watch, r#"{"sessions":["b","a","b"]}"#) else {
        panic!("counts are not watched")
    };
    assert_eq!(sessions.iter().map(boxoffice_core::id::Id::as_str).collect::<Vec<_>>(), ["b", "a"], "each once");
    refused(Op::AdminAudit, r#"{"entity":"directory"}"#, 101, "audited");
    refused(Op::AdminHistory, r#"{"entity":"product/p","seat":[0,0]}"#, 101, "a `seat`");
    let release = taken(Op::AdminRelease, &format!(r#"{{"cart":"{CART}","line":3}}"#));
    assert!(matches!(release, Call::Command(Command::Cart(_, CartCommand::Revoke { line: 3, .. }))), "{release:?}");
}

/// A checkout expects something, or says nothing of it.
#[test]
fn an_expectation_of_nothing_is_refused() {
    let body = |expect: &str| {
        let paid = r#""payment":{"recorded":{"method":"card","transaction_id":"1"}}"#;
        format!(r#"{{"token":"{TOKEN}",{paid}{expect}}}"#)
    };
    for nothing in [r#","expect":{}"#, r#","expect":{"total":null}"#, r#","expect":{"total":null,"lines":null}"#] {
        refused(Op::CartCheckout, &body(nothing), 101, "`expect` has `total` or `lines`");
    }
    for good in ["", r#","expect":null"#, r#","expect":{"lines":3}"#] {
        taken(Op::CartCheckout, &body(good));
    }
}

/// A grid has a row. A hall that has none was made before, and is still read.
#[test]
fn a_grid_without_rows_is_refused() {
    let hall = r#"{"venue":"v","id":"h","name":"H","layout":@}"#;
    refused(Op::HallPut, &with(hall, r#"{"rows":0,"seats":5}"#), 101, "`rows` of a grid is at least 1");
    taken(Op::HallPut, &with(hall, r#"{"rows":1,"seats":5}"#));
    let empty: boxoffice_core::layout::Layout =
        serde_json::from_str::<crate::repr::FromWire<_>>(r#"{"rows":[]}"#).expect("an empty layout of an answer").0;
    assert_eq!(empty.rows().len(), 0);
}

/// Slots on a raster begin somewhere within their step.
#[test]
fn a_raster_has_a_step_and_an_alignment_within_it() {
    let free = |more: &str| {
        let window = r#""from":"2026-03-29T12:00:00Z","to":"2026-03-30T12:00:00Z","length_ms":3600000"#;
        format!(r#"{{"resource":"r",{window}{more}}}"#)
    };
    for good in ["", r#","step_ms":1"#, r#","step_ms":86400000"#, r#","step_ms":1800000,"align_ms":1799999"#] {
        taken(Op::ResourceFreeSlots, &free(good));
    }
    for bad in [r#","step_ms":0"#, r#","step_ms":86400001"#] {
        refused(Op::ResourceFreeSlots, &free(bad), 101, "`step_ms`");
    }
    for bad in [r#","align_ms":1"#, r#","step_ms":1800000,"align_ms":1800000"#] {
        refused(Op::ResourceFreeSlots, &free(bad), 101, "`align_ms` is less than `step_ms`");
    }
}

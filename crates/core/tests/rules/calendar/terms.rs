//! Notice, horizon and the bounds of terms.

use boxoffice_core::{
    calendar::{SLOT_SPAN_MAX_MS, Slot, SlotRefusal, Terms},
    time::Timestamp,
};
use expect_test::expect;

use crate::calendar::words::{DAY, HOUR, at, daily, slot};

#[test]
fn without_terms_every_slot_is_allowed() {
    let terms = Terms::default();
    assert_eq!(terms.validate(), Ok(()));
    for slot in [slot("2020-01-01T00:00", "2020-01-01T00:01"), slot("2099-01-01T00:00", "2100-01-01T00:00")] {
        assert_eq!(terms.check(at("12:00"), slot), Ok(()));
    }
}

#[test]
fn notice_and_horizon_bound_the_beginning() {
    let terms = Terms { notice_ms: 2 * HOUR, horizon_ms: Some(3 * DAY), ..Terms::default() };
    let check = |begin: &str| terms.check(at("12:00"), Slot::of_length(at(begin), DAY).expect("a slot"));
    assert_eq!(check("13:59:59.999"), Err(SlotRefusal::TooSoon { earliest: at("14:00") }));
    assert_eq!(check("14:00"), Ok(()));
    assert_eq!(check("2026-01-04T12:00"), Ok(()));
    assert_eq!(check("2026-01-04T12:00:00.001"), Err(SlotRefusal::TooFar { latest: at("2026-01-04T12:00") }));
}

#[test]
fn hours_and_length() {
    let terms = Terms { hours: Some(daily("Europe/Berlin", "09:00-17:00")), ..Terms::default() };
    assert_eq!(terms.check(at("00:00"), slot("08:00", "16:00")), Ok(()));
    assert_eq!(terms.check(at("00:00"), slot("08:00", "16:01")), Err(SlotRefusal::OutsideHours));
    let long = Slot::of_length(at("00:00"), SLOT_SPAN_MAX_MS + 1).expect("a slot");
    assert!(matches!(Terms::default().check(at("00:00"), long), Err(SlotRefusal::BadInterval(_))));
}

#[test]
fn terms_out_of_bounds_are_refused_with_a_reason() {
    let refused = |terms: Terms| terms.validate().expect_err("is refused");
    let terms = Terms::default;
    expect![[r#"
        [
            "capacity is 1 to 10000, not 0",
            "capacity is 1 to 10000, not 10001",
            "a buffer is at most 604800000 ms",
            "a buffer is at most 604800000 ms",
            "notice and horizon are at most 316224000000 ms",
            "notice and horizon are at most 316224000000 ms",
            "the horizon is nearer than the notice: nothing could be booked",
        ]
    "#]]
    .assert_debug_eq(&[
        refused(Terms { capacity: 0, ..terms() }),
        refused(Terms { capacity: 10_001, ..terms() }),
        refused(Terms { before_ms: 7 * DAY + 1, ..terms() }),
        refused(Terms { after_ms: u64::MAX, ..terms() }),
        refused(Terms { notice_ms: u64::MAX, ..terms() }),
        refused(Terms { horizon_ms: Some(u64::MAX), ..terms() }),
        refused(Terms { horizon_ms: Some(HOUR), notice_ms: 2 * HOUR, ..terms() }),
    ]);
    let text = SlotRefusal::TooSoon { earliest: Timestamp(5) }.to_string();
    assert_eq!(text, "the slot begins too soon; 5 is the earliest");
}

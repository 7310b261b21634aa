//! The search for free slots.

use boxoffice_core::{
    calendar::{Buffers, Calendar, FreeSearch, Slot, Terms},
    time::TIMESTAMP_MAX,
};
use expect_test::{Expect, expect};

use crate::calendar::words::{DAY, HOUR, MINUTE, at, daily, key, shown, slot, zone};

fn search(from: &str, to: &str, length_min: u64, count: usize) -> FreeSearch {
    FreeSearch { from: at(from), to: at(to), length_ms: length_min * MINUTE, count, step_ms: None, align_ms: 0 }
}

/// Two bookings, from 10:00 to 11:00 and from 12:30 to 13:00.
fn booked() -> Calendar {
    let mut calendar = Calendar::new();
    calendar.insert(&key("a"), slot("10:00", "11:00"), 1, Buffers::NONE);
    calendar.insert(&key("b"), slot("12:30", "13:00"), 1, Buffers::NONE);
    calendar
}

fn check(calendar: &Calendar, search: &FreeSearch, terms: &Terms, expect: Expect) {
    let zone = terms.hours.as_ref().map_or(zone("UTC"), |hours| hours.zone().clone());
    let found = calendar.free_slots(at("00:00"), search, terms, &zone).expect("a good search");
    let mut with_them = calendar.clone();
    let mut lines = String::new();
    for (number, slot) in found.into_iter().enumerate() {
        assert_eq!(terms.check(at("00:00"), slot), Ok(()));
        if search.step_ms.is_none() {
            // All of them can be booked together.
            with_them.insert(&key(&format!("found{number}")), slot, terms.capacity, terms.buffers());
        }
        lines += &format!("{}\n", shown(&zone, slot));
    }
    expect.assert_eq(&lines);
}

#[test]
fn one_after_the_other_between_the_bookings() {
    check(
        &booked(),
        &search("09:00", "14:00", 45, 10),
        &Terms::default(),
        expect![[r#"
        2026-01-01T09:00 to 2026-01-01T09:45, 45 min
        2026-01-01T11:00 to 2026-01-01T11:45, 45 min
        2026-01-01T11:45 to 2026-01-01T12:30, 45 min
        2026-01-01T13:00 to 2026-01-01T13:45, 45 min
    "#]],
    );
    check(
        &booked(),
        &search("09:00", "14:00", 45, 2),
        &Terms::default(),
        expect![[r#"
        2026-01-01T09:00 to 2026-01-01T09:45, 45 min
        2026-01-01T11:00 to 2026-01-01T11:45, 45 min
    "#]],
    );
    check(&booked(), &search("10:00", "11:00", 1, 2), &Terms::default(), expect![[r#""#]]);
}

#[test]
fn with_buffers_between_all_of_them() {
    let terms = Terms { before_ms: 10 * MINUTE, after_ms: 5 * MINUTE, ..Terms::default() };
    check(
        &booked(),
        &search("08:00", "15:00", 30, 10),
        &terms,
        expect![[r#"
        2026-01-01T08:00 to 2026-01-01T08:30, 30 min
        2026-01-01T08:45 to 2026-01-01T09:15, 30 min
        2026-01-01T11:15 to 2026-01-01T11:45, 30 min
        2026-01-01T13:15 to 2026-01-01T13:45, 30 min
        2026-01-01T14:00 to 2026-01-01T14:30, 30 min
    "#]],
    );
}

#[test]
fn a_booking_behind_the_window_still_needs_its_buffer() {
    let terms = Terms { before_ms: HOUR, ..Terms::default() };
    check(
        &booked(),
        &search("08:00", "09:30", 30, 10),
        &terms,
        expect![[r#"
        2026-01-01T08:00 to 2026-01-01T08:30, 30 min
    "#]],
    );
}

#[test]
pub(crate) fn on_steps_of_the_clock() {
    let stepped = FreeSearch { step_ms: Some(15 * MINUTE), ..search("09:07", "14:00", 40, 10) };
    check(
        &booked(),
        &stepped,
        &Terms::default(),
        expect![[r#"
            2026-01-01T09:15 to 2026-01-01T09:55, 40 min
            2026-01-01T11:00 to 2026-01-01T11:40, 40 min
            2026-01-01T11:15 to 2026-01-01T11:55, 40 min
            2026-01-01T11:30 to 2026-01-01T12:10, 40 min
            2026-01-01T11:45 to 2026-01-01T12:25, 40 min
            2026-01-01T13:00 to 2026-01-01T13:40, 40 min
            2026-01-01T13:15 to 2026-01-01T13:55, 40 min
        "#]],
    );
    // In the local time of the hours' zone. Kathmandu is 5:45 ahead of UTC.
    let terms = Terms { hours: Some(daily("Asia/Kathmandu", "09:30-12:30")), ..Terms::default() };
    let hourly = FreeSearch { step_ms: Some(HOUR), ..search("00:00", "2026-01-02T00:00", 60, 10) };
    check(
        &Calendar::new(),
        &hourly,
        &terms,
        expect![[r#"
        2026-01-01T10:00 to 2026-01-01T11:00, 60 min
        2026-01-01T11:00 to 2026-01-01T12:00, 60 min
    "#]],
    );
    // A step of seven hours restarts at midnight, and a clock change shifts it.
    let terms = Terms { hours: Some(daily("Europe/Berlin", "00:00-24:00")), ..Terms::default() };
    let seven = FreeSearch { step_ms: Some(7 * HOUR), ..search("2026-03-28T12:00", "2026-03-30T00:00", 30, 10) };
    check(
        &Calendar::new(),
        &seven,
        &terms,
        expect![[r#"
        2026-03-28T14:00 to 2026-03-28T14:30, 30 min
        2026-03-28T21:00 to 2026-03-28T21:30, 30 min
        2026-03-29T00:00 to 2026-03-29T00:30, 30 min
        2026-03-29T07:00 to 2026-03-29T07:30, 30 min
        2026-03-29T14:00 to 2026-03-29T14:30, 30 min
        2026-03-29T21:00 to 2026-03-29T21:30, 30 min
        2026-03-30T00:00 to 2026-03-30T00:30, 30 min
    "#]],
    );
    // A step at 02:00 does not exist on that day.
    let two = FreeSearch { step_ms: Some(2 * HOUR), ..search("2026-03-28T22:00", "2026-03-29T06:00", 30, 10) };
    check(
        &Calendar::new(),
        &two,
        &terms,
        expect![[r#"
        2026-03-29T00:00 to 2026-03-29T00:30, 30 min
        2026-03-29T04:00 to 2026-03-29T04:30, 30 min
        2026-03-29T06:00 to 2026-03-29T06:30, 30 min
    "#]],
    );
}

/// Appointments of an hour may begin at every half, and slots may begin beside the full hour.
#[test]
pub(crate) fn slots_of_a_raster_may_overlap_and_begin_beside_the_full_hour() {
    let halves = FreeSearch { step_ms: Some(30 * MINUTE), ..search("10:10", "12:30", 60, 10) };
    check(&booked(), &halves, &Terms::default(), expect![[r#"
        2026-01-01T11:00 to 2026-01-01T12:00, 60 min
        2026-01-01T11:30 to 2026-01-01T12:30, 60 min
    "#]]);
    let quarter_past =
        FreeSearch { step_ms: Some(HOUR), align_ms: 15 * MINUTE, ..search("20:00", "2026-01-02T02:00", 30, 10) };
    check(&booked(), &quarter_past, &Terms::default(), expect![[r#"
        2026-01-01T20:15 to 2026-01-01T20:45, 30 min
        2026-01-01T21:15 to 2026-01-01T21:45, 30 min
        2026-01-01T22:15 to 2026-01-01T22:45, 30 min
        2026-01-01T23:15 to 2026-01-01T23:45, 30 min
        2026-01-02T00:15 to 2026-01-02T00:45, 30 min
        2026-01-02T01:15 to 2026-01-02T01:45, 30 min
    "#]]);
}

#[test]
fn within_the_hours_and_across_midnight() {
    let terms = Terms { hours: Some(daily("Europe/Berlin", "20:00-24:00 00:00-02:00")), ..Terms::default() };
    check(
        &Calendar::new(),
        &search("00:00", "2026-01-03T00:00", 150, 10),
        &terms,
        expect![[r#"
        2026-01-01T20:00 to 2026-01-01T22:30, 150 min
        2026-01-01T22:30 to 2026-01-02T01:00, 150 min
        2026-01-02T20:00 to 2026-01-02T22:30, 150 min
        2026-01-02T22:30 to 2026-01-03T01:00, 150 min
    "#]],
    );
}

#[test]
fn notice_and_horizon_count() {
    // It is midnight. Notice and horizon limit the begin.
    let terms = Terms { notice_ms: 9 * HOUR, horizon_ms: Some(12 * HOUR), ..Terms::default() };
    check(
        &booked(),
        &search("00:00", "2026-01-02T00:00", 30, 10),
        &terms,
        expect![[r#"
        2026-01-01T09:00 to 2026-01-01T09:30, 30 min
        2026-01-01T09:30 to 2026-01-01T10:00, 30 min
        2026-01-01T11:00 to 2026-01-01T11:30, 30 min
        2026-01-01T11:30 to 2026-01-01T12:00, 30 min
        2026-01-01T12:00 to 2026-01-01T12:30, 30 min
    "#]],
    );
    let far = Terms { notice_ms: 3 * DAY, ..Terms::default() };
    check(&booked(), &search("00:00", "2026-01-02T00:00", 30, 10), &far, expect![[r#""#]]);
}

#[test]
fn two_at_once() {
    let mut calendar = Calendar::new();
    for (name, begin, end) in [("a", "10:00", "12:00"), ("b", "11:00", "13:00"), ("c", "12:00", "14:00")] {
        calendar.insert(&key(name), slot(begin, end), 2, Buffers::NONE);
    }
    let terms = Terms { capacity: 2, ..Terms::default() };
    check(
        &calendar,
        &search("10:00", "15:00", 30, 10),
        &terms,
        expect![[r#"
        2026-01-01T10:00 to 2026-01-01T10:30, 30 min
        2026-01-01T10:30 to 2026-01-01T11:00, 30 min
        2026-01-01T13:00 to 2026-01-01T13:30, 30 min
        2026-01-01T13:30 to 2026-01-01T14:00, 30 min
        2026-01-01T14:00 to 2026-01-01T14:30, 30 min
        2026-01-01T14:30 to 2026-01-01T15:00, 30 min
    "#]],
    );
}

#[test]
fn a_year_of_the_shortest_slots_is_bounded() {
    let year = FreeSearch {
        from: at("00:00"),
        to: at("2027-01-02T00:00"),
        length_ms: 1,
        count: 1_000,
        step_ms: Some(1),
        align_ms: 0,
    };
    let found = booked().free_slots(at("00:00"), &year, &Terms::default(), &zone("UTC")).expect("a good search");
    assert_eq!(found.len(), 1_000);
    assert_eq!(found[999], Slot::of_length(at("00:00:00.999"), 1).expect("a slot"));
    let closed = Terms { hours: Some(daily("Europe/Berlin", "")), ..Terms::default() };
    assert_eq!(booked().free_slots(at("00:00"), &year, &closed, &zone("UTC")), Ok(Vec::new()));
}

#[test]
fn bad_searches_are_refused_with_a_reason() {
    let good = search("09:00", "14:00", 45, 10);
    let refused = |search: FreeSearch| {
        booked().free_slots(at("00:00"), &search, &Terms::default(), &zone("UTC")).expect_err("is refused")
    };
    expect![[r#"
        [
            "the window ends after it begins and before the year 10000",
            "the window is at most 366 days",
            "a slot is 1 to 31622400000 ms long, not 0",
            "a slot is 1 to 31622400000 ms long, not 18446744073709551615",
            "1 to 1000 free slots are found, not 0",
            "1 to 1000 free slots are found, not 1001",
            "a step is 1 to 86400000 ms, not 0",
            "a step is 1 to 86400000 ms, not 86400001",
            "only a step has an alignment",
            "an alignment is less than its step of 3600000 ms, not 3600000 ms",
        ]
    "#]]
    .assert_debug_eq(&[
        refused(FreeSearch { to: good.from, ..good }),
        refused(FreeSearch { to: TIMESTAMP_MAX.after(0), from: at("00:00"), ..good }),
        refused(FreeSearch { length_ms: 0, ..good }),
        refused(FreeSearch { length_ms: u64::MAX, ..good }),
        refused(FreeSearch { count: 0, ..good }),
        refused(FreeSearch { count: 1_001, ..good }),
        refused(FreeSearch { step_ms: Some(0), ..good }),
        refused(FreeSearch { step_ms: Some(DAY + 1), ..good }),
        refused(FreeSearch { align_ms: 1, ..good }),
        refused(FreeSearch { step_ms: Some(HOUR), align_ms: HOUR, ..good }),
    ]);
}

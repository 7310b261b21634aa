//! Recurring bookings across clock changes.

use boxoffice_core::calendar::{Frequency, Repeat, Until, Weekday, Weekdays, occurrences};
use expect_test::{Expect, expect};

use crate::calendar::words::{civil, date, shown, zone};

fn check(zone_name: &str, begin: &str, end: &str, repeat: Repeat, expect: Expect) {
    let zone = zone(zone_name);
    let mut lines = String::new();
    match occurrences(&zone, civil(begin), civil(end), &repeat) {
        Ok(found) => {
            for occurrence in found {
                lines += &match occurrence {
                    Ok(slot) => format!("{}\n", shown(&zone, slot)),
                    Err(missed) => format!("{missed}\n"),
                };
            }
        }
        Err(reason) => lines += &format!("refused: {reason}\n"),
    }
    expect.assert_eq(&lines);
}

fn daily(interval: u16, count: u16) -> Repeat {
    Repeat { frequency: Frequency::Daily, interval, until: Until::Count(count) }
}

fn weekly(days: &[Weekday], interval: u16, until: Until) -> Repeat {
    let weekdays = Weekdays::new(days.iter().copied()).expect("one day at least");
    Repeat { frequency: Frequency::Weekly { weekdays }, interval, until }
}

fn monthly(interval: u16, until: Until) -> Repeat {
    Repeat { frequency: Frequency::Monthly, interval, until }
}

#[test]
fn a_night_lasts_seven_eight_or_nine_hours() {
    check(
        "Europe/Berlin",
        "2026-03-27T22:00",
        "2026-03-28T06:00",
        daily(1, 3),
        expect![[r#"
        2026-03-27T22:00 to 2026-03-28T06:00, 480 min
        2026-03-28T22:00 to 2026-03-29T06:00, 420 min
        2026-03-29T22:00 to 2026-03-30T06:00, 480 min
    "#]],
    );
    check(
        "Europe/Berlin",
        "2026-10-23T22:00",
        "2026-10-24T06:00",
        daily(1, 3),
        expect![[r#"
        2026-10-23T22:00 to 2026-10-24T06:00, 480 min
        2026-10-24T22:00 to 2026-10-25T06:00, 540 min
        2026-10-25T22:00 to 2026-10-26T06:00, 480 min
    "#]],
    );
    check(
        "America/New_York",
        "2026-03-07T22:00",
        "2026-03-08T06:00",
        daily(1, 2),
        expect![[r#"
        2026-03-07T22:00 to 2026-03-08T06:00, 420 min
        2026-03-08T22:00 to 2026-03-09T06:00, 480 min
    "#]],
    );
    check(
        "Australia/Lord_Howe",
        "2026-04-04T22:00",
        "2026-04-05T06:00",
        daily(1, 2),
        expect![[r#"
        2026-04-04T22:00 to 2026-04-05T06:00, 510 min
        2026-04-05T22:00 to 2026-04-06T06:00, 480 min
    "#]],
    );
    check(
        "Africa/Casablanca",
        "2026-02-14T22:00",
        "2026-02-15T06:00",
        daily(1, 2),
        expect![[r#"
        2026-02-14T22:00 to 2026-02-15T06:00, 540 min
        2026-02-15T22:00 to 2026-02-16T06:00, 480 min
    "#]],
    );
}

#[test]
fn skipped_and_ambiguous_times_are_missed_and_the_others_stay() {
    check(
        "Europe/Berlin",
        "2026-03-28T02:30",
        "2026-03-28T04:00",
        daily(1, 3),
        expect![[r#"
        2026-03-28T02:30 to 2026-03-28T04:00, 90 min
        2026-03-29T02:30 to 2026-03-29T04:00: 2026-03-29T02:30: this time does not exist: the clocks go forward over it
        2026-03-30T02:30 to 2026-03-30T04:00, 90 min
    "#]],
    );
    check(
        "Europe/Berlin",
        "2026-10-24T00:00",
        "2026-10-24T02:30",
        daily(1, 3),
        expect![[r#"
        2026-10-24T00:00 to 2026-10-24T02:30, 150 min
        2026-10-25T00:00 to 2026-10-25T02:30: 2026-10-25T02:30: this time exists twice: the clocks go back over it
        2026-10-26T00:00 to 2026-10-26T02:30, 150 min
    "#]],
    );
}

#[test]
fn by_the_week() {
    use Weekday::{Friday, Monday, Sunday, Tuesday};
    // 2026-10-20 is a Tuesday, after the Monday of its week.
    let days = [Monday, Tuesday, Friday];
    check(
        "Europe/Berlin",
        "2026-10-20T09:00",
        "2026-10-20T10:00",
        weekly(&days, 1, Until::Count(5)),
        expect![[r#"
        2026-10-20T09:00 to 2026-10-20T10:00, 60 min
        2026-10-23T09:00 to 2026-10-23T10:00, 60 min
        2026-10-26T09:00 to 2026-10-26T10:00, 60 min
        2026-10-27T09:00 to 2026-10-27T10:00, 60 min
        2026-10-30T09:00 to 2026-10-30T10:00, 60 min
    "#]],
    );
    let until = Until::Date(date("2026-11-16"));
    check(
        "Europe/Berlin",
        "2026-10-20T09:00",
        "2026-10-20T10:00",
        weekly(&days, 2, until),
        expect![[r#"
        2026-10-20T09:00 to 2026-10-20T10:00, 60 min
        2026-10-23T09:00 to 2026-10-23T10:00, 60 min
        2026-11-02T09:00 to 2026-11-02T10:00, 60 min
        2026-11-03T09:00 to 2026-11-03T10:00, 60 min
        2026-11-06T09:00 to 2026-11-06T10:00, 60 min
        2026-11-16T09:00 to 2026-11-16T10:00, 60 min
    "#]],
    );
    check(
        "UTC",
        "2026-10-20T09:00",
        "2026-10-20T10:00",
        weekly(&[Sunday], 1, Until::Count(2)),
        expect![[r#"
        refused: 2026-10-20 is a Tuesday, which is not one of {Sunday}
    "#]],
    );
}

#[test]
fn by_the_month_without_those_that_are_too_short() {
    let until = Until::Date(date("2026-08-31"));
    check(
        "Europe/Berlin",
        "2026-01-31T23:00",
        "2026-02-01T01:00",
        monthly(1, until),
        expect![[r#"
        2026-01-31T23:00 to 2026-02-01T01:00, 120 min
        2026-03-31T23:00 to 2026-04-01T01:00, 120 min
        2026-05-31T23:00 to 2026-06-01T01:00, 120 min
        2026-07-31T23:00 to 2026-08-01T01:00, 120 min
        2026-08-31T23:00 to 2026-09-01T01:00, 120 min
    "#]],
    );
    check(
        "UTC",
        "2028-02-29T10:00",
        "2028-02-29T11:00",
        monthly(12, Until::Count(3)),
        expect![[r#"
        2028-02-29T10:00 to 2028-02-29T11:00, 60 min
        2032-02-29T10:00 to 2032-02-29T11:00, 60 min
        2036-02-29T10:00 to 2036-02-29T11:00, 60 min
    "#]],
    );
    check(
        "UTC",
        "2026-11-15T10:00",
        "2026-11-15T11:00",
        monthly(3, Until::Count(3)),
        expect![[r#"
        2026-11-15T10:00 to 2026-11-15T11:00, 60 min
        2027-02-15T10:00 to 2027-02-15T11:00, 60 min
        2027-05-15T10:00 to 2027-05-15T11:00, 60 min
    "#]],
    );
}

#[test]
fn every_third_day_until_and_with_the_last() {
    let until = |day: &str| Repeat { frequency: Frequency::Daily, interval: 3, until: Until::Date(date(day)) };
    check(
        "UTC",
        "2026-02-27T10:00",
        "2026-02-28T10:00",
        until("2026-03-05"),
        expect![[r#"
        2026-02-27T10:00 to 2026-02-28T10:00, 1440 min
        2026-03-02T10:00 to 2026-03-03T10:00, 1440 min
        2026-03-05T10:00 to 2026-03-06T10:00, 1440 min
    "#]],
    );
    check(
        "UTC",
        "2026-02-27T10:00",
        "2026-02-28T10:00",
        until("2026-03-04"),
        expect![[r#"
        2026-02-27T10:00 to 2026-02-28T10:00, 1440 min
        2026-03-02T10:00 to 2026-03-03T10:00, 1440 min
    "#]],
    );
}

#[test]
fn bad_recurrences_are_refused_with_a_reason() {
    let refused = |begin: &str, end: &str, repeat: Repeat| {
        occurrences(&zone("UTC"), civil(begin), civil(end), &repeat).expect_err("is refused")
    };
    let hour = |repeat: Repeat| refused("2026-01-01T10:00", "2026-01-01T11:00", repeat);
    let past = Repeat { until: Until::Date(date("2025-12-31")), ..daily(1, 1) };
    let years = Repeat { until: Until::Date(date("2029-12-31")), ..daily(1, 1) };
    expect![[r#"
        [
            "2026-01-01T10:00 is not after 2026-01-01T10:00",
            "2025-01-01T10:00 is not after 2026-01-01T10:00",
            "a slot that recurs is at most 365 days long",
            "the interval is 1 to 1000, not 0",
            "the interval is 1 to 1000, not 1001",
            "a booking occurs 1 to 400 times",
            "a booking occurs 1 to 400 times",
            "a booking occurs 1 to 400 times",
            "a booking occurs 1 to 400 times",
            "the last occurrence is behind the year 9999",
            "the last occurrence is behind the year 9999",
            "the last occurrence is behind the year 9999",
        ]
    "#]]
    .assert_debug_eq(&[
        refused("2026-01-01T10:00", "2026-01-01T10:00", daily(1, 1)),
        refused("2026-01-01T10:00", "2025-01-01T10:00", daily(1, 1)),
        refused("2026-01-01T10:00", "2027-01-01T10:00:00.001", daily(1, 1)),
        hour(daily(0, 1)),
        hour(daily(1_001, 1)),
        hour(daily(1, 0)),
        hour(daily(1, 401)),
        hour(past),
        hour(years),
        refused("9999-12-29T10:00", "9999-12-29T11:00", daily(1, 3)),
        refused("9999-12-29T10:00", "9999-12-29T11:00", monthly(1, Until::Count(2))),
        refused("9999-12-30T10:00", "9999-12-30T11:00", daily(1, 2)),
    ]);
    let most = occurrences(&zone("UTC"), civil("2026-01-01T10:00"), civil("2026-01-01T11:00"), &daily(1, 400));
    assert_eq!(most.expect("just as many as may be").len(), 400);
}

#[test]
fn no_days_are_no_weekdays() {
    assert_eq!(Weekdays::new([]), None);
}

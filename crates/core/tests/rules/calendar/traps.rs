//! The mistakes of the seed's calendar, one by one, and its worked examples.

use boxoffice_core::calendar::{Buffers, Calendar, Slot, SlotRefusal};
use expect_test::expect;

use crate::calendar::{
    script::check,
    words::{at, key, slot},
};

#[test]
fn example_12_touching_bookings_are_accepted_and_a_third_is_refused() {
    check(
        1,
        Buffers::NONE,
        "book first 10:00 10:30
         book second 10:30 2026-01-02T10:45
         book third 10:30 2026-01-02T10:45
         list 00:00 2026-01-03T00:00",
        expect![[r#"
            book first 10:00 10:30 -> ok
            book second 10:30 2026-01-02T10:45 -> ok
            book third 10:30 2026-01-02T10:45 -> refused: taken by booking/second
            list 00:00 2026-01-03T00:00 -> booking/first [10:00, 10:30), booking/second [10:30, 2026-01-02T10:45)
        "#]],
    );
}

#[test]
fn example_13_a_booking_across_midnight_covers_midnight() {
    check(
        1,
        Buffers::NONE,
        "book night 22:00 2026-01-02T02:00
         ask 23:59:59 2026-01-02T00:00:01
         ask 23:59:59.500 23:59:59.900
         ask 2026-01-02T00:00 2026-01-02T00:00:00.001
         ask 21:00 22:00
         ask 2026-01-02T02:00 2026-01-02T03:00",
        expect![[r#"
            book night 22:00 2026-01-02T02:00 -> ok
            ask 23:59:59 2026-01-02T00:00:01 -> refused: taken by booking/night
            ask 23:59:59.500 23:59:59.900 -> refused: taken by booking/night
            ask 2026-01-02T00:00 2026-01-02T00:00:00.001 -> refused: taken by booking/night
            ask 21:00 22:00 -> free
            ask 2026-01-02T02:00 2026-01-02T03:00 -> free
        "#]],
    );
}

#[test]
fn the_last_second_of_a_day_is_booked_with_the_day() {
    check(
        1,
        Buffers::NONE,
        "book day 00:00 2026-01-02T00:00
         ask 23:59:59 2026-01-02T00:00
         ask 23:59:59.999 2026-01-02T00:00
         ask 2026-01-02T00:00 2026-01-02T00:00:00.001",
        expect![[r#"
            book day 00:00 2026-01-02T00:00 -> ok
            ask 23:59:59 2026-01-02T00:00 -> refused: taken by booking/day
            ask 23:59:59.999 2026-01-02T00:00 -> refused: taken by booking/day
            ask 2026-01-02T00:00 2026-01-02T00:00:00.001 -> free
        "#]],
    );
}

#[test]
fn an_interval_across_midnight_is_looked_for_on_both_days() {
    // A day counted as 24 hours from 23:00 would miss the second day.
    check(
        1,
        Buffers::NONE,
        "book early 2026-01-02T00:30 2026-01-02T02:00
         ask 23:00 2026-01-02T01:00
         ask 23:00 2026-01-02T00:30",
        expect![[r#"
            book early 2026-01-02T00:30 2026-01-02T02:00 -> ok
            ask 23:00 2026-01-02T01:00 -> refused: taken by booking/early
            ask 23:00 2026-01-02T00:30 -> free
        "#]],
    );
}

#[test]
fn a_window_that_cuts_bookings_sees_them_whole_and_destroys_none() {
    check(
        1,
        Buffers::NONE,
        "book a 2025-12-31T20:00 00:30
         book b 10:00 11:00
         book c 23:30 2026-01-04T08:00
         list 00:00 2026-01-02T00:00
         list 10:30 10:31
         list 2026-01-02T12:00 2026-01-02T13:00
         list 00:30 10:00
         book d 10:30 12:00
         list 2025-01-01T00:00 2027-01-01T00:00",
        expect![[r#"
            book a 2025-12-31T20:00 00:30 -> ok
            book b 10:00 11:00 -> ok
            book c 23:30 2026-01-04T08:00 -> ok
            list 00:00 2026-01-02T00:00 -> booking/a [2025-12-31T20:00, 00:30), booking/b [10:00, 11:00), booking/c [23:30, 2026-01-04T08:00)
            list 10:30 10:31 -> booking/b [10:00, 11:00)
            list 2026-01-02T12:00 2026-01-02T13:00 -> booking/c [23:30, 2026-01-04T08:00)
            list 00:30 10:00 -> 
            book d 10:30 12:00 -> refused: taken by booking/b
            list 2025-01-01T00:00 2027-01-01T00:00 -> booking/a [2025-12-31T20:00, 00:30), booking/b [10:00, 11:00), booking/c [23:30, 2026-01-04T08:00)
        "#]],
    );
}

#[test]
fn cancelling_takes_every_day_of_a_booking_and_the_last_of_a_day() {
    check(
        1,
        Buffers::NONE,
        "book long 12:00 2026-01-04T12:00
         cancel long
         cancel long
         list 2025-01-01T00:00 2027-01-01T00:00
         book first 13:00 14:00
         book third 2026-01-03T00:00 2026-01-04T00:00",
        expect![[r#"
            book long 12:00 2026-01-04T12:00 -> ok
            cancel long -> [12:00, 2026-01-04T12:00)
            cancel long -> no such booking
            list 2025-01-01T00:00 2027-01-01T00:00 -> 
            book first 13:00 14:00 -> ok
            book third 2026-01-03T00:00 2026-01-04T00:00 -> ok
        "#]],
    );
    let mut calendar = Calendar::new();
    calendar.insert(&key("long"), slot("12:00", "2026-01-04T12:00"), 1, Buffers::NONE);
    calendar.remove(&key("long").name());
    assert_eq!(calendar, Calendar::new(), "nothing is left of it");
}

#[test]
fn inverted_empty_and_endless_intervals_are_refused() {
    check(
        1,
        Buffers::NONE,
        "ask 10:00 10:00
         ask 11:00 10:00
         ask 2026-01-01T00:00 2027-01-02T00:00
         ask 2026-01-01T00:00 2027-01-02T00:00:00.001",
        expect![[r#"
            ask 10:00 10:00 -> refused: a slot ends after it begins: 1767261600000 is not after 1767261600000
            ask 11:00 10:00 -> refused: a slot ends after it begins: 1767261600000 is not after 1767265200000
            ask 2026-01-01T00:00 2027-01-02T00:00 -> free
            ask 2026-01-01T00:00 2027-01-02T00:00:00.001 -> refused: a slot is at most 366 days long, not 31622400001 ms
        "#]],
    );
    let late = boxoffice_core::time::TIMESTAMP_MAX;
    assert!(Slot::new(at("10:00"), late.after(0)).is_some());
    let behind = boxoffice_core::time::Timestamp(late.0 + 1);
    assert!(matches!(Slot::asked(late, behind), Err(SlotRefusal::BadInterval(_))));
}

#[test]
fn an_id_in_use_does_not_become_one_long_booking() {
    check(
        1,
        Buffers::NONE,
        "book a 10:00 11:00
         book a 15:00 16:00
         list 00:00 2026-01-02T00:00",
        expect![[r#"
            book a 10:00 11:00 -> ok
            book a 15:00 16:00 -> refused: id in use
            list 00:00 2026-01-02T00:00 -> booking/a [10:00, 11:00)
        "#]],
    );
}

#[test]
#[should_panic(expected = "booking/a is in use")]
fn writing_under_an_id_in_use_panics() {
    let mut calendar = Calendar::new();
    calendar.insert(&key("a"), slot("10:00", "11:00"), 1, Buffers::NONE);
    calendar.insert(&key("a"), slot("15:00", "16:00"), 1, Buffers::NONE);
}

#[test]
#[should_panic(expected = "booking/b is booked over others")]
fn writing_over_other_bookings_panics() {
    let mut calendar = Calendar::new();
    calendar.insert(&key("a"), slot("10:00", "11:00"), 1, Buffers::NONE);
    calendar.insert(&key("b"), slot("10:59:59.999", "12:00"), 1, Buffers::NONE);
}

//! Bookings, with their capacity, buffers, moves, names, copies and encoding.

use boxoffice_core::{
    calendar::{BookingKey, Buffers, Calendar, Slot},
    id::{CartId, HoldId, RequestHash},
    stored,
};
use expect_test::expect;

use crate::calendar::{
    script::check,
    words::{at, buffers, key, slot},
};

#[test]
fn three_at_once_and_no_fourth() {
    check(
        3,
        Buffers::NONE,
        "book a 10:00 12:00
         book b 11:00 13:00
         book c 10:30 11:30
         ask 11:00 11:30
         ask 11:29 14:00
         ask 11:30 14:00
         book d 11:30 14:00
         ask 09:00 17:00
         ask 12:00 17:00",
        expect![[r#"
            book a 10:00 12:00 -> ok
            book b 11:00 13:00 -> ok
            book c 10:30 11:30 -> ok
            ask 11:00 11:30 -> refused: taken by booking/a, booking/c, booking/b
            ask 11:29 14:00 -> refused: taken by booking/a, booking/c, booking/b
            ask 11:30 14:00 -> free
            book d 11:30 14:00 -> ok
            ask 09:00 17:00 -> refused: taken by booking/a, booking/c, booking/b, booking/d
            ask 12:00 17:00 -> free
        "#]],
    );
}

#[test]
fn only_bookings_that_fill_the_capacity_conflict() {
    check(
        2,
        Buffers::NONE,
        "book a 08:00 09:00
         book b 10:00 12:00
         book c 11:00 13:00
         book d 14:00 15:00
         ask 08:00 16:00",
        expect![[r#"
            book a 08:00 09:00 -> ok
            book b 10:00 12:00 -> ok
            book c 11:00 13:00 -> ok
            book d 14:00 15:00 -> ok
            ask 08:00 16:00 -> refused: taken by booking/b, booking/c
        "#]],
    );
}

#[test]
fn a_booking_that_begins_when_there_is_room_does_not_conflict() {
    check(
        2,
        Buffers::NONE,
        "book a 08:00 10:00
         book b 08:00 10:00
         book c 10:00 11:00
         ask 09:00 11:00
         ask 10:00 11:00",
        expect![[r#"
            book a 08:00 10:00 -> ok
            book b 08:00 10:00 -> ok
            book c 10:00 11:00 -> ok
            ask 09:00 11:00 -> refused: taken by booking/a, booking/b
            ask 10:00 11:00 -> free
        "#]],
    );
}

#[test]
fn buffers_are_added_on_both_sides_and_may_touch() {
    check(
        1,
        buffers(10, 5),
        "book a 10:00 11:00
         ask 11:14 12:00
         ask 11:14:59.999 12:00
         book b 11:15 12:00
         ask 09:00 09:45:00.001
         book c 09:00 09:45",
        expect![[r#"
            book a 10:00 11:00 -> ok
            ask 11:14 12:00 -> refused: taken by booking/a
            ask 11:14:59.999 12:00 -> refused: taken by booking/a
            book b 11:15 12:00 -> ok
            ask 09:00 09:45:00.001 -> refused: taken by booking/a
            book c 09:00 09:45 -> ok
        "#]],
    );
}

#[test]
fn buffers_reach_across_midnight() {
    check(
        1,
        buffers(0, 90),
        "book a 22:00 23:00
         ask 2026-01-02T00:29 2026-01-02T01:00
         ask 2026-01-02T00:30 2026-01-02T01:00",
        expect![[r#"
            book a 22:00 23:00 -> ok
            ask 2026-01-02T00:29 2026-01-02T01:00 -> refused: taken by booking/a
            ask 2026-01-02T00:30 2026-01-02T01:00 -> free
        "#]],
    );
    // At the beginning of time there is no room for the buffer before. That must not matter.
    let first = |from: u64, to: u64| {
        let time = boxoffice_core::time::Timestamp;
        Slot::new(time(from), time(to)).expect("a slot")
    };
    let mut calendar = Calendar::new();
    calendar.insert(&key("a"), first(0, 10), 1, Buffers { before_ms: 100, after_ms: 100 });
    assert!(!calendar.fits(first(209, 220), None, 1, Buffers { before_ms: 100, after_ms: 100 }));
    assert!(calendar.fits(first(210, 220), None, 1, Buffers { before_ms: 100, after_ms: 100 }));
}

#[test]
fn a_moved_booking_does_not_conflict_with_itself() {
    check(
        1,
        buffers(0, 15),
        "book a 10:00 11:00
         book b 12:00 13:00
         move a 10:30 11:30
         move a 10:45 11:45
         move a 10:45 11:46
         move a 13:15 2026-01-02T02:00
         list 00:00 2026-01-03T00:00",
        expect![[r#"
            book a 10:00 11:00 -> ok
            book b 12:00 13:00 -> ok
            move a 10:30 11:30 -> ok
            move a 10:45 11:45 -> ok
            move a 10:45 11:46 -> refused: taken by booking/b
            move a 13:15 2026-01-02T02:00 -> ok
            list 00:00 2026-01-03T00:00 -> booking/b [12:00, 13:00), booking/a [13:15, 2026-01-02T02:00)
        "#]],
    );
}

#[test]
fn a_held_slot_is_renamed_under_narrower_terms() {
    let hold = BookingKey::Hold(HoldId { cart: CartId(7), request: RequestHash(8), part: 1, attempt: 0 });
    assert_eq!(hold.to_string(), "hold/00000000000000000000000000000007/0000000000000008/1/0");
    let mut calendar = Calendar::new();
    calendar.insert(&hold, slot("10:00", "11:00"), 2, Buffers::NONE);
    calendar.insert(&key("a"), slot("10:30", "2026-01-02T11:00"), 2, Buffers::NONE);
    calendar.rename(&hold.name(), &key("sold"));
    assert_eq!((calendar.len(), calendar.slot_of(&hold.name())), (2, None));
    assert_eq!(calendar.slot_of(&key("sold").name()), Some(slot("10:00", "11:00")));
    assert!(calendar.violations(2, Buffers::NONE).is_empty());
    // The audit uses the given terms.
    expect![[r#"
        [
            "2 at once between 1767263400000 and 1767265200000, 1 may be: booking/sold booking/a",
        ]
    "#]]
    .assert_debug_eq(&calendar.violations(1, Buffers::NONE));
}

#[test]
#[should_panic(expected = "is renamed and is not booked")]
fn renaming_an_unknown_booking_panics() {
    Calendar::new().rename(&key("a").name(), &key("b"));
}

#[test]
fn a_booking_of_a_whole_year_is_on_each_of_its_days() {
    let mut calendar = Calendar::new();
    let year = slot("2028-01-01T12:00", "2029-01-01T12:00");
    calendar.insert(&key("year"), year, 1, Buffers::NONE);
    for day in 0..367 {
        let from = at("2028-01-01T00:00").after(day * crate::calendar::words::DAY);
        let seen: Vec<_> = calendar.bookings(from, from.after(crate::calendar::words::DAY)).collect();
        assert_eq!(seen, [(&key("year").name(), year)], "day {day}");
    }
    assert_eq!(calendar.bookings(at("2028-01-01T00:00"), at("2028-01-01T12:00")).count(), 0);
    assert_eq!(calendar.bookings(at("2029-01-01T12:00"), at("2029-01-03T00:00")).count(), 0);
}

#[test]
fn a_copy_stays_as_it_was() {
    let mut calendar = Calendar::new();
    for hour in 0..300u64 {
        let begin = at("00:00").after(hour * crate::calendar::words::HOUR);
        let slot = Slot::of_length(begin, crate::calendar::words::HOUR).expect("a slot");
        calendar.insert(&key(&format!("b{hour}")), slot, 1, Buffers::NONE);
    }
    let copy = calendar.clone();
    calendar.remove(&key("b7").name());
    calendar.insert(&key("x"), slot("07:15", "07:30"), 1, Buffers::NONE);
    assert_eq!((copy.len(), copy.slot_of(&key("b7").name())), (300, Some(slot("07:00", "08:00"))));
    assert!(copy.violations(1, Buffers::NONE).is_empty());
    assert_ne!(calendar, copy);
    assert!(calendar.heap_bytes() > 300 * size_of::<Slot>());
}

#[test]
fn calendars_round_trip_and_invalid_ones_are_refused() {
    let mut calendar = Calendar::new();
    calendar.insert(&key("a"), slot("10:00", "2026-01-05T11:00"), 2, Buffers::NONE);
    calendar.insert(&key("b"), slot("12:00", "13:00"), 2, Buffers::NONE);
    let bytes = stored::append(&calendar, Vec::new());
    let read: Calendar = stored::read(&bytes).expect("reads");
    assert_eq!(read, calendar);
    assert!(read.violations(2, Buffers::NONE).is_empty());

    let refused = |bookings: &[(BookingKey, (u64, u64))]| {
        let bytes = stored::append(bookings, Vec::new());
        stored::read::<Calendar>(&bytes).expect_err("is refused")
    };
    let (day, year) = (crate::calendar::words::DAY, 366 * crate::calendar::words::DAY);
    expect![[r#"
        [
            "unexpected type u8 at position 7: expected bytes (definite length)",
            "unexpected type u8 at position 7: expected bytes (definite length)",
            "unexpected type u8 at position 7: expected bytes (definite length)",
            "unexpected type u8 at position 7: expected bytes (definite length)",
            "unexpected type u8 at position 12: expected bytes (definite length)",
        ]
    "#]]
    .assert_debug_eq(&[
        refused(&[(key("a"), (0, day)), (key("a"), (day, 2 * day))]),
        refused(&[(key("a"), (5, 5))]),
        refused(&[(key("a"), (6, 5))]),
        refused(&[(key("a"), (0, year + 1))]),
        refused(&[(key("hold:1"), (0, day))]),
    ]);
}

//! A cursor of bookings that was changed in any place is refused, or continues the list from the place that it names in public.

use std::collections::BTreeSet;

use boxoffice_core::{
    answer::BookingView,
    calendar::BookingName,
    cursor,
    event::ResourceEvent,
    id::{CartId, HoldId, Id, Request, RequestHash},
    resource::Resource,
    time::Timestamp,
};

use crate::script::{euros, id, resource};

const HOUR: u64 = 3_600_000;

/// A room with bookings of carts, whose ids are these, at one time and later ones, and with a named one beside them.
fn room(carts: &[u128]) -> Resource {
    let request = Request { id: RequestHash(1), body: 1 };
    let details = boxoffice_core::command::ResourceDetails { capacity: 100, ..resource(euros(1_000)) };
    let mut room = Resource::first(id("r"), &ResourceEvent::Put { details: Box::new(details), request });
    for (number, cart) in (0..).zip(carts) {
        let begin = Timestamp(10 * HOUR + number / 4 * HOUR);
        room.apply(&ResourceEvent::SlotHeld {
            hold: HoldId { cart: CartId(*cart), request: RequestHash(number), part: 0, attempt: 0 },
            revision: 1,
            want_hash: 0,
            begin,
            end: begin.after(HOUR),
            price: 1_000,
            details: "".into(),
            deadline: Timestamp(HOUR),
            charge: None,
        });
    }
    room.apply(&ResourceEvent::Reserved {
        bookings: vec![(id("choir"), Timestamp(10 * HOUR), Timestamp(11 * HOUR))],
        series: None,
        details: "".into(),
        remembered: boxoffice_core::event::Remembered::alone(request, boxoffice_core::answer::KeptAnswer::Done),
    });
    room
}

/// The page after a cursor's text, or `None` if it is refused.
fn page(room: &Resource, text: &str, limit: u32) -> Option<Vec<BookingView>> {
    let after = cursor::read_by_time(text, BookingName::parse)?;
    Some(room.bookings(Timestamp(0), Timestamp(1_000 * HOUR), limit, Some(&after)).expect("a good window"))
}

/// The place that a cursor names by its text alone, or `None` if no page gives such a cursor.
fn place(text: &str) -> Option<(u64, &str)> {
    let (millis, name) = text.split_once('/')?;
    let at: u64 = millis.parse().ok().filter(|at: &u64| at.to_string() == millis && *at < 1 << 60)?;
    let known = match name.strip_prefix("hold:") {
        Some(digits) => digits.len() == 32 && digits.bytes().all(|byte| b"0123456789abcdef".contains(&byte)),
        None => Id::new(name).is_some(),
    };
    known.then_some((at, name))
}

/// Texts that differ from a cursor in one place, and some that were dangerous.
fn mutations(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let others = ["0", "1", "8", "9", "a", "f", "A", "F", "g", "z", "/", ":", "+", "-", " ", "_", "%", "\0", "é", ""];
    for at in 0..=text.len() {
        let (before, rest) = text.split_at(at);
        found.insert(before.to_owned());
        found.insert(rest.to_owned());
        for other in others {
            found.insert(format!("{before}{other}{rest}"));
            if !rest.is_empty() {
                found.insert(format!("{before}{other}{}", &rest[1..]));
            }
        }
        if !rest.is_empty() {
            found.insert(format!("{before}{}{rest}", &rest[..1]));
        }
    }
    let (millis, _) = text.split_once('/').expect("a cursor has a slash");
    for digits in [0, 1, 16, 30, 31, 32, 33, 34, 40] {
        for digit in ["0", "7", "f", "F"] {
            found.insert(format!("{millis}/hold:{}", digit.repeat(digits)));
            found.insert(format!("{millis}/hold/{}", digit.repeat(digits)));
            found.insert(format!("{millis}/hold/{}/0000000000000001/0/0", digit.repeat(digits)));
        }
    }
    found.remove(text);
    found
}

/// Carts whose ids begin with zeros, as those of all carts of one resource may, and others.
fn carts(secret: u128) -> Vec<u128> {
    let spread = |number: u128| number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) ^ secret;
    (1..=10).map(|number| if number % 2 == 0 { spread(number) >> 20 } else { spread(number) }).collect()
}

pub(crate) fn a_changed_cursor_is_refused_or_names_its_place_in_public() {
    let room = room(&carts(0x1234_5678_9abc_def0_1122_3344_5566_7788));
    let all = room.bookings(Timestamp(0), Timestamp(1_000 * HOUR), 1_000, None).expect("a good window");
    assert_eq!(all.len(), 11);
    let mut tried = 0;
    for booking in &all {
        let real = cursor::by_time(booking.begin, &booking.booking);
        for text in mutations(&real).into_iter().chain([real.to_string()]) {
            tried += 1;
            let expected = place(&text).map(|place| {
                let after = |booking: &&BookingView| (booking.begin.0, booking.booking.as_str()) > place;
                all.iter().filter(after).cloned().collect::<Vec<_>>()
            });
            assert_eq!(page(&room, &text, 1_000), expected, "{text}");
            if let Some(expected) = expected {
                assert_eq!(page(&room, &text, 3), Some(expected[..expected.len().min(3)].to_vec()), "{text}");
            }
        }
    }
    assert!(tried > 10_000, "{tried} texts are not many");
}

#[test]
fn changed_cursors() {
    a_changed_cursor_is_refused_or_names_its_place_in_public();
}

/// The attack of before. With fewer digits than a name has, a cursor was compared with the ids themselves, and as many questions
/// as an id has bits told it.
#[test]
fn no_search_by_cursor_tells_the_id_of_a_cart() {
    let secret = 0x0000_0abc_def0_1234_5678_9abc_def0_1234;
    let room = room(&[secret]);
    let asks = |number: u128, width: usize| {
        let text = format!("{}/hold:{number:0width$x}", 10 * HOUR);
        page(&room, &text, 1_000).map(|page| !page.is_empty())
    };
    let name = room.bookings(Timestamp(0), Timestamp(1_000 * HOUR), 10, None).expect("a good window");
    let name =
        name.into_iter().map(|booking| booking.booking).find(|name| name.starts_with("hold:")).expect("it is held");
    let public = u128::from_str_radix(&name[5..], 16).expect("digits");
    for width in [1, 31, 32] {
        let (mut low, mut high) = (0, u128::MAX >> (128 - 4 * 32.min(width.max(31))));
        while low < high {
            let middle = low + (high - low) / 2;
            match asks(middle, width) {
                Some(true) => low = middle + 1,
                Some(false) => high = middle,
                None => break,
            }
        }
        assert_ne!(low, secret, "{width} digits tell the cart");
        assert!(width != 32 || low == public, "the search finds what is public");
    }
}

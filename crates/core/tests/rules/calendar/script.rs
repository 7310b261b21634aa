//! Stories about one calendar. Each line is a command, followed by its answer.
//!
//! ```text
//! book NAME BEGIN END     booked if it fits
//! ask BEGIN END           a query
//! move NAME BEGIN END     its own old slot is no conflict
//! cancel NAME
//! list FROM TO
//! ```
//! A time without a day is on 1 January 2026, UTC.

use boxoffice_core::calendar::{BookingName, Buffers, Calendar, Slot};
use expect_test::Expect;

use crate::calendar::words::{at, key, utc};

pub(crate) fn check(capacity: u32, buffers: Buffers, script: &str, expect: Expect) {
    let mut calendar = Calendar::new();
    let mut story = String::new();
    for line in script.lines().map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = answer(&mut calendar, &words, capacity, buffers);
        assert_eq!(calendar.violations(capacity, buffers), [""; 0], "after {line}");
        story += &format!("{line} -> {answer}\n");
    }
    expect.assert_eq(&story);
}

fn answer(calendar: &mut Calendar, words: &[&str], capacity: u32, buffers: Buffers) -> String {
    match *words {
        ["book", name, begin, end] => match asked(calendar, None, begin, end, capacity, buffers) {
            Ok(_) if calendar.slot_of(&key(name).name()).is_some() => "refused: id in use".into(),
            Ok(slot) => {
                calendar.insert(&key(name), slot, capacity, buffers);
                "ok".into()
            }
            Err(refusal) => refusal,
        },
        ["ask", begin, end] => {
            asked(calendar, None, begin, end, capacity, buffers).map_or_else(|no| no, |_| "free".into())
        }
        ["move", name, begin, end] => match asked(calendar, Some(&key(name).name()), begin, end, capacity, buffers) {
            Ok(slot) => {
                calendar.remove(&key(name).name()).expect("moved, so it is there");
                calendar.insert(&key(name), slot, capacity, buffers);
                "ok".into()
            }
            Err(refusal) => refusal,
        },
        ["cancel", name] => calendar.remove(&key(name).name()).map_or("no such booking".into(), shown),
        ["list", from, to] => {
            let of = |(key, slot): (&BookingName, Slot)| format!("{key} {}", shown(slot));
            calendar.bookings(at(from), at(to)).map(of).collect::<Vec<_>>().join(", ")
        }
        _ => panic!("no such command: {words:?}"),
    }
}

fn asked(
    calendar: &Calendar,
    except: Option<&BookingName>,
    begin: &str,
    end: &str,
    capacity: u32,
    buffers: Buffers,
) -> Result<Slot, String> {
    let slot = Slot::asked(at(begin), at(end)).map_err(|refusal| format!("refused: {refusal}"))?;
    let conflicts = calendar.conflicts(slot, except, capacity, buffers);
    assert_eq!(conflicts.is_empty(), calendar.fits(slot, except, capacity, buffers));
    if conflicts.is_empty() {
        return Ok(slot);
    }
    let names: Vec<String> = conflicts.iter().map(|(key, _)| key.to_string()).collect();
    Err(format!("refused: taken by {}", names.join(", ")))
}

fn shown(slot: Slot) -> String {
    // Omits the day of the stories.
    let short = |text: String| text.strip_prefix("2026-01-01T").map_or(text.clone(), str::to_owned);
    format!("[{}, {})", short(utc(slot.begin())), short(utc(slot.end())))
}

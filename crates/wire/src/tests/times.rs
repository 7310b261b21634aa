//! Times up to the end of the year 9999, in both encodings.

use boxoffice_core::time::{TIMESTAMP_MAX, Timestamp};
use proptest::prelude::*;

use crate::repr::{day, day_text, rfc3339, timestamp};

#[test]
fn the_last_day_can_be_written_and_read() {
    assert_eq!(rfc3339(TIMESTAMP_MAX).as_deref(), Some("9999-12-31T23:59:59.999Z"));
    assert_eq!(timestamp("9999-12-31T23:59:59.999Z"), Some(TIMESTAMP_MAX));
    assert_eq!(timestamp("9999-12-31T23:59:59.999999Z"), Some(TIMESTAMP_MAX));
    let noon = Timestamp(TIMESTAMP_MAX.0 - 12 * 60 * 60 * 1_000 + 1);
    assert_eq!(rfc3339(noon).as_deref(), Some("9999-12-31T12:00:00.000Z"));
    assert_eq!(timestamp("9999-12-31T12:00:00z"), Some(noon));
    let last = u32::try_from(TIMESTAMP_MAX.0 / 86_400_000).expect("days are few");
    assert_eq!(day_text(last).as_deref(), Some("9999-12-31"));
    assert_eq!((day("9999-12-31"), day_text(last + 1)), (Some(last), None));
}

#[test]
fn invalid_times_and_times_after_9999_are_refused() {
    assert_eq!(rfc3339(Timestamp(TIMESTAMP_MAX.0 + 1)), None);
    assert_eq!(rfc3339(Timestamp(u64::MAX)), None);
    for text in [
        "9999-12-31T24:00:01Z",
        "9999-12-32T00:00:00Z",
        "9999-12-31Z",
        "9999-12-31T23:59:59.999",
        "9999-12-31T23:59:59.999[UTC]Z",
        "9999-12-31T23:59:59+01:00Z",
        "10000-01-01T00:00:00Z",
        "2030-01-01Z",
        "2030-01-01T10:00:00",
        "1969-12-31T23:59:59.999Z",
        "Z",
        "äääääääääää",
        "",
    ] {
        assert_eq!(timestamp(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn every_instant_round_trips(near in 0..200_000_000u64, any in 0..=TIMESTAMP_MAX.0) {
        for time in [Timestamp(any), Timestamp(TIMESTAMP_MAX.0 - near)] {
            let text = rfc3339(time).expect("it is in the calendar");
            prop_assert_eq!(text.len(), "9999-12-31T23:59:59.999Z".len());
            prop_assert_eq!(timestamp(&text), Some(time));
        }
    }
}

//! The audit of a calendar. It counts everything again from the list of bookings (P13).

use alloc::{string::String, vec::Vec};
use core::fmt::Write;

use smol_str::{SmolStr, format_smolstr};

use super::{BookingName, Buffers, Calendar, CartBookingName, Days, Profile, widened};
use crate::time::Timestamp;

/// The most violations that one audit describes.
const VIOLATIONS_MAX: usize = 100;

/// Bookings named in one sentence.
const NAMED_MAX: usize = 8;

impl Calendar {
    /// Violations in words, at most 100.
    ///
    /// Bookings are written only where they fit. So too many at once are a fault, unless the capacity became smaller or the
    /// buffers longer since.
    pub fn violations(&self, capacity: u32, buffers: Buffers) -> Vec<SmolStr> {
        let mut found = self.lost_pieces();
        found.extend(self.lost_holds());
        let mut slots: Vec<_> = self.bookings.iter().map(|(key, slot)| (*slot, key)).collect();
        slots.sort_unstable();
        let profile = Profile::new(slots.iter().map(|(slot, _)| widened(*slot, buffers)));
        // Touching levels that are all too high are one finding.
        let mut crowds: Vec<(u64, u64, usize)> = Vec::new();
        for level in profile.filter(|level| level.count > capacity as usize) {
            match crowds.last_mut() {
                Some((_, end, most)) if *end == level.begin => (*end, *most) = (level.end, level.count.max(*most)),
                _ => crowds.push((level.begin, level.end, level.count)),
            }
        }
        for (begin, end, most) in crowds {
            let there = slots.iter().filter(|(slot, _)| {
                let (from, to) = widened(*slot, buffers);
                from < end && begin < to
            });
            let mut names = String::new();
            there.take(NAMED_MAX).for_each(|(_, key)| write!(names, " {key}").expect("memory takes text"));
            found.push(format_smolstr!("{most} at once between {begin} and {end}, {capacity} may be:{names}"));
            if found.len() >= VIOLATIONS_MAX {
                break;
            }
        }
        found.truncate(VIOLATIONS_MAX);
        found
    }

    /// The differences between the pieces by day and the bookings.
    fn lost_pieces(&self) -> Vec<SmolStr> {
        let mut days = Days::default();
        self.bookings.iter().for_each(|(name, slot)| days.insert(name, *slot));
        if days == self.days {
            return Vec::new();
        }
        let mut found = Vec::new();
        found.push(format_smolstr!("{} pieces are kept, the bookings have {}", self.days.len(), days.len()));
        for (key, slot) in self.bookings.iter() {
            for day in slot.days() {
                let (from, to) = (u64::from(day) * super::slot::DAY_MS, (u64::from(day) + 1) * super::slot::DAY_MS);
                let mut seen = self.days.overlapping(Timestamp(from), Timestamp(to), None);
                if found.len() < VIOLATIONS_MAX && !seen.any(|entry| entry == (key, *slot)) {
                    found.push(format_smolstr!("{key} is not to be seen on day {day}"));
                }
            }
        }
        found
    }

    /// The differences between the index of holds and the bookings.
    fn lost_holds(&self) -> Vec<SmolStr> {
        let carts = self.bookings.keys().filter(|name| matches!(name, BookingName::Cart(_))).count();
        let count = (carts != self.holds.len())
            .then(|| format_smolstr!("{carts} bookings of carts, of which {} have a hold", self.holds.len()));
        let other = self.holds.iter().filter(|(name, hold)| {
            let known = self.bookings.contains_key(&BookingName::Cart(**name));
            !known || CartBookingName::of(**hold) != **name
        });
        let other = other.map(|(name, hold)| format_smolstr!("{name} is not the name of {hold:?}, or is not booked"));
        count.into_iter().chain(other.take(VIOLATIONS_MAX)).collect()
    }
}

#[cfg(test)]
mod tests {
    use alloc::{
        string::{String, ToString},
        vec::Vec,
    };

    use super::super::{BookingKey, BookingName, Buffers, Calendar, CartBookingName, Slot};
    use crate::{
        id::{CartId, HoldId, Id, RequestHash},
        time::Timestamp,
    };

    const DAY: u64 = super::super::slot::DAY_MS;

    fn key(name: &str) -> BookingKey {
        BookingKey::Named(Id::new(name).expect("a good id"))
    }

    fn booked() -> Calendar {
        let mut calendar = Calendar::new();
        for (name, from, to) in [("a", DAY / 2, 3 * DAY), ("b", 3 * DAY, 3 * DAY + 1)] {
            let slot = Slot::new(Timestamp(from), Timestamp(to)).expect("a slot");
            calendar.insert(&key(name), slot, 1, Buffers::NONE);
        }
        assert!(calendar.violations(1, Buffers::NONE).is_empty());
        calendar
    }

    fn found(calendar: &Calendar) -> Vec<String> {
        calendar.violations(1, Buffers::NONE).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_lost_piece_is_detected() {
        let mut calendar = booked();
        let slot = calendar.slot_of(&key("a").name()).expect("booked");
        calendar.days.remove(&key("a").name(), slot);
        let one_day = Slot::new(slot.begin(), Timestamp(DAY)).expect("a slot");
        calendar.days.insert(&key("a").name(), one_day);
        let lost = "is not to be seen on day";
        let days = ["2 pieces are kept, the bookings have 4".into()].into_iter();
        let days: Vec<String> = days.chain((0..3).map(|day| alloc::format!("booking/a {lost} {day}"))).collect();
        assert_eq!(found(&calendar), days);
    }

    #[test]
    fn a_booking_that_is_not_in_the_list_is_found() {
        let mut calendar = booked();
        calendar.bookings.remove(&key("b").name());
        assert_eq!(found(&calendar), ["4 pieces are kept, the bookings have 3"]);
    }

    #[test]
    fn overlapping_bookings_are_named() {
        let mut calendar = booked();
        let slot = Slot::new(Timestamp(2 * DAY), Timestamp(4 * DAY)).expect("a slot");
        calendar.put(&key("c"), slot);
        let text = alloc::format!(
            "2 at once between {} and {}, 1 may be: booking/a booking/c booking/b",
            2 * DAY,
            3 * DAY + 1
        );
        assert_eq!(found(&calendar), [text]);
    }

    #[test]
    fn a_name_without_its_hold_is_found() {
        let hold = |cart| HoldId { cart: CartId(cart), request: RequestHash(1), part: 0, attempt: 0 };
        let (one, two) = (CartBookingName::of(hold(1)), CartBookingName::of(hold(2)));
        let mut calendar = booked();
        let slot = Slot::new(Timestamp(4 * DAY), Timestamp(5 * DAY)).expect("a slot");
        calendar.put(&BookingKey::Hold(hold(1)), slot);
        assert_eq!(found(&calendar), [""; 0]);
        let mut lost = calendar.clone();
        lost.holds.remove(&one);
        assert_eq!(found(&lost), ["1 bookings of carts, of which 0 have a hold"]);
        calendar.holds.insert(one, hold(2));
        assert_eq!(found(&calendar), [alloc::format!("{one} is not the name of {:?}, or is not booked", hold(2))]);
        assert_eq!((calendar.hold_of(&two), calendar.slot_of(&BookingName::Cart(two))), (None, None));
    }
}

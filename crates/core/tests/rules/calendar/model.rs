//! Random commands against a plain list of intervals that is searched instant by instant.

use boxoffice_core::{
    calendar::{BookingKey, BookingName, Buffers, Calendar, FreeSearch, Slot, Terms, Zone},
    id::{CartId, HoldId, RequestHash},
    stored,
    time::Timestamp,
};
use proptest::{collection::vec, prelude::*};

use crate::{
    calendar::{
        hours::{any_hours, is_open},
        words::{HOUR, key},
    },
    random_runs::cases,
};

/// Everything happens at multiples of half an hour, so days begin and end in the middle of it.
const UNIT: u64 = HOUR / 2;

#[derive(Clone, Debug)]
enum Step {
    /// Booked if it fits.
    Book(u8, Slot),
    /// Moved if it fits elsewhere.
    Move(u8, Slot),
    Cancel(u8),
    Rename(u8, u8),
    List(Timestamp, Timestamp),
    Copy,
    Free(FreeSearch),
}

fn name(number: u8) -> BookingKey {
    if number.is_multiple_of(2) {
        return key(&format!("b{number}"));
    }
    BookingKey::Hold(HoldId { cart: CartId(u128::from(number)), request: RequestHash(1), part: 0, attempt: 0 })
}

fn instant(number: u64) -> Timestamp {
    Timestamp(number * UNIT)
}

/// Slots of half an hour to two days within three days, so that many of them overlap.
fn slots() -> impl Strategy<Value = Slot> {
    let length = prop_oneof![4 => 1..8u64, 1 => 8..96u64];
    (0..3 * 48u64, length)
        .prop_map(|(begin, length)| Slot::new(instant(begin), instant(begin + length)).expect("a slot"))
}

fn searches() -> impl Strategy<Value = FreeSearch> {
    // The first half of a unit or none of it.
    let step = prop::option::of((1..5u64, 0..2u64).prop_map(|(units, halves)| (units * UNIT, halves * UNIT / 2)));
    (0..4 * 48u64, 1..3 * 48u64, 1..7u64, 1..12usize, step).prop_map(|(from, window, length, count, step)| {
        let (step_ms, align_ms) = (step.map(|(step_ms, _)| step_ms), step.map_or(0, |(_, align_ms)| align_ms));
        let (from, to) = (instant(from), instant(from + window));
        FreeSearch { from, to, length_ms: length * UNIT, count, step_ms, align_ms }
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        9 => (0..16u8, slots()).prop_map(|(name, slot)| Step::Book(name, slot)),
        2 => (0..16u8, slots()).prop_map(|(name, slot)| Step::Move(name, slot)),
        3 => (0..16u8).prop_map(Step::Cancel),
        1 => (0..16u8, 0..16u8).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => (0..5 * 48u64, 0..5 * 48u64).prop_map(|(from, to)| Step::List(instant(from), instant(to))),
        1 => Just(Step::Copy),
        2 => searches().prop_map(Step::Free),
    ];
    vec(step, 0..60)
}

/// The zone whose clocks the raster of a search follows.
fn zone_of(terms: &Terms) -> Zone {
    terms.hours.as_ref().map_or_else(|| crate::calendar::words::zone("UTC"), |hours| hours.zone().clone())
}

/// The plain list.
#[derive(Clone, Debug, Default)]
struct Model(Vec<(BookingKey, Slot)>);

/// The text that clients see, which orders bookings that begin together.
fn text(key: &BookingKey) -> String {
    key.name().text().to_string()
}

/// Bookings by begin, then public name.
fn sorted<'a>(bookings: impl Iterator<Item = &'a (BookingKey, Slot)>) -> Vec<(String, Slot)> {
    let mut found: Vec<_> = bookings.map(|(key, slot)| (text(key), *slot)).collect();
    found.sort_by(|(one, one_slot), (two, two_slot)| (one_slot.begin(), one).cmp(&(two_slot.begin(), two)));
    found
}

/// Bookings of a calendar by text.
fn shown<'a>(bookings: impl Iterator<Item = (&'a BookingName, Slot)>) -> Vec<(String, Slot)> {
    bookings.map(|(name, slot)| (name.text().to_string(), slot)).collect()
}

impl Model {
    /// A slot with a buffer on each side.
    fn expanded(slot: Slot, buffers: Buffers) -> (i64, i64) {
        (slot.begin().0 as i64 - buffers.before_ms as i64, slot.end().0 as i64 + buffers.after_ms as i64)
    }

    fn conflicts(&self, slot: Slot, except: Option<&BookingKey>, terms: &Terms) -> Vec<(String, Slot)> {
        let others: Vec<_> = self.0.iter().filter(|(key, _)| Some(key) != except).collect();
        let expanded = |slot: Slot| Model::expanded(slot, terms.buffers());
        let is_at = |slot: Slot, instant: i64| (expanded(slot).0..expanded(slot).1).contains(&instant);
        // The count changes only where a booking begins or ends.
        let begins = others.iter().map(|(_, slot)| expanded(*slot).0);
        let instants: Vec<i64> = begins.chain([expanded(slot).0]).filter(|begin| is_at(slot, *begin)).collect();
        let full = instants.into_iter().filter(|instant| {
            others.iter().filter(|(_, booked)| is_at(*booked, *instant)).count() >= terms.capacity as usize
        });
        let full: Vec<i64> = full.collect();
        let overlaps = |booked: Slot| full.iter().any(|instant| is_at(booked, *instant));
        sorted(others.into_iter().filter(|(_, booked)| overlaps(*booked)))
    }

    fn list(&self, from: Timestamp, to: Timestamp) -> Vec<(String, Slot)> {
        sorted(self.0.iter().filter(|(_, slot)| slot.begin().max(from) < slot.end().min(to)))
    }

    /// Tries every half hour.
    fn free(&self, search: &FreeSearch, terms: &Terms) -> Vec<Slot> {
        let mut found = Vec::new();
        let mut at = search.from;
        while found.len() < search.count && at.0 + search.length_ms <= search.to.0 {
            let slot = Slot::of_length(at, search.length_ms).expect("a slot");
            let open = terms.hours.as_ref().is_none_or(|hours| {
                (slot.begin().0..slot.end().0).step_by(UNIT as usize / 2).all(|at| is_open(hours, Timestamp(at)))
            });
            let on_step = search.step_ms.is_none_or(|step_ms| {
                let zone = zone_of(terms);
                let time_ms = u64::from(zone.civil(at).expect("within the years").time_ms());
                time_ms.checked_sub(search.align_ms).is_some_and(|since| since.is_multiple_of(step_ms))
            });
            if open && on_step && self.conflicts(slot, None, terms).is_empty() {
                found.push(slot);
                at = match search.step_ms {
                    None => slot.end().after(terms.before_ms + terms.after_ms),
                    Some(_) => at.after(UNIT / 2),
                };
            } else {
                at = at.after(UNIT / 2);
            }
        }
        found
    }
}

fn run(steps: Vec<Step>, terms: &Terms) {
    let (mut calendar, mut model) = (Calendar::new(), Model::default());
    let mut copies = Vec::new();
    let (capacity, buffers) = (terms.capacity, terms.buffers());
    for step in steps {
        match step {
            Step::Book(number, slot) => {
                let key = name(number);
                let conflicts = calendar.conflicts(slot, None, capacity, buffers);
                let pairs = conflicts.iter().map(|(name, slot)| (name, *slot));
                assert_eq!(shown(pairs), model.conflicts(slot, None, terms));
                assert_eq!(calendar.fits(slot, None, capacity, buffers), conflicts.is_empty());
                if conflicts.is_empty() && calendar.slot_of(&key.name()).is_none() {
                    calendar.insert(&key, slot, capacity, buffers);
                    model.0.push((key, slot));
                }
            }
            Step::Move(number, slot) => {
                let key = name(number);
                let conflicts = calendar.conflicts(slot, Some(&key.name()), capacity, buffers);
                let pairs = conflicts.iter().map(|(name, slot)| (name, *slot));
                assert_eq!(shown(pairs), model.conflicts(slot, Some(&key), terms));
                if conflicts.is_empty() && calendar.remove(&key.name()).is_some() {
                    calendar.insert(&key, slot, capacity, buffers);
                    model.0.iter_mut().filter(|(known, _)| *known == key).for_each(|(_, kept)| *kept = slot);
                }
            }
            Step::Cancel(number) => {
                let place = model.0.iter().position(|(key, _)| *key == name(number));
                let expected = place.map(|place| model.0.swap_remove(place).1);
                assert_eq!(calendar.remove(&name(number).name()), expected);
            }
            Step::Rename(from, to) => {
                if calendar.slot_of(&name(from).name()).is_some() && calendar.slot_of(&name(to).name()).is_none() {
                    calendar.rename(&name(from).name(), &name(to));
                    model.0.iter_mut().filter(|(key, _)| *key == name(from)).for_each(|(key, _)| *key = name(to));
                }
            }
            Step::List(from, to) => {
                let all = model.list(from, to);
                assert_eq!(shown(calendar.bookings(from, to)), all);
                // A page continues after every booking, also after one that begins elsewhere or is gone.
                let gone = (instant(50), name(1).name());
                let places = model.0.iter().map(|(key, slot)| (slot.begin(), key.name())).chain([gone]);
                for after in places {
                    let rest = shown(calendar.bookings_after(from, to, &after));
                    let place = (after.0, after.1.text().to_string());
                    let mut expected = all.clone();
                    expected.retain(|(name, slot)| (slot.begin(), name.clone()) > place);
                    assert_eq!(rest, expected, "after {place:?}");
                }
            }
            Step::Copy => copies.push((calendar.clone(), model.clone())),
            Step::Free(search) => {
                let found = calendar.free_slots(Timestamp(0), &search, terms, &zone_of(terms)).expect("a good search");
                assert_eq!(found, model.free(&search, terms));
            }
        }
    }
    copies.push((calendar, model));
    for (calendar, model) in copies {
        assert_eq!(calendar.violations(capacity, buffers), [""; 0]);
        assert_eq!(calendar.len(), model.0.len());
        assert!(model.0.iter().all(|(key, slot)| calendar.slot_of(&key.name()) == Some(*slot)));
        let bytes = stored::append(&calendar, Vec::new());
        assert_eq!(stored::read::<Calendar>(&bytes).expect("reads"), calendar);
    }
}

prop_compose! {
    fn any_terms()(capacity in 1..=3u32, before in 0..=3u64, after in 0..=3u64) -> Terms {
        Terms { capacity, before_ms: before * UNIT, after_ms: after * UNIT, ..Terms::default() }
    }
}

/// The same step, shifted by this much.
fn later(step: Step, by: Timestamp) -> Step {
    let at = |instant: Timestamp| Timestamp(instant.0 + by.0);
    let moved = |slot: Slot| Slot::new(at(slot.begin()), at(slot.end())).expect("a slot");
    match step {
        Step::Book(name, slot) => Step::Book(name, moved(slot)),
        Step::Move(name, slot) => Step::Move(name, moved(slot)),
        Step::List(from, to) => Step::List(at(from), at(to)),
        Step::Free(search) => Step::Free(FreeSearch { from: at(search.from), to: at(search.to), ..search }),
        Step::Cancel(_) | Step::Rename(..) | Step::Copy => step,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(5_000)))]

    #[test]
    fn the_calendar_answers_like_a_plain_list_of_intervals(steps in steps(), terms in any_terms()) {
        run(steps, &terms);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(2_000)))]

    #[test]
    fn the_calendar_with_hours_answers_like_a_plain_list_across_clock_changes(
        steps in steps(),
        terms in any_terms(),
        (hours, begin) in any_hours(),
    ) {
        let steps = steps.into_iter().map(|step| later(step, begin)).collect();
        run(steps, &Terms { hours: Some(hours), ..terms });
    }
}

//! The cost of a booking, in an empty calendar and beside ten thousand bookings of a year, in the calendar itself and in a copy.

use std::{hint::black_box, time::Duration};

use boxoffice_core::{
    calendar::{BookingKey, Buffers, Calendar, FreeSearch, Hours, OpenTime, Slot, Terms, Zone},
    id::{CartId, HoldId, Id, RequestHash},
    time::Timestamp,
};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};

const MINUTE: u64 = 60_000;
const YEAR: u64 = 365 * 24 * 60 * MINUTE;

/// 2026-01-01T00:00Z.
const BEGIN: u64 = 1_767_225_600_000;

fn slot(begin: u64, length: u64) -> Slot {
    Slot::of_length(Timestamp(begin), length).expect("a slot")
}

fn named(number: u64) -> BookingKey {
    BookingKey::Named(Id::new(&format!("booking-{number}")).expect("a good id"))
}

fn held(number: u64) -> BookingKey {
    let cart = CartId(u128::from(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)) << 64);
    BookingKey::Hold(HoldId { cart, request: RequestHash(number), part: 0, attempt: 0 })
}

/// Bookings of half an hour, evenly over a year. Half of them are holds.
fn year_of(count: u64) -> Calendar {
    let mut calendar = Calendar::new();
    for number in 0..count {
        let key = if number % 2 == 0 { named(number) } else { held(number) };
        calendar.insert(&key, slot(BEGIN + number * (YEAR / count), 30 * MINUTE), 1, Buffers::NONE);
    }
    calendar
}

const SIZES: [(u64, &str); 4] =
    [(0, "nothing"), (100, "100 of a year"), (1_000, "1 000 of a year"), (10_000, "10 000 of a year")];

/// A booking in July that fits. It is asked for, written and removed again.
fn booking(criterion: &mut Criterion) {
    for (count, name) in SIZES {
        let mut calendar = year_of(count);
        let wish = slot(BEGIN + YEAR / 2 + 40 * MINUTE, 5 * MINUTE);
        let key = held(77_777);
        criterion.bench_function(&format!("calendar/ask beside {name}"), |bencher| {
            bencher.iter(|| calendar.conflicts(black_box(wish), None, 1, Buffers::NONE));
        });
        criterion.bench_function(&format!("calendar/ask, write, cancel beside {name}"), |bencher| {
            bencher.iter(|| {
                assert!(calendar.conflicts(black_box(wish), None, 1, Buffers::NONE).is_empty());
                calendar.insert(&key, wish, 1, Buffers::NONE);
                calendar.remove(&key.name())
            });
        });
        let terms = Buffers { before_ms: MINUTE, after_ms: MINUTE };
        criterion.bench_function(&format!("calendar/ask of capacity 3 with buffers beside {name}"), |bencher| {
            bencher.iter(|| calendar.conflicts(black_box(wish), None, 3, terms));
        });
    }
}

/// The same in a copy, which copies the leaves that it writes to.
fn copies(criterion: &mut Criterion) {
    for (count, name) in SIZES {
        let calendar = year_of(count);
        let wish = slot(BEGIN + YEAR / 2 + 40 * MINUTE, 5 * MINUTE);
        criterion.bench_function(&format!("calendar/copy of {name}"), |bencher| {
            bencher.iter_batched(|| (), |()| calendar.clone(), BatchSize::SmallInput);
        });
        criterion.bench_function(&format!("calendar/first write to a copy of {name}"), |bencher| {
            bencher.iter_batched_ref(
                || calendar.clone(),
                |copy| copy.insert(&held(77_777), wish, 1, Buffers::NONE),
                BatchSize::SmallInput,
            );
        });
    }
}

/// Searches in a year that is nearly full, which take longest.
fn searches(criterion: &mut Criterion) {
    let calendar = year_of(10_000);
    let hours = || {
        let times = vec![OpenTime { open: 9 * 60, close: 12 * 60 }, OpenTime { open: 13 * 60, close: 18 * 60 }];
        let berlin = Zone::new("Europe/Berlin").expect("a zone");
        Hours::new(berlin, std::array::from_fn(|_| times.clone()), []).expect("good hours")
    };
    let search = FreeSearch {
        from: Timestamp(BEGIN),
        to: Timestamp(BEGIN + YEAR),
        length_ms: 5 * MINUTE,
        count: 10,
        step_ms: Some(5 * MINUTE),
        align_ms: 0,
    };
    let never = FreeSearch { length_ms: 60 * MINUTE, ..search };
    for (name, terms) in [("", Terms::default()), (" with hours", Terms { hours: Some(hours()), ..Terms::default() })] {
        criterion.bench_function(&format!("calendar/10 free slots among 10 000{name}"), |bencher| {
            bencher.iter(|| calendar.free_slots(Timestamp(0), black_box(&search), &terms, &Zone::utc()));
        });
        criterion.bench_function(&format!("calendar/no free slot in a year of 10 000{name}"), |bencher| {
            bencher.iter(|| calendar.free_slots(Timestamp(0), black_box(&never), &terms, &Zone::utc()));
        });
    }
    let hours = hours();
    let wish = slot(BEGIN + YEAR / 2 + 10 * 60 * MINUTE, 30 * MINUTE);
    criterion.bench_function("calendar/hours cover half an hour", |bencher| {
        bencher.iter(|| hours.covers(black_box(wish)));
    });
    criterion.bench_function("calendar/read a zone", |bencher| bencher.iter(|| Zone::new(black_box("Europe/Berlin"))));
    println!("a calendar of 10 000 bookings: {} bytes", calendar.heap_bytes());
}

criterion_group! {
    name = calendar;
    config = Criterion::default().measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(300));
    targets = booking, copies, searches
}
criterion_main!(calendar);

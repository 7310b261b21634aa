//! The cost of filling and searching the directory with 5 000 venues.

use std::{hint::black_box, time::Duration};

use boxoffice_core::{
    directory::{Directory, Listing},
    id::Id,
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const VENUES: i32 = 5_000;

fn venues() -> Vec<(Id, Listing)> {
    let venue = |number: i32| {
        let id = Id::new(&format!("venue-{number}")).expect("a good id");
        let (name, city) = (format!("Theatre number {number}"), format!("City {}", number % 100));
        let position = Some((number * 30_011 % 180_000_000, number * 7_919 % 90_000_000));
        (id, Listing { name: name.into(), city: city.into(), position, zone: None })
    };
    (0..VENUES).map(venue).collect()
}

/// Each put is made to a copy while the original lives, as between an actor and the committed state.
fn filled(venues: &[(Id, Listing)]) -> Directory {
    venues.iter().fold(Directory::new(), |directory, (id, listing)| {
        let mut copy = directory.clone();
        copy.put_venue(id, listing.clone());
        copy
    })
}

fn directory(criterion: &mut Criterion) {
    let venues = venues();
    let mut group = criterion.benchmark_group("directory");
    group.throughput(Throughput::Elements(VENUES as u64));
    group.bench_function("5000 puts, each to a copy", |bencher| bencher.iter(|| filled(&venues)));
    group.finish();

    let full = filled(&venues);
    let mut search = |name: &str, city: Option<&str>, word: Option<&str>, near: Option<(i32, i32)>| {
        criterion.bench_function(&format!("directory/first 20 of 5000, {name}"), |bencher| {
            bencher.iter(|| black_box(full.search_venues(city, word, near, 20, None).expect("a good search")));
        });
    };
    let near = Some((75_000_000, 20_000_000));
    search("by name", None, None, None);
    search("of a city", Some("CITY 7"), None, None);
    search("with a rare word", None, Some("4999"), None);
    search("near", None, None, near);
    search("near, of a city", Some("city 7"), None, near);
    search("near, with a word of all names", None, Some("theatre"), near);
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    targets = directory
}
criterion_main!(benches);

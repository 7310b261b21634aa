//! Compares the directory with a linear search.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use boxoffice_core::{
    answer::VenueEntry,
    command::Title,
    directory::{Directory, Listing, VenueCursor},
    id::Id,
    stored,
};
use proptest::{collection::vec, option, prelude::*, sample::select};

use crate::{
    directory::{id, put},
    random_runs::cases,
};

/// The earth's mean radius, in metres.
const RADIUS_M: f64 = 6_371_008.771_4;

/// The great-circle distance in metres, by the haversine formula.
fn haversine_m(a: (i32, i32), b: (i32, i32)) -> f64 {
    let radians = |position: (i32, i32)| (f64::from(position.0) / 1e6, f64::from(position.1) / 1e6);
    let ((a_lon, a_lat), (b_lon, b_lat)) = (radians(a), radians(b));
    let half = |from: f64, to: f64| ((to - from).to_radians() / 2.0).sin().powi(2);
    let square = half(a_lat, b_lat) + a_lat.to_radians().cos() * b_lat.to_radians().cos() * half(a_lon, b_lon);
    2.0 * RADIUS_M * square.sqrt().min(1.0).asin()
}

/// The tolerance between two distance formulas. Near the antipode neither is exact.
fn tolerance_m(metres: f64) -> f64 {
    if metres > 19_900_000.0 { 1.0 } else { 0.002 }
}

/// A name without case and accents, for the letters of these tests.
fn fold(text: &str) -> String {
    let plain = |letter: char| match letter {
        'é' => "e".to_owned(),
        'ü' => "u".to_owned(),
        'ί' => "ι".to_owned(),
        'ß' => "ss".to_owned(),
        // The dot of a Turkish capital.
        '\u{307}' => String::new(),
        other => other.to_string(),
    };
    text.chars().flat_map(char::to_lowercase).map(plain).collect()
}

/// A deterministic random number, so that the 5 000 venues are always the same.
fn number(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn within(seed: u64, from: i32, to: i32) -> i32 {
    let span = (to - from) as u64 + 1;
    from + (number(seed) % span) as i32
}

/// Half of the venues are in towns, some at the poles and along the antimeridian, the others anywhere.
fn anywhere(seed: u64) -> (i32, i32) {
    let town = |town: u64| (within(town, -179_000_000, 179_000_000), within(town + 500, -85_000_000, 85_000_000));
    let (east, north) = (seed * 10 + 7, seed * 10 + 8);
    match number(seed) % 20 {
        0..10 => {
            let (longitude, latitude) = town(number(seed + 1) % 50);
            (longitude + within(east, -99_999, 99_999), latitude + within(north, -99_999, 99_999))
        }
        10 => (within(east, -180_000_000, 180_000_000), 90_000_000 - within(north, 0, 5) * 1_000),
        11 => (within(east, -180_000_000, 180_000_000), -90_000_000 + within(north, 0, 5) * 1_000),
        12 => (180_000_000 - within(east, 0, 3), within(north, -60_000_000, 60_000_000)),
        13 => (-180_000_000 + within(east, 0, 3), within(north, -60_000_000, 60_000_000)),
        14 => town(number(seed + 1) % 50),
        _ => (within(east, -180_000_000, 180_000_000), within(north, -90_000_000, 90_000_000)),
    }
}

const MANY: u64 = 5_000;

/// The position of each venue.
type Positions = BTreeMap<Id, (i32, i32)>;

static WORLD: LazyLock<(Directory, Positions)> = LazyLock::new(|| {
    let (mut directory, mut positions) = (Directory::new(), BTreeMap::new());
    for number in 0..MANY {
        let (name, position) = (format!("v{number}"), anywhere(number));
        put(&mut directory, &name, &format!("Venue {number}"), &format!("Town {}", number % 40), Some(position));
        positions.insert(id(&name), position);
    }
    (directory, positions)
});

fn position() -> impl Strategy<Value = (i32, i32)> {
    prop_oneof![
        4 => (-180_000_000..=180_000_000, -90_000_000..=90_000_000),
        4 => any::<u32>().prop_map(|seed| anywhere(u64::from(seed) % MANY)),
        // Opposite to a venue.
        1 => any::<u32>().prop_map(|seed| {
            let (longitude, latitude) = anywhere(u64::from(seed) % MANY);
            (if longitude > 0 { longitude - 180_000_000 } else { longitude + 180_000_000 }, -latitude)
        }),
        1 => (select(&[-180_000_000, 0, 180_000_000][..]), select(&[-90_000_000, 0, 90_000_000][..])),
    ]
}

/// Checks that the distances and the order of a page match a linear search.
fn check_distances(near: (i32, i32), found: &[VenueEntry], positions: &BTreeMap<&Id, (i32, i32)>) {
    let mut reckoned: Vec<f64> = positions.values().map(|position| haversine_m(near, *position)).collect();
    reckoned.sort_unstable_by(f64::total_cmp);
    let mut seen = BTreeSet::new();
    for (venue, expected) in found.iter().zip(&reckoned) {
        assert!(seen.insert(&venue.id), "{} was found twice", venue.id);
        let metres = haversine_m(near, positions[&venue.id]);
        let tolerance = tolerance_m(metres);
        assert!((metres - expected).abs() <= tolerance, "{} at {metres} m, not {expected} m", venue.id);
        let listed = venue.distance_m.expect("near a point there is a distance") as f64;
        assert!((metres - listed).abs() <= 0.5 + tolerance, "{} at {metres} m, listed at {listed} m", venue.id);
    }
    for pair in found.windows(2) {
        assert!(pair[0].distance_m <= pair[1].distance_m);
        assert!(pair[0].position != pair[1].position || pair[0].id < pair[1].id, "ties are ordered by id");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(1_000)))]

    #[test]
    fn nearest_search_matches_a_linear_search(near in position(), limit in 1..60u32, town in option::of(0..41u32)) {
        let (directory, positions) = &*WORLD;
        let city = town.map(|town| format!("TOWN {town}"));
        let among: BTreeMap<&Id, (i32, i32)> = positions
            .iter()
            .filter(|(id, _)| town.is_none_or(|town| id.as_str()[1..].parse::<u32>().expect("a number") % 40 == town))
            .map(|(id, position)| (id, *position))
            .collect();
        let page = directory.search_venues(city.as_deref(), None, Some(near), limit, None).expect("a good search");
        prop_assert_eq!(page.venues.len(), among.len().min(limit as usize));
        prop_assert_eq!(page.next.is_some(), among.len() > limit as usize);
        check_distances(near, &page.venues, &among);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Venue(u8, Listing),
    Title(u8, String),
    WriteDownAndRead,
}

const WORDS: &[&str] = &["Kino", "kinopolis", "LUX", "Lux-Haus", "Été", "ÉTÉ", "Ωδείο", "İstanbul", "ß", "a", "A", "B"];

fn name() -> impl Strategy<Value = String> {
    vec(select(WORDS), 1..4).prop_map(|words| words.join(" "))
}

fn small_position() -> impl Strategy<Value = (i32, i32)> {
    // Few positions, so that many venues are equally far.
    (select(&[-180_000_000, -1, 0, 1, 90_000_000, 180_000_000][..]), select(&[-90_000_000, -5, 0, 5, 90_000_000][..]))
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let listing =
        (name(), select(&["Wien", "wien", "WIEN ", "Ürümqi", "ÜRÜMQI", ""][..]), option::of(small_position()))
            .prop_map(|(name, city, position)| Listing { name: name.into(), city: city.into(), position, zone: None });
    let step = prop_oneof![
        12 => (any::<u8>(), listing).prop_map(|(number, listing)| Step::Venue(number, listing)),
        4 => (0..40u8, name()).prop_map(|(number, name)| Step::Title(number, name)),
        1 => Just(Step::WriteDownAndRead),
    ];
    vec(step, 0..most)
}

#[derive(Clone, Debug)]
struct Query {
    city: Option<&'static str>,
    name: Option<String>,
    near: Option<(i32, i32)>,
    limit: u32,
}

fn query() -> impl Strategy<Value = Query> {
    let part = prop_oneof![
        select(&["kin", "OPOLIS", "ux", "é", "ω", "i\u{307}st", "ß", "a b", "- h", "none"][..]).prop_map(str::to_owned),
        name()
    ];
    let city = select(&["WIEN", "wien ", "ürümqi", "", "elsewhere"][..]);
    (option::of(city), option::of(part), option::of(small_position()), 1..40u32)
        .prop_map(|(city, name, near, limit)| Query { city, name, near, limit })
}

#[derive(Default)]
struct Model {
    venues: BTreeMap<Id, Listing>,
    titles: BTreeMap<Id, String>,
}

fn has_words(name: &str, query: Option<&String>) -> bool {
    query.is_none_or(|query| query.split_whitespace().all(|word| fold(name).contains(&fold(word))))
}

impl Model {
    /// The matching venues, in order of name if there is no point.
    fn venues(&self, query: &Query) -> Vec<(&Id, &Listing)> {
        let fits = |(_, listing): &(&Id, &Listing)| {
            query.city.is_none_or(|city| fold(city) == fold(&listing.city))
                && has_words(&listing.name, query.name.as_ref())
                && (query.near.is_none() || listing.position.is_some())
        };
        let mut found: Vec<_> = self.venues.iter().filter(fits).collect();
        found.sort_by_key(|(id, listing)| (fold(&listing.name), *id));
        found
    }

    fn titles(&self, query: &Query) -> Vec<&Id> {
        let mut found: Vec<_> = self.titles.iter().filter(|(_, name)| has_words(name, query.name.as_ref())).collect();
        found.sort_by_key(|(id, name)| (fold(name), *id));
        found.into_iter().map(|(id, _)| id).collect()
    }
}

fn title(name: &str) -> Title {
    Title { name: name.into(), director: "".into(), cast: vec![], comments: "".into(), duration_ms: None }
}

fn play(directory: &mut Directory, model: &mut Model, steps: Vec<Step>) {
    for step in steps {
        match step {
            Step::Venue(number, listing) => {
                let venue = id(&format!("v{number}"));
                // A reader still has a copy, which the write must not change.
                let copy = directory.clone();
                let before = copy.search_venues(None, None, Some((0, 0)), 1_000, None);
                directory.put_venue(&venue, listing.clone());
                assert_eq!(copy.search_venues(None, None, Some((0, 0)), 1_000, None), before);
                model.venues.insert(venue, listing);
            }
            Step::Title(number, name) => {
                let number = id(&format!("t{number}"));
                directory.put_title(&number, title(&name));
                model.titles.insert(number, name);
            }
            Step::WriteDownAndRead => {
                let bytes = stored::append(directory, Vec::new());
                let read: Directory = stored::read(&bytes).expect("a directory can be decoded");
                assert_eq!(read, *directory);
                *directory = read;
            }
        }
    }
}

fn all_pages(directory: &Directory, query: &Query, mut between: impl FnMut() -> Option<Directory>) -> Vec<VenueEntry> {
    let mut directory = directory.clone();
    let (mut listed, mut after): (_, Option<VenueCursor>) = (Vec::new(), None);
    loop {
        let name = query.name.as_deref();
        let page =
            directory.search_venues(query.city, name, query.near, query.limit, after.as_ref()).expect("a good search");
        let full = page.venues.len() == query.limit as usize;
        listed.extend(page.venues);
        let Some(next) = page.next else { return listed };
        assert!(full, "a page is only short at the end");
        after = Some(VenueCursor::parse(&next).expect("a cursor of a page"));
        directory = between().unwrap_or(directory);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(150)))]

    #[test]
    fn all_pages_together_have_every_entry_once(steps in steps(300), queries in vec(query(), 12)) {
        let (mut directory, mut model) = (Directory::new(), Model::default());
        play(&mut directory, &mut model, steps);
        prop_assert_eq!((directory.venues(), directory.titles()), (model.venues.len(), model.titles.len()));
        for query in &queries {
            let expected = model.venues(query);
            let listed = all_pages(&directory, query, || None);
            prop_assert_eq!(listed.len(), expected.len());
            if let Some(near) = query.near {
                let place = |listing: &Listing| listing.position.expect("a search by position lists positions");
                let among = expected.iter().map(|(id, listing)| (*id, place(listing))).collect();
                check_distances(near, &listed, &among);
            } else {
                let order: Vec<&Id> = listed.iter().map(|venue| &venue.id).collect();
                prop_assert_eq!(order, expected.iter().map(|(id, _)| *id).collect::<Vec<_>>());
            }
            for venue in &listed {
                let VenueEntry { id, name, city, position, distance_m: _, zone: _ } = venue.clone();
                prop_assert_eq!(&model.venues[&id], &Listing { name, city, position, zone: None });
            }
            let (mut titles, mut after) = (Vec::new(), None);
            loop {
                let page = directory.search_titles(query.name.as_deref(), query.limit, after.as_ref()).expect("good");
                titles.extend(page.titles.into_iter().map(|title| title.id));
                after = page.next;
                if after.is_none() { break }
            }
            prop_assert_eq!(titles.iter().collect::<Vec<_>>(), model.titles(query));
        }
        for city in ["wien", "WIEN ", "Ürümqi", "", "nowhere"] {
            let there = model.venues.iter().filter(|(_, listing)| fold(&listing.city) == fold(city));
            prop_assert_eq!(directory.venues_of_city(city), there.map(|(id, _)| id.clone()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn new_venues_between_pages_move_no_others(first in steps(200), query in query(), later in vec(steps(20), 1..4)) {
        let (mut directory, mut model) = (Directory::new(), Model::default());
        play(&mut directory, &mut model, first);
        let before: BTreeSet<Id> = model.venues(&query).into_iter().map(|(id, _)| id.clone()).collect();
        let mut now = directory.clone();
        let mut later = later.into_iter().enumerate();
        let listed = all_pages(&directory, &Query { limit: query.limit.min(7), ..query.clone() }, || {
            let (round, steps) = later.next()?;
            for (number, step) in steps.into_iter().enumerate() {
                // New venues only, because a moved venue may be listed at both positions.
                if let Step::Venue(_, listing) = step {
                    now.put_venue(&id(&format!("new-{round}-{number}")), listing);
                }
            }
            Some(now.clone())
        });
        let ids: BTreeSet<&Id> = listed.iter().map(|venue| &venue.id).collect();
        prop_assert_eq!(ids.len(), listed.len(), "no venue is listed twice");
        let old: BTreeSet<Id> = ids.into_iter().filter(|id| id.as_str().starts_with('v')).cloned().collect();
        prop_assert_eq!(old, before, "no venue is left out");
        let key = |venue: &VenueEntry| (venue.distance_m, fold(&venue.name), venue.id.clone());
        if query.near.is_none() {
            prop_assert!(listed.windows(2).all(|pair| key(&pair[0]) < key(&pair[1])));
        } else {
            prop_assert!(listed.windows(2).all(|pair| pair[0].distance_m <= pair[1].distance_m));
        }
    }
}

//! Puts, searches, pages and refusals.

use std::fmt::Write;

use boxoffice_core::{
    command::Title,
    directory::{Directory, VenueCursor, check_position},
};
use expect_test::{Expect, expect};

use crate::directory::{id, put};

/// A position in millionths of a degree.
fn at(longitude: f64, latitude: f64) -> Option<(i32, i32)> {
    Some(((longitude * 1e6) as i32, (latitude * 1e6) as i32))
}

/// Positions are those of the cities' centres, to a tenth of a degree.
fn europe() -> Directory {
    let mut directory = Directory::new();
    put(&mut directory, "lux", "Lux am Dom", "Köln", at(7.0, 50.9));
    put(&mut directory, "odeon", "ODEON", "Köln", at(7.0, 50.9));
    put(&mut directory, "cinedom", "Cinedom im MediaPark", "KÖLN", at(6.9, 50.9));
    put(&mut directory, "odeon-2", "Odeon", "Bonn", at(7.1, 50.7));
    put(&mut directory, "opera", "Opéra Garnier", "Paris", at(2.3, 48.9));
    put(&mut directory, "odeion", "Ωδείον Ηρώδου του Αττικού", "Αθήνα", at(23.7, 38.0));
    put(&mut directory, "tour", "Wanderkino", "", None);
    directory
}

struct Search<'a>(Option<&'a str>, Option<&'a str>, Option<(i32, i32)>);

/// All pages of a search, each as a list and its cursor.
fn listing(directory: &Directory, Search(city, name, near): Search<'_>, limit: u32) -> String {
    let (mut listing, mut after) = (String::new(), None);
    loop {
        let page = match directory.search_venues(city, name, near, limit, after.as_ref()) {
            Ok(page) => page,
            Err(reason) => return format!("refused: {reason}\n"),
        };
        for venue in page.venues {
            write!(listing, "{}: {} ({})", venue.id, venue.name, venue.city).expect("writes to a string succeed");
            venue
                .distance_m
                .iter()
                .for_each(|metres| write!(listing, " {metres} m").expect("writes to a string succeed"));
            listing.push('\n');
        }
        let Some(text) = page.next else { return listing };
        writeln!(listing, "-- {text}").expect("writes to a string succeed");
        after = Some(VenueCursor::parse(&text).expect("a cursor can be parsed"));
    }
}

fn check(directory: &Directory, city: Option<&str>, name: Option<&str>, near: Option<(i32, i32)>, expect: Expect) {
    expect.assert_eq(&listing(directory, Search(city, name, near), 3));
}

#[test]
fn venues_by_city_in_any_case() {
    let directory = europe();
    let cologne = expect![[r#"
        cinedom: Cinedom im MediaPark (KÖLN)
        lux: Lux am Dom (Köln)
        odeon: ODEON (Köln)
    "#]];
    check(&directory, Some("köln"), None, None, cologne);
    check(&directory, Some("kö"), None, None, expect![""]);
    check(
        &directory,
        Some("ΑΘΉΝΑ"),
        None,
        None,
        expect![[r#"
            odeion: Ωδείον Ηρώδου του Αττικού (Αθήνα)
        "#]],
    );
    check(
        &directory,
        Some(""),
        None,
        None,
        expect![[r#"
            tour: Wanderkino ()
        "#]],
    );
    assert_eq!(directory.venues_of_city("KÖLN"), [id("cinedom"), id("lux"), id("odeon")]);
    assert_eq!(directory.venues_of_city("Kölnisch"), []);
}

#[test]
fn names_are_looked_for_word_by_word_and_in_part() {
    let directory = europe();
    check(
        &directory,
        None,
        Some("odeon"),
        None,
        expect![[r#"
            odeon: ODEON (Köln)
            odeon-2: Odeon (Bonn)
        "#]],
    );
    check(
        &directory,
        Some("bonn"),
        Some("deo"),
        None,
        expect![[r#"
            odeon-2: Odeon (Bonn)
        "#]],
    );
    // In any order, and in the middle of a word.
    check(
        &directory,
        None,
        Some("  park   CINE "),
        None,
        expect![[r#"
            cinedom: Cinedom im MediaPark (KÖLN)
        "#]],
    );
    check(&directory, None, Some("cine lux"), None, expect![""]);
    check(
        &directory,
        None,
        Some("opÉra"),
        None,
        expect![[r#"
            opera: Opéra Garnier (Paris)
        "#]],
    );
    // Without the accent, and with it in two characters.
    for name in ["opera", "ope\u{301}ra"] {
        check(
            &directory,
            None,
            Some(name),
            None,
            expect![[r#"
                opera: Opéra Garnier (Paris)
            "#]],
        );
    }
    assert_eq!(directory.venues_of_city("koeln"), directory.venues_of_city("Köln"));
    assert_eq!(directory.venues_of_city("koln").len(), 3);
}

#[test]
fn every_form_of_sigma_matches() {
    let mut directory = Directory::new();
    put(&mut directory, "a", "ΟΔΟΣ", "x", None);
    put(&mut directory, "b", "Οδος", "x", None);
    let both = expect![[r#"
        a: ΟΔΟΣ (x)
        b: Οδος (x)
    "#]];
    check(&directory, None, Some("οδοσ"), None, both);
    let listing = |name| listing(&directory, Search(None, Some(name), None), 3);
    assert_eq!(listing("δος"), listing("οδοσ"));
}

#[test]
fn all_venues_page_by_page() {
    check(
        &europe(),
        None,
        None,
        None,
        expect![[r#"
            cinedom: Cinedom im MediaPark (KÖLN)
            lux: Lux am Dom (Köln)
            odeon: ODEON (Köln)
            -- name odeon ODEON
            odeon-2: Odeon (Bonn)
            opera: Opéra Garnier (Paris)
            tour: Wanderkino ()
            -- name tour Wanderkino
            odeion: Ωδείον Ηρώδου του Αττικού (Αθήνα)
        "#]],
    );
}

#[test]
fn nearest_first_without_venues_that_have_no_position() {
    let directory = europe();
    let bonn = at(7.1, 50.7);
    check(
        &directory,
        None,
        None,
        bonn,
        expect![[r#"
            odeon-2: Odeon (Bonn) 0 m
            lux: Lux am Dom (Köln) 23323 m
            odeon: ODEON (Köln) 23323 m
            -- near 23323042 odeon
            cinedom: Cinedom im MediaPark (KÖLN) 26308 m
            opera: Opéra Garnier (Paris) 398312 m
            odeion: Ωδείον Ηρώδου του Αττικού (Αθήνα) 1924273 m
        "#]],
    );
    check(
        &directory,
        Some("KÖLN"),
        Some("m"),
        bonn,
        expect![[r#"
            lux: Lux am Dom (Köln) 23323 m
            cinedom: Cinedom im MediaPark (KÖLN) 26308 m
        "#]],
    );
    check(&directory, None, Some("wanderkino"), bonn, expect![""]);
}

#[test]
fn searches_cross_the_antimeridian() {
    let mut directory = Directory::new();
    put(&mut directory, "west", "Two degrees west of it", "x", at(178.0, 0.0));
    put(&mut directory, "east", "One degree east of it", "x", at(-179.0, 0.0));
    put(&mut directory, "on-it", "On it", "x", at(180.0, 0.0));
    put(&mut directory, "also-on-it", "On it, from the other side", "x", at(-180.0, 0.0));
    let order = expect![[r#"
        also-on-it: On it, from the other side (x) 0 m
        on-it: On it (x) 0 m
        east: One degree east of it (x) 111195 m
        -- near 111195080 east
        west: Two degrees west of it (x) 222390 m
    "#]];
    check(&directory, None, None, at(180.0, 0.0), order);
    let listing = |near| listing(&directory, Search(None, None, near), 3);
    assert_eq!(listing(at(-180.0, 0.0)), listing(at(180.0, 0.0)));
}

#[test]
fn a_pole_is_one_point() {
    let mut directory = Directory::new();
    put(&mut directory, "b", "The pole", "x", at(90.0, 90.0));
    put(&mut directory, "a", "The pole again", "x", at(-77.0, 90.0));
    put(&mut directory, "over", "Beyond the pole", "x", at(-170.0, 89.0));
    put(&mut directory, "here", "Before the pole", "x", at(12.0, 88.5));
    put(&mut directory, "south", "The other pole", "x", at(10.0, -90.0));
    let over = expect![[r#"
        a: The pole again (x) 55598 m
        b: The pole (x) 55598 m
        here: Before the pole (x) 111246 m
        -- near 111245867 here
        over: Beyond the pole (x) 166793 m
        south: The other pole (x) 19959517 m
    "#]];
    check(&directory, None, None, at(10.0, 89.5), over);
    check(
        &directory,
        None,
        Some("other"),
        at(0.0, 90.0),
        expect![[r#"
            south: The other pole (x) 20015114 m
        "#]],
    );
}

#[test]
fn a_venue_that_moves_is_found_at_its_new_place() {
    let mut directory = europe();
    put(&mut directory, "odeon", "Metropol", "Bonn", at(7.1, 50.7));
    put(&mut directory, "odeon-2", "Odeon", "Bonn", None);
    check(
        &directory,
        Some("bonn"),
        None,
        None,
        expect![[r#"
            odeon: Metropol (Bonn)
            odeon-2: Odeon (Bonn)
        "#]],
    );
    check(
        &directory,
        Some("bonn"),
        None,
        at(7.1, 50.7),
        expect![[r#"
            odeon: Metropol (Bonn) 0 m
        "#]],
    );
    check(
        &directory,
        None,
        Some("odeon"),
        None,
        expect![[r#"
            odeon-2: Odeon (Bonn)
        "#]],
    );
    assert_eq!((directory.version(), directory.venues(), directory.titles()), (9, 7, 0));
    let odeon = directory.venue(&id("odeon")).expect("a venue");
    assert_eq!((odeon.name.as_str(), odeon.city.as_str()), ("Metropol", "Bonn"));
    assert_eq!(directory.venue(&id("unknown")), None);
}

#[test]
fn a_copy_stays_as_it_was() {
    let mut directory = europe();
    let copy = directory.clone();
    assert_eq!(copy, directory);
    put(&mut directory, "odeon", "Metropol", "Bonn", None);
    assert_ne!(copy, directory);
    assert_eq!(copy, europe());
    assert_eq!(
        listing(&copy, Search(None, Some("odeon"), None), 9),
        listing(&europe(), Search(None, Some("odeon"), None), 9)
    );
}

#[test]
fn bad_searches_are_refused_by_name() {
    let directory = europe();
    let refused = |city, name, near, limit, after: Option<&VenueCursor>| {
        directory.search_venues(city, name, near, limit, after).expect_err("a bad search")
    };
    let by_name = VenueCursor::Name { name: "odeon".into(), id: id("odeon") };
    let by_distance = VenueCursor::Near { distance_mm: 5, id: id("odeon") };
    assert_eq!(refused(None, Some(""), None, 1, None), "the name looked for is empty");
    assert_eq!(refused(Some("Köln"), Some(" \t "), None, 1, None), "the name looked for is empty");
    for (near, reason) in [
        ((180_000_001, 0), "longitude 180000001 is not within 180000000 millionths of a degree"),
        ((i32::MIN, 0), "longitude -2147483648 is not within 180000000 millionths of a degree"),
        ((0, 90_000_001), "latitude 90000001 is not within 90000000 millionths of a degree"),
        ((0, i32::MIN), "latitude -2147483648 is not within 90000000 millionths of a degree"),
    ] {
        assert_eq!(refused(None, None, Some(near), 1, None), reason);
        assert_eq!(refused(None, None, Some(near), 1, Some(&by_distance)), reason);
        assert_eq!(check_position(near), Err(reason.into()));
    }
    assert_eq!(refused(None, None, None, 1, Some(&by_distance)), "the cursor is of another search");
    assert_eq!(refused(None, None, Some((0, 0)), 1, Some(&by_name)), "the cursor is of another search");
    for text in
        ["", "name", "name a", "name ! x", "near 1", "near -1 a", "near 1 a b", "near x a", "far 1 a", "near  a"]
    {
        assert_eq!(VenueCursor::parse(text), Err("the cursor is not that of a search".into()), "{text}");
    }
    assert_eq!(directory.search_titles(Some(" "), 1, None), Err("the name looked for is empty".into()));
}

fn title(name: &str) -> Title {
    Title {
        name: name.into(),
        director: "Agnès Varda".into(),
        cast: vec!["Corinne Marchand".into()],
        comments: "".into(),
        duration_ms: Some(5_400_000),
    }
}

#[test]
fn titles_by_name_page_by_page() {
    let mut directory = Directory::new();
    for (number, name) in ["Das Boot", "das boot", "Bootmen", "Cléo de 5 à 7", "ÉCLAIR", "Le Boot"].iter().enumerate()
    {
        directory.put_title(&id(&format!("t{number}")), title(name));
    }
    directory.put_title(&id("t2"), title("Schiff"));
    let listing = |name| {
        let (mut listing, mut after) = (String::new(), None);
        loop {
            let page = directory.search_titles(name, 2, after.as_ref()).expect("a good search");
            for found in page.titles {
                writeln!(listing, "{}: {}", found.id, found.title.name).expect("writes to a string succeed");
            }
            after = page.next;
            let Some(next) = &after else { return listing };
            writeln!(listing, "-- {} {}", next.1, next.0).expect("writes to a string succeed");
        }
    };
    expect![[r#"
        t3: Cléo de 5 à 7
        t0: Das Boot
        -- t0 Das Boot
        t1: das boot
        t4: ÉCLAIR
        -- t4 ÉCLAIR
        t5: Le Boot
        t2: Schiff
    "#]]
    .assert_eq(&listing(None));
    expect![[r#"
        t0: Das Boot
        t1: das boot
        -- t1 das boot
        t5: Le Boot
    "#]]
    .assert_eq(&listing(Some("BOOT")));
    expect![[r#"
        t3: Cléo de 5 à 7
        t4: ÉCLAIR
    "#]]
    .assert_eq(&listing(Some("cl")));
    assert_eq!(listing(Some("bootmen")), "");
    assert_eq!((directory.version(), directory.titles()), (7, 6));
    assert_eq!(directory.title(&id("t2")), Some(&title("Schiff")));
    assert_eq!(directory.title(&id("t9")), None);
}

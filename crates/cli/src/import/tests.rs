use std::{fs, path::Path};

use boxoffice_core::{money::Currency, time::Timestamp};
use expect_test::{Expect, expect};

use super::{files::price, json, plan};
use crate::{
    draw::{DrawOptions, Plan, amount, draw},
    local_time::{date_and_time_in, zone_or_utc},
};

fn check_refused(read: Result<impl std::fmt::Debug, String>, words: Expect) {
    words.assert_eq(&read.expect_err("an invalid input"));
}

fn with_session(session: &str) -> String {
    format!(
        r#"{{"venues": [{{"id": "royal", "name": "The Royal",
  "halls": [{{"id": "main", "layout": {{"rows": 2, "seats": 3}}}}],
  "sessions": [{session}]}}]}}"#
    )
}

/// The hall of a spreadsheet.
fn rows(text: &str) -> std::sync::Arc<boxoffice_core::layout::Layout> {
    boxoffice_seating::read_seats(text.as_bytes()).expect("a hall").seating.layout
}

/// The map of a layout with all seats free.
fn drawn(layout: std::sync::Arc<boxoffice_core::layout::Layout>) -> String {
    let states = vec![boxoffice_core::seat::SeatState::Free; layout.seats() as usize];
    let plan = Plan { layout, prices: Vec::new(), states, own: Default::default() };
    draw(&plan, &DrawOptions { colours: false, columns: 100 }).join("\n") + "\n"
}

/// Otherwise an import of one would change what another one made.
#[test]
fn examples_that_name_the_same_thing_agree() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/examples"));
    let mut seen = std::collections::BTreeMap::<String, String>::new();
    for entry in fs::read_dir(folder).expect("the examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let plan = json::read(&fs::read_to_string(&path).expect("an example")).expect("it is valid");
            let titles = plan.titles.iter().map(|(id, title)| (format!("title {id}"), format!("{title:?}")));
            let products = plan.products.iter().map(|(id, details)| (format!("product {id}"), format!("{details:?}")));
            let resources =
                plan.resources.iter().map(|(id, details)| (format!("resource {id}"), format!("{details:?}")));
            let venues =
                plan.venues.iter().map(|venue| (format!("venue {}", venue.id), format!("{:?}", venue.details)));
            for (thing, details) in titles.chain(products).chain(resources).chain(venues) {
                let first = seen.entry(thing.clone()).or_insert_with(|| details.clone());
                assert_eq!(*first, details, "{thing} of {}", path.display());
            }
        }
    }
    assert!(seen.len() > 5, "{seen:?}");
}

#[test]
fn the_examples_are_valid() {
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/examples"));
    let royal = fs::read_to_string(examples.join("royal.json")).expect("the example is there");
    let venues = json::read(&royal).expect("a valid example").venues;
    plan::check(&venues).expect("the example is consistent");
    let now = Timestamp(1_798_140_605_123);
    let mut text = String::new();
    for venue in &venues {
        text += &format!("{} {} {}\n", venue.id, venue.details.name, venue.details.city);
        for hall in &venue.halls {
            text += &format!("{} {}\n{}\n", hall.id, hall.name, drawn(hall.layout.clone()));
        }
        for session in &venue.sessions {
            let hall = venue.halls.iter().find(|hall| hall.id == session.hall).expect("its hall");
            let prices = session.prices_in(&hall.layout).expect("prices of all categories");
            let prices: Vec<String> =
                prices.iter().map(|(category, price)| format!("{category} {}", amount(*price))).collect();
            let zone = zone_or_utc(venue.details.zone.as_deref());
            let at = date_and_time_in(&zone, session.starts_at.after(now, &zone).expect("not too far"));
            text += &format!("{} in {} at {at}: {}\n", session.id, session.hall, prices.join(", "));
        }
    }
    expect![[r#"
        royal The Royal Copenhagen
        main Main stage
                                 stage
        A   1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16
        B   1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16
        C   1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16
        D   1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16
        E   1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16

        ▒ held   █ sold   × blocked
        standard: 80 free

        old-house The old house
                              stage
        — stalls —
        1                      1                       premium
        2                1  2     3  4                 premium
        3             1  2  3     4  5  6              stalls
        4          1  2  3  4     5  6  7  8           stalls
        5       1  2  3  4  5     6  7  8  9 10        stalls
        6   W1     1  2  3  4     5  6  7  8    W2     stalls, accessible W1 W2
        — balcony —
        1   1  2  3  4     5  6  7  8     9 10 11 12   balcony
        2             2  4  6  8 10 12 14              balcony

        ▒ held   █ sold   × blocked
        premium: 5 free
        stalls: 34 free
        balcony: 19 free

        hamlet-tonight in main at 2026-12-25 19:30 Europe/Copenhagen: standard 10.00 EUR
        hamlet-matinee in main at 2026-12-26 15:00 Europe/Copenhagen: standard 8.00 EUR
        tempest-tonight in old-house at 2026-12-25 20:00 Europe/Copenhagen: balcony 7.00 EUR, premium 25.00 EUR, stalls 15.00 EUR
    "#]]
    .assert_eq(&text);
    let studio = fs::read_to_string(examples.join("studio.csv")).expect("the example is there");
    expect![[r#"
                           stage
          A         1   2  3  4  5  6           front
          B      1  2   3  4  5  6  7    8      front
          C   1  2  3   4  5  6  7  8    9 10   back, accessible 1 10
        — gallery —
        Box            1  2     3  4            box

        ▒ held   █ sold   × blocked
        front: 14 free
        back: 10 free
        box: 4 free
    "#]]
    .assert_eq(&drawn(rows(&studio)));
}

#[test]
fn mistakes_in_json_are_named_with_their_place() {
    let session = r#"{"id": "hamlet", "hall": "main", "title": "hamlet", "starts_at": "+1d 19:30", "ends_at": "+3h",
    "prices": {"standard": 1000}}"#;
    check_refused(
        json::read(&with_session(session)),
        expect!["session hamlet: a price is a plain number, but the file has no `currency`; add one"],
    );
    check_refused(
        json::read(&with_session(&session.replace("+1d 19:30", "tomorrow"))),
        expect![[
            r#"line 3, column 90: "tomorrow" is no time; write RFC 3339 like 2026-12-24T19:30:00Z, the venue's own time like 2026-12-24T19:30, or from now like "+1d 19:30" or "+90m""#
        ]],
    );
    check_refused(
        json::read(&with_session(&session.replace("\"hall\"", "\"hal\""))),
        expect![
            "line 3, column 37: unknown field `hal`, expected one of `about`, `id`, `hall`, `title`, `starts_at`, `ends_at`, `prices`, `areas`, `hold_ttl_ms`, `limits`, `comments`, `sells_after_begin`, `no_single_seats`, `min_party`, `price_types`, `offers`, `counters`, `allotments`"
        ],
    );
    check_refused(
        json::read(&with_session(&session.replace("\"title\": \"hamlet\", ", ""))),
        expect!["line 4, column 33: missing field `title`"],
    );
    check_refused(
        json::read(&with_session(&session.replace("\"id\": \"hamlet\"", "\"id\": \"Ham let\""))),
        expect!["line 3, column 31: `Ham let` is not an id (1 to 64 of A-Z a-z 0-9 . _ : -)"],
    );
    check_refused(
        json::read(&with_session(&session.replace("1000", "10.5"))),
        expect![[
            r#"line 4, column 31: invalid type: floating point `10.5`, expected a price in minor units, like 1000 or {"amount": 1000, "currency": "EUR"}"#
        ]],
    );
    check_refused(
        json::read(&with_session(&session.replace("1000", "-1"))),
        expect![[
            r#"line 4, column 29: invalid type: integer `-1`, expected a price in minor units, like 1000 or {"amount": 1000, "currency": "EUR"}"#
        ]],
    );
    check_refused(
        json::read(&with_session(&session.replace("1000}", "1000, \"standard\": 2}"))),
        expect![[r#"line 4, column 43: "standard" has two prices; leave one out"#]],
    );
    check_refused(json::read("{\"venues\": [\n{\"id\":"), expect!["line 2, column 6: EOF while parsing a value"]);
    check_refused(json::read(""), expect!["line 1, column 0: EOF while parsing a value"]);
    let hall = r#"{"venues": [{"id": "v", "name": "V", "halls": [{"id": "h",
  "layout": {"rows": [{"label": "A", "count": 3}, {"label": "A", "count": 3}]}}]}]}"#;
    check_refused(
        json::read(hall),
        expect!["line 2, column 79: row 1 is called A like another row of its section; call it something else"],
    );
    check_refused(
        json::read(&hall.replace("\"count\": 3", "\"cuont\": 3")),
        expect!["line 2, column 79: row A: a row has one of `count`, `seats` and `runs`"],
    );
}

#[test]
fn repeated_ids_and_missing_prices_are_named() {
    let session = r#"{"id": "hamlet", "hall": "main", "title": "hamlet", "starts_at": "+1d 19:30", "ends_at": "+3h",
    "prices": {"standard": {"amount": 1000, "currency": "EUR"}}}"#;
    let venues = json::read(&with_session(&format!("{session}, {session}"))).expect("each entry is valid").venues;
    check_refused(plan::check(&venues), expect!["session hamlet is there twice; call one of them something else"]);
    let hall = &venues[0].halls[0];
    let mut twice = venues.clone();
    twice[0].sessions.clear();
    twice[0].halls.push(hall.clone());
    check_refused(plan::check(&twice), expect!["venue royal: hall main is there twice; leave one out"]);
    twice.push(twice[0].clone());
    twice[0].halls.pop();
    check_refused(
        plan::check(&twice),
        expect!["venue royal is there twice; give it one entry with all its halls and sessions"],
    );
    let mut other = venues[0].sessions[0].clone();
    other.prices.clear();
    check_refused(
        other.prices_in(&hall.layout),
        expect![[r#"category standard has no price; give it one, or one to "*""#]],
    );
    other.prices = vec![(boxoffice_core::id::Id::new("premium").expect("an id"), venues[0].sessions[0].prices[0].1)];
    check_refused(other.prices_in(&hall.layout), expect!["hall main has no category premium; it has standard"]);
}

#[test]
fn rows_make_a_hall_with_gaps_sections_and_wheelchair_places() {
    let text = "row,seat,category,section,accessible\nA,1,standard,stalls,\nA,2,standard,stalls,\nA,,,stalls,\nA,3,premium,stalls,yes\n\
                B,1,standard,stalls,\nB,2,standard,stalls,no\nA,1,cheap,balcony,\n";
    expect![[r#"
               stage
        — stalls —
        A   1  2     3   standard 1–2, premium 3, accessible 3
        B      1  2      standard
        — balcony —
        A       1        cheap

        ▒ held   █ sold   × blocked
        standard: 4 free
        premium: 1 free
        cheap: 1 free
    "#]]
    .assert_eq(&drawn(rows(text)));
    // Without a header the columns have the default order. Quotes and the order of rows do not matter.
    let text = "A,1\nB,\"1\",\"standard\"\nA,2\r\n";
    expect![[r#"
            stage
        A   1  2
        B    1

        ▒ held   █ sold   × blocked
        standard: 3 free
    "#]]
    .assert_eq(&drawn(rows(text)));
}

#[test]
fn prices_are_read_from_the_command_line() {
    let euro = Currency::new("EUR").expect("a currency");
    let (category, money) = price("standard=1000", euro).expect("a price");
    assert_eq!((category.expect("a category").as_str(), amount(money).as_str()), ("standard", "10.00 EUR"));
    assert_eq!(price("*=700", euro).expect("a price").0, None);
    for wrong in ["standard", "standard=", "standard=-1", "=1000", "stan dard=1", "standard=10.5"] {
        assert!(price(wrong, euro).expect_err(wrong).contains("CATEGORY=AMOUNT"));
    }
}

/// The times of offers and allotments are read before the rest of them.
#[test]
fn a_key_of_an_offer_is_there_once() {
    let globe = include_str!("../../../../config/examples/globe.json");
    for (key, twice) in
        [("\"desk\": true", "`desk`"), ("\"release_at\": ", "`release_at`"), ("\"id\": \"web\"", "`id`")]
    {
        let place = globe.find(key).unwrap_or_else(|| panic!("the example has {key}"));
        let end = place + globe[place..].find([',', '}']).expect("an end");
        let text = format!("{}, {}", &globe[..end], &globe[place..]);
        let why = json::read(&text).expect_err("a key is there twice");
        assert!(why.contains(&format!("{twice} is there twice")) && why.starts_with("line "), "{why}");
    }
}

#[test]
fn an_example_has_offers() {
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/examples"));
    let globe = fs::read_to_string(examples.join("globe.json")).expect("the example is there");
    let venues = json::read(&globe).expect("a valid example").venues;
    plan::check(&venues).expect("the example is consistent");
    let (hall, session) = (&venues[0].halls[0], &venues[0].sessions[0]);
    assert_eq!((hall.layout.seats(), hall.layout.categories().len(), session.areas[0].capacity), (1_200, 4, 300));
    let offering = &session.offering;
    let types: Vec<&str> = offering.price_types.iter().map(|of| of.id.as_str()).collect();
    assert_eq!(types, ["adult", "under26", "carer"]);
    let counters: Vec<(&str, u32)> = offering.counters.iter().map(|of| (of.id.as_str(), of.max)).collect();
    assert_eq!(counters, [("under26", 100), ("early", 200)]);
    assert_eq!(offering.offers.iter().filter(|offer| offer.desk).count(), 3);
    let kept: Vec<(&str, usize)> = offering.allotments.iter().map(|of| (of.id.as_str(), of.seats.len())).collect();
    assert_eq!(kept, [("press", 8), ("house", 60)]);
    // Every offer counts people under 26.
    let young = |offer: &&boxoffice_core::command::Offer| offer.types.iter().any(|of| of.as_str() == "under26");
    let counted: Vec<&str> =
        offering.offers.iter().filter(young).flat_map(|offer| &offer.counters).map(|of| of.as_str()).collect();
    assert_eq!(counted, ["under26"; 3]);
    assert_eq!((session.no_single_seats, session.min_party), (false, None));
    let strict = globe.replace("\"price_types\": [", "\"no_single_seats\": true, \"min_party\": 2, \"price_types\": [");
    let strict = json::read(&strict).expect("both are read").venues;
    let session = &strict[0].sessions[0];
    assert_eq!((session.no_single_seats, session.min_party), (true, Some(2)));
    let wrong = globe.replace("\"rate_off\": 2000", "\"rate_off\": 2000, \"set_price\": 1");
    let why = json::read(&wrong).expect_err("two changes of the price");
    assert!(why.contains("an offer has one of `set_price`, `amount_off` and `rate_off`"), "{why}");
}

/// The times of the example, by the clocks of the house. The first session starts on the day on which the clocks go back.
#[test]
fn the_sale_of_the_example_opens_and_ends_by_its_start() {
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/examples"));
    let globe = fs::read_to_string(examples.join("globe.json")).expect("the example is there");
    let venues = json::read(&globe).expect("a valid example").venues;
    let zone = zone_or_utc(venues[0].details.zone.as_deref());
    let mut text = String::new();
    for session in &venues[0].sessions {
        let starts_at = session.starts_at.after(Timestamp(1_790_340_605_123), &zone).expect("not too far");
        let offering = session.offering_at(starts_at, &zone).expect("its times exist");
        let at = |at: Option<Timestamp>| at.map_or("-".into(), |at| date_and_time_in(&zone, at));
        text += &format!("{} {}\n", session.id, at(Some(starts_at)));
        for offer in &offering.offers {
            text += &format!("  {} {} to {}\n", offer.id, at(offer.from), at(offer.until));
        }
        for allotment in &offering.allotments {
            text += &format!("  {} released {}\n", allotment.id, at(allotment.release_at));
        }
    }
    expect![[r#"
        henry-v-first-night 2026-10-25 19:30 Europe/London
          members 2026-09-24 09:00 Europe/London to 2026-09-24 10:00 Europe/London
          members-under26 2026-09-24 09:00 Europe/London to 2026-09-24 10:00 Europe/London
          web 2026-09-24 10:00 Europe/London to 2026-10-25 18:30 Europe/London
          web-under26 2026-09-24 10:00 Europe/London to 2026-10-25 18:30 Europe/London
          early 2026-09-24 10:00 Europe/London to 2026-10-25 18:30 Europe/London
          box-office - to 2026-10-25 19:30 Europe/London
          box-office-under26 - to 2026-10-25 19:30 Europe/London
          critics - to -
          press released -
          house released 2026-10-24 20:30 Europe/London
        henry-v-second-night 2026-10-26 19:30 Europe/London
          members 2026-09-24 09:00 Europe/London to 2026-09-26 10:00 Europe/London
          members-under26 2026-09-24 09:00 Europe/London to 2026-09-26 10:00 Europe/London
          web 2026-09-26 10:00 Europe/London to 2026-10-26 18:30 Europe/London
          web-under26 2026-09-26 10:00 Europe/London to 2026-10-26 18:30 Europe/London
          early 2026-09-26 10:00 Europe/London to 2026-10-26 18:30 Europe/London
          box-office - to 2026-10-26 19:30 Europe/London
          box-office-under26 - to 2026-10-26 19:30 Europe/London
          critics - to -
          press released -
          house released 2026-10-25 19:30 Europe/London
    "#]]
    .assert_eq(&text);
    let wrong = globe.replace("\"-31d 10:00\"", "\"-31d 25:00\"");
    let why = json::read(&wrong).expect_err("no such time");
    assert!(why.contains("`until`: \"-31d 25:00\" is no time; write RFC 3339"), "{why}");
    let wrong = globe.replace("\"release_at\": \"-1d\"", "\"release_at\": \"-99999999d\"");
    let session = &json::read(&wrong).expect("it is a time").venues[0].sessions[0];
    let why = session.offering_at(Timestamp(1_790_340_605_123), &zone).expect_err("before there were any");
    assert_eq!(why, "`release_at` of allotment house: its time is before 1970");
}

#[test]
fn the_example_of_prices_is_that_of_the_house_and_its_codes_are_those_of_its_members() {
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/examples"));
    let read = |name: &str| fs::read_to_string(examples.join(name)).expect("the example is there");
    let venues = json::read(&read("globe.json")).expect("a valid example").venues;
    let lists =
        super::price_list::read(read("globe-prices.csv").as_bytes(), false).expect("valid").expect("prices").prices;
    assert_eq!(lists.len(), venues[0].sessions.len());
    for (list, plan) in lists.iter().zip(&venues[0].sessions) {
        assert_eq!(list.session, plan.id);
        let session = boxoffice_core::command::NewSession {
            id: plan.id.clone(),
            hall: plan.hall.clone(),
            title: plan.title.clone(),
            starts_at: Timestamp(1),
            ends_at: Timestamp(2),
            prices: plan.prices_in(&venues[0].halls[0].layout).expect("prices of all categories"),
            extras: boxoffice_core::command::SessionExtras {
                areas: plan.areas.clone(),
                offering: Some(std::sync::Arc::new(plan.offering.clone())),
                ..Default::default()
            },
        };
        assert!(list.change(&session, 0).expect("all prices are named").is_none());
        let less = &read("globe-prices.csv").replace("carer,lower,,0.00", "carer,lower,,not sold");
        let less = super::price_list::read(less.as_bytes(), false).expect("valid").expect("prices").prices;
        let less = less.iter().find(|list| list.session == plan.id).expect("its prices");
        assert!(less.change(&session, 0).expect("all prices are named").is_some());
    }
    let codes = super::code_list::read(read("globe-codes.csv").as_bytes()).expect("valid").expect("codes").codes;
    let groups: Vec<&str> =
        venues[0].sessions[0].offering.offers.iter().flat_map(|of| &of.code_group).map(|id| id.as_str()).collect();
    assert_eq!(groups, ["members"; 2]);
    assert!(codes.len() > 5 && codes.iter().all(|code| code.details.group.as_str() == "members"));
}

#[test]
fn titles_products_and_resources_are_read_as_requests_are() {
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/examples"));
    let corner = fs::read_to_string(examples.join("corner.json")).expect("the example is there");
    let plan = json::read(&corner).expect("a valid example");
    plan::check(&plan.venues).expect("the example is consistent");
    assert_eq!(plan.titles[0].1.name, "Hamlet");
    let products: Vec<(&str, u64)> = plan.products.iter().map(|(id, details)| (id.as_str(), details.stock)).collect();
    assert_eq!(products, [("programme", 200), ("poster", 25)]);
    assert_eq!(plan.products[1].1.limits.per_order, Some(2));
    let (room, details) = &plan.resources[0];
    assert_eq!((room.as_str(), details.capacity, details.after_ms), ("rehearsal-room", 1, 900_000));
    let yard = &plan.venues[0].sessions[0];
    assert_eq!((yard.areas[0].capacity, yard.areas[0].price.amount, yard.limits.per_order), (120, 900, Some(10)));

    let product = r#"{"id": "cup", "name": "Cup", "price": {"amount": 1, "currency": "EUR"}, "stock": 5}"#;
    let with = |products: &str| json::read(&format!(r#"{{"products": [{products}]}}"#));
    assert_eq!(with(product).expect("a shop needs no theatre").products.len(), 1);
    let twice = with(&format!("{product}, {product}")).expect_err("twice");
    assert_eq!(twice, "product cup is there twice; leave one out");
    let nameless = with(&product.replace("\"name\": \"Cup\", ", "")).expect_err("no name");
    assert!(nameless.starts_with("product cup: ") && nameless.contains("name"), "{nameless}");
    let priceless = with(&product.replace("\"amount\": 1,", "")).expect_err("no price");
    assert!(priceless.starts_with("product cup: ") && priceless.contains("amount"), "{priceless}");
}

#[test]
fn the_distance_of_seats_is_told_and_an_unusual_one_is_warned_of() {
    let told = |step: u32, aisle: u32| {
        let seat = |number: u32| format!("A,{number},{},0\n", number * step + if number > 4 { aisle } else { 0 });
        let text = format!("row,seat,x,y\n{}", (1..=9).map(seat).collect::<String>());
        let mut plan = json::read(&with_session("")).expect("a venue with a hall");
        plan.venues[0].halls[0].layout = rows(&text);
        plan.note_pitches();
        [plan.notes, plan.warnings].concat().join("\n")
    };
    assert_eq!(told(100, 0), "hall main: seats are 1.00 seat widths apart (median); points part rows 0 times");
    assert_eq!(told(80, 200), "hall main: seats are 0.80 seat widths apart (median); points part rows 1 times");
    let unusual = "seat widths apart (median). Points are hundredths of a seat's width";
    assert_eq!(told(24, 0), format!("hall main: seats are 0.24 {unusual}"));
    assert_eq!(told(131, 0), format!("hall main: seats are 1.31 {unusual}"));
}

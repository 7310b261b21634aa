//! Venues, halls and sessions are created, found and refused.

use std::sync::Arc;

use boxoffice_core::{
    answer::{Answer, Outcome},
    command::{Area, Command, NewSession, VenueCommand},
    host::Input,
    id::{Entity, Id},
    layout::{LABEL_BYTES_MAX, Labels, Layout, LayoutError, LayoutNames, POINT_MAX, Point, Row, Run, SeatNote},
    money::{Currency, Money, PRICE_MAX},
    names::Names,
    refusal::Refusal,
    rules::Rules,
    seat::Seat,
    stored,
    time::{TIMESTAMP_MAX, Timestamp},
};

use crate::{
    fixture::Fixture,
    script::{details, euros, id, layout, new_session},
};

/// A venue with a hall and sessions in it, open.
pub(crate) fn open(fixture: &mut Fixture, layout: &Arc<Layout>, sessions: &[&str]) {
    outcome_of(fixture, VenueCommand::Put(details())).expect("a venue");
    outcome_of(fixture, put_hall(layout)).expect("a hall");
    for (number, name) in (1..).zip(sessions) {
        let begin = number * 100_000_000;
        let session = new_session(name, layout, begin, begin + 7_200_000, None);
        outcome_of(fixture, VenueCommand::CreateSession(session)).expect("a session");
    }
}

fn put_hall(layout: &Arc<Layout>) -> VenueCommand {
    VenueCommand::PutHall { hall: id("hall"), name: "Hall".into(), comments: "".into(), layout: Arc::clone(layout) }
}

fn outcome_of(fixture: &mut Fixture, command: VenueCommand) -> Outcome {
    let ticket = fixture.send(Some("request"), Command::Venue(id("venue"), command));
    fixture.run();
    fixture.answers[&ticket].clone()
}

fn refused(fixture: &mut Fixture, session: NewSession) -> Refusal {
    let before = fixture.log.len();
    let refusal = outcome_of(fixture, VenueCommand::CreateSession(session)).expect_err("a bad session");
    assert_eq!(fixture.log.len(), before, "a refusal changes nothing");
    refusal
}

#[test]
fn unknown_venues_and_halls_are_not_found() {
    let mut fixture = Fixture::new(Rules::default());
    let hall = layout("aa");
    assert_eq!(outcome_of(&mut fixture, VenueCommand::Get), Err(Refusal::NotFound("venue venue".into())));
    assert_eq!(outcome_of(&mut fixture, put_hall(&hall)), Err(Refusal::NotFound("venue venue".into())));
    outcome_of(&mut fixture, VenueCommand::Put(details())).expect("a venue");
    let get = VenueCommand::GetHall { hall: id("hall") };
    assert_eq!(outcome_of(&mut fixture, get), Err(Refusal::NotFound("hall hall".into())));
    let session = new_session("s", &hall, 1_000, 2_000, None);
    assert_eq!(refused(&mut fixture, session), Refusal::NotFound("hall hall".into()));
}

#[test]
fn putting_the_same_again_changes_nothing() {
    let mut fixture = Fixture::new(Rules::default());
    open(&mut fixture, &layout("aa/bbb"), &[]);
    let before = fixture.log.len();
    open(&mut fixture, &layout("aa/bbb"), &[]);
    assert_eq!(fixture.log.len(), before);
    let answer = outcome_of(&mut fixture, VenueCommand::Get).expect("a venue").answer;
    let Answer::Venue(view) = answer else { panic!("not a venue: {answer:?}") };
    assert_eq!(view.halls, [(id("hall"), "Hall".into(), 5)]);
}

#[test]
fn bad_sessions_are_refused_by_name() {
    let mut fixture = Fixture::new(Rules::default());
    let hall = layout("aa/bb");
    open(&mut fixture, &hall, &[]);
    let good = new_session("s", &hall, 1_000, 2_000, None);
    let bad = |text: &str| Refusal::BadRequest(text.into());
    let times = |starts_at, ends_at| NewSession { starts_at, ends_at, ..good.clone() };
    let prices = |prices: Vec<(Id, Money)>| NewSession { prices, ..good.clone() };
    let ttl = |ttl_ms| new_session("s", &hall, 1_000, 2_000, Some(ttl_ms));
    let dollars = Money { amount: 1, currency: Currency::new("USD").expect("three letters") };
    let long = "the price of a is not 0 to 1000000000000 minor units";
    for (session, refusal) in [
        (
            times(Timestamp(2_000), Timestamp(2_000)),
            "the session ends at 1970-01-01T00:00:02Z, which is not after its begin at 1970-01-01T00:00:02Z",
        ),
        (
            times(Timestamp(2_001), Timestamp(2_000)),
            "the session ends at 1970-01-01T00:00:02Z, which is not after its begin at 1970-01-01T00:00:02.001Z",
        ),
        (
            times(Timestamp(0), Timestamp(31 * 86_400_000 + 1)),
            "the session takes 32 days; the longest takes 31 days, so create several",
        ),
        (times(TIMESTAMP_MAX, Timestamp(TIMESTAMP_MAX.0 + 1)), "the session ends after the year 9999"),
        (times(Timestamp(u64::MAX - 1), Timestamp(u64::MAX)), "the session ends after the year 9999"),
        (ttl(0), "hold_ttl_ms is not 1 to 86400000"),
        (ttl(u64::MAX), "hold_ttl_ms is not 1 to 86400000"),
        (prices(vec![]), "category a has no price"),
        (prices(vec![(id("a"), euros(1))]), "category b has no price"),
        (prices(vec![(id("a"), euros(1)), (id("b"), dollars)]), "the prices are not all in one currency"),
        (prices(vec![(id("a"), euros(PRICE_MAX + 1)), (id("b"), euros(1))]), long),
        (prices(vec![(id("a"), euros(-1)), (id("b"), euros(1))]), long),
        (prices(vec![(id("a"), euros(1)), (id("c"), euros(1))]), "the hall has no category c"),
        (prices(vec![(id("a"), euros(1)), (id("b"), euros(1)), (id("a"), euros(2))]), "category a has two prices"),
    ] {
        assert_eq!(refused(&mut fixture, session), bad(refusal));
    }
}

#[test]
fn the_order_of_prices_does_not_matter() {
    let mut fixture = Fixture::new(Rules::default());
    let hall = layout("aa/bb");
    open(&mut fixture, &hall, &["s"]);
    let mut session = new_session("s", &hall, 100_000_000, 107_200_000, None);
    session.prices.reverse();
    let first = outcome_of(&mut fixture, VenueCommand::CreateSession(session.clone())).expect("it is the same");
    session.prices.reverse();
    assert_eq!(Ok(first), outcome_of(&mut fixture, VenueCommand::CreateSession(session.clone())));
    session.prices[0].1 = euros(1);
    let why = "session s: its price of a is 1000 minor units of EUR, not 1 minor units of EUR";
    assert_eq!(refused(&mut fixture, session), Refusal::AlreadyExistsDifferently(why.into()));
}

/// A change of a session, what is there, and what is asked for.
type Change<'a> = (&'a dyn Fn(&mut NewSession), &'a str, &'a str);

#[test]
fn a_session_that_is_there_differently_is_told_with_both_contents() {
    let mut fixture = Fixture::new(Rules::default());
    let hall = layout("aa/bb");
    open(&mut fixture, &hall, &["other"]);
    let area = |name: &str, capacity: u32, amount: i64| Area {
        id: id("yard"),
        name: name.into(),
        capacity,
        price: euros(amount),
        names: Names::default(),
    };
    let mut known = new_session("s", &hall, 200_000_000, 207_200_000, None);
    known.areas = vec![area("Yard", 10, 700)];
    known.comments = "bring a coat".into();
    known.limits.per_order = Some(4);
    outcome_of(&mut fixture, VenueCommand::CreateSession(known.clone())).expect("it is new");
    let dollars = Money { amount: 1_000, currency: Currency::new("USD").expect("three letters") };
    // Each field of a session, changed, and what is there and what is asked for, both whole.
    let changes: [Change<'_>; 16] = [
        (&|it| it.hall = id("elsewhere"), "hall is hall", "elsewhere"),
        (&|it| it.title = id("macbeth"), known.title.as_str(), "macbeth"),
        (&|it| it.starts_at = Timestamp(200_000_001), "1970-01-03T07:33:20Z", "1970-01-03T07:33:20.001Z"),
        (&|it| it.ends_at = Timestamp(207_260_000), "1970-01-03T09:33:20Z", "1970-01-03T09:34:20Z"),
        (&|it| it.prices[0].1 = euros(1_100), "1000 minor units of EUR", "1100 minor units of EUR"),
        (&|it| it.prices[0].1 = dollars, "1000 minor units of EUR", "1000 minor units of USD"),
        (&|it| drop(it.prices.remove(1)), "2000 minor units of EUR", "none"),
        (&|it| it.areas[0] = area("Yard", 11, 700), "10 places", "11 places"),
        (&|it| it.areas[0] = area("Yard", 10, 800), "700 minor units of EUR", "800 minor units of EUR"),
        (&|it| it.areas.clear(), "10 places at 700 minor units of EUR", "none"),
        (&|it| it.hold_ttl_ms = Some(60_000), "none", "60000"),
        (&|it| it.limits.per_order = None, "4", "none"),
        (&|it| it.comments = "bring an umbrella".into(), "\"bring a coat\"", "\"bring an umbrella\""),
        (&|it| it.sells_after_begin = true, "false", "true"),
        (&|it| it.no_single_seats = true, "`no_single_seats` is false", "true"),
        (&|it| it.min_party = Some(2), "`min_party` is none", "2"),
    ];
    for (change, is, asked) in changes {
        let mut wanted = known.clone();
        change(&mut wanted);
        let said = refused(&mut fixture, wanted).to_string();
        let (Some(first), Some(second)) = (said.find(is), said.rfind(asked)) else {
            panic!("{is:?} and {asked:?} are both to be told: {said}");
        };
        assert!(first < second && said.contains("session s"), "what is there comes first: {said}");
    }
    // Several differences are all told, and of many the first ones with the number of the others.
    let mut wanted = known.clone();
    changes.iter().for_each(|(change, _, _)| change(&mut wanted));
    let said = refused(&mut fixture, wanted).to_string();
    assert!(said.contains("macbeth") && said.contains("; and ") && said.ends_with(" more"), "{said}");
}

#[test]
fn a_search_goes_by_start_then_id_and_in_pages() {
    let mut fixture = Fixture::new(Rules::default());
    let hall = layout("aa");
    open(&mut fixture, &hall, &["d", "c", "b", "a"]);
    let other =
        VenueCommand::PutHall { hall: id("other"), name: "Other".into(), comments: "".into(), layout: hall.clone() };
    outcome_of(&mut fixture, other).expect("a hall");
    let same_time =
        NewSession { hall: id("other"), title: id("other"), ..new_session("0", &hall, 200_000_000, 207_200_000, None) };
    outcome_of(&mut fixture, VenueCommand::CreateSession(same_time)).expect("a session");
    let mut search = |hall: Option<&str>, title: Option<&str>, from, to, limit, after: Option<(u64, &str)>| {
        let command = VenueCommand::SearchSessions {
            hall: hall.map(id),
            title: title.map(id),
            from: Timestamp(from),
            to: Timestamp(to),
            limit,
            after: after.map(|(at, name)| (Timestamp(at), id(name))),
        };
        let answer = outcome_of(&mut fixture, command).expect("a page").answer;
        let Answer::Sessions(found) = answer else { panic!("not a page of sessions: {answer:?}") };
        assert!(found.iter().all(|entry| entry.open));
        found.iter().map(|entry| entry.id.as_str().to_owned()).collect::<Vec<_>>().concat()
    };
    assert_eq!(search(None, None, 0, u64::MAX, 10, None), "d0cba");
    assert_eq!(search(None, None, 200_000_000, 400_000_000, 10, None), "0cb");
    assert_eq!(search(None, None, 0, u64::MAX, 2, None), "d0");
    assert_eq!(search(None, None, 0, u64::MAX, 2, Some((200_000_000, "0"))), "cb");
    assert_eq!(search(None, None, 300_000_000, u64::MAX, 2, Some((100_000_000, "d"))), "ba");
    assert_eq!(search(Some("other"), None, 0, u64::MAX, 10, None), "0");
    assert_eq!(search(None, Some("title"), 0, u64::MAX, 10, None), "dcba");
    assert_eq!(search(None, None, 5, 4, 10, None), "");
}

#[test]
fn a_session_opens_although_messages_are_lost_and_hosts_crash() {
    let mut fixture = Fixture::new(Rules::default());
    let hall = layout("aa");
    open(&mut fixture, &hall, &[]);
    let venue = Entity::Venue(id("venue"));
    let create = VenueCommand::CreateSession(new_session("s", &hall, 1_000, 2_000, None));
    let first = fixture.send(Some("create"), Command::Venue(id("venue"), create.clone()));
    // The ask is lost. A second client asks for the same, and waits as well.
    fixture.run_but(|to| *to == venue, |_| true);
    fixture.mail.clear();
    let second = fixture.send(Some("again"), Command::Venue(id("venue"), create.clone()));
    fixture.run();
    assert!(!fixture.answers.contains_key(&first) && !fixture.answers.contains_key(&second));
    // The venue's host crashes. The next one still owes the opening.
    fixture.crash(&venue, 0);
    assert!(fixture.is_lost(first) && fixture.is_lost(second));
    let third = fixture.send(Some("create"), Command::Venue(id("venue"), create));
    fixture.run();
    let outcome = fixture.answers[&third].as_ref().expect("the session is open");
    assert!(matches!(&outcome.answer, Answer::Session(view) if view.counts.free == 2), "{outcome:?}");
    assert_eq!(fixture.states.unfinished().count(), 0);
    // A repeat long after finds it open.
    let open = fixture.posted.iter().find(|message| matches!(&message.input, Input::Ask { .. })).expect("it was asked");
    let open = open.clone();
    let before = fixture.log.len();
    fixture.post(open);
    fixture.run();
    assert_eq!(fixture.log.len(), before);
}

#[test]
fn an_unanswered_opening_is_asked_again() {
    let mut fixture = Fixture::new(Rules::default());
    let hall = layout("aa");
    open(&mut fixture, &hall, &[]);
    let venue = Entity::Venue(id("venue"));
    let create = VenueCommand::CreateSession(new_session("s", &hall, 1_000, 2_000, None));
    let ticket = fixture.send(Some("create"), Command::Venue(id("venue"), create));
    fixture.run_but(|to| *to == venue, |_| true);
    fixture.mail.clear();
    let wake = fixture.next_wake().expect("it asks again");
    assert_eq!(wake, fixture.now.after(fixture.rules().ask_again_ms));
    fixture.pass(wake);
    fixture.run();
    assert!(fixture.answers[&ticket].is_ok());
}

#[test]
fn bad_layouts_are_refused_by_name() {
    let run = |count, labels| Run { gap: 0, count, labels, category: id("a"), accessible: false, points: vec![] };
    let numbers = |first, step| Labels::Numbers { first, step };
    let row = |label: &str, runs| Row { label: label.into(), section: None, runs };
    let new = |rows: Vec<Row>| Layout::new(rows, None).expect_err("a bad layout");
    let two = |first: &str, second: &str| Labels::Names(vec![first.into(), second.into()]);
    let uneven = LayoutError::Uneven { row: 0 };
    let bad_label = LayoutError::BadLabel { row: 0 };
    // A session may have areas only.
    assert_eq!(Layout::new(vec![], None).map(|layout| layout.seats()), Ok(0));
    assert_eq!(new(vec![row("1", vec![])]), LayoutError::EmptyRun { row: 0 });
    assert_eq!(new(vec![row("1", vec![run(0, numbers(1, 1))])]), LayoutError::EmptyRun { row: 0 });
    assert_eq!(new(vec![row("1", vec![run(3, two("1", "2"))])]), uneven);
    let half = Run { points: vec![Point { x: 0, y: 0 }], ..run(2, numbers(1, 1)) };
    assert_eq!(new(vec![row("1", vec![half])]), uneven);
    assert_eq!(new(vec![row("", vec![run(1, numbers(1, 1))])]), bad_label);
    assert_eq!(new(vec![row(&"x".repeat(LABEL_BYTES_MAX + 1), vec![run(1, numbers(1, 1))])]), bad_label);
    assert_eq!(new(vec![row("1", vec![run(2, numbers(i32::MAX, 1))])]), bad_label);
    assert_eq!(new(vec![row("1", vec![run(2, two("a", ""))])]), bad_label);
    let twice = LayoutError::SeatLabelTwice { row: 0, label: "5".into() };
    assert_eq!(new(vec![row("1", vec![run(2, numbers(5, 0))])]), twice);
    assert_eq!(new(vec![row("1", vec![run(1, numbers(5, 1)), run(1, numbers(5, 1))])]), twice);
    let same = vec![row("1", vec![run(1, numbers(1, 1))]), row("1", vec![run(1, numbers(1, 1))])];
    assert_eq!(new(same), LayoutError::RowLabelTwice { row: 1, label: "1".into() });
    let raised = Run { points: vec![Point { x: POINT_MAX + 1, y: 0 }], ..run(1, numbers(1, 1)) };
    assert_eq!(new(vec![row("1", vec![raised])]), LayoutError::TooFar { row: 0 });
    let wide: Vec<Run> = (0..100).map(|place| Run { gap: u16::MAX, ..run(1, numbers(place, 1)) }).collect();
    assert_eq!(new(vec![row("1", wide)]), LayoutError::TooFar { row: 0 });
    let focal = Some(Point { x: 0, y: i32::MIN });
    let near = Layout::new(vec![row("1", vec![run(1, numbers(1, 1))])], focal);
    assert_eq!(near, Err(LayoutError::TooFar { row: 0 }));
    let rows = |count| (0..count).map(|n| row(&n.to_string(), vec![run(50_000, numbers(1, 1))])).collect();
    assert_eq!(Layout::new(rows(4), None).map(|layout| layout.seats()), Ok(200_000));
    assert_eq!(new(rows(5)), LayoutError::TooManySeats);
    let halves = vec![run(40_000, numbers(1, 1)), run(40_000, numbers(40_001, 1))];
    assert_eq!(new(vec![row("1", halves)]), LayoutError::TooLong { row: 0 });
    let runs = |count: i32| {
        let of = |number: i32| Run { category: id(&number.to_string()), ..run(1, numbers(number, 1)) };
        vec![row("1", (0..count).map(of).collect())]
    };
    assert_eq!(Layout::new(runs(255), None).map(|layout| layout.categories().len()), Ok(255));
    assert_eq!(new(runs(256)), LayoutError::TooManyCategories);
}

#[test]
fn layouts_are_written_as_rows_and_read_with_their_indexes() {
    let hall = layout("aaaa_aa/bBb");
    let bytes = stored::append(&*hall, Vec::new());
    let read: Layout = stored::read(&bytes).expect("and read");
    assert_eq!((read.seats(), &read), (9, &*hall));
    assert_eq!(read.point(0), Point { x: -300, y: 0 });
    assert_eq!(read.point(4), Point { x: 200, y: 0 });
    assert_eq!((read.right_neighbour(3), read.right_neighbour(4), read.left_neighbour(6)), (None, Some(5), None));
    assert!(read.accessible(7) && !read.accessible(6));
}

#[test]
fn sections_and_categories_have_names_for_people_beside_their_ids() {
    let names = |name: &str| Names::new([("da".into(), name.into()), ("en".into(), "x".into())]).expect("names");
    let hall = (*layout("aa/bb")).clone();
    let named = |sections: &[&str], categories: &[&str]| {
        let of = |ids: &[&str]| ids.iter().map(|name| (id(name), names(name))).collect();
        hall.clone().named(LayoutNames { sections: of(sections), categories: of(categories), ..LayoutNames::default() })
    };
    let both = named(&[], &["b", "a"]).expect("the hall has them");
    assert_eq!(both, named(&[], &["a", "b"]).expect("the same"));
    assert_ne!(both, hall, "a name is a part of the layout");
    assert_ne!(both.digest(), hall.digest(), "and of its digest, so caches tell them apart");
    assert_eq!(hall.clone().named(LayoutNames::default()).map(|layout| layout.digest()), Ok(hall.digest()));
    let staged = |stage: &str| hall.clone().named(LayoutNames { stage: names(stage), ..LayoutNames::default() });
    let screen = staged("Lærred").expect("every hall has something to look at");
    assert_ne!(screen.digest(), staged("Bane").expect("names").digest(), "the name of the stage, too");
    let written = stored::append(&screen, Vec::new());
    assert_eq!(stored::read::<Layout>(&written).expect("and read"), screen);
    let written = stored::append(&both, Vec::new());
    assert_eq!(stored::read::<Layout>(&written).expect("and read"), both);
    let note = |text: &str, seats: &[(u16, u16)]| {
        let seats = seats.iter().map(|&(row, seat)| Seat { row, seat }).collect();
        SeatNote { text: text.into(), names: Names::default(), seats }
    };
    let noted = |notes: Vec<SeatNote>| hall.clone().named(LayoutNames { notes, ..LayoutNames::default() });
    let pillar = noted(vec![note("a pillar", &[(1, 1), (0, 1)])]).expect("seats of the hall");
    assert_eq!((pillar.note(1).map(|note| note.text.as_str()), pillar.note(0)), (Some("a pillar"), None));
    assert_ne!(pillar.digest(), noted(vec![note("a pillar", &[(0, 1)])]).expect("seats").digest());
    let written = stored::append(&pillar, Vec::new());
    assert_eq!(stored::read::<Layout>(&written).expect("and read"), pillar);
    for (notes, why) in [
        (vec![note("", &[(0, 0)])], "1 to 200 bytes"),
        (vec![note("a\nb", &[(0, 0)])], "control characters"),
        (vec![note("a pillar", &[])], "no seat"),
        (vec![note("a pillar", &[(0, 2)])], "no seat 2 in row 0"),
        (vec![note("a pillar", &[(0, 0)]), note("a lamp", &[(0, 0)])], "two notes"),
        (vec![note("a pillar", &[(0, 0)]); 256], "more than 255"),
    ] {
        let refused = noted(notes).expect_err(why).to_string();
        assert!(refused.contains(why), "{refused} says {why}");
    }
    let wrong = |kind, name| Err(LayoutError::NamedWrongly { kind, id: id(name) });
    assert_eq!(named(&[], &["c"]), wrong("category", "c"));
    assert_eq!(named(&["stalls"], &[]), wrong("section", "stalls"));
    assert_eq!(named(&[], &["a", "a"]), wrong("category", "a"));
}

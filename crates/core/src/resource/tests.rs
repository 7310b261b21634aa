//! Tests of a resource against a reference, and example by example.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec,
    vec::Vec,
};

use proptest::{collection::vec as list, prelude::*};
use smol_str::SmolStr;

use super::Resource;
use crate::{
    answer::{Answer, BookingState, KeptAnswer},
    ask::{Granted, Reply},
    calendar::{BookingKey, BookingName},
    command::{Every, Limits, OpeningHours, Rate, Repeat, ResourceDetails, Until, Want, When},
    event::{Event, ResourceEvent},
    holds::HoldAsk,
    holds_model::{euros, id, reread},
    id::{CartId, Entity, HoldId, Id, OrderId, Request, RequestHash},
    inventory::Inventory,
    portion::{Content, Portion},
    refusal::{Conflict, Refusal},
    rules::Rules,
    time::Timestamp,
};

const HOUR_MS: u64 = 3_600_000;
const NOW: Timestamp = Timestamp(1_000);

fn details() -> ResourceDetails {
    ResourceDetails {
        name: "Desk 1".into(),
        properties: vec![],
        capacity: 1,
        zone: "UTC".into(),
        hours: None,
        before_ms: 0,
        after_ms: 0,
        notice_ms: 0,
        horizon_ms: None,
        rate: Rate { amount: 1_200, currency: euros(0).currency, per_ms: Some(HOUR_MS) },
        hold_ttl_ms: None,
        limits: Limits::default(),
    }
}

fn resource(change: impl FnOnce(&mut ResourceDetails)) -> Resource {
    let mut details = details();
    change(&mut details);
    let event = Resource::decide_put(None, &Rules::default(), &details, request(0)).expect("good details");
    Resource::first(id("desk1"), &event)
}

fn put(resource: &mut Resource, change: impl FnOnce(&mut ResourceDetails)) -> Result<(), Refusal> {
    let mut details = (*resource.details).clone();
    change(&mut details);
    let event = Resource::decide_put(Some(resource), &Rules::default(), &details, request(resource.version))?;
    resource.apply(&event);
    Ok(())
}

fn local(begin: &str, end: &str) -> When {
    When::Local { begin: begin.into(), end: end.into() }
}

fn hold_id(number: u64) -> HoldId {
    HoldId { cart: CartId(number.into()), request: RequestHash(number), part: 0, attempt: 0 }
}

fn named(name: &str) -> BookingName {
    BookingName::Named(id(name))
}

/// The public name of a hold's booking.
fn public(number: u64) -> BookingName {
    BookingKey::Hold(hold_id(number)).name()
}

fn request(number: u64) -> Request {
    Request { id: RequestHash(number), body: number }
}

fn write(resource: &mut Resource, events: impl IntoIterator<Item = Event>) {
    for event in events {
        let Event::Resource(event) = event else { panic!("a resource decides {event:?}") };
        resource.apply(&event);
    }
}

fn reserve(resource: &mut Resource, name: &str, when: &When, repeat: Option<&Repeat>) -> Result<(), Refusal> {
    let decided = resource.decide_reserve(NOW, &id(name), when, repeat, &"details".into(), request(1));
    decided.map(|event| resource.apply(&event))
}

fn hold(resource: &mut Resource, number: u64, begin: u64, end: u64) -> Result<Granted, Reply> {
    let want = Want::Slot { begin: Timestamp(begin), end: Timestamp(end), details: "".into() };
    let ask = HoldAsk {
        hold: hold_id(number),
        revision: 1,
        want: &want,
        deadline: Timestamp(9_000),
        at: Timestamp(0),
        holder: None,
        desk: true,
        code: None,
        attributes: &[],
        customer: None,
    };
    match resource.decide_hold(NOW, &ask) {
        Ok(event) => {
            write(resource, [event]);
            Ok(resource.granted(hold_id(number)))
        }
        Err(Reply::Granted(granted)) => Ok(granted),
        Err(reply) => Err(reply),
    }
}

fn conflicts(result: Result<(), Refusal>) -> Vec<SmolStr> {
    match result {
        Err(Refusal::SlotTaken(conflicts)) => conflicts.into_iter().map(|conflict| conflict.why).collect(),
        result => panic!("no conflict: {result:?}"),
    }
}

fn every(every: Every, until: Until) -> Repeat {
    Repeat { every, interval: 1, until }
}

fn names(resource: &Resource) -> Vec<SmolStr> {
    let all = resource.bookings(Timestamp(0), Timestamp(250_000_000_000_000), 1_000, None).expect("a good window");
    all.into_iter().map(|booking| booking.booking).collect()
}

fn whole(resource: &Resource) {
    assert_eq!(resource.audit().violations, Vec::<SmolStr>::new());
    let mut read: Resource = reread(resource);
    read.rebuild();
    assert_eq!(read, *resource);
}

#[test]
fn example_12_touching_bookings_and_one_across_both() {
    let mut desk = resource(|_| {});
    reserve(&mut desk, "a", &local("2026-01-01T10:00", "2026-01-01T10:30"), None).expect("the slot is free");
    reserve(&mut desk, "b", &local("2026-01-01T10:30", "2026-01-02T10:45"), None).expect("they touch");
    let result = reserve(&mut desk, "c", &local("2026-01-01T10:30", "2026-01-02T10:45"), None);
    assert_eq!(conflicts(result), ["booking/b is there from 2026-01-01T10:30 to 2026-01-02T10:45"]);
    whole(&desk);
}

#[test]
fn the_past_is_neither_held_nor_offered() {
    let mut desk = resource(|_| {});
    let no = hold(&mut desk, 1, NOW.0 - 1, HOUR_MS).expect_err("the slot has begun");
    let Reply::Refused { refusal, .. } = no else { panic!("{no:?} is not a refusal") };
    assert_eq!((refusal.code(), refusal.name()), (506, "too_soon_or_far"));
    assert_eq!(desk.version, 1, "a refused hold changes nothing");
    hold(&mut desk, 2, NOW.0, HOUR_MS).expect("the slot begins now");
    whole(&desk);
    let offered =
        |desk: &Resource, from| desk.free_slots(NOW, (Timestamp(from), Timestamp(24 * HOUR_MS)), HOUR_MS, 1, (None, 0));
    assert_eq!(offered(&desk, 0), Ok(vec![(Timestamp(HOUR_MS), Timestamp(2 * HOUR_MS))]));
    let empty = resource(|_| {});
    assert_eq!(offered(&empty, 0), Ok(vec![(NOW, NOW.after(HOUR_MS))]), "it begins now at the earliest");
    // A booking without a cart may have begun.
    let mut desk = empty;
    reserve(&mut desk, "a", &When::Utc { begin: Timestamp(0), end: NOW }, None).expect("the slot is free");
}

#[test]
fn a_slot_keeps_its_details_from_the_hold_to_the_sale() {
    let mut desk = resource(|_| {});
    let (begin, end) = (Timestamp(HOUR_MS), Timestamp(2 * HOUR_MS));
    let asked = |details: &'static str| Want::Slot { begin, end, details: details.into() };
    let ask = |desk: &Resource, want: &Want| {
        desk.decide_hold(
            NOW,
            &HoldAsk {
                hold: hold_id(1),
                revision: 1,
                want,
                deadline: Timestamp(9_000),
                at: Timestamp(0),
                holder: None,
                desk: true,
                code: None,
                attributes: &[],
                customer: None,
            },
        )
    };
    let held = ask(&desk, &asked("with a piano")).expect("the slot is free");
    write(&mut desk, [held]);
    assert_eq!(
        desk.granted(hold_id(1)).content,
        Some(Content::Slot { begin, end, price: 1_200, details: "with a piano".into() })
    );
    assert_ne!(
        asked("with a piano").hash(),
        asked("with two").hash(),
        "other details under the same hold are detected"
    );
    let listed = |desk: &Resource| {
        let all = desk.bookings(begin, end, 10, None).expect("a good window");
        all.into_iter().map(|booking| (booking.state, booking.details)).collect::<Vec<_>>()
    };
    assert_eq!(listed(&desk), [(BookingState::Held, "with a piano".into())]);
    whole(&desk);
    let sold = desk.decide_sell(hold_id(1), 2, &Portion::Slot { begin, end }, OrderId(1), NOW).expect("it is held");
    write(&mut desk, sold);
    assert_eq!(listed(&desk), [(BookingState::Sold, "with a piano".into())]);
    whole(&desk);
}

#[test]
fn example_13_the_last_second_of_a_day_and_less() {
    let mut desk = resource(|_| {});
    reserve(&mut desk, "night", &local("2026-01-01T22:00", "2026-01-02T02:00"), None).expect("the slot is free");
    for (begin, end) in [
        ("2026-01-01T23:59:59", "2026-01-02T00:00:01"),
        ("2026-01-01T23:59:59.500", "2026-01-01T23:59:59.900"),
        ("2026-01-02T01:59:59", "2026-01-02T03:00:00"),
    ] {
        assert_eq!(conflicts(reserve(&mut desk, "x", &local(begin, end), None)).len(), 1);
    }
    reserve(&mut desk, "x", &local("2026-01-02T02:00", "2026-01-02T02:01"), None).expect("the slot is free again");
}

#[test]
fn a_canceled_booking_is_free_on_all_its_days() {
    let mut desk = resource(|_| {});
    reserve(&mut desk, "long", &local("2026-01-01T22:00", "2026-01-03T02:00"), None).expect("the slot is free");
    let event = desk.decide_cancel(&named("long"), false, request(2)).expect("the booking exists");
    desk.apply(&event);
    assert_eq!(desk.answered(request(2)), Some(Ok((KeptAnswer::Done, desk.version()))));
    assert_eq!(desk.decide_cancel(&named("long"), false, request(3)), Err(Refusal::NoSuchBooking(id("long"))));
    for day in ["2026-01-01T22:00", "2026-01-02T12:00", "2026-01-03T01:00"] {
        let end = alloc::format!("{}:30", &day[..13]);
        assert_eq!(desk.is_available(NOW, &local(day, &end)), Ok(vec![]));
    }
    assert_eq!(desk.view().bookings, 0);
    whole(&desk);
}

#[test]
fn a_canceled_booking_of_a_cart_stays_until_its_cart_lets_go() {
    let mut desk = resource(|details| details.capacity = 2);
    hold(&mut desk, 1, HOUR_MS, 2 * HOUR_MS).expect("the slot is free");
    hold(&mut desk, 2, HOUR_MS, 2 * HOUR_MS).expect("the slot is free");
    let portion = Portion::Slot { begin: Timestamp(HOUR_MS), end: Timestamp(2 * HOUR_MS) };
    let events = desk.decide_sell(hold_id(2), 2, &portion, hold_id(2).cart.order(), NOW).expect("it is held");
    write(&mut desk, events);
    for number in [1, 2] {
        let event = desk.decide_cancel(&public(number), false, request(number)).expect("the booking exists");
        desk.apply(&event);
        assert_eq!(desk.answered(request(number)), Some(Ok((KeptAnswer::Done, desk.version()))));
    }
    assert_eq!(desk.unwanted(None, 9), [hold_id(1), hold_id(2)]);
    assert_eq!((desk.unwanted(None, 1), desk.unwanted(Some(hold_id(1)), 9)), (vec![hold_id(1)], vec![hold_id(2)]));
    assert_eq!(desk.view().bookings, 2);
    whole(&desk);
    let (released, refunded) = (desk.decide_release(hold_id(1), 2, None, true), desk.decide_refund(hold_id(2)));
    write(&mut desk, released);
    write(&mut desk, refunded);
    assert_eq!((desk.unwanted(None, 9), desk.view().bookings), (vec![], 0));
    whole(&desk);
    let gone = |number: u64| Refusal::NoSuchBooking(public(number).id());
    assert_eq!(desk.decide_cancel(&public(1), false, request(3)), Err(gone(1)));
    hold(&mut desk, 3, HOUR_MS, 2 * HOUR_MS).expect("the slot is free");
    assert_eq!(desk.decide_cancel(&public(3), true, request(3)), Err(gone(3)), "it is no series");
    let later = When::Utc { begin: Timestamp(3 * HOUR_MS), end: Timestamp(4 * HOUR_MS) };
    assert_eq!(desk.decide_move(NOW, &public(3), &later, request(3)).map_err(|no| no.code()), Err(101));
    assert_eq!(desk.decide_move(NOW, &public(1), &later, request(3)), Err(gone(1)));
}

#[test]
fn no_client_chooses_the_name_of_a_carts_booking() {
    let mut desk = resource(|_| {});
    hold(&mut desk, 1, HOUR_MS, 2 * HOUR_MS).expect("the slot is free");
    let when = local("2026-01-01T10:00", "2026-01-01T11:00");
    let daily = every(Every::Day, Until::Count(2));
    for name in [public(1).text().as_str(), public(9).text().as_str(), "hold:", "hold:x"] {
        assert_eq!(reserve(&mut desk, name, &when, None).map_err(|no| no.code()), Err(101), "{name}");
        assert_eq!(reserve(&mut desk, name, &when, Some(&daily)).map_err(|no| no.code()), Err(101), "{name}");
    }
    reserve(&mut desk, "hold-1", &when, None).expect("this is another name");
    // Conflicts name a cart's booking by its public name.
    let taken = hold(&mut desk, 2, HOUR_MS, 2 * HOUR_MS).expect_err("the slot is taken");
    let Reply::Refused { refusal: Refusal::SlotTaken(conflicts), .. } = taken else { panic!("{taken:?}") };
    let name = public(1).text();
    let why = alloc::format!("{name} is there from 1970-01-01T01:00 to 1970-01-01T02:00");
    assert_eq!((conflicts[0].booking.clone(), conflicts[0].why.as_str()), (Some(name), why.as_str()));
}

#[test]
fn every_refusal_has_its_number() {
    let mut desk = resource(|details| {
        details.hours = Some(OpeningHours {
            week: [const { Vec::new() }; 7].map(|_: Vec<(u16, u16)>| vec![(9 * 60, 17 * 60)]),
            exceptions: vec![("2026-12-24".into(), vec![])],
        });
        details.notice_ms = HOUR_MS;
        details.horizon_ms = Some(366 * 24 * HOUR_MS);
    });
    let now = desk.place.asked(&local("2026-06-01T08:00", "2026-06-01T09:00")).expect("a slot").begin();
    let result = |desk: &Resource, begin: &str, end: &str| {
        let decided = desk.decide_reserve(now, &id("b"), &local(begin, end), None, &"".into(), request(1));
        decided.map(|_| ()).map_err(|refusal| refusal.code())
    };
    assert_eq!(result(&desk, "2026-06-01T09:00", "2026-06-01T10:00"), Ok(()), "exactly the notice");
    assert_eq!(result(&desk, "2026-06-01T10:00", "2026-06-01T10:00"), Err(502), "empty");
    assert_eq!(result(&desk, "2026-06-01T11:00", "2026-06-01T10:00"), Err(502), "inverted");
    assert_eq!(result(&desk, "2026-06-01 11:00", "2026-06-01T12:00"), Err(502), "no local time");
    assert_eq!(result(&desk, "2026-06-02T08:59", "2026-06-02T10:00"), Err(504), "a minute too early");
    assert_eq!(result(&desk, "2026-12-24T10:00", "2026-12-24T11:00"), Err(504), "closed that day");
    assert_eq!(result(&desk, "2026-06-01T08:59", "2026-06-01T10:00"), Err(506), "less than the notice");
    assert_eq!(result(&desk, "2027-06-02T10:00", "2027-06-02T11:00"), Err(506), "begins behind the horizon");
    put(&mut desk, |details| details.hours = None).expect("always open");
    assert_eq!(result(&desk, "2027-06-02T07:00", "2027-06-02T08:00"), Ok(()), "ends at the horizon");
    assert_eq!(result(&desk, "2027-06-02T07:00", "2027-06-02T08:01"), Err(506), "ends behind the horizon");
    assert_eq!(
        desk.decide_move(now, &named("b"), &local("2026-06-02T08:00", "2026-06-02T09:00"), request(1))
            .map_err(|no| no.code()),
        Err(505)
    );
    put(&mut desk, |details| details.horizon_ms = None).expect("any time ahead");
    reserve(&mut desk, "b", &local("2026-06-02T08:00", "2026-06-02T09:00"), None).expect("the slot is free");
    assert_eq!(result(&desk, "2026-06-03T08:00", "2026-06-03T09:00"), Err(503), "the name is used");
    let other = |begin, end| desk.decide_reserve(now, &id("c"), &local(begin, end), None, &"".into(), request(1));
    assert_eq!(other("2026-06-02T08:00", "2026-06-02T09:00").map_err(|no| no.code()), Err(501));
}

#[test]
fn a_booking_moves_or_keeps_its_time() {
    let mut desk = resource(|_| {});
    reserve(&mut desk, "a", &local("2026-01-01T10:00", "2026-01-01T11:00"), None).expect("the slot is free");
    reserve(&mut desk, "b", &local("2026-01-01T12:00", "2026-01-01T13:00"), None).expect("the slot is free");
    let result = desk.decide_move(NOW, &named("a"), &local("2026-01-01T11:30", "2026-01-01T12:30"), request(2));
    assert_eq!(conflicts(result.map(|_| ())).len(), 1);
    let event = desk.decide_move(NOW, &named("a"), &local("2026-01-01T10:30", "2026-01-01T11:30"), request(2));
    desk.apply(&event.expect("its own old time is no conflict"));
    let Some(Ok((KeptAnswer::Booked(booked), _))) = desk.answered(request(2)) else { panic!("not remembered") };
    assert_eq!((booked[0].booking.as_str(), booked[0].details.as_str()), ("a", "details"));
    assert_eq!(desk.is_available(NOW, &local("2026-01-01T10:00", "2026-01-01T10:30")), Ok(vec![]));
    whole(&desk);
}

#[test]
fn a_series_is_booked_whole_or_not_at_all() {
    let mut room = resource(|details| details.zone = "Europe/Berlin".into());
    reserve(&mut room, "x", &local("2026-03-11T10:30", "2026-03-11T11:00"), None).expect("the slot is free");
    let weekly = every(Every::Week(vec![1, 3]), Until::Count(4));
    let when = local("2026-03-09T10:00", "2026-03-09T11:00");
    let version = room.version();
    let result = conflicts(reserve(&mut room, "jour", &when, Some(&weekly)));
    assert_eq!(result, ["booking/x is there from 2026-03-11T10:30 to 2026-03-11T11:00"]);
    assert_eq!((room.version(), names(&room)), (version, vec!["x".into()]));
    room.apply(&room.decide_cancel(&named("x"), false, request(2)).expect("the booking exists"));
    reserve(&mut room, "jour", &when, Some(&weekly)).expect("the slot is free");
    assert_eq!(names(&room), ["jour.1", "jour.2", "jour.3", "jour.4"]);
    assert_eq!(reserve(&mut room, "jour", &when, None), Err(Refusal::IdInUse(id("jour"))));
    room.apply(&room.decide_cancel(&named("jour.2"), false, request(3)).expect("the booking exists"));
    assert_eq!(names(&room), ["jour.1", "jour.3", "jour.4"]);
    whole(&room);
    room.apply(&room.decide_cancel(&named("jour"), true, request(4)).expect("some bookings exist"));
    assert_eq!(names(&room), [""; 0]);
    assert_eq!(room.decide_cancel(&named("jour"), true, request(5)), Err(Refusal::NoSuchBooking(id("jour"))));
    reserve(&mut room, "jour", &when, None).expect("the name is free again");
    whole(&room);
}

#[test]
fn skipped_and_ambiguous_times_are_conflicts_of_a_series() {
    let mut room = resource(|details| details.zone = "Europe/Berlin".into());
    let daily = every(Every::Day, Until::Date("2026-03-30".into()));
    let result = reserve(&mut room, "early", &local("2026-03-28T02:15", "2026-03-28T02:45"), Some(&daily));
    assert_eq!(conflicts(result), ["2026-03-29T02:15: this time does not exist: the clocks go forward over it"]);
    let result = reserve(&mut room, "once", &local("2026-03-29T02:15", "2026-03-29T03:45"), None);
    assert_eq!(result.map_err(|no| no.code()), Err(502));
    let daily = every(Every::Day, Until::Count(2));
    let result = reserve(&mut room, "late", &local("2026-10-24T01:30", "2026-10-24T02:30"), Some(&daily));
    assert_eq!(conflicts(result), ["2026-10-25T02:30: this time exists twice: the clocks go back over it"]);
    // The same local time, so 25 hours apart.
    reserve(&mut room, "noon", &local("2026-10-24T12:00", "2026-10-24T13:00"), Some(&daily)).expect("the slot is free");
    let begins = room.bookings(Timestamp(0), Timestamp(250_000_000_000_000), 9, None).expect("a good window");
    assert_eq!(begins[1].begin.0 - begins[0].begin.0, 25 * HOUR_MS);
    // A named instant is unambiguous, also within the hour that comes twice.
    let begin = begins[1].begin.0 - 11 * HOUR_MS - HOUR_MS / 2;
    let utc = When::Utc { begin: Timestamp(begin), end: Timestamp(begin + HOUR_MS / 4) };
    reserve(&mut room, "utc", &utc, Some(&every(Every::Day, Until::Count(2)))).expect("the slot is free");
    whole(&room);
}

#[test]
fn a_series_may_conflict_with_itself() {
    let mut room = resource(|_| {});
    let daily = every(Every::Day, Until::Count(3));
    let result = conflicts(reserve(&mut room, "s", &local("2026-01-01T10:00", "2026-01-02T11:00"), Some(&daily)));
    assert_eq!(result, ["booking/s.1 is there from 2026-01-01T10:00 to 2026-01-02T11:00"]);
    put(&mut room, |details| details.capacity = 2).expect("more room");
    reserve(&mut room, "s", &local("2026-01-01T10:00", "2026-01-02T11:00"), Some(&daily)).expect("room for two");
    whole(&room);
}

#[test]
fn invalid_recurrences_are_refused() {
    let mut room = resource(|_| {});
    let when = local("2026-01-01T10:00", "2026-01-01T11:00");
    let mut result = |repeat: Repeat| reserve(&mut room, "s", &when, Some(&repeat)).map_err(|no| no.code());
    assert_eq!(result(every(Every::Day, Until::Count(0))), Err(101));
    assert_eq!(result(every(Every::Day, Until::Count(401))), Err(101));
    assert_eq!(result(every(Every::Day, Until::Count(u32::MAX))), Err(101));
    assert_eq!(result(every(Every::Week(vec![8]), Until::Count(2))), Err(101));
    assert_eq!(result(every(Every::Day, Until::Date("soon".into()))), Err(101));
    assert_eq!(result(Repeat { every: Every::Month, interval: 0, until: Until::Count(2) }), Err(101));
    assert_eq!(result(every(Every::Week(vec![1]), Until::Count(2))), Err(502), "the first is a Thursday");
    assert_eq!(result(every(Every::Week(vec![]), Until::Count(2))), Ok(()));
    let long = "x".repeat(63);
    let result = reserve(&mut room, &long, &when, Some(&every(Every::Month, Until::Count(2))));
    assert_eq!(result.map_err(|no| no.code()), Err(101), "no room for the number of an occurrence");
}

#[test]
fn a_cart_pays_for_every_begun_hour() {
    let mut desk = resource(|_| {});
    let granted = hold(&mut desk, 1, HOUR_MS, 2 * HOUR_MS + 1).expect("the slot is free");
    let (begin, end) = (Timestamp(HOUR_MS), Timestamp(2 * HOUR_MS + 1));
    let content = Content::Slot { begin, end, price: 2_400, details: "".into() };
    assert_eq!(granted.content, Some(content));
    let Err(Reply::Refused { refusal, .. }) = hold(&mut desk, 2, 2 * HOUR_MS, 2 * HOUR_MS + 1) else {
        panic!("granted")
    };
    assert_eq!(refusal.code(), 501);
    let portion = Portion::Slot { begin, end };
    assert_eq!(desk.decide_release(hold_id(1), 2, Some(&portion), false), None, "nothing is released");
    let order = hold_id(1).cart.order();
    let events = desk.decide_sell(hold_id(1), 2, &portion, order, Timestamp(5)).expect("it is held");
    write(&mut desk, events);
    let booked = desk.bookings(begin, Timestamp(HOUR_MS + 1), 1, None).expect("a good window");
    assert_eq!((booked[0].state, booked[0].order), (BookingState::Sold, Some(order)));
    let events = desk.decide_refund(hold_id(1));
    write(&mut desk, events);
    hold(&mut desk, 2, 2 * HOUR_MS, 2 * HOUR_MS + 1).expect("the slot is free again");
    let flat = resource(|details| details.rate.per_ms = None);
    assert_eq!(
        hold(&mut flat.clone(), 1, HOUR_MS, 10 * HOUR_MS).map(|all| all.content.map(|all| all.amount())),
        Ok(Some(1_200))
    );
    let mut dear = resource(|details| details.rate = Rate { per_ms: Some(1), ..details.rate });
    let Err(Reply::Refused { refusal, .. }) = hold(&mut dear, 1, HOUR_MS, 1_000_000_000 + HOUR_MS) else {
        panic!("granted")
    };
    assert_eq!(refusal.code(), 502, "more than a price may be");
    whole(&desk);
}

#[test]
fn pages_continue_after_a_booking_that_is_gone() {
    let mut room = resource(|details| details.capacity = 3);
    for number in 1..=3 {
        hold(&mut room, number, HOUR_MS, 2 * HOUR_MS).expect("room for three");
    }
    let utc = |begin: u64, end: u64| When::Utc { begin: Timestamp(begin * HOUR_MS), end: Timestamp(end * HOUR_MS) };
    reserve(&mut room, "z", &utc(0, 1), None).expect("the slot is free");
    reserve(&mut room, "y", &utc(2, 3), None).expect("the slot is free");
    let all = room.bookings(Timestamp(0), Timestamp(3 * HOUR_MS), 10, None).expect("a good window");
    assert_eq!(all.len(), 5);
    for (place, booking) in all.iter().enumerate() {
        let after = (booking.begin, BookingName::parse(&booking.booking).expect("a page has names of bookings"));
        let mut less = room.clone();
        if let Some(number) = (1..=3).find(|number| after.1 == public(*number)) {
            let events = less.decide_disowned(hold_id(number));
            write(&mut less, events);
        }
        let rest = less.bookings(Timestamp(0), Timestamp(3 * HOUR_MS), 10, Some(&after)).expect("a good window");
        assert_eq!(rest, all[place + 1..]);
    }
    let page = |from, to, limit, after: Option<(Timestamp, BookingName)>| {
        room.bookings(Timestamp(from), Timestamp(to), limit, after.as_ref()).map_err(|no| no.code())
    };
    assert_eq!(page(5, 5, 1, None), Err(502));
    assert_eq!((page(0, 5, 0, None), page(0, 5, 1_001, None)), (Err(101), Err(101)));
    // Named bookings and those of carts are in one order.
    reserve(&mut room, "a", &utc(4, 5), None).expect("the slot is free");
    hold(&mut room, 4, 4 * HOUR_MS, 5 * HOUR_MS).expect("the slot is free");
    reserve(&mut room, "z2", &utc(4, 5), None).expect("the slot is free");
    assert_eq!(names(&room)[5..], ["a".into(), public(4).text(), "z2".into()]);
}

#[test]
fn free_slots_end_before_the_horizon() {
    let mut desk = resource(|details| details.horizon_ms = Some(4 * HOUR_MS));
    let found = |desk: &Resource, length_ms, count| {
        desk.free_slots(Timestamp(0), (Timestamp(0), Timestamp(24 * HOUR_MS)), length_ms, count, (None, 0))
    };
    let hours = |all: &[(u64, u64)]| {
        Ok(all.iter().map(|(from, to)| (Timestamp(from * HOUR_MS), Timestamp(to * HOUR_MS))).collect())
    };
    assert_eq!(found(&desk, 2 * HOUR_MS, 9), hours(&[(0, 2), (2, 4)]));
    hold(&mut desk, 1, HOUR_MS, 2 * HOUR_MS).expect("the slot is free");
    assert_eq!(found(&desk, 2 * HOUR_MS, 9), hours(&[(2, 4)]));
    assert_eq!(found(&desk, HOUR_MS, 1), hours(&[(0, 1)]));
    assert_eq!(found(&desk, 0, 1).map_err(|no| no.code()), Err(502));
    assert_eq!(found(&desk, 1, 0).map_err(|no| no.code()), Err(101));
}

#[test]
fn invalid_details_are_refused() {
    let refused = |details: &ResourceDetails| {
        Resource::decide_put(None, &Rules::default(), details, request(0)).map(|_| ()).map_err(|no| no.code())
    };
    let result = |change: fn(&mut ResourceDetails)| {
        let mut details = details();
        change(&mut details);
        refused(&details)
    };
    assert_eq!(result(|_| {}), Ok(()));
    assert_eq!(result(|details| details.capacity = 0), Err(101));
    assert_eq!(result(|details| details.zone = "Atlantis/City".into()), Err(101));
    assert_eq!(result(|details| details.before_ms = u64::MAX), Err(101));
    assert_eq!(result(|details| details.rate.per_ms = Some(0)), Err(101));
    assert_eq!(result(|details| details.rate.amount = -1), Err(101));
    let hours = |week: [Vec<(u16, u16)>; 7], day: &str| OpeningHours { week, exceptions: vec![(day.into(), vec![])] };
    let mut wrong = details();
    for (week, day) in [([(); 7].map(|()| vec![(600, 500)]), "2026-12-24"), ([(); 7].map(|()| vec![]), "Christmas")] {
        wrong.hours = Some(hours(week, day));
        assert_eq!(refused(&wrong), Err(101));
    }
    // Its currency stays, also while nothing is held.
    let mut desk = resource(|_| {});
    let pounds = crate::money::Currency::new("GBP").expect("three letters");
    let (entity, currency) = (Entity::Resource(id("desk1")), euros(0).currency);
    let fixed = Refusal::CurrencyFixed { entity, currency, asked_currency: pounds };
    assert_eq!(put(&mut desk, |details| details.rate.currency = pounds), Err(fixed));
    put(&mut desk, |details| details.rate.amount = 1).expect("prices may change");
}

#[test]
fn a_put_and_a_booking_under_one_request_id_are_distinguished() {
    let mut desk = resource(|_| {});
    let first = desk.view();
    let when = When::Utc { begin: Timestamp(HOUR_MS), end: Timestamp(2 * HOUR_MS) };
    let booked = desk.decide_reserve(NOW, &id("b"), &when, None, &"".into(), request(1));
    desk.apply(&booked.expect("the slot is free"));
    put(&mut desk, |details| details.capacity = 2).expect("room");
    let known = desk.put_answered(request(0), &first.details);
    assert_eq!(known, Some(Ok((Answer::Resource(first), 1))), "with the bookings of then");
    assert_eq!(desk.put_answered(request(1), &details()), Some(Err(Refusal::RequestIdReused)));
    assert_eq!(desk.answered(request(0)), Some(Err(Refusal::RequestIdReused)));
    assert!(matches!(desk.answered(request(1)), Some(Ok((KeptAnswer::Booked(_), _)))));
}

#[derive(Clone, Debug)]
enum Step {
    Hold { hold: u64, revision: u64, begin: u64, length: u64 },
    Release { hold: u64, revision: u64, last: bool },
    Sell { hold: u64, revision: u64 },
    Refund(u64),
    Revoke(u64),
    Reserve { name: u64, begin: u64, length: u64 },
    Cancel(u64),
    Move { name: u64, begin: u64, length: u64 },
    Put { capacity: u32, gap: u64 },
    Again(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Live { revision: u64, asked: (u64, u64) },
    Released(u64),
    Sold((u64, u64)),
    Refunded,
}

struct Reference {
    capacity: u32,
    gap: u64,
    holds: BTreeMap<u64, Fate>,
    named: BTreeMap<u64, (u64, u64)>,
    /// Holds and sales that an operator has canceled.
    revoked: BTreeSet<u64>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (hold, revision, begin, length) = (0..5u64, 1..5u64, 0..16u64, 0..5u64);
    let step = prop_oneof![
        6 => (hold.clone(), revision.clone(), begin.clone(), length.clone())
            .prop_map(|(hold, revision, begin, length)| Step::Hold { hold, revision, begin, length }),
        3 => (hold.clone(), revision.clone(), any::<bool>())
            .prop_map(|(hold, revision, last)| Step::Release { hold, revision, last }),
        2 => (hold.clone(), revision.clone()).prop_map(|(hold, revision)| Step::Sell { hold, revision }),
        1 => hold.clone().prop_map(Step::Refund),
        1 => hold.clone().prop_map(Step::Revoke),
        6 => (0..4u64, begin.clone(), length.clone())
            .prop_map(|(name, begin, length)| Step::Reserve { name, begin, length }),
        2 => (0..4u64).prop_map(Step::Cancel),
        4 => (0..4u64, begin.clone(), length.clone()).prop_map(|(name, begin, length)| Step::Move { name, begin, length }),
        1 => (1..3u32, 0..2u64).prop_map(|(capacity, gap)| Step::Put { capacity, gap }),
        3 => (0..20usize).prop_map(Step::Again),
    ];
    list(step, 1..25)
}

/// A long name that needs its own allocation, or a short one.
fn name(number: u64) -> Id {
    id(if number == 0 { "a" } else { ["b", "c", "d"][number as usize - 1] })
}

impl Reference {
    fn slots(&self) -> impl Iterator<Item = (u64, u64)> {
        let of_holds = self.holds.values().filter_map(|fate| match fate {
            Fate::Live { asked, .. } => Some(*asked),
            Fate::Sold(slot) => Some(*slot),
            Fate::Released(_) | Fate::Refunded => None,
        });
        of_holds.chain(self.named.values().copied())
    }

    /// Checks every instant of the slot and the time around it.
    fn fits(&self, (begin, end): (u64, u64), except: Option<(u64, u64)>) -> bool {
        let mut all: Vec<(u64, u64)> = self.slots().collect();
        if let Some(except) = except {
            let place = all.iter().position(|slot| *slot == except).expect("the slot is booked");
            all.remove(place);
        }
        let there = |at: u64| all.iter().filter(|(from, to)| *from <= at && at < to + self.gap).count();
        (begin..end + self.gap).all(|at| there(at) < self.capacity as usize)
    }

    /// The number of the refusal of a slot, if it is refused.
    fn check(&self, (begin, end): (u64, u64), except: Option<(u64, u64)>) -> Result<(), u16> {
        if begin == end {
            Err(502)
        } else if self.fits((begin, end), except) {
            Ok(())
        } else {
            Err(501)
        }
    }

    fn hold(&mut self, hold: u64, revision: u64, asked: (u64, u64)) -> Result<(), Option<u16>> {
        match self.holds.get(&hold) {
            None => {
                self.check(asked, None).map_err(Some)?;
                self.holds.insert(hold, Fate::Live { revision, asked });
                Ok(())
            }
            Some(Fate::Live { asked: before, .. }) if *before == asked => Ok(()),
            Some(Fate::Live { .. }) => Err(Some(105)),
            Some(Fate::Released(_) | Fate::Sold(_) | Fate::Refunded) => Err(None),
        }
    }

    fn step(&mut self, resource: &mut Resource, step: &Step) {
        let utc = |begin: u64, length: u64| When::Utc { begin: Timestamp(begin), end: Timestamp(begin + length) };
        match *step {
            Step::Hold { hold: number, revision, begin, length } => {
                let want = Want::Slot { begin: Timestamp(begin), end: Timestamp(begin + length), details: "".into() };
                let ask = HoldAsk {
                    hold: hold_id(number),
                    revision,
                    want: &want,
                    deadline: Timestamp(5),
                    at: Timestamp(0),
                    holder: None,
                    desk: true,
                    code: None,
                    attributes: &[],
                    customer: None,
                };
                // All requested slots are in the future.
                let result = match resource.decide_hold(Timestamp(0), &ask) {
                    Ok(event) => {
                        write(resource, [event]);
                        Ok(())
                    }
                    Err(Reply::Granted(_)) => Ok(()),
                    Err(Reply::Refused { refusal, .. }) => Err(Some(refusal.code())),
                    Err(Reply::Stale { live, .. }) => {
                        assert!(!live);
                        Err(None)
                    }
                    Err(reply) => panic!("{reply:?}"),
                };
                assert_eq!(result, self.hold(number, revision, (begin, begin + length)), "{step:?}");
            }
            Step::Release { hold, revision, last } => {
                write(resource, resource.decide_release(hold_id(hold), revision, None, last));
                match self.holds.get(&hold) {
                    Some(Fate::Live { revision: known, .. }) if revision > *known => {
                        self.holds.remove(&hold);
                        self.revoked.remove(&hold);
                    }
                    None => {}
                    Some(_) => return,
                }
                if !last {
                    self.holds.insert(hold, Fate::Released(revision));
                }
            }
            Step::Sell { hold, revision } => {
                let (begin, end) = match self.holds.get(&hold) {
                    Some(Fate::Live { revision: known, asked }) if revision > *known => *asked,
                    Some(Fate::Sold(slot)) => *slot,
                    Some(_) | None => return,
                };
                let portion = Portion::Slot { begin: Timestamp(begin), end: Timestamp(end) };
                let order = hold_id(hold).cart.order();
                write(
                    resource,
                    resource.decide_sell(hold_id(hold), revision, &portion, order, NOW).expect("it is held"),
                );
                self.holds.insert(hold, Fate::Sold((begin, end)));
            }
            Step::Refund(hold) => {
                write(resource, resource.decide_refund(hold_id(hold)));
                if let Some(Fate::Live { .. } | Fate::Sold(_)) = self.holds.get(&hold) {
                    self.revoked.remove(&hold);
                    self.holds.insert(hold, Fate::Refunded);
                }
            }
            Step::Revoke(hold) => {
                let decided = resource.decide_cancel(&public(hold), false, request(1));
                let exists = matches!(self.holds.get(&hold), Some(Fate::Live { .. } | Fate::Sold(_)));
                assert_eq!(decided.is_ok(), exists, "{step:?}");
                decided.iter().for_each(|event| resource.apply(event));
                if exists {
                    self.revoked.insert(hold);
                }
            }
            Step::Reserve { name: number, begin, length } => {
                let slot = (begin, begin + length);
                let decided =
                    resource.decide_reserve(NOW, &name(number), &utc(begin, length), None, &"".into(), request(1));
                let expected = if self.named.contains_key(&number) { Err(503) } else { self.check(slot, None) };
                assert_eq!(decided.as_ref().map(|_| ()).map_err(Refusal::code), expected, "{step:?}");
                if let Ok(event) = decided {
                    resource.apply(&event);
                    self.named.insert(number, slot);
                }
            }
            Step::Cancel(number) => {
                let decided = resource.decide_cancel(&BookingName::Named(name(number)), false, request(1));
                assert_eq!(decided.is_ok(), self.named.remove(&number).is_some());
                decided.iter().for_each(|event| resource.apply(event));
            }
            Step::Move { name: number, begin, length } => {
                let slot = (begin, begin + length);
                let decided =
                    resource.decide_move(NOW, &BookingName::Named(name(number)), &utc(begin, length), request(1));
                let expected = match self.named.get(&number) {
                    None => Err(505),
                    Some(old) => self.check(slot, Some(*old)),
                };
                assert_eq!(decided.as_ref().map(|_| ()).map_err(Refusal::code), expected, "{step:?}");
                if let Ok(event) = decided {
                    resource.apply(&event);
                    self.named.insert(number, slot);
                }
            }
            Step::Put { capacity, gap } => {
                put(resource, |details| (details.capacity, details.after_ms) = (capacity, gap)).expect("good terms");
                (self.capacity, self.gap) = (capacity, gap);
            }
            Step::Again(_) => panic!("looked up by the caller"),
        }
    }

    fn compare(&self, resource: &Resource) {
        let listed = resource.bookings(Timestamp(0), Timestamp(100), 100, None).expect("a good window");
        let listed = listed.into_iter().map(|booking| (booking.begin.0, booking.booking, booking.end.0));
        let of_holds = self.holds.iter().filter_map(|(number, fate)| match fate {
            Fate::Live { asked: (begin, end), .. } | Fate::Sold((begin, end)) => {
                Some((*begin, public(*number).text(), *end))
            }
            Fate::Released(_) | Fate::Refunded => None,
        });
        let named =
            self.named.iter().map(|(number, (begin, end))| (*begin, SmolStr::new(name(*number).as_str()), *end));
        let mut slots: Vec<_> = of_holds.chain(named).collect();
        // By begin, then the text that clients see.
        slots.sort_unstable();
        assert_eq!(listed.collect::<Vec<_>>(), slots);
        let unwanted: Vec<HoldId> = self.revoked.iter().map(|number| hold_id(*number)).collect();
        assert_eq!(resource.unwanted(None, 10), unwanted);
        for (number, (begin, end)) in &self.named {
            let slot = resource.calendar.slot_of(&BookingName::Named(name(*number))).expect("the slot is booked");
            assert_eq!((slot.begin().0, slot.end().0), (*begin, *end));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::random_tests::cases(5_000)))]

    #[test]
    fn slots_match_the_reference(steps in steps()) {
        let mut resource = resource(|_| {});
        let mut reference = Reference { capacity: 1, gap: 0, holds: BTreeMap::new(), named: BTreeMap::new(), revoked: BTreeSet::new() };
        for (number, step) in steps.iter().enumerate() {
            let step = match step {
                Step::Again(back) => match steps.get(number.saturating_sub(*back + 1)) {
                    Some(Step::Again(_)) | None => continue,
                    Some(step) => step,
                },
                step => step,
            };
            reference.step(&mut resource, step);
            reference.compare(&resource);
        }
        whole(&resource);
    }
}

#[test]
fn an_unavailable_time_names_every_conflict() {
    let mut desk = resource(|details| details.notice_ms = HOUR_MS);
    let at = Timestamp(10 * HOUR_MS);
    let utc = |begin: u64, end: u64| When::Utc { begin: Timestamp(begin * HOUR_MS), end: Timestamp(end * HOUR_MS) };
    assert_eq!(desk.is_available(at, &utc(11, 12)), Ok(vec![]));
    let event =
        desk.decide_reserve(at, &id("a"), &utc(11, 12), None, &"".into(), request(1)).expect("the slot is free");
    desk.apply(&event);
    let result: Vec<Conflict> = desk.is_available(at, &utc(10, 12)).expect("a good interval");
    assert_eq!(result.len(), 2, "too soon, and taken: {result:?}");
    assert_eq!(desk.is_available(at, &utc(12, 12)).map_err(|no| no.code()), Err(502));
    assert!(matches!(event, ResourceEvent::Reserved { series: None, .. }));
}

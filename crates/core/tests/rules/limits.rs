//! Limits are checked when a request is read or decided. What is stored is read beyond them, so that a limit that is lowered later
//! makes nothing unreadable: no log, snapshot or record would open.

use boxoffice_core::{
    calendar::{BookingKey, BookingName, CAPACITY_MAX, Calendar, OPEN_TIMES_MAX, SLOT_SPAN_MAX_MS, Slot},
    command::{Command, OpeningHours, ResourceCommand, ResourceDetails, When},
    event::{Event, ResourceEvent},
    id::{Entity, ID_BYTES_MAX, Id, Request, RequestHash},
    layout::{LABEL_BYTES_MAX, LAYOUT_SEATS_MAX, Labels, Layout, LayoutError, LayoutNames, Row, Run},
    money::Currency,
    portion::Portion,
    refusal::Refusal,
    rules::Rules,
    seat::{HOLD_SEATS_MAX, Seat, SeatSet},
    stored::{self as form, Decode, Encode},
    time::Timestamp,
};

use crate::{
    fixture::Fixture,
    script::{euros, id, resource},
    states::written_and_read,
};

fn stored<T: Decode>(value: &impl Encode) -> Result<T, String> {
    form::read(&form::append(value, Vec::new()))
}

/// A value that is read and written again as it was.
fn kept<T: Decode + Encode>(value: &impl Encode) -> T {
    let read: T = stored(value).expect("what is stored is not held to the limits of this program");
    assert_eq!(form::append(&read, Vec::new()), form::append(value, Vec::new()));
    read
}

#[test]
fn more_seats_than_a_hold_may_ask_for_are_read() {
    let seats: Vec<Seat> = (0..=HOLD_SEATS_MAX as u16).map(|seat| Seat { row: 0, seat }).collect();
    SeatSet::new(seats.clone()).expect_err("a request for so many is refused");
    let portion: Portion = kept(&(0_u8, &seats));
    assert!(matches!(portion, Portion::Seats(read) if read.as_slice() == seats));
    stored::<SeatSet>(&Vec::<Seat>::new()).expect_err("a set of seats has some");
    stored::<SeatSet>(&[seats[0], seats[0]].as_slice()).expect_err("and none twice");
}

#[test]
fn longer_ids_of_other_characters_are_read() {
    let long = ["ä", &"x".repeat(ID_BYTES_MAX)].concat();
    for text in [&*long, "a b", "a/b"] {
        assert_eq!(Id::new(text), None, "a request with it is refused");
        let read: Id = kept(&text);
        let entity = Entity::Session(read.clone());
        assert_eq!(entity.with_key(|key| key.len()), text.len() + 2);
        assert_eq!(entity.hash_prefix(), entity.clone().hash_prefix());
        let name: BookingName = kept(&text);
        assert_eq!(name, BookingName::Named(read));
    }
    for before_the_first in ["", "!"] {
        stored::<Id>(&before_the_first).expect_err("a search would not find it");
    }
}

#[test]
fn other_currencies_are_read() {
    assert_eq!(Currency::new("x1z"), None, "a request with it is refused");
    assert_eq!(kept::<Currency>(&"x1z").as_str(), "x1z");
    stored::<Currency>(&"EURO").expect_err("there is no room for it");
}

#[test]
fn longer_slots_are_read_and_booked() {
    let long = (Timestamp(1_000), Timestamp(1_000 + SLOT_SPAN_MAX_MS + 1));
    Slot::asked(long.0, long.1).expect_err("a request for it is refused");
    let slot: Slot = kept(&long);
    let key = BookingKey::Named(id("a"));
    let mut calendar: Calendar = kept(&[(&key, &slot)].as_slice());
    assert_eq!(calendar.bookings(long.1, Timestamp(long.1.0 + 1)).count(), 0);
    assert_eq!(calendar.bookings(Timestamp(long.1.0 - 1), long.1).count(), 1);
    assert_eq!(calendar.remove(&key.name()), Some(slot));
    // An instant beyond the last that a request may name.
    kept::<Slot>(&(Timestamp(u64::MAX - 1), Timestamp(u64::MAX)));
    for damaged in [(5, 5), (6, 5), (0, u64::MAX)] {
        stored::<Slot>(&damaged).expect_err("it has no length, or one of thousands of years");
    }
}

#[test]
fn larger_layouts_are_read() {
    let label = "x".repeat(LABEL_BYTES_MAX + 1);
    let row = |count: u16| Row {
        label: (&*label).into(),
        section: None,
        runs: vec![Run {
            gap: 0,
            count,
            labels: Labels::Numbers { first: 7, step: 0 },
            category: id("c"),
            accessible: false,
            points: Vec::new(),
        }],
    };
    let rows = vec![row(u16::MAX); LAYOUT_SEATS_MAX / usize::from(u16::MAX) + 1];
    let names = LayoutNames { sections: vec![(id("nowhere"), Default::default())], ..LayoutNames::default() };
    Layout::new(rows.clone(), None).expect_err("a request with it is refused");
    let layout: Layout = kept(&(&rows, None::<(i32, i32)>, &names));
    assert!(layout.seats() as usize > LAYOUT_SEATS_MAX);
    let last = layout.seats() - 1;
    assert_eq!(layout.index(layout.seat(last)), Some(last));
    assert_eq!((&**layout.row_label(last), &*layout.seat_label(last)), (&*label, "7"));
    assert_eq!(layout.names(), &names);

    // What would break the numbers of seats is refused here, too.
    let broken = |change: fn(&mut Row)| {
        let mut row = row(3);
        change(&mut row);
        stored::<Layout>(&(vec![row], None::<(i32, i32)>, LayoutNames::default())).expect_err("it is damaged");
    };
    broken(|row| row.runs.clear());
    broken(|row| row.runs[0].count = 0);
    broken(|row| row.runs[0].labels = Labels::Names(vec!["a".into()]));
    broken(|row| row.runs[0].labels = Labels::Numbers { first: i32::MAX, step: 1 });
    broken(|row| row.runs = vec![Run { count: u16::MAX, ..row.runs[0].clone() }; 2]);
    let twice = Layout::new(vec![row(2)], None).expect_err("a request with it is refused");
    assert!(matches!(twice, LayoutError::BadLabel { row: 0 }), "{twice}");
}

/// A resource as a program with other rules has put it, in a zone that this one does not know: closed, until it gets another zone.
#[test]
pub(crate) fn a_resource_beyond_the_limits_opens() {
    let mut fixture = Fixture::new(Rules::default());
    let other = ResourceDetails {
        capacity: CAPACITY_MAX + 1,
        before_ms: u64::MAX,
        zone: "Mars/Olympus".into(),
        hours: Some(OpeningHours {
            week: Default::default(),
            exceptions: vec![
                ("a holiday".into(), vec![(0, 1)]),
                ("2026-12-24".into(), vec![(9, 8); OPEN_TIMES_MAX + 1]),
            ],
        }),
        ..resource(euros(1_000))
    };
    let room = Entity::Resource(id("r"));
    let request = Request { id: RequestHash(1), body: 1 };
    let put = ResourceEvent::Put { details: Box::new(other.clone()), request };
    fixture.states.apply(&room, vec![Event::Resource(put)]);
    fixture.states = written_and_read(&fixture.states);

    let mut ask = |request: &str, command: ResourceCommand| {
        let ticket = fixture.send(Some(request), Command::Resource(id("r"), command));
        fixture.run();
        fixture.answers[&ticket].clone().map(|answered| answered.answer)
    };
    let (begin, end) = (Timestamp(3_600_000), Timestamp(7_200_000));
    let reserve = || {
        let when = When::Utc { begin, end };
        ResourceCommand::Reserve { booking: id("b"), when, repeat: None, details: "".into() }
    };
    let refusal = ask("reserve", reserve()).expect_err("nobody knows when it is open");
    assert!(matches!(refusal, Refusal::OutsideHours(_)), "{refusal:?}");
    ask("same", ResourceCommand::Put(Box::new(other))).expect_err("a request with it is refused");
    ask("put", ResourceCommand::Put(Box::new(resource(euros(1_000))))).expect("a zone that is known");
    ask("again", reserve()).expect("it is open");
}

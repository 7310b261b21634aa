//! What things weigh.

use std::sync::Arc;

use boxoffice_core::{
    command::{CartCommand, Command, Want, WantedLine},
    id::{CartId, Entity},
    keep::State,
    seat::{Seat, SeatSet},
    time::Rules,
};

use crate::{
    catalogue::open,
    script::{hold_lines, id, layout},
    town::Town,
};

/// A counter beside each `Arc`, strong and weak.
const ARC: usize = 2 * size_of::<usize>();
/// An entity, a pointer and a call in a B-tree whose nodes are about two thirds full.
const PLACE: usize = (size_of::<Entity>() + size_of::<usize>() + size_of::<Option<u64>>()) * 3 / 2;

#[test]
fn a_free_session_of_200_seats_takes_at_most_400_bytes() {
    let mut town = Town::new(Rules::default());
    let row = "a".repeat(10) + &"b".repeat(10);
    let hall = layout(&[row.as_str(); 10].join("/"));
    open(&mut town, &hall, &["cinema-4711-hall-3", "cinema-4711-hall-4"]);
    let weigh = |town: &Town, name: &str| {
        let state = town.kept.get(&Entity::Session(id(name))).expect("it is open");
        let State::Session(session) = &*state else { panic!("a session is kept as something else") };
        assert_eq!(session.layout().seats(), 200);
        (PLACE + ARC + size_of::<State>() + session.heap_bytes(), Arc::clone(session.layout()))
    };
    let (bytes, first) = weigh(&town, "cinema-4711-hall-3");
    assert!(bytes <= 400, "a free session takes {bytes} bytes");
    println!("a free session of 200 seats takes {bytes} bytes");
    let (_, second) = weigh(&town, "cinema-4711-hall-4");
    assert!(Arc::ptr_eq(&first, &second), "sessions of one hall share its layout");

    // After a hold that was given back it is as light again.
    let seats = SeatSet::new([Seat { row: 3, seat: 3 }]).expect("a seat");
    let want = Want::Seats { seats, best_effort: false };
    let hold = hold_lines(vec![WantedLine { entity: Entity::Session(id("cinema-4711-hall-3")), want }]);
    town.send(Some("hold"), Command::Cart(CartId(1), hold));
    town.run();
    assert!(weigh(&town, "cinema-4711-hall-3").0 > bytes);
    town.send(Some("cancel"), Command::Cart(CartId(1), CartCommand::Cancel));
    town.run();
    assert_eq!(weigh(&town, "cinema-4711-hall-3").0, bytes);
}

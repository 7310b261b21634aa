//! Memory of states.

use std::sync::Arc;

use boxoffice_core::{
    cart::Cart,
    command::{CartCommand, Command, ProductCommand, ResourceCommand, SessionCommand, Want, WantedLine},
    holder::Holder,
    id::{CartId, Entity},
    rules::Rules,
    seat::{Seat, SeatSet},
    state_map::State,
    stored,
    time::Timestamp,
};

use crate::{
    catalogue::open,
    fixture::Fixture,
    script::{hold_lines, id, layout, pay},
};

/// A counter beside each `Arc`, strong and weak.
const ARC: usize = 2 * size_of::<usize>();
/// An entity, a pointer and a call in a B-tree whose nodes are about two thirds full.
const PLACE: usize = (size_of::<Entity>() + size_of::<usize>() + size_of::<Option<u64>>()) * 3 / 2;

#[test]
fn a_free_session_of_200_seats_takes_at_most_400_bytes() {
    let mut fixture = Fixture::new(Rules::default());
    let row = "a".repeat(10) + &"b".repeat(10);
    let hall = layout(&[row.as_str(); 10].join("/"));
    open(&mut fixture, &hall, &["cinema-4711-hall-3", "cinema-4711-hall-4"]);
    let weigh = |fixture: &Fixture, name: &str| {
        let state = fixture.states.get(&Entity::Session(id(name))).expect("it is open");
        let State::Session(session) = &*state else { panic!("not a session") };
        assert_eq!(session.layout().seats(), 200);
        (PLACE + ARC + size_of::<State>() + session.heap_bytes(), Arc::clone(session.layout()))
    };
    let (bytes, first) = weigh(&fixture, "cinema-4711-hall-3");
    assert!(bytes <= 400, "a free session takes {bytes} bytes");
    println!("a free session of 200 seats takes {bytes} bytes");
    let (_, second) = weigh(&fixture, "cinema-4711-hall-4");
    assert!(Arc::ptr_eq(&first, &second), "sessions of one hall share its layout");

    // After a release it is as small as before.
    let seats = SeatSet::new([Seat { row: 3, seat: 3 }]).expect("a seat");
    let want = Want::seats(seats, false);
    let hold = hold_lines(vec![WantedLine::new(Entity::Session(id("cinema-4711-hall-3")), want)]);
    fixture.send(Some("hold"), Command::Cart(CartId(1), hold));
    fixture.run();
    assert!(weigh(&fixture, "cinema-4711-hall-3").0 > bytes);
    fixture.send(Some("cancel"), Command::Cart(CartId(1), CartCommand::Cancel));
    fixture.run();
    assert_eq!(weigh(&fixture, "cinema-4711-hall-3").0, bytes);
}

/// An open cart with one line and one remembered answer.
#[test]
fn an_open_cart_with_one_line_takes_some_hundreds_of_bytes() {
    let mut fixture = Fixture::new(Rules::default());
    open(&mut fixture, &layout("aaaa"), &["cinema-4711-hall-3"]);
    let product = Box::new(crate::script::product(crate::script::euros(250), 9));
    fixture.send(Some("put"), Command::Product(id("product-4711"), ProductCommand::Put(product)));
    let room = Box::new(crate::script::resource(crate::script::euros(250)));
    fixture.send(Some("put"), Command::Resource(id("room-4711"), ResourceCommand::Put(room)));
    fixture.run();
    let seats = SeatSet::new([Seat { row: 0, seat: 0 }, Seat { row: 0, seat: 1 }]).expect("two seats");
    let session = Entity::Session(id("cinema-4711-hall-3"));
    let slot = Want::Slot { begin: Timestamp(3_600_000), end: Timestamp(7_200_000), details: "".into() };
    let lines = [
        ("two seats", session, Want::seats(seats, false)),
        ("one unit", Entity::Product(id("product-4711")), Want::Units { quantity: 1, now: false }),
        ("one slot", Entity::Resource(id("room-4711")), slot),
    ];
    for (number, (name, entity, want)) in (1..).zip(lines) {
        fixture.send(Some("hold"), Command::Cart(CartId(number), hold_lines(vec![WantedLine::new(entity, want)])));
        fixture.run();
        let state = fixture.states.get(&Entity::Cart(CartId(number))).expect("it is open");
        let State::Cart(cart) = &*state else { panic!("not a cart") };
        let bytes = PLACE + ARC + size_of::<State>() + size_of::<Cart>() + cart.heap_bytes();
        println!("a cart with {name} takes {bytes} bytes, {} of them on its heap", cart.heap_bytes());
        assert!(cart.heap_bytes() > 0 && bytes <= 1_000, "a cart with {name} takes {bytes} bytes");
    }
}

/// A session created with blocked seats.
#[test]
fn a_block_of_seats_takes_few_bytes_beyond_the_first() {
    let mut fixture = Fixture::new(Rules::default());
    open(&mut fixture, &layout(&vec!["a".repeat(20); 10].join("/")), &["s"]);
    let mut weigh = |request: &str, number: u16| {
        let block = SessionCommand::Block(vec![Seat { row: 0, seat: number }]);
        fixture.send(Some(request), Command::Session(id("s"), block));
        fixture.run();
        let state = fixture.states.get(&Entity::Session(id("s"))).expect("it is open");
        let State::Session(session) = &*state else { panic!("not a session") };
        session.heap_bytes()
    };
    let first = weigh("1", 1);
    println!("a session of 200 seats with one block has {first} bytes on its heap");
    assert_eq!(weigh("2", 2), first + 24);
}

/// A remembered put does not store the content of the put.
#[test]
fn a_remembered_put_takes_40_bytes() {
    let mut fixture = Fixture::new(Rules::default());
    open(&mut fixture, &layout("aaaa"), &["s"]);
    let mut product = crate::script::product(crate::script::euros(250), 9);
    product.properties = vec![("text".into(), "x".repeat(1_000).into())];
    let mut weigh = |request: &str| {
        let put = ProductCommand::Put(Box::new(product.clone()));
        let ticket = fixture.send(Some(request), Command::Product(id("p"), put));
        fixture.run();
        assert!(fixture.answers[&ticket].is_ok());
        let state = fixture.states.get(&Entity::Product(id("p"))).expect("the entity was put");
        let State::Product(product) = &*state else { panic!("not a product") };
        product.heap_bytes()
    };
    let first = weigh("1");
    assert_eq!(weigh("2"), first + 40);
    assert_eq!(weigh("2"), first + 40, "a repeat is remembered already");
    let many: Vec<usize> = (3..100).map(|number| weigh(&number.to_string())).collect();
    assert_eq!(many.last(), Some(&(first + 31 * 40)), "the newest 32 are remembered");
}

/// The bytes of all events of a purchase of five seats, with or without a share.
fn bytes_of_a_purchase(holder: Option<Holder>) -> usize {
    let mut fixture = Fixture::new(Rules::default());
    open(&mut fixture, &layout(&vec!["a".repeat(20); 10].join("/")), &["hamlet-tonight"]);
    // Instants of today take more bytes than those of a test, whose session has a date of its own.
    fixture.now = Timestamp(1_795_000_000_000);
    fixture.distance_ms = -1_795_000_000_000;
    let before = fixture.log.len();
    let seats = SeatSet::new((0..5).map(|seat| Seat { row: 3, seat })).expect("five seats");
    let entity = Entity::Session(id("hamlet-tonight"));
    let lines = vec![WantedLine::new(entity, Want::seats(seats, false))];
    let hold = CartCommand::Hold { lines, customer: None, guest: true, holder, attributes: Vec::new() };
    fixture.send(Some("hold"), Command::Cart(CartId(u128::MAX / 3), hold));
    fixture.run();
    fixture.send(Some("pay"), Command::Cart(CartId(u128::MAX / 3), pay(None, None)));
    fixture.run();
    let events = fixture.log[before..].iter();
    events.map(|(_, event)| stored::append(event, Vec::new()).len()).sum()
}

/// A purchase whose buyer has a share takes hardly more of the log.
#[test]
fn a_share_takes_few_bytes_of_the_log() {
    let plain = bytes_of_a_purchase(None);
    let shared = bytes_of_a_purchase(Some(Holder { own: u64::MAX / 3, wider: u64::MAX / 5 }));
    println!("a purchase of five seats takes {plain} bytes of the log, {shared} with a share");
    assert!(shared > plain && shared * 100 <= plain * 105, "{plain} bytes, {shared} with a share");
}

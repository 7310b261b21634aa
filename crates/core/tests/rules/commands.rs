//! Commands travel between nodes. Every valid command is decoded as it was encoded, and no invalid one is decoded.

use std::sync::Arc;

use boxoffice_core::{
    command::{
        Admission, CartCommand, ClusterCommand, Command, CustomerCommand, DirectoryCommand, Expect, Machine, Move,
        Payment, ProductCommand, ResourceCommand, SessionCommand, Title, VenueCommand, VenueDetails, Want, WantedLine,
        When,
    },
    id::{CartId, Entity, Id, hash64},
    layout::Layout,
    money::Currency,
    seat::{Seat, SeatSet},
    stored,
    time::Timestamp,
    version::ReadVersions,
};
use proptest::prelude::*;

fn id() -> impl Strategy<Value = Id> {
    "[A-Za-z0-9._:-]{1,64}".prop_map(|text| Id::new(&text).expect("a good id"))
}

fn seats() -> impl Strategy<Value = SeatSet> {
    prop::collection::btree_set((0..50_u16, 0..50_u16), 1..20).prop_map(|seats| {
        SeatSet::new(seats.into_iter().map(|(row, seat)| Seat { row, seat })).expect("one to twenty, none twice")
    })
}

fn machine() -> impl Strategy<Value = Box<Machine>> {
    let address = || "[!-~]{1,40}";
    let reads = prop::option::of(Just(ReadVersions::own()));
    (any::<u128>(), address(), address(), "[!-~]{1,9}", reads).prop_map(|(disk, peer, client, program, versions)| {
        Box::new(Machine { disk, peer: peer.into(), client: client.into(), program: program.into(), versions })
    })
}

fn admission() -> impl Strategy<Value = Admission> {
    prop_oneof![
        Just(Admission::Nothing),
        any::<[u8; 32]>().prop_map(Admission::Invitation),
        any::<[u8; 32]>().prop_map(Admission::AdminProof),
        Just(Admission::Vouched),
    ]
}

fn to_cluster() -> impl Strategy<Value = ClusterCommand> {
    let node = 1..65_536_u64;
    let nodes = prop::collection::vec(1..65_536_u64, 0..4);
    let one = (any::<u16>(), nodes.clone(), nodes, node.clone());
    let one = one.prop_map(|(shard, voters, learners, leader)| Move { shard, voters, learners, leader });
    prop_oneof![
        (node.clone(), machine(), any::<u16>(), any::<u8>())
            .prop_map(|(node, machine, shards, replicas)| ClusterCommand::Found { node, machine, shards, replicas }),
        (prop::option::of(node.clone()), machine(), any::<Option<[u8; 32]>>(), admission())
            .prop_map(|(node, machine, proof, admission)| ClusterCommand::Join { node, machine, proof, admission }),
        (any::<[u8; 32]>(), any::<u64>()).prop_map(|(hash, for_ms)| ClusterCommand::Invite { hash, for_ms }),
        (node.clone(), machine()).prop_map(|(node, machine)| ClusterCommand::Arrived { node, machine }),
        (node.clone(), any::<bool>()).prop_map(|(node, force)| ClusterCommand::Drain { node, force }),
        node.clone().prop_map(|node| ClusterCommand::Undrain { node }),
        (node.clone(), any::<bool>()).prop_map(|(node, force)| ClusterCommand::Remove { node, force }),
        node.clone().prop_map(|node| ClusterCommand::Replace { node }),
        node.prop_map(|node| ClusterCommand::Retire { node }),
        (any::<u64>(), prop::collection::vec(one, 0..5))
            .prop_map(|(based_on, moves)| ClusterCommand::Place { based_on, moves }),
        (any::<u16>(), any::<u64>()).prop_map(|(shard, version)| ClusterCommand::Reached { shard, version }),
        Just(ClusterCommand::Get),
        prop::collection::vec(any::<u64>(), 0..3).prop_map(|down| ClusterCommand::FinishUpgrade { down }),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let hold = (any::<u128>(), id(), seats(), any::<bool>(), prop::option::of(id()));
    let hold = hold.prop_map(|(cart, session, seats, best_effort, customer)| {
        let line = WantedLine::new(Entity::Session(session), Want::seats(seats, best_effort));
        Command::Cart(
            CartId(cart),
            CartCommand::Hold { lines: vec![line], customer, guest: false, holder: None, attributes: Vec::new() },
        )
    });
    let pay = (any::<u128>(), "[a-z]{0,9}").prop_map(|(cart, method)| {
        let payment = Payment::Recorded { method: method.into(), transaction_id: "t".into() };
        Command::Cart(
            CartId(cart),
            CartCommand::Checkout { payment, customer: None, shipping: None, expect: Expect::default(), holder: None },
        )
    });
    let put = (id(), ".{0,20}", any::<Option<(i32, i32)>>()).prop_map(|(venue, text, position)| {
        let details = VenueDetails {
            name: text.clone().into(),
            city: text.into(),
            position,
            comments: "".into(),
            zone: None,
            address: "".into(),
        };
        Command::Venue(venue, VenueCommand::Put(details))
    });
    let title = (id(), ".{0,20}", prop::option::of(any::<u64>())).prop_map(|(id, name, duration_ms)| {
        let title =
            Title { name: name.into(), director: "".into(), cast: vec!["x".into()], comments: "".into(), duration_ms };
        Command::Directory(DirectoryCommand::PutTitle(id, title))
    });
    let block = (id(), any::<u16>(), any::<u16>())
        .prop_map(|(session, row, seat)| Command::Session(session, SessionCommand::Block(vec![Seat { row, seat }])));
    let when = (any::<u64>(), any::<u64>())
        .prop_map(|(begin, end)| When::Utc { begin: Timestamp(begin), end: Timestamp(end) });
    let available =
        (id(), when).prop_map(|(resource, when)| Command::Resource(resource, ResourceCommand::IsAvailable(when)));
    let purchases = (id(), any::<u64>(), any::<u32>()).prop_map(|(customer, after, limit)| {
        Command::Customer(customer, CustomerCommand::Purchases { after, limit, epoch: None })
    });
    prop_oneof![
        4 => to_cluster().prop_map(Command::Cluster),
        2 => hold,
        1 => pay,
        1 => put,
        1 => title,
        1 => block,
        1 => available,
        1 => purchases,
        1 => id().prop_map(|product| Command::Product(product, ProductCommand::Get)),
    ]
}

fn written(value: &impl stored::Encode) -> Vec<u8> {
    stored::append(value, Vec::new())
}

fn read<T: stored::Decode>(bytes: &[u8]) -> Option<T> {
    stored::read(bytes).ok()
}

proptest! {
    #[test]
    fn commands_round_trip(command in command()) {
        prop_assert_eq!(read::<Command>(&written(&command)), Some(command));
    }

    /// Any bytes are decoded or refused, and the decoded command encodes to the same value.
    #[test]
    fn any_bytes_are_a_command_or_none(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        #[cfg(debug_assertions)]
        stored::own::only(false);
        if let Some(command) = read::<Command>(&bytes) {
            prop_assert_eq!(read::<Command>(&written(&command)), Some(command));
        }
    }
}

/// Carts store these hashes.
#[test]
fn the_hash_of_a_command_is_pinned() {
    let id = |text| Id::new(text).expect("a good id");
    let command = Command::Product(id("mug"), ProductCommand::Get);
    assert_eq!(written(&command), [0x83, 3, 0x63, b'm', b'u', b'g', 1]);
    assert_eq!(command.hash64(), hash64(&[0x83, 3, 0x63, b'm', b'u', b'g', 1]));
}

#[test]
fn what_would_break_an_index_is_not_decoded() {
    assert_eq!(read::<Id>(&written(&"")), None);
    assert_eq!(read::<Id>(&written(&"hall.1")), Id::new("hall.1"));
    let seat = |seat| Seat { row: 0, seat };
    for seats in [Vec::new(), vec![seat(1), seat(1)], vec![seat(2), seat(1)]] {
        assert_eq!(read::<SeatSet>(&written(&seats)), None, "{seats:?}");
    }
    assert_eq!(read::<SeatSet>(&written(&vec![seat(1), seat(2)])), SeatSet::new([seat(1), seat(2)]).ok());
    for code in ["EU", "EURO"] {
        assert_eq!(read::<Currency>(&written(&code)), None, "{code:?}");
    }
    assert_eq!(read::<Currency>(&written(&"EUR")), Currency::new("EUR"));
    assert_eq!(read::<Arc<Layout>>(&written(&Vec::<u8>::new())), None, "a layout has seats");
}

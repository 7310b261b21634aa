//! Histories of entities are read from archives and the log, under load and after restarts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::Ordering,
};

use boxoffice_core::{
    command::{Command, SessionCommand},
    event::{CartEvent, Event, SessionEvent},
    id::Entity,
    state_map::StateMap,
};
use boxoffice_node::{
    history::{HISTORY_MAX, HistoryEntry},
    node::NodeHandle,
};
use boxoffice_replication::inspect::inspect;
use boxoffice_shard::ShardId;
use boxoffice_storage::{log, snapshot_files::KeepRule};

use crate::leaving::shop::{Machine, Shop, cart, eventually, id, seat_of, session};

/// Entries between two snapshots, for tests whose log must be released. A busy machine puts the turns of all buyers into one entry.
const OFTEN: u64 = 20;

/// The whole history of an entity, page by page.
pub(crate) fn whole(shop: &Shop, entity: &Entity) -> Vec<HistoryEntry> {
    let (mut all, mut before) = (Vec::new(), None);
    loop {
        let page = shop.block_on(shop.handle().history(entity, usize::MAX, before)).expect("a history");
        assert!(page.len() <= HISTORY_MAX);
        let Some(first) = page.first() else { return all };
        before = Some(first.version);
        all.splice(0..0, page);
    }
}

fn check_whole(shop: &Shop, entity: &Entity, version: u64) -> Vec<HistoryEntry> {
    let entries = whole(shop, entity);
    let versions: Vec<u64> = entries.iter().map(|entry| entry.version).collect();
    let gap = versions.iter().zip(1..).find(|(found, expected)| *found != expected);
    assert!(
        gap.is_none() && versions.len() as u64 == version,
        "{entity} has {version} versions, {} were found, the first gap is {gap:?}",
        versions.len()
    );
    assert!(entries.is_sorted_by_key(|entry| (entry.index, entry.version)));
    assert!(entries.is_sorted_by_key(|entry| entry.time));
    let mut kept = StateMap::new();
    for entry in &entries {
        kept.apply(entity, vec![entry.event.clone()]);
    }
    assert_eq!(kept.get(entity).expect("it was made").version(), version);
    entries
}

fn segments(machine: &Machine) -> usize {
    log::segment_numbers(&machine.disk, &machine.config.replication.data_dir.join("log")).expect("a log").len()
}

/// A hold and a sale that a cart and its session decide together are in the histories of both, at one place, and in the inspected log.
#[test]
fn joint_turns_are_in_both_histories_and_in_the_log() {
    let machine = Machine::in_memory();
    let shop = machine.start();
    shop.open(1);
    let decided_together = |number: &u64| {
        let before = shop.counter("boxoffice_joint_turns_total");
        shop.buy(*number).expect("an order");
        shop.counter("boxoffice_joint_turns_total") == before + 2
    };
    let number = (0..16).find(decided_together).expect("half of the carts are in the session's shard");
    let of = |entity: &Entity| -> BTreeSet<(ShardId, u64)> {
        whole(&shop, entity).iter().map(|entry| (entry.shard, entry.index)).collect()
    };
    let places: Vec<(ShardId, u64)> = of(&cart(number)).intersection(&of(&session(0))).copied().collect();
    assert_eq!(places.len(), 2, "the hold and the sale: {places:?}");
    shop.stop();
    let mut turns = BTreeMap::<(ShardId, u64), Vec<Entity>>::new();
    let inspected = inspect(&machine.world(), &machine.config.replication.data_dir, |turn| {
        turns.entry((turn.shard, turn.position.index)).or_default().push(turn.entity.clone());
    });
    assert!(inspected.expect("whole").shards.iter().all(|shard| shard.audit.violations.is_empty()));
    for place in places {
        assert_eq!(turns[&place], [session(0), cart(number)], "{place:?}");
    }
}

#[test]
fn a_seat_is_followed_across_segments_and_restarts() {
    let machine = Machine::in_memory();
    let shop = machine.start();
    shop.open(2);
    shop.buy(0).expect("an order");
    for round in 0..3 {
        shop.rush(1 + round * 1_100..1 + (round + 1) * 1_100, &mut |handle| {
            // Under load every history is consistent.
            let told = shop.block_on(handle.history(&session(0), 50, None)).expect("a history");
            assert!(told.windows(2).all(|two| two[0].version + 1 == two[1].version));
        });
    }
    shop.archives(2, &mut |_| {});

    let check = |shop: &Shop| {
        let entries = check_whole(shop, &session(0), shop.map_version(0));
        let (_, seat) = seat_of(0);
        let of_seat = |entry: &&HistoryEntry| match &entry.event {
            Event::Session(event) => event.change().is_some_and(|(_, seats)| seats.contains(&seat)),
            other => panic!("not an event of a session: {other:?}"),
        };
        let story: Vec<_> = entries.iter().filter(of_seat).map(|entry| &entry.event).collect();
        let [
            Event::Session(SessionEvent::SeatsHeld { hold, .. }),
            Event::Session(SessionEvent::SeatsSold { order, .. }),
        ] = &story[..]
        else {
            panic!("the seat was held and sold: {story:?}")
        };
        let Entity::Cart(first) = cart(0) else { panic!("a cart") };
        assert_eq!((hold.cart, order.cart()), (first, first));
        let bought = check_whole(shop, &cart(0), 4);
        assert!(matches!(&bought[0].event, Event::Cart(CartEvent::Opened { .. })), "{bought:?}");
        assert!(matches!(&bought[3].event, Event::Cart(CartEvent::Delivered { .. })), "{bought:?}");
        let unknown = shop.block_on(shop.handle().history(&session(77), 10, None)).expect("a history");
        assert_eq!(unknown, []);
    };
    check(&shop);
    let last = shop.block_on(shop.handle().history(&session(0), 3, Some(10))).expect("a history");
    assert!(last.iter().map(|entry| entry.version).eq([7, 8, 9]));
    shop.stop();
    let shop = machine.start();
    check(&shop);
    // A crash in the middle of archiving neither loses nor repeats an event.
    shop.rush(4_000..4_900, &mut |_| {});
    machine.disk.stop_after(20);
    let blocked = shop.ask(Command::Session(id("s0"), SessionCommand::Block(vec![seat_of(2_499).1])), Some(5));
    drop(blocked);
    machine.disk.power_cut(&mut || false);
    machine.stores.power_cut(&mut || false);
    shop.drop_after_power_cut();
    let shop = machine.start();
    check(&shop);
    shop.stop();
}

#[test]
fn without_archives_the_history_begins_where_the_log_does() {
    let mut machine = Machine::in_memory();
    machine.config.replication.history_archive_bytes = 0;
    machine.config.replication.snapshot_entries = OFTEN;
    // A busy machine puts many turns into one entry.
    machine.config.replication.snapshot_entries = 20;
    let shop = machine.start();
    shop.open(2);
    shop.rush(0..4_800, &mut |_| {});
    eventually("segments are released", || segments(&machine) < 6);
    let version = shop.map_version(1);
    let entries = whole(&shop, &session(1));
    let first = entries.first().expect("something is in the log").version;
    assert!(first > 1, "the beginning was released");
    assert!(entries.iter().map(|entry| entry.version).eq(first..=version), "the remaining versions have no gap");
    assert_eq!(shop.handle().residents().expect("a good store").archive_bytes, 0);
    shop.stop();
}

#[test]
fn the_oldest_archives_go_first() {
    let mut machine = Machine::in_memory();
    machine.config.replication.history_archive_bytes = 200 << 10;
    machine.config.replication.snapshot_entries = OFTEN;
    let shop = machine.start();
    shop.open(2);
    shop.rush(0..4_000, &mut |_| {});
    shop.archives(4, &mut |_| {});
    // The newest archive appears shortly before the oldest is removed.
    let bytes = || shop.handle().residents().expect("a good store").archive_bytes;
    eventually("the archives stay within their bound", || (1..=200 << 10).contains(&bytes()));
    let entries = whole(&shop, &session(1));
    let first = entries.first().expect("something is left").version;
    assert!(entries.iter().map(|entry| entry.version).eq(first..=shop.map_version(1)));
    shop.stop();
}

/// However large they are, kept snapshots leave half of the room to the archives.
#[test]
fn kept_snapshots_drive_no_archive_away() {
    let mut machine = Machine::in_memory();
    machine.config.replication.history_archive_bytes = 200 << 10;
    machine.config.replication.snapshot_entries = OFTEN;
    machine.config.replication.kept_snapshots = KeepRule { every_ms: 0, count_max: 100 };
    let shop = machine.start();
    shop.open(2);
    // Whether archives were made, and none is there.
    let are_gone = |handle: &NodeHandle| {
        let archived = handle.replication_metrics().archived.load(Ordering::Relaxed);
        archived > 0 && handle.residents().expect("a good store").archive_bytes == 0
    };
    let mut gone = false;
    shop.rush(0..4_000, &mut |handle| gone |= are_gone(handle));
    shop.archives(4, &mut |handle| gone |= are_gone(handle));
    assert!(!gone, "all archives were removed");
    shop.stop();
}

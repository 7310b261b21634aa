//! A session is found as it was at an instant, as a watcher saw it: from kept snapshots and archives, after restarts, and as far back as
//! they reach.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use boxoffice_core::{
    answer::{Answer, MapView},
    command::{Command, SessionCommand},
    id::Entity,
    refusal::Refusal,
    seat::SeatState,
    state_map::{State, StateMap},
    time::Timestamp,
};
use boxoffice_feeds::{FeedEvent, View, Watching};
use boxoffice_node::{
    as_of::{AsOf, AsOfError},
    history::HistoryEntry,
    node::NodeHandle,
};
use boxoffice_storage::snapshot_files::{KeepRule, SnapshotName};
use boxoffice_wire::{
    Encoding,
    feed::{Delta, Snapshot},
    reply::{Event, ServerFrame},
};

use crate::{
    leaving::{
        histories::whole,
        shop::{Machine, Shop, cart, eventually, id, seat_of, session},
    },
    plants::plant,
};

/// How far the time of a shard may be ahead of the wall clock before it is corrected, in milliseconds.
const SHARD_OFF_MS: u64 = 100;

/// A map as a watcher had it, from when it heard of it.
struct Seen {
    heard: Timestamp,
    version: u64,
    seats: Vec<u8>,
}

/// Watches a session until it is stopped.
struct Recorder {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Seen>>,
}

impl Recorder {
    fn start(handle: &NodeHandle, number: u64) -> Recorder {
        let (stop, handle) = (Arc::<AtomicBool>::default(), handle.clone());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let mut watcher = handle.feeds().watcher();
            match watcher.watch(&session(number), View::Whole, None, 0) {
                Ok(Watching::Begun(feed)) => watcher.release(feed),
                Ok(Watching::Awaited) | Err(_) => panic!("the session is here"),
            }
            let mut seen: Vec<Seen> = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                // Nothing may have changed.
                let _ =
                    runtime.block_on(async { tokio::time::timeout(Duration::from_millis(20), watcher.ready()).await });
                watcher.pull(Encoding::MsgPack, 1 << 20, |said| {
                    let FeedEvent::Frame(frame) = said else { panic!("unexpected {said:?}") };
                    let ServerFrame::Feed(_, event) = ServerFrame::read(Encoding::MsgPack, &frame).expect("a frame")
                    else {
                        panic!("not of a feed")
                    };
                    let heard = now();
                    let (version, seats) = match event.read::<Snapshot>(Encoding::MsgPack).expect("an event") {
                        Event::Snapshot(now) => (now.version, now.seats),
                        Event::Delta(delta) => (delta.to, changed(&delta, seen.last().expect("a snapshot"))),
                        Event::Stale(_) | Event::Ended(_) => return,
                    };
                    seen.push(Seen { heard, version, seats });
                });
            }
            seen
        });
        Recorder { stop, thread }
    }

    fn stop(self) -> Vec<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it watched")
    }
}

fn changed(delta: &Delta, before: &Seen) -> Vec<u8> {
    assert_eq!(delta.from, before.version, "a delta is missing");
    let mut seats = before.seats.clone();
    for (index, state) in &delta.changes {
        let (byte, shift) = (*index as usize / 4, index % 4 * 2);
        let bits = match state {
            SeatState::Free => 0,
            SeatState::Held => 1,
            SeatState::Sold => 2,
            SeatState::Blocked => 3,
        };
        seats[byte] = seats[byte] & !(3 << shift) | bits << shift;
    }
    seats
}

fn now() -> Timestamp {
    Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64)
}

fn as_of(shop: &Shop, number: u64, at: Timestamp) -> Result<AsOf, AsOfError> {
    shop.block_on(shop.handle().as_of(&session(number), at))
}

/// The map of each version, by the events of its history.
fn maps(entries: &[HistoryEntry]) -> BTreeMap<u64, MapView> {
    let mut kept = StateMap::new();
    let each = entries.iter().map(|entry| {
        kept.apply(&session(0), vec![entry.event.clone()]);
        match &*kept.get(&session(0)).expect("it was made") {
            State::Session(session) => (entry.version, session.map()),
            other => panic!("{other:?}"),
        }
    });
    each.collect()
}

/// Asks for many instants at which something was heard, and just before.
fn check(shop: &Shop, seen: &[Seen]) {
    let entries = whole(shop, &session(0));
    let maps = maps(&entries);
    for recorded in seen {
        let found = &maps[&recorded.version];
        assert_eq!(found.seats, recorded.seats, "version {}", recorded.version);
    }
    let step = (seen.len() / 40).max(1);
    for recorded in seen.iter().step_by(step).chain(seen.last()) {
        let version_at = |at: Timestamp| entries.iter().rfind(|entry| entry.time <= at).map(|entry| entry.version);
        for at in [recorded.heard, Timestamp(recorded.heard.0 - 1), Timestamp(recorded.heard.0 - 500)] {
            let expected = version_at(at);
            let then = match (as_of(shop, 0, at), expected) {
                (Ok(then), Some(_)) => then,
                (Err(AsOfError::NotYet), None) => continue,
                (other, _) => panic!("{at:?}: {other:?}, and version {expected:?} is expected"),
            };
            assert_eq!(Some(then.state.version()), expected, "{at:?}: {then:?}");
            let map = then.map().expect("a session");
            assert_eq!(map, maps[&map.version], "{at:?}");
            assert!(then.since <= at && then.until.is_none_or(|until| until > at), "{at:?}: {then:?}");
            let Answer::SessionAudit(audit) = then.audit() else { panic!("a session") };
            assert_eq!((audit.counts, audit.violations), (map.counts, Vec::new()), "{at:?}");
        }
        // What a watcher had heard of was decided before.
        let at = Timestamp(recorded.heard.0 + SHARD_OFF_MS);
        let then = as_of(shop, 0, at).expect("it is kept");
        assert!(then.state.version() >= recorded.version, "{at:?}: {then:?}, and {} was heard", recorded.version);
    }
}

/// The kept snapshots of a machine.
fn kept(machine: &Machine) -> Vec<SnapshotName> {
    use boxoffice_env::Disk;
    let names = machine.disk.list(&machine.config.replication.data_dir.join("archive")).expect("archives");
    names.iter().filter_map(|name| SnapshotName::parse(name)).collect()
}

fn keeping(every_ms: u64, count_max: usize) -> Machine {
    let mut machine = Machine::in_memory();
    // A busy machine puts many turns into one entry.
    machine.config.replication.snapshot_entries = 20;
    machine.config.feed_tick_ms = 0;
    machine.config.replication.kept_snapshots = KeepRule { every_ms, count_max };
    machine
}

#[test]
fn a_session_is_found_as_a_watcher_saw_it() {
    plant();
    let machine = keeping(0, 1_000);
    let shop = machine.start();
    shop.open(2);
    let recorder = Recorder::start(shop.handle(), 0);
    for round in 0..4 {
        shop.rush(round * 600..(round + 1) * 600, &mut |_| {});
        let blocked = vec![seat_of(2_499 - round).1];
        let _ = shop.ask(Command::Session(id("s0"), SessionCommand::Block(blocked)), Some(5_000 + round));
        std::thread::sleep(Duration::from_millis(60));
    }
    shop.rush(2_500..3_500, &mut |_| {});
    shop.archives(2, &mut |_| {});
    assert!(kept(&machine).len() > 3, "{:?}", kept(&machine));
    let seen = recorder.stop();
    assert!(seen.len() > 100, "{}", seen.len());
    check(&shop, &seen);

    let made = whole(&shop, &session(0))[0].time;
    assert!(matches!(as_of(&shop, 0, Timestamp(made.0 - 1)), Err(AsOfError::NotYet)));
    assert!(as_of(&shop, 0, made).is_ok_and(|then| then.state.version() == 1));
    let ahead = as_of(&shop, 0, Timestamp(now().0 + 60_000));
    assert!(matches!(ahead, Err(AsOfError::Ahead { .. })), "{ahead:?}");
    let asked = |entity: Entity| shop.block_on(shop.handle().as_of(&entity, made));
    assert!(matches!(asked(session(77)), Err(AsOfError::Refused(Refusal::NotFound(_)))));
    assert!(matches!(asked(cart(1)), Err(AsOfError::OtherKind(_))));
    shop.stop();
    let shop = machine.start();
    check(&shop, &seen);
    // What was decided a moment ago is in it.
    let last = as_of(&shop, 0, now()).expect("a session");
    assert_eq!((last.state.version(), last.until), (shop.map_version(0), None));
    shop.stop();
}

/// When the beginning is gone, snapshots say how things were, and a refusal says from when on.
/// Compares what is kept of session 1 with what was seen. `None` if a moment that was kept is gone
/// meanwhile, or all are kept.
fn compare_from_the_floor(shop: &Shop, seen: &[Seen]) -> Option<()> {
    let (first, last) = (seen[0].heard, seen[seen.len() - 1].heard);
    let floor = match as_of(shop, 1, first) {
        Err(AsOfError::Below { floor }) => floor,
        // No archive has made room for another one so far.
        _ => return None,
    };
    assert!(first < floor && floor < last, "{first:?} {floor:?} {last:?}");
    let kept_at = |at: Timestamp| match as_of(shop, 1, at) {
        Ok(then) => Some(then),
        Err(AsOfError::Below { floor: later }) if later > floor => None,
        other => panic!("{at:?} is kept: {other:?}"),
    };
    let at_floor = kept_at(floor)?;
    match as_of(shop, 1, Timestamp(floor.0 - 1)) {
        Err(AsOfError::Below { floor: same }) if same == floor => {}
        Err(AsOfError::Below { floor: later }) if later > floor => return None,
        other => panic!("just before the floor {floor:?}: {other:?}"),
    }
    assert_eq!(at_floor.floor, Some(floor));
    let after: Vec<&Seen> = seen.iter().filter(|recorded| recorded.heard >= floor).collect();
    assert!(after.len() > 10, "{} from {floor:?} to {last:?}, of all since {first:?}", after.len());
    let by_version: BTreeMap<u64, &Seen> = after.iter().map(|recorded| (recorded.version, *recorded)).collect();
    let mut compared = 0;
    for recorded in after.iter().step_by((after.len() / 30).max(1)) {
        let map_at = |at: u64| Some(kept_at(Timestamp(at))?.map().expect("a session"));
        let (then, later) = (map_at(recorded.heard.0)?, map_at(recorded.heard.0 + SHARD_OFF_MS)?);
        assert!(then.version <= later.version && recorded.version <= later.version);
        for map in [then, later] {
            if let Some(same) = by_version.get(&map.version) {
                assert_eq!(map.seats, same.seats, "version {}", map.version);
                compared += 1;
            }
        }
    }
    assert!(compared > 5, "{compared}");
    Some(())
}

#[test]
fn what_is_older_than_the_archives_and_snapshots_is_refused_with_the_earliest_instant() {
    plant();
    let mut machine = keeping(0, 1_000);
    machine.config.replication.history_archive_bytes = 300 << 10;
    let shop = machine.start();
    shop.open(2);
    let recorder = Recorder::start(shop.handle(), 1);
    shop.rush(0..4_900, &mut |_| {});
    shop.archives(4, &mut |_| {});
    let seen = recorder.stop();
    // Segments are still archived, maybe while this compares.
    eventually("the floor stands still", || compare_from_the_floor(&shop, &seen).is_some());
    shop.stop();
}

#[test]
fn kept_snapshots_are_apart() {
    let machine = keeping(3_600_000, 5);
    let shop = machine.start();
    shop.open(2);
    shop.rush(0..3_400, &mut |_| {});
    shop.archives(2, &mut |_| {});
    let mut shards: Vec<u16> = kept(&machine).iter().map(|name| name.shard).collect();
    assert!(!shards.is_empty());
    shards.dedup();
    assert_eq!(shards.len(), kept(&machine).len(), "one an hour: {:?}", kept(&machine));
    shop.stop();
}

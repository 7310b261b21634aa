//! The replication alone: on a disk in memory, with an owner that records its events.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use boxoffice_core::{
    ask::Opening,
    command::NewSession,
    event::{Event as EntityEvent, SessionEvent},
    id::{Entity, Id},
    layout::{Labels, Layout, Row, Run},
    money::{Currency, Money},
    state_map::StateMap,
    time::Timestamp,
    version::{ClusterVersion, NEWEST, NEXT},
};
use boxoffice_env::{Clock, Disk, MemoryDisk, MemoryStores, OpenMode, OsClock, OsRng, World};
use boxoffice_shard::{EntryKind, Epoch, Input, Position, Record, RejectReason, ShardTime};
use boxoffice_storage::{
    codec, identity,
    log::{self, Kind, Log, LogConfig, Preallocation, Start},
};

use bytes::Bytes;

use crate::{
    config::ReplicationConfig,
    error::ReplicationError,
    owner::{Completion, Event, Owner, ProposedTurn},
    replication::Replication,
    runner::Runner,
    running::{Opened, Running},
    shard_state::Leadership,
};

mod verify;

const SHARD: u16 = 1;
const DIR: &str = "/data";
const SEGMENT_BYTES: u64 = 1 << 20;
/// Time limit of every step, with a wide margin.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The opening of a session with one row of ten seats.
struct NewShow {
    entity: Entity,
    events: Vec<EntityEvent>,
}

impl NewShow {
    fn new() -> NewShow {
        NewShow::named("hamlet-tonight")
    }

    fn numbered(number: usize) -> NewShow {
        NewShow::named(&format!("show-{number}"))
    }

    fn named(name: &str) -> NewShow {
        let id = |text| Id::new(text).expect("a good id");
        let row = Row {
            label: "1".into(),
            section: None,
            runs: vec![Run {
                gap: 0,
                count: 10,
                labels: Labels::Numbers { first: 1, step: 1 },
                category: id("a"),
                accessible: false,
                points: Vec::new(),
            }],
        };
        let session = NewSession {
            id: id(name),
            hall: id("main"),
            title: id("hamlet"),
            starts_at: Timestamp(1_000_000),
            ends_at: Timestamp(2_000_000),
            prices: vec![(id("a"), Money { amount: 1_000, currency: Currency::new("EUR").expect("three letters") })],
            extras: Default::default(),
        };
        let layout = Arc::new(Layout::new(vec![row], None).expect("a good hall"));
        let event = EntityEvent::Session(SessionEvent::Opened(Opening {
            venue: id("globe"),
            session,
            layout,
            zone: Default::default(),
        }));
        NewShow { entity: Entity::Session(id(name)), events: vec![event] }
    }
}

impl Completion for NewShow {
    fn proposed(&mut self) -> impl Iterator<Item = ProposedTurn<'_>> {
        let turn = ProposedTurn { entity: &self.entity, until: 1, events: &mut self.events, reloaded: None };
        (!turn.events.is_empty()).then_some(turn).into_iter()
    }
}

/// Events of the owner, in order.
#[derive(Debug, PartialEq)]
enum Notified {
    Leads(u16, Epoch, ShardTime),
    Committed { completions: usize, changes: Vec<Entity> },
    Dropped(RejectReason),
    Failed(String),
}

#[derive(Clone)]
struct Listener(mpsc::Sender<Notified>);

impl Owner for Listener {
    type Completion = NewShow;
    type Before = ();
    type Change = Entity;

    fn before(_: &StateMap, _: &Entity, _: &[EntityEvent]) -> Option<()> {
        Some(())
    }

    fn change((): (), _: &StateMap, entity: Entity) -> Option<Entity> {
        Some(entity)
    }

    fn lost(entity: Entity) -> Entity {
        entity
    }

    fn under_way(&self) -> usize {
        0
    }

    fn on(&self, event: Event<NewShow, Entity>) {
        let events = match event {
            Event::BecameLeader { shard, leadership: Leadership { epoch, time } } => {
                Notified::Leads(shard, epoch, time)
            }
            Event::Committed { changes, completed } => Notified::Committed { completions: completed.len(), changes },
            Event::Dropped { why, .. } => Notified::Dropped(why),
            Event::BecameFollower { .. }
            | Event::LeaderChanged { .. }
            | Event::Due(_)
            | Event::DirectoryChanged
            | Event::TargetReached { .. }
            | Event::ReadOnlyChanged
            | Event::AvoidanceChanged
            | Event::Checksums { .. } => return,
        };
        // A test that has seen enough no longer receives.
        let _ = self.0.send(events);
    }

    fn failed(&self, error: &ReplicationError) {
        let _ = self.0.send(Notified::Failed(error.to_string()));
    }
}

/// A running replication.
struct TestReplication {
    replication: Arc<Replication<NewShow>>,
    running: Running,
    events: mpsc::Receiver<Notified>,
}

impl TestReplication {
    fn start(disk: &Arc<MemoryDisk>, stores: &Arc<MemoryStores>) -> TestReplication {
        TestReplication::start_with(disk, stores, Arc::new(OsClock::new()))
    }

    fn start_with(disk: &Arc<MemoryDisk>, stores: &Arc<MemoryStores>, clock: Arc<dyn Clock>) -> TestReplication {
        TestReplication::run(TestReplication::open(disk, stores, clock, NEWEST).expect("a data directory"))
    }

    fn run(opened: Opened<NewShow>) -> TestReplication {
        let replication = Arc::clone(&opened.replication);
        let (sender, events) = mpsc::channel();
        let running = opened.start(&Listener(sender)).expect("threads");
        TestReplication { replication, running, events }
    }

    fn open(
        disk: &Arc<MemoryDisk>,
        stores: &Arc<MemoryStores>,
        clock: Arc<dyn Clock>,
        reads_up_to: ClusterVersion,
    ) -> Result<Opened<NewShow>, ReplicationError> {
        TestReplication::open_with(disk, stores, clock, |config| config.reads_up_to = reads_up_to)
    }

    fn open_with(
        disk: &Arc<MemoryDisk>,
        stores: &Arc<MemoryStores>,
        clock: Arc<dyn Clock>,
        change: impl FnOnce(&mut ReplicationConfig),
    ) -> Result<Opened<NewShow>, ReplicationError> {
        let (disk, stores) = (Arc::clone(disk) as _, Arc::clone(stores) as _);
        let world = World { clock, disk, stores, ..World::standalone() };
        let mut config = ReplicationConfig {
            data_dir: PathBuf::from(DIR),
            shards: SHARD,
            log_segment_bytes: SEGMENT_BYTES,
            checksum_entries: 0,
            history_archive_bytes: 0,
            ..ReplicationConfig::default()
        };
        change(&mut config);
        Opened::open(config, &world, Runner::Threads)
    }

    fn next(&self) -> Notified {
        self.events.recv_timeout(TIMEOUT).expect("an event arrives")
    }

    /// The epoch in which this node leads the shard.
    fn epoch(&self) -> Epoch {
        self.leadership().0
    }

    /// The same, and its time.
    fn leadership(&self) -> (Epoch, ShardTime) {
        loop {
            if let Notified::Leads(SHARD, epoch, time) = self.next() {
                return (epoch, time);
            }
        }
    }

    fn propose(&self, epoch: Epoch) {
        self.offer(epoch, NewShow::new());
    }

    fn offer(&self, epoch: Epoch, completion: NewShow) {
        let events = codec::encode(&completion.entity, None, &completion.events);
        let input = Input::Propose { shard: SHARD, epoch, events, joint: None, completion };
        self.replication.replicators.push(SHARD, input);
    }

    fn version(&self) -> Option<u64> {
        let state = self.replication.shard(SHARD).replica.lock().kept.get(&NewShow::new().entity)?;
        Some(state.version())
    }

    /// The remaining events, and how the replication ended.
    async fn stop(self) -> (Vec<Notified>, Result<(), ReplicationError>) {
        self.replication.replicators.stop();
        let ended = self.running.ended().await;
        (self.events.try_iter().collect(), ended)
    }
}

#[tokio::test]
async fn committed_turns_survive_a_power_cut() {
    let (disk, stores) = (Arc::new(MemoryDisk::new()), Arc::new(MemoryStores::new()));
    let shop = TestReplication::start(&disk, &stores);
    let epoch = shop.epoch();
    assert_eq!(shop.version(), None);
    shop.propose(epoch);
    assert_eq!(shop.next(), Notified::Committed { completions: 1, changes: vec![] });
    assert_eq!(shop.version(), Some(1), "applied before its completion is handed out");
    // The process ends at once, and the disk keeps only synced data.
    let kept = Arc::new(disk.copy());
    kept.power_cut(&mut || false);
    kept.process_end();
    shop.stop().await.1.expect("an orderly end");

    let again = TestReplication::start(&kept, &stores);
    again.epoch();
    assert_eq!(again.version(), Some(1));
    again.stop().await.1.expect("an orderly end");
}

/// As a later program leaves it whose cluster has gone on to the next version, but for the identity, which refuses it sooner.
#[tokio::test]
async fn a_log_with_an_entry_of_a_later_version_is_refused_by_name() {
    let (disk, stores) = (Arc::new(MemoryDisk::new()), Arc::new(MemoryStores::new()));
    let shop = TestReplication::start(&disk, &stores);
    shop.epoch();
    shop.stop().await.1.expect("an orderly end");
    let dir = Path::new(DIR);
    let owner = identity::read(&*disk, dir).expect("readable").expect("an identity").disk;
    let append = |payload: Vec<u8>| {
        let config = LogConfig { preallocation: Preallocation::Inline, ..LogConfig::new(owner, SEGMENT_BYTES) };
        let (kept, rng) = (Arc::new(disk.copy()), Arc::new(OsRng));
        let log = Log::open(kept.clone(), rng, &dir.join("log"), config, Start::Existing, &mut |_| {});
        let mut log = log.expect("a log").0;
        let (position, kind) = (Position { index: 9, term: 9 }, EntryKind::Turns);
        let mut record = Vec::new();
        Record::Entry { shard: SHARD, position, kind, payload: payload.into() }.encode(&mut record);
        log.append(Kind::Ordinary, &[&record], &[]).expect("room");
        log.sync().expect("a good disk");
        drop(log);
        TestReplication::open(&kept, &stores, Arc::new(OsClock::new()), NEWEST)
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    let newer = NEWEST.number() + 1;
    let refused = append(vec![newer, 0xFF]).expect_err("the entry is of a later version");
    let expected = format!("an entry was written under version {newer}, this program reads up to {NEWEST}");
    assert!(refused.contains(&expected), "{refused}");
    let other = append(vec![NEWEST.number(), 0xFF]).err();
    assert!(!other.is_some_and(|other| other.contains("version")), "the entry is of this version");
}

/// Clocks that agree and go on. One reading of the wall clock in three takes 300 ms longer, before or after the clock is read.
struct StallingClock {
    base: OsClock,
    stalled_ms: AtomicU64,
    readings: AtomicU64,
}

const STALL_MS: u64 = 300;

impl Clock for StallingClock {
    fn wall_ms(&self) -> u64 {
        let reading = self.readings.fetch_add(1, Ordering::Relaxed);
        let stall_ms = if reading.is_multiple_of(3) { STALL_MS } else { 0 };
        let before_ms = self.stalled_ms.fetch_add(stall_ms, Ordering::Relaxed);
        let stalled_ms = if reading.is_multiple_of(2) { before_ms + stall_ms } else { before_ms };
        NOON_MS + self.base.monotonic_ms() + stalled_ms
    }

    fn monotonic_ns(&self) -> u64 {
        self.base.monotonic_ns() + self.stalled_ms.load(Ordering::Relaxed) * 1_000_000
    }
}

const NOON_MS: u64 = 1_790_000_000_000;

/// How far a shard's true time is ahead of the clock at most, when the node begins to lead ten times, in milliseconds.
async fn ahead_at_starts() -> i64 {
    let (disk, stores) = (Arc::new(MemoryDisk::new()), Arc::new(MemoryStores::new()));
    let (base, zero) = (OsClock::new(), AtomicU64::default);
    let clock = Arc::new(StallingClock { base, stalled_ms: zero(), readings: zero() });
    let mut ahead_ms = i64::MIN;
    for _ in 0..10 {
        let shop = TestReplication::start_with(&disk, &stores, Arc::clone(&clock) as _);
        let (_, time) = shop.leadership();
        // Wall time and monotonic time always differ by as much.
        let wall_ms = NOON_MS + time.mono_base_ms;
        ahead_ms = ahead_ms.max(time.true_ms(time.mono_base_ms) as i64 - wall_ms as i64);
        shop.stop().await.1.expect("an orderly end");
    }
    ahead_ms
}

/// A hold that was promised until 20:00 would end as much too early as the shard's time is ahead at the start of a node.
#[tokio::test]
async fn a_thread_that_is_stopped_between_two_clocks_shortens_no_hold() {
    let ahead_ms = ahead_at_starts().await;
    assert!(ahead_ms <= 1, "a term begins {ahead_ms} ms ahead of the clock");
    // Tests the test.
    boxoffice_core::planted::plant_everywhere("the wall clock is read late");
    let ahead_ms = ahead_at_starts().await;
    boxoffice_core::planted::plant_everywhere("");
    assert!(ahead_ms >= STALL_MS as i64 - 1, "the bug makes a term begin only {ahead_ms} ms ahead");
}

#[tokio::test]
async fn a_change_of_a_watched_entity_is_reported_with_the_turn() {
    let (disk, stores) = (Arc::new(MemoryDisk::new()), Arc::new(MemoryStores::new()));
    let shop = TestReplication::start(&disk, &stores);
    let epoch = shop.epoch();
    let entity = NewShow::new().entity;
    shop.replication.shard(SHARD).replica.lock().watched.begin_here(entity.clone());
    shop.propose(epoch);
    assert_eq!(shop.next(), Notified::Committed { completions: 1, changes: vec![entity] });
    shop.stop().await.1.expect("an orderly end");
}

#[tokio::test]
async fn a_directory_says_its_version_before_anything_is_written_under_it() {
    let (disk, stores) = (Arc::new(MemoryDisk::new()), Arc::new(MemoryStores::new()));
    let open = |reads_up_to| TestReplication::open(&disk, &stores, Arc::new(OsClock::new()), reads_up_to);
    let on_disk = || {
        let file = disk.open(&Path::new(DIR).join("identity.toml"), OpenMode::Read).expect("an identity");
        let mut bytes = vec![0; file.length().expect("a length") as usize];
        file.read_exact_at(&mut bytes, 0).expect("bytes");
        String::from_utf8(bytes).expect("text")
    };
    let says = |version: ClusterVersion| on_disk().contains(&format!("format = {version}\n"));
    let shop = TestReplication::run(open(NEWEST).expect("a new directory"));
    let refused = shop.replication.raise(NEXT).expect_err("the program does not read it").to_string();
    assert_eq!(
        refused,
        format!("other nodes write under version {NEXT}, and this program reads up to {NEWEST}: start a newer release")
    );
    assert!(says(NEWEST));
    shop.stop().await.1.expect("an orderly end");

    let shop = TestReplication::run(open(NEXT).expect("an older directory"));
    assert_eq!(shop.replication.version.get(), NEWEST);
    disk.fail_syncs(true);
    shop.replication.raise(NEXT).expect_err("the identity cannot be synced");
    assert_eq!(
        shop.replication.version.get(),
        NEWEST,
        "nothing is written under a version that a power cut takes away"
    );
    disk.fail_syncs(false);
    shop.replication.raise(NEXT).expect("it can be written");
    shop.replication.raise(NEWEST).expect("it stays as it is");
    assert!(says(NEXT) && shop.replication.version.get() == NEXT);
    shop.stop().await.1.expect("an orderly end");

    let refused = open(NEWEST).map(|_| ()).expect_err("it was raised").to_string();
    assert!(
        refused.contains(&format!("was written under version {NEXT}")) && refused.contains("release next raised it"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_proposal_of_another_term_is_dropped_and_changes_nothing() {
    let (disk, stores) = (Arc::new(MemoryDisk::new()), Arc::new(MemoryStores::new()));
    let shop = TestReplication::start(&disk, &stores);
    let Epoch(epoch) = shop.epoch();
    shop.propose(Epoch(epoch + 1));
    assert_eq!(shop.next(), Notified::Dropped(RejectReason::NotLeader));
    assert_eq!(shop.version(), None);
    shop.stop().await.1.expect("an orderly end");
}

#[tokio::test]
async fn unsynced_turns_are_not_committed() {
    let (disk, stores) = (Arc::new(MemoryDisk::new()), Arc::new(MemoryStores::new()));
    let shop = TestReplication::start(&disk, &stores);
    let epoch = shop.epoch();
    disk.fail_syncs(true);
    shop.propose(epoch);
    let Notified::Failed(why) = shop.next() else { panic!("the replication must fail") };
    assert!(why.contains("sync"), "{why}");
    let (rest, ended) = shop.stop().await;
    assert_eq!(rest, []);
    assert!(matches!(ended, Err(ReplicationError::Log(_))), "{ended:?}");
}

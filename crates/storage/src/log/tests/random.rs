//! Random owners of a log, with processes and power that end at any moment, and random damage.

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng};

use super::*;

/// A step of the random owner of a log.
#[derive(Debug, Clone)]
enum Step {
    Append(usize),
    Sync,
    Seal,
    Checkpoint,
    Release,
    /// The process ends, and the page cache stays.
    Kill,
    /// The power is cut now.
    PowerCut(u64),
    /// The power is cut at some change of the disk during the next steps.
    PowerCutAfter(u64, u64),
    /// The process ends at some change of the disk during the next steps.
    KillAfter(u64),
    /// The disk has room for this many segments.
    Capacity(u64),
    /// One sync fails after this many.
    FailSync(u64),
    /// The next write finds no room after this many bytes.
    ShortWrite(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..3_000_usize).prop_map(Step::Append),
        3 => (10_000..120_000_usize).prop_map(Step::Append),
        8 => Just(Step::Sync),
        1 => Just(Step::Seal),
        3 => Just(Step::Checkpoint),
        2 => Just(Step::Release),
        2 => Just(Step::Kill),
        2 => any::<u64>().prop_map(Step::PowerCut),
        2 => (0..12_u64, any::<u64>()).prop_map(|(after, seed)| Step::PowerCutAfter(after, seed)),
        2 => (0..12_u64).prop_map(Step::KillAfter),
        1 => (1..6_u64).prop_map(Step::Capacity),
        2 => (0..3_u64).prop_map(Step::FailSync),
        2 => (0..5_000_usize).prop_map(Step::ShortWrite),
    ]
}

/// The end of the owner's process, by a power cut with this seed or alone.
#[derive(Debug, Clone, Copy)]
enum End {
    PowerCut(u64),
    Kill,
}

/// The owner knows all appended records, the last durable one and the first needed one.
struct Owner {
    disk: MemoryDisk,
    log: Option<Log>,
    written: Records,
    synced: u64,
    /// All records before this one may have been released.
    needed_from: u64,
    /// The planned end of the process.
    end: Option<End>,
    /// The planned failures of syncs and writes.
    trouble: u32,
    /// The last attempt to open the log failed, so an unsynced end may be skipped already.
    was_refused: bool,
}

impl Owner {
    fn new() -> Owner {
        let disk = MemoryDisk::new();
        let (log, ..) = open(&disk);
        Owner {
            disk,
            log: Some(log),
            written: Records::new(),
            synced: 0,
            needed_from: 0,
            end: None,
            trouble: 0,
            was_refused: false,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Append(size) => self.append(Kind::Ordinary, size),
            Step::Checkpoint => self.append(Kind::Checkpoint, 100),
            Step::Sync => {
                let log = self.log.as_mut().expect("open");
                let synced = log.sync();
                self.after(synced.is_ok());
            }
            Step::Seal => {
                let sealed = self.log.as_mut().expect("open").seal();
                self.after(matches!(sealed, Ok(()) | Err(LogError::Full { .. })));
            }
            Step::Release => {
                let log = self.log.as_mut().expect("open");
                // Everything durable may be released if a later segment has a checkpoint.
                let needed_from = log.synced_seq();
                if log.release(&|_| needed_from) > 0 {
                    self.needed_from = needed_from;
                }
                self.after(true);
            }
            Step::Kill => self.end(End::Kill),
            Step::PowerCut(seed) => self.end(End::PowerCut(seed)),
            Step::PowerCutAfter(after, seed) => {
                self.disk.stop_after(after);
                self.end = Some(End::PowerCut(seed));
            }
            Step::KillAfter(after) => {
                self.disk.stop_after(after);
                self.end = Some(End::Kill);
            }
            Step::Capacity(segments) => {
                // Space is freed from time to time, or the run would stall.
                let bytes = segments * SEGMENT_BYTES_MIN + 5_000;
                self.disk.set_capacity((segments < 5).then_some(bytes));
                self.log.as_mut().expect("open").maintain();
            }
            Step::FailSync(after) => {
                self.disk.fail_sync_after(after);
                self.trouble += 1;
            }
            Step::ShortWrite(bytes) => {
                self.disk.cut_next_write(bytes);
                self.trouble += 1;
            }
        }
    }

    /// The planned end that made a step fail. No step fails without one.
    fn reason(&mut self) -> End {
        let Owner { end, trouble, .. } = self;
        end.unwrap_or_else(|| {
            *trouble = trouble.checked_sub(1).expect("no step fails without a planned fault");
            End::Kill
        })
    }

    fn append(&mut self, kind: Kind, size: usize) {
        let log = self.log.as_mut().expect("open");
        let seq = log.last_seq() + 1;
        let bytes = payload(size, seq as u8);
        let last_entry = LastEntry { shard: 1, last_index: seq };
        match log.append(kind, &[&bytes], &[last_entry]) {
            // A partial write is skipped first, and that record has a number too.
            Ok(given) => {
                assert!((seq..=seq + 1).contains(&given), "{given} after {}", seq - 1);
                self.written.insert(given, bytes);
            }
            Err(LogError::Full { .. }) => {
                assert!((seq - 1..=seq).contains(&log.last_seq()));
                return self.after(true);
            }
            // The power was cut within the write, so the record may have reached the disk.
            Err(LogError::Io { .. }) if self.end.is_some() || self.trouble > 0 => {
                let seq = log.last_seq() + 1;
                self.written.insert(seq, bytes);
                return self.after(false);
            }
            Err(error) => panic!("{error}"),
        }
        self.after(true);
    }

    fn after(&mut self, done: bool) {
        let log = self.log.as_ref().expect("open");
        self.synced = self.synced.max(log.synced_seq());
        if !done {
            let end = self.reason();
            self.end(end);
        }
    }

    fn end(&mut self, end: End) {
        self.end = None;
        match end {
            End::Kill => self.disk.process_end(),
            End::PowerCut(seed) => {
                let mut random = SmallRng::seed_from_u64(seed);
                let share = random.random_range(0.0..=1.0);
                self.disk.power_cut(&mut || random.random_bool(share));
            }
        }
        self.reopen();
    }

    fn reopen(&mut self) {
        self.log = None;
        let opened = open_with(&self.disk, config());
        let (log, recovery, records) = match opened {
            Ok(opened) => opened,
            // The power was cut while the log was opened.
            Err(LogError::Io { .. }) if self.end.is_some() || self.trouble > 0 => {
                self.was_refused = true;
                let end = self.reason();
                return self.end(end);
            }
            Err(error) => panic!("{error}"),
        };
        let torn_end = recovery.torn_end.as_ref().map(|torn_end| torn_end.seq);
        assert!(torn_end.is_none_or(|torn_end| torn_end > self.synced), "a durable record is cut off");
        assert!(recovery.last_seq >= self.synced, "durable records are gone");
        // Another record has replaced it.
        self.written.retain(|seq, _| Some(*seq) != torn_end);
        if std::mem::take(&mut self.was_refused) {
            let synced = self.synced;
            self.written.retain(|seq, _| *seq <= synced || records.contains_key(seq));
        }
        assert_eq!(recovery.last_seq, log.last_seq());
        for (seq, bytes) in &records {
            assert_eq!(self.written.get(seq), Some(bytes), "record {seq}");
        }
        let from = records.first_key_value().map_or(u64::MAX, |(&seq, _)| seq);
        for (seq, _) in self.written.range(self.needed_from..=self.synced) {
            assert!(records.contains_key(seq), "record {seq} is missing");
        }
        // There is no hole. All records after the first one are there, except seals.
        for (seq, _) in self.written.range(from.min(recovery.last_seq)..=recovery.last_seq) {
            assert!(*seq < from || records.contains_key(seq), "record {seq} is missing");
        }
        self.written.retain(|seq, _| *seq <= recovery.last_seq);
        self.synced = recovery.last_seq;
        self.log = Some(log);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn nothing_durable_is_ever_lost(steps in proptest::collection::vec(step(), 1..80)) {
        let mut owner = Owner::new();
        for step in steps {
            owner.step(step);
        }
        owner.step(Step::Kill);
    }

    #[test]
    fn random_damage_invents_nothing(
        changes in proptest::collection::vec((0..9_000_u64, 1..600_usize, any::<Option<u64>>()), 1..4),
    ) {
        let disk = MemoryDisk::new();
        let (mut log, ..) = open(&disk);
        for seed in 0..20 {
            put(&mut log, &payload(usize::from(seed) * 20, seed));
            log.sync().unwrap();
        }
        let (_, whole) = inspected(&disk).unwrap();
        for (at, length, random) in changes {
            let mut bytes = vec![0; length];
            if let Some(seed) = random {
                SmallRng::seed_from_u64(seed).fill(&mut bytes[..]);
            }
            file(&disk, FIRST).write_all_at(&bytes, at).unwrap();
        }
        if let Ok((recovery, records)) = inspected(&disk) {
            prop_assert_eq!(recovery.last_seq, records.len() as u64);
            for (seq, bytes) in records {
                prop_assert_eq!(&whole[&seq], &bytes);
            }
        }
    }
}

/// Random owners find the bugs planted in the log, which the simulation hardly ever reaches.
#[cfg(feature = "planted")]
#[test]
fn planted_bugs_are_found() {
    use boxoffice_core::planted::plant;
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

    for bug in ["a record over the remains of a longer one", "a log believed as it is read"] {
        let found = (1..=40_u8).find(|seed| {
            let random = TestRng::from_seed(RngAlgorithm::ChaCha, &[*seed; 32]);
            let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), random);
            let steps = proptest::collection::vec(step(), 1..80).new_tree(&mut runner).expect("steps").current();
            let run = |bug| {
                plant(bug);
                let ended = std::panic::catch_unwind(|| {
                    let mut owner = Owner::new();
                    steps.iter().cloned().for_each(|step| owner.step(step));
                    owner.step(Step::Kill);
                });
                plant(None);
                ended.is_ok()
            };
            assert!(run(None), "owner {seed} fails without a bug");
            !run(Some(bug))
        });
        println!("{bug}: after {found:?} random owners");
        assert!(found.is_some(), "{bug} is not found");
    }
}

//! Several writers of one log: which records a sync covers, and when a segment has a checkpoint.

use super::*;

/// A disk with syncs that last until the test releases them.
mod slow {
    use std::sync::mpsc::{Receiver, Sender};

    use tracing_mutex::parkinglot::Mutex;

    use super::*;
    use boxoffice_env::DiskLock;

    pub(super) struct Slow {
        pub(super) disk: MemoryDisk,
        pub(super) gate: Arc<Gate>,
    }

    /// Reports that a sync has begun, and waits until it may end.
    pub(super) struct Gate {
        pub(super) begun: Mutex<Sender<()>>,
        pub(super) may_end: Mutex<Receiver<()>>,
        pub(super) is_shut: std::sync::atomic::AtomicBool,
    }

    struct SlowFile {
        file: Arc<dyn DiskFile>,
        gate: Arc<Gate>,
    }

    impl DiskFile for SlowFile {
        fn length(&self) -> std::io::Result<u64> {
            self.file.length()
        }

        fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> std::io::Result<()> {
            self.file.read_exact_at(bytes, at)
        }

        fn write_all_at(&self, bytes: &[u8], at: u64) -> std::io::Result<()> {
            self.file.write_all_at(bytes, at)
        }

        fn set_length(&self, length: u64) -> std::io::Result<()> {
            self.file.set_length(length)
        }

        fn sync_data(&self) -> std::io::Result<()> {
            // Later writes are not covered by this sync.
            let synced = self.file.sync_data();
            if self.gate.is_shut.load(std::sync::atomic::Ordering::Relaxed) {
                self.gate.begun.lock().send(()).expect("the test receives");
                self.gate.may_end.lock().recv().expect("the test releases it");
            }
            synced
        }
    }

    impl Disk for Slow {
        fn open(&self, path: &Path, mode: OpenMode) -> std::io::Result<Arc<dyn DiskFile>> {
            let file = self.disk.open(path, mode)?;
            Ok(Arc::new(SlowFile { file, gate: Arc::clone(&self.gate) }))
        }

        fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
            self.disk.rename(from, to)
        }

        fn remove(&self, path: &Path) -> std::io::Result<()> {
            self.disk.remove(path)
        }

        fn sync_dir(&self, dir: &Path) -> std::io::Result<()> {
            self.disk.sync_dir(dir)
        }

        fn list(&self, dir: &Path) -> std::io::Result<Vec<String>> {
            self.disk.list(dir)
        }

        fn create_dir_all(&self, dir: &Path) -> std::io::Result<()> {
            self.disk.create_dir_all(dir)
        }

        fn free_bytes(&self, dir: &Path) -> std::io::Result<u64> {
            self.disk.free_bytes(dir)
        }

        fn lock(&self, path: &Path) -> std::io::Result<Option<Box<dyn DiskLock>>> {
            self.disk.lock(path)
        }
    }
}

/// One writer appends and syncs during the sync of another. Returns the records that a power cut leaves after both
/// syncs succeeded.
fn appended_while_another_syncs(bug: Option<&'static str>) -> Records {
    let disk = MemoryDisk::new();
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (let_go, may_end) = std::sync::mpsc::channel();
    let gate = slow::Gate {
        begun: tracing_mutex::parkinglot::Mutex::new(begun),
        may_end: tracing_mutex::parkinglot::Mutex::new(may_end),
        is_shut: false.into(),
    };
    let gate = Arc::new(gate);
    let slow = slow::Slow { disk: disk.clone(), gate: Arc::clone(&gate) };
    let config = LogConfig { writers: 2, ..config() };
    let (dir, rng) = (Path::new(DIR), Arc::new(OsRng));
    let (log, _) = Log::open(Arc::new(slow), rng, dir, config, Start::New, &mut |_| {}).unwrap();
    let mut writers = GroupCommit::writers(log).into_iter();
    let (mut first, mut second) = (writers.next().unwrap(), writers.next().unwrap());
    gate.is_shut.store(true, std::sync::atomic::Ordering::Relaxed);
    first.append(Kind::Ordinary, b"first", &[]).unwrap();
    let syncs = |writer: LogWriter| {
        std::thread::spawn(move || {
            #[cfg(feature = "planted")]
            planted::plant(bug);
            #[cfg(not(feature = "planted"))]
            assert_eq!(bug, None);
            writer.sync().unwrap()
        })
    };
    let first = syncs(first);
    has_begun.recv().unwrap();
    second.append(Kind::Ordinary, b"second", &[]).unwrap();
    let second = syncs(second);
    // The second writer reaches its sync during the first one's.
    std::thread::sleep(Duration::from_millis(100));
    let_go.send(()).unwrap();
    let_go.send(()).unwrap();
    assert!(first.join().unwrap());
    second.join().unwrap();
    disk.power_cut(&mut || false);
    open(&disk).2
}

#[test]
fn a_record_appended_during_a_sync_waits_for_the_next_sync() {
    let found = appended_while_another_syncs(None);
    assert_eq!(found.into_values().collect::<Vec<_>>(), [b"first".to_vec(), b"second".to_vec()]);
    #[cfg(feature = "planted")]
    assert_eq!(appended_while_another_syncs(Some("a sync that began before taken for one's own")).len(), 1);
}

#[test]
fn a_segment_has_a_checkpoint_when_each_writer_has_written_one() {
    let disk = MemoryDisk::new();
    let (log, _, _) = open_with(&disk, LogConfig { writers: 2, ..config() }).unwrap();
    let mut writers = GroupCommit::writers(log);
    let large = payload(100 << 10, 7);
    let [first, second] = &mut writers[..] else { unreachable!("there are two writers") };
    let fill = |writer: &mut LogWriter| {
        let segments = writer.segments();
        while writer.segments() == segments {
            writer.maintain();
            writer.append(Kind::Ordinary, &large, &[LastEntry { shard: 1, last_index: 5 }]).unwrap();
        }
    };
    fill(first);
    first.append_checkpoint(b"of the first").unwrap();
    assert!(!first.wants_checkpoint() && second.wants_checkpoint());
    first.sync().unwrap();
    assert_eq!(first.release(&|_| u64::MAX), 0, "the second writer's state is only in the old segment");
    second.append_checkpoint(b"of the second").unwrap();
    assert_eq!(first.release(&|_| u64::MAX), 0, "it is not durable");
    second.sync().unwrap();
    assert_eq!(first.release(&|_| 5), 0, "an entry is needed");
    assert_eq!(first.release(&|_| u64::MAX), 1);
    // A process that reads them back does not know their writers.
    fill(second);
    second.append_checkpoint(b"of the second").unwrap();
    writers.into_iter().for_each(|writer| writer.end().unwrap());
    let (mut log, recovery, _) = open(&disk);
    assert!(recovery.clean_stop && log.wants_checkpoint(0));
    assert_eq!(log.release(&|_| u64::MAX), 0);
}

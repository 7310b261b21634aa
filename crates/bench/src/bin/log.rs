//! Syncs a second of a bare prewritten file, our log and raft-engine, in one run on one disk.
//!
//! Each round runs all three, so that a slow spell of the machine hits all alike.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use boxoffice_env::{OsDisk, OsRng};
use boxoffice_storage::log::{Kind, LastEntry, Log, LogConfig, Start};
use clap::Parser;
use hdrhistogram::Histogram;
use raft::eraftpb::Entry;
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize};

const ENTRY_BYTES: usize = 1024;
const BATCHES: [usize; 3] = [1, 16, 256];
/// Entries that the two logs keep. Older ones may be released.
const ENTRIES_KEPT: u64 = 10_000;
/// Appends between two releases.
const RELEASE_EVERY: u64 = 500;

/// Compares syncs per second of a bare file, Boxoffice's log and raft-engine.
#[derive(Parser)]
struct Options {
    /// Where to write; needs about 2 GiB.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Rounds, of which the median is shown.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Milliseconds that each writes in a round.
    #[arg(long, default_value_t = 1_000)]
    millis: u64,
    /// Size of the segments of Boxoffice's log, in MiB.
    #[arg(long, default_value_t = 64)]
    segment_mib: u64,
}

/// One of the three logs.
trait Contender {
    fn name(&self) -> &'static str;

    /// Appends the entries that follow `last_index` and returns once they are durable.
    fn append(&mut self, last_index: u64, entries: &[Vec<u8>]);

    /// Releases the entries up to `index`.
    fn release(&mut self, index: u64);
}

struct Bare {
    file: std::fs::File,
    at: u64,
    length: u64,
    buffer: Vec<u8>,
}

impl Bare {
    fn open(dir: &Path) -> Bare {
        let length = 256 << 20;
        let path = dir.join("bare");
        let file = OpenOptions::new().create_new(true).write(true).open(path).expect("a file");
        let zeros = vec![0; 1 << 20];
        for at in (0..length).step_by(zeros.len()) {
            file.write_all_at(&zeros, at).expect("room on the disk");
        }
        file.sync_all().expect("a disk that syncs");
        Bare { file, at: 0, length, buffer: Vec::new() }
    }
}

impl Contender for Bare {
    fn name(&self) -> &'static str {
        "bare prewritten file"
    }

    fn append(&mut self, _last_index: u64, entries: &[Vec<u8>]) {
        self.buffer.clear();
        entries.iter().for_each(|entry| self.buffer.extend_from_slice(entry));
        if self.at + self.buffer.len() as u64 > self.length {
            self.at = 0;
        }
        self.file.write_all_at(&self.buffer, self.at).expect("a write");
        self.file.sync_data().expect("a sync");
        self.at += self.buffer.len() as u64;
    }

    fn release(&mut self, _index: u64) {}
}

struct Ours(Log);

impl Ours {
    fn open(dir: &Path, segment_mib: u64) -> Ours {
        let config = LogConfig::new(1, segment_mib << 20);
        let (disk, rng) = (Arc::new(OsDisk), Arc::new(OsRng));
        let opened = Log::open(disk, rng, &dir.join("ours"), config, Start::New, &mut |_| {});
        Ours(opened.expect("a log").0)
    }
}

impl Contender for Ours {
    fn name(&self) -> &'static str {
        "boxoffice log"
    }

    fn append(&mut self, last_index: u64, entries: &[Vec<u8>]) {
        if self.0.wants_checkpoint(0) {
            self.0.append(Kind::Checkpoint, &[b"hard states"], &[]).expect("room");
        }
        let parts: Vec<&[u8]> = entries.iter().map(Vec::as_slice).collect();
        let last_entry = LastEntry { shard: 1, last_index: last_index + entries.len() as u64 };
        self.0.append(Kind::Ordinary, &parts, &[last_entry]).expect("room");
        self.0.sync().expect("a sync");
    }

    fn release(&mut self, index: u64) {
        self.0.release(&|_| index + 1);
    }
}

struct RaftEngine(Arc<Engine>);

/// Tells the engine what an entry is.
#[derive(Clone)]
struct Entries;

impl MessageExt for Entries {
    type Entry = Entry;

    fn index(entry: &Entry) -> u64 {
        entry.index
    }
}

impl RaftEngine {
    fn open(dir: &Path) -> RaftEngine {
        let config = Config {
            dir: dir.join("raft-engine").to_string_lossy().into_owned(),
            // The other two do not compress.
            batch_compression_threshold: ReadableSize::kb(0),
            target_file_size: ReadableSize::mb(64),
            purge_threshold: ReadableSize::mb(128),
            ..Config::default()
        };
        let engine = Arc::new(Engine::open(config).expect("an engine"));
        let purged = Arc::downgrade(&engine);
        // Purging blocks, so users of the engine give it a thread.
        std::thread::spawn(move || {
            while let Some(engine) = purged.upgrade() {
                engine.purge_expired_files().expect("a purge");
                drop(engine);
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        RaftEngine(engine)
    }
}

impl Contender for RaftEngine {
    fn name(&self) -> &'static str {
        "raft-engine 0.4"
    }

    fn append(&mut self, last_index: u64, entries: &[Vec<u8>]) {
        let entries: Vec<Entry> = (last_index + 1..)
            .zip(entries)
            .map(|(index, data)| Entry { index, data: data.clone().into(), ..Entry::default() })
            .collect();
        let mut batch = LogBatch::with_capacity(entries.len());
        batch.add_entries::<Entries>(1, &entries).expect("a batch");
        self.0.write(&mut batch, true).expect("a write");
    }

    fn release(&mut self, index: u64) {
        self.0.compact_to(1, index);
    }
}

struct Measured {
    syncs_per_second: f64,
    p50_us: u64,
    p99_us: u64,
}

/// Appends to `contender` for `time`. `last_index` counts its entries across rounds.
fn measure(contender: &mut dyn Contender, last_index: &mut u64, entries: &[Vec<u8>], time: Duration) -> Measured {
    let mut times = Histogram::<u64>::new(3).expect("a histogram");
    let begun = Instant::now();
    while begun.elapsed() < time {
        let append = Instant::now();
        contender.append(*last_index, entries);
        *last_index += entries.len() as u64;
        if (times.len() + 1).is_multiple_of(RELEASE_EVERY) {
            contender.release(last_index.saturating_sub(ENTRIES_KEPT));
        }
        times.record(append.elapsed().as_micros() as u64).expect("it grows");
    }
    Measured {
        syncs_per_second: times.len() as f64 / begun.elapsed().as_secs_f64(),
        p50_us: times.value_at_quantile(0.5),
        p99_us: times.value_at_quantile(0.99),
    }
}

fn median<T: PartialOrd>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort_by(|one, other| one.partial_cmp(other).expect("numbers"));
    let middle = values.len() / 2;
    values.swap_remove(middle)
}

fn compare(options: &Options, batch: usize) {
    let dir = tempfile::tempdir_in(&options.dir).expect("a directory");
    let entries: Vec<Vec<u8>> =
        (0..batch).map(|entry| (0..ENTRY_BYTES).map(|at| (at * 31 + entry * 7) as u8).collect()).collect();
    let mut contenders: [(Box<dyn Contender>, u64, Vec<Measured>); 3] = [
        (Box::new(Bare::open(dir.path())), 0, Vec::new()),
        (Box::new(Ours::open(dir.path(), options.segment_mib)), 0, Vec::new()),
        (Box::new(RaftEngine::open(dir.path())), 0, Vec::new()),
    ];
    for _ in 0..options.rounds {
        for (contender, last_index, rounds) in &mut contenders {
            let time = Duration::from_millis(options.millis);
            rounds.push(measure(&mut **contender, last_index, &entries, time));
        }
    }
    let mut bare = None;
    for (contender, _, rounds) in &contenders {
        let syncs = median(rounds.iter().map(|round| round.syncs_per_second));
        println!(
            "{batch:>5}  {:<22} {syncs:>9.0} {:>9.0} {:>8} {:>8} {:>8.2}",
            contender.name(),
            syncs * batch as f64,
            median(rounds.iter().map(|round| round.p50_us)),
            median(rounds.iter().map(|round| round.p99_us)),
            syncs / *bare.get_or_insert(syncs),
        );
    }
}

fn main() {
    let options = Options::parse();
    assert!(options.rounds > 0, "at least one round is needed");
    println!("{ENTRY_BYTES} bytes an entry, medians of {} rounds of {} ms", options.rounds, options.millis);
    println!(
        "{:>5}  {:<22} {:>9} {:>9} {:>8} {:>8} {:>8}",
        "batch", "log", "syncs/s", "entries/s", "p50 us", "p99 us", "of bare"
    );
    BATCHES.into_iter().for_each(|batch| compare(&options, batch));
}

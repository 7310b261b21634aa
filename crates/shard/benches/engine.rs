//! Turns through one node's engine: taken, appended, written, committed, applied and answered, without a disk.

use std::hint::black_box;
use std::time::Duration;

use boxoffice_shard::{Config, Engine, Epoch, Input, Now, Output, ShardId};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const SHARDS: u16 = 32;
const TURN_BYTES: usize = 150;

/// A node that leads all its shards, and saves every snapshot at once.
struct Driver {
    engine: Engine<u64>,
    epochs: Vec<Epoch>,
    out: Vec<Output<u64>>,
    inputs: Vec<Input<u64>>,
    mono_ms: u64,
}

impl Driver {
    fn new() -> Driver {
        let engine = Engine::restore(Config::founding(1, 1, SHARDS), [], []);
        let mut driver = Driver {
            engine: engine.expect("an empty disk"),
            epochs: vec![Epoch(0); usize::from(SHARDS) + 1],
            out: Vec::new(),
            inputs: Vec::new(),
            mono_ms: 0,
        };
        driver.pass();
        assert!(driver.epochs.iter().all(|epoch| *epoch != Epoch(0)));
        driver
    }

    /// One pass. Returns how many completions it answered.
    fn pass(&mut self) -> u64 {
        self.mono_ms += 1;
        let now = Now { wall_ms: 1_700_000_000_000, mono_ms: self.mono_ms };
        black_box(self.engine.step(now, self.inputs.drain(..)));
        self.engine.persisted(&mut self.out);
        let mut done = 0;
        for output in self.out.drain(..) {
            match output {
                Output::Apply { turns, .. } => turns.iter().for_each(|turn| {
                    black_box(turn);
                }),
                Output::Completed { .. } => done += 1,
                Output::BecameLeader { shard, epoch, .. } => self.epochs[usize::from(shard)] = epoch,
                Output::SnapshotDue { meta } => self.inputs.push(Input::SnapshotSaved {
                    shard: meta.shard,
                    replica: meta.replica,
                    index: meta.position.index,
                }),
                other => panic!("{other:?}"),
            }
        }
        done
    }

    fn propose(&mut self, turns: u64, shards: u16) {
        for completion in 0..turns {
            let place = ShardId::try_from(completion % u64::from(shards)).expect("a shard");
            let shard = 1 + place;
            self.inputs.push(Input::Propose {
                shard,
                epoch: self.epochs[usize::from(shard)],
                events: vec![7; TURN_BYTES],
                joint: None,
                completion,
            });
        }
    }
}

fn turns(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("turns");
    let cases = [
        ("64 a pass over 32 shards", 64, SHARDS),
        ("64 a pass in one shard", 64, 1),
        ("2048 a pass over 32 shards", 2_048, SHARDS),
        ("1 a pass", 1, 1),
    ];
    for (name, turns, shards) in cases {
        group.throughput(Throughput::Elements(turns));
        let mut driver = Driver::new();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                driver.propose(turns, shards);
                assert_eq!(driver.pass(), turns, "one pass finishes them all");
            });
        });
    }
    group.finish();
}

fn idle(criterion: &mut Criterion) {
    let mut driver = Driver::new();
    criterion.bench_function("a tick of 33 idle shards", |bencher| {
        bencher.iter(|| {
            driver.inputs.push(Input::Tick);
            assert_eq!(driver.pass(), 0);
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(20);
    targets = turns, idle
}
criterion_main!(benches);

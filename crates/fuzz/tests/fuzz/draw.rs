//! Collects real bytes for the corpus from simulated clusters.

use std::{collections::BTreeSet, fs};

use boxoffice_core::version::NEWEST;
use boxoffice_env::Lane;
use boxoffice_fuzz::corpus::{self, Seed};
use boxoffice_node::decoders as node;
use boxoffice_shard::{Turns, decoders as shard};
use boxoffice_sim::{Settings, Swarm, run_and_capture_frames};
use bytes::Bytes;

/// The most bytes that are drawn for a target.
const DRAWN_BYTES_MAX: usize = 8 * 1024;

/// Longer inputs are not drawn, because they slow the search down.
const INPUT_BYTES_MAX: usize = 1_500;

#[test]
#[ignore = "it rewrites the corpus; run it after a format change"]
fn draw() {
    let mut drawn = Drawn::default();
    let settings = (1..).map(|seed| Settings { minutes: 4, nodes: 3 + seed % 3, ..Settings::new(seed) });
    // An upgraded cluster writes what only the version after this program's has.
    for settings in settings.filter(|settings| !Swarm::draw(settings).upgrades).take(6) {
        let (_, frames) = run_and_capture_frames(settings).expect("the simulation runs");
        for (lane, frame) in frames {
            drawn.frame(lane, frame);
        }
    }
    drawn.save_all();
}

/// All bytes that were seen, by target.
#[derive(Default)]
struct Drawn {
    consensus: BTreeSet<(usize, Bytes)>,
    raft: BTreeSet<(usize, Bytes)>,
    calls: BTreeSet<(usize, Bytes)>,
    feeds: BTreeSet<(usize, Bytes)>,
    bulk: BTreeSet<(usize, Bytes)>,
    entries: BTreeSet<(usize, Bytes)>,
    turns: BTreeSet<(usize, Bytes)>,
    states: BTreeSet<(usize, Bytes)>,
    stored: BTreeSet<(usize, Bytes)>,
    packed: BTreeSet<(usize, Bytes)>,
}

fn add(to: &mut BTreeSet<(usize, Bytes)>, bytes: Bytes) {
    if bytes.len() <= INPUT_BYTES_MAX {
        to.insert((bytes.len(), bytes));
    }
}

impl Drawn {
    fn frame(&mut self, lane: Lane, frame: Bytes) {
        match lane {
            Lane::Consensus => {
                for (_, message) in node::consensus(&frame).expect("a node sent it").1 {
                    self.message(message);
                }
                add(&mut self.consensus, frame);
            }
            Lane::Calls => add(&mut self.calls, frame),
            Lane::Feeds => add(&mut self.feeds, frame),
            Lane::Bulk => {
                for part in node::bulk_parts(&frame) {
                    if node::stored(&part).is_some() {
                        add(&mut self.stored, part);
                    } else if node::state(&part).is_some() {
                        add(&mut self.states, part);
                    } else {
                        self.message(part);
                    }
                }
                add(&mut self.bulk, frame);
            }
        }
    }

    fn message(&mut self, message: Bytes) {
        let Some((_, entries, snapshot)) = shard::parts(&message) else { return };
        // A change of members has another form, whose first byte may be a later version.
        for entry in entries.into_iter().filter(|entry| entry.first() == Some(&NEWEST.number())) {
            if let Ok((_, turns)) = Turns::read(entry.clone()) {
                turns.slices().for_each(|turn| add(&mut self.turns, turn));
                add(&mut self.entries, entry);
            }
        }
        if shard::packed_snapshot(&snapshot).is_some() {
            add(&mut self.packed, snapshot);
        }
        add(&mut self.raft, message);
    }

    fn save_all(self) {
        let kinds = |bytes: &Bytes| shard::parts(bytes).map(|(kind, ..)| kind).unwrap_or_default();
        let sizes = |bytes: &Bytes| format!("Size{}", bytes.len().ilog2());
        let words = |target: &'static str| move |bytes: &Bytes| node::described(target, bytes).unwrap_or_default();
        save("lane_consensus", &[chosen(&self.consensus, sizes)]);
        save("raft_message", &[chosen(&self.raft, kinds)]);
        save("lane_calls", &[chosen(&self.calls, words("lane_calls"))]);
        save("lane_feeds", &[chosen(&self.feeds, words("lane_feeds"))]);
        save("lane_bulk", &[chosen(&self.bulk, words("lane_bulk")), chosen(&self.packed, sizes)]);
        save("log_entry", &[chosen(&self.entries, sizes), chosen(&self.turns, words("log_entry"))]);
        save("stored", &[chosen(&self.stored, words("stored"))]);
        let states = chosen(&self.states, words("snapshot_state"));
        let meta = chosen(&self.packed, sizes).into_iter().next();
        let snapshots = meta.into_iter().flat_map(|packed| {
            let end = 4 + u32::from_le_bytes(packed[..4].try_into().expect("four")) as usize;
            states
                .iter()
                .take(3)
                .map(|state| Bytes::from([&packed[..end], &[0; 8], &state[..]].concat()))
                .collect::<Vec<_>>()
        });
        save("snapshot_state", &[snapshots.collect(), states]);
    }
}

/// The shortest inputs that cover all words of the descriptions: each adds a word that no shorter one has.
fn chosen(inputs: &BTreeSet<(usize, Bytes)>, describe: impl Fn(&Bytes) -> String) -> Vec<Bytes> {
    let (mut known, mut bytes, mut chosen) = (BTreeSet::new(), 0, Vec::new());
    for (length, input) in inputs {
        let text = describe(input);
        let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let new = words.filter(|word| word.starts_with(|letter: char| letter.is_uppercase())).map(str::to_owned);
        let before = known.len();
        if bytes + length <= DRAWN_BYTES_MAX {
            known.extend(new);
        }
        if known.len() > before {
            bytes += length;
            chosen.push(input.clone());
        }
    }
    chosen
}

/// Replaces the drawn inputs of the corpus.
fn save(target: &str, inputs: &[Vec<Bytes>]) {
    let before = fs::read_to_string(corpus::path(target)).unwrap_or_default();
    let mut text: String =
        before.lines().filter(|line| !line.starts_with("real ")).map(|line| format!("{line}\n")).collect();
    for (number, bytes) in inputs.iter().flatten().enumerate() {
        text.push_str(&corpus::write(&Seed { name: format!("real {}", number + 1), bytes: bytes.to_vec() }));
    }
    println!("{target}: {} inputs, {} bytes", inputs.iter().flatten().count(), text.len());
    fs::write(corpus::path(target), text).expect("the corpus is written");
}

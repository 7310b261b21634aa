//! Single bits of a node's files that are wrong. The node replaces its disk by itself, and nothing that was acknowledged is lost.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::Duration,
};

use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    NODE, THREE,
    cluster::{Cluster, Plan, Stage},
    common::{Buyers, Rng, http, written_to},
};

/// Wrong bits, one after the other.
const FLIPS: usize = 10;
const FLIPS_LONG: usize = 300;

/// Wrong bits between two checks of everything.
const FLIPS_OF_A_STORY: usize = 5;

/// How long a finding that comes late may take: the reads of a start, and the next question whether the disk may be replaced.
const LATE: Duration = Duration::from_millis(1_500);

/// After so many wrong bits in a part, or so many times 100 orders until it has a file, one is found.
const FLIPS_OF_A_PART: usize = 100;

/// Everything that a small node has is read in this time.
const A_PASS: Duration = Duration::from_secs(10);

/// The header of a log segment, in bytes.
const HEAD: usize = 4_096;

/// A part of the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Log,
    Snapshots,
    Store,
    Archive,
    KeptSnapshots,
    Chain,
    Identity,
}

const PARTS: [Part; 7] =
    [Part::Log, Part::Store, Part::Snapshots, Part::Archive, Part::KeptSnapshots, Part::Chain, Part::Identity];

impl Part {
    fn place(self) -> &'static str {
        match self {
            Part::Log => "log",
            Part::Snapshots => "snapshots",
            Part::Store => "history",
            Part::Archive | Part::KeptSnapshots => "archive",
            Part::Chain => "archive/chain",
            Part::Identity => "identity.toml",
        }
    }

    /// Whether a file of its place is of this part.
    fn has(self, file: &Path) -> bool {
        let is_snapshot = file.extension().is_some_and(|extension| extension == "snap");
        let name = file.file_name().and_then(|name| name.to_str());
        match self {
            Part::Archive => !is_snapshot && name != Some("chain"),
            Part::KeptSnapshots => is_snapshot,
            // The names of what a process has open are no data.
            Part::Store => name != Some("lock"),
            Part::Log | Part::Snapshots | Part::Chain | Part::Identity => true,
        }
    }
}

fn files(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_file() {
        found.push(path.to_owned());
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        files(&entry.path(), found);
    }
}

/// Flips one bit of the written part of a file, which its node may have open. `None` if the part has no file that is written.
fn flip_one(data: &Path, part: Part, rng: &mut Rng) -> Option<String> {
    let mut found = Vec::new();
    files(&data.join(part.place()), &mut found);
    found.retain(|file| part.has(file));
    found.sort();
    for _ in 0..20 {
        if found.is_empty() {
            return None;
        }
        let path = &found[rng.below(found.len())];
        // A node that runs may have removed it.
        let Ok(bytes) = fs::read(path) else { continue };
        let Some(written) = bytes.iter().rposition(|byte| *byte != 0) else { continue };
        let at = rng.below(written + 1);
        let Ok(file) = OpenOptions::new().write(true).open(path) else { continue };
        file.write_all_at(&[bytes[at] ^ 1 << rng.below(8)], at as u64).expect("a written byte");
        file.sync_all().expect("a synced file");
        return Some(format!("byte {at} of {} in {}", bytes.len(), path.display()));
    }
    None
}

/// Whether everything that the node has found damaged is replaced.
fn is_mended(output: &str) -> bool {
    let found = ["the data directory is damaged", "a part of the disk cannot be read"];
    let last = found.iter().filter_map(|words| output.rfind(words)).max();
    last.is_none_or(|last| output.rfind("has another disk").is_some_and(|mended| mended > last))
}

/// Replaces a disk as an operator does whose node cannot tell whose its data directory is.
async fn replace_by_hand(cluster: &mut Cluster, node: u64) {
    cluster.lose_disk(node);
    cluster.admin("admin.replace", json!({"node": node})).await;
    cluster.start_node(node).await;
}

/// What a node does while a bit of its files becomes wrong, and afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It is down, and starts.
    Down,
    /// It runs, and starts anew a moment later.
    Restarts,
    /// It runs on until it has read everything that it has, and starts anew then.
    RunsOn,
}

/// The ways of a node that does not read its disk all the time.
const WAYS: [Way; 2] = [Way::Down, Way::Restarts];
const WAYS_LONG: [Way; 3] = [Way::Down, Way::Restarts, Way::RunsOn];

/// A number of `/metrics`. `None` while the node does not answer.
async fn metric(cluster: &Cluster, node: u64, name: &str) -> Option<u64> {
    let (_, text) = http::try_get(cluster.client(node), "/metrics").await?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// Waits until a node has read everything that it has, from now on, or has found something.
async fn has_read_everything(cluster: &Cluster, node: u64) {
    let passes = async || metric(cluster, node, "boxoffice_scrubs_total").await;
    let before = passes().await;
    let until = Instant::now() + 2 * A_PASS;
    // A process that replaces its disk begins to count anew.
    while before.is_some() && Instant::now() < until && is_mended(&cluster.stderr(node)) {
        if passes().await.is_none_or(|passes| Some(passes) < before || passes > before.unwrap_or_default() + 1) {
            return;
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// Waits until a node has replaced what it has found damaged, and all is in order. Returns how long it took.
async fn is_whole(cluster: &Cluster, node: u64, what: &str) -> Duration {
    let began = Instant::now();
    cluster
        .until("the node has mended its disk", async || {
            let output = cluster.stderr(node);
            let damaged = metric(cluster, node, "boxoffice_disk_damaged").await;
            if is_mended(&output) && damaged == Some(0) { Ok(()) } else { Err(format!("{what}: {output}")) }
        })
        .await;
    cluster.ready().await;
    began.elapsed()
}

/// One wrong bit at one node. Returns where, and how long the cluster took at most from a finding until it was whole.
async fn one_flip(
    cluster: &mut Cluster,
    buyers: &mut Buyers,
    (part, way): (Part, Way),
    rng: &mut Rng,
) -> Option<(String, Duration)> {
    let nodes = cluster.running();
    let node = nodes[rng.below(nodes.len())];
    let data = cluster.home(node).data_dir();
    let is_clean = rng.percent(50);
    let end = |cluster: &mut Cluster| if is_clean { cluster.terminate(node) } else { cluster.kill(node) };
    if way == Way::Down {
        end(cluster);
    }
    let flipped = flip_one(&data, part, rng);
    buyers.orders(3).await;
    let place = flipped.as_deref().unwrap_or("there is none");
    let what = format!("node {node}, {part:?}, {way:?}, ends in order: {is_clean}: {place}");
    println!("{what}");
    let mut longest = Duration::ZERO;
    // The identity is read at a start only.
    if way == Way::RunsOn && part != Part::Identity {
        has_read_everything(cluster, node).await;
        longest = is_whole(cluster, node, &what).await;
    }
    if way != Way::Down {
        end(cluster);
    }
    let began = Instant::now();
    if part == Part::Identity && flipped.is_some() {
        let refused = cluster.refused(cluster.command(node)).await;
        assert_eq!(refused.code, Some(NODE), "{what}: {}", refused.stderr);
        assert!(refused.stderr.contains("identity.toml"), "{what}: {}", refused.stderr);
        replace_by_hand(cluster, node).await;
    } else {
        cluster.start_node(node).await;
    }
    cluster.ready().await;
    longest = longest.max(began.elapsed());
    // A store is read in the background.
    sleep(LATE).await;
    let is_late = !is_mended(&cluster.stderr(node));
    let late = is_whole(cluster, node, &what).await;
    if is_late {
        longest = longest.max(LATE + late);
    }
    println!("whole after {longest:?}");
    flipped.map(|_| (what, longest))
}

/// Wrong bits one after the other, in every part of a directory in turn.
async fn flips(test: &str, count: usize, ways: &[Way]) {
    let mut stage = Stage::new(Rng::of_test(test), THREE).await;
    if ways.contains(&Way::RunsOn) {
        read_all_the_time(&mut stage.cluster).await;
    }
    let (mut done, mut tried) = (Vec::new(), 0);
    while done.len() < count {
        stage
            .story(&format!("wrong bits from {} on", done.len()), async |cluster, buyers, rng| {
                buyers.orders(100).await;
                for _ in 0..FLIPS_OF_A_STORY.min(count - done.len()) {
                    let part = PARTS[tried % PARTS.len()];
                    let way = ways[tried % ways.len()];
                    done.extend(one_flip(cluster, buyers, (part, way), rng).await);
                    tried += 1;
                }
            })
            .await;
        // There is no archive before the log has many segments.
        assert!(tried < 2 * count + PARTS.len(), "{tried} times, and {} wrong bits", done.len());
    }
    stage.check_everything().await;
    let (what, longest) = done.iter().max_by_key(|(_, took)| *took).expect("wrong bits");
    println!("{count} wrong bits; the longest time until all was whole: {longest:?} ({what})");
}

/// All nodes read everything that they have, again and again.
async fn read_all_the_time(cluster: &mut Cluster) {
    for node in cluster.running() {
        let file = cluster.home(node).config_file();
        let config = fs::read_to_string(&file).expect("a configuration");
        cluster.home(node).write_config(&config.replace("rest_hours = 0", "rest_hours = 0\nscrub_hours = 0"));
        cluster.terminate(node);
        cluster.start_node(node).await;
    }
    cluster.ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_with_wrong_bits_replace_their_disks() {
    flips("nodes_with_wrong_bits_replace_their_disks", FLIPS, &WAYS).await;
}

/// `BOXOFFICE_FLIPS=100` makes others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: `tests/run long` runs it"]
async fn nodes_with_many_wrong_bits_replace_their_disks() {
    let count = std::env::var("BOXOFFICE_FLIPS").map_or(FLIPS_LONG, |text| text.parse().expect("a number"));
    flips("nodes_with_many_wrong_bits_replace_their_disks", count, &WAYS_LONG).await;
}

/// A process that waits for another disk, with what it has said in a file.
struct Waiting {
    child: Child,
    output: PathBuf,
}

impl Waiting {
    fn start(cluster: &Cluster, node: u64) -> Waiting {
        let output = cluster.home(node).path().join("output");
        let file = fs::File::create(&output).expect("a file");
        let mut command = cluster.command(node);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn().expect("it starts");
        Waiting { child, output }
    }

    async fn says(&self, cluster: &Cluster, words: &str) -> String {
        cluster
            .until(words, async || {
                let said = fs::read_to_string(&self.output).expect("the output");
                if said.contains(words) { Ok(said) } else { Err(said) }
            })
            .await
    }

    fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

/// A segment of a node's log that has more than a few records.
pub(crate) fn used_segment(cluster: &Cluster, node: u64) -> Option<PathBuf> {
    // A node that runs moves its segments to the archives meanwhile.
    let segments = cluster.home(node).segments();
    segments.into_iter().find(|segment| written_to(segment) > 4 * HEAD)
}

/// Kills nodes at an instant at which each has a used segment. A segment that was full may just have gone to the archives, with
/// everything that the log had.
pub(crate) async fn kill_with_used_logs(cluster: &mut Cluster, buyers: &mut Buyers, nodes: &[u64]) {
    let used = |cluster: &Cluster| nodes.iter().all(|&node| used_segment(cluster, node).is_some());
    loop {
        while !used(cluster) {
            buyers.orders(20).await;
        }
        for &node in nodes {
            cluster.kill(node);
        }
        if used(cluster) {
            return;
        }
        cluster.start_nodes(nodes).await;
    }
}

/// The same for a leader and a follower of it. Shards may still move to nodes that have just joined, so the two are chosen when both have
/// a used segment.
async fn kill_two_with_used_logs(cluster: &mut Cluster, buyers: &mut Buyers) -> (u64, u64) {
    loop {
        let one = cluster.a_leader().await;
        let used = |cluster: &Cluster, node: u64| used_segment(cluster, node).is_some();
        let followers = cluster.followers_of(one).await;
        let Some(other) = followers.into_iter().find(|&node| used(cluster, node) && used(cluster, one)) else {
            buyers.orders(20).await;
            continue;
        };
        cluster.kill(one);
        cluster.kill(other);
        if used(cluster, one) && used(cluster, other) {
            return (one, other);
        }
        cluster.start_nodes(&[one, other]).await;
    }
}

/// Changes a record in the first half of the log of a node that does not run, which is surely found. Returns how to undo it.
pub(crate) fn damage_log(cluster: &Cluster, node: u64, rng: &mut Rng) -> impl Fn() + use<> {
    let segment = used_segment(cluster, node).expect("a used segment");
    let bytes = fs::read(&segment).expect("a segment");
    let written = HEAD..(HEAD + written_to(&segment)) / 2;
    let at = written.clone().filter(|at| bytes[*at] != 0).nth(rng.below(written.len() / 4)).expect("a written byte");
    let file = OpenOptions::new().write(true).open(&segment).expect("a segment");
    file.write_all_at(&[bytes[at] ^ 4], at as u64).expect("a written byte");
    let finding = cluster.home(node).data_dir().join("damage");
    move || {
        file.write_all_at(&bytes[at..=at], at as u64).expect("a written byte");
        fs::remove_file(&finding).expect("what was found");
    }
}

/// Two of three nodes have a damaged log. None may replace its disk, and each says so. One is mended by hand, and then the other one
/// replaces its disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_three_nodes_with_wrong_bits_are_refused() {
    two_at_once("two_of_three_nodes_with_wrong_bits_are_refused", THREE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_five_nodes_with_wrong_bits_lose_nothing() {
    two_at_once("two_of_five_nodes_with_wrong_bits_lose_nothing", Plan { nodes: 5, places: 5, ..THREE }).await;
}

async fn two_at_once(test: &str, plan: Plan) {
    let mut stage = Stage::new(Rng::of_test(test), plan).await;
    stage
        .story("two logs are damaged", async |cluster, buyers, rng| {
            buyers.orders(100).await;
            let (one, other) = kill_two_with_used_logs(cluster, buyers).await;
            let _ = damage_log(cluster, one, rng);
            let mend = damage_log(cluster, other, rng);
            let (first, second) = (Waiting::start(cluster, one), Waiting::start(cluster, other));
            for (node, waiting) in [(one, &first), (other, &second)] {
                let said = waiting.says(cluster, "has not replaced it").await;
                for words in ["the log is damaged", &format!("admin replace {node}"), "restore a backup"] {
                    assert!(said.contains(words), "{words:?} is missing: {said}");
                }
                assert!(!said.contains("has another disk"), "{said}");
            }
            first.kill();
            second.kill();
            // What is put back was never forgotten.
            mend();
            // The first one gets another disk once the second one is up.
            cluster.start_nodes(&[one, other]).await;
            assert!(cluster.stderr(one).contains("has another disk"), "{}", cluster.stderr(one));
            assert!(!cluster.stderr(other).contains("has another disk"), "{}", cluster.stderr(other));
        })
        .await;
    stage.check_everything().await;
}

/// Damaged files that a node finds while it runs, because it reads everything again and again: those that can be mended are, and for the
/// others it replaces its disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_found_before_it_matters() {
    let mut stage = Stage::new(Rng::of_test("damage_is_found_before_it_matters"), THREE).await;
    stage
        .story("nodes read what they have", async |cluster, buyers, rng| {
            read_all_the_time(cluster).await;
            buyers.orders(400).await;
            let found = [
                (Part::Snapshots, "a snapshot is damaged; another one is cut"),
                (Part::Archive, "an archive is damaged and is removed"),
                (Part::KeptSnapshots, "a kept snapshot is damaged and is removed"),
                (Part::Chain, "a place of the chains is damaged and is removed"),
                (Part::Log, "has another disk"),
            ];
            for (part, words) in found {
                let nodes = cluster.running();
                let node = nodes[rng.below(nodes.len())];
                let data = cluster.home(node).data_dir();
                let began = Instant::now();
                // There is no archive before the log has many segments. And a node that sells replaces its snapshots and segments, maybe
                // before it reads the damaged one.
                for _ in 0..FLIPS_OF_A_PART {
                    let flipped = match part {
                        Part::Log => flip_cold_record(cluster, node),
                        part => flip_one(&data, part, rng),
                    };
                    match flipped {
                        Some(flipped) => {
                            println!("node {node}, {part:?}: {flipped}");
                            let until = Instant::now() + A_PASS;
                            while !cluster.stderr(node).contains(words) && Instant::now() < until {
                                sleep(Duration::from_millis(100)).await;
                            }
                        }
                        None => buyers.orders(100).await,
                    }
                    if cluster.stderr(node).contains(words) {
                        break;
                    }
                }
                let output = cluster.stderr(node);
                assert!(output.contains(words), "{words}: {output}");
                println!("found after {:?}", began.elapsed());
                cluster.ready().await;
            }
        })
        .await;
    stage.check_everything().await;
    // A damaged snapshot is removed when another one is there.
    sleep(LATE).await;
    stage.cluster.stop();
}

/// Flips a bit of the first record of a segment to which nothing is written any more. `None` if there is none.
fn flip_cold_record(cluster: &Cluster, node: u64) -> Option<String> {
    let segments = cluster.home(node).segments();
    let written: Vec<_> = segments.into_iter().filter(|segment| written_to(segment) > HEAD).collect();
    let (_, cold) = written.split_last()?;
    let segment = cold.last()?;
    let bytes = fs::read(segment).expect("a segment");
    let at = HEAD + 64 + bytes[HEAD + 64..].iter().position(|byte| *byte != 0)?;
    let file = OpenOptions::new().write(true).open(segment).expect("a segment");
    file.write_all_at(&[bytes[at] ^ 1], at as u64).expect("a written byte");
    Some(format!("byte {at} of {}", segment.display()))
}

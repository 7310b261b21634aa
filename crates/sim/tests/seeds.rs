//! Some short runs without violations, and the same run twice.

use boxoffice_sim::{Fault, Flips, Settings, Summary, run, run_many};

/// As in the program, because a simulation allocates a lot.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A number from the environment, for longer runs.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

#[test]
fn promises_are_kept_under_trouble() {
    let (first, minutes) = (number("BOXOFFICE_SEED", 1), number("BOXOFFICE_MINUTES", 3));
    let trace = std::env::var("BOXOFFICE_TRACE").is_ok();
    let settings = Settings { minutes, nodes: number("BOXOFFICE_NODES", 1), trace, ..Settings::new(0) };
    let seeds = first..first + number("BOXOFFICE_SEEDS", 8);
    let summary = run_many(settings, seeds, 2).expect("it can be simulated");
    println!("{summary}");
    assert!(summary.clean(), "{summary}");
    assert!(summary.changes > 1_000 && summary.orders > 100 && summary.unknown > 0, "{summary}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    let settings = Settings { minutes: 2, ..Settings::new(7) };
    let [one, other] = [(); 2].map(|()| run(settings).expect("it can be simulated"));
    assert_eq!(one, other);
}

#[test]
fn lost_data_is_found() {
    let settings =
        Settings { minutes: 5, syncs: false, trace: std::env::var("BOXOFFICE_TRACE").is_ok(), ..Settings::new(0) };
    let first = number("BOXOFFICE_SEED", 1);
    let summary = run_many(settings, first..first + number("BOXOFFICE_SEEDS", 4), 2).expect("it can be simulated");
    assert!(summary.failed.len() >= 2, "{summary}");
}

#[test]
fn a_cluster_of_three_keeps_its_promises() {
    let trace = std::env::var("BOXOFFICE_TRACE").is_ok();
    let settings = Settings { minutes: number("BOXOFFICE_MINUTES", 2), nodes: 3, trace, ..Settings::new(0) };
    let first = number("BOXOFFICE_SEED", 14);
    let summary = run_many(settings, first..first + number("BOXOFFICE_SEEDS", 8), 2).expect("it can be simulated");
    println!("{summary}");
    assert!(summary.clean(), "{summary}");
    assert!(summary.changes > 500 && summary.orders > 50 && summary.unknown > 0, "{summary}");
}

/// The power goes in the moment of an answer. Everything that was granted is on disk already.
#[test]
fn granted_changes_survive_a_power_cut_at_their_answer() {
    let mut cuts = 0;
    for (seed, nodes) in [(1, 1), (2, 1), (3, 1), (4, 3)] {
        let settings = Settings { minutes: 3, nodes, cuts_at_answers: true, ..Settings::new(seed) };
        let report = run(settings).expect("it can be simulated");
        assert_eq!(report.violations, [""; 0], "seed {seed} with {nodes} nodes");
        cuts += report.faults.get(&Fault::CutAtAnswer).copied().unwrap_or_default();
    }
    assert!(cuts > 20, "{cuts}");
}

/// Another process does the same.
#[test]
fn in_another_process_it_is_the_same_run() {
    let settings = Settings { minutes: 2, nodes: 3, ..Settings::new(11) };
    let hash = run(settings).expect("it can be simulated").hash;
    if std::env::var("BOXOFFICE_CHILD").is_ok() {
        println!("the hash is {hash:016x}.");
        return;
    }
    let child = std::process::Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "in_another_process_it_is_the_same_run", "--nocapture"])
        .env("BOXOFFICE_CHILD", "1")
        .output()
        .expect("it runs");
    let trace = String::from_utf8_lossy(&child.stdout);
    assert!(trace.contains(&format!("the hash is {hash:016x}.")), "not {hash:016x}: {trace}");
}

/// A node that had just started was paused for 23 s, and took the time in an older message for the present time. Its
/// shards began twenty seconds early, and the next leader corrected that, so promised lives ended early.
#[test]
fn a_reading_of_time_that_waited_is_not_the_time() {
    let report = run(Settings { minutes: 5, nodes: 3, ..Settings::new(70_364) }).expect("it can be simulated");
    assert_eq!(report.violations, [""; 0]);
}

/// A canceled session refunds an order that had left memory, and the gateway refuses the refund for good. The cart
/// stays in memory beside its older record, which an audit of all records must not check.
#[test]
fn a_cart_that_came_back_is_not_judged_by_its_older_record() {
    let report = run(Settings { minutes: 5, ..Settings::new(34) }).expect("it can be simulated");
    assert_eq!(report.violations, [""; 0]);
}

/// A node is paused for a minute while a watcher waits there for a version that the node does not have.
#[test]
fn a_pause_is_not_waiting_time() {
    let report = run(Settings { minutes: 4, nodes: 4, ..Settings::new(81_878) }).expect("it can be simulated");
    assert_eq!(report.violations, [""; 0]);
}

/// A fault of a disk is cut short in the moment in which an operator copies that disk.
#[test]
fn a_copy_of_a_disk_has_no_faults() {
    let report = run(Settings { minutes: 4, nodes: 3, ..Settings::new(82_048) }).expect("it can be simulated");
    assert_eq!(report.violations, [""; 0]);
}

/// A shard's leader changes during a request with a customer's quota. The repeated request must release the seats of
/// the first attempt.
#[test]
fn an_attempt_that_a_leader_forgot_is_given_back() {
    let report = run(Settings { minutes: 4, nodes: 3, ..Settings::new(81_818) }).expect("it can be simulated");
    assert_eq!(report.violations, [""; 0]);
}

/// A snapshot from the leader is damaged. The one before it is no substitute, because this disk never had the entries
/// in between. `src/tests/stories.rs` of the shard has a story of it.
#[test]
#[ignore = "20 s, because the clocks jump over minutes"]
fn a_snapshot_is_passed_over_only_for_one_that_the_log_goes_on_from() {
    let report = run(Settings { minutes: 4, nodes: 3, ..Settings::new(92_027) }).expect("it can be simulated");
    assert_eq!(report.violations, [""; 0]);
}

/// The power of all nodes goes. A watcher begins with a customer of the snapshot, who left memory later. The store has the
/// customer as it was at the end, so the entries in between are skipped, and the watcher must be told.
#[test]
fn watchers_are_told_of_entries_that_the_store_has_already() {
    let settings = Settings { minutes: 4, nodes: 5, carts: 20, shards: 4, ..Settings::new(610_529) };
    let report = run(settings).expect("it can be simulated");
    assert_eq!(report.violations, [""; 0]);
}

/// A watcher's request for another node came when no node was asked any more. The lock of the requests was held while the next
/// one began, which needs it too.
#[test]
fn a_watch_begins_anew_without_a_lock() {
    let settings = Settings { minutes: 4, nodes: 0, carts: 20, shards: 4, ..Settings::new(710_954) };
    let report = run(settings).expect("it can be simulated");
    assert_eq!(report.violations, [""; 0]);
}

/// The log of a node from which a shard has moved away has entries of it, and nothing that they continue.
#[test]
fn the_directory_of_a_node_that_gave_a_shard_away_is_read() {
    let settings = Settings { nodes: 3, minutes: 4, ..Settings::new(9_303) };
    let report = run(settings).expect("it can be simulated");
    assert_eq!(report.violations, Vec::<String>::new());
}

/// Changed bits of the long series.
const FLIPS: u64 = 700;

/// Runs with changed bits at `nodes` nodes, which do without the one or the two nodes that have them.
fn flipped(flips: Flips, nodes: u64, (seeds, minutes): (u64, u64)) -> Summary {
    let (first, trace) = (number("BOXOFFICE_SEED", 1), std::env::var("BOXOFFICE_TRACE").is_ok());
    let (nodes, minutes) = (number("BOXOFFICE_NODES", nodes), number("BOXOFFICE_MINUTES", minutes));
    // Old segments become archives only where much is written.
    let settings = Settings { minutes, nodes, flips, trace, think_ms: 1_000, ..Settings::new(0) };
    let seeds = first..first + number("BOXOFFICE_SEEDS", seeds);
    let summary = run_many(settings, seeds, 2).expect("it can be simulated");
    println!("{summary}");
    assert!(summary.clean(), "{summary}");
    summary
}

/// The count of what has this beginning.
fn count(summary: &Summary, beginning: &str) -> u64 {
    summary.tally.iter().filter(|(what, _)| what.starts_with(beginning)).map(|(_, times)| times).sum()
}

#[test]
fn a_node_with_a_changed_bit_is_whole_again() {
    let summary = flipped(Flips::OneByOne, 3, (1, 2));
    assert!(count(&summary, "flips of ") >= 4, "{summary}");
}

/// As [`a_node_with_a_changed_bit_is_whole_again`], for every part of the disk.
#[test]
#[ignore = "long: `tests/run long` runs it"]
fn one_by_one_seven_hundred_bits_are_mended() {
    let summary = flipped(Flips::OneByOne, 3, (22, 10));
    let is_whole = std::env::var("BOXOFFICE_SEEDS").is_err();
    assert!(!is_whole || count(&summary, "flips of ") >= FLIPS, "{summary}");
}

/// Nothing is lost, and no node replaces its disk without a majority.
#[test]
#[ignore = "long: `tests/run long` runs it"]
fn two_at_once_are_refused_or_mended() {
    for nodes in [3, 5] {
        let summary = flipped(Flips::TwoAtOnce, nodes, (6, 10));
        assert!(count(&summary, "flips at two nodes: ") > 10, "{summary}");
        assert!(nodes > 3 || count(&summary, "flips at two nodes: granted") == 0, "{summary}");
    }
}

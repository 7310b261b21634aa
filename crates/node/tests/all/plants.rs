//! Bugs planted in tests of this program, to see that the tests find them. A bug is planted in a whole process, so each test runs as a
//! process of its own.

#![allow(clippy::disallowed_methods, reason = "a test reaches its process as it likes")]

use std::{env, process::Command};

/// The environment variable with the name of the bug.
const BUG: &str = "BOXOFFICE_PLANTED_CORE";

/// Plants the bug that [`finds`] has named, if this process has one.
pub(crate) fn plant() {
    #[cfg(debug_assertions)]
    if let Ok(bug) = env::var(BUG) {
        boxoffice_core::planted::plant_everywhere(&bug);
    }
}

/// Whether a test fails with a bug.
fn finds(test: &str, bug: &str) -> bool {
    let this = env::current_exe().expect("this program");
    let ran = Command::new(this).args([test, "--exact", "--nocapture"]).env(BUG, bug).output().expect("it runs");
    let output = String::from_utf8_lossy(&ran.stdout);
    assert!(output.contains("running 1 test"), "there is no test {test}: {output}");
    !ran.status.success()
}

#[test]
#[cfg(debug_assertions)]
fn a_read_under_the_lock_of_a_replica_is_found() {
    let test = "cluster::stores::nodes_whose_stores_stand_still_vote_and_sell_what_needs_no_record";
    assert!(finds(test, "read under the mutex"));
}

#[test]
#[cfg(debug_assertions)]
fn a_bad_block_that_ends_a_node_is_found() {
    let test = "leaving::damage::damaged_blocks_fail_by_name_before_and_after_a_restart";
    assert!(finds(test, "a bad block that ends a node"));
}

#[test]
#[cfg(debug_assertions)]
fn a_wait_without_a_bound_is_found() {
    let test = "cluster::stores::what_waits_for_a_store_that_stands_still_is_bounded_and_nothing_is_lost";
    assert!(finds(test, "what waits for the store has no bound"));
}

#[test]
#[cfg(debug_assertions)]
fn entries_after_the_instant_are_found() {
    assert!(finds("leaving::as_of::a_session_is_found_as_a_watcher_saw_it", "an entry after the instant is applied"));
}

#[test]
#[cfg(debug_assertions)]
fn kept_snapshots_that_are_passed_over_are_found() {
    let test = "leaving::as_of::what_is_older_than_the_archives_and_snapshots_is_refused_with_the_earliest_instant";
    assert!(finds(test, "kept snapshots that are passed over"));
}

#[test]
#[cfg(debug_assertions)]
fn a_history_that_is_read_by_the_thread_that_sells_is_found() {
    let test = "cluster::stores::nodes_whose_files_stand_still_vote_and_sell";
    assert!(finds(test, "a history is read by the thread that sells"));
}

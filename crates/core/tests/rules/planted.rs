//! The test of the storms: bugs planted on purpose, one at a time. Every one must be found, and it is said after how many
//! storms and by what. `cargo test -p boxoffice-core --features planted --test rules planted -- --nocapture`;
//! `BOXOFFICE_BUG` names one, `BOXOFFICE_BUGS` says how many of the list: the first are found soonest.

use std::panic::catch_unwind;

use boxoffice_core::planted::plant;

use crate::{
    best, bounds, checkouts,
    ends::{self, storm_far_out, words_of},
    mutations, operators, outcomes, past, stopped,
    storm::{aftermath, operated_aftermath, quiet_aftermath, stopped_aftermath},
    told::{self, lives},
    tombstones::{self, guests},
};

/// Storms, or lives, after which a bug that was not found counts as one that is not.
const STORMS_MAX: u64 = 3_000;

/// A bug, and a run of the seed that finds it.
type Bug = (&'static str, fn(u64));

const BUGS: [Bug; 21] = [
    ("a sale dropped from the outbox", storm),
    ("a release never told", storm),
    ("resends before a read", storm),
    ("an expiry that beats a sale", storm),
    ("a cart that expires early", storm),
    ("a repeat taken for new", storm),
    ("a hold disowned by its owner", storm),
    ("a decline forgotten", storm),
    ("an expectation not looked at", storm),
    ("a deadline that was told and forgotten", lives),
    ("a tombstone that is kept nowhere", guests),
    ("a quota that does not count what is sold", storm),
    ("a partial release that ignores revisions", storm),
    ("late releases never forgotten", storm),
    ("a `still mine` that shortens", storm),
    ("a purchase dropped from the outbox", storm),
    ("\"not mine\" told before it is committed", storm),
    ("another amount forgotten", storm),
    ("a hold id used again", guests),
    ("what is left of other seats believed", stopped_aftermath),
    ("a count that goes on for ever", ends),
];

fn storm(seed: u64) {
    aftermath(seed);
    quiet_aftermath(seed);
    operated_aftermath(seed);
}

fn ends(seed: u64) {
    storm_far_out(seed);
    words_of(seed);
}

/// After how many storms a bug was found, and what was said.
fn hunt(bug: &'static str, run: fn(u64)) -> Option<(u64, String)> {
    (0..STORMS_MAX).find_map(|seed| {
        plant(Some(bug));
        let ended = catch_unwind(|| run(seed));
        plant(None);
        let panic = ended.err()?;
        let said = panic.downcast_ref::<String>().cloned();
        Some((seed + 1, said.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()))
    })
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    let name = std::env::var("BOXOFFICE_BUG").unwrap_or_default();
    let count = std::env::var("BOXOFFICE_BUGS").map_or(BUGS.len(), |text| text.parse().expect("a number"));
    for (bug, run) in BUGS.into_iter().filter(|(bug, _)| bug.contains(&name)).take(count) {
        match hunt(bug, run) {
            Some((storms, said)) => {
                println!("{bug}: {storms} storms: {}", said.chars().take(140).collect::<String>());
            }
            None => missed.push(bug),
        }
    }
    assert_eq!(missed, [""; 0], "not found in {STORMS_MAX} storms");
}

/// Each story of a line that could be changed ends otherwise when it is.
#[test]
fn every_story_fails_with_its_bug() {
    let stories: [(&str, fn()); 24] = [
        ("a quota that does not count what is sold", mutations::a_quota_counts_what_is_sold),
        (
            "a partial release that ignores revisions",
            mutations::a_partial_release_that_comes_again_takes_nothing_from_what_was_added_since,
        ),
        ("resends before a read", mutations::what_is_not_committed_is_not_told_again_either),
        (
            "a void left out when a resumed checkout falls short",
            mutations::a_resumed_checkout_that_falls_short_gives_up_what_may_have_been_set_aside,
        ),
        ("every disowned hold released as the last", mutations::a_disowned_hold_is_remembered_until_its_cart_has_ended),
        ("a `still mine` that shortens", mutations::an_old_still_mine_does_not_shorten_a_life),
        ("late releases never forgotten", mutations::a_late_release_is_forgotten),
        ("checkouts without a bound", bounds::a_checkout_that_is_refused_again_and_again_is_refused_in_words_at_last),
        ("traces without a bound", bounds::traces_of_a_request_id_that_comes_with_other_bodies_are_bounded),
        (
            "a refused checkout that keeps its number",
            bounds::a_checkout_that_was_refused_before_a_gateway_was_asked_is_no_attempt,
        ),
        ("settlements without a bound", bounds::what_is_settled_already_is_settled_again_so_often_and_no_more),
        ("outcomes of payments without a bound", outcomes::a_cart_that_cannot_remember_an_outcome_asks_no_gateway),
        ("another amount forgotten", outcomes::a_decline_is_told_again),
        ("a line taken away without a word", outcomes::lines_that_were_taken_away_stay_visible),
        ("a slot in the past", past::what_has_begun_is_not_for_sale),
        ("a split without single seats", best::every_choice_is_the_best_of_all_runs),
        ("a hold id used again", tombstones::a_refused_guest_leaves_memory_and_its_hold_is_never_another),
        ("an expiry told as a release", told::history_tells_an_expiry_from_a_release),
        ("a canceled session that keeps its hall", operators::a_canceled_session_frees_its_hall),
        ("a count that goes on for ever", ends::an_entity_that_cannot_count_another_change_says_so),
        ("a revision that nothing outranks", ends::a_hold_has_no_revision_above_which_a_cart_could_not_speak),
        ("a generation that names another node", ends::generations_of_replicas_end_before_they_name_another_node),
        ("what is left of other seats believed", stopped::a_hold_that_has_other_seats_at_the_successor),
        (
            "a gateway asked before the checkout is committed",
            checkouts::no_money_is_set_aside_for_a_checkout_that_is_not_committed,
        ),
    ];
    let missed = stories.into_iter().filter(|(bug, story)| {
        plant(Some(bug));
        let ended = catch_unwind(story);
        plant(None);
        ended.is_ok()
    });
    let missed: Vec<&str> = missed.map(|(bug, _)| bug).collect();
    assert_eq!(missed, [""; 0], "a story ends as it should although there is a bug");
}

//! Tests the random runs themselves with planted bugs, one at a time. Every bug must be found. The output names the number of
//! runs and the panic. `cargo test -p boxoffice-core --features planted --test rules planted -- --nocapture`. `BOXOFFICE_BUG`
//! selects one bug. `BOXOFFICE_BUGS` limits the list, which begins with the bugs that are found soonest.

use std::panic::catch_unwind;

use boxoffice_core::planted::plant;

use crate::{
    best, bounds, calendar, checkouts, cluster, cursors, deposed,
    ended_carts::{self, expiry_run},
    ends::{self, random_run_with_high_numbers, run_any_numbers},
    fairness, late_grants, mutations, offers, operators, outcomes, past_slots, prices,
    random_runs::{
        after_run, after_run_of_the_oldest_release, after_run_with_offers, after_run_with_operators,
        after_run_with_orders_read, after_run_without_losses, after_runs_with_deposed_leaders,
    },
    reference, revoked_bookings, side_by_side,
    tombstones::{self, guests},
    venue_zones, withdrawn,
};

/// The most runs in which a bug must be found.
const RUNS_MAX: u64 = 10_000;

/// A bug, and a run of the seed that finds it.
type Bug = (&'static str, fn(u64));

const BUGS: [Bug; 42] = [
    ("a use that counts at the sale", after_run_with_offers),
    ("a use that is free again while its line lives", after_run_with_offers),
    ("a use that a refused hold keeps", |_| offers::a_code_is_used_by_the_seats_that_are_bought_with_it()),
    ("a use that no seat needs", |_| offers::a_code_is_used_by_the_seats_that_are_bought_with_it()),
    ("a counter that is not given back", after_run_with_offers),
    ("a further place at the price of before", after_run_with_offers),
    ("a sale dropped from the outbox", random_run),
    ("a release never told", random_run),
    ("resends before a read", random_run),
    ("an expiry that beats a sale", random_run),
    ("a cart that expires early", random_run),
    ("a repeat taken for new", random_run),
    ("a hold disowned by its owner", random_run),
    ("a decline forgotten", random_run),
    ("a late grant becomes a line", random_run),
    ("an expectation not looked at", random_run),
    ("a revoked booking forgotten", random_run),
    ("a deadline that was told and forgotten", expiry_run),
    ("a tombstone that is kept nowhere", guests),
    ("a quota that does not count what is sold", random_run),
    ("a partial release that ignores revisions", random_run),
    ("late releases never forgotten", random_run),
    ("a `still mine` that shortens", random_run),
    ("a purchase dropped from the outbox", random_run),
    ("\"not mine\" told before it is committed", random_run),
    ("another amount forgotten", random_run),
    ("refunded places that watchers do not see", random_run),
    ("an order that settles again", after_run_with_orders_read),
    ("a hold id used again", guests),
    ("what is left of other seats believed", after_runs_with_deposed_leaders),
    ("a further unit at the price of before", random_run),
    ("a void left out when a checkout is withdrawn", random_run),
    ("a count that goes on for ever", ends),
    ("a proof without an invitation", cluster::invitations::run),
    ("a customer told before all nodes can read it", after_run_of_the_oldest_release),
    ("an old zone believed", venue_zones::run),
    ("an old zone taken for the current one", venue_zones::run),
    ("a session that has begun still sells", reference::run),
    ("points ignored", sold_out),
    ("an aisle is crossed", sold_out),
    ("single seats left beside a party", sold_out),
    ("a split that leaves one alone", sold_out),
];

fn random_run(seed: u64) {
    after_run(seed);
    after_run_without_losses(seed);
    after_run_with_operators(seed);
}

/// A small plan, and a whole house until nothing is left.
fn sold_out(seed: u64) {
    side_by_side::small_plan(seed);
    side_by_side::whole_house(seed);
}

fn ends(seed: u64) {
    random_run_with_high_numbers(seed);
    run_any_numbers(seed);
}

/// The number of runs until a bug was found, and the panic.
fn hunt(bug: &'static str, run: fn(u64)) -> Option<(u64, String)> {
    (0..RUNS_MAX).find_map(|seed| {
        plant(Some(bug));
        let ended = catch_unwind(|| run(seed));
        plant(None);
        let panic = ended.err()?;
        let message = panic.downcast_ref::<String>().cloned();
        Some((seed + 1, message.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()))
    })
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    let name = std::env::var("BOXOFFICE_BUG").unwrap_or_default();
    let count = std::env::var("BOXOFFICE_BUGS").map_or(BUGS.len(), |text| text.parse().expect("a number"));
    for (bug, run) in BUGS.into_iter().filter(|(bug, _)| bug.contains(&name)).take(count) {
        match hunt(bug, run) {
            Some((runs, message)) => {
                println!("{bug}: {runs} runs: {}", message.chars().take(140).collect::<String>());
            }
            None => missed.push(bug),
        }
    }
    assert_eq!(missed, [""; 0], "not found in {RUNS_MAX} runs");
}

/// Each story of a planted bug fails with it.
#[test]
fn every_story_fails_with_its_bug() {
    let stories: [(&str, fn()); 54] = [
        ("an offer without a latch", offers::an_offer_opens_by_itself_and_lines_keep_what_they_were_bought_as),
        ("an offer without a latch", offers::a_hold_that_sees_the_begin_opens_the_offer_before_it_is_decided),
        ("a further place at the price of before", offers::further_places_at_another_price_are_a_line_of_their_own),
        ("an opening compared with changed terms", offers::a_changed_session_is_not_opened_anew),
        ("a payment key used twice", ends::an_attempt_after_a_restore_has_a_key_of_its_own),
        ("a late grant becomes a line", late_grants::a_grant_for_a_client_that_has_gone_is_released),
        ("cursor unchecked", cursors::a_changed_cursor_is_refused_or_names_its_place_in_public),
        ("a split without single seats", best::every_choice_is_the_best_of_all_runs),
        ("a split without single seats", best::a_split_is_the_most_even_of_all_ways),
        ("a split that leaves one alone", best::a_split_is_the_most_even_of_all_ways),
        ("a quota that does not count what is sold", mutations::a_quota_counts_what_is_sold),
        (
            "a partial release that ignores revisions",
            mutations::a_repeated_partial_release_does_not_undo_a_later_growth,
        ),
        ("resends before a read", mutations::messages_of_uncommitted_events_are_not_sent_again),
        (
            "a void left out when a resumed checkout falls short",
            mutations::a_resumed_checkout_that_falls_short_voids_its_authorization,
        ),
        ("every disowned hold released as the last", mutations::a_disowned_hold_is_remembered_until_its_cart_has_ended),
        ("a `still mine` that shortens", mutations::an_old_still_mine_does_not_shorten_a_life),
        ("late releases never forgotten", mutations::a_late_release_is_forgotten),
        ("a further unit at the price of before", prices::a_product_that_becomes_dearer),
        ("a further unit at the price of before", prices::a_late_product_that_becomes_dearer),
        ("a canceled session that lets its buyers pay", withdrawn::every_attempt_that_ends_early),
        ("a canceled session that lets its buyers pay", withdrawn::a_canceled_show_ends_the_attempts_of_its_buyers),
        ("a void left out when a checkout is withdrawn", withdrawn::every_attempt_that_ends_early),
        ("a raster that is ignored", calendar::free::on_steps_of_the_clock),
        ("a raster that is ignored", calendar::free::slots_of_a_raster_may_overlap_and_begin_beside_the_full_hour),
        ("checkouts without a bound", bounds::checkouts_of_one_cart_are_bounded),
        ("traces without a bound", bounds::traces_of_a_request_id_that_comes_with_other_bodies_are_bounded),
        (
            "a refused checkout that keeps its number",
            bounds::a_checkout_refused_before_the_gateway_is_asked_is_no_attempt,
        ),
        ("settlements without a bound", bounds::repeated_settlements_are_bounded),
        ("outcomes of payments without a bound", outcomes::a_cart_without_room_for_an_outcome_asks_no_gateway),
        ("an order that settles again", checkouts::an_order_does_not_settle_again_after_its_checkout),
        ("another amount forgotten", outcomes::a_repeat_gets_the_same_decline),
        ("a line taken away without a word", outcomes::revoked_lines_stay_visible),
        ("a slot in the past", past_slots::a_slot_that_has_begun_is_not_for_sale),
        ("a hold id used again", tombstones::a_refused_guest_is_evicted_and_its_hold_id_is_not_reused),
        ("an expiry told as a release", ended_carts::history_distinguishes_expiries_from_releases),
        ("a revoked booking forgotten", revoked_bookings::a_canceled_booking_is_asked_for_after_any_crash),
        ("a canceled session that keeps its hall", operators::a_canceled_session_frees_its_hall),
        ("a count that goes on for ever", ends::an_entity_at_its_last_version_refuses_changes),
        ("a revision that nothing outranks", ends::revisions_of_a_hold_leave_room_for_its_cart),
        ("a generation that names another node", ends::generations_of_replicas_end_before_they_name_another_node),
        ("what is left of other seats believed", deposed::a_hold_that_has_other_seats_at_the_successor),
        (
            "a gateway asked before the checkout is committed",
            checkouts::no_money_is_authorized_for_an_uncommitted_checkout,
        ),
        ("a payment that nobody confirms keeps its seats", fairness::a_payment_that_nobody_confirms_is_given_up),
        ("an old zone believed", venue_zones::a_zone_that_comes_again_after_a_newer_one_is_ignored),
        (
            "an old zone taken for the current one",
            venue_zones::a_session_that_knows_an_old_zone_is_sent_the_current_one,
        ),
        ("a sale that no venue hears of", offers::a_search_says_when_a_sale_opens),
        ("an older mark of a sale taken for the newest", offers::a_search_says_when_a_sale_opens),
        ("a deposed host outranks its successor", deposed::a_deposed_cart_does_not_outrank_its_successor),
        ("a payment that nobody confirms keeps its seats", fairness::a_payment_for_what_is_set_aside_late_is_given_up),
        ("two replacements at once", cluster::stories::a_damaged_disk_is_replaced_by_its_node),
        ("a replacement without a majority", cluster::stories::a_damaged_disk_is_replaced_by_its_node),
        ("points ignored", side_by_side::nobody_sits_across_an_aisle_of_a_large_house),
        ("an aisle is crossed", side_by_side::nobody_sits_across_an_aisle_of_a_large_house),
        ("best seats before named ones", side_by_side::named_seats_are_held_before_best_ones),
    ];
    let missed = stories.into_iter().filter(|(bug, story)| {
        plant(Some(bug));
        let ended = catch_unwind(story);
        plant(None);
        ended.is_ok()
    });
    let missed: Vec<&str> = missed.map(|(bug, _)| bug).collect();
    assert_eq!(missed, [""; 0], "a story passes in spite of its bug");
}

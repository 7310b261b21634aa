//! Golden folds: turns of the log with the hash of the state after them. The same events make the same state in every later
//! program, also if it is read back from a snapshot in between. So replicas of two releases are equal, and a log that was written
//! by one is replayed by the next.

use std::{cell::RefCell, collections::BTreeSet, fmt::Write, fs};

use boxoffice_core::{
    event::Event,
    id::Entity,
    state_map::StateMap,
    stored::{self, Decode, Definition, Schema, Shape},
};
use expect_test::expect_file;

use crate::{
    released::{NEXT, folder, hex, releases, unhex},
    states::written_and_read,
};

/// Turns between two hashes.
const TURNS: usize = 25;

thread_local! {
    /// Turns as the log has them, of one world after the other, while they are collected.
    static COLLECTED: RefCell<Option<Vec<Vec<Turn>>>> = const { RefCell::new(None) };
}

/// A turn as the log has it.
type Turn = Vec<u8>;

/// A test begins with a world without entities.
pub(crate) fn begin() {
    COLLECTED.with_borrow_mut(|worlds| {
        if let Some(worlds) = worlds {
            worlds.push(Vec::new());
        }
    });
}

/// Collects a turn that a test has committed.
pub(crate) fn note(entity: &Entity, events: &[Event]) {
    COLLECTED.with_borrow_mut(|worlds| {
        if let Some(world) = worlds.as_mut().and_then(|worlds| worlds.last_mut()) {
            world.push(stored::append(&(entity, None::<String>, events), Vec::new()));
        }
    });
}

/// The turns of a story, in each of its worlds.
fn turns_of(story: fn()) -> Vec<Vec<Turn>> {
    COLLECTED.set(Some(Vec::new()));
    story();
    COLLECTED.take().expect("they were collected")
}

fn apply(states: &mut StateMap, turn: &[u8]) -> Vec<Event> {
    let (entity, _, events): (Entity, Option<String>, Vec<Event>) =
        stored::read(turn).expect("a turn is read for ever");
    states.apply(&entity, events.clone());
    events
}

fn hash(states: &StateMap) -> String {
    blake3::hash(&stored::append(&states.cut(), Vec::new())).to_hex()[..32].to_owned()
}

/// The names of an event's variants.
fn kind(event: &Event) -> String {
    let text = format!("{event:?}");
    let mut names = text.split(|char: char| !char.is_alphanumeric()).filter(|name| !name.is_empty());
    let mut kind: Vec<&str> = names.by_ref().take(2).collect();
    if kind[1] == "Hold" {
        kind.extend(names.next());
    }
    kind.join(" ")
}

/// All kinds of events, by the schema.
fn all_kinds() -> BTreeSet<String> {
    let mut schema = Schema::default();
    let variants = |schema: &Schema, shape: &Shape| match schema.get(&shape.to_string()) {
        Some(Definition::Enum(variants)) => variants.clone(),
        other => panic!("{shape} is {other:?}"),
    };
    let event = Event::shape(&mut schema);
    let mut kinds = BTreeSet::new();
    for (_, of, fields) in variants(&schema, &event) {
        for (_, name, fields) in variants(&schema, &fields[0].2) {
            match &fields[..] {
                [(_, _, of_hold)] if name == "Hold" => {
                    let all = variants(&schema, of_hold);
                    kinds.extend(all.iter().map(|(_, inner, _)| format!("{of} {name} {inner}")));
                }
                _ => _ = kinds.insert(format!("{of} {name}")),
            }
        }
    }
    kinds
}

/// The lines of a story: its name, turns, and the hashes of the states after some of them.
fn lines_of(name: &str, turns: &[Vec<u8>]) -> String {
    let mut lines = format!("{name}\n");
    let mut states = StateMap::new();
    for some in turns.chunks(TURNS) {
        for turn in some {
            apply(&mut states, turn);
            writeln!(lines, "+ {}", hex(turn)).expect("text takes it");
        }
        writeln!(lines, "= {}", hash(&states)).expect("text takes it");
    }
    lines
}

/// The first of these folds that comes to another state.
fn broken(lines: &str) -> Option<String> {
    let (mut story, mut turns) = ("", 0);
    let (mut states, mut reread) = (StateMap::new(), StateMap::new());
    for line in lines.lines() {
        match line.split_once(' ') {
            Some(("+", turn)) => {
                let turn = unhex(turn);
                apply(&mut states, &turn);
                apply(&mut reread, &turn);
                turns += 1;
            }
            Some(("=", before)) => {
                reread = written_and_read(&reread);
                for (how, states) in [("", &states), (" from a snapshot", &reread)] {
                    let now = hash(states);
                    if now != before {
                        return Some(format!("{story}, after turn {turns}{how}: {now} in place of {before}"));
                    }
                }
            }
            _ => {
                (story, turns) = (line, 0);
                (states, reread) = (StateMap::new(), StateMap::new());
            }
        }
    }
    None
}

/// Stories which together have every kind of event.
const STORIES: [(&str, fn()); 32] = [
    (
        "offers::an_offer_opens_by_itself_and_lines_keep_what_they_were_bought_as",
        crate::offers::an_offer_opens_by_itself_and_lines_keep_what_they_were_bought_as,
    ),
    (
        "offers::a_code_is_used_by_the_seats_that_are_bought_with_it",
        crate::offers::a_code_is_used_by_the_seats_that_are_bought_with_it,
    ),
    (
        "offers::an_allotment_is_released_by_itself_and_before_a_hold_that_sees_its_time",
        crate::offers::an_allotment_is_released_by_itself_and_before_a_hold_that_sees_its_time,
    ),
    (
        "offers::further_places_at_another_price_are_a_line_of_their_own",
        crate::offers::further_places_at_another_price_are_a_line_of_their_own,
    ),
    ("fairness::a_family_has_its_carts_for_the_whole_life", crate::fairness::a_family_has_its_carts_for_the_whole_life),
    (
        "grace::a_session_with_a_shorter_life_asks_in_its_own_time",
        crate::grace::a_session_with_a_shorter_life_asks_in_its_own_time,
    ),
    (
        "quotas::a_second_grant_for_a_checkout_changes_nothing",
        crate::quotas::a_second_grant_for_a_checkout_changes_nothing,
    ),
    (
        "directory::keys::a_key_is_found_by_its_name_at_a_version",
        crate::directory::keys::a_key_is_found_by_its_name_at_a_version,
    ),
    ("limits::a_resource_beyond_the_limits_opens", crate::limits::a_resource_beyond_the_limits_opens),
    (
        "cluster::invitations::an_invitation_is_used_up_by_one_machine",
        crate::cluster::invitations::an_invitation_is_used_up_by_one_machine,
    ),
    (
        "cluster::repeats::repeated_reports_of_nodes_change_nothing",
        crate::cluster::repeats::repeated_reports_of_nodes_change_nothing,
    ),
    ("cluster::stories::an_upgrade_waits_for_every_member", crate::cluster::stories::an_upgrade_waits_for_every_member),
    ("grace::everything_is_released_at_the_deadline", crate::grace::everything_is_released_at_the_deadline),
    (
        "operators::searches_show_that_a_canceled_session_is_not_open",
        crate::operators::searches_show_that_a_canceled_session_is_not_open,
    ),
    ("mutations::a_late_release_is_forgotten", crate::mutations::a_late_release_is_forgotten),
    ("payments::settlements_of_an_operator", crate::payments::settlements_of_an_operator),
    (
        "venue_zones::a_zone_that_comes_again_after_a_newer_one_is_ignored",
        crate::venue_zones::a_zone_that_comes_again_after_a_newer_one_is_ignored,
    ),
    (
        "revoked_bookings::a_canceled_booking_is_taken_from_a_cart",
        crate::revoked_bookings::a_canceled_booking_is_taken_from_a_cart,
    ),
    ("promises::p5_counters_are_the_map", crate::promises::p5_counters_are_the_map),
    (
        "mutations::a_disowned_hold_is_remembered_until_its_cart_has_ended",
        crate::mutations::a_disowned_hold_is_remembered_until_its_cart_has_ended,
    ),
    (
        "mutations::an_old_still_mine_does_not_shorten_a_life",
        crate::mutations::an_old_still_mine_does_not_shorten_a_life,
    ),
    (
        "races::a_repeat_does_not_meet_the_hold_of_its_first_attempt",
        crate::races::a_repeat_does_not_meet_the_hold_of_its_first_attempt,
    ),
    ("traps::a_session_id_belongs_to_one_venue", crate::traps::a_session_id_belongs_to_one_venue),
    ("lifetimes::an_open_cart_is_opened_again_as_it_is", crate::lifetimes::an_open_cart_is_opened_again_as_it_is),
    ("late_grants::a_late_growth_is_undone", crate::late_grants::a_late_growth_is_undone),
    (
        "examples::example_10_authorized_sold_and_posted_once",
        crate::examples::example_10_authorized_sold_and_posted_once,
    ),
    (
        "attempts::an_outcome_of_an_old_attempt_does_not_decide_the_new_one",
        crate::attempts::an_outcome_of_an_old_attempt_does_not_decide_the_new_one,
    ),
    (
        "operators::a_canceled_session_asks_until_its_carts_acknowledge",
        crate::operators::a_canceled_session_asks_until_its_carts_acknowledge,
    ),
    ("foreign::late_messages_about_slots", crate::foreign::late_messages_about_slots),
    ("foreign::late_messages_about_units", crate::foreign::late_messages_about_units),
    ("quotas::a_quota_spans_carts_and_orders", crate::quotas::a_quota_spans_carts_and_orders),
    (
        "repeats::every_other_change_of_an_operator_is_found_by_its_repeat",
        crate::repeats::every_other_change_of_an_operator_is_found_by_its_repeat,
    ),
];

#[test]
fn golden_folds_have_every_kind_of_event() {
    let (mut lines, mut missing) = (String::new(), all_kinds());
    for (name, story) in STORIES {
        for turns in turns_of(story) {
            lines += &lines_of(name, &turns);
            let mut states = StateMap::new();
            for event in turns.iter().flat_map(|turn| apply(&mut states, turn)) {
                missing.remove(&kind(&event));
            }
        }
    }
    assert!(missing.is_empty(), "no story has {missing:?}");
    expect_file![folder(NEXT).join("folds.txt")].assert_eq(&lines);
    assert_eq!(broken(&lines), None);
}

#[test]
fn golden_folds_come_to_the_states_of_every_release() {
    for release in releases() {
        let lines = fs::read_to_string(folder(&release).join("folds.txt")).expect("the folds of a release");
        assert_eq!(broken(&lines), None, "{release}");
    }
}

/// The folds of this program find an event that is applied otherwise, and a state that is read back otherwise.
#[test]
#[cfg(feature = "planted")]
fn an_apply_that_changes_its_mind_is_found() {
    let lines = fs::read_to_string(folder(NEXT).join("folds.txt")).expect("the folds of this program");
    let found = |bug| {
        boxoffice_core::planted::plant(Some(bug));
        let found = broken(&lines);
        boxoffice_core::planted::plant(None);
        found
    };
    assert_eq!(found("none"), None);
    for bug in ["a share that no sale credits", "an event that is applied otherwise"] {
        let found = found(bug).unwrap_or_else(|| panic!("{bug} is not found"));
        assert!(!found.contains("from a snapshot"), "{bug}: {found}");
    }
    let found = found("a snapshot without one entity").expect("it is found");
    assert!(found.contains("from a snapshot"), "{found}");
}

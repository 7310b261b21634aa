//! One word, one meaning: names that several things had, and the one that has kept each.

use std::{fs, path::Path};

use crate::modules::sources;

/// Names of types, and the files that may define one. Elsewhere the name says of what the thing is a table, a slot or a turn.
const KEPT: &[(&str, &[&str])] = &[
    // What an entity decides at once.
    ("Turn", &["core/src/host.rs"]),
    // How a resource is booked.
    ("Terms", &["core/src/calendar/terms.rs"]),
    // A time of a resource, in the core, on the wire and in a history.
    ("Slot", &["core/src/calendar/slot.rs", "wire/src/reply.rs", "workload/src/goods.rs"]),
    // A line of a cart.
    ("Line", &["core/src/cart/line.rs", "wire/src/body/cart.rs", "wire/src/refusal.rs"]),
    // A change of an operator, and of what a client shows.
    (
        "Change",
        &["core/src/changes.rs", "client/src/map_state.rs", "replication/src/owner.rs", "node/src/replicated.rs"],
    ),
    ("Table", &["wire/src/schema/mod.rs"]),
    ("Fields", &["wire/src/raw.rs", "wire/src/reply.rs", "wire/src/repr/shape.rs", "wire/src/body/batch.rs"]),
];

/// Words that nothing has any more, and the word to use.
const REFUSED: &[(&str, &str)] = &[
    ("struct Loan", "JointAsk"),
    ("enum Lent", "JointPlace"),
    ("enum Returned", "JointOutcome"),
    ("AsItCame", "NotAsked"),
    ("fn undecided", "answered_apart"),
    ("Health::Lent", "Health::InJointTurn"),
    ("fn settle_part", "release_effects_of"),
    ("turn_settled", "turn_applied"),
    ("wait_until_settled", "wait_for_turns or wait_until_placed"),
    ("NotSettled", "NotPlaced"),
    ("settled_at", "freed_at"),
    ("how-manieth", "index"),
    ("that there is not\"", "unknown"),
    ("stand otherwise", "the state does not allow it"),
];

/// The types that a source defines.
fn defined(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (visibility, rest) =
            ["struct ", "enum ", "type ", "trait "].iter().find_map(|word| line.split_once(word))?;
        let is_definition = visibility.trim().is_empty() || visibility.trim_start().starts_with("pub");
        is_definition.then(|| rest.split(|letter: char| !letter.is_alphanumeric()).next())?
    })
}

/// The lines of a source with refused words or names, by the path of its file below the crates.
fn wrong(path: &str, text: &str) -> Vec<String> {
    let elsewhere = |name: &&str| KEPT.iter().any(|(kept, files)| kept == name && !files.contains(&path));
    let names = defined(text).filter(elsewhere).map(|name| format!("{path}: say what this {name} is of"));
    let is_there = |(word, _): &&(&str, &str)| text.contains(word);
    let words = REFUSED.iter().filter(is_there).map(|(word, better)| format!("{path}: {word}: say {better}"));
    names.chain(words).collect()
}

#[test]
fn a_word_has_one_meaning() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut files, mut found) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(&crates).expect("the crates") {
        let src = entry.expect("an entry").path().join("src");
        let directories = [src.join("bin"), src];
        directories.iter().filter(|directory| directory.is_dir()).for_each(|directory| sources(directory, &mut files));
    }
    for file in &files {
        let path = file.strip_prefix(&crates).expect("a file of a crate").to_string_lossy().into_owned();
        found.extend(wrong(&path, &fs::read_to_string(file).expect("sources are text")));
    }
    assert!(files.len() > 400, "{} files were read", files.len());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn refused_words_are_found() {
    let text =
        "pub(crate) struct Turn<T> {\n    enum Slot {\nstruct TurnTable;\n// a type Line of text\ntype Change: Send;";
    assert_eq!(defined(text).collect::<Vec<_>>(), ["Turn", "Slot", "TurnTable", "Change"]);
    assert_eq!(wrong("core/src/host.rs", "pub struct Turn<R> {"), [""; 0]);
    assert_eq!(wrong("edge/src/a.rs", "struct Turn {"), ["edge/src/a.rs: say what this Turn is of"]);
    assert_eq!(wrong("edge/src/a.rs", "// things stand otherwise").len(), 1);
}

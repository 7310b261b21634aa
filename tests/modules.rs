//! The dependencies between the modules of each crate. Modules that depend on each other in a cycle are one module, however many
//! files it has. `docs/internals/modules.md` is made of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{TokenStream, TokenTree};

use crate::reference;

/// The page of the modules up to the first crate.
const PAGE_HEAD: &str = "# Modules

<!-- Made of the sources by tests/modules.rs. UPDATE_EXPECT=1 cargo test -p boxoffice --test house writes it again. -->

The modules of each crate in layers, as the sources have them. A module uses only modules of lower layers, so there is no cycle. The
[architecture](../architecture.md#picture) has the picture of the crates. Submodules belong to the module of their directory. Tests
and the crate's root are left out.
";

/// The modules that each module of a crate uses. A submodule counts as its top-level module.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The Rust files below a directory, without tests.
pub(crate) fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        if path.is_dir() && !matches!(name, "tests" | "bin") {
            sources(&path, found);
        } else if name.ends_with(".rs") && !matches!(name, "tests.rs" | "lib.rs" | "main.rs") {
            found.push(path);
        }
    }
}

fn arrows(src: &Path) -> Arrows {
    let mut files = Vec::new();
    sources(src, &mut files);
    let mut arrows = Arrows::new();
    for file in files {
        let below = file.strip_prefix(src).expect("a file below");
        let first = below.iter().next().and_then(|part| part.to_str()).expect("a name");
        let text = fs::read_to_string(&file).expect("sources are text");
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let used = arrows.entry(first.trim_end_matches(".rs").to_owned()).or_default();
        // `super` in a top-level file is the crate.
        let is_of_first_level = below.iter().count() == 1;
        collect(tokens, is_of_first_level, used);
    }
    // Functions and types of the crate's root are not modules.
    let modules: BTreeSet<String> = arrows.keys().cloned().collect();
    for (module, used) in &mut arrows {
        used.retain(|name| name != module && modules.contains(name));
    }
    arrows
}

/// Collects the names that follow `crate::`, one by one or in braces. Test modules are left out.
fn collect(tokens: TokenStream, super_is_crate: bool, used: &mut BTreeSet<String>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        if is_test_module(&tokens[at..]) {
            // The attribute, `mod`, its name and its body.
            at += 5;
            continue;
        }
        match &tokens[at] {
            TokenTree::Ident(ident) if ident == "crate" || (super_is_crate && ident == "super") => {
                if is_path_separator(&tokens[at + 1..]) {
                    names(tokens.get(at + 3), used);
                }
            }
            TokenTree::Ident(ident) if ident == "mod" => {
                // `super` inside an inline module is this file.
                if let Some(TokenTree::Group(body)) = tokens.get(at + 2) {
                    collect(body.stream(), false, used);
                    at += 2;
                }
            }
            TokenTree::Group(group) => collect(group.stream(), super_is_crate, used),
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
        at += 1;
    }
}

/// Whether these tokens begin with `::`.
fn is_path_separator(tokens: &[TokenTree]) -> bool {
    tokens.len() >= 2
        && tokens[..2].iter().all(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':'))
}

/// `#[cfg(test)] mod tests { … }`, or with a `;`.
fn is_test_module(tokens: &[TokenTree]) -> bool {
    let [TokenTree::Punct(hash), TokenTree::Group(attribute), TokenTree::Ident(keyword), ..] = tokens else {
        return false;
    };
    hash.as_char() == '#' && attribute.stream().to_string().replace(' ', "") == "cfg(test)" && keyword == "mod"
}

/// The first name of a path, or the first names of all paths in braces.
fn names(token: Option<&TokenTree>, used: &mut BTreeSet<String>) {
    match token {
        Some(TokenTree::Ident(name)) => _ = used.insert(name.to_string()),
        Some(TokenTree::Group(group)) => {
            let mut begins = true;
            for token in group.stream() {
                match token {
                    TokenTree::Ident(name) if begins => {
                        used.insert(name.to_string());
                        begins = false;
                    }
                    TokenTree::Punct(punct) if punct.as_char() == ',' => begins = true,
                    TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Group(_) | TokenTree::Literal(_) => {}
                }
            }
        }
        Some(TokenTree::Punct(_) | TokenTree::Literal(_)) | None => {}
    }
}

/// Everything that a module uses, directly or indirectly.
fn reachable<'a>(arrows: &'a Arrows, from: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        let (_, used) = arrows.get_key_value(module).expect("a module");
        open.extend(used.iter().map(String::as_str).filter(|name| reached.insert(*name)));
    }
    reached
}

/// The cycles, each in alphabetical order.
fn cycles(arrows: &Arrows) -> BTreeSet<Vec<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|module| (module.as_str(), reachable(arrows, module))).collect();
    let circle = |module: &str| -> Vec<&str> {
        reached[module].iter().copied().filter(|other| reached[other].contains(module)).collect()
    };
    reached.keys().map(|module| circle(module)).filter(|circle| !circle.is_empty()).collect()
}

/// The directory of crates.
fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The modules of each crate.
fn crates() -> BTreeMap<String, Arrows> {
    let paths = fs::read_dir(directory()).expect("the crates").map(|entry| entry.expect("an entry").path());
    let sources = paths.filter(|path| path.join("src").is_dir());
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    sources.map(|path| (name(&path), arrows(&path.join("src")))).collect()
}

/// The first sentence of a module's own description.
fn description(src: &Path, module: &str) -> String {
    let files = [src.join(format!("{module}.rs")), src.join(module).join("mod.rs")];
    let text = files.iter().find_map(|file| fs::read_to_string(file).ok()).expect("a module has a file");
    let lines: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("//! ")).collect();
    let paragraph = lines.join(" ");
    let end = paragraph.find(". ").map_or(paragraph.len(), |end| end + 1);
    paragraph[..end].replace("[`", "`").replace("`]", "`").replace('|', "/")
}

/// The layer of each module: one above the highest that it uses. `None` if there is a cycle.
fn layers(arrows: &Arrows) -> Option<BTreeMap<&str, usize>> {
    let mut layers = BTreeMap::new();
    while layers.len() < arrows.len() {
        let before = layers.len();
        for (module, used) in arrows {
            let below: Option<Vec<usize>> = used.iter().map(|name| layers.get(name.as_str()).copied()).collect();
            if let Some(below) = below {
                layers.insert(module.as_str(), below.into_iter().max().map_or(1, |highest| highest + 1));
            }
        }
        if layers.len() == before {
            return None;
        }
    }
    Some(layers)
}

#[test]
fn modules_have_no_dependency_cycles() {
    let crates = crates();
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, arrows) in &crates {
        let circles: Vec<String> = cycles(arrows).into_iter().map(|circle| circle.join(" ")).collect();
        if !circles.is_empty() {
            found.insert(name, circles);
        }
    }
    let modules: usize = crates.values().map(Arrows::len).sum();
    assert!(modules > 200, "{modules} modules were read");
    assert_eq!(
        found,
        BTreeMap::new(),
        "modules depend on each other in a cycle: move the shared part into a module below both"
    );
}

#[test]
fn the_page_of_modules_shows_every_dependency() {
    let mut page = PAGE_HEAD.to_owned();
    for (name, arrows) in crates().iter().filter(|(_, arrows)| !arrows.is_empty()) {
        let layers = layers(arrows).unwrap_or_else(|| panic!("modules of {name} depend on each other in a cycle"));
        let mut rows: Vec<(&str, &BTreeSet<String>)> =
            arrows.iter().map(|(module, used)| (module.as_str(), used)).collect();
        rows.sort_by_key(|(module, _)| (std::cmp::Reverse(layers[module]), *module));
        write!(page, "\n## {name}\n\n| layer | module | what it is | uses |\n|---|---|---|---|\n")
            .expect("a string grows");
        for (module, used) in rows {
            let used = used.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let what = description(&directory().join(name).join("src"), module);
            writeln!(page, "| {} | **{module}** | {what} | {used} |", layers[module]).expect("a string grows");
        }
    }
    reference::check("docs/internals/modules.md", &page);
}

#[test]
fn cycles_are_found_through_paths_groups_and_macros() {
    let uses = |text: &str| {
        let mut used = BTreeSet::new();
        collect(text.parse().expect("tokens"), true, &mut used);
        used.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(uses("use crate::{b::{self, X}, c};"), ["b", "c"]);
    assert_eq!(uses("fn f() { tokio::select! { _ = crate::b::g() => super::c::h(), } }"), ["b", "c"]);
    assert_eq!(uses("// crate::b\n#[cfg(test)] mod tests { use crate::b; } mod own { use super::c; }"), [""; 0]);
    let arrows = |pairs: &[(&str, &[&str])]| -> Arrows {
        pairs
            .iter()
            .map(|(module, used)| ((*module).to_owned(), used.iter().map(|name| (*name).to_owned()).collect()))
            .collect()
    };
    let circle = arrows(&[("a", &["b"]), ("b", &["c"]), ("c", &["a"]), ("d", &["a"])]);
    assert_eq!(cycles(&circle), BTreeSet::from([vec!["a", "b", "c"]]));
    assert_eq!(layers(&circle), None);
    let tower = arrows(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[]), ("d", &["c"])]);
    assert_eq!(layers(&tower), Some(BTreeMap::from([("a", 3), ("b", 2), ("c", 1), ("d", 2)])));
}

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

/// The modules that each module of a directory uses.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The arrows between the modules of each directory of a crate, by the path of the directory's module; empty for the crate's root.
type Directories = BTreeMap<Vec<String>, Arrows>;

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

/// The path of a file's module, like `host`, `cart`, `adding`.
pub(crate) fn module_of(src: &Path, file: &Path) -> Vec<String> {
    let below = file.strip_prefix(src).expect("a file below").with_extension("");
    let mut path: Vec<String> = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    path.pop_if(|last| last == "mod");
    path
}

/// The other names that paths have, with the paths that they stand for: a `use` gives the module that it is in a name.
type Names = BTreeMap<Vec<String>, Vec<String>>;

fn tokens_of(file: &Path) -> TokenStream {
    let text = fs::read_to_string(file).expect("sources are text");
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The path in the sources that a used path leads to, because `crate::Runtimes` depends on the module that defines it.
fn resolved(names: &Names, mut path: Vec<String>) -> Vec<String> {
    // Names lead to names. A name that leads to itself is a module that its parent imports.
    for _ in 0..8 {
        let is_name = |length: &usize| names.get(&path[..*length]).is_some_and(|to| *to != path[..*length]);
        let Some(length) = (1..=path.len()).find(is_name) else { break };
        path = [&names[&path[..length]], &path[length..]].concat();
    }
    path
}

fn arrows(src: &Path) -> Directories {
    let mut files = Vec::new();
    sources(src, &mut files);
    let mut directories = Directories::new();
    let modules: Vec<Vec<String>> = files.iter().map(|file| module_of(src, file)).collect();
    let mut names = Names::new();
    // The program of a crate that has a library, too, is a crate of its own.
    let root = ["lib.rs", "main.rs"].map(|name| src.join(name)).into_iter().find(|root| root.is_file());
    imports(tokens_of(&root.expect("a crate has a root")), &[], &mut names);
    for (file, module) in files.iter().zip(&modules) {
        imports(tokens_of(file), module, &mut names);
    }
    for module in &modules {
        let (name, directory) = module.split_last().expect("a module has a name");
        directories.entry(directory.to_vec()).or_default().entry(name.clone()).or_default();
    }
    for (file, module) in files.iter().zip(&modules) {
        let mut used = Vec::new();
        collect(tokens_of(file), module, &mut used);
        for path in used {
            let path = resolved(&names, path);
            let same = module.iter().zip(&path).take_while(|(own, other)| own == other).count();
            let (Some(from), Some(to)) = (module.get(same), path.get(same)) else { continue };
            // Functions and types of a directory's own module are not modules.
            let directory = directories.get_mut(&module[..same]).expect("the module is in it");
            if directory.contains_key(to) {
                directory.get_mut(from).expect("it was entered").insert(to.clone());
            }
        }
    }
    directories
}

/// Collects the paths that begin with `crate`, `self` or `super`, from the crate's root. Test modules are left out.
fn collect(tokens: TokenStream, module: &[String], used: &mut Vec<Vec<String>>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        if is_test_module(&tokens[at..]) {
            // The attribute, `mod`, its name and its body.
            at += 5;
            continue;
        }
        match &tokens[at] {
            TokenTree::Ident(ident) if is_path_separator(&tokens[at + 1..]) => {
                let from = match ident.to_string().as_str() {
                    "crate" => Some(Vec::new()),
                    "self" => Some(module.to_vec()),
                    "super" => Some(module[..module.len().saturating_sub(1)].to_vec()),
                    _ => None,
                };
                match from {
                    Some(from) => at += paths(&tokens[at + 3..], from, used) + 3,
                    // The rest of a path that begins elsewhere.
                    None => at += 3,
                }
                continue;
            }
            TokenTree::Ident(ident) if ident == "mod" => {
                if let (Some(TokenTree::Ident(name)), Some(TokenTree::Group(body))) =
                    (tokens.get(at + 1), tokens.get(at + 2))
                {
                    collect(body.stream(), &[module, &[name.to_string()]].concat(), used);
                    at += 2;
                }
            }
            TokenTree::Group(group) => collect(group.stream(), module, used),
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
        at += 1;
    }
}

/// Collects what the `use` declarations of a module import, with the names under which it does.
fn imports(tokens: TokenStream, module: &[String], names: &mut Names) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is_use = |token: &TokenTree| matches!(token, TokenTree::Ident(ident) if ident == "use");
    let is_end = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ';');
    for declaration in tokens.split(is_end) {
        let Some(begin) = declaration.iter().rposition(is_use) else { continue };
        let rest = &declaration[begin + 1..];
        let (from, rest) = match rest {
            [TokenTree::Ident(first), tail @ ..] if is_path_separator(tail) => match first.to_string().as_str() {
                "crate" => (Vec::new(), &tail[2..]),
                "super" => (module[..module.len().saturating_sub(1)].to_vec(), &tail[2..]),
                "self" => (module.to_vec(), &tail[2..]),
                _ => (module.to_vec(), rest),
            },
            _ => continue,
        };
        let mut imported = Vec::new();
        paths(rest, from, &mut imported);
        for path in imported {
            let name = path.last().expect("a path has a name").clone();
            names.insert([module, &[name]].concat(), path);
        }
    }
}

/// Whether these tokens begin with `::`.
fn is_path_separator(tokens: &[TokenTree]) -> bool {
    tokens.len() >= 2
        && tokens[..2].iter().all(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':'))
}

/// `#[cfg(test)] mod tests { … }`, or with a `;`.
pub(crate) fn is_test_module(tokens: &[TokenTree]) -> bool {
    let [TokenTree::Punct(hash), TokenTree::Group(attribute), TokenTree::Ident(keyword), ..] = tokens else {
        return false;
    };
    hash.as_char() == '#' && attribute.stream().to_string().replace(' ', "") == "cfg(test)" && keyword == "mod"
}

/// Adds the path that goes on with these tokens, or all paths of a group in braces. Returns how many tokens it takes.
fn paths(tokens: &[TokenTree], mut path: Vec<String>, used: &mut Vec<Vec<String>>) -> usize {
    let mut at = 0;
    loop {
        match tokens.get(at) {
            Some(TokenTree::Ident(name)) if name == "super" => _ = path.pop(),
            Some(TokenTree::Ident(name)) if name != "self" => path.push(name.to_string()),
            Some(TokenTree::Ident(_)) => {}
            Some(TokenTree::Group(group)) => {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
                for part in inside.split(is_comma) {
                    paths(part, path.clone(), used);
                }
                return at + 1;
            }
            Some(TokenTree::Punct(_) | TokenTree::Literal(_)) | None => return at,
        }
        at += 1;
        if !is_path_separator(&tokens[at..]) {
            used.push(path);
            return at;
        }
        at += 2;
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
pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The modules of each crate, and of each program that has a directory of its own.
fn crates() -> BTreeMap<String, Directories> {
    let inside = |directory: &Path| -> Vec<PathBuf> {
        fs::read_dir(directory)
            .map(|entries| entries.map(|entry| entry.expect("an entry").path()).collect())
            .unwrap_or_default()
    };
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    let mut crates = BTreeMap::new();
    for path in inside(&directory()).into_iter().filter(|path| path.join("src").is_dir()) {
        for program in inside(&path.join("src/bin")).into_iter().filter(|path| path.is_dir()) {
            crates.insert(format!("{}/src/bin/{}", name(&path), name(&program)), arrows(&program));
        }
        crates.insert(name(&path), arrows(&path.join("src")));
    }
    crates
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
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, directories) in &crates {
        for (directory, arrows) in directories {
            let circles: Vec<String> = cycles(arrows).into_iter().map(|circle| circle.join(" ")).collect();
            if !circles.is_empty() {
                found.insert([std::slice::from_ref(name), &directory[..]].concat().join("::"), circles);
            }
        }
    }
    let modules: usize = crates.values().flat_map(|directories| directories.values()).map(Arrows::len).sum();
    assert!(modules > 400, "{modules} modules were read");
    assert_eq!(
        found,
        BTreeMap::new(),
        "modules depend on each other in a cycle: move the shared part into a module below both"
    );
}

#[test]
fn the_page_of_modules_shows_every_dependency() {
    let mut page = PAGE_HEAD.to_owned();
    for (name, arrows) in crates().iter().filter_map(|(name, directories)| Some((name, directories.get(&[][..])?))) {
        let layers = layers(arrows).unwrap_or_else(|| panic!("modules of {name} depend on each other in a cycle"));
        let mut rows: Vec<(&str, &BTreeSet<String>)> =
            arrows.iter().map(|(module, used)| (module.as_str(), used)).collect();
        rows.sort_by_key(|(module, _)| (std::cmp::Reverse(layers[module]), *module));
        write!(page, "\n## {name}\n\n| layer | module | what it is | uses |\n|---|---|---|---|\n")
            .expect("a string grows");
        for (module, used) in rows {
            let used = used.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let src = directory().join(name).join(if name.contains('/') { "" } else { "src" });
            let what = description(&src, module);
            writeln!(page, "| {} | **{module}** | {what} | {used} |", layers[module]).expect("a string grows");
        }
    }
    reference::check("docs/internals/modules.md", &page);
}

#[test]
fn cycles_are_found_through_paths_groups_and_macros() {
    let uses = |text: &str| {
        let mut used = Vec::new();
        let module = ["host", "cart"].map(str::to_owned);
        collect(text.parse().expect("tokens"), &module, &mut used);
        used.iter().map(|path| path.join("::")).collect::<Vec<_>>()
    };
    assert_eq!(uses("use crate::{b::{self, X}, c};"), ["b", "b::X", "c"]);
    assert_eq!(
        uses("fn f() { tokio::select! { _ = crate::b::g() => super::c::h(self::d::E), } }"),
        ["b::g", "host::c::h", "host::cart::d::E"]
    );
    assert_eq!(
        uses("// crate::b\n#[cfg(test)] mod tests { use crate::b; } mod own { use super::super::c; }"),
        ["host::c"]
    );
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

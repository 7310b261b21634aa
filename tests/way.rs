//! The page of the way of a hold, `docs/internals/way-of-a-hold.md`, is compared with the sources. Every function that it names
//! exists, and every step mentions the function that the page names next. Public functions are named by the compiler as well.
//!
//! A mention is found by its name, and by its type where the call says one. So this test does not see that a method of another type
//! is meant by `a.take()`, but it sees every function that was renamed, moved or is not called any more.

use std::{
    any::type_name_of_val,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::modules::{directory, is_test_module, module_of, sources};

/// The page.
const PAGE: &str = "docs/internals/way-of-a-hold.md";

/// The page with every refusal and failure.
const REFUSALS: &str = "docs/reference/refusals.md";

/// The first cell of the tables of steps, and of the table of queues.
const STEPS: &str = "step";
const QUEUES: &str = "queue";

/// The least number of steps and of checked arrows that the page must have.
const STEPS_MIN: usize = 50;
const ARROWS_MIN: usize = 70;

/// A function of the sources.
#[derive(Clone)]
struct Function {
    arguments: TokenStream,
    /// The body. Empty for a function of a trait without one.
    body: TokenStream,
    /// Whether it is `pub`, and no argument is an `impl`, so that its name alone is a value.
    is_nameable: bool,
}

/// What the sources define, by path.
#[derive(Default)]
struct Index {
    functions: BTreeMap<String, Vec<Function>>,
    /// Modules, types and constants.
    others: BTreeSet<String>,
}

/// The name of a function, as its callers write it.
struct Name<'a> {
    /// The type or trait of a method. `None` for a free function.
    owner: Option<&'a str>,
    /// The path of a free function's module. Those above it may export the function.
    module: &'a str,
    name: &'a str,
}

/// A row of a table of steps.
struct Step {
    /// The number of its section and its own, `5.2`.
    number: String,
    /// Each calls the next one.
    functions: Vec<String>,
    refusals: Vec<String>,
    /// The next steps, each with the name of the queue between, if there is one.
    next: Vec<(String, Option<String>)>,
}

/// A row of the table of queues: the functions that put in and take out. `None` stands for a library.
struct Queue {
    put: Option<String>,
    take: Option<String>,
}

/// The functions of the page that are public, as the compiler names them. A type that is a parameter is `()`.
fn public_functions() -> BTreeSet<String> {
    use boxoffice_node::{api::ReplyTo, node::NodeHandle};
    use boxoffice_replication::replicators::Replicators;
    use boxoffice_storage::log::{Log, LogWriter};
    use boxoffice_wire::{Head, Request, encode, envelope::Envelope, feed::Delta};

    let functions = [
        path(&boxoffice_core::session::Session::apply),
        path(&boxoffice_core::session::Session::changed_since),
        path(&boxoffice_core::state_map::State::apply),
        path(&boxoffice_core::state_map::StateMap::apply_in_memory),
        path(&boxoffice_feeds::Feeds::commit),
        path(&boxoffice_feeds::Watcher::ready),
        path(&NodeHandle::check_size),
        path(&NodeHandle::sheds),
        path(&NodeHandle::sheds_first),
        path(&NodeHandle::submit),
        path(&ReplyTo::answer),
        path(&Replicators::<()>::frame),
        path(&Replicators::<()>::push),
        path(&boxoffice_shard::Engine::<()>::persisted),
        path(&Log::append),
        path(&LogWriter::append),
        path(&LogWriter::sync),
        path(&encode::delta::<Delta>),
        path(&encode::outcome),
        path(&Envelope::read),
        path(&Head::read),
        path(&Head::request),
        path(&Request::from_parts),
    ];
    functions.into_iter().collect()
}

/// The path of a function as the page has it: without parameters, and with the type where a module says only `impl`.
fn path<F>(function: &F) -> String {
    let whole = type_name_of_val(function).trim_start_matches("boxoffice_");
    let (mut depth, mut path) = (0, String::new());
    for part in whole.split_inclusive(['<', '>']) {
        let text = part.trim_end_matches(['<', '>']);
        if depth == 0 {
            path.push_str(text);
        } else if let (1, Some(owner)) = (depth, text.strip_prefix("impl ")) {
            path.push_str(owner.rsplit("::").next().unwrap_or(owner));
        }
        depth += i32::from(part.ends_with('<'));
        depth -= i32::from(part.ends_with('>'));
    }
    path
}

fn index() -> Index {
    let mut index = Index::default();
    let mut crates: Vec<_> =
        fs::read_dir(directory()).expect("the crates").map(|entry| entry.expect("one").path()).collect();
    crates.sort();
    for path in crates.into_iter().filter(|path| path.join("src/lib.rs").is_file()) {
        let (name, src) = (path.file_name().expect("a name").to_string_lossy().into_owned(), path.join("src"));
        let mut files = vec![src.join("lib.rs")];
        sources(&src, &mut files);
        for file in files {
            let mut module = vec![name.clone()];
            module.extend(module_of(&src, &file).into_iter().filter(|part| part != "lib"));
            let text = fs::read_to_string(&file).expect("sources are text");
            let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            index.others.insert(module.join("::"));
            index.collect(tokens, &module);
        }
    }
    index
}

impl Index {
    /// Collects the items of a module, an `impl` or a trait.
    fn collect(&mut self, tokens: TokenStream, path: &[String]) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            if is_test_module(&tokens[at..]) {
                // The attribute, `mod`, its name and its body.
                at += 5;
                continue;
            }
            let name = tokens.get(at + 1).map(ToString::to_string).unwrap_or_default();
            match word(&tokens[at]).as_deref() {
                Some("fn") => {
                    let (arguments, body) = (arguments(&tokens[at..]), body(&tokens[at..]));
                    let is_nameable = is_public(&tokens[..at]) && !has_word(&arguments, "impl");
                    let function = Function { arguments, body, is_nameable };
                    self.functions.entry(join(path, &name)).or_default().push(function);
                    at += end(&tokens[at..]);
                }
                Some(kind @ ("mod" | "trait")) => {
                    self.others.insert(join(path, &name));
                    if kind == "trait" || is_braces(tokens.get(at + 2)) {
                        self.collect(body(&tokens[at..]), &[path, &[name]].concat());
                    }
                    at += end(&tokens[at..]);
                }
                // What a macro writes is an item of the module that has the macro.
                Some("macro_rules") => {
                    for token in body(&tokens[at..]) {
                        if let TokenTree::Group(group) = token {
                            self.collect(group.stream(), path);
                        }
                    }
                    at += end(&tokens[at..]);
                }
                Some("impl") => {
                    let length = end(&tokens[at..]);
                    let owner = implemented(&tokens[at + 1..at + length]);
                    self.collect(body(&tokens[at..]), &[path, &[owner]].concat());
                    at += length;
                }
                Some("struct" | "enum" | "type" | "const" | "static") if name != "fn" => {
                    self.others.insert(join(path, &name));
                    at += 1;
                }
                _ => at += 1,
            }
        }
    }

    fn has(&self, path: &str) -> bool {
        self.functions.contains_key(path) || self.others.contains(path)
    }

    /// The name of a function for a search in the sources.
    fn name<'a>(&self, path: &'a str) -> Name<'a> {
        // A method of a library.
        let Some((parent, name)) = path.rsplit_once("::") else {
            return Name { owner: Some(""), module: "", name: path };
        };
        let last = |path: &'a str| path.rsplit_once("::").map_or(path, |(_, last)| last);
        let is_type = last(parent).starts_with(char::is_uppercase);
        let module = if is_type { parent.rsplit_once("::").map_or("", |(module, _)| module) } else { parent };
        Name { owner: is_type.then(|| last(parent)), module, name }
    }

    /// Whether one of these functions mentions another one.
    fn mentions(&self, from: &[&str], to: &str) -> bool {
        let name = self.name(to);
        let mut functions = from.iter().filter_map(|from| self.functions.get(*from)).flatten();
        functions.any(|Function { arguments, body, .. }| {
            let is_variable = has_word(arguments, name.name) || binds(body, name.name);
            name.is_in(body.clone(), false, is_variable)
        })
    }

    /// Functions of this name elsewhere.
    fn namesakes(&self, path: &str) -> String {
        let last = path.rsplit("::").next().unwrap_or(path);
        let found = self.functions.keys().filter(|path| path.rsplit("::").next() == Some(last));
        let found: Vec<&str> = found.map(String::as_str).take(5).collect();
        if found.is_empty() {
            "there is no function of this name".into()
        } else {
            format!("is it {}?", found.join(", "))
        }
    }
}

impl Name<'_> {
    /// Whether tokens call this function or name it as a value. `are_arguments` of a call they are, and `is_variable` says that a variable
    /// has the name.
    fn is_in(&self, tokens: TokenStream, are_arguments: bool, is_variable: bool) -> bool {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is_name = |at: usize| word(&tokens[at]).is_some_and(|word| word == self.name);
        (0..tokens.len()).any(|at| match &tokens[at] {
            TokenTree::Group(group) => {
                // Types and variants begin with a capital.
                let called = at.checked_sub(1).and_then(|before| word(&tokens[before])).unwrap_or_default();
                self.is_in(group.stream(), called.starts_with(char::is_lowercase), is_variable)
            }
            TokenTree::Ident(_) => is_name(at) && self.is_at(&tokens, at, are_arguments && !is_variable),
            TokenTree::Punct(_) | TokenTree::Literal(_) => false,
        })
    }

    /// Whether the identifier there is a call or a path to this function, and not a variable or a field. If it `may_be_value`, the
    /// function may be an argument of a call.
    fn is_at(&self, tokens: &[TokenTree], at: usize, may_be_value: bool) -> bool {
        let before = |back: usize| at.checked_sub(back).map(|at| &tokens[at]);
        let is_call = match tokens.get(at + 1) {
            Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Parenthesis,
            Some(TokenTree::Punct(punct)) => punct.as_char() == ':' && is_punct(tokens.get(at + 3), '<'),
            _ => false,
        };
        if is_punct(before(1), ':') && is_punct(before(2), ':') {
            let qualifier = before(3).and_then(word).unwrap_or_default();
            // A parameter of one letter may stand for the type.
            let fits_type = |owner: &str| qualifier == owner || qualifier == "Self" || qualifier.len() == 1;
            return match self.owner {
                Some(owner) => fits_type(owner),
                None => {
                    self.module.split("::").any(|module| module == qualifier)
                        || matches!(&*qualifier, "self" | "super" | "crate")
                }
            };
        }
        let is_argument = may_be_value
            && (before(1).is_none() || is_punct(before(1), ','))
            && (tokens.get(at + 1).is_none() || is_punct(tokens.get(at + 1), ','));
        match self.owner {
            Some(_) => is_call && is_punct(before(1), '.'),
            None => !is_punct(before(1), '.') && (is_call || is_argument),
        }
    }
}

fn join(path: &[String], name: &str) -> String {
    [path, &[name.to_owned()]].concat().join("::")
}

fn word(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(ident) => Some(ident.to_string()),
        TokenTree::Group(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => None,
    }
}

fn is_punct(token: Option<&TokenTree>, char: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == char)
}

fn is_braces(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace)
}

/// How many tokens an item has, up to its body or its semicolon.
fn end(tokens: &[TokenTree]) -> usize {
    let ends = |token: &TokenTree| is_braces(Some(token)) || is_punct(Some(token), ';');
    tokens.iter().position(ends).map_or(tokens.len(), |last| last + 1)
}

/// The body of an item. Empty if it has none.
fn body(tokens: &[TokenTree]) -> TokenStream {
    match &tokens[end(tokens) - 1] {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => group.stream(),
        _ => TokenStream::new(),
    }
}

/// The name of the type in the head of an `impl`.
fn implemented(head: &[TokenTree]) -> String {
    let (mut depth, mut name) = (0, String::new());
    for (at, token) in head.iter().enumerate() {
        let is_arrow = at > 0 && is_punct(Some(&head[at - 1]), '-');
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '<' => depth += 1,
            TokenTree::Punct(punct) if punct.as_char() == '>' && !is_arrow => depth -= 1,
            TokenTree::Ident(ident) if depth == 0 && ident == "where" => return name,
            TokenTree::Ident(ident) if depth == 0 && ident != "for" => name = ident.to_string(),
            _ => {}
        }
    }
    name
}

/// The arguments of the function that begins there.
fn arguments(tokens: &[TokenTree]) -> TokenStream {
    let arguments = tokens.iter().find_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => Some(group.stream()),
        _ => None,
    });
    arguments.unwrap_or_default()
}

/// Whether `pub` stands at the end of these tokens, before the `fn` of a function.
fn is_public(before: &[TokenTree]) -> bool {
    let is_modifier = |token: &&TokenTree| matches!(word(token).as_deref(), Some("async" | "const" | "unsafe"));
    before.iter().rev().find(|token| !is_modifier(token)).and_then(word).is_some_and(|word| word == "pub")
}

/// Whether a word is among tokens, at their top.
fn has_word(tokens: &TokenStream, wanted: &str) -> bool {
    tokens.clone().into_iter().any(|token| word(&token).is_some_and(|word| word == wanted))
}

/// Whether a `let` in these tokens names a variable so.
fn binds(tokens: &TokenStream, name: &str) -> bool {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let is_let = |at: usize| {
        let after = tokens[at + 1..].iter().map(word).find(|word| word.as_deref() != Some("mut"));
        word(&tokens[at]).as_deref() == Some("let") && after.flatten().as_deref() == Some(name)
    };
    (0..tokens.len()).any(|at| match &tokens[at] {
        TokenTree::Group(group) => binds(&group.stream(), name),
        _ => is_let(at),
    })
}

fn read(page: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page)).expect("a page")
}

/// The rows of the tables whose first column has this name.
fn rows(page: &str, first: &str) -> Vec<Vec<String>> {
    let cells =
        |line: &str| -> Vec<String> { line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect() };
    let (mut rows, mut is_inside) = (Vec::new(), false);
    for line in page.lines() {
        if !line.starts_with('|') {
            is_inside = false;
        } else if is_inside && !line.starts_with("|--") {
            rows.push(cells(line));
        } else if cells(line)[0] == first {
            is_inside = true;
        }
    }
    rows
}

/// The words in backticks.
fn code(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The functions at the beginning of a cell, with arrows between. A name without a path stands beside the function before it.
fn chain(cell: &str) -> Vec<String> {
    let mut functions: Vec<String> = Vec::new();
    let mut rest = cell;
    while let Some((name, after)) = rest.strip_prefix('`').and_then(|rest| rest.split_once('`')) {
        let beside = functions.last().and_then(|before| before.rsplit_once("::")).map(|(parent, _)| parent.to_owned());
        functions.push(match beside {
            Some(parent) if !name.contains("::") => format!("{parent}::{name}"),
            Some(_) | None => name.to_owned(),
        });
        rest = after.strip_prefix(" → ").unwrap_or_default();
    }
    functions
}

fn steps(page: &str) -> Vec<Step> {
    let step = |row: Vec<String>| {
        let [number, functions, _on, refusals, _waits, next] = &row[..] else { panic!("six cells: {row:?}") };
        let next = next.split(',').map(str::trim).filter(|next| *next != "–").map(|next| {
            let (number, queue) = next.split_once(" by ").map_or((next, None), |(number, queue)| (number, Some(queue)));
            (number.to_owned(), queue.map(str::to_owned))
        });
        Step { number: number.clone(), functions: chain(functions), refusals: code(refusals), next: next.collect() }
    };
    rows(page, STEPS).into_iter().map(step).collect()
}

fn queues(page: &str) -> BTreeMap<String, Queue> {
    let queue = |row: Vec<String>| {
        let [name, put, take, _bound] = &row[..] else { panic!("four cells: {row:?}") };
        let one = |cell: &str| code(cell).into_iter().next();
        (name.clone(), Queue { put: one(put), take: one(take) })
    };
    rows(page, QUEUES).into_iter().map(queue).collect()
}

/// The differences between the page and the sources.
fn wrong(page: &str, index: &Index) -> Vec<String> {
    let (steps, queues) = (steps(page), queues(page));
    let mut wrong = Vec::new();
    let mut reached: BTreeSet<&str> = steps.first().map(|step| &*step.number).into_iter().collect();
    let mut before = (0, 0);
    for step in &steps {
        let Step { number, functions, next, .. } = step;
        let (section, place) = number
            .split_once('.')
            .and_then(|(section, place)| Some((section.parse().ok()?, place.parse().ok()?)))
            .unwrap_or_default();
        if (section, place) != (before.0, before.1 + 1) && (section, place) != (before.0 + 1, 1) {
            wrong.push(format!("step {number} follows {}.{}", before.0, before.1));
        }
        before = (section, place);
        for function in functions.iter().filter(|function| !index.functions.contains_key(*function)) {
            wrong.push(format!("step {number}: no function {function}; {}", index.namesakes(function)));
        }
        let exists = |name: &String| index.functions.contains_key(name);
        let is_missed = |pair: &&[String]| pair.iter().all(exists) && !index.mentions(&[&pair[0]], &pair[1]);
        for pair in functions.windows(2).filter(is_missed) {
            wrong.push(format!("step {number}: {} does not mention {}", pair[0], pair[1]));
        }
        let from: Vec<&str> = functions.iter().map(String::as_str).collect();
        for (to, queue) in next {
            reached.insert(to);
            let Some(target) = steps.iter().find(|step| step.number == *to) else {
                wrong.push(format!("step {number} goes on to {to}, which there is not"));
                continue;
            };
            let target: Vec<&str> = target.functions.iter().map(String::as_str).collect();
            let arrows = match queue {
                None => vec![(&from, target.first().map(|first| (*first).to_owned()))],
                Some(name) => match queues.get(name) {
                    Some(Queue { put, take }) => vec![(&from, put.clone()), (&target, take.clone())],
                    None => {
                        wrong.push(format!("step {number}: no queue {name}"));
                        continue;
                    }
                },
            };
            for (from, called) in arrows {
                // A step may be the end of a queue itself.
                let Some(called) = called.filter(|called| !from.contains(&&**called)) else { continue };
                if !index.mentions(from, &called) {
                    wrong.push(format!("step {number} to {to}: none of {from:?} mentions {called}"));
                }
            }
        }
    }
    let unreached = steps.iter().filter(|step| !reached.contains(&*step.number));
    wrong.extend(unreached.map(|step| format!("no step goes on to {}", step.number)));
    for (name, Queue { put, take }) in &queues {
        let ends = [put, take].into_iter().flatten().filter(|end| end.contains("::"));
        wrong.extend(
            ends.filter(|end| !index.functions.contains_key(*end))
                .map(|end| format!("queue {name}: no function {end}")),
        );
        if !steps.iter().flat_map(|step| &step.next).any(|(_, queue)| queue.as_ref() == Some(name)) {
            wrong.push(format!("no step uses the queue {name}"));
        }
    }
    wrong
}

#[test]
fn the_way_of_a_hold_is_the_way_through_the_sources() {
    let (page, index) = (read(PAGE), index());
    let mut wrong = wrong(&page, &index);
    let steps = steps(&page);
    let arrows: usize = steps.iter().map(|step| step.next.len() + step.functions.len() - 1).sum();
    assert!(steps.len() >= STEPS_MIN && arrows >= ARROWS_MIN, "{} steps with {arrows} arrows", steps.len());
    // Other names in the page.
    let is_path = |name: &&String| name.split_once("::").is_some_and(|(first, _)| index.others.contains(first));
    let prose: String = page.split("```").step_by(2).collect();
    let names = code(&prose).into_iter().filter(|name| is_path(&name));
    let steps_are_wrong = wrong.join("\n");
    let missing = names.filter(|name| !index.has(name) && !steps_are_wrong.contains(&**name));
    wrong.extend(missing.map(|name| format!("no {name}; {}", index.namesakes(&name))));
    let refusals = read(REFUSALS);
    let headings: Vec<&str> =
        refusals.lines().filter_map(|line| line.strip_prefix("### ")?.split_once(' ')).map(|(_, name)| name).collect();
    for step in &steps {
        let unknown = step.refusals.iter().filter(|name| !headings.contains(&&***name));
        wrong.extend(unknown.map(|name| format!("step {}: no refusal {name}", step.number)));
    }
    assert!(wrong.is_empty(), "{PAGE} is wrong:\n{}", wrong.join("\n"));
}

#[test]
fn the_compiler_knows_every_public_function_of_the_way() {
    let (page, index) = (read(PAGE), index());
    let (steps, queues) = (steps(&page), queues(&page));
    let of_queues = queues.values().flat_map(|queue| [&queue.put, &queue.take]).flatten();
    let named = steps.iter().flat_map(|step| &step.functions).chain(of_queues);
    let is_public =
        |name: &&String| index.functions.get(*name).is_some_and(|all| all.iter().all(|one| one.is_nameable));
    let public: BTreeSet<String> = named.filter(is_public).cloned().collect();
    assert_eq!(public_functions(), public, "left: `public_functions`, right: {PAGE}");
}

#[test]
fn a_renamed_function_and_a_call_that_is_gone_are_found() {
    let sources = "
        pub fn first(a: A) { a.second(); third::<u8>(1); spawn(fourth); }
        impl<T: Fn() -> u8> From<T> for A<T> where T: B { fn second(self) { let fifth = 1; Queue::put(fifth) } }
        impl A<u8> { pub async fn sixth(&self, by: impl Fn()) { by.third(); self.fourth } }
        trait Queue { fn put(); fn take() { Other::put() } }
        #[cfg(test)] mod tests { fn seventh() {} }
        mod inner { fn third() {} fn fourth() {} fn fifth() {} }
        macro_rules! write { ($($name:ident)*) => { impl B { fn eighth(self) { $(Self::$name();)* A::second() } } }; }
    ";
    let mut index = Index::default();
    index.collect(sources.parse().expect("tokens"), &["way".to_owned()]);
    let names: Vec<&str> = index.functions.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "way::A::second",
            "way::A::sixth",
            "way::B::eighth",
            "way::Queue::put",
            "way::Queue::take",
            "way::first",
            "way::inner::fifth",
            "way::inner::fourth",
            "way::inner::third"
        ]
    );
    assert!(index.functions["way::first"][0].is_nameable && !index.functions["way::A::sixth"][0].is_nameable);
    let mentions = |from: &str, to: &str| index.mentions(&[from], to);
    for to in ["way::A::second", "way::inner::third", "way::inner::fourth"] {
        assert!(mentions("way::first", to), "{to}");
    }
    assert!(mentions("way::B::eighth", "way::A::second"), "what a macro writes calls as well");
    assert!(!mentions("way::first", "way::inner::second"), "a method is no free function");
    assert!(!mentions("way::A::second", "way::inner::fifth"), "a variable is no call");
    assert!(mentions("way::A::second", "way::Queue::put") && !mentions("way::Queue::take", "way::Queue::put"));
    assert!(!mentions("way::A::sixth", "way::inner::third") && !mentions("way::A::sixth", "way::A::fourth"));

    let page = |rows: &str| {
        let queues =
            "| queue | put | taken | bound |\n|---|---|---|---|\n| line | `way::Queue::put` | by a library | one |\n";
        format!("{queues}\n| step | function | on | refuses | waits | then |\n|---|---|---|---|---|---|\n{rows}")
    };
    let right = "| 1.1 | `way::first` → `way::A::second`: begins | s | – | – | 1.2, 2.1 by line |\n\
                 | 1.2 | `way::inner::third` | s | – | – | – |\n| 2.1 | `way::inner::fourth` → `fifth` | s | – | – | – |\n";
    let wrong = |rows: &str| wrong(&page(rows), &index);
    assert_eq!(wrong(right), ["step 2.1: way::inner::fourth does not mention way::inner::fifth"]);
    let cases = [
        ("`way::inner::third`", "`way::inner::renamed`", "step 1.2: no function way::inner::renamed"),
        ("1.2, 2.1 by line", "2.1 by line", "no step goes on to 1.2"),
        ("1.2, 2.1 by line", "1.2, 2.1", "no step uses the queue line"),
        ("1.2, 2.1 by line", "1.2, 2.1 by road", "step 1.1: no queue road"),
        ("1.2, 2.1 by line", "1.2, 2.2", "step 1.1 goes on to 2.2"),
        ("→ `way::A::second`", "→ `way::A::sixth`", "step 1.1: way::first does not mention way::A::sixth"),
        ("| 2.1 |", "| 2.2 |", "step 2.2 follows 1.2"),
    ];
    for (before, after, expected) in cases {
        let found = wrong(&right.replace(before, after));
        assert!(found.iter().any(|found| found.starts_with(expected)), "{after}: {found:?}");
    }
}

//! A page of the runbook: its commands, and what they print.

use std::{fs, path::PathBuf, time::Duration};

use tokio::time::{Instant, sleep};

use super::{site::Site, volatile::masked};
use crate::common::TIMEOUT;

/// A command that only looks is repeated until it prints what the page says, this far apart.
const AGAIN_AFTER: Duration = Duration::from_millis(400);

/// When pages are written, it is repeated until it has printed the same for this time.
const STEADY: Duration = Duration::from_secs(4);

/// The beginning and the end of a transcript.
const TRANSCRIPT: &str = "```console";
const FENCE: &str = "```";

/// Commands that change nothing.
const LOOKS: [&str; 6] = [
    "boxoffice admin status",
    "boxoffice admin nodes",
    "boxoffice admin audit",
    "boxoffice admin sessions",
    "curl ",
    "journalctl ",
];

pub(super) struct Page {
    path: PathBuf,
    /// What is written, with the outputs of this run.
    parts: Vec<Part>,
    played: Vec<String>,
}

enum Part {
    /// A line that is no transcript's.
    Prose(String),
    /// A command of a section, at a machine.
    Command { section: String, machine: String, typed: Vec<String>, output: String },
}

impl Page {
    /// # Panics
    /// If there is no such page.
    pub(super) fn open(name: &str) -> Page {
        let path = super::site::pages().join(format!("{name}.md"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Page { parts: parts(&text), path, played: Vec::new() }
    }

    /// Types the commands of a section, and compares what they print.
    pub(super) async fn play(&mut self, name: &str, site: &mut Site) {
        println!("--- {name}");
        self.played.push(name.to_owned());
        let is_update = std::env::var_os("UPDATE_EXPECT").is_some();
        let mut count = 0;
        for part in &mut self.parts {
            let Part::Command { section, machine, typed, output } = part else { continue };
            if section != name {
                continue;
            }
            count += 1;
            let began = Instant::now();
            let typed: String = typed.iter().map(|line| line.trim_end_matches('\\')).collect();
            let printed = type_it(site, machine, &typed, (!is_update).then_some(output.as_str())).await;
            println!("[{:.1} s] {machine}$ {typed}\n{printed}", began.elapsed().as_secs_f64());
            if is_update && masked(output) != masked(&printed) {
                *output = printed;
            } else if !is_update {
                assert_eq!(
                    masked(&printed),
                    masked(output),
                    "{}: `{typed}` at {machine} does not print what the page says. It printed\n{printed}",
                    self.path.display()
                );
            }
        }
        assert!(count > 0, "{}: the section {name:?} has no command", self.path.display());
    }

    /// Checks that every command was typed. Writes the page if outputs are to be updated.
    pub(super) fn end(self) {
        for part in &self.parts {
            if let Part::Command { section, typed, .. } = part {
                assert!(self.played.contains(section), "{}: nobody types {typed:?}", self.path.display());
            }
        }
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&self.path, written(&self.parts)).expect("a written page");
        }
    }
}

/// Types a command. If it only looks, it is repeated until it prints what is expected, or the same for a while.
async fn type_it(site: &mut Site, machine: &str, typed: &str, expected: Option<&str>) -> String {
    let deadline = Instant::now() + TIMEOUT;
    let (mut printed, mut since) = (site.run(machine, typed).await, Instant::now());
    if !LOOKS.iter().any(|looks| typed.starts_with(looks)) {
        return printed;
    }
    loop {
        let is_done = match expected {
            Some(expected) => masked(&printed) == masked(expected),
            None => since.elapsed() > STEADY,
        };
        if is_done || Instant::now() > deadline {
            return printed;
        }
        sleep(AGAIN_AFTER).await;
        let again = site.run(machine, typed).await;
        if masked(&again) != masked(&printed) {
            since = Instant::now();
        }
        printed = again;
    }
}

/// The machine and the command of a line like `one$ boxoffice admin status`.
fn prompt(line: &str) -> Option<(&str, &str)> {
    let (machine, command) = line.split_once("$ ")?;
    machine.chars().all(|char| char.is_ascii_lowercase()).then_some((machine, command))
}

fn parts(text: &str) -> Vec<Part> {
    let (mut parts, mut heading, mut is_transcript) = (Vec::new(), String::new(), false);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("## ") {
            name.clone_into(&mut heading);
        }
        let command = if is_transcript { prompt(line) } else { None };
        let Some((machine, command)) = command else {
            assert!(!is_transcript || line == FENCE, "{line:?} is no command");
            is_transcript = line == TRANSCRIPT;
            parts.push(Part::Prose(line.to_owned()));
            continue;
        };
        let mut typed = vec![command.to_owned()];
        while typed.last().is_some_and(|line| line.ends_with('\\')) {
            typed.push(lines.next().expect("a command ends").to_owned());
        }
        let mut output = String::new();
        while let Some(line) = lines.next_if(|line| prompt(line).is_none() && *line != FENCE) {
            output.push_str(line);
            output.push('\n');
        }
        parts.push(Part::Command { section: heading.clone(), machine: machine.to_owned(), typed, output });
    }
    parts
}

fn written(parts: &[Part]) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Prose(line) => text.push_str(line),
            Part::Command { machine, typed, output, .. } => {
                text.push_str(&format!("{machine}$ {}", typed.join("\n")));
                if !output.trim_end().is_empty() {
                    text.push('\n');
                    text.push_str(output.trim_end());
                }
            }
        }
        text.push('\n');
    }
    text
}

#[test]
fn a_page_is_read_and_written_as_it_was() {
    let text = "# A\n\n## B\n\n```console\none$ a \\\n  b\nc\n\nd\ntwo$ e\n```\n\nf$ g\n";
    let parts = parts(text);
    assert_eq!(written(&parts), text);
    let commands = parts.iter().filter_map(|part| match part {
        Part::Command { section, machine, typed, output } => Some((&**section, &**machine, typed.len(), &**output)),
        Part::Prose(_) => None,
    });
    assert_eq!(commands.collect::<Vec<_>>(), [("B", "one", 2, "c\n\nd\n"), ("B", "two", 1, "")]);
}

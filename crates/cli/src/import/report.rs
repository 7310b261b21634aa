//! What became of an import: a line for everything in the file.

use std::collections::BTreeMap;

use crate::reach::say;

/// What became of one thing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It was not there, and is now.
    Made,
    /// It was there with other content, and has the file's now.
    Changed,
    /// It was there just so.
    There,
    /// It could not be made, and why.
    Refused(String),
}

/// Things and what became of them, in the order of the file.
#[derive(Debug, Default)]
pub struct Report {
    lines: Vec<(Fate, String)>,
    /// Sessions that can be sold now.
    sellable: Vec<String>,
}

impl Report {
    /// Notes what became of a thing.
    pub fn note(&mut self, fate: Fate, thing: String) {
        self.lines.push((fate, thing));
    }

    /// Notes that a session can be sold.
    pub fn sellable(&mut self, session: String) {
        self.sellable.push(session);
    }

    /// How many things there were.
    pub fn all(&self) -> usize {
        self.lines.len()
    }

    /// How many of them were refused.
    pub fn refused(&self) -> usize {
        self.lines.iter().filter(|(fate, _)| matches!(fate, Fate::Refused(_))).count()
    }

    /// The lines, a summary, and what to do next.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.lines.iter().map(|(fate, thing)| line(fate, thing)).collect();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (fate, _) in &self.lines {
            *counts.entry(word(fate)).or_default() += 1;
        }
        let summary: Vec<String> = ["made", "changed", "there", "refused"]
            .into_iter()
            .filter_map(|word| counts.get(word).map(|count| format!("{count} {}", in_summary(word))))
            .collect();
        lines.push(if summary.is_empty() { "There was nothing to import.".into() } else { summary.join(", ") });
        if let Some(session) = self.sellable.first() {
            lines.push(format!("To sell: boxoffice book {session}"));
        }
        lines
    }

    /// Prints them.
    pub fn print(&self) {
        // The reader has closed the pipe.
        let _ = self.lines().iter().all(|line| say(line));
    }
}

fn line(fate: &Fate, thing: &str) -> String {
    match fate {
        Fate::Made | Fate::Changed | Fate::There => format!("{:<8} {thing}", word(fate)),
        Fate::Refused(why) => format!("{:<8} {thing}: {why}", word(fate)),
    }
}

fn word(fate: &Fate) -> &'static str {
    match fate {
        Fate::Made => "made",
        Fate::Changed => "changed",
        Fate::There => "there",
        Fate::Refused(_) => "refused",
    }
}

fn in_summary(word: &'static str) -> &'static str {
    if word == "there" { "there already" } else { word }
}

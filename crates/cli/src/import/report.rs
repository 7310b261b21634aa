//! The report of an import: a line for each entry of the file.

use std::collections::BTreeMap;

use crate::node_client::say;

/// The result of an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryResult {
    Made,
    Changed,
    /// It existed as in the file.
    There,
    /// It was refused, with the reason.
    Refused(String),
}

/// The results in the order of the file.
#[derive(Debug, Default)]
pub struct Report {
    lines: Vec<(EntryResult, String)>,
    /// Sessions on sale.
    sellable: Vec<String>,
    /// What is done and may not be meant.
    warnings: Vec<String>,
}

impl Report {
    /// Notes the result of an entry.
    pub fn note(&mut self, fate: EntryResult, thing: String) {
        self.lines.push((fate, thing));
    }

    /// Notes that a session is on sale.
    pub fn sellable(&mut self, session: String) {
        self.sellable.push(session);
    }

    /// Notes something that is done and may not be meant.
    pub fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    /// The number of entries.
    pub fn all(&self) -> usize {
        self.lines.len()
    }

    /// The number of refused entries.
    pub fn refused(&self) -> usize {
        self.lines.iter().filter(|(fate, _)| matches!(fate, EntryResult::Refused(_))).count()
    }

    /// The lines, a summary, and what to do next.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.lines.iter().map(|(fate, thing)| line(fate, thing)).collect();
        lines.extend(self.warnings.iter().map(|warning| format!("{:<8} {warning}", "warning")));
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

    /// Prints the lines.
    pub fn print(&self) {
        // The reader may have closed the pipe.
        let _ = self.lines().iter().all(|line| say(line));
    }
}

fn line(fate: &EntryResult, thing: &str) -> String {
    match fate {
        EntryResult::Made | EntryResult::Changed | EntryResult::There => format!("{:<8} {thing}", word(fate)),
        EntryResult::Refused(why) => format!("{:<8} {thing}: {why}", word(fate)),
    }
}

fn word(fate: &EntryResult) -> &'static str {
    match fate {
        EntryResult::Made => "made",
        EntryResult::Changed => "changed",
        EntryResult::There => "there",
        EntryResult::Refused(_) => "refused",
    }
}

fn in_summary(word: &'static str) -> &'static str {
    if word == "there" { "there already" } else { word }
}

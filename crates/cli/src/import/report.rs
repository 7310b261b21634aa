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
    /// Whether nothing is sent, so that the results are what would be done.
    is_check: bool,
}

impl Report {
    /// A report of what would be done.
    pub fn of_check() -> Report {
        Report { is_check: true, ..Report::default() }
    }

    /// Whether nothing is sent.
    pub fn is_check(&self) -> bool {
        self.is_check
    }

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
        let width = if self.is_check { "would change".len() } else { "refused".len() + 1 };
        let line = |(fate, thing): &(EntryResult, String)| match fate {
            EntryResult::Refused(why) => format!("{:<width$} {thing}: {why}", self.word(fate)),
            _ => format!("{:<width$} {thing}", self.word(fate)),
        };
        // Codes are told without what tells them apart, and there may be very many.
        let equal = self.lines.chunk_by(|one, other| one == other);
        let mut lines: Vec<String> = equal
            .map(|equal| match equal.len() {
                1 => line(&equal[0]),
                times => format!("{}, {times} times", line(&equal[0])),
            })
            .collect();
        lines.extend(self.warnings.iter().map(|warning| format!("{:<width$} {warning}", "warning")));
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (fate, _) in &self.lines {
            *counts.entry(word(fate)).or_default() += 1;
        }
        let summary: Vec<String> = ["made", "changed", "there", "refused"]
            .into_iter()
            .filter_map(|word| counts.get(word).map(|count| format!("{count} {}", self.in_summary(word))))
            .collect();
        lines.push(if summary.is_empty() { "There was nothing to import.".into() } else { summary.join(", ") });
        if self.is_check {
            lines.push("Nothing was changed.".into());
        } else if let Some(session) = self.sellable.first() {
            lines.push(format!("To sell: boxoffice book {session}"));
        }
        lines
    }

    fn word(&self, fate: &EntryResult) -> &'static str {
        match fate {
            EntryResult::Made if self.is_check => "would make",
            EntryResult::Changed if self.is_check => "would change",
            fate => word(fate),
        }
    }

    fn in_summary(&self, word: &'static str) -> &'static str {
        match word {
            "there" => "there already",
            "made" if self.is_check => "would be made",
            "changed" if self.is_check => "would be changed",
            word => word,
        }
    }

    /// Prints the lines.
    pub fn print(&self) {
        // The reader may have closed the pipe.
        let _ = self.lines().iter().all(|line| say(line));
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

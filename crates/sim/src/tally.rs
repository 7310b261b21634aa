//! Counts of events. They show what a run has hardly ever tried.

use std::collections::BTreeMap;

use boxoffice_core::{
    answer::{Answer, Outcome},
    command::{CartCommand, Command, Payment, ProductCommand, SessionCommand},
    refusal::Refusal,
};
use smol_str::{SmolStr, format_smolstr};

/// Counts of events by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<SmolStr, u64>);

impl Tally {
    pub(crate) fn count(&mut self, what: impl Into<SmolStr>) {
        self.add(what, 1);
    }

    pub(crate) fn add(&mut self, what: impl Into<SmolStr>, times: u64) {
        *self.0.entry(what.into()).or_default() += times;
    }

    pub(crate) fn append(&mut self, other: &Tally) {
        for (what, times) in &other.0 {
            self.add(what.clone(), *times);
        }
    }

    /// Counts the outcome of a change.
    pub(crate) fn ended(&mut self, command: &Command, outcome: &Outcome) {
        match outcome {
            Ok(answered) => {
                self.count(name(command));
                if let Answer::Held(held) = &answered.answer
                    && held.lines.iter().any(|line| line.late)
                {
                    self.count("holds of what is set aside late");
                }
            }
            Err(Refusal::Lines(lines)) => {
                lines.iter().for_each(|line| self.count(format_smolstr!("no: {}", line.refusal.name())));
            }
            Err(refusal) => self.count(format_smolstr!("no: {}", refusal.name())),
        }
    }

    /// All counts by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(what, times)| (&**what, *times))
    }
}

/// The name of a change.
fn name(command: &Command) -> &'static str {
    match command {
        Command::Cart(_, CartCommand::Hold { .. }) => "holds",
        Command::Cart(_, CartCommand::Checkout { payment: Payment::Gateway { .. }, .. }) => "checkouts (gateway)",
        Command::Cart(_, CartCommand::Checkout { .. }) => "checkouts (recorded)",
        Command::Cart(_, CartCommand::Cancel) => "cancels",
        Command::Cart(_, CartCommand::Refund { .. }) => "refunds",
        Command::Cart(_, CartCommand::Revoke { .. }) => "admin.release",
        Command::Cart(..) => "other changes of carts",
        Command::Session(_, SessionCommand::Block(_)) => "session.block",
        Command::Session(_, SessionCommand::Unblock(_)) => "session.unblock",
        Command::Session(_, SessionCommand::Cancel { .. }) => "session.cancel",
        Command::Product(_, ProductCommand::Put(_)) => "product.put",
        Command::Venue(..) => "changes of venues",
        Command::Cluster(_) => "changes of the cluster",
        _ => "other changes",
    }
}

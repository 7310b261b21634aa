//! Whoever reads at the one node of which it is doubtful that it still leads: what it says must not be old.

use std::sync::Arc;

use boxoffice_core::command::{Command, CustomerCommand, ProductCommand, SessionCommand};

use crate::{desk::Desk, machine::Machine, town::Town};

/// Reads once, at this node, everything that is sold now. Nobody waits for the answers; the oracle judges those that come.
pub(crate) fn look_at(desk: &Arc<Desk>, town: &Town, machine: &Arc<Machine>) {
    let sessions = town.sold_now().into_iter().map(|session| Command::Session(session, SessionCommand::Map));
    let products = town.products().map(|product| Command::Product(product, ProductCommand::Get));
    let customers = town.customers().map(|customer| Command::Customer(customer, CustomerCommand::Audit));
    for command in sessions.chain(products).chain(customers) {
        let (desk, machine) = (Arc::clone(desk), Arc::clone(machine));
        tokio::spawn(async move { desk.read_once(&machine, "curious", command).await });
    }
}

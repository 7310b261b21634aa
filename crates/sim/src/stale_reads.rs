//! Reads from a possibly deposed leader. Its answers must not be stale.

use std::sync::Arc;

use boxoffice_core::command::{Command, CustomerCommand, ProductCommand, SessionCommand};

use crate::{client_stub::ClientStub, fixture::Fixture, machine::Machine};

/// Reads everything that is sold now once at this node. It does not wait for the answers, and the oracle checks them.
pub(crate) fn look_at(client: &Arc<ClientStub>, fixture: &Fixture, machine: &Arc<Machine>) {
    let sessions = fixture.sold_now().into_iter().map(|session| Command::Session(session, SessionCommand::Map));
    let products = fixture.products().map(|product| Command::Product(product, ProductCommand::Get));
    let customers = fixture.customers().map(|customer| Command::Customer(customer, CustomerCommand::Audit));
    for command in sessions.chain(products).chain(customers) {
        let (client, machine) = (Arc::clone(client), Arc::clone(machine));
        tokio::spawn(async move { client.read_once(&machine, "curious", command).await });
    }
}

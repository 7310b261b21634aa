//! Checks that the title of a new session exists.
//!
//! Titles belong to the directory and sessions to their venue, in different shards. Titles are never deleted, so a check
//! before the session is created is enough.

use std::sync::Mutex;

use boxoffice_core::{
    command::{Command, DirectoryCommand, VenueCommand},
    id::{Id, Request},
};
use boxoffice_node::{
    api::{Failure, ReplySink, ReplyTo, Result},
    node::NodeHandle,
};

/// The title that this command needs, if it creates a session.
pub(crate) fn needed(command: &Command) -> Option<&Id> {
    match command {
        Command::Venue(_, VenueCommand::CreateSession(session)) => Some(&session.title),
        _ => None,
    }
}

/// Reads the title, then submits the command. If there is no such title, the command is refused.
pub(crate) fn submit(node: &NodeHandle, title: Id, command: Command, request: Option<Request>, reply: ReplyTo) {
    let timeout_ms = reply.timeout_ms();
    let waiting = Mutex::new(Some((command, request, reply)));
    let sink = std::sync::Arc::new(TitleRead { node: node.clone(), waiting });
    let read = Command::Directory(DirectoryCommand::GetTitle(title));
    node.submit(read, None, ReplyTo::new(sink, 0).with_timeout(timeout_ms));
}

/// A command that waits for its title.
struct TitleRead {
    node: NodeHandle,
    waiting: Mutex<Option<(Command, Option<Request>, ReplyTo)>>,
}

impl ReplySink for TitleRead {
    fn answer(&self, _tag: u64, result: Result) {
        let waiting = self.waiting.lock().expect("no thread panics while it holds the lock").take();
        let Some((command, request, reply)) = waiting else { return };
        match result {
            Ok(Ok(_title)) => self.node.submit(command, request, reply),
            Ok(Err(refusal)) => reply.answer(Ok(Err(refusal))),
            // Only the read is unknown. The command was not submitted.
            Err(Failure::Unknown) => reply.answer(Err(Failure::NotReady)),
            Err(failure) => reply.answer(Err(failure)),
        }
    }
}

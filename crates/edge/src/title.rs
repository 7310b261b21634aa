//! The title of a session that is to be made: it must exist.
//!
//! Titles are the directory's and sessions their venue's, in different shards. Titles never go away, so it is enough to look
//! before: a title that was there once is there when the session is booked.

use std::sync::Mutex;

use boxoffice_core::{
    command::{Command, DirectoryCommand, VenueCommand},
    id::{Id, Request},
};
use boxoffice_node::{
    door::{Failure, ReplySink, ReplyTo, Result},
    node::NodeHandle,
};

/// The title that this command needs.
pub(crate) fn needed(command: &Command) -> Option<&Id> {
    match command {
        Command::Venue(_, VenueCommand::CreateSession(session)) => Some(&session.title),
        _ => None,
    }
}

/// Reads the title, then hands the command on. Without the title it is refused and nothing changes.
pub(crate) fn submit(node: &NodeHandle, title: Id, command: Command, request: Option<Request>, reply: ReplyTo) {
    let patience_ms = reply.patience_ms();
    let waiting = Mutex::new(Some((command, request, reply)));
    let sink = std::sync::Arc::new(TitleRead { node: node.clone(), waiting });
    let read = Command::Directory(DirectoryCommand::GetTitle(title));
    node.submit(read, None, ReplyTo::new(sink, 0).within(patience_ms));
}

/// A command that waits for its title.
struct TitleRead {
    node: NodeHandle,
    waiting: Mutex<Option<(Command, Option<Request>, ReplyTo)>>,
}

impl ReplySink for TitleRead {
    fn answer(&self, _tag: u64, result: Result) {
        let waiting = self.waiting.lock().expect("nobody panics while it is locked").take();
        let Some((command, request, reply)) = waiting else { return };
        match result {
            Ok(Ok(_title)) => self.node.submit(command, request, reply),
            Ok(Err(refusal)) => reply.answer(Ok(Err(refusal))),
            // Only a read is unknown: the command did not happen.
            Err(Failure::Unknown) => reply.answer(Err(Failure::NotReady)),
            Err(failure) => reply.answer(Err(failure)),
        }
    }
}

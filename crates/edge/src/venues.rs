//! Keys and tokens that are limited to venues: what they change, and what they read that is no stranger's business, is looked
//! at before the node is asked.
//!
//! A session never changes its venue, so what was found once holds. What a cart has may change between the look and the
//! checkout: so a checkout names the version of the lines that were looked at.

use std::sync::Arc;

use boxoffice_core::{
    answer::{Answer, Answered, LineView},
    command::{CartCommand, Command, ProductCommand, ResourceCommand, SessionCommand, VenueCommand},
    id::{CartId, Entity, Id, Request},
    refusal::Refusal,
};
use boxoffice_node::door::{self, Failure, ReplySink, ReplyTo};
use parking_lot::Mutex;
use smol_str::SmolStr;
use tokio::sync::oneshot;

use crate::{access::Access, denials::Denial, shared::Shared};

/// Sessions whose venues are remembered.
const REMEMBERED_MAX: usize = 16_384;

/// Why something is not done for a caller.
enum NotDone {
    Refused(Refusal),
    Failed(Failure),
}

/// Submits a caller's command to the node, if it is about the caller's venues only.
pub(crate) fn submit(
    shared: &Arc<Shared>,
    access: &Access,
    mut command: Command,
    request: Option<Request>,
    reply: ReplyTo,
) {
    let reply = reply.by(access.name.clone());
    if access.venues.is_empty() {
        return shared.backend.submit(command, request, reply);
    }
    let (shared, venues) = (Arc::clone(shared), Arc::clone(&access.venues));
    let look = async move {
        let about = Look { shared: &shared, venues: &venues, patience_ms: reply.patience_ms() };
        match about.command(&mut command, request.is_some()).await {
            Ok(()) => shared.backend.submit(command, request, reply),
            Err(NotDone::Failed(failure)) => reply.answer(Err(failure)),
            Err(NotDone::Refused(refusal)) => {
                shared.denials.note(Denial::Venue, reply.asker().map(SmolStr::as_str), &refusal.to_string());
                reply.answer(Ok(Err(refusal)));
            }
        }
    };
    tokio::spawn(look);
}

/// Whether what happened to an entity may be told to a caller who is limited to these venues.
pub(crate) async fn may_read(shared: &Arc<Shared>, venues: &[Id], entity: &Entity, patience_ms: u64) -> door::Result {
    let about = Look { shared, venues, patience_ms };
    let done = || Ok(Ok(Answered { answer: Answer::Done, at: Vec::new() }));
    match about.entity(entity).await {
        Ok(()) => done(),
        Err(NotDone::Refused(refusal)) => Ok(Err(refusal)),
        Err(NotDone::Failed(failure)) => Err(failure),
    }
}

struct Look<'a> {
    shared: &'a Arc<Shared>,
    venues: &'a [Id],
    patience_ms: u64,
}

impl Look<'_> {
    async fn command(&self, command: &mut Command, changes: bool) -> Result<(), NotDone> {
        match command {
            Command::Venue(venue, VenueCommand::Get | VenueCommand::GetHall { .. }) if !changes => {
                let _ = venue;
                Ok(())
            }
            Command::Venue(venue, _) if changes => self.venue(venue),
            Command::Session(session, SessionCommand::Audit) => self.session(session).await,
            Command::Session(session, _) if changes => self.session(session).await,
            Command::Cart(cart, command) => self.cart(*cart, command).await,
            Command::Product(_, ProductCommand::Audit) | Command::Resource(_, ResourceCommand::Audit) => Err(no()),
            Command::Customer(..) | Command::Cluster(_) => Err(no()),
            _ if changes => Err(no()),
            Command::Venue(..)
            | Command::Session(..)
            | Command::Product(..)
            | Command::Resource(..)
            | Command::Directory(_) => Ok(()),
        }
    }

    async fn cart(&self, cart: CartId, command: &mut CartCommand) -> Result<(), NotDone> {
        match command {
            CartCommand::Hold { lines, .. } => {
                for line in lines {
                    self.line(&line.entity).await?;
                }
                Ok(())
            }
            CartCommand::Checkout { expect, .. } => {
                let lines_version = self.lines_of(cart).await?;
                expect.lines.get_or_insert(lines_version);
                Ok(())
            }
            CartCommand::Refund { .. }
            | CartCommand::Revoke { .. }
            | CartCommand::Settle { .. }
            | CartCommand::Order
            | CartCommand::Audit => self.lines_of(cart).await.map(drop),
            // The cart's token opens it to its owner, who gives back or gives up what is there.
            CartCommand::Open { .. }
            | CartCommand::Get
            | CartCommand::SetQuantity { .. }
            | CartCommand::Release { .. }
            | CartCommand::Cancel
            | CartCommand::Paid { .. } => Ok(()),
        }
    }

    async fn entity(&self, entity: &Entity) -> Result<(), NotDone> {
        match entity {
            Entity::Venue(venue) => self.venue(venue),
            Entity::Session(session) => self.session(session).await,
            Entity::Cart(cart) => self.lines_of(*cart).await.map(drop),
            Entity::Product(_) | Entity::Resource(_) | Entity::Customer(_) | Entity::Directory | Entity::Cluster => {
                Err(no())
            }
        }
    }

    /// The lines of a cart, or of what it became, are all of these venues; the version of the lines.
    async fn lines_of(&self, cart: CartId) -> Result<u64, NotDone> {
        match self.ask(Command::Cart(cart, CartCommand::Get)).await? {
            Answer::Cart(view) => {
                for LineView { entity, .. } in &view.lines {
                    self.line(entity).await?;
                }
                Ok(view.lines_version)
            }
            other => unreachable!("a cart was asked for and said {other:?}"),
        }
    }

    /// What is of no venue is of no venue of theirs.
    async fn line(&self, entity: &Entity) -> Result<(), NotDone> {
        match entity {
            Entity::Session(session) => self.session(session).await,
            _ => Err(no()),
        }
    }

    async fn session(&self, session: &Id) -> Result<(), NotDone> {
        let known = self.shared.venues_of_sessions.lock().get(session).cloned();
        if let Some(venue) = known {
            return self.venue(&venue);
        }
        match self.ask(Command::Session(session.clone(), SessionCommand::Get)).await? {
            Answer::Session(view) => {
                let mut known = self.shared.venues_of_sessions.lock();
                if known.len() >= REMEMBERED_MAX {
                    known.clear();
                }
                known.insert(session.clone(), view.venue.clone());
                drop(known);
                self.venue(&view.venue)
            }
            other => unreachable!("a session was asked for and said {other:?}"),
        }
    }

    fn venue(&self, venue: &Id) -> Result<(), NotDone> {
        if self.venues.contains(venue) { Ok(()) } else { Err(no()) }
    }

    async fn ask(&self, command: Command) -> Result<Answer, NotDone> {
        let (told, tell) = oneshot::channel();
        let reply = ReplyTo::new(Arc::new(Once(Mutex::new(Some(told)))), 0).within(self.patience_ms);
        self.shared.backend.submit(command, None, reply);
        match tell.await {
            Ok(Ok(Ok(Answered { answer, .. }))) => Ok(answer),
            Ok(Ok(Err(refusal))) => Err(NotDone::Refused(refusal)),
            // Only a read is unknown: the command did not happen.
            Ok(Err(Failure::Unknown)) | Err(_) => Err(NotDone::Failed(Failure::NotReady)),
            Ok(Err(failure)) => Err(NotDone::Failed(failure)),
        }
    }
}

fn no() -> NotDone {
    NotDone::Refused(Refusal::Forbidden(SmolStr::new_static("this key is for other venues")))
}

/// Takes one answer.
struct Once(Mutex<Option<oneshot::Sender<door::Result>>>);

impl ReplySink for Once {
    fn answer(&self, _: u64, result: door::Result) {
        if let Some(told) = self.0.lock().take() {
            // The reader may have gone.
            let _ = told.send(result);
        }
    }
}

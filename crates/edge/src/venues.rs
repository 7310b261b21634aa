//! Keys and tokens that are limited to venues. Their changes and confidential reads are checked before the node gets them.
//!
//! A session never changes its venue, so the result is remembered. A cart may change between the check and the checkout, so
//! a checkout names the version of the lines that were checked.

use std::sync::Arc;

use boxoffice_core::{
    answer::{Answer, Answered, LineView},
    command::{CartCommand, Command, SessionCommand},
    id::{CartId, Entity, Id, Request},
    refusal::Refusal,
};
use boxoffice_node::api::{self, Failure, ReplySink, ReplyTo};
use boxoffice_wire::{encode::Verdict, permission::VenueRule};
use smol_str::SmolStr;
use tokio::sync::oneshot;
use tracing_mutex::parkinglot::Mutex;

use crate::{access::Access, denials::Denial, failures::fail_of, shared::Shared};

/// Sessions whose venues are remembered.
const REMEMBERED_MAX: usize = 16_384;

/// Why a check failed.
enum NotAllowed {
    Refused(Refusal),
    Failed(Failure),
}

/// Submits a caller's command to the node, if the rule of its op finds it to be about the caller's venues only.
pub(crate) fn submit(
    shared: &Arc<Shared>,
    access: &Access,
    rule: VenueRule,
    mut command: Command,
    request: Option<Request>,
    reply: ReplyTo,
) {
    let reply = reply.by(access.name.clone());
    if !access.is_limited() {
        return shared.backend.submit(command, request, reply);
    }
    let (shared, venues) = (Arc::clone(shared), Arc::clone(&access.venues));
    tokio::spawn(async move {
        let check = VenueCheck { shared: &shared, venues: &venues, timeout_ms: reply.timeout_ms() };
        match check.command(rule, &mut command).await {
            Ok(()) => shared.backend.submit(command, request, reply),
            Err(NotAllowed::Failed(failure)) => reply.answer(Err(failure)),
            Err(NotAllowed::Refused(refusal)) => {
                shared.denials.note(Denial::Venue, reply.asker().map(SmolStr::as_str), &refusal.to_string());
                reply.answer(Ok(Err(refusal)));
            }
        }
    });
}

/// Checks that a caller with these venues may read the history of an entity, by the rule of the op.
///
/// # Errors
/// The verdict on the request if it may not.
pub(crate) async fn may_read(
    shared: &Arc<Shared>,
    venues: &[Id],
    rule: VenueRule,
    entity: &Entity,
    timeout_ms: u64,
) -> Result<(), Verdict> {
    let check = VenueCheck { shared, venues, timeout_ms };
    let allowed = match rule {
        VenueRule::Unlimited => Ok(()),
        VenueRule::OfEntity => check.entity(entity).await,
        VenueRule::OfLinesAsked | VenueRule::OfCartLines | VenueRule::Refused => Err(forbidden()),
    };
    allowed.map_err(|error| match error {
        NotAllowed::Refused(refusal) => Verdict::No(refusal),
        NotAllowed::Failed(failure) => Verdict::Fail(fail_of(failure)),
    })
}

struct VenueCheck<'a> {
    shared: &'a Arc<Shared>,
    venues: &'a [Id],
    timeout_ms: u64,
}

impl VenueCheck<'_> {
    async fn command(&self, rule: VenueRule, command: &mut Command) -> Result<(), NotAllowed> {
        match rule {
            VenueRule::Unlimited => Ok(()),
            VenueRule::OfEntity => self.entity(&command.entity()).await,
            VenueRule::OfLinesAsked => match command {
                Command::Cart(_, CartCommand::Hold { lines, .. }) => {
                    for line in lines {
                        self.line(&line.entity).await?;
                    }
                    Ok(())
                }
                _ => Err(forbidden()),
            },
            VenueRule::OfCartLines => match command {
                Command::Cart(cart, CartCommand::Checkout { expect, .. }) => {
                    let lines_version = self.lines_of(*cart).await?;
                    expect.lines.get_or_insert(lines_version);
                    Ok(())
                }
                Command::Cart(cart, _) => self.lines_of(*cart).await.map(drop),
                _ => Err(forbidden()),
            },
            VenueRule::Refused => Err(forbidden()),
        }
    }

    async fn entity(&self, entity: &Entity) -> Result<(), NotAllowed> {
        match entity {
            Entity::Venue(venue) => self.venue(venue),
            Entity::Session(session) => self.session(session).await,
            Entity::Cart(cart) => self.lines_of(*cart).await.map(drop),
            Entity::Product(_) | Entity::Resource(_) | Entity::Customer(_) | Entity::Directory | Entity::Cluster => {
                Err(forbidden())
            }
        }
    }

    /// Checks all lines of a cart or of its order. Returns the version of the lines.
    async fn lines_of(&self, cart: CartId) -> Result<u64, NotAllowed> {
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

    /// Checks a line. Products and resources belong to no venue.
    async fn line(&self, entity: &Entity) -> Result<(), NotAllowed> {
        match entity {
            Entity::Session(session) => self.session(session).await,
            _ => Err(forbidden()),
        }
    }

    async fn session(&self, session: &Id) -> Result<(), NotAllowed> {
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

    fn venue(&self, venue: &Id) -> Result<(), NotAllowed> {
        if self.venues.contains(venue) { Ok(()) } else { Err(forbidden()) }
    }

    async fn ask(&self, command: Command) -> Result<Answer, NotAllowed> {
        let (told, tell) = oneshot::channel();
        let reply = ReplyTo::new(Arc::new(Once(Mutex::new(Some(told)))), 0).with_timeout(self.timeout_ms);
        self.shared.backend.submit(command, None, reply);
        match tell.await {
            Ok(Ok(Ok(Answered { answer, .. }))) => Ok(answer),
            Ok(Ok(Err(refusal))) => Err(NotAllowed::Refused(refusal)),
            // Only the read is unknown. The command was not submitted.
            Ok(Err(Failure::Unknown)) | Err(_) => Err(NotAllowed::Failed(Failure::NotReady)),
            Ok(Err(failure)) => Err(NotAllowed::Failed(failure)),
        }
    }
}

fn forbidden() -> NotAllowed {
    NotAllowed::Refused(Refusal::Forbidden(SmolStr::new_static("this key is for other venues")))
}

/// Takes one answer.
struct Once(Mutex<Option<oneshot::Sender<api::Result>>>);

impl ReplySink for Once {
    fn answer(&self, _: u64, result: api::Result) {
        if let Some(told) = self.0.lock().take() {
            // The reader may have gone.
            let _ = told.send(result);
        }
    }
}

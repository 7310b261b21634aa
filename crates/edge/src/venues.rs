//! Checks that read something before a command is submitted: the venues of keys and tokens that are limited to some, and the
//! quantity of a line, where a budget depends on it.
//!
//! A session never changes its venue, so the result is remembered. A cart may change between the check and the checkout, so
//! a checkout names the version of the lines that were checked.

use std::sync::Arc;

use boxoffice_core::{
    answer::Answer,
    command::{CartCommand, Command, SessionCommand},
    id::{CartId, Entity, Id, Request},
    refusal::Refusal,
};
use boxoffice_node::api::{Failure, ReplyTo};
use boxoffice_wire::{encode::Verdict, permission::VenueRule};
use smol_str::SmolStr;
use tokio::time::Instant;

use crate::{
    access::Access,
    budgets::{Charge, Owners},
    denials::Denial,
    failures::fail_of,
    inner_read::{self, NotRead},
    shared::Shared,
};

/// Sessions whose venues are remembered.
const REMEMBERED_MAX: usize = 16_384;

/// Submits a caller's command to the node, if the rule of its op finds it to be about the caller's venues only, and if it is
/// within the budgets, as far as that is seen only after a look at its cart.
pub(crate) fn submit(
    shared: &Arc<Shared>,
    access: &Access,
    rule: VenueRule,
    (owners, charge): (&Owners, Option<&Charge>),
    mut command: Command,
    request: Option<Request>,
    reply: ReplyTo,
) {
    let reply = reply.by(access.name.clone());
    let looked = charge.filter(|charge| charge.needs_look()).map(|charge| (owners.clone(), charge.clone()));
    if !access.is_limited() && looked.is_none() {
        return shared.backend.submit(command, request, reply);
    }
    let (shared, venues, is_limited) = (Arc::clone(shared), Arc::clone(&access.venues), access.is_limited());
    tokio::spawn(async move {
        let check = VenueCheck { shared: &shared, venues: &venues, timeout_ms: reply.timeout_ms() };
        let checked = if is_limited { check.command(rule, &mut command).await } else { Ok(()) };
        let checked = match (checked, &looked) {
            (Ok(()), Some((owners, charge))) => check.quantity(owners, charge, &command).await,
            (checked, _) => checked,
        };
        match checked {
            Ok(()) => shared.backend.submit(command, request, reply),
            Err(NotRead::Failed(failure)) => reply.answer(Err(failure)),
            Err(NotRead::Refused(refusal)) if !is_limited => reply.answer(Ok(Err(refusal))),
            Err(NotRead::Refused(refusal)) => {
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
        NotRead::Refused(refusal) => Verdict::No(refusal),
        NotRead::Failed(failure) => Verdict::Fail(fail_of(failure)),
    })
}

struct VenueCheck<'a> {
    shared: &'a Arc<Shared>,
    venues: &'a [Id],
    timeout_ms: u64,
}

impl VenueCheck<'_> {
    async fn command(&self, rule: VenueRule, command: &mut Command) -> Result<(), NotRead> {
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

    /// Looks at a cart before a changed quantity of it is refused for a budget.
    async fn quantity(&self, owners: &Owners, charge: &Charge, command: &Command) -> Result<(), NotRead> {
        let Command::Cart(cart, _) = command else { return Ok(()) };
        match self.ask(Command::Cart(*cart, CartCommand::Get)).await? {
            Answer::Cart(view) => {
                let is_within = self.shared.budgets.begin_looked(owners, charge, &view, Instant::now());
                // Its caller is told by the charge.
                if is_within { Ok(()) } else { Err(NotRead::Failed(Failure::Busy(0))) }
            }
            other => unreachable!("a cart was asked for and said {other:?}"),
        }
    }

    async fn entity(&self, entity: &Entity) -> Result<(), NotRead> {
        match entity {
            Entity::Venue(venue) => self.venue(venue),
            Entity::Session(session) => self.session(session).await,
            Entity::Cart(cart) => self.lines_of(*cart).await.map(drop),
            Entity::Product(_) | Entity::Resource(_) | Entity::Customer(_) | Entity::Code(_) => Err(forbidden()),
            Entity::Directory | Entity::Cluster => Err(forbidden()),
        }
    }

    /// Checks all lines of a cart or of its order. Returns the version of the lines.
    async fn lines_of(&self, cart: CartId) -> Result<u64, NotRead> {
        match self.ask(Command::Cart(cart, CartCommand::Get)).await? {
            Answer::Cart(view) => {
                for line in &view.lines {
                    self.line(&line.entity).await?;
                }
                Ok(view.lines_version)
            }
            other => unreachable!("a cart was asked for and said {other:?}"),
        }
    }

    /// Checks a line. Products and resources belong to no venue.
    async fn line(&self, entity: &Entity) -> Result<(), NotRead> {
        match entity {
            Entity::Session(session) => self.session(session).await,
            _ => Err(forbidden()),
        }
    }

    async fn session(&self, session: &Id) -> Result<(), NotRead> {
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

    fn venue(&self, venue: &Id) -> Result<(), NotRead> {
        if self.venues.contains(venue) { Ok(()) } else { Err(forbidden()) }
    }

    async fn ask(&self, command: Command) -> Result<Answer, NotRead> {
        inner_read::read(&self.shared.backend, command, self.timeout_ms).await
    }
}

fn forbidden() -> NotRead {
    NotRead::Refused(Refusal::Forbidden(SmolStr::new_static("this key is for other venues")))
}

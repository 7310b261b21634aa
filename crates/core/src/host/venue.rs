//! A venue at work.

use alloc::{collections::BTreeMap, vec, vec::Vec};

use smol_str::format_smolstr;

use super::{Effect, Input, Stage, Turn, WAITERS_MAX, speculation::Speculation};
use crate::{
    answer::{Answer, At, Outcome},
    ask::{Ask, Reply},
    command::{Command, NewSession, VenueCommand},
    event::VenueEvent,
    id::{Entity, Id, Request},
    refusal::Refusal,
    time::Timestamp,
    venue::{Creation, Search, Venue},
};

/// What a venue has under way.
pub(super) struct VenueHost<R> {
    /// Whether the sessions that were owed their opening at the start were asked.
    resumed: bool,
    /// Clients that wait for their session to open.
    waiting: BTreeMap<Id, Vec<R>>,
    /// When the sessions that have not replied are asked again.
    again_at: Timestamp,
}

impl<R> VenueHost<R> {
    pub(super) fn new() -> VenueHost<R> {
        VenueHost { resumed: false, waiting: BTreeMap::new(), again_at: Timestamp(0) }
    }

    pub(super) fn idle(&self, entity: &Speculation) -> bool {
        self.waiting.is_empty() && !entity.venue().is_some_and(Venue::unfinished)
    }

    pub(super) fn handle(&mut self, stage: &mut Stage<'_, R>, input: Input<R>) {
        if !self.resumed {
            // What the venue owed when it was loaded is committed.
            self.resumed = true;
            stage.turn.now.extend(openings(stage.entity));
            self.again_at = stage.at.after(stage.rules.ask_again_ms);
        }
        match input {
            Input::Command { from, request, command } => {
                let Command::Venue(id, command) = command else {
                    panic!("{} was handed a command to {}", stage.entity.entity(), command.entity());
                };
                if let VenueCommand::CreateSession(session) = command {
                    self.create(stage, from, request, session);
                } else {
                    let outcome = command_outcome(stage.entity, &id, request, command, stage.turn);
                    stage.turn.answer(from, outcome);
                }
            }
            Input::Reply { from, reply } => self.hear(stage.entity, from, reply, stage.turn),
            Input::Ask { from, ask } => {
                panic!("{} was asked {ask:?} by {from}; nobody asks venues", stage.entity.entity())
            }
            Input::Wake => {
                if stage.at >= self.again_at {
                    // Asked again only after a read: the booking may be under way still.
                    stage.turn.read.extend(openings(stage.entity));
                    self.again_at = stage.at.after(stage.rules.ask_again_ms);
                }
            }
        }
        if stage.entity.venue().is_some_and(Venue::unfinished) {
            stage.turn.wake(self.again_at);
        }
    }

    fn create(&mut self, stage: &mut Stage<'_, R>, from: R, request: Option<Request>, session: NewSession) {
        let decided = match stage.entity.venue() {
            _ if request.is_none() => Err(Refusal::RequestIdMissing),
            None => Err(stage.entity.not_found()),
            Some(venue) => venue.decide_create(stage.rules, &session),
        };
        match decided {
            Err(refusal) => stage.turn.answer(from, Err(refusal)),
            Ok(Creation::Known) => self.wait(stage.entity, from, &session.id, stage.turn),
            Ok(Creation::New(event)) => {
                stage.entity.apply_venue(event, stage.turn);
                let opening = stage.entity.venue().and_then(|venue| venue.opening_of(&session.id));
                let ask = Ask::Open(opening.expect("it has just been booked"));
                stage.turn.committed.push(Effect::Ask { to: Entity::Session(session.id.clone()), ask });
                self.waiting.entry(session.id).or_default().push(from);
                if self.again_at <= stage.at {
                    self.again_at = stage.at.after(stage.rules.ask_again_ms);
                }
            }
        }
    }

    /// Answers as soon as the session is open.
    fn wait(&mut self, entity: &Speculation, from: R, session: &Id, turn: &mut Turn<R>) {
        let opening = entity.venue().is_some_and(|venue| venue.is_opening(session));
        if !opening {
            turn.answer(from, created(entity, session));
            return;
        }
        let waiting = self.waiting.entry(session.clone()).or_default();
        if waiting.len() < WAITERS_MAX {
            waiting.push(from);
        } else {
            turn.answer(from, Err(Refusal::InProgress));
        }
    }

    fn hear(&mut self, entity: &mut Speculation, from: Entity, reply: Reply, turn: &mut Turn<R>) {
        let Entity::Session(session) = from else { return };
        if !entity.venue().is_some_and(|venue| venue.is_opening(&session)) {
            // It was said before.
            return;
        }
        let outcome = match reply {
            Reply::Opened => {
                entity.apply_venue(VenueEvent::SessionOpened(session.clone()), turn);
                created(entity, &session)
            }
            Reply::OpenRefused => {
                entity.apply_venue(VenueEvent::SessionRefused(session.clone()), turn);
                Err(Refusal::AlreadyExistsDifferently(format_smolstr!("session {session}")))
            }
            Reply::Granted(_)
            | Reply::Refused { .. }
            | Reply::Stale { .. }
            | Reply::Released { .. }
            | Reply::Sold { .. }
            | Reply::Forgotten
            | Reply::MineUntil { .. }
            | Reply::NotMine { .. } => return,
        };
        for from in self.waiting.remove(&session).unwrap_or_default() {
            turn.answer(from, outcome.clone());
        }
    }
}

/// Everything but the creation of sessions.
fn command_outcome<R>(
    entity: &mut Speculation,
    id: &Id,
    request: Option<Request>,
    command: VenueCommand,
    turn: &mut Turn<R>,
) -> Outcome {
    let known = entity.venue().ok_or_else(|| entity.not_found());
    let event = match command {
        VenueCommand::Get => return entity.ok(Answer::Venue(known?.view())),
        VenueCommand::GetHall { hall } => return entity.ok(Answer::Hall(known?.hall(&hall)?)),
        VenueCommand::SearchSessions { hall, title, from, to, limit, after } => {
            let (hall, title, after) = (hall.as_ref(), title.as_ref(), after.as_ref());
            let found = known?.search(&Search { hall, title, from, to, limit, after })?;
            return entity.ok(Answer::Sessions(found));
        }
        VenueCommand::Put(_) | VenueCommand::PutHall { .. } if request.is_none() => {
            return Err(Refusal::RequestIdMissing);
        }
        VenueCommand::Put(details) => match known {
            Ok(venue) => venue.decide_put(&details),
            Err(_) => Some(VenueEvent::Put(details)),
        },
        VenueCommand::PutHall { hall, name, layout } => known?.decide_put_hall(&hall, &name, &layout),
        VenueCommand::CreateSession(session) => panic!("session {} of {id} is created elsewhere", session.id),
    };
    if let Some(event) = event {
        entity.apply_venue(event, turn);
    }
    entity.ok(Answer::Done)
}

/// The answer to the creation of a session that is open: the session as it was when it opened.
fn created(entity: &Speculation, session: &Id) -> Outcome {
    let view = entity.venue().and_then(|venue| venue.fresh_session(session));
    let at = At { entity: Entity::Session(session.clone()), version: 1, position: 0 };
    entity.ok_with(Answer::Session(view.expect("an open session is booked")), vec![at])
}

fn openings<R>(entity: &Speculation) -> Vec<Effect<R>> {
    let Some(venue) = entity.venue() else { return Vec::new() };
    let ask = |session: &Id| Effect::Ask {
        to: Entity::Session(session.clone()),
        ask: Ask::Open(venue.opening_of(session).expect("a session being opened is booked")),
    };
    venue.opening().map(ask).collect()
}

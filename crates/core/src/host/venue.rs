//! The host of a venue.

use alloc::{boxed::Box, collections::BTreeMap, vec, vec::Vec};

use super::{Effect, Input, Stage, Turn, WAITERS_MAX, speculation::Speculation};
use crate::{
    answer::{Answer, Answered, At, Outcome, SaleMark, VenueChange},
    ask::{Ask, Reply, VenueZone},
    command::{Command, NewSession, VenueCommand, VenueDetails},
    event::VenueEvent,
    id::{Entity, Id, Request},
    planted,
    refusal::Refusal,
    time::Timestamp,
    venue::{Creation, Search, Venue},
};

/// How many sessions are sent the zone in one turn.
const ZONED_BATCH: usize = 256;

/// How long the next batch waits, in milliseconds, because the sessions have other things to do.
const BATCH_PAUSE_MS: u64 = 5;

/// A venue's openings and listings under way.
pub(super) struct VenueHost<R> {
    /// Whether the sessions that the venue owed their opening at the start were asked.
    resumed: bool,
    /// Clients that wait for their session to open.
    waiting: BTreeMap<Id, Vec<R>>,
    /// Clients that wait for the directory to know the details of this version, with the number of sessions that show another
    /// hour.
    listing: Vec<(u64, u32, R)>,
    /// When asks without a reply are repeated.
    again_at: Timestamp,
    /// Sessions up to here were sent the zone since the last repeat.
    zoned: Option<Id>,
}

impl<R> VenueHost<R> {
    pub(super) fn new() -> VenueHost<R> {
        VenueHost { resumed: false, waiting: BTreeMap::new(), listing: Vec::new(), again_at: Timestamp(0), zoned: None }
    }

    pub(super) fn idle(&self, entity: &Speculation) -> bool {
        self.waiting.is_empty() && self.listing.is_empty() && !entity.venue().is_some_and(Venue::unfinished)
    }

    pub(super) fn handle(&mut self, stage: &mut Stage<'_, R>, input: Input<R>) {
        if !self.resumed {
            // Everything that the venue owed when it was loaded is committed.
            self.resumed = true;
            stage.turn.now.extend(owed(stage.entity));
            let zones = self.zones(stage);
            stage.turn.now.extend(zones);
            self.again_at = stage.at.after(stage.rules.ask_again_ms);
        }
        match input {
            Input::Command { from, request, command, timeout_ms: _ } => {
                let Command::Venue(id, command) = command else {
                    panic!("{} was handed a command to {}", stage.entity.entity(), command.entity());
                };
                match command {
                    VenueCommand::CreateSession(session) => self.create(stage, from, request, session),
                    VenueCommand::Put(details) => self.put(stage, from, request, details),
                    other => {
                        let outcome = command_outcome(stage.entity, &id, request, other, stage.turn);
                        stage.turn.answer(from, outcome);
                    }
                }
            }
            Input::Reply { from: _, reply: Reply::Listed { version } } => self.listed(stage, version),
            Input::Reply { from: Entity::Session(session), reply: Reply::ZoneSet { version } } => {
                zoned(stage, session, version);
            }
            Input::Reply { from, reply } => self.hear(stage.entity, from, reply, stage.turn),
            Input::Paid { key, .. } => panic!("{} was told of payment {key}", stage.entity.entity()),
            Input::Ask { from: Entity::Session(session), ask: Ask::Vacate } => self.vacate(stage, session),
            Input::Ask { from: Entity::Session(session), ask: Ask::TellSale(mark) } => {
                // The session is open, even if the acknowledgement was lost.
                self.hear(stage.entity, Entity::Session(session.clone()), Reply::Opened, stage.turn);
                sale_told(stage, session, mark);
            }
            Input::Ask { from, ask } => panic!("{} was asked {ask:?} by {from}", stage.entity.entity()),
            Input::Wake => {
                if stage.at >= self.again_at {
                    // Only after a read, because the event that owes it may not be committed yet.
                    stage.turn.read.extend(owed(stage.entity));
                    self.again_at = stage.at.after(stage.rules.ask_again_ms);
                    self.zoned = None;
                }
                let zones = self.zones(stage);
                stage.turn.read.extend(zones);
            }
        }
        if stage.entity.venue().is_some_and(Venue::unfinished) {
            stage.turn.wake(self.again_at);
        }
    }

    /// Creates the venue or changes its details. The answer waits until searches find it.
    fn put(&mut self, stage: &mut Stage<'_, R>, from: R, request: Option<Request>, details: VenueDetails) {
        let Some(request) = request else {
            return stage.turn.answer(from, Err(Refusal::RequestIdMissing));
        };
        let (version, shifted) = match stage.entity.venue().and_then(|venue| venue.answered(request)) {
            Some(Err(refusal)) => return stage.turn.answer(from, Err(refusal)),
            Some(Ok(known)) => known,
            None => {
                let details = match details.checked() {
                    Ok(details) => details,
                    Err(reason) => return stage.turn.answer(from, Err(Refusal::BadRequest(reason))),
                };
                let before = stage.entity.venue();
                let shifted = before.map_or(0, |venue| venue.shifted_by(details.zone.as_deref(), stage.now));
                let put = VenueEvent::Put { details, request, at: stage.now, shifted };
                stage.entity.apply_venue(put, stage.turn);
                // The sessions learn the zone as soon as the event is committed.
                self.zoned = None;
                let zones = self.zones(stage);
                stage.turn.committed.extend(zones);
                let venue = stage.entity.venue().expect("it was just put");
                let version = venue.version();
                // The directory is not sent details that it knows.
                if let Some((details, version)) = venue.unlisted() {
                    let ask = Ask::List { details: details.clone(), version };
                    stage.turn.committed.push(Effect::Ask { to: Entity::Directory, ask });
                }
                if self.again_at <= stage.at {
                    self.again_at = stage.at.after(stage.rules.ask_again_ms);
                }
                (version, shifted)
            }
        };
        if stage.entity.venue().is_some_and(|venue| venue.is_listed(version)) {
            stage.turn.answer(from, stage.entity.ok_again(Answer::VenuePut(VenueChange { shifted }), version));
        } else if self.listing.len() < WAITERS_MAX {
            self.listing.push((version, shifted, from));
        } else {
            stage.turn.answer(from, Err(Refusal::InProgress));
        }
    }

    /// The directory knows the details of a version.
    fn listed(&mut self, stage: &mut Stage<'_, R>, version: u64) {
        let owed = stage.entity.venue().and_then(Venue::unlisted).is_some_and(|(_, put)| put <= version);
        if owed {
            stage.entity.apply_venue(VenueEvent::Listed { version }, stage.turn);
        }
        for (awaited, shifted, from) in core::mem::take(&mut self.listing) {
            if awaited <= version || stage.entity.venue().is_some_and(|venue| venue.is_listed(awaited)) {
                stage.turn.answer(from, stage.entity.ok_again(Answer::VenuePut(VenueChange { shifted }), awaited));
            } else {
                self.listing.push((awaited, shifted, from));
            }
        }
    }

    fn create(&mut self, stage: &mut Stage<'_, R>, from: R, request: Option<Request>, session: NewSession) {
        let decided = match stage.entity.venue() {
            _ if request.is_none() => Err(Refusal::RequestIdMissing),
            None => Err(stage.entity.not_found()),
            Some(venue) => venue.decide_create(stage.rules, stage.now, &session),
        };
        match decided {
            Err(refusal) => stage.turn.answer(from, Err(refusal)),
            Ok(Creation::Known) => self.wait(stage.entity, from, &session.id, stage.turn),
            Ok(Creation::New(event)) => {
                stage.entity.apply_venue(event, stage.turn);
                let opening = stage.entity.venue().and_then(|venue| venue.opening_of(&session.id));
                let ask = Ask::Open(Box::new(opening.expect("it has just been booked")));
                stage.turn.committed.push(Effect::Ask { to: Entity::Session(session.id.clone()), ask });
                self.waiting.entry(session.id).or_default().push(from);
                if self.again_at <= stage.at {
                    self.again_at = stage.at.after(stage.rules.ask_again_ms);
                }
            }
        }
    }

    /// The zone for the next sessions that are owed it. The others follow after a pause, so that neither a turn nor its messages
    /// grow with the programme.
    fn zones(&mut self, stage: &mut Stage<'_, R>) -> Vec<Effect<R>> {
        let Some(venue) = stage.entity.venue() else { return Vec::new() };
        let sessions = venue.zoning(self.zoned.as_ref(), ZONED_BATCH);
        if sessions.len() == ZONED_BATCH {
            stage.turn.wake(stage.at.after(BATCH_PAUSE_MS));
        }
        self.zoned = sessions.last().cloned().or(self.zoned.take());
        let zone = venue.zone();
        sessions.into_iter().map(|session| zone_effect(session, &zone)).collect()
    }

    /// A session reports that it is canceled.
    fn vacate(&mut self, stage: &mut Stage<'_, R>, session: Id) {
        // The session is open, even if the acknowledgement was lost.
        self.hear(stage.entity, Entity::Session(session.clone()), Reply::Opened, stage.turn);
        let keeps = planted::is("a canceled session that keeps its hall");
        if !keeps && stage.entity.venue().is_some_and(|venue| venue.has_hall(&session)) {
            stage.entity.apply_venue(VenueEvent::SessionCanceled(session.clone()), stage.turn);
        }
        stage.turn.reply(Entity::Session(session), Reply::Vacated);
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
            // A repeat.
            return;
        }
        let outcome = match reply {
            Reply::Opened => {
                entity.apply_venue(VenueEvent::SessionOpened(session.clone()), turn);
                if let Some(venue) = entity.venue().filter(|venue| venue.owes_zone(&session)) {
                    // Its opening may have had an older zone.
                    turn.committed.push(zone_effect(session.clone(), &venue.zone()));
                }
                created(entity, &session)
            }
            Reply::OpenRefused(refusal) => {
                entity.apply_venue(VenueEvent::SessionRefused(session.clone()), turn);
                Err(*refusal)
            }
            Reply::Granted(_)
            | Reply::Refused { .. }
            | Reply::Stale { .. }
            | Reply::Repriced { .. }
            | Reply::Released { .. }
            | Reply::Sold { .. }
            | Reply::Refunded { .. }
            | Reply::Posted { .. }
            | Reply::Listed { .. }
            | Reply::Vacated
            | Reply::ZoneSet { .. }
            | Reply::SaleTold { .. }
            | Reply::Forgotten
            | Reply::MineFor { .. }
            | Reply::NotMine { .. } => return,
        };
        for from in self.waiting.remove(&session).unwrap_or_default() {
            turn.answer(from, outcome.clone());
        }
    }
}

/// A session knows the zone of a version.
fn zoned<R>(stage: &mut Stage<'_, R>, session: Id, version: u64) {
    let current =
        |venue: &&Venue| venue.zone().version == version || planted::is("an old zone taken for the current one");
    let owed = stage.entity.venue().filter(current).is_some_and(|venue| venue.owes_zone(&session));
    if owed {
        stage.entity.apply_venue(VenueEvent::SessionZoned(session), stage.turn);
    }
}

/// A session tells when its sale opens. A message that was overtaken changes nothing.
fn sale_told<R>(stage: &mut Stage<'_, R>, session: Id, mark: SaleMark) {
    let is_newer = stage.entity.venue().is_some_and(|venue| venue.knows_sale(&session) < mark.version);
    if is_newer || planted::is("an older mark of a sale taken for the newest") {
        stage.entity.apply_venue(VenueEvent::SaleTold { session: session.clone(), mark }, stage.turn);
    }
    stage.turn.reply(Entity::Session(session), Reply::SaleTold { version: mark.version });
}

fn zone_effect<R>(session: Id, zone: &VenueZone) -> Effect<R> {
    Effect::Ask { to: Entity::Session(session), ask: Ask::SetZone(zone.clone()) }
}

/// Decides every command but those of the details and the creation of sessions.
fn command_outcome<R>(
    entity: &mut Speculation,
    id: &Id,
    request: Option<Request>,
    command: VenueCommand,
    turn: &mut Turn<R>,
) -> Outcome {
    let known = entity.venue().ok_or_else(|| entity.not_found());
    match command {
        VenueCommand::Get => entity.ok(Answer::Venue(known?.view())),
        VenueCommand::GetHall { hall } => entity.ok(Answer::Hall(known?.hall(&hall)?)),
        VenueCommand::SearchSessions { hall, title, from, to, limit, after } => {
            let (hall, title, after) = (hall.as_ref(), title.as_ref(), after.as_ref());
            let found = known?.search(&Search { hall, title, from, to, limit, after });
            entity.ok(Answer::Sessions(found))
        }
        VenueCommand::PutHall { hall, name, comments, layout } => {
            let request = request.ok_or(Refusal::RequestIdMissing)?;
            let venue = known?;
            if let Some(known) = venue.hall_answered(&hall, request) {
                return entity.ok_again(Answer::Done, known?);
            }
            let event = venue.decide_put_hall(hall, (name.into_plain(), comments.into_plain()), layout, request);
            entity.apply_venue(event, turn);
            entity.ok(Answer::Done)
        }
        VenueCommand::CreateSession(_) | VenueCommand::Put(_) => panic!("venue {id} decides this elsewhere"),
    }
}

/// The answer to the creation of a session, as it was when it opened.
fn created(entity: &Speculation, session: &Id) -> Outcome {
    let view = entity.venue().and_then(|venue| venue.fresh_session(session));
    let opened = entity.venue().and_then(|venue| venue.opened_at(session)).expect("an open session was opened");
    let own = At { version: opened, ..entity.at() };
    let at = At { entity: Entity::Session(session.clone()), version: 1, position: 0 };
    Ok(Answered { answer: Answer::Session(view.expect("an open session is booked")), at: vec![own, at] })
}

/// The asks that the venue owes to sessions and to the directory.
fn owed<R>(entity: &Speculation) -> Vec<Effect<R>> {
    let Some(venue) = entity.venue() else { return Vec::new() };
    let ask = |session: &Id| Effect::Ask {
        to: Entity::Session(session.clone()),
        ask: Ask::Open(Box::new(venue.opening_of(session).expect("a session being opened is booked"))),
    };
    let list = venue.unlisted().map(|(details, version)| Effect::Ask {
        to: Entity::Directory,
        ask: Ask::List { details: details.clone(), version },
    });
    venue.opening().map(ask).chain(list).collect()
}

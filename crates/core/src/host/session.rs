//! A session at work.

use super::{Effect, Input, Stage, Turn, speculation::Speculation};
use crate::{
    answer::{Answer, Outcome},
    ask::{Ask, Opening, Reply},
    command::{Command, SessionCommand},
    event::SessionEvent,
    id::{CartId, Entity, HoldId, Request, RequestHash},
    refusal::Refusal,
    session::Session,
    time::{Rules, Timestamp},
};

/// Carts asked in one turn about overdue holds. The others are asked in turns that follow, so that neither a turn nor its
/// messages grow with the number of holds.
const OVERDUE_BATCH: usize = 256;

/// How long the next batch waits, in milliseconds: the carts have other things to do.
const OVERDUE_PAUSE_MS: u64 = 5;

/// Before every hold.
const FIRST: (Timestamp, HoldId) =
    (Timestamp(0), HoldId { cart: CartId(0), request: RequestHash(0), part: 0, attempt: 0 });

/// How far the round of questions about overdue holds has come.
pub(super) struct SessionHost {
    /// Holds up to here were asked about in this round.
    asked: (Timestamp, HoldId),
    /// When the next round starts from the beginning.
    round_ends: Timestamp,
}

impl SessionHost {
    pub(super) fn new() -> SessionHost {
        SessionHost { asked: FIRST, round_ends: Timestamp(0) }
    }

    pub(super) fn handle<R>(&mut self, stage: &mut Stage<'_, R>, input: Input<R>) {
        let Stage { entity, rules, at, turn } = stage;
        let (rules, at) = (*rules, *at);
        match input {
            Input::Command { from, request, command } => {
                let outcome = command_outcome(entity, request, command, turn);
                turn.answer(from, outcome);
            }
            Input::Ask { from, ask } => answer_ask(entity, rules, at, from, ask, turn),
            Input::Reply { from: _, reply } => self.hear(entity, rules, reply, turn),
            Input::Wake => self.ask_overdue(entity, rules, at, turn),
        }
    }

    fn hear<R>(&mut self, entity: &mut Speculation, rules: &Rules, reply: Reply, turn: &mut Turn<R>) {
        let Some(session) = entity.session() else { return };
        let event = match reply {
            Reply::MineUntil { hold, deadline } => session.decide_extend(hold, deadline.after(rules.grace_ms)),
            Reply::NotMine { hold } => session.decide_disowned(hold),
            Reply::Granted(_)
            | Reply::Refused { .. }
            | Reply::Stale { .. }
            | Reply::Released { .. }
            | Reply::Sold { .. }
            | Reply::Forgotten
            | Reply::Opened
            | Reply::OpenRefused => None,
        };
        if let Some(event) = event {
            entity.apply_session(event, turn);
        }
    }

    fn ask_overdue<R>(&mut self, entity: &Speculation, rules: &Rules, at: Timestamp, turn: &mut Turn<R>) {
        let Some(session) = entity.session() else { return };
        if at >= self.round_ends {
            self.asked = FIRST;
            self.round_ends = at.after(rules.ask_again_ms);
        }
        let mut count = 0;
        for (deadline, hold) in session.overdue(self.asked, at).take(OVERDUE_BATCH) {
            self.asked = (deadline, hold);
            turn.now.push(Effect::Ask { to: Entity::Cart(hold.cart), ask: Ask::Overdue { hold } });
            count += 1;
        }
        if count == OVERDUE_BATCH {
            turn.wake(at.after(OVERDUE_PAUSE_MS));
        } else if session.deadline().is_some_and(|deadline| deadline <= at) {
            turn.wake(self.round_ends);
        }
    }
}

fn command_outcome<R>(
    entity: &mut Speculation,
    request: Option<Request>,
    command: Command,
    turn: &mut Turn<R>,
) -> Outcome {
    let Command::Session(_, command) = command else {
        panic!("{} was handed a command to {}", entity.entity(), command.entity());
    };
    let session = entity.session().ok_or_else(|| entity.not_found())?;
    match command {
        SessionCommand::Get => entity.ok(Answer::Session(session.view())),
        SessionCommand::Map => entity.ok(Answer::Map(session.map())),
        SessionCommand::Audit => entity.ok(Answer::SessionAudit(session.audit())),
        SessionCommand::Block(seats) => {
            write(entity, request, turn, |session, request| session.decide_block(&seats, request))
        }
        SessionCommand::Unblock(seats) => {
            write(entity, request, turn, |session, request| session.decide_unblock(&seats, request))
        }
    }
}

fn write<R>(
    entity: &mut Speculation,
    request: Option<Request>,
    turn: &mut Turn<R>,
    decide: impl FnOnce(&Session, Request) -> Result<SessionEvent, Refusal>,
) -> Outcome {
    let session = entity.session().expect("looked up by the caller");
    let request = request.ok_or(Refusal::RequestIdMissing)?;
    if let Some(known) = session.answered(request) {
        return entity.ok(known?);
    }
    let event = decide(session, request)?;
    entity.apply_session(event, turn);
    entity.ok(Answer::Done)
}

fn answer_ask<R>(entity: &mut Speculation, rules: &Rules, at: Timestamp, from: Entity, ask: Ask, turn: &mut Turn<R>) {
    let reply = match ask {
        Ask::Hold { hold, revision, want, deadline } => {
            let decided = match entity.session() {
                None => Err(Reply::Refused { hold, refusal: entity.not_found() }),
                Some(session) => session.decide_hold(at, hold, revision, &want, deadline.after(rules.grace_ms)),
            };
            match decided {
                Err(reply) => reply,
                Ok(event) => {
                    entity.apply_session(event, turn);
                    Reply::Granted(entity.session().expect("it has just held").granted(hold))
                }
            }
        }
        Ask::Release { hold, revision, seats, last } => {
            let decided =
                entity.session().and_then(|session| session.decide_release(hold, revision, seats.as_ref(), last));
            if let Some(event) = decided {
                entity.apply_session(event, turn);
            }
            Reply::Released { hold, revision }
        }
        Ask::Sell { hold, revision, seats, order, at } => {
            let session = entity.session().unwrap_or_else(|| panic!("{hold:?} is sold by a session that never was"));
            for event in session.decide_sell(hold, revision, &seats, order, at) {
                entity.apply_session(event, turn);
            }
            let version = entity.session().and_then(|session| session.sale_version(hold));
            Reply::Sold { hold, version: version.expect("it has just sold"), position: 0 }
        }
        Ask::Forget => {
            let Entity::Cart(cart) = from else { panic!("{from} is no cart and asks to be forgotten") };
            if let Some(event) = entity.session().and_then(|session| session.decide_forget(cart)) {
                entity.apply_session(event, turn);
            }
            Reply::Forgotten
        }
        Ask::Open(opening) => open(entity, opening, turn),
        Ask::Overdue { hold } => {
            panic!("{} was asked about the overdue {hold:?}, which only carts are", entity.entity())
        }
    };
    turn.reply(from, reply);
}

fn open<R>(entity: &mut Speculation, opening: Opening, turn: &mut Turn<R>) -> Reply {
    match entity.session() {
        Some(session) if session.opening() == opening => Reply::Opened,
        Some(_) => Reply::OpenRefused,
        None => {
            entity.apply_session(SessionEvent::Opened(opening), turn);
            Reply::Opened
        }
    }
}

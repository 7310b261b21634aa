//! Lines under way: asked of their sessions, not yet in the cart.

use alloc::vec::Vec;

use smol_str::format_smolstr;

use super::{ADDING_MAX, CartHost};
use crate::{
    answer::{Answer, At, Outcome},
    ask::{Ask, Granted},
    cart::{Asked, Cart, check_wanted},
    command::{Want, WantedLine},
    host::{Effect, Stage},
    id::{Entity, HoldId, Id, Request},
    refusal::Refusal,
    time::Timestamp,
};

/// The revision of a hold when it is asked for.
const FIRST_REVISION: u64 = 1;

/// One request for lines; it becomes lines when every part is granted.
pub(super) struct Adding<R> {
    pub(super) request: Request,
    pub(super) waiting: Vec<R>,
    /// When the parts that have not been replied to are asked again.
    pub(super) again_at: Timestamp,
    parts: Vec<Part>,
}

struct Part {
    session: Id,
    want: Want,
    hold: HoldId,
    state: PartState,
}

enum PartState {
    Asked,
    Granted(Granted),
    Refused(Refusal),
}

impl<R> Adding<R> {
    /// Whether this hold may become a line yet.
    pub(super) fn expects(&self, session: &Id, hold: HoldId) -> bool {
        self.parts.iter().any(|part| part.hold == hold && part.session == *session)
    }

    /// What sessions hold, or will if the ask is still on its way: session, hold, revision.
    pub(super) fn perhaps_held(&self) -> impl Iterator<Item = (Id, HoldId, u64)> {
        self.parts.iter().filter_map(|part| match &part.state {
            PartState::Asked => Some((part.session.clone(), part.hold, FIRST_REVISION)),
            PartState::Granted(granted) => Some((part.session.clone(), part.hold, granted.revision)),
            PartState::Refused(_) => None,
        })
    }

    fn complete(&self) -> bool {
        self.parts.iter().all(|part| !matches!(part.state, PartState::Asked))
    }

    fn refusal(&self) -> Option<Refusal> {
        self.parts.iter().find_map(|part| match &part.state {
            PartState::Refused(refusal) => Some(refusal.clone()),
            PartState::Asked | PartState::Granted(_) => None,
        })
    }
}

impl Part {
    fn ask<R>(&self, deadline: Timestamp) -> Effect<R> {
        let ask = Ask::Hold { hold: self.hold, revision: FIRST_REVISION, want: self.want.clone(), deadline };
        Effect::Ask { to: Entity::Session(self.session.clone()), ask }
    }
}

impl<R> CartHost<R> {
    /// Asks the sessions for lines, all at once.
    pub(super) fn add(&mut self, stage: &mut Stage<'_, R>, from: R, request: Request, wanted: Vec<WantedLine>) {
        match self.parts(stage, request, wanted) {
            Err(refusal) => stage.turn.answer(from, Err(refusal)),
            Ok(parts) => {
                let deadline = stage.deadline();
                // Nothing rests on these asks being committed: a hold that no cart knows is asked about and freed.
                stage.turn.now.extend(parts.iter().map(|part| part.ask(deadline)));
                let again_at = stage.at.after(stage.rules.ask_again_ms);
                self.adding.push(Adding { request, waiting: Vec::from([from]), again_at, parts });
            }
        }
    }

    fn parts(&self, stage: &Stage<'_, R>, request: Request, wanted: Vec<WantedLine>) -> Result<Vec<Part>, Refusal> {
        check_wanted(&wanted)?;
        if self.adding.len() == ADDING_MAX {
            let text = format_smolstr!("{ADDING_MAX} holds of this cart are under way; wait for one of them");
            return Err(Refusal::BadRequest(text));
        }
        let others = self.adding.iter().map(|adding| adding.parts.len()).sum();
        let blank;
        let cart = match stage.entity.cart() {
            Some(cart) => cart,
            None => {
                let Entity::Cart(id) = *stage.entity.entity() else { panic!("only carts add lines") };
                blank = Cart::blank(id);
                &blank
            }
        };
        cart.may_ask(&wanted, others)?;
        let part = |(number, line): (u16, WantedLine)| {
            let hold = cart.next_hold(request.id, number)?;
            Ok(Part { session: line.session, want: line.want, hold, state: PartState::Asked })
        };
        (0..).zip(wanted).map(part).collect()
    }

    pub(super) fn granted(&mut self, stage: &mut Stage<'_, R>, session: &Id, granted: Granted) {
        if let Some((place, part)) = self.part(session, granted.hold) {
            let part = &mut self.adding[place].parts[part];
            // A grant of something else is of a request of the same id before a crash; the session refuses this one. A
            // refusal that came first was of an earlier ask.
            if part.want.hash() == granted.want_hash {
                part.state = PartState::Granted(granted);
                self.conclude_if_complete(stage, place);
            }
            return;
        }
        let known = stage.entity.cart().is_some_and(|cart| {
            // A release that the session will remember ends the hold whichever of the two comes first.
            cart.owns(session, granted.hold) || cart.outbox().releases(session, granted.hold).any(|(_, last)| !last)
        });
        if !known {
            // It came too late, or twice.
            self.disown(stage, Vec::from([(session.clone(), granted.hold, granted.revision)]));
        }
    }

    pub(super) fn refused(&mut self, stage: &mut Stage<'_, R>, session: &Id, hold: HoldId, refusal: Refusal) {
        if let Some((place, part)) = self.part(session, hold)
            && let state @ PartState::Asked = &mut self.adding[place].parts[part].state
        {
            *state = PartState::Refused(refusal);
            self.conclude_if_complete(stage, place);
        }
    }

    /// The session remembers this hold as released: asks with the next attempt.
    pub(super) fn stale(&mut self, stage: &mut Stage<'_, R>, session: &Id, hold: HoldId, revision: u64) {
        let Some((place, part)) = self.part(session, hold) else { return };
        if !matches!(self.adding[place].parts[part].state, PartState::Asked) {
            return;
        }
        self.disown(stage, Vec::from([(session.clone(), hold, revision)]));
        let next = stage.entity.cart().map(|cart| cart.next_hold(hold.request, hold.part));
        let part = &mut self.adding[place].parts[part];
        match next.expect("a cart that has disowned is kept") {
            Ok(next) => {
                part.hold = next;
                let ask = part.ask(stage.deadline());
                stage.turn.committed.push(ask);
            }
            Err(refusal) => {
                part.state = PartState::Refused(refusal);
                self.conclude_if_complete(stage, place);
            }
        }
    }

    /// Asks again for what was not replied to.
    pub(super) fn ask_again(&mut self, stage: &mut Stage<'_, R>) {
        let deadline = stage.deadline();
        for adding in &mut self.adding {
            if stage.at >= adding.again_at {
                let asked = adding.parts.iter().filter(|part| matches!(part.state, PartState::Asked));
                stage.turn.now.extend(asked.map(|part| part.ask(deadline)));
                adding.again_at = stage.at.after(stage.rules.ask_again_ms);
            }
        }
    }

    fn part(&self, session: &Id, hold: HoldId) -> Option<(usize, usize)> {
        self.adding.iter().enumerate().find_map(|(place, adding)| {
            let part = adding.parts.iter().position(|part| part.hold == hold && part.session == *session)?;
            Some((place, part))
        })
    }

    fn conclude_if_complete(&mut self, stage: &mut Stage<'_, R>, place: usize) {
        if !self.adding[place].complete() {
            return;
        }
        let adding = self.adding.remove(place);
        let outcome = match self.write_lines(stage, &adding) {
            Ok(outcome) => outcome,
            Err(refusal) => {
                let holds: Vec<_> = adding.perhaps_held().collect();
                if !holds.is_empty() {
                    self.disown(stage, holds);
                }
                Err(refusal)
            }
        };
        for from in adding.waiting {
            stage.turn.answer(from, outcome.clone());
        }
    }

    /// All parts are granted or refused: writes the lines down, or says why not.
    fn write_lines(&mut self, stage: &mut Stage<'_, R>, adding: &Adding<R>) -> Result<Outcome, Refusal> {
        if let Some(refusal) = adding.refusal() {
            return Err(refusal);
        }
        let asked: Vec<Asked<'_>> = adding
            .parts
            .iter()
            .filter_map(|part| match &part.state {
                PartState::Granted(granted) => Some(Asked { session: &part.session, granted }),
                PartState::Asked | PartState::Refused(_) => None,
            })
            .collect();
        assert_eq!(asked.len(), adding.parts.len(), "lines are written when every part is granted");
        let decided = match stage.entity.cart() {
            Some(cart) => cart.decide_add(stage.at, stage.rules, adding.request, &asked),
            None => {
                let Entity::Cart(id) = *stage.entity.entity() else { panic!("only carts add lines") };
                Cart::blank(id).decide_add(stage.at, stage.rules, adding.request, &asked)
            }
        };
        let (events, held) = decided?;
        for event in events {
            stage.entity.apply_cart(event, stage.turn);
        }
        let at = |line: &Asked<'_>| At {
            entity: Entity::Session(line.session.clone()),
            version: line.granted.version,
            position: line.granted.position,
        };
        Ok(stage.entity.ok_with(Answer::Held(held), asked.iter().map(at).collect()))
    }
}

impl<R> Stage<'_, R> {
    /// The cart's deadline if it were touched now.
    fn deadline(&self) -> Timestamp {
        match self.entity.cart() {
            Some(cart) => cart.touched(self.at, self.rules, core::iter::empty()),
            None => {
                let ttl_ms = self.rules.hold_ttl_ms.min(self.rules.cart_age_max_ms);
                self.at.after(ttl_ms)
            }
        }
    }
}

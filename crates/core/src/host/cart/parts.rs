//! The asks of one request for lines, or of one checkout for lines that it validates.

use alloc::{boxed::Box, vec::Vec};

use crate::{
    answer::Outcome,
    ask::{Ask, Granted},
    cart::{Cart, GrantedLine, REVISION_MAX},
    command::{Want, WantedLine},
    event::{CodeUse, QuotaClaim},
    holder::Holder,
    host::{Effect, Stage, Turn},
    id::{Entity, HoldId, Id},
    planted,
    portion::{Content, SeatPrice},
    push_exact::push_exact,
    refusal::{LineRefusal, Refusal},
    time::Timestamp,
};

/// The revision of a hold when it is asked for.
pub(super) const FIRST_REVISION: u64 = 1;

/// The parts that are asked for together.
pub(super) struct Parts {
    pub(super) list: Vec<Part>,
    pub(super) buyer: Buyer,
    /// When the parts that have not been replied to are asked again.
    pub(super) again_at: Timestamp,
}

/// Who asks for the parts.
pub(super) struct Buyer {
    /// The customer that takes them, if it is known.
    pub(super) customer: Option<Id>,
    /// Who holds them, if it has a share and no more.
    pub(super) holder: Option<Holder>,
    /// Whether the desk asks for them.
    pub(super) desk: bool,
    /// The attributes of the customer whose token was shown.
    pub(super) attributes: Vec<Id>,
    /// Whether sessions are told the customer, which those of an older version of the cluster cannot read.
    pub(super) tells_customer: bool,
}

/// One part. It is a hold of an inventory. Before it, uses of a code are held if one is shown, because the inventory sells other things
/// then, and after it a part of the customer's quota if there is a limit, which the inventory tells.
pub(super) struct Part {
    pub(super) wanted: WantedLine,
    pub(super) hold: HoldId,
    pub(super) revision: u64,
    /// The line it makes grow, or validates.
    pub(super) line: Option<u32>,
    /// Whether the line has the hold already.
    pub(super) grows: bool,
    /// Boxed, because few buyers have one.
    pub(super) code: Option<Box<CodePart>>,
    pub(super) main: AskState,
    pub(super) quota: Option<QuotaPart>,
    /// Why the part fails, although it was granted.
    pub(super) spoiled: Option<Refusal>,
    /// Until when the inventory, or the customer, may believe in it without asking the cart.
    pub(super) believed_until: Timestamp,
}

/// The part that is asked of the customer's quota.
pub(super) struct QuotaPart {
    pub(super) claim: QuotaClaim,
    pub(super) count: u32,
    pub(super) state: AskState,
}

/// The part that is asked of a code.
pub(super) struct CodePart {
    /// The id of its entity.
    pub(super) code: Id,
    pub(super) hold: HoldId,
    revision: u64,
    /// How many uses it asks for.
    count: u32,
    state: AskState,
}

/// The ask of a part to its inventory, to the customer or to a code.
pub(super) struct PartAsk<'a> {
    pub(super) hold: &'a mut HoldId,
    pub(super) revision: &'a mut u64,
    pub(super) state: &'a mut AskState,
}

/// The progress of one ask.
pub(super) enum AskState {
    Asked,
    Granted(Granted),
    Refused(Refusal),
}

impl Parts {
    /// Whether every ask has its reply.
    pub(super) fn complete(&self) -> bool {
        self.list.iter().all(Part::complete)
    }

    /// Refused parts by their place.
    pub(super) fn refusals(&self) -> Vec<(u16, Refusal)> {
        (0..).zip(&self.list).filter_map(|(place, part)| Some((place, part.refusal()?.clone()))).collect()
    }

    /// Whether this hold may become a line yet.
    pub(super) fn expects(&self, entity: &Entity, hold: HoldId) -> bool {
        self.find(entity, hold).is_some()
    }

    /// The part that asks this entity for this hold.
    pub(super) fn find(&self, entity: &Entity, hold: HoldId) -> Option<usize> {
        self.list.iter().position(|part| match entity {
            // Another customer may have been asked for a hold of the same id before a crash.
            Entity::Customer(id) => {
                self.buyer.customer.as_ref() == Some(id)
                    && part.quota.as_ref().is_some_and(|quota| quota.claim.hold == hold)
            }
            Entity::Code(id) => part.code.as_ref().is_some_and(|code| code.code == *id && code.hold == hold),
            _ => part.wanted.entity == *entity && part.hold == hold,
        })
    }

    /// Notes until when the inventory believes that this hold may become a line.
    pub(super) fn believed_until(&mut self, entity: &Entity, hold: HoldId, until: Timestamp) {
        if let Some(place) = self.find(entity, hold) {
            self.list[place].believed(until);
        }
    }

    /// Every ask without a reply. Named seats are asked for before the best ones, which would take them otherwise.
    pub(super) fn asks<R>(&self, life_ms: u64) -> impl Iterator<Item = Effect<R>> {
        let to = &self.buyer;
        let last =
            |part: &&Part| matches!(part.wanted.want, Want::Best(_)) && !planted::is("best seats before named ones");
        let parts = self.list.iter().filter(move |part| !last(part)).chain(self.list.iter().filter(last));
        parts.filter_map(move |part| part.ask(to, life_ms))
    }

    /// Adds every ask without a reply to the turn: to its `now`, or to its `read` if one of the parts must
    /// [wait](Part::waits).
    pub(super) fn ask_all<R>(&self, life_ms: u64, turn: &mut Turn<R>) {
        let waits = self.list.iter().any(Part::waits);
        let effects = if waits { &mut turn.read } else { &mut turn.now };
        self.asks(life_ms).for_each(|ask| push_exact(effects, ask));
    }

    /// Entity, hold and revision of holds that are granted, or will be if the ask is still on its way, and are no lines.
    pub(super) fn perhaps_held(&self) -> Vec<(Entity, HoldId, u64)> {
        let mut held = Vec::new();
        for part in &self.list {
            if !part.grows && part.perhaps() {
                held.push((part.wanted.entity.clone(), part.hold, part.revision));
            }
            let forgets = planted::is("a use that a refused hold keeps");
            if let Some(code) = part.code.as_ref().filter(|code| code.perhaps() && !forgets) {
                held.push((Entity::Code(code.code.clone()), code.hold, code.revision));
            }
            if let (Some(quota), Some(customer)) = (&part.quota, &self.buyer.customer)
                && !part.grows
                && quota.perhaps()
            {
                held.push((Entity::Customer(customer.clone()), quota.claim.hold, quota.claim.revision));
            }
        }
        held
    }

    /// Lines whose holds have more than they, or will have, each with its revision and the revision of its quota.
    pub(super) fn perhaps_grown(&self) -> Vec<(u32, u64, u64)> {
        let growing = self.list.iter().filter(|part| part.grows);
        let grown = growing.map(|part| {
            let main = if part.perhaps() { part.revision } else { 0 };
            let quota = part.quota.as_ref().filter(|quota| quota.perhaps()).map_or(0, |quota| quota.claim.revision);
            (part.line.expect("what grows is a line"), main, quota)
        });
        grown.collect()
    }

    /// Notes a grant that arrives at `at`, and pushes the asks that follow. Returns whether the grant was awaited.
    pub(super) fn granted<R>(
        &mut self,
        cart: Option<&Cart>,
        entity: &Entity,
        granted: &Granted,
        (at, life_ms): (Timestamp, u64),
        turn: &mut Turn<R>,
    ) -> bool {
        let Some(place) = self.find(entity, granted.hold) else { return false };
        let (buyer, part) = (&self.buyer, &mut self.list[place]);
        part.believed(at.after(granted.believed_ms));
        if let Entity::Customer(_) = entity {
            let quota = part.quota.as_mut().expect("found by its quota");
            if quota.want().hash() == granted.want_hash && quota.claim.revision == granted.revision {
                quota.state = AskState::Granted(granted.clone());
            }
            return true;
        }
        if let Entity::Code(_) = entity {
            let code = part.code.as_mut().expect("found by its code");
            let is_of_ask = code.want().hash() == granted.want_hash && code.revision == granted.revision;
            if is_of_ask && matches!(code.state, AskState::Asked) {
                code.state = AskState::Granted(granted.clone());
                part.ask_in(buyer, life_ms, turn);
            }
            return true;
        }
        // A grant of something else is for a request with the same id before a crash, and the inventory refuses this one. A
        // refusal that came first was for an earlier ask. A hold that is not counted is granted with any revision.
        let counted = matches!(part.wanted.want, Want::Units { .. } | Want::Places { .. });
        let higher = !counted && (part.revision..=REVISION_MAX).contains(&granted.revision);
        let of_ask = granted.revision == part.revision || higher;
        if part.wanted.want.hash() != granted.want_hash || !(of_ask || granted.late) {
            return true;
        }
        if matches!(part.main, AskState::Granted(_)) {
            return true;
        }
        part.revision = part.revision.max(granted.revision);
        let granted = part.at_its_price(cart, granted);
        part.main = AskState::Granted(granted.clone());
        part.check_uses(&granted);
        part.want_quota(cart, &granted, buyer);
        part.ask_in(buyer, life_ms, turn);
        true
    }

    /// Notes a refusal. Returns whether it was awaited.
    pub(super) fn refused(&mut self, entity: &Entity, hold: HoldId, revision: u64, refusal: &Refusal) -> bool {
        let Some(place) = self.find(entity, hold) else { return false };
        let part = &mut self.list[place];
        let ask = part.ask_of(entity);
        if matches!(ask.state, AskState::Asked) && revision == *ask.revision {
            *ask.state = AskState::Refused(refusal.clone());
        }
        true
    }
}

impl Part {
    /// A part that asks for something that no line has yet.
    pub(super) fn new(wanted: WantedLine, hold: HoldId) -> Part {
        let code = wanted.want.code().map(|(code, count)| {
            let (code, revision, state) = (code.clone(), FIRST_REVISION, AskState::Asked);
            Box::new(CodePart { code, hold, revision, count, state })
        });
        Part {
            wanted,
            hold,
            revision: FIRST_REVISION,
            line: None,
            grows: false,
            code,
            main: AskState::Asked,
            quota: None,
            spoiled: None,
            believed_until: Timestamp(0),
        }
    }

    /// A part that cannot even be asked for.
    pub(super) fn refused(wanted: WantedLine, hold: HoldId, refusal: Refusal) -> Part {
        Part { main: AskState::Refused(refusal), ..Part::new(wanted, hold) }
    }

    /// The ask to this entity.
    pub(super) fn ask_of(&mut self, entity: &Entity) -> PartAsk<'_> {
        match (entity, &mut self.quota, self.code.as_deref_mut()) {
            (Entity::Customer(_), Some(QuotaPart { claim, state, .. }), _) => {
                PartAsk { hold: &mut claim.hold, revision: &mut claim.revision, state }
            }
            (Entity::Code(_), _, Some(CodePart { hold, revision, state, .. })) => PartAsk { hold, revision, state },
            _ => PartAsk { hold: &mut self.hold, revision: &mut self.revision, state: &mut self.main },
        }
    }

    fn believed(&mut self, until: Timestamp) {
        self.believed_until = self.believed_until.max(until);
    }

    fn complete(&self) -> bool {
        if let Some(code) = self.code.as_ref().filter(|code| !matches!(code.state, AskState::Granted(_))) {
            return matches!(code.state, AskState::Refused(_)) || matches!(self.main, AskState::Refused(_));
        }
        match (&self.main, &self.quota) {
            (AskState::Asked, _) => false,
            (AskState::Refused(_), _) | (AskState::Granted(_), None) => true,
            (AskState::Granted(_), Some(quota)) => !matches!(quota.state, AskState::Asked),
        }
    }

    fn refusal(&self) -> Option<&Refusal> {
        let quota = self.quota.as_ref().and_then(|quota| quota.state.refusal());
        let code = self.code.as_ref().and_then(|code| code.state.refusal());
        self.spoiled.as_ref().or(code).or(self.main.refusal()).or(quota)
    }

    /// Whether the inventory has granted the ask, or may have.
    fn perhaps(&self) -> bool {
        match &self.main {
            AskState::Asked => true,
            AskState::Granted(granted) => !granted.late,
            // If a decision failed, an earlier ask may have been granted.
            AskState::Refused(refusal) => *refusal == Refusal::Internal,
        }
    }

    /// The ask to send now.
    pub(super) fn ask<R>(&self, buyer: &Buyer, life_ms: u64) -> Option<Effect<R>> {
        let Buyer { customer, holder, desk, attributes, tells_customer } = buyer;
        let (holder, desk) = (*holder, *desk);
        let counted = |to: Entity, (hold, revision): (HoldId, u64), want: Want| Effect::Ask {
            to,
            ask: Ask::Hold {
                hold,
                revision,
                want,
                life_ms,
                holder: None,
                desk,
                code: None,
                attributes: Vec::new(),
                customer: None,
            },
        };
        let mut shown = None;
        if let Some(code) = &self.code {
            match &code.state {
                AskState::Asked => {
                    let to = Entity::Code(code.code.clone());
                    return Some(counted(to, (code.hold, code.revision), code.want()));
                }
                AskState::Granted(granted) => shown.clone_from(&granted.code),
                AskState::Refused(_) => return None,
            }
        }
        if let AskState::Asked = self.main {
            let (hold, revision, want, code) = (self.hold, self.revision, self.wanted.want.clone(), shown);
            let tells = *tells_customer && matches!(self.wanted.entity, Entity::Session(_));
            let (attributes, customer) = (attributes.clone(), customer.clone().filter(|_| tells));
            let ask = Ask::Hold { hold, revision, want, life_ms, holder, desk, code, attributes, customer };
            return Some(Effect::Ask { to: self.wanted.entity.clone(), ask });
        }
        let quota = self.quota.as_ref().filter(|quota| matches!(quota.state, AskState::Asked))?;
        let to = Entity::Customer(customer.clone().expect("a part with a quota has a customer"));
        Some(counted(to, (quota.claim.hold, quota.claim.revision), quota.want()))
    }

    /// Whether it is asked for only when everything proposed before is committed. A change of a line's hold must outrank
    /// everything committed, or a crash could bring back a line with more than its hold. A later attempt must come after the
    /// release of the attempt before. A revision above the first one outranks what another host of this cart was granted, so a
    /// deposed host must not ask for it. Everything else is asked for at once.
    fn waits(&self) -> bool {
        let (revision, hold) = match (&self.main, &self.quota, &self.code) {
            (AskState::Granted(_), Some(quota), _) => (quota.claim.revision, self.hold),
            (_, _, Some(code)) if matches!(code.state, AskState::Asked) => (code.revision, code.hold),
            _ => (self.revision, self.hold),
        };
        let outranks = revision > FIRST_REVISION && !planted::is("a deposed host outranks its successor");
        self.grows || hold.attempt > 0 || outranks
    }

    /// Adds the ask to the turn's `now`, or to its `read` if the part must [wait](Part::waits).
    pub(super) fn ask_in<R>(&self, buyer: &Buyer, life_ms: u64, turn: &mut Turn<R>) {
        let effects = if self.waits() { &mut turn.read } else { &mut turn.now };
        effects.extend(self.ask(buyer, life_ms));
    }

    /// A grant of more units that are validated at the checkout. They go to the line with their price, or to a new one.
    fn at_its_price(&mut self, cart: Option<&Cart>, granted: &Granted) -> Granted {
        let mut granted = granted.clone();
        let like = granted.content.clone();
        let (true, Some(cart), Some(like), Some(Content::Units { quantity, price, .. })) =
            (granted.late, cart, like, &mut granted.content)
        else {
            return granted;
        };
        if planted::is("a further unit at the price of before") {
            return granted;
        }
        let had = self.line.and_then(|number| cart.line(number).ok()).map_or(0, |(_, content)| content.quantity());
        let price = SeatPrice { price: *price, bought_as: None };
        let line = cart.line_at_price(&self.wanted.entity, &like, &price, true);
        *quantity = quantity.saturating_sub(had) + line.map_or(0, |(_, content)| content.quantity());
        self.line = line.map(|(number, _)| number);
        granted
    }

    /// Checks that the code has granted a use for every seat and place under it. After a crash it may have fewer than before, while the
    /// inventory still has the hold.
    fn check_uses(&mut self, granted: &Granted) {
        let needed = granted.content.as_ref().map_or(0, Content::uses);
        if needed > self.code.as_ref().map_or(0, |code| code.uses()) {
            self.spoiled = Some(Refusal::CodeNotValid);
        }
    }

    /// Asks for a part of the customer's quota, if the grant has a limit per customer.
    fn want_quota(&mut self, cart: Option<&Cart>, granted: &Granted, buyer: &Buyer) {
        let held = self.line.filter(|_| self.grows);
        if let Some(number) = held {
            let claim = cart.and_then(|cart| cart.line_hold(number)).and_then(|line| line.quota.cloned());
            if let Some(mut claim) = claim {
                claim.revision += 1;
                self.quota = Some(QuotaPart { claim, count: granted.quantity(), state: AskState::Asked });
            }
            return;
        }
        let set_aside = matches!(self.wanted.want, Want::Units { now: false, .. }) && !granted.late;
        if self.line.is_some() && set_aside {
            let text = smol_str::format_smolstr!("{} is sold in another way now: release the line", self.wanted.entity);
            self.spoiled = Some(Refusal::BadRequest(text));
            return;
        }
        let Some(limit) = granted.limits.per_customer.as_ref().filter(|_| !granted.late) else { return };
        if buyer.customer.is_none() {
            let limited = smol_str::format_smolstr!("{}", self.wanted.entity);
            self.spoiled = Some(match buyer.tells_customer {
                true => Refusal::CustomerNeeded { limited },
                false => Refusal::BadRequest(smol_str::format_smolstr!(
                    "{limited} is limited per customer: name the buyer, `customer`"
                )),
            });
            return;
        }
        // The hold with this id may have been disowned since. Then the customer's part is being released.
        let hold = match cart.map(|cart| cart.next_hold(self.hold.request, self.hold.part)) {
            Some(Ok(next)) => HoldId { attempt: next.attempt.max(self.hold.attempt), ..self.hold },
            Some(Err(refusal)) => {
                self.spoiled = Some(refusal);
                return;
            }
            None => self.hold,
        };
        let (quota, max) = (limit.quota.clone(), limit.max);
        let claim = QuotaClaim { hold, revision: FIRST_REVISION, quota, max };
        self.quota = Some(QuotaPart { claim, count: granted.quantity(), state: AskState::Asked });
    }
}

impl QuotaPart {
    fn want(&self) -> Want {
        Want::Quota { quota: self.claim.quota.clone(), count: self.count, max: self.claim.max }
    }

    fn perhaps(&self) -> bool {
        matches!(self.state, AskState::Asked | AskState::Granted(_) | AskState::Refused(Refusal::Internal))
    }
}

impl CodePart {
    fn want(&self) -> Want {
        Want::Uses { count: self.count }
    }

    /// How many uses it was granted.
    fn uses(&self) -> u32 {
        match &self.state {
            AskState::Granted(granted) => granted.code.as_ref().map_or(0, |code| code.uses),
            AskState::Asked | AskState::Refused(_) => 0,
        }
    }

    fn perhaps(&self) -> bool {
        matches!(self.state, AskState::Asked | AskState::Granted(_) | AskState::Refused(Refusal::Internal))
    }
}

impl AskState {
    fn refusal(&self) -> Option<&Refusal> {
        match self {
            AskState::Refused(refusal) => Some(refusal),
            AskState::Asked | AskState::Granted(_) => None,
        }
    }
}

impl Granted {
    /// The quantity that it has.
    fn quantity(&self) -> u32 {
        self.content.as_ref().map_or(0, Content::quantity)
    }
}

/// A part that was granted, as the cart decides on it.
pub(super) fn granted_line(part: &Part) -> Option<GrantedLine<'_>> {
    let AskState::Granted(granted) = &part.main else { return None };
    let quota = part.quota.as_ref().map(|quota| quota.claim.clone());
    let code = part.code.as_ref().map(|part| {
        let (code, granted) = (part.code.clone(), part.uses());
        Box::new(CodeUse { code, hold: part.hold, revision: part.revision, granted })
    });
    let believed_until = part.believed_until;
    Some(GrantedLine { wanted: &part.wanted, granted, line: part.line, quota, code, believed_until })
}

/// The refusal of a request with this number of lines.
pub(super) fn one_refusal(mut refusals: Vec<(u16, Refusal)>, lines: usize) -> Option<Refusal> {
    match refusals.len() {
        0 => None,
        1 if lines == 1 => Some(refusals.remove(0).1),
        _ => {
            let line = |(line, refusal): (u16, Refusal)| LineRefusal { line, refusal };
            Some(Refusal::Lines(refusals.into_iter().map(line).collect()))
        }
    }
}

/// Answers all clients that wait for a change, when what the turn has written so far is committed.
pub(super) fn answer_all<R>(stage: &mut Stage<'_, R>, mut waiting: Vec<R>, outcome: Outcome) {
    // Most answers have one receiver and need no copy.
    let Some(last) = waiting.pop() else { return };
    for from in waiting {
        stage.turn.answer(from, outcome.clone());
    }
    stage.turn.answer(last, outcome);
}

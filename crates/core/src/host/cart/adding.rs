//! Lines that were asked of their inventories and are not yet in the cart.

use alloc::{boxed::Box, vec::Vec};

use smol_str::format_smolstr;

use super::{
    CartHost, changed,
    parts::{AskState, Buyer, FIRST_REVISION, Part, Parts, answer_all, granted_line, one_refusal},
    paying::PendingCheckout,
};
use crate::{
    answer::Outcome,
    ask::Granted,
    cart::{Cart, GrantedLine, REVISION_MAX, check_wanted},
    command::{BuyAs, Want, WantedLine},
    host::Stage,
    id::{Entity, HoldId, Id, Request},
    planted,
    portion::{Content, SeatPrice},
    refusal::Refusal,
    seat::SeatSet,
    time::{TIMESTAMP_MAX, Timestamp},
};

/// The most changes of one cart under way at a time, and the most that wait for them.
const ADDING_MAX: usize = 16;

/// One request for lines, or for more of one. It is written when every part is granted.
pub(super) struct Adding<R> {
    pub(super) request: Request,
    pub(super) waiting: Vec<R>,
    /// The deadline of its last waiting client. A later grant is released, because no client knows of the line.
    pub(super) waits_until: Timestamp,
    pub(super) parts: Parts,
    /// Whether it sets a quantity. Then it is answered with the cart.
    setting: bool,
    /// Whether a guest asks.
    guest: bool,
}

/// A change that waits because another one of the same units or places is under way.
pub(super) struct Queued<R> {
    pub(super) request: Request,
    pub(super) waiting: Vec<R>,
    /// The deadline of its last waiting client. From then on the change does not begin.
    pub(super) waits_until: Timestamp,
    change: LineChange,
}

/// A change of lines.
pub(super) enum LineChange {
    /// More lines, or more of them.
    Hold { lines: Vec<WantedLine>, buyer: Buyer },
    /// Another quantity for a line.
    Set { line: u32, quantity: u32, buyer: Buyer },
    /// A line, or seats of it, is given back.
    Release { line: u32, seats: Option<SeatSet> },
}

/// How a change starts.
enum ChangeStart {
    /// It is decided at once.
    Decided(Outcome),
    /// Inventories have to be asked.
    Asking { parts: Parts, setting: bool },
}

/// Interchangeable things, of one entity or of one area of it.
type Item = (Entity, Option<Id>);

fn item_of(entity: &Entity, want: &Want) -> Option<Item> {
    match want {
        Want::Units { .. } => Some((entity.clone(), None)),
        Want::Places { area, .. } => Some((entity.clone(), Some(area.clone()))),
        Want::Seats { .. } | Want::Best(_) | Want::Slot { .. } | Want::Quota { .. } | Want::Uses { .. } => None,
    }
}

impl LineChange {
    /// The interchangeable things that the change is about.
    fn items(&self, cart: Option<&Cart>) -> Vec<Item> {
        let of_line = |number: u32| {
            let (entity, content) = cart?.line(number).ok()?;
            match content {
                Content::Units { .. } => Some((entity.clone(), None)),
                Content::Places { area, .. } => Some((entity.clone(), Some(area.clone()))),
                Content::Seats(_) | Content::Slot { .. } => None,
            }
        };
        match self {
            LineChange::Hold { lines, .. } => {
                lines.iter().filter_map(|line| item_of(&line.entity, &line.want)).collect()
            }
            LineChange::Set { line, .. } | LineChange::Release { line, .. } => of_line(*line).into_iter().collect(),
        }
    }
}

impl<R> CartHost<R> {
    /// Begins a change of lines, or lets it wait for a change of the same things.
    pub(super) fn change_lines(
        &mut self,
        stage: &mut Stage<'_, R>,
        (from, waits_until): (R, Timestamp),
        request: Request,
        change: LineChange,
    ) {
        let items = change.items(stage.entity.cart());
        let queued = Queued { request, waiting: Vec::from([from]), waits_until, change };
        if !self.is_under_way(stage, &items, self.queued.len()) {
            return self.begin(stage, queued);
        }
        if self.queued.len() < ADDING_MAX {
            self.queued.push_back(queued);
        } else {
            answer_all(stage, queued.waiting, Err(too_many()));
        }
    }

    /// Begins queued changes that need not wait any more, in order.
    pub(super) fn begin_queued(&mut self, stage: &mut Stage<'_, R>) {
        let mut place = 0;
        while let Some(queued) = self.queued.get(place) {
            let items = queued.change.items(stage.entity.cart());
            if self.is_under_way(stage, &items, place) {
                place += 1;
            } else {
                let queued = self.queued.remove(place).expect("looked at above");
                self.begin(stage, queued);
            }
        }
    }

    /// Whether one of these things is being changed, or will be by one of the first `queued` changes that wait.
    fn is_under_way(&self, stage: &Stage<'_, R>, items: &[Item], queued: usize) -> bool {
        let parts = self.adding.iter().flat_map(|adding| &adding.parts.list);
        let mut under_way = parts.filter_map(|part| item_of(&part.wanted.entity, &part.wanted.want));
        let waits =
            |waiting: &Queued<R>| waiting.change.items(stage.entity.cart()).iter().any(|item| items.contains(item));
        !items.is_empty() && (under_way.any(|item| items.contains(&item)) || self.queued.iter().take(queued).any(waits))
    }

    /// Decides a change at once if only the cart has to agree, or asks the inventories and keeps it until they have replied. Nothing of
    /// it is written before that.
    fn begin(&mut self, stage: &mut Stage<'_, R>, queued: Queued<R>) {
        let Queued { request, waiting, waits_until, change } = queued;
        let guest = match &change {
            LineChange::Hold { buyer, .. } | LineChange::Set { buyer, .. } => !buyer.desk,
            LineChange::Release { .. } => false,
        };
        let begun = match change {
            LineChange::Hold { lines, buyer } => self.hold_parts(stage, request, lines, buyer),
            LineChange::Set { line, quantity, buyer } => self.set_parts(stage, request, (line, quantity), buyer),
            LineChange::Release { line, seats } => self.release(stage, request, line, seats.as_ref()),
        };
        match begun {
            Err(refusal) => answer_all(stage, waiting, Err(refusal)),
            Ok(ChangeStart::Decided(outcome)) => answer_all(stage, waiting, outcome),
            Ok(ChangeStart::Asking { parts, setting }) => {
                self.release_last_attempts(stage, &parts);
                let life_ms = stage.life_ms();
                parts.ask_all(life_ms, stage.turn);
                self.adding.push(Adding { request, waiting, waits_until, parts, setting, guest });
            }
        }
    }

    /// Releases what earlier attempts of a request may still hold. After a change of leader, the quota of an attempt may be
    /// disowned while its inventory still holds the seats. Without this, the seats stay held until the session asks for them.
    fn release_last_attempts(&mut self, stage: &mut Stage<'_, R>, parts: &Parts) {
        let cart = stage.entity.cart();
        let is_line = |entity: &Entity, hold| cart.is_some_and(|cart| cart.line_on(entity, hold).is_some());
        let asked_anew = parts.list.iter().filter(|part| !part.grows);
        let last = asked_anew.flat_map(|part| {
            let before = |hold: HoldId| Some(HoldId { attempt: hold.attempt.checked_sub(1)?, ..hold });
            let main = before(part.hold).map(|hold| (part.wanted.entity.clone(), hold));
            let code = part.code.as_ref().and_then(|code| Some((Entity::Code(code.code.clone()), before(code.hold)?)));
            main.into_iter().chain(code)
        });
        let last = last.filter(|(entity, hold)| !is_line(entity, *hold));
        let last = last.map(|(entity, hold)| (entity, hold, FIRST_REVISION));
        let last: Vec<_> = last.collect();
        if !last.is_empty() {
            self.disown(stage, last);
        }
    }

    /// The parts of a request for lines.
    fn hold_parts(
        &self,
        stage: &Stage<'_, R>,
        request: Request,
        wanted: Vec<WantedLine>,
        buyer: Buyer,
    ) -> Result<ChangeStart, Refusal> {
        let wanted = check_wanted(wanted)?;
        if self.adding.len() == ADDING_MAX {
            return Err(too_many());
        }
        let parts = self.adding.iter().flat_map(|adding| &adding.parts.list);
        let others = parts.filter(|part| part.line.is_none()).count();
        let cart = stage.entity.cart_or_blank();
        cart.may_ask(&wanted, others)?;
        let customer = cart.customer_with(buyer.customer.as_ref())?;
        let part = |(number, line): (u16, WantedLine)| {
            let Some((known, content)) = cart.same_item(&line.entity, &line.want) else {
                return Ok(Part::new(line, cart.next_hold(request.id, number)?));
            };
            let more = match line.want {
                Want::Units { quantity, .. } | Want::Places { quantity, .. } => quantity,
                Want::Seats { .. } | Want::Best(_) | Want::Slot { .. } | Want::Quota { .. } | Want::Uses { .. } => 0,
            };
            let want = grown_want(&cart, known, content, content.quantity() + more)?;
            growing(&cart, request, number, known, WantedLine { want, ..line })
        };
        let mut list = Vec::with_capacity(wanted.len());
        for line in (0..).zip(wanted) {
            list.push(part(line)?);
        }
        let again_at = stage.at.after(stage.rules.ask_again_ms);
        Ok(ChangeStart::Asking { parts: Parts { list, buyer: Buyer { customer, ..buyer }, again_at }, setting: false })
    }

    /// Sets a line to a quantity. Less is decided at once, and more is asked for.
    fn set_parts(
        &mut self,
        stage: &mut Stage<'_, R>,
        request: Request,
        (line, quantity): (u32, u32),
        buyer: Buyer,
    ) -> Result<ChangeStart, Refusal> {
        let cart = stage.entity.cart().ok_or_else(|| stage.entity.not_found())?;
        cart.may_change()?.ok_or_else(|| cart.not_found())?;
        let (entity, content) = cart.line(line)?;
        if content.with_quantity(1).is_none() {
            return Err(Refusal::BadRequest("only lines of units or places have a quantity to set".into()));
        }
        if quantity == content.quantity() {
            let event = cart.decide_same(stage.at, request)?;
            stage.write(event);
            return Ok(ChangeStart::Decided(changed(stage.entity, request)));
        }
        if quantity > content.quantity() && cart.line_hold(line).is_some_and(|line| line.code_revision.is_some()) {
            let text =
                format_smolstr!("line {line} was held with a code; hold the others with it, as a line of their own");
            return Err(Refusal::BadRequest(text));
        }
        if quantity < content.quantity() {
            let event = cart.decide_less(stage.at, request, line, quantity)?;
            stage.write(event);
            return Ok(ChangeStart::Decided(changed(stage.entity, request)));
        }
        cart.may_remember()?;
        let want = grown_want(cart, line, content, quantity)?;
        let part = growing(cart, request, 0, line, WantedLine::new(entity.clone(), want))?;
        let customer = cart.customer().cloned();
        let again_at = stage.at.after(stage.rules.ask_again_ms);
        let parts = Parts { list: Vec::from([part]), buyer: Buyer { customer, ..buyer }, again_at };
        Ok(ChangeStart::Asking { parts, setting: true })
    }

    fn release(
        &mut self,
        stage: &mut Stage<'_, R>,
        request: Request,
        line: u32,
        seats: Option<&SeatSet>,
    ) -> Result<ChangeStart, Refusal> {
        let cart = stage.entity.cart().ok_or_else(|| stage.entity.not_found())?;
        let event = cart.decide_release(stage.at, request, line, seats)?;
        stage.write(event);
        Ok(ChangeStart::Decided(changed(stage.entity, request)))
    }

    /// Takes a grant of an inventory.
    pub(super) fn granted(&mut self, stage: &mut Stage<'_, R>, from: &Entity, granted: Granted) {
        let life_ms = stage.life_ms();
        let cart = stage.entity.cart();
        let mut awaited = false;
        for parts in all_parts(&mut self.adding, &mut self.paying) {
            awaited = awaited || parts.granted(cart, from, &granted, (stage.at, life_ms), stage.turn);
        }
        // A hold for the checkout under way is not a line yet, but it is wanted.
        let reserved = || self.paying.as_ref().is_some_and(|paying| paying.expects(from, granted.hold));
        if awaited {
            self.conclude(stage);
        } else if !reserved() {
            self.stray(stage, from, &granted);
        }
    }

    /// Takes a grant that is not awaited, because it came too late or twice.
    fn stray(&mut self, stage: &mut Stage<'_, R>, from: &Entity, granted: &Granted) {
        // No inventory grants so high a revision.
        if granted.late || granted.revision > REVISION_MAX {
            return;
        }
        if let Some(cart) = stage.entity.cart() {
            if let Some(line) = cart.line_on(from, granted.hold) {
                let known = cart.line_hold(line).and_then(|line| line.hold).map_or(0, |(_, revision)| revision);
                let of_line = !matches!(from, Entity::Customer(_) | Entity::Code(_));
                if of_line && granted.revision > known && cart.may_change().is_ok() {
                    // More was granted to a cart that has forgotten the request since.
                    let event = cart.decide_undo(&[(line, granted.revision, 0)]);
                    stage.write(event);
                }
                return;
            }
            // A release that the inventory will remember ends the hold whichever of the two comes first.
            if cart.outbox().releases(from, granted.hold).any(|(_, last)| !last) {
                return;
            }
        }
        self.disown(stage, Vec::from([(from.clone(), granted.hold, granted.revision)]));
    }

    /// Takes a refusal of an inventory.
    pub(super) fn refused(
        &mut self,
        stage: &mut Stage<'_, R>,
        from: &Entity,
        hold: HoldId,
        revision: u64,
        refusal: &Refusal,
    ) {
        let mut awaited = false;
        for parts in all_parts(&mut self.adding, &mut self.paying) {
            awaited = awaited || parts.refused(from, hold, revision, refusal);
        }
        if awaited {
            self.conclude(stage);
        }
    }

    /// Takes the reply of an inventory whose units or places cost something else now than those of the line that was to grow. The
    /// further ones go to the line with that price, or to a new one.
    pub(super) fn repriced(
        &mut self,
        stage: &mut Stage<'_, R>,
        from: &Entity,
        (hold, revision): (HoldId, u64),
        price: &SeatPrice,
    ) {
        let life_ms = stage.life_ms();
        let found = self.adding.iter_mut().find_map(|adding| Some((adding.parts.find(from, hold)?, adding)));
        let Some((place, adding)) = found else { return };
        let part = &adding.parts.list[place];
        let awaits = part.grows && part.revision == revision && matches!(part.main, AskState::Asked);
        let (Want::Units { quantity, .. } | Want::Places { quantity, .. }, Some(number), true) =
            (&part.wanted.want, part.line, awaits)
        else {
            return;
        };
        let (quantity, want) = (*quantity, part.wanted.want.clone());
        let (note, request, place) = (part.wanted.note.clone(), adding.request, place as u16);
        let other = || {
            let cart = stage.entity.cart_or_blank();
            let (entity, content) = cart.line(number)?;
            let more = quantity.saturating_sub(content.quantity());
            let wanted = |want| WantedLine { note, ..WantedLine::new(entity.clone(), want) };
            match cart.line_at_price(entity, content, price, false) {
                Some((line, content)) => {
                    let want = grown_want(&cart, line, content, content.quantity() + more)?;
                    growing(&cart, request, place, line, wanted(want))
                }
                None => {
                    let hold = cart.next_hold(request.id, place)?;
                    let want = match want {
                        Want::Places { area, buy_as, .. } => Want::Places { area, quantity: more, buy_as },
                        _ => Want::Units { quantity: more, now: false },
                    };
                    Ok(Part::new(wanted(want), hold))
                }
            }
        };
        let part = &mut adding.parts.list[usize::from(place)];
        match other() {
            Ok(other) => {
                *part = other;
                adding.parts.list[usize::from(place)].ask_in(&adding.parts.buyer, life_ms, stage.turn);
            }
            Err(refusal) => {
                part.main = AskState::Refused(refusal);
                self.conclude(stage);
            }
        }
    }

    /// Takes the reply of an inventory that has seen a newer revision of a hold. The cart asks with the next revision, or with
    /// the next attempt if the hold was released.
    pub(super) fn stale(&mut self, stage: &mut Stage<'_, R>, from: &Entity, hold: HoldId, revision: u64, live: bool) {
        let life_ms = stage.life_ms();
        let all = all_parts(&mut self.adding, &mut self.paying);
        let found = all.filter_map(|parts| Some((parts.find(from, hold)?, parts))).next();
        let Some((place, parts)) = found else { return };
        let (buyer, part) = (&parts.buyer, &mut parts.list[place]);
        let (grows, line) = (part.grows, part.line);
        let ask = part.ask_of(from);
        if !matches!(ask.state, AskState::Asked) || revision < *ask.revision {
            return;
        }
        // A hold without room for another revision is given up for another one.
        if live && revision <= REVISION_MAX {
            *ask.revision = revision + 1;
            return part.ask_in(buyer, life_ms, stage.turn);
        }
        if grows {
            *ask.state = AskState::Refused(Refusal::NoSuchLine(line.unwrap_or_default()));
            return self.conclude(stage);
        }
        self.next_attempt(stage, from, hold, revision);
    }

    /// The inventory remembers this hold as released, so the cart disowns it and asks for another one.
    fn next_attempt(&mut self, stage: &mut Stage<'_, R>, from: &Entity, hold: HoldId, revision: u64) {
        self.disown(stage, Vec::from([(from.clone(), hold, revision)]));
        let next = stage.entity.cart().map(|cart| cart.next_hold(hold.request, hold.part));
        let next = next.expect("a cart that has disowned is kept");
        let life_ms = stage.life_ms();
        let mut asks = Vec::new();
        for parts in all_parts(&mut self.adding, &mut self.paying) {
            let Some(place) = parts.find(from, hold) else { continue };
            let part = &mut parts.list[place];
            match &next {
                Ok(next) => {
                    let ask = part.ask_of(from);
                    (*ask.hold, *ask.revision) = (*next, FIRST_REVISION);
                    asks.extend(part.ask(&parts.buyer, life_ms));
                }
                Err(refusal) => {
                    part.spoiled = Some(refusal.clone());
                    part.main = AskState::Refused(Refusal::InProgress);
                }
            }
        }
        stage.turn.committed.extend(asks);
        self.conclude(stage);
    }

    /// Gives up changes whose last client's deadline has passed, and releases the holds that are or may yet be granted for them, so
    /// that a repeat decides afresh. Every client has its answer by now, which is that the outcome is not known.
    pub(super) fn give_up_late(&mut self, stage: &mut Stage<'_, R>) {
        if planted::is("a late grant becomes a line") {
            return;
        }
        let at = stage.at;
        // Nothing is later than the end of time.
        let is_late = |waits_until: Timestamp| waits_until <= at && waits_until < TIMESTAMP_MAX;
        if let Some(checkout) = self.checkout.take_if(|checkout| is_late(checkout.waits_until)) {
            answer_all(stage, checkout.waiting, Err(Refusal::InProgress));
        }
        while let Some(place) = self.queued.iter().position(|queued| is_late(queued.waits_until)) {
            let queued = self.queued.remove(place).expect("it was found");
            answer_all(stage, queued.waiting, Err(Refusal::InProgress));
        }
        let mut others_may_begin = false;
        while let Some(place) = self.adding.iter().position(|adding| is_late(adding.waits_until)) {
            let adding = self.adding.remove(place);
            self.undo(stage, &adding.parts);
            answer_all(stage, adding.waiting, Err(Refusal::InProgress));
            others_may_begin = true;
        }
        if others_may_begin {
            self.begin_queued(stage);
        }
    }

    /// Repeats the asks that have no reply yet.
    pub(super) fn ask_again(&mut self, stage: &mut Stage<'_, R>) {
        let life_ms = stage.life_ms();
        let (at, again_at) = (stage.at, stage.at.after(stage.rules.ask_again_ms));
        let all = all_parts(&mut self.adding, &mut self.paying);
        for parts in all.filter(|parts| at >= parts.again_at) {
            parts.ask_all(life_ms, stage.turn);
            parts.again_at = again_at;
        }
    }

    /// Writes the changes that are complete.
    fn conclude(&mut self, stage: &mut Stage<'_, R>) {
        while let Some(place) = self.adding.iter().position(|adding| adding.parts.complete()) {
            let adding = self.adding.remove(place);
            let outcome = match self.write_lines(stage, &adding) {
                Ok(outcome) => outcome,
                Err(refusal) => {
                    self.undo(stage, &adding.parts);
                    Err(refusal)
                }
            };
            answer_all(stage, adding.waiting, outcome);
        }
        self.conclude_reserving(stage);
        self.begin_queued(stage);
    }

    /// Undoes grants that are not wanted. New holds are disowned, and grown ones are reduced to their lines.
    pub(super) fn undo(&mut self, stage: &mut Stage<'_, R>, parts: &Parts) {
        let held = parts.perhaps_held();
        if !held.is_empty() {
            self.disown(stage, held);
        }
        let grown = parts.perhaps_grown();
        let event =
            stage.entity.cart().filter(|cart| cart.may_change().is_ok()).and_then(|cart| cart.decide_undo(&grown));
        stage.write(event);
    }

    /// Writes the lines if all parts are granted.
    fn write_lines(&mut self, stage: &mut Stage<'_, R>, adding: &Adding<R>) -> Result<Outcome, Refusal> {
        let parts = &adding.parts;
        if let Some(refusal) = one_refusal(parts.refusals(), parts.list.len()) {
            return Err(refusal);
        }
        let mut granted: Vec<GrantedLine<'_>> = Vec::with_capacity(parts.list.len());
        granted.extend(parts.list.iter().filter_map(granted_line));
        assert_eq!(granted.len(), parts.list.len(), "lines are written when every part is granted");
        let (at, request) = (stage.at, adding.request);
        let (ttl_max_ms, age_max_ms) = stage.rules.bounds_of_carts(adding.guest);
        let fresh = (stage.rules.hold_ttl_ms.min(ttl_max_ms), age_max_ms);
        let customer = parts.buyer.customer.as_ref();
        let setting = adding.setting;
        let added = stage.entity.cart_or_blank().decide_add(at, request, customer, &granted, setting, fresh)?;
        for event in added.events {
            stage.write(event);
        }
        Ok(stage.entity.ok_with(added.answer.into(), added.asked))
    }
}

/// Every part that was asked for, by requests for lines and by the checkout.
fn all_parts<'a, R>(
    adding: &'a mut [Adding<R>],
    paying: &'a mut Option<Box<PendingCheckout<R>>>,
) -> impl Iterator<Item = &'a mut Parts> {
    let reserving = paying.as_mut().and_then(|paying| paying.reserving());
    adding.iter_mut().map(|adding| &mut adding.parts).chain(reserving)
}

/// What is wanted of the inventory of a line that grows to `quantity`.
fn grown_want(cart: &Cart, line: u32, content: &Content, quantity: u32) -> Result<Want, Refusal> {
    if quantity > crate::portion::LINE_QUANTITY_MAX {
        let most = crate::portion::LINE_QUANTITY_MAX;
        return Err(Refusal::BadQuantity(format_smolstr!("a line has at most {most}, not {quantity}")));
    }
    Ok(match content {
        // Further places are of the same price type, whatever offer sells them now.
        Content::Places { area, bought_as, .. } => {
            let price_type = bought_as.as_ref().and_then(|bought_as| bought_as.price_type.clone());
            let buy_as = BuyAs::new(price_type.into_iter().collect(), None);
            Want::Places { area: area.clone(), quantity, buy_as }
        }
        // Units that are set aside stay so when the product's policy changes.
        Content::Units { .. } | Content::Seats(_) | Content::Slot { .. } => {
            let is_held = cart.line_hold(line).is_some_and(|line| line.hold.is_some());
            Want::Units { quantity, now: is_held }
        }
    })
}

/// The part that makes a line grow.
fn growing(cart: &Cart, request: Request, number: u16, line: u32, wanted: WantedLine) -> Result<Part, Refusal> {
    let held = cart.line_hold(line).and_then(|line| line.hold);
    let mut part = match held {
        Some((hold, revision)) => {
            let mut part = Part::new(wanted, hold);
            (part.revision, part.grows) = (revision + 1, true);
            part
        }
        None => Part::new(wanted, cart.next_hold(request.id, number)?),
    };
    part.line = Some(line);
    Ok(part)
}

fn too_many() -> Refusal {
    Refusal::BadRequest(format_smolstr!("{ADDING_MAX} changes of this cart are under way; wait for one of them"))
}

//! An inventory at work: a session, a product, a resource or a customer. Carts ask it for holds; it asks carts about holds
//! whose time is over, and, when it is canceled, for everything back.

use alloc::{boxed::Box, vec::Vec};

use smol_str::SmolStr;

use super::{Effect, Input, Stage, Turn, WAITERS_MAX, speculation::Speculation};
use crate::{
    answer::{Answer, Outcome},
    ask::{Ask, Reply},
    cart::REVISION_MAX,
    command::{Command, CustomerCommand, ProductCommand, ResourceCommand, SessionCommand},
    customer::Customer,
    event::{Event, SessionEvent},
    id::{CartId, Entity, HoldId, Request, RequestHash},
    inventory::{HoldAsk, Inventory},
    planted,
    portion::Portion,
    product::Product,
    refusal::Refusal,
    resource::Resource,
    rules::Rules,
    session::Session,
    time::Timestamp,
};

/// Carts asked in one turn about holds. The others are asked in turns that follow, so that neither a turn nor its messages
/// grow with the number of holds.
const ASKED_BATCH: usize = 256;

/// How long the next batch waits, in milliseconds: the carts have other things to do.
const BATCH_PAUSE_MS: u64 = 5;

/// Before every hold.
const FIRST: (Timestamp, HoldId) =
    (Timestamp(0), HoldId { cart: CartId(0), request: RequestHash(0), part: 0, attempt: 0 });

/// How far the round of questions about holds has come, and who waits.
pub(super) struct InventoryHost<R> {
    /// Holds up to here were asked about in this round.
    asked: (Timestamp, HoldId),
    /// Holds and sales up to here were asked back in this round.
    revoked: Option<HoldId>,
    /// When the next round starts from the beginning.
    round_ends: Timestamp,
    /// Operators who canceled the session, and what they are answered when the hall is free.
    vacating: Vec<(R, Outcome)>,
}

impl<R> InventoryHost<R> {
    pub(super) fn new() -> InventoryHost<R> {
        InventoryHost { asked: FIRST, revoked: None, round_ends: Timestamp(0), vacating: Vec::new() }
    }

    pub(super) fn handle(&mut self, stage: &mut Stage<'_, R>, input: Input<R>) {
        let Stage { entity, rules, at, now, turn } = stage;
        let (rules, at, now) = (*rules, *at, *now);
        match input {
            Input::Command { from, request, command } => {
                let cancels = matches!(command, Command::Session(_, SessionCommand::Cancel { .. }));
                let outcome = command_outcome(entity, rules, now, request, command, turn);
                match outcome {
                    Ok(_) if cancels && entity.session().is_some_and(|it| it.owes_vacating().is_some()) => {
                        // It asks its venue and its carts at once.
                        self.round_ends = at;
                        if self.vacating.len() < WAITERS_MAX {
                            self.vacating.push((from, outcome));
                        } else {
                            turn.answer(from, Err(Refusal::InProgress));
                        }
                    }
                    outcome => turn.answer(from, outcome),
                }
                // A session that was just canceled asks its carts.
                self.ask_carts(entity, rules, at, turn);
            }
            Input::Ask { from, ask } => answer_ask(entity, rules, (at, now), from, ask, turn),
            Input::Reply { from: _, reply: Reply::Vacated } => self.vacated(entity, turn),
            Input::Reply { from: _, reply } => hear(entity, rules, at, reply, turn),
            Input::Wake => self.ask_carts(entity, rules, at, turn),
            Input::Paid { key, .. } => panic!("{} was told of payment {key}", entity.entity()),
        }
    }

    /// What it asks because of holds whose time is over, it asks again from what is kept; not what it wants back.
    pub(super) fn idle(&self, entity: &Speculation) -> bool {
        self.vacating.is_empty() && !entity.state().is_some_and(crate::keep::State::unfinished)
    }

    /// The venue knows that the session is canceled.
    fn vacated(&mut self, entity: &mut Speculation, turn: &mut Turn<R>) {
        if entity.session().is_some_and(|session| session.owes_vacating().is_some()) {
            entity.apply(Event::Session(SessionEvent::Vacated), turn);
        }
        for (from, outcome) in core::mem::take(&mut self.vacating) {
            turn.answer(from, outcome);
        }
    }

    fn ask_carts(&mut self, entity: &Speculation, rules: &Rules, at: Timestamp, turn: &mut Turn<R>) {
        let Some(inventory) = entity.inventory() else { return };
        if at >= self.round_ends {
            self.asked = FIRST;
            self.revoked = None;
            self.round_ends = at.after(rules.ask_again_ms);
            if let Some(crate::keep::State::Session(session)) = entity.state()
                && let Some(venue) = session.owes_vacating()
            {
                // Only after a read: the cancellation may not be committed yet.
                turn.read.push(Effect::Ask { to: Entity::Venue(venue.clone()), ask: Ask::Vacate });
            }
        }
        let overdue = inventory.overdue(self.asked, at, ASKED_BATCH);
        let unwanted = inventory.unwanted(self.revoked, ASKED_BATCH);
        let full = overdue.len() == ASKED_BATCH || unwanted.len() == ASKED_BATCH;
        let some = !overdue.is_empty() || !unwanted.is_empty();
        for (deadline, hold) in overdue {
            self.asked = (deadline, hold);
            turn.now.push(Effect::Ask { to: Entity::Cart(hold.cart), ask: Ask::Overdue { hold } });
        }
        let reason = entity.state().and_then(crate::keep::State::canceled);
        for hold in unwanted {
            self.revoked = Some(hold);
            let reason = SmolStr::new(reason.expect("only what is canceled wants holds back"));
            // Only after a read: the cancellation may not be committed yet.
            turn.read.push(Effect::Ask { to: Entity::Cart(hold.cart), ask: Ask::Revoke { hold, reason } });
        }
        if full {
            turn.wake(at.after(BATCH_PAUSE_MS));
        } else if some
            || entity.state().is_some_and(|state| state.unfinished() || state.deadline().is_some_and(|due| due <= at))
        {
            turn.wake(self.round_ends);
        }
    }
}

fn command_outcome<R>(
    entity: &mut Speculation,
    rules: &Rules,
    now: Timestamp,
    request: Option<Request>,
    command: Command,
    turn: &mut Turn<R>,
) -> Outcome {
    match command {
        Command::Session(_, command) => session_outcome(entity, request, command, turn),
        Command::Product(_, command) => product_outcome(entity, rules, request, command, turn),
        Command::Resource(_, command) => resource_outcome(entity, rules, now, request, command, turn),
        Command::Customer(id, command) => {
            let unknown;
            let customer = match entity.customer() {
                Some(customer) => customer,
                None => {
                    unknown = Customer::unknown(id);
                    &unknown
                }
            };
            let answer = match command {
                CustomerCommand::Purchases { after, limit } => Answer::Purchases(customer.purchases(after, limit)?),
                CustomerCommand::Audit => Answer::CustomerAudit(Box::new(customer.audit())),
            };
            entity.ok(answer)
        }
        other => panic!("{} was handed a command to {}", entity.entity(), other.entity()),
    }
}

fn session_outcome<R>(
    entity: &mut Speculation,
    request: Option<Request>,
    command: SessionCommand,
    turn: &mut Turn<R>,
) -> Outcome {
    let session = entity.session().ok_or_else(|| entity.not_found())?;
    let write = |decide: &dyn Fn(&Session, Request) -> Result<SessionEvent, Refusal>| {
        let request = request.ok_or(Refusal::RequestIdMissing)?;
        match session.answered(request) {
            Some(known) => known.map(Err),
            None => decide(session, request).map(Ok),
        }
    };
    let written = match command {
        SessionCommand::Get => return entity.ok(Answer::Session(session.view())),
        SessionCommand::Map => return entity.ok(Answer::Map(session.map())),
        SessionCommand::Audit => return entity.ok(Answer::SessionAudit(Box::new(session.audit()))),
        SessionCommand::Block(seats) => write(&|session, request| session.decide_block(&seats, request))?,
        SessionCommand::Unblock(seats) => write(&|session, request| session.decide_unblock(&seats, request))?,
        SessionCommand::Cancel { reason } => write(&|session, request| session.decide_cancel(&reason, request))?,
    };
    match written {
        Err(version) => entity.ok_again(Answer::Done, version),
        Ok(event) => {
            entity.apply(Event::Session(event), turn);
            entity.ok(Answer::Done)
        }
    }
}

fn product_outcome<R>(
    entity: &mut Speculation,
    rules: &Rules,
    request: Option<Request>,
    command: ProductCommand,
    turn: &mut Turn<R>,
) -> Outcome {
    match command {
        ProductCommand::Put(details) => {
            let request = request.ok_or(Refusal::RequestIdMissing)?;
            if let Some(known) = entity.product().and_then(|product| product.answered(request, &details)) {
                let (answer, version) = known?;
                return entity.ok_again(answer, version);
            }
            let event = Product::decide_put(entity.product(), rules, &details, request)?;
            entity.apply(Event::Product(event), turn);
            let product = entity.product().expect("it has just been put");
            entity.ok(Answer::Product(product.view()))
        }
        ProductCommand::Get => {
            let product = entity.product().ok_or_else(|| entity.not_found())?;
            entity.ok(Answer::Product(product.view()))
        }
        ProductCommand::Audit => {
            let product = entity.product().ok_or_else(|| entity.not_found())?;
            entity.ok(Answer::ProductAudit(Box::new(product.audit())))
        }
    }
}

fn resource_outcome<R>(
    entity: &mut Speculation,
    rules: &Rules,
    at: Timestamp,
    request: Option<Request>,
    command: ResourceCommand,
    turn: &mut Turn<R>,
) -> Outcome {
    if let ResourceCommand::Put(details) = &command {
        let request = request.ok_or(Refusal::RequestIdMissing)?;
        if let Some(known) = entity.resource().and_then(|resource| resource.put_answered(request, details)) {
            let (answer, version) = known?;
            return entity.ok_again(answer, version);
        }
        let event = Resource::decide_put(entity.resource(), rules, details, request)?;
        entity.apply(Event::Resource(event), turn);
        let resource = entity.resource().expect("it has just been put");
        return entity.ok(Answer::Resource(resource.view()));
    }
    let resource = entity.resource().ok_or_else(|| entity.not_found())?;
    let changes = matches!(
        command,
        ResourceCommand::Reserve { .. } | ResourceCommand::Cancel { .. } | ResourceCommand::Move { .. }
    );
    if !changes {
        let answer = resource_read(resource, at, command)?;
        return entity.ok(answer);
    }
    let request = request.ok_or(Refusal::RequestIdMissing)?;
    if let Some(known) = resource.answered(request) {
        let (answer, version) = known?;
        return entity.ok_again(answer, version);
    }
    let event = match command {
        ResourceCommand::Reserve { booking, when, repeat, details } => {
            resource.decide_reserve(at, &booking, &when, repeat.as_ref(), &details, request)?
        }
        ResourceCommand::Cancel { booking, series } => resource.decide_cancel(&booking, series, request)?,
        ResourceCommand::Move { booking, when } => resource.decide_move(at, &booking, &when, request)?,
        other => panic!("{other:?} changes nothing"),
    };
    entity.apply(Event::Resource(event), turn);
    let answered = entity.resource().and_then(|resource| resource.answered(request));
    let (answer, version) = answered.expect("a change is remembered")?;
    entity.ok_again(answer, version)
}

fn resource_read(resource: &Resource, at: Timestamp, command: ResourceCommand) -> Result<Answer, Refusal> {
    Ok(match command {
        ResourceCommand::Get => Answer::Resource(resource.view()),
        ResourceCommand::IsAvailable(when) => Answer::Available(resource.is_available(at, &when)?),
        ResourceCommand::Bookings { from, to, limit, after } => {
            Answer::Bookings(resource.bookings(from, to, limit, after.as_ref())?)
        }
        ResourceCommand::FreeSlots { from, to, length_ms, count } => {
            Answer::FreeSlots(resource.free_slots(at, from, to, length_ms, count)?)
        }
        ResourceCommand::Audit => Answer::ResourceAudit(Box::new(resource.audit())),
        other => panic!("{other:?} is no read"),
    })
}

fn hear<R>(entity: &mut Speculation, rules: &Rules, at: Timestamp, reply: Reply, turn: &mut Turn<R>) {
    let Some(inventory) = entity.inventory() else { return };
    let event = match reply {
        Reply::MineFor { hold, life_ms } => inventory.decide_extend(hold, at.after(life_ms).after(rules.grace_ms)),
        // The hold was overdue, or it would not have been asked about.
        Reply::NotMine { hold } => inventory.decide_disowned(hold).map(Event::by_expiry),
        Reply::Granted(_)
        | Reply::Refused { .. }
        | Reply::Stale { .. }
        | Reply::Released { .. }
        | Reply::Sold { .. }
        | Reply::Refunded { .. }
        | Reply::Forgotten
        | Reply::Opened
        | Reply::OpenRefused
        | Reply::Vacated
        | Reply::Listed { .. }
        | Reply::Posted { .. } => None,
    };
    if let Some(event) = event {
        entity.apply(event, turn);
    }
}

fn answer_ask<R>(
    entity: &mut Speculation,
    rules: &Rules,
    (at, now): (Timestamp, Timestamp),
    from: Entity,
    ask: Ask,
    turn: &mut Turn<R>,
) {
    let reply = match ask {
        Ask::Expired { hold, revision } => {
            let inventory = entity.inventory();
            if let Some(event) =
                inventory.and_then(|it| it.decide_release(hold, revision, None, true)).map(Event::by_expiry)
            {
                entity.apply(event, turn);
            }
            return;
        }
        Ask::Hold { hold, revision, want, life_ms } => {
            // The cart learns from the grant how long it may live; if it dies with it, nobody waits longer than that, and not
            // for long: a cart that knows the hold says until when when it is asked.
            let own = entity.inventory().and_then(|inventory| inventory.hold_ttl_ms());
            let deadline = at.after(life_ms.min(own.unwrap_or(u64::MAX)).min(rules.confirm_ms));
            let ask = HoldAsk { hold, revision, want: &want, deadline: deadline.after(rules.grace_ms) };
            let decided = match (entity.inventory(), entity.entity()) {
                // Above it there must be room for what the cart commits about the hold.
                _ if revision > REVISION_MAX && !planted::is("a revision that nothing outranks") => {
                    Err(Reply::Refused { hold, revision, refusal: too_often_changed() })
                }
                (Some(inventory), _) => inventory.decide_hold(now, &ask),
                // Customers are what they have done.
                (None, Entity::Customer(id)) => Customer::unknown(id.clone()).decide_hold(now, &ask),
                (None, _) => Err(Reply::Refused { hold, revision, refusal: entity.not_found() }),
            };
            let mut reply = match decided {
                Err(reply) => reply,
                Ok(event) => {
                    entity.apply(event, turn);
                    Reply::Granted(entity.inventory().expect("it has just held").granted(hold))
                }
            };
            if let Reply::Granted(granted) = &mut reply {
                // The cart must know who believes in a longer life than it has.
                let asks_at = entity.inventory().and_then(|inventory| inventory.asks_at(hold));
                granted.believed_ms = asks_at.map_or(0, |asks_at| asks_at.0.saturating_sub(at.after(rules.grace_ms).0));
            }
            reply
        }
        // A stopped leader that goes on may be asked to sell what was held at its successor: it says nothing, and the cart asks
        // again.
        Ask::Sell { hold, ref portion, .. } if !has_heard_of(entity, hold, portion) => return,
        // It may have given the hold other seats than its successor. What is left of those is not said of these.
        Ask::Release { hold, revision, left: Some(ref left), .. }
            if lacks(entity, hold, revision, left) && !planted::is("what is left of other seats believed") =>
        {
            return;
        }
        // Of what is left of a hold, one of which nothing is left has no more to say than that. A stopped leader that goes on
        // must not take it for released: what it says waits for a read in vain, but it may be asked to sell the rest.
        Ask::Release { hold, revision, left: Some(_), .. } if !knows(entity, hold) => {
            Reply::Released { hold, revision }
        }
        Ask::Release { hold, revision, left, last, expired } => {
            let inventory = entity.inventory();
            let mut newest = revision;
            if planted::is("a partial release that ignores revisions") && left.is_some() && has(entity, hold) {
                newest = newest.max(inventory.map_or(0, |it| it.granted(hold).revision) + 1);
            }
            let decided = inventory.and_then(|it| it.decide_release(hold, newest, left.as_ref(), last));
            if let Some(event) = decided {
                entity.apply(if expired { event.by_expiry() } else { event }, turn);
            }
            Reply::Released { hold, revision }
        }
        Ask::Sell { hold, revision, portion, order, at } => {
            let inventory = entity.inventory();
            let inventory =
                inventory.unwrap_or_else(|| panic!("{hold:?} is sold by {}, which never was", entity.entity()));
            for event in inventory.decide_sell(hold, revision, &portion, order, at) {
                entity.apply(event, turn);
            }
            let version = entity.inventory().and_then(|inventory| inventory.sale_version(hold));
            Reply::Sold { hold, version: version.unwrap_or_else(|| entity.at().version), position: 0 }
        }
        Ask::Refund { hold } => {
            if let Some(event) = entity.inventory().and_then(|inventory| inventory.decide_refund(hold)) {
                entity.apply(event, turn);
            }
            Reply::Refunded { hold }
        }
        Ask::Forget => {
            let Entity::Cart(cart) = from else { panic!("{from} is no cart and asks to be forgotten") };
            if let Some(event) = entity.inventory().and_then(|inventory| inventory.decide_forget(cart)) {
                entity.apply(event, turn);
            }
            Reply::Forgotten
        }
        Ask::Open(opening) => match entity.session() {
            Some(session) if session.opening() == *opening => Reply::Opened,
            Some(_) => Reply::OpenRefused,
            None => {
                entity.apply(Event::Session(SessionEvent::Opened(*opening)), turn);
                Reply::Opened
            }
        },
        Ask::Post { purchase } => {
            let posted = match entity.customer() {
                Some(customer) => customer.decide_post(&purchase),
                None => {
                    let Entity::Customer(id) = entity.entity() else { panic!("only customers have purchases") };
                    Customer::unknown(id.clone()).decide_post(&purchase)
                }
            };
            if let Some(event) = posted {
                entity.apply(Event::Customer(event), turn);
            }
            Reply::Posted { order: purchase.order }
        }
        other @ (Ask::Overdue { .. } | Ask::Revoke { .. } | Ask::Vacate | Ask::List { .. } | Ask::Pay(_)) => {
            panic!("{} was asked {other:?} by {from}", entity.entity())
        }
    };
    turn.reply(from, reply);
}

/// A hold has as many revisions as can be counted.
fn too_often_changed() -> Refusal {
    Refusal::BadRequest("the hold was changed too often; release the line and ask for it again".into())
}

/// Whether this much was held, as far as is known here.
fn has_heard_of(entity: &Speculation, hold: HoldId, portion: &Portion) -> bool {
    let held = entity.state().and_then(|state| state.held(hold));
    knows(entity, hold) && held.is_none_or(|held| held.covers(portion))
}

/// Whether a live hold has not all that is to be left of it by a later word than it has heard. The one that leads never does:
/// a hold covers its line at every instant.
fn lacks(entity: &Speculation, hold: HoldId, revision: u64, left: &Portion) -> bool {
    let held = entity.state().and_then(|state| state.held(hold));
    let is_later = || entity.inventory().is_some_and(|inventory| revision > inventory.granted(hold).revision);
    held.is_some_and(|held| !held.covers(left)) && is_later()
}

/// Whether the hold is live, as far as is known here.
fn has(entity: &Speculation, hold: HoldId) -> bool {
    entity.state().is_some_and(|state| state.held(hold).is_some())
}

/// Whether the hold is live or was, as far as is known here.
fn knows(entity: &Speculation, hold: HoldId) -> bool {
    entity.inventory().is_some_and(|inventory| inventory.knows(hold))
}

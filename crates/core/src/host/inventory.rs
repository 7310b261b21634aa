//! The host of an inventory, which is a session, a product, a resource or a customer. Carts ask it for holds. It asks carts about
//! overdue holds, and a canceled one asks for everything back.

use alloc::{boxed::Box, vec::Vec};

use smol_str::SmolStr;

use super::{Effect, Input, Stage, Turn, WAITERS_MAX, speculation::Speculation};
use crate::{
    answer::{Answer, Outcome},
    ask::{Ask, Reply},
    cart::REVISION_MAX,
    code::Code,
    command::{CodeCommand, Command, CustomerCommand, ProductCommand, ResourceCommand, SessionCommand},
    event::{Event, SessionEvent},
    holds::HoldAsk,
    id::{CartId, Entity, HoldId, Request, RequestHash},
    inventory::Inventory,
    planted,
    portion::Portion,
    product::Product,
    refusal::Refusal,
    resource::Resource,
    rules::Rules,
    session::Session,
    state_map::State,
    time::Timestamp,
};

/// How many carts are asked about holds in one turn. The next turns ask the others, so that neither a turn nor its messages grow
/// with the number of holds.
const ASKED_BATCH: usize = 256;

/// How long the next batch waits, in milliseconds, because the carts have other things to do.
const BATCH_PAUSE_MS: u64 = 5;

/// A position before every hold.
const FIRST: (Timestamp, HoldId) =
    (Timestamp(0), HoldId { cart: CartId(0), request: RequestHash(0), part: 0, attempt: 0 });

/// The progress of asking carts about holds, and clients that wait.
pub(super) struct InventoryHost<R> {
    /// Holds up to here were asked about in this round.
    asked: (Timestamp, HoldId),
    /// Holds and sales up to here were asked back in this round.
    revoked: Option<HoldId>,
    /// When the next round starts from the beginning.
    round_ends: Timestamp,
    /// Operators that canceled the session, and their answers for when the hall is free.
    vacating: Vec<(R, Outcome)>,
}

impl<R> InventoryHost<R> {
    pub(super) fn new() -> InventoryHost<R> {
        InventoryHost { asked: FIRST, revoked: None, round_ends: Timestamp(0), vacating: Vec::new() }
    }

    /// Handles an input. Everything is decided in its turn, except that a client that cancels a session waits until the venue knows.
    pub(super) fn handle(&mut self, stage: &mut Stage<'_, R>, input: Input<R>) {
        let Stage { entity, rules, at, now, turn, version: _ } = stage;
        let (rules, at, now) = (*rules, *at, *now);
        let owed = session_of(entity).and_then(Session::owes_sale_of);
        match input {
            Input::Command { from, request, command, timeout_ms: _ } => {
                let cancels = matches!(command, Command::Session(_, SessionCommand::Cancel { .. }));
                let revokes = matches!(command, Command::Resource(_, ResourceCommand::Cancel { .. }));
                let outcome = command_outcome(entity, rules, now, request, command, turn);
                match outcome {
                    Ok(_) if cancels && entity.session().is_some_and(|it| it.owes_vacating().is_some()) => {
                        // The session asks its venue and its carts at once.
                        self.round_ends = at;
                        if self.vacating.len() < WAITERS_MAX {
                            self.vacating.push((from, outcome));
                        } else {
                            turn.answer(from, Err(Refusal::InProgress));
                        }
                    }
                    outcome => {
                        if revokes && outcome.is_ok() && entity.state().is_some_and(State::unfinished) {
                            self.round_ends = at;
                        }
                        turn.answer(from, outcome);
                    }
                }
                // A session that was just canceled asks its carts, and so does a resource.
                self.ask_carts(entity, rules, at, turn);
            }
            Input::Ask { from, ask } => {
                if matches!(ask, Ask::Hold { .. }) {
                    open_offers(entity, now, turn);
                }
                answer_ask(entity, rules, (at, now), from, ask, turn);
            }
            Input::Reply { from: _, reply: Reply::Vacated } => self.vacated(entity, turn),
            Input::Reply { from: _, reply: Reply::SaleTold { version } } => {
                let told = entity.session().and_then(|session| session.decide_sale_told(version));
                write(entity, told.map(Event::Session), turn);
            }
            Input::Reply { from: _, reply } => on_reply(entity, rules, at, reply, turn),
            Input::Wake => {
                open_offers(entity, now, turn);
                self.ask_carts(entity, rules, at, turn);
            }
            Input::Paid { key, .. } => panic!("{} was told of payment {key}", entity.entity()),
        }
        let owes = session_of(entity).filter(|session| session.owes_sale_of() != owed);
        if let Some((venue, mark)) = owes.and_then(Session::owes_sale) {
            // The venue is told as soon as the event is committed, and again until it answers.
            turn.committed.push(Effect::Ask { to: Entity::Venue(venue.clone()), ask: Ask::TellSale(mark) });
            self.round_ends = at.after(rules.ask_again_ms);
            turn.wake(self.round_ends);
        }
    }

    /// Overdue holds follow from the state, so a host that only asks about them is idle. A canceled session is not.
    pub(super) fn idle(&self, entity: &Speculation) -> bool {
        self.vacating.is_empty() && !entity.state().is_some_and(State::unfinished)
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
            if let Some(State::Session(session)) = entity.state()
                && let Some(venue) = session.owes_vacating()
            {
                // Only after a read, because the cancellation may not be committed yet.
                turn.read.push(Effect::Ask { to: Entity::Venue(venue.clone()), ask: Ask::Vacate });
            }
            if let Some((venue, mark)) = session_of(entity).and_then(Session::owes_sale) {
                turn.read.push(Effect::Ask { to: Entity::Venue(venue.clone()), ask: Ask::TellSale(mark) });
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
        let reason = entity.state().and_then(State::reason_to_revoke);
        for hold in unwanted {
            self.revoked = Some(hold);
            let reason = SmolStr::new(reason.expect("only sessions and resources want holds back"));
            // Only after a read, because the cancellation may not be committed yet.
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

/// The session, if the inventory is one.
fn session_of(entity: &Speculation) -> Option<&Session> {
    match entity.state() {
        Some(State::Session(session)) => Some(session),
        _ => None,
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
        Command::Session(_, command) => session_outcome(entity, (now, rules), request, command, turn),
        Command::Product(_, command) => product_outcome(entity, rules, request, command, turn),
        Command::Resource(_, command) => resource_outcome(entity, rules, now, request, command, turn),
        Command::Customer(_, command) => {
            let customer = entity.customer_or_unknown();
            let answer = match command {
                CustomerCommand::Purchases { after, limit, .. } => Answer::Purchases(customer.purchases(after, limit)?),
                CustomerCommand::Audit => Answer::CustomerAudit(Box::new(customer.audit())),
            };
            entity.ok(answer)
        }
        Command::Code(_, command) => code_outcome(entity, request, command, turn),
        other => panic!("{} was handed a command to {}", entity.entity(), other.entity()),
    }
}

fn session_outcome<R>(
    entity: &mut Speculation,
    (now, rules): (Timestamp, &Rules),
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
        SessionCommand::Names { terms, seats } => {
            return entity.ok(Answer::SessionNames(Box::new(session.names(&terms, &seats)?)));
        }
        SessionCommand::Audit => return entity.ok(Answer::SessionAudit(Box::new(session.audit()))),
        SessionCommand::Block(seats) => write(&|session, request| session.decide_block(&seats, request))?,
        SessionCommand::Unblock(seats) => write(&|session, request| session.decide_unblock(&seats, request))?,
        SessionCommand::Cancel { reason } => {
            let reason = reason.into_plain();
            write(&|session, request| session.decide_cancel(&reason, request))?
        }
        SessionCommand::Change(change) if change.dry_run => {
            let preview = session.preview_change((now, rules), &change)?;
            return entity.ok(Answer::SessionChanged(preview));
        }
        SessionCommand::Change(change) => {
            let written = write(&|session, request| session.decide_change((now, rules), &change, request))?;
            return session_changed(entity, written, turn);
        }
    };
    match written {
        Err(version) => entity.ok_again(Answer::Done, version),
        Ok(event) => {
            entity.apply(Event::Session(event), turn);
            entity.ok(Answer::Done)
        }
    }
}

/// Writes a change of a session's terms, or finds one that was written before.
fn session_changed<R>(entity: &mut Speculation, written: Result<SessionEvent, u64>, turn: &mut Turn<R>) -> Outcome {
    let version = match written {
        Err(version) => version,
        Ok(event) => {
            entity.apply(Event::Session(event), turn);
            entity.version()
        }
    };
    let session = entity.session().expect("only a session that is there changes");
    let answer = Answer::SessionChanged(session.change_answer(version));
    entity.ok_again(answer, version)
}

/// Writes the opening of offers whose begin has come, and the release of allotments. It is decided before everything else, so nothing is
/// refused because a timer is late.
fn open_offers<R>(entity: &mut Speculation, now: Timestamp, turn: &mut Turn<R>) {
    if !matches!(entity.entity(), Entity::Session(_)) {
        return;
    }
    let opened = entity.session().and_then(|session| session.decide_openings(now));
    write(entity, opened.map(Event::Session), turn);
    let released = entity.session().and_then(|session| session.decide_releases(now));
    write(entity, released.map(Event::Session), turn);
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

fn code_outcome<R>(
    entity: &mut Speculation,
    request: Option<Request>,
    command: CodeCommand,
    turn: &mut Turn<R>,
) -> Outcome {
    match command {
        CodeCommand::Put(details) => {
            let request = request.ok_or(Refusal::RequestIdMissing)?;
            if let Some(known) = entity.code().and_then(|code| code.answered(request, &details)) {
                let (view, version) = known?;
                return entity.ok_again(Answer::Code(view), version);
            }
            entity.apply(Event::Code(Code::decide_put(&details, request)?), turn);
            let code = entity.code().expect("it has just been put");
            entity.ok(Answer::Code(code.view()))
        }
        CodeCommand::Get => {
            let code = entity.code().ok_or_else(|| entity.not_found())?;
            entity.ok(Answer::Code(code.view()))
        }
        CodeCommand::Audit => {
            let code = entity.code().ok_or_else(|| entity.not_found())?;
            entity.ok(Answer::CodeAudit(Box::new(code.audit())))
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
        return entity.ok_again(answer.into(), version);
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
    entity.ok_again(answer.into(), version)
}

fn resource_read(resource: &Resource, at: Timestamp, command: ResourceCommand) -> Result<Answer, Refusal> {
    Ok(match command {
        ResourceCommand::Get => Answer::Resource(resource.view()),
        ResourceCommand::IsAvailable(when) => Answer::Available(resource.is_available(at, &when)?),
        ResourceCommand::Bookings { from, to, limit, after } => {
            Answer::Bookings(resource.bookings(from, to, limit, after.as_ref())?)
        }
        ResourceCommand::FreeSlots { from, to, length_ms, count, step_ms, align_ms } => {
            Answer::FreeSlots(resource.free_slots(at, (from, to), length_ms, count, (step_ms, align_ms))?)
        }
        ResourceCommand::Audit => Answer::ResourceAudit(Box::new(resource.audit())),
        other => panic!("{other:?} is no read"),
    })
}

fn on_reply<R>(entity: &mut Speculation, rules: &Rules, at: Timestamp, reply: Reply, turn: &mut Turn<R>) {
    let Some(inventory) = entity.inventory() else { return };
    let hold = reply.hold();
    let event = match reply {
        Reply::MineFor { hold, life_ms } => inventory.decide_extend(hold, at.after(life_ms).after(rules.grace_ms)),
        // The hold was overdue, or the cart would not have been asked.
        Reply::NotMine { hold } => inventory.decide_disowned(hold).map(Event::by_expiry),
        Reply::Granted(_)
        | Reply::Refused { .. }
        | Reply::Stale { .. }
        | Reply::Repriced { .. }
        | Reply::Released { .. }
        | Reply::Sold { .. }
        | Reply::Refunded { .. }
        | Reply::Forgotten
        | Reply::Opened
        | Reply::OpenRefused(_)
        | Reply::Vacated
        | Reply::Listed { .. }
        | Reply::Posted { .. }
        | Reply::ZoneSet { .. }
        | Reply::SaleTold { .. } => None,
    };
    if let Some(hold) = hold {
        write_timed(entity, event, (hold, at), turn);
    }
}

/// Decides on an ask and replies, or stays silent where only another leader can know. The reply waits for the events of the ask, or for
/// a read if it has none.
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
            let released = entity.inventory().and_then(|it| it.decide_release(hold, revision, None, true));
            write_timed(entity, released.map(Event::by_expiry), (hold, at), turn);
            return;
        }
        Ask::Hold { hold, revision, want, life_ms, holder, desk, code, attributes, customer } => {
            // The cart learns from the grant how long it may live. If the grant is lost, a short deadline frees the hold soon. A
            // cart that knows the hold extends it when it is asked.
            let own = entity.inventory().and_then(|inventory| inventory.hold_ttl_ms());
            let deadline = at.after(life_ms.min(own.unwrap_or(u64::MAX)).min(rules.confirm_ms));
            let holder = holder.map(|holder| (holder, &rules.fairness, life_ms));
            let (deadline, code) = (deadline.after(rules.grace_ms), code.as_deref());
            let (want, attributes, customer) = (&want, &*attributes, customer.as_ref());
            let ask = HoldAsk { hold, revision, want, deadline, at, holder, desk, code, attributes, customer };
            answer_hold(entity, rules, (at, now), &ask, turn)
        }
        // A deposed leader may have given the hold other seats than its successor, so it cannot tell what is left.
        Ask::Release { hold, revision, left: Some(ref left), .. }
            if lacks(entity, hold, revision, left) && !planted::is("what is left of other seats believed") =>
        {
            return;
        }
        // A partial release of an unknown hold needs no event. A deposed leader must not remember the hold as released, because
        // it may be asked to sell the rest. Its acknowledgement waits for a read that never succeeds.
        Ask::Release { hold, revision, left: Some(_), .. } if !knows(entity, hold) => {
            Reply::Released { hold, revision }
        }
        Ask::Release { hold, revision, left, last, expired } => {
            let inventory = entity.inventory();
            let mut newest = revision;
            if planted::is("a partial release that ignores revisions") && left.is_some() && has(entity, hold) {
                newest = newest.max(inventory.map_or(0, |it| it.granted(hold).revision) + 1);
            }
            let released = inventory.and_then(|it| it.decide_release(hold, newest, left.as_ref(), last));
            let released = if expired { released.map(Event::by_expiry) } else { released };
            write_timed(entity, released, (hold, at), turn);
            Reply::Released { hold, revision }
        }
        Ask::Sell { hold, revision, portion, order, at: ordered_at } => {
            let inventory = entity.inventory();
            let sold = inventory.and_then(|it| it.decide_sell(hold, revision, &portion, order, ordered_at));
            // A deposed leader may be asked to sell what its successor granted. It stays silent, and the cart asks again.
            let Some(events) = sold else { return };
            for event in events {
                write_timed(entity, Some(event), (hold, at), turn);
            }
            let version = entity.inventory().and_then(|inventory| inventory.sale_version(hold));
            Reply::Sold { hold, version: version.unwrap_or_else(|| entity.at().version), position: 0 }
        }
        Ask::Refund { hold } => {
            let refunded = entity.inventory().and_then(|inventory| inventory.decide_refund(hold));
            write(entity, refunded, turn);
            Reply::Refunded { hold }
        }
        Ask::Forget => {
            let Entity::Cart(cart) = from else { panic!("{from} is no cart and asks to be forgotten") };
            let forgotten = entity.inventory().and_then(|inventory| inventory.decide_forget(cart));
            write(entity, forgotten, turn);
            Reply::Forgotten
        }
        Ask::Open(opening) => match entity.session() {
            Some(session) if session.is_opened_with(&opening) => Reply::Opened,
            Some(session) => Reply::OpenRefused(Box::new(session.opened_differently(&opening))),
            None => {
                entity.apply(Event::Session(SessionEvent::Opened(*opening)), turn);
                Reply::Opened
            }
        },
        Ask::Post { purchase } => {
            let posted = entity.customer_or_unknown().decide_post(&purchase);
            write(entity, posted.map(Event::Customer), turn);
            Reply::Posted { order: purchase.order }
        }
        Ask::SetZone(zone) => {
            // Only a deposed leader does not know the session yet. It stays silent, and the venue asks again.
            let Some(session) = entity.session() else { return };
            let version = zone.version;
            let set = session.decide_zone(zone);
            write(entity, set.map(Event::Session), turn);
            Reply::ZoneSet { version }
        }
        other @ (Ask::Overdue { .. }
        | Ask::Revoke { .. }
        | Ask::Vacate
        | Ask::TellSale(_)
        | Ask::List { .. }
        | Ask::Pay(_)) => {
            panic!("{} was asked {other:?} by {from}", entity.entity())
        }
    };
    turn.reply(from, reply);
}

/// Decides on a hold, and replies with its grant or the refusal.
fn answer_hold<R>(
    entity: &mut Speculation,
    rules: &Rules,
    (at, now): (Timestamp, Timestamp),
    ask: &HoldAsk<'_>,
    turn: &mut Turn<R>,
) -> Reply {
    let decided = match (entity.inventory(), entity.entity()) {
        // Above the highest revision there must be room for what the cart commits about the hold.
        _ if ask.revision > REVISION_MAX && !planted::is("a revision that nothing outranks") => {
            Err(ask.refused(too_often_changed()))
        }
        (Some(inventory), _) => inventory.decide_hold(now, ask),
        // A customer exists from its first event on.
        (None, Entity::Customer(_)) => entity.customer_or_unknown().decide_hold(now, ask),
        (None, _) => Err(ask.refused(entity.not_found())),
    };
    let mut reply = match decided {
        Err(reply) => reply,
        Ok(event) => {
            entity.apply(event, turn);
            Reply::Granted(entity.inventory().expect("it has just held").granted(ask.hold))
        }
    };
    if let Reply::Granted(granted) = &mut reply {
        // The cart must know until when the inventory believes in the hold.
        let live = entity.inventory().and_then(|inventory| inventory.live(ask.hold));
        let until = live.as_ref().and_then(|live| live.charged.as_ref()).and_then(|charged| charged.until);
        granted.life_ms = until.map(|until| until.0.saturating_sub(at.0));
        granted.believed_ms = live.map_or(0, |live| live.deadline.0.saturating_sub(at.after(rules.grace_ms).0));
    }
    reply
}

/// Writes a change of a hold. If the hold is charged to an account, its event says when it happened.
fn write_timed<R>(entity: &mut Speculation, event: Option<Event>, (hold, at): (HoldId, Timestamp), turn: &mut Turn<R>) {
    let charged = entity.inventory().and_then(|inventory| inventory.holds()).is_some_and(|it| it.is_charged(hold));
    write(entity, if charged { event.map(|event| event.timed(at)) } else { event }, turn);
}

fn write<R>(entity: &mut Speculation, event: Option<Event>, turn: &mut Turn<R>) {
    if let Some(event) = event {
        entity.apply(event, turn);
    }
}

/// The refusal of a hold that has had as many revisions as can be counted.
fn too_often_changed() -> Refusal {
    Refusal::BadRequest("the hold was changed too often; release the line and ask for it again".into())
}

/// Whether a newer release leaves more to a live hold than it has. The inventory that leads never lacks anything, because a hold
/// covers its line at every instant.
fn lacks(entity: &Speculation, hold: HoldId, revision: u64, left: &Portion) -> bool {
    let held = entity.state().and_then(|state| state.held(hold));
    let is_later = || entity.inventory().is_some_and(|inventory| revision > inventory.granted(hold).revision);
    held.is_some_and(|held| !held.covers(left)) && is_later()
}

/// Whether the hold is live here.
fn has(entity: &Speculation, hold: HoldId) -> bool {
    entity.state().is_some_and(|state| state.held(hold).is_some())
}

/// Whether the hold is live here, or was. A deposed leader may receive messages about holds that its successor granted.
fn knows(entity: &Speculation, hold: HoldId) -> bool {
    entity.inventory().and_then(|inventory| inventory.holds()).is_some_and(|holds| holds.knows(hold))
}

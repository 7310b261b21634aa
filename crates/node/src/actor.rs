//! The actor of an entity: takes a message, takes up the entity's state, reads the clock, asks the core, hands on what it says.
//!
//! An actor that has nothing left to do goes to the [pool](crate::pool) and serves another entity later.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use boxoffice_core::{
    ask::{Ask, Reply},
    event::{CartEvent, Event},
    host::{Effect, Host, Input, Turn},
    id::Entity,
    planted,
    refusal::Refusal,
    state_map::State,
    time::{Moment, Timestamp},
};
use boxoffice_shard::Input as EngineInput;
use boxoffice_storage::{codec, history::HistoryStoreError};
use ractor::{Actor, ActorProcessingErr, ActorRef, ActorRuntime};
use smol_str::SmolStr;

use crate::{
    caller::Caller,
    cell::{AtWork, Lead, Lent, Letter, Loan, Message, Returned, Served, Serving, ShardCell},
    contain::{self, Circumstances, Panic},
    desk::{Desk, Found, WasOpen},
    door::Failure,
    joint,
    recovery::{Cause, Faults, Health},
    shared::Shared,
    ticket::Ticket,
    under_way::UnderWay,
};

mod effects;
mod take;

pub(crate) use take::Given;

/// How long a turn that no answer depends on waits in the queue for another one, in milliseconds. Alone it would cost a pass of the
/// replication and a sync of the disk.
const QUIET_MS: u64 = 5;
/// The behaviour; all state is in [`Doorman`].
pub(crate) struct EntityActor;

/// The state of an actor.
pub(crate) struct Doorman {
    shared: Arc<Shared>,
    /// While it decides.
    at_work: Option<AtWork>,
    turn: Turn<Caller>,
    /// What came while another actor had the entity, in order.
    held: VecDeque<Message>,
    /// Decides for an inventory that is at rest, together with a cart of this actor.
    beside: Option<Box<Doorman>>,
}

impl Actor for EntityActor {
    type Msg = Message;
    type State = Doorman;
    type Arguments = Arc<Shared>;

    async fn pre_start(&self, _: ActorRef<Message>, shared: Arc<Shared>) -> Result<Doorman, ActorProcessingErr> {
        Ok(Doorman::new(shared))
    }

    async fn handle(
        &self,
        _: ActorRef<Message>,
        message: Message,
        doorman: &mut Doorman,
    ) -> Result<(), ActorProcessingErr> {
        match message.letter {
            Letter::Back => doorman.read_on(),
            _ if doorman.held.is_empty() => doorman.read(message),
            _ => doorman.held.push_back(message),
        }
        Ok(())
    }
}

impl Doorman {
    fn new(shared: Arc<Shared>) -> Doorman {
        Doorman { shared, at_work: None, turn: Turn::default(), held: VecDeque::new(), beside: None }
    }

    /// Reads what had to wait.
    fn read_on(&mut self) {
        for message in std::mem::take(&mut self.held) {
            match self.held.is_empty() {
                true => self.read(message),
                false => self.held.push_back(message),
            }
        }
    }

    /// Takes the entity's state up, does what the letter wants, and lays the state down again.
    fn read(&mut self, message: Message) {
        let serving = match message.to.desk.take() {
            Found::State(serving) => serving,
            Found::Nothing => return self.held.push_back(message),
            Found::Closed => return,
        };
        let Message { to: served, letter } = message;
        self.at_work = Some(AtWork { served, serving });
        match letter {
            Letter::Input(input) => {
                self.take(input);
                self.leave_if_ended();
            }
            Letter::Lent(loan) => {
                let owner = Arc::clone(&loan.served);
                let returned = self.take_loan(loan);
                owner.cast(Letter::Returned(returned));
            }
            Letter::Returned(returned) => {
                self.returned(returned);
                self.leave_if_ended();
            }
            Letter::Leave => self.leave(),
            Letter::Back => {}
        }
        self.lay_down();
    }

    fn lay_down(&mut self) {
        if let Some(AtWork { served, serving }) = self.at_work.take() {
            served.lay_down(serving);
        }
    }

    /// Something has come for the entity. The monotonic time in milliseconds.
    fn begin(&mut self) -> u64 {
        let mono_ms = self.shared.world.clock.monotonic_ms();
        if let Some(AtWork { served, serving }) = &mut self.at_work {
            // What is in neither memory nor the store is new. After a panic it is not read before all that was proposed is applied.
            if serving.host.is_none() && matches!(serving.health, Health::Well) {
                load(serving, &self.shared, None);
            }
            served.used_ms.store(mono_ms, Ordering::Relaxed);
        }
        mono_ms
    }

    /// The same of a message of the mailbox.
    fn message_came(&mut self) -> u64 {
        if let Some(AtWork { served, .. }) = &self.at_work {
            served.under_way.taken();
        }
        self.begin()
    }

    fn take(&mut self, input: Input<Caller>) {
        let mono_ms = self.message_came();
        let Some(input) = self.in_time(input, mono_ms) else { return };
        let Some(AtWork { serving, .. }) = &mut self.at_work else { return };
        match &mut serving.health {
            Health::Well => self.decide(mono_ms, input),
            Health::Draining(held) | Health::Lent(held) => held.push_back(input),
            Health::Resting(until_ms) if mono_ms < *until_ms => self.rest(input),
            Health::Resting(_) => {
                serving.health = Health::Draining([input].into());
                self.begin_anew();
            }
        }
    }

    /// Gives an input back, unless it is a command whose client has gone: nothing is decided for that one.
    fn in_time(&self, input: Input<Caller>, mono_ms: u64) -> Option<Input<Caller>> {
        match input {
            Input::Command { from, .. } if from.is_too_late(mono_ms) => {
                self.shared.admission.is_too_late();
                // This attempt certainly did not happen. The node that sent an earlier attempt knows the outcome of that one.
                from.answer(Err(Failure::Busy(0)));
                None
            }
            input => Some(input),
        }
    }

    /// Lets the entity decide, and hands on what it said.
    fn decide(&mut self, mono_ms: u64, input: Input<Caller>) {
        let Some(AtWork { served, serving }) = &mut self.at_work else { return };
        if serving.faults.leaves(&input, mono_ms) {
            return self.rest(input);
        }
        let at = Timestamp(serving.leadership.time.at(mono_ms));
        let moment = Moment { at, distance_ms: serving.cell.state.distance_ms.load(Ordering::Relaxed) };
        let Some(host) = &mut serving.host else { return };
        self.turn.known = served.committed.load(Ordering::Acquire);
        let (kind, cause, failed) = (contain::kind_of(&input), Cause::of(&input), failure_of(&input));
        let asker = asker_of(&input);
        let (entity, turn, cell) = (&serving.entity, &mut self.turn, &serving.cell);
        let is_cart = matches!(entity, Entity::Cart(_));
        let decided = contain::decide(|| {
            #[cfg(debug_assertions)]
            contain::planted::spring(entity, &input);
            host.handle(moment, input, turn);
            if is_cart && let Some(asked) = joint::take_ask(turn, |to| self.shared.cell_of(to).id == cell.id) {
                return Decided::Asks(asked);
            }
            Decided::Turn(encoded(entity, asker.as_ref(), turn))
        });
        match decided {
            Ok(Decided::Turn(events)) => self.hand_on(mono_ms, at, events),
            Ok(Decided::Asks((inventory, ask))) => self.lend(mono_ms, at, asker, inventory, ask),
            Err(panic) => self.panicked(mono_ms, (kind, &cause), failed, panic),
        }
    }

    /// Hands on what the last turn came to.
    fn hand_on(&mut self, mono_ms: u64, at: Timestamp, events: Vec<u8>) {
        let Some(AtWork { served, serving }) = &mut self.at_work else { return };
        let turn = &mut self.turn;
        let (shard, epoch) = (serving.cell.id, serving.leadership.epoch);
        if !turn.events.is_empty() {
            let versions = (turn.after, turn.after + turn.events.len() as u64);
            served.under_way.proposed();
            let is_quiet = is_quiet(turn);
            let ticket = Ticket {
                entity: serving.entity.clone(),
                versions,
                events: std::mem::take(&mut turn.events),
                effects: std::mem::take(&mut turn.committed),
                served: Some(Arc::clone(served)),
                cart: None,
            };
            let beside = None;
            let input = EngineInput::Propose { shard, epoch, events, beside, ticket };
            if is_quiet {
                self.shared.replication.replicators.push_quietly(shard, input);
                self.shared.timers.nudge(mono_ms + QUIET_MS);
            } else {
                self.shared.replication.replicators.push(shard, input);
            }
        }
        if !turn.read.is_empty() {
            let effects = std::mem::take(&mut turn.read);
            let versions = (turn.after, turn.after);
            let (entity, events) = (serving.entity.clone(), Vec::new());
            let ticket = Ticket { entity, versions, events, effects, served: None, cart: None };
            self.shared.replication.replicators.push(shard, EngineInput::Read { shard, epoch, ticket });
        }
        if let Some(wake_at) = turn.wake_at.take() {
            self.shared.timers.arm(mono_ms + wake_at.0.saturating_sub(at.0), &serving.entity);
        }
        for effect in turn.now.drain(..) {
            self.shared.carry_out(&serving.entity, effect);
        }
    }

    /// Lends the cart's host to the inventory that it asks. If that one is at rest, both are decided here and now.
    fn lend(&mut self, mono_ms: u64, at: Timestamp, by: Option<SmolStr>, inventory: Entity, ask: Ask) {
        let Some(AtWork { served, serving }) = &mut self.at_work else { return };
        let mut turn = std::mem::take(&mut self.turn);
        if let Some(wake_at) = turn.wake_at.take() {
            self.shared.timers.arm(mono_ms + wake_at.0.saturating_sub(at.0), &serving.entity);
        }
        let host = serving.host.take().expect("it has just decided");
        serving.health = Health::Lent(VecDeque::new());
        let (cart, served, term) = (serving.entity.clone(), Arc::clone(served), serving.leadership.epoch.0);
        let loan = Box::new(Loan { cart, host, served, turn, by, ask, inventory });
        let returned = match self.shared.lend(term, loan) {
            Lent::Sent => return,
            Lent::Not(loan) => Returned::AsItCame(loan),
            Lent::Beside(loan, inventory) => {
                let shared = &self.shared;
                let beside = self.beside.get_or_insert_with(|| Box::new(Doorman::new(Arc::clone(shared))));
                beside.at_work = Some(inventory);
                let mono_ms = beside.begin();
                let returned = beside.decide_together(mono_ms, loan);
                beside.lay_down();
                returned
            }
        };
        self.returned(returned);
    }

    /// The cart's host is back: what came meanwhile is decided.
    fn returned(&mut self, returned: Returned) {
        let mono_ms = self.shared.world.clock.monotonic_ms();
        let Some(AtWork { serving, .. }) = &mut self.at_work else { return };
        let Health::Lent(held) = &mut serving.health else { return };
        let held = std::mem::take(held);
        match returned {
            Returned::Asked(host) => {
                serving.host = Some(host);
                serving.health = Health::Well;
            }
            Returned::AsItCame(loan) => {
                let (host, turn, by) = loan.undo();
                serving.host = Some(host);
                serving.health = Health::Well;
                let at = Timestamp(serving.leadership.time.at(mono_ms));
                let events = encoded(&serving.entity, by.as_ref(), &turn);
                self.turn = turn;
                self.hand_on(mono_ms, at, events);
            }
            Returned::Lost => {
                serving.health = Health::Draining(held);
                return self.begin_anew();
            }
        }
        for input in held {
            self.decide_or_hold(mono_ms, input);
        }
    }

    /// Decides on an input that has waited, unless what came before it keeps it waiting.
    fn decide_or_hold(&mut self, mono_ms: u64, input: Input<Caller>) {
        match self.at_work.as_mut().map(|work| &mut work.serving.health) {
            Some(Health::Draining(held) | Health::Lent(held)) => held.push_back(input),
            Some(Health::Resting(_)) => self.rest(input),
            Some(Health::Well) => self.decide(mono_ms, input),
            None => {}
        }
    }

    /// A cart's host came with the mail.
    fn take_loan(&mut self, loan: Box<Loan>) -> Returned {
        let mono_ms = self.message_came();
        self.decide_together(mono_ms, loan)
    }

    /// A cart of this shard asks, and has lent its host: both decide at the same instant, and what happened to both is one
    /// proposal. What the cart gets back.
    fn decide_together(&mut self, mono_ms: u64, mut loan: Box<Loan>) -> Returned {
        let Some(AtWork { served, serving }) = &mut self.at_work else { return Returned::AsItCame(loan) };
        let is_well = matches!(serving.health, Health::Well) && !serving.faults.leaves_from(&loan.cart, mono_ms);
        let Some(host) = serving.host.as_mut().filter(|_| is_well) else { return Returned::AsItCame(loan) };
        let owner = Arc::clone(&loan.served);
        let at = Timestamp(serving.leadership.time.at(mono_ms));
        let moment = Moment { at, distance_ms: serving.cell.state.distance_ms.load(Ordering::Relaxed) };
        let (entity, turn) = (&serving.entity, &mut self.turn);
        turn.known = served.committed.load(Ordering::Acquire);
        let input = Input::Ask { from: loan.cart.clone(), ask: loan.ask.clone() };
        let (cause, failed) = (Cause::of(&input), failure_of(&input));
        let decided = contain::decide(|| {
            #[cfg(debug_assertions)]
            contain::planted::spring(entity, &input);
            host.handle(moment, input, turn);
            encoded(entity, None, turn)
        });
        let events = match decided {
            Ok(events) => events,
            Err(panic) => {
                self.panicked(mono_ms, ("ask", &cause), failed, panic);
                return loan.undecided();
            }
        };
        let Some(reply) = joint::take_reply(turn, &loan.cart) else {
            // Refused, known already, or more to be said: the cart hears of it by a message.
            self.hand_on(mono_ms, at, events);
            return loan.undecided();
        };

        let mut cart_turn = Turn { known: owner.committed.load(Ordering::Acquire), ..Turn::default() };
        let decided = contain::decide(|| {
            let input = Input::Reply { from: entity.clone(), reply };
            #[cfg(debug_assertions)]
            contain::planted::spring(&loan.cart, &input);
            loan.host.handle(moment, input, &mut cart_turn);
            let first = &mut loan.turn;
            if first.events.is_empty() {
                first.after = cart_turn.after;
            }
            joint::append(&mut first.events, &mut cart_turn.events);
            // All of it rests on the inventory's turn, which is not committed.
            for effects in [&mut cart_turn.now, &mut cart_turn.committed, &mut cart_turn.read] {
                joint::append(&mut first.committed, effects);
            }
            encoded(&loan.cart, loan.by.as_ref(), first)
        });
        let cart_events = match decided {
            Ok(events) => events,
            Err(panic) => {
                // What the inventory has decided was not proposed: it begins anew as well.
                drop(loan);
                self.panicked(mono_ms, ("reply in a joint turn", &cause), failed, panic);
                return Returned::Lost;
            }
        };
        let Loan { cart, host, turn: first, .. } = *loan;
        if let Some(wake_at) = cart_turn.wake_at {
            self.shared.timers.arm(mono_ms + wake_at.0.saturating_sub(at.0), &cart);
        }
        let changed = !first.events.is_empty();
        let versions = (first.after, first.after + first.events.len() as u64);
        if changed {
            owner.under_way.proposed();
        }
        let of_cart = Ticket {
            entity: cart,
            versions,
            events: first.events,
            effects: first.committed,
            served: changed.then(|| Arc::clone(&owner)),
            cart: None,
        };
        let (shard, epoch) = (serving.cell.id, serving.leadership.epoch);
        let versions = (turn.after, turn.after + turn.events.len() as u64);
        served.under_way.proposed();
        let ticket = Ticket {
            entity: serving.entity.clone(),
            versions,
            events: std::mem::take(&mut turn.events),
            effects: Vec::new(),
            served: Some(Arc::clone(served)),
            cart: Some(Box::new(of_cart)),
        };
        let beside = changed.then_some(cart_events);
        let beside = beside.filter(|_| !planted::is("a joint turn without the cart's half"));
        self.shared.metrics.joint_turns.fetch_add(1, Ordering::Relaxed);
        self.shared.replication.replicators.push(shard, EngineInput::Propose { shard, epoch, events, beside, ticket });
        if let Some(wake_at) = turn.wake_at.take() {
            self.shared.timers.arm(mono_ms + wake_at.0.saturating_sub(at.0), &serving.entity);
        }
        Returned::Asked(host)
    }

    /// A decision has panicked. What it changed is thrown away, and with it whatever was under way for the entity: its clients
    /// hear `unknown`, as after a crash, but who had a part in the panic hears `internal`; an entity that asked for a hold is
    /// told with `failed`.
    fn panicked(
        &mut self,
        mono_ms: u64,
        (kind, cause): (&'static str, &Cause),
        failed: Option<Effect<Caller>>,
        panic: Panic,
    ) {
        let Some(AtWork { serving, .. }) = &mut self.at_work else { return };
        self.shared.metrics.panics_contained.fetch_add(1, Ordering::Relaxed);
        let known = Circumstances {
            input: kind,
            by: match cause {
                Cause::Other(entity) => Some(entity.clone()),
                Cause::Command(_) | Cause::Own => None,
            },
            shard: serving.cell.id,
            term: serving.leadership.epoch.0,
            led: serving.cell.led(),
            version: self.turn.after,
            committed: serving.cell.state.replica.lock().kept.get(&serving.entity).map_or(0, |state| state.version()),
        };
        self.shared.panic_log.note(mono_ms, &serving.entity, panic, &known);
        serving.faults.note(cause, mono_ms);
        let turn = std::mem::take(&mut self.turn);
        for effect in turn.now.into_iter().chain(turn.committed).chain(turn.read) {
            if let Effect::Answer { to, .. } = effect {
                to.answer(Err(Failure::Internal));
            }
        }
        failed.into_iter().for_each(|failed| self.shared.carry_out(&serving.entity, failed));
        let host = serving.host.take();
        contain::blaming(cause.caller(), || drop(host));
        serving.health = Health::Draining(VecDeque::new());
        self.begin_anew();
    }

    /// Goes on from committed state once all that was proposed is applied. Before that, committed state lacks what others
    /// may have been told: it would grant a seat twice. If the leadership ends instead, so does this actor.
    fn begin_anew(&mut self) {
        let Some(AtWork { served, serving }) = &mut self.at_work else { return };
        let Health::Draining(held) = &mut serving.health else { return };
        if !served.under_way.rests() {
            return;
        }
        let held = std::mem::take(held);
        served.under_way.goes_on();
        let mono_ms = self.shared.world.clock.monotonic_ms();
        if let Some(until_ms) = serving.faults.rests_until_ms(mono_ms) {
            serving.health = Health::Resting(until_ms);
            self.shared.timers.arm(until_ms, &serving.entity);
            return held.into_iter().for_each(|input| self.rest(input));
        }
        let state = serving.cell.state.replica.lock().kept.get(&serving.entity);
        load(serving, &self.shared, state);
        serving.health = Health::Well;
        // What was under way goes on, as after a change of leaders. A wake that led to the panic comes again as well.
        for input in [Input::Wake].into_iter().chain(held) {
            self.decide_or_hold(mono_ms, input);
        }
    }

    /// What comes to an entity that panicked again and again, or from one that panics it: it is told so, and nothing is decided.
    fn rest(&self, input: Input<Caller>) {
        let Some(AtWork { serving, .. }) = &self.at_work else { return };
        if let Some(failed) = failure_of(&input) {
            self.shared.carry_out(&serving.entity, failed);
        }
        if let Input::Command { from, .. } = input {
            from.answer(Err(Failure::Internal));
        }
    }

    /// A cart that has ended and owes nothing is not asked for again soon: its actor is free for the next one.
    fn leave_if_ended(&mut self) {
        let has_ended = |host: &Host<Caller>| host.ended() && host.idle();
        if self.at_work.as_ref().and_then(|work| work.serving.host.as_ref()).is_some_and(has_ended) {
            self.leave();
        }
    }

    fn leave(&mut self) {
        self.begin_anew();
        self.at_work = self.at_work.take().and_then(|work| leaves(work, &self.shared));
    }
}

/// Leaves the entity for good if nothing is under way for it; otherwise here it is again.
fn leaves(work: AtWork, shared: &Arc<Shared>) -> Option<AtWork> {
    let AtWork { served, serving } = &work;
    if serving.host.as_ref().is_none_or(|host| !host.idle()) {
        return Some(work);
    }
    // If something is in flight the actor is told when nothing is.
    let _ = served.under_way.rests();
    // No message can be sent while the lock is held; what was sent before is counted. The committed state is the whole
    // state only when nothing is in flight.
    let mut lead = serving.cell.lead.lock();
    let still = lead.leadership.is_some_and(|leadership| leadership.epoch == serving.leadership.epoch);
    if !still || !served.under_way.is_quiet() {
        drop(lead);
        return Some(work);
    }
    lead.actors.remove(&serving.entity);
    drop(lead);
    if let WasOpen::Wanted = served.desk.close() {
        // It has not read everything that was said to the entity, and reads nothing of the next one before.
        served.cast(Letter::Back);
    }
    shared.pool.put(&served.actor);
    None
}

/// All turns of an entity are settled, and that was waited for: it leaves, or its actor is told to begin anew.
pub(crate) fn rests(shared: &Arc<Shared>, served: &Arc<Served>) {
    match served.desk.borrow_if(|serving| matches!(serving.health, Health::Well)) {
        Some(serving) => {
            if let Some(work) = leaves(AtWork { served: Arc::clone(served), serving }, shared) {
                served.lay_down(work.serving);
            }
        }
        None => served.cast(Letter::Leave),
    }
}

/// Begins with a committed state; with what the store has if there is none in memory.
fn load(serving: &mut Serving, shared: &Shared, state: Option<Arc<State>>) {
    let state = match state {
        Some(state) => Some(state),
        None => match shared.replication.history.get(serving.cell.id, &serving.entity) {
            Ok(stored) => stored.map(|stored| stored.state),
            // Its callers hear `unknown`, and the next one asks again.
            Err(HistoryStoreError::Store(error)) if error.is_full() => {
                return tracing::warn!(%error, "an entity waits for the store");
            }
            // Its callers hear `unknown` when the node goes down.
            Err(error) => return shared.replication.replicators.fail(error),
        },
    };
    serving.host = Some(Host::new(serving.entity.clone(), state, Arc::clone(&shared.config.rules)));
}

/// What a decision came to.
enum Decided {
    /// A turn, with the bytes of its events.
    Turn(Vec<u8>),
    /// A cart's turn without this ask, which the inventory may decide together with it.
    Asks((Entity, Ask)),
}

/// Whether no answer and no message depends on a turn: it only notes that a cart's messages were acknowledged. If the turn is lost,
/// they are sent again.
fn is_quiet(turn: &Turn<Caller>) -> bool {
    let is_delivered = |event: &Event| matches!(event, Event::Cart(CartEvent::Delivered { .. }));
    turn.committed.is_empty() && turn.read.is_empty() && turn.events.iter().all(is_delivered)
}

/// The bytes of a turn's events; none if there are none.
fn encoded(entity: &Entity, by: Option<&SmolStr>, turn: &Turn<Caller>) -> Vec<u8> {
    if turn.events.is_empty() {
        return Vec::new();
    }
    codec::encode(entity, by.or_else(|| answered_of(turn)), &turn.events)
}

/// What an entity that asks for a hold hears if the decision on it fails: its client need not wait. Everything else is asked
/// again until it is decided.
fn failure_of(input: &Input<Caller>) -> Option<Effect<Caller>> {
    let Input::Ask { from, ask: Ask::Hold { hold, revision, .. } } = input else { return None };
    let reply = Reply::Refused { hold: *hold, revision: *revision, refusal: Refusal::Internal };
    Some(Effect::Reply { to: from.clone(), reply })
}

/// The name of the key or the operator that sent a command.
fn asker_of(input: &Input<Caller>) -> Option<SmolStr> {
    match input {
        Input::Command { from, .. } => from.asker().cloned(),
        Input::Ask { .. } | Input::Reply { .. } | Input::Paid { .. } | Input::Wake => None,
    }
}

/// The same of a command that had to wait for others: it is answered in the turn in which it takes effect.
fn answered_of(turn: &Turn<Caller>) -> Option<&SmolStr> {
    turn.committed.iter().find_map(|effect| match effect {
        Effect::Answer { to, outcome: Ok(_) } => to.asker(),
        Effect::Answer { .. } | Effect::Ask { .. } | Effect::Reply { .. } | Effect::Pay(_) => None,
    })
}

/// The actor that serves `entity`, starting on it if none does.
pub(crate) fn served(
    shared: &Arc<Shared>,
    cell: &Arc<ShardCell>,
    lead: &mut Lead,
    entity: &Entity,
) -> Option<Arc<Served>> {
    if let Some(served) = lead.actors.get(entity) {
        return Some(Arc::clone(served));
    }
    let leadership = lead.leadership?;
    let state = cell.state.replica.lock().kept.get(entity);
    let committed = state.as_deref().map_or(0, State::version);
    let host = state.map(|state| Host::new(entity.clone(), Some(state), Arc::clone(&shared.config.rules)));
    let actor = shared.pool.take().unwrap_or_else(|| spawn(shared));
    let health = Health::Well;
    let serving =
        Serving { entity: entity.clone(), host, health, faults: Faults::default(), cell: Arc::clone(cell), leadership };
    let served = Arc::new(Served {
        actor,
        desk: Desk::new(Box::new(serving)),
        under_way: UnderWay::default(),
        committed: AtomicU64::new(committed),
        used_ms: AtomicU64::new(shared.world.clock.monotonic_ms()),
    });
    lead.actors.insert(entity.clone(), Arc::clone(&served));
    Some(served)
}

/// Starts one more actor, which serves no entity yet.
fn spawn(shared: &Arc<Shared>) -> ActorRef<Message> {
    let _runtime = shared.tasks.selling.enter();
    let (actor, _starting) = ActorRuntime::spawn_instant(None, EntityActor, Arc::clone(shared))
        .expect("an actor without a name cannot collide with another");
    actor
}

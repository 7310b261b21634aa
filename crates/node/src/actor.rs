//! The actor of an entity. It takes a message and the entity's state, reads the clock, asks the core, and hands on the result.
//!
//! An actor that has nothing left to do goes to the [pool](crate::actor_pool) and serves another entity later.

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
use boxoffice_env::no_wait;
use boxoffice_replication::history_reads::ReadError;
use boxoffice_shard::Input as EngineInput;
use boxoffice_storage::{
    codec,
    history::{Lookup, StoredEntity},
};
use ractor::{Actor, ActorProcessingErr, ActorRef, ActorRuntime};
use smol_str::SmolStr;

use crate::{
    api::Failure,
    caller::Caller,
    contain::{self, Panic, PanicContext},
    joint,
    pending_commit::PendingCommit,
    recovery::{Cause, Health, PanicHistory},
    shard_lead::{
        ActorHandle, Assignment, EntityMessage, Envelope, JointAsk, JointOutcome, JointPlace, LeaderState, ShardLead,
        TakenEntity,
    },
    shared::Shared,
    state_slot::{Closed, StateSlot, Take},
    under_way::UnderWay,
};

mod effects;
mod here;
mod take;

pub(crate) use effects::release_effects;
use effects::{arm_wake, carry_out};
use take::begin_joint_turn;
pub(crate) use take::{CallContext, send, take_here, wake_if_assigned};

/// How long a turn that no answer depends on waits in the queue for another one, in milliseconds. Alone it would cost a pass of
/// the replication and a sync of the disk.
const QUIET_MS: u64 = 5;
/// Why an actor does not wait for the store.
const SELLING: &str = "a selling thread has other buyers";

/// The behaviour. All state is in [`EntityActorState`].
pub(crate) struct EntityActor;

/// The state of an actor.
pub(crate) struct EntityActorState {
    shared: Arc<Shared>,
    /// The entity, while the actor decides.
    current: Option<TakenEntity>,
    /// The result of the last input, until it is handed on. Empty between inputs, and kept for its memory.
    turn: Turn<Caller>,
    /// Messages that came while another actor had the entity, in order.
    held: VecDeque<Envelope>,
}

impl Actor for EntityActor {
    type Msg = Envelope;
    type State = EntityActorState;
    type Arguments = Arc<Shared>;

    async fn pre_start(
        &self,
        _: ActorRef<Envelope>,
        shared: Arc<Shared>,
    ) -> Result<EntityActorState, ActorProcessingErr> {
        Ok(EntityActorState::new(shared))
    }

    async fn handle(
        &self,
        _: ActorRef<Envelope>,
        envelope: Envelope,
        state: &mut EntityActorState,
    ) -> Result<(), ActorProcessingErr> {
        let _no_wait = no_wait::begin(SELLING);
        match envelope.message {
            EntityMessage::StateIsBack => state.read_on(),
            _ if state.held.is_empty() => state.read(envelope),
            _ => state.held.push_back(envelope),
        }
        Ok(())
    }
}

impl EntityActorState {
    fn new(shared: Arc<Shared>) -> EntityActorState {
        EntityActorState { shared, current: None, turn: Turn::default(), held: VecDeque::new() }
    }

    /// Decides on an input at once, in the place of the entity's actor. No message waits for the entity.
    fn decide_here(shared: &Arc<Shared>, work: TakenEntity, input: Input<Caller>) {
        let _no_wait = no_wait::begin(SELLING);
        let mut decider = EntityActorState::new(Arc::clone(shared));
        decider.current = Some(work);
        let mono_ms = decider.begin();
        decider.take(mono_ms, input);
        decider.leave_if_ended();
        decider.put_back();
    }

    /// Reads the messages that had to wait.
    fn read_on(&mut self) {
        for envelope in std::mem::take(&mut self.held) {
            match self.held.is_empty() {
                true => self.read(envelope),
                false => self.held.push_back(envelope),
            }
        }
    }

    /// Takes the entity's state, handles the message, and puts the state back.
    fn read(&mut self, envelope: Envelope) {
        let assignment = match envelope.to.slot.take() {
            Take::State(assignment) => assignment,
            Take::InUse => return self.held.push_back(envelope),
            Take::Closed => return,
        };
        let Envelope { to: actor, message } = envelope;
        self.current = Some(TakenEntity { actor, assignment });
        match message {
            EntityMessage::Input(input) => {
                let mono_ms = self.message_came();
                self.take(mono_ms, input);
                self.leave_if_ended();
            }
            EntityMessage::JointAsk(asked) => {
                let cart_actor = Arc::clone(&asked.actor);
                let mono_ms = self.message_came();
                let outcome = self.decide_together(mono_ms, asked);
                cart_actor.cast(EntityMessage::JointOutcome(outcome));
            }
            EntityMessage::JointOutcome(outcome) => {
                self.end_joint_turn(outcome);
                self.leave_if_ended();
            }
            EntityMessage::Loaded(found) => {
                let mono_ms = self.message_came();
                self.loaded(mono_ms, found);
                self.leave_if_ended();
            }
            EntityMessage::Leave => self.leave(),
            EntityMessage::StateIsBack => {}
        }
        self.put_back();
    }

    fn put_back(&mut self) {
        if let Some(TakenEntity { actor, assignment }) = self.current.take() {
            actor.put_back(assignment);
        }
    }

    /// Begins with an input of the entity. Returns the monotonic time in milliseconds.
    fn begin(&mut self) -> u64 {
        let mono_ms = self.shared.world.clock.monotonic_ms();
        if let Some(TakenEntity { actor, assignment }) = &mut self.current {
            // An entity in neither memory nor the store is new. After a panic it is not loaded before all proposals are applied.
            if assignment.host.is_none() && matches!(assignment.health, Health::Healthy) {
                load(actor, assignment, &self.shared, None);
            }
            actor.used_ms.store(mono_ms, Ordering::Relaxed);
        }
        mono_ms
    }

    /// The same for a message of the mailbox.
    fn message_came(&mut self) -> u64 {
        if let Some(TakenEntity { actor, .. }) = &self.current {
            actor.under_way.message_taken();
        }
        self.begin()
    }

    /// Takes an input of the entity whose state this actor has. Decides it, unless its client has gone, or keeps it until the entity is
    /// healthy again.
    fn take(&mut self, mono_ms: u64, input: Input<Caller>) {
        let Some(input) = self.in_time(input, mono_ms) else { return };
        let Some(TakenEntity { assignment, .. }) = &mut self.current else { return };
        match &mut assignment.health {
            Health::Healthy => self.decide(mono_ms, input),
            Health::Draining(held) | Health::InJointTurn(held) | Health::Loading(held) => held.push_back(input),
            Health::CoolingDown(until_ms) if mono_ms < *until_ms => self.ignore(input),
            Health::CoolingDown(_) => {
                assignment.health = Health::Draining([input].into());
                self.restart();
            }
        }
    }

    /// Returns the input, unless it is a command whose client has gone. Nothing is decided for that one.
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

    /// Reads the shard's time, lets the entity decide and hands on the result. A cart's ask within the shard is decided together with
    /// the inventory if that is possible.
    fn decide(&mut self, mono_ms: u64, mut input: Input<Caller>) {
        if let Input::Command { from, timeout_ms, .. } = &mut input {
            *timeout_ms = from.timeout_ms(mono_ms);
        }
        let Some(TakenEntity { assignment, .. }) = &self.current else { return };
        if assignment.panics.ignores(&input, mono_ms) {
            return self.ignore(input);
        }
        let is_cart = matches!(assignment.entity, Entity::Cart(_));
        let (moment, asker) = (self.moment(mono_ms), asker_of(&input));
        let decided = self.handle(mono_ms, moment, input, |shared, lead, entity, turn| {
            if is_cart && let Some(asked) = joint::take_ask(turn, |to| shared.lead_of(to).id == lead.id) {
                return Decided::Asks(asked, asker);
            }
            Decided::Turn(encoded(entity, asker.as_ref(), turn))
        });
        match decided {
            Some((Decided::Turn(events), _)) => self.hand_on(mono_ms, moment.at, events),
            Some((Decided::Asks((inventory, ask), asker), _)) => {
                self.ask_jointly(mono_ms, moment.at, asker, inventory, ask);
            }
            None => {}
        }
    }

    /// The instant at which the entity decides.
    fn moment(&self, mono_ms: u64) -> Moment {
        let Assignment { leadership, lead, .. } = &*self.current.as_ref().expect("an entity decides").assignment;
        let distance_ms = lead.state.distance_ms.load(Ordering::Relaxed);
        let version = self.shared.replication.version.get();
        Moment { at: Timestamp(leadership.time.at(mono_ms)), distance_ms, version }
    }

    /// Lets the entity's host handle an input, and `then` read the turn. If one of them panics, the entity restarts, and there is no
    /// result.
    fn handle<R>(
        &mut self,
        mono_ms: u64,
        moment: Moment,
        input: Input<Caller>,
        then: impl FnOnce(&Shared, &ShardLead, &Entity, &mut Turn<Caller>) -> R,
    ) -> Option<(R, Blame)> {
        let (shared, turn) = (&*self.shared, &mut self.turn);
        let TakenEntity { actor, assignment } = self.current.as_mut()?;
        let Assignment { entity, host, lead, .. } = &mut **assignment;
        let host = host.as_mut()?;
        turn.known = actor.committed.load(Ordering::Acquire);
        let blame = Blame::of(&input);
        let decided = contain::decide(|| {
            #[cfg(debug_assertions)]
            contain::planted::spring(entity, &input);
            host.handle(moment, input, turn);
            then(shared, lead, entity, turn)
        });
        match decided {
            Ok(result) => Some((result, blame)),
            Err(panic) => {
                self.panicked(mono_ms, blame, panic);
                None
            }
        }
    }

    /// Hands on the result of the last turn. Its events are proposed with the effects of `committed`, those of `read` wait for a read
    /// of the shard, and those of `now` are carried out here.
    fn hand_on(&mut self, mono_ms: u64, at: Timestamp, events: Vec<u8>) {
        let Some(TakenEntity { actor, assignment }) = &mut self.current else { return };
        let turn = &mut self.turn;
        let (shard, epoch) = (assignment.lead.id, assignment.leadership.epoch);
        if !turn.events.is_empty() {
            let is_quiet = is_quiet(turn);
            let completion = proposed(actor, assignment.entity.clone(), assignment.reloaded.take(), turn);
            let input = EngineInput::Propose { shard, epoch, events, joint: None, completion };
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
            let (entity, events) = (assignment.entity.clone(), Vec::new());
            let completion =
                PendingCommit { entity, versions, events, effects, actor: None, reloaded: None, cart: None };
            self.shared.replication.replicators.push(shard, EngineInput::Read { shard, epoch, completion });
        }
        arm_wake(&self.shared, mono_ms, at, &assignment.entity, turn);
        for effect in turn.now.drain(..) {
            carry_out(&self.shared, &assignment.entity, effect);
        }
    }

    /// Asks an inventory together with the cart's host, so that both decide at once. If the inventory is idle, this actor does it.
    fn ask_jointly(&mut self, mono_ms: u64, at: Timestamp, by: Option<SmolStr>, inventory: Entity, ask: Ask) {
        let Some(TakenEntity { actor, assignment }) = &mut self.current else { return };
        let mut turn = std::mem::take(&mut self.turn);
        arm_wake(&self.shared, mono_ms, at, &assignment.entity, &mut turn);
        let host = assignment.host.take().expect("it has just decided");
        assignment.health = Health::InJointTurn(VecDeque::new());
        let (cart, actor, term) = (assignment.entity.clone(), Arc::clone(actor), assignment.leadership.epoch.0);
        let reloaded = assignment.reloaded.take();
        let asked = Box::new(JointAsk { cart, host, reloaded, actor, turn, by, ask, inventory });
        let outcome = match begin_joint_turn(&self.shared, term, asked) {
            JointPlace::AtTheInventory => return,
            JointPlace::Nowhere(asked) => JointOutcome::NotAsked(asked),
            JointPlace::AtTheCart(asked, inventory) => {
                let mut inventory_state = EntityActorState::new(Arc::clone(&self.shared));
                inventory_state.current = Some(inventory);
                let mono_ms = inventory_state.begin();
                let outcome = inventory_state.decide_together(mono_ms, asked);
                inventory_state.put_back();
                outcome
            }
        };
        self.end_joint_turn(outcome);
    }

    /// The cart's host is back. Inputs that came meanwhile are decided.
    fn end_joint_turn(&mut self, outcome: JointOutcome) {
        let mono_ms = self.shared.world.clock.monotonic_ms();
        let Some(TakenEntity { assignment, .. }) = &mut self.current else { return };
        let Health::InJointTurn(held) = &mut assignment.health else { return };
        let held = std::mem::take(held);
        match outcome {
            JointOutcome::Asked(host) => {
                assignment.host = Some(host);
                assignment.health = Health::Healthy;
            }
            JointOutcome::NotAsked(asked) => {
                let (host, reloaded, turn, by) = asked.into_own_turn();
                assignment.host = Some(host);
                assignment.reloaded = reloaded;
                assignment.health = Health::Healthy;
                let at = Timestamp(assignment.leadership.time.at(mono_ms));
                let events = encoded(&assignment.entity, by.as_ref(), &turn);
                self.turn = turn;
                self.hand_on(mono_ms, at, events);
            }
            JointOutcome::HostLost => {
                assignment.health = Health::Draining(held);
                return self.restart();
            }
        }
        for input in held {
            self.decide_or_hold(mono_ms, input);
        }
    }

    /// Decides on an input that has waited, unless an earlier one makes it wait on.
    fn decide_or_hold(&mut self, mono_ms: u64, input: Input<Caller>) {
        match self.current.as_mut().map(|work| &mut work.assignment.health) {
            Some(Health::Draining(held) | Health::InJointTurn(held) | Health::Loading(held)) => held.push_back(input),
            Some(Health::CoolingDown(_)) => self.ignore(input),
            Some(Health::Healthy) => self.decide(mono_ms, input),
            None => {}
        }
    }

    /// A cart of this shard asks, and its host is here. Both decide at the same instant, and their events are one proposal.
    fn decide_together(&mut self, mono_ms: u64, mut asked: Box<JointAsk>) -> JointOutcome {
        let can_decide = self.current.as_ref().is_some_and(|TakenEntity { assignment, .. }| {
            assignment.may_be_borrowed() && !assignment.panics.ignores_from(&asked.cart, mono_ms)
        });
        if !can_decide {
            return JointOutcome::NotAsked(asked);
        }
        let moment = self.moment(mono_ms);
        let input = Input::Ask { from: asked.cart.clone(), ask: asked.ask.clone() };
        let decided = self.handle(mono_ms, moment, input, |_, _, entity, turn| encoded(entity, None, turn));
        let Some((events, blame)) = decided else { return asked.answered_apart() };
        let Some(reply) = joint::take_reply(&mut self.turn, &asked.cart) else {
            // The inventory refuses, knows the ask already, or has more effects. The cart gets a message.
            self.hand_on(mono_ms, moment.at, events);
            return asked.answered_apart();
        };

        let Some(TakenEntity { actor, assignment }) = &mut self.current else { return asked.answered_apart() };
        let known = asked.actor.committed.load(Ordering::Acquire);
        let mut reply_turn = Turn { known, ..Turn::default() };
        let decided = contain::decide(|| {
            let input = Input::Reply { from: assignment.entity.clone(), reply };
            #[cfg(debug_assertions)]
            contain::planted::spring(&asked.cart, &input);
            asked.host.handle(moment, input, &mut reply_turn);
            let first = &mut asked.turn;
            if first.events.is_empty() {
                first.after = reply_turn.after;
            }
            joint::append(&mut first.events, &mut reply_turn.events);
            // All of it depends on the inventory's turn, which is not committed.
            for effects in [&mut reply_turn.now, &mut reply_turn.committed, &mut reply_turn.read] {
                joint::append(&mut first.committed, effects);
            }
            encoded(&asked.cart, asked.by.as_ref(), first)
        });
        let cart_events = match decided {
            Ok(events) => events,
            Err(panic) => {
                // The inventory's decision was not proposed, so the inventory restarts as well.
                drop(asked);
                self.panicked(mono_ms, Blame { kind: "reply in a joint turn", ..blame }, panic);
                return JointOutcome::HostLost;
            }
        };
        let JointAsk { cart, host, reloaded, actor: cart_actor, turn: mut cart_turn, .. } = *asked;
        if planted::is("a joint turn told before its commit") {
            cart_turn.committed.drain(..).for_each(|effect| carry_out(&self.shared, &cart, effect));
        }
        arm_wake(&self.shared, mono_ms, moment.at, &cart, &mut reply_turn);
        let of_cart = proposed(&cart_actor, cart, reloaded, &mut cart_turn);
        let joint = of_cart.actor.is_some().then_some(cart_events);
        let joint = joint.filter(|_| !planted::is("a joint turn without the cart's half"));
        let (shard, epoch, turn) = (assignment.lead.id, assignment.leadership.epoch, &mut self.turn);
        let completion = PendingCommit {
            cart: Some(Box::new(of_cart)),
            ..proposed(actor, assignment.entity.clone(), assignment.reloaded.take(), turn)
        };
        self.shared.metrics.joint_turns.fetch_add(1, Ordering::Relaxed);
        let input = EngineInput::Propose { shard, epoch, events, joint, completion };
        self.shared.replication.replicators.push(shard, input);
        arm_wake(&self.shared, mono_ms, moment.at, &assignment.entity, turn);
        JointOutcome::Asked(host)
    }

    /// A decision has panicked. Its changes are thrown away, and so is everything under way for the entity. Its clients hear
    /// `unknown`, as after a crash. The caller that caused the panic hears `internal`, and an entity that asked for a hold
    /// gets `refusal`.
    fn panicked(&mut self, mono_ms: u64, Blame { kind, cause, refusal }: Blame, panic: Panic) {
        let Some(TakenEntity { assignment, .. }) = &mut self.current else { return };
        self.shared.metrics.panics_contained.fetch_add(1, Ordering::Relaxed);
        let known = PanicContext {
            input: kind,
            by: match &cause {
                Cause::Other(entity) => Some(entity.clone()),
                Cause::Command(_) | Cause::Own => None,
            },
            shard: assignment.lead.id,
            term: assignment.leadership.epoch.0,
            leader: assignment.lead.leader_info(),
            version: self.turn.after,
            committed: assignment
                .lead
                .state
                .replica
                .lock()
                .kept
                .get(&assignment.entity)
                .map_or(0, |state| state.version()),
        };
        self.shared.panic_log.note(mono_ms, &assignment.entity, panic, &known);
        assignment.panics.note(&cause, mono_ms);
        let turn = std::mem::take(&mut self.turn);
        for effect in turn.now.into_iter().chain(turn.committed).chain(turn.read) {
            if let Effect::Answer { to, .. } = effect {
                to.answer(Err(Failure::Internal));
            }
        }
        refusal.into_iter().for_each(|refusal| carry_out(&self.shared, &assignment.entity, refusal));
        let host = assignment.host.take();
        contain::blaming(cause.caller(), || drop(host));
        assignment.health = Health::Draining(VecDeque::new());
        self.restart();
    }

    /// Restarts from committed state once all proposals are applied. Before that, committed state lacks decisions that others may
    /// know, and a seat would be granted twice. If the leadership ends instead, so does this actor.
    fn restart(&mut self) {
        let Some(TakenEntity { actor, assignment }) = &mut self.current else { return };
        let Health::Draining(held) = &mut assignment.health else { return };
        if !actor.under_way.wait_for_turns() {
            return;
        }
        let held = std::mem::take(held);
        actor.under_way.stop_waiting();
        let mono_ms = self.shared.world.clock.monotonic_ms();
        if let Some(until_ms) = assignment.panics.cooldown_until_ms(mono_ms) {
            assignment.health = Health::CoolingDown(until_ms);
            self.shared.timers.arm(until_ms, &assignment.entity);
            return held.into_iter().for_each(|input| self.ignore(input));
        }
        let state = assignment.lead.state.replica.lock().kept.get(&assignment.entity);
        assignment.health = Health::Healthy;
        load(actor, assignment, &self.shared, state);
        // Unfinished work goes on, as after a change of leaders. A wake that led to the panic comes again as well.
        for input in [Input::Wake].into_iter().chain(held) {
            self.decide_or_hold(mono_ms, input);
        }
    }

    /// The entity's record was read. Inputs that came meanwhile are decided.
    fn loaded(&mut self, mono_ms: u64, found: Result<Option<StoredEntity>, ReadError>) {
        let Some(TakenEntity { assignment, .. }) = &mut self.current else { return };
        let Health::Loading(held) = &mut assignment.health else { return };
        let held = std::mem::take(held);
        assignment.health = Health::Healthy;
        match found {
            Ok(stored) => {
                let state = stored.map(|stored| stored.state);
                assignment.reloaded.clone_from(&state);
                let rules = assignment.lead.rules(&self.shared.config.rules);
                assignment.host = Some(Host::new(assignment.entity.clone(), state, rules));
                for input in held {
                    if let Some(input) = self.in_time(input, mono_ms) {
                        self.decide_or_hold(mono_ms, input);
                    }
                }
            }
            Err(error) => {
                let has_others = assignment.lead.state.voters.load(Ordering::Relaxed) > 1;
                let is_final = matches!(error, ReadError::Damaged(_)) && !has_others;
                held.into_iter().for_each(|input| self.unread(input, is_final));
            }
        }
    }

    /// Handles an input to an entity whose record could not be read. Nothing is decided. Unless that is final, it can be read later,
    /// or by another replica, which leads the shard soon.
    fn unread(&self, input: Input<Caller>, is_final: bool) {
        match input {
            input if is_final => self.ignore(input),
            Input::Command { from, .. } => from.answer(Err(Failure::NotReady)),
            // They come again.
            Input::Ask { .. } | Input::Reply { .. } | Input::Paid { .. } | Input::Wake => {}
        }
    }

    /// Handles an input to an entity that panicked again and again, or from one that panics it. The sender gets a failure, and
    /// nothing is decided.
    fn ignore(&self, input: Input<Caller>) {
        let Some(TakenEntity { assignment, .. }) = &self.current else { return };
        if let Some(refusal) = refusal_of(&input) {
            carry_out(&self.shared, &assignment.entity, refusal);
        }
        if let Input::Command { from, .. } = input {
            from.answer(Err(Failure::Internal));
        }
    }

    /// A cart that has ended and owes nothing is not asked for again soon, so its actor is freed for the next one.
    fn leave_if_ended(&mut self) {
        let has_ended = |host: &Host<Caller>| host.ended() && host.idle();
        if self.current.as_ref().and_then(|work| work.assignment.host.as_ref()).is_some_and(has_ended) {
            self.leave();
        }
    }

    fn leave(&mut self) {
        self.restart();
        self.current = self.current.take().and_then(|work| release(work, &self.shared));
    }
}

/// Leaves the entity for good if nothing is under way for it. Otherwise returns it.
fn release(work: TakenEntity, shared: &Arc<Shared>) -> Option<TakenEntity> {
    let TakenEntity { actor, assignment } = &work;
    if assignment.host.as_ref().is_none_or(|host| !host.idle()) {
        return Some(work);
    }
    // If something is in flight, the actor gets a message when nothing is.
    let _ = actor.under_way.wait_for_turns();
    // No message can be sent while the lock is held, and earlier ones are counted. The committed state is the whole state only
    // when nothing is in flight.
    let mut leader_state = assignment.lead.leader_state.lock();
    let still = leader_state.leadership.is_some_and(|leadership| leadership.epoch == assignment.leadership.epoch);
    if !still || !actor.under_way.is_idle() {
        drop(leader_state);
        return Some(work);
    }
    leader_state.actors.remove(&assignment.entity);
    drop(leader_state);
    if let Closed::Wanted = actor.slot.close() {
        // The actor has unread messages for the entity, and must read them before those of the next one.
        actor.cast(EntityMessage::StateIsBack);
    }
    shared.pool.put(&actor.mailbox);
    None
}

/// All turns of an entity are applied and its actor waits for that. The entity is released, or its actor restarts it.
pub(crate) fn nothing_in_flight(shared: &Arc<Shared>, actor: &Arc<ActorHandle>) {
    match actor.slot.borrow_if(|assignment| matches!(assignment.health, Health::Healthy)) {
        Some(assignment) => {
            if let Some(work) = release(TakenEntity { actor: Arc::clone(actor), assignment }, shared) {
                actor.put_back(work.assignment);
            }
        }
        None => actor.cast(EntityMessage::Leave),
    }
}

/// Begins with a committed state. If there is none in memory, the entity is new, or it waits until its record is read.
fn load(actor: &Arc<ActorHandle>, assignment: &mut Assignment, shared: &Shared, state: Option<Arc<State>>) {
    let (shard, entity) = (assignment.lead.id, &assignment.entity);
    assignment.reloaded = None;
    if state.is_none() && shared.replication.history.look_up(shard, entity) != Lookup::None {
        assignment.health = Health::Loading(VecDeque::new());
        // As for any message, so that the actor does not leave the entity meanwhile, and later messages come behind it.
        actor.under_way.message_sent();
        let actor = Arc::clone(actor);
        let then = move |found| actor.cast(EntityMessage::Loaded(found));
        return shared.replication.reads.read(shard, entity.clone(), Box::new(then));
    }
    assignment.host = Some(Host::new(entity.clone(), state, assignment.lead.rules(&shared.config.rules)));
}

/// The result of a decision.
enum Decided {
    /// A turn, with the bytes of its events.
    Turn(Vec<u8>),
    /// A cart's turn without this ask, which the inventory may decide together with it, and the sender of the command.
    Asks((Entity, Ask), Option<SmolStr>),
}

/// What a panic of a decision is blamed on.
struct Blame {
    /// The kind of the input, for the log.
    kind: &'static str,
    cause: Cause,
    /// The answer to an entity that asked for a hold.
    refusal: Option<Effect<Caller>>,
}

impl Blame {
    fn of(input: &Input<Caller>) -> Blame {
        Blame { kind: contain::kind_of(input), cause: Cause::of(input), refusal: refusal_of(input) }
    }
}

/// Takes a turn's events, and the effects that wait for them, for a proposal. Its actor counts the turn as in flight.
fn proposed(
    actor: &Arc<ActorHandle>,
    entity: Entity,
    reloaded: Option<Arc<State>>,
    turn: &mut Turn<Caller>,
) -> PendingCommit {
    let has_changed = !turn.events.is_empty();
    if has_changed {
        actor.under_way.turn_proposed();
    }
    PendingCommit {
        entity,
        versions: (turn.after, turn.after + turn.events.len() as u64),
        events: std::mem::take(&mut turn.events),
        effects: std::mem::take(&mut turn.committed),
        actor: has_changed.then(|| Arc::clone(actor)),
        reloaded,
        cart: None,
    }
}

/// Whether no answer and no message depends on a turn, because it only notes that a cart's messages were acknowledged. If the
/// turn is lost, they are sent again.
fn is_quiet(turn: &Turn<Caller>) -> bool {
    let is_delivered = |event: &Event| matches!(event, Event::Cart(CartEvent::Delivered { .. }));
    turn.committed.is_empty() && turn.read.is_empty() && turn.events.iter().all(is_delivered)
}

/// The bytes of a turn's events. Empty if there are none.
fn encoded(entity: &Entity, by: Option<&SmolStr>, turn: &Turn<Caller>) -> Vec<u8> {
    if turn.events.is_empty() {
        return Vec::new();
    }
    codec::encode(entity, by.or_else(|| answered_of(turn)), &turn.events)
}

/// The refusal to an entity that asks for a hold, if the decision on it fails, so that its client need not wait. Everything else
/// is asked again until it is decided.
fn refusal_of(input: &Input<Caller>) -> Option<Effect<Caller>> {
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

/// The same for a command that had to wait for others. It is answered in the turn in which it takes effect.
fn answered_of(turn: &Turn<Caller>) -> Option<&SmolStr> {
    turn.committed.iter().find_map(|effect| match effect {
        Effect::Answer { to, outcome: Ok(_) } => to.asker(),
        Effect::Answer { .. } | Effect::Ask { .. } | Effect::Reply { .. } | Effect::Pay(_) => None,
    })
}

/// The actor that serves `entity`, starting on it if none does.
pub(crate) fn actor_of(
    shared: &Arc<Shared>,
    lead: &Arc<ShardLead>,
    leader_state: &mut LeaderState,
    entity: &Entity,
) -> Option<Arc<ActorHandle>> {
    if let Some(actor) = leader_state.actors.get(entity) {
        return Some(Arc::clone(actor));
    }
    let leadership = leader_state.leadership?;
    let state = lead.state.replica.lock().kept.get(entity);
    let committed = state.as_deref().map_or(0, State::version);
    let host = state.map(|state| Host::new(entity.clone(), Some(state), lead.rules(&shared.config.rules)));
    let mailbox = shared.pool.take().unwrap_or_else(|| spawn(shared));
    let health = Health::Healthy;
    let assignment = Assignment {
        entity: entity.clone(),
        host,
        reloaded: None,
        health,
        panics: PanicHistory::default(),
        lead: Arc::clone(lead),
        leadership,
    };
    let actor = Arc::new(ActorHandle {
        mailbox,
        slot: StateSlot::new(Box::new(assignment)),
        under_way: UnderWay::default(),
        committed: AtomicU64::new(committed),
        used_ms: AtomicU64::new(shared.world.clock.monotonic_ms()),
    });
    leader_state.actors.insert(entity.clone(), Arc::clone(&actor));
    Some(actor)
}

/// Starts one more actor, which serves no entity yet.
fn spawn(shared: &Arc<Shared>) -> ActorRef<Envelope> {
    let _runtime = shared.tasks.selling.enter();
    let (actor, _starting) = ActorRuntime::spawn_instant(None, EntityActor, Arc::clone(shared))
        .expect("an actor without a name cannot collide with another");
    actor
}

//! A fixture for tests of the rules, with hosts of several entities, their committed states, and the messages between them.
//!
//! The test controls every step. It delivers a message, commits a proposal, crashes a host, or lets time pass. Every commit
//! checks all promises.

mod answers;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use boxoffice_core::{
    answer::{Answered, At, CartAudit, Outcome},
    ask::{Ask, Reply},
    command::{
        CartCommand, CodeCommand, Command, Expect, Offer, ProductCommand, ResourceCommand, SessionCommand, VenueCommand,
    },
    event::{CartEvent, Event, ProductEvent, SessionEvent},
    host::{Effect, Host, Input, Turn},
    id::{Entity, Id, OrderId, Request, RequestHash, hash64},
    payment::{GatewayCall, PaymentStatus, RefundStatus, VoidStatus},
    portion::{BoughtAs, Content},
    refusal::Refusal,
    rules::Rules,
    session::Session,
    state_map::{State, StateMap},
    time::{Moment, Timestamp},
    version::{ClusterVersion, OLDEST_READ, newest},
};

use crate::{
    folds,
    hold_lifetimes::HoldLifetimes,
    oldest_release,
    random_runs::{FRIENDS, FRIENDS_MAX},
    test_gateway::TestGateway,
    watch::{WatchedBefore, Watchers},
};

/// Identifies the answer to a client.
pub(crate) type Ticket = u32;

/// A requested change, by its entity, and the request's id and body.
type AskedChange = (Entity, RequestHash, u64);

/// A message to an entity.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) to: Entity,
    pub(crate) input: Input<Ticket>,
}

/// Events that are not committed yet, with the effects that wait for them.
struct Proposal {
    events: Vec<Event>,
    effects: Vec<Effect<Ticket>>,
}

struct Actor {
    host: Host<Ticket>,
    proposals: VecDeque<Proposal>,
    /// All instants at which it wants to be woken.
    wakes: BTreeSet<Timestamp>,
}

/// The host of a deposed leader that does not know its successor.
struct DeposedHost {
    entity: Entity,
    host: Host<Ticket>,
    /// Its committed proposals with their log positions. It may learn of them at any time.
    late: VecDeque<(Vec<Effect<Ticket>>, u64)>,
}

pub(crate) struct Fixture {
    /// Running time.
    pub(crate) now: Timestamp,
    /// True time minus running time.
    pub(crate) distance_ms: i64,
    /// The version of the cluster. Under the oldest one, the program of that release must be able to read everything.
    pub(crate) version: ClusterVersion,
    pub(crate) states: StateMap,
    /// Evicted tombstones.
    pub(crate) past: BTreeMap<Entity, Arc<State>>,
    pub(crate) mail: VecDeque<Message>,
    /// Calls on their way to the gateway.
    pub(crate) calls: VecDeque<GatewayCall>,
    pub(crate) gateway: TestGateway,
    /// The limit of all customers in all quotas, if it is the same.
    pub(crate) quota_max: Option<u64>,
    /// How many uses every code has.
    pub(crate) code_uses: Option<u32>,
    /// Whether calls reach the gateway.
    pub(crate) gateway_open: bool,
    /// All messages that were ever sent. Tests deliver some of them again.
    pub(crate) posted: Vec<Message>,
    pub(crate) answers: BTreeMap<Ticket, Outcome>,
    /// Committed events, in order.
    pub(crate) log: Vec<(Entity, Event)>,
    /// The length of the log after each turn, whose events are committed together.
    pub(crate) turns: Vec<usize>,
    rules: Arc<Rules>,
    actors: BTreeMap<Entity, Actor>,
    deposed: Vec<DeposedHost>,
    tickets: BTreeMap<Ticket, Option<AskedChange>>,
    /// Tickets whose host has crashed. Their clients have no answer.
    lost: BTreeSet<Ticket>,
    /// Granted answers by entity and request. A repeat must get the same answer with the same versions (P9).
    granted: BTreeMap<AskedChange, Answered>,
    /// Failed payments by entity and request. A repeat must get the same refusal.
    failed: BTreeMap<AskedChange, Refusal>,
    /// The expectations of buyers.
    expected: BTreeMap<Ticket, Expect>,
    /// Orders that the present host has reported as sold.
    sold: BTreeSet<OrderId>,
    watchers: Watchers,
    lifetimes: HoldLifetimes,
    /// How long clients wait, in milliseconds.
    pub(crate) timeout_ms: u64,
    /// By cart and request: until when a client waits for it.
    waits_until: BTreeMap<(Entity, RequestHash), Timestamp>,
    /// The raise of the versions of each entity.
    raised: BTreeMap<Entity, u64>,
    turn: Turn<Ticket>,
}

impl Fixture {
    pub(crate) fn new(rules: Rules) -> Fixture {
        folds::begin();
        // Nothing else writes what the hosts of this thread read.
        #[cfg(debug_assertions)]
        boxoffice_core::stored::own::only(true);
        Fixture {
            now: Timestamp(0),
            distance_ms: 0,
            states: StateMap::new(),
            past: BTreeMap::new(),
            mail: VecDeque::new(),
            calls: VecDeque::new(),
            gateway: TestGateway::default(),
            quota_max: None,
            code_uses: None,
            version: newest(),
            gateway_open: true,
            posted: Vec::new(),
            answers: BTreeMap::new(),
            log: Vec::new(),
            turns: Vec::new(),
            rules: Arc::new(rules),
            actors: BTreeMap::new(),
            deposed: Vec::new(),
            tickets: BTreeMap::new(),
            lost: BTreeSet::new(),
            granted: BTreeMap::new(),
            failed: BTreeMap::new(),
            expected: BTreeMap::new(),
            sold: BTreeSet::new(),
            watchers: Watchers::default(),
            timeout_ms: u64::MAX,
            waits_until: BTreeMap::new(),
            lifetimes: HoldLifetimes::default(),
            raised: BTreeMap::new(),
            turn: Turn::default(),
        }
    }

    /// Sets the rules of hosts that start from now on, as after a restart with another configuration.
    pub(crate) fn set_rules(&mut self, rules: Rules) {
        self.rules = Arc::new(rules);
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// A client sends a command. Its answer will have this ticket.
    pub(crate) fn send(&mut self, request: Option<&str>, command: Command) -> Ticket {
        self.send_within(request, command, self.timeout_ms)
    }

    /// The same, of a client that waits this long from when its command is decided.
    pub(crate) fn send_within(&mut self, request: Option<&str>, command: Command, timeout_ms: u64) -> Ticket {
        let body = hash64(format!("{command:?}").as_bytes());
        let request = request.map(|id| Request { id: RequestHash::of(id), body });
        let ticket = self.tickets.len() as Ticket;
        let asked = request.filter(|_| changes(&command)).map(|request| (command.entity(), request.id, request.body));
        self.tickets.insert(ticket, asked);
        if let Command::Cart(_, CartCommand::Checkout { expect, .. }) = &command {
            self.expected.insert(ticket, expect.clone());
        }
        let to = command.entity();
        self.post(Message { to, input: Input::Command { from: ticket, request, command, timeout_ms } });
        ticket
    }

    pub(crate) fn post(&mut self, message: Message) {
        if !matches!(message.input, Input::Wake) {
            self.posted.push(message.clone());
        }
        self.mail.push_back(message);
    }

    /// Hands a message to its entity's host, which is started if it is not there.
    pub(crate) fn deliver(&mut self, message: Message) {
        let Message { to, input } = message;
        let state = self.states.get(&to).or_else(|| self.past.get(&to).cloned());
        let rules = Arc::clone(&self.rules);
        let actor = self.actors.entry(to.clone()).or_insert_with(|| Actor {
            host: Host::new(to.clone(), state, rules),
            proposals: VecDeque::new(),
            wakes: BTreeSet::new(),
        });
        let turn = &mut self.turn;
        turn.clear();
        let woken = matches!(input, Input::Wake);
        let moment = Moment { at: self.now, distance_ms: self.distance_ms, version: self.version };
        if let Input::Reply { reply: Reply::MineFor { hold, life_ms }, .. } = &input {
            self.lifetimes.note_received(self.now, &to, *hold, *life_ms);
        }
        if let Input::Command { request: Some(request), timeout_ms, .. } = &input {
            let until = self.waits_until.entry((to.clone(), request.id)).or_default();
            *until = self.now.after(*timeout_ms).max(*until);
        }
        actor.host.handle(moment, input, turn);
        for request in turn.events.iter().filter_map(granted) {
            let until = self.waits_until[&(to.clone(), request)];
            assert!(self.now < until, "no client waits any more for what {to} grants {request:?} at {:?}", self.now);
        }
        for effect in turn.now.iter().chain(&turn.committed).chain(&turn.read) {
            if let Effect::Reply { to, reply: Reply::MineFor { hold, life_ms } } = effect {
                self.lifetimes.note_sent(self.now, to, *hold, *life_ms);
            }
        }
        let again = !woken || turn.wake_at.is_none_or(|wake_at| wake_at > self.now);
        assert!(again, "{to} is awake and asks to be woken at {:?} at {:?}", turn.wake_at, self.now);
        if let Some(state) = self.states.get(&to)
            && matches!(&*state, State::Session(_) | State::Product(_) | State::Resource(_) | State::Customer(_))
            && turn.events.is_empty()
            && actor.proposals.is_empty()
        {
            let waits = state.deadline().is_some() || state.unfinished();
            assert!(
                waits || turn.wake_at.is_none(),
                "{to} waits for nothing and wants to be woken at {:?}",
                turn.wake_at
            );
        }
        actor.wakes.extend(turn.wake_at);
        let events = std::mem::take(&mut turn.events);
        let effects: Vec<_> = turn.committed.drain(..).chain(turn.read.drain(..)).collect();
        if !events.is_empty() || !effects.is_empty() {
            actor.proposals.push_back(Proposal { events, effects });
        } else if actor.host.idle() && actor.proposals.is_empty() {
            self.actors.remove(&to);
        }
        let now = std::mem::take(&mut self.turn.now);
        for effect in now {
            self.carry_out(&to, effect, None);
        }
    }

    /// Entities with proposals or waiting effects.
    pub(crate) fn proposing(&self) -> Vec<Entity> {
        let busy = self.actors.iter().filter(|(_, actor)| !actor.proposals.is_empty());
        busy.map(|(entity, _)| entity.clone()).collect()
    }

    /// Lets the gateway answer the oldest call. Returns whether there was one.
    pub(crate) fn pay(&mut self) -> bool {
        let Some(call) = self.calls.pop_front() else { return false };
        let outcome = self.gateway.answer(&call);
        let input = Input::Paid { key: call.key(), step: call.step(), outcome };
        self.post(Message { to: Entity::Cart(call.key().cart), input });
        true
    }

    /// Commits the oldest proposal of an entity.
    pub(crate) fn commit(&mut self, entity: &Entity) {
        let actor = self.actors.get_mut(entity).expect("only hosts propose");
        let Proposal { events, effects } = actor.proposals.pop_front().expect("something was proposed");
        let position = (!events.is_empty()).then_some(self.log.len() as u64 + 1);
        self.write(entity, events);
        for effect in effects {
            self.carry_out(entity, effect, position);
        }
        let actor = &self.actors[entity];
        if actor.proposals.is_empty() && actor.host.idle() {
            self.actors.remove(entity);
        }
    }

    /// Crashes the entity's host. Its first `survive` proposals are committed, but their effects are lost.
    pub(crate) fn crash(&mut self, entity: &Entity, survive: usize) {
        let Some(actor) = self.actors.remove(entity) else { return };
        for proposal in actor.proposals.into_iter().take(survive) {
            self.write(entity, proposal.events);
        }
        self.lose_clients(entity);
    }

    /// Deposes the leader of an entity, which may have been idle, without its knowledge. Its first `survive` proposals are
    /// committed.
    pub(crate) fn depose(&mut self, entity: &Entity, survive: usize) {
        let (host, proposals) = match self.actors.remove(entity) {
            Some(actor) => (actor.host, actor.proposals),
            None => {
                let state = self.states.get(entity).or_else(|| self.past.get(entity).cloned());
                (Host::new(entity.clone(), state, Arc::clone(&self.rules)), VecDeque::new())
            }
        };
        let mut late = VecDeque::new();
        for Proposal { events, effects } in proposals.into_iter().take(survive) {
            if !events.is_empty() {
                late.push_back((effects, self.log.len() as u64 + 1));
                self.write(entity, events);
            }
        }
        self.deposed.push(DeposedHost { entity: entity.clone(), host, late });
        self.lose_clients(entity);
    }

    /// The number of deposed hosts.
    pub(crate) fn deposed(&self) -> usize {
        self.deposed.len()
    }

    /// The deposed hosts of an entity, by place.
    pub(crate) fn deposed_of(&self, entity: &Entity) -> Vec<usize> {
        (0..self.deposed.len()).filter(|place| self.deposed[*place].entity == *entity).collect()
    }

    /// Sends something to a deposed host. Its decisions are never committed, but its immediate effects are carried out.
    pub(crate) fn send_to_deposed(&mut self, place: usize, input: Input<Ticket>) {
        let moment = Moment { at: self.now, distance_ms: self.distance_ms, version: self.version };
        let mut turn = Turn::default();
        let deposed = &mut self.deposed[place];
        deposed.host.handle(moment, input, &mut turn);
        let entity = deposed.entity.clone();
        self.carry_out_late(&entity, turn.now, None);
    }

    /// Wakes a deposed host.
    pub(crate) fn wake_deposed(&mut self, place: usize) {
        self.send_to_deposed(place, Input::Wake);
    }

    /// A deposed host learns that its oldest proposal was committed.
    pub(crate) fn commit_deposed(&mut self, place: usize) {
        let deposed = &mut self.deposed[place];
        if let Some((effects, position)) = deposed.late.pop_front() {
            let entity = deposed.entity.clone();
            self.carry_out_late(&entity, effects, Some(position));
        }
    }

    /// A deposed host learns that another one leads.
    pub(crate) fn end_deposed(&mut self, place: usize) {
        self.deposed.remove(place);
    }

    /// Carries out all effects but answers, because the clients of a deposed host count as lost.
    fn carry_out_late(&mut self, from: &Entity, effects: Vec<Effect<Ticket>>, position: Option<u64>) {
        for effect in effects {
            if !matches!(effect, Effect::Answer { .. }) {
                self.carry_out(from, effect, position);
            }
        }
    }

    fn lose_clients(&mut self, entity: &Entity) {
        // The next host of this cart knows only what is written.
        if let Entity::Cart(cart) = entity {
            self.sold.remove(&cart.order());
        }
        // Clients that waited for this host get no answer.
        let here = |message: &&Message| message.to == *entity;
        for message in self.posted.iter().filter(here) {
            if let Input::Command { from, .. } = &message.input
                && !self.answers.contains_key(from)
                && !self
                    .mail
                    .iter()
                    .any(|mail| matches!(&mail.input, Input::Command { from: queued, .. } if queued == from))
            {
                self.lost.insert(*from);
            }
        }
        if self.states.get(entity).is_some_and(|state| state.unfinished()) {
            self.post(Message { to: entity.clone(), input: Input::Wake });
        }
    }

    /// Replaces all hosts and states. The new states differ only by numbers. Versions and attempts to pay are higher by this
    /// much.
    pub(crate) fn restart_from(&mut self, states: StateMap, versions: u64, attempts: u32) {
        let busy: Vec<Entity> = self.actors.keys().cloned().collect();
        busy.iter().for_each(|entity| self.crash(entity, 0));
        // Clients still wait for their answers. Messages between entities are lost.
        self.mail.retain(|message| matches!(message.input, Input::Command { .. }));
        self.calls.clear();
        self.granted.clear();
        self.gateway.raise(attempts);
        self.watchers.restart_from(&states);
        self.lifetimes.restart_from(self.now, &states);
        self.raised = states.entities().map(|(entity, _)| (entity.clone(), versions)).collect();
        self.past.clear();
        self.states = states;
        let unfinished: Vec<Entity> = self.states.unfinished().cloned().collect();
        unfinished.into_iter().for_each(|to| self.post(Message { to, input: Input::Wake }));
    }

    /// Delivers and commits, oldest first, until nothing is left to do now.
    pub(crate) fn run(&mut self) {
        self.run_but(|_| true, |_| true);
    }

    /// Like `run`, with only the messages and commits that pass the filters.
    pub(crate) fn run_but(&mut self, deliver: impl Fn(&Entity) -> bool, commit: impl Fn(&Entity) -> bool) {
        for _ in 0..100_000 {
            if let Some(place) = self.mail.iter().position(|message| deliver(&message.to)) {
                let message = self.mail.remove(place).expect("just found");
                self.deliver(message);
                continue;
            }
            if self.gateway_open && self.pay() {
                continue;
            }
            match self.proposing().into_iter().find(|entity| commit(entity)) {
                Some(entity) => self.commit(&entity),
                None => return,
            }
        }
        panic!("the fixture does not become idle");
    }

    /// The next instant at which an entity wants to be woken.
    pub(crate) fn next_wake(&self) -> Option<Timestamp> {
        let timers = self.actors.values().filter_map(|actor| actor.wakes.first().copied());
        timers.chain(self.states.next_deadline()).min()
    }

    /// Lets a span of time pass, from wake to wake, with a `run` after each.
    pub(crate) fn wait(&mut self, span_ms: u64, mut run: impl FnMut(&mut Fixture)) {
        let until = self.now.after(span_ms);
        while let Some(wake) = self.next_wake().filter(|wake| *wake <= until) {
            self.pass(wake);
            run(self);
        }
        self.pass(until);
        run(self);
    }

    /// Lets time pass to `until`, and sends the wakes that are due then.
    pub(crate) fn pass(&mut self, until: Timestamp) {
        self.now = self.now.max(until);
        let now = self.now;
        let mut due = Vec::new();
        self.states.due(now, 1_000, &mut due);
        for (entity, actor) in &mut self.actors {
            if actor.wakes.first().is_some_and(|wake_at| *wake_at <= now) {
                actor.wakes.retain(|wake_at| *wake_at > now);
                due.push(entity.clone());
            }
        }
        for to in due {
            self.post(Message { to, input: Input::Wake });
        }
    }

    /// A venue knows when the sales of its sessions open.
    pub(crate) fn check_opening(&self, entity: &Entity, state: &State) {
        let (Entity::Session(id), State::Session(session)) = (entity, state) else { return };
        let venue = self.states.get(&Entity::Venue(session.view().venue.clone())).expect("its venue is there");
        let State::Venue(venue) = &*venue else { panic!("not a venue") };
        assert_eq!(venue.opens_at(id), session.opens_at(), "what the venue of session {id} knows of its sale");
    }

    /// Each seat and place that a hold gets costs what one of the offers asks for it at that moment (P7).
    fn check_offered(session: &Session, events: &[Event]) {
        let mut session = session.clone();
        for event in events {
            let Event::Session(event) = event else { continue };
            if let Some(sale) = &session.view().sale {
                let (asked, held) = (asked(&session, &sale.opened), held_before(&session, event));
                match event {
                    SessionEvent::SeatsHeld { seats, prices: Some(prices), .. } => {
                        assert_eq!(seats.len(), prices.len());
                        for price in prices.iter() {
                            assert!(asked.contains(&price.price), "{price:?} and none of {asked:?}");
                        }
                    }
                    SessionEvent::SeatsHeld { hold, .. } => panic!("{hold:?} has no prices"),
                    SessionEvent::PlacesHeld { quantity, price, .. } if *quantity > held => {
                        let price = price.as_ref().map_or(500, |price| price.price);
                        assert!(asked.contains(&price), "{price:?} and none of {asked:?}");
                    }
                    _ => {}
                }
            }
            session.apply(event);
        }
    }

    /// Each unit costs what the product costs when it is held (P7).
    fn check_prices(&self, entity: &Entity, events: &[Event]) {
        let state = self.states.get(entity);
        if let Some(State::Session(session)) = state.as_deref() {
            return Fixture::check_offered(session, events);
        }
        let Some(State::Product(product)) = state.as_deref() else { return };
        for event in events {
            let Event::Product(ProductEvent::UnitsHeld { hold, quantity, price, .. }) = event else { continue };
            let had = state.as_ref().and_then(|state| state.held(*hold)).map_or(0, |held| held.quantity());
            let costs = product.view().details.price.amount;
            assert!(*quantity <= had || *price == costs, "{entity} has {costs}, and {hold:?} gets more at {price}");
        }
    }

    fn write(&mut self, entity: &Entity, events: Vec<Event>) {
        if events.is_empty() {
            self.turns.push(self.log.len());
            return;
        }
        if self.version == OLDEST_READ {
            events.iter().for_each(|event| oldest_release::reads("Event", event));
        }
        folds::note(entity, &events);
        self.log.extend(events.iter().map(|event| (entity.clone(), event.clone())));
        if !self.states.contains(entity)
            && let Some(state) = self.past.remove(entity)
        {
            assert!(!State::never_archived(&events), "{entity} restarts after its eviction");
            self.states.reload(entity.clone(), state);
        }
        self.check_prices(entity, &events);
        let watched = WatchedBefore::of(entity, &events, &self.states);
        self.states.apply(entity, events.clone());
        if let Some(before) = watched {
            before.check_change(entity, &self.states);
        }
        self.watchers.apply(entity, &events, &self.states);
        self.lifetimes.record_events(self.now, entity, &events, &self.states, &self.rules);
        self.check();
        for leaving in self.states.take_evictable() {
            if leaving.state.is_tombstone() {
                assert!(self.states.evict(&leaving.entity, leaving.index), "{} may leave", leaving.entity);
                self.past.insert(leaving.entity, leaving.state);
            }
        }
    }

    /// Checks every promise that can be checked at any instant.
    fn check(&self) {
        let audit = self.states.audit();
        assert_eq!(audit.violations, [""; 0], "at {:?}", self.now);
        self.check_charged();
        self.check_quotas();
        self.check_codes();
        self.check_friends();
    }

    /// No customer has more under the offer with a limit per customer than that, in all lines of carts and orders of a session.
    fn check_friends(&self) {
        if self.code_uses.is_none() {
            return;
        }
        let mut had: BTreeMap<(Id, Entity), u32> = BTreeMap::new();
        for (_, state) in self.states.entities() {
            let State::Cart(cart) = &**state else { continue };
            let Some(CartAudit { cart: view, holds, .. }) = cart.audit().filter(|audit| audit.cart.ended.is_none())
            else {
                continue;
            };
            // What was released or paid back is not claimed any more.
            let claimed = |number: u32| holds.iter().any(|claim| claim.line == number && claim.portion.is_some());
            for line in view.lines.into_iter().filter(|line| claimed(line.line)) {
                let count = match &line.content {
                    Content::Seats(seats) => seats.iter().filter(|priced| is_friends(&priced.bought_as)).count() as u32,
                    Content::Places { quantity, bought_as, .. } if is_friends(bought_as) => *quantity,
                    Content::Places { .. } | Content::Units { .. } | Content::Slot { .. } => 0,
                };
                if count > 0 {
                    let customer = view.customer.clone().expect("nobody has the limit of a customer");
                    *had.entry((customer, line.entity.clone())).or_default() += count;
                }
            }
        }
        for ((customer, session), count) in had {
            assert!(count <= FRIENDS_MAX, "{customer} has {count} of the offer {FRIENDS} of {session}");
        }
    }

    /// No code has more uses in carts and orders than it is good for.
    fn check_codes(&self) {
        let Some(max) = self.code_uses else { return };
        for (entity, state) in self.states.entities() {
            let State::Code(code) = &**state else { continue };
            let audit = code.audit();
            let holds = audit.holds.iter().map(|hold| (hold.hold.cart, &hold.portion));
            let all = holds.chain(audit.sales.iter().map(|sale| (sale.hold.cart, &sale.portion)));
            let used = match audit.counts.by_order {
                true => all.map(|(cart, _)| cart).collect::<BTreeSet<_>>().len() as u64,
                false => all.map(|(_, portion)| u64::from(portion.quantity())).sum(),
            };
            assert_eq!(audit.counts.held + audit.counts.sold, used, "{entity}: {audit:?}");
            assert!(used <= u64::from(max), "{entity} has {used}: {audit:?}");
        }
    }

    /// No customer has more than its limit, held and sold together.
    fn check_quotas(&self) {
        let Some(max) = self.quota_max else { return };
        for (entity, state) in self.states.entities() {
            let State::Customer(customer) = &**state else { continue };
            for (quota, held, sold) in customer.audit().quotas {
                assert!(held + sold <= max, "{entity} has {held} and bought {sold} of {quota}, the limit is {max}");
            }
        }
    }

    /// Every charge has an order that shows it, and every refund and void has a record (P11).
    fn check_charged(&self) {
        for (key, account) in &self.gateway.accounts {
            if account.captured.is_none() {
                continue;
            }
            let cart = self.states.get(&Entity::Cart(key.cart));
            let Some(State::Cart(cart)) = cart.as_deref() else { panic!("{key} was charged without a cart") };
            let total = cart.order().map(|order| order.total.amount);
            assert_eq!(account.captured, total, "{key} was charged without an order");
        }
    }

    /// At the end every authorization was captured for an order, voided, or is recorded as failed (P11).
    pub(crate) fn check_money(&self) {
        let mut orders = 0;
        for (key, account) in &self.gateway.accounts {
            let cart = self.states.get(&Entity::Cart(key.cart));
            let Some(State::Cart(cart)) = cart.as_deref() else { panic!("{key} was paid without a cart") };
            let audit = cart.audit().expect("a cart that paid was opened");
            let void = audit.voids.iter().find(|void| void.attempt == key.attempt).map(|void| &void.status);
            let failed = matches!(audit.payment, Some(PaymentStatus::CaptureFailed { .. }))
                || matches!(void, Some(VoidStatus::Failed { .. }));
            let settled = account.authorized.is_none() || account.captured.is_some() || account.voided || failed;
            assert!(settled, "{key}: {account:?} stays authorized for ever");
            assert!(
                !account.voided || void == Some(&VoidStatus::Voided),
                "{key} was voided, but its record is {void:?}"
            );
            assert_ne!(void, Some(&VoidStatus::Pending), "{key}");
            if account.captured.is_some() {
                orders += 1;
                assert_eq!(audit.payment, Some(PaymentStatus::Captured), "{key}");
                let refunded = audit.refunds.iter().filter(|refund| refund.status == RefundStatus::Refunded);
                let refunded: i64 = refunded.map(|refund| refund.amount.amount).sum();
                assert_eq!(refunded, account.refunded.values().sum::<i64>(), "{key}: refunds differ from the records");
            }
            assert!(audit.refunds.iter().all(|refund| refund.status != RefundStatus::Pending), "{key}: {audit:?}");
        }
        let charged = self.states.entities().filter(|(_, state)| {
            let State::Cart(cart) = &***state else { return false };
            cart.audit().is_some_and(|audit| audit.payment == Some(PaymentStatus::Captured))
        });
        assert_eq!(charged.count(), orders, "orders paid through the gateway");
    }

    fn carry_out(&mut self, from: &Entity, effect: Effect<Ticket>, position: Option<u64>) {
        if self.version == OLDEST_READ {
            match &effect {
                Effect::Answer { outcome: Ok(answered), .. } => oldest_release::reads("Answered", answered),
                Effect::Answer { outcome: Err(refusal), .. } => oldest_release::reads("Refusal", refusal),
                Effect::Ask { ask, .. } => oldest_release::reads("Ask", ask),
                Effect::Reply { reply, .. } => oldest_release::reads("Reply", reply),
                Effect::Pay(_) => {}
            }
        }
        match effect {
            Effect::Answer { to, outcome } => self.answer(to, outcome),
            Effect::Ask { to, ask } => self.post(Message { to, input: Input::Ask { from: from.clone(), ask } }),
            Effect::Pay(call) => self.calls.push_back(call),
            Effect::Reply { to, mut reply } => {
                if let Some(position) = position {
                    reply.set_position(position);
                }
                self.post(Message { to, input: Input::Reply { from: from.clone(), reply } });
            }
        }
    }

    fn answer(&mut self, ticket: Ticket, outcome: Outcome) {
        self.check_failure(ticket, &outcome);
        if let Ok(answered) = &outcome {
            for At { entity, version, .. } in &answered.at {
                let committed = self.states.get(entity).map_or(0, |state| state.version());
                assert!(*version <= committed, "answered {answered:?} before version {committed} of {entity}");
            }
            self.lifetimes.answered(answered, self.distance_ms);
            self.check_order(ticket, &answered.answer);
            self.check_settling(&answered.answer);
            if let Some(Some(asked)) = self.tickets.get(&ticket).cloned() {
                self.check_own_versions(&asked.0, answered);
                self.check_repeat(asked, answered.clone());
            }
        }
        assert!(!self.lost.contains(&ticket), "a client of a crashed host was answered");
        let before = self.answers.insert(ticket, outcome);
        assert!(before.is_none(), "ticket {ticket} was answered twice: {before:?}");
    }

    /// Whether the client of this ticket will never get an answer.
    pub(crate) fn is_lost(&self, ticket: Ticket) -> bool {
        self.lost.contains(&ticket)
    }
}

/// Whether a command changes something and is identified by its request id. Reads show the current state, and the creation of a
/// session is identified by the session's id.
/// How many places the hold of an event has.
fn held_before(session: &Session, event: &SessionEvent) -> u32 {
    let SessionEvent::PlacesHeld { hold, .. } = event else { return 0 };
    session.audit().holds.iter().find(|held| held.hold == *hold).map_or(0, |held| held.portion.quantity())
}

/// Every price that an open offer of a session asks for anything.
fn asked(session: &Session, opened: &[Id]) -> BTreeSet<i64> {
    let view = session.view();
    let offering = view.offering.as_deref().cloned().unwrap_or_default();
    let first = view.prices.iter().map(|(_, price)| price).chain(view.areas.iter().map(|area| &area.price));
    let others = offering.price_types.iter().flat_map(|of| of.prices.iter().chain(&of.area_prices));
    let listed: Vec<i64> = first.map(|price| price.amount).chain(others.map(|(_, price)| *price)).collect();
    if offering.offers.is_empty() {
        return listed.into_iter().collect();
    }
    let open = offering.offers.iter().filter(|of| !of.closed && (of.from.is_none() || opened.contains(&of.id)));
    let changed = |of: &Offer| {
        listed.iter().map(|price| of.change.map_or(*price, |change| change.of(*price))).collect::<Vec<_>>()
    };
    open.flat_map(changed).collect()
}

fn changes(command: &Command) -> bool {
    match command {
        Command::Cart(_, command) => {
            !matches!(command, CartCommand::Get | CartCommand::Order | CartCommand::Audit | CartCommand::Paid { .. })
        }
        Command::Session(_, command) => {
            !matches!(command, SessionCommand::Get | SessionCommand::Map | SessionCommand::Audit)
        }
        Command::Product(_, command) => matches!(command, ProductCommand::Put(_)),
        Command::Resource(_, command) => matches!(
            command,
            ResourceCommand::Put(_)
                | ResourceCommand::Reserve { .. }
                | ResourceCommand::Cancel { .. }
                | ResourceCommand::Move { .. }
        ),
        Command::Venue(_, command) => matches!(command, VenueCommand::Put(_) | VenueCommand::PutHall { .. }),
        Command::Code(_, command) => matches!(command, CodeCommand::Put(_)),
        Command::Customer(..) | Command::Directory(_) | Command::Cluster(_) => false,
    }
}

/// The kind of a message, in a word.
/// The request that gets lines or begins a checkout with this event.
fn granted(event: &Event) -> Option<RequestHash> {
    match event {
        Event::Cart(CartEvent::LinesAdded { remembered, .. }) => Some(remembered.request.id),
        Event::Cart(CartEvent::CheckoutBegun { request, .. }) => Some(request.id),
        _ => None,
    }
}

pub(crate) fn kind(message: &Message) -> &'static str {
    match &message.input {
        Input::Command { .. } => "command",
        Input::Paid { .. } => "paid",
        Input::Wake => "wake",
        Input::Ask { ask, .. } => match ask {
            Ask::Hold { .. } => "hold",
            Ask::Release { .. } => "release",
            Ask::Expired { .. } => "expired",
            Ask::Sell { .. } => "sell",
            Ask::Forget => "forget",
            Ask::Overdue { .. } => "overdue",
            Ask::Open(_) => "open",
            Ask::Refund { .. } => "refund",
            Ask::Revoke { .. } => "revoke",
            Ask::List { .. } => "list",
            Ask::Vacate => "vacate",
            Ask::Post { .. } => "post",
            Ask::Pay(_) => "pay",
            Ask::SetZone(_) => "set_zone",
            Ask::TellSale(_) => "tell_sale",
        },
        Input::Reply { reply, .. } => match reply {
            Reply::Granted(_) => "granted",
            Reply::Refused { .. } => "refused",
            Reply::Stale { .. } => "stale",
            Reply::Repriced { .. } => "repriced",
            Reply::Released { .. } => "released",
            Reply::Sold { .. } => "sold",
            Reply::Forgotten => "forgotten",
            Reply::MineFor { .. } => "mine",
            Reply::NotMine { .. } => "not_mine",
            Reply::Opened => "opened",
            Reply::Refunded { .. } => "refunded",
            Reply::Listed { .. } => "listed",
            Reply::Vacated => "vacated",
            Reply::Posted { .. } => "posted",
            Reply::ZoneSet { .. } => "zone_set",
            Reply::SaleTold { .. } => "sale_told",
            Reply::OpenRefused(_) => "open_refused",
        },
    }
}

/// Whether something was bought under the offer with a limit per customer.
fn is_friends(bought_as: &Option<Arc<BoughtAs>>) -> bool {
    bought_as.as_ref().and_then(|it| it.offer.as_ref()).is_some_and(|offer| offer.as_str() == FRIENDS)
}

//! A buyer, which fills cart after cart, and keeps the answers for the final check.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use boxoffice_core::{
    answer::{Answer, Answered, CartState, CartView, LineView, Order},
    command::{CartCommand, Command, Expect, Payment, SessionCommand, WantedLine},
    id::{CartId, CartToken, Entity, Id, Request},
    money::Money,
    payment::{OnDecline, RefundRecord},
    portion::{BoughtAs, Content},
    refusal::Refusal,
    seat::Seat,
    time::Timestamp,
};
use rand::{
    Rng, SeedableRng,
    rngs::SmallRng,
    seq::{IndexedRandom, IteratorRandom},
};
use smol_str::SmolStr;
use tokio::{sync::watch, time::sleep};
use tracing_mutex::parkinglot::Mutex;

use crate::{
    client_stub::{ClientStub, Ended},
    clock::{BEGIN_MS, CLOCKS_MS},
    faults::SLOWEST_MS,
    fixture::{Fixture, STUDENT, STUDENTS, audit_of, id},
    gateway::payment_source,
    portions::{seats_of, shrink},
    rng::{around, rng},
    settings::Settings,
    shown::Times,
};

/// One in this many unknown outcomes is left unknown.
const GIVES_UP: u32 = 12;
/// One in this many granted changes is repeated later.
const REPEATS: u32 = 6;
/// One in this many payments through the gateway is ended by its buyer before it is decided, or after.
const STOPS: u32 = 8;
/// The number of changes that wait to be repeated.
const LATER: usize = 1;
/// Without faults, released holds are free after this time, in milliseconds.
const FREED_MS: u64 = 5_000;
/// One in this many pauses lasts until the cart is about to expire, or has.
const HESITATES: u32 = 40;
/// The length of that pause, in thousandths of the cart's life.
const HESITATION: std::ops::Range<u64> = 700..1_050;

/// A cart as its buyer knows it.
#[derive(Clone, Debug)]
pub(crate) struct CartTrace {
    pub(crate) cart: CartId,
    pub(crate) customer: Id,
    /// The outcome of some change is unknown.
    pub(crate) doubtful: bool,
    /// Its lines from answers, by number.
    pub(crate) lines: BTreeMap<u32, LineView>,
    /// The last deadline from an answer. It may only have been extended since.
    pub(crate) deadline: Timestamp,
    /// An unknown line may have shortened the cart's life.
    pub(crate) forgets_deadline: bool,
    /// The last known change was answered with that deadline.
    pub(crate) knows_deadline: bool,
    /// An answer said that it has expired before its deadline, in milliseconds of the run.
    pub(crate) expired_ms: Option<u64>,
    /// The first request that gives a seat back, in milliseconds of the run.
    pub(crate) lets_go_ms: Option<u64>,
    /// A checkout was requested.
    pub(crate) asked_checkout: bool,
    /// The first checkout, in milliseconds of the run.
    pub(crate) checkout_ms: Option<u64>,
    /// The last checkout was certainly refused because of its payment.
    pub(crate) declined: bool,
    /// An answer said that it is canceled.
    pub(crate) canceled: bool,
    /// The order from an answer.
    pub(crate) order: Option<Arc<Order>>,
    /// Refunds from answers, by number.
    pub(crate) refunds: BTreeMap<u32, RefundRecord>,
    /// A refund was requested.
    pub(crate) asked_refund: bool,
}

impl CartTrace {
    fn new(cart: CartId, customer: Id) -> CartTrace {
        CartTrace {
            cart,
            customer,
            doubtful: false,
            lines: BTreeMap::new(),
            deadline: Timestamp(0),
            forgets_deadline: false,
            knows_deadline: false,
            expired_ms: None,
            lets_go_ms: None,
            asked_checkout: false,
            checkout_ms: None,
            declined: false,
            canceled: false,
            order: None,
            refunds: BTreeMap::new(),
            asked_refund: false,
        }
    }

    /// The time until which the cart certainly lives.
    pub(crate) fn lives_until(&self) -> Timestamp {
        if self.forgets_deadline { Timestamp(0) } else { self.deadline }
    }

    /// Whether its buyer lets it end at its deadline.
    pub(crate) fn is_left_to_expire(&self) -> bool {
        let is_left = !self.asked_checkout && !self.canceled && !self.doubtful && !self.forgets_deadline;
        is_left && self.knows_deadline
    }

    fn lets_go(&mut self, now_ms: u64) {
        self.lets_go_ms.get_or_insert(now_ms);
    }
}

/// A seat that was granted to a cart.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) session: Id,
    pub(crate) seat: Seat,
    /// The session's version with the hold.
    pub(crate) version: u64,
    pub(crate) cart: CartId,
    pub(crate) times: Times,
}

/// The answers that all buyers received.
#[derive(Debug, Default)]
pub(crate) struct CartTraces {
    pub(crate) carts: BTreeMap<CartId, CartTrace>,
    pub(crate) grants: Vec<Grant>,
}

/// One buyer.
pub(crate) struct Buyer {
    name: String,
    client: Arc<ClientStub>,
    fixture: Arc<Fixture>,
    cart_traces: Arc<Mutex<CartTraces>>,
    rng: SmallRng,
    think_ms: u64,
    hold_ttl_ms: u64,
    /// The time after a deadline before inventories ask.
    grace_ms: u64,
    /// Percent of checkouts that are paid through the gateway.
    gateway_percent: u32,
    /// Changes with a final outcome that will be repeated.
    granted: Vec<(Command, Request, Option<Refusal>)>,
}

impl Buyer {
    /// The buyer with this number.
    pub(crate) fn new(
        number: u64,
        settings: &Settings,
        client: Arc<ClientStub>,
        fixture: Arc<Fixture>,
        cart_traces: Arc<Mutex<CartTraces>>,
    ) -> Buyer {
        let rng = rng(settings.seed, "buyer", number);
        let Settings { think_ms, hold_ttl_ms, .. } = *settings;
        // A buyer with a short deadline thinks less.
        let think_ms = think_ms.min(hold_ttl_ms / 3);
        let name = format!("buyer {number}");
        let gateway_percent = settings.gateway_percent();
        let (granted, grace_ms) = (Vec::new(), settings.rules().grace_ms);
        Buyer { name, client, fixture, cart_traces, rng, think_ms, hold_ttl_ms, grace_ms, gateway_percent, granted }
    }

    /// Buys until told to stop, and finishes its last cart.
    pub(crate) async fn buy(mut self, stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let cart_trace = self.cart().await;
            self.fixture.leaves(cart_trace.cart);
            self.cart_traces.lock().carts.insert(cart_trace.cart, cart_trace);
            self.think().await;
        }
    }

    async fn think(&mut self) {
        let ms = match self.rng.random_ratio(1, HESITATES) {
            true => self.hold_ttl_ms * self.rng.random_range(HESITATION) / 1_000,
            false => around(&mut self.rng, self.think_ms),
        };
        sleep(Duration::from_millis(ms)).await;
        if self.rng.random_ratio(1, 8) {
            let session = self.fixture.session(&mut self.rng);
            let map = Command::Session(session, SessionCommand::Map);
            // The oracle checks the answer.
            let _ = self.client.read(&mut self.rng, &self.name, map).await;
        }
        if self.granted.len() > LATER
            && let Some((command, request, refused)) = self.granted.pop()
        {
            self.client.repeat(&mut self.rng, &self.name, command, (request, refused)).await;
        }
    }

    async fn change(&mut self, cart_trace: &mut CartTrace, command: CartCommand) -> Ended {
        let again = Command::Cart(cart_trace.cart, command);
        cart_trace.knows_deadline = false;
        let ended = self.client.change(&mut self.rng, &self.name, again.clone(), GIVES_UP).await;
        cart_trace.doubtful |= match &ended {
            Ended::Known { outcome, maybe, .. } => *maybe && outcome.is_err(),
            Ended::Not => false,
            Ended::Unknown => true,
        };
        let final_one = match &ended {
            Ended::Known { outcome: Ok(_), request, .. } => Some((None, *request)),
            Ended::Known { outcome: Err(refusal), request, .. } if refusal.is_outcome() => {
                Some((Some(refusal.clone()), *request))
            }
            _ => None,
        };
        if let Some((refused, request)) = final_one
            // Final refusals are rare, so all are repeated.
            && (refused.is_some() || self.rng.random_ratio(1, REPEATS))
        {
            self.granted.push((again, request, refused));
        }
        if let Ended::Known { outcome: Err(Refusal::CartExpired), acked_ms, .. } = &ended
            && BEGIN_MS + acked_ms + self.client.wall_clocks.off_ms(*acked_ms) + CLOCKS_MS < cart_trace.lives_until().0
        {
            cart_trace.expired_ms.get_or_insert(*acked_ms);
        }
        ended
    }

    async fn cart(&mut self) -> CartTrace {
        let mut first = Some(self.fixture.wanted(&mut self.rng));
        let (token, customer) = (self.token(first.as_ref()), self.fixture.customer(&mut self.rng));
        let mut cart_trace = CartTrace::new(token.cart(), customer);
        self.fixture.fills(cart_trace.cart);
        if self.rng.random_ratio(1, 4) {
            let customer = Some(cart_trace.customer.clone());
            let guest = is_guests(cart_trace.cart);
            self.change(&mut cart_trace, CartCommand::Open { customer, ttl_ms: None, guest }).await;
        }
        for _ in 0..self.rng.random_range(1..4) {
            self.hold(&mut cart_trace, first.take()).await;
            self.think().await;
        }
        if self.rng.random_ratio(1, 4) {
            self.give_back(&mut cart_trace).await;
            self.think().await;
        }
        match self.rng.random_range(0..20) {
            0..12 => self.check_out(&mut cart_trace).await,
            12..15 => self.cancel(&mut cart_trace).await,
            _ => self.expires(&mut cart_trace).await,
        }
        if self.rng.random_ratio(1, 10) {
            self.view(&cart_trace).await;
        }
        if cart_trace.order.is_some() && self.rng.random_ratio(1, 3) {
            // Every second refund comes at once, when some inventories may not have sold yet.
            if self.rng.random() {
                self.think().await;
            }
            self.refund(&mut cart_trace).await;
        }
        cart_trace
    }

    /// The token of a cart in any shard or, every second time, in the shard of its first line.
    fn token(&mut self, first: Option<&WantedLine>) -> CartToken {
        let random = self.rng.random();
        match first.filter(|_| self.rng.random()) {
            Some(first) => CartToken::beside(&first.entity, random),
            None => CartToken(random),
        }
    }

    /// The customer of the cart in `of_four` of four cases, and rarely another one.
    fn customer(&mut self, cart_trace: &CartTrace, of_four: u32) -> Option<Id> {
        let another = self.rng.random_ratio(1, 50).then(|| self.fixture.customer(&mut self.rng));
        another.or_else(|| self.rng.random_ratio(of_four, 4).then(|| cart_trace.customer.clone()))
    }

    async fn hold(&mut self, cart_trace: &mut CartTrace, first: Option<WantedLine>) {
        let count = if self.rng.random_ratio(1, 3) { self.rng.random_range(2..4) } else { 1 };
        let mut lines: Vec<WantedLine> = first.into_iter().collect();
        for _ in lines.len()..count {
            let wanted = self.fixture.wanted(&mut self.rng);
            // Several lines of one entity in one command are tested in the core.
            if lines.iter().all(|line| line.entity != wanted.entity) {
                lines.push(wanted);
            }
        }
        let customer = self.customer(cart_trace, 3);
        let guest = is_guests(cart_trace.cart);
        let attributes = attributes_of(cart_trace.cart);
        let ended =
            self.change(cart_trace, CartCommand::Hold { lines, customer, guest, holder: None, attributes }).await;
        cart_trace.forgets_deadline |= matches!(&ended, Ended::Known { maybe: true, .. } | Ended::Unknown);
        let Some(answered) = ended.granted() else { return };
        let Answer::Held(held) = &answered.answer else {
            return self.client.oracle.lock().violation(format!("a hold was answered {answered:?}"));
        };
        let Ended::Known { called_ms, acked_ms, .. } = ended else { return };
        // A line of something with a shorter life has shortened that of all.
        cart_trace.deadline = held.deadline;
        cart_trace.knows_deadline = true;
        if self.client.network.disowns(cart_trace.cart) {
            self.look_at_holds(cart_trace).await;
        }
        let mut cart_traces = self.cart_traces.lock();
        for line in &held.lines {
            if is_bought_as_student(&line.content) && !is_students_cart(cart_trace.cart) {
                let wrong = format!("{:?} has bought as a student: {line:?}", cart_trace.cart);
                self.client.oracle.lock().violation(wrong);
            }
            cart_trace.lines.insert(line.line, line.clone());
            let Entity::Session(session) = &line.entity else { continue };
            let Some(at) = answered.at.iter().find(|at| at.entity == line.entity && at.position != 0) else { continue };
            cart_traces.grants.extend(seats_of(&line.content).into_iter().map(|seat| Grant {
                session: session.clone(),
                seat,
                version: at.version,
                cart: cart_trace.cart,
                times: (called_ms, acked_ms),
            }));
        }
    }

    /// Checks that a cart has no hold that it has disowned.
    async fn look_at_holds(&mut self, cart_trace: &CartTrace) {
        let (before_ms, audit) = (self.client.trace.now_ms(), audit_of(&Entity::Cart(cart_trace.cart)));
        let Some(Ok(Answered { answer: Answer::CartAudit(audit), .. })) =
            self.client.read(&mut self.rng, &self.name, audit).await
        else {
            return;
        };
        let wrong = self.client.disowned(&audit, before_ms);
        wrong.into_iter().for_each(|wrong| self.client.oracle.lock().violation(wrong));
    }

    /// Reads the cart. Its deadline must be the last one from an answer, in spite of outages.
    async fn view(&mut self, cart_trace: &CartTrace) -> Option<CartView> {
        let get = Command::Cart(cart_trace.cart, CartCommand::Get);
        let Some(Ok(Answered { answer: Answer::Cart(view), .. })) =
            self.client.read(&mut self.rng, &self.name, get).await
        else {
            return None;
        };
        let touched = cart_trace.doubtful || cart_trace.forgets_deadline || self.is_touched(cart_trace);
        if view.state == CartState::Active
            && cart_trace.knows_deadline
            && !touched
            && self.client.wall_clocks.were_never_set()
        {
            let (told, reads) = (cart_trace.deadline, view.deadline);
            let mut oracle = self.client.oracle.lock();
            oracle.tally.count("deadlines read as they were told");
            // A new leader continues time from the last message, which may be old.
            if !(told.0 - CLOCKS_MS..=told.0 + CLOCKS_MS + SLOWEST_MS).contains(&reads.0) {
                oracle.violation(format!(
                    "{}: cart {} was told {told:?}, and reads {reads:?}",
                    self.name, cart_trace.cart
                ));
            }
        }
        Some(view)
    }

    /// Whether the staff may have changed this cart.
    fn is_touched(&self, cart_trace: &CartTrace) -> bool {
        let is_canceled = |line: &LineView| self.fixture.may_be_gone(cart_trace.cart, line.line, &line.entity);
        self.fixture.taken_from(cart_trace.cart).is_some() || cart_trace.lines.values().any(is_canceled)
    }

    /// Lets the cart expire. Without faults its holds are free soon after its deadline, even if inventories know a
    /// later one.
    async fn expires(&mut self, cart_trace: &mut CartTrace) {
        if self.client.healed_ms.get().is_none()
            || cart_trace.lines.is_empty()
            || !self.client.wall_clocks.were_never_set()
        {
            return;
        }
        let Some(view) = self.view(cart_trace).await.filter(|view| view.state == CartState::Active) else { return };
        let over_ms = self.client.wall_clocks.run_ms(view.deadline) + self.grace_ms + FREED_MS;
        sleep(Duration::from_millis(over_ms.saturating_sub(self.client.trace.now_ms()))).await;
        let entities: Vec<Entity> = cart_trace.lines.values().map(|line| line.entity.clone()).collect();
        self.is_free_of(cart_trace, &entities, "its cart has expired").await;
    }

    async fn give_back(&mut self, cart_trace: &mut CartTrace) {
        let Some(line) = cart_trace.lines.keys().copied().choose(&mut self.rng) else { return };
        cart_trace.lets_go(self.client.trace.now_ms());
        let of_units = cart_trace.lines[&line].content.portion().quantity();
        let by_quantity = seats_of(&cart_trace.lines[&line].content).is_empty() && self.rng.random();
        let command = match by_quantity {
            true => CartCommand::SetQuantity {
                line,
                quantity: self.rng.random_range(0..=of_units),
                guest: false,
                holder: None,
                attributes: attributes_of(cart_trace.cart),
            },
            false => CartCommand::Release { line, seats: None },
        };
        let quantity = match &command {
            CartCommand::SetQuantity { quantity, .. } => *quantity,
            _ => 0,
        };
        let entity = cart_trace.lines[&line].entity.clone();
        if self.change(cart_trace, command).await.granted().is_some() {
            shrink(&mut cart_trace.lines, line, quantity);
            if cart_trace.lines.values().all(|line| line.entity != entity) {
                self.is_freed(cart_trace, &[entity]).await;
            }
        }
    }

    async fn check_out(&mut self, cart_trace: &mut CartTrace) {
        let through_gateway = self.rng.random_range(0..100) < self.gateway_percent;
        if self.pay(cart_trace, through_gateway).await {
            // The cart has changed, and the buyer looks again.
            self.pay(cart_trace, through_gateway).await;
        }
        // Another attempt with another card.
        if cart_trace.declined && self.rng.random() {
            self.think().await;
            self.pay(cart_trace, true).await;
        }
    }

    /// The buyer's expectation for a checkout, with the cart that it read. At times the total is wrong.
    async fn expects(&mut self, cart_trace: &CartTrace) -> (Expect, Option<CartView>) {
        if self.rng.random() {
            return (Expect::default(), None);
        }
        let Some(view) = self.view(cart_trace).await else { return (Expect::default(), None) };
        self.think().await;
        let wrong = i64::from(self.rng.random_ratio(1, 8));
        let total = view.total.map(|total| Money { amount: total.amount + wrong, ..total });
        let lines = self.rng.random_ratio(1, 2).then_some(view.lines_version);
        (Expect { total, lines, paid: None }, Some(view))
    }

    /// Checks out, and returns whether the cart differs from the expectation.
    async fn pay(&mut self, cart_trace: &mut CartTrace, through_gateway: bool) -> bool {
        let (mut expect, seen) = self.expects(cart_trace).await;
        if !through_gateway && self.rng.random() {
            expect.paid = expect.total;
        }
        cart_trace.asked_checkout = true;
        cart_trace.checkout_ms.get_or_insert(self.client.trace.now_ms());
        let payment = if through_gateway {
            // A declined payment may release everything.
            cart_trace.lets_go(self.client.trace.now_ms());
            let on_decline =
                *[None, Some(OnDecline::Keep), Some(OnDecline::Release)].choose(&mut self.rng).expect("there are some");
            Payment::Gateway { source: payment_source(&mut self.rng).into(), on_decline }
        } else {
            let transaction_id = SmolStr::from(format!("{:x}", cart_trace.cart.0));
            Payment::Recorded { method: "card".into(), transaction_id }
        };
        let customer = self.customer(cart_trace, 1);
        let checkout =
            CartCommand::Checkout { payment, customer, shipping: None, expect: expect.clone(), holder: None };
        // Some buyers come back from the bank's page unpaid, and end the attempt, which another node may hear first.
        let stop = (through_gateway && self.rng.random_ratio(1, STOPS)).then(|| {
            let (client, name) = (Arc::clone(&self.client), self.name.clone());
            let (mut rng, cart) = (SmallRng::from_rng(&mut self.rng), cart_trace.cart);
            tokio::spawn(async move {
                sleep(Duration::from_millis(around(&mut rng, 700))).await;
                let stop = Command::Cart(cart, CartCommand::CancelCheckout { by_operator: false });
                client.change(&mut rng, &name, stop, GIVES_UP).await;
            })
        });
        let ended = self.change(cart_trace, checkout).await;
        if let Some(stop) = stop {
            stop.await.expect("it does not panic");
        }
        cart_trace.declined = matches!(
            &ended,
            Ended::Known {
                outcome: Err(Refusal::PaymentDeclined(_)
                    | Refusal::AmountMismatch { .. }
                    | Refusal::CheckoutWithdrawn(_)
                    | Refusal::CheckoutCanceled),
                maybe: false,
                ..
            }
        );
        if let Some(answered) = ended.granted() {
            match &answered.answer {
                Answer::Order { order, .. } => {
                    self.is_as_seen(order, &expect, seen.as_ref());
                    cart_trace.order = Some(Arc::clone(order));
                }
                other => self.client.oracle.lock().violation(format!("a checkout was answered {other:?}")),
            }
        }
        matches!(ended, Ended::Known { outcome: Err(Refusal::CartDiffers(_)), maybe: false, .. })
    }

    /// Checks that the order is the cart that the buyer saw.
    fn is_as_seen(&self, order: &Order, expect: &Expect, seen: Option<&CartView>) {
        let Some(seen) = seen else { return };
        let of = |lines: &[LineView]| -> Vec<_> {
            lines.iter().map(|line| (line.line, line.entity.clone(), line.content.clone())).collect()
        };
        let other_total = expect.total.is_some_and(|total| total != order.total);
        let other_lines = expect.lines.is_some() && of(&seen.lines) != of(&order.lines);
        let mut oracle = self.client.oracle.lock();
        oracle.tally.count("orders as their buyers saw them");
        if other_total || other_lines {
            oracle.violation(format!("{}: {order:?} was sold, and {expect:?} expected of {seen:?}", self.name));
        }
    }

    async fn cancel(&mut self, cart_trace: &mut CartTrace) {
        cart_trace.lets_go(self.client.trace.now_ms());
        let ended = self.change(cart_trace, CartCommand::Cancel).await;
        cart_trace.canceled = ended.granted().is_some();
        if cart_trace.canceled {
            let entities: Vec<Entity> = cart_trace.lines.values().map(|line| line.entity.clone()).collect();
            self.is_freed(cart_trace, &entities).await;
        }
    }

    /// Without faults, released holds are free soon, without a question of the inventory.
    async fn is_freed(&mut self, cart_trace: &CartTrace, entities: &[Entity]) {
        if self.client.healed_ms.get().is_none() || cart_trace.doubtful {
            return;
        }
        sleep(Duration::from_millis(FREED_MS)).await;
        self.is_free_of(cart_trace, entities, "it was given back").await;
    }

    /// Checks that these entities have no hold of this cart.
    async fn is_free_of(&mut self, cart_trace: &CartTrace, entities: &[Entity], since: &str) {
        for entity in entities {
            let Some(Ok(answered)) = self.client.read(&mut self.rng, &self.name, audit_of(entity)).await else {
                continue;
            };
            let holds = match answered.answer {
                Answer::SessionAudit(audit) => audit.holds,
                Answer::ProductAudit(audit) => audit.holds,
                Answer::ResourceAudit(audit) => audit.holds,
                other => panic!("the audit of {entity} says {other:?}"),
            };
            self.client.oracle.lock().tally.count("holds looked for in vain");
            if self.is_touched(cart_trace) || cart_trace.doubtful {
                continue;
            }
            if let Some(hold) = holds.iter().find(|hold| hold.hold.cart == cart_trace.cart) {
                let what = format!("{entity} has {hold:?} still, {FREED_MS} ms after {since}");
                self.client.oracle.lock().violation(what);
            }
        }
    }

    async fn refund(&mut self, cart_trace: &mut CartTrace) {
        cart_trace.asked_refund = true;
        cart_trace.lets_go(self.client.trace.now_ms());
        let lines = cart_trace.lines.keys().copied().choose(&mut self.rng);
        let lines = lines.filter(|_| self.rng.random()).map(|line| vec![line]);
        let ended = self.change(cart_trace, CartCommand::Refund { lines, reason: "changed my mind".into() }).await;
        if let Some(answered) = ended.granted() {
            match &answered.answer {
                Answer::Refund(record) => _ = cart_trace.refunds.insert(record.number, record.clone()),
                other => self.client.oracle.lock().violation(format!("a refund was answered {other:?}")),
            }
        }
    }
}

/// Whether a student has the cart. Every third one is a student's.
fn is_students_cart(cart: CartId) -> bool {
    cart.0.is_multiple_of(3)
}

/// Whether any of it is bought under the offer for students.
fn is_bought_as_student(content: &Content) -> bool {
    let is_students = |of: &Option<Arc<BoughtAs>>| {
        let offer = of.as_ref().and_then(|of| of.offer.as_ref());
        offer.is_some_and(|offer| offer.as_str() == STUDENTS)
    };
    match content {
        Content::Seats(seats) => seats.iter().any(|priced| is_students(&priced.bought_as)),
        Content::Places { bought_as, .. } => is_students(bought_as),
        Content::Units { .. } | Content::Slot { .. } => false,
    }
}

/// The attributes of the customer who has the cart.
fn attributes_of(cart: CartId) -> Vec<Id> {
    if is_students_cart(cart) { vec![id(STUDENT)] } else { Vec::new() }
}

/// Whether a guest has the cart. Every second cart is a guest's.
fn is_guests(cart: CartId) -> bool {
    !cart.0.is_multiple_of(2)
}

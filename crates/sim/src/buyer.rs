//! A buyer: cart after cart, with second thoughts; and what it was told, kept to be judged.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use boxoffice_core::{
    answer::{Answer, Answered, CartState, CartView, LineView, Order},
    command::{CartCommand, Command, Expect, Payment, SessionCommand, WantedLine},
    id::{CartId, CartToken, Entity, Id, Request},
    money::Money,
    payment::{OnDecline, RefundRecord},
    refusal::Refusal,
    seat::Seat,
    time::Timestamp,
};
use parking_lot::Mutex;
use rand::{
    Rng,
    rngs::SmallRng,
    seq::{IndexedRandom, IteratorRandom},
};
use smol_str::SmolStr;
use tokio::{sync::watch, time::sleep};

use crate::{
    bank::source,
    clock::BEGIN_MS,
    desk::{Desk, Ended},
    dice::{around, dice},
    faults::SLOWEST_MS,
    judge::CLOCKS_MS,
    oracle::Times,
    portions::{seats_of, shrink},
    settings::Settings,
    town::{Town, audit_of},
};

/// One time in so many an unknown outcome is left unknown.
const GIVES_UP: u32 = 12;
/// One granted change in so many is asked for once more, later.
const REPEATS: u32 = 6;
/// That is, when so many others wait to be.
const LATER: usize = 1;
/// In peace, what was given back is free after so long, in milliseconds.
const FREED_MS: u64 = 5_000;
/// One time in so many a buyer hesitates until its cart is about to expire, or has.
const HESITATES: u32 = 40;
/// So long, in thousandths of its cart's life.
const HESITATION: std::ops::Range<u64> = 700..1_050;

/// A cart as its buyer knows it.
#[derive(Clone, Debug)]
pub(crate) struct Story {
    /// Which.
    pub(crate) cart: CartId,
    /// Who buys.
    pub(crate) customer: Id,
    /// How some change of it ended is not known, and may never have ended.
    pub(crate) doubtful: bool,
    /// Its lines as told, by number.
    pub(crate) lines: BTreeMap<u32, LineView>,
    /// The last deadline told: it may only have been put off since.
    pub(crate) deadline: Timestamp,
    /// A line that is not known of may have shortened the cart's life.
    pub(crate) forgets_deadline: bool,
    /// The last that is known to have happened to it was told with that deadline.
    pub(crate) knows_deadline: bool,
    /// It was told that it has expired, when in truth its deadline was ahead; in milliseconds of the run.
    pub(crate) expired_ms: Option<u64>,
    /// When something was first asked for that gives a seat back, in milliseconds of the run.
    pub(crate) lets_go_ms: Option<u64>,
    /// A checkout was asked for.
    pub(crate) asked_checkout: bool,
    /// When the first was, in milliseconds of the run.
    pub(crate) checkout_ms: Option<u64>,
    /// How many checkouts were asked for, and whether the last was told for certain that its payment came to nothing.
    pub(crate) declined: bool,
    /// It was told that it is canceled.
    pub(crate) canceled: bool,
    /// The order it was told of.
    pub(crate) order: Option<Arc<Order>>,
    /// Refunds it was told of, by number.
    pub(crate) refunds: BTreeMap<u32, RefundRecord>,
    /// A refund was asked for.
    pub(crate) asked_refund: bool,
}

impl Story {
    fn new(cart: CartId, customer: Id) -> Story {
        Story {
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

    /// Until when the cart lives for certain.
    pub(crate) fn lives_until(&self) -> Timestamp {
        if self.forgets_deadline { Timestamp(0) } else { self.deadline }
    }

    /// Whether it ends at its deadline, as far as its buyer knows.
    pub(crate) fn is_left_to_expire(&self) -> bool {
        let is_left = !self.asked_checkout && !self.canceled && !self.doubtful && !self.forgets_deadline;
        is_left && self.knows_deadline
    }

    fn lets_go(&mut self, now_ms: u64) {
        self.lets_go_ms.get_or_insert(now_ms);
    }
}

/// A seat that a cart was told to have.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    /// Of which session.
    pub(crate) session: Id,
    /// Which.
    pub(crate) seat: Seat,
    /// The session's version when it was held.
    pub(crate) version: u64,
    /// By whom.
    pub(crate) cart: CartId,
    /// When.
    pub(crate) times: Times,
}

/// What all buyers were told.
#[derive(Debug, Default)]
pub(crate) struct Stories {
    /// Every cart, in order of their ids.
    pub(crate) carts: BTreeMap<CartId, Story>,
    /// Every seat that was granted.
    pub(crate) grants: Vec<Grant>,
}

/// One buyer.
pub(crate) struct Buyer {
    name: String,
    desk: Arc<Desk>,
    town: Arc<Town>,
    stories: Arc<Mutex<Stories>>,
    dice: SmallRng,
    think_ms: u64,
    hold_ttl_ms: u64,
    /// How long after a deadline inventories ask.
    grace_ms: u64,
    /// One checkout in so many hundred is paid through the gateway.
    gateway_percent: u32,
    /// What was granted, or refused for good, and is asked for once more some time.
    granted: Vec<(Command, Request, Option<Refusal>)>,
}

impl Buyer {
    /// The buyer with this number.
    pub(crate) fn new(
        number: u64,
        settings: &Settings,
        desk: Arc<Desk>,
        town: Arc<Town>,
        stories: Arc<Mutex<Stories>>,
    ) -> Buyer {
        let dice = dice(settings.seed, "buyer", number);
        let Settings { think_ms, hold_ttl_ms, .. } = *settings;
        // Who has seconds does not think for longer.
        let think_ms = think_ms.min(hold_ttl_ms / 3);
        let name = format!("buyer {number}");
        let gateway_percent = settings.gateway_percent();
        let (granted, grace_ms) = (Vec::new(), settings.rules().grace_ms);
        Buyer { name, desk, town, stories, dice, think_ms, hold_ttl_ms, grace_ms, gateway_percent, granted }
    }

    /// Buys until told to stop; a cart that is begun is gone through with.
    pub(crate) async fn buy(mut self, stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let story = self.cart().await;
            self.town.leaves(story.cart);
            self.stories.lock().carts.insert(story.cart, story);
            self.think().await;
        }
    }

    async fn think(&mut self) {
        let ms = match self.dice.random_ratio(1, HESITATES) {
            true => self.hold_ttl_ms * self.dice.random_range(HESITATION) / 1_000,
            false => around(&mut self.dice, self.think_ms),
        };
        sleep(Duration::from_millis(ms)).await;
        if self.dice.random_ratio(1, 8) {
            let session = self.town.session(&mut self.dice);
            let map = Command::Session(session, SessionCommand::Map);
            // What it says is judged by the oracle.
            let _ = self.desk.read(&mut self.dice, &self.name, map).await;
        }
        if self.granted.len() > LATER
            && let Some((command, request, refused)) = self.granted.pop()
        {
            self.desk.repeat(&mut self.dice, &self.name, command, (request, refused)).await;
        }
    }

    async fn change(&mut self, story: &mut Story, command: CartCommand) -> Ended {
        let again = Command::Cart(story.cart, command);
        story.knows_deadline = false;
        let ended = self.desk.change(&mut self.dice, &self.name, again.clone(), GIVES_UP).await;
        story.doubtful |= match &ended {
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
            // There are not many that were refused for good.
            && (refused.is_some() || self.dice.random_ratio(1, REPEATS))
        {
            self.granted.push((again, request, refused));
        }
        if let Ended::Known { outcome: Err(Refusal::CartExpired), acked_ms, .. } = &ended
            && BEGIN_MS + acked_ms + self.desk.walls.off_ms(*acked_ms) + CLOCKS_MS < story.lives_until().0
        {
            story.expired_ms.get_or_insert(*acked_ms);
        }
        ended
    }

    async fn cart(&mut self) -> Story {
        let mut first = Some(self.town.wanted(&mut self.dice));
        let (token, customer) = (self.token(first.as_ref()), self.town.customer(&mut self.dice));
        let mut story = Story::new(token.cart(), customer);
        self.town.fills(story.cart);
        if self.dice.random_ratio(1, 4) {
            let customer = Some(story.customer.clone());
            let guest = is_guests(story.cart);
            self.change(&mut story, CartCommand::Open { customer, ttl_ms: None, guest }).await;
        }
        for _ in 0..self.dice.random_range(1..4) {
            self.hold(&mut story, first.take()).await;
            self.think().await;
        }
        if self.dice.random_ratio(1, 4) {
            self.give_back(&mut story).await;
            self.think().await;
        }
        match self.dice.random_range(0..20) {
            0..12 => self.check_out(&mut story).await,
            12..15 => self.cancel(&mut story).await,
            _ => self.expires(&mut story).await,
        }
        if self.dice.random_ratio(1, 10) {
            self.view(&story).await;
        }
        if story.order.is_some() && self.dice.random_ratio(1, 3) {
            // At once, as long as it may not be sold everywhere yet, every second time.
            if self.dice.random() {
                self.think().await;
            }
            self.refund(&mut story).await;
        }
        story
    }

    /// The token of a cart in any shard or, every second time, beside what it wants first.
    fn token(&mut self, first: Option<&WantedLine>) -> CartToken {
        let random = self.dice.random();
        match first.filter(|_| self.dice.random()) {
            Some(first) => CartToken::beside(&first.entity, random),
            None => CartToken(random),
        }
    }

    /// Who buys, so many times of four; at times somebody who does not.
    fn customer(&mut self, story: &Story, of_four: u32) -> Option<Id> {
        let somebody = self.dice.random_ratio(1, 50).then(|| self.town.customer(&mut self.dice));
        somebody.or_else(|| self.dice.random_ratio(of_four, 4).then(|| story.customer.clone()))
    }

    async fn hold(&mut self, story: &mut Story, first: Option<WantedLine>) {
        let count = if self.dice.random_ratio(1, 3) { self.dice.random_range(2..4) } else { 1 };
        let mut lines: Vec<WantedLine> = first.into_iter().collect();
        for _ in lines.len()..count {
            let wanted = self.town.wanted(&mut self.dice);
            // Several lines of one entity in one command are refused or merged; that is the rules' own test.
            if lines.iter().all(|line| line.entity != wanted.entity) {
                lines.push(wanted);
            }
        }
        let customer = self.customer(story, 3);
        let guest = is_guests(story.cart);
        let ended = self.change(story, CartCommand::Hold { lines, customer, guest }).await;
        story.forgets_deadline |= matches!(&ended, Ended::Known { maybe: true, .. } | Ended::Unknown);
        let Some(answered) = ended.granted() else { return };
        let Answer::Held(held) = &answered.answer else {
            return self.desk.oracle.lock().violation(format!("a hold was answered {answered:?}"));
        };
        let Ended::Known { called_ms, acked_ms, .. } = ended else { return };
        // A line of something with a shorter life has shortened that of all.
        story.deadline = held.deadline;
        story.knows_deadline = true;
        if self.desk.ether.disowns(story.cart) {
            self.look_at_holds(story).await;
        }
        let mut stories = self.stories.lock();
        for line in &held.lines {
            story.lines.insert(line.line, line.clone());
            let Entity::Session(session) = &line.entity else { continue };
            let Some(at) = answered.at.iter().find(|at| at.entity == line.entity && at.position != 0) else { continue };
            stories.grants.extend(seats_of(&line.content).into_iter().map(|seat| Grant {
                session: session.clone(),
                seat,
                version: at.version,
                cart: story.cart,
                times: (called_ms, acked_ms),
            }));
        }
    }

    /// What a cart rests on is none of what it has disowned.
    async fn look_at_holds(&mut self, story: &Story) {
        let (before_ms, audit) = (self.desk.trace.now_ms(), audit_of(&Entity::Cart(story.cart)));
        let Some(Ok(Answered { answer: Answer::CartAudit(audit), .. })) =
            self.desk.read(&mut self.dice, &self.name, audit).await
        else {
            return;
        };
        let wrong = self.desk.disowned(&audit, before_ms);
        wrong.into_iter().for_each(|wrong| self.desk.oracle.lock().violation(wrong));
    }

    /// The cart as it reads, if it does. The oracle judges it; its deadline is the one that was told, whatever has been off
    /// since.
    async fn view(&mut self, story: &Story) -> Option<CartView> {
        let get = Command::Cart(story.cart, CartCommand::Get);
        let Some(Ok(Answered { answer: Answer::Cart(view), .. })) =
            self.desk.read(&mut self.dice, &self.name, get).await
        else {
            return None;
        };
        let touched = story.doubtful || story.forgets_deadline || self.is_touched(story);
        if view.state == CartState::Active && story.knows_deadline && !touched && self.desk.walls.were_never_set() {
            let (told, reads) = (story.deadline, view.deadline);
            let mut oracle = self.desk.oracle.lock();
            oracle.tally.count("deadlines read as they were told");
            // Whoever leads next carries time on from the last that it has heard, which may have been on its way for long.
            if !(told.0 - CLOCKS_MS..=told.0 + CLOCKS_MS + SLOWEST_MS).contains(&reads.0) {
                oracle.violation(format!("{}: cart {} was told {told:?}, and reads {reads:?}", self.name, story.cart));
            }
        }
        Some(view)
    }

    /// Whether the staff may have had a hand in this cart.
    fn is_touched(&self, story: &Story) -> bool {
        let is_canceled = |line: &LineView| self.town.may_be_gone(story.cart, line.line, &line.entity);
        self.town.taken_from(story.cart).is_some() || story.lines.values().any(is_canceled)
    }

    /// The cart is left to expire. Where nothing is in the way, everything that was told a deadline is free soon after the
    /// cart's own, however late a deadline it was told before.
    async fn expires(&mut self, story: &mut Story) {
        if self.desk.peace_ms.get().is_none() || story.lines.is_empty() || !self.desk.walls.were_never_set() {
            return;
        }
        let Some(view) = self.view(story).await.filter(|view| view.state == CartState::Active) else { return };
        let over_ms = self.desk.walls.run_ms(view.deadline) + self.grace_ms + FREED_MS;
        sleep(Duration::from_millis(over_ms.saturating_sub(self.desk.trace.now_ms()))).await;
        let entities: Vec<Entity> = story.lines.values().map(|line| line.entity.clone()).collect();
        self.is_free_of(story, &entities, "its cart has expired").await;
    }

    async fn give_back(&mut self, story: &mut Story) {
        let Some(line) = story.lines.keys().copied().choose(&mut self.dice) else { return };
        story.lets_go(self.desk.trace.now_ms());
        let of_units = story.lines[&line].content.portion().quantity();
        let by_quantity = seats_of(&story.lines[&line].content).is_empty() && self.dice.random();
        let command = match by_quantity {
            true => CartCommand::SetQuantity { line, quantity: self.dice.random_range(0..=of_units) },
            false => CartCommand::Release { line, seats: None },
        };
        let quantity = match &command {
            CartCommand::SetQuantity { quantity, .. } => *quantity,
            _ => 0,
        };
        let entity = story.lines[&line].entity.clone();
        if self.change(story, command).await.granted().is_some() {
            shrink(&mut story.lines, line, quantity);
            if story.lines.values().all(|line| line.entity != entity) {
                self.is_freed(story, &[entity]).await;
            }
        }
    }

    async fn check_out(&mut self, story: &mut Story) {
        let through_gateway = self.dice.random_range(0..100) < self.gateway_percent;
        if self.pay(story, through_gateway).await {
            // It was not what its buyer saw: now it is looked at again.
            self.pay(story, through_gateway).await;
        }
        // Another try with another card.
        if story.declined && self.dice.random() {
            self.think().await;
            self.pay(story, true).await;
        }
    }

    /// What the buyer of a cart says to have seen, with the lines that were read; at times a total that nobody has shown.
    async fn expects(&mut self, story: &Story) -> (Expect, Option<CartView>) {
        if self.dice.random() {
            return (Expect::default(), None);
        }
        let Some(view) = self.view(story).await else { return (Expect::default(), None) };
        self.think().await;
        let wrong = i64::from(self.dice.random_ratio(1, 8));
        let total = view.total.map(|total| Money { amount: total.amount + wrong, ..total });
        let lines = self.dice.random_ratio(1, 2).then_some(view.lines_version);
        (Expect { total, lines, paid: None }, Some(view))
    }

    /// Checks out; whether the cart is not what its buyer saw.
    async fn pay(&mut self, story: &mut Story, through_gateway: bool) -> bool {
        let (mut expect, seen) = self.expects(story).await;
        if !through_gateway && self.dice.random() {
            expect.paid = expect.total;
        }
        story.asked_checkout = true;
        story.checkout_ms.get_or_insert(self.desk.trace.now_ms());
        let payment = if through_gateway {
            // Declined, it may give everything back.
            story.lets_go(self.desk.trace.now_ms());
            let on_decline = *[None, Some(OnDecline::Keep), Some(OnDecline::Release)]
                .choose(&mut self.dice)
                .expect("there are some");
            Payment::Gateway { source: source(&mut self.dice).into(), on_decline }
        } else {
            let transaction_id = SmolStr::from(format!("{:x}", story.cart.0));
            Payment::Recorded { method: "card".into(), transaction_id }
        };
        let customer = self.customer(story, 1);
        let checkout = CartCommand::Checkout { payment, customer, shipping: None, expect: expect.clone() };
        let ended = self.change(story, checkout).await;
        story.declined = matches!(
            &ended,
            Ended::Known {
                outcome: Err(Refusal::PaymentDeclined(_) | Refusal::AmountMismatch { .. }),
                maybe: false,
                ..
            }
        );
        if let Some(answered) = ended.granted() {
            match &answered.answer {
                Answer::Order { order, .. } => {
                    self.is_as_seen(order, &expect, seen.as_ref());
                    story.order = Some(Arc::clone(order));
                }
                other => self.desk.oracle.lock().violation(format!("a checkout was answered {other:?}")),
            }
        }
        matches!(ended, Ended::Known { outcome: Err(Refusal::CartDiffers(_)), maybe: false, .. })
    }

    /// What a buyer did not see is not sold.
    fn is_as_seen(&self, order: &Order, expect: &Expect, seen: Option<&CartView>) {
        let Some(seen) = seen else { return };
        let of = |lines: &[LineView]| -> Vec<_> {
            lines.iter().map(|line| (line.line, line.entity.clone(), line.content.clone())).collect()
        };
        let other_total = expect.total.is_some_and(|total| total != order.total);
        let other_lines = expect.lines.is_some() && of(&seen.lines) != of(&order.lines);
        let mut oracle = self.desk.oracle.lock();
        oracle.tally.count("orders as their buyers saw them");
        if other_total || other_lines {
            oracle.violation(format!("{}: {order:?} was sold, and {expect:?} expected of {seen:?}", self.name));
        }
    }

    async fn cancel(&mut self, story: &mut Story) {
        story.lets_go(self.desk.trace.now_ms());
        let ended = self.change(story, CartCommand::Cancel).await;
        story.canceled = ended.granted().is_some();
        if story.canceled {
            let entities: Vec<Entity> = story.lines.values().map(|line| line.entity.clone()).collect();
            self.is_freed(story, &entities).await;
        }
    }

    /// Where nothing is in the way, what was given back is free soon: nobody has to ask for it.
    async fn is_freed(&mut self, story: &Story, entities: &[Entity]) {
        if self.desk.peace_ms.get().is_none() || story.doubtful {
            return;
        }
        sleep(Duration::from_millis(FREED_MS)).await;
        self.is_free_of(story, entities, "it was given back").await;
    }

    /// None of these has a hold of this cart.
    async fn is_free_of(&mut self, story: &Story, entities: &[Entity], since: &str) {
        for entity in entities {
            let Some(Ok(answered)) = self.desk.read(&mut self.dice, &self.name, audit_of(entity)).await else {
                continue;
            };
            let holds = match answered.answer {
                Answer::SessionAudit(audit) => audit.holds,
                Answer::ProductAudit(audit) => audit.holds,
                Answer::ResourceAudit(audit) => audit.holds,
                other => panic!("the audit of {entity} says {other:?}"),
            };
            self.desk.oracle.lock().tally.count("holds looked for in vain");
            if self.is_touched(story) || story.doubtful {
                continue;
            }
            if let Some(hold) = holds.iter().find(|hold| hold.hold.cart == story.cart) {
                let what = format!("{entity} has {hold:?} still, {FREED_MS} ms after {since}");
                self.desk.oracle.lock().violation(what);
            }
        }
    }

    async fn refund(&mut self, story: &mut Story) {
        story.asked_refund = true;
        story.lets_go(self.desk.trace.now_ms());
        let lines = story.lines.keys().copied().choose(&mut self.dice);
        let lines = lines.filter(|_| self.dice.random()).map(|line| vec![line]);
        let ended = self.change(story, CartCommand::Refund { lines, reason: "changed my mind".into() }).await;
        if let Some(answered) = ended.granted() {
            match &answered.answer {
                Answer::Refund(record) => _ = story.refunds.insert(record.number, record.clone()),
                other => self.desk.oracle.lock().violation(format!("a refund was answered {other:?}")),
            }
        }
    }
}

/// Whether a guest has the cart: every second one is a guest's.
fn is_guests(cart: CartId) -> bool {
    !cart.0.is_multiple_of(2)
}

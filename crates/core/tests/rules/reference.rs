//! Random commands over units, places and time against a simple reference. Its lists of lines are counted anew for every command,
//! one at a time.

use std::collections::BTreeMap;

use boxoffice_core::{
    answer::CartState,
    command::{
        Area, CartCommand, Command, CustomerLimit, HoldPolicy, Limits, NewSession, ProductCommand, ProductDetails,
        ResourceCommand, SessionExtras, VenueCommand, Want, WantedLine,
    },
    id::Entity,
    payment::OnDecline,
    portion::Content,
    rules::Rules,
    state_map::{State, StateMap},
    time::Timestamp,
};
use proptest::{collection::vec, option, prelude::*};

use crate::{
    catalogue::open,
    fixture::Fixture,
    random_runs::cases,
    script::{cart, check_out, euros, id, layout, new_session, product, resource},
};

const CASES: u32 = 4_000;
const RULES: Rules = Rules {
    hold_ttl_ms: 1_000,
    hold_ttl_max_ms: 5_000,
    cart_age_max_ms: 3_000,
    guest_ttl_max_ms: 600,
    guest_age_max_ms: 2_000,
    grace_ms: 100,
    confirm_ms: 400,
    settle_ms: 200,
    ask_again_ms: 100,
    payment_wait_ms: 1_000,
    payment_again_ms: 100,
    on_decline: OnDecline::Release,
    gateway: true,
    payment_epoch: 0,
    fairness: boxoffice_core::fairness::Fairness::USUAL,
};
/// How long carts with places live.
const SHORT_TTL_MS: u64 = 700;
/// This cart is a guest's.
const GUEST: usize = 2;
/// When the session begins. From then on only the desk sells it, and the guest's cart keeps and pays what it has.
const BEGINS_AT: u64 = 1_200;
const QUOTA: u32 = 5;
const PER_ORDER: u32 = 4;
/// What the products cost at first, in minor units.
const UNIT_PRICE: i64 = 200;
const LATE_PRICE: i64 = 300;
const NAMES: [&str; 3] = ["a", "b", "c"];
const CUSTOMERS: [&str; 3] = ["ann", "ann", "bob"];

/// Requested items. The first slot overlaps the second, and the second the third.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    Unit,
    /// Checked at the checkout. Limited per order and customer, like places.
    Late,
    Place,
    Slot(u64),
}

impl Item {
    fn capacity(self) -> u32 {
        match self {
            Item::Unit => 5,
            Item::Late => 4,
            Item::Place => 6,
            Item::Slot(_) => 1,
        }
    }

    fn limited(self) -> bool {
        matches!(self, Item::Late | Item::Place)
    }

    fn wanted(self, quantity: u32) -> WantedLine {
        let units = |name: &str| WantedLine::new(Entity::Product(id(name)), Want::Units { quantity, now: false });
        match self {
            Item::Unit => units("p"),
            Item::Late => units("q"),
            Item::Place => WantedLine::new(Entity::Session(id("t")), Want::places(id("stand"), quantity)),
            Item::Slot(number) => {
                let begin = Timestamp(1_000_000 + number * 500);
                WantedLine::new(
                    Entity::Resource(id("r")),
                    Want::Slot { begin, end: begin.after(1_000), details: "".into() },
                )
            }
        }
    }

    fn overlaps(self, other: Item) -> bool {
        matches!((self, other), (Item::Slot(one), Item::Slot(other)) if one.abs_diff(other) < 2)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Hold {
        cart: usize,
        wants: Vec<(Item, u32)>,
    },
    Set {
        cart: usize,
        line: u32,
        quantity: u32,
    },
    Release {
        cart: usize,
        line: u32,
    },
    Cancel {
        cart: usize,
    },
    Checkout {
        cart: usize,
    },
    Refund {
        cart: usize,
        line: Option<u32>,
    },
    /// The desk changes the price of a product.
    Price {
        item: Item,
        price: i64,
    },
    Repeat {
        step: prop::sample::Index,
    },
    Wait {
        ms: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let cart = 0..3usize;
    let item = prop_oneof![
        2 => Just(Item::Unit),
        2 => Just(Item::Late),
        2 => Just(Item::Place),
        1 => (0..3u64).prop_map(Item::Slot),
    ];
    prop_oneof![
        8 => (cart.clone(), vec((item, 1..4u32), 1..4)).prop_map(|(cart, wants)| Step::Hold { cart, wants }),
        5 => (cart.clone(), 1..5u32, 0..7u32).prop_map(|(cart, line, quantity)| Step::Set { cart, line, quantity }),
        2 => (cart.clone(), 1..5u32).prop_map(|(cart, line)| Step::Release { cart, line }),
        1 => cart.clone().prop_map(|cart| Step::Cancel { cart }),
        3 => cart.clone().prop_map(|cart| Step::Checkout { cart }),
        2 => (cart, option::of(1..5u32)).prop_map(|(cart, line)| Step::Refund { cart, line }),
        2 => (prop::bool::ANY, 1..4i64).prop_map(|(late, price)| {
            Step::Price { item: if late { Item::Late } else { Item::Unit }, price: 100 * price }
        }),
        3 => any::<prop::sample::Index>().prop_map(|step| Step::Repeat { step }),
        3 => (1..600u64).prop_map(|ms| Step::Wait { ms }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(CASES), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_commands_over_all_kinds_end_as_in_the_reference(steps in vec(step(), 1..24)) {
        play(&steps);
    }
}

/// Random commands from a seed.
#[cfg(feature = "planted")]
pub(crate) fn run(seed: u64) {
    use proptest::{
        strategy::ValueTree,
        test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    play(&vec(step(), 1..24).new_tree(&mut runner).expect("steps").current());
}

fn play(steps: &[Step]) {
    let mut fixture = fixture();
    let mut reference = Reference::default();
    for (number, step) in steps.iter().enumerate() {
        let (number, step) = original(steps, number, step);
        if let Step::Wait { ms } = step {
            fixture.wait(*ms, Fixture::run);
            reference.wait(*ms);
            continue;
        }
        let ticket = fixture.send(Some(&format!("r{number}")), command(step));
        fixture.run();
        let outcome = fixture.answers.get(&ticket).expect("everything is answered at once");
        let result = outcome.as_ref().map(|_| ()).map_err(|refusal| refusal.name());
        assert_eq!(result, reference.step(number, step), "step {number}: {step:?}: {outcome:?}");
        reference.compare(&fixture.states);
    }
}

/// The step that a chain of repeats repeats.
fn original<'a>(steps: &'a [Step], number: usize, step: &'a Step) -> (usize, &'a Step) {
    match step {
        Step::Repeat { step } if number > 0 => {
            let earlier = step.index(number);
            original(steps, earlier, &steps[earlier])
        }
        Step::Repeat { .. } => (number, &Step::Wait { ms: 1 }),
        step => (number, step),
    }
}

fn fixture() -> Fixture {
    let mut fixture = Fixture::new(RULES);
    let hall = layout("aa");
    open(&mut fixture, &hall, &[]);
    let limits = limits();
    let stand = Area {
        id: id("stand"),
        name: "Stand".into(),
        capacity: Item::Place.capacity(),
        price: euros(500),
        names: Default::default(),
    };
    let session = new_session("t", &hall, BEGINS_AT, 11_000_000, Some(SHORT_TTL_MS));
    let extras = SessionExtras { areas: vec![stand], limits, ..session.extras };
    let session = NewSession { extras, ..session };
    fixture.send(Some("create"), Command::Venue(id("venue"), VenueCommand::CreateSession(session)));
    for (item, price) in [(Item::Unit, UNIT_PRICE), (Item::Late, LATE_PRICE)] {
        fixture.send(Some("put"), put(item, price));
    }
    fixture.send(Some("put"), Command::Resource(id("r"), ResourceCommand::Put(Box::new(resource(euros(100))))));
    fixture.run();
    fixture
}

fn limits() -> Limits {
    Limits { per_order: Some(PER_ORDER), per_customer: Some(CustomerLimit { quota: id("few"), max: QUOTA }) }
}

/// The command that sells one of the products at a price.
fn put(item: Item, price: i64) -> Command {
    let plain = product(euros(price), u64::from(item.capacity()));
    let (name, details) = match item {
        Item::Unit => ("p", plain),
        Item::Late => ("q", ProductDetails { hold: HoldPolicy::AtCheckout, limits: limits(), ..plain }),
        Item::Place | Item::Slot(_) => panic!("{item:?} is no product"),
    };
    Command::Product(id(name), ProductCommand::Put(Box::new(details)))
}

fn command(step: &Step) -> Command {
    let (of, command) = match step {
        Step::Hold { cart, wants } => {
            let lines = wants.iter().map(|(item, quantity)| item.wanted(*quantity)).collect();
            (
                cart,
                CartCommand::Hold {
                    lines,
                    customer: Some(id(CUSTOMERS[*cart])),
                    guest: *cart == GUEST,
                    holder: None,
                    attributes: Vec::new(),
                },
            )
        }
        Step::Set { cart, line, quantity } => (
            cart,
            CartCommand::SetQuantity {
                line: *line,
                quantity: *quantity,
                guest: *cart == GUEST,
                holder: None,
                attributes: Vec::new(),
            },
        ),
        Step::Release { cart, line } => (cart, CartCommand::Release { line: *line, seats: None }),
        Step::Cancel { cart } => (cart, CartCommand::Cancel),
        Step::Checkout { cart } => (cart, check_out()),
        Step::Refund { cart, line } => {
            (cart, CartCommand::Refund { lines: line.map(|line| vec![line]), reason: "asked".into() })
        }
        Step::Price { item, price } => return put(*item, *price),
        Step::Repeat { .. } | Step::Wait { .. } => panic!("{step:?} is not a command"),
    };
    Command::Cart(cart(NAMES[*of]), command)
}

#[derive(Clone, Debug)]
struct Line {
    number: u32,
    item: Item,
    quantity: u32,
    /// Of a unit, when it was held. 0 for places and slots, whose prices do not change.
    price: i64,
    refunded: bool,
}

#[derive(Clone, Debug)]
struct Basket {
    state: CartState,
    ttl_ms: u64,
    age_ends_at: u64,
    deadline: u64,
    tried: bool,
    next: u32,
    lines: Vec<Line>,
}

struct Reference {
    now: u64,
    /// What a unit costs now, and one that is checked at the checkout.
    prices: (i64, i64),
    baskets: BTreeMap<usize, Basket>,
    /// Steps that were granted.
    granted: Vec<usize>,
}

impl Default for Reference {
    fn default() -> Reference {
        Reference { now: 0, prices: (UNIT_PRICE, LATE_PRICE), baskets: BTreeMap::new(), granted: Vec::new() }
    }
}

type StepResult = Result<(), &'static str>;

impl Basket {
    fn touch(&mut self, now: u64) {
        let short = self.lines.iter().any(|line| line.item == Item::Place);
        let ttl_ms = if short { SHORT_TTL_MS.min(self.ttl_ms) } else { self.ttl_ms };
        self.deadline = (now + ttl_ms).min(self.age_ends_at);
    }

    /// Further ones go to the line with their price, or to a new one. Each slot is a line.
    fn add(&mut self, item: Item, quantity: u32, price: i64) {
        let same = |line: &&mut Line| line.item == item && line.price == price && !matches!(item, Item::Slot(_));
        match self.lines.iter_mut().find(same) {
            Some(line) => line.quantity += quantity,
            None => {
                self.lines.push(Line { number: self.next, item, quantity, price, refunded: false });
                self.next += 1;
            }
        }
    }

    fn find(&mut self, number: u32) -> Result<&mut Line, &'static str> {
        self.lines.iter_mut().find(|line| line.number == number).ok_or("no_such_line")
    }

    fn holds(&self, line: &Line) -> bool {
        self.state == CartState::Active && line.item != Item::Late
    }

    fn has_sold(&self, line: &Line) -> bool {
        self.state == CartState::Done && !line.refunded
    }
}

impl Reference {
    fn wait(&mut self, ms: u64) {
        self.now += ms;
        for basket in self.baskets.values_mut() {
            if basket.state == CartState::Active && self.now >= basket.deadline {
                basket.state = CartState::Expired;
            }
        }
    }

    fn step(&mut self, number: usize, step: &Step) -> StepResult {
        if self.granted.contains(&number) {
            return Ok(());
        }
        match step {
            Step::Hold { cart, wants } => self.hold(*cart, wants),
            Step::Set { cart, line, quantity } => self.set(*cart, *line, *quantity),
            Step::Release { cart, line } => self.release(*cart, *line),
            Step::Cancel { cart } => self.active(*cart).map(|basket| basket.state = CartState::Canceled),
            Step::Checkout { cart } => self.check_out(*cart),
            Step::Refund { cart, line } => self.refund(*cart, *line),
            Step::Price { item, price } => self.set_price(*item, *price),
            Step::Repeat { .. } | Step::Wait { .. } => panic!("{step:?} is not a command"),
        }?;
        self.granted.push(number);
        Ok(())
    }

    fn active(&mut self, cart: usize) -> Result<&mut Basket, &'static str> {
        let basket = self.baskets.get_mut(&cart).ok_or("not_found")?;
        match basket.state {
            CartState::Active => Ok(basket),
            CartState::Expired if basket.deadline == basket.age_ends_at => Err("hold_age_exceeded"),
            CartState::Expired => Err("cart_expired"),
            _ => Err("cart_not_active"),
        }
    }

    /// Held and sold.
    fn counts(&self, fits: impl Fn(usize, Item) -> bool) -> (u32, u32) {
        let (mut held, mut sold) = (0, 0);
        for (cart, basket) in &self.baskets {
            for line in basket.lines.iter().filter(|line| fits(*cart, line.item)) {
                held += if basket.holds(line) { line.quantity } else { 0 };
                sold += if basket.has_sold(line) { line.quantity } else { 0 };
            }
        }
        (held, sold)
    }

    /// Whether this many more are available now.
    fn may_take(&self, cart: usize, item: Item, more: u32) -> StepResult {
        if item == Item::Place && cart == GUEST && self.now >= BEGINS_AT {
            return Err("session_closed");
        }
        let (held, sold) = self.counts(|_, other| other == item || other.overlaps(item));
        if held + sold + more > item.capacity() {
            return Err(match item {
                Item::Unit | Item::Late => "out_of_stock",
                Item::Place => "not_enough_places",
                Item::Slot(_) => "slot_taken",
            });
        }
        let mine = |other: usize| CUSTOMERS[other] == CUSTOMERS[cart];
        let (held, sold) = self.counts(|other, item| mine(other) && item.limited());
        if item.limited() && held + sold + more > QUOTA { Err("limit_per_customer") } else { Ok(()) }
    }

    /// Whether all these lines are available now. The stock is asked for each before the customer's quota is.
    fn may_take_late(&self, cart: usize, lines: &[u32]) -> StepResult {
        let (held, sold) = self.counts(|_, other| other == Item::Late);
        let mine = |other: usize| CUSTOMERS[other] == CUSTOMERS[cart];
        let (quota_held, quota_sold) = self.counts(|other, item| mine(other) && item.limited());
        let (mut taken, mut counted) = (held + sold, quota_held + quota_sold);
        let in_stock = lines.iter().map(|quantity| {
            let fits = taken + quantity <= Item::Late.capacity();
            taken += if fits { *quantity } else { 0 };
            fits
        });
        let in_stock: Vec<bool> = in_stock.collect();
        let mut refusals = Vec::new();
        for (quantity, in_stock) in lines.iter().zip(in_stock) {
            if !in_stock {
                refusals.push("out_of_stock");
            } else if counted + quantity > QUOTA {
                refusals.push("limit_per_customer");
            } else {
                counted += quantity;
            }
        }
        refusals.first().map_or(Ok(()), |first| Err(*first))
    }

    fn price(&self, item: Item) -> i64 {
        match item {
            Item::Unit => self.prices.0,
            Item::Late => self.prices.1,
            Item::Place | Item::Slot(_) => 0,
        }
    }

    fn set_price(&mut self, item: Item, price: i64) -> StepResult {
        *(if item == Item::Late { &mut self.prices.1 } else { &mut self.prices.0 }) = price;
        Ok(())
    }

    fn hold(&mut self, cart: usize, wants: &[(Item, u32)]) -> StepResult {
        match self.active(cart) {
            Ok(_) | Err("not_found") => {}
            Err(refusal) => return Err(refusal),
        }
        let mut summed: Vec<(Item, u32)> = Vec::new();
        for (item, quantity) in wants {
            let quantity = if matches!(item, Item::Slot(_)) { 1 } else { *quantity };
            match summed.iter_mut().find(|(known, _)| known == item && !matches!(item, Item::Slot(_))) {
                Some((_, all)) => *all += quantity,
                None => summed.push((*item, quantity)),
            }
        }
        for (place, (item, quantity)) in summed.iter().enumerate() {
            if *item != Item::Late {
                self.may_take(cart, *item, *quantity)?;
            }
            if summed[..place].iter().any(|(before, _)| before.overlaps(*item)) {
                return Err("slot_taken");
            }
        }
        let has = |item: Item| {
            let lines = self.baskets.get(&cart).map_or(&[][..], |basket| &basket.lines);
            lines.iter().filter(|line| line.item == item).map(|line| line.quantity).sum::<u32>()
        };
        if summed.iter().any(|(item, quantity)| item.limited() && has(*item) + quantity > PER_ORDER) {
            return Err("limit_per_order");
        }
        let now = self.now;
        let (ttl_ms, age_ms) = if cart == GUEST { (600, 2_000) } else { (1_000, 3_000) };
        let fresh = || Basket {
            state: CartState::Active,
            ttl_ms,
            age_ends_at: now + age_ms,
            deadline: 0,
            tried: false,
            next: 1,
            lines: Vec::new(),
        };
        let prices: Vec<i64> = summed.iter().map(|(item, _)| self.price(*item)).collect();
        let basket = self.baskets.entry(cart).or_insert_with(fresh);
        for ((item, quantity), price) in summed.into_iter().zip(prices) {
            basket.add(item, quantity, price);
        }
        basket.touch(now);
        Ok(())
    }

    fn set(&mut self, cart: usize, number: u32, quantity: u32) -> StepResult {
        let Line { item, quantity: before, .. } = *self.active(cart)?.find(number)?;
        if matches!(item, Item::Slot(_)) {
            return Err("bad_request");
        }
        if quantity > before {
            if item != Item::Late {
                self.may_take(cart, item, quantity - before)?;
            }
            let lines = self.baskets[&cart].lines.iter().filter(|line| line.item == item);
            let has: u32 = lines.map(|line| line.quantity).sum();
            if item.limited() && has + quantity - before > PER_ORDER {
                return Err("limit_per_order");
            }
        }
        let (now, price) = (self.now, self.price(item));
        let basket = self.active(cart)?;
        if quantity > before {
            basket.add(item, quantity - before, price);
        } else {
            basket.find(number)?.quantity = quantity;
        }
        basket.lines.retain(|line| line.quantity > 0);
        basket.touch(now);
        Ok(())
    }

    fn release(&mut self, cart: usize, number: u32) -> StepResult {
        let now = self.now;
        let basket = self.active(cart)?;
        basket.find(number)?;
        basket.lines.retain(|line| line.number != number);
        basket.touch(now);
        Ok(())
    }

    fn check_out(&mut self, cart: usize) -> StepResult {
        let now = self.now;
        let basket = self.active(cart)?;
        if basket.lines.is_empty() {
            return Err("cart_empty");
        }
        let late = basket.lines.iter().filter(|line| line.item == Item::Late).map(|line| line.quantity);
        let late: Vec<u32> = late.collect();
        if !late.is_empty() {
            if !std::mem::replace(&mut basket.tried, true) {
                basket.touch(now);
            }
            self.may_take_late(cart, &late)?;
        }
        self.active(cart)?.state = CartState::Done;
        Ok(())
    }

    fn refund(&mut self, cart: usize, number: Option<u32>) -> StepResult {
        let basket = self.baskets.get_mut(&cart).filter(|basket| basket.state == CartState::Done).ok_or("not_found")?;
        match number {
            Some(number) => {
                let line = basket.find(number)?;
                if std::mem::replace(&mut line.refunded, true) {
                    return Err("already_refunded");
                }
            }
            None if basket.lines.iter().all(|line| line.refunded) => return Err("already_refunded"),
            None => basket.lines.iter_mut().for_each(|line| line.refunded = true),
        }
        Ok(())
    }

    /// Compares all counts and carts with the reference.
    fn compare(&self, states: &StateMap) {
        for (entity, state) in states.entities() {
            match &**state {
                State::Product(product) => {
                    let item = if *entity == Entity::Product(id("p")) { Item::Unit } else { Item::Late };
                    let (held, sold) = self.counts(|_, other| other == item);
                    let counts = product.counts();
                    assert_eq!((counts.held, counts.sold), (u64::from(held), u64::from(sold)), "{entity}");
                }
                State::Session(session) => {
                    let (held, sold) = self.counts(|_, item| item == Item::Place);
                    let counts = &session.area_counts()[0];
                    assert_eq!((counts.held, counts.sold), (held, sold), "{entity}");
                }
                State::Resource(resource) => {
                    let (held, sold) = self.counts(|_, item| matches!(item, Item::Slot(_)));
                    assert_eq!(resource.view().bookings, u64::from(held + sold), "{entity}");
                }
                State::Customer(customer) => {
                    let audit = customer.audit();
                    let mine = |cart: usize| id(CUSTOMERS[cart]) == audit.customer;
                    let (held, sold) = self.counts(|cart, item| mine(cart) && item.limited());
                    let (held, sold) = (u64::from(held), u64::from(sold));
                    let result = audit.quotas.first().map_or((0, 0), |(_, held, sold)| (*held, *sold));
                    assert_eq!(result, (held, sold), "{entity}");
                    let done = |(cart, basket): &(&usize, &Basket)| mine(**cart) && basket.state == CartState::Done;
                    assert_eq!(audit.purchases.len(), self.baskets.iter().filter(done).count(), "{entity}");
                }
                State::Cart(cart) => {
                    let name = (0..3).find(|place| Entity::Cart(self::cart(NAMES[*place])) == *entity);
                    let basket = name.and_then(|name| self.baskets.get(&name));
                    let Some(view) = cart.view() else { continue };
                    let basket = basket.unwrap_or_else(|| panic!("{entity} is open"));
                    let price = |content: &Content| match content {
                        Content::Units { price, .. } => *price,
                        Content::Seats(_) | Content::Places { .. } | Content::Slot { .. } => 0,
                    };
                    let lines = view.lines.iter();
                    let lines = lines.map(|line| (line.line, line.content.quantity(), price(&line.content)));
                    let lines: Vec<_> = lines.collect();
                    let result: Vec<_> =
                        basket.lines.iter().map(|line| (line.number, line.quantity, line.price)).collect();
                    assert_eq!(
                        (view.state, view.deadline.0, lines),
                        (basket.state, basket.deadline, result),
                        "{entity}"
                    );
                }
                State::Venue(_) | State::Code(_) | State::Directory(_) | State::Cluster(_) => {}
            }
        }
    }
}

//! Products, areas and quotas against a simple reference, under messages that come late, twice and out of order.

use alloc::{boxed::Box, collections::BTreeMap, vec, vec::Vec};
use core::fmt::Debug;

use proptest::{collection::vec, prelude::*};
use smol_str::SmolStr;

use crate::{
    answer::Purchase,
    ask::{Opening, Reply},
    command::{Area, HoldPolicy, Limits, NewSession, ProductDetails, SessionExtras, Want},
    customer::Customer,
    event::{Event, ProductEvent},
    holds::HoldAsk,
    id::{CartId, HoldId, Id, OrderId, Request, RequestHash},
    inventory::Inventory,
    layout::Layout,
    money::{Currency, Money},
    portion::Portion,
    product::Product,
    refusal::Refusal,
    session::Session,
    stored,
    time::Timestamp,
};

/// The number of places, units or parts.
const CAPACITY: u32 = 10;

/// An inventory of equal things.
trait Counted: Inventory + Clone + PartialEq + Debug {
    fn made() -> Self;
    fn want(quantity: u32) -> Want;
    fn portion(quantity: u32) -> Portion;
    fn write(&mut self, event: &Event);
    /// Free, held and sold.
    fn counts(&self) -> (u64, u64, u64);
    fn violations(&self) -> Vec<SmolStr>;
    /// Serialized and read again.
    fn reread(&self) -> Self;
}

#[derive(Clone, Debug)]
enum Step {
    Hold {
        hold: usize,
        revision: u64,
        quantity: u32,
        deadline: u64,
    },
    Release {
        hold: usize,
        revision: u64,
        left: u32,
        last: bool,
    },
    Sell {
        hold: usize,
        revision: u64,
        quantity: u32,
    },
    Refund(usize),
    Extend(usize, u64),
    Disowned(usize),
    Forget(usize),
    /// The step before, or one long ago, comes again.
    Again(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Never,
    Live { revision: u64, wanted: u32, has: u32, deadline: u64 },
    Released(u64),
    Sold(u32),
    Refunded,
}

#[derive(Debug, PartialEq)]
enum Said {
    Granted,
    Refused,
    Reused,
    Stale { revision: u64, live: bool },
}

struct Reference {
    fates: [Fate; 6],
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (hold, revision, quantity) = (0..6usize, 1..7u64, prop_oneof![8 => 1..=CAPACITY, 1 => 0..=CAPACITY + 5]);
    let step = prop_oneof![
        8 => (hold.clone(), revision.clone(), quantity.clone(), 1..50u64)
            .prop_map(|(hold, revision, quantity, deadline)| Step::Hold { hold, revision, quantity, deadline }),
        5 => (hold.clone(), revision.clone(), 0..=CAPACITY, any::<bool>())
            .prop_map(|(hold, revision, left, last)| Step::Release { hold, revision, left, last }),
        3 => (hold.clone(), 2..9u64, 1..=CAPACITY)
            .prop_map(|(hold, revision, quantity)| Step::Sell { hold, revision, quantity }),
        2 => hold.clone().prop_map(Step::Refund),
        1 => (hold.clone(), 1..90u64).prop_map(|(hold, deadline)| Step::Extend(hold, deadline)),
        1 => hold.clone().prop_map(Step::Disowned),
        1 => (0..3usize).prop_map(Step::Forget),
        4 => (0..30usize).prop_map(Step::Again),
    ];
    vec(step, 1..30)
}

/// Two holds of each of three carts.
fn hold_id(number: usize) -> HoldId {
    HoldId { cart: CartId(number as u128 / 2), request: RequestHash(number as u64), part: 0, attempt: 0 }
}

impl Reference {
    fn taken(&self) -> (u32, u32) {
        let held = |fate: &Fate| if let Fate::Live { has, .. } = fate { *has } else { 0 };
        let sold = |fate: &Fate| if let Fate::Sold(has) = fate { *has } else { 0 };
        (self.fates.iter().map(held).sum(), self.fates.iter().map(sold).sum())
    }

    fn hold(&mut self, hold: usize, revision: u64, quantity: u32, deadline: u64) -> Said {
        let had = match self.fates[hold] {
            Fate::Never => 0,
            Fate::Live { revision: known, wanted, has, .. } => {
                if revision < known || (revision == known && wanted != quantity && revision > 1) {
                    return Said::Stale { revision: known, live: true };
                }
                if revision == known {
                    return if wanted == quantity { Said::Granted } else { Said::Reused };
                }
                has
            }
            Fate::Released(known) => return Said::Stale { revision: known, live: false },
            Fate::Sold(_) | Fate::Refunded => return Said::Stale { revision, live: false },
        };
        let (held, sold) = self.taken();
        if quantity == 0 || held - had + quantity + sold > CAPACITY {
            return Said::Refused;
        }
        self.fates[hold] = Fate::Live { revision, wanted: quantity, has: quantity, deadline };
        Said::Granted
    }

    fn release(&mut self, hold: usize, revision: u64, left: u32, last: bool) {
        self.fates[hold] = match self.fates[hold] {
            Fate::Live { revision: known, wanted, has, deadline } if revision > known => match left.min(has) {
                0 if last => Fate::Never,
                0 => Fate::Released(revision),
                has => Fate::Live { revision, wanted, has, deadline },
            },
            Fate::Never if !last => Fate::Released(revision),
            same => same,
        };
    }

    /// Whether a cart could send this sale. It sells a part of the hold, with a new revision.
    fn may_sell(&self, hold: usize, revision: u64, quantity: u32) -> bool {
        match self.fates[hold] {
            Fate::Live { revision: known, has, .. } => revision > known && quantity <= has,
            Fate::Sold(_) | Fate::Refunded => true,
            Fate::Never | Fate::Released(_) => false,
        }
    }
}

fn run<I: Counted>(steps: &[Step]) {
    let mut inventory = I::made();
    let mut reference = Reference { fates: [Fate::Never; 6] };
    for number in 0..steps.len() {
        let step = match &steps[number] {
            Step::Again(back) => match steps.get(number.saturating_sub(*back + 1)) {
                Some(Step::Again(_)) | None => continue,
                Some(step) => step,
            },
            step => step,
        };
        one(&mut inventory, &mut reference, step);
        compare(&inventory, &reference);
    }
    assert_eq!(inventory.violations(), Vec::<SmolStr>::new());
    assert_eq!(inventory.reread(), inventory);
}

fn one<I: Counted>(inventory: &mut I, reference: &mut Reference, step: &Step) {
    match *step {
        Step::Hold { hold, revision, quantity, deadline } => {
            let want = I::want(quantity);
            let ask = HoldAsk {
                hold: hold_id(hold),
                revision,
                want: &want,
                deadline: Timestamp(deadline),
                at: Timestamp(0),
                holder: None,
                desk: true,
                code: None,
                attributes: &[],
                customer: None,
            };
            let result = match inventory.decide_hold(Timestamp(0), &ask) {
                Ok(event) => {
                    inventory.write(&event);
                    assert_eq!(inventory.granted(hold_id(hold)).revision, revision);
                    Said::Granted
                }
                Err(Reply::Granted(_)) => Said::Granted,
                Err(Reply::Refused { refusal: Refusal::RequestIdReused, .. }) => Said::Reused,
                Err(Reply::Refused { .. }) => Said::Refused,
                Err(Reply::Stale { revision, live, .. }) => Said::Stale { revision, live },
                Err(reply) => panic!("a hold is replied to with {reply:?}"),
            };
            assert_eq!(result, reference.hold(hold, revision, quantity, deadline), "{step:?}");
        }
        Step::Release { hold, revision, left, last } => {
            let portion = (left > 0).then(|| I::portion(left));
            write(inventory, inventory.decide_release(hold_id(hold), revision, portion.as_ref(), last));
            reference.release(hold, revision, left, last);
        }
        Step::Sell { hold, revision, quantity } => {
            if !reference.may_sell(hold, revision, quantity) {
                return;
            }
            let id = hold_id(hold);
            let events = inventory
                .decide_sell(id, revision, &I::portion(quantity), id.cart.order(), Timestamp(7))
                .expect("it is held");
            write(inventory, events);
            if let Fate::Live { .. } = reference.fates[hold] {
                reference.fates[hold] = Fate::Sold(quantity);
            }
        }
        Step::Refund(hold) => {
            write(inventory, inventory.decide_refund(hold_id(hold)));
            if let Fate::Live { .. } | Fate::Sold(_) = reference.fates[hold] {
                reference.fates[hold] = Fate::Refunded;
            }
        }
        Step::Extend(hold, later) => {
            write(inventory, inventory.decide_extend(hold_id(hold), Timestamp(later)));
            if let Fate::Live { deadline, .. } = &mut reference.fates[hold] {
                *deadline = later.max(*deadline);
            }
        }
        Step::Disowned(hold) => {
            write(inventory, inventory.decide_disowned(hold_id(hold)));
            if let Fate::Live { .. } = reference.fates[hold] {
                reference.fates[hold] = Fate::Never;
            }
        }
        Step::Forget(cart) => {
            write(inventory, inventory.decide_forget(CartId(cart as u128)));
            for fate in &mut reference.fates[2 * cart..2 * cart + 2] {
                if let Fate::Released(_) = fate {
                    *fate = Fate::Never;
                }
            }
        }
        Step::Again(_) => panic!("looked up by the caller"),
    }
}

fn write<I: Counted>(inventory: &mut I, events: impl IntoIterator<Item = Event>) {
    events.into_iter().for_each(|event| inventory.write(&event));
}

fn compare<I: Counted>(inventory: &I, reference: &Reference) {
    let (held, sold) = reference.taken();
    let free = CAPACITY.checked_sub(held + sold).expect("the reference oversells");
    assert_eq!(inventory.counts(), (free.into(), held.into(), sold.into()));
    let mut due = Vec::new();
    for (number, fate) in reference.fates.iter().enumerate() {
        let id = hold_id(number);
        let (held, sold) = match *fate {
            Fate::Live { has, deadline, .. } => {
                due.push((Timestamp(deadline), id));
                (Some(I::portion(has)), None)
            }
            Fate::Sold(has) => (None, Some(I::portion(has))),
            Fate::Never | Fate::Released(_) | Fate::Refunded => (None, None),
        };
        assert_eq!((inventory.held(id), inventory.sold(id)), (held, sold.clone()), "hold {number}");
        assert_eq!(inventory.sale_version(id).is_some(), sold.is_some(), "hold {number}");
    }
    due.sort_unstable();
    assert_eq!(inventory.deadline(), due.first().map(|(deadline, _)| *deadline));
    due.retain(|(deadline, _)| deadline.0 <= 40);
    assert_eq!(inventory.overdue((Timestamp(0), HoldId::LAST), Timestamp(40), 100), due);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::random_tests::cases(5_000)))]

    #[test]
    fn units_of_a_product_are_as_the_reference_says(steps in steps()) {
        run::<Product>(&steps);
    }

    #[test]
    fn places_of_an_area_are_as_the_reference_says(steps in steps()) {
        run::<Session>(&steps);
    }

    #[test]
    fn parts_of_a_quota_are_as_the_reference_says(steps in steps()) {
        run::<Customer>(&steps);
    }
}

pub(crate) fn id(text: &str) -> Id {
    Id::new(text).expect("a good id")
}

pub(crate) fn euros(amount: i64) -> Money {
    Money { amount, currency: Currency::new("EUR").expect("three letters") }
}

/// The request with this number.
pub(crate) fn request(number: u64) -> Request {
    Request { id: RequestHash(number), body: number }
}

pub(crate) fn product_details(stock: u64) -> ProductDetails {
    ProductDetails {
        name: "a thing".into(),
        properties: vec![],
        blob: vec![],
        price: euros(250),
        stock,
        hold: HoldPolicy::AtAdd,
        hold_ttl_ms: None,
        limits: Limits::default(),
        tax: None,
    }
}

/// A session without seats, with one area.
pub(crate) fn standing(capacity: u32) -> Session {
    let area = Area { id: id("floor"), name: "Floor".into(), capacity, price: euros(1_500), names: Default::default() };
    let session = NewSession {
        id: id("s"),
        hall: id("hall"),
        title: id("title"),
        starts_at: Timestamp(1_000_000),
        ends_at: Timestamp(2_000_000),
        prices: vec![],
        extras: SessionExtras { areas: vec![area], ..Default::default() },
    };
    let layout = Layout::new(vec![], None).expect("a hall may have no seats").into();
    Session::opened(&Opening { venue: id("venue"), session, layout, zone: Default::default() })
}

impl Counted for Product {
    fn made() -> Product {
        let details = Box::new(product_details(CAPACITY.into()));
        Product::first(id("p"), &ProductEvent::Put { details, request: request(0) })
    }

    fn want(quantity: u32) -> Want {
        Want::Units { quantity, now: false }
    }

    fn portion(quantity: u32) -> Portion {
        Portion::Units(quantity)
    }

    fn write(&mut self, event: &Event) {
        let Event::Product(event) = event else { panic!("a product decides {event:?}") };
        self.apply(event);
    }

    fn counts(&self) -> (u64, u64, u64) {
        let counts = Product::counts(self);
        (counts.free, counts.held, counts.sold)
    }

    fn violations(&self) -> Vec<SmolStr> {
        self.audit().violations
    }

    fn reread(&self) -> Product {
        let mut read: Product = reread(self);
        read.rebuild();
        read
    }
}

impl Counted for Session {
    fn made() -> Session {
        standing(CAPACITY)
    }

    fn want(quantity: u32) -> Want {
        Want::places(id("floor"), quantity)
    }

    fn portion(quantity: u32) -> Portion {
        Portion::Places { area: id("floor"), quantity }
    }

    fn write(&mut self, event: &Event) {
        let Event::Session(event) = event else { panic!("a session decides {event:?}") };
        self.apply(event);
    }

    fn counts(&self) -> (u64, u64, u64) {
        let counts = &self.area_counts()[0];
        (counts.free.into(), counts.held.into(), counts.sold.into())
    }

    fn violations(&self) -> Vec<SmolStr> {
        self.audit().violations
    }

    fn reread(&self) -> Session {
        let mut read: Session = reread(self);
        read.set_layout(self.layout().clone());
        read.rebuild();
        read
    }
}

impl Counted for Customer {
    fn made() -> Customer {
        // A purchase under another quota and an order change nothing.
        let mut customer = Customer::unknown(id("anna"));
        let purchase =
            Purchase { cursor: 0, order: OrderId(9), at: Timestamp(1), total: euros(1), zone: None, items: Vec::new() };
        customer.apply(&customer.decide_post(&purchase).expect("it is new"));
        customer
    }

    fn want(quantity: u32) -> Want {
        Want::Quota { quota: id("finals"), count: quantity, max: CAPACITY }
    }

    fn portion(quantity: u32) -> Portion {
        Portion::Quota { quota: id("finals"), count: quantity }
    }

    fn write(&mut self, event: &Event) {
        let Event::Customer(event) = event else { panic!("a customer decides {event:?}") };
        self.apply(event);
    }

    fn counts(&self) -> (u64, u64, u64) {
        let audit = self.audit();
        let (held, sold) = audit.quotas.first().map_or((0, 0), |(_, held, sold)| (*held, *sold));
        (u64::from(CAPACITY) - held - sold, held, sold)
    }

    fn violations(&self) -> Vec<SmolStr> {
        self.audit().violations
    }

    fn reread(&self) -> Customer {
        let mut read: Customer = reread(self);
        read.rebuild();
        read
    }
}

pub(crate) fn reread<T: stored::Encode + stored::Decode>(kept: &T) -> T {
    let bytes = stored::append(kept, Vec::new());
    let read = stored::read(&bytes).expect("what was written down can be read");
    assert_eq!(stored::append(&read, Vec::new()), bytes);
    read
}

/// In a usual run, holds are granted, changed, sold and refunded.
#[test]
fn the_model_reaches_every_state_of_a_hold() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..200 {
        let steps = steps().new_tree(&mut runner).expect("steps").current();
        let mut inventory = Product::made();
        let mut reference = Reference { fates: [Fate::Never; 6] };
        for step in steps.iter().filter(|step| !matches!(step, Step::Again(_))) {
            one(&mut inventory, &mut reference, step);
            for fate in &reference.fates {
                let name = match fate {
                    Fate::Never => "never",
                    Fate::Live { revision, .. } if *revision > 1 => "changed",
                    Fate::Live { .. } => "live",
                    Fate::Released(_) => "released",
                    Fate::Sold(_) => "sold",
                    Fate::Refunded => "refunded",
                };
                *seen.entry(name).or_default() += 1;
            }
        }
    }
    assert_eq!(seen.len(), 6, "{seen:?}");
}

/// A sale of an unknown hold describes the hold and the others of its cart.
#[test]
#[should_panic(
    expected = "by revision 2097152, which is not held: it was released by revision 1048576; of this cart were released \
                           7/0/0 by 1048576; are live 7/0/1 by 1"
)]
fn a_sale_of_what_is_not_held_says_what_became_of_it() {
    let mut product = Product::made();
    let hold = |attempt| HoldId { cart: CartId(1), request: RequestHash(7), part: 0, attempt };
    let want = Product::want(2);
    for attempt in 0..2 {
        let ask = HoldAsk {
            hold: hold(attempt),
            revision: 1,
            want: &want,
            deadline: Timestamp(9),
            at: Timestamp(0),
            holder: None,
            desk: true,
            code: None,
            attributes: &[],
            customer: None,
        };
        let held = product.decide_hold(Timestamp(1), &ask).expect("there are some");
        product.write(&held);
    }
    let released = product.decide_release(hold(0), 1 << 20, None, false).expect("it is live");
    product.write(&released);
    product.decide_sell(hold(0), 2 << 20, &Product::portion(2), CartId(1).order(), Timestamp(2));
}

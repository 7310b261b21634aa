//! Random commands against a reference that is simple enough to be obviously right. It has a map of seats and a map of carts, and
//! takes one command at a time.

use std::collections::BTreeMap;

use boxoffice_core::{
    answer::{Answer, CartState, CartView, Ended, Held, LineView, Order},
    command::{CartCommand, Command, SessionCommand, VenueCommand, Want, WantedLine},
    id::{Entity, Id},
    payment::{OnDecline, PaymentStatus},
    portion::{Content, PricedSeat},
    refusal::{LineRefusal, Refusal, TakenSeat},
    rules::Rules,
    seat::{Seat, SeatSet, SeatState},
    time::Timestamp,
};
use proptest::{collection::vec, option, prelude::*};

use crate::{
    fixture::Fixture,
    random_runs::cases,
    script::{cart, check_out, details, euros, id, layout, new_session, recorded},
};

const CASES: u32 = 3_000;
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
/// This cart is a guest's.
const GUEST: usize = 1;
/// The lifetime of carts with seats of the second session.
const SHORT_TTL_MS: u64 = 700;
/// Seats of the two rows. The second row costs twice as much.
const ROWS: [u16; 2] = [4, 3];

#[derive(Clone, Debug)]
enum Step {
    Open {
        cart: usize,
        ttl_ms: Option<u64>,
    },
    Hold {
        cart: usize,
        lines: Vec<(usize, Vec<Seat>, bool)>,
    },
    Release {
        cart: usize,
        line: u32,
        seats: Option<Vec<Seat>>,
    },
    Cancel {
        cart: usize,
    },
    Checkout {
        cart: usize,
    },
    Get {
        cart: usize,
    },
    Block {
        session: usize,
        seats: Vec<Seat>,
    },
    Unblock {
        session: usize,
        seats: Vec<Seat>,
    },
    /// Repeats an earlier step with the same request id.
    Repeat {
        step: prop::sample::Index,
    },
    Wait {
        ms: u64,
    },
}

fn seats() -> impl Strategy<Value = Vec<Seat>> {
    // Sometimes beyond the rows.
    let seat = (0..2u16, 0..4u16).prop_map(|(row, seat)| Seat { row, seat });
    prop::collection::btree_set(seat, 1..4).prop_map(|seats| seats.into_iter().collect())
}

fn step() -> impl Strategy<Value = Step> {
    let cart = 0..3usize;
    let session = 0..2usize;
    let line = (session.clone(), seats(), prop::bool::weighted(0.2));
    prop_oneof![
        1 => (cart.clone(), option::of(0..6_000u64)).prop_map(|(cart, ttl_ms)| Step::Open { cart, ttl_ms }),
        8 => (cart.clone(), vec(line, 1..4)).prop_map(|(cart, lines)| Step::Hold { cart, lines }),
        3 => (cart.clone(), 1..5u32, option::of(seats()))
            .prop_map(|(cart, line, seats)| Step::Release { cart, line, seats }),
        1 => cart.clone().prop_map(|cart| Step::Cancel { cart }),
        2 => cart.clone().prop_map(|cart| Step::Checkout { cart }),
        1 => cart.prop_map(|cart| Step::Get { cart }),
        1 => (session.clone(), seats()).prop_map(|(session, seats)| Step::Block { session, seats }),
        1 => (session, seats()).prop_map(|(session, seats)| Step::Unblock { session, seats }),
        3 => any::<prop::sample::Index>().prop_map(|step| Step::Repeat { step }),
        3 => (1..600u64).prop_map(|ms| Step::Wait { ms }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(CASES), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_commands_end_as_in_the_reference(steps in vec(step(), 1..24)) {
        play(&steps);
    }
}

fn play(steps: &[Step]) {
    let mut fixture = fixture();
    let mut reference = Reference::new();
    for (number, step) in steps.iter().enumerate() {
        let (number, step) = original(steps, number, step);
        if let Step::Wait { ms } = step {
            fixture.wait(*ms, Fixture::run);
            reference.wait(*ms);
            continue;
        }
        let ticket = fixture.send(Some(&format!("r{number}")), command(step));
        fixture.run();
        let outcome = fixture.answers.get(&ticket).expect("everything is answered at once").clone();
        assert_eq!(
            outcome.map(|answered| unversioned(answered.answer)),
            reference.step(number, step),
            "step {number}: {step:?}"
        );
        reference.compare(&fixture);
    }
}

/// An answer without the version of the lines. A cart's version also counts owed messages and acknowledgements, which the
/// reference does not have.
fn unversioned(mut answer: Answer) -> Answer {
    match &mut answer {
        Answer::Cart(view) => view.lines_version = 0,
        Answer::Held(held) => held.lines_version = 0,
        _ => {}
    }
    answer
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
    let layout = layout("aaaa/bbb");
    let to_venue = |command| Command::Venue(id("venue"), command);
    fixture.send(Some("venue"), to_venue(VenueCommand::Put(details())));
    fixture.run();
    let put =
        VenueCommand::PutHall { hall: id("hall"), name: "Hall".into(), comments: "".into(), layout: layout.clone() };
    fixture.send(Some("hall"), to_venue(put));
    fixture.run();
    for (name, starts_at, ttl_ms) in [("s", 1_000_000, None), ("t", 3_000_000, Some(SHORT_TTL_MS))] {
        let session = new_session(name, &layout, starts_at, starts_at + 1_000_000, ttl_ms);
        fixture.send(Some("create"), to_venue(VenueCommand::CreateSession(session)));
        fixture.run();
    }
    fixture
}

fn session(number: usize) -> Id {
    id(["s", "t"][number])
}

fn buyer(number: usize) -> boxoffice_core::id::CartId {
    cart(["a", "b", "c"][number])
}

fn set(seats: &[Seat]) -> SeatSet {
    SeatSet::new(seats.iter().copied()).expect("one to three different seats")
}

fn command(step: &Step) -> Command {
    let (cart, command) = match step {
        Step::Open { cart, ttl_ms } => {
            (cart, CartCommand::Open { customer: None, ttl_ms: *ttl_ms, guest: *cart == GUEST })
        }
        Step::Hold { cart, lines } => {
            let line = |(number, seats, best_effort): &(usize, Vec<Seat>, bool)| {
                WantedLine::new(Entity::Session(session(*number)), Want::seats(set(seats), *best_effort))
            };
            let lines = lines.iter().map(line).collect();
            (
                cart,
                CartCommand::Hold {
                    lines,
                    customer: None,
                    guest: *cart == GUEST,
                    holder: None,
                    attributes: Vec::new(),
                },
            )
        }
        Step::Release { cart, line, seats } => {
            (cart, CartCommand::Release { line: *line, seats: seats.as_deref().map(set) })
        }
        Step::Cancel { cart } => (cart, CartCommand::Cancel),
        Step::Checkout { cart } => (cart, check_out()),
        Step::Get { cart } => (cart, CartCommand::Get),
        Step::Block { session: number, seats } => {
            return Command::Session(session(*number), SessionCommand::Block(seats.clone()));
        }
        Step::Unblock { session: number, seats } => {
            return Command::Session(session(*number), SessionCommand::Unblock(seats.clone()));
        }
        Step::Repeat { .. } | Step::Wait { .. } => panic!("{step:?} is not a command"),
    };
    Command::Cart(buyer(*cart), command)
}

/// The owner of a seat.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Cart(usize),
    Order(usize),
    Office,
}

struct Basket {
    view: CartView,
    ttl_ms: u64,
    age_ends_at: Timestamp,
    next_line: u32,
}

struct Reference {
    now: Timestamp,
    owners: BTreeMap<(usize, Seat), Owner>,
    baskets: BTreeMap<usize, Basket>,
    /// Granted answers, by step.
    granted: BTreeMap<usize, Answer>,
}

type StepResult = Result<Answer, Refusal>;

impl Reference {
    fn new() -> Reference {
        Reference { now: Timestamp(0), owners: BTreeMap::new(), baskets: BTreeMap::new(), granted: BTreeMap::new() }
    }

    fn wait(&mut self, ms: u64) {
        self.now = self.now.after(ms);
        for (&cart, basket) in &mut self.baskets {
            if basket.view.state == CartState::Active && self.now >= basket.view.deadline {
                let aged = basket.view.deadline >= basket.age_ends_at;
                (basket.view.state, basket.view.modified_at) = (CartState::Expired, basket.view.deadline);
                basket.view.ended = Some(if aged { Ended::TooOld } else { Ended::Expired });
                self.owners.retain(|_, owner| *owner != Owner::Cart(cart));
            }
        }
    }

    fn step(&mut self, number: usize, step: &Step) -> StepResult {
        if let Some(answer) = self.granted.get(&number) {
            return Ok(answer.clone());
        }
        let (result, remembered) = match step {
            Step::Get { cart } => (self.get(*cart), false),
            Step::Open { cart, ttl_ms } => (self.open(*cart, *ttl_ms), true),
            Step::Hold { cart, lines } => (self.hold(*cart, lines), true),
            Step::Release { cart, line, seats } => (self.release(*cart, *line, seats.as_deref()), true),
            Step::Cancel { cart } => (self.cancel(*cart), true),
            Step::Checkout { cart } => (self.check_out(*cart), true),
            Step::Block { session, seats } => (self.office(*session, seats, true), true),
            Step::Unblock { session, seats } => (self.office(*session, seats, false), true),
            Step::Repeat { .. } | Step::Wait { .. } => panic!("{step:?} is not a command"),
        };
        if let (Ok(answer), true) = (&result, remembered) {
            self.granted.insert(number, answer.clone());
        }
        result
    }

    fn get(&self, cart: usize) -> StepResult {
        self.baskets.get(&cart).map(|basket| Answer::Cart(basket.view.clone())).ok_or_else(|| unknown(cart))
    }

    fn active(&mut self, cart: usize) -> Result<Option<&mut Basket>, Refusal> {
        match self.baskets.get_mut(&cart) {
            None => Ok(None),
            Some(basket) => match basket.view.state {
                CartState::Active => Ok(Some(basket)),
                CartState::Expired if basket.view.deadline >= basket.age_ends_at => Err(Refusal::HoldAgeExceeded),
                CartState::Expired => Err(Refusal::CartExpired),
                state => Err(Refusal::CartNotActive(state.as_str().into())),
            },
        }
    }

    fn open(&mut self, cart: usize, ttl_ms: Option<u64>) -> StepResult {
        if let Some(basket) = self.active(cart)? {
            return match ttl_ms.filter(|ttl_ms| *ttl_ms != basket.ttl_ms) {
                Some(ttl_ms) => {
                    let text = format!("lives {} ms untouched, not {ttl_ms} ms", basket.ttl_ms);
                    Err(Refusal::CartOpenDifferently(text.into()))
                }
                None => Ok(Answer::Cart(basket.view.clone())),
            };
        }
        let (default_ms, max_ms) = if cart == GUEST { (600, 600) } else { (1_000, 5_000) };
        let ttl_ms = ttl_ms.unwrap_or(default_ms);
        if cart == GUEST && ttl_ms > 600 && ttl_ms <= 5_000 {
            let text = "a cart that lives longer than 600 ms needs a key with the role desk";
            return Err(Refusal::Forbidden(text.into()));
        }
        if ttl_ms == 0 || ttl_ms > max_ms {
            let text = format!("a cart lives 1 to {max_ms} ms untouched, not {ttl_ms}");
            return Err(Refusal::BadRequest(text.into()));
        }
        let basket = Basket::new(cart, self.now, ttl_ms);
        let view = basket.view.clone();
        self.baskets.insert(cart, basket);
        Ok(Answer::Cart(view))
    }

    fn hold(&mut self, cart: usize, lines: &[(usize, Vec<Seat>, bool)]) -> StepResult {
        let mut named: Vec<(usize, Seat)> =
            lines.iter().flat_map(|(session, seats, _)| seats.iter().map(|seat| (*session, *seat))).collect();
        named.sort_by_key(|(session, seat)| (self::session(*session), *seat));
        let mut twice: Vec<Seat> = named.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0].1).collect();
        twice.dedup();
        if !twice.is_empty() {
            return Err(Refusal::DuplicateSeat(twice));
        }
        self.active(cart)?;
        let mut granted = Vec::new();
        for (session, seats, best_effort) in lines {
            granted.push((*session, self.granted_of(*session, seats, *best_effort)));
        }
        let refused = (0..)
            .zip(&granted)
            .filter_map(|(line, (_, granted))| granted.clone().err().map(|refusal| LineRefusal { line, refusal }));
        let mut refused: Vec<LineRefusal> = refused.collect();
        match refused.len() {
            0 => {}
            1 if lines.len() == 1 => return Err(refused.remove(0).refusal),
            _ => return Err(Refusal::Lines(refused)),
        }
        let granted = granted.into_iter().map(|(session, seats)| (session, seats.expect("nothing was refused")));
        let granted: Vec<_> = granted.collect();
        for (session, seats) in &granted {
            self.owners.extend(seats.iter().map(|seat| ((*session, *seat), Owner::Cart(cart))));
        }
        let now = self.now;
        let basket =
            self.baskets.entry(cart).or_insert_with(|| Basket::new(cart, now, if cart == GUEST { 600 } else { 1_000 }));
        let first = basket.view.lines.len();
        for (number, seats) in granted {
            let priced = |seat: &Seat| PricedSeat::new(*seat, price(*seat));
            let seats = seats.iter().map(priced).collect();
            let entity = Entity::Session(self::session(number));
            let content = Content::Seats(seats);
            basket.view.lines.push(LineView::new(basket.next_line, entity, content, false));
            basket.next_line += 1;
        }
        basket.touch(now);
        let (lines, deadline) = (basket.view.lines[first..].to_vec(), basket.view.deadline);
        Ok(Answer::Held(Held { cart: buyer(cart), lines, currency: euros(0).currency, deadline, lines_version: 0 }))
    }

    fn granted_of(&self, session: usize, seats: &[Seat], best_effort: bool) -> Result<Vec<Seat>, Refusal> {
        let unknown: Vec<Seat> = seats.iter().copied().filter(|seat| !exists(*seat)).collect();
        if !unknown.is_empty() {
            return Err(Refusal::NoSuchSeat(unknown));
        }
        let taken: Vec<TakenSeat> = seats.iter().filter_map(|seat| self.taken(session, *seat)).collect();
        let free: Vec<Seat> = seats.iter().copied().filter(|seat| self.taken(session, *seat).is_none()).collect();
        if taken.is_empty() || (best_effort && !free.is_empty()) {
            Ok(free)
        } else if taken.iter().all(|taken| taken.state == SeatState::Blocked) {
            Err(Refusal::SeatBlocked(taken))
        } else {
            Err(Refusal::SeatsTaken(taken))
        }
    }

    fn taken(&self, session: usize, seat: Seat) -> Option<TakenSeat> {
        let state = match self.owners.get(&(session, seat))? {
            Owner::Cart(_) => SeatState::Held,
            Owner::Order(_) => SeatState::Sold,
            Owner::Office => SeatState::Blocked,
        };
        Some(TakenSeat { seat, state })
    }

    fn release(&mut self, cart: usize, number: u32, seats: Option<&[Seat]>) -> StepResult {
        let now = self.now;
        let basket = self.active(cart)?.ok_or_else(|| unknown(cart))?;
        let line = basket.view.lines.iter_mut().find(|line| line.line == number).ok_or(Refusal::NoSuchLine(number))?;
        let all: Vec<Seat> = line.content.seats().iter().map(|priced| priced.seat).collect();
        let released = seats.map_or_else(|| all.clone(), <[Seat]>::to_vec);
        let foreign: Vec<Seat> = released.iter().copied().filter(|seat| !all.contains(seat)).collect();
        if !foreign.is_empty() {
            return Err(Refusal::NoSuchSeat(foreign));
        }
        let Content::Seats(has) = &mut line.content else { panic!("only seats are held here") };
        *has = has.iter().filter(|priced| !released.contains(&priced.seat)).cloned().collect();
        let of = line.entity.clone();
        basket.view.lines.retain(|line| !line.content.seats().is_empty());
        basket.touch(now);
        let view = basket.view.clone();
        self.owners.retain(|(number, seat), _| Entity::Session(session(*number)) != of || !released.contains(seat));
        Ok(Answer::Cart(view))
    }

    fn cancel(&mut self, cart: usize) -> StepResult {
        let now = self.now;
        let basket = self.active(cart)?.ok_or_else(|| unknown(cart))?;
        basket.view.state = CartState::Canceled;
        (basket.view.ended, basket.view.modified_at) = (Some(Ended::Canceled), now);
        let view = basket.view.clone();
        self.owners.retain(|_, owner| *owner != Owner::Cart(cart));
        Ok(Answer::Cart(view))
    }

    fn check_out(&mut self, cart: usize) -> StepResult {
        let now = self.now;
        let basket = self.active(cart)?.ok_or_else(|| unknown(cart))?;
        let total = basket.view.total.ok_or(Refusal::CartEmpty)?;
        (basket.view.state, basket.view.modified_at) = (CartState::Done, now);
        basket.view.order = Some(buyer(cart).order());
        let order = Order {
            id: buyer(cart).order(),
            customer: None,
            at: now,
            lines: basket.view.lines.clone(),
            total,
            payment: recorded(),
            shipping: None,
        };
        for owner in self.owners.values_mut().filter(|owner| **owner == Owner::Cart(cart)) {
            *owner = Owner::Order(cart);
        }
        let (payment, refunds) = (PaymentStatus::Recorded, Vec::new());
        Ok(Answer::Order { order: order.into(), settling: false, payment, refunds, sessions: Vec::new() })
    }

    fn office(&mut self, session: usize, seats: &[Seat], block: bool) -> StepResult {
        let unknown: Vec<Seat> = seats.iter().copied().filter(|seat| !exists(*seat)).collect();
        if !unknown.is_empty() {
            return Err(Refusal::NoSuchSeat(unknown));
        }
        let taken: Vec<TakenSeat> = seats.iter().filter_map(|seat| self.taken(session, *seat)).collect();
        let others: Vec<TakenSeat> = taken.into_iter().filter(|taken| taken.state != SeatState::Blocked).collect();
        if !others.is_empty() {
            return Err(Refusal::SeatsTaken(others));
        }
        for seat in seats {
            if block {
                self.owners.insert((session, *seat), Owner::Office);
            } else {
                self.owners.remove(&(session, *seat));
            }
        }
        Ok(Answer::Done)
    }

    /// Compares the owner of every seat.
    fn compare(&self, fixture: &Fixture) {
        let maps = crate::script::draw(&fixture.states);
        for number in 0..2 {
            let mut map = String::new();
            for (row, seats) in (0..).zip(ROWS) {
                for seat in 0..seats {
                    map.push(match self.owners.get(&(number, Seat { row, seat })) {
                        None => '.',
                        Some(Owner::Office) => '#',
                        Some(Owner::Cart(cart)) => ['a', 'b', 'c'][*cart],
                        Some(Owner::Order(cart)) => ['A', 'B', 'C'][*cart],
                    });
                }
                map.push('\n');
            }
            assert_eq!(maps[&session(number)], map, "session {}", session(number));
        }
    }
}

impl Basket {
    fn new(cart: usize, at: Timestamp, ttl_ms: u64) -> Basket {
        let age_ends_at = at.after(if cart == GUEST { 2_000 } else { 3_000 });
        let deadline = at.after(ttl_ms).min(age_ends_at);
        let view = CartView {
            id: buyer(cart),
            state: CartState::Active,
            customer: None,
            opened_at: at,
            modified_at: at,
            deadline,
            lines: Vec::new(),
            lines_version: 0,
            taken: Vec::new(),
            total: None,
            order: None,
            ended: None,
        };
        Basket { view, ttl_ms, age_ends_at, next_line: 1 }
    }

    fn touch(&mut self, now: Timestamp) {
        let short = self.view.lines.iter().any(|line| line.entity == Entity::Session(session(1)));
        let ttl_ms = if short { self.ttl_ms.min(SHORT_TTL_MS) } else { self.ttl_ms };
        self.view.modified_at = now;
        self.view.deadline = now.after(ttl_ms).min(self.age_ends_at);
        let prices = self.view.lines.iter().flat_map(|line| line.content.seats()).map(|priced| priced.price);
        self.view.total = (!self.view.lines.is_empty()).then(|| euros(prices.sum()));
    }
}

fn exists(seat: Seat) -> bool {
    ROWS.get(usize::from(seat.row)).is_some_and(|seats| seat.seat < *seats)
}

fn price(seat: Seat) -> i64 {
    1_000 * (i64::from(seat.row) + 1)
}

fn unknown(cart: usize) -> Refusal {
    Refusal::NotFound(format!("cart {}", buyer(cart)).into())
}

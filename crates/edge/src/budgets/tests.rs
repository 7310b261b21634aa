//! Charges of networks, customers and keys, and refusals of budgets.

use std::{collections::BTreeMap, sync::atomic::AtomicU32};

use boxoffice_core::{
    answer::{CartState, CartView, LineView},
    id::{CartToken, Entity, Id},
    money::Currency,
    portion::{Content, PricedSeat},
    seat::{Seat, SeatSet},
};
use boxoffice_node::api::Failure;

use rand::{Rng as _, SeedableRng, rngs::SmallRng};

use super::{accounts::ACCOUNTS_KEPT, *};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn small() -> BudgetConfig {
    BudgetConfig {
        connections: 2,
        connections_per_second: 1,
        handshakes_per_second: 1,
        requests_per_second: 10,
        carts: 3,
        node_carts: 0,
        held: 10,
        cart_held: 8,
        seat_seconds: 12_000,
        seat_seconds_per_second: 1,
        life: Duration::from_secs(1_000),
    }
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn anonymous(last: u8) -> Owners {
    vec![(Owner::Network(ClientNetwork::of(address(last))), KeyBudgets::default())]
}

fn cart(number: u128) -> CartId {
    CartToken(number).cart()
}

fn hold(number: u128, seats: u16) -> Command {
    let entity = Entity::Session(Id::new("hamlet").expect("an id"));
    let seats = (0..seats).map(|seat| Seat { row: 0, seat });
    let seats = SeatSet::new(seats.collect::<Vec<_>>()).expect("distinct");
    let want = Want::seats(seats, false);
    Command::Cart(
        cart(number),
        CartCommand::Hold {
            lines: vec![WantedLine::new(entity, want)],
            customer: None,
            guest: false,
            holder: None,
            attributes: Vec::new(),
        },
    )
}

fn held(number: u128, seats: u16, life_s: u64) -> api::Result {
    let seats = (0..seats).map(|seat| PricedSeat::new(Seat { row: 0, seat }, 1));
    let entity = Entity::Session(Id::new("hamlet").expect("an id"));
    // Numbers of lines are never used again. Line 1 is for quantities.
    static LINES: AtomicU32 = AtomicU32::new(2);
    let line = LINES.fetch_add(1, Ordering::Relaxed);
    let line = LineView::new(line, entity, Content::Seats(seats.collect()), false);
    let currency = Currency::new("EUR").expect("a currency");
    let deadline = Timestamp(NOW.0 + life_s * 1_000);
    let answer = Held { cart: cart(number), lines: vec![line], currency, deadline, lines_version: 1 };
    Ok(Ok(Answered { answer: Answer::Held(answer), at: Vec::new() }))
}

/// Holds seats as an anonymous caller. The error says which budget is exhausted.
fn ask(budgets: &Budgets, owners: &Owners, number: u128, seats: u16, at: Instant) -> Result<(), OverBudget> {
    let charge = budgets.begin(owners, &hold(number, seats), at)?.expect("a cart is charged");
    budgets.end(&charge, &held(number, seats, 1_000), at, NOW);
    Ok(())
}

#[test]
fn connections_and_requests_of_a_network_are_limited() {
    let (budgets, now) = (Budgets::new(small()), Instant::now());
    let connect = |last| budgets.connect(address(last), now).map_err(|over| over.budget);
    assert_eq!([(); 5].map(|()| connect(1)), [Ok(true), Ok(true), Ok(false), Ok(false), Err(Budget::Connections)]);
    assert_eq!(connect(2), Ok(true), "another network has its own limit");
    (0..3).for_each(|_| budgets.disconnect(address(1)));
    assert_eq!(connect(1), Ok(true));
    for _ in 0..50 {
        assert_eq!(budgets.request(&anonymous(1), weight::REQUEST, now), Ok(()));
    }
    let over = budgets.request(&anonymous(1), weight::REQUEST, now).expect_err("the budget of five seconds is used up");
    assert_eq!((over.budget, over.retry_after), (Budget::Requests, Duration::from_millis(100)));
    assert_eq!(
        budgets.request(&anonymous(1), weight::REQUEST, now + over.retry_after),
        Ok(()),
        "granted after the announced time"
    );
    assert_eq!(budgets.request(&anonymous(2), 500, now), Ok(()));
    assert!(budgets.request(&anonymous(2), 5, now).is_err(), "expensive reads count as several");
    let key = |limit| {
        vec![(Owner::Key(Id::new("k").expect("an id")), KeyBudgets { requests_per_second: limit, held_max: None })]
    };
    assert!((0..1_000).all(|_| budgets.request(&key(None), 1, now).is_ok()), "a key without a limit has none");
    assert!((0..6).any(|_| budgets.request(&key(Some(1)), weight::REQUEST, now).is_err()));
    assert!((0..1_000).all(|_| budgets.request(&Vec::new(), 1, now).is_ok()), "operators have no budget");
    // What is known only afterwards delays the requests after it.
    budgets.owe(&anonymous(3), 5_000, now);
    let over = budgets.request(&anonymous(3), 1, now).expect_err("it is owed");
    assert_eq!(budgets.request(&anonymous(3), 1, now + over.retry_after + Duration::from_millis(1)), Ok(()));
    let mut text = MetricsText::default();
    budgets.write(&mut text);
    let text = text.finish();
    assert!(text.contains("over_budget_total{budget=\"requests\"} 4"), "{text}");
}

#[test]
fn the_carts_of_all_anonymous_callers_are_limited() {
    let now = Instant::now();
    let budgets = Budgets::new(BudgetConfig { node_carts: 3, ..small() });
    for number in 1..=3 {
        assert_eq!(ask(&budgets, &anonymous(number as u8), number, 1, now), Ok(()));
    }
    let over = ask(&budgets, &anonymous(4), 4, 1, now).expect_err("there is room for three");
    assert_eq!((over.budget, over.retry_after), (Budget::NodeCarts, Duration::from_secs(1_000)));
    assert_eq!(ask(&budgets, &anonymous(1), 1, 1, now), Ok(()), "an existing cart may hold more");
    assert!(budgets.begin(&Vec::new(), &hold(5, 1), now).is_ok(), "operators are not counted");
    assert_eq!(ask(&budgets, &anonymous(4), 4, 1, now + over.retry_after), Ok(()), "granted after the announced time");
}

#[test]
fn concurrent_holds_are_limited() {
    let (budgets, now) = (Budgets::new(small()), Instant::now());
    let one = anonymous(1);
    assert_eq!(ask(&budgets, &one, 1, 9, now).map_err(|over| over.budget), Err(Budget::CartHeld));
    assert_eq!(ask(&budgets, &one, 1, 6, now), Ok(()));
    assert_eq!(ask(&budgets, &one, 1, 3, now).map_err(|over| over.budget), Err(Budget::CartHeld));
    let over = ask(&budgets, &one, 2, 5, now).expect_err("ten are the most");
    assert_eq!((over.budget, over.retry_after), (Budget::Held, Duration::from_secs(1_000)));
    assert_eq!(ask(&budgets, &anonymous(2), 7, 5, now), Ok(()), "other networks are not affected");
    assert_eq!(ask(&budgets, &one, 2, 4, now), Ok(()));
    // Refused and failed holds do not count. An unknown outcome counts.
    for (result, is_free) in
        [(Ok(Err(Refusal::CartExpired)), true), (Err(Failure::Busy(100)), true), (Err(Failure::Unknown), false)]
    {
        let budgets = Budgets::new(small());
        let charge = budgets.begin(&one, &hold(1, 8), now).expect("it is free").expect("charged");
        assert!(budgets.begin(&one, &hold(2, 8), now).is_err(), "holds under way count");
        budgets.end(&charge, &result, now, NOW);
        assert_eq!(budgets.begin(&one, &hold(2, 8), now).is_ok(), is_free, "{result:?}");
    }
    // The charges end with their carts.
    assert!(ask(&budgets, &one, 3, 8, now + Duration::from_secs(999)).is_err());
    assert_eq!(
        ask(&budgets, &one, 3, 8, now + Duration::from_secs(1_000)).map_err(|over| over.budget),
        Err(Budget::SeatSeconds)
    );
    assert!(ask(&budgets, &one, 3, 8, now + Duration::from_secs(9_000)).is_ok());
}

#[test]
fn sold_and_released_carts_are_credited() {
    let (budgets, now) = (Budgets::new(small()), Instant::now());
    let one = anonymous(1);
    for number in 1..=20 {
        assert_eq!(
            ask(&budgets, &one, number, 6, now),
            Ok(()),
            "immediate purchases never exhaust the budget: {number}"
        );
        let pay = Command::Cart(cart(number), CartCommand::Cancel);
        let charge = budgets.begin(&one, &pay, now).expect("a checkout needs no budget").expect("a cart");
        let view = CartView {
            id: cart(number),
            state: CartState::Canceled,
            customer: None,
            opened_at: NOW,
            modified_at: NOW,
            deadline: NOW,
            lines: Vec::new(),
            lines_version: 1,
            taken: Vec::new(),
            total: None,
            order: None,
            ended: None,
        };
        budgets.end(&charge, &Ok(Ok(Answered { answer: Answer::Cart(view), at: Vec::new() })), now, NOW);
    }
}

#[test]
fn a_cart_with_a_refused_request_still_counts() {
    let (budgets, now) = (Budgets::new(small()), Instant::now());
    let one = anonymous(1);
    for number in 1..=3 {
        assert_eq!(ask(&budgets, &one, number, 1, now), Ok(()));
        let charge = budgets.begin(&one, &hold(number, 1), now).expect("within the budget").expect("a cart");
        budgets.end(&charge, &Ok(Err(Refusal::SeatsTaken(Vec::new()))), now, NOW);
        let pay = budgets.begin(&one, &Command::Cart(cart(number), CartCommand::Cancel), now);
        budgets.end(&pay.expect("a checkout needs no budget").expect("a cart"), &Ok(Err(Refusal::CartEmpty)), now, NOW);
    }
    assert_eq!(ask(&budgets, &one, 4, 1, now).map_err(|over| over.budget), Err(Budget::Carts));
    // An ended cart no longer counts. A cart that was never opened never counted.
    let charge = budgets.begin(&one, &hold(1, 1), now).expect("within the budget").expect("a cart");
    budgets.end(&charge, &Ok(Err(Refusal::CartExpired)), now, NOW);
    for number in 10..20 {
        let charge = budgets.begin(&one, &hold(number, 1), now).expect("there is room").expect("a cart");
        budgets.end(&charge, &Ok(Err(Refusal::SeatsTaken(Vec::new()))), now, NOW);
    }
    assert_eq!(ask(&budgets, &one, 4, 1, now), Ok(()));
}

#[test]
fn a_cart_that_another_network_fills_is_charged_to_its_opener() {
    let (budgets, now) = (Budgets::new(small()), Instant::now());
    let (opens, fills) = (anonymous(1), anonymous(2));
    for number in 1..=3 {
        assert_eq!(ask(&budgets, &opens, number, 1, now), Ok(()));
    }
    assert_eq!(ask(&budgets, &fills, 1, 7, now), Ok(()));
    assert_eq!(ask(&budgets, &fills, 2, 1, now).map_err(|over| over.budget), Err(Budget::Held));
    assert_eq!(ask(&budgets, &fills, 9, 8, now), Ok(()), "its own cart is charged to it");
}

/// Only networks with charges are remembered, however many came.
#[test]
fn networks_without_charges_are_forgotten() {
    let (budgets, begun) = (Budgets::new(small()), Instant::now());
    let visit = |number: u32, now: Instant| {
        let address = IpAddr::from(number.to_be_bytes());
        assert_eq!(budgets.connect(address, now), Ok(true));
        let owners = vec![(Owner::Network(ClientNetwork::of(address)), KeyBudgets::default())];
        assert_eq!(budgets.request(&owners, 1, now), Ok(()));
        budgets.disconnect(address);
    };
    // Ten thousand a second, for half a minute.
    for number in 0..300_000 {
        visit(number, begun + Duration::from_micros(u64::from(number) * 100));
    }
    let kept = budgets.accounts.lock().owners.len();
    assert!(kept <= 2 * ACCOUNTS_KEPT, "{kept} accounts are kept");
}

/// A few seats for a long time cost as much as many for a moment. Repeated expired holds are refused in the end.
#[test]
fn repeated_holds_fill_the_bucket() {
    let (budgets, begun) = (Budgets::new(small()), Instant::now());
    let one = anonymous(1);
    let mut refused = 0;
    for round in 0..10u64 {
        let now = begun + Duration::from_secs(1_000 * round);
        refused += u32::from(ask(&budgets, &one, u128::from(round) + 1, 6, now).is_err());
    }
    assert!(refused >= 5, "on the average one seat is held at a time: {refused} of 10 are refused");
    // Five carts, of which three may be open.
    let budgets = Budgets::new(BudgetConfig { seat_seconds: 0, ..small() });
    let opened = (1..=5).filter(|number| ask(&budgets, &one, *number, 1, begun).is_ok()).count();
    assert_eq!(opened, 3);
    let all = Budgets::new(BudgetConfig { carts: 0, held: 0, cart_held: 0, seat_seconds: 0, ..small() });
    assert!((1..=500).all(|number| ask(&all, &one, number, 20, begun).is_ok()), "0 is no limit");
}

/// Lines of units of a cart, by their numbers.
fn view(number: u128, lines: &[(u32, u32)]) -> CartView {
    let entity = || Entity::Product(Id::new("mug").expect("an id"));
    let line = |(line, quantity): &(u32, u32)| {
        let content = Content::Units { quantity: *quantity, price: 1, name: "mug".into(), tax: None };
        LineView::new(*line, entity(), content, false)
    };
    CartView {
        id: cart(number),
        state: CartState::Active,
        customer: None,
        opened_at: NOW,
        modified_at: NOW,
        deadline: Timestamp(NOW.0 + 1_000_000),
        lines: lines.iter().map(line).collect(),
        lines_version: 1,
        taken: Vec::new(),
        total: None,
        order: None,
        ended: None,
    }
}

fn set_quantity(number: u128, line: u32, quantity: u32) -> Command {
    Command::Cart(
        cart(number),
        CartCommand::SetQuantity { line, quantity, guest: false, holder: None, attributes: Vec::new() },
    )
}

/// Changes the quantity of line 1, whose cart shows that it is `now_has`. The error is the budget that it exceeds.
fn change(budgets: &Budgets, owners: &Owners, number: u128, now_has: u32, quantity: u32) -> Result<(), Budget> {
    let (now, command) = (Instant::now(), set_quantity(number, 1, quantity));
    let charge = budgets.begin(owners, &command, now).map_err(|over| over.budget)?.expect("a cart");
    if charge.needs_look() && !budgets.begin_looked(owners, &charge, &view(number, &[(1, now_has)]), now) {
        return Err(charge.over().expect("it says why").budget);
    }
    let answer = Answer::Cart(view(number, &[(1, quantity)]));
    budgets.end(&charge, &Ok(Ok(Answered { answer, at: Vec::new() })), now, NOW);
    Ok(())
}

/// A line that becomes smaller is credited before it is charged, and a larger one is charged what it grows by.
#[test]
fn a_quantity_is_charged_its_growth() {
    let (one, now) = (anonymous(1), Instant::now());
    let key =
        vec![(Owner::Key(Id::new("k").expect("an id")), KeyBudgets { requests_per_second: None, held_max: Some(10) })];
    for owners in [&one, &key] {
        let budgets = Budgets::new(BudgetConfig { cart_held: 8, ..small() });
        let opened = |number: u128| {
            let charge = budgets.begin(owners, &hold(number, 1), now).expect("it is free").expect("a cart");
            budgets.end(&charge, &held(number, 1, 1_000), now, NOW);
        };
        opened(1);
        opened(2);
        assert_eq!(change(&budgets, owners, 1, 1, 6), Ok(()));
        for (from, to) in [(6, 5), (5, 5), (5, 8), (8, 7), (7, 0), (0, 8), (8, 3), (3, 6)] {
            assert_eq!(change(&budgets, owners, 1, from, to), Ok(()), "{from} to {to}");
        }
        assert_eq!(change(&budgets, owners, 1, 6, 9), Err(Budget::CartHeld), "a cart has its bound");
        assert_eq!(change(&budgets, owners, 2, 1, 4), Ok(()), "ten altogether");
        assert_eq!(change(&budgets, owners, 2, 4, 5), Err(Budget::Held));
        assert_eq!(change(&budgets, owners, 2, 4, 4), Ok(()));
        assert_eq!(change(&budgets, owners, 2, 4, 3), Ok(()), "also where nothing more fits");
        assert_eq!(change(&budgets, owners, 1, 6, 7), Ok(()));
    }
}

/// What another node has granted, or this one before its last start, is seen in the cart before a quantity is refused.
#[test]
fn a_line_that_this_node_does_not_know_is_looked_at() {
    let (budgets, one, now) = (Budgets::new(small()), anonymous(1), Instant::now());
    assert_eq!(ask(&budgets, &one, 7, 8, now), Ok(()));
    assert_eq!(change(&budgets, &one, 1, 6, 5), Ok(()), "the cart is not known here");
    assert_eq!(
        change(&budgets, &one, 1, 5, 6),
        Err(Budget::Held),
        "a cart that is not charged here is charged as a whole"
    );
    let budgets = Budgets::new(small());
    assert_eq!(change(&budgets, &one, 1, 5, 8), Ok(()), "it fits");
    assert_eq!(change(&budgets, &one, 1, 8, 9), Err(Budget::CartHeld));
    assert_eq!(change(&budgets, &one, 1, 8, 7), Ok(()));
    let full = Budgets::new(BudgetConfig { node_carts: 1, ..small() });
    assert_eq!(ask(&full, &one, 7, 8, now), Ok(()));
    assert_eq!(change(&full, &one, 1, 6, 5), Ok(()), "nor is there room for another cart");
    assert_eq!(change(&full, &one, 1, 5, 6), Err(Budget::NodeCarts));
}

/// Whatever the order of commands and answers, at least what the lines hold is charged, and no more once all is answered.
#[test]
fn changes_under_way_are_charged_together() {
    for seed in 0..200 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let limits = BudgetConfig { held: 40, cart_held: 30, seat_seconds: 0, ..small() };
        let (budgets, one, now) = (Budgets::new(limits), anonymous(1), Instant::now());
        let (mut truth, mut under_way): (BTreeMap<u128, BTreeMap<u32, u32>>, Vec<_>) = Default::default();
        let account_held = |budgets: &Budgets| {
            let owner = Owner::Network(ClientNetwork::of(address(1)));
            budgets.accounts.lock().owners.get(&owner).map_or(0, |account| account.held)
        };
        for number in 1..=2 {
            let charge = budgets.begin(&one, &hold(number, 1), now).expect("it is free").expect("a cart");
            budgets.end(&charge, &held(number, 1, 1_000), now, NOW);
            truth.insert(number, BTreeMap::from([(1, 1)]));
        }
        for _ in 0..200 {
            if rng.random_bool(0.6) {
                let (number, quantity) = (rng.random_range(1..=2), rng.random_range(0..32));
                let command = set_quantity(number, 1, quantity);
                if let Ok(Some(charge)) = budgets.begin(&one, &command, now) {
                    let shown: Vec<_> = truth[&number].clone().into_iter().collect();
                    let is_within =
                        !charge.needs_look() || budgets.begin_looked(&one, &charge, &view(number, &shown), now);
                    if is_within {
                        under_way.push((number, quantity, charge));
                    }
                }
            } else if !under_way.is_empty() {
                // The commands of a cart happen in some order. Some are lost or fail.
                let (number, quantity, charge) = under_way.swap_remove(rng.random_range(0..under_way.len()));
                let result = match rng.random_range(0..10) {
                    0 => Err(Failure::Busy(1)),
                    1 => Ok(Err(Refusal::OutOfStock(Vec::new()))),
                    _ => {
                        truth.get_mut(&number).expect("a cart").insert(1, quantity);
                        let answer = Answer::Cart(view(number, &[(1, quantity)]));
                        Ok(Ok(Answered { answer, at: Vec::new() }))
                    }
                };
                budgets.end(&charge, &result, now, NOW);
            }
            let holds: u64 = truth.values().flat_map(BTreeMap::values).map(|quantity| u64::from(*quantity)).sum();
            assert!(account_held(&budgets) >= holds && holds <= 40, "seed {seed}: {holds} are held");
            if under_way.is_empty() {
                assert_eq!(account_held(&budgets), holds, "seed {seed}");
            }
        }
    }
}

/// A command that nobody waits for any more is forgotten once the cart is shown after its deadline.
#[test]
fn a_charge_without_an_answer_ends_with_a_look_at_the_cart() {
    let (budgets, one, now) = (Budgets::new(small()), anonymous(1), Instant::now());
    assert_eq!(ask(&budgets, &one, 1, 1, now), Ok(()));
    let lost = budgets.begin(&one, &hold(1, 6), now).expect("it is free").expect("a cart");
    let show = |now: Instant| {
        let released = Command::Cart(cart(1), CartCommand::Release { line: 1, seats: None });
        let charge = budgets.begin(&one, &released, now).expect("always").expect("a cart");
        let answer = Answer::Cart(view(1, &[(1, 1)]));
        budgets.end(&charge, &Ok(Ok(Answered { answer, at: Vec::new() })), now, NOW);
        budgets.accounts.lock().carts[&cart(1)].held()
    };
    assert_eq!(show(now), 7, "it may still be granted");
    assert_eq!(show(now + Duration::from_millis(DEADLINE_MS_MAX)), 1);
    drop(lost);
    let unknown = budgets.begin(&one, &hold(1, 6), now).expect("it is free").expect("a cart");
    budgets.end(&unknown, &Err(Failure::Unknown), now, NOW);
    assert_eq!(budgets.accounts.lock().carts[&cart(1)].held(), 7);
    assert_eq!(show(now), 1);
}

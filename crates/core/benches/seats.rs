//! The cost of a hold, decided and applied, and as a whole turn of the hosts.

use std::{hint::black_box, sync::Arc, time::Duration};

use boxoffice_core::{
    ask::{Ask, Opening},
    command::{BestWish, CartCommand, Command, Expect, NewSession, Payment, Want, WantedLine},
    event::{Event, SessionEvent},
    host::{Effect, Host, Input, Turn},
    id::{CartId, Entity, HoldId, Id, Request, RequestHash},
    layout::{Labels, Layout, Row, Run},
    money::{Currency, Money},
    rules::Rules,
    seat::{Seat, SeatSet},
    state_map::State,
    time::Timestamp,
};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};

const NOW: Timestamp = Timestamp(1_000);

fn id(text: &str) -> Id {
    Id::new(text).expect("a good id")
}

fn hall(rows: u16, seats: u16) -> Arc<Layout> {
    let row = |row: u16| Row {
        label: (row + 1).to_string().into(),
        section: None,
        runs: vec![Run {
            gap: 0,
            count: seats,
            labels: Labels::Numbers { first: 1, step: 1 },
            category: id("a"),
            accessible: false,
            points: Vec::new(),
        }],
    };
    Arc::new(Layout::new((0..rows).map(row).collect(), None).expect("a good hall"))
}

fn session(layout: &Arc<Layout>) -> Arc<State> {
    let price = Money { amount: 1_000, currency: Currency::new("EUR").expect("three letters") };
    let session = NewSession {
        id: id("s"),
        hall: id("hall"),
        title: id("title"),
        starts_at: Timestamp(1_000_000),
        ends_at: Timestamp(2_000_000),
        prices: vec![(id("a"), price)],
        extras: Default::default(),
    };
    let opening = Opening { venue: id("venue"), session, layout: Arc::clone(layout), zone: Default::default() };
    let opened = Event::Session(SessionEvent::Opened(opening));
    Arc::new(State::first(&Entity::Session(id("s")), &opened))
}

fn hold_ask(cart: u128, want: Want) -> Input<u32> {
    let hold = HoldId { cart: CartId(cart), request: RequestHash(cart as u64), part: 0, attempt: 0 };
    let ask = Ask::Hold {
        hold,
        revision: 1,
        want,
        life_ms: 1_800_000,
        holder: None,
        desk: false,
        code: None,
        attributes: Vec::new(),
        customer: None,
    };
    Input::Ask { from: Entity::Cart(CartId(cart)), ask }
}

fn five(number: u16) -> Want {
    let seats = (0..5).map(|seat| Seat { row: number / 6 % 30, seat: number % 6 * 5 + seat });
    Want::seats(SeatSet::new(seats).expect("five seats"), false)
}

fn best(count: u16) -> Want {
    Want::Best(BestWish {
        count,
        category: None,
        section: None,
        accessible: 0,
        split: false,
        buy_as: Default::default(),
    })
}

fn session_host(layout: &Arc<Layout>) -> Host<u32> {
    Host::new(Entity::Session(id("s")), Some(session(layout)), Arc::new(Rules::default()))
}

/// Holds of five seats of a session of 900 until it is sold out. The throughput is of single holds.
fn holds(criterion: &mut Criterion) {
    let layout = hall(30, 30);
    let mut group = criterion.benchmark_group("session");
    group.throughput(criterion::Throughput::Elements(180));
    group.bench_function("hold 5 of 900, whole turns until sold out (180 holds)", |bencher| {
        let inputs = || (0..180).map(|number| hold_ask(u128::from(number) * 7_919, five(number))).collect::<Vec<_>>();
        bencher.iter_batched(
            || (session_host(&layout), inputs(), Turn::default()),
            |(mut host, inputs, mut turn)| {
                for input in inputs {
                    turn.clear();
                    host.handle(NOW, input, &mut turn);
                    black_box(&turn);
                }
                (host, turn)
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

/// The same holds as a replica applies them.
fn applies(criterion: &mut Criterion) {
    let layout = hall(30, 30);
    let mut host = session_host(&layout);
    let mut events = Vec::new();
    for number in 0..180 {
        let mut turn = Turn::default();
        host.handle(NOW, hold_ask(u128::from(number) * 7_919, five(number)), &mut turn);
        events.append(&mut turn.events);
    }
    let mut group = criterion.benchmark_group("session");
    group.throughput(criterion::Throughput::Elements(180));
    group.bench_function("apply 180 holds of 5 of 900", |bencher| {
        let fresh = || State::clone(&session(&layout));
        bencher.iter_batched(
            fresh,
            |mut state| {
                events.iter().for_each(|event| state.apply(event));
                state
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

/// Only decides. The seats are taken, so nothing changes.
fn refusals(criterion: &mut Criterion) {
    let mut host = session_host(&hall(30, 30));
    let mut turn = Turn::default();
    host.handle(NOW, hold_ask(1, five(0)), &mut turn);
    criterion.bench_function("session/refuse 5 of 900", |bencher| {
        bencher.iter_batched(
            || hold_ask(2, five(0)),
            |input| {
                turn.clear();
                host.handle(NOW, input, &mut turn);
                black_box(&turn);
            },
            BatchSize::SmallInput,
        );
    });
}

fn bests(criterion: &mut Criterion) {
    for (name, layout) in [("900", hall(30, 30)), ("8000", hall(80, 100))] {
        let empty = session_host(&layout);
        let mut full = session_host(&layout);
        let mut turn = Turn::default();
        // Every seat except those of the last row, which takes longest to search.
        for row in 0..layout.rows().len() as u16 - 1 {
            for first in (0..layout.row_seats(row).len() as u16 - 4).step_by(5) {
                let seats = SeatSet::new((first..first + 4).map(|seat| Seat { row, seat })).expect("four seats");
                turn.clear();
                let cart = u128::from(row) * 1_000 + u128::from(first) + 10;
                full.handle(NOW, hold_ask(cart, Want::seats(seats, false)), &mut turn);
                assert_eq!(turn.events.len(), 1);
            }
        }
        for (state, mut host) in [("free", empty), ("nearly full", full)] {
            criterion.bench_function(&format!("session/best 5 of {name}, {state}"), |bencher| {
                let mut cart = 1_000_000u128;
                bencher.iter_batched(
                    || {
                        cart += 1;
                        hold_ask(cart, best(5))
                    },
                    |input| {
                        turn.clear();
                        host.handle(NOW, input, &mut turn);
                        // The seats are released, so that every round finds the same session.
                        if let Some(Effect::Reply { to, .. }) = turn.committed.first() {
                            let to = to.clone();
                            let Entity::Cart(cart) = to else { panic!("holds are of carts") };
                            let hold = HoldId { cart, request: RequestHash(cart.0 as u64), part: 0, attempt: 0 };
                            turn.clear();
                            let ask = Ask::Release { hold, revision: 2, left: None, last: true, expired: false };
                            host.handle(NOW, Input::Ask { from: to, ask }, &mut turn);
                        }
                    },
                    BatchSize::SmallInput,
                );
            });
        }
    }
}

/// A whole purchase through the hosts of a cart and a session. It holds five seats and checks out.
fn purchase(criterion: &mut Criterion) {
    let layout = hall(30, 30);
    criterion.bench_function("purchase of 5 of 900, both hosts, all turns", |bencher| {
        let rules = Arc::new(Rules::default());
        let entity = Entity::Session(id("s"));
        bencher.iter_batched(
            || {
                let wanted = WantedLine::new(Entity::Session(id("s")), five(3));
                let cart = Host::<u32>::new(Entity::Cart(CartId(9)), None, Arc::clone(&rules));
                (session_host(&layout), cart, wanted, Turn::default())
            },
            |(mut session, mut cart, wanted, mut turn)| {
                let mut round = |number: u64, command: CartCommand, turn: &mut Turn<u32>| {
                    let request = Some(Request { id: RequestHash(number), body: number });
                    let command = Command::Cart(CartId(9), command);
                    turn.clear();
                    cart.handle(NOW, Input::Command { from: 0, request, command, timeout_ms: 10_000 }, turn);
                    let asks: Vec<_> = turn.now.drain(..).chain(turn.committed.drain(..)).collect();
                    for effect in asks {
                        let Effect::Ask { ask, .. } = effect else { continue };
                        turn.clear();
                        session.handle(NOW, Input::Ask { from: Entity::Cart(CartId(9)), ask }, turn);
                        let replies: Vec<_> = turn.committed.drain(..).collect();
                        for effect in replies {
                            let Effect::Reply { reply, .. } = effect else { continue };
                            turn.clear();
                            cart.handle(NOW, Input::Reply { from: entity.clone(), reply }, turn);
                        }
                    }
                };
                round(
                    1,
                    CartCommand::Hold {
                        lines: vec![wanted],
                        customer: None,
                        guest: false,
                        holder: None,
                        attributes: Vec::new(),
                    },
                    &mut turn,
                );
                let payment = Payment::Recorded { method: "card".into(), transaction_id: "1".into() };
                round(
                    2,
                    CartCommand::Checkout {
                        payment,
                        customer: None,
                        shipping: None,
                        expect: Expect::default(),
                        holder: None,
                    },
                    &mut turn,
                );
                assert_eq!(turn.events.len(), 1, "delivered");
                (session, cart, turn)
            },
            BatchSize::SmallInput,
        );
    });
}

criterion_group! {
    name = seats;
    config = Criterion::default().measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    targets = holds, applies, refusals, bests, purchase
}
criterion_main!(seats);

//! The cost of a hold in a session with offers, beside one in a plain session of the same hall, and of a change of the largest terms.

use std::{hint::black_box, sync::Arc};

use boxoffice_core::{
    ask::{Ask, Opening},
    command::{
        Allotment, BuyAs, Command, Counter, NewSession, Offer, Offering, PriceChange, PriceType, SessionChange,
        SessionCommand, Want,
    },
    event::{Event, SessionEvent},
    host::{Host, Input, Turn},
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
/// Rows of the hall, each of a category of its own as far as there are any.
const ROWS: u16 = 255;
const SEATS: u16 = 30;
const HOLDS: u16 = 180;

fn id(text: &str) -> Id {
    Id::new(text).expect("a good id")
}

fn euros(amount: i64) -> Money {
    Money { amount, currency: Currency::new("EUR").expect("three letters") }
}

fn numbered(name: &str, count: usize) -> Vec<Id> {
    (0..count).map(|number| id(&format!("{name}-{number:03}"))).collect()
}

fn hall(categories: usize) -> Arc<Layout> {
    let names = numbered("category", categories);
    let row = |row: u16| Row {
        label: (row + 1).to_string().into(),
        section: None,
        runs: vec![Run {
            gap: 0,
            count: SEATS,
            labels: Labels::Numbers { first: 1, step: 1 },
            category: names[usize::from(row) % names.len()].clone(),
            accessible: false,
            points: Vec::new(),
        }],
    };
    Arc::new(Layout::new((0..ROWS).map(row).collect(), None).expect("a good hall"))
}

fn offering(categories: usize, types: usize, offers: usize) -> Offering {
    let categories = numbered("category", categories);
    let price_type = |(number, id): (usize, Id)| PriceType {
        id,
        name: "".into(),
        names: Default::default(),
        prices: if number == 0 { vec![] } else { categories.iter().map(|of| (of.clone(), 500)).collect() },
        area_prices: vec![],
        tax: None,
    };
    let counters = numbered("counter", offers);
    let offer = |(number, of): (usize, Id)| Offer {
        id: of,
        name: "".into(),
        names: Default::default(),
        types: vec![],
        categories: vec![],
        areas: vec![],
        from: Some(Timestamp(500)),
        until: Some(Timestamp(1_000_000)),
        closed: false,
        desk: false,
        // The last is the cheapest, so that all are looked at.
        change: Some(PriceChange::Minus(number.min(400) as i64)),
        per_order: None,
        counters: vec![counters[number].clone()],
        allotments: vec![],
        code_group: None,
        attributes: vec![],
        per_customer: None,
    };
    // As many allotments as offers if there are many, each of one seat at the back.
    let last = (0..SEATS).flat_map(|seat| (0..ROWS).rev().map(move |row| Seat { row, seat }));
    let allotment = |(id, seat): (Id, Seat)| Allotment {
        id,
        name: "".into(),
        names: Default::default(),
        seats: vec![seat],
        release_at: Some(Timestamp(900_000)),
        released: false,
        companions: false,
    };
    let allotments = numbered("allotment", if offers > 1 { offers } else { 0 });
    Offering {
        price_types: numbered("type", types).into_iter().enumerate().map(price_type).collect(),
        offers: numbered("offer", offers).into_iter().enumerate().map(offer).collect(),
        counters: counters.iter().map(|id| Counter { id: id.clone(), max: 1_000_000 }).collect(),
        allotments: allotments.into_iter().zip(last.filter(|seat| seat.row > 40)).map(allotment).collect(),
    }
}

fn session(layout: &Arc<Layout>, offering: Option<Offering>) -> Arc<State> {
    let mut session = NewSession {
        id: id("s"),
        hall: id("hall"),
        title: id("title"),
        starts_at: Timestamp(1_000_000),
        ends_at: Timestamp(2_000_000),
        prices: layout.categories().iter().map(|category| (category.clone(), euros(1_000))).collect(),
        extras: Default::default(),
    };
    session.offering = offering.map(Arc::new);
    let opening = Opening { venue: id("venue"), session, layout: Arc::clone(layout), zone: Default::default() };
    let opened = Event::Session(SessionEvent::Opened(opening));
    Arc::new(State::first(&Entity::Session(id("s")), &opened))
}

fn host(state: Arc<State>) -> Host<u32> {
    let mut host = Host::new(Entity::Session(id("s")), Some(state), Arc::new(Rules::default()));
    // The offers open, unless they have.
    host.handle(NOW, Input::Wake, &mut Turn::default());
    host
}

fn hold_ask(number: u16, types: &[Id]) -> Input<u32> {
    let cart = CartId(u128::from(number) * 7_919 + 1);
    let seats = (0..5).map(|seat| Seat { row: number / 6 % ROWS, seat: number % 6 * 5 + seat });
    let seats = SeatSet::new(seats).expect("five seats");
    let types = (0..5).filter_map(|seat| types.get(seat % types.len().max(1)).cloned()).collect();
    let want = Want::Seats { seats, best_effort: false, buy_as: BuyAs::new(types, None) };
    let hold = HoldId { cart, request: RequestHash(number.into()), part: 0, attempt: 0 };
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
    Input::Ask { from: Entity::Cart(cart), ask }
}

/// Holds of five seats. The throughput is of single holds. A session remembers the cheapest offer of each type in each category from the
/// first hold on that needs it, until an offer opens or the terms change. In the last size it remembers none, so each hold is the first.
fn holds(criterion: &mut Criterion) {
    let sizes = [
        ("plain", 4, 0, 0, true),
        ("4 types, 1 offer", 4, 4, 1, true),
        ("60 types, 1 000 offers and allotments", 255, 60, 1_000, true),
        ("60 types, 1 000 offers and allotments, at first", 255, 60, 1_000, false),
    ];
    let mut group = criterion.benchmark_group("offers");
    group.throughput(criterion::Throughput::Elements(HOLDS.into()));
    for (name, categories, types, offers, remembers) in sizes {
        let layout = hall(categories);
        let mut state = session(&layout, (offers > 0).then(|| offering(categories, types, offers)));
        if remembers && offers > 0 {
            let opened = SessionEvent::OffersOpened(numbered("offer", offers));
            Arc::make_mut(&mut state).apply(&Event::Session(opened));
        }
        let named = numbered("type", types.min(4));
        group.bench_function(format!("hold 5, {name}"), |bencher| {
            bencher.iter_batched(
                || (host(Arc::clone(&state)), (0..HOLDS).map(|number| hold_ask(number, &named)).collect::<Vec<_>>()),
                |(mut host, inputs)| {
                    let mut turn = Turn::default();
                    for input in inputs {
                        turn.clear();
                        host.handle(NOW, input, &mut turn);
                        assert!(turn.events.len() == 1, "{turn:?}");
                    }
                    host
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

/// Other prices of the largest session.
fn changes(criterion: &mut Criterion) {
    let layout = hall(255);
    let state = session(&layout, Some(offering(255, 60, 1_000)));
    let change = SessionChange {
        prices: Some(layout.categories().iter().map(|category| (category.clone(), euros(1_100))).collect()),
        ..Default::default()
    };
    let command = Command::Session(id("s"), SessionCommand::Change(Box::new(change)));
    criterion.bench_function("offers/change of 60 types, 255 categories, 1 000 offers and allotments", |bencher| {
        bencher.iter_batched(
            || (host(Arc::clone(&state)), command.clone()),
            |(mut host, command)| {
                let mut turn = Turn::default();
                let request = Some(Request { id: RequestHash(1), body: 1 });
                host.handle(NOW, Input::Command { from: 0, request, command, timeout_ms: 1_000 }, &mut turn);
                black_box(turn);
                host
            },
            BatchSize::LargeInput,
        );
    });
}

criterion_group!(benches, holds, changes);
criterion_main!(benches);

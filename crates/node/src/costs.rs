//! The cost of a purchase in instructions, part by part. `tests/costs.py` counts each of these functions under valgrind and
//! compares the counts with `tests/costs.txt`. There is no thread, disk or socket, so the counts are the same every time.
//! Allocations are counted as well, which is only right while no other test runs in the process.
//!
//! A purchase here is the one of `peers`: a hold of five named seats of a hall of 900 in a new cart beside the session, and a
//! checkout. The leader decides, encodes, logs and applies. A follower decodes and applies.

use std::{collections::BTreeMap, hint::black_box, sync::Arc};

use boxoffice_core::{
    answer::{Answer, Answered, At, Outcome},
    ask::Opening,
    command::NewSession,
    event::{Event, SessionEvent},
    host::{Effect, Host, Input, Turn},
    id::{CartToken, Entity, Id},
    layout::{Labels, Layout, Row, Run},
    money::{Currency, Money},
    rules::Rules,
    seat::Seat,
    state_map::{State, StateMap},
    time::Timestamp,
};
use boxoffice_shard::{Config, Engine, Epoch, Input as EngineInput, Now, Output};
use boxoffice_storage::codec;
use boxoffice_wire::{Call, Encoding, Op, Request, body, call::Shape, encode, reply};
use bytes::{Bytes, BytesMut};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
pub(crate) static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

/// Purchases that are counted together.
const PURCHASES: u16 = 64;
const NOW: Timestamp = Timestamp(1_000);
/// The one data shard of the engine.
const SHARD: u16 = 1;

/// The events of one entity in a turn.
type Happened = (Entity, Vec<Event>);

pub(crate) fn id(text: &str) -> Id {
    Id::new(text).expect("a good id")
}

pub(crate) fn session() -> Entity {
    Entity::Session(id("hamlet-tonight"))
}

/// A session of 30 rows of 30 seats.
fn opened() -> Event {
    opened_in(30, 30)
}

/// A session of `rows` rows of `seats` seats.
pub(crate) fn opened_in(rows: u16, seats: u16) -> Event {
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
    let layout = Arc::new(Layout::new((0..rows).map(row).collect(), None).expect("a good hall"));
    let price = Money { amount: 1_000, currency: Currency::new("EUR").expect("three letters") };
    let session = NewSession {
        id: id("hamlet-tonight"),
        hall: id("main"),
        title: id("hamlet"),
        starts_at: Timestamp(1_000_000),
        ends_at: Timestamp(2_000_000),
        prices: vec![(id("a"), price)],
        extras: Default::default(),
    };
    Event::Session(SessionEvent::Opened(Opening { venue: id("globe"), session, layout, zone: Default::default() }))
}

/// The frames with which a client asks for its purchase.
fn frames(number: u16) -> [BytesMut; 2] {
    let token = CartToken::beside(&session(), u128::from(number) << 64 | 0x5eed);
    let seats = (0..5).map(|seat| Seat { row: number / 6 % 30, seat: number % 6 * 5 + seat }).collect();
    let hold = body::HoldSeats::of(token, id("hamlet-tonight"), seats);
    let recorded = boxoffice_core::command::Payment::Recorded { method: "card".into(), transaction_id: "4711".into() };
    let checkout = body::Checkout::of(token, recorded.into());
    let (mut first, mut second) = (BytesMut::new(), BytesMut::new());
    let encoding = Encoding::MsgPack;
    reply::request(encoding, &mut first, 7, Op::CartHoldSeats, Some("costs-000001"), Some(10_000), &hold);
    reply::request(encoding, &mut second, 8, Op::CartCheckout, Some("costs-000002"), Some(10_000), &checkout);
    [first, second]
}

/// Reading a client's frame.
#[inline(never)]
fn cost_request(frame: &[u8]) -> Request {
    Request::read(Encoding::MsgPack, frame).expect("a good frame")
}

/// Deciding a request of a cart beside its session, as a joint turn: both decide, and the cart answers.
#[inline(never)]
fn cost_decide(session: &mut Host<u32>, cart: &mut Host<u32>, request: Request) -> (Vec<Happened>, Outcome) {
    let Call::Command(command) = request.call else { panic!("{:?} is no command", request.call) };
    let entity = command.entity();
    let mut turn = Turn::default();
    cart.handle(NOW, Input::Command { from: 0, request: request.key, command, timeout_ms: 10_000 }, &mut turn);
    let asked = turn.now.drain(..).chain(turn.committed.drain(..)).find_map(|effect| match effect {
        Effect::Ask { ask, .. } => Some(ask),
        _ => None,
    });
    let mut of_session = Turn::default();
    session.handle(NOW, Input::Ask { from: entity.clone(), ask: asked.expect("the cart asks") }, &mut of_session);
    let reply = of_session.committed.drain(..).find_map(|effect| match effect {
        Effect::Reply { reply, .. } => Some(reply),
        _ => None,
    });
    let mut told = Turn::default();
    let input = Input::Reply { from: self::session(), reply: reply.expect("the session replies") };
    cart.handle(NOW, input, &mut told);
    let answer = turn.committed.drain(..).chain(told.now.drain(..)).chain(told.committed.drain(..));
    let answer = answer.into_iter().find_map(|effect| match effect {
        Effect::Answer { outcome, .. } => Some(outcome),
        _ => None,
    });
    turn.events.append(&mut told.events);
    (vec![(self::session(), of_session.events), (entity, turn.events)], answer.expect("the cart answers"))
}

/// Encoding the events.
#[inline(never)]
fn cost_encode(happened: &[Happened]) -> Vec<Vec<u8>> {
    happened.iter().map(|(entity, events)| codec::encode(entity, None, events)).collect()
}

/// One proposal through the engine of a node that is alone: taken, appended, written, committed, returned.
#[inline(never)]
fn cost_log(engine: &mut Engine<u64>, (now_ms, epoch): (u64, Epoch), mut turns: Vec<Vec<u8>>) -> usize {
    let joint = (turns.len() > 1).then(|| turns.pop().expect("the cart's"));
    let events = turns.pop().expect("the session's");
    let now = Now { wall_ms: 1_700_000_000_000 + now_ms, mono_ms: now_ms };
    let input = EngineInput::Propose { shard: SHARD, epoch, events, joint, completion: now_ms };
    let write = engine.step(now, [input]);
    let length = write.records.len();
    engine.recycle(write.records);
    let mut out = Vec::new();
    engine.persisted(&mut out);
    black_box(out);
    length
}

/// Applying what the leader's actors decided.
#[inline(never)]
fn cost_apply(kept: &mut StateMap, happened: Vec<Happened>) {
    kept.advance(kept.index() + 1);
    for (entity, events) in happened {
        if let Err(events) = kept.apply_in_memory(&entity, events) {
            kept.apply(&entity, events);
        }
    }
}

/// Reading an entry of another node's, and applying it.
#[inline(never)]
fn cost_follow(kept: &mut StateMap, turns: &[Vec<u8>]) {
    kept.advance(kept.index() + 1);
    for turn in turns {
        let (entity, _, events) = codec::decode(turn).expect("it was written here");
        if let Err(events) = kept.apply_in_memory(&entity, events) {
            kept.apply(&entity, events);
        }
    }
}

/// Writing the answer.
#[inline(never)]
fn cost_answer(out: &mut BytesMut, outcome: &Outcome) {
    out.clear();
    encode::outcome(Encoding::MsgPack, out, 7, outcome, Shape::Plain, None);
}

/// A node that is alone, and a follower.
struct Nodes {
    session: Host<u32>,
    engine: Engine<u64>,
    epoch: Epoch,
    now_ms: u64,
    leader: StateMap,
    follower: StateMap,
    out: BytesMut,
}

impl Nodes {
    fn new() -> Nodes {
        let state = Arc::new(State::first(&session(), &opened()));
        let engine = Engine::restore(Config::founding(1, 1, 1), [], []);
        let mut nodes = Nodes {
            session: Host::new(session(), Some(state), Arc::new(Rules::default())),
            engine: engine.expect("an empty disk"),
            epoch: Epoch(0),
            now_ms: 1,
            leader: StateMap::new(),
            follower: StateMap::new(),
            out: BytesMut::with_capacity(64 * 1024),
        };
        for kept in [&mut nodes.leader, &mut nodes.follower] {
            kept.advance(1);
            kept.apply(&session(), vec![opened()]);
        }
        let mut out = Vec::new();
        while nodes.epoch == Epoch(0) {
            nodes.now_ms += 1;
            black_box(nodes.engine.step(Now { wall_ms: nodes.now_ms, mono_ms: nodes.now_ms }, []));
            nodes.engine.persisted(&mut out);
            for output in out.drain(..) {
                if let Output::BecameLeader { shard: SHARD, epoch, .. } = output {
                    nodes.epoch = epoch;
                }
            }
        }
        nodes
    }

    /// All of it, once.
    #[inline(never)]
    fn cost_purchase(&mut self, cart: &mut Host<u32>, frames: &[Bytes; 2], made: &mut Allocations) -> Outcome {
        let mut last = None;
        for frame in frames {
            let request = made.count("request", || cost_request(frame));
            let (happened, outcome) = made.count("decide", || cost_decide(&mut self.session, cart, request));
            let turns = made.count("encode", || cost_encode(&happened));
            self.now_ms += 1;
            let logged = turns.clone();
            made.count("log", || cost_log(&mut self.engine, (self.now_ms, self.epoch), logged));
            made.count("apply", || cost_apply(&mut self.leader, happened));
            made.count("follow", || cost_follow(&mut self.follower, &turns));
            made.count("answer", || cost_answer(&mut self.out, &outcome));
            last = Some(outcome);
        }
        last.expect("two frames")
    }
}

/// How often the allocator was asked for memory, by part.
#[derive(Default)]
struct Allocations(BTreeMap<&'static str, usize>);

impl Allocations {
    fn count<T>(&mut self, part: &'static str, work: impl FnOnce() -> T) -> T {
        let region = Region::new(ALLOCATOR);
        let worked = work();
        let change = region.change();
        *self.0.entry(part).or_default() += change.allocations + change.reallocations;
        worked
    }
}

/// Buys for the counter, and checks each purchase, because a purchase that does nothing must not be counted.
#[test]
fn purchases_that_are_counted_are_made() {
    let (mut nodes, mut made) = (Nodes::new(), Allocations::default());
    for number in 0..PURCHASES {
        let frames = frames(number).map(BytesMut::freeze);
        // Not by `cost_request`, which would be counted.
        let request = Request::read(Encoding::MsgPack, &frames[0]).expect("a good frame");
        let Call::Command(command) = request.call else { panic!("a hold is a command") };
        let mut cart = Host::new(command.entity(), None, Arc::new(Rules::default()));
        let outcome = nodes.cost_purchase(&mut cart, &frames, &mut made);
        let Ok(Answered { answer: Answer::Order { order, .. }, at }) = outcome else { panic!("{outcome:?}") };
        assert_eq!((order.total.amount, order.lines.len()), (5_000, 1));
        assert!(at.iter().any(|At { entity, .. }| *entity == command.entity()), "{at:?}");
        for kept in [&nodes.leader, &nodes.follower] {
            let state = kept.get(&session()).expect("the session");
            assert_eq!(state.version(), 1 + 2 * (u64::from(number) + 1), "a hold and a sale each");
        }
        assert_eq!(nodes.leader.get(&command.entity()), nodes.follower.get(&command.entity()));
    }
    for (part, allocations) in made.0 {
        println!("allocations of {part}: {allocations}");
    }
}

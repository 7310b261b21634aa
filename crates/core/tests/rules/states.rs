//! The state map, with due entities, eviction, and complete snapshots.

use std::sync::Arc;

use boxoffice_core::{
    command::{CartCommand, Command, SessionCommand, Want, WantedLine},
    event::{CartEvent, Event},
    id::{CartId, Entity},
    rules::Rules,
    seat::{Seat, SeatSet},
    state_map::{Cut, DUE_AGAIN_MS, State, StateMap},
    stored,
    time::Timestamp,
};

use crate::{
    catalogue::open,
    fixture::Fixture,
    script::{check_out, draw, hold_lines, id, layout},
};

fn hold(session: &str, row: u16, first: u16, count: u16) -> CartCommand {
    let seats = SeatSet::new((first..first + count).map(|seat| Seat { row, seat })).expect("some seats");
    hold_lines(vec![WantedLine::new(Entity::Session(id(session)), Want::seats(seats, false))])
}

fn send(fixture: &mut Fixture, cart: u128, request: &str, command: CartCommand) {
    fixture.send(Some(request), Command::Cart(CartId(cart), command));
}

/// Two sessions with seats that are held, sold, blocked, released and owed.
fn busy() -> Fixture {
    let mut fixture = Fixture::new(Rules::default());
    open(&mut fixture, &layout("aaaaa/bbBbb"), &["s", "t"]);
    send(&mut fixture, 1, "hold", hold("s", 0, 0, 3));
    send(&mut fixture, 2, "hold", hold("s", 1, 0, 2));
    send(&mut fixture, 3, "hold", hold("t", 0, 0, 2));
    send(&mut fixture, 4, "hold", hold("t", 1, 0, 5));
    fixture.run();
    send(&mut fixture, 1, "give", CartCommand::Release { line: 1, seats: None });
    send(&mut fixture, 1, "more", hold("s", 0, 3, 1));
    send(&mut fixture, 2, "pay", check_out());
    let seats = vec![Seat { row: 0, seat: 4 }];
    fixture.send(Some("block"), Command::Session(id("s"), SessionCommand::Block(seats)));
    fixture.run();
    // The second session is unreachable.
    send(&mut fixture, 3, "pay", check_out());
    send(&mut fixture, 4, "end", CartCommand::Cancel);
    fixture.run_but(|to| *to != Entity::Session(id("t")), |_| true);
    fixture
}

pub(crate) fn written_and_read(states: &StateMap) -> StateMap {
    let bytes = stored::append(&states.cut(), Vec::new());
    let cut: Cut = stored::read(&bytes).expect("and read");
    assert!(stored::append(&cut, Vec::new()) == bytes, "a cut is written otherwise than it was read");
    StateMap::restore(cut)
}

#[test]
fn a_snapshot_is_complete() {
    let fixture = busy();
    let states = written_and_read(&fixture.states);
    assert!(states.entities().eq(fixture.states.entities()), "states differ");
    assert_eq!((states.audit(), draw(&states)), (fixture.states.audit(), draw(&fixture.states)));
    assert!(states.unfinished().eq(fixture.states.unfinished()));
    assert_eq!(states.unfinished().count(), 2);
    // A state in memory may be checked before its deadline, which has moved on.
    assert!(states.next_deadline().is_some() && fixture.states.next_deadline() <= states.next_deadline());
    let same = StateMap::restore(fixture.states.cut());
    assert!(same.entities().eq(fixture.states.entities()));
    let audit = states.audit();
    assert_eq!((audit.venues, audit.sessions, audit.carts), (1, 2, [1, 0, 2, 1, 0]));
    assert_eq!((audit.seats.free, audit.seats.held, audit.seats.sold, audit.seats.blocked), (9, 8, 2, 1));
    assert_eq!((audit.orders, audit.owed, audit.broken), (2, 2, 0));
    assert_eq!(audit.revenue.iter().map(|sum| sum.amount).collect::<Vec<_>>(), [6_000]);
}

#[test]
fn a_snapshot_has_each_layout_once() {
    let rows = vec!["a".repeat(100); 50].join("/");
    let size = |sessions: &[&str]| {
        let mut fixture = Fixture::new(Rules::default());
        open(&mut fixture, &layout(&rows), sessions);
        stored::append(&fixture.states.cut(), Vec::new()).len()
    };
    let (one, many) = (size(&["s"]), size(&["s", "t", "u", "v", "w"]));
    assert!(many < one + 1_000, "one session {one} bytes, five {many}");
    let mut fixture = Fixture::new(Rules::default());
    open(&mut fixture, &layout(&rows), &["s", "t"]);
    let states = written_and_read(&fixture.states);
    let layouts: Vec<_> = states
        .entities()
        .filter_map(|(_, state)| match &**state {
            State::Session(session) => Some(Arc::clone(session.layout())),
            _ => None,
        })
        .collect();
    assert!(Arc::ptr_eq(&layouts[0], &layouts[1]), "equal layouts are kept once after reading, too");
}

#[test]
fn a_damaged_snapshot_is_refused() {
    let mut bytes = stored::append(&busy().states.cut(), Vec::new());
    let whole = bytes.len();
    bytes.truncate(whole - 1);
    stored::read::<Cut>(&bytes).expect_err("cut off");
    stored::read::<Cut>(&[]).expect_err("nothing");
}

#[test]
fn replicas_that_apply_the_same_events_are_equal() {
    let fixture = busy();
    let mut replica = StateMap::new();
    for (entity, event) in &fixture.log {
        replica.apply(entity, vec![event.clone()]);
    }
    assert!(replica.entities().eq(fixture.states.entities()));
    // Also from a snapshot in the middle.
    let middle = fixture.log.len() / 2;
    let mut first = StateMap::new();
    fixture.log[..middle].iter().for_each(|(entity, event)| _ = first.apply(entity, vec![event.clone()]));
    let mut second = written_and_read(&first);
    fixture.log[middle..].iter().for_each(|(entity, event)| _ = second.apply(entity, vec![event.clone()]));
    assert!(second.entities().eq(fixture.states.entities()));
    assert!(fixture.states.next_deadline() <= second.next_deadline());
}

#[test]
fn an_entity_is_named_at_its_current_deadline() {
    let mut fixture = Fixture::new(Rules::default());
    open(&mut fixture, &layout("aaaaa"), &["s"]);
    for at in [0, 30, 70] {
        fixture.now = Timestamp(at);
        send(&mut fixture, 1, &format!("hold {at}"), hold("s", 0, (at / 30) as u16, 1));
        fixture.run();
    }
    let states = &mut fixture.states;
    let ttl_ms = Rules::default().hold_ttl_ms;
    let mut due = Vec::new();
    states.due(Timestamp(ttl_ms + 69), 10, &mut due);
    let carts = |due: &[Entity]| due.iter().filter(|entity| matches!(entity, Entity::Cart(_))).count();
    assert_eq!(carts(&due), 0, "{due:?}");
    assert_eq!(states.next_deadline(), Some(Timestamp(ttl_ms + 70)));
    states.due(Timestamp(ttl_ms + 70), 10, &mut due);
    assert_eq!(carts(&due), 1);
}

#[test]
fn a_due_entity_is_named_once_and_again_later() {
    let ttl_ms = Rules::default().hold_ttl_ms;
    // The session asks for the first time when the carts are due themselves.
    let mut fixture = Fixture::new(Rules { confirm_ms: ttl_ms, ..Rules::default() });
    open(&mut fixture, &layout("aaaaa"), &["s"]);
    for cart in 0..5 {
        fixture.now = Timestamp(u64::from(cart) * 10);
        send(&mut fixture, u128::from(cart) + 1, "hold", hold("s", 0, cart, 1));
        fixture.run();
    }
    let states = &mut fixture.states;
    assert_eq!(states.next_deadline(), Some(Timestamp(ttl_ms)));
    let due = |states: &mut StateMap, now: u64, max: usize| {
        let mut due = Vec::new();
        states.due(Timestamp(now), max, &mut due);
        due.into_iter().map(|entity| format!("{entity}")[5 + 31..].to_owned()).collect::<Vec<_>>().concat()
    };
    assert_eq!(due(states, ttl_ms - 1, 10), "");
    assert_eq!(due(states, ttl_ms + 40, 2), "12");
    assert_eq!(due(states, ttl_ms + 40, 2), "34");
    assert_eq!(due(states, ttl_ms + 40, 2), "5");
    assert_eq!(due(states, ttl_ms + 40, 2), "");
    assert_eq!(states.next_deadline(), Some(Timestamp(ttl_ms + 40 + DUE_AGAIN_MS)));
    assert_eq!(due(states, ttl_ms + 40 + DUE_AGAIN_MS, 10), "12345");
}

/// A state map with the fixture's events up to `until`, each at its place in the log.
fn applied(fixture: &Fixture, until: usize) -> StateMap {
    let mut states = StateMap::new();
    for (index, (entity, event)) in (1..).zip(&fixture.log[..until]) {
        states.advance(index);
        states.apply(entity, vec![event.clone()]);
    }
    states
}

#[test]
fn an_ended_entity_that_owes_nothing_is_evicted_and_reloaded() {
    let fixture = busy();
    let mut states = applied(&fixture, fixture.log.len());
    let all = states.len();
    // Cart 1 is active. Carts 3 and 4 have ended and owe messages to a session out of reach.
    let leaving = states.take_evictable();
    let [cart] = &leaving[..] else { panic!("only cart 2 leaves: {leaving:?}") };
    assert_eq!(cart.entity, Entity::Cart(CartId(2)));
    let place = fixture.log.iter().rposition(|(entity, _)| *entity == cart.entity).expect("the cart ended") as u64 + 1;
    assert_eq!(cart.index, place);
    assert!(states.take_evictable().is_empty(), "handed out once");
    assert!(!states.evict(&cart.entity, cart.index - 1), "an old copy must not be evicted");
    // Until its eviction the state is complete, in snapshots too.
    assert_eq!(states.get(&cart.entity), Some(Arc::clone(&cart.state)));
    let mut restored = written_and_read(&states);
    assert_eq!((restored.len(), restored.index()), (all, states.index()));
    assert_eq!(restored.take_evictable()[0].index, states.index(), "a snapshot ends at its own position");

    assert!(states.evict(&cart.entity, cart.index));
    assert_eq!((states.len(), states.evictable(), states.get(&cart.entity)), (all - 1, 0, None));
    assert_eq!(written_and_read(&states).len(), all - 1);
    assert!(!states.evict(&cart.entity, cart.index), "once");
    states.reload(cart.entity.clone(), Arc::clone(&cart.state));
    assert!(states.entities().eq(fixture.states.entities()));
}

#[test]
fn an_entity_that_changes_before_its_eviction_stays() {
    let fixture = busy();
    let last = fixture.log.iter().rposition(|(entity, _)| *entity == Entity::Cart(CartId(2))).expect("the cart ended");
    let mut states = applied(&fixture, last + 1);
    let before = states.take_evictable();
    // It is evicted again at a later position, because the earlier record is out of date.
    let cart = &before[0];
    let delivered = CartEvent::Delivered { numbers: Vec::new(), sold: Vec::new() };
    states.advance(cart.index + 5);
    states.apply(&cart.entity, vec![Event::Cart(delivered)]);
    assert!(!states.evict(&cart.entity, cart.index));
    let again = states.take_evictable();
    assert_eq!((again.len(), again[0].index), (1, cart.index + 5));
    assert!(states.evict(&cart.entity, cart.index + 5));
}

#[test]
fn a_copy_of_one_entity_reads_back() {
    let fixture = busy();
    for (entity, state) in fixture.states.entities() {
        let bytes = stored::append(&Cut::one(entity.clone(), Arc::clone(state), 7), Vec::new());
        let cut: Cut = stored::read(&bytes).expect("and read");
        assert_eq!(stored::append(&cut, Vec::new()), bytes);
        assert_eq!(cut.index(), 7);
        assert!(cut.entities().eq([(entity, state)]));
    }
}

#[test]
fn a_cut_stays_as_it_was() {
    let fixture = busy();
    let middle = fixture.log.len() / 2;
    let mut states = applied(&fixture, middle);
    let cut = states.cut();
    for (entity, event) in &fixture.log[middle..] {
        states.apply(entity, vec![event.clone()]);
    }
    assert!(StateMap::restore(cut).entities().eq(applied(&fixture, middle).entities()));
}

/// Every state of a random run reads back unchanged, and continues as it would have. The run has carts in payment, late lines,
/// quotas, slots, places, refunds and purchases.
#[test]
fn every_state_of_a_random_run_reads_back() {
    for seed in 0..60 {
        let fixture = crate::random_runs::mid_run(seed, 60 + 4 * seed as u32);
        let states = written_and_read(&fixture.states);
        for (read, known) in states.entities().zip(fixture.states.entities()) {
            assert_eq!(read, known, "seed {seed}");
        }
        assert!(states.entities().eq(fixture.states.entities()), "seed {seed}: states differ");
        assert_eq!((states.audit(), draw(&states)), (fixture.states.audit(), draw(&fixture.states)), "seed {seed}");
        assert!(states.unfinished().eq(fixture.states.unfinished()), "seed {seed}");
    }
    for seed in 0..20 {
        let fixture = crate::random_runs::after_run(seed);
        for place in [fixture.log.len() / 3, fixture.log.len() / 2] {
            let mut first = StateMap::new();
            fixture.log[..place].iter().for_each(|(entity, event)| _ = first.apply(entity, vec![event.clone()]));
            let mut second = written_and_read(&first);
            fixture.log[place..].iter().for_each(|(entity, event)| _ = second.apply(entity, vec![event.clone()]));
            // A replay alone evicts nothing.
            let stayed = second.entities().filter(|(entity, _)| !fixture.past.contains_key(entity));
            assert!(stayed.eq(fixture.states.entities()), "seed {seed} from {place}");
            for (entity, state) in &fixture.past {
                assert_eq!(second.get(entity).as_ref(), Some(state), "seed {seed} from {place}: {entity}");
            }
        }
    }
}

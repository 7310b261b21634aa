//! The keeping: who is due, what is owed, and that a snapshot is the whole truth.

use std::sync::Arc;

use boxoffice_core::{
    command::{CartCommand, Command, SessionCommand, Want, WantedLine},
    event::{CartEvent, Event},
    id::{CartId, Entity},
    state_map::{Cut, DUE_AGAIN_MS, StateMap, State},
    rules::Rules,
    seat::{Seat, SeatSet},
    time::Timestamp,
};

use crate::{
    catalogue::open,
    script::{check_out, draw, hold_lines, id, layout},
    town::Town,
};

fn hold(session: &str, row: u16, first: u16, count: u16) -> CartCommand {
    let seats = SeatSet::new((first..first + count).map(|seat| Seat { row, seat })).expect("some seats");
    hold_lines(vec![WantedLine {
        entity: Entity::Session(id(session)),
        want: Want::Seats { seats, best_effort: false },
    }])
}

fn send(town: &mut Town, cart: u128, request: &str, command: CartCommand) {
    town.send(Some(request), Command::Cart(CartId(cart), command));
}

/// Two sessions with something of everything: held, sold, blocked, given back, owed.
fn busy() -> Town {
    let mut town = Town::new(Rules::default());
    open(&mut town, &layout("aaaaa/bbBbb"), &["s", "t"]);
    send(&mut town, 1, "hold", hold("s", 0, 0, 3));
    send(&mut town, 2, "hold", hold("s", 1, 0, 2));
    send(&mut town, 3, "hold", hold("t", 0, 0, 2));
    send(&mut town, 4, "hold", hold("t", 1, 0, 5));
    town.run();
    send(&mut town, 1, "give", CartCommand::Release { line: 1, seats: None });
    send(&mut town, 1, "more", hold("s", 0, 3, 1));
    send(&mut town, 2, "pay", check_out());
    let seats = vec![Seat { row: 0, seat: 4 }];
    town.send(Some("block"), Command::Session(id("s"), SessionCommand::Block(seats)));
    town.run();
    // The second session is out of reach.
    send(&mut town, 3, "pay", check_out());
    send(&mut town, 4, "end", CartCommand::Cancel);
    town.run_but(|to| *to != Entity::Session(id("t")), |_| true);
    town
}

pub(crate) fn written_and_read(kept: &StateMap) -> StateMap {
    let bytes = rmp_serde::to_vec(&kept.cut()).expect("cuts can be written");
    StateMap::restore(rmp_serde::from_slice::<Cut>(&bytes).expect("and read"))
}

#[test]
fn a_snapshot_is_the_whole_truth() {
    let town = busy();
    let kept = written_and_read(&town.kept);
    assert!(kept.entities().eq(town.kept.entities()), "states differ");
    assert_eq!((kept.audit(), draw(&kept)), (town.kept.audit(), draw(&town.kept)));
    assert!(kept.unfinished().eq(town.kept.unfinished()));
    assert_eq!(kept.unfinished().count(), 2);
    // What was kept all along may be looked at before its deadline, which has moved on.
    assert!(kept.next_deadline().is_some() && town.kept.next_deadline() <= kept.next_deadline());
    let same = StateMap::restore(town.kept.cut());
    assert!(same.entities().eq(town.kept.entities()));
    let audit = kept.audit();
    assert_eq!((audit.venues, audit.sessions, audit.carts), (1, 2, [1, 0, 2, 1, 0]));
    assert_eq!((audit.seats.free, audit.seats.held, audit.seats.sold, audit.seats.blocked), (9, 8, 2, 1));
    assert_eq!((audit.orders, audit.owed, audit.broken), (2, 2, 0));
    assert_eq!(audit.revenue.iter().map(|sum| sum.amount).collect::<Vec<_>>(), [6_000]);
}

#[test]
fn a_snapshot_has_each_layout_once() {
    let rows = vec!["a".repeat(100); 50].join("/");
    let size = |sessions: &[&str]| {
        let mut town = Town::new(Rules::default());
        open(&mut town, &layout(&rows), sessions);
        rmp_serde::to_vec(&town.kept.cut()).expect("cuts can be written").len()
    };
    let (one, many) = (size(&["s"]), size(&["s", "t", "u", "v", "w"]));
    assert!(many < one + 1_000, "one session {one} bytes, five {many}");
    let mut town = Town::new(Rules::default());
    open(&mut town, &layout(&rows), &["s", "t"]);
    let kept = written_and_read(&town.kept);
    let layouts: Vec<_> = kept
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
    let mut bytes = rmp_serde::to_vec(&busy().kept.cut()).expect("cuts can be written");
    let whole = bytes.len();
    bytes.truncate(whole - 1);
    rmp_serde::from_slice::<Cut>(&bytes).expect_err("cut off");
    rmp_serde::from_slice::<Cut>(&[]).expect_err("nothing");
}

#[test]
fn replicas_that_apply_the_same_events_are_equal() {
    let town = busy();
    let mut replica = StateMap::new();
    for (entity, event) in &town.log {
        replica.apply(entity, vec![event.clone()]);
    }
    assert!(replica.entities().eq(town.kept.entities()));
    // From a snapshot in the middle as well.
    let middle = town.log.len() / 2;
    let mut first = StateMap::new();
    town.log[..middle].iter().for_each(|(entity, event)| _ = first.apply(entity, vec![event.clone()]));
    let mut second = written_and_read(&first);
    town.log[middle..].iter().for_each(|(entity, event)| _ = second.apply(entity, vec![event.clone()]));
    assert!(second.entities().eq(town.kept.entities()));
    assert!(town.kept.next_deadline() <= second.next_deadline());
}

#[test]
fn whoever_was_to_be_called_earlier_is_named_at_the_deadline_it_has_now() {
    let mut town = Town::new(Rules::default());
    open(&mut town, &layout("aaaaa"), &["s"]);
    for at in [0, 30, 70] {
        town.now = Timestamp(at);
        send(&mut town, 1, &format!("hold {at}"), hold("s", 0, (at / 30) as u16, 1));
        town.run();
    }
    let kept = &mut town.kept;
    let ttl_ms = Rules::default().hold_ttl_ms;
    let mut due = Vec::new();
    kept.due(Timestamp(ttl_ms + 69), 10, &mut due);
    let carts = |due: &[Entity]| due.iter().filter(|entity| matches!(entity, Entity::Cart(_))).count();
    assert_eq!(carts(&due), 0, "{due:?}");
    assert_eq!(kept.next_deadline(), Some(Timestamp(ttl_ms + 70)));
    kept.due(Timestamp(ttl_ms + 70), 10, &mut due);
    assert_eq!(carts(&due), 1);
}

#[test]
fn whoever_is_due_is_named_once_and_again_later() {
    let ttl_ms = Rules::default().hold_ttl_ms;
    // The session asks for the first time when the carts are due themselves.
    let mut town = Town::new(Rules { confirm_ms: ttl_ms, ..Rules::default() });
    open(&mut town, &layout("aaaaa"), &["s"]);
    for cart in 0..5 {
        town.now = Timestamp(u64::from(cart) * 10);
        send(&mut town, u128::from(cart) + 1, "hold", hold("s", 0, cart, 1));
        town.run();
    }
    let kept = &mut town.kept;
    assert_eq!(kept.next_deadline(), Some(Timestamp(ttl_ms)));
    let due = |kept: &mut StateMap, now: u64, max: usize| {
        let mut due = Vec::new();
        kept.due(Timestamp(now), max, &mut due);
        due.into_iter().map(|entity| format!("{entity}")[5 + 31..].to_owned()).collect::<Vec<_>>().concat()
    };
    assert_eq!(due(kept, ttl_ms - 1, 10), "");
    assert_eq!(due(kept, ttl_ms + 40, 2), "12");
    assert_eq!(due(kept, ttl_ms + 40, 2), "34");
    assert_eq!(due(kept, ttl_ms + 40, 2), "5");
    assert_eq!(due(kept, ttl_ms + 40, 2), "");
    assert_eq!(kept.next_deadline(), Some(Timestamp(ttl_ms + 40 + DUE_AGAIN_MS)));
    assert_eq!(due(kept, ttl_ms + 40 + DUE_AGAIN_MS, 10), "12345");
}

/// A kept shard that applied what the town did, and the place each event has in the log.
fn applied(town: &Town, until: usize) -> StateMap {
    let mut kept = StateMap::new();
    for (index, (entity, event)) in (1..).zip(&town.log[..until]) {
        kept.advance(index);
        kept.apply(entity, vec![event.clone()]);
    }
    kept
}

#[test]
fn who_has_ended_and_owes_nothing_leaves_and_comes_back() {
    let town = busy();
    let mut kept = applied(&town, town.log.len());
    let all = kept.len();
    // Cart 1 is active, 3 and 4 have ended and owe something to a session out of reach.
    let leaving = kept.take_evictable();
    let [cart] = &leaving[..] else { panic!("only cart 2 leaves: {leaving:?}") };
    assert_eq!(cart.entity, Entity::Cart(CartId(2)));
    let place = town.log.iter().rposition(|(entity, _)| *entity == cart.entity).expect("it happened") as u64 + 1;
    assert_eq!(cart.index, place);
    assert!(kept.take_evictable().is_empty(), "handed out once");
    assert!(!kept.evict(&cart.entity, cart.index - 1), "that is not how it is now");
    // Until it is forgotten it is all there, in snapshots too.
    assert_eq!(kept.get(&cart.entity), Some(Arc::clone(&cart.state)));
    let mut restored = written_and_read(&kept);
    assert_eq!((restored.len(), restored.index()), (all, kept.index()));
    assert_eq!(restored.take_evictable()[0].index, kept.index(), "a snapshot tells up to its own place");

    assert!(kept.evict(&cart.entity, cart.index));
    assert_eq!((kept.len(), kept.evictable(), kept.get(&cart.entity)), (all - 1, 0, None));
    assert_eq!(written_and_read(&kept).len(), all - 1);
    assert!(!kept.evict(&cart.entity, cart.index), "once");
    kept.reload(cart.entity.clone(), Arc::clone(&cart.state));
    assert!(kept.entities().eq(town.kept.entities()));
}

#[test]
fn an_entity_that_changes_before_it_is_forgotten_stays() {
    let town = busy();
    let last = town.log.iter().rposition(|(entity, _)| *entity == Entity::Cart(CartId(2))).expect("it happened");
    let mut kept = applied(&town, last + 1);
    let before = kept.take_evictable();
    // It leaves again at a later place: what was kept elsewhere of the earlier one is not enough.
    let cart = &before[0];
    let delivered = CartEvent::Delivered { numbers: Vec::new(), sold: Vec::new() };
    kept.advance(cart.index + 5);
    kept.apply(&cart.entity, vec![Event::Cart(delivered)]);
    assert!(!kept.evict(&cart.entity, cart.index));
    let again = kept.take_evictable();
    assert_eq!((again.len(), again[0].index), (1, cart.index + 5));
    assert!(kept.evict(&cart.entity, cart.index + 5));
}

#[test]
fn a_copy_of_one_entity_reads_back() {
    let town = busy();
    for (entity, state) in town.kept.entities() {
        let bytes = rmp_serde::to_vec(&Cut::one(entity.clone(), Arc::clone(state), 7)).expect("it can be written");
        let cut: Cut = rmp_serde::from_slice(&bytes).expect("and read");
        assert_eq!(cut.index(), 7);
        assert!(cut.entities().eq([(entity, state)]));
    }
}

#[test]
fn a_cut_stays_as_it_was() {
    let town = busy();
    let middle = town.log.len() / 2;
    let mut kept = applied(&town, middle);
    let cut = kept.cut();
    for (entity, event) in &town.log[middle..] {
        kept.apply(entity, vec![event.clone()]);
    }
    assert!(StateMap::restore(cut).entities().eq(applied(&town, middle).entities()));
}

/// Carts that are being paid, late lines, quotas, slots, places, refunds and purchases among them: every state of a storm
/// reads back as it was, and goes on as it would have.
#[test]
fn every_state_of_a_storm_reads_back() {
    for seed in 0..60 {
        let town = crate::storm::midst(seed, 60 + 4 * seed as u32);
        let kept = written_and_read(&town.kept);
        for (read, known) in kept.entities().zip(town.kept.entities()) {
            assert_eq!(read, known, "seed {seed}");
        }
        assert!(kept.entities().eq(town.kept.entities()), "seed {seed}: states differ");
        assert_eq!((kept.audit(), draw(&kept)), (town.kept.audit(), draw(&town.kept)), "seed {seed}");
        assert!(kept.unfinished().eq(town.kept.unfinished()), "seed {seed}");
    }
    for seed in 0..20 {
        let town = crate::storm::aftermath(seed);
        for place in [town.log.len() / 3, town.log.len() / 2] {
            let mut first = StateMap::new();
            town.log[..place].iter().for_each(|(entity, event)| _ = first.apply(entity, vec![event.clone()]));
            let mut second = written_and_read(&first);
            town.log[place..].iter().for_each(|(entity, event)| _ = second.apply(entity, vec![event.clone()]));
            // Nobody leaves where the log is only read.
            let stayed = second.entities().filter(|(entity, _)| !town.past.contains_key(entity));
            assert!(stayed.eq(town.kept.entities()), "seed {seed} from {place}");
            for (entity, state) in &town.past {
                assert_eq!(second.get(entity).as_ref(), Some(state), "seed {seed} from {place}: {entity}");
            }
        }
    }
}

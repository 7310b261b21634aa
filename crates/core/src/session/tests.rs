//! Tests of a session's seats and areas against a reference, and example by example.

mod offers;

use alloc::{sync::Arc, vec, vec::Vec};

use proptest::{collection::vec as list, prelude::*};
use smol_str::SmolStr;

use super::{Session, areas::check_areas};
use crate::{
    answer::{AreaCounts, SeatCounts},
    ask::{Granted, Opening, Reply},
    command::{Area, CustomerLimit, Limits, NewSession, SessionExtras, Want},
    event::{Event, SessionEvent},
    holds::HoldAsk,
    holds_model::{euros, id, reread, standing},
    id::{CartId, HoldId, Request, RequestHash},
    inventory::Inventory,
    layout::{Labels, Layout, Row, Run},
    portion::{Content, Portion},
    refusal::{Refusal, TakenSeat},
    seat::{Seat, SeatSet, SeatState},
    time::Timestamp,
};

const NOW: Timestamp = Timestamp(1_000);
const LATER: Timestamp = Timestamp(31_000);

fn hall(rows: &[u16]) -> Arc<Layout> {
    let row = |(number, seats): (usize, &u16)| Row {
        label: alloc::format!("{number}").into(),
        section: None,
        runs: vec![Run {
            gap: 0,
            count: *seats,
            labels: Labels::Numbers { first: 1, step: 1 },
            category: id("a"),
            accessible: false,
            points: vec![],
        }],
    };
    Arc::new(Layout::new(rows.iter().enumerate().map(row).collect(), None).expect("a good hall"))
}

fn wish(areas: Vec<Area>, limits: Limits, layout: &Layout) -> NewSession {
    NewSession {
        id: id("s"),
        hall: id("hall"),
        title: id("title"),
        starts_at: Timestamp(1_000_000),
        ends_at: Timestamp(2_000_000),
        prices: layout.categories().iter().map(|category| (category.clone(), euros(1_000))).collect(),
        extras: SessionExtras { areas, limits, ..Default::default() },
    }
}

fn seated(rows: &[u16]) -> Session {
    let layout = hall(rows);
    Session::opened(&Opening {
        venue: id("venue"),
        session: wish(vec![], Limits::default(), &layout),
        layout,
        zone: Default::default(),
    })
}

fn hold_id(number: u64) -> HoldId {
    HoldId { cart: CartId(number.into()), request: RequestHash(number), part: 0, attempt: 0 }
}

fn write(session: &mut Session, events: impl IntoIterator<Item = Event>) {
    for event in events {
        let Event::Session(event) = event else { panic!("a session decides {event:?}") };
        session.apply(&event);
    }
}

fn hold(session: &mut Session, number: u64, revision: u64, want: &Want, deadline: Timestamp) -> Result<Granted, Reply> {
    let ask = HoldAsk {
        hold: hold_id(number),
        revision,
        want,
        deadline,
        at: Timestamp(0),
        holder: None,
        desk: true,
        code: None,
        attributes: &[],
        customer: None,
    };
    match session.decide_hold(NOW, &ask) {
        Ok(event) => {
            write(session, [event]);
            Ok(session.granted(hold_id(number)))
        }
        Err(Reply::Granted(granted)) => Ok(granted),
        Err(reply) => Err(reply),
    }
}

fn refusal(reply: Result<Granted, Reply>) -> Refusal {
    match reply {
        Err(Reply::Refused { refusal, .. }) => refusal,
        reply => panic!("not refused: {reply:?}"),
    }
}

fn sell(session: &mut Session, number: u64, revision: u64, portion: &Portion) {
    let order = hold_id(number).cart.order();
    let events = session.decide_sell(hold_id(number), revision, portion, order, NOW).expect("it is held");
    write(session, events);
}

fn release(session: &mut Session, number: u64, revision: u64, left: Option<&Portion>) {
    let event = session.decide_release(hold_id(number), revision, left, false);
    write(session, event);
}

fn floor(quantity: u32) -> Want {
    Want::places(id("floor"), quantity)
}

fn places(quantity: u32) -> Portion {
    Portion::Places { area: id("floor"), quantity }
}

fn seats(all: &[(u16, u16)]) -> SeatSet {
    SeatSet::new(all.iter().map(|(row, seat)| Seat { row: *row, seat: *seat })).expect("a set of seats")
}

fn want(all: &[(u16, u16)]) -> Want {
    Want::seats(seats(all), false)
}

fn request(number: u64) -> Request {
    Request { id: RequestHash(number), body: number }
}

fn free(session: &Session) -> u32 {
    session.area_counts()[0].free
}

#[test]
fn example_8_an_area_of_495() {
    let mut session = standing(495);
    hold(&mut session, 1, 1, &floor(5), LATER).expect("there is room");
    sell(&mut session, 1, 2, &places(5));
    assert_eq!(free(&session), 490);
    let result = refusal(hold(&mut session, 2, 1, &floor(500), LATER));
    assert_eq!(result, Refusal::NotEnoughPlaces { area: id("floor"), free: 490, held: 0 });
    assert_eq!(session.area_counts(), [AreaCounts { area: id("floor"), free: 490, held: 0, sold: 5 }]);
}

#[test]
fn example_9_holds_end_at_the_request_of_their_carts() {
    let mut session = standing(500);
    for (number, quantity, deadline) in [(1, 5, 100_000), (2, 7, 50_000), (3, 19, 69_000)] {
        hold(&mut session, number, 1, &floor(quantity), Timestamp(deadline)).expect("there is room");
    }
    assert_eq!(free(&session), 469);
    let overdue = session.overdue((Timestamp(0), HoldId::LAST), Timestamp(70_000), 10);
    assert_eq!(overdue, [(Timestamp(50_000), hold_id(2)), (Timestamp(69_000), hold_id(3))]);
    assert_eq!(free(&session), 469, "the session's own clock frees nothing");
    for (_, hold) in overdue {
        let events = session.decide_disowned(hold);
        write(&mut session, events);
    }
    assert_eq!((free(&session), session.held(hold_id(1))), (495, Some(places(5))));
}

#[test]
fn example_11_a_declined_hold_is_released_while_another_is_sold() {
    let mut session = standing(10);
    hold(&mut session, 1, 1, &floor(5), LATER).expect("there is room");
    hold(&mut session, 2, 1, &floor(5), LATER).expect("there is room");
    sell(&mut session, 1, 2, &places(5));
    release(&mut session, 2, 2, None);
    assert_eq!(session.area_counts(), [AreaCounts { area: id("floor"), free: 5, held: 0, sold: 5 }]);
}

#[test]
fn example_14_locked_and_sold_and_the_repeat_answers_as_the_first_did() {
    let mut session = seated(&[5, 5, 5, 5]);
    let asked = want(&[(3, 2), (3, 1)]);
    let first = hold(&mut session, 1, 1, &asked, LATER).expect("the seats are free");
    assert_eq!(session.counts(), SeatCounts { free: 18, held: 2, sold: 0, blocked: 0 });
    assert_eq!(hold(&mut session, 1, 1, &asked, LATER), Ok(first));
    let all = Portion::Seats(seats(&[(3, 1), (3, 2)]));
    sell(&mut session, 1, 2, &all);
    let version = session.sale_version(hold_id(1));
    assert_eq!(session.counts(), SeatCounts { free: 18, held: 0, sold: 2, blocked: 0 });
    sell(&mut session, 1, 2, &all);
    assert_eq!((session.sale_version(hold_id(1)), session.version()), (version, 3), "sold once");
}

#[test]
fn a_sale_takes_exactly_the_named_seats_and_frees_the_rest() {
    let mut session = standing(10);
    hold(&mut session, 1, 1, &floor(6), LATER).expect("there is room");
    sell(&mut session, 1, 2, &places(4));
    assert_eq!(session.area_counts(), [AreaCounts { area: id("floor"), free: 6, held: 0, sold: 4 }]);
    let mut session = seated(&[4]);
    hold(&mut session, 1, 1, &want(&[(0, 0), (0, 1), (0, 2)]), LATER).expect("the seats are free");
    sell(&mut session, 1, 2, &Portion::Seats(seats(&[(0, 1)])));
    assert_eq!(session.counts(), SeatCounts { free: 3, held: 0, sold: 1, blocked: 0 });
    assert_eq!(session.audit().violations, Vec::<SmolStr>::new());
}

#[test]
fn a_refunded_sale_is_on_sale_again_and_late_messages_about_it_change_nothing() {
    let mut session = seated(&[4]);
    let asked = want(&[(0, 1)]);
    let portion = Portion::Seats(seats(&[(0, 1)]));
    hold(&mut session, 1, 1, &asked, LATER).expect("the seats are free");
    sell(&mut session, 1, 2, &portion);
    let events = session.decide_refund(hold_id(1));
    write(&mut session, events);
    assert_eq!((session.counts().free, session.sold(hold_id(1))), (4, None));
    hold(&mut session, 2, 1, &asked, LATER).expect("the seats are free again");
    let version = session.version();
    sell(&mut session, 1, 2, &portion);
    release(&mut session, 1, 3, None);
    assert_eq!(session.decide_refund(hold_id(1)), None);
    let stale = Reply::Stale { hold: hold_id(1), revision: 1, live: false };
    assert_eq!(hold(&mut session, 1, 1, &asked, LATER), Err(stale));
    assert_eq!((session.version(), session.held(hold_id(2))), (version, Some(portion)));
}

#[test]
fn a_refund_that_overtakes_the_sale_frees_the_hold_and_the_sale_finds_nothing() {
    for (mut session, want, portion) in
        [(seated(&[4]), want(&[(0, 1)]), Portion::Seats(seats(&[(0, 1)]))), (standing(4), floor(1), places(1))]
    {
        hold(&mut session, 1, 1, &want, LATER).expect("the seats are free");
        let events = session.decide_refund(hold_id(1));
        write(&mut session, events);
        sell(&mut session, 1, 2, &portion);
        assert_eq!((session.held(hold_id(1)), session.sold(hold_id(1))), (None, None));
        assert_eq!(session.audit().violations, Vec::<SmolStr>::new());
    }
}

#[test]
fn a_canceled_session_sells_nothing_and_requests_all_holds_back() {
    let mut session = seated(&[4, 4]);
    hold(&mut session, 1, 1, &want(&[(0, 0)]), LATER).expect("the seats are free");
    hold(&mut session, 2, 1, &want(&[(0, 1)]), LATER).expect("the seats are free");
    sell(&mut session, 2, 2, &Portion::Seats(seats(&[(0, 1)])));
    assert_eq!(session.unwanted(None, 10), []);
    let event = session.decide_cancel(&"no power".into(), request(1)).expect("the session is not canceled");
    session.apply(&event);
    assert_eq!(session.answered(request(1)), Some(Ok(session.version())));
    assert_eq!(session.canceled(), Some("no power"));
    let closed = Refusal::SessionClosed("it is canceled already: no power".into());
    assert_eq!(session.decide_cancel(&"again".into(), request(2)), Err(closed));
    let result = refusal(hold(&mut session, 3, 1, &want(&[(1, 1)]), LATER));
    assert_eq!(result, Refusal::SessionClosed("it is canceled: no power".into()));
    hold(&mut session, 1, 1, &want(&[(0, 0)]), LATER).expect("a repeat is answered as before");
    assert_eq!(session.unwanted(None, 10), [hold_id(1), hold_id(2)]);
    assert_eq!(session.unwanted(None, 1), [hold_id(1)]);
    assert_eq!(session.unwanted(Some(hold_id(1)), 10), [hold_id(2)]);
    release(&mut session, 1, 2, None);
    let events = session.decide_refund(hold_id(2));
    write(&mut session, events);
    assert_eq!((session.unwanted(None, 10), session.counts().free), (vec![], 8));
}

#[test]
fn places_grow_and_shrink_and_a_refused_growth_changes_nothing() {
    let mut session = standing(10);
    let granted = hold(&mut session, 1, 1, &floor(2), LATER).expect("there is room");
    assert_eq!(
        granted.content,
        Some(Content::Places { area: id("floor"), quantity: 2, price: 1_500, bought_as: None })
    );
    hold(&mut session, 1, 2, &floor(10), LATER).expect("its own places count as free");
    hold(&mut session, 1, 3, &floor(4), LATER).expect("less is fine");
    let result = refusal(hold(&mut session, 1, 4, &floor(11), LATER));
    assert_eq!(result, Refusal::NotEnoughPlaces { area: id("floor"), free: 6, held: 0 });
    assert_eq!(session.held(hold_id(1)), Some(places(4)));
    // The refusal changed nothing, so its revision was not used up.
    hold(&mut session, 1, 4, &floor(5), LATER).expect("there is room");
    let stale = Reply::Stale { hold: hold_id(1), revision: 4, live: true };
    assert_eq!(hold(&mut session, 1, 3, &floor(4), LATER), Err(stale));
    release(&mut session, 1, 5, Some(&places(1)));
    assert_eq!(session.area_counts(), [AreaCounts { area: id("floor"), free: 9, held: 1, sold: 0 }]);
}

#[test]
fn invalid_wants_are_refused() {
    let mut session = standing(10);
    assert_eq!(refusal(hold(&mut session, 1, 1, &floor(0), LATER)).code(), 402);
    assert_eq!(refusal(hold(&mut session, 1, 1, &floor(u32::MAX), LATER)).code(), 402);
    let elsewhere = Want::places(id("roof"), 1);
    assert_eq!(refusal(hold(&mut session, 1, 1, &elsewhere, LATER)), Refusal::NotFound("area roof".into()));
    assert_eq!(refusal(hold(&mut session, 1, 1, &Want::Units { quantity: 1, now: true }, LATER)).code(), 101);
    assert_eq!(refusal(hold(&mut session, 1, 1, &want(&[(0, 0)]), LATER)).code(), 202);
    hold(&mut session, 1, 1, &floor(1), LATER).expect("there is room");
    assert_eq!(refusal(hold(&mut session, 1, 1, &floor(2), LATER)), Refusal::RequestIdReused);
    assert_eq!(refusal(hold(&mut session, 1, 2, &want(&[(0, 0)]), LATER)), Refusal::RequestIdReused);
    let over = HoldAsk {
        hold: hold_id(2),
        revision: 1,
        want: &floor(1),
        deadline: LATER,
        at: Timestamp(0),
        holder: None,
        desk: true,
        code: None,
        attributes: &[],
        customer: None,
    };
    let result = session.decide_hold(Timestamp(2_000_000), &over).expect_err("the session is over");
    assert_eq!(refusal(Err(result)), Refusal::SessionClosed("it is over".into()));
}

#[test]
fn a_session_may_have_seats_areas_and_limits() {
    let layout = hall(&[2]);
    let area = Area { id: id("floor"), name: "Floor".into(), capacity: 3, price: euros(5), names: Default::default() };
    let limits = Limits { per_order: Some(4), per_customer: Some(CustomerLimit { quota: id("finals"), max: 6 }) };
    let new = wish(vec![area.clone()], limits.clone(), &layout);
    assert_eq!(check_areas(&new), Ok(()));
    let opening = Opening { venue: id("venue"), session: new, layout, zone: Default::default() };
    let mut session = Session::opened(&opening);
    assert_eq!(session.opening(), opening);
    let granted = hold(&mut session, 1, 1, &want(&[(0, 0)]), LATER).expect("the seats are free");
    assert_eq!(granted.limits, limits);
    assert_eq!((session.view().areas.clone(), session.view().limits.clone()), (vec![area], limits));
    assert_eq!(session.map().areas, session.area_counts());
}

#[test]
fn invalid_areas_are_refused() {
    let area = |name: &str, capacity, price| Area {
        id: id(name),
        name: "".into(),
        capacity,
        price,
        names: Default::default(),
    };
    let seatless = Layout::new(vec![], None).expect("a hall may have no seats");
    let result = |areas: Vec<Area>| check_areas(&wish(areas, Limits::default(), &seatless)).map_err(|no| no.code());
    let pounds = crate::money::Money { currency: crate::money::Currency::new("GBP").expect("letters"), amount: 1 };
    assert_eq!(result(vec![area("a", 1, euros(0)), area("b", 1_000_000, euros(1))]), Ok(()));
    assert_eq!(result(vec![]), Err(101), "nothing to sell");
    assert_eq!(result(vec![area("a", 1, euros(1)), area("a", 1, euros(1))]), Err(101), "named twice");
    assert_eq!(result(vec![area("a", 0, euros(1))]), Err(101), "no places");
    assert_eq!(result(vec![area("a", 1_000_001, euros(1))]), Err(101), "too many places");
    assert_eq!(result(vec![area("a", 1, euros(-1))]), Err(101), "a negative price");
    assert_eq!(result(vec![area("a", 1, euros(1)), area("b", 1, pounds)]), Err(101), "two currencies");
}

#[test]
fn an_idle_session_is_small_also_after_a_hold() {
    let mut session = seated(&[20; 10]);
    let light = session.heap_bytes();
    assert!(light <= 260, "{light} bytes");
    hold(&mut session, 1, 1, &want(&[(3, 3)]), LATER).expect("the seats are free");
    assert!(session.heap_bytes() > light);
    let events = session.decide_release(hold_id(1), 2, None, true);
    write(&mut session, events);
    assert_eq!(session.heap_bytes(), light);
}

#[derive(Clone, Debug)]
enum Step {
    Hold { hold: usize, revision: u64, wanted: u8, best_effort: bool },
    Release { hold: usize, revision: u64, left: u8, last: bool },
    Sell { hold: usize, revision: u64, sold: u8 },
    Refund(usize),
    Disowned(usize),
    Office(u8, bool),
    Again(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Never,
    Live { revision: u64, wanted: (u8, bool), has: u8 },
    Released(u64),
    Sold(u8),
    Refunded,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (hold, revision) = (0..5usize, 1..7u64);
    let step = prop_oneof![
        8 => (hold.clone(), revision.clone(), 1..=255u8, any::<bool>())
            .prop_map(|(hold, revision, wanted, best_effort)| Step::Hold { hold, revision, wanted, best_effort }),
        5 => (hold.clone(), revision.clone(), any::<u8>(), any::<bool>())
            .prop_map(|(hold, revision, left, last)| Step::Release { hold, revision, left, last }),
        4 => (hold.clone(), 2..9u64, any::<u8>()).prop_map(|(hold, revision, sold)| Step::Sell { hold, revision, sold }),
        2 => hold.clone().prop_map(Step::Refund),
        1 => hold.clone().prop_map(Step::Disowned),
        2 => (1..=255u8, any::<bool>()).prop_map(|(seats, block)| Step::Office(seats & 0x11, block)),
        3 => (0..20usize).prop_map(Step::Again),
    ];
    list(step, 1..25)
}

/// The seats of a mask of two rows of four.
fn named(mask: u8) -> Vec<Seat> {
    (0..8).filter(|bit| mask >> bit & 1 == 1).map(|bit| Seat { row: bit / 4, seat: bit % 4 }).collect()
}

fn portion(mask: u8) -> Option<Portion> {
    (mask > 0).then(|| Portion::Seats(SeatSet::new(named(mask)).expect("up to eight seats")))
}

struct Reference {
    fates: [Fate; 5],
    blocked: u8,
}

impl Reference {
    fn held(&self) -> u8 {
        let held = |fate: &Fate| if let Fate::Live { has, .. } = fate { *has } else { 0 };
        self.fates.iter().map(held).sum()
    }

    fn sold(&self) -> u8 {
        let sold = |fate: &Fate| if let Fate::Sold(has) = fate { *has } else { 0 };
        self.fates.iter().map(sold).sum()
    }

    fn taken(&self, mask: u8) -> Vec<TakenSeat> {
        let state = |seat: &Seat| {
            let bit = 1 << (seat.row * 4 + seat.seat);
            [(self.held(), SeatState::Held), (self.sold(), SeatState::Sold), (self.blocked, SeatState::Blocked)]
                .into_iter()
                .find(|(mask, _)| mask & bit != 0)
                .map(|(_, state)| TakenSeat { seat: *seat, state })
        };
        named(mask).iter().filter_map(state).collect()
    }

    fn hold(&mut self, hold: usize, revision: u64, wanted: u8, best_effort: bool) -> Result<u8, Reply> {
        let id = hold_id(hold as u64);
        let refused = |refusal| Reply::Refused { hold: id, revision, refusal };
        match self.fates[hold] {
            Fate::Never => {}
            Fate::Live { wanted: before, has, .. } => {
                return if before == (wanted, best_effort) { Ok(has) } else { Err(refused(Refusal::RequestIdReused)) };
            }
            Fate::Released(revision) => return Err(Reply::Stale { hold: id, revision, live: false }),
            Fate::Sold(_) | Fate::Refunded => return Err(Reply::Stale { hold: id, revision, live: false }),
        }
        let free = wanted & !(self.held() | self.sold() | self.blocked);
        if free == wanted || (best_effort && free > 0) {
            self.fates[hold] = Fate::Live { revision, wanted: (wanted, best_effort), has: free };
            return Ok(free);
        }
        let taken = self.taken(wanted);
        let blocked = taken.iter().all(|taken| taken.state == SeatState::Blocked);
        Err(refused(if blocked { Refusal::SeatBlocked(taken) } else { Refusal::SeatsTaken(taken) }))
    }

    fn step(&mut self, session: &mut Session, step: &Step) {
        match *step {
            Step::Hold { hold: number, revision, wanted, best_effort } => {
                let want = Want::seats(SeatSet::new(named(wanted)).expect("up to eight seats"), best_effort);
                let result = hold(session, number as u64, revision, &want, LATER);
                let has = result.map(|granted| granted.content.map(|content| content.portion()));
                assert_eq!(has, self.hold(number, revision, wanted, best_effort).map(portion));
            }
            Step::Release { hold, revision, left, last } => {
                let left = match self.fates[hold] {
                    Fate::Live { has, .. } => left & has,
                    Fate::Never | Fate::Released(_) | Fate::Sold(_) | Fate::Refunded => left,
                };
                write(session, session.decide_release(hold_id(hold as u64), revision, portion(left).as_ref(), last));
                self.fates[hold] = match self.fates[hold] {
                    Fate::Live { revision: known, wanted, .. } if revision > known => match left {
                        0 if last => Fate::Never,
                        0 => Fate::Released(revision),
                        has => Fate::Live { revision, wanted, has },
                    },
                    Fate::Never if !last => Fate::Released(revision),
                    same => same,
                };
            }
            Step::Sell { hold, revision, sold } => {
                let sold = match self.fates[hold] {
                    Fate::Live { revision: known, has, .. } if revision > known && sold & has > 0 => sold & has,
                    Fate::Sold(_) | Fate::Refunded if sold > 0 => sold,
                    Fate::Never | Fate::Live { .. } | Fate::Released(_) | Fate::Sold(_) | Fate::Refunded => return,
                };
                sell(session, hold as u64, revision, &portion(sold).expect("at least one"));
                if let Fate::Live { .. } = self.fates[hold] {
                    self.fates[hold] = Fate::Sold(sold);
                }
            }
            Step::Refund(hold) => {
                write(session, session.decide_refund(hold_id(hold as u64)));
                if let Fate::Live { .. } | Fate::Sold(_) = self.fates[hold] {
                    self.fates[hold] = Fate::Refunded;
                }
            }
            Step::Disowned(hold) => {
                write(session, session.decide_disowned(hold_id(hold as u64)));
                if let Fate::Live { .. } = self.fates[hold] {
                    self.fates[hold] = Fate::Never;
                }
            }
            Step::Office(mask, block) => {
                if mask == 0 {
                    return;
                }
                let decided = match block {
                    true => session.decide_block(&named(mask), request(1)),
                    false => session.decide_unblock(&named(mask), request(1)),
                };
                let wrong = mask & (self.held() | self.sold()) > 0;
                assert_eq!(decided.is_err(), wrong, "{decided:?}");
                if let Ok(event) = decided {
                    session.apply(&event);
                    self.blocked = if block { self.blocked | mask } else { self.blocked & !mask };
                }
            }
            Step::Again(_) => panic!("looked up by the caller"),
        }
    }

    fn compare(&self, session: &Session) {
        let (held, sold) = (self.held(), self.sold());
        assert_eq!(held & sold | held & self.blocked | sold & self.blocked, 0, "a seat has two states");
        let mut map = [0u8; 2];
        for (mask, state) in [(held, SeatState::Held), (sold, SeatState::Sold), (self.blocked, SeatState::Blocked)] {
            for bit in (0..8).filter(|bit| mask >> bit & 1 == 1) {
                map[bit / 4] |= (state as u8) << (bit % 4 * 2);
            }
        }
        let counts = SeatCounts {
            free: (held | sold | self.blocked).count_zeros(),
            held: held.count_ones(),
            sold: sold.count_ones(),
            blocked: self.blocked.count_ones(),
        };
        let view = session.map();
        assert_eq!((view.seats, view.counts), (map.to_vec(), counts));
        for (number, fate) in (0..).zip(&self.fates) {
            let (held, sold) = match *fate {
                Fate::Live { has, .. } => (portion(has), None),
                Fate::Sold(has) => (None, portion(has)),
                Fate::Never | Fate::Released(_) | Fate::Refunded => (None, None),
            };
            assert_eq!((session.held(hold_id(number)), session.sold(hold_id(number))), (held, sold));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::random_tests::cases(5_000)))]

    #[test]
    fn seats_match_the_reference(steps in steps()) {
        let mut session = seated(&[4, 4]);
        let mut reference = Reference { fates: [Fate::Never; 5], blocked: 0 };
        for (number, step) in steps.iter().enumerate() {
            let step = match step {
                Step::Again(back) => match steps.get(number.saturating_sub(*back + 1)) {
                    Some(Step::Again(_)) | None => continue,
                    Some(step) => step,
                },
                step => step,
            };
            reference.step(&mut session, step);
            reference.compare(&session);
        }
        assert_eq!(session.audit().violations, Vec::<SmolStr>::new());
        let mut read: Session = reread(&session);
        read.set_layout(session.layout().clone());
        read.rebuild();
        assert_eq!((read.audit(), read.map()), (session.audit(), session.map()));
    }
}

#[test]
fn a_watcher_sees_that_refunded_seats_are_free() {
    let seats = vec![Seat { row: 0, seat: 1 }];
    let event = SessionEvent::SaleRefunded { hold: hold_id(1), seats: seats.clone() };
    assert_eq!(event.change(), Some((SeatState::Free, &*seats)));
}

//! Offers of a session: examples, and random runs against a reference that counts everything anew from the list of what happened.

use alloc::{format, string::ToString, sync::Arc, vec, vec::Vec};

use proptest::{collection::vec as list, prelude::*};
use smol_str::SmolStr;

use super::super::{Session, check_terms};
use crate::{
    answer::{SeatCounts, SessionView},
    ask::{Granted, Opening, Reply},
    command::{
        Allotment, Area, BestWish, BuyAs, Counter, NewSession, Offer, Offering, PriceChange, PriceType, SessionChange,
        SessionExtras, ShownCode, Want,
    },
    event::{Event, SessionEvent},
    holds::HoldAsk,
    holds_model::{euros, id, reread},
    id::{CartId, HoldId, Id, Request, RequestHash},
    inventory::Inventory,
    layout::{Labels, Layout, Row, Run},
    portion::{Content, Tax},
    refusal::{Refusal, TakenSeat},
    rules::Rules,
    seat::{Seat, SeatSet, SeatState},
    time::Timestamp,
};

const OPENS: Timestamp = Timestamp(10_000);
const LATER: Timestamp = Timestamp(500_000);

/// Two rows of eight seats: stalls in front, a box behind, in which the fourth seat is for a wheelchair.
fn hall() -> Arc<Layout> {
    let run = |category: &str, first: i32, count: u16, accessible| Run {
        gap: 0,
        count,
        labels: Labels::Numbers { first, step: 1 },
        category: id(category),
        accessible,
        points: vec![],
    };
    let row = |label: &str, runs| Row { label: label.into(), section: None, runs };
    let stalls = row("A", vec![run("stalls", 1, 8, false)]);
    let behind = row("B", vec![run("box", 1, 3, false), run("box", 4, 1, true), run("box", 5, 4, false)]);
    Arc::new(Layout::new(vec![stalls, behind], None).expect("a good hall"))
}

fn price_type(name: &str, prices: &[(&str, i64)], area_prices: &[(&str, i64)]) -> PriceType {
    let priced = |zones: &[(&str, i64)]| zones.iter().map(|(zone, price)| (id(zone), *price)).collect();
    let tax = (name == "under26").then(|| Tax { rate: 700, code: "reduced".into() });
    let (prices, area_prices) = (priced(prices), priced(area_prices));
    PriceType { id: id(name), name: name.into(), names: Default::default(), prices, area_prices, tax }
}

fn offer(name: &str) -> Offer {
    Offer {
        id: id(name),
        name: "".into(),
        names: Default::default(),
        types: vec![],
        categories: vec![],
        areas: vec![],
        from: None,
        until: None,
        closed: false,
        desk: false,
        change: None,
        per_order: None,
        counters: vec![],
        allotments: vec![],
        code_group: None,
        attributes: vec![],
        per_customer: None,
    }
}

fn allotment(name: &str, seats: &[(u16, u16)], release_at: Option<Timestamp>) -> Allotment {
    let seats = seats.iter().map(|(row, number)| seat(*row, *number)).collect();
    Allotment {
        id: id(name),
        name: "".into(),
        names: Default::default(),
        seats,
        release_at,
        released: false,
        companions: false,
    }
}

/// Adults at 20 and 30 euros, under 26 at 10 and not in the box. Everybody from [`OPENS`], at most three under 26.
fn theatre() -> Offering {
    Offering {
        price_types: vec![price_type("adult", &[], &[]), price_type("under26", &[("stalls", 1_000)], &[("yard", 500)])],
        offers: vec![
            Offer { from: Some(OPENS), types: vec![id("adult")], ..offer("all") },
            Offer { from: Some(OPENS), types: vec![id("under26")], counters: vec![id("young")], ..offer("young") },
            Offer { desk: true, ..offer("desk") },
        ],
        counters: vec![Counter { id: id("young"), max: 3 }],
        allotments: vec![],
    }
}

fn opening(offering: Offering) -> Opening {
    let yard = Area { id: id("yard"), name: "Yard".into(), capacity: 10, price: euros(700), names: Default::default() };
    let offering = (!offering.is_empty()).then(|| Arc::new(offering));
    Opening {
        venue: id("venue"),
        session: NewSession {
            id: id("s"),
            hall: id("hall"),
            title: id("title"),
            starts_at: Timestamp(1_000_000),
            ends_at: Timestamp(2_000_000),
            prices: vec![(id("stalls"), euros(2_000)), (id("box"), euros(3_000))],
            extras: SessionExtras { areas: vec![yard], offering, ..Default::default() },
        },
        layout: hall(),
        zone: Default::default(),
    }
}

fn session(offering: Offering) -> Session {
    let mut opening = opening(offering);
    check_terms(&opening.layout, &mut opening.session).expect("good terms");
    Session::opened(&opening)
}

/// A session at work, as its host lets it decide.
struct Hall {
    session: Session,
    now: Timestamp,
    requests: u64,
}

impl Hall {
    fn new(offering: Offering, now: Timestamp) -> Hall {
        Hall { session: session(offering), now, requests: 0 }
    }

    fn write(&mut self, events: impl IntoIterator<Item = Event>) {
        for event in events {
            let Event::Session(event) = event else { panic!("a session decides {event:?}") };
            self.apply(&event);
        }
    }

    /// Applies an event, and checks that its delta says all that is different in the map.
    fn apply(&mut self, event: &SessionEvent) {
        let mut told = self.states();
        let touched = self.session.touched_by([event]);
        self.session.apply(event);
        let changed = self.session.changed_since(touched);
        for (index, state) in &changed.seats {
            assert_ne!(told[*index as usize], *state, "seat {index} is told again after {event:?}");
            told[*index as usize] = *state;
        }
        assert_eq!(told, self.states(), "not all is told of {event:?}");
    }

    /// The state of every seat, as the map has it.
    fn states(&self) -> Vec<SeatState> {
        let map = self.session.map().seats;
        let all = [SeatState::Free, SeatState::Held, SeatState::Sold, SeatState::Blocked];
        let states: Vec<SeatState> =
            (0..16).map(|index: usize| all[usize::from(map[index / 4] >> (index % 4 * 2) & 3)]).collect();
        assert!((0..16).all(|index| self.session.state(index) == states[index as usize]), "{states:?}");
        states
    }

    /// Opens and releases what is due, as the host of a session does before it decides.
    fn open_due(&mut self) {
        let opened = self.session.decide_openings(self.now);
        self.write(opened.map(Event::Session));
        let released = self.session.decide_releases(self.now);
        self.write(released.map(Event::Session));
    }

    fn hold(&mut self, number: u64, revision: u64, want: &Want, desk: bool) -> Result<Granted, Reply> {
        self.open_due();
        let hold = hold_id(number);
        let ask = HoldAsk {
            hold,
            revision,
            want,
            deadline: LATER,
            at: Timestamp(0),
            holder: None,
            desk,
            code: None,
            attributes: &[],
            customer: None,
        };
        match self.session.decide_hold(self.now, &ask) {
            Ok(event) => {
                self.write([event]);
                Ok(self.session.granted(hold))
            }
            Err(Reply::Granted(granted)) => Ok(granted),
            Err(reply) => Err(reply),
        }
    }

    /// A guest asks for a hold, who shows a code of this group with these uses.
    fn hold_with(&mut self, number: u64, want: &Want, code: Option<ShownCode>) -> Result<Granted, Reply> {
        self.open_due();
        let (hold, deadline, at, code) = (hold_id(number), LATER, Timestamp(0), code.as_ref());
        let ask = HoldAsk {
            hold,
            revision: 1,
            want,
            deadline,
            at,
            holder: None,
            desk: false,
            code,
            attributes: &[],
            customer: None,
        };
        let event = self.session.decide_hold(self.now, &ask)?;
        self.write([event]);
        Ok(self.session.granted(hold))
    }

    /// A buyer with these attributes asks for a hold, at the desk or not.
    fn hold_as(&mut self, number: u64, want: &Want, attributes: &[Id], desk: bool) -> Result<Granted, Reply> {
        self.open_due();
        let (hold, deadline, at) = (hold_id(number), LATER, Timestamp(0));
        let ask = HoldAsk {
            hold,
            revision: 1,
            want,
            deadline,
            at,
            holder: None,
            desk,
            code: None,
            attributes,
            customer: None,
        };
        let event = self.session.decide_hold(self.now, &ask)?;
        self.write([event]);
        Ok(self.session.granted(hold))
    }

    fn change(&mut self, change: &SessionChange) -> Result<SessionEvent, Refusal> {
        self.requests += 1;
        let request = Request { id: RequestHash(self.requests), body: self.requests };
        let event = self.session.decide_change((self.now, &Rules::default()), change, request)?;
        self.apply(&event);
        Ok(event)
    }

    fn prices(&self, number: u64) -> Vec<i64> {
        match self.session.granted(hold_id(number)).content {
            Some(Content::Seats(seats)) => seats.iter().map(|priced| priced.price).collect(),
            Some(Content::Places { price, quantity, .. }) => vec![price; quantity as usize],
            content => panic!("{content:?}"),
        }
    }
}

fn hold_id(number: u64) -> HoldId {
    HoldId { cart: CartId((number / 10).into()), request: RequestHash(number), part: 0, attempt: 0 }
}

fn seat(row: u16, seat: u16) -> Seat {
    Seat { row, seat }
}

fn seats(all: &[(u16, u16)], types: &[&str]) -> Want {
    let seats = SeatSet::new(all.iter().map(|(row, number)| seat(*row, *number))).expect("seats");
    Want::Seats { seats, best_effort: false, buy_as: BuyAs::new(types.iter().map(|name| id(name)).collect(), None) }
}

/// These seats under this offer.
fn under(all: &[(u16, u16)], offer: &str) -> Want {
    let seats = SeatSet::new(all.iter().map(|(row, number)| seat(*row, *number))).expect("seats");
    Want::Seats { seats, best_effort: false, buy_as: BuyAs::new(vec![], Some(id(offer))) }
}

fn yard(quantity: u32, of: &str) -> Want {
    Want::Places { area: id("yard"), quantity, buy_as: BuyAs::new(vec![id(of)], None) }
}

fn refused(reply: Result<Granted, Reply>) -> Refusal {
    match reply {
        Err(Reply::Refused { refusal, .. }) => refusal,
        reply => panic!("not refused: {reply:?}"),
    }
}

#[test]
fn seats_are_sold_as_what_the_buyer_says_when_the_offer_opens() {
    let mut hall = Hall::new(theatre(), Timestamp(9_000));
    let both = seats(&[(0, 0), (0, 1), (1, 0)], &["under26", "adult", "adult"]);
    let early = refused(hall.hold(10, 1, &both, false));
    assert!(matches!(&early, Refusal::NotOnSale { opens_at: Some(OPENS), .. }), "{early:?}");
    assert_eq!(
        format!("{early}"),
        "under26 in stalls is not on sale yet; it opens at 1970-01-01T00:00:10Z",
        "no counter and no offer of the desk is told"
    );
    // The desk has an offer of its own.
    hall.hold(11, 1, &seats(&[(0, 7)], &[]), true).expect("the desk sells");
    assert_eq!(hall.prices(11), [2_000]);

    hall.now = OPENS;
    let granted = hall.hold(10, 1, &both, false).expect("on sale now");
    assert_eq!(hall.prices(10), [1_000, 2_000, 3_000]);
    let Some(Content::Seats(priced)) = &granted.content else { panic!("{granted:?}") };
    let young = priced[0].bought_as.as_deref().expect("bought as something");
    assert_eq!((young.price_type.as_ref(), young.offer.as_ref()), (Some(&id("under26")), Some(&id("young"))));
    assert_eq!(young.tax, Some(Tax { rate: 700, code: "reduced".into() }));
    assert_eq!(young.tax.as_ref().map(|tax| tax.of(1_000)), Some(65), "7 % of 1 000, contained");
    // A clock that is set back closes nothing.
    hall.now = Timestamp(9_500);
    hall.hold(20, 1, &seats(&[(0, 2)], &[]), false).expect("it has opened");
    assert_eq!(hall.session.next_opening(), None);
    assert_eq!(reread_whole(&hall), hall.session);
}

/// The session as a snapshot gives it back.
fn reread_whole(hall: &Hall) -> Session {
    let mut read: Session = reread(&hall.session);
    read.set_layout(hall_layout(hall));
    read.rebuild();
    read
}

fn hall_layout(hall: &Hall) -> Arc<Layout> {
    Arc::clone(hall.session.layout())
}

#[test]
fn a_type_without_a_price_is_refused_by_name_and_the_last_ones_are_counted() {
    let mut hall = Hall::new(theatre(), OPENS);
    let in_box = refused(hall.hold(10, 1, &seats(&[(1, 0)], &["under26"]), false));
    let words = "under26 has no price in box; adult for 3000 minor units of EUR";
    assert_eq!((in_box.code(), format!("{in_box}")), (213, words.into()));
    hall.hold(10, 1, &seats(&[(0, 0), (0, 1)], &["under26"]), false).expect("two of three");
    let last = refused(hall.hold(20, 1, &seats(&[(0, 2), (0, 3)], &["under26"]), false));
    assert!(matches!(&last, Refusal::PriceSoldOut { of, left: 0, .. } if *of == id("under26")), "{last:?}");
    assert!(format!("{last}").starts_with("under26: none left; adult for 2000"), "{last}");
    hall.hold(20, 1, &seats(&[(0, 2)], &["under26"]), false).expect("the last one");
    // A place takes of the same counter.
    assert_eq!(refused(hall.hold(30, 1, &yard(1, "under26"), false)).code(), 214);
    let release = hall.session.decide_release(hold_id(20), 2, None, false);
    hall.write(release);
    hall.hold(30, 1, &yard(1, "under26"), false).expect("one is free again");
    assert_eq!(hall.prices(30), [500]);
    assert_eq!(hall.session.audit().violations, Vec::<SmolStr>::new());
    let unknown = refused(hall.hold(40, 1, &seats(&[(0, 5)], &["child"]), false));
    assert_eq!(unknown, Refusal::NotFound("price type child".into()));
}

#[test]
fn the_cheapest_offer_is_taken_until_it_is_used_up() {
    let early = Offer {
        change: Some(PriceChange::Percent(2_500)),
        counters: vec![id("first")],
        per_order: Some(2),
        ..offer("early")
    };
    let offering = Offering {
        price_types: vec![],
        offers: vec![offer("all"), early],
        counters: vec![Counter { id: id("first"), max: 3 }],
        allotments: vec![],
    };
    let mut hall = Hall::new(offering, OPENS);
    hall.hold(10, 1, &seats(&[(0, 0), (0, 1), (0, 2)], &[]), false).expect("on sale");
    assert_eq!(hall.prices(10), [1_500, 1_500, 2_000], "two to an order");
    hall.hold(11, 1, &seats(&[(1, 0)], &[]), false).expect("on sale");
    assert_eq!(hall.prices(11), [3_000], "another hold of the same order");
    hall.hold(20, 1, &seats(&[(0, 3), (0, 4)], &[]), false).expect("on sale");
    assert_eq!(hall.prices(20), [1_500, 2_000], "three in all");
    let named = Want::Seats {
        seats: SeatSet::new([seat(0, 6)]).expect("a seat"),
        best_effort: false,
        buy_as: BuyAs::new(vec![], Some(id("early"))),
    };
    let none = refused(hall.hold(30, 1, &named, false));
    assert!(matches!(&none, Refusal::PriceSoldOut { of, left: 0, .. } if *of == id("early")), "{none:?}");
}

#[test]
fn best_seats_are_those_on_sale() {
    let offering =
        Offering { offers: vec![Offer { categories: vec![id("box")], ..offer("box") }], ..Offering::default() };
    let mut hall = Hall::new(offering, OPENS);
    let best = |count| {
        Want::Best(BestWish {
            count,
            category: None,
            section: None,
            accessible: 0,
            split: false,
            buy_as: BuyAs::default(),
        })
    };
    let granted = hall.hold(10, 1, &best(2), false).expect("in the box");
    assert!(granted.content.is_some_and(|content| content.seats().iter().all(|priced| priced.seat.row == 1)));
    hall.change(&SessionChange { close: vec![id("box")], ..Default::default() }).expect("it closes");
    let closed = refused(hall.hold(20, 1, &best(2), false));
    assert!(matches!(closed, Refusal::NotOnSale { opens_at: None, .. }), "{closed:?}");
}

#[test]
fn everybody_is_told_of_no_offer_that_needs_a_code() {
    let members = Offer { code_group: Some(id("members")), ..offer("members") };
    let hall = Hall::new(Offering { offers: vec![offer("all"), members], ..Offering::default() }, Timestamp(5_000));
    let view = hall.session.view();
    assert!(view.has_secrets(), "nothing else of it is the desk's");
    let everybodys = SessionView::clone(&view).for_customer(&[]);
    let told: Vec<&Id> = everybodys.offering.iter().flat_map(|it| &it.offers).map(|offer| &offer.id).collect();
    assert_eq!(told, [&id("all")]);
}

#[test]
fn allotments_are_the_desks_until_they_are_released() {
    let press =
        Offer { desk: true, change: Some(PriceChange::Set(0)), allotments: vec![id("press")], ..offer("press") };
    let offering = Offering {
        offers: vec![offer("all"), press.clone()],
        allotments: vec![allotment("press", &[(0, 0), (0, 1)], Some(OPENS)), allotment("house", &[(1, 0)], None)],
        ..Offering::default()
    };
    let mut hall = Hall::new(offering.clone(), Timestamp(5_000));
    let blocked = refused(hall.hold(10, 1, &seats(&[(0, 1), (0, 2)], &[]), false));
    let why = Refusal::SeatBlocked(vec![TakenSeat { seat: seat(0, 1), state: SeatState::Blocked }]);
    assert_eq!(blocked, why, "nothing is said of the allotment");
    // The desk mixes them with other seats.
    hall.hold(11, 1, &seats(&[(0, 1), (0, 2)], &[]), true).expect("the desk sells them");
    assert_eq!(hall.prices(11), [0, 2_000]);
    hall.hold(12, 1, &seats(&[(1, 0)], &[]), true).expect("no offer of its own is needed");
    assert_eq!(hall.prices(12), [3_000]);
    let best = |count, offer: Option<&str>| {
        let buy_as = BuyAs::new(vec![], offer.map(id));
        Want::Best(BestWish { count, category: None, section: None, accessible: 0, split: false, buy_as })
    };
    let granted = hall.hold(13, 1, &best(1, Some("press")), true).expect("a press seat");
    assert_eq!(granted.content.map(|content| content.seats()[0].seat), Some(seat(0, 0)));
    let none = refused(hall.hold(14, 1, &best(1, Some("press")), true));
    assert!(matches!(none, Refusal::NoAdjacentSeats { free: 0, .. }), "{none:?}");
    let release = hall.session.decide_release(hold_id(13), 2, None, false);
    hall.write(release);
    let granted = hall.hold(15, 1, &best(2, None), true).expect("other seats");
    assert!(granted.content.is_some_and(|content| content.seats().iter().all(|priced| priced.seat.seat > 2)));
    let view = hall.session.view();
    assert_eq!(view.sale.as_ref().map(|sale| (sale.released.len(), sale.kept.clone())), Some((0, vec![1, 0])));
    let everybodys = SessionView::clone(&view).for_customer(&[]);
    assert!(view.has_secrets() && everybodys.offering.as_ref().is_some_and(|offering| offering.allotments.is_empty()));

    // Blocked seats are not those that are kept.
    let request = Request { id: RequestHash(99), body: 0 };
    let unblock = hall.session.decide_unblock(&[seat(0, 0)], request).expect_err("it is not blocked");
    assert!(format!("{unblock}").contains("kept for allotment press"), "{unblock}");
    hall.now = OPENS;
    assert_eq!(hall.session.next_opening(), Some(OPENS));
    let granted = hall.hold(20, 1, &seats(&[(0, 0)], &[]), false).expect("it is released");
    assert_eq!((granted.content.map(|content| content.quantity()), hall.prices(20)), (Some(1), vec![2_000]));
    hall.now = Timestamp(9_000);
    let release = hall.session.decide_release(hold_id(20), 2, None, false);
    hall.write(release);
    hall.hold(21, 1, &seats(&[(0, 0)], &[]), false).expect("a clock that is set back keeps nothing again");
    hall.change(&SessionChange { release: vec![id("house")], ..Default::default() }).expect("released by hand");
    let release = hall.session.decide_release(hold_id(12), 2, None, false);
    hall.write(release);
    hall.hold(30, 1, &seats(&[(1, 0)], &[]), false).expect("on sale for everybody");

    for (allotments, why) in [
        (vec![allotment("press", &[(0, 0), (0, 0)], None)], "allotment press names seat 0 of row 0 twice"),
        (vec![allotment("press", &[(0, 99)], None)], "allotment press names seat 99 of row 0, which there is not"),
        (vec![allotment("press", &[], None)], "allotment press has no seats"),
        (
            vec![allotment("press", &[(0, 0)], None), allotment("house", &[(0, 0)], None)],
            "seat 0 of row 0 is in allotment house and in one before it",
        ),
        (vec![allotment("house", &[(0, 0)], None)], "offer press names allotment press, which there is not"),
    ] {
        let refused = hall.change(&SessionChange { allotments: Some(allotments), ..Default::default() });
        assert_eq!(refused.expect_err(why).to_string(), format!("bad request: {why}"));
    }
    let offers = Some(vec![Offer { desk: false, ..press }]);
    let refused = hall.change(&SessionChange { offers, ..Default::default() }).expect_err("not for everybody");
    assert_eq!(
        refused.to_string(),
        "bad request: offer press sells allotments, so it is not for everybody: say `desk`, `code_group` or `attributes`"
    );
}

/// A voucher that reserves seats is an allotment of a code's offer.
#[test]
fn a_code_opens_the_allotments_of_its_offers() {
    let agency = Offer {
        code_group: Some(id("agency")),
        allotments: vec![id("agency")],
        change: Some(PriceChange::Minus(500)),
        ..offer("agency")
    };
    // Everybody pays less, but not for what is kept.
    let all = Offer { change: Some(PriceChange::Minus(1_000)), ..offer("all") };
    let members = Offer { code_group: Some(id("members")), ..offer("members") };
    let offering = Offering {
        offers: vec![all, agency, members],
        allotments: vec![allotment("agency", &[(0, 0), (0, 1)], Some(OPENS)), allotment("house", &[(1, 0)], None)],
        ..Offering::default()
    };
    let mut hall = Hall::new(offering, Timestamp(5_000));
    let code = |group: &str, uses| Some(ShownCode { group: id(group), uses });
    let both = seats(&[(0, 0), (0, 3)], &[]);
    let blocked = Refusal::SeatBlocked(vec![TakenSeat { seat: seat(0, 0), state: SeatState::Blocked }]);
    assert_eq!(refused(hall.hold(10, 1, &both, false)), blocked);
    assert_eq!(refused(hall.hold_with(11, &both, code("members", 2))), blocked, "another group opens nothing");
    let house = refused(hall.hold_with(12, &seats(&[(1, 0)], &[]), code("agency", 2)));
    assert!(matches!(house, Refusal::SeatBlocked(_)), "another allotment: {house:?}");
    hall.hold_with(13, &both, code("agency", 1)).expect("one kept seat with its use, and one of everybody's");
    assert_eq!(hall.prices(13), [1_500, 1_000]);
    let content = hall.session.content(hold_id(13)).expect("it is held");
    assert_eq!(content.uses(), 1, "what is kept is never bought without its code");
    let two = refused(hall.hold_with(14, &seats(&[(0, 1), (0, 2)], &[]), None));
    assert!(matches!(two, Refusal::SeatBlocked(_)), "{two:?}");

    // The best seats are among the kept ones, too, and only there under the offer that names them.
    let best = |count, offer: Option<&str>| {
        let buy_as = BuyAs::new(vec![], offer.map(id));
        Want::Best(BestWish { count, category: None, section: None, accessible: 0, split: false, buy_as })
    };
    let granted = hall.hold_with(15, &best(1, Some("agency")), code("agency", 1)).expect("the last kept seat");
    assert_eq!(granted.content.map(|content| content.seats()[0].seat), Some(seat(0, 1)));
    let none = refused(hall.hold_with(16, &best(1, Some("agency")), code("agency", 1)));
    assert!(matches!(none, Refusal::NoAdjacentSeats { free: 0, .. }), "{none:?}");
    assert!(matches!(refused(hall.hold(17, 1, &best(1, Some("agency")), false)), Refusal::NotFound(_)));
    let release = hall.session.decide_release(hold_id(15), 2, None, false);
    hall.write(release);
    let spent = refused(hall.hold_with(18, &seats(&[(0, 1)], &[]), code("agency", 0)));
    assert!(matches!(spent, Refusal::PriceSoldOut { .. }), "{spent:?}");

    // After the release it is a seat like all others, and the code is for nothing.
    hall.now = OPENS;
    hall.hold(19, 1, &seats(&[(0, 1)], &[]), false).expect("it is released");
    assert_eq!(hall.prices(19), [1_000]);
}

/// A companion's seat is held together with the wheelchair place beside it, and by itself only after its release.
#[test]
fn a_companion_goes_with_a_wheelchair_place() {
    let both_sides = Allotment { companions: true, ..allotment("beside", &[(1, 2), (1, 4)], Some(OPENS)) };
    let offering = Offering { offers: vec![offer("all")], allotments: vec![both_sides.clone()], ..Offering::default() };
    let mut hall = Hall::new(offering, Timestamp(5_000));
    let blocked = |named: &[(u16, u16)]| {
        let taken = |&(row, number): &(u16, u16)| TakenSeat { seat: seat(row, number), state: SeatState::Blocked };
        Refusal::SeatBlocked(named.iter().map(taken).collect())
    };
    assert_eq!(refused(hall.hold(10, 1, &seats(&[(1, 1), (1, 2)], &[]), false)), blocked(&[(1, 2)]));
    let three = seats(&[(1, 2), (1, 3), (1, 4)], &[]);
    assert_eq!(refused(hall.hold(11, 1, &three, false)), blocked(&[(1, 4)]), "one companion for each wheelchair");
    let Want::Seats { seats: named, buy_as, .. } = three.clone() else { panic!("seats") };
    let rest = Want::Seats { seats: named, best_effort: true, buy_as };
    let granted = hall.hold(12, 1, &rest, false).expect("the pair");
    let had: Vec<Seat> = granted.content.iter().flat_map(Content::seats).map(|priced| priced.seat).collect();
    assert_eq!((had, hall.prices(12)), (vec![seat(1, 2), seat(1, 3)], vec![3_000, 3_000]));
    let release = hall.session.decide_release(hold_id(12), 2, None, false);
    hall.write(release);

    // The best seats: never one alone, and with the wheelchair's if that is asked for.
    let best = |count, accessible| {
        let buy_as = BuyAs::default();
        Want::Best(BestWish { count, category: Some(id("box")), section: None, accessible, split: false, buy_as })
    };
    let found = |granted: Result<Granted, Reply>| -> Vec<u16> {
        let content = granted.expect("seats").content.expect("a content");
        content.seats().iter().map(|priced| priced.seat.seat).collect()
    };
    assert_eq!(found(hall.hold(13, 1, &best(2, 0), false)), [0, 1]);
    let pair = found(hall.hold(14, 1, &best(2, 1), false));
    assert!(pair == [2, 3] || pair == [3, 4], "{pair:?}");
    let release = hall.session.decide_release(hold_id(14), 2, None, false);
    hall.write(release);
    // The desk does as it likes, and everybody sees which seats these are.
    hall.hold(15, 1, &seats(&[(1, 4)], &[]), true).expect("the desk's");
    let everybodys = SessionView::clone(&hall.session.view()).for_customer(&[]);
    assert_eq!(everybodys.offering.as_ref().map(|offering| offering.allotments.len()), Some(1));
    hall.now = OPENS;
    hall.hold(16, 1, &seats(&[(1, 2)], &[]), false).expect("it is released");

    for (change, why) in [
        (
            SessionChange {
                allotments: Some(vec![Allotment { companions: true, ..allotment("beside", &[(1, 0)], None) }]),
                ..Default::default()
            },
            "allotment beside is for companions, and no accessible seat is beside 0 of row 1",
        ),
        (
            SessionChange {
                offers: Some(vec![Offer { desk: true, allotments: vec![id("beside")], ..offer("all") }]),
                ..Default::default()
            },
            "offer all names allotment beside, whose seats go with those beside them",
        ),
    ] {
        let refused = hall.change(&change);
        assert_eq!(refused.expect_err(why).to_string(), format!("bad request: {why}"));
    }
}

/// A session that asks this of parties.
fn strict(offering: Offering, no_single_seats: bool, min_party: Option<u16>) -> Hall {
    let mut opening = opening(offering);
    (opening.session.no_single_seats, opening.session.min_party) = (no_single_seats, min_party);
    check_terms(&opening.layout, &mut opening.session).expect("good terms");
    Hall { session: Session::opened(&opening), now: OPENS, requests: 0 }
}

fn best_of(count: u16) -> Want {
    let buy_as = BuyAs::default();
    Want::Best(BestWish { count, category: None, section: None, accessible: 0, split: true, buy_as })
}

#[test]
fn a_hold_by_name_leaves_no_single_seat() {
    let mut hall = strict(Offering::default(), true, None);
    // The seat beside the aisle.
    let single = refused(hall.hold(10, 1, &seats(&[(0, 1), (0, 2)], &[]), false));
    assert_eq!((single.code(), &single), (216, &Refusal::LeavesSingle(vec![seat(0, 0)])));
    // A seat between two of the party, and the two beside a gap that is left.
    let within = refused(hall.hold(10, 1, &seats(&[(0, 3), (0, 5)], &[]), false));
    assert_eq!(within, Refusal::LeavesSingle(vec![seat(0, 4)]));
    hall.hold(10, 1, &seats(&[(0, 0), (0, 1)], &[]), false).expect("nobody is left alone");
    hall.hold(11, 1, &seats(&[(0, 4), (0, 5)], &[]), false).expect("two pairs are left");
    // Of two seats one is always left, and of three as well if two are taken.
    hall.hold(12, 1, &seats(&[(0, 2)], &[]), false).expect("no other choice leaves none");
    hall.hold(13, 1, &seats(&[(0, 3)], &[]), false).expect("it was single before");
    hall.hold(14, 1, &seats(&[(0, 6), (0, 7)], &[]), false).expect("the last two");
    hall.hold(20, 1, &seats(&[(1, 0), (1, 1), (1, 2), (1, 3), (1, 4)], &[]), false).expect("three are left");
    let middle = refused(hall.hold(21, 1, &seats(&[(1, 6)], &[]), false));
    assert_eq!(middle, Refusal::LeavesSingle(vec![seat(1, 5), seat(1, 7)]));
    hall.hold(21, 1, &seats(&[(1, 6), (1, 7)], &[]), false).expect("two of three");

    // The desk may, and the best seats leave one alone only if no others are there.
    let mut hall = strict(Offering::default(), true, None);
    hall.hold(10, 1, &seats(&[(0, 1), (0, 2)], &[]), true).expect("the desk may");
    for number in 20..30 {
        if hall.hold(number, 1, &best_of(3), false).is_err() {
            break;
        }
    }
    assert!(hall.session.counts().free < 3, "the best seats are never refused for it");
    // What is left over of a wish is judged, and a session without the option judges nothing.
    let mut hall = strict(Offering::default(), true, None);
    hall.hold(10, 1, &seats(&[(0, 2)], &[]), true).expect("the desk may");
    let wish = SeatSet::new([seat(0, 1), seat(0, 2)]).expect("seats");
    let some = Want::Seats { seats: wish, best_effort: true, buy_as: BuyAs::default() };
    hall.hold(11, 1, &some, false).expect("of two seats one is always left");
    let mut hall = strict(Offering::default(), false, None);
    hall.hold(10, 1, &seats(&[(0, 1)], &[]), false).expect("no such option");
}

#[test]
fn the_border_of_an_allotment_is_a_wall_and_is_none() {
    let kept =
        |seats: &[(u16, u16)]| Offering { allotments: vec![allotment("press", seats, None)], ..Offering::default() };
    // The seat before the border is alone until the release, and has neighbours after it.
    let mut hall = strict(kept(&[(0, 6), (0, 7)]), true, None);
    hall.hold(10, 1, &seats(&[(0, 3), (0, 4)], &[]), false).expect("seat 5 has a neighbour after the release");
    let single = refused(hall.hold(11, 1, &seats(&[(0, 1)], &[]), false));
    assert_eq!(single, Refusal::LeavesSingle(vec![seat(0, 0), seat(0, 2)]), "no border is near them");
    // Before the release the last seat of three cannot be helped, and after it other seats could have been taken.
    let mut hall = strict(kept(&[(1, 3), (1, 4)]), true, None);
    hall.hold(10, 1, &seats(&[(1, 1), (1, 2)], &[]), false).expect("two of three up to the border");
    // Kept seats are not those that may be left alone: the desk sells them.
    let mut hall = strict(kept(&[(0, 0)]), true, None);
    hall.hold(10, 1, &seats(&[(0, 1), (0, 2)], &[]), false).expect("the kept seat is the desk's");
    hall.change(&SessionChange { release: vec![id("press")], ..Default::default() }).expect("released by hand");
    let mut hall = strict(kept(&[(1, 0)]), true, None);
    hall.change(&SessionChange { release: vec![id("press")], ..Default::default() }).expect("released by hand");
    let single = refused(hall.hold(10, 1, &seats(&[(1, 1), (1, 2)], &[]), false));
    assert_eq!(single, Refusal::LeavesSingle(vec![seat(1, 0)]), "it is a seat like all others");
}

#[test]
fn a_party_has_a_least_size() {
    let mut hall = strict(Offering::default(), false, Some(3));
    let small = refused(hall.hold(10, 1, &seats(&[(0, 0), (0, 1)], &[]), false));
    assert_eq!((small.code(), &small), (217, &Refusal::PartyTooSmall { min: 3 }));
    assert_eq!(refused(hall.hold(10, 1, &best_of(2), false)), small);
    hall.hold(10, 1, &seats(&[(0, 0)], &[]), true).expect("the desk may");
    hall.hold(11, 1, &seats(&[(0, 1), (0, 2), (0, 3)], &[]), false).expect("three");
    hall.hold(12, 1, &best_of(5), false).expect("the best of five");
    hall.hold(13, 1, &Want::places(id("yard"), 1), false).expect("places are not meant");
    // Runs that are too short for such a party are sold in smaller parts.
    let mut hall = strict(Offering::default(), false, Some(3));
    hall.hold(10, 1, &seats(&[(0, 2), (0, 3), (0, 4), (0, 5)], &[]), false).expect("four");
    hall.hold(11, 1, &seats(&[(0, 0)], &[]), false).expect("no run of three");
    hall.hold(12, 1, &seats(&[(0, 1), (0, 7)], &[]), false).expect("two runs, both short");
    assert_eq!(refused(hall.hold(13, 1, &seats(&[(0, 6), (1, 0)], &[]), false)), small, "row B has room for three");
    // The whole party of a wish is judged, and what is kept is no room.
    let press = Offering { allotments: vec![allotment("press", &[(1, 2), (1, 3)], None)], ..Offering::default() };
    let mut hall = strict(press, false, Some(3));
    hall.hold(10, 1, &seats(&[(1, 1)], &[]), false).expect("two seats up to the border");
}

#[test]
fn what_a_session_asks_of_parties_is_changed_shown_and_kept() {
    let mut hall = strict(Offering::default(), false, None);
    let change = |no_single_seats: Option<bool>, min_party: Option<u16>| SessionChange {
        no_single_seats,
        min_party,
        ..Default::default()
    };
    let event = hall.change(&change(Some(true), Some(2))).expect("a change");
    let SessionEvent::Changed { what, .. } = event else { panic!("{event:?}") };
    assert_eq!(what, ["its `no_single_seats` is true, and was false", "its `min_party` is 2, and was none"]);
    let asked = |hall: &Hall| {
        let view = hall.session.view();
        (view.session.no_single_seats, view.session.min_party)
    };
    assert_eq!(asked(&hall), (true, Some(2)));
    assert_eq!(refused(hall.hold(10, 1, &seats(&[(0, 1), (0, 2)], &[]), false)).code(), 216);
    hall.change(&change(None, Some(4))).expect("the other one stays");
    assert_eq!(asked(&hall), (true, Some(4)));
    assert_eq!(reread_whole(&hall), hall.session);
    hall.session = reread_whole(&hall);
    assert_eq!(refused(hall.hold(10, 1, &seats(&[(0, 0), (0, 1)], &[]), false)).code(), 217);
    hall.change(&change(Some(false), Some(1))).expect("nothing is asked any more");
    assert_eq!(asked(&hall), (false, None));
    hall.hold(10, 1, &seats(&[(0, 1)], &[]), false).expect("nothing is asked");
    for min in [0, 21] {
        let refused = hall.change(&change(None, Some(min))).expect_err("out of bounds");
        assert_eq!(refused.to_string(), "bad request: min_party is not 1 to 20");
    }
    let mut limited = opening(Offering::default());
    (limited.session.limits.per_order, limited.session.min_party) = (Some(2), Some(3));
    let refused = check_terms(&limited.layout, &mut limited.session).expect_err("nobody could buy");
    assert_eq!(refused.to_string(), "bad request: min_party is 3, and one order may have only 2");
    // Terms that ask for nothing take no more bytes than before there was anything to ask.
    let late = SessionExtras { sells_after_begin: true, ..Default::default() };
    assert_eq!(crate::stored::append(&late, vec![]), [0x85, 0x80, 0x80, 0x60, 0xf6, 0xf5]);
}

#[test]
fn holds_keep_their_prices_when_the_terms_change() {
    let mut hall = Hall::new(Offering::default(), OPENS);
    hall.hold(10, 1, &seats(&[(0, 0), (0, 1)], &[]), false).expect("on sale");
    hall.hold(11, 1, &Want::places(id("yard"), 2), false).expect("on sale");
    let opened = opening(Offering::default());
    let dearer = SessionChange {
        prices: Some(vec![(id("box"), euros(4_000)), (id("stalls"), euros(2_500))]),
        areas: Some(vec![Area { price: euros(900), capacity: 4, ..opened.session.areas[0].clone() }]),
        ..Default::default()
    };
    let event = hall.change(&dearer).expect("dearer");
    let SessionEvent::Changed { what, .. } = event else { panic!("{event:?}") };
    assert_eq!(what.len(), 3, "{what:?}");
    assert_eq!((hall.prices(10), hall.prices(11)), (vec![2_000, 2_000], vec![700, 700]));
    // A repeat gets the same answer, and part of a hold keeps its prices.
    hall.hold(10, 1, &seats(&[(0, 0), (0, 1)], &[]), false).expect("a repeat");
    assert_eq!(hall.prices(10), [2_000, 2_000]);
    hall.hold(12, 1, &seats(&[(0, 2), (1, 0)], &[]), false).expect("on sale");
    assert_eq!(hall.prices(12), [2_500, 4_000]);
    // Further places cost something else, so they are held on their own.
    let more = hall.hold(11, 2, &Want::places(id("yard"), 3), false).expect_err("repriced");
    assert!(matches!(more, Reply::Repriced { price: 900, .. }), "{more:?}");
    hall.hold(11, 3, &Want::places(id("yard"), 1), false).expect("fewer keep their price");
    assert_eq!(hall.prices(11), [700]);
    // The opening is compared with what it was opened with, and its view shows what it is now.
    assert!(hall.session.is_opened_with(&opened));
    assert_eq!(hall.session.view().session.prices[0].1, euros(2_500));
    assert_eq!(hall.session.terms_version(), 1);
    let late = hall.change(&SessionChange { expect: Some(0), ..Default::default() }).expect_err("a change came before");
    assert_eq!(late, Refusal::TermsChanged { expected: 0, actual: 1 });
    let small = Area { capacity: 0, ..opened.session.areas[0].clone() };
    let refused = hall.change(&SessionChange { areas: Some(vec![small]), ..Default::default() });
    assert_eq!(refused.expect_err("it has no places").code(), 101);
    hall.hold(13, 1, &Want::places(id("yard"), 3), false).expect("the last ones");
    let small = Area { capacity: 3, ..opened.session.areas[0].clone() };
    let refused = hall.change(&SessionChange { areas: Some(vec![small]), ..Default::default() });
    let words = "bad request: area yard cannot be smaller than the 4 places held and sold";
    assert_eq!(refused.map_err(|no| format!("{no}")).expect_err("too small"), words);
    assert_eq!(reread_whole(&hall), hall.session);
}

#[test]
fn a_begin_that_is_set_anew_closes_and_other_changes_do_not() {
    let mut hall = Hall::new(theatre(), OPENS);
    hall.hold(10, 1, &seats(&[(0, 0)], &[]), false).expect("on sale");
    let later = |from: u64| {
        let mut offers = theatre().offers;
        offers[0].from = Some(Timestamp(from));
        SessionChange { offers: Some(offers), ..Default::default() }
    };
    hall.change(&SessionChange { comments: Some("a matinee".into()), ..Default::default() }).expect("a text");
    hall.hold(11, 1, &seats(&[(0, 1)], &[]), false).expect("still on sale");
    hall.change(&later(20_000)).expect("another begin");
    assert_eq!(refused(hall.hold(12, 1, &seats(&[(0, 2)], &[]), false)).code(), 212);
    hall.hold(13, 1, &seats(&[(0, 2)], &["under26"]), false).expect("the other offer stays open");
    hall.now = Timestamp(20_000);
    hall.hold(12, 1, &seats(&[(0, 3)], &[]), false).expect("on sale again");
    // Names of the versions that lines were held under are kept.
    let mut types = theatre().price_types;
    types[1].name = "Young people".into();
    hall.change(&SessionChange { price_types: Some(types), ..Default::default() }).expect("another name");
    assert_eq!(hall.session.names_at(2).price_types[1].name, "under26");
    assert_eq!(hall.session.names_at(3).price_types[1].name, "Young people");
}

#[test]
fn terms_that_contradict_themselves_are_refused_by_name() {
    let check = |change: &dyn Fn(&mut Offering)| {
        let mut offering = theatre();
        change(&mut offering);
        let mut opening = opening(offering);
        check_terms(&opening.layout, &mut opening.session).map_err(|no| format!("{no}"))
    };
    assert_eq!(check(&|_| {}), Ok(()));
    for (change, words) in [
        (
            &(|of: &mut Offering| of.offers[0].id = id("young")) as &dyn Fn(&mut Offering),
            "there are two of offer young",
        ),
        (&|of| of.offers[0].types = vec![id("child")], "offer all names price type child, which there is not"),
        (&|of| of.offers[0].categories = vec![id("yard")], "offer all names category yard, which there is not"),
        (&|of| of.offers[0].areas = vec![id("yard"), id("yard")], "offer all names area yard twice"),
        (&|of| of.offers[0].counters = vec![id("x")], "offer all names counter x, which there is not"),
        (&|of| of.offers[0].until = Some(OPENS), "offer all ends before it opens"),
        (&|of| of.offers[0].change = Some(PriceChange::Percent(10_001)), "offer all takes off not 0.01 to 100 %"),
        (&|of| of.price_types[0].prices = vec![(id("box"), 1)], "price type adult is the first one"),
        (&|of| of.price_types[1].prices = vec![(id("pit"), 1)], "price type under26 names category pit"),
        (&|of| of.price_types[1].prices = vec![(id("box"), -1)], "the price of under26 in box is not 0 to"),
    ] {
        let refused = check(change).expect_err(words);
        assert!(refused.contains(words), "{refused}, not {words}");
    }
}

/// What a run does.
#[derive(Clone, Debug)]
enum Step {
    /// Time goes on, or is set back.
    Time(i64),
    Hold {
        cart: u64,
        first: u32,
        count: u32,
        types: Vec<usize>,
        desk: bool,
        uses: u32,
    },
    Places {
        cart: u64,
        quantity: u32,
        of: usize,
    },
    Release {
        hold: usize,
        left: u32,
    },
    Sell {
        hold: usize,
    },
    Refund {
        hold: usize,
    },
    /// Another percentage of the first offer.
    Percent(u32),
    Close {
        offer: usize,
        closed: bool,
    },
    From {
        offer: usize,
        from: u64,
    },
    /// The desk blocks a seat, or unblocks it.
    Block(u32),
    /// An allotment is released by hand.
    Free(usize),
    /// An allotment gets another release.
    FreeAt {
        allotment: usize,
        at: u64,
    },
    /// The session asks something else of parties.
    Party {
        no_single_seats: bool,
        min_party: u16,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (-3_000_i64..9_000).prop_map(Step::Time),
        6 => (0..4_u64, 0..16_u32, 1..5_u32, list(0..3_usize, 0..3), any::<bool>(), 0..8_u32).prop_map(
            |(cart, first, count, types, desk, uses)| {
                let (desk, uses) = (desk && first % 3 == 0, uses.saturating_sub(4));
                Step::Hold { cart, first, count, types, desk, uses }
            }
        ),
        2 => (0..4_u64, 1..4_u32, 0..3_usize).prop_map(|(cart, quantity, of)| Step::Places { cart, quantity, of }),
        3 => (0..64_usize, 0..3_u32).prop_map(|(hold, left)| Step::Release { hold, left }),
        1 => (0..64_usize).prop_map(|hold| Step::Sell { hold }),
        1 => (0..64_usize).prop_map(|hold| Step::Refund { hold }),
        1 => (0..9_000_u32).prop_map(Step::Percent),
        1 => (0..3_usize, any::<bool>()).prop_map(|(offer, closed)| Step::Close { offer, closed }),
        1 => (0..3_usize, 1..40_000_u64).prop_map(|(offer, from)| Step::From { offer, from }),
        1 => (0..16_u32).prop_map(Step::Block),
        1 => (0..3_usize).prop_map(Step::Free),
        1 => (0..3_usize, 1..40_000_u64).prop_map(|(allotment, at)| Step::FreeAt { allotment, at }),
        2 => (any::<bool>(), 1..5_u16).prop_map(
            |(no_single_seats, min_party)| Step::Party { no_single_seats, min_party: min_party.saturating_sub(1).max(1) }
        ),
    ];
    list(step, 1..60)
}

const TYPES: [&str; 3] = ["adult", "under26", "carer"];

#[test]
fn an_offer_is_for_customers_with_its_attribute() {
    let students = Offer {
        attributes: vec![id("pupil"), id("student")],
        change: Some(PriceChange::Set(900)),
        ..offer("students")
    };
    let later = Offer { attributes: vec![id("friend")], from: Some(OPENS), ..offer("friends") };
    let choir = Offer { attributes: vec![id("choir")], allotments: vec![id("house")], ..offer("choir") };
    let offering = Offering {
        price_types: vec![price_type("adult", &[], &[])],
        offers: vec![students.clone(), later, choir],
        counters: vec![],
        allotments: vec![allotment("house", &[(0, 6), (0, 7)], None)],
    };
    let mut hall = Hall::new(offering.clone(), Timestamp(1_000));
    let nobody: &[Id] = &[];
    let (student, friend, choir) = ([id("student")], [id("friend"), id("singer")], [id("choir")]);

    // Nobody else is told of an offer, not even by its name.
    let others = refused(hall.hold_as(10, &seats(&[(0, 0)], &[]), nobody, false));
    assert_eq!(format!("{others}"), "adult in stalls is not on sale");
    let named = under(&[(0, 0)], "students");
    assert_eq!(format!("{}", refused(hall.hold_as(10, &named, &friend, false))), "offer students is not known");
    let early = refused(hall.hold_as(10, &seats(&[(0, 0)], &[]), &friend, false));
    assert!(format!("{early}").contains("it opens at"), "{early}");
    hall.hold_as(10, &seats(&[(0, 0)], &[]), &student, false).expect("a student");
    assert_eq!(hall.prices(10), [900]);
    let view = hall.session.view();
    for (attributes, told, opens_at) in
        [(nobody, &[][..], None), (&student[..], &["students"][..], None), (&friend[..], &["friends"][..], Some(OPENS))]
    {
        let told_to = SessionView::clone(&view).for_customer(attributes);
        let offers = &told_to.session.extras.offering.as_ref().expect("offers").offers;
        assert_eq!(offers.iter().map(|offer| offer.id.as_str()).collect::<Vec<_>>(), told);
        let sale = told_to.sale.as_ref().expect("offers");
        assert_eq!((sale.desk_only, sale.opens_at), (told.is_empty(), opens_at), "{attributes:?}");
    }

    // A friend buys once the offer has opened.
    hall.now = OPENS;
    hall.hold_as(20, &seats(&[(0, 1)], &[]), &friend, false).expect("a friend");
    assert_eq!(hall.prices(20), [2_000]);

    // The desk sees a student's card, and says so by naming the offer.
    assert_eq!(refused(hall.hold_as(30, &seats(&[(0, 2)], &[]), nobody, true)).code(), 212);
    hall.hold_as(30, &under(&[(0, 2)], "students"), nobody, true).expect("a student at the desk");
    assert_eq!(hall.prices(30), [900]);

    // An attribute opens seats that are kept for it.
    assert_eq!(refused(hall.hold_as(40, &seats(&[(0, 6)], &[]), &student, false)).code(), 204);
    hall.hold_as(40, &seats(&[(0, 6)], &[]), &choir, false).expect("a singer");

    // A hold keeps its price when the attribute is taken out of the offer.
    let offers = Some(vec![Offer { attributes: vec![id("pupil")], ..students.clone() }]);
    hall.change(&SessionChange { offers, ..Default::default() }).expect("a good change");
    let again = hall.hold_as(10, &seats(&[(0, 0)], &[]), &student, false);
    assert!(matches!(again, Err(Reply::Granted(_))), "{again:?}");
    assert_eq!(hall.prices(10), [900]);

    let bad = |offer: Offer| {
        let mut opening = opening(Offering { offers: vec![offer], ..offering.clone() });
        format!("{}", check_terms(&opening.layout, &mut opening.session).expect_err("bad terms"))
    };
    let twice = Offer { attributes: vec![id("pupil"), id("pupil")], ..students.clone() };
    assert_eq!(bad(twice), "bad request: offer students names attribute pupil twice");
    let many = Offer { attributes: (0..9).map(|at| id(&format!("a{at}"))).collect(), ..students.clone() };
    assert_eq!(bad(many), "bad request: offer students has more than 8 attributes");
    let desks = bad(Offer { desk: true, ..students.clone() });
    assert!(desks.ends_with("leave out `attributes` or `desk`"), "{desks}");
}

#[test]
fn an_offer_has_a_limit_for_each_customer() {
    let friends = Offer { per_customer: Some(3), change: Some(PriceChange::Set(900)), ..offer("friends") };
    let offering = Offering {
        price_types: vec![price_type("adult", &[], &[])],
        offers: vec![friends.clone()],
        counters: vec![],
        allotments: vec![],
    };
    let mut hall = Hall::new(offering.clone(), Timestamp(1_000));
    let (ada, eve) = (id("ada"), id("eve"));
    // `number / 10` is the cart.
    let hold = |hall: &mut Hall, number: u64, want: &Want, customer: Option<&Id>| -> Result<Vec<i64>, Refusal> {
        hall.open_due();
        let (hold, deadline, at) = (hold_id(number), LATER, Timestamp(0));
        let (holder, attributes) = (None, &[][..]);
        let ask =
            HoldAsk { hold, revision: 1, want, deadline, at, holder, desk: false, code: None, attributes, customer };
        let event = hall.session.decide_hold(hall.now, &ask).map_err(|reply| match reply {
            Reply::Refused { refusal, .. } => refusal,
            other => panic!("{other:?}"),
        })?;
        hall.write([event]);
        Ok(hall.prices(number))
    };
    let of = |seats_of: &[(u16, u16)]| seats(seats_of, &[]);

    // A cart without a customer has to say who it is, and then has what is left for the customer in all carts.
    let nobody = hold(&mut hall, 10, &of(&[(0, 0)]), None).expect_err("nobody");
    assert_eq!(
        (nobody.code(), nobody.to_string().as_str()),
        (219, "offer friends is limited per customer: name the buyer, `customer`")
    );
    assert_eq!(hold(&mut hall, 10, &of(&[(0, 0), (0, 1)]), Some(&ada)), Ok(vec![900, 900]));
    let more = hold(&mut hall, 20, &of(&[(0, 2), (0, 3)]), Some(&ada)).expect_err("three are hers at most");
    assert!(matches!(&more, Refusal::PriceSoldOut { left: 0, .. }), "{more:?}");
    assert_eq!(hold(&mut hall, 20, &of(&[(0, 2)]), Some(&ada)), Ok(vec![900]));
    assert_eq!(hold(&mut hall, 21, &yard(1, "adult"), Some(&ada)).map_err(|no| no.code()), Err(214));
    assert_eq!(hold(&mut hall, 30, &yard(3, "adult"), Some(&eve)), Ok(vec![900; 3]));

    // What is released and what is paid back is hers again, and what is sold is not.
    let sold = hall.session.decide_sell(
        hold_id(20),
        2,
        &hall.session.held(hold_id(20)).expect("held"),
        hold_id(20).cart.order(),
        hall.now,
    );
    hall.write(sold.expect("it is held"));
    assert_eq!(hold(&mut hall, 40, &of(&[(0, 4)]), Some(&ada)).map_err(|no| no.code()), Err(214));
    let released = hall.session.decide_release(hold_id(10), 2, None, false);
    hall.write(released);
    assert_eq!(hold(&mut hall, 40, &of(&[(0, 4), (0, 5)]), Some(&ada)), Ok(vec![900, 900]));
    assert_eq!(hold(&mut hall, 50, &of(&[(0, 6)]), Some(&ada)).map_err(|no| no.code()), Err(214));
    let refunded = hall.session.decide_refund(hold_id(20));
    hall.write(refunded);
    assert_eq!(hold(&mut hall, 50, &of(&[(0, 6)]), Some(&ada)), Ok(vec![900]));

    // Everybody else pays the next price, if there is one.
    let all = Offer { change: None, ..offer("all") };
    hall.change(&SessionChange { offers: Some(vec![friends.clone(), all]), ..Default::default() })
        .expect("a good change");
    assert_eq!(hold(&mut hall, 60, &of(&[(0, 7)]), None), Ok(vec![2_000]));
    assert_eq!(hold(&mut hall, 70, &of(&[(1, 0)]), Some(&ada)), Ok(vec![3_000]));
    assert_eq!(hall.session.audit().violations, Vec::<SmolStr>::new());
    assert_eq!(reread_whole(&hall), hall.session);

    let mut opening = opening(Offering { offers: vec![Offer { per_customer: Some(0), ..friends }], ..offering });
    let none = check_terms(&opening.layout, &mut opening.session).expect_err("bad terms");
    assert_eq!(none.to_string(), "bad request: offer friends sells none to a customer");
}

/// The terms of the random runs.
fn random_terms() -> Offering {
    let carer = price_type("carer", &[("box", 1_500), ("stalls", 900)], &[("yard", 300)]);
    let first = Offer {
        change: Some(PriceChange::Percent(1_000)),
        counters: vec![id("all"), id("young")],
        from: Some(Timestamp(12_000)),
        until: Some(Timestamp(60_000)),
        ..offer("first")
    };
    let young = Offer {
        types: vec![id("under26"), id("carer")],
        counters: vec![id("young")],
        per_order: Some(3),
        from: Some(Timestamp(15_000)),
        ..offer("young")
    };
    let adults = Offer { types: vec![id("adult")], counters: vec![id("all")], ..offer("adults") };
    let desk = Offer {
        desk: true,
        change: Some(PriceChange::Set(1)),
        areas: vec![id("yard")],
        categories: vec![id("box")],
        ..offer("desk")
    };
    let press =
        Offer { desk: true, change: Some(PriceChange::Set(0)), allotments: vec![id("press")], ..offer("press") };
    let members = Offer {
        code_group: Some(id("members")),
        change: Some(PriceChange::Minus(700)),
        counters: vec![id("all")],
        ..offer("members")
    };
    let agency = Offer {
        code_group: Some(id("members")),
        allotments: vec![id("house")],
        change: Some(PriceChange::Minus(100)),
        counters: vec![id("young")],
        ..offer("agency")
    };
    let students = Offer {
        attributes: vec![id("pupil"), id("student")],
        change: Some(PriceChange::Percent(4_000)),
        counters: vec![id("young")],
        ..offer("students")
    };
    let friends = Offer {
        per_customer: Some(2),
        change: Some(PriceChange::Percent(5_000)),
        types: vec![id("adult")],
        ..offer("friends")
    };
    let club = Offer { attributes: vec![id("student")], allotments: vec![id("house")], ..offer("club") };
    Offering {
        price_types: vec![price_type("adult", &[], &[]), theatre().price_types[1].clone(), carer],
        offers: vec![first, young, adults, desk, press, members, agency, students, club, friends],
        counters: vec![Counter { id: id("all"), max: 7 }, Counter { id: id("young"), max: 4 }],
        allotments: vec![
            allotment("press", &[(0, 1), (0, 2), (1, 0)], Some(Timestamp(20_000))),
            allotment("house", &[(0, 6), (1, 6), (1, 7)], None),
            Allotment { companions: true, ..allotment("beside", &[(1, 2)], Some(Timestamp(30_000))) },
        ],
    }
}

/// The attributes of the customer of a cart of the random runs.
fn attributes_of(cart: u64) -> Vec<Id> {
    if cart.is_multiple_of(3) { vec![id("member"), id("student")] } else { vec![] }
}

/// The customer of a cart of the random runs. Some have several carts, and some carts have none.
fn customer_of(cart: u64) -> Option<Id> {
    (!cart.is_multiple_of(4)).then(|| id(&format!("customer{}", cart / 2)))
}

/// What is held or sold under an offer at a price, as the reference keeps it: one entry for each seat or place.
#[derive(Clone, Debug, PartialEq)]
struct Taken {
    hold: u64,
    cart: u64,
    offer: Option<Id>,
    price: i64,
}

/// The reference: the terms as last set, the instants at which anything was decided since, and everything that is taken.
struct Reference {
    offering: Offering,
    /// Offers and allotments with the greatest true time at which a decision was made since their begin or release was set.
    seen: Vec<(Id, u64)>,
    taken: Vec<Taken>,
    no_single_seats: bool,
    min_party: u16,
}

/// The runs of two rows of eight seats.
fn runs(free: &[bool]) -> Vec<Vec<u32>> {
    let free = |index: &u32| free[*index as usize];
    let rows = [0..8_u32, 8..16].map(Vec::from_iter);
    let runs = rows.iter().flat_map(|row| row.split(|index| !free(index)));
    runs.filter(|run| !run.is_empty()).map(<[u32]>::to_vec).collect()
}

/// The seats of a run that have no neighbour in it if these are taken of it.
fn single_in(run: &[u32], taken: &[u32]) -> Vec<u32> {
    let left = |index: u32| run.contains(&index) && !taken.contains(&index);
    let is_single = |index: &u32| left(*index) && !left(index.wrapping_sub(1)) && !left(index + 1);
    run.iter().copied().filter(is_single).collect()
}

/// The seats that are made single although as many side by side in the same run could be taken without any.
fn single_without_need(free: &[bool], taken: &[u32]) -> Vec<u32> {
    let of_run = |run: Vec<u32>| {
        let here = run.iter().filter(|index| taken.contains(index)).count();
        let could_be_helped = here > 0 && run.windows(here).any(|other| single_in(&run, other).is_empty());
        if could_be_helped { single_in(&run, taken) } else { vec![] }
    };
    runs(free).into_iter().flat_map(of_run).collect()
}

impl Reference {
    fn decided(&mut self, now: u64) {
        let offers = self.offering.offers.iter().map(|offer| &offer.id);
        for named in offers.chain(self.offering.allotments.iter().map(|allotment| &allotment.id)) {
            match self.seen.iter_mut().find(|(id, _)| id == named) {
                Some((_, seen)) => *seen = (*seen).max(now),
                None => self.seen.push((named.clone(), now)),
            }
        }
    }

    /// The allotment that a seat is kept for by now.
    fn kept_for(&self, seat: Seat) -> Option<&Id> {
        let allotment = self.offering.allotments.iter().find(|allotment| allotment.seats.contains(&seat))?;
        let has_come = |at: Timestamp| self.seen.iter().any(|(name, seen)| *name == allotment.id && *seen >= at.0);
        (!allotment.released && !allotment.release_at.is_some_and(has_come)).then_some(&allotment.id)
    }

    /// Why a guest may not have these seats, if they are on sale. The seats that are free, and free or kept, are those of `free`.
    fn refuses_party(&self, free: &[Vec<bool>; 2], seats: &[u32]) -> Option<Refusal> {
        let (min, party) = (usize::from(self.min_party), seats.len());
        // What is kept is for its code.
        let is_public = |index: &&u32| free[0][**index as usize];
        let seats: &[u32] = &seats.iter().filter(is_public).copied().collect::<Vec<u32>>();
        let has_room = |run: &Vec<u32>| run.len() >= min && run.iter().any(|index| seats.contains(index));
        if party < min && runs(&free[0]).iter().any(has_room) {
            return Some(Refusal::PartyTooSmall { min: min as u32 });
        }
        let [with_walls, without] = free.each_ref().map(|free| single_without_need(free, seats));
        let both: Vec<Seat> = with_walls
            .into_iter()
            .filter(|index| without.contains(index))
            .map(|index| seat(index as u16 / 8, index as u16 % 8))
            .collect();
        (self.no_single_seats && !both.is_empty()).then_some(Refusal::LeavesSingle(both))
    }

    /// The offer and the price of one more, in this zone.
    fn price(
        &self,
        (of, zone, is_area, quantity): (usize, &str, bool, usize),
        (now, cart, desk, uses): (u64, u64, bool, u32),
        besides: &[Taken],
        kept_for: Option<&Id>,
    ) -> Option<(Option<Id>, i64)> {
        let prices = &self.offering.price_types[of];
        let listed = if is_area { &prices.area_prices } else { &prices.prices };
        let list_price = match (of, zone) {
            (0, "stalls") => 2_000,
            (0, "box") => 3_000,
            (0, _) => 700,
            _ => listed.iter().find(|(name, _)| *name == id(zone))?.1,
        };
        let taken = || self.taken.iter().chain(besides);
        let mut best: Option<(Option<Id>, i64)> = None;
        for offer in &self.offering.offers {
            let opened = |from: Timestamp| {
                now >= from.0 || self.seen.iter().any(|(name, seen)| *name == offer.id && *seen >= from.0)
            };
            let zones = if is_area { &offer.areas } else { &offer.categories };
            let has_one = |of: &Offer| of.attributes.iter().any(|wanted| attributes_of(cart).contains(wanted));
            let admits = (desk || !offer.desk)
                && (offer.attributes.is_empty() || has_one(offer))
                && !offer.closed
                && offer.from.is_none_or(opened)
                && offer.until.is_none_or(|until| now < until.0)
                && (offer.types.is_empty() || offer.types.contains(&id(TYPES[of])))
                && ((offer.categories.is_empty() && offer.areas.is_empty()) || zones.contains(&id(zone)))
                && match kept_for {
                    // The desk needs no offer of the allotment, and everybody else does.
                    Some(kept) => (desk && offer.allotments.is_empty()) || offer.allotments.contains(kept),
                    None => offer.allotments.is_empty(),
                };
            if !admits {
                continue;
            }
            let counts = |counter: &Id| {
                let named = |name: &Option<Id>| {
                    let by_id = |of: &&Offer| Some(&of.id) == name.as_ref();
                    self.offering.offers.iter().find(by_id).is_some_and(|of| of.counters.contains(counter))
                };
                taken().filter(|taken| named(&taken.offer)).count()
            };
            let has_room = offer.counters.iter().all(|counter| {
                let max = self.offering.counters.iter().find(|of| of.id == *counter).expect("named").max as usize;
                counts(counter) + quantity <= max
            });
            let in_order =
                taken().filter(|taken| taken.cart == cart && taken.offer.as_ref() == Some(&offer.id)).count();
            let of_customer = taken()
                .filter(|taken| customer_of(taken.cart) == customer_of(cart) && taken.offer.as_ref() == Some(&offer.id))
                .count();
            let has_share = offer
                .per_customer
                .is_none_or(|most| customer_of(cart).is_some() && of_customer + quantity <= most as usize);
            let price = offer.change.map_or(list_price, |change| change.of(list_price));
            let is_of_code = |taken: &&Taken| [Some(id("members")), Some(id("agency"))].contains(&taken.offer);
            let with_code = besides.iter().filter(is_of_code).count();
            if offer.code_group.is_some() && with_code >= uses as usize {
                continue;
            }
            let fits = has_room && has_share && offer.per_order.is_none_or(|most| in_order + quantity <= most as usize);
            if fits && best.as_ref().is_none_or(|(_, cheapest)| price < *cheapest) {
                best = Some((Some(offer.id.clone()), price));
            }
        }
        best
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 1_500 } else { 6_000 }))]

    #[test]
    fn a_session_sells_what_a_reference_says(steps in steps()) {
        run(&steps)?;
    }
}

fn run(steps: &[Step]) -> Result<(), TestCaseError> {
    let mut hall = Hall::new(random_terms(), Timestamp(1_000));
    let mut reference =
        Reference { offering: random_terms(), seen: vec![], taken: vec![], no_single_seats: false, min_party: 1 };
    // Number and whether it is sold, of every hold that is there.
    let mut holds: Vec<(u64, bool)> = vec![];
    let mut next = 0;
    let layout = hall_layout(&hall);
    for step in steps {
        match step {
            Step::Time(by) => hall.now = Timestamp((hall.now.0 as i64 + by).clamp(1_000, 400_000) as u64),
            Step::Hold { cart, first, count, types, desk, uses } => {
                let mut indexes: Vec<u32> = (*first..(first + count).min(16)).collect();
                if indexes.len() > 2 && cart % 2 == 1 {
                    // A party with a gap.
                    indexes.remove(1);
                }
                if indexes.iter().any(|index| hall.session.state_for_desk(*index) != SeatState::Free) {
                    continue;
                }
                next += 1;
                let number = cart * 1_000 + next;
                let named: Vec<&str> = match types.len() {
                    0 => vec![],
                    1 => vec![TYPES[types[0]]],
                    _ => (0..indexes.len()).map(|place| TYPES[types[place % types.len()]]).collect(),
                };
                let all: Vec<(u16, u16)> =
                    indexes.iter().map(|index| layout.seat(*index)).map(|seat| (seat.row, seat.seat)).collect();
                reference.decided(hall.now.0);
                let mut expected: Option<Vec<Taken>> = Some(vec![]);
                for (place, index) in indexes.iter().enumerate() {
                    let of = if types.is_empty() { 0 } else { types[place % types.len()] };
                    let zone = layout.categories()[usize::from(layout.category(*index))].clone();
                    let besides = expected.clone().unwrap_or_default();
                    let who = (hall.now.0, *cart, *desk, *uses);
                    // The seat beside the wheelchair's is sold with it as all others are.
                    let goes_with = *desk || indexes.contains(&11);
                    let kept_for = reference.kept_for(layout.seat(*index));
                    let kept_for = kept_for.filter(|kept| **kept != id("beside") || !goes_with);
                    let one = reference.price((of, zone.as_str(), false, 1), who, &besides, kept_for);
                    expected = expected.zip(one).map(|(mut all, (offer, price))| {
                        all.push(Taken { hold: number, cart: *cart, offer, price });
                        all
                    });
                }
                let is_free = |index: u32| hall.session.state_for_desk(index) == SeatState::Free;
                let is_kept = |index: u32| reference.kept_for(layout.seat(index)).is_some();
                let free =
                    [(0..16).map(|index| is_free(index) && !is_kept(index)).collect(), (0..16).map(is_free).collect()];
                let unfit = if *desk { None } else { reference.refuses_party(&free, &indexes) };
                let granted = hall.hold_of(*cart, number, &seats(&all, &named), (*desk, *uses));
                if let (Some(unfit), true) = (&unfit, expected.is_some()) {
                    prop_assert_eq!(&refused(granted.clone()), unfit, "{:?} at {:?}", step, hall.now);
                }
                let expected = expected.filter(|_| unfit.is_none());
                prop_assert_eq!(granted.is_ok(), expected.is_some(), "{:?} at {:?}: {:?}", step, hall.now, granted);
                if let Some(expected) = expected {
                    let prices: Vec<i64> = expected.iter().map(|taken| taken.price).collect();
                    prop_assert_eq!(hall.prices_of(*cart, number), prices);
                    reference.taken.extend(expected);
                    holds.push((number, false));
                }
            }
            Step::Places { cart, quantity, of } => {
                next += 1;
                let number = cart * 1_000 + next;
                let free = hall.session.area_counts()[0].free;
                reference.decided(hall.now.0);
                let wanted = (*of, "yard", true, *quantity as usize);
                let expected =
                    reference.price(wanted, (hall.now.0, *cart, false, 0), &[], None).filter(|_| free >= *quantity);
                let granted = hall.hold_of(*cart, number, &yard(*quantity, TYPES[*of]), (false, 0));
                prop_assert_eq!(granted.is_ok(), expected.is_some(), "{:?} at {:?}: {:?}", step, hall.now, granted);
                if let Some((offer, price)) = expected {
                    prop_assert_eq!(hall.prices_of(*cart, number), vec![price; *quantity as usize]);
                    let taken = Taken { hold: number, cart: *cart, offer, price };
                    reference.taken.extend(vec![taken; *quantity as usize]);
                    holds.push((number, false));
                }
            }
            Step::Release { hold, left } => {
                let Some((number, sold)) = holds.get(*hold % holds.len().max(1)).copied() else { continue };
                if sold {
                    continue;
                }
                let of_hold: Vec<Taken> =
                    reference.taken.iter().filter(|taken| taken.hold == number).cloned().collect();
                let left = (*left as usize).min(of_hold.len());
                let id = cart_hold(number / 1_000, number);
                let portion = hall.session.held(id).and_then(|held| first_of(&held, left as u32));
                let revision = hall.session.granted(id).revision + 1;
                let released = hall.session.decide_release(id, revision, portion.as_ref(), false);
                hall.write(released);
                reference.taken.retain(|taken| taken.hold != number);
                reference.taken.extend(of_hold.into_iter().take(left));
                if left == 0 {
                    holds.retain(|(known, _)| *known != number);
                }
            }
            Step::Sell { hold } => {
                let Some((number, sold)) = holds.get(*hold % holds.len().max(1)).copied() else { continue };
                if sold {
                    continue;
                }
                let id = cart_hold(number / 1_000, number);
                let portion = hall.session.held(id).expect("it is held");
                let revision = hall.session.granted(id).revision + 1;
                let sale = hall.session.decide_sell(id, revision, &portion, id.cart.order(), hall.now);
                hall.write(sale.expect("it is for sale"));
                holds.iter_mut().filter(|(known, _)| *known == number).for_each(|(_, sold)| *sold = true);
            }
            Step::Refund { hold } => {
                let Some((number, sold)) = holds.get(*hold % holds.len().max(1)).copied() else { continue };
                if !sold {
                    continue;
                }
                let refund = hall.session.decide_refund(cart_hold(number / 1_000, number));
                hall.write(refund);
                reference.taken.retain(|taken| taken.hold != number);
                holds.retain(|(known, _)| *known != number);
            }
            Step::Percent(off) => {
                let change = Some(PriceChange::Percent((*off).max(1)));
                reference.offering.offers[0].change = change;
                change_offers(&mut hall, &reference);
            }
            Step::Close { offer, closed } => {
                reference.offering.offers[*offer].closed = *closed;
                let named = vec![reference.offering.offers[*offer].id.clone()];
                let change = match closed {
                    true => SessionChange { close: named, ..Default::default() },
                    false => SessionChange { reopen: named, ..Default::default() },
                };
                hall.change(&change).expect("a good change");
            }
            Step::From { offer, from } => {
                let offer = &mut reference.offering.offers[*offer];
                if offer.until.is_some_and(|until| until.0 <= *from) {
                    continue;
                }
                if offer.from != Some(Timestamp(*from)) {
                    offer.from = Some(Timestamp(*from));
                    let set = offer.id.clone();
                    reference.seen.retain(|(id, _)| *id != set);
                }
                change_offers(&mut hall, &reference);
            }
            Step::Block(index) => {
                let seat = [layout.seat(*index)];
                let request = Request { id: RequestHash(hall.requests | 1 << 32), body: 0 };
                hall.requests += 1;
                let event = match hall.session.state_for_desk(*index) {
                    SeatState::Free => hall.session.decide_block(&seat, request),
                    SeatState::Blocked => hall.session.decide_unblock(&seat, request),
                    SeatState::Held | SeatState::Sold => continue,
                };
                hall.apply(&event.expect("it is free or blocked"));
            }
            Step::Free(allotment) => {
                let allotment = &mut reference.offering.allotments[*allotment];
                allotment.released = true;
                let release = vec![allotment.id.clone()];
                hall.change(&SessionChange { release, ..Default::default() }).expect("a good change");
            }
            Step::FreeAt { allotment, at } => {
                let allotment = &mut reference.offering.allotments[*allotment];
                allotment.released = false;
                if allotment.release_at != Some(Timestamp(*at)) {
                    allotment.release_at = Some(Timestamp(*at));
                    let set = allotment.id.clone();
                    reference.seen.retain(|(id, _)| *id != set);
                }
                let allotments = Some(reference.offering.allotments.clone());
                hall.change(&SessionChange { allotments, ..Default::default() }).expect("a good change");
            }
            Step::Party { no_single_seats, min_party } => {
                (reference.no_single_seats, reference.min_party) = (*no_single_seats, *min_party);
                let (no_single_seats, min_party) = (Some(*no_single_seats), Some(*min_party));
                let change = SessionChange { no_single_seats, min_party, ..Default::default() };
                hall.change(&change).expect("a good change");
            }
        }
        // No run is blocked: as many of its seats as one likes can be held side by side.
        let free: Vec<bool> = (0..16).map(|index| hall.session.state(index) == SeatState::Free).collect();
        for run in runs(&free) {
            for count in 1..=run.len() {
                let is_allowed = |window: &[u32]| hall.session.left_alone(window).is_empty();
                prop_assert!(run.windows(count).any(is_allowed), "no {} of {:?} after {:?}", count, run, step);
            }
        }
        for index in 0..16 {
            let kept = reference.kept_for(layout.seat(index)).is_some();
            let expected = match hall.session.state_for_desk(index) {
                SeatState::Free if kept => SeatState::Blocked,
                state => state,
            };
            prop_assert_eq!(hall.session.state(index), expected, "seat {} after {:?}", index, step);
        }
        prop_assert_eq!(hall.session.audit().violations, Vec::<SmolStr>::new(), "{:?}", step);
    }
    let again = reread_whole(&hall);
    prop_assert_eq!(&again, &hall.session);
    let counts: SeatCounts = hall.session.counts();
    prop_assert_eq!(counts.free + counts.held + counts.sold + counts.blocked, 16);
    Ok(())
}

impl Hall {
    /// Asks for a hold, with a code that has so many uses unless they are none.
    fn hold_of(&mut self, cart: u64, number: u64, want: &Want, (desk, uses): (bool, u32)) -> Result<Granted, Reply> {
        let revision = 1;
        self.open_due();
        let hold = cart_hold(cart, number);
        let code = (uses > 0).then(|| ShownCode { group: id("members"), uses });
        let (deadline, at, code) = (LATER, Timestamp(0), code.as_ref());
        let (attributes, customer) = (&attributes_of(cart)[..], customer_of(cart));
        let customer = customer.as_ref();
        let ask = HoldAsk { hold, revision, want, deadline, at, holder: None, desk, code, attributes, customer };
        let event = self.session.decide_hold(self.now, &ask)?;
        self.write([event]);
        Ok(self.session.granted(hold))
    }

    fn prices_of(&self, cart: u64, number: u64) -> Vec<i64> {
        match self.session.granted(cart_hold(cart, number)).content {
            Some(Content::Seats(seats)) => seats.iter().map(|priced| priced.price).collect(),
            Some(Content::Places { price, quantity, .. }) => vec![price; quantity as usize],
            content => panic!("{content:?}"),
        }
    }
}

fn change_offers(hall: &mut Hall, reference: &Reference) {
    let offers = Some(reference.offering.offers.clone());
    hall.change(&SessionChange { offers, ..Default::default() }).expect("a good change");
}

fn cart_hold(cart: u64, number: u64) -> HoldId {
    HoldId { cart: CartId(cart.into()), request: RequestHash(number), part: 0, attempt: 0 }
}

/// The first seats, or so many places.
fn first_of(held: &crate::portion::Portion, left: u32) -> Option<crate::portion::Portion> {
    use crate::portion::Portion;
    match held {
        _ if left == 0 => None,
        Portion::Seats(seats) => {
            Some(Portion::Seats(SeatSet::of_any_number(seats.as_slice()[..left as usize].to_vec()).expect("seats")))
        }
        Portion::Places { area, .. } => Some(Portion::Places { area: area.clone(), quantity: left }),
        other => panic!("{other:?}"),
    }
}

/// The reference and the examples find what is planted.
#[test]
#[cfg(feature = "planted")]
fn planted_bugs_of_offers_are_found() {
    extern crate std;
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    use std::panic::catch_unwind;

    fn by_reference() {
        let mut runner = TestRunner::deterministic();
        for _ in 0..4_000 {
            let steps = steps().new_tree(&mut runner).expect("steps").current();
            run(&steps).expect("as the reference says");
        }
    }
    let bugs: [(&str, fn()); 21] = [
        ("an orphan rule that blocks a row at a border", by_reference),
        ("an orphan rule that blocks a row at a border", the_border_of_an_allotment_is_a_wall_and_is_none),
        ("a single seat that cannot be helped", by_reference),
        ("a guest gets seats of an allotment", by_reference),
        ("a kept seat without a use of its code", by_reference),
        ("a limit per customer in each cart", by_reference),
        ("a limit per customer in each cart", an_offer_has_a_limit_for_each_customer),
        ("a customer who never gets back what was released", by_reference),
        ("attributes that nobody looks at", by_reference),
        ("attributes that nobody looks at", an_offer_is_for_customers_with_its_attribute),
        ("a companion's seat alone", by_reference),
        ("an allotment that is never released", by_reference),
        ("an allotment that is released twice", by_reference),
        ("a seat in two allotments", allotments_are_the_desks_until_they_are_released),
        ("an offer without a latch", by_reference),
        ("an offer without a latch", seats_are_sold_as_what_the_buyer_says_when_the_offer_opens),
        ("a counter that is not given back", by_reference),
        ("an area smaller than what is sold of it", holds_keep_their_prices_when_the_terms_change),
        ("an opening compared with changed terms", holds_keep_their_prices_when_the_terms_change),
        ("a price taken from the terms of now at a repeat", holds_keep_their_prices_when_the_terms_change),
        ("a further place at the price of before", holds_keep_their_prices_when_the_terms_change),
    ];
    for (bug, test) in bugs {
        crate::planted::plant(Some(bug));
        let ended = catch_unwind(test);
        crate::planted::plant(None);
        assert!(ended.is_err(), "{bug} is not found");
    }
}

//! Samples of venues, halls, titles, sessions, products, resources and their bookings.

use std::sync::Arc;

use boxoffice_core::{
    answer::{
        AreaCounts, BookingState, BookingView, HallView, MapView, NamedInTerms, ProductView, ResourceView, SaleMark,
        SeatCounts, SeatLabels, SessionChanged, SessionEntry, SessionNames, SessionSale, SessionView, StockCounts,
        TermsChange, TermsNames, TitleView, VenueEntry, VenueView, VenuesPage,
    },
    command::{
        Allotment, Area, Counter, CustomerLimit, HoldPolicy, Limits as Quotas, NewSession, Offer, Offering,
        OpeningHours, PriceChange, PriceType, ProductDetails, Rate, ResourceDetails, SessionExtras, Title,
        VenueDetails,
    },
    layout::{Labels, Layout, Point, Row, Run},
    names::Names,
    portion::Tax,
    refusal::Conflict,
    seat::Seat,
    time::Timestamp,
};
use boxoffice_wire::{call::CitySearch, city::CityPage};

use super::{HOUR, cart, euro, evening, id};

pub fn quotas() -> Quotas {
    Quotas { per_order: Some(8), per_customer: Some(CustomerLimit { quota: id("hamlet"), max: 12 }) }
}

/// What the offered lines say, in words. The yard had no name.
pub fn session_names() -> SessionNames {
    let called = |what: &str, name: &str, names: Names| NamedInTerms { id: id(what), name: name.into(), names };
    let danish = Names::new([("da".into(), "Unge".into())]).expect("a name");
    let terms = TermsNames {
        areas: vec![called("yard", "", Names::default())],
        price_types: vec![called("adult", "Adults", Names::default()), called("under26", "Under 26", danish)],
        offers: vec![called("everybody", "", Names::default())],
    };
    let labels = |row: u16, seat: u16, label: &str, note: &str| SeatLabels {
        note: note.into(),
        seat: Seat { row, seat },
        row: ["A", "B", "C", "D"][usize::from(row)].into(),
        label: label.into(),
    };
    SessionNames {
        session: id("hamlet-tonight"),
        title: id("hamlet"),
        venue: id("globe"),
        hall: id("main"),
        starts_at: evening(),
        ends_at: evening().after(3 * HOUR),
        zone: Some("Europe/London".into()),
        terms: vec![(0, TermsNames::default()), (2, terms)],
        seats: vec![labels(2, 1, "2", ""), labels(3, 2, "103", "behind a pillar")],
    }
}

pub fn title_view() -> TitleView {
    let title = Title {
        name: "Hamlet".into(),
        director: "Kit".into(),
        cast: vec!["Will".into(), "Ann".into()],
        comments: "in four hours".into(),
        duration_ms: Some(4 * HOUR),
    };
    TitleView { id: id("hamlet"), title }
}

pub fn venues_page() -> VenuesPage {
    let venue = VenueEntry {
        id: id("globe"),
        name: "The Globe".into(),
        city: "London".into(),
        position: Some((-97_200, 51_508_100)),
        distance_m: Some(912),
        zone: None,
    };
    VenuesPage { venues: vec![venue], next: Some("912/globe".into()) }
}

pub fn venue_view() -> VenueView {
    let details = VenueDetails {
        name: "The Globe".into(),
        city: "London".into(),
        position: Some((-97_200, 51_508_100)),
        comments: "open roof".into(),
        zone: None,
        address: "".into(),
    };
    VenueView { id: id("globe"), details, halls: vec![(id("main"), "Main".into(), 5)] }
}

pub fn hall_view() -> HallView {
    HallView { venue: id("globe"), id: id("main"), name: "Main".into(), comments: "".into(), layout: layout() }
}

pub fn layout() -> Arc<Layout> {
    let run = |gap, count, labels, accessible, points| Run {
        gap,
        count,
        labels,
        category: id("standard"),
        accessible,
        points,
    };
    let rows = vec![
        Row {
            label: "A".into(),
            section: Some(id("stalls")),
            runs: vec![
                run(0, 2, Labels::Numbers { first: 1, step: 1 }, false, Vec::new()),
                run(1, 1, Labels::Numbers { first: 3, step: 1 }, true, Vec::new()),
            ],
        },
        Row {
            label: "B".into(),
            section: None,
            runs: vec![run(
                0,
                2,
                Labels::Names(vec!["left".into(), "right".into()]),
                false,
                vec![Point { x: -50, y: 250 }, Point { x: 50, y: 250 }],
            )],
        },
    ];
    Arc::new(Layout::new(rows, Some(Point { x: 0, y: 0 })).expect("a good layout"))
}

pub fn yard() -> Area {
    Area { id: id("yard"), name: "Yard".into(), capacity: 500, price: euro(500), names: Default::default() }
}

pub fn area_counts() -> AreaCounts {
    AreaCounts { area: id("yard"), free: 400, held: 40, sold: 60 }
}

pub fn counts() -> SeatCounts {
    SeatCounts { free: 2, held: 1, sold: 1, blocked: 1 }
}

/// Five seats: free, held, sold, blocked, free.
pub fn packed() -> Vec<u8> {
    vec![0b11_10_01_00, 0b00]
}

pub fn session_view() -> SessionView {
    SessionView {
        venue: id("globe"),
        session: NewSession {
            id: id("hamlet-tonight"),
            hall: id("main"),
            title: id("hamlet"),
            starts_at: evening(),
            ends_at: evening().after(3 * 60 * 60 * 1000),
            prices: vec![(id("standard"), euro(1_000))],
            extras: SessionExtras { hold_ttl_ms: Some(600_000), comments: "first night".into(), ..Default::default() },
        },
        canceled: None,
        counts: counts(),
        area_counts: Vec::new(),
        layout: layout(),
        zone: None,
        sale: None,
    }
}

/// A session with an area, limits, and an end.
pub fn canceled_session_view() -> SessionView {
    let mut view = session_view();
    view.areas.push(yard());
    view.limits = quotas();
    SessionView { area_counts: vec![area_counts()], canceled: Some("the roof leaks".into()), ..view }
}

pub fn everybody() -> Offer {
    Offer {
        id: id("everybody"),
        name: "Everybody".into(),
        names: Default::default(),
        types: vec![id("adult"), id("under26")],
        categories: vec![id("standard")],
        areas: vec![id("yard")],
        from: Some(evening()),
        until: Some(evening().after(HOUR)),
        closed: false,
        desk: false,
        change: Some(PriceChange::Percent(2_500)),
        per_order: Some(8),
        counters: vec![id("young")],
        allotments: vec![],
        code_group: None,
        attributes: vec![id("member"), id("student")],
        per_customer: None,
    }
}

pub fn offering() -> Offering {
    let adult = PriceType {
        id: id("adult"),
        name: "Adult".into(),
        names: Default::default(),
        prices: vec![],
        area_prices: vec![],
        tax: None,
    };
    let under26 = PriceType {
        id: id("under26"),
        name: "Under 26".into(),
        prices: vec![(id("standard"), 500)],
        area_prices: vec![(id("yard"), 300)],
        tax: Some(Tax { rate: 700, code: "reduced".into() }),
        ..adult.clone()
    };
    let (plain, closed) = (everybody(), Offer { closed: true, change: Some(PriceChange::Set(900)), ..everybody() });
    let closed = Offer { id: id("members"), from: None, until: None, ..closed };
    let desk = Offer { desk: true, change: Some(PriceChange::Minus(100)), counters: vec![], ..closed.clone() };
    let desk = Offer { id: id("desk"), allotments: vec![id("press")], ..desk };
    let closed = Offer { code_group: Some(id("members")), ..closed };
    let press = Allotment {
        id: id("press"),
        name: "Press".into(),
        names: Default::default(),
        seats: vec![Seat { row: 0, seat: 1 }, Seat { row: 0, seat: 2 }],
        release_at: Some(evening()),
        released: true,
        companions: true,
    };
    Offering {
        price_types: vec![adult, under26],
        offers: vec![plain, closed, desk],
        counters: vec![Counter { id: id("young"), max: 100 }],
        allotments: vec![press],
    }
}

pub fn mark() -> SaleMark {
    SaleMark { version: 391, opens_at: Some(evening()) }
}

pub fn changed() -> SessionChanged {
    SessionChanged {
        terms: 2,
        what: vec!["its price of standard is 1200 minor units of EUR, and was 1000 minor units of EUR".into()],
    }
}

/// A session with price types and offers, whose terms have changed.
pub fn offered_session_view() -> SessionView {
    let mut view = session_view();
    view.areas.push(yard());
    view.offering = Some(Arc::new(offering()));
    view.no_single_seats = true;
    view.min_party = Some(2);
    let SessionChanged { terms, what } = changed();
    let sale = SessionSale {
        terms,
        opened: vec![id("everybody")],
        counted: vec![97],
        changes: vec![TermsChange { terms, at: evening(), what, version: 390 }],
        opens_at: Some(evening()),
        desk_only: true,
        released: vec![id("press")],
        kept: vec![2],
    };
    SessionView { area_counts: vec![area_counts()], sale: Some(Box::new(sale)), ..view }
}

pub fn session_entry() -> SessionEntry {
    SessionEntry {
        id: id("hamlet-tonight"),
        hall: id("main"),
        title: id("hamlet"),
        starts_at: evening(),
        ends_at: evening().after(3 * 60 * 60 * 1000),
        open: true,
        zone: None,
        opens_at: Some(evening()),
    }
}

pub fn city_page() -> CityPage {
    let search = CitySearch {
        city: "London".into(),
        title: None,
        from: Timestamp(0),
        to: evening().after(HOUR),
        limit: 1,
        after: None,
    };
    CityPage::new(&search, [(id("globe"), vec![session_entry()])])
}

pub fn map_view() -> MapView {
    MapView {
        session: id("hamlet-tonight"),
        epoch: 1,
        version: 391,
        counts: counts(),
        areas: Vec::new(),
        seats: packed(),
        sale: None,
    }
}

pub fn stock_counts() -> StockCounts {
    StockCounts { free: 7, held: 2, sold: 1 }
}

pub fn product_view() -> ProductView {
    let details = ProductDetails {
        name: "Programme".into(),
        properties: vec![("colour".into(), "red".into()), ("pages".into(), "40".into())],
        blob: vec![0, 1, 254, 255],
        price: euro(350),
        stock: 10,
        hold: HoldPolicy::AtCheckout,
        hold_ttl_ms: Some(600_000),
        limits: quotas(),
        tax: Some(Arc::new(Tax { rate: 700, code: "reduced".into() })),
    };
    ProductView { id: id("programme"), details, counts: stock_counts() }
}

pub fn resource_view() -> ResourceView {
    let day = || vec![(540, 720), (780, 1_080)];
    let details = ResourceDetails {
        name: "Room 5".into(),
        properties: vec![("floor".into(), "2".into())],
        capacity: 1,
        zone: "Europe/London".into(),
        hours: Some(OpeningHours {
            week: [day(), day(), day(), day(), day(), vec![(600, 720)], Vec::new()],
            exceptions: vec![("2026-12-24".into(), vec![(540, 720)]), ("2026-12-25".into(), Vec::new())],
        }),
        before_ms: 0,
        after_ms: 900_000,
        notice_ms: HOUR,
        horizon_ms: Some(90 * 24 * HOUR),
        rate: Rate { amount: 2_000, currency: euro(0).currency, per_ms: Some(HOUR) },
        hold_ttl_ms: None,
        limits: Quotas::default(),
    };
    ResourceView { id: id("room-5"), details, bookings: 3 }
}

pub fn booking_view() -> BookingView {
    BookingView {
        booking: "choir".into(),
        begin: evening(),
        end: evening().after(HOUR),
        state: BookingState::Reserved,
        details: "with a piano".into(),
        order: None,
    }
}

pub fn sold_booking() -> BookingView {
    let (state, order) = (BookingState::Sold, Some(cart().order()));
    BookingView {
        booking: "hold:068f372e3fcdfb0ac81a3f0c8c30d381".into(),
        state,
        details: "".into(),
        order,
        ..booking_view()
    }
}

pub fn conflict() -> Conflict {
    Conflict {
        begin: evening(),
        end: evening().after(HOUR),
        why: "booking/choir is there".into(),
        booking: Some("choir".into()),
    }
}

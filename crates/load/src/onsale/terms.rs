//! What the sessions of an on-sale sell: categories, price types, offers and allotments, and the prices that follow from the scenario.

use boxoffice_client::{
    Allotment, BatchCommand, CodeDetails, Counter, Currency, Id, Layout, Money, NewSession, Offer, Offering,
    PriceChange, PriceType, Seat, SessionExtras, Timestamp,
    layout::{Labels, Row, Run},
};
use boxoffice_workload::house::House;

use crate::{
    LoadError,
    scenario::{OnsaleSpec, ReleaseBy},
    setup,
};

/// As whom a seat is bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TicketKind {
    Adult,
    Under26,
    Carer,
}

impl TicketKind {
    pub(super) const ALL: [TicketKind; 3] = [TicketKind::Adult, TicketKind::Under26, TicketKind::Carer];

    pub(super) fn name(self) -> &'static str {
        ["adult", "under26", "carer"][self as usize]
    }

    pub(super) fn id(self) -> Id {
        id(self.name())
    }

    /// The offer for everybody that sells it.
    pub(super) fn offer(self) -> Id {
        id(["web", "web-under26", "web-carer"][self as usize])
    }

    /// The price type with this id.
    pub(super) fn of(price_type: &Id) -> Option<TicketKind> {
        TicketKind::ALL.into_iter().find(|kind| kind.name() == price_type.as_str())
    }
}

/// The terms that the scenario states.
#[derive(Clone, Debug)]
pub(super) struct SaleTerms {
    pub(super) spec: OnsaleSpec,
    pub(super) house: House,
    currency: Currency,
}

impl SaleTerms {
    pub(super) fn new(spec: &OnsaleSpec, house: &House, currency: Currency) -> SaleTerms {
        SaleTerms { spec: spec.clone(), house: house.clone(), currency }
    }

    pub(super) fn categories(&self) -> u16 {
        self.spec.prices.adult.len() as u16
    }

    pub(super) fn category_id(category: u16) -> Id {
        id(&format!("category-{}", category + 1))
    }

    /// The category of a row. Those from the stage to the back have the same number of rows, but for the rounding.
    pub(super) fn category_of(&self, row: u16) -> u16 {
        (u32::from(row) * u32::from(self.categories()) / u32::from(self.house.rows)) as u16
    }

    /// The categories that are sold to all of these kinds.
    pub(super) fn categories_sold(&self, kinds: &[TicketKind]) -> u16 {
        let prices = self.spec.list_prices();
        kinds.iter().map(|kind| prices[*kind as usize].len() as u16).min().unwrap_or(0)
    }

    /// The first row of the allotment.
    pub(super) fn allotment_from(&self) -> u16 {
        self.house.rows - self.spec.allotment_rows
    }

    pub(super) fn is_of_allotment(&self, seat: Seat) -> bool {
        seat.row >= self.allotment_from()
    }

    /// The number of seats of an allotment.
    pub(super) fn allotment_seats(&self) -> u32 {
        u32::from(self.spec.allotment_rows) * u32::from(self.house.seats)
    }

    pub(super) fn is_released_by_time(&self, session: u32) -> bool {
        match self.spec.release {
            ReleaseBy::Time => true,
            ReleaseBy::Desk => false,
            ReleaseBy::Both => session.is_multiple_of(2),
        }
    }

    /// The list price of a seat. `None` if it is not sold to this kind, or there is no such seat.
    pub(super) fn list_price(&self, seat: Seat, kind: TicketKind) -> Option<i64> {
        let is_there = seat.row < self.house.rows && seat.seat < self.house.seats;
        let prices = self.spec.list_prices()[kind as usize];
        prices.get(usize::from(self.category_of(seat.row))).copied().filter(|_| is_there)
    }

    /// What a seat costs, reckoned here and not by the program that is tested. What members pay less is rounded half up.
    pub(super) fn price(&self, seat: Seat, kind: TicketKind, with_code: bool) -> Option<i64> {
        let list = self.list_price(seat, kind)?;
        if !with_code {
            return Some(list);
        }
        let off = list * i64::from(self.spec.member_rate_off);
        Some(list - off.div_euclid(10_000) - i64::from(off.rem_euclid(10_000) >= 5_000))
    }

    /// The group of the members' codes.
    pub(super) fn group(&self) -> Id {
        id(&format!("{}-members", self.house.prefix))
    }

    pub(super) fn code(&self, code: u32) -> Id {
        id(&format!("{}-CODE-{code}", self.house.prefix))
    }

    /// The offers, of which those for everybody open at this time.
    pub(super) fn offers(&self, opens_at: Timestamp) -> Vec<Offer> {
        let members = Offer {
            code_group: Some(self.group()),
            change: Some(PriceChange::Percent(self.spec.member_rate_off)),
            ..offer(id("members"), TicketKind::Adult)
        };
        let web = TicketKind::ALL.map(|kind| Offer { from: Some(opens_at), ..offer(kind.offer(), kind) });
        let [adult, under26, carer] = web;
        let under26 = Offer { counters: vec![counter_id()], ..under26 };
        vec![members, adult, under26, Offer { per_order: Some(1), ..carer }]
    }

    /// The allotment with this time of its release.
    pub(super) fn allotment(&self, release_at: Option<Timestamp>) -> Allotment {
        let rows = self.allotment_from()..self.house.rows;
        let seats = rows.flat_map(|row| (0..self.house.seats).map(move |seat| Seat { row, seat })).collect();
        Allotment {
            id: allotment_id(),
            name: "Sponsor".into(),
            names: Default::default(),
            seats,
            release_at,
            released: false,
            companions: false,
        }
    }

    /// The commands that create the venues, the halls and the sessions, in three parts that come one after the other.
    pub(super) fn sessions(&self, opens_at: Timestamp, now_ms: u64) -> Result<[Vec<BatchCommand>; 3], LoadError> {
        let house = &self.house;
        let layout = self.layout()?;
        let venues = (0..house.venues_all())
            .map(|venue| setup::put_venue(&house.venue_id(venue), format!("Venue {venue} of {}", house.prefix)));
        let halls = (0..house.venues_all()).map(|venue| setup::put_hall(house, venue, &layout));
        let sessions = (0..house.sessions_all()).map(|session| {
            let venue = house.venue_of(session);
            let place = house.index_in_venue(session);
            let new = NewSession {
                prices: self.prices(),
                extras: SessionExtras { offering: Some(self.offering(opens_at).into()), ..Default::default() },
                ..setup::new_session(house.session_id(session), house.hall_id(venue), now_ms, place)
            };
            BatchCommand::session_create(new.id.clone().as_str(), &house.venue_id(venue), new)
        });
        Ok([venues.chain([setup::put_title()]).collect(), halls.collect(), sessions.collect()])
    }

    /// The commands that put all codes.
    pub(super) fn codes(&self) -> Vec<BatchCommand> {
        let put = |code| {
            let code = self.code(code);
            let details =
                CodeDetails { group: self.group(), uses: self.spec.uses.into(), ended: false, by_order: false };
            BatchCommand::code_put(code.as_str(), &code, details)
        };
        (0..self.spec.codes).map(put).collect()
    }

    fn offering(&self, opens_at: Timestamp) -> Offering {
        Offering {
            price_types: TicketKind::ALL.map(|kind| self.price_type(kind)).into(),
            offers: self.offers(opens_at),
            counters: vec![Counter { id: counter_id(), max: self.spec.under26_max }],
            allotments: vec![self.allotment(None)],
        }
    }

    fn prices(&self) -> Vec<(Id, Money)> {
        let money = |amount| Money { amount, currency: self.currency };
        (0..)
            .zip(&self.spec.prices.adult)
            .map(|(category, price)| (SaleTerms::category_id(category), money(*price)))
            .collect()
    }

    fn price_type(&self, kind: TicketKind) -> PriceType {
        // The prices of the first type are those of the session.
        let prices = match kind {
            TicketKind::Adult => &[],
            TicketKind::Under26 | TicketKind::Carer => self.spec.list_prices()[kind as usize],
        };
        let mut prices: Vec<(Id, i64)> =
            (0..).zip(prices).map(|(category, price)| (SaleTerms::category_id(category), *price)).collect();
        prices.sort();
        PriceType {
            id: kind.id(),
            name: kind.name().into(),
            names: Default::default(),
            prices,
            area_prices: Vec::new(),
            tax: None,
        }
    }

    fn layout(&self) -> Result<std::sync::Arc<Layout>, LoadError> {
        let row = |row: u16| Row {
            label: (row + 1).to_string().into(),
            section: None,
            runs: vec![Run {
                gap: 0,
                count: self.house.seats,
                labels: Labels::Numbers { first: 1, step: 1 },
                category: SaleTerms::category_id(self.category_of(row)),
                accessible: false,
                points: Vec::new(),
            }],
        };
        let layout = Layout::new((0..self.house.rows).map(row).collect(), None);
        layout.map(Into::into).map_err(|error| LoadError::Setup { what: "halls", why: error.to_string() })
    }
}

pub(super) fn allotment_id() -> Id {
    id("sponsor")
}

fn counter_id() -> Id {
    id("under26")
}

fn id(text: &str) -> Id {
    Id::new(text).expect("a run's prefix makes valid ids")
}

/// An offer that sells one kind at its list price, at any time.
fn offer(id: Id, kind: TicketKind) -> Offer {
    Offer {
        name: id.as_str().into(),
        id,
        names: Default::default(),
        types: vec![kind.id()],
        categories: Vec::new(),
        areas: Vec::new(),
        from: None,
        until: None,
        closed: false,
        desk: false,
        change: None,
        per_order: None,
        counters: Vec::new(),
        allotments: Vec::new(),
        code_group: None,
        attributes: vec![],
        per_customer: None,
    }
}

//! The ops on sessions.

use std::sync::Arc;

use boxoffice_core::{
    command::{
        self, ALLOTMENTS_MAX, Allotment, Area, Command, Counter, Limits, NewSession, OFFERS_MAX, Offer, Offering,
        PriceType, SessionCommand, SessionExtras, VenueCommand,
    },
    cursor::read_by_time,
    id::Id,
    layout::LAYOUT_SEATS_MAX,
    money::Money,
    names::Names,
    refusal::Refusal,
    seat::{HOLD_SEATS_MAX, Seat},
    text::{Comments, Name, OptionalName, Reason, Text},
    time::{TIMESTAMP_MAX, Timestamp},
};
use boxoffice_declare::{op, shape};
use smol_str::SmolStr;

use super::{
    LimitsBody,
    offer::{AllotmentBody, Allotments, CounterBody, Counters, OfferBody, Offers, PriceTypeBody, PriceTypes, offering},
};
use crate::{
    call::{Call, CitySearch, Shape},
    city::CityPage,
    convert::{Converted, after, at_most, distinct, one_currency, price},
    limits::{AREA_CAPACITY_MAX, AREAS_MAX, CATEGORIES_MAX, PAGE_ENTRIES, PAGE_ENTRIES_MAX},
    quantity::Quantity,
    rejection::Rejection,
    reply::{SessionPage, ThreeStates},
    repr::{List, Price, shape::WHOLE_MAX},
    view::{MapView, SessionChanged, SessionView},
};

/// Create a session. It occupies the hall for its time.
#[op("session.create", desk, venues(OfEntity), frame(Import), weight(20), answers(SessionView))]
#[example(r#"{"ends_at": "2099-04-12T22:00:00Z", "hall": "main", "id": "hamlet-tonight", "prices": {"standard": {"amount": 1000, "currency": "EUR"}}, "starts_at": "2099-04-12T19:00:00Z", "title": "hamlet", "venue": "globe"}"#)]
#[example(r#"{"areas": [{"capacity": 500, "id": "yard", "name": "Yard", "price": {"amount": 500, "currency": "EUR"}}], "comments": "first night", "ends_at": "2099-04-13T22:00:00Z", "hall": "main", "id": "hamlet-matinee", "limits": {"per_customer": {"max": 12, "quota": "hamlet"}, "per_order": 8}, "prices": {"standard": {"amount": 1000, "currency": "EUR"}}, "starts_at": "2099-04-13T19:00:00Z", "title": "hamlet", "venue": "globe"}"#)]
#[example(r#"{"ends_at": "2099-04-14T22:00:00Z", "hall": "main", "id": "hamlet-late", "prices": {"standard": {"amount": 1000, "currency": "EUR"}}, "starts_at": "2099-04-14T19:00:00Z", "title": "hamlet", "venue": "globe"}"#)]
#[derive(Eq)]
pub struct SessionCreate {
    pub id: Id,
    pub venue: Id,
    pub hall: Id,
    pub title: Id,
    pub starts_at: Timestamp,
    pub ends_at: Timestamp,
    #[optional]
    pub prices: Vec<(Id, Money)>,
    /// Areas with places without seats.
    #[optional]
    pub areas: List<AreaBody, 0, AREAS_MAX>,
    /// The time to live of carts with seats of it, instead of the default.
    #[narrow(1..=WHOLE_MAX)]
    pub hold_ttl_ms: Option<u64>,
    #[optional]
    pub limits: LimitsBody,
    #[since(1, 1)]
    #[optional]
    pub comments: Comments,
    /// Whether all may still hold after it has begun. Otherwise only the desk may.
    #[since(1, 5)]
    #[optional]
    pub sells_after_begin: bool,
    /// The price types. The first is that of a buyer who names none, and its prices are `prices` and those of the areas.
    #[since(1, 6)]
    #[optional]
    pub price_types: PriceTypes,
    /// The offers. Without any, everything is on sale for everybody.
    #[since(1, 6)]
    #[optional]
    pub offers: Offers,
    /// The counters that offers share.
    #[since(1, 6)]
    #[optional]
    pub counters: Counters,
    /// Seats that are kept for somebody.
    #[since(1, 6)]
    #[optional]
    pub allotments: Allotments,
    /// Whether a hold of named seats may not leave a single free seat. The desk may.
    #[since(1, 6)]
    #[optional]
    pub no_single_seats: bool,
    /// The fewest seats of one hold where so many are free side by side. The desk may hold fewer.
    #[since(1, 6)]
    #[within(1..=HOLD_SEATS_MAX)]
    pub min_party: Option<u16>,
}

impl SessionCreate {
    fn command(self) -> Converted<Command> {
        if self.starts_at >= self.ends_at {
            return Err(Rejection::bad_request("`starts_at` must be before `ends_at`"));
        }
        let (prices, areas) = (prices(self.prices)?, areas(self.areas.into_plain())?);
        let money = prices.iter().map(|(_, price)| price).chain(areas.iter().map(|area| &area.price));
        one_currency(money.map(|price| price.currency))?;
        let session = NewSession {
            id: self.id,
            hall: self.hall,
            title: self.title,
            starts_at: self.starts_at,
            ends_at: self.ends_at,
            prices,
            extras: SessionExtras {
                areas,
                hold_ttl_ms: self.hold_ttl_ms,
                limits: self.limits.try_into()?,
                comments: self.comments.into_plain(),
                sells_after_begin: self.sells_after_begin,
                offering: offering(self.price_types, self.offers, self.counters, self.allotments)?.map(Arc::new),
                no_single_seats: self.no_single_seats,
                // A party of one is no condition, and is not told apart from none.
                min_party: self.min_party.filter(|min| *min > 1),
            },
        };
        Ok(Command::Venue(self.venue, VenueCommand::CreateSession(session)))
    }
}

/// An area with places without seats.
#[shape("NewArea")]
#[derive(Eq)]
pub struct AreaBody {
    pub id: Id,
    #[optional]
    pub name: OptionalName,
    #[within(1..=AREA_CAPACITY_MAX)]
    pub capacity: Quantity,
    #[narrow(Price)]
    pub price: Money,
    /// Its names for people.
    #[since(1, 5)]
    #[optional]
    pub names: Names,
}

/// Read a session.
#[op("session.get", read, weight(8), answers(SessionView))]
#[example(r#"{"id": "hamlet-tonight"}"#)]
#[example(r#"{"id": "hamlet-matinee", "layout": false}"#)]
#[derive(Eq)]
pub struct SessionGet {
    pub id: Id,
    /// Whether the layout has its rows, which it has if this is absent. `/v1/sessions/{id}/layout` has them for caches.
    pub layout: Option<bool>,
}

impl SessionGet {
    fn command(self) -> Converted<(Command, Shape)> {
        let shape = if self.layout == Some(false) { Shape::WithoutRows } else { Shape::Plain };
        Ok((Command::Session(self.id, SessionCommand::Get), shape))
    }
}

/// Sessions of a venue, or of all venues of a city, by start.
#[op("session.search", read, class(Later), weight(4), answers(SessionPage, CityPage))]
#[example(r#"{"from": "2099-04-01T00:00:00Z", "limit": 1, "title": "hamlet", "venue": "globe"}"#)]
#[example(r#"{"venue": "globe"}"#)]
#[example(r#"{"city": "London", "title": "hamlet"}"#)]
#[derive(Default, Eq)]
#[one_of([venue] [city])]
pub struct SessionSearch {
    pub venue: Option<Id>,
    pub city: Option<Name>,
    pub title: Option<Id>,
    /// With `venue` only.
    pub hall: Option<Id>,
    /// Only sessions that start at this time or later.
    pub from: Option<Timestamp>,
    /// Only sessions that start before this time.
    pub to: Option<Timestamp>,
    /// The maximum number of entries, 100 if absent.
    #[within(1..=PAGE_ENTRIES_MAX)]
    pub limit: Option<u32>,
    /// The cursor of the page before.
    pub cursor: Option<SmolStr>,
}

impl SessionSearch {
    fn command(self) -> Converted<(Call, Shape)> {
        let limit = self.limit.unwrap_or(PAGE_ENTRIES);
        let after = after(self.cursor, |cursor| read_by_time(cursor, Id::new))?;
        let (title, from, to) = (self.title, self.from.unwrap_or_default(), self.to.unwrap_or(TIMESTAMP_MAX));
        let search = match (self.venue, self.city) {
            (Some(venue), None) => {
                let search = VenueCommand::SearchSessions { hall: self.hall, title, from, to, limit, after };
                Call::Command(Command::Venue(venue, search))
            }
            (None, Some(_)) if self.hall.is_some() => {
                return Err(Rejection::bad_request("a `hall` is one of a `venue`"));
            }
            (None, Some(city)) => {
                Call::SearchCity(CitySearch { city: city.into_plain(), title, from, to, limit, after })
            }
            (None, None) | (Some(_), Some(_)) => {
                return Err(Rejection::bad_request("a search has either a `venue` or a `city`"));
            }
        };
        Ok((search, Shape::Page { limit }))
    }
}

/// The state of every seat of a session.
#[op("session.map", read, weight(3), answers(MapView, ThreeStates))]
#[example(r#"{"id": "hamlet-tonight"}"#)]
#[example(r#"{"id": "hamlet-tonight", "view": "2,1,0"}"#)]
#[example(r#"{"id": "hamlet-matinee"}"#)]
#[derive(Eq)]
pub struct SessionMap {
    pub id: Id,
    /// Whether to answer with the three numbers of cinemas.
    #[narrow(["2,1,0"])]
    pub view: Option<SmolStr>,
}

impl SessionMap {
    fn command(self) -> Converted<(Command, Shape)> {
        let shape = match self.view.as_deref() {
            None => Shape::Plain,
            Some("2,1,0") => Shape::ThreeStates,
            Some(_) => return Err(Rejection::bad_request("`view` is `2,1,0` or absent")),
        };
        Ok((Command::Session(self.id, SessionCommand::Map), shape))
    }
}

/// Seats of a session.
#[shape(body)]
#[derive(Eq)]
pub struct SessionSeats {
    pub id: Id,
    pub seats: List<Seat, 1, LAYOUT_SEATS_MAX>,
}

impl SessionSeats {
    /// The command that `make` makes of the seats.
    fn command(self, make: fn(Vec<Seat>) -> SessionCommand) -> Converted<Command> {
        let mut sorted = self.seats.into_plain();
        sorted.sort_unstable();
        let mut twice: Vec<Seat> = sorted.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        twice.dedup();
        if twice.is_empty() {
            Ok(Command::Session(self.id, make(sorted)))
        } else {
            Err(Refusal::DuplicateSeat(twice).into())
        }
    }
}

/// Keep seats off sale.
#[op("session.block", desk, venues(OfEntity), weight(12), answers())]
#[example(r#"{"id": "hamlet-tonight", "seats": [[0, 0], [0, 1]]}"#)]
pub struct SessionBlock(pub SessionSeats);

impl SessionBlock {
    fn command(self) -> Converted<Command> {
        self.0.command(SessionCommand::Block)
    }
}

/// Put seats back on sale.
#[op("session.unblock", desk, venues(OfEntity), weight(12), answers())]
#[example(r#"{"id": "hamlet-tonight", "seats": [[0, 0], [0, 1]]}"#)]
pub struct SessionUnblock(pub SessionSeats);

impl SessionUnblock {
    fn command(self) -> Converted<Command> {
        self.0.command(SessionCommand::Unblock)
    }
}

/// Change prices, areas, limits, texts and offers. Holds keep their terms.
#[op("session.change", desk, since(1, 6), venues(OfEntity), frame(Import), weight(30), answers(SessionChanged))]
#[example(r#"{"expect": 0, "id": "hamlet-tonight", "prices": {"standard": {"amount": 1200, "currency": "EUR"}}}"#)]
#[example(r#"{"counters": [{"id": "young", "max": 100}], "id": "hamlet-tonight", "offers": [{"from": "2026-03-01T09:00:00Z", "id": "everybody"}, {"counters": ["young"], "id": "young", "types": ["under26"]}], "price_types": [{"id": "adult"}, {"id": "under26", "prices": {"standard": 600}, "tax": {"code": "A", "rate": 700}}]}"#)]
#[example(r#"{"close": ["everybody"], "dry_run": true, "id": "hamlet-tonight"}"#)]
#[example(r#"{"allotments": [{"id": "press", "name": "Press", "release_at": "2099-04-11T19:00:00Z", "seats": [[0, 1], [0, 2]]}], "id": "hamlet-tonight"}"#)]
#[example(r#"{"id": "hamlet-tonight", "min_party": 2, "no_single_seats": true}"#)]
#[derive(Eq)]
pub struct SessionChange {
    pub id: Id,
    /// The version of the terms that this is a change of. Refused if there are later ones.
    pub expect: Option<u32>,
    /// The prices by category, all of them.
    pub prices: Option<Vec<(Id, Money)>>,
    /// The areas: those that there are in their order, and new ones after them.
    pub areas: Option<List<AreaBody, 0, AREAS_MAX>>,
    /// The time to live of carts with seats of it.
    #[narrow(1..=WHOLE_MAX)]
    pub hold_ttl_ms: Option<u64>,
    pub limits: Option<LimitsBody>,
    pub comments: Option<Comments>,
    /// Whether all may still hold after it has begun.
    pub sells_after_begin: Option<bool>,
    /// The price types, all of them.
    pub price_types: Option<PriceTypes>,
    /// The offers, all of them.
    pub offers: Option<Offers>,
    /// The counters, all of them.
    pub counters: Option<Counters>,
    /// The allotments, all of them.
    pub allotments: Option<Allotments>,
    /// Whether a hold of named seats may not leave a single free seat.
    pub no_single_seats: Option<bool>,
    /// The fewest seats of one hold where so many are free side by side. 1 takes the condition away.
    #[within(1..=HOLD_SEATS_MAX)]
    pub min_party: Option<u16>,
    /// Offers to close.
    #[optional]
    pub close: List<Id, 0, OFFERS_MAX>,
    /// Closed offers to open again.
    #[optional]
    pub reopen: List<Id, 0, OFFERS_MAX>,
    /// Allotments to release now.
    #[optional]
    pub release: List<Id, 0, ALLOTMENTS_MAX>,
    /// Whether to say only what would be different.
    #[optional]
    pub dry_run: bool,
}

impl SessionChange {
    fn command(self) -> Converted<Command> {
        let types = |all: PriceTypes| all.into_plain().into_iter().map(PriceType::try_from).collect::<Converted<_>>();
        let offers = |all: Offers| all.into_plain().into_iter().map(Offer::try_from).collect::<Converted<_>>();
        let counters = |all: Counters| all.into_plain().into_iter().map(Counter::from).collect();
        let allotments =
            |all: Allotments| all.into_plain().into_iter().map(Allotment::try_from).collect::<Converted<_>>();
        let change = command::SessionChange {
            expect: self.expect,
            prices: self.prices.map(prices).transpose()?,
            areas: self.areas.map(|all| areas(all.into_plain())).transpose()?,
            hold_ttl_ms: self.hold_ttl_ms,
            limits: self.limits.map(Limits::try_from).transpose()?,
            comments: self.comments.map(Comments::into_plain),
            sells_after_begin: self.sells_after_begin,
            price_types: self.price_types.map(types).transpose()?,
            offers: self.offers.map(offers).transpose()?,
            counters: self.counters.map(counters),
            allotments: self.allotments.map(allotments).transpose()?,
            no_single_seats: self.no_single_seats,
            min_party: self.min_party,
            close: self.close.into_plain(),
            reopen: self.reopen.into_plain(),
            release: self.release.into_plain(),
            dry_run: self.dry_run,
        };
        Ok(Command::Session(self.id, SessionCommand::Change(Box::new(change))))
    }
}

/// Cancel a session: holds are released, orders refunded.
#[op("session.cancel", desk, venues(OfEntity), weight(20), answers())]
#[example(r#"{"id": "hamlet-late", "reason": "the roof leaks"}"#)]
#[derive(Eq)]
pub struct SessionCancel {
    pub id: Id,
    /// The reason, public.
    pub reason: Reason,
}

impl SessionCancel {
    fn command(self) -> Converted<Command> {
        Ok(Command::Session(self.id, SessionCommand::Cancel { reason: self.reason }))
    }
}

impl SessionCreate {
    /// The body with these details.
    pub fn new(venue: Id, session: NewSession) -> SessionCreate {
        let NewSession { id, hall, title, starts_at, ends_at, prices, extras } = session;
        let SessionExtras { areas, hold_ttl_ms, limits, comments, .. } = extras;
        let SessionExtras { sells_after_begin, offering, no_single_seats, min_party, .. } = extras;
        let areas = areas.into_iter().map(AreaBody::from).collect();
        let Offering { price_types, offers, counters, allotments } = offering.as_deref().cloned().unwrap_or_default();
        let limits = LimitsBody::from(limits);
        SessionCreate {
            id,
            venue,
            hall,
            title,
            starts_at,
            ends_at,
            prices,
            areas,
            hold_ttl_ms,
            limits,
            comments: Text::as_said(comments),
            sells_after_begin,
            price_types: price_types.into_iter().map(PriceTypeBody::from).collect(),
            offers: offers.into_iter().map(OfferBody::from).collect(),
            counters: counters.into_iter().map(CounterBody::from).collect(),
            allotments: allotments.into_iter().map(AllotmentBody::from).collect(),
            no_single_seats,
            min_party,
        }
    }
}

impl From<Area> for AreaBody {
    fn from(Area { id, name, capacity, price, names }: Area) -> AreaBody {
        AreaBody { id, name: Text::as_said(name), capacity: capacity.into(), price, names }
    }
}

/// Prices by category, sorted, since their order in the request has no meaning.
fn prices(mut prices: Vec<(Id, Money)>) -> Converted<Vec<(Id, Money)>> {
    at_most(prices.len(), CATEGORIES_MAX, "prices")?;
    prices.sort_by(|one, other| one.0.cmp(&other.0));
    distinct(&prices, |(category, _)| category, "a category has two prices")?;
    prices.iter().try_for_each(|(_, money)| price(money.amount))?;
    Ok(prices)
}

/// Areas in the order of the request, in which they are shown.
fn areas(areas: Vec<AreaBody>) -> Converted<Vec<Area>> {
    let mut ids: Vec<&Id> = areas.iter().map(|area| &area.id).collect();
    ids.sort_unstable();
    distinct(&ids, |id| id, "two areas have the same id")?;
    areas.into_iter().map(area).collect()
}

fn area(area: AreaBody) -> Converted<Area> {
    price(area.price.amount)?;
    let AreaBody { id, name, capacity, price, names } = area;
    Ok(Area { id, name: name.into_plain(), capacity: capacity.checked_u32(), price, names })
}

//! Commands of sessions.

use boxoffice_core::{
    command::{Area, Command, NewSession, SessionCommand, VenueCommand},
    cursor::read_by_time,
    id::Id,
    layout::LAYOUT_SEATS_MAX,
    money::Money,
    refusal::Refusal,
    seat::Seat,
    time::TIMESTAMP_MAX,
};

use super::{Converted, after, at_most, distinct, limit, one_currency, one_to, price, text};
use crate::{
    body,
    call::{CitySearch, Shape},
    limits::{AREA_CAPACITY_MAX, AREAS_MAX, CATEGORIES_MAX, COMMENTS_BYTES_MAX, NAME_BYTES_MAX, REASON_BYTES_MAX},
    rejection::Rejection,
};

pub(crate) fn session_create(body: body::SessionCreate) -> Converted<Command> {
    if body.starts_at >= body.ends_at {
        return Err(Rejection::bad_request("`starts_at` must be before `ends_at`"));
    }
    let (prices, areas) = (prices(body.prices)?, areas(body.areas)?);
    let money = prices.iter().map(|(_, price)| price).chain(areas.iter().map(|area| &area.price));
    one_currency(money.map(|price| price.currency))?;
    let session = NewSession {
        id: body.id,
        hall: body.hall,
        title: body.title,
        starts_at: body.starts_at,
        ends_at: body.ends_at,
        prices,
        areas,
        hold_ttl_ms: body.hold_ttl_ms,
        limits: body.limits.try_into()?,
        comments: text("comments", body.comments, 0, COMMENTS_BYTES_MAX)?,
    };
    Ok(Command::Venue(body.venue, VenueCommand::CreateSession(session)))
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
fn areas(areas: Vec<body::AreaBody>) -> Converted<Vec<Area>> {
    at_most(areas.len(), AREAS_MAX, "areas")?;
    let mut ids: Vec<&Id> = areas.iter().map(|area| &area.id).collect();
    ids.sort_unstable();
    distinct(&ids, |id| id, "two areas have the same id")?;
    areas.into_iter().map(area).collect()
}

fn area(area: body::AreaBody) -> Converted<Area> {
    price(area.price.amount)?;
    Ok(Area {
        id: area.id,
        name: text("name", area.name, 0, NAME_BYTES_MAX)?,
        capacity: area.capacity.within_u32("capacity", 1, AREA_CAPACITY_MAX)?,
        price: area.price,
    })
}

/// The scope of a search for sessions.
pub(crate) enum Search {
    /// A venue, by one command.
    Venue(Command),
    /// All venues of a city.
    City(CitySearch),
}

pub(crate) fn session_search(body: body::SessionSearch) -> Converted<(Search, Shape)> {
    let limit = limit(body.limit)?;
    let after = after(body.cursor, |cursor| read_by_time(cursor, Id::new))?;
    let (title, from, to) = (body.title, body.from.unwrap_or_default(), body.to.unwrap_or(TIMESTAMP_MAX));
    let search = match (body.venue, body.city) {
        (Some(venue), None) => {
            let search = VenueCommand::SearchSessions { hall: body.hall, title, from, to, limit, after };
            Search::Venue(Command::Venue(venue, search))
        }
        (None, Some(_)) if body.hall.is_some() => {
            return Err(Rejection::bad_request("a `hall` is one of a `venue`"));
        }
        (None, Some(city)) => {
            let city = text("city", city, 1, NAME_BYTES_MAX)?;
            Search::City(CitySearch { city, title, from, to, limit, after })
        }
        (None, None) | (Some(_), Some(_)) => {
            return Err(Rejection::bad_request("a search has either a `venue` or a `city`"));
        }
    };
    Ok((search, Shape::Page { limit }))
}

pub(crate) fn session_map(body: body::SessionMap) -> Converted<(Command, Shape)> {
    let shape = match body.view.as_deref() {
        None => Shape::Plain,
        Some("2,1,0") => Shape::ThreeStates,
        Some(_) => return Err(Rejection::bad_request("`view` is `2,1,0` or absent")),
    };
    Ok((Command::Session(body.id, SessionCommand::Map), shape))
}

pub(crate) fn session_seats(body: body::SessionSeats, make: fn(Vec<Seat>) -> SessionCommand) -> Converted<Command> {
    one_to("seats", body.seats.len(), LAYOUT_SEATS_MAX)?;
    let mut sorted = body.seats;
    sorted.sort_unstable();
    let mut twice: Vec<Seat> = sorted.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    twice.dedup();
    if twice.is_empty() {
        Ok(Command::Session(body.id, make(sorted)))
    } else {
        Err(Refusal::DuplicateSeat(twice).into())
    }
}

pub(crate) fn session_cancel(body: body::SessionCancel) -> Converted<Command> {
    let reason = text("reason", body.reason, 1, REASON_BYTES_MAX)?;
    Ok(Command::Session(body.id, SessionCommand::Cancel { reason }))
}

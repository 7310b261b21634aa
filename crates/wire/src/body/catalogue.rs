//! The ops of the catalogue: venues, halls, titles.

use std::sync::Arc;

use boxoffice_core::{
    command::{Command, DirectoryCommand, Title, VenueCommand, VenueDetails},
    id::Id,
    layout::Layout,
    text::{Comments, Name, OptionalName, Text},
};
use boxoffice_declare::op;
use smol_str::SmolStr;

use super::{Get, resource::zone};
pub use crate::repr::answer::Position;
use crate::{
    call::Shape,
    convert::{Converted, after},
    labels,
    layout::Written,
    limits::{ADDRESS_BYTES_MAX, CAST_MAX, DURATION_MS_MAX, PAGE_ENTRIES, PAGE_ENTRIES_MAX, ZONE_BYTES_MAX},
    rejection::Rejection,
    reply::TitlePage,
    repr::List,
    view::{HallView, TitleView, VenueChange, VenueView, VenuesPage},
};

/// Create or change a venue.
#[op("venue.put", desk, venues(OfEntity), weight(15), answers(VenueChange))]
#[example(
    r#"{"address": "21 New Globe Walk", "city": "London", "id": "globe", "name": "The Globe", "position": {"lat": 51.5081, "lon": -0.0972}, "zone": "Europe/London"}"#
)]
pub struct VenuePut {
    pub id: Id,
    pub name: Name,
    #[optional(written)]
    pub city: OptionalName,
    pub position: Option<Position>,
    #[optional(written)]
    pub comments: Comments,
    /// The IANA name of its time zone. Without one, times of its sessions are told in UTC.
    #[since(1, 5)]
    pub zone: Option<Text<1, ZONE_BYTES_MAX>>,
    /// Street and number, or what else leads there.
    #[since(1, 5)]
    #[optional]
    pub address: Text<0, ADDRESS_BYTES_MAX, true>,
}

impl VenuePut {
    fn command(self) -> Converted<Command> {
        let details = VenueDetails {
            name: self.name.into_plain(),
            city: self.city.into_plain(),
            position: on_globe("position", self.position)?,
            comments: self.comments.into_plain(),
            zone: self.zone.map(|name| zone(name.into_plain())).transpose()?,
            address: self.address.into_plain(),
        };
        Ok(Command::Venue(self.id, VenueCommand::Put(details)))
    }
}

/// Read a venue.
#[op("venue.get", read, weight(1), answers(VenueView))]
#[example(r#"{"id": "globe"}"#)]
pub struct VenueGet(pub Get);

impl VenueGet {
    fn command(self) -> Converted<Command> {
        Ok(Command::Venue(self.0.id, VenueCommand::Get))
    }
}

/// Venues by city and name, or nearest first.
#[op("venue.search", read, weight(3), answers(VenuesPage))]
#[example(r#"{"city": "London", "name": "glo"}"#)]
#[example(r#"{"limit": 1, "near": {"lat": 51.5, "lon": -0.1}}"#)]
#[derive(Default)]
pub struct VenueSearch {
    pub city: Option<Name>,
    /// A part of the name.
    pub name: Option<Name>,
    /// Search the nearest venues first.
    pub near: Option<Position>,
    /// The maximum number of entries, 100 if absent.
    #[within(1..=PAGE_ENTRIES_MAX)]
    pub limit: Option<u32>,
    /// The cursor of the page before.
    pub cursor: Option<SmolStr>,
}

impl VenueSearch {
    fn command(self) -> Converted<Command> {
        let search = DirectoryCommand::SearchVenues {
            city: self.city.map(Name::into_plain),
            name: self.name.map(Name::into_plain),
            near: on_globe("near", self.near)?,
            limit: self.limit.unwrap_or(PAGE_ENTRIES),
            after: after(self.cursor, |cursor| Some(SmolStr::new(cursor)))?,
        };
        Ok(Command::Directory(search))
    }
}

/// Create or change a hall.
#[op("hall.put", desk, venues(OfEntity), frame(Hall), weight(15), answers())]
#[example(r#"{"id": "main", "layout": {"rows": 5, "seats": 16}, "name": "Main", "venue": "globe"}"#)]
#[example(r#"{"comments": "a curved screen", "id": "studio", "layout": {"rows": [{"count": 8, "gaps": [4], "label": "A", "section": "stalls"}, {"category": "box", "label": "B", "seats": [{"accessible": true, "label": "left"}, null, {"label": "right"}]}]}, "name": "Studio", "venue": "globe"}"#)]
pub struct HallPut {
    pub venue: Id,
    pub id: Id,
    pub name: Name,
    #[since(1, 1)]
    #[optional]
    pub comments: Comments,
    #[narrow(Written)]
    pub layout: Arc<Layout>,
}

impl HallPut {
    fn command(self) -> Converted<Command> {
        let HallPut { venue, id, name, comments, layout } = self;
        // A layout that is stored already may break this rule, so reading a layout does not check it.
        labels::check(&layout).map_err(Rejection::bad_request)?;
        Ok(Command::Venue(venue, VenueCommand::PutHall { hall: id, name, comments, layout }))
    }
}

/// Read a hall.
#[op("hall.get", read, weight(3), answers(HallView))]
#[example(r#"{"id": "studio", "venue": "globe"}"#)]
#[derive(Eq)]
pub struct HallGet {
    pub venue: Id,
    pub id: Id,
}

impl HallGet {
    fn command(self) -> Converted<Command> {
        Ok(Command::Venue(self.venue, VenueCommand::GetHall { hall: self.id }))
    }
}

/// Create or change a title.
#[op("title.put", desk, venues(Refused), weight(15), answers())]
#[example(r#"{"cast": ["Sarah Bernhardt"], "duration_ms": 9000000, "id": "hamlet", "name": "Hamlet"}"#)]
#[example(r#"{"comments": "in black and white", "director": "Orson Welles", "id": "macbeth", "name": "Macbeth"}"#)]
#[derive(Eq)]
pub struct TitlePut {
    pub id: Id,
    pub name: Name,
    #[optional]
    pub director: OptionalName,
    #[optional]
    pub cast: List<Name, 0, CAST_MAX>,
    #[optional]
    pub comments: Comments,
    #[within(1..=DURATION_MS_MAX)]
    pub duration_ms: Option<u64>,
}

impl TitlePut {
    fn command(self) -> Converted<Command> {
        let title = Title {
            name: self.name.into_plain(),
            director: self.director.into_plain(),
            cast: self.cast.into_plain().into_iter().map(Name::into_plain).collect(),
            comments: self.comments.into_plain(),
            duration_ms: self.duration_ms,
        };
        Ok(Command::Directory(DirectoryCommand::PutTitle(self.id, title)))
    }
}

/// Read a title.
#[op("title.get", read, weight(1), answers(TitleView))]
#[example(r#"{"id": "hamlet"}"#)]
pub struct TitleGet(pub Get);

impl TitleGet {
    fn command(self) -> Converted<Command> {
        Ok(Command::Directory(DirectoryCommand::GetTitle(self.0.id)))
    }
}

/// Titles by name.
#[op("title.search", read, weight(4), answers(TitlePage))]
#[example(r#"{"name": "ham"}"#)]
#[example(r#"{"limit": 1}"#)]
#[derive(Default, Eq)]
pub struct TitleSearch {
    /// A part of the name.
    pub name: Option<Name>,
    /// The maximum number of entries, 100 if absent.
    #[within(1..=PAGE_ENTRIES_MAX)]
    pub limit: Option<u32>,
    /// The cursor of the page before.
    pub cursor: Option<SmolStr>,
}

impl TitleSearch {
    fn command(self) -> Converted<(Command, Shape)> {
        let limit = self.limit.unwrap_or(PAGE_ENTRIES);
        let place = |cursor: &str| {
            let (id, name) = cursor.split_once('/')?;
            Some((Name::new(name).ok()?.into_plain(), Id::new(id)?))
        };
        let (name, after) = (self.name.map(Name::into_plain), after(self.cursor, place)?);
        let search = DirectoryCommand::SearchTitles { name, limit, after };
        Ok((Command::Directory(search), Shape::Page { limit }))
    }
}

impl VenuePut {
    /// The body with these details.
    pub fn new(id: Id, details: VenueDetails) -> VenuePut {
        VenuePut {
            id,
            name: Text::as_said(details.name),
            city: Text::as_said(details.city),
            position: details.position.map(Position::from_millionths),
            comments: Text::as_said(details.comments),
            zone: details.zone.map(Text::as_said),
            address: Text::as_said(details.address),
        }
    }
}

impl TitlePut {
    /// The body with these details.
    pub fn new(id: Id, title: Title) -> TitlePut {
        TitlePut {
            id,
            name: Text::as_said(title.name),
            director: Text::as_said(title.director),
            cast: title.cast.into_iter().map(Text::as_said).collect(),
            comments: Text::as_said(title.comments),
            duration_ms: title.duration_ms,
        }
    }
}

/// Millionths of a degree, if the place is on the globe.
fn on_globe(name: &str, position: Option<Position>) -> Converted<Option<(i32, i32)>> {
    let elsewhere = || Rejection::bad_request(format!("`{name}` is not on the globe"));
    position.map(|position| position.millionths().ok_or_else(elsewhere)).transpose()
}

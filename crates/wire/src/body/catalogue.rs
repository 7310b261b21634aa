//! The ops of the catalogue: venues, halls, titles.

use std::sync::Arc;

use boxoffice_core::{
    answer::{HallView, TitleView, VenueChange, VenueView, VenuesPage},
    command::{Command, DirectoryCommand, Title, VenueCommand, VenueDetails},
    id::Id,
    layout::Layout,
};
use boxoffice_declare::op;
use smol_str::SmolStr;

use super::{Get, resource::zone};
pub use crate::repr::answer::Position;
use crate::{
    call::Shape,
    convert::{Converted, after, at_most, text},
    labels,
    layout::Written,
    limits::{
        ADDRESS_BYTES_MAX, CAST_MAX, COMMENTS_BYTES_MAX, DURATION_MS_MAX, NAME_BYTES_MAX, PAGE_ENTRIES,
        PAGE_ENTRIES_MAX, ZONE_BYTES_MAX,
    },
    rejection::Rejection,
    reply::TitlePage,
    repr::{Bounded, shape::Each},
};

/// Create or change a venue.
#[op("venue.put", desk, venues(OfEntity), weight(15), answers(VenueChange))]
#[example(
    r#"{"address": "21 New Globe Walk", "city": "London", "id": "globe", "name": "The Globe", "position": {"lat": 51.5081, "lon": -0.0972}, "zone": "Europe/London"}"#
)]
pub struct VenuePut {
    pub id: Id,
    #[within(1..=NAME_BYTES_MAX)]
    pub name: SmolStr,
    #[optional(written)]
    #[within(0..=NAME_BYTES_MAX)]
    pub city: SmolStr,
    pub position: Option<Position>,
    #[optional(written)]
    #[within(0..=COMMENTS_BYTES_MAX)]
    pub comments: SmolStr,
    /// The IANA name of its time zone. Without one, times of its sessions are told in UTC.
    #[since(1, 5)]
    #[within(1..=ZONE_BYTES_MAX)]
    pub zone: Option<SmolStr>,
    /// Street and number, or what else leads there.
    #[since(1, 5)]
    #[optional]
    #[within(0..=ADDRESS_BYTES_MAX)]
    pub address: SmolStr,
}

impl VenuePut {
    fn command(self) -> Converted<Command> {
        let details = VenueDetails {
            name: self.name,
            city: self.city,
            position: on_globe("position", self.position)?,
            comments: self.comments,
            zone: self.zone.map(zone).transpose()?,
            address: self.address,
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
    #[within(1..=NAME_BYTES_MAX)]
    pub city: Option<SmolStr>,
    /// A part of the name.
    #[within(1..=NAME_BYTES_MAX)]
    pub name: Option<SmolStr>,
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
            city: self.city,
            name: self.name,
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
    #[within(1..=NAME_BYTES_MAX)]
    pub name: SmolStr,
    #[since(1, 1)]
    #[optional]
    #[within(0..=COMMENTS_BYTES_MAX)]
    pub comments: SmolStr,
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
    #[within(1..=NAME_BYTES_MAX)]
    pub name: SmolStr,
    #[optional]
    #[within(0..=NAME_BYTES_MAX)]
    pub director: SmolStr,
    #[optional]
    #[with("Bounded::<CAST_MAX>")]
    #[narrow((0..=CAST_MAX, Each(1..=NAME_BYTES_MAX)))]
    pub cast: Vec<SmolStr>,
    #[optional]
    #[within(0..=COMMENTS_BYTES_MAX)]
    pub comments: SmolStr,
    #[within(1..=DURATION_MS_MAX)]
    pub duration_ms: Option<u64>,
}

impl TitlePut {
    fn command(self) -> Converted<Command> {
        at_most(self.cast.len(), CAST_MAX, "names in `cast`")?;
        let title = Title {
            name: self.name,
            director: self.director,
            cast: self.cast.into_iter().map(|name| text("cast", name, 1, NAME_BYTES_MAX)).collect::<Converted<_>>()?,
            comments: self.comments,
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
    #[within(1..=NAME_BYTES_MAX)]
    pub name: Option<SmolStr>,
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
            let name = text("name", SmolStr::new(name), 1, NAME_BYTES_MAX).ok()?;
            Some((name, Id::new(id)?))
        };
        let search = DirectoryCommand::SearchTitles { name: self.name, limit, after: after(self.cursor, place)? };
        Ok((Command::Directory(search), Shape::Page { limit }))
    }
}

impl VenuePut {
    /// The body with these details.
    pub fn new(id: Id, details: VenueDetails) -> VenuePut {
        let VenueDetails { name, city, position, comments, zone, address } = details;
        VenuePut { id, name, city, position: position.map(Position::from_millionths), comments, zone, address }
    }
}

impl TitlePut {
    /// The body with these details.
    pub fn new(id: Id, title: Title) -> TitlePut {
        let Title { name, director, cast, comments, duration_ms } = title;
        TitlePut { id, name, director, cast, comments, duration_ms }
    }
}

/// Millionths of a degree, if the place is on the globe.
fn on_globe(name: &str, position: Option<Position>) -> Converted<Option<(i32, i32)>> {
    let elsewhere = || Rejection::bad_request(format!("`{name}` is not on the globe"));
    position.map(|position| position.millionths().ok_or_else(elsewhere)).transpose()
}

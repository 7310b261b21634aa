//! Commands of the catalogue: venues, halls, titles.

use std::sync::Arc;

use boxoffice_core::{
    command::{Command, DirectoryCommand, Title, VenueCommand, VenueDetails},
    id::Id,
};
use smol_str::SmolStr;

use super::{Converted, after, at_most, limit, span, text, text_if_any};
use crate::{
    body,
    call::Shape,
    limits::{CAST_MAX, COMMENTS_BYTES_MAX, DURATION_MS_MAX, NAME_BYTES_MAX},
    rejection::Rejection,
};

pub(crate) fn venue_put(body: body::VenuePut) -> Converted<Command> {
    let details = VenueDetails {
        name: text("name", body.name, 1, NAME_BYTES_MAX)?,
        city: text("city", body.city, 0, NAME_BYTES_MAX)?,
        position: on_globe("position", body.position)?,
        comments: text("comments", body.comments, 0, COMMENTS_BYTES_MAX)?,
    };
    Ok(Command::Venue(body.id, VenueCommand::Put(details)))
}

/// Millionths of a degree, if the place is on the globe.
fn on_globe(name: &str, position: Option<body::Position>) -> Converted<Option<(i32, i32)>> {
    let elsewhere = || Rejection::bad_request(format!("`{name}` is not on the globe"));
    position.map(|position| position.millionths().ok_or_else(elsewhere)).transpose()
}

pub(crate) fn venue_search(body: body::VenueSearch) -> Converted<Command> {
    let search = DirectoryCommand::SearchVenues {
        city: text_if_any("city", body.city, 1, NAME_BYTES_MAX)?,
        name: text_if_any("name", body.name, 1, NAME_BYTES_MAX)?,
        near: on_globe("near", body.near)?,
        limit: limit(body.limit)?,
        after: after(body.cursor, |cursor| Some(SmolStr::new(cursor)))?,
    };
    Ok(Command::Directory(search))
}

pub(crate) fn hall_put(body: body::HallPut) -> Converted<Command> {
    let name = text("name", body.name, 1, NAME_BYTES_MAX)?;
    let comments = text("comments", body.comments, 0, COMMENTS_BYTES_MAX)?;
    let layout = Arc::clone(&body.layout);
    Ok(Command::Venue(body.venue, VenueCommand::PutHall { hall: body.id, name, comments, layout }))
}

pub(crate) fn title_put(body: body::TitlePut) -> Converted<Command> {
    at_most(body.cast.len(), CAST_MAX, "names in `cast`")?;
    let title = Title {
        name: text("name", body.name, 1, NAME_BYTES_MAX)?,
        director: text("director", body.director, 0, NAME_BYTES_MAX)?,
        cast: body.cast.into_iter().map(|name| text("cast", name, 1, NAME_BYTES_MAX)).collect::<Converted<_>>()?,
        comments: text("comments", body.comments, 0, COMMENTS_BYTES_MAX)?,
        duration_ms: body.duration_ms.map(|ms| span("duration_ms", ms, 1, DURATION_MS_MAX)).transpose()?,
    };
    Ok(Command::Directory(DirectoryCommand::PutTitle(body.id, title)))
}

pub(crate) fn title_search(body: body::TitleSearch) -> Converted<(Command, Shape)> {
    let limit = limit(body.limit)?;
    let place = |cursor: &str| {
        let (id, name) = cursor.split_once('/')?;
        let name = text("name", SmolStr::new(name), 1, NAME_BYTES_MAX).ok()?;
        Some((name, Id::new(id)?))
    };
    let search = DirectoryCommand::SearchTitles {
        name: text_if_any("name", body.name, 1, NAME_BYTES_MAX)?,
        limit,
        after: after(body.cursor, place)?,
    };
    Ok((Command::Directory(search), Shape::Page { limit }))
}

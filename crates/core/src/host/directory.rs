//! The directory at work: venues say where they are, clients search.

use super::{Input, Stage, Turn, speculation::Speculation};
use crate::{
    answer::{Answer, Outcome, TitleView, VenueEntry, VenuesPage},
    ask::{Ask, Reply},
    command::{Command, DirectoryCommand},
    directory::{Directory, VenueCursor},
    event::{DirectoryEvent, Event},
    id::Entity,
    id::Request,
    refusal::Refusal,
};

pub(super) fn handle<R>(stage: &mut Stage<'_, R>, input: Input<R>) {
    let Stage { entity, turn, .. } = stage;
    match input {
        Input::Command { from, request, command } => {
            let Command::Directory(command) = command else {
                panic!("the directory was handed a command to {}", command.entity());
            };
            let outcome = outcome(entity, request, command, turn);
            turn.answer(from, outcome);
        }
        Input::Ask { from, ask } => {
            let (Entity::Venue(venue), Ask::List { details, version }) = (&from, ask) else {
                panic!("the directory was asked something by {from}, which only venues do");
            };
            if blank_or(entity.directory()).listed_version(venue).is_none_or(|known| known < version) {
                let listed = DirectoryEvent::VenueListed { venue: venue.clone(), details, version };
                entity.apply(Event::Directory(listed), turn);
            }
            turn.reply(from, Reply::Listed { version });
        }
        // It asks nobody, waits for nothing and pays nothing.
        Input::Reply { .. } | Input::Wake | Input::Paid { .. } => {}
    }
}

fn outcome<R>(
    entity: &mut Speculation,
    request: Option<Request>,
    command: DirectoryCommand,
    turn: &mut Turn<R>,
) -> Outcome {
    let directory = blank_or(entity.directory());
    let bad = |reason| Refusal::BadRequest(reason);
    let answer = match command {
        DirectoryCommand::PutTitle(id, title) => {
            let request = request.ok_or(Refusal::RequestIdMissing)?;
            if let Some(known) = directory.title_answered(&id, request) {
                return entity.ok_again(Answer::Done, known?);
            }
            title.check().map_err(bad)?;
            entity.apply(Event::Directory(DirectoryEvent::TitlePut { id, title, request }), turn);
            Answer::Done
        }
        DirectoryCommand::GetTitle(id) => {
            let found = directory.title(&id).cloned();
            let unknown = || Refusal::NotFound(smol_str::format_smolstr!("title {id}"));
            let title = found.ok_or_else(unknown)?;
            Answer::Title(TitleView { id, title })
        }
        DirectoryCommand::SearchTitles { name, limit, after } => {
            let page = directory.search_titles(name.as_deref(), limit, after.as_ref()).map_err(bad)?;
            Answer::Titles(
                page.titles.into_iter().map(|entry| TitleView { id: entry.id, title: entry.title }).collect(),
            )
        }
        DirectoryCommand::SearchVenues { city, name, near, limit, after } => {
            let after = after.map(|text| VenueCursor::parse(&text)).transpose().map_err(bad)?;
            let found = directory.search_venues(city.as_deref(), name.as_deref(), near, limit, after.as_ref());
            let page = found.map_err(bad)?;
            let venue = |entry: crate::directory::VenueEntry| VenueEntry {
                id: entry.id,
                name: entry.name,
                city: entry.city,
                position: entry.position,
                distance_m: entry.distance_m,
            };
            let next = page.next.map(|cursor| smol_str::format_smolstr!("{cursor}"));
            Answer::Venues(VenuesPage { venues: page.venues.into_iter().map(venue).collect(), next })
        }
        DirectoryCommand::VenuesOfCity(city) => Answer::VenueIds(directory.venues_of_city(&city)),
    };
    entity.ok(answer)
}

/// The directory; nothing is in it before the first event.
fn blank_or(directory: Option<&Directory>) -> Directory {
    directory.cloned().unwrap_or_default()
}

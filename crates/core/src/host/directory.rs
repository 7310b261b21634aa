//! The host of the directory. Venues send their details, and clients search.

use super::{Input, Stage, Turn, speculation::Speculation};
use crate::{
    access::AccessKey,
    answer::{Answer, Outcome, TitleView},
    ask::{Ask, Reply},
    command::{Command, DirectoryCommand},
    directory::{Directory, VenueCursor},
    event::{DirectoryEvent, Event},
    id::Entity,
    id::Request,
    refusal::Refusal,
    time::Timestamp,
};

pub(super) fn handle<R>(stage: &mut Stage<'_, R>, input: Input<R>) {
    let Stage { entity, turn, now, .. } = stage;
    match input {
        Input::Command { from, request, command, timeout_ms: _ } => {
            let Command::Directory(command) = command else {
                panic!("the directory was handed a command to {}", command.entity());
            };
            let outcome = outcome(entity, *now, request, command, turn);
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
        // It never asks, waits or pays.
        Input::Reply { .. } | Input::Wake | Input::Paid { .. } => {}
    }
}

fn outcome<R>(
    entity: &mut Speculation,
    now: Timestamp,
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
            Answer::Titles(directory.search_titles(name.as_deref(), limit, after.as_ref()).map_err(bad)?.titles)
        }
        DirectoryCommand::SearchVenues { city, name, near, limit, after } => {
            let after = after.map(|text| VenueCursor::parse(&text)).transpose().map_err(bad)?;
            let found = directory.search_venues(city.as_deref(), name.as_deref(), near, limit, after.as_ref());
            Answer::Venues(found.map_err(bad)?)
        }
        DirectoryCommand::VenuesOfCity(city) => Answer::VenueIds(directory.venues_of_city(&city)),
        DirectoryCommand::CreateKey { name, terms } => {
            return change_key(entity, request, turn, |by| directory.create_key(now, name, *terms, by));
        }
        DirectoryCommand::RevokeKey { name } => {
            return change_key(entity, request, turn, |by| directory.revoke_key(name, by));
        }
        DirectoryCommand::Keys => {
            Answer::Keys(directory.keys().map(|(name, key)| (name.clone(), AccessKey::clone(key))).collect())
        }
        DirectoryCommand::Key { name } => {
            Answer::Keys(directory.key(&name).map(|key| (name, AccessKey::clone(key))).into_iter().collect())
        }
    };
    entity.ok(answer)
}

/// Changes the keys, once for each request id (P9).
fn change_key<R>(
    entity: &mut Speculation,
    request: Option<Request>,
    turn: &mut Turn<R>,
    decide: impl FnOnce(Request) -> Result<DirectoryEvent, Refusal>,
) -> Outcome {
    let request = request.ok_or(Refusal::RequestIdMissing)?;
    if let Some(known) = blank_or(entity.directory()).key_answered(request) {
        return entity.ok_again(Answer::Done, known?);
    }
    entity.apply(Event::Directory(decide(request)?), turn);
    entity.ok(Answer::Done)
}

/// The directory, which is empty before its first event.
fn blank_or(directory: Option<&Directory>) -> Directory {
    directory.cloned().unwrap_or_default()
}

//! What the door itself goes about for a request: counting the node, asking all venues of a city, reading a history.

use std::{collections::BTreeMap, sync::Arc};

use boxoffice_core::{
    answer::{Answer, Answered},
    command::{Command, DirectoryCommand},
    id::{Entity, Id},
    refusal::Refusal,
    seat::Seat,
};
use boxoffice_node::history::{HistoryError, HistoryFound};
use boxoffice_wire::{
    Fail, FailKind,
    call::CitySearch,
    city::{CityMerge, CityPage},
    encode::Verdict,
    happening::{Happening, happening},
    status::{HistoryEntry, HistoryPage, NodeAudit},
};
use smol_str::format_smolstr;
use tokio::time::{Instant, timeout_at};

use crate::{
    caller::Caller,
    failures::fail_of,
    shared::{Guest, Shared},
    venues,
    waiting::Waiting,
};

/// Venues of one search under way at once: enough to share the work, few enough to leave others their turn.
const VENUES_UNDER_WAY_MAX: usize = 32;

/// What is to be gone about.
#[derive(Debug)]
pub(crate) enum Errand {
    /// Everything the node keeps is counted.
    Audit,
    /// Every venue of a city is asked.
    City(CitySearch),
    /// What happened to an entity is read.
    History {
        /// Which.
        entity: Entity,
        /// Only this seat of it.
        seat: Option<Seat>,
        /// At most so many entries.
        limit: u32,
        /// Only what is older than this version.
        before: Option<u64>,
        /// Only if it is of one of these venues; of any if empty.
        venues: Arc<[Id]>,
    },
}

/// What came of it.
pub(crate) enum Found {
    /// The counts.
    Audit(Box<NodeAudit>),
    /// Sessions.
    City(CityPage),
    /// What happened.
    History(HistoryPage),
}

/// What an errand ends with: what was found, or how it was refused or failed.
pub(crate) type Ending = Result<Found, Box<Verdict>>;

/// Goes about it until `deadline`.
pub(crate) async fn run(shared: Arc<Shared>, guest: Arc<Guest>, errand: Errand, deadline: Instant) -> Ending {
    match errand {
        Errand::Audit => match timeout_at(deadline, shared.backend.audit()).await {
            Ok(audit) => Ok(Found::Audit(Box::new(audit))),
            Err(_) => Err(failed(FailKind::Unknown)),
        },
        Errand::City(search) => {
            let waiting = Waiting::begin(&shared, &guest, Caller::default(), deadline).map_err(failed)?;
            city(waiting, &search).await.map(Found::City)
        }
        Errand::History { entity, seat, limit, before, venues } => {
            if !venues.is_empty() {
                let left = deadline.saturating_duration_since(Instant::now()).as_millis() as u64;
                match venues::may_read(&shared, &venues, &entity, left).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(refusal)) => return Err(Box::new(Verdict::No(refusal))),
                    Err(failure) => return Err(Box::new(Verdict::Fail(fail_of(failure)))),
                }
            }
            let reading = shared.backend.history(&entity, seat, limit as usize, before);
            match timeout_at(deadline, reading).await {
                Ok(found) => history(entity, found).map(Found::History),
                Err(_) => Err(failed(FailKind::Unknown)),
            }
        }
    }
}

/// Asks the directory which venues there are, then each of them, a few at a time.
async fn city(waiting: Waiting, search: &CitySearch) -> Result<CityPage, Box<Verdict>> {
    waiting.submit(0, Command::Directory(DirectoryCommand::VenuesOfCity(search.city.clone())), None);
    let venues = match answered(waiting.answers().await.pop().map(|(_, result)| result))? {
        Answer::VenueIds(venues) => venues,
        other => unreachable!("the directory was asked for venues and said {other:?}"),
    };
    let mut merge = CityMerge::new(search);
    let mut venues = venues.into_iter();
    let mut asked: BTreeMap<u64, Id> = BTreeMap::new();
    let mut tag = 0;
    loop {
        while asked.len() < VENUES_UNDER_WAY_MAX
            && let Some(venue) = venues.next()
        {
            tag += 1;
            waiting.submit(tag, search.at(venue.clone()), None);
            asked.insert(tag, venue);
        }
        if asked.is_empty() {
            return Ok(merge.page());
        }
        let answers = waiting.answers().await;
        if answers.is_empty() {
            return Err(failed(FailKind::Unknown));
        }
        for (tag, result) in answers {
            let venue = asked.remove(&tag).expect("a venue answers once");
            match answered(Some(result))? {
                Answer::Sessions(entries) => merge.add(&venue, entries),
                other => unreachable!("a venue was asked for sessions and said {other:?}"),
            }
        }
    }
}

/// The answer, if it is one; none is there when the time is over.
fn answered(result: Option<boxoffice_node::door::Result>) -> Result<Answer, Box<Verdict>> {
    match result {
        Some(Ok(Ok(Answered { answer, .. }))) => Ok(answer),
        Some(Ok(Err(refusal))) => Err(Box::new(Verdict::No(refusal))),
        Some(Err(failure)) => Err(Box::new(Verdict::Fail(fail_of(failure)))),
        None => Err(failed(FailKind::Unknown)),
    }
}

fn history(entity: Entity, found: Result<HistoryFound, HistoryError>) -> Result<HistoryPage, Box<Verdict>> {
    let found = match found {
        Ok(found) => found,
        Err(HistoryError::Busy) => return Err(failed(FailKind::Busy)),
        Err(HistoryError::Down) => return Err(failed(FailKind::Draining)),
        Err(HistoryError::Elsewhere) => return Err(failed(FailKind::NotReady)),
        Err(
            error @ (HistoryError::Log(_)
            | HistoryError::Archive(_)
            | HistoryError::Store(_)
            | HistoryError::Undecodable(_)
            | HistoryError::Other { .. }),
        ) => {
            tracing::error!(%entity, %error, "a history cannot be read");
            let fail = Fail::new(FailKind::Internal).saying(error.to_string());
            return Err(Box::new(Verdict::Fail(fail)));
        }
    };
    if found.version == 0 {
        return Err(Box::new(Verdict::No(Refusal::NotFound(format_smolstr!("{entity}")))));
    }
    let complete = found.from == 1;
    let cursor = (found.is_full && !complete).then_some(found.from);
    let entries = found.entries.into_iter().map(|entry| {
        let Happening { word, sentence } = happening(&entry.event);
        HistoryEntry {
            position: entry.index,
            version: entry.version,
            at: entry.time,
            event: word.into(),
            details: sentence.into(),
            by: entry.by.unwrap_or_default(),
        }
    });
    Ok(HistoryPage { entries: entries.collect(), entity, cursor, complete })
}

fn failed(kind: FailKind) -> Box<Verdict> {
    Box::new(Verdict::Fail(Fail::new(kind)))
}

//! Queries that are more than one command: an audit of the node, a search over all venues of a city, a history.

use std::{collections::BTreeMap, sync::Arc};

use boxoffice_core::{
    answer::{Answer, Answered},
    command::{Command, DirectoryCommand},
    id::{Entity, Id},
    refusal::Refusal,
    seat::Seat,
};
use boxoffice_node::history::{HistoryError, HistoryPart};
use boxoffice_wire::{
    Fail, FailKind, Op,
    call::CitySearch,
    city::{CityMerge, CityPage},
    encode::Verdict,
    event_text::{EventText, event_text},
    status::{HistoryEntry, HistoryPage, NodeAudit},
    weight,
};
use smol_str::format_smolstr;
use tokio::time::{Instant, timeout_at};

use crate::{
    budgets::Owners,
    caller::Caller,
    failures::fail_of,
    shared::{ConnectionPermit, Shared},
    submission::Submission,
    venues,
};

/// Venues that one search asks at the same time. Enough to share the work, and few enough not to hold up others.
const VENUES_UNDER_WAY_MAX: usize = 32;

/// A query.
#[derive(Debug)]
pub(crate) enum FanOutQuery {
    /// Counts everything that the node holds.
    Audit,
    /// Asks every venue of a city for sessions.
    City(CitySearch),
    History {
        entity: Entity,
        /// Only events of this seat.
        seat: Option<Seat>,
        limit: u32,
        /// Only events before this version.
        before: Option<u64>,
        /// Only if the entity belongs to one of these venues. All if empty.
        venues: Arc<[Id]>,
    },
}

/// The result of a query.
pub(crate) enum QueryResult {
    Audit(Box<NodeAudit>),
    City(CityPage),
    History(HistoryPage),
}

/// The result of a query, or the verdict that refuses or fails it.
pub(crate) type QueryOutcome = Result<QueryResult, Box<Verdict>>;

/// Runs a query until `deadline`. `owners` pay for what it asks.
pub(crate) async fn run(
    shared: Arc<Shared>,
    permit: Arc<ConnectionPermit>,
    owners: Owners,
    query: FanOutQuery,
    deadline: Instant,
) -> QueryOutcome {
    match query {
        FanOutQuery::Audit => match timeout_at(deadline, shared.backend.audit()).await {
            Ok(audit) => Ok(QueryResult::Audit(Box::new(audit))),
            Err(_) => Err(failed(FailKind::Unknown)),
        },
        FanOutQuery::City(search) => {
            let submission = Submission::begin(&shared, &permit, Caller::default(), deadline).map_err(failed)?;
            city(&shared, submission, &owners, &search).await.map(QueryResult::City)
        }
        FanOutQuery::History { entity, seat, limit, before, venues } => {
            if !venues.is_empty() {
                let left = deadline.saturating_duration_since(Instant::now()).as_millis() as u64;
                venues::may_read(&shared, &venues, Op::AdminHistory.permission().venues, &entity, left).await?;
            }
            let reading = shared.backend.history(&entity, seat, limit as usize, before);
            match timeout_at(deadline, reading).await {
                Ok(found) => history(entity, found).map(QueryResult::History),
                Err(_) => Err(failed(FailKind::Unknown)),
            }
        }
    }
}

/// Asks the directory for the city's venues, then each of them, a few at a time.
async fn city(
    shared: &Shared,
    submission: Submission,
    owners: &Owners,
    search: &CitySearch,
) -> Result<CityPage, Box<Verdict>> {
    let rule = Op::SessionSearch.permission().venues;
    let venues = Command::Directory(DirectoryCommand::VenuesOfCity(search.city.clone()));
    submission.submit(0, rule, None, venues, None);
    let venues = match answered(submission.answers().await.pop().map(|(_, result)| result))? {
        Answer::VenueIds(venues) => venues,
        other => unreachable!("the directory was asked for venues and said {other:?}"),
    };
    shared.budgets.owe(owners, weight::of_venues(venues.len()), Instant::now());
    let mut merge = CityMerge::new(search);
    let mut venues = venues.into_iter();
    let mut pending: BTreeMap<u64, Id> = BTreeMap::new();
    let mut tag = 0;
    loop {
        while pending.len() < VENUES_UNDER_WAY_MAX
            && let Some(venue) = venues.next()
        {
            tag += 1;
            submission.submit(tag, rule, None, search.at(venue.clone()), None);
            pending.insert(tag, venue);
        }
        if pending.is_empty() {
            return Ok(merge.page());
        }
        let answers = submission.answers().await;
        if answers.is_empty() {
            return Err(failed(FailKind::Unknown));
        }
        for (tag, result) in answers {
            let venue = pending.remove(&tag).expect("a venue answers once");
            match answered(Some(result))? {
                Answer::Sessions(entries) => merge.add(&venue, entries),
                other => unreachable!("a venue was asked for sessions and said {other:?}"),
            }
        }
    }
}

/// The answer, or the verdict that takes its place. The result is `None` if the deadline has passed.
fn answered(result: Option<boxoffice_node::api::Result>) -> Result<Answer, Box<Verdict>> {
    match result {
        Some(Ok(Ok(Answered { answer, .. }))) => Ok(answer),
        Some(Ok(Err(refusal))) => Err(Box::new(Verdict::No(refusal))),
        Some(Err(failure)) => Err(Box::new(Verdict::Fail(fail_of(failure)))),
        None => Err(failed(FailKind::Unknown)),
    }
}

fn history(entity: Entity, found: Result<HistoryPart, HistoryError>) -> Result<HistoryPage, Box<Verdict>> {
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
        let EventText { word, sentence } = event_text(&entry.event);
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

//! A search for sessions over a city: the answers of its venues, put together.

use boxoffice_core::{answer::SessionEntry, id::Id, time::Timestamp};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{convert, form, request::CitySearch};

/// A page of sessions of a city, by start, then id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CityPage {
    /// The sessions.
    pub sessions: Vec<CitySession>,
    /// Where to go on, if there may be more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<SmolStr>,
}

/// A session of a city: as in its venue's index, with the venue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CitySession {
    /// Its id.
    #[serde(with = "form")]
    pub id: Id,
    /// In which venue.
    #[serde(with = "form")]
    pub venue: Id,
    /// In which hall.
    #[serde(with = "form")]
    pub hall: Id,
    /// What is shown.
    #[serde(with = "form")]
    pub title: Id,
    /// When it starts.
    #[serde(with = "form")]
    pub starts_at: Timestamp,
    /// When it ends.
    #[serde(with = "form")]
    pub ends_at: Timestamp,
    /// Whether it is open for sale.
    pub open: bool,
}

impl CityPage {
    /// The page that the answers of all venues of the city to [`CitySearch::at`] make.
    pub fn new(search: &CitySearch, answers: impl IntoIterator<Item = (Id, Vec<SessionEntry>)>) -> CityPage {
        let mut sessions: Vec<CitySession> = Vec::new();
        for (venue, entries) in answers {
            sessions.extend(entries.into_iter().map(|entry| CitySession {
                id: entry.id,
                venue: venue.clone(),
                hall: entry.hall,
                title: entry.title,
                starts_at: entry.starts_at,
                ends_at: entry.ends_at,
                open: entry.open,
            }));
        }
        sessions.sort_unstable_by(|one, other| (one.starts_at, &one.id).cmp(&(other.starts_at, &other.id)));
        let limit = search.limit as usize;
        sessions.truncate(limit);
        let last = sessions.last().filter(|_| sessions.len() == limit);
        let cursor = last.map(|last| convert::cursor(last.starts_at, last.id.as_str()).into());
        CityPage { sessions, cursor }
    }
}

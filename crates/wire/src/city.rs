//! A search for sessions over a city, which merges the answers of the venues.

use boxoffice_core::{answer::SessionEntry, cursor::by_time, id::Id, time::Timestamp};
use smol_str::SmolStr;

use crate::{call::CitySearch, repr::shape::shapes};

shapes! {
    /// The sessions of a city.
    #[derive(Default, Eq)]
    pub struct CityPage {
        pub sessions: Vec<CitySession>,
        /// The cursor of the next page, if there may be more.
        pub cursor?: Option<SmolStr>,
    }

    #[derive(Eq)]
    pub struct CitySession {
        pub id: Id,
        pub venue: Id,
        pub hall: Id,
        pub title: Id,
        pub starts_at: Timestamp,
        pub ends_at: Timestamp,
        /// Whether it is on sale.
        pub open: bool,
        /// The IANA name of the venue's time zone.
        pub zone?: Option<SmolStr>,
    }
}

impl CityPage {
    /// A page, to be merged from the answers of all venues of the city to [`CitySearch::at`].
    pub fn new(search: &CitySearch, answers: impl IntoIterator<Item = (Id, Vec<SessionEntry>)>) -> CityPage {
        let mut merge = CityMerge::new(search);
        for (venue, entries) in answers {
            merge.add(&venue, entries);
        }
        merge.page()
    }
}

/// A page that is being merged. At most two pages are kept, however many venues answer.
#[derive(Debug)]
pub struct CityMerge {
    sessions: Vec<CitySession>,
    limit: usize,
}

impl CityMerge {
    /// An empty page.
    pub fn new(search: &CitySearch) -> CityMerge {
        CityMerge { sessions: Vec::new(), limit: search.limit as usize }
    }

    /// Adds the answer of a venue to [`CitySearch::at`].
    pub fn add(&mut self, venue: &Id, entries: Vec<SessionEntry>) {
        self.sessions.extend(entries.into_iter().map(|entry| CitySession {
            id: entry.id,
            venue: venue.clone(),
            hall: entry.hall,
            title: entry.title,
            starts_at: entry.starts_at,
            ends_at: entry.ends_at,
            open: entry.open,
            zone: entry.zone,
        }));
        if self.sessions.len() > 2 * self.limit {
            self.cut();
        }
    }

    /// The page.
    pub fn page(mut self) -> CityPage {
        self.cut();
        let last = self.sessions.last().filter(|_| self.sessions.len() == self.limit);
        let cursor = last.map(|last| by_time(last.starts_at, last.id.as_str()));
        CityPage { sessions: self.sessions, cursor }
    }

    fn cut(&mut self) {
        self.sessions.sort_unstable_by(|one, other| (one.starts_at, &one.id).cmp(&(other.starts_at, &other.id)));
        self.sessions.truncate(self.limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, starts_at: u64) -> SessionEntry {
        let of = |text: &str| Id::new(text).expect("an id");
        let (starts_at, ends_at) = (Timestamp(starts_at), Timestamp(starts_at + 1));
        SessionEntry {
            id: of(id),
            hall: of("h"),
            title: of("t"),
            starts_at,
            ends_at,
            open: true,
            zone: None,
            opens_at: None,
        }
    }

    #[test]
    fn a_city_page_is_independent_of_the_order_of_answers() {
        let search = CitySearch {
            city: "Paris".into(),
            title: None,
            from: Timestamp(0),
            to: Timestamp(1_000),
            limit: 3,
            after: None,
        };
        let venue = |number: usize| Id::new(&format!("v{number}")).expect("an id");
        let answers: Vec<(Id, Vec<SessionEntry>)> = (0..10_u64)
            .map(|at| (venue(at as usize), (0..3).map(|n| entry(&format!("s{at}-{n}"), 10 * n + 9 - at)).collect()))
            .collect();
        let forwards = CityPage::new(&search, answers.clone());
        let backwards = CityPage::new(&search, answers.into_iter().rev());
        assert_eq!(forwards, backwards);
        let ids: Vec<&str> = forwards.sessions.iter().map(|session| session.id.as_str()).collect();
        assert_eq!(ids, ["s9-0", "s8-0", "s7-0"]);
        assert!(forwards.cursor.is_some(), "a full page has a cursor");
        assert_eq!(CityPage::new(&search, [(venue(1), vec![entry("a", 1)])]).cursor, None);
    }
}

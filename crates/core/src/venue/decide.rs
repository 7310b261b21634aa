//! Decisions of a venue.

use alloc::{sync::Arc, vec::Vec};

use smol_str::{SmolStr, format_smolstr};

use super::Venue;
use crate::{
    answer::SessionEntry,
    calendar::instant,
    command::NewSession,
    event::VenueEvent,
    id::{Id, Request},
    layout::Layout,
    refusal::Refusal,
    rules::Rules,
    session::{check_terms, differences, exists_differently},
    terms::{bad, check_ttl},
    time::{TIMESTAMP_MAX, Timestamp},
};

/// Milliseconds of a day of 24 hours.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The longest session, in milliseconds. It is 31 days.
const SESSION_SPAN_MAX_MS: u64 = 31 * DAY_MS;

/// The decision about a wanted session.
pub(crate) enum Creation {
    /// It will be booked.
    New(VenueEvent),
    /// It is booked with the same content, but may not be open yet.
    Known,
}

/// The sessions to look for.
pub(crate) struct Search<'a> {
    pub(crate) hall: Option<&'a Id>,
    pub(crate) title: Option<&'a Id>,
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    pub(crate) limit: u32,
    pub(crate) after: Option<&'a (Timestamp, Id)>,
}

impl Venue {
    /// Creates or changes a hall. A put without any change is written too, because a repeat of the request must find it.
    pub(crate) fn decide_put_hall(
        &self,
        hall: Id,
        (name, comments): (SmolStr, SmolStr),
        layout: Arc<Layout>,
        request: Request,
    ) -> VenueEvent {
        // A layout may be as long as an importer's frame, so it is written only when it changed.
        let same = self.halls.get(&hall).is_some_and(|kept| kept.layout == layout);
        VenueEvent::HallPut { hall, name, comments, layout: (!same).then_some(layout), request }
    }

    /// Books the hall for a session.
    pub(crate) fn decide_create(
        &self,
        rules: &Rules,
        now: Timestamp,
        session: &NewSession,
    ) -> Result<Creation, Refusal> {
        if let Some(known) = self.sessions.get(&session.id) {
            let differences = differences(&known.session, session);
            return if differences.is_empty() {
                Ok(Creation::Known)
            } else {
                Err(exists_differently(&session.id, &differences))
            };
        }
        let hall = self.halls.get(&session.hall);
        let hall = hall.ok_or_else(|| Refusal::NotFound(format_smolstr!("hall {}", session.hall)))?;
        check_times(rules, now, session)?;
        let mut booked = session.clone();
        check_terms(&hall.layout, &mut booked)?;
        if let Some(other) = hall.conflict(session.starts_at, session.ends_at) {
            return Err(Refusal::HallOccupied(other.clone()));
        }
        Ok(Creation::New(VenueEvent::SessionBooked { session: booked, layout: Arc::clone(&hall.layout) }))
    }

    /// Sessions by start, then id.
    pub(crate) fn search(&self, search: &Search<'_>) -> Vec<SessionEntry> {
        use core::ops::Bound::{Excluded, Included, Unbounded};
        let after = match search.after {
            Some(after) if after.0 >= search.from => Excluded(after.clone()),
            // No id is smaller than the smallest one, so this is before every session that starts at `from`.
            Some(_) | None => Id::new("-").map_or(Unbounded, |smallest| Included((search.from, smallest))),
        };
        let fits = |entry: &SessionEntry| {
            search.hall.is_none_or(|hall| entry.hall == *hall) && search.title.is_none_or(|title| entry.title == *title)
        };
        let found = self.by_start.range((after, Unbounded)).take_while(|(starts_at, _)| *starts_at < search.to);
        let entries = found.map(|(_, session)| self.entry(session)).filter(fits);
        entries.take(search.limit as usize).collect()
    }
}

fn check_times(rules: &Rules, now: Timestamp, session: &NewSession) -> Result<(), Refusal> {
    let (starts_at, ends_at) = (session.starts_at, session.ends_at);
    if starts_at >= ends_at {
        let (begin, end) = (instant(&starts_at), instant(&ends_at));
        return bad(format_smolstr!("the session ends at {end}, which is not after its begin at {begin}"));
    }
    if ends_at > TIMESTAMP_MAX {
        return bad("the session ends after the year 9999".into());
    }
    let span_ms = ends_at.0 - starts_at.0;
    if span_ms > SESSION_SPAN_MAX_MS {
        let days = span_ms.div_ceil(DAY_MS);
        return bad(format_smolstr!("the session takes {days} days; the longest takes 31 days, so create several"));
    }
    if ends_at <= now {
        let (end, now) = (instant(&ends_at), instant(&now));
        return bad(format_smolstr!("the session is over: it ends at {end}, and it is {now} now"));
    }
    check_ttl(rules, session.hold_ttl_ms)
}

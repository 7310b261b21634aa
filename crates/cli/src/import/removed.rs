//! Seats that an import would take out of a hall while a session has them on sale.

use boxoffice_client::{Client, Error, Id, Layout, SessionView, Timestamp};
use boxoffice_seating::{PlanDifference, SeatName};
use boxoffice_wire::body;

use super::{
    plan::VenuePlan,
    reads::{SESSION_SPAN_MAX_MS, known, read_all},
    report::{EntryResult, Report},
};

/// Entries of a page of sessions.
const PAGE: u32 = 500;

/// Names of seats and sessions in a message.
const SHOWN: usize = 5;

/// What sessions do with the removed seats, by the state of a seat in a map.
const STATES: [&str; 3] = ["free", "held", "sold"];

/// Refuses the halls of which a seat is taken out that a session which is not over has free, held or sold. Whether there are any.
///
/// # Errors
/// The node cannot be reached any more.
pub async fn refuse(client: &Client, venues: &[VenuePlan], now: Timestamp, report: &mut Report) -> Result<bool, Error> {
    let mut is_refused = false;
    for venue in venues {
        for hall in &venue.halls {
            let Some(there) = known(client.hall_get(&venue.id, &hall.id).await)? else { continue };
            if there.layout == hall.layout {
                continue;
            }
            // Sessions may have an older plan than the hall, so each is compared with the new one.
            let sessions = sessions_of(client, &venue.id, &hall.id, now).await?;
            let views = read_all(&sessions, |id| async { known(client.session_get(id).await) }).await?;
            let mut why = Vec::new();
            for view in views.iter().flatten().filter(|view| view.canceled.is_none()) {
                why.extend(on_sale(client, view, &hall.layout).await?);
            }
            if why.is_empty() {
                continue;
            }
            is_refused = true;
            let more = why.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!(", and so in {more} sessions more") } else { String::new() };
            why.truncate(SHOWN);
            report.note(
                EntryResult::Refused(format!(
                    "seats are taken out that are on sale: {}{more}; block them there or cancel the session, and import again. \
                     Nothing of the file was imported",
                    why.join("; ")
                )),
                format!("hall {} of {}", hall.id, venue.id),
            );
        }
    }
    Ok(is_refused)
}

/// The sessions of a hall that are not over.
async fn sessions_of(client: &Client, venue: &Id, hall: &Id, now: Timestamp) -> Result<Vec<Id>, Error> {
    let mut search = body::SessionSearch {
        venue: Some(venue.clone()),
        hall: Some(hall.clone()),
        from: Some(Timestamp(now.0.saturating_sub(SESSION_SPAN_MAX_MS))),
        limit: Some(PAGE),
        ..Default::default()
    };
    let mut ids = Vec::new();
    loop {
        let page = client.session_search(&search).await?.value;
        ids.extend(page.sessions.into_iter().filter(|entry| entry.ends_at > now).map(|entry| entry.id));
        match page.cursor {
            Some(cursor) => search.cursor = Some(cursor),
            None => return Ok(ids),
        }
    }
}

/// What a session has on sale that the new plan does not have.
async fn on_sale(client: &Client, session: &SessionView, new: &Layout) -> Result<Option<String>, Error> {
    let removed = PlanDifference::between(&session.layout, new).removed;
    if removed.is_empty() {
        return Ok(None);
    }
    let Some(map) = known(client.session_map(&session.id).await)? else { return Ok(None) };
    let state = |index: u32| map.seats.get(index as usize / 4).map_or(3, |four| four >> (index % 4 * 2) & 3);
    let parts: Vec<String> = STATES
        .into_iter()
        .enumerate()
        .filter_map(|(number, word)| {
            let names: Vec<&SeatName> = removed
                .iter()
                .filter(|(_, index)| usize::from(state(*index)) == number)
                .map(|(name, _)| name)
                .collect();
            let shown: Vec<String> = names.iter().take(SHOWN).map(|name| name.to_string()).collect();
            let more = names.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            (!names.is_empty()).then(|| format!("{}{more} {word}", shown.join(", ")))
        })
        .collect();
    Ok((!parts.is_empty()).then(|| format!("session {} has {}", session.id, parts.join(", "))))
}

//! `boxoffice admin sessions` and `admin cancel`: the sessions on sale, and the end of one.

use boxoffice_client::{Client, Id, SessionEntry, SessionView, Timestamp};
use boxoffice_wire::body::{SessionSearch, VenueSearch};
use serde_json::{Value, json};

use super::{as_json, nodes::table, print};
use crate::{
    args::NodeArgs,
    failure::{Failure, Outcome},
    ids,
    local_time::{date_and_time_in, zone_or_utc},
    node_client::{self, now, say},
    words::counted,
};

/// Entries of one page of a search.
const PAGE: u32 = 200;

/// Lists sessions that have not ended, of one venue or of all, with their counts.
pub(super) fn list(node_args: &NodeArgs, venue: Option<&str>, all: bool, json: bool) -> Outcome {
    let venue = venue.map(|venue| ids::id_of("venue", venue)).transpose()?;
    node_client::block_on(async {
        let client = node_args.connect().await?;
        let venues = match venue {
            Some(venue) => vec![venue],
            None => venues(&client, node_args).await?,
        };
        let mut found = Vec::new();
        for venue in venues {
            for entry in sessions(&client, &venue, node_args).await? {
                if all || entry.ends_at > now() {
                    // One that is being made, or is gone by now, has no counts.
                    let view = client.session_get(&entry.id).await.ok().map(|reply| reply.value);
                    found.push((venue.clone(), entry, view));
                }
            }
        }
        found.sort_by(|one, other| (one.1.starts_at, &one.1.id).cmp(&(other.1.starts_at, &other.1.id)));
        print(&if json { vec![as_json(&found.iter().map(object).collect::<Vec<Value>>())] } else { lines(&found) });
        Ok(())
    })
}

/// Cancels a session. Its orders are refunded, and its hall is free at its time.
pub(super) fn cancel(node_args: &NodeArgs, session: &str, reason: &str) -> Outcome {
    let id = ids::id_of("session", session)?;
    node_client::block_on(async {
        let client = node_args.connect().await?;
        let session = crate::watch::session(&client, &id, node_args).await?;
        client.session_cancel(&id, reason).await.map_err(|error| node_args.failure(error))?;
        say(&format!(
            "session {id} is canceled: what was held is given back, and {} that were sold are refunded",
            counted(u64::from(session.counts.sold), "seat")
        ));
        Ok(())
    })
}

type Found = (Id, SessionEntry, Option<SessionView>);

fn lines(found: &[Found]) -> Vec<String> {
    if found.is_empty() {
        return vec![
            "No session is on sale. `boxoffice import` makes some, and --all shows those that have ended.".into(),
        ];
    }
    let head = ["session", "title", "venue / hall", "begins", "free", "held", "sold", "state"].map(str::to_owned);
    let mut rows = vec![head];
    rows.extend(found.iter().map(|(venue, entry, view)| {
        let begins = date_and_time_in(&zone_or_utc(entry.zone.as_deref()), entry.starts_at);
        let place = format!("{venue} / {}", entry.hall);
        let [free, held, sold] = match view.as_ref().map(counts) {
            Some(counts) => counts.map(|count| count.to_string()),
            None => ["?", "?", "?"].map(str::to_owned),
        };
        [
            entry.id.to_string(),
            entry.title.to_string(),
            place,
            begins,
            free,
            held,
            sold,
            state(entry, view.as_ref()).into(),
        ]
    }));
    table(&rows)
}

/// Free, held and sold seats and places.
fn counts(view: &SessionView) -> [u64; 3] {
    let mut counts = [view.counts.free, view.counts.held, view.counts.sold].map(u64::from);
    for area in &view.area_counts {
        for (count, more) in counts.iter_mut().zip([area.free, area.held, area.sold]) {
            *count += u64::from(more);
        }
    }
    counts
}

fn state(entry: &SessionEntry, view: Option<&SessionView>) -> &'static str {
    match view {
        Some(view) if view.canceled.is_some() => "canceled",
        _ if entry.ends_at <= now() => "over",
        _ if !entry.open => "being made",
        _ if entry.starts_at <= now() => "has begun",
        _ => "on sale",
    }
}

fn object((venue, entry, view): &Found) -> Value {
    let SessionEntry { id, hall, title, starts_at, ends_at, .. } = entry;
    let time = |at: &Timestamp| boxoffice_wire::repr::rfc3339(*at).map(|text| text.to_string());
    let counts = view.as_ref().map(counts).map(|[free, held, sold]| json!({"free": free, "held": held, "sold": sold}));
    json!({
        "session": id.as_str(), "title": title.as_str(), "venue": venue.as_str(), "hall": hall.as_str(),
        "starts_at": time(starts_at), "ends_at": time(ends_at), "counts": counts, "state": state(entry, view.as_ref()),
    })
}

async fn venues(client: &Client, node_args: &NodeArgs) -> Result<Vec<Id>, Failure> {
    let mut found = Vec::new();
    let mut search = VenueSearch { limit: Some(PAGE), ..VenueSearch::default() };
    loop {
        let page = client.venue_search(&search).await.map_err(|error| node_args.failure(error))?.value;
        found.extend(page.venues.into_iter().map(|venue| venue.id));
        match page.next {
            Some(next) => search.cursor = Some(next),
            None => return Ok(found),
        }
    }
}

async fn sessions(client: &Client, venue: &Id, node_args: &NodeArgs) -> Result<Vec<SessionEntry>, Failure> {
    let mut found = Vec::new();
    let mut search = SessionSearch { venue: Some(venue.clone()), limit: Some(PAGE), ..SessionSearch::default() };
    loop {
        let page = client.session_search(&search).await.map_err(|error| node_args.failure(error))?.value;
        found.extend(page.sessions);
        match page.cursor {
            Some(next) => search.cursor = Some(next),
            None => return Ok(found),
        }
    }
}

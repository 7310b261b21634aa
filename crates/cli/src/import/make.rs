//! Making what an import wants: look what is there, send what is not, note what became of it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use boxoffice_client::{
    BatchCommand, Client, Error, HallView, Id, Layout, NewSession, Reply, SessionView, Timestamp, Title, VenueView,
};
use boxoffice_wire::{Encoding, Op, body, limits::IMPORT_FRAME_BYTES_MAX, reply};
use futures_util::{StreamExt, stream};

use super::{
    report::{Fate, Report},
    wanted::{Wanted, WantedHall, WantedSession, WantedVenue},
};
use crate::{draw::amount, reach::date_and_time};

/// Reads under way at once.
const READS_MAX: usize = 16;

/// Commands of one batch: well below the protocol's limit, so that one frame's answers come soon.
const BATCH_COMMANDS: usize = 100;

/// Bytes of one batch's commands, so that the frame stays below the protocol's limit with all that is around them.
const BATCH_BYTES: usize = IMPORT_FRAME_BYTES_MAX / 2;

/// Bytes of a frame that are not the hall in it.
const ENVELOPE_BYTES: usize = 512;

/// Bytes that a title, product or resource may have in a frame: their texts are bounded to less than this.
const THING_BYTES: usize = 32 * 1024;

/// How often a command that failed (busy, not ready) is tried in all.
const ATTEMPTS: usize = 5;

/// How long a batch may take: a hundred sessions on a slow disk.
const BATCH_TIME: Duration = Duration::from_secs(60);

/// A command to be sent, and what to note afterwards.
struct Step {
    fate: Fate,
    thing: String,
    /// Absent if nothing is to be sent.
    command: Option<BatchCommand>,
    bytes: usize,
    sellable: Option<String>,
}

impl Step {
    fn settled(fate: Fate, thing: String) -> Step {
        Step { fate, thing, command: None, bytes: 0, sellable: None }
    }
}

/// Makes everything there is not yet. Relative times are counted from `now`.
///
/// # Errors
/// If the node cannot be reached any more, or answers what cannot be understood.
pub async fn make(client: &Client, wanted: &Wanted, now: Timestamp) -> Result<Report, Error> {
    let client = client.with_deadline(BATCH_TIME);
    let mut report = Report::default();
    make_things(&client, wanted, &mut report).await?;
    let venues = &wanted.venues;
    let there = read_all(venues.as_slice(), |venue| async { known(client.venue_get(&venue.id).await) }).await?;
    let steps = venues.iter().zip(&there).map(|(venue, there)| venue_step(&client, venue, there.as_ref())).collect();
    send(&client, steps, &mut report).await?;

    let halls: Vec<(&WantedVenue, &WantedHall)> =
        venues.iter().flat_map(|venue| venue.halls.iter().map(move |hall| (venue, hall))).collect();
    let there = read_all(&halls, |(venue, hall)| async { known(client.hall_get(&venue.id, &hall.id).await) }).await?;
    let steps = halls.iter().zip(&there).map(|((venue, hall), there)| hall_step(&client, venue, hall, there.as_ref()));
    send(&client, steps.collect(), &mut report).await?;

    let sessions: Vec<(&WantedVenue, &WantedSession)> =
        venues.iter().flat_map(|venue| venue.sessions.iter().map(move |session| (venue, session))).collect();
    let layouts = layouts(&client, &sessions).await?;
    let there = read_all(&sessions, |(_, session)| async { known(client.session_get(&session.id).await) }).await?;
    let steps = sessions.iter().zip(&there).map(|((venue, session), there)| {
        let layout = layouts.get(&(venue.id.clone(), session.hall.clone()));
        session_step(&client, venue, session, layout, there.as_ref(), now)
    });
    send(&client, steps.collect(), &mut report).await?;
    Ok(report)
}

/// Titles, products and resources: whatever is different from the file is changed.
async fn make_things(client: &Client, wanted: &Wanted, report: &mut Report) -> Result<(), Error> {
    let Wanted { titles, products, resources, venues: _ } = wanted;
    let there = read_all(titles, |(id, _)| async { known(client.title_get(id).await) }).await?;
    let mut steps: Vec<Step> = titles
        .iter()
        .zip(there)
        .map(|((id, title), there)| {
            let command = || BatchCommand::title_put(client.new_request_id(), id, title.clone());
            thing_step(format!("title {id} ({})", title.name), there.map(|there| there.title == *title), command)
        })
        .collect();
    // A title that only a session names is made if it is not there, and left as it is if it is.
    let named = wanted.titles_of_sessions_only();
    let there = read_all(&named, |id| async { known(client.title_get(id).await) }).await?;
    for (id, _) in named.iter().zip(there).filter(|(_, there)| there.is_none()) {
        let name = id.as_str().into();
        let title = Title { name, director: "".into(), cast: Vec::new(), comments: "".into(), duration_ms: None };
        let command = || BatchCommand::title_put(client.new_request_id(), id, title);
        steps.push(thing_step(format!("title {id}"), None, command));
    }
    send(client, steps, report).await?;
    let there = read_all(products, |(id, _)| async { known(client.product_get(id).await) }).await?;
    let steps = products.iter().zip(there).map(|((id, details), there)| {
        let command = || BatchCommand::product_put(client.new_request_id(), id, details.clone());
        let thing = format!("product {id} ({} of {}, {} each)", details.stock, details.name, amount(details.price));
        thing_step(thing, there.map(|there| there.details == *details), command)
    });
    send(client, steps.collect(), report).await?;
    let there = read_all(resources, |(id, _)| async { known(client.resource_get(id).await) }).await?;
    let steps = resources.iter().zip(there).map(|((id, details), there)| {
        let command = || BatchCommand::resource_put(client.new_request_id(), id, details.clone());
        let thing = format!("resource {id} ({}, {} at a time)", details.name, details.capacity);
        thing_step(thing, there.map(|there| there.details == *details), command)
    });
    send(client, steps.collect(), report).await
}

/// `same`: whether what is there is as it should be, if something is there.
fn thing_step(thing: String, same: Option<bool>, command: impl FnOnce() -> BatchCommand) -> Step {
    let fate = match same {
        Some(true) => return Step::settled(Fate::There, thing),
        Some(false) => Fate::Changed,
        None => Fate::Made,
    };
    Step { fate, thing, command: Some(command()), bytes: THING_BYTES, sellable: None }
}

/// Reads something of each, a few at once, in their order.
async fn read_all<'a, T, V, F>(things: &'a [T], read: impl Fn(&'a T) -> F) -> Result<Vec<Option<V>>, Error>
where
    F: Future<Output = Result<Option<V>, Error>>,
{
    stream::iter(things).map(read).buffered(READS_MAX).collect::<Vec<_>>().await.into_iter().collect()
}

/// What is there; nothing if it is not known.
fn known<T>(answer: Result<Reply<T>, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(reply) => Ok(Some(reply.value)),
        // Whatever else may be the matter with it, the command that makes it will say.
        Err(Error::Refused(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn venue_step(client: &Client, venue: &WantedVenue, there: Option<&VenueView>) -> Step {
    let WantedVenue { id, details, .. } = venue;
    // One that stays as it is shows itself by its own name.
    let details = there.filter(|_| venue.only_if_absent).map_or(details, |there| &there.details);
    let city = if details.city.is_empty() { String::new() } else { format!(", {}", details.city) };
    let thing = format!("venue {id} ({}{city})", details.name);
    let fate = match there {
        Some(there) if there.details == *details => return Step::settled(Fate::There, thing),
        Some(_) => Fate::Changed,
        None => Fate::Made,
    };
    let command = BatchCommand::venue_put(client.new_request_id(), id, details.clone());
    let bytes = ENVELOPE_BYTES + details.name.len() + details.city.len() + details.comments.len();
    Step { fate, thing, command: Some(command), bytes, sellable: None }
}

fn hall_step(client: &Client, venue: &WantedVenue, hall: &WantedHall, there: Option<&HallView>) -> Step {
    let thing = format!("hall {} of {} ({} seats)", hall.id, venue.id, hall.layout.seats());
    let fate = match there {
        Some(there)
            if (there.name.as_str(), there.comments.as_str(), &there.layout)
                == (hall.name.as_str(), hall.comments.as_str(), &hall.layout) =>
        {
            return Step::settled(Fate::There, thing);
        }
        Some(_) => Fate::Changed,
        None => Fate::Made,
    };
    let bytes = ENVELOPE_BYTES + hall_bytes(venue, hall);
    if bytes > IMPORT_FRAME_BYTES_MAX {
        let why = format!(
            "its layout is {bytes} bytes long and may have {IMPORT_FRAME_BYTES_MAX}; leave x and y of straight rows out, \
             or split the hall"
        );
        return Step::settled(Fate::Refused(why), thing);
    }
    let layout = Arc::clone(&hall.layout);
    let command = BatchCommand::hall_put(client.new_request_id(), &venue.id, &hall.id, &hall.name, layout)
        .with_comments(&hall.comments);
    Step { fate, thing, command: Some(command), bytes, sellable: None }
}

fn hall_bytes(venue: &WantedVenue, hall: &WantedHall) -> usize {
    let (name, comments) = (hall.name.as_str().into(), hall.comments.as_str().into());
    let (venue, id, layout) = (venue.id.clone(), hall.id.clone(), Arc::clone(&hall.layout));
    let body = body::HallPut { venue, id, name, comments, layout };
    let mut frame = Default::default();
    reply::request(Encoding::MsgPack, &mut frame, 0, Op::HallPut, None, None, &body);
    frame.len()
}

/// The layouts of the halls these sessions are in, as they are now.
async fn layouts(
    client: &Client,
    sessions: &[(&WantedVenue, &WantedSession)],
) -> Result<BTreeMap<(Id, Id), Arc<Layout>>, Error> {
    let mut halls: Vec<(Id, Id)> =
        sessions.iter().map(|(venue, session)| (venue.id.clone(), session.hall.clone())).collect();
    halls.sort();
    halls.dedup();
    let views = read_all(&halls, |(venue, hall)| async { known(client.hall_get(venue, hall).await) }).await?;
    Ok(halls.into_iter().zip(views).filter_map(|(key, view)| Some((key, view?.layout))).collect())
}

fn session_step(
    client: &Client,
    venue: &WantedVenue,
    wanted: &WantedSession,
    layout: Option<&Arc<Layout>>,
    there: Option<&SessionView>,
    now: Timestamp,
) -> Step {
    let id = wanted.id.clone();
    let refused = |why: String| Step::settled(Fate::Refused(why), format!("session {id}"));
    let Some(layout) = layout else {
        return refused(format!("venue {} has no hall {}; make it first", venue.id, wanted.hall));
    };
    // The seats of a session that is there are those of its own copy of the layout.
    let prices = match wanted.prices_in(there.map_or(layout, |there| &there.layout)) {
        Ok(prices) => prices,
        Err(why) => return refused(why),
    };
    let (starts_at, ends_at) = match times(wanted, there, now) {
        Ok(times) => times,
        Err(why) => return refused(why),
    };
    let WantedSession { hall, title, areas, hold_ttl_ms, limits, comments, .. } = wanted;
    let thing = format!(
        "session {id} ({} seats in {hall}, {}, {})",
        there.map_or(layout, |there| &there.layout).seats(),
        date_and_time(starts_at),
        prices.iter().map(|(category, price)| format!("{category} {}", amount(*price))).collect::<Vec<_>>().join(", "),
    );
    let session = NewSession {
        id: id.clone(),
        hall: hall.clone(),
        title: title.clone(),
        starts_at,
        ends_at,
        prices,
        areas: areas.clone(),
        hold_ttl_ms: *hold_ttl_ms,
        limits: limits.clone(),
        comments: comments.as_str().into(),
    };
    if let Some(there) = there {
        return match differences(venue, &session, there).as_slice() {
            [] => Step { sellable: Some(id.to_string()), ..Step::settled(Fate::There, thing) },
            different => refused(format!(
                "it is there already with another {}; sessions do not change: call the new one something else",
                different.join(", ")
            )),
        };
    }
    let command = BatchCommand::session_create(client.new_request_id(), &venue.id, session);
    Step {
        fate: Fate::Made,
        thing,
        command: Some(command),
        bytes: ENVELOPE_BYTES + wanted.prices.len() * ENVELOPE_BYTES,
        sellable: Some(id.to_string()),
    }
}

/// When the session starts and ends. A session that is there keeps times that are relative in the file: `+1d` is another
/// day tomorrow, but the same session.
fn times(
    wanted: &WantedSession,
    there: Option<&SessionView>,
    now: Timestamp,
) -> Result<(Timestamp, Timestamp), String> {
    let too_far = || "its time is beyond the year 9999".to_owned();
    let starts_at = match there {
        Some(there) if wanted.starts_at.is_relative() => there.starts_at,
        _ => wanted.starts_at.after(now).ok_or_else(too_far)?,
    };
    let ends_at = wanted.ends_at.after(starts_at).ok_or_else(too_far)?;
    if starts_at < ends_at {
        Ok((starts_at, ends_at))
    } else {
        Err(format!("it would end ({}) before it starts ({})", date_and_time(ends_at), date_and_time(starts_at)))
    }
}

/// What of a session is not as wanted.
fn differences(venue: &WantedVenue, wanted: &NewSession, there: &SessionView) -> Vec<&'static str> {
    let mut prices = there.prices.clone();
    prices.sort_by(|one, other| one.0.cmp(&other.0));
    [
        ("venue", venue.id == there.venue),
        ("hall", wanted.hall == there.hall),
        ("title", wanted.title == there.title),
        ("start", wanted.starts_at == there.starts_at),
        ("end", wanted.ends_at == there.ends_at),
        ("price", wanted.prices == prices),
        ("area", wanted.areas == there.areas),
        ("limit", wanted.limits == there.limits),
        ("comment", wanted.comments == there.comments),
        ("hold_ttl_ms", wanted.hold_ttl_ms == there.hold_ttl_ms),
    ]
    .into_iter()
    .filter_map(|(name, same)| (!same).then_some(name))
    .collect()
}

/// Sends the commands of these steps in batches and notes what became of them, in their order.
async fn send(client: &Client, mut steps: Vec<Step>, report: &mut Report) -> Result<(), Error> {
    let mut start = 0;
    while start < steps.len() {
        let (mut bytes, mut end) = (steps[start].bytes, start + 1);
        while end < steps.len() && end - start < BATCH_COMMANDS && bytes + steps[end].bytes <= BATCH_BYTES {
            bytes += steps[end].bytes;
            end += 1;
        }
        send_batch(client, &mut steps[start..end]).await?;
        start = end;
    }
    for step in steps {
        if let (Some(session), Fate::Made | Fate::Changed | Fate::There) = (step.sellable, &step.fate) {
            report.sellable(session);
        }
        report.note(step.fate, step.thing);
    }
    Ok(())
}

async fn send_batch(client: &Client, steps: &mut [Step]) -> Result<(), Error> {
    let mut open: Vec<usize> = (0..steps.len()).filter(|index| steps[*index].command.is_some()).collect();
    for attempt in 1..=ATTEMPTS {
        if open.is_empty() {
            return Ok(());
        }
        let commands: Vec<BatchCommand> = open.iter().filter_map(|index| steps[*index].command.clone()).collect();
        let replies = match client.batch(&commands).await {
            Ok(replies) => replies,
            // One of them is refused by its looks, and the others with it: which one shows by itself.
            Err(Error::Refused(_)) if commands.len() > 1 => {
                let mut replies = Vec::new();
                for command in commands {
                    replies.push(alone(client, command).await?);
                }
                replies
            }
            Err(Error::Refused(no)) => vec![reply::Reply::No(*no)],
            Err(error) => return Err(error),
        };
        let mut again = Vec::new();
        let mut wait = Duration::ZERO;
        for (index, reply) in open.into_iter().zip(replies) {
            match reply {
                reply::Reply::Ok((), _) => {}
                // Nothing else of the file would fare better.
                reply::Reply::No(no) if no.name == "unauthenticated" => return Err(Error::Refused(Box::new(no))),
                reply::Reply::No(no) => steps[index].fate = Fate::Refused(no.to_string()),
                reply::Reply::Fail(fail) if attempt < ATTEMPTS => {
                    wait = wait.max(Duration::from_millis(fail.retry_after_ms.unwrap_or(200).into()));
                    again.push(index);
                }
                reply::Reply::Fail(fail) => steps[index].fate = Fate::Refused(format!("{fail}; import again")),
            }
        }
        open = again;
        tokio::time::sleep(wait).await;
    }
    Ok(())
}

async fn alone(client: &Client, command: BatchCommand) -> Result<reply::Reply<()>, Error> {
    match client.batch(&[command]).await {
        Ok(mut replies) => Ok(replies.pop().expect("an answer for each command")),
        Err(Error::Refused(no)) => Ok(reply::Reply::No(*no)),
        Err(error) => Err(error),
    }
}

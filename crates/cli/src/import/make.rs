//! Carries out an import: reads what exists, sends the rest, and notes the results.

use std::{collections::BTreeMap, io::IsTerminal, sync::Arc, time::Duration};

use boxoffice_client::{
    BatchCommand, Client, CodeView, Error, HallView, Id, Layout, NewSession, SessionExtras, SessionView, Timestamp,
    Title, VenueView,
};
use boxoffice_core::{
    calendar::Zone,
    command::{CodeDetails, Offering, ProductDetails, VenueDetails},
    session,
    text::Text,
};
use boxoffice_seating::PlanDifference;
use boxoffice_wire::{
    Encoding, Op, body,
    limits::{HALL_FRAME_BYTES_MAX, IMPORT_FRAME_BYTES_MAX},
    reply,
};
use smol_str::{SmolStr, format_smolstr};

use super::{
    plan::{CodePlan, HallPlan, ImportPlan, SessionPlan, VenuePlan},
    price_list::{PriceChange, PriceList},
    reads::{SESSION_SPAN_MAX_MS, known, read_all},
    removed,
    report::{EntryResult, Report},
};
use crate::{
    draw::amount,
    local_time::{date_and_time_in, zone_or_utc},
    words::counted,
};

/// Commands of one batch, well below the protocol's limit, so that its answers come soon.
const BATCH_COMMANDS: usize = 100;

/// Bytes of the commands of one batch, so that the whole frame stays below the protocol's limit.
const BATCH_BYTES: usize = IMPORT_FRAME_BYTES_MAX / 2;

/// Bytes of a frame around its hall.
const ENVELOPE_BYTES: usize = 512;

/// The maximum of bytes of a title, product or resource in a frame. Their texts are limited to less.
const THING_BYTES: usize = 32 * 1024;

/// Bytes of a code in a frame, well above those of the longest one with its group.
const CODE_BYTES: usize = 512;

/// Codes that are read and sent together. A file has many, and what is read of them need not be in memory at once.
const CODES_AT_ONCE: usize = 2_000;

/// How often a failing command (busy, not ready) is tried in all.
const ATTEMPTS: usize = 5;

/// How long a batch may take, enough for a hundred sessions on a slow disk.
const BATCH_TIME: Duration = Duration::from_secs(60);

/// Milliseconds of a day of 24 hours.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// How many entries a list has of which the progress is shown.
const SHOWN_PROGRESS: usize = 500;

/// A command, and the note for the report.
struct Step {
    fate: EntryResult,
    thing: String,
    send: Sent,
    bytes: usize,
    sellable: Option<String>,
    /// The line of the file, which is told if the command is refused.
    line: Option<u64>,
}

/// What a step sends.
enum Sent {
    Nothing,
    /// With others.
    InBatch(BatchCommand),
    /// A hall that is too long for a batch.
    Alone(body::HallPut),
    /// Other terms of a session.
    Change(Box<body::SessionChange>),
}

impl Step {
    fn validated(fate: EntryResult, thing: String) -> Step {
        Step { fate, thing, send: Sent::Nothing, bytes: 0, sellable: None, line: None }
    }
}

/// Creates everything that does not exist yet. Relative times are counted from `now`. A report of a check says what would be done, and
/// nothing is sent.
///
/// # Errors
/// The node cannot be reached any more, or its answer cannot be read.
pub async fn make(client: &Client, plan: &ImportPlan, now: Timestamp, mut report: Report) -> Result<Report, Error> {
    let client = client.with_deadline(BATCH_TIME);
    let venues = &plan.venues;
    // Nothing is changed if a seat that is on sale would be gone.
    if removed::refuse(&client, venues, now, &mut report).await? {
        return Ok(report);
    }
    make_things(&client, plan, &mut report).await?;
    let there = read_all(venues.as_slice(), |venue| async { known(client.venue_get(&venue.id).await) }).await?;
    let zones: BTreeMap<&Id, Zone> =
        venues.iter().zip(&there).map(|(venue, there)| (&venue.id, zone_of(venue, there.as_ref()))).collect();
    for (venue, _) in venues.iter().zip(&there).filter(|(venue, there)| there.is_none() && venue.details.zone.is_none())
    {
        report.warn(format!(
            "venue {} has no zone, so its times are read and shown in UTC; say one, like Europe/Copenhagen",
            venue.id
        ));
    }
    let steps = venues.iter().zip(&there).map(|(venue, there)| venue_step(&client, venue, there.as_ref())).collect();
    send(&client, steps, &mut report).await?;

    let halls: Vec<(&VenuePlan, &HallPlan)> =
        venues.iter().flat_map(|venue| venue.halls.iter().map(move |hall| (venue, hall))).collect();
    let there = read_all(&halls, |(venue, hall)| async { known(client.hall_get(&venue.id, &hall.id).await) }).await?;
    let steps = halls.iter().zip(&there).map(|((venue, hall), there)| hall_step(&client, venue, hall, there.as_ref()));
    send(&client, steps.collect(), &mut report).await?;

    let sessions: Vec<(&VenuePlan, &SessionPlan)> =
        venues.iter().flat_map(|venue| venue.sessions.iter().map(move |session| (venue, session))).collect();
    let mut layouts = layouts(&client, &sessions).await?;
    if report.is_check() {
        // Halls that would be there.
        let planned = halls.iter().map(|(venue, hall)| ((venue.id.clone(), hall.id.clone()), Arc::clone(&hall.layout)));
        layouts.extend(planned);
    }
    let there = read_all(&sessions, |(_, session)| async { known(client.session_get(&session.id).await) }).await?;
    let steps = sessions.iter().zip(&there).map(|((venue, session), there)| {
        let layout = layouts.get(&(venue.id.clone(), session.hall.clone()));
        session_step(&client, venue, session, layout, there.as_ref(), (now, &zones[&venue.id]))
    });
    let steps: Vec<Step> = steps.collect();
    send(&client, steps, &mut report).await?;
    make_prices(&client, &plan.prices, &mut report).await?;
    Ok(report)
}

/// Titles, products, resources and codes. Differences from the file are changed.
async fn make_things(client: &Client, plan: &ImportPlan, report: &mut Report) -> Result<(), Error> {
    let ImportPlan { titles, products, resources, codes, products_are_lines, .. } = plan;
    let there = read_all(titles, |(id, _)| async { known(client.title_get(id).await) }).await?;
    let mut steps: Vec<Step> = titles
        .iter()
        .zip(there)
        .map(|((id, title), there)| {
            let command = || BatchCommand::title_put(client.new_request_id(), id, title.clone());
            thing_step(format!("title {id} ({})", title.name), there.map(|there| there.title == *title), command)
        })
        .collect();
    // A title that only a session names is created if it does not exist, and is never changed.
    let named = plan.titles_of_sessions_only();
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
        // A line of a list says nothing of the rest.
        let details = match &there {
            Some(there) if *products_are_lines => {
                let ProductDetails { name, price, stock, .. } = details.clone();
                ProductDetails { name, price, stock, ..there.details.clone() }
            }
            Some(_) | None => details.clone(),
        };
        let command = || BatchCommand::product_put(client.new_request_id(), id, details.clone());
        let thing = format!("product {id} ({} of {}, {} each)", details.stock, details.name, amount(details.price));
        thing_step(thing, there.map(|there| there.details == details), command)
    });
    send(client, steps.collect(), report).await?;
    let there = read_all(resources, |(id, _)| async { known(client.resource_get(id).await) }).await?;
    let steps = resources.iter().zip(there).map(|((id, details), there)| {
        let command = || BatchCommand::resource_put(client.new_request_id(), id, details.clone());
        let thing = format!("resource {id} ({}, {} at a time)", details.name, details.capacity);
        thing_step(thing, there.map(|there| there.details == *details), command)
    });
    send(client, steps.collect(), report).await?;
    make_codes(client, codes, report).await
}

/// Codes, some at a time.
async fn make_codes(client: &Client, codes: &[CodePlan], report: &mut Report) -> Result<(), Error> {
    let mut progress = Progress::of(codes.len());
    for codes in codes.chunks(CODES_AT_ONCE) {
        let there = read_all(codes, |plan| async { known(client.code_get(&plan.code).await) }).await?;
        let steps = codes.iter().zip(there).map(|(plan, there)| {
            let CodePlan { code, details, keeps_ended, keeps_by_order, line } = plan;
            let mut details = details.clone();
            if let Some(there) = &there {
                details.ended = if *keeps_ended { there.ended } else { details.ended };
                details.by_order = if *keeps_by_order { there.by_order } else { details.by_order };
            }
            let CodeDetails { group, uses, ended, by_order } = &details;
            // Reports may be kept longer than a code is secret.
            let thing = format!("a code of {group} ({})", counted(u64::from(*uses), "use"));
            let same = |of: &CodeView| (&of.group, of.uses, of.ended, of.by_order) == (group, *uses, *ended, *by_order);
            let same = there.as_ref().map(same);
            let command = || BatchCommand::code_put(client.new_request_id(), code, details.clone());
            Step { bytes: CODE_BYTES, line: *line, ..thing_step(thing, same, command) }
        });
        send_with(client, steps.collect(), report, &mut progress).await?;
    }
    progress.end();
    Ok(())
}

/// Prices of sessions that are there.
async fn make_prices(client: &Client, lists: &[PriceList], report: &mut Report) -> Result<(), Error> {
    let session = async |list: &PriceList| match client.session_get(&list.session).await {
        Ok(reply) => Ok(Some(Ok(reply.value))),
        // The answer of another code than `not_found` must not read as if there were no session.
        Err(Error::Refused(no)) => Ok(Some(Err(no.to_string()))),
        Err(error) => Err(error),
    };
    let there = read_all(lists, session).await?;
    let steps = lists.iter().zip(there.into_iter().flatten()).map(|(list, there)| {
        let thing = format!("session {} ({})", list.session, list.size());
        let there = match there {
            Ok(there) => there,
            Err(why) => return Step::validated(EntryResult::Refused(why), thing),
        };
        let sellable = Some(list.session.to_string());
        match list.change(&there.session, there.sale.as_ref().map_or(0, |sale| sale.terms)) {
            Err(why) => Step::validated(EntryResult::Refused(why), thing),
            Ok(None) => Step { sellable, ..Step::validated(EntryResult::There, thing) },
            Ok(Some(PriceChange { change, different })) => Step {
                fate: EntryResult::Changed,
                thing: format!("{thing}: {}", different.join("; ")),
                send: Sent::Change(Box::new(change)),
                bytes: ENVELOPE_BYTES,
                sellable,
                line: None,
            },
        }
    });
    send(client, steps.collect(), report).await
}

/// `same` says whether the existing entry is as in the file. `None` if there is none.
fn thing_step(thing: String, same: Option<bool>, command: impl FnOnce() -> BatchCommand) -> Step {
    let fate = match same {
        Some(true) => return Step::validated(EntryResult::There, thing),
        Some(false) => EntryResult::Changed,
        None => EntryResult::Made,
    };
    Step { fate, thing, send: Sent::InBatch(command()), bytes: THING_BYTES, sellable: None, line: None }
}

fn venue_step(client: &Client, venue: &VenuePlan, there: Option<&VenueView>) -> Step {
    let VenuePlan { id, details, .. } = venue;
    // A venue that stays as it is is reported with its own name.
    let details = match there {
        Some(there) if venue.only_if_absent => {
            let (own, wanted) = (there.details.zone.as_deref(), details.zone.as_deref());
            if wanted.is_some() && wanted.and_then(Zone::new) != own.and_then(Zone::new) {
                let (own, wanted) = (own.unwrap_or("no zone"), wanted.unwrap_or_default());
                let why = format!(
                    "it is there already with {own}, not {wanted}; its zone changes with a JSON file or venue.put"
                );
                return Step::validated(EntryResult::Refused(why), format!("venue {id}"));
            }
            there.details.clone()
        }
        // A file that says no zone does not take one away, because no instant would move and every hour would be another.
        there => {
            let zone = zone_name(venue, there);
            VenueDetails { zone, ..details.clone() }
        }
    };
    let city = if details.city.is_empty() { String::new() } else { format!(", {}", details.city) };
    let thing = format!("venue {id} ({}{city})", details.name);
    let fate = match there {
        Some(there) if there.details == details => return Step::validated(EntryResult::There, thing),
        Some(_) => EntryResult::Changed,
        None => EntryResult::Made,
    };
    let texts = [&details.name, &details.city, &details.comments, &details.address];
    let bytes = ENVELOPE_BYTES + texts.iter().map(|text| text.len()).sum::<usize>();
    let command = BatchCommand::venue_put(client.new_request_id(), id, details);
    Step { fate, thing, send: Sent::InBatch(command), bytes, sellable: None, line: None }
}

fn hall_step(client: &Client, venue: &VenuePlan, hall: &HallPlan, there: Option<&HallView>) -> Step {
    let seats = hall.layout.seats();
    let called = |more: &str| format!("hall {} of {} ({seats} seats{more})", hall.id, venue.id);
    let (fate, thing) = match there {
        Some(there)
            if (there.name.as_str(), there.comments.as_str(), &there.layout)
                == (hall.name.as_str(), hall.comments.as_str(), &hall.layout) =>
        {
            return Step::validated(EntryResult::There, called(""));
        }
        Some(there) => {
            let different = PlanDifference::between(&there.layout, &hall.layout).words();
            (EntryResult::Changed, called(&different.iter().map(|words| format!("; {words}")).collect::<String>()))
        }
        None => (EntryResult::Made, called("")),
    };
    let put = body::HallPut {
        venue: venue.id.clone(),
        id: hall.id.clone(),
        name: Text::as_said(hall.name.as_str()),
        comments: Text::as_said(hall.comments.as_str()),
        layout: Arc::clone(&hall.layout),
    };
    let bytes = ENVELOPE_BYTES + frame_bytes(&put);
    if bytes > HALL_FRAME_BYTES_MAX {
        let why = format!(
            "its layout is {bytes} bytes long and may have {HALL_FRAME_BYTES_MAX}; leave x and y of straight rows out, \
             or split the hall"
        );
        return Step::validated(EntryResult::Refused(why), thing);
    }
    let send = if bytes > BATCH_BYTES {
        Sent::Alone(put)
    } else {
        let command = BatchCommand::hall_put(client.new_request_id(), &put.venue, &put.id, &hall.name, put.layout);
        Sent::InBatch(command.with_comments(&hall.comments))
    };
    Step { fate, thing, send, bytes, sellable: None, line: None }
}

fn frame_bytes(put: &body::HallPut) -> usize {
    let mut frame = Default::default();
    reply::request(Encoding::MsgPack, &mut frame, 0, Op::HallPut, None, None, put);
    frame.len()
}

/// The current layouts of the halls of these sessions.
async fn layouts(
    client: &Client,
    sessions: &[(&VenuePlan, &SessionPlan)],
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
    venue: &VenuePlan,
    plan: &SessionPlan,
    layout: Option<&Arc<Layout>>,
    there: Option<&SessionView>,
    (now, zone): (Timestamp, &Zone),
) -> Step {
    let id = plan.id.clone();
    let refused = |why: String| Step::validated(EntryResult::Refused(why), format!("session {id}"));
    let Some(layout) = layout else {
        return refused(format!("venue {} has no hall {}; make it first", venue.id, plan.hall));
    };
    // An existing session has its own copy of the layout.
    let prices = match plan.prices_in(there.map_or(layout, |there| &there.layout)) {
        Ok(prices) => prices,
        Err(why) => return refused(why),
    };
    let (starts_at, ends_at) = match times(plan, there, now, zone) {
        Ok(times) => times,
        Err(why) => return refused(why),
    };
    let offering = match plan.offering_at(starts_at, zone) {
        Ok(offering) => offering,
        Err(why) => return refused(why),
    };
    let SessionPlan { hall, title, areas, hold_ttl_ms, limits, comments, .. } = plan;
    let SessionPlan { sells_after_begin, no_single_seats, min_party, .. } = plan;
    let thing = format!(
        "session {id} ({} seats in {hall}, {}, {})",
        there.map_or(layout, |there| &there.layout).seats(),
        date_and_time_in(zone, starts_at),
        prices.iter().map(|(category, price)| format!("{category} {}", amount(*price))).collect::<Vec<_>>().join(", "),
    );
    let session = NewSession {
        id: id.clone(),
        hall: hall.clone(),
        title: title.clone(),
        starts_at,
        ends_at,
        prices,
        extras: SessionExtras {
            areas: areas.clone(),
            hold_ttl_ms: *hold_ttl_ms,
            limits: limits.clone(),
            comments: comments.as_str().into(),
            sells_after_begin: *sells_after_begin,
            offering: (!offering.is_empty()).then(|| Arc::new(offering)),
            no_single_seats: *no_single_seats,
            min_party: *min_party,
        },
    };
    if let Some(there) = there {
        return match differences(venue, &session, layout, there).as_slice() {
            [] => Step { sellable: Some(id.to_string()), ..Step::validated(EntryResult::There, thing) },
            different => match change_of(venue, &session, layout, there) {
                Some(change) => Step {
                    fate: EntryResult::Changed,
                    thing: format!("{thing}: {}", different.join("; ")),
                    bytes: ENVELOPE_BYTES,
                    send: Sent::Change(Box::new(change)),
                    sellable: Some(id.to_string()),
                    line: None,
                },
                None => refused(format!(
                    "it is there already: {}. A session keeps its place, its title and its times, so call the new one something \
                     else",
                    different.join("; ")
                )),
            },
        };
    }
    let command = BatchCommand::session_create(client.new_request_id(), &venue.id, session);
    Step {
        fate: EntryResult::Made,
        thing,
        send: Sent::InBatch(command),
        // The answer has the layout, of at most some sixteen bytes a seat, and may be sixteen times as long as a request.
        bytes: ENVELOPE_BYTES + plan.prices.len() * ENVELOPE_BYTES + layout.seats() as usize,
        sellable: Some(id.to_string()),
        line: None,
    }
}

/// The start and the end of a session. An existing session keeps its times if the file has relative ones, because `+1d` is
/// another day tomorrow.
///
/// # Errors
/// A time that does not exist, exists twice or is too far, an end that is not after the start, more than 31 days, or a new session
/// that is over or has begun and does not sell after that.
fn times(
    plan: &SessionPlan,
    there: Option<&SessionView>,
    now: Timestamp,
    zone: &Zone,
) -> Result<(Timestamp, Timestamp), String> {
    let starts_at = match there {
        Some(there) if plan.starts_at.is_relative() => there.starts_at,
        _ => plan.starts_at.after(now, zone)?,
    };
    let ends_at = plan.ends_at.after(starts_at, zone)?;
    let (start, end) = (date_and_time_in(zone, starts_at), date_and_time_in(zone, ends_at));
    if starts_at >= ends_at {
        return Err(format!("it would end ({end}) before it starts ({start})"));
    }
    let span_ms = ends_at.0 - starts_at.0;
    if span_ms > SESSION_SPAN_MAX_MS {
        let days = span_ms.div_ceil(DAY_MS);
        return Err(format!(
            "it would take {days} days ({start} to {end}), and a session takes 31 days at most; make several"
        ));
    }
    if there.is_none() && ends_at <= now {
        return Err(format!("it is over since {end}; is the year right?"));
    }
    if there.is_none() && starts_at <= now && !plan.sells_after_begin {
        return Err(format!(
            "it has begun at {start}, so only the desk would sell it; say `sells_after_begin` if all may"
        ));
    }
    Ok((starts_at, ends_at))
}

/// The name of the zone of a venue: that of the file, or the one that the venue has.
fn zone_name(venue: &VenuePlan, there: Option<&VenueView>) -> Option<SmolStr> {
    let own = venue.details.zone.as_deref().and_then(Zone::new).map(|zone| SmolStr::new(zone.name()));
    own.or_else(|| there?.details.zone.clone())
}

/// The zone in which the times of a venue's sessions are read.
fn zone_of(venue: &VenuePlan, there: Option<&VenueView>) -> Zone {
    let known = there.filter(|_| venue.only_if_absent).map(|there| there.details.zone.clone());
    zone_or_utc(known.unwrap_or_else(|| zone_name(venue, there)).as_deref())
}

/// The change that makes the session that is there into that of the file. `None` if it differs in what no change changes.
fn change_of(
    venue: &VenuePlan,
    plan: &NewSession,
    layout: &Layout,
    there: &SessionView,
) -> Option<body::SessionChange> {
    let NewSession { id, prices, extras, .. } = plan.clone();
    let mut only_terms = NewSession { prices: there.prices.clone(), ..plan.clone() };
    only_terms.extras = there.extras.clone();
    if !differences(venue, &only_terms, layout, there).is_empty() {
        return None;
    }
    let SessionExtras { areas, hold_ttl_ms, limits, comments, .. } = extras;
    let SessionExtras { sells_after_begin, offering, no_single_seats, min_party, .. } = extras;
    let Offering { price_types, offers, counters, allotments } = offering.as_deref().cloned().unwrap_or_default();
    Some(body::SessionChange {
        prices: Some(prices),
        areas: Some(areas.into_iter().map(body::AreaBody::from).collect()),
        hold_ttl_ms,
        limits: Some(limits.into()),
        comments: Some(Text::as_said(comments)),
        sells_after_begin: Some(sells_after_begin),
        no_single_seats: Some(no_single_seats),
        min_party: Some(min_party.unwrap_or(1)),
        price_types: Some(price_types.into_iter().map(body::PriceTypeBody::from).collect()),
        offers: Some(offers.into_iter().map(body::OfferBody::from).collect()),
        counters: Some(counters.into_iter().map(body::CounterBody::from).collect()),
        allotments: Some(allotments.into_iter().map(body::AllotmentBody::from).collect()),
        ..body::SessionChange::of(id)
    })
}

/// What a session that is there differs in from that of the file, with both, and the differences of its plan in words.
fn differences(venue: &VenuePlan, plan: &NewSession, layout: &Layout, there: &SessionView) -> Vec<SmolStr> {
    let known = NewSession {
        id: there.id.clone(),
        hall: there.hall.clone(),
        title: there.title.clone(),
        starts_at: there.starts_at,
        ends_at: there.ends_at,
        prices: there.prices.clone(),
        extras: there.extras.clone(),
    };
    let elsewhere =
        (venue.id != there.venue).then(|| format_smolstr!("its venue is {}, not {}", there.venue, venue.id));
    let seats = PlanDifference::between(&there.layout, layout).words();
    let seats = (!seats.is_empty()).then(|| format_smolstr!("its plan differs ({})", seats.join("; ")));
    elsewhere.into_iter().chain(session::differences(&known, plan)).chain(seats).collect()
}

/// Sends the commands of these steps in batches, and notes their results in order.
async fn send(client: &Client, steps: Vec<Step>, report: &mut Report) -> Result<(), Error> {
    let mut progress = Progress::of(steps.len());
    send_with(client, steps, report, &mut progress).await?;
    progress.end();
    Ok(())
}

/// As [`send`], for a part of what a progress is of.
async fn send_with(
    client: &Client,
    mut steps: Vec<Step>,
    report: &mut Report,
    progress: &mut Progress,
) -> Result<(), Error> {
    let mut start = 0;
    while start < steps.len() && !report.is_check() {
        let (mut bytes, mut end) = (steps[start].bytes, start + 1);
        while end < steps.len() && end - start < BATCH_COMMANDS && bytes + steps[end].bytes <= BATCH_BYTES {
            bytes += steps[end].bytes;
            end += 1;
        }
        send_batch(client, &mut steps[start..end]).await?;
        progress.add(end - start);
        start = end;
    }
    for step in steps {
        if let (Some(session), EntryResult::Made | EntryResult::Changed | EntryResult::There) =
            (step.sellable, &step.fate)
        {
            report.sellable(session);
        }
        let thing = match (&step.fate, step.line) {
            (EntryResult::Refused(_), Some(line)) => format!("{} in line {line}", step.thing),
            _ => step.thing,
        };
        report.note(step.fate, thing);
    }
    Ok(())
}

/// How many entries of a long list are sent, on a line of the terminal that is written again and again.
struct Progress {
    all: usize,
    sent: usize,
    is_shown: bool,
}

impl Progress {
    fn of(all: usize) -> Progress {
        Progress { all, sent: 0, is_shown: all >= SHOWN_PROGRESS && std::io::stderr().is_terminal() }
    }

    fn add(&mut self, sent: usize) {
        self.sent += sent;
        if self.is_shown {
            eprint!("\r{} of {}", self.sent, self.all);
        }
    }

    fn end(&mut self) {
        if self.is_shown {
            eprint!("\r{:width$}\r", "", width = 2 * self.all.to_string().len() + 4);
        }
    }
}

async fn send_batch(client: &Client, steps: &mut [Step]) -> Result<(), Error> {
    for step in steps.iter_mut() {
        let sent = match &step.send {
            Sent::Alone(body::HallPut { venue, id, name, comments, layout }) => {
                client.hall_put(venue, id, &**name, Arc::clone(layout)).comments(&**comments).await.map(|_| ())
            }
            Sent::Change(change) => client.session_change(change).await.map(|_| ()),
            Sent::Nothing | Sent::InBatch(_) => continue,
        };
        match sent {
            Ok(()) => {}
            Err(Error::Refused(no)) if no.name == "unauthenticated" => return Err(Error::Refused(no)),
            Err(Error::Refused(no)) => step.fate = EntryResult::Refused(no.to_string()),
            Err(error) => return Err(error),
        }
    }
    let is_in_batch = |index: &usize| matches!(steps[*index].send, Sent::InBatch(_));
    let mut open: Vec<usize> = (0..steps.len()).filter(is_in_batch).collect();
    for attempt in 1..=ATTEMPTS {
        if open.is_empty() {
            return Ok(());
        }
        let command = |index: &usize| match &steps[*index].send {
            Sent::InBatch(command) => Some(command.clone()),
            Sent::Nothing | Sent::Alone(_) | Sent::Change(_) => None,
        };
        let commands: Vec<BatchCommand> = open.iter().filter_map(command).collect();
        let replies = match client.batch(&commands).await {
            Ok(replies) => replies,
            // An invalid command has the whole batch refused. One by one, it is found.
            Err(Error::Refused(_)) if commands.len() > 1 => {
                let mut replies = Vec::new();
                for command in commands {
                    replies.push(send_one(client, command).await?);
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
                // The rest of the file would fail the same way.
                reply::Reply::No(no) if no.name == "unauthenticated" => return Err(Error::Refused(Box::new(no))),
                reply::Reply::No(no) => steps[index].fate = EntryResult::Refused(no.to_string()),
                reply::Reply::Fail(fail) if attempt < ATTEMPTS => {
                    wait = wait.max(Duration::from_millis(fail.retry_after_ms.unwrap_or(200).into()));
                    again.push(index);
                }
                reply::Reply::Fail(fail) => steps[index].fate = EntryResult::Refused(format!("{fail}; import again")),
            }
        }
        open = again;
        tokio::time::sleep(wait).await;
    }
    Ok(())
}

async fn send_one(client: &Client, command: BatchCommand) -> Result<reply::Reply<()>, Error> {
    match client.batch(&[command]).await {
        Ok(mut replies) => Ok(replies.pop().expect("an answer for each command")),
        Err(Error::Refused(no)) => Ok(reply::Reply::No(*no)),
        Err(error) => Err(error),
    }
}

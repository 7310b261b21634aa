//! Queries that are more than one command: an audit of the node, or of an entity with its carts, an order with its names, a search over
//! all venues of a city, a history, an entity as it was.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use boxoffice_core::{
    answer::{Answer, Answered, AsOf, CartAudit, HoldView, LineView, NamedInTerms, SaleView, SessionNames, TermsNames},
    command::{CartCommand, Command, DirectoryCommand, SessionCommand},
    id::{CartId, Entity, Id},
    portion::{BoughtAs, Content, PricedSeat},
    refusal::Refusal,
    seat::Seat,
    time::Timestamp,
};
use boxoffice_node::{
    api::Failure,
    as_of::AsOfError,
    backup::{BackupAnswer, BackupError},
    history::{HistoryError, HistoryPart},
};
use boxoffice_wire::{
    Fail, FailKind, Op,
    call::{BackupQuery, CitySearch, Shape},
    city::{CityMerge, CityPage},
    encode::Verdict,
    event_text::{EventText, event_text},
    permission::VenueRule,
    rejection::Rejection,
    repr::rfc3339,
    status::{BackupPiece, BackupPlaces, HistoryEntry, HistoryPage, NodeAudit},
    weight,
};
use futures_util::stream::{self, StreamExt as _};
use smol_str::{SmolStr, format_smolstr};
use tokio::time::{Instant, timeout_at};

use crate::{
    budgets::Owners,
    caller::Caller,
    failures::fail_of,
    inner_read::{self, NotRead},
    shared::{ConnectionPermit, Shared},
    submission::Submission,
    venues,
};

/// Venues that one search asks at the same time. Enough to share the work, and few enough not to hold up others.
const VENUES_UNDER_WAY_MAX: usize = 32;

/// The first minor of the protocol in which sessions tell their names.
const NAMES_MINOR: u32 = 6;

/// Sessions that one order asks at the same time.
const SESSIONS_UNDER_WAY_MAX: usize = 32;

/// Carts that one audit asks at the same time.
const CARTS_UNDER_WAY_MAX: usize = 32;

/// A query.
#[derive(Debug)]
pub(crate) enum FanOutQuery {
    /// Counts everything that the node holds.
    Audit,
    /// Audits an inventory, and asks the carts of its holds and sales for customers and the begin of the holds.
    AuditWithCarts {
        command: Command,
        /// Only if the entity belongs to one of these venues. All if empty.
        venues: Arc<[Id]>,
    },
    /// Reads an order, and asks its sessions what its lines say by id and number.
    NamedOrder {
        command: Command,
        /// Who asks. The order is read as it is for everybody.
        caller: Box<Caller>,
    },
    /// Asks every venue of a city for sessions.
    City(CitySearch),
    /// What a backup reads.
    Backup {
        query: BackupQuery,
        /// The name of the key that asks.
        by: Option<SmolStr>,
    },
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
    /// An entity as it was at an instant.
    AsOf {
        entity: Entity,
        at: Timestamp,
        /// Only if the entity belongs to one of these venues. All if empty.
        venues: Arc<[Id]>,
    },
}

/// The result of a query.
pub(crate) enum QueryResult {
    Audit(Box<NodeAudit>),
    Entity(Box<Verdict>),
    City(CityPage),
    History(HistoryPage),
    BackupPlaces(Box<BackupPlaces>),
    BackupPiece(BackupPiece),
    AsOf(Box<AsOf>),
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
        FanOutQuery::AuditWithCarts { command, venues } => {
            let left_ms = deadline.saturating_duration_since(Instant::now()).as_millis() as u64;
            if !venues.is_empty() {
                let rule = Op::AdminAudit.permission().venues;
                venues::may_read(&shared, &venues, rule, &command.entity(), left_ms).await?;
            }
            let submission = Submission::begin(&shared, &permit, Caller::default(), deadline).map_err(failed)?;
            match timeout_at(deadline, audit_with_carts(&shared, submission, &owners, command, left_ms)).await {
                Ok(audit) => audit.map(QueryResult::Entity),
                Err(_) => Err(failed(FailKind::Unknown)),
            }
        }
        FanOutQuery::NamedOrder { command, caller } => {
            let left_ms = deadline.saturating_duration_since(Instant::now()).as_millis() as u64;
            let submission = Submission::begin(&shared, &permit, *caller, deadline).map_err(failed)?;
            let read = submission.command(Some(Op::OrderGet), command, None, Shape::Plain).await;
            match timeout_at(deadline, with_names(&shared, &owners, read, left_ms)).await {
                Ok(order) => order.map(QueryResult::Entity),
                Err(_) => Err(failed(FailKind::Unknown)),
            }
        }
        FanOutQuery::City(search) => {
            let submission = Submission::begin(&shared, &permit, Caller::default(), deadline).map_err(failed)?;
            city(&shared, submission, &owners, &search).await.map(QueryResult::City)
        }
        FanOutQuery::Backup { query, by } => match timeout_at(deadline, shared.backend.backup(query.clone())).await {
            Ok(Ok(BackupAnswer::Places(places))) => {
                if matches!(query, BackupQuery::Places { mark: true, .. }) {
                    // A backup changes nothing, so no history has it.
                    let by = by.as_deref().unwrap_or("without a name");
                    tracing::warn!(by, mark = places.mark, "a backup of everything is taken, up to this mark");
                }
                Ok(QueryResult::BackupPlaces(places))
            }
            Ok(Ok(BackupAnswer::Piece { bytes, next })) => {
                let (data, next) = (STANDARD.encode(bytes).into(), next.map(Some));
                Ok(QueryResult::BackupPiece(BackupPiece { data, next: next.flatten() }))
            }
            Ok(Err(error)) => Err(not_backed_up(error)),
            Err(_) => Err(failed(FailKind::Unknown)),
        },
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
        FanOutQuery::AsOf { entity, at, venues } => {
            if !venues.is_empty() {
                let left = deadline.saturating_duration_since(Instant::now()).as_millis() as u64;
                venues::may_read(&shared, &venues, Op::AdminMap.permission().venues, &entity, left).await?;
            }
            match timeout_at(deadline, as_of(&shared, entity, at)).await {
                Ok(then) => then.map(|then| QueryResult::AsOf(Box::new(then))),
                Err(_) => Err(failed(FailKind::Unknown)),
            }
        }
    }
}

/// An entity as it was at an instant.
async fn as_of(shared: &Shared, entity: Entity, at: Timestamp) -> Result<AsOf, Box<Verdict>> {
    let then = match shared.backend.as_of(&entity, at).await {
        Ok(then) => then,
        Err(AsOfError::History(error)) => return Err(unread(&entity, &error)),
        Err(AsOfError::Failed(Failure::Unknown)) => return Err(failed(FailKind::NotReady)),
        Err(AsOfError::Failed(failure)) => return Err(Box::new(Verdict::Fail(fail_of(failure)))),
        Err(AsOfError::Refused(refusal)) => return Err(Box::new(Verdict::No(refusal))),
        Err(AsOfError::NotYet) => return Err(Box::new(Verdict::No(Refusal::NotMadeYet(entity)))),
        Err(AsOfError::Below { floor }) => return Err(Box::new(Verdict::No(Refusal::NotKept { entity, floor }))),
        Err(AsOfError::Ahead { now }) => {
            let why = format_smolstr!("`at` is ahead of now, {}", rfc3339(now).unwrap_or_default());
            return Err(Box::new(Verdict::No(Refusal::BadRequest(why))));
        }
        Err(error @ AsOfError::OtherKind(_)) => {
            return Err(Box::new(Verdict::No(Refusal::BadRequest(format_smolstr!("{error}")))));
        }
    };
    let mut answer = AsOf {
        entity,
        at,
        since: then.since,
        until: then.until,
        floor: then.floor,
        position: then.position,
        version: then.state.version(),
        map: then.map(),
        session: None,
        product: None,
        resource: None,
    };
    match then.audit() {
        Answer::SessionAudit(audit) => answer.session = Some(*audit),
        Answer::ProductAudit(audit) => answer.product = Some(*audit),
        Answer::ResourceAudit(audit) => answer.resource = Some(*audit),
        other => unreachable!("an inventory was asked for its audit and said {other:?}"),
    }
    Ok(answer)
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
    let venues = match answered(submission.answers().await.pop().map(|(_, result)| result))?.answer {
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
            match answered(Some(result))?.answer {
                Answer::Sessions(entries) => merge.add(&venue, entries),
                other => unreachable!("a venue was asked for sessions and said {other:?}"),
            }
        }
    }
}

/// Audits an inventory, then asks the carts of its holds and sales, a few at a time.
///
/// Inventories know no customers and no begin of a hold, because every hold would have to store what only operators read. The
/// carts have both, wherever they are, also after they ended.
async fn audit_with_carts(
    shared: &Shared,
    submission: Submission,
    owners: &Owners,
    command: Command,
    left_ms: u64,
) -> Result<Box<Verdict>, Box<Verdict>> {
    submission.submit(0, VenueRule::Unlimited, None, command, None);
    let Answered { mut answer, at } = answered(submission.answers().await.pop().map(|(_, result)| result))?;
    let (holds, sales) = held_and_sold(&mut answer);
    let ids = holds.iter().map(|hold| hold.hold).chain(sales.iter().map(|sale| sale.hold));
    let carts: BTreeSet<CartId> = ids.map(|id| id.cart).collect();
    shared.budgets.owe(owners, weight::of_carts(carts.len()), Instant::now());
    let reads = stream::iter(carts).map(|cart| async move {
        let command = Command::Cart(cart, CartCommand::Audit);
        (cart, inner_read::read(&shared.backend, command, left_ms).await)
    });
    let mut reads = reads.buffer_unordered(CARTS_UNDER_WAY_MAX);
    let mut known: BTreeMap<CartId, Box<CartAudit>> = BTreeMap::new();
    while let Some((cart, read)) = reads.next().await {
        match read {
            Ok(Answer::CartAudit(audit)) => drop(known.insert(cart, audit)),
            Ok(other) => unreachable!("a cart was asked for its audit and said {other:?}"),
            // The cart was never opened.
            Err(NotRead::Refused(Refusal::NotFound(_))) => {}
            Err(NotRead::Refused(refusal)) => return Err(Box::new(Verdict::No(refusal))),
            Err(NotRead::Failed(failure)) => return Err(Box::new(Verdict::Fail(fail_of(failure)))),
        }
    }
    drop(reads);
    for hold in holds {
        let Some(audit) = known.get(&hold.hold.cart) else { continue };
        hold.customer.clone_from(&audit.cart.customer);
        hold.since = audit.holds.iter().find(|claim| claim.hold == hold.hold).map(|claim| claim.since);
    }
    for sale in sales {
        let Some(audit) = known.get(&sale.hold.cart) else { continue };
        sale.customer.clone_from(&audit.cart.customer);
    }
    Ok(Box::new(Verdict::Ok(Answered { answer, at }, Shape::Plain)))
}

/// Asks the sessions of an order that was read what its lines say by id and number, a few at a time.
async fn with_names(
    shared: &Shared,
    owners: &Owners,
    read: Verdict,
    left_ms: u64,
) -> Result<Box<Verdict>, Box<Verdict>> {
    let Verdict::Ok(Answered { answer: Answer::Order { order, settling, payment, refunds, .. }, at }, shape) = read
    else {
        return Err(Box::new(read));
    };
    if shared.backend.minor() < NAMES_MINOR {
        // A member that is not upgraded yet could not read the question.
        let answer = Answer::Order { order, settling, payment, refunds, sessions: Vec::new() };
        return Ok(Box::new(Verdict::Ok(Answered { answer, at }, shape)));
    }
    let named = named_by(&order.lines);
    shared.budgets.owe(owners, weight::of_sessions(named.len()), Instant::now());
    let reads = named.into_iter().map(|(session, named)| async move {
        let (terms, seats) = (named.terms.keys().copied().collect(), named.seats.iter().copied().collect());
        let command = Command::Session(session, SessionCommand::Names { terms, seats });
        (named, inner_read::read(&shared.backend, command, left_ms).await)
    });
    // In their order, so that the answer is the same each time.
    let mut reads = stream::iter(reads).buffered(SESSIONS_UNDER_WAY_MAX);
    let mut sessions = Vec::new();
    while let Some((named, read)) = reads.next().await {
        match read {
            Ok(Answer::SessionNames(mut names)) => {
                named.retain_in(&mut names);
                sessions.push(*names);
            }
            Ok(other) => unreachable!("a session was asked for names and said {other:?}"),
            Err(NotRead::Refused(refusal)) => return Err(Box::new(Verdict::No(refusal))),
            Err(NotRead::Failed(failure)) => return Err(Box::new(Verdict::Fail(fail_of(failure)))),
        }
    }
    let answer = Answer::Order { order, settling, payment, refunds, sessions };
    Ok(Box::new(Verdict::Ok(Answered { answer, at }, shape)))
}

/// What the lines of an order name of one session.
#[derive(Default)]
struct NamedByLines {
    /// Ids of areas, price types and offers, by version of the terms.
    terms: BTreeMap<u32, BTreeSet<Id>>,
    seats: BTreeSet<Seat>,
}

impl NamedByLines {
    fn add(&mut self, bought_as: Option<&BoughtAs>, area: Option<&Id>) {
        let terms = bought_as.map_or(0, |it| it.terms);
        let ids = bought_as.into_iter().flat_map(|it| [&it.price_type, &it.offer]).flatten();
        self.terms.entry(terms).or_default().extend(ids.chain(area).cloned());
    }

    /// Leaves out what the lines do not name. It may be the house's business.
    fn retain_in(&self, names: &mut SessionNames) {
        for (version, TermsNames { areas, price_types, offers }) in &mut names.terms {
            let is_named = |it: &NamedInTerms| self.terms[version].contains(&it.id);
            for list in [areas, price_types, offers] {
                list.retain(is_named);
            }
        }
    }
}

/// What lines name, by session.
fn named_by(lines: &[LineView]) -> BTreeMap<Id, NamedByLines> {
    let mut sessions: BTreeMap<Id, NamedByLines> = BTreeMap::new();
    for line in lines {
        let Entity::Session(session) = &line.entity else { continue };
        let named = sessions.entry(session.clone()).or_default();
        match &line.content {
            Content::Seats(seats) => {
                for PricedSeat { seat, bought_as, .. } in seats.iter() {
                    named.add(bought_as.as_deref(), None);
                    named.seats.insert(*seat);
                }
            }
            Content::Places { area, bought_as, .. } => named.add(bought_as.as_deref(), Some(area)),
            Content::Units { .. } | Content::Slot { .. } => {}
        }
    }
    sessions
}

/// The holds and sales of an audit.
fn held_and_sold(answer: &mut Answer) -> (&mut [HoldView], &mut [SaleView]) {
    match answer {
        Answer::SessionAudit(audit) => (&mut audit.holds, &mut audit.sales),
        Answer::ProductAudit(audit) => (&mut audit.holds, &mut audit.sales),
        Answer::ResourceAudit(audit) => (&mut audit.holds, &mut audit.sales),
        Answer::CustomerAudit(audit) => (&mut audit.holds, &mut audit.sales),
        other => unreachable!("an inventory was asked for its audit and said {other:?}"),
    }
}

/// The answer, or the verdict that takes its place. The result is `None` if the deadline has passed.
fn answered(result: Option<boxoffice_node::api::Result>) -> Result<Answered, Box<Verdict>> {
    match result {
        Some(Ok(Ok(answered))) => Ok(answered),
        Some(Ok(Err(refusal))) => Err(Box::new(Verdict::No(refusal))),
        Some(Err(failure)) => Err(Box::new(Verdict::Fail(fail_of(failure)))),
        None => Err(failed(FailKind::Unknown)),
    }
}

/// The verdict on a query whose answer cannot be read.
fn unread(entity: &Entity, error: &HistoryError) -> Box<Verdict> {
    match error {
        HistoryError::Busy => failed(FailKind::Busy),
        HistoryError::Down => failed(FailKind::Draining),
        HistoryError::Elsewhere => failed(FailKind::NotReady),
        HistoryError::Log(_)
        | HistoryError::Archive(_)
        | HistoryError::Store(_)
        | HistoryError::Snapshot(_)
        | HistoryError::TooLong { .. }
        | HistoryError::Undecodable(_)
        | HistoryError::Other { .. } => {
            tracing::error!(%entity, %error, "a history cannot be read");
            Box::new(Verdict::Fail(Fail::new(FailKind::Internal).saying(error.to_string())))
        }
    }
}

fn history(entity: Entity, found: Result<HistoryPart, HistoryError>) -> Result<HistoryPage, Box<Verdict>> {
    let found = found.map_err(|error| unread(&entity, &error))?;
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

fn not_backed_up(error: BackupError) -> Box<Verdict> {
    match error {
        BackupError::Gone => Box::new(Verdict::No(Refusal::NotFound("this part of the node's data".into()))),
        BackupError::Busy => failed(FailKind::Busy),
        BackupError::NoMarks => Box::new(Verdict::Rejected(Rejection::bad_request(error.to_string()))),
        BackupError::Cursor => Box::new(Verdict::Rejected(Rejection::bad_request(error.to_string()))),
        BackupError::Damaged(_) => {
            tracing::error!(%error, "a part of the node's data cannot be read for a backup");
            Box::new(Verdict::Fail(Fail::new(FailKind::Internal).saying(error.to_string())))
        }
    }
}

fn failed(kind: FailKind) -> Box<Verdict> {
    Box::new(Verdict::Fail(Fail::new(kind)))
}

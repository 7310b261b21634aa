//! `boxoffice admin`: status, audits, histories, and operations on a node and its cluster.

mod audit;
mod cluster;
mod codes;
mod customer;
mod given_up;
mod invite;
pub mod keys;
mod map;
mod nodes;
mod offers;
mod receipt;
mod reconcile;
mod sessions;
mod status;
#[cfg(test)]
mod tests;
mod upgrade;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::Range,
};

use boxoffice_client::{
    CartAudit, Client, CodeAudit, CustomerAudit, Entity, HistoryEntry, HistoryPage, Id, NodeAudit, ProductAudit,
    ResourceAudit, Seat, SessionAudit,
};
use boxoffice_core::calendar::Zone;
use boxoffice_wire::repr::{self, WireRepr};
use serde::Serialize;

use crate::{
    args::{Admin, AdminCommand, NodeArgs, SettleWord},
    book::refusal,
    draw::Names,
    failure::{Failure, Outcome},
    ids,
    local_time::zone_or_utc,
    node_client::{self, say},
    watch::session,
};

/// Runs an admin command.
pub fn run(args: &Admin) -> Outcome {
    match &args.what {
        AdminCommand::Status { json } => show_status(&args.node_args, *json),
        AdminCommand::Audit { entity, json } => show_audit(&args.node_args, entity.as_deref(), *json),
        AdminCommand::Reconcile { config, since } => reconcile::run(&args.node_args, config.as_deref(), *since),
        AdminCommand::Receipt => receipt::print(&args.node_args),
        AdminCommand::Nodes { json } => nodes::show(&args.node_args, *json),
        AdminCommand::Invite { for_ms } => invite::run(&args.node_args, *for_ms),
        AdminCommand::Drain { node, cancel: false, force } => nodes::drain(&args.node_args, *node, *force),
        AdminCommand::Drain { node, cancel: true, force: _ } => nodes::keep(&args.node_args, *node),
        AdminCommand::Remove { node, force } => given_up::remove(&args.node_args, *node, *force),
        AdminCommand::Replace { node, force } => given_up::replace(&args.node_args, *node, *force),
        AdminCommand::Upgrade { what } => upgrade::run(&args.node_args, *what),
        AdminCommand::History { entity, seat, limit, before, json } => {
            let asked = HistoryQuery { entity, seat: seat.as_deref(), limit: *limit, before: *before };
            show_history(&args.node_args, &asked, *json)
        }
        AdminCommand::Map { entity, at, seat, json } => {
            map::show(&args.node_args, (entity, *at), seat.as_deref(), *json)
        }
        AdminCommand::Settle { cart, attempt, outcome, reference, refund } => {
            settle(&args.node_args, cart, *attempt, (*outcome, reference.as_deref(), *refund))
        }
        AdminCommand::CustomerToken { customer, customer_secret, customer_secret_file, config } => {
            let secret = node_client::token(customer_secret.as_ref(), customer_secret_file.as_deref())?;
            customer::show_token(customer, secret, config.as_deref())
        }
        AdminCommand::Token => keys::make_admin_token(),
        AdminCommand::Key { what } => keys::run(&args.node_args, what),
        AdminCommand::Release { cart, line, reason } => release(&args.node_args, cart, *line, reason),
        AdminCommand::Refund { order, lines, reason } => refund(&args.node_args, order, lines, reason),
        AdminCommand::Sessions { venue, all, json } => sessions::list(&args.node_args, venue.as_deref(), *all, *json),
        AdminCommand::Offers { session, close, reopen, release, json } => {
            offers::offers(&args.node_args, session, (close, reopen, release), *json)
        }
        AdminCommand::Code { action } => codes::run(&args.node_args, action),
        AdminCommand::Cancel { session, reason } => sessions::cancel(&args.node_args, session, reason),
        AdminCommand::Block { session, seats } => set_blocked(&args.node_args, session, seats, true),
        AdminCommand::Unblock { session, seats } => set_blocked(&args.node_args, session, seats, false),
    }
}

fn show_status(node_args: &NodeArgs, json: bool) -> Outcome {
    node_client::block_on(async {
        let client = node_args.connect().await?;
        let status = client.status().await.map_err(|error| node_args.failure(error))?.value;
        if json {
            print(&[as_json(&status)]);
        } else {
            print(&status::lines(&status));
            let whole = cluster::ClusterReport::collect(node_args, &client, status).await?;
            print(&whole.map(|whole| whole.lines()).unwrap_or_default());
        }
        Ok(())
    })
}

/// The report of an audit.
enum AuditReport {
    Node(Box<NodeAudit>),
    Session(Box<SessionAudit>, Option<Names>),
    Cart(Box<CartAudit>),
    Product(Box<ProductAudit>),
    Resource(Box<ResourceAudit>, Zone),
    Customer(Box<CustomerAudit>),
    Code(Box<CodeAudit>),
}

impl AuditReport {
    /// The lines, and the number of violations.
    fn told(&self, json: bool) -> (Vec<String>, usize) {
        fn told<T: WireRepr>(audit: &T, json: bool, lines: impl FnOnce(&T) -> Vec<String>) -> Vec<String> {
            if json { vec![formed(audit)] } else { lines(audit) }
        }
        match self {
            AuditReport::Node(audit) if json => (vec![as_json(audit)], audit.violations.len()),
            AuditReport::Node(audit) => (audit::node(audit), audit.violations.len()),
            AuditReport::Session(audit, names) => {
                (told(&**audit, json, |audit| audit::session(audit, names.as_ref())), audit.violations.len())
            }
            AuditReport::Cart(audit) => (told(&**audit, json, audit::cart), audit.violations.len()),
            AuditReport::Product(audit) => (told(&**audit, json, audit::product), audit.violations.len()),
            AuditReport::Resource(audit, zone) => {
                (told(&**audit, json, |audit| audit::resource(audit, zone)), audit.violations.len())
            }
            AuditReport::Customer(audit) => (told(&**audit, json, audit::customer), audit.violations.len()),
            AuditReport::Code(audit) => (told(&**audit, json, audit::code), audit.violations.len()),
        }
    }
}

fn show_audit(node_args: &NodeArgs, entity: Option<&str>, json: bool) -> Outcome {
    let entity = entity.map(ids::entity).transpose()?;
    node_client::block_on(async {
        let client = node_args.connect().await?;
        let found = find(&client, entity, node_args).await?;
        let (lines, violations) = found.told(json);
        print(&lines);
        match violations {
            0 => Ok(()),
            count => Err(Failure::Refused(format!(
                "{count} promises are broken; keep the data directory as it is, and look into it with `boxoffice inspect`"
            ))),
        }
    })
}

async fn find(client: &Client, entity: Option<Entity>, node_args: &NodeArgs) -> Result<AuditReport, Failure> {
    let failure = |error| node_args.failure(error);
    Ok(match entity {
        None => AuditReport::Node(Box::new(client.audit_node().await.map_err(failure)?.value)),
        Some(Entity::Session(id)) => {
            let entity = Entity::Session(id.clone());
            let audit: SessionAudit = client.audit_with_customers(entity).await.map_err(failure)?.value;
            // Without the layout, the audit has seats by number.
            let names = client.session_get(&id).await.ok().map(|reply| Names::of(&reply.value.layout));
            AuditReport::Session(Box::new(audit), names)
        }
        Some(Entity::Cart(id)) => AuditReport::Cart(Box::new(client.audit_cart(id).await.map_err(failure)?.value)),
        Some(entity @ Entity::Product(_)) => {
            AuditReport::Product(Box::new(client.audit_with_customers(entity).await.map_err(failure)?.value))
        }
        Some(Entity::Resource(id)) => {
            let entity = Entity::Resource(id.clone());
            let audit: ResourceAudit = client.audit_with_customers(entity).await.map_err(failure)?.value;
            let zone = client.resource_get(&id).await.ok().map(|reply| reply.value.details.zone);
            AuditReport::Resource(Box::new(audit), zone_or_utc(zone.as_deref()))
        }
        Some(Entity::Customer(id)) => {
            AuditReport::Customer(Box::new(client.audit_customer(&id).await.map_err(failure)?.value))
        }
        Some(Entity::Code(id)) => AuditReport::Code(Box::new(client.audit_code(&id).await.map_err(failure)?.value)),
        Some(entity @ (Entity::Venue(_) | Entity::Directory | Entity::Cluster)) => {
            return Err(Failure::Usage(format!(
                "{entity}: sessions, products, resources, customers, codes and carts are audited; `boxoffice admin \
                 audit` audits all there is"
            )));
        }
    })
}

/// A query of a history.
struct HistoryQuery<'a> {
    entity: &'a str,
    seat: Option<&'a str>,
    limit: u32,
    before: Option<u64>,
}

fn show_history(node_args: &NodeArgs, asked: &HistoryQuery<'_>, json: bool) -> Outcome {
    let entity = ids::entity(asked.entity)?;
    node_client::block_on(async {
        let client = node_args.connect().await?;
        let seat = match (asked.seat, &entity) {
            (None, _) => None,
            (Some(text), Entity::Session(id)) => Some(read_seat(&client, id, text, node_args).await?),
            (Some(_), other) => {
                return Err(Failure::Usage(format!("--seat: {other} is no session; only they have seats")));
            }
        };
        let page = client.history(entity.clone(), seat, Some(asked.limit), asked.before).await;
        let mut page = page.map_err(|error| node_args.failure(error))?.value;
        if json {
            print(&[as_json(&page)]);
            return Ok(());
        }
        name_seats(&client, &entity, &mut page).await;
        print(&history(&page));
        Ok(())
    })
}

/// Calls the seats of a history by their names, as far as their sessions are known.
async fn name_seats(client: &Client, entity: &Entity, page: &mut HistoryPage) {
    let mut known: BTreeMap<Id, Option<Names>> = BTreeMap::new();
    for entry in &mut page.entries {
        let wanted: Vec<Id> = sessions_of(entity, &entry.details).into_iter().map(|(_, id)| id).collect();
        for id in wanted {
            if let Entry::Vacant(unknown) = known.entry(id) {
                // Without its names a seat is still told by its place.
                let session = client.session_get(unknown.key()).await.ok();
                unknown.insert(session.map(|session| Names::of(&session.value.layout)));
            }
        }
        entry.details = with_names(entity, &entry.details, |id, seat| {
            let names = known.get(id)?.as_ref()?;
            names.index(seat).map(|index| names.name(index).to_owned())
        })
        .into();
    }
}

/// The places of seats in the details of an event, as ranges of bytes, and the session of each. In the history of a cart the
/// session stands behind its seats.
fn sessions_of(entity: &Entity, details: &str) -> Vec<(Range<usize>, Id)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(begin) = details[at..].find('[').map(|begin| at + begin) {
        let Some(end) = details[begin..].find(']').map(|end| begin + end + 1) else { break };
        at = end;
        if seat_by_place(&details[begin + 1..end - 1]).is_none() {
            continue;
        }
        let id = match entity {
            Entity::Session(id) => Some(id.clone()),
            _ => details[end..]
                .split_once("of session/")
                .and_then(|(_, after)| Id::new(after.split([',', ';', ' ']).next().unwrap_or_default())),
        };
        found.extend(id.map(|id| (begin..end, id)));
    }
    found
}

/// The details of an event with the names of its seats.
fn with_names(entity: &Entity, details: &str, name: impl Fn(&Id, Seat) -> Option<String>) -> String {
    let mut text = details.to_owned();
    for (range, id) in sessions_of(entity, details).into_iter().rev() {
        let seat = seat_by_place(&details[range.start + 1..range.end - 1]);
        if let Some(name) = seat.and_then(|seat| name(&id, seat)) {
            text.replace_range(range, &name);
        }
    }
    text
}

/// A history in lines, oldest first, with a hint to read on.
fn history(page: &HistoryPage) -> Vec<String> {
    let mut lines: Vec<String> = page
        .entries
        .iter()
        .map(|entry| {
            let HistoryEntry { version, at, event, details, by, .. } = entry;
            let at = repr::rfc3339(*at).map_or_else(|| at.0.to_string(), |text| text.to_string());
            let by = if by.is_empty() { String::new() } else { format!("  (by {by})") };
            format!("{version:>7}  {at}  {event:<14}  {details}{by}").trim_end().to_owned()
        })
        .collect();
    lines.push(match (page.complete, page.cursor) {
        (true, _) => "That is all since it began.".into(),
        (false, Some(before)) => format!("There is more: --before {before}"),
        (false, None) => "What is older is no longer kept.".into(),
    });
    lines
}

/// A seat by its place or by its name.
async fn read_seat(client: &Client, id: &Id, text: &str, node_args: &NodeArgs) -> Result<Seat, Failure> {
    if let Some(seat) = seat_by_place(text) {
        return Ok(seat);
    }
    let session = session(client, id, node_args).await?;
    let indexes = Names::of(&session.layout).read([text]).map_err(|error| Failure::Usage(error.to_string()))?;
    match indexes.as_slice() {
        [index] => Ok(session.layout.seat(*index)),
        _ => Err(Failure::Usage(format!("--seat {text}: one seat at a time"))),
    }
}

/// `1,11`: row and seat from 0.
fn seat_by_place(text: &str) -> Option<Seat> {
    let (row, seat) = text.split_once(',')?;
    Some(Seat { row: row.trim().parse().ok()?, seat: seat.trim().parse().ok()? })
}

fn settle(node_args: &NodeArgs, cart: &str, attempt: u32, outcome: (SettleWord, Option<&str>, Option<u32>)) -> Outcome {
    let cart = ids::cart(cart)?;
    let (_, reference, refund) = outcome;
    let word = match outcome {
        (SettleWord::Authorized, Some(_), None) => "authorized",
        (SettleWord::Authorized, None, _) => {
            return Err(Failure::Usage("authorized: say the gateway's name for it with --reference".into()));
        }
        (SettleWord::Declined, None, None) => "declined",
        (SettleWord::Captured, None, None) => "captured",
        (SettleWord::Voided, None, None) => "voided",
        (SettleWord::Refunded, None, Some(_)) => "refunded",
        (SettleWord::Refunded, _, None) => {
            return Err(Failure::Usage("refunded: say which with --refund".into()));
        }
        (SettleWord::Declined | SettleWord::Captured | SettleWord::Voided | SettleWord::Refunded, Some(_), _) => {
            return Err(Failure::Usage("a --reference is of `authorized` only".into()));
        }
        (SettleWord::Authorized | SettleWord::Declined | SettleWord::Captured | SettleWord::Voided, _, Some(_)) => {
            return Err(Failure::Usage("a --refund is of `refunded` only".into()));
        }
    };
    node_client::block_on(async {
        let client = node_args.connect().await?;
        let settled = client.admin_settle(cart, attempt, word, reference, refund).await;
        settled.map_err(|error| node_args.failure(error))?;
        say(&format!("attempt {attempt} of cart/{cart} is settled"));
        Ok(())
    })
}

fn release(node_args: &NodeArgs, cart: &str, line: u32, reason: &str) -> Outcome {
    let cart = ids::cart(cart)?;
    node_client::block_on(async {
        let client = node_args.connect().await?;
        client.admin_release(cart, line, reason).await.map_err(|error| node_args.failure(error))?;
        say(&format!("line {line} of cart/{cart} is given back"));
        Ok(())
    })
}

fn refund(node_args: &NodeArgs, order: &str, lines: &[u32], reason: &str) -> Outcome {
    let order = ids::cart(order)?.order();
    node_client::block_on(async {
        let client = node_args.connect().await?;
        let lines = (!lines.is_empty()).then(|| lines.to_vec());
        let record = client.order_refund(order, lines, reason).await.map_err(|error| node_args.failure(error))?.value;
        say(&format!("order {order}: {}", audit::refund(&record)));
        Ok(())
    })
}

fn set_blocked(node_args: &NodeArgs, id: &str, seats: &[String], block: bool) -> Outcome {
    let id = ids::id_of("session", id)?;
    node_client::block_on(async {
        let client = node_args.connect().await?;
        let session = session(&client, &id, node_args).await?;
        let names = Names::of(&session.layout);
        let words = seats.iter().map(String::as_str);
        let indexes = names.read(words).map_err(|error| Failure::Usage(error.to_string()))?;
        let seats: Vec<_> = indexes.iter().map(|index| session.layout.seat(*index)).collect();
        let answer = match block {
            true => client.session_block(&id, seats).await,
            false => client.session_unblock(&id, seats).await,
        };
        match answer {
            Ok(_) => {
                let state = if block { "off sale" } else { "on sale" };
                say(&format!("{} of {id}: {state}", names.list(&indexes)));
                Ok(())
            }
            Err(error) => match error.refusal() {
                Some(no) if !no.seats.is_empty() => {
                    Err(Failure::Refused(format!("{}; nothing was changed", refusal(no, &session.layout, &names))))
                }
                _ => Err(node_args.failure(error)),
            },
        }
    })
}

fn print(lines: &[String]) {
    // The reader may have closed the pipe.
    let _ = lines.iter().all(|line| say(line));
}

fn as_json<T: Serialize>(value: &T) -> String {
    serde_json::to_string_pretty(value).expect("an answer can be written as JSON")
}

/// JSON as the protocol writes it.
fn formed<T: WireRepr>(value: &T) -> String {
    as_json(&value.write(serde_json::value::Serializer).expect("an answer has a form in JSON"))
}

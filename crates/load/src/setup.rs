//! Creates what a run sells: venues, halls, sessions, products and resources. It sends batches, several at a time.

use std::{sync::Arc, time::Duration};

use boxoffice_client::{
    AdminToken, Area, BatchCommand, Client, Currency, HoldPolicy, Id, Layout, Limits, Money, NewSession,
    ProductDetails, Rate, ResourceDetails, SessionExtras, Timestamp, Title, VenueDetails,
};
use boxoffice_core::layout::{Labels, Row, Run};
use boxoffice_wire::{Fail, reply::Reply as BatchReply};
use boxoffice_workload::{goods::Goods, house::House};

use crate::{
    LoadError,
    clock::now_ms,
    connection_pool::{ConnectionPool, Credentials},
    progress::Progress,
    scenario::{ArenaSpec, ConnectSpec, Scenario},
};

/// Batches under way on each connection.
const BATCHES_UNDER_WAY: usize = 2;

/// The deadline of one batch.
const BATCH_LIMIT: Duration = Duration::from_secs(60);

/// How often items that failed without a time to wait are sent again, with the same request ids.
const TRIES_MAX: usize = 100;

/// How long a batch may wait for nodes that are busy, in all.
const BUSY_LIMIT: Duration = Duration::from_secs(600);

/// The pause before failed items are sent again.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// From one session's start to the next one's in the same hall, in milliseconds: two hours, back to back.
const SESSION_MS: u64 = 2 * 60 * 60 * 1000;

/// The first sessions start a day after the run's start.
const FIRST_START_MS: u64 = 24 * 60 * 60 * 1000;

/// The settings that all sessions of a house share.
#[derive(Clone, Debug)]
pub(crate) struct SessionDefaults {
    pub(crate) price: Money,
    pub(crate) hold_ttl_ms: Option<u64>,
    /// Places of an area beside the seats. 0 means none.
    pub(crate) places: u32,
    /// The first sessions start a day after this.
    pub(crate) now_ms: u64,
    /// Items of one batch.
    pub(crate) batch: usize,
}

impl SessionDefaults {
    pub(crate) fn of(scenario: &Scenario, now_ms: u64) -> SessionDefaults {
        SessionDefaults {
            price: Money { amount: scenario.seat_price(), currency: scenario.currency() },
            hold_ttl_ms: scenario.house.as_ref().and_then(|house| house.hold_ttl_ms),
            places: scenario.house.as_ref().map_or(0, |house| house.places),
            now_ms,
            batch: scenario.connect.setup_batch as usize,
        }
    }
}

/// Creates a house's venues, halls and sessions as a run does, for programs that generate their own load.
///
/// # Errors
/// [`LoadError`] if the nodes cannot be reached or refuse a part of it.
pub async fn create_house(
    addresses: &[String],
    admin_token: AdminToken,
    house: &House,
    price: Money,
) -> Result<(), LoadError> {
    let connect = ConnectSpec::default();
    let connections =
        ConnectionPool::open(addresses, &connect, Credentials { admin_token: Some(admin_token), tls: None }).await?;
    let terms =
        SessionDefaults { price, hold_ttl_ms: None, places: 0, now_ms: now_ms(), batch: connect.setup_batch as usize };
    create_sessions(&connections, house, &terms, &Progress::new(true)).await
}

/// The most products of one batch. Each may have a kilobyte of its own.
const PRODUCTS_A_BATCH: usize = 200;

/// Creates products as a run does, for programs that generate their own load.
///
/// # Errors
/// [`LoadError`] if the nodes cannot be reached or refuse a part of it.
pub async fn create_products(
    addresses: &[String],
    admin_token: AdminToken,
    goods: &Goods,
    currency: Currency,
) -> Result<(), LoadError> {
    let connect = ConnectSpec::default();
    let connections =
        ConnectionPool::open(addresses, &connect, Credentials { admin_token: Some(admin_token), tls: None }).await?;
    let products = (0..goods.products).map(|product| put_product(goods, currency, product, Vec::new(), None)).collect();
    send_all(&connections, "products", products, PRODUCTS_A_BATCH, &Progress::new(true)).await
}

/// Creates everything that is sold besides seats.
pub(crate) async fn create_goods(
    connections: &ConnectionPool,
    scenario: &Scenario,
    goods: &Goods,
    now_ms: u64,
    progress: &Progress,
) -> Result<(), LoadError> {
    let (batch, currency) = (scenario.connect.setup_batch as usize, scenario.currency());
    if let Some(shop) = &scenario.shop {
        let put = |product| put_product(goods, currency, product, vec![b'b'; shop.blob_bytes], shop.hold_ttl_ms);
        let products = (0..goods.products).map(put).collect();
        send_all(connections, "products", products, batch.min(PRODUCTS_A_BATCH), progress).await?;
    }
    if let Some(arena) = &scenario.arena {
        create_arenas(connections, arena, goods, currency, now_ms, batch, progress).await?;
    }
    if scenario.calendar.is_some() {
        let resources = (0..goods.resources).map(|resource| put_resource(goods, currency, resource)).collect();
        send_all(connections, "resources", resources, batch, progress).await?;
    }
    Ok(())
}

/// Creates the sessions with areas, and the venue and hall that they are in.
async fn create_arenas(
    connections: &ConnectionPool,
    arena: &ArenaSpec,
    goods: &Goods,
    currency: Currency,
    now_ms: u64,
    batch: usize,
    progress: &Progress,
) -> Result<(), LoadError> {
    let place = Id::new(&format!("{}-arena", goods.prefix)).expect("a run's prefix is a valid id");
    send_all(connections, "titles", vec![put_title()], 1, progress).await?;
    send_all(connections, "arena", vec![put_venue(&place, "The arena".to_owned())], 1, progress).await?;
    let floor = Layout::new(Vec::new(), None);
    let floor = floor.map_err(|error| LoadError::Setup { what: "arena", why: error.to_string() })?;
    let hall = Id::new(&format!("{}-floor", goods.prefix)).expect("a run's prefix is a valid id");
    let put = BatchCommand::hall_put(hall.as_str(), &place, &hall, "The floor", Arc::new(floor));
    send_all(connections, "arena", vec![put], 1, progress).await?;
    let price = Money { amount: arena.price, currency };
    let session = |number: u32| {
        let area = |number: u32| Area {
            id: goods.area_id(number),
            name: format!("Area {number}").into(),
            capacity: arena.capacity,
            price,
            names: Default::default(),
        };
        let areas = (0..arena.areas).map(area).collect();
        let new = NewSession {
            extras: SessionExtras { areas, hold_ttl_ms: arena.hold_ttl_ms, ..Default::default() },
            ..new_session(goods.arena_id(number), hall.clone(), now_ms, number)
        };
        BatchCommand::session_create(new.id.clone().as_str(), &place, new)
    };
    send_all(connections, "arena", (0..arena.sessions).map(session).collect(), batch, progress).await
}

fn put_product(
    goods: &Goods,
    currency: Currency,
    product: u32,
    blob: Vec<u8>,
    hold_ttl_ms: Option<u64>,
) -> BatchCommand {
    let id = goods.product_id(product);
    let details = ProductDetails {
        name: format!("Product {product}").into(),
        properties: Vec::new(),
        blob,
        price: Money { amount: goods.unit_price, currency },
        stock: goods.stock,
        hold: HoldPolicy::AtAdd,
        hold_ttl_ms,
        limits: Limits::default(),
        tax: None,
    };
    BatchCommand::product_put(id.as_str(), &id, details)
}

fn put_resource(goods: &Goods, currency: Currency, resource: u32) -> BatchCommand {
    let id = goods.resource_id(resource);
    let details = ResourceDetails {
        name: format!("Room {resource}").into(),
        properties: Vec::new(),
        capacity: 1,
        zone: "UTC".into(),
        hours: None,
        before_ms: 0,
        after_ms: 0,
        notice_ms: 0,
        horizon_ms: None,
        rate: Rate { amount: goods.slot_price, currency, per_ms: None },
        hold_ttl_ms: None,
        limits: Limits::default(),
    };
    BatchCommand::resource_put(id.as_str(), &id, details)
}

/// Creates all venues of a house, then all halls, then all sessions.
pub(crate) async fn create_sessions(
    connections: &ConnectionPool,
    house: &House,
    terms: &SessionDefaults,
    progress: &Progress,
) -> Result<(), LoadError> {
    if house.venues_all() == 0 {
        return Ok(());
    }
    let batch = terms.batch;
    let name = |venue: u32| format!("Venue {venue} of {}", house.prefix);
    let venues = (0..house.venues_all()).map(|venue| put_venue(&house.venue_id(venue), name(venue))).collect();
    send_all(connections, "venues", venues, batch, progress).await?;

    let category = Id::new("seat").expect("a valid id");
    let layout = layout(house, &category)?;
    let halls = (0..house.venues_all()).map(|venue| put_hall(house, venue, &layout)).collect();
    send_all(connections, "halls", halls, batch, progress).await?;

    send_all(connections, "titles", vec![put_title()], 1, progress).await?;
    // Neighbours in the list belong to different venues, so the sessions of a batch are created in parallel.
    let sessions = (0..house.sessions)
        .flat_map(|place| (0..house.venues_all()).map(move |venue| venue * house.sessions + place))
        .map(|session| create_session(house, terms, session, &category))
        .collect();
    send_all(connections, "sessions", sessions, batch, progress).await
}

/// The area of a session that has seats and places.
pub(crate) fn floor_id() -> Id {
    Id::new("floor").expect("a valid id")
}

/// The title of every session of a run.
fn title_id() -> Id {
    Id::new("load-run").expect("a valid id")
}

/// Creates the title. The sessions that show it come after it.
pub(crate) fn put_title() -> BatchCommand {
    let title = Title {
        name: "A load run".into(),
        director: "".into(),
        cast: Vec::new(),
        comments: "created by a load run".into(),
        duration_ms: None,
    };
    BatchCommand::title_put("load-run", &title_id(), title)
}

pub(crate) fn put_venue(id: &Id, name: String) -> BatchCommand {
    let details = VenueDetails {
        name: name.into(),
        city: "Testville".into(),
        position: None,
        comments: "created by a load run".into(),
        zone: None,
        address: "".into(),
    };
    BatchCommand::venue_put(id.as_str(), id, details)
}

pub(crate) fn put_hall(house: &House, venue: u32, layout: &Arc<Layout>) -> BatchCommand {
    let id = house.hall_id(venue);
    BatchCommand::hall_put(id.as_str(), &house.venue_id(venue), &id, "Great hall", Arc::clone(layout))
}

fn layout(house: &House, category: &Id) -> Result<Arc<Layout>, LoadError> {
    let row = |number: u16| Row {
        label: (number + 1).to_string().into(),
        section: None,
        runs: vec![Run {
            gap: 0,
            count: house.seats,
            labels: Labels::Numbers { first: 1, step: 1 },
            category: category.clone(),
            accessible: false,
            points: Vec::new(),
        }],
    };
    let layout = Layout::new((0..house.rows).map(row).collect(), None);
    layout.map(Arc::new).map_err(|error| LoadError::Setup { what: "halls", why: error.to_string() })
}

fn create_session(house: &House, terms: &SessionDefaults, session: u32, category: &Id) -> BatchCommand {
    let venue = house.venue_of(session);
    let (id, place) = (house.session_id(session), house.index_in_venue(session));
    let area = Area {
        id: floor_id(),
        name: "Floor".into(),
        capacity: terms.places,
        price: terms.price,
        names: Default::default(),
    };
    let areas = if terms.places > 0 { vec![area] } else { Vec::new() };
    let new = NewSession {
        prices: vec![(category.clone(), terms.price)],
        extras: SessionExtras { areas, hold_ttl_ms: terms.hold_ttl_ms, ..Default::default() },
        ..new_session(id, house.hall_id(venue), terms.now_ms, place)
    };
    BatchCommand::session_create(new.id.clone().as_str(), &house.venue_id(venue), new)
}

/// Session number `place` of a hall, without anything to sell.
pub(crate) fn new_session(id: Id, hall: Id, now_ms: u64, place: u32) -> NewSession {
    let starts_at = now_ms + FIRST_START_MS + u64::from(place) * SESSION_MS;
    NewSession {
        id,
        hall,
        title: title_id(),
        starts_at: Timestamp(starts_at),
        ends_at: Timestamp(starts_at + SESSION_MS),
        prices: Vec::new(),
        extras: Default::default(),
    }
}

/// Sends all commands in batches of `batch` items until every command is done.
pub(crate) async fn send_all(
    connections: &ConnectionPool,
    what: &'static str,
    commands: Vec<BatchCommand>,
    batch: usize,
    progress: &Progress,
) -> Result<(), LoadError> {
    progress.begin(what, commands.len() as u64);
    let sent = connections.for_each(commands.chunks(batch), BATCHES_UNDER_WAY, async |client, commands| {
        send_batch(&client.with_deadline(BATCH_LIMIT), commands).await?;
        progress.add(commands.len() as u64);
        Ok(())
    });
    sent.await.map_err(|why| LoadError::Setup { what, why })
}

/// Sends one batch, and sends its failed items again.
async fn send_batch(client: &Client, commands: &[BatchCommand]) -> Result<(), String> {
    let mut left = commands.to_vec();
    let mut why = String::new();
    let (mut tries, mut busy) = (0, Duration::ZERO);
    while tries < TRIES_MAX && busy < BUSY_LIMIT {
        let mut fails = Vec::new();
        match client.batch(&left).await {
            Ok(replies) => {
                let mut again = Vec::new();
                for (command, reply) in left.iter().zip(replies) {
                    match reply {
                        BatchReply::Ok((), _) => {}
                        BatchReply::No(no) => return Err(format!("refused: {no}")),
                        BatchReply::Fail(fail) => {
                            why = fail.message.to_string();
                            again.push(command.clone());
                            fails.push(fail);
                        }
                    }
                }
                left = again;
            }
            Err(error) if error.refusal().is_some() => return Err(error.to_string()),
            Err(error) => why = error.to_string(),
        }
        if left.is_empty() {
            return Ok(());
        }
        match wait_of(&fails) {
            Some(wait) => {
                busy += wait;
                tokio::time::sleep(wait).await;
            }
            None => {
                tries += 1;
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
    Err(format!("not done after {tries} tries and {} s of waiting for busy nodes: {why}", busy.as_secs()))
}

/// How long busy nodes say to wait, if that is why these items failed. The longest counts, because all are sent again together.
fn wait_of(fails: &[Fail]) -> Option<Duration> {
    let waits = fails.iter().filter_map(|fail| fail.retry_after_ms);
    waits.max().map(|ms| Duration::from_millis(ms.into()).max(RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use boxoffice_wire::FailKind;

    use super::*;

    #[test]
    fn items_wait_as_long_as_the_node_says() {
        let busy = |ms| Fail { retry_after_ms: Some(ms), ..Fail::new(FailKind::Busy) };
        let unknown = Fail { retry_after_ms: None, ..Fail::new(FailKind::Unknown) };
        assert_eq!(wait_of(&[busy(300), unknown.clone(), busy(2_500)]), Some(Duration::from_millis(2_500)));
        // Not so often that the node is kept busy by it.
        assert_eq!(wait_of(&[busy(0)]), Some(RETRY_AFTER));
        assert_eq!(wait_of(&[unknown]), None);
        assert_eq!(wait_of(&[]), None);
    }
}

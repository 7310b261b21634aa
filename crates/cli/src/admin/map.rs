//! `boxoffice admin map`: who held or owned what at an instant.

use std::collections::BTreeMap;

use boxoffice_client::{AsOf, Entity, HoldView, MapView, SaleView, Seat, SessionAudit, Timestamp};
use boxoffice_core::{layout::Layout, portion::Portion, seat::SeatState};
use boxoffice_wire::repr;
use smol_str::SmolStr;

use super::{as_json, audit, print, read_seat, session};
use crate::{
    args::NodeArgs,
    draw::{Names, counts},
    failure::{Failure, Outcome},
    ids,
    local_time::zone_or_utc,
    node_client,
    words::portion,
};

/// Shows an entity as it was.
pub fn show(node_args: &NodeArgs, (entity, at): (&str, Timestamp), seat: Option<&str>, json: bool) -> Outcome {
    let entity = ids::entity(entity)?;
    match (&entity, seat) {
        (Entity::Session(_), _) | (Entity::Product(_) | Entity::Resource(_), None) => {}
        (other, _) => {
            return Err(Failure::Usage(match seat {
                Some(_) => format!("--seat: {other} is no session; only they have seats"),
                None => format!("{other}: write session/ID, product/ID or resource/ID"),
            }));
        }
    }
    node_client::block_on(async {
        let client = node_args.connect().await?;
        let then = client.as_of(entity.clone(), at).await.map_err(|error| node_args.failure(error))?.value;
        if json {
            print(&[as_json(&then)]);
            return Ok(());
        }
        let mut lines = heading(&then);
        match (&entity, &then) {
            (Entity::Session(id), AsOf { map: Some(map), session: Some(audit), .. }) => {
                // A session keeps its layout for life.
                let layout = session(&client, id, node_args).await?.layout;
                let only = match seat {
                    Some(text) => Some(read_seat(&client, id, text, node_args).await?),
                    None => None,
                };
                lines.extend(seats(&layout, map, audit, only));
            }
            (Entity::Resource(id), AsOf { resource: Some(of_resource), .. }) => {
                let zone = client.resource_get(id).await.ok().map(|reply| reply.value.details.zone);
                lines.extend(audit::resource(of_resource, &zone_or_utc(zone.as_deref())));
            }
            (_, AsOf { product: Some(product), .. }) => lines.extend(audit::product(product)),
            _ => return Err(Failure::Refused("the node's answer has nothing of it".into())),
        }
        print(&lines);
        Ok(())
    })
}

/// From when to when it was so, and how far back one may ask.
pub(super) fn heading(then: &AsOf) -> Vec<String> {
    let AsOf { entity, at, since, until, floor, position, version, .. } = then;
    let until = until.map_or_else(|| "now".into(), instant);
    let floor = floor.map_or_else(|| "it began".into(), instant);
    vec![
        format!("{entity} at {}", instant(*at)),
        format!("so from {} (version {version}, entry {position}) until {until}", instant(*since)),
        format!("may be asked for since {floor}"),
    ]
}

fn instant(at: Timestamp) -> String {
    repr::rfc3339(at).unwrap_or_else(|| at.0.to_string())
}

/// A row for each seat that was not free, in the order of the layout, and then for places in areas.
pub(super) fn seats(layout: &Layout, map: &MapView, audit: &SessionAudit, only: Option<Seat>) -> Vec<String> {
    let names = Names::of(layout);
    let SessionAudit { holds, sales, areas, violations, .. } = audit;
    let mut lines: Vec<String> = violations.iter().map(|violation| format!("BROKEN: {violation}")).collect();
    let mut owners: BTreeMap<u32, String> = BTreeMap::new();
    let mut places = Vec::new();
    let owned = holds.iter().map(|hold| (&hold.portion, held(hold)));
    for (of, owner) in owned.chain(sales.iter().map(|sale| (&sale.portion, sold(sale)))) {
        match of {
            Portion::Seats(seats) => {
                let indexes = seats.as_slice().iter().filter_map(|seat| names.index(*seat));
                owners.extend(indexes.map(|index| (index, owner.clone())));
            }
            other => places.push(format!("{}  {owner}", portion(other, Some(&names), &zone_or_utc(None)))),
        }
    }
    let shown: Vec<u32> = match only {
        Some(seat) => names.index(seat).into_iter().collect(),
        None => (0..layout.seats()).filter(|index| state_of(map, *index) != SeatState::Free).collect(),
    };
    if only.is_none() {
        lines.push(counts(&map.counts));
    }
    let width = shown.iter().map(|index| names.name(*index).chars().count()).max().unwrap_or(0).max("SEAT".len());
    if !shown.is_empty() {
        lines.push(format!("{:<width$}  STATE    BY", "SEAT"));
    }
    lines.extend(shown.iter().map(|index| {
        let owner = owners.get(index).cloned().unwrap_or_else(|| word(state_of(map, *index)).into());
        format!("{:<width$}  {owner}", names.name(*index))
    }));
    if only.is_none() {
        lines.extend(
            areas
                .iter()
                .map(|area| format!("area {}: {} free, {} held, {} sold", area.area, area.free, area.held, area.sold)),
        );
        lines.extend(places);
    }
    lines
}

fn held(hold: &HoldView) -> String {
    format!("{:<7}  cart {} until {}", word(SeatState::Held), hold.hold.cart, instant(hold.deadline))
}

fn sold(sale: &SaleView) -> String {
    format!("{:<7}  order {} at {}", word(SeatState::Sold), sale.order, instant(sale.at))
}

fn word(state: SeatState) -> SmolStr {
    SmolStr::new_static(repr::seat_state_text(state))
}

/// The state of the seat with this index in layout order.
fn state_of(map: &MapView, index: u32) -> SeatState {
    let packed = map.seats.get(index as usize / 4).copied().unwrap_or(0);
    match packed >> (index % 4 * 2) & 3 {
        0 => SeatState::Free,
        1 => SeatState::Held,
        2 => SeatState::Sold,
        _ => SeatState::Blocked,
    }
}

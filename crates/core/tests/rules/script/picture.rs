//! The maps of all sessions and the counts of everything else, as scripts draw them.

use std::{collections::BTreeMap, fmt::Write};

use boxoffice_core::{
    id::{Entity, HoldId, Id},
    portion::Portion,
    seat::{Seat, SeatState},
    state_map::{State, StateMap},
    time::{TIMESTAMP_MAX, Timestamp},
};

/// The maps of all sessions, with the cart of each seat.
pub(crate) fn draw(states: &StateMap) -> BTreeMap<Id, String> {
    let mut maps = BTreeMap::new();
    for (entity, state) in states.entities() {
        maps.extend(draw_counted(state));
        let (Entity::Session(id), State::Session(session)) = (entity, &**state) else { continue };
        let mut letters: BTreeMap<Seat, char> = BTreeMap::new();
        let audit = session.audit();
        for hold in &audit.holds {
            letters.extend(seats_of(&hold.portion).iter().map(|seat| (*seat, letter(hold.hold))));
        }
        for sale in &audit.sales {
            let name = sale.order.cart().0 as u8 as char;
            letters.extend(seats_of(&sale.portion).iter().map(|seat| (*seat, name.to_ascii_uppercase())));
        }
        let layout = session.layout();
        let seats = session.map().seats;
        let mut map = String::new();
        for row in 0..layout.rows().len() {
            for index in layout.row_seats(row as u16) {
                if layout.left_neighbour(index).is_none() && layout.seat(index).seat > 0 {
                    map.push(' ');
                }
                let blocked = seats[index as usize / 4] >> (index % 4 * 2) & 3 == SeatState::Blocked as u8;
                let free = if blocked { '#' } else { '.' };
                map.push(letters.get(&layout.seat(index)).copied().unwrap_or(free));
            }
            map.push('\n');
        }
        for area in session.area_counts() {
            writeln!(map, "{} {} free, {} held, {} sold", area.area, area.free, area.held, area.sold)
                .expect("writes to a string succeed");
        }
        maps.insert(id.clone(), map);
    }
    maps
}

/// The counts of an entity without seats, or none for other entities.
fn draw_counted(state: &State) -> Option<(Id, String)> {
    match state {
        State::Product(product) => {
            let (view, c) = (product.view(), product.counts());
            Some((view.id.clone(), format!("{} free, {} held, {} sold\n", c.free, c.held, c.sold)))
        }
        State::Resource(resource) => {
            let all = resource.bookings(Timestamp(0), TIMESTAMP_MAX, 1_000, None).expect("a good window");
            let text = all.iter().map(|booking| {
                format!("{}-{} {:?}", booking.begin.0 / 1_000, booking.end.0 / 1_000, booking.state).to_lowercase()
            });
            let text = if all.is_empty() { "free".into() } else { text.collect::<Vec<_>>().join(", ") };
            Some((resource.view().id.clone(), text + "\n"))
        }
        State::Customer(customer) => {
            let audit = customer.audit();
            let quotas = audit.quotas.iter().map(|(quota, held, sold)| format!("{quota} {held} held {sold} sold, "));
            let text = quotas.collect::<Vec<_>>().concat();
            Some((audit.customer, format!("{text}{} orders\n", audit.purchases.len())))
        }
        State::Code(code) => {
            let audit = code.audit();
            Some((audit.code, format!("{} held, {} sold\n", audit.counts.held, audit.counts.sold)))
        }
        State::Venue(_) | State::Session(_) | State::Cart(_) | State::Directory(_) | State::Cluster(_) => None,
    }
}

fn seats_of(portion: &Portion) -> &[Seat] {
    match portion {
        Portion::Seats(seats) => seats.as_slice(),
        _ => &[],
    }
}

fn letter(hold: HoldId) -> char {
    hold.cart.0 as u8 as char
}

//! Holds and orders in words.

use boxoffice_client::{Currency, Id, LineView, Money, No, Order, PricedSeat, SeatState};
use boxoffice_core::layout::Layout;
use boxoffice_wire::repr::seat_state_text;

use crate::{
    draw::{Names, amount},
    local_time::{date_and_time_in, zone_or_utc},
};

/// The lines of a cart or an order in one session: seats by price type and price.
pub fn lines(lines: &[LineView], currency: Currency, layout: &Layout, names: &Names) -> Vec<String> {
    let bought_as = |priced: &PricedSeat| priced.bought_as.as_ref().and_then(|it| it.price_type.clone());
    let mut seats: Vec<(i64, Option<Id>, u32)> = lines
        .iter()
        .flat_map(|line| line.content.seats())
        .filter_map(|priced| Some((priced.price, bought_as(priced), layout.index(priced.seat)?)))
        .collect();
    seats.sort_unstable();
    let money = |amount| Money { amount, currency };
    seats
        .chunk_by(|one, next| (one.0, &one.1) == (next.0, &next.1))
        .map(|group| {
            let indexes: Vec<u32> = group.iter().map(|(_, _, index)| *index).collect();
            let (price, count) = (group[0].0, group.len() as i64);
            let each = amount(money(price));
            let of = group[0].1.as_ref().map_or_else(String::new, |of| format!(" as {of}"));
            match count {
                1 => format!("{}{of}: {each}", names.list(&indexes)),
                _ => format!("{}{of}: {count} × {each} = {}", names.list(&indexes), amount(money(price * count))),
            }
        })
        .collect()
}

/// The sum of these lines.
pub fn total(lines: &[LineView], currency: Currency) -> Money {
    let amount: i128 = lines.iter().map(|line| line.content.amount()).sum();
    let amount = i64::try_from(amount).expect("a cart is worth no more than a total may be");
    Money { amount, currency }
}

/// An order.
pub fn order(order: &Order, layout: &Layout, names: &Names) -> Vec<String> {
    let zone = order.lines.iter().find_map(|line| line.zone.as_deref());
    let at = date_and_time_in(&zone_or_utc(zone), order.at);
    let mut words = vec![format!("Sold. Order {}, {at}", order.id)];
    let lines = lines(&order.lines, order.total.currency, layout, names);
    words.extend(lines.into_iter().map(|line| format!("  {line}")));
    words.push(format!("  total {}", amount(order.total)));
    if order.settling {
        words.push("The seats are yours for certain; the map shows them as sold in a moment.".into());
    }
    words
}

/// A refusal, with the names and states of its seats.
pub fn refusal(no: &No, layout: &Layout, names: &Names) -> String {
    let indexes: Vec<Option<u32>> = no.seats.iter().map(|seat| layout.index(*seat)).collect();
    let of = |state: Option<SeatState>| -> Vec<u32> {
        let states = no.states.iter().copied().map(Some).chain(std::iter::repeat(None));
        indexes.iter().zip(states).filter(|(_, of)| *of == state).filter_map(|(index, _)| *index).collect()
    };
    let seats: Vec<String> = [SeatState::Held, SeatState::Sold, SeatState::Blocked, SeatState::Free]
        .into_iter()
        .map(Some)
        .chain([None])
        .filter_map(|state| {
            let seats = of(state);
            let verb = if seats.len() == 1 { "is" } else { "are" };
            match state {
                _ if seats.is_empty() => None,
                Some(SeatState::Held) => Some(format!("{} {verb} held by another buyer", names.list(&seats))),
                Some(state) => Some(format!("{} {verb} {}", names.list(&seats), seat_state_text(state))),
                None => Some(names.list(&seats)),
            }
        })
        .collect();
    if seats.is_empty() { no.message.clone() } else { seats.join("; ") }
}

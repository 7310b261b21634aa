//! The checks of a request for holds that need no state.

use alloc::{collections::BTreeMap, vec::Vec};

use smol_str::format_smolstr;

use super::CART_LINES_MAX;
use crate::{
    command::{BuyAs, Want, WantedLine},
    id::{Entity, Id},
    portion::LINE_QUANTITY_MAX,
    refusal::Refusal,
    seat::{HOLD_SEATS_MAX, Seat},
};

/// Checks a request for holds as far as possible without any state. Merges lines of the same units or places, because they count
/// as one.
pub(crate) fn check_wanted(wanted: Vec<WantedLine>) -> Result<Vec<WantedLine>, Refusal> {
    if wanted.is_empty() || wanted.len() > CART_LINES_MAX {
        return Err(Refusal::BadRequest(format_smolstr!("a hold asks for 1 to {CART_LINES_MAX} lines")));
    }
    wanted.iter().try_for_each(check_line)?;
    if wanted.len() == 1 {
        // A seat set has no seat twice.
        return Ok(wanted);
    }
    let seats = wanted.iter().flat_map(|line| match &line.want {
        Want::Seats { seats, .. } => seats.as_slice().iter().map(|seat| (&line.entity, *seat)).collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let mut named: Vec<(&Entity, Seat)> = seats.collect();
    named.sort_unstable();
    let mut twice: Vec<Seat> = named.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0].1).collect();
    twice.dedup();
    if !twice.is_empty() {
        return Err(Refusal::DuplicateSeat(twice));
    }
    summed(wanted)
}

fn check_line(line: &WantedLine) -> Result<(), Refusal> {
    let quantity = |quantity: u32| match quantity {
        1..=LINE_QUANTITY_MAX => Ok(()),
        _ => Err(Refusal::BadQuantity(format_smolstr!("a line has 1 to {LINE_QUANTITY_MAX}, not {quantity}"))),
    };
    match (&line.want, &line.entity) {
        (Want::Seats { .. }, Entity::Session(_)) => Ok(()),
        (Want::Best(wish), Entity::Session(_)) => {
            let fits = (1..=HOLD_SEATS_MAX).contains(&usize::from(wish.count)) && wish.accessible <= wish.count;
            if fits { Ok(()) } else { Err(bad_wish()) }
        }
        (Want::Places { quantity: wanted, .. }, Entity::Session(_)) => quantity(*wanted),
        (Want::Units { quantity: wanted, .. }, Entity::Product(_)) => quantity(*wanted),
        (Want::Slot { begin, end, .. }, Entity::Resource(_)) if begin < end => Ok(()),
        (Want::Slot { .. }, Entity::Resource(_)) => Err(Refusal::BadInterval("it ends before it begins".into())),
        (_, entity) => Err(Refusal::BadRequest(format_smolstr!("{entity} has nothing of the kind"))),
    }
}

fn bad_wish() -> Refusal {
    let text = format_smolstr!("best available gives 1 to {HOLD_SEATS_MAX} seats, and no more of them accessible");
    Refusal::BadRequest(text)
}

/// Merges lines of the same units or places.
fn summed(wanted: Vec<WantedLine>) -> Result<Vec<WantedLine>, Refusal> {
    let mut places: BTreeMap<(Entity, Option<Id>, BuyAs), usize> = BTreeMap::new();
    let mut lines: Vec<WantedLine> = Vec::with_capacity(wanted.len());
    for line in wanted {
        let key = match &line.want {
            Want::Units { .. } => (line.entity.clone(), None, BuyAs::default()),
            Want::Places { area, buy_as, .. } => (line.entity.clone(), Some(area.clone()), buy_as.clone()),
            _ => {
                lines.push(line);
                continue;
            }
        };
        let Some(&place) = places.get(&key) else {
            places.insert(key, lines.len());
            lines.push(line);
            continue;
        };
        lines[place].merge(line);
        check_line(&lines[place])?;
    }
    Ok(lines)
}

//! Lines and holds in words.

use boxoffice_client::{Content, Seat};
use boxoffice_core::{calendar::Zone, portion::Portion};

use crate::{draw::Names, local_time::date_and_time_in};

/// The content of a line: `A1, A2`, `3 places in floor`, `2 units`. A slot is told by the clocks of the zone.
pub fn content(content: &Content, names: Option<&Names>, zone: &Zone) -> String {
    portion(&content.portion(), names, zone)
}

/// The content of a hold or a sale. A slot is told by the clocks of the zone.
pub fn portion(portion: &Portion, names: Option<&Names>, zone: &Zone) -> String {
    match portion {
        Portion::Seats(set) => seats(set.as_slice(), names),
        Portion::Places { area, quantity } => format!("{} in {area}", counted(u64::from(*quantity), "place")),
        Portion::Units(quantity) => counted(u64::from(*quantity), "unit"),
        Portion::Slot { begin, end } => {
            format!("{} to {}", date_and_time_in(zone, *begin), date_and_time_in(zone, *end))
        }
        Portion::Quota { quota, count } => format!("{count} of quota {quota}"),
        Portion::Uses(count) => counted(u64::from(*count), "use"),
    }
}

/// Seats by name if names are known, else as `[row, seat]` from 0.
pub fn seats(seats: &[Seat], names: Option<&Names>) -> String {
    let named = names.and_then(|names| seats.iter().map(|seat| names.index(*seat)).collect::<Option<Vec<u32>>>());
    match (named, names) {
        (Some(indexes), Some(names)) => names.list(&indexes),
        _ => seats.iter().map(|Seat { row, seat }| format!("[{row}, {seat}]")).collect::<Vec<_>>().join(" "),
    }
}

/// `1 unit`, `2 units`.
pub fn counted(count: u64, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        count => format!("{count} {thing}s"),
    }
}

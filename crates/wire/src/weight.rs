//! What a request costs besides the weight of its op, where its size decides. The unit is the processor time of `cart.get`.

use boxoffice_core::command::Command;

use crate::{Call, call::Item};

/// Units of what a budget calls a request: an op of a purchase weighs about as much.
pub const REQUEST: u32 = 10;

/// Units of a line of a cart that is held, given back or sold besides the first.
const LINE: usize = 2;

/// Feeds of counts for a unit.
const COUNTS: usize = 5;

/// Venues of a city for a unit.
const VENUES: usize = 2;

/// Bytes of a request for a unit, and of an answer. Those of layouts and maps that answers share are only copied.
const REQUEST_BYTES: usize = 2 * 1024;
const ANSWER_BYTES: usize = 2 * 1024;
const SHARED_BYTES: usize = 64 * 1024;

fn units(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// What a request of so many bytes costs besides its op.
pub fn of_call(call: &Call, bytes: usize) -> u32 {
    let of_bytes = units(bytes / REQUEST_BYTES);
    of_bytes.saturating_add(match call {
        Call::Command(command) => of_command(command),
        Call::WatchCounts { sessions } => units(sessions.len() / COUNTS),
        Call::Batch(items) => items.iter().flatten().map(of_item).fold(0, u32::saturating_add),
        Call::SearchCity(_)
        | Call::Watch { .. }
        | Call::Unwatch { .. }
        | Call::Backup(_)
        | Call::History { .. }
        | Call::AsOf { .. }
        | Call::Hello(_)
        | Call::Status
        | Call::Shards
        | Call::AuditNode
        | Call::AuditWithCarts(_)
        | Call::NamedOrder(_) => 0,
    })
}

fn of_item(item: &Item) -> u32 {
    item.op.weight().saturating_add(of_command(&item.command))
}

fn of_command(command: &Command) -> u32 {
    match command {
        Command::Cart(_, command) => units(command.asked_lines().saturating_sub(1) * LINE),
        Command::Venue(..)
        | Command::Session(..)
        | Command::Product(..)
        | Command::Resource(..)
        | Command::Customer(..)
        | Command::Code(..)
        | Command::Directory(_)
        | Command::Cluster(_) => 0,
    }
}

/// What a command costs that ends so many lines of its cart.
pub fn of_ended_lines(lines: usize) -> u32 {
    units(lines.saturating_sub(1) * LINE)
}

/// What a search costs that asks so many venues.
pub fn of_venues(venues: usize) -> u32 {
    units(venues / VENUES)
}

/// What an audit costs that asks so many carts.
pub fn of_carts(carts: usize) -> u32 {
    units(carts)
}

/// What an order costs that asks so many sessions.
pub fn of_sessions(sessions: usize) -> u32 {
    units(sessions)
}

/// What an answer costs that has so many bytes of its own, and so many that it shares with others.
pub fn of_answer(own: usize, shared: usize) -> u32 {
    units(own / ANSWER_BYTES + shared / SHARED_BYTES)
}

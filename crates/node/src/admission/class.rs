//! The commands that may be shed, and their order.

use boxoffice_core::command::{
    CodeCommand, Command, CustomerCommand, DirectoryCommand, ProductCommand, Purpose, ResourceCommand, SessionCommand,
    VenueCommand,
};

use crate::api::CallTimes;

/// A kind of first command. Those that stand earlier are shed earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Read,
    /// It begins a cart or makes a booking, so its client has nothing yet.
    Begin,
    /// It wants more for a cart that was begun.
    Hold,
    Checkout,
}

impl Class {
    /// Every class, in the order in which they are shed.
    pub const ALL: [Class; 4] = [Class::Read, Class::Begin, Class::Hold, Class::Checkout];

    /// Its name in `/metrics`.
    pub fn name(self) -> &'static str {
        match self {
            Class::Read => "read",
            Class::Begin => "begin",
            Class::Hold => "hold",
            Class::Checkout => "checkout",
        }
    }

    /// The class of a client's command. `None` if it is never shed, because it gives something back,
    /// or an operator or the gateway sent it.
    pub(crate) fn of(command: &Command) -> Option<Class> {
        match command {
            Command::Cart(_, command) => match command.purpose() {
                Purpose::Read => Some(Class::Read),
                Purpose::Begin => Some(Class::Begin),
                Purpose::Change => Some(Class::Hold),
                Purpose::Buy => Some(Class::Checkout),
                Purpose::GiveBack | Purpose::Inside => None,
            },
            Command::Session(_, command) => match command {
                SessionCommand::Get | SessionCommand::Map | SessionCommand::Names { .. } => Some(Class::Read),
                SessionCommand::Block(_) | SessionCommand::Unblock(_) => None,
                SessionCommand::Change(_) | SessionCommand::Cancel { .. } | SessionCommand::Audit => None,
            },
            Command::Venue(_, command) => match command {
                VenueCommand::Get | VenueCommand::GetHall { .. } | VenueCommand::SearchSessions { .. } => {
                    Some(Class::Read)
                }
                VenueCommand::Put(_) | VenueCommand::PutHall { .. } | VenueCommand::CreateSession(_) => None,
            },
            Command::Product(_, command) => match command {
                ProductCommand::Get => Some(Class::Read),
                ProductCommand::Put(_) | ProductCommand::Audit => None,
            },
            Command::Resource(_, command) => match command {
                ResourceCommand::Get | ResourceCommand::IsAvailable(_) => Some(Class::Read),
                ResourceCommand::Bookings { .. } | ResourceCommand::FreeSlots { .. } => Some(Class::Read),
                ResourceCommand::Reserve { .. } => Some(Class::Begin),
                ResourceCommand::Move { .. } => Some(Class::Hold),
                ResourceCommand::Put(_) | ResourceCommand::Cancel { .. } | ResourceCommand::Audit => None,
            },
            Command::Customer(_, command) => match command {
                CustomerCommand::Purchases { .. } => Some(Class::Read),
                CustomerCommand::Audit => None,
            },
            Command::Code(_, command) => match command {
                CodeCommand::Put(_) | CodeCommand::Get | CodeCommand::Audit => None,
            },
            Command::Directory(command) => match command {
                DirectoryCommand::GetTitle(_) | DirectoryCommand::SearchTitles { .. } => Some(Class::Read),
                DirectoryCommand::SearchVenues { .. } | DirectoryCommand::VenuesOfCity(_) => Some(Class::Read),
                DirectoryCommand::PutTitle(..) => None,
                DirectoryCommand::CreateKey { .. } | DirectoryCommand::RevokeKey { .. } => None,
                // Without its answer a caller with a good key would be refused.
                DirectoryCommand::Keys | DirectoryCommand::Key { .. } => None,
            },
            Command::Cluster(_) => None,
        }
    }

    /// How many commands may be under way while one of this class is admitted, as halves of the limit. The shares differ so that
    /// a crowd of new carts never keeps out those that were begun. Checkouts have no limit but that of the node's memory.
    pub(super) fn halves(self) -> usize {
        match self {
            Class::Read => 1,
            Class::Begin => 2,
            Class::Hold => 4,
            Class::Checkout => usize::MAX,
        }
    }
}

impl CallTimes {
    /// The times that count for this command. One that is no part of a purchase needs nothing after it, so its deadline says
    /// everything about its buyer's patience.
    pub(crate) fn of(self, command: &Command) -> CallTimes {
        match command {
            Command::Cart(..) => self,
            _ => CallTimes { patience_ms: u64::MAX, ..self },
        }
    }
}

#[cfg(test)]
mod tests {
    use boxoffice_wire::{Call, Encoding, Op, Request, op::HeadClass, schema};

    use super::*;

    /// Ops whose commands may be shed by their class, and not by their heads: a search over a city has a command for each venue,
    /// and a booking without a cart has no token by which a repeat is known.
    const LATER: [(Op, Class); 2] = [(Op::SessionSearch, Class::Read), (Op::ResourceReserve, Class::Begin)];

    #[test]
    fn a_head_shows_the_class_of_its_command() {
        for op in Op::ALL {
            for body in &schema::of(op).examples {
                let rid = op.changes().then_some("r");
                let body = body.to_string();
                let request = Request::from_parts(Encoding::Json, 1, op, rid, None, Some(body.as_bytes()));
                let request = request.unwrap_or_else(|why| panic!("{} {body}: {why}", op.name()));
                let class = match &request.call {
                    Call::Command(command) | Call::NamedOrder(command) => Class::of(command),
                    _ => None,
                };
                match op.class() {
                    HeadClass::Read => assert_eq!(class, Some(Class::Read), "{} {body}", op.name()),
                    HeadClass::Begin => assert_eq!(class, Some(Class::Begin), "{} {body}", op.name()),
                    HeadClass::Later => {
                        let is_later = class.is_none_or(|class| class > Class::Begin || LATER.contains(&(op, class)));
                        assert!(is_later, "{} {body} is {class:?}, and its head does not show it", op.name());
                    }
                }
            }
        }
    }
}

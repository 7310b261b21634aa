//! A row of the table, and the fields of a body.

use alloc::{format, string::String, vec::Vec};

use super::{CartDifference, Conflict, FailKind, Refusal, Rejection, Shortage, TakenSeat};
use crate::{
    id::{Entity, Id},
    money::{Currency, Money},
    seat::Seat,
    time::Timestamp,
};

/// The three kinds of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An entity refused a command.
    Refusal,
    /// A request was refused before it reached an entity. For a client it is a refusal.
    Rejection,
    /// The request was not refused, and did not work.
    Failure,
}

/// What is declared about a refusal, a rejection or a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub kind: Kind,
    /// The number, which is never used again.
    pub code: u16,
    /// The name, which is never used again.
    pub name: &'static str,
    /// The fields of the body besides code, name and message.
    pub fields: &'static [&'static str],
    /// The message as declared, with places for fields. That of a failure has none.
    pub message: &'static str,
    pub cause: &'static str,
    /// What a client does.
    pub advice: &'static str,
    /// The HTTP status.
    pub http: u16,
    /// A template of the words for buyers, if they are not the message. `{field}` is a field of the body, `{field:span}` a span of
    /// milliseconds in words, `{message:reason}` what the message says after its first colon. `{field?}` is not shown. What follows
    /// ` | ` is said instead if the first field is 0, empty or absent. `{list.field}` is met if it is in any entry.
    pub buyer: Option<&'static str>,
    /// Whether it says how a payment ended.
    pub is_outcome: bool,
    /// Whether the command may have happened all the same.
    pub in_doubt: bool,
    /// When to retry, in milliseconds, if nothing else is known. Only failures have it.
    pub retry_after_ms: Option<u32>,
}

impl Row {
    /// The key of its words for buyers, by which translations name them.
    pub fn key(&self) -> String {
        let kind = match self.kind {
            Kind::Refusal | Kind::Rejection => "refusal",
            Kind::Failure => "failure",
        };
        format!("{kind}.{}", self.name)
    }
}

/// All rows, in no particular order.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    [Refusal::ROWS, Rejection::ROWS, FailKind::ROWS].into_iter().flatten()
}

/// A value in the body of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown<'a> {
    Number(u64),
    /// In minor units of a currency.
    Amount(i64),
    Id(&'a Id),
    Entity(&'a Entity),
    Time(Timestamp),
    Currency(Currency),
    Seats(&'a [Seat]),
    /// The seats among them.
    SeatsOf(&'a [TakenSeat]),
    /// The states of these seats.
    StatesOf(&'a [TakenSeat]),
    Shortages(&'a [Shortage]),
    Conflicts(&'a [Conflict]),
    Shards(&'a [u16]),
    /// The total of a cart.
    Total(Money),
    /// The version of a cart's lines.
    LinesVersion(u64),
}

/// A field of a refusal that has this many places in the body. A part that is `None` is left out.
pub trait Detail<const PARTS: usize> {
    /// The values.
    fn parts(&self) -> [Option<Shown<'_>>; PARTS];
}

/// Adds the parts that are there, under their names.
pub(crate) fn show<'a, const PARTS: usize>(
    names: [&'static str; PARTS],
    parts: [Option<Shown<'a>>; PARTS],
    to: &mut Vec<(&'static str, Shown<'a>)>,
) {
    to.extend(names.into_iter().zip(parts).filter_map(|(name, part)| Some((name, part?))));
}

/// Fields with one place.
macro_rules! details {
    ($($of:ty: $value:ident => $shown:expr;)+) => {$(
        impl Detail<1> for $of {
            fn parts(&self) -> [Option<Shown<'_>>; 1] {
                let $value = self;
                [Some($shown)]
            }
        }
    )+};
}

details! {
    u16: number => Shown::Number((*number).into());
    u32: number => Shown::Number((*number).into());
    u64: number => Shown::Number(*number);
    Id: id => Shown::Id(id);
    Entity: entity => Shown::Entity(entity);
    Timestamp: at => Shown::Time(*at);
    Currency: currency => Shown::Currency(*currency);
    Vec<Seat>: seats => Shown::Seats(seats);
    Vec<Shortage>: shortages => Shown::Shortages(shortages);
    Vec<Conflict>: conflicts => Shown::Conflicts(conflicts);
    Vec<u16>: shards => Shown::Shards(shards);
}

impl Detail<1> for Option<u64> {
    fn parts(&self) -> [Option<Shown<'_>>; 1] {
        [self.map(Shown::Number)]
    }
}

impl Detail<1> for Option<Timestamp> {
    fn parts(&self) -> [Option<Shown<'_>>; 1] {
        [self.map(Shown::Time)]
    }
}

impl Detail<2> for Vec<TakenSeat> {
    fn parts(&self) -> [Option<Shown<'_>>; 2] {
        [Some(Shown::SeatsOf(self)), Some(Shown::StatesOf(self))]
    }
}

impl Detail<2> for Money {
    fn parts(&self) -> [Option<Shown<'_>>; 2] {
        [Some(Shown::Amount(self.amount)), Some(Shown::Currency(self.currency))]
    }
}

impl Detail<2> for CartDifference {
    fn parts(&self) -> [Option<Shown<'_>>; 2] {
        match *self {
            CartDifference::Total { expected, actual } => [expected, actual].map(|total| Some(Shown::Total(total))),
            CartDifference::Lines { expected, actual } => {
                [expected, actual].map(|version| Some(Shown::LinesVersion(version)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_complete() {
        for row in rows() {
            assert!((400..=599).contains(&row.http), "{row:?}");
            assert_eq!(row.http >= 500, row.kind == Kind::Failure, "{row:?}");
            assert!(row.key().ends_with(row.name), "{row:?}");
            assert!(!row.is_outcome || row.kind == Kind::Refusal, "{row:?}");
            let is_failure = row.kind == Kind::Failure;
            assert!(is_failure || (!row.in_doubt && row.retry_after_ms.is_none()), "{row:?}");
            assert!(!(is_failure && row.message.contains('{')), "the message of a failure has no fields: {row:?}");
        }
    }

    #[test]
    fn the_first_sample_of_a_row_shows_its_fields() {
        fn check(row: &Row, shown: Option<Vec<(&'static str, Shown<'_>)>>) {
            let shown = shown.unwrap_or_else(|| panic!("{} has no sample", row.name));
            let names: Vec<&str> = shown.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, row.fields, "{}", row.name);
        }
        let (refusals, rejections) = (Refusal::samples(), Rejection::samples());
        for row in Refusal::ROWS {
            check(row, refusals.iter().find(|sample| sample.row() == row).map(Refusal::details));
        }
        for row in Rejection::ROWS {
            check(row, rejections.iter().find(|sample| sample.row() == row).map(Rejection::details));
        }
    }
}

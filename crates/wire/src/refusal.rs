//! The body of a refusal: code, name, message, and the details of its kind.

use boxoffice_core::refusal::{CartDifference, LineRefusal, Refusal};
use serde::{
    Serialize, Serializer,
    ser::{Error as _, SerializeMap},
};

use crate::{Rejection, repr::ListOf, repr::ToWire, repr::payment::Figure};

/// The body of a refusal.
pub(crate) enum RefusalBody<'a> {
    /// A refusal of the core.
    Refusal(&'a Refusal),
    /// A rejection of the client port.
    Rejection(&'a Rejection),
}

impl<'a> RefusalBody<'a> {
    pub(crate) fn of(why: &'a Rejection) -> RefusalBody<'a> {
        match why {
            Rejection::Refusal(refusal) => RefusalBody::Refusal(refusal),
            Rejection::UnknownOp(_)
            | Rejection::TooLarge(_)
            | Rejection::Unauthenticated(_)
            | Rejection::RateLimited { .. }
            | Rejection::UnsupportedVersion(_) => RefusalBody::Rejection(why),
        }
    }
}

impl Serialize for RefusalBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            RefusalBody::Rejection(why) => {
                let retry_after_ms = match why {
                    Rejection::RateLimited { retry_after_ms, .. } => *retry_after_ms,
                    _ => None,
                };
                let mut map = serializer.serialize_map(Some(HEAD_FIELDS + usize::from(retry_after_ms.is_some())))?;
                head(&mut map, why.code(), why.name(), why)?;
                if let Some(retry_after_ms) = retry_after_ms {
                    map.serialize_entry("retry_after_ms", &retry_after_ms)?;
                }
                map.end()
            }
            RefusalBody::Refusal(refusal @ Refusal::Lines(lines)) => several(refusal, lines, serializer),
            RefusalBody::Refusal(refusal) => {
                let mut map = serializer.serialize_map(Some(HEAD_FIELDS + details_fields(refusal)))?;
                head(&mut map, refusal.code(), refusal.name(), refusal)?;
                details(&mut map, refusal)?;
                map.end()
            }
        }
    }
}

/// Several refused lines of a request. The body has the details of the first, then all lines with theirs.
fn several<S: Serializer>(all: &Refusal, lines: &[LineRefusal], serializer: S) -> Result<S::Ok, S::Error> {
    let first = &lines.first().ok_or_else(|| S::Error::custom("a refusal of no lines"))?.refusal;
    let mut map = serializer.serialize_map(Some(HEAD_FIELDS + details_fields(first) + 1))?;
    head(&mut map, all.code(), all.name(), all)?;
    details(&mut map, first)?;
    map.serialize_entry("lines", &ListOf(|| lines.iter().map(Line)))?;
    map.end()
}

/// One refused line of a request.
struct Line<'a>(&'a LineRefusal);

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let LineRefusal { line, refusal } = self.0;
        // `line` is the number of the line in the request. A refusal about a line of the cart has its own `line`, which is
        // omitted here. No such refusal is known.
        let own = if matches!(refusal, Refusal::NoSuchLine(_)) { 0 } else { details_fields(refusal) };
        let mut map = serializer.serialize_map(Some(1 + HEAD_FIELDS + own))?;
        map.serialize_entry("line", line)?;
        head(&mut map, refusal.code(), refusal.name(), refusal)?;
        if own > 0 {
            details(&mut map, refusal)?;
        }
        map.end()
    }
}

/// The number of fields of every refusal.
const HEAD_FIELDS: usize = 3;

/// Writes the fields of every refusal.
fn head<M: SerializeMap>(
    map: &mut M,
    code: u16,
    name: &'static str,
    message: &impl std::fmt::Display,
) -> Result<(), M::Error> {
    struct Words<'a, T>(&'a T);
    impl<T: std::fmt::Display> Serialize for Words<'_, T> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self.0)
        }
    }
    map.serialize_entry("code", &code)?;
    map.serialize_entry("name", name)?;
    map.serialize_entry("message", &Words(message))
}

/// The number of details of a refusal, which MessagePack needs beforehand.
fn details_fields(refusal: &Refusal) -> usize {
    let mut count = Count(0);
    // Counting cannot fail.
    let _ = details(&mut count, refusal);
    count.0
}

/// Counts the entries of a map.
struct Count(usize);

impl SerializeMap for Count {
    type Ok = ();
    type Error = std::fmt::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), std::fmt::Error> {
        self.0 += 1;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), std::fmt::Error> {
        Ok(())
    }

    fn end(self) -> Result<(), std::fmt::Error> {
        Ok(())
    }
}

/// Writes the details of a refusal.
fn details<M: SerializeMap>(map: &mut M, refusal: &Refusal) -> Result<(), M::Error> {
    match refusal {
        Refusal::SeatsTaken(taken) | Refusal::SeatBlocked(taken) => {
            map.serialize_entry("seats", &ListOf(|| taken.iter().map(|taken| ToWire(&taken.seat))))?;
            map.serialize_entry("states", &ListOf(|| taken.iter().map(|taken| ToWire(&taken.state))))
        }
        Refusal::NoSuchSeat(seats) | Refusal::DuplicateSeat(seats) => map.serialize_entry("seats", &ToWire(seats)),
        Refusal::NotEnoughPlaces { area, free } => {
            map.serialize_entry("area", &ToWire(area))?;
            map.serialize_entry("free", free)
        }
        Refusal::NoAdjacentSeats { count, free } => {
            map.serialize_entry("count", count)?;
            map.serialize_entry("free", free)
        }
        Refusal::HallOccupied(session) => map.serialize_entry("session", &ToWire(session)),
        Refusal::LimitPerCustomer { quota, max, taken } => {
            map.serialize_entry("quota", &ToWire(quota))?;
            map.serialize_entry("max", max)?;
            map.serialize_entry("taken", taken)
        }
        Refusal::LimitPerOrder { entity, max } => {
            map.serialize_entry("entity", &ToWire(entity))?;
            map.serialize_entry("max", max)
        }
        Refusal::ShareReached { entity, held, retry_after_ms } => {
            map.serialize_entry("entity", &ToWire(entity))?;
            map.serialize_entry("held", held)?;
            map.serialize_entry("retry_after_ms", retry_after_ms)
        }
        Refusal::NoSuchLine(line) => map.serialize_entry("line", line),
        Refusal::CartDiffers(CartDifference::Total { expected, actual }) => {
            map.serialize_entry("expected", &Figure { total: Some(*expected), lines: None })?;
            map.serialize_entry("actual", &Figure { total: Some(*actual), lines: None })
        }
        Refusal::CartDiffers(CartDifference::Lines { expected, actual }) => {
            map.serialize_entry("expected", &Figure { total: None, lines: Some(*expected) })?;
            map.serialize_entry("actual", &Figure { total: None, lines: Some(*actual) })
        }
        Refusal::TooManyLines(limit) => map.serialize_entry("limit", limit),
        Refusal::OutOfStock(shortages) => map.serialize_entry("shortages", &ToWire(shortages)),
        Refusal::NoSuchProduct(product) => map.serialize_entry("product", &ToWire(product)),
        Refusal::SlotTaken(conflicts) => map.serialize_entry("conflicts", &ToWire(conflicts)),
        Refusal::IdInUse(booking) | Refusal::NoSuchBooking(booking) => map.serialize_entry("booking", &ToWire(booking)),
        Refusal::CurrencyFixed { entity, currency } => {
            map.serialize_entry("entity", &ToWire(entity))?;
            map.serialize_entry("currency", &ToWire(currency))
        }
        Refusal::AmountMismatch { asked, got } => {
            map.serialize_entry("asked", asked)?;
            map.serialize_entry("got", got)
        }
        Refusal::NoSuchNode { node }
        | Refusal::NodeGone { node }
        | Refusal::DiskDiffers { node }
        | Refusal::NotDrainable { node, why: _ } => map.serialize_entry("node", node),
        Refusal::QuorumWouldBeLost { node, shards } | Refusal::NodeInUse { node, shards } => {
            map.serialize_entry("node", node)?;
            map.serialize_entry("shards", shards)
        }
        Refusal::PlacementStale { version } => map.serialize_entry("version", version),
        Refusal::TooManyNodes { max } => map.serialize_entry("max", max),
        Refusal::TooFewLeft { node, serving } => {
            map.serialize_entry("node", node)?;
            map.serialize_entry("serving", serving)
        }
        Refusal::BadRequest(_)
        | Refusal::RequestIdMissing
        | Refusal::RequestIdReused
        | Refusal::InProgress
        | Refusal::Internal
        | Refusal::Forbidden(_)
        | Refusal::SessionClosed(_)
        | Refusal::CartNotActive(_)
        | Refusal::CartExpired
        | Refusal::CartEmpty
        | Refusal::NotYourCart
        | Refusal::HoldAgeExceeded
        | Refusal::BadQuantity(_)
        | Refusal::BadInterval(_)
        | Refusal::OutsideHours(_)
        | Refusal::TooSoonOrFar(_)
        | Refusal::PaymentDeclined(_)
        | Refusal::PaymentPending
        | Refusal::Lines(_)
        | Refusal::NotFound(_)
        | Refusal::AlreadyExistsDifferently(_)
        | Refusal::AlreadyFounded
        | Refusal::WrongSecret
        | Refusal::NotInvited => Ok(()),
    }
}

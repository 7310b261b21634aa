//! The body of a refusal: code, name, message, and the fields of its row.

use boxoffice_core::refusal::{LineRefusal, Refusal, Rejection, Shown};
use serde::{
    Serialize, Serializer,
    ser::{Error as _, SerializeMap},
};

use crate::{repr::ListOf, repr::ToWire, repr::payment::Figure};

/// The body of a refusal.
pub(crate) enum RefusalBody<'a> {
    /// A refusal of the core.
    Refusal(&'a Refusal),
    /// A rejection of the client port.
    Rejection(&'a Rejection),
}

impl<'a> RefusalBody<'a> {
    pub(crate) fn of(why: &'a Rejection) -> RefusalBody<'a> {
        if let Rejection::Refusal(refusal) = why { RefusalBody::Refusal(refusal) } else { RefusalBody::Rejection(why) }
    }
}

impl Serialize for RefusalBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            RefusalBody::Rejection(why) => {
                let fields = why.details();
                let mut map = serializer.serialize_map(Some(HEAD_FIELDS + fields.len()))?;
                head(&mut map, why.code(), why.name(), why)?;
                write(&fields, &mut map)?;
                map.end()
            }
            RefusalBody::Refusal(refusal @ Refusal::Lines(lines)) => several(refusal, lines, serializer),
            RefusalBody::Refusal(refusal) => {
                let fields = refusal.details();
                let mut map = serializer.serialize_map(Some(HEAD_FIELDS + fields.len()))?;
                head(&mut map, refusal.code(), refusal.name(), refusal)?;
                write(&fields, &mut map)?;
                map.end()
            }
        }
    }
}

/// Several refused lines of a request. The body has the fields of the first, then all lines with theirs.
fn several<S: Serializer>(all: &Refusal, lines: &[LineRefusal], serializer: S) -> Result<S::Ok, S::Error> {
    let first = &lines.first().ok_or_else(|| S::Error::custom("a refusal of no lines"))?.refusal;
    let fields = first.details();
    let mut map = serializer.serialize_map(Some(HEAD_FIELDS + fields.len() + 1))?;
    head(&mut map, all.code(), all.name(), all)?;
    write(&fields, &mut map)?;
    map.serialize_entry("lines", &ListOf(|| lines.iter().map(Line)))?;
    map.end()
}

/// One refused line of a request.
struct Line<'a>(&'a LineRefusal);

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let LineRefusal { line, refusal } = self.0;
        let mut fields = refusal.details();
        // `line` is the number of the line in the request, and hides the line of the cart that a refusal may be about.
        fields.retain(|(name, _)| *name != "line");
        let mut map = serializer.serialize_map(Some(1 + HEAD_FIELDS + fields.len()))?;
        map.serialize_entry("line", line)?;
        head(&mut map, refusal.code(), refusal.name(), refusal)?;
        write(&fields, &mut map)?;
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

/// The fields of a row with their values. MessagePack needs their number before the first.
type ShownFields<'a> = Vec<(&'static str, Shown<'a>)>;

fn write<M: SerializeMap>(fields: &ShownFields<'_>, map: &mut M) -> Result<(), M::Error> {
    fields.iter().try_for_each(|(name, shown)| map.serialize_entry(name, &Value(*shown)))
}

/// A value as it is written.
struct Value<'a>(Shown<'a>);

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Shown::Number(number) => serializer.serialize_u64(number),
            Shown::Amount(amount) => serializer.serialize_i64(amount),
            Shown::Id(id) => ToWire(id).serialize(serializer),
            Shown::Entity(entity) => ToWire(entity).serialize(serializer),
            Shown::Time(at) => ToWire(&at).serialize(serializer),
            Shown::Currency(currency) => ToWire(&currency).serialize(serializer),
            Shown::Seats(seats) => ListOf(|| seats.iter().map(ToWire)).serialize(serializer),
            Shown::SeatsOf(taken) => ListOf(|| taken.iter().map(|taken| ToWire(&taken.seat))).serialize(serializer),
            Shown::StatesOf(taken) => ListOf(|| taken.iter().map(|taken| ToWire(&taken.state))).serialize(serializer),
            Shown::Shortages(shortages) => ListOf(|| shortages.iter().map(ToWire)).serialize(serializer),
            Shown::Conflicts(conflicts) => ListOf(|| conflicts.iter().map(ToWire)).serialize(serializer),
            Shown::Shards(shards) => shards.serialize(serializer),
            Shown::Total(total) => Figure { total: Some(total), lines: None }.serialize(serializer),
            Shown::LinesVersion(version) => Figure { total: None, lines: Some(version) }.serialize(serializer),
        }
    }
}

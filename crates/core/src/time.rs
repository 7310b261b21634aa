//! Instants and spans, in milliseconds. Nothing here reads a clock.

use crate::{
    stored::{self, Decode, Encode, Error, Reader, Schema, Shape, Writer},
    version::{ClusterVersion, newest},
};

/// Milliseconds since 1970-01-01T00:00:00Z, of true time or, where stated, of a shard's running time. Running time never steps
/// and carries all deadlines. It means nothing outside its shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

// The bytes of the number from its first that is not zero. Those of this century have 6, where CBOR's numbers have 4 or 8.
impl Encode for Timestamp {
    fn encode(&self, out: &mut Writer) {
        out.bytes(&self.0.to_be_bytes()[self.0.leading_zeros() as usize / 8..]);
    }
}

impl Decode for Timestamp {
    fn shape(_: &mut Schema) -> Shape {
        Shape::Leaf("instant")
    }

    fn decode(from: &mut Reader<'_>) -> Result<Timestamp, Error> {
        let bytes = stored::bytes(from)?;
        if bytes.len() > 8 || bytes.first() == Some(&0) {
            return Err(Error::message("an instant has up to eight bytes, the first of which is not zero"));
        }
        Ok(Timestamp(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))))
    }
}

/// The end of the year 9999, the latest instant that a client may send.
pub const TIMESTAMP_MAX: Timestamp = Timestamp(253_402_300_799_999);

impl Timestamp {
    /// This instant, `span_ms` later, or the end of time if there is no such instant.
    pub fn after(self, span_ms: u64) -> Timestamp {
        Timestamp(self.0.saturating_add(span_ms).min(TIMESTAMP_MAX.0))
    }

    /// This instant, moved by `distance_ms`, which may be negative.
    pub fn ahead(self, distance_ms: i64) -> Timestamp {
        Timestamp(self.0.saturating_add_signed(distance_ms))
    }
}

/// An instant of a shard, and the version of the cluster at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Running time, which orders everything and carries deadlines.
    pub at: Timestamp,
    /// True time minus running time, in milliseconds.
    pub distance_ms: i64,
    /// What is decided is written under this version, so it may have what came with it, and nothing later.
    pub version: ClusterVersion,
}

impl Moment {
    /// True time, for dates, opening hours, notice and ends of sales.
    pub fn true_time(self) -> Timestamp {
        self.at.ahead(self.distance_ms)
    }
}

impl From<Timestamp> for Moment {
    /// The moment of a shard whose running time is true time, in a cluster of the newest version.
    fn from(at: Timestamp) -> Moment {
        Moment { at, distance_ms: 0, version: newest() }
    }
}

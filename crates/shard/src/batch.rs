//! The payload of one log entry: the turns of a shard that were proposed in the same pass.
//!
//! Layout, little-endian: version 1 byte, count 4, epoch 8, sequence 8, stamp 8, distance 8. Each turn follows with its length
//! (4) and its bytes. An entry without turns only changes the distance.

use bytes::{Buf, BufMut, Bytes};

use crate::codec::{Malformed, Reader};
use crate::name::Epoch;

const VERSION: u8 = 6;
const HEADER_BYTES: usize = 1 + 4 + 8 + 8 + 8 + 8;
const LENGTH_BYTES: usize = 4;

/// The header of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The leadership that proposed the entry.
    pub(crate) epoch: Epoch,
    /// The entry's number within its epoch, counted from 1 without gaps.
    pub(crate) sequence: u64,
    /// The shard's running time when the entry was proposed, milliseconds.
    pub(crate) stamp_ms: u64,
    /// True time less running time, milliseconds.
    pub(crate) distance_ms: i64,
}

/// When an entry was proposed, according to its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The shard's running time, milliseconds.
    pub running_ms: u64,
    /// True time less running time, milliseconds.
    pub distance_ms: i64,
}

impl Stamp {
    /// True time as the shard had it, milliseconds since 1970.
    pub fn true_ms(self) -> u64 {
        self.running_ms.saturating_add_signed(self.distance_ms)
    }
}

/// The turns of one committed entry, in the order in which they were proposed. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turns {
    count: u32,
    // Only the lengths and turns. All lengths were checked when the entry was opened.
    body: Bytes,
}

impl Turns {
    /// The number of turns. It is 0 if the entry only changes the shard's distance from true time.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// The bytes of all turns together.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Whether the entry has no turns.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The turns in the payload of a log entry, and when it was proposed. For reading a log that no engine has open.
    ///
    /// # Errors
    ///
    /// [`Malformed`] when the bytes are not such a payload.
    pub fn read(payload: Bytes) -> Result<(Stamp, Turns), Malformed> {
        let (Header { stamp_ms, distance_ms, .. }, turns) = open(payload)?;
        Ok((Stamp { running_ms: stamp_ms, distance_ms }, turns))
    }

    /// Each turn's bytes, borrowed.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest: &[u8] = &self.body;
        (0..self.count).map(move |_| {
            let (turn, after) = split(rest);
            rest = after;
            turn
        })
    }

    /// Each turn's bytes as a slice that shares the entry's memory and keeps the whole entry alive.
    pub fn slices(&self) -> impl Iterator<Item = Bytes> {
        self.iter().map(|turn| self.body.slice_ref(turn))
    }
}

fn split(mut rest: &[u8]) -> (&[u8], &[u8]) {
    let length = rest.get_u32_le() as usize;
    rest.split_at(length)
}

/// How many bytes one turn adds to an entry.
pub(crate) fn cost(turn: &[u8]) -> usize {
    LENGTH_BYTES + turn.len()
}

/// Builds the payload of an entry in one allocation.
pub(crate) fn seal<'a>(header: Header, turns: impl Iterator<Item = &'a [u8]> + Clone) -> Vec<u8> {
    let (count, body) = turns.clone().fold((0u32, 0usize), |(count, body), turn| (count + 1, body + cost(turn)));
    let mut payload = Vec::with_capacity(HEADER_BYTES + body);
    payload.put_u8(VERSION);
    payload.put_u32_le(count);
    payload.put_u64_le(header.epoch.0);
    payload.put_u64_le(header.sequence);
    payload.put_u64_le(header.stamp_ms);
    payload.put_i64_le(header.distance_ms);
    for turn in turns {
        let length = u32::try_from(turn.len()).expect("a turn is limited far below 4 GiB");
        payload.put_u32_le(length);
        payload.put_slice(turn);
    }
    payload
}

/// Checks a payload and takes it apart without copying.
///
/// # Errors
///
/// [`Malformed`] when the version is unknown or the lengths do not fill the payload exactly.
pub(crate) fn open(mut payload: Bytes) -> Result<(Header, Turns), Malformed> {
    let mut reader = Reader::new("an entry's header", &mut payload);
    let version = reader.u8()?;
    if version != VERSION {
        return Err(Malformed::Unknown { what: "an entry's version", found: version });
    }
    let count = reader.u32()?;
    let header = Header {
        epoch: Epoch(reader.u64()?),
        sequence: reader.u64()?,
        stamp_ms: reader.u64()?,
        distance_ms: reader.i64()?,
    };
    check_lengths(count, &payload)?;
    let turns = Turns { count, body: payload };
    Ok((header, turns))
}

fn check_lengths(count: u32, body: &[u8]) -> Result<(), Malformed> {
    const WHAT: &str = "an entry's list of turns";
    let mut rest = body;
    for _ in 0..count {
        let short = |missing| Malformed::Short { what: WHAT, missing };
        if rest.len() < LENGTH_BYTES {
            return Err(short(LENGTH_BYTES - rest.len()));
        }
        let length = rest.get_u32_le() as usize;
        if rest.len() < length {
            return Err(short(length - rest.len()));
        }
        rest.advance(length);
    }
    match rest.len() {
        0 => Ok(()),
        extra => Err(Malformed::Long { what: WHAT, extra }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: Header =
        Header { epoch: Epoch(3), sequence: 9, stamp_ms: 1_700_000_000_123, distance_ms: -3_600_000 };

    fn sealed(turns: &[Vec<u8>]) -> Vec<u8> {
        seal(HEADER, turns.iter().map(Vec::as_slice))
    }

    proptest! {
        #[test]
        fn a_sealed_entry_is_opened(
            turns in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
        ) {
            let payload = sealed(&turns);
            prop_assert_eq!(payload.capacity(), payload.len());
            let (header, opened) = open(payload.into()).unwrap();
            prop_assert_eq!(header, HEADER);
            prop_assert_eq!(opened.len(), turns.len());
            prop_assert_eq!(opened.iter().map(<[u8]>::to_vec).collect::<Vec<_>>(), turns.clone());
            prop_assert_eq!(opened.slices().map(|turn| turn.to_vec()).collect::<Vec<_>>(), turns);
        }

        #[test]
        fn any_bytes_are_refused_or_opened_but_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok((_, turns)) = open(bytes.into()) {
                prop_assert_eq!(turns.iter().count(), turns.len());
            }
        }
    }

    #[test]
    fn a_truncated_payload_is_refused() {
        let whole = sealed(&[b"hold a3".to_vec(), b"release a3".to_vec()]);
        for length in 0..whole.len() {
            assert!(open(Bytes::copy_from_slice(&whole[..length])).is_err(), "{length}");
        }
    }

    #[test]
    fn a_payload_with_extra_bytes_is_refused() {
        let mut long = sealed(&[b"hold a3".to_vec()]);
        long.push(0);
        let refusal = open(long.into()).unwrap_err();
        assert_eq!(refusal, Malformed::Long { what: "an entry's list of turns", extra: 1 });
    }

    #[test]
    fn a_payload_of_another_version_is_refused() {
        let mut newer = sealed(&[b"hold a3".to_vec()]);
        newer[0] = 1;
        let refusal = open(newer.into()).unwrap_err();
        assert_eq!(refusal, Malformed::Unknown { what: "an entry's version", found: 1 });
    }
}

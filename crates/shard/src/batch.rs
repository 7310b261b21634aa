//! The payload of one log entry: the turns of a shard that were proposed in the same pass.
//!
//! Layout: version 1 byte, twice the count and whether there is a mark, epoch, sequence, stamp, distance with its sign in the lowest
//! bit, the mark if there is one. All but the version are numbers of seven bits a byte. Each turn follows with its length, as such a
//! number, and its bytes. An entry without turns only changes the distance.

use boxoffice_core::version::ClusterVersion;
use bytes::{BufMut, Bytes};

use crate::codec::{Malformed, Reader, VARINT_BYTES_MAX, put_varint, read_varint, unzigzag, varint_bytes, zigzag};
use crate::name::Epoch;

const TURNS: &str = "an entry's list of turns";
const HEADER_BYTES_MAX: usize = 1 + 6 * VARINT_BYTES_MAX;

/// The header of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The version of the cluster under which the entry was written.
    pub(crate) version: ClusterVersion,
    /// The leadership that proposed the entry.
    pub(crate) epoch: Epoch,
    /// The entry's number within its epoch, counted from 1 without gaps.
    pub(crate) sequence: u64,
    /// The shard's running time when the entry was proposed, milliseconds.
    pub(crate) stamp_ms: u64,
    /// True time less running time, milliseconds.
    pub(crate) distance_ms: i64,
    /// The mark of the entry and of those after it, if those before have a lower one. See [`KnownMark`](crate::KnownMark).
    pub(crate) mark: Option<u64>,
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

    /// When an entry was proposed, and the mark that its payload carries, with which a new part of the shard's entries begins.
    ///
    /// # Errors
    ///
    /// [`Malformed`] when the bytes are not such a payload.
    pub fn mark(payload: Bytes) -> Result<(Stamp, Option<u64>), Malformed> {
        let (Header { stamp_ms, distance_ms, mark, .. }, _) = open(payload)?;
        Ok((Stamp { running_ms: stamp_ms, distance_ms }, mark))
    }

    /// Each turn's bytes, borrowed.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest: &[u8] = &self.body;
        (0..self.count).map(move |_| {
            let (turn, after) = split(rest).expect("all lengths were checked when the entry was opened");
            rest = after;
            turn
        })
    }

    /// Each turn's bytes as a slice that shares the entry's memory and keeps the whole entry alive.
    pub fn slices(&self) -> impl Iterator<Item = Bytes> {
        self.iter().map(|turn| self.body.slice_ref(turn))
    }
}

/// The first turn and what follows it.
///
/// # Errors
///
/// [`Malformed`] when the bytes are too few.
fn split(rest: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (length, used) = read_varint(TURNS, rest)?;
    let rest = &rest[used..];
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    rest.split_at_checked(length).ok_or_else(|| Malformed::Short { what: TURNS, missing: length - rest.len() })
}

/// How many bytes one turn adds to an entry.
pub(crate) fn cost(turn: &[u8]) -> usize {
    varint_bytes(turn.len() as u64) + turn.len()
}

/// Builds the payload of an entry in one allocation.
pub(crate) fn seal<'a>(header: Header, turns: impl Iterator<Item = &'a [u8]> + Clone) -> Vec<u8> {
    let (count, body) = turns.clone().fold((0u64, 0usize), |(count, body), turn| (count + 1, body + cost(turn)));
    let Header { version, epoch, sequence, stamp_ms, distance_ms, mark } = header;
    let mut space = [0; HEADER_BYTES_MAX];
    let mut rest = &mut space[..];
    rest.put_u8(version.number());
    let numbers = [count << 1 | u64::from(mark.is_some()), epoch.0, sequence, stamp_ms, zigzag(distance_ms)];
    numbers.into_iter().chain(mark).for_each(|number| put_varint(&mut rest, number));
    let head = HEADER_BYTES_MAX - rest.len();
    let mut payload = Vec::with_capacity(head + body);
    payload.put_slice(&space[..head]);
    for turn in turns {
        put_varint(&mut payload, turn.len() as u64);
        payload.put_slice(turn);
    }
    payload
}

/// The version of a payload.
///
/// # Errors
///
/// [`Malformed`] when this program does not read it.
pub(crate) fn version(payload: &Bytes) -> Result<ClusterVersion, Malformed> {
    Reader::new("an entry", &mut payload.clone()).version()
}

/// Checks a payload and takes it apart without copying.
///
/// # Errors
///
/// [`Malformed`] when this program does not read its version, or the lengths do not fill the payload exactly.
pub(crate) fn open(mut payload: Bytes) -> Result<(Header, Turns), Malformed> {
    let mut reader = Reader::new("an entry", &mut payload);
    let version = reader.version()?;
    let head = reader.varint()?;
    let header = Header {
        version,
        epoch: Epoch(reader.varint()?),
        sequence: reader.varint()?,
        stamp_ms: reader.varint()?,
        distance_ms: unzigzag(reader.varint()?),
        mark: if head & 1 == 1 { Some(reader.varint()?) } else { None },
    };
    let count = u32::try_from(head >> 1).map_err(|_| Malformed::Number { what: "an entry" })?;
    check_lengths(count, &payload)?;
    let turns = Turns { count, body: payload };
    Ok((header, turns))
}

fn check_lengths(count: u32, mut rest: &[u8]) -> Result<(), Malformed> {
    for _ in 0..count {
        (_, rest) = split(rest)?;
    }
    match rest.len() {
        0 => Ok(()),
        extra => Err(Malformed::Long { what: TURNS, extra }),
    }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::version::{NEWEST, OtherVersion};
    use proptest::prelude::*;

    use super::*;

    const HEADER: Header = Header {
        version: NEWEST,
        epoch: Epoch(3),
        sequence: 9,
        stamp_ms: 1_700_000_000_123,
        distance_ms: -3_600_000,
        mark: None,
    };

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
    fn a_payload_of_another_version_is_refused_before_anything_else() {
        let newer = NEWEST.number() + 1;
        for found in [newer, 6] {
            let mut other = sealed(&[b"hold a3".to_vec()]);
            other[0] = found;
            other.truncate(2);
            let version = OtherVersion { found: found.into() };
            assert_eq!(open(other.into()), Err(Malformed::Version { what: "an entry", version }));
        }
        let refusal = open(vec![newer].into()).unwrap_err().to_string();
        assert_eq!(refusal, format!("an entry was written under version {newer}, this program reads up to {NEWEST}"));
    }

    #[test]
    fn a_header_is_short_and_a_mark_that_is_absent_takes_no_byte() {
        let bytes = |mark: Option<u64>| seal(Header { mark, ..HEADER }, std::iter::once(&[7; 200][..]));
        assert_eq!(open(bytes(Some(1 << 40)).into()).unwrap().0.mark, Some(1 << 40));
        assert_eq!(bytes(Some(5)).len(), bytes(None).len() + 1);
        let head = bytes(None).len() - 200;
        println!("an entry with one turn of 200 bytes: header and length {head} bytes; 41 in fixed numbers");
        assert_eq!(head, 16);
    }
}

//! The encoding of a record in a segment, and how a damaged one is distinguished from a torn one.
//!
//! ```text
//! header, 64 bytes          body, when there is any
//! ┌──────────────┬───────┐  ┌─────────┬───────┬─────────┬───────┐
//! │ fields + crc │ stamp │  │ payload │ lasts │ padding │ stamp │
//! └──────────────┴───────┘  └─────────┴───────┴─────────┴───────┘
//! ```
//!
//! *Lasts* are the last entries of the record's shards. Records begin at multiples of 64 bytes, so a header never straddles
//! two sectors of the disk.
//!
//! Everything but the stamps is *whitened*, that is XORed with a stream made from the segment's random salt and the position. So
//! no written aligned word of eight bytes is zero, for any payload. Every byte of a stamp has at least two bits, so one flipped
//! bit does not make it zero.
//!
//! **A record with a zero word, or with a zero byte at its end, was not completely written.** Checksums cover the whitened bytes,
//! so a record at another place or in another segment is bad as well.

/// Records begin at multiples of this many bytes.
pub(super) const LINE: usize = 64;
const STAMP: usize = 8;
const MAGIC: u32 = u32::from_le_bytes(*b"BXR1");
const CRC_AT: usize = 52;
const LAST_ENTRY_BYTES: usize = 10;

/// The purpose of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// New entries. Refused when only the reserve is left.
    Ordinary,
    /// A record that must be written even when space is short, such as votes. It may use the reserve.
    Vital,
    /// The hard states of all shards, which are in older segments and in no snapshot. It may use the reserve. Once it
    /// is durable, older segments may be released.
    Checkpoint,
}

/// `None` is a seal, which only says that all records before it are durable. A seal with a body skips a torn place, whose bytes
/// are unknown and therefore not checked.
fn code(kind: Option<Kind>) -> u8 {
    match kind {
        None => 0,
        Some(Kind::Ordinary) => 1,
        Some(Kind::Vital) => 2,
        Some(Kind::Checkpoint) => 3,
    }
}

fn kind(found: u8) -> Option<Option<Kind>> {
    let all = [None, Some(Kind::Ordinary), Some(Kind::Vital), Some(Kind::Checkpoint)];
    all.into_iter().find(|&kind| code(kind) == found)
}

/// The last entry of a shard in a record. The segment stays while the entry is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastEntry {
    pub shard: u16,
    /// The highest index of its entries in the record.
    pub last_index: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// `None` for a seal.
    pub(super) kind: Option<Kind>,
    pub(super) last_entries: u16,
    pub(super) payload_bytes: u32,
    pub(super) body_crc: u32,
    pub(super) seq: u64,
    /// The last record that was known to be durable when this one was written.
    pub(super) synced: u64,
}

impl Header {
    /// Whether the record skips its body.
    pub(super) fn is_skip(&self) -> bool {
        self.kind.is_none() && self.payload_bytes > 0
    }
}

/// The state of a record's place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A complete record of this many bytes.
    Whole(Header, usize),
    /// The header was not written.
    Nothing,
    /// A part of the record was not written.
    Unwritten(&'static str),
    /// The record was written and is damaged.
    Bad(&'static str),
}

/// The size of a record in its segment.
pub(super) fn record_bytes(payload_bytes: usize, last_entries: usize) -> usize {
    match payload_bytes + last_entries * LAST_ENTRY_BYTES {
        0 => LINE,
        body => LINE + (body + STAMP).next_multiple_of(LINE),
    }
}

/// Encodes a record for the position `at` of the segment with `salt` into `out`.
pub(super) fn encode(
    out: &mut Vec<u8>,
    (salt, at): (u64, u64),
    (kind, seq, synced): (Option<Kind>, u64, u64),
    payload: &[&[u8]],
    last_entries: &[LastEntry],
) {
    assert!(synced < seq, "record {seq} says it is durable before it is written");
    let payload_bytes: usize = payload.iter().map(|part| part.len()).sum();
    let whole = record_bytes(payload_bytes, last_entries.len());
    out.clear();
    out.reserve(whole);
    out.resize(LINE, 0);
    for part in payload {
        out.extend_from_slice(part);
    }
    for last_entry in last_entries {
        out.extend_from_slice(&last_entry.shard.to_le_bytes());
        out.extend_from_slice(&last_entry.last_index.to_le_bytes());
    }
    out.resize(whole, 0);
    let (header, body) = out.split_at_mut(LINE);
    if !body.is_empty() {
        whiten_and_stamp(body, salt, at + LINE as u64);
    }
    let fields = Header {
        kind,
        last_entries: u16::try_from(last_entries.len()).expect("more marks than shards"),
        payload_bytes: u32::try_from(payload_bytes).expect("payload beyond 4 GiB"),
        body_crc: crc32c::crc32c(body),
        seq,
        synced,
    };
    fields.encode(header, salt, at);
}

/// Encodes the header of a seal that skips `passed` bytes at `at` into `out`. The bytes behind the header stay as they
/// are. So the next record is found, whether a power cut leaves this header or the torn place.
pub(super) fn encode_skip(out: &mut Vec<u8>, (salt, at): (u64, u64), (seq, synced): (u64, u64), passed: u64) {
    assert!(synced < seq, "record {seq} says it is durable before it is written");
    let passed = usize::try_from(passed).expect("less than a segment");
    assert!(passed >= LINE && passed.is_multiple_of(LINE), "records stand at multiples of {LINE} bytes");
    let payload_bytes = u32::try_from(passed.saturating_sub(LINE + STAMP)).expect("less than a segment");
    out.clear();
    out.resize(LINE, 0);
    Header { kind: None, last_entries: 0, payload_bytes, body_crc: 0, seq, synced }.encode(out, salt, at);
}

/// Classifies the place `at` of the raw segment `bytes`.
pub(super) fn find(bytes: &[u8], at: usize, salt: u64) -> Found {
    let raw = &bytes[at..at + LINE];
    if raw.iter().all(|&byte| byte == 0) {
        return Found::Nothing;
    }
    let Some(header) = header_at(bytes, at, salt) else {
        return match is_unwritten(raw) {
            true => Found::Unwritten("its header is not all there"),
            false => Found::Bad("the checksum of its header does not match"),
        };
    };
    let whole = record_bytes(header.payload_bytes as usize, header.last_entries as usize);
    if whole > bytes.len() - at {
        return Found::Bad("it is longer than its segment");
    }
    let body = &bytes[at + LINE..at + whole];
    let good = body.is_empty()
        || header.is_skip()
        || crc32c::crc32c(body) == header.body_crc && has_stamp(body, salt, (at + LINE) as u64);
    match good {
        true => Found::Whole(header, whole),
        false if is_unwritten(body) => Found::Unwritten("not all of it was written"),
        false => Found::Bad("its checksum does not match"),
    }
}

/// The header at `at`, if it is valid. Its body may not be.
pub(super) fn header_at(bytes: &[u8], at: usize, salt: u64) -> Option<Header> {
    let raw = &bytes[at..at + LINE];
    if !has_stamp(raw, salt, at as u64) {
        return None;
    }
    let mut plain = [0; LINE];
    plain.copy_from_slice(raw);
    whiten(&mut plain[..LINE - STAMP], salt, at as u64);
    let crc = u32::from_le_bytes(plain[CRC_AT..CRC_AT + 4].try_into().expect("four bytes"));
    if crc != crc32c::crc32c(&raw[..CRC_AT]) {
        return None;
    }
    Header::read(&plain)
}

/// Decodes the payload and last entries of the complete record at `at` into `out`.
pub(super) fn open<'a>(
    out: &'a mut Vec<u8>,
    bytes: &[u8],
    (salt, at): (u64, usize),
    header: &Header,
) -> (&'a [u8], impl Iterator<Item = LastEntry> + use<'a>) {
    let whole = record_bytes(header.payload_bytes as usize, header.last_entries as usize);
    out.clear();
    out.extend_from_slice(&bytes[at + LINE..at + whole]);
    whiten(out, salt, (at + LINE) as u64);
    let (payload, rest) = out.split_at(header.payload_bytes as usize);
    let last_entries =
        rest.chunks_exact(LAST_ENTRY_BYTES).take(header.last_entries as usize).map(|last_entry| LastEntry {
            shard: u16::from_le_bytes(last_entry[..2].try_into().expect("two bytes")),
            last_index: u64::from_le_bytes(last_entry[2..].try_into().expect("eight bytes")),
        });
    (payload, last_entries)
}

impl Header {
    /// Encodes the header for the position `at` into `out`.
    fn encode(&self, out: &mut [u8], salt: u64, at: u64) {
        self.write(out);
        whiten_and_stamp(out, salt, at);
        let crc = crc32c::crc32c(&out[..CRC_AT]).to_le_bytes();
        for (byte, crc) in out[CRC_AT..].iter_mut().zip(crc) {
            *byte ^= crc;
        }
    }

    fn write(&self, out: &mut [u8]) {
        out[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[4] = code(self.kind);
        out[6..8].copy_from_slice(&self.last_entries.to_le_bytes());
        out[8..12].copy_from_slice(&self.payload_bytes.to_le_bytes());
        out[12..16].copy_from_slice(&self.body_crc.to_le_bytes());
        out[16..24].copy_from_slice(&self.seq.to_le_bytes());
        out[24..32].copy_from_slice(&self.synced.to_le_bytes());
    }

    fn read(plain: &[u8; LINE]) -> Option<Header> {
        let u32_at = |at: usize| u32::from_le_bytes(plain[at..at + 4].try_into().expect("four"));
        let u64_at = |at: usize| u64::from_le_bytes(plain[at..at + 8].try_into().expect("eight"));
        if u32_at(0) != MAGIC {
            return None;
        }
        Some(Header {
            kind: kind(plain[4])?,
            last_entries: u16::from_le_bytes([plain[6], plain[7]]),
            payload_bytes: u32_at(8),
            body_crc: u32_at(12),
            seq: u64_at(16),
            synced: u64_at(24),
        })
    }
}

/// Whitens `bytes`, which are for the position `at`, and puts the stamp into the last eight.
fn whiten_and_stamp(bytes: &mut [u8], salt: u64, at: u64) {
    let end = bytes.len() - STAMP;
    whiten(&mut bytes[..end], salt, at);
    bytes[end..].copy_from_slice(&stamp(salt, at + end as u64));
}

fn has_stamp(bytes: &[u8], salt: u64, at: u64) -> bool {
    let end = bytes.len() - STAMP;
    bytes[end..] == stamp(salt, at + end as u64)
}

/// Every byte has at least two bits, so that no single flipped bit makes it zero.
fn stamp(salt: u64, at: u64) -> [u8; STAMP] {
    (stream(salt, at) | 0x1818_1818_1818_1818).to_le_bytes()
}

fn is_unwritten(bytes: &[u8]) -> bool {
    bytes.last() == Some(&0) || bytes.chunks_exact(8).any(|word| word == [0; 8])
}

/// The word of the stream at position `at`, a multiple of eight.
fn stream(salt: u64, at: u64) -> u64 {
    // The factor is odd, so all words of a segment differ. Without the salt none is known.
    salt.wrapping_add((at / 8).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Whitens plain bytes, or makes whitened bytes plain again.
fn whiten(bytes: &mut [u8], salt: u64, at: u64) {
    assert!(at.is_multiple_of(8) && bytes.len().is_multiple_of(8), "whitening goes by words");
    let (words, _) = bytes.as_chunks_mut::<8>();
    for (index, word) in words.iter_mut().enumerate() {
        let key = stream(salt, at + 8 * index as u64);
        *word = (u64::from_le_bytes(*word) ^ key).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: u64 = 0x0123_4567_89AB_CDEF;

    fn record(at: usize, payload: &[u8], last_entries: &[LastEntry]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(&mut bytes, (SALT, at as u64), (Some(Kind::Ordinary), 7, 5), &[payload], last_entries);
        let mut segment = vec![0; at];
        segment.extend(bytes);
        segment
    }

    #[test]
    fn a_written_record_is_read_back() {
        let last_entries = [LastEntry { shard: 3, last_index: 9 }, LastEntry { shard: 65_535, last_index: u64::MAX }];
        for size in [0, 1, 35, 36, 37, 99, 100, 101, 4_000] {
            for last_entries in [&last_entries[..0], &last_entries[..1], &last_entries[..]] {
                let payload: Vec<u8> = (0..size).map(|byte| byte as u8).collect();
                let segment = record(128, &payload, last_entries);
                let Found::Whole(header, whole) = find(&segment, 128, SALT) else { panic!("not found: {size} bytes") };
                assert_eq!(whole, segment.len() - 128);
                assert_eq!((header.seq, header.synced, header.kind), (7, 5, Some(Kind::Ordinary)));
                let mut out = Vec::new();
                let (read, read_marks) = open(&mut out, &segment, (SALT, 128), &header);
                assert_eq!(read, payload);
                assert_eq!(read_marks.collect::<Vec<_>>(), last_entries);
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_damage_and_no_tear_is() {
        // Zeros are the hardest case, because without whitening they would look unwritten.
        let whole = record(64, &[0; 300], &[LastEntry { shard: 1, last_index: 1 }]);
        for bit in 64 * 8..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(find(&flipped, 64, SALT), Found::Bad(_)), "bit {bit}");
        }
        for end in 65..whole.len() {
            let mut torn = whole.clone();
            torn[end..].fill(0);
            assert!(matches!(find(&torn, 64, SALT), Found::Unwritten(_)), "torn at {end}");
        }
    }

    #[test]
    fn no_stamp_is_one_bit_away_from_unwritten() {
        for salt in 0..2_000_u64 {
            let salt = salt.wrapping_mul(0xD6E8_FEB8_6659_FD93);
            let mut bytes = Vec::new();
            encode(&mut bytes, (salt, 0), (Some(Kind::Vital), 1, 0), &[], &[]);
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[LINE - 1] ^= 1 << bit;
                assert!(matches!(find(&flipped, 0, salt), Found::Bad(_)), "salt {salt} bit {bit}");
            }
        }
    }

    #[test]
    fn skipped_bytes_may_be_anything() {
        for passed in [64_u64, 128, 4_096] {
            let mut header = Vec::new();
            encode_skip(&mut header, (SALT, 64), (7, 6), passed);
            let mut segment = vec![0xA5; 64 + passed as usize];
            segment[64..128].copy_from_slice(&header);
            let Found::Whole(found, whole) = find(&segment, 64, SALT) else { panic!("not found: {passed} bytes") };
            assert_eq!((found.kind, found.seq, whole as u64), (None, 7, passed));
        }
    }

    #[test]
    fn a_record_is_good_only_at_its_place() {
        let segment = record(64, b"seat", &[]);
        let mut moved = segment.clone();
        moved.extend_from_within(64..);
        assert!(matches!(find(&segment, 64, SALT), Found::Whole(..)));
        assert!(matches!(find(&moved, segment.len(), SALT), Found::Bad(_)));
        assert!(matches!(find(&segment, 64, SALT + 1), Found::Bad(_)));
    }
}

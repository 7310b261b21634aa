//! Reads a whole log back, and distinguishes a torn end from damage.
//!
//! A power cut may interrupt the write of records that were not acknowledged. That place is *torn*: a part of it was
//! not written, no later record knew it to be durable, and no later segment was begun (the older one is synced before).
//! It is cut off with everything behind it, and reported. Every other bad place is *damage*: a completely written
//! record has changed, and the log is refused.
//!
//! A readable record may not be on the disk, because after a failed sync the system keeps its pages as if they were
//! written. Records that no later header proves durable, the *tail*, are rewritten with the same bytes before their
//! sync.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::record::{self, Found, Header, Kind, LINE};
use super::segment::{self, PAGE, Segment};
use super::{LastEntries, LogError, Record};
use boxoffice_env::{Disk, OpenMode};

/// The result of reading a log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Segments with records.
    pub segments: usize,
    /// Complete records, including seals.
    pub records: u64,
    /// Bytes of complete records.
    pub bytes: u64,
    /// The sequence number of the last complete record, 0 without one. After a cut it is the record in place of the
    /// torn end.
    pub last_seq: u64,
    /// Bytes of the tail, which is rewritten when the log is opened.
    pub tail_bytes: u64,
    /// The torn end that was cut off, or would be.
    pub torn_end: Option<TornEnd>,
    /// The last record is a seal, so everything was durable when the log was closed.
    pub clean_stop: bool,
    /// The log did not exist and was created.
    pub created: bool,
}

/// The end of a log whose write was interrupted. Nothing in it was known to be durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornEnd {
    /// The segment.
    pub file: PathBuf,
    /// Where the torn record begins, in bytes.
    pub offset: u64,
    /// From there to the last byte that is not zero.
    pub bytes: u64,
    /// The torn record.
    pub seq: u64,
    /// The sign that it is torn.
    pub why: &'static str,
    /// Headers of further records behind it, which were not durable either.
    pub further_records: u64,
}

/// A segment that was read.
pub(super) struct ScannedSegment {
    pub(super) segment: Segment,
    pub(super) last_entries: LastEntries,
    pub(super) checkpoint_seq: Option<u64>,
    /// The position of the next record.
    pub(super) end: usize,
    pub(super) records: u64,
    /// The bytes up to `end` that no later header proves durable.
    pub(super) tail: Vec<u8>,
}

/// Reads the log in `dir` without changing it. It must belong to `owner`, if one is given.
pub(super) fn read(
    disk: &dyn Disk,
    dir: &Path,
    mut owner: Option<u128>,
    mode: OpenMode,
    replay: &mut dyn FnMut(Record<'_>),
) -> Result<(Vec<ScannedSegment>, Recovery), LogError> {
    let numbers = numbers(disk, dir)?;
    let mut reader = Scanner {
        next_seq: (numbers.first() == Some(&1)).then_some(1),
        recovery: Recovery::default(),
        scratch: Vec::new(),
        in_doubt: VecDeque::new(),
    };
    let mut reads = Vec::with_capacity(numbers.len());
    let mut ended: Option<LogError> = None;
    for number in numbers {
        let (segment, found_owner, bytes) = segment::open(disk, dir, number, owner, mode)?;
        owner = Some(found_owner);
        if is_zero(&bytes[PAGE..]) {
            // A release keeps the segment with the newest checkpoint, so the first one is empty only in a log without
            // records.
            if reader.next_seq.is_none() {
                return Err(LogError::MissingSegment { number: number - 1, dir: dir.to_owned() });
            }
            ended.get_or_insert_with(|| reader.overtaken(&segment.path, PAGE, "it is empty"));
            reads.push(ScannedSegment::empty(segment));
            continue;
        }
        if let Some(damage) = ended {
            return Err(damage);
        }
        // A segment is synced before the next one is begun.
        reads.iter_mut().for_each(|read: &mut ScannedSegment| read.tail = Vec::new());
        reader.in_doubt.clear();
        let read = reader.segment(segment, &bytes, replay)?;
        if let Some(torn_end) = &reader.recovery.torn_end {
            ended = Some(reader.overtaken(&torn_end.file, read.end, torn_end.why));
        }
        reads.push(read);
    }
    reader.recovery.tail_bytes = reads.iter().map(|read| read.tail.len() as u64).sum();
    Ok((reads, reader.recovery))
}

/// The numbers of all segments in `dir`, ascending, including preallocated ones.
///
/// # Errors
/// [`LogError::Io`].
pub fn segment_numbers(disk: &dyn Disk, dir: &Path) -> Result<Vec<u64>, LogError> {
    let names = disk.list(dir).map_err(LogError::io("list", dir))?;
    Ok(names.iter().filter_map(|name| segment::number_in(name)).collect())
}

/// Calls `visit` with the complete records of one segment, in order. The log may be in use. A segment that is recycled
/// meanwhile gives arbitrary records or an error, so the caller must check afterwards that it still exists.
///
/// # Errors
/// [`LogError::Io`] and the other errors of opening a segment.
pub fn read_segment(
    disk: &dyn Disk,
    dir: &Path,
    number: u64,
    visit: &mut dyn FnMut(Record<'_>),
) -> Result<(), LogError> {
    if segment::is_empty(disk, dir, number)? {
        return Ok(());
    }
    let (segment, _, bytes) = segment::open(disk, dir, number, None, OpenMode::Read)?;
    let (mut at, mut scratch) = (PAGE, Vec::new());
    while at + LINE <= bytes.len() {
        let Found::Whole(header, whole) = record::find(&bytes, at, segment.salt) else { break };
        let (payload, _) = record::open(&mut scratch, &bytes, (segment.salt, at), &header);
        if let Some(kind) = header.kind {
            visit(Record { seq: header.seq, kind, payload });
        }
        at += whole;
    }
    Ok(())
}

/// The file of a segment in `dir`.
pub fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(segment::name(number))
}

/// The segments in `dir` to which nothing is written any more. The log may be in use.
///
/// # Errors
/// [`LogError::Io`].
pub fn cold_segments(disk: &dyn Disk, dir: &Path) -> Result<Vec<u64>, LogError> {
    let mut numbers = segment_numbers(disk, dir)?;
    while numbers.last().is_some_and(|last| segment::is_empty(disk, dir, *last).unwrap_or(true)) {
        numbers.pop();
    }
    numbers.pop();
    Ok(numbers)
}

/// Checks every record of a segment to which nothing is written any more. The log may be in use. The caller must check afterwards that
/// the segment still exists, as for [`read_segment`].
///
/// # Errors
/// [`LogError::Damaged`], [`LogError::Io`] and the other errors of opening a segment.
pub fn check_segment(disk: &dyn Disk, dir: &Path, number: u64) -> Result<(), LogError> {
    let (segment, _, bytes) = segment::open(disk, dir, number, None, OpenMode::Read)?;
    let (mut at, mut seq) = (PAGE, None);
    while at + LINE <= bytes.len() {
        let why = match record::find(&bytes, at, segment.salt) {
            Found::Whole(header, whole) if seq.is_none_or(|seq| seq == header.seq) => {
                seq = Some(header.seq + 1);
                at += whole;
                continue;
            }
            Found::Nothing if is_zero(&bytes[at..]) => return Ok(()),
            Found::Whole(..) => "another record stands in its place",
            Found::Nothing => "its header was not written",
            Found::Unwritten(why) | Found::Bad(why) => why,
        };
        let why = format!("{why}, although a later segment was begun");
        return Err(LogError::Damaged { file: segment.path, offset: at as u64, seq, why });
    }
    Ok(())
}

/// The segments' numbers, which must have no gap.
fn numbers(disk: &dyn Disk, dir: &Path) -> Result<Vec<u64>, LogError> {
    let numbers = segment_numbers(disk, dir)?;
    match numbers.windows(2).find(|pair| pair[1] != pair[0] + 1) {
        Some(gap) => Err(LogError::MissingSegment { number: gap[0] + 1, dir: dir.to_owned() }),
        None => Ok(numbers),
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    const ZEROS: [u8; 4096] = [0; 4096];
    bytes.chunks(ZEROS.len()).all(|piece| piece == &ZEROS[..piece.len()])
}

impl ScannedSegment {
    pub(super) fn empty(segment: Segment) -> ScannedSegment {
        ScannedSegment {
            segment,
            last_entries: LastEntries::default(),
            checkpoint_seq: None,
            end: PAGE,
            records: 0,
            tail: Vec::new(),
        }
    }
}

struct Scanner {
    /// The expected sequence number. `None` at the first record after a release.
    next_seq: Option<u64>,
    recovery: Recovery,
    scratch: Vec<u8>,
    /// Sequence numbers and positions of the records of this segment that no header so far proves durable.
    in_doubt: VecDeque<(u64, usize)>,
}

impl Scanner {
    fn segment(
        &mut self,
        segment: Segment,
        bytes: &[u8],
        replay: &mut dyn FnMut(Record<'_>),
    ) -> Result<ScannedSegment, LogError> {
        let salt = segment.salt;
        let mut read = ScannedSegment::empty(segment);
        while read.end + LINE <= bytes.len() {
            let (why, torn) = match record::find(bytes, read.end, salt) {
                Found::Whole(header, whole) if self.next_seq.is_none_or(|seq| seq == header.seq) => {
                    self.record(&mut read, bytes, &header, replay);
                    read.end += whole;
                    continue;
                }
                Found::Nothing if is_zero(&bytes[read.end..]) => break,
                Found::Whole(..) => ("another record stands in its place", false),
                Found::Nothing => ("its header was not written", true),
                Found::Unwritten(why) => (why, true),
                Found::Bad(why) => (why, false),
            };
            self.cut_or_damage(&read, bytes, why, torn)?;
            break;
        }
        self.recovery.segments += 1;
        let tail = self.in_doubt.front().map_or(read.end, |&(_, at)| at);
        read.tail = bytes[tail..read.end].to_vec();
        Ok(read)
    }

    fn record(&mut self, read: &mut ScannedSegment, bytes: &[u8], header: &Header, replay: &mut dyn FnMut(Record<'_>)) {
        let place = (read.segment.salt, read.end);
        let (payload, last_entries) = record::open(&mut self.scratch, bytes, place, header);
        for last_entry in last_entries {
            read.last_entries.raise(last_entry);
        }
        if header.kind == Some(Kind::Checkpoint) {
            read.checkpoint_seq = Some(header.seq);
        }
        if let Some(kind) = header.kind {
            replay(Record { seq: header.seq, kind, payload });
        }
        while self.in_doubt.front().is_some_and(|&(seq, _)| seq <= header.synced) {
            self.in_doubt.pop_front();
        }
        self.in_doubt.push_back((header.seq, read.end));
        self.recovery.clean_stop = header.kind.is_none() && !header.is_skip();
        read.records += 1;
        self.next_seq = Some(header.seq + 1);
        self.recovery.records += 1;
        self.recovery.bytes += record::record_bytes(header.payload_bytes as usize, header.last_entries as usize) as u64;
        self.recovery.last_seq = header.seq;
    }

    /// Classifies the bad place at the end of `read`: records the torn end, or returns the damage.
    fn cut_or_damage(
        &mut self,
        read: &ScannedSegment,
        bytes: &[u8],
        why: &'static str,
        torn: bool,
    ) -> Result<(), LogError> {
        let file = &read.segment.path;
        let damaged =
            |seq, why: String| Err(LogError::Damaged { file: file.clone(), offset: read.end as u64, seq, why });
        let Some(seq) = self.next_seq else {
            return damaged(None, why.to_owned());
        };
        if !torn {
            return damaged(Some(seq), why.to_owned());
        }
        let salt = read.segment.salt;
        let after = (read.end + LINE..bytes.len()).step_by(LINE);
        let mut further_records = 0;
        for header in after.filter_map(|at| record::header_at(bytes, at, salt)) {
            if header.synced >= seq {
                let peer_positions = header.seq;
                return damaged(
                    Some(seq),
                    format!("{why}, although it was durable before record {peer_positions} was written"),
                );
            }
            further_records += 1;
        }
        let last = bytes.iter().rposition(|&byte| byte != 0).map_or(read.end, |at| at + 1);
        self.recovery.torn_end = Some(TornEnd {
            file: file.clone(),
            offset: read.end as u64,
            bytes: (last - read.end) as u64,
            seq,
            why,
            further_records,
        });
        Ok(())
    }

    /// The damage if a later segment has records although the log ended at `offset`.
    fn overtaken(&self, file: &Path, offset: usize, why: &str) -> LogError {
        LogError::Damaged {
            file: file.to_owned(),
            offset: offset as u64,
            seq: self.next_seq,
            why: format!("{why}, although a later segment was begun"),
        }
    }
}

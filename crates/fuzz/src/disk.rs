//! Bytes from a disk: records, segments of the log, snapshots, the store and archives, read as they are and with damage.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use boxoffice_core::version::{NEWEST, WriteVersion};
use boxoffice_env::{Disk, MemoryDisk, OpenMode, OsRng};
use boxoffice_node::decoders;
use boxoffice_shard::{EntryKind, Position, Record, SnapshotMeta, Turns, decoders as shard};
use boxoffice_storage::{
    archive_files::ArchiveFiles,
    log::{self, Kind, Log, LogConfig, Preallocation, SEGMENT_BYTES_MIN, Start},
    snapshot_files::SnapshotFiles,
};
use bytes::Bytes;

use crate::property::{Bound, bounded, canonical, same_again, strict};

/// Memory for slices of the input and a list of them.
const FLAT: Bound = Bound { base: 1024, per_byte: 32 };

/// Memory for a state. serde takes up to 1 MiB for a list before its first element, and up to 300 bytes for a one-byte
/// value.
const STATE: Bound = Bound { base: 8 << 20, per_byte: 512 };

/// The payload of an entry, and each turn in it.
pub(crate) fn log_entry(input: &[u8]) {
    canonical(input, FLAT, shard::entry);
    if let Ok((_, turns)) = Turns::read(Bytes::copy_from_slice(input)) {
        assert_eq!(turns.iter().count(), turns.len());
        turns.iter().for_each(|turn| strict(turn, STATE, decoders::turn));
    }
    strict(input, STATE, decoders::turn);
}

/// Records of the log, and descriptions of snapshots.
pub(crate) fn log_record(input: &[u8]) {
    let decode = |bytes: &[u8]| Record::decode_all(Bytes::copy_from_slice(bytes));
    if let Ok(records) = bounded(input, FLAT, || decode(input)) {
        let mut again = Vec::new();
        records.iter().for_each(|record| record.encode(&mut again));
        assert!(again == input, "it is encoded otherwise: {again:02x?}");
    }
    canonical(input, FLAT, |bytes| Some(SnapshotMeta::decode(Bytes::copy_from_slice(bytes)).ok()?.encode()));
}

/// A state of a shard, and a snapshot with its description.
pub(crate) fn snapshot_state(input: &[u8]) {
    strict(input, STATE, decoders::state);
    strict(input, STATE, decoders::snapshot);
}

/// An entity in the store: as bytes, and with a checksum that fits.
pub(crate) fn stored(input: &[u8]) {
    same_again(input, STATE, decoders::stored);
    let sealed = [input, &crc32c::crc32c(input).to_le_bytes()].concat();
    if same_again(&sealed, STATE, decoders::stored).is_some() {
        for at in 0..sealed.len().min(64) {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1;
            assert_eq!(decoders::stored(&damaged), None, "damage at byte {at} is not noticed");
        }
    }
}

/// Damages a file as the input says, with eight bytes for each change.
fn damage(disk: &MemoryDisk, file: &Path, input: &[u8]) {
    let file = disk.open(file, OpenMode::Write).expect("the file is there");
    let length = file.length().expect("its length");
    let (changes, _) = input.as_chunks::<8>();
    for [how, value, count, far @ .., a, b] in changes {
        let [_, far, _] = far;
        // Near the beginning, because it has most of the parts that can be damaged.
        let at = (u64::from(u16::from_le_bytes([*a, *b])) + u64::from(*far % 2) * 4096) % length;
        let count = (u64::from(*count) + 1).min(length - at) as usize;
        let mut bytes = vec![0; count];
        file.read_exact_at(&mut bytes, at).expect("it is there");
        match how % 5 {
            0 => bytes[0] ^= value,
            1 => bytes.fill(*value),
            2 => bytes.fill(0),
            3 => bytes.reverse(),
            _ => {
                file.set_length(at.max(1)).expect("it is cut");
                return;
            }
        }
        file.write_all_at(&bytes, at).expect("it is written");
    }
}

const LOG: &str = "/data/log";

/// The payloads of the records of an undamaged log.
fn payloads() -> Vec<Vec<u8>> {
    (0..6_u64).map(records).collect()
}

/// Records of a shard in one record of the log.
fn records(number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let payload = Bytes::from(vec![0xa5; number as usize * 40]);
    let position = Position { index: number + 1, term: 2 };
    Record::Entry { shard: 3, position, kind: EntryKind::Members, payload }.encode(&mut bytes);
    Record::State { shard: 3, term: 2, vote: None, commit: number }.encode(&mut bytes);
    bytes
}

/// A disk with the log, an archive of it and two snapshots.
fn undamaged() -> MemoryDisk {
    thread_local! {
        static DISK: MemoryDisk = make();
    }
    DISK.with(MemoryDisk::copy)
}

fn make() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let dir = Path::new(LOG);
    let config =
        LogConfig { preallocation: Preallocation::Inline, keep_free_bytes: 0, ..LogConfig::new(7, SEGMENT_BYTES_MIN) };
    let (mut log, _) = Log::open(Arc::new(disk.clone()), Arc::new(OsRng), dir, config, Start::New, &mut |_| ())
        .expect("a log is made");
    for payload in payloads() {
        log.append(Kind::Ordinary, &[&payload], &[]).expect("it is appended");
        log.sync().expect("it is synced");
    }
    drop(log);
    let archives =
        ArchiveFiles::open(Arc::new(disk.clone()), Path::new(ARCHIVE), &WriteVersion::new(NEWEST)).expect("archives");
    archives.archive(dir, 1, u64::MAX).expect("it is archived");
    let snapshots = SnapshotFiles::open(Arc::new(disk.clone()), Path::new(SNAPSHOTS)).expect("snapshots");
    snapshots.save(NEWEST, 3, 1, &records(1)).expect("it is saved");
    snapshots.save(NEWEST, 3, 2, &records(2)).expect("it is saved");
    disk
}

/// A damaged log gives the first of the written records, or is refused.
pub(crate) fn log_segment(input: &[u8]) {
    let (disk, dir, all) = (undamaged(), Path::new(LOG), payloads());
    damage(&disk, &dir.join("0000000000000001.log"), input);
    let bound = Bound { base: 4 * SEGMENT_BYTES_MIN as usize, per_byte: 0 };
    let mut seen = Vec::new();
    let recovery = bounded(input, bound, || log::inspect(&disk, dir, &mut |record| seen.push(record.payload.to_vec())));
    assert!(all.starts_with(&seen), "other records than were written");
    if let [0, 1..=255, _, _, far, _, a, b] = *input
        && u16::from_le_bytes([a, b]) < if far % 2 == 0 { 4096 } else { 5 * 128 }
    {
        // One changed byte in the first page, or in the records before the last one, is never overlooked.
        assert!(recovery.is_err(), "damage is not noticed");
    }
    let mut seen = Vec::new();
    let _ =
        bounded(input, bound, || log::read_segment(&disk, dir, 1, &mut |record| seen.push(record.payload.to_vec())));
    assert!(all.starts_with(&seen), "other records than were written");
}

const SNAPSHOTS: &str = "/data/snapshots";

/// A damaged snapshot is skipped.
pub(crate) fn snapshot_file(input: &[u8]) {
    let disk = undamaged();
    damage(&disk, &Path::new(SNAPSHOTS).join("3-2.snap"), input);
    let files = SnapshotFiles::open(Arc::new(disk), Path::new(SNAPSHOTS)).expect("snapshots");
    let loaded = bounded(input, Bound { base: 64 * 1024, per_byte: 0 }, || files.load_newest(3));
    let loaded = loaded.expect("the older one is good").expect("there is one");
    assert!(loaded.index == 2 || !loaded.warnings.is_empty(), "it is passed over in silence");
    assert_eq!(loaded.payload, records(loaded.index), "it is another one");
}

const ARCHIVE: &str = "/data/archive";

/// A damaged archive gives what was written, or is refused. One with checksums that fit takes no more memory than it may.
pub(crate) fn archive(input: &[u8]) {
    let disk = undamaged();
    let file = Path::new(ARCHIVE).join("0000000000000001.boxlog");
    damage(&disk, &file, input);
    let bound = Bound { base: 64 * 1024, per_byte: 0 };
    let read = |disk: &MemoryDisk| decoders::archive(Arc::new(disk.clone()), Path::new(ARCHIVE), 1);
    if let Ok(found) = bounded(input, bound, || read(&disk)) {
        let mut again = Vec::new();
        found
            .iter()
            .filter(|record| matches!(record, Record::Entry { .. }))
            .for_each(|record| record.encode(&mut again));
        let written: Vec<u8> = payloads()
            .into_iter()
            .flat_map(|payload| Record::decode_all(payload.into()).expect("records"))
            .filter(|record| matches!(record, Record::Entry { .. }))
            .fold(Vec::new(), |mut bytes, record| {
                record.encode(&mut bytes);
                bytes
            });
        assert!(again == written, "other records than were written");
    }
    let disk = MemoryDisk::new();
    write(&disk, file, &forged(input));
    // LZ4 makes at most 255 bytes of one.
    let _ = bounded(input, Bound { base: 64 * 1024, per_byte: 1024 }, || read(&disk));
}

fn write(disk: &MemoryDisk, path: PathBuf, bytes: &[u8]) {
    disk.create_dir_all(path.parent().expect("a directory")).expect("it is made");
    let file = disk.open(&path, OpenMode::Create).expect("it is made");
    file.write_all_at(bytes, 0).expect("it is written");
}

/// An archive whose pieces are these bytes, with checksums that fit. A piece has the length that it claims (4 bytes), its real
/// length (1), and its bytes.
fn forged(input: &[u8]) -> Vec<u8> {
    let mut file = vec![0; 64];
    let mut rest = input;
    while let [a, b, c, d, length, after @ ..] = rest
        && let Some((packed, after)) = after.split_at_checked(usize::from(*length))
    {
        file.extend_from_slice(&[*a, *b, *c, *d]);
        file.extend_from_slice(&u32::from(*length).to_le_bytes());
        file.extend_from_slice(&crc32c::crc32c(packed).to_le_bytes());
        file.extend_from_slice(packed);
        rest = after;
    }
    let end = file.len() as u64;
    file[..8].copy_from_slice(b"BOXOARCH");
    file[8..12].copy_from_slice(&u32::from(NEWEST.number()).to_le_bytes());
    file[16..24].copy_from_slice(&1_u64.to_le_bytes());
    file[24..32].copy_from_slice(&end.to_le_bytes());
    let crc = crc32c::crc32c(&file[..60]).to_le_bytes();
    file[60..64].copy_from_slice(&crc);
    file
}

//! Logs on a disk in memory: cut, flipped, filled up, and read back.

#![allow(clippy::disallowed_methods, reason = "a test reaches the disk and the clock as it likes")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use boxoffice_core::version::NEWEST;
use boxoffice_env::{DiskFile, MemoryDisk, OsDisk, OsRng};

mod group_commit;
mod random;

const DIR: &str = "/data/log";
const OWNER: u128 = 0xB0C5;
const FIRST: &str = "/data/log/0000000000000001.log";

fn config() -> LogConfig {
    let config = LogConfig::new(OWNER, SEGMENT_BYTES_MIN);
    LogConfig { preallocation: Preallocation::Inline, keep_free_bytes: 0, ..config }
}

type Records = BTreeMap<u64, Vec<u8>>;

fn open_with(disk: &MemoryDisk, config: LogConfig) -> Result<(Log, Recovery, Records), LogError> {
    let mut records = Records::new();
    let (log, recovery) =
        Log::open(Arc::new(disk.clone()), Arc::new(OsRng), Path::new(DIR), config, Start::New, &mut |record| {
            assert_eq!(records.insert(record.seq, record.payload.to_vec()), None)
        })?;
    Ok((log, recovery, records))
}

fn open(disk: &MemoryDisk) -> (Log, Recovery, Records) {
    open_with(disk, config()).expect("the log opens")
}

fn put(log: &mut Log, payload: &[u8]) -> u64 {
    log.append(Kind::Ordinary, &[payload], &[]).expect("the record is appended")
}

fn payload(size: usize, seed: u8) -> Vec<u8> {
    (0..size).map(|at| (at as u8).wrapping_mul(31) ^ seed).collect()
}

fn file(disk: &MemoryDisk, path: &str) -> Arc<dyn DiskFile> {
    disk.open(Path::new(path), OpenMode::Write).expect("the file is there")
}

fn overwrite(disk: &MemoryDisk, path: &str, at: u64, change: &mut dyn FnMut(&mut [u8])) {
    let file = file(disk, path);
    let mut bytes = vec![0; 512.min((file.length().unwrap() - at) as usize)];
    file.read_exact_at(&mut bytes, at).unwrap();
    change(&mut bytes);
    file.write_all_at(&bytes, at).unwrap();
    file.sync_data().unwrap();
}

fn inspected(disk: &MemoryDisk) -> Result<(Recovery, Records), LogError> {
    let mut records = Records::new();
    let recovery = inspect(disk, Path::new(DIR), &mut |record| {
        records.insert(record.seq, record.payload.to_vec());
    })?;
    Ok((recovery, records))
}

#[test]
fn records_are_read_in_order_across_restarts() {
    let disk = MemoryDisk::new();
    let mut expected = Records::new();
    for round in 0..4_u8 {
        let (mut log, recovery, records) = open(&disk);
        assert_eq!(records, expected);
        assert_eq!(recovery.created, round == 0);
        assert_eq!(recovery.torn_end, None);
        assert_eq!(log.last_seq(), expected.len() as u64);
        for size in [0, 1, 100, 1_000, 70_000] {
            let (front, back) = (payload(size, round), payload(3, 9));
            let seq = log.append(Kind::Vital, &[&front, &back], &[]).unwrap();
            expected.insert(seq, [front, back].concat());
        }
        assert!(log.synced_seq() < log.last_seq());
        log.sync().unwrap();
        assert_eq!(log.synced_seq(), log.last_seq());
    }
    assert_eq!(inspected(&disk).unwrap().1, expected);
}

#[test]
fn any_subset_of_the_last_records_sectors_is_cut_or_whole() {
    for size in [0, 10, 400, 1_500, 3_000] {
        let sectors = record::record_bytes(size, 0).div_ceil(512) + 1;
        for subset in 0..1_u32 << sectors {
            let disk = MemoryDisk::new();
            let (mut log, _, _) = open(&disk);
            let mut expected = Records::new();
            for seed in 0..3 {
                expected.insert(put(&mut log, &payload(300, seed)), payload(300, seed));
            }
            log.sync().unwrap();
            let last = put(&mut log, &payload(size, 7));
            let mut at = 0;
            disk.power_cut(&mut || {
                at += 1;
                subset >> (at - 1) & 1 == 1
            });
            drop(log);
            let (mut log, recovery, records) = open(&disk);
            if records.contains_key(&last) {
                assert_eq!(recovery.torn_end, None);
                expected.insert(last, payload(size, 7));
            } else if let Some(torn_end) = &recovery.torn_end {
                assert_eq!((torn_end.seq, torn_end.further_records), (last, 0));
                assert!(torn_end.bytes > 0);
            }
            assert_eq!(records, expected, "{size} bytes, sectors {subset:b}");
            // The space is clean again: after a shorter record nothing else is left.
            let again = put(&mut log, b"again");
            expected.insert(again, b"again".to_vec());
            log.sync().unwrap();
            let (_, recovery, records) = open(&disk);
            assert_eq!((records, recovery.torn_end), (expected, None));
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_damage_or_changes_nothing() {
    let disk = MemoryDisk::new();
    let (mut log, _, _) = open(&disk);
    for seed in 0..4 {
        put(&mut log, &payload(40 + 200 * usize::from(seed), seed));
        log.sync().unwrap();
    }
    let end = log.at;
    drop(log);
    let (_, expected) = inspected(&disk).unwrap();
    let first = file(&disk, FIRST);
    let mut refused = 0;
    for at in 0..end + 600 {
        let mut byte = [0];
        first.read_exact_at(&mut byte, at).unwrap();
        first.write_all_at(&[byte[0] ^ 1 << (at % 8)], at).unwrap();
        match inspected(&disk) {
            // Behind the end the flipped bit looks like a torn record.
            Ok((recovery, records)) => {
                assert!(at >= end && recovery.torn_end.is_some(), "flipped at {at}");
                assert_eq!(records, expected);
            }
            Err(LogError::Damaged { .. }) => {
                assert!(at < end, "flipped at {at}");
                refused += 1;
            }
            Err(error) => panic!("flipped at {at}: {error}"),
        }
        first.write_all_at(&byte, at).unwrap();
    }
    assert_eq!(refused, end);
}

#[test]
fn a_sector_lost_from_a_durable_record_is_damage() {
    let disk = MemoryDisk::new();
    let (mut log, _, _) = open(&disk);
    put(&mut log, &payload(2_000, 1));
    log.sync().unwrap();
    let second_at = log.at;
    put(&mut log, &payload(2_000, 2));
    log.sync().unwrap();
    drop(log);
    let lost = PAGE as u64 + 512;
    let mut saved = Vec::new();
    overwrite(&disk, FIRST, lost, &mut |bytes| {
        saved = bytes.to_vec();
        bytes.fill(0);
    });
    let error = inspected(&disk).unwrap_err();
    assert!(matches!(error, LogError::Damaged { seq: Some(1), .. }), "{error}");
    assert!(error.to_string().contains("durable before record 2"), "{error}");
    overwrite(&disk, FIRST, lost, &mut |bytes| bytes.copy_from_slice(&saved));

    // No header proves the very last record durable, unless the log was sealed.
    let lost = second_at.next_multiple_of(512);
    overwrite(&disk, FIRST, lost, &mut |bytes| {
        saved = bytes.to_vec();
        bytes.fill(0);
    });
    assert_eq!(inspected(&disk).unwrap().0.torn_end.unwrap().seq, 2);
    overwrite(&disk, FIRST, lost, &mut |bytes| bytes.copy_from_slice(&saved));
    let (mut log, recovery, _) = open(&disk);
    assert!(!recovery.clean_stop);
    log.seal().unwrap();
    log.seal().unwrap();
    assert_eq!(log.last_seq(), 3, "a second seal adds nothing");
    drop(log);
    let (recovery, records) = inspected(&disk).unwrap();
    assert_eq!((recovery.clean_stop, recovery.last_seq, records.len()), (true, 3, 2));
    overwrite(&disk, FIRST, lost, &mut |bytes| bytes.fill(0));
    assert!(matches!(inspected(&disk), Err(LogError::Damaged { seq: Some(2), .. })));
}

#[test]
fn records_of_a_failed_sync_are_durable_once_the_log_is_open() {
    for lost in 1..4 {
        let disk = MemoryDisk::new();
        let (mut log, ..) = open(&disk);
        put(&mut log, b"durable");
        log.sync().unwrap();
        for seed in 0..lost {
            put(&mut log, &payload(700, seed));
        }
        disk.fail_next_sync();
        assert!(log.sync().is_err());
        // The next process reads the records and treats them as durable.
        disk.process_end();
        let (mut log, recovery, records) = open(&disk);
        assert_eq!((recovery.torn_end, records.len()), (None, 1 + usize::from(lost)));
        log.sync().unwrap();
        disk.power_cut(&mut || false);
        assert_eq!(open(&disk).2, records);
    }
}

#[test]
fn only_the_tail_is_rewritten() {
    let disk = MemoryDisk::new();
    let (mut log, ..) = open(&disk);
    for seed in 0..20 {
        put(&mut log, &payload(5_000, seed));
        log.sync().unwrap();
    }
    drop(log);
    assert_eq!(inspected(&disk).unwrap().0.tail_bytes, record::record_bytes(5_000, 0) as u64);
    let (mut log, ..) = open(&disk);
    log.seal().unwrap();
    drop(log);
    assert_eq!(inspected(&disk).unwrap().0.tail_bytes, record::LINE as u64);
}

#[test]
fn a_skipped_end_stays_skipped_if_the_skip_is_not_synced() {
    let disk = MemoryDisk::new();
    let (mut log, ..) = open(&disk);
    put(&mut log, b"durable");
    log.sync().unwrap();
    put(&mut log, &payload(3_000, 1));
    let mut sectors = 0;
    disk.power_cut(&mut || {
        sectors += 1;
        sectors != 3
    });
    // The sync of the records succeeds, and that of the skip fails.
    disk.fail_sync_after(1);
    assert!(open_with(&disk, config()).is_err());
    disk.process_end();
    let (mut log, recovery, _) = open(&disk);
    assert_eq!(recovery.torn_end, None, "this process sees a skipped end");
    put(&mut log, b"short");
    log.sync().unwrap();
    disk.power_cut(&mut || false);
    let (recovery, records) = inspected(&disk).unwrap();
    assert_eq!(
        (recovery.torn_end, records.into_values().collect::<Vec<_>>()),
        (None, vec![b"durable".to_vec(), b"short".to_vec()])
    );
}

#[test]
fn a_short_write_followed_by_a_shorter_record_is_no_damage() {
    let long = payload(3_000, 3);
    for written in [0, 1, 63, 64, 100, 512, 2_000, 3_071] {
        for then in [0, 1, 500, 3_000, 4_000] {
            let disk = MemoryDisk::new();
            let (mut log, ..) = open(&disk);
            let mut expected = Records::from([(put(&mut log, b"durable"), b"durable".to_vec())]);
            log.sync().unwrap();
            disk.cut_next_write(written);
            let refused = log.append(Kind::Vital, &[&long], &[]);
            assert!(matches!(refused, Err(LogError::Full { .. })), "{refused:?}");
            // Its rest is a torn end while no record follows.
            assert_eq!(inspected(&disk).unwrap().1, expected);
            let next = put(&mut log, &payload(then, 4));
            expected.insert(next, payload(then, 4));
            assert_eq!(inspected(&disk).unwrap().1, expected, "{written} bytes, then a record of {then}");
            log.sync().unwrap();
            drop(log);
            disk.power_cut(&mut || false);
            assert_eq!(open(&disk).2, expected);
        }
    }
}

#[test]
fn an_unsynced_end_of_many_records_is_cut_from_the_first_hole_on() {
    let disk = MemoryDisk::new();
    let (mut log, _, _) = open(&disk);
    put(&mut log, b"durable");
    log.sync().unwrap();
    for seed in 0..4 {
        put(&mut log, &payload(900, seed));
    }
    let mut sector = 0;
    // All sectors but one of the first unsynced record reach the disk, and all sectors of the others.
    disk.power_cut(&mut || {
        sector += 1;
        sector != 2
    });
    let (_, recovery, records) = open(&disk);
    let torn_end = recovery.torn_end.unwrap();
    assert_eq!((torn_end.seq, torn_end.further_records), (2, 3));
    assert_eq!(records.len(), 1);
    assert_eq!(inspected(&disk).unwrap().0.torn_end, None);
}

fn fill_segments(log: &mut Log, segments: usize, shard: u16) -> u64 {
    let mut index = 0;
    while log.segments() < segments {
        if log.wants_checkpoint(0) {
            log.append(Kind::Checkpoint, &[b"hard states"], &[]).unwrap();
        }
        index += 1;
        let last_entry = LastEntry { shard, last_index: index };
        log.append(Kind::Ordinary, &[&payload(20_000, index as u8)], &[last_entry]).unwrap();
        log.maintain();
    }
    index
}

#[test]
fn segments_are_released_when_unneeded_and_behind_a_checkpoint() {
    let disk = MemoryDisk::new();
    let (mut log, _, _) = open(&disk);
    let last = fill_segments(&mut log, 4, 5);
    assert!(log.wants_checkpoint(0));
    assert_eq!(log.release(&|_| 0), 0, "every segment is needed");
    // The newest checkpoint is in the third segment, so the third and the fourth must stay.
    assert_eq!(log.release(&|shard| if shard == 5 { last + 1 } else { 0 }), 2);
    log.append(Kind::Checkpoint, &[b"hard states"], &[]).unwrap();
    assert_eq!(log.release(&|_| u64::MAX), 0, "the checkpoint is not durable yet");
    log.sync().unwrap();
    // The third segment ends with the last entry but one, and stays while that entry is needed.
    assert_eq!(log.release(&|_| last - 1), 0);
    assert_eq!(log.release(&|_| last), 1, "the last entry is in the fourth");
    assert_eq!((log.segments(), log.pending_removals()), (1, 0));
    let seq = log.last_seq();
    drop(log);
    let (log, _, records) = open(&disk);
    assert_eq!(log.last_seq(), seq);
    assert!(!log.wants_checkpoint(0));
    assert_eq!(records.last_key_value().unwrap().1, b"hard states");
    let names = disk.list(Path::new(DIR)).unwrap();
    assert_eq!(names, ["0000000000000004.log", "0000000000000005.log"]);
}

#[test]
fn last_entries_are_known_after_a_restart() {
    let disk = MemoryDisk::new();
    let (mut log, _, _) = open(&disk);
    let last = fill_segments(&mut log, 3, 5);
    drop(log);
    let (mut log, _, _) = open(&disk);
    log.append(Kind::Checkpoint, &[b"hard states"], &[]).unwrap();
    log.sync().unwrap();
    assert_eq!(log.release(&|_| 1), 0);
    assert_eq!(log.release(&|_| last), 2);
}

#[test]
fn a_segment_preallocated_by_a_killed_process_is_synced_before_use() {
    for stop in 0..20 {
        let disk = MemoryDisk::new();
        disk.create_dir_all(Path::new(DIR)).unwrap();
        disk.stop_after(stop);
        let _ = open_with(&disk, config()).map(|_| ());
        disk.process_end();
        let (mut log, ..) = open(&disk);
        while log.segments() < 2 {
            put(&mut log, &payload(50_000, 1));
        }
        log.sync().unwrap();
        let durable = log.last_seq();
        disk.power_cut(&mut || false);
        assert_eq!(open(&disk).1.last_seq, durable, "killed after {stop} changes");
    }
}

#[test]
fn a_full_disk_leaves_the_reserve_and_recovers() {
    let disk = MemoryDisk::new();
    let (mut log, _, _) = open(&disk);
    disk.set_capacity(Some(2 * SEGMENT_BYTES_MIN + 1_000));
    let mut appended = 0;
    let record = payload(10_000, 1);
    let refused = loop {
        match log.append(Kind::Ordinary, &[&record], &[]) {
            Ok(_) => appended += 1,
            Err(error) => break error,
        }
        log.maintain();
    };
    assert!(matches!(refused, LogError::Full { .. }), "{refused}");
    assert!(appended > 40, "both segments were used: {appended}");
    let before = (log.at, log.last_seq());
    let headroom = log.headroom();
    assert!(headroom.no_space && headroom.bytes >= headroom.reserve_bytes);
    assert!(headroom.admits(headroom.bytes - headroom.reserve_bytes));
    assert!(!headroom.admits(record::record_bytes(record.len(), 0) as u64));
    let mut vital = 0;
    while log.append(Kind::Vital, &[&record], &[]).is_ok() {
        vital += 1;
    }
    assert!(vital >= 6, "the reserve held {vital}");
    assert!(log.at > before.0 && !log.headroom().admits(1));
    let last = log.last_seq();
    log.sync().unwrap();
    disk.set_capacity(None);
    log.maintain();
    assert!(!log.headroom().no_space);
    put(&mut log, &record);
    log.sync().unwrap();
    drop(log);
    let (_, recovery, records) = open(&disk);
    assert_eq!((recovery.last_seq, recovery.torn_end), (last + 1, None));
    assert_eq!(records.len() as u64, last + 1);
}

#[test]
fn a_full_disk_recovers_by_releasing_alone() {
    let disk = MemoryDisk::new();
    disk.set_capacity(Some(3 * SEGMENT_BYTES_MIN));
    let (mut log, _, _) = open(&disk);
    let mut last_index = 0;
    let mut write_until_full = |log: &mut Log| loop {
        if log.wants_checkpoint(0) {
            log.append(Kind::Checkpoint, &[b"hard states"], &[]).unwrap();
        }
        let last_entry = LastEntry { shard: 1, last_index: last_index + 1 };
        match log.append(Kind::Ordinary, &[&payload(10_000, 1)], &[last_entry]) {
            Ok(_) => last_index += 1,
            Err(LogError::Full { .. }) => break last_index,
            Err(error) => panic!("{error}"),
        }
        log.maintain();
    };
    for _ in 0..3 {
        let last = write_until_full(&mut log);
        log.sync().unwrap();
        assert!(log.headroom().no_space);
        assert_eq!(log.release(&|_| last + 1), 2, "all but the segment in use");
        assert!(!log.headroom().no_space);
        assert!(log.headroom().bytes >= SEGMENT_BYTES_MIN - PAGE as u64);
    }
    let seq = log.last_seq();
    drop(log);
    assert_eq!(open(&disk).1.last_seq, seq);
}

#[test]
fn space_that_must_stay_free_is_left_free() {
    let disk = MemoryDisk::new();
    disk.set_capacity(Some(3 * SEGMENT_BYTES_MIN));
    let config = LogConfig { keep_free_bytes: 2 * SEGMENT_BYTES_MIN, ..config() };
    let (log, _, _) = open_with(&disk, config.clone()).unwrap();
    assert!(log.headroom().no_space);
    let disk = MemoryDisk::new();
    disk.set_capacity(Some(SEGMENT_BYTES_MIN));
    assert!(matches!(open_with(&disk, config), Err(LogError::Full { .. })));
}

#[test]
fn a_failed_sync_ends_the_log() {
    let disk = MemoryDisk::new();
    let (mut log, _, _) = open(&disk);
    put(&mut log, b"one");
    disk.fail_syncs(true);
    assert!(matches!(log.sync(), Err(LogError::Io { doing: "sync", .. })));
    disk.fail_syncs(false);
    assert!(matches!(log.sync(), Err(LogError::Unusable { .. })));
    assert!(matches!(log.append(Kind::Vital, &[], &[]), Err(LogError::Unusable { .. })));
}

#[test]
fn a_record_beyond_the_limit_is_refused_and_the_largest_fits() {
    let disk = MemoryDisk::new();
    let (mut log, _, _) = open(&disk);
    let max = log.record_bytes_max() as usize;
    let refused = log.append(Kind::Vital, &[&payload(max, 1)], &[]);
    assert!(matches!(refused, Err(LogError::TooLarge { .. })));
    let largest = payload(max - 200, 1);
    assert_eq!(log.append(Kind::Vital, &[&largest], &[]).unwrap(), 1);
    log.sync().unwrap();
    assert_eq!(open(&disk).2, Records::from([(1, largest)]));
}

#[test]
fn an_incomplete_or_foreign_log_is_refused_by_name() {
    let disk = MemoryDisk::new();
    let (mut log, _, _) = open(&disk);
    fill_segments(&mut log, 4, 1);
    log.sync().unwrap();
    drop(log);
    let path = |number| Path::new(DIR).join(segment::name(number));
    let start = |owner, start| {
        let config = LogConfig { owner, ..config() };
        let (disk, rng) = (Arc::new(disk.clone()), Arc::new(OsRng));
        Log::open(disk, rng, Path::new(DIR), config, start, &mut |_| {}).map(|_| ())
    };
    assert!(start(OWNER, Start::Existing).is_ok());

    assert!(matches!(start(OWNER + 1, Start::New), Err(LogError::Foreign { .. })));
    let set_format = |format: u32| {
        overwrite(&disk, FIRST, 0, &mut |bytes| bytes[8..12].copy_from_slice(&format.to_le_bytes()));
        let mut page = vec![0; PAGE];
        file(&disk, FIRST).read_exact_at(&mut page, 0).unwrap();
        let crc = crc32c::crc32c(&page[..PAGE - 4]).to_le_bytes();
        file(&disk, FIRST).write_all_at(&crc, PAGE as u64 - 4).unwrap();
    };
    let newest = u32::from(NEWEST.number());
    set_format(newest + 1);
    assert_eq!(
        start(OWNER, Start::New).unwrap_err().to_string(),
        format!(
            "{FIRST} was written under version {}, this program reads up to {newest}; start a release that reads it",
            newest + 1
        )
    );
    set_format(6);
    let older = start(OWNER, Start::New).unwrap_err().to_string();
    assert!(older.contains("written under version 6, this program reads from 17 on"), "{older}");
    set_format(newest);

    disk.rename(&path(2), &path(9)).unwrap();
    assert!(matches!(start(OWNER, Start::New), Err(LogError::MissingSegment { number: 2, .. })));
    disk.rename(&path(9), &path(2)).unwrap();
    // Without the newest segment with records, the preallocated one behind it shows the gap.
    disk.rename(&path(4), Path::new("/data/log/away")).unwrap();
    assert!(matches!(start(OWNER, Start::New), Err(LogError::MissingSegment { number: 4, .. })));
    disk.rename(Path::new("/data/log/away"), &path(4)).unwrap();

    file(&disk, FIRST).set_length(SEGMENT_BYTES_MIN - 512).unwrap();
    assert!(matches!(start(OWNER, Start::New), Err(LogError::Damaged { .. })));
    file(&disk, FIRST).set_length(100).unwrap();
    assert!(matches!(start(OWNER, Start::New), Err(LogError::Damaged { .. })));
    for number in 1..=4 {
        disk.remove(&path(number)).unwrap();
    }
    assert!(matches!(start(OWNER, Start::New), Err(LogError::MissingSegment { number: 4, .. })));
    disk.remove(&path(5)).unwrap();
    assert!(matches!(start(OWNER, Start::Existing), Err(LogError::Missing { .. })));
    assert!(start(OWNER, Start::New).is_ok());
}

#[test]
fn records_wiped_from_a_segments_end_are_detected() {
    let disk = MemoryDisk::new();
    let (mut log, _, _) = open(&disk);
    while log.segments() < 2 {
        put(&mut log, &payload(20_000, 1));
        log.maintain();
    }
    log.sync().unwrap();
    drop(log);
    let whole = record::record_bytes(20_000, 0) as u64;
    let records = (SEGMENT_BYTES_MIN - PAGE as u64) / whole;
    let last_at = PAGE as u64 + (records - 1) * whole;
    let zeros = vec![0; whole as usize];
    file(&disk, FIRST).write_all_at(&zeros[512..], last_at + 512).unwrap();
    let error = inspected(&disk).unwrap_err();
    assert!(matches!(error, LogError::Damaged { seq: Some(12), .. }), "{error}");
    assert!(error.to_string().contains("although a later segment was begun"), "{error}");
    file(&disk, FIRST).write_all_at(&zeros, last_at).unwrap();
    assert!(matches!(inspected(&disk), Err(LogError::Damaged { seq: Some(12), .. })));
}

#[test]
fn configurations_have_limits_and_segments_may_change_size() {
    let disk = MemoryDisk::new();
    for bad in [
        LogConfig::new(OWNER, SEGMENT_BYTES_MIN - 4096),
        LogConfig::new(OWNER, SEGMENT_BYTES_MIN + 1),
        LogConfig::new(OWNER, SEGMENT_BYTES_MAX + 4096),
        LogConfig { reserve_bytes: SEGMENT_BYTES_MIN / 4 + 1, ..config() },
        LogConfig { retry_ms: 0, ..config() },
    ] {
        assert!(matches!(open_with(&disk, bad), Err(LogError::BadConfig { .. })));
    }
    let mut expected = Records::new();
    for segment_bytes in [SEGMENT_BYTES_MIN, 4 * SEGMENT_BYTES_MIN, SEGMENT_BYTES_MIN] {
        let (mut log, _, records) = open_with(&disk, LogConfig { segment_bytes, ..config() }).unwrap();
        assert_eq!(records, expected);
        for _ in 0..3 {
            let largest = payload(log.record_bytes_max() as usize - 100, 3);
            expected.insert(put(&mut log, &largest), largest);
        }
        log.sync().unwrap();
    }
}

#[test]
fn a_thread_preallocates_and_removes_segments() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let config = LogConfig { preallocation: Preallocation::Background, ..config() };
    let open = |replay: &mut dyn FnMut(Record<'_>)| {
        Log::open(Arc::new(OsDisk), Arc::new(OsRng), &path, config.clone(), Start::New, replay)
    };
    let (mut log, _) = open(&mut |_| {}).unwrap();
    let last = fill_segments(&mut log, 12, 1);
    log.append(Kind::Checkpoint, &[], &[]).unwrap();
    log.sync().unwrap();
    assert_eq!(log.release(&|_| last), 11);
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while log.pending_removals() > 0 || log.headroom().bytes < SEGMENT_BYTES_MIN {
        assert!(std::time::Instant::now() < deadline, "the thread does not preallocate and remove segments");
        std::thread::sleep(Duration::from_millis(5));
    }
    let seq = log.last_seq();
    drop(log);
    // The active and the preallocated segment, and a recycled one if the thread removed segments before it needed the next one.
    let segments = std::fs::read_dir(&path).unwrap().count();
    assert!((2..=3).contains(&segments), "{segments}");
    let mut seqs = Vec::new();
    let (log, _) = open(&mut |record| seqs.push(record.seq)).unwrap();
    assert_eq!((seqs, log.last_seq()), (vec![seq - 1, seq], seq));
}

#[test]
fn a_thread_waits_for_space_and_resumes() {
    let disk = MemoryDisk::new();
    disk.set_capacity(Some(2 * SEGMENT_BYTES_MIN));
    let config = LogConfig { preallocation: Preallocation::Background, retry_ms: 5, ..config() };
    let (mut log, _, _) = open_with(&disk, config).unwrap();
    let record = payload(10_000, 1);
    while log.append(Kind::Ordinary, &[&record], &[]).is_ok() {}
    assert!(!log.headroom().admits(1) || log.headroom().no_space);
    disk.set_capacity(None);
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while log.append(Kind::Ordinary, &[&record], &[]).is_err() {
        assert!(std::time::Instant::now() < deadline, "the log does not resume");
        std::thread::sleep(Duration::from_millis(1));
    }
}

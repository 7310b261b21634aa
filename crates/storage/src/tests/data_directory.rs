//! A whole data directory on the real disk: identity, log and snapshots together.

#![allow(clippy::disallowed_methods, reason = "a test reaches the disk and the clock as it likes")]

use std::path::Path;

use boxoffice_core::version::NEWEST;
use boxoffice_env::World;

use crate::{
    identity::{DataDirectory, IdentityError, Wanted},
    log::{self, Kind, LastEntry, Log, LogConfig, LogError, SEGMENT_BYTES_MIN},
    snapshot_files::SnapshotFiles,
};

const WANTED: Wanted = Wanted { cluster: None, node: 1, shards: 4, joining: None, reads_up_to: NEWEST };

fn open_log(world: &World, directory: &DataDirectory, records: &mut Vec<(u64, Vec<u8>)>) -> Result<Log, LogError> {
    let config = LogConfig::new(directory.identity().disk, SEGMENT_BYTES_MIN);
    let (disk, rng) = (world.disk.clone(), world.rng.clone());
    let start = directory.log_start();
    let (log, _) = Log::open(disk, rng, &directory.log_dir(), config, start, &mut |record| {
        records.push((record.seq, record.payload.to_vec()));
    })?;
    Ok(log)
}

fn open(world: &World, path: &Path) -> Result<DataDirectory, IdentityError> {
    DataDirectory::open(world, path, &WANTED)
}

#[test]
fn a_node_finds_its_state_again_and_notices_a_deleted_log() {
    let world = World::standalone();
    let outer = tempfile::tempdir().unwrap();
    let path = outer.path().join("node/data");
    let mut directory = open(&world, &path).unwrap();
    let mut log = open_log(&world, &directory, &mut Vec::new()).unwrap();
    directory.record_log_created(&*world.disk).unwrap();
    assert!(matches!(open(&world, &path), Err(IdentityError::InUse { .. })));

    let snapshots = SnapshotFiles::open(world.disk.clone(), &directory.snapshot_dir()).unwrap();
    let mut index = 0;
    for round in 1..=3_u64 {
        while log.segments() < 3 {
            if log.wants_checkpoint(0) {
                log.append(Kind::Checkpoint, &[b"hard states"], &[]).unwrap();
            }
            index += 1;
            let mark = LastEntry { shard: 2, last_index: index };
            log.append(Kind::Ordinary, &[&[round as u8; 9_000]], &[mark]).unwrap();
        }
        log.append(Kind::Checkpoint, &[b"hard states"], &[]).unwrap();
        log.sync().unwrap();
        snapshots.save(NEWEST, 2, index, format!("state at {index}").as_bytes()).unwrap();
        // The log keeps the entries that the older snapshot needs.
        let oldest = snapshots.oldest_index(2).unwrap().unwrap();
        log.release(&|shard| if shard == 2 { oldest + 1 } else { 0 });
        if round == 1 {
            assert_eq!(log.segments(), 1);
        }
    }
    log.seal().unwrap();
    let last_seq = log.last_seq();
    drop((log, directory));

    let directory = open(&world, &path).unwrap();
    let mut records = Vec::new();
    let log = open_log(&world, &directory, &mut records).unwrap();
    assert_eq!(log.last_seq(), last_seq);
    // The last record of all is the seal, which is not handed out.
    assert_eq!(records.last().unwrap(), &(last_seq - 1, b"hard states".to_vec()));
    let newest = snapshots.load_newest(2).unwrap().unwrap();
    assert_eq!(newest.payload, format!("state at {index}").as_bytes());
    drop(log);

    let recovery = log::inspect(&*world.disk, &directory.log_dir(), &mut |_| {}).unwrap();
    assert!(recovery.clean_stop && recovery.last_seq == last_seq, "{recovery:?}");
    std::fs::remove_dir_all(directory.log_dir()).unwrap();
    let missing = open_log(&world, &directory, &mut Vec::new());
    assert!(matches!(missing, Err(LogError::Missing { .. })));
    std::fs::remove_file(path.join("identity.toml")).unwrap();
    drop(directory);
    let orphan = open(&world, &path).map(|_| ()).unwrap_err().to_string();
    assert!(orphan.contains("there are files in snapshots/"), "{orphan}");
}

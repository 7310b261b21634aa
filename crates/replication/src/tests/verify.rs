//! Verified data directories: whole ones, each bit flipped, and entries that somebody has rewritten with good checksums.

use rand::{Rng as _, SeedableRng, rngs::SmallRng};

use boxoffice_storage::chain_file::ChainPlace;

use super::*;
use crate::verify::{Verification, verify};

/// Sessions that are opened, each in an entry.
const SHOWS: usize = 260;

/// A directory with archives, a log, and two snapshots of its shard.
struct Sold {
    disk: MemoryDisk,
    stores: Arc<MemoryStores>,
    /// The chain at the end of each shard.
    receipt: Vec<ChainPlace>,
}

async fn sold() -> Sold {
    let (disk, stores) = (Arc::new(MemoryDisk::new()), Arc::new(MemoryStores::new()));
    let opened = TestReplication::open_with(&disk, &stores, Arc::new(OsClock::new()), |config| {
        config.log_segment_bytes = 256 << 10;
        config.history_archive_bytes = 1 << 30;
        config.snapshot_entries = 60;
    });
    let shop = TestReplication::run(opened.expect("a data directory"));
    let epoch = shop.epoch();
    for number in 0..SHOWS {
        shop.offer(epoch, NewShow::numbered(number));
        assert!(matches!(shop.next(), Notified::Committed { completions: 1, .. }));
    }
    let shards = &shop.replication.shards;
    let last = shop.replication.shard(SHARD).applied.load(Ordering::Relaxed);
    let receipt = loop {
        let places: Vec<ChainPlace> = shards.iter().filter_map(|shard| *shard.chain.lock()).collect();
        if places.iter().any(|place| (place.shard, place.index) == (SHARD, last)) {
            break places;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    shop.stop().await.1.expect("an orderly end");
    disk.process_end();
    Sold { disk: disk.copy(), stores, receipt }
}

fn verified(disk: &MemoryDisk, stores: &Arc<MemoryStores>, receipt: &[ChainPlace]) -> Verification {
    let world = World { disk: Arc::new(disk.copy()), stores: Arc::clone(stores) as _, ..World::standalone() };
    verify(&world, Path::new(DIR), receipt, |_| Vec::new()).expect("a data directory")
}

fn file(disk: &MemoryDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, OpenMode::Read).expect("a file");
    let mut bytes = vec![0; file.length().expect("a length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("bytes");
    bytes
}

#[tokio::test]
async fn a_whole_directory_is_chained_from_its_beginning_to_its_receipt() {
    let Sold { disk, stores, receipt } = sold().await;
    let verified = verified(&disk, &stores, &receipt);
    assert_eq!(verified.findings, Vec::<String>::new());
    let shard = verified.shards.iter().find(|shard| shard.shard == SHARD).expect("the shard");
    let end = receipt.iter().find(|place| place.shard == SHARD).expect("a chain");
    let (position, chain) = shard.last.expect("a chain");
    assert_eq!((position.index, chain, shard.from, shard.unchained), (end.index, end.chain, 1, 0));
    assert!(shard.places >= 3 && shard.chained == end.index, "{shard:?}");
}

/// Random bits of every file. Only a bit behind the last record of a segment is not found, because no start reads it.
#[tokio::test]
async fn every_flipped_bit_is_found() {
    let Sold { disk, stores, receipt } = sold().await;
    let seed = rand::random();
    println!("seed {seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut files = vec![Path::new(DIR).join("identity.toml")];
    for dir in ["log", "snapshots", "archive"].map(|dir| Path::new(DIR).join(dir)) {
        files.extend(disk.list(&dir).expect("a directory").into_iter().map(|name| dir.join(name)));
    }
    println!("{files:?}");
    let mut counts = [0; 2];
    for path in &files {
        let bytes = file(&disk, path);
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        for _ in 0..12.min(end) {
            let (at, bit) = (rng.random_range(0..end), rng.random_range(0..8));
            let flipped = disk.copy();
            let open = flipped.open(path, OpenMode::Write).expect("a file");
            open.write_all_at(&[bytes[at] ^ 1 << bit], at as u64).expect("a write");
            let world = World { disk: Arc::new(flipped), stores: Arc::clone(&stores) as _, ..World::standalone() };
            let found = match verify(&world, Path::new(DIR), &receipt, |_| Vec::new()) {
                Ok(verified) => !verified.findings.is_empty(),
                // An identity that cannot be read.
                Err(_) => true,
            };
            assert!(found || bytes[at] == 0, "bit {bit} of byte {at} of {} is not found", path.display());
            counts[usize::from(found)] += 1;
        }
    }
    println!("{} flips are found, {} are behind the last record", counts[1], counts[0]);
    assert!(counts[1] > 50 && counts[0] * 10 < counts[1], "{counts:?}");
}

/// Writes the log anew with good checksums, as a forger with the program would. `change` changes its records.
fn rewritten(disk: &MemoryDisk, change: impl FnOnce(&mut Vec<Record>)) -> MemoryDisk {
    let dir = Path::new(DIR);
    let mut records = Vec::new();
    log::inspect(disk, &dir.join("log"), &mut |record| {
        records.extend(Record::decode_all(Bytes::copy_from_slice(record.payload)).expect("records"));
    })
    .expect("a log");
    change(&mut records);
    let forged = disk.copy();
    let log_dir = dir.join("log");
    for name in forged.list(&log_dir).expect("a directory") {
        forged.remove(&log_dir.join(name)).expect("removed");
    }
    let owner = identity::read(&forged, dir).expect("readable").expect("an identity").disk;
    let config = LogConfig { preallocation: Preallocation::Inline, ..LogConfig::new(owner, 8 << 20) };
    let (mut log, _) =
        Log::open(Arc::new(forged.clone()), Arc::new(OsRng), &log_dir, config, Start::New, &mut |_| {}).expect("a log");
    for record in records {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        log.append(Kind::Ordinary, &[&bytes], &[]).expect("room");
    }
    log.seal().expect("a good disk");
    drop(log);
    // The archives are of the log before.
    for name in forged.list(&dir.join("archive")).expect("a directory") {
        if name != "chain" {
            forged.remove(&dir.join("archive").join(name)).expect("removed");
        }
    }
    forged
}

fn place_of(records: &[Record], at: u64) -> usize {
    let is_it =
        |record: &Record| matches!(record, Record::Entry { shard: SHARD, position, .. } if position.index == at);
    records.iter().position(is_it).expect("an entry")
}

fn payload_of(record: &mut Record) -> &mut Bytes {
    let Record::Entry { payload, .. } = record else { panic!("no entry") };
    payload
}

#[tokio::test]
async fn entries_that_were_rewritten_with_good_checksums_are_found_between_two_known_places() {
    let Sold { disk, stores, receipt } = sold().await;
    let end = receipt.iter().find(|place| place.shard == SHARD).expect("a chain").index;
    let findings = |forged: &MemoryDisk, receipt: &[ChainPlace]| verified(forged, &stores, receipt).findings;
    let same = rewritten(&disk, |_| {});
    assert_eq!(findings(&same, &receipt), Vec::<String>::new(), "a log that says the same");

    let at = end - 20;
    let swapped = rewritten(&disk, |records| {
        let (one, two) = (place_of(records, at), place_of(records, at + 1));
        let first = payload_of(&mut records[one]).clone();
        let second = std::mem::replace(payload_of(&mut records[two]), first);
        *payload_of(&mut records[one]) = second;
    });
    let found = findings(&swapped, &receipt).join("\n");
    assert!(
        found.contains(&format!("to {end} are not those that were decided: their chain is not that of the receipt")),
        "{found}"
    );

    let left_out = rewritten(&disk, |records| {
        let gone = place_of(records, at);
        records.remove(gone);
    });
    let found = findings(&left_out, &receipt).join("\n");
    assert!(found.contains(&format!("shard {SHARD}: entries {at} to {at} are missing")), "{found}");

    let closed_up = rewritten(&disk, |records| {
        let gone = place_of(records, at);
        records.remove(gone);
        for record in &mut records[gone..] {
            if let Record::Entry { shard: SHARD, position, .. } = record {
                position.index -= 1;
            }
        }
    });
    let found = findings(&closed_up, &receipt).join("\n");
    assert!(found.contains(&format!("entry {end} of the receipt is missing")), "{found}");

    let redated = rewritten(&disk, |records| {
        let one = place_of(records, at);
        let payload = payload_of(&mut records[one]);
        let mut bytes = payload.to_vec();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        *payload = bytes.into();
    });
    assert!(!findings(&redated, &receipt).is_empty(), "one bit of an entry");

    // Without the receipt no place after the newest snapshot is known, but states refuse what cannot have been decided.
    let twice = rewritten(&disk, |records| {
        let (one, two) = (place_of(records, at), place_of(records, at + 1));
        *payload_of(&mut records[two]) = payload_of(&mut records[one]).clone();
    });
    let found = findings(&twice, &[]).join("\n");
    assert!(found.contains("cannot be applied"), "a session that is opened twice: {found}");
}

#[tokio::test]
async fn a_receipt_of_other_entries_is_found() {
    let Sold { disk, stores, receipt } = sold().await;
    let other = sold().await.receipt;
    let found = verified(&disk, &stores, &other).findings.join("\n");
    assert!(found.contains("their chain is not that of the receipt"), "{found}");
    let later: Vec<_> = receipt.iter().map(|place| ChainPlace { index: place.index + 1_000, ..*place }).collect();
    let found = verified(&disk, &stores, &later).findings.join("\n");
    assert!(found.contains("of the receipt is missing: the entries end at"), "{found}");
}

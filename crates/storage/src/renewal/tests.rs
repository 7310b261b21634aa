use std::sync::Arc;

use boxoffice_core::version::NEWEST;
use boxoffice_env::{MemoryDisk, PeerAddress};

use super::*;
use crate::identity::{ClusterId, DataDirectory, Wanted};

const DIR: &str = "/srv/data";
const WANTED: Wanted = Wanted { cluster: None, node: 7, shards: 32, joining: None, reads_up_to: NEWEST };

fn world() -> (World, MemoryDisk) {
    let disk = MemoryDisk::new();
    (World { disk: Arc::new(disk.clone()), ..World::standalone() }, disk)
}

/// A data directory with a file in each part, and its identity.
fn used(world: &World) -> Identity {
    let dir = Path::new(DIR);
    let mut made = DataDirectory::open(world, dir, &WANTED).unwrap();
    made.record_log_created(&*world.disk).unwrap();
    for (part, name) in [(LOG, "1.log"), (SNAPSHOTS, "3-9.snap"), (HISTORY, "store"), (ARCHIVE, "1.boxlog")] {
        world.disk.create_dir_all(&dir.join(part)).unwrap();
        write(&*world.disk, &dir.join(part), name);
    }
    write(&*world.disk, dir, EPOCH);
    made.identity().clone()
}

fn write(disk: &dyn Disk, dir: &Path, name: &str) {
    let file = disk.open(&dir.join(name), OpenMode::Create).unwrap();
    file.write_all_at(name.as_bytes(), 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(dir).unwrap();
}

fn granted(disk: u128) -> Joining {
    let peers = vec![PeerAddress { node: 8, address: "a:1".into() }];
    Joining { cluster: ClusterId(5), disk, peers, generation_min: 40 }
}

#[test]
fn a_finding_is_noted_once_and_outlives_the_power() {
    let (world, disk) = world();
    let identity = used(&world);
    assert_eq!(noted(&disk, Path::new(DIR), &identity).unwrap(), None);
    let finding = note(&world, Path::new(DIR), &identity, ("a bit is wrong", true)).unwrap();
    disk.power_cut(&mut || false);
    assert_eq!(noted(&disk, Path::new(DIR), &identity).unwrap().as_ref(), Some(&finding));
    assert_eq!(note(&world, Path::new(DIR), &identity, ("another one", true)).unwrap(), finding);
    let lost = note(&world, Path::new(DIR), &identity, ("another one", false)).unwrap();
    assert_eq!((lost.next, lost.is_latent), (finding.next, false));
    assert_eq!(note(&world, Path::new(DIR), &identity, ("a third", true)).unwrap(), lost);
    let other = Identity { disk: 1, ..identity };
    assert_eq!(noted(&disk, Path::new(DIR), &other).unwrap(), None, "it is of another directory");
    assert_eq!(disk.open(&Path::new(DIR).join(FILE), OpenMode::Read).err().unwrap().kind(), ErrorKind::NotFound);
}

#[test]
fn files_are_set_aside_and_the_identity_is_another() {
    let (world, disk) = world();
    let dir = Path::new(DIR);
    for round in 0..2 {
        let before = match round {
            0 => used(&world),
            _ => identity::read(&disk, dir).unwrap().unwrap(),
        };
        let finding =
            Finding { at_ms: 1_700_000_000_000 + round, ..note(&world, dir, &before, ("wrong", false)).unwrap() };
        let kept = renew(&world, dir, (&before, &finding), &granted(finding.next)).unwrap().expect("there is room");
        assert_eq!(kept, dir.join("damaged-2023-11-14-221320"));
        disk.power_cut(&mut || false);
        let after = identity::read(&disk, dir).unwrap().expect("an identity");
        let Joining { cluster, disk: of_disk, peers, generation_min } = granted(finding.next);
        let created_at_ms = after.created_at_ms;
        let expected =
            Identity { cluster, disk: of_disk, peers, generation_min, created_at_ms, has_log: false, ..before.clone() };
        assert_eq!(after, expected);
        assert_eq!(noted(&disk, dir, &after).unwrap(), None);
        if round == 0 {
            assert_eq!(disk.list(&kept.join(LOG)).unwrap(), ["1.log"]);
            assert_eq!(identity::read(&disk, &kept).unwrap(), Some(before));
        }
        let opened = DataDirectory::open(&world, dir, &WANTED).unwrap();
        assert_eq!(opened.identity(), &after);
    }
}

#[test]
fn only_the_newest_is_kept_and_none_without_room() {
    let (world, disk) = world();
    let dir = Path::new(DIR);
    let identity = used(&world);
    disk.create_dir_all(&dir.join("damaged-2020-01-01-000000/log")).unwrap();
    let finding = note(&world, dir, &identity, ("wrong", false)).unwrap();
    // The snapshot has 8 bytes.
    let used_bytes = u64::MAX - {
        disk.set_capacity(Some(u64::MAX));
        disk.free_bytes(dir).unwrap()
    };
    disk.set_capacity(Some(used_bytes + 15));
    assert!(!has_room(&disk, dir).unwrap());
    disk.set_capacity(Some(used_bytes + 16));
    assert!(has_room(&disk, dir).unwrap());
    disk.set_capacity(None);
    renew(&world, dir, (&identity, &finding), &granted(finding.next)).unwrap();
    let kept = disk.list_dirs(dir).unwrap();
    assert!(kept.len() == 1 && kept[0].starts_with(SET_ASIDE) && !kept[0].contains("2020"), "{kept:?}");
}

#[test]
fn an_interrupted_renewal_goes_on() {
    for stop in 0..60 {
        let (world, disk) = world();
        let dir = Path::new(DIR);
        let identity = used(&world);
        let finding = note(&world, dir, &identity, ("wrong", false)).unwrap();
        disk.stop_after(stop);
        let done = renew(&world, dir, (&identity, &finding), &granted(finding.next)).is_ok();
        disk.power_cut(&mut || stop % 2 == 0);
        let found = identity::read(&disk, dir).unwrap().expect("an identity");
        match noted(&disk, dir, &found).unwrap() {
            Some(known) => {
                assert_eq!((known, &found), (finding.clone(), &identity), "after {stop} changes");
                renew(&world, dir, (&found, &finding), &granted(finding.next)).unwrap();
            }
            None => assert_eq!(found.disk, finding.next, "after {stop} changes"),
        }
        let renewed = identity::read(&disk, dir).unwrap().expect("an identity");
        assert_eq!(renewed.disk, finding.next);
        assert!(DataDirectory::open(&world, dir, &WANTED).is_ok());
        for part in [LOG, SNAPSHOTS, HISTORY, ARCHIVE] {
            assert!(disk.list(&dir.join(part)).is_err(), "{part} is left after {stop} changes");
        }
        if done {
            assert!(stop > 5);
            return;
        }
    }
    panic!("it takes more changes");
}

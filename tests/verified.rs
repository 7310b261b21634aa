//! `boxoffice admin receipt` and `boxoffice verify`, on the directories of nodes that have sold.

use std::{fs, path::Path, process::Command};

use crate::common::{ADMIN, BOXOFFICE, Buyers, Encoding, Home, Record, Rng, Server, Theatre, flip, written_to};

/// Small segments and frequent snapshots, so that there are several known places.
const SMALL: &str = "[node]\nshards = 2\n\n[log]\nsegment_bytes = 262_144\n\n[snapshots]\nentries = 60\n";

pub(crate) fn receipt(server: &Server, file: &Path) -> String {
    let address = server.operators().to_string();
    let mut command = Command::new(BOXOFFICE);
    command.args(["admin", "--address", &address, "receipt"]).env("BOXOFFICE_ADMIN_TOKEN", ADMIN);
    let printed = command.output().expect("the program runs");
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    fs::write(file, &printed.stdout).expect("a file");
    String::from_utf8(printed.stdout).expect("text")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_is_proven_by_a_receipt_and_damage_is_named() {
    let mut rng = Rng::of_test("a_directory_is_proven_by_a_receipt_and_damage_is_named");
    let home = Home::with_config(SMALL);
    let server = home.start();
    let port = server.port(Encoding::MsgPack).await;
    let theatre = Theatre::open(&port, 60, (12, 20), None).await;
    let mut buyers = Buyers::start(&server, &theatre, Record::default(), 16, &mut rng).await;
    buyers.orders(150).await;
    let files = tempfile::tempdir().expect("a directory");
    let (early, late) = (files.path().join("early"), files.path().join("late"));
    let printed = receipt(&server, &early);
    assert!(printed.starts_with("# cluster ") && printed.lines().count() == 4, "three shards: {printed}");
    let (code, text) = home.verify(&[]);
    assert!(code == Some(4) && text.contains("is in use by another process"), "{code:?}: {text}");
    assert!(text.contains("`boxoffice verify --running`"), "{text}");
    buyers.orders(150).await;
    buyers.stop().await;
    receipt(&server, &late);
    server.stop();
    for receipt in [&early, &late] {
        let (code, text) = home.verify(&["--receipt", &receipt.display().to_string()]);
        assert!(code == Some(0) && text.contains("nothing is wrong"), "{code:?}: {text}");
    }

    // A receipt of which a digit was changed is none, and that of another directory proves nothing.
    let other = Home::with_config(SMALL);
    let server = other.start();
    Theatre::open(&server.port(Encoding::MsgPack).await, 60, (12, 20), None).await;
    server.stop();
    let (code, text) = other.verify(&["--receipt", &early.display().to_string()]);
    assert!(code == Some(1) && text.contains("the receipt"), "{code:?}: {text}");
    let (told, sum) = printed.trim_end().rsplit_once(' ').expect("a checksum");
    let sum = u32::from_str_radix(sum, 16).expect("a number");
    let forged = format!("{told} {:08x}\n", sum ^ 1);
    fs::write(&late, forged).expect("a file");
    let (code, text) = home.verify(&["--receipt", &late.display().to_string()]);
    assert!(code == Some(2) && text.contains(": it has a bad checksum"), "{code:?}: {text}");

    // One bit of each kind of file.
    let mut damaged: Vec<_> = home.segments().into_iter().take(1).collect();
    let snapshots =
        fs::read_dir(home.data_dir().join("snapshots")).expect("snapshots").map(|file| file.expect("a file").path());
    damaged.extend(snapshots.take(1));
    assert_eq!(damaged.len(), 2, "{damaged:?}");
    for path in damaged {
        let whole = fs::read(&path).expect("bytes");
        let end = written_to(&path);
        flip(&path, end / 2 + rng.below(end / 4), &mut rng);
        let (code, text) = home.verify(&[]);
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(code == Some(1) && text.contains("FOUND ") && text.contains(name), "{code:?} {name}: {text}");
        fs::write(&path, whole).expect("bytes");
    }
    home.is_whole();
}

//! `boxoffice backup` of a node that sells, and what `boxoffice restore` makes of it.

use std::{fs, path::Path, process::Command, sync::Arc};

use serde_json::{Value, json};

use crate::{
    common::{
        ADMIN, BOXOFFICE, Buyers, Encoding, Gateway, Home, Port, Record, Rng, Server, Shopper, Theatre, eventually,
        fixture, flip,
    },
    verified::receipt,
};

fn config(shards: u16) -> String {
    // Small segments, and frequent snapshots and marks.
    format!(
        "[node]\nshards = {shards}\n\n[log]\nsegment_bytes = 262_144\n\n[snapshots]\nentries = 60\n\n[backup]\nmark_ms = 200\n"
    )
}

/// Runs the program. Returns the exit code and all output.
pub(crate) fn run(args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(BOXOFFICE);
    let output = command.args(args).env("BOXOFFICE_ADMIN_TOKEN", ADMIN).output().expect("the program runs");
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (output.status.code(), text.concat())
}

pub(crate) fn back_up(server: &Server, dir: &Path) -> String {
    let (dir, address) = (dir.display().to_string(), server.operators().to_string());
    let (code, text) = run(&["backup", &dir, "--address", &address]);
    assert_eq!(code, Some(0), "{text}");
    text
}

pub(crate) fn restore(backup: &Path, home: &Home, more: &[&str]) -> (Option<i32>, String) {
    let (backup, data) = (backup.display().to_string(), home.data_dir().display().to_string());
    run(&[&["restore", &backup, &data], more].concat())
}

/// The seats of every session, the audit without what only says where things are, and some repeated requests.
async fn facts(port: &Port, theatre: &Theatre, repeats: &[(&str, &str, Value)]) -> Value {
    let mut audit = fixture::audit(port).await;
    // An ended cart, or one that was never opened, may be in memory or in the store.
    for count in ["carts_archived", "tombstones"] {
        audit.as_object_mut().expect("an audit").remove(count);
    }
    let mut maps = Vec::new();
    for session in &theatre.sessions {
        maps.push(theatre.map(port, session).await.seats);
    }
    let mut answers = Vec::new();
    for (op, rid, body) in repeats {
        answers.push(port.ask(op, rid, body.clone()).await.ok());
    }
    json!({"audit": audit, "maps": maps, "answers": answers})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_restored_to_any_number_of_shards_and_answers_as_before() {
    let mut rng = Rng::of_test("a_backup_is_restored_to_any_number_of_shards_and_answers_as_before");
    let home = Home::with_config(&config(4));
    let server = home.start();
    let port = Arc::new(server.port(Encoding::Json).await);
    let theatre = Theatre::open(&port, 12, (10, 20), None).await;
    let mut buyers = Buyers::start(&server, &theatre, Record::default(), 12, &mut rng).await;
    buyers.orders(150).await;
    let files = tempfile::tempdir().expect("a directory");
    let backup = files.path().join("backup");
    // While it sells.
    let taken = back_up(&server, &backup);
    assert!(taken.contains("a full backup of 5 shards"), "{taken}");
    assert!(server.stderr().contains("a backup of everything is taken"), "who takes it is logged: {}", server.stderr());
    buyers.orders(150).await;
    buyers.stop().await;
    let shopper = Shopper::new(&port, &mut rng);
    let session = theatre.session();
    let open = shopper.body(json!({"ttl_ms": 86_400_000, "customer": "ann"}));
    port.ask("cart.open", "backup-open", open.clone()).await.ok();
    let best = shopper.body(json!({"session": session, "count": 1}));
    port.ask("cart.hold_best", "backup-best", best.clone()).await.ok();
    let repeats = [("cart.open", "backup-open", open), ("cart.hold_best", "backup-best", best)];
    let expected = facts(&port, &theatre, &repeats).await;
    let taken = back_up(&server, &backup);
    assert!(taken.contains("what is new of 5 shards"), "{taken}");
    let cluster = home_cluster(&port).await;
    server.stop();

    for shards in [4, 1, 7, 97] {
        let restored = Home::with_config(&config(shards));
        let (code, text) = restore(&backup, &restored, &["--shards", &shards.to_string()]);
        assert_eq!(code, Some(0), "{shards}: {text}");
        restored.is_whole();
        let server = restored.start();
        let port = Arc::new(server.port(Encoding::Json).await);
        assert_eq!(facts(&port, &theatre, &repeats).await, expected, "{shards} shards");
        assert_ne!(home_cluster(&port).await, cluster, "another cluster");
        // It sells on.
        let shopper = Shopper::new(&port, &mut rng);
        port.ask("cart.open", "after-open", shopper.body(json!({"ttl_ms": 600_000}))).await.ok();
        port.ask("cart.hold_best", "after", shopper.body(json!({"session": session, "count": 1}))).await.ok();
        shopper.checkout().await.ok();
        fixture::audit(&port).await;
        server.stop();
        restored.is_whole();
    }
}

async fn home_cluster(port: &Port) -> Value {
    port.read("admin.status", json!({})).await.ok()["cluster"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_restored_to_an_instant() {
    let mut rng = Rng::of_test("a_backup_is_restored_to_an_instant");
    let home = Home::with_config(&config(3));
    let server = home.start();
    let port = server.port(Encoding::Json).await;
    let theatre = Theatre::open(&port, 60, (10, 20), None).await;
    let files = tempfile::tempdir().expect("a directory");
    let backup = files.path().join("backup");
    back_up(&server, &backup);
    let mut buyers = Buyers::start(&server, &theatre, Record::default(), 4, &mut rng).await;
    let mut instants = Vec::new();
    for _ in 0..3 {
        buyers.orders(25).await;
        let before = fixture::audit(&port).await["orders"].as_u64().expect("a number");
        tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
        instants.push((now(), before));
        tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    }
    buyers.stop().await;
    let all = fixture::audit(&port).await["orders"].as_u64().expect("a number");
    back_up(&server, &backup);
    server.stop();
    for (at, before) in instants {
        let restored = Home::with_config(&config(3));
        let (code, text) = restore(&backup, &restored, &["--at", &at]);
        assert_eq!(code, Some(0), "{at}: {text}");
        let server = restored.start();
        let found = fixture::audit(&server.port(Encoding::Json).await).await["orders"].as_u64().expect("a number");
        // The last mark is at most some hundred milliseconds before the instant.
        assert!((before..=all).contains(&found), "{found} orders at {at}, of {all}, and {before} long before");
        server.stop();
    }
    let early = Home::with_config(&config(3));
    let (code, text) = restore(&backup, &early, &["--at", "2020-01-01T00:00:00Z"]);
    assert!(code == Some(1) && text.contains("the first is 20"), "{code:?}: {text}");
    assert!(!early.data_dir().exists(), "nothing is begun");
}

/// A node that pays through this gateway.
fn paying(gateway: &Gateway, shards: u16) -> String {
    let url = gateway.address();
    format!(
        "{}[payments]\nurl = \"http://{url}\"\ntimeout_ms = 2_000\nagain_ms = 40\nwait_ms = 20_000\n",
        config(shards)
    )
}

/// Payments that the gateway has and the cluster does not, by key, and the exit code.
fn reconcile(server: &Server, home: &Home, more: &[&str]) -> (Option<i32>, Vec<String>, String) {
    let (address, file) = (server.operators().to_string(), home.config_file().display().to_string());
    let (code, text) = run(&[&["admin", "reconcile", "--address", &address, "--config", &file], more].concat());
    let keys = text.lines().filter_map(|line| line.split_once("  ")).map(|(key, _)| key.to_owned()).collect();
    (code, keys, text)
}

/// A payment under way at the backup keeps its key, attempts that begin after the restore have others, and the gateway's list shows
/// what was paid after the backup.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_cluster_pays_and_names_the_payments_that_it_does_not_know() {
    let mut rng = Rng::of_test("a_restored_cluster_pays_and_names_the_payments_that_it_does_not_know");
    let gateway = Gateway::start();
    let home = Home::with_config(&paying(&gateway, 3));
    let server = home.start();
    let port = Arc::new(server.port(Encoding::Json).await);
    fixture::event(&port, "finals", 500, Value::Null).await;
    let [known, under_way, again, lost] = [(); 4].map(|()| Shopper::new(&port, &mut rng));
    for buyer in [&known, &under_way, &again] {
        buyer.places("finals", "yard", 2).await.ok();
    }
    known.pay("ok").await.ok();
    let files = tempfile::tempdir().expect("a directory");
    let backup = files.path().join("backup");
    let taken = async {
        // The backup comes between the authorization and its answer.
        eventually("the gateway is asked", async || {
            (!gateway.charges(&under_way.cart()).await.is_empty()).then_some(())
        })
        .await;
        tokio::task::block_in_place(|| back_up(&server, &backup));
    };
    let (order, ()) = tokio::join!(under_way.pay("late-2500"), taken);
    order.ok();
    again.pay("ok").await.ok();
    lost.places("finals", "yard", 1).await.ok();
    lost.pay("ok").await.ok();
    let money = |amount: i64| ("captured".to_owned(), amount, amount, 0);
    for (buyer, amount) in [(&known, 2_000), (&under_way, 2_000), (&again, 2_000), (&lost, 1_000)] {
        eventually("its money is taken", async || {
            (gateway.charges(&buyer.cart()).await == [money(amount)]).then_some(())
        })
        .await;
    }
    let (code, keys, text) = reconcile(&server, &home, &[]);
    assert_eq!((code, keys), (Some(0), Vec::new()), "{text}");
    server.stop();

    let restored = Home::with_config(&paying(&gateway, 5));
    let (code, text) = restore(&backup, &restored, &["--shards", "5"]);
    assert_eq!(code, Some(0), "{text}");
    restored.is_whole();
    let server = restored.start();
    let port = Arc::new(server.port(Encoding::Json).await);
    let [under_way, again, lost] = [under_way, again, lost].map(|buyer| Shopper::with(&port, buyer.token.clone()));
    eventually("the payment under way is decided", async || (under_way.state().await == "done").then_some(())).await;
    assert_eq!(gateway.charges(&under_way.cart()).await, [money(2_000)], "the same key");
    let not_known = [format!("{}-1", again.cart()), format!("{}-1", lost.cart())];
    let is_named = |found: &[String]| found.len() == 2 && not_known.iter().all(|key| found.contains(key));
    let (code, keys, text) = reconcile(&server, &restored, &[]);
    assert!(code == Some(1) && is_named(&keys), "{text}");
    // Its seats are still in the cart, so the buyer pays again. The gateway must not answer as it answered before.
    again.ask_as("paid-anew", "cart.checkout", json!({"payment": {"gateway": {"source": "ok"}}})).await.ok();
    let twice = [money(2_000), money(2_000)];
    eventually("it is paid anew", async || (gateway.charges(&again.cart()).await == twice).then_some(())).await;
    let (code, keys, text) = reconcile(&server, &restored, &["--since", "2026-01-01T00:00:00Z"]);
    assert!(code == Some(1) && is_named(&keys), "{text}");
    let (code, keys, text) = reconcile(&server, &restored, &["--since", "2100-01-01T00:00:00Z"]);
    assert!(code == Some(0) && keys.is_empty() && text.contains("0 attempts"), "{text}");
    fixture::audit(&port).await;
    server.stop();
    restored.is_whole();
}

fn now() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    boxoffice_wire::repr::rfc3339(boxoffice_core::time::Timestamp(now.as_millis() as u64))
        .expect("a year of four digits")
}

/// Changes a bit of an early entry of a part, and the checksum in the list of the backup with it, as a forger does.
fn forge(backup: &Path) {
    let path = backup.join("1/entries");
    let mut bytes = fs::read(&path).expect("entries");
    let mut at = 0;
    while at < bytes.len() / 20 {
        let length = u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        at += 4 + length as usize;
    }
    bytes[at - 1] ^= 1;
    fs::write(&path, &bytes).expect("written");
    let list = backup.join("backup.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&list).expect("a list")).expect("JSON");
    for file in manifest["parts"][0]["files"].as_array_mut().expect("files") {
        if file["name"] == "1/entries" {
            file["blake3"] = blake3::hash(&bytes).to_hex().as_str().into();
        }
    }
    fs::write(list, manifest.to_string()).expect("written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_and_a_running_node_are_proven_by_a_receipt() {
    let mut rng = Rng::of_test("a_backup_and_a_running_node_are_proven_by_a_receipt");
    // No snapshot, so that the backup has all entries.
    let home = Home::with_config("[node]\nshards = 2\n");
    let server = home.start();
    let port = server.port(Encoding::Json).await;
    let theatre = Theatre::open(&port, 4, (10, 20), None).await;
    let mut buyers = Buyers::start(&server, &theatre, Record::default(), 4, &mut rng).await;
    buyers.orders(60).await;
    let files = tempfile::tempdir().expect("a directory");
    let (backup, proof) = (files.path().join("backup"), files.path().join("receipt"));
    let tmp = files.path().join("tmp");
    fs::create_dir(&tmp).expect("a directory");
    receipt(&server, &proof);
    buyers.orders(20).await;

    let [dir, proof] = [&backup, &proof].map(|path| path.display().to_string());
    let address = server.operators().to_string();
    // While it sells.
    let running = |proof: &str| {
        let mut command = Command::new(BOXOFFICE);
        command.args(["verify", "--running", "--address", &address, "--receipt", proof]);
        let output = command.env("BOXOFFICE_ADMIN_TOKEN", ADMIN).env("TMPDIR", &tmp).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, text) = running(&proof);
    assert!(code == Some(0) && text.contains("nothing is wrong"), "{text}");
    assert_eq!(fs::read_dir(&tmp).expect("a directory").count(), 0, "the temporary backup is removed");
    // Interrupted while it waits for the node, which does not answer.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent_address = silent.local_addr().expect("an address").to_string();
    let mut command = Command::new(BOXOFFICE);
    command
        .args(["verify", "--running", "--address", &silent_address])
        .env("BOXOFFICE_ADMIN_TOKEN", ADMIN)
        .env("TMPDIR", &tmp);
    let mut child = command.spawn().expect("it runs");
    let is_there = || fs::read_dir(&tmp).expect("a directory").count() > 0;
    while !is_there() {
        assert_eq!(child.try_wait().expect("a child"), None, "it ended before it was interrupted");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("a process");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(!is_there(), "what it had is removed");

    back_up(&server, &backup);
    buyers.stop().await;
    back_up(&server, &backup);
    let (code, text) = run(&["verify", &dir, "--receipt", &proof]);
    assert!(code == Some(0) && text.contains("nothing is wrong"), "{text}");

    // A receipt of another cluster.
    let other = Home::with_config("[node]\nshards = 2\n");
    let another = other.start();
    Theatre::open(&another.port(Encoding::Json).await, 4, (10, 20), None).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let wrong = files.path().join("other");
    receipt(&another, &wrong);
    let wrong = wrong.display().to_string();
    another.stop();
    for (code, text) in [running(&wrong), run(&["verify", &dir, "--receipt", &wrong])] {
        assert!(code == Some(1) && text.contains("FOUND") && text.contains("the receipt"), "{text}");
    }
    server.stop();

    forge(&backup);
    let (code, text) = run(&["verify", &dir, "--receipt", &proof]);
    assert!(code == Some(1) && text.contains("are not those that were decided"), "{text}");
    flip(&backup.join("1/entries"), 100, &mut rng);
    let (code, text) = run(&["verify", &dir]);
    assert!(code == Some(1) && text.contains("1/entries is not as it was written"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_and_incomplete_backups_are_refused_by_name() {
    let mut rng = Rng::of_test("damaged_and_incomplete_backups_are_refused_by_name");
    let home = Home::with_config(&config(2));
    let server = home.start();
    let port = server.port(Encoding::Json).await;
    let theatre = Theatre::open(&port, 4, (10, 20), None).await;
    let mut buyers = Buyers::start(&server, &theatre, Record::default(), 4, &mut rng).await;
    buyers.orders(60).await;
    buyers.stop().await;
    let files = tempfile::tempdir().expect("a directory");
    let backup = files.path().join("backup");
    back_up(&server, &backup);
    let target = Home::with_config(&config(2));

    // Each file.
    let parts = fs::read_dir(backup.join("1")).expect("a part").map(|file| file.expect("a file").path());
    let parts: Vec<_> = parts.filter(|path| fs::metadata(path).expect("a file").len() > 0).collect();
    assert!(parts.len() >= 4, "{parts:?}");
    for path in parts {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600, "{}", path.display());
        let whole = fs::read(&path).expect("bytes");
        flip(&path, rng.below(whole.len()), &mut rng);
        let (code, text) = restore(&backup, &target, &[]);
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(code == Some(1) && text.contains(name) && text.contains("BLAKE3"), "{code:?} {name}: {text}");
        fs::write(&path, &whole).expect("bytes");
    }
    // Taken with an older list, it is one that was not taken to its end.
    let list = backup.join("backup.json");
    let text = fs::read_to_string(&list).expect("text");
    fs::write(&list, text.replacen("{", "{\n  \"incomplete\": \"its disk was full\",", 1)).expect("bytes");
    let (code, said) = restore(&backup, &target, &[]);
    assert!(code == Some(1) && said.contains("its disk was full"), "{code:?}: {said}");
    fs::write(&list, &text[..text.len() / 2]).expect("bytes");
    let (code, said) = restore(&backup, &target, &[]);
    assert!(code == Some(1) && said.contains("backup.json"), "{code:?}: {said}");
    fs::write(&list, text).expect("bytes");

    // Into a directory that has something.
    let (code, said) = restore(&backup, &home, &[]);
    assert!(code == Some(1) && said.contains("is not empty"), "{code:?}: {said}");
    let said = Command::new(BOXOFFICE)
        .arg("backup")
        .arg(home.data_dir())
        .args(["--address", &server.operators().to_string()])
        .env("BOXOFFICE_ADMIN_TOKEN", ADMIN)
        .output()
        .expect("the program runs");
    assert_eq!(said.status.code(), Some(1), "a backup into a data directory");
    assert!(!home.data_dir().join("backup.json").exists());
    // Of another cluster.
    let other = Home::with_config(&config(2));
    let other_server = other.start();
    let (dir, address) = (backup.display().to_string(), other_server.operators().to_string());
    let (code, said) = run(&["backup", &dir, "--address", &address]);
    assert!(code == Some(1) && said.contains("is a backup of cluster"), "{code:?}: {said}");
    // A stranger gets nothing.
    let mut stranger = Command::new(BOXOFFICE);
    let address = server.address().to_string();
    stranger.args(["backup", &dir, "--address", &address]).env_remove("BOXOFFICE_ADMIN_TOKEN");
    assert_eq!(stranger.output().expect("the program runs").status.code(), Some(1));
    let (code, said) = restore(&backup, &target, &[]);
    assert_eq!(code, Some(0), "{said}");
}

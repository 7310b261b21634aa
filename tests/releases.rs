//! Data directories of releases. Every later program opens them, gives each request the answer that the release gave, tells the same
//! histories, and sells on.
//!
//! `tests/releases/VERSION` has the directory of a release, packed, with the requests and answers it was made by, and the forms of all
//! stored values. Nothing writes to it any more. Releasing makes it:
//! `RELEASE=0.2.0 cargo test -p boxoffice --test whole releases::a_release_is_made -- --ignored`

#![allow(clippy::disallowed_methods, reason = "the files stand in the repository")]

use std::{
    collections::BTreeSet,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::{
    backups::{back_up, restore, run},
    common::{
        Encoding, Gateway, Home, Server,
        fixture::audit,
        released::{NEXT, folder, releases},
    },
    transcripts::Wire,
};

/// The files of a release besides its forms.
const DIRECTORY: &str = "data.tar.gz";
const ANSWERS: &str = "answers.txt";

/// Frequent snapshots, so that the store has ended carts and the log is short.
const CONFIG: &str = "[log]\nsegment_bytes = 262_144\n\n[snapshots]\nentries = 10\n\n[node]\nshards = 2\n";

fn tar(arguments: &[&str], directory: &Path, file: &Path) {
    let packed = Command::new("tar").args(arguments).arg(file).arg("-C").arg(directory).arg("data").status();
    assert!(packed.expect("tar runs").success());
}

/// An answer without the position in the log, which a repeat may not know.
fn lasting(answer: &str) -> Value {
    let mut answer: Value = serde_json::from_str(answer).expect("JSON");
    for at in answer.get_mut("at").and_then(Value::as_array_mut).into_iter().flatten() {
        at.as_object_mut().expect("an entity").remove("position");
    }
    answer
}

/// The requests of the transcripts that change something.
fn changes() -> Vec<String> {
    let folder = folder("../../docs/transcripts");
    let mut names: Vec<PathBuf> =
        fs::read_dir(folder).expect("transcripts").map(|one| one.expect("one").path()).collect();
    names.sort();
    let texts = names.iter().map(|name| fs::read_to_string(name).expect("a transcript"));
    let frames = texts.flat_map(|text| {
        text.lines().filter_map(|line| line.strip_prefix("→ ")).map(str::to_owned).collect::<Vec<_>>()
    });
    frames.filter(|frame| frame.contains(r#""rid":"#)).collect()
}

/// Asks for the history of an entity.
fn history_of(entity: &str) -> String {
    json!({"id": 1, "op": "admin.history", "body": {"entity": entity, "limit": 1_000}}).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it makes a release"]
async fn a_release_is_made() {
    let release = std::env::var("RELEASE").expect("RELEASE names the release, such as 0.2.0");
    let folder = folder(&release);
    fs::create_dir(&folder).expect("a release is made once");
    for form in ["schema.txt", "bytes.txt", "folds.txt"] {
        fs::copy(folder.with_file_name(NEXT).join(form), folder.join(form)).expect("the forms of this program");
    }
    let gateway = Gateway::start();
    let home = Home::with_config(&format!("{CONFIG}\n[payments]\nurl = \"http://{}\"\n", gateway.address()));
    let server = home.start();
    let mut wire = Wire::connect(server.address()).await;
    let (mut lines, mut entities) = (String::new(), BTreeSet::new());
    for frame in changes() {
        let answer = lasting(&wire.answer(&frame).await);
        // Refusals are not remembered.
        if answer.get("ok").is_some() {
            let told = answer["at"].as_array().into_iter().flatten();
            entities.extend(told.map(|at| at["entity"].as_str().expect("an entity").to_owned()));
            writeln!(lines, "→ {frame}\n← {answer}").expect("text takes it");
        }
    }
    audit(&server.port(Encoding::Json).await).await;
    for entity in entities {
        let frame = history_of(&entity);
        let answer = lasting(&wire.answer(&frame).await);
        writeln!(lines, "→ {frame}\n← {answer}").expect("text takes it");
    }
    fs::write(folder.join(ANSWERS), lines).expect("written");
    drop(wire);
    server.stop();
    tar(&["--sort=name", "--owner=0", "--group=0", "-czf"], home.path(), &folder.join(DIRECTORY));
}

/// Checks that every request of the release is answered as then. A restored cluster begins its histories anew.
async fn check_answers(release: &str, wire: &mut Wire, has_histories: bool) {
    let text = fs::read_to_string(folder(release).join(ANSWERS)).expect("the answers of a release");
    let mut lines = text.lines();
    while let (Some(frame), Some(answer)) = (lines.next(), lines.next()) {
        let frame = frame.strip_prefix("→ ").expect("a request");
        if !has_histories && frame.contains(r#""op":"admin.history""#) {
            continue;
        }
        let before: Value = serde_json::from_str(answer.strip_prefix("← ").expect("an answer")).expect("JSON");
        let mut now = lasting(&wire.answer(frame).await);
        let entries = now.pointer_mut("/ok/entries").and_then(Value::as_array_mut);
        if let (Some(before), Some(now)) = (before["ok"]["entries"].as_array(), entries) {
            // What has happened since, such as the end of a cart, comes first.
            now.drain(..now.len() - before.len());
        }
        assert_eq!(now, before, "{release}: the answer to {frame}");
    }
}

/// Sells what the release did not.
async fn sell(wire: &mut Wire, round: u64) -> String {
    let (product, token) = (format!("new-{round}"), format!("{:032x}", 0xfeed + round));
    let put = json!({"id": product, "name": product, "price": {"amount": 350, "currency": "EUR"}, "stock": 5});
    let hold = json!({"token": token, "product": product, "quantity": 2});
    let pay = json!({"token": token, "payment": {"recorded": {"method": "cash", "transaction_id": "1"}}});
    let mut last = Value::Null;
    for (op, body) in [("product.put", put), ("cart.hold_stock", hold), ("cart.checkout", pay)] {
        let frame = json!({"id": 1, "op": op, "rid": format!("{op}-{round}"), "body": body});
        last = lasting(&wire.answer(&frame.to_string()).await);
        assert!(last.get("ok").is_some(), "{op}: {last}");
    }
    last["ok"]["id"].as_str().expect("an order").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_of_releases_open_and_sell() {
    for release in releases() {
        let gateway = Gateway::start();
        let home = Home::with_config(&format!("{CONFIG}\n[payments]\nurl = \"http://{}\"\n", gateway.address()));
        tar(&["-xzf"], home.path(), &folder(&release).join(DIRECTORY));
        let mut orders = Vec::new();
        for round in 0..2 {
            let server = home.start();
            let mut wire = Wire::connect(server.address()).await;
            check_answers(&release, &mut wire, true).await;
            orders.push(sell(&mut wire, round).await);
            for order in &orders {
                let frame = json!({"id": 1, "op": "order.get", "body": {"order": order}}).to_string();
                assert!(lasting(&wire.answer(&frame).await).get("ok").is_some(), "{order}");
            }
            audit(&server.port(Encoding::Json).await).await;
            drop(wire);
            server.stop();
        }
        backed_up_and_restored(&release, &home, &orders).await;
    }
}

/// The upgrade of a node that is alone is finished, and its directory backed up and restored into more shards.
async fn backed_up_and_restored(release: &str, home: &Home, orders: &[String]) {
    let server = home.start();
    let finish = |server: &Server| run(&["admin", "upgrade", "finish", "--address", &server.operators().to_string()]);
    for _ in 0..2 {
        let (code, text) = finish(&server);
        assert!(code == Some(0) && text.contains("the node is alone"), "{release}: {text}");
    }
    let files = tempfile::tempdir().expect("a directory");
    let backup = files.path().join("backup");
    back_up(&server, &backup);
    server.stop();
    let restored = Home::with_config(
        &fs::read_to_string(home.config_file()).expect("its file").replace("shards = 2", "shards = 5"),
    );
    let (code, text) = restore(&backup, &restored, &["--shards", "5"]);
    assert_eq!(code, Some(0), "{release}: {text}");
    restored.is_whole();
    let server = restored.start();
    let mut wire = Wire::connect(server.address()).await;
    check_answers(release, &mut wire, false).await;
    for order in orders {
        let frame = json!({"id": 1, "op": "order.get", "body": {"order": order}}).to_string();
        assert!(lasting(&wire.answer(&frame).await).get("ok").is_some(), "{order}");
    }
    sell(&mut wire, 2).await;
    audit(&server.port(Encoding::Json).await).await;
    drop(wire);
    server.stop();
    restored.is_whole();
}

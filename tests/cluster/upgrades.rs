//! A cluster gets the next program while it sells. This program has the next version as well, and reads and writes it only if it is told
//! to (`BOXOFFICE_NEXT_VERSION`), so one program is both.

use std::{fs, path::Path};

use boxoffice_core::version::{NEWEST, NEXT, OLDEST_READ};
use serde_json::{Value, json};

use crate::{
    NODE, REFUSED, THREE,
    cluster::{Cluster, SECRET, Stage},
    common::{Answer, Buyers, Home, Refused, Rng, TIMEOUT, http},
};

/// The version of the program, and of the next one.
const VERSIONS: [u64; 2] = [NEWEST.number() as u64, NEXT.number() as u64];

/// The version of a data directory.
fn on_disk(cluster: &Cluster, node: u64) -> u64 {
    let path = cluster.home(node).data_dir().join("identity.toml");
    let identity = fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let format = identity.lines().find_map(|line| line.strip_prefix("format = "));
    format.and_then(|format| format.parse().ok()).unwrap_or_else(|| panic!("a version: {identity}"))
}

/// Gives a node the other program.
async fn restart(cluster: &mut Cluster, node: u64, has_next: bool) {
    cluster.set_program(node, has_next);
    cluster.start_node(node).await;
    cluster.ready().await;
}

/// Ends the nodes one after the other, and starts the other program on their disks.
async fn roll(cluster: &mut Cluster, buyers: &mut Buyers, has_next: bool) {
    for node in cluster.running() {
        cluster.terminate(node);
        buyers.orders(3).await;
        restart(cluster, node, has_next).await;
    }
}

/// Waits until every node writes under this version, with the disk's word for it.
async fn write_under(cluster: &Cluster, version: u64) {
    cluster
        .until(&format!("every node writes under version {version}"), async || {
            for node in cluster.running() {
                let status = cluster.read(node, "admin.status", json!({})).await.ok_or("no status")?;
                if status["cluster_version"] != version || on_disk(cluster, node) != version {
                    return Err(format!("node {node}: {}, {}", status["cluster_version"], on_disk(cluster, node)));
                }
            }
            Ok(())
        })
        .await;
}

/// Finishes an upgrade, once every member has arrived with its program.
async fn cluster_finishes(cluster: &Cluster) {
    cluster
        .until("the upgrade is finished", async || match finish(cluster).await {
            Answer::Ok(..) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
}

async fn finish(cluster: &Cluster) -> Answer {
    cluster.failover_client(1).ask_within("admin.finish_upgrade", "finish", json!({}), TIMEOUT).await
}

/// The answer of each node to a hold with a field that the next version brings. A hold that is granted is given back.
async fn newer_fields(cluster: &Cluster, session: &str) -> Vec<Answer> {
    let mut answers = Vec::new();
    for (row, node) in (0..).zip(cluster.running()) {
        let token = format!("{:032x}", u128::from(node) << 64 | 7);
        let body = json!({"token": token, "session": session, "seats": [[row, 0]], "types": []});
        let answer = http::ask(cluster.client(node), "cart.hold_seats", Some("newer"), &body).await;
        if matches!(answer, Answer::Ok(..)) {
            http::ask(cluster.client(node), "cart.cancel", Some("given back"), &json!({"token": token})).await.ok();
        }
        answers.push(answer);
    }
    answers
}

/// The sum of a counter of all nodes.
async fn counted(cluster: &Cluster, counter: &str) -> u64 {
    let mut sum = 0;
    for node in cluster.running() {
        let (_, text) = http::get(cluster.client(node), "/metrics").await;
        let found = text.lines().find_map(|line| line.strip_prefix(&format!("{counter} ")));
        sum += found.and_then(|count| count.trim().parse::<u64>().ok()).expect("the metric is there");
    }
    sum
}

/// Every frame of every node could be read, and no replica differs.
async fn understand_each_other(cluster: &Cluster) {
    assert_eq!(counted(cluster, "boxoffice_peer_frames_dropped_total").await, 0);
    assert_eq!(counted(cluster, "boxoffice_replica_checksums_different_total").await, 0);
}

fn names(refused: &Refused, parts: &[String]) {
    for part in parts {
        assert!(refused.stderr.contains(part.as_str()), "{part}: {}", refused.stderr);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_upgraded_while_it_sells() {
    let mut stage = Stage::new(Rng::of_test("a_cluster_is_upgraded_while_it_sells"), THREE).await;
    let session = stage.play(1, (4, 2), None).await.sessions[0].clone();
    let [version, next] = VERSIONS;
    stage
        .story("the next program, and back", async |cluster, buyers, _| {
            roll(cluster, buyers, true).await;
            // Nothing is written in its form yet, and no client may ask for more than an older program knows.
            write_under(cluster, version).await;
            for answer in newer_fields(cluster, &session).await {
                let Answer::No(no) = answer else { panic!("the field came with the next version: {answer:?}") };
                assert!(no.body.to_string().contains("until its upgrade is finished"), "{no:?}");
            }
            understand_each_other(cluster).await;
            roll(cluster, buyers, false).await;
            write_under(cluster, version).await;
            understand_each_other(cluster).await;
        })
        .await;
    stage
        .story("the next program to the end", async |cluster, buyers, _| {
            cluster.terminate(1);
            restart(cluster, 1, true).await;
            // One is killed in the middle.
            cluster.kill(2);
            buyers.orders(3).await;
            restart(cluster, 2, true).await;
            let Answer::No(no) = finish(cluster).await else { panic!("node 3 has the old program") };
            assert_eq!((no.code, no.name.as_str()), (813, "upgrade_held_back"));
            assert!(no.body.to_string().contains("node 3: its program"), "{no:?}");
            cluster.terminate(3);
            restart(cluster, 3, true).await;
            // A node that is down may come back with any program.
            cluster.kill(3);
            cluster
                .until("the node that is down holds it back", async || match finish(cluster).await {
                    Answer::No(no) if no.body.to_string().contains("node 3: it cannot be reached") => Ok(()),
                    other => Err(format!("{other:?}")),
                })
                .await;
            cluster.start_node(3).await;
            cluster.ready().await;
            cluster_finishes(cluster).await;
            write_under(cluster, next).await;
            let granted = newer_fields(cluster, &session).await;
            assert!(granted.iter().all(|answer| matches!(answer, Answer::Ok(..))), "{granted:?}");
            buyers.orders(10).await;
            understand_each_other(cluster).await;
        })
        .await;
    stage
        .story("everything of the next version is read back", async |cluster, buyers, _| {
            let nodes = cluster.running();
            nodes.iter().for_each(|node| cluster.kill(*node));
            cluster.start_nodes(&nodes).await;
            cluster.ready().await;
            buyers.orders(10).await;
            // A node that lost everything gets it from the others.
            cluster.kill(2);
            cluster.lose_disk(2);
            cluster.admin("admin.replace", json!({"node": 2})).await;
            cluster.start_as_joining(2);
            cluster.start_node(2).await;
            cluster.ready().await;
            write_under(cluster, next).await;
            understand_each_other(cluster).await;
        })
        .await;
    stage
        .story("the old program is refused by name", async |cluster, buyers, _| {
            cluster.terminate(3);
            cluster.set_program(3, false);
            let refused = cluster.refused(cluster.command(3)).await;
            assert_eq!(refused.code, Some(NODE), "{}", refused.stderr);
            let words = [format!("written under version {next}"), format!("this program reads up to {version}")];
            names(&refused, &words);
            // So is a new machine with it, which leaves no trace.
            let home = Home::new();
            let joining = cluster.foreign_command(&home, 4, &SECRET, Some(cluster.client(1)));
            let refused = cluster.refused(joining).await;
            assert_eq!(refused.code, Some(REFUSED), "{}", refused.stderr);
            names(
                &refused,
                &[format!("it reads versions {OLDEST_READ} to {version}, and the cluster is at version {next}")],
            );
            assert_eq!(cluster.members().await.len(), 3);
            buyers.orders(3).await;
            restart(cluster, 3, true).await;
        })
        .await;
    stage.check_everything().await;
    stage.cluster.stop();
}

/// The members' programs as `admin upgrade show` has them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_finishes_an_upgrade_by_itself() {
    let mut stage = Stage::new(Rng::of_test("a_cluster_finishes_an_upgrade_by_itself"), THREE).await;
    stage
        .story("no time to settle", async |cluster, buyers, _| {
            for node in cluster.running() {
                cluster.terminate(node);
                let settings = fs::read_to_string(cluster.home(node).config_file()).expect("a configuration");
                cluster.home(node).write_config(&format!("{settings}\n[upgrade]\nsettle_hours = 0\n"));
                restart(cluster, node, true).await;
                buyers.orders(1).await;
            }
            write_under(cluster, VERSIONS[1]).await;
            let status: Value = cluster.read(1, "admin.nodes", json!({})).await.expect("the members");
            let reads = status["members"].as_array().expect("members").iter().map(|member| &member["reads_up_to"]);
            assert!(reads.clone().all(|reads| *reads == VERSIONS[1]), "{status}");
        })
        .await;
    stage.check_everything().await;
    stage.cluster.stop();
}

/// The newest release, which `tests/run long` builds from history, is rolled to this program and back, and to it again. Then the upgrade is
/// finished, if this program has another version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it needs a released program: tests/run long"]
async fn a_released_program_is_rolled_to_this_one_and_back() {
    let released =
        std::env::var_os("BOXOFFICE_RELEASED").expect("BOXOFFICE_RELEASED is the path of a released program");
    let released = Path::new(&released);
    let mut cluster = Cluster::found(THREE).await;
    (1..=3).for_each(|node| cluster.set_executable(node, Some(released)));
    cluster.start_node(1).await;
    cluster.start_nodes(&[2, 3]).await;
    cluster.ready().await;
    let mut stage = Stage::of(cluster, Rng::of_test("a_released_program_is_rolled_to_this_one_and_back"));
    for (name, program) in [("this program", None), ("and back", Some(released)), ("to the end", None)] {
        stage
            .story(name, async |cluster, buyers, _| {
                for node in cluster.running() {
                    cluster.terminate(node);
                    buyers.orders(3).await;
                    cluster.set_executable(node, program);
                    cluster.start_node(node).await;
                    cluster.ready().await;
                }
                understand_each_other(cluster).await;
            })
            .await;
    }
    cluster_finishes(&stage.cluster).await;
    write_under(&stage.cluster, VERSIONS[0]).await;
    stage.check_everything().await;
    stage.cluster.stop();
}

/// Rolls a cluster ten times. The longest pause of each is printed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it measures"]
async fn ten_rolls() {
    let mut stage = Stage::new(Rng::of_test("ten_rolls"), THREE).await;
    for number in 0..10 {
        let has_next = number % 2 == 0;
        let story = format!("roll {number}, to the next program: {has_next}");
        stage.story(&story, async |cluster, buyers, _| roll(cluster, buyers, has_next).await).await;
    }
    stage.check_everything().await;
}

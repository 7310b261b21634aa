//! A replica whose state differs from that of the majority, although every checksum on its disk is right.

use std::{path::Path, sync::Arc};

use boxoffice_core::{
    id::Entity,
    state_map::{Cut, State},
    version::NEWEST,
};
use boxoffice_env::World;
use boxoffice_storage::{
    snapshot::{self, Snapshot},
    snapshot_files::SnapshotFiles,
};

use crate::{THREE, cluster::Stage, common::Rng};

/// The beginning of the titles of all sessions, and another one of the same length.
const TITLES: &[u8] = b"play-";
const OTHER_TITLES: &[u8] = b"clay-";

/// Orders after which every shard has a snapshot with sessions in it.
const ORDERS: usize = 150;

/// Orders after which another state is surely found.
const ORDERS_MAX: usize = 3_000;

/// A node finds by itself only that a file has changed. That its state is wrong is found when replicas compare their states.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_with_another_state_than_the_majority_replaces_its_disk() {
    let test = "a_replica_with_another_state_than_the_majority_replaces_its_disk";
    let mut stage = Stage::new(Rng::of_test(test), THREE).await;
    stage
        .story("sessions have another title at one node", async |cluster, buyers, rng| {
            buyers.orders(ORDERS).await;
            let node = 1 + rng.below(3) as u64;
            let mut forged = 0;
            while forged == 0 {
                buyers.orders(50).await;
                cluster.terminate(node);
                forged = forge(&cluster.home(node).data_dir());
                if forged > 0 {
                    cluster.home(node).is_whole();
                }
                cluster.start_node(node).await;
            }
            println!("node {node} has {forged} sessions with another title");
            // Few entries are compared, and few of them change such a session.
            let before = buyers.count();
            while !cluster.stderr(node).contains("has another disk") {
                let orders = buyers.count() - before;
                assert!(orders < ORDERS_MAX, "{orders} orders: {}", cluster.stderr(node));
                buyers.orders(20).await;
            }
            println!("found after {} orders", buyers.count() - before);
            let output = cluster.stderr(node);
            for words in ["on a majority of the replicas", "this node replaces its disk by itself"] {
                assert!(output.contains(words), "{words:?} is missing: {output}");
            }
            let others = cluster.running().into_iter().filter(|other| *other != node);
            let mut outputs = others.map(|other| cluster.stderr(other));
            assert!(outputs.all(|output| !output.contains("has another disk")), "another node has replaced its disk");
        })
        .await;
    stage.check_everything().await;
    stage.cluster.stop();
}

/// Gives the sessions in all snapshots of a data directory another title, with the program's own writers. Returns how many there were.
fn forge(data: &Path) -> usize {
    let disk = World::standalone().disk;
    let files = SnapshotFiles::open(disk, &data.join("snapshots")).expect("snapshots");
    let mut count = 0;
    for name in files.list().expect("snapshots") {
        let payload = files.load(name).expect("a snapshot").expect("a good one");
        let Snapshot { meta, store_batches, cut } = snapshot::decode(&payload).expect("a good snapshot");
        let mut other: Option<Cut> = None;
        for (entity, state) in cut.entities() {
            let state = match titled(entity, state, cut.index()) {
                Some(state) => {
                    count += 1;
                    state
                }
                None => Arc::clone(state),
            };
            match &mut other {
                Some(other) => other.add(entity.clone(), state),
                None => other = Some(Cut::one(entity.clone(), state, cut.index())),
            }
        }
        let Some(other) = other else { continue };
        let payload = snapshot::encode(&meta, store_batches, &snapshot::encode_state(&other));
        files.save(NEWEST, name.shard, name.index, &payload).expect("a written snapshot");
    }
    count
}

/// The session with another title. `None` for other entities.
fn titled(entity: &Entity, state: &Arc<State>, index: u64) -> Option<Arc<State>> {
    let Entity::Session(_) = entity else { return None };
    let mut bytes = snapshot::encode_state(&Cut::one(entity.clone(), Arc::clone(state), index));
    // The session's id has the same beginning, and stands before it.
    let at = bytes.windows(TITLES.len()).rposition(|window| window == TITLES)?;
    bytes[at..at + TITLES.len()].copy_from_slice(OTHER_TITLES);
    let other = snapshot::decode_state(&bytes).expect("a session with another title");
    other.entities().next().map(|(_, state)| Arc::clone(state))
}

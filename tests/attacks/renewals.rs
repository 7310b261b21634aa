//! Forged wishes for another disk: somebody wants to be a member in the place of a node that serves. `tests/cluster` runs it, because
//! it needs several nodes.

use std::{
    fs,
    sync::atomic::{AtomicU64, Ordering},
};

use boxoffice_core::command::{Machine, PROOF_BYTES};
use boxoffice_env::World;
use boxoffice_storage::identity::{self, Identity};
use boxoffice_wire::joining;
use serde_json::{Value, json};

use crate::{
    THREE,
    cluster::{Cluster, SECRET, Stage},
    common::{ADMIN, Answer, Buyers, Encoding, Home, Port, Rng},
    repair::{damage_log, kill_with_used_logs},
};

/// A secret that no node has.
const OTHER_SECRET: &str = "0123456789abcdef0123456789abcdef";

fn identity_of(home: &Home) -> Identity {
    let disk = World::standalone().disk;
    identity::read(&*disk, &home.data_dir()).expect("a data directory").expect("an identity")
}

/// What the forger asks for: to be node `node` with the disk `next`, in the place of the disk `damaged`.
struct Wish<'a> {
    secret: &'a str,
    cluster: &'a str,
    node: u64,
    damaged: u128,
    next: u128,
}

impl Wish<'_> {
    fn machine(&self) -> Machine {
        let (peer, client) = ("127.0.0.1:9".into(), "127.0.0.1:10".into());
        Machine { disk: self.next, peer, client, program: "0.2.0".into(), versions: None }
    }

    /// The body of `admin.join`.
    fn body(&self) -> Value {
        let Wish { secret, cluster, node, damaged, next: _ } = *self;
        self.body_with(joining::renewal_proof(secret.as_bytes(), cluster, node, &self.machine(), damaged))
    }

    /// The same as a machine that joins, which proves only that it knows the secret.
    fn body_of_joining(&self) -> Value {
        self.body_with(joining::proof(self.secret.as_bytes(), self.cluster, Some(self.node), &self.machine()))
    }

    fn body_with(&self, proof: [u8; PROOF_BYTES]) -> Value {
        let machine = self.machine();
        json!({
            "node": self.node,
            "disk": format!("{:032x}", self.next),
            "peer": machine.peer,
            "client": machine.client,
            "program": machine.program,
            "proof": joining::written(&proof),
        })
    }
}

/// The table of the cluster, as far as a forger could change it.
async fn members(cluster: &Cluster) -> Value {
    cluster.table().await.expect("a node that answers")["members"].clone()
}

/// The answer to `admin.join` with these credentials.
async fn asks(cluster: &Cluster, token: Option<&str>, body: &Value) -> Answer {
    let port = Port::show(cluster.client(1), Encoding::Json, token).await.expect("the caller is accepted");
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let rid = format!("forged-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    port.ask("admin.join", &rid, body.clone()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_renewals_are_refused_by_name() {
    let founded = Cluster::found(THREE).await;
    for node in 1..=3 {
        let file = founded.home(node).config_file();
        let config = fs::read_to_string(&file).expect("a configuration");
        founded.home(node).write_config(&config.replace("rest_hours = 0", "rest_hours = 24"));
    }
    let rng = Rng::of_test("forged_renewals_are_refused_by_name");
    let mut stage = Stage::of(founded.started().await, rng);
    stage
        .story("forged renewals", async |cluster, buyers, rng| {
            buyers.orders(60).await;
            forge(cluster, buyers, rng).await;
        })
        .await;
    stage.check_everything().await;
    stage.cluster.stop();
}

/// Every answer is the refusal that it should be, and the members stay as they are.
async fn forge(cluster: &mut Cluster, buyers: &mut Buyers, rng: &mut Rng) {
    let Identity { cluster: id, disk, .. } = identity_of(cluster.home(2));
    let (id, before) = (id.to_string(), members(cluster).await);
    let peers_token = joining::token(SECRET.as_bytes());
    let wish = Wish { secret: &SECRET, cluster: &id, node: 2, damaged: disk, next: 7 };

    // Node 2 serves, and the forger knows its disk. It knows no secret, whatever else it knows.
    let guessed = Wish { secret: OTHER_SECRET, ..wish }.body();
    asks(cluster, None, &guessed).await.no(107, "unauthenticated");
    let unproven = {
        let mut body = guessed.clone();
        body.as_object_mut().expect("a map").remove("proof");
        body
    };
    for body in [&guessed, &unproven] {
        asks(cluster, Some(ADMIN), body).await.no(810, "wrong_secret");
    }
    let other_token = joining::token(OTHER_SECRET.as_bytes());
    let shown = Port::show(cluster.client(1), Encoding::Json, Some(&other_token)).await;
    assert!(shown.is_err(), "a token made with another secret is accepted");

    // With the secret, and without the damaged disk.
    let of_node_1 = identity_of(cluster.home(1)).disk;
    let elsewhere = Wish { cluster: "00000000000000000000000000000001", ..wish };
    for (what, body) in [
        ("a guessed disk", Wish { damaged: disk ^ 1, ..wish }.body()),
        ("another node's disk", Wish { damaged: of_node_1, ..wish }.body()),
        ("a node that does not exist", Wish { node: 9, ..wish }.body()),
        ("another cluster", elsewhere.body()),
    ] {
        println!("{what}");
        for token in [ADMIN, &peers_token] {
            asks(cluster, Some(token), &body).await.no(810, "wrong_secret");
        }
    }
    // The proof of a machine that joins is no proof that it has a disk.
    asks(cluster, Some(&peers_token), &wish.body_of_joining()).await.no(812, "not_invited");
    asks(cluster, Some(ADMIN), &wish.body_of_joining()).await.no(803, "disk_differs");
    assert_eq!(members(cluster).await, before);

    // A node really replaces its disk. No other one may for a day, whatever it proves.
    let old = identity_of(cluster.home(3)).disk;
    kill_with_used_logs(cluster, buyers, &[3]).await;
    let _ = damage_log(cluster, 3, rng);
    cluster.start_node(3).await;
    assert!(cluster.stderr(3).contains("has another disk"), "{}", cluster.stderr(3));
    cluster.ready().await;
    let (new, before) = (identity_of(cluster.home(3)).disk, members(cluster).await);
    for (node, damaged) in [(2, disk), (3, new)] {
        let body = Wish { node, damaged, ..wish }.body();
        cluster
            .until("the day is named", async || match asks(cluster, Some(&peers_token), &body).await {
                Answer::No(no) if no.body.to_string().contains("repair.rest_hours") => {
                    assert_eq!((no.code, no.name.as_str()), (814, "not_renewed"));
                    Ok(())
                }
                // The node may still be getting what it lost.
                Answer::No(no) if no.code == 814 => Err(no.body.to_string()),
                other => panic!("node {node} replaces its disk again: {other:?}"),
            })
            .await;
    }
    // The replaced disk is worth nothing more: a wish that was overheard can only be repeated.
    let late = Wish { node: 3, damaged: old, ..wish };
    asks(cluster, Some(&peers_token), &late.body()).await.no(803, "disk_differs");
    asks(cluster, Some(&peers_token), &Wish { next: new, ..late }.body()).await.ok();

    assert_eq!(members(cluster).await, before);
    for node in 1..=3 {
        assert_eq!(cluster.stderr(node).matches("has another disk").count(), usize::from(node == 3));
    }
    assert_eq!(cluster.running(), [1, 2, 3]);
    cluster.ready().await;
}

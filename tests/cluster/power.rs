//! Power cuts that lose each unsynced unit of a disk by itself. Orders have addresses that fill more than a sector, so that the
//! store's journal has batches whose marks are there and whose middle is lost.

use serde_json::json;

use crate::{
    NODE,
    cluster::{Plan, Stage},
    common::{Buyers, Encoding, Home, Record, Refused, Rng, Server, Theatre},
};

const PLAN: Plan = Plan { nodes: 3, places: 3, faults: true, clocks: false, gateway: false };

/// The configuration of a single node: frequent snapshots that need the store, and a store that writes tables.
const CONFIG: &str = "[node]\nshards = 4\n\n[log]\nsegment_bytes = 1_048_576\n\n[snapshots]\nentries = 300\n\n\
                      [history]\nmemtable_bytes = 1_048_576\n";

/// Buyers at a single node.
const BUYERS: usize = 16;

/// Cuts of a single node until all of its orders are checked and its theatre is a new one.
const CUTS_A_THEATRE: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_start_after_power_cuts_of_all() {
    let mut stage = Stage::new(Rng::of_test("nodes_start_after_power_cuts_of_all"), PLAN).await;
    stage
        .story("all nodes lose power, four times", async |cluster, buyers, rng| {
            for _ in 0..4 {
                buyers.orders(20 + rng.below(60)).await;
                let nodes = cluster.running();
                nodes.iter().for_each(|id| cluster.kill(*id));
                cluster.start_nodes(&nodes).await;
            }
        })
        .await;
    stage.check_everything().await;
}

/// A single node that loses power again and again.
struct Cuts {
    home: Home,
    rng: Rng,
    /// The bug that is planted in it.
    planted: &'static str,
    /// The carts of all theatres.
    record: Record,
    /// Ended carts that were read from its store at the end of the last theatre.
    in_store: u64,
}

impl Cuts {
    fn new(test: &str, planted: &'static str) -> Cuts {
        let rng = Rng::of_test(test);
        Cuts {
            home: Home::with_config(CONFIG).with_torn_units(rng.fork(1)),
            rng,
            planted,
            record: Record::default(),
            in_store: 0,
        }
    }

    fn start(&self) -> Result<Server, Refused> {
        let mut command = self.home.command();
        command.env("BOXOFFICE_PLANTED_CORE", self.planted);
        Server::spawn(command)
    }

    /// Cuts the power this many times, and then checks every order.
    async fn cut(&mut self, cuts: usize) -> Result<(), Refused> {
        let mut server = self.start()?;
        let port = server.port(Encoding::MsgPack).await;
        let name = format!("{:x}", self.rng.next());
        let theatre = Theatre::open_called(&port, &name, &name, 40, (30, 40), None).await;
        let mut record = std::mem::take(&mut self.record);
        for _ in 0..cuts {
            let mut buyers = Buyers::start(&server, &theatre, record, BUYERS, &mut self.rng).await;
            buyers.orders(20 + self.rng.below(120)).await;
            server.kill();
            record = buyers.stop().await;
            server = self.start()?;
        }
        record.check(&server, &theatre).await;
        let status = server.port(Encoding::MsgPack).await.read("admin.status", json!({})).await.ok();
        self.in_store = status["carts_archived"].as_u64().expect("a count");
        self.record = record;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_starts_after_power_cuts() {
    let mut cuts = Cuts::new("a_node_starts_after_power_cuts", "");
    cuts.cut(6).await.expect("it starts");
    assert!(cuts.in_store > 0, "no cart has left memory");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: `tests/run long` runs it"]
async fn a_node_starts_after_a_thousand_power_cuts() {
    let mut cuts = Cuts::new("a_node_starts_after_a_thousand_power_cuts", "");
    for done in (0..1_000).step_by(CUTS_A_THEATRE) {
        cuts.cut(CUTS_A_THEATRE).await.expect("it starts");
        println!("{} power cuts, {} carts in the store", done + CUTS_A_THEATRE, cuts.in_store);
    }
}

/// Without the mending the same cuts find a store that is refused, sometimes only after a hundred of them. The tests of the journals
/// themselves find the bug each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: `tests/run long` runs it"]
async fn a_trusted_end_of_a_journal_is_found() {
    let mut cuts = Cuts::new("a_trusted_end_of_a_journal_is_found", "a journal's end is trusted");
    for done in 0..20 {
        if let Err(refused) = cuts.cut(CUTS_A_THEATRE).await {
            println!("refused after {done} theatres");
            assert_eq!(refused.code, Some(NODE), "{}", refused.stderr);
            assert!(refused.stderr.contains("ChecksumMismatch"), "{}", refused.stderr);
            return;
        }
    }
    panic!("the planted bug is not found");
}

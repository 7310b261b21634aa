//! A cluster, buyers that use any node, a watcher at each node, and the checks after a fault.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{
    nodes::{Cluster, Plan},
    watchers::Watchers,
};
use crate::common::{
    Answer, BuyerConnection, Buyers, Encoding, Goods, Port, Record, Rng, TIMEOUT, Theatre, eventually, fixture::audit,
};

/// Concurrent buyers.
pub(crate) const BUYERS: usize = 8;

/// Carts that are read again at nodes that are not asked for all of them.
const SAMPLE: usize = 40;

/// The least duration of a fault with a visible effect: links are dropped and leaders elected meanwhile.
const FAULT_TIME: Duration = Duration::from_secs(3);

/// The least number of orders during a fault.
const ORDERS: usize = 10;

/// Replicas of a shard of carts and sessions.
const REPLICAS: u64 = 3;

pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    pub(crate) rng: Rng,
    /// The sessions so far, sold out or not.
    pub(crate) theatre: Theatre,
    pub(crate) record: Record,
    /// Whether buyers also buy places, units and time, and name a customer.
    pub(crate) sells_everything: bool,
    watchers: Option<Watchers>,
    /// Carts that were checked at every node already.
    pub(super) checked: usize,
    /// Permanently failed payment steps that an operator has settled.
    pub(super) settled: BTreeSet<String>,
    plays: usize,
}

impl Stage {
    pub(crate) async fn new(rng: Rng, plan: Plan) -> Stage {
        Stage::with(rng, Cluster::start(plan).await)
    }

    /// A stage on a running cluster.
    pub(crate) fn of(cluster: Cluster, rng: Rng) -> Stage {
        Stage::with(rng, cluster)
    }

    /// The same with this cluster.
    pub(crate) fn with(rng: Rng, cluster: Cluster) -> Stage {
        let theatre = Theatre { sessions: Vec::new(), rows: 0, seats: 0, price: 0, goods: None };
        let record = Record::default();
        Stage {
            cluster,
            rng,
            theatre,
            record,
            sells_everything: false,
            watchers: None,
            checked: 0,
            settled: BTreeSet::new(),
            plays: 0,
        }
    }

    /// Creates new sessions, and starts buyers of them.
    pub(crate) async fn begin(&mut self) -> Buyers {
        self.theatre = self.play(8, (30, 40), None).await;
        if self.sells_everything {
            let port = self.cluster.port(self.cluster.running()[0]).await;
            let mut goods = Goods::open(&port, self.plays).await;
            goods.through_gateway = self.cluster.gateway.is_some();
            self.theatre.goods = Some(goods);
        }
        let nodes: Vec<_> = self.cluster.running().into_iter().map(|id| (id, self.cluster.client(id))).collect();
        self.watchers = Some(Watchers::start(nodes, &self.theatre));
        let connections: Vec<Arc<dyn BuyerConnection>> = (0..BUYERS)
            .map(|_| Arc::new(self.cluster.failover_client(self.rng.next())) as Arc<dyn BuyerConnection>)
            .collect();
        let record = std::mem::take(&mut self.record);
        Buyers::start_at(connections, &self.theatre, record, &mut self.rng)
    }

    /// Creates this many sessions.
    pub(crate) async fn play(&mut self, sessions: usize, rows_seats: (u16, u16), ttl_ms: Option<u64>) -> Theatre {
        self.plays += 1;
        let (venue, title) = (format!("royal-{}", self.plays), format!("play-{}", self.plays));
        let nodes = self.cluster.running();
        let port = self.cluster.port(nodes[self.rng.below(nodes.len())]).await;
        Theatre::open_called(&port, &venue, &title, sessions, rows_seats, ttl_ms).await
    }

    /// Injects one fault under load. Buyers buy before it, during it where the fault allows, and after it. Then everything is
    /// checked.
    pub(crate) async fn story(&mut self, name: &str, fault: impl AsyncFnOnce(&mut Cluster, &mut Buyers, &mut Rng)) {
        println!("--- {name}");
        let began = Instant::now();
        let mut buyers = self.begin().await;
        buyers.orders(10).await;
        let struck = Instant::now();
        fault(&mut self.cluster, &mut buyers, &mut self.rng).await;
        self.cluster.links.heal();
        let healed = Instant::now();
        buyers.orders(1).await;
        let first = healed.elapsed();
        self.cluster.ready().await;
        let ready = healed.elapsed();
        buyers.orders(10).await;
        self.end(buyers).await;
        println!(
            "--- {name}: {:?}, {:?} of it the fault; an order {first:?}, ready {ready:?} after healing; longest gap {} ms",
            began.elapsed(),
            healed - struck,
            self.record.longest_gap_ms(struck),
        );
    }

    /// Stops the buyers, and checks everything.
    pub(crate) async fn end(&mut self, buyers: Buyers) {
        self.end_with(buyers, async |_| {}).await;
    }

    /// The same with further carts to check.
    pub(crate) async fn end_with(&mut self, buyers: Buyers, add: impl AsyncFnOnce(&mut Stage)) {
        let stopping = Instant::now();
        self.record = buyers.stop().await;
        add(self).await;
        let stopped = stopping.elapsed();
        self.cluster.converged().await;
        let converged = stopping.elapsed();
        self.check().await;
        println!("stopped after {stopped:?}, converged after {converged:?}, checked after {:?}", stopping.elapsed());
    }

    /// Checks that every node agrees with the buyers' record, and that watchers see the final maps.
    async fn check(&mut self) {
        let nodes = self.cluster.running();
        let first = self.rng.below(nodes.len());
        let carts = self.record.carts.len();
        for (number, &node) in nodes[first..].iter().chain(&nodes[..first]).enumerate() {
            let port = self.cluster.port(node).await;
            let from = if number == 0 { self.checked } else { self.checked.max(carts.saturating_sub(SAMPLE)) };
            self.record.check_carts(&port, from).await;
            self.record.check_maps(&port, &self.theatre).await;
            if let Some(goods) = &self.theatre.goods {
                goods.check(&port, &self.record).await;
            }
            self.record.check_histories(&port, &self.theatre).await;
            if number == 0 {
                self.record.check_repeats(&port).await;
            }
        }
        self.check_money(&nodes).await;
        self.checked = carts;
        self.check_audits(&nodes).await;
        self.check_watchers(&nodes).await;
    }

    /// Checks every order of the whole run at every node.
    pub(crate) async fn check_everything(&mut self) {
        self.cluster.converged().await;
        let nodes = self.cluster.running();
        for &node in &nodes {
            self.record.check_carts(&self.cluster.port(node).await, 0).await;
        }
        self.check_audits(&nodes).await;
        let (carts, orders) = (self.record.carts.len(), self.record.orders());
        println!(
            "{carts} carts, {orders} orders, {} repeats; {} nodes; refusals {:?}",
            self.cluster.endpoints.repeated(),
            nodes.len(),
            self.record.refused
        );
    }

    /// Checks that the nodes' audits find no violation and that their sums equal ours: those of each node, or the total where not
    /// every node has all replicas.
    async fn check_audits(&self, nodes: &[u64]) {
        for &node in nodes.iter().filter(|_| nodes.len() as u64 <= REPLICAS) {
            self.record.check_audit(&self.cluster.port(node).await).await;
        }
        let copies = REPLICAS.min(nodes.len() as u64);
        // The nodes count one after the other, and holds may expire meanwhile.
        eventually("as many seats are held in sessions as in carts", async || {
            let mut audits = Vec::new();
            for &node in nodes {
                audits.push(audit(&self.cluster.port(node).await).await);
            }
            let sum = |name: &str| audits.iter().map(|audit| audit[name].as_u64().expect("a sum")).sum::<u64>();
            assert_eq!(sum("orders"), copies * self.record.orders() as u64, "{audits:#?}");
            assert_eq!(sum("order_seats"), sum("sold_seats"), "{audits:#?}");
            (sum("held_seats") == sum("cart_seats")).then_some(())
        })
        .await;
    }

    async fn check_watchers(&mut self, nodes: &[u64]) {
        let Some(mut watchers) = self.watchers.take() else { return };
        let port = self.cluster.port(nodes[0]).await;
        for session in &self.theatre.sessions {
            let map = self.theatre.map(&port, session).await;
            watchers.expect_map(nodes, session, &map).await;
        }
    }
}

/// A lasting fault, with orders during and after it.
pub(crate) async fn sustain_fault(buyers: &mut Buyers) {
    let (before, began) = (buyers.count(), Instant::now());
    sleep(FAULT_TIME).await;
    let meanwhile = buyers.count() - before;
    buyers.orders(ORDERS).await;
    println!(
        "{meanwhile} orders in {FAULT_TIME:?}, {ORDERS} more until {:?}; {:?}",
        began.elapsed(),
        buyers.refused_so_far()
    );
}

/// Checks that no leader changes while some nodes cannot reach each other.
pub(crate) async fn leaders_are_stable(cluster: &Cluster) {
    let before = cluster.terms().await;
    sleep(FAULT_TIME).await;
    assert_eq!(cluster.terms().await, before, "elections repeat");
}

/// Sends an isolated node a request that needs other nodes. It must fail before the deadline.
pub(crate) async fn refuses_in_time(cluster: &Cluster, node: u64, token: String) {
    let port = Port::connect(cluster.client(node), Encoding::Json).await;
    let frame = json!({"op": "cart.open", "rid": "alone", "deadline_ms": 1_000, "body": {"token": token}});
    let answer = port.exchange(frame, TIMEOUT).await;
    assert!(
        matches!(answer, Answer::Fail(901..=904)),
        "node {node} is isolated and must fail the request before the deadline: {answer:?}"
    );
}
